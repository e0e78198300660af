//! `peer serve --export`: an NFSv3 file system in memory, with MOUNT and a port mapper on TCP.

use crate::peer::lines;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use rdmascope_analysis::units::Bytes;
use rdmascope_peer::nfs3::mount::{PORTMAPPER_PORT, Services};
use rdmascope_peer::nfs3::{self, Limits, Time};
use rdmascope_peer::rpcrdma::Reply;
use rdmascope_peer::tcp;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The value of `--export` for an empty export.
const EMPTY: &str = "memory";

#[derive(Args, Debug)]
pub(super) struct ExportArguments {
    /// Serve an NFSv3 export that clients can mount: a copy of this folder in memory, or an empty
    /// export with the word `memory`
    ///
    /// Clients list, read and write the copy; the folder does not change. When the command ends, it
    /// prints the files that clients created or changed, with their MD5. The copy holds at most 256
    /// MiB and 65,536 names. MOUNT answers on TCP.
    #[arg(long, value_name = "FOLDER|memory", conflicts_with = "from")]
    export: Option<PathBuf>,
    /// Path under which clients mount the export
    #[arg(long, value_name = "PATH", default_value = "/export", requires = "export", value_parser = export_path)]
    export_path: String,
    /// TCP port of MOUNT; 0: a free port
    #[arg(long, value_name = "PORT", default_value_t = 20048, requires = "export")]
    mount_port: u16,
    /// Also serve a port mapper on TCP port 111, so that clients find the port of MOUNT; needs root
    #[arg(long, requires = "export")]
    port_mapper: bool,
}

fn export_path(text: &str) -> Result<String> {
    let trimmed = text.trim_end_matches('/');
    if !text.starts_with('/') || text.len() > 1024 {
        bail!("expected an absolute path of at most 1024 bytes");
    }
    Ok(if trimmed.is_empty() { "/" } else { trimmed }.to_owned())
}

/// An export that is served.
pub(super) struct Export {
    files: nfs3::Export,
    /// The MD5 of each file before clients came.
    before: BTreeMap<Vec<u8>, String>,
    left_out: u64,
    path: String,
    mount_port: u16,
    port_mapper: bool,
    at: (IpAddr, u16),
    /// Held because a server stops when it is dropped.
    _servers: Vec<tcp::Server>,
}

/// An export with open TCP ports, before its threads start.
pub(super) struct Opened {
    files: nfs3::Export,
    left_out: u64,
    mount_port: u16,
    /// Each listener with its address.
    listeners: Vec<(IpAddr, TcpListener)>,
}

impl ExportArguments {
    /// Reads the folder and opens the TCP ports at these addresses. Returns `None` without
    /// `--export`.
    pub(super) fn open(&self, locals: &[IpAddr]) -> Result<Option<Opened>> {
        let Some(folder) = &self.export else { return Ok(None) };
        // A new seed for each run, so that handles of earlier runs are stale.
        let mut files = nfs3::Export::new(Limits::default(), RandomState::new().hash_one(2), now());
        let left_out = if folder.as_os_str() == EMPTY { 0 } else { load(folder, &mut files)? };
        let mut mount_port = self.mount_port;
        let mut listeners = Vec::new();
        for local in locals {
            let listener = listen(*local, mount_port, || {
                format!("choose another port than {mount_port} with --mount-port")
            })?;
            mount_port = listener.local_addr().map_or(mount_port, |address| address.port());
            listeners.push((*local, listener));
            if self.port_mapper {
                let remedy = || format!("omit --port-mapper; clients mount with mountport={mount_port}");
                listeners.push((*local, listen(*local, PORTMAPPER_PORT, remedy)?));
            }
        }
        Ok(Some(Opened { files, left_out, mount_port, listeners }))
    }
}

impl Opened {
    /// Starts the threads that answer on the TCP ports. `port` is the NFS/RDMA port.
    pub(super) fn start(self, arguments: &ExportArguments, port: u16) -> Result<Export> {
        let Opened { files, left_out, mount_port, listeners } = self;
        let before = files.files().map(|(path, bytes)| (path, lines::digest(bytes))).collect();
        let locals = listeners.iter().map(|(local, _)| *local);
        let local = locals.clone().find(|local| !local.is_loopback()).or(locals.clone().next());
        let local = local.ok_or_else(|| anyhow!("no address to export at: add --bind ADDR"))?;
        let mut servers = Vec::new();
        for (address, listener) in listeners {
            let services = Services {
                path: arguments.export_path.clone().into_bytes(),
                root: files.root(),
                address,
                mount_port,
                nfs_port: port,
            };
            servers.push(tcp::Server::start(listener, services).context("cannot start a thread for MOUNT")?);
        }
        Ok(Export {
            files,
            before,
            left_out,
            path: arguments.export_path.clone(),
            mount_port,
            port_mapper: arguments.port_mapper,
            at: (local, port),
            _servers: servers,
        })
    }
}

fn listen(local: IpAddr, port: u16, remedy: impl Fn() -> String) -> Result<TcpListener> {
    TcpListener::bind((local, port)).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!(
                "TCP port {port} of {local} is in use (`ss -tlpn sport = {port}` shows the process): {}",
                remedy()
            )
        }
        ErrorKind::PermissionDenied => {
            anyhow!("no permission for TCP port {port} of {local}: run as root, or {}", remedy())
        }
        _ => anyhow!("TCP port {port} of {local}: {error}"),
    })
}

/// Copies a folder. Returns the number of entries that are neither file nor directory; it does not
/// follow symbolic links.
fn load(folder: &Path, files: &mut nfs3::Export) -> Result<u64> {
    let most = Limits::default().most_bytes;
    let (mut bytes, mut left_out) = (0, 0);
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        let cannot = || format!("{}: cannot be read", directory.display());
        for entry in std::fs::read_dir(&directory).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            let cannot = || format!("{}: cannot be read", path.display());
            let found = path.symlink_metadata().with_context(cannot)?;
            let name = path.strip_prefix(folder).unwrap_or(&path).as_os_str().as_bytes();
            let refused = |status| anyhow!("{}: cannot be added to the export: {status}", path.display());
            if found.is_dir() {
                // Empty directories are copied too.
                files.make_directory(name, now()).map_err(refused)?;
                open.push(path);
                continue;
            } else if !found.is_file() {
                left_out += 1;
                continue;
            }
            bytes += found.len();
            if bytes > most {
                bail!("{}: larger than {}, the limit of an export in memory", folder.display(), Bytes(most));
            }
            let content = std::fs::read(&path).with_context(cannot)?;
            files.put(name, &content, now()).map_err(refused)?;
        }
    }
    Ok(left_out)
}

fn now() -> Time {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time { seconds: u32::try_from(now.as_secs()).unwrap_or(u32::MAX), nanoseconds: now.subsec_nanos() }
}

impl Export {
    /// Returns the reply to a call, or `None` if its RPC header cannot be read.
    pub(super) fn call(&mut self, message: &[u8]) -> Option<Reply> {
        self.files.call(message, now()).map(Reply::from)
    }

    /// Returns the output line about the export.
    pub(super) fn line(&self) -> lines::Export {
        let (mut files, mut bytes) = (0, 0);
        for (_, content) in self.files.files() {
            files += 1;
            bytes += content.len() as u64;
        }
        lines::Export {
            path: self.path.clone(),
            files,
            bytes,
            left_out: self.left_out,
            mount_port: self.mount_port,
            port_mapper: self.port_mapper,
            at: self.at,
        }
    }

    /// Returns the files that clients created or changed.
    pub(super) fn changed(&self) -> impl Iterator<Item = lines::File> {
        self.files.files().filter_map(|(path, content)| {
            let (md5, before) = (lines::digest(content), self.before.get(&path));
            (before != Some(&md5)).then(|| lines::File {
                bytes: content.len() as u64,
                md5,
                is_new: before.is_none(),
                path,
            })
        })
    }
}
