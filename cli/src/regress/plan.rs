//! Finds the work to do in a folder.

use super::manifest::{self, Digest, Manifest};
use crate::captures::{is_capture, is_capture_name, stem};
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The suffix of expectation files.
const EXPECTATION: &str = ".expected.jsonl";

/// The jobs, in the order of paths.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) jobs: Vec<Job>,
    /// Number of files that neither are captures nor belong to one.
    pub(super) others: u64,
}

/// The work for one file.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) path: PathBuf,
    pub(super) task: Task,
}

#[derive(Debug)]
pub(super) enum Task {
    /// Analyze and compare a capture.
    Capture {
        /// The path of its expectation.
        expectation: PathBuf,
        /// Its name without format extensions.
        name: String,
        listed: Listed,
    },
    /// Verify another file that a manifest lists.
    Verify(Digest),
    /// Report a file that a manifest lists but that does not exist.
    Absent,
    /// Report an expectation without a capture.
    Orphan,
}

/// The manifest entry of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// There is no manifest.
    NoManifest,
    /// The manifest does not list it.
    No,
    Yes(Digest),
}

/// The files found in the folders.
#[derive(Default)]
struct Found {
    captures: Vec<PathBuf>,
    expectations: BTreeSet<PathBuf>,
    manifests: Vec<Manifest>,
    others: BTreeSet<PathBuf>,
}

impl Plan {
    /// Searches `folders`, and keeps files with `name` in their path below the folder.
    pub(super) fn of(folders: &[PathBuf], name: Option<&str>) -> Result<Plan> {
        let mut plan = Plan { jobs: Vec::new(), others: 0 };
        for folder in folders {
            let wanted = |path: &Path| {
                let below = path.strip_prefix(folder).unwrap_or(path);
                name.is_none_or(|name| below.to_string_lossy().contains(name))
            };
            let (jobs, others) = Found::below(folder)?.into_jobs()?;
            plan.jobs.extend(jobs.into_iter().filter(|job| wanted(&job.path)));
            plan.others += others;
        }
        plan.jobs.sort_by(|one, other| one.path.cmp(&other.path));
        let captures: Vec<&Path> = plan.jobs.iter().filter_map(Job::capture).collect();
        if captures.is_empty() {
            let folders =
                folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
            match name {
                Some(name) => bail!("{folders}: no capture with {name:?} in its path"),
                None => bail!("{folders}: no captures there (pcap, pcapng or ERF, also compressed)"),
            }
        }
        if let Some((twice, _)) = captures.iter().zip(&captures[1..]).find(|(one, next)| one == next) {
            bail!("{}: in two of the given folders", twice.display());
        }
        Ok(plan)
    }
}

impl Job {
    /// The path of the capture to compare.
    fn capture(&self) -> Option<&Path> {
        matches!(self.task, Task::Capture { .. }).then_some(&*self.path)
    }
}

impl Found {
    /// Searches `folder` recursively. Hidden files such as `.git` are ignored. Links to folders are
    /// not followed, since they may form a cycle.
    fn below(folder: &Path) -> Result<Found> {
        if folder.is_file() {
            bail!("{}: not a folder; use its folder, and its name with --name", folder.display());
        }
        let mut found = Found::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let cannot_be_read = || format!("{}: cannot be read", folder.display());
            for entry in std::fs::read_dir(&folder).with_context(cannot_be_read)? {
                let entry = entry.with_context(cannot_be_read)?;
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => folders.push(entry.path()),
                    false => found.file(entry.path())?,
                }
            }
        }
        Ok(found)
    }

    fn file(&mut self, path: PathBuf) -> Result<()> {
        if !path.is_file() {
            // A broken link may have led to a capture.
            if is_capture_name(&path) && !path.exists() {
                self.captures.push(path);
            } else {
                self.others.insert(path);
            }
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default();
        if name == manifest::NAME {
            self.manifests.push(Manifest::read(&path)?);
        } else if name.as_encoded_bytes().ends_with(EXPECTATION.as_bytes()) {
            self.expectations.insert(path);
        } else if is_capture(&path) {
            self.captures.push(path);
        } else {
            self.others.insert(path);
        }
        Ok(())
    }

    /// The jobs, and the number of files without any.
    fn into_jobs(self) -> Result<(Vec<Job>, u64)> {
        let Found { captures, mut expectations, manifests, mut others } = self;
        let mut listed: BTreeMap<&Path, Digest> = BTreeMap::new();
        for (path, digest) in manifests.iter().flat_map(|manifest| &manifest.files) {
            if listed.insert(path, *digest).is_some_and(|before| before != *digest) {
                bail!("{}: listed twice, with different digests", path.display());
            }
        }
        let mut jobs: Vec<Job> = Vec::new();
        let mut of_expectation: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
        for path in captures {
            let (stem, expectation) = (stem(&path), expectation_of(&path));
            if let Some(other) = of_expectation.insert(expectation.clone(), path.clone()) {
                bail!(
                    "{} and {}: {} would be the expectation of both; rename one",
                    other.display(),
                    path.display(),
                    expectation.display()
                );
            }
            expectations.remove(&expectation);
            let ruled = manifests.iter().any(|manifest| path.starts_with(&manifest.folder));
            let listed = match listed.remove(&*path) {
                Some(digest) => Listed::Yes(digest),
                None if ruled => Listed::No,
                None => Listed::NoManifest,
            };
            let name = stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
            jobs.push(Job { path, task: Task::Capture { expectation, name, listed } });
        }
        for (path, digest) in listed {
            others.remove(path);
            let task = if path.is_file() { Task::Verify(digest) } else { Task::Absent };
            jobs.push(Job { path: path.to_owned(), task });
        }
        jobs.extend(expectations.into_iter().map(|path| Job { path, task: Task::Orphan }));
        Ok((jobs, others.len() as u64))
    }
}

/// The path of the expectation for the capture at `path`.
pub(super) fn expectation_of(path: &Path) -> PathBuf {
    let stem = stem(path);
    let mut name = stem.file_name().unwrap_or_default().to_owned();
    name.push(EXPECTATION);
    stem.with_file_name(name)
}
