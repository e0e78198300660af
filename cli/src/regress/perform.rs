//! Performs the job of one file.

use super::found::{self, MOST_BYTES};
use super::manifest::Digest;
use super::plan::{Job, Listed, Task};
use super::{Regress, SHOWN};
use crate::atomic_file::OutputFile;
use crate::output::Format;
use anyhow::{Context as _, Result, bail};
use rdmascope_present::regress::{Blessed, Lines, Outcome, Verdict, compare};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

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
            let verdict = other.unwrap_or_else(|| match found::found(path, name, command.port) {
                Err(error) => Verdict::Unreadable(format!("{error:#}")),
                Ok(found) if command.bless => bless(expectation, &found),
                Ok(found) => judge(expectation, &found, command),
            });
            (listed, verdict)
        }
    };
    let is_capture = matches!(job.task, Task::Capture { .. });
    Outcome { path: path.clone(), is_capture, listed, verdict }
}

/// Verifies the digest of a file. Returns the failure, if any.
fn verify(path: &Path, expected: Digest) -> Option<Verdict> {
    match Digest::of(path) {
        Ok(found) if found == expected => None,
        Ok(found) => Some(Verdict::OtherFile(format!(
            "{}: does not match MANIFEST: its SHA-256 digest is {found}, not {expected}",
            path.display()
        ))),
        Err(error) => Some(Verdict::Unreadable(format!("{error:#}"))),
    }
}

/// Compares the results with the file `expectation`.
fn judge(expectation: &Path, found: &[u8], command: &Regress) -> Verdict {
    let expected = match read(expectation) {
        Ok(Some(expected)) => expected,
        Ok(None) => return Verdict::NoExpectation,
        Err(error) => return Verdict::BrokenExpectation(format!("{error:#}")),
    };
    // The common case: nothing has changed.
    if expected == found {
        return Verdict::Same;
    }
    let expected = match Lines::parse(&expected) {
        Ok(expected) => expected,
        Err(broken) => {
            return Verdict::BrokenExpectation(format!("{}: {broken}", expectation.display()));
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

/// Writes the results to the file `expectation`, unless it already has them.
fn bless(expectation: &Path, found: &[u8]) -> Verdict {
    let before = match read(expectation) {
        Ok(Some(before)) if before == found => return Verdict::Same,
        Ok(before) => before.unwrap_or_default(),
        Err(error) => return Verdict::BrokenExpectation(format!("{error:#}")),
    };
    match write(expectation, found) {
        Ok(()) => Verdict::Blessed(Blessed::between(&before, found)),
        Err(error) => Verdict::BrokenExpectation(format!("{error:#}")),
    }
}

/// The contents of the file at `path`, if it exists.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let cannot_be_read = || format!("{}: cannot be read", path.display());
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Reading a FIFO could block forever.
        Ok(metadata) if !metadata.is_file() => bail!("{}: not a regular file", path.display()),
        Ok(_) | Err(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(cannot_be_read)?;
    let length = file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(cannot_be_read)?;
    if length > MOST_BYTES {
        bail!("{}: too long for an expectation", path.display());
    }
    Ok(Some(bytes))
}

/// Writes the file at `path` atomically.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = OutputFile::create(path, &[], "--bless")?;
    let written = file.write_all(bytes).and_then(|()| file.finish());
    written.with_context(|| format!("{}: cannot be written", path.display()))
}
