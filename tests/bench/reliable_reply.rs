//! Measures the claims of the reliable-reply draft (sections 3, 5.1 and 5.2) between two peers.
//!
//! `cargo run --release -p rdmascope-tests --bin reliable_reply` prints the tables of
//! docs/reliable-reply.md. All tables except the last use virtual time: the network has a delay and
//! a loss, and nothing else takes time. So round trips, registrations and bytes are exact and equal
//! in each run. The last table uses the loopback interface.

use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::memory::Counts;
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::{End, Network, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::random::Random;
use rdmascope_peer::rc::{self, QueueEvent};
use rdmascope_peer::rpcrdma::{self, Call, Mechanism, OfferLimits, Reply};
use rdmascope_peer::time::Instant;
use rdmascope_wire::private_data::PrivateData;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of calls in a run.
const CALLS: u32 = 4000;
/// The length of a call and of the shortest reply, in bytes.
const CALL: usize = 120;
const HEADER: u32 = 24;

/// A kind of call: its weight, the shortest and the longest reply that the client expects, and the
/// replies with their weights.
struct Kind {
    weight: u64,
    least: u32,
    most: u32,
    replies: &'static [(u64, u32)],
}

/// The forward calls of `samples/`: 1735 calls, 351 with a Reply chunk. The sizes are those in the
/// captures; `most` is the length of the Reply chunk that Linux clients offered.
const SAMPLES: &[Kind] = &[
    Kind { weight: 1384, least: HEADER, most: 400, replies: &[(1, 180)] },
    Kind { weight: 230, least: HEADER, most: 7184, replies: &[(121, 348), (91, 352), (14, 380), (4, 96)] },
    Kind { weight: 92, least: HEADER, most: 28_932, replies: &[(84, 184), (8, 136)] },
    Kind { weight: 16, least: HEADER, most: 4240, replies: &[(10, 100), (6, 120)] },
    Kind {
        weight: 13,
        least: HEADER,
        most: 65_556,
        replies: &[(4, 9676), (2, 8056), (1, 7476), (4, 868), (2, 968)],
    },
];

/// GETATTR with an ACL: nine in ten are short.
const ACL: &[Kind] =
    &[Kind { weight: 1, least: HEADER, most: 65_536, replies: &[(90, 320), (7, 6000), (3, 48_000)] }];

/// Directory listings: most replies are long, and the client knows the size of none.
const READDIR: &[Kind] =
    &[Kind { weight: 1, least: HEADER, most: 65_556, replies: &[(2, 868), (5, 16_000), (3, 65_000)] }];

/// READs with krb5i, which uses no Write chunks: the client knows that the reply is long.
const KRB5I: &[Kind] = &[
    Kind { weight: 3, least: 32_900, most: 32_900, replies: &[(1, 32_900)] },
    Kind { weight: 1, least: 262_280, most: 262_280, replies: &[(1, 262_280)] },
];

const WORKLOADS: [(&str, &[Kind]); 4] =
    [("samples", SAMPLES), ("ACL", ACL), ("READDIR", READDIR), ("krb5i", KRB5I)];

/// The choice of the transfer of replies.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    /// RFC 8166: a Reply chunk if the reply may be long.
    ReplyChunks,
    /// Read chunks of the responder, no Reply chunk.
    ReadChunks,
    /// Section 5.3.1: a Reply chunk only if the reply is certainly long.
    Mixed,
}

const POLICIES: [(&str, Policy); 3] =
    [("Reply chunks", Policy::ReplyChunks), ("Read chunks", Policy::ReadChunks), ("mixed", Policy::Mixed)];

/// A peer that counts the packets and bytes that it sends.
struct Meter {
    peer: Peer,
    packets: u64,
    bytes: u64,
}

impl Meter {
    fn new(session: rpcrdma::Config, seed: u64) -> Meter {
        let queue = rc::Config {
            path_mtu: 4096,
            // Unlimited bandwidth: only the delay counts.
            window: 1 << 16,
            timeout: Some(Duration::from_millis(67)),
            ..rc::Config::default()
        };
        let endpoint = endpoint::Config { queue, ..endpoint::Config::default() };
        let peer = Peer::new(Config { endpoint, session, ..Config::default() }, seed);
        Meter { peer, packets: 0, bytes: 0 }
    }
}

impl End for Meter {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.peer.handle(now, datagram);
    }

    fn handle_time(&mut self, now: Instant) {
        self.peer.handle_time(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.peer.next_deadline()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let datagram = self.peer.poll_transmit(now)?;
        self.packets += 1;
        self.bytes += datagram.transport.len() as u64;
        Some(datagram)
    }
}

fn config(policy: Policy, credits: u32) -> rpcrdma::Config {
    rpcrdma::Config {
        credits,
        private_data: Some(PrivateData {
            remote_invalidation: true,
            send_size: 3,
            receive_size: 3,
            ..PrivateData::DEFAULT
        }),
        reliable_reply: (policy != Policy::ReplyChunks).then(OfferLimits::default),
        ..rpcrdma::Config::default()
    }
}

/// Picks a random element by weight.
fn pick<'a, T>(random: &mut Random, all: &'a [T], weight: impl Fn(&T) -> u64) -> &'a T {
    let mut at = random.below(all.iter().map(&weight).sum());
    all.iter()
        .find(|one| {
            let is_chosen = at < weight(one);
            at = at.saturating_sub(weight(one));
            is_chosen
        })
        .expect("the weights add up")
}

/// An outstanding call.
struct Open {
    sent: Instant,
    /// The length of its reply and of its Reply chunk, in bytes.
    reply: u32,
    offered: u32,
}

/// The results of a run.
#[derive(Default)]
struct Run {
    latencies: Vec<u64>,
    seconds: f64,
    packets: u64,
    /// Bytes sent in addition to RPC messages.
    overhead: u64,
    ours: Counts,
    theirs: Counts,
    /// Byte-seconds of memory that the other end could write, and read.
    writable: f64,
    readable: f64,
    pulled: u64,
}

impl Run {
    fn latency(&self, percent: usize) -> Duration {
        Duration::from_nanos(self.latencies[(self.latencies.len() - 1) * percent / 100])
    }
}

fn message(xid: u32, kind: u32, length: usize) -> Vec<u8> {
    let mut bytes = [xid.to_be_bytes(), kind.to_be_bytes()].concat();
    bytes.resize(length.max(HEADER as usize).next_multiple_of(4), 0);
    bytes
}

struct Bench<'a> {
    kinds: &'a [Kind],
    policy: Policy,
    pair: Pair<Meter>,
    a: ConnectionId,
    b: ConnectionId,
    random: Random,
    open: BTreeMap<u32, Open>,
    next: u32,
    run: Run,
}

impl<'a> Bench<'a> {
    fn new(kinds: &'a [Kind], policy: Policy, credits: u32, network: Network) -> Bench<'a> {
        let (a, b) = (Meter::new(config(policy, credits), 1), Meter::new(config(policy, credits), 2));
        let mut pair = Pair::new(a, b, 3);
        assert!(pair.b.peer.listen(20049), "the first port");
        let a =
            pair.a.peer.connect(pair.address_a, pair.address_b, 20049).expect("a connection is available");
        let b = loop {
            assert!(pair.step(), "no connection");
            let connected = std::iter::from_fn(|| pair.b.peer.poll_event()).find_map(|event| match event {
                Event::Endpoint(endpoint::Event::Connected { connection }) => Some(connection),
                _ => None,
            });
            if let Some(connection) = connected {
                break connection;
            }
        };
        pair.network = network;
        let (random, run) = (Random::new(7), Run::default());
        Bench { kinds, policy, pair, a, b, random, open: BTreeMap::new(), next: 0, run }
    }

    fn send_call(&mut self) {
        let kind = pick(&mut self.random, self.kinds, |kind| kind.weight);
        let reply = pick(&mut self.random, kind.replies, |(weight, _)| *weight).1;
        let (xid, message) = (self.next, message(self.next, 0, CALL));
        self.next += 1;
        let least_reply = if self.policy == Policy::ReadChunks { 0 } else { kind.least };
        let call = Call { message, least_reply, most_reply: kind.most, ..Call::default() };
        self.pair.a.peer.call(self.a, call).expect("the connection is open");
        self.open.insert(xid, Open { sent: self.pair.now, reply, offered: 0 });
    }

    fn serve(&mut self) {
        while let Some(event) = self.pair.b.peer.poll_event() {
            match event {
                Event::Rpc { event: rpcrdma::Event::Called(called), .. } => {
                    let open = self.open.get_mut(&called.xid.0).expect("the call is outstanding");
                    open.offered = called.reply_chunk.unwrap_or_default() as u32;
                    let reply = Reply::inline(message(called.xid.0, 1, open.reply as usize));
                    self.pair.b.peer.reply(self.b, called.xid, reply).expect("the connection is open");
                }
                Event::Rpc { event: rpcrdma::Event::Freed { bytes, offered_for, .. }, .. } => {
                    self.run.readable += bytes as f64 * offered_for.as_secs_f64();
                }
                Event::Rpc { event, .. } => panic!("{event:?}"),
                Event::Endpoint(endpoint::Event::Queue { event: QueueEvent::Failed(failure), .. }) => {
                    panic!("{failure}")
                }
                Event::Endpoint(_) => {}
            }
        }
    }

    fn take(&mut self) {
        while let Some(event) = self.pair.a.peer.poll_event() {
            match event {
                Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } => {
                    let open = self.open.remove(&replied.xid.0).expect("one reply per call");
                    let latency = self.pair.now.since(open.sent);
                    self.run.latencies.push(latency.as_nanos() as u64);
                    self.run.writable += f64::from(open.offered) * latency.as_secs_f64();
                    self.run.pulled += u64::from(replied.conveyance.mechanism == Mechanism::ReadChunk);
                    self.run.overhead += (CALL + replied.message.len()) as u64;
                }
                Event::Rpc { event, .. } => panic!("{event:?}"),
                Event::Endpoint(endpoint::Event::Queue { event: QueueEvent::Failed(failure), .. }) => {
                    panic!("{failure}")
                }
                Event::Endpoint(_) => {}
            }
        }
    }

    /// Makes calls, `depth` of them outstanding.
    fn run(mut self, calls: u32, depth: usize) -> Run {
        let (began, before) = (self.pair.now, self.sent());
        while self.run.latencies.len() < calls as usize {
            while self.next < calls && self.open.len() < depth {
                self.send_call();
            }
            assert!(self.pair.step(), "nothing left to do");
            self.serve();
            self.take();
        }
        self.run.seconds = self.pair.now.since(began).as_secs_f64();
        self.pair.run();
        self.serve();
        let (packets, bytes) = self.sent();
        let counts = |meter: &Meter, connection| {
            meter.peer.endpoint().memory(connection).expect("the connection is open").counts()
        };
        let mut run = self.run;
        run.packets = packets - before.0;
        run.overhead = bytes - before.1 - run.overhead;
        (run.ours, run.theirs) = (counts(&self.pair.a, self.a), counts(&self.pair.b, self.b));
        run.latencies.sort_unstable();
        run
    }

    fn sent(&self) -> (u64, u64) {
        let (a, b) = (&self.pair.a, &self.pair.b);
        (a.packets + b.packets, a.bytes + b.bytes)
    }
}

fn network(delay: Duration, loss: u32) -> Network {
    Network { delay, loss, ..Network::GOOD }
}

fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

fn head(title: &str, cells: &[&str]) {
    println!("\n### {title}\n");
    row(&cells.iter().map(ToString::to_string).collect::<Vec<_>>());
    row(&vec!["---".to_owned(); cells.len()]);
}

/// The costs of each policy without loss.
fn costs() {
    head(
        "Cost of a reply, one call at a time",
        &[
            "workload",
            "policy",
            "replies pulled",
            "registrations, requester",
            "registrations, responder",
            "invalidated remotely",
            "round trips",
            "packets",
            "bytes besides RPC",
            "writable byte-seconds",
            "readable byte-seconds",
        ],
    );
    let delay = Duration::from_millis(1);
    for (name, kinds) in WORKLOADS {
        for (policy_name, policy) in POLICIES {
            let run = Bench::new(kinds, policy, 32, network(delay, 0)).run(CALLS, 1);
            let each = |count: u64| format!("{:.2}", count as f64 / f64::from(CALLS));
            let mean = run.latencies.iter().sum::<u64>() as f64 / f64::from(CALLS);
            let exposed = |sum: f64| format!("{:.1}", sum / f64::from(CALLS));
            row(&[
                name.to_owned(),
                policy_name.to_owned(),
                format!("{:.1} %", run.pulled as f64 * 100.0 / f64::from(CALLS)),
                each(run.ours.registered),
                each(run.theirs.registered),
                each(run.ours.revoked + run.theirs.revoked),
                format!("{:.3}", mean / (2.0 * delay.as_nanos() as f64)),
                each(run.packets),
                each(run.overhead),
                exposed(run.writable),
                exposed(run.readable),
            ]);
        }
    }
}

/// Latency and rate over several networks, with eight outstanding calls.
fn networks() {
    head(
        "Latency p50 / p99 and calls a second, eight calls at a time",
        &["workload", "delay", "loss", "Reply chunks", "Read chunks", "mixed"],
    );
    for (name, kinds) in WORKLOADS {
        for (micros, loss) in [(100, 0), (1000, 0), (10_000, 0), (100, 10), (1000, 10), (10_000, 10)] {
            let delay = Duration::from_micros(micros);
            let mut cells = vec![name.to_owned(), format!("{delay:?}"), format!("{} %", loss / 10)];
            cells.extend(POLICIES.map(|(_, policy)| {
                let run = Bench::new(kinds, policy, 32, network(delay, loss)).run(CALLS, 8);
                let rate = f64::from(CALLS) / run.seconds;
                format!("{:.1?} / {:.1?}, {rate:.0}", run.latency(50), run.latency(99))
            }));
            row(&cells);
        }
    }
}

/// Only long replies and few granted credits: the cost of RDMA_DONE in credits.
fn credits() {
    head(
        "Only long replies, by the credits that are granted, 1 ms of delay",
        &["credits", "Reply chunks, calls a second", "Read chunks, calls a second", "lost"],
    );
    let long = [Kind { weight: 1, least: HEADER, most: 65_536, replies: &[(1, 16_000)] }];
    for credits in [1, 2, 8, 64] {
        let rate = |policy| {
            let run = Bench::new(&long, policy, credits, network(Duration::from_millis(1), 0)).run(1000, 64);
            1000.0 / run.seconds
        };
        let (reply, read) = (rate(Policy::ReplyChunks), rate(Policy::ReadChunks));
        row(&[
            credits.to_string(),
            format!("{reply:.0}"),
            format!("{read:.0}"),
            format!("{:.0} %", 100.0 - read * 100.0 / reply),
        ]);
    }
}

/// The loopback interface in real time.
#[cfg(target_os = "linux")]
mod loopback {
    use super::{CALL, HEADER, Policy, config, head, message, row};
    use rdmascope_peer::driver::{Driver, Error, Kind, Reach};
    use rdmascope_peer::endpoint;
    use rdmascope_peer::peer::{Config, Event, Peer};
    use rdmascope_peer::rc;
    use rdmascope_peer::rpcrdma::{self, Call, Reply};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    /// The number of calls for each size.
    const CALLS: usize = 300;

    fn peer(policy: Policy, seed: u64) -> Peer {
        let timeout = Some(Duration::from_secs(1));
        let queue = rc::Config { path_mtu: 4096, timeout, ..rc::Config::default() };
        let endpoint = endpoint::Config { queue, ..endpoint::Config::default() };
        Peer::new(Config { endpoint, session: config(policy, 32), ..Config::default() }, seed)
    }

    /// Answers calls with replies of `length` bytes until the connection is closed.
    fn serve(mut driver: Driver, policy: Policy, length: usize) {
        let mut peer = peer(policy, 2);
        assert!(peer.listen(20049), "the first port");
        let served = driver.run(&mut peer, None, |peer, _| {
            while let Some(event) = peer.poll_event() {
                match event {
                    Event::Rpc { connection, event: rpcrdma::Event::Called(called) } => {
                        let reply = Reply::inline(message(called.xid.0, 1, length));
                        peer.reply(connection, called.xid, reply).expect("the call is outstanding");
                    }
                    Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                    _ => {}
                }
            }
            false
        });
        served.expect("the sockets work");
    }

    /// Makes calls one after the other and returns their latencies.
    fn call(mut driver: Driver, [local, to]: [IpAddr; 2], policy: Policy, length: usize) -> Vec<Duration> {
        let mut peer = peer(policy, 1);
        let connection = peer.connect(local, to, 20049).expect("a connection is available");
        let (mut latencies, mut sent) = (Vec::new(), Instant::now());
        let called = driver.run(&mut peer, None, |peer, _| {
            let mut next = false;
            while let Some(event) = peer.poll_event() {
                match event {
                    Event::Endpoint(endpoint::Event::Connected { .. }) => next = true,
                    Event::Rpc { event: rpcrdma::Event::Replied(_), .. } => {
                        latencies.push(sent.elapsed());
                        next = true;
                    }
                    Event::Rpc { event, .. } => panic!("{event:?}"),
                    Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                    Event::Endpoint(_) => {}
                }
            }
            if next && latencies.len() < CALLS {
                sent = Instant::now();
                let message = message(latencies.len() as u32, 0, CALL);
                let call =
                    Call { message, least_reply: HEADER, most_reply: length as u32, ..Call::default() };
                peer.call(connection, call).expect("the connection is open");
            } else if next {
                peer.disconnect(connection).expect("the connection is open");
            }
            false
        });
        called.expect("the sockets work");
        latencies.sort_unstable();
        latencies
    }

    fn measure(policy: Policy, length: usize) -> Result<Vec<Duration>, Error> {
        let process = std::process::id().to_be_bytes();
        let address = |end: u8| IpAddr::V4(Ipv4Addr::new(127, end, process[2], process[3].clamp(1, 254)));
        let ends = [address(13), address(14)];
        let server = Driver::open(Kind::Udp, &[ends[1]], Reach::Senders)?;
        let client = Driver::open(Kind::Udp, &[ends[0]], Reach::Only(vec![ends[1]]))?;
        Ok(std::thread::scope(|scope| {
            scope.spawn(move || serve(server, policy, length));
            call(client, ends, policy, length)
        }))
    }

    pub(crate) fn sizes() -> Result<(), Error> {
        head(
            "Latency of one reply over the loopback interface, p50 / p99, by its size",
            &["bytes", "Reply chunk", "Read chunk", "p50 of the Read chunk"],
        );
        for length in [8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20] {
            let [reply, read] =
                [Policy::ReplyChunks, Policy::ReadChunks].map(|policy| measure(policy, length));
            let (reply, read) = (reply?, read?);
            let of =
                |latencies: &[Duration], percent: usize| latencies[(latencies.len() - 1) * percent / 100];
            let both =
                |latencies: &[Duration]| format!("{:.0?} / {:.0?}", of(latencies, 50), of(latencies, 99));
            let times = of(&read, 50).as_secs_f64() / of(&reply, 50).as_secs_f64();
            row(&[length.to_string(), both(&reply), both(&read), format!("{times:.2} times")]);
        }
        Ok(())
    }
}

fn main() {
    costs();
    networks();
    credits();
    #[cfg(target_os = "linux")]
    loopback::sizes().expect("UDP sockets on the loopback interface");
}
