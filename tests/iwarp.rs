//! Compares sessions over iWARP with the traces of the kernels at both ends, where iWARP differs
//! from RoCE. `oracle.rs` has the common tests.

use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_dissector::connection::{Connection, Origin, State};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::iwarp::{CrcVerdict, FramedKind};
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Transaction};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::segments::{Checksum, Segment};
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{Differences, judged, mutate, samples, streams};
use rdmascope_wire::mpa;
use std::collections::{BTreeMap, BTreeSet};

fn run(sample: &str) -> Session {
    session::run(&samples::capture(sample))
}

/// Every connection has the server's TCP port, and both start frames if the connect was captured.
#[test]
fn connections_match_their_start_frames() {
    for (sample, connections, revision, crc) in
        [("iwarp-nfs3", 1, 2, false), ("iwarp-crc-lossy", 1, 2, true), ("iwarp-nfs4.2-nconnect", 3, 2, false)]
    {
        let session = run(sample);
        assert_eq!(session.connections.len(), connections, "{sample}");
        let thresholds = samples::client_trace(sample).thresholds;
        for (connection, (send, receive)) in session.connections.iter().zip(thresholds) {
            assert!(connection.is_iwarp, "{sample}");
            assert_eq!((connection.origin, connection.state), (Origin::Cm, State::Closed), "{sample}");
            assert_eq!(connection.call_inline_threshold, Some(send), "{sample}");
            assert_eq!(connection.reply_inline_threshold, Some(receive), "{sample}");
            assert_eq!(connection.has_crc, Some(crc), "{sample}");
            assert_eq!((connection.port, connection.responder.tcp_port), (Some(20_049), Some(20_049)));
            let [request, reply] = [&connection.requester, &connection.responder]
                .map(|end| end.start.unwrap_or_else(|| panic!("{sample}: a start frame of each end")));
            assert!(request.frame.is_request() && !reply.frame.is_request(), "{sample}");
            assert_eq!((request.frame.revision, reply.frame.revision), (revision, revision), "{sample}");
            assert!(request.depths.is_some() && reply.depths.is_some(), "{sample}");
        }
    }
}

/// These traces also cover the time before the capture. From the first captured call on, no call is
/// missing.
#[test]
fn capture_from_midstream_reports_every_later_call() {
    for sample in samples::IWARP_MIDSTREAM {
        let (session, trace) = (run(sample), samples::client_trace(sample));
        let reported: Vec<u32> =
            session.of(Direction::Forward).iter().map(|transaction| transaction.xid.0).collect();
        let first = trace.marshals.iter().position(|marshal| Some(&marshal.xid) == reported.first());
        let first = first.unwrap_or_else(|| panic!("{sample}: the first call reported was marshalled"));
        // A call that was marshalled and not sent, for lack of a connection, is marshalled again.
        let sent: BTreeSet<u32> = trace.marshals[first..].iter().map(|marshal| marshal.xid).collect();
        assert_eq!(reported.iter().copied().collect::<BTreeSet<_>>(), sent, "{sample}");
        let mut differences = Differences::of(sample);
        for (xid, credits) in trace.replies.iter().filter(|(xid, _)| sent.contains(xid)) {
            let found = session.find(Direction::Forward, *xid).map(|transaction| {
                (transaction.outcome, transaction.reply.as_ref().map(|reply| reply.credits))
            });
            differences.equal(
                format!("xid 0x{xid:08x}"),
                Ok((Outcome::Completed, Some(*credits))),
                found.map_err(|problem| problem.to_string()),
            );
        }
        for xid in &trace.callbacks {
            let outcome = session.find(Direction::Backward, *xid).map(|transaction| transaction.outcome);
            differences.equal(
                format!("callback 0x{xid:08x}"),
                Ok(Outcome::Completed),
                outcome.map_err(|problem| problem.to_string()),
            );
        }
        differences.end();
    }
}

/// The server rejects MPA requests of revision 1, which have no ORD (RFC 5044, section 7.1.1).
#[test]
fn requests_of_revision_1_are_rejected() {
    let session = run("iwarp-rejected");
    let is_rejected = |connection: &Connection| {
        let reply = connection.responder.start.map(|start| (start.frame.rejected, start.frame.revision));
        connection.state == State::Refused
            && reply == Some((true, 1))
            && connection.call_inline_threshold.is_none()
    };
    assert_eq!(session.connections.len(), 83);
    assert!(session.connections.iter().all(is_rejected));
    assert_eq!(session.transactions.len(), 0);
}

/// The messages of a scripted peer and the server's answers, compared with the script's log.
#[test]
fn scripted_session_matches_its_log() {
    let session = run("iwarp-scripted");
    let log = samples::text("iwarp-scripted", "truth.txt");
    // FPDUs of opcode 3 from the server are replies, which begin with the XID.
    let replies = log.lines().filter(|line| line.contains(" op 3 ")).count();
    let answered = session.of(Direction::Forward).iter().filter(|it| it.reply.is_some()).count();
    assert_eq!(answered, replies);
    let terminates = log.lines().filter(|line| line.contains(" op 7 ")).count() as u64;
    let sent: u64 = session.connections.iter().map(|connection| connection.responder.sent.fatal_naks).sum();
    assert_eq!((sent, terminates), (7, 7));
}

const TCP: usize = 14 + 20;

/// The offset of the payload of an Ethernet frame's TCP segment.
fn payload(data: &[u8]) -> usize {
    TCP + usize::from(data[TCP + 12] >> 4) * 4
}

/// A segment with the payload bytes `from..to`.
fn part(packet: &Packet, from: usize, to: usize) -> Packet {
    let begins = payload(&packet.data);
    let mut data = packet.data[..begins].to_vec();
    data.extend(&packet.data[begins + from..begins + to]);
    let sequence = u32::from_be_bytes(data[TCP + 4..TCP + 8].try_into().expect("four bytes"));
    data[TCP + 4..TCP + 8].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
    mutate::seal_segment(&mut data);
    Packet { original_length: data.len() as u32, data, ..packet.clone() }
}

/// The results for a session, without frame numbers.
fn results(session: &Session) -> Vec<String> {
    let message = |message: &Option<Message>| {
        message
            .as_ref()
            .map(|it| (it.credits, it.send_length, it.message_length, it.missing.clone(), it.invalidated))
    };
    let transactions = session.transactions.iter().map(|it| {
        let moved = (it.timing.read_bytes, it.timing.written_bytes);
        format!("{:?}", (it.direction, it.xid, it.outcome, moved, message(&it.call), message(&it.reply)))
    });
    let connections = session.connections.iter().map(|it| {
        let sent = [&it.requester, &it.responder].map(|end| {
            let sent = end.sent;
            (sent.sends, sent.writes, sent.read_requests, sent.written_bytes, sent.read_response_bytes)
        });
        format!("{:?}", (it.id, it.origin, it.state, it.call_inline_threshold, it.has_crc, sent))
    });
    transactions.chain(connections).collect()
}

/// The session does not depend on where the stream is split into segments.
#[test]
fn segment_boundaries_do_not_change_the_session() {
    for sample in ["iwarp-nfs3", "iwarp-crc-lossy", "iwarp-nfs4.1-midstream"] {
        let capture = samples::capture(sample);
        let original = results(&run(sample));
        let mut random = fastrand::Rng::with_seed(5044);
        for pieces in [2, 5] {
            let mut cut = capture.clone();
            cut.packets = Vec::new();
            for packet in &capture.packets {
                let length = packet.data.len() - payload(&packet.data);
                // A capture from midstream must begin with an FPDU.
                let mut places = vec![0, length];
                // A damaged segment stays damaged.
                let mut sealed = packet.data.clone();
                mutate::seal_segment(&mut sealed);
                let is_damaged = sample == "iwarp-crc-lossy" && sealed != packet.data;
                if cut.packets.len() > 20 && length > 1 && !is_damaged {
                    places.extend((1..pieces).map(|_| random.usize(1..length)));
                    places.sort_unstable();
                    places.dedup();
                }
                let ranges = places.windows(2).map(|pair| part(packet, pair[0], pair[1]));
                if places.len() > 2 {
                    cut.packets.extend(ranges);
                } else {
                    cut.packets.push(packet.clone());
                }
            }
            cut.renumber();
            let found = results(&session::run(&cut));
            assert!(
                found == original,
                "{sample} in {pieces}: {:?}",
                found.iter().zip(&original).find(|(a, b)| a != b)
            );
        }
    }
}

/// The reported pieces of a stream match its bytes.
#[test]
fn framed_pieces_match_the_stream() {
    for (sample, verdict) in [
        ("iwarp-nfs3", CrcVerdict::Unused),
        ("iwarp-crc-lossy", CrcVerdict::Good),
        ("iwarp-nfs4.2-nconnect", CrcVerdict::Unused),
    ] {
        let capture = samples::capture(sample);
        let (mut framed, mut starts) = (BTreeMap::new(), 0);
        let mut take = |event: Event<'_>| {
            let Event::Framed(piece) = event else { return };
            match &piece.framed.kind {
                FramedKind::Fpdu(fpdu) => {
                    assert_eq!(fpdu.crc, Some((verdict, 0)), "{sample}: {piece:?}");
                    let length = mpa::fpdu_length(fpdu.header.length() as u16 + fpdu.length as u16);
                    let of_stream: &mut Vec<_> = framed.entry(piece.ports).or_default();
                    of_stream.push((piece.framed.sequence, length));
                }
                FramedKind::Start(..) => starts += 1,
                FramedKind::Indication(_) | FramedKind::Malformed(_) => panic!("{sample}: {piece:?}"),
            }
        };
        let mut engine = Engine::new(Config { report_framed: true, ..Config::default() });
        session::records(&capture).for_each(|record| engine.handle(&record, &mut take));
        engine.finish(&mut take);
        let flows = streams::flows(&capture);
        assert_eq!((framed.len(), starts), (flows.len(), flows.len()), "{sample}");
        for flow in flows {
            let expected: Vec<_> = flow
                .fpdus
                .iter()
                .map(|fpdu| (flow.first_sequence.wrapping_add(fpdu.range.start as u32), fpdu.range.len()))
                .collect();
            assert!(expected.len() > 20 && framed[&flow.ports] == expected, "{sample}, {:?}", flow.ports);
        }
    }
}

/// Loss in the capture accuses no end, and affects only transactions to which the lost packets
/// belong.
#[test]
fn lost_segments_accuse_no_end() {
    // Linux servers leave R clear and send with Invalidate. This is visible only if the capture has
    // the start frames.
    const CLEAR: &str = "invalidation-sender-flag";
    let is_violation = |finding: &Finding| {
        judged::rule(finding).level == Level::Violation && finding.verdict == Verdict::Certain
    };
    for (sample, ends) in [("iwarp-nfs3", 1), ("iwarp-nfs4.1-midstream", 0), ("iwarp-nfs4.2-nconnect", 3)] {
        let capture = samples::capture(sample);
        let original = judged::findings(&capture);
        let original: Vec<_> = original.iter().filter(|finding| is_violation(finding)).collect();
        assert!(original.iter().all(|finding| judged::rule(finding).id == CLEAR), "{sample}");
        assert_eq!(original.len(), ends, "{sample}");
        let all = run(sample).transactions.len();
        let mut random = fastrand::Rng::with_seed(5041);
        for _ in 0..40 {
            let mut lossy = capture.clone();
            let lost: Vec<usize> =
                (0..random.usize(1..4)).map(|_| random.usize(0..capture.packets.len())).collect();
            let mut at = 0..;
            lossy.packets.retain(|_| !lost.contains(&at.next().expect("without end")));
            let violations: Vec<String> = judged::findings(&lossy)
                .iter()
                .filter(|finding| is_violation(finding) && judged::rule(finding).id != CLEAR)
                .map(judged::line)
                .collect();
            assert!(violations.is_empty(), "{sample} without {lost:?}: {violations:#?}");
            let left = session::run(&lossy).transactions.len();
            assert!(left + 2 * lost.len() >= all, "{sample} without {lost:?}: {left} of {all} transactions");
        }
    }
}

/// A capture with every segment twice has no retransmissions.
#[test]
fn segments_captured_twice_are_copies() {
    let capture = samples::capture("iwarp-nfs3");
    let original = run("iwarp-nfs3");
    let mut twice = capture.clone();
    twice.packets = capture.packets.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
    twice.renumber();
    let found = session::run(&twice);
    let (once, again) = (results(&original), results(&found));
    assert_eq!(once.iter().zip(&again).find(|(once, again)| once != again), None);
    assert_eq!(once.len(), again.len());
    assert_eq!(found.totals.copies, original.totals.segments);
    assert!(found.connections.iter().all(|it| it.requester.sent.repeated_packets == 0));
}

/// Ports can be reused, whether or not the capture has the end of the first connection and the SYNs
/// of the second.
#[test]
fn reused_ports_are_a_new_connection() {
    let first = samples::capture("iwarp-nfs3");
    let all = run("iwarp-nfs3").transactions.len();
    let mut second = first.clone();
    let lasts = first.packets[first.packets.len() - 1].time - first.packets[0].time;
    for packet in &mut second.packets {
        packet.time += lasts + 1_000_000;
        let Some(mut segment) = Segment::of(packet) else { continue };
        segment.sequence = segment.sequence.wrapping_add(0x1234_5678);
        segment.acknowledgement = segment.acknowledgement.wrapping_add(0x1234_5678);
        segment.put(packet);
    }
    let is_syn = |packet: &Packet| Segment::of(packet).is_some_and(|segment| segment.syn);
    let without_syns = mutate::keep(&second, |packet| !is_syn(packet));
    // Without the MPA Request.
    let from_reply = mutate::keep(&second, |packet| packet.number > 4);
    for (second, name) in
        [(second, "complete"), (without_syns, "without SYNs"), (from_reply, "from the Reply on")]
    {
        let session = session::run(&mutate::merge(&first, &second));
        assert_eq!((session.connections.len(), session.transactions.len()), (2, 2 * all), "{name}");
        let unended = mutate::keep(&first, |packet| packet.number < 1600);
        let session = session::run(&mutate::merge(&unended, &second));
        let starts = session.connections.iter().filter(|it| it.responder.start.is_some()).count();
        assert_eq!((session.connections.len(), starts), (2, 2), "{name}, and the first not ended");
    }
}

/// If checksums or CRCs are wrong because of the capture, verification can be turned off.
#[test]
fn checksum_verification_can_be_disabled() {
    let overlook = frame::Config { verify_icrc: false, ..frame::Config::default() };
    let run_with =
        |capture: &Capture, frame| session::run_with(capture, Config { frame, ..Config::default() });
    let original = samples::capture("iwarp-crc-lossy");
    let completed = |session: &Session| {
        let is_completed = |it: &&Transaction| it.outcome == Outcome::Completed;
        session.transactions.iter().filter(is_completed).count()
    };
    let all = completed(&run("iwarp-crc-lossy"));
    for wrong_crcs in [false, true] {
        let mut capture = original.clone();
        for packet in &mut capture.packets {
            let Some(mut segment) = Segment::of(packet).filter(Segment::is_from_client) else { continue };
            // Segments damaged on the way must not be accepted, so their payload is removed.
            if segment.checksum == Checksum::Wrong {
                segment.payload.clear();
            } else if !wrong_crcs {
                segment.checksum = Checksum::Wrong;
            } else if segment.payload.get(3) == Some(&0x43)
                && let Some(last) = segment.payload.last_mut()
            {
                *last ^= 1;
            }
            segment.put(packet);
        }
        let verified = completed(&run_with(&capture, frame::Config::default()));
        assert!(verified < all / 2, "{verified} of {all}: FPDUs with wrong sums are dropped");
        assert_eq!(completed(&run_with(&capture, overlook)), all, "wrong CRCs: {wrong_crcs}");
    }
}
