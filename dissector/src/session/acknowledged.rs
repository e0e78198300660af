//! When the Sends of an end were acknowledged, and how long that took.
//!
//! What acknowledges a Send is the first packet of the other end that names its last position or one behind it: an ACK, a NAK for what comes
//! later, an RDMA Read response (IBTA volume 1, section 9.7.5.1). One of them may stand for several Sends, so what is noted of a transaction
//! is the latest moment by which its call had arrived. A round-trip time is taken only where an ACK names the Send itself.

mod histogram;

use super::Session;
use crate::connection::RoundTrips;
use crate::rc::{Packet, Response};
use crate::rdma::{End, Position, Send};
use crate::record::{Seen, Time};
use crate::rpcrdma::{Slot, Transactions};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use histogram::Histogram;
use rdmascope_wire::bth::Operation;

/// The Sends of one end that were not seen to be acknowledged, oldest first, and how long it took for those that were.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledgements {
    waiting: VecDeque<Waiting>,
    round_trips: Option<Box<Histogram>>,
    /// What was acknowledged while requests waited, oldest first: Sends among these are handed up later.
    early: VecDeque<(Position, Seen)>,
    /// Packets of this end that came again or late, as last looked at.
    disturbed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    last: Position,
    sent: Time,
    /// The transaction, where the Send is its call.
    call: Option<Slot>,
    /// No packet was sent again meanwhile: it is certain which transmission the ACK answers.
    is_certain: bool,
}

/// Whether what is acknowledged up to `acknowledged` has the Send whose last position this is.
#[inline]
fn covers(acknowledged: Position, last: Position) -> bool {
    (0..=last.window()).contains(&last.distance(acknowledged))
}

impl Acknowledgements {
    /// Sends that wait for their ACK. What comes on top makes the oldest one's ACK unknown.
    const MOST: usize = 64;

    /// Takes a Send; `call`: the transaction that it began.
    #[inline]
    pub(super) fn note(&mut self, send: &Send<'_>, call: Option<Slot>, transactions: &mut Transactions) {
        // Where its end was not captured, it is not known which position that has.
        if send.length.is_none() {
            return;
        }
        let last = send.position.plus(send.extent.saturating_sub(1));
        if self.early.back().is_some_and(|(acknowledged, _)| covers(*acknowledged, last)) {
            let seen = self.early.iter().find(|(acknowledged, _)| covers(*acknowledged, last));
            if let (Some(call), Some((_, seen))) = (call, seen) {
                transactions.note_acknowledged(call, *seen);
            }
            return;
        }
        if let Some(before) = self.waiting.back() {
            let window = last.window();
            match before.last.distance(last) {
                ahead if (1..=window).contains(&ahead) => {}
                // One that comes late: what is behind it may have been acknowledged already.
                ahead if (-window..=0).contains(&ahead) => return,
                _ => self.waiting.clear(),
            }
        }
        if self.waiting.len() == Self::MOST {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { last, sent: send.seen.time, call, is_certain: true });
    }

    /// Takes what was acknowledged while requests wait.
    #[cold]
    fn note_early(&mut self, acknowledged: (Position, Seen)) {
        if self.early.len() == Self::MOST {
            self.early.pop_front();
        }
        self.early.push_back(acknowledged);
    }

    /// Whether what was acknowledged covers a Send that waits.
    #[inline]
    fn is_covered(&self, acknowledged: Option<(Position, Seen)>) -> bool {
        let (Some(first), Some((acknowledged, _))) = (self.waiting.front(), acknowledged) else {
            return false;
        };
        covers(acknowledged, first.last)
    }

    /// How long it took from its Sends to their ACKs.
    pub(super) fn round_trips(&self) -> Option<RoundTrips> {
        self.round_trips.as_ref()?.summary()
    }

    /// Bytes of memory that it takes up beside itself; a clone takes up as many.
    pub(super) fn footprint(&self) -> usize {
        self.waiting.len() * size_of::<Waiting>()
            + self.early.len() * size_of::<(Position, Seen)>()
            + self.round_trips.as_ref().map_or(0, |_| size_of::<Histogram>())
    }
}

impl Session {
    /// Notes which Sends a packet of end `side` acknowledges; or, where it is a request, which of those that it completes were acknowledged
    /// before: the capture may show the ACK first.
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

    /// Notes which Sends of an end are acknowledged, with a packet that was taken; `is_ack`: it acknowledges, and does nothing else.
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
                kept.round_trips.get_or_insert_default().record(seen.time.since(sent));
            }
            if let Some(call) = call {
                transactions.note_acknowledged(call, seen);
            }
        }
    }
}

#[cfg(test)]
mod tests;
