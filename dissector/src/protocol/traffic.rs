//! Traffic other than RDMA, by name or by number.

use core::fmt;
use rdmascope_wire::mpa::StartFrame;
use rdmascope_wire::rpcrdma::NFS_PORT;

/// Traffic other than RDMA. It is counted but not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// NFS over TCP, or over UDP.
    Nfs,
    /// The MOUNT protocol of NFSv3.
    Mount,
    /// The port mapper.
    Portmap,
    /// iWARP: RDMA over TCP.
    Iwarp,
    /// Priority-based flow control (IEEE 802.1Q, section 36).
    PriorityPause,
    /// Flow control of a whole link (IEEE 802.3, annex 31B).
    Pause,
    /// An EtherType.
    EtherType(u16),
    /// LLC without an EtherType (IEEE 802.2), with its destination access point.
    Llc(u8),
    /// An IP protocol number.
    IpProtocol(u8),
    /// UDP, with the lower port.
    Udp(u16),
    /// TCP, with the lower port.
    Tcp(u16),
    /// A native InfiniBand packet without a transport header.
    RawInfiniBand,
    /// A payload that nothing names.
    Unknown,
}

/// The names of EtherTypes (IANA, and IEEE for the others).
static ETHER_TYPES: [(u16, &str); 26] = [
    (0x0806, "ARP"),
    (0x22f3, "TRILL"),
    (0x8035, "RARP"),
    (0x8808, "MAC control"),
    (0x8809, "LACP"),
    (0x8847, "MPLS"),
    (0x8848, "MPLS"),
    (0x8863, "PPPoE discovery"),
    (0x8864, "PPPoE session"),
    (0x888e, "802.1X"),
    (0x88be, "ERSPAN"),
    (0x88cc, "LLDP"),
    (0x88e5, "MACsec"),
    (0x88e7, "I-TAG"),
    (0x88f5, "MVRP"),
    (0x88f7, "PTP"),
    (0x8902, "CFM"),
    (0x8903, "FabricPath"),
    (0x8906, "FCoE"),
    (0x8909, "Cisco MetaData"),
    (0x8914, "FIP"),
    (0x892f, "HSR"),
    (0x894f, "NSH"),
    (0x9000, "loopback test"),
    (0xd28b, "Arista"),
    (0x22eb, "ERSPAN type III"),
];

/// The names of IP protocols (IANA).
static IP_PROTOCOLS: [(u8, &str); 21] = [
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IP in IP"),
    (6, "TCP"),
    (17, "UDP"),
    (33, "DCCP"),
    (41, "IPv6 in IP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "ICMPv6"),
    (59, "no next header"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (97, "EtherIP"),
    (103, "PIM"),
    (112, "VRRP"),
    (115, "L2TP"),
    (132, "SCTP"),
    (137, "MPLS"),
    (143, "Ethernet"),
];

/// The names of UDP and TCP ports (IANA): for UDP, for TCP, or for both.
static PORTS: [(u16, [bool; 2], &str); 35] = [
    (22, TCP, "SSH"),
    (53, BOTH, "DNS"),
    (67, UDP, "DHCP"),
    (68, UDP, "DHCP"),
    (80, TCP, "HTTP"),
    (88, BOTH, "Kerberos"),
    (123, UDP, "NTP"),
    (161, UDP, "SNMP"),
    (179, TCP, "BGP"),
    (319, UDP, "PTP"),
    (320, UDP, "PTP"),
    (389, BOTH, "LDAP"),
    (443, BOTH, "HTTPS"),
    (445, TCP, "SMB"),
    (514, UDP, "syslog"),
    (546, UDP, "DHCPv6"),
    (547, UDP, "DHCPv6"),
    (988, TCP, "Lustre"),
    (1900, UDP, "SSDP"),
    (3260, TCP, "iSCSI"),
    (3784, UDP, "BFD"),
    (4420, TCP, "NVMe"),
    (4500, UDP, "IPsec"),
    (4739, UDP, "IPFIX"),
    (4754, UDP, "GRE"),
    (4755, UDP, "GRE with DTLS"),
    (4789, UDP, "VXLAN"),
    (4790, UDP, "VXLAN-GPE"),
    (4791, UDP, "RoCEv2"),
    (5353, UDP, "mDNS"),
    (6080, UDP, "GUE"),
    (6081, UDP, "GENEVE"),
    (6343, UDP, "sFlow"),
    (6635, UDP, "MPLS"),
    (6636, UDP, "MPLS with DTLS"),
];
const UDP: [bool; 2] = [true, false];
const TCP: [bool; 2] = [false, true];
const BOTH: [bool; 2] = [true, true];

impl Traffic {
    /// The NFS-related traffic that a TCP or UDP packet belongs to, from its ports and the first
    /// bytes of its payload.
    pub fn of(ports: [u16; 2], payload: &[u8]) -> Option<Traffic> {
        if StartFrame::is_begun_by(payload) {
            return Some(Traffic::Iwarp);
        }
        // Ports assigned by IANA.
        let of_port = |port: &u16| match *port {
            111 => Some(Traffic::Portmap),
            2049 => Some(Traffic::Nfs),
            20_048 => Some(Traffic::Mount),
            // A server may also offer NFS over plain TCP on this port.
            NFS_PORT if is_rpc_record(payload) => Some(Traffic::Nfs),
            NFS_PORT => Some(Traffic::Iwarp),
            _ => None,
        };
        ports.iter().find_map(of_port)
    }

    /// Whether it is iWARP.
    pub(crate) fn is_iwarp(self) -> bool {
        self == Traffic::Iwarp
    }

    /// The traffic of a UDP packet.
    pub(crate) fn of_udp(ports: [u16; 2]) -> Traffic {
        Traffic::of(ports, &[]).unwrap_or(Traffic::Udp(lower(ports)))
    }

    /// The traffic of a TCP segment.
    pub(crate) fn of_tcp(ports: [u16; 2], payload: &[u8]) -> Traffic {
        Traffic::of(ports, payload).unwrap_or(Traffic::Tcp(lower(ports)))
    }

    /// The traffic of an Ethernet frame, by the type or length field and the bytes after it.
    #[cold]
    pub(crate) fn of_ether_type(ether_type: u16, payload: &[u8]) -> Traffic {
        match (ether_type, payload) {
            (0x8808, [1, 1, ..]) => Traffic::PriorityPause,
            (0x8808, [0, 1, ..]) => Traffic::Pause,
            (0..=1500, [access_point, ..]) => Traffic::Llc(*access_point),
            _ => Traffic::EtherType(ether_type),
        }
    }

    /// Its name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Traffic::Nfs => "NFS over TCP or UDP",
            Traffic::Mount => "MOUNT",
            Traffic::Portmap => "portmap",
            Traffic::Iwarp => "iWARP",
            Traffic::PriorityPause => "PFC pause",
            Traffic::Pause => "Ethernet pause",
            Traffic::Llc(0x42) => "STP",
            Traffic::RawInfiniBand => "raw InfiniBand packets",
            Traffic::Unknown => "unknown payload",
            Traffic::EtherType(number) => ETHER_TYPES.iter().find(|(one, _)| *one == number)?.1,
            Traffic::IpProtocol(number) => IP_PROTOCOLS.iter().find(|(one, _)| *one == number)?.1,
            Traffic::Udp(port) => port_name(port, 0)?,
            Traffic::Tcp(port) => port_name(port, 1)?,
            Traffic::Llc(_) => return None,
        })
    }
}

fn port_name(port: u16, protocol: usize) -> Option<&'static str> {
    PORTS.iter().find(|(one, protocols, _)| *one == port && protocols[protocol]).map(|(.., name)| *name)
}

/// The port of the service: clients use ports above those of services (RFC 6335, section 6).
fn lower([source, destination]: [u16; 2]) -> u16 {
    source.min(destination)
}

impl fmt::Display for Traffic {
    /// A name, a number, or both: `ARP (EtherType 0x0806)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut with_name = |number: fmt::Arguments<'_>| match self.name() {
            Some(name) => write!(f, "{name} ({number})"),
            None => f.write_fmt(number),
        };
        match self {
            Traffic::EtherType(number) => with_name(format_args!("EtherType 0x{number:04x}")),
            Traffic::Llc(number) => with_name(format_args!("LLC 0x{number:02x}")),
            Traffic::IpProtocol(number) => with_name(format_args!("IP protocol {number}")),
            Traffic::Udp(port) => with_name(format_args!("UDP port {port}")),
            Traffic::Tcp(port) => with_name(format_args!("TCP port {port}")),
            _ => f.write_str(self.name().unwrap_or_default()),
        }
    }
}

/// Counts of packets by their traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficCounts {
    /// The kinds, in the order of their first packets.
    kinds: [(Traffic, u64); TrafficCounts::MOST],
    length: usize,
}

impl Default for TrafficCounts {
    fn default() -> TrafficCounts {
        TrafficCounts { kinds: [(Traffic::Unknown, 0); TrafficCounts::MOST], length: 0 }
    }
}

impl TrafficCounts {
    /// The most kinds that are counted.
    pub const MOST: usize = 48;

    /// Counts packets. Those of further kinds are not counted once the table is full.
    pub fn add(&mut self, traffic: Traffic, packets: u64) {
        let known = self.kinds[..self.length].iter_mut().find(|(kind, _)| *kind == traffic);
        if let Some((_, count)) = known {
            *count += packets;
        } else if let Some(free) = self.kinds.get_mut(self.length) {
            *free = (traffic, packets);
            self.length += 1;
        }
    }

    /// The packets of a kind.
    pub fn of(&self, traffic: Traffic) -> u64 {
        self.iter().find(|(kind, _)| *kind == traffic).map_or(0, |(_, count)| count)
    }

    /// The kinds with their packets, in the order of their first packets.
    pub fn iter(&self) -> impl Iterator<Item = (Traffic, u64)> {
        self.kinds[..self.length].iter().copied()
    }
}

/// Whether a TCP segment begins with a record mark and an RPC call or reply (RFC 5531, sections 9
/// and 11). It cannot be an FPDU of MPA (RFC 5044, section 3): its first bytes would be an
/// impossible ULPDU length.
fn is_rpc_record(payload: &[u8]) -> bool {
    let Some((mark, [_, kind, next])) = payload.first_chunk::<16>().map(|bytes| {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (word(0), [word(4), word(8), word(12)])
    }) else {
        return false;
    };
    // The mark has the last-fragment bit. A call has RPC version 2 next; a reply is accepted or
    // denied.
    mark >> 31 == 1 && matches!((kind, next), (0, 2) | (1, 0 | 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn ports_and_payload_identify_traffic() {
        assert_eq!(Traffic::of([50_000, 2049], b""), Some(Traffic::Nfs));
        assert_eq!(Traffic::of([111, 50_000], b""), Some(Traffic::Portmap));
        assert_eq!(Traffic::of([50_000, 20_048], b""), Some(Traffic::Mount));
        assert_eq!(Traffic::of([20_049, 50_000], b""), Some(Traffic::Iwarp));
        let call = b"\x80\0\0\x28\x12\x34\x56\x78\0\0\0\0\0\0\0\x02";
        assert_eq!(Traffic::of([50_000, 20_049], call), Some(Traffic::Nfs));
        let reply = b"\x80\0\0\x18\x12\x34\x56\x78\0\0\0\x01\0\0\0\0";
        assert_eq!(Traffic::of([20_049, 50_000], reply), Some(Traffic::Nfs));
        // An FPDU: ULPDU length, DDP and RDMAP control, then the start of a Send.
        let send = b"\0\x56\x41\x43\0\0\0\0\0\0\0\0\0\0\0\x01";
        assert_eq!(Traffic::of([50_000, 20_049], send), Some(Traffic::Iwarp));
        assert_eq!(Traffic::of([50_000, 50_001], b"MPA ID Req Frame\x40\x01"), Some(Traffic::Iwarp));
        assert_eq!(Traffic::of([50_000, 50_001], b"MPA ID Rep Frame"), Some(Traffic::Iwarp));
        assert_eq!(Traffic::of([50_000, 50_001], b"MPA ID Req Fram"), None);
    }
    /// Numbers of IANA and IEEE.
    #[test]
    fn names() {
        let pause = |opcode: [u8; 2]| Traffic::of_ether_type(0x8808, &opcode).to_string();
        assert_eq!(pause([1, 1]), "PFC pause");
        assert_eq!(pause([0, 1]), "Ethernet pause");
        assert_eq!(pause([0, 2]), "MAC control (EtherType 0x8808)");
        assert_eq!(Traffic::of_ether_type(0x8808, &[1]).to_string(), "MAC control (EtherType 0x8808)");
        assert_eq!(Traffic::of_ether_type(0x0806, &[]).to_string(), "ARP (EtherType 0x0806)");
        assert_eq!(Traffic::of_ether_type(0x88b5, &[1, 1]).to_string(), "EtherType 0x88b5");
        assert_eq!(Traffic::of_ether_type(38, &[0x42, 0x42, 3]).to_string(), "STP (LLC 0x42)");
        assert_eq!(Traffic::of_ether_type(38, &[0xe0]).to_string(), "LLC 0xe0");
        assert_eq!(Traffic::of_ether_type(38, &[]).to_string(), "EtherType 0x0026");
        assert_eq!(Traffic::IpProtocol(1).to_string(), "ICMP (IP protocol 1)");
        assert_eq!(Traffic::IpProtocol(200).to_string(), "IP protocol 200");
        assert_eq!(Traffic::of_udp([50_000, 53]).to_string(), "DNS (UDP port 53)");
        assert_eq!(Traffic::of_udp([22, 50_000]).to_string(), "UDP port 22");
        assert_eq!(Traffic::of_tcp([22, 50_000], &[]).to_string(), "SSH (TCP port 22)");
        assert_eq!(Traffic::of_tcp([2049, 50_000], &[]).to_string(), "NFS over TCP or UDP");
    }

    #[test]
    fn counts_are_bounded() {
        let mut counts = TrafficCounts::default();
        for port in (0..100).chain(0..10) {
            counts.add(Traffic::Udp(port), 1);
        }
        assert_eq!(counts.iter().count(), TrafficCounts::MOST);
        assert_eq!([0, 9, 10, 99].map(|port| counts.of(Traffic::Udp(port))), [2, 2, 1, 0]);
    }
}
