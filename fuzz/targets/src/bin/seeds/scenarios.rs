//! The packets of the scenarios, as choices that the target of the peer reads.

use rdmascope_peer::endpoint::{self, Endpoint};
use rdmascope_peer::packet::{Datagram, Packet};
use rdmascope_peer::pair::{End, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma::{self, Called, Reply};
use rdmascope_peer::scenario::{Injector, Runner, Scenario, Target, builtin};
use rdmascope_peer::time::Instant;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::Operation;
use rdmascope_wire::cm::{Message, ReadyToUse, Request};
use rdmascope_wire::psn::Psn;

/// The longest seed. Packets of a scenario beyond this number of bytes are left out.
const MOST: usize = 2000;
/// Bytes of a MAD.
const MAD: usize = 256;

/// An injector that records the packets it sends.
struct Tapped {
    injector: Injector,
    choices: Vec<u8>,
    /// The PSN of its first request.
    first: Option<Psn>,
}

impl Tapped {
    fn take(&mut self, datagram: &Datagram) {
        let Ok(packet) = Packet::parse(&datagram.transport) else { return };
        let mut choice = Vec::new();
        if packet.bth.destination_qp == Qpn(1) {
            let mut mad = packet.payload.to_vec();
            mad.resize(MAD, 0);
            // The connection exists already.
            match Message::parse(&mad).map(|(_, message)| message.attribute()) {
                Ok(Request::ATTRIBUTE | ReadyToUse::ATTRIBUTE) | Err(_) => return,
                Ok(_) => {}
            }
            choice.push(2);
            choice.extend(mad);
        } else {
            let is_response = packet.bth.opcode.operation().is_some_and(Operation::is_response);
            let near = if is_response {
                let endpoint = &self.injector.endpoint;
                let queue = endpoint.connections().find_map(|connection| endpoint.queue_pair(connection));
                queue.map_or(packet.bth.psn, |queue| queue.expected_psn())
            } else {
                *self.first.get_or_insert(packet.bth.psn)
            };
            let ahead = near.distance(packet.bth.psn) + 16;
            let Ok(ahead) = u8::try_from(ahead) else { return };
            choice.extend([1, packet.bth.opcode.0, ahead]);
            choice.extend((packet.payload.len() as u16).to_be_bytes());
            packet.extensions.build(&mut choice);
            choice.extend(packet.payload);
        }
        if self.choices.len() + choice.len() <= MOST {
            self.choices.extend(choice);
        }
    }
}

impl End for Tapped {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.injector.handle(now, datagram);
    }

    fn handle_time(&mut self, now: Instant) {
        self.injector.handle_time(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.injector.next_deadline()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let datagram = self.injector.poll_transmit(now)?;
        self.take(&datagram);
        Some(datagram)
    }
}

/// Either end of the pair.
enum Side {
    Injector(Box<Tapped>),
    Peer(Box<Peer>),
}

impl Side {
    fn end(&mut self) -> &mut dyn End {
        match self {
            Side::Injector(end) => end.as_mut(),
            Side::Peer(end) => end.as_mut(),
        }
    }
}

impl End for Side {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.end().handle(now, datagram);
    }

    fn handle_time(&mut self, now: Instant) {
        self.end().handle_time(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self {
            Side::Injector(end) => end.next_deadline(),
            Side::Peer(end) => end.next_deadline(),
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.end().poll_transmit(now)
    }
}

/// The seed of each scenario that sends something on a connection.
pub(crate) fn seeds() -> impl Iterator<Item = Vec<u8>> {
    builtin().into_iter().map(of).filter(|seed| !seed.is_empty())
}

fn of(scenario: Scenario) -> Vec<u8> {
    let mut peer = Peer::new(Config::default(), 2);
    peer.listen(20049);
    let choices = Vec::new();
    let addresses = Pair::new(
        Endpoint::new(endpoint::Config::default(), 1),
        Endpoint::new(endpoint::Config::default(), 1),
        1,
    );
    let target = Target::new(addresses.address_a, addresses.address_b);
    let injector = Injector {
        endpoint: Endpoint::new(endpoint::Config::default(), 1),
        runner: Runner::new(scenario, target),
    };
    let tapped = Tapped { injector, choices, first: None };
    let mut pair = Pair::new(Side::Injector(Box::new(tapped)), Side::Peer(Box::new(peer)), 3);
    // No built-in scenario waits forever.
    for _ in 0..100_000 {
        if !pair.step() {
            break;
        }
        if let Side::Peer(peer) = &mut pair.b {
            serve(peer);
        }
        if let Side::Injector(tapped) = &pair.a
            && tapped.injector.runner.is_over()
        {
            break;
        }
    }
    match pair.a {
        Side::Injector(tapped) => tapped.choices,
        Side::Peer(_) => Vec::new(),
    }
}

/// Answers each call with the reply to NULL.
fn serve(peer: &mut Peer) {
    while let Some(event) = peer.poll_event() {
        let Event::Rpc { connection, event: rpcrdma::Event::Called(Called { xid, .. }) } = event else {
            continue;
        };
        let words = [xid.0, 1, 0, 0, 0, 0];
        let message = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let _ = peer.reply(connection, xid, Reply::inline(message));
    }
}
