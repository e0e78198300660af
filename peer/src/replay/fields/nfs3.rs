//! NFS version 3 (RFC 1813), and NFSACL version 3, which has no public definition.

use super::Form::{self, Choice, Fixed, Hyper, Item, List, Many, Maybe, Opaque, Parts, Perhaps};
use super::Kind::{self, Cookie, Equal, Handle, Own, Verifier};
use super::{ENTRY as NEXT, Operation, hyper, opaque, word};

const HANDLE: Form = Opaque("file handle", Handle);
const NAME: Form = opaque("name");

/// Section 2.6: `fattr3`.
const FATTR: &[Form] = &[
    word("type"),
    word("mode"),
    word("nlink"),
    word("uid"),
    word("gid"),
    hyper("size"),
    Hyper("used", Own),
    Fixed(8, "rdev", Equal),
    Hyper("fsid", Own),
    Hyper("fileid", Own),
    Hyper("atime", Own),
    Hyper("mtime", Own),
    Hyper("ctime", Kind::ChangeTime),
];
const ATTRIBUTES: Form = Maybe("attributes", FATTR);
/// `wcc_data`.
const CHANGED: Form = Parts(&[
    Maybe("pre_op_attr", &[hyper("size"), Hyper("mtime", Own), Hyper("ctime", Own)]),
    Maybe("post_op_attr", FATTR),
]);
/// `sattr3`.
const SETTABLE: Form = Parts(&[
    Maybe("set_mode", &[word("mode")]),
    Maybe("set_uid", &[word("uid")]),
    Maybe("set_gid", &[word("gid")]),
    Maybe("set_size", &[hyper("size")]),
    Choice("set_atime", &[(0, &[]), (1, &[]), (2, &[hyper("atime")])]),
    Choice("set_mtime", &[(0, &[]), (1, &[]), (2, &[hyper("mtime")])]),
]);
const ENTRY: Form = Parts(&[HANDLE, NAME]);
const CREATED: &[Form] = &[Maybe("handle_follows", &[HANDLE]), ATTRIBUTES, CHANGED];
const RANGE: &[Form] = &[HANDLE, hyper("offset"), word("count")];

pub(super) static PROCEDURES: [Operation; 21] = [
    Operation::new(1, "GETATTR", &[HANDLE], FATTR, &[]),
    Operation::new(
        2,
        "SETATTR",
        &[HANDLE, SETTABLE, Maybe("guard", &[Hyper("ctime", Kind::ChangeTime)])],
        &[CHANGED],
        &[CHANGED],
    ),
    Operation::new(3, "LOOKUP", &[ENTRY], &[HANDLE, ATTRIBUTES, ATTRIBUTES], &[ATTRIBUTES]),
    Operation::new(4, "ACCESS", &[HANDLE, word("access")], &[ATTRIBUTES, word("access")], &[ATTRIBUTES]),
    Operation::new(5, "READLINK", &[HANDLE], &[ATTRIBUTES, Item("text")], &[ATTRIBUTES]),
    Operation::new(6, "READ", RANGE, &[ATTRIBUTES, word("count"), word("eof"), Item("data")], &[ATTRIBUTES]),
    Operation::new(
        7,
        "WRITE",
        &[HANDLE, hyper("offset"), word("count"), word("stable"), Item("data")],
        &[CHANGED, word("count"), word("committed"), Fixed(8, "write verifier", Verifier)],
        &[CHANGED],
    ),
    Operation::new(
        8,
        "CREATE",
        &[
            ENTRY,
            Choice("createmode", &[(0, &[SETTABLE]), (1, &[SETTABLE]), (2, &[Fixed(8, "verifier", Equal)])]),
        ],
        CREATED,
        &[CHANGED],
    ),
    Operation::new(9, "MKDIR", &[ENTRY, SETTABLE], CREATED, &[CHANGED]),
    Operation::new(10, "SYMLINK", &[ENTRY, SETTABLE, Item("text")], CREATED, &[CHANGED]),
    Operation::new(
        11,
        "MKNOD",
        &[
            ENTRY,
            Perhaps(
                "type",
                &[
                    (3, &[SETTABLE, Fixed(8, "device", Equal)]),
                    (4, &[SETTABLE, Fixed(8, "device", Equal)]),
                    (6, &[SETTABLE]),
                    (7, &[SETTABLE]),
                ],
            ),
        ],
        CREATED,
        &[CHANGED],
    ),
    Operation::new(12, "REMOVE", &[ENTRY], &[CHANGED], &[CHANGED]),
    Operation::new(13, "RMDIR", &[ENTRY], &[CHANGED], &[CHANGED]),
    Operation::new(14, "RENAME", &[ENTRY, ENTRY], &[CHANGED, CHANGED], &[CHANGED, CHANGED]),
    Operation::new(15, "LINK", &[HANDLE, ENTRY], &[ATTRIBUTES, CHANGED], &[ATTRIBUTES, CHANGED]),
    Operation::new(
        16,
        "READDIR",
        &[HANDLE, Hyper("cookie", Cookie), Fixed(8, "cookie verifier", Verifier), word("count")],
        &[
            ATTRIBUTES,
            Fixed(8, "cookie verifier", Verifier),
            List(NEXT, &[Hyper("fileid", Own), NAME, Hyper("cookie", Cookie)]),
            word("eof"),
        ],
        &[ATTRIBUTES],
    ),
    Operation::new(
        17,
        "READDIRPLUS",
        &[
            HANDLE,
            Hyper("cookie", Cookie),
            Fixed(8, "cookie verifier", Verifier),
            word("dircount"),
            word("maxcount"),
        ],
        &[
            ATTRIBUTES,
            Fixed(8, "cookie verifier", Verifier),
            List(
                NEXT,
                &[
                    Hyper("fileid", Own),
                    NAME,
                    Hyper("cookie", Cookie),
                    ATTRIBUTES,
                    Maybe("name_handle", &[HANDLE]),
                ],
            ),
            word("eof"),
        ],
        &[ATTRIBUTES],
    ),
    Operation::new(
        18,
        "FSSTAT",
        &[HANDLE],
        &[
            ATTRIBUTES,
            Hyper("tbytes", Own),
            Hyper("fbytes", Own),
            Hyper("abytes", Own),
            Hyper("tfiles", Own),
            Hyper("ffiles", Own),
            Hyper("afiles", Own),
            word("invarsec"),
        ],
        &[ATTRIBUTES],
    ),
    Operation::new(
        19,
        "FSINFO",
        &[HANDLE],
        &[
            ATTRIBUTES,
            word("rtmax"),
            word("rtpref"),
            word("rtmult"),
            word("wtmax"),
            word("wtpref"),
            word("wtmult"),
            word("dtpref"),
            hyper("maxfilesize"),
            hyper("time_delta"),
            word("properties"),
        ],
        &[ATTRIBUTES],
    ),
    Operation::new(
        20,
        "PATHCONF",
        &[HANDLE],
        &[
            ATTRIBUTES,
            word("linkmax"),
            word("name_max"),
            word("no_trunc"),
            word("chown_restricted"),
            word("case_insensitive"),
            word("case_preserving"),
        ],
        &[ATTRIBUTES],
    ),
    Operation::new(21, "COMMIT", RANGE, &[CHANGED, Fixed(8, "write verifier", Verifier)], &[CHANGED]),
];

/// A mask of what is there, then the ACL and the default ACL, each with a number of entries in front.
const ACLS: Form = Parts(&[word("mask"), ACL, ACL]);
const ACL: Form = Parts(&[word("entries"), Many("acl", &[word("type"), word("id"), word("permissions")])]);

pub(super) static ACL_PROCEDURES: [Operation; 3] = [
    Operation::new(1, "GETACL", &[HANDLE, word("mask")], &[ATTRIBUTES, ACLS], &[ATTRIBUTES]),
    Operation::new(2, "SETACL", &[HANDLE, ACLS], &[ATTRIBUTES], &[ATTRIBUTES]),
    Operation::new(3, "GETXATTRDIR", &[HANDLE, word("create")], &[HANDLE, ATTRIBUTES], &[]),
];
