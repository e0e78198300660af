//! TCP connections that carry the messages, one per RDMA connection.

use super::Message;
use core::net::{IpAddr, Ipv4Addr};
use etherparse::PacketBuilder;
use foldhash::fast::FixedState;
use rdmascope_capture_agent::PcapngWriter;
use rdmascope_dissector::connection::{Connection, ConnectionId, Endpoint};
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use std::collections::HashMap;
use std::io::{self, Write};

/// The port of NFS over TCP (RFC 8881, section 2.9.2).
const SERVICE: u16 = 2049;
/// The first dynamic port (RFC 6335, section 6), and the number of dynamic ports.
const CLIENT: (u16, u32) = (49_152, 16_384);
/// Maximum number of message bytes per packet: an IPv4 packet has 65,535 with its own header and
/// that of TCP.
const MOST: usize = 65_480;
/// The last fragment of a record (RFC 5531, section 11).
const LAST: u32 = 1 << 31;

/// The output file.
pub(super) struct Streams<W: Write> {
    file: PcapngWriter<W>,
    packets: u64,
    /// Bytes sent by each end of a connection, the requester first.
    sent: HashMap<ConnectionId, [u32; 2], FixedState>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

/// A packet.
#[derive(Clone, Copy)]
struct Segment {
    from_requester: bool,
    time: Time,
    sequence: u32,
    acknowledged: u32,
    flags: Flags,
}

/// The purpose of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flags {
    Syn,
    SynAck,
    Ack,
    Push,
}

impl<W: Write> Streams<W> {
    pub(super) fn new(out: W) -> io::Result<Streams<W>> {
        let file = PcapngWriter::new(out, concat!("rdmascope ", env!("CARGO_PKG_VERSION")))?;
        Ok(Streams { file, packets: 0, sent: HashMap::default(), buffer: Vec::new(), payload: Vec::new() })
    }

    /// Writes a message with the bytes that the capture has. Its first message opens the
    /// connection.
    pub(super) fn message(
        &mut self,
        message: &Message,
        of: Option<&Connection>,
        held: &[u8],
    ) -> io::Result<()> {
        let ends = Ends::of(message.connection, of);
        let Message { time, from_requester, .. } = *message;
        if !self.sent.contains_key(&message.connection) {
            // Sequence numbers start at 0, and a SYN counts as a byte (RFC 9293, section 3.4).
            for (from_requester, acknowledged, flags) in
                [(true, 0, Flags::Syn), (false, 1, Flags::SynAck), (true, 1, Flags::Ack)]
            {
                let sequence = u32::from(flags == Flags::Ack);
                let segment = Segment { from_requester, time, sequence, acknowledged, flags };
                self.packet(&ends, segment, &[], 0, "")?;
            }
            self.sent.insert(message.connection, [1, 1]);
        }
        // The length in the record mark has 31 bits. Headers can claim more than that.
        let length = message.length.min(u64::from(LAST - 1));
        let mut payload = core::mem::take(&mut self.payload);
        payload.clear();
        payload.extend_from_slice(&(LAST | length as u32).to_be_bytes());
        payload.extend_from_slice(held);
        // Packets without any captured bytes are not written, as if the capture had lost them.
        let captured = payload.len();
        let total = length as usize + 4;
        payload.resize(captured.next_multiple_of(MOST).min(total).max(captured), 0);
        let [own, other] = match from_requester {
            true => [0, 1],
            false => [1, 0],
        };
        let sent = self.sent.get(&message.connection).copied().unwrap_or([1, 1]);
        let mut sequence = sent[own];
        let mut comment = words(message);
        for (index, part) in payload.chunks(MOST).enumerate() {
            let held = captured.saturating_sub(index * MOST).min(part.len());
            let segment =
                Segment { from_requester, time, sequence, acknowledged: sent[other], flags: Flags::Push };
            self.packet(&ends, segment, part, part.len() - held, &comment)?;
            sequence = sequence.wrapping_add(part.len() as u32);
            comment.clear();
        }
        self.payload = payload;
        if let Some(sent) = self.sent.get_mut(&message.connection) {
            sent[own] = sent[own].wrapping_add(total as u32);
        }
        Ok(())
    }

    /// Writes a packet, truncated by the bytes missing from the capture.
    fn packet(
        &mut self,
        ends: &Ends,
        segment: Segment,
        payload: &[u8],
        lacking: usize,
        comment: &str,
    ) -> io::Result<()> {
        let [client, server] = ends.addresses;
        let (source, destination) = if segment.from_requester { (client, server) } else { (server, client) };
        let (from, to) = if segment.from_requester { (ends.port, SERVICE) } else { (SERVICE, ends.port) };
        let ip = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                PacketBuilder::ipv4(source.octets(), destination.octets(), 64)
            }
            (source, destination) => {
                let octets = |address| match address {
                    IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address).octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                PacketBuilder::ipv6(octets(source), octets(destination), 64)
            }
        };
        let tcp = ip.tcp(from, to, segment.sequence, u16::MAX);
        let tcp = match segment.flags {
            Flags::Syn => tcp.syn(),
            Flags::SynAck => tcp.syn().ack(segment.acknowledged),
            Flags::Ack => tcp.ack(segment.acknowledged),
            Flags::Push => tcp.psh().ack(segment.acknowledged),
        };
        self.buffer.clear();
        tcp.write(&mut self.buffer, payload).map_err(io::Error::other)?;
        self.packets += 1;
        let length = self.buffer.len();
        let record = Record {
            number: self.packets,
            time: segment.time,
            link: LinkType::RAW,
            original_length: u32::try_from(length).unwrap_or(u32::MAX),
            dropped: 0,
            tap: Tap::default(),
            data: &self.buffer[..length - lacking],
        };
        self.file.packet(&record, comment)
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.file.finish().map(drop)
    }
}

/// The addresses and the client port of a connection.
struct Ends {
    addresses: [IpAddr; 2],
    port: u16,
}

impl Ends {
    fn of(id: ConnectionId, connection: Option<&Connection>) -> Ends {
        let address = |end: fn(&Connection) -> &Endpoint, last: u8| {
            let end = connection.map(end);
            end.and_then(|end| end.ip.or(end.address.ip())).unwrap_or_else(|| {
                // A LID has no IP address, so a link-local address replaces it (RFC 3927).
                match end.map(|end| end.address) {
                    Some(Address::Lid(lid)) => Ipv4Addr::new(169, 254, (lid >> 8) as u8, lid as u8).into(),
                    _ => Ipv4Addr::new(169, 254, 0, last).into(),
                }
            })
        };
        let addresses = [address(|one| &one.requester, 1), address(|one| &one.responder, 2)];
        let (first, count) = CLIENT;
        Ends { addresses, port: first + (id.0 % count) as u16 }
    }
}

fn words(message: &Message) -> String {
    let kind = if message.of_reply { "reply" } else { "call" };
    let (first, last) = message.frames;
    let frames = if first == last { format!("frame {last}") } else { format!("frames {first} to {last}") };
    let cut = match message.length - message.held {
        0 => String::new(),
        lacking => format!("; bytes of the last {lacking} are missing from the capture"),
    };
    format!(
        "rdmascope: {kind} of transaction {}, connection {}, {frames}{cut}",
        message.transaction, message.connection.0
    )
}
