//! `peer call --export`: jobs on an NFSv3 export, run one after the other.

use crate::atomic_file::OutputFile;
use crate::peer::lines::{self, Line};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use core::time::Duration;
use rdmascope_analysis::units::Bytes;
use rdmascope_peer::nfs3::{Caller, Handle, Job, Outcome, Task};
use rdmascope_peer::rpcrdma::{Call, Event};
use rdmascope_peer::tcp;
use rdmascope_peer::time::Instant;
use rdmascope_wire::Xid;
use std::collections::VecDeque;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes in one READ or WRITE; the server may allow fewer.
const PIECE: u32 = 1 << 20;
/// The longest local file that `--write` accepts.
const MOST_WRITTEN: u64 = 256 << 20;

#[derive(Args, Debug)]
pub(super) struct JobArguments {
    /// Work on this NFSv3 export instead of calling NULL; asks MOUNT on TCP for its root handle
    ///
    /// The command runs --write, --read and --list, in this order.
    #[arg(long, value_name = "PATH", group = "root", conflicts_with_all = ["program", "version", "count", "interval"])]
    export: Option<String>,
    /// Work on the export with this root handle, in hexadecimal digits, without asking MOUNT
    #[arg(long, value_name = "HEX", group = "root", value_parser = handle, conflicts_with_all = ["program", "version", "count", "interval"])]
    root_handle: Option<Handle>,
    /// TCP port of MOUNT [default: the port that the server's port mapper returns]
    #[arg(long, value_name = "PORT", requires = "export")]
    mount_port: Option<u16>,
    /// Write this local file to the export and print its MD5; overwrites an existing file
    #[arg(long, value_name = "FILE", requires = "root")]
    write: Option<PathBuf>,
    /// Path in the export for --write [default: the name of the local file]
    #[arg(long, value_name = "PATH", requires = "write")]
    write_as: Option<PathBuf>,
    /// Read this file of the export and print its MD5
    #[arg(long, value_name = "PATH", requires = "root")]
    read: Option<PathBuf>,
    /// Local file for the data of --read [default: none]
    #[arg(long, value_name = "FILE", requires = "read")]
    read_into: Option<PathBuf>,
    /// List a directory of the export [default path: its root]
    #[arg(long, value_name = "PATH", requires = "root", num_args = 0..=1, default_missing_value = "/")]
    list: Option<PathBuf>,
    /// User ID for AUTH_SYS [default: that of this process]
    #[arg(long, value_name = "NUMBER", requires = "root")]
    uid: Option<u32>,
    /// Group ID for AUTH_SYS [default: that of this process]
    #[arg(long, value_name = "NUMBER", requires = "root")]
    gid: Option<u32>,
}

fn handle(text: &str) -> Result<Handle> {
    let handle = super::file_handle(text).and_then(|bytes| Handle::new(&bytes));
    handle.ok_or_else(|| anyhow!("expected an even number of hexadecimal digits, at most 128"))
}

impl JobArguments {
    /// Returns whether there is work on an export.
    pub(super) const fn is_requested(&self) -> bool {
        self.export.is_some() || self.root_handle.is_some()
    }

    /// Obtains the root handle. Returns `None` if there is no work on an export.
    pub(super) fn open(&self, to: IpAddr, patience: Duration) -> Result<Option<Jobs>> {
        if !self.is_requested() {
            return Ok(None);
        }
        let mut jobs = VecDeque::new();
        if let Some(file) = &self.write {
            let path = match (&self.write_as, file.file_name()) {
                (Some(path), _) => bytes(path),
                (None, Some(name)) => name.as_bytes().to_vec(),
                (None, None) => bail!("{}: no file name: add --write-as PATH", file.display()),
            };
            jobs.push_back(Job::Write { path, bytes: content(file)? });
        }
        let into = match &self.read_into {
            Some(path) => Some((OutputFile::create(path, &[], "--read-into")?, path.clone())),
            None => None,
        };
        jobs.extend(self.read.iter().map(|path| Job::Read { path: bytes(path) }));
        jobs.extend(self.list.iter().map(|path| Job::List { path: bytes(path) }));
        if jobs.is_empty() {
            bail!("nothing to do on the export: add --list, --read PATH or --write FILE");
        }
        let own = std::fs::metadata("/proc/self").context("/proc/self: add --uid and --gid")?;
        let xid = Xid(RandomState::new().hash_one(3) as u32);
        let mut caller = Caller::new(xid, self.uid.unwrap_or(own.uid()), self.gid.unwrap_or(own.gid()));
        let root = match (&self.root_handle, &self.export) {
            (Some(handle), _) => handle.clone(),
            (None, export) => {
                let path = export.as_deref().unwrap_or_default();
                tcp::root(to, self.mount_port, path.as_bytes(), (&mut caller, patience)).map_err(explained)?
            }
        };
        Ok(Some(Jobs {
            caller,
            root,
            jobs,
            task: None,
            into,
            done: Vec::new(),
            failures: 0,
            written: Ok(()),
        }))
    }
}

/// Adds a remedy to an error of MOUNT.
fn explained(error: tcp::Error) -> anyhow::Error {
    use rdmascope_peer::nfs3::mount::{MountError, MountStatus};
    let remedy = match &error {
        tcp::Error::Io { .. } => {
            "check that the NFS server runs and no firewall blocks it; --mount-port sets the port of MOUNT, --root-handle avoids MOUNT"
        }
        tcp::Error::Mount {
            reason: MountError::Status(MountStatus::Acces | MountStatus::Perm) | MountError::Rpc(_),
            ..
        } => {
            "the server does not export it to this host, or only to ports below 1024: run as root, or export it with `insecure`"
        }
        tcp::Error::Mount {
            reason: MountError::Status(MountStatus::NoEnt | MountStatus::NotDir), ..
        } => "`showmount -e` lists the server's exports",
        tcp::Error::Mount { .. } => "--root-handle avoids MOUNT",
        tcp::Error::NoMount { .. } => "add --mount-port or --root-handle",
    };
    anyhow!("{error}: {remedy}")
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn content(file: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("{}: cannot be read", file.display());
    let metadata = file.metadata().with_context(cannot)?;
    if !metadata.is_file() {
        bail!("{}: cannot be read: not a regular file", file.display());
    }
    let mut bytes = Vec::new();
    if metadata.len() <= MOST_WRITTEN {
        // The metadata may understate the length: files grow, and files of /proc report zero.
        let opened = File::open(file).with_context(cannot)?;
        opened.take(MOST_WRITTEN + 1).read_to_end(&mut bytes).with_context(cannot)?;
    }
    if metadata.len().max(bytes.len() as u64) > MOST_WRITTEN {
        bail!("{}: longer than the limit of {} for --write", file.display(), Bytes(MOST_WRITTEN));
    }
    Ok(bytes)
}

/// Jobs, one after the other.
pub(super) struct Jobs {
    caller: Caller,
    root: Handle,
    jobs: VecDeque<Job>,
    task: Option<Running>,
    into: Option<(OutputFile, PathBuf)>,
    /// Finished lines that are not yet printed.
    done: Vec<Line>,
    failures: u64,
    written: Result<()>,
}

struct Running {
    task: Task,
    line: lines::Job,
    since: Instant,
}

impl Jobs {
    /// Returns the next call, or `None` if no work is left.
    pub(super) fn next(&mut self, now: Instant) -> Option<Call> {
        if self.task.is_none() {
            let job = self.jobs.pop_front()?;
            let (name, path, written) = match &job {
                Job::Write { path, bytes } => ("write", path, Some(bytes)),
                Job::Read { path } => ("read", path, None),
                Job::List { path } => ("list", path, None),
                Job::Remove { path } => ("remove", path, None),
            };
            let line = lines::Job {
                job: name,
                path: path.clone(),
                bytes: written.map(|bytes| bytes.len() as u64),
                md5: written.map(|bytes| lines::digest(bytes)),
                entries: None,
                calls: 0,
                elapsed_ns: 0,
                error: None,
            };
            let task = Task::new(self.caller.clone(), self.root.clone(), job, PIECE);
            self.task = Some(Running { task, line, since: now });
        }
        self.task.as_mut()?.task.poll()
    }

    /// Processes the end of a call. `failed` is the reason why it has no usable reply.
    pub(super) fn take(&mut self, event: &Event, failed: Option<String>, now: Instant) {
        if let Some(why) = failed {
            return self.fail(why, now);
        }
        let Some(running) = &mut self.task else { return };
        running.task.handle(event);
        if running.task.outcome().is_some()
            && let Some(running) = self.task.take()
        {
            self.end(running, now);
        }
    }

    /// Fails the current job.
    pub(super) fn fail(&mut self, why: String, now: Instant) {
        if let Some(mut running) = self.task.take() {
            running.line.error = Some(why);
            running.task.fail();
            self.end(running, now);
        }
    }

    fn end(&mut self, Running { task, mut line, since }: Running, now: Instant) {
        line.calls = task.calls();
        line.elapsed_ns = super::nanoseconds(now.since(since));
        let Some((outcome, caller)) = task.finish() else { return };
        self.caller = caller;
        match outcome {
            Ok(Outcome::Read(bytes)) => {
                (line.bytes, line.md5) = (Some(bytes.len() as u64), Some(lines::digest(&bytes)));
                if let Some((file, path)) = self.into.take() {
                    self.written = save(file, &path, &bytes);
                }
            }
            Ok(Outcome::Listed(entries)) => {
                line.entries = Some(entries.len() as u64);
                self.done.extend(entries.into_iter().map(Line::Entry));
            }
            Ok(Outcome::Written | Outcome::Removed) => {}
            Err(error) => {
                line.error = Some(line.error.unwrap_or_else(|| error.to_string()));
                self.failures += 1;
            }
        }
        self.done.push(Line::Job(line));
    }

    /// Takes the lines to print.
    pub(super) fn done(&mut self) -> Vec<Line> {
        core::mem::take(&mut self.done)
    }

    /// Returns the error of writing the local file, if any.
    pub(super) fn finish(&mut self) -> Result<()> {
        core::mem::replace(&mut self.written, Ok(()))
    }

    /// Returns whether every job succeeded.
    pub(super) fn all_done(&self) -> bool {
        self.jobs.is_empty() && self.task.is_none() && self.failures == 0
    }
}

fn save(mut file: OutputFile, path: &Path, bytes: &[u8]) -> Result<()> {
    let written = file.write_all(bytes).and_then(|()| file.finish());
    written.with_context(|| format!("{}: cannot be written", path.display()))
}
