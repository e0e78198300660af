//! NFSACL, versions 2 and 3: a side protocol without a public definition (RFC 8267, section 5.2). No item is DDP-eligible.

use super::walk::Walk;
use super::{Outcome, nfs2, nfs3};

#[cfg(test)]
mod tests;

/// Procedures of version 2 by number.
pub(super) const PROCEDURES_2: [&str; 6] = ["NULL", "GETACL", "SETACL", "GETATTR", "ACCESS", "GETXATTRDIR"];
/// Procedures of version 3 by number.
pub(super) const PROCEDURES_3: [&str; 4] = ["NULL", "GETACL", "SETACL", "GETXATTRDIR"];

pub(super) fn arguments_2(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match procedure {
        // A mask of what is asked for; a mask of access rights; whether to create the directory.
        1 | 4 | 5 => {
            walk.file_handle_2()?;
            walk.skip(4)
        }
        2 => {
            walk.file_handle_2()?;
            acls(walk)
        }
        3 => walk.file_handle_2(),
        _ => Ok(()),
    }
}

pub(super) fn results_2(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    if matches!(procedure, 0 | 6..) || !walk.status()? {
        return Ok(());
    }
    match procedure {
        1 => {
            walk.skip(nfs2::FATTR)?;
            acls(walk)
        }
        4 => walk.skip(nfs2::FATTR + 4),
        5 => {
            walk.result_file_handle_2()?;
            walk.skip(nfs2::FATTR)
        }
        _ => walk.skip(nfs2::FATTR),
    }
}

pub(super) fn arguments_3(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match procedure {
        1 | 3 => {
            walk.file_handle()?;
            walk.skip(4)
        }
        2 => {
            walk.file_handle()?;
            acls(walk)
        }
        _ => Ok(()),
    }
}

pub(super) fn results_3(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    if matches!(procedure, 0 | 4..) {
        return Ok(());
    }
    match (procedure, walk.status()?) {
        (1, true) => {
            nfs3::attributes(walk)?;
            acls(walk)
        }
        (3, true) => {
            walk.result_file_handle()?;
            nfs3::attributes(walk)
        }
        (3, false) => Ok(()),
        _ => nfs3::attributes(walk),
    }
}

/// What is there, then the ACL and the default ACL: each a number of entries, and a counted array of type, id and permissions.
fn acls(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    for _ in 0..2 {
        walk.skip(4)?;
        walk.array(12)?;
    }
    Ok(())
}
