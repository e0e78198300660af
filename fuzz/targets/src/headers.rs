//! Every header that `wire` parses: the first byte selects one.

use crate::bytes::Bytes;
use core::net::{Ipv4Addr, Ipv6Addr};
use rdmascope_dissector::frame::{Config, IcrcVerdict, dissect};
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::grh::Grh;
use rdmascope_wire::lrh::Lrh;
use rdmascope_wire::rpc::{self, Call, GssCredential, Reply};
use rdmascope_wire::rpcrdma::{self, Builder, Header};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, cm, compose, icrc, mad, private_data, rdma_cm_ip};

/// Parses a header. If it has a builder, the built bytes parse to the same header.
pub fn headers(data: &[u8]) {
    let mut choice = Bytes(data);
    let which = choice.u8() % 9;
    let bytes = choice.0;
    match which {
        0 => transport(bytes),
        1 => route(bytes),
        2 => management(bytes),
        3 => found_private_data(bytes),
        4 => rdma_connection_manager(bytes),
        5 => rpc_over_rdma(bytes),
        6 => call(bytes),
        7 => reply(bytes),
        _ => checksums(bytes),
    }
}

fn built(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    build(&mut out);
    out
}

fn transport(bytes: &[u8]) {
    let Ok(bth) = Bth::parse(bytes) else { return };
    assert_eq!(Bth::parse(&built(|out| bth.build(out))), Ok(bth));
    let _ = bth.opcode.to_string();
    let rest = &bytes[Bth::LENGTH..];
    match Extensions::parse(bth.opcode, rest) {
        Ok((extensions, length)) => {
            let again = built(|out| extensions.build(out));
            assert_eq!(again.len(), length);
            assert_eq!(Extensions::parse(bth.opcode, &again), Ok((extensions, length)));
            let _ = extensions.aeth.map(|aeth| aeth.syndrome.kind());
            composed(bth, extensions, &rest[length..]);
        }
        Err(stop) => {
            assert!(stop.offset >= Bth::LENGTH && stop.offset <= bytes.len());
            assert_eq!(stop.offset + stop.available, bytes.len());
        }
    }
}

/// A composed frame is dissected to the same packet.
fn composed(bth: Bth, extensions: Extensions, payload: &[u8]) {
    let address = Ipv6Addr::from(u128::from(bth.psn.value()) << 96 | u128::from(bth.destination_qp.0));
    let ip = compose::Ipv6 { flow_label: bth.psn.value(), ..compose::Ipv6::new(address, address) };
    let udp = compose::Udp::from_port(bth.partition_key);
    let v4 = Ipv4Addr::from(bth.psn.value());
    for carrier in [
        compose::Carrier::Ipv4(compose::Ipv4::new(v4, v4), udp),
        compose::Carrier::Ipv6(ip, udp),
        compose::Carrier::Grh(ip),
    ] {
        let vlan = bth.fecn.then_some(bth.partition_key);
        let ethernet = Some(compose::Ethernet { vlan, ..compose::Ethernet::default() });
        let frame = compose::Frame { ethernet, carrier, bth, extensions, payload };
        let Ok(data) = frame.to_vec() else {
            assert!(payload.len() > 0xff00);
            continue;
        };
        assert_eq!(data.len(), frame.length());
        let original_length = data.len() as u32;
        let record = Record {
            number: 1,
            time: Time(0),
            link: LinkType::ETHERNET,
            original_length,
            dropped: 0,
            tap: Default::default(),
            data: &data,
        };
        let found = dissect(&record, &Config::default()).expect("a frame that was just composed");
        assert_eq!(found.icrc, IcrcVerdict::Good);
        let pad_count = (payload.len().wrapping_neg() & 3) as u8;
        assert_eq!(Bth::parse(found.transport), Ok(Bth { pad_count, ..bth }));
        let rest = &found.transport[Bth::LENGTH..];
        let (again, length) = Extensions::parse(bth.opcode, rest).expect("they were just composed");
        assert_eq!((again, &rest[length..][..payload.len()]), (extensions, payload));
    }
}

fn route(bytes: &[u8]) {
    if let Ok(lrh) = Lrh::parse(bytes) {
        assert_eq!(Lrh::parse(&built(|out| lrh.build(out))), Ok(lrh));
    }
    if let Ok(grh) = Grh::parse(bytes) {
        assert_eq!(Grh::parse(&built(|out| grh.build(out))), Ok(grh));
    }
}

fn management(bytes: &[u8]) {
    let _ = mad::cut(bytes);
    let Ok((header, message)) = cm::Message::parse(bytes) else { return };
    let _ = (message.name(), message.local_communication_id(), message.remote_communication_id());
    private_data::find_all(message.private_data()).for_each(|found| assert!(found.offset < mad::LENGTH));
    if let cm::Message::Request(request) = &message {
        let _ = request
            .rdma_cm_ip()
            .map(|parsed| parsed.map(|(header, _)| (header.source(), header.destination())));
        let _ = (request.consumer_private_data(), request.path_mtu_bytes());
    }
    let again = built(|out| message.build(&header, out));
    assert_eq!(again.len(), mad::LENGTH);
    let is_complete = bytes.len() >= mad::LENGTH;
    assert!(!is_complete || !message.is_cut());
    let parsed = cm::Message::parse(&again);
    if is_complete {
        assert_eq!(parsed, Ok((header, message)));
    } else {
        assert!(parsed.is_ok());
    }
}

fn found_private_data(bytes: &[u8]) {
    let mut end = 0;
    for found in private_data::find_all(bytes) {
        assert!(found.offset >= end && found.offset + 4 <= bytes.len());
        end = found.offset + 4;
        if let Ok(fields) = found.fields {
            let again = private_data::find(&built(|out| fields.build(out))).expect("it was just built");
            assert_eq!((again.offset, again.fields), (0, Ok(fields)));
            let _ = (fields.send_bytes(), fields.receive_bytes(), found.valid());
            let _ = private_data::Negotiated::new(Some(fields), found.valid());
        }
    }
}

fn rdma_connection_manager(bytes: &[u8]) {
    if let Ok((header, consumer)) = rdma_cm_ip::Header::parse(bytes) {
        assert_eq!(consumer.len() + rdma_cm_ip::Header::LENGTH, bytes.len());
        let _ = (header.source(), header.destination());
        let again = built(|out| header.build(out));
        assert_eq!(rdma_cm_ip::Header::parse(&again), Ok((header, &[][..])));
    }
}

fn rpc_over_rdma(bytes: &[u8]) {
    let Ok(header) = Header::parse(bytes) else { return };
    assert!(header.length <= bytes.len());
    let builder = builder(&header);
    let _ = (header.procedure.to_string(), header.error.map(|error| error.to_string()));
    let _ = header.reply.map(|chunk| (chunk.length(), chunk.segment_count()));
    if let Some(stop) = header.stop {
        assert!(stop.offset <= bytes.len());
        return;
    }
    if header.version != rpcrdma::VERSION {
        return;
    }
    let again = built(|out| builder.build(out));
    let reread = Header::parse(&again).expect("it was just built");
    assert_eq!((reread.stop, reread.length), (None, again.len()));
    assert_eq!(builder, self::builder(&reread));
}

fn builder(header: &Header<'_>) -> Builder {
    Builder {
        xid: header.xid,
        version: header.version,
        credits: header.credits,
        procedure: header.procedure,
        padding: header.padding,
        reads: header.reads.collect(),
        writes: header.writes.map(|chunk| chunk.segments().collect()).collect(),
        reply: header.reply.map(|chunk| chunk.segments().collect()),
        error: header.error,
    }
}

fn call(bytes: &[u8]) {
    let _ = (rpc::peek(bytes), rpc::called(bytes));
    let mut reader = Reader::new(bytes, Layer::Rpc);
    if let Ok(call) = Call::parse(&mut reader) {
        let again = built(|out| call.build(out));
        assert_eq!(again.len(), reader.position());
        assert_eq!(Call::parse(&mut Reader::new(&again, Layer::Rpc)), Ok(call));
        assert_eq!(rpc::called(bytes), Ok((call.program, call.version, call.procedure)));
        let _ = GssCredential::parse(call.credential.body);
    }
    let _ = GssCredential::parse(bytes);
}

fn reply(bytes: &[u8]) {
    let mut reader = Reader::new(bytes, Layer::Rpc);
    if let Ok(reply) = Reply::parse(&mut reader) {
        let _ = reply.status.to_string();
        let again = built(|out| reply.build(out));
        assert_eq!(again.len(), reader.position());
        assert_eq!(Reply::parse(&mut Reader::new(&again, Layer::Rpc)), Ok(reply));
    }
}

fn checksums(bytes: &[u8]) {
    let (ip, rest) =
        bytes.split_at(bytes.len().min(64).min(bytes.first().map_or(0, |first| usize::from(*first & 0x7f))));
    if let Some((udp, transport)) = rest.split_first_chunk() {
        let _ = (icrc::roce_v2(ip, udp, transport), icrc::lrh(udp, transport));
    }
    if let Some((grh, transport)) = bytes.split_first_chunk() {
        let _ = icrc::grh(grh, transport);
    }
}
