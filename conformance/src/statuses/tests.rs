//! Compares the tables with the reverse lists of the documents: errors and the operations that use
//! them.

use super::tables::{DESCRIBED, TABLES, Table, has};
use crate::rule::Document;
use rdmascope_dissector::ulb::{Callback, Nfs4, OperationKind, status_name};
use std::collections::{BTreeMap, BTreeSet};

/// RFC 8881, section 15.4: errors, each with the number of operations that it is valid for.
const USED_IN_SESSIONS: &[(&str, usize)] = &[
    ("ACCESS", 26),
    ("ADMIN_REVOKED", 12),
    ("ATTRNOTSUPP", 6),
    ("BACK_CHAN_BUSY", 1),
    ("BADCHAR", 11),
    ("BADHANDLE", 7),
    ("BADIOMODE", 3),
    ("BADLAYOUT", 2),
    ("BADNAME", 7),
    ("BADOWNER", 3),
    ("BADSESSION", 4),
    ("BADSLOT", 2),
    ("BADTYPE", 1),
    ("BAD_COOKIE", 2),
    ("BAD_HIGH_SLOT", 3),
    ("BAD_RANGE", 3),
    ("BAD_SESSION_DIGEST", 2),
    ("BAD_STATEID", 16),
    ("CB_PATH_DOWN", 1),
    ("CLID_INUSE", 2),
    ("CLIENTID_BUSY", 1),
    ("COMPLETE_ALREADY", 1),
    ("CONN_NOT_BOUND_TO_SESSION", 3),
    ("DEADLOCK", 1),
    ("DELEG_ALREADY_WANTED", 2),
    ("DELEG_REVOKED", 8),
    ("DENIED", 2),
    ("DIRDELEG_UNAVAIL", 1),
    ("DQUOT", 8),
    ("ENCR_ALG_UNSUPP", 1),
    ("EXIST", 4),
    ("EXPIRED", 11),
    ("FBIG", 4),
    ("FHEXPIRED", 36),
    ("FILE_OPEN", 3),
    ("GRACE", 17),
    ("HASH_ALG_UNSUPP", 1),
    ("INVAL", 42),
    ("IO", 23),
    ("ISDIR", 9),
    ("LAYOUTTRYLATER", 1),
    ("LAYOUTUNAVAILABLE", 1),
    ("LOCKED", 4),
    ("LOCKS_HELD", 2),
    ("LOCK_NOTSUPP", 1),
    ("LOCK_RANGE", 3),
    ("MLINK", 3),
    ("MOVED", 36),
    ("NAMETOOLONG", 7),
    ("NOENT", 12),
    ("NOFILEHANDLE", 36),
    ("NOMATCHING_LAYOUT", 1),
    ("NOSPC", 9),
    ("NOTDIR", 11),
    ("NOTEMPTY", 2),
    ("NOTSUPP", 24),
    ("NOT_ONLY_OP", 5),
    ("NOT_SAME", 4),
    ("NO_GRACE", 5),
    ("OLD_STATEID", 12),
    ("OPENMODE", 5),
    ("OP_ILLEGAL", 2),
    ("PERM", 3),
    ("PNFS_IO_HOLE", 2),
    ("PNFS_NO_LAYOUT", 2),
    ("RECALLCONFLICT", 2),
    ("RECLAIM_BAD", 4),
    ("RECLAIM_CONFLICT", 4),
    ("REJECT_DELEG", 1),
    ("ROFS", 11),
    ("SAME", 1),
    ("SEQUENCE_POS", 2),
    ("SEQ_FALSE_RETRY", 2),
    ("SEQ_MISORDERED", 3),
    ("SHARE_DENIED", 1),
    ("STALE", 36),
    ("STALE_CLIENTID", 3),
    ("SYMLINK", 10),
    ("TOOSMALL", 4),
    ("UNKNOWN_LAYOUTTYPE", 9),
    ("UNSAFE_COMPOUND", 3),
    ("WRONGSEC", 9),
    ("WRONG_CRED", 14),
    ("WRONG_TYPE", 19),
    ("XDEV", 2),
];

/// RFC 7530, section 13.4: errors, each with the number of operations that it is valid for.
const USED: &[(&str, usize)] = &[
    ("ACCESS", 23),
    ("ADMIN_REVOKED", 10),
    ("ATTRNOTSUPP", 5),
    ("BADCHAR", 10),
    ("BADHANDLE", 31),
    ("BADNAME", 7),
    ("BADOWNER", 3),
    ("BADTYPE", 1),
    ("BAD_COOKIE", 1),
    ("BAD_RANGE", 3),
    ("BAD_SEQID", 6),
    ("BAD_STATEID", 11),
    ("CB_PATH_DOWN", 1),
    ("CLID_INUSE", 2),
    ("DEADLOCK", 1),
    ("DENIED", 2),
    ("DQUOT", 7),
    ("EXIST", 4),
    ("EXPIRED", 13),
    ("FBIG", 3),
    ("FHEXPIRED", 29),
    ("FILE_OPEN", 3),
    ("GRACE", 12),
    ("INVAL", 26),
    ("IO", 18),
    ("ISDIR", 12),
    ("LEASE_MOVED", 13),
    ("LOCKED", 3),
    ("LOCKS_HELD", 3),
    ("LOCK_NOTSUPP", 1),
    ("LOCK_RANGE", 3),
    ("MLINK", 1),
    ("MOVED", 30),
    ("NAMETOOLONG", 7),
    ("NOENT", 8),
    ("NOFILEHANDLE", 28),
    ("NOSPC", 7),
    ("NOTDIR", 9),
    ("NOTEMPTY", 2),
    ("NOTSUPP", 6),
    ("NOT_SAME", 2),
    ("NO_GRACE", 2),
    ("NXIO", 1),
    ("OLD_STATEID", 10),
    ("OPENMODE", 4),
    ("OP_ILLEGAL", 2),
    ("PERM", 3),
    ("RECLAIM_BAD", 2),
    ("RECLAIM_CONFLICT", 2),
    ("RESTOREFH", 1),
    ("ROFS", 10),
    ("SAME", 1),
    ("SHARE_DENIED", 1),
    ("STALE", 30),
    ("STALE_CLIENTID", 7),
    ("STALE_STATEID", 9),
    ("SYMLINK", 6),
    ("TOOSMALL", 1),
    ("WRONGSEC", 9),
    ("XDEV", 2),
];

fn tables_of(document: Document) -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(move |table| table.source.document == document)
}

#[test]
fn error_counts_match_the_reverse_lists_of_the_rfcs() {
    for (document, listed) in [(Document::Rfc8881, USED_IN_SESSIONS), (Document::Rfc7530, USED)] {
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        for (operations, errors) in tables_of(document).flat_map(|table| table.rows) {
            let operations = operations.split_whitespace().count();
            errors.split_whitespace().for_each(|error| *used.entry(error).or_default() += operations);
        }
        assert_eq!(used, listed.iter().copied().collect(), "{document}");
    }
}

#[test]
fn each_operation_has_a_row_in_the_table_of_its_document() {
    let forward = Nfs4::ALL.iter().map(|operation| OperationKind::from(*operation));
    let backward = Callback::ALL.iter().map(|operation| OperationKind::from(*operation));
    for operation in forward.chain(backward) {
        let name = operation.name();
        let documents: BTreeSet<String> = TABLES
            .iter()
            .filter(|table| table.rows.iter().any(|(operations, _)| has(operations, name)))
            .map(|table| table.source.document.to_string())
            .collect();
        let expected: &[&str] = match (operation.minor_version(), name) {
            // It must not be implemented in minor version 2 (RFC 7862, section 13).
            (_, "GETDEVICELIST") => &["RFC 7862", "RFC 8881"],
            (Some(0), _) => &["RFC 7530", "RFC 8881"],
            (Some(1), _) => &["RFC 8881"],
            (_, name) if name.contains("XATTR") => &["RFC 8276"],
            _ => &["RFC 7862"],
        };
        assert_eq!(documents.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn tables_contain_only_known_operations_and_errors() {
    let errors: BTreeSet<String> = (0..11_000)
        .filter_map(|number| status_name(100_003, 4, number))
        .filter_map(|name| Some(name.strip_prefix("NFS4ERR_")?.to_owned()))
        .collect();
    let operations: BTreeSet<&str> = Nfs4::ALL
        .iter()
        .map(|operation| OperationKind::from(*operation).name())
        .chain(Callback::ALL.iter().map(|operation| OperationKind::from(*operation).name()))
        .collect();
    let described = DESCRIBED.iter().map(|(_, operations, errors)| (*operations, *errors));
    for (named, listed) in TABLES.iter().flat_map(|table| table.rows).copied().chain(described) {
        named.split_whitespace().for_each(|name| assert!(operations.contains(name), "{name}"));
        listed.split_whitespace().for_each(|error| assert!(errors.contains(error), "{named}: {error}"));
    }
    for listed in TABLES.iter().map(|table| table.everywhere) {
        listed.split_whitespace().for_each(|error| assert!(errors.contains(error), "{error}"));
    }
}
