//! The identity of a packet, to recognize copies in a capture.

use super::{Address, IcrcVerdict};
use core::hash::{BuildHasher as _, Hash as _, Hasher as _};
use foldhash::fast::FixedState;
use rdmascope_wire::bth::Bth;

/// An identity that is equal in two records of the same packet: captured at two points, or twice at
/// one.
///
/// The ICRC covers the IP header with its Identification, the BTH and the payload, and excludes
/// fields that change on the way (IBTA volume 1, Annex A17.3.3). A retransmission has the same PSN
/// and payload, but another Identification if the sender sets one. A packet damaged on the way has
/// different identities before and after the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A hash of the headers, and of the ICRC, or of the captured bytes if the ICRC was not captured
    /// or does not cover them: adapters may compute it after the capture.
    hash: u64,
    /// Whether the IP header has a packet number of the sender.
    pub numbering: Numbering,
}

/// The kind of packet number in an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// IPv4 with this Identification, which is not 0.
    Numbered(u16),
    /// IPv4 with an Identification of 0. Its sender does not set the field, or its counter has
    /// reached 0.
    Zero,
    /// The header has no such field.
    None,
}

impl Numbering {
    fn of(identification: Option<u16>) -> Numbering {
        match identification {
            None => Numbering::None,
            Some(0) => Numbering::Zero,
            Some(number) => Numbering::Numbered(number),
        }
    }
}

impl Identity {
    /// The number of bytes that are hashed if the ICRC does not cover them.
    const COMPARED: usize = 128;

    /// The identity of a packet with these captured bytes, from the BTH on. `check` is its ICRC, if
    /// captured, with the `verdict` on it; `identification` comes from the IPv4 header.
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
            Some(1..) if verdict != IcrcVerdict::Bad => Bth::LENGTH,
            _ => {
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

    /// The identity of a TCP segment with these captured bytes, from the TCP header on. The
    /// checksum is excluded, because a host may leave it to its adapter.
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

    /// A uniform hash, equal at all capture points of the packet.
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

    /// The positions among 200 bytes that affect the identity.
    fn differing(of: impl Fn(&[u8]) -> Identity) -> Vec<usize> {
        let same = of(&[0; 200]);
        let differs = |at: &usize| {
            let mut bytes = [0; 200];
            bytes[*at] = 1;
            of(&bytes) != same
        };
        (0..200).filter(differs).collect()
    }

    /// With an ICRC, only the BTH is hashed too, because the ICRC excludes some of its bits.
    /// Without one, or with one of 0 or another that does not match, the first 128 bytes and the
    /// addresses are.
    #[test]
    fn packet_identity_covers_icrc_or_first_128_bytes() {
        let with = |check| {
            move |bytes: &[u8]| Identity::new(bytes, addresses(), check, IcrcVerdict::Unverifiable, Some(7))
        };
        assert_eq!(differing(with(Some(5))), (0..12).collect::<Vec<_>>());
        assert_eq!(differing(with(None)), (0..128).collect::<Vec<_>>());
        assert_eq!(differing(with(Some(0))), (0..128).collect::<Vec<_>>());
        let bad = |bytes: &[u8]| Identity::new(bytes, addresses(), Some(5), IcrcVerdict::Bad, Some(7));
        assert_eq!(differing(bad), (0..128).collect::<Vec<_>>());
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

    /// The identity of a TCP segment excludes the checksum, bytes 16 and 17, and everything from
    /// byte 144 on.
    #[test]
    fn segment_identity_excludes_checksum_and_late_bytes() {
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
        // Truncated headers have an identity too.
        assert_ne!(Identity::of_segment(&[0; 16], 0, addresses(), None).hash(), same);
    }

    #[test]
    fn numbering_follows_ip_identification() {
        let of = |identification| {
            let segment = Identity::of_segment(&[0; 20], 0, addresses(), identification);
            let packet = Identity::new(&[0; 12], addresses(), None, IcrcVerdict::Good, identification);
            [segment, packet].map(|it| it.numbering)
        };
        assert_eq!(of(None), [Numbering::None; 2]);
        assert_eq!(of(Some(0)), [Numbering::Zero; 2]);
        assert_eq!(of(Some(1)), [Numbering::Numbered(1); 2]);
    }
}
