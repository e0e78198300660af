//! Every sample, replayed in memory against a Responder that answers from the same sample.

mod conveyance;
mod granted;

use super::lines::Summary;
use crate::input::{Input, listen};
use crate::peer::recording::{self, Read};
use rdmascope_analysis::filter::TransactionFilter;
use rdmascope_dissector::{engine, event as dissector, frame};
use rdmascope_peer::endpoint::ConnectionId;
use rdmascope_peer::pair::{Network, Pair};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::replay::{
    Answer, Answered, Call, How, Options, Outcome, Recording, Replayer, Responder, Subject, Timing, Verdict,
};
use rdmascope_peer::rpcrdma;
use rdmascope_peer::time::Instant;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::Error;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SAMPLES: [(&str, usize, usize); 7] = [
    // Numbers of forward and backward calls, from samples/MANIFEST.
    ("connect-rejected", 0, 0),
    ("nfs3-basic", 265, 0),
    ("nfs3-lossy", 19, 0),
    ("nfs4.1-backchannel-recall", 36, 2),
    ("nfs4.1-basic", 239, 0),
    ("nfs4.2-basic", 239, 0),
    ("nfs4.2-mtu4096-large-io", 59, 1),
];

fn sample(name: &str) -> Recording {
    Arc::unwrap_or_clone(read_sample(name).recording)
}

fn read_sample(name: &str) -> Read {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(format!("{name}.pcap"));
    let input = Input::file(path, frame::Config::default().port);
    let read = recording::read(&input, &TransactionFilter::default(), 1 << 30);
    let (read, ending) = read.expect("it is a capture");
    recording::check(&read, &ending, false).expect("it can be replayed");
    read
}

/// The outcomes and answers of the two ends.
struct Results {
    outcomes: Vec<Outcome>,
    answered: Vec<Answered>,
}

impl Results {
    fn differences(&self) -> Vec<&Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.verdict.is_difference()).collect()
    }
}

/// Replays `calls` against `replies`.
fn replay(calls: Recording, replies: Recording, timing: Timing, network: Network) -> (Results, Instant) {
    replay_until(calls, replies, timing, network, usize::MAX)
}

/// As [`replay`], but the target closes its connections after a number of outcomes.
fn replay_until(
    calls: Recording,
    replies: Recording,
    timing: Timing,
    network: Network,
    mut hang_up: usize,
) -> (Results, Instant) {
    let (calls, replies) = (Arc::new(calls), Arc::new(replies));
    let config = |session: rpcrdma::Config| Config { session, accept_by_hand: true, ..Config::default() };
    let peers = [config(calls.requester()), config(replies.responder())];
    let [a, b] = peers.map(|config| Peer::new(config, 1));
    let mut pair = Pair::new(a, b, 7);
    pair.network = network;
    assert!(pair.b.listen(20049));
    let options = Options {
        local: pair.address_a,
        remote: pair.address_b,
        port: 20049,
        timing,
        timeout: Duration::from_secs(60),
        linger: Duration::from_secs(1),
        first_xid: Xid(0x1000),
        handles: Vec::new(),
        fault: None,
    };
    let (mut replayer, mut responder) = (Replayer::new(calls, options), Responder::new(replies));
    let mut results = Results { outcomes: Vec::new(), answered: Vec::new() };
    let mut open: Vec<ConnectionId> = Vec::new();
    for _ in 0..1_000_000 {
        let now = pair.now;
        while let Some(event) = pair.b.poll_event() {
            results.answered.extend(responder.handle(&mut pair.b, &event));
        }
        while let Some(event) = pair.a.poll_event() {
            replayer.handle(&mut pair.a, now, &event);
            if let Event::Rpc { connection, .. } = event
                && !open.contains(&connection)
            {
                open.push(connection);
            }
        }
        replayer.advance(&mut pair.a, now);
        results.outcomes.extend(core::iter::from_fn(|| replayer.poll_outcome()));
        if results.outcomes.len() >= hang_up {
            hang_up = usize::MAX;
            let connections: Vec<ConnectionId> = pair.b.endpoint().connections().collect();
            for connection in connections {
                pair.b.disconnect(connection).expect("it is open");
            }
        }
        if replayer.is_over() {
            return (results, now);
        }
        // The replayer may wait for a deadline that the pair does not have.
        if !pair.step() || replayer.next_deadline().is_some_and(|due| due < pair.now) {
            pair.now = pair.now.max(replayer.next_deadline().expect("it waits for something"));
        }
    }
    panic!("no end: {:?}", replayer.next_deadline());
}

#[test]
fn every_sample_agrees_with_itself() {
    for (name, forward, backward) in SAMPLES {
        let recording = sample(name);
        let count = |is_backward| recording.calls.iter().filter(|call| call.backward == is_backward).count();
        assert_eq!((count(false), count(true)), (forward, backward), "{name}");
        let (results, _) = replay(recording.clone(), recording, Timing::Fastest, Network::GOOD);
        let calls = |outcome: &&Outcome| matches!(outcome.subject, Subject::Call(_));
        assert_eq!(results.outcomes.iter().filter(calls).count(), forward + backward, "{name}");
        for outcome in &results.outcomes {
            let agrees = match &outcome.verdict {
                Verdict::Agrees(comparison) => {
                    comparison.own == 0
                        && comparison.understood
                        && comparison.granted.is_empty()
                        && comparison.conveyance.is_empty()
                }
                _ => false,
            };
            assert!(agrees, "{name}: {outcome:?}");
        }
        assert_eq!(results.answered.len(), forward + backward, "{name}");
        for answered in &results.answered {
            let is_right = match &answered.how {
                How::AsRecorded => true,
                How::Backward(comparison) => comparison.differences.is_empty(),
                _ => false,
            };
            assert!(is_right, "{name}: {answered:?}");
        }
    }
}

#[test]
fn altered_byte_is_one_difference() {
    for (name, ..) in SAMPLES.iter().filter(|(_, forward, _)| *forward > 0) {
        let recording = sample(name);
        // Changes the last byte of some replies in turn; the field there may be one that may
        // differ.
        let last = recording.calls.len();
        for number in (0..last).step_by(1 + last / 5) {
            let mut altered = recording.clone();
            if altered.calls[number].backward {
                continue;
            }
            let Answer::Reply { stream, .. } = &mut altered.calls[number].answer else { continue };
            // The accept_stat, after XID, msg_type, reply_stat and verifier.
            let Some(byte) = stream.get_mut(27) else { continue };
            *byte ^= 0x11;
            let (results, _) = replay(recording.clone(), altered, Timing::Fastest, Network::GOOD);
            let differences = results.differences();
            let [outcome] = differences[..] else { panic!("{name} {number}: {differences:?}") };
            assert_eq!(outcome.subject, Subject::Call(number), "{name}");
        }
    }
}

/// Returns the file handles and session ID prefixes that replies of a sample supply, as decoded by
/// the dissector, and the file handles that only calls contain.
fn named(name: &str) -> (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(format!("{name}.pcap"));
    let input = Input::file(path, frame::Config::default().port);
    let (mut brought, mut asked) = (BTreeSet::new(), BTreeSet::new());
    let read = listen(&input, engine::Config::default(), |event, _| {
        if let dissector::Event::Transaction(transaction) = event {
            let details = &transaction.details;
            for operation in &details.operations {
                brought.extend(operation.result_file_handle.map(|handle| details.bytes(handle).to_vec()));
                asked.extend(operation.file_handle.map(|handle| details.bytes(handle).to_vec()));
            }
            // Stateids of this server begin like its session IDs.
            brought.extend(details.session.created.map(|(session, _)| session[..12].to_vec()));
        }
        Ok(())
    });
    read.expect("it is a capture");
    asked.retain(|handle| !brought.contains(handle));
    (brought, asked)
}

/// The name that another server would use.
fn other_name(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| byte ^ 0x5a).collect()
}

/// Renames everything as another server would, with names of the same length.
fn foreign(mut recording: Recording, names: &BTreeSet<Vec<u8>>) -> Recording {
    let change = |bytes: &mut [u8]| {
        let mut at = 0;
        while at < bytes.len() {
            let found = names.iter().find(|name| bytes[at..].starts_with(name));
            let Some(name) = found else {
                at += 4;
                continue;
            };
            bytes[at..at + name.len()].copy_from_slice(&other_name(name));
            at += name.len().next_multiple_of(4);
        }
    };
    for call in &mut recording.calls {
        // File data do not change.
        let end = call.items.first().map_or(call.message.len(), |item| item.start);
        change(&mut call.message[..end]);
        if let Answer::Reply { stream, .. } = &mut call.answer {
            change(stream);
        }
    }
    recording
}

#[test]
fn handles_of_another_server_are_used_in_later_calls() {
    for (name, forward, backward) in SAMPLES.into_iter().filter(|(_, forward, _)| *forward > 0) {
        let recording = sample(name);
        let (names, roots) = named(name);
        assert!(!names.is_empty(), "{name}");
        let other = foreign(recording.clone(), &names);
        let (results, _) = replay(recording.clone(), other.clone(), Timing::Fastest, Network::GOOD);
        assert_eq!(results.differences(), Vec::<&Outcome>::new(), "{name}");
        let own = results
            .outcomes
            .iter()
            .filter(|outcome| matches!(&outcome.verdict, Verdict::Agrees(comparison) if comparison.own > 0));
        assert!(own.count() > 0, "{name}");
        assert!(results.answered.iter().all(|answered| answered.how != How::Unknown), "{name}");
        assert_eq!(results.answered.len(), forward + backward);
        // The control: the replay fails if one name is not replaced in any reply.
        if let Some(root) = roots.first() {
            let lost = foreign(other, &BTreeSet::from([root.clone()]));
            let (results, _) = replay(recording, lost, Timing::Fastest, Network::GOOD);
            assert!(results.answered.iter().any(|answered| answered.how == How::Unknown), "{name}");
            let unknown = results.outcomes.iter().filter(|outcome| !outcome.unknown.is_empty());
            assert!(unknown.count() > 0, "{name}");
        }
    }
}

#[test]
fn recorded_timing_lasts_as_long_as_the_recording() {
    let recording = sample("nfs4.1-backchannel-recall");
    let times: Vec<u64> =
        recording.calls.iter().filter(|call| !call.backward).map(|call| call.time).collect();
    let span = times.last().unwrap() - times[0];
    assert!(span > 1_000_000_000);
    let (results, now) = replay(recording.clone(), recording.clone(), Timing::Recorded, Network::GOOD);
    assert!(results.differences().is_empty());
    assert!(now.0 > span && now.0 < span + 5_000_000_000, "{now:?} {span}");
    let (results, fast) = replay(recording.clone(), recording, Timing::Fastest, Network::GOOD);
    assert!(results.differences().is_empty());
    assert!(fast.0 < span, "{fast:?}");
}

#[test]
fn bad_network_causes_no_differences() {
    let network = Network { loss: 20, duplication: 20, corruption: 5, reordering: 20, ..Network::GOOD };
    let recording = sample("nfs3-basic");
    let (results, _) = replay(recording.clone(), recording, Timing::Fastest, network);
    assert_eq!(results.differences(), Vec::<&Outcome>::new());
    assert_eq!(results.outcomes.len(), 266);
}

#[test]
fn missing_replies_and_callbacks_are_reported() {
    // The responder's recording lacks one reply: the replay reports that after its timeout.
    let recording = sample("nfs4.1-backchannel-recall");
    let mut silent = recording.clone();
    let number = silent.calls.iter().rposition(|call| !call.backward).unwrap();
    silent.calls[number].answer = Answer::Nothing;
    let (results, now) = replay(recording.clone(), silent.clone(), Timing::Fastest, Network::GOOD);
    let [outcome] = results.differences()[..] else { panic!("{:?}", results.differences()) };
    assert_eq!(outcome.subject, Subject::Call(number));
    assert!(now.0 >= 60_000_000_000);
    // If both recordings lack it, nothing differs.
    let (results, now) = replay(silent.clone(), silent, Timing::Fastest, Network::GOOD);
    assert!(results.differences().is_empty());
    assert!(now.0 < 60_000_000_000);
    assert_eq!(results.outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Unanswered).count(), 1);
    // A callback that the responder does not make is reported, but is no difference. The same holds
    // for an unrecorded callback.
    let mut quiet = recording.clone();
    quiet.calls.retain(|call| !call.backward);
    let (results, _) = replay(recording.clone(), quiet.clone(), Timing::Fastest, Network::GOOD);
    let notes = |results: &Results| {
        let is_note = |outcome: &&Outcome| matches!(outcome.verdict, Verdict::NotCompared(_));
        results.outcomes.iter().filter(is_note).count()
    };
    assert_eq!((results.differences().len(), notes(&results)), (0, 2));
    let (results, _) = replay(quiet, recording, Timing::Fastest, Network::GOOD);
    assert_eq!((results.differences().len(), notes(&results)), (0, 2));
    let extra = |outcome: &&Outcome| matches!(outcome.subject, Subject::Extra(..));
    assert_eq!(results.outcomes.iter().filter(extra).count(), 2);
    // The replay answers it like a client with one slot.
    let backward = results.answered.iter().filter_map(|answered| match &answered.how {
        How::Backward(comparison) => Some(comparison),
        _ => None,
    });
    let fields: Vec<Vec<&str>> = backward
        .map(|comparison| comparison.granted.iter().map(|difference| difference.field).collect())
        .collect();
    assert_eq!(fields, [["csr_highest_slotid", "csr_target_highest_slotid"]; 2]);
}

/// Appends one recording to another; the second begins `later` nanoseconds after the first.
fn append(first: &Recording, then: &Recording, later: u64) -> Recording {
    let mut both = first.clone();
    let order = |call: &Call| call.order.max(call.answer.order().unwrap_or(0));
    let last = first.calls.iter().map(order).max().unwrap_or(0);
    both.connections.extend(then.connections.iter().cloned());
    both.calls.extend(then.calls.iter().cloned().map(|mut call| {
        call.connection += first.connections.len();
        (call.order, call.time) = (call.order + last, call.time + later);
        match &mut call.answer {
            Answer::Reply { order, .. } | Answer::Error { order, .. } => *order += last,
            Answer::Unknown { order } => *order = order.map(|order| order + last),
            Answer::Nothing => {}
        }
        call
    }));
    both
}

#[test]
fn connections_are_made_in_recorded_order() {
    let (accepted, rejected) = (sample("nfs3-lossy"), sample("connect-rejected"));
    let both = append(&accepted, &rejected, 0);
    let orders = [&both, &append(&rejected, &accepted, 0), &append(&both, &accepted, 0)];
    for recording in orders.map(Recording::clone) {
        let connections = recording.connections.len();
        let (results, _) = replay(recording.clone(), recording, Timing::Fastest, Network::GOOD);
        assert_eq!(results.differences(), Vec::<&Outcome>::new());
        let made = results.outcomes.iter().filter_map(|outcome| match outcome.subject {
            Subject::Connection(index) => Some(index),
            _ => None,
        });
        assert_eq!(made.collect::<Vec<_>>(), (0..connections).collect::<Vec<_>>());
    }
}

#[test]
fn connection_closed_by_the_target_is_not_awaited() {
    // The replay lingers for the missing callbacks, and then waits only for the time of the next
    // call.
    let recording = sample("nfs4.1-backchannel-recall");
    let twice = append(&recording, &recording, 60_000_000_000);
    let mut quiet = twice.clone();
    quiet.calls.retain(|call| !call.backward);
    let first = 1 + recording.calls.iter().filter(|call| !call.backward).count();
    let (results, now) = replay_until(twice.clone(), quiet, Timing::Recorded, Network::GOOD, first);
    assert_eq!(results.differences(), Vec::<&Outcome>::new());
    assert_eq!(results.outcomes.len(), twice.calls.len() + 2);
    assert!(now.0 > 60_000_000_000, "{now:?}");
}

#[test]
fn call_that_exceeds_the_memory_limit_is_not_sent() {
    let recording = sample("nfs3-lossy");
    let mut vast = recording.clone();
    vast.calls[3].shape.writes.push(vec![0xffff_fff0]);
    let (results, _) = replay(vast, recording, Timing::Fastest, Network::GOOD);
    let [outcome] = results.differences()[..] else { panic!("{:?}", results.differences()) };
    let why = "cannot register memory: too much memory is registered".to_owned();
    assert_eq!((outcome.subject, &outcome.verdict), (Subject::Call(3), &Verdict::NotSent(why)));
}
