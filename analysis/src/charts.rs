//! The data of charts and ladders of a session. Memory does not grow with the length of the
//! capture.

mod choice;
mod credits;
mod intervals;
mod repeats;

pub use choice::{Choice, Reason};
pub use credits::{AllCredits, CreditInterval, Credits, CreditsOf};
pub use intervals::{Classes, Interval, Intervals, Latencies};
pub use repeats::Repeats;

use crate::report::{ErrorKey, Key};
use foldhash::fast::FixedState;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::iwarp::Part;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_wire::bth::Operation;
use rdmascope_wire::rdmap::Opcode;
use std::collections::HashMap;

/// Figures over time, and the transactions to draw.
#[derive(Debug)]
pub struct Charts {
    /// Bytes on the wire by kind, in the order of [`Moved`].
    pub moved: Intervals<[u64; 3]>,
    /// Ended transactions by operation.
    pub operations: HashMap<Key, Intervals<u64>, FixedState>,
    /// Failed transactions, at the time of their replies.
    pub failures: Intervals<u64>,
    /// Latencies of forward and backward transactions, at the time of their replies.
    pub latencies: [Intervals<Latencies>; 2],
    /// Credits.
    pub credits: AllCredits,
    /// The transactions to draw.
    pub choice: Choice,
    repeats: Repeats,
}

/// The kinds of packets and messages that carry bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Sends.
    Sends,
    /// RDMA Read responses.
    ReadResponses,
    /// RDMA Writes.
    Writes,
}

impl Moved {
    /// The names of the kinds in charts.
    pub const NAMES: [&str; 3] = ["Sends", "RDMA Read responses", "RDMA Writes"];

    fn of(operation: Operation) -> Option<Moved> {
        match operation {
            operation if operation.is_send() => Some(Moved::Sends),
            operation if operation.is_read_response() => Some(Moved::ReadResponses),
            operation if operation.is_write() => Some(Moved::Writes),
            _ => None,
        }
    }

    /// The kind of a message of RDMAP.
    fn of_message(opcode: Opcode) -> Option<Moved> {
        match opcode {
            opcode if opcode.is_send() => Some(Moved::Sends),
            Opcode::ReadResponse => Some(Moved::ReadResponses),
            Opcode::Write => Some(Moved::Writes),
            _ => None,
        }
    }
}

impl Charts {
    /// The most keys of [`Charts::operations`].
    const MOST_OPERATIONS: usize = 256;

    /// Creates charts that choose up to `ladders` transactions of each kind.
    pub fn new(ladders: usize) -> Charts {
        Charts {
            moved: Intervals::default(),
            operations: HashMap::default(),
            failures: Intervals::default(),
            latencies: Default::default(),
            credits: AllCredits::default(),
            choice: Choice::new(ladders),
            repeats: Repeats::default(),
        }
    }

    /// The engine configuration that the charts require.
    pub fn needs(&self) -> Config {
        self.repeats.needs()
    }

    /// Takes the next event of a capture that starts at `start`.
    pub fn handle(&mut self, event: &Event<'_>, start: Time) {
        match event {
            Event::Packet(packet) => self.packet(packet, start),
            Event::Transaction(transaction) => self.transaction(transaction, start),
            Event::Connection(connection) => self.repeats.forget(connection.id),
            Event::Observation(observation) => self.repeats.observe(observation),
            _ => {}
        }
    }

    /// Extends all intervals to the same end, in nanoseconds from the start.
    pub fn finish(&mut self, end: u64) {
        self.moved.at(end);
        self.operations.values_mut().for_each(|intervals| _ = intervals.at(end));
        self.failures.at(end);
        self.latencies.iter_mut().for_each(|intervals| _ = intervals.at(end));
        self.credits.finish(end);
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
        // Datagrams are CM messages, which the connection does not carry.
        if let Some(moved) = Moved::of(operation).filter(|_| headers.extensions.deth.is_none()) {
            self.add(moved, headers.payload_length.into(), packet.record.time.since(start));
        }
        self.repeats.packet(packet, operation, headers.bth.psn);
    }

    /// Adds a TCP segment of an iWARP connection: the data of its FPDUs, without the markers.
    fn segment(&mut self, packet: &Packet<'_>, start: Time) {
        let parts = packet.parts();
        for part in parts {
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
        if self.operations.len() < Charts::MOST_OPERATIONS || self.operations.contains_key(&key) {
            *self.operations.entry(key).or_default().at(ended) += 1;
        }
        if ErrorKey::of(transaction).is_some_and(|error| !error.is_ordinary()) {
            *self.failures.at(ended) += 1;
        }
        if let Some(latency) = transaction.latency() {
            let backward = transaction.direction == Direction::Backward;
            self.latencies[usize::from(backward)].at(ended).add(latency, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::connection::Counts;
    use rdmascope_dissector::engine::Engine;
    use rdmascope_tests::{samples, session};

    /// The bytes moved in a sample, the packets that its ends sent, and the number of transactions
    /// with packets that were sent again.
    fn gathered(sample: &str) -> ([u64; 3], Vec<Counts>, usize) {
        let mut gathered = Charts::new(1);
        let mut engine = Engine::new(gathered.needs());
        let (mut counts, mut again) = (Vec::new(), 0);
        let mut take = |event: Event<'_>| {
            gathered.handle(&event, Time(0));
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
    fn segment_bytes_are_charted() {
        let (moved, counts, again) = gathered("iwarp-nfs3");
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
        assert_eq!(moved[Moved::Writes as usize], sum(|it| it.written_bytes));
        assert_eq!(moved[Moved::ReadResponses as usize], sum(|it| it.read_response_bytes));
        assert!(moved[Moved::Sends as usize] > 60 * sum(|it| it.sends), "{moved:?}");
        assert_eq!(again, 0);
    }

    #[test]
    fn retransmitted_segments_belong_to_transactions() {
        let (_, counts, again) = gathered("iwarp-crc-lossy");
        assert!(counts.iter().any(|it| it.repeated_packets > 0) && again > 0, "{again}");
    }
}
