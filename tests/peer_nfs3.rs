//! The judge on sessions between the peer's NFSv3 export and client: they break no rule, over a
//! good network and over a bad one. The dissector confirms the transferred data.

use rdmascope_dissector::transaction::Outcome::Completed;
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::nfs3::{Caller, Export, Job, Limits, Outcome, Task};
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::{End, Network, Pair};
use rdmascope_peer::peer::{self, Peer};
use rdmascope_peer::rpcrdma::{self, Reply};
use rdmascope_peer::time::Instant;
use rdmascope_tests::judged::{findings, is_violation, line, rule};
use rdmascope_tests::pcap::{Capture, Packet, RAW};
use rdmascope_tests::session::run;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::Procedure;

/// A peer whose packets are all captured.
struct Tapped {
    peer: Peer,
    packets: Vec<Packet>,
}

impl Tapped {
    fn new(seed: u64) -> Tapped {
        Tapped { peer: Peer::new(peer::Config::default(), seed), packets: Vec::new() }
    }

    fn take(&mut self, now: Instant, datagram: &Datagram) {
        let number = self.packets.len() as u64 + 1;
        self.packets.push(Packet::of_peer(number, now, datagram));
    }
}

impl End for Tapped {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.take(now, datagram);
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
        self.take(now, &datagram);
        Some(datagram)
    }
}

/// A session that writes, reads, lists (with 200 other files) and removes a file of 300,000 bytes:
/// the capture at the server, and the number of calls. `alter` may change replies; it gets their
/// number.
fn session(network: Network, seed: u64, mut alter: impl FnMut(u64, &mut Reply)) -> (Capture, u64) {
    let mut pair = Pair::new(Tapped::new(seed), Tapped::new(seed + 1), seed);
    pair.network = network;
    assert!(pair.b.peer.listen(20049));
    let a = pair.a.peer.connect(pair.address_a, pair.address_b, 20049).unwrap();
    let b: ConnectionId = loop {
        assert!(pair.step());
        if let Some(peer::Event::Endpoint(endpoint::Event::Connected { connection })) =
            pair.b.peer.poll_event()
        {
            break connection;
        }
    };
    let mut export = Export::new(Limits::default(), 3, Default::default());
    for number in 0..200 {
        export.put(format!("file {number}").as_bytes(), b"", Default::default()).unwrap();
    }
    let (mut caller, mut calls) = (Caller::new(Xid(0x77), 0, 0), 0);
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    let path = b"big".to_vec();
    for job in [
        Job::Write { path: path.clone(), bytes: bytes.clone() },
        Job::Read { path: path.clone() },
        Job::List { path: vec![] },
        Job::Remove { path },
    ] {
        let mut task = Task::new(caller, export.root(), job, 65_536);
        while task.outcome().is_none() {
            if let Some(call) = task.poll() {
                pair.a.peer.call(a, call).unwrap();
            }
            assert!(pair.step());
            while let Some(event) = pair.b.peer.poll_event() {
                if let peer::Event::Rpc { event: rpcrdma::Event::Called(called), .. } = event {
                    calls += 1;
                    let mut reply = export.call(&called.message, Default::default()).unwrap().into();
                    alter(calls, &mut reply);
                    pair.b.peer.reply(b, called.xid, reply).unwrap();
                }
            }
            while let Some(event) = pair.a.peer.poll_event() {
                if let peer::Event::Rpc { event, .. } = event {
                    task.handle(&event);
                }
            }
        }
        let (outcome, next) = task.finish().unwrap();
        caller = next;
        match outcome.unwrap() {
            Outcome::Read(read) => assert_eq!(read, bytes),
            Outcome::Listed(names) => assert_eq!(names.len(), 203),
            Outcome::Written | Outcome::Removed => {}
        }
    }
    pair.a.peer.disconnect(a).unwrap();
    pair.run_to_end();
    (Capture { link: RAW, packets: pair.b.packets }, calls)
}

/// The number of transactions with NFS3_OK; and of those with Read chunks, with Write chunks, and
/// with a used Reply chunk.
fn transactions(capture: &Capture) -> (u64, [u64; 3]) {
    let (mut completed, mut chunks) = (0, [0; 3]);
    for transaction in run(capture).transactions {
        completed += u64::from(transaction.outcome == Completed && transaction.status == Some(0));
        let reads = transaction.call.is_some_and(|call| !call.read_chunks.is_empty());
        let (writes, reply) = transaction.reply.map_or((false, false), |reply| {
            (!reply.write_chunks.is_empty(), reply.procedure == Procedure::Nomsg)
        });
        for (count, has) in chunks.iter_mut().zip([reads, writes, reply]) {
            *count += u64::from(has);
        }
    }
    (completed, chunks)
}

fn violations(capture: &Capture) -> Vec<String> {
    findings(capture).iter().filter(|finding| is_violation(finding)).map(line).collect()
}

#[test]
fn session_over_a_good_network_breaks_no_rule() {
    let (capture, calls) = session(Network::GOOD, 1, |_, _| {});
    assert_eq!(violations(&capture), [""; 0]);
    // 5 WRITEs and 5 READs of 65,536 bytes; READDIRPLUS of 203 names is one reply.
    assert_eq!(transactions(&capture), (calls, [5, 5, 1]));
}

#[test]
fn session_over_a_bad_network_breaks_no_rule() {
    for seed in 1..6 {
        let network = Network { loss: 10, duplication: 10, reordering: 10, corruption: 5, ..Network::GOOD };
        let (capture, calls) = session(network, seed, |_, _| {});
        assert_eq!(violations(&capture), [""; 0], "seed {seed}");
        assert_eq!(transactions(&capture).0, calls, "seed {seed}");
    }
}

// Checks that the judge sees these sessions.
#[test]
fn zero_credit_grant_is_found() {
    let (capture, _) = session(Network::GOOD, 1, |number, reply| {
        if number == 3 {
            reply.edit = Some(Box::new(|header, _| header.credits = 0));
        }
    });
    let found = findings(&capture);
    let rules: Vec<&str> =
        found.iter().filter(|finding| is_violation(finding)).map(|finding| rule(finding).id).collect();
    assert_eq!(rules, ["credit-grant-zero"]);
}
