//! The RPC program of an export: calls in, replies out.

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

/// The version of NFS.
pub const VERSION: u32 = 3;
/// Bytes that a READ and a WRITE may have: rtmax and wtmax.
pub const MOST_DATA: u32 = 1 << 20;
/// Bytes of a path that [`Export::files`] tells.
pub const MOST_FILE_PATH: usize = 4096;
/// Replies to non-idempotent procedures that are remembered.
const MOST_REMEMBERED: usize = 256;
/// The longest call whose reply is remembered, in bytes.
const MOST_REMEMBERED_CALL: usize = 4096;

/// A small NFSv3 export in memory. It is a function of the calls and the times that it is given.
///
/// Every call whose RPC header can be read is answered. Memory is bounded by [`Limits`], and by 256 remembered replies: a
/// non-idempotent call that comes again after a connection was lost, byte by byte the same, gets the reply that it had.
#[derive(Debug)]
pub struct Export {
    pub(super) store: Store,
    /// In handles, in the verifiers of WRITE and of directories, and the fsid: another export has another one.
    pub(super) instance: u64,
    remembered: VecDeque<(Vec<u8>, Answer)>,
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The whole RPC reply.
    pub message: Vec<u8>,
    /// Where the DDP-eligible item is in it, without padding: the data of READ, the text of READLINK (RFC 8267, section 4).
    pub item: Option<Range<usize>>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply { message: answer.message, reduce: answer.item.into_iter().collect(), edit: None }
    }
}

impl Export {
    /// An export whose root directory is empty and open to everybody. `instance` tells it from others that were there before.
    pub fn new(limits: Limits, instance: u64, now: Time) -> Export {
        Export { store: Store::new(limits, now), instance, remembered: VecDeque::new() }
    }

    /// The handle of the root directory.
    pub fn root(&self) -> Handle {
        self.handle(ROOT)
    }

    /// Puts a file there, or other bytes into one that is there. Slashes part the path; directories that it lacks are made.
    pub fn put(&mut self, path: &[u8], bytes: &[u8], now: Time) -> Result<(), Status> {
        let mut names: Vec<&[u8]> = names(path).collect();
        let name = names.pop().ok_or(Status::Inval)?;
        let directory = self.directory(&names, now)?;
        let id = self.find_or_make(directory, name, Content::File(Vec::new()), now)?;
        let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
        self.store.set(id, &Who::default(), &set, now)?;
        self.store.write(id, 0, bytes, now)
    }

    /// Puts a directory there; one that is there stays as it is. Slashes part the path; directories that it lacks are made.
    /// [`Status::NotDir`] where something else is there.
    pub fn make_directory(&mut self, path: &[u8], now: Time) -> Result<(), Status> {
        let names: Vec<&[u8]> = names(path).collect();
        let id = self.directory(&names, now)?;
        match self.store.content(id)? {
            Content::Directory(_) => Ok(()),
            _ => Err(Status::NotDir),
        }
    }

    /// What these names lead to, each in the one before; directories are made where nothing is.
    fn directory(&mut self, names: &[&[u8]], now: Time) -> Result<Id, Status> {
        names.iter().try_fold(ROOT, |directory, name| {
            self.find_or_make(directory, name, Content::Directory(Directory::default()), now)
        })
    }

    fn find_or_make(&mut self, directory: Id, name: &[u8], new: Content, now: Time) -> Result<Id, Status> {
        let who = Who::default();
        match self.store.lookup(directory, name, &who) {
            Err(Status::NoEnt) => {
                // As the root directory: everybody may write.
                let mode = if matches!(new, Content::Directory(_)) { 0o777 } else { 0o666 };
                let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
                self.store.make(directory, name, new, (&who, &set, now))
            }
            found => found,
        }
    }

    /// The bytes of a file. Slashes part its path.
    pub fn bytes(&self, path: &[u8]) -> Option<&[u8]> {
        let who = Who::default();
        let id =
            names(path).try_fold(ROOT, |directory, name| self.store.lookup(directory, name, &who)).ok()?;
        match self.store.content(id).ok()? {
            Content::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Every file with its path from the root, whose names have slashes between them. A file with several names comes with each of them. What has a
    /// path of more than [`MOST_FILE_PATH`] bytes is left out.
    pub fn files(&self) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        let mut path = Vec::new();
        // What is still to be looked at: how long the path of its directory is, its name, and what it is.
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

    /// Answers an RPC call, whole: with what Read chunks carried put back. `None` where its RPC header cannot be read.
    pub fn call(&mut self, message: &[u8], now: Time) -> Option<Answer> {
        let mut cursor = Reader::new(message, Layer::Rpc);
        let call = rpc::Call::parse(&mut cursor).ok()?;
        // NFSACL is not served: a client goes on without.
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

    /// The file of a handle: NFS3ERR_BADHANDLE where this export never gave it, NFS3ERR_STALE where the file is gone.
    pub(super) fn file(&self, handle: &Handle) -> Result<Id, Status> {
        let bytes: &[u8; 16] = handle.bytes().try_into().map_err(|_| Status::BadHandle)?;
        let (instance, id) = bytes.split_at(8);
        let id = Id::from_be_bytes(id.try_into().map_err(|_| Status::BadHandle)?);
        if instance != self.instance.to_be_bytes() {
            // An export that was there before gave it, or nobody.
            return Err(Status::Stale);
        }
        if self.store.contains(id) { Ok(id) } else { Err(Status::Stale) }
    }
}

/// A reply without results, or the front of one with results.
pub(super) fn plain(call: &rpc::Call<'_>, status: rpc::Status) -> Answer {
    let mut message = Vec::with_capacity(256);
    rpc::Reply { xid: call.xid, status, verifier: None }.build(&mut message);
    Answer { message, item: None }
}

/// The names of a path. Slashes at its ends, and more than one between two names, are nothing.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}
