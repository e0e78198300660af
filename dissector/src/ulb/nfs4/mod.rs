//! NFS version 4: COMPOUND of minor versions 0 (RFC 7531), 1 (RFC 5662) and 2 (RFC 7863, RFC 8276), and its callbacks.
//!
//! Later minor versions add operations and never change one, so the minor version does not steer the walk. One operation that
//! is skipped wrongly loses all that follow, so every one is walked to its end.

mod arguments;
mod callback;
mod parts;
mod results;
#[cfg(test)]
mod tests;

use super::walk::Walk;
use super::{Details, Operation, Outcome, Payload, add, keep};
use rdmascope_wire::Stop;

/// Procedures of the NFS program, version 4, by number.
pub(super) const PROCEDURES: [&str; 2] = ["NULL", "COMPOUND"];
/// Procedures of the callback program by number.
pub(super) const CALLBACK_PROCEDURES: [&str; 2] = ["CB_NULL", "CB_COMPOUND"];

/// OP_ILLEGAL and OP_CB_ILLEGAL.
const ILLEGAL: u32 = 10044;
const NFS4ERR_DENIED: u32 = 10010;
const NFS4ERR_CLID_INUSE: u32 = 10017;
const NFS4ERR_TOOSMALL: u32 = 10005;
const NFS4ERR_LAYOUTTRYLATER: u32 = 10058;
const NFS4ERR_OFFLOAD_NO_REQS: u32 = 10094;

/// Operations by number; 0 to 2 are not used.
const OPERATIONS: [&str; 76] = [
    "",
    "",
    "",
    "ACCESS",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "DELEGPURGE",
    "DELEGRETURN",
    "GETATTR",
    "GETFH",
    "LINK",
    "LOCK",
    "LOCKT",
    "LOCKU",
    "LOOKUP",
    "LOOKUPP",
    "NVERIFY",
    "OPEN",
    "OPENATTR",
    "OPEN_CONFIRM",
    "OPEN_DOWNGRADE",
    "PUTFH",
    "PUTPUBFH",
    "PUTROOTFH",
    "READ",
    "READDIR",
    "READLINK",
    "REMOVE",
    "RENAME",
    "RENEW",
    "RESTOREFH",
    "SAVEFH",
    "SECINFO",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "VERIFY",
    "WRITE",
    "RELEASE_LOCKOWNER",
    "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION",
    "EXCHANGE_ID",
    "CREATE_SESSION",
    "DESTROY_SESSION",
    "FREE_STATEID",
    "GET_DIR_DELEGATION",
    "GETDEVICEINFO",
    "GETDEVICELIST",
    "LAYOUTCOMMIT",
    "LAYOUTGET",
    "LAYOUTRETURN",
    "SECINFO_NO_NAME",
    "SEQUENCE",
    "SET_SSV",
    "TEST_STATEID",
    "WANT_DELEGATION",
    "DESTROY_CLIENTID",
    "RECLAIM_COMPLETE",
    "ALLOCATE",
    "COPY",
    "COPY_NOTIFY",
    "DEALLOCATE",
    "IO_ADVISE",
    "LAYOUTERROR",
    "LAYOUTSTATS",
    "OFFLOAD_CANCEL",
    "OFFLOAD_STATUS",
    "READ_PLUS",
    "SEEK",
    "WRITE_SAME",
    "CLONE",
    "GETXATTR",
    "SETXATTR",
    "LISTXATTRS",
    "REMOVEXATTR",
];

/// Callback operations by number; 0 to 2 are not used.
const CALLBACK_OPERATIONS: [&str; 16] = [
    "",
    "",
    "",
    "CB_GETATTR",
    "CB_RECALL",
    "CB_LAYOUTRECALL",
    "CB_NOTIFY",
    "CB_PUSH_DELEG",
    "CB_RECALL_ANY",
    "CB_RECALLABLE_OBJ_AVAIL",
    "CB_RECALL_SLOT",
    "CB_SEQUENCE",
    "CB_WANTS_CANCELLED",
    "CB_NOTIFY_LOCK",
    "CB_NOTIFY_DEVICEID",
    "CB_OFFLOAD",
];

/// The arguments of COMPOUND.
pub(super) fn call(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    details.tag = keep(&mut details.arena, payload.opaque()?);
    details.minor_version = Some(payload.u32()?);
    arguments_of_all(payload, details, &OPERATIONS, "ILLEGAL", arguments::arguments)
}

/// The results of COMPOUND.
pub(super) fn reply(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    results_of_all(payload, details, &OPERATIONS, "ILLEGAL", results::results)
}

/// The arguments of CB_COMPOUND.
pub(super) fn callback_call(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    details.tag = keep(&mut details.arena, payload.opaque()?);
    details.minor_version = Some(payload.u32()?);
    // callback_ident, which minor version 0 alone uses.
    payload.skip(4)?;
    arguments_of_all(payload, details, &CALLBACK_OPERATIONS, "CB_ILLEGAL", callback::arguments)
}

/// The results of CB_COMPOUND.
pub(super) fn callback_reply(payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    results_of_all(payload, details, &CALLBACK_OPERATIONS, "CB_ILLEGAL", callback::results)
}

/// Walks `argarray`. Every element takes a word at least, so the stream bounds the loop.
#[inline]
fn arguments_of_all(
    payload: &mut Payload<'_>,
    details: &mut Details,
    names: &'static [&'static str],
    illegal: &'static str,
    arguments: impl Fn(u32, &mut Walk<'_, '_>) -> Outcome,
) -> Outcome {
    let count = payload.u32()?;
    details.called = Some(count);
    details.operations.reserve((count as usize).min(payload.reader().rest().len() / 4).min(32));
    for _ in 0..count {
        let code = payload.u32()?;
        let mut unkept = None;
        let operation = add(&mut details.operations, &mut unkept, code, name(code, names, illegal));
        arguments(code, &mut Walk::new(payload, operation, &mut details.arena, &mut details.backchannel))?;
    }
    Ok(())
}

/// Walks the status, the tag and `resarray`.
#[inline]
fn results_of_all(
    payload: &mut Payload<'_>,
    details: &mut Details,
    names: &'static [&'static str],
    illegal: &'static str,
    results: impl Fn(u32, &mut Walk<'_, '_>) -> Outcome,
) -> Outcome {
    details.status = Some(payload.u32()?);
    let tag = payload.opaque()?;
    if details.tag.is_empty() {
        details.tag = keep(&mut details.arena, tag);
    }
    for index in 0..payload.u32()? as usize {
        let code = payload.u32()?;
        let mut unkept = None;
        // An operation that the server does not know is answered as OP_ILLEGAL (RFC 7530, section 16.2).
        let called = |operation: &Operation| operation.code == code || code == ILLEGAL;
        let operation = match details.operations.get_mut(index) {
            Some(operation) if called(operation) => operation,
            _ => add(&mut details.operations, &mut unkept, code, name(code, names, illegal)),
        };
        results(code, &mut Walk::new(payload, operation, &mut details.arena, &mut details.backchannel))?;
    }
    Ok(())
}

#[inline]
fn name(code: u32, names: &'static [&'static str], illegal: &'static str) -> &'static str {
    match names.get(code as usize) {
        Some(&name) if !name.is_empty() => name,
        _ if code == ILLEGAL => illegal,
        _ => "operation",
    }
}

/// The result of an operation that has no number: its status, which ends the COMPOUND unless it is success.
fn unknown(walk: &mut Walk<'_, '_>) -> Result<(), Stop> {
    let number = walk.no_such_arm();
    if walk.status()? { Err(number) } else { Ok(()) }
}
