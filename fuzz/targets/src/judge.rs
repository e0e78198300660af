//! Invariants of the engine for any input.

use crate::driver;
use core::hash::{Hash, Hasher};
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_analysis::state::States;
use rdmascope_conformance::{Finding, Judge};
use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::{Content, Event, Eviction};
use rdmascope_dissector::exchange::{Exchange, Keep};
use rdmascope_dissector::frame;
use rdmascope_dissector::layout::Piece;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::role::{Attributed, StepOf};
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_present::column::{Line, Subject};
use rdmascope_present::columns::{STATE, TRANSACTION};
use rdmascope_present::json::write_line;
use std::collections::{HashMap, HashSet};
use std::hash::DefaultHasher;
use std::io;

/// Runs the engine over the same records with several configurations, and compares and checks its
/// events.
pub(crate) fn judge<'a>(records: impl Iterator<Item = Record<'a>> + Clone) {
    let first = run(records.clone(), Config { report_packets: true, ..Config::default() });
    let second = run(records.clone(), Config::default());
    assert_eq!(first, second, "the same records give the same events");
    let keep = Keep { steps: true, contents: true };
    let third = run(records.clone(), Config { keep, ..Config::default() });
    assert_eq!(second, third, "keeping contents changes no event");
    let fourth = run(records.clone(), Config { observe: Observe::All, ..Config::default() });
    assert_eq!(second, fourth, "observing changes no event");
    let fifth = run(records.clone(), Config { attribute: true, ..Config::default() });
    assert_eq!(second, fifth, "attributing packets changes no event");
    shorten(records.clone(), second);
    check(records.clone());
    replay(records.clone());
    attribute(records);
}

/// Follows names and state, and writes every line about them: once with the names known at the
/// time, and once with those known at the end.
fn replay<'a>(records: impl Iterator<Item = Record<'a>> + Clone) {
    let mut paths = Paths::new();
    for _ in 0..2 {
        let mut states = States::default();
        let mut handle = |event: Event<'_>| {
            states.handle(&event, &mut |lifetime| write(&STATE.of(lifetime)));
            if let Event::Transaction(transaction) = event {
                write(&TRANSACTION.of(TransactionRow::follow(transaction, &mut paths)));
            }
        };
        let mut engine = Engine::new(Config { observe: Observe::Events, ..Config::default() });
        records.clone().for_each(|record| driver::handle(&mut engine, &record, &mut handle));
        driver::finish(&mut engine, &mut handle);
        states.finish(&mut |lifetime| write(&STATE.of(lifetime)));
        paths.rewind();
    }
}

fn write<S: Subject>(line: &Line<'_, S>) {
    write_line(&mut io::sink(), line).expect("a sink accepts everything");
}

/// Removes the payload that is not needed, twice: the first time changes nothing else, and the
/// second time changes nothing at all.
fn shorten<'a>(records: impl Iterator<Item = Record<'a>> + Clone, expected: u64) {
    let mut bulk = BulkCut::new(frame::Config::default());
    let lengths: Vec<usize> = records.clone().map(|record| bulk.kept(&record)).collect();
    let shortened =
        records.zip(&lengths).map(|(record, length)| Record { data: &record.data[..*length], ..record });
    assert_eq!(run(shortened.clone(), Config::default()), expected, "omitted payload changes no event");
    let mut bulk = BulkCut::new(frame::Config::default());
    assert!(
        shortened.clone().all(|record| bulk.kept(&record) == record.data.len()),
        "nothing is left to omit"
    );
}

/// Judges the session. Each finding has a rule, a connection, and packets of the capture. A judge
/// that runs all rules on everything reports the same.
fn check<'a>(records: impl Iterator<Item = Record<'a>>) {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut judges = [Judge::default(), Judge::exhaustive()];
    let mut last = 0;
    for record in records {
        last = record.number;
        driver::handle(&mut engine, &record, &mut |event| judge_event(&mut judges, &event, last));
    }
    driver::finish(&mut engine, &mut |event| judge_event(&mut judges, &event, last));
}

fn judge_event(judges: &mut [Judge; 2], event: &Event<'_>, last: u64) {
    let [found, exhaustively] = judges.each_mut().map(|judge| {
        let mut found = Vec::new();
        judge.handle(event, &mut |finding| found.push(finding.clone()));
        found
    });
    assert_eq!(found, exhaustively, "a gate is closed although its rules report this");
    found.iter().for_each(|finding| examine(finding, last));
}

fn examine(finding: &Finding, last: u64) {
    assert!(finding.rule.is_some() && finding.connection.is_some());
    assert!(finding.frames.is_sorted() && finding.frames.len() <= Finding::MOST_FRAMES);
    assert!(finding.frames.iter().all(|frame| (1..=last).contains(frame)), "{finding:?}");
}

/// Checks the attribution of packets to transactions: once for each packet and step, only to
/// existing steps, and each step acknowledged once.
fn attribute<'a>(records: impl Iterator<Item = Record<'a>>) {
    let mut engine = Engine::new(Config { attribute: true, ..Config::default() });
    let mut attributed = Attributions::default();
    for record in records {
        attributed.now = record.number;
        driver::handle(&mut engine, &record, &mut |event| attributed.take(&event));
    }
    attributed.now = 0;
    driver::finish(&mut engine, &mut |event| attributed.take(&event));
    for StepOf { begun, step } in attributed.named {
        assert!(
            attributed.steps.get(&begun).is_some_and(|steps| (step as usize) < *steps),
            "{begun}, {step}"
        );
    }
}

#[derive(Default)]
struct Attributions {
    /// The current record; 0 once the capture has ended.
    now: u64,
    attributed_to: HashSet<(u64, Option<StepOf>)>,
    named: HashSet<StepOf>,
    acknowledged: HashSet<StepOf>,
    /// The final number of steps of each transaction.
    steps: HashMap<u64, usize>,
}

impl Attributions {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Attributed(attributed) => self.take_packet(attributed),
            Event::Transaction(transaction) => {
                let steps = transaction.exchange.as_ref().map_or(0, |kept| kept.steps.len());
                self.steps.insert(transaction.begun, steps);
            }
            _ => {}
        }
    }

    fn take_packet(&mut self, attributed: &Attributed<'_>) {
        assert_eq!(attributed.late, attributed.seen.frame != self.now);
        assert!(self.now == 0 || attributed.seen.frame <= self.now);
        let of = attributed.role.map(|role| role.of());
        assert!(
            self.attributed_to.insert((attributed.seen.frame, of)),
            "each packet is attributed once to each step"
        );
        assert!(attributed.role.is_some() || !attributed.acknowledged.is_empty());
        self.named.extend(attributed.role.map(|role| role.of()));
        for of in attributed.acknowledged {
            self.named.insert(*of);
            assert!(self.acknowledged.insert(*of), "each step is acknowledged once");
        }
    }
}

fn run<'a>(records: impl Iterator<Item = Record<'a>>, config: Config) -> u64 {
    let mut engine = Engine::new(config);
    let mut seen = Seen::default();
    let mut count = 0;
    for record in records {
        count += 1;
        let packets = seen.packets;
        driver::handle(&mut engine, &record, &mut |event| seen.take(&event));
        assert_eq!(seen.packets - packets, u64::from(config.report_packets));
    }
    driver::finish(&mut engine, &mut |event| seen.take(&event));

    let totals = engine.totals();
    assert_eq!(totals.records, count);
    let kinds =
        [totals.packets, totals.segments, totals.others, totals.unknown_link, totals.fragments, totals.stops];
    assert_eq!(kinds.iter().sum::<u64>(), count);
    assert_eq!(totals.icrc.iter().sum::<u64>(), totals.packets);
    assert_eq!(totals.transactions.iter().sum::<u64>(), seen.transactions);
    assert_eq!(totals.evictions, seen.evictions);
    assert_eq!(seen.connections.len() as u64, totals.connections);
    let again = seen.events;
    driver::finish(&mut engine, &mut |event| seen.take(&event));
    assert_eq!(seen.events, again, "a second end of the capture reports nothing");
    seen.digest.finish()
}

#[derive(Default)]
struct Seen {
    events: u64,
    packets: u64,
    transactions: u64,
    evictions: u64,
    connections: HashSet<u32>,
    digest: DefaultHasher,
}

impl Seen {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Packet(packet) => {
                self.packets += 1;
                if let Some(Ok(headers)) = &packet.headers {
                    assert!(headers.payload.len() as u64 <= u64::from(headers.payload_length));
                    if let Content::RpcRdma(header) = &headers.content {
                        assert!(header.length <= headers.payload.len());
                    }
                }
                return;
            }
            Event::Transaction(transaction) => {
                self.transactions += 1;
                assert_eq!(transaction.number, self.transactions, "each is reported once, in order");
                self.take_transaction(transaction);
            }
            Event::Connection(connection) => {
                assert!(self.connections.insert(connection.id.0), "each is reported once");
                assert!(connection.first <= connection.last);
                (connection.id, connection.transactions).hash(&mut self.digest);
            }
            Event::Eviction(eviction) => {
                self.evictions += 1;
                // Evictions depend on how much the configuration keeps.
                if !matches!(eviction, Eviction::Gathered { .. }) {
                    core::mem::discriminant(eviction).hash(&mut self.digest);
                }
            }
            _ => return,
        }
        self.events += 1;
    }

    fn take_transaction(&mut self, transaction: &Transaction) {
        assert!(!self.connections.contains(&transaction.connection.0), "connections end last");
        match transaction.outcome {
            Outcome::Completed => assert!(transaction.reply.is_some()),
            Outcome::NoReply | Outcome::CutOff => assert!(transaction.call.is_some()),
            Outcome::NoCall => assert!(transaction.reply.is_some() && transaction.call.is_none()),
            Outcome::TransportError => assert!(transaction.error.is_some() || transaction.reply.is_some()),
        }
        if let Some(kept) = &transaction.exchange {
            take_kept(kept);
            for of_reply in [false, true] {
                transaction.message(of_reply).iter().for_each(take_piece);
                let operations = transaction.details.operations.iter();
                let items =
                    operations.filter_map(|one| if of_reply { one.result_item } else { one.argument_item });
                items
                    .filter_map(|item| transaction.item(of_reply, &item))
                    .for_each(|piece| take_piece(&piece));
            }
        }
        for message in transaction.messages() {
            assert!(message.first.frame > 0 && message.header_length <= message.send_length);
            assert!(message.missing.iter().all(|missing| missing.end.is_none_or(|end| missing.start < end)));
            (message.first.frame, message.seen.frame, message.missing.len()).hash(&mut self.digest);
            (message.message_length, message.read_chunks.len(), message.rpc_xid).hash(&mut self.digest);
        }
        (transaction.xid, transaction.outcome, transaction.direction).hash(&mut self.digest);
        (transaction.connection, transaction.status, transaction.procedure).hash(&mut self.digest);
        (transaction.timing.read_bytes, transaction.timing.written_bytes).hash(&mut self.digest);
        (transaction.latency(), transaction.details.operations.len()).hash(&mut self.digest);
    }
}

fn take_piece(piece: &Piece) {
    assert!(piece.captured.end() <= piece.bytes.len() as u64 && piece.bytes.len() as u64 <= piece.length);
    assert!(piece.bytes.len() <= Exchange::MOST_CONTENTS);
}

fn take_kept(kept: &Exchange) {
    for step in &kept.steps {
        assert!(step.first.frame <= step.last.frame && step.extent > 0);
    }
    for content in &kept.contents {
        assert!(content.captured.end() <= content.bytes.len() as u64);
    }
    assert!(kept.contents.is_sorted_by_key(|content| (content.of_reply, content.part)));
}
