//! Two endpoints over a bad network, below RPC: messages arrive once and in order, RDMA data are
//! correct, and the connection closes on both sides.

use rdmascope_peer::cm::Closed;
use rdmascope_peer::endpoint::{Config, Connect, ConnectionId, Endpoint, Event};
use rdmascope_peer::memory::Access;
use rdmascope_peer::pair::{Network, Pair};
use rdmascope_peer::random::Random;
use rdmascope_peer::rc::{self, Failure, Operation, QueueEvent, Send, WorkId};
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::NakCode;
use rdmascope_wire::psn::Psn;
use std::time::Duration;

fn endpoint(seed: u64, starting_psn: Option<u32>, queue: rc::Config) -> Endpoint {
    let config = Config { starting_psn: starting_psn.map(Psn::new), queue, ..Config::default() };
    Endpoint::new(config, seed)
}

/// Connects `a` to `b`.
fn connect(pair: &mut Pair) -> (ConnectionId, ConnectionId) {
    assert!(pair.b.listen(20049));
    let ours = pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
    let mut theirs = None;
    for _ in 0..10_000 {
        assert!(pair.step());
        while let Some(event) = pair.b.poll_event() {
            match event {
                Event::Requested { connection, .. } => {
                    pair.b.accept(connection, b"").unwrap();
                    theirs = Some(connection);
                }
                Event::Connected { connection } => {
                    assert_eq!(Some(connection), theirs);
                    return (ours, connection);
                }
                Event::Unexpected { .. } | Event::Dropped { .. } | Event::Queue { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("no connection")
}

fn drain(endpoint: &mut Endpoint) -> Vec<QueueEvent> {
    let events = std::iter::from_fn(|| endpoint.poll_event());
    events
        .filter_map(|event| match event {
            Event::Queue { event, .. } => Some(event),
            _ => None,
        })
        .collect()
}

fn bytes(random: &mut Random, most: u64) -> Vec<u8> {
    let length = random.below(most + 1) as usize;
    let mut bytes = vec![0; length];
    bytes.iter_mut().for_each(|byte| *byte = random.number() as u8);
    bytes
}

fn bad(random: &mut Random) -> Network {
    Network {
        loss: random.below(60) as u32,
        duplication: random.below(60) as u32,
        corruption: random.below(30) as u32,
        reordering: random.below(100) as u32,
        ..Network::GOOD
    }
}

/// The work of one end, and the expected work of the other.
#[derive(Default)]
struct Traffic {
    sent: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
    reads: Vec<(WorkId, Vec<u8>)>,
    completed: Vec<(WorkId, Result<Vec<u8>, Failure>)>,
    work: Vec<WorkId>,
}

#[test]
fn messages_arrive_once_and_in_order() {
    let (mut rnr, mut wrapped, mut again) = (0, 0, 0);
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut queue = rc::Config {
            path_mtu: 256,
            timeout: Some(Duration::from_millis(1 + random.below(4))),
            acknowledge_every: 1 + random.below(8) as u32,
            window: 4 + random.below(28) as u32,
            end_to_end_credits: random.chance(300),
            rnr_timer: 1,
            ..rc::Config::default()
        };
        queue.initiator_depth = 1 + random.below(4) as u8;
        queue.responder_resources = queue.initiator_depth;
        let near_the_end = random.chance(500).then(|| Psn::MODULUS - 1 - random.below(20) as u32);
        let mut pair = Pair::new(
            endpoint(random.number(), near_the_end, queue.clone()),
            endpoint(random.number(), near_the_end, queue),
            random.number(),
        );
        let (a, b) = connect(&mut pair);
        pair.network = bad(&mut random);
        let memory: Vec<u8> = bytes(&mut random, 3000).into_iter().chain([1]).collect();
        let (source, source_at) = pair.b.register(b, memory.clone(), Access::READ).unwrap();
        let (sink, sink_at) = pair.b.register(b, vec![0; 4000], Access::WRITE).unwrap();
        let mut expected = vec![0; 4000];
        let (mut ours, mut theirs) = (Traffic::default(), Traffic::default());
        for _ in 0..1 + random.below(8) {
            match random.below(4) {
                0 => {
                    let message = bytes(&mut random, 1200);
                    ours.sent.push(message.clone());
                    ours.work.push(pair.a.send(a, Send { bytes: message, ..Send::default() }).unwrap());
                }
                1 => {
                    let data = bytes(&mut random, 1200);
                    let at = random.below(4000 - data.len() as u64);
                    expected[at as usize..][..data.len()].copy_from_slice(&data);
                    ours.work.push(pair.a.write(a, sink, sink_at + at, data).unwrap());
                }
                2 => {
                    let at = random.below(memory.len() as u64);
                    let length = random.below(memory.len() as u64 - at + 1);
                    let work = pair.a.read(a, source, source_at + at, length as u32).unwrap();
                    ours.reads.push((work, memory[at as usize..][..length as usize].to_vec()));
                    ours.work.push(work);
                }
                _ => {
                    let message = bytes(&mut random, 1200);
                    theirs.sent.push(message.clone());
                    theirs.work.push(pair.b.send(b, Send { bytes: message, ..Send::default() }).unwrap());
                }
            }
        }
        for step in 0..100_000 {
            // Receives are sometimes posted late, which causes an RNR NAK.
            if step % 16 == 0 || random.chance(100) {
                for (end, connection) in [(&mut pair.a, a), (&mut pair.b, b)] {
                    if end.queue_pair(connection).unwrap().receives() < 2 {
                        end.post_receive(connection, 2048).unwrap();
                    }
                }
            }
            for (end, traffic) in [(&mut pair.a, &mut ours), (&mut pair.b, &mut theirs)] {
                for event in drain(end) {
                    match event {
                        QueueEvent::Received(message) => traffic.received.push(message.bytes),
                        QueueEvent::Completed { work, outcome } => traffic.completed.push((work, outcome)),
                        QueueEvent::Failed(failure) => panic!("seed {seed}: {failure}"),
                        QueueEvent::NakSent { syndrome, .. } if syndrome >> 5 == 1 => rnr += 1,
                        QueueEvent::Retransmission { .. } => again += 1,
                        _ => {}
                    }
                }
            }
            if ours.completed.len() == ours.work.len() && theirs.completed.len() == theirs.work.len() {
                break;
            }
            assert!(pair.step(), "seed {seed}: nothing left to do");
        }
        assert_eq!(ours.received, theirs.sent, "seed {seed}");
        assert_eq!(theirs.received, ours.sent, "seed {seed}");
        for traffic in [&ours, &theirs] {
            let order: Vec<WorkId> = traffic.completed.iter().map(|(work, _)| *work).collect();
            assert_eq!(order, traffic.work, "seed {seed}");
        }
        for (work, read) in &ours.reads {
            let outcome = &ours.completed.iter().find(|(other, _)| other == work).unwrap().1;
            assert_eq!(outcome.as_ref(), Ok(read), "seed {seed}");
        }
        assert_eq!(pair.b.memory(b).unwrap().region(sink).unwrap().bytes, expected, "seed {seed}");
        let next = pair.a.queue_pair(a).unwrap().next_psn().value();
        wrapped += u32::from(near_the_end.is_some_and(|first| next < first));

        pair.a.disconnect(a).unwrap();
        pair.run_to_end();
        for (end, cause) in [
            (&mut pair.a, [Closed::Local, Closed::LocalUnanswered]),
            (&mut pair.b, [Closed::Remote, Closed::Remote]),
        ] {
            let closed = std::iter::from_fn(|| end.poll_event()).find_map(|event| match event {
                Event::Closed { why, .. } => Some(why),
                _ => None,
            });
            assert!(closed.is_some_and(|why| cause.contains(&why)), "seed {seed}");
            assert_eq!(end.connections().count(), 0);
        }
    }
    assert!(rnr > 100 && wrapped > 100 && again > 1000, "{rnr} {wrapped} {again}");
}

/// Requests without access rights are refused on both sides, and change nothing.
#[test]
fn unauthorized_requests_are_refused() {
    type Case = (fn(Rkey, u64) -> Operation, NakCode);
    let cases: [Case; 6] = [
        (|rkey, at| Operation::Read { rkey, address: at, length: 101 }, NakCode::RemoteAccessError),
        (
            |rkey, at| Operation::Read { rkey: Rkey(!rkey.0), address: at, length: 1 },
            NakCode::RemoteAccessError,
        ),
        (|rkey, at| Operation::Read { rkey, address: at - 1, length: 2 }, NakCode::RemoteAccessError),
        (|rkey, _| Operation::Read { rkey, address: u64::MAX, length: 2 }, NakCode::RemoteAccessError),
        (
            |rkey, at| Operation::Write { rkey, address: at, bytes: vec![1], immediate: None },
            NakCode::RemoteAccessError,
        ),
        (
            |rkey, _| Operation::Send(Send { invalidate: Some(Rkey(!rkey.0)), ..Send::default() }),
            NakCode::RemoteAccessError,
        ),
    ];
    for (operation, code) in cases {
        let mut pair =
            Pair::new(endpoint(1, None, rc::Config::default()), endpoint(2, None, rc::Config::default()), 3);
        let (a, b) = connect(&mut pair);
        pair.b.post_receive(b, 10).unwrap();
        let (rkey, address) = pair.b.register(b, vec![9; 100], Access::READ).unwrap();
        let work = pair.a.post(a, operation(rkey, address)).unwrap();
        pair.run();
        let failure = Failure::Refused(code);
        let events = drain(&mut pair.a);
        assert!(events.contains(&QueueEvent::Completed { work, outcome: Err(failure) }), "{events:?}");
        assert!(events.contains(&QueueEvent::Failed(failure)));
        assert!(drain(&mut pair.b).contains(&QueueEvent::Failed(Failure::RefusedRequest(code))));
        assert_eq!(pair.b.memory(b).unwrap().region(rkey).unwrap().bytes, [9; 100]);
    }
}

/// A repeated READ is followed by the SEND that ends the registration: the requester had the data,
/// so nothing is refused.
#[test]
fn repeated_read_before_invalidation_is_not_refused() {
    let mut pair =
        Pair::new(endpoint(1, None, rc::Config::default()), endpoint(2, None, rc::Config::default()), 3);
    let (a, b) = connect(&mut pair);
    pair.run();
    pair.b.post_receive(b, 10).unwrap();
    let (rkey, address) = pair.b.register(b, vec![9; 100], Access::READ).unwrap();
    let work = pair.a.read(a, rkey, address, 100).unwrap();
    let request = pair.a.poll_transmit(pair.now).unwrap();
    pair.b.handle(pair.now, &request);
    pair.run();
    assert!(drain(&mut pair.a).contains(&QueueEvent::Completed { work, outcome: Ok(vec![9; 100]) }));
    let work = pair.a.send(a, Send { invalidate: Some(rkey), ..Send::default() }).unwrap();
    let send = pair.a.poll_transmit(pair.now).unwrap();
    // Before it sends anything.
    pair.b.handle(pair.now, &request);
    pair.b.handle(pair.now, &send);
    pair.run();
    let (ours, theirs) = (drain(&mut pair.a), drain(&mut pair.b));
    let is_failure = |event: &&QueueEvent| matches!(event, QueueEvent::Failed(_) | QueueEvent::Fault(_));
    assert_eq!(ours.iter().chain(&theirs).find(is_failure), None);
    assert!(ours.contains(&QueueEvent::Completed { work, outcome: Ok(Vec::new()) }), "{ours:?}");
}

/// A message longer than the Receive, and one that never gets a Receive.
#[test]
fn unsuitable_receives_fail_the_connection() {
    let queue =
        rc::Config { rnr_retry_count: 2, timeout: Some(Duration::from_millis(1)), ..rc::Config::default() };
    for (room, failure) in
        [(Some(9), Failure::Refused(NakCode::InvalidRequest)), (None, Failure::RnrRetriesExceeded)]
    {
        let mut pair = Pair::new(endpoint(1, None, queue.clone()), endpoint(2, None, queue.clone()), 3);
        let (a, b) = connect(&mut pair);
        if let Some(room) = room {
            pair.b.post_receive(b, room).unwrap();
        }
        pair.a.send(a, Send { bytes: vec![0; 10], ..Send::default() }).unwrap();
        pair.run();
        assert!(drain(&mut pair.a).contains(&QueueEvent::Failed(failure)));
    }
}

/// A silent remote side: the connection fails after the retries, and its DREQ is given up too.
#[test]
fn silent_remote_side_fails_the_connection() {
    let queue =
        rc::Config { retry_count: 3, timeout: Some(Duration::from_millis(1)), ..rc::Config::default() };
    let mut pair = Pair::new(endpoint(1, None, queue.clone()), endpoint(2, None, queue), 3);
    let (a, _) = connect(&mut pair);
    pair.run();
    pair.network.loss = 1000;
    pair.a.send(a, Send { bytes: vec![1], ..Send::default() }).unwrap();
    pair.run_to_end();
    let events: Vec<Event> = std::iter::from_fn(|| pair.a.poll_event()).collect();
    let retries = events
        .iter()
        .filter(|event| {
            matches!(event, Event::Queue { event: QueueEvent::Retransmission { timeout: true, .. }, .. })
        })
        .count();
    assert_eq!(retries, 3);
    let failed = QueueEvent::Failed(Failure::RetriesExceeded);
    assert!(events.contains(&Event::Queue { connection: a, event: failed }));
    assert!(events.contains(&Event::Closed { connection: a, why: Closed::LocalUnanswered }));
}
