//! TCP segments, which may carry iWARP.

use super::{Address, Identity};
use crate::protocol::Traffic;
use rdmascope_wire::ddp::{Header, Tagged};
use rdmascope_wire::mpa::CRC_LENGTH;
use rdmascope_wire::{Layer, Stop};

/// A TCP segment (RFC 9293, section 3.1). Numbers are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its source.
    pub source: Address,
    /// Its destination.
    pub destination: Address,
    /// Source and destination port.
    pub ports: [u16; 2],
    /// The sequence number of the first byte of its payload, or of the SYN.
    pub sequence: u32,
    /// The sequence number that its sender expects next, if ACK is set.
    pub acknowledgement: Option<u32>,
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// The captured bytes of its payload.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire, from the IP header. It exceeds a packet's size if the capture
    /// was made before the adapter segmented it, or after the host merged several.
    pub payload_length: u32,
    /// The offset of the payload in the record.
    pub payload_offset: usize,
    /// [`Frame::context`](super::Frame::context).
    pub context: u32,
    /// The Identification of the IPv4 header.
    identification: Option<u16>,
    /// The captured bytes from the TCP header on.
    segment: &'a [u8],
}

/// The verdict on the checksum of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// It is correct.
    Good,
    /// It is the sum of the pseudo-header alone, which a host leaves to its network adapter to
    /// complete.
    Unfinished,
    /// It is wrong: a receiver drops the segment.
    Bad,
    /// The segment was not captured completely.
    Unverifiable,
}

impl Checksum {
    /// Whether it is the value that the sender intended.
    pub fn is_sound(self) -> bool {
        matches!(self, Checksum::Good | Checksum::Unfinished)
    }
}

impl<'a> Segment<'a> {
    /// Parses a segment that begins with `bytes`, at `at` in its record, and has `length` bytes on
    /// the wire.
    pub(super) fn parse(
        (source, destination): (Address, Address),
        identification: Option<u16>,
        bytes: &'a [u8],
        at: usize,
        length: usize,
    ) -> Result<Segment<'a>, Stop> {
        let header: &[u8; 20] =
            bytes.first_chunk().ok_or_else(|| Stop::short(Layer::Tcp, 0, 20, bytes.len()))?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let header_length = usize::from(header[12] >> 4) * 4;
        if header_length < 20 || header_length > length {
            return Err(Stop::malformed(Layer::Tcp, 12));
        }
        let flags = header[13];
        let payload = bytes.get(header_length..).unwrap_or_default();
        Ok(Segment {
            source,
            destination,
            ports: [(word(0) >> 16) as u16, word(0) as u16],
            sequence: word(4),
            acknowledgement: (flags & 0x10 != 0).then_some(word(8)),
            syn: flags & 0x02 != 0,
            fin: flags & 0x01 != 0,
            rst: flags & 0x04 != 0,
            payload,
            payload_length: u32::try_from(length - header_length).unwrap_or(u32::MAX),
            payload_offset: at.saturating_add(header_length),
            context: 0,
            identification,
            segment: bytes,
        })
    }

    /// Bytes of its header, including options.
    pub fn header_length(&self) -> usize {
        usize::from(self.segment[12] >> 4) * 4
    }

    /// Whether only the data of its last FPDU is missing, as if [`crate::bulk`] had shortened it.
    /// `moved` is the number of bytes whose contents are not needed, if known.
    pub(crate) fn lacks_data(&self, moved: Option<u32>) -> bool {
        /// Maximum bytes of padding and CRC of an FPDU.
        const LONGEST_TRAILER: u32 = 3 + CRC_LENGTH as u32;
        let missing = self.payload_length.saturating_sub(self.payload.len() as u32);
        match moved {
            Some(moved) => moved > 0 && moved <= missing && missing <= moved + LONGEST_TRAILER,
            None => {
                let ends = |at: usize| {
                    Tagged::parse(&self.payload[at..]).is_ok_and(|it| Header::Tagged(it).is_regular())
                };
                missing > 0
                    && self.payload.len().checked_sub(Tagged::LENGTH).map_or(self.payload.is_empty(), ends)
            }
        }
    }

    /// Whether it is the SYN of a client.
    pub(crate) fn is_request(&self) -> bool {
        self.syn && self.acknowledgement.is_none()
    }

    /// The traffic that it belongs to, by its ports and first bytes.
    pub fn traffic(&self) -> Option<Traffic> {
        Traffic::of(self.ports, self.payload)
    }

    /// Its identity, for comparison with other segments.
    pub fn identity(&self) -> Identity {
        let addresses = [self.source, self.destination];
        Identity::of_segment(self.segment, self.payload_length, addresses, self.identification)
    }

    /// The verdict on its checksum (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub fn checksum(&self) -> Checksum {
        let length = self.header_length() as u64 + u64::from(self.payload_length);
        if self.segment.len() as u64 != length {
            return Checksum::Unverifiable;
        }
        let of = |address: Address| match address {
            Address::V4(address) => sum(&address.octets()),
            Address::V6(address) => sum(&address.octets()),
            Address::Lid(_) => 0,
        };
        // Protocol 6.
        let addresses = of(self.source) + of(self.destination) + 6;
        if fold(addresses + length + sum(self.segment)) == 0xffff {
            return Checksum::Good;
        }
        let found = u16::from_be_bytes([self.segment[16], self.segment[17]]);
        // Some adapters expect the sum without the length, which they add themselves.
        if [fold(addresses + length), fold(addresses)].contains(&found) {
            return Checksum::Unfinished;
        }
        Checksum::Bad
    }
}

/// The folded sum of the 16-bit words of `bytes` in network order, with the last one padded with
/// zero.
///
/// Sums in either byte order are equal up to the order of their bytes (RFC 1071, section 2).
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    u16::from_be(fold(sum + u64::from(u32::from_ne_bytes(last)))).into()
}

/// A sum with its carries added in (RFC 1071).
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    /// 192.0.2.1:20049 to 192.0.2.2:745, ACK and PSH, two bytes of payload. The checksum is
    /// computed by hand below.
    fn bytes(checksum: u16) -> [u8; 22] {
        let [high, low] = checksum.to_be_bytes();
        [0x4e, 0x51, 0x02, 0xe9, 0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x18, 0x20, 0, high, low, 0, 0, 0xab, 0xcd]
    }

    fn parse(bytes: &[u8], length: usize) -> Result<Segment<'_>, Stop> {
        let address = |last| Address::V4(Ipv4Addr::new(192, 0, 2, last));
        Segment::parse((address(1), address(2)), Some(7), bytes, 34, length)
    }

    #[test]
    fn header_fields_are_parsed() {
        let bytes = bytes(0);
        let segment = parse(&bytes, 22).unwrap();
        assert_eq!(segment.ports, [20_049, 745]);
        assert_eq!((segment.sequence, segment.acknowledgement), (5, Some(9)));
        assert_eq!((segment.syn, segment.fin, segment.rst), (false, false, false));
        assert_eq!((segment.payload, segment.payload_length), (&[0xab, 0xcd][..], 2));
        assert_eq!(segment.payload_offset, 54);
        assert_eq!(parse(&bytes[..19], 22), Err(Stop::short(Layer::Tcp, 0, 20, 19)));
        assert_eq!(parse(&bytes, 19), Err(Stop::malformed(Layer::Tcp, 12)));
        let mut options = bytes;
        options[12] = 0x40;
        assert_eq!(parse(&options, 22), Err(Stop::malformed(Layer::Tcp, 12)));
    }

    /// FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, from the lowest bit on (RFC 9293, section 3.1).
    #[test]
    fn flags_are_parsed_independently() {
        for bit in 0..8 {
            let mut bytes = bytes(0);
            bytes[13] = 1 << bit;
            let segment = parse(&bytes, 22).unwrap();
            assert_eq!((segment.fin, segment.syn, segment.rst), (bit == 0, bit == 1, bit == 2), "bit {bit}");
            assert_eq!(segment.acknowledgement, (bit == 4).then_some(9), "bit {bit}");
        }
    }

    /// A header without payload, and one with an option of four bytes. The low four bits of the
    /// byte with the length are reserved.
    #[test]
    fn header_length_includes_options() {
        let mut bytes = bytes(0);
        let segment = parse(&bytes[..20], 20).unwrap();
        assert_eq!((segment.payload, segment.payload_length, segment.header_length()), (&[][..], 0, 20));
        bytes[12] = 0x6f;
        assert_eq!(parse(&bytes, 23), Err(Stop::malformed(Layer::Tcp, 12)));
        let segment = parse(&bytes, 30).unwrap();
        assert_eq!((segment.payload, segment.payload_length, segment.header_length()), (&[][..], 6, 24));
        assert_eq!(segment.payload_offset, 58);
    }

    /// The header of an RDMA Write, followed by 100 missing bytes: data, padding and CRC of its
    /// FPDU.
    #[test]
    fn segment_cut_after_write_header_lacks_only_data() {
        // The ULPDU length, the control fields of a Write, its STag, its tagged offset (RFC 5044,
        // section 4.1; RFC 5041, section 4.2).
        let head = [0, 111, 0xc1, 0x40, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x10, 0];
        let captured = [&bytes(0)[..20], &head].concat();
        let lacks = |bytes: &[u8], missing: usize, moved| {
            parse(bytes, bytes.len() + missing).unwrap().lacks_data(moved)
        };
        // Up to three bytes of padding and four of CRC may follow the data.
        for (missing, moved, lacks_data) in [
            (100, Some(100), true),
            (100, Some(93), true),
            (100, Some(92), false),
            (100, Some(101), false),
            (100, Some(0), false),
            (5, Some(0), false),
            (0, Some(0), false),
            (100, None, true),
            (1, None, true),
            (0, None, false),
        ] {
            assert_eq!(lacks(&captured, missing, moved), lacks_data, "{missing} {moved:?}");
        }
        // A segment without any payload may continue an FPDU. A segment that ends elsewhere than
        // after such a header lacks more than data.
        assert!(lacks(&captured[..20], 100, None) && !lacks(&captured[..20], 0, None));
        assert!(!lacks(&captured[..35], 100, None) && !lacks(&captured[..24], 100, None));
        assert!(!lacks(&[&captured[..], &[0]].concat(), 100, None));
    }

    #[test]
    fn checksum_is_verified_over_ipv4() {
        // c000 + 0201 + c000 + 0202 + 0006 = 1_8409, folded 840a; with the length, 0016: 8420. 4e51
        // + 02e9 + 0005 + 0009 + 5018 + 2000 + abcd = 1_6d2d; with 8420: 1_f14d, folded f14e; its
        // complement: 0eb1.
        let verdict = |checksum| parse(&bytes(checksum), 22).unwrap().checksum();
        assert_eq!(verdict(0x0eb1), Checksum::Good);
        assert_eq!(verdict(0x8420), Checksum::Unfinished);
        assert_eq!(verdict(0x840a), Checksum::Unfinished);
        assert_eq!(verdict(0x0eb2), Checksum::Bad);
        assert!([Checksum::Good, Checksum::Unfinished].iter().all(|it| it.is_sound()));
        assert!(![Checksum::Bad, Checksum::Unverifiable].iter().any(|it| it.is_sound()));
        let cut = bytes(0x0eb1);
        assert_eq!(parse(&cut[..21], 22).unwrap().checksum(), Checksum::Unverifiable);
        // A header of 24 bytes, 22 of them captured.
        let mut options = bytes(0);
        options[12] = 0x60;
        assert_eq!(parse(&options, 24).unwrap().checksum(), Checksum::Unverifiable);
    }

    /// 2001:db8::1 to 2001:db8::2, the same segment with one byte of payload, which is padded with
    /// zero.
    #[test]
    fn checksum_is_verified_over_ipv6() {
        // Twice 2001 + 0db8 = 5b72; with 0001 + 0002 + 0006 + 0015: 5b90. 4e51 + 02e9 + 0005 + 0009
        // + 5018 + 2000 + ab00 = 1_6c60; with 5b90: 1_c7f0, folded c7f1; its complement: 380e.
        let address = |last| Address::V6(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        let verdict = |checksum| {
            let bytes = bytes(checksum);
            Segment::parse((address(1), address(2)), None, &bytes[..21], 54, 21).unwrap().checksum()
        };
        assert_eq!(verdict(0x380e), Checksum::Good);
        assert_eq!(verdict(0x5b90), Checksum::Unfinished);
        assert_eq!(verdict(0x5b7b), Checksum::Unfinished, "without the length");
        assert_eq!(verdict(0x380f), Checksum::Bad);
    }
}
