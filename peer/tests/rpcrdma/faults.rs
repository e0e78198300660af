//! Reactions of a peer to faults. Each case injects a fault on one side, with the means of
//! scenarios, and checks the reaction of the other side.

#![allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

use super::{Session, bytes};
use rdmascope_peer::endpoint;
use rdmascope_peer::interceptor::{Direction, Effect, Matches, Rule, Rules};
use rdmascope_peer::memory::{Access, Refusal};
use rdmascope_peer::pair::{End, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::random::Random;
use rdmascope_peer::rc::{Failure, Fault, QueueEvent};
use rdmascope_peer::rpcrdma::{self, Call, Discard, Edit, Reply};
use rdmascope_peer::time::Instant;
use rdmascope_wire::bth::{NakCode, Opcode};
use rdmascope_wire::rpcrdma::{Builder, Error, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Rkey, Xid};
use std::time::Duration;

const XID: Xid = Xid(0x1122_3344);

fn connected() -> Session {
    Session::new(rpcrdma::Config::default(), rpcrdma::Config::default())
}

impl Session {
    /// Runs until the network is idle, and returns the events of both sides. `answer` answers
    /// calls.
    fn run(&mut self, mut answer: impl FnMut(&rpcrdma::Called) -> Option<Reply>) -> (Vec<Event>, Vec<Event>) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            self.pair.run();
            ours.extend(std::iter::from_fn(|| self.pair.a.poll_event()));
            while let Some(event) = self.pair.b.poll_event() {
                if let Event::Rpc { event: rpcrdma::Event::Called(called), .. } = &event
                    && let Some(reply) = answer(called)
                {
                    self.pair.b.reply(self.b, called.xid, reply).unwrap();
                }
                theirs.push(event);
            }
        }
        (ours, theirs)
    }
}

fn call() -> Vec<u8> {
    bytes(&[XID.0, 0, 2, 100_003, 3, 0, 0, 0, 0, 0])
}

fn reply(_: &rpcrdma::Called) -> Option<Reply> {
    Some(Reply::inline(bytes(&[XID.0, 1, 0, 0, 0, 0])))
}

fn rpc(events: &[Event]) -> Vec<&rpcrdma::Event> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Rpc { event, .. } => Some(event),
            Event::Endpoint(_) => None,
        })
        .collect()
}

fn queue(events: &[Event]) -> Vec<&QueueEvent> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Endpoint(endpoint::Event::Queue { event, .. }) => Some(event),
            _ => None,
        })
        .collect()
}

/// A call with a changed header, and the RDMA_ERROR that the Responder must answer with (RFC 8166,
/// section 4.5).
#[test]
fn faulty_headers_are_refused() {
    let memory = Segment { handle: Rkey(1), length: 4, offset: 0 };
    let no_chunk = Discard::Chunks;
    let cases: Vec<(Edit, Error, Option<Discard>)> = vec![
        (
            Box::new(|header, _| header.version = 9),
            Error::Version { low: 1, high: 1 },
            Some(Discard::Version(9)),
        ),
        (
            Box::new(|header, _| header.procedure = Procedure::Unknown(7)),
            Error::Chunk,
            Some(Discard::Procedure(Procedure::Unknown(7))),
        ),
        (
            Box::new(|header, _| {
                header.procedure = Procedure::Msgp;
                header.padding = Some((4, 4));
            }),
            Error::Chunk,
            Some(Discard::Procedure(Procedure::Msgp)),
        ),
        (Box::new(|header, _| header.procedure = Procedure::Nomsg), Error::Chunk, Some(Discard::NoPayload)),
        (Box::new(|_, payload| payload[3] ^= 1), Error::Chunk, Some(Discard::OtherXid(Xid(XID.0 ^ 1)))),
        (Box::new(|_, payload| payload.clear()), Error::Chunk, None),
        // A Position Zero Read chunk together with a Payload stream.
        (
            Box::new(move |header, _| header.reads.push(ReadSegment { position: 0, target: memory })),
            Error::Chunk,
            Some(no_chunk),
        ),
        // Exceeds the longest accepted message.
        (
            Box::new(move |header, _| {
                let target = Segment { length: u32::MAX, ..memory };
                header.reads.push(ReadSegment { position: 40, target });
            }),
            Error::Chunk,
            Some(Discard::TooMuch),
        ),
        // An empty item past the end of the message, so that nothing is read.
        (
            Box::new(move |header, _| {
                let target = Segment { length: 0, ..memory };
                header.reads.push(ReadSegment { position: 400, target });
            }),
            Error::Chunk,
            Some(no_chunk),
        ),
    ];
    for (number, (edit, error, reason)) in cases.into_iter().enumerate() {
        let mut session = connected();
        let faulty = Call { message: call(), edit: Some(edit), ..Call::default() };
        session.pair.a.call(session.a, faulty).unwrap();
        let (ours, theirs) = session.run(reply);
        let version = if matches!(error, Error::Version { .. }) { 9 } else { 1 };
        assert_eq!(rpc(&ours), [&rpcrdma::Event::Error { xid: XID, version, error }], "case {number}");
        let refused = rpc(&theirs);
        let [rpcrdma::Event::Refused { xid: XID, why, .. }] = refused[..] else { panic!("{refused:?}") };
        assert!(reason.is_none_or(|reason| reason == *why), "case {number}: {why:?}");
        // The control: the unchanged call is answered on the same connection.
        session.pair.a.call(session.a, Call::inline(call())).unwrap();
        let (ours, _) = session.run(reply);
        assert!(matches!(rpc(&ours)[..], [rpcrdma::Event::Replied(_)]), "case {number}");
    }
}

/// Messages that must be dropped without an answer.
#[test]
fn unexpected_messages_are_discarded() {
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    let cases = [
        (words(&[XID.0, 1, 1, 0, 0, 0]), None, Discard::Short(24)),
        (words(&[]), None, Discard::Short(0)),
        (words(&[XID.0, 1, 1, 3, 0, 0, 0]), Some(XID), Discard::Procedure(Procedure::Done)),
        // A reply and an error without a call.
        (words(&[XID.0, 1, 1, 0, 0, 0, 0, XID.0, 1, 0]), Some(XID), Discard::UnknownXid),
        (words(&[XID.0, 1, 1, 4, 2]), Some(XID), Discard::UnknownXid),
        (words(&[XID.0, 1, 1, 4, 1, 1, 1]), Some(XID), Discard::UnknownXid),
    ];
    for (bytes, xid, why) in cases {
        let mut session = connected();
        session.pair.a.send_raw(session.a, bytes.clone()).unwrap();
        let (ours, theirs) = session.run(reply);
        assert_eq!(rpc(&ours), [] as [&rpcrdma::Event; 0]);
        assert_eq!(rpc(&theirs), [&rpcrdma::Event::Discarded { xid, why, bytes }]);
    }
}

/// Replies that a Requester must not accept.
#[test]
fn faulty_replies_are_discarded() {
    type Case = (fn(&mut Builder, &mut Vec<u8>), Discard);
    let cases: [Case; 6] = [
        (|header, _| header.xid = Xid(5), Discard::OtherXid(XID)),
        (|header, _| header.version = 2, Discard::Version(2)),
        (|_, payload| payload[3] ^= 1, Discard::OtherXid(Xid(XID.0 ^ 1))),
        (|header, _| header.writes[0][0].length += 101, Discard::Chunks),
        (|header, _| header.writes[0].clear(), Discard::Chunks),
        (
            |header, payload| {
                header.procedure = Procedure::Nomsg;
                payload.clear();
            },
            Discard::NoPayload,
        ),
    ];
    for (number, (edit, expected)) in cases.into_iter().enumerate() {
        let mut session = connected();
        let with_chunk = Call { message: call(), write_chunks: vec![100], ..Call::default() };
        session.pair.a.call(session.a, with_chunk).unwrap();
        let (ours, _) = session.run(|called| {
            let mut answer = reply(called)?;
            answer.edit = Some(Box::new(edit));
            Some(answer)
        });
        let events = rpc(&ours);
        match events[..] {
            [rpcrdma::Event::Discarded { why, .. }] => assert_eq!(*why, expected, "case {number}"),
            _ => panic!("case {number}: {events:?}"),
        }
        let session_of_a = session.pair.a.session(session.a).unwrap();
        assert_eq!(session_of_a.outstanding(), (1, 0), "case {number}");
    }
}

#[test]
fn credit_grants_limit_outstanding_calls() {
    // Before the first reply there is one credit (RFC 8166, section 3.3.3); then the grant of the
    // reply counts.
    let mut session = connected();
    let with_xid = |xid: u32| {
        let mut bytes = call();
        bytes[..4].copy_from_slice(&xid.to_be_bytes());
        Call::inline(bytes)
    };
    for xid in 0..5 {
        session.pair.a.call(session.a, with_xid(xid)).unwrap();
    }
    assert_eq!(session.pair.a.session(session.a).unwrap().outstanding(), (1, 4));
    let answer = |called: &rpcrdma::Called, credits: u32| {
        let words = [called.xid.0, 1, 0, 0, 0, 0];
        let message = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Some(Reply {
            edit: Some(Box::new(move |header, _| header.credits = credits)),
            ..Reply::inline(message)
        })
    };
    let mut first = true;
    let (ours, _) = session.run(|called| if core::mem::take(&mut first) { answer(called, 3) } else { None });
    assert_eq!(rpc(&ours).len(), 1);
    assert_eq!(session.pair.a.session(session.a).unwrap().outstanding(), (3, 1));

    // A grant of zero is reported and treated as one.
    let mut session = connected();
    session.pair.a.call(session.a, with_xid(1)).unwrap();
    let (ours, _) = session.run(|called| answer(called, 0));
    assert!(rpc(&ours).contains(&&rpcrdma::Event::NoCredit { xid: Xid(1) }));
    assert_eq!(session.pair.a.session(session.a).unwrap().granted(), 1);

    // Two calls before the first reply exceed the single credit.
    let mut session = connected();
    for xid in 1..3 {
        session.pair.a.call(session.a, Call { beyond_credits: true, ..with_xid(xid) }).unwrap();
    }
    let (_, theirs) = session.run(|_| None);
    let exceeded = rpcrdma::Event::CreditsExceeded { xid: Xid(2), outstanding: 2, granted: 1 };
    assert!(rpc(&theirs).contains(&&exceeded));
}

/// A reply that does not fit is answered with ERR_CHUNK, without a reply or a write out of bounds.
#[test]
fn oversized_reply_is_answered_with_err_chunk() {
    for (most_reply, write_chunks) in [(0, vec![]), (5000, vec![]), (9000, vec![100])] {
        let mut session = connected();
        session
            .pair
            .a
            .call(session.a, Call { message: call(), most_reply, write_chunks, ..Call::default() })
            .unwrap();
        let (ours, theirs) = session.run(|called| {
            let mut answer = reply(called)?;
            answer.message.resize(6000, 7);
            answer.reduce = vec![24..3000];
            Some(answer)
        });
        assert_eq!(rpc(&ours), [&rpcrdma::Event::Error { xid: XID, version: 1, error: Error::Chunk }]);
        assert!(matches!(rpc(&theirs)[..], [_, rpcrdma::Event::Refused { why: Discard::ReplyTooLong, .. }]));
        assert!(session.pair.a.endpoint().memory(session.a).unwrap().is_empty());
    }
}

/// A chunk with an unknown handle ends the connection, and the call is lost.
#[test]
fn unknown_handle_ends_the_connection() {
    let mut session = connected();
    let edit: Edit = Box::new(|header, _| header.reads[0].target.handle.0 ^= 1);
    let faulty = Call { message: call(), reduce: vec![24..32], edit: Some(edit), ..Call::default() };
    session.pair.a.call(session.a, faulty).unwrap();
    let (ours, theirs) = session.run(reply);
    assert_eq!(rpc(&ours), [&rpcrdma::Event::Lost { xid: XID }]);
    let refused = Failure::Refused(NakCode::RemoteAccessError);
    assert!(queue(&theirs).contains(&&QueueEvent::Failed(refused)));
    let unknown = queue(&ours).into_iter().any(|event| {
        matches!(event, QueueEvent::Fault(Fault::Access { refusal: Refusal::UnknownKey, length: 8, .. }))
    });
    assert!(unknown);
    assert!(ours.iter().any(|event| Peer::closed(event).is_some()));
    assert!(theirs.iter().any(|event| Peer::closed(event).is_some()));
}

/// After a crash of one side, its calls are lost at once, and those of the other side after its
/// retries.
#[test]
fn abandoned_connection_loses_its_calls() {
    let mut session = connected();
    session.pair.a.call(session.a, Call::inline(call())).unwrap();
    session.pair.b.endpoint_mut().abandon(session.b);
    session.pair.run_to_end();
    let lost = rpcrdma::Event::Lost { xid: XID };
    let ours: Vec<Event> = std::iter::from_fn(|| session.pair.a.poll_event()).collect();
    assert_eq!(rpc(&ours), [&lost]);
    assert!(queue(&ours).contains(&&QueueEvent::Failed(Failure::RetriesExceeded)));

    let mut session = connected();
    session.pair.a.call(session.a, Call::inline(call())).unwrap();
    session.pair.a.endpoint_mut().abandon(session.a);
    let ours: Vec<Event> = std::iter::from_fn(|| session.pair.a.poll_event()).collect();
    assert_eq!(rpc(&ours), [&lost]);
    assert!(session.pair.a.session(session.a).is_none());
}

/// A SEND invalidates the memory of another call.
#[test]
fn invalidation_of_other_memory_is_reported() {
    let mut session = connected();
    let endpoint = session.pair.a.endpoint_mut();
    let (rkey, _) = endpoint.register(session.a, vec![1; 8], Access::READ).unwrap();
    session.pair.a.call(session.a, Call::inline(call())).unwrap();
    session.pair.run();
    while session.pair.b.poll_event().is_some() {}
    let words = [XID.0, 1, 1, 0, 0, 0, 0, XID.0, 1, 0, 0, 0, 0];
    let bytes = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let send = rdmascope_peer::rc::Send { bytes, invalidate: Some(rkey), ..Default::default() };
    session.pair.b.endpoint_mut().send(session.b, send).unwrap();
    let (ours, _) = session.run(reply);
    assert_eq!(rpc(&ours)[0], &rpcrdma::Event::WrongInvalidation { xid: XID, rkey });
    assert!(matches!(rpc(&ours)[1], rpcrdma::Event::Replied(_)));
    let memory = session.pair.a.endpoint().memory(session.a).unwrap();
    assert_eq!(memory.read(rkey, 0, 1), Err(Refusal::UnknownKey));
}

/// Rules for network faults: each acts as often as configured, and the session continues.
#[test]
fn sessions_complete_despite_interceptor_faults() {
    let effects: [fn() -> Effect; 6] = [
        || Effect::Drop,
        || Effect::Duplicate(Duration::from_micros(50)),
        || Effect::Delay(Duration::from_micros(500)),
        || Effect::BadIcrc,
        || Effect::Flip { offset: -1, mask: 0 },
        || Effect::Change(Box::new(|transport| transport[11] ^= 1)),
    ];
    for effect in effects {
        for direction in [Direction::Transmit, Direction::Receive] {
            let mut session = connected();
            let opcode =
                if direction == Direction::Transmit { Opcode::RC_SEND_ONLY } else { Opcode::RC_ACKNOWLEDGE };
            let matches = Matches {
                direction: Some(direction),
                opcode: Some(opcode),
                count: Some(1),
                ..Matches::default()
            };
            let rules = Rules::new(vec![Rule::new(matches, effect())], 1);
            session.pair.a.endpoint_mut().intercept(Some(Box::new(rules)));
            session.pair.a.call(session.a, Call::inline(call())).unwrap();
            let (ours, theirs) = session.run(reply);
            assert!(matches!(rpc(&ours)[..], [rpcrdma::Event::Replied(_)]), "{:?}", rpc(&ours));
            assert!(matches!(rpc(&theirs)[..], [rpcrdma::Event::Called(_)]));
        }
    }
}

/// A lost REQ, REP or RTU is retransmitted, and the connection is established once.
#[test]
fn lost_cm_messages_are_retransmitted() {
    for (side, attribute) in [(0, 0x0010), (1, 0x0013), (0, 0x0014), (0, 0x0015), (1, 0x0016)] {
        let mut pair = Pair::new(Peer::new(Config::default(), 1), Peer::new(Config::default(), 2), 3);
        let matches = Matches {
            direction: Some(Direction::Transmit),
            cm_attribute: Some(attribute),
            count: Some(1),
            ..Matches::default()
        };
        let rules = Box::new(Rules::new(vec![Rule::new(matches, Effect::Drop)], 1));
        let end = if side == 0 { &mut pair.a } else { &mut pair.b };
        end.endpoint_mut().intercept(Some(rules));
        assert!(pair.b.listen(20049));
        let connection = pair.a.connect(pair.address_a, pair.address_b, 20049).unwrap();
        while pair.now < Instant(30_000_000_000) && pair.step() {}
        pair.a.disconnect(connection).unwrap();
        pair.run_to_end();
        for end in [&mut pair.a, &mut pair.b] {
            let events: Vec<Event> = std::iter::from_fn(|| end.poll_event()).collect();
            let is_connected =
                |event: &&Event| matches!(event, Event::Endpoint(endpoint::Event::Connected { .. }));
            assert_eq!(events.iter().filter(is_connected).count(), 1, "0x{attribute:04x}: {events:?}");
            assert_eq!(events.iter().filter(|event| Peer::closed(event).is_some()).count(), 1);
        }
    }
}

/// Arbitrary input causes no panic and no unbounded table, and the session works afterwards.
#[test]
fn changed_bytes_cause_no_panic() {
    let mut random = Random::new(9);
    for seed in 0..1500 {
        let mut session = connected();
        session
            .pair
            .a
            .call(
                session.a,
                Call {
                    message: call(),
                    reduce: vec![24..40],
                    write_chunks: vec![600],
                    most_reply: 9000,
                    ..Call::default()
                },
            )
            .unwrap();
        let mut chosen = Random::new(seed);
        // Changes a byte, a word or the length of some datagrams, with a correct ICRC, like a
        // faulty sender.
        let change = move |transport: &mut Vec<u8>| match chosen.below(4) {
            _ if transport.is_empty() => {}
            0 => {
                let length = chosen.below(transport.len() as u64 + 1) as usize;
                transport.truncate(length.max(1));
            }
            1 => transport.extend((0..chosen.below(40)).map(|_| chosen.number() as u8)),
            _ => {
                let at = chosen.below(transport.len() as u64) as usize;
                transport[at] = chosen.number() as u8;
            }
        };
        let matches = Matches { per_mille: Some(100 + random.below(400) as u32), ..Matches::default() };
        let rule = Rule::new(matches, Effect::Change(Box::new(change)));
        session.pair.a.endpoint_mut().intercept(Some(Box::new(Rules::new(vec![rule], seed))));
        let _ = session.run(|called| {
            let mut answer = reply(called)?;
            answer.message.resize(24 + 500 + 5000, 7);
            answer.reduce = vec![24..524];
            Some(answer)
        });
        // Arbitrary bytes in datagrams.
        let to = session.pair.a.endpoint().connections().next();
        let template = to.and_then(|connection| session.pair.a.endpoint().datagram(connection, Vec::new()));
        for _ in 0..20 {
            let Some(mut datagram) = template.clone() else { break };
            datagram.transport = (0..random.below(400)).map(|_| random.number() as u8).collect();
            if let Some(qp) =
                to.and_then(|connection| session.pair.a.endpoint().queue_pair_number(connection))
                && datagram.transport.len() > 12
            {
                datagram.transport[0] &= 0x1f;
                datagram.transport[4..8].copy_from_slice(&qp.0.to_be_bytes());
            }
            core::mem::swap(&mut datagram.source, &mut datagram.destination);
            session.pair.a.handle(session.pair.now, &datagram);
        }
        session.pair.run_to_end();
    }
}
