//! The store from which records are read again: the archive of files, or the ring of a live
//! capture.

use crate::ring::Ring;
use rdmascope_analysis::timeline::Records;
use rdmascope_capture_agent::Archive;
use rdmascope_dissector::record::Record;

/// The records that can be read again.
#[derive(Default)]
pub enum Store {
    /// No records yet: the archive is still being made.
    #[default]
    Pending,
    /// All of them.
    Archive(Box<Archive>),
    /// The latest of them.
    Ring(Ring),
}

impl Records for Store {
    fn walk(&self, number: u64) -> Box<dyn Iterator<Item = Record<'_>> + '_> {
        match self {
            Store::Pending => Box::new(core::iter::empty()),
            Store::Archive(archive) => Box::new(archive.walk(number)),
            Store::Ring(ring) => Box::new(ring.walk(number)),
        }
    }
}
