//! TCP handshakes of iWARP clients: answered, refused, and without an answer (RFC 9293, section 3.5).

use super::iwarp::{ACK, RST, SYN, Wire, start};
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observe, Observed};
use rdmascope_testkit::world::{CLIENT, SERVER};

const SECOND: i64 = 1_000_000_000;
const PORTS: [u16; 2] = [40_000, 20_049];

/// The connections, and the segments of handshakes: `1 #2 Reset`.
fn run(wire: &Wire) -> (Vec<Connection>, Vec<String>) {
    let (mut connections, mut steps) = (Vec::new(), Vec::new());
    wire.handle(Config { observe: Observe::Events, ..Config::default() }, &mut |event| match event {
        Event::Connection(connection) => connections.push(connection.clone()),
        Event::Observation(observation) => {
            if let Observed::Handshake(it) = observation.kind {
                assert_eq!(it.from == observation.requester, it.from as usize == CLIENT);
                steps.push(format!("{} #{} {:?}", observation.connection.0, it.seen.frame, it.step));
            }
        }
        _ => {}
    });
    (connections, steps)
}

/// The states of the connections, and the segments of handshakes.
fn states(wire: &Wire) -> (Vec<State>, Vec<String>) {
    let (connections, steps) = run(wire);
    (connections.iter().map(|connection| connection.state).collect(), steps)
}

/// Sends a SYN.
fn ask(wire: &mut Wire) {
    wire.segment(CLIENT, SYN, b"");
}

/// Sends the same SYN again after 1 s.
fn ask_again(wire: &mut Wire) {
    wire.now += SECOND;
    wire.next[CLIENT] = wire.next[CLIENT].wrapping_sub(1);
    ask(wire);
}

#[test]
fn a_refused_syn_is_a_connection() {
    let mut wire = Wire::new(PORTS);
    ask(&mut wire);
    wire.segment(SERVER, RST | ACK, b"");
    let (connections, steps) = run(&wire);
    let [connection] = &connections[..] else { panic!("{connections:?}") };
    assert_eq!(steps, ["1 #1 Syn", "1 #2 Reset"]);
    assert_eq!((connection.state, connection.port), (State::Refused, Some(20_049)));
    assert!(connection.is_iwarp && connection.roles_known);
    assert_eq!(connection.last.since(connection.first), 1_000);
    let ends = [&connection.requester, &connection.responder];
    assert_eq!(ends.map(|end| end.tcp_port), PORTS.map(Some));
    assert_eq!(ends.map(|end| end.first_frames.reject), [None, Some(2)]);
    assert_eq!(ends.map(|end| end.sent.packets), [0, 0]);
    // A RST that acknowledges something else answers nothing.
    let mut other = Wire::new(PORTS);
    ask(&mut other);
    other.next[CLIENT] += 1;
    other.segment(SERVER, RST | ACK, b"");
    assert_eq!(states(&other), (vec![], vec![]));
}

/// A client asks again from another port. Copies of both segments follow each other.
#[test]
fn each_attempt_is_a_connection() {
    let mut wire = Wire::new(PORTS);
    for port in 40_000..40_003 {
        wire.ports[CLIENT] = port;
        wire.now += SECOND;
        ask(&mut wire);
        wire.next[CLIENT] = wire.next[CLIENT].wrapping_sub(1);
        ask(&mut wire);
        wire.segment(SERVER, RST | ACK, b"");
        wire.segment(SERVER, RST | ACK, b"");
    }
    let (states, steps) = states(&wire);
    assert_eq!(states, [State::Refused; 3]);
    assert_eq!(
        steps,
        ["1 #1 Syn", "1 #3 Reset", "2 #5 Syn", "2 #7 Reset", "3 #9 Syn", "3 #11 Reset"],
        "the first of two copies counts"
    );
}

#[test]
fn a_syn_without_an_answer_is_a_connection() {
    let mut wire = Wire::new(PORTS);
    ask(&mut wire);
    assert_eq!(states(&wire), (vec![], vec![]), "an answer may follow");
    ask_again(&mut wire);
    ask_again(&mut wire);
    assert_eq!(
        states(&wire),
        (vec![State::Requested], ["1 #1 Syn", "1 #2 Syn", "1 #3 Syn"].map(String::from).to_vec())
    );
    // The ports are used for another attempt.
    let mut two = wire;
    two.next[CLIENT] = two.next[CLIENT].wrapping_add(500);
    ask(&mut two);
    ask_again(&mut two);
    let (states, steps) = states(&two);
    assert_eq!(states, [State::Requested; 2]);
    assert_eq!(steps[3..], ["2 #4 Syn", "2 #5 Syn"]);
}

/// The answer to a SYN that was sent again leads to a usual connection. Its packets count from the
/// MPA Request on.
#[test]
fn a_late_answer_continues_the_connection() {
    let connect = |mut wire: Wire| {
        wire.segment(SERVER, SYN | ACK, b"");
        wire.segment(CLIENT, ACK, b"");
        wire.segment(CLIENT, ACK, &start(CLIENT, 0, 1, b""));
        wire.segment(SERVER, ACK, &start(SERVER, 0, 1, b""));
        run(&wire)
    };
    let mut once = Wire::new(PORTS);
    ask(&mut once);
    let (expected, steps) = connect(once);
    assert!(steps.is_empty(), "{steps:?}");
    let mut twice = Wire::new(PORTS);
    ask(&mut twice);
    ask_again(&mut twice);
    let (connections, steps) = connect(twice);
    assert_eq!(steps, ["1 #1 Syn", "1 #2 Syn", "1 #4 Ack"]);
    for found in [&expected, &connections] {
        let [connection] = &found[..] else { panic!("{found:?}") };
        assert_eq!(connection.state, State::Open);
        assert_eq!([&connection.requester, &connection.responder].map(|end| end.sent.packets), [1, 1]);
    }
}

/// Other ports are those of other services, until a client sends an MPA Request to them.
#[test]
fn a_known_port_counts() {
    let refused = |mut wire: Wire| {
        wire.ports = [50_000, 7_777];
        ask(&mut wire);
        wire.segment(SERVER, RST | ACK, b"");
        states(&wire).0
    };
    assert_eq!(refused(Wire::new(PORTS)), []);
    let known = Wire::connected([40_000, 7_777], [&[], &[]]);
    assert_eq!(refused(known), [State::Refused, State::Open]);
}

/// Any number of SYNs takes a bounded amount of memory, and hides no later attempt.
#[test]
fn many_syns_hide_no_later_attempt() {
    let mut wire = Wire::new(PORTS);
    for port in 1..1_000 {
        wire.ports[CLIENT] = port;
        ask(&mut wire);
    }
    ask_again(&mut wire);
    assert_eq!(states(&wire).0, [State::Requested]);
}

/// The capture has no answer to the first SYN: the client asks again from another port.
#[test]
fn a_later_syn_shows_that_the_first_had_no_answer() {
    let mut wire = Wire::new(PORTS);
    ask(&mut wire);
    wire.ports[CLIENT] = 40_001;
    ask(&mut wire);
    assert_eq!(states(&wire).0, [], "a client may open several connections at once");
    wire.ports[CLIENT] = 40_002;
    wire.now += SECOND;
    ask(&mut wire);
    assert_eq!(states(&wire).1, ["1 #1 Syn"]);
    // A segment of the client follows the answer, which the capture may lack.
    let mut answered = Wire::new(PORTS);
    ask(&mut answered);
    answered.segment(CLIENT, ACK, b"");
    answered.ports[CLIENT] = 40_001;
    answered.now += SECOND;
    ask(&mut answered);
    assert_eq!(states(&answered).0, []);
}

/// After an attempt in vain, the capture shows which one had an answer, even if it lacks the data.
#[test]
fn an_answer_after_attempts_in_vain_is_seen() {
    let mut wire = Wire::new(PORTS);
    ask(&mut wire);
    wire.segment(SERVER, RST | ACK, b"");
    wire.ports[CLIENT] = 40_001;
    ask(&mut wire);
    wire.segment(SERVER, SYN | ACK, b"");
    wire.segment(CLIENT, ACK, b"");
    let (states, steps) = states(&wire);
    assert_eq!(states, [State::Refused, State::Requested]);
    assert_eq!(steps[2..], ["2 #3 Syn", "2 #5 Ack"]);
}

/// A client that sends its SYN again has not received the answer.
#[test]
fn an_answer_that_does_not_arrive_is_none() {
    let mut wire = Wire::new(PORTS);
    ask(&mut wire);
    for _ in 0..2 {
        wire.segment(SERVER, SYN | ACK, b"");
        wire.next[SERVER] -= 1;
        ask_again(&mut wire);
    }
    wire.segment(CLIENT, RST | ACK, b"");
    let (states, steps) = states(&wire);
    assert_eq!(
        (states, steps),
        (vec![State::Requested], ["1 #1 Syn", "1 #3 Syn", "1 #5 Syn"].map(String::from).to_vec())
    );
}
