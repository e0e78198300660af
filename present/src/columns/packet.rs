//! `packet`. Most columns apply to few packets, and are optional.

use super::segment::{InSegment, TCP};
use super::shared::{PRIVATE_DATA, SEGMENT, STOP, columns_of_segment};
use crate::column::Align::{Left, Right};
use crate::column::Read::{
    Boolean, Frame as FrameNumber, Key, Object, Objects, Offset, Qpn, Shown, Time, U8, U16, U32, Word,
};
use crate::column::{Cell, Column, Columns, Role, Subject, Within, lend, word};
use crate::tables::packets::{BadIcrc, Carries, Copy, NoPacket, Opcodes, header_in_segment};
use crate::text::Style;
use crate::words;
use rdmascope_analysis::cm_fields::CmFields;
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{Address, Frame};
use rdmascope_wire::bth::{Aeth, Bth, Deth, Reth};
use rdmascope_wire::rpcrdma::{Chunk, Header, ReadSegment};

impl Subject for Packet<'static> {
    type Of<'a> = &'a Packet<'a>;
}

/// A packet of the capture.
pub static PACKET: Columns<Packet<'static>> = {
    type C = Column<Packet<'static>>;
    type O<U> = Within<Packet<'static>, U>;
    Columns {
        name: "packet",
        role: Role::Line,
        columns: &[
            C::new(
                "frame",
                FrameNumber(|it| Some(it.record.number)),
                "The number of the packet in the capture, from 1.",
            )
            .text(0, "frame", Right(7)),
            C::new("time", Time(|it| Some(it.record.time)), "The capture time.").cell(
                1,
                "seconds",
                Right(11),
                Cell::Instant(|it| Some(it.record.time)),
            ),
            C::new("length", U32(|it| Some(it.record.wire_length())), "Bytes on the wire."),
            C::new("captured_length", U32(|it| Some(it.record.captured_length())), "Bytes in the capture."),
            C::new(
                "connection",
                U32(|it| it.connection.map(|id| id.0)),
                "The number of the connection that the packet belongs to. It is null for the first packets \
                 of a connection that was open before the capture, until more than packets is known of it.",
            )
            .or_null(),
            C::new(
                "copy_of",
                FrameNumber(|it| it.copy_of.map(|first| first.frame)),
                "The number of the earlier packet that this one is a copy of: the packet was captured \
                 twice. It is counted once.",
            )
            .optional(),
            C::new(
                "source",
                Shown(|it, see| lend(addresses(it), |addresses| see(&addresses[0]))),
                "The address of the sender, or `LID` and a number.",
            )
            .optional()
            .text(3, "source", Left(15))
            .gap(0),
            C::new(
                "destination",
                Shown(|it, see| lend(addresses(it), |addresses| see(&addresses[1]))),
                "The address of the receiver, or `LID` and a number.",
            )
            .optional()
            .text(5, "destination", Left(15)),
            C::new("to", Word(&[], |_| Some("->")), "The direction, from the sender to the receiver.")
                .text_only()
                .text(4, "", Left(2)),
            C::new(
                "carrier",
                Word(&[word("rocev2"), word("rocev1"), word("infiniband")], |it| {
                    frame(it).map(|frame| words::carrier(frame.carrier))
                }),
                "The protocol that carries the transport packet.",
            )
            .optional(),
            C::new("source_port", U16(|it| Some(ports(it)?.0)), "The source port of UDP or TCP.").optional(),
            C::new("destination_port", U16(|it| Some(ports(it)?.1)), "The destination port of UDP or TCP.")
                .optional(),
            C::new("ecn", U8(|it| frame(it).map(|frame| frame.ecn())), "The ECN bits of the IP header.")
                .optional(),
            C::new(
                "icrc",
                Word(&[word("good"), word("bad"), word("unverifiable")], |it| {
                    frame(it).map(|frame| words::icrc(frame.icrc))
                }),
                "The verdict on the ICRC.",
            )
            .optional(),
            C::new(
                "opcode",
                Shown(|it, see| lend(Opcodes::of(it), |opcodes| see(&opcodes))),
                "The name of the opcode: `RC SEND Only`. For a TCP segment of iWARP, the RDMAP opcodes of \
                 its FPDUs: `RDMA Write, Send`.",
            )
            .optional()
            .text(7, "opcode", Left(28))
            .gap(0),
            C::new("opcode_number", U8(|it| bth(it).map(|bth| bth.opcode.0)), "The opcode: 4.").optional(),
            C::new("qpn", Qpn(|it| bth(it).map(|bth| bth.destination_qp.0)), "The destination queue pair.")
                .optional()
                .text(8, "QP", Left(8)),
            C::new("psn", U32(|it| bth(it).map(|bth| bth.psn.value())), "The PSN.").optional().text(
                9,
                "PSN",
                Right(8),
            ),
            C::new("partition_key", U16(|it| bth(it).map(|bth| bth.partition_key)), "The P_Key.").optional(),
            C::new(
                "solicited_event",
                Boolean(|it| bth(it).map(|bth| bth.solicited_event)),
                "The SE bit of the BTH.",
            )
            .optional(),
            C::new(
                "acknowledge_request",
                Boolean(|it| bth(it).map(|bth| bth.acknowledge_request)),
                "The A bit of the BTH.",
            )
            .optional(),
            C::new(
                "migration_request",
                Boolean(|it| bth(it).map(|bth| bth.migration_request)),
                "The M bit of the BTH.",
            )
            .optional(),
            C::new("fecn", Boolean(|it| bth(it).map(|bth| bth.fecn)), "The FECN bit of the BTH.").optional(),
            C::new("becn", Boolean(|it| bth(it).map(|bth| bth.becn)), "The BECN bit of the BTH.").optional(),
            C::new("pad_count", U8(|it| bth(it).map(|bth| bth.pad_count)), "The pad count of the BTH.")
                .optional(),
            C::new(
                "transport_version",
                U8(|it| bth(it).map(|bth| bth.transport_version)),
                "The transport header version of the BTH.",
            )
            .optional(),
            C::new(
                "payload_length",
                U32(|it| {
                    let of_tcp = it.segment().map(|segment| segment.payload_length);
                    it.readable_headers().map(|headers| headers.payload_length).or(of_tcp)
                }),
                "Bytes after the headers on the wire.",
            )
            .optional(),
            C::new(
                "tcp",
                Object(&O {
                    columns: &TCP,
                    lend: |it, see| lend(it.segment(), |segment| see(InSegment(it, segment))),
                }),
                "A TCP segment.",
            )
            .optional(),
            C::new(
                "reth",
                Object(&O {
                    columns: &RETH,
                    lend: |it, see| lend(headers(it).and_then(|headers| headers.extensions.reth), see),
                }),
                "The memory that an RDMA operation uses.",
            )
            .optional(),
            C::new(
                "aeth",
                Object(&O {
                    columns: &AETH,
                    lend: |it, see| lend(headers(it).and_then(|headers| headers.extensions.aeth), see),
                }),
                "An acknowledgement.",
            )
            .optional(),
            C::new(
                "deth",
                Object(&O {
                    columns: &DETH,
                    lend: |it, see| lend(headers(it).and_then(|headers| headers.extensions.deth), see),
                }),
                "The extension header of a datagram.",
            )
            .optional(),
            C::new("immediate", U32(|it| headers(it)?.extensions.immediate), "The immediate data.")
                .optional(),
            C::new(
                "invalidated",
                Key(|it| headers(it)?.extensions.ieth.map(|rkey| rkey.0)),
                "The R_Key of a SEND with Invalidate.",
            )
            .optional(),
            C::new(
                "cm",
                Object(&O { columns: &CM, lend: |it, see| lend(cm(it), |fields| see(&fields)) }),
                "A CM message, with its fields.",
            )
            .optional(),
            C::new(
                "rpcrdma",
                Object(&O { columns: &HEADER, lend: |it, see| lend(header(it), |header| see(&header)) }),
                "The RPC-over-RDMA header at the front of a Send, as far as this packet holds it. For a \
                 TCP segment, that of the first Send that begins in it, as far as its first FPDU holds it.",
            )
            .optional(),
            C::new(
                "carries",
                Shown(|it, see| {
                    let contents = Carries::of(it, Style::default());
                    lend(contents, |contents| see(&contents.to_string().trim_start()));
                }),
                "The contents in words.",
            )
            .text_only()
            .cell(
                10,
                " carries",
                Left(0),
                Cell::Shown(|it, setting, see| {
                    lend(Carries::of(it, setting.style), |contents| see(&contents));
                    lend(BadIcrc::of(it, setting.style), |bad| see(&bad));
                    lend(Copy::of(it, setting.style), |copy| see(&copy));
                }),
            )
            .gap(0),
            C::new(
                "other",
                Word(
                    &[
                        word("tcp"),
                        word("not-infiniband"),
                        word("unknown-link-type"),
                        word("fragment"),
                        word("stop"),
                    ],
                    |it| it.frame.err().map(words::other),
                ),
                "The reason for the lack of a transport packet.",
            )
            .optional()
            .cell(
                2,
                "",
                Left(0),
                Cell::Shown(|it, setting, see| lend(NoPacket::of(it, setting.style), |why| see(&why))),
            )
            .ends(|it| NoPacket::of(it, Style::default()).is_some()),
            C::new(
                "stop",
                Object(&O { columns: &STOP, lend: |it, see| lend(it.stop(), see) }),
                "Where parsing of the headers stopped.",
            )
            .optional()
            .cell(
                6,
                "",
                Left(0),
                Cell::Shown(|it, setting, see| {
                    if Carries::of(it, setting.style).is_some() {
                        return;
                    }
                    lend(it.stop(), |stop| see(&setting.style.yellow(stop)));
                    lend(BadIcrc::of(it, setting.style), |bad| see(&bad));
                    lend(Copy::of(it, setting.style), |copy| see(&copy));
                }),
            )
            .ends(|it| Carries::of(it, Style::default()).is_none()),
        ],
    }
};

fn frame<'a>(packet: &'a Packet<'_>) -> Option<&'a Frame<'a>> {
    packet.frame.as_ref().ok()
}

/// Returns source and destination.
fn addresses(packet: &Packet<'_>) -> Option<[Address; 2]> {
    let of_frame = frame(packet).map(|frame| [frame.source, frame.destination]);
    of_frame.or_else(|| packet.segment().map(|segment| [segment.source, segment.destination]))
}

fn ports(packet: &Packet<'_>) -> Option<(u16, u16)> {
    let of_tcp = packet.segment().map(|segment| (segment.ports[0], segment.ports[1]));
    of_tcp.or_else(|| frame(packet)?.carrier.ports())
}

fn headers<'a>(packet: &'a Packet<'a>) -> Option<&'a Headers<'a>> {
    packet.readable_headers()
}

fn bth<'a>(packet: &'a Packet<'_>) -> Option<&'a Bth> {
    packet.readable_headers().map(|headers| &headers.bth)
}

fn cm(packet: &Packet<'_>) -> Option<CmFields> {
    match &packet.readable_headers()?.content {
        Content::Cm(message) => Some(CmFields::from(message)),
        Content::RpcRdma(_) | Content::Other => None,
    }
}

fn header<'a>(packet: &'a Packet<'a>) -> Option<Header<'a>> {
    match packet.readable_headers().map(|headers| headers.content) {
        Some(Content::RpcRdma(header)) => Some(header),
        Some(Content::Cm(_) | Content::Other) => None,
        None => header_in_segment(packet),
    }
}

impl Subject for Reth {
    type Of<'a> = Reth;
}

static RETH: Columns<Reth> = {
    type C = Column<Reth>;
    Columns {
        name: "reth",
        role: Role::Inner,
        columns: &[
            C::new("handle", Key(|reth| Some(reth.rkey.0)), "The R_Key."),
            C::new("length", U32(|reth| Some(reth.dma_length)), "The length in bytes."),
            C::new("offset", Offset(|reth| Some(reth.virtual_address)), "The address."),
        ],
    }
};

impl Subject for Aeth {
    type Of<'a> = Aeth;
}

static AETH: Columns<Aeth> = {
    type C = Column<Aeth>;
    Columns {
        name: "aeth",
        role: Role::Inner,
        columns: &[
            C::new(
                "kind",
                Word(&[word("ack"), word("nak"), word("rnr-nak"), word("reserved")], |aeth| {
                    Some(words::acknowledgement(aeth.syndrome.kind()))
                }),
                "The kind of acknowledgement.",
            ),
            C::new("syndrome", U8(|aeth| Some(aeth.syndrome.0)), "The syndrome."),
            C::new("msn", U32(|aeth| Some(aeth.message_sequence_number)), "The message sequence number."),
        ],
    }
};

impl Subject for Deth {
    type Of<'a> = Deth;
}

static DETH: Columns<Deth> = {
    type C = Column<Deth>;
    Columns {
        name: "deth",
        role: Role::Inner,
        columns: &[
            C::new("queue_key", Key(|deth| Some(deth.queue_key)), "The Q_Key."),
            C::new("source_qp", Qpn(|deth| Some(deth.source_qp.0)), "The queue pair of the sender."),
        ],
    }
};

impl Subject for CmFields {
    type Of<'a> = &'a CmFields;
}

static CM: Columns<CmFields> = {
    type C = Column<CmFields>;
    type O<U> = Within<CmFields, U>;
    Columns {
        name: "cm",
        role: Role::Inner,
        columns: &[
            C::new("name", Word(&[], |cm| Some(cm.name)), "The name of the message: `ConnectRequest`."),
            C::new(
                "local_communication_id",
                Key(|cm| cm.local_communication_id.map(|id| id.0)),
                "The Local Communication ID.",
            )
            .optional(),
            C::new(
                "remote_communication_id",
                Key(|cm| cm.remote_communication_id.map(|id| id.0)),
                "The Remote Communication ID.",
            )
            .optional(),
            C::new(
                "qpn",
                Qpn(|cm| cm.qpn.map(|qpn| qpn.0)),
                "The queue pair of the sender, or of the receiver in a DisconnectRequest.",
            )
            .optional(),
            C::new("starting_psn", U32(|cm| cm.starting_psn.map(|psn| psn.value())), "The Starting PSN.")
                .optional(),
            C::new("port", U16(|cm| cm.port), "The port in a REQ.").optional(),
            C::new("path_mtu", U16(|cm| cm.path_mtu), "The path MTU in bytes.").optional(),
            C::new("reject_reason", U16(|cm| cm.reject_reason), "The reason code in a REJ.").optional(),
            C::new("reject_reason_name", Word(&[], |cm| cm.reject_reason_name()), "The name of the reason.")
                .optional(),
            C::new(
                "private_data",
                Object(&O { columns: &PRIVATE_DATA, lend: |cm, see| lend(cm.private_data, see) }),
                "The private data (RFC 8797).",
            )
            .optional(),
        ],
    }
};

impl Subject for Header<'static> {
    type Of<'a> = &'a Header<'a>;
}

static HEADER: Columns<Header<'static>> = {
    type C = Column<Header<'static>>;
    type O<U> = Within<Header<'static>, U>;
    Columns {
        name: "rpcrdma",
        role: Role::Inner,
        columns: &[
            C::xid(|header| Some(header.xid.0)),
            C::new("version", U32(|header| Some(header.version)), "rdma_vers."),
            C::new("credits", U32(|header| Some(header.credits)), "rdma_credit."),
            C::new(
                "procedure",
                Shown(|header, see| see(&header.procedure)),
                "rdma_proc: `RDMA_MSG`, `RDMA_NOMSG`.",
            ),
            C::new(
                "header_length",
                U32(|header| Some(header.length as u32)),
                "The length of the header, as far as this packet holds it.",
            ),
            C::new(
                "read_segments",
                Objects(&O { columns: &READ_SEGMENT, lend: |header, see| header.reads.for_each(see) }),
                "The segments of the Read list.",
            )
            .json_only(),
            C::new(
                "write_chunks",
                Objects(&O { columns: &CHUNK, lend: |header, see| header.writes.for_each(see) }),
                "The Write chunks.",
            )
            .json_only(),
            C::new(
                "reply_chunk",
                Object(&O { columns: &CHUNK, lend: |header, see| lend(header.reply, see) }),
                "The Reply chunk.",
            )
            .or_null()
            .json_only(),
            C::new(
                "error",
                Shown(|header, see| lend(header.error, |error| see(&error))),
                "The error in an RDMA_ERROR.",
            )
            .or_null(),
            C::new(
                "stop",
                Object(&O { columns: &STOP, lend: |header, see| lend(header.stop, see) }),
                "Where parsing of the header stopped.",
            )
            .or_null(),
        ],
    }
};

impl Subject for ReadSegment {
    type Of<'a> = ReadSegment;
}

static READ_SEGMENT: Columns<ReadSegment> = {
    type C = Column<ReadSegment>;
    Columns {
        name: "read_segment",
        role: Role::Inner,
        columns: columns_of_segment!(
            C,
            |segment| segment.target,
            C::new("position", U32(|segment| Some(segment.position)), "The Position."),
        ),
    }
};

impl Subject for Chunk<'static> {
    type Of<'a> = Chunk<'a>;
}

static CHUNK: Columns<Chunk<'static>> = {
    type C = Column<Chunk<'static>>;
    type O<U> = Within<Chunk<'static>, U>;
    Columns {
        name: "chunk",
        role: Role::Inner,
        columns: &[C::new(
            "segments",
            Objects(&O { columns: &SEGMENT, lend: |chunk, see| chunk.segments().for_each(see) }),
            "The segments.",
        )],
    }
};
