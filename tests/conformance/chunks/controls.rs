//! Unusual but correct chunks.

use super::{basic, large, version_3};
use rdmascope_conformance::Finding;
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::mutate::{self, CLIENT, PSNS, SERVER, opcode};
use rdmascope_tests::pcap::Capture;

/// The rules of this subject.
fn is_about_chunks(finding: &Finding) -> bool {
    [
        "read-chunk",
        "write-chunk",
        "returned-chunk",
        "reply-chunk",
        "reduced-",
        "long-message",
        "chunk-",
        "binding-",
    ]
    .iter()
    .any(|prefix| rule(finding).id.starts_with(prefix))
}

fn raises_nothing(what: &str, capture: &Capture) {
    let found: Vec<String> =
        findings(capture).iter().filter(|finding| is_about_chunks(finding)).map(line).collect();
    assert!(found.is_empty(), "{what}: {found:#?}");
}

#[test]
fn controls_raise_nothing() {
    for control in [basic, large, version_3] {
        let capture = control();
        for (end, kind) in [(SERVER, opcode::WRITE_FIRST), (CLIENT, opcode::SEND_ONLY)] {
            let is_it = |packet: &&rdmascope_tests::pcap::Packet| {
                packet.is_rc() && packet.source() == end && packet.opcode() == kind
            };
            let first = capture.packets.iter().filter(is_it).nth(3).expect("the session has several");
            let mut wrapped = capture.clone();
            mutate::shift_psn(&mut wrapped, end, 2 * PSNS - 1 - first.psn());
            raises_nothing("a PSN wrap", &wrapped);
        }

        let is_write = |packet: &rdmascope_tests::pcap::Packet| {
            packet.is_rc() && (opcode::WRITE_FIRST..=opcode::WRITE_ONLY).contains(&packet.opcode())
        };
        raises_nothing("every RDMA WRITE twice", &mutate::repeat(&capture, is_write));
        raises_nothing("every packet twice", &mutate::repeat(&capture, |_| true));
        raises_nothing("no CM", &mutate::without_cm(&capture));

        let first = capture
            .packets
            .iter()
            .position(|packet| is_write(packet) && packet.opcode() == opcode::WRITE_FIRST);
        let first = first.expect("the session has a long RDMA WRITE");
        let last = capture.packets[first..].iter().position(|packet| packet.opcode() == opcode::WRITE_LAST);
        let mut moved = capture.clone();
        mutate::reorder(&mut moved, first + last.expect("it has an end"), first);
        raises_nothing("a LAST before its FIRST", &moved);

        // Consecutive calls use the same handles. Offsets differ in their upper half, which is the
        // XID.
        let mut reused = capture.clone();
        mutate::rename_memory(&mut reused, |handle, offset| (handle & 0xff00_000f, offset));
        let found: Vec<String> = findings(&reused)
            .iter()
            .filter(|finding| is_about_chunks(finding) && rule(finding).id != "chunk-memory-handle")
            .map(line)
            .collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn many_connections_at_once_raise_nothing() {
    let mut second = large();
    mutate::readdress(&mut second, CLIENT, core::net::Ipv4Addr::new(10, 77, 0, 9));
    mutate::change_communication_ids(&mut second, 0x0f0f_0f0f);
    raises_nothing("two clients", &mutate::merge(&large(), &second));
}
