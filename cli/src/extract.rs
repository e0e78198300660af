//! `rdmascope extract`: the bytes of one transaction, or of the files that NFS moved.

mod contents;
mod files;
mod folder;
mod json;
mod one;

use crate::input::{Input, read};
use crate::output::{Format, Out, Output, Status, complain, complain_of_troubles, tell, warn_of_cuts};
use files::LeftOut;

use anyhow::{Context, Result, bail};
use clap::Args;
use contents::Lacking;
use files::{Files, Found, Limits};
use folder::{Digests, Folder};
use json::{ExtractionLine, FileLine};
use one::Choice;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::exchange::Keep;
use rdmascope_present::json::write_line;
use rdmascope_present::text::{Bytes, Counted, Number, Style};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope extract mount.pcap --files out
  rdmascope extract mount.pcap --files out --format jsonl | jq 'select(.conflicts > 0)'
  rdmascope extract mount.pcap --xid 0x1a2b3c4d --out call.bin
  rdmascope extract mount.pcap --frame 12 --reply --out reply.bin
  rdmascope extract mount.pcap --transaction 7 --part payload | md5sum
  rdmascope extract mount.pcap --transaction 7 --part read-chunk:0 --out chunk.bin

Exit status:
  0  Success. Holes in files are not a failure: the index lists them.
  2  Failure, or bytes of the transaction are missing from the capture; zeros are written for them.";

/// The arguments of `extract`.
#[derive(Args, Debug)]
pub(crate) struct Extract {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    files: FilesArguments,
}

/// The arguments that concern files.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct FilesArguments {
    /// Assemble the data that NFS READ and WRITE transferred, one file for each file handle, in this new or empty folder
    ///
    /// A file gets the name that LOOKUP, OPEN or CREATE last showed, or else a name made from its handle; unsafe characters are
    /// replaced. Later WRITEs replace earlier data, and READ data fills ranges that were not written. Other changes of files,
    /// such as truncation or COPY, are not tracked. `index.jsonl` lists the files with their handles, sizes, digests,
    /// holes, and the ranges that the capture lacks.
    #[arg(long = "files", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Leave out the data of a file beyond this size: 512M, 4G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size, requires = "folder")]
    max_file_size: u64,
    /// Leave out files that would make the total size, holes included, exceed this
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = parse_size, requires = "folder")]
    max_total_size: u64,
    /// Leave out files beyond this number
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "folder")]
    max_files: usize,
}

/// A file that was put together.
pub(crate) struct Extracted<'a> {
    pub(crate) found: &'a Found,
    /// The name that the capture shows.
    pub(crate) name: Option<&'a [u8]>,
    /// The file in the folder; `None` where it is left out.
    pub(crate) path: Option<String>,
    /// Where nothing is missing.
    pub(crate) digests: Option<Digests>,
    pub(crate) lacking: Lacking,
}

/// What all came to.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) files: u64,
    /// The sum of their sizes.
    pub(crate) bytes: u64,
    pub(crate) left_out: LeftOut,
    /// Files left out because all together would have been too large.
    pub(crate) files_beyond_total: u64,
}

/// Runs the command.
pub(crate) fn run(command: &mut Extract, style: Style, out: &mut Out) -> io::Result<Status> {
    match command.files.folder.clone() {
        Some(path) => extract_files(command, &path, style, out),
        None => one::run(&mut command.input, &command.choice, out),
    }
}

fn extract_files(command: &Extract, path: &Path, style: Style, out: &mut Out) -> io::Result<Status> {
    let arguments = &command.files;
    let limits = Limits { file_size: arguments.max_file_size, files: arguments.max_files };
    // Before anything is read, because that may take long; it is made only when there is something to put in it.
    let prepared =
        Folder::check(path).and_then(|()| Files::new(limits).context("a temporary file cannot be made"));
    let mut files = match prepared {
        Ok(files) => files,
        Err(error) => return complain(&error, out),
    };
    let config = Config { keep: Keep { steps: false, contents: true }, ..Config::default() };
    let read = read(&command.input, config, &mut files);
    if let Some(trouble) = files.trouble.take() {
        return complain(&anyhow::Error::new(trouble).context("a temporary file"), out);
    }
    let ending = match read? {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    let mut listing = Listing { format: command.output.format, style, out };
    listing.head()?;
    let mut listed = Ok(());
    let written = write_files(&mut files, path, arguments.max_total_size, |extracted| {
        if listed.is_ok() {
            listed = listing.file(extracted);
        }
    });
    listed?;
    let summary = match written {
        Ok(summary) => summary,
        Err(error) => return complain(&error, out),
    };
    listing.summary(&summary, path)?;
    warn_of_cuts(&ending, out)?;
    complain_of_troubles(&ending, out)
}

/// Writes the files and the index, and shows each.
fn write_files(
    files: &mut Files,
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
            // What was left out would have been part of it.
            extracted.digests = digests.filter(|_| found.left_out == 0);
            extracted.path = Some(name);
            summary.files += 1;
            summary.bytes += size;
        } else {
            summary.files_beyond_total += 1;
        }
        let line = write_line(&mut index, &FileLine::from(&extracted));
        line.with_context(|| path.join(folder::INDEX).display().to_string())?;
        show(&extracted);
    }
    let line = write_line(&mut index, &ExtractionLine::from(&summary)).and_then(|()| index.flush());
    line.with_context(|| path.join(folder::INDEX).display().to_string())?;
    Ok(summary)
}

/// What standard output shows.
struct Listing<'a> {
    format: Format,
    style: Style,
    out: &'a mut Out,
}

impl Listing<'_> {
    fn head(&mut self) -> io::Result<()> {
        let Listing { format, style, out } = self;
        if *format == Format::Jsonl {
            return Ok(());
        }
        let line = format!(
            "{:>10} {:>10} {:>10} {:>10} {:>10} {:>9}  {}",
            "size", "written", "read", "holes", "missing", "conflicts", "file"
        );
        writeln!(out, "{}", style.bold(line))
    }

    fn file(&mut self, extracted: &Extracted<'_>) -> io::Result<()> {
        let Listing { format, style, out } = self;
        if *format == Format::Jsonl {
            return write_line(out, &FileLine::from(extracted));
        }
        let Extracted { found, path, lacking, .. } = extracted;
        let missing = lacking.missing_bytes();
        write!(
            out,
            "{:>10} {:>10} {:>10} {:>10} {} {}  ",
            Bytes(found.contents.size()),
            Bytes(found.bytes_written),
            Bytes(found.bytes_read),
            Bytes(lacking.hole_bytes()),
            style.red_if(missing > 0, format_args!("{:>10}", Bytes(missing))),
            style.red_if(found.conflicts > 0, format_args!("{:>9}", Number(found.conflicts))),
        )?;
        match path {
            Some(path) => writeln!(out, "{path}"),
            None => writeln!(out, "{}", style.yellow("left out")),
        }
    }

    /// What all came to, and what was left out.
    fn summary(&mut self, summary: &Summary, path: &Path) -> io::Result<()> {
        let Listing { format, out, .. } = self;
        match format {
            Format::Jsonl => write_line(out, &ExtractionLine::from(summary))?,
            Format::Text => {
                let (files, bytes) = (Counted(summary.files, "file"), Bytes(summary.bytes));
                writeln!(out, "{files}, {bytes}, in {}", path.display())?;
            }
        }
        out.flush()?;
        let LeftOut { bytes_beyond_size, of_further_files, unclear, scattered } = summary.left_out;
        for (count, what) in [
            (bytes_beyond_size, "bytes lie behind the largest size of a file: see --max-file-size"),
            (
                summary.files_beyond_total,
                "files would have made all together too large: see --max-total-size",
            ),
            (
                of_further_files,
                "READs and WRITEs are of files beyond the most that there may be: see --max-files",
            ),
            (unclear, "READs and WRITEs show no file handle, offset or count in this capture"),
            (scattered, "READs and WRITEs are too scattered to keep track of"),
        ] {
            if count > 0 {
                tell(format_args!("left out: {} {what}", Number(count)));
            }
        }
        Ok(())
    }
}

/// A number of bytes: `4096`, `512K`, `1G`, in powers of 1024.
fn parse_size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim_end_matches(['i', 'B', 'b']).to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => bail!("bytes are expected, or K, M, G or T behind a number"),
    };
    let number: u64 = digits.parse().context("a number of bytes is expected, as in 512M")?;
    number.checked_mul(unit).context("the number is too large")
}
