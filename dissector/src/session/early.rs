//! Packets that the capture shows before what they answer.
//!
//! A host answers nothing that it has not received. But a capture may show the two half-flows of a connection shifted against each
//! other, and it may lack part of a call, so that the call is not put together yet when its consequences come by. Such packets
//! are kept back, for as long as captures reorder.

use crate::rc::{self, HeldPacket, Packet};
use crate::record::Time;
use crate::transaction::Seen;
use alloc::collections::VecDeque;

/// The packets of one end that are kept back, in the order of the capture.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    packets: VecDeque<HeldPacket>,
    requests: usize,
}

impl Early {
    /// Packets kept back at once.
    const MOST: usize = 64;

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether requests are kept back: those that follow have to wait behind them.
    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        let payload = self.packets.iter().map(|kept| kept.captured());
        self.packets.len() * size_of::<HeldPacket>() + payload.sum::<usize>()
    }

    pub(super) fn keep(&mut self, packet: &Packet<'_>) {
        self.requests += usize::from(!packet.operation.is_response());
        self.packets.push_back(HeldPacket::new(packet));
    }

    /// Whether the packet kept longest has waited long enough.
    pub(super) fn is_due(&self, now: Seen) -> bool {
        let (nanoseconds, packets) = rc::REORDERING;
        self.packets.len() > Early::MOST
            || self.packets.front().is_some_and(|kept| {
                now.time.since(kept.seen().time) > nanoseconds
                    || now.frame.saturating_sub(kept.seen().frame) > u64::from(packets)
            })
    }

    /// When the packet kept longest has waited long enough.
    pub(super) fn deadline(&self) -> Option<Time> {
        Some(self.packets.front()?.seen().time.plus(rc::REORDERING.0 + 1))
    }

    /// The packet kept longest.
    pub(super) fn first(&self) -> Option<Seen> {
        self.packets.front().map(HeldPacket::seen)
    }

    /// Takes the packet kept longest.
    pub(super) fn take_first(&mut self) -> Option<HeldPacket> {
        self.take(0)
    }

    /// Takes the first packet that may go on: the first request, or a response before or behind it.
    pub(super) fn take_ready(&mut self, is_ready: impl Fn(&Packet<'_>) -> bool) -> Option<HeldPacket> {
        let mut behind_a_request = false;
        let found = self.packets.iter().position(|kept| {
            let is_request = kept.is_request();
            let waits = is_request && core::mem::replace(&mut behind_a_request, true);
            !waits && is_ready(&kept.packet())
        });
        self.take(found?)
    }

    fn take(&mut self, index: usize) -> Option<HeldPacket> {
        let kept = self.packets.remove(index)?;
        self.requests -= usize::from(kept.is_request());
        Some(kept)
    }
}
