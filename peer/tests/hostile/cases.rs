//! Single actions of a hostile remote side, at PSNs in the middle and at the wrap.

use crate::foe::{
    NAME, QUEUE_PAIR, Victim, aeth, call, disconnect_reply, disconnect_request, mad, ready_to_use, receipt,
    reject, reply, request,
};
use rdmascope_peer::cm::{Closed, State};
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::memory::Access;
use rdmascope_peer::pair::End as _;
use rdmascope_peer::peer::{Event, Peer};
use rdmascope_peer::rc::{self, Failure, Fault, MOST_QUEUED, QueueEvent};
use rdmascope_peer::rpcrdma::Call;
use rdmascope_wire::bth::{Extensions, NakCode, Operation as Kind, Reth};
use rdmascope_wire::cm::{Acknowledged, Message};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::{Builder, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Qpn, Rkey, Xid};
use std::time::Duration;

const XID: Xid = Xid(0x1122_3344);
/// Longer than any wait for a silent remote side: more than 16 times the longest single wait (68.7
/// s).
const LONG: Duration = Duration::from_secs(20 * 60);

fn psns() -> [Option<Psn>; 3] {
    [None, Some(Psn::new(Psn::MODULUS - 1)), Some(Psn::new(Psn::MODULUS - 3))]
}

fn closed(victim: &Victim) -> Vec<&Closed> {
    victim.events.iter().filter_map(|event| Some(Peer::closed(event)?.1)).collect()
}

fn queue(victim: &Victim) -> Vec<&QueueEvent> {
    let events = victim.events.iter().filter_map(|event| match event {
        Event::Endpoint(endpoint::Event::Queue { event, .. }) => Some(event),
        _ => None,
    });
    events.collect()
}

/// Returns a peer that has sent a call, and the PSN of that call.
fn calling(psn: Option<Psn>, queue: rc::Config) -> (Victim, ConnectionId, Psn) {
    let (mut victim, connection) = Victim::active(psn, queue, 1);
    let first = victim.queue(connection).unwrap().next_psn();
    victim.peer.call(connection, Call::inline(call(XID, 990))).unwrap();
    victim.settle();
    assert_eq!(victim.opcodes(), [0, 1, 1, 2]);
    (victim, connection, first)
}

/// Returns a peer that reads 600 bytes of a call from the remote side in three packets, and the
/// first PSN.
fn reading(psn: Option<Psn>) -> (Victim, ConnectionId, Psn) {
    let (mut victim, connection) = Victim::passive(psn, rc::Config::default(), 1);
    let first = victim.queue(connection).unwrap().next_psn();
    let mut header = Builder::new(XID, 8, Procedure::Msg);
    let target = Segment { handle: Rkey(5), length: 600, offset: 4096 };
    header.reads.push(ReadSegment { position: 40, target });
    let mut bytes = Vec::new();
    header.build(&mut bytes);
    bytes.extend(call(XID, 0));
    let expected = victim.queue(connection).unwrap().expected_psn();
    victim.packet(connection, Kind::SendOnly, expected, (Extensions::default(), &bytes));
    assert_eq!(victim.opcodes(), [0x11, 0x0c]);
    (victim, connection, first)
}

#[test]
fn repeated_reply_is_answered_and_changes_nothing() {
    for psn in psns() {
        let (mut victim, connection) = Victim::active(psn, rc::Config::default(), 1);
        let expected = victim.queue(connection).unwrap().expected_psn();
        victim.manage(&reply(connection, Qpn(0x55), Psn::new(77)));
        assert_eq!(victim.sent.len(), 1, "the RTU once more");
        let queue = victim.queue(connection).unwrap();
        assert_eq!((queue.destination(), queue.expected_psn()), (QUEUE_PAIR, expected));
        assert_eq!(victim.state(connection), Some(State::Established));
        // With another name it does not belong to this connection.
        let Message::Reply(other) = reply(connection, Qpn(0x55), Psn::new(77)) else { unreachable!() };
        let local_communication_id = rdmascope_wire::cm::CommunicationId(NAME.0 + 1);
        victim.sent.clear();
        victim.manage(&Message::Reply(rdmascope_wire::cm::Reply { local_communication_id, ..other }));
        assert!(victim.sent.is_empty());
    }
}

/// Neither RTU nor DREP ever arrive: the timeouts in a REQ are honored up to a bound.
#[test]
fn silent_remote_side_is_given_up() {
    for (timeout, ready) in [(0, false), (20, false), (31, false), (20, true), (31, true)] {
        let mut victim = Victim::new(None, rc::Config::default(), 1);
        let mut room = Vec::new();
        let Message::Request(right) = request(Psn::default(), &mut room) else { unreachable!() };
        let request = rdmascope_wire::cm::Request { local_cm_response_timeout: timeout, ..right };
        victim.manage(&Message::Request(request));
        let connection = victim.peer.endpoint().connections().next().unwrap();
        if ready {
            victim.manage(&ready_to_use(connection));
            victim.peer.disconnect(connection).unwrap();
        }
        let began = victim.now;
        victim.silence();
        let expected = if ready { Closed::LocalUnanswered } else { Closed::NoAnswer };
        assert_eq!(closed(&victim), [&expected]);
        assert!(victim.now.since(began) < LONG, "timeout {timeout}: {:?}", victim.now.since(began));
        assert_eq!(victim.peer.endpoint().connections().count(), 0);
        // 16 transmissions of the REP or DREQ, and one earlier packet or a REJ.
        assert_eq!(victim.sent.len(), 17);
    }
}

/// An MRA extends the wait once for each REQ or REP, even if it is repeated.
#[test]
fn repeated_mras_extend_the_wait_once() {
    for active in [true, false] {
        let mut victim = Victim::new(None, rc::Config::default(), 1);
        if active {
            victim.peer.connect(crate::foe::OURS, crate::foe::THEIRS, crate::foe::PORT).unwrap();
            victim.settle();
        } else {
            victim.manage(&request(Psn::default(), &mut Vec::new()));
        }
        let connection = victim.peer.endpoint().connections().next().unwrap();
        let of = if active { Acknowledged::Request } else { Acknowledged::Reply };
        let began = victim.now;
        while closed(&victim).is_empty() {
            victim.manage(&receipt(connection, of, 31));
            let wait = victim.peer.next_deadline().unwrap().since(victim.now) / 2;
            victim.wait(wait.max(Duration::from_secs(1)));
            assert!(victim.now.since(began) < 2 * LONG, "active: {active}");
        }
        assert_eq!(closed(&victim), [&Closed::NoAnswer]);
    }
}

#[test]
fn reject_after_a_reply_ends_the_calls() {
    for psn in psns() {
        let (mut victim, connection, _) = calling(psn, rc::Config::default());
        victim.manage(&reject(connection));
        assert!(matches!(closed(&victim)[..], [Closed::Rejected { reason: 28, .. }]));
        assert_eq!(victim.ends(XID), 1);
        victim.silence();
        assert_eq!((victim.sent.len(), victim.ends(XID)), (0, 1));
    }
}

/// The end of a connection ends the responses to its READs: those not sent before the DREP or DREQ
/// are dropped.
#[test]
fn disconnect_stops_pending_read_responses() {
    for psn in psns() {
        for by_remote in [true, false] {
            let (mut victim, connection) = Victim::passive(psn, rc::Config::default(), 1);
            let endpoint = victim.peer.endpoint_mut();
            let length = 256 * 500;
            let (rkey, address) = endpoint.register(connection, vec![1; length], Access::READ).unwrap();
            let reth = Reth { rkey, virtual_address: address, dma_length: length as u32 };
            let extensions = Extensions { reth: Some(reth), ..Extensions::default() };
            let expected = victim.queue(connection).unwrap().expected_psn();
            let request =
                victim.datagram(connection, Kind::ReadRequest, expected, (extensions, &[])).unwrap();
            victim.peer.handle(victim.now, &request);
            for _ in 0..10 {
                victim.sent.extend(victim.peer.poll_transmit(victim.now));
            }
            if by_remote {
                victim.peer.handle(victim.now, &mad(&disconnect_request(connection)));
            } else {
                victim.peer.disconnect(connection).unwrap();
            }
            victim.settle();
            let opcodes = victim.opcodes();
            assert_eq!((opcodes[0], opcodes[9], opcodes.len()), (0x0d, 0x0e, 10 + 64 + 1));
            assert_eq!(opcodes.last(), Some(&0x64), "the end comes last");
            victim.manage(&disconnect_reply(connection));
            victim.silence();
            assert!(victim.sent.iter().all(|datagram| datagram.transport[0] == 0x64));
        }
    }
}

#[test]
fn acknowledgements_of_unsent_psns_are_faults() {
    for psn in psns() {
        let (mut victim, connection, first) = calling(psn, rc::Config::default());
        for ahead in [4, 5, 100, Psn::MODULUS / 2 - 1] {
            for syndrome in [0x1f, 0x00, 0x60, 0x61, 0x20, 0x7f] {
                victim.acknowledge(connection, first.plus(ahead), syndrome);
            }
        }
        assert!(victim.sent.is_empty());
        assert_eq!(victim.queue(connection).unwrap().outstanding(), 1);
        let queue = queue(&victim);
        assert_eq!(queue.len(), 24);
        assert!(
            queue.iter().all(|event| matches!(event, QueueEvent::Fault(Fault::UnexpectedAcknowledgement(_))))
        );
        // The SEND is acknowledged normally.
        victim.acknowledge(connection, first.plus(3), 0x1f);
        assert_eq!(victim.queue(connection).unwrap().outstanding(), 0);
    }
}

#[test]
fn naks_without_progress_exhaust_the_retries() {
    for psn in psns() {
        let (mut victim, connection, first) = calling(psn, rc::Config::default());
        for _ in 0..1000 {
            victim.acknowledge(connection, first, 0x60);
        }
        let failed = QueueEvent::Failed(Failure::RetriesExceeded);
        assert!(queue(&victim).contains(&&failed));
        assert_eq!(victim.ends(XID), 1);
        // Seven times the four packets, and a DREQ.
        assert_eq!(victim.sent.len(), 7 * 4 + 1);
        victim.silence();
        assert_eq!((victim.ends(XID), closed(&victim)), (1, vec![&Closed::LocalUnanswered]));
    }
}

/// 7 retries mean no limit (IBTA volume 1, section 9.7.5.2.8), so the program ends the connection.
#[test]
fn rnr_naks_exhaust_a_finite_retry_count() {
    for psn in psns() {
        let (mut victim, connection, first) = calling(psn, rc::Config::default());
        for _ in 0..6 {
            victim.acknowledge(connection, first, 0x21);
            assert!(victim.sent.is_empty(), "nothing before the timer");
            assert!(victim.next());
            assert_eq!(victim.opcodes(), [0, 1, 1, 2]);
        }
        victim.acknowledge(connection, first, 0x21);
        assert!(queue(&victim).contains(&&QueueEvent::Failed(Failure::RnrRetriesExceeded)));
        assert_eq!(victim.ends(XID), 1);

        let (mut victim, connection) = Victim::active(psn, rc::Config::default(), 1);
        victim.peer.disconnect(connection).unwrap();
        victim.silence();
        let connection = victim.peer.connect(crate::foe::OURS, crate::foe::THEIRS, crate::foe::PORT).unwrap();
        victim.settle();
        let Message::Reply(right) = reply(connection, QUEUE_PAIR, Psn::default()) else { unreachable!() };
        victim.manage(&Message::Reply(rdmascope_wire::cm::Reply { rnr_retry_count: 7, ..right }));
        let first = victim.queue(connection).unwrap().next_psn();
        victim.peer.call(connection, Call::inline(call(XID, 0))).unwrap();
        victim.settle();
        victim.sent.clear();
        for _ in 0..1000 {
            victim.acknowledge(connection, first, 0x21);
            assert!(victim.next());
        }
        assert_eq!((victim.sent.len(), victim.ends(XID)), (1000, 0));
        victim.peer.disconnect(connection).unwrap();
        victim.silence();
        assert_eq!(victim.ends(XID), 1);
    }
}

#[test]
fn malformed_read_responses_fail_the_connection() {
    let [first, middle, last, only] =
        [Kind::ReadResponseFirst, Kind::ReadResponseMiddle, Kind::ReadResponseLast, Kind::ReadResponseOnly];
    let of = |kind| if kind == middle { Extensions::default() } else { aeth(31, 1) };
    let wrong: [&[(Kind, u32, usize)]; 8] = [
        &[(first, 0, 255)],
        &[(first, 0, 0)],
        &[(first, 0, 257)],
        &[(only, 0, 256)],
        &[(last, 0, 256)],
        &[(first, 0, 256), (middle, 1, 256), (middle, 2, 88)],
        &[(first, 0, 256), (middle, 1, 256), (last, 2, 87)],
        &[(first, 0, 256), (middle, 1, 256), (last, 2, 256)],
    ];
    for psn in psns() {
        for packets in wrong {
            let (mut victim, connection, start) = reading(psn);
            for (kind, ahead, length) in packets {
                let payload = vec![3; *length];
                victim.packet(connection, *kind, start.plus(*ahead), (of(*kind), &payload));
            }
            assert!(queue(&victim).contains(&&QueueEvent::Failed(Failure::BadResponse)), "{packets:?}");
            victim.silence();
            assert_eq!(closed(&victim), [&Closed::LocalUnanswered]);
        }
        // Out of order, duplicated, and a NAK for an answered request: the READ is requested again
        // once, and its data are used once.
        let (mut victim, connection, start) = reading(psn);
        let correct = [(first, 0, 256), (middle, 1, 256), (last, 2, 88)];
        let send = |victim: &mut Victim, order: &[usize]| {
            for index in order {
                let (kind, ahead, length) = correct[*index];
                victim.packet(connection, kind, start.plus(ahead), (of(kind), &vec![3; length]));
            }
        };
        send(&mut victim, &[2, 2, 1, 2]);
        assert_eq!(victim.opcodes(), [0x0c], "one READ request more");
        send(&mut victim, &[0, 0, 2, 1]);
        assert_eq!(victim.opcodes(), [0x0c], "the last one was not kept");
        send(&mut victim, &[2, 2, 0]);
        // The reply to the call.
        assert_eq!(victim.opcodes(), [0x04]);
        victim.acknowledge(connection, start.plus(1), 0x60);
        assert!(victim.sent.is_empty());
        let refused = NakCode::RemoteAccessError;
        assert!(!queue(&victim).contains(&&QueueEvent::Failed(Failure::Refused(refused))));
    }
}

/// The time is reported early, and a day late.
#[test]
fn early_and_late_timer_calls_are_handled() {
    for psn in psns() {
        let (mut victim, connection, _) = calling(psn, rc::Config::default());
        let deadline = victim.peer.next_deadline().unwrap();
        for _ in 0..100 {
            victim.wait(Duration::ZERO);
        }
        victim.wait(deadline.since(victim.now) - Duration::from_nanos(1));
        assert!(victim.sent.is_empty());
        for _ in 0..7 {
            victim.wait(Duration::from_secs(86_400));
            assert_eq!(victim.opcodes(), [0, 1, 1, 2]);
        }
        victim.wait(Duration::from_secs(86_400));
        assert!(queue(&victim).contains(&&QueueEvent::Failed(Failure::RetriesExceeded)));
        assert_eq!(victim.ends(XID), 1);
        victim.silence();
        assert_eq!(victim.state(connection), None);
    }
}

/// A remote side that never acknowledges RDMA Writes does not fill the memory of a server.
#[test]
fn unacknowledged_writes_are_bounded() {
    let (mut victim, connection) = Victim::passive(None, rc::Config::default(), 1);
    let endpoint = victim.peer.endpoint_mut();
    let mut queued = 0;
    let refused = loop {
        match endpoint.write(connection, Rkey(1), 0, vec![0; 16 << 20]) {
            Ok(_) => queued += 16 << 20,
            Err(why) => break why,
        }
    };
    assert_eq!((refused, queued), (rc::PostError::QueueFull, MOST_QUEUED));
    // A READ reserves its memory when it is posted.
    let read = endpoint.read(connection, Rkey(1), 0, 1);
    assert_eq!(read, Err(rc::PostError::QueueFull));
    // Completed operations release their memory.
    for _ in 0..(16 << 20) / 256 / 64 {
        victim.settle();
        let last = victim.sent.pop().unwrap();
        victim.sent.clear();
        let psn = Psn::new(u32::from_be_bytes(*last.transport[8..].first_chunk().unwrap()));
        victim.acknowledge(connection, psn, 0x1f);
    }
    let endpoint = victim.peer.endpoint_mut();
    endpoint.write(connection, Rkey(1), 0, vec![0; 16 << 20]).unwrap();
    assert_eq!(endpoint.read(connection, Rkey(1), 0, 1), Err(rc::PostError::QueueFull));
}
