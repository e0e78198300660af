//! Files in a folder that appear together.

use super::{PREFIX, begin, unfinished};
use rdmascope_capture_agent::new_file;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// Maximum number of attempts to move a file into place.
const TRIES: usize = 8;

/// Files being written below a folder, which appear there together. Dropping it unfinished removes
/// everything.
pub(crate) struct Staging {
    folder: TempDir,
    output: PathBuf,
    /// Folders that were created, outer ones first.
    made: Vec<PathBuf>,
}

impl Staging {
    /// Creates the folder `output` if it does not exist, and a folder for unfinished files in it.
    pub(crate) fn in_folder(output: &Path) -> io::Result<Staging> {
        let mut made = Vec::new();
        let make = |made: &mut Vec<PathBuf>| {
            make_folders(output, made)?;
            let make = || tempfile::Builder::new().prefix(PREFIX).tempdir_in(output);
            begin(make, |folder| folder.path().to_owned())
        };
        match make(&mut made) {
            Ok(folder) => Ok(Staging { folder, output: output.to_owned(), made }),
            Err(error) => {
                remove_folders(&made);
                Err(error)
            }
        }
    }

    /// Creates an unfinished file, which must not exist yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let _unfinished = unfinished();
        new_file::make(&self.folder.path().join(name))
    }

    /// Moves the files to their paths, relative to the folder. All folders for them are created
    /// first.
    pub(crate) fn place(mut self, files: impl IntoIterator<Item = (String, PathBuf)>) -> io::Result<()> {
        let files: Vec<(String, PathBuf)> = files.into_iter().collect();
        for (_, place) in &files {
            make_folders(&self.folder_of(place), &mut self.made)?;
        }
        let (mut rest, mut tries) = (&files[..], 0);
        while let Err(error) = self.rename(&mut rest, &mut tries) {
            let may_try = error.kind() == ErrorKind::NotFound && tries < TRIES;
            let Some((_, place)) = rest.first().filter(|_| may_try) else { return Err(error) };
            // A concurrent export that failed has removed the folders that it created, because they
            // were empty.
            make_folders(&self.folder_of(place), &mut self.made)?;
        }
        self.made.clear();
        Ok(())
    }

    fn folder_of(&self, place: &Path) -> PathBuf {
        self.output.join(place.parent().unwrap_or(Path::new("")))
    }

    /// Moves the files of a list until one cannot be moved; `tries` counts the attempts at that one. A
    /// signal waits for the end, so that it leaves all of them or none.
    fn rename(&self, rest: &mut &[(String, PathBuf)], tries: &mut usize) -> io::Result<()> {
        let _unfinished = unfinished();
        while let Some(((name, place), after)) = rest.split_first() {
            *tries += 1;
            fs::rename(self.folder.path().join(name), self.output.join(place))?;
            (*rest, *tries) = (after, 0);
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _unfinished = unfinished();
        // Ignore errors: the command has already reported the cause.
        let _ = fs::remove_dir_all(self.folder.path());
        remove_folders(&self.made);
    }
}

/// Creates a folder and its parents, and adds the new ones to `made`.
fn make_folders(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut folder = PathBuf::new();
    for component in path.components() {
        folder.push(component);
        if !matches!(component, Component::Normal(_)) || folder.is_dir() {
            continue;
        }
        match begin(|| fs::create_dir(&folder), |()| folder.clone()) {
            Ok(()) => made.push(folder.clone()),
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes empty folders, inner ones first.
fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}
