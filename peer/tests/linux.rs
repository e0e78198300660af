//! An endpoint in place of a Linux kernel. It gets the packets of the other kernel in a sample and
//! must answer like the kernel: with the same acknowledgements and MSNs, and READ responses with
//! the same opcodes, PSNs and lengths.

use rdmascope_peer::endpoint::{Config, Connect, ConnectionId, Endpoint, Event};
use rdmascope_peer::frame;
use rdmascope_peer::memory::{Access, Region};
use rdmascope_peer::packet::{Datagram, Icrc, Packet};
use rdmascope_peer::rc::{self, QueueEvent};
use rdmascope_peer::time::Instant;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::Transport;
use rdmascope_wire::cm::Message;
use rdmascope_wire::rpcrdma::{Header, Segment};
use std::collections::BTreeSet;
use std::path::Path;

/// The RoCEv2 packets of a sample with Ethernet frames, as a raw socket returns them.
fn datagrams(name: &str) -> Vec<Datagram> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(name);
    let file = std::fs::read(path).expect("the sample exists");
    assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1], "a pcap file, little-endian, microseconds");
    let mut rest = &file[24..];
    let mut found = Vec::new();
    while let Some((record, tail)) = rest.split_first_chunk::<16>() {
        let captured = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        let (bytes, tail) = tail.split_at(captured);
        rest = tail;
        found.extend(frame::open(&bytes[14..]));
    }
    assert!(found.iter().all(|datagram| datagram.icrc == Icrc::Good));
    found
}

/// Finds the first CM message with this attribute, and its datagram.
fn message(datagrams: &[Datagram], attribute: u16) -> (&Datagram, &[u8]) {
    datagrams
        .iter()
        .filter(|datagram| datagram.transport[0] == 0x64)
        .map(|datagram| (datagram, &datagram.transport[20..]))
        .find(|(_, mad)| mad[16..18] == attribute.to_be_bytes())
        .expect("the sample has one")
}

/// Replaces the number at an offset from the start of the transport packet.
fn with(datagram: &Datagram, at: usize, number: u32) -> Datagram {
    let mut changed = datagram.clone();
    changed.transport[at..at + 4].copy_from_slice(&number.to_be_bytes());
    changed
}

/// The fields of a response that must be equal: opcode, PSN, payload length, AETH.
type Response = (u8, u32, usize, Option<(u8, u32)>);

fn response(packet: &Packet<'_>) -> Option<Response> {
    let operation = packet.bth.opcode.operation()?;
    let of_rc = packet.bth.opcode.transport() == Transport::ReliableConnection && operation.is_response();
    let aeth = packet.extensions.aeth.map(|aeth| (aeth.syndrome.0, aeth.message_sequence_number));
    of_rc.then_some((packet.bth.opcode.0, packet.bth.psn.value(), packet.payload.len(), aeth))
}

struct Replica {
    endpoint: Endpoint,
    connection: ConnectionId,
    qpn: Qpn,
    now: Instant,
    ours: BTreeSet<Response>,
    received: usize,
}

impl Replica {
    fn new(endpoint: Endpoint, connection: ConnectionId) -> Replica {
        let qpn = endpoint.queue_pair_number(connection).unwrap();
        Replica { endpoint, connection, qpn, now: Instant(0), ours: BTreeSet::new(), received: 0 }
    }

    /// Passes a request for the kernel to the endpoint, and records its answers.
    fn request(&mut self, datagram: &Datagram) {
        self.now.0 += 1000;
        // Byte 4 is reserved; the queue pair is in the next three bytes.
        self.endpoint.handle(self.now, &with(datagram, 4, self.qpn.0));
        while let Some(datagram) = self.endpoint.poll_transmit(self.now) {
            let packet = Packet::parse(&datagram.transport).unwrap();
            self.ours.extend(response(&packet));
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Queue { event: QueueEvent::Received(_), .. } => {
                    self.received += 1;
                    self.endpoint.post_receive(self.connection, 4096).unwrap();
                }
                Event::Queue {
                    event: QueueEvent::Written { .. } | QueueEvent::ReadServed { .. }, ..
                } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn config(path_mtu: u16, starting_psn: rdmascope_wire::psn::Psn) -> Config {
    let queue = rc::Config { path_mtu, ..rc::Config::default() };
    Config { queue, starting_psn: Some(starting_psn), ..Config::default() }
}

fn parsed(mad: &[u8]) -> Message<'_> {
    Message::parse(mad).unwrap().1
}

fn replay(name: &str) {
    let datagrams = datagrams(name);
    let (request, request_mad) = message(&datagrams, 0x0010);
    let (reply, reply_mad) = message(&datagrams, 0x0013);
    let (ready, _) = message(&datagrams, 0x0014);
    let (Message::Request(req), Message::Reply(rep)) = (parsed(request_mad), parsed(reply_mad)) else {
        panic!()
    };
    let (client, server) = (request.source, request.destination);
    let path_mtu = req.path_mtu_bytes().unwrap();

    // In place of the client: the REP needs another communication ID.
    let mut endpoint = Endpoint::new(config(path_mtu, req.starting_psn), 1);
    let connection = endpoint.connect(Connect::new(client, server, 20049)).unwrap();
    assert!(endpoint.poll_transmit(Instant(0)).is_some());
    endpoint.handle(Instant(0), &with(reply, 12 + 8 + 24 + 4, connection.0));
    let mut as_client = Replica::new(endpoint, connection);

    // In place of the server.
    let mut endpoint = Endpoint::new(config(path_mtu, rep.starting_psn), 2);
    endpoint.listen(20049);
    endpoint.handle(Instant(0), request);
    let Some(Event::Requested { connection, private_data, .. }) = endpoint.poll_event() else { panic!() };
    assert_eq!(private_data[..8], [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]);
    endpoint.accept(connection, b"").unwrap();
    assert!(endpoint.poll_transmit(Instant(0)).is_some());
    endpoint.handle(Instant(0), &with(ready, 12 + 8 + 24 + 4, connection.0));
    let mut as_server = Replica::new(endpoint, connection);

    for replica in [&mut as_client, &mut as_server] {
        assert!(replica.endpoint.poll_transmit(Instant(0)).is_none_or(|rtu| rtu.transport[37] == 0x14));
        for _ in 0..300 {
            replica.endpoint.post_receive(replica.connection, 4096).unwrap();
        }
        while let Some(event) = replica.endpoint.poll_event() {
            assert!(matches!(event, Event::Replied { .. } | Event::Connected { .. }), "{event:?}");
        }
    }

    let (mut of_client, mut of_server) = (BTreeSet::new(), BTreeSet::new());
    let mut call = Vec::new();
    for datagram in &datagrams {
        let packet = Packet::parse(&datagram.transport).unwrap();
        let Some(operation) = packet.bth.opcode.operation() else { continue };
        if packet.bth.opcode.transport() != Transport::ReliableConnection {
            continue;
        }
        let from_client = datagram.source == client;
        let for_connection = if from_client { rep.local_qpn } else { req.local_qpn };
        assert_eq!(packet.bth.destination_qp, for_connection, "one connection a sample");
        if let Some(response) = response(&packet) {
            if from_client {
                of_client.insert(response)
            } else {
                of_server.insert(response)
            };
            continue;
        }
        if !from_client {
            as_client.request(datagram);
            continue;
        }
        as_server.request(datagram);
        // The memory advertised by the client is registered here too.
        if operation.begins_message() {
            call.clear();
        }
        call.extend_from_slice(packet.payload);
        if operation.ends_message() {
            let header = Header::parse(&call).unwrap();
            let segments: Vec<Segment> = header
                .reads
                .map(|read| read.target)
                .chain(header.writes.flat_map(|chunk| chunk.segments()))
                .chain(header.reply.into_iter().flat_map(|chunk| chunk.segments()))
                .collect();
            for Segment { handle, length, offset } in segments {
                as_client.endpoint.invalidate(as_client.connection, handle);
                let access = Access { remote_read: true, remote_write: true };
                let region = Region { address: offset, bytes: vec![0; length as usize], access };
                as_client.endpoint.register_at(as_client.connection, handle, region).unwrap();
            }
        }
    }
    assert!(as_client.received > 20 && as_server.received > 20, "{name}");
    let reads =
        |responses: &BTreeSet<Response>| responses.iter().filter(|(opcode, ..)| *opcode != 0x11).count();
    assert!(reads(&of_client) > 2 && reads(&of_server) == 0, "{name}");
    assert_eq!(as_client.ours, of_client, "{name}");
    assert_eq!(as_server.ours, of_server, "{name}");
}

#[test]
fn endpoint_responds_like_the_kernels_in_samples() {
    for name in ["nfs3-basic.pcap", "nfs4.1-basic.pcap", "nfs4.2-basic.pcap", "nfs4.2-mtu4096-large-io.pcap"]
    {
        replay(name);
    }
}
