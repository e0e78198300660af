//! The displayed names of flags and numbers.

use super::{lines, of};
use rdmascope_xdr::language::{Language, Type};
use rdmascope_xdr::{NFS3, NFS4};

pub(super) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().copied().flat_map(u32::to_be_bytes).collect()
}

/// The lines of a value of this type with these words, without positions.
pub(super) fn shown(language: &'static Language, name: &str, words: &[u32]) -> String {
    let lines = lines(&of(language, name, &bytes(words)));
    let without_ranges = lines.iter().map(|line| line.split(" [").next().unwrap_or(line));
    without_ranges.collect::<Vec<_>>().join("\n")
}

/// Written by hand from RFC 1813, sections 2.6, 3.3.4 and 3.3.19, with the bits defined there.
#[test]
fn nfsv3_flags() {
    let access = shown(&NFS3, "ACCESS3resok", &[0, 0x3f]);
    assert_eq!(
        access,
        "obj_attributes\n  attributes_follow: no\naccess: 63 (READ LOOKUP MODIFY EXTEND DELETE EXECUTE)"
    );
    // FSF_LINK, FSF_SYMLINK, FSF_HOMOGENEOUS, FSF_CANSETTIME, and an unnamed bit. time_delta is not
    // a date.
    let words = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x5b];
    let properties = shown(&NFS3, "FSINFO3resok", &words);
    assert!(properties.contains("\ntime_delta: 0.000000001 s\n"), "{properties}");
    assert!(
        properties.ends_with("\nproperties: 91 (LINK SYMLINK HOMOGENEOUS CANSETTIME, 0x40 unknown)"),
        "{properties}"
    );
    // A default entry of the owning group with permission to read and execute.
    assert_eq!(
        shown(&NFS3, "aclent", &[0x1004, 7, 5]),
        "type: 4100 (GROUP_OBJ DEFAULT)\nid: 7\nperm: 5 (EXECUTE READ)"
    );
}

#[test]
fn modes_are_shown_like_ls() {
    let modes = [
        (0o0644, "0644 (rw-r--r--)"),
        (0o4755, "04755 (rwsr-xr-x)"),
        (0o2640, "02640 (rw-r-S---)"),
        (0o1777, "01777 (rwxrwxrwt)"),
        (0o7000, "07000 (--S--S--T)"),
        (0o100_644, "0100644 (rw-r--r--, 0100000 unknown)"),
    ];
    for (mode, expected) in modes {
        assert_eq!(shown(&NFS3, "set_mode3", &[1, mode]), format!("set_it: yes\nmode: {expected}"));
        assert_eq!(shown(&NFS4, "fattr4_mode", &[mode]), format!("mode4: {expected}"));
    }
}

/// The values are those of RFC 8881, sections 18.16.1 (OPEN), 18.35.1 (EXCHANGE_ID), 18.36.1
/// (CREATE_SESSION) and 18.46.1 (SEQUENCE).
#[test]
fn nfsv4_flags() {
    let open = |access| shown(&NFS4, "OPEN_DOWNGRADE4args", &[1, 2, 3, 4, 5, access, 3]);
    for (access, meaning) in [
        (1, "1 (READ)"),
        (3, "3 (BOTH)"),
        (0x0302, "770 (WRITE WANT_ANY_DELEG)"),
        (0x1_0503, "66819 (BOTH WANT_CANCEL WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL)"),
        // This number requests no known delegation, and its bits are not flags.
        (0x30_0701, "3147521 (READ WANT_DELEG_TIMESTAMPS WANT_OPEN_XOR_DELEGATION, 0x700 unknown)"),
    ] {
        let found = open(access);
        assert!(found.ends_with(&format!("\nshare_access: {meaning}\nshare_deny: 3 (BOTH)")), "{found}");
    }
    assert!(shown(&NFS4, "OPEN_DOWNGRADE4args", &[1, 2, 3, 4, 5, 1, 0]).ends_with("\nshare_deny: 0 (NONE)"));
    // The flags of a Linux client and of a server's answer: RFC 8881, section 18.35.3.
    let exchange_id = shown(&NFS4, "EXCHANGE_ID4resok", &[0, 1, 2, 0x8006_0103, 0, 0, 0, 0, 0, 0]);
    assert!(
        exchange_id.contains(
            "\neir_flags: 2147877123 (SUPP_MOVED_REFER SUPP_MOVED_MIGR BIND_PRINC_STATEID USE_PNFS_MDS \
             USE_PNFS_DS CONFIRMED_R)\n"
        ),
        "{exchange_id}"
    );
    let sequence = shown(&NFS4, "SEQUENCE4resok", &[0, 0, 0, 0, 1, 0, 63, 63, 0x0000_2401]);
    assert!(
        sequence.ends_with("\nsr_status_flags: 9217 (CB_PATH_DOWN BACKCHANNEL_FAULT, 0x2000 unknown)"),
        "{sequence}"
    );
    let nothing = shown(&NFS4, "SEQUENCE4resok", &[0; 9]);
    assert!(nothing.ends_with("\nsr_status_flags: 0"), "{nothing}");
    let ace = shown(&NFS4, "nfsace4", &[1, 0x43, 0x0012_0081, 0]);
    assert_eq!(
        ace,
        "type: 1 (ACCESS_DENIED_ACE_TYPE)\n\
         flag: 67 (FILE_INHERIT_ACE DIRECTORY_INHERIT_ACE IDENTIFIER_GROUP)\n\
         access_mask: 1179777 (READ_DATA/LIST_DIRECTORY READ_ATTRIBUTES READ_ACL SYNCHRONIZE)\n\
         who: \"\""
    );
    assert!(shown(&NFS4, "nfsace4", &[4, 0, 0, 0]).starts_with("type: 4 (unknown)\nflag: 0\n"));
    assert_eq!(shown(&NFS4, "secinfo4", &[1]), "flavor: 1 (AUTH_SYS)");
}

/// RFC 7862, section 15.5.1 (IO_ADVISE); RFC 8881, sections 20.3, 20.4 and 20.12: the same bit has
/// different names in different notifications.
#[test]
fn bitmap_bits_have_names() {
    let advise = shown(&NFS4, "IO_ADVISE4resok", &[1, 1 << 1 | 1 << 4 | 1 << 31]);
    assert_eq!(advise, "ior_hints: 1 4 31 (SEQUENTIAL WILLNEED, 1 unknown)");
    // Without a stateid and a file handle, one change of two bits, without values.
    let directory = shown(&NFS4, "CB_NOTIFY4args", &[0, 0, 0, 0, 0, 1, 1, 6, 0]);
    assert!(directory.contains("\n    notify_mask: 1 2 (CHANGE_DIR_ATTRS REMOVE_ENTRY)\n"), "{directory}");
    let device = shown(&NFS4, "CB_NOTIFY_DEVICEID4args", &[1, 1, 6, 0]);
    assert!(device.contains("\n    notify_mask: 1 2 (CHANGE DELETE)\n"), "{device}");
    let protected = shown(&NFS4, "state_protect_ops4", &[2, 1 << 3, 1 << 11, 0]);
    assert_eq!(protected, "spo_must_enforce: 3 43 (ACCESS CREATE_SESSION)\nspo_must_allow: none");
}

/// Seconds since 1970 are 951,782,400 on 2000-02-29: ten thousand nine hundred and fifty-seven days
/// to 2000, and 59 more.
#[test]
fn times_show_their_date() {
    assert_eq!((10_957 + 59) * 86_400, 951_782_400);
    let time = |words: &[u32]| shown(&NFS4, "newtime4", words).lines().nth(1).unwrap_or("").to_owned();
    assert_eq!(
        time(&[1, 0, 951_782_400, 5]),
        "nt_time: 951782400.000000005 s (2000-02-29T00:00:00.000000005Z)"
    );
    // Before 1970; an invalid number of nanoseconds twice; a time beyond the range of 64-bit
    // nanoseconds.
    assert_eq!(time(&[1, u32::MAX, u32::MAX, 0]), "nt_time: -1.000000000 s (1969-12-31T23:59:59.000000000Z)");
    assert_eq!(time(&[1, 0, 0, 1_000_000_000]), "nt_time: 0.1000000000 s");
    assert_eq!(time(&[1, 0x7fff_ffff, 0, 0]), "nt_time: 9223372032559808512.000000000 s");
}

/// A value without a name in its enumeration is shown as unknown.
#[test]
fn unknown_enumeration_values_are_marked() {
    assert_eq!(shown(&NFS4, "nfs_ftype4", &[77]), "nfs_ftype4: 77 (unknown)");
    assert_eq!(shown(&NFS4, "nfs_ftype4", &[2]), "nfs_ftype4: NF4DIR (2)");
}

/// Flags that the analysis also names have the same names.
#[test]
fn status_flag_names_match_the_analysis() {
    let Some(Type::Named(index)) = NFS4.named("SEQUENCE4resok") else { panic!("it is a structure") };
    let member = NFS4.defined(*index).member("sr_status_flags").expect("it is a member");
    let names = member.names.as_ref().expect("they are flags");
    let flags = rdmascope_dissector::ulb::STATUS_FLAGS;
    for bit in 0..u32::BITS {
        let unknown = format!("0x{:x} unknown", 1_u32 << bit);
        assert_eq!(names.of(1 << bit), flags.get(bit as usize).map_or(unknown, |name| (*name).to_owned()));
    }
}
