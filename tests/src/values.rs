//! Hand-made values for tests.

use core::net::Ipv4Addr;
use rdmascope_conformance::{Finding, Value};
use rdmascope_dissector::connection::{
    Connection, ConnectionId, Contexts, Counts, Endpoint, Evidence, Files, FirstFrames, Origin, PrivateData,
    RoundTrips, Route, State,
};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{
    Chunk, Direction, Message, Missing, Outcome, Part, ReadChunk, Security, Seen, Timing, Transaction,
};
use rdmascope_dissector::ulb::{Details, Item, Nfs3, Nfs4, Operation, OperationKind, Place, Procedure};
use rdmascope_wire::rpcrdma::{self, Segment};
use rdmascope_wire::{Layer, Qpn, Rkey, Stop, Xid, rpc};

/// The time at which the samples start: 2025-11-21T09:30:00Z.
pub const START: Time = Time(1_763_717_400_000_000_000);

/// `START` plus some microseconds.
pub fn after(microseconds: i64) -> Time {
    Time(START.0 + microseconds * 1000)
}

/// Prints a text for manual inspection with `RDMASCOPE_SHOW=1 cargo test -- --nocapture`.
pub fn show(text: &str) {
    if std::env::var_os("RDMASCOPE_SHOW").is_some() {
        println!("{text}");
    }
}

/// A segment of `length` bytes.
pub fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment { handle: Rkey(handle), length, offset }
}

/// An RDMA_MSG without chunks.
pub fn message(frame: u64, microseconds: i64) -> Message {
    let seen = Seen { frame, time: after(microseconds) };
    Message {
        seen,
        first: seen,
        version: 1,
        procedure: rpcrdma::Procedure::Msg,
        credits: 128,
        header_length: 28,
        send_length: 200,
        message_length: Some(172),
        rpc_xid: None,
        invalidated: None,
        read_chunks: Vec::new(),
        interleaved: false,
        write_chunks: Vec::new(),
        reply_chunk: None,
        missing: Vec::new(),
        stop: None,
        unread: None,
        unused: 0,
        auth_fault: None,
    }
}

/// An unremarkable call, answered after `latency` microseconds.
pub fn transaction(procedure: Procedure, frame: u64, latency: i64) -> Transaction {
    let start = frame as i64 * 10_000;
    Transaction {
        number: 1,
        begun: 1,
        connection: ConnectionId(1),
        route: Some(Route {
            source: Address::V4([192, 0, 2, 1].into()),
            destination: Address::V4([192, 0, 2, 2].into()),
        }),
        direction: Direction::Forward,
        xid: Xid(0x1a2b_3c00 + frame as u32),
        procedure: Some(procedure),
        security: Some(Security::Sys),
        user: None,
        gss: None,
        outcome: Outcome::Completed,
        capture_gap: false,
        memory_unseen: false,
        lossy: false,
        call: Some(message(frame, start)),
        reply: Some(message(frame + 2, start + latency)),
        rpc_status: Some(rpc::Status::Success),
        error: None,
        status: Some(0),
        details: Details::default(),
        stop: None,
        timing: Timing::default(),
        unanswered_until: None,
        clock_stepped: false,
        done: None,
        exchange: None,
    }
}

/// An NFSv3 READ of 64 KiB into a Write chunk.
pub fn read(frame: u64, latency: i64) -> Transaction {
    let mut read = transaction(Procedure { program: 100_003, version: 3, number: 6 }, frame, latency);
    let chunk = Chunk { segments: vec![segment(0x1234, 65_536, 0xffff_8880_1000)] };
    let sent = read.call.as_ref().unwrap().seen.time;
    read.timing.writes = Some((Time(sent.0 + latency * 600), Time(sent.0 + latency * 900)));
    read.timing.written_bytes = 65_536;
    read.call.as_mut().unwrap().write_chunks.push(chunk.clone());
    read.reply.as_mut().unwrap().write_chunks.push(chunk);
    read.details.operations.push(Operation {
        status: Some(0),
        offset: Some(131_072),
        count: Some(65_536),
        result_count: Some(65_536),
        end_of_file: Some(false),
        result_item: Some(Item { length: 65_536, position: 132, place: Place::WriteChunk(0) }),
        ..Operation::new(Nfs3::Read.into())
    });
    read
}

/// An NFSv4.1 COMPOUND of these operations. The last one returns `status`.
pub fn compound(
    operations: &[impl Copy + Into<OperationKind>],
    status: u32,
    frame: u64,
    latency: i64,
) -> Transaction {
    let mut compound = transaction(Procedure { program: 100_003, version: 4, number: 1 }, frame, latency);
    compound.details.minor_version = Some(1);
    compound.status = Some(status);
    compound.details.operations = operations
        .iter()
        .map(|kind| Operation { status: Some(0), ..Operation::new((*kind).into()) })
        .collect();
    compound.details.operations.last_mut().unwrap().status = Some(status);
    compound
}

/// A transaction in which every optional part is present, so that every key of its JSON is written.
pub fn full() -> Transaction {
    let mut full = compound(&[Nfs4::Sequence, Nfs4::Putfh, Nfs4::Write, Nfs4::Getattr], 0, 7, 2500);
    let handle = full.details.keep(&[0xde, 0xad, 0xbe, 0xef]);
    let plain = full.details.keep("caf\u{e9}".as_bytes());
    let odd = full.details.keep(b"\xff\n");
    full.details.operations[1].file_handle = Some(handle);
    full.details.operations[3].result_file_handle = Some(handle);
    let write = &mut full.details.operations[2];
    write.file_name = Some(plain);
    write.other_name = Some(odd);
    write.offset = Some(4096);
    write.count = Some(8192);
    write.result_count = Some(8192);
    write.end_of_file = Some(true);
    write.argument_item = Some(Item { length: 8192, position: 168, place: Place::ReadChunk(0) });
    write.result_item = Some(Item { length: 4, position: 172, place: Place::Inline(20) });
    let stop = Stop::short(Layer::RpcRdma, 24, 4, 26);
    let call = full.call.as_mut().unwrap();
    call.first = Seen { frame: 6, time: after(69_990) };
    call.read_chunks.push(ReadChunk {
        position: 168,
        segments: vec![segment(0xab, 4096, 0x1000), segment(0xac, 4096, 0xffff_ffff_ffff_f000)],
    });
    call.write_chunks.push(Chunk { segments: vec![segment(0xad, 100, 0)] });
    call.reply_chunk = Some(Chunk { segments: vec![segment(0xae, 2048, 8)] });
    call.missing.push(Missing { part: Part::ReadChunk(0), start: 1024, end: Some(2048) });
    call.missing.push(Missing { part: Part::Send, start: 0, end: None });
    call.stop = Some(stop);
    let reply = full.reply.as_mut().unwrap();
    reply.invalidated = Some(Rkey(0xab));
    reply.first = Seen { frame: 9, time: after(72_400) };
    full.timing = Timing {
        acknowledged: Some(Seen { frame: 8, time: after(70_050) }),
        round_trip: 40_000,
        acknowledges_late: false,
        reads: Some((after(70_100), after(71_100))),
        writes: Some((after(72_000), after(72_100))),
        requested_bytes: 8192,
        read_bytes: 8192,
        busy_before: 20_000,
        busy_after: 200_000,
        written_bytes: 100,
    };
    full.error = Some(rpcrdma::Error::Version { low: 1, high: 1 });
    full.done = Some(Seen { frame: 10, time: after(73_000) });
    full.stop = Some(stop);
    full
}

/// A connection set up by CM.
pub fn connection() -> Connection {
    let end = |last: u8, qpn: u32, remote_invalidation: bool, sent: Counts| Endpoint {
        address: Address::V4(Ipv4Addr::new(10, 77, 0, last)),
        ip: None,
        qpn: Some(Qpn(qpn)),
        tcp_port: None,
        contexts: Contexts::default(),
        start: None,
        private_data: Some(PrivateData {
            offset: 0,
            version: 1,
            reserved: 0,
            remote_invalidation,
            send_size: 4096,
            receive_size: 4096,
        }),
        sent,
        first_frames: FirstFrames::default(),
        round_trips: Some(RoundTrips { count: 180, minimum: 9_000, median: 12_000 }),
    };
    let client = Counts {
        packets: 1540,
        bytes: 345_678,
        sends: 212,
        read_response_bytes: 262_144,
        ..Counts::default()
    };
    let server = Counts {
        packets: 2210,
        bytes: 1_345_678,
        sends: 212,
        read_requests: 64,
        written_bytes: 786_432,
        ..Counts::default()
    };
    Connection {
        id: ConnectionId(1),
        origin: Origin::Cm,
        state: State::Closed,
        roles_known: true,
        requester: end(1, 0x11, true, client),
        responder: end(2, 0x12, false, server),
        protocol: None,
        is_foreign: false,
        is_iwarp: false,
        has_crc: None,
        port: Some(20_049),
        path_mtu: Some(1024),
        call_inline_threshold: Some(4096),
        reply_inline_threshold: Some(4096),
        remote_invalidation: Some(false),
        first: START,
        last: after(12_345_678),
        transactions: [208, 4],
        files: Files::default(),
    }
}

/// A connection whose start is not in the capture.
pub fn inferred() -> Connection {
    let mut inferred = connection();
    inferred.id = ConnectionId(2);
    inferred.origin = Origin::Inferred(Evidence { acknowledged_psn: true, xid: true, rkey: false });
    inferred.state = State::Open;
    inferred.roles_known = false;
    for end in [&mut inferred.requester, &mut inferred.responder] {
        end.private_data = None;
    }
    inferred.requester.qpn = None;
    inferred.port = None;
    inferred.call_inline_threshold = None;
    inferred.reply_inline_threshold = None;
    inferred.remote_invalidation = None;
    inferred
}

/// A finding about a call beyond the granted credits, as the judge reports it.
pub fn finding() -> Finding {
    Finding {
        rule: rdmascope_conformance::rule("credit-limit"),
        connection: Some(ConnectionId(1)),
        by_requester: Some(true),
        ..Finding::new("129 requests in flight where 128 were granted")
            .by(End::First)
            .of(&read(7, 10))
            .frames([9, 7])
            .values(Value::Count(129), Value::Count(128))
    }
}
