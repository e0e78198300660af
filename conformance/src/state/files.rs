//! The file that an operation of a COMPOUND applies to: the current file handle (RFC 8881, section
//! 16.2.3.1), as far as the operations show it.

use core::hash::BuildHasher as _;
use rdmascope_dissector::BuildHasher;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{Nfs4, Operation, OperationKind};

/// A hash of the file handle that an operation uses its stateid with.
pub(super) fn file_of(kind: Nfs4, operation: u16, transaction: &Transaction) -> Option<u64> {
    use Nfs4::{
        Close, Delegreturn, Layoutcommit, Layoutget, Layoutreturn, Lock, Locku, OpenDowngrade, Read, Write,
    };
    let is_of_file = matches!(
        kind,
        Close
            | Delegreturn
            | Layoutcommit
            | Layoutget
            | Layoutreturn
            | Lock
            | Locku
            | OpenDowngrade
            | Read
            | Write
    );
    if !is_of_file {
        return None;
    }
    current_file(operation, transaction).map(|handle| BuildHasher::default().hash_one(handle))
}

/// The handle of the file that an OPEN opens, if a GETFH after it returns the handle.
pub(super) fn opened_file(operation: u16, transaction: &Transaction) -> Option<&[u8]> {
    let details = &transaction.details;
    let mut following = details.operations.get(usize::from(operation) + 1..)?.iter();
    let next = following.find(|operation| !keeps_file(operation))?;
    let handle = next.result_file_handle.filter(|_| next.kind == OperationKind::Nfs4(Nfs4::Getfh))?;
    Some(details.bytes(handle))
}

/// Whether an operation certainly leaves the current file handle unchanged.
fn keeps_file(operation: &Operation) -> bool {
    use Nfs4::{Access, Close, Getattr, Lock, Locku, Read, Savefh, Write};
    matches!(
        operation.kind,
        OperationKind::Nfs4(Access | Close | Getattr | Lock | Locku | Read | Savefh | Write)
    )
}

/// The current file handle of an operation, if a PUTFH set it.
pub(super) fn current_file(operation: u16, transaction: &Transaction) -> Option<&[u8]> {
    let details = &transaction.details;
    let before = details.operations.get(..usize::from(operation))?;
    let setting = before.iter().rev().find(|operation| !keeps_file(operation))?;
    let handle = setting.file_handle.filter(|_| setting.kind == OperationKind::Nfs4(Nfs4::Putfh))?;
    Some(details.bytes(handle))
}
