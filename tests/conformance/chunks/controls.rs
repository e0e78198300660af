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

fn assert_no_finding(label: &str, capture: &Capture) {
    let found: Vec<String> =
        findings(capture).iter().filter(|finding| is_about_chunks(finding)).map(line).collect();
    assert!(found.is_empty(), "{label}: {found:#?}");
}

#[test]
fn unusual_but_correct_chunks_give_no_finding() {
    for control in [basic, large, version_3] {
        let capture = control();
        for (end, kind) in [(SERVER, opcode::WRITE_FIRST), (CLIENT, opcode::SEND_ONLY)] {
            let is_wanted = |packet: &&rdmascope_tests::pcap::Packet| {
                packet.is_rc() && packet.source() == end && packet.opcode() == kind
            };
            let first = capture.packets.iter().filter(is_wanted).nth(3).expect("the session has several");
            let mut wrapped = capture.clone();
            mutate::shift_psn(&mut wrapped, end, 2 * PSNS - 1 - first.psn());
            assert_no_finding("a PSN wrap", &wrapped);
        }

        let is_write = |packet: &rdmascope_tests::pcap::Packet| {
            packet.is_rc() && (opcode::WRITE_FIRST..=opcode::WRITE_ONLY).contains(&packet.opcode())
        };
        assert_no_finding("every RDMA WRITE twice", &mutate::repeat(&capture, is_write));
        assert_no_finding("every packet twice", &mutate::repeat(&capture, |_| true));
        assert_no_finding("no CM", &mutate::without_cm(&capture));

        let first = capture
            .packets
            .iter()
            .position(|packet| is_write(packet) && packet.opcode() == opcode::WRITE_FIRST);
        let first = first.expect("the session has a long RDMA WRITE");
        let last = capture.packets[first..].iter().position(|packet| packet.opcode() == opcode::WRITE_LAST);
        let mut moved = capture.clone();
        mutate::reorder(&mut moved, first + last.expect("it has an end"), first);
        assert_no_finding("a LAST before its FIRST", &moved);

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
fn concurrent_connections_give_no_finding() {
    let mut second = large();
    mutate::readdress(&mut second, CLIENT, core::net::Ipv4Addr::new(10, 77, 0, 9));
    mutate::change_communication_ids(&mut second, 0x0f0f_0f0f);
    assert_no_finding("two clients", &mutate::merge(&large(), &second));
}
