//! A recorded session, replayed to a target with other grants: fewer slots, no delegation, other
//! stateids.

use super::{Results, replay, sample};
use rdmascope_peer::pair::Network;
use rdmascope_peer::replay::{Answer, Call, How, Recording, Subject, Timing, Verdict};
use rdmascope_wire::Layer;
use rdmascope_wire::rpc;
use rdmascope_wire::xdr::Reader;
use std::collections::{BTreeMap, BTreeSet};

const CREATE_SESSION: u32 = 43;
const SEQUENCE: u32 = 53;
const DELEGRETURN: u32 = 8;
/// Offset of the first operation's results in a reply without a tag: after the RPC header, status,
/// tag, number of results, operation and its status.
const RESULTS: usize = 24 + 3 * 4 + 2 * 4;

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(u32::MAX, u32::from_be_bytes)
}

fn put(bytes: &mut [u8], at: usize, numbers: &[u32]) {
    for (number, at) in numbers.iter().zip((at..).step_by(4)) {
        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
}

/// Returns the first operation of a COMPOUND and the offset of its arguments.
fn first_operation(call: &Call) -> Option<(u32, usize)> {
    let mut reader = Reader::new(&call.message, Layer::Rpc);
    let header = rpc::Call::parse(&mut reader).ok()?;
    let at = reader.position();
    let tag = word(&call.message, at) as usize;
    let at = at + 4 + tag.next_multiple_of(4) + 8;
    (header.version == 4 && header.procedure == 1).then(|| (word(&call.message, at), at + 4))
}

/// The same session with a target that grants at most `slots`. The sequence IDs of each slot begin
/// at 1 without gaps.
fn with_slots(mut recording: Recording, slots: u32) -> Recording {
    let mut last: BTreeMap<(Vec<u8>, u32), u32> = BTreeMap::new();
    for call in recording.calls.iter_mut().filter(|call| !call.backward) {
        let Some((operation, at)) = first_operation(call) else { continue };
        let Answer::Reply { stream, .. } = &mut call.answer else { continue };
        if operation == CREATE_SESSION && word(stream, RESULTS - 4) == 0 {
            // After the session ID, sequence ID, flags and five words of the channel.
            let granted = word(stream, RESULTS + 44).min(slots);
            put(stream, RESULTS + 44, &[granted]);
        }
        if operation == SEQUENCE {
            let session = call.message[at..at + 16].to_vec();
            let slot = word(&call.message, at + 20).min(slots - 1);
            let highest = word(&call.message, at + 24).min(slots - 1);
            let sequence = last.entry((session, slot)).or_default();
            *sequence += 1;
            put(&mut call.message, at + 16, &[*sequence, slot, highest]);
            let [highest, target] = [RESULTS + 24, RESULTS + 28].map(|at| word(stream, at).min(slots - 1));
            put(stream, RESULTS + 16, &[*sequence, slot, highest, target]);
        }
    }
    recording
}

fn skipped(results: &Results) -> Vec<usize> {
    let calls = results.outcomes.iter().filter_map(|outcome| match (outcome.subject, &outcome.verdict) {
        (Subject::Call(call), Verdict::Skipped(why)) => {
            assert!(
                why.starts_with("stateid 0x") && why.ends_with("the target gave none in its place"),
                "{why}"
            );
            Some(call)
        }
        _ => None,
    });
    calls.collect()
}

/// Checks that the target knew every call that it received.
fn all_known(results: &Results) {
    for answered in &results.answered {
        assert!(matches!(answered.how, How::AsRecorded | How::Backward(_)), "{answered:?}");
    }
}

fn granted(results: &Results) -> BTreeSet<&'static str> {
    let compared = results.outcomes.iter().filter_map(|outcome| match &outcome.verdict {
        Verdict::Agrees(comparison) => Some(&comparison.granted),
        _ => None,
    });
    compared.flatten().map(|difference| difference.field).collect()
}

#[test]
fn calls_use_only_granted_slots() {
    let recording = sample("nfs4.2-mtu4096-large-io");
    let slots = recording.calls.iter().filter_map(|call| match first_operation(call)? {
        (SEQUENCE, at) => Some(word(&call.message, at + 20)),
        _ => None,
    });
    assert!(slots.max() > Some(2), "the sample has calls on several slots");
    // A single slot makes the slot of each call certain.
    let target = with_slots(recording.clone(), 1);
    let (results, _) = replay(recording, target, Timing::Fastest, Network::GOOD);
    assert_eq!((results.differences(), skipped(&results)), (vec![], vec![]));
    all_known(&results);
    assert_eq!(granted(&results), ["ca_maxrequests", "sr_highest_slotid", "sr_target_highest_slotid"].into());
}

/// Returns the stateids of the delegations that calls return.
fn delegations(recording: &Recording) -> BTreeSet<Vec<u8>> {
    let calls = recording.calls.iter().filter(|call| !call.backward);
    let tails = calls.flat_map(|call| (0..call.message.len()).step_by(4).map(move |at| &call.message[at..]));
    // The seqid is 1, because the sample renews no delegation.
    let found = tails.filter(|bytes| {
        bytes.len() >= 20 && word(bytes, 0) == DELEGRETURN && word(bytes, 4) == 1 && word(bytes, 8) != 0
    });
    // Other occurrences of this number precede bytes that no reply contains.
    found.map(|bytes| bytes[4..20].to_vec()).collect()
}

/// The same session with a client that uses no delegation, and the calls that it omits. `granted`:
/// whether the target grants the delegations nevertheless.
fn without_delegations(mut recording: Recording, granted: bool) -> (Recording, BTreeSet<usize>) {
    let delegations = delegations(&recording);
    let mut given = BTreeSet::new();
    for call in &mut recording.calls {
        let Answer::Reply { stream, .. } = &mut call.answer else { continue };
        let is_one = |at: &usize| {
            matches!(word(stream, *at), 1 | 2)
                && stream.get(at + 4..at + 20).is_some_and(|stateid| delegations.contains(stateid))
        };
        let Some(at) = (0..stream.len()).step_by(4).find(is_one) else { continue };
        assert_eq!(word(stream, at), 1, "a read delegation");
        given.insert(stream[at + 8..at + 20].to_vec());
        // After the type: the stateid, `recall`, and an ACE of three words and a name.
        let name = at + 4 + 16 + 4 + 12;
        let end = name + 4 + (word(stream, name) as usize).next_multiple_of(4);
        if !granted {
            stream.splice(at..end, [0; 4]);
        }
    }
    assert!(!given.is_empty(), "the sample has delegations");
    let names = |call: &Call| given.iter().any(|one| call.message.windows(12).any(|bytes| bytes == one));
    let calls = recording.calls.iter().enumerate().filter(|(_, call)| !call.backward && names(call));
    let passed: BTreeSet<usize> = calls.map(|(index, _)| index).collect();
    let mut index = 0;
    recording.calls.retain(|call| {
        index += 1;
        !call.backward && !passed.contains(&(index - 1))
    });
    (with_slots(recording, u32::MAX), passed)
}

#[test]
fn calls_about_missing_delegations_are_skipped() {
    for name in ["nfs4.1-backchannel-recall", "nfs4.1-basic"] {
        let recording = sample(name);
        let (target, passed) = without_delegations(recording.clone(), false);
        let (results, _) = replay(recording, target, Timing::Fastest, Network::GOOD);
        assert_eq!(results.differences(), Vec::<&_>::new(), "{name}");
        assert_eq!(skipped(&results).into_iter().collect::<BTreeSet<_>>(), passed, "{name}");
        all_known(&results);
        assert_eq!(granted(&results), ["delegation_type"].into(), "{name}");
    }
}

#[test]
fn unknown_stateid_is_not_sent() {
    let mut recording = sample("nfs4.1-basic");
    let delegation = delegations(&recording).pop_last().expect("the sample has some");
    let index = recording
        .calls
        .iter()
        .rposition(|call| call.message.windows(16).any(|bytes| bytes == delegation) && !call.backward);
    let index = index.expect("a call names it");
    let mut target = recording.clone();
    target.calls.remove(index);
    let message = &mut recording.calls[index].message;
    let at = message.windows(16).rposition(|bytes| bytes == delegation).expect("it is there");
    message[at + 4] ^= 0x40;
    let (results, _) = replay(recording, with_slots(target, u32::MAX), Timing::Fastest, Network::GOOD);
    assert_eq!((results.differences(), skipped(&results)), (vec![], vec![index]));
    all_known(&results);
}

/// No recorded call returns a delegation that only the target grants, so the replay returns each
/// one.
#[test]
fn unrecorded_delegations_are_returned() {
    let sample = sample("nfs4.1-backchannel-recall");
    let (recording, _) = without_delegations(sample.clone(), false);
    let (target, _) = without_delegations(sample, true);
    let differs = recording.calls.iter().zip(&target.calls).filter(|(one, other)| one.answer != other.answer);
    let delegations = differs.count();
    let (results, _) = replay(recording, target, Timing::Fastest, Network::GOOD);
    assert_eq!((results.differences(), skipped(&results)), (vec![], vec![]));
    assert_eq!(granted(&results), ["delegation_type"].into());
    // The target answers them with SYSTEM_ERR, because its recording lacks such calls. It knows all
    // others.
    let unknown = results.answered.iter().filter(|answered| answered.how == How::Unknown);
    assert!(delegations > 0);
    assert_eq!(unknown.count(), delegations);
}

/// The offset of the delegation's type in the reply to SEQUENCE, PUTFH, OPEN, ACCESS: an OPEN with
/// CLAIM_FH, which grants no delegation.
fn opened_by_handle(stream: &[u8]) -> Option<usize> {
    const OPEN: u32 = 18;
    const ACCESS: u32 = 3;
    // The results of SEQUENCE; PUTFH with its status.
    let open = RESULTS + 36 + 8;
    // Number and status, stateid, change_info4, rflags; a bitmap.
    let attributes = open + 8 + 16 + 20 + 4;
    let delegation = attributes + 4 + 4 * word(stream, attributes) as usize;
    let is_it =
        word(stream, open) == OPEN && [0, ACCESS] == [delegation, delegation + 4].map(|at| word(stream, at));
    is_it.then_some(delegation)
}

/// A file can be opened by its handle, which is then not in the reply.
#[test]
fn delegation_of_open_by_handle_is_returned() {
    let recording = sample("nfs4.1-basic");
    let mut target = recording.clone();
    let replies = target.calls.iter_mut().filter_map(|call| match &mut call.answer {
        Answer::Reply { stream, .. } => Some((opened_by_handle(stream)?, stream)),
        _ => None,
    });
    let mut granted = 0;
    for (at, stream) in replies {
        granted += 1;
        // OPEN_DELEGATE_READ: stateid, `recall`, and an ACE of three words and an empty name.
        let delegation = [1, 1, 77, 77, granted, 0, 0, 0, 0, 0];
        stream.splice(at..at + 4, delegation.iter().flat_map(|word: &u32| word.to_be_bytes()));
    }
    assert!(granted > 0, "the sample opens a file by its handle");
    let (results, _) = replay(recording, with_slots(target, u32::MAX), Timing::Fastest, Network::GOOD);
    assert_eq!(results.differences(), Vec::<&_>::new());
    // The recording of the target lacks the calls that return them.
    let returned = results.answered.iter().filter(|answered| answered.how == How::Unknown);
    assert_eq!(returned.count(), granted as usize);
}
