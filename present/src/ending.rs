//! How the reading of a capture ended, beside what was read.

use crate::text::{Counted, Plain};
use core::fmt;
pub use rdmascope_capture_agent::{Cut, FileEnding};
use rdmascope_dissector::engine::Totals;

/// What was read, besides what the dissector made of it.
#[derive(Debug, Default)]
pub struct Ending {
    /// What the engine counted.
    pub totals: Totals,
    /// How each file ended, in the order in which they were given.
    pub files: Vec<FileEnding>,
    /// The UDP port at which RoCEv2 was looked for.
    pub port: u16,
}

impl Ending {
    /// Packets that the files say were dropped while they were captured.
    pub fn dropped(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.dropped()))
    }

    /// The name of the file, where there is one, and a shell takes its name as it is.
    pub fn plain_name(&self) -> Option<&str> {
        match self.files.as_slice() {
            [file] if is_plain(&file.name) => Some(&file.name),
            _ => None,
        }
    }

    /// Whether every file could be read on to its end.
    pub fn is_readable(&self) -> bool {
        self.files.iter().all(|file| file.trouble.is_none())
    }
}

/// Whether a shell takes a name as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+:,@".contains(letter))
}

/// How a file ended, in words.
pub struct FileEnd<'a>(pub &'a FileEnding);

impl fmt::Display for FileEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.trouble, self.0.cut) {
            (Some(trouble), _) => write!(f, "unreadable from here on: {}", Plain(trouble)),
            (None, Some(cut)) => write!(
                f,
                "cut short at byte {}: {} needed, {} there; analyzed up to here",
                cut.offset,
                Counted(cut.needed, "byte"),
                cut.available
            ),
            (None, None) => f.write_str("whole: the file ends where a packet ends"),
        }
    }
}
