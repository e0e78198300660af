//! Error statuses of operations (RFC 1813, section 2.5; RFC 7530, section 13; RFC 8881, section 15;
//! RFC 7862, section 11; RFC 8276, section 8.4.5).

mod tables;

#[cfg(test)]
mod tests;

use super::check::{Check, Checked, Findings, View};
use super::chunks::bodies;
use super::finding::Value;
use super::judged::paired;
use super::rule::{Document, Level, Source, Unseen};
use alloc::format;
use alloc::string::String;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{Operation, OperationKind};
use rdmascope_wire::nfs::nfsstat4;

pub(crate) const RULES: &[Checked] = &[
    Checked {
        id: "status-of-version",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc1813, section: "2.5" },
            Source { document: Document::Rfc4506, section: "4.3" },
            Source { document: Document::Rfc8881, section: "15.1.16" },
        ],
        sentence: "An operation returns a status that is defined in its version of NFS.",
        explanation: "The rule is broken by a number that is not defined in nfsstat3, or in \
            nfsstat4 of minor version 0 or 1. In minor versions 1 and 2, it is also broken by an \
            operation of minor version 0 or 1 that fails with NFS4ERR_BAD_SEQID, \
            NFS4ERR_LEASE_MOVED, NFS4ERR_NXIO, NFS4ERR_RESTOREFH or NFS4ERR_STALE_STATEID. \
            Numbers unknown to rdmascope are ignored in minor version 2, which later documents \
            extend.",
        check: Check::Transaction(of_version),
    },
    Checked {
        id: "status-of-operation",
        level: Level::Warning,
        sources: &[
            Source { document: Document::Rfc7530, section: "13.2" },
            Source { document: Document::Rfc7530, section: "13.3" },
            Source { document: Document::Rfc8881, section: "15.2" },
            Source { document: Document::Rfc8881, section: "15.3" },
            Source { document: Document::Rfc7862, section: "11.2" },
            Source { document: Document::Rfc7862, section: "11.3" },
            Source { document: Document::Rfc8276, section: "8.4.5" },
        ],
        sentence: "An operation of NFS version 4 fails with an error that is listed for it.",
        explanation: "The documents have tables of the valid errors of each operation, and \
            clients are written to them. They do not say MUST NOT, so the rule is a warning. \
            Errors also count as listed if the description of the operation names them \
            (NFS4ERR_NXIO of SEEK), if the operation is OPTIONAL (NFS4ERR_NOTSUPP), or if they \
            are about the request as a whole: NFS4ERR_BADXDR, NFS4ERR_DELAY, NFS4ERR_SERVERFAULT, \
            in minor version 0 NFS4ERR_RESOURCE, and with sessions NFS4ERR_DEADSESSION, \
            NFS4ERR_OP_NOT_IN_SESSION, NFS4ERR_REP_TOO_BIG, NFS4ERR_REP_TOO_BIG_TO_CACHE, \
            NFS4ERR_REQ_TOO_BIG, NFS4ERR_RETRY_UNCACHED_REP and NFS4ERR_TOO_MANY_OPS. Operations \
            of a later minor version than that of the COMPOUND are not covered, nor are statuses \
            that break status-of-version.",
        check: Check::Transaction(of_operation),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: Source { document: Document::Rfc1813, section: "3" },
    requirement: "A procedure of NFS version 3 fails with an error of its ERRORS section.",
    reason: "These lists are a guide, and clients are to be prepared for other errors. Only the numbers are judged.",
}];

/// True if an operation failed.
pub(crate) fn may_break(transaction: &Transaction) -> bool {
    transaction.status.is_some_and(|status| status != 0)
}

/// The highest number of nfsstat4 in minor version 0 (RFC 7531) and 1 (RFC 5662).
const HIGHEST: [u32; 2] = [nfsstat4::CB_PATH_DOWN, nfsstat4::DELEG_REVOKED];
/// Statuses that operations MUST NOT return (RFC 8881, section 15.1.16).
const OBSOLETE: [u32; 5] = {
    use nfsstat4::{BAD_SEQID, LEASE_MOVED, NXIO, RESTOREFH, STALE_STATEID};
    [NXIO, STALE_STATEID, BAD_SEQID, RESTOREFH, LEASE_MOVED]
};

/// The operation that failed, and its status. A COMPOUND has the same status (RFC 8881, section
/// 16.2.3). Without the credential of the call, it is unknown whether RPCSEC_GSS protects the
/// results.
fn failed(transaction: &Transaction) -> Option<(&Operation, u32)> {
    let is_failure = |status: &u32| *status != 0;
    transaction.status.filter(is_failure)?;
    if transaction.security.is_none() || bodies::is_sealed(transaction) {
        return None;
    }
    let mut operations = transaction.details.operations.iter();
    operations.find_map(|operation| Some((operation, operation.status.filter(is_failure)?)))
}

/// The name of a status.
fn name_of(transaction: &Transaction, status: u32) -> Option<&'static str> {
    transaction.procedure?.status_name(status)
}

/// The fault of a status number.
enum Fault {
    /// The version does not define it.
    Undefined,
    /// The version defines it, but operations MUST NOT return it.
    Obsolete,
}

fn fault_of(operation: &Operation, status: u32, transaction: &Transaction) -> Option<Fault> {
    let is_named = name_of(transaction, status).is_some();
    let (since, version) = match operation.kind {
        OperationKind::Nfs3(_) => return (!is_named).then_some(Fault::Undefined),
        OperationKind::Nfs4(_) | OperationKind::Callback(_) => {
            (operation.kind.minor_version()?, transaction.details.minor_version?)
        }
        _ => return None,
    };
    let highest = HIGHEST.get(version as usize);
    if highest.is_some_and(|highest| !is_named || status > *highest) {
        return Some(Fault::Undefined);
    }
    (matches!(version, 1 | 2) && since <= 1 && OBSOLETE.contains(&status)).then_some(Fault::Obsolete)
}

fn of_version(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((operation, status)) = failed(transaction) else { return };
    let Some(fault) = fault_of(operation, status, transaction) else { return };
    let version = match transaction.details.minor_version {
        Some(minor) => format!("NFS version 4.{minor}"),
        None => "NFS version 3".into(),
    };
    let words = match fault {
        Fault::Undefined => format!("{} returns a status that {version} does not define", operation.name()),
        Fault::Obsolete => format!("{} returns a status that is obsolete in {version}", operation.name()),
    };
    let observed = name_of(transaction, status).map_or(Value::Count(status.into()), Value::Name);
    findings.add(paired(transaction, view, words).observed(observed));
}

/// Words for an error that a table does not list. A server that does not know an operation answers
/// with OP_ILLEGAL in its place (RFC 7530, section 16.2), so the operation did not fail.
fn words_of(operation: &Operation, error: &str, table: Source) -> String {
    let name = operation.name();
    match error {
        "OP_ILLEGAL" => {
            format!("{name} is answered as an illegal operation, which {table}, does not list for it")
        }
        _ => format!("{name} fails with an error that {table}, does not list for it"),
    }
}

fn of_operation(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some((operation, status)), Some(minor_version)) =
        (failed(transaction), transaction.details.minor_version)
    else {
        return;
    };
    let is_newer = operation.kind.minor_version().is_none_or(|since| since > minor_version);
    if is_newer || fault_of(operation, status, transaction).is_some() {
        return;
    }
    let Some(name) = name_of(transaction, status) else { return };
    let error = name.trim_start_matches("NFS4ERR_");
    if let Some(table) = tables::excluding(operation.kind, minor_version, error) {
        let words = words_of(operation, error, table);
        findings.add(paired(transaction, view, words).observed(Value::Name(name)));
    }
}
