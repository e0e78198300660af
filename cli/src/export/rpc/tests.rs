use super::streams::Streams;
use super::{FileArguments, LeftOut, Message, Rpc, gather, write};
use crate::input::{Input, listen};
use crate::mode::NewFiles;
use crate::slice::SliceArguments;
use core::net::IpAddr;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use rdmascope_capture_agent::Capture;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::{pcap, samples};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn command(path: PathBuf) -> Rpc {
    let input = Input::file(path, frame::Config::default().port);
    let file = FileArguments { output: "-".into(), new_files: NewFiles::default() };
    Rpc { input, file, slice: SliceArguments::default() }
}

/// Runs the command and writes its output to a file.
fn written(command: &Rpc, folder: &Path) -> (PathBuf, LeftOut) {
    let mut out = Vec::new();
    let (_, left_out) = write(command, &mut out).expect("it is a capture");
    let path = folder.join("written.pcapng");
    std::fs::write(&path, out).expect("it can be written");
    (path, left_out)
}

/// A packet: its sender with port, its sequence number, its captured bytes and its original length.
struct Packet {
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    sequence: u32,
    payload: Vec<u8>,
    length: usize,
}

fn packets(path: &Path) -> Vec<Packet> {
    let mut capture = Capture::open(path).expect("it is a capture");
    let mut packets = Vec::new();
    while let Some(record) = capture.next().expect("it can be read") {
        // Fill the truncated bytes with zeros.
        let mut padded = record.data.to_vec();
        padded.resize(record.original_length as usize, 0);
        let missing = padded.len() - record.data.len();
        let sliced = SlicedPacket::from_ip(&padded).expect("it is an IP packet");
        let (source, destination): (IpAddr, IpAddr) = match sliced.net.expect("it has a header") {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            _ => panic!("no IP"),
        };
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
        let payload = tcp.payload();
        packets.push(Packet {
            from: (source, tcp.source_port()),
            to: (destination, tcp.destination_port()),
            sequence: tcp.sequence_number(),
            payload: payload[..payload.len() - missing].to_vec(),
            length: payload.len(),
        });
    }
    packets
}

/// An end of a TCP connection.
type End = (IpAddr, u16);

/// The RPC messages in each direction of each connection, in order (RFC 5531, section 11).
fn messages(path: &Path) -> BTreeMap<(End, End), Vec<Vec<u8>>> {
    let mut streams: BTreeMap<_, (u32, Vec<u8>)> = BTreeMap::new();
    for packet in packets(path) {
        let (next, stream) = streams.entry((packet.from, packet.to)).or_insert((1, Vec::new()));
        if packet.length > 0 {
            assert_eq!(packet.sequence, *next, "bytes are missing or duplicated");
            *next = next.wrapping_add(packet.length as u32);
            stream.extend_from_slice(&packet.payload);
        }
    }
    let split = |mut stream: &[u8]| {
        let mut messages = Vec::new();
        while let Some((head, rest)) = stream.split_first_chunk::<4>() {
            let head = u32::from_be_bytes(*head);
            assert_eq!(head >> 31, 1, "the fragment is the last one");
            let (message, rest) = rest.split_at((head & 0x7fff_ffff) as usize);
            messages.push(message.to_vec());
            stream = rest;
        }
        messages
    };
    streams.into_iter().map(|(key, (_, stream))| (key, split(&stream))).collect()
}

/// Every message of every sample is complete and on the side that sent it.
#[test]
fn exported_messages_equal_unreduced_messages() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut count = 0;
    // The rejected sample has five connections, and replies that the requester did not pull.
    for name in samples::MOUNTS.into_iter().chain([samples::REJECTED]) {
        let command = command(samples::folder().join(format!("{name}.pcap")));
        let mut expected: BTreeMap<bool, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
        let config = Config { keep: Keep { steps: false, contents: true }, ..Config::default() };
        let read = listen(&command.input, config, |event, _| {
            if let Event::Transaction(transaction) = event {
                for of_reply in [false, true] {
                    let header = if of_reply { &transaction.reply } else { &transaction.call };
                    let frame = header.as_ref().expect("it is there").seen.frame;
                    let message = transaction.message(of_reply).expect("it is there").bytes;
                    let from_client = (transaction.direction == Direction::Forward) != of_reply;
                    expected.entry(from_client).or_default().push((frame, message));
                }
            }
            Ok(())
        });
        read.expect("it is a capture");
        let (path, left_out) = written(&command, folder.path());
        assert_eq!(left_out, LeftOut::default(), "{name}");
        let found = messages(&path);
        assert!(found.len() <= 2 * 2, "{name}: {:?}", found.keys());
        for (from_client, mut expected) in expected {
            expected.sort();
            let is_it = |((_, _), (_, to)): &&(End, End)| (*to == 2049) == from_client;
            let key = found.keys().find(is_it).expect("the direction is there");
            count += expected.len();
            let expected: Vec<Vec<u8>> = expected.into_iter().map(|(_, message)| message).collect();
            assert!(found[key] == expected, "{name}, from the client: {from_client}");
        }
    }
    assert_eq!(count, 1720);
}

/// Bytes cut by a snap length are missing in the packet too, and are counted.
#[test]
fn truncated_bytes_are_missing_and_counted() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut capture = samples::capture("nfs3-basic");
    for packet in &mut capture.packets {
        packet.data.truncate(160);
    }
    let path = folder.path().join("cut.pcap");
    std::fs::write(&path, pcap::write(&capture)).expect("it can be written");
    let (path, left_out) = written(&command(path), folder.path());
    let packets = packets(&path);
    let cut = packets.iter().filter(|packet| packet.payload.len() < packet.length);
    assert!(left_out.cut > 100, "{left_out:?}");
    assert!(cut.count() as u64 >= left_out.cut);
    // Each message starts at the end of the previous one, including its missing bytes.
    let mut next: BTreeMap<_, u32> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.length > 0) {
        let next = next.entry(packet.from).or_insert(1);
        if packet.payload.len() >= 4 && packet.sequence >= *next {
            assert_eq!(packet.sequence, *next);
            let mark = u32::from_be_bytes(packet.payload[..4].try_into().expect("it has four"));
            *next += (mark & 0x7fff_ffff) + 4;
        }
    }
    assert!(next.values().all(|end| *end > 10_000));
}

/// The length claimed by a header uses neither memory nor packets.
#[test]
fn large_claimed_length_writes_few_bytes() {
    for length in [4, 5, u64::from(u32::MAX >> 1), u64::from(u32::MAX), u64::MAX] {
        let mut out = Vec::new();
        let mut streams = Streams::new(&mut out).expect("memory takes all");
        let message = Message {
            transaction: 1,
            connection: ConnectionId(1),
            from_requester: true,
            of_reply: false,
            time: Time(0),
            frames: (1, 1),
            length,
            held: 4,
            at: 0,
        };
        for _ in 0..3 {
            streams.message(&message, None, &[1, 2, 3, 4]).expect("memory takes all");
        }
        streams.finish().expect("memory takes all");
        assert!(out.len() < 3 * 66_000, "{length}: {}", out.len());
    }
}

/// Only messages that pass the filter are written. A filter with an unknown connection is an error.
#[test]
fn filters_select_messages() {
    let folder = tempfile::tempdir().expect("there is room");
    let sample = samples::folder().join("nfs4.1-backchannel-recall.pcap");
    let mut only = command(sample);
    only.slice = SliceArguments::of_connection(1);
    let all = messages(&written(&only, folder.path()).0);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 2 * 38);
    only.slice = SliceArguments::of_connection(7);
    assert!(gather(&only).err().is_some_and(|error| error.to_string().contains('7')));
}
