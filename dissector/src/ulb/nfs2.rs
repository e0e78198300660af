//! NFS version 2 (RFC 1094), with the DDP-eligible items of RFC 8267, section 4.

use super::Outcome;
use super::rows::{Results::Void, nothing, operations, status, success};
use super::walk::Walk;

operations! {
    /// Procedures of NFS version 2 (RFC 1094, section 2.2).
    pub enum Nfs2 {
        from "RFC 1094", None => {
             0 Null       "NULL"       principal Nothing,  nothing,              Void;
             1 Getattr    "GETATTR"    principal Nothing,  file_handle,          success(fattr);
             2 Setattr    "SETATTR"    principal Nothing,  setattr,              success(fattr);
             3 Root       "ROOT"       principal Nothing,  nothing,              Void;
             4 Lookup     "LOOKUP"     principal Nothing,  entry,                success(new_entry);
             5 Readlink   "READLINK"   principal Result,   file_handle,          success(link_text);
             6 Read       "READ"       principal Result,   read,                 success(read_data);
             7 Writecache "WRITECACHE" principal Nothing,  nothing,              Void;
             8 Write      "WRITE"      principal Argument, write,                success(fattr);
             9 Create     "CREATE"     principal Nothing,  entry_and_attributes, success(new_entry);
            10 Remove     "REMOVE"     principal Nothing,  entry,                status();
            11 Rename     "RENAME"     principal Nothing,  rename,               status();
            12 Link       "LINK"       principal Nothing,  link,                 status();
            13 Symlink    "SYMLINK"    principal Argument, symlink,              status();
            14 Mkdir      "MKDIR"      principal Nothing,  entry_and_attributes, success(new_entry);
            15 Rmdir      "RMDIR"      principal Nothing,  entry,                status();
            16 Readdir    "READDIR"    principal Nothing,  readdir,              success(entries);
            17 Statfs     "STATFS"     principal Nothing,  file_handle,          success(file_system);
        }
    }
}

/// Bytes of a `fattr` (section 2.3.5).
pub(super) const FATTR: u32 = 17 * 4;

pub(super) fn file_handle(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()
}

fn setattr(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    settable_attributes(walk)
}

/// An `sattr` (section 2.3.6). A size of all ones is not to be set.
fn settable_attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    // Mode, owner and group.
    walk.skip(3 * 4)?;
    walk.operation.size = Some(walk.u32()?).filter(|size| *size != u32::MAX).map(u64::from);
    // The times of access and of modification.
    walk.skip(2 * 8)
}

/// A `diropargs` (section 2.3.10).
fn entry(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    walk.file_name()
}

fn entry_and_attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    settable_attributes(walk)
}

fn read(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    offset(walk)?;
    walk.count()?;
    walk.skip(4)
}

fn write(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    // beginoffset, which servers ignore (section 2.2.9).
    walk.skip(4)?;
    offset(walk)?;
    walk.skip(4)?;
    walk.operation.count = Some(walk.argument_item()?.into());
    Ok(())
}

fn offset(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.operation.offset = Some(walk.u32()?.into());
    Ok(())
}

fn rename(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    walk.file_handle_2()?;
    walk.other_name()
}

fn link(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    walk.file_handle_2()?;
    walk.file_name()
}

fn symlink(walk: &mut Walk<'_, '_>) -> Outcome {
    entry(walk)?;
    walk.argument_link()?;
    settable_attributes(walk)
}

fn readdir(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    walk.skip(4)?;
    walk.count()
}

pub(super) fn fattr(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(FATTR)
}

/// A `diropres` at NFS_OK, after its status (section 2.3.11).
pub(super) fn new_entry(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_file_handle_2()?;
    walk.skip(FATTR)
}

fn link_text(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_link()
}

fn read_data(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(FATTR)?;
    walk.operation.result_count = Some(walk.result_item()?.into());
    Ok(())
}

fn entries(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.list(|walk| {
        walk.skip(4)?;
        walk.opaque()?;
        walk.skip(4)
    })?;
    walk.end_of_file()
}

fn file_system(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(5 * 4)
}
