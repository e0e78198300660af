//! RPC-over-RDMA sessions between two peers.

mod faults;
mod messages;
mod network;
mod reliable_reply;

use core::fmt::Display;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::pair::Pair;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma;
use rdmascope_wire::private_data::PrivateData;

/// Two peers, and the connection that `a` has opened to `b`.
struct Session {
    pair: Pair<Peer>,
    a: ConnectionId,
    b: ConnectionId,
}

impl Session {
    fn new(a: rpcrdma::Config, b: rpcrdma::Config) -> Session {
        let peer = |session, seed| Peer::new(Config { session, ..Config::default() }, seed);
        let mut pair = Pair::new(peer(a, 1), peer(b, 2), 3);
        let (a, b) = connect(&mut pair, "a good network");
        pair.run();
        while pair.a.poll_event().is_some() {}
        Session { pair, a, b }
    }
}

/// Connects `a` to `b`. Returns the connection of each. A failure names `context`.
fn connect(pair: &mut Pair<Peer>, context: impl Display) -> (ConnectionId, ConnectionId) {
    assert!(pair.b.listen(20049));
    let ours = pair.a.connect(pair.address_a, pair.address_b, 20049).unwrap();
    for _ in 0..10_000 {
        assert!(pair.step(), "{context}: no connection");
        while let Some(event) = pair.b.poll_event() {
            if let Event::Endpoint(endpoint::Event::Connected { connection }) = event {
                return (ours, connection);
            }
        }
    }
    panic!("{context}: no connection")
}

/// Inline thresholds of 1024 bytes and segments of 1000 bytes.
fn config(remote_invalidation: bool) -> rpcrdma::Config {
    rpcrdma::Config {
        private_data: Some(PrivateData { remote_invalidation, ..PrivateData::DEFAULT }),
        segment: 1000,
        ..rpcrdma::Config::default()
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}
