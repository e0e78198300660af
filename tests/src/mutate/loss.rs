//! What captures do to a session: packets are missing, out of order, or there twice. Each variant comes from a seed.

use super::CLIENT;
use crate::pcap::{Capture, Packet};
use crate::segments::Segment;
use fastrand::Rng;
use std::collections::{HashMap, HashSet};

/// What a capture does to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One packet is missing.
    One,
    /// Two to eight packets are missing, anywhere.
    Some,
    /// One to eight of the first 40 packets are missing.
    Early,
    /// One to eight of the last 40 packets are missing.
    Late,
    /// One in a hundred to one in five packets is missing.
    Share,
    /// Packets that follow each other are missing, two to sixty.
    Burst,
    /// One in twenty to one in two of the packets that one end sent is missing.
    Direction,
    /// Every third packet of one opcode, or of segments that begin with an FPDU of one, is missing.
    Opcode,
    /// Every second packet within 12 of a CM message, or of a SYN or a start frame, is missing; these, too.
    NearCm,
    /// The capture begins later.
    Head,
    /// The capture ends earlier.
    Tail,
    /// The capture shows one direction only.
    OneWay,
    /// Packets are shown up to 100 microseconds late.
    Jitter,
    /// The packets of one end are shown late, all by the same time, up to 300 microseconds.
    Skew,
    /// Most packets are shown twice: two taps, the second up to 50 microseconds later.
    TwoTaps,
    /// Two taps, each of which loses one packet in fifty.
    TwoLossyTaps,
    /// One direction only, at two taps.
    OneWayTwice,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 17] = [
        Kind::One,
        Kind::Some,
        Kind::Early,
        Kind::Late,
        Kind::Share,
        Kind::Burst,
        Kind::Direction,
        Kind::Opcode,
        Kind::NearCm,
        Kind::Head,
        Kind::Tail,
        Kind::OneWay,
        Kind::Jitter,
        Kind::Skew,
        Kind::TwoTaps,
        Kind::TwoLossyTaps,
        Kind::OneWayTwice,
    ];

    /// Whether the variant has both directions of a session, so that a transaction whose packets are all there must come out as it was.
    pub fn keeps_both_directions(self) -> bool {
        !matches!(self, Kind::OneWay | Kind::OneWayTwice)
    }
}

/// A session as a capture shows it.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What was done.
    pub kind: Kind,
    /// What the capture shows, numbered anew.
    pub capture: Capture,
    /// The numbers, in the session, of the packets that it does not show at all.
    pub lost: HashSet<u64>,
}

/// The variant of a session that belongs to a seed: the same every time.
pub fn variant(session: &Capture, seed: u64) -> Variant {
    dressed_variant(session, session, seed)
}

/// The same of a session whose packets `dressed` shows otherwise, by their numbers.
pub fn dressed_variant(session: &Capture, dressed: &Capture, seed: u64) -> Variant {
    let mut rng = Rng::with_seed(seed);
    let kind = Kind::ALL[(seed % Kind::ALL.len() as u64) as usize];
    let mut packets = show(kind, session, &mut rng);
    let shown: HashMap<u64, &Packet> = dressed.packets.iter().map(|packet| (packet.number, packet)).collect();
    for packet in &mut packets {
        let Packet { data, original_length, .. } = shown[&packet.number];
        packet.data.clone_from(data);
        packet.original_length = *original_length;
    }
    // A capture has its packets in the order in which it saw them; equal times stay as they stood.
    packets.sort_by_key(|packet| packet.time);
    let shown: HashSet<u64> = packets.iter().map(|packet| packet.number).collect();
    let lost = session.packets.iter().map(|packet| packet.number).filter(|number| !shown.contains(number));
    let lost = lost.collect();
    let mut capture = Capture { link: dressed.link, packets };
    capture.renumber();
    Variant { kind, capture, lost }
}

/// The packets that the capture shows, with their numbers in the session and the times of the capture.
fn show(kind: Kind, session: &Capture, rng: &mut Rng) -> Vec<Packet> {
    let all = &session.packets;
    let count = all.len();
    match kind {
        Kind::One => without(all, &[rng.usize(..count)]),
        Kind::Some => without(all, &places(rng, 0..count)),
        Kind::Early => without(all, &places(rng, 0..count.min(40))),
        Kind::Late => without(all, &places(rng, count.saturating_sub(40)..count)),
        Kind::Share => {
            let one_in = rng.usize(5..=100);
            keep(all, |_, _| rng.usize(..one_in) > 0)
        }
        Kind::Burst => {
            let first = rng.usize(..count);
            let burst = first..first + rng.usize(2..=60);
            keep(all, |index, _| !burst.contains(&index))
        }
        Kind::Direction => {
            let (one_in, of_client) = (rng.usize(2..=20), rng.bool());
            keep(all, |_, packet| (packet.source() == CLIENT) != of_client || rng.usize(..one_in) > 0)
        }
        Kind::Opcode => {
            let of_one = opcode(&all[rng.usize(..count)]);
            keep(all, |_, packet| opcode(packet) != of_one || rng.usize(..3) > 0)
        }
        Kind::NearCm => {
            let near = |index: usize| {
                let around = &all[index.saturating_sub(12)..count.min(index + 13)];
                around.iter().any(connects)
            };
            keep(all, |index, _| !near(index) || rng.bool())
        }
        Kind::Head => all[rng.usize(..count)..].to_vec(),
        Kind::Tail => all[..rng.usize(1..count)].to_vec(),
        Kind::OneWay | Kind::OneWayTwice => {
            let of_client = rng.bool();
            let shown = keep(all, |_, packet| is_of_client(packet) == of_client);
            if kind == Kind::OneWay { shown } else { [later(&shown, rng, 50_000), shown].concat() }
        }
        Kind::Jitter => later(all, rng, 100_000),
        Kind::Skew => {
            let (by, of_client) = (rng.i64(0..300_000), rng.bool());
            let mut packets = all.clone();
            let skewed = packets.iter_mut().filter(|packet| is_of_client(packet) == of_client);
            skewed.for_each(|packet| packet.time += by);
            packets
        }
        Kind::TwoTaps => {
            let second = keep(all, |_, _| rng.usize(..10) > 0);
            [all.clone(), later(&second, rng, 50_000)].concat()
        }
        Kind::TwoLossyTaps => {
            let first = keep(all, |_, _| rng.usize(..50) > 0);
            let second = keep(all, |_, _| rng.usize(..50) > 0);
            [first, later(&second, rng, 50_000)].concat()
        }
    }
}

/// Whether the client of a sample sent it.
pub fn is_of_client(packet: &Packet) -> bool {
    Segment::of(packet).map_or_else(|| packet.source() == CLIENT, |segment| segment.is_of_client())
}

/// The opcode of RoCE, or that of the FPDU that a segment begins with.
fn opcode(packet: &Packet) -> Option<u8> {
    match Segment::of(packet) {
        Some(segment) => segment.payload.get(3).copied(),
        None => Some(packet.opcode()),
    }
}

/// Whether it is of how connections begin and end.
fn connects(packet: &Packet) -> bool {
    let begins = |segment: Segment| segment.syn || segment.payload.starts_with(b"MPA ID");
    Segment::of(packet).map_or_else(|| packet.cm_attribute().is_some(), begins)
}

/// One to eight different places in a range.
fn places(rng: &mut Rng, range: core::ops::Range<usize>) -> Vec<usize> {
    (0..rng.usize(1..=8)).map(|_| rng.usize(range.clone())).collect()
}

fn without(packets: &[Packet], places: &[usize]) -> Vec<Packet> {
    keep(packets, |index, _| !places.contains(&index))
}

fn keep(packets: &[Packet], mut wanted: impl FnMut(usize, &Packet) -> bool) -> Vec<Packet> {
    let mut index = 0..;
    let mut wanted = |packet: &&Packet| index.next().is_some_and(|index| wanted(index, packet));
    packets.iter().filter(|packet| wanted(packet)).cloned().collect()
}

/// The same packets, each up to so many nanoseconds later.
fn later(packets: &[Packet], rng: &mut Rng, most: i64) -> Vec<Packet> {
    let mut packets = packets.to_vec();
    packets.iter_mut().for_each(|packet| packet.time += rng.i64(0..most));
    packets
}
