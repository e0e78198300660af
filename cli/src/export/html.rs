//! `rdmascope export html`: a report in one page that opens without a network.
//!
//! The capture is read twice: once for the figures and to choose which transactions to draw, once more for the packets that answer
//! them and that were sent again.
//! Whatever the capture, there are at most so many connections, operations, kinds of errors, intervals, ladders and arrows in the
//! page; so neither it nor the memory that it takes grows with the length of the capture.

mod charts;
mod choice;
mod credits;
mod findings;
mod gather;
mod ladders;
mod page;
mod plot;
mod repeats;
#[cfg(test)]
mod tests;
mod timeline;

use super::output::OutputFile;
use crate::input::{self, Audience, Input};
use crate::output::{self, Out, Status};
use anyhow::{Context as _, Result};
use choice::Choice;
use clap::Args;
use foldhash::fast::FixedState;
use gather::Gathered;
use page::Page;
use rdmascope_dissector::attribution::{Attributed, Attribution, Role, Steps};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::ending::Ending;
use rdmascope_present::findings::{ByFrame, Findings};
use rdmascope_present::ladder::Ladder;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export html mount.pcap --output mount.html
  rdmascope export html mount.pcap0 mount.pcap1 --output mount.html --ladders 30
  tcpdump -i eth0 -w - -c 100000 udp port 4791 | rdmascope export html - --output mount.html";

/// What is written, and from what.
#[derive(Args, Debug)]
pub(super) struct Html {
    #[command(flatten)]
    input: Input,
    /// Output file, or `-` for standard output
    ///
    /// The file appears when it is complete, and replaces a file of that name.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Draw this many of the slowest transactions, and this many of the failed ones
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(..=100))]
    ladders: u8,
}

/// Writes the report.
pub(super) fn run(command: &mut Html, out: &mut Out) -> io::Result<Status> {
    let Html { input, output, ladders } = command;
    if let Err(error) = input.keep() {
        return output::complain(&error, out);
    }
    if output == Path::new("-") {
        return match report(input, *ladders)? {
            Ok((page, ending)) => {
                out.write_all(page.as_bytes())?;
                output::tell_of_ending(&ending, out)
            }
            Err(error) => output::complain(&error, out),
        };
    }
    match write_file(input, output, *ladders) {
        Ok(ending) => output::tell_of_ending(&ending, out),
        Err(error) => output::complain(&error, out),
    }
}

fn write_file(input: &Input, output: &Path, ladders: u8) -> Result<Ending> {
    let cannot = || format!("{}: cannot be written", output.display());
    let mut file = OutputFile::create(output, &input.files)?;
    let (page, ending) = report(input, ladders)??;
    file.write_all(page.as_bytes()).and_then(|()| file.finish()).with_context(cannot)?;
    Ok(ending)
}

/// The page, and how the capture ended.
fn report(input: &Input, ladders: u8) -> io::Result<Result<(String, Ending)>> {
    let mut gathered = Gathered::new(ladders.into());
    let keep = Keep { steps: true, contents: false };
    let config = Config { report_packets: true, keep, observe: true, ..Config::default() };
    let ending = match input::read(input, config, &mut gathered)? {
        Ok(ending) => ending,
        Err(error) => return Ok(Err(error)),
    };
    gathered.finish(&ending);
    let mut drawing = Drawing::new(&gathered.choice, &gathered.findings);
    let config = Config { report_packets: true, ..Config::default() };
    if let Err(error) = input::read(input, config, &mut drawing)? {
        return Ok(Err(error));
    }
    let page = Page { gathered: &gathered, ending: &ending, drawing: &drawing };
    Ok(Ok((printable(page.render().into_string()), ending)))
}

/// The page without what is not text: what controls a terminal or the direction of writing is shown as U+FFFD, wherever in a name
/// it stands. The page's own markup has none of that.
fn printable(page: String) -> String {
    let hidden = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    match page.contains(hidden) {
        true => page.replace(hidden, "\u{fffd}"),
        false => page,
    }
}

/// The ladders of the chosen transactions, to which the second reading adds what answers them and what is sent again.
#[derive(Debug)]
struct Drawing<'a> {
    ladders: HashMap<u64, (&'a Transaction, Ladder), FixedState>,
    /// Their numbers, in order.
    order: Vec<u64>,
    attribution: Attribution,
    /// What packets are evidence of.
    findings: ByFrame<'a>,
}

impl<'a> Drawing<'a> {
    fn new(choice: &'a Choice, findings: &'a Findings) -> Drawing<'a> {
        let broken = choice.broken().into_iter().map(|(transaction, _)| transaction);
        let ladders: HashMap<_, _, _> = broken
            .chain(choice.slowest())
            .map(|transaction| (transaction.number, (transaction, Ladder::of(transaction))))
            .collect();
        let mut steps = Steps::default();
        ladders.values().for_each(|(transaction, _)| steps.add(transaction));
        let mut order: Vec<u64> = ladders.keys().copied().collect();
        order.sort_unstable();
        Drawing { ladders, order, attribution: steps.finish(), findings: findings.by_frame() }
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        let attributed = self.attribution.next(packet);
        let is_evidence = self.findings.names(packet.record.number);
        let named = match attributed.role {
            Role::Repetition(of) | Role::Refusal(of) | Role::Acknowledgement(of) => Some(of.transaction),
            Role::Part(of) => is_evidence.then_some(of.transaction),
            Role::ConnectionManagement | Role::Nothing => None,
        };
        let acknowledged = attributed.acknowledged.iter().map(|of| of.transaction);
        let mut before = None;
        for number in acknowledged.clone().chain(named) {
            // Steps of one transaction follow each other.
            if before.replace(number) == Some(number) {
                continue;
            }
            let Some((transaction, ladder)) = self.ladders.get_mut(&number) else { continue };
            if is_about(&attributed, packet, transaction) {
                if !matches!(attributed.role, Role::Part(_)) || acknowledged.clone().any(|of| of == number) {
                    ladder.see(transaction, packet, &attributed);
                }
                if is_evidence {
                    ladder.mark(transaction, packet, &attributed);
                }
            }
        }
    }

    /// The chosen transactions with their ladders, by number.
    fn drawn(&self) -> impl Iterator<Item = (&'a Transaction, &Ladder)> {
        self.order.iter().filter_map(|number| {
            let (transaction, ladder) = self.ladders.get(number)?;
            Some((*transaction, ladder))
        })
    }

    /// The ladder of a chosen transaction.
    fn ladder(&self, transaction: &Transaction) -> Option<&Ladder> {
        self.ladders.get(&transaction.number).map(|(_, ladder)| ladder)
    }
}

/// Whether a packet that was found to be of `transaction` is. Only steps of chosen transactions are known here; so what has the
/// same queue pairs and PSNs, but not the connection or the time, may be of one that was not chosen. So may an acknowledgement
/// of what is behind a step, unless it is the first to acknowledge it.
fn is_about(attributed: &Attributed<'_>, packet: &Packet<'_>, transaction: &Transaction) -> bool {
    /// In so many packets PSNs do not wrap.
    const NEAR: u64 = 1 << 20;
    let (Some(kept), Some(Ok(headers))) = (&transaction.exchange, &packet.headers) else { return false };
    let mut ends = kept.steps.iter().flat_map(|step| [step.first.frame, step.last.frame]);
    if packet.connection != Some(transaction.connection)
        || !ends.any(|frame| frame.abs_diff(packet.record.number) < NEAR)
    {
        return false;
    }
    let Role::Acknowledgement(of) = attributed.role else { return true };
    if attributed.acknowledged.iter().any(|first| first.transaction == transaction.number) {
        return true;
    }
    let step = kept.steps.get(of.step as usize).filter(|_| of.transaction == transaction.number);
    step.is_some_and(|step| {
        u32::try_from(step.position.distance(headers.bth.psn.into())).is_ok_and(|ahead| ahead < step.extent)
    })
}

impl Audience for Drawing<'_> {
    const LISTS: bool = false;

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        if let Event::Packet(packet) = event {
            self.packet(packet);
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}
