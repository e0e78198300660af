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
