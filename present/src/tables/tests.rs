//! The tables with every kind of content that they can show.

use crate::column::{Setting, TextTable};
use crate::columns::{CONNECTION, PACKET, TRANSACTION};
use crate::text::Style;
use core::net::Ipv4Addr;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{Address, Carrier, Frame, IcrcVerdict, Identity, Other};
use rdmascope_dissector::protocol::{Protocol, Traffic};
use rdmascope_dissector::record::{LinkType, Record};
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_dissector::ulb::Nfs4;
use rdmascope_tests::values::{self as samples, START, after};
use rdmascope_wire::bth::{Aeth, Bth, Extensions, Opcode, Reth, Syndrome};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::{Builder, Header, Procedure, ReadSegment};
use rdmascope_wire::{Qpn, Rkey, Xid};

const SETTING: Setting = Setting { start: START, style: Style::new(false) };

fn table(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out).unwrap();
    samples::show(&text);
    text
}

#[test]
fn connections() {
    let text = table(|out| {
        TextTable::new(&CONNECTION).write_heading(Style::default(), out).unwrap();
        let other = Connection { protocol: Some(Protocol::SmbDirect), ..samples::inferred() };
        for connection in [samples::connection(), samples::inferred(), other] {
            TextTable::new(&CONNECTION).write_row(&connection, SETTING, out).unwrap();
        }
    });
    assert_eq!(
        text,
        "   # requester       QP          responder       QP       origin   state      MTU  call reply inv  forward backward     bytes
   1 10.77.0.1       0x000011 -> 10.77.0.2       0x000012 cm       closed    1024  4096  4096  no      208        4  1.61 MiB
   2 10.77.0.1       -        -- 10.77.0.2       0x000012 inferred open      1024     -     -   -      208        4  1.61 MiB
   2 10.77.0.1       -        -- 10.77.0.2       0x000012 inferred open      1024     -     -   -      208        4  1.61 MiB  SMB Direct
"
    );
}

#[test]
fn transactions() {
    let mut lost = samples::compound(&[Nfs4::Sequence, Nfs4::Putfh, Nfs4::Read], 0, 31, 1);
    lost.reply = None;
    lost.status = None;
    lost.outcome = Outcome::NoReply;
    lost.capture_gap = true;
    lost.call.as_mut().unwrap().procedure = Procedure::Nomsg;
    let mut answered = samples::read(41, 1);
    answered.call = None;
    answered.procedure = None;
    answered.details.operations.clear();
    answered.outcome = Outcome::NoCall;
    answered.direction = Direction::Backward;
    let mut full = samples::full();
    full.error = None;
    let failed = samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 2, 51, 80);
    let text = table(|out| {
        TextTable::new(&TRANSACTION).write_heading(Style::default(), out).unwrap();
        for transaction in [samples::read(5, 250), full, lost, answered, failed] {
            TextTable::new(&TRANSACTION).write_row((&transaction).into(), SETTING, out).unwrap();
        }
    });
    assert_eq!(
        text,
        r#"     # conn    XID           call   reply     seconds  latency  protocol operation            status         file; chunks; operations
     1    1 -> 0x1a2b3c05       5       7    0.050000    250us  NFSv3    READ                 OK             64 KiB written; 65536 at 131072
     1    1 -> 0x1a2b3c07       7       9    0.070000   2.50ms  NFSv4.1  WRITE                OK             8 KiB read; 100 B written; bytes missing; SEQUENCE PUTFH WRITE("café" "\xff\u{a}" 8192 at 4096) GETATTR
     1    1 -> 0x1a2b3c1f      31       -    0.310000        -  NFSv4.1  READ                 no-reply       Long Call; gap in the capture; SEQUENCE PUTFH READ
     1    1 <- 0x1a2b3c29       -      43    0.410001        -  -        ?                    no-call        64 KiB written
     1    1 -> 0x1a2b3c33      51      53    0.510000     80us  NFSv4.1  LOOKUP               NOENT          SEQUENCE LOOKUP
"#
    );
}

/// Some kinds of packets, as the engine would report them.
pub(crate) fn with_packets(mut see: impl FnMut(&Packet<'_>)) {
    let record = Record {
        number: 1,
        time: after(1_250_000),
        link: LinkType::ETHERNET,
        original_length: 90,
        dropped: 0,
        tap: Default::default(),
        data: &[0; 90],
    };
    let [source, destination] = [1, 2].map(|last| Address::V4(Ipv4Addr::new(10, 77, 0, last)));
    let frame = Frame {
        source,
        destination,
        carrier: Carrier::RoceV2 { source_port: 51_234, destination_port: 4791 },
        transport: &[],
        transport_length: 44,
        icrc: IcrcVerdict::Good,
        traffic_class: 2,
        hop: 0,
        context: 0,
        identity: Identity::new(&[], [source, destination], None, IcrcVerdict::Good, None),
    };
    let bth = Bth {
        opcode: Opcode::RC_SEND_ONLY,
        solicited_event: false,
        migration_request: true,
        pad_count: 0,
        transport_version: 0,
        partition_key: 0xffff,
        fecn: false,
        becn: false,
        destination_qp: Qpn(0x12),
        acknowledge_request: true,
        psn: Psn::new(1_234_567),
    };
    let mut message = Vec::new();
    let mut builder = Builder::new(Xid(0x1a2b_3c4d), 128, Procedure::Msg);
    for offset in [0x1000, 0x2000] {
        builder.reads.push(ReadSegment { position: 168, target: samples::segment(0xab, 4096, offset) });
    }
    builder.writes.push(vec![samples::segment(0xac, 65_536, 0)]);
    builder.reply = Some(vec![samples::segment(0xad, 2048, 0)]);
    builder.build(&mut message);
    let header = Header::parse(&message).unwrap();
    let cut = Header::parse(&message[..30]).unwrap();

    let headers = Headers {
        bth,
        extensions: Extensions::default(),
        payload: &message,
        payload_length: message.len() as u32,
        content: Content::RpcRdma(header),
    };
    let read = Extensions {
        reth: Some(Reth { virtual_address: 0x1000, rkey: Rkey(0xab), dma_length: 4096 }),
        ..Extensions::default()
    };
    let nak = Extensions {
        aeth: Some(Aeth { syndrome: Syndrome(0x60), message_sequence_number: 7 }),
        ieth: Some(Rkey(0xab)),
        immediate: Some(5),
        deth: Some(rdmascope_wire::bth::Deth { queue_key: 0x8001_0000, source_qp: Qpn(1) }),
        ..Extensions::default()
    };
    let stop = rdmascope_wire::Stop::short(rdmascope_wire::Layer::Bth, 12, 16, 20);
    let with = |opcode: u8, extensions, content, payload_length| {
        let bth = Bth { opcode: Opcode(opcode), ..bth };
        Some(Ok(Headers { bth, extensions, payload_length, content, ..headers }))
    };
    for (number, icrc, frame_of, headers) in [
        (1, IcrcVerdict::Good, Ok(frame), Some(Ok(headers))),
        (2, IcrcVerdict::Good, Ok(frame), with(0x0c, read, Content::Other, 0)),
        (3, IcrcVerdict::Bad, Ok(frame), with(0x0e, Extensions::default(), Content::Other, 1024)),
        (4, IcrcVerdict::Good, Ok(frame), with(0x11, nak, Content::Other, 0)),
        (
            5,
            IcrcVerdict::Unverifiable,
            Ok(frame),
            with(0x04, Extensions::default(), Content::RpcRdma(cut), 30),
        ),
        (6, IcrcVerdict::Good, Ok(frame), Some(Err(stop))),
        (7, IcrcVerdict::Good, Err(Other::Traffic(Traffic::EtherType(0x0806))), None),
        (8, IcrcVerdict::Good, Err(Other::Stop(stop)), None),
    ] {
        see(&Packet {
            record: Record { number, ..record },
            frame: frame_of.map(|frame: Frame<'_>| Frame { icrc, ..frame }),
            headers,
            of_connection: false,
            connection: None,
            copy_of: None,
            speaks_rpc: true,
            contents: None,
        });
    }
}

#[test]
fn packets() {
    let text = table(|out| {
        TextTable::new(&PACKET).write_heading(Style::default(), out).unwrap();
        with_packets(|packet| TextTable::new(&PACKET).write_row(packet, SETTING, out).unwrap());
    });
    assert_eq!(
        text,
        "  frame     seconds source             destination     opcode                       QP            PSN carries
      1    1.250000 10.77.0.1       -> 10.77.0.2       RC SEND Only                 0x000012  1234567 RDMA_MSG xid 0x1a2b3c4d credits 128 read 8 KiB@168 write 64 KiB reply chunk 2 KiB
      2    1.250000 10.77.0.1       -> 10.77.0.2       RC RDMA READ Request         0x000012  1234567 4096 of 0x000000ab at 0x0000000000001000
      3    1.250000 10.77.0.1       -> 10.77.0.2       RC RDMA READ Response Middle 0x000012  1234567 1024 bytes bad ICRC
      4    1.250000 10.77.0.1       -> 10.77.0.2       RC Acknowledge               0x000012  1234567 NAK, PSN sequence error invalidates 0x000000ab
      5    1.250000 10.77.0.1       -> 10.77.0.2       RC SEND Only                 0x000012  1234567 RDMA_MSG xid 0x1a2b3c4d credits 128 (RPC-over-RDMA stops at byte 20: truncated packet, 20 bytes needed, 10 there)
      6    1.250000 10.77.0.1       -> 10.77.0.2       BTH stops at byte 12: truncated packet, 16 bytes needed, 8 there
      7    1.250000 ARP (EtherType 0x0806), 90 bytes
      8    1.250000 BTH stops at byte 12: truncated packet, 16 bytes needed, 8 there
"
    );
}
