//! The files that a capture is written to, one after the other.

use anyhow::{Context as _, Result};
use rdmascope_analysis::units::Counted;
use rdmascope_capture_agent::framing::Statistics;
use rdmascope_capture_agent::new_file::{self, Unfinished};
use rdmascope_capture_agent::{
    Compression, Compressor, Description, LiveSource, NoteKind, PcapngWriter, Section, now,
};
use rdmascope_dissector::record::{Record, Time};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What was written is handed on this often at least; and what is compressed not more often, because each time costs some bytes.
const FLUSHING: Duration = Duration::from_secs(1);

/// A file, and the bytes that were written to it.
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

/// The file that is written.
pub(super) struct Current {
    writer: PcapngWriter<Compressor<Sink>>,
    path: PathBuf,
    is_compressed: bool,
    pub(super) since: Instant,
    flushed: Instant,
    /// Packets that can be decoded whatever happens next: those that a compressor was flushed
    /// after.
    kept: u64,
    start: Time,
}

impl Current {
    /// Writes a packet.
    pub(super) fn packet(&mut self, record: &Record<'_>) -> Result<()> {
        let written = self.writer.packet(record, "");
        self.checked(written)
    }

    /// Writes what is no packet.
    #[cfg(target_os = "linux")]
    pub(super) fn note(&mut self, kind: NoteKind, bytes: &[u8]) -> Result<()> {
        let written = self.writer.note(kind, bytes);
        self.checked(written)
    }

    /// Hands on what was written so far, where that is due: when packets pause, and when the last time is long ago.
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

    /// Its bytes so far.
    pub(super) fn written(&self) -> u64 {
        match self.is_compressed {
            true => self.writer.get_ref().get_ref().written,
            false => self.writer.written(),
        }
    }

    /// Writes the counts so far of the capture, and ends the file. The kernel counts all interfaces together: where there are several, their sum stands
    /// with the first. What is not counted is left out, and what is known of it all the same is a comment.
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

    /// Reports a failure with the file and the packets that it keeps. A file that took a part of a
    /// packet, because the disk is full, is cut after the last whole one.
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

/// Why a file cannot be written any more, and how many packets it keeps.
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

/// The files that are written, one after the other.
pub(super) struct Files<'a> {
    /// What the person named.
    pub(super) path: &'a Path,
    /// There may be more than one.
    pub(super) rotates: bool,
    /// So many are kept.
    pub(super) keep: Option<u64>,
    /// How they are compressed.
    pub(super) compression: Option<Compression>,
    /// What each begins with.
    pub(super) interfaces: Vec<Description>,
    /// The system that it is made on.
    pub(super) system: String,
    /// What is said of it.
    pub(super) comments: Vec<String>,
    /// Those that are kept.
    pub(super) made: VecDeque<PathBuf>,
    /// Those that were begun.
    pub(super) number: u64,
    /// The connections of this host, as text.
    pub(super) inventory: String,
}

impl Files<'_> {
    /// The folder that they are in.
    #[cfg(target_os = "linux")]
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Begins the next file. One more than are kept: the oldest is removed.
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

/// Standard output past the buffer and the lock that the rest of the program has.
fn unlocked() -> Result<File> {
    use std::os::fd::AsFd as _;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// `name-00001.pcapng` of `name.pcapng`, and so of `name.pcapng.gz`.
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
    fn files_that_rotate_are_numbered() {
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
