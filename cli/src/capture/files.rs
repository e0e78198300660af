//! The output files of a capture, one after the other.

use anyhow::{Context as _, Result};
use rdmascope_analysis::units::Counted;
use rdmascope_capture_agent::framing::Statistics;
use rdmascope_capture_agent::new_file::{self, Unfinished};
use rdmascope_capture_agent::{
    Compression, Compressor, Description, LiveSource, Note, NoteKind, PcapngWriter, Section, now,
};
use rdmascope_dissector::record::{Record, Time};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval at which written data is flushed, at the latest. Compressed data is not flushed
/// more often, because each flush costs some bytes.
const FLUSHING: Duration = Duration::from_secs(1);

/// A file that counts the bytes written to it.
struct Sink {
    file: File,
    written: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The file being written.
pub(super) struct Current {
    writer: PcapngWriter<Compressor<Sink>>,
    path: PathBuf,
    is_compressed: bool,
    pub(super) since: Instant,
    flushed: Instant,
    /// Packets that can be decoded even after a crash: those before the last flush of the
    /// compressor.
    kept: u64,
    start: Time,
}

impl Current {
    /// Writes a packet.
    pub(super) fn packet(&mut self, record: &Record<'_>) -> Result<()> {
        let written = self.writer.packet(record, "");
        self.checked(written)
    }

    /// Writes a note, which is not a packet.
    pub(super) fn note(&mut self, kind: NoteKind, bytes: &[u8]) -> Result<()> {
        let written = self.writer.note(kind, bytes);
        self.checked(written)
    }

    /// Flushes the file when packets pause, or when the last flush is [`FLUSHING`] ago.
    pub(super) fn flush(&mut self, is_pause: bool) -> Result<()> {
        if (self.is_compressed || !is_pause) && self.flushed.elapsed() < FLUSHING {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.flush_now()
    }

    fn flush_now(&mut self) -> Result<()> {
        let flushed = self.writer.flush();
        self.checked(flushed)?;
        self.kept = self.writer.packets_handed_on();
        Ok(())
    }

    /// The size of the file so far.
    pub(super) fn written(&self) -> u64 {
        match self.is_compressed {
            true => self.writer.get_ref().get_ref().written,
            false => self.writer.written(),
        }
    }

    /// Writes the final counts and finishes the file. The kernel counts all interfaces together, so
    /// with several interfaces the first has the sum. Unknown counts are omitted; the reason is
    /// stored as a comment.
    pub(super) fn end(mut self, live: &mut dyn LiveSource) -> Result<()> {
        let counts = live.counts()?;
        let lacks = live.lacks().join("; ");
        for interface in 0..live.names().len() as u32 {
            let mut statistics = Statistics::default();
            (statistics.start, statistics.end) = (Some(self.start), Some(now()));
            if interface == 0 {
                statistics.accepted = counts.accepted;
                statistics.dropped_by_system = counts.dropped;
                statistics.delivered = Some(counts.delivered);
            }
            let written = self.writer.statistics(
                interface,
                now(),
                &statistics,
                if interface == 0 { &lacks } else { "" },
            );
            self.checked(written)?;
        }
        self.flush_now()?;
        let (path, kept) = (self.path, self.kept);
        self.writer.finish().and_then(Compressor::finish).map_err(|error| failed(&path, error, kept))?;
        Ok(())
    }

    /// Adds the file name and the number of packets in the file to a write error. If the disk is
    /// full, the file is truncated after the last whole packet.
    fn checked(&self, written: io::Result<()>) -> Result<()> {
        let Err(error) = written else { return Ok(()) };
        if self.is_compressed {
            return Err(failed(&self.path, error, self.kept));
        }
        if self.path != Path::new("-") {
            let _as_it_is = self.writer.get_ref().get_ref().file.set_len(self.writer.handed_on());
        }
        Err(failed(&self.path, error, self.writer.packets_handed_on()))
    }
}

/// The error for a file that can no longer be written, with the number of packets kept.
fn failed(path: &Path, error: io::Error, kept: u64) -> anyhow::Error {
    let kind = error.kind();
    let error = io::Error::new(kind, format!("{error}; {} kept", Counted(kept, "packet")));
    anyhow::Error::new(error).context(cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard output: cannot be written".to_owned(),
        false => format!("{}: cannot be written", path.display()),
    }
}

/// The output files.
pub(super) struct Files<'a> {
    /// The path given with --write.
    pub(super) path: &'a Path,
    /// Whether the files rotate.
    pub(super) rotates: bool,
    /// Maximum number of files to keep.
    pub(super) keep: Option<u64>,
    /// The compression of the files.
    pub(super) compression: Option<Compression>,
    /// The interface descriptions at the start of each file.
    pub(super) interfaces: Vec<Description>,
    /// The operating system, for the section header.
    pub(super) system: String,
    /// The comments of the section header.
    pub(super) comments: Vec<String>,
    /// The files that exist, oldest first.
    pub(super) made: VecDeque<PathBuf>,
    /// The number of files started.
    pub(super) number: u64,
    /// The connections of this host, as text.
    pub(super) inventory: String,
}

impl Files<'_> {
    /// The folder of the files.
    #[cfg(target_os = "linux")]
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Remembers the connections of a note for the next files.
    pub(super) fn note(&mut self, note: &Note) {
        if note.kind == NoteKind::Inventory {
            self.inventory.push_str(&String::from_utf8_lossy(&note.bytes));
        }
    }

    /// Starts the next file, and deletes the oldest if there are too many.
    pub(super) fn begin(&mut self) -> Result<Current> {
        self.number += 1;
        let path = if self.rotates { numbered(self.path, self.number) } else { self.path.to_owned() };
        let context = || cannot_write(&path);
        let (file, unfinished) = if path == Path::new("-") {
            (unlocked()?, None)
        } else {
            let file = new_file::make_or_empty(&path).with_context(context)?;
            let unfinished = Unfinished::new(&path, &file);
            (file, Some(unfinished))
        };
        let out = Compressor::new(self.compression, Sink { file, written: 0 }).with_context(context)?;
        let section = Section {
            application: concat!("rdmascope ", env!("CARGO_PKG_VERSION")),
            system: &self.system,
            comments: &self.comments,
        };
        let mut writer = PcapngWriter::begin_section(out, &section).with_context(context)?;
        writer.describe(&self.interfaces).with_context(context)?;
        writer.note(NoteKind::Inventory, self.inventory.as_bytes()).with_context(context)?;
        writer.flush().with_context(context)?;
        if let Some(unfinished) = unfinished {
            unfinished.keep();
        }
        self.made.push_back(path.clone());
        if self.keep.is_some_and(|keep| self.made.len() as u64 > keep)
            && let Some(oldest) = self.made.pop_front()
        {
            fs::remove_file(&oldest).with_context(|| format!("{}: cannot be removed", oldest.display()))?;
        }
        let since = Instant::now();
        let is_compressed = self.compression.is_some();
        Ok(Current { writer, path, is_compressed, since, flushed: since, kept: 0, start: now() })
    }
}

/// Standard output without the buffer and the lock of the rest of the program.
fn unlocked() -> Result<File> {
    use std::os::fd::AsFd as _;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// The numbered name of a file: `name-00001.pcapng` for `name.pcapng`, and likewise for
/// `name.pcapng.gz`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let (path, compressed) = match (Compression::of_name(path), path.extension()) {
        (Some(_), Some(extension)) => (path.with_extension(""), Some(extension)),
        _ => (path.to_owned(), None),
    };
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("-{number:05}"));
    for extension in [path.extension(), compressed].into_iter().flatten() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_numbered() {
        for (path, expected) in [
            ("a/b.pcapng", "a/b-00007.pcapng"),
            ("b", "b-00007"),
            ("/x/b.c.pcapng", "/x/b.c-00007.pcapng"),
            ("a/b.pcapng.gz", "a/b-00007.pcapng.gz"),
            ("b.zst", "b-00007.zst"),
        ] {
            assert_eq!(numbered(Path::new(path), 7), Path::new(expected));
        }
    }
}
