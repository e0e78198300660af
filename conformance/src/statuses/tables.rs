//! The tables of valid errors, as printed in the documents.

use crate::rule::{Document, Source};
use core::ops::RangeInclusive;
use rdmascope_dissector::ulb::OperationKind;

/// The operations of a document, and the errors that it lists for each.
pub(super) struct Table {
    /// The document and section of the table.
    pub(super) source: Source,
    /// The minor versions of NFS version 4 that it applies to.
    pub(super) minor_versions: RangeInclusive<u32>,
    /// Errors that count as listed for each of its operations, in addition to those of the rows.
    pub(super) everywhere: &'static str,
    /// Operations with their errors.
    pub(super) rows: &'static [Row],
}

/// The names of operations, and of the errors of each of them without the prefix.
pub(super) type Row = (&'static str, &'static str);

/// Whether a list of names has this one.
pub(super) fn has(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|listed| listed == name)
}

/// The source of the table that contains an operation of this minor version but does not list this
/// error for it. `None` if the error is listed, or if no table contains the operation.
pub(super) fn excluding(operation: OperationKind, minor_version: u32, error: &str) -> Option<Source> {
    let name = operation.name();
    let row_of =
        |rows: &[Row]| rows.iter().find(|(operations, _)| has(operations, name)).map(|(_, errors)| *errors);
    let (table, errors) = TABLES
        .iter()
        .filter(|table| table.minor_versions.contains(&minor_version))
        .find_map(|table| Some((table, row_of(table.rows)?)))?;
    let mut described = DESCRIBED.iter().filter(|(since, ..)| (1..=minor_version).contains(since));
    let is_listed = has(errors, error)
        || has(table.everywhere, error)
        || described.any(|(_, operations, errors)| has(operations, name) && has(errors, error));
    (!is_listed).then_some(table.source)
}

/// Errors of minor version 0 about the request as a whole (RFC 7530, sections 13.1.1 and 13.1.3.4).
/// Few rows lack them, and the document gives no reason.
const EVERYWHERE: &str = "BADXDR DELAY RESOURCE SERVERFAULT";

/// The same errors for minor versions with sessions (RFC 8881, sections 15.1.1, 15.1.3 and
/// 15.1.11). The row of GETFH has none of them.
const EVERYWHERE_IN_SESSIONS: &str = "BADXDR DEADSESSION DELAY OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE \
    REQ_TOO_BIG RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS";

/// Errors that the text of a document allows operations to return, but its table lacks: the first
/// minor version, the operations, the errors.
pub(super) const DESCRIBED: &[(u32, &str, &str)] = &[
    // RFC 8881, section 18.4.3.
    (1, "CREATE", "WRONG_TYPE"),
    // RFC 8881, section 18.12.3.
    (1, "LOCKU", "ISDIR SYMLINK WRONG_TYPE"),
    // RFC 8881, section 18.16.3.
    (1, "OPEN", "NOTSUPP"),
    // RFC 8881, section 18.35.4.
    (1, "EXCHANGE_ID", "PERM"),
    // A server or client that does not support an OPTIONAL operation returns NOTSUPP (RFC 8881,
    // section 17; RFC 7862, section 13; RFC 8276, section 8.4).
    (1, "READLINK CB_GETATTR CB_RECALL CB_RECALL_ANY CB_SEQUENCE", "NOTSUPP"),
    (2, "COPY COPY_NOTIFY CB_OFFLOAD", "NOTSUPP"),
    (2, "GETXATTR LISTXATTRS", "OP_ILLEGAL"),
    (2, "SETXATTR REMOVEXATTR", "NOTSUPP OP_ILLEGAL"),
    // RFC 7862, section 11.1.3: a security label among the attributes.
    (2, "CREATE OPEN SETATTR", "BADLABEL WRONG_LFS"),
    // RFC 7862, section 15.2.3.
    (2, "COPY", "OFFLOAD_NO_REQS UNION_NOTSUPP"),
    // RFC 7862, section 15.3.3.
    (2, "READ", "PARTNER_NO_AUTH"),
    // RFC 7862, section 15.11.3.
    (2, "SEEK", "NXIO"),
    // RFC 8276, section 8.4.3.3.
    (2, "LISTXATTRS", "TOOSMALL"),
];

pub(super) const TABLES: &[Table] = &[
    Table {
        source: Source { document: Document::Rfc7530, section: "13.2" },
        minor_versions: 0..=0,
        everywhere: EVERYWHERE,
        rows: &[
            ("ACCESS", "ACCESS BADHANDLE FHEXPIRED INVAL IO MOVED NOFILEHANDLE STALE"),
            (
                "CLOSE",
                "ADMIN_REVOKED BADHANDLE BAD_SEQID BAD_STATEID EXPIRED FHEXPIRED INVAL ISDIR \
                 LEASE_MOVED LOCKS_HELD MOVED NOFILEHANDLE OLD_STATEID STALE STALE_STATEID",
            ),
            ("COMMIT", "ACCESS BADHANDLE FHEXPIRED INVAL IO ISDIR MOVED NOFILEHANDLE ROFS STALE SYMLINK"),
            (
                "CREATE",
                "ACCESS ATTRNOTSUPP BADCHAR BADHANDLE BADNAME BADOWNER BADTYPE DQUOT EXIST FHEXPIRED \
                 INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOSPC NOTDIR PERM ROFS STALE",
            ),
            ("DELEGPURGE", "LEASE_MOVED NOTSUPP STALE_CLIENTID"),
            (
                "DELEGRETURN",
                "ADMIN_REVOKED BAD_STATEID EXPIRED INVAL LEASE_MOVED MOVED NOFILEHANDLE NOTSUPP \
                 OLD_STATEID STALE STALE_STATEID",
            ),
            ("GETATTR", "ACCESS BADHANDLE FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE STALE"),
            ("GETFH SAVEFH", "BADHANDLE FHEXPIRED MOVED NOFILEHANDLE STALE"),
            ("ILLEGAL", "OP_ILLEGAL"),
            (
                "LINK",
                "ACCESS BADCHAR BADHANDLE BADNAME DQUOT EXIST FHEXPIRED FILE_OPEN INVAL IO ISDIR \
                 MLINK MOVED NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NOTSUPP ROFS STALE WRONGSEC \
                 XDEV",
            ),
            (
                "LOCK",
                "ACCESS ADMIN_REVOKED BADHANDLE BAD_RANGE BAD_SEQID BAD_STATEID DEADLOCK DENIED \
                 EXPIRED FHEXPIRED GRACE INVAL ISDIR LEASE_MOVED LOCK_NOTSUPP LOCK_RANGE MOVED \
                 NOFILEHANDLE NO_GRACE OLD_STATEID OPENMODE RECLAIM_BAD RECLAIM_CONFLICT STALE \
                 STALE_CLIENTID STALE_STATEID",
            ),
            (
                "LOCKT",
                "ACCESS BADHANDLE BAD_RANGE DENIED EXPIRED FHEXPIRED GRACE INVAL ISDIR LEASE_MOVED \
                 LOCK_RANGE MOVED NOFILEHANDLE STALE STALE_CLIENTID",
            ),
            (
                "LOCKU",
                "ACCESS ADMIN_REVOKED BADHANDLE BAD_RANGE BAD_SEQID BAD_STATEID EXPIRED FHEXPIRED \
                 GRACE INVAL ISDIR LEASE_MOVED LOCK_RANGE MOVED NOFILEHANDLE OLD_STATEID STALE \
                 STALE_STATEID",
            ),
            (
                "LOOKUP",
                "ACCESS BADCHAR BADHANDLE BADNAME FHEXPIRED INVAL IO MOVED NAMETOOLONG NOENT \
                 NOFILEHANDLE NOTDIR STALE SYMLINK WRONGSEC",
            ),
            (
                "LOOKUPP",
                "ACCESS BADHANDLE FHEXPIRED IO MOVED NOENT NOFILEHANDLE NOTDIR STALE SYMLINK WRONGSEC",
            ),
            (
                "NVERIFY",
                "ACCESS ATTRNOTSUPP BADCHAR BADHANDLE FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE \
                 SAME STALE",
            ),
            (
                "OPEN",
                "ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADHANDLE BADNAME BADOWNER BAD_SEQID \
                 BAD_STATEID DQUOT EXIST EXPIRED FBIG FHEXPIRED GRACE INVAL IO ISDIR MOVED \
                 NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NOTSUPP NO_GRACE OLD_STATEID PERM \
                 RECLAIM_BAD RECLAIM_CONFLICT ROFS SHARE_DENIED STALE STALE_CLIENTID SYMLINK WRONGSEC",
            ),
            (
                "OPENATTR",
                "ACCESS BADHANDLE DQUOT FHEXPIRED IO MOVED NOENT NOFILEHANDLE NOSPC NOTSUPP ROFS \
                 STALE",
            ),
            (
                "OPEN_CONFIRM",
                "ADMIN_REVOKED BADHANDLE BAD_SEQID BAD_STATEID EXPIRED FHEXPIRED INVAL ISDIR \
                 LEASE_MOVED MOVED NOFILEHANDLE OLD_STATEID STALE STALE_STATEID",
            ),
            (
                "OPEN_DOWNGRADE",
                "ADMIN_REVOKED BADHANDLE BAD_SEQID BAD_STATEID EXPIRED FHEXPIRED INVAL LEASE_MOVED \
                 LOCKS_HELD MOVED NOFILEHANDLE OLD_STATEID ROFS STALE STALE_STATEID",
            ),
            ("PUTFH", "BADHANDLE FHEXPIRED MOVED STALE WRONGSEC"),
            ("PUTPUBFH PUTROOTFH", "WRONGSEC"),
            (
                "READ",
                "ACCESS ADMIN_REVOKED BADHANDLE BAD_STATEID EXPIRED FHEXPIRED GRACE INVAL IO ISDIR \
                 LEASE_MOVED LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE STALE STALE_STATEID \
                 SYMLINK",
            ),
            (
                "READDIR",
                "ACCESS BADHANDLE BAD_COOKIE FHEXPIRED INVAL IO MOVED NOFILEHANDLE NOTDIR NOT_SAME \
                 STALE TOOSMALL",
            ),
            ("READLINK", "ACCESS BADHANDLE FHEXPIRED INVAL IO ISDIR MOVED NOFILEHANDLE NOTSUPP STALE"),
            ("RELEASE_LOCKOWNER", "EXPIRED LEASE_MOVED LOCKS_HELD STALE_CLIENTID"),
            (
                "REMOVE",
                "ACCESS BADCHAR BADHANDLE BADNAME FHEXPIRED FILE_OPEN GRACE INVAL IO MOVED \
                 NAMETOOLONG NOENT NOFILEHANDLE NOTDIR NOTEMPTY ROFS STALE",
            ),
            (
                "RENAME",
                "ACCESS BADCHAR BADHANDLE BADNAME DQUOT EXIST FHEXPIRED FILE_OPEN GRACE INVAL IO \
                 MOVED NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NOTEMPTY ROFS STALE WRONGSEC XDEV",
            ),
            ("RENEW", "ACCESS CB_PATH_DOWN EXPIRED LEASE_MOVED STALE_CLIENTID"),
            ("RESTOREFH", "BADHANDLE FHEXPIRED MOVED RESTOREFH STALE WRONGSEC"),
            (
                "SECINFO",
                "ACCESS BADCHAR BADHANDLE BADNAME FHEXPIRED INVAL MOVED NAMETOOLONG NOENT \
                 NOFILEHANDLE NOTDIR STALE",
            ),
            (
                "SETATTR",
                "ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADHANDLE BADOWNER BAD_STATEID DQUOT \
                 EXPIRED FBIG FHEXPIRED GRACE INVAL IO ISDIR LEASE_MOVED LOCKED MOVED NOFILEHANDLE \
                 NOSPC OLD_STATEID OPENMODE PERM ROFS STALE STALE_STATEID",
            ),
            ("SETCLIENTID", "CLID_INUSE INVAL"),
            ("SETCLIENTID_CONFIRM", "CLID_INUSE STALE_CLIENTID"),
            (
                "VERIFY",
                "ACCESS ATTRNOTSUPP BADCHAR BADHANDLE FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE \
                 NOT_SAME STALE",
            ),
            (
                "WRITE",
                "ACCESS ADMIN_REVOKED BADHANDLE BAD_STATEID DQUOT EXPIRED FBIG FHEXPIRED GRACE INVAL \
                 IO ISDIR LEASE_MOVED LOCKED MOVED NOFILEHANDLE NOSPC NXIO OLD_STATEID OPENMODE ROFS \
                 STALE STALE_STATEID SYMLINK",
            ),
        ],
    },
    Table {
        source: Source { document: Document::Rfc7530, section: "13.3" },
        minor_versions: 0..=0,
        everywhere: EVERYWHERE,
        rows: &[
            ("CB_GETATTR", "BADHANDLE INVAL"),
            ("CB_ILLEGAL", "OP_ILLEGAL"),
            ("CB_RECALL", "BADHANDLE BAD_STATEID"),
        ],
    },
    Table {
        source: Source { document: Document::Rfc8276, section: "8.4.5" },
        minor_versions: 2..=2,
        everywhere: EVERYWHERE_IN_SESSIONS,
        rows: &[
            (
                "GETXATTR",
                "ACCESS FHEXPIRED INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOTSUPP NOXATTR PERM STALE \
                 WRONG_TYPE",
            ),
            (
                "SETXATTR",
                "ACCESS BADCHAR DQUOT EXIST FHEXPIRED INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOSPC \
                 NOXATTR PERM ROFS STALE WRONG_TYPE XATTR2BIG",
            ),
            (
                "LISTXATTRS",
                "ACCESS INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOTSUPP NOXATTR PERM STALE WRONG_TYPE",
            ),
            (
                "REMOVEXATTR",
                "ACCESS BADCHAR DQUOT EXIST INVAL IO LOCKED MOVED NAMETOOLONG NOFILEHANDLE NOSPC \
                 NOXATTR OLD_STATEID OPENMODE PERM ROFS STALE WRONG_TYPE",
            ),
        ],
    },
    Table {
        source: Source { document: Document::Rfc7862, section: "11.2" },
        minor_versions: 2..=2,
        everywhere: EVERYWHERE_IN_SESSIONS,
        rows: &[
            (
                "ALLOCATE",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE \
                 INVAL IO ISDIR MOVED NOFILEHANDLE NOSPC NOTSUPP OLD_STATEID OPENMODE ROFS STALE \
                 SYMLINK WRONG_TYPE",
            ),
            (
                "CLONE",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE \
                 INVAL IO ISDIR MOVED NOFILEHANDLE NOSPC NOTSUPP OLD_STATEID OPENMODE ROFS STALE \
                 SYMLINK WRONG_TYPE XDEV",
            ),
            (
                "COPY",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE \
                 INVAL IO ISDIR LOCKED MOVED NOFILEHANDLE NOSPC OFFLOAD_DENIED OLD_STATEID OPENMODE \
                 PARTNER_NOTSUPP PARTNER_NO_AUTH PNFS_IO_HOLE PNFS_NO_LAYOUT ROFS STALE SYMLINK \
                 WRONG_TYPE",
            ),
            (
                "COPY_NOTIFY",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO \
                 ISDIR LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT \
                 STALE SYMLINK WRONG_TYPE",
            ),
            (
                "DEALLOCATE",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FBIG FHEXPIRED GRACE INVAL IO \
                 ISDIR MOVED NOFILEHANDLE NOTSUPP OLD_STATEID OPENMODE ROFS STALE SYMLINK WRONG_TYPE",
            ),
            ("GETDEVICELIST", "NOTSUPP"),
            (
                "IO_ADVISE",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FBIG FHEXPIRED GRACE INVAL IO \
                 ISDIR MOVED NOFILEHANDLE NOTSUPP OLD_STATEID STALE SYMLINK WRONG_TYPE",
            ),
            (
                "LAYOUTERROR LAYOUTSTATS",
                "ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL ISDIR MOVED \
                 NOFILEHANDLE NOTSUPP NO_GRACE OLD_STATEID STALE UNKNOWN_LAYOUTTYPE WRONG_CRED \
                 WRONG_TYPE",
            ),
            (
                "OFFLOAD_CANCEL OFFLOAD_STATUS",
                "ADMIN_REVOKED BAD_STATEID COMPLETE_ALREADY EXPIRED GRACE NOTSUPP OLD_STATEID",
            ),
            (
                "READ_PLUS",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO \
                 ISDIR LOCKED MOVED NOFILEHANDLE NOTSUPP OLD_STATEID OPENMODE PARTNER_NO_AUTH \
                 PNFS_IO_HOLE PNFS_NO_LAYOUT STALE SYMLINK WRONG_TYPE",
            ),
            (
                "SEEK",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO \
                 ISDIR LOCKED MOVED NOFILEHANDLE NOTSUPP OLD_STATEID OPENMODE PNFS_IO_HOLE \
                 PNFS_NO_LAYOUT STALE SYMLINK UNION_NOTSUPP WRONG_TYPE",
            ),
            (
                "WRITE_SAME",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE \
                 INVAL IO ISDIR LOCKED MOVED NOFILEHANDLE NOSPC NOTSUPP OLD_STATEID OPENMODE \
                 PNFS_IO_HOLE PNFS_NO_LAYOUT ROFS STALE SYMLINK WRONG_TYPE",
            ),
        ],
    },
    Table {
        source: Source { document: Document::Rfc7862, section: "11.3" },
        minor_versions: 2..=2,
        everywhere: EVERYWHERE_IN_SESSIONS,
        rows: &[("CB_OFFLOAD", "BADHANDLE BAD_STATEID")],
    },
    Table {
        source: Source { document: Document::Rfc8881, section: "15.2" },
        minor_versions: 1..=2,
        everywhere: EVERYWHERE_IN_SESSIONS,
        rows: &[
            ("ACCESS", "ACCESS FHEXPIRED INVAL IO MOVED NOFILEHANDLE STALE"),
            ("BACKCHANNEL_CTL", "INVAL NOENT"),
            ("BIND_CONN_TO_SESSION", "BADSESSION BAD_SESSION_DIGEST INVAL NOT_ONLY_OP"),
            (
                "CLOSE",
                "ADMIN_REVOKED BAD_STATEID EXPIRED FHEXPIRED LOCKS_HELD MOVED NOFILEHANDLE \
                 OLD_STATEID STALE WRONG_CRED",
            ),
            ("COMMIT", "ACCESS FHEXPIRED IO ISDIR MOVED NOFILEHANDLE STALE SYMLINK WRONG_TYPE"),
            (
                "CREATE",
                "ACCESS ATTRNOTSUPP BADCHAR BADNAME BADOWNER BADTYPE DQUOT EXIST FHEXPIRED INVAL IO \
                 MLINK MOVED NAMETOOLONG NOFILEHANDLE NOSPC NOTDIR PERM ROFS STALE UNSAFE_COMPOUND",
            ),
            (
                "CREATE_SESSION",
                "CLID_INUSE INVAL NOENT NOSPC NOT_ONLY_OP SEQ_MISORDERED STALE_CLIENTID TOOSMALL \
                 WRONG_CRED",
            ),
            ("DELEGPURGE", "NOTSUPP WRONG_CRED"),
            (
                "DELEGRETURN",
                "ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED INVAL MOVED NOFILEHANDLE \
                 NOTSUPP OLD_STATEID STALE WRONG_CRED",
            ),
            ("DESTROY_CLIENTID", "CLIENTID_BUSY NOT_ONLY_OP STALE_CLIENTID WRONG_CRED"),
            (
                "DESTROY_SESSION",
                "BACK_CHAN_BUSY BADSESSION CB_PATH_DOWN CONN_NOT_BOUND_TO_SESSION NOT_ONLY_OP \
                 STALE_CLIENTID WRONG_CRED",
            ),
            (
                "EXCHANGE_ID",
                "BADCHAR CLID_INUSE ENCR_ALG_UNSUPP HASH_ALG_UNSUPP INVAL NOENT NOT_ONLY_OP NOT_SAME",
            ),
            ("FREE_STATEID", "BAD_STATEID LOCKS_HELD OLD_STATEID WRONG_CRED"),
            (
                "GET_DIR_DELEGATION",
                "ACCESS DIRDELEG_UNAVAIL FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE NOTDIR NOTSUPP \
                 STALE",
            ),
            ("GETATTR", "ACCESS FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE STALE WRONG_TYPE"),
            ("GETDEVICEINFO", "INVAL NOENT NOTSUPP TOOSMALL UNKNOWN_LAYOUTTYPE"),
            (
                "GETDEVICELIST",
                "BAD_COOKIE FHEXPIRED INVAL IO NOFILEHANDLE NOTSUPP NOT_SAME UNKNOWN_LAYOUTTYPE",
            ),
            ("GETFH SAVEFH", "FHEXPIRED MOVED NOFILEHANDLE STALE"),
            ("ILLEGAL", "OP_ILLEGAL"),
            (
                "LAYOUTCOMMIT",
                "ACCESS ADMIN_REVOKED ATTRNOTSUPP BADIOMODE BADLAYOUT DELEG_REVOKED EXPIRED FBIG \
                 FHEXPIRED GRACE INVAL IO ISDIR MOVED NOFILEHANDLE NOTSUPP NO_GRACE RECLAIM_BAD \
                 RECLAIM_CONFLICT STALE SYMLINK UNKNOWN_LAYOUTTYPE WRONG_CRED",
            ),
            (
                "LAYOUTGET",
                "ACCESS ADMIN_REVOKED BADIOMODE BADLAYOUT BAD_STATEID DELEG_REVOKED DQUOT FHEXPIRED \
                 GRACE INVAL IO LAYOUTTRYLATER LAYOUTUNAVAILABLE LOCKED MOVED NOFILEHANDLE NOSPC \
                 NOTSUPP OLD_STATEID OPENMODE RECALLCONFLICT STALE TOOSMALL UNKNOWN_LAYOUTTYPE \
                 WRONG_TYPE",
            ),
            (
                "LAYOUTRETURN",
                "ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL ISDIR MOVED \
                 NOFILEHANDLE NOTSUPP NO_GRACE OLD_STATEID STALE UNKNOWN_LAYOUTTYPE WRONG_CRED \
                 WRONG_TYPE",
            ),
            (
                "LINK",
                "ACCESS BADCHAR BADNAME DQUOT EXIST FHEXPIRED FILE_OPEN GRACE INVAL IO ISDIR MLINK \
                 MOVED NAMETOOLONG NOFILEHANDLE NOSPC NOTDIR NOTSUPP ROFS STALE SYMLINK WRONGSEC \
                 WRONG_TYPE XDEV",
            ),
            (
                "LOCK",
                "ACCESS ADMIN_REVOKED BAD_RANGE BAD_STATEID DEADLOCK DENIED EXPIRED FHEXPIRED GRACE \
                 INVAL ISDIR LOCK_NOTSUPP LOCK_RANGE MOVED NOFILEHANDLE NO_GRACE OLD_STATEID OPENMODE \
                 RECLAIM_BAD RECLAIM_CONFLICT ROFS STALE SYMLINK WRONG_CRED WRONG_TYPE",
            ),
            (
                "LOCKT",
                "ACCESS BAD_RANGE DENIED FHEXPIRED GRACE INVAL ISDIR LOCK_RANGE MOVED NOFILEHANDLE \
                 ROFS STALE SYMLINK WRONG_CRED WRONG_TYPE",
            ),
            (
                "LOCKU",
                "ACCESS ADMIN_REVOKED BAD_RANGE BAD_STATEID EXPIRED FHEXPIRED INVAL LOCK_RANGE MOVED \
                 NOFILEHANDLE OLD_STATEID STALE WRONG_CRED",
            ),
            (
                "LOOKUP",
                "ACCESS BADCHAR BADNAME FHEXPIRED INVAL IO MOVED NAMETOOLONG NOENT NOFILEHANDLE \
                 NOTDIR STALE SYMLINK WRONGSEC",
            ),
            ("LOOKUPP", "ACCESS FHEXPIRED IO MOVED NOENT NOFILEHANDLE NOTDIR STALE SYMLINK WRONGSEC"),
            (
                "NVERIFY",
                "ACCESS ATTRNOTSUPP BADCHAR FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE SAME STALE \
                 UNKNOWN_LAYOUTTYPE WRONG_TYPE",
            ),
            (
                "OPEN",
                "ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADNAME BADOWNER BAD_STATEID \
                 DELEG_ALREADY_WANTED DELEG_REVOKED DQUOT EXIST EXPIRED FBIG FHEXPIRED GRACE INVAL IO \
                 ISDIR MOVED NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NO_GRACE OLD_STATEID PERM \
                 RECLAIM_BAD RECLAIM_CONFLICT ROFS SHARE_DENIED STALE SYMLINK UNSAFE_COMPOUND \
                 WRONGSEC WRONG_TYPE",
            ),
            ("OPEN_CONFIRM RELEASE_LOCKOWNER RENEW SETCLIENTID SETCLIENTID_CONFIRM", "NOTSUPP"),
            (
                "OPEN_DOWNGRADE",
                "ADMIN_REVOKED BAD_STATEID EXPIRED FHEXPIRED INVAL MOVED NOFILEHANDLE OLD_STATEID \
                 ROFS STALE WRONG_CRED",
            ),
            (
                "OPENATTR",
                "ACCESS DQUOT FHEXPIRED IO MOVED NOENT NOFILEHANDLE NOSPC NOTSUPP ROFS STALE \
                 UNSAFE_COMPOUND WRONG_TYPE",
            ),
            ("PUTFH", "BADHANDLE MOVED STALE WRONGSEC"),
            ("PUTPUBFH PUTROOTFH", "WRONGSEC"),
            (
                "READ",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO \
                 ISDIR LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT \
                 STALE SYMLINK WRONG_TYPE",
            ),
            (
                "READDIR",
                "ACCESS BAD_COOKIE FHEXPIRED INVAL IO MOVED NOFILEHANDLE NOTDIR NOT_SAME STALE \
                 TOOSMALL",
            ),
            ("READLINK", "ACCESS FHEXPIRED INVAL IO MOVED NOFILEHANDLE STALE WRONG_TYPE"),
            (
                "RECLAIM_COMPLETE",
                "COMPLETE_ALREADY FHEXPIRED INVAL MOVED NOFILEHANDLE STALE WRONG_CRED WRONG_TYPE",
            ),
            (
                "REMOVE",
                "ACCESS BADCHAR BADNAME FHEXPIRED FILE_OPEN GRACE INVAL IO MOVED NAMETOOLONG NOENT \
                 NOFILEHANDLE NOTDIR NOTEMPTY ROFS STALE",
            ),
            (
                "RENAME",
                "ACCESS BADCHAR BADNAME DQUOT EXIST FHEXPIRED FILE_OPEN GRACE INVAL IO MLINK MOVED \
                 NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NOTEMPTY ROFS STALE WRONGSEC XDEV",
            ),
            ("RESTOREFH", "FHEXPIRED MOVED NOFILEHANDLE STALE WRONGSEC"),
            (
                "SECINFO",
                "ACCESS BADCHAR BADNAME FHEXPIRED INVAL MOVED NAMETOOLONG NOENT NOFILEHANDLE NOTDIR \
                 STALE",
            ),
            ("SECINFO_NO_NAME", "ACCESS FHEXPIRED INVAL MOVED NOENT NOFILEHANDLE NOTDIR NOTSUPP STALE"),
            (
                "SEQUENCE",
                "BADSESSION BADSLOT BAD_HIGH_SLOT CONN_NOT_BOUND_TO_SESSION SEQUENCE_POS \
                 SEQ_FALSE_RETRY SEQ_MISORDERED",
            ),
            ("SET_SSV", "BAD_SESSION_DIGEST INVAL"),
            (
                "SETATTR",
                "ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADOWNER BAD_STATEID DELEG_REVOKED DQUOT \
                 EXPIRED FBIG FHEXPIRED GRACE INVAL IO LOCKED MOVED NOFILEHANDLE NOSPC OLD_STATEID \
                 OPENMODE PERM ROFS STALE UNKNOWN_LAYOUTTYPE WRONG_TYPE",
            ),
            ("TEST_STATEID", ""),
            (
                "VERIFY",
                "ACCESS ATTRNOTSUPP BADCHAR FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE NOT_SAME \
                 STALE UNKNOWN_LAYOUTTYPE WRONG_TYPE",
            ),
            (
                "WANT_DELEGATION",
                "DELEG_ALREADY_WANTED FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE NOTSUPP NO_GRACE \
                 RECALLCONFLICT RECLAIM_BAD RECLAIM_CONFLICT STALE WRONG_TYPE",
            ),
            (
                "WRITE",
                "ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE \
                 INVAL IO ISDIR LOCKED MOVED NOFILEHANDLE NOSPC OLD_STATEID OPENMODE PNFS_IO_HOLE \
                 PNFS_NO_LAYOUT ROFS STALE SYMLINK WRONG_TYPE",
            ),
        ],
    },
    Table {
        source: Source { document: Document::Rfc8881, section: "15.3" },
        minor_versions: 1..=2,
        everywhere: EVERYWHERE_IN_SESSIONS,
        rows: &[
            ("CB_GETATTR", "BADHANDLE INVAL"),
            ("CB_ILLEGAL", "OP_ILLEGAL"),
            (
                "CB_LAYOUTRECALL",
                "BADHANDLE BADIOMODE BAD_STATEID INVAL NOMATCHING_LAYOUT NOTSUPP UNKNOWN_LAYOUTTYPE \
                 WRONG_TYPE",
            ),
            ("CB_NOTIFY", "BADHANDLE BAD_STATEID INVAL NOTSUPP"),
            ("CB_NOTIFY_DEVICEID CB_RECALLABLE_OBJ_AVAIL", "INVAL NOTSUPP"),
            ("CB_NOTIFY_LOCK", "BADHANDLE BAD_STATEID NOTSUPP"),
            ("CB_PUSH_DELEG", "BADHANDLE INVAL NOTSUPP REJECT_DELEG WRONG_TYPE"),
            ("CB_RECALL", "BADHANDLE BAD_STATEID"),
            ("CB_RECALL_ANY", "INVAL"),
            ("CB_RECALL_SLOT", "BAD_HIGH_SLOT"),
            (
                "CB_SEQUENCE",
                "BADSESSION BADSLOT BAD_HIGH_SLOT CONN_NOT_BOUND_TO_SESSION SEQUENCE_POS \
                 SEQ_FALSE_RETRY SEQ_MISORDERED",
            ),
            ("CB_WANTS_CANCELLED", "NOTSUPP"),
        ],
    },
];
