//! One transaction: what it was, how it was exchanged, its headers and messages.

use super::Show;
use crate::input::listen;
use crate::output::{self, Format, Out, Status};
use rdmascope_conformance::Finding;
use rdmascope_dissector::attribution::Steps;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::findings::{Findings, is_about};
use rdmascope_present::json::{self};
use rdmascope_present::ladder::Ladder;
use rdmascope_present::names::{self, Label};
use rdmascope_present::screen::Screen;
use rdmascope_present::screen::transaction::TransactionPage;
use rdmascope_present::text::Maybe;
use rdmascope_wire::Xid;
use std::collections::HashSet;
use std::io;

/// Transactions that are told of where more than one has the XID.
const MOST_TOLD: usize = 8;

/// Shows the transaction that `command` names.
pub(super) fn run(command: &Show, screen: Screen, out: &mut Out) -> io::Result<Status> {
    let (mut found, mut steps) = (Found::default(), Steps::default());
    let mut findings = Findings::new(Findings::ALL);
    let keep = Keep { steps: true, contents: true };
    let config = Config { keep, observe: true, ..Config::default() };
    let read = listen(&command.input, config, |event, start| {
        findings.handle(&event);
        if let Event::Transaction(transaction) = event {
            steps.add(transaction);
        }
        found.handle(command, event, start);
        Ok(())
    })?;
    let ending = match read {
        Ok(ending) => ending,
        Err(error) => return output::complain(&error, out),
    };
    let transaction = match found.only(command) {
        Ok(transaction) => transaction,
        Err(error) => return output::complain(&error, out),
    };
    let by_frame = findings.by_frame();
    let mut ladder = Ladder::of(transaction);
    let mut attribution = steps.finish();
    let config = Config { report_packets: true, ..Config::default() };
    let read = listen(&command.input, config, |event, _| {
        if let Event::Packet(packet) = event {
            let attributed = attribution.next(packet);
            ladder.see(transaction, packet, &attributed);
            if by_frame.names(packet.record.number) {
                ladder.mark(transaction, packet, &attributed);
            }
        }
        Ok(())
    })?;
    if let Err(error) = read {
        return output::complain(&error, out);
    }
    let marked: HashSet<u64> = ladder.marked().collect();
    let concerns = |finding: &&Finding| {
        is_about(finding, transaction) || finding.frames.iter().any(|frame| marked.contains(frame))
    };
    let concerned: Vec<&Finding> = findings.kept().filter(concerns).collect();
    match command.output.format {
        Format::Text => {
            let connection = found.connection.as_ref();
            let (start, findings, by_frame) = (found.start, concerned, &by_frame);
            TransactionPage { transaction, connection, start, findings, by_frame }.write(
                &ladder,
                command.full,
                screen,
                out,
            )?;
        }
        Format::Jsonl => {
            json::write_exchange(transaction, &ladder, &concerned, &by_frame, command.full, out)?;
        }
    }
    output::tell_of_left_out(&findings);
    output::warn_of_cuts(&ending, out)?;
    output::complain_of_troubles(&ending, out)
}

/// What matches.
#[derive(Default)]
struct Found {
    /// The first that does.
    transaction: Option<Transaction>,
    /// The connection of the first.
    connection: Option<Connection>,
    /// All that match, but no more than [`MOST_TOLD`].
    titles: Vec<String>,
    count: u64,
    start: Time,
}

impl Found {
    fn handle(&mut self, command: &Show, event: Event<'_>, start: Time) {
        self.start = start;
        match event {
            Event::Transaction(transaction) if matches(command, transaction) => {
                self.count += 1;
                if self.titles.len() < MOST_TOLD {
                    self.titles.push(told(transaction));
                }
                self.transaction.get_or_insert_with(|| transaction.clone());
            }
            Event::Connection(connection) => {
                let id = self.transaction.as_ref().map(|transaction| transaction.connection);
                if id == Some(connection.id) && self.connection.is_none() {
                    self.connection = Some(connection.clone());
                }
            }
            _ => {}
        }
    }

    /// The one transaction that matches.
    fn only(&self, command: &Show) -> anyhow::Result<&Transaction> {
        let wanted = match (command.transaction, command.xid, command.connection) {
            (Some(number), _, _) => format!("the number {number}"),
            (None, xid, None) => format!("the XID {}", Xid(xid.unwrap_or_default())),
            (None, xid, Some(id)) => format!("the XID {} on connection {id}", Xid(xid.unwrap_or_default())),
        };
        let Some(transaction) = &self.transaction else {
            anyhow::bail!("no transaction has {wanted}: `rdmascope transactions` lists all");
        };
        if self.count > 1 {
            let more = match self.count - self.titles.len() as u64 {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            anyhow::bail!(
                "{} transactions have {wanted}: {}{more}: choose one with --transaction, or those of a connection with \
                 --connection",
                self.count,
                self.titles.join("; ")
            );
        }
        Ok(transaction)
    }
}

fn matches(command: &Show, transaction: &Transaction) -> bool {
    if let Some(number) = command.transaction {
        return transaction.number == number;
    }
    command.xid.is_some_and(|xid| transaction.xid == Xid(xid))
        && command.connection.is_none_or(|id| transaction.connection == ConnectionId(id))
}

/// A transaction in a few words.
fn told(transaction: &Transaction) -> String {
    let message = transaction.call.as_ref().or(transaction.reply.as_ref());
    format!(
        "{} ({} on connection {}, {}, frame {})",
        transaction.number,
        Label::of(transaction),
        transaction.connection.0,
        names::direction(transaction.direction),
        Maybe(message.map(|message| message.seen.frame)),
    )
}
