//! The report of a capture file that a trigger wrote.

use core::fmt;
use rdmascope_dissector::record::Time;

/// A capture file that was written around a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The time of the first trigger.
    pub time: Time,
    /// The first trigger, as text.
    pub reason: String,
    /// The number of further triggers.
    pub further: u64,
    /// The file.
    pub file: String,
    /// Packets in it.
    pub packets: u64,
    /// Whether it starts later than requested, because memory was short.
    pub is_cut: bool,
    /// The error, if it could not be written.
    pub trouble: Option<String>,
    /// Whether no further file will be written.
    pub is_last: bool,
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured { reason, further, file, packets, is_cut, trouble, is_last, .. } = self;
        match trouble {
            Some(trouble) => write!(f, "{file}: cannot be written: {trouble}; trigger: {reason}")?,
            None => write!(f, "{file}: {packets} packets captured; trigger: {reason}")?,
        }
        if *further > 0 {
            write!(f, ", and {further} more")?;
        }
        if *is_cut {
            f.write_str("; it starts later than requested: increase --trigger-memory")?;
        }
        if *is_last {
            f.write_str("; this is the last file: increase --trigger-files")?;
        }
        Ok(())
    }
}
