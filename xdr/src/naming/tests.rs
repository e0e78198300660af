use std::collections::BTreeSet;

/// A constant of the texts is a name that some row shows, or it stands here with the reason why not: none is described in vain.
#[test]
fn no_constant_is_left_out() {
    // Sizes, limits and lengths; names of attributes, which have a list of their own; modes, which are shown as `ls` does; what the types themselves use.
    let sizes = ["NFS4_", "RET4_", "AUTH_", "RPCSEC_", "LAYOUT4_RET_REC_", "FATTR4_", "MODE4_"];
    // Bits of single bytes of opaque data, and of a layout's body, neither of which is taken apart.
    let opaque = ["FSLI4BX_", "FSLI4GF_", "FSLI4TF_", "NFL4_", "NFL42_"];
    let texts = [
        (include_str!("../nfs2.x"), super::NFS2),
        (include_str!("../nfs3.x"), super::NFS3),
        (include_str!("../nfs4.x"), super::NFS4),
        (include_str!("../mount.x"), super::MOUNT),
        (include_str!("../portmapper.x"), super::PORT_MAPPER),
    ];
    for (text, rows) in texts {
        let constants =
            text.split("\nconst").skip(1).map(|rest| rest.split_whitespace().next().expect("it has a name"));
        let unused: BTreeSet<&str> = constants
            .filter(|name| !rows.iter().any(|row| !row.prefix.is_empty() && name.starts_with(row.prefix)))
            .filter(|name| !sizes.iter().chain(&opaque).any(|prefix| name.starts_with(prefix)))
            .collect();
        assert_eq!(unused, BTreeSet::new());
    }
}
