//! Converts between packets of a driver and [`Datagram`]s: IP, UDP and the ICRC (IBTA volume 1,
//! annex A17).
//!
//! | driver | receive | send |
//! |---|---|---|
//! | raw socket, interface | [`open`]: verifies the ICRC | [`enclose`], [`enclose_as`] |
//! | IPv6 raw socket, which hides the IP header | [`from_raw_ipv6`]: verifies the ICRC | the same |
//! | UDP socket | [`from_udp`]: verifies the ICRC with IPv6, and with IPv4 if possible | the bytes
//! of [`enclose_as`] after its [`headers`] |

use crate::packet::{Datagram, Icrc};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use rdmascope_wire::bth::Bth;
use rdmascope_wire::compose::{Carrier, Error, Ipv4, Ipv6, ROCE_V2_PORT, Udp};
use rdmascope_wire::icrc;

/// Why a packet is not for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is not UDP to port 4791 over IPv4 or IPv6.
    #[error("not RoCEv2")]
    NotRoce,
    /// It is a fragment.
    #[error("a fragment")]
    Fragment,
    /// It ends before the length in its headers, or before an ICRC.
    #[error("too short")]
    Short,
}

const UDP_LENGTH: usize = 8;
/// Lengths of an IPv4 header without options and of an IPv6 header without extension headers.
const IPV4_LENGTH: usize = 20;
const IPV6_LENGTH: usize = 40;

/// Offsets of the Identification and of DF in an IPv4 header.
const IDENTIFICATION: core::ops::Range<usize> = 4..6;
const FLAGS: usize = 6;

/// Parses a packet from its IP header on and verifies its ICRC. Bytes beyond the IP length are
/// ignored, because Ethernet pads short frames.
pub fn open(packet: &[u8]) -> Result<Datagram, OpenError> {
    let version = packet.first().ok_or(OpenError::Short)? >> 4;
    let (ip, source, destination, length) = match version {
        4 => {
            let header: &[u8; 20] = packet.first_chunk().ok_or(OpenError::Short)?;
            let ip = packet.get(..usize::from(header[0] & 0x0f) * 4).ok_or(OpenError::Short)?;
            if header[9] != 17 || ip.len() < 20 {
                return Err(OpenError::NotRoce);
            }
            // More fragments, or a fragment offset.
            if header[6] & 0x3f != 0 || header[7] != 0 {
                return Err(OpenError::Fragment);
            }
            let source = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
            let destination = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            (ip, IpAddr::V4(source), IpAddr::V4(destination), length)
        }
        6 => {
            let header: &[u8; 40] = packet.first_chunk().ok_or(OpenError::Short)?;
            match header[6] {
                17 => {}
                44 => return Err(OpenError::Fragment),
                _ => return Err(OpenError::NotRoce),
            }
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&header[at..at + 16]);
                IpAddr::V6(Ipv6Addr::from(octets))
            };
            let length = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
            (&header[..], address(8), address(24), length)
        }
        _ => return Err(OpenError::NotRoce),
    };
    let rest = packet.get(ip.len()..length).ok_or(OpenError::Short)?;
    let (udp, rest) = rest.split_first_chunk::<UDP_LENGTH>().ok_or(OpenError::Short)?;
    if u16::from_be_bytes([udp[2], udp[3]]) != ROCE_V2_PORT {
        return Err(OpenError::NotRoce);
    }
    let (transport, found) = rest.split_last_chunk::<{ icrc::LENGTH }>().ok_or(OpenError::Short)?;
    let right = icrc::roce_v2(ip, udp, transport) == Some(u32::from_le_bytes(*found));
    Ok(Datagram {
        source,
        destination,
        source_port: u16::from_be_bytes([udp[0], udp[1]]),
        transport: transport.to_vec(),
        icrc: if right { Icrc::Good } else { Icrc::Bad },
    })
}

/// Builds the packet from IP header to ICRC. IPv4 packets have Identification 0 and DF. All bits of
/// a bad ICRC are inverted.
pub fn enclose(datagram: &Datagram) -> Result<Vec<u8>, Error> {
    let mut packet = Vec::with_capacity(datagram.transport.len() + 64);
    enclose_as(datagram, datagram.source_port, 0, &mut packet)?;
    Ok(packet)
}

/// Builds the packet in `packet` with another UDP port and Identification.
pub fn enclose_as(
    datagram: &Datagram,
    source_port: u16,
    identification: u16,
    packet: &mut Vec<u8>,
) -> Result<(), Error> {
    packet.clear();
    let udp = Udp::from_port(source_port);
    let carrier = match (datagram.source, datagram.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Carrier::Ipv4(Ipv4 { identification, ..Ipv4::new(source, destination) }, udp)
        }
        (source, destination) => {
            let address = |address| match address {
                IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address),
                IpAddr::V6(address) => address,
            };
            Carrier::Ipv6(Ipv6::new(address(source), address(destination)), udp)
        }
    };
    carrier.enclose(&datagram.transport, packet)?;
    if datagram.icrc == Icrc::Bad {
        let from = packet.len() - icrc::LENGTH;
        packet[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

/// Returns the number of bytes before the UDP payload in packets of [`enclose_as`]. A UDP socket
/// sends the bytes after them.
///
/// The ICRC of an IPv4 packet is correct if the kernel sends Identification 0 and DF. Linux does so
/// for an unconnected socket with path MTU discovery (IP_PMTUDISC_DO).
pub const fn headers(address: IpAddr) -> usize {
    UDP_LENGTH + if address.is_ipv4() { IPV4_LENGTH } else { IPV6_LENGTH }
}

/// Parses the UDP header and payload from an IPv6 raw socket, which hides the IP header. `packet`
/// is as in [`from_udp`].
pub fn from_raw_ipv6(
    source: IpAddr,
    destination: IpAddr,
    bytes: &[u8],
    packet: &mut Vec<u8>,
) -> Result<Datagram, OpenError> {
    let (udp, payload) = bytes.split_first_chunk::<UDP_LENGTH>().ok_or(OpenError::Short)?;
    let [source_port, port, length, _] = [0, 2, 4, 6].map(|at| u16::from_be_bytes([udp[at], udp[at + 1]]));
    if port != ROCE_V2_PORT {
        return Err(OpenError::NotRoce);
    }
    let length = usize::from(length).checked_sub(UDP_LENGTH).ok_or(OpenError::Short)?;
    let payload = payload.get(..length).ok_or(OpenError::Short)?;
    from_udp(source, source_port, destination, payload, packet).ok_or(OpenError::Short)
}

/// Parses a payload from a UDP socket that port `source_port` of `source` sent to port 4791 of
/// `destination`. Returns `None` if it is too short for an ICRC.
///
/// `packet` receives the reconstructed packet. Fields that the ICRC does not cover (type of
/// service, time to live, flow label) are arbitrary. All covered fields are known for IPv6 without
/// extension headers. For IPv4 the Identification and DF are unknown. If the values of [`enclose`]
/// (0, and set) give the correct ICRC, it is [`Icrc::Good`]. Otherwise the function searches for an
/// Identification that does. One bad packet in 32,768 has one too, so the result is
/// [`Icrc::Unverified`]; for a good packet it is the actual Identification. If there is none, the
/// ICRC is bad.
pub fn from_udp(
    source: IpAddr,
    source_port: u16,
    destination: IpAddr,
    payload: &[u8],
    packet: &mut Vec<u8>,
) -> Option<Datagram> {
    let (transport, received) = payload.split_last_chunk::<{ icrc::LENGTH }>()?;
    let mut datagram =
        Datagram { source, destination, source_port, transport: transport.to_vec(), icrc: Icrc::Unverified };
    enclose_as(&datagram, source_port, 0, packet).ok()?;
    let length = packet.len();
    let icrc = packet.get_mut(length.checked_sub(icrc::LENGTH)?..)?;
    let right = *icrc == received[..];
    icrc.copy_from_slice(received);
    datagram.icrc = if transport.len() < Bth::LENGTH {
        // The ICRC is not defined without a complete BTH.
        Icrc::Bad
    } else if right {
        Icrc::Good
    } else {
        fit(&datagram, u32::from_le_bytes(*received), packet)
    };
    Some(datagram)
}

/// Changes `packet`, which has no options and Identification 0, to match its ICRC if possible.
fn fit(datagram: &Datagram, wanted: u32, packet: &mut Vec<u8>) -> Icrc {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (datagram.source, datagram.destination) else {
        return Icrc::Bad;
    };
    for dont_fragment in [true, false] {
        let flags = u8::from(dont_fragment) << 6;
        let Some(identification) = identification(packet, flags, wanted) else { continue };
        let ip = Ipv4 { identification, dont_fragment, ..Ipv4::new(source, destination) };
        packet.clear();
        let carried =
            Carrier::Ipv4(ip, Udp::from_port(datagram.source_port)).enclose(&datagram.transport, packet);
        return if carried.is_ok() { Icrc::Unverified } else { Icrc::Bad };
    }
    Icrc::Bad
}

/// Finds the Identification for which the ICRC is `wanted`. A CRC is linear, so each bit of the
/// Identification adds a constant; the function solves for the sixteen bits by elimination.
fn identification(packet: &[u8], flags: u8, wanted: u32) -> Option<u16> {
    let (header, rest) = packet.split_first_chunk::<IPV4_LENGTH>()?;
    let (udp, rest) = rest.split_first_chunk::<UDP_LENGTH>()?;
    let transport = rest.get(..rest.len().checked_sub(icrc::LENGTH)?)?;
    let with = |identification: u16| {
        let mut header = *header;
        header[IDENTIFICATION].copy_from_slice(&identification.to_be_bytes());
        header[FLAGS] = flags;
        icrc::roce_v2(&header, udp, transport)
    };
    let zero = with(0)?;
    // By the highest bit of the contribution: the contribution, and the Identification that makes
    // it.
    let mut basis = [(0u32, 0u16); 32];
    for bit in 0..u16::BITS {
        let (mut added, mut of) = (with(1 << bit)? ^ zero, 1 << bit);
        while let Some(highest) = added.checked_ilog2() {
            let known = &mut basis[highest as usize];
            if known.0 == 0 {
                *known = (added, of);
                break;
            }
            (added, of) = (added ^ known.0, of ^ known.1);
        }
    }
    let (mut rest, mut found) = (wanted ^ zero, 0);
    while let Some(highest) = rest.checked_ilog2() {
        let (added, of) = basis[highest as usize];
        if added == 0 {
            return None;
        }
        (rest, found) = (rest ^ added, found ^ of);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RoCEv2 acknowledgement captured between two Linux 6.1 hosts: IPv4, UDP, BTH, AETH, ICRC.
    const ACKNOWLEDGE: [u8; 48] = *include_bytes!("../../wire/testdata/acknowledge.bin");

    #[test]
    fn captured_acknowledgement_opens() {
        let datagram = open(&ACKNOWLEDGE).unwrap();
        assert_eq!((datagram.icrc, &datagram.transport[..]), (Icrc::Good, &ACKNOWLEDGE[28..44]));
        let IpAddr::V4(source) = datagram.source else { panic!() };
        assert_eq!(source.octets(), ACKNOWLEDGE[12..16]);
        // Ethernet may have padded it.
        let padded = [&ACKNOWLEDGE[..], &[0; 6]].concat();
        assert_eq!(open(&padded), Ok(datagram));
        for at in 28..48 {
            let mut changed = ACKNOWLEDGE;
            changed[at] ^= 1;
            // Routers may change byte 32.
            let verdict = if at == 32 { Icrc::Good } else { Icrc::Bad };
            assert_eq!(open(&changed).unwrap().icrc, verdict, "byte {at}");
        }
        for length in 0..ACKNOWLEDGE.len() {
            assert_eq!(open(&ACKNOWLEDGE[..length]), Err(OpenError::Short));
        }
    }

    fn addresses(v6: bool) -> (IpAddr, IpAddr) {
        match v6 {
            false => ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()),
            true => ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()),
        }
    }

    fn datagram(v6: bool, length: usize) -> Datagram {
        let (source, destination) = addresses(v6);
        let transport = (0..length).map(|at| (at * 7) as u8).collect();
        Datagram { source, destination, source_port: 0xc123, transport, icrc: Icrc::Good }
    }

    #[test]
    fn from_udp_restores_the_ip_identification_of_a_real_packet() {
        let raw = open(&ACKNOWLEDGE).unwrap();
        assert_ne!(ACKNOWLEDGE[IDENTIFICATION], [0, 0]);
        let mut packet = Vec::new();
        let read =
            from_udp(raw.source, raw.source_port, raw.destination, &ACKNOWLEDGE[28..], &mut packet).unwrap();
        assert_eq!(read, Datagram { icrc: Icrc::Unverified, ..raw.clone() });
        assert_eq!(packet[IDENTIFICATION], ACKNOWLEDGE[IDENTIFICATION]);
        assert_eq!(open(&packet), Ok(raw));
    }

    #[test]
    fn composed_packets_round_trip() {
        for v6 in [false, true] {
            for identification in [0, 1, 0xabcd] {
                let sent = datagram(v6, 40);
                let mut packet = Vec::new();
                enclose_as(&sent, sent.source_port, identification, &mut packet).unwrap();
                let payload = &packet[headers(sent.source)..];
                let mut rebuilt = Vec::new();
                let read =
                    from_udp(sent.source, sent.source_port, sent.destination, payload, &mut rebuilt).unwrap();
                let certain = v6 || identification == 0;
                let icrc = if certain { Icrc::Good } else { Icrc::Unverified };
                assert_eq!(read, Datagram { icrc, ..sent.clone() });
                assert_eq!(rebuilt, packet);
                if v6 {
                    let raw = from_raw_ipv6(sent.source, sent.destination, &packet[40..], &mut rebuilt);
                    assert_eq!(raw, Ok(sent.clone()));
                } else {
                    assert_eq!(open(&packet), Ok(sent.clone()));
                }
            }
        }
    }

    #[test]
    fn bad_icrc_round_trips() {
        for v6 in [false, true] {
            let sent = Datagram { icrc: Icrc::Bad, ..datagram(v6, 1036) };
            let mut packet = Vec::new();
            enclose_as(&sent, sent.source_port, 0, &mut packet).unwrap();
            let mut rebuilt = Vec::new();
            let payload = &packet[headers(sent.source)..];
            let read = from_udp(sent.source, sent.source_port, sent.destination, payload, &mut rebuilt);
            assert_eq!(read.as_ref(), Some(&sent));
            assert_eq!(rebuilt, packet);
            if !v6 {
                assert_eq!(open(&packet), Ok(sent));
            }
        }
    }

    #[test]
    fn flipped_bits_are_detected_without_the_ip_header() {
        let sent = datagram(false, 64);
        let mut packet = Vec::new();
        enclose_as(&sent, sent.source_port, 0x1234, &mut packet).unwrap();
        let mut rebuilt = Vec::new();
        // The ICRC does not cover the fifth byte of the BTH.
        for bit in (0..packet[28..].len() * 8).filter(|bit| bit / 8 != 4) {
            let mut payload = packet[28..].to_vec();
            payload[bit / 8] ^= 1 << (bit % 8);
            let read =
                from_udp(sent.source, sent.source_port, sent.destination, &payload, &mut rebuilt).unwrap();
            assert_eq!(read.icrc, Icrc::Bad, "bit {bit}");
        }
    }

    #[test]
    fn payloads_shorter_than_a_bth_have_a_bad_icrc() {
        let (source, destination) = addresses(false);
        let mut packet = Vec::new();
        for length in 0..16 {
            let read = from_udp(source, 4791, destination, &[0; 16][..length], &mut packet);
            let expected = (length >= 4).then_some((length - 4.min(length), Icrc::Bad));
            assert_eq!(read.map(|datagram| (datagram.transport.len(), datagram.icrc)), expected, "{length}");
        }
    }

    #[test]
    fn foreign_and_truncated_packets_are_errors() {
        let changed = |at: usize, to: u8| {
            let mut packet = ACKNOWLEDGE;
            packet[at] = to;
            open(&packet)
        };
        assert_eq!(changed(0, 0x55), Err(OpenError::NotRoce));
        assert_eq!(changed(9, 6), Err(OpenError::NotRoce));
        assert_eq!(changed(23, 0), Err(OpenError::NotRoce));
        assert_eq!(changed(6, 0x20), Err(OpenError::Fragment));
        assert_eq!(changed(7, 1), Err(OpenError::Fragment));
        assert_eq!(changed(3, 200), Err(OpenError::Short));
        assert_eq!(open(&[]), Err(OpenError::Short));
    }
}
