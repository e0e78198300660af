//! The time of a transaction, split by captures of both its ends.

use crate::report::{Key, Operations};
use core::ops::AddAssign;
use rdmascope_dissector::exchange::{Step, StepKind};
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::Transaction;

/// The parts of a transaction's time, in nanoseconds. It begins with the last packet of the call
/// and ends with the last packet of the reply, both at the caller's place. If a packet was lost,
/// the time until its receiver took a retransmission counts as transit.
///
/// While the server waits for an RDMA Read, the time is split by its packets: its request in
/// transit, the caller until the last response left, and that response in transit. All other time
/// between the arrival of the call and the departure of the reply is time of the server, or the
/// server's data was on its way ([`Phases::moving`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// At the caller's end: from an RDMA Read request to its last response.
    pub client: u64,
    /// In transit from the caller to the responder: the call, and responses to RDMA Reads.
    pub to_responder: u64,
    /// At the responder's end.
    pub server: u64,
    /// Between the arrival of the call and the departure of the reply: RDMA Writes, the packets of the
    /// reply, and the time in which the reply may have waited for data on its way.
    pub sending: u64,
    /// In transit from the responder to the caller: RDMA Read requests, and the reply.
    pub to_caller: u64,
}

impl Split {
    /// The names of the parts.
    pub const NAMES: [&str; Split::PARTS] = ["client", "way there", "server", "sending", "way back"];

    /// The number of parts.
    pub const PARTS: usize = 5;

    /// The parts in the order of [`Split::NAMES`].
    pub fn parts(self) -> [u64; Split::PARTS] {
        [self.client, self.to_responder, self.server, self.sending, self.to_caller]
    }

    /// The sum of the parts.
    pub fn total(self) -> u64 {
        self.parts().into_iter().fold(0, u64::saturating_add)
    }

    /// Splits a transaction. `sent` returns the time of a packet at its sender's place, `received`
    /// the time at which its receiver's end took it. Returns `None` unless both are known for the
    /// call and the reply.
    pub(super) fn of(
        transaction: &Transaction,
        sent: impl Fn(Seen) -> Option<Time>,
        received: impl Fn(Seen) -> Option<Time>,
    ) -> Option<Split> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        let mut split = Split::default();
        let mut now = sent(call.seen)?;
        let (end, arrived) = (sent(reply.seen)?, received(reply.seen)?);
        advance(&mut now, received(call.seen)?, &mut split.to_responder);
        let steps = transaction.exchange.as_ref().map_or(&[][..], |kept| &kept.steps);
        let mut responses = steps.iter().filter(|step| step.kind == StepKind::ReadResponse);
        for request in steps.iter().filter(|step| step.kind == StepKind::ReadRequest) {
            let is_answer = |step: &&Step| {
                (step.of_reply, step.part, step.offset) == (request.of_reply, request.part, request.offset)
            };
            // Responses come in the order of their requests, so the next one usually matches.
            let Some(response) = responses.clone().find(is_answer) else { continue };
            if responses.clone().next().is_some_and(|next| is_answer(&next)) {
                responses.next();
            }
            let passed =
                (sent(request.last), received(request.last), sent(response.last), received(response.last));
            let (Some(request_sent), Some(request_received), Some(response_sent), Some(response_received)) =
                passed
            else {
                continue;
            };
            if response_received > end {
                continue;
            }
            advance(&mut now, request_sent, &mut split.server);
            advance(&mut now, request_received, &mut split.to_caller);
            advance(&mut now, response_sent, &mut split.client);
            advance(&mut now, response_received, &mut split.to_responder);
        }
        advance(&mut now, end, &mut split.server);
        advance(&mut now, arrived, &mut split.to_caller);
        split.sending = Phases::of(transaction).map_or(0, |phases| phases.moving()).min(split.server);
        split.server -= split.sending;
        Some(split)
    }
}

/// Advances to a time if it is later, and adds the difference to a part.
fn advance(now: &mut Time, until: Time, part: &mut u64) {
    *part += until.since(*now);
    *now = (*now).max(until);
}

impl AddAssign for Split {
    fn add_assign(&mut self, other: Split) {
        self.client = self.client.saturating_add(other.client);
        self.to_responder = self.to_responder.saturating_add(other.to_responder);
        self.server = self.server.saturating_add(other.server);
        self.sending = self.sending.saturating_add(other.sending);
        self.to_caller = self.to_caller.saturating_add(other.to_caller);
    }
}

/// The splits of a capture's transactions, by operation.
#[derive(Debug, Default)]
pub struct Splits(Operations<Sum>);

/// The splits of the transactions of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Transactions that were split.
    pub count: u64,
    /// Transactions that were not split, because their calls or replies were not captured at both
    /// ends.
    pub unknown: u64,
    /// The sum of the splits.
    pub split: Split,
}

impl Sum {
    /// The mean time of a split transaction, in nanoseconds; `None` if there is none.
    pub fn mean(&self) -> Option<u64> {
        self.split.total().checked_div(self.count)
    }

    /// The share of each part in percent with one decimal, in the order of [`Split::NAMES`]; `-` if
    /// the time is zero.
    pub fn shares(&self) -> [String; Split::PARTS] {
        let total = self.split.total();
        self.split.parts().map(|part| match total {
            0 => "-".to_owned(),
            _ => format!("{:.1}", 100.0 * part as f64 / total as f64),
        })
    }
}

impl Splits {
    /// Adds a transaction.
    pub fn count(&mut self, transaction: &Transaction, split: Option<Split>) {
        let sum = self.0.of(Key::of(transaction));
        match split {
            Some(split) => {
                sum.count += 1;
                sum.split += split;
            }
            None => sum.unknown += 1,
        }
    }

    /// The operations by total time, longest first.
    pub fn by_time(&self) -> Vec<(Key, Sum)> {
        let mut all: Vec<(Key, Sum)> = self.0.iter().map(|(key, sum)| (*key, *sum)).collect();
        all.sort_unstable_by(|(a, one), (b, two)| two.split.total().cmp(&one.split.total()).then(a.cmp(b)));
        all
    }
}
