//! The attributes of NFS version 4 by their numbers (RFC 7531, RFC 5662, RFC 7863, RFC 8276, RFC 9754).

use super::Form::{self, Choice, Fixed, Hyper, Many, Maybe, Opaque, Parts, Word};
use super::Kind::{Equal, Granted, Handle, Own};
use super::{Part, Walk, Walked, bits, hyper, opaque, word, words};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// A `nfstime4`.
pub(super) const fn time(name: &'static str) -> Form {
    Fixed(12, name, Own)
}

/// An `nfsace4`.
pub(super) const ACE: &[Form] = &[word("acetype4"), word("aceflag4"), word("acemask4"), opaque("who")];

/// The attributes, by number: the name of each, and its value.
static ATTRIBUTES: [(u32, &str, Form); 87] = [
    (0, "supported_attrs", Form::AttributeBits("supported_attrs", Granted)),
    (1, "type", word("type")),
    (2, "fh_expire_type", word("fh_expire_type")),
    (3, "change", Hyper("change", Own)),
    (4, "size", hyper("size")),
    (5, "link_support", word("link_support")),
    (6, "symlink_support", word("symlink_support")),
    (7, "named_attr", word("named_attr")),
    (8, "fsid", Fixed(16, "fsid", Own)),
    (9, "unique_handles", word("unique_handles")),
    (10, "lease_time", Word("lease_time", Granted)),
    (11, "rdattr_error", word("rdattr_error")),
    (12, "acl", Many("acl", ACE)),
    (13, "aclsupport", word("aclsupport")),
    (14, "archive", word("archive")),
    (15, "cansettime", word("cansettime")),
    (16, "case_insensitive", word("case_insensitive")),
    (17, "case_preserving", word("case_preserving")),
    (18, "chown_restricted", word("chown_restricted")),
    (19, "filehandle", Opaque("filehandle", Handle)),
    (20, "fileid", Hyper("fileid", Own)),
    (21, "files_avail", Hyper("files_avail", Own)),
    (22, "files_free", Hyper("files_free", Own)),
    (23, "files_total", Hyper("files_total", Own)),
    (24, "fs_locations", Parts(LOCATIONS)),
    (25, "hidden", word("hidden")),
    (26, "homogeneous", word("homogeneous")),
    (27, "maxfilesize", hyper("maxfilesize")),
    (28, "maxlink", word("maxlink")),
    (29, "maxname", word("maxname")),
    (30, "maxread", Hyper("maxread", Granted)),
    (31, "maxwrite", Hyper("maxwrite", Granted)),
    (32, "mimetype", opaque("mimetype")),
    (33, "mode", word("mode")),
    (34, "no_trunc", word("no_trunc")),
    (35, "numlinks", word("numlinks")),
    (36, "owner", opaque("owner")),
    (37, "owner_group", opaque("owner_group")),
    (38, "quota_avail_hard", Hyper("quota_avail_hard", Own)),
    (39, "quota_avail_soft", Hyper("quota_avail_soft", Own)),
    (40, "quota_used", Hyper("quota_used", Own)),
    (41, "rawdev", Fixed(8, "rawdev", Equal)),
    (42, "space_avail", Hyper("space_avail", Own)),
    (43, "space_free", Hyper("space_free", Own)),
    (44, "space_total", Hyper("space_total", Own)),
    (45, "space_used", Hyper("space_used", Own)),
    (46, "system", word("system")),
    (47, "time_access", time("time_access")),
    (48, "time_access_set", Choice("time_access_set", SET_TIME)),
    (49, "time_backup", time("time_backup")),
    (50, "time_create", time("time_create")),
    (51, "time_delta", Fixed(12, "time_delta", Equal)),
    (52, "time_metadata", time("time_metadata")),
    (53, "time_modify", time("time_modify")),
    (54, "time_modify_set", Choice("time_modify_set", SET_TIME)),
    (55, "mounted_on_fileid", Hyper("mounted_on_fileid", Own)),
    (56, "dir_notif_delay", Fixed(12, "dir_notif_delay", Equal)),
    (57, "dirent_notif_delay", Fixed(12, "dirent_notif_delay", Equal)),
    (58, "dacl", Parts(FLAGGED_ACL)),
    (59, "sacl", Parts(FLAGGED_ACL)),
    (60, "change_policy", Fixed(16, "change_policy", Own)),
    (61, "fs_status", Parts(STATUS)),
    (62, "fs_layout_types", words("fs_layout_type")),
    (63, "layout_hint", Parts(LAYOUT_HINT)),
    (64, "layout_types", words("layout_type")),
    (65, "layout_blksize", word("layout_blksize")),
    (66, "layout_alignment", word("layout_alignment")),
    (67, "fs_locations_info", Parts(LOCATIONS_INFO)),
    (
        68,
        "mdsthreshold",
        Many("mth_hints", &[word("layout_type"), bits("thi_hintset", Equal), opaque("thi_hintlist")]),
    ),
    (69, "retention_get", Parts(RETENTION)),
    (70, "retention_set", Parts(SET_RETENTION)),
    (71, "retentevt_get", Parts(RETENTION)),
    (72, "retentevt_set", Parts(SET_RETENTION)),
    (73, "retention_hold", hyper("retention_hold")),
    (74, "mode_set_masked", Fixed(8, "mode_set_masked", Equal)),
    (75, "suppattr_exclcreat", Form::AttributeBits("suppattr_exclcreat", Granted)),
    (76, "fs_charset_cap", word("fs_charset_cap")),
    (77, "clone_blksize", word("clone_blksize")),
    (78, "space_freed", Hyper("space_freed", Own)),
    (79, "change_attr_type", word("change_attr_type")),
    (80, "sec_label", Parts(LABEL)),
    (81, "mode_umask", Fixed(8, "mode_umask", Equal)),
    (82, "xattr_support", word("xattr_support")),
    (83, "offline", Word("offline", Equal)),
    (84, "time_deleg_access", time("time_deleg_access")),
    (85, "time_deleg_modify", time("time_deleg_modify")),
    (86, "open_arguments", Parts(OPEN_ARGUMENTS)),
];

/// Those that a server must have (RFC 8881, section 5.6). It may lack any other.
const REQUIRED: RangeInclusive<u32> = 0..=11;
const REQUIRED_BEYOND: [u32; 2] = [19, 75];

/// The name of an attribute. `None`: no table has it.
pub(in crate::replay) fn name(number: u32) -> Option<&'static str> {
    row(number).map(|(_, name, _)| *name)
}

/// Whether a server must have an attribute.
pub(in crate::replay) fn is_required(number: u32) -> bool {
    REQUIRED.contains(&number) || REQUIRED_BEYOND.contains(&number)
}

fn row(number: u32) -> Option<&'static (u32, &'static str, Form)> {
    ATTRIBUTES.iter().find(|(known, ..)| *known == number)
}

impl Walk<'_> {
    /// A `fattr4`: a bitmap, and the values of its attributes in their order, as one opaque item.
    /// Only the values are fields: two servers with other attributes are compared by those that
    /// both have.
    pub(super) fn attributes(&mut self) -> Walked {
        let mut masks = Vec::new();
        for _ in 0..self.reader.u32().map_err(drop)? {
            masks.push(self.reader.u32().map_err(drop)?);
        }
        let length = self.reader.u32().map_err(drop)? as usize;
        let start = self.reader.position();
        let end = start.checked_add(length.next_multiple_of(4)).ok_or(())?;
        if !length.is_multiple_of(4) || end > self.stream.len() {
            return Err(());
        }
        for number in set_bits(masks.into_iter()) {
            self.part = Part::Attribute(number);
            let walked = row(number).ok_or(()).and_then(|(.., form)| self.take(*form));
            if walked.is_err() || self.reader.position() > end {
                return self.rest_of_attributes(end);
            }
        }
        self.part = Part::Whole;
        if self.reader.position() == end { Ok(()) } else { Err(()) }
    }

    /// An attribute that no table has: it and those after it are compared as bytes.
    fn rest_of_attributes(&mut self, end: usize) -> Walked {
        self.lacking = true;
        let at = self.reader.position();
        let rest = end.checked_sub(at).and_then(|rest| u32::try_from(rest).ok()).ok_or(())?;
        let taken = self.fixed(rest, "attributes not understood", Equal);
        self.part = Part::Whole;
        taken
    }
}

/// The numbers of the bits that are set, ascending.
pub(in crate::replay) fn set_bits(words: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let words = (0..=u32::MAX).step_by(32).zip(words);
    words
        .flat_map(|(first, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit))
}

/// `fs_locations4`.
const LOCATIONS: &[Form] = &[names("fs_root"), Many("locations", &[names("server"), names("rootpath")])];
/// `fs4_status`.
const STATUS: &[Form] = &[
    word("fss_absent"),
    word("fss_type"),
    opaque("fss_source"),
    opaque("fss_current"),
    Word("fss_age", Own),
    Fixed(12, "fss_version", Own),
];
/// `fs_locations_info4`.
const LOCATIONS_INFO: &[Form] = &[
    word("fli_flags"),
    word("fli_valid_for"),
    names("fli_fs_root"),
    Many("fli_items", &[Many("fli_entries", LOCATION_SERVER), names("fli_rootpath")]),
];
const LOCATION_SERVER: &[Form] = &[word("fls_currency"), opaque("fls_info"), opaque("fls_server")];
/// `retention_get4`, and `retention_set4`. An array of one element at most has the form of an
/// optional one.
const RETENTION: &[Form] = &[hyper("rg_duration"), Maybe("rg_begin_time", &[time("time")])];
const SET_RETENTION: &[Form] = &[word("rs_enable"), Maybe("rs_duration", &[hyper("duration")])];
/// `open_arguments4`: the arguments of OPEN that this server knows.
const OPEN_ARGUMENTS: &[Form] = &[
    bits("oa_share_access", Granted),
    bits("oa_share_deny", Granted),
    bits("oa_share_access_want", Granted),
    bits("oa_open_claim", Granted),
    bits("oa_create_mode", Granted),
];
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
