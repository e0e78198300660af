//! What a client does with a path: a list of calls, one after the other, each made of what the one before brought.

use super::call::{CallError, Caller, Entry, Operation, Results, Stable};
use super::types::{Handle, Procedure, SetAttributes, Status};
use crate::rpcrdma::{Call, Event};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::Xid;

/// Bytes of a file that are read, and of the names of a directory that are listed, each with what is known of it.
const MOST_READ: usize = 256 << 20;
/// Bytes of a reply with names that are asked for, within what the server prefers.
const DIRECTORY: core::ops::RangeInclusive<u32> = 4096..=65_536;

/// What to do. A path goes from the root handle on; slashes part it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Job {
    /// The bytes of a file.
    Read { path: Vec<u8> },
    /// Makes a file or writes one anew, with these bytes.
    Write { path: Vec<u8>, bytes: Vec<u8> },
    /// The names of a directory, "." and ".." too where the server lists them.
    List { path: Vec<u8> },
    /// Removes a file.
    Remove { path: Vec<u8> },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes of a file.
    Read(Vec<u8>),
    /// A file is written and committed.
    Written,
    /// The names of a directory.
    Listed(Vec<Entry>),
    /// A file is removed.
    Removed,
}

/// A job under way. Whoever drives it sends what [`poll`](Task::poll) gives and hands it the events of the session, until
/// [`outcome`](Task::outcome) says how it ended.
#[derive(Debug)]
pub struct Task {
    caller: Caller,
    job: Job,
    /// Names that are still to be looked up.
    way: VecDeque<Vec<u8>>,
    /// The last name of the path, where the job is about a name and not about what it is of.
    name: Vec<u8>,
    at: Handle,
    /// Bytes of a READ and of a WRITE.
    piece: u32,
    most: (u32, u32, u32),
    next: Option<Operation>,
    pending: Option<(Xid, Operation)>,
    read: Vec<u8>,
    written: usize,
    /// verf of the WRITEs, and whether one of them wants a COMMIT.
    verifier: Option<u64>,
    is_unstable: bool,
    names: Vec<Entry>,
    listed: usize,
    /// The file of a WRITE is there.
    is_made: bool,
    calls: u64,
    outcome: Option<Result<Outcome, CallError>>,
}

impl Task {
    /// A job from this root handle on. READ and WRITE have `piece` bytes at most, within what the server takes.
    pub fn new(caller: Caller, root: Handle, job: Job, piece: u32) -> Task {
        let (Job::Read { path } | Job::Write { path, .. } | Job::List { path } | Job::Remove { path }) = &job;
        let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        let mut way: VecDeque<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        let about_name = matches!(job, Job::Write { .. } | Job::Remove { .. });
        let name = if about_name { way.pop_back().unwrap_or_default() } else { Vec::new() };
        Task {
            caller,
            job,
            way,
            name,
            next: Some(Operation::Fsinfo { root: root.clone() }),
            at: root,
            piece: piece.max(1),
            most: (0, 0, 0),
            pending: None,
            read: Vec::new(),
            written: 0,
            verifier: None,
            is_unstable: false,
            names: Vec::new(),
            listed: 0,
            is_made: false,
            calls: 0,
            outcome: None,
        }
    }

    /// The next call to be made. `None` while one is under way, and at the end.
    pub fn poll(&mut self) -> Option<Call> {
        let operation = self.next.take()?;
        let call = self.caller.call(&operation);
        self.pending = Some((call.xid()?, operation));
        self.calls += 1;
        Some(call)
    }

    /// Calls made so far.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// How it ended; `None` before that.
    pub const fn outcome(&self) -> Option<&Result<Outcome, CallError>> {
        self.outcome.as_ref()
    }

    /// How it ended, with its caller, for the next task.
    pub fn finish(self) -> Option<(Result<Outcome, CallError>, Caller)> {
        Some((self.outcome?, self.caller))
    }

    /// Takes an event of the session that its calls go to. Events of other calls are nothing to it.
    pub fn handle(&mut self, event: &Event) {
        let Some((xid, operation)) = &self.pending else { return };
        let procedure = operation.procedure();
        let results = match event {
            Event::Replied(replied) if replied.xid == *xid => operation.results(replied),
            Event::Error { xid: other, error, .. } if other == xid => Err(CallError::Rdma(procedure, *error)),
            Event::Lost { xid: other } if other == xid => Err(CallError::Lost(procedure)),
            _ => return,
        };
        let Some((_, operation)) = self.pending.take() else { return };
        let ended = match results {
            Ok(results) => self.advance(&operation, results),
            // A server need not have READDIRPLUS.
            Err(CallError::Status(Procedure::Readdirplus, Status::NotSupp)) => {
                self.list(false, 0, 0);
                Ok(None)
            }
            Err(error) => Err(error),
        };
        self.outcome = ended.transpose();
    }

    /// The call could not be sent, or its reply was dropped.
    pub fn fail(&mut self) {
        if let Some((_, operation)) = self.pending.take() {
            self.outcome = Some(Err(CallError::Lost(operation.procedure())));
        }
    }

    fn advance(&mut self, operation: &Operation, results: Results) -> Result<Option<Outcome>, CallError> {
        let impossible = |why| Err(CallError::Impossible(operation.procedure(), why));
        match (operation, results) {
            (Operation::Fsinfo { .. }, Results::Info { most_read, most_write, directory }) => {
                if most_read == 0 || most_write == 0 {
                    return impossible("no byte can be read or written");
                }
                let directory = directory.clamp(*DIRECTORY.start(), *DIRECTORY.end());
                self.most = (most_read.min(self.piece), most_write.min(self.piece), directory);
                self.walk();
            }
            (Operation::Lookup { .. }, Results::Found { handle: Some(handle), .. }) => {
                self.at = handle;
                self.walk();
            }
            (Operation::Create { directory, name, .. }, Results::Found { handle: None, .. }) => {
                self.next = Some(Operation::Lookup { directory: directory.clone(), name: name.clone() });
                self.is_made = true;
            }
            (Operation::Create { .. }, Results::Found { handle: Some(handle), .. }) => {
                self.at = handle;
                return Ok(self.write());
            }
            (Operation::Read { .. }, Results::Data { bytes, is_end, .. }) => {
                if bytes.is_empty() && !is_end {
                    return impossible("no byte, and not the end");
                }
                if self.read.len() + bytes.len() > MOST_READ {
                    return impossible("more bytes than are taken");
                }
                self.read.extend_from_slice(&bytes);
                if is_end {
                    return Ok(Some(Outcome::Read(core::mem::take(&mut self.read))));
                }
                self.walk();
            }
            (Operation::Write { .. }, Results::Written { count, stable, verifier }) => {
                if count == 0 {
                    return impossible("no byte was written");
                }
                self.is_unstable |= stable != Stable::FileSync;
                if *self.verifier.get_or_insert(verifier) != verifier {
                    return impossible("another verifier: the server has forgotten what was written");
                }
                self.written += count as usize;
                return Ok(self.write());
            }
            (Operation::Commit { .. }, Results::Committed { verifier }) => {
                if self.verifier != Some(verifier) {
                    return impossible("another verifier: the server has forgotten what was written");
                }
                return Ok(Some(Outcome::Written));
            }
            (_, Results::Names { entries, verifier, is_end }) => {
                let plus = matches!(operation, Operation::Readdirplus { .. });
                let Some(last) = entries.last().map(|entry| entry.cookie).or(is_end.then_some(0)) else {
                    return impossible("no name, and not the end");
                };
                self.listed +=
                    entries.iter().map(|entry| size_of::<Entry>() + entry.name.len()).sum::<usize>();
                if self.listed > MOST_READ {
                    return impossible("more names than are taken");
                }
                self.names.extend(entries);
                if is_end {
                    return Ok(Some(Outcome::Listed(core::mem::take(&mut self.names))));
                }
                self.list(plus, last, verifier);
            }
            (Operation::Remove { .. }, Results::Done) => return Ok(Some(Outcome::Removed)),
            _ => return impossible("results of another procedure"),
        }
        Ok(None)
    }

    /// Looks up the next name of the path, or does the first thing at its end.
    fn walk(&mut self) {
        if let Some(name) = self.way.pop_front() {
            self.next = Some(Operation::Lookup { directory: self.at.clone(), name });
            return;
        }
        let (directory, name) = (self.at.clone(), self.name.clone());
        match &self.job {
            Job::Read { .. } => {
                let offset = self.read.len() as u64;
                self.next = Some(Operation::Read { file: directory, offset, count: self.most.0 });
            }
            Job::Write { .. } if self.is_made => {
                if let Some(outcome) = self.write() {
                    self.outcome = Some(Ok(outcome));
                }
            }
            Job::Write { .. } => {
                let set = SetAttributes { mode: Some(0o644), size: Some(0), ..SetAttributes::default() };
                self.next = Some(Operation::Create { directory, name, set });
            }
            Job::List { .. } => self.list(true, 0, 0),
            Job::Remove { .. } => self.next = Some(Operation::Remove { directory, name }),
        }
    }

    /// The next WRITE, the COMMIT, or the end.
    fn write(&mut self) -> Option<Outcome> {
        let Job::Write { bytes, .. } = &self.job else { return None };
        let rest = bytes.get(self.written..).unwrap_or_default();
        let file = self.at.clone();
        if !rest.is_empty() {
            let data = rest[..rest.len().min(self.most.1 as usize)].to_vec();
            let (offset, stable) = (self.written as u64, Stable::Unstable);
            self.next = Some(Operation::Write { file, offset, stable, data });
        } else if self.is_unstable {
            self.next = Some(Operation::Commit { file, offset: 0, count: 0 });
        } else {
            return Some(Outcome::Written);
        }
        None
    }

    fn list(&mut self, plus: bool, cookie: u64, verifier: u64) {
        let (directory, count) = (self.at.clone(), self.most.2);
        self.next = Some(if plus {
            Operation::Readdirplus { directory, cookie, verifier, count }
        } else {
            Operation::Readdir { directory, cookie, verifier, count }
        });
    }
}
