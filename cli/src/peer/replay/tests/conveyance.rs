//! Responders that return the recorded bytes but convey them differently.

use super::super::lines::{REPLAY_END, REPLAYED, Replayed, Shown};
use super::*;
use rdmascope_peer::replay::Conveyed;
use rdmascope_peer::rpcrdma::{Conveyance, Invalidated, Mechanism, Returned};
use rdmascope_present::json::Json;
use rdmascope_present::text::Style;
use serde_json::{Value, json};

/// A line as other programs read it.
fn parsed(line: &dyn Json) -> Value {
    serde_json::from_str(&line.to_json()).expect("it is JSON")
}

/// Finds the first call of a sample whose reply satisfies `is_it`.
fn find(recording: &Recording, is_it: impl Fn(&Call, &[u8], &[Vec<u8>], &Conveyance) -> bool) -> usize {
    let found = recording.calls.iter().position(|call| match &call.answer {
        Answer::Reply { stream, items, conveyance, .. } => is_it(call, stream, items, conveyance),
        _ => false,
    });
    found.expect("the sample has one")
}

fn parts(call: &mut Call) -> (&mut Vec<u8>, &mut Vec<Vec<u8>>, &mut Conveyance) {
    match &mut call.answer {
        Answer::Reply { stream, items, conveyance, .. } => (stream, items, conveyance),
        other => panic!("{other:?}"),
    }
}

/// Returns the outcome of the call when `change` alters its reply.
fn altered(recorded: &Recording, number: usize, change: impl FnOnce(&mut Call)) -> Outcome {
    let mut live = recorded.clone();
    change(&mut live.calls[number]);
    let (results, _) = replay(recorded.clone(), live, Timing::Fastest, Network::GOOD);
    let others = results.outcomes.iter().filter(|outcome| outcome.subject != Subject::Call(number));
    for other in others {
        let is_same = match &other.verdict {
            Verdict::Agrees(comparison) => comparison.conveyance.is_empty(),
            _ => false,
        };
        assert!(is_same, "{other:?}");
    }
    let own = results.outcomes.iter().find(|outcome| outcome.subject == Subject::Call(number));
    own.expect("the call has an outcome").clone()
}

/// Returns the differences in conveyance, and whether they count. Nothing else may differ.
fn conveyed(outcome: &Outcome) -> (bool, Vec<(String, bool, &'static str)>) {
    let (Verdict::Agrees(comparison) | Verdict::Differs(comparison)) = &outcome.verdict else {
        panic!("{outcome:?}")
    };
    assert_eq!((&comparison.differences[..], comparison.own), (&[][..], 0), "{outcome:?}");
    let row = |it: &Conveyed| (it.aspect.to_string(), it.counts, it.section);
    (outcome.verdict.is_difference(), comparison.conveyance.iter().map(row).collect())
}

/// Finds an NFSv3 READ that returned a number of bytes in `length`, as the last of its results.
fn read_of(recording: &Recording, length: core::ops::Range<usize>) -> usize {
    find(recording, |call, _, items, _| {
        let procedure = call.message.get(20..24).and_then(|word| word.first_chunk().copied());
        procedure.map(u32::from_be_bytes) == Some(6)
            && items.first().is_some_and(|item| length.contains(&item.len()))
    })
}

/// Returns a session whose server sent a short reply inline although the call had a Reply chunk,
/// the index of that call, and the original session, in which a Linux server used the Reply chunk.
fn inline_beside_a_reply_chunk() -> (Recording, usize, Recording) {
    let as_it_was = sample("nfs3-basic");
    let number = find(&as_it_was, |_, stream, _, conveyance| !conveyance.is_inline() && stream.len() < 500);
    let mut recorded = as_it_was.clone();
    let call = &mut recorded.calls[number];
    let segments = call.shape.reply.as_ref().expect("it has one").len();
    let (_, _, conveyance) = parts(call);
    conveyance.mechanism = Mechanism::Send;
    conveyance.reply = Some(Returned::Segments(vec![0; segments]));
    (recorded, number, as_it_was)
}

#[test]
fn samples_cover_each_form_of_conveyance() {
    let recording = sample("nfs3-basic");
    let has = |is_it: fn(&Conveyance) -> bool| {
        find(&recording, |_, _, _, conveyance| is_it(conveyance));
    };
    has(|it| it.mechanism == Mechanism::ReplyChunk);
    has(|it| it.invalidated.is_some() && it.invalidated != Some(Invalidated::Foreign));
    has(|it| matches!(it.writes.first(), Some(Returned::Segments(lengths)) if lengths[0] > 0));
    has(|it| it.writes.is_empty() && it.reply.is_none() && it.invalidated.is_none());
}

#[test]
fn inline_data_is_a_difference() {
    let recorded = sample("nfs3-basic");
    let number = read_of(&recorded, 1..2000);
    let outcome = altered(&recorded, number, |call| {
        let segments = call.shape.writes[0].len();
        let (stream, items, conveyance) = parts(call);
        let item = core::mem::take(&mut items[0]);
        stream.extend(&item);
        stream.resize(stream.len().next_multiple_of(4), 0);
        conveyance.writes = vec![Returned::Segments(vec![0; segments])];
    });
    let (differs, found) = conveyed(&outcome);
    assert!(differs);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].1, found[0].2), (true, "rfc8166/4.3.2"));
}

#[test]
fn reply_chunk_for_a_short_reply_may_differ() {
    let (recorded, number, as_it_was) = inline_beside_a_reply_chunk();
    let answer = as_it_was.calls[number].answer.clone();
    let outcome = altered(&recorded, number, |call| call.answer = answer);
    let note = ("rdma_proc".to_owned(), false, "rfc8166/4.3.3");
    assert_eq!(conveyed(&outcome), (false, vec![note]));
    // The difference is shown and counted.
    let read = read_sample("nfs3-basic");
    let line = Replayed::new(&outcome, &read);
    let shown = Shown(&line, Style::new(false)).to_string();
    for part in [
        "conveyance: rdma_proc: recorded RDMA_MSG, ",
        "now RDMA_NOMSG (rfc8166/4.3.3; may differ)",
        ": agrees",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = parsed(&REPLAYED.of(&line));
    assert_eq!((&json["verdict"], &json["differences"]), (&json!("agrees"), &json!([])));
    let [note] = &json["may_differ"].as_array().expect("it is a list")[..] else { panic!("{json}") };
    assert_eq!((&note["kind"], &note["field"]), (&json!("conveyance"), &json!("rdma_proc")));
    assert_eq!((&note["live"], &note["section"]), (&json!("RDMA_NOMSG"), &json!("rfc8166/4.3.3")));
    let mut summary = Summary::default();
    summary.add(&outcome);
    let json = parsed(&REPLAY_END.of(&summary));
    assert_eq!((&json["conveyance_may_differ"], &json["conveyance_differ"]), (&json!(1), &json!(0)));
    assert!(summary.is_agreement());
}

/// Splits the Write chunk of a READ into two segments, the first with half of the data. Returns the
/// recording and the index of the call.
fn in_two_segments() -> (Recording, usize) {
    let mut recorded = sample("nfs3-basic");
    let number = read_of(&recorded, 8..usize::MAX);
    let call = &mut recorded.calls[number];
    let room: u32 = call.shape.writes[0].iter().sum();
    let (_, items, conveyance) = parts(call);
    let length = items[0].len() as u32;
    let half = length / 2 / 4 * 4;
    conveyance.writes = vec![Returned::Segments(vec![half, length - half])];
    call.shape.writes = vec![vec![half, room.max(2 * length)]];
    (recorded, number)
}

#[test]
fn invalidated_handle_may_differ() {
    let (mut recorded, number) = in_two_segments();
    parts(&mut recorded.calls[number]).2.invalidated = Some(Invalidated::Write(0, 0));
    let other = |memory| move |call: &mut Call| parts(call).2.invalidated = memory;
    let note = || (false, vec![("invalidated handle".to_owned(), false, "rfc8797/4.1")]);
    let outcome = altered(&recorded, number, other(Some(Invalidated::Write(0, 1))));
    assert_eq!(conveyed(&outcome), note());
    let line = Replayed::new(&outcome, &read_sample("nfs3-basic"));
    let shown = Shown(&line, Style::new(false)).to_string();
    let expected =
        "recorded segment 1 of Write chunk 1, now segment 2 of Write chunk 1 (rfc8797/4.1; may differ)";
    assert!(shown.contains(expected), "{shown}");
    assert_eq!(conveyed(&altered(&recorded, number, other(None))), note());
}

#[test]
fn unfilled_first_segment_is_a_difference() {
    let (recorded, number) = in_two_segments();
    let outcome = altered(&recorded, number, |call| {
        let (_, items, conveyance) = parts(call);
        conveyance.writes = vec![Returned::Segments(vec![0, items[0].len() as u32])];
    });
    let counts = ("Write chunk 1".to_owned(), true, "rfc8166/3.4.6");
    assert_eq!(conveyed(&outcome), (true, vec![counts]));
    let line = Replayed::new(&outcome, &read_sample("nfs3-basic"));
    let json = parsed(&REPLAYED.of(&line));
    assert_eq!((&json["verdict"], &json["may_differ"]), (&json!("differs"), &json!([])));
    assert_eq!(json["differences"][0]["kind"], "conveyance");
    let mut summary = Summary::default();
    summary.add(&outcome);
    assert_eq!(parsed(&REPLAY_END.of(&summary))["conveyance_differ"], 1);
    assert!(!summary.is_agreement());
}

#[test]
fn missing_reply_chunk_is_a_difference() {
    let (recorded, number, _) = inline_beside_a_reply_chunk();
    let outcome = altered(&recorded, number, |call| parts(call).2.reply = Some(Returned::Absent));
    let counts = ("Reply chunk".to_owned(), true, "rfc8166/4.3.3");
    assert_eq!(conveyed(&outcome), (true, vec![counts]));
}

#[test]
fn error_instead_of_a_reply_is_a_difference() {
    let recorded = sample("nfs3-basic");
    let last = recorded.calls.len() - 1;
    let error = |call: &mut Call| {
        let order = call.answer.order().expect("it was answered");
        call.answer = Answer::Error { order, error: Error::Chunk };
    };
    let outcome = altered(&recorded, last, error);
    let counts = |section| (true, vec![("rdma_proc".to_owned(), true, section)]);
    assert_eq!(conveyed(&outcome), counts("rfc8166/4.5"));
    // The reverse case.
    let mut refused = recorded.clone();
    error(&mut refused.calls[last]);
    let answer = recorded.calls[last].answer.clone();
    let outcome = altered(&refused, last, |call| call.answer = answer);
    assert_eq!(conveyed(&outcome), counts("rfc8166/4.5"));
}
