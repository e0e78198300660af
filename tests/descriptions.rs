//! Compares the peer's enumerations with the descriptions in `rdmascope-xdr`, on which they must
//! not depend.

use rdmascope_peer::nfs3::{FileType, Procedure, Stable, Status};
use rdmascope_wire::rpc::program;
use rdmascope_xdr::NFS3;

/// Checks that numbers and names of an enumeration match its description.
fn same<T: Copy + ToString>(name: &str, all: &[T], number: fn(T) -> u32) {
    let described = NFS3.enumerators(name).expect("it is described");
    let described: Vec<_> = described.iter().map(|(number, name)| (*number, (*name).to_owned())).collect();
    let all: Vec<_> = all.iter().map(|one| (number(*one), one.to_string())).collect();
    assert_eq!(all, described);
}

#[test]
fn peer_enumerations_match_the_nfs3_description() {
    same("nfsstat3", Status::ALL, Status::number);
    same("ftype3", FileType::ALL, FileType::number);
    same("stable_how", Stable::ALL, Stable::number);
    for procedure in Procedure::ALL {
        let described = NFS3.procedure(program::NFS, 3, procedure.number()).expect("it is described");
        assert_eq!(described.name.strip_prefix("NFSPROC3_"), Some(&*procedure.to_string()));
    }
}
