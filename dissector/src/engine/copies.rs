//! Packets that the capture shows twice.
//!
//! A capture made on all interfaces of a host, on both ports of a switch, or at two places at once shows a packet more than once. A copy
//! is no retransmission: it was sent once.

use crate::frame::{Identity, Numbering, Segment};
use crate::record::{Seen, Tap, Time};
use alloc::boxed::Box;
use alloc::vec;
use rdmascope_wire::bth::Bth;

/// The packets seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// A packet is noted in the set that its BTH names: the same with its payload and without. Empty before the first packet.
    sets: Box<[Set]>,
    /// A bit for each of the queue pairs that packets with an Identification were for, by the low bits of its number.
    numbered: u64,
    /// How long after one tap another may show a packet, where the capture is of places that far apart.
    apart: Option<u64>,
}

/// A packet, as a record shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    identity: Identity,
    /// Says which set it is noted in: destination queue pair and PSN, multiplied with 2^32 over the golden ratio to spread those that differ little.
    mixed: u32,
    /// The bit of the destination queue pair.
    flow: u64,
    seen: Seen,
    tap: Tap,
}

impl Sighting {
    pub(crate) fn new(identity: Identity, bth: &Bth, seen: Seen, tap: Tap) -> Sighting {
        Sighting::of(identity, bth.psn.value(), bth.destination_qp.0, seen, tap)
    }

    /// Of a TCP segment: its sequence number and port stand for PSN and queue pair. Segments without payload have all the same one, and differ in
    /// what they acknowledge.
    pub(crate) fn of_segment(segment: &Segment<'_>, seen: Seen, tap: Tap) -> Sighting {
        let number = segment.sequence.wrapping_add(segment.acknowledgement.unwrap_or(0));
        Sighting::of(segment.identity(), number, segment.ports[1].into(), seen, tap)
    }

    fn of(identity: Identity, number: u32, receiver: u32, seen: Seen, tap: Tap) -> Sighting {
        let mixed = number.wrapping_add(receiver << 8).wrapping_mul(0x9e37_79b1);
        Sighting { identity, mixed, flow: 1 << (receiver % u64::BITS), seen, tap }
    }

    /// Which of so many sets it is noted in.
    #[inline]
    fn place(&self, sets: usize) -> usize {
        (self.mixed >> (u32::BITS - sets.ilog2())) as usize
    }
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
/// The same where packets are on their way for longer than a copy takes within a host: 65,536 packets.
const SETS_APART: usize = 8192;
const WAYS: usize = 8;
/// Nanoseconds within which the copy of a packet comes, where its sender numbers packets: more than clocks of two places that were set
/// by PTP differ, less than a sender takes to use a number again.
const NUMBERED: u64 = 2_000_000;
/// The same where it does not, at one tap. A sender that is told of a loss transmits the same bytes again, but not before a round trip. What
/// another tap shows is on its way there: that is a copy within [`NUMBERED`].
const NOT_NUMBERED: u64 = 10_000;
/// Taps of a packet that are remembered: a capture on all interfaces shows it at a port, its bond, its VLAN and its bridge.
const TAPS: usize = 4;

impl Set {
    /// Where a packet is noted that was not taken back since.
    #[inline]
    fn position(&self, identity: Identity) -> Option<usize> {
        (0..WAYS).find(|at| self.identities[*at] == identity.hash() && self.seen[*at].is_some())
    }
}

impl Shown {
    fn new(first: Seen, tap: Tap) -> Shown {
        Shown { first, taps: [Some((tap, first.time)), None, None, None] }
    }

    /// Whether `tap` shows a copy `at` this time, `within` so many nanoseconds. Where the sender does not number packets, that it showed the bytes
    /// is noted.
    #[inline]
    fn is_copy(&mut self, is_numbered: bool, tap: Tap, at: Time, within: u64) -> bool {
        if is_numbered { at.since(self.first.time) <= within } else { self.is_copy_at(tap, at, within) }
    }

    /// Notes that `tap` shows the same bytes `at` this time, by a sender that does not number packets; returns whether that is a copy. One tap
    /// shows a packet again at once or not at all, so what it shows later was sent again.
    fn is_copy_at(&mut self, tap: Tap, at: Time, within: u64) -> bool {
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
        at.since(self.first.time) <= within
    }
}

impl Copies {
    /// Of a capture that may show a packet at one tap so many nanoseconds after another; `None`: only within a host or switch, or by clocks
    /// that were set.
    pub(crate) fn new(apart: Option<u64>) -> Copies {
        Copies { apart, ..Copies::default() }
    }

    fn within(&self) -> u64 {
        self.apart.map_or(NUMBERED, |apart| apart.max(NUMBERED))
    }

    /// Notes a packet, and returns the record that showed it first where this one is a copy.
    #[inline]
    pub(crate) fn note(&mut self, sighting: Sighting) -> Option<Seen> {
        if self.sets.is_empty() {
            let sets = if self.apart.is_some() { SETS_APART } else { SETS };
            self.sets = vec![Set::default(); sets].into_boxed_slice();
        }
        if sighting.identity.numbering == Numbering::Numbered {
            self.numbered |= sighting.flow;
        }
        let (is_numbered, within) = (self.is_numbered(sighting), self.within());
        let Sighting { identity, seen, tap, .. } = sighting;
        let set = &mut self.sets[sighting.place(self.sets.len())];
        if let Some(at) = set.position(identity)
            && let Some(shown) = &mut set.seen[at]
        {
            if shown.is_copy(is_numbered, tap, seen.time, within) {
                return Some(shown.first);
            }
            // It was sent again, and is noted as any packet is. So packets give way in the same order whether they are told apart or not.
            set.seen[at] = None;
        }
        let at = usize::from(set.next) % WAYS;
        (set.identities[at], set.seen[at]) = (identity.hash(), Some(Shown::new(seen, tap)));
        set.next = set.next.wrapping_add(1);
        None
    }

    /// Whether a packet that looks like this one is still noted, however long ago it came.
    pub(crate) fn holds(&self, sighting: Sighting) -> bool {
        !self.sets.is_empty()
            && self.sets[sighting.place(self.sets.len())].position(sighting.identity).is_some()
    }

    /// Whether the sender of a packet was seen to number packets, this one included.
    #[inline]
    fn is_numbered(&self, sighting: Sighting) -> bool {
        match sighting.identity.numbering {
            Numbering::Numbered => true,
            Numbering::Zero => self.numbered & sighting.flow != 0,
            Numbering::None => false,
        }
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.sets)
    }
}

#[cfg(test)]
mod tests;
