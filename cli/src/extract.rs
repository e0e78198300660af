//! `rdmascope extract`: the bytes of one transaction, or the files that NFS transferred.

mod folder;
mod one;

use crate::confine::Paths;
use crate::input::{Input, listen};
use crate::mode::NewFiles;
use crate::output::{Failure, Format, Out, Output, Status, notify, report_ending, warn_of_left_out_data};
use anyhow::{Context, Result, bail};
use clap::Args;
use folder::Folder;
use one::One;
use rdmascope_analysis::extract::{Extracted, Files, Limits, Summary};
use rdmascope_analysis::units::{Bytes, Counted, Number};
use rdmascope_capture_agent::temporary;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Setting, TextTable};
use rdmascope_present::columns::{EXTRACTED, EXTRACTION};
use rdmascope_present::json::write_line;
use rdmascope_present::text::Style;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope extract mount.pcap --files out
  rdmascope extract mount.pcap --files out --format jsonl | jq 'select(.conflicts > 0)'
  rdmascope extract mount.pcap --xid 0x1a2b3c4d --output call.bin
  rdmascope extract mount.pcap --frame 12 --reply --output reply.bin
  rdmascope extract mount.pcap --transaction 7 --part payload | md5sum
  rdmascope extract mount.pcap --transaction 7 --part read-chunk:0 --output chunk.bin

Exit status:
  0  Success. Holes in files are not a failure: the index lists them.
  2  Failure, or bytes of the transaction are missing from the capture; zeros
     are written for them.";

/// The arguments of `extract`.
#[derive(Args, Debug)]
pub(crate) struct Extract {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    pub(crate) new_files: NewFiles,
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    files: FilesArguments,
}

impl Extract {
    /// Adds the files besides the input that the command works on.
    pub(crate) fn add_to(&self, paths: &mut Paths) {
        if let Some(folder) = &self.files.folder {
            // File data is spooled to it.
            paths.temporary(1);
            paths.write(folder);
        }
        if let Some(file) = self.one.output.as_ref().filter(|file| *file != Path::new("-")) {
            paths.write(file);
        }
    }
}

/// The options for files.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct FilesArguments {
    /// Assemble the data of NFS READ and WRITE in this new or empty folder, one file per file
    /// handle
    ///
    /// The name of a file is the last one in a LOOKUP, OPEN or CREATE, or is derived from its
    /// handle; unsafe characters are replaced. Later WRITEs and READs replace earlier data;
    /// DEALLOCATE leaves zeros, and a size set by SETATTR, CREATE or OPEN truncates the file. Other
    /// changes, such as COPY, are not tracked. `index.jsonl` lists the files with their handles,
    /// sizes, digests, holes, truncations, and the ranges missing from the capture.
    #[arg(long = "files", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Maximum size of a file: 512M, 4G; data beyond it is omitted
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size, requires = "folder")]
    max_file_size: u64,
    /// Maximum total size, holes included; files that would exceed it are omitted
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = parse_size, requires = "folder")]
    max_total_size: u64,
    /// Maximum number of files; further files are omitted
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "folder")]
    max_files: usize,
}

/// Runs the command.
pub(crate) fn run(command: &mut Extract, style: Style, out: &mut Out) -> Result<Status, Failure> {
    match command.files.folder.clone() {
        Some(path) => extract_files(command, &path, style, out),
        None => one::run(&mut command.input, &command.one, out),
    }
}

fn extract_files(command: &Extract, path: &Path, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let arguments = &command.files;
    let limits = Limits { file_size: arguments.max_file_size, files: arguments.max_files };
    // Check the folder before the long reading, but create it only when there are files for it.
    Folder::check(path)?;
    let mut files = Files::new(limits, temporary::file().context("cannot create a temporary file")?);
    let config = Config { keep: Keep { steps: false, contents: true }, ..Config::default() };
    let read = listen(&command.input, config, |event, _| match event {
        Event::Transaction(transaction) => files.take(transaction),
        _ => Ok(()),
    });
    let ending = read.map_err(|failure| failure.about("a temporary file"))?;
    let table = TextTable::new(&EXTRACTED);
    let mut listing = Listing { format: command.output.format, style, table, out };
    listing.head()?;
    let mut listed = Ok(());
    let written = write_files(&mut files, path, arguments.max_total_size, |extracted| {
        if listed.is_ok() {
            listed = listing.file(extracted);
        }
    });
    listed?;
    listing.summary(&written?, path)?;
    warn_of_left_out_data(&ending, out)?;
    Ok(report_ending(&ending, out)?)
}

/// Writes the files and the index, and shows each file.
fn write_files(
    files: &mut Files<File>,
    path: &Path,
    most: u64,
    mut show: impl FnMut(&Extracted<'_>),
) -> Result<Summary> {
    let mut folder = Folder::open(path)?;
    let mut index = folder.create_index()?;
    let mut summary = Summary { left_out: files.left_out, ..Summary::default() };
    for found in core::mem::take(&mut files.found) {
        let lacking = found.contents.lacking();
        let name = files.names.get(&found.key).map(Vec::as_slice);
        let mut extracted = Extracted { found: &found, name, path: None, digests: None, lacking };
        let size = found.contents.size();
        if size <= most - summary.bytes {
            let hash = folder::short_hash(&found.key.server.to_string(), &found.key.handle);
            let name = name.and_then(folder::safe_name).unwrap_or_else(|| format!("handle-{hash}"));
            let (name, file) = folder.create(&name, &hash)?;
            let written = folder::write(file, &found.contents, &mut files.log);
            let digests = written.with_context(|| path.join(&name).display().to_string())?;
            // Omitted data would be part of the digest.
            extracted.digests = digests.filter(|_| found.left_out == 0);
            extracted.path = Some(name);
            summary.files += 1;
            summary.bytes += size;
        } else {
            summary.files_beyond_total += 1;
        }
        let line = write_line(&mut index, &EXTRACTED.of(&extracted));
        line.with_context(|| path.join(folder::INDEX).display().to_string())?;
        show(&extracted);
    }
    let line = write_line(&mut index, &EXTRACTION.of(&summary)).and_then(|()| index.flush());
    line.with_context(|| path.join(folder::INDEX).display().to_string())?;
    folder.finish()?;
    Ok(summary)
}

/// The listing on standard output.
struct Listing<'a> {
    format: Format,
    style: Style,
    table: TextTable<Extracted<'static>>,
    out: &'a mut Out,
}

impl Listing<'_> {
    fn head(&mut self) -> io::Result<()> {
        match self.format {
            Format::Text => self.table.write_heading(self.style, self.out),
            Format::Jsonl => Ok(()),
        }
    }

    fn file(&mut self, extracted: &Extracted<'_>) -> io::Result<()> {
        let Listing { format, style, table, out } = self;
        match format {
            Format::Text => {
                table.write_row(extracted, Setting { start: Time::default(), style: *style }, out)
            }
            Format::Jsonl => write_line(out, &EXTRACTED.of(extracted)),
        }
    }

    /// Writes the totals, and reports omitted files.
    fn summary(&mut self, summary: &Summary, path: &Path) -> io::Result<()> {
        let Listing { format, out, .. } = self;
        match format {
            Format::Jsonl => write_line(out, &EXTRACTION.of(summary))?,
            Format::Text => {
                let (files, bytes) = (Counted(summary.files, "file"), Bytes(summary.bytes));
                writeln!(out, "{files}, {bytes}, in {}", path.display())?;
            }
        }
        out.flush()?;
        if summary.files == 0 && summary.left_out().next().is_none() {
            notify(format_args!("no files: the capture has no successful NFS READ or WRITE"));
        }
        for (count, reason) in summary.left_out() {
            notify(format_args!("omitted: {} {reason}", Number(count)));
        }
        Ok(())
    }
}

/// Parses a number of bytes: `4096`, `512K`, `1G`, in powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim_end_matches(['i', 'B', 'b']).to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => bail!("expected a number of bytes, or a number followed by K, M, G or T"),
    };
    let number: u64 = digits.parse().context("expected a number of bytes such as 512M")?;
    number.checked_mul(unit).context("the number is too large")
}
