//! `rdmascope export html`: a report in a single page that needs no network.
//!
//! The capture is read twice: once for the figures and to choose the transactions to draw, and once
//! for the packets and the bytes of these transactions. The numbers of connections, operations,
//! error kinds, intervals, ladders, arrows and fields are bounded, so the size of the page and the
//! memory use do not grow with the length of the capture.

mod capture_points;
mod charts;
mod connections;
mod fields;
mod findings;
mod gather;
mod kernel;
mod ladders;
mod page;
mod plot;
#[cfg(test)]
mod tests;
mod values;

use self::page::Page;
use super::FileArguments;
use crate::atomic_file::OutputFile;
use crate::input::{self, Audience, Input};
use crate::kernel_trace::{self, GatheredTraces};
use crate::output::{self, Failure, Out, Status};
use crate::slice::{Records, Slice, SliceArguments};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use fields::FieldLists;
use foldhash::fast::FixedState;
use gather::Gathered;
use maud::Markup;
use rdmascope_analysis::capture_points::EndToEnd;
use rdmascope_analysis::charts::Choice;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::findings::{ByFrame, Findings};
use rdmascope_analysis::kernel::{KernelTrace, TraceResults};
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_analysis::units::is_hidden;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::role::{Attributed, Role};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::ladder::Ladder;
use rdmascope_present::tables::transactions::Remarks;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::mem;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export html mount.pcap --output mount.html
  rdmascope export html mount.pcap0 mount.pcap1 --output mount.html --ladders 30
  rdmascope export html mount.pcap --kernel client.trace --output mount.html
  tcpdump -i eth0 -w - -c 100000 udp port 4791 | rdmascope export html - --output mount.html";

/// Default number of drawn transactions of each kind.
const LADDERS: u8 = 10;

/// The arguments of `export html`.
#[derive(Args, Debug)]
pub(super) struct Html {
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) file: FileArguments,
    /// Number of slowest transactions, and of failed transactions, to draw
    #[arg(long, value_name = "N", default_value_t = LADDERS, value_parser = clap::value_parser!(u8).range(..=100))]
    ladders: u8,
    /// Kernel trace of a client or server from the same time, as for `analyze`
    ///
    /// A trace in the capture itself (`capture --kernel`) is shown without this option.
    #[arg(long, value_name = "TRACE")]
    pub(super) kernel: Vec<PathBuf>,
    #[command(flatten)]
    slice: SliceArguments,
}

/// Writes the report.
pub(super) fn run(command: &mut Html, out: &mut Out) -> Result<Status, Failure> {
    let Html { input, file: FileArguments { output, .. }, ladders, kernel, slice } = command;
    let traces = kernel_trace::read(kernel)?;
    input.keep()?;
    let (slice, captured) = slice.of(input, Records::Known)?;
    let input = captured.input();
    let ending = if output == Path::new("-") {
        let (page, ending) = report(input, *ladders, traces, slice)?;
        out.write_all(page.as_bytes())?;
        ending
    } else {
        write_file(input, output, *ladders, traces, slice)?
    };
    Ok(output::report_ending(&ending, out)?)
}

fn write_file(
    input: &Input,
    output: &Path,
    ladders: u8,
    traces: Vec<KernelTrace>,
    slice: Slice,
) -> Result<Ending> {
    let cannot = || format!("{}: cannot be written", output.display());
    let mut file = OutputFile::create(output, &input.files, "--output")?;
    let (page, ending) = report(input, ladders, traces, slice)?;
    file.write_all(page.as_bytes()).and_then(|()| file.finish()).with_context(cannot)?;
    Ok(ending)
}

/// Writes the report of `input` to a file that must not exist yet.
pub(crate) fn page(input: &Input, path: &Path) -> Result<()> {
    ensure!(path.symlink_metadata().is_err(), "{}: file exists; choose another name", path.display());
    write_file(input, path, LADDERS, Vec::new(), Slice::default()).map(drop)
}

/// The page, and how the capture ended.
fn report(
    input: &Input,
    ladders: u8,
    traces: Vec<KernelTrace>,
    slice: Slice,
) -> Result<(String, Ending), Failure> {
    let chosen = slice.chosen();
    let mut gathered = Gathered::new(ladders.into(), slice);
    gathered.traces = GatheredTraces::new(traces);
    gathered.end_to_end = input.joint()?.map(|joint| EndToEnd::new(joint.tally()));
    let ending = Ending { chosen, ..input::read(input, &mut gathered)? };
    gathered.finish(&ending);
    let traces: Vec<TraceResults> = mem::take(&mut gathered.traces).join(&input.files[0], &ending).collect();
    let paths = mem::take(&mut gathered.paths);
    let mut drawing = Drawing::new(&gathered.charts.choice, &gathered.findings, paths);
    input::read(input, &mut drawing)?;
    let page = Page { gathered: &gathered, ending: &ending, drawing: &drawing, traces: &traces };
    Ok((printable(page.render().into_string()), ending))
}

/// Replaces invisible characters with U+FFFD: terminal controls and text direction marks, wherever
/// they are in a name. The page's own markup has none.
fn printable(page: String) -> String {
    let hidden = |character: char| is_hidden(character) && character != '\n';
    match page.contains(hidden) {
        true => page.replace(hidden, "\u{fffd}"),
        false => page,
    }
}

/// The ladders of the chosen transactions. The second reading adds acknowledgements and
/// retransmissions.
#[derive(Debug)]
struct Drawing<'a> {
    /// The ladders, by [`Transaction::begun`].
    ladders: HashMap<u64, (&'a Transaction, Ladder), FixedState>,
    /// The transactions, by number.
    order: Vec<&'a Transaction>,
    /// The findings by frame.
    findings: ByFrame<'a>,
    /// The paths of files at the current point of the second reading.
    paths: Paths,
    /// Remarks on the chosen transactions, by number.
    remarks: HashMap<u64, String, FixedState>,
    /// The fields of the chosen transactions, by number.
    fields: HashMap<u64, Markup, FixedState>,
    lists: FieldLists,
}

impl<'a> Drawing<'a> {
    fn new(choice: &'a Choice, findings: &'a Findings, mut paths: Paths) -> Drawing<'a> {
        paths.rewind();
        let broken = choice.broken().into_iter().map(|(transaction, _)| transaction);
        let ladders: HashMap<_, _, _> = broken
            .chain(choice.slowest())
            .map(|transaction| (transaction.begun, (transaction, Ladder::of(transaction))))
            .collect();
        let mut order: Vec<_> = ladders.values().map(|(transaction, _)| *transaction).collect();
        order.sort_unstable_by_key(|transaction| transaction.number);
        Drawing {
            ladders,
            order,
            findings: findings.by_frame(),
            paths,
            remarks: HashMap::default(),
            fields: HashMap::default(),
            lists: FieldLists::default(),
        }
    }

    fn packet(&mut self, attributed: &Attributed<'_>) {
        let is_evidence = self.findings.names(attributed.seen.frame);
        let is_part = matches!(attributed.role, Some(Role::Part(_)));
        let named = attributed.role.map(|role| role.of().begun).filter(|_| is_evidence || !is_part);
        let acknowledged = attributed.acknowledged.iter().map(|of| of.begun);
        let mut before = None;
        for begun in acknowledged.clone().chain(named) {
            // Steps of one transaction are adjacent.
            if before.replace(begun) == Some(begun) {
                continue;
            }
            let Some((transaction, ladder)) = self.ladders.get_mut(&begun) else { continue };
            if !is_part || acknowledged.clone().any(|of| of == begun) {
                ladder.see(transaction, attributed);
            }
            if is_evidence {
                ladder.mark(transaction, attributed);
            }
        }
    }

    /// The chosen transactions with their ladders, by number.
    fn drawn(&self) -> impl Iterator<Item = (&'a Transaction, &Ladder)> {
        self.order.iter().filter_map(|transaction| Some((*transaction, self.ladder(transaction)?)))
    }

    /// The remarks on a chosen transaction.
    fn remarks(&self, transaction: &Transaction) -> String {
        let remarks = self.remarks.get(&transaction.number).cloned();
        remarks.unwrap_or_else(|| Remarks(transaction.into()).to_string())
    }

    /// The fields of a chosen transaction.
    fn fields(&self, transaction: &Transaction) -> Option<&Markup> {
        self.fields.get(&transaction.number)
    }

    /// The ladder of a chosen transaction.
    fn ladder(&self, transaction: &Transaction) -> Option<&Ladder> {
        self.ladders.get(&transaction.begun).map(|(_, ladder)| ladder)
    }
}

impl Audience for Drawing<'_> {
    fn needs(&self) -> Config {
        let keep = Keep { steps: false, contents: true };
        Config { attribute: true, keep, ..Config::default() }
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        match event {
            Event::Attributed(attributed) => self.packet(attributed),
            Event::Transaction(transaction) => {
                let Drawing { ladders, paths, remarks, fields, lists, .. } = self;
                let row = TransactionRow::follow(transaction, paths);
                if ladders.contains_key(&transaction.begun) {
                    remarks.insert(transaction.number, Remarks(row).to_string());
                    fields.insert(transaction.number, lists.of(transaction));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
