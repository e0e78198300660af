//! What is printed of an NFSv3 export: what is served, what was done on it, and names in it.

use core::fmt;
use md5::{Digest as _, Md5};
use rdmascope_peer::nfs3;
use rdmascope_present::text::{Bytes, Counted, Duration, HexBytes, Number, Plain, Style};
use serde::Serialize;
use std::net::IpAddr;

/// An export is served.
#[derive(Debug, Serialize)]
pub(in crate::peer) struct Export {
    pub(in crate::peer) path: String,
    pub(in crate::peer) files: u64,
    pub(in crate::peer) bytes: u64,
    /// What of the folder is neither file nor directory.
    pub(in crate::peer) left_out: u64,
    pub(in crate::peer) mount_port: u16,
    pub(in crate::peer) port_mapper: bool,
    /// Where clients mount it.
    #[serde(skip)]
    pub(in crate::peer) at: (IpAddr, u16),
}

/// Work on an export is done, or has failed.
#[derive(Debug, Serialize)]
pub(in crate::peer) struct Job {
    pub(in crate::peer) job: &'static str,
    #[serde(flatten)]
    pub(in crate::peer) path: Path,
    /// Of a file that was read or written.
    pub(in crate::peer) bytes: Option<u64>,
    pub(in crate::peer) md5: Option<String>,
    /// Names in a directory.
    pub(in crate::peer) entries: Option<u64>,
    pub(in crate::peer) calls: u64,
    pub(in crate::peer) elapsed_ns: u64,
    pub(in crate::peer) error: Option<String>,
}

/// A name in a directory that was listed.
#[derive(Debug, Serialize)]
pub(in crate::peer) struct Entry {
    #[serde(flatten)]
    path: Path,
    fileid: u64,
    kind: Option<String>,
    mode: Option<u32>,
    size: Option<u64>,
}

impl Entry {
    pub(in crate::peer) fn of(entry: &nfs3::Entry) -> Entry {
        let attributes = entry.attributes.as_ref();
        Entry {
            path: Path::of(&entry.name),
            fileid: entry.fileid,
            kind: attributes.map(|attributes| attributes.kind.to_string()),
            mode: attributes.map(|attributes| attributes.mode & 0o7777),
            size: attributes.map(|attributes| attributes.size),
        }
    }
}

/// A file of an export that clients made or changed.
#[derive(Debug, Serialize)]
pub(in crate::peer) struct File {
    #[serde(flatten)]
    pub(in crate::peer) path: Path,
    pub(in crate::peer) bytes: u64,
    pub(in crate::peer) md5: String,
    pub(in crate::peer) is_new: bool,
}

/// A path or a name, which is bytes.
#[derive(Debug, Serialize)]
pub(in crate::peer) struct Path {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl Path {
    pub(in crate::peer) fn of(bytes: &[u8]) -> Path {
        let path = String::from_utf8_lossy(bytes);
        let path_hex = matches!(path, std::borrow::Cow::Owned(_)).then(|| HexBytes(bytes).to_string());
        Path { path_hex, path: path.into_owned() }
    }
}

/// The MD5 of some bytes, as digits.
pub(in crate::peer) fn digest(bytes: &[u8]) -> String {
    HexBytes(&Md5::digest(bytes)).to_string()
}

pub(super) fn show_export(line: &Export, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (address, port) = line.at;
    let (open, close) = if address.is_ipv6() { ("[", "]") } else { ("", "") };
    let path = Plain(&line.path);
    write!(f, "exports {path}: {}, {}, in memory", Counted(line.files, "file"), Bytes(line.bytes))?;
    if line.left_out > 0 {
        write!(f, "; left out: {}, neither file nor directory", Number(line.left_out))?;
    }
    write!(
        f,
        "\n  mount -t nfs -o vers=3,proto=rdma{},port={port}",
        if address.is_ipv6() { "6" } else { "" }
    )?;
    if !line.port_mapper {
        write!(f, ",mountport={}", line.mount_port)?;
    }
    let tcp = if address.is_ipv6() { "tcp6" } else { "tcp" };
    write!(f, ",mountproto={tcp},nolock {open}{address}{close}:{path} /mnt")
}

pub(super) fn show_job(line: &Job, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} {}: ", line.job, Plain(&line.path.path))?;
    match &line.error {
        Some(error) => write!(f, "{}", style.red(Plain(error)))?,
        None => {
            if let Some(bytes) = line.bytes {
                write!(f, "{} bytes, ", Number(bytes))?;
            }
            if let Some(md5) = &line.md5 {
                write!(f, "MD5 {md5}, ")?;
            }
            if let Some(entries) = line.entries {
                write!(f, "{}, ", Counted(entries, "name"))?;
            }
            write!(f, "{} in {}", Counted(line.calls, "call"), Duration(line.elapsed_ns))?;
        }
    }
    Ok(())
}

pub(super) fn show_entry(line: &Entry, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let kind = line.kind.as_deref().unwrap_or("");
    match (line.mode, line.size) {
        (Some(mode), Some(size)) => write!(f, "  {kind:<7} {mode:04o} {:>15}", Number(size))?,
        _ => write!(f, "  {:28}", "")?,
    }
    write!(f, "  {}", Plain(&line.path.path))
}

pub(super) fn show_file(line: &File, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is = if line.is_new { "made" } else { "changed" };
    write!(f, "{}: {is}, {} bytes, MD5 {}", Plain(&line.path.path), Number(line.bytes), line.md5)
}
