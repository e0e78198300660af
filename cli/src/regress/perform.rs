//! What is done with one file.

use super::compare::{Difference, compare};
use super::lines::{self, Lines, MOST_BYTES};
use super::manifest::Digest;
use super::plan::{Job, Listed, Task};
use super::{Regress, SHOWN};
use crate::output::Format;
use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// What came of a job.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The file.
    pub(super) path: PathBuf,
    /// Whether it is a capture, and not another file that a manifest lists, or an expectation alone.
    pub(super) is_capture: bool,
    /// Whether a manifest lists it; `None` where there is no manifest.
    pub(super) listed: Option<bool>,
    pub(super) verdict: Verdict,
}

/// What is to be said of a file.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is as expected.
    Same,
    /// It is not: some of the differences, how many there are, and whether there are findings where none were expected.
    Different { differences: Vec<Difference>, count: u64, first_findings: bool },
    /// Nothing is expected of it.
    NoExpectation,
    /// What is expected of it was written.
    Blessed(Blessed),
    /// An expectation stands there without its capture.
    NoCapture,
    /// A manifest lists it, and it is not there.
    Absent,
    /// It is not the file that a manifest lists.
    OtherFile(anyhow::Error),
    /// It could not be read.
    Unreadable(anyhow::Error),
    /// Its expectation is none, or could not be read or written.
    BrokenExpectation(anyhow::Error),
}

/// What was written, in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blessed {
    /// Lines that were not there before.
    pub(super) added: u64,
    /// Lines that are no longer there.
    pub(super) removed: u64,
}

/// Performs a job.
pub(super) fn perform(job: &Job, command: &Regress) -> Outcome {
    let path = &job.path;
    let (listed, verdict) = match &job.task {
        Task::Absent => (Some(true), Verdict::Absent),
        Task::Orphan => (None, Verdict::NoCapture),
        Task::Verify(digest) => (Some(true), verify(path, *digest).unwrap_or(Verdict::Same)),
        Task::Capture { expectation, name, listed } => {
            let (listed, other) = match listed {
                Listed::NoManifest => (None, None),
                Listed::No => (Some(false), None),
                Listed::Yes(digest) => (Some(true), verify(path, *digest)),
            };
            let verdict = other.unwrap_or_else(|| match lines::found(path, name, command.port) {
                Err(error) => Verdict::Unreadable(error),
                Ok(found) if command.bless => bless(expectation, &found),
                Ok(found) => judge(expectation, &found, command),
            });
            (listed, verdict)
        }
    };
    let is_capture = matches!(job.task, Task::Capture { .. });
    Outcome { path: path.clone(), is_capture, listed, verdict }
}

/// What is wrong with a file of this digest.
fn verify(path: &Path, expected: Digest) -> Option<Verdict> {
    match Digest::of(path) {
        Ok(found) if found == expected => None,
        Ok(found) => Some(Verdict::OtherFile(anyhow!(
            "{}: not the file that MANIFEST lists: its SHA-256 digest is {found}, not {expected}",
            path.display()
        ))),
        Err(error) => Some(Verdict::Unreadable(error)),
    }
}

/// Compares what was found with what the file `expectation` says.
fn judge(expectation: &Path, found: &[u8], command: &Regress) -> Verdict {
    let expected = match read(expectation) {
        Ok(Some(expected)) => expected,
        Ok(None) => return Verdict::NoExpectation,
        Err(error) => return Verdict::BrokenExpectation(error),
    };
    // Mostly nothing has changed.
    if expected == found {
        return Verdict::Same;
    }
    let expected = match Lines::parse(&expected) {
        Ok(expected) => expected,
        Err(broken) => {
            return Verdict::BrokenExpectation(anyhow!("{}: {broken}", expectation.display()));
        }
    };
    let found = Lines::parse(found).expect("what was just written is as documented");
    let limit = match command.output.format {
        Format::Text => SHOWN,
        Format::Jsonl => usize::MAX,
    };
    let comparison = compare(&expected, &found, command.limit.unwrap_or(limit));
    match comparison.count {
        0 => Verdict::Same,
        count => Verdict::Different {
            differences: comparison.differences,
            count,
            first_findings: expected.findings.is_empty() && !found.findings.is_empty(),
        },
    }
}

/// Writes what was found as the file `expectation`, unless it stands there already.
fn bless(expectation: &Path, found: &[u8]) -> Verdict {
    let before = match read(expectation) {
        Ok(Some(before)) if before == found => return Verdict::Same,
        Ok(before) => before.unwrap_or_default(),
        Err(error) => return Verdict::BrokenExpectation(error),
    };
    match write(expectation, found) {
        Ok(()) => Verdict::Blessed(Blessed::between(&before, found)),
        Err(error) => Verdict::BrokenExpectation(error),
    }
}

/// The bytes of the file at `path`, if there is one.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let cannot_be_read = || format!("{}: cannot be read", path.display());
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Of a pipe nobody knows whether anybody writes into it.
        Ok(metadata) if !metadata.is_file() => bail!("{}: cannot be read: no regular file", path.display()),
        Ok(_) | Err(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(cannot_be_read)?;
    let length = file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(cannot_be_read)?;
    if length > MOST_BYTES {
        bail!("{}: longer than an expectation can be", path.display());
    }
    Ok(Some(bytes))
}

/// Writes the file at `path`, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // A file as any other, not one that only its owner may read.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let written = builder.prefix(".expected-").tempfile_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    });
    written.map(drop).with_context(|| format!("{}: cannot be written", path.display()))
}

impl Blessed {
    /// Counts the lines that only one of two files has.
    fn between(before: &[u8], after: &[u8]) -> Blessed {
        let mut balance: HashMap<&[u8], i64> = HashMap::new();
        for (bytes, count) in [(before, -1), (after, 1)] {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            lines.for_each(|line| *balance.entry(line).or_default() += count);
        }
        let sum = |sign: i64| balance.values().map(|count| (count * sign).max(0) as u64).sum();
        Blessed { added: sum(1), removed: sum(-1) }
    }
}
