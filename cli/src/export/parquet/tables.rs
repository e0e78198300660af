//! The tables of a capture, written while it is read.

use super::partition::Partition;
use super::writer::{SCHEMA, TableWriter};
use crate::atomic_file::Staging;
use crate::input::Audience;
use crate::slice::Slice;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::events::Events;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_conformance::Judge;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::{
    CONNECTION, EVENT, EXPORTED, Exported, FINDING, FindingRow, MESSAGE, MessageRow, OPERATION, OperationRow,
    PACKET, TABLES, TRANSACTION,
};
use std::io;
use std::path::Path;

/// The writers of all tables.
pub(super) struct Writers {
    transactions: TableWriter,
    operations: TableWriter,
    messages: TableWriter,
    packets: TableWriter,
    connections: TableWriter,
    /// The part of the capture to write.
    slice: Slice,
    /// The paths of files, from the whole capture.
    pub(super) paths: Paths,
    judge: Judge,
    findings: TableWriter,
    /// Events are complete only at the end of the capture.
    gathered: Events,
    events: TableWriter,
    captures: TableWriter,
}

/// Data about a capture from outside of it.
pub(super) struct About<'a> {
    pub(super) partition: Partition<'a>,
    /// The folder of all tables.
    pub(super) output: &'a Path,
    /// The names of its files, without folders.
    pub(super) files: Vec<String>,
    /// Size of its files in bytes, if known.
    pub(super) size: Option<u64>,
    /// Why the capture could not be read, or not completely.
    pub(super) error: Option<String>,
}

impl Writers {
    pub(super) fn create(staging: &Staging, slice: Slice) -> io::Result<Writers> {
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
            captures: create(7)?,
        })
    }

    /// Finishes all files before any is moved into place. `ending` is `None` if the capture could
    /// not be read at all.
    pub(super) fn finish(
        self,
        ending: Option<&Ending>,
        staging: Staging,
        about: &About<'_>,
    ) -> io::Result<()> {
        let Writers { transactions, operations, messages, packets, connections, findings, .. } = self;
        let (mut events, mut captures) = (self.events, self.captures);
        let chosen = self.slice.chosen().map(|chosen| chosen.events).unwrap_or_default();
        let (first, last) = ending.and_then(|ending| ending.totals.span).unzip();
        for event in self.gathered.list(last) {
            if chosen.matches(&event, first.unwrap_or_default()) {
                events.row(&EVENT.of(&event))?;
            }
        }
        let writers = [transactions, operations, messages, packets, connections, findings, events];
        captures.row(&EXPORTED.of(Exported {
            ending,
            files: &about.files,
            size: about.size,
            rows: writers.iter().map(TableWriter::rows).sum(),
            error: about.error.as_deref(),
            version: env!("CARGO_PKG_VERSION"),
            schema: SCHEMA,
        }))?;
        for writer in writers.into_iter().chain([captures]) {
            writer.finish()?;
        }
        let place = |(name, _): &(&str, _)| ((*name).to_owned(), about.partition.place(name, first));
        staging.place(TABLES.iter().map(place))?;
        about.partition.remove_other_days(about.output, first)
    }
}

impl Audience for Writers {
    fn needs(&self) -> Config {
        Config { report_packets: true, ..Judge::needs().and(self.gathered.needs()) }
    }

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
            // Transactions outside of the part also provide paths.
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
}
