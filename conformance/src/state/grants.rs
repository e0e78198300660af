//! Locks, opens and delegations that a server grants, and their conflicts.
//!
//! Every change of a grant increments the sequence number of its stateid (RFC 8881, section 8.2.1).
//! If the server still accepts the number that it returned with the grant, the grant is still held,
//! even if the capture lacks packets in between.

use super::moment::{Key, Moment};
use crate::bounded;
use crate::reconnection::Place;
use alloc::boxed::Box;

/// A grant of a server on a file.
pub(super) trait Grant: Copy {
    /// Whether two owners must not hold both.
    fn conflicts(&self, other: &Self) -> bool;
}

/// The latest stateids, with the last grant of each.
#[derive(Clone, Debug)]
pub(super) struct Grants<G>(bounded::Map<Key, Held<G>>);

impl<G> Default for Grants<G> {
    fn default() -> Grants<G> {
        Grants(bounded::Map::default())
    }
}

/// A stateid.
#[derive(Clone, Debug)]
struct Held<G> {
    /// The owner: a hash of a lock-owner, or a client ID.
    owner: u64,
    place: Place,
    /// The file handle.
    file: Box<[u8]>,
    /// The last grant, unless it was given back since.
    grant: Option<Granted<G>>,
}

/// A grant with its sequence number and time.
#[derive(Clone, Copy, Debug)]
struct Granted<G> {
    /// The sequence number that its stateid got.
    number: u32,
    access: G,
    at: Moment,
    /// When another owner was granted something that conflicts with it.
    conflict: Option<Moment>,
}

/// The byte range that a LOCK requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    first: u64,
    last: u64,
    writes: bool,
}

impl Range {
    /// The range in the arguments of LOCK. A length of all ones extends to the end of the file; a
    /// length of 0 is not valid (section 18.10.3).
    pub(super) fn new(offset: u64, length: u64, kind: u32) -> Range {
        let last = if length == u64::MAX { u64::MAX } else { offset.saturating_add(length - 1) };
        // WRITE_LT and WRITEW_LT.
        Range { first: offset, last, writes: matches!(kind, 2 | 4) }
    }
}

impl Grant for Range {
    fn conflicts(&self, other: &Range) -> bool {
        (self.writes || other.writes) && self.first <= other.last && other.first <= self.last
    }
}

/// The result of an OPEN: the file open, or a delegation (section 10.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) is_delegation: bool,
    pub(super) writes: bool,
}

impl Grant for Share {
    fn conflicts(&self, other: &Share) -> bool {
        (self.is_delegation || other.is_delegation) && (self.writes || other.writes)
    }
}

impl<G: Grant> Grants<G> {
    /// Stateids that are kept.
    const MOST: usize = 256;

    /// Heap bytes that its lists take up.
    pub(super) fn footprint(&self) -> usize {
        let files: usize = self.0.values().map(|held| held.file.len()).sum();
        self.0.footprint() + files
    }

    /// Records a grant. `owner` is given if the request contains it.
    pub(super) fn granted(
        &mut self,
        (key, number): (Key, u32),
        owner: Option<u64>,
        access: G,
        (place, file): (Place, &[u8]),
        now: Moment,
    ) {
        let known = self.0.remove(&key).map(|held| held.owner);
        let Some(owner) = owner.or(known) else { return };
        for held in self.0.values_mut() {
            let is_of_another =
                held.owner != owner && *held.file == *file && is_one_server(held.place, place);
            if let Some(grant) = held.grant.as_mut().filter(|_| is_of_another)
                && grant.access.conflicts(&access)
                && grant.at.is_before(&now)
            {
                grant.conflict.get_or_insert(now);
            }
        }
        let grant = Some(Granted { number, access, at: now, conflict: None });
        self.0.insert(Grants::<G>::MOST, key, Held { owner, place, file: file.into(), grant });
    }

    /// Records that LOCKU succeeded.
    pub(super) fn given_back(&mut self, key: Key) {
        if let Some(held) = self.0.get_mut(&key) {
            held.grant = None;
        }
    }

    /// Records that the server accepted this number of a stateid. If the grant of that number was
    /// held while a conflicting one was granted, returns it with the times of both grants. Each
    /// conflict is returned once.
    pub(super) fn confirmed(&mut self, key: Key, number: u32, now: &Moment) -> Option<(G, [Moment; 2])> {
        let held = self.0.get_mut(&key)?;
        let grant = held.grant.as_mut().filter(|grant| grant.number == number)?;
        let conflict = grant.conflict.take_if(|conflict| conflict.is_before(now))?;
        Some((grant.access, [grant.at, conflict]))
    }
}

/// Whether calls of two places go to the same server.
fn is_one_server(one: Place, other: Place) -> bool {
    match (one, other) {
        (Place::Hosts(_, one, network, _), Place::Hosts(_, other, of, _)) => (one, network) == (other, of),
        _ => one == other,
    }
}
