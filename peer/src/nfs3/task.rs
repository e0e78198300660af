//! A client's work on a path: a sequence of calls, each based on the previous results.

use super::call::{CallError, Caller, Entry, Operation, Results, Stable};
use super::types::{Handle, Procedure, SetAttributes, Status};
use crate::rpcrdma::{Call, Event};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::Xid;

/// Most bytes of a file to read, and of the entries of a directory to list.
const MOST_READ: usize = 256 << 20;
/// Requested length of a reply with names, limited by the preference of the server.
const DIRECTORY: core::ops::RangeInclusive<u32> = 4096..=65_536;

/// The work to do. Paths begin at the root handle; slashes separate them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Job {
    /// Reads a file.
    Read { path: Vec<u8> },
    /// Creates or overwrites a file with these bytes.
    Write { path: Vec<u8>, bytes: Vec<u8> },
    /// Lists the names in a directory, including "." and ".." if the server returns them.
    List { path: Vec<u8> },
    /// Removes a file.
    Remove { path: Vec<u8> },
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes of a file.
    Read(Vec<u8>),
    /// The file is written and committed.
    Written,
    /// The names of a directory.
    Listed(Vec<Entry>),
    /// The file is removed.
    Removed,
}

/// A job in progress. The caller sends the calls from [`poll`](Task::poll) and passes the session's
/// events, until [`outcome`](Task::outcome) returns the result.
///
/// ```
/// use rdmascope_peer::nfs3::{Caller, Export, Job, Limits, Outcome, Task, Time};
/// use rdmascope_peer::rpcrdma::{Conveyance, Event, Replied};
/// use rdmascope_wire::Xid;
///
/// // No transport: the export gets the message of each call, and the task the reply.
/// let mut export = Export::new(Limits::default(), 7, Time::default());
/// export.put(b"motd", b"hello", Time::default()).unwrap();
/// let job = Job::Read { path: b"motd".to_vec() };
/// let mut task = Task::new(Caller::new(Xid(1), 0, 0), export.root(), job, 4096);
/// while let Some(call) = task.poll() {
///     let answer = export.call(&call.message, Time::default()).unwrap();
///     task.handle(&Event::Replied(Replied {
///         xid: call.xid().unwrap(),
///         message: answer.message,
///         items: vec![],
///         conveyance: Conveyance::default(),
///         credits: 1,
///     }));
/// }
/// assert_eq!(task.outcome(), Some(&Ok(Outcome::Read(b"hello".to_vec()))));
/// ```
#[derive(Debug)]
pub struct Task {
    caller: Caller,
    job: Job,
    /// Names that are not yet looked up.
    way: VecDeque<Vec<u8>>,
    /// The last name of the path, for jobs that act on a name.
    name: Vec<u8>,
    at: Handle,
    /// Most bytes of a READ or WRITE.
    piece: u32,
    most: (u32, u32, u32),
    next: Option<Operation>,
    pending: Option<(Xid, Operation)>,
    read: Vec<u8>,
    written: usize,
    /// verf of the WRITEs, and whether one of them needs a COMMIT.
    verifier: Option<u64>,
    is_unstable: bool,
    names: Vec<Entry>,
    listed: usize,
    /// Whether the file for the WRITEs exists.
    is_made: bool,
    calls: u64,
    outcome: Option<Result<Outcome, CallError>>,
}

impl Task {
    /// Creates a task from this root handle. READ and WRITE have at most `piece` bytes, or fewer if
    /// the server requires it.
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

    /// Returns the next call. `None` while a call is outstanding, and at the end.
    pub fn poll(&mut self) -> Option<Call> {
        let operation = self.next.take()?;
        let call = self.caller.call(&operation);
        self.pending = Some((call.xid()?, operation));
        self.calls += 1;
        Some(call)
    }

    /// Returns the number of calls so far.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the result, or `None` while the task is in progress.
    pub const fn outcome(&self) -> Option<&Result<Outcome, CallError>> {
        self.outcome.as_ref()
    }

    /// Returns the result, and the caller for the next task.
    pub fn finish(self) -> Option<(Result<Outcome, CallError>, Caller)> {
        Some((self.outcome?, self.caller))
    }

    /// Handles an event of the session. Events of other calls are ignored.
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
            // READDIRPLUS is optional.
            Err(CallError::Status(Procedure::Readdirplus, Status::NotSupp)) => {
                self.list(false, 0, 0);
                Ok(None)
            }
            Err(error) => Err(error),
        };
        self.outcome = ended.transpose();
    }

    /// Fails the outstanding call, which could not be sent or whose reply was dropped.
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
                    return impossible("the server allows no bytes in READ or WRITE");
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
                    return impossible("no data before the end of the file");
                }
                if self.read.len() + bytes.len() > MOST_READ {
                    return impossible("the file is longer than the limit");
                }
                self.read.extend_from_slice(&bytes);
                if is_end {
                    return Ok(Some(Outcome::Read(core::mem::take(&mut self.read))));
                }
                self.walk();
            }
            (Operation::Write { .. }, Results::Written { count, stable, verifier }) => {
                if count == 0 {
                    return impossible("no data written");
                }
                self.is_unstable |= stable != Stable::FileSync;
                if *self.verifier.get_or_insert(verifier) != verifier {
                    return impossible("the verifier changed: the server lost written data");
                }
                self.written += count as usize;
                return Ok(self.write());
            }
            (Operation::Commit { .. }, Results::Committed { verifier }) => {
                if self.verifier != Some(verifier) {
                    return impossible("the verifier changed: the server lost written data");
                }
                return Ok(Some(Outcome::Written));
            }
            (_, Results::Names { entries, verifier, is_end }) => {
                let plus = matches!(operation, Operation::Readdirplus { .. });
                let Some(last) = entries.last().map(|entry| entry.cookie).or(is_end.then_some(0)) else {
                    return impossible("no names before the end of the directory");
                };
                self.listed +=
                    entries.iter().map(|entry| size_of::<Entry>() + entry.name.len()).sum::<usize>();
                if self.listed > MOST_READ {
                    return impossible("the directory is longer than the limit");
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

    /// Looks up the next name of the path, or starts the work at its end.
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

    /// Prepares the next WRITE or the COMMIT, or ends the job.
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
