//! Which files are captures, and those of a folder.

use anyhow::{Context as _, Result, bail};
use rdmascope_capture_agent::{Capture, Error};
use std::path::{Path, PathBuf};

/// Lets the process have as many files open as it may: all files of a capture are, and a ring has more than the soft limit of most systems.
/// Where that cannot be changed, the file that cannot be opened is told.
pub(crate) fn allow_many() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// What the names of captures end with.
pub(crate) const CAPTURES: [&str; 4] = ["pcap", "pcapng", "cap", "erf"];
/// What is behind that where they are compressed.
const COMPRESSIONS: [&str; 2] = ["gz", "zst"];

/// Whether a file is a capture by its name, such as `mount.pcap.zst`.
pub(crate) fn is_capture_name(path: &Path) -> bool {
    ends_with_one_of(&without_compression(path), &CAPTURES)
}

/// Whether a file is one by its name or its content, such as `mount.pcap0` of a ring.
pub(crate) fn is_capture(path: &Path) -> bool {
    // What cannot be opened may be one, and whoever reads it will say so.
    is_capture_name(path)
        || is_numbered_name(path)
        || matches!(Capture::open(path), Ok(_) | Err(Error::Open { .. }))
}

/// Whether tcpdump gave a file its name in a ring, such as `mount.pcap1`.
fn is_numbered_name(path: &Path) -> bool {
    let path = without_compression(path);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let kind = extension.trim_end_matches(|letter: char| letter.is_ascii_digit());
    kind.len() < extension.len() && CAPTURES.iter().any(|one| kind.eq_ignore_ascii_case(one))
}

/// The path of a capture without what tells of its format, so that a capture can be compressed and stay the same.
pub(crate) fn stem(path: &Path) -> PathBuf {
    let path = without_compression(path);
    if ends_with_one_of(&path, &CAPTURES) { path.with_extension("") } else { path }
}

/// The paths with the captures of each folder in its place, in the order of their names. Hidden files are left out, and so are folders in a
/// folder. A folder without a capture is an error.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        if path == Path::new("-") || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let captures = of_folder(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        if captures.is_empty() {
            bail!("{}: no capture there: no pcap, pcapng or ERF file, compressed or not", path.display());
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
        // A FIFO would have to be waited for to know.
        if !is_hidden && path.is_file() && is_capture(&path) {
            captures.push(path);
        }
    }
    captures.sort();
    Ok(captures)
}

/// The path without what tells that a file is compressed.
pub(crate) fn without_compression(path: &Path) -> PathBuf {
    if ends_with_one_of(path, &COMPRESSIONS) { path.with_extension("") } else { path.to_owned() }
}

fn ends_with_one_of(path: &Path, extensions: &[&str]) -> bool {
    let Some(extension) = path.extension() else { return false };
    extensions.iter().any(|one| extension.eq_ignore_ascii_case(one))
}
