//! NFSACL, versions 2 and 3: a side protocol without a public specification (RFC 8267, section
//! 5.2). No item is DDP-eligible.

use super::rows::{Results::Void, either, nothing, operations, success};
use super::walk::Walk;
use super::{Outcome, nfs2, nfs3};

#[cfg(test)]
mod tests;

operations! {
    /// Procedures of NFSACL version 2.
    pub enum NfsAcl2 {
        from "de facto", None => {
            0 Null        "NULL"        principal Nothing, nothing,           Void;
            1 Getacl      "GETACL"      principal Nothing, handle_and_word_2, success(acls_2);
            2 Setacl      "SETACL"      principal Nothing, setacl_2,          success(nfs2::fattr);
            3 Getattr     "GETATTR"     principal Nothing, nfs2::file_handle, success(nfs2::fattr);
            4 Access      "ACCESS"      principal Nothing, handle_and_word_2, success(access_2);
            5 Getxattrdir "GETXATTRDIR" principal Nothing, handle_and_word_2, success(nfs2::new_entry);
        }
    }
}

operations! {
    /// Procedures of NFSACL version 3.
    pub enum NfsAcl3 {
        from "de facto", None => {
            0 Null        "NULL"        principal Nothing, nothing,         Void;
            1 Getacl      "GETACL"      principal Nothing, handle_and_word, either(getacl, nfs3::attributes);
            2 Setacl      "SETACL"      principal Nothing, setacl,          either(nfs3::attributes, nfs3::attributes);
            3 Getxattrdir "GETXATTRDIR" principal Nothing, handle_and_flag, success(directory);
        }
    }
}

/// A file handle, and a word: a mask of ACL parts or access rights, or whether to create the
/// directory.
fn handle_and_word_2(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    walk.skip(4)
}

fn setacl_2(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle_2()?;
    acls(walk)
}

fn acls_2(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(nfs2::FATTR)?;
    acls(walk)
}

fn access_2(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(nfs2::FATTR + 4)
}

/// The same in version 3, whose file handles have a variable length.
fn handle_and_word(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(nfs3::FHSIZE)?;
    walk.skip(4)
}

/// The same with a boolean: whether to create the directory.
fn handle_and_flag(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(nfs3::FHSIZE)?;
    walk.flag().map(|_| ())
}

fn setacl(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(nfs3::FHSIZE)?;
    acls(walk)
}

fn getacl(walk: &mut Walk<'_, '_>) -> Outcome {
    nfs3::attributes(walk)?;
    acls(walk)
}

fn directory(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_file_handle(nfs3::FHSIZE)?;
    nfs3::attributes(walk)
}

/// A mask, then the ACL and the default ACL: each a number of entries, and a counted array of type,
/// id and permissions.
fn acls(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    for _ in 0..2 {
        walk.skip(4)?;
        walk.array(12)?;
    }
    Ok(())
}
