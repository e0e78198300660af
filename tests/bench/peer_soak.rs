//! A soak test: a million calls between two peers in memory, over a network that loses, duplicates
//! and reorders 1 % of the datagrams each.
//!
//! `cargo run --release -p rdmascope-tests --bin peer_soak [CALLS [SEED]]`
//!
//! Time is virtual, so runs with equal arguments are identical. A call is inline, has its item in a
//! Read chunk, or gets the item of its reply in a Write chunk. Each call must reach the Responder
//! once, and each reply the Requester once, with the right bytes; no memory may stay registered. A
//! violation ends the run with a panic. The peak resident set is printed as the run proceeds; it
//! must not grow.

use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::pair::{Network, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rc::QueueEvent;
use rdmascope_peer::rpcrdma::{self, Call, Reply};
use rdmascope_wire::Xid;
use std::collections::BTreeMap;
use std::ops::Range;

/// Outstanding calls: the number of granted credits.
const OUTSTANDING: usize = 32;

/// The message for an XID, equal at both ends, and the range of its item.
fn message(xid: Xid, kind: u32) -> (Vec<u8>, Range<usize>) {
    let mut bytes = [xid.0.to_be_bytes(), kind.to_be_bytes()].concat();
    (0..6).for_each(|word| bytes.extend(xid.0.wrapping_mul(2 * word + 1).to_be_bytes()));
    let start = bytes.len();
    let item = match form(xid) {
        Form::Inline => 0,
        _ => 500 + xid.0 as usize % 4000,
    };
    bytes.extend((0..item).map(|at| (at as u32 ^ xid.0.wrapping_add(kind)) as u8));
    let end = bytes.len();
    bytes.resize(end.next_multiple_of(4), 0);
    (bytes, start..end)
}

#[derive(PartialEq)]
enum Form {
    Inline,
    ReadChunk,
    WriteChunk,
}

fn form(xid: Xid) -> Form {
    match xid.0 % 16 {
        0 => Form::ReadChunk,
        8 => Form::WriteChunk,
        _ => Form::Inline,
    }
}

/// The state of a run.
struct Soak {
    /// Outstanding calls, and whether the Responder has seen them. A message for any other XID is a
    /// duplicate.
    open: BTreeMap<Xid, bool>,
    done: usize,
    retransmissions: u64,
}

impl Soak {
    fn send_call(&mut self, peer: &mut Peer, connection: ConnectionId, xid: Xid) {
        self.open.insert(xid, false);
        let (message, item) = message(xid, 0);
        let chunk = if form(xid) == Form::WriteChunk { vec![8192] } else { vec![] };
        let reduce = if form(xid) == Form::ReadChunk { vec![item] } else { vec![] };
        let call = Call { message, reduce, write_chunks: chunk, ..Call::default() };
        peer.call(connection, call).expect("the connection is open");
    }

    fn take(&mut self, peer: &mut Peer, connection: ConnectionId) {
        while let Some(event) = peer.poll_event() {
            match event {
                Event::Rpc { event: rpcrdma::Event::Called(called), .. } => {
                    assert_eq!(called.message, message(called.xid, 0).0, "call {}", called.xid);
                    assert_eq!(
                        self.open.insert(called.xid, true),
                        Some(false),
                        "call {} came twice",
                        called.xid
                    );
                    let (message, item) = message(called.xid, 1);
                    let reduce = if form(called.xid) == Form::WriteChunk { vec![item] } else { vec![] };
                    let reply = Reply {
                        message: if form(called.xid) == Form::ReadChunk {
                            message[..32].to_vec()
                        } else {
                            message
                        },
                        reduce,
                        edit: None,
                    };
                    peer.reply(connection, called.xid, reply).expect("the call is outstanding");
                }
                Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } => {
                    let (expected, item) = message(replied.xid, 1);
                    match form(replied.xid) {
                        Form::WriteChunk => {
                            assert_eq!(replied.items, [expected[item].to_vec()], "reply {}", replied.xid)
                        }
                        _ => assert_eq!(replied.message, expected[..32], "reply {}", replied.xid),
                    }
                    assert_eq!(
                        self.open.remove(&replied.xid),
                        Some(true),
                        "reply {} came twice",
                        replied.xid
                    );
                    self.done += 1;
                }
                Event::Rpc { event, .. } => panic!("{event:?}"),
                Event::Endpoint(endpoint::Event::Queue { event: QueueEvent::Failed(failure), .. }) => {
                    panic!("{failure}")
                }
                Event::Endpoint(endpoint::Event::Queue {
                    event: QueueEvent::Retransmission { .. }, ..
                }) => self.retransmissions += 1,
                Event::Endpoint(endpoint::Event::Closed { why, .. }) => panic!("{why:?}"),
                Event::Endpoint(_) => {}
            }
        }
    }
}

/// The peak resident set in KiB, if Linux reports it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let calls = arguments.next().unwrap_or(1_000_000) as usize;
    let seed = arguments.next().unwrap_or(1);
    let mut pair =
        Pair::new(Peer::new(Config::default(), seed), Peer::new(Config::default(), seed + 1), seed + 2);
    pair.network = Network { loss: 10, duplication: 10, reordering: 10, ..Network::GOOD };
    assert!(pair.b.listen(20049));
    let (to, from) = (pair.address_b, pair.address_a);
    let a = pair.a.connect(from, to, 20049).expect("a connection is available");
    let mut connected = [None; 2];
    while connected.contains(&None) {
        assert!(pair.step(), "no connection");
        for (peer, connected) in [&mut pair.a, &mut pair.b].into_iter().zip(&mut connected) {
            while let Some(event) = peer.poll_event() {
                if let Event::Endpoint(endpoint::Event::Connected { connection }) = event {
                    *connected = Some(connection);
                }
            }
        }
    }
    let b = connected[1].expect("the loop ended with both");
    let mut soak = Soak { open: BTreeMap::new(), done: 0, retransmissions: 0 };
    let (started, mut called, mut reported) = (std::time::Instant::now(), 0, 0);
    println!("calls done   virtual time   datagrams sent   sent again   peak resident set");
    while soak.done < calls {
        while called < calls && called - soak.done < OUTSTANDING {
            soak.send_call(&mut pair.a, a, Xid(called as u32));
            called += 1;
        }
        assert!(pair.step(), "nothing left to do: {} of {calls} calls answered", soak.done);
        soak.take(&mut pair.b, b);
        soak.take(&mut pair.a, a);
        if soak.done / 100_000 > reported || soak.done == calls {
            reported = soak.done / 100_000;
            let virtual_time = pair.now.0 as f64 / 1e9;
            let peak = peak().map_or("not known".to_owned(), |peak| format!("{peak} KiB"));
            let (done, sent, again) = (soak.done, pair.sent, soak.retransmissions);
            println!("{done:10}   {virtual_time:10.1} s   {sent:14}   {again:10}   {peak:>17}");
        }
    }
    pair.run();
    soak.take(&mut pair.b, b);
    soak.take(&mut pair.a, a);
    assert!(soak.open.is_empty(), "calls were lost");
    for (peer, connection) in [(&pair.a, a), (&pair.b, b)] {
        let queue = peer.endpoint().queue_pair(connection).expect("the connection is open");
        assert!(queue.memory().is_empty(), "memory stayed registered");
    }
    println!("{calls} calls arrived once and were answered once; {:.1} s", started.elapsed().as_secs_f64());
}
