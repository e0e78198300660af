//! The order of the steps of a replay.

use crate::replay::recording::Recording;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A step of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Connect(usize),
    Call(usize),
    /// Wait for the answer to this call, as the recorded client did before its next one.
    Answer(usize),
    Close(usize),
}

/// The steps in recorded order. A connection without calls is opened right before the next
/// connection, or at the end.
pub(super) fn steps(recording: &Recording) -> VecDeque<Step> {
    let mut ordered: Vec<(u64, Step)> = Vec::new();
    // The order of the first and the last event of each connection.
    let mut spans: Vec<Option<(u64, u64)>> = vec![None; recording.connections.len()];
    for (index, call) in recording.calls.iter().enumerate() {
        let answered = call.answer.order();
        let span = &mut spans[call.connection];
        let (first, last) = span.unwrap_or((call.order, call.order));
        *span = Some((first.min(call.order), last.max(call.order).max(answered.unwrap_or(0))));
        if !call.backward {
            ordered.push((call.order, Step::Call(index)));
            ordered.extend(answered.map(|order| (order, Step::Answer(index))));
        }
    }
    // Connections are opened in recorded order, because a recorded Responder matches the n-th
    // connection with the n-th of the recording.
    let mut next = u64::MAX;
    for (index, span) in spans.iter().enumerate().rev() {
        next = span.map_or(next, |(first, _)| first.min(next));
        ordered.push((next, Step::Connect(index)));
        ordered.push((span.map_or(next, |(_, last)| last), Step::Close(index)));
    }
    // At equal times the order of `Step` decides: connections open first and close last.
    ordered.sort();
    ordered.into_iter().map(|(_, step)| step).collect()
}
