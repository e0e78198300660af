//! Real sessions in other encapsulations give the same transactions.

use rdmascope_dissector::connection::State;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::LinkType;
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{pcap, samples};
use rdmascope_wire::erf::{Erf, RecordType, Timestamp};
use rdmascope_wire::icrc;
use rdmascope_wire::lrh::{Lrh, NextHeader};
use std::net::{IpAddr, Ipv4Addr};

const SAMPLES: [&str; 2] = ["nfs3-basic", "nfs4.1-backchannel-recall"];

fn carried(sample: &str, link: LinkType, carry: impl Fn(&pcap::Packet) -> Vec<u8>) -> Session {
    let mut capture = samples::capture(sample);
    capture.link = link.0;
    for packet in &mut capture.packets {
        packet.data = carry(packet);
        packet.original_length = packet.data.len() as u32;
    }
    session::run(&capture)
}

/// The compared part of a connection, without its addresses.
type Connected = (State, Option<u32>, [u64; 2]);

/// The transactions and connections to compare.
fn compared(session: &Session) -> (Vec<String>, Vec<Connected>) {
    let connections = session.connections.iter();
    (
        session.transactions.iter().map(|transaction| format!("{transaction:?}")).collect(),
        connections.map(|one| (one.state, one.call_inline_threshold, one.transactions)).collect(),
    )
}

/// Source and destination LID. The LID of a host is the last byte of its IP address.
fn lids(frame: &[u8]) -> (u16, u16) {
    (frame[29].into(), frame[33].into())
}

/// The LID of the host with this address.
fn lid(address: Address) -> Address {
    let Address::V4(ip) = address else { panic!("{address}") };
    Address::Lid(ip.octets()[3].into())
}

/// LRH, the packet from the BTH on, its ICRC, and two bytes of variant CRC.
fn native(frame: &[u8]) -> Vec<u8> {
    // Ethernet, IPv4 and UDP headers take 42 bytes. No frame in the samples is short enough to be
    // padded.
    let transport = &frame[42..frame.len() - icrc::LENGTH];
    let (source, destination) = lids(frame);
    let packet_length = (Lrh::LENGTH + transport.len() + icrc::LENGTH) / 4;
    let lrh = Lrh {
        next_header: NextHeader::Bth,
        destination,
        packet_length: packet_length as u16,
        source,
        ..Lrh::default()
    };
    let mut out = Vec::new();
    lrh.build(&mut out);
    let header = *out.first_chunk().expect("an LRH");
    let icrc = icrc::lrh(&header, transport).expect("the packet is complete");
    out.extend_from_slice(transport);
    out.extend(icrc.to_le_bytes());
    out.extend([0xbe, 0xef]);
    out
}

fn in_erf(packet: &pcap::Packet) -> Vec<u8> {
    let data = native(&packet.data);
    let (seconds, nanoseconds) = (packet.time / 1_000_000_000, packet.time % 1_000_000_000);
    let header = Erf {
        timestamp: Timestamp(((seconds as u64) << 32) | (((nanoseconds as u64) << 32) / 1_000_000_000)),
        is_extended: true,
        record_type: RecordType::INFINIBAND,
        flags: 4,
        record_length: (24 + data.len()).next_multiple_of(8) as u16,
        loss_or_color: 0,
        wire_length: data.len() as u16,
    };
    let mut out = Vec::new();
    header.build(&mut out);
    out.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(data);
    out.resize(header.record_length.into(), 0);
    out
}

#[test]
fn native_infiniband() {
    for sample in SAMPLES {
        let expected = session::run(&samples::capture(sample));
        let in_pcap = carried(sample, LinkType::INFINIBAND, |packet| native(&packet.data));
        let in_erf = carried(sample, LinkType::ERF, in_erf);
        for found in [in_pcap, in_erf] {
            // The ends of transactions are the IP addresses in the REQ.
            assert_eq!(compared(&found), compared(&expected), "{sample}");
            let totals = found.totals;
            assert_eq!(
                (totals.native_packets, totals.icrc),
                (totals.packets, [totals.packets, 0, 0]),
                "{sample}"
            );
            for (connection, over_ip) in found.connections.iter().zip(&expected.connections) {
                let ends = [&connection.requester, &connection.responder];
                for (end, over_ip) in ends.into_iter().zip([&over_ip.requester, &over_ip.responder]) {
                    let Address::V4(ip) = over_ip.address else { panic!("{over_ip:?}") };
                    assert_eq!(end.address, lid(over_ip.address));
                    // The RDMA-CM IP header in the REQ.
                    assert_eq!((end.ip, over_ip.ip), (Some(IpAddr::V4(ip)), None), "{sample}");
                }
            }
        }
        assert_eq!(expected.totals.native_packets, 0);
    }
}

/// Without the REQ, IP addresses are unknown.
#[test]
fn native_infiniband_without_the_req_has_no_ip_addresses() {
    let mut capture = samples::capture("nfs3-basic");
    capture.link = LinkType::INFINIBAND.0;
    capture.packets.retain(|packet| packet.data[42] != 0x64);
    for packet in &mut capture.packets {
        packet.data = native(&packet.data);
        packet.original_length = packet.data.len() as u32;
    }
    let found = session::run(&capture);
    assert!(!found.connections.is_empty());
    let ends = found.connections.iter().flat_map(|one| [&one.requester, &one.responder]);
    assert!(ends.into_iter().all(|end| end.ip.is_none()));
    let routes = found.transactions.iter().map(|transaction| transaction.route.expect("both ends are seen"));
    assert!(routes.into_iter().all(|route| matches!(route.source, Address::Lid(_))));
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &kind.to_be_bytes(), payload].concat()
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let [high, low] = length.to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
    let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(192, 0, 2, last).octets());
    [&header[..], &source, &destination, payload].concat()
}

fn geneve(inner: &[u8]) -> Vec<u8> {
    let [high, low] = ((8 + 8 + inner.len()) as u16).to_be_bytes();
    let udp = [0xc0, 0, 0x17, 0xc1, high, low, 0, 0];
    ipv4(17, &[&udp[..], &[0, 0, 0x65, 0x58, 0, 0, 1, 0], inner].concat())
}

fn pppoe(inner: &[u8]) -> Vec<u8> {
    let [high, low] = ((2 + inner.len()) as u16).to_be_bytes();
    [&[0x11, 0, 0, 1, high, low, 0, 0x21][..], inner].concat()
}

#[test]
fn tunnels() {
    type Carry = fn(&[u8]) -> Vec<u8>;
    let ways: [(&str, Carry); 5] = [
        ("GENEVE", |frame| ethernet(0x0800, &geneve(frame))),
        ("MPLS", |frame| ethernet(0x8847, &[&[0, 1, 1, 64][..], &frame[14..]].concat())),
        ("MPLS in GRE", |frame| {
            let gre = [&[0, 0, 0x88, 0x47, 0, 1, 1, 64][..], &frame[14..]].concat();
            ethernet(0x0800, &ipv4(47, &gre))
        }),
        ("PPPoE", |frame| ethernet(0x8864, &pppoe(&frame[14..]))),
        ("IP", |frame| ethernet(0x0800, &ipv4(4, &frame[14..]))),
    ];
    let expected = session::run(&samples::capture(SAMPLES[0]));
    for (name, carry) in ways {
        let found = carried(SAMPLES[0], LinkType::ETHERNET, |packet| carry(&packet.data));
        assert_eq!(compared(&found), compared(&expected), "{name}");
        assert_eq!(found.totals.icrc, expected.totals.icrc, "{name}");
    }
}
