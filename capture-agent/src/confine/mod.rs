//! What a process gives up before it reads packets of strangers, on Linux: the capabilities, the user, and the right to open anything.
//!
//! [`become_user`] changes the user for good. [`confine`] drops every capability, and then lets the kernel refuse all that is not needed to go on
//! with what is open already: files by landlock, system calls by seccomp (`calls`). Both come before the process has a second thread: the kernel
//! keeps capabilities and rules for each thread, and a thread gets those of the one that started it.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
/// Of other architectures the calls are not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod calls {
    pub(super) fn refuse(_: super::Reach<'_>) -> bool {
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

/// What a process can still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// Nothing.
    Nothing,
    /// Files below this folder: made, written and removed, not read.
    Below(&'a Path),
    /// The files of a command that reads captures, which may be opened later.
    Paths {
        /// Files, and folders with everything below them. Missing ones are skipped.
        read: &'a [PathBuf],
        /// Files that are made or replaced, and folders in which files are. A file is replaced by
        /// another one in its folder, and a folder that is not there is made, so the folder around
        /// either can be written to.
        write: &'a [PathBuf],
        /// Root keeps the capabilities by which it reads and writes the files of others.
        of_others: bool,
    },
}

impl Reach<'_> {
    /// The capabilities that stay: those by which root reads and writes the files of others, where
    /// landlock says which files.
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

/// What the kernel took part in. Capabilities are dropped in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Confined {
    /// It refuses files. Without: those of [`Reach::Below`] are not bounded to the folder.
    pub landlock: bool,
    /// It refuses system calls. Without: nothing but landlock stands between the process and files, and nothing between it and sockets.
    pub seccomp: bool,
}

/// Why a process is not confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// It has several threads, of which only one would be confined.
    #[error("{0} threads run already, and only one of them would be confined")]
    Threads(usize),
    /// There is no such user.
    #[error("there is no user {0}")]
    NoUser(String),
    /// Only root becomes somebody else.
    #[error("only root can become the user {0}")]
    NotRoot(String),
    /// The folder of [`Reach::Below`] cannot be used.
    #[error("{}: {error}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system refused.
    #[error("{step}: {error}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// What the system said to a step.
fn failed(step: &'static str) -> impl Fn(rustix::io::Errno) -> ConfineError {
    move |error| ConfineError::System { step, error: error.into() }
}

/// This process becomes a user, with the user's groups, and has no capability any more. There is no way back.
///
/// To be called before the first thread starts.
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
    // Groups first: who is no longer root cannot change them.
    set_thread_groups(&groups).map_err(|_| ConfineError::NotRoot(name.to_owned()))?;
    set_thread_res_gid(gid, gid, gid).map_err(failed("group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(failed("user"))?;
    drop_capabilities(CapabilitySet::empty())
}

/// Takes from this process every capability, but for those that [`Reach::Paths`] names, and then
/// what it does not need any more: from now on it opens nothing, or only what `reach` names, makes
/// no socket, and starts no program. What is open stays open, and threads can be started.
///
/// To be called before the first thread starts. Errors: a capability could not be dropped, or the folder is none. That the kernel has no landlock or
/// seccomp is no error: [`Confined`] says it.
pub fn confine(reach: Reach<'_>) -> Result<Confined, ConfineError> {
    is_alone()?;
    empty_bounding_set();
    drop_capabilities(reach.capabilities())?;
    set_no_new_privs(true).map_err(failed("no_new_privs"))?;
    // Its calls are among those that seccomp refuses.
    let landlock = refuse_files(reach)?;
    let seccomp = calls::refuse(reach);
    Ok(Confined { landlock, seccomp })
}

/// Without /proc the number of threads is unknown, and taken for 1.
fn is_alone() -> Result<(), ConfineError> {
    // A thread that is ending, such as the decompressor of a file that was closed, is listed a
    // moment longer.
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

/// What a program that this process might start could have. To empty it takes a capability too, and without that one, there is nothing to gain.
fn empty_bounding_set() {
    for number in 0..64 {
        let _without_the_right =
            remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
    }
}

/// Drops all capabilities but those of `kept` that the process has.
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

/// Whether the kernel refuses files from now on, and sockets to other hosts, as far as it knows how to.
fn refuse_files(reach: Reach<'_>) -> Result<bool, ConfineError> {
    // What a kernel does not know of these, is left out.
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
        // To fail with the second file of many would be late.
        let make = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(rustix::fs::CWD, path, make, rustix::fs::AtFlags::EACCESS)
            .map_err(|error| ConfineError::Folder { folder: path.to_owned(), error: error.into() })?;
        rules = rules.add_rule(PathBeneath::new(descriptor, rights)).map_err(landlock)?;
    }
    if let Reach::Paths { read, write, .. } = reach {
        allow_paths(&mut rules, read, write);
    }
    let status = rules.restrict_self().map_err(landlock)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Allows these paths. A path that no rule can name is skipped: a missing file cannot be read
/// anyway, and an open pipe can be opened again by its name in /proc without a rule.
fn allow_paths(rules: &mut RulesetCreated, read: &[PathBuf], write: &[PathBuf]) {
    let mut allow = |path: &Path, rights| {
        if let Ok(descriptor) = PathFd::new(path) {
            let _left_out = (&mut *rules).add_rule(PathBeneath::new(descriptor, rights));
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
            Ok(there) if there.is_dir() => allow(path, folder),
            // A device, a FIFO, or an open file.
            Ok(there) if !there.is_file() => allow(path, written | AccessFs::IoctlDev),
            // Also the file that a link names: it is that one which is replaced.
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

/// The innermost folder around `path` that is there.
fn folder_of(path: &Path) -> &Path {
    let around = path.ancestors().skip(1).find(|folder| folder.is_dir());
    around.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
