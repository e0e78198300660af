//! NFS version 4: COMPOUND of minor versions 0 (RFC 7531), 1 (RFC 5662) and 2 (RFC 7863, RFC 8276),
//! and its callbacks.
//!
//! Later minor versions add operations and never change one, so the walk does not depend on the
//! minor version. A wrong length of one operation would lose all that follow, so every operation is
//! walked to its end.

mod arguments;
mod callback;
mod operations;
mod parts;
mod results;
#[cfg(test)]
mod tests;

use super::rows::{OperationKind, Operations, Results::Void, nothing, operations};
use super::state::Facts;
use super::walk::Walk;
use super::{Details, Operation, Outcome, Payload, Text, add, keep};
pub use callback::Callback;
pub use operations::Nfs4;
use rdmascope_wire::Stop;

operations! {
    /// Procedures of NFS version 4 except COMPOUND, whose operations are [`Nfs4`].
    pub enum Nfs4Procedure {
        from "RFC 7531", None => {
            0 Null "NULL" principal Nothing, nothing, Void;
        }
    }
}

operations! {
    /// Procedures of the callback program except CB_COMPOUND, whose operations are [`Callback`].
    pub enum CallbackProcedure {
        from "RFC 7531", None => {
            0 Null "CB_NULL" principal Nothing, nothing, Void;
        }
    }
}

/// The number of OP_ILLEGAL and OP_CB_ILLEGAL.
const ILLEGAL: u32 = 10044;

/// Parses the arguments of COMPOUND.
pub(super) fn call(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    details.tag = keep(&mut details.arena, payload.opaque()?);
    details.minor_version = Some(payload.u32()?);
    arguments_of_all::<Nfs4>(payload, details)
}

/// Parses the results of COMPOUND.
pub(super) fn reply(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    results_of_all::<Nfs4>(payload, details)
}

/// Parses the arguments of CB_COMPOUND.
pub(super) fn callback_call(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    details.tag = keep(&mut details.arena, payload.opaque()?);
    details.minor_version = Some(payload.u32()?);
    // callback_ident, which only minor version 0 uses.
    payload.skip(4)?;
    arguments_of_all::<Callback>(payload, details)
}

/// Parses the results of CB_COMPOUND.
pub(super) fn callback_reply(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    results_of_all::<Callback>(payload, details)
}

/// Walks `argarray`. Every element has at least one word, so the stream bounds the loop.
#[inline]
fn arguments_of_all<O: Operations>(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    let count = payload.u32()?;
    details.called = Some(count);
    details.operations.reserve((count as usize).min(payload.reader().rest().len() / 4).min(32));
    for _ in 0..count {
        let code = payload.u32()?;
        let found = O::of(code);
        let kind = found.map_or(OperationKind::Unknown(code), Into::into);
        let mut unkept = None;
        let Details { operations, arena, backchannel, session, entries, states, .. } = &mut *details;
        let (operation, place) = add(operations, &mut unkept, kind);
        let facts = Facts::new(states, place);
        let mut walk = Walk::new(payload, operation, arena, backchannel, session, entries, facts);
        match found {
            Some(found) => (found.row().arguments)(&mut walk)?,
            // The length of its arguments is unknown, so the operations after it cannot be found.
            None => return Err(walk.no_such_arm()),
        }
    }
    Ok(())
}

/// Walks the status, the tag and `resarray`.
#[inline]
fn results_of_all<O: Operations>(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    details.status = Some(payload.u32()?);
    let tag = payload.opaque()?;
    if details.called.is_some() {
        details.returns_tag = Some(details.bytes(details.tag) == &tag[..tag.len().min(Text::LONGEST)]);
    }
    if details.tag.is_empty() {
        details.tag = keep(&mut details.arena, tag);
    }
    let count = payload.u32()?;
    details.answered = Some(count);
    let count = count as usize;
    let outcome = (0..count).try_for_each(|index| result::<O>(index, count, payload, details));
    // Those of the results were added after those of all arguments.
    details.states.sort_by_key(|fact| fact.operation);
    outcome
}

/// Walks the result at `index` of `count` results.
#[inline]
fn result<O: Operations>(
    index: usize,
    count: usize,
    payload: &mut Payload<'_>,
    details: &mut Details,
) -> Outcome {
    let code = payload.u32()?;
    let status_at = payload.reader().position();
    let found = O::of(code);
    let mut unkept = None;
    // The server answers an operation that it does not know with OP_ILLEGAL (RFC 7530, section
    // 16.2).
    let kind = found.map_or(OperationKind::Unknown(code), Into::into);
    let called = |operation: &Operation| operation.kind == kind || code == ILLEGAL;
    let Details { operations, arena, backchannel, session, entries, states, other_result, .. } = details;
    let (operation, place) = match operations.get(index) {
        Some(operation) if called(operation) => (&mut operations[index], Some(index)),
        Some(_) => {
            other_result.get_or_insert((index as u32, kind));
            (unkept.insert(Operation::new(kind)), None)
        }
        None => add(operations, &mut unkept, kind),
    };
    let facts = Facts::new(states, place);
    let mut walk = Walk::new(payload, operation, arena, backchannel, session, entries, facts);
    match found {
        Some(found) => found.row().results(&mut walk)?,
        None => unknown(&mut walk)?,
    }
    // The first failing operation is the last result (RFC 7530, section 16.2), so a failure
    // followed by another result is malformed.
    if operation.status != Some(0) && index + 1 < count {
        return Err(Stop::malformed(payload.reader().layer(), status_at));
    }
    Ok(())
}

/// Parses the result of an operation without a row: its status, which ends the COMPOUND unless it
/// is success.
fn unknown(walk: &mut Walk<'_, '_>) -> Result<(), Stop> {
    let number = walk.no_such_arm();
    if walk.status()? { Err(number) } else { Ok(()) }
}
