use super::*;
use crate::inventory::from_text;
use crate::note::{Note, NoteKind};
use rdmascope_dissector::connection::Origin;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::{LinkType, Record, Tap};
use rdmascope_dissector::transaction::Outcome;

const LINE: &str = "device=rxe0 local-qp=17 remote-qp=18 source=10.77.0.2:60900 destination=10.77.0.1:20049 owner=rpcrdma snooped=yes\n";

fn known(line: &str) -> Known {
    Known { connection: from_text(line).remove(0), psns: [Psn::new(0); 2] }
}

fn message(is_sent: bool, length: u32, bytes: Vec<u8>) -> Message {
    let (time, queue_pair, number, device, invalidated) = (0, 1, 17, 0, None);
    Message { time, is_sent, queue_pair, number, device, invalidated, length, bytes }
}

/// RDMA_MSG without chunks, and a NULL call of NFS version 3 or its reply.
fn rpc(is_call: bool) -> Vec<u8> {
    let mut words = vec![7, 1, 32, 0, 0, 0, 0, 7];
    match is_call {
        true => words.extend([0, 2, 100_003, 3, 0, 0, 0, 0, 0]),
        false => words.extend([1, 0, 0, 0, 0]),
    }
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

#[test]
fn messages_become_a_transaction() {
    let mut known = known(LINE);
    let (call, reply) = (rpc(true), rpc(false));
    let mut reply = message(false, reply.len() as u32, reply);
    reply.invalidated = Some(0xcafe);
    let frames = [message(true, call.len() as u32, call), reply];
    let frames = frames.iter().zip(1..).map(|(one, time)| known.frame(one, Time(time), 4096).unwrap());
    let mut engine = Engine::new(Config::default());
    Note { kind: NoteKind::Inventory, bytes: LINE.into() }.pass_to(&mut engine);
    let (mut outcomes, mut connections) = (Vec::new(), Vec::new());
    let mut see = |event: Event<'_>| match event {
        Event::Transaction(one) => outcomes.push((one.outcome, one.latency(), one.memory_unseen)),
        Event::Connection(one) => connections.push(one.clone()),
        _ => {}
    };
    for (frame, number) in frames.zip(1..) {
        let record = Record {
            number,
            time: frame.time,
            link: LinkType::RAW,
            original_length: frame.length,
            dropped: 0,
            tap: Tap::default(),
            data: &frame.bytes,
        };
        engine.handle(&record, &mut see);
    }
    engine.finish(&mut see);
    assert_eq!(outcomes, [(Outcome::Completed, Some(1), true)]);
    let [one] = &connections[..] else { panic!("{connections:?}") };
    assert_eq!((one.origin, one.path_mtu, one.port), (Origin::Snoop, None, Some(20049)));
    assert_eq!((one.requester.qpn, one.responder.qpn), (Some(Qpn(17)), Some(Qpn(18))));
    assert_eq!((one.responder.sent.invalidations, one.requester.sent.missing_packets), (1, 0));
    // The ICRCs of composed frames are not counted.
    assert_eq!((engine.totals().icrc, engine.totals().contradicted_connections), ([0; 3], 0));
}

/// A frame is truncated if its message was fetched in part or exceeds the requested maximum.
#[test]
fn frames_with_missing_bytes_are_truncated() {
    let mut known = known(LINE);
    // IPv4, UDP, BTH; ICRC.
    let (before, after) = (20 + 8 + 12, 4);
    for (length, fetched, most, kept) in [
        (100u32, 100, 4096, 100 + after),
        (101, 101, 4096, 104 + after),
        (101, 60, 4096, 60),
        (100, 100, 64, 64),
    ] {
        let frame = known.frame(&message(true, length, vec![9; fetched]), Time(0), most).unwrap();
        let padded = before + length.next_multiple_of(4) as usize + after;
        assert_eq!((frame.length as usize, frame.bytes.len()), (padded, before + kept), "{length} {fetched}");
    }
    assert!(known.frame(&message(true, 70_000, vec![9; 64]), Time(0), 4096).is_none());
}

#[test]
fn ipv6_and_mixed_addresses() {
    let six = "device=rxe0 local-qp=1 remote-qp=2 source=[fd77::2]:5 destination=[fd77::1]:20049\n";
    let frame = known(six).frame(&message(false, 4, vec![1; 4]), Time(0), 64).unwrap();
    assert_eq!((frame.bytes[0] >> 4, frame.bytes[23]), (6, 1));
    let mixed = "device=rxe0 local-qp=1 remote-qp=2 source=10.0.0.1:5 destination=[fd77::1]:20049\n";
    assert!(known(mixed).frame(&message(false, 4, vec![1; 4]), Time(0), 64).is_none());
}

/// soft-iWARP gives the number of a closed queue pair to the next one.
#[test]
fn psns_continue_if_numbers_are_used_again() {
    let mut first = known(LINE);
    let call = rpc(true);
    for _ in 0..3 {
        first.frame(&message(true, call.len() as u32, call.clone()), Time(0), 4096).unwrap();
    }
    let next = |line: &str| psns_after([&first].into_iter(), &known(line).connection).map(Psn::value);
    assert_eq!(next(&LINE.replace("60900", "60901")), [3, 0]);
    assert_eq!(next(&LINE.replace("remote-qp=18", "remote-qp=19")), [0, 0]);
    assert_eq!(next(&LINE.replace("10.77.0.2", "10.77.0.3")), [0, 0]);
}
