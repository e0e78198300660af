//! Drops privileges before a process reads untrusted packets, on Linux.
//!
//! [`become_user`] changes the user permanently. [`confine`] drops all capabilities. Then it makes
//! the kernel refuse everything that is not needed to work with files that are already open:
//! landlock restricts files, seccomp restricts system calls (`calls`). Both must run before the
//! process starts a second thread, because capabilities and rules belong to a thread and are
//! inherited by the threads that it starts.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
/// The system calls of other architectures are unknown.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod calls {
    pub(super) fn refuse(_: super::Reach<'_>, _: bool) -> bool {
        false
    }
}

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use nix::unistd::{self, User, getgrouplist};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The files that a confined process can still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// Nothing.
    Nothing,
    /// Files below this folder, for creating, writing and removing, not for reading.
    Below(&'a Path),
    /// The files of a command that reads captures, which it may open later.
    Paths {
        /// Files, and folders with everything below them. Missing ones are skipped.
        read: &'a [PathBuf],
        /// Files to create or replace, and folders that contain such files. Replacing a file
        /// creates another one in its folder, and a missing folder is created, so the enclosing
        /// folder becomes writable.
        write: &'a [PathBuf],
        /// Root keeps the capabilities to read and write the files of other users.
        of_others: bool,
    },
}

impl Reach<'_> {
    /// The capabilities to keep: those that let root access the files of other users, restricted by
    /// landlock.
    fn capabilities(self) -> CapabilitySet {
        match self {
            Reach::Nothing | Reach::Below(_) | Reach::Paths { of_others: false, .. } => {
                CapabilitySet::empty()
            }
            Reach::Paths { of_others: true, .. } => {
                CapabilitySet::CHOWN
                    | CapabilitySet::DAC_OVERRIDE
                    | CapabilitySet::DAC_READ_SEARCH
                    | CapabilitySet::FOWNER
            }
        }
    }
}

/// The confinement that the kernel supports. Capabilities are dropped in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Confined {
    /// Landlock restricts files. Without it, [`Reach::Below`] is not limited to the folder.
    pub landlock: bool,
    /// Seccomp restricts system calls. Without it, only landlock restricts files, and nothing
    /// restricts sockets.
    pub seccomp: bool,
}

/// The reason why a process could not be confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The process has several threads, and only one of them would be confined.
    #[error("{0} threads are running already, and only one of them would be confined")]
    Threads(usize),
    /// The user does not exist.
    #[error("there is no user {0}")]
    NoUser(String),
    /// Only root can change the user.
    #[error("only root can become the user {0}")]
    NotRoot(String),
    /// The folder of [`Reach::Below`] cannot be used.
    #[error("{}: {error}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system refused.
    #[error("{step}: {error}")]
    System {
        /// The operation that failed.
        step: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

/// Wraps the system's error of a step.
fn failed(step: &'static str) -> impl Fn(rustix::io::Errno) -> ConfineError {
    move |error| ConfineError::System { step, error: error.into() }
}

/// Changes the user of this process permanently, with the groups of that user, and drops all
/// capabilities.
///
/// Call it before the first thread starts.
pub fn become_user(name: &str) -> Result<(), ConfineError> {
    is_alone()?;
    let unknown = || ConfineError::NoUser(name.to_owned());
    let user = User::from_name(name).ok().flatten().ok_or_else(unknown)?;
    let c_name = CString::new(name).map_err(|_| unknown())?;
    let groups = getgrouplist(&c_name, user.gid)
        .map_err(|error| ConfineError::System { step: "groups", error: error.into() })?;
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(group.as_raw())).collect();
    let (uid, gid) = (Uid::from_raw(user.uid.as_raw()), Gid::from_raw(user.gid.as_raw()));
    if unistd::getuid() == user.uid && unistd::geteuid() == user.uid {
        return Ok(());
    }
    empty_bounding_set();
    // The groups first: after the user changes, they cannot be set.
    set_thread_groups(&groups).map_err(|_| ConfineError::NotRoot(name.to_owned()))?;
    set_thread_res_gid(gid, gid, gid).map_err(failed("group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(failed("user"))?;
    drop_capabilities(CapabilitySet::empty())
}

/// Drops all capabilities except those of [`Reach::Paths`], and restricts the process.
///
/// From now on it can open only the files of `reach`, create no sockets, and start no programs.
/// Open files stay open, and threads can be started. Call it before the first thread starts.
///
/// Returns an error if a capability cannot be dropped or the folder is invalid. A kernel without
/// landlock or seccomp is no error: see [`Confined`].
pub fn confine(reach: Reach<'_>) -> Result<Confined, ConfineError> {
    confine_except(reach, None)
}

/// As [`confine`], but the process can remove folders in `instances`, the folder of the instances of
/// tracefs. A kernel without landlock does not permit that.
pub fn confine_except(reach: Reach<'_>, instances: Option<&Path>) -> Result<Confined, ConfineError> {
    is_alone()?;
    empty_bounding_set();
    drop_capabilities(reach.capabilities())?;
    set_no_new_privs(true).map_err(failed("no_new_privs"))?;
    // Its calls are among those that seccomp refuses.
    let landlock = refuse_files(reach, instances)?;
    let seccomp = calls::refuse(reach, landlock && instances.is_some());
    Ok(Confined { landlock, seccomp })
}

/// Whether this process may capture packets: it has the capability CAP_NET_RAW.
pub fn may_capture() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_RAW))
}

/// Checks that the process has a single thread. Without /proc the check passes.
fn is_alone() -> Result<(), ConfineError> {
    // A thread that is ending, such as the decompressor of a closed file, stays listed for a
    // moment.
    const PATIENCE: Duration = Duration::from_secs(1);
    let count = || std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let began = Instant::now();
    loop {
        match count() {
            0 | 1 => return Ok(()),
            threads if began.elapsed() > PATIENCE => return Err(ConfineError::Threads(threads)),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Empties the bounding set, which limits the capabilities of programs that this process starts.
/// This requires a capability itself; without it the process has nothing to lose.
fn empty_bounding_set() {
    for number in 0..64 {
        let _fails_without_the_right =
            remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
    }
}

/// Drops all capabilities except those in `kept`.
fn drop_capabilities(kept: CapabilitySet) -> Result<(), ConfineError> {
    clear_ambient_capability_set().map_err(failed("ambient capabilities"))?;
    let CapabilitySets { effective, permitted, .. } = capabilities(None).map_err(failed("capabilities"))?;
    let sets = CapabilitySets {
        effective: effective & kept,
        permitted: permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(failed("capabilities"))
}

/// Makes the kernel refuse files, and connections to other hosts as far as it supports that.
/// Returns false without landlock.
fn refuse_files(reach: Reach<'_>, instances: Option<&Path>) -> Result<bool, ConfineError> {
    // Rights that the kernel does not know are left out.
    const LATEST: ABI = ABI::V6;
    let landlock = |error: landlock::RulesetError| ConfineError::System {
        step: "landlock",
        error: io::Error::other(error),
    };
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LATEST))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LATEST)))
        .and_then(|rules| rules.scope(Scope::from_all(LATEST)))
        .and_then(Ruleset::create)
        .map_err(landlock)?;
    if let Reach::Below(folder) = reach {
        let path = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let descriptor = PathFd::new(path).map_err(|_| ConfineError::Folder {
            folder: path.to_owned(),
            error: std::fs::metadata(path).err().unwrap_or_else(|| io::ErrorKind::InvalidInput.into()),
        })?;
        let rights = AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
        // Check write access now, instead of failing at the second file of a rotation.
        let make = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(rustix::fs::CWD, path, make, rustix::fs::AtFlags::EACCESS)
            .map_err(|error| ConfineError::Folder { folder: path.to_owned(), error: error.into() })?;
        rules = rules.add_rule(PathBeneath::new(descriptor, rights)).map_err(landlock)?;
    }
    if let Reach::Paths { read, write, .. } = reach {
        allow_paths(&mut rules, read, write);
    }
    if let Some(descriptor) = instances.and_then(|folder| PathFd::new(folder).ok()) {
        rules = rules.add_rule(PathBeneath::new(descriptor, AccessFs::RemoveDir)).map_err(landlock)?;
    }
    let status = rules.restrict_self().map_err(landlock)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Allows access to these paths. Paths that cannot be opened for a rule are skipped: a missing file
/// cannot be read anyway, and an open pipe can be reopened by its name in /proc without a rule.
fn allow_paths(rules: &mut RulesetCreated, read: &[PathBuf], write: &[PathBuf]) {
    let mut allow = |path: &Path, rights| {
        if let Ok(descriptor) = PathFd::new(path) {
            let _skipped_on_error = (&mut *rules).add_rule(PathBeneath::new(descriptor, rights));
        }
    };
    for path in read {
        allow(path, AccessFs::ReadFile | AccessFs::ReadDir);
    }
    for path in write {
        let written = AccessFs::WriteFile | AccessFs::Truncate;
        let folder = written
            | AccessFs::ReadDir
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir
            | AccessFs::Refer;
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => allow(path, folder),
            // A device, a FIFO, or an open file.
            Ok(metadata) if !metadata.is_file() => allow(path, written | AccessFs::IoctlDev),
            // A symbolic link is resolved, because its target is replaced.
            Ok(_) => {
                allow(path, written);
                if let Ok(place) = path.canonicalize() {
                    allow(folder_of(&place), folder);
                }
            }
            Err(_) => allow(folder_of(path), folder),
        }
    }
}

/// Returns the innermost existing folder around `path`.
fn folder_of(path: &Path) -> &Path {
    let around = path.ancestors().skip(1).find(|folder| folder.is_dir());
    around.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
