//! Dissects captured packets into connections and RPC transactions.
//!
//! The crate does no I/O: the caller reads the file or the interface and passes [`record::Record`]s
//! with their time stamps. The same records always give the same events: no stage reads a clock, a
//! file, a random source or a global.
//!
//! ```
//! use rdmascope_dissector::engine::{Config, Engine};
//! use rdmascope_dissector::event::Event;
//! use rdmascope_dissector::record::{LinkType, Record, Time};
//! use rdmascope_dissector::ulb;
//!
//! // An Ethernet frame with an NFS call. rdmascope-capture-agent reads such records from files.
//! let data = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/send-only.bin"));
//! let record = Record {
//!     number: 1,
//!     time: Time(1_795_340_251_274_107_000),
//!     link: LinkType::ETHERNET,
//!     original_length: data.len() as u32,
//!     dropped: 0,
//!     tap: Default::default(),
//!     data,
//! };
//!
//! let mut lines = Vec::new();
//! let mut report = |event: Event<'_>| {
//!     if let Event::Transaction(transaction) = event {
//!         let name = transaction.procedure.and_then(ulb::procedure_name).unwrap_or("?");
//!         lines.push(format!("{} {name} {:?}", transaction.xid, transaction.outcome));
//!     }
//! };
//! let mut engine = Engine::new(Config::default());
//! engine.handle(&record, &mut report);
//! // Reports the transactions and connections that are still open at the end of the capture.
//! engine.finish(&mut report);
//! assert_eq!(lines, ["0x0c396a62 NULL CutOff"]);
//! ```
//!
//! The crate needs only `core` and `alloc`. The default feature `std` enables `rdmascope-wire/std`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod attribution;
pub mod batch;
pub mod bulk;
pub mod connection;
pub mod engine;
pub mod event;
pub mod exchange;
pub mod frame;
pub mod interval;
pub mod iwarp;
pub mod layout;
pub mod observation;
pub mod phases;
pub mod protocol;
mod rc;
pub mod rdma;
pub mod record;
mod reuse;
pub mod role;
mod roomy;
mod rpcrdma;
mod session;
pub mod transaction;
pub mod transport;
pub mod ulb;
mod waiting;

pub use rc::LONGEST_MESSAGE;
pub use rpcrdma::BuildHasher;
