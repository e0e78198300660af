//! The time of a transaction, split by captures of both its ends.

use crate::report::Key;
use core::ops::AddAssign;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rdmascope_dissector::exchange::{Step, StepKind};
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::Transaction;

/// Where the time of a transaction passed, in nanoseconds: from the last packet of the call, as the place nearest to the caller shows it, to the
/// last packet of the reply there. Where a packet was lost and sent again, all the time until its receiver took it is that of its way.
///
/// While the server waits for an RDMA Read, the time is that of the Read: its request on the way back, the caller until its last response has
/// left, and that response on the way there. All else between the arrival of the call and the departure of the reply is the server's, RDMA
/// Writes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// At the caller's end: from an RDMA Read request to the last of its responses.
    pub client: u64,
    /// From the caller to the responder: the call, and responses to RDMA Reads.
    pub there: u64,
    /// At the responder's end.
    pub server: u64,
    /// From the responder to the caller: RDMA Read requests, and the reply.
    pub back: u64,
}

impl Split {
    /// What the parts are called.
    pub const NAMES: [&str; 4] = ["client", "way there", "server", "way back"];

    /// The parts, in the order of [`Split::NAMES`].
    pub fn parts(self) -> [u64; 4] {
        [self.client, self.there, self.server, self.back]
    }

    /// All of it.
    pub fn whole(self) -> u64 {
        self.parts().into_iter().fold(0, u64::saturating_add)
    }

    /// Splits a transaction; `sent` tells when a packet passed the place at its sender's end, `came` when its receiver's end took it. `None`: it is not
    /// known of call and reply at both.
    pub(super) fn of(
        transaction: &Transaction,
        sent: impl Fn(Seen) -> Option<Time>,
        came: impl Fn(Seen) -> Option<Time>,
    ) -> Option<Split> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        let mut split = Split::default();
        let mut now = sent(call.seen)?;
        let (end, arrived) = (sent(reply.seen)?, came(reply.seen)?);
        advance(&mut now, came(call.seen)?, &mut split.there);
        let steps = transaction.exchange.as_ref().map_or(&[][..], |kept| &kept.steps);
        let mut responses = steps.iter().filter(|step| step.kind == StepKind::ReadResponse);
        for request in steps.iter().filter(|step| step.kind == StepKind::ReadRequest) {
            let is_answer = |step: &&Step| {
                (step.of_reply, step.part, step.offset) == (request.of_reply, request.part, request.offset)
            };
            // Responses come in the order of their requests, so that of one is mostly the next.
            let Some(response) = responses.clone().find(is_answer) else { continue };
            if responses.clone().next().is_some_and(|next| is_answer(&next)) {
                responses.next();
            }
            let passed = (sent(request.last), came(request.last), sent(response.last), came(response.last));
            let (Some(asked), Some(heard), Some(answered), Some(brought)) = passed else { continue };
            if brought > end {
                continue;
            }
            advance(&mut now, asked, &mut split.server);
            advance(&mut now, heard, &mut split.back);
            advance(&mut now, answered, &mut split.client);
            advance(&mut now, brought, &mut split.there);
        }
        advance(&mut now, end, &mut split.server);
        advance(&mut now, arrived, &mut split.back);
        Some(split)
    }
}

/// Goes on to a time, if it is later, and counts what passed until then.
fn advance(now: &mut Time, until: Time, part: &mut u64) {
    *part += until.since(*now);
    *now = (*now).max(until);
}

impl AddAssign for Split {
    fn add_assign(&mut self, other: Split) {
        self.client = self.client.saturating_add(other.client);
        self.there = self.there.saturating_add(other.there);
        self.server = self.server.saturating_add(other.server);
        self.back = self.back.saturating_add(other.back);
    }
}

/// The splits of the transactions of a capture, by operation.
#[derive(Debug, Default)]
pub struct Splits(HashMap<Key, Sum, FixedState>);

/// The splits of the transactions of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Transactions that were split.
    pub count: u64,
    /// Those that were not: the places do not both show their call and their reply.
    pub unknown: u64,
    /// The sum.
    pub split: Split,
}

impl Sum {
    /// How long a transaction that was split took on average, in nanoseconds; `None` without one.
    pub fn mean(&self) -> Option<u64> {
        self.split.whole().checked_div(self.count)
    }

    /// The share of each part in the time, in percent with one digit behind the point, in the order of [`Split::NAMES`]; `-` where there is no time.
    pub fn shares(&self) -> [String; 4] {
        let whole = self.split.whole();
        self.split.parts().map(|part| match whole {
            0 => "-".to_owned(),
            _ => format!("{:.1}", 100.0 * part as f64 / whole as f64),
        })
    }
}

impl Splits {
    /// Program and procedure numbers come from the wire, so there is a bound to how many are kept apart.
    const MOST: usize = 256;

    /// Takes in a transaction.
    pub fn count(&mut self, transaction: &Transaction, split: Option<Split>) {
        let mut key = Key::of(transaction);
        if self.0.len() >= Splits::MOST && !self.0.contains_key(&key) {
            key = Key::FURTHER;
        }
        let sum = self.0.entry(key).or_default();
        match split {
            Some(split) => {
                sum.count += 1;
                sum.split += split;
            }
            None => sum.unknown += 1,
        }
    }

    /// The operations, what took most time first.
    pub fn by_time(&self) -> Vec<(Key, Sum)> {
        let mut all: Vec<(Key, Sum)> = self.0.iter().map(|(key, sum)| (*key, *sum)).collect();
        all.sort_unstable_by(|(a, one), (b, two)| two.split.whole().cmp(&one.split.whole()).then(a.cmp(b)));
        all
    }
}
