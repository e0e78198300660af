//! NFS version 3: a server that real clients can mount, and a client for real servers (RFC 1813,
//! RFC 8267).
//!
//! [`Export`] is a file system in memory with all 22 procedures. [`mount::Services`] answers MOUNT
//! and the port mapper on TCP. [`Task`] works on a path of a server, one [`Operation`] after the
//! other. Messages name their DDP-eligible items, as [`rpcrdma`](crate::rpcrdma) requires.

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
