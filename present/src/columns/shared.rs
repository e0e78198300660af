//! Objects that several kinds of lines contain.

use crate::column::Read::{Boolean, Frame, Shown, Time, U8, U32, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Words, word};
use crate::words;
use rdmascope_dissector::connection::PrivateData;
use rdmascope_dissector::record;
use rdmascope_dissector::transaction::Seen;
use rdmascope_wire::Stop;
use rdmascope_wire::rpcrdma::Segment;

/// The meaning of `bytes` of a transaction, and of several.
pub(super) const PAYLOAD_BYTES: &str = "Payload bytes: those of DDP-eligible items in arguments and results. \
    Without such items, the bytes that RDMA Reads and RDMA Writes moved.";

impl Subject for Stop {
    type Of<'a> = Stop;
}

/// Where parsing stopped.
pub static STOP: Columns<Stop> = {
    type C = Column<Stop>;
    Columns {
        name: "stop",
        role: Role::Shared,
        columns: &[
            C::new("layer", Shown(|stop, see| see(&stop.layer)), "The header in which parsing stopped."),
            C::new(
                "offset",
                U64(|stop| Some(stop.offset as u64)),
                "Where parsing stopped: bytes from the start of that header.",
            ),
            C::new("needed", U64(|stop| Some(stop.needed as u64)), "Bytes needed at that offset."),
            C::new("available", U64(|stop| Some(stop.available as u64)), "Bytes available at that offset."),
            C::new(
                "cause",
                Word(&[word("truncated-capture"), word("truncated-packet"), word("malformed")], |stop| {
                    Some(words::cause(stop.cause))
                }),
                "Why.",
            ),
        ],
    }
};

impl Subject for Segment {
    type Of<'a> = Segment;
}

/// The columns of a segment, after any other columns of the row. `C` is the column type; the
/// closure returns the segment of a row.
macro_rules! columns_of_segment {
    ($column:ident, |$row:pat_param| $segment:expr $(, $others:expr)* $(,)?) => {
        &[
            $($others,)*
            $column::new("handle", $crate::column::Read::Key(|$row| Some($segment.handle.0)), "The R_Key of the memory."),
            $column::new("length", $crate::column::Read::U32(|$row| Some($segment.length)), "The length in bytes."),
            $column::new("offset", $crate::column::Read::Offset(|$row| Some($segment.offset)), "The address of the memory."),
        ]
    };
}
pub(super) use columns_of_segment;

/// A segment of registered memory.
pub static SEGMENT: Columns<Segment> = {
    type C = Column<Segment>;
    Columns { name: "segment", role: Role::Shared, columns: columns_of_segment!(C, |segment| segment) }
};

impl Subject for PrivateData {
    type Of<'a> = PrivateData;
}

/// RFC 8797 private data.
pub static PRIVATE_DATA: Columns<PrivateData> = {
    type C = Column<PrivateData>;
    Columns {
        name: "private_data",
        role: Role::Shared,
        columns: &[
            C::new("offset", U8(|data| Some(data.offset)), "Bytes before the format identifier."),
            C::new("version", U8(|data| Some(data.version)), "The version of the format."),
            C::new("reserved", U8(|data| Some(data.reserved)), "The reserved bits."),
            C::new("remote_invalidation", Boolean(|data| Some(data.remote_invalidation)), "The R bit."),
            C::new("send_size", U32(|data| Some(data.send_size)), "The largest Send of the end, in bytes."),
            C::new(
                "receive_size",
                U32(|data| Some(data.receive_size)),
                "The largest Send that the end can receive, in bytes.",
            ),
        ],
    }
};

impl Subject for Seen {
    type Of<'a> = Seen;
}

/// A packet in the capture.
pub(super) static SEEN: Columns<Seen> = {
    type C = Column<Seen>;
    Columns {
        name: "packet",
        role: Role::Inner,
        columns: &[
            C::new("frame", Frame(|seen| Some(seen.frame)), "The number of the packet."),
            C::new("time", Time(|seen| Some(seen.time)), "The time of the packet."),
        ],
    }
};

/// First and last time.
pub(super) struct Span;

impl Subject for Span {
    type Of<'a> = (record::Time, record::Time);
}

/// The time of the first and of the last packet.
pub(super) static SPAN: Columns<Span> = {
    type C = Column<Span>;
    Columns {
        name: "span",
        role: Role::Inner,
        columns: &[
            C::new("first", Time(|(first, _)| Some(first)), "The time of the first packet."),
            C::new("last", Time(|(_, last)| Some(last)), "The time of the last packet."),
        ],
    }
};

/// The parts of a message.
pub(super) static PARTS: Words =
    &[word("send"), word("read-chunk"), word("write-chunk"), word("reply-chunk")];

/// A range of bytes: the first byte, and the byte after the last.
pub(super) struct Range;

impl Subject for Range {
    type Of<'a> = (u64, u64);
}

/// A range of bytes.
pub(super) static RANGE: Columns<Range> = {
    type C = Column<Range>;
    Columns {
        name: "range",
        role: Role::Inner,
        columns: &[
            C::new("start", U64(|(start, _)| Some(start)), "The first byte."),
            C::new("end", U64(|(_, end)| Some(end)), "The byte after the last."),
        ],
    }
};
