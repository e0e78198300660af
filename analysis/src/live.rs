//! The figures of a live session: rates, latencies and losses of each interval, and events as soon
//! as they are known.
//!
//! [`Meter`] counts, and [`Meter::take`] returns the [`Interval`] that ends. [`Happenings`] reports
//! events. Both take the events of the engine. Neither reads a clock; the caller decides when an
//! interval ends.

mod captured;
mod happenings;
#[cfg(test)]
mod tests;

pub use captured::Captured;
pub use happenings::{Happening, Happenings};

use crate::names::Failure;
use crate::report::{Count, Operations, Stats, payload};
use foldhash::fast::FixedState;
use rdmascope_conformance::{CreditState, Finding, Judge, Verdict};
use rdmascope_dissector::connection::{Connection, ConnectionId, State};
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use std::collections::HashMap;

/// The transactions that ended in an interval.
#[derive(Debug, Default)]
pub struct Figures {
    /// Their count, failures and latencies.
    pub stats: Stats,
    /// Payload bytes to the responder of the connection: data of WRITEs.
    pub to_responder: u64,
    /// Payload bytes to its requester: data of READs.
    pub to_requester: u64,
}

impl Count for Figures {
    fn count(&mut self, transaction: &Transaction) {
        self.stats.count(transaction);
        self.move_bytes(moved(transaction));
    }
}

impl Figures {
    fn move_bytes(&mut self, [to_responder, to_requester]: [u64; 2]) {
        self.to_responder = self.to_responder.saturating_add(to_responder);
        self.to_requester = self.to_requester.saturating_add(to_requester);
    }

    fn absorb(&mut self, halves: &Halves) {
        self.stats.count += halves.count;
        self.stats.errors += halves.errors;
        self.stats.bytes = self.stats.bytes.saturating_add(halves.moved[0]).saturating_add(halves.moved[1]);
        self.move_bytes(halves.moved);
    }
}

/// Transactions without a call or without a reply. They have no latency. They count only if the
/// capture contains both directions of their connection.
#[derive(Debug, Default)]
struct Halves {
    count: u64,
    errors: u64,
    /// Replies without a call.
    replies: u64,
    /// Payload bytes to the responder and to the requester.
    moved: [u64; 2],
}

impl Count for Halves {
    fn count(&mut self, transaction: &Transaction) {
        self.count += 1;
        self.replies += u64::from(transaction.outcome == Outcome::NoCall);
        self.errors += u64::from(Failure::of(transaction).is_some());
        for (sum, bytes) in self.moved.iter_mut().zip(moved(transaction)) {
            *sum = sum.saturating_add(bytes);
        }
    }
}

/// Whether the capture contains only the call or only the reply.
fn is_half(transaction: &Transaction) -> bool {
    matches!(transaction.outcome, Outcome::NoReply | Outcome::NoCall | Outcome::CutOff)
}

/// The payload bytes to the responder of the connection and to its requester.
pub fn moved(transaction: &Transaction) -> [u64; 2] {
    let [arguments, results] = payload(transaction);
    match transaction.direction {
        Direction::Forward => [arguments, results],
        Direction::Backward => [results, arguments],
    }
}

/// Transport counters of both ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// Packets.
    pub packets: u64,
    /// Bytes after the transport headers.
    pub bytes: u64,
    /// Retransmitted request packets.
    pub resent: u64,
    /// NAKs other than RNR NAKs.
    pub naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Request packets that are missing from the capture.
    pub missing: u64,
    /// Packets with a bad ICRC.
    pub bad_icrc: u64,
    /// Packets with a congestion mark.
    pub congestion_marks: u64,
}

impl Transport {
    /// The counters of a connection up to now.
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

    /// The difference from the earlier counters `before`.
    fn since(self, before: Transport) -> Transport {
        self.with(before, u64::saturating_sub)
    }

    /// The sum of both.
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

/// Calls without a reply yet. A call does not count if packets after it are missing from its
/// connection or from the capture, because its reply may be among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of calls.
    pub calls: u64,
    /// The time that the oldest call has waited, in nanoseconds.
    pub oldest: Option<u64>,
}

impl Waiting {
    fn add(&mut self, age: u64) {
        self.calls += 1;
        self.oldest = self.oldest.max(Some(age));
    }
}

/// The figures of one connection in an interval.
#[derive(Debug)]
pub struct OfConnection {
    /// The connection at the end of the interval, or when it ended.
    pub connection: Connection,
    /// Whether it ended in this interval.
    pub has_ended: bool,
    /// Whether the capture contains only [one direction](Connection::one_direction) of it. Figures
    /// of transactions, waiting calls and credits need both directions.
    pub one_direction: bool,
    /// The only end whose packets have been captured so far; `true` for the requester.
    sender: Option<bool>,
    /// Its transactions that ended.
    pub figures: Figures,
    /// The transport counters of its ends.
    pub transport: Transport,
    /// Its calls that wait at the end of the interval. A closed connection gets no more replies, so
    /// none of its calls wait.
    pub waiting: Waiting,
    /// The credits of forward transactions, if known.
    pub credits: Option<CreditState>,
}

impl OfConnection {
    /// Its waiting calls; `None` if the capture contains only one direction.
    pub fn waiting(&self) -> Option<Waiting> {
        (!self.one_direction).then_some(self.waiting)
    }

    /// Its transactions; `None` if the capture contains only one direction.
    pub fn figures(&self) -> Option<&Figures> {
        (!self.one_direction).then_some(&self.figures)
    }

    /// The only end with packets in the capture; `true` for the requester.
    pub fn only_sender(&self) -> Option<bool> {
        self.sender.filter(|_| self.one_direction)
    }

    /// Whether it is closed and nothing happened on it in the interval.
    pub fn is_over(&self) -> bool {
        !matches!(self.connection.state, State::Requested | State::Open)
            && self.transport == Transport::default()
            && self.figures.stats.count == 0
    }

    /// Whether its calls may still get replies.
    fn has_waiting_calls(&self) -> bool {
        self.connection.state != State::Closed && self.sender.is_none()
    }
}

/// The figures of an interval.
#[derive(Debug)]
pub struct Interval {
    /// Its start.
    pub start: Time,
    /// Its length in nanoseconds, at least 1.
    pub length: u64,
    /// Packets of all kinds.
    pub packets: u64,
    /// The bytes of these packets on the wire.
    pub bytes: u64,
    /// The time of the latest packet; `None` if there was none.
    pub last_packet: Option<Time>,
    /// Packets that were dropped before they could be captured; `None` if no count is available.
    pub dropped: Option<u64>,
    /// All transactions that ended.
    pub figures: Figures,
    /// The transport counters of all connections.
    pub transport: Transport,
    /// Calls that wait at the end of the interval.
    pub waiting: Waiting,
    /// Conclusive findings that are not allowed, inconclusive ones, and conclusive ones that are
    /// allowed.
    pub findings: [u64; 3],
    /// Connections that the engine evicted to bound memory. They count as ended.
    pub evicted: u64,
    /// The transactions by operation.
    pub operations: Operations<Figures>,
    /// The connections that are open at the end of the interval, and those that ended in it, in the
    /// order of their numbers.
    pub connections: Vec<OfConnection>,
}

impl Interval {
    /// Converts a count in this interval to a rate per second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.length as f64
    }

    /// Whether there are connections that may carry RPC-over-RDMA, and all of them are captured in
    /// one direction only.
    fn is_of_one_direction(&self) -> bool {
        let mut directions = self.connections.iter().filter(|one| !one.connection.is_foreign).peekable();
        directions.peek().is_some() && directions.all(|one| one.one_direction)
    }

    /// The transactions; `None` if all connections are captured in one direction only.
    pub fn figures(&self) -> Option<&Figures> {
        (!self.is_of_one_direction()).then_some(&self.figures)
    }

    /// The waiting calls; `None` if all connections are captured in one direction only.
    pub fn waiting(&self) -> Option<Waiting> {
        (!self.is_of_one_direction()).then_some(self.waiting)
    }

    /// Whether nothing happened in the interval.
    pub fn is_silent(&self) -> bool {
        self.packets == 0
            && self.figures.stats.count == 0
            && self.findings == [0; 3]
            && self.evicted == 0
            && self.dropped.unwrap_or(0) == 0
    }
}

/// Counts packets, events and findings by interval.
#[derive(Debug)]
pub struct Meter {
    start: Time,
    packets: u64,
    bytes: u64,
    last_packet: Option<Time>,
    /// `None` if the source has no drop count.
    dropped: Option<u64>,
    figures: Figures,
    findings: [u64; 3],
    evicted: u64,
    operations: Operations<Figures>,
    by_connection: HashMap<ConnectionId, Figures, FixedState>,
    /// Memory of the latencies of single connections, in bytes.
    latencies: usize,
    halves: HashMap<ConnectionId, Operations<Halves>, FixedState>,
    /// Connections that show only one direction, each with the end of the first interval in which
    /// this was seen.
    suspected: HashMap<ConnectionId, Time, FixedState>,
    /// The transport counters of the connections when the interval began.
    before: HashMap<ConnectionId, Transport, FixedState>,
    /// The end of the last interval in which packets of a connection were missing.
    lacking: HashMap<ConnectionId, Time, FixedState>,
    /// Connections that ended.
    ended: Vec<Connection>,
}

impl Meter {
    /// The most ended connections that one interval lists. Of further ones, only the transactions
    /// are counted.
    pub const MOST_ENDED: usize = 4096;
    /// The time for which a direction must be missing before this is reported, in nanoseconds. If
    /// the capture begins in the middle of a connection, the other end's first packet may come a
    /// moment later.
    const SETTLING: u64 = 100_000_000;
    /// The most bytes of memory for the latencies of single connections in one interval. Beyond it,
    /// a connection has no latencies in this interval.
    pub const MOST_LATENCIES: usize = 64 << 20;

    /// Creates a meter whose first interval begins at `start`.
    pub fn new(start: Time) -> Meter {
        Meter {
            start,
            packets: 0,
            bytes: 0,
            last_packet: None,
            dropped: Some(0),
            figures: Figures::default(),
            findings: [0; 3],
            evicted: 0,
            operations: Operations::default(),
            by_connection: HashMap::default(),
            halves: HashMap::default(),
            suspected: HashMap::default(),
            latencies: 0,
            before: HashMap::default(),
            lacking: HashMap::default(),
            ended: Vec::new(),
        }
    }

    /// Makes it a meter for a source that has no drop count.
    pub fn without_drops(self) -> Meter {
        Meter { dropped: None, ..self }
    }

    /// The start of the interval.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Moves the start of the interval to `start`, if nothing has happened since its old start.
    pub fn skip(&mut self, start: Time) {
        self.start = start;
    }

    /// Takes a packet of the capture.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        self.packets += 1;
        self.bytes += u64::from(record.wire_length());
        self.last_packet = self.last_packet.max(Some(record.time));
        if let Some(dropped) = &mut self.dropped {
            *dropped += u64::from(record.dropped);
        }
    }

    /// Takes an event of the engine.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) if is_half(transaction) => {
                self.halves.entry(transaction.connection).or_default().count(transaction);
            }
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
            Event::Eviction(Eviction::Connection(_)) => self.evicted += 1,
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
            + self.halves.capacity() * size_of::<(ConnectionId, Operations<Halves>)>()
            + self.suspected.capacity() * size_of::<(ConnectionId, Time)>()
            + self.before.capacity() * size_of::<(ConnectionId, Transport)>()
            + self.lacking.capacity() * size_of::<(ConnectionId, Time)>()
            + self.ended.capacity() * size_of::<Connection>()
    }

    /// Takes a finding of the judge.
    pub fn finding(&mut self, finding: &Finding, is_allowed: bool) {
        let place = match finding.verdict {
            Verdict::Inconclusive => 1,
            Verdict::Certain if is_allowed => 2,
            Verdict::Certain => 0,
        };
        self.findings[place] += 1;
    }

    /// Ends the interval at `end`, the time that engine and judge have reached. The next interval
    /// begins there.
    pub fn take(&mut self, end: Time, engine: &Engine, judge: &Judge) -> Interval {
        let ended = core::mem::take(&mut self.ended).into_iter().map(|connection| (connection, true));
        let open = engine.connections().map(|connection| (connection, false));
        let listed: Vec<(Connection, bool)> = ended.chain(open).collect();
        let alone = self.settle(&listed, end);
        let Meter {
            start,
            packets,
            bytes,
            last_packet,
            dropped,
            figures,
            findings,
            evicted,
            operations,
            mut by_connection,
            latencies: _,
            before,
            mut lacking,
            halves,
            suspected,
            ..
        } = core::mem::replace(self, Meter::new(end));
        self.dropped = dropped.map(|_| 0);
        (self.halves, self.suspected) = (halves, suspected);
        let mut connections: Vec<OfConnection> = listed
            .into_iter()
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
                let (sender, one_direction) = alone.get(&id).copied().unzip();
                let has_credits = sender.is_none() && connection.state != State::Closed;
                OfConnection {
                    has_ended,
                    one_direction: one_direction.unwrap_or(false),
                    sender,
                    figures: by_connection.remove(&id).unwrap_or_default(),
                    transport,
                    waiting: Waiting::default(),
                    credits: judge.credits(id).filter(|_| has_credits).map(|[forward, _]| forward),
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
            let place = connections.binary_search_by_key(&open.connection, |one| one.connection.id);
            let one = place.ok().map(|place| &mut connections[place]);
            if one.as_ref().is_some_and(|one| !one.has_waiting_calls()) {
                continue;
            }
            let age = end.since(open.since.time);
            waiting.add(age);
            if let Some(one) = one {
                one.waiting.add(age);
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
            last_packet,
            dropped,
            figures,
            transport,
            waiting,
            findings,
            evicted,
            operations,
            connections,
        }
    }

    /// Counts the half transactions of connections with both directions, and drops those of
    /// connections with one. Returns the only sender of each of the latter, and whether that is
    /// settled.
    fn settle(
        &mut self,
        listed: &[(Connection, bool)],
        end: Time,
    ) -> HashMap<ConnectionId, (bool, bool), FixedState> {
        let mut halves = core::mem::take(&mut self.halves);
        let suspected = core::mem::take(&mut self.suspected);
        let mut alone = HashMap::default();
        for (connection, has_ended) in listed {
            let id = connection.id;
            let before = suspected.get(&id);
            let has_replies = halves.get(&id).is_some_and(|of| of.iter().any(|(_, of)| of.replies > 0));
            let Some(sender) = only_sender(connection, has_replies || before.is_some()) else { continue };
            let of = halves.remove(&id).unwrap_or_default();
            let since = before.copied().unwrap_or(end);
            let is_settled = *has_ended || end.since(since) >= Meter::SETTLING;
            alone.insert(id, (sender, is_settled));
            self.suspected.insert(id, since);
            if !is_settled {
                self.halves.insert(id, of);
            }
        }
        halves.iter().for_each(|(id, of)| self.absorb(*id, of));
        alone
    }

    fn absorb(&mut self, id: ConnectionId, halves: &Operations<Halves>) {
        for (key, of) in halves.iter() {
            self.figures.absorb(of);
            self.operations.of(*key).absorb(of);
            self.by_connection.entry(id).or_default().absorb(of);
        }
    }
}

/// The only end with packets in the capture, if it acknowledged or replied to packets of the other
/// end.
fn only_sender(connection: &Connection, has_replies: bool) -> Option<bool> {
    let Connection { requester, responder, .. } = connection;
    connection.one_direction().or(match [responder.is_absent(requester), requester.is_absent(responder)] {
        [true, false] if has_replies => Some(true),
        [false, true] if has_replies => Some(false),
        _ => None,
    })
}
