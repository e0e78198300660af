//! Finds calls on one file that were outstanding together: the size in their replies depends on the
//! order in which the Responder executed them.

use crate::replay::fields::{self, Kind};
use crate::replay::recording::{Call, Recording};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Operations that may change the size of a file.
const CHANGING: [&str; 8] =
    ["WRITE", "SETATTR", "ALLOCATE", "DEALLOCATE", "COPY", "CLONE", "WRITE_SAME", "LAYOUTCOMMIT"];

/// A call on a file.
#[derive(Clone, Copy)]
struct Span {
    call: usize,
    from: u64,
    to: u64,
    changes: bool,
}

/// For each call, whether another call on the same file was outstanding with it and one of both
/// changes the file.
pub(super) fn calls(recording: &Recording) -> Vec<bool> {
    let mut found = vec![false; recording.calls.len()];
    let mut files: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
    for (index, call) in recording.calls.iter().enumerate().filter(|(_, call)| !call.backward) {
        if let Some((file, span)) = span(index, call) {
            files.entry(file).or_default().push(span);
        }
    }
    for spans in files.values_mut() {
        spans.sort_by_key(|span| span.from);
        // The end of the latest earlier call, and of the latest one that changes the file.
        let (mut any, mut changing) = (0, 0);
        for span in spans.iter() {
            found[span.call] |= span.from < changing || span.changes && span.from < any;
            any = any.max(span.to);
            changing = changing.max(if span.changes { span.to } else { 0 });
        }
        // The start of the earliest later call, and of the earliest one that changes the file.
        let (mut any, mut changing) = (u64::MAX, u64::MAX);
        for span in spans.iter().rev() {
            found[span.call] |= changing < span.to || span.changes && any < span.to;
            any = any.min(span.from);
            changing = changing.min(if span.changes { span.from } else { u64::MAX });
        }
    }
    found
}

/// The first file that a call names, and the interval in which it is outstanding.
fn span(index: usize, call: &Call) -> Option<(Vec<u8>, Span)> {
    let (fields, _) = fields::of_call(&call.message);
    let file = fields.list.iter().find(|field| field.kind == Kind::Handle)?;
    let file = file.bytes(&call.message, &[]).to_vec();
    let names = fields.list.iter().filter_map(|field| field.operation);
    let changes = names.into_iter().any(|(_, name)| CHANGING.contains(&name));
    let to = call.answer.order().unwrap_or(u64::MAX);
    Some((file, Span { call: index, from: call.order, to, changes }))
}
