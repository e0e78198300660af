//! `show --transaction`: one transaction with its exchange, headers and messages.

use super::Show;
use crate::filters::RequestedScope;
use crate::input::listen;
use crate::output::{self, Failure, Format, Out, Status};
use crate::selection::{Choice, Selection};
use rdmascope_analysis::events::{Events, SessionEvent};
use rdmascope_analysis::filter::Span;
use rdmascope_analysis::findings::{Findings, is_about};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::columns::EVENT;
use rdmascope_present::json;
use rdmascope_present::ladder::Ladder;
use rdmascope_present::screen::Screen;
use rdmascope_present::screen::transaction::TransactionPage;
use rdmascope_wire::Xid;
use std::collections::HashSet;

/// Shows the selected transaction.
pub(super) fn run(command: &Show, screen: Screen, out: &mut Out) -> Result<Status, Failure> {
    let connection = command.connection.map(ConnectionId);
    let choice = match (command.transaction, command.xid) {
        (Some(number), _) => Choice::Number(number),
        (None, xid) => Choice::Xid(Xid(xid.unwrap_or_default()), connection),
    };
    let mut found = Found::new(choice);
    let mut findings = Findings::new(Findings::ALL);
    let mut events = Events::default();
    let keep = Keep { steps: true, contents: true };
    let needs = Config { keep, ..findings.needs().and(events.needs()) };
    let mut scope = RequestedScope::new(connection.as_slice(), Span::default());
    let mut paths = Paths::new();
    let ending = listen(&command.input, needs, |event, start| {
        scope.handle(&event);
        findings.handle(&event);
        events.handle(&event);
        if let Event::Transaction(transaction) = event {
            paths.take(transaction);
        }
        found.handle(event, start);
        Ok(())
    })?;
    scope.check(&ending)?;
    let transaction = found.only()?;
    let all = events.list(ending.totals.span.map(|(_, last)| last));
    let events: Vec<&SessionEvent> = all.iter().filter(|event| event.is_during(transaction)).collect();
    let by_frame = findings.by_frame();
    let mut ladder = Ladder::of(transaction);
    // Replay the paths, so that each file has the name that it had at that time.
    paths.rewind();
    let joint = command.input.joint()?;
    if let Some(joint) = &joint {
        ladder.passes = joint.passes(ladder.rungs.iter().map(|rung| rung.last.frame));
    }
    let needs = joint.map_or(Config::default(), |_| ladder.passes.needs());
    let needs = Config { attribute: true, ..needs };
    listen(&command.input, needs, |event, _| {
        ladder.passes.handle(&event);
        match event {
            Event::Attributed(attributed) => {
                ladder.see(transaction, attributed);
                if by_frame.names(attributed.seen.frame) {
                    ladder.mark(transaction, attributed);
                }
            }
            Event::Transaction(other) if other.number <= transaction.number => paths.take(other),
            _ => {}
        }
        Ok(())
    })?;
    let marked: HashSet<u64> = ladder.marked().collect();
    let concerns = |finding: &&Finding| {
        is_about(finding, transaction) || finding.frames.iter().any(|frame| marked.contains(frame))
    };
    let concerned: Vec<&Finding> = findings.kept().filter(concerns).collect();
    let row = TransactionRow { transaction, paths: Some(&paths), split: None };
    match command.output.format {
        Format::Text => {
            let connection = found.connection.as_ref();
            let (start, findings, by_frame) = (found.start, concerned, &by_frame);
            let page = TransactionPage { transaction: row, connection, start, findings, by_frame, events };
            page.write(&ladder, command.full, screen, out)?;
        }
        Format::Jsonl => {
            json::write_exchange(row, &ladder, &concerned, &by_frame, command.full, out)?;
            events.iter().try_for_each(|event| json::write_line(out, &EVENT.of(event)))?;
        }
    }
    output::report_left_out(&findings);
    output::warn_of_cuts(&ending, out)?;
    Ok(output::complain_of_troubles(&ending, out)?)
}

/// The selected transaction and its context.
struct Found {
    selection: Selection,
    /// The first match.
    transaction: Option<Transaction>,
    /// The connection of that transaction.
    connection: Option<Connection>,
    start: Time,
}

impl Found {
    fn new(choice: Choice) -> Found {
        Found {
            selection: Selection::new(choice),
            transaction: None,
            connection: None,
            start: Time::default(),
        }
    }

    fn handle(&mut self, event: Event<'_>, start: Time) {
        self.start = start;
        match event {
            Event::Transaction(transaction) if self.selection.is_first(transaction) => {
                self.transaction = Some(transaction.clone());
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

    /// The transaction, if exactly one matched.
    fn only(&self) -> anyhow::Result<&Transaction> {
        self.selection.check()?;
        Ok(self.transaction.as_ref().expect("one was chosen"))
    }
}
