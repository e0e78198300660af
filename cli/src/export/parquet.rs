//! `export parquet`: tables for DuckDB, Polars, Spark and other readers of Parquet. docs/parquet.md
//! describes them.

mod captures;
mod cells;
mod partition;
mod rings;
mod tables;
mod writer;

use crate::atomic_file::Staging;
use crate::input::{self, Input};
use crate::mode::NewFiles;
use crate::output::{self, Failure, Out, Status};
use crate::paths;
use crate::progress::Progress;
use crate::slice::{Records, SliceArguments};
use anyhow::{Context, Result, anyhow};
use captures::Job;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use core::cmp::Reverse;
use core::sync::atomic::{AtomicUsize, Ordering};
use partition::Partition;
use rdmascope_analysis::ending::Ending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use tables::{About, Writers};

#[derive(Args, Debug)]
#[command(mut_arg("files", |files| files
    .help("Capture files, folders of captures, or `-` for standard input; each file or ring of rotated files is a capture")
    .long_help(None)))]
pub(super) struct Parquet {
    #[command(flatten)]
    pub(super) input: Input,
    /// Folder for the tables; it is created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) new_files: NewFiles,
    /// Name of the capture in the tables, for all files together [default: one capture per file,
    /// named after the file]
    ///
    /// An earlier export of a capture with this name is replaced. Files named as a ring of rotated
    /// files are read one after the other, in the order of their first packets; other files are
    /// merged by time. The option is required for standard input.
    ///
    /// Without it, each file is a separate capture, and so is each ring, named without the numbers
    /// of its files: `mount.pcap`, `mount.pcap1` and so on (tcpdump -C and -W),
    /// `mount_00001_20251121093000.pcapng` (dumpcap -b) and `mount-00001.pcapng` (rdmascope). They
    /// are exported on all cores, the largest first.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    capture: Option<String>,
    /// Site of the capture, such as a host name; tables are then partitioned by day, site and
    /// capture
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    site: Option<String>,
    /// Treat each folder below the given folders as a site with that name and its captures
    #[arg(long, conflicts_with_all = ["site", "capture"])]
    sites: bool,
    /// Read nothing and write only a row of `captures` with REASON as its error, for a capture that
    /// could not be fetched
    #[arg(long, value_name = "REASON", requires = "capture")]
    unread: Option<String>,
    #[command(flatten)]
    slice: SliceArguments,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export parquet mount.pcap --output tables
  rdmascope export parquet captures/ --output tables
  rdmascope export parquet captures/ --site node17 --output dataset
  rdmascope export parquet hosts/ --sites --output dataset
  rdmascope export parquet mount.pcap0 mount.pcap1 --capture mount --output tables
  tcpdump -i eth0 -w - udp port 4791 | rdmascope export parquet - --capture today --output tables";

/// Writes the tables.
pub(super) fn run(command: &Parquet, out: &mut Out) -> Result<Status, Failure> {
    if command.output == Path::new("-") {
        return Err(anyhow!("Parquet is written to a folder; use --output DIR").into());
    }
    let mut jobs = captures::jobs(command)?;
    if let [job] = jobs.as_slice() {
        let ending = write(command, job, job.site.is_some(), None)?;
        // With --unread nothing was read, so there is nothing to report.
        return Ok(if command.unread.is_some() {
            Status::Done
        } else {
            output::report_ending(&ending, out)?
        });
    }
    // Start with the largest: a large capture started late would keep a single core busy at the
    // end.
    jobs.sort_by_key(|job| Reverse(job.size));
    Ok(write_all(command, &jobs, out)?)
}

/// Writes the tables of several captures in parallel. A capture that cannot be read is reported and
/// does not stop the others.
fn write_all(command: &Parquet, jobs: &[Job], out: &mut Out) -> io::Result<Status> {
    let progress = Progress::of_captures(jobs.iter().filter_map(|job| job.size).sum(), command.input.quiet);
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get()).min(jobs.len());
    let next = AtomicUsize::new(0);
    let (next, progress) = (&next, &progress);
    let mut worst = Status::Done;
    thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        for _ in 0..threads {
            let done = done.clone();
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver is gone: start no further capture.
                    if done.send(write(command, job, true, Some(progress))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        for result in results {
            let written = progress.suspend(|| match result {
                Ok(ending) => {
                    output::warn_of_cuts(&ending, out)?;
                    output::complain_of_troubles(&ending, out)
                }
                Err(error) => output::complain(&error, out),
            });
            worst = worst.max(written?);
        }
        Ok(worst)
    })
}

/// Writes the tables of a capture. It is an error if nothing can be read; with `is_row` the error
/// is also written as a row of `captures`.
fn write(command: &Parquet, job: &Job, is_row: bool, progress: Option<&Progress>) -> Result<Ending> {
    let output = &command.output;
    let cannot = || format!("{}: cannot be written to", output.display());
    let partition = Partition { capture: &job.name, site: job.site.as_deref() };
    partition.check(output)?;
    let about = |error: Option<String>| About {
        partition,
        output,
        files: job.file_names(),
        size: job.size,
        error: error.map(|error| job.without_folders(error)),
    };
    let read = match &command.unread {
        Some(reason) => Err(anyhow!("{reason}")),
        None => command.slice.of(&job.input, Records::Known),
    };
    let failed = |error: anyhow::Error| {
        if is_row || command.unread.is_some() {
            let staging = Staging::in_folder(output).with_context(cannot)?;
            let writers = Writers::create(&staging, Default::default()).with_context(cannot)?;
            writers.finish(None, staging, &about(Some(format!("{error:#}")))).with_context(cannot)?;
        }
        if command.unread.is_some() { Ok(Ending::default()) } else { Err(error) }
    };
    let (slice, captured) = match read {
        Ok(read) => read,
        Err(error) => return failed(error),
    };
    let input = captured.input();
    let staging = Staging::in_folder(output).with_context(cannot)?;
    let mut writers = Writers::create(&staging, slice).with_context(cannot)?;
    writers.paths = paths::follow(input);
    let ending = match input::read_within(input, &mut writers, progress) {
        Ok(ending) => ending,
        Err(Failure::Output(error)) => return Err(error).with_context(cannot),
        Err(Failure::Command(error)) => {
            drop(staging);
            return failed(error);
        }
    };
    let troubles = ending.files.iter().filter_map(|file| file.trouble.as_ref());
    let troubles: Vec<String> = troubles.map(|trouble| trouble.to_string()).collect();
    let about = about((!troubles.is_empty()).then(|| troubles.join("; ")));
    let about = About { files: job.names_of(&ending), ..about };
    writers.finish(Some(&ending), staging, &about).with_context(cannot)?;
    Ok(ending)
}

#[cfg(test)]
mod tests;
