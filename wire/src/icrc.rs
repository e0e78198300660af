//! The invariant CRC (IBTA volume 1, section 7.8.1; Annex A17.3.3 for RoCEv2).
//!
//! The ICRC is a CRC-32 over the packet, with all fields that may change in transit set to ones. It
//! is stored little-endian after the payload and its padding. The masked fields depend on the
//! header before the BTH: an IP header ([`roce_v2`]), a GRH ([`grh`]: RoCEv1, and native InfiniBand
//! between subnets), or only an LRH ([`lrh`]: native InfiniBand within a subnet).

/// Length of the ICRC in bytes.
pub const LENGTH: usize = 4;

/// The longest IP header that [`roce_v2`] accepts: an IPv4 header with all its options.
const LONGEST_IP_HEADER: usize = 60;

/// Computes the ICRC of a RoCEv2 packet.
///
/// `ip` is the IPv4 header with its options, or the IPv6 header without extension headers. `udp` is
/// the UDP header. `transport` is everything from the BTH up to but not including the ICRC. Returns
/// `None` if `ip` is not exactly an IPv4 or IPv6 header, or if `transport` is shorter than a BTH.
///
/// The masked fields are: for IPv4, type of service, time to live and checksum; for IPv6, traffic
/// class, flow label and hop limit; the UDP checksum; the byte before the destination QP. Eight
/// bytes of ones take the place of the LRH.
#[inline]
pub fn roce_v2(ip: &[u8], udp: &[u8; 8], transport: &[u8]) -> Option<u32> {
    let mut masked = [0xffu8; 8 + LONGEST_IP_HEADER + 8 + 12];
    let length = ip.len();
    if length > LONGEST_IP_HEADER {
        return None;
    }
    let header = &mut masked[8..8 + length];
    header.copy_from_slice(ip);
    match ip.first()? >> 4 {
        4 if length >= 20 => {
            header[1] = 0xff;
            header[8] = 0xff;
            header[10] = 0xff;
            header[11] = 0xff;
        }
        6 if length >= 40 => {
            header[0] |= 0x0f;
            header[1] = 0xff;
            header[2] = 0xff;
            header[3] = 0xff;
            header[7] = 0xff;
        }
        _ => return None,
    }
    let mut at = 8 + length;
    masked[at..at + 8].copy_from_slice(udp);
    masked[at + 6] = 0xff;
    masked[at + 7] = 0xff;
    at += 8;
    let (bth, rest) = transport.split_first_chunk::<12>()?;
    masked[at..at + 12].copy_from_slice(bth);
    masked[at + 4] = 0xff;
    at += 12;
    Some(checksum(&masked[..at], rest))
}

/// Computes the ICRC of a packet with a GRH: RoCEv1, or native InfiniBand with or without its LRH.
///
/// `transport` is everything from the BTH up to but not including the ICRC. Returns `None` if it is
/// shorter than a BTH.
///
/// The masked fields are traffic class, flow label and hop limit of the GRH, and the byte before
/// the destination QP. A router may rewrite the LRH of a packet with a GRH, so the ICRC covers
/// eight bytes of ones in place of the LRH, whether or not the packet has one.
#[inline]
pub fn grh(grh: &[u8; 40], transport: &[u8]) -> Option<u32> {
    let mut masked = [0xffu8; 8 + 40 + 12];
    masked[8..48].copy_from_slice(grh);
    masked[8] |= 0x0f;
    masked[9..12].fill(0xff);
    masked[15] = 0xff;
    let (bth, rest) = transport.split_first_chunk::<12>()?;
    masked[48..60].copy_from_slice(bth);
    masked[52] = 0xff;
    Some(checksum(&masked, rest))
}

/// Computes the ICRC of a native InfiniBand packet that has no GRH.
///
/// `transport` is everything from the BTH up to but not including the ICRC. Returns `None` if it is
/// shorter than a BTH.
///
/// The masked fields are the virtual lane of the LRH and the byte before the destination QP.
#[inline]
pub fn lrh(lrh: &[u8; 8], transport: &[u8]) -> Option<u32> {
    let mut masked = [0xffu8; 8 + 12];
    masked[..8].copy_from_slice(lrh);
    masked[0] |= 0xf0;
    let (bth, rest) = transport.split_first_chunk::<12>()?;
    masked[8..20].copy_from_slice(bth);
    masked[12] = 0xff;
    Some(checksum(&masked, rest))
}

#[inline]
fn checksum(masked: &[u8], rest: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(masked);
    crc.update(rest);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RoCEv2 acknowledgement captured between two Linux 6.1 hosts: IPv4, UDP, BTH, AETH, ICRC.
    const ACKNOWLEDGE: [u8; 48] = *include_bytes!("../testdata/acknowledge.bin");

    #[test]
    fn ipv4_icrc_matches_a_captured_packet() {
        let (packet, icrc) = ACKNOWLEDGE.split_at(44);
        let udp = packet[20..28].try_into().unwrap();
        let expected = u32::from_le_bytes(icrc.try_into().unwrap());
        assert_eq!(roce_v2(&packet[..20], udp, &packet[28..]), Some(expected));
    }

    #[test]
    fn ipv4_icrc_covers_all_but_variant_fields() {
        let (packet, icrc) = ACKNOWLEDGE.split_at(44);
        let expected = u32::from_le_bytes(icrc.try_into().unwrap());
        // IPv4: TOS 1, TTL 8, checksum 10 and 11; UDP checksum 26 and 27; BTH byte 4 (FECN, BECN,
        // reserved).
        let variant = [1, 8, 10, 11, 26, 27, 32];
        for at in 1..packet.len() {
            let mut changed = packet.to_vec();
            changed[at] ^= 0x01;
            let udp = changed[20..28].try_into().unwrap();
            let is_equal = roce_v2(&changed[..20], udp, &changed[28..]) == Some(expected);
            assert_eq!(is_equal, variant.contains(&at), "byte {at}");
        }
    }

    #[test]
    fn truncated_headers_have_no_icrc() {
        assert_eq!(roce_v2(&[0x45; 19], &[0; 8], &[0; 16]), None);
        assert_eq!(roce_v2(&[0x60; 39], &[0; 8], &[0; 16]), None);
        assert_eq!(roce_v2(&[0x45; 20], &[0; 8], &[0; 11]), None);
        assert_eq!(roce_v2(&[], &[0; 8], &[0; 16]), None);
        assert_eq!(roce_v2(&[0x45; 61], &[0; 8], &[0; 16]), None);
        // An IPv4 header with the maximum of options.
        assert!(roce_v2(&[0x4f; 60], &[0; 8], &[0; 16]).is_some());
    }

    /// The sample packet of IBTA volume 1, section 7.8: LRH, BTH, RETH, 14 bytes of payload,
    /// padding.
    #[rustfmt::skip]
    const SAMPLE: [u8; 52] = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2,
        0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a,
        0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e,
        0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00,
    ];

    #[test]
    fn lrh_icrc_matches_the_sample_packet_of_the_specification() {
        let (header, transport) = SAMPLE.split_first_chunk().unwrap();
        // Byte 52 on the wire is 0x96.
        assert_eq!(lrh(header, transport).unwrap().to_le_bytes(), [0x96, 0x25, 0xb7, 0x5a]);
    }

    #[test]
    fn lrh_icrc_covers_all_but_the_virtual_lane() {
        let covered = |bit: usize| {
            let mut changed = SAMPLE;
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            let icrc = |packet: &[u8; 52]| lrh(packet[..8].try_into().unwrap(), &packet[8..]);
            icrc(&changed) != icrc(&SAMPLE)
        };
        for bit in 0..SAMPLE.len() * 8 {
            assert_eq!(covered(bit), bit > 3 && bit / 8 != 12, "bit {bit}");
        }
    }

    #[test]
    fn grh_icrc_covers_all_but_variant_fields() {
        let mut packet = [0x5a; 40 + 16];
        packet[0] = 0x60;
        let icrc = |packet: &[u8; 56]| grh(packet[..40].try_into().unwrap(), &packet[40..]);
        for bit in 0..packet.len() * 8 {
            let mut changed = packet;
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            // Traffic class and flow label, hop limit, fifth byte of the BTH.
            let is_variant = (4..32).contains(&bit) || bit / 8 == 7 || bit / 8 == 44;
            assert_eq!(icrc(&changed) == icrc(&packet), is_variant, "bit {bit}");
        }
    }

    #[test]
    fn grh_is_masked_like_an_ipv6_header() {
        // An IPv6 header with these bytes gives the same masked prefix, apart from the UDP header.
        let header = [0x61; 40];
        let mut masked = [0x61; 40];
        masked[..4].copy_from_slice(&[0x6f, 0xff, 0xff, 0xff]);
        masked[7] = 0xff;
        let bth = [0x0a, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0];
        let all = [&[0xff; 8][..], &masked, &bth, b"data"].concat();
        assert_eq!(grh(&header, &[&bth[..], b"data"].concat()), Some(crc32fast::hash(&all)));
    }

    #[test]
    fn incomplete_bth_has_no_icrc() {
        assert_eq!(grh(&[0; 40], &[0; 11]), None);
        assert_eq!(lrh(&[0; 8], &[0; 11]), None);
    }
}
