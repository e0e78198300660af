//! Networks with equal addresses and queue pair numbers are kept apart, and one connection that a
//! capture shows in several networks stays one.

use core::net::Ipv4Addr;
use rdmascope_dissector::connection::{Connection, Counts};
use rdmascope_tests::mutate::{self, CLIENT, SERVER};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{judged, samples};

/// The network of a packet.
#[derive(Clone, Copy, Debug)]
enum Network {
    Plain,
    Vlan(u8),
    Vxlan(u8),
    Geneve(u8),
    Nvgre(u8),
}

impl Network {
    fn carry(self, packet: &mut Packet) {
        let udp = |port: u16, header: [u8; 8], frame: &[u8]| {
            let [high, low] = (16 + frame.len() as u16).to_be_bytes();
            let [a, b] = port.to_be_bytes();
            ethernet(17, &[&[0xc0, 0, a, b, high, low, 0, 0][..], &header, frame].concat())
        };
        match self {
            Network::Plain => {}
            Network::Vlan(id) => drop(packet.data.splice(12..12, [0x81, 0, 0x20, id])),
            Network::Vxlan(id) => packet.data = udp(4789, [8, 0, 0, 0, 0, 0, id, 0], &packet.data),
            Network::Geneve(id) => packet.data = udp(6081, [0, 0, 0x65, 0x58, 0, 0, id, 0], &packet.data),
            // The last byte of the key differs between flows.
            Network::Nvgre(id) => {
                let gre = [0x20, 0, 0x65, 0x58, 0, 0, id, packet.data[29]];
                packet.data = ethernet(47, &[&gre[..], &packet.data].concat());
            }
        }
        packet.original_length = packet.data.len() as u32;
    }
}

/// An IPv4 packet between the ends of a tunnel, in an Ethernet frame.
fn ethernet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(192, 0, 2, last).octets());
    let ip = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
    [&[0; 12][..], &[8, 0], &ip, &source, &destination, payload].concat()
}

fn carried(capture: &Capture, network: impl Fn(&Packet) -> Network) -> Capture {
    let mut carried = capture.clone();
    for packet in &mut carried.packets {
        network(packet).carry(packet);
    }
    carried
}

/// A session whose first packet comes at the time 0, with these queue pairs at both ends.
fn prepared(sample: &str, qp: u32) -> Capture {
    let mut capture = samples::capture(sample);
    let begin = capture.packets[0].time;
    capture.packets.iter_mut().for_each(|packet| packet.time -= begin);
    mutate::renumber_qp(&mut capture, CLIENT, qp);
    mutate::renumber_qp(&mut capture, SERVER, qp);
    capture
}

fn contents(session: &Session) -> Vec<String> {
    let mut contents: Vec<String> = session.transactions.iter().map(session::content).collect();
    contents.sort();
    contents
}

fn sent(session: &Session) -> Vec<[Counts; 2]> {
    let of = |one: &Connection| [one.requester.sent, one.responder.sent];
    session.connections.iter().map(of).collect()
}

/// Checks that both sessions together give the same results as each of them alone.
fn assert_both(one: &Capture, other: &Capture, networks: [Network; 2]) {
    let both = mutate::merge(&carried(one, |_| networks[0]), &carried(other, |_| networks[1]));
    let found = session::run(&both);
    let alone = [one, other].map(session::run);
    let mut expected: Vec<String> = alone.iter().flat_map(contents).collect();
    expected.sort();
    assert!(contents(&found) == expected, "{networks:?}: the transactions differ");
    let of_alone: Vec<_> = alone.iter().flat_map(sent).collect();
    let of_both = sent(&found);
    assert_eq!(of_both.len(), of_alone.len(), "{networks:?}");
    assert!(of_both.iter().all(|one| of_alone.contains(one)), "{networks:?}: the counts differ");
    let violations = |capture: &Capture| judged::findings(capture).len();
    assert_eq!(violations(&both), violations(one) + violations(other), "{networks:?}");
}

const PAIRS: [[Network; 2]; 6] = [
    [Network::Vlan(10), Network::Vlan(20)],
    [Network::Vxlan(10), Network::Vxlan(20)],
    [Network::Geneve(10), Network::Geneve(20)],
    [Network::Nvgre(10), Network::Nvgre(20)],
    [Network::Plain, Network::Vlan(20)],
    [Network::Vxlan(20), Network::Plain],
];

#[test]
fn tenants_with_equal_addresses_are_kept_apart() {
    let (one, other) = (prepared("nfs3-basic", 0x11), prepared("nfs4.1-basic", 0x11));
    for networks in PAIRS {
        assert_both(&one, &other, networks);
        assert_both(&mutate::without_cm(&one), &mutate::without_cm(&other), networks);
    }
}

/// Everything is equal, even communication IDs and PSNs, and the second session begins 5 ms after
/// the first.
#[test]
fn tenants_with_equal_sessions_are_kept_apart() {
    for sample in ["nfs3-basic", "nfs4.1-backchannel-recall"] {
        let one = samples::capture(sample);
        let mut other = one.clone();
        other.packets.iter_mut().for_each(|packet| packet.time += 5_000_000);
        assert_both(&one, &other, PAIRS[1]);
    }
}

/// The same for TCP.
#[test]
fn tenants_with_equal_tcp_sessions_are_kept_apart() {
    let one = samples::capture("iwarp-nfs3");
    let mut other = one.clone();
    other.packets.iter_mut().for_each(|packet| packet.time += 5_000_000);
    for networks in PAIRS {
        assert_both(&one, &other, networks);
    }
}

fn assert_same(found: &Capture, expected: &Capture, label: &str) {
    let (found, expected) = (session::run(found), session::run(expected));
    assert!(contents(&found) == contents(&expected), "{label}: the transactions differ");
    assert_eq!(sent(&found), sent(&expected), "{label}");
}

/// The two directions of a connection are in different networks.
#[test]
fn directions_in_different_networks_are_one_connection() {
    for sample in ["nfs3-basic", "nfs4.1-backchannel-recall", "iwarp-nfs3"] {
        let original = samples::capture(sample);
        for capture in [mutate::without_cm(&original), original] {
            for networks in PAIRS {
                let by_direction = |packet: &Packet| networks[usize::from(packet.source() == CLIENT)];
                let found = carried(&capture, by_direction);
                assert_same(&found, &capture, &format!("{sample} {networks:?}"));
            }
        }
    }
}

/// A mirror shows every packet in two networks, and loses some of each.
#[test]
fn session_seen_in_two_networks_is_one_session() {
    for sample in ["nfs3-basic", "nfs4.1-backchannel-recall", "iwarp-nfs3"] {
        let original = samples::capture(sample);
        for capture in [mutate::without_cm(&original), original] {
            for networks in PAIRS {
                let mut one = carried(&capture, |_| networks[0]);
                let mut other = carried(&capture, |_| networks[1]);
                other.packets.iter_mut().for_each(|packet| packet.time += 1_000);
                one.packets.retain(|packet| packet.number % 7 != 3);
                other.packets.retain(|packet| packet.number % 7 != 5);
                let found = mutate::merge(&one, &other);
                assert_same(&found, &capture, &format!("{sample} {networks:?}"));
            }
        }
    }
}

/// The packets of a connection take two paths. Without the CM exchange, the first request of an
/// end that only acknowledged so far would have no evidence.
#[test]
fn session_split_over_two_networks_is_one_session() {
    for sample in ["nfs3-basic", "nfs4.1-backchannel-recall", "iwarp-nfs3"] {
        let capture = samples::capture(sample);
        for networks in PAIRS {
            let found = carried(&capture, |packet| networks[(packet.number / 3 % 2) as usize]);
            assert_same(&found, &capture, &format!("{sample} {networks:?}"));
        }
    }
}
