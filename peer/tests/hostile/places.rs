//! A remote side that occupies all connections.

use crate::foe::{NAME, THEIRS, Victim, mad, request};
use rdmascope_peer::cm::{Closed, State};
use rdmascope_peer::endpoint::{ConnectionId, MOST_CONNECTIONS};
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::peer::Peer;
use rdmascope_peer::rc;
use rdmascope_wire::cm::{self, CommunicationId, Message};
use rdmascope_wire::psn::Psn;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
/// Offset of the attribute ID in a datagram of queue pair 1, and the IDs of messages.
const ATTRIBUTE: usize = 37;
const REJECT: u8 = 0x12;
const DISCONNECT_REQUEST: u8 = 0x15;

fn from(source: IpAddr, message: &Message<'_>) -> Datagram {
    Datagram { source, ..mad(message) }
}

/// Requests a connection without ACK timeout and with unlimited RNR retries. Returns its ID if it
/// is accepted.
fn request_connection(victim: &mut Victim, source: IpAddr, name: CommunicationId) -> Option<ConnectionId> {
    let mut room = Vec::new();
    let Message::Request(right) = request(Psn::default(), &mut room) else { unreachable!() };
    let primary_path = Some(cm::Path { local_ack_timeout: 0, ..cm::Path::default() });
    let req = cm::Request { local_communication_id: name, rnr_retry_count: 7, primary_path, ..right };
    let before: BTreeSet<ConnectionId> = victim.peer.endpoint().connections().collect();
    victim.sent.clear();
    victim.receive(&from(source, &Message::Request(req)));
    let connection = victim.peer.endpoint().connections().find(|connection| !before.contains(connection))?;
    ready(victim, source, name, connection);
    assert_eq!(victim.state(connection), Some(State::Established));
    Some(connection)
}

fn ready(victim: &mut Victim, source: IpAddr, name: CommunicationId, connection: ConnectionId) {
    let ready = cm::ReadyToUse {
        local_communication_id: name,
        remote_communication_id: CommunicationId(connection.0),
        private_data: &[],
    };
    victim.receive(&from(source, &Message::ReadyToUse(ready)));
}

fn name(index: usize) -> CommunicationId {
    CommunicationId(NAME.0 + index as u32)
}

/// Lets one address occupy all connections.
fn full() -> (Victim, Vec<ConnectionId>) {
    let mut victim = Victim::new(None, rc::Config::default(), 1);
    let connections =
        (0..MOST_CONNECTIONS).map(|index| request_connection(&mut victim, THEIRS, name(index)).unwrap());
    let connections = connections.collect();
    victim.events.clear();
    (victim, connections)
}

fn attributes(victim: &Victim) -> Vec<u8> {
    victim.sent.iter().map(|datagram| datagram.transport[ATTRIBUTE]).collect()
}

fn closed(victim: &Victim) -> Vec<(ConnectionId, Closed)> {
    let closed = victim.events.iter().filter_map(Peer::closed);
    closed.map(|(connection, why)| (connection, why.clone())).collect()
}

#[test]
fn longest_silent_connection_is_evicted() {
    let (mut victim, connections) = full();
    // Silence alone ends no connection.
    victim.silence();
    victim.wait(Duration::from_secs(30));
    const SILENT: usize = 7;
    for (index, connection) in connections.iter().enumerate().filter(|(index, _)| *index != SILENT) {
        ready(&mut victim, THEIRS, name(index), *connection);
    }
    victim.wait(Duration::from_millis(29_999));
    assert_eq!(request_connection(&mut victim, THEIRS, name(2000)), None, "not silent for a minute");
    assert_eq!(attributes(&victim), [REJECT]);
    assert_eq!(closed(&victim), []);
    victim.wait(Duration::from_millis(1));
    let taken = request_connection(&mut victim, THEIRS, name(2001)).expect("one of them is evicted");
    assert_eq!(closed(&victim), [(connections[SILENT], Closed::GaveWay)]);
    assert_eq!(attributes(&victim)[0], DISCONNECT_REQUEST);
    assert_eq!(victim.sent[0].destination, THEIRS);
    assert_eq!(
        (victim.state(connections[SILENT]), victim.queue(connections[SILENT]).is_none()),
        (None, true)
    );
    assert_eq!(victim.peer.endpoint().connections().count(), MOST_CONNECTIONS);
    // The others have not been silent long enough.
    assert_eq!(request_connection(&mut victim, THEIRS, name(2002)), None);
    assert_eq!(victim.state(taken), Some(State::Established));
    // The peer does not wait for an answer to the DREQ.
    victim.sent.clear();
    victim.silence();
    assert_eq!(attributes(&victim), [0; 0]);
}

#[test]
fn address_with_all_connections_does_not_block_others() {
    let (mut victim, connections) = full();
    victim.wait(Duration::from_secs(1));
    for (index, connection) in connections.iter().enumerate().skip(1) {
        ready(&mut victim, THEIRS, name(index), *connection);
    }
    let other = request_connection(&mut victim, OTHER, NAME).expect("this address has no connection yet");
    assert_eq!(closed(&victim), [(connections[0], Closed::GaveWay)]);
    assert_eq!(request_connection(&mut victim, OTHER, name(1)), None, "this address has a connection");
    assert_eq!(request_connection(&mut victim, THEIRS, name(2000)), None);
    assert_eq!(victim.state(other), Some(State::Established));
    assert_eq!(victim.peer.endpoint().connections().count(), MOST_CONNECTIONS);
}

/// A connection without an RTU is evicted after the same time as others, even while the REP is
/// being retransmitted.
#[test]
fn connection_without_an_rtu_is_evicted() {
    let mut victim = Victim::new(None, rc::Config::default(), 1);
    let mut room = Vec::new();
    let Message::Request(right) = request(Psn::default(), &mut room) else { unreachable!() };
    for index in 0..MOST_CONNECTIONS {
        let req = cm::Request { local_communication_id: name(index), local_cm_response_timeout: 31, ..right };
        victim.receive(&from(THEIRS, &Message::Request(req)));
    }
    assert_eq!(victim.peer.endpoint().connections().count(), MOST_CONNECTIONS);
    victim.wait(Duration::from_secs(60));
    assert!(request_connection(&mut victim, THEIRS, name(2000)).is_some());
    assert_eq!(closed(&victim).len(), 1);
}
