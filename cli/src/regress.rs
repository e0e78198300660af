//! `rdmascope regress`: analyzes each capture in a folder and compares the results with the
//! expected ones.
//!
//! docs/regress.md describes the files. This module plans the work, performs it on two threads, and
//! shows the outcomes in the order of names.

mod found;
mod manifest;
mod perform;
mod plan;
mod show;

use crate::confine::Paths;
use crate::output::{Failure, Out, Output, Status};
use clap::Args;
use plan::Plan;
use rdmascope_dissector::frame;
use rdmascope_present::text::Style;
use show::Show;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Number of captures analyzed in parallel.
const THREADS: usize = 2;

/// Default number of differences shown per capture in text output.
const SHOWN: usize = 20;

/// The arguments of `regress`.
#[derive(Args, Debug)]
pub(crate) struct Regress {
    /// Folders of captures, searched recursively
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Write the results as the new expected results
    ///
    /// Review the changes before you commit them: `git diff`. Nothing is written for a capture that
    /// cannot be read completely.
    #[arg(long)]
    bless: bool,
    /// Only files whose path below DIR contains TEXT
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Maximum number of differences shown per capture [default: 20 as text, all as JSON Lines]
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Also list captures without differences, and the number of files that are not captures
    #[arg(short, long)]
    verbose: bool,
    /// UDP destination port of RoCEv2
    #[arg(long, value_name = "PORT", default_value_t = frame::Config::default().port)]
    port: u16,
    #[command(flatten)]
    output: Output,
}

impl Regress {
    /// Adds the files that it works on.
    pub(crate) fn add_to(&self, paths: &mut Paths) {
        paths.read(&self.folders);
        if self.bless {
            self.folders.iter().for_each(|folder| paths.write(folder));
        }
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope regress samples
  rdmascope regress captures --name nfs4.2 --limit 100
  rdmascope regress captures --bless && git diff captures
  rdmascope regress captures --format jsonl | jq 'select(.field)'

Exit status: 0 if all results are as expected; 1 if something differs or has no expectation;
2 if a file could not be read or written, does not match its MANIFEST entry, or if there are
no captures.";

/// Runs the command.
pub(crate) fn run(command: &Regress, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let plan = Plan::of(&command.folders, command.name.as_deref())?;
    let mut show = Show::new(command, style, out);
    let perform = |job: &plan::Job| perform::perform(job, command);
    in_order(&plan.jobs, perform, |outcome| show.outcome(&outcome))?;
    Ok(show.finish(plan.others)?)
}

/// Performs all jobs on a few threads, and passes on the outcomes in the order of the jobs.
fn in_order<J: Sync, R: Send>(
    jobs: &[J],
    perform: impl Fn(&J) -> R + Sync,
    mut take: impl FnMut(R) -> io::Result<()>,
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(jobs.len()) {
            let done = done.clone();
            let (next, perform) = (&next, &perform);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    // The receiver is gone: stop.
                    if done.send((index, perform(job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        let mut early = BTreeMap::new();
        let mut wanted = 0;
        for (index, result) in results {
            early.insert(index, result);
            while let Some(result) = early.remove(&wanted) {
                wanted += 1;
                take(result)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
