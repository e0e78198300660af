//! `packets`: a row for each packet of the capture.

use crate::export::parquet::Table;
use crate::export::parquet::column::Leaf::{Boolean, Text, Time, U8, U16, U32, U64};
use crate::export::parquet::column::{Column, one};
use rdmascope_dissector::connection::PrivateData;
use rdmascope_dissector::event::{Content, Packet};
use rdmascope_dissector::frame::Frame;
use rdmascope_present::cm_fields::CmFields;
use rdmascope_present::words;
use rdmascope_wire::Stop;
use rdmascope_wire::bth::{Aeth, Bth, Deth, Reth};
use rdmascope_wire::rpcrdma::Header;

pub(in super::super) struct Packets;

impl Table for Packets {
    type Row<'a> = Packet<'a>;
    const NAME: &'static str = "packets";
    const COLUMNS: &'static [&'static [Column<Packets>]] = &[
        &[
            one("frame", U64(|row, out| out.put(row.record.number))),
            one("time", Time(|row, out| out.put(row.record.time))),
            one("length", U32(|row, out| out.put(row.record.original_length))),
            one("captured_length", U32(|row, out| out.put(row.record.data.len() as u32))),
            one("connection", U32(|row, out| out.put(row.connection.map(|id| id.0)))),
            one("source", Text(|row, out| out.show(frame(row).map(|frame| frame.source)))),
            one("destination", Text(|row, out| out.show(frame(row).map(|frame| frame.destination)))),
            one("carrier", Text(|row, out| out.put(frame(row).map(|frame| words::carrier(frame.carrier))))),
            one("source_port", U16(|row, out| out.put(ports(row).map(|(source, _)| source)))),
            one("destination_port", U16(|row, out| out.put(ports(row).map(|(_, destination)| destination)))),
            one("ecn", U8(|row, out| out.put(frame(row).map(|frame| frame.ecn)))),
            one("icrc", Text(|row, out| out.put(frame(row).map(|frame| words::icrc(frame.icrc))))),
        ],
        &[
            one("opcode", Text(|row, out| out.show(bth(row).map(|bth| bth.opcode)))),
            one("opcode_number", U8(|row, out| out.put(bth(row).map(|bth| bth.opcode.0)))),
            one("qpn", U32(|row, out| out.put(bth(row).map(|bth| bth.destination_qp.0)))),
            one("psn", U32(|row, out| out.put(bth(row).map(|bth| bth.psn.value())))),
            one("partition_key", U16(|row, out| out.put(bth(row).map(|bth| bth.partition_key)))),
            one("solicited_event", Boolean(|row, out| out.put(bth(row).map(|bth| bth.solicited_event)))),
            one(
                "acknowledge_request",
                Boolean(|row, out| out.put(bth(row).map(|bth| bth.acknowledge_request))),
            ),
            one("migration_request", Boolean(|row, out| out.put(bth(row).map(|bth| bth.migration_request)))),
            one("fecn", Boolean(|row, out| out.put(bth(row).map(|bth| bth.fecn)))),
            one("becn", Boolean(|row, out| out.put(bth(row).map(|bth| bth.becn)))),
            one("pad_count", U8(|row, out| out.put(bth(row).map(|bth| bth.pad_count)))),
            one("transport_version", U8(|row, out| out.put(bth(row).map(|bth| bth.transport_version)))),
            one(
                "payload_length",
                U32(|row, out| out.put(row.readable_headers().map(|headers| headers.payload_length))),
            ),
        ],
        &[
            one("reth_handle", U32(|row, out| out.put(reth(row).map(|reth| reth.rkey.0)))),
            one("reth_length", U32(|row, out| out.put(reth(row).map(|reth| reth.dma_length)))),
            one("reth_offset", U64(|row, out| out.put(reth(row).map(|reth| reth.virtual_address)))),
            one(
                "aeth_kind",
                Text(|row, out| {
                    out.put(aeth(row).map(|aeth| words::acknowledgement(aeth.syndrome.kind())));
                }),
            ),
            one("aeth_syndrome", U8(|row, out| out.put(aeth(row).map(|aeth| aeth.syndrome.0)))),
            one("aeth_msn", U32(|row, out| out.put(aeth(row).map(|aeth| aeth.message_sequence_number)))),
            one("deth_queue_key", U32(|row, out| out.put(deth(row).map(|deth| deth.queue_key)))),
            one("deth_source_qp", U32(|row, out| out.put(deth(row).map(|deth| deth.source_qp.0)))),
            one(
                "immediate",
                U32(|row, out| {
                    out.put(row.readable_headers().and_then(|headers| headers.extensions.immediate));
                }),
            ),
            one(
                "invalidated",
                U32(|row, out| {
                    let rkey = row.readable_headers().and_then(|headers| headers.extensions.ieth);
                    out.put(rkey.map(|rkey| rkey.0));
                }),
            ),
        ],
        &[
            one("cm_name", Text(|row, out| out.put(cm(row).map(|cm| cm.name)))),
            one(
                "cm_local_communication_id",
                U32(|row, out| {
                    out.put(cm(row).and_then(|cm| cm.local_communication_id).map(|id| id.0));
                }),
            ),
            one(
                "cm_remote_communication_id",
                U32(|row, out| {
                    out.put(cm(row).and_then(|cm| cm.remote_communication_id).map(|id| id.0));
                }),
            ),
            one("cm_qpn", U32(|row, out| out.put(cm(row).and_then(|cm| cm.qpn).map(|qpn| qpn.0)))),
            one(
                "cm_starting_psn",
                U32(|row, out| {
                    out.put(cm(row).and_then(|cm| cm.starting_psn).map(|psn| psn.value()));
                }),
            ),
            one("cm_port", U16(|row, out| out.put(cm(row).and_then(|cm| cm.port)))),
            one("cm_path_mtu", U16(|row, out| out.put(cm(row).and_then(|cm| cm.path_mtu)))),
            one("cm_reject_reason", U16(|row, out| out.put(cm(row).and_then(|cm| cm.reject_reason)))),
            one(
                "cm_reject_reason_name",
                Text(|row, out| out.put(cm(row).and_then(|cm| cm.reject_reason_name()))),
            ),
        ],
        private_data_columns!("cm_private_data", private_data),
        &[
            one("rpcrdma_xid", U32(|row, out| out.put(header(row).map(|header| header.xid.0)))),
            one("rpcrdma_version", U32(|row, out| out.put(header(row).map(|header| header.version)))),
            one("rpcrdma_credits", U32(|row, out| out.put(header(row).map(|header| header.credits)))),
            one("rpcrdma_procedure", Text(|row, out| out.show(header(row).map(|header| header.procedure)))),
            one(
                "rpcrdma_header_length",
                U32(|row, out| out.put(header(row).map(|header| header.length as u32))),
            ),
            one("rpcrdma_error", Text(|row, out| out.show(header(row).and_then(|header| header.error)))),
        ],
        stop_columns!("rpcrdma_stop", header_stop),
        &[one("other", Text(|row, out| out.put(row.frame.err().map(words::other))))],
        stop_columns!("stop", Packet::stop),
    ];
}

fn frame<'a>(packet: &'a Packet<'_>) -> Option<&'a Frame<'a>> {
    packet.frame.as_ref().ok()
}

fn ports(packet: &Packet<'_>) -> Option<(u16, u16)> {
    frame(packet)?.carrier.ports()
}

fn bth<'a>(packet: &'a Packet<'_>) -> Option<&'a Bth> {
    packet.readable_headers().map(|headers| &headers.bth)
}

fn reth(packet: &Packet<'_>) -> Option<Reth> {
    packet.readable_headers()?.extensions.reth
}

fn aeth(packet: &Packet<'_>) -> Option<Aeth> {
    packet.readable_headers()?.extensions.aeth
}

fn deth(packet: &Packet<'_>) -> Option<Deth> {
    packet.readable_headers()?.extensions.deth
}

fn cm(packet: &Packet<'_>) -> Option<CmFields> {
    match &packet.readable_headers()?.content {
        Content::Cm(message) => Some(CmFields::from(message)),
        Content::RpcRdma(_) | Content::Other => None,
    }
}

fn private_data(packet: &Packet<'_>) -> Option<PrivateData> {
    cm(packet)?.private_data
}

fn header_stop(packet: &Packet<'_>) -> Option<Stop> {
    header(packet)?.stop
}

fn header<'a>(packet: &'a Packet<'_>) -> Option<&'a Header<'a>> {
    match &packet.readable_headers()?.content {
        Content::RpcRdma(header) => Some(header),
        Content::Cm(_) | Content::Other => None,
    }
}
