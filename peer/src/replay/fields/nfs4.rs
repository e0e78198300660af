//! NFS version 4, minor versions 0 to 2 (RFC 7531, RFC 5662, RFC 7863, RFC 8276), and its callbacks.

use super::Form::{
    self, AttributeBits, Attributes, Choice, Fixed, Grant, Hyper, IfStatus, Item, List, Many, Maybe, Opaque,
    Parts, Perhaps, Word,
};
use super::Kind::{Client, Cookie, Equal, Granted, Handle, Own, Sequence, Session, Stateid, Verifier};
use super::attributes::ACE;
use super::{ENTRY, Operation, hyper, opaque, word, words};
use rdmascope_wire::nfs::nfsstat4;

const NAME: Form = opaque("name");
const HANDLE: Form = Opaque("file handle", Handle);
const STATEID: Form = Parts(&[word("seqid of the stateid"), Fixed(12, "stateid", Stateid)]);
const SESSION: Form = Fixed(16, "session ID", Session);
const CLIENT: Form = Hyper("client ID", Client);
const OWNER: Form = Parts(&[CLIENT, opaque("owner")]);
const RANGE: Form = Parts(&[hyper("offset"), hyper("length")]);
const CHANGE: Form = Parts(&[Word("atomic", Equal), Hyper("before", Own), Hyper("after", Own)]);
const WRITE_VERIFIER: Form = Fixed(8, "write verifier", Verifier);
const TIME: Form = Fixed(12, "time", Own);
/// `nfs_impl_id4`.
const IMPLEMENTATION: Form =
    Many("impl_id", &[Opaque("nii_domain", Own), Opaque("nii_name", Own), Fixed(12, "nii_date", Own)]);
/// `netaddr4`.
const ADDRESS: Form = Parts(&[opaque("netid"), opaque("addr")]);
/// `netloc4`.
const LOCATION: Form = Choice("netloc4", &[(1, &[NAME]), (2, &[NAME]), (3, &[ADDRESS])]);
/// `channel_attrs4`.
const CHANNEL: Form = Parts(&[
    word("ca_headerpadsize"),
    word("ca_maxrequestsize"),
    word("ca_maxresponsesize"),
    word("ca_maxresponsesize_cached"),
    word("ca_maxoperations"),
    word("ca_maxrequests"),
    words("ca_rdma_ird"),
]);
/// `callback_sec_parms4`.
const CALLBACK_SECURITY: Form = Many(
    "csa_sec_parms",
    &[Choice(
        "flavor",
        &[
            (0, &[]),
            (1, &[word("stamp"), opaque("machinename"), word("uid"), word("gid"), words("gids")]),
            (6, &[word("service"), opaque("handle"), opaque("handle")]),
        ],
    )],
);
/// `state_protect_ops4`.
const PROTECTED: Form = Parts(&[words("spo_must_enforce"), words("spo_must_allow")]);
const BODY: Form = Parts(&[word("type"), opaque("body")]);
/// `open_delegation4`, with the arms of RFC 9754.
const DELEGATION: Form = Choice(
    "delegation_type",
    &[
        (0, &[]),
        (1, READ_DELEGATION),
        (2, WRITE_DELEGATION),
        (3, &[Perhaps("ond_why", &[(1, &[word("will push")]), (2, &[word("will signal")])])]),
        (4, READ_DELEGATION),
        (5, WRITE_DELEGATION),
    ],
);
const READ_DELEGATION: &[Form] = &[STATEID, word("recall"), Parts(ACE)];
const WRITE_DELEGATION: &[Form] = &[
    STATEID,
    word("recall"),
    Choice("limitby", &[(1, &[Hyper("filesize", Own)]), (2, &[Hyper("blocks", Own)])]),
    Parts(ACE),
];
/// `write_response4`.
const WRITTEN: Form =
    Parts(&[Many("wr_callback_id", &[STATEID]), hyper("wr_count"), word("wr_committed"), WRITE_VERIFIER]);
const FLAVORS: &[Form] =
    &[Many("flavors", &[Perhaps("flavor", &[(6, &[opaque("oid"), word("qop"), word("service")])])])];
const SEEN: Form = Parts(&[hyper("offset"), hyper("length"), OWNER_OF_LOCK]);
const OWNER_OF_LOCK: Form = Parts(&[word("locktype"), CLIENT, opaque("owner")]);

/// An operation of a COMPOUND with nothing behind a status other than NFS4_OK.
const fn op(
    code: u32,
    name: &'static str,
    arguments: &'static [Form],
    success: &'static [Form],
) -> Operation {
    Operation::new(code, name, arguments, success, &[])
}

pub(super) static OPERATIONS: [Operation; 74] = [
    op(3, "ACCESS", &[word("access")], &[word("supported"), word("access")]),
    op(4, "CLOSE", &[word("seqid"), STATEID], &[STATEID]),
    op(5, "COMMIT", &[hyper("offset"), word("count")], &[WRITE_VERIFIER]),
    op(
        6,
        "CREATE",
        &[
            Perhaps(
                "objtype",
                &[
                    (5, &[Item("linkdata")]),
                    (3, &[Fixed(8, "devdata", Equal)]),
                    (4, &[Fixed(8, "devdata", Equal)]),
                ],
            ),
            NAME,
            Attributes,
        ],
        &[CHANGE, AttributeBits("attrset", Equal)],
    ),
    op(7, "DELEGPURGE", &[CLIENT], &[]),
    op(8, "DELEGRETURN", &[STATEID], &[]),
    op(9, "GETATTR", &[words("attr_request")], &[Attributes]),
    op(10, "GETFH", &[], &[HANDLE]),
    op(11, "LINK", &[NAME], &[CHANGE]),
    Operation::new(
        12,
        "LOCK",
        &[
            word("locktype"),
            word("reclaim"),
            RANGE,
            Choice(
                "new_lock_owner",
                &[
                    (1, &[word("open_seqid"), STATEID, word("lock_seqid"), OWNER]),
                    (0, &[STATEID, word("lock_seqid")]),
                ],
            ),
        ],
        &[STATEID],
        &[IfStatus(nfsstat4::DENIED, &[SEEN])],
    ),
    Operation::new(
        13,
        "LOCKT",
        &[word("locktype"), RANGE, OWNER],
        &[],
        &[IfStatus(nfsstat4::DENIED, &[SEEN])],
    ),
    op(14, "LOCKU", &[word("locktype"), word("seqid"), STATEID, RANGE], &[STATEID]),
    op(15, "LOOKUP", &[NAME], &[]),
    op(16, "LOOKUPP", &[], &[]),
    op(17, "NVERIFY", &[Attributes], &[]),
    op(
        18,
        "OPEN",
        &[
            word("seqid"),
            word("share_access"),
            word("share_deny"),
            OWNER,
            Choice(
                "opentype",
                &[
                    (0, &[]),
                    (
                        1,
                        &[Choice(
                            "createmode",
                            &[
                                (0, &[Attributes]),
                                (1, &[Attributes]),
                                (2, &[Fixed(8, "createverf", Equal)]),
                                (3, &[Fixed(8, "cva_verf", Equal), Attributes]),
                            ],
                        )],
                    ),
                ],
            ),
            Choice(
                "claim",
                &[
                    (0, &[NAME]),
                    (1, &[word("delegate_type")]),
                    (2, &[STATEID, NAME]),
                    (3, &[NAME]),
                    (4, &[]),
                    (5, &[STATEID]),
                    (6, &[]),
                ],
            ),
        ],
        &[STATEID, CHANGE, Word("rflags", Granted), AttributeBits("attrset", Equal), Grant(&[DELEGATION])],
    ),
    op(19, "OPENATTR", &[word("createdir")], &[]),
    op(20, "OPEN_CONFIRM", &[STATEID, word("seqid")], &[STATEID]),
    op(21, "OPEN_DOWNGRADE", &[STATEID, word("seqid"), word("share_access"), word("share_deny")], &[STATEID]),
    op(22, "PUTFH", &[HANDLE], &[]),
    op(23, "PUTPUBFH", &[], &[]),
    op(24, "PUTROOTFH", &[], &[]),
    op(25, "READ", &[STATEID, hyper("offset"), word("count")], &[word("eof"), Item("data")]),
    op(
        26,
        "READDIR",
        &[
            Hyper("cookie", Cookie),
            Fixed(8, "cookie verifier", Verifier),
            word("dircount"),
            word("maxcount"),
            words("attr_request"),
        ],
        &[
            Fixed(8, "cookie verifier", Verifier),
            List(ENTRY, &[Hyper("cookie", Cookie), NAME, Attributes]),
            word("eof"),
        ],
    ),
    op(27, "READLINK", &[], &[Item("link")]),
    op(28, "REMOVE", &[NAME], &[CHANGE]),
    op(29, "RENAME", &[NAME, NAME], &[CHANGE, CHANGE]),
    op(30, "RENEW", &[CLIENT], &[]),
    op(31, "RESTOREFH", &[], &[]),
    op(32, "SAVEFH", &[], &[]),
    op(33, "SECINFO", &[NAME], FLAVORS),
    Operation::new(
        34,
        "SETATTR",
        &[STATEID, Attributes],
        &[AttributeBits("attrsset", Equal)],
        &[AttributeBits("attrsset", Equal)],
    ),
    Operation::new(
        35,
        "SETCLIENTID",
        &[
            Fixed(8, "verifier of the client", Equal),
            opaque("id"),
            word("cb_program"),
            ADDRESS,
            word("callback_ident"),
        ],
        &[CLIENT, Fixed(8, "setclientid_confirm", Verifier)],
        &[IfStatus(nfsstat4::CLID_INUSE, &[ADDRESS])],
    ),
    op(36, "SETCLIENTID_CONFIRM", &[CLIENT, Fixed(8, "setclientid_confirm", Verifier)], &[]),
    op(37, "VERIFY", &[Attributes], &[]),
    op(
        38,
        "WRITE",
        &[STATEID, hyper("offset"), word("stable"), Item("data")],
        &[Word("count", Granted), Word("committed", Granted), WRITE_VERIFIER],
    ),
    op(39, "RELEASE_LOCKOWNER", &[OWNER], &[]),
    op(10044, "ILLEGAL", &[], &[]),
    op(40, "BACKCHANNEL_CTL", &[word("cb_program"), CALLBACK_SECURITY], &[]),
    op(
        41,
        "BIND_CONN_TO_SESSION",
        &[SESSION, word("dir"), word("use_conn_in_rdma_mode")],
        &[SESSION, word("dir"), word("use_conn_in_rdma_mode")],
    ),
    op(
        42,
        "EXCHANGE_ID",
        &[
            Fixed(8, "verifier of the client", Equal),
            opaque("co_ownerid"),
            word("flags"),
            Choice(
                "state_protect",
                &[
                    (0, &[]),
                    (1, &[PROTECTED]),
                    (
                        2,
                        &[
                            PROTECTED,
                            Many("hash_algs", &[opaque("oid")]),
                            Many("encr_algs", &[opaque("oid")]),
                            word("window"),
                            word("num_gss_handles"),
                        ],
                    ),
                ],
            ),
            IMPLEMENTATION,
        ],
        &[
            CLIENT,
            Word("eir_sequenceid", Sequence),
            Word("flags", Granted),
            Choice(
                "state_protect",
                &[
                    (0, &[]),
                    (1, &[PROTECTED]),
                    (
                        2,
                        &[
                            PROTECTED,
                            word("hash_alg"),
                            word("encr_alg"),
                            word("ssv_len"),
                            word("window"),
                            Many("handles", &[Opaque("handle", Own)]),
                        ],
                    ),
                ],
            ),
            Hyper("so_minor_id", Own),
            Opaque("so_major_id", Own),
            Opaque("server_scope", Own),
            Grant(&[IMPLEMENTATION]),
        ],
    ),
    op(
        43,
        "CREATE_SESSION",
        &[
            CLIENT,
            Word("csa_sequence", Sequence),
            word("flags"),
            CHANNEL,
            CHANNEL,
            word("cb_program"),
            CALLBACK_SECURITY,
        ],
        &[SESSION, Word("csr_sequence", Own), Grant(&[word("flags"), CHANNEL, CHANNEL])],
    ),
    op(44, "DESTROY_SESSION", &[SESSION], &[]),
    op(45, "FREE_STATEID", &[STATEID], &[]),
    op(
        46,
        "GET_DIR_DELEGATION",
        &[
            word("signal"),
            words("notification_types"),
            Fixed(12, "child_attr_delay", Equal),
            Fixed(12, "dir_attr_delay", Equal),
            words("child_attributes"),
            words("dir_attributes"),
        ],
        &[Choice(
            "gddrnf_status",
            &[
                (
                    0,
                    &[
                        Fixed(8, "cookie verifier", Verifier),
                        STATEID,
                        words("notification"),
                        words("child_attributes"),
                        words("dir_attributes"),
                    ],
                ),
                (1, &[word("will_signal")]),
            ],
        )],
    ),
    Operation::new(
        47,
        "GETDEVICEINFO",
        &[Fixed(16, "deviceid", Stateid), word("layout_type"), word("maxcount"), words("notify_types")],
        &[word("layout_type"), opaque("da_addr_body"), words("notification")],
        &[IfStatus(nfsstat4::TOOSMALL, &[word("mincount")])],
    ),
    op(
        48,
        "GETDEVICELIST",
        &[
            word("layout_type"),
            word("maxdevices"),
            Hyper("cookie", Cookie),
            Fixed(8, "cookie verifier", Verifier),
        ],
        &[
            Hyper("cookie", Cookie),
            Fixed(8, "cookie verifier", Verifier),
            Many("deviceid_list", &[Fixed(16, "deviceid", Stateid)]),
            word("eof"),
        ],
    ),
    op(
        49,
        "LAYOUTCOMMIT",
        &[
            RANGE,
            word("reclaim"),
            STATEID,
            Maybe("newoffset", &[hyper("offset")]),
            Maybe("newtime", &[Fixed(12, "time", Equal)]),
            BODY,
        ],
        &[Maybe("newsize", &[hyper("size")])],
    ),
    Operation::new(
        50,
        "LAYOUTGET",
        &[
            word("signal"),
            word("layout_type"),
            word("iomode"),
            RANGE,
            hyper("minlength"),
            STATEID,
            word("maxcount"),
        ],
        &[
            word("return_on_close"),
            STATEID,
            Many("layout", &[RANGE, word("iomode"), word("layout_type"), Opaque("body", Own)]),
        ],
        &[IfStatus(nfsstat4::LAYOUTTRYLATER, &[word("will_signal")])],
    ),
    op(
        51,
        "LAYOUTRETURN",
        &[
            word("reclaim"),
            word("layout_type"),
            word("iomode"),
            Perhaps("returntype", &[(1, &[RANGE, STATEID, opaque("lrf_body")])]),
        ],
        &[Maybe("stateid_present", &[STATEID])],
    ),
    op(52, "SECINFO_NO_NAME", &[word("style")], FLAVORS),
    op(
        53,
        "SEQUENCE",
        &[SESSION, word("sequenceid"), word("slotid"), word("highest_slotid"), word("cachethis")],
        &[
            SESSION,
            word("sequenceid"),
            word("slotid"),
            Word("highest_slotid", Granted),
            Word("target_highest_slotid", Granted),
            word("status_flags"),
        ],
    ),
    op(54, "SET_SSV", &[opaque("ssv"), opaque("digest")], &[Opaque("digest", Own)]),
    op(55, "TEST_STATEID", &[Many("stateids", &[STATEID])], &[words("status_codes")]),
    op(
        56,
        "WANT_DELEGATION",
        &[word("want"), Choice("claim", &[(4, &[]), (6, &[]), (1, &[word("delegate_type")])])],
        &[Grant(&[DELEGATION])],
    ),
    op(57, "DESTROY_CLIENTID", &[CLIENT], &[]),
    op(58, "RECLAIM_COMPLETE", &[word("one_fs")], &[]),
    op(59, "ALLOCATE", &[STATEID, RANGE], &[]),
    Operation::new(
        60,
        "COPY",
        &[
            STATEID,
            STATEID,
            hyper("src_offset"),
            hyper("dst_offset"),
            hyper("count"),
            word("consecutive"),
            word("synchronous"),
            Many("source_server", &[LOCATION]),
        ],
        &[Grant(&[WRITTEN, word("consecutive"), word("synchronous")])],
        &[IfStatus(nfsstat4::OFFLOAD_NO_REQS, &[word("consecutive"), word("synchronous")])],
    ),
    op(61, "COPY_NOTIFY", &[STATEID, LOCATION], &[TIME, STATEID, Many("source_server", &[LOCATION])]),
    op(62, "DEALLOCATE", &[STATEID, RANGE], &[]),
    op(63, "IO_ADVISE", &[STATEID, RANGE, words("hints")], &[words("hints")]),
    op(
        64,
        "LAYOUTERROR",
        &[RANGE, STATEID, Many("errors", &[Fixed(16, "deviceid", Stateid), word("status"), word("opnum")])],
        &[],
    ),
    op(
        65,
        "LAYOUTSTATS",
        &[
            RANGE,
            STATEID,
            Fixed(16, "read", Equal),
            Fixed(16, "write", Equal),
            Fixed(16, "deviceid", Stateid),
            BODY,
        ],
        &[],
    ),
    op(66, "OFFLOAD_CANCEL", &[STATEID], &[]),
    op(67, "OFFLOAD_STATUS", &[STATEID], &[Hyper("count", Own), words("complete")]),
    op(
        68,
        "READ_PLUS",
        &[STATEID, hyper("offset"), word("count")],
        &[
            word("eof"),
            Many(
                "contents",
                &[Perhaps("content", &[(0, &[hyper("offset"), opaque("data")]), (1, &[RANGE])])],
            ),
        ],
    ),
    op(69, "SEEK", &[STATEID, hyper("offset"), word("what")], &[word("eof"), hyper("offset")]),
    op(
        70,
        "WRITE_SAME",
        &[
            STATEID,
            word("stable"),
            hyper("offset"),
            hyper("block_size"),
            hyper("block_count"),
            hyper("reloff_blocknum"),
            word("block_num"),
            hyper("reloff_pattern"),
            opaque("pattern"),
        ],
        &[WRITTEN],
    ),
    op(71, "CLONE", &[STATEID, STATEID, hyper("src_offset"), hyper("dst_offset"), hyper("count")], &[]),
    op(72, "GETXATTR", &[NAME], &[opaque("value")]),
    op(73, "SETXATTR", &[word("option"), NAME, opaque("value")], &[CHANGE]),
    op(
        74,
        "LISTXATTRS",
        &[Hyper("cookie", Cookie), word("maxcount")],
        &[Hyper("cookie", Cookie), Many("names", &[NAME]), word("eof")],
    ),
    op(75, "REMOVEXATTR", &[NAME], &[CHANGE]),
];

/// The operations of a CB_COMPOUND that are read; where another one begins, the rest is not understood.
pub(super) static CALLBACK_OPERATIONS: [Operation; 9] = [
    op(3, "CB_GETATTR", &[HANDLE, words("attr_request")], &[Attributes]),
    op(4, "CB_RECALL", &[STATEID, word("truncate"), HANDLE], &[]),
    op(8, "CB_RECALL_ANY", &[word("objects_to_keep"), words("type_mask")], &[]),
    op(10, "CB_RECALL_SLOT", &[word("target_highest_slotid")], &[]),
    op(
        11,
        "CB_SEQUENCE",
        &[
            SESSION,
            Word("sequenceid", Granted),
            Word("slotid", Granted),
            Word("highest_slotid", Granted),
            word("cachethis"),
            Grant(&[Many("referring_call_lists", &[SESSION, Many("referring_calls", &[RANGE_OF_CALLS])])]),
        ],
        &[
            SESSION,
            word("sequenceid"),
            word("slotid"),
            Word("highest_slotid", Granted),
            Word("target_highest_slotid", Granted),
        ],
    ),
    op(12, "CB_WANTS_CANCELLED", &[word("contended"), word("resourced")], &[]),
    op(13, "CB_NOTIFY_LOCK", &[HANDLE, OWNER], &[]),
    op(15, "CB_OFFLOAD", &[HANDLE, STATEID, Choice("status", &[(0, &[WRITTEN])])], &[]),
    op(10044, "CB_ILLEGAL", &[], &[]),
];

/// `referring_call4`.
const RANGE_OF_CALLS: Form = Parts(&[word("sequenceid"), word("slotid")]);
