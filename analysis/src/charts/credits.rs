//! Credits over time: grants and outstanding calls.

use super::intervals::{Interval, Intervals};
use core::cmp::Reverse;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use std::collections::{BTreeMap, BinaryHeap};

/// The credits of a capture, by connection and direction.
#[derive(Debug, Default)]
pub struct AllCredits(BTreeMap<(ConnectionId, bool), Credits>);

/// A connection, whether the direction is backward, and the credits of that direction.
pub type CreditsOf<'a> = (ConnectionId, bool, &'a Credits);

impl AllCredits {
    /// The most directions of connections that are kept.
    const MOST: usize = 64;

    /// Adds a transaction of a capture that begins at `start`.
    pub fn transaction(&mut self, transaction: &Transaction, start: Time) {
        let key = (transaction.connection, transaction.direction == Direction::Backward);
        if self.0.len() < AllCredits::MOST || self.0.contains_key(&key) {
            self.0.entry(key).or_default().transaction(transaction, start);
        }
    }

    /// Processes all remaining changes, up to this many nanoseconds from the start.
    pub fn finish(&mut self, end: u64) {
        self.0.values_mut().for_each(|credits| credits.finish(end));
    }

    /// The credits of at most `most` directions, by number of transactions, most first.
    pub fn busiest(&self, most: usize) -> Vec<CreditsOf<'_>> {
        let credits =
            self.0.iter().map(|((connection, backward), credits)| (*connection, *backward, credits));
        let mut all: Vec<_> = credits.filter(|(.., credits)| credits.granted).collect();
        all.sort_by_key(|(.., credits)| Reverse(credits.transactions));
        all.truncate(most);
        all
    }

    /// The credits of the forward direction of at most `most` connections while the capture
    /// continues, by number of transactions, most first. `now` is in nanoseconds from the start.
    /// `open` has the connection and the start of each call that has no reply yet.
    pub fn forward_now(&self, most: usize, now: u64, open: &[(ConnectionId, u64)]) -> Vec<Credits> {
        let mut all: Vec<_> = self.0.iter().filter(|((_, backward), _)| !backward).collect();
        all.sort_by_key(|(_, credits)| Reverse(credits.transactions));
        let so_far = |((connection, _), credits): (&(ConnectionId, bool), &Credits)| {
            let mut credits = credits.clone();
            let open = open.iter().filter(|(of, _)| of == connection);
            open.for_each(|(_, began)| credits.outstanding_between(*began, None));
            credits.finish(now);
            credits
        };
        all.into_iter().take(most).map(so_far).collect()
    }

    /// The number of directions of connections with grants.
    pub fn count(&self) -> usize {
        self.0.values().filter(|credits| credits.granted).count()
    }
}

/// The credits of one direction of a connection.
///
/// Transactions are reported in the order in which they end, which differs from the order of their
/// calls. So changes wait in a heap, and when it is full the earlier half is processed. A call
/// older than that counts from the next interval on. A peak may then be higher than shown, never
/// lower.
#[derive(Clone, Debug, Default)]
pub struct Credits {
    timeline: Intervals<CreditInterval>,
    /// Changes of the number of outstanding calls, by time. At the same time, decreases come first.
    ahead: BinaryHeap<Reverse<(u64, i8)>>,
    swept: u64,
    outstanding: i64,
    transactions: u64,
    granted: bool,
}

/// The credits of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditInterval {
    /// The lowest and the highest grant in replies.
    pub granted: Option<(u32, u32)>,
    /// The most calls outstanding at once.
    pub peak: u64,
}

impl Interval for CreditInterval {
    fn join(&mut self, next: CreditInterval) {
        self.peak = self.peak.max(next.peak);
        if let Some((lowest, highest)) = next.granted {
            self.grant(lowest, highest);
        }
    }
}

impl CreditInterval {
    fn grant(&mut self, low: u32, high: u32) {
        let (lowest, highest) = self.granted.unwrap_or((low, high));
        self.granted = Some((lowest.min(low), highest.max(high)));
    }
}

impl Credits {
    /// The most changes that wait for changes reported later.
    const MOST_AHEAD: usize = 8192;

    fn transaction(&mut self, transaction: &Transaction, start: Time) {
        self.transactions += 1;
        let reply = transaction.reply.as_ref().map(|reply| (reply.seen.time.since(start), reply.credits));
        if let Some((at, credits)) = reply {
            self.granted = true;
            self.timeline.at(at).grant(credits, credits);
        }
        let Some(call) = &transaction.call else { return };
        let began = call.first.time.since(start);
        match (reply, transaction.outcome) {
            (Some((ended, _)), _) => self.outstanding_between(began, Some(ended)),
            (None, Outcome::CutOff) => self.outstanding_between(began, None),
            // The time at which the requester stopped waiting is unknown.
            (None, _) => {}
        }
        if self.ahead.len() > Credits::MOST_AHEAD {
            while self.ahead.len() > Credits::MOST_AHEAD / 2 {
                self.sweep_one();
            }
        }
    }

    fn outstanding_between(&mut self, began: u64, ended: Option<u64>) {
        if ended.is_some_and(|ended| ended < began) {
            return;
        }
        if began >= self.swept {
            self.ahead.push(Reverse((began, 1)));
            self.ahead.extend(ended.map(|ended| Reverse((ended, -1))));
            return;
        }
        let until = ended.map_or(self.swept, |ended| ended.min(self.swept));
        self.timeline.after(began, until).iter_mut().for_each(|interval| interval.peak += 1);
        if ended.is_none_or(|ended| ended >= self.swept) {
            self.outstanding += 1;
            self.ahead.extend(ended.map(|ended| Reverse((ended, -1))));
        }
    }

    fn sweep_one(&mut self) {
        let Some(Reverse((at, change))) = self.ahead.pop() else { return };
        self.sweep_to(at);
        self.outstanding += i64::from(change);
        let outstanding = u64::try_from(self.outstanding).unwrap_or(0);
        let interval = self.timeline.at(at);
        interval.peak = interval.peak.max(outstanding);
    }

    /// Moves on to this many nanoseconds from the start, without a change until then.
    fn sweep_to(&mut self, at: u64) {
        let outstanding = u64::try_from(self.outstanding).unwrap_or(0);
        for interval in self.timeline.after(self.swept, at) {
            interval.peak = interval.peak.max(outstanding);
        }
        self.swept = self.swept.max(at);
    }

    fn finish(&mut self, end: u64) {
        while !self.ahead.is_empty() {
            self.sweep_one();
        }
        self.sweep_to(end.max(self.swept));
    }

    /// The credits by interval.
    pub fn timeline(&self) -> &Intervals<CreditInterval> {
        &self.timeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_tests::values::{self as samples, START, after};

    /// Credits of calls and replies at these microseconds.
    fn credits(spans: &[(i64, i64)]) -> Credits {
        let mut credits = Credits::default();
        for (began, ended) in spans {
            let mut read = samples::read(1, 1);
            for (message, at) in [(&mut read.call, began), (&mut read.reply, ended)] {
                let message = message.as_mut().unwrap();
                message.seen.time = after(*at);
                message.first.time = after(*at);
                message.credits = 32 + *began as u32 % 2;
            }
            credits.transaction(&read, START);
        }
        credits.finish(10_000);
        credits
    }

    fn peaks(credits: &Credits) -> Vec<u64> {
        credits.timeline().intervals().iter().map(|interval| interval.peak).collect()
    }

    #[test]
    fn peaks_count_calls_outstanding_at_once() {
        // The transactions are in the order of their ends; the first to begin ends last.
        let credits = credits(&[(2, 3), (3, 4), (6, 8), (6, 9), (1, 9)]);
        assert_eq!(peaks(&credits), [0, 1, 2, 2, 2, 1, 3, 3, 3, 2, 0]);
        assert_eq!(credits.timeline().intervals()[9].granted, Some((32, 33)));
    }

    #[test]
    fn open_calls_are_outstanding_now() {
        let mut all = AllCredits::default();
        let read = samples::read(1, 1);
        all.transaction(&read, START);
        let open = [(read.connection, 20_000_000)];
        let now = all.forward_now(8, 30_000_000, &open);
        assert_eq!(now.len(), 1);
        let peaks = peaks(&now[0]);
        let end = peaks.len() - 1;
        assert_eq!((peaks[end], peaks[end / 2]), (1, 0));
        // The credits themselves stay as they were.
        assert_eq!(all.forward_now(8, 30_000_000, &[])[0].timeline().intervals()[end].peak, 0);
        assert!(all.forward_now(0, 30_000_000, &open).is_empty());
    }

    #[test]
    fn late_calls_count_after_the_swept_intervals() {
        let mut swept: Vec<(i64, i64)> = (0..20_000).map(|index| (index % 3, index % 3)).collect();
        swept.push((1, 5));
        // Transactions that begin and end at the same time were never outstanding.
        assert_eq!(peaks(&credits(&swept))[3..6], [1, 1, 1]);
    }

    #[test]
    fn unanswered_calls_count_to_the_end_of_the_capture() {
        let mut credits = Credits::default();
        let mut read = samples::read(0, 1);
        read.reply = None;
        read.outcome = Outcome::CutOff;
        credits.transaction(&read, START);
        credits.finish(3000);
        assert_eq!(peaks(&credits), [1, 1, 1, 1]);
        assert!(!credits.granted);
    }
}
