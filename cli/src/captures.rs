//! Recognizes capture files and expands folders.

use anyhow::{Context as _, Result, bail};
use rdmascope_capture_agent::{Capture, Error};
use std::path::{Path, PathBuf};

/// Raises the soft limit of open files to the hard limit. All files of a capture are open at once,
/// and a ring may have more files than the usual soft limit. If this fails, opening a file reports
/// the error.
pub(crate) fn allow_many() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// File name extensions of captures.
pub(crate) const CAPTURES: [&str; 4] = ["pcap", "pcapng", "cap", "erf"];
/// Further extensions of compressed captures.
const COMPRESSIONS: [&str; 2] = ["gz", "zst"];

/// Whether a file name has the extension of a capture, such as `mount.pcap.zst`.
pub(crate) fn is_capture_name(path: &Path) -> bool {
    ends_with_one_of(&without_compression(path), &CAPTURES)
}

/// Whether a file is a capture by its name or its content, such as `mount.pcap0` of a ring.
pub(crate) fn is_capture(path: &Path) -> bool {
    // A file that cannot be opened counts as a capture; reading it reports the error.
    is_capture_name(path)
        || is_numbered_name(path)
        || matches!(Capture::open(path), Ok(_) | Err(Error::Open { .. }))
}

/// Whether a file name has the number that tcpdump adds to files of a ring, such as `mount.pcap1`.
fn is_numbered_name(path: &Path) -> bool {
    let path = without_compression(path);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let kind = extension.trim_end_matches(|letter: char| letter.is_ascii_digit());
    kind.len() < extension.len() && CAPTURES.iter().any(|one| kind.eq_ignore_ascii_case(one))
}

/// The path of a capture without its format and compression extensions. It stays the same when the
/// capture is compressed.
pub(crate) fn stem(path: &Path) -> PathBuf {
    let path = without_compression(path);
    if ends_with_one_of(&path, &CAPTURES) { path.with_extension("") } else { path }
}

/// Replaces each folder by the captures in it, in the order of their names. Hidden files and
/// subfolders are ignored. A folder without captures is an error.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        if path == Path::new("-") || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let captures = of_folder(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        if captures.is_empty() {
            bail!(
                "{}: the folder contains no captures (pcap, pcapng or ERF, also compressed)",
                path.display()
            );
        }
        files.extend(captures);
    }
    Ok(files)
}

pub(crate) fn of_folder(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut captures = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Looking into a FIFO would block.
        if !is_hidden && path.is_file() && is_capture(&path) {
            captures.push(path);
        }
    }
    captures.sort();
    Ok(captures)
}

/// The path without its compression extension.
pub(crate) fn without_compression(path: &Path) -> PathBuf {
    if ends_with_one_of(path, &COMPRESSIONS) { path.with_extension("") } else { path.to_owned() }
}

fn ends_with_one_of(path: &Path, extensions: &[&str]) -> bool {
    let Some(extension) = path.extension() else { return false };
    extensions.iter().any(|one| extension.eq_ignore_ascii_case(one))
}
