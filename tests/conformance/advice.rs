//! Triggers and tests of the advice on performance.

use crate::{By, Trigger, chunks, credits, shown};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, Message, SERVER, attribute};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::{judged, samples};

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "advice-reply-chunk",
        alteration: "an OPEN whose reply would fit inline is made 20 times",
        control: recall,
        alter: |capture| {
            let open = nth_with_chunk(capture, has_reply_chunk, 2);
            mutate::again(capture, open, 19);
        },
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "advice-write-chunk",
        alteration: "a READ beyond the end of a short file is made 20 times",
        control: recall,
        alter: |capture| {
            let read = nth_with_chunk(capture, has_write_chunk, 0);
            mutate::again(capture, read, 19);
        },
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "advice-call-over-threshold",
        alteration: "a call gets a tag that makes it 1152 bytes long with an inline threshold of 1024, is \
            sent as a Long Call, and is made 16 times",
        control: with_small_thresholds,
        alter: |capture| lengthen(capture, 1152, 15),
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "advice-small-transfers",
        alteration: "a READ of 4096 bytes is made 64 times, each at the end of the previous one",
        control: before_larger_reads,
        alter: |capture| read_on(capture, 63, 4096),
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "advice-retransmission",
        alteration: "the last 20 packets of the server are sent again 5 ms later",
        control: recall,
        alter: |capture| repeat_last(capture, 20, 5_000_000),
        also: &[],
        // Most of them were acknowledged seconds earlier.
        shows: shown(
            By::Responder,
            &[180, 181, 182, 183, 184, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195],
            "5000000 ns",
            "",
        ),
    },
    Trigger {
        rule: "advice-slow-server",
        alteration: "the session takes 20 times as long",
        control: basic,
        alter: |capture| {
            let start = capture.packets[0].time;
            capture.packets.iter_mut().for_each(|packet| packet.time = start + (packet.time - start) * 20);
        },
        also: &[],
        shows: None,
    },
];

fn recall() -> Capture {
    samples::capture("nfs4.1-backchannel-recall")
}

fn basic() -> Capture {
    samples::capture("nfs4.2-basic")
}

/// A session at a path MTU of 4096 with inline thresholds of 1024 bytes.
fn with_small_thresholds() -> Capture {
    let mut capture = samples::capture("nfs4.2-mtu4096-large-io");
    mutate::each(&mut capture, |packet| {
        // In a REQ the private data follows the RDMA-CM IP header of 36 bytes. The sizes are its
        // last two bytes, in units of 1024 bytes, less one.
        let at = match packet.cm_attribute() {
            Some(attribute::REQ) => 140 + 36,
            Some(attribute::REP) => 36,
            _ => return,
        };
        packet.cm_body()[at + 6..at + 8].fill(0);
    });
    capture
}

/// Gives a COMPOUND a tag so that the Send has `length` bytes with empty chunk lists, turns it into
/// a Long Call, and repeats it.
fn lengthen(capture: &mut Capture, length: usize, times: u32) {
    let packets = &capture.packets;
    let calls: Vec<usize> = (0..packets.len())
        .filter(|at| packets[*at].source() == CLIENT && packets[*at].starts_message())
        .collect();
    // A call that overlaps no other, with a reply that is one Send without chunks.
    let alone = |pair: &&[usize]| {
        let between = &packets[pair[0]..pair[1]];
        let requests = between.iter().filter(|packet| packet.source() == SERVER && !packet.is_response());
        let lists_nothing = |packet: &Packet| {
            let start = packet.payload().start;
            packet.starts_message() && packet.data[start + 12..start + 28].iter().all(|byte| *byte == 0)
        };
        lists_nothing(between.first().expect("the call"))
            && requests.clone().count() == 1
            && requests.clone().all(lists_nothing)
    };
    let [at, _] = calls.windows(2).skip(8).find(alone).expect("the session has such a call")[..] else {
        unreachable!()
    };
    let call = &mut capture.packets[at];
    let payload = call.payload();
    let mut bytes = call.data[EXTENSION..payload.end].to_vec();
    // The empty tag follows the header, the RPC header and AUTH_SYS with its empty verifier.
    let rpc = payload.start + 28;
    let tag = rpc + 32 + call.u32(rpc + 28).next_multiple_of(4) as usize + 8;
    assert_eq!(call.u32(tag), 0);
    let more = length - bytes.len();
    bytes[tag - EXTENSION..tag - EXTENSION + 4].copy_from_slice(&(more as u32).to_be_bytes());
    let after = tag - EXTENSION + 4;
    bytes.splice(after..after, core::iter::repeat_n(b'x', more));
    call.set_after_bth(&bytes);
    let xid = call.xid().expect("it begins a message");
    mutate::make_long_call(capture, at, true);
    mutate::again(capture, xid, times);
}

/// Whether a call has a Write chunk, from its chunk lists. Calls with several chunks are not
/// supported.
fn has_write_chunk(packet: &Packet) -> bool {
    let word = |at: usize| packet.u32(packet.payload().start + at);
    word(16) == 0 && word(20) == 1
}

fn has_reply_chunk(packet: &Packet) -> bool {
    let word = |at: usize| packet.u32(packet.payload().start + at);
    word(16) == 0 && word(20) == 0 && word(24) == 1
}

/// The XID of the first READ of nfs3-basic. It has 4096 bytes.
const READ: u32 = 0xce39_6a62;

/// The first packets of nfs3-basic, up to the first larger READ.
fn before_larger_reads() -> Capture {
    let mut capture = samples::capture("nfs3-basic");
    let is_larger =
        |packet: &Packet| packet.xid() != Some(READ) && packet.starts_message() && has_write_chunk(packet);
    let first = capture.packets.iter().rposition(|packet| packet.xid() == Some(READ)).expect("its reply");
    let larger = capture.packets[first..].iter().position(is_larger).expect("a larger READ");
    capture.packets.truncate(first + larger);
    capture
}

/// Repeats a READ, and moves each repetition on by `step` bytes.
fn read_on(capture: &mut Capture, times: u32, step: u64) {
    let before: Vec<_> = capture.packets.iter().map(Packet::xid).collect();
    mutate::again(capture, READ, times);
    let is_new = |packet: &&mut Packet| {
        packet.source() == CLIENT && packet.starts_message() && !before.contains(&packet.xid())
    };
    for (nth, call) in capture.packets.iter_mut().filter(is_new).enumerate() {
        // The arguments end with offset and count.
        let end = call.payload().end - EXTENSION;
        let mut bytes = call.data[EXTENSION..call.payload().end].to_vec();
        bytes[end - 12..end - 4].copy_from_slice(&(step * (nth as u64 + 1)).to_be_bytes());
        call.set_after_bth(&bytes);
    }
}

/// The XID of the nth call for which `has` holds.
fn nth_with_chunk(capture: &Capture, has: fn(&Packet) -> bool, nth: usize) -> u32 {
    let calls = capture.packets.iter().filter(|packet| packet.source() == CLIENT && packet.starts_message());
    let call = calls.filter(|packet| has(packet)).nth(nth).expect("the session has one");
    call.xid().expect("it begins a message")
}

/// The XID of a READ whose reply fills its Write chunk.
fn full_read(capture: &Capture) -> u32 {
    let room = |packet: &Packet| {
        let message = Message::of(packet);
        message.writes.iter().flatten().map(|segment| segment.length).sum::<u32>()
    };
    let messages = |host| {
        let sent =
            capture.packets.iter().filter(move |packet| packet.source() == host && packet.starts_message());
        sent.filter(|packet| packet.opcode() != mutate::opcode::SEND_FIRST)
    };
    let fills = |call: &&Packet| {
        room(call) > 0 && messages(SERVER).any(|reply| reply.xid() == call.xid() && room(reply) == room(call))
    };
    messages(CLIENT).find(fills).and_then(Packet::xid).expect("the session has one")
}

/// Sends the server's last requests again before the disconnect, `later` nanoseconds later.
fn repeat_last(capture: &mut Capture, count: usize, later: i64) {
    let is_request = |packet: &&Packet| packet.is_rc() && packet.source() == SERVER && !packet.is_response();
    let requests: Vec<Packet> = capture.packets.iter().filter(is_request).cloned().collect();
    let after = capture.packets.iter().rposition(Packet::is_rc).expect("there are some") + 1;
    let last = capture.packets[after - 1].time;
    let copies = requests[requests.len() - count..]
        .iter()
        .cloned()
        .map(|packet| Packet { time: last + later, ..packet });
    capture.packets.splice(after..after, copies.collect::<Vec<_>>());
    capture.packets[after + count..].iter_mut().for_each(|packet| packet.time += later);
    capture.renumber();
}

/// The messages of the findings of one rule.
fn messages(capture: &Capture, id: &str) -> Vec<String> {
    let findings = judged::findings(capture);
    findings
        .iter()
        .filter(|finding| judged::rule(finding).id == id)
        .map(|finding| finding.message.clone())
        .collect()
}

fn altered(id: &str) -> Capture {
    let trigger = TRIGGERS.iter().find(|trigger| trigger.rule == id).unwrap();
    let mut capture = (trigger.control)();
    (trigger.alter)(&mut capture);
    capture
}

#[test]
fn unneeded_reply_chunk_is_reported_with_its_cost() {
    // The client's trace has 5 OPENs: 4 with a Reply chunk of 7184 bytes, one of 7044. With 19 more
    // of the former, the total is 172,276 bytes.
    let expected = "24 of 24 OPEN replies did not need their Reply chunk of 7178 bytes on average, and 24 of them still used RDMA Write: \
        24 registrations of 168.2 KiB in total";
    assert_eq!(messages(&altered("advice-reply-chunk"), "advice-reply-chunk"), [expected]);
    let with = |times| {
        let mut capture = recall();
        let open = nth_with_chunk(&capture, has_reply_chunk, 2);
        mutate::again(&mut capture, open, times);
        messages(&capture, "advice-reply-chunk").len()
    };
    assert_eq!((with(10), with(11)), (0, 1), "16 are reported, 15 are not");
    // At inline thresholds of 1024 bytes the replies fit too. If the capture lacks the thresholds,
    // they are unknown.
    let later = mutate::without_cm(&altered("advice-reply-chunk"));
    assert!(messages(&later, "advice-reply-chunk").is_empty());
}

#[test]
fn empty_write_chunks_are_reported_by_operation() {
    // 5 READs of 4096 bytes each; one of them is made 20 times.
    let expected = "24 of 24 READ replies left half or more of their Write chunks unused: 95.9 KiB of 96.0 KiB registered";
    assert_eq!(messages(&altered("advice-write-chunk"), "advice-write-chunk"), [expected]);
    // READs that return all requested bytes.
    let mut capture = samples::capture("nfs4.1-basic");
    let read = nth_with_chunk(&capture, has_write_chunk, 0);
    mutate::again(&mut capture, read, 30);
    assert!(messages(&capture, "advice-write-chunk").is_empty());
    // If the capture lacks the lists of a reply, its chunks do not count as unused.
    for snap_length in (60..160).step_by(4) {
        let cut = mutate::cut(&capture, snap_length);
        assert!(messages(&cut, "advice-write-chunk").is_empty(), "{snap_length}");
    }
}

#[test]
fn calls_up_to_a_quarter_over_the_threshold_are_reported() {
    let over = |length, times| {
        let mut capture = with_small_thresholds();
        lengthen(&mut capture, length, times);
        messages(&capture, "advice-call-over-threshold")
    };
    let expected = "16 calls of 1152 bytes on average used RDMA Read, which took 0.00 ms: an inline threshold of 2048 bytes instead of \
        1024 avoids that";
    assert_eq!(over(1152, 15), [expected]);
    assert!(over(1152, 14).is_empty(), "15 are not reported");
    assert_eq!((over(1024, 15).len(), over(1028, 15).len()), (0, 1));
    assert_eq!((over(1280, 15).len(), over(1284, 15).len()), (1, 0));
}

/// READs that are not next to each other may be random, and a larger one shows that the client is not
/// limited.
#[test]
fn parts_of_larger_transfers_are_reported() {
    let with = |times, step, mut capture: Capture| {
        read_on(&mut capture, times, step);
        messages(&capture, "advice-small-transfers")
    };
    let expected = "64 of 64 READs have 4096 bytes, which none exceeds, and 63 of them are next to another one: rsize of the mount may be \
        this small, or the application may do direct I/O of this size";
    assert_eq!(with(63, 4096, before_larger_reads()), [expected]);
    assert!(with(62, 4096, before_larger_reads()).is_empty(), "63 are not reported");
    assert!(with(63, 8192, before_larger_reads()).is_empty());
    assert!(with(63, 4096, samples::capture("nfs3-basic")).is_empty());
}

#[test]
fn duplicate_packets_are_no_retransmissions() {
    let twice = mutate::repeat(&recall(), |_| true);
    assert!(messages(&twice, "advice-retransmission").is_empty());
    let mut capture = recall();
    repeat_last(&mut capture, 15, 5_000_000);
    assert!(messages(&capture, "advice-retransmission").is_empty(), "15 are not reported");
}

/// Retransmitted packets are reported from 16 on, and RNR NAKs as well.
#[test]
fn sixteen_retransmissions_or_rnr_naks_are_reported() {
    let mut capture = recall();
    repeat_last(&mut capture, 16, 5_000_000);
    assert_eq!(messages(&capture, "advice-retransmission").len(), 1);
    let refused = |count: usize| {
        let mut capture = basic();
        (0..count).for_each(|nth| credits::refuse(&mut capture, CLIENT, nth + 8));
        let found = judged::findings(&capture).into_iter();
        found.filter(|finding| judged::rule(finding).id == "advice-retransmission").collect::<Vec<_>>()
    };
    assert!(refused(15).is_empty());
    let [finding] = &refused(16)[..] else { panic!("one finding") };
    assert_eq!((By::of(finding), finding.frames.len()), (By::Requester, 16));
    assert!(finding.message.contains("RNR NAKs: 16"), "{}", finding.message);
}

/// Unused chunks are reported if half of the replies leave them unused, and not if fewer do.
#[test]
fn unused_chunks_are_reported_if_most_replies_have_them() {
    let with = |wasteful: u32, useful: u32| {
        let mut capture = samples::capture("nfs4.1-basic");
        // Much longer than all other chunks.
        let idle = chunks::READ_OF_SIX;
        chunks::change_call(&mut capture, idle, |call| call.writes[0][0].length = 1 << 20);
        mutate::again(&mut capture, idle, wasteful - 1);
        let full = full_read(&capture);
        mutate::again(&mut capture, full, useful - 1);
        messages(&capture, "advice-write-chunk")
    };
    let found = with(20, 10);
    assert!(found.len() == 1 && found[0].starts_with("20 of "), "{found:?}");
    assert!(with(20, 40).is_empty());
}

/// If a call was lost and sent again, the server is not responsible for the time until its reply.
#[test]
fn retransmitted_calls_are_not_evidence_of_a_slow_server() {
    let reports = |is_sent_again: fn(usize) -> bool| {
        let mut capture = altered("advice-slow-server");
        let is_call = |packet: &&Packet| packet.starts_message() && packet.source() == CLIENT;
        let calls: Vec<Packet> = capture.packets.iter().filter(is_call).cloned().collect();
        for (_, call) in calls.into_iter().enumerate().filter(|(nth, _)| is_sent_again(*nth)) {
            let is_reply = |packet: &Packet| packet.source() == SERVER && packet.xid() == call.xid();
            let Some(reply) = capture.packets.iter().position(is_reply) else { continue };
            let once = Capture { link: capture.link, packets: vec![call] };
            let again = mutate::repeat(&once, |_| true).packets.pop().expect("it was repeated");
            let time = capture.packets[reply].time - 1_000;
            capture.packets.insert(reply, Packet { time, ..again });
        }
        capture.renumber();
        messages(&capture, "advice-slow-server").len()
    };
    assert_eq!(reports(|_| false), 1);
    assert_eq!(reports(|nth| nth % 40 == 9), 1, "the server is responsible for most calls");
    assert_eq!(reports(|nth| nth % 3 != 0), 0, "the rest is unknown");
    assert_eq!(reports(|_| true), 0);
}

#[test]
fn retransmissions_of_the_lossy_session_are_by_the_server() {
    let findings = judged::findings(&samples::capture("nfs3-lossy"));
    let found: Vec<_> =
        findings.iter().filter(|finding| judged::rule(finding).id == "advice-retransmission").collect();
    let [finding] = found[..] else { panic!("{found:#?}") };
    assert_eq!(finding.by_requester, Some(false));
    assert!(finding.message.contains("NAKs: 1,"), "{}", finding.message);
}

#[test]
fn busy_wire_is_not_a_slow_server() {
    // 8 concurrent WRITEs: each waits mostly for the RDMA Reads of the others.
    let large = samples::capture("nfs4.2-mtu4096-large-io");
    assert!(messages(&large, "advice-slow-server").is_empty());
    // Time on the wire that the capture lacks is not the server's either.
    for snap_length in [128, 160, 200] {
        assert!(
            messages(&mutate::cut(&large, snap_length), "advice-slow-server").is_empty(),
            "{snap_length}"
        );
    }
    let calls = large.packets.iter().filter(|packet| packet.source() == CLIENT && packet.starts_message());
    let others = large.packets.iter().step_by(11);
    for lost in calls.chain(others).map(|packet| packet.number) {
        let rest = mutate::keep(&large, |packet| packet.number != lost);
        assert!(messages(&rest, "advice-slow-server").is_empty(), "without {lost}");
    }
}
