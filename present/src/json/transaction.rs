//! Transactions.

use super::{Hex, SegmentView, Shown, StopView, time};
use crate::names::{self, SecurityName};
use crate::phases::Phases;
use crate::text::HexBytes;
use crate::words;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Chunk, Message, Missing, ReadChunk, Seen, Transaction};
use rdmascope_dissector::ulb::{Details, Item, Operation, Text};
use rdmascope_wire::rpcrdma::{self, Segment};
use rdmascope_wire::{Xid, rpc};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

/// `"type":"transaction"`.
#[derive(Serialize)]
pub struct TransactionLine<'a> {
    r#type: &'static str,
    number: u64,
    connection: u32,
    direction: &'static str,
    xid: Hex<8>,
    program: Option<u32>,
    version: Option<u32>,
    minor_version: Option<u32>,
    procedure: Option<u32>,
    name: Option<&'static str>,
    operations: OperationNames<'a>,
    status: Option<u32>,
    status_name: Option<&'static str>,
    outcome: &'static str,
    rpc_status: Option<Shown<rpc::Status>>,
    error: Option<Shown<rpcrdma::Error>>,
    security: Option<Shown<SecurityName>>,
    capture_gap: bool,
    latency_ns: Option<u64>,
    phases: Option<PhasesView>,
    read_bytes: u64,
    written_bytes: u64,
    reads: Option<SpanView>,
    writes: Option<SpanView>,
    call: Option<MessageView<'a>>,
    reply: Option<MessageView<'a>>,
    done: Option<SeenView>,
    operation_details: OperationDetails<'a>,
    stop: Option<StopView>,
}

impl<'a> From<&'a Transaction> for TransactionLine<'a> {
    fn from(transaction: &'a Transaction) -> TransactionLine<'a> {
        let procedure = transaction.procedure;
        let name_of = move |status: u32| {
            procedure.and_then(|called| names::status_name(called.program, called.version, status))
        };
        TransactionLine {
            r#type: "transaction",
            number: transaction.number,
            connection: transaction.connection.0,
            direction: names::direction(transaction.direction),
            xid: hex_xid(transaction.xid),
            program: procedure.map(|called| called.program),
            version: procedure.map(|called| called.version),
            minor_version: transaction.details.minor_version,
            procedure: procedure.map(|called| called.number),
            name: procedure.and_then(names::procedure_name),
            operations: OperationNames(&transaction.details.operations),
            status: transaction.status,
            status_name: transaction.status.and_then(name_of),
            outcome: names::outcome(transaction.outcome),
            rpc_status: transaction.rpc_status.map(Shown),
            error: transaction.error.map(Shown),
            security: transaction.security.map(|security| Shown(SecurityName(security))),
            capture_gap: transaction.capture_gap,
            latency_ns: transaction.latency(),
            phases: Phases::of(transaction).map(PhasesView::from),
            read_bytes: transaction.timing.read_bytes,
            written_bytes: transaction.timing.written_bytes,
            reads: transaction.timing.reads.map(SpanView::from),
            writes: transaction.timing.writes.map(SpanView::from),
            call: transaction.call.as_ref().map(MessageView::from),
            reply: transaction.reply.as_ref().map(MessageView::from),
            done: transaction.done.map(SeenView::from),
            operation_details: OperationDetails(transaction),
            stop: transaction.stop.map(StopView::from),
        }
    }
}

fn hex_xid(xid: Xid) -> Hex<8> {
    Hex(xid.0.into())
}

struct OperationNames<'a>(&'a [Operation]);

impl Serialize for OperationNames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|operation| operation.name()))
    }
}

#[derive(Serialize)]
struct PhasesView {
    call_ns: u64,
    reads_ns: u64,
    server_ns: u64,
    writes_ns: u64,
    reply_ns: u64,
}

impl From<Phases> for PhasesView {
    fn from(phases: Phases) -> PhasesView {
        let [call_ns, reads_ns, server_ns, writes_ns, reply_ns] = phases.0;
        PhasesView { call_ns, reads_ns, server_ns, writes_ns, reply_ns }
    }
}

#[derive(Serialize)]
struct SpanView {
    #[serde(serialize_with = "time")]
    first: Time,
    #[serde(serialize_with = "time")]
    last: Time,
}

impl From<(Time, Time)> for SpanView {
    fn from((first, last): (Time, Time)) -> SpanView {
        SpanView { first, last }
    }
}

#[derive(Serialize)]
struct SeenView {
    frame: u64,
    #[serde(serialize_with = "time")]
    time: Time,
}

impl From<Seen> for SeenView {
    fn from(seen: Seen) -> SeenView {
        SeenView { frame: seen.frame, time: seen.time }
    }
}

#[derive(Serialize)]
struct MessageView<'a> {
    frame: u64,
    #[serde(serialize_with = "time")]
    time: Time,
    first_frame: u64,
    #[serde(serialize_with = "time")]
    first_time: Time,
    version: u32,
    procedure: Shown<rpcrdma::Procedure>,
    credits: u32,
    header_length: u32,
    send_length: u32,
    message_length: Option<u64>,
    rpc_xid: Option<Hex<8>>,
    invalidated: Option<Hex<8>>,
    read_chunks: ReadChunks<'a>,
    write_chunks: WriteChunks<'a>,
    reply_chunk: Option<ChunkView<'a>>,
    missing: MissingRanges<'a>,
    stop: Option<StopView>,
}

impl<'a> From<&'a Message> for MessageView<'a> {
    fn from(message: &'a Message) -> MessageView<'a> {
        MessageView {
            frame: message.seen.frame,
            time: message.seen.time,
            first_frame: message.first.frame,
            first_time: message.first.time,
            version: message.version,
            procedure: Shown(message.procedure),
            credits: message.credits,
            header_length: message.header_length,
            send_length: message.send_length,
            message_length: message.message_length,
            rpc_xid: message.rpc_xid.map(|xid| Hex(xid.0.into())),
            invalidated: message.invalidated.map(|rkey| Hex(rkey.0.into())),
            read_chunks: ReadChunks(&message.read_chunks),
            write_chunks: WriteChunks(&message.write_chunks),
            reply_chunk: message.reply_chunk.as_ref().map(ChunkView::from),
            missing: MissingRanges(&message.missing),
            stop: message.stop.map(StopView::from),
        }
    }
}

struct Segments<'a>(&'a [Segment]);

impl Serialize for Segments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(SegmentView::from))
    }
}

#[derive(Serialize)]
struct ReadChunkView<'a> {
    position: u32,
    segments: Segments<'a>,
}

struct ReadChunks<'a>(&'a [ReadChunk]);

impl Serialize for ReadChunks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0
                .iter()
                .map(|chunk| ReadChunkView { position: chunk.position, segments: Segments(&chunk.segments) }),
        )
    }
}

#[derive(Serialize)]
struct ChunkView<'a> {
    segments: Segments<'a>,
}

impl<'a> From<&'a Chunk> for ChunkView<'a> {
    fn from(chunk: &'a Chunk) -> ChunkView<'a> {
        ChunkView { segments: Segments(&chunk.segments) }
    }
}

struct WriteChunks<'a>(&'a [Chunk]);

impl Serialize for WriteChunks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ChunkView::from))
    }
}

#[derive(Serialize)]
struct MissingView {
    part: &'static str,
    index: Option<u16>,
    start: u64,
    end: Option<u64>,
}

impl From<&Missing> for MissingView {
    fn from(missing: &Missing) -> MissingView {
        let (part, index) = words::part(missing.part);
        MissingView { part, index, start: missing.start, end: missing.end }
    }
}

struct MissingRanges<'a>(&'a [Missing]);

impl Serialize for MissingRanges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(MissingView::from))
    }
}

/// All operations of a transaction.
struct OperationDetails<'a>(&'a Transaction);

impl Serialize for OperationDetails<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let operations = &self.0.details.operations;
        let mut sequence = serializer.serialize_seq(Some(operations.len()))?;
        for operation in operations {
            sequence.serialize_element(&OperationView { transaction: self.0, operation })?;
        }
        sequence.end()
    }
}

/// One operation. Most fields concern few operations, so what is not there is left out.
struct OperationView<'a> {
    transaction: &'a Transaction,
    operation: &'a Operation,
}

impl Serialize for OperationView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OperationView { transaction, operation } = self;
        let details = &transaction.details;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &operation.code())?;
        map.serialize_entry("name", operation.name())?;
        if let Some(status) = operation.status {
            map.serialize_entry("status", &status)?;
            let called = transaction.procedure;
            let name = called.and_then(|called| names::status_name(called.program, called.version, status));
            entry(&mut map, "status_name", &name)?;
        }
        for (key, handle) in
            [("file_handle", operation.file_handle), ("result_file_handle", operation.result_file_handle)]
        {
            entry(&mut map, key, &handle.map(|handle| Shown(HexBytes(details.bytes(handle)))))?;
        }
        file_name(&mut map, details, operation.file_name, "file_name", "file_name_hex")?;
        file_name(&mut map, details, operation.other_name, "other_name", "other_name_hex")?;
        entry(&mut map, "offset", &operation.offset)?;
        entry(&mut map, "count", &operation.count)?;
        entry(&mut map, "result_count", &operation.result_count)?;
        entry(&mut map, "end_of_file", &operation.end_of_file)?;
        entry(&mut map, "argument_item", &operation.argument_item.map(ItemView::from))?;
        entry(&mut map, "result_item", &operation.result_item.map(ItemView::from))?;
        map.end()
    }
}

/// An entry that is left out where there is no value.
fn entry<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: &Option<impl Serialize>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(key, value),
        None => Ok(()),
    }
}

/// A name as a string; one that is not UTF-8 also as the bytes it is made of.
fn file_name<M: SerializeMap>(
    map: &mut M,
    details: &Details,
    name: Option<Text>,
    key: &'static str,
    hex_key: &'static str,
) -> Result<(), M::Error> {
    let Some(name) = name else { return Ok(()) };
    let bytes = details.bytes(name);
    let text = String::from_utf8_lossy(bytes);
    map.serialize_entry(key, &text)?;
    match text {
        std::borrow::Cow::Borrowed(_) => Ok(()),
        std::borrow::Cow::Owned(_) => map.serialize_entry(hex_key, &Shown(HexBytes(bytes))),
    }
}

/// A DDP-eligible item.
#[derive(Serialize)]
struct ItemView {
    length: u32,
    position: u32,
    place: &'static str,
    index: Option<u16>,
}

impl From<Item> for ItemView {
    fn from(item: Item) -> ItemView {
        let (place, index) = words::place(item.place);
        ItemView { length: item.length, position: item.position, place, index }
    }
}
