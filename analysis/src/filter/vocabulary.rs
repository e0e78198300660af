//! The names of operations and statuses. With them, a misspelled name can be distinguished from one
//! that does not occur in a capture.

use crate::names::{procedure_name, short_status, status_name};
use rdmascope_dissector::ulb::{Callback, Nfs4, OperationKind, Procedure};

/// Programs and versions: portmapper, NFS, MOUNT, NLM, NSM, NFSACL and the callback program.
const PROGRAMS: &[(u32, u32)] = &[
    (100_003, 2),
    (100_003, 3),
    (100_003, 4),
    (0x4000_0000, 1),
    (100_227, 2),
    (100_227, 3),
    (100_005, 1),
    (100_005, 2),
    (100_005, 3),
    (100_000, 2),
    (100_000, 3),
    (100_000, 4),
    (100_021, 1),
    (100_021, 3),
    (100_021, 4),
    (100_024, 1),
];

/// The names of the procedures and COMPOUND operations of all known programs, sorted.
pub fn operation_names() -> Vec<&'static str> {
    let procedures = PROGRAMS.iter().flat_map(|&(program, version)| {
        (0..64).filter_map(move |number| procedure_name(Procedure { program, version, number }))
    });
    let operations = Nfs4::ALL.iter().map(|one| OperationKind::from(*one).name());
    let callbacks = Callback::ALL.iter().map(|one| OperationKind::from(*one).name());
    sorted(procedures.chain(operations).chain(callbacks).collect())
}

/// The names of the statuses of all procedures, with and without their prefixes, of RPC, and of
/// RDMA_ERROR and its codes, sorted.
pub fn status_names() -> Vec<&'static str> {
    let numbers = || (0..256).chain(10_000..10_256);
    let statuses = PROGRAMS.iter().flat_map(|&(program, version)| {
        numbers().filter_map(move |status| status_name(program, version, status))
    });
    let statuses = statuses.flat_map(|name| [name, short_status(name)]);
    let others = [
        "error",
        "RDMA_ERROR",
        "ERR_VERS",
        "ERR_CHUNK",
        "SUCCESS",
        "PROG_UNAVAIL",
        "PROG_MISMATCH",
        "PROC_UNAVAIL",
        "GARBAGE_ARGS",
        "SYSTEM_ERR",
        "RPC_MISMATCH",
        "AUTH_ERROR",
    ];
    sorted(statuses.chain(others).collect())
}

fn sorted(mut names: Vec<&'static str>) -> Vec<&'static str> {
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_listed() {
        let operations = operation_names();
        for name in
            ["NULL", "WRITE", "COMPOUND", "CB_COMPOUND", "CB_RECALL", "GETACL", "MNT", "GETPORT", "READ_PLUS"]
        {
            assert!(operations.binary_search(&name).is_ok(), "{name}");
        }
        let statuses = status_names();
        for name in ["error", "NFS4ERR_NOENT", "NFS3ERR_JUKEBOX", "NOENT", "NFS4_OK", "OK", "ERR_CHUNK"] {
            assert!(statuses.binary_search(&name).is_ok(), "{name}");
        }
    }
}
