//! The invariant CRC (IBTA volume 1, section 7.8.1; Annex A17.3.3 for RoCEv2).
//!
//! A CRC-32 over the packet with the fields that may change on the way set to ones, stored little-endian behind the
//! payload and its padding.

/// Length of the ICRC in bytes.
pub const LENGTH: usize = 4;

/// The longest IP header that [`roce_v2`] masks: an IPv6 header, or an IPv4 header with all its options.
const LONGEST_IP_HEADER: usize = 60;

/// The ICRC of a RoCEv2 packet.
///
/// `ip` is the IPv4 header with its options or the IPv6 header (without extension headers), `udp` the UDP header,
/// `transport` everything from the BTH on up to, not including, the ICRC. `None` where one of them is shorter than its
/// fixed part, or `ip` is neither version 4 nor 6.
///
/// Masked are: for IPv4 type of service, time to live and checksum; for IPv6 traffic class, flow label and hop limit;
/// the UDP checksum; the byte before the destination QP. Eight bytes of ones stand for the missing LRH.
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
    let mut crc = crc32fast::Hasher::new();
    crc.update(&masked[..at]);
    crc.update(rest);
    Some(crc.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RoCEv2 acknowledgement taken off the wire between two Linux 6.1 hosts: IPv4, UDP, BTH, AETH, ICRC.
    const ACKNOWLEDGE: [u8; 48] = *include_bytes!("../testdata/acknowledge.bin");

    #[test]
    fn a_real_packet() {
        let (packet, icrc) = ACKNOWLEDGE.split_at(44);
        let udp = packet[20..28].try_into().unwrap();
        let expected = u32::from_le_bytes(icrc.try_into().unwrap());
        assert_eq!(roce_v2(&packet[..20], udp, &packet[28..]), Some(expected));
    }

    #[test]
    fn what_routers_change_is_not_covered_and_all_else_is() {
        let (packet, icrc) = ACKNOWLEDGE.split_at(44);
        let expected = u32::from_le_bytes(icrc.try_into().unwrap());
        // IPv4: TOS 1, TTL 8, checksum 10 and 11; UDP checksum 26 and 27; BTH byte 4 (FECN, BECN, reserved).
        let free = [1, 8, 10, 11, 26, 27, 32];
        for at in 1..packet.len() {
            let mut changed = packet.to_vec();
            changed[at] ^= 0x01;
            let udp = changed[20..28].try_into().unwrap();
            let verdict = roce_v2(&changed[..20], udp, &changed[28..]) == Some(expected);
            assert_eq!(verdict, free.contains(&at), "byte {at}");
        }
    }

    #[test]
    fn what_is_too_short_has_none() {
        assert_eq!(roce_v2(&[0x45; 19], &[0; 8], &[0; 16]), None);
        assert_eq!(roce_v2(&[0x60; 39], &[0; 8], &[0; 16]), None);
        assert_eq!(roce_v2(&[0x45; 20], &[0; 8], &[0; 11]), None);
        assert_eq!(roce_v2(&[], &[0; 8], &[0; 16]), None);
        assert_eq!(roce_v2(&[0x45; 61], &[0; 8], &[0; 16]), None);
    }
}
