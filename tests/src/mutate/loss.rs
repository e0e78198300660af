//! Imperfect captures of a session, with missing, reordered or duplicated packets. Each variant is
//! determined by a seed.

use super::CLIENT;
use crate::pcap::{Capture, Packet};
use crate::segments::Segment;
use fastrand::Rng;
use std::collections::{HashMap, HashSet};

/// The imperfection of a capture.
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
    /// Two to sixty consecutive packets are missing.
    Burst,
    /// One in twenty to one in two packets of one end is missing.
    Direction,
    /// Every third packet of one opcode is missing; for iWARP, of segments that begin with an FPDU
    /// of that opcode.
    Opcode,
    /// Every second packet within 12 of a CM message, a SYN or a start frame is missing, including
    /// these.
    NearCm,
    /// The capture begins later.
    Head,
    /// The capture ends earlier.
    Tail,
    /// Only one direction was captured.
    OneWay,
    /// Packets are captured up to 100 microseconds late.
    Jitter,
    /// All packets of one end are captured late by the same time, up to 900 microseconds.
    Skew,
    /// Most packets are captured twice, by two taps, the second time up to 50 microseconds later.
    TwoTaps,
    /// Two taps, and each loses one packet in fifty.
    TwoLossyTaps,
    /// One direction only, captured by two taps.
    OneWayTwice,
    /// A snap length of 60 to 600 bytes cuts all packets.
    Snap,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 18] = [
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
        Kind::Snap,
    ];

    /// Whether the variant has both directions of a session, with complete packets. Then a transaction
    /// without missing packets must be reported unchanged.
    pub fn keeps_transactions(self) -> bool {
        !matches!(self, Kind::OneWay | Kind::OneWayTwice | Kind::Snap)
    }
}

/// An imperfect capture of a session.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its imperfection.
    pub kind: Kind,
    /// The capture, renumbered.
    pub capture: Capture,
    /// The numbers, in the session, of the packets that the capture lacks.
    pub lost: HashSet<u64>,
}

/// The variant of a session for a seed; the same seed always gives the same variant.
pub fn variant(session: &Capture, seed: u64) -> Variant {
    variant_in_form(session, session, seed)
}

/// The same with the packets of `in_form`: the session in another form, with the same packet
/// numbers.
pub fn variant_in_form(session: &Capture, in_form: &Capture, seed: u64) -> Variant {
    let mut rng = Rng::with_seed(seed);
    let kind = Kind::ALL[(seed % Kind::ALL.len() as u64) as usize];
    let mut packets = show(kind, session, &mut rng);
    let shown: HashMap<u64, &Packet> = in_form.packets.iter().map(|packet| (packet.number, packet)).collect();
    for packet in &mut packets {
        let Packet { data, original_length, .. } = shown[&packet.number];
        packet.data.clone_from(data);
        packet.original_length = *original_length;
    }
    if kind == Kind::Snap {
        let length = rng.usize(60..=600);
        packets.iter_mut().for_each(|packet| packet.data.truncate(length));
    }
    // Packets are captured in the order of their times. The sort is stable.
    packets.sort_by_key(|packet| packet.time);
    let shown: HashSet<u64> = packets.iter().map(|packet| packet.number).collect();
    let lost = session.packets.iter().map(|packet| packet.number).filter(|number| !shown.contains(number));
    let lost = lost.collect();
    let mut capture = Capture { link: in_form.link, packets };
    capture.renumber();
    Variant { kind, capture, lost }
}

/// The captured packets, with their numbers in the session and their times in the capture.
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
            let shown = keep(all, |_, packet| is_from_client(packet) == of_client);
            if kind == Kind::OneWay { shown } else { [later(&shown, rng, 50_000), shown].concat() }
        }
        Kind::Jitter => later(all, rng, 100_000),
        Kind::Skew => {
            let (by, of_client) = (rng.i64(0..900_000), rng.bool());
            let mut packets = all.clone();
            let skewed = packets.iter_mut().filter(|packet| is_from_client(packet) == of_client);
            skewed.for_each(|packet| packet.time += by);
            packets
        }
        Kind::Snap => all.clone(),
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
pub fn is_from_client(packet: &Packet) -> bool {
    Segment::of(packet).map_or_else(|| packet.source() == CLIENT, |segment| segment.is_from_client())
}

/// The opcode of a RoCE packet, or of the FPDU at the start of a segment.
fn opcode(packet: &Packet) -> Option<u8> {
    match Segment::of(packet) {
        Some(segment) => segment.payload.get(3).copied(),
        None => Some(packet.opcode()),
    }
}

/// Whether it sets up or closes a connection.
fn connects(packet: &Packet) -> bool {
    let begins = |segment: Segment| segment.syn || segment.payload.starts_with(b"MPA ID");
    Segment::of(packet).map_or_else(|| packet.cm_attribute().is_some(), begins)
}

/// Up to eight indices in a range.
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

/// The same packets, each delayed by less than `most` nanoseconds.
fn later(packets: &[Packet], rng: &mut Rng, most: i64) -> Vec<Packet> {
    let mut packets = packets.to_vec();
    packets.iter_mut().for_each(|packet| packet.time += rng.i64(0..most));
    packets
}
