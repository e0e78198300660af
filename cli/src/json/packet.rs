//! Packets. Most fields concern few packets, so what is not there is left out.

use super::connection::PrivateDataView;
use super::{Hex, SegmentView, Shown, StopView, time};
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{Address, Carrier, IcrcVerdict, Other};
use rdmascope_dissector::record::Time;
use rdmascope_wire::bth::{Acknowledgement, Aeth, Deth, Opcode, Reth};
use rdmascope_wire::rpcrdma::{self, Chunk, ReadList, ReadSegment, WriteList};
use rdmascope_wire::{Qpn, cm};
use serde::{Serialize, Serializer};

/// `"type":"packet"`.
#[derive(Serialize)]
pub(crate) struct PacketLine<'a> {
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
        let (other, outer_stop) = match packet.frame {
            Ok(_) => (None, None),
            Err(Other::NotInfiniBand) => (Some("not-infiniband"), None),
            Err(Other::UnknownLinkType) => (Some("unknown-link-type"), None),
            Err(Other::Fragment) => (Some("fragment"), None),
            Err(Other::Stop(stop)) => (Some("stop"), Some(stop)),
        };
        let (headers, inner_stop) = match &packet.headers {
            Some(Ok(headers)) => (Some(headers), None),
            Some(Err(stop)) => (None, Some(*stop)),
            None => (None, None),
        };
        PacketLine {
            r#type: "packet",
            frame: packet.record.number,
            time: packet.record.time,
            length: packet.record.original_length,
            captured_length: packet.record.data.len(),
            connection: packet.connection.map(|id| id.0),
            network: packet.frame.ok().map(|frame| {
                let (carrier, source_port, destination_port) = match frame.carrier {
                    Carrier::RoceV2 { source_port, destination_port } => {
                        ("rocev2", Some(source_port), Some(destination_port))
                    }
                    Carrier::RoceV1 => ("rocev1", None, None),
                    Carrier::InfiniBand => ("infiniband", None, None),
                };
                Network {
                    source: Shown(frame.source),
                    destination: Shown(frame.destination),
                    carrier,
                    source_port,
                    destination_port,
                    ecn: frame.ecn,
                    icrc: match frame.icrc {
                        IcrcVerdict::Good => "good",
                        IcrcVerdict::Bad => "bad",
                        IcrcVerdict::Unverifiable => "unverifiable",
                    },
                }
            }),
            transport: headers.map(Transport::from),
            other,
            stop: outer_stop.or(inner_stop).map(StopView::from),
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
            kind: match aeth.syndrome.kind() {
                Acknowledgement::Ack { .. } => "ack",
                Acknowledgement::RnrNak { .. } => "rnr-nak",
                Acknowledgement::Nak(_) => "nak",
                Acknowledgement::Reserved(_) => "reserved",
            },
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
        let id = |id: Option<cm::CommunicationId>| id.map(|id| Hex(id.0.into()));
        let mut view = CmView {
            name: message.name(),
            local_communication_id: id(message.local_communication_id()),
            remote_communication_id: id(message.remote_communication_id()),
            qpn: None,
            starting_psn: None,
            port: None,
            path_mtu: None,
            reject_reason: None,
            reject_reason_name: None,
            private_data: None,
        };
        match message {
            cm::Message::Request(request) => {
                view.qpn = Some(Shown(request.local_qpn));
                view.starting_psn = Some(request.starting_psn.value());
                view.port = request.service_id.rdma_cm_port().map(|(_, port)| port);
                view.path_mtu = request.path_mtu_bytes();
                view.private_data = PrivateDataView::find(request.consumer_private_data());
            }
            cm::Message::Reply(reply) => {
                view.qpn = Some(Shown(reply.local_qpn));
                view.starting_psn = Some(reply.starting_psn.value());
                view.private_data = PrivateDataView::find(reply.private_data);
            }
            cm::Message::Reject(reject) => {
                view.reject_reason = Some(reject.reason);
                view.reject_reason_name = cm::reject_reason_name(reject.reason);
            }
            cm::Message::DisconnectRequest(request) => view.qpn = Some(Shown(request.remote_qpn)),
            cm::Message::ServiceIdResolutionReply(reply) => view.qpn = Some(Shown(reply.qpn)),
            _ => {}
        }
        view
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
