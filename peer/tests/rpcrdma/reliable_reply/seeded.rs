//! Sessions with all kinds of replies over a network with loss, duplication and reordering.

use super::{call, reply};
use crate::connect;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::pair::{Network, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::random::Random;
use rdmascope_peer::rc::{self, QueueEvent};
use rdmascope_peer::rpcrdma::{self, Call, Freed, Mechanism, OfferLimits, Reply};
use rdmascope_wire::Xid;
use rdmascope_wire::private_data::PrivateData;
use std::collections::BTreeMap;
use std::time::Duration;

/// One in this number of long replies has up to 4 MiB.
const HUGE: u64 = 150;

/// Counts over all sessions.
#[derive(Default)]
struct Totals {
    replies: BTreeMap<&'static str, u64>,
    aborted: u64,
    freed: u64,
    retransmissions: u64,
    longest: usize,
}

struct Bench {
    seed: u64,
    pair: Pair<Peer>,
    a: ConnectionId,
    b: ConnectionId,
    /// Outstanding calls, with the length of the reply.
    open: BTreeMap<u32, usize>,
    /// Read chunks that were offered and not freed.
    offered: BTreeMap<u32, usize>,
    /// Calls to abort after their reply was sent.
    aborts: Vec<u32>,
}

/// Returns a random reply length.
fn length(random: &mut Random, is_patient: bool) -> usize {
    24 + match random.below(8) {
        0..3 => random.below(400),
        3..6 => random.below(6000),
        6 => random.below(40_000),
        _ if is_patient && random.below(HUGE) == 0 => random.below((4 << 20) - 24),
        _ => random.below(60_000),
    } as usize
}

impl Bench {
    fn new(seed: u64, random: &mut Random) -> Bench {
        let queue = rc::Config {
            path_mtu: [1024, 4096][random.below(2) as usize],
            timeout: Some(Duration::from_millis(2)),
            ..rc::Config::default()
        };
        let remote_invalidation = random.chance(700);
        let config = |random: &mut Random| Config {
            endpoint: endpoint::Config { queue: queue.clone(), ..endpoint::Config::default() },
            session: rpcrdma::Config {
                credits: [1, 2, 4, 64][random.below(4) as usize],
                private_data: Some(PrivateData {
                    remote_invalidation,
                    send_size: random.below(4) as u8,
                    receive_size: random.below(4) as u8,
                    ..PrivateData::DEFAULT
                }),
                segment: 30_000 + random.below(300_000) as u32,
                reliable_reply: Some(OfferLimits { time: Duration::from_secs(600), bytes: 128 << 20 }),
                reply_mechanism: [None, None, Some(Mechanism::ReplyChunk), Some(Mechanism::ReadChunk)]
                    [random.below(4) as usize],
                ..rpcrdma::Config::default()
            },
            accept_by_hand: false,
        };
        let (a, b) = (config(random), config(random));
        let mut pair =
            Pair::new(Peer::new(a, random.number()), Peer::new(b, random.number()), random.number());
        if random.chance(700) {
            pair.network = Network {
                loss: random.below(20) as u32,
                duplication: random.below(20) as u32,
                corruption: random.below(5) as u32,
                reordering: random.below(30) as u32,
                ..Network::GOOD
            };
        }
        let (a, b) = connect(&mut pair, format_args!("seed {seed}"));
        let (open, offered, aborts) = Default::default();
        Bench { seed, pair, a, b, open, offered, aborts }
    }

    fn send_call(&mut self, xid: u32, random: &mut Random) {
        let is_patient = self.pair.network.loss < 3;
        let length = length(random, is_patient);
        // Reply chunks that will be used, that may be used, and that are too small.
        let (least, most) = match random.below(4) {
            0 => (length as u32, length as u32),
            1 => (5000, 5000),
            _ => (0, length as u32),
        };
        let call = Call { message: call(xid), least_reply: least, most_reply: most, ..Call::default() };
        self.pair.a.call(self.a, call).unwrap();
        self.open.insert(xid, length);
        // A Write into the Reply chunk of an aborted call would end the connection (section 3.4).
        if least == 0 && random.chance(150) {
            self.aborts.push(xid);
        }
    }

    fn serve(&mut self, totals: &mut Totals) {
        while let Some(event) = self.pair.b.poll_event() {
            match event {
                Event::Rpc { event: rpcrdma::Event::Called(called), .. } => {
                    let xid = called.xid.0;
                    let length = self.open[&xid];
                    let sent =
                        self.pair.b.reply(self.b, called.xid, Reply::inline(reply(xid, length))).unwrap();
                    if sent == rpcrdma::Sent::Reply(Mechanism::ReadChunk) {
                        assert_eq!(self.offered.insert(xid, length), None);
                    }
                    if self.aborts.contains(&xid) {
                        self.abort(xid, totals);
                    }
                }
                Event::Rpc { event: rpcrdma::Event::Freed { xid, bytes, why, .. }, .. } => {
                    assert!(matches!(why, Freed::Done | Freed::Invalidated), "seed {}: {why}", self.seed);
                    assert_eq!(self.offered.remove(&xid.0), Some(bytes as usize), "seed {}", self.seed);
                    totals.freed += 1;
                }
                Event::Rpc { event, .. } => panic!("seed {}: {event:?}", self.seed),
                Event::Endpoint(event) => totals.count(self.seed, &event),
            }
        }
    }

    fn abort(&mut self, xid: u32, totals: &mut Totals) {
        let (session, endpoint) = self.pair.a.session_mut(self.a).unwrap();
        session.cancel(endpoint, Xid(xid));
        self.open.remove(&xid);
        totals.aborted += 1;
    }

    fn take(&mut self, totals: &mut Totals) {
        while let Some(event) = self.pair.a.poll_event() {
            match event {
                Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } => {
                    let xid = replied.xid.0;
                    let length = self.open.remove(&xid).expect("one reply a call");
                    assert!(replied.message == reply(xid, length), "seed {}: XID {xid}", self.seed);
                    let name = match replied.conveyance.mechanism {
                        Mechanism::Send => "send",
                        Mechanism::ReplyChunk => "reply chunk",
                        Mechanism::ReadChunk => "read chunk",
                    };
                    *totals.replies.entry(name).or_default() += 1;
                    totals.longest = totals.longest.max(length);
                }
                // The reply of an aborted call.
                Event::Rpc { event: rpcrdma::Event::Discarded { xid: Some(xid), .. }, .. } => {
                    assert!(self.aborts.contains(&xid.0), "seed {}", self.seed);
                }
                Event::Rpc { event: rpcrdma::Event::CreditsExceeded { .. }, .. } => {}
                Event::Rpc { event, .. } => panic!("seed {}: {event:?}", self.seed),
                Event::Endpoint(event) => totals.count(self.seed, &event),
            }
        }
    }
}

impl Totals {
    fn count(&mut self, seed: u64, event: &endpoint::Event) {
        match event {
            endpoint::Event::Queue { event: QueueEvent::Failed(failure), .. } => {
                panic!("seed {seed}: {failure}")
            }
            endpoint::Event::Queue { event: QueueEvent::Retransmission { .. }, .. } => {
                self.retransmissions += 1
            }
            _ => {}
        }
    }
}

fn session(seed: u64, totals: &mut Totals) {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(seed, &mut random);
    for xid in 0..2 + random.below(8) as u32 {
        bench.send_call(xid, &mut random);
    }
    while !bench.open.is_empty() {
        assert!(bench.pair.step(), "seed {seed}: calls without an end: {:?}", bench.open);
        bench.serve(totals);
        bench.take(totals);
    }
    bench.pair.run();
    bench.serve(totals);
    bench.take(totals);
    assert!(bench.offered.is_empty(), "seed {seed}: not freed: {:?}", bench.offered);
    for (peer, connection) in [(&bench.pair.a, bench.a), (&bench.pair.b, bench.b)] {
        assert!(peer.endpoint().memory(connection).unwrap().is_empty(), "seed {seed}");
        assert_eq!(peer.session(connection).unwrap().outstanding(), (0, 0), "seed {seed}");
    }
}

#[test]
fn random_sessions_answer_all_calls_and_free_all_chunks() {
    let mut totals = Totals::default();
    (0..10_000).for_each(|seed| session(seed, &mut totals));
    let Totals { replies, aborted, freed, retransmissions, longest } = totals;
    let all = format!("{replies:?} {aborted} {freed} {retransmissions} {longest}");
    assert!(
        replies["send"] > 5000 && replies["reply chunk"] > 5000 && replies["read chunk"] > 10_000,
        "{all}"
    );
    assert!(freed > replies["read chunk"] && aborted > 1000 && retransmissions > 5000, "{all}");
    assert!(longest > 3 << 20, "{all}");
}
