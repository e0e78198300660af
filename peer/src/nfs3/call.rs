//! NFS version 3 calls and the results in their replies: the client side of each procedure.

use super::export::VERSION;
use super::types::{Attributes, Handle, Procedure, SetAttributes, Status, reader};
use crate::rpcrdma::{Call, Replied};
use alloc::vec;
use alloc::vec::Vec;
use rdmascope_wire::rpc::{self, Auth, flavor, program};
use rdmascope_wire::rpcrdma;
use rdmascope_wire::xdr::{Reader, put_opaque, put_u32, put_u64};
use rdmascope_wire::{Layer, Stop, Xid};

/// The longest RPC header of a reply: XID, msg_type, reply_stat, a verifier of 400 bytes,
/// accept_stat.
const MOST_HEADER: u32 = 424;
/// Status, post_op_attr and wcc_data of an object and a directory, and a handle: longer than any
/// result without data or names.
const MOST_RESULTS: u32 = 420;
/// Requested bytes of the text of a symbolic link.
const MOST_PATH: u32 = 1024;

/// A procedure with its arguments. Names are bytes without a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Null,
    Getattr {
        object: Handle,
    },
    Setattr {
        object: Handle,
        set: SetAttributes,
    },
    Lookup {
        directory: Handle,
        name: Vec<u8>,
    },
    Readlink {
        link: Handle,
    },
    Read {
        file: Handle,
        offset: u64,
        count: u32,
    },
    Write {
        file: Handle,
        offset: u64,
        stable: Stable,
        data: Vec<u8>,
    },
    /// UNCHECKED: an existing file is accepted.
    Create {
        directory: Handle,
        name: Vec<u8>,
        set: SetAttributes,
    },
    Mkdir {
        directory: Handle,
        name: Vec<u8>,
        set: SetAttributes,
    },
    Symlink {
        directory: Handle,
        name: Vec<u8>,
        path: Vec<u8>,
    },
    Remove {
        directory: Handle,
        name: Vec<u8>,
    },
    Rmdir {
        directory: Handle,
        name: Vec<u8>,
    },
    Rename {
        from: (Handle, Vec<u8>),
        to: (Handle, Vec<u8>),
    },
    Link {
        file: Handle,
        directory: Handle,
        name: Vec<u8>,
    },
    Readdir {
        directory: Handle,
        cookie: u64,
        verifier: u64,
        count: u32,
    },
    Readdirplus {
        directory: Handle,
        cookie: u64,
        verifier: u64,
        count: u32,
    },
    Fsinfo {
        root: Handle,
    },
    Commit {
        file: Handle,
        offset: u64,
        count: u32,
    },
}

super::types::numbers! {
    /// stable_how (RFC 1813, section 3.3.7).
    #[allow(missing_docs)]
    Stable {
        Unstable = 0 "UNSTABLE",
        DataSync = 1 "DATA_SYNC",
        FileSync = 2 "FILE_SYNC",
    }
}

/// The results of a reply with NFS3_OK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// No result that a client needs.
    Done,
    /// GETATTR.
    Attributes(Attributes),
    /// LOOKUP and the procedures that create an object. `None`: the server omitted the value.
    Found {
        /// The handle.
        handle: Option<Handle>,
        /// The attributes.
        attributes: Option<Attributes>,
    },
    /// READLINK.
    Path(Vec<u8>),
    /// READ.
    Data {
        /// The data, inline or from the Write chunk.
        bytes: Vec<u8>,
        /// eof.
        is_end: bool,
        /// Whether a Write chunk conveyed the data.
        by_write_chunk: bool,
    },
    /// WRITE.
    Written {
        /// Number of bytes written.
        count: u32,
        /// committed.
        stable: Stable,
        /// verf.
        verifier: u64,
    },
    /// COMMIT.
    Committed {
        /// verf.
        verifier: u64,
    },
    /// READDIR and READDIRPLUS.
    Names {
        /// The entries.
        entries: Vec<Entry>,
        /// cookieverf.
        verifier: u64,
        /// eof.
        is_end: bool,
    },
    /// FSINFO.
    Info {
        /// rtmax, in bytes.
        most_read: u32,
        /// wtmax, in bytes.
        most_write: u32,
        /// dtpref, in bytes.
        directory: u32,
    },
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// fileid.
    pub fileid: u64,
    /// name.
    pub name: Vec<u8>,
    /// cookie.
    pub cookie: u64,
    /// The attributes, for READDIRPLUS.
    pub attributes: Option<Attributes>,
    /// The handle, for READDIRPLUS.
    pub handle: Option<Handle>,
}

/// Why a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// nfsstat3 is not NFS3_OK.
    #[error("{0} answered with {1}")]
    Status(Procedure, Status),
    /// RFC 1813 does not define the nfsstat3.
    #[error("{0} answered with status {1}")]
    UnknownStatus(Procedure, u32),
    /// The RPC failed.
    #[error("{0} answered with {1}")]
    Rpc(Procedure, rpc::Status),
    /// The answer is an RDMA_ERROR.
    #[error("{0} answered with RDMA_ERROR {1}")]
    Rdma(Procedure, rpcrdma::Error),
    /// The reply is malformed.
    #[error("unreadable reply to {0}: {1}")]
    Malformed(Procedure, Stop),
    /// The reply contradicts the call: more data than requested, or no data before the end.
    #[error("invalid reply to {0}: {1}")]
    Impossible(Procedure, &'static str),
    /// The connection was lost, or the call could not be sent.
    #[error("no reply to {0}: the connection was lost")]
    Lost(Procedure),
}

/// The RPC state of a client: the next XID and the credential.
#[derive(Clone, Debug)]
pub struct Caller {
    xid: u32,
    credential: Vec<u8>,
}

impl Caller {
    /// Creates a client. The first call has the XID `xid`. The credential is AUTH_SYS with these
    /// IDs and the machine name "rdmascope".
    pub fn new(xid: Xid, uid: u32, gid: u32) -> Caller {
        let mut credential = Vec::new();
        put_u32(&mut credential, 0);
        put_opaque(&mut credential, b"rdmascope");
        for word in [uid, gid, 0] {
            put_u32(&mut credential, word);
        }
        Caller { xid: xid.0, credential }
    }

    /// Returns the next XID, and the RPC header of a call with it.
    pub(super) fn begin(&mut self, program: u32, version: u32, procedure: u32) -> (Xid, Vec<u8>) {
        let xid = Xid(self.xid);
        self.xid = self.xid.wrapping_add(1);
        let none = Auth { flavor: flavor::NONE, body: &[] };
        let credential = match program {
            program::PORTMAPPER => none,
            _ => Auth { flavor: flavor::SYS, body: &self.credential },
        };
        let mut out = Vec::new();
        rpc::Call { xid, rpc_version: rpc::VERSION, program, version, procedure, credential, verifier: none }
            .build(&mut out);
        (xid, out)
    }

    /// Builds the call of an operation, with chunks for its data (RFC 8267, section 4).
    pub fn call(&mut self, operation: &Operation) -> Call {
        let (_, mut out) = self.begin(program::NFS, VERSION, operation.procedure().number());
        let item = operation.build(&mut out);
        let item = item.map(|length| {
            let end = out.len() - (length.wrapping_neg() & 3);
            end - length..end
        });
        let mut call = Call { message: out, most_reply: MOST_HEADER + MOST_RESULTS, ..Call::default() };
        call.reduce = item.filter(|item| !item.is_empty()).into_iter().collect();
        match operation {
            Operation::Null => call.most_reply = MOST_HEADER,
            Operation::Read { count, .. } => call.write_chunks = vec![*count],
            Operation::Readlink { .. } => call.write_chunks = vec![MOST_PATH],
            Operation::Readdir { count, .. } | Operation::Readdirplus { count, .. } => {
                call.most_reply = MOST_RESULTS.max(count.saturating_add(4)).saturating_add(MOST_HEADER);
            }
            _ => {}
        }
        call
    }
}

impl Operation {
    /// Returns its procedure.
    pub const fn procedure(&self) -> Procedure {
        match self {
            Operation::Null => Procedure::Null,
            Operation::Getattr { .. } => Procedure::Getattr,
            Operation::Setattr { .. } => Procedure::Setattr,
            Operation::Lookup { .. } => Procedure::Lookup,
            Operation::Readlink { .. } => Procedure::Readlink,
            Operation::Read { .. } => Procedure::Read,
            Operation::Write { .. } => Procedure::Write,
            Operation::Create { .. } => Procedure::Create,
            Operation::Mkdir { .. } => Procedure::Mkdir,
            Operation::Symlink { .. } => Procedure::Symlink,
            Operation::Remove { .. } => Procedure::Remove,
            Operation::Rmdir { .. } => Procedure::Rmdir,
            Operation::Rename { .. } => Procedure::Rename,
            Operation::Link { .. } => Procedure::Link,
            Operation::Readdir { .. } => Procedure::Readdir,
            Operation::Readdirplus { .. } => Procedure::Readdirplus,
            Operation::Fsinfo { .. } => Procedure::Fsinfo,
            Operation::Commit { .. } => Procedure::Commit,
        }
    }

    /// Appends the arguments. Returns the length of the last one if it is a DDP-eligible item.
    fn build(&self, out: &mut Vec<u8>) -> Option<usize> {
        fn place(out: &mut Vec<u8>, directory: &Handle, name: &[u8]) {
            directory.build(out);
            put_opaque(out, name);
        }
        match self {
            Operation::Null => {}
            Operation::Getattr { object: handle }
            | Operation::Readlink { link: handle }
            | Operation::Fsinfo { root: handle } => handle.build(out),
            Operation::Setattr { object, set } => {
                object.build(out);
                set.build(out);
                put_u32(out, 0);
            }
            Operation::Lookup { directory, name }
            | Operation::Remove { directory, name }
            | Operation::Rmdir { directory, name } => place(out, directory, name),
            Operation::Read { file, offset, count } | Operation::Commit { file, offset, count } => {
                file.build(out);
                put_u64(out, *offset);
                put_u32(out, *count);
            }
            Operation::Write { file, offset, stable, data } => {
                file.build(out);
                put_u64(out, *offset);
                put_u32(out, data.len() as u32);
                put_u32(out, stable.number());
                put_opaque(out, data);
                return Some(data.len());
            }
            Operation::Create { directory, name, set } => {
                place(out, directory, name);
                put_u32(out, 0);
                set.build(out);
            }
            Operation::Mkdir { directory, name, set } => {
                place(out, directory, name);
                set.build(out);
            }
            Operation::Symlink { directory, name, path } => {
                place(out, directory, name);
                SetAttributes::default().build(out);
                put_opaque(out, path);
                return Some(path.len());
            }
            Operation::Rename { from, to } => {
                place(out, &from.0, &from.1);
                place(out, &to.0, &to.1);
            }
            Operation::Link { file, directory, name } => {
                file.build(out);
                place(out, directory, name);
            }
            Operation::Readdir { directory, cookie, verifier, count }
            | Operation::Readdirplus { directory, cookie, verifier, count } => {
                directory.build(out);
                put_u64(out, *cookie);
                put_u64(out, *verifier);
                // dircount: no separate limit.
                if matches!(self, Operation::Readdirplus { .. }) {
                    put_u32(out, *count);
                }
                put_u32(out, *count);
            }
        }
        None
    }

    /// Parses the results in the reply.
    pub fn results(&self, replied: &Replied) -> Result<Results, CallError> {
        let procedure = self.procedure();
        let malformed = |stop| CallError::Malformed(procedure, stop);
        let mut cursor = Reader::new(&replied.message, Layer::Rpc);
        let reply = rpc::Reply::parse(&mut cursor).map_err(malformed)?;
        if reply.status != rpc::Status::Success {
            return Err(CallError::Rpc(procedure, reply.status));
        }
        if procedure == Procedure::Null {
            return Ok(Results::Done);
        }
        let mut cursor = reader(cursor.rest());
        let status = cursor.u32().map_err(malformed)?;
        match Status::from_number(status) {
            Some(Status::Ok) => {}
            Some(status) => return Err(CallError::Status(procedure, status)),
            None => return Err(CallError::UnknownStatus(procedure, status)),
        }
        let item = replied.items.first().map(Vec::as_slice).unwrap_or_default();
        let results = self.parse(&mut cursor, item).map_err(malformed)?;
        let wrong = match (self, &results) {
            (Operation::Read { count, .. }, Results::Data { bytes, .. }) if bytes.len() > *count as usize => {
                Some("more bytes than requested")
            }
            (Operation::Write { data, .. }, Results::Written { count, .. })
                if *count as usize > data.len() =>
            {
                Some("more bytes written than sent")
            }
            _ => None,
        };
        wrong.map_or(Ok(results), |wrong| Err(CallError::Impossible(procedure, wrong)))
    }

    fn parse<'a>(&self, from: &mut Reader<'a>, item: &'a [u8]) -> Result<Results, Stop> {
        Ok(match self {
            Operation::Getattr { .. } => Results::Attributes(Attributes::parse(from)?),
            Operation::Lookup { .. } => {
                let handle = Some(Handle::parse(from)?);
                Results::Found { handle, attributes: Attributes::parse_optional(from)? }
            }
            Operation::Create { .. } | Operation::Mkdir { .. } | Operation::Symlink { .. } => {
                let handle = Handle::parse_optional(from)?;
                Results::Found { handle, attributes: Attributes::parse_optional(from)? }
            }
            Operation::Readlink { .. } => {
                Attributes::parse_optional(from)?;
                Results::Path(opaque(from, item)?.to_vec())
            }
            Operation::Read { .. } => {
                Attributes::parse_optional(from)?;
                let at = from.position();
                let (count, is_end) = (from.u32()?, from.bool()?);
                let bytes = opaque(from, item)?;
                if bytes.len() != count as usize {
                    return Err(Stop::malformed(from.layer(), at));
                }
                Results::Data { bytes: bytes.to_vec(), is_end, by_write_chunk: !item.is_empty() }
            }
            Operation::Write { .. } => {
                Attributes::parse_after(from)?;
                let (count, stable) = (from.u32()?, super::types::numbered(from, Stable::from_number)?);
                Results::Written { count, stable, verifier: from.u64()? }
            }
            Operation::Commit { .. } => {
                Attributes::parse_after(from)?;
                Results::Committed { verifier: from.u64()? }
            }
            Operation::Readdir { .. } => names(from, false)?,
            Operation::Readdirplus { .. } => names(from, true)?,
            Operation::Fsinfo { .. } => {
                Attributes::parse_optional(from)?;
                let most_read = from.u32()?;
                from.skip(8)?;
                let most_write = from.u32()?;
                from.skip(8)?;
                Results::Info { most_read, most_write, directory: from.u32()? }
            }
            _ => Results::Done,
        })
    }
}

/// Reads opaque data, which is inline or came in a Write chunk.
fn opaque<'a>(from: &mut Reader<'a>, item: &'a [u8]) -> Result<&'a [u8], Stop> {
    let at = from.position();
    let length = from.u32()?;
    if item.is_empty() {
        from.fixed(length)
    } else if item.len() == length as usize {
        Ok(item)
    } else {
        Err(Stop::malformed(from.layer(), at))
    }
}

fn names(from: &mut Reader<'_>, plus: bool) -> Result<Results, Stop> {
    Attributes::parse_optional(from)?;
    let verifier = from.u64()?;
    let mut entries = Vec::new();
    while from.bool()? {
        let mut entry = Entry {
            fileid: from.u64()?,
            name: from.opaque()?.to_vec(),
            cookie: from.u64()?,
            attributes: None,
            handle: None,
        };
        if plus {
            entry.attributes = Attributes::parse_optional(from)?;
            entry.handle = Handle::parse_optional(from)?;
        }
        entries.push(entry);
    }
    Ok(Results::Names { entries, verifier, is_end: from.bool()? })
}
