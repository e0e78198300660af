//! Acknowledgements of the Sends of each end, and round-trip times.
//!
//! A Send is acknowledged by the first packet of the other end that names its last position or a
//! later one: an ACK, a NAK for a later packet, or an RDMA Read response (IBTA volume 1, section
//! 9.7.5.1). One such packet may acknowledge several Sends, so for a transaction it gives only an
//! upper bound on the arrival of its call. A round-trip time is taken only if an ACK names the Send
//! itself.

mod histogram;

use super::Session;
use crate::connection::RoundTrips;
use crate::rc::{Packet, Response};
use crate::rdma::{End, Position, Send};
use crate::record::{Seen, Time};
use crate::rpcrdma::{Peers, Slot, Transactions};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use histogram::Histogram;
use rdmascope_wire::bth::Operation;

/// The unacknowledged Sends of one end, oldest first, and the round-trip times of the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledgements {
    waiting: VecDeque<Waiting>,
    round_trips: Option<Box<Histogram>>,
    /// Acknowledgements seen while requests waited, oldest first. Sends that they cover may be
    /// delivered later.
    early: VecDeque<(Position, Seen)>,
    /// The number of repeated or reordered packets of this end, as of the last check.
    disturbed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    last: Position,
    sent: Time,
    /// The transaction, if the Send is its call.
    call: Option<Slot>,
    /// Whether no packet was retransmitted meanwhile, so the ACK answers a known transmission.
    is_certain: bool,
}

impl Acknowledgements {
    /// Maximum number of Sends waiting for an ACK. Beyond it, the oldest is dropped without one.
    const MOST: usize = 64;

    /// Adds a Send. `call` is the transaction that it began.
    #[inline]
    pub(super) fn note(
        &mut self,
        send: &Send<'_>,
        call: Option<Slot>,
        peers: &Peers,
        transactions: &mut Transactions,
    ) {
        // If the end of the Send was not captured, its last position is unknown.
        if send.length.is_none() {
            return;
        }
        let last = send.last();
        if self.early.back().is_some_and(|(acknowledged, _)| last.is_covered_by(*acknowledged)) {
            let seen = self.early.iter().find(|(acknowledged, _)| last.is_covered_by(*acknowledged));
            if let (Some(call), Some((_, seen))) = (call, seen) {
                transactions.note_acknowledged(call, *seen, peers);
            }
            return;
        }
        if let Some(before) = self.waiting.back() {
            let window = last.window();
            match before.last.distance(last) {
                ahead if (1..=window).contains(&ahead) => {}
                // A late Send: later Sends may have been acknowledged already.
                ahead if (-window..=0).contains(&ahead) => return,
                _ => self.waiting.clear(),
            }
        }
        if self.waiting.len() == Self::MOST {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { last, sent: send.seen.time, call, is_certain: true });
    }

    /// Adds an acknowledgement seen while requests wait.
    #[cold]
    fn note_early(&mut self, acknowledged: (Position, Seen)) {
        if self.early.len() == Self::MOST {
            self.early.pop_front();
        }
        self.early.push_back(acknowledged);
    }

    /// Whether an acknowledgement covers a waiting Send.
    #[inline]
    fn is_covered(&self, acknowledged: Option<(Position, Seen)>) -> bool {
        let (Some(first), Some((acknowledged, _))) = (self.waiting.front(), acknowledged) else {
            return false;
        };
        first.last.is_covered_by(acknowledged)
    }

    /// Round-trip times of its Sends.
    pub(super) fn round_trips(&self) -> Option<RoundTrips> {
        self.round_trips.as_ref()?.summary()
    }

    /// Bytes of memory on the heap; a clone uses the same amount.
    pub(super) fn footprint(&self) -> usize {
        self.waiting.len() * size_of::<Waiting>()
            + self.early.len() * size_of::<(Position, Seen)>()
            + self.round_trips.as_ref().map_or(0, |_| size_of::<Histogram>())
    }
}

impl Session {
    /// Notes the Sends that a packet of end `side` acknowledges. For a request, notes which Sends
    /// it completes that were acknowledged before: the capture may have the ACK first.
    #[inline]
    pub(super) fn note_acknowledged(
        &mut self,
        side: End,
        packet: &Packet<'_>,
        transactions: &mut Transactions,
    ) {
        let sender = if packet.operation.is_response() { side.other() } else { side };
        let is_ack =
            || packet.operation == Operation::Acknowledge && packet.response() == Response::Acknowledged;
        self.note_acknowledged_of(sender, packet.seen, is_ack, transactions);
    }

    /// Notes the acknowledged Sends of an end, with the packet just handled. `is_ack` returns
    /// whether that packet is only an acknowledgement.
    #[inline]
    pub(super) fn note_acknowledged_of(
        &mut self,
        sender: End,
        packet: Seen,
        is_ack: impl Fn() -> bool,
        transactions: &mut Transactions,
    ) {
        let acknowledged = self.transport.acknowledged(sender);
        if self.ends[sender].acknowledgements.is_covered(acknowledged) {
            self.take_acknowledged(sender, packet, is_ack(), transactions);
        }
        if self.waits(sender)
            && let Some(acknowledged) = acknowledged.filter(|(_, seen)| *seen == packet)
        {
            self.ends[sender].acknowledgements.note_early(acknowledged);
        }
    }

    fn take_acknowledged(
        &mut self,
        sender: End,
        packet: Seen,
        is_ack: bool,
        transactions: &mut Transactions,
    ) {
        let Some(acknowledged) = self.transport.acknowledged(sender) else { return };
        let disturbed = self.transport.disturbed(sender);
        let kept = &mut self.ends[sender].acknowledgements;
        if core::mem::replace(&mut kept.disturbed, disturbed) != disturbed {
            kept.waiting.iter_mut().for_each(|waiting| waiting.is_certain = false);
        }
        while kept.is_covered(Some(acknowledged)) {
            let (position, seen) = acknowledged;
            let Some(Waiting { last, sent, call, is_certain }) = kept.waiting.pop_front() else { return };
            if is_ack && is_certain && last == position && seen == packet {
                let round_trip = seen.time.since(sent);
                kept.round_trips.get_or_insert_default().record(round_trip);
                self.peers.flights[sender.other()].note_round_trip(round_trip);
            }
            if let Some(call) = call {
                transactions.note_acknowledged(call, seen, &self.peers);
            }
        }
    }
}

#[cfg(test)]
mod tests;
