//! A test for each known error of other tools, from the project's field notes on Wireshark 4.0 and
//! NFStest's packet library.
//!
//! Most tests alter real sessions with `rdmascope_tests::mutate`. The expected result follows from
//! the unaltered session or from the alteration.

use core::net::Ipv4Addr;
use rdmascope_dissector::connection::{Connection, Origin};
use rdmascope_dissector::frame::IcrcVerdict;
use rdmascope_dissector::transaction::{Direction, Outcome, ReadChunk};
use rdmascope_dissector::ulb::Place;
use rdmascope_tests::mutate::{self, CLIENT, PSNS, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::session::{self, ContentSeen, Session, compare_transactions};
use rdmascope_tests::{Differences, samples};
use rdmascope_wire::rpcrdma::{Error, Segment};
use rdmascope_wire::{Rkey, Xid};
use std::collections::BTreeMap;

/// Runs the engine and checks that the session is not empty.
fn run(capture: &Capture) -> Session {
    let session = session::run(capture);
    assert!(!session.transactions.is_empty(), "no transactions at all");
    session
}

fn same(
    label: &str,
    expected: &Session,
    actual: &Session,
    view: impl Fn(&rdmascope_dissector::transaction::Transaction) -> String,
) {
    compare_transactions(label, expected, actual, view, |_, _| false);
}

fn index_of(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> usize {
    capture.packets.iter().position(wanted).expect("the sample has such a packet")
}

fn only_connection(session: &Session) -> &Connection {
    match &session.connections[..] {
        [connection] => connection,
        other => panic!("one connection expected, {} reported", other.len()),
    }
}

// Replies with READ data in Write chunks are "Malformed Packet" in tshark's single pass.
#[test]
fn read_replies_by_write_chunk_are_complete_in_one_pass() {
    for sample in samples::MOUNTS {
        let session = run(&samples::capture(sample));
        // The client's trace lists the calls that offer a Write chunk; the server's trace has the
        // bytes used.
        let mut returned: BTreeMap<u32, u64> = BTreeMap::new();
        for segment in samples::server_trace(sample).returned {
            *returned.entry((segment.offset >> 32) as u32).or_default() += u64::from(segment.length);
        }
        let mut differences = Differences::of(sample);
        for marshal in
            samples::client_trace(sample).marshals.iter().filter(|marshal| !marshal.writes.is_empty())
        {
            let place = format!("xid 0x{:08x}", marshal.xid);
            let transaction = match session.find(Direction::Forward, marshal.xid) {
                Ok(transaction) => transaction,
                Err(problem) => {
                    differences.check(false, format!("{place}: {problem}"));
                    continue;
                }
            };
            let Some(operation) =
                transaction.details.operations.iter().find(|operation| operation.name() == "READ")
            else {
                differences.check(false, format!("{place}: no READ among {:?}", session::names(transaction)));
                continue;
            };
            differences.equal(format!("{place} stop"), None, transaction.stop);
            differences.equal(format!("{place} status"), Some(0), operation.status);
            let count = operation.result_count.unwrap_or(0);
            // The server's Write chunk holds the data with or without XDR padding (RFC 8166,
            // section 3.4.6.2).
            let used = returned.get(&marshal.xid).copied().unwrap_or(0);
            differences.check(
                used == count || used == count.next_multiple_of(4),
                format!("{place}: {used} bytes returned, result says {count}"),
            );
            let item = operation.result_item.map(|item| (u64::from(item.length), item.place));
            differences.equal(format!("{place} item"), Some((count, Place::WriteChunk(0))), item);
        }
        differences.end();
    }
}

// A PSN wrap inside a multi-packet message silently breaks reassembly.
#[test]
fn psns_may_wrap_inside_a_message() {
    for (sample, kind, sender) in [
        ("nfs4.2-basic", opcode::WRITE_FIRST, SERVER),
        ("nfs4.2-basic", opcode::READ_RESPONSE_FIRST, SERVER),
        ("nfs3-lossy", opcode::WRITE_FIRST, SERVER),
        ("nfs3-lossy", opcode::READ_RESPONSE_FIRST, SERVER),
        ("nfs4.2-mtu4096-large-io", opcode::WRITE_FIRST, SERVER),
    ] {
        let capture = samples::capture(sample);
        let original = run(&capture);
        // READ responses use the PSNs of the requester, here the server.
        let first = &capture.packets[index_of(&capture, |packet| packet.is_rc() && packet.opcode() == kind)];
        for into in 1..4 {
            // The FIRST has PSN 2^24 - into, so the packet `into` later has PSN 0.
            let mut wrapped = capture.clone();
            mutate::shift_psn(&mut wrapped, sender, 2 * PSNS - into - first.psn());
            let label = format!("{sample}: wrap {into} packets into the message of frame {}", first.number);
            same(&label, &original, &run(&wrapped), session::all_but_numbers);
        }
    }
}

#[test]
fn psns_may_wrap_between_sends_of_the_client() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let original = run(&capture);
    let first = capture.packets[index_of(&capture, |packet| packet.xid().is_some())].psn();
    for into in 0..40 {
        let mut wrapped = capture.clone();
        mutate::shift_psn(&mut wrapped, CLIENT, 2 * PSNS - into - first);
        let label = format!("client's PSN 0 at request {into}");
        same(&label, &original, &run(&wrapped), session::all_but_numbers);
    }
}

// A LAST captured before its FIRST silently breaks reassembly.
#[test]
fn last_packet_may_be_captured_before_the_first() {
    for sample in ["nfs3-basic", "nfs4.2-basic"] {
        let capture = samples::capture(sample);
        let original = run(&capture);
        for (first_opcode, last_opcode) in [
            (opcode::WRITE_FIRST, opcode::WRITE_LAST),
            (opcode::READ_RESPONSE_FIRST, opcode::READ_RESPONSE_LAST),
        ] {
            let first = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == first_opcode);
            let sender = capture.packets[first].source();
            let last = first
                + capture.packets[first..]
                    .iter()
                    .position(|packet| {
                        packet.is_rc() && packet.opcode() == last_opcode && packet.source() == sender
                    })
                    .expect("a message has its LAST");
            let mut altered = capture.clone();
            mutate::reorder(&mut altered, last, first);
            let label = format!("{sample}: the LAST of frame {} moved to its FIRST, {}", last + 1, first + 1);
            same(&label, &original, &run(&altered), session::content);
            let mut altered = capture.clone();
            mutate::reorder(&mut altered, first, last);
            let label =
                format!("{sample}: the FIRST of frame {} moved after its LAST, {}", first + 1, last + 1);
            same(&label, &original, &run(&altered), session::content);
        }
    }
}

// A later call reuses an R_Key and offset.
#[test]
fn handles_and_offsets_may_be_reused() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let original = run(&capture);
    // All handles are equal, and offsets lack the XID that made them unique, so later calls name
    // the same memory.
    let low = |offset: u64| offset & 0xffff_ffff;
    let mut altered = capture.clone();
    mutate::rename_memory(&mut altered, |_, offset| (0x42, low(offset)));
    let mut names: Vec<(u32, u64)> = altered
        .packets
        .iter()
        .filter(|packet| packet.opcode() == opcode::WRITE_ONLY)
        .filter_map(|packet| packet.reth().map(|(address, rkey, _)| (rkey, address)))
        .collect();
    let writes = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() < writes, "names must repeat after the alteration: {names:x?}");

    // The expected result is the original session with handles and offsets renamed.
    let mut expected = original;
    for transaction in &mut expected.transactions {
        for message in transaction.call.iter_mut().chain(&mut transaction.reply) {
            message.invalidated = message.invalidated.map(|_| Rkey(0x42));
            let reads = message.read_chunks.iter_mut().flat_map(|chunk| &mut chunk.segments);
            let writes = message.write_chunks.iter_mut().chain(&mut message.reply_chunk);
            for segment in reads.chain(writes.flat_map(|chunk| &mut chunk.segments)) {
                segment.handle = Rkey(0x42);
                segment.offset = low(segment.offset);
            }
        }
    }
    same("one handle for all", &expected, &run(&altered), session::all_but_numbers);
}

// Retransmitted packets inflate the count of reassembled bytes.
#[test]
fn packets_seen_twice_count_once() {
    for sample in ["nfs4.2-basic", "nfs3-basic"] {
        let capture = samples::capture(sample);
        let original = run(&capture);
        let data = |packet: &Packet| packet.is_rc() && packet.opcode() != opcode::ACKNOWLEDGE;
        let twice = run(&mutate::repeat(&capture, data));
        same(&format!("{sample}: every packet twice"), &original, &twice, session::content);
        let (once, twice) = (only_connection(&original), only_connection(&twice));
        for (label, once, twice) in [
            ("requester", &once.requester.sent, &twice.requester.sent),
            ("responder", &once.responder.sent, &twice.responder.sent),
        ] {
            assert_eq!(once.written_bytes, twice.written_bytes, "{sample}: {label}");
            assert_eq!(once.sends, twice.sends, "{sample}: {label}");
            assert_eq!(once.read_requests, twice.read_requests, "{sample}: {label}");
            assert_eq!(once.read_response_bytes, twice.read_response_bytes, "{sample}: {label}");
            let sent = capture
                .packets
                .iter()
                .filter(|packet| data(packet))
                .filter(|packet| (packet.source() == CLIENT) == (label == "requester"));
            assert_eq!(
                twice.repeated_packets,
                once.repeated_packets + sent.count() as u64,
                "{sample}: {label}"
            );
        }
    }
}

// The same for packets lost on the wire: the expected counts are those of the kernels. The sample
// has retransmissions of RDMA WRITEs (witnesses.rs).
#[test]
fn retransmissions_count_once() {
    let capture = samples::capture("nfs3-lossy");
    let session = run(&capture);
    let connection = only_connection(&session);
    let returned: u64 =
        samples::server_trace("nfs3-lossy").returned.iter().map(|segment| u64::from(segment.length)).sum();
    assert_eq!(connection.responder.sent.written_bytes, returned);
    assert!(connection.responder.sent.repeated_packets > 0);
    // tshark shows one NAK: an Acknowledge with AETH syndrome 0x60, PSN sequence error.
    let naks = connection.requester.sent.sequence_naks + connection.responder.sent.sequence_naks;
    assert_eq!(naks, 1);
}

// If the capture begins after the connect, replies become "RPC V0 proc-0" and the service response
// time table is empty.
#[test]
fn capture_without_the_connect_names_every_call() {
    for sample in samples::MOUNTS {
        let capture = samples::capture(sample);
        let original = run(&capture);
        let late = run(&mutate::without_cm(&capture));
        same(&format!("{sample} without CM"), &original, &late, session::all_but_numbers);
        let connection = only_connection(&late);
        assert!(matches!(connection.origin, Origin::Inferred(_)), "{sample}: {:?}", connection.origin);
        assert_eq!(connection.call_inline_threshold, None, "{sample}: it was not captured");
        assert_eq!(connection.requester.address, session::address(2), "{sample}");
        assert_eq!(connection.requester.qpn, only_connection(&original).requester.qpn, "{sample}");
    }
}

#[test]
fn capture_from_the_middle_names_every_later_call() {
    for sample in ["nfs3-basic", "nfs4.1-basic"] {
        let capture = samples::capture(sample);
        let original = run(&capture);
        let half = capture.packets.len() as u64 / 2;
        let late = run(&mutate::keep(&capture, |packet| packet.number > half));
        // Transactions in progress at the start may be incomplete; later ones are complete.
        let early = |_, xid: Xid| {
            let found = original.find(Direction::Forward, xid.0).ok().and_then(|found| found.call.as_ref());
            found.is_none_or(|call| call.first.frame <= half)
        };
        compare_transactions(
            &format!("{sample} from frame {half} on"),
            &original,
            &late,
            session::all_but_busy_times,
            early,
        );
    }
}

// A capture of the client's direction shows all calls, without replies.
#[test]
fn capture_of_one_direction_shows_every_call() {
    let capture = samples::capture("nfs4.1-basic");
    let calls =
        run(&mutate::keep(&capture, |packet| packet.source() == CLIENT && packet.cm_attribute().is_none()));
    let mut differences = Differences::of("the client's packets alone");
    for marshal in samples::client_trace("nfs4.1-basic").marshals {
        let found = calls.find(Direction::Forward, marshal.xid);
        let named = found.map(|found| found.procedure.is_some() && found.reply.is_none());
        differences.equal(format!("xid 0x{:08x}", marshal.xid), Ok(true), named);
    }
    differences.end();
    let replies =
        run(&mutate::keep(&capture, |packet| packet.source() == SERVER && packet.cm_attribute().is_none()));
    let mut differences = Differences::of("the server's packets alone");
    for (xid, _) in samples::client_trace("nfs4.1-basic").replies {
        let found = replies.find(Direction::Forward, xid).map(|found| (found.outcome, found.reply.is_some()));
        differences.equal(format!("xid 0x{xid:08x}"), Ok((Outcome::NoCall, true)), found);
    }
    differences.end();
}

// With 160 bytes per packet, 1 of 239 calls is shown.
#[test]
fn calls_are_visible_with_a_snap_length_of_160() {
    for sample in samples::MOUNTS {
        let capture = samples::capture(sample);
        let session = run(&mutate::cut(&capture, 160));
        let mut differences = Differences::of(format!("{sample} cut to 160 bytes"));
        for marshal in samples::client_trace(sample).marshals {
            let place = format!("xid 0x{:08x}", marshal.xid);
            match session.find(Direction::Forward, marshal.xid) {
                Ok(transaction) => {
                    differences.check(transaction.call.is_some(), format!("{place}: no call"));
                    differences.check(transaction.reply.is_some(), format!("{place}: no reply"));
                    // Ethernet, IPv4, UDP and BTH headers are 54 bytes. rpcvers, program, version
                    // and procedure are in the first 24 of the call.
                    if 54 + marshal.header_length + 24 <= 160 {
                        differences.check(transaction.procedure.is_some(), format!("{place}: no procedure"));
                    }
                }
                Err(problem) => differences.check(false, format!("{place}: {problem}")),
            }
        }
        differences.end();
        // Only packets that were cut cannot be verified.
        let cut = capture.packets.iter().filter(|packet| packet.data.len() > 160).count() as u64;
        let uncut = capture.packets.len() as u64 - cut;
        assert_eq!(session.totals.icrc, [uncut, 0, cut], "{sample}");
        assert_eq!(session.totals.cut_records, cut, "{sample}");
    }
}

// The ICRC is shown but never verified.
#[test]
fn bad_icrc_is_detected() {
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    let original = run(&capture);
    // A byte of an acknowledgement that every parser accepts: its MSN.
    let index = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == opcode::ACKNOWLEDGE);
    capture.packets[index].data[mutate::EXTENSION + 3] ^= 0x40;
    let (number, sender) = (capture.packets[index].number, capture.packets[index].source());
    let spoiled = session::run_with_packets(&capture);
    let mut differences = Differences::of("ICRC");
    for packet in &spoiled.packets {
        let expected = if packet.number == number { IcrcVerdict::Bad } else { IcrcVerdict::Good };
        differences.equal(format!("frame {}", packet.number), Some(expected), packet.icrc());
    }
    differences.end();
    assert_eq!(spoiled.totals.icrc, [capture.packets.len() as u64 - 1, 1, 0]);
    same("an acknowledgement spoiled", &original, &spoiled, session::all_but_acknowledgement);
    // It acknowledged the first call, and must not any more.
    let acknowledged = |session: &Session| session.transactions[0].timing.acknowledged.map(|seen| seen.frame);
    assert_eq!((acknowledged(&original), acknowledged(&spoiled)), (Some(number), None));
    let connection = only_connection(&spoiled);
    let end = if sender == CLIENT { &connection.requester } else { &connection.responder };
    assert_eq!(end.sent.bad_icrc, 1);
    assert_eq!(end.sent.acknowledgements + 1, {
        let original = only_connection(&original);
        if sender == CLIENT {
            original.requester.sent.acknowledgements
        } else {
            original.responder.sent.acknowledgements
        }
    });
}

#[test]
fn packet_with_a_bad_icrc_is_dropped() {
    // A duplicated RDMA WRITE packet whose first copy is corrupted: the bytes are those of the
    // second.
    let capture = samples::capture("nfs4.2-basic");
    let original = run(&capture);
    let index = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == opcode::WRITE_MIDDLE);
    let number = capture.packets[index].number;
    let mut altered = mutate::repeat(&capture, |packet| packet.number == number);
    let at = altered.packets[index].payload().start;
    altered.packets[index].data[at] ^= 0xff;
    same("a spoiled copy first", &original, &run(&altered), session::content);
}

// RFC 8797 private data is shown as opaque bytes.
#[test]
fn private_data_is_decoded() {
    // Linux 6.1 sends f6 ab 0e 18 01 01 03 03 from the client (R set, 4096 and 4096) and f6 ab 0e
    // 18 01 00 03 03 from the server. Sizes are encoded as (bytes / 1024) - 1 (RFC 8797, section
    // 4).
    for sample in samples::MOUNTS {
        let session = run(&samples::capture(sample));
        let connection = only_connection(&session);
        for (end, remote_invalidation) in [(&connection.requester, true), (&connection.responder, false)] {
            let data = end.private_data.unwrap_or_else(|| panic!("{sample}: none from {}", end.address));
            assert_eq!((data.version, data.reserved), (1, 0), "{sample}");
            assert_eq!((data.send_size, data.receive_size), (4096, 4096), "{sample}");
            assert_eq!(data.remote_invalidation, remote_invalidation, "{sample}: {}", end.address);
        }
        assert_eq!(connection.remote_invalidation, Some(false), "{sample}: the server's R is clear");
        // It is at the start of the consumer's private data, right after the RDMA-CM IP header.
        assert_eq!(connection.responder.private_data.map(|data| data.offset), Some(0), "{sample}");
    }
}

#[test]
fn inline_threshold_is_the_lesser_of_both_sizes() {
    // The client sends at most 2048 and receives 8192; the server sends 16384 and receives 1024
    // (RFC 8797, section 4.2).
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    mutate::each(&mut capture, |packet| {
        let (at, sizes) = match packet.cm_attribute() {
            Some(attribute::REQ) => (140 + 36, [1, 7]),
            Some(attribute::REP) => (36, [15, 0]),
            _ => return,
        };
        let body = packet.cm_body();
        assert_eq!(body[at..at + 4], [0xf6, 0xab, 0x0e, 0x18], "the private data is at this offset");
        body[at + 6..at + 8].copy_from_slice(&sizes);
    });
    let session = run(&capture);
    let connection = only_connection(&session);
    assert_eq!(connection.call_inline_threshold, Some(1024), "the server receives at most this");
    assert_eq!(connection.reply_inline_threshold, Some(8192), "the client receives at most this");
}

/// Call frame, reply frame and XID of the first transaction whose call is an RDMA_MSG without
/// chunks.
fn plain_call(capture: &Capture) -> (usize, usize, u32) {
    let call = index_of(capture, |packet| {
        packet.xid().is_some() && packet.source() == CLIENT && mutate::header_length(packet) == 28
    });
    let xid = capture.packets[call].xid().expect("a call has an XID");
    let reply = index_of(capture, |packet| packet.xid() == Some(xid) && packet.source() == SERVER);
    (call, reply, xid)
}

/// Replaces the payload by these words and makes the packet a SEND Only.
fn set_words(packet: &mut Packet, words: &[u32]) {
    packet.set_opcode(opcode::SEND_ONLY);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    packet.set_after_bth(&bytes);
}

// A header with rdma_vers other than 1 is not shown; a following RDMA_ERROR is a plain "RC Send
// Only".
#[test]
fn other_rdma_version_and_its_err_vers_are_decoded() {
    let mut capture = samples::capture("nfs3-basic");
    let (call, reply, xid) = plain_call(&capture);
    let at = capture.packets[call].payload().start + 4;
    capture.packets[call].set_u32(at, 9);
    capture.packets[call].seal();
    // The answer of a Linux server: version 9 too, ERR_VERS 1 to 1 (RFC 8166, section 4.5).
    set_words(&mut capture.packets[reply], &[xid, 9, 64, 4, 1, 1, 1]);
    let session = session::run_with_packets(&capture);
    for (index, credits) in [(call, 128), (reply, 64)] {
        let number = capture.packets[index].number;
        let packet = session.packet(number).unwrap_or_else(|| panic!("frame {number} is not reported"));
        let header = packet.rpcrdma().unwrap_or_else(|| panic!("frame {number}: {:?}", packet.headers));
        assert_eq!((header.xid, header.version, header.credits), (Xid(xid), 9, credits), "frame {number}");
    }
    let transaction = session.find(Direction::Forward, xid).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(transaction.call.as_ref().map(|call| call.version), Some(9));
    assert_eq!(transaction.outcome, Outcome::TransportError);
    assert_eq!(transaction.error, Some(Error::Version { low: 1, high: 1 }));
}

#[test]
fn rdma_error_is_a_transport_error() {
    let mut capture = samples::capture("nfs4.2-basic");
    let (_, reply, xid) = plain_call(&capture);
    let original = run(&capture);
    set_words(&mut capture.packets[reply], &[xid, 1, 64, 4, 2]);
    let session = run(&capture);
    let transaction = session.find(Direction::Forward, xid).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(transaction.outcome, Outcome::TransportError);
    assert_eq!(transaction.error, Some(Error::Chunk));
    assert_eq!(transaction.reply.as_ref().map(|reply| reply.header_length), Some(20));
    compare_transactions("the others", &original, &session, session::all_but_numbers, |_, other| {
        other == Xid(xid)
    });
}

// A UDP source port of another protocol (69, TFTP) takes precedence over destination port 4791.
#[test]
fn udp_source_port_is_ignored() {
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    let original = run(&capture);
    mutate::each(&mut capture, |packet| packet.set_udp_source_port(69));
    let session = run(&capture);
    same("source port 69", &original, &session, session::all_but_numbers);
    // The source port is entropy for the network: one connection may use several.
    mutate::each(&mut capture, |packet| packet.set_udp_source_port(0xc000 | packet.psn() as u16 & 0x3fff));
    same("a source port of its own for each PSN", &original, &run(&capture), session::all_but_numbers);
}

// CNP opcode 0x81 is unknown.
#[test]
fn congestion_notification_is_named() {
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    let original = run(&capture);
    // Annex A17.9: a BTH with opcode 0x81, BECN set, PSN 0; 16 reserved bytes.
    let index = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == opcode::ACKNOWLEDGE) + 1;
    let mut notification = capture.packets[index - 1].clone();
    notification.set_opcode(opcode::CNP);
    notification.set_psn(0);
    notification.data[mutate::BTH + 4] = 0x40;
    notification.data[mutate::BTH + 8] = 0;
    notification.set_after_bth(&[0; 16]);
    capture.packets.insert(index, notification);
    capture.renumber();
    let session = session::run_with_packets(&capture);
    assert_eq!(session.totals.congestion_notifications, 1);
    let packet = session.packet(index as u64 + 1).expect("it is reported");
    let headers = packet.headers().unwrap_or_else(|| panic!("{packet:?}"));
    assert_eq!(headers.bth.opcode.to_string(), "CNP");
    assert!(headers.bth.becn);
    assert_eq!(headers.payload_length, 16);
    assert_eq!(packet.icrc(), Some(IcrcVerdict::Good));
    same("a CNP between", &original, &session, session::content);
}

// MRA, LAP, APR and SIDR are "Dissector Not Implemented".
#[test]
fn every_cm_message_has_a_name() {
    // A real MAD with another attribute ID each time. Its fields are meaningless, but the message
    // has a name.
    let mut names: BTreeMap<String, u16> = BTreeMap::new();
    for attribute in attribute::REQ..=attribute::APR {
        let mut capture = mutate::keep(&samples::capture("nfs4.2-basic"), |packet| packet.number == 1);
        mutate::each(&mut capture, |packet| packet.set_cm_attribute(attribute));
        let session = session::run_with_packets(&capture);
        let packet = session.packet(1).expect("it is reported");
        let Some(ContentSeen::Cm(name)) = packet.headers().map(|headers| headers.content.clone()) else {
            panic!("attribute 0x{attribute:04x}: {:?}", packet.headers)
        };
        assert_eq!(session.totals.cm_messages, 1, "attribute 0x{attribute:04x}");
        let other = names.insert(name.clone(), attribute);
        assert_eq!(other, None, "attribute 0x{attribute:04x} is also named {name}");
    }
    // TODO: test the fields of MRA, LAP, APR, SIDR_REQ and SIDR_REP once `rdmascope_wire::cm` has
    // builders for them, with built bytes and with bytes written by hand.
}

// NFStest keeps Read and PSN state globally, not per queue pair.
#[test]
fn concurrent_connections_are_kept_apart() {
    let capture = samples::capture("nfs3-basic");
    let original = run(&capture);
    let client: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);
    // Another client of the same server at the same time.
    let same_hosts = mutate::on_another_connection(&capture, 0);
    let mut other = same_hosts.clone();
    mutate::readdress(&mut other, CLIENT, client);
    // Between the same two hosts, without CM, only PSNs, XIDs and memory show which half-flows
    // belong together.
    let mut unlike = same_hosts.clone();
    mutate::shift_psn(&mut unlike, SERVER, 0x1234);
    mutate::shift_psn(&mut unlike, CLIENT, 0x4321);
    mutate::change_xids(&mut unlike, |xid| xid ^ 0x00ff_0000);
    mutate::rename_memory(&mut unlike, |handle, offset| (handle ^ 0x0100_0000, offset ^ 1 << 63));
    for (label, other, cm) in [
        ("another client", &other, true),
        ("another client, no CM", &other, false),
        ("another connection of the same hosts", &same_hosts, true),
        ("another connection of the same hosts, other PSNs, XIDs and memory", &unlike, true),
        ("another connection of the same hosts, other PSNs, XIDs and memory, no CM", &unlike, false),
    ] {
        let mut merged = mutate::merge(&capture, other);
        if !cm {
            merged = mutate::without_cm(&merged);
        }
        let session = run(&merged);
        assert_eq!(session.connections.len(), 2, "{label}");
        // At equal times the first capture's packets come first, so its connection is the first
        // one.
        for (expected, connection) in [&original, &run(other)].into_iter().zip(&session.connections) {
            let own = session.transactions.iter().filter(|one| one.connection == connection.id);
            let part = Session { transactions: own.cloned().collect(), ..Session::default() };
            same(&format!("{label}: {:?}", connection.id), expected, &part, session::content);
        }
    }
}

// A queue pair is reused for a second connection, with the same PSNs, XIDs and memory.
#[test]
fn reused_queue_pair_is_a_new_connection() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let original = run(&capture);
    let mut second = capture.clone();
    mutate::change_communication_ids(&mut second, 0x0f0f_0f0f);
    for packet in &mut second.packets {
        packet.time += 60_000_000_000;
    }
    let session = run(&mutate::merge(&capture, &second));
    assert_eq!(session.connections.len(), 2);
    for connection in &session.connections {
        let own = session.transactions.iter().filter(|one| one.connection == connection.id);
        let part = Session { transactions: own.cloned().collect(), ..Session::default() };
        // Latencies and order are equal; frames and times differ.
        same(&format!("{:?}", connection.id), &original, &part, session::content);
    }
}

// NFStest places the second Read chunk of a message wrongly.
#[test]
fn second_read_chunk_has_its_own_position() {
    // The WRITE in nfs4.2-basic has 176 bytes before the data, 262144 of data in two read segments
    // of 131072 at position 176, and 16 bytes (GETATTR) after it. It is changed to a WRITE of
    // 131072 bytes and a second Read chunk at the end of the message.
    let mut capture = samples::capture("nfs4.2-basic");
    let trace = samples::client_trace("nfs4.2-basic");
    let marshal =
        trace.marshals.iter().find(|marshal| marshal.reads.len() == 2).expect("it has such a WRITE");
    assert_eq!(marshal.xdr, [176, 262_144, 16]);
    let after_data = 176 + 131_072 + 16;
    let call = index_of(&capture, |packet| packet.xid() == Some(marshal.xid) && packet.source() == CLIENT);
    let packet = &mut capture.packets[call];
    let places = mutate::segments(packet);
    assert_eq!(places.len(), 2);
    packet.set_u32(places[1] - 4, after_data);
    let count = packet.payload().start + 76 + 172;
    assert_eq!(packet.u32(count), 262_144, "the count of the WRITE's data is at this offset");
    packet.set_u32(count, 131_072);
    packet.seal();

    let session = run(&capture);
    let transaction =
        session.find(Direction::Forward, marshal.xid).unwrap_or_else(|problem| panic!("{problem}"));
    let message = transaction.call.as_ref().expect("the call exists");
    let segment = |index: usize| {
        let (_, segment) = marshal.reads[index];
        Segment { handle: Rkey(segment.handle), length: segment.length, offset: segment.offset }
    };
    let expected = [
        ReadChunk { position: 176, segments: vec![segment(0)] },
        ReadChunk { position: after_data, segments: vec![segment(1)] },
    ];
    assert_eq!(message.read_chunks, expected);
    assert_eq!(message.message_length, Some(marshal.length()));
    assert_eq!(message.missing, []);
    assert_eq!(transaction.timing.read_bytes, 262_144);
    let write = transaction.details.operations.iter().find(|operation| operation.name() == "WRITE");
    let item =
        write.and_then(|write| write.argument_item).map(|item| (item.length, item.position, item.place));
    assert_eq!(item, Some((131_072, 176, Place::ReadChunk(0))));
    assert_eq!(
        session::names(transaction).last(),
        Some(&"GETATTR"),
        "the operations after the data are parsed"
    );
}

// The client chooses XIDs freely: without a relation to memory offsets, the session is the same.
#[test]
fn xids_need_no_relation_to_memory_offsets() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let mut expected = run(&capture);
    let mut altered = capture.clone();
    mutate::change_xids(&mut altered, |xid| !xid);
    for transaction in &mut expected.transactions {
        transaction.xid = Xid(!transaction.xid.0);
        for message in [&mut transaction.call, &mut transaction.reply].into_iter().flatten() {
            message.rpc_xid = message.rpc_xid.map(|xid| Xid(!xid.0));
        }
    }
    same("other XIDs", &expected, &run(&altered), session::all_but_numbers);
}

// A backward XID may equal a forward one (RFC 8167, section 4.1).
#[test]
fn backward_xid_may_equal_a_forward_one() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let trace = samples::client_trace("nfs4.1-backchannel-recall");
    // The first callback causes a DELEGRETURN, which follows the reply to it directly.
    let (callback, forward) = (trace.callbacks[0], 0x344d_5b14);
    assert!(trace.marshals.iter().any(|marshal| marshal.xid == forward));
    let mut altered = capture.clone();
    mutate::change_xids(&mut altered, |xid| if xid == callback { forward } else { xid });
    let (original, session) = (run(&capture), run(&altered));
    for direction in [Direction::Forward, Direction::Backward] {
        let found = session.find(direction, forward).unwrap_or_else(|problem| panic!("{problem}"));
        let old = if direction == Direction::Forward { forward } else { callback };
        let old = original.find(direction, old).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(session::names(found), session::names(old), "{direction:?}");
        assert_eq!(found.outcome, Outcome::Completed, "{direction:?}");
    }
    assert_eq!(session.transactions.len(), original.transactions.len());
}
