//! What the first reading of a capture gathers. Memory does not grow with the length of the capture.

use super::choice::Choice;
use super::credits::AllCredits;
use super::repeats::Repeats;
use super::timeline::{Latencies, Timeline};
use crate::input::Audience;
use crate::slice::Slice;
use crate::witness::Witnesses;
use foldhash::fast::FixedState;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::findings::Findings;
use rdmascope_analysis::names::Failure;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::Paths;
use rdmascope_analysis::places::EndToEnd;
use rdmascope_analysis::report::{Key, Report};
use rdmascope_capture_agent::Note;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::iwarp::Part;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_wire::bth::Operation;
use rdmascope_wire::rdmap::Opcode;
use std::collections::HashMap;
use std::io;

/// All that the report is made of, the ladders aside.
#[derive(Debug)]
pub(super) struct Gathered {
    /// What it is made of.
    slice: Slice,
    /// The figures of `analyze`.
    pub(super) report: Report,
    /// Bytes on the wire by what they were, in the order of [`Moved`].
    pub(super) moved: Timeline<[u64; 3]>,
    /// Transactions that ended, by what they were.
    pub(super) operations: HashMap<Key, Timeline<u64>, FixedState>,
    /// Transactions that failed, when they ended.
    pub(super) failures: Timeline<u64>,
    /// Latencies of transactions, forward and backward, when they ended.
    pub(super) latencies: [Timeline<Latencies>; 2],
    /// Credits.
    pub(super) credits: AllCredits,
    /// What is to be drawn.
    pub(super) choice: Choice,
    /// What the judge finds.
    pub(super) findings: Findings,
    repeats: Repeats,
    /// The paths of files.
    pub(super) paths: Paths,
    /// Traces of the kernel.
    pub(super) witnesses: Witnesses,
    /// What several places tell together, if their captures are joined.
    pub(super) joined: Option<EndToEnd>,
}

/// What packets with a payload, or messages, are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Sends.
    Sends,
    /// RDMA Read responses.
    ReadResponses,
    /// RDMA Writes.
    Writes,
}

impl Moved {
    /// What they are called.
    pub(super) const NAMES: [&str; 3] = ["Sends", "RDMA Read responses", "RDMA Writes"];

    fn of(operation: Operation) -> Option<Moved> {
        match operation {
            operation if operation.is_send() => Some(Moved::Sends),
            operation if operation.is_read_response() => Some(Moved::ReadResponses),
            operation if operation.is_write() => Some(Moved::Writes),
            _ => None,
        }
    }

    /// What messages of RDMAP are.
    fn of_message(opcode: Opcode) -> Option<Moved> {
        match opcode {
            opcode if opcode.is_send() => Some(Moved::Sends),
            Opcode::ReadResponse => Some(Moved::ReadResponses),
            Opcode::Write => Some(Moved::Writes),
            _ => None,
        }
    }
}

impl Gathered {
    /// Keys of [`Gathered::operations`].
    const MOST_OPERATIONS: usize = 256;
    /// Findings of a rule whose evidence is marked.
    const MOST_FINDINGS: usize = 1024;

    /// Nothing of this part yet, with `ladders` transactions of each kind to choose.
    pub(super) fn new(ladders: usize, slice: Slice) -> Gathered {
        Gathered {
            slice,
            report: Report::default(),
            moved: Timeline::default(),
            operations: HashMap::default(),
            failures: Timeline::default(),
            latencies: Default::default(),
            credits: AllCredits::default(),
            choice: Choice::new(ladders),
            findings: Findings::new(Gathered::MOST_FINDINGS),
            repeats: Repeats::default(),
            paths: Paths::new(),
            witnesses: Witnesses::default(),
            joined: None,
        }
    }

    /// Brings all timelines to the same end.
    pub(super) fn finish(&mut self, ending: &Ending) {
        let end = ending.totals.span.map_or(0, |(first, last)| last.since(first));
        self.moved.at(end);
        self.operations.values_mut().for_each(|timeline| _ = timeline.at(end));
        self.failures.at(end);
        self.latencies.iter_mut().for_each(|timeline| _ = timeline.at(end));
        self.credits.finish(end);
        if let Some(joined) = &mut self.joined {
            joined.finish();
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, start: Time) {
        if packet.of_connection && packet.segment().is_some() {
            return self.segment(packet, start);
        }
        let Some(Ok(headers)) = &packet.headers else { return };
        let Some(operation) = headers.bth.opcode.operation() else { return };
        if !packet.of_connection {
            return;
        }
        if let Some(moved) = Moved::of(operation) {
            self.add(moved, headers.payload_length.into(), packet.record.time.since(start));
        }
        self.repeats.packet(packet, operation, headers.bth.psn);
    }

    /// Takes in a TCP segment of an iWARP connection: the data of the FPDUs in it, without the markers between.
    fn segment(&mut self, packet: &Packet<'_>, start: Time) {
        let parts = packet.parts();
        for part in &parts {
            let Part::Fpdu(fpdu) = part else { continue };
            let Some(moved) = Moved::of_message(fpdu.header.control().opcode) else { continue };
            let markers = parts.iter().filter(|part| matches!(part, Part::Marker(_))).map(Part::place);
            let between =
                markers.filter(|marker| fpdu.data.contains(&marker.start)).map(|marker| marker.len());
            let bytes = fpdu.data.len() - between.sum::<usize>();
            self.add(moved, bytes as u64, packet.record.time.since(start));
        }
    }

    fn add(&mut self, moved: Moved, bytes: u64, time: u64) {
        let sum = &mut self.moved.at(time)[moved as usize];
        *sum = sum.saturating_add(bytes);
    }

    fn transaction(&mut self, transaction: &Transaction, start: Time) {
        self.credits.transaction(transaction, start);
        self.choice.transaction(transaction, self.repeats.any_of(transaction));
        let Some(reply) = &transaction.reply else { return };
        let ended = reply.seen.time.since(start);
        let key = Key::of(transaction);
        if self.operations.len() < Gathered::MOST_OPERATIONS || self.operations.contains_key(&key) {
            *self.operations.entry(key).or_default().at(ended) += 1;
        }
        if Failure::of(transaction).is_some() {
            *self.failures.at(ended) += 1;
        }
        if let Some(latency) = transaction.latency() {
            let backward = transaction.direction == Direction::Backward;
            self.latencies[usize::from(backward)].at(ended).add(latency, 1);
        }
    }
}

impl Audience for Gathered {
    const LISTS: bool = false;

    fn needs(&self) -> Config {
        let Gathered { findings, report, joined, witnesses, repeats, .. } = self;
        let needs = (findings.needs()).and(report.needs()).and(joined.needs()).and(witnesses.needs());
        needs.and(repeats.needs())
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        let Gathered { slice, findings, report, paths, joined, .. } = self;
        findings.handle_some(&event, |finding| slice.has_finding(finding));
        if slice.concerns(&event) {
            report.follow(&event);
        }
        if let Event::Transaction(transaction) = event {
            paths.take(transaction);
        }
        let is_chosen = slice.has(&event);
        if let Some(joined) = joined
            && (is_chosen || matches!(event, Event::Packet(_)))
        {
            joined.handle(&event);
        }
        if !is_chosen {
            return Ok(());
        }
        match event {
            Event::Packet(packet) => self.packet(packet, start),
            Event::Transaction(transaction) => self.transaction(transaction, start),
            Event::Connection(connection) => self.repeats.forget(connection.id),
            Event::Observation(observation) => self.repeats.observe(observation),
            _ => {}
        }
        self.report.count(&event);
        self.witnesses.handle(&event);
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        self.witnesses.note(note);
    }

    /// Nothing is shown before the end.
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::connection::Counts;
    use rdmascope_dissector::engine::{Config, Engine};
    use rdmascope_dissector::exchange::Keep;
    use rdmascope_dissector::observation::Observe;
    use rdmascope_tests::{samples, session};

    /// What is drawn of a sample, what its ends sent, and how many of its transactions had packets sent again.
    fn gathered(sample: &str) -> ([u64; 3], Vec<Counts>, usize) {
        let config = Config { report_packets: true, observe: Observe::All, ..Config::default() };
        let config = Config { keep: Keep { steps: true, contents: false }, ..config };
        let (mut engine, mut gathered) = (Engine::new(config), Gathered::new(1, Slice::default()));
        let (mut counts, mut again) = (Vec::new(), 0);
        let mut take = |event: Event<'_>| {
            gathered.event(event, Time(0)).expect("nothing is written");
            match event {
                Event::Connection(it) => counts.extend([it.requester.sent, it.responder.sent]),
                Event::Transaction(it) => again += usize::from(gathered.repeats.any_of(it)),
                _ => {}
            }
        };
        for record in session::records(&samples::capture(sample)) {
            engine.handle(&record, &mut take);
        }
        engine.finish(&mut take);
        let mut moved = [0; 3];
        for sums in gathered.moved.intervals() {
            moved.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
        }
        (moved, counts, again)
    }

    #[test]
    fn what_segments_carry_is_drawn() {
        let (moved, counts, again) = gathered("iwarp-nfs3");
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
        assert_eq!(moved[Moved::Writes as usize], sum(|it| it.written_bytes));
        assert_eq!(moved[Moved::ReadResponses as usize], sum(|it| it.read_response_bytes));
        assert!(moved[Moved::Sends as usize] > 60 * sum(|it| it.sends), "{moved:?}");
        assert_eq!(again, 0);
    }

    #[test]
    fn segments_that_were_sent_again_are_of_transactions() {
        let (_, counts, again) = gathered("iwarp-crc-lossy");
        assert!(counts.iter().any(|it| it.repeated_packets > 0) && again > 0, "{again}");
    }
}
