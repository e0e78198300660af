//! The order in which a recording is made again.

use crate::replay::recording::Recording;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// A step of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Connect(usize),
    Call(usize),
    /// Wait until this call is answered, as the recorded client did before it made the next one.
    Answer(usize),
    Close(usize),
}

/// The steps, in the order of the recording. A connection without calls is made right before the
/// next one, or at the end.
pub(super) fn steps(recording: &Recording) -> VecDeque<Step> {
    let mut ordered: Vec<(u64, Step)> = Vec::new();
    // Of each connection, the first and the last thing that happened on it.
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
    // Connections are made in their order: who answers takes the n-th one for the n-th of the
    // recording.
    let mut next = u64::MAX;
    for (index, span) in spans.iter().enumerate().rev() {
        next = span.map_or(next, |(first, _)| first.min(next));
        ordered.push((next, Step::Connect(index)));
        ordered.push((span.map_or(next, |(_, last)| last), Step::Close(index)));
    }
    // At the same time, a connection is made before and closed after all else, as the order of
    // `Step` is.
    ordered.sort();
    ordered.into_iter().map(|(_, step)| step).collect()
}
