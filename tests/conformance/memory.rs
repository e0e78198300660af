//! Triggers and tests of RDMA memory.

use crate::{By, Trigger, shown};
use rdmascope_conformance::{Finding, Value, Verdict};
use rdmascope_tests::judged::{findings, line, rule};
use rdmascope_tests::mutate::{self, CLIENT, EXTENSION, SERVER, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "memory-advertised",
        alteration: "before a reply the server writes once more, to a handle that was not advertised",
        control: basic,
        alter: |capture| {
            write_again(capture, 0, |(address, rkey, length)| (address, rkey + 0x10_0000, length));
        },
        also: &[],
        shows: shown(By::Responder, &[11], "0x00103240", ""),
    },
    Trigger {
        rule: "memory-segment-end",
        alteration: "before a reply the server writes once more, starting at the last four bytes of the \
            Reply chunk",
        control: basic,
        alter: |capture| {
            let end = end_of_reply_chunk(capture);
            write_again(capture, 0, |(_, rkey, length)| (end - 4, rkey, length));
        },
        also: &[],
        shows: shown(By::Responder, &[11], "100 bytes", "4 bytes"),
    },
    Trigger {
        rule: "memory-direction",
        alteration: "the server writes into a Read chunk that it is reading",
        control: bulk,
        alter: |capture| {
            let read = index_of(capture, |packet| packet.opcode() == opcode::READ_REQUEST);
            let (address, rkey, _) = capture.packets[read].reth().expect("a request has it");
            let mut write = first_write(capture).clone();
            write.set_reth(address, rkey, write.payload().len() as u32);
            mutate::insert_request(capture, read + 1, write, 1);
        },
        also: &[],
        shows: shown(By::Responder, &[97], "RDMA Write", "RDMA Read"),
    },
    Trigger {
        rule: "memory-after-reply",
        alteration: "after the reply the server repeats an RDMA Write with the next PSN",
        control: basic,
        alter: |capture| {
            write_again(capture, 1, |reth| reth);
        },
        also: &[],
        shows: shown(By::Responder, &[11, 12], "", ""),
    },
    Trigger {
        rule: "memory-after-done",
        alteration: "the client reads the reply once more after RDMA_DONE",
        control: pulled,
        alter: |capture| {
            let request = index_of(capture, |packet| packet.opcode() == opcode::READ_REQUEST);
            let response = index_of(capture, |packet| packet.opcode() == opcode::READ_RESPONSE_ONLY);
            let done = index_of(capture, is_done);
            let (request, response) = (capture.packets[request].clone(), capture.packets[response].clone());
            pull(capture, done + 1, request, response);
        },
        also: &[],
        shows: shown(By::Requester, &[13, 14], "", ""),
    },
    Trigger {
        rule: "memory-after-invalidation",
        alteration: "a reply invalidates the handle of another call, whose Reply chunk is written later",
        control: side_by_side,
        alter: |capture| {
            let handle = handle_of(capture, SLOW);
            let reply = middle_reply(capture);
            capture.packets[reply].set_ieth(handle);
            capture.packets[reply].seal();
        },
        // The handle does not belong to that reply's call.
        also: &["invalidation-handle"],
        shows: shown(By::Responder, &[9, 104, 132], "", ""),
    },
    Trigger {
        rule: "memory-written",
        alteration: "the server does not write the Reply chunk",
        control: basic,
        alter: |capture| {
            let write = index_of(capture, |packet| packet.opcode() == opcode::WRITE_ONLY);
            mutate::remove_request(capture, write);
        },
        also: &[],
        shows: shown(By::Responder, &[8, 10], "0 bytes", "100 bytes"),
    },
    Trigger {
        rule: "memory-read",
        alteration: "the server does not read the first part of the Read chunk of a WRITE that succeeds",
        control: bulk,
        alter: |capture| {
            let read = index_of(capture, |packet| packet.opcode() == opcode::READ_REQUEST);
            mutate::remove_request(capture, read);
        },
        also: &[],
        shows: shown(By::Responder, &[94, 345], "241664 bytes", "262144 bytes"),
    },
];

/// The XID of a slow call.
pub(crate) const SLOW: u32 = 0x5105_5105;

/// A session with Long Replies of one packet each.
pub(crate) fn basic() -> Capture {
    samples::capture("nfs4.1-backchannel-recall")
}

/// A session with an NFS WRITE of 256 KiB.
fn bulk() -> Capture {
    samples::capture("nfs4.1-basic")
}

pub(crate) fn index_of(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> usize {
    let found = capture.packets.iter().position(|packet| packet.is_rc() && wanted(packet));
    found.expect("the session has such a packet")
}

fn first_write(capture: &Capture) -> &Packet {
    &capture.packets[index_of(capture, |packet| packet.opcode() == opcode::WRITE_ONLY)]
}

/// Repeats the server's first RDMA Write at another place, `distance` packets after the next
/// packet, which is the reply.
fn write_again(capture: &mut Capture, distance: usize, place: impl Fn((u64, u32, u32)) -> (u64, u32, u32)) {
    let write = index_of(capture, |packet| packet.opcode() == opcode::WRITE_ONLY);
    let reply = index_of(capture, |packet| packet.ieth().is_some());
    let mut again = capture.packets[write].clone();
    let (address, rkey, length) = place(again.reth().expect("an RDMA Write has it"));
    again.set_reth(address, rkey, length);
    mutate::insert_request(capture, reply + distance, again, 1);
}

/// The address after the Reply chunk of the first call that has one, of one segment.
fn end_of_reply_chunk(capture: &Capture) -> u64 {
    let call = index_of(capture, |packet| packet.source() == CLIENT && mutate::reply_chunk(packet).is_some());
    let call = &capture.packets[call];
    let at = mutate::reply_chunk(call).expect("it has one");
    call.u64(at + 8) + u64::from(call.u32(at + 4))
}

/// The handle of the first segment of the call with this XID.
pub(crate) fn handle_of(capture: &Capture, xid: u32) -> u32 {
    let call = index_of(capture, |packet| packet.source() == CLIENT && packet.xid() == Some(xid));
    let call = &capture.packets[call];
    call.u32(mutate::segments(call)[0])
}

/// The index of a reply in the middle of [`side_by_side`] that invalidates a handle.
pub(crate) fn middle_reply(capture: &Capture) -> usize {
    let slow = index_of(capture, |packet| packet.xid() == Some(SLOW));
    let after = index_of(capture, |packet| packet.number > slow as u64 + 90 && packet.ieth().is_some());
    assert_ne!(capture.packets[after].xid(), Some(SLOW), "the slow call is outstanding");
    after
}

/// The session with one more call: the first call with a Reply chunk is duplicated with another XID
/// and other memory, and the copy is answered last. The RDMA Write and the reply of the copy come
/// 120 packets after the original ones.
pub(crate) fn side_by_side() -> Capture {
    const LATER: usize = 120;
    let mut capture = basic();
    let call =
        index_of(&capture, |packet| packet.source() == CLIENT && mutate::reply_chunk(packet).is_some());
    let xid = capture.packets[call].xid();
    let write = index_of(&capture, |packet| packet.opcode() == opcode::WRITE_ONLY);
    let reply = index_of(&capture, |packet| packet.source() == SERVER && packet.xid() == xid);
    assert!(call < write && write < reply);

    let parts = [call, write, reply].map(|index| capture.packets[index].clone());
    let mut twin = Capture { link: capture.link, packets: parts.to_vec() };
    mutate::change_xids(&mut twin, |_| SLOW);
    // The Long Reply contains the XID, too. Its Reply chunk is in the header of an RDMA_NOMSG,
    // which `change_xids` does not handle.
    let start = twin.packets[1].payload().start;
    twin.packets[1].set_u32(start, SLOW);
    mutate::rename_memory(&mut twin, |handle, offset| (handle + 0x10_0000, offset));
    let [call_twin, write_twin, reply_twin] = <[Packet; 3]>::try_from(twin.packets).expect("three parts");

    let end = reply + LATER;
    mutate::insert_request(&mut capture, end, reply_twin, 1);
    mutate::insert_request(&mut capture, end, write_twin, 1);
    mutate::insert_request(&mut capture, call + 1, call_twin, 1);
    capture
}

/// A Send from the sender of `like`, with these bytes, that invalidates this handle.
pub(crate) fn send(like: &Packet, invalidated: Option<u32>, bytes: &[u8]) -> Packet {
    let mut packet = like.clone();
    let extension = invalidated.map(u32::to_be_bytes);
    packet.set_opcode(if extension.is_some() { opcode::SEND_ONLY_INVALIDATE } else { opcode::SEND_ONLY });
    let mut after_bth: Vec<u8> = extension.into_iter().flatten().collect();
    after_bth.extend_from_slice(bytes);
    packet.set_after_bth(&after_bth);
    packet
}

pub(crate) fn is_done(packet: &Packet) -> bool {
    packet.starts_message() && packet.u32(packet.payload().start + 12) == 3
}

/// Address and handle of the server's memory that holds the reply.
pub(crate) const PROVIDED: (u64, u32) = (0x7000_0000, 0x5eed);

/// Inserts an RDMA Read by the client and the server's response before the packet at `index`.
fn pull(capture: &mut Capture, index: usize, request: Packet, mut response: Packet) {
    response.set_psn(mutate::insert_request(capture, index, request, 1));
    mutate::insert(capture, index + 1, response);
}

/// The session with its first Long Reply in a Read chunk of the server. The client reads it, and
/// RDMA_DONE invalidates its handle; both ends set R.
pub(crate) fn pulled() -> Capture {
    let (address, handle) = PROVIDED;
    let mut capture = basic();
    crate::invalidation::set_r(&mut capture, [true, true]);
    let call =
        index_of(&capture, |packet| packet.source() == CLIENT && mutate::reply_chunk(packet).is_some());
    let write = index_of(&capture, |packet| packet.opcode() == opcode::WRITE_ONLY);
    let payload = capture.packets[write].data[capture.packets[write].payload()].to_vec();
    mutate::remove_request(&mut capture, write);

    // The call gets no Reply chunk: its lists end where the chunk was announced.
    let message = capture.packets[call].clone();
    let chunk = mutate::reply_chunk(&message).expect("it has one");
    let (start, end) = (message.payload().start, message.payload().end);
    let header = start + mutate::header_length(&message);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let without = [&message.data[start..chunk - 8], &words(&[0]), &message.data[header..end]].concat();
    capture.packets[call] = send(&message, None, &without);

    // RDMA_NOMSG: a Position Zero Read chunk of one segment, no Write list, no Reply chunk.
    let reply = index_of(&capture, |packet| packet.source() == SERVER && packet.xid() == message.xid());
    let like = capture.packets[reply].clone();
    let at = like.payload().start;
    let (xid, credits) = (like.u32(at), like.u32(at + 8));
    let length = payload.len() as u32;
    let [high, low] = [(address >> 32) as u32, address as u32];
    let bytes = words(&[xid, 1, credits, 1, 1, 0, handle, length, high, low, 0, 0, 0]);
    capture.packets[reply] = send(&like, None, &bytes);

    let mut request = message.clone();
    request.set_opcode(opcode::READ_REQUEST);
    request.set_after_bth(&words(&[high, low, handle, length]));
    let mut response = like.clone();
    response.set_opcode(opcode::READ_RESPONSE_ONLY);
    response.set_after_bth(&[words(&[0x1f << 24]), payload].concat());
    pull(&mut capture, reply + 1, request, response);
    // RDMA_DONE is only the header.
    let done = send(&message, Some(handle), &words(&[xid, 1, message.u32(start + 8), 3]));
    mutate::insert_request(&mut capture, reply + 3, done, 1);
    assert!(capture.packets.iter().all(|packet| !packet.is_rc() || packet.data.len() > EXTENSION));
    capture
}

fn of<'a>(id: &'a str, found: &'a [Finding]) -> impl Iterator<Item = &'a Finding> {
    found.iter().filter(move |finding| rule(finding).id == id)
}

/// The conclusive findings about memory.
fn conclusive(capture: &Capture) -> Vec<String> {
    let found = findings(capture);
    let about = found.iter().filter(|finding| rule(finding).id.starts_with("memory-"));
    about.filter(|finding| finding.verdict == Verdict::Certain).map(line).collect()
}

/// One or two unreadable messages may have advertised any memory.
#[test]
fn unreadable_calls_may_have_advertised_the_memory() {
    let verdicts = |unread: usize| -> Vec<Verdict> {
        let mut capture = basic();
        write_again(&mut capture, 0, |(address, rkey, length)| (address, rkey + 0x10_0000, length));
        let calls =
            capture.packets.iter_mut().filter(|packet| packet.starts_message() && packet.source() == CLIENT);
        calls.take(unread).for_each(|call| crate::header::set_word(call, 1, 9));
        let found = findings(&capture);
        of("memory-advertised", &found).map(|finding| finding.verdict).collect()
    };
    assert_eq!(verdicts(0), [Verdict::Certain]);
    for unread in [1, 2] {
        let found = verdicts(unread);
        assert!(found.contains(&Verdict::Inconclusive) && !found.contains(&Verdict::Certain), "{found:?}");
    }
}

/// The handle may have been advertised again if the capture lacks packets or shows them reordered.
#[test]
fn access_to_a_possibly_reused_handle_is_inconclusive() {
    let verdicts = |capture: &Capture| -> Vec<Verdict> {
        let found = findings(capture);
        of("memory-after-invalidation", &found).map(|finding| finding.verdict).collect()
    };
    let trigger = TRIGGERS.iter().find(|trigger| trigger.rule == "memory-after-invalidation").unwrap();
    let mut capture = (trigger.control)();
    (trigger.alter)(&mut capture);
    assert_eq!(verdicts(&capture), [Verdict::Certain]);
    let lost = index_of(&capture, |packet| packet.starts_message() && packet.source() == CLIENT);
    let lost = capture.packets[lost].number;
    assert_eq!(verdicts(&mutate::keep(&capture, |packet| packet.number != lost)), [Verdict::Inconclusive]);
    let first = capture.packets[0].time;
    (0..).zip(&mut capture.packets).for_each(|(index, packet)| packet.time = first + 10_000 * index);
    assert_eq!(verdicts(&capture), [Verdict::Inconclusive]);
}

#[test]
fn last_byte_of_a_segment_may_be_written() {
    let write_up_to = |end: u64| {
        let mut capture = basic();
        let place = |(_, rkey, length): (u64, u32, u32)| (end - u64::from(length), rkey, length);
        write_again(&mut capture, 0, place);
        capture
    };
    let end = end_of_reply_chunk(&basic());
    assert_eq!(conclusive(&write_up_to(end)), [""; 0]);
    let found = findings(&write_up_to(end + 1));
    let beyond: Vec<&Finding> = of("memory-segment-end", &found).collect();
    assert_eq!(beyond.len(), 1, "{:?}", found.iter().map(line).collect::<Vec<_>>());
    assert_eq!(beyond[0].verdict, Verdict::Certain);
    let values = beyond[0].observed.clone().zip(beyond[0].allowed.clone());
    assert_eq!(
        values,
        Some((Value::Bytes(100), Value::Bytes(99))),
        "the bytes in the RETH, and the advertised part of them"
    );
}

#[test]
fn operation_may_continue_in_the_next_segment() {
    // The Reply chunk in two adjacent segments. The RDMA Write fills the first one and part of the
    // second.
    let split = |distance: u64| {
        let mut capture = basic();
        let call =
            index_of(&capture, |packet| packet.source() == CLIENT && mutate::reply_chunk(packet).is_some());
        let reply = index_of(&capture, |packet| packet.ieth().is_some());
        let lengths =
            [capture.packets[call].u32(mutate::reply_chunk(&capture.packets[call]).unwrap() + 4), 100];
        for (index, length) in [call, reply].into_iter().zip(lengths) {
            let packet = capture.packets[index].clone();
            let (at, payload) = (mutate::reply_chunk(&packet).expect("both have one"), packet.payload());
            let (handle, offset) = (packet.u32(at), packet.u64(at + 8));
            let mut bytes = packet.data[payload.start..at - 4].to_vec();
            bytes.extend_from_slice(&2u32.to_be_bytes());
            for (length, offset) in [(40, offset), (length - 40, offset + 40 + distance)] {
                bytes.extend([handle, length].iter().flat_map(|word| word.to_be_bytes()));
                bytes.extend_from_slice(&offset.to_be_bytes());
            }
            bytes.extend_from_slice(&packet.data[at + 16..payload.end]);
            capture.packets[index] = send(&packet, packet.ieth(), &bytes);
        }
        capture
    };
    assert_eq!(conclusive(&split(0)), [""; 0]);
    let found = findings(&split(4096));
    assert_eq!(
        of("memory-segment-end", &found).count(),
        1,
        "{:?}",
        found.iter().map(line).collect::<Vec<_>>()
    );
}

#[test]
fn read_of_a_write_chunk_is_found() {
    let mut capture = bulk();
    let write = index_of(&capture, |packet| packet.opcode() == opcode::WRITE_ONLY);
    let reth = capture.packets[write].reth().expect("an RDMA Write has it");
    let mut request = capture.packets[write].clone();
    request.set_opcode(opcode::READ_REQUEST);
    request
        .set_after_bth(&[&reth.0.to_be_bytes()[..], &reth.1.to_be_bytes(), &reth.2.to_be_bytes()].concat());
    mutate::insert_request(&mut capture, write + 1, request, 1);
    let found = findings(&capture);
    let conclusive = of("memory-direction", &found).filter(|finding| finding.verdict == Verdict::Certain);
    assert_eq!(conclusive.count(), 1, "{:?}", found.iter().map(line).collect::<Vec<_>>());
}

#[test]
fn write_captured_late_is_not_after_the_reply() {
    for sample in ["nfs4.1-backchannel-recall", "nfs4.1-basic", "nfs4.2-mtu4096-large-io"] {
        let capture = samples::capture(sample);
        let is_write = |packet: &Packet| {
            packet.is_rc() && (opcode::WRITE_FIRST..=opcode::WRITE_ONLY).contains(&packet.opcode())
        };
        let writes: Vec<usize> =
            (0..capture.packets.len()).filter(|index| is_write(&capture.packets[*index])).collect();
        for from in writes.into_iter().step_by(5) {
            for later in [1, 2, 5, 30, 90] {
                let to = (from + later).min(capture.packets.len() - 1);
                let mut altered = capture.clone();
                mutate::reorder(&mut altered, from, to);
                assert_eq!(
                    conclusive(&altered),
                    [""; 0],
                    "{sample}: frame {} at the place of {}",
                    from + 1,
                    to + 1
                );
                // Late enough to be given up.
                altered.packets[to..].iter_mut().for_each(|packet| packet.time += 10_000_000_000);
                assert_eq!(conclusive(&altered), [""; 0], "{sample}: frame {} ten seconds late", from + 1);
            }
        }
    }
}

#[test]
fn lost_call_may_have_advertised_the_memory_again() {
    // Every call advertises the same memory. Without one of the calls, its operations come after
    // the reply to the call before.
    let mut capture = basic();
    mutate::rename_memory(&mut capture, |_, _| (0x1000, 0x7000_0000));
    assert_eq!(conclusive(&capture), [""; 0]);
    let mut inconclusive = 0;
    for lost in capture.packets.iter().filter(|packet| packet.is_rc()) {
        let rest = mutate::keep(&capture, |packet| packet.number != lost.number);
        assert_eq!(conclusive(&rest), [""; 0], "without frame {}", lost.number);
        inconclusive += of("memory-after-reply", &findings(&rest)).count();
    }
    assert!(inconclusive > 5, "{inconclusive}");
}

#[test]
fn reused_memory_is_not_attributed_to_the_earlier_call() {
    // The same, with each call moved before the reply that freed the memory.
    let mut capture = basic();
    mutate::rename_memory(&mut capture, |_, _| (0x1000, 0x7000_0000));
    for from in 1..capture.packets.len() {
        for to in from.saturating_sub(8)..from {
            // Captures reorder packets by at most two milliseconds.
            if capture.packets[from].time - capture.packets[to].time > 2_000_000 {
                continue;
            }
            let mut altered = capture.clone();
            mutate::reorder(&mut altered, from, to);
            assert_eq!(conclusive(&altered), [""; 0], "frame {} at the place of {}", from + 1, to + 1);
        }
    }
}

#[test]
fn loss_at_the_start_of_a_capture_gives_no_finding() {
    // A capture that begins with a call and lacks the RDMA Write that is the server's first packet:
    // no gap shows.
    let capture = mutate::without_cm(&basic());
    let mut looked_at = 0;
    for (write, packet) in capture.packets.iter().enumerate() {
        if !packet.is_rc() || packet.opcode() != opcode::WRITE_ONLY {
            continue;
        }
        let call = (0..write).rfind(|index| {
            capture.packets[*index].source() == CLIENT && capture.packets[*index].starts_message()
        });
        let call = call.expect("a call is before it");
        let mut later = Capture { link: capture.link, packets: capture.packets[call..].to_vec() };
        later.packets.remove(write - call);
        assert_eq!(conclusive(&later), [""; 0], "from frame {} on, without {}", call + 1, write + 1);
        looked_at += 1;
    }
    assert_eq!(looked_at, 12);
}

#[test]
fn write_after_the_reply_names_the_end_and_the_frames() {
    let mut capture = basic();
    write_again(&mut capture, 1, |reth| reth);
    let (write, reply) = {
        let reply = index_of(&capture, |packet| packet.ieth().is_some());
        (capture.packets[reply + 1].number, capture.packets[reply].number)
    };
    let found = findings(&capture);
    let finding = of("memory-after-reply", &found).next().expect("it is found");
    assert_eq!(finding.frames, [reply, write]);
    assert_eq!(finding.by_requester, Some(false));
    assert_eq!(finding.xid.map(|xid| Some(xid.0)), Some(capture.packets[reply as usize - 1].xid()));
}

#[test]
fn operation_captured_before_the_reply_is_inconclusive() {
    let mut capture = basic();
    write_again(&mut capture, 1, |reth| reth);
    // By its PSN, the RDMA Write follows the reply; the capture shows it before.
    let found = findings(&capture);
    let write = of("memory-after-reply", &found).next().expect("it is found").frames[1];
    mutate::reorder(&mut capture, write as usize - 1, write as usize - 2);
    let found = findings(&capture);
    let finding = of("memory-after-reply", &found).next().expect("it is found still");
    assert_eq!(finding.verdict, Verdict::Inconclusive);
}

/// Two open calls advertise the same memory: a write there may belong to either. Other calls are
/// not affected.
#[test]
fn memory_of_two_open_calls_is_inconclusive() {
    let mut capture = side_by_side();
    mutate::rename_memory(&mut capture, |handle, offset| (handle & 0xf_ffff, offset));
    let found = findings(&capture);
    let written: Vec<&Finding> = of("memory-written", &found).collect();
    assert!(!written.is_empty());
    assert!(written.iter().all(|finding| finding.verdict == Verdict::Inconclusive), "{written:?}");
    assert_eq!(conclusive(&capture), [""; 0]);
    // The last RDMA Write belongs to another call.
    let is_write = |packet: &Packet| packet.is_rc() && packet.opcode() == opcode::WRITE_ONLY;
    let last = capture.packets.iter().rposition(is_write).expect("there are twelve");
    mutate::remove_request(&mut capture, last);
    let lines = conclusive(&capture);
    assert!(lines.len() == 1 && lines[0].contains("memory-written"), "{lines:?}");
}

/// The call is missing, so its transaction is unknown when the reply is read.
#[test]
fn reply_in_a_read_chunk_is_known_without_its_call() {
    let mut capture = pulled();
    let xid = capture.packets[index_of(&capture, is_done)].xid();
    let call = index_of(&capture, |packet| packet.source() == CLIENT && packet.xid() == xid);
    capture.packets.remove(call);
    assert_eq!(conclusive(&capture), [""; 0]);
}

/// A header that cannot be parsed may list any memory.
#[test]
fn call_of_another_version_may_have_advertised_the_memory() {
    let mut capture = basic();
    let is_bare = |packet: &Packet| {
        packet.source() == CLIENT && packet.starts_message() && mutate::header_length(packet) == 28
    };
    let call = index_of(&capture, is_bare);
    let version = capture.packets[call].payload().start + 4;
    capture.packets[call].set_u32(version, 2);
    capture.packets[call].seal();
    write_again(&mut capture, 0, |(address, rkey, length)| (address, rkey + 0x10_0000, length));
    let found = findings(&capture);
    let verdicts: Vec<Verdict> = of("memory-advertised", &found).map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Inconclusive]);
}

/// Memory of a Read chunk and of a Write chunk, of calls that list nothing else.
#[test]
fn access_after_the_reply_is_found_for_each_kind_of_chunk() {
    const READ_OF_SIX: u32 = 0xd4fc_0516;
    let reads = |packet: &Packet| packet.opcode() == opcode::READ_REQUEST;
    let handle = handle_of(&bulk(), READ_OF_SIX);
    let writes = |packet: &Packet| {
        packet.opcode() == opcode::WRITE_ONLY && packet.reth().is_some_and(|(_, rkey, _)| rkey == handle)
    };
    let [read, write] = [index_of(&bulk(), reads), index_of(&bulk(), writes)];
    for touched in [read, write] {
        let mut capture = bulk();
        let is_call = |packet: &Packet| packet.source() == CLIENT && packet.starts_message();
        let call = capture.packets[..touched].iter().rposition(is_call).expect("a call lists the memory");
        let xid = capture.packets[call].xid();
        let reply = index_of(&capture, |packet| packet.source() == SERVER && packet.xid() == xid);
        let again = capture.packets[touched].clone();
        let (_, _, length) = again.reth().expect("both have it");
        mutate::insert_request(&mut capture, reply + 1, again, length.div_ceil(1024));
        let lines = conclusive(&capture);
        assert!(lines.len() == 1 && lines[0].contains("memory-after-reply"), "{lines:?}");
    }
}

/// A missing packet may have ended the transaction or advertised the memory again. For memory that
/// was not advertised, only packets of its owner matter.
#[test]
fn lost_packet_makes_the_finding_inconclusive() {
    let bare = |capture: &Capture, sender| {
        index_of(capture, |packet| packet.source() == sender && packet.starts_message())
    };
    let verdicts = |capture: &Capture, id: &str| {
        let found = findings(capture);
        of(id, &found).map(|finding| finding.verdict).collect::<Vec<_>>()
    };
    let past_end = |capture: &mut Capture| {
        let end = end_of_reply_chunk(capture);
        write_again(capture, 0, |(_, rkey, length)| (end - 4, rkey, length));
    };
    let unadvertised = |capture: &mut Capture| {
        write_again(capture, 0, |(address, rkey, length)| (address, rkey + 0x10_0000, length));
    };
    let conclusive = [Verdict::Certain];
    let doubtful = [Verdict::Inconclusive];
    for (sender, expected) in [(CLIENT, [doubtful, doubtful]), (SERVER, [doubtful, conclusive])] {
        let mut altered = [basic(), basic()];
        past_end(&mut altered[0]);
        unadvertised(&mut altered[1]);
        assert_eq!(verdicts(&altered[0], "memory-segment-end"), conclusive);
        assert_eq!(verdicts(&altered[1], "memory-advertised"), conclusive);
        for capture in &mut altered {
            let lost = bare(capture, sender);
            capture.packets.remove(lost);
        }
        assert_eq!(verdicts(&altered[0], "memory-segment-end"), expected[0], "{sender}");
        assert_eq!(verdicts(&altered[1], "memory-advertised"), expected[1], "{sender}");
    }
}

/// Any one of several RDMA Writes may be missing; its bytes are counted.
#[test]
fn unwritten_bytes_are_counted() {
    for (sample, index, chunks, claimed, unwritten) in [
        ("nfs4.1-basic", 1033, "the Reply chunk", 108, 100),
        ("nfs4.1-basic", 1034, "the Reply chunk", 108, 8),
        ("nfs4.2-mtu4096-large-io", 1035, "its chunks", 65536, 4096),
        ("nfs3-basic", 1164, "the Reply chunk", 128, 120),
        ("nfs3-basic", 1165, "the Reply chunk", 128, 5),
        ("nfs3-basic", 1166, "the Reply chunk", 128, 3),
    ] {
        let mut capture = samples::capture(sample);
        let packet = &capture.packets[index];
        assert_eq!((packet.opcode(), packet.payload().len()), (opcode::WRITE_ONLY, unwritten));
        mutate::remove_request(&mut capture, index);
        let found = findings(&capture);
        let about: Vec<&Finding> = of("memory-written", &found).collect();
        let [finding] = about[..] else { panic!("{sample} {index}: {about:?}") };
        let message = format!(
            "the reply returns {claimed} bytes in {chunks}, but {unwritten} of them were not written"
        );
        assert_eq!((finding.verdict, &finding.message), (Verdict::Certain, &message), "{sample}");
        let written = Value::Bytes(claimed - unwritten as u64);
        assert_eq!((&finding.observed, &finding.allowed), (&Some(written), &Some(Value::Bytes(claimed))));
        assert_eq!(finding.by_requester, Some(false), "{sample}");
    }
}

/// The arguments of a failed call need not be read completely.
#[test]
fn arguments_of_a_failed_call_need_not_be_read() {
    const WRITE: u32 = 0x49fc_0516;
    let mut capture = bulk();
    let read = index_of(&capture, |packet| packet.opcode() == opcode::READ_REQUEST);
    mutate::remove_request(&mut capture, read);
    assert_eq!(of("memory-read", &findings(&capture)).count(), 1);
    // NFS4ERR_IO.
    crate::chunks::change_reply(&mut capture, WRITE, |reply| {
        reply.set_word(crate::chunks::results_at(reply), 5)
    });
    assert_eq!(of("memory-read", &findings(&capture)).count(), 0);
}

/// If two segments overlap, a later RDMA Write may have overwritten an earlier one; not if they are
/// adjacent.
#[test]
fn unwritten_bytes_are_uncertain_if_segments_overlap() {
    for (overlap, verdict) in [(0, Verdict::Certain), (1, Verdict::Inconclusive)] {
        let mut capture = samples::capture("nfs3-basic");
        let call = capture.packets[1162].clone();
        let segments: Vec<(u32, u64, u64)> = mutate::segments(&call)
            .into_iter()
            .map(|at| (call.u32(at), call.u64(at + 8), u64::from(call.u32(at + 4))))
            .collect();
        let [first, second, third] = segments[..] else { panic!("{segments:?}") };
        let begin = 0x10_0000 + first.2 - overlap;
        let begins = [(first, 0x10_0000), (second, begin), (third, begin + second.2)];
        mutate::rename_memory(&mut capture, |handle, offset| {
            let of_it = begins.iter().find(|((known, ..), _)| *known == handle);
            of_it.map_or((handle, offset), |((_, from, _), to)| {
                (0x5eed, offset.wrapping_sub(*from).wrapping_add(*to))
            })
        });
        mutate::remove_request(&mut capture, 1166);
        let found = findings(&capture);
        let verdicts: Vec<Verdict> = of("memory-written", &found).map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [verdict], "{overlap}: {:?}", found.iter().map(line).collect::<Vec<_>>());
    }
}
