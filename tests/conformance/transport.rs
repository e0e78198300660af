//! Triggers and tests of the reliable transport.

use crate::samples::is_new_violation;
use crate::{By, Trigger, shown};
use core::net::Ipv4Addr;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::mutate::{self, BTH, CLIENT, EXTENSION, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "packet-length",
        alteration: "the first RDMA READ request carries four bytes of payload",
        control: basic,
        alter: |capture| {
            let request = first(capture, SERVER, opcode::READ_REQUEST);
            let mut longer = request.data[EXTENSION..EXTENSION + 16].to_vec();
            longer.extend([0; 4]);
            request.set_after_bth(&longer);
        },
        also: &[],
        shows: shown(By::Responder, &[96], "4 bytes", "none"),
    },
    Trigger {
        rule: "packet-padding",
        alteration: "three bytes of padding follow the payload of the first call, which needs none",
        control: basic,
        alter: |capture| {
            let call = first(capture, CLIENT, opcode::SEND_ONLY);
            assert_eq!(call.payload().len() % 4, 0, "it needs none");
            let end = call.payload().end;
            call.data.splice(end..end, [0; 3]);
            call.original_length += 3;
            call.data[BTH + 1] |= 0x30;
            // The lengths of IP and UDP.
            for at in [16, 38] {
                let length = u16::from_be_bytes([call.data[at], call.data[at + 1]]) + 3;
                call.data[at..at + 2].copy_from_slice(&length.to_be_bytes());
            }
            call.seal();
        },
        also: &[],
        shows: shown(By::Requester, &[4], "3", "0"),
    },
    Trigger {
        rule: "packet-version",
        alteration: "the first acknowledgement has transport header version 1",
        control: basic,
        alter: |capture| change(first(capture, SERVER, opcode::ACKNOWLEDGE), BTH + 1, |byte| byte | 1),
        also: &[],
        shows: shown(By::Responder, &[5], "1", "0"),
    },
    Trigger {
        rule: "packet-partition-key",
        alteration: "the first acknowledgement has partition key 0xfffe",
        control: basic,
        alter: |capture| change(first(capture, SERVER, opcode::ACKNOWLEDGE), BTH + 3, |_| 0xfe),
        also: &[],
        shows: shown(By::Responder, &[5], "0x0000fffe", "0x0000ffff"),
    },
    Trigger {
        rule: "packet-order",
        alteration: "a SEND Middle without a preceding First comes before the disconnect",
        control: basic,
        alter: |capture| append(capture, CLIENT, 0x01, &[0; 1024]),
        also: &[],
        shows: shown(By::Requester, &[1621], "", ""),
    },
    Trigger {
        rule: "write-length",
        alteration: "the RETH of the first RDMA WRITE First names four bytes less than are sent",
        control: basic,
        alter: |capture| set_dma_length(capture, |length| length - 4),
        also: &[],
        shows: shown(By::Responder, &[1000], "3992 bytes", "3988 bytes"),
    },
    Trigger {
        rule: "operation-immediate",
        alteration: "the first call carries Immediate data",
        control: basic,
        alter: |capture| {
            let call = first(capture, CLIENT, opcode::SEND_ONLY);
            let bytes = call.data[call.payload()].to_vec();
            call.set_opcode(SEND_ONLY_WITH_IMMEDIATE);
            call.set_after_bth(&[&[0, 0, 0, 1], &bytes[..]].concat());
        },
        also: &[],
        shows: shown(By::Requester, &[4], "SEND Only with Immediate", ""),
    },
    Trigger {
        rule: "operation-foreign",
        alteration: "the first RDMA WRITE of one packet carries Immediate data",
        control: basic,
        alter: |capture| {
            let write = first(capture, SERVER, opcode::WRITE_ONLY);
            let payload = write.payload();
            let (reth, bytes) =
                (write.data[EXTENSION..EXTENSION + 16].to_vec(), write.data[payload].to_vec());
            write.set_opcode(WRITE_ONLY_WITH_IMMEDIATE);
            write.set_after_bth(&[&reth[..], &[0, 0, 0, 1], &bytes].concat());
        },
        also: &[],
        shows: shown(By::Responder, &[10], "RDMA WRITE Only with Immediate", ""),
    },
    Trigger {
        rule: "operation-foreign",
        alteration: "the client sends a FetchAdd in the middle of the session",
        control: basic,
        alter: |capture| {
            let at = capture.packets.len() / 2;
            crate::header::insert(capture, at, CLIENT, FETCH_ADD, &[0; 28]);
        },
        also: &[],
        shows: shown(By::Requester, &[813], "FetchAdd", ""),
    },
    Trigger {
        rule: "operation-foreign",
        alteration: "the client sends an ATOMIC WRITE in the middle of the session",
        control: basic,
        alter: |capture| {
            let at = capture.packets.len() / 2;
            crate::header::insert(capture, at, CLIENT, ATOMIC_WRITE, &[0; 24]);
        },
        also: &[],
        shows: shown(By::Requester, &[813], "ATOMIC WRITE", ""),
    },
    Trigger {
        rule: "packet-opcode",
        alteration: "the client sends a packet with the reserved opcode 0x1f in the middle of the session",
        control: basic,
        alter: |capture| {
            let at = capture.packets.len() / 2;
            crate::header::insert(capture, at, CLIENT, RESERVED, &[0; 24]);
        },
        also: &[],
        shows: shown(By::Requester, &[813], "0x0000001f", ""),
    },
    Trigger {
        rule: "dma-length",
        alteration: "the RETH of the first RDMA WRITE First names 2415919104 bytes",
        control: basic,
        alter: |capture| set_dma_length(capture, |_| 0x9000_0000),
        // No segment has that length.
        also: &["memory-segment-end"],
        shows: shown(By::Responder, &[997], "2415919104 bytes", "2147483648 bytes"),
    },
    Trigger {
        rule: "dma-nothing",
        alteration: "an RDMA WRITE Only of no bytes comes before the disconnect",
        control: basic,
        alter: |capture| append(capture, SERVER, opcode::WRITE_ONLY, &[0; 16]),
        also: &[],
        shows: shown(By::Responder, &[1621], "0 bytes", ""),
    },
    Trigger {
        rule: "read-response",
        alteration: "the first RDMA READ response First becomes a Last",
        control: basic,
        alter: |capture| {
            let response = first(capture, CLIENT, opcode::READ_RESPONSE_FIRST);
            change(response, BTH, |_| opcode::READ_RESPONSE_LAST);
        },
        also: &[],
        shows: shown(By::Requester, &[104], "1024 bytes", "20480 bytes"),
    },
    Trigger {
        rule: "read-response-unasked",
        alteration: "an RDMA READ response to the last reply comes before the disconnect",
        control: basic,
        alter: |capture| {
            let psn = next_psn(capture, SERVER) - 1;
            append(capture, CLIENT, opcode::READ_RESPONSE_ONLY, &[0x1f, 0, 0, 1, 0, 0, 0, 0]);
            let response = capture.packets.iter_mut().rfind(|packet| packet.is_response());
            let response = response.expect("it was appended");
            response.set_psn(psn);
            response.seal();
        },
        also: &[],
        shows: shown(By::Requester, &[1621], "", ""),
    },
    Trigger {
        rule: "read-depth",
        alteration: "the REQ has Responder Resources of one, and the session takes a thousand times as long",
        control: large,
        alter: |capture| {
            slow_down(capture);
            in_message(capture, attribute::REQ, |body| body[35] = 1);
        },
        also: &[],
        shows: shown(By::Responder, &[84, 111, 112], "28", "1"),
    },
    Trigger {
        rule: "acknowledgement-syndrome",
        alteration: "the first acknowledgement has the reserved syndrome 0x5f",
        control: basic,
        alter: |capture| change(first(capture, SERVER, opcode::ACKNOWLEDGE), EXTENSION, |_| 0x5f),
        also: &[],
        shows: shown(By::Responder, &[5], "0x0000005f", ""),
    },
    Trigger {
        rule: "acknowledgement-unsent",
        alteration: "the first acknowledgement has a PSN that is 1048576 ahead",
        control: basic,
        alter: |capture| {
            let acknowledgement = first(capture, SERVER, opcode::ACKNOWLEDGE);
            acknowledgement.set_psn(acknowledgement.psn() + (1 << 20));
            acknowledgement.seal();
        },
        also: &[],
        shows: shown(By::Responder, &[5], "", ""),
    },
    Trigger {
        rule: "acknowledgement-missing",
        alteration: "the last call is retransmitted four times, and nothing follows",
        control: basic,
        alter: |capture| {
            keep_until_last_call(capture);
            send_last_again(capture, 4);
        },
        also: &[],
        shows: shown(By::Nobody, &[1617, 1618, 1621], "4", ""),
    },
    Trigger {
        rule: "refusal-fatal",
        alteration: "the last acknowledgement, of a Send, is a NAK for a remote access error",
        control: basic,
        alter: |capture| set_last_syndrome(capture, 0x62),
        also: &[],
        shows: shown(By::Nobody, &[1617, 1618], "remote access error", ""),
    },
    Trigger {
        rule: "refusal-fatal",
        alteration: "the client answers an RDMA READ of memory that it did not advertise with a NAK for a remote access error",
        control: basic,
        alter: |capture| {
            let at = refuse_first_read(capture);
            let psn = capture.packets[at].psn();
            let is_refused =
                |packet: &&mut Packet| packet.opcode() == opcode::READ_REQUEST && packet.psn() == psn;
            let read = capture.packets[..at].iter_mut().find(is_refused);
            let read = read.expect("the server reads");
            let (address, rkey, length) = read.reth().expect("a request names memory");
            read.set_reth(address, rkey ^ 0x10, length);
            read.seal();
        },
        also: &["memory-advertised"],
        shows: shown(By::Responder, &[96, 104], "remote access error", ""),
    },
    Trigger {
        rule: "refusal-fatal",
        alteration: "the client answers an RDMA READ of memory that it advertised with a NAK for a remote access error",
        control: basic,
        alter: |capture| _ = refuse_first_read(capture),
        also: &[],
        shows: shown(By::Requester, &[94, 96, 104], "remote access error", ""),
    },
    Trigger {
        rule: "refusal-fatal",
        alteration: "the last acknowledgement is a NAK for a remote operational error, which a Send too long for its Receive causes too",
        control: basic,
        alter: |capture| set_last_syndrome(capture, 0x63),
        also: &[],
        shows: shown(By::Nobody, &[1617, 1618], "remote operational error", ""),
    },
    Trigger {
        rule: "refusal-not-ready",
        alteration: "the last acknowledgement is an RNR NAK",
        control: basic,
        alter: |capture| set_last_syndrome(capture, 0x21),
        also: &[],
        shows: shown(By::Responder, &[1618], "1", ""),
    },
    Trigger {
        rule: "refusal-sequence",
        alteration: "the last acknowledgement is a NAK for a PSN sequence error",
        control: basic,
        alter: |capture| set_last_syndrome(capture, 0x60),
        also: &[],
        shows: shown(By::Responder, &[1618], "1", ""),
    },
    Trigger {
        rule: "packet-icrc",
        alteration: "the last acknowledgement has a bad ICRC",
        control: basic,
        alter: |capture| {
            let packet = last(capture, SERVER, opcode::ACKNOWLEDGE);
            let end = packet.data.len() - 1;
            packet.data[end] ^= 1;
        },
        also: &[],
        shows: shown(By::Responder, &[1618], "1", ""),
    },
    Trigger {
        rule: "connection-broken",
        alteration: "the last acknowledgement is a NAK for a remote operational error",
        control: basic,
        alter: |capture| set_last_syndrome(capture, 0x63),
        also: &[],
        shows: None,
    },
];

/// Opcodes that RPC-over-RDMA does not use (IBTA volume 1, table 38).
const SEND_ONLY_WITH_IMMEDIATE: u8 = 0x05;
const WRITE_ONLY_WITH_IMMEDIATE: u8 = 0x0b;
const FETCH_ADD: u8 = 0x14;
const ATOMIC_WRITE: u8 = 0x1d;
/// An opcode of reliable connections that is reserved.
const RESERVED: u8 = 0x1f;

pub(crate) fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

fn large() -> Capture {
    samples::capture("nfs4.2-mtu4096-large-io")
}

/// The first packet from a host with this opcode.
pub(crate) fn first(capture: &mut Capture, sender: Ipv4Addr, opcode: u8) -> &mut Packet {
    let mut packets = capture.packets.iter_mut().filter(|packet| packet.is_rc());
    packets
        .find(|packet| packet.source() == sender && packet.opcode() == opcode)
        .expect("the session has one")
}

/// The last packet from a host with this opcode.
fn last(capture: &mut Capture, sender: Ipv4Addr, opcode: u8) -> &mut Packet {
    let mut packets = capture.packets.iter_mut().filter(|packet| packet.is_rc());
    packets
        .rfind(|packet| packet.source() == sender && packet.opcode() == opcode)
        .expect("the session has one")
}

/// Changes a byte and seals the packet.
fn change(packet: &mut Packet, at: usize, change: impl Fn(u8) -> u8) {
    packet.data[at] = change(packet.data[at]);
    packet.seal();
}

/// Changes the body of the CM messages of one kind.
pub(crate) fn in_message(capture: &mut Capture, attribute: u16, change: impl Fn(&mut [u8])) {
    mutate::each(capture, |packet| {
        if packet.cm_attribute() == Some(attribute) {
            change(packet.cm_body());
        }
    });
}

fn set_dma_length(capture: &mut Capture, change: impl Fn(u32) -> u32) {
    let write = first(capture, SERVER, opcode::WRITE_FIRST);
    let (address, rkey, length) = write.reth().expect("a First has one");
    write.set_reth(address, rkey, change(length));
    write.seal();
}

/// Changes the syndrome of the server's last acknowledgement.
fn set_last_syndrome(capture: &mut Capture, syndrome: u8) {
    change(last(capture, SERVER, opcode::ACKNOWLEDGE), EXTENSION, |_| syndrome);
}

/// The PSN after the last request of a host, which must take one PSN.
fn next_psn(capture: &Capture, sender: Ipv4Addr) -> u32 {
    let mut packets = capture.packets.iter().filter(|packet| packet.is_rc());
    let last = packets.rfind(|packet| packet.source() == sender && !packet.is_response());
    let last = last.expect("the session has requests");
    assert_ne!(last.opcode(), opcode::READ_REQUEST, "it takes up one PSN");
    (last.psn() + 1) % mutate::PSNS
}

/// Inserts the next request of a host before the disconnect.
fn append(capture: &mut Capture, sender: Ipv4Addr, opcode: u8, after_bth: &[u8]) {
    let psn = next_psn(capture, sender);
    let at = capture.packets.iter().position(|packet| packet.cm_attribute() == Some(attribute::DREQ));
    let at = at.expect("the session ends with a disconnect");
    let mut packet = last(capture, sender, opcode::SEND_ONLY).clone();
    packet.set_opcode(opcode);
    packet.set_psn(psn);
    packet.set_after_bth(after_bth);
    packet.time = capture.packets[at - 1].time;
    capture.packets.insert(at, packet);
    capture.renumber();
}

/// Ends the capture after the client's last call.
fn keep_until_last_call(capture: &mut Capture) {
    let is_call = |packet: &Packet| packet.starts_message() && packet.source() == CLIENT;
    let last = capture.packets.iter().rposition(is_call).expect("the session has calls");
    capture.packets.truncate(last + 1);
}

/// Repeats the last packet at intervals of half a second.
fn send_last_again(capture: &mut Capture, times: usize) {
    for _ in 0..times {
        let mut packet = capture.packets.last().expect("the session has packets").clone();
        packet.time += 500_000_000;
        capture.packets.push(packet);
    }
    capture.renumber();
}

/// Stretches time by a factor of 1000.
pub(crate) fn slow_down(capture: &mut Capture) {
    let begin = capture.packets[0].time;
    capture.packets.iter_mut().for_each(|packet| packet.time = begin + 1000 * (packet.time - begin));
}

/// The findings of one rule.
pub(crate) fn found(capture: &Capture, id: &str) -> Vec<Finding> {
    findings(capture).into_iter().filter(|finding| rule(finding).id == id).collect()
}

/// The findings of the rules on packets and connections.
fn about_transport(capture: &Capture) -> Vec<String> {
    const SUBJECTS: [&str; 8] = [
        "packet-",
        "write-length",
        "dma-",
        "read-",
        "acknowledgement-",
        "refusal-",
        "connection-",
        "private-data-",
    ];
    let all = findings(capture);
    let chosen = |finding: &&Finding| SUBJECTS.iter().any(|subject| rule(finding).id.starts_with(subject));
    all.iter().filter(chosen).map(line).collect()
}

#[test]
fn clean_sessions_give_no_transport_finding() {
    for sample in samples::MOUNTS.into_iter().filter(|sample| *sample != "nfs3-lossy") {
        assert_eq!(about_transport(&samples::capture(sample)), [""; 0], "{sample}");
    }
}

#[test]
fn loss_on_the_wire_is_one_finding() {
    // tshark (infiniband.aeth.syndrome.error_code) shows one NAK, in frame 2053.
    let lossy = samples::capture("nfs3-lossy");
    let naks = found(&lossy, "refusal-sequence");
    assert_eq!(naks.len(), 1, "{naks:?}");
    assert_eq!((naks[0].frames.as_slice(), naks[0].by_requester), ([2053].as_slice(), Some(true)));
    assert_eq!(about_transport(&lossy).len(), 1, "{:?}", about_transport(&lossy));
}

#[test]
fn psn_wrap_gives_no_transport_finding() {
    for sample in ["nfs4.1-basic", "nfs4.2-mtu4096-large-io"] {
        for sender in [CLIENT, SERVER] {
            let mut capture = samples::capture(sample);
            let begin = first(&mut capture, sender, opcode::SEND_ONLY).psn();
            // The wrap is in the middle of the bulk transfer.
            mutate::shift_psn(&mut capture, sender, mutate::PSNS - begin - 300);
            assert_eq!(about_transport(&capture), [""; 0], "{sample} {sender}");
        }
    }
}

#[test]
fn duplicate_or_reordered_packets_give_no_violation() {
    let capture = basic();
    let twice = mutate::repeat(&capture, Packet::is_rc);
    // Duplicates change frame numbers, so frames are not compared.
    let conclusive = |capture: &Capture| {
        let all = findings(capture);
        let certain = all.iter().filter(|finding| finding.verdict == Verdict::Certain);
        certain.map(|finding| (rule(finding).id, finding.message.clone())).collect::<Vec<_>>()
    };
    assert_eq!(conclusive(&twice), conclusive(&capture));
    for name in [opcode::WRITE_LAST, opcode::READ_RESPONSE_LAST] {
        let mut swapped = capture.clone();
        let is_last = |packet: &Packet| packet.is_rc() && packet.opcode() == name;
        let at = swapped.packets.iter().position(is_last).expect("the session has one");
        mutate::reorder(&mut swapped, at, at - 3);
        let violations: Vec<_> =
            findings(&swapped).iter().filter(|found| is_new_violation(found)).map(line).collect();
        assert_eq!(violations, [""; 0]);
    }
}

#[test]
fn wrong_packet_lengths_are_found() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, u8, Change); 4] = [
        ("a Middle one byte longer", opcode::WRITE_MIDDLE, |payload| payload.push(0)),
        ("a Middle four bytes shorter", opcode::WRITE_MIDDLE, |payload| payload.truncate(1020)),
        ("a First of half a path MTU", opcode::WRITE_FIRST, |payload| payload.truncate(16 + 512)),
        ("a Last of none", opcode::WRITE_LAST, |payload| payload.clear()),
    ];
    for (label, opcode, change) in cases {
        let mut capture = basic();
        let packet = first(&mut capture, SERVER, opcode);
        let mut bytes = packet.data[EXTENSION..packet.payload().end].to_vec();
        change(&mut bytes);
        packet.set_after_bth(&bytes);
        let (number, lengths) = (packet.number, found(&capture, "packet-length"));
        assert_eq!(lengths.len(), 1, "{label}: {lengths:?}");
        assert_eq!(
            (lengths[0].frames.as_slice(), lengths[0].verdict),
            ([number].as_slice(), Verdict::Certain)
        );
        // Without the REQ, the path MTU is a guess.
        let later = found(&mutate::without_cm(&capture), "packet-length");
        let certain = later.iter().filter(|finding| finding.verdict == Verdict::Certain).count();
        assert_eq!(certain, 0, "{label}: {later:?}");
    }
}

#[test]
fn incomplete_message_is_not_measured() {
    let mut capture = basic();
    set_dma_length(&mut capture, |length| length - 4);
    assert_eq!(found(&capture, "write-length").len(), 1);
    let middle = first(&mut capture, SERVER, opcode::WRITE_MIDDLE).number;
    let lacking = mutate::keep(&capture, |packet| packet.number != middle);
    assert_eq!(found(&lacking, "write-length").len(), 0);
}

#[test]
fn reads_within_the_limit_give_no_finding() {
    let mut capture = large();
    slow_down(&mut capture);
    assert_eq!(found(&capture, "read-depth").len(), 0, "128 are allowed");
    let with = |resources: u8| {
        let mut capture = capture.clone();
        in_message(&mut capture, attribute::REQ, |body| body[35] = resources);
        found(&capture, "read-depth")
    };
    let one = with(1);
    assert_eq!(one.len(), 1, "once for each end: {one:?}");
    let most = (2..=128).find(|resources| with(*resources).is_empty()).expect("128 are enough");
    assert_eq!(with(most - 1).len(), 1);
    assert!(most < 128, "{most}");
}

#[test]
fn missing_acknowledgement_is_conclusive_from_three_retries() {
    for (times, verdict) in [(1, None), (2, Some(Verdict::Inconclusive)), (3, Some(Verdict::Certain))] {
        let mut capture = basic();
        keep_until_last_call(&mut capture);
        send_last_again(&mut capture, times);
        for id in ["acknowledgement-missing", "connection-broken"] {
            let found = found(&capture, id);
            let verdicts: Vec<Verdict> = found.iter().map(|finding| finding.verdict).collect();
            assert_eq!(verdicts, Vec::from_iter(verdict), "{id} {times}");
        }
    }
}

/// A sender that goes back retransmits everything from there on: the packet that it goes back to is
/// the unacknowledged one.
#[test]
fn missing_acknowledgement_names_the_psn_of_the_retransmission() {
    let mut capture = basic();
    keep_until_last_call(&mut capture);
    let call = capture.packets.last().expect("a call").clone();
    let mut next = call.clone();
    next.set_psn((call.psn() + 1) % mutate::PSNS);
    mutate::change_message(&mut next, |next| {
        next.xid += 1;
        next.set_word(0, next.xid);
    });
    capture.packets.push(next.clone());
    for time in 1..=3 {
        for packet in [&call, &next] {
            capture.packets.push(Packet { time: packet.time + 500_000_000 * time, ..packet.clone() });
        }
    }
    capture.renumber();
    let count = capture.packets.len() as u64;
    let found = found(&capture, "acknowledgement-missing");
    let [finding] = &found[..] else { panic!("one finding: {found:?}") };
    assert_eq!(finding.frames, [count - 7, count - 5, count - 1]);
    let expected = format!(
        "PSN {} of the Requester was retransmitted 3 times within 1000 ms and never acknowledged",
        call.psn()
    );
    assert_eq!(finding.message, expected);
    assert_eq!((finding.by_requester, finding.verdict), (None, Verdict::Certain));
}

/// An end that waits for an earlier PSN does not acknowledge the request, and is not at fault.
#[test]
fn request_after_a_gap_needs_no_acknowledgement() {
    let mut capture = basic();
    keep_until_last_call(&mut capture);
    let call = capture.packets.last().expect("a call").clone();
    let is_acknowledgement =
        |packet: &&Packet| packet.source() == SERVER && packet.opcode() == opcode::ACKNOWLEDGE;
    let mut nak = capture.packets.iter().rfind(is_acknowledgement).expect("there is one").clone();
    nak.set_psn(call.psn());
    nak.data[EXTENSION] = 0x60;
    nak.time = call.time + 1000;
    nak.seal();
    let late = capture.packets.last_mut().expect("a call");
    late.set_psn((call.psn() + 3) % mutate::PSNS);
    late.seal();
    let late = late.clone();
    capture.packets.push(nak);
    capture.packets.push(Packet { time: late.time + 500_000_000, ..late });
    send_last_again(&mut capture, 3);
    let found = found(&capture, "acknowledgement-missing");
    let [finding] = &found[..] else { panic!("one finding: {found:?}") };
    assert_eq!((finding.by_requester, finding.verdict), (None, Verdict::Certain));
    assert!(finding.message.ends_with(&format!("waits for PSN {}", call.psn())), "{}", finding.message);
}

/// An earlier retransmission that was acknowledged does not hide that.
#[test]
fn acknowledged_retransmission_is_not_counted() {
    let mut capture = basic();
    let early = first(&mut capture, CLIENT, opcode::SEND_ONLY).number;
    let mut capture = mutate::repeat(&capture, |packet| packet.number == early);
    keep_until_last_call(&mut capture);
    send_last_again(&mut capture, 3);
    let last = capture.packets.len() as u64;
    let found = found(&capture, "acknowledgement-missing");
    let [finding] = &found[..] else { panic!("one finding: {found:?}") };
    assert_eq!(finding.frames, [last - 3, last - 2, last]);
    assert_eq!(finding.verdict, Verdict::Certain);
}

/// A finding about many NAKs names the first ones and the last one.
#[test]
fn rnr_naks_are_counted_in_one_finding() {
    let mut capture = basic();
    let mut naks = Vec::new();
    for packet in &mut capture.packets {
        if packet.source() == SERVER && packet.is_rc() && packet.opcode() == opcode::ACKNOWLEDGE {
            change(packet, EXTENSION, |_| 0x21);
            naks.push(packet.number);
        }
    }
    let found = found(&capture, "refusal-not-ready");
    let [finding] = &found[..] else { panic!("one finding: {found:?}") };
    assert_eq!(finding.message, format!("{} RNR NAKs, the first in frame {}", naks.len(), naks[0]));
    let (last, named) = finding.frames.split_last().expect("it has frames");
    assert_eq!((named, Some(last)), (&naks[..named.len()], naks.last()));
    assert_eq!(finding.frames.len(), rdmascope_conformance::Finding::MOST_FRAMES);
}

#[test]
fn broken_connection_lists_its_events_in_order() {
    let mut capture = basic();
    keep_until_last_call(&mut capture);
    send_last_again(&mut capture, 3);
    let original = capture.packets[capture.packets.len() - 4].number;
    let mut nak = first(&mut basic(), SERVER, opcode::ACKNOWLEDGE).clone();
    let call = capture.packets.last().expect("a call").clone();
    nak.set_psn(call.psn());
    nak.data[EXTENSION] = 0x62;
    nak.seal();
    nak.time = call.time + 1;
    let disconnect =
        basic().packets.iter().rfind(|packet| packet.cm_attribute() == Some(attribute::DREQ)).cloned();
    let mut disconnect = disconnect.expect("the session has one");
    disconnect.time = nak.time + 1;
    capture.packets.extend([nak, disconnect]);
    capture.renumber();
    let found = found(&capture, "connection-broken");
    assert_eq!(found.len(), 1, "{found:?}");
    let (message, last) = (&found[0].message, capture.packets.len() as u64);
    let parts = [
        "with 1 call outstanding".to_owned(),
        "ConnectRequest by the Requester (frame 1)".to_owned(),
        format!("retransmitted by the Requester 3 times (frames {} to {})", original + 1, original + 3),
        format!(
            "the Responder refuses the request of frame {original}: remote access error (frame {})",
            last - 1
        ),
        format!("DisconnectRequest by the Requester (frame {last})"),
    ];
    let at: Vec<_> = parts.iter().map(|part| message.find(part.as_str())).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{message}");
    assert!(found[0].frames.contains(&original) && found[0].frames.contains(&last));
}

/// Replaces the first response to an RDMA READ by a NAK for a remote access error, which ends the
/// capture. Returns its index.
fn refuse_first_read(capture: &mut Capture) -> usize {
    let is_answer = |packet: &Packet| packet.is_rc() && packet.opcode() == opcode::READ_RESPONSE_FIRST;
    let at = capture.packets.iter().position(is_answer).expect("the server reads");
    capture.packets[at].set_opcode(opcode::ACKNOWLEDGE);
    capture.packets[at].set_after_bth(&[0x62, 0, 0, 1]);
    capture.packets.truncate(at + 1);
    at
}

/// A NAK is no evidence against the sender of an RDMA operation if the capture may lack the call that
/// advertised its memory.
#[test]
fn refused_operation_blames_nobody_if_a_call_is_missing() {
    let mut capture = basic();
    refuse_first_read(&mut capture);
    let call = capture.packets[..94].iter().rposition(|packet| packet.xid().is_some()).expect("a call");
    capture.packets.remove(call);
    capture.renumber();
    let found = found(&capture, "refusal-fatal");
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(finding.by, None, "{finding:?}");
}
