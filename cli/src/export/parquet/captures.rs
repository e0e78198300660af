//! The captures to export and their names.

use super::Parquet;
use super::rings::{Ring, rings};
use crate::captures::{expand, of_folder};
use crate::input::Input;
use anyhow::{Context as _, Result, bail};
use rdmascope_analysis::ending::Ending;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A capture to export.
#[derive(Debug)]
pub(super) struct Job {
    /// The site.
    pub(super) site: Option<String>,
    /// The name of the capture.
    pub(super) name: String,
    /// The files to read.
    pub(super) input: Input,
    /// Size of its files in bytes, if known.
    pub(super) size: Option<u64>,
}

/// The captures that the arguments select.
pub(super) fn jobs(command: &Parquet) -> Result<Vec<Job>> {
    let input = &command.input;
    let is_standard_input = |path: &PathBuf| path == Path::new("-");
    let job = |site: &Option<String>, Ring { name, files }: Ring| {
        let size = files.iter().map(|path| size(path)).sum();
        let input = Input { is_ring: files.len() > 1, ..input.of(files) };
        Job { site: site.clone(), name, input, size }
    };
    if !input.with.is_empty() {
        // Captures of other capture points are part of the one capture.
        let name = match (&command.capture, input.files.as_slice()) {
            (Some(name), _) => name.clone(),
            (None, [file]) if !file.is_dir() => file_name(file),
            _ => bail!("several capture points need a common name; use --capture NAME"),
        };
        let files = expand(&input.files)?;
        let input = Input { with: input.with.clone(), ..input.of(files) };
        return Ok(vec![Job { site: command.site.clone(), name, input, size: None }]);
    }
    if let Some(name) = &command.capture {
        let files = match command.unread {
            Some(_) => input.files.clone(),
            None => expand(&input.files)?,
        };
        let is_ring = rings(&files).len() == 1;
        let mut job = job(&command.site, Ring { name: name.clone(), files });
        job.input.is_ring &= is_ring;
        return Ok(vec![job]);
    }
    if input.files.iter().any(is_standard_input) {
        bail!("standard input has no name; use --capture NAME");
    }
    let mut jobs: Vec<Job> = match input.files.as_slice() {
        folders if command.sites => {
            let mut jobs = Vec::new();
            for (site, folder) in sites(folders)? {
                let site = Some(site);
                jobs.extend(rings(&captures_of(&folder)?).into_iter().map(|ring| job(&site, ring)));
            }
            jobs
        }
        // A single file keeps its name even if it is part of a ring.
        [file] if !file.is_dir() => {
            let name = file.file_name().with_context(|| format!("{}: is no file", file.display()))?;
            let name = name.to_string_lossy().into_owned();
            vec![job(&command.site, Ring { name, files: vec![file.clone()] })]
        }
        files => rings(&expand(files)?).into_iter().map(|ring| job(&command.site, ring)).collect(),
    };
    if jobs.is_empty() {
        bail!("the folders contain no captures (pcap, pcapng or ERF)");
    }
    let mut names = BTreeSet::new();
    for Job { site, name, input, .. } in &jobs {
        if !names.insert((site, name)) {
            bail!(
                "{}: two captures are called {name}; export one of them with a different --capture or --site",
                input.files[0].display()
            );
        }
    }
    // Several parallel captures share one progress line.
    if jobs.len() > 1 {
        jobs.iter_mut().for_each(|job| job.input.quiet = true);
    }
    Ok(jobs)
}

/// The folders and all folders below them, with their names. Hidden folders are left out.
fn sites(folders: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let mut sites = Vec::new();
    let mut open = folders.to_vec();
    // A link may lead back to a folder above it.
    let mut seen = BTreeSet::new();
    while let Some(folder) = open.pop() {
        let cannot = || format!("{}: cannot be read", folder.display());
        let canonical = folder.canonicalize().with_context(cannot)?;
        // `.` has no name of its own.
        let name = folder.file_name().or(canonical.file_name()).unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        if !seen.insert(canonical) {
            continue;
        }
        for entry in fs::read_dir(&folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            if !entry.file_name().to_string_lossy().starts_with('.') && entry.path().is_dir() {
                open.push(entry.path());
            }
        }
        sites.push((name, folder));
    }
    sites.sort();
    Ok(sites)
}

fn captures_of(folder: &Path) -> Result<Vec<PathBuf>> {
    of_folder(folder).with_context(|| format!("{}: cannot be read", folder.display()))
}

/// Size of a file in bytes; `None` if it is not a regular file or does not exist.
fn size(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len())
}

impl Job {
    /// The names of its files, without folders.
    pub(super) fn file_names(&self) -> Vec<String> {
        self.input.files.iter().map(|path| file_name(path)).collect()
    }

    /// The names of its files, in the order in which they were read.
    pub(super) fn names_of(&self, ending: &Ending) -> Vec<String> {
        ending.files.iter().map(|file| file_name(Path::new(&file.name))).collect()
    }

    /// Removes the folders from file names in a message, so that tables do not depend on the
    /// location of a capture.
    pub(super) fn without_folders(&self, message: String) -> String {
        self.input
            .files
            .iter()
            .fold(message, |message, path| message.replace(&path.display().to_string(), &file_name(path)))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
