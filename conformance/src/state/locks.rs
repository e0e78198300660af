//! Byte-range locks, and which of them conflict.
//!
//! That a lock is held still shows in the sequence number of its stateid, which LOCK and LOCKU increment (RFC 8881, section 8.2.1): where the server accepts the
//! number that it gave with the lock, nothing changed meanwhile, whatever the capture lacks.

use super::table::{Key, Moment};
use crate::reconnection::Place;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The lock stateids that were given out last, with the last lock of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// Oldest first.
    held: VecDeque<Held>,
}

/// A lock stateid.
#[derive(Clone, Debug)]
struct Held {
    key: Key,
    /// A hash of its lock-owner.
    owner: u64,
    place: Place,
    /// The file handle.
    file: Box<[u8]>,
    /// The last lock, unless something was unlocked since.
    lock: Option<Lock>,
}

/// A lock that was granted.
#[derive(Clone, Debug)]
struct Lock {
    /// The sequence number that its stateid got.
    number: u32,
    range: Range,
    at: Moment,
    /// When another lock-owner was granted one that conflicts with it.
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

    fn conflicts(&self, other: &Range) -> bool {
        (self.writes || other.writes) && self.first <= other.last && other.first <= self.last
    }
}

impl Locks {
    /// Lock stateids that are remembered.
    const MOST: usize = 256;

    /// Bytes of memory that its lists take up.
    pub(super) fn footprint(&self) -> usize {
        let files: usize = self.held.iter().map(|held| held.file.len()).sum();
        self.held.len() * size_of::<Held>() + files
    }

    /// A lock was granted: `owner`, where the lock-owner is a new one.
    pub(super) fn granted(
        &mut self,
        key: Key,
        number: u32,
        owner: Option<u64>,
        range: Range,
        (place, file): (Place, &[u8]),
        now: Moment,
    ) {
        let at = self.held.iter().position(|held| held.key == key);
        let known = at.and_then(|at| self.held.remove(at)).map(|held| held.owner);
        let Some(owner) = owner.or(known) else { return };
        for held in &mut self.held {
            let is_of_another =
                held.owner != owner && *held.file == *file && is_one_server(held.place, place);
            if let Some(lock) = held.lock.as_mut().filter(|_| is_of_another)
                && lock.range.conflicts(&range)
                && lock.at.is_before(&now)
            {
                lock.conflict.get_or_insert(now);
            }
        }
        if self.held.len() == Locks::MOST {
            self.held.pop_front();
        }
        let lock = Some(Lock { number, range, at: now, conflict: None });
        self.held.push_back(Held { key, owner, place, file: file.into(), lock });
    }

    /// LOCKU succeeded.
    pub(super) fn unlocked(&mut self, key: Key) {
        if let Some(held) = self.held.iter_mut().find(|held| held.key == key) {
            held.lock = None;
        }
    }

    /// The server accepted this number of a lock stateid: where the lock of that number was held while another was granted, both. It is told once.
    pub(super) fn confirmed(&mut self, key: Key, number: u32, now: &Moment) -> Option<(Moment, Moment)> {
        let held = self.held.iter_mut().find(|held| held.key == key)?;
        let lock = held.lock.as_mut().filter(|lock| lock.number == number)?;
        let conflict = lock.conflict.take_if(|conflict| conflict.is_before(now))?;
        Some((lock.at, conflict))
    }
}

/// Whether calls of two places go to one server.
fn is_one_server(one: Place, other: Place) -> bool {
    match (one, other) {
        (Place::Hosts(_, one, _), Place::Hosts(_, other, _)) => one == other,
        _ => one == other,
    }
}
