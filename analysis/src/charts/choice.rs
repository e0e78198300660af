//! The transactions to draw: the slowest, and those with problems.

use crate::names::Failure;
use crate::report::{ErrorKey, Key};
use core::cmp::Reverse;
use foldhash::fast::FixedState;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_wire::Cause;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// The reason why a transaction counts as broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No reply came before the connection ended or the XID was used again.
    NoReply,
    /// Its reply reports an error that is [no part of normal work](ErrorKey::is_ordinary).
    Failed(Failure),
    /// Its header, arguments or results violate the specification.
    Malformed,
    /// Its packets were sent again.
    Retransmitted,
    /// Bytes were not moved, or are missing from the capture.
    MissingBytes,
}

impl Reason {
    /// The most severe reason for `transaction`; `None` if it is not broken.
    pub fn of(transaction: &Transaction, retransmitted: bool) -> Option<Reason> {
        let stops = transaction.messages().filter_map(|message| message.stop).chain(transaction.stop);
        if transaction.outcome == Outcome::NoReply {
            Some(Reason::NoReply)
        } else if let Some(error) = ErrorKey::of(transaction).filter(|error| !error.is_ordinary()) {
            Some(Reason::Failed(error.failure))
        } else if stops.into_iter().any(|stop| stop.cause != Cause::TruncatedCapture) {
            Some(Reason::Malformed)
        } else if retransmitted {
            Some(Reason::Retransmitted)
        } else if transaction.messages().any(|message| !message.missing.is_empty()) {
            Some(Reason::MissingBytes)
        } else {
            None
        }
    }

    fn severity(self) -> u8 {
        match self {
            Reason::Failed(Failure::Transport(_)) => 0,
            Reason::NoReply => 1,
            Reason::Failed(Failure::Rpc(_)) => 2,
            Reason::Malformed => 3,
            Reason::Retransmitted => 4,
            Reason::MissingBytes => 5,
            Reason::Failed(Failure::Status(_)) => 6,
        }
    }

    /// A number that distinguishes failures of one severity.
    fn code(self) -> u32 {
        match self {
            Reason::Failed(Failure::Status(status)) => status,
            _ => 0,
        }
    }
}

/// The transactions to draw.
#[derive(Debug)]
pub struct Choice {
    most: usize,
    /// By latency, longest first, and number.
    slowest: BTreeMap<(Reverse<u64>, u64), Transaction>,
    /// By the number of earlier ones of the same kind, severity and number.
    broken: BTreeMap<(u64, u8, u64), (Transaction, Reason)>,
    /// The number of earlier broken transactions of each kind, except the last one.
    kinds: HashMap<(Key, u8, u32), u64, FixedState>,
    broken_count: u64,
}

impl Choice {
    /// The most kinds of broken transactions. Further kinds are not distinguished.
    const MOST_KINDS: usize = 1024;

    /// Creates a choice of up to `most` slow and `most` broken transactions.
    pub fn new(most: usize) -> Choice {
        Choice {
            most,
            slowest: BTreeMap::new(),
            broken: BTreeMap::new(),
            kinds: HashMap::default(),
            broken_count: 0,
        }
    }

    /// Takes a transaction, and whether its packets were sent again.
    pub fn transaction(&mut self, transaction: &Transaction, retransmitted: bool) {
        if let Some(latency) = transaction.waited() {
            let key = (Reverse(latency), transaction.number);
            keep(&mut self.slowest, self.most, key, || transaction.clone());
        }
        let Some(reason) = Reason::of(transaction, retransmitted) else { return };
        self.broken_count += 1;
        let kind = (Key::of(transaction), reason.severity(), reason.code());
        let known = self.kinds.len();
        let before = match self.kinds.entry(kind) {
            Entry::Occupied(mut count) => {
                *count.get_mut() += 1;
                *count.get()
            }
            Entry::Vacant(first) if known < Choice::MOST_KINDS => *first.insert(0),
            Entry::Vacant(_) => u64::MAX,
        };
        let key = (before, reason.severity(), transaction.number);
        keep(&mut self.broken, self.most, key, || (transaction.clone(), reason));
    }

    /// The slowest transactions, slowest first.
    pub fn slowest(&self) -> Vec<&Transaction> {
        self.slowest.values().collect()
    }

    /// The broken transactions, most severe first. Every kind has one before any kind has two.
    pub fn broken(&self) -> Vec<(&Transaction, Reason)> {
        let mut all: Vec<_> = self.broken.iter().collect();
        all.sort_by_key(|((_, severity, number), _)| (*severity, *number));
        all.into_iter().map(|(_, (transaction, reason))| (transaction, *reason)).collect()
    }

    /// The number of broken transactions.
    pub fn broken_count(&self) -> u64 {
        self.broken_count
    }
}

/// Keeps a value if its key is among the first `most`.
fn keep<K: Ord, V>(kept: &mut BTreeMap<K, V>, most: usize, key: K, value: impl FnOnce() -> V) {
    if kept.len() >= most && kept.last_key_value().is_none_or(|(last, _)| *last < key) {
        return;
    }
    kept.insert(key, value());
    if kept.len() > most {
        kept.pop_last();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::ulb::Nfs4;
    use rdmascope_tests::values as samples;

    fn slowest(choice: &Choice) -> Vec<u64> {
        choice.slowest().into_iter().map(|transaction| transaction.number).collect()
    }

    fn broken(choice: &Choice) -> Vec<u64> {
        choice.broken().into_iter().map(|(transaction, _)| transaction.number).collect()
    }

    #[test]
    fn the_slowest_come_first_and_ties_keep_their_order() {
        let mut choice = Choice::new(3);
        for (number, latency) in [(1, 50), (2, 70), (3, 10), (4, 70), (5, 60), (6, 60)] {
            let mut read = samples::read(1, latency);
            read.number = number;
            choice.transaction(&read, false);
        }
        assert_eq!(slowest(&choice), [2, 4, 5]);
        assert_eq!(broken(&choice), [0u64; 0]);
    }

    #[test]
    fn one_of_each_kind_precedes_a_second_of_any() {
        let mut choice = Choice::new(4);
        for number in 1..=20 {
            let mut lookup = samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 13, number, 10);
            lookup.number = number;
            choice.transaction(&lookup, false);
        }
        // NFS4ERR_NOENT of a LOOKUP is a normal answer.
        choice.transaction(&samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 2, 30, 10), false);
        let mut lost = samples::read(1, 10);
        lost.number = 21;
        lost.outcome = Outcome::NoReply;
        lost.reply = None;
        choice.transaction(&lost, true);
        let mut again = samples::read(1, 10);
        again.number = 22;
        choice.transaction(&again, true);
        assert_eq!(broken(&choice), [21, 22, 1, 2]);
        assert_eq!(choice.broken_count(), 22);
    }
}
