//! The tables beside the specifications' own enums, copied here by hand.

use super::super::*;
use std::collections::BTreeMap;

/// Numbers and names.
type Specified = &'static [(u32, &'static str)];

/// `nfs_opnum4` of RFC 7531.
const MINOR_VERSION_0: Specified = &[
    (3, "ACCESS"),
    (4, "CLOSE"),
    (5, "COMMIT"),
    (6, "CREATE"),
    (7, "DELEGPURGE"),
    (8, "DELEGRETURN"),
    (9, "GETATTR"),
    (10, "GETFH"),
    (11, "LINK"),
    (12, "LOCK"),
    (13, "LOCKT"),
    (14, "LOCKU"),
    (15, "LOOKUP"),
    (16, "LOOKUPP"),
    (17, "NVERIFY"),
    (18, "OPEN"),
    (19, "OPENATTR"),
    (20, "OPEN_CONFIRM"),
    (21, "OPEN_DOWNGRADE"),
    (22, "PUTFH"),
    (23, "PUTPUBFH"),
    (24, "PUTROOTFH"),
    (25, "READ"),
    (26, "READDIR"),
    (27, "READLINK"),
    (28, "REMOVE"),
    (29, "RENAME"),
    (30, "RENEW"),
    (31, "RESTOREFH"),
    (32, "SAVEFH"),
    (33, "SECINFO"),
    (34, "SETATTR"),
    (35, "SETCLIENTID"),
    (36, "SETCLIENTID_CONFIRM"),
    (37, "VERIFY"),
    (38, "WRITE"),
    (39, "RELEASE_LOCKOWNER"),
    (10044, "ILLEGAL"),
];

/// What `nfs_opnum4` of RFC 5662 has besides.
const MINOR_VERSION_1: Specified = &[
    (40, "BACKCHANNEL_CTL"),
    (41, "BIND_CONN_TO_SESSION"),
    (42, "EXCHANGE_ID"),
    (43, "CREATE_SESSION"),
    (44, "DESTROY_SESSION"),
    (45, "FREE_STATEID"),
    (46, "GET_DIR_DELEGATION"),
    (47, "GETDEVICEINFO"),
    (48, "GETDEVICELIST"),
    (49, "LAYOUTCOMMIT"),
    (50, "LAYOUTGET"),
    (51, "LAYOUTRETURN"),
    (52, "SECINFO_NO_NAME"),
    (53, "SEQUENCE"),
    (54, "SET_SSV"),
    (55, "TEST_STATEID"),
    (56, "WANT_DELEGATION"),
    (57, "DESTROY_CLIENTID"),
    (58, "RECLAIM_COMPLETE"),
];

/// What `nfs_opnum4` of RFC 7863 has besides, and section 8.6 of RFC 8276.
const MINOR_VERSION_2: Specified = &[
    (59, "ALLOCATE"),
    (60, "COPY"),
    (61, "COPY_NOTIFY"),
    (62, "DEALLOCATE"),
    (63, "IO_ADVISE"),
    (64, "LAYOUTERROR"),
    (65, "LAYOUTSTATS"),
    (66, "OFFLOAD_CANCEL"),
    (67, "OFFLOAD_STATUS"),
    (68, "READ_PLUS"),
    (69, "SEEK"),
    (70, "WRITE_SAME"),
    (71, "CLONE"),
    (72, "GETXATTR"),
    (73, "SETXATTR"),
    (74, "LISTXATTRS"),
    (75, "REMOVEXATTR"),
];

/// `nfs_cb_opnum4` of RFC 7531.
const CALLBACK_0: Specified = &[(3, "CB_GETATTR"), (4, "CB_RECALL"), (10044, "CB_ILLEGAL")];

/// What `nfs_cb_opnum4` of RFC 5662 has besides.
const CALLBACK_1: Specified = &[
    (5, "CB_LAYOUTRECALL"),
    (6, "CB_NOTIFY"),
    (7, "CB_PUSH_DELEG"),
    (8, "CB_RECALL_ANY"),
    (9, "CB_RECALLABLE_OBJ_AVAIL"),
    (10, "CB_RECALL_SLOT"),
    (11, "CB_SEQUENCE"),
    (12, "CB_WANTS_CANCELLED"),
    (13, "CB_NOTIFY_LOCK"),
    (14, "CB_NOTIFY_DEVICEID"),
];

/// What `nfs_cb_opnum4` of RFC 7863 has besides.
const CALLBACK_2: Specified = &[(15, "CB_OFFLOAD")];

/// `NFSPROC_…` of RFC 1094, section 2.2.
const VERSION_2: Specified = &[
    (0, "NULL"),
    (1, "GETATTR"),
    (2, "SETATTR"),
    (3, "ROOT"),
    (4, "LOOKUP"),
    (5, "READLINK"),
    (6, "READ"),
    (7, "WRITECACHE"),
    (8, "WRITE"),
    (9, "CREATE"),
    (10, "REMOVE"),
    (11, "RENAME"),
    (12, "LINK"),
    (13, "SYMLINK"),
    (14, "MKDIR"),
    (15, "RMDIR"),
    (16, "READDIR"),
    (17, "STATFS"),
];

/// `NFSPROC3_…` of RFC 1813, section 3.
const VERSION_3: Specified = &[
    (0, "NULL"),
    (1, "GETATTR"),
    (2, "SETATTR"),
    (3, "LOOKUP"),
    (4, "ACCESS"),
    (5, "READLINK"),
    (6, "READ"),
    (7, "WRITE"),
    (8, "CREATE"),
    (9, "MKDIR"),
    (10, "SYMLINK"),
    (11, "MKNOD"),
    (12, "REMOVE"),
    (13, "RMDIR"),
    (14, "RENAME"),
    (15, "LINK"),
    (16, "READDIR"),
    (17, "READDIRPLUS"),
    (18, "FSSTAT"),
    (19, "FSINFO"),
    (20, "PATHCONF"),
    (21, "COMMIT"),
];

/// `ACLPROC2_…` and `ACLPROC3_…` as Solaris and Linux have them.
const ACL_2: &[(u32, &str)] =
    &[(0, "NULL"), (1, "GETACL"), (2, "SETACL"), (3, "GETATTR"), (4, "ACCESS"), (5, "GETXATTRDIR")];

const ACL_3: Specified = &[(0, "NULL"), (1, "GETACL"), (2, "SETACL"), (3, "GETXATTRDIR")];

/// Compares a table with what the specification says, by minor version: each number with its name, both ways, and no number besides.
fn same<O: Operations + core::fmt::Debug>(all: &[O], specified: &[(Option<u32>, Specified)]) {
    let mut expected = BTreeMap::new();
    for (minor, operations) in specified {
        for (code, name) in *operations {
            assert_eq!(expected.insert(*code, (*name, *minor)), None, "{code} is copied twice");
        }
    }
    let rows: BTreeMap<_, _> =
        all.iter().map(|one| (one.row().code, (one.row().name, one.row().minor_version))).collect();
    assert_eq!(rows.len(), all.len(), "a number stands in two rows");
    assert_eq!(rows, expected);
    for code in (0..200).chain([10_043, 10_044, 10_045, u32::MAX]) {
        let found = O::of(code);
        assert_eq!(found.map(|one| (one.row().name, one.row().minor_version)), expected.get(&code).copied());
    }
    for operation in all {
        let kind: OperationKind = (*operation).into();
        let row = operation.row();
        assert_eq!((kind.code(), kind.name(), kind.minor_version()), (row.code, row.name, row.minor_version));
        assert_eq!((kind.is_auxiliary(), kind.ddp_eligible()), (row.auxiliary, row.eligible));
        // The variant is the name without the prefix of callbacks.
        let variant = format!("{operation:?}").to_uppercase();
        assert_eq!(variant, row.name.strip_prefix("CB_").unwrap_or(row.name).replace('_', ""));
    }
}

#[test]
fn the_rows_are_those_of_the_specifications() {
    same(Nfs2::ALL, &[(None, VERSION_2)]);
    same(Nfs3::ALL, &[(None, VERSION_3)]);
    same(NfsAcl2::ALL, &[(None, ACL_2)]);
    same(NfsAcl3::ALL, &[(None, ACL_3)]);
    same(Nfs4Procedure::ALL, &[(None, &[(0, "NULL")])]);
    same(Nfs4::ALL, &[(Some(0), MINOR_VERSION_0), (Some(1), MINOR_VERSION_1), (Some(2), MINOR_VERSION_2)]);
    same(CallbackProcedure::ALL, &[(None, &[(0, "CB_NULL")])]);
    same(Callback::ALL, &[(Some(0), CALLBACK_0), (Some(1), CALLBACK_1), (Some(2), CALLBACK_2)]);
}

#[test]
fn ddp_eligible_is_what_rfc_8267_lists() {
    fn eligible<O: Operations>(all: &[O]) -> Vec<(&'static str, DdpEligible)> {
        let rows = all.iter().map(|one| one.row()).filter(|row| row.eligible != DdpEligible::Nothing);
        rows.map(|row| (row.name, row.eligible)).collect()
    }
    use DdpEligible::{Argument, Result};
    // Section 4.
    let legacy = [("READLINK", Result), ("READ", Result), ("WRITE", Argument), ("SYMLINK", Argument)];
    assert_eq!(eligible(Nfs2::ALL), legacy);
    assert_eq!(eligible(Nfs3::ALL), legacy);
    // Section 5.2.
    assert_eq!(eligible(NfsAcl2::ALL), []);
    assert_eq!(eligible(NfsAcl3::ALL), []);
    // Section 6.1.
    let of_version_4 = [("CREATE", Argument), ("READ", Result), ("READLINK", Result), ("WRITE", Argument)];
    assert_eq!(eligible(Nfs4::ALL), of_version_4);
    // Section 6.5.
    assert_eq!(eligible(Callback::ALL), []);
}

#[test]
fn what_only_serves_the_rest_of_a_compound() {
    let auxiliary = |kind: &OperationKind| kind.is_auxiliary();
    let names: Vec<_> =
        Nfs4::ALL.iter().map(|one| (*one).into()).filter(auxiliary).map(OperationKind::name).collect();
    assert_eq!(
        names,
        ["GETATTR", "GETFH", "PUTFH", "PUTPUBFH", "PUTROOTFH", "RESTOREFH", "SAVEFH", "SEQUENCE"]
    );
    let callbacks: Vec<_> =
        Callback::ALL.iter().map(|one| (*one).into()).filter(auxiliary).map(OperationKind::name).collect();
    assert_eq!(callbacks, ["CB_SEQUENCE"]);
}

#[test]
fn a_number_without_a_row_is_told() {
    for (kind, name) in
        [(OperationKind::Unknown(99), "operation"), (OperationKind::UnknownProcedure(99), "procedure")]
    {
        assert_eq!((kind.name(), kind.code(), kind.minor_version()), (name, 99, None));
        assert_eq!((kind.is_auxiliary(), kind.ddp_eligible()), (false, DdpEligible::Nothing));
    }
}
