//! Early deliveries: operations of an end that answer a message which was not seen yet.
//!
//! They wait here in the order of their sender, and later requests queue up after a waiting one. An
//! RDMA READ response waits for its request, which waits at the other end.

use crate::rdma::{Delivery, HeldDelivery, Position};
use crate::record::{Seen, Time};
use crate::rpcrdma::reply_xid;
use crate::waiting::{Held, Waiting};
use rdmascope_wire::Xid;

/// The waiting deliveries of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Reordered {
    waiting: Waiting<HeldDelivery>,
    requests: usize,
}

impl Held for HeldDelivery {
    fn seen(&self) -> Option<Seen> {
        self.delivery().seen()
    }

    fn bytes(&self) -> usize {
        self.captured()
    }
}

impl Reordered {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether requests wait, so that later requests must queue up.
    #[inline]
    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Whether a reply or an error with this XID waits.
    pub(super) fn has_reply_to(&self, xid: Xid) -> bool {
        self.waiting.iter().any(|held| match held.delivery() {
            Delivery::Send(send) => reply_xid(send.bytes) == Some(xid),
            _ => false,
        })
    }

    /// Whether the RDMA Read request at this position waits.
    pub(super) fn has_read_request(&self, position: Position) -> bool {
        self.requests > 0
            && self.waiting.iter().any(|held| match held.delivery() {
                Delivery::ReadRequest(request) => request.position == position,
                _ => false,
            })
    }

    /// Whether the RDMA operation in this frame waits.
    pub(super) fn has_operation_in(&self, frame: u64) -> bool {
        self.requests > 0
            && self.waiting.iter().any(|held| match held.delivery() {
                Delivery::ReadRequest(request) => request.seen.frame == frame,
                Delivery::Write(placement) => placement.seen.frame == frame,
                _ => false,
            })
    }

    /// Bytes of memory on the heap; a clone uses the same amount.
    #[inline]
    pub(super) fn footprint(&self) -> usize {
        self.waiting.footprint()
    }

    pub(super) fn keep(&mut self, delivery: &Delivery<'_>) {
        self.requests += usize::from(delivery.is_request());
        self.waiting.keep(HeldDelivery::new(delivery));
    }

    /// Whether the queue exceeds its bounds.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Whether the oldest delivery is due at `now` (`None`: without waiting any longer). Time
    /// counts only once the other half-flow is known.
    pub(super) fn is_due(&self, now: Option<Seen>, paired: bool) -> bool {
        let is_over = || now.is_none_or(|now| paired && self.waiting.is_overdue(now));
        !self.is_empty() && (self.waiting.is_full() || is_over())
    }

    /// The time at which the oldest delivery becomes due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.waiting.deadline()
    }

    /// All waiting deliveries, in order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldDelivery> {
        self.waiting.iter()
    }

    /// The packet of the oldest delivery.
    pub(super) fn first(&self) -> Option<Seen> {
        self.waiting.first()
    }

    /// The first packet of all waiting deliveries.
    pub(super) fn since(&self) -> Option<u64> {
        let began = |held: &HeldDelivery| match held.delivery() {
            Delivery::Send(send) => Some(send.first.frame.min(send.seen.frame)),
            other => other.seen().map(|seen| seen.frame),
        };
        self.waiting.iter().filter_map(began).min()
    }

    /// Removes the oldest delivery.
    pub(super) fn take_first(&mut self) -> Option<HeldDelivery> {
        let held = self.waiting.take_first()?;
        self.requests -= usize::from(held.delivery().is_request());
        Some(held)
    }

    /// Removes the first delivery that need not wait: the first request, or any response.
    pub(super) fn take_ready(&mut self, is_ready: impl Fn(&Delivery<'_>) -> bool) -> Option<HeldDelivery> {
        let mut follows_request = false;
        let found = self.waiting.iter().position(|held| {
            let delivery = held.delivery();
            let waits = delivery.is_request() && core::mem::replace(&mut follows_request, true);
            !waits && is_ready(&delivery)
        });
        let held = self.waiting.take(found?)?;
        self.requests -= usize::from(held.delivery().is_request());
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::{MemoryRange, Placement, ReadRequest};
    use rdmascope_wire::Rkey;
    use rdmascope_wire::psn::Psn;

    const MEMORY: MemoryRange = MemoryRange { rkey: Rkey(1), address: 0, length: 4 };

    fn at(frame: u64) -> (Seen, Position) {
        (Seen { frame, time: Time(0) }, Psn::new(frame as u32).into())
    }

    fn read(frame: u64) -> Delivery<'static> {
        let (seen, position) = at(frame);
        let extent = Some(1);
        Delivery::ReadRequest(ReadRequest {
            seen,
            position,
            extent,
            memory: MEMORY,
            repeated: false,
            is_new: true,
        })
    }

    fn placement(frame: u64, bytes: &[u8]) -> Placement<'_> {
        let (seen, position) = at(frame);
        let (first, request, length) = (position, None, bytes.len() as u32);
        Placement {
            seen,
            position,
            first,
            request,
            memory: MEMORY,
            address: 0,
            bytes,
            length,
            repeated: false,
        }
    }

    fn write(frame: u64) -> Delivery<'static> {
        Delivery::Write(placement(frame, b"data"))
    }

    fn response(frame: u64) -> Delivery<'static> {
        Delivery::ReadResponse(placement(frame, b"data"))
    }

    fn reordered(deliveries: &[Delivery<'_>]) -> Reordered {
        let mut reordered = Reordered::default();
        deliveries.iter().for_each(|delivery| reordered.keep(delivery));
        reordered
    }

    fn frame(held: Option<HeldDelivery>) -> Option<u64> {
        Some(held?.delivery().seen()?.frame)
    }

    #[test]
    fn waiting_requests_are_tracked() {
        let mut waiting = reordered(&[response(1), write(2), read(3), response(4)]);
        assert!(waiting.has_requests());
        // A waiting Write does not count as a request for memory.
        let asked = [1, 2, 3, 4, 5].map(|frame| waiting.has_read_request(at(frame).1));
        assert_eq!(asked, [false, false, true, false, false]);
        assert_eq!((waiting.first().map(|seen| seen.frame), waiting.since()), (Some(1), Some(1)));
        let order: Vec<_> = core::iter::from_fn(|| frame(waiting.take_first())).collect();
        assert_eq!(order, [1, 2, 3, 4]);
        assert!(!waiting.has_requests() && !waiting.has_read_request(at(3).1));
    }

    /// A request queues up after a waiting one; a response does not.
    #[test]
    fn responses_pass_waiting_requests() {
        let ready = |frames: &'static [u64]| {
            move |delivery: &Delivery<'_>| delivery.seen().is_some_and(|seen| frames.contains(&seen.frame))
        };
        let all = [response(1), write(2), read(3), response(4)];
        for (frames, found) in [
            (&[1, 2, 3, 4][..], Some(1)),
            (&[2, 3, 4], Some(2)),
            (&[3, 4], Some(4)),
            (&[3], None),
            (&[], None),
        ] {
            assert_eq!(frame(reordered(&all).take_ready(ready(frames))), found, "{frames:?}");
        }
        // No request is left.
        let mut waiting = reordered(&all[1..2]);
        assert_eq!(frame(waiting.take_ready(ready(&[2]))), Some(2));
        assert!(!waiting.has_requests() && waiting.is_empty());
    }

    /// More than 64 deliveries, or more than 2 MiB, are due at any time.
    #[test]
    fn deliveries_are_due_if_full_or_overdue() {
        let now = Some(at(1).0);
        for (count, is_full) in [(64, false), (65, true)] {
            let waiting = reordered(&vec![response(1); count]);
            assert_eq!((waiting.is_full(), waiting.is_due(now, true)), (is_full, is_full), "{count}");
        }
        let bytes = vec![0; (2 << 20) + 1];
        assert!(reordered(&[Delivery::Write(placement(1, &bytes))]).is_full());
        let waiting = reordered(&[response(1)]);
        let later = Some(Seen { frame: 1, time: Time(2_000_001) });
        // Time counts only once the other half-flow is known; at the end everything is due.
        let due = [(later, true), (later, false), (None, true), (None, false)];
        assert_eq!(due.map(|(now, paired)| waiting.is_due(now, paired)), [true, false, true, true]);
        assert!(!Reordered::default().is_due(None, true));
    }
}
