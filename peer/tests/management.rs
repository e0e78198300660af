//! Connection management between two endpoints outside the usual sequence.

use rdmascope_peer::cm::{self, Closed, Input, State};
use rdmascope_peer::endpoint::{
    CommandError, Config, Connect, ConnectionId, Endpoint, Event, MOST_CONNECTIONS, MOST_DATAGRAMS,
    MOST_LISTENERS,
};
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::Pair;
use rdmascope_peer::time::Instant;
use std::time::Duration;

fn pair(config: Config) -> Pair {
    let mut pair = Pair::new(Endpoint::new(config.clone(), 1), Endpoint::new(config, 2), 3);
    assert!(pair.b.listen(20049));
    pair
}

fn connect(pair: &mut Pair) -> (ConnectionId, ConnectionId) {
    let ours = pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
    pair.run();
    let Some(Event::Requested { connection, .. }) = pair.b.poll_event() else { panic!() };
    (ours, connection)
}

fn established() -> (Pair, ConnectionId, ConnectionId) {
    let mut pair = pair(Config::default());
    let (a, b) = connect(&mut pair);
    pair.b.accept(b, b"").unwrap();
    pair.run();
    assert_eq!((pair.a.state(a), pair.b.state(b)), (Some(State::Established), Some(State::Established)));
    events(&mut pair.a);
    events(&mut pair.b);
    (pair, a, b)
}

fn events(endpoint: &mut Endpoint) -> Vec<Event> {
    std::iter::from_fn(|| endpoint.poll_event()).collect()
}

/// The attribute IDs and datagrams that an endpoint sends.
fn attributes(endpoint: &mut Endpoint, now: Instant) -> Vec<(u8, Datagram)> {
    std::iter::from_fn(|| endpoint.poll_transmit(now)).map(|sent| (sent.transport[37], sent)).collect()
}

#[test]
fn consumer_reject_closes_both_sides() {
    let mut pair = pair(Config::default());
    let (a, b) = connect(&mut pair);
    pair.b.reject(b, 28, b"no").unwrap();
    pair.run();
    let [Event::Closed { why: Closed::Rejected { reason: 28, private_data }, .. }] = &events(&mut pair.a)[..]
    else {
        panic!()
    };
    assert_eq!((&private_data[..2], private_data.len()), (&b"no"[..], 148));
    assert_eq!(events(&mut pair.b), [Event::Closed { connection: b, why: Closed::LocalReject }]);
    assert_eq!(pair.a.state(a), Some(State::TimeWait));
    pair.run_to_end();
    assert_eq!(pair.a.state(a), None);
}

#[test]
fn unanswered_request_is_closed_after_the_retries() {
    let cm = cm::Config { response_timeout: 10, most_retries: 3, ..cm::Config::default() };
    let mut pair = pair(Config { cm, ..Config::default() });
    pair.network.loss = 1000;
    let connection = pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
    pair.run_to_end();
    assert_eq!(events(&mut pair.a), [Event::Closed { connection, why: Closed::NoAnswer }]);
    // A REQ, three retransmissions, and a REJ.
    assert_eq!(pair.sent, 5);
    // 4.2 ms for each, and TimeWait.
    assert_eq!(pair.now, Instant(4 * (4096 << 10)).plus(Duration::from_secs(2)));
}

#[test]
fn mra_extends_the_request_timeout() {
    let cm =
        cm::Config { response_timeout: 10, most_retries: 3, service_timeout: 18, ..cm::Config::default() };
    for acknowledge in [true, false] {
        let mut pair = pair(Config { cm: cm.clone(), ..Config::default() });
        let ours = pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
        assert!(pair.step());
        let Some(Event::Requested { connection, .. }) = pair.b.poll_event() else { panic!() };
        if acknowledge {
            pair.b.acknowledge(connection).unwrap();
        }
        // Runs until a second is idle, which is longer than four response timeouts and shorter than
        // the service timeout.
        pair.run();
        let is_waiting = pair.a.state(ours) == Some(State::RequestAcknowledged);
        assert_eq!(is_waiting, acknowledge);
        assert_eq!(pair.b.accept(connection, b"").is_ok(), acknowledge);
    }
}

#[test]
fn repeated_messages_get_the_same_answer() {
    let mut pair = pair(Config::default());
    let a = pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
    let now = Instant(5);
    let [(0x10, request)] = &attributes(&mut pair.a, now)[..] else { panic!() };
    pair.b.handle(now, request);
    pair.b.handle(now, request);
    let [Event::Requested { connection: b, .. }] = events(&mut pair.b)[..] else { panic!("one request") };
    pair.b.accept(b, b"").unwrap();
    let [(0x13, reply)] = &attributes(&mut pair.b, now)[..] else { panic!() };
    pair.b.handle(now, request);
    let [(0x13, again)] = &attributes(&mut pair.b, now)[..] else { panic!() };
    assert_eq!(reply.transport[20..], again.transport[20..]);
    pair.a.handle(now, reply);
    let [(0x14, ready)] = &attributes(&mut pair.a, now)[..] else { panic!() };
    pair.a.handle(now, again);
    let [(0x14, _)] = &attributes(&mut pair.a, now)[..] else { panic!() };
    for _ in 0..2 {
        pair.b.handle(now, ready);
    }
    assert_eq!(events(&mut pair.b), [Event::Connected { connection: b }]);
    pair.a.disconnect(a).unwrap();
    let [(0x15, end)] = &attributes(&mut pair.a, now)[..] else { panic!() };
    for _ in 0..2 {
        pair.b.handle(now, end);
        assert!(matches!(attributes(&mut pair.b, now)[..], [(0x16, _)]));
    }
    assert_eq!(events(&mut pair.b), [Event::Closed { connection: b, why: Closed::Remote }]);
    // Much later, after the connection is removed.
    pair.b.handle_time(Instant(1 << 40));
    assert_eq!(pair.b.connections().count(), 0);
    pair.b.handle(now, end);
    assert!(matches!(attributes(&mut pair.b, now)[..], [(0x16, _)]));
}

#[test]
fn answers_to_repeated_requests_are_bounded() {
    let mut pair = pair(Config::default());
    pair.a.connect(Connect::new(pair.address_a, pair.address_b, 20049)).unwrap();
    let now = Instant(5);
    let [(0x10, request)] = &attributes(&mut pair.a, now)[..] else { panic!() };
    pair.b.handle(now, request);
    let [Event::Requested { connection, .. }] = events(&mut pair.b)[..] else { panic!("one request") };
    pair.b.accept(connection, b"").unwrap();
    for _ in 0..MOST_DATAGRAMS + 100 {
        pair.b.handle(now, request);
    }
    let replies = std::iter::from_fn(|| pair.b.poll_transmit(now)).count();
    assert_eq!(replies, MOST_DATAGRAMS);
}

#[test]
fn simultaneous_disconnects_close_both_sides() {
    let (mut pair, a, b) = established();
    pair.a.disconnect(a).unwrap();
    pair.b.disconnect(b).unwrap();
    pair.run_to_end();
    assert_eq!(events(&mut pair.a), [Event::Closed { connection: a, why: Closed::Local }]);
    assert_eq!(events(&mut pair.b), [Event::Closed { connection: b, why: Closed::Local }]);
}

#[test]
fn commands_in_the_wrong_state_are_errors() {
    let (mut pair, a, b) = established();
    assert_eq!(pair.b.accept(b, b""), Err(CommandError::State));
    assert_eq!(pair.a.confirm(a), Err(CommandError::State));
    assert_eq!(pair.a.reject(a, 28, b""), Err(CommandError::State));
    assert_eq!(pair.a.disconnect(ConnectionId(!a.0)), Err(CommandError::UnknownConnection));
    assert_eq!(pair.a.state(a), Some(State::Established));
    // An unexpected DREP is reported and ignored.
    let mut drep = vec![1, 7, 2, 3];
    drep.resize(16, 0);
    drep.extend([0, 0x16]);
    drep.resize(24, 0);
    drep.extend(b.0.to_be_bytes());
    drep.extend(a.0.to_be_bytes());
    drep.resize(256, 0);
    pair.b.transmit_raw_mad(pair.address_b, pair.address_a, &drep);
    pair.run();
    let unexpected =
        Event::Unexpected { connection: Some(a), input: Input::DisconnectReply, state: State::Established };
    assert_eq!(events(&mut pair.a), [unexpected]);
    assert_eq!(pair.a.state(a), Some(State::Established));
}

#[test]
fn manual_confirmation_establishes_the_connection() {
    let mut pair = pair(Config { confirm_by_hand: true, ..Config::default() });
    let (a, b) = connect(&mut pair);
    pair.b.accept(b, b"").unwrap();
    while pair.now < Instant(9_000_000_000) && pair.step() {}
    // The REP was repeated several times.
    assert_eq!(pair.a.state(a), Some(State::ReplyReceived));
    assert_eq!(pair.b.state(b), Some(State::ReplySent));
    pair.a.confirm(a).unwrap();
    pair.run();
    assert_eq!(pair.b.state(b), Some(State::Established));
}

#[test]
fn tables_are_bounded() {
    let mut endpoint = Endpoint::new(Config::default(), 1);
    let connect = Connect::new("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap(), 20049);
    for _ in 0..MOST_CONNECTIONS {
        endpoint.connect(connect.clone()).unwrap();
    }
    assert_eq!(endpoint.connect(connect.clone()), Err(CommandError::TooMany));
    let other = Connect { local: "192.0.2.1".parse().unwrap(), ..connect.clone() };
    let mut endpoint = Endpoint::new(Config::default(), 1);
    assert_eq!(endpoint.connect(other), Err(CommandError::Addresses));
    let long = Connect { private_data: vec![0; 57], ..connect };
    assert_eq!(endpoint.connect(long), Err(CommandError::PrivateData));
    let listening = (0..1000).filter(|port| endpoint.listen(*port)).count();
    assert_eq!(listening, MOST_LISTENERS);
}
