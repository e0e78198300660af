//! Peers that receive arbitrary input on an open connection: packets, messages, and calls of a
//! careless program.

use crate::bytes::Bytes;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::packet::{Datagram, Icrc, Packet};
use rdmascope_peer::pair::{End as _, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma::{self, Call, OfferLimits, Reply};
use rdmascope_wire::bth::{Bth, Extensions, Opcode, Operation};

/// NFS over RDMA (RFC 8267, section 9).
const PORT: u16 = 20049;
/// Steps of the pair after one input: more than any retransmission takes.
const MOST_STEPS: usize = 20_000;

/// Connects two peers, passes them the input in `data`, and finally asks the second one for a reply
/// on a new connection.
pub fn peer(data: &[u8]) {
    let limits = OfferLimits { bytes: 100_000, ..OfferLimits::default() };
    for reliable_reply in [None, Some(limits)] {
        let session = rpcrdma::Config { reliable_reply, ..rpcrdma::Config::default() };
        with(Config { session, ..Config::default() }, data);
    }
}

fn with(config: Config, data: &[u8]) {
    let mut pair = Pair::new(Peer::new(config.clone(), 1), Peer::new(config, 2), 3);
    assert!(pair.b.listen(PORT));
    let Some((ours, theirs)) = connect(&mut pair) else { panic!("no connection") };
    let mut bytes = Bytes(data);
    let mut xid = 1;
    while !bytes.is_empty() {
        let choice = bytes.u8();
        // Whether the first peer, the client, receives it; and the connection that it names.
        let to_first = choice & 0x80 != 0;
        let connection = if to_first { theirs } else { ours };
        match (choice & 0x7f) % 6 {
            0 => {
                let length = usize::from(bytes.u8());
                receive(&mut pair, to_first, bytes.take(length).to_vec());
            }
            1 => {
                let sender = if to_first { &pair.b } else { &pair.a };
                let Some(queue) = sender.endpoint().queue_pair(connection) else { continue };
                let header = queue.header();
                let opcode = Opcode(bytes.u8());
                // Near the PSN that the receiver expects, which has the value 16.
                let is_response = opcode.operation().is_some_and(Operation::is_response);
                let near = if is_response { queue.expected_psn() } else { queue.next_psn() };
                let psn = near.plus(u32::from(bytes.u8())).minus(16);
                let length = usize::from(bytes.u16() % 5000);
                let Ok((extensions, taken)) = Extensions::parse(opcode, bytes.0) else { continue };
                bytes.take(taken);
                let bth = Bth { opcode, psn, acknowledge_request: true, ..header };
                receive(&mut pair, to_first, Packet { bth, extensions, payload: bytes.take(length) }.build());
            }
            2 => {
                let (mut from, mut to) = (pair.address_a, pair.address_b);
                if to_first {
                    (from, to) = (to, from);
                }
                let mut mad = [0; 256];
                let given = bytes.take(256);
                mad[..given.len()].copy_from_slice(given);
                sender(&mut pair, to_first).endpoint_mut().transmit_raw_mad(from, to, &mad);
            }
            3 => {
                let length = usize::from(bytes.u8()) * 4;
                let _ = sender(&mut pair, to_first).send_raw(connection, bytes.take(length).to_vec());
            }
            4 => {
                let mut call = Call::inline(message(xid, 0, usize::from(bytes.u16())));
                call.long = bytes.u8() & 1 != 0;
                call.most_reply = u32::from(bytes.u16());
                call.write_chunks = (0..bytes.u8() % 4).map(|_| u32::from(bytes.u16())).collect();
                xid += 1;
                let _ = sender(&mut pair, to_first).call(connection, call);
            }
            _ => {
                let _ = pair.b.send_raw(theirs, bytes.take(64).to_vec());
            }
        }
        run(&mut pair);
    }
    let Some((ours, _)) = connect(&mut pair) else { panic!("no connection after the input") };
    let call =
        pair.a.call(ours, Call::inline(message(0xffff, 0, 40))).expect("a new connection takes a call");
    let answered = run(&mut pair);
    assert!(answered.contains(&call.0), "no reply after the input");
}

/// The sender of the packets that the first peer receives, or the second.
fn sender(pair: &mut Pair<Peer>, to_first: bool) -> &mut Peer {
    if to_first { &mut pair.b } else { &mut pair.a }
}

/// Passes a peer a packet that appears to come from the other one.
fn receive(pair: &mut Pair<Peer>, to_first: bool, transport: Vec<u8>) {
    let (mut source, mut destination) = (pair.address_a, pair.address_b);
    if to_first {
        (source, destination) = (destination, source);
    }
    let datagram = Datagram { source, destination, source_port: 0xc000, transport, icrc: Icrc::Good };
    let receiver = if to_first { &mut pair.a } else { &mut pair.b };
    receiver.handle(pair.now, &datagram);
}

/// An RPC message, as far as this layer reads it.
fn message(xid: u32, kind: u32, length: usize) -> Vec<u8> {
    let mut bytes = [xid.to_be_bytes(), kind.to_be_bytes()].concat();
    bytes.resize(length.max(40).next_multiple_of(4), 0);
    bytes
}

fn connect(pair: &mut Pair<Peer>) -> Option<(ConnectionId, ConnectionId)> {
    let ours = pair.a.connect(pair.address_a, pair.address_b, PORT).ok()?;
    for _ in 0..MOST_STEPS {
        pair.step();
        while pair.a.poll_event().is_some() {}
        while let Some(event) = pair.b.poll_event() {
            if let Event::Endpoint(endpoint::Event::Connected { connection }) = event {
                return Some((ours, connection));
            }
            answer(&mut pair.b, event);
        }
    }
    None
}

/// Runs both peers until they are idle. Returns the calls of the first one that were answered.
fn run(pair: &mut Pair<Peer>) -> Vec<u32> {
    let mut answered = Vec::new();
    for _ in 0..MOST_STEPS {
        let is_active = pair.step();
        while let Some(event) = pair.a.poll_event() {
            if let Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } = &event {
                answered.push(replied.xid.0);
            }
            answer(&mut pair.a, event);
        }
        while let Some(event) = pair.b.poll_event() {
            answer(&mut pair.b, event);
        }
        if !is_active {
            break;
        }
    }
    answered
}

/// Answers each call with a message of its length, and with data for the Write chunks that it
/// offers.
fn answer(peer: &mut Peer, event: Event) {
    let Event::Rpc { connection, event: rpcrdma::Event::Called(called) } = event else { return };
    let mut reply = message(called.xid.0, 1, called.message.len());
    let mut reduce = Vec::new();
    for room in called.write_chunks.iter().take(4) {
        let start = reply.len();
        reply.resize(start + (*room).min(4096) as usize, 7);
        reduce.push(start..reply.len());
        reply.resize(reply.len().next_multiple_of(4), 0);
    }
    let _ = peer.reply(connection, called.xid, Reply { message: reply, reduce, edit: None });
}
