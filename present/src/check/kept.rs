//! The findings to show: the first of each rule in capture order. Memory use does not grow with the
//! number of findings.

use foldhash::fast::FixedState;
use rdmascope_analysis::tally::Place;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::rdma::End;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A bounded number of findings, with the ends of their connections.
#[derive(Debug, Default)]
pub struct Kept {
    /// The most findings of each rule and verdict.
    most: usize,
    /// The conclusive and the inconclusive findings, by index of the rule.
    rules: Vec<[BTreeMap<Key, Entry>; 2]>,
    /// Used instead of `rules` if repetitions are folded.
    folds: Option<HashMap<Fold, Folded, FixedState>>,
    count: u64,
    ends: HashMap<ConnectionId, Option<Ends>, FixedState>,
}

/// The order of findings: the first frame, then the order of discovery.
type Key = (u64, u64);

/// The first of the findings that repeat each other, and their number.
type Folded = ((Key, Entry), u64);

/// The key of findings that repeat each other: one rule, by one end of one connection. A policy
/// allows a finding for a whole connection, so it allows all of them or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Fold {
    rule: usize,
    verdict: Verdict,
    connection: Option<ConnectionId>,
    by: Option<End>,
}

/// The ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    /// The addresses, by index of the end.
    addresses: [Address; 2],
    requester: End,
    /// Whether the end that opened the connection is known.
    roles_known: bool,
}

impl Kept {
    /// The most findings kept of each rule, whatever the user requests.
    pub const MOST: usize = 10_000;
    /// The most connections whose ends are kept.
    const MOST_CONNECTIONS: usize = 4096;

    /// Creates an empty store for at most `most` findings of each rule and verdict, limited to
    /// [`Kept::MOST`].
    pub fn new(most: usize) -> Kept {
        Kept { most: most.min(Kept::MOST), ..Kept::default() }
    }

    /// Creates a store that keeps only the first finding of each rule by one end of one connection,
    /// with their number.
    pub fn folding(most: usize) -> Kept {
        Kept { folds: Some(HashMap::default()), ..Kept::new(most) }
    }

    /// Adds a finding, unless enough earlier ones are kept.
    pub fn add(&mut self, finding: &Finding, place: Place<'_>) {
        self.count += 1;
        let key = (finding.frames.first().copied().unwrap_or(u64::MAX), self.count);
        let is_kept = match self.folds {
            Some(_) => self.fold(finding, place, key),
            None => self.push(finding, place, key),
        };
        if !is_kept {
            return;
        }
        if let Some(connection) = finding.connection
            && self.ends.len() < Kept::MOST_CONNECTIONS
        {
            self.ends.entry(connection).or_default();
        }
    }

    fn push(&mut self, finding: &Finding, place: Place<'_>, key: Key) -> bool {
        if self.rules.len() <= place.rule {
            self.rules.resize_with(place.rule + 1, Default::default);
        }
        let kept = &mut self.rules[place.rule][index(finding.verdict)];
        if kept.len() >= self.most {
            if kept.last_key_value().is_none_or(|(last, _)| *last <= key) {
                return false;
            }
            kept.pop_last();
        }
        kept.insert(key, Entry::new(finding, place));
        true
    }

    fn fold(&mut self, finding: &Finding, place: Place<'_>, key: Key) -> bool {
        let Some(folds) = &mut self.folds else { return false };
        let Finding { verdict, connection, by, .. } = *finding;
        let fold = Fold { rule: place.rule, verdict, connection, by };
        if let Some((first, count)) = folds.get_mut(&fold) {
            *count += 1;
            if key < first.0 {
                *first = (key, Entry::new(finding, place));
            }
            return true;
        }
        let has_room = folds.len() < Kept::MOST;
        if has_room {
            folds.insert(fold, ((key, Entry::new(finding, place)), 1));
        }
        has_room
    }

    /// Stores the ends of a connection that has findings, if it is known which end is the
    /// `requester`.
    pub fn connection(&mut self, connection: &Connection, requester: Option<End>) {
        let (Some(ends), Some(requester)) = (self.ends.get_mut(&connection.id), requester) else { return };
        let mut addresses = [connection.requester.address; 2];
        addresses[requester.other()] = connection.responder.address;
        *ends = Some(Ends { addresses, requester, roles_known: connection.roles_known });
    }

    /// Returns the kept findings of a rule, in the order of their first frames.
    pub fn of(&self, rule: usize, verdict: Verdict) -> Vec<Shown<'_>> {
        let kept = self.rules.get(rule).map(|kept| &kept[index(verdict)]);
        let kept = kept.into_iter().flatten();
        let mut entries: Vec<(&Key, &Entry, u64)> = kept.map(|(key, entry)| (key, entry, 1)).collect();
        let is_of = |fold: &Fold| fold.rule == rule && fold.verdict == verdict;
        let folds = self.folds.iter().flatten().filter(|(fold, _)| is_of(fold));
        entries.extend(folds.map(|(_, ((key, first), count))| (key, first, *count)));
        entries.sort_unstable_by_key(|(key, ..)| **key);
        entries.truncate(self.most);
        entries.into_iter().map(|(_, entry, times)| Shown::new(entry, times)).collect()
    }

    /// Returns the end that broke the rule, as far as known: `client 10.77.0.2`.
    ///
    /// If a connection was open before the capture began, packets after the finding may show which
    /// end opened it. So the roles known at the end of the connection are used.
    pub(crate) fn end_of(&self, finding: &Finding) -> Option<String> {
        let role = |is_requester: bool| if is_requester { "client" } else { "server" };
        let ends = finding.connection.and_then(|id| self.ends.get(&id).copied().flatten());
        let Some((ends, by)) = ends.zip(finding.by) else {
            return finding.by_requester.map(|by_requester| role(by_requester).to_owned());
        };
        let address = ends.addresses[by];
        Some(match ends.roles_known {
            true => format!("{} {address}", role(by == ends.requester)),
            false => address.to_string(),
        })
    }
}

const fn index(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Certain => 0,
        Verdict::Inconclusive => 1,
    }
}

/// A kept finding.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The first of the findings that this one represents.
    pub finding: &'a Finding,
    /// The number of findings that this one represents.
    pub times: u64,
    /// Whether it is allowed.
    pub is_allowed: bool,
    /// Why a policy allows it.
    pub reason: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn new(entry: &'a Entry, times: u64) -> Shown<'a> {
        let Entry { finding, is_allowed, reason, .. } = entry;
        Shown { finding, times, is_allowed: *is_allowed, reason: reason.as_deref() }
    }
}

/// A finding, and whether it is allowed.
#[derive(Debug)]
struct Entry {
    finding: Finding,
    is_allowed: bool,
    reason: Option<Arc<str>>,
}

impl Entry {
    fn new(finding: &Finding, place: Place<'_>) -> Entry {
        let Place { is_allowed, reason, .. } = place;
        Entry { finding: finding.clone(), is_allowed, reason: reason.cloned() }
    }
}
