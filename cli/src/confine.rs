//! The sandbox for commands that read untrusted packets from a network or a file.

use crate::interrupt;
use crate::output::notify;
#[cfg(target_os = "linux")]
use anyhow::anyhow;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::confine::{ConfineError, Confined, Reach, confine_except};
use rdmascope_capture_agent::temporary;
#[cfg(target_os = "linux")]
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by `--no-sandbox`.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Disables confinement for this process.
pub(crate) fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// When a command confines itself.
#[derive(Debug)]
pub(crate) enum Confinement {
    /// Before it starts. The paths are the files that it works on.
    AtOnce(Paths),
    /// After it opened interfaces, sockets or the terminal. Until then it must be single-threaded.
    Later,
    /// Never: it connects to other hosts, or reads no packets.
    Never,
}

/// The files that a command works on.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Number of temporary files needed.
    temporary: usize,
}

impl Paths {
    /// Adds files and folders to read, or standard input.
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

    /// Adds the targets of symbolic links below a folder, because a landlock rule on the folder
    /// does not cover them.
    fn read_links_below(&mut self, folder: &Path) {
        // The command itself reports a folder that cannot be read.
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => self.read.push(entry.path()),
                Ok(kind) if kind.is_dir() => self.read_links_below(&entry.path()),
                _ => {}
            }
        }
    }

    /// Adds a file, or a folder of files, to write.
    pub(crate) fn write(&mut self, path: impl Into<PathBuf>) {
        self.write.push(path.into());
    }

    /// Adds `count` temporary files.
    pub(crate) fn temporary(&mut self, count: usize) {
        self.temporary += count;
    }

    /// Confines the process permanently to these files. It can no longer create sockets or start
    /// programs. A kernel without the features restricts less. Fails if another thread is running,
    /// because that thread would not be confined.
    pub(crate) fn confine(&self) -> Result<(), String> {
        temporary::prepare(self.temporary);
        #[cfg(target_os = "linux")]
        if let Err(error @ ConfineError::Threads(_)) = unless_off(self.reach(true), None) {
            return Err(error.to_string());
        }
        Ok(())
    }

    /// As [`Paths::confine`], for a server whose sockets are already open. Even root keeps no
    /// capability.
    #[cfg(target_os = "linux")]
    pub(crate) fn confine_server(&self) -> anyhow::Result<()> {
        temporary::prepare(self.temporary);
        confined(self.reach(false), true)
    }

    #[cfg(target_os = "linux")]
    fn reach(&self, of_others: bool) -> Reach<'_> {
        Reach::Paths { read: &self.read, write: &self.write, of_others }
    }

    /// As [`Paths::confine`], and starts to handle signals.
    pub(crate) fn confine_and_listen(&self) {
        let signals = interrupt::register();
        if let Err(error) = self.confine() {
            notify(format_args!("warning: not confined: {error}"));
        }
        if let Some(signals) = signals {
            signals.listen();
        }
    }
}

/// Confines the process permanently: it loses all capabilities and can open only `reach`. Call this
/// when everything is open and before starting a thread. From then on signals are handled. Features
/// that this kernel lacks are reported unless `quiet`.
#[cfg(target_os = "linux")]
pub(crate) fn confined(reach: Reach<'_>, quiet: bool) -> anyhow::Result<()> {
    confined_except(reach, None, quiet)
}

/// As [`confined`], but the process can remove folders in `instances`.
#[cfg(target_os = "linux")]
pub(crate) fn confined_except(reach: Reach<'_>, instances: Option<&Path>, quiet: bool) -> anyhow::Result<()> {
    // Signal handling needs a socket and a file, which cannot be opened later, and a thread, which
    // must start after confinement.
    let signals = interrupt::register();
    let Confined { landlock, seccomp } = unless_off(reach, instances).map_err(explained)?;
    if let Some(signals) = signals {
        signals.listen();
    }
    if !quiet {
        match (landlock, seccomp) {
            (true, true) => {}
            (true, false) => notify(format_args!(
                "warning: this kernel has no seccomp: files are blocked, but sockets can be opened"
            )),
            (false, true) if reach == Reach::Nothing => {
                notify(format_args!(
                    "warning: this kernel has no landlock: files are blocked by seccomp alone"
                ));
            }
            (false, true) => notify(format_args!(
                "warning: this kernel has no landlock: files outside the folder can be opened"
            )),
            (false, false) => notify(format_args!(
                "warning: this kernel has neither landlock nor seccomp: files and sockets can be opened"
            )),
        }
    }
    Ok(())
}

/// As [`confined_except`], for a process that handles signals itself and has no standard error to
/// write to.
#[cfg(target_os = "linux")]
pub(crate) fn quietly(reach: Reach<'_>, instances: Option<&Path>) -> Result<(), String> {
    unless_off(reach, instances).map(drop).map_err(|error| error.to_string())
}

/// Confines the process. With `--no-sandbox` it does nothing, and reports all features as present.
#[cfg(target_os = "linux")]
fn unless_off(reach: Reach<'_>, instances: Option<&Path>) -> Result<Confined, ConfineError> {
    match IS_OFF.load(Ordering::Relaxed) {
        true => Ok(Confined { landlock: true, seccomp: true }),
        false => confine_except(reach, instances),
    }
}

/// Adds the remedy to an error of confinement.
#[cfg(target_os = "linux")]
fn explained(error: ConfineError) -> anyhow::Error {
    match &error {
        ConfineError::Folder { error: system, .. } if system.kind() == ErrorKind::PermissionDenied => {
            anyhow!(
                "{error}: files are created without root capabilities; name the owner of the folder with --user"
            )
        }
        _ => anyhow!("sandbox failed: {error}"),
    }
}
