//! Comparison of the tables with the XDR descriptions in `rdmascope-xdr`.

use super::super::*;
use super::Row;
use rdmascope_xdr::language::Language;
use rdmascope_xdr::{NFS2, NFS3, NFS4};
use std::collections::BTreeMap;

/// The minor version and the name of each number.
type Specified = BTreeMap<u32, (Option<u32>, &'static str)>;

/// The procedures of a version of a program, without the prefix of their names.
fn procedures(language: &'static Language, program: u32, version: u32, prefix: &str) -> Specified {
    let named = |number| {
        let name = language.procedure(program, version, number)?.name;
        Some((number, (None, name.strip_prefix(prefix)?)))
    };
    (0..32).filter_map(named).collect()
}

/// The operations of an enumeration. `last` has the last operation number of minor versions 0 and
/// 1.
fn operations(enumeration: &str, last: [u32; 2]) -> Specified {
    let minor_version = |number| match number {
        ILLEGAL => 0,
        _ => last.iter().filter(|last| number > **last).count() as u32,
    };
    let named = |(number, name): &(u32, &'static str)| {
        let name = name.strip_prefix("OP_").expect("the prefix of operations");
        (*number, (Some(minor_version(*number)), name))
    };
    NFS4.enumerators(enumeration).expect("the enumeration has a description").iter().map(named).collect()
}

/// OP_ILLEGAL and OP_CB_ILLEGAL.
const ILLEGAL: u32 = 10_044;

/// Compares a table with the specification: the same numbers with the same names, and no others.
fn same<O: Operations + core::fmt::Debug>(all: &[O], expected: &Specified) {
    let shown = |row: &Row| (row.minor_version, row.name);
    let rows: Specified = all.iter().map(|one| (one.row().code, shown(one.row()))).collect();
    assert_eq!(rows.len(), all.len(), "two rows have the same number");
    assert_eq!(&rows, expected);
    for code in (0..200).chain([10_043, 10_044, 10_045, u32::MAX]) {
        assert_eq!(O::of(code).map(|one| shown(one.row())), expected.get(&code).copied());
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
fn rows_match_the_specifications() {
    same(Nfs2::ALL, &procedures(&NFS2, program::NFS, 2, "NFSPROC_"));
    same(Nfs3::ALL, &procedures(&NFS3, program::NFS, 3, "NFSPROC3_"));
    same(NfsAcl2::ALL, &procedures(&NFS2, program::NFSACL, 2, "ACLPROC2_"));
    same(NfsAcl3::ALL, &procedures(&NFS3, program::NFSACL, 3, "ACLPROC3_"));
    same(Nfs4Procedure::ALL, &[(0, (None, "NULL"))].into());
    same(Nfs4::ALL, &operations("nfs_opnum4", [39, 58]));
    same(CallbackProcedure::ALL, &[(0, (None, "CB_NULL"))].into());
    same(Callback::ALL, &operations("nfs_cb_opnum4", [4, 14]));
}

#[test]
fn ddp_eligible_rows_match_rfc_8267() {
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
fn auxiliary_operations_are_marked() {
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
fn unknown_number_keeps_its_code() {
    for (kind, name) in
        [(OperationKind::Unknown(99), "operation"), (OperationKind::UnknownProcedure(99), "procedure")]
    {
        assert_eq!((kind.name(), kind.code(), kind.minor_version()), (name, 99, None));
        assert_eq!((kind.is_auxiliary(), kind.ddp_eligible()), (false, DdpEligible::Nothing));
    }
}
