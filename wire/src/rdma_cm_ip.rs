//! The IP addressing of the RDMA connection manager (IBTA volume 1, annex A11, RDMA IP CM Service).
//!
//! Its service IDs contain a port, and the private data of its ConnectRequests begin with a
//! [`Header`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cm::ServiceId;
use crate::table::header;
use crate::{Layer, Stop};

/// The header at the start of the private data. Addresses are kept in wire form;
/// [`source`](Header::source) and [`destination`](Header::destination) decode them by IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// MajV, 4 bits: 0.
    pub major_version: u8,
    /// MinV, 4 bits: 0.
    pub minor_version: u8,
    /// IPV, 4 bits: 4 or 6.
    pub ip_version: u8,
    /// The port of the active side. The port of the passive side is in the service ID.
    pub source_port: u16,
    /// The address of the active side. An IPv4 address occupies the last four bytes, after zeros.
    pub source_address: [u8; 16],
    /// The address of the passive side, in the same form.
    pub destination_address: [u8; 16],
}

header! {
    Header {
        4 "MajV" major_version, 4 "MinV" minor_version, 4 "IPV" ip_version, 4 reserved, 16 "Source port" source_port;
        128 "Source IP address" source_address;
        128 "Destination IP address" destination_address;
    }
}

impl Header {
    /// Creates the header of a connection between IPv4 addresses.
    pub fn ipv4(source: Ipv4Addr, source_port: u16, destination: Ipv4Addr) -> Header {
        let padded = |address: Ipv4Addr| {
            let [a, b, c, d] = address.octets();
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        };
        Header {
            major_version: 0,
            minor_version: 0,
            ip_version: 4,
            source_port,
            source_address: padded(source),
            destination_address: padded(destination),
        }
    }

    /// Creates the header of a connection between IPv6 addresses.
    pub fn ipv6(source: Ipv6Addr, source_port: u16, destination: Ipv6Addr) -> Header {
        Header {
            major_version: 0,
            minor_version: 0,
            ip_version: 6,
            source_port,
            source_address: source.octets(),
            destination_address: destination.octets(),
        }
    }

    /// Parses the header at the start of `private_data`. Also returns the consumer's private data
    /// after it. Offsets in a [`Stop`] count from the first byte of the private data.
    #[inline]
    pub fn parse(private_data: &[u8]) -> Result<(Header, &[u8]), Stop> {
        let Some((b, consumer)) = private_data.split_first_chunk::<{ Header::LENGTH }>() else {
            return Err(Stop::short(Layer::PrivateData, 0, Header::LENGTH, private_data.len()));
        };
        Ok((Header::from_bytes(b), consumer))
    }

    /// Returns the address of the active side, or `None` if the IP version is neither 4 nor 6.
    #[inline]
    pub fn source(&self) -> Option<IpAddr> {
        self.address(self.source_address)
    }

    /// Returns the address of the passive side, or `None` if the IP version is neither 4 nor 6.
    #[inline]
    pub fn destination(&self) -> Option<IpAddr> {
        self.address(self.destination_address)
    }

    fn address(&self, bytes: [u8; 16]) -> Option<IpAddr> {
        match (self.ip_version, bytes) {
            (4, [.., a, b, c, d]) => Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
            (6, bytes) => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        }
    }
}

/// The protocol of the port in a service ID, as an IP protocol number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortSpace {
    /// 0x06: TCP, used for connections.
    Tcp,
    /// 0x11: UDP, used for datagrams.
    Udp,
    /// Another number.
    Other(u8),
}

impl PortSpace {
    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            PortSpace::Tcp => 0x06,
            PortSpace::Udp => 0x11,
            PortSpace::Other(number) => number,
        }
    }
}

impl From<u8> for PortSpace {
    #[inline]
    fn from(number: u8) -> PortSpace {
        match number {
            0x06 => PortSpace::Tcp,
            0x11 => PortSpace::Udp,
            other => PortSpace::Other(other),
        }
    }
}

impl core::fmt::Display for PortSpace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PortSpace::Tcp => f.write_str("TCP"),
            PortSpace::Udp => f.write_str("UDP"),
            PortSpace::Other(number) => write!(f, "port space 0x{number:02x}"),
        }
    }
}

/// The upper five bytes of a service ID, before the port space.
const PREFIX: u64 = 0x00_0000_0001;

impl ServiceId {
    /// Creates the service ID of an RDMA connection manager port: 0x0000000001, port space, port.
    pub const fn rdma_cm(port_space: PortSpace, port: u16) -> ServiceId {
        ServiceId(PREFIX << 24 | (port_space.number() as u64) << 16 | port as u64)
    }

    /// Returns port space and port if this is a service ID of the RDMA connection manager. The
    /// private data of a ConnectRequest for it then begin with a [`Header`].
    #[inline]
    pub fn rdma_cm_port(self) -> Option<(PortSpace, u16)> {
        let [.., port_space, high, low] = self.0.to_be_bytes();
        (self.0 >> 24 == PREFIX).then(|| (PortSpace::from(port_space), u16::from_be_bytes([high, low])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const IPV4: [u8; 36] = [
        0x12, 0x4f, 0xc0, 0xb2, // MajV 1, MinV 2, IPV 4, reserved bits set, source port 49330
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 1,
    ];

    #[test]
    fn fields_of_an_ipv4_header() {
        let mut bytes = IPV4.to_vec();
        bytes.extend_from_slice(b"consumer");
        let (header, consumer) = Header::parse(&bytes).unwrap();
        assert_eq!(consumer, b"consumer");
        let source = Ipv4Addr::new(10, 77, 0, 2);
        let destination = Ipv4Addr::new(10, 77, 0, 1);
        let expected =
            Header { major_version: 1, minor_version: 2, ..Header::ipv4(source, 49330, destination) };
        assert_eq!(header, expected);
        assert_eq!((header.source(), header.destination()), (Some(source.into()), Some(destination.into())));
        let mut built = Vec::new();
        header.build(&mut built);
        assert_eq!(built[1], 0x40);
        assert_eq!((built[0], &built[2..]), (IPV4[0], &IPV4[2..]));
    }

    #[test]
    fn fields_of_an_ipv6_header() {
        let mut bytes = IPV4;
        bytes[1] = 0x60;
        bytes[4..6].copy_from_slice(&[0xfd, 0x00]);
        let (header, _) = Header::parse(&bytes).unwrap();
        let source: Ipv6Addr = "fd00::a4d:2".parse().unwrap();
        assert_eq!(header.source(), Some(source.into()));
        assert_eq!(
            Header {
                major_version: 1,
                minor_version: 2,
                ..Header::ipv6(source, 49330, "::a4d:1".parse().unwrap())
            },
            header
        );
        bytes[1] = 0x50;
        assert_eq!(Header::parse(&bytes).unwrap().0.source(), None);
    }

    #[test]
    fn every_truncation_is_located() {
        for length in 0..Header::LENGTH {
            let stop = Header::parse(&IPV4[..length]).unwrap_err();
            assert_eq!(stop, Stop::short(Layer::PrivateData, 0, 36, length));
        }
    }

    #[test]
    fn ports_in_service_ids() {
        let nfs = ServiceId(0x0000_0000_0106_4e51);
        assert_eq!(nfs.rdma_cm_port(), Some((PortSpace::Tcp, 20049)));
        assert_eq!(ServiceId::rdma_cm(PortSpace::Tcp, 20049), nfs);
        assert_eq!(ServiceId(0x0111_0001).rdma_cm_port(), Some((PortSpace::Udp, 1)));
        assert_eq!(ServiceId(0x013f_0001).rdma_cm_port(), Some((PortSpace::Other(0x3f), 1)));
        assert_eq!(ServiceId(0x0206_4e51).rdma_cm_port(), None);
        assert_eq!(ServiceId(0x1000_0000_0106_4e51).rdma_cm_port(), None);
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes in proptest::collection::vec(any::<u8>(), 36)) {
            let (header, _) = Header::parse(&bytes).unwrap();
            let mut built = Vec::new();
            header.build(&mut built);
            prop_assert_eq!(Header::parse(&built).unwrap().0, header);
            // All bits except the four reserved ones belong to a field.
            built[1] |= bytes[1] & 0x0f;
            prop_assert_eq!(built, bytes);
        }

        #[test]
        fn service_ids_round_trip(number: u8, port: u16) {
            let port_space = PortSpace::from(number);
            prop_assert_eq!(ServiceId::rdma_cm(port_space, port).rdma_cm_port(), Some((port_space, port)));
        }
    }
}
