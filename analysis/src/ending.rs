//! How reading a capture ended, apart from its contents.

use crate::events::{EventFilter, SessionEvent};
use crate::one_capture::{Apart, OneCapture};
use crate::units::{Counted, Number, Plain, is_hidden, quoted};
use core::fmt;
pub use rdmascope_capture_agent::{Cut, FileEnding};
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::protocol::Traffic;
use rdmascope_dissector::record::Time;
use std::path::Path;

/// The result of reading, apart from the dissector's events.
#[derive(Debug, Default)]
pub struct Ending {
    /// The engine's counters.
    pub totals: Totals,
    /// The time stamp of the first packet. Later ones may have earlier times.
    pub first: Option<Time>,
    /// How each file ended, in the order in which they were given.
    pub files: Vec<FileEnding>,
    /// The UDP port that was decoded as RoCEv2.
    pub port: u16,
    /// The files that share connections.
    pub one_capture: OneCapture,
    /// The selected transactions; `None` if all were selected.
    pub chosen: Option<Chosen>,
    /// The arguments with which another command reads the same capture; `None` if it cannot be
    /// read again, or if its names cannot be printed.
    pub input: Option<String>,
}

/// A selection of the capture's transactions. Counts of packets, files and the whole capture do not
/// depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Transactions selected.
    pub transactions: u64,
    /// Transactions in the capture.
    pub of: u64,
    /// Connections of the selected transactions.
    pub connections: u64,
    /// The events to show.
    pub events: EventFilter,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (transactions, of) = (Number(self.transactions), Counted(self.of, "transaction"));
        write!(f, "{transactions} of {of}, on {}", Counted(self.connections, "connection"))
    }
}

impl Ending {
    /// The time from which others are counted: that of the first packet.
    pub fn start(&self) -> Option<Time> {
        self.first.or(self.totals.span.map(|(first, _)| first))
    }

    /// Whether this event is selected.
    pub fn has_event(&self, event: &SessionEvent) -> bool {
        let matches = |chosen: &Chosen| chosen.events.matches(event, self.start().unwrap_or_default());
        self.chosen.as_ref().is_none_or(matches)
    }

    /// Packets that were dropped during capture, according to the files.
    pub fn dropped(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.dropped()))
    }

    /// The reason why several files may be unrelated captures: they share no connection, or they
    /// are further apart in time than they are long. `None` if neither is the case.
    pub fn apart(&self) -> Option<Apart<'_>> {
        Apart::of(&self.files, &self.one_capture)
    }

    /// The [arguments of the same capture](Ending::input), or a placeholder.
    pub fn input(&self) -> &str {
        self.input.as_deref().unwrap_or("FILE")
    }

    /// The reason why nothing can be decoded: the capture contains no RoCE or InfiniBand packet and
    /// no iWARP connection. `None` if it contains any.
    pub fn nothing_decoded(&self) -> Option<NothingDecoded> {
        let Totals { packets, segments, traffic, .. } = &self.totals;
        let is_cut = self.totals.cut_records > 0;
        (*packets == 0 && *segments == 0).then(|| NothingDecoded {
            iwarp: traffic.of(Traffic::Iwarp),
            most: traffic.iter().max_by_key(|(_, count)| *count),
            is_cut,
        })
    }

    /// How the files ended. A few files are all listed; of a ring, only the incomplete ones.
    pub fn listed_files(&self) -> ListedFiles<'_> {
        const FEW: usize = 16;
        let is_listed = |file: &&FileEnding| self.files.len() <= FEW || !file.is_complete();
        let listed: Vec<_> = self.files.iter().filter(is_listed).take(FEW).collect();
        let broken = self.files.iter().filter(|file| !file.is_complete()).count();
        let others = self.files.len() - listed.len();
        let broken = broken - listed.iter().filter(|file| !file.is_complete()).count();
        ListedFiles { listed, others: [others - broken, broken] }
    }

    /// The files that were not read to their end: the name of each, and how it ended.
    pub fn incomplete_files(&self) -> impl Iterator<Item = String> {
        let incomplete = self.files.iter().filter(|file| !file.is_complete());
        incomplete.map(|file| format!("{}: {}", file.title(), FileEnd(file)))
    }

    /// The probable reason why packets were captured twice.
    pub fn reason_for_copies(&self) -> &'static str {
        let mut interfaces = self.files.iter().flat_map(|file| &file.interfaces).peekable();
        let is_loopback =
            interfaces.peek().is_some() && interfaces.all(|it| it.name.as_deref() == Some("lo"));
        match is_loopback {
            _ if self.totals.clocks_differ.is_some() => {
                "two capture points whose clocks differ; --with FILE aligns them"
            }
            true => "the loopback device lo shows a packet when it is sent and when it is received",
            false => "two capture points, a mirror, or duplicated by the network",
        }
    }

    /// Whether every file could be read to its end.
    pub fn is_readable(&self) -> bool {
        self.files.iter().all(|file| file.trouble.is_none())
    }
}

/// How the files of a capture ended, split into those listed one by one and the others.
#[derive(Debug)]
pub struct ListedFiles<'a> {
    /// Files listed one by one.
    pub listed: Vec<&'a FileEnding>,
    /// The number of other files that are complete, and of those that are not.
    pub others: [usize; 2],
}

impl ListedFiles<'_> {
    /// Returns a text for each count of other files that is not zero.
    pub fn others_text(&self) -> impl Iterator<Item = String> {
        const ENDS: [&str; 2] = ["complete", "cut short, or unreadable after some byte"];
        let text = |(count, ends): (usize, &str)| {
            (count > 0).then(|| format!("{}: {ends}", Counted(count as u64, "other")))
        };
        self.others.into_iter().zip(ENDS).filter_map(text)
    }
}

/// The names of files as arguments of a command to copy, quoted for a shell; `None` for many files,
/// standard input, and names that cannot be printed.
pub fn arguments(files: &[impl AsRef<Path>]) -> Option<String> {
    const MOST: usize = 4;
    let names: Option<Vec<String>> = files.iter().map(|file| argument(file.as_ref().to_str()?)).collect();
    names.filter(|names| names.len() <= MOST).map(|names| names.join(" "))
}

fn argument(name: &str) -> Option<String> {
    let is_printed = name != "-" && !name.chars().any(is_hidden);
    // Without the folder, it would be an option.
    let folder = if name.starts_with('-') { "./" } else { "" };
    is_printed.then(|| quoted(&format!("{folder}{name}")))
}

/// The explanation of iWARP in lists of other traffic: TCP handshakes, and connections that the engine
/// does not follow.
pub const IWARP: &str =
    "TCP port 20049 or an MPA start frame: handshakes, and connections that were not followed";

/// The statement that a capture contains no RoCE or InfiniBand packet, with the traffic that it
/// contains instead. It is a clause, not a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingDecoded {
    /// iWARP packets.
    pub iwarp: u64,
    /// The most frequent traffic, with its packets.
    pub most: Option<(Traffic, u64)>,
    /// Whether the snap length cut packets.
    pub is_cut: bool,
}

impl fmt::Display for NothingDecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no RoCE packets")?;
        match self.iwarp {
            0 => match self.most {
                Some((traffic, packets)) => {
                    write!(f, "; the most frequent traffic is {traffic}: {}", Counted(packets, "packet"))
                }
                None => Ok(()),
            },
            packets => {
                let are = if packets == 1 { "is" } else { "are" };
                write!(f, "; {} {are} iWARP ({IWARP})", Counted(packets, "packet"))?;
                match self.is_cut {
                    true => f.write_str("; the snap length cut packets: start frames and FPDUs need 20 bytes after the TCP header"),
                    false => Ok(()),
                }
            }
        }
    }
}

/// The heading above the text about a capture: `Capture mount.pcap`, `Capture of 3 files`.
pub struct Heading<'a>(pub &'a Ending);

impl fmt::Display for Heading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.files.as_slice() {
            [file] => write!(f, "Capture {}", Plain(file.title())),
            files => write!(f, "Capture of {} files", files.len()),
        }
    }
}

/// Where a file was cut short, as text.
pub struct CutShort<'a>(pub &'a FileEnding, pub Cut);

impl fmt::Display for CutShort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CutShort(file, Cut { offset, .. }) = self;
        write!(
            f,
            "cut short at byte {offset}{}",
            if file.is_compressed { " after decompression" } else { "" }
        )
    }
}

/// How a file ended, as text.
pub struct FileEnd<'a>(pub &'a FileEnding);

impl fmt::Display for FileEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.trouble, self.0.cut) {
            (Some(trouble), _) => write!(f, "unreadable from here: {}", Plain(trouble)),
            (None, Some(cut)) => write!(
                f,
                "{}: {} needed, {} available; analyzed up to there",
                CutShort(self.0, cut),
                Counted(cut.needed, "byte"),
                Number(cut.available)
            ),
            (None, None) => f.write_str("complete"),
        }
    }
}
