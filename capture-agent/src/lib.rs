//! Reads captures from files, pipes, network interfaces and RDMA devices, and writes them.
//!
//! - [`Capture`] opens one capture and returns its records, which the dissector's engine takes.
//! - [`Files`] reads several files, or standard input, as one capture. [`Interrupt`] ends pipes.
//! - [`Ring`] reads the rotated files of one program, in the order in which they were written.
//! - [`Archive`] finds records by number, in any order.
//! - `live::Live` captures from network interfaces on Linux; `datalink::Datalink` does so on other
//!   Unix systems, and on Linux with the cargo feature `pnet`. `sniffer::open` captures from an RDMA
//!   device, with the cargo feature `verbs`, and `snoop::Messages` from the kernel's NFS/RDMA
//!   transport. Their common trait is `LiveSource`.
//! - [`Source`] is the common trait of [`Files`] and the live sources: it returns a record, nothing
//!   at present, or the end, and the number of packets that it lacks.
//! - `confine` drops the privileges of a process before it reads packets, on Linux.
//! - [`PcapngWriter`] writes a capture. [`new_file`] creates output files.
//! - [`inventory`] asks the kernel which queue pairs are connected.
//! - [`trace`] reads the output of the kernel's tracepoints.
//! - [`framing`] splits bytes into records. All readers use it; it does no I/O.
#![deny(unsafe_code)]

mod archive;
mod block;
mod capture;
mod clock;
mod compress;
#[cfg(target_os = "linux")]
pub mod confine;
#[cfg(all(unix, any(feature = "pnet", not(target_os = "linux"))))]
pub mod datalink;
mod decompress;
mod files;
#[cfg(unix)]
pub mod filter;
pub mod framing;
pub mod inventory;
#[cfg(target_os = "linux")]
pub mod live;
#[cfg(unix)]
mod live_source;
pub mod new_file;
mod note;
mod pcapng_writer;
mod piece;
mod pipe;
mod regular;
#[cfg(all(target_os = "linux", any(test, feature = "verbs")))]
pub mod sniffer;
#[cfg(target_os = "linux")]
pub mod snoop;
mod source;
mod stream;
pub mod temporary;
pub mod trace;
#[allow(unsafe_code)]
mod unsafe_io;

pub use archive::{Archive, Walk};
pub use capture::{Advance, Capture, Cut, Error};
pub use clock::{Clock, Line};
pub use compress::{Compression, Compressor};
pub use files::{FileEnding, Files, Ring, Spool};
pub use framing::{Interface, Statistics};
#[cfg(unix)]
pub use live_source::{Counts, Host, LiveSource, State, now};
pub use note::{Note, NoteKind};
pub use pcapng_writer::{Description, PcapngWriter, Section};
pub use pipe::Interrupt;
pub use source::{Next, Progress, Sink, Source, for_each};
