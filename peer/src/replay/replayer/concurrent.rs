//! Calls on one file that were outstanding together: the size in their replies depends on which one
//! the Responder did first.

use crate::replay::fields::{self, Kind};
use crate::replay::recording::{Call, Recording};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Operations after which a file may have another size.
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

/// Of each call whether the recording has another one on the same file meanwhile, and one of both
/// changes it.
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
        // When the latest reply comes to a call before, and to one that changes the file.
        let (mut any, mut changing) = (0, 0);
        for span in spans.iter() {
            found[span.call] |= span.from < changing || span.changes && span.from < any;
            any = any.max(span.to);
            changing = changing.max(if span.changes { span.to } else { 0 });
        }
        // When the first call after it is made, and the first that changes the file.
        let (mut any, mut changing) = (u64::MAX, u64::MAX);
        for span in spans.iter().rev() {
            found[span.call] |= changing < span.to || span.changes && any < span.to;
            any = any.min(span.from);
            changing = changing.min(if span.changes { span.from } else { u64::MAX });
        }
    }
    found
}

/// The first file that a call names, and when it is outstanding.
fn span(index: usize, call: &Call) -> Option<(Vec<u8>, Span)> {
    let (fields, _) = fields::of_call(&call.message);
    let file = fields.list.iter().find(|field| field.kind == Kind::Handle)?;
    let file = file.bytes(&call.message, &[]).to_vec();
    let names = fields.list.iter().filter_map(|field| field.operation);
    let changes = names.into_iter().any(|(_, name)| CHANGING.contains(&name));
    let to = call.answer.order().unwrap_or(u64::MAX);
    Some((file, Span { call: index, from: call.order, to, changes }))
}
