//! Files of a folder that appear together.

use super::{PREFIX, begin, unfinished};
use rdmascope_capture_agent::new_file;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// How often a file is given its place before an error is believed.
const TRIES: usize = 8;

/// Files that are being written below a folder, and appear there together. Dropped unfinished, it leaves nothing behind.
pub(crate) struct Staging {
    folder: TempDir,
    output: PathBuf,
    /// Folders that were made, the outer ones first.
    made: Vec<PathBuf>,
}

impl Staging {
    /// Makes the folder `output`, if it is not there, and in it one for unfinished files.
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

    /// Makes an unfinished file, which is not there yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let _unfinished = unfinished();
        new_file::make(&self.folder.path().join(name))
    }

    /// Gives the files their places, relative to the folder. All folders for them are made before.
    pub(crate) fn place(mut self, files: impl IntoIterator<Item = (String, PathBuf)>) -> io::Result<()> {
        let files: Vec<(String, PathBuf)> = files.into_iter().collect();
        for (_, place) in &files {
            make_folders(&self.folder_of(place), &mut self.made)?;
        }
        for (name, place) in &files {
            // Who fails beside this one removes the folders that it made, where they are empty.
            let mut tries = 0;
            while let Err(error) = self.rename(name, place) {
                tries += 1;
                if error.kind() != ErrorKind::NotFound || tries == TRIES {
                    return Err(error);
                }
                make_folders(&self.folder_of(place), &mut self.made)?;
            }
        }
        self.made.clear();
        Ok(())
    }

    fn folder_of(&self, place: &Path) -> PathBuf {
        self.output.join(place.parent().unwrap_or(Path::new("")))
    }

    fn rename(&self, name: &str, place: &Path) -> io::Result<()> {
        let _unfinished = unfinished();
        fs::rename(self.folder.path().join(name), self.output.join(place))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _unfinished = unfinished();
        // What cannot be removed stays; the command says what went wrong before.
        let _ = fs::remove_dir_all(self.folder.path());
        remove_folders(&self.made);
    }
}

/// Makes a folder and those around it, and tells which were not there.
fn make_folders(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut folder = PathBuf::new();
    for component in path.components() {
        folder.push(component);
        if !matches!(component, Component::Normal(_)) || folder.is_dir() {
            continue;
        }
        match begin(|| fs::create_dir(&folder), |()| folder.clone()) {
            Ok(()) => made.push(folder.clone()),
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes folders that are empty, the inner ones first.
fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}
