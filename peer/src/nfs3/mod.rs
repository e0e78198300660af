//! NFS version 3 for a Responder that a real client can mount, and for a Requester that works on a real server (RFC 1813, RFC 8267).
//!
//! Messages in, messages out; chunks are named as items, as [`rpcrdma`](crate::rpcrdma) wants them. [`Export`] is a file system in
//! memory with all 22 procedures. [`mount::Services`] answers what a client asks on TCP beside it. [`Task`] is a client's work on a
//! path, one [`Operation`] after the other.
//!
//! ```
//! use rdmascope_peer::nfs3::{Caller, Export, Job, Limits, Outcome, Task, Time};
//! use rdmascope_peer::rpcrdma::{Conveyance, Event, Replied};
//! use rdmascope_wire::Xid;
//!
//! // Without a transport between them: the message of each call is the export's, and its reply the task's.
//! let mut export = Export::new(Limits::default(), 7, Time::default());
//! export.put(b"motd", b"hello", Time::default()).unwrap();
//! let job = Job::Read { path: b"motd".to_vec() };
//! let mut task = Task::new(Caller::new(Xid(1), 0, 0), export.root(), job, 4096);
//! while let Some(call) = task.poll() {
//!     let answer = export.call(&call.message, Time::default()).unwrap();
//!     task.handle(&Event::Replied(Replied {
//!         xid: call.xid().unwrap(),
//!         message: answer.message,
//!         items: vec![],
//!         conveyance: Conveyance::default(),
//!         credits: 1,
//!     }));
//! }
//! assert_eq!(task.outcome(), Some(&Ok(Outcome::Read(b"hello".to_vec()))));
//! ```

mod admission;
mod call;
mod export;
pub mod mount;
mod procedures;
mod store;
mod task;
mod types;

pub use admission::refusal;
pub use call::{CallError, Caller, Entry, Operation, Results, Stable};
pub use export::{Answer, Export, MOST_DATA, MOST_FILE_PATH, VERSION};
pub use store::Limits;
pub use task::{Job, Outcome, Task};
pub use types::{Attributes, FileType, Handle, MOST_HANDLE, Procedure, SetAttributes, SetTime, Status, Time};
