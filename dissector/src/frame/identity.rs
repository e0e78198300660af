//! What tells one packet from another that looks like it.

use super::{Address, IcrcVerdict};
use core::hash::{BuildHasher as _, Hash as _, Hasher as _};
use foldhash::fast::FixedState;
use rdmascope_wire::bth::Bth;

/// Equal in two records where they show the same packet: captured at two places, or at one place twice.
///
/// The ICRC covers the IP header with its Identification, the BTH and the payload, and leaves out what changes on the way (IBTA volume 1,
/// Annex A17.3.3). A packet that its sender transmits again has the same PSN and payload, but another Identification, where the
/// sender sets one. A packet that was damaged on the way is another one before than behind the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Of the headers, and of the ICRC or else of the bytes that were captured.
    hash: u64,
    /// Whether the IP header numbers the packets of its sender.
    pub numbering: Numbering,
}

/// Whether the IP header of a packet numbers the packets of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// IPv4, with an Identification.
    Numbered,
    /// IPv4, with an Identification of 0: of a sender that does not set it, or that counts through 0.
    Zero,
    /// There is no such field.
    None,
}

impl Numbering {
    fn of(identification: Option<u16>) -> Numbering {
        match identification {
            None => Numbering::None,
            Some(0) => Numbering::Zero,
            Some(_) => Numbering::Numbered,
        }
    }
}

impl Identity {
    /// Bytes that stand for a packet whose ICRC was not captured.
    const COMPARED: usize = 128;

    /// Of a packet of these captured bytes, from the BTH on, between these `addresses`. `check` is its ICRC, where that was captured, with the
    /// `verdict` on it; `identification` is that of the IPv4 header.
    #[inline]
    pub fn new(
        transport: &[u8],
        addresses: [Address; 2],
        check: Option<u32>,
        verdict: IcrcVerdict,
        identification: Option<u16>,
    ) -> Identity {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        let bytes = match check {
            Some(_) => Bth::LENGTH,
            None => {
                addresses.hash(&mut hasher);
                Identity::COMPARED
            }
        };
        hasher.write(&transport[..transport.len().min(bytes)]);
        let number = identification.unwrap_or(0);
        let spoiled = u64::from(verdict == IcrcVerdict::Bad);
        hasher.write_u64(spoiled << 48 | u64::from(number) << 32 | u64::from(check.unwrap_or(0)));
        Identity { hash: hasher.finish(), numbering: Numbering::of(identification) }
    }

    /// Of a TCP segment of these captured bytes, from its header on. Its checksum is left out: a host leaves it to its adapter to complete.
    pub(super) fn of_segment(
        segment: &[u8],
        payload_length: u32,
        addresses: [Address; 2],
        identification: Option<u16>,
    ) -> Identity {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        addresses.hash(&mut hasher);
        let (header, rest) = segment.split_at(segment.len().min(16));
        hasher.write(header);
        hasher.write(rest.get(2..rest.len().min(Identity::COMPARED)).unwrap_or_default());
        hasher.write_u64(u64::from(payload_length) << 32 | u64::from(identification.unwrap_or(0)));
        Identity { hash: hasher.finish(), numbering: Numbering::of(identification) }
    }

    /// A number that is spread evenly: the same wherever a packet is captured.
    #[inline]
    pub fn hash(self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    fn address(last: u8) -> Address {
        Address::V4(Ipv4Addr::new(192, 0, 2, last))
    }

    fn addresses() -> [Address; 2] {
        [address(1), address(2)]
    }

    /// Which bytes of 200 make a difference.
    fn differing(of: impl Fn(&[u8]) -> Identity) -> Vec<usize> {
        let same = of(&[0; 200]);
        let differs = |at: &usize| {
            let mut bytes = [0; 200];
            bytes[*at] = 1;
            of(&bytes) != same
        };
        (0..200).filter(differs).collect()
    }

    /// The ICRC stands for all but the BTH, of which it leaves out some bits; without one the first 128 bytes and the addresses do.
    #[test]
    fn what_tells_packets_from_each_other() {
        let with = |check| {
            move |bytes: &[u8]| Identity::new(bytes, addresses(), check, IcrcVerdict::Unverifiable, Some(7))
        };
        assert_eq!(differing(with(Some(5))), (0..12).collect::<Vec<_>>());
        assert_eq!(differing(with(None)), (0..128).collect::<Vec<_>>());
        let turned = [address(2), address(1)];
        for (check, differs) in [(Some(5), false), (None, true)] {
            let of = |addresses| Identity::new(&[0; 12], addresses, check, IcrcVerdict::Good, Some(7));
            assert_eq!(of(addresses()) != of(turned), differs, "{check:?}");
        }
        let of = |check, verdict, identification| {
            Identity::new(&[0; 12], addresses(), Some(check), verdict, identification).hash()
        };
        let same = of(5, IcrcVerdict::Good, Some(7));
        assert_eq!(of(5, IcrcVerdict::Unverifiable, Some(7)), same);
        for other in [
            of(4, IcrcVerdict::Good, Some(7)),
            of(5, IcrcVerdict::Bad, Some(7)),
            of(5, IcrcVerdict::Good, Some(8)),
            of(5, IcrcVerdict::Good, None),
        ] {
            assert_ne!(other, same);
        }
    }

    /// Of a TCP segment the checksum, bytes 16 and 17, is left out, and what lies further behind than 128 bytes from there.
    #[test]
    fn what_tells_segments_from_each_other() {
        let of = |bytes: &[u8]| Identity::of_segment(bytes, 180, addresses(), Some(7));
        assert_eq!(differing(of), (0..16).chain(18..144).collect::<Vec<_>>());
        let with = |length, addresses, identification| {
            Identity::of_segment(&[0; 20], length, addresses, identification).hash()
        };
        let same = with(180, addresses(), Some(7));
        for other in [
            with(181, addresses(), Some(7)),
            with(180, [address(2), address(1)], Some(7)),
            with(180, addresses(), Some(8)),
            with(180, addresses(), None),
        ] {
            assert_ne!(other, same);
        }
        // Headers that are cut have an identity too.
        assert_ne!(Identity::of_segment(&[0; 16], 0, addresses(), None).hash(), same);
    }

    #[test]
    fn who_numbers_packets() {
        let of = |identification| {
            let segment = Identity::of_segment(&[0; 20], 0, addresses(), identification);
            let packet = Identity::new(&[0; 12], addresses(), None, IcrcVerdict::Good, identification);
            [segment, packet].map(|it| it.numbering)
        };
        assert_eq!(of(None), [Numbering::None; 2]);
        assert_eq!(of(Some(0)), [Numbering::Zero; 2]);
        assert_eq!(of(Some(1)), [Numbering::Numbered; 2]);
    }
}
