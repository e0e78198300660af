//! Protocols other than NFS over RDMA, and the ports, service IDs and first bytes that identify
//! them.

mod traffic;

use rdmascope_wire::cm::ServiceId;
pub use traffic::{Traffic, TrafficCounts};

/// A protocol other than RPC-over-RDMA on an RDMA connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// SMB Direct (MS-SMBD).
    SmbDirect,
    /// NVMe over Fabrics, RDMA transport.
    NvmeOf,
    /// iSCSI Extensions for RDMA (RFC 7145).
    Iser,
    /// SMC-R (RFC 7609). Its queue pairs are set up over TCP.
    SmcR,
    /// IP over InfiniBand, connected mode (RFC 4755).
    IpoibCm,
    /// The benchmarks of perftest.
    Perftest,
}

/// The identification of a protocol.
struct Row {
    protocol: Protocol,
    name: &'static str,
    /// Ports of the RDMA connection manager.
    ports: &'static [u16],
    /// The first byte of other service IDs.
    service: Option<u8>,
    /// Whether a Send can be the first of a connection with this protocol, from its first bytes and
    /// its length.
    begins: Option<fn(&[u8], u32) -> bool>,
}

/// In the order of [`Protocol`].
static ROWS: [Row; 6] = [
    // Negotiate request (MS-SMBD, section 2.2.1): minimum and maximum version 1.0, both
    // little-endian, reserved; 20 bytes.
    Row {
        protocol: Protocol::SmbDirect,
        name: "SMB Direct",
        ports: &[445, 5445],
        service: None,
        begins: Some(|bytes, length| length == 20 && bytes.starts_with(&[0, 1, 0, 1, 0, 0])),
    },
    // A capsule with a Connect command: opcode 0x7f, and type 1 at byte 4.
    Row {
        protocol: Protocol::NvmeOf,
        name: "NVMe-oF",
        ports: &[4420],
        service: None,
        begins: Some(|bytes, length| {
            length >= 64 && bytes.first() == Some(&0x7f) && bytes.get(4) == Some(&1)
        }),
    },
    // An iSER header of 28 bytes for an iSCSI control PDU, then an immediate login request.
    Row {
        protocol: Protocol::Iser,
        name: "iSER",
        ports: &[3260],
        service: None,
        begins: Some(|bytes, length| {
            length >= 76 && bytes.first() == Some(&0x10) && bytes.get(28) == Some(&0x43)
        }),
    },
    // CONFIRM LINK (RFC 7609, appendix A.3): type 1, length 44.
    Row {
        protocol: Protocol::SmcR,
        name: "SMC-R",
        ports: &[],
        service: None,
        begins: Some(|bytes, length| length == 44 && bytes.starts_with(&[1, 44])),
    },
    // Service IDs of the IETF, as RFC 4755, section 3.5, assigns them and Linux uses them: 0x10,
    // zeros, the queue pair number.
    Row {
        protocol: Protocol::IpoibCm,
        name: "IPoIB-CM",
        ports: &[],
        service: Some(0x10),
        begins: Some(is_encapsulated),
    },
    Row { protocol: Protocol::Perftest, name: "perftest", ports: &[18515], service: None, begins: None },
];

impl Protocol {
    /// The protocol with the service ID of a REQ.
    pub(crate) fn of_service(service: ServiceId) -> Option<Protocol> {
        let port = service.rdma_cm_port().map(|(_, port)| port);
        let [first, rest @ .., _, _, _] = service.0.to_be_bytes();
        let is_of = |row: &&Row| match port {
            Some(port) => row.ports.contains(&port),
            None => row.service == Some(first) && rest == [0; 4],
        };
        ROWS.iter().find(is_of).map(|row| row.protocol)
    }

    /// The protocol that begins connections with such a Send: its captured bytes, and its length on
    /// the wire.
    pub fn of_first_send(bytes: &[u8], length: u32) -> Option<Protocol> {
        let begins = |row: &&Row| row.begins.is_some_and(|begins| begins(bytes, length));
        ROWS.iter().find(begins).map(|row| row.protocol)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].name
    }
}

/// Whether a Send is an encapsulation header of IPoIB (RFC 4391, section 6) and a whole IPv4, IPv6
/// or ARP packet of InfiniBand.
fn is_encapsulated(bytes: &[u8], length: u32) -> bool {
    let Some((header, packet)) = bytes.split_first_chunk::<4>() else { return false };
    let Some(first) = packet.first_chunk::<8>() else { return false };
    let length_at = |at: usize| u32::from(u16::from_be_bytes([first[at], first[at + 1]]));
    match header {
        [0x08, 0x00, 0, 0] => first[0] >> 4 == 4 && length == 4 + length_at(2),
        [0x86, 0xdd, 0, 0] => first[0] >> 4 == 6 && length == 4 + 40 + length_at(4),
        // Hardware type 32, addresses of IPv4.
        [0x08, 0x06, 0, 0] => first.starts_with(&[0, 32, 8, 0]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_wire::rdma_cm_ip::PortSpace;

    #[test]
    fn rows_are_in_protocol_order() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.protocol as usize, at);
            assert_eq!(row.protocol.name(), row.name);
        }
    }

    #[test]
    fn service_ids_identify_protocols() {
        let of = |service: u64| Protocol::of_service(ServiceId(service));
        assert_eq!(of(0x0106_01bd), Some(Protocol::SmbDirect));
        assert_eq!(of(0x0106_1545), Some(Protocol::SmbDirect));
        assert_eq!(of(0x0106_1144), Some(Protocol::NvmeOf));
        assert_eq!(of(0x0106_0cbc), Some(Protocol::Iser));
        assert_eq!(of(0x0106_4853), Some(Protocol::Perftest));
        assert_eq!(of(0x1000_0000_0000_004a), Some(Protocol::IpoibCm));
        assert_eq!(of(0x1000_0000_0100_004a), None);
        // NFS over RDMA, and an unknown service ID.
        assert_eq!(Protocol::of_service(ServiceId::rdma_cm(PortSpace::Tcp, 20_049)), None);
        assert_eq!(of(0x4853), None);
    }

    #[test]
    fn first_sends_identify_protocols() {
        let negotiate = [0, 1, 0, 1, 0, 0, 255, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 2, 0];
        let mut connect = [0; 64];
        (connect[0], connect[1], connect[4]) = (0x7f, 0x40, 1);
        let mut login = [0; 76];
        (login[0], login[28]) = (0x10, 0x43);
        let mut confirm_link = [0; 44];
        (confirm_link[0], confirm_link[1]) = (1, 44);
        // An encapsulation header, and an IPv6 header without payload.
        let mut ipv6 = [0; 44];
        ipv6[..5].copy_from_slice(&[0x86, 0xdd, 0, 0, 0x60]);
        for (bytes, protocol) in [
            (&negotiate[..], Protocol::SmbDirect),
            (&connect, Protocol::NvmeOf),
            (&login, Protocol::Iser),
            (&confirm_link, Protocol::SmcR),
            (&[8, 0, 0, 0, 0x45, 0, 0, 8, 0, 1, 0x40, 0], Protocol::IpoibCm),
            (&ipv6, Protocol::IpoibCm),
        ] {
            let length = bytes.len() as u32;
            assert_eq!(Protocol::of_first_send(bytes, length), Some(protocol));
            assert_eq!(Protocol::of_first_send(bytes, length - 1), None);
            // Cut by a snap length: the remaining first bytes are enough, or the protocol is
            // unknown.
            for captured in 0..bytes.len() {
                let found = Protocol::of_first_send(&bytes[..captured], length);
                assert!(found.is_none() || found == Some(protocol), "{captured}");
            }
        }
    }
}
