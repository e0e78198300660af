//! `messages`: a row for each RPC-over-RDMA message of a transaction, call and reply.

use crate::export::parquet::Table;
use crate::export::parquet::column::Leaf::{Boolean, Text, Time, U16, U32, U64};
use crate::export::parquet::column::{Column, one, records};
use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_present::names;
use rdmascope_present::words;
use rdmascope_wire::Stop;
use rdmascope_wire::rpcrdma::Segment;

pub(in super::super) struct Messages;

/// A message of a transaction.
pub(in super::super) struct MessageRow<'a> {
    pub(in super::super) transaction: &'a Transaction,
    pub(in super::super) message: &'a Message,
    /// Whether it is the reply; else it is the call.
    pub(in super::super) is_reply: bool,
}

impl Table for Messages {
    type Row<'a> = MessageRow<'a>;
    const NAME: &'static str = "messages";
    const COLUMNS: &'static [&'static [Column<Messages>]] = &[
        &[
            one("number", U64(|row, out| out.put(row.transaction.number))),
            one("connection", U32(|row, out| out.put(row.transaction.connection.0))),
            one("direction", Text(|row, out| out.put(names::direction(row.transaction.direction)))),
            one("xid", U32(|row, out| out.put(row.transaction.xid.0))),
            one("is_reply", Boolean(|row, out| out.put(row.is_reply))),
            one("frame", U64(|row, out| out.put(row.message.seen.frame))),
            one("time", Time(|row, out| out.put(row.message.seen.time))),
            one("first_frame", U64(|row, out| out.put(row.message.first.frame))),
            one("first_time", Time(|row, out| out.put(row.message.first.time))),
            one("version", U32(|row, out| out.put(row.message.version))),
            one("procedure", Text(|row, out| out.show(Some(row.message.procedure)))),
            one("credits", U32(|row, out| out.put(row.message.credits))),
            one("header_length", U32(|row, out| out.put(row.message.header_length))),
            one("send_length", U32(|row, out| out.put(row.message.send_length))),
            one("message_length", U64(|row, out| out.put(row.message.message_length))),
            one("rpc_xid", U32(|row, out| out.put(row.message.rpc_xid.map(|xid| xid.0)))),
            one("invalidated", U32(|row, out| out.put(row.message.invalidated.map(|rkey| rkey.0)))),
            one("read_chunk_count", U32(|row, out| out.put(row.message.read_chunks.len() as u32))),
            one("read_chunk_bytes", U64(|row, out| out.put(bytes(row.read_segments())))),
            records(
                "read_segments",
                &[
                    ("position", U32(|row, out| row.read_segments().for_each(|(at, _)| out.put(at)))),
                    ("handle", U32(|row, out| row.read_segments().for_each(|(_, it)| out.put(it.handle.0)))),
                    ("length", U32(|row, out| row.read_segments().for_each(|(_, it)| out.put(it.length)))),
                    ("offset", U64(|row, out| row.read_segments().for_each(|(_, it)| out.put(it.offset)))),
                ],
            ),
            one("write_chunk_count", U32(|row, out| out.put(row.message.write_chunks.len() as u32))),
            one("write_chunk_bytes", U64(|row, out| out.put(bytes(row.write_segments())))),
            records(
                "write_segments",
                &[
                    ("chunk", U32(|row, out| row.write_segments().for_each(|(index, _)| out.put(index)))),
                    ("handle", U32(|row, out| row.write_segments().for_each(|(_, it)| out.put(it.handle.0)))),
                    ("length", U32(|row, out| row.write_segments().for_each(|(_, it)| out.put(it.length)))),
                    ("offset", U64(|row, out| row.write_segments().for_each(|(_, it)| out.put(it.offset)))),
                ],
            ),
            one("has_reply_chunk", Boolean(|row, out| out.put(row.message.reply_chunk.is_some()))),
            one("reply_chunk_bytes", U64(|row, out| out.put(bytes(row.reply_segments())))),
            records(
                "reply_segments",
                &[
                    ("handle", U32(|row, out| row.reply_segments().for_each(|(_, it)| out.put(it.handle.0)))),
                    ("length", U32(|row, out| row.reply_segments().for_each(|(_, it)| out.put(it.length)))),
                    ("offset", U64(|row, out| row.reply_segments().for_each(|(_, it)| out.put(it.offset)))),
                ],
            ),
            records(
                "missing",
                &[
                    ("part", Text(|row, out| row.missing_parts().for_each(|(part, _)| out.put(part)))),
                    ("index", U16(|row, out| row.missing_parts().for_each(|(_, index)| out.put(index)))),
                    ("start", U64(|row, out| row.message.missing.iter().for_each(|one| out.put(one.start)))),
                    ("end", U64(|row, out| row.message.missing.iter().for_each(|one| out.put(one.end)))),
                ],
            ),
        ],
        stop_columns!("stop", stop),
    ];
}

impl<'a> MessageRow<'a> {
    /// Each with the Position of its chunk.
    fn read_segments(&self) -> impl Iterator<Item = (u32, &'a Segment)> + use<'a> {
        let chunks = self.message.read_chunks.iter();
        chunks.flat_map(|chunk| chunk.segments.iter().map(|segment| (chunk.position, segment)))
    }

    /// Each with the index of its chunk.
    fn write_segments(&self) -> impl Iterator<Item = (u32, &'a Segment)> + use<'a> {
        let chunks = (0..).zip(&self.message.write_chunks);
        chunks.flat_map(|(index, chunk)| chunk.segments.iter().map(move |segment| (index, segment)))
    }

    /// Those of the one Reply chunk, which has the index 0.
    fn reply_segments(&self) -> impl Iterator<Item = (u32, &'a Segment)> + use<'a> {
        let chunk = self.message.reply_chunk.iter();
        chunk.flat_map(|chunk| chunk.segments.iter().map(|segment| (0, segment)))
    }

    fn missing_parts(&self) -> impl Iterator<Item = (&'static str, Option<u16>)> + use<'a> {
        self.message.missing.iter().map(|missing| words::part(missing.part))
    }
}

/// How long the segments are together.
fn bytes<'a>(segments: impl Iterator<Item = (u32, &'a Segment)>) -> u64 {
    segments.map(|(_, segment)| u64::from(segment.length)).sum()
}

fn stop(row: &MessageRow<'_>) -> Option<Stop> {
    row.message.stop
}
