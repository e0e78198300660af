//! `call` and `reply` of a transaction, and the rows of the table `messages`.

use super::shared::{PARTS, SEGMENT, STOP, columns_of_segment};
use crate::column::Read::{Boolean, Frame, Key, Object, Objects, Shown, Time, U16, U32, U64, Word, Xid};
use crate::column::{Column, Columns, Role, Subject, Within, lend};
use crate::words;
use rdmascope_analysis::names;
use rdmascope_dissector::transaction::{Chunk, Message, Missing, ReadChunk, Transaction};
use rdmascope_wire::rpcrdma::Segment;

/// A message of a transaction.
#[derive(Clone, Copy)]
pub struct MessageRow<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// The message.
    pub message: &'a Message,
    /// Whether the message is the reply.
    pub is_reply: bool,
}

impl Subject for MessageRow<'static> {
    type Of<'a> = MessageRow<'a>;
}

/// The call or the reply of a transaction.
pub static MESSAGE: Columns<MessageRow<'static>> = {
    type C = Column<MessageRow<'static>>;
    type O<U> = Within<MessageRow<'static>, U>;
    Columns {
        name: "message",
        role: Role::Shared,
        columns: &[
            C::new("number", U64(|row| Some(row.transaction.number)), "The number of the transaction.")
                .parquet_only(),
            C::connection(|row| Some(row.transaction.connection.0)).parquet_only(),
            C::direction(|row| Some(names::direction(row.transaction.direction))).parquet_only(),
            C::xid(|row| Some(row.transaction.xid.0)).parquet_only(),
            C::new(
                "is_reply",
                Boolean(|row| Some(row.is_reply)),
                "Whether the message is the reply. If not, it is the call.",
            )
            .parquet_only(),
            C::new("frame", Frame(|row| Some(row.message.seen.frame)), "The packet that completed the Send."),
            C::new("time", Time(|row| Some(row.message.seen.time)), "The time of that packet."),
            C::new("first_frame", Frame(|row| Some(row.message.first.frame)), "The first packet of the Send."),
            C::new("first_time", Time(|row| Some(row.message.first.time)), "The time of that packet."),
            C::new("version", U32(|row| Some(row.message.version)), "rdma_vers: 1."),
            C::new(
                "procedure",
                Shown(|row, see| see(&row.message.procedure)),
                "rdma_proc: `RDMA_MSG`, `RDMA_NOMSG`, `RDMA_MSGP`, `RDMA_DONE`, `RDMA_ERROR`, or `rdma_proc` with a number that has no name.",
            ),
            C::new(
                "credits",
                U32(|row| Some(row.message.credits)),
                "rdma_credit: the credits that a call requests, or that a reply grants.",
            ),
            C::new(
                "header_length",
                U32(|row| Some(row.message.header_length)),
                "The length of the RPC-over-RDMA header.",
            ),
            C::new(
                "send_length",
                U32(|row| Some(row.message.send_length)),
                "The length of the whole Send, header included.",
            ),
            C::new(
                "message_length",
                U64(|row| row.message.message_length),
                "The length of the RPC message before reduction.",
            )
            .or_null(),
            C::new(
                "rpc_xid",
                Xid(|row| row.message.rpc_xid.map(|xid| xid.0)),
                "The XID in the RPC message itself, which should equal rdma_xid. It is null if it could not be read.",
            )
            .or_null(),
            C::new(
                "invalidated",
                Key(|row| row.message.invalidated.map(|rkey| rkey.0)),
                "The R_Key that the Send invalidated.",
            )
            .or_null(),
            C::new(
                "read_chunks",
                Objects(&O { columns: &READ_CHUNK, lend: |row, see| row.message.read_chunks.iter().for_each(see) }),
                "The Read chunks.",
            )
            .json_only(),
            C::new(
                "read_chunk_count",
                U32(|row| Some(row.message.read_chunks.len() as u32)),
                "The number of Read chunks. Read segments with the same Position are one chunk.",
            )
            .parquet_only(),
            C::new(
                "read_chunk_bytes",
                U64(|row| Some(row.message.read_chunks.iter().map(|chunk| Segment::total(&chunk.segments)).sum())),
                "The total length of the Read chunks.",
            )
            .parquet_only(),
            C::new(
                "read_segments",
                Objects(&O { columns: &READ_SEGMENT, lend: read_segments }),
                "The segments of the Read chunks, as in the header.",
            )
            .parquet_only(),
            C::new(
                "write_chunks",
                Objects(&O { columns: &CHUNK, lend: |row, see| row.message.write_chunks.iter().for_each(see) }),
                "The Write chunks.",
            )
            .json_only(),
            C::new(
                "write_chunk_count",
                U32(|row| Some(row.message.write_chunks.len() as u32)),
                "The number of Write chunks, including empty ones.",
            )
            .parquet_only(),
            C::new(
                "write_chunk_bytes",
                U64(|row| Some(row.message.write_chunks.iter().map(|chunk| Segment::total(&chunk.segments)).sum())),
                "The total length of the Write chunks: in a call, the bytes that the responder may write; in a reply, the bytes written according to the responder.",
            )
            .parquet_only(),
            C::new(
                "write_segments",
                Objects(&O { columns: &WRITE_SEGMENT, lend: write_segments }),
                "The segments of the Write chunks.",
            )
            .parquet_only(),
            C::new(
                "reply_chunk",
                Object(&O { columns: &CHUNK, lend: |row, see| lend(row.message.reply_chunk.as_ref(), see) }),
                "The Reply chunk.",
            )
            .or_null()
            .json_only(),
            C::new(
                "has_reply_chunk",
                Boolean(|row| Some(row.message.reply_chunk.is_some())),
                "Whether there is a Reply chunk.",
            )
            .parquet_only(),
            C::new(
                "reply_chunk_bytes",
                U64(|row| Some(Segment::total(reply_segments(row)))),
                "The length of the Reply chunk.",
            )
            .parquet_only(),
            C::new(
                "reply_segments",
                Objects(&O { columns: &SEGMENT, lend: |row, see| reply_segments(row).iter().copied().for_each(see) }),
                "The segments of the Reply chunk.",
            )
            .parquet_only(),
            C::new(
                "missing",
                Objects(&O { columns: &MISSING, lend: |row, see| row.message.missing.iter().for_each(see) }),
                "The byte ranges that should have moved but are missing from the capture.",
            ),
            C::new(
                "stop",
                Object(&O { columns: &STOP, lend: |row, see| lend(row.message.stop, see) }),
                "Where parsing of the header stopped.",
            )
            .or_null(),
        ],
    }
};

fn reply_segments(row: MessageRow<'_>) -> &[Segment] {
    row.message.reply_chunk.as_ref().map_or(&[], |chunk| &chunk.segments)
}

/// Lends each Read segment with the Position of its chunk.
fn read_segments(row: MessageRow<'_>, see: &mut dyn FnMut((u32, Segment))) {
    for chunk in &row.message.read_chunks {
        chunk.segments.iter().for_each(|segment| see((chunk.position, *segment)));
    }
}

/// Lends each Write segment with the index of its chunk.
fn write_segments(row: MessageRow<'_>, see: &mut dyn FnMut((u32, Segment))) {
    for (index, chunk) in (0..).zip(&row.message.write_chunks) {
        chunk.segments.iter().for_each(|segment| see((index, *segment)));
    }
}

impl Subject for ReadChunk {
    type Of<'a> = &'a ReadChunk;
}

static READ_CHUNK: Columns<ReadChunk> = {
    type C = Column<ReadChunk>;
    type O<U> = Within<ReadChunk, U>;
    Columns {
        name: "read_chunk",
        role: Role::Inner,
        columns: &[
            C::new(
                "position",
                U32(|chunk| Some(chunk.position)),
                "The Position of the chunk. Position 0: a Position Zero Read chunk.",
            ),
            C::new(
                "segments",
                Objects(&O {
                    columns: &SEGMENT,
                    lend: |chunk, see| chunk.segments.iter().copied().for_each(see),
                }),
                "The segments, as in the header.",
            ),
        ],
    }
};

impl Subject for Chunk {
    type Of<'a> = &'a Chunk;
}

static CHUNK: Columns<Chunk> = {
    type C = Column<Chunk>;
    type O<U> = Within<Chunk, U>;
    Columns {
        name: "chunk",
        role: Role::Inner,
        columns: &[C::new(
            "segments",
            Objects(&O {
                columns: &SEGMENT,
                lend: |chunk, see| chunk.segments.iter().copied().for_each(see),
            }),
            "The segments, as in the header.",
        )],
    }
};

/// A segment of a Read chunk, with the Position of the chunk.
struct ReadSegment;

impl Subject for ReadSegment {
    type Of<'a> = (u32, Segment);
}

static READ_SEGMENT: Columns<ReadSegment> = {
    type C = Column<ReadSegment>;
    Columns {
        name: "read_segment",
        role: Role::Inner,
        columns: columns_of_segment!(
            C,
            |(_, segment)| segment,
            C::new(
                "position",
                U32(|(position, _)| Some(position)),
                "The Position of the chunk. Position 0: a Position Zero Read chunk.",
            ),
        ),
    }
};

/// A segment of a Write chunk, with the index of the chunk.
struct WriteSegment;

impl Subject for WriteSegment {
    type Of<'a> = (u32, Segment);
}

static WRITE_SEGMENT: Columns<WriteSegment> = {
    type C = Column<WriteSegment>;
    Columns {
        name: "write_segment",
        role: Role::Inner,
        columns: columns_of_segment!(
            C,
            |(_, segment)| segment,
            C::new(
                "chunk",
                U32(|(chunk, _)| Some(chunk)),
                "The index of the chunk in the Write list, from 0.",
            ),
        ),
    }
};

impl Subject for Missing {
    type Of<'a> = &'a Missing;
}

static MISSING: Columns<Missing> = {
    type C = Column<Missing>;
    Columns {
        name: "missing",
        role: Role::Inner,
        columns: &[
            C::new(
                "part",
                Word(PARTS, |missing| Some(words::part(missing.part).0)),
                "The part of the message.",
            ),
            C::new("index", U16(|missing| words::part(missing.part).1), "The index of the chunk, from 0.")
                .or_null(),
            C::new("start", U64(|missing| Some(missing.start)), "The first byte."),
            C::new(
                "end",
                U64(|missing| missing.end),
                "The byte after the last. It is null if the length is unknown.",
            )
            .or_null(),
        ],
    }
};
