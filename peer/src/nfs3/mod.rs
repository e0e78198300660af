//! NFS version 3: a server that real clients can mount, and a client for real servers (RFC 1813,
//! RFC 8267).
//!
//! [`Export`] is a file system in memory with all 22 procedures. [`mount::Services`] answers MOUNT
//! and the port mapper on TCP. [`Task`] works on a path of a server, one [`Operation`] after the
//! other. Messages name their DDP-eligible items, as [`rpcrdma`](crate::rpcrdma) requires.
//!
//! ```
//! use rdmascope_peer::nfs3::{Caller, Export, Job, Limits, Outcome, Task, Time};
//! use rdmascope_peer::rpcrdma::{Conveyance, Event, Replied};
//! use rdmascope_wire::Xid;
//!
//! No transport: the export gets the message of each call, and the task the reply.
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
