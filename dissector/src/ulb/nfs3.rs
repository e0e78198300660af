//! NFS version 3 (RFC 1813), with the DDP-eligible items of RFC 8267, section 4.

use super::Outcome;
use super::walk::Walk;

#[cfg(test)]
mod tests;

/// Procedures by number (RFC 1813, section 3).
pub(super) const PROCEDURES: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

/// Bytes of an `fattr3` and of a `wcc_attr` (section 2.6).
const FATTR: u32 = 84;
const WCC_ATTR: u32 = 24;
/// Bytes of a `writeverf3`, `createverf3` or `cookieverf3`.
const VERIFIER: u32 = 8;

pub(super) fn arguments(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match procedure {
        1 | 5 | 18..=20 => walk.file_handle(),
        2 => {
            walk.file_handle()?;
            settable_attributes(walk)?;
            walk.optional(8)
        }
        3 | 12 | 13 => entry(walk),
        4 => {
            walk.file_handle()?;
            walk.skip(4)
        }
        6 | 21 => {
            walk.file_handle()?;
            walk.offset()?;
            walk.count()
        }
        7 => {
            walk.file_handle()?;
            walk.offset()?;
            walk.count()?;
            walk.skip(4)?;
            walk.argument_item().map(|_| ())
        }
        8 => {
            entry(walk)?;
            match walk.u32()? {
                // UNCHECKED and GUARDED.
                0 | 1 => settable_attributes(walk),
                // EXCLUSIVE.
                2 => walk.skip(VERIFIER),
                _ => Err(walk.no_such_arm()),
            }
        }
        9 => {
            entry(walk)?;
            settable_attributes(walk)
        }
        10 => {
            entry(walk)?;
            settable_attributes(walk)?;
            walk.argument_link()
        }
        11 => {
            entry(walk)?;
            match walk.u32()? {
                // NF3BLK and NF3CHR.
                3 | 4 => {
                    settable_attributes(walk)?;
                    walk.skip(8)
                }
                // NF3SOCK and NF3FIFO.
                6 | 7 => settable_attributes(walk),
                _ => Ok(()),
            }
        }
        14 => {
            entry(walk)?;
            walk.file_handle()?;
            walk.other_name()
        }
        15 => {
            walk.file_handle()?;
            walk.file_handle()?;
            walk.file_name()
        }
        16 => {
            walk.file_handle()?;
            walk.skip(8 + VERIFIER)?;
            walk.count()
        }
        17 => {
            walk.file_handle()?;
            walk.skip(8 + VERIFIER + 4)?;
            walk.count()
        }
        _ => Ok(()),
    }
}

pub(super) fn results(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    if matches!(procedure, 0 | 22..) {
        return Ok(());
    }
    if walk.status()? { success(procedure, walk) } else { failure(procedure, walk) }
}

fn success(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match procedure {
        1 => walk.skip(FATTR),
        2 | 12 | 13 => weak_cache_consistency(walk),
        3 => {
            walk.result_file_handle()?;
            attributes(walk)?;
            attributes(walk)
        }
        4 => {
            attributes(walk)?;
            walk.skip(4)
        }
        5 => {
            attributes(walk)?;
            walk.result_link()
        }
        6 => {
            attributes(walk)?;
            walk.result_count()?;
            walk.end_of_file()?;
            walk.result_item().map(|_| ())
        }
        7 => {
            weak_cache_consistency(walk)?;
            walk.result_count()?;
            walk.skip(4 + VERIFIER)
        }
        8..=11 => {
            if walk.bool()? {
                walk.result_file_handle()?;
            }
            attributes(walk)?;
            weak_cache_consistency(walk)
        }
        14 => {
            weak_cache_consistency(walk)?;
            weak_cache_consistency(walk)
        }
        15 => {
            attributes(walk)?;
            weak_cache_consistency(walk)
        }
        16 => {
            attributes(walk)?;
            walk.skip(VERIFIER)?;
            walk.list(|walk| {
                walk.skip(8)?;
                walk.opaque()?;
                walk.skip(8)
            })?;
            walk.end_of_file()
        }
        17 => {
            attributes(walk)?;
            walk.skip(VERIFIER)?;
            walk.list(|walk| {
                walk.skip(8)?;
                walk.opaque()?;
                walk.skip(8)?;
                attributes(walk)?;
                if walk.bool()? {
                    walk.opaque()?;
                }
                Ok(())
            })?;
            walk.end_of_file()
        }
        18 => {
            attributes(walk)?;
            walk.skip(6 * 8 + 4)
        }
        19 => {
            attributes(walk)?;
            walk.skip(7 * 4 + 8 + 8 + 4)
        }
        20 => {
            attributes(walk)?;
            walk.skip(6 * 4)
        }
        21 => {
            weak_cache_consistency(walk)?;
            walk.skip(VERIFIER)
        }
        _ => Ok(()),
    }
}

fn failure(procedure: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match procedure {
        3 | 4 | 16..=20 => attributes(walk),
        5 | 6 => {
            walk.pass_chunk();
            attributes(walk)
        }
        2 | 7..=13 | 21 => weak_cache_consistency(walk),
        14 => {
            weak_cache_consistency(walk)?;
            weak_cache_consistency(walk)
        }
        15 => {
            attributes(walk)?;
            weak_cache_consistency(walk)
        }
        _ => Ok(()),
    }
}

/// A `diropargs3`.
#[inline]
fn entry(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle()?;
    walk.file_name()
}

/// A `post_op_attr`.
#[inline]
pub(super) fn attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.optional(FATTR)
}

/// A `wcc_data`.
#[inline]
fn weak_cache_consistency(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.optional(WCC_ATTR)?;
    attributes(walk)
}

/// A `sattr3`.
fn settable_attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    // Mode, owner and group.
    for _ in 0..3 {
        walk.optional(4)?;
    }
    walk.optional(8)?;
    // The times of access and of modification.
    for _ in 0..2 {
        match walk.u32()? {
            // DONT_CHANGE and SET_TO_SERVER_TIME.
            0 | 1 => {}
            // SET_TO_CLIENT_TIME.
            2 => walk.skip(8)?,
            _ => return Err(walk.no_such_arm()),
        }
    }
    Ok(())
}
