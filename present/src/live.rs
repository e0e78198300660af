//! What is shown of a session while it goes on: rates, latencies and losses of each interval, and events as soon as they are known.
//!
//! [`Meter`] counts what comes by, and [`Meter::take`] gives the [`Interval`] that ends. [`Happenings`] tells events. Both are handed what the
//! engine reports, and know no clock: whoever has one says when an interval is over.

mod captured;
mod happenings;
#[cfg(test)]
mod tests;

pub use captured::Captured;
pub use happenings::{Happening, Happenings};

use crate::report::{Count, Operations, Stats};
use foldhash::fast::FixedState;
use rdmascope_conformance::{CreditState, Finding, Judge, Verdict};
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::{Direction, Transaction};
use std::collections::HashMap;

/// The transactions that ended in an interval.
#[derive(Debug, Default)]
pub struct Figures {
    /// How many, how many of them failed, and their latencies.
    pub stats: Stats,
    /// Payload bytes that went to the responder of the connection: data of WRITEs.
    pub to_responder: u64,
    /// Payload bytes that went to its requester: data of READs.
    pub to_requester: u64,
}

impl Count for Figures {
    fn count(&mut self, transaction: &Transaction) {
        self.stats.count(transaction);
        let [arguments, results] = payload(transaction);
        let is_forward = transaction.direction == Direction::Forward;
        let (to_responder, to_requester) =
            if is_forward { (arguments, results) } else { (results, arguments) };
        self.to_responder = self.to_responder.saturating_add(to_responder);
        self.to_requester = self.to_requester.saturating_add(to_requester);
    }
}

/// The bytes of DDP-eligible items of arguments and of results; where there are none, what RDMA Read and RDMA Write moved.
fn payload(transaction: &Transaction) -> [u64; 2] {
    let mut sums = [0, 0];
    for operation in &transaction.details.operations {
        for (sum, item) in sums.iter_mut().zip([operation.argument_item, operation.result_item]) {
            *sum += item.map_or(0, |item| u64::from(item.length));
        }
    }
    match sums {
        [0, 0] => [transaction.timing.read_bytes, transaction.timing.written_bytes],
        sums => sums,
    }
}

/// What both ends of a connection sent, as far as the transport goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// Packets.
    pub packets: u64,
    /// Bytes behind the transport headers.
    pub bytes: u64,
    /// Request packets that were sent again.
    pub resent: u64,
    /// NAKs, but RNR NAKs.
    pub naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Request packets that the capture lacks.
    pub missing: u64,
    /// Packets with a bad ICRC.
    pub bad_icrc: u64,
    /// Packets that say that there is congestion on their way.
    pub congestion_marks: u64,
}

impl Transport {
    /// What a connection has sent by now.
    fn of(connection: &Connection) -> Transport {
        let ends = [&connection.requester.sent, &connection.responder.sent];
        ends.into_iter().fold(Transport::default(), |sum, sent| Transport {
            packets: sum.packets + sent.packets,
            bytes: sum.bytes + sent.bytes,
            resent: sum.resent + sent.repeated_packets,
            naks: sum.naks + sent.sequence_naks + sent.fatal_naks,
            rnr_naks: sum.rnr_naks + sent.rnr_naks,
            missing: sum.missing + sent.missing_packets,
            bad_icrc: sum.bad_icrc + sent.bad_icrc,
            congestion_marks: sum.congestion_marks + sent.congestion_marks,
        })
    }

    /// What was sent after `before`.
    fn since(self, before: Transport) -> Transport {
        self.with(before, u64::saturating_sub)
    }

    /// Both together.
    pub fn plus(self, other: Transport) -> Transport {
        self.with(other, u64::saturating_add)
    }

    fn with(self, other: Transport, join: fn(u64, u64) -> u64) -> Transport {
        Transport {
            packets: join(self.packets, other.packets),
            bytes: join(self.bytes, other.bytes),
            resent: join(self.resent, other.resent),
            naks: join(self.naks, other.naks),
            rnr_naks: join(self.rnr_naks, other.rnr_naks),
            missing: join(self.missing, other.missing),
            bad_icrc: join(self.bad_icrc, other.bad_icrc),
            congestion_marks: join(self.congestion_marks, other.congestion_marks),
        }
    }
}

/// Calls without a reply yet. Those before which packets of their connection, or of the capture, are missing do not count: their reply may be among these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub calls: u64,
    /// For how long the oldest has waited, in nanoseconds.
    pub oldest: Option<u64>,
}

impl Waiting {
    fn add(&mut self, age: u64) {
        self.calls += 1;
        self.oldest = self.oldest.max(Some(age));
    }
}

/// What came by on one connection in an interval.
#[derive(Debug)]
pub struct OfConnection {
    /// The connection, as it is at the end of the interval or was when it ended.
    pub connection: Connection,
    /// It ended in this interval.
    pub has_ended: bool,
    /// Its transactions that ended.
    pub figures: Figures,
    /// What its ends sent.
    pub transport: Transport,
    /// Its calls that wait at the end of the interval.
    pub waiting: Waiting,
    /// The credits of forward transactions, as far as they are known.
    pub credits: Option<CreditState>,
}

/// What came by in a span of time.
#[derive(Debug)]
pub struct Interval {
    /// When it began.
    pub start: Time,
    /// How long it was, in nanoseconds; at least 1.
    pub length: u64,
    /// Packets of whatever kind, and their bytes on the wire.
    pub packets: u64,
    /// See [`Interval::packets`].
    pub bytes: u64,
    /// Packets that were dropped before they could be captured; `None`: nobody counts them.
    pub dropped: Option<u64>,
    /// All transactions that ended.
    pub figures: Figures,
    /// What the ends of all connections sent.
    pub transport: Transport,
    /// Calls that wait at its end.
    pub waiting: Waiting,
    /// Findings that stand, and those that may not.
    pub findings: [u64; 2],
    /// Connections that the engine gave up to bound memory. They count as ended.
    pub given_up: u64,
    /// The transactions by operation.
    pub operations: Operations<Figures>,
    /// The connections that are open at its end, and those that ended in it, in the order of their numbers.
    pub connections: Vec<OfConnection>,
}

impl Interval {
    /// Of so many in this interval: how many a second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.length as f64
    }

    /// Whether anything came by.
    pub fn is_silent(&self) -> bool {
        self.packets == 0
            && self.figures.stats.count == 0
            && self.findings == [0, 0]
            && self.given_up == 0
            && self.dropped.unwrap_or(0) == 0
    }
}

/// Counts what comes by.
#[derive(Debug)]
pub struct Meter {
    start: Time,
    packets: u64,
    bytes: u64,
    /// `None`: nobody counts them.
    dropped: Option<u64>,
    figures: Figures,
    findings: [u64; 2],
    given_up: u64,
    operations: Operations<Figures>,
    by_connection: HashMap<ConnectionId, Figures, FixedState>,
    /// Memory of their latencies, in bytes.
    latencies: usize,
    /// What the connections had sent when the interval began.
    before: HashMap<ConnectionId, Transport, FixedState>,
    /// The end of the last interval in which packets of a connection were missing.
    lacking: HashMap<ConnectionId, Time, FixedState>,
    /// Connections that ended.
    ended: Vec<Connection>,
}

impl Meter {
    /// Connections that end within one interval and are told of. What further ones sent is not counted, but for their transactions.
    pub const MOST_ENDED: usize = 4096;
    /// Bytes of memory for the latencies of single connections within one interval. Beyond it, a
    /// connection has no latencies in this interval.
    pub const MOST_LATENCIES: usize = 64 << 20;

    /// The first interval begins at `start`.
    pub fn new(start: Time) -> Meter {
        Meter {
            start,
            packets: 0,
            bytes: 0,
            dropped: Some(0),
            figures: Figures::default(),
            findings: [0, 0],
            given_up: 0,
            operations: Operations::default(),
            by_connection: HashMap::default(),
            latencies: 0,
            before: HashMap::default(),
            lacking: HashMap::default(),
            ended: Vec::new(),
        }
    }

    /// Of a source that cannot tell how many packets were dropped.
    pub fn without_drops(self) -> Meter {
        Meter { dropped: None, ..self }
    }

    /// When the interval began.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Nothing came by since the interval began: it begins at `start`.
    pub fn skip(&mut self, start: Time) {
        self.start = start;
    }

    /// Takes in a packet of the capture.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        self.packets += 1;
        self.bytes += u64::from(record.original_length);
        if let Some(dropped) = &mut self.dropped {
            *dropped += u64::from(record.dropped);
        }
    }

    /// Takes in what the engine reports.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => {
                self.figures.count(transaction);
                self.operations.count(transaction);
                self.count(transaction);
            }
            Event::Connection(connection) if self.ended.len() < Meter::MOST_ENDED => {
                self.ended.push((*connection).clone());
            }
            Event::Connection(connection) => {
                let figures = self.by_connection.remove(&connection.id);
                self.latencies -= figures.map_or(0, |figures| figures.stats.footprint());
            }
            Event::Eviction(Eviction::Connection(_)) => self.given_up += 1,
            _ => {}
        }
    }

    /// Counts a transaction for its connection.
    fn count(&mut self, transaction: &Transaction) {
        let figures = self.by_connection.entry(transaction.connection).or_default();
        self.latencies -= figures.stats.footprint();
        figures.count(transaction);
        if self.latencies + figures.stats.footprint() > Meter::MOST_LATENCIES {
            figures.stats.become_brief();
        }
        self.latencies += figures.stats.footprint();
    }

    /// Memory of the tables of connections, in bytes.
    pub fn footprint(&self) -> usize {
        self.latencies
            + self.by_connection.capacity() * size_of::<(ConnectionId, Figures)>()
            + self.before.capacity() * size_of::<(ConnectionId, Transport)>()
            + self.lacking.capacity() * size_of::<(ConnectionId, Time)>()
            + self.ended.capacity() * size_of::<Connection>()
    }

    /// Takes in what the judge found.
    pub fn finding(&mut self, finding: &Finding) {
        self.findings[usize::from(finding.verdict == Verdict::Inconclusive)] += 1;
    }

    /// Ends the interval at `end`, where engine and judge have come so far. The next one begins there.
    pub fn take(&mut self, end: Time, engine: &Engine, judge: &Judge) -> Interval {
        let Meter {
            start,
            packets,
            bytes,
            dropped,
            figures,
            findings,
            given_up,
            operations,
            mut by_connection,
            latencies: _,
            before,
            mut lacking,
            ended,
        } = core::mem::replace(self, Meter::new(end));
        self.dropped = dropped.map(|_| 0);
        let open = engine.connections().map(|connection| (connection, false));
        let mut connections: Vec<OfConnection> = ended
            .into_iter()
            .map(|connection| (connection, true))
            .chain(open)
            .map(|(connection, has_ended)| {
                let id = connection.id;
                let sent = Transport::of(&connection);
                let transport = sent.since(before.get(&id).copied().unwrap_or_default());
                if !has_ended {
                    self.before.insert(id, sent);
                }
                if transport.missing > 0 || dropped.is_some_and(|dropped| dropped > 0) {
                    lacking.insert(id, end);
                }
                OfConnection {
                    has_ended,
                    figures: by_connection.remove(&id).unwrap_or_default(),
                    transport,
                    waiting: Waiting::default(),
                    credits: judge.credits(id).map(|[forward, _]| forward),
                    connection,
                }
            })
            .collect();
        connections.sort_by_key(|one| one.connection.id);
        let mut waiting = Waiting::default();
        for open in engine.open_transactions() {
            if lacking.get(&open.connection).is_some_and(|time| open.since.time <= *time) {
                continue;
            }
            let age = end.since(open.since.time);
            waiting.add(age);
            if let Ok(place) = connections.binary_search_by_key(&open.connection, |one| one.connection.id) {
                connections[place].waiting.add(age);
            }
        }
        let transport = connections.iter().fold(Transport::default(), |sum, one| sum.plus(one.transport));
        lacking.retain(|id, _| self.before.contains_key(id));
        self.lacking = lacking;
        Interval {
            start,
            length: end.since(start).max(1),
            packets,
            bytes,
            dropped,
            figures,
            transport,
            waiting,
            findings,
            given_up,
            operations,
            connections,
        }
    }
}
