//! Detects files that are given twice.

use super::{is_standard_input, title};
use crate::capture::Error;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Refuses a file that was given before, because its records would appear twice. Files whose
/// metadata cannot be read are skipped; opening them will fail.
pub(super) fn all_different(paths: &[PathBuf]) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for path in paths {
        if let Some(identity) = identity(path)
            && !seen.insert(identity)
        {
            return Err(Error::Duplicate { name: title(path).into() });
        }
    }
    Ok(())
}

/// Device and inode, which are the same for all names of a file.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let metadata = match is_standard_input(path) {
        true => std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?).metadata(),
        false => path.metadata(),
    };
    metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The canonical path.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    if is_standard_input(path) { Some(path.to_owned()) } else { path.canonicalize().ok() }
}
