//! Pairs the operations of the two captures.

use super::difference::Pair;
use super::side::{Counted, Side};
use crate::names::{Label, Protocol};
use crate::report::Key;
use rdmascope_dissector::ulb;
use std::collections::{BTreeMap, BTreeSet};

/// Operations of one protocol and direction (`true` for backward).
type Group = (Option<Protocol>, bool);

/// The pairs of groups of two captures.
#[derive(Debug)]
pub(super) struct Pairing(Vec<[Option<Group>; 2]>);

impl Pairing {
    /// Pairs each group of both sides with itself. Groups of only one side are paired within a
    /// program by their number of transactions, most first: `NFSv3` with `NFSv4.2`.
    pub(super) fn of(sides: [&Side; 2]) -> Pairing {
        let [a, b] = sides.map(groups);
        let both = a.keys().filter(|group| b.contains_key(group));
        let mut pairs: Vec<_> = both.map(|group| [Some(*group), Some(*group)]).collect();
        let [only_a, mut only_b] = [(&a, &b), (&b, &a)].map(|(own, other)| {
            let mut single: Vec<_> = own.iter().filter(|(group, _)| !other.contains_key(group)).collect();
            single.sort_by_key(|(group, count)| (core::cmp::Reverse(**count), **group));
            single.into_iter().map(|(group, _)| *group).collect::<Vec<_>>()
        });
        for group in only_a {
            let found = only_b.iter().position(|candidate| program(candidate) == program(&group));
            pairs.push([Some(group), found.map(|index| only_b.remove(index))]);
        }
        pairs.extend(only_b.into_iter().map(|group| [None, Some(group)]));
        Pairing(pairs)
    }

    /// All operations, each with its counters on either side.
    pub(super) fn operations<'a>(&self, sides: [&'a Side; 2]) -> Vec<(Pair, [Option<&'a Counted>; 2])> {
        let mut all = Vec::new();
        for groups in &self.0 {
            let labels: BTreeSet<Label> = (sides.iter().zip(groups))
                .flat_map(|(side, group)| {
                    side.operations
                        .iter()
                        .filter(move |(key, _)| Some((key.protocol, key.backward)) == *group)
                })
                .map(|(key, _)| key.label)
                .collect();
            let protocols = groups.map(|group| group.and_then(|(protocol, _)| protocol));
            let backward = groups.iter().flatten().any(|(_, backward)| *backward);
            all.extend(labels.into_iter().map(|label| {
                let find = |index: usize| {
                    let (protocol, backward) = groups[index]?;
                    sides[index].operations.find(&Key { protocol, backward, label })
                };
                (Pair { protocols, backward, label, size: None }, [find(0), find(1)])
            }));
        }
        all
    }

    /// The pair of protocols that contains this protocol of side `index`.
    pub(super) fn protocols(&self, index: usize, protocol: Option<Protocol>) -> [Option<Protocol>; 2] {
        let found = self.0.iter().find(|pair| pair[index].is_some_and(|(own, _)| own == protocol));
        match found {
            Some(pair) => pair.map(|group| group.and_then(|(protocol, _)| protocol)),
            None => [protocol, protocol],
        }
    }
}

/// The number of transactions in each group.
fn groups(side: &Side) -> BTreeMap<Group, u64> {
    let mut groups = BTreeMap::new();
    for (key, counted) in side.operations.iter() {
        *groups.entry((key.protocol, key.backward)).or_default() += counted.stats.count;
    }
    groups
}

/// The key within which groups are paired. Clients choose the numbers of callback programs, but
/// their name is the same.
fn program((protocol, backward): &Group) -> (Option<u32>, Option<&'static str>, bool) {
    let number = protocol.map(|protocol| protocol.program);
    match number.and_then(ulb::program_name) {
        Some(name) => (None, Some(name), *backward),
        None => (number, None, *backward),
    }
}
