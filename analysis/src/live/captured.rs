//! That a capture was written around something.

use core::fmt;
use rdmascope_dissector::record::Time;

/// A capture that was written around what a person wanted to be captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When the first of what it was written for came.
    pub time: Time,
    /// What it was written for, in words for people: the first, and how many there were besides.
    pub reason: String,
    /// See [`Captured::reason`].
    pub further: u64,
    /// The file.
    pub file: String,
    /// Packets in it.
    pub packets: u64,
    /// It begins later than wanted: so much memory was not granted.
    pub is_cut: bool,
    /// Why it could not be written.
    pub trouble: Option<String>,
    /// No further one is written.
    pub is_last: bool,
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured { reason, further, file, packets, is_cut, trouble, is_last, .. } = self;
        match trouble {
            Some(trouble) => write!(f, "{file}: cannot be written: {trouble}; it was for: {reason}")?,
            None => write!(f, "{file}: {packets} packets captured, for: {reason}")?,
        }
        if *further > 0 {
            write!(f, ", and {further} more")?;
        }
        if *is_cut {
            f.write_str("; it begins later than wanted: --trigger-memory keeps more")?;
        }
        if *is_last {
            f.write_str("; it is the last one: --trigger-files allows more")?;
        }
        Ok(())
    }
}
