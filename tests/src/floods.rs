//! Spoofed packets: each one opens a new flow between hosts of its own.

use core::net::Ipv4Addr;
use rdmascope_wire::compose::{Carrier, Ipv4, ROCE_V2_PORT, Udp};

/// The kind of packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SEND Only with a call of NFSv3 GETATTR.
    Call,
    /// RDMA WRITE Only.
    Write,
    /// RDMA READ Request.
    Read,
    /// Acknowledge.
    Acknowledge,
    /// A REQ for the NFS/RDMA port.
    Request,
    /// An MPA Request over TCP.
    Start,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] =
        [Kind::Call, Kind::Write, Kind::Read, Kind::Acknowledge, Kind::Request, Kind::Start];

    /// The Ethernet frame of a packet of a flow. Each flow below 2^23 has its own two hosts in
    /// 100.0.0.0/8.
    pub fn frame(self, flow: u32, packet: u32) -> Vec<u8> {
        let mut out = [[2; 12].as_slice(), &[8, 0]].concat();
        let [source, destination] = [0, 1].map(|host| Ipv4Addr::from(0x6400_0000 + 2 * flow + host));
        let ip = Ipv4 { identification: packet as u16 + 1, ..Ipv4::new(source, destination) };
        if self == Kind::Start {
            out.extend(segment(&ip, flow, packet));
        } else {
            let carrier =
                Carrier::Ipv4(ip, Udp { source_port: 0xc000, destination_port: ROCE_V2_PORT, checksum: 0 });
            carrier.enclose(&self.transport(flow, packet), &mut out).expect("it fits a packet");
        }
        out
    }

    /// The bytes from the BTH on.
    fn transport(self, flow: u32, packet: u32) -> Vec<u8> {
        let (opcode, qp) = match self {
            Kind::Call => (0x04, flow + 2),
            Kind::Write => (0x0a, flow + 2),
            Kind::Read => (0x0c, flow + 2),
            Kind::Acknowledge => (0x11, flow + 2),
            Kind::Request | Kind::Start => (0x64, 1),
        };
        let mut out = words(&[opcode << 24 | 0xffff, qp, (flow.wrapping_mul(7) + packet) & 0xff_ffff]);
        match self {
            Kind::Call => {
                let xid = flow ^ packet << 24;
                // RDMA_MSG with one credit and no chunks; a call with AUTH_NONE; a file handle of
                // 16 bytes.
                out.extend(words(&[xid, 1, 1, 0, 0, 0, 0, xid, 0, 2, 100_003, 3, 1, 0, 0, 0, 0, 16]));
                out.extend([7; 16]);
            }
            Kind::Write => {
                out.extend(words(&[0, flow, flow, 64].into_iter().chain([0; 16]).collect::<Vec<_>>()))
            }
            Kind::Read => out.extend(words(&[0, flow, flow, 4096])),
            Kind::Acknowledge => out.extend(words(&[flow & 0xff_ffff])),
            Kind::Request | Kind::Start => out.extend(request(flow)),
        }
        out
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// DETH, MAD header and REQ (IBTA volume 1, section 12.6.5).
fn request(flow: u32) -> Vec<u8> {
    let mut out = words(&[0x8001_0000, 1]);
    out.extend([1, 7, 2, 3, 0, 0, 0, 0]);
    out.extend(words(&[0, flow, 0x0010_0000, 0]));
    let mut body = [0; 232];
    body[..4].copy_from_slice(&flow.to_be_bytes());
    // TCP port 20049.
    body[8..16].copy_from_slice(&0x0106_4e51_u64.to_be_bytes());
    body[32..36].copy_from_slice(&((flow + 2) << 8 | 4).to_be_bytes());
    body[36..40].copy_from_slice(&4_u32.to_be_bytes());
    // Reliable connection, and the PSN that the sender expects.
    body[40..44].copy_from_slice(&(20_u32 << 3).to_be_bytes());
    body[44..48].copy_from_slice(&(flow << 8 | 20 << 3 | 7).to_be_bytes());
    body[48..52].copy_from_slice(&[0xff, 0xff, 0x30, 0x70]);
    out.extend(body);
    out
}

/// An IPv4 packet with a TCP segment. The first packet has an MPA Request Frame (RFC 5044, section
/// 7.1.1) without CRC and private data; the others are empty.
fn segment(ip: &Ipv4, flow: u32, packet: u32) -> Vec<u8> {
    const REQUEST: &[u8] = b"MPA ID Req Frame\0\x01\0\0";
    let payload = if packet == 0 { REQUEST } else { &[] };
    let length = 40 + payload.len() as u16;
    let mut out = words(&[0x4500_0000 | u32::from(length), u32::from(ip.identification) << 16, 0x4006_0000]);
    out.extend([ip.source.octets(), ip.destination.octets()].concat());
    let sum = checksum(&out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    let port = 1024 + (flow & 0x7fff);
    let mut tcp = words(&[port << 16 | 20_049, flow + 20 * packet, 0, 0x5018_1000, 0]);
    tcp.extend(payload);
    let pseudo = [&out[12..20], &[0, 6], &(tcp.len() as u16).to_be_bytes(), &tcp].concat();
    let sum = checksum(&pseudo);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    out.extend(tcp);
    out
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
