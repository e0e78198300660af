//! Packets that were sent again: those with a PSN seen before, and repeated TCP segments.

use core::fmt;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{ConnectionId, FlowKey};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::observation::{Observation, Observe, Observed, Repeated};
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_wire::bth::Operation;
use rdmascope_wire::psn::Psn;
use std::collections::{HashMap, VecDeque};

/// The latest packets that were sent again.
#[derive(Debug, Default)]
pub struct Repeats {
    streams: HashMap<Key, Stream, FixedState>,
    /// Segments of iWARP connections, by connection and by whether the end that opened it sent
    /// them.
    segments: HashMap<(ConnectionId, bool), VecDeque<Again>, FixedState>,
}

/// A TCP segment that was sent again.
#[derive(Clone, Copy, Debug)]
struct Again {
    frame: u64,
    position: Position,
    bytes: u32,
}

/// A half-flow of a connection, with its requests (`false`) or its RDMA READ responses (`true`),
/// which have PSNs of the other end. The connection is part of the key because another one may use
/// the same queue pairs later.
type Key = (ConnectionId, FlowKey, bool);

impl Repeats {
    /// The most streams that are kept.
    const MOST_STREAMS: usize = 1024;

    /// The engine configuration that is required.
    pub fn needs(&self) -> Config {
        let keep = Keep { steps: true, contents: false };
        Config { report_packets: true, observe: Observe::Events, keep, ..Config::default() }
    }

    /// Takes a packet.
    pub fn packet(&mut self, packet: &Packet<'_>, operation: Operation, psn: Psn) {
        let (Some(connection), Some(flow)) = (packet.connection, packet.flow()) else { return };
        let is_response = operation.is_read_response();
        let is_read_request = operation == Operation::ReadRequest;
        if !(operation.is_send() || operation.is_write() || is_response || is_read_request) {
            return;
        }
        let key = (connection, flow, is_response);
        if self.streams.len() >= Repeats::MOST_STREAMS && !self.streams.contains_key(&key) {
            return;
        }
        let stream = self.streams.entry(key).or_insert_with(|| Stream::before(psn));
        // An RDMA READ request may ask again for the rest of an earlier one; the step shows whether
        // it does.
        if stream.add(psn) || is_read_request {
            stream.note(packet.record.number, psn);
        }
    }

    /// Takes an observation, and notes a TCP segment that was sent again.
    pub fn observe(&mut self, observation: &Observation<'_>) {
        let Observed::Repeated(Repeated { from, seen, position, bytes, .. }) = observation.kind else {
            return;
        };
        let key = (observation.connection, from == observation.requester);
        let has_room = self.segments.len() < Repeats::MOST_STREAMS || self.segments.contains_key(&key);
        if position.counts_bytes() && has_room {
            let segments = self.segments.entry(key).or_default();
            if segments.len() == Stream::MOST_LATEST {
                segments.pop_front();
            }
            segments.push_back(Again { frame: seen.frame, position, bytes });
        }
    }

    /// Forgets a connection that ended with all its transactions.
    pub fn forget(&mut self, ended: ConnectionId) {
        self.streams.retain(|(connection, ..), _| *connection != ended);
        self.segments.retain(|(connection, _), _| *connection != ended);
    }

    /// Whether packets of `transaction` were sent again.
    pub(crate) fn any_of(&self, transaction: &Transaction) -> bool {
        let Some(kept) = &transaction.exchange else { return false };
        kept.steps.iter().any(|step| {
            if step.position.counts_bytes() {
                let by_requester = step.from_caller == (transaction.direction == Direction::Forward);
                let segments = self.segments.get(&(transaction.connection, by_requester));
                return segments.into_iter().flatten().any(|segment| {
                    let ahead = i64::from(step.position.distance(segment.position));
                    let overlaps = ahead < step.extent.into() && ahead + i64::from(segment.bytes) > 0;
                    segment.frame > step.first.frame && overlaps
                });
            }
            let Some(flow) = kept.flows[usize::from(!step.from_caller)] else { return false };
            let key = (transaction.connection, flow, step.kind == StepKind::ReadResponse);
            let Some(stream) = self.streams.get(&key) else { return false };
            stream.latest.iter().any(|(frame, psn)| {
                let ahead = step.position.distance((*psn).into());
                *frame > step.first.frame && u32::try_from(ahead).is_ok_and(|ahead| ahead < step.extent)
            })
        })
    }
}

/// The latest PSNs seen in a stream.
struct Stream {
    /// The PSN furthest ahead.
    furthest: Psn,
    /// A bit for each PSN up to `furthest`, indexed by the PSN's lower bits.
    seen: Box<[u64; Stream::WORDS]>,
    /// Frame and PSN of the latest packets that may have been sent again.
    latest: VecDeque<(u64, Psn)>,
}

impl Stream {
    const WORDS: usize = 512;
    /// The number of PSNs that are distinguished.
    const WINDOW: i32 = 64 * Stream::WORDS as i32;

    /// The most packets in `latest`.
    const MOST_LATEST: usize = 64;

    /// A stream that begins with this PSN.
    fn before(psn: Psn) -> Stream {
        Stream { furthest: psn.minus(1), seen: Box::new([0; Stream::WORDS]), latest: VecDeque::new() }
    }

    /// Adds a PSN, and returns whether it was seen before.
    fn add(&mut self, psn: Psn) -> bool {
        let ahead = self.furthest.distance(psn);
        if ahead <= -Stream::WINDOW {
            return false;
        }
        if ahead >= Stream::WINDOW {
            self.seen.fill(0);
        } else {
            for skipped in 1..=ahead {
                let (word, bit) = Stream::place(self.furthest.plus(skipped.unsigned_abs()));
                self.seen[word] &= !bit;
            }
        }
        if ahead > 0 {
            self.furthest = psn;
        }
        let (word, bit) = Stream::place(psn);
        let before = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        before
    }

    fn note(&mut self, frame: u64, psn: Psn) {
        if self.latest.len() == Stream::MOST_LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((frame, psn));
    }

    fn place(psn: Psn) -> (usize, u64) {
        let place = psn.value() as usize % (64 * Stream::WORDS);
        (place / 64, 1 << (place % 64))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("furthest", &self.furthest).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_psn_seen_before_is_a_retransmission() {
        let mut stream = Stream::before(Psn::new(0xff_fffe));
        let order = [0xff_fffe, 0xff_ffff, 1, 0, 1, 2, 0xff_fffe, 40_000, 2, 39_999, 40_000, 39_999];
        let again: Vec<_> = order.into_iter().filter(|psn| stream.add(Psn::new(*psn))).collect();
        // At PSN 40,000, PSN 2 is outside the window.
        assert_eq!(again, [1, 0xff_fffe, 40_000, 39_999]);
    }

    #[test]
    fn psns_outside_the_window_are_forgotten() {
        let mut stream = Stream::before(Psn::new(0));
        let window = Stream::WINDOW.unsigned_abs();
        for psn in 0..3 * window {
            assert!(!stream.add(Psn::new(psn)), "{psn}");
        }
        assert!(stream.add(Psn::new(2 * window)));
        assert!(!stream.add(Psn::new(2 * window - 1)));
    }
}
