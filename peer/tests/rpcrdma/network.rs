//! Two peers over a bad network: each call is answered once, chunks convey the correct bytes, in
//! both directions, no memory stays registered, and the connection closes.

use super::connect;
use rdmascope_peer::cm::Closed;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::pair::{Network, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::random::Random;
use rdmascope_peer::rc::{self, QueueEvent};
use rdmascope_peer::rpcrdma::{self, Call, Called, Reply};
use rdmascope_wire::Xid;
use rdmascope_wire::private_data::PrivateData;
use rdmascope_wire::psn::Psn;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Builds an RPC call or reply with an item of `item` bytes. Returns the message and the range of
/// the item.
fn message(xid: u32, kind: u32, random: &mut Random, item: usize) -> (Vec<u8>, Range<usize>) {
    let mut bytes = [xid.to_be_bytes(), kind.to_be_bytes()].concat();
    for _ in 0..4 + random.below(8) {
        bytes.extend(random.word().to_be_bytes());
    }
    let start = bytes.len();
    bytes.extend((0..item).map(|_| random.number() as u8));
    let end = bytes.len();
    bytes.resize(end.next_multiple_of(4), 0);
    for _ in 0..random.below(3) {
        bytes.extend(random.word().to_be_bytes());
    }
    (bytes, start..end)
}

/// The calls and replies of one side.
#[derive(Default)]
struct Side {
    /// Calls: the message, and how often it arrived.
    calls: BTreeMap<Xid, (Vec<u8>, u32)>,
    /// Replies for the other side: message, item, and whether it has a Write chunk.
    replies: BTreeMap<Xid, (Vec<u8>, Range<usize>, bool)>,
    replied: BTreeMap<Xid, u32>,
}

fn length(random: &mut Random) -> usize {
    match random.below(4) {
        0 => random.below(8) as usize,
        1 => random.below(300) as usize,
        _ => random.below(5000) as usize,
    }
}

/// Sends a random call.
fn send_call(peer: &mut Peer, connection: ConnectionId, random: &mut Random, side: &mut Side) {
    let xid = random.word();
    let size = length(random);
    let (bytes, item) = message(xid, 0, random, size);
    let size = length(random);
    let (reply, reply_item) = message(xid, 1, random, size);
    let by_write_chunk = random.chance(400);
    let call = Call {
        message: bytes.clone(),
        reduce: if random.chance(500) { vec![item] } else { vec![] },
        write_chunks: if by_write_chunk { vec![6000] } else { vec![] },
        most_reply: reply.len() as u32,
        long: random.chance(100),
        ..Call::default()
    };
    side.calls.insert(Xid(xid), (bytes, 0));
    side.replies.insert(Xid(xid), (reply, reply_item, by_write_chunk));
    peer.call(connection, call).unwrap();
}

/// Handles the events of one side: answers calls, and compares replies with the expected ones.
fn serve(
    seed: u64,
    peer: &mut Peer,
    connection: ConnectionId,
    own: &mut Side,
    other: &mut Side,
) -> (u32, u32) {
    let (mut retransmissions, mut not_ready) = (0, 0);
    while let Some(event) = peer.poll_event() {
        match event {
            Event::Rpc { event: rpcrdma::Event::Called(Called { xid, message, .. }), .. } => {
                let (sent, seen) = other.calls.get_mut(&xid).unwrap();
                assert_eq!(message, *sent, "seed {seed}");
                *seen += 1;
                let (message, item, _) = other.replies[&xid].clone();
                peer.reply(connection, xid, Reply { message, reduce: vec![item], edit: None }).unwrap();
            }
            Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } => {
                let (message, item, by_write_chunk) = &own.replies[&replied.xid];
                if *by_write_chunk {
                    assert_eq!(replied.items, [message[item.clone()].to_vec()], "seed {seed}");
                    let items = [(item.start as u32, replied.items[0].clone())];
                    let restored = rpcrdma::restore(&replied.message, &items).unwrap().0;
                    assert_eq!(restored, *message, "seed {seed}");
                } else {
                    assert_eq!(replied.message, *message, "seed {seed}");
                }
                *own.replied.entry(replied.xid).or_default() += 1;
            }
            Event::Rpc { event, .. } => panic!("seed {seed}: {event:?}"),
            Event::Endpoint(endpoint::Event::Queue { event, .. }) => match event {
                QueueEvent::Failed(failure) => panic!("seed {seed}: {failure}"),
                QueueEvent::Retransmission { .. } => retransmissions += 1,
                // Bits 6 and 5 are 1: RNR NAK.
                QueueEvent::NakSent { syndrome, .. } if syndrome >> 5 == 1 => not_ready += 1,
                _ => {}
            },
            Event::Endpoint(_) => {}
        }
    }
    (retransmissions, not_ready)
}

#[test]
fn random_sessions_answer_each_call_once() {
    let (mut again, mut wrapped, mut calls, mut backward) = (0, 0, 0, 0);
    let mut rnr = 0;
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let near_the_end = random.chance(300).then(|| Psn::new(Psn::MODULUS - 1 - random.below(6) as u32));
        let queue = rc::Config {
            path_mtu: [256, 1024, 4096][random.below(3) as usize],
            timeout: Some(Duration::from_millis(2)),
            window: 8 + random.below(60) as u32,
            ..rc::Config::default()
        };
        // Receives are posted late, which causes RNR NAKs.
        let by_hand = random.chance(100);
        let config = |random: &mut Random| Config {
            endpoint: endpoint::Config {
                starting_psn: near_the_end,
                queue: queue.clone(),
                ..endpoint::Config::default()
            },
            session: rpcrdma::Config {
                credits: 1 + random.below(4) as u32,
                private_data: random.chance(800).then(|| PrivateData {
                    remote_invalidation: random.chance(700),
                    send_size: random.below(4) as u8,
                    receive_size: random.below(4) as u8,
                    ..PrivateData::DEFAULT
                }),
                segment: 500 + random.below(5000) as u32,
                receives: by_hand.then_some(0),
                ..rpcrdma::Config::default()
            },
            accept_by_hand: false,
        };
        let a = Peer::new(config(&mut random), random.number());
        let b = Peer::new(config(&mut random), random.number());
        let mut pair = Pair::new(a, b, random.number());
        if random.chance(700) {
            pair.network = Network {
                loss: random.below(40) as u32,
                duplication: random.below(40) as u32,
                corruption: random.below(20) as u32,
                reordering: random.below(60) as u32,
                ..Network::GOOD
            };
        }
        let (a, b) = connect(&mut pair, format_args!("seed {seed}"));
        let (mut ours, mut theirs) = (Side::default(), Side::default());
        for _ in 0..1 + random.below(4) {
            send_call(&mut pair.a, a, &mut random, &mut ours);
        }
        for _ in 0..random.below(2) {
            send_call(&mut pair.b, b, &mut random, &mut theirs);
        }
        while ours.replied.len() < ours.calls.len() || theirs.replied.len() < theirs.calls.len() {
            for (peer, connection) in [(&mut pair.a, a), (&mut pair.b, b)] {
                let receives = peer.endpoint().queue_pair(connection).unwrap().receives();
                if by_hand && receives < 2 && random.chance(200) {
                    peer.endpoint_mut().post_receive(connection, 4096).unwrap();
                }
            }
            assert!(pair.step() || by_hand, "seed {seed}: nothing left to do");
            for (retransmissions, not_ready) in [
                serve(seed, &mut pair.a, a, &mut ours, &mut theirs),
                serve(seed, &mut pair.b, b, &mut theirs, &mut ours),
            ] {
                again += retransmissions;
                rnr += not_ready;
            }
        }
        pair.run();
        serve(seed, &mut pair.a, a, &mut ours, &mut theirs);
        serve(seed, &mut pair.b, b, &mut theirs, &mut ours);
        for side in [&ours, &theirs] {
            assert!(side.calls.values().all(|(_, seen)| *seen == 1), "seed {seed}");
            assert!(side.replied.values().all(|count| *count == 1), "seed {seed}");
        }
        calls += ours.calls.len();
        backward += theirs.calls.len();
        for (peer, connection) in [(&pair.a, a), (&pair.b, b)] {
            let queue = peer.endpoint().queue_pair(connection).unwrap();
            assert!(queue.memory().is_empty(), "seed {seed}");
            wrapped += u32::from(near_the_end.is_some() && queue.expected_psn().value() < 1 << 23);
        }
        let by_client = random.chance(500);
        if by_client {
            pair.a.disconnect(a).unwrap()
        } else {
            pair.b.disconnect(b).unwrap()
        }
        pair.run_to_end();
        let (local, remote) = if by_client { (&mut pair.a, &mut pair.b) } else { (&mut pair.b, &mut pair.a) };
        for (peer, is_local) in [(local, true), (remote, false)] {
            let why = std::iter::from_fn(|| peer.poll_event())
                .find_map(|event| Peer::closed(&event).map(|(_, why)| why.clone()));
            let expected = match why {
                Some(Closed::Local | Closed::LocalUnanswered) => is_local,
                Some(Closed::Remote) => !is_local,
                _ => false,
            };
            assert!(expected, "seed {seed}: {why:?}");
            assert_eq!(peer.endpoint().connections().count(), 0);
        }
    }
    assert!(calls > 20_000 && backward > 4000, "{calls} {backward}");
    assert!(again > 5000 && wrapped > 1000 && rnr > 500, "{again} {wrapped} {rnr}");
}
