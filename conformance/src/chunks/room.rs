//! The longest possible reply to a call, and whether there is room for it.

use super::super::known::Known;
use super::lists::lists_chunks;
use super::{binding, bodies};
use rdmascope_dissector::transaction::{Direction, Message, Transaction};
use rdmascope_dissector::ulb::{Nfs2, Nfs3, Nfs4, Operation, OperationKind};
use rdmascope_wire::private_data::DEFAULT_INLINE_THRESHOLD;
use rdmascope_wire::rpcrdma::{MINIMUM_LENGTH, Segment};

/// The longest RPC header of a reply: XID, msg_type, reply_stat, a verifier of 400 bytes,
/// accept_stat (RFC 5531, section 9).
const RPC_HEADER: u64 = 12 + 8 + 400 + 4;
/// The longest result in front of the data of a READ and of the entries of a READDIR: status,
/// attributes, count, end, cookie verifier.
const IN_FRONT: u64 = 128;
/// The longest result of a procedure of NFS version 2 or 3 whose definition sets a limit: CREATE,
/// with status, file handle, attributes and those of the directory (RFC 1813, section 3.3.8).
const PLAIN: u64 = 4 + 72 + 88 + 116;
/// The same for NFS version 4: GETFH, with number and status (RFC 7531).
const OF_COMPOUND: u64 = 8 + 4 + 128;
/// Status and count of the results of a COMPOUND, and an empty tag.
const COMPOUND: u64 = 12;

/// Whether the reply to a call can be longer than the room that its Requester provides; `None` if
/// unknown.
pub(in super::super) fn can_overrun(
    transaction: &Transaction,
    call: &Message,
    known: &Known,
) -> Option<bool> {
    if !bodies::is_called(transaction, call) {
        return None;
    }
    let details = &transaction.details;
    let mut writes = call.write_chunks.iter().map(|chunk| Segment::total(&chunk.segments));
    let mut results = 0;
    for operation in &details.operations {
        let Some(most) = most(operation, &mut writes) else { return Some(true) };
        results += most;
    }
    if !details.tag.is_empty() {
        return Some(true);
    }
    let message = RPC_HEADER + COMPOUND + results;
    // A reply copies the chunks of its call.
    let header = u64::from(call.header_length).max(MINIMUM_LENGTH as u64);
    let inline = known.inline_threshold(known.answerer(transaction.direction));
    let inline = inline.unwrap_or(DEFAULT_INLINE_THRESHOLD);
    let chunk = call.reply_chunk.as_ref().map_or(0, |chunk| Segment::total(&chunk.segments));
    Some(header + message > u64::from(inline) && message > chunk)
}

/// Whether a Responder has to support the chunks of a call. It need not in the reverse direction
/// (RFC 8167, section 5.3).
pub(in super::super) fn has_to_take(transaction: &Transaction, call: &Message) -> bool {
    let is_simple = transaction.direction == Direction::Forward && !binding::is_complex(transaction, call);
    is_simple || !lists_chunks(call)
}

/// The longest result that an operation can have in the reply itself; `None` if its definition sets
/// no limit. `writes` gives the room in the remaining Write chunks.
fn most(operation: &Operation, writes: &mut impl Iterator<Item = u64>) -> Option<u64> {
    if operation.kind.is_read() {
        let count = operation.count?;
        return Some(IN_FRONT + if writes.next().is_some_and(|room| room >= count) { 0 } else { count });
    }
    if operation.kind.is_readdir() {
        return Some(IN_FRONT + operation.count?);
    }
    match operation.kind {
        OperationKind::Nfs2(Nfs2::Readlink) | OperationKind::Nfs3(Nfs3::Readlink) => None,
        OperationKind::Nfs2(_) | OperationKind::Nfs3(_) => Some(PLAIN),
        OperationKind::Nfs4Procedure(_) | OperationKind::CallbackProcedure(_) => Some(0),
        OperationKind::Nfs4(Nfs4::Getattr) => operation.longest_result.map(|bytes| bytes.get().into()),
        OperationKind::Nfs4(operation) => is_limited(operation).then_some(OF_COMPOUND),
        _ => None,
    }
}

/// Whether the definition of the result sets a limit: it has no attributes, no list and no name
/// (RFC 7531; RFC 5662; RFC 7863).
fn is_limited(operation: Nfs4) -> bool {
    use Nfs4::*;
    matches!(
        operation,
        Access
            | Close
            | Commit
            | Delegpurge
            | Delegreturn
            | Getfh
            | Link
            | Locku
            | Lookup
            | Lookupp
            | Nverify
            | OpenConfirm
            | OpenDowngrade
            | Putfh
            | Putpubfh
            | Putrootfh
            | Remove
            | Rename
            | Renew
            | Restorefh
            | Savefh
            | SetclientidConfirm
            | Verify
            | Write
            | ReleaseLockowner
            | BindConnToSession
            | DestroySession
            | FreeStateid
            | Sequence
            | DestroyClientid
            | ReclaimComplete
            | Allocate
            | Deallocate
            | Seek
    )
}
