//! What an end did that answers what the other end was not seen to do.
//!
//! Deliveries wait here before they are handed up, in the order of their sender: a request waits behind one that waits. What an RDMA READ
//! brought waits for its request, which waits at the other end.

use crate::rdma::{Delivery, HeldDelivery, Position};
use crate::record::{Seen, Time};
use crate::waiting::{Held, Waiting};

/// The deliveries of one end that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
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

impl Early {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether requests wait: those that follow have to wait behind them.
    #[inline]
    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Whether the RDMA Read request at this position waits.
    pub(super) fn has_read_request(&self, position: Position) -> bool {
        self.requests > 0
            && self.waiting.iter().any(|held| match held.delivery() {
                Delivery::ReadRequest(request) => request.position == position,
                _ => false,
            })
    }

    /// Bytes of memory that it takes up beside itself; a clone takes up as many.
    #[inline]
    pub(super) fn footprint(&self) -> usize {
        self.waiting.footprint()
    }

    pub(super) fn keep(&mut self, delivery: &Delivery<'_>) {
        self.requests += usize::from(delivery.is_request());
        self.waiting.keep(HeldDelivery::new(delivery));
    }

    /// Whether more waits than there is room for.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Whether the delivery that came first has waited long enough by `now` (`None`: nothing comes any more). Where the other half-flow is not
    /// known, time says nothing.
    pub(super) fn is_due(&self, now: Option<Seen>, paired: bool) -> bool {
        let is_over = || now.is_none_or(|now| paired && self.waiting.is_overdue(now));
        !self.is_empty() && (self.waiting.is_full() || is_over())
    }

    /// When the delivery that came first has waited long enough.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.waiting.deadline()
    }

    /// All that wait, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldDelivery> {
        self.waiting.iter()
    }

    /// The packet that brought the delivery that came first.
    pub(super) fn first(&self) -> Option<Seen> {
        self.waiting.first()
    }

    /// The first of the packets that brought what waits.
    pub(super) fn since(&self) -> Option<u64> {
        let began = |held: &HeldDelivery| match held.delivery() {
            Delivery::Send(send) => Some(send.first.frame.min(send.seen.frame)),
            other => other.seen().map(|seen| seen.frame),
        };
        self.waiting.iter().filter_map(began).min()
    }

    /// Takes the delivery that came first.
    pub(super) fn take_first(&mut self) -> Option<HeldDelivery> {
        let held = self.waiting.take_first()?;
        self.requests -= usize::from(held.delivery().is_request());
        Some(held)
    }

    /// Takes the first delivery that may go on: the first request, or an answer before or behind it.
    pub(super) fn take_ready(&mut self, is_ready: impl Fn(&Delivery<'_>) -> bool) -> Option<HeldDelivery> {
        let mut behind_a_request = false;
        let found = self.waiting.iter().position(|held| {
            let delivery = held.delivery();
            let waits = delivery.is_request() && core::mem::replace(&mut behind_a_request, true);
            !waits && is_ready(&delivery)
        });
        let held = self.waiting.take(found?)?;
        self.requests -= usize::from(held.delivery().is_request());
        Some(held)
    }
}
