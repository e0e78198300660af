//! Packets that the capture shows twice.
//!
//! A capture made on all interfaces of a host, on both ports of a switch, or at two places at once shows a packet more than once. A copy
//! is no retransmission: it was sent once.

use crate::frame::{Identity, Numbering};
use crate::record::{Seen, Tap, Time};
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
    seen: [Option<Shown>; WAYS],
    next: u8,
}

/// A packet, and where the capture showed it since.
#[derive(Clone, Copy, Debug)]
struct Shown {
    first: Seen,
    /// The taps that showed it, with when each did last: the first ones of more.
    taps: [Option<(Tap, Time)>; TAPS],
}

const SETS: usize = 64;
const WAYS: usize = 8;
/// Nanoseconds within which the copy of a packet comes, where its sender numbers packets: more than clocks of two places that were set
/// by PTP differ, less than a sender takes to use a number again.
const NUMBERED: u64 = 2_000_000;
/// The same where it does not, at one tap. A sender that is told of a loss transmits the same bytes again, but not before a round trip. What
/// another tap shows is on its way there: that is a copy within [`NUMBERED`].
const NOT_NUMBERED: u64 = 10_000;
/// Taps of a packet that are remembered: a capture on all interfaces shows it at a port, its bond, its VLAN and its bridge.
const TAPS: usize = 4;

impl Shown {
    fn new(first: Seen, tap: Tap) -> Shown {
        Shown { first, taps: [Some((tap, first.time)), None, None, None] }
    }

    /// Notes that `tap` shows the same bytes `at` this time, by a sender that does not number packets; returns whether that is a copy. One tap
    /// shows a packet again at once or not at all, so what it shows later was sent again.
    fn is_copy_at(&mut self, tap: Tap, at: Time) -> bool {
        for known in &mut self.taps {
            match known {
                Some((other, last)) if *other == tap => {
                    let is_copy = at.since(*last) <= NOT_NUMBERED;
                    *last = at;
                    return is_copy;
                }
                Some(_) => {}
                None => {
                    *known = Some((tap, at));
                    break;
                }
            }
        }
        at.since(self.first.time) <= NUMBERED
    }
}

impl Copies {
    /// Notes a packet, and returns the record that showed it first where this one is a copy.
    #[inline]
    pub(super) fn note(
        &mut self,
        identity: Identity,
        destination_qp: Qpn,
        seen: Seen,
        tap: Tap,
    ) -> Option<Seen> {
        if self.sets.is_empty() {
            self.sets = vec![Set::default(); SETS].into_boxed_slice();
        }
        let hash = identity.hash();
        let set = &mut self.sets[hash as usize % SETS];
        let flow = 1 << (destination_qp.0 % u64::BITS);
        let is_numbered = match identity.numbering {
            Numbering::Numbered => {
                self.numbered |= flow;
                true
            }
            Numbering::Zero => self.numbered & flow != 0,
            Numbering::None => false,
        };
        if let Some(at) = set.identities.iter().position(|noted| *noted == hash)
            && let Some(shown) = &mut set.seen[at]
        {
            let first = shown.first;
            let is_copy = match is_numbered {
                true => seen.time.since(first.time) <= NUMBERED,
                false => shown.is_copy_at(tap, seen.time),
            };
            if is_copy {
                return Some(first);
            }
            *shown = Shown::new(seen, tap);
            return None;
        }
        let at = usize::from(set.next) % WAYS;
        (set.identities[at], set.seen[at]) = (hash, Some(Shown::new(seen, tap)));
        set.next = set.next.wrapping_add(1);
        None
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.sets)
    }
}
