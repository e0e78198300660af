//! Where captures come from, files and pipes, and how they are written.
//!
//! [`Capture`] opens whatever it is given and hands out one [`Record`](rdmascope_dissector::record::Record) after the
//! other. [`framing`] is what it does so with, and knows nothing of files: bytes in, records out.
#![deny(unsafe_code)]

mod archive;
mod capture;
mod decompress;
mod files;
pub mod framing;
mod mapped;
mod pcapng_writer;
mod source;
mod stream;
#[allow(unsafe_code)]
mod unsafe_io;

pub use archive::{Archive, Walk};
pub use capture::{Advance, Capture, Cut, Error};
pub use files::{FileEnding, Files, Spool};
pub use mapped::Mapped;
pub use pcapng_writer::PcapngWriter;
pub use source::{Next, Progress, Sink, Source, for_each};
