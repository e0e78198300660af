//! Where captures come from, files, pipes and network interfaces, and how they are written.
//!
//! [`Capture`] opens whatever it is given and hands out one [`Record`](rdmascope_dissector::record::Record) after the
//! other, which the dissector's engine takes:
//!
//! ```
//! use rdmascope_capture_agent::Capture;
//! use rdmascope_dissector::engine::{Config, Engine};
//! use rdmascope_dissector::event::Event;
//!
//! # let path = std::path::Path::new("../samples/nfs3-basic.pcap");
//! # let mut transactions = 0;
//! let mut capture = Capture::open(path)?;
//! let mut engine = Engine::new(Config::default());
//! let mut print = |event: Event<'_>| {
//!     if let Event::Transaction(transaction) = event {
//!         println!("{:?}: {:?} in {:?} ns", transaction.xid, transaction.outcome, transaction.latency());
//! #       transactions += 1;
//!     }
//! };
//! while let Some(record) = capture.next()? {
//!     engine.handle(&record, &mut print);
//! }
//! engine.finish(&mut print);
//! # assert_eq!(transactions, 265);
//! # Ok::<(), rdmascope_capture_agent::Error>(())
//! ```
//!
//! - [`Files`] reads several files, or standard input, as one capture.
//! - [`Ring`] reads the files that one program wrote one behind the other as the one capture that they are.
//! - [`Interrupt`] ends pipes that are read.
//! - `live::Live` captures from network interfaces, on Linux; `datalink::Datalink` on other Unix systems, and on Linux with the
//!   cargo feature `pnet`; `snoop::open` from an RDMA device, with the cargo feature `verbs`.
//!   `LiveSource` is their common trait.
//! - `confine` is what a process gives up before it reads packets, on Linux.
//! - [`Source`] is what every source has in common: a record, the word that there is none now, or the end; and how many packets it lacks.
//! - [`Archive`] finds records by their numbers, in any order.
//! - [`PcapngWriter`] writes a capture. [`new_file`] makes the files that are written.
//! - [`inventory`] asks the kernel which queue pairs are connected.
//! - [`trace`] reads what the kernel's tracepoints wrote.
//! - [`framing`] is what all of them read with. It knows nothing of files: bytes in, records out.
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
