//! NFS version 2 (RFC 1094), with the DDP-eligible items of RFC 8267, section 4.

use super::Outcome;
use super::walk::Walk;

/// Procedures by number (RFC 1094, section 2.2).
pub(super) const PROCEDURES: [&str; 18] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "ROOT",
    "LOOKUP",
    "READLINK",
    "READ",
    "WRITECACHE",
    "WRITE",
    "CREATE",
    "REMOVE",
    "RENAME",
    "LINK",
    "SYMLINK",
    "MKDIR",
    "RMDIR",
    "READDIR",
    "STATFS",
];

/// Bytes of a `fattr` (section 2.3.5) and of an `sattr` (section 2.3.6).
pub(super) const FATTR: u32 = 17 * 4;
const SATTR: u32 = 8 * 4;

pub(super) fn arguments(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match procedure {
        1 | 5 | 17 => walk.file_handle_2(),
        2 => {
            walk.file_handle_2()?;
            walk.skip(SATTR)
        }
        4 | 10 | 15 => entry(walk),
        6 => {
            walk.file_handle_2()?;
            offset(walk)?;
            walk.count()?;
            walk.skip(4)
        }
        8 => {
            walk.file_handle_2()?;
            // beginoffset, which servers ignore (section 2.2.9).
            walk.skip(4)?;
            offset(walk)?;
            walk.skip(4)?;
            walk.operation.count = Some(walk.argument_item()?.into());
            Ok(())
        }
        9 | 14 => {
            entry(walk)?;
            walk.skip(SATTR)
        }
        11 => {
            entry(walk)?;
            walk.file_handle_2()?;
            walk.other_name()
        }
        12 => {
            walk.file_handle_2()?;
            walk.file_handle_2()?;
            walk.file_name()
        }
        13 => {
            entry(walk)?;
            walk.argument_link()?;
            walk.skip(SATTR)
        }
        16 => {
            walk.file_handle_2()?;
            walk.skip(4)?;
            walk.count()
        }
        _ => Ok(()),
    }
}

pub(super) fn results(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    if matches!(procedure, 0 | 3 | 7 | 18..) {
        return Ok(());
    }
    if !walk.status()? {
        if matches!(procedure, 5 | 6) {
            walk.pass_chunk();
        }
        return Ok(());
    }
    match procedure {
        1 | 2 | 8 => walk.skip(FATTR),
        4 | 9 | 14 => {
            walk.result_file_handle_2()?;
            walk.skip(FATTR)
        }
        5 => walk.result_link(),
        6 => {
            walk.skip(FATTR)?;
            walk.operation.result_count = Some(walk.result_item()?.into());
            Ok(())
        }
        16 => {
            walk.list(|walk| {
                walk.skip(4)?;
                walk.opaque()?;
                walk.skip(4)
            })?;
            walk.end_of_file()
        }
        17 => walk.skip(5 * 4),
        _ => Ok(()),
    }
}

/// A `diropargs` (section 2.3.10).
fn entry(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    walk.file_name()
}

fn offset(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.operation.offset = Some(walk.u32()?.into());
    Ok(())
}
