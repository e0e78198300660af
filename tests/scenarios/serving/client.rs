//! An in-memory client for scenarios of the responder's side: the peer's requester, which makes
//! NFSv3 calls one after the other, with Write chunks and Reply chunks.

use core::time::Duration;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::interceptor::{Forward, Interceptor};
use rdmascope_peer::nfs3::{Caller, Export, Handle, Job, Limits, Task, Time};
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::Pair;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma::{self, OfferLimits};
use rdmascope_peer::scenario::{Outcome, Scenario, Serving};
use rdmascope_peer::time::Instant;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Builder, Error, Procedure};
use std::sync::{Arc, Mutex};

/// The packets in the order in which they were sent.
type Crossed = Arc<Mutex<Vec<(Instant, Datagram)>>>;

struct Tap(Crossed);

impl Interceptor for Tap {
    fn transmit(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        self.0.lock().expect("no holder panicked").push((now, datagram.clone()));
        forward.pass(datagram);
    }
}

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 5 };

/// An error of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Nothing,
    /// Answers each message that it does not accept with RDMA_ERROR.
    Errors,
    /// Answers each of these with ERR_VERS.
    ErrorsOfVersion,
    /// Disconnects after such a message, and reconnects.
    Disconnects,
    /// Disconnects after such a message for good.
    Leaves,
    /// Retransmits the call after such a message.
    Repeats,
    /// Makes a call with the XID of such a message or of a backward call. That is correct, because
    /// XIDs of the two directions are independent.
    SameXid,
}

/// A client that repeatedly lists a directory and reads a file.
struct Client {
    wrong: Wrong,
    /// Whether it supports the reliable-reply draft: an unacceptable reply ends its call.
    is_reliable: bool,
    connection: Option<ConnectionId>,
    root: Handle,
    task: Option<Task>,
    caller: Option<Caller>,
    jobs: u32,
    /// The last call that was sent.
    last: Vec<u8>,
}

impl Client {
    fn new(wrong: Wrong, is_reliable: bool, root: Handle) -> Client {
        let caller = Some(Caller::new(Xid(0x1000), 1000, 1000));
        Client { wrong, is_reliable, connection: None, root, task: None, caller, jobs: 0, last: Vec::new() }
    }

    /// Makes the next call if the previous one has ended.
    fn proceed(&mut self, peer: &mut Peer) {
        let Some(connection) = self.connection else { return };
        if self.task.as_ref().is_some_and(|task| task.outcome().is_some()) {
            self.caller = self.task.take().and_then(Task::finish).map(|(_, caller)| caller);
        }
        if let Some(caller) = self.caller.take() {
            self.jobs += 1;
            let job = match self.jobs % 3 {
                0 => Job::Read { path: b"file".to_vec() },
                1 => Job::List { path: b"long".to_vec() },
                _ => Job::List { path: b"short".to_vec() },
            };
            self.task = Some(Task::new(caller, self.root.clone(), job, 4096));
        }
        if let Some(call) = self.task.as_mut().and_then(Task::poll) {
            self.last.clone_from(&call.message);
            if peer.call(connection, call).is_err() {
                self.task.as_mut().expect("it was polled").fail();
            }
        }
    }

    fn take(&mut self, pair: &mut Pair<Peer>, event: &Event) {
        match event {
            Event::Endpoint(endpoint::Event::Connected { connection }) => self.connection = Some(*connection),
            Event::Endpoint(endpoint::Event::Closed { .. }) => {
                self.connection = None;
                if self.wrong != Wrong::Leaves {
                    pair.a.connect(pair.address_a, pair.address_b, 20049).expect("there is room");
                }
            }
            Event::Rpc { connection, event } => {
                match event {
                    rpcrdma::Event::Discarded { xid, .. } => {
                        self.discarded(&mut pair.a, *connection, *xid);
                        if let (true, Some(task)) = (self.is_reliable, &mut self.task) {
                            task.fail();
                        }
                    }
                    rpcrdma::Event::Called(called) => {
                        self.discarded(&mut pair.a, *connection, Some(called.xid))
                    }
                    _ => {}
                }
                if let Some(task) = &mut self.task {
                    task.handle(event);
                }
            }
            Event::Endpoint(_) => {}
        }
    }

    /// Reacts to a message of the server that the client does not accept.
    fn discarded(&mut self, peer: &mut Peer, connection: ConnectionId, theirs: Option<Xid>) {
        let xid = Xid(u32::from_be_bytes(*self.last.first_chunk().expect("a call has an XID")));
        let mut bytes = Vec::new();
        match self.wrong {
            Wrong::Nothing => return,
            Wrong::Errors | Wrong::ErrorsOfVersion => {
                let mut header = Builder::new(xid, 32, Procedure::Error);
                let version =
                    (self.wrong == Wrong::ErrorsOfVersion).then_some(Error::Version { low: 1, high: 1 });
                header.error = Some(version.unwrap_or(Error::Chunk));
                header.build(&mut bytes);
            }
            Wrong::Repeats => {
                Builder::new(xid, 32, Procedure::Msg).build(&mut bytes);
                bytes.extend(&self.last);
            }
            Wrong::SameXid => {
                let xid = theirs.expect("the message has one");
                Builder::new(xid, 32, Procedure::Msg).build(&mut bytes);
                bytes.extend(xid.0.to_be_bytes());
                bytes.extend(&self.last[4..]);
            }
            Wrong::Disconnects | Wrong::Leaves => return peer.disconnect(connection).expect("it is there"),
        }
        peer.send_raw(connection, bytes).expect("the connection is there");
    }
}

/// Serves a client until the scenario is over.
pub(super) fn run(scenario: &Scenario, wrong: Wrong) -> (Outcome, Vec<(Instant, Datagram)>) {
    run_with(scenario, wrong, None)
}

/// As [`run`], with a client that accepts replies in Read chunks if `reliable_reply` is given.
pub(super) fn run_with(
    scenario: &Scenario,
    wrong: Wrong,
    reliable_reply: Option<OfferLimits>,
) -> (Outcome, Vec<(Instant, Datagram)>) {
    let name = &scenario.name;
    let is_reliable = reliable_reply.is_some();
    let session = rpcrdma::Config { reliable_reply, ..rpcrdma::Config::default() };
    let client = Peer::new(Config { session, ..Config::default() }, 1);
    let mut pair = Pair::new(client, Peer::new(Config::default(), 2), 3);
    let crossed = Crossed::default();
    pair.a.endpoint_mut().intercept(Some(Box::new(Tap(crossed.clone()))));
    pair.b.endpoint_mut().intercept(Some(Box::new(Tap(crossed.clone()))));
    // Calls take some time, which limits their number.
    pair.network.delay = Duration::from_millis(5);
    assert!(pair.b.listen(20049));
    pair.a.connect(pair.address_a, pair.address_b, 20049).expect("there is room");
    let mut export = Export::new(Limits::default(), 0xfeed, NOW);
    export.put(b"file", &[0x61; 10_000], NOW).expect("there is room");
    export.put(b"short/name", b"x", NOW).expect("there is room");
    for number in 0..100 {
        let path = format!("long/a-name-that-is-not-short-{number:03}");
        export.put(path.as_bytes(), b"x", NOW).expect("there is room");
    }
    let mut client = Client::new(wrong, is_reliable, export.root());
    let patience = Duration::from_secs(2);
    let mut serving = Serving::new(scenario.clone(), patience).expect("it is of the responder's side");
    while !serving.is_over() {
        client.proceed(&mut pair.a);
        let until = serving.next_deadline();
        // The client always has a deadline, or the scenario has one.
        if !pair.step() || until.is_some_and(|until| until < pair.now) {
            pair.now =
                pair.now.max(until.unwrap_or_else(|| panic!("{name}: nothing happens, and it is not over")));
        }
        let now = pair.now;
        while let Some(event) = pair.b.poll_event() {
            serving.handle(&pair.b, &event);
            if let Event::Rpc { connection, event: rpcrdma::Event::Called(called) } = &event {
                let reply = export.call(&called.message, NOW).expect("it can be read");
                // The connection may be closed by now.
                let _ = serving.answer(&mut pair.b, now, *connection, called, reply.into());
            }
        }
        serving.advance(&mut pair.b, now);
        while let Some(event) = pair.a.poll_event() {
            client.take(&mut pair, &event);
        }
        assert!(now.0 < 40_000_000_000, "{name} does not end: {:?}", serving.outcome());
    }
    let outcome = serving.outcome().expect("it is over");
    let crossed = core::mem::take(&mut *crossed.lock().expect("no holder panicked"));
    (outcome, crossed)
}
