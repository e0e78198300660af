//! Output lines about an NFSv3 export: the export, the work on it, and the names in it.

use core::fmt;
use md5::{Digest as _, Md5};
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number, Plain};
use rdmascope_peer::nfs3::{Attributes, Entry};
use rdmascope_present::column::Read::{
    Boolean, Bytes as Hex, Lossy, Nanoseconds, Shown, Text, U16, U32, U64, Word,
};
use rdmascope_present::column::{Column, Columns, Lossy as LossyText, Role, Subject, lend, word};
use rdmascope_present::text::{HexBytes, Style};
use std::net::IpAddr;

/// The permission bits of a mode.
const MODE: u32 = 0o7777;

/// An export is served.
#[derive(Debug)]
pub(in crate::peer) struct Export {
    pub(in crate::peer) path: String,
    pub(in crate::peer) files: u64,
    pub(in crate::peer) bytes: u64,
    /// Entries of the folder that are neither file nor directory.
    pub(in crate::peer) left_out: u64,
    pub(in crate::peer) mount_port: u16,
    pub(in crate::peer) port_mapper: bool,
    /// Address and port for mounting it.
    pub(in crate::peer) at: (IpAddr, u16),
}

/// Work on an export succeeded or failed.
#[derive(Debug)]
pub(in crate::peer) struct Job {
    pub(in crate::peer) job: &'static str,
    pub(in crate::peer) path: Vec<u8>,
    /// Present for a file that was read or written.
    pub(in crate::peer) bytes: Option<u64>,
    pub(in crate::peer) md5: Option<String>,
    /// Number of names in a directory.
    pub(in crate::peer) entries: Option<u64>,
    pub(in crate::peer) calls: u64,
    pub(in crate::peer) elapsed_ns: u64,
    pub(in crate::peer) error: Option<String>,
}

/// A file of an export that clients created or changed.
#[derive(Debug)]
pub(in crate::peer) struct File {
    pub(in crate::peer) path: Vec<u8>,
    pub(in crate::peer) bytes: u64,
    pub(in crate::peer) md5: String,
    pub(in crate::peer) is_new: bool,
}

/// Returns a path, which is a sequence of bytes, if some of them are not UTF-8.
fn not_utf8(path: &[u8]) -> Option<&[u8]> {
    str::from_utf8(path).is_err().then_some(path)
}

impl Subject for Export {
    type Of<'a> = &'a Export;
}

/// An export is served.
pub(super) static EXPORT: Columns<Export> = {
    type C = Column<Export>;
    Columns {
        name: "peer_export",
        role: Role::Line,
        columns: &[
            C::new("path", Text(|line, see| see(&line.path)), "The path under which clients mount it."),
            C::new("files", U64(|line| Some(line.files)), "Number of copied files."),
            C::new("bytes", U64(|line| Some(line.bytes)), "Bytes in these files."),
            C::new(
                "left_out",
                U64(|line| Some(line.left_out)),
                "Entries of the folder that were not copied, because they are neither files nor directories. Symbolic links are not followed.",
            ),
            C::new("mount_port", U16(|line| Some(line.mount_port)), "The TCP port of MOUNT."),
            C::new(
                "port_mapper",
                Boolean(|line| Some(line.port_mapper)),
                "Whether TCP port 111 serves a port mapper.",
            ),
        ],
    }
};

pub(super) struct EntryRow;

impl Subject for EntryRow {
    type Of<'a> = &'a Entry;
}

/// A name in a listed directory.
pub(super) static ENTRY: Columns<EntryRow> = {
    type C = Column<EntryRow>;
    Columns {
        name: "peer_entry",
        role: Role::Line,
        columns: &[
            C::new(
                "path",
                Lossy(|line, see| see(&line.name)),
                "The name. Bytes that are not UTF-8 are replaced by U+FFFD.",
            ),
            C::new(
                "path_hex",
                Hex(|line, see| lend(not_utf8(&line.name), see)),
                "All bytes of `path`, if some are not UTF-8.",
            )
            .optional(),
            C::new("fileid", U64(|line| Some(line.fileid)), "The fileid."),
            C::new(
                "kind",
                Shown(|line, see| lend(line.attributes.as_ref(), |attributes| see(&attributes.kind))),
                "The type, such as `NF3REG` or `NF3DIR`. Type, `mode` and `size` are null if the server omits the attributes.",
            )
            .or_null(),
            C::new(
                "mode",
                U32(|line| Some(line.attributes.as_ref()?.mode & MODE)),
                "The permission bits.",
            )
            .or_null(),
            C::new("size", U64(|line| Some(line.attributes.as_ref()?.size)), "The size in bytes.").or_null(),
        ],
    }
};

impl Subject for Job {
    type Of<'a> = &'a Job;
}

/// Work on an export succeeded or failed.
pub(super) static JOB: Columns<Job> = {
    type C = Column<Job>;
    Columns {
        name: "peer_job",
        role: Role::Line,
        columns: &[
            C::new(
                "job",
                Word(&[word("write"), word("read"), word("list")], |line| Some(line.job)),
                "The kind of work.",
            ),
            C::new("path", Lossy(|line, see| see(&line.path)), "The path in the export."),
            C::new(
                "path_hex",
                Hex(|line, see| lend(not_utf8(&line.path), see)),
                "All bytes of `path`, if some are not UTF-8.",
            )
            .optional(),
            C::new(
                "bytes",
                U64(|line| line.bytes),
                "Bytes of the file. It is null for `list`, and if unknown.",
            )
            .or_null(),
            C::new(
                "md5",
                Text(|line, see| lend(line.md5.as_deref(), see)),
                "The MD5 of the data to write, or of the data that was read.",
            )
            .or_null(),
            C::new("entries", U64(|line| line.entries), "Names in the directory.").or_null(),
            C::new("calls", U64(|line| Some(line.calls)), "Number of calls."),
            C::new(
                "elapsed_ns",
                Nanoseconds(|line| Some(line.elapsed_ns)),
                "Time from the first call to the last reply.",
            ),
            C::new("error", Text(|line, see| lend(line.error.as_deref(), see)), "The error.").or_null(),
        ],
    }
};

impl Subject for File {
    type Of<'a> = &'a File;
}

/// A file of an export that clients created or changed.
pub(super) static FILE: Columns<File> = {
    type C = Column<File>;
    Columns {
        name: "peer_file",
        role: Role::Line,
        columns: &[
            C::new("path", Lossy(|line, see| see(&line.path)), "The path from the root of the export."),
            C::new(
                "path_hex",
                Hex(|line, see| lend(not_utf8(&line.path), see)),
                "All bytes of `path`, if some are not UTF-8.",
            )
            .optional(),
            C::new("bytes", U64(|line| Some(line.bytes)), "The size in bytes."),
            C::new("md5", Text(|line, see| see(&line.md5)), "The MD5 of the contents."),
            C::new("is_new", Boolean(|line| Some(line.is_new)), "Whether a client created it."),
        ],
    }
};

/// Returns the MD5 of `bytes` in hexadecimal digits.
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
    write!(f, "{} {}: ", line.job, Plain(LossyText(&line.path)))?;
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
    match &line.attributes {
        Some(Attributes { kind, mode, size, .. }) => {
            write!(f, "  {:<7} {:04o} {:>15}", kind.to_string(), mode & MODE, Number(*size))?;
        }
        None => write!(f, "  {:28}", "")?,
    }
    write!(f, "  {}", Plain(LossyText(&line.name)))
}

pub(super) fn show_file(line: &File, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is = if line.is_new { "created" } else { "changed" };
    write!(f, "{}: {is}, {} bytes, MD5 {}", Plain(LossyText(&line.path)), Number(line.bytes), line.md5)
}
