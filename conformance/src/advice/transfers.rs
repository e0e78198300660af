//! READs and WRITEs that are smaller than they need to be.

use super::Examples;
use alloc::collections::VecDeque;
use rdmascope_dissector::transaction::{Message, Transaction};
use rdmascope_dissector::ulb::Operation;

/// The READs or WRITEs of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfers {
    pub(super) count: u64,
    /// The largest size, in bytes.
    pub(super) size: u64,
    /// Those of the largest size.
    pub(super) largest: u64,
    /// Those of the largest size that are next to another one in a file.
    pub(super) adjacent: u64,
    /// Offsets of the last ones of the largest size.
    recent: VecDeque<u64>,
    pub(super) examples: Examples,
}

impl Transfers {
    /// Offsets that are kept.
    const RECENT: usize = 16;
    /// The number from which on they are reported.
    const ENOUGH: u64 = 64;
    /// The largest size that is small, in bytes.
    const SMALL: u64 = 32 << 10;

    /// Adds a READ or WRITE.
    pub(super) fn note(&mut self, operation: &Operation, transaction: &Transaction, call: &Message) {
        let (Some(size), Some(offset)) = (operation.count, operation.offset) else { return };
        self.count += 1;
        if size > self.size {
            *self = Transfers { count: self.count, size, ..Transfers::default() };
        }
        if size == 0 || size < self.size || size > Transfers::SMALL {
            return;
        }
        self.largest += 1;
        if self.recent.iter().any(|other| other.abs_diff(offset) == size) {
            self.adjacent += 1;
            self.examples.note(transaction, call);
        }
        if self.recent.len() >= Transfers::RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(offset);
    }

    /// Heap bytes that the lists take up.
    pub(super) fn footprint(&self) -> usize {
        self.recent.len() * size_of::<u64>() + self.examples.footprint()
    }

    /// Whether they are parts of larger transfers: almost all have the same small size, and most are
    /// next to another one.
    pub(super) fn are_parts(&self) -> bool {
        let Transfers { count, size, largest, adjacent, .. } = *self;
        largest >= Transfers::ENOUGH
            && size <= Transfers::SMALL
            && largest * 10 >= count * 9
            && adjacent * 2 >= largest
    }
}
