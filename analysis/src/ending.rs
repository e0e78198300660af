//! How the reading of a capture ended, beside what was read.

use crate::filter::Span;
use crate::together::{Apart, Together};
use crate::units::{Counted, Number, Plain};
use core::fmt;
pub use rdmascope_capture_agent::{Cut, FileEnding};
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::protocol::Traffic;

/// What was read, besides what the dissector made of it.
#[derive(Debug, Default)]
pub struct Ending {
    /// What the engine counted.
    pub totals: Totals,
    /// How each file ended, in the order in which they were given.
    pub files: Vec<FileEnding>,
    /// The UDP port at which RoCEv2 was looked for.
    pub port: u16,
    /// Which of the files show the same connections.
    pub together: Together,
    /// What was chosen of it, where not all was.
    pub chosen: Option<Chosen>,
}

/// Transactions that were chosen out of those of a capture. What is counted of packets, files and the whole capture does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// How many.
    pub transactions: u64,
    /// Out of so many.
    pub of: u64,
    /// How many connections they are on.
    pub connections: u64,
    /// The span that was asked for.
    pub span: Span,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (transactions, of) = (Number(self.transactions), Counted(self.of, "transaction"));
        write!(f, "{transactions} of {of}, on {}", Counted(self.connections, "connection"))
    }
}

impl Ending {
    /// Packets that the files say were dropped while they were captured.
    pub fn dropped(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.dropped()))
    }

    /// Why several files may be no one capture: they share no connection, or more time lies between them than in them. `None` where nothing
    /// says so.
    pub fn apart(&self) -> Option<Apart<'_>> {
        Apart::of(&self.files, &self.together)
    }

    /// The name of the file, where there is one, and a shell takes its name as it is.
    pub fn plain_name(&self) -> Option<&str> {
        match self.files.as_slice() {
            [file] if is_plain(&file.name) => Some(&file.name),
            _ => None,
        }
    }

    /// Why nothing can be decoded: the capture holds no packet of RoCE or InfiniBand, and no iWARP connection. `None` where it does.
    pub fn nothing_decoded(&self) -> Option<NothingDecoded> {
        let Totals { packets, segments, traffic, .. } = &self.totals;
        let is_cut = self.totals.cut_records > 0;
        (*packets == 0 && *segments == 0)
            .then(|| NothingDecoded { iwarp: traffic[Traffic::Iwarp as usize], is_cut })
    }

    /// How the files ended, for people: each of a few, and of a ring those that did not end whole.
    pub fn files_told(&self) -> FilesTold<'_> {
        const FEW: usize = 16;
        let is_told = |file: &&FileEnding| self.files.len() <= FEW || !file.is_whole();
        let told: Vec<_> = self.files.iter().filter(is_told).take(FEW).collect();
        let broken = self.files.iter().filter(|file| !file.is_whole()).count();
        let others = self.files.len() - told.len();
        let broken = broken - told.iter().filter(|file| !file.is_whole()).count();
        FilesTold { told, others: [others - broken, broken] }
    }

    /// Whether every file could be read on to its end.
    pub fn is_readable(&self) -> bool {
        self.files.iter().all(|file| file.trouble.is_none())
    }
}

/// How the files of a capture ended, as far as each is told by itself.
#[derive(Debug)]
pub struct FilesTold<'a> {
    /// These are.
    pub told: Vec<&'a FileEnding>,
    /// Those that are not: how many ended whole, and how many did not.
    pub others: [usize; 2],
}

impl FilesTold<'_> {
    /// The others, in words.
    pub fn others_said(&self) -> impl Iterator<Item = String> {
        const ENDS: [&str; 2] =
            ["whole: each ends where a packet ends", "cut short, or unreadable from some byte on"];
        let said = |(count, ends): (usize, &str)| {
            (count > 0).then(|| format!("{}: {ends}", Counted(count as u64, "other")))
        };
        self.others.into_iter().zip(ENDS).filter_map(said)
    }
}

/// Whether a shell takes a name as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+:,@".contains(letter))
}

/// The signs of iWARP outside the connections that could be followed, in brackets after its name.
pub const IWARP: &str = "TCP port 20049 or an MPA start frame; of no connection that could be followed";

/// That a capture holds no packet of RoCE or InfiniBand, and what it holds in their place: half a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingDecoded {
    /// Packets of iWARP.
    pub iwarp: u64,
    /// A snap length cut some.
    pub is_cut: bool,
}

impl fmt::Display for NothingDecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no RoCE packet")?;
        match self.iwarp {
            0 => Ok(()),
            packets => {
                let are = if packets == 1 { "is" } else { "are" };
                write!(f, "; {} {are} of iWARP ({IWARP})", Counted(packets, "packet"))?;
                match self.is_cut {
                    true => f.write_str("; a snap length cut packets: start frames and FPDUs need 20 bytes behind the TCP header"),
                    false => Ok(()),
                }
            }
        }
    }
}

/// What stands above the text about a capture: `Capture mount.pcap`, `Capture of 3 files`.
pub struct Heading<'a>(pub &'a Ending);

impl fmt::Display for Heading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.files.as_slice() {
            [file] => write!(f, "Capture {}", Plain(file.title())),
            files => write!(f, "Capture of {} files", files.len()),
        }
    }
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
