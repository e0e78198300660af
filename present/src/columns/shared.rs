//! Columns and objects that several kinds of lines contain.

use crate::column::Read::{Boolean, Frame, Shown, Time, U8, U32, U64, Word, Xid};
use crate::column::{Column, Columns, LendShown, Reader, Role, Subject, Words, explained, word};
use crate::words;
use rdmascope_dissector::connection::PrivateData;
use rdmascope_dissector::record;
use rdmascope_dissector::transaction::Seen;
use rdmascope_wire::Stop;
use rdmascope_wire::rpcrdma::Segment;

/// The meaning of `bytes` of a transaction, and of several.
pub(super) const PAYLOAD_BYTES: &str = "Payload bytes: those of DDP-eligible items in arguments and results. \
    Without such items, the bytes that RDMA Reads and RDMA Writes moved.";

/// The direction of a transaction.
pub(super) static DIRECTIONS: Words = &[
    explained("forward", "the end that opened the connection calls"),
    explained("backward", "the other end calls (RFC 8167)"),
];

/// The ends of a connection.
pub(super) static ENDS: Words =
    &[explained("requester", "the end that opened the connection"), explained("responder", "the other end")];

/// The levels of rules.
static LEVELS: Words = &[word("violation"), word("warning"), word("advice")];

/// Columns that several lists have, with one name and one meaning.
impl<S: Subject> Column<S> {
    pub(super) const fn connection(read: Reader<S, u32>) -> Column<S> {
        Column::new("connection", U32(read), "The number of the connection.")
    }

    pub(super) const fn xid(read: Reader<S, u32>) -> Column<S> {
        Column::new("xid", Xid(read), "rdma_xid.")
    }

    pub(super) const fn direction(read: Reader<S, &'static str>) -> Column<S> {
        Column::new("direction", Word(DIRECTIONS, read), "Which end calls.")
    }

    /// The protocol of an operation; null if no call was captured.
    pub(super) const fn protocol(lend: LendShown<S>) -> Column<S> {
        const MEANING: &str = "The program and its version as one name: `NFSv3`, `NFSv4.1`. It is null if the \
            call was not captured.";
        Column::new("protocol", Shown(lend), MEANING).or_null()
    }

    pub(super) const fn operation(lend: LendShown<S>) -> Column<S> {
        Column::new("operation", Shown(lend), "The principal operation, or the procedure.")
    }

    /// The level of a rule.
    pub(super) const fn level(read: Reader<S, &'static str>) -> Column<S> {
        Column::new("level", Word(LEVELS, read), "The severity of the rule.")
    }

    pub(super) const fn missing_packets(read: Reader<S, u64>) -> Column<S> {
        Column::new("missing_packets", U64(read), "Request packets missing from the capture.")
    }

    pub(super) const fn snapped(read: Reader<S, u64>) -> Column<S> {
        Column::new("snapped", U64(read), "Packets truncated by a snap length.")
    }

    pub(super) const fn evictions(read: Reader<S, u64>) -> Column<S> {
        Column::new("evictions", U64(read), "Table entries evicted because a table was full.")
    }
}

/// The word for the direction of a transaction.
pub(super) const fn direction(backward: bool) -> &'static str {
    if backward { "backward" } else { "forward" }
}

/// Rounds to four decimals.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

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
