//! The arguments and results that an upper-layer binding reads (RFC 8267).

use rdmascope_dissector::transaction::{Message, Security, Transaction};
use rdmascope_dissector::ulb::{self, DdpEligible, Details, Operation, Procedure};
use rdmascope_wire::{Cause, rpc};

/// Segments that any chunk may have (RFC 8267, section 6.4.2).
pub(super) const MOST_SEGMENTS: usize = 16;

/// Whether the call is of NFS version 4; `None` if unknown.
pub(super) fn is_nfs4(transaction: &Transaction) -> Option<bool> {
    transaction.procedure.map(Procedure::is_nfs4)
}

/// Whether RPCSEC_GSS protects arguments and results with integrity or privacy, or may do so.
pub(in super::super) fn is_sealed(transaction: &Transaction) -> bool {
    matches!(
        transaction.security,
        Some(Security::GssIntegrity | Security::GssPrivacy | Security::GssControl(_) | Security::GssUnknown)
    )
}

/// Whether a binding reads the arguments and results.
pub(super) fn is_bound(transaction: &Transaction) -> bool {
    !is_sealed(transaction)
        && transaction.details.operations.len() < Details::MOST_OPERATIONS
        && transaction
            .procedure
            .is_some_and(|procedure| ulb::has_binding(procedure.program, procedure.version))
}

/// Whether all arguments were read.
pub(in super::super) fn is_called(transaction: &Transaction, call: &Message) -> bool {
    is_bound(transaction) && call.unread.is_none() && transaction.security.is_some()
}

/// Whether all results were read. If the capture cut off the credential, only a status shows that
/// RPCSEC_GSS did not hide them.
pub(in super::super) fn is_read(transaction: &Transaction, reply: &Message) -> bool {
    is_bound(transaction)
        && (transaction.security.is_some() || transaction.status.is_some())
        && reply.unread.is_none()
        && transaction.rpc_status == Some(rpc::Status::Success)
}

/// The operations that can have a DDP-eligible result (RFC 8267, sections 4 and 6.1), in order:
/// READ, which has a count, and READLINK.
pub(super) fn results(transaction: &Transaction) -> impl Iterator<Item = &Operation> {
    let operations = transaction.details.operations.iter();
    operations.filter(|operation| operation.kind.ddp_eligible() == DdpEligible::Result)
}

/// The number of results with data before the one whose data is misplaced, which kept the reply
/// from being read to its end.
pub(super) fn unread_result(transaction: &Transaction) -> Option<usize> {
    let stop = transaction.reply.as_ref()?.unread?;
    if stop.cause != Cause::TruncatedPacket || !is_bound(transaction) {
        return None;
    }
    let without =
        results(transaction).find(|operation| operation.status == Some(0) && operation.result_item.is_none());
    without?;
    Some(transaction.details.operations.iter().filter(|operation| operation.result_item.is_some()).count())
}
