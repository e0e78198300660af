//! Packets. Most fields concern few packets, so what is not there is left out.

use super::connection::PrivateDataView;
use super::{Hex, SegmentView, Shown, StopView, time};
use crate::cm_fields::CmFields;
use crate::words;
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_wire::bth::{Aeth, Deth, Opcode, Reth};
use rdmascope_wire::rpcrdma::{self, Chunk, ReadList, ReadSegment, WriteList};
use rdmascope_wire::{Qpn, cm};
use serde::{Serialize, Serializer};

/// `"type":"packet"`.
#[derive(Serialize)]
pub struct PacketLine<'a> {
    r#type: &'static str,
    frame: u64,
    #[serde(serialize_with = "time")]
    time: Time,
    length: u32,
    captured_length: usize,
    connection: Option<u32>,
    #[serde(flatten)]
    network: Option<Network>,
    #[serde(flatten)]
    transport: Option<Transport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopView>,
}

impl<'a> From<&'a Packet<'a>> for PacketLine<'a> {
    fn from(packet: &'a Packet<'a>) -> PacketLine<'a> {
        PacketLine {
            r#type: "packet",
            frame: packet.record.number,
            time: packet.record.time,
            length: packet.record.original_length,
            captured_length: packet.record.data.len(),
            connection: packet.connection.map(|id| id.0),
            network: packet.frame.ok().map(|frame| {
                let ports = frame.carrier.ports();
                Network {
                    source: Shown(frame.source),
                    destination: Shown(frame.destination),
                    carrier: words::carrier(frame.carrier),
                    source_port: ports.map(|(source, _)| source),
                    destination_port: ports.map(|(_, destination)| destination),
                    ecn: frame.ecn,
                    icrc: words::icrc(frame.icrc),
                }
            }),
            transport: packet.readable_headers().map(Transport::from),
            other: packet.frame.err().map(words::other),
            stop: packet.stop().map(StopView::from),
        }
    }
}

#[derive(Serialize)]
struct Network {
    source: Shown<Address>,
    destination: Shown<Address>,
    carrier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_port: Option<u16>,
    ecn: u8,
    icrc: &'static str,
}

#[derive(Serialize)]
struct Transport<'a> {
    opcode: Shown<Opcode>,
    opcode_number: u8,
    qpn: Shown<Qpn>,
    psn: u32,
    partition_key: u16,
    solicited_event: bool,
    acknowledge_request: bool,
    migration_request: bool,
    fecn: bool,
    becn: bool,
    pad_count: u8,
    transport_version: u8,
    payload_length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reth: Option<RethView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aeth: Option<AethView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deth: Option<DethView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    immediate: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invalidated: Option<Hex<8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cm: Option<CmView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rpcrdma: Option<HeaderView<'a>>,
}

impl<'a> From<&'a Headers<'a>> for Transport<'a> {
    fn from(headers: &'a Headers<'a>) -> Transport<'a> {
        let (bth, extensions) = (&headers.bth, &headers.extensions);
        let (cm, rpcrdma) = match &headers.content {
            Content::Cm(message) => (Some(CmView::from(message)), None),
            Content::RpcRdma(header) => (None, Some(HeaderView::from(header))),
            Content::Other => (None, None),
        };
        Transport {
            opcode: Shown(bth.opcode),
            opcode_number: bth.opcode.0,
            qpn: Shown(bth.destination_qp),
            psn: bth.psn.value(),
            partition_key: bth.partition_key,
            solicited_event: bth.solicited_event,
            acknowledge_request: bth.acknowledge_request,
            migration_request: bth.migration_request,
            fecn: bth.fecn,
            becn: bth.becn,
            pad_count: bth.pad_count,
            transport_version: bth.transport_version,
            payload_length: headers.payload_length,
            reth: extensions.reth.map(RethView::from),
            aeth: extensions.aeth.map(AethView::from),
            deth: extensions.deth.map(DethView::from),
            immediate: extensions.immediate,
            invalidated: extensions.ieth.map(|rkey| Hex(rkey.0.into())),
            cm,
            rpcrdma,
        }
    }
}

#[derive(Serialize)]
struct RethView {
    handle: Hex<8>,
    length: u32,
    offset: Hex<16>,
}

impl From<Reth> for RethView {
    fn from(reth: Reth) -> RethView {
        RethView {
            handle: Hex(reth.rkey.0.into()),
            length: reth.dma_length,
            offset: Hex(reth.virtual_address),
        }
    }
}

#[derive(Serialize)]
struct AethView {
    kind: &'static str,
    syndrome: u8,
    msn: u32,
}

impl From<Aeth> for AethView {
    fn from(aeth: Aeth) -> AethView {
        AethView {
            kind: words::acknowledgement(aeth.syndrome.kind()),
            syndrome: aeth.syndrome.0,
            msn: aeth.message_sequence_number,
        }
    }
}

#[derive(Serialize)]
struct DethView {
    queue_key: Hex<8>,
    source_qp: Shown<Qpn>,
}

impl From<Deth> for DethView {
    fn from(deth: Deth) -> DethView {
        DethView { queue_key: Hex(deth.queue_key.into()), source_qp: Shown(deth.source_qp) }
    }
}

/// The fields of a CM message that tell one from another; those that the message has not are left out.
#[derive(Serialize)]
struct CmView {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_communication_id: Option<Hex<8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_communication_id: Option<Hex<8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qpn: Option<Shown<Qpn>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starting_psn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_mtu: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reject_reason: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reject_reason_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    private_data: Option<PrivateDataView>,
}

impl From<&cm::Message<'_>> for CmView {
    fn from(message: &cm::Message<'_>) -> CmView {
        let fields = CmFields::from(message);
        let id = |id: Option<cm::CommunicationId>| id.map(|id| Hex(id.0.into()));
        CmView {
            name: fields.name,
            local_communication_id: id(fields.local_communication_id),
            remote_communication_id: id(fields.remote_communication_id),
            qpn: fields.qpn.map(Shown),
            starting_psn: fields.starting_psn.map(|psn| psn.value()),
            port: fields.port,
            path_mtu: fields.path_mtu,
            reject_reason: fields.reject_reason,
            reject_reason_name: fields.reject_reason_name(),
            private_data: fields.private_data.map(PrivateDataView),
        }
    }
}

#[derive(Serialize)]
struct HeaderView<'a> {
    xid: Hex<8>,
    version: u32,
    credits: u32,
    procedure: Shown<rpcrdma::Procedure>,
    header_length: usize,
    read_segments: ReadSegments<'a>,
    write_chunks: WriteChunks<'a>,
    reply_chunk: Option<ChunkView<'a>>,
    error: Option<Shown<rpcrdma::Error>>,
    stop: Option<StopView>,
}

impl<'a> From<&rpcrdma::Header<'a>> for HeaderView<'a> {
    fn from(header: &rpcrdma::Header<'a>) -> HeaderView<'a> {
        HeaderView {
            xid: Hex(header.xid.0.into()),
            version: header.version,
            credits: header.credits,
            procedure: Shown(header.procedure),
            header_length: header.length,
            read_segments: ReadSegments(header.reads),
            write_chunks: WriteChunks(header.writes),
            reply_chunk: header.reply.map(ChunkView::from),
            error: header.error.map(Shown),
            stop: header.stop.map(StopView::from),
        }
    }
}

struct ReadSegments<'a>(ReadList<'a>);

impl Serialize for ReadSegments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.map(ReadSegmentView::from))
    }
}

#[derive(Serialize)]
struct ReadSegmentView {
    position: u32,
    #[serde(flatten)]
    target: SegmentView,
}

impl From<ReadSegment> for ReadSegmentView {
    fn from(segment: ReadSegment) -> ReadSegmentView {
        ReadSegmentView { position: segment.position, target: SegmentView::from(&segment.target) }
    }
}

struct WriteChunks<'a>(WriteList<'a>);

impl Serialize for WriteChunks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.map(ChunkView::from))
    }
}

#[derive(Serialize)]
struct ChunkView<'a> {
    segments: Segments<'a>,
}

impl<'a> From<Chunk<'a>> for ChunkView<'a> {
    fn from(chunk: Chunk<'a>) -> ChunkView<'a> {
        ChunkView { segments: Segments(chunk) }
    }
}

struct Segments<'a>(Chunk<'a>);

impl Serialize for Segments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.segments().map(|segment| SegmentView::from(&segment)))
    }
}
