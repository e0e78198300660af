//! Names of flags and numbers that the XDR declares as plain integers.
//!
//! The names and values are constants of the descriptions. A row assigns a group of constants to
//! types and members.

use crate::language::Constant;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A group of constants and the types and members that use it.
#[derive(Debug)]
pub(crate) struct Row {
    /// `TYPE` for an alias of a number or a bitmap4, `TYPE.MEMBER` for a member. For a member that
    /// is an array, the names apply to the bitmaps in it.
    pub(crate) places: &'static [&'static str],
    kind: Kind,
    /// The common prefix of the constants, which is not displayed.
    prefix: &'static str,
    /// The first and last constant in the order of the description, if other constants have the
    /// same prefix.
    between: Option<(&'static str, &'static str)>,
}

/// The relation of constants to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Constants are bits. Constants of several bits are ignored, except for these masks: the bits
    /// of a mask together form one value.
    Bits(&'static [&'static str]),
    /// Constants are values of the whole number.
    Number,
    /// Constants are bit numbers of a bitmap4.
    BitNumbers,
    /// A file mode, displayed as by `ls`.
    Mode,
    /// A file mode with the file type, as in NFS version 2. All ones means that the mode is not to
    /// be set (RFC 1094, sections 2.3.5 and 2.3.6).
    ModeAndType,
}

/// NFS version 2 and NFSACL version 2.
pub(crate) const NFS2: &[Row] = &[
    Row::all(&["mode"], Kind::ModeAndType, "-"),
    Row::all(&["ACCESS2args.access", "ACCESS2resok.access"], Kind::Bits(&[]), "ACCESS2_"),
    acl_mask(&["secattr.mask", "GETACL2args.mask"]),
    ACL_TYPE,
    ACL_PERMISSIONS,
];

/// MOUNT.
pub(crate) const MOUNT: &[Row] =
    &[Row::part(&["mountres3_ok.auth_flavors"], Kind::Number, "", "AUTH_NONE", "RPCSEC_GSS_KRB5P")];

/// The port mapper and rpcbind.
pub(crate) const PORT_MAPPER: &[Row] = &[Row::all(&["mapping.prot"], Kind::Number, "PROTOCOL_")];

/// NFS version 3 and NFSACL version 3.
pub(crate) const NFS3: &[Row] = &[
    Row::all(&["mode3"], Kind::Mode, "-"),
    Row::all(&["ACCESS3args.access", "ACCESS3resok.access"], Kind::Bits(&[]), "ACCESS3_"),
    Row::all(&["FSINFO3resok.properties"], Kind::Bits(&[]), "FSF3_"),
    acl_mask(&["secattr.mask", "GETACL3args.mask"]),
    ACL_TYPE,
    ACL_PERMISSIONS,
];

const fn acl_mask(places: &'static [&'static str]) -> Row {
    Row::part(places, Kind::Bits(&[]), "NFS_", "NFS_ACL", "NFS_DFACLCNT")
}

const ACL_TYPE: Row =
    Row::part(&["aclent.type"], Kind::Bits(&[]), "NFS_ACL_", "NFS_ACL_USER_OBJ", "NFS_ACL_DEFAULT");
const ACL_PERMISSIONS: Row = Row::part(
    &["aclent.perm"],
    Kind::Bits(&[]),
    "NFS_ACL_PERM_",
    "NFS_ACL_PERM_EXECUTE",
    "NFS_ACL_PERM_READ",
);

/// NFS version 4 and its callbacks.
pub(crate) const NFS4: &[Row] = &[
    Row::all(&["mode4"], Kind::Mode, "-"),
    Row::all(
        &["ACCESS4args.access", "ACCESS4resok.supported", "ACCESS4resok.access"],
        Kind::Bits(&[]),
        "ACCESS4_",
    ),
    Row::all(
        &["OPEN4args.share_access", "OPEN_DOWNGRADE4args.share_access", "WANT_DELEGATION4args.wda_want"],
        Kind::Bits(&["OPEN4_SHARE_ACCESS_BOTH", "OPEN4_SHARE_ACCESS_WANT_DELEG_MASK"]),
        "OPEN4_SHARE_ACCESS_",
    ),
    Row::all(
        &["OPEN4args.share_deny", "OPEN_DOWNGRADE4args.share_deny"],
        Kind::Bits(&["OPEN4_SHARE_DENY_BOTH"]),
        "OPEN4_SHARE_DENY_",
    ),
    Row::all(&["OPEN4resok.rflags"], Kind::Bits(&[]), "OPEN4_RESULT_"),
    Row::all(
        &["EXCHANGE_ID4args.eia_flags", "EXCHANGE_ID4resok.eir_flags"],
        Kind::Bits(&[]),
        "EXCHGID4_FLAG_",
    ),
    Row::all(
        &["CREATE_SESSION4args.csa_flags", "CREATE_SESSION4resok.csr_flags"],
        Kind::Bits(&[]),
        "CREATE_SESSION4_FLAG_",
    ),
    Row::all(&["SEQUENCE4resok.sr_status_flags"], Kind::Bits(&[]), "SEQ4_STATUS_"),
    Row::part(
        &["acetype4"],
        Kind::Number,
        "ACE4_",
        "ACE4_ACCESS_ALLOWED_ACE_TYPE",
        "ACE4_SYSTEM_ALARM_ACE_TYPE",
    ),
    Row::part(&["aceflag4"], Kind::Bits(&[]), "ACE4_", "ACE4_FILE_INHERIT_ACE", "ACE4_INHERITED_ACE"),
    Row::part(&["acemask4"], Kind::Bits(&[]), "ACE4_", "ACE4_READ_DATA", "ACE4_GENERIC_EXECUTE"),
    Row::all(&["fattr4_aclsupport"], Kind::Bits(&[]), "ACL4_SUPPORT_"),
    Row::part(&["aclflag4"], Kind::Bits(&[]), "ACL4_", "ACL4_AUTO_INHERIT", "ACL4_DEFAULTED"),
    Row::all(&["fattr4_fh_expire_type"], Kind::Bits(&[]), "FH4_"),
    Row::all(&["fs_charset_cap4"], Kind::Bits(&[]), "FSCHARSET_CAP4_"),
    Row::all(&["fs_locations_info4.fli_flags"], Kind::Bits(&[]), "FSLI4IF_"),
    Row::all(&["threshold_item4.thi_hintset"], Kind::BitNumbers, "TH4_"),
    Row::all(&["CB_RECALL_ANY4args.craa_type_mask"], Kind::BitNumbers, "RCA4_TYPE_MASK_"),
    Row::all(&["IO_ADVISE4args.iaa_hints", "IO_ADVISE4resok.ior_hints"], Kind::BitNumbers, "IO_ADVISE4_"),
    Row::part(
        &["state_protect_ops4.spo_must_enforce", "state_protect_ops4.spo_must_allow"],
        Kind::BitNumbers,
        "OP_",
        "OP_ACCESS",
        "OP_REMOVEXATTR",
    ),
    Row::all(
        &[
            "GET_DIR_DELEGATION4args.gdda_notification_types",
            "GET_DIR_DELEGATION4resok.gddr_notification",
            "CB_NOTIFY4args.cna_changes",
        ],
        Kind::BitNumbers,
        "NOTIFY4_",
    ),
    Row::all(
        &[
            "GETDEVICEINFO4args.gdia_notify_types",
            "GETDEVICEINFO4resok.gdir_notification",
            "CB_NOTIFY_DEVICEID4args.cnda_changes",
        ],
        Kind::BitNumbers,
        "NOTIFY_DEVICEID4_",
    ),
    Row::part(
        &["open_arguments4.oa_share_access"],
        Kind::BitNumbers,
        "OPEN_ARGS_SHARE_ACCESS_",
        "OPEN_ARGS_SHARE_ACCESS_READ",
        "OPEN_ARGS_SHARE_ACCESS_BOTH",
    ),
    Row::all(&["open_arguments4.oa_share_deny"], Kind::BitNumbers, "OPEN_ARGS_SHARE_DENY_"),
    Row::all(&["open_arguments4.oa_share_access_want"], Kind::BitNumbers, "OPEN_ARGS_SHARE_ACCESS_WANT_"),
    Row::all(&["open_arguments4.oa_open_claim"], Kind::BitNumbers, "OPEN_ARGS_OPEN_CLAIM_"),
    Row::part(
        &["open_arguments4.oa_create_mode"],
        Kind::BitNumbers,
        "OPEN_ARGS_",
        "OPEN_ARGS_CREATEMODE_UNCHECKED4",
        "OPEN_ARGS_CREATE_MODE_EXCLUSIVE4_1",
    ),
    Row::part(
        &["secinfo4.flavor", "callback_sec_parms4.cb_secflavor"],
        Kind::Number,
        "",
        "AUTH_NONE",
        "RPCSEC_GSS",
    ),
];

impl Row {
    const fn all(places: &'static [&'static str], kind: Kind, prefix: &'static str) -> Row {
        Row { places, kind, prefix, between: None }
    }

    const fn part(
        places: &'static [&'static str],
        kind: Kind,
        prefix: &'static str,
        first: &'static str,
        last: &'static str,
    ) -> Row {
        Row { places, kind, prefix, between: Some((first, last)) }
    }

    /// Resolves the row with the constants of a description, in their order.
    ///
    /// # Panics
    /// Panics if the description lacks the constants.
    pub(crate) fn names(&self, constants: &[Constant]) -> Names {
        let at = |name: &str| {
            let found = constants.iter().position(|constant| constant.name == name);
            found.unwrap_or_else(|| panic!("{name} is not defined"))
        };
        let part = match self.between {
            Some((first, last)) => &constants[at(first)..=at(last)],
            None => constants,
        };
        let named = |constant: &Constant| {
            let name = constant.name.strip_prefix(self.prefix)?;
            Some((constant.value as u32, name))
        };
        let values: Vec<(u32, &'static str)> = part.iter().filter_map(named).collect();
        let needs_none = matches!(self.kind, Kind::Mode | Kind::ModeAndType);
        assert_eq!(values.is_empty(), needs_none, "{}", self.prefix);
        let masks = match self.kind {
            Kind::Bits(masks) => masks.iter().map(|mask| constants[at(mask)].value as u32).collect(),
            _ => Vec::new(),
        };
        Names { kind: self.kind, values, masks }
    }
}

/// Names of the bits or values of a number.
#[derive(Clone, Debug)]
pub struct Names {
    kind: Kind,
    values: Vec<(u32, &'static str)>,
    masks: Vec<u32>,
}

impl Names {
    /// Returns true for a mode, which is written in octal.
    pub fn is_mode(&self) -> bool {
        matches!(self.kind, Kind::Mode | Kind::ModeAndType)
    }

    /// Describes a number. Empty if the number is zero and zero has no name.
    pub fn of(&self, number: u32) -> String {
        match self.kind {
            Kind::Mode => mode(number),
            Kind::ModeAndType if number == u32::MAX => "not to be set".to_owned(),
            Kind::ModeAndType => mode_and_type(number),
            Kind::Bits(_) if number != 0 => self.bits(number),
            _ => match self.exact(number) {
                Some(name) => name,
                None if number == 0 => String::new(),
                None => "unknown".to_owned(),
            },
        }
    }

    /// Describes the bits of a bitmap4, given by number.
    pub fn of_bits(&self, numbers: &[u32]) -> String {
        let known: Vec<String> = numbers.iter().filter_map(|number| self.exact(*number)).collect();
        let unknown = numbers.len() - known.len();
        let known = known.join(" ");
        match (known.is_empty(), unknown) {
            (_, 0) => known,
            (true, _) => "unknown".to_owned(),
            (false, _) => format!("{known}, {unknown} unknown"),
        }
    }

    fn bits(&self, number: u32) -> String {
        let (mut words, mut unknown) = (Vec::new(), 0);
        let mut rest = number;
        for mask in &self.masks {
            rest &= !mask;
            match number & mask {
                0 => {}
                value => match self.exact(value) {
                    Some(name) => words.push(name),
                    None => unknown |= value,
                },
            }
        }
        for bit in (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| rest & bit != 0) {
            match self.exact(bit) {
                Some(name) => words.push(name),
                None => unknown |= bit,
            }
        }
        let known = words.join(" ");
        match (known.is_empty(), unknown) {
            (_, 0) => known,
            (true, _) => format!("0x{unknown:x} unknown"),
            (false, _) => format!("{known}, 0x{unknown:x} unknown"),
        }
    }

    /// The name of this value. Some bits have one name for files and another for directories.
    fn exact(&self, value: u32) -> Option<String> {
        let names: Vec<&str> =
            self.values.iter().filter(|(of, _)| *of == value).map(|(_, name)| *name).collect();
        (!names.is_empty()).then(|| names.join("/"))
    }
}

/// Formats a mode as `ls` does, without the file type.
fn mode(mode: u32) -> String {
    let mut text = String::new();
    // Owner, group, others, each with the letters that replace `x` if set-user-ID, set-group-ID or
    // the sticky bit is set.
    for (shift, special, lower, upper) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => upper,
            (true, true) => lower,
        });
    }
    match mode & !0o7777 {
        0 => text,
        unknown => format!("{text}, 0{unknown:o} unknown"),
    }
}

/// Formats a mode as `ls` does, with the file type if the mode has one.
fn mode_and_type(number: u32) -> String {
    let kind = match number & 0o170_000 {
        0o020_000 => "c",
        0o040_000 => "d",
        0o060_000 => "b",
        0o100_000 => "-",
        0o120_000 => "l",
        0o140_000 => "s",
        _ => return mode(number),
    };
    format!("{kind}{}", mode(number & !0o170_000))
}

#[cfg(test)]
mod tests;
