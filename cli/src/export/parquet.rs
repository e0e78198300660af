//! Tables for DuckDB, Polars, Spark and whoever else reads Parquet: docs/parquet.md.

mod cells;
mod partition;
mod writer;

use crate::input::{self, Audience, Input};
use crate::output::{self, Out, Status};
use crate::paths;
use crate::slice::{Records, Slice, SliceArguments};
use crate::whole::Staging;
use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use rdmascope_conformance::Judge;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::{
    CONNECTION, EVENT, FINDING, FindingRow, MESSAGE, MessageRow, OPERATION, OperationRow, PACKET, TABLES,
    TRANSACTION,
};
use rdmascope_present::ending::Ending;
use rdmascope_present::events::Events;
use rdmascope_present::paths::{Paths, TransactionRow};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use writer::TableWriter;

#[derive(Args, Debug)]
pub(super) struct Parquet {
    #[command(flatten)]
    pub(super) input: Input,
    /// Folder for the tables; it is created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Name of the capture in the tables [default: the name of the file]
    ///
    /// A capture that was exported before under this name is replaced. The option is required if the capture consists of several
    /// files or is standard input.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    capture: Option<String>,
    #[command(flatten)]
    slice: SliceArguments,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export parquet mount.pcap --output tables
  rdmascope export parquet mount.pcap0 mount.pcap1 --capture mount --output tables
  tcpdump -i eth0 -w - udp port 4791 | rdmascope export parquet - --capture today --output tables";

impl Parquet {
    fn capture(&self) -> Result<Cow<'_, str>> {
        match (&self.capture, self.input.files.as_slice()) {
            (Some(name), _) => Ok(Cow::Borrowed(name)),
            (None, [file]) if file != Path::new("-") => {
                let name = file.file_name().with_context(|| format!("{}: is no file", file.display()))?;
                Ok(name.to_string_lossy())
            }
            (None, _) => {
                bail!("several files, or standard input, have no name together: choose one with --capture")
            }
        }
    }
}

/// Writes the tables.
pub(super) fn run(command: &Parquet, out: &mut Out) -> io::Result<Status> {
    match write(command) {
        Ok(ending) => output::tell_of_ending(&ending, out),
        Err(error) => output::complain(&error, out),
    }
}

fn write(command: &Parquet) -> Result<Ending> {
    let capture = command.capture()?;
    let cannot = || format!("{}: cannot be written to", command.output.display());
    let (slice, captured) = command.slice.of(&command.input, Records::Known)?;
    let input = captured.input();
    let staging = Staging::in_folder(&command.output).with_context(cannot)?;
    let mut writers = Writers::create(&staging, slice).with_context(cannot)?;
    writers.paths = paths::follow(input);
    let config = Config { report_packets: true, observe: Observe::All, ..Config::default() };
    let ending = input::read(input, config, &mut writers).with_context(cannot)??;
    writers.finish(&ending, staging, &capture).with_context(cannot)?;
    Ok(ending)
}

/// All tables.
struct Writers {
    transactions: TableWriter,
    operations: TableWriter,
    messages: TableWriter,
    packets: TableWriter,
    connections: TableWriter,
    /// What is written.
    slice: Slice,
    /// The paths of files, as the whole capture tells them.
    paths: Paths,
    judge: Judge,
    findings: TableWriter,
    /// What happened is known when all was read.
    gathered: Events,
    events: TableWriter,
}

impl Writers {
    fn create(staging: &Staging, slice: Slice) -> io::Result<Writers> {
        let create = |table: usize| {
            let (name, list) = TABLES[table];
            TableWriter::create(staging.create(name)?, name, list)
        };
        Ok(Writers {
            transactions: create(0)?,
            operations: create(1)?,
            messages: create(2)?,
            packets: create(3)?,
            connections: create(4)?,
            slice,
            paths: Paths::new(),
            judge: Judge::default(),
            findings: create(5)?,
            gathered: Events::default(),
            events: create(6)?,
        })
    }

    /// Ends all files before any takes its place.
    fn finish(self, ending: &Ending, staging: Staging, capture: &str) -> io::Result<()> {
        let Writers { transactions, operations, messages, packets, connections, findings, .. } = self;
        let mut events = self.events;
        let span = self.slice.chosen().map(|chosen| chosen.span).unwrap_or_default();
        let (first, last) = ending.totals.span.unzip();
        for event in self.gathered.list(last) {
            if event.is_within(span, first.unwrap_or_default()) {
                events.row(&EVENT.of(&event))?;
            }
        }
        for writer in [transactions, operations, messages, packets, connections, findings, events] {
            writer.finish()?;
        }
        staging.place(TABLES.iter().map(|(name, _)| ((*name).to_owned(), partition::place(name, capture))))
    }
}

impl Audience for Writers {
    const LISTS: bool = false;

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        let Writers { judge, findings, slice, gathered, .. } = self;
        if slice.concerns(&event) {
            gathered.handle(&event);
        }
        let mut written = Ok(());
        judge.handle(&event, &mut |finding| {
            if written.is_ok() && slice.has_finding(finding) {
                written = findings.row(&FINDING.of(FindingRow::new(finding, false)));
            }
        });
        written?;
        let is_wanted = slice.has(&event);
        match event {
            // What other transactions tell of paths counts too.
            Event::Transaction(transaction) if !is_wanted => {
                self.paths.take(transaction);
                Ok(())
            }
            _ if !is_wanted => Ok(()),
            Event::Packet(packet) => self.packets.row(&PACKET.of(packet)),
            Event::Transaction(transaction) => {
                let row = TransactionRow::follow(transaction, &mut self.paths);
                for (index, operation) in transaction.details.operations.iter().enumerate() {
                    self.operations.row(&OPERATION.of(OperationRow {
                        transaction,
                        paths: row.paths,
                        index,
                        operation,
                    }))?;
                }
                let messages = [(&transaction.call, false), (&transaction.reply, true)];
                for (message, is_reply) in messages {
                    let Some(message) = message else { continue };
                    self.messages.row(&MESSAGE.of(MessageRow { transaction, message, is_reply }))?;
                }
                self.transactions.row(&TRANSACTION.of(row))
            }
            Event::Connection(connection) => self.connections.row(&CONNECTION.of(connection)),
            _ => Ok(()),
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
