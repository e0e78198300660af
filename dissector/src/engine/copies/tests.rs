use super::*;
use crate::frame::{Address, IcrcVerdict};
use core::net::Ipv4Addr;

/// A packet with this Identification and time, at tap 0.
fn sighting(number: u16, frame: u64, nanoseconds: i64) -> Sighting {
    sighting_for(0x11, number, frame, nanoseconds)
}

/// The same for this queue pair.
fn sighting_for(receiver: u32, number: u16, frame: u64, nanoseconds: i64) -> Sighting {
    let addresses = [1, 2].map(|host: u32| Address::V4(Ipv4Addr::from(host)));
    let identity = Identity::new(&[7; 40], addresses, Some(5), IcrcVerdict::Good, Some(number));
    Sighting::of(identity, receiver, Seen { frame, time: Time(nanoseconds) }, Place::default(), 0)
}

/// A packet is held until others replace it in its set, however much time passes.
#[test]
fn packet_is_held_until_others_replace_it() {
    let mut copies = Copies::default();
    assert!(!copies.holds(sighting(1, 1, 0)), "before the first packet");
    assert_eq!(copies.note(sighting(1, 1, 0)), None);
    assert!(copies.holds(sighting(1, 2, 1_000)));
    assert!(copies.holds(sighting(1, 2, 3_000_000)), "too late for a copy");
    assert!(!copies.holds(sighting(2, 2, 1_000)));
    assert!(!copies.holds(sighting(2, 2, 1_000)), "holds() must not note packets");
    (2..10_000).for_each(|number| assert_eq!(copies.note(sighting(number, number.into(), 0)), None));
    assert!(!copies.holds(sighting(1, 10_000, 1_000)), "replaced by others");
}

/// Packets with the same PSN do not replace each other: connections that begin together use the same
/// PSNs, and an end may send many ACKs of one PSN.
#[test]
fn packets_with_same_psn_do_not_replace_each_other() {
    let receivers: [fn(u16) -> u32; 2] = [|number| 0x10 + u32::from(number), |_| 0x10];
    for receiver in receivers {
        let mut copies = Copies::default();
        let at = |number, frame, time| sighting_for(receiver(number), number, frame, time);
        for number in 1..=32 {
            assert_eq!(copies.note(at(number, number.into(), 0)), None);
        }
        for number in 1..=32 {
            let first = copies.note(at(number, 100 + u64::from(number), 1_000));
            assert_eq!(first.map(|first| first.seen.frame), Some(number.into()));
        }
    }
}
