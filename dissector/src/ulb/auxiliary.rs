//! Names of the programs that accompany NFS versions 2 and 3 (RFC 8267, section 5.1). They run over
//! TCP, and the dissector does not parse them.

use rdmascope_wire::rpc::program::{MOUNT, NLM, NSM, PORTMAPPER};

/// The name of a procedure of these programs.
pub(super) fn procedure_name(program: u32, version: u32, number: u32) -> Option<&'static str> {
    let names: &[&'static str] = match (program, version) {
        (PORTMAPPER, 2) => &["NULL", "SET", "UNSET", "GETPORT", "DUMP", "CALLIT"],
        (PORTMAPPER, 3) => {
            &["NULL", "SET", "UNSET", "GETADDR", "DUMP", "CALLIT", "GETTIME", "UADDR2TADDR", "TADDR2UADDR"]
        }
        (PORTMAPPER, 4) => &[
            "NULL",
            "SET",
            "UNSET",
            "GETADDR",
            "DUMP",
            "BCAST",
            "GETTIME",
            "UADDR2TADDR",
            "TADDR2UADDR",
            "GETVERSADDR",
            "INDIRECT",
            "GETADDRLIST",
            "GETSTAT",
        ],
        (MOUNT, 1 | 3) => &["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"],
        (MOUNT, 2) => &["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT", "EXPORTALL", "PATHCONF"],
        (NLM, 1 | 3 | 4) => &[
            "NULL",
            "TEST",
            "LOCK",
            "CANCEL",
            "UNLOCK",
            "GRANTED",
            "TEST_MSG",
            "LOCK_MSG",
            "CANCEL_MSG",
            "UNLOCK_MSG",
            "GRANTED_MSG",
            "TEST_RES",
            "LOCK_RES",
            "CANCEL_RES",
            "UNLOCK_RES",
            "GRANTED_RES",
            "",
            "",
            "",
            "",
            "SHARE",
            "UNSHARE",
            "NM_LOCK",
            "FREE_ALL",
        ],
        (NSM, 1) => &["NULL", "STAT", "MON", "UNMON", "UNMON_ALL", "SIMU_CRASH", "NOTIFY"],
        _ => return None,
    };
    names.get(usize::try_from(number).ok()?).copied().filter(|name| !name.is_empty())
}
