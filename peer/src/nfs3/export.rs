//! The NFS program of an export.

use super::admission::admit;
use super::procedures::Results;
use super::store::{Content, Directory, Id, Limits, ROOT, Store, Who};
use super::types::{Handle, Procedure, SetAttributes, Status, Time, reader};
use crate::rpcrdma::Reply;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Layer;
use rdmascope_wire::rpc::{self, program};
use rdmascope_wire::xdr::Reader;

/// The NFS version.
pub const VERSION: u32 = 3;
/// Most bytes of a READ and a WRITE: rtmax and wtmax.
pub const MOST_DATA: u32 = 1 << 20;
/// The longest path that [`Export::files`] returns, in bytes.
pub const MOST_FILE_PATH: usize = 4096;
/// Number of cached replies to non-idempotent procedures.
const MOST_REMEMBERED: usize = 256;
/// The longest call with a cached reply, in bytes.
const MOST_REMEMBERED_CALL: usize = 4096;

/// A small NFSv3 export in memory. Its state depends only on the calls and times that it gets.
///
/// It answers every call with a readable RPC header. Memory is bounded by [`Limits`], and by 256
/// cached replies: an identical non-idempotent call, repeated after the loss of a connection, gets
/// the cached reply.
#[derive(Debug)]
pub struct Export {
    pub(super) store: Store,
    /// A unique number of the export: in handles, in the verifiers of WRITE and directories, and
    /// the fsid.
    pub(super) instance: u64,
    remembered: VecDeque<(Vec<u8>, Answer)>,
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The complete RPC reply.
    pub message: Vec<u8>,
    /// The range of the DDP-eligible item without padding: the data of READ or the text of READLINK
    /// (RFC 8267, section 4).
    pub item: Option<Range<usize>>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply { message: answer.message, reduce: answer.item.into_iter().collect(), edit: None }
    }
}

impl Export {
    /// Creates an export with an empty root directory that everyone can access. `instance`
    /// distinguishes it from earlier exports.
    pub fn new(limits: Limits, instance: u64, now: Time) -> Export {
        Export { store: Store::new(limits, now), instance, remembered: VecDeque::new() }
    }

    /// Returns the handle of the root directory.
    pub fn root(&self) -> Handle {
        self.handle(ROOT)
    }

    /// Creates or overwrites a file. Slashes separate the path; missing directories are created.
    pub fn put(&mut self, path: &[u8], bytes: &[u8], now: Time) -> Result<(), Status> {
        let mut names: Vec<&[u8]> = names(path).collect();
        let name = names.pop().ok_or(Status::Inval)?;
        let directory = self.directory(&names, now)?;
        let id = self.find_or_make(directory, name, Content::File(Vec::new()), now)?;
        let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
        self.store.set(id, &Who::default(), &set, now)?;
        self.store.write(id, 0, bytes, now)
    }

    /// Creates a directory, or keeps an existing one. Slashes separate the path; missing
    /// directories are created. Returns [`Status::NotDir`] if another object has the path.
    pub fn make_directory(&mut self, path: &[u8], now: Time) -> Result<(), Status> {
        let names: Vec<&[u8]> = names(path).collect();
        let id = self.directory(&names, now)?;
        match self.store.content(id)? {
            Content::Directory(_) => Ok(()),
            _ => Err(Status::NotDir),
        }
    }

    /// Returns the object at the path of these names, and creates missing directories.
    fn directory(&mut self, names: &[&[u8]], now: Time) -> Result<Id, Status> {
        names.iter().try_fold(ROOT, |directory, name| {
            self.find_or_make(directory, name, Content::Directory(Directory::default()), now)
        })
    }

    fn find_or_make(&mut self, directory: Id, name: &[u8], new: Content, now: Time) -> Result<Id, Status> {
        let who = Who::default();
        match self.store.lookup(directory, name, &who) {
            Err(Status::NoEnt) => {
                // Like the root directory: write access for everyone.
                let mode = if matches!(new, Content::Directory(_)) { 0o777 } else { 0o666 };
                let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
                self.store.make(directory, name, new, (&who, &set, now))
            }
            found => found,
        }
    }

    /// Returns the bytes of a file. Slashes separate its path.
    pub fn bytes(&self, path: &[u8]) -> Option<&[u8]> {
        let who = Who::default();
        let id =
            names(path).try_fold(ROOT, |directory, name| self.store.lookup(directory, name, &who)).ok()?;
        match self.store.content(id).ok()? {
            Content::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns every file with its path from the root. A file with several names is returned once
    /// for each. Paths of more than [`MOST_FILE_PATH`] bytes are skipped.
    pub fn files(&self) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        let mut path = Vec::new();
        // Objects still to visit: the length of the directory's path, the name, and the fileid.
        let mut open: Vec<(usize, &[u8], Id)> = vec![(0, b"", ROOT)];
        core::iter::from_fn(move || {
            loop {
                let (length, name, id) = open.pop()?;
                path.truncate(length);
                if length > 0 {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                if path.len() > MOST_FILE_PATH {
                    continue;
                }
                match self.store.content(id) {
                    Ok(Content::File(bytes)) => return Some((path.clone(), &bytes[..])),
                    Ok(Content::Directory(directory)) => {
                        let length = path.len();
                        open.extend(directory.names().rev().map(|(name, id)| (length, name, id)));
                    }
                    _ => {}
                }
            }
        })
    }

    /// Answers a complete RPC call, including the items of Read chunks. Returns `None` if its RPC
    /// header cannot be read.
    pub fn call(&mut self, message: &[u8], now: Time) -> Option<Answer> {
        let mut cursor = Reader::new(message, Layer::Rpc);
        let call = rpc::Call::parse(&mut cursor).ok()?;
        // Clients continue without NFSACL, which is not served.
        let who = match admit(&call, &[(program::NFS, VERSION..=VERSION)]) {
            Ok(who) => who,
            Err(status) => return Some(plain(&call, status)),
        };
        let Some(procedure) = Procedure::from_number(call.procedure) else {
            return Some(plain(&call, rpc::Status::ProcedureUnavailable));
        };
        let known = self.remembered.iter().find(|(before, _)| before == message);
        if let Some((_, answer)) = known {
            return Some(answer.clone());
        }
        let mut out = plain(&call, rpc::Status::Success).message;
        let mut results = Results { out: &mut out, item: None };
        let done = self.execute(procedure, &mut reader(cursor.rest()), &mut results, (&who, now));
        let item = results.item;
        if done.is_err() {
            return Some(plain(&call, rpc::Status::GarbageArguments));
        }
        let answer = Answer { message: out, item };
        if procedure.is_non_idempotent() && message.len() <= MOST_REMEMBERED_CALL {
            if self.remembered.len() >= MOST_REMEMBERED {
                self.remembered.pop_front();
            }
            self.remembered.push_back((message.to_vec(), answer.clone()));
        }
        Some(answer)
    }

    pub(super) fn handle(&self, id: Id) -> Handle {
        let bytes = [self.instance.to_be_bytes(), id.to_be_bytes()].concat();
        Handle::new(&bytes).expect("16 bytes are no more than 64")
    }

    /// Returns the file of a handle. NFS3ERR_BADHANDLE: the handle has another format.
    /// NFS3ERR_STALE: the file does not exist.
    pub(super) fn file(&self, handle: &Handle) -> Result<Id, Status> {
        let bytes: &[u8; 16] = handle.bytes().try_into().map_err(|_| Status::BadHandle)?;
        let (instance, id) = bytes.split_at(8);
        let id = Id::from_be_bytes(id.try_into().map_err(|_| Status::BadHandle)?);
        if instance != self.instance.to_be_bytes() {
            // The handle belongs to an earlier export, or was never issued.
            return Err(Status::Stale);
        }
        if self.store.contains(id) { Ok(id) } else { Err(Status::Stale) }
    }
}

/// Builds a reply without results, or the beginning of one with results.
pub(super) fn plain(call: &rpc::Call<'_>, status: rpc::Status) -> Answer {
    let mut message = Vec::with_capacity(256);
    rpc::Reply { xid: call.xid, status, verifier: None }.build(&mut message);
    Answer { message, item: None }
}

/// Returns the names in a path. Redundant slashes are ignored.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}
