//! Packets that the capture shows twice.
//!
//! A capture made on all interfaces of a host, on both ports of a switch, or at two places at once shows a packet more than once. A copy
//! is no retransmission: it was sent once.

use crate::frame::{Identity, Numbering};
use crate::record::Seen;
use alloc::boxed::Box;
use alloc::vec;
use rdmascope_wire::Qpn;

/// The packets seen last.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// A packet is noted in the set that its identity names. Empty before the first packet.
    sets: Box<[Set]>,
    /// A bit for each of the queue pairs that packets with an Identification were for, by the low bits of its number.
    numbered: u64,
}

/// Some packets. The one noted first gives way.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    identities: [u64; WAYS],
    seen: [Option<Seen>; WAYS],
    next: u8,
}

const SETS: usize = 64;
const WAYS: usize = 8;
/// Nanoseconds within which the copy of a packet comes, where its sender numbers packets: more than clocks of two places that were set
/// by PTP differ, less than a sender takes to use a number again.
const NUMBERED: u64 = 2_000_000;
/// The same where it does not. A sender that is told of a loss transmits the same bytes again, but not before a round trip.
const NOT_NUMBERED: u64 = 10_000;

impl Copies {
    /// Notes a packet, and returns the record that showed it first where this one is a copy.
    #[inline]
    pub(super) fn note(&mut self, identity: Identity, destination_qp: Qpn, seen: Seen) -> Option<Seen> {
        if self.sets.is_empty() {
            self.sets = vec![Set::default(); SETS].into_boxed_slice();
        }
        let hash = identity.hash();
        let set = &mut self.sets[hash as usize % SETS];
        let flow = 1 << (destination_qp.0 % u64::BITS);
        let within = match identity.numbering {
            Numbering::Numbered => {
                self.numbered |= flow;
                NUMBERED
            }
            Numbering::Zero if self.numbered & flow != 0 => NUMBERED,
            Numbering::Zero | Numbering::None => NOT_NUMBERED,
        };
        if let Some(at) = set.identities.iter().position(|noted| *noted == hash)
            && let Some(first) = set.seen[at]
        {
            if seen.time.since(first.time) <= within {
                return Some(first);
            }
            set.seen[at] = Some(seen);
            return None;
        }
        let at = usize::from(set.next) % WAYS;
        (set.identities[at], set.seen[at]) = (hash, Some(seen));
        set.next = set.next.wrapping_add(1);
        None
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.sets)
    }
}
