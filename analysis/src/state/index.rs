//! Groups of lifetimes, so that an operation looks only at those that it concerns.

use super::{Kind, Lifetime};
use core::ops::{Deref, DerefMut, RangeInclusive};
use rdmascope_dissector::record::Time;
use std::collections::BTreeSet;

/// A group of lifetimes of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// The live locks of the open with this number.
    LocksOf(u64),
    /// In minor version 0, in which scopes name no client: the live state of this client ID.
    Client(u64),
    /// The live layouts.
    Layouts,
    /// The live layouts that no callback recalled.
    NotRecalled,
    /// The live layouts that appeared last at this time, and that no call may have returned since.
    Sure(Time),
    /// The lifetimes that were lost or abandoned at this time.
    Lost(Time),
}

/// The groups of a lifetime.
type Groups = [Option<Group>; 5];

impl Lifetime {
    fn groups(&self) -> Groups {
        if let Some(at) = self.ended {
            return [self.end.is_loss().then_some(Group::Lost(at.time)), None, None, None, None];
        }
        let is_layout = self.kind == Kind::Layout;
        [
            self.open.map(Group::LocksOf),
            self.client.filter(|_| self.scope == 0).map(Group::Client),
            is_layout.then_some(Group::Layouts),
            (is_layout && self.recalled.is_none()).then_some(Group::NotRecalled),
            (is_layout && self.unsure.is_none()).then_some(Group::Sure(self.last.time)),
        ]
    }
}

/// The places of lifetimes by scope and group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index(BTreeSet<(u64, Group, u64)>);

impl Index {
    pub(super) fn add(&mut self, place: u64, lifetime: &Lifetime) {
        self.0.extend(lifetime.groups().into_iter().flatten().map(|group| (lifetime.scope, group, place)));
    }

    pub(super) fn remove(&mut self, place: u64, lifetime: &Lifetime) {
        for group in lifetime.groups().into_iter().flatten() {
            self.0.remove(&(lifetime.scope, group, place));
        }
    }

    /// The places of the lifetimes of a scope that are in one of these groups, by group.
    pub(super) fn places(&self, scope: u64, groups: RangeInclusive<Group>) -> impl Iterator<Item = u64> {
        let (first, last) = groups.into_inner();
        self.0.range((scope, first, 0)..=(scope, last, u64::MAX)).map(|(_, _, place)| *place)
    }
}

/// A live lifetime that may change. The index is updated when this is dropped.
#[derive(Debug)]
pub(super) struct Live<'a> {
    lifetime: &'a mut Lifetime,
    index: &'a mut Index,
    groups: Groups,
}

impl<'a> Live<'a> {
    pub(super) fn new(lifetime: &'a mut Lifetime, index: &'a mut Index) -> Live<'a> {
        let groups = lifetime.groups();
        Live { lifetime, index, groups }
    }
}

impl Deref for Live<'_> {
    type Target = Lifetime;

    fn deref(&self) -> &Lifetime {
        self.lifetime
    }
}

impl DerefMut for Live<'_> {
    fn deref_mut(&mut self) -> &mut Lifetime {
        self.lifetime
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        if self.groups != self.lifetime.groups() {
            let (scope, place) = (self.lifetime.scope, self.lifetime.number);
            for group in self.groups.into_iter().flatten() {
                self.index.0.remove(&(scope, group, place));
            }
            self.index.add(place, self.lifetime);
        }
    }
}
