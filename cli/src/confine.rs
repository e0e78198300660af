//! The sandbox of a command that reads packets of strangers, from a network or from a file.

use crate::interrupt;
use crate::output::tell;
#[cfg(target_os = "linux")]
use anyhow::anyhow;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::confine::{ConfineError, Confined, Reach, confine};
use rdmascope_capture_agent::temporary;
#[cfg(target_os = "linux")]
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// `--no-sandbox` was given.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Leaves every process as it is.
pub(crate) fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// When a command confines itself.
#[derive(Debug)]
pub(crate) enum Confinement {
    /// Before it begins. These are the files that it works on.
    AtOnce(Paths),
    /// When it has opened interfaces, sockets or the terminal. Until then it may have no second
    /// thread.
    Later,
    /// Never: it connects to others, or reads nothing.
    Never,
}

/// The files that a command works on.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Temporary files that it may need.
    temporary: usize,
}

impl Paths {
    /// It reads these files and folders, or standard input.
    pub(crate) fn read<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) {
        for path in paths {
            if path == Path::new("-") {
                self.temporary(1);
            } else if path.is_dir() {
                self.read_links_below(path);
                self.read.push(path.clone());
            } else {
                self.read.push(path.clone());
            }
        }
    }

    /// A rule about a folder does not cover the files that links in it lead to.
    fn read_links_below(&mut self, folder: &Path) {
        // The command reports a folder that cannot be read.
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => self.read.push(entry.path()),
                Ok(kind) if kind.is_dir() => self.read_links_below(&entry.path()),
                _ => {}
            }
        }
    }

    /// It writes this file, or files in this folder.
    pub(crate) fn write(&mut self, path: impl Into<PathBuf>) {
        self.write.push(path.into());
    }

    /// It needs `count` more temporary files.
    pub(crate) fn temporary(&mut self, count: usize) {
        self.temporary += count;
    }

    /// Confines this process for good to these files. It cannot make sockets or start programs any
    /// more. A kernel that lacks the means refuses less. Errors: another thread runs, which would
    /// not be confined.
    pub(crate) fn confine(&self) -> Result<(), String> {
        temporary::prepare(self.temporary);
        #[cfg(target_os = "linux")]
        if let Err(error @ ConfineError::Threads(_)) = unless_off(self.reach(true)) {
            return Err(error.to_string());
        }
        Ok(())
    }

    /// The same, for a server whose sockets are open. Root keeps no capability at all.
    #[cfg(target_os = "linux")]
    pub(crate) fn confine_server(&self) -> anyhow::Result<()> {
        temporary::prepare(self.temporary);
        confined(self.reach(false), true)
    }

    #[cfg(target_os = "linux")]
    fn reach(&self, of_others: bool) -> Reach<'_> {
        Reach::Paths { read: &self.read, write: &self.write, of_others }
    }

    /// The same, and from then on signals are listened to.
    pub(crate) fn confine_and_listen(&self) {
        let heard = interrupt::hear();
        if let Err(error) = self.confine() {
            tell(format_args!("warning: not confined: {error}"));
        }
        if let Some(heard) = heard {
            heard.listen();
        }
    }
}

/// Confines this process for good: no capability, and nothing can be opened any more but what `reach` says. To be called when all is open, before a
/// thread is started; from then on signals are listened to. What this kernel has no means for is told of, unless `quiet`.
#[cfg(target_os = "linux")]
pub(crate) fn confined(reach: Reach<'_>, quiet: bool) -> anyhow::Result<()> {
    // Listening takes a socket and a file, which cannot be had any more later; and a thread, which would not be confined now.
    let heard = interrupt::hear();
    let Confined { landlock, seccomp } = unless_off(reach).map_err(explained)?;
    if let Some(heard) = heard {
        heard.listen();
    }
    if !quiet {
        match (landlock, seccomp) {
            (true, true) => {}
            (true, false) => tell(format_args!(
                "warning: this kernel has no seccomp: no file can be opened any more, but sockets can"
            )),
            (false, true) if reach == Reach::Nothing => {
                tell(format_args!("warning: this kernel has no landlock: seccomp alone refuses files"));
            }
            (false, true) => tell(format_args!(
                "warning: this kernel has no landlock: files can be opened outside the folder too"
            )),
            (false, false) => tell(format_args!(
                "warning: this kernel has neither landlock nor seccomp: files and sockets can still be opened"
            )),
        }
    }
    Ok(())
}

/// The same, of a process that hears signals itself and has no standard error to write to.
#[cfg(target_os = "linux")]
pub(crate) fn quietly(reach: Reach<'_>) -> Result<(), String> {
    unless_off(reach).map(drop).map_err(|error| error.to_string())
}

/// With `--no-sandbox` nothing is missing.
#[cfg(target_os = "linux")]
fn unless_off(reach: Reach<'_>) -> Result<Confined, ConfineError> {
    match IS_OFF.load(Ordering::Relaxed) {
        true => Ok(Confined { landlock: true, seccomp: true }),
        false => confine(reach),
    }
}

/// What to do about it.
#[cfg(target_os = "linux")]
fn explained(error: ConfineError) -> anyhow::Error {
    match &error {
        ConfineError::Folder { error: system, .. } if system.kind() == ErrorKind::PermissionDenied => {
            anyhow!(
                "{error}: files are made here without the capabilities of root: --user names whose folder it is"
            )
        }
        _ => anyhow!("cannot be confined: {error}"),
    }
}
