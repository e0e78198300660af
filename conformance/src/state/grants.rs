//! What a server grants on files, locks, opens and delegations, and which of them conflict.
//!
//! That something is held still shows in the sequence number of its stateid, which whatever changes it increments (RFC 8881, section 8.2.1): where the
//! server accepts the number that it gave with the grant, nothing changed meanwhile, whatever the capture lacks.

use super::moment::{Key, Moment};
use crate::reconnection::Place;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// What a server grants on a file.
pub(super) trait Grant: Copy {
    /// Whether two owners may not hold both.
    fn conflicts(&self, other: &Self) -> bool;
}

/// The stateids that were given out last, with the last grant of each.
#[derive(Clone, Debug)]
pub(super) struct Grants<G> {
    /// Oldest first.
    held: VecDeque<Held<G>>,
}

impl<G> Default for Grants<G> {
    fn default() -> Grants<G> {
        Grants { held: VecDeque::new() }
    }
}

/// A stateid.
#[derive(Clone, Debug)]
struct Held<G> {
    key: Key,
    /// Whom it was given to: a hash of a lock-owner, or a client ID.
    owner: u64,
    place: Place,
    /// The file handle.
    file: Box<[u8]>,
    /// The last grant, unless it was given back since.
    grant: Option<Granted<G>>,
}

/// What was granted.
#[derive(Clone, Copy, Debug)]
struct Granted<G> {
    /// The sequence number that its stateid got.
    number: u32,
    what: G,
    at: Moment,
    /// When another owner was granted what conflicts with it.
    conflict: Option<Moment>,
}

/// What LOCK asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    first: u64,
    last: u64,
    writes: bool,
}

impl Range {
    /// Of the arguments of LOCK: a length of all ones reaches to the end of the file. None is empty (section 18.10.3).
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

/// What OPEN gives a client: the file open, or a delegation (section 10.4).
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
    /// Stateids that are remembered.
    const MOST: usize = 256;

    /// Bytes of memory that its lists take up.
    pub(super) fn footprint(&self) -> usize {
        let files: usize = self.held.iter().map(|held| held.file.len()).sum();
        self.held.len() * size_of::<Held<G>>() + files
    }

    /// Something was granted; `owner`, where the request says it.
    pub(super) fn granted(
        &mut self,
        (key, number): (Key, u32),
        owner: Option<u64>,
        what: G,
        (place, file): (Place, &[u8]),
        now: Moment,
    ) {
        let at = self.held.iter().position(|held| held.key == key);
        let known = at.and_then(|at| self.held.remove(at)).map(|held| held.owner);
        let Some(owner) = owner.or(known) else { return };
        for held in &mut self.held {
            let is_of_another =
                held.owner != owner && *held.file == *file && is_one_server(held.place, place);
            if let Some(grant) = held.grant.as_mut().filter(|_| is_of_another)
                && grant.what.conflicts(&what)
                && grant.at.is_before(&now)
            {
                grant.conflict.get_or_insert(now);
            }
        }
        if self.held.len() == Grants::<G>::MOST {
            self.held.pop_front();
        }
        let grant = Some(Granted { number, what, at: now, conflict: None });
        self.held.push_back(Held { key, owner, place, file: file.into(), grant });
    }

    /// LOCKU succeeded.
    pub(super) fn given_back(&mut self, key: Key) {
        if let Some(held) = self.held.iter_mut().find(|held| held.key == key) {
            held.grant = None;
        }
    }

    /// The server accepted this number of a stateid: where the grant of that number was held while another was granted, what it is, and when both were
    /// granted. It is told once.
    pub(super) fn confirmed(&mut self, key: Key, number: u32, now: &Moment) -> Option<(G, [Moment; 2])> {
        let held = self.held.iter_mut().find(|held| held.key == key)?;
        let grant = held.grant.as_mut().filter(|grant| grant.number == number)?;
        let conflict = grant.conflict.take_if(|conflict| conflict.is_before(now))?;
        Some((grant.what, [grant.at, conflict]))
    }
}

/// Whether calls of two places go to one server.
fn is_one_server(one: Place, other: Place) -> bool {
    match (one, other) {
        (Place::Hosts(_, one, _), Place::Hosts(_, other, _)) => one == other,
        _ => one == other,
    }
}
