//! The attributes of NFS version 4 by their numbers (RFC 7531, RFC 5662, RFC 7863, RFC 8276, RFC 9754).

use super::Form::{self, Choice, Fixed, Hyper, Many, Opaque, Part, Word};
use super::Kind::{Equal, Handle, Own};
use super::{hyper, opaque, word, words};

/// A `nfstime4`.
pub(super) const fn time(name: &'static str) -> Form {
    Fixed(12, name, Own)
}

/// An `nfsace4`.
pub(super) const ACE: &[Form] = &[word("acetype4"), word("aceflag4"), word("acemask4"), opaque("who")];

/// The value of an attribute. `None`: it is not known how long it is.
pub(super) fn form(number: u32) -> Option<Form> {
    Some(match number {
        0 => words("supported_attrs"),
        1 => word("type"),
        2 => word("fh_expire_type"),
        3 => Hyper("change", Own),
        4 => hyper("size"),
        5 => word("link_support"),
        6 => word("symlink_support"),
        7 => word("named_attr"),
        8 => Fixed(16, "fsid", Own),
        9 => word("unique_handles"),
        10 => word("lease_time"),
        11 => word("rdattr_error"),
        12 => Many("acl", ACE),
        13 => word("aclsupport"),
        14 => word("archive"),
        15 => word("cansettime"),
        16 => word("case_insensitive"),
        17 => word("case_preserving"),
        18 => word("chown_restricted"),
        19 => Opaque("filehandle", Handle),
        20 => Hyper("fileid", Own),
        21 => Hyper("files_avail", Own),
        22 => Hyper("files_free", Own),
        23 => Hyper("files_total", Own),
        24 => Part(LOCATIONS),
        25 => word("hidden"),
        26 => word("homogeneous"),
        27 => hyper("maxfilesize"),
        28 => word("maxlink"),
        29 => word("maxname"),
        30 => hyper("maxread"),
        31 => hyper("maxwrite"),
        32 => opaque("mimetype"),
        33 => word("mode"),
        34 => word("no_trunc"),
        35 => word("numlinks"),
        36 => opaque("owner"),
        37 => opaque("owner_group"),
        38 => Hyper("quota_avail_hard", Own),
        39 => Hyper("quota_avail_soft", Own),
        40 => Hyper("quota_used", Own),
        41 => Fixed(8, "rawdev", Equal),
        42 => Hyper("space_avail", Own),
        43 => Hyper("space_free", Own),
        44 => Hyper("space_total", Own),
        45 => Hyper("space_used", Own),
        46 => word("system"),
        47 => time("time_access"),
        48 => Choice("time_access_set", SET_TIME),
        49 => time("time_backup"),
        50 => time("time_create"),
        51 => Fixed(12, "time_delta", Equal),
        52 => time("time_metadata"),
        53 => time("time_modify"),
        54 => Choice("time_modify_set", SET_TIME),
        55 => Hyper("mounted_on_fileid", Own),
        56 => Fixed(12, "dir_notif_delay", Equal),
        57 => Fixed(12, "dirent_notif_delay", Equal),
        58 => Part(FLAGGED_ACL),
        59 => Part(FLAGGED_ACL),
        60 => Fixed(16, "change_policy", Own),
        62 => words("fs_layout_type"),
        63 => Part(LAYOUT_HINT),
        64 => words("layout_type"),
        65 => word("layout_blksize"),
        66 => word("layout_alignment"),
        73 => Fixed(8, "mode_set_masked", Equal),
        75 => words("suppattr_exclcreat"),
        76 => word("fs_charset_cap"),
        77 => word("clone_blksize"),
        78 => Hyper("space_freed", Own),
        79 => word("change_attr_type"),
        80 => Part(LABEL),
        81 => Fixed(8, "mode_umask", Equal),
        82 => word("xattr_support"),
        83 => Word("offline", Equal),
        84 => time("time_deleg_access"),
        85 => time("time_deleg_modify"),
        _ => return None,
    })
}

/// `fs_locations4`.
const LOCATIONS: &[Form] = &[names("fs_root"), Many("locations", &[names("server"), names("rootpath")])];
/// `nfsacl41`.
const FLAGGED_ACL: &[Form] = &[word("aclflag4"), Many("acl", ACE)];
/// `layouthint4`.
const LAYOUT_HINT: &[Form] = &[word("layout_hint"), opaque("layout_hint")];
/// `sec_label4`.
const LABEL: &[Form] = &[Fixed(8, "sec_label", Equal), opaque("sec_label")];

/// A `settime4`: the time of the client, which a call has.
const SET_TIME: &[(u32, &[Form])] = &[(0, &[]), (1, &[Fixed(12, "time", Equal)])];

/// A counted array of names.
const fn names(name: &'static str) -> Form {
    Many(name, &[Opaque("name", Equal)])
}
