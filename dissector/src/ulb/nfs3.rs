//! NFS version 3 (RFC 1813), with the DDP-eligible items of RFC 8267, section 4.

use super::Outcome;
use super::rows::{Results::Void, either, nothing, operations, success};
use super::walk::Walk;
use core::ops::RangeInclusive;

#[cfg(test)]
mod tests;

operations! {
    /// Procedures of NFS version 3 (RFC 1813, section 3).
    pub enum Nfs3 {
        from "RFC 1813", None => {
             0 Null        "NULL"        principal Nothing,  nothing,     Void;
             1 Getattr     "GETATTR"     principal Nothing,  file_handle, success(fattr);
             2 Setattr     "SETATTR"     principal Nothing,  setattr,     either(changed, changed);
             3 Lookup      "LOOKUP"      principal Nothing,  entry,       either(found, attributes);
             4 Access      "ACCESS"      principal Nothing,  access,      either(granted, attributes);
             5 Readlink    "READLINK"    principal Result,   file_handle, either(link_text, attributes);
             6 Read        "READ"        principal Result,   range,       either(read_data, attributes);
             7 Write       "WRITE"       principal Argument, write,       either(written, changed);
             8 Create      "CREATE"      principal Nothing,  create,      either(created, changed);
             9 Mkdir       "MKDIR"       principal Nothing,  mkdir,       either(created, changed);
            10 Symlink     "SYMLINK"     principal Argument, symlink,     either(created, changed);
            11 Mknod       "MKNOD"       principal Nothing,  mknod,       either(created, changed);
            12 Remove      "REMOVE"      principal Nothing,  entry,       either(changed, changed);
            13 Rmdir       "RMDIR"       principal Nothing,  entry,       either(changed, changed);
            14 Rename      "RENAME"      principal Nothing,  rename,      either(both_changed, both_changed);
            15 Link        "LINK"        principal Nothing,  link,        either(linked, linked);
            16 Readdir     "READDIR"     principal Nothing,  readdir,     either(entries, attributes);
            17 Readdirplus "READDIRPLUS" principal Nothing,  readdirplus, either(entries_plus, attributes);
            18 Fsstat      "FSSTAT"      principal Nothing,  file_handle, either(file_system_state, attributes);
            19 Fsinfo      "FSINFO"      principal Nothing,  file_handle, either(file_system, attributes);
            20 Pathconf    "PATHCONF"    principal Nothing,  file_handle, either(path_limits, attributes);
            21 Commit      "COMMIT"      principal Nothing,  range,       either(committed, changed);
        }
    }
}

/// The most bytes of an `nfs_fh3` (section 2.4).
pub(super) const FHSIZE: usize = 64;
/// Bytes of an `fattr3` and of a `wcc_attr` (section 2.6).
const FATTR: u32 = 84;
const WCC_ATTR: u32 = 24;
/// The constants of `ftype3` (section 2.5).
const FILE_TYPES: RangeInclusive<u32> = 1..=7;
/// Bytes of a `writeverf3`, `createverf3` or `cookieverf3`.
const VERIFIER: u32 = 8;

fn file_handle(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)
}

fn setattr(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    settable_attributes(walk)?;
    walk.optional(8)
}

fn access(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.skip(4)
}

/// READ and COMMIT: a file handle, an offset and a count.
fn range(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.offset()?;
    walk.count()
}

fn write(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.offset()?;
    walk.count()?;
    let count_at = walk.payload.reader().position() - 4;
    walk.operation.stable[0] = walk.stable()?;
    let length = walk.argument_item()?;
    walk.payload.allow_at(count_at, walk.operation.count == Some(length.into()));
    Ok(())
}

fn create(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    match walk.u32()? {
        // UNCHECKED and GUARDED.
        0 | 1 => settable_attributes(walk),
        // EXCLUSIVE.
        2 => walk.skip(VERIFIER),
        _ => Err(walk.no_such_arm()),
    }
}

fn mkdir(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    settable_attributes(walk)
}

fn symlink(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    settable_attributes(walk)?;
    walk.argument_link()
}

fn mknod(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    match walk.constant(FILE_TYPES)? {
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

fn rename(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    walk.file_handle(FHSIZE)?;
    walk.other_name()
}

fn link(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.file_handle(FHSIZE)?;
    walk.file_name()
}

fn readdir(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.skip(8 + VERIFIER)?;
    walk.count()
}

fn readdirplus(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.skip(8 + VERIFIER + 4)?;
    walk.count()
}

fn fattr(walk: &mut Walk<'_, '_>) -> Outcome {
    let (at, kind) = (walk.payload.reader().position(), walk.payload.clone().u32());
    walk.skip(FATTR)?;
    walk.payload.allow_at(at, kind.is_ok_and(|kind| FILE_TYPES.contains(&kind)));
    Ok(())
}

fn found(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_file_handle(FHSIZE)?;
    attributes(walk)?;
    attributes(walk)
}

fn granted(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.skip(4)
}

fn link_text(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.result_link()
}

fn read_data(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.result_count()?;
    let count_at = walk.payload.reader().position() - 4;
    walk.end_of_file()?;
    let length = walk.result_item()?;
    walk.payload.allow_at(count_at, walk.operation.result_count == Some(length.into()));
    Ok(())
}

fn written(walk: &mut Walk<'_, '_>) -> Outcome {
    changed(walk)?;
    walk.result_count()?;
    walk.operation.stable[1] = walk.stable()?;
    walk.skip(VERIFIER)
}

fn created(walk: &mut Walk<'_, '_>) -> Outcome {
    if walk.bool()? {
        walk.result_file_handle(FHSIZE)?;
    }
    attributes(walk)?;
    changed(walk)
}

/// The two directories that RENAME changed.
fn both_changed(walk: &mut Walk<'_, '_>) -> Outcome {
    changed(walk)?;
    changed(walk)
}

fn linked(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    changed(walk)
}

fn entries(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.skip(VERIFIER)?;
    let begin = walk.payload.reader().position();
    walk.list(|walk| {
        walk.skip(8)?;
        walk.opaque()?;
        walk.skip(8)
    })?;
    walk.end_of_entries(begin)
}

fn entries_plus(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.skip(VERIFIER)?;
    let begin = walk.payload.reader().position();
    walk.entries(|walk| {
        walk.skip(8)?;
        let name = walk.payload.opaque()?;
        walk.skip(8)?;
        attributes(walk)?;
        let file_handle = if walk.bool()? { walk.payload.opaque()? } else { &[] };
        Ok((name, file_handle))
    })?;
    walk.end_of_entries(begin)
}

fn file_system_state(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.skip(6 * 8 + 4)
}

fn file_system(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.skip(7 * 4 + 8 + 8 + 4)
}

fn path_limits(walk: &mut Walk<'_, '_>) -> Outcome {
    attributes(walk)?;
    walk.skip(2 * 4)?;
    // no_trunc, chown_restricted, case_insensitive and case_preserving.
    for _ in 0..4 {
        walk.flag()?;
    }
    Ok(())
}

fn committed(walk: &mut Walk<'_, '_>) -> Outcome {
    changed(walk)?;
    walk.skip(VERIFIER)
}

/// A `diropargs3`.
#[inline]
fn entry(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.file_name()
}

/// A `post_op_attr`.
#[inline]
pub(super) fn attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    if walk.bool()? { fattr(walk) } else { Ok(()) }
}

/// A `wcc_data`.
#[inline]
fn changed(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.optional(WCC_ATTR)?;
    attributes(walk)
}

/// A `sattr3`.
fn settable_attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    // Mode, owner and group.
    for _ in 0..3 {
        walk.optional(4)?;
    }
    if walk.bool()? {
        walk.operation.size = Some(walk.payload.u64()?);
    }
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
