//! Detection of copies: packets that the capture contains twice.
//!
//! A capture on all interfaces of a host, on both ports of a switch or at two capture points
//! contains packets more than once. A copy is no retransmission: the packet was sent once.

use crate::connection::Files;
use crate::frame::{Frame, Identity, Numbering, Segment};
use crate::record::{Seen, Tap, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use rdmascope_wire::bth::Bth;

/// The recent packets of the capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// A packet belongs to the set that its identity selects. The transmissions of a packet and its
    /// ACKs have equal numbers, so these would crowd one set. Empty before the first packet.
    sets: Box<[Set]>,
    numbers: Numbers,
    /// Hashes and times of one packet in 64, while few packets are remembered.
    sample: Vec<(u64, Time)>,
    /// The maximum time between two taps of the same packet, for captures from distant capture
    /// points.
    apart: Option<u64>,
    /// The file of the last packet, and all files so far.
    file: u32,
    files: Files,
    /// Whether files were captured at the same time: packets of one came before and after those of
    /// another. Files of a rotated capture follow each other.
    is_parallel: bool,
    /// Copies in another file: within [`NUMBERED`], and later.
    elsewhere: [u64; 2],
    /// The same for copies in the same file.
    here: [u64; 2],
    merged: Merged,
}

/// Whether the capture was merged from those of two clocks: then most packets come twice.
#[derive(Clone, Copy, Debug, Default)]
struct Merged {
    /// Packets that are no copies.
    packets: u64,
    /// Those of them that would be late copies.
    again: u64,
    /// A sender may give the packets that it sends again their old Identifications, so few do not show
    /// anything.
    is_sure: bool,
}

impl Merged {
    /// The least number of packets that come again.
    const FEWEST: u64 = 4;

    /// Adds a packet that would be a late copy.
    fn add(&mut self) {
        self.again += 1;
        self.is_sure |= self.again >= Merged::FEWEST && self.again * 4 >= self.packets;
    }
}

/// The last three Identifications of packets to each queue pair, latest last, by the low bits of the
/// number of the queue pair. 0 stands for none.
#[derive(Clone, Debug)]
struct Numbers([[u16; 3]; 64]);

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers([[0; 3]; 64])
    }
}

impl Numbers {
    #[inline]
    fn add(&mut self, receiver: u8, number: u16) {
        let [_, last, latest] = self.0[usize::from(receiver)];
        self.0[usize::from(receiver)] = [last, latest, number];
    }

    /// Whether there was any.
    #[inline]
    fn are_set(&self, receiver: u8) -> bool {
        self.0[usize::from(receiver)][2] != 0
    }

    /// Whether the sender of a packet gives each packet another Identification, so that only a copy has
    /// the same. Some senders set one value in all packets.
    fn are_unique(&self, sighting: &Sighting) -> bool {
        let [first, second, third] = self.0[usize::from(sighting.receiver)];
        let differ = first != 0 && first != second && second != third && third != first;
        differ && matches!(sighting.identity.numbering, Numbering::Numbered(_))
    }
}

/// A packet in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    identity: Identity,
    /// The low bits of the destination queue pair.
    receiver: u8,
    seen: Seen,
    place: Place,
    /// [`Frame::context`].
    context: u32,
}

/// The first sighting of a packet that is a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) seen: Seen,
    /// Its [`Frame::context`].
    pub(crate) context: u32,
}

/// Where a packet was captured: the tap, and [`Frame::hop`]. A sender that transmits a packet again
/// changes neither. A switch that mirrors two of its ports to one tap changes the hop.
type Place = (Tap, u32);

impl Sighting {
    pub(crate) fn new(frame: &Frame<'_>, bth: &Bth, seen: Seen, tap: Tap) -> Sighting {
        let place = (tap, frame.hop);
        Sighting::of(frame.identity, bth.destination_qp.0, seen, place, frame.context)
    }

    /// The sighting of a TCP segment: the port replaces the queue pair.
    pub(crate) fn of_segment(segment: &Segment<'_>, seen: Seen, tap: Tap) -> Sighting {
        Sighting::of(segment.identity(), segment.ports[1].into(), seen, (tap, 0), segment.context)
    }

    fn of(identity: Identity, receiver: u32, seen: Seen, place: Place, context: u32) -> Sighting {
        Sighting { identity, receiver: (receiver % 64) as u8, seen, place, context }
    }
}

/// The index of the set of a packet, by the hash of its identity.
#[inline]
fn place(hash: u64, sets: usize) -> usize {
    (hash >> (u64::BITS - sets.ilog2())) as usize
}

fn sets(count: usize) -> Box<[Set]> {
    vec![Set::default(); count].into_boxed_slice()
}

/// A set of packets. The oldest is replaced first.
#[derive(Clone, Debug, Default)]
struct Set {
    identities: [u64; WAYS],
    seen: [Option<Shown>; WAYS],
    next: u8,
}

/// A packet, and the places that have shown it, each with the time of its last copy.
#[derive(Clone, Debug)]
struct Shown {
    first: First,
    place: (Place, Time),
    /// Further places, at most [`PLACES`]. Few packets have any, so that the table stays small.
    further: Vec<(Place, Time)>,
}

const SETS: usize = 64;
/// The number of sets if packets travel longer than a copy takes within a host: 65,536 packets.
const SETS_APART: usize = 8192;
const WAYS: usize = 8;
/// Maximum delay of a copy in nanoseconds, if its sender numbers packets. It is more than the
/// difference of two clocks set by PTP, and less than the time until a sender reuses a number.
const NUMBERED: u64 = 2_000_000;
/// Maximum delay of a copy at one place, if its sender does not number packets. After a loss, a
/// sender retransmits the same bytes, but not within a round trip. At another place, the same bytes
/// within [`NUMBERED`] are a copy.
const NOT_NUMBERED: u64 = 10_000;
/// Maximum delay of a copy in another file, and of one whose sender gives each packet another
/// Identification, in nanoseconds. Clocks of two hosts may differ by more than [`NUMBERED`].
const LATEST: u64 = 1_000_000_000;
/// Maximum number of further places of a packet: a capture on all interfaces shows it at a port, its
/// bond, its VLAN and its bridge.
const PLACES: usize = 3;

impl Set {
    /// Adds a packet in place of the oldest.
    #[inline]
    fn insert(&mut self, identity: u64, shown: Shown) {
        let at = usize::from(self.next) % WAYS;
        (self.identities[at], self.seen[at]) = (identity, Some(shown));
        self.next = self.next.wrapping_add(1);
    }

    /// The index of a packet in the set, unless it was removed.
    #[inline]
    fn position(&self, identity: Identity) -> Option<usize> {
        (0..WAYS).find(|at| self.identities[*at] == identity.hash() && self.seen[*at].is_some())
    }
}

impl Shown {
    fn new(first: First, place: Place) -> Shown {
        Shown { first, place: (place, first.seen.time), further: Vec::new() }
    }

    /// Whether `place` shows a copy at the time `at`, within `within` nanoseconds. If the sender does
    /// not number packets, the sighting is noted.
    #[inline]
    fn is_copy(&mut self, is_numbered: bool, place: Place, at: Time, within: u64) -> bool {
        if is_numbered {
            at.since(self.first.seen.time) <= within
        } else {
            self.is_copy_at(place, at, within)
        }
    }

    /// Notes the same bytes at `place` from a sender that does not number packets, and returns
    /// whether they are a copy. One place shows a copy at once or never; later, the same bytes are a
    /// retransmission.
    fn is_copy_at(&mut self, place: Place, at: Time, within: u64) -> bool {
        let known = core::iter::once(&mut self.place).chain(&mut self.further);
        if let Some((_, last)) = known.into_iter().find(|(other, _)| *other == place) {
            return at.since(core::mem::replace(last, at)) <= NOT_NUMBERED;
        }
        if self.further.len() < PLACES {
            self.further.push((place, at));
        }
        at.since(self.first.seen.time) <= within
    }
}

impl Copies {
    /// Creates the table. `apart` is the maximum time between taps in nanoseconds; `None` if all
    /// are within a host or switch, or if the clocks were synchronized.
    pub(crate) fn new(apart: Option<u64>) -> Copies {
        Copies { apart, ..Copies::default() }
    }

    fn within(&self) -> u64 {
        self.apart.map_or(NUMBERED, |apart| apart.max(NUMBERED))
    }

    /// Notes the file of a packet.
    #[cold]
    fn note_file(&mut self, file: u32) {
        let is_parallel = file < Files::MOST - 1 && self.files.has(file);
        self.file = file;
        self.files.add(file);
        if is_parallel && self.apart.is_none() {
            self.is_parallel = true;
            self.remember_more();
        }
    }

    /// Notes one packet in 64. If it is a copy that came late, remembers more packets from now on.
    #[inline]
    fn note_sample(&mut self, sighting: Sighting) {
        const ONE_IN: u64 = 64;
        const ENTRIES: usize = 256;
        let hash = sighting.identity.hash();
        if !hash.is_multiple_of(ONE_IN) || self.sets.len() != SETS {
            return;
        }
        self.sample.resize(ENTRIES, (0, Time(0)));
        let (known, at) = &mut self.sample[(hash / ONE_IN) as usize % ENTRIES];
        let is_again = *known == hash && sighting.seen.time.since(*at) <= LATEST;
        (*known, *at) = (hash, sighting.seen.time);
        if is_again && self.numbers.are_unique(&sighting) {
            self.remember_more();
        }
    }

    #[cold]
    fn remember_more(&mut self) {
        if self.sets.len() == SETS_APART {
            return;
        }
        // Earlier packets were forgotten before they could come again.
        self.merged.packets = self.merged.packets.min((SETS * WAYS) as u64);
        let few = core::mem::replace(&mut self.sets, sets(SETS_APART));
        for (identity, shown) in few.into_iter().flat_map(|set| set.identities.into_iter().zip(set.seen)) {
            let Some(shown) = shown else { continue };
            self.sets[place(identity, SETS_APART)].insert(identity, shown);
        }
    }

    /// Notes a packet. If it is a copy, returns its first sighting.
    #[inline]
    pub(crate) fn note(&mut self, sighting: Sighting) -> Option<First> {
        if self.sets.is_empty() {
            self.sets = sets(if self.apart.is_some() { SETS_APART } else { SETS });
            self.files.add(sighting.place.0.file);
            self.file = sighting.place.0.file;
        }
        if self.file != sighting.place.0.file {
            self.note_file(sighting.place.0.file);
        }
        self.note_sample(sighting);
        let (is_numbered, within) = (self.is_numbered(sighting), self.within());
        let Sighting { identity, seen, place: here, context, .. } = sighting;
        let set = &mut self.sets[place(identity.hash(), self.sets.len())];
        if let Some(at) = set.position(identity)
            && let Some(shown) = &mut set.seen[at]
        {
            let is_elsewhere = shown.place.0.0.file != here.0.file;
            let later = seen.time.since(shown.first.seen.time);
            let is_late = within < later
                && later <= LATEST
                && shown.first.context == context
                && self.numbers.are_unique(&sighting);
            if is_late && !self.merged.is_sure {
                self.merged.add();
            }
            let may_be_late = is_elsewhere || is_late && self.merged.is_sure;
            let within = if may_be_late { within.max(LATEST) } else { within };
            if shown.is_copy(is_numbered, here, seen.time, within) {
                let first = shown.first;
                let is_late = seen.time.since(first.seen.time) > NUMBERED;
                let counts = if is_elsewhere { &mut self.elsewhere } else { &mut self.here };
                counts[usize::from(is_late)] += 1;
                return Some(first);
            }
            // A retransmission is noted like any other packet, so entries are replaced in the same
            // order whether retransmissions are distinguished or not.
            set.seen[at] = None;
        } else if let Numbering::Numbered(number) = identity.numbering {
            self.numbers.add(sighting.receiver, number);
        }
        self.merged.packets += 1;
        set.insert(identity.hash(), Shown::new(First { seen, context }, here));
        None
    }

    /// Whether the capture has the packets of two clocks that differ, as most copies show. Few copies in
    /// another file may be retransmissions without an Identification.
    #[inline]
    pub(crate) fn show_different_clocks(&self) -> bool {
        const FEWEST: u64 = 4;
        let shows = |[timely, late]: [u64; 2]| late >= FEWEST && late > timely;
        self.apart.is_none() && (shows(self.here) || self.is_parallel && shows(self.elsewhere))
    }

    /// Whether an equal packet is in the table, whatever its age.
    pub(crate) fn holds(&self, sighting: Sighting) -> bool {
        !self.sets.is_empty()
            && self.sets[place(sighting.identity.hash(), self.sets.len())]
                .position(sighting.identity)
                .is_some()
    }

    /// Whether the sender of a packet numbers packets, as seen so far, including this packet.
    #[inline]
    fn is_numbered(&self, sighting: Sighting) -> bool {
        match sighting.identity.numbering {
            Numbering::Numbered(_) => true,
            Numbering::Zero => self.numbers.are_set(sighting.receiver),
            Numbering::None => false,
        }
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        let shown = self.sets.iter().flat_map(|set| set.seen.iter().flatten());
        let further: usize = shown.map(|shown| shown.further.capacity()).sum();
        size_of_val(&*self.sets)
            + self.sample.capacity() * size_of::<(u64, Time)>()
            + further * size_of::<(Place, Time)>()
    }
}

#[cfg(test)]
mod tests;
