//! The kinds of NFS fields, by their names in `rdmascope-xdr`. A field without a row must be equal.

use super::Kind;
use core::ops::RangeInclusive;
use rdmascope_xdr::visit::Value;

/// Types, and members of structures and unions, by kind. The members of `fattr4` are the
/// attributes.
static KINDS: [(Kind, &[&str]); 10] = [
    (Kind::Handle, &["nfs_fh3.data", "nfs_fh4"]),
    (Kind::Stateid, &["stateid4.other", "deviceid4"]),
    (Kind::Session, &["sessionid4"]),
    (Kind::Client, &["clientid4"]),
    (Kind::Sequence, &["EXCHANGE_ID4resok.eir_sequenceid", "CREATE_SESSION4args.csa_sequence"]),
    (
        Kind::Verifier,
        &[
            "cookieverf3",
            "writeverf3",
            "COMMIT4resok.writeverf",
            "GETDEVICELIST4args.gdla_cookieverf",
            "GETDEVICELIST4resok.gdlr_cookieverf",
            "GET_DIR_DELEGATION4resok.gddr_cookieverf",
            "READDIR4args.cookieverf",
            "READDIR4resok.cookieverf",
            "SETCLIENTID4resok.setclientid_confirm",
            "SETCLIENTID_CONFIRM4args.setclientid_confirm",
            "WRITE4resok.writeverf",
            "write_response4.wr_writeverf",
        ],
    ),
    (Kind::Cookie, &["cookie3", "nfs_cookie4"]),
    (Kind::ChangeTime, &["fattr3.ctime", "sattrguard3.obj_ctime"]),
    (
        Kind::Granted,
        &[
            "CB_SEQUENCE4args.csa_highest_slotid",
            "CB_SEQUENCE4args.csa_sequenceid",
            "CB_SEQUENCE4args.csa_slotid",
            "CB_SEQUENCE4resok.csr_highest_slotid",
            "CB_SEQUENCE4resok.csr_target_highest_slotid",
            "EXCHANGE_ID4resok.eir_flags",
            "OPEN4resok.rflags",
            "SEQUENCE4resok.sr_highest_slotid",
            "SEQUENCE4resok.sr_target_highest_slotid",
            "WRITE4resok.committed",
            "WRITE4resok.count",
            "fattr4.lease_time",
            "fattr4.maxread",
            "fattr4.maxwrite",
            "fattr4.suppattr_exclcreat",
            "fattr4.supported_attrs",
            "open_arguments4.oa_create_mode",
            "open_arguments4.oa_open_claim",
            "open_arguments4.oa_share_access",
            "open_arguments4.oa_share_access_want",
            "open_arguments4.oa_share_deny",
        ],
    ),
    (
        Kind::Own,
        &[
            "CB_COMPOUND4args.callback_ident",
            "COPY_NOTIFY4resok.cnr_lease_time",
            "CREATE_SESSION4resok.csr_sequence",
            "EXCHANGE_ID4resok.eir_server_owner",
            "EXCHANGE_ID4resok.eir_server_scope",
            "FSSTAT3resok.abytes",
            "FSSTAT3resok.afiles",
            "FSSTAT3resok.fbytes",
            "FSSTAT3resok.ffiles",
            "FSSTAT3resok.tbytes",
            "FSSTAT3resok.tfiles",
            "OFFLOAD_STATUS4resok.osr_count",
            "SET_SSV4resok.ssr_digest",
            "changeid4",
            "fattr3.atime",
            "fattr3.fsid",
            "fattr3.mtime",
            "fattr3.used",
            "fattr4.change_policy",
            "fattr4.fileid",
            "fattr4.files_avail",
            "fattr4.files_free",
            "fattr4.files_total",
            "fattr4.fsid",
            "fattr4.mounted_on_fileid",
            "fattr4.quota_avail_hard",
            "fattr4.quota_avail_soft",
            "fattr4.quota_used",
            "fattr4.space_avail",
            "fattr4.space_free",
            "fattr4.space_total",
            "fattr4.space_used",
            "fattr4.time_access",
            "fattr4.time_backup",
            "fattr4.time_create",
            "fattr4.time_deleg_access",
            "fattr4.time_deleg_modify",
            "fattr4.time_metadata",
            "fattr4.time_modify",
            "fileid3",
            "fs4_status.fss_age",
            "fs4_status.fss_version",
            "layout_content4.loc_body",
            "nfs_impl_id4",
            "nfs_space_limit4",
            "retention_get4.rg_begin_time",
            "ssv_prot_info4.spi_handles",
            "wcc_attr.ctime",
            "wcc_attr.mtime",
        ],
    ),
];

/// Values that the Responder may grant in another form or not at all.
static GRANTS: [&str; 7] = [
    "CB_SEQUENCE4args.csa_referring_call_lists",
    "COPY4resok",
    "CREATE_SESSION4resok.csr_back_chan_attrs",
    "CREATE_SESSION4resok.csr_flags",
    "CREATE_SESSION4resok.csr_fore_chan_attrs",
    "EXCHANGE_ID4resok.eir_server_impl_id",
    "open_delegation4",
];

/// The DDP-eligible items of replies (RFC 8267).
static ITEMS: [&str; 4] =
    ["READ3resok.data", "READ4resok.data", "READLINK3resok.data", "READLINK4resok.link"];

/// The results that contain such an item.
static WITH_ITEM: [&str; 4] = ["READ3res", "READ4res", "READLINK3res", "READLINK4res"];

/// Attributes that a server must support (RFC 8881, section 5.6). All others are optional.
const REQUIRED: RangeInclusive<u32> = 0..=11;
const REQUIRED_BEYOND: [u32; 2] = [19, 75];

/// The kind of a value. `None` if the table has no row for it.
pub(super) fn of(value: &Value<'_>) -> Option<Kind> {
    let row = KINDS.iter().find(|(_, names)| is_one_of(value, names));
    row.map(|(kind, _)| *kind)
}

pub(super) fn is_grant(value: &Value<'_>) -> bool {
    is_one_of(value, &GRANTS)
}

pub(super) fn is_item(value: &Value<'_>) -> bool {
    is_one_of(value, &ITEMS)
}

/// Whether a value is the status of an operation whose results contain an item.
pub(super) fn is_status_before_item(value: &Value<'_>) -> bool {
    value.place.name == "status" && WITH_ITEM.contains(&value.place.of)
}

/// Whether a server must support the attribute of this number.
pub(in crate::replay) fn is_required(number: u32) -> bool {
    REQUIRED.contains(&number) || REQUIRED_BEYOND.contains(&number)
}

fn is_one_of(value: &Value<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| match name.split_once('.') {
        Some(place) => place == (value.place.of, value.place.name),
        None => value.types.contains(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_xdr::language::{Form, Language, Type};
    use rdmascope_xdr::{NFS3, NFS4};

    /// Whether a description has this type or member.
    fn has(language: &Language, name: &str) -> bool {
        let (owner, member) = name.split_once('.').unwrap_or((name, ""));
        let Some(Type::Named(index)) = language.named(owner) else { return false };
        let matches = |name: &str| name == member;
        match &language.defined(*index).form {
            _ if member.is_empty() => true,
            Form::Structure(_) if owner == "fattr4" => {
                (0..128).any(|number| language.attribute(number).is_some_and(|it| matches(&it.name)))
            }
            Form::Structure(members) => members.iter().any(|it| matches(it.name)),
            Form::Union { switch, arms, .. } => {
                matches(switch.name) || arms.iter().any(|(_, arm)| matches(arm.name))
            }
            _ => false,
        }
    }

    #[test]
    fn each_row_names_a_described_type_or_member() {
        let rows = KINDS.iter().flat_map(|(_, names)| *names).chain(&GRANTS).chain(&ITEMS).chain(&WITH_ITEM);
        for name in rows {
            assert!(has(&NFS3, name) || has(&NFS4, name), "{name}");
        }
    }
}
