use crate::{MOUNT, NFS2, NFS3, NFS4, PORT_MAPPER};
use std::collections::BTreeSet;

/// Each constant of the descriptions belongs to a row or to the exceptions listed here.
#[test]
fn no_constant_is_left_out() {
    // Names of attributes, which have their own list, and constants that types use.
    let others = ["AUTH_", "RPCSEC_", "FATTR4_"];
    let texts = [
        (NFS2.text, super::NFS2),
        (NFS3.text, super::NFS3),
        (NFS4.text, super::NFS4),
        (MOUNT.text, super::MOUNT),
        (PORT_MAPPER.text, super::PORT_MAPPER),
    ];
    for (text, rows) in texts {
        let constants =
            text.split("\nconst").skip(1).map(|rest| rest.split_whitespace().next().expect("it has a name"));
        let unused: BTreeSet<&str> = constants
            .filter(|name| !rows.iter().any(|row| !row.prefix.is_empty() && name.starts_with(row.prefix)))
            .filter(|name| !others.iter().any(|prefix| name.starts_with(prefix)))
            .collect();
        assert_eq!(unused, BTreeSet::new());
    }
}
