use super::*;
use crate::text::Style;
use core::net::Ipv4Addr;
use rdmascope_analysis::ending::{Cut, FileEnding};
use rdmascope_analysis::observer::Observer;
use rdmascope_capture_agent::Interface;
use rdmascope_dissector::connection::{ConnectionId, Counts, State};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::record::LinkType;
use rdmascope_dissector::transaction::{Chunk, Direction, Outcome, Security, Transaction};
use rdmascope_dissector::ulb::{Callback, Nfs4, Procedure};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples::capture as samples_of;
use rdmascope_tests::segments::{Checksum, Form, Segment};
use rdmascope_tests::values::{self as samples, START, after};
use rdmascope_tests::{mutate, session};
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma;

fn text(report: &Report, ending: &Ending) -> String {
    let mut out = Vec::new();
    Text { report, ending, style: Style::default() }.write(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    samples::show(&text);
    text
}

fn ending() -> Ending {
    let files = vec![FileEnding { name: "mount.pcap".into(), ..FileEnding::default() }];
    let input = Some("mount.pcap".into());
    let mut ending = Ending { port: 4791, files, input, ..Ending::default() };
    ending.totals.records = 3812;
    ending.totals.bytes = 2_345_678;
    ending.totals.span = Some((START, after(12_345_678)));
    ending.totals.packets = 3760;
    ending.totals.others = 52;
    ending.totals.icrc = [3760, 0, 0];
    ending.totals.cm_messages = 5;
    ending
}

fn quiet() -> Report {
    let mut report = Report::default();
    for frame in 1..100 {
        report.handle(&Event::Transaction(&samples::read(frame, 200 + frame as i64 * 7)));
    }
    report.handle(&Event::Connection(&samples::connection()));
    report
}

#[test]
fn nothing_wrong() {
    let report = text(&quiet(), &ending());
    assert!(report.contains("Nothing: every call has a reply"), "{report}");
    assert!(report.contains("end           complete\n"));
    assert!(!report.contains("\x1b["));
    assert!(report.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn many_problems() {
    let mut report = quiet();
    let mut lossy = samples::inferred();
    lossy.responder.sent.sequence_naks = 3;
    lossy.requester.sent.repeated_packets = 17;
    lossy.requester.sent.missing_packets = 2;
    lossy.responder.first_frames.sequence_nak = Some(61);
    lossy.requester.first_frames.repeated_packet = Some(64);
    report.handle(&Event::Connection(&lossy));
    let mut rejected = samples::connection();
    rejected.id = ConnectionId(3);
    rejected.state = State::Rejected(8);
    rejected.requester.first_frames.cm_message = Some(70);
    rejected.responder.first_frames.reject = Some(71);
    report.handle(&Event::Connection(&rejected));

    for frame in 200..240 {
        let names = [Nfs4::Sequence, Nfs4::Putfh, Nfs4::Lookup, Nfs4::Getfh];
        let mut lookup = samples::compound(&names, 0, frame, 90 + frame as i64 % 11);
        if frame % 4 == 0 {
            lookup.details.operations.truncate(3);
            lookup.details.operations[2].status = Some(13);
            lookup.status = Some(13);
        }
        report.handle(&Event::Transaction(&lookup));
    }
    report.handle(&Event::Transaction(&samples::full()));
    let mut recall = samples::compound(&[Callback::Sequence, Callback::Recall], 0, 300, 1500);
    recall.procedure = Some(Procedure { program: 0x4000_0000, version: 1, number: 1 });
    recall.direction = Direction::Backward;
    report.handle(&Event::Transaction(&recall));
    let mut lost = samples::read(400, 1);
    lost.reply = None;
    lost.status = None;
    lost.outcome = Outcome::NoReply;
    report.handle(&Event::Transaction(&lost));
    report.handle(&Event::Eviction(Eviction::Connection(ConnectionId(9))));

    let mut ending = ending();
    ending.totals.icrc = [3757, 3, 0];
    ending.files[0].cut = Some(Cut { offset: 2_345_000, needed: 1090, available: 678 });
    ending.files[0].is_compressed = true;
    let report = text(&report, &ending);
    for part in [
        "cut short at byte 2345000 after decompression: 1,090 bytes needed, 678 available; analyzed up to there",
        "3 bad",
        "3 connections",
        "NFSv4.1, backward",
        "NFS4ERR_ACCESS (13)",
        "first in frame 202",
        "        17  packets sent again; first in frame 64",
        "PSN sequence error NAKs: packets were lost or reordered in the network; first in frame 61",
        "         1  connection rejected; first in frame 71",
        "         2  packets missing from the capture",
        "rejected, reason 8: invalid service ID",
        "its traffic: acknowledged PSNs and XIDs agree",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert!(!report.contains("Nothing"));
    assert!(report.lines().all(|line| line.chars().count() <= 120));
}

/// The report of a capture, and its totals.
fn of_capture(capture: &Capture) -> (Report, Ending) {
    let (mut engine, mut report) = (Engine::new(Config::default()), Report::default());
    session::records(capture).for_each(|record| engine.handle(&record, &mut |event| report.handle(&event)));
    engine.finish(&mut |event| report.handle(&event));
    (report, Ending { totals: *engine.totals(), ..ending() })
}

/// The problems of a capture: group, name, count.
fn problems(capture: &Capture) -> Vec<(Group, &'static str, u64)> {
    let (report, ending) = of_capture(capture);
    report.problems(&ending).iter().map(|problem| (problem.group, problem.name, problem.count)).collect()
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

#[test]
fn encrypted_replies_have_unknown_status() {
    let mut report = quiet();
    let mut sealed = samples::transaction(Procedure { program: 100_003, version: 4, number: 1 }, 500, 10);
    sealed.security = Some(Security::GssPrivacy);
    sealed.status = None;
    report.handle(&Event::Transaction(&sealed));
    let shown = text(&report, &ending());
    let frame = sealed.reply.as_ref().unwrap().seen.frame;
    let expected = format!("1  encrypted reply (krb5p): status unknown; first in frame {frame}");
    assert!(shown.contains(&expected), "{shown}");
    assert!(!shown.contains("no error"), "{shown}");
    // With integrity protection, the status is readable.
    let mut report = quiet();
    let open = Transaction { security: Some(Security::GssIntegrity), status: Some(0), ..sealed };
    report.handle(&Event::Transaction(&open));
    assert!(text(&report, &ending()).contains("Nothing: every call has a reply"));
}

/// The responder's Read chunks were not pulled, so nothing is missing from the capture.
#[test]
fn unpulled_replies_are_no_capture_problem() {
    let capture = samples_of(rdmascope_tests::samples::RELIABLE_REPLY);
    let problems = problems(&capture);
    assert!(problems.iter().all(|(group, ..)| *group != Group::Capture), "{problems:?}");
    assert!(problems.contains(&(Group::Transactions, "missing-bytes", 5)), "{problems:?}");
    let (report, ending) = of_capture(&capture);
    let text = text(&report, &ending);
    let replies = "\nReplies  2 inline, 1 in the Reply chunk, 7 in a Read chunk of the responder\n";
    assert!(text.contains(replies), "{text}");
}

/// RFC 8166, section 3.5.3: the Payload stream of an RDMA_NOMSG is in a chunk.
#[test]
fn reply_without_rpc_message_is_a_problem() {
    for (chunk, is_empty) in [(None, true), (Some(0), true), (Some(28), false)] {
        let mut reading = samples::read(500, 10);
        let segments = |length| vec![rpcrdma::Segment { handle: Rkey(1), length, offset: 0 }];
        let reply = reading.reply.as_mut().expect("it has a reply");
        reply.procedure = rpcrdma::Procedure::Nomsg;
        reply.reply_chunk = chunk.map(|length| Chunk { segments: segments(length) });
        let mut report = quiet();
        let frame = reply.seen.frame;
        report.handle(&Event::Transaction(&reading));
        let shown = text(&report, &ending());
        let expected = format!("1  reply that conveys no RPC message; first in frame {frame}");
        assert_eq!(shown.contains(&expected), is_empty, "{shown}");
        assert_eq!(shown.contains("Nothing: every call has a reply"), !is_empty, "{shown}");
    }
}

#[test]
fn one_direction_is_a_capture_problem() {
    let capture = samples_of("nfs3-basic");
    // 265 calls, as counted by the client's tracepoints.
    for (from_client, name) in [(true, "one-direction"), (false, "one-direction-replies")] {
        for capture in [&capture, &mutate::without_cm(&capture)] {
            let one = mutate::keep(capture, |packet| (packet.source() == CLIENT) == from_client);
            let found = problems(&one);
            assert!(found.contains(&(Group::Capture, name, 265)), "{found:?}");
            assert!(found.iter().all(|(group, ..)| *group == Group::Capture), "{found:?}");
            let (report, ending) = of_capture(&one);
            assert!(!text(&report, &ending).contains("snap length"));
        }
        // With the CM messages of both ends. The packets of one end show that the other end sent
        // some.
        let managed = mutate::keep(&capture, |packet| {
            (packet.source() == CLIENT) == from_client || packet.cm_attribute().is_some()
        });
        let found = problems(&managed);
        assert!(found.contains(&(Group::Capture, name, 265)), "{found:?}");
        assert!(found.iter().all(|(group, ..)| *group == Group::Capture), "{found:?}");
    }
    // Another connection has packets from the server.
    let (mut dead, alive) = (samples::inferred(), samples::connection());
    dead.responder.sent = Counts::default();
    dead.requester.sent = Counts { packets: 5, sends: 5, ..Counts::default() };
    let mut lost = samples::read(400, 1);
    (lost.reply, lost.status, lost.outcome, lost.connection) = (None, None, Outcome::NoReply, dead.id);
    for (also, name) in [(None, "one-direction"), (Some(alive), "no-reply")] {
        let mut report = Report::default();
        report.handle(&Event::Transaction(&lost));
        report.handle(&Event::Connection(&dead));
        also.iter().for_each(|connection| report.handle(&Event::Connection(connection)));
        let found: Vec<_> = report.problems(&ending()).iter().map(|problem| problem.name).collect();
        assert_eq!(found, [name]);
    }
    // The server's packets stop in the middle of the capture.
    let half = capture.packets.len() as u64 / 2;
    let silent = mutate::keep(&capture, |packet| packet.source() == CLIENT || packet.number < half);
    let found = problems(&silent);
    assert!(found.iter().any(|(_, name, _)| *name == "hidden-reply"), "{found:?}");
    assert!(!found.iter().any(|(_, name, _)| name.starts_with("one-direction")), "{found:?}");
}

/// The Linux server of the samples clears R in its private data, but sends replies by SEND with
/// Invalidate.
#[test]
fn remote_invalidation_is_shown_as_agreed_and_as_used() {
    let full = samples_of("nfs4.1-basic");
    let managed = "remote invalidation not agreed; used by the server";
    let later = "remote invalidation unknown; used by the server";
    for (capture, expected) in [(&full, managed), (&mutate::without_cm(&full), later)] {
        let (report, ending) = of_capture(capture);
        assert!(text(&report, &ending).contains(&format!("{expected}\n")), "{}", text(&report, &ending));
    }
    let mut connection = samples::connection();
    let mut shown = |agreed: Option<bool>, by_requester: u64, by_responder: u64| {
        connection.remote_invalidation = agreed;
        connection.requester.sent.invalidations = by_requester;
        connection.responder.sent.invalidations = by_responder;
        rdmascope_analysis::names::Invalidation(&connection).to_string()
    };
    assert_eq!(shown(Some(true), 1, 2), "on");
    assert_eq!(shown(Some(false), 0, 0), "off");
    assert_eq!(shown(Some(false), 1, 0), "not agreed; used by the client");
    assert_eq!(shown(Some(false), 1, 2), "not agreed; used by both ends");
    assert_eq!(shown(None, 0, 0), "unknown");
    assert_eq!(shown(None, 0, 1), "unknown; used by the server");
}

#[test]
fn traffic_without_rpc_has_no_problems() {
    for (kind, message) in mutate::FOREIGN {
        let mut capture = mutate::without_cm(&samples_of("nfs3-basic"));
        mutate::carry(&mut capture, message);
        let (report, ending) = of_capture(&capture);
        let nothing = report.nothing_wrong(&ending, &report.verdict(&ending, 0));
        let problems = problems(&capture);
        assert!(
            nothing.is_some_and(|text| text.contains("contains no RPC transactions")),
            "{kind}: {problems:?}"
        );
        let connection = report.connections().0.first().expect("at least one connection");
        let name = connection.protocol.map(|protocol| protocol.name());
        assert_eq!(name, kind.starts_with("IPoIB").then_some("IPoIB-CM"), "{kind}");
        assert_eq!((connection.call_inline_threshold, ending.totals.transactions), (None, [0; 5]));
        // As a control, the unmodified packets.
        assert!(of_capture(&mutate::without_cm(&samples_of("nfs3-basic"))).1.totals.transactions[0] > 200);
    }
}

#[test]
fn bad_icrcs_are_classified_by_extent() {
    let spoil = |whose: fn(&Packet, u64) -> bool| {
        let mut capture = samples_of("nfs3-basic");
        for packet in capture.packets.iter_mut().filter(|packet| packet.is_roce()) {
            if whose(packet, packet.number) {
                *packet.data.last_mut().unwrap() ^= 0x55;
            }
        }
        of_capture(&capture)
    };
    let found = |(report, ending): &(Report, Ending)| {
        let problems = report.problems(ending);
        let icrc = problems.iter().filter(|problem| problem.description().contains("bad ICRC"));
        icrc.map(|problem| (problem.group, problem.name, problem.first_frame)).collect::<Vec<_>>()
    };
    // All of them: none is excluded.
    let all = spoil(|_, _| true);
    assert_eq!(found(&all), [(Group::Capture, "bad-icrc", None)]);
    assert!(text(&all.0, &all.1).contains("none with a good one: ICRCs assumed not computed"));
    assert!(!text(&all.0, &all.1).contains("with a bad ICRC, ignored"));
    // Those of one end.
    let one = spoil(|packet, _| packet.source() == CLIENT && packet.is_rc());
    let [(Group::Capture, "spoiled-end", Some(_))] = found(&one)[..] else { panic!("{:?}", found(&one)) };
    assert!(
        text(&one.0, &one.1)
            .contains("from an end that sent no others: ICRC computed after capture? See --no-icrc")
    );
    let names: Vec<_> = one.0.problems(&one.1).iter().map(|problem| problem.name).collect();
    assert!(!names.contains(&"no-call"), "{names:?}");
    // A few.
    let few = spoil(|packet, number| packet.source() == CLIENT && packet.is_rc() && number % 50 == 0);
    let [(Group::Transport, "bad-icrc", Some(frame))] = found(&few)[..] else { panic!("{:?}", found(&few)) };
    assert_eq!(frame % 50, 0);
}

#[test]
fn a_bad_tcp_checksum_is_no_bad_icrc() {
    let (report, ending) = of_capture(&samples_of("iwarp-crc-lossy"));
    let problems = report.problems(&ending);
    let named = |name: &str| problems.iter().find(|problem| problem.name == name);
    // tshark also finds these ten.
    let damaged = named("bad-checksum").expect("the network broke some");
    assert_eq!((damaged.group, damaged.count, damaged.first_frame), (Group::Transport, 10, Some(117)));
    assert!(named("bad-icrc").is_none() && named("spoiled-end").is_none());
}

/// All segments of one end are wrong. An adapter that completes checksums does not cause this.
#[test]
fn bad_checksums_of_one_end_are_a_capture_problem() {
    let mut capture = Form::Sealed.apply(&samples_of("iwarp-nfs3"));
    for packet in &mut capture.packets {
        let Some(mut segment) = Segment::of(packet).filter(Segment::is_from_client) else { continue };
        segment.checksum = Checksum::Wrong;
        segment.put(packet);
    }
    let (report, ending) = of_capture(&capture);
    let problems = report.problems(&ending);
    let named = |name: &str| problems.iter().find(|problem| problem.name == name);
    let end = named("damaged-end").expect("the client's are wrong");
    assert_eq!(end.group, Group::Capture);
    assert!(named("bad-checksum").is_none() && named("no-call").is_none());
    assert!(
        text(&report, &ending)
            .contains("from an end that sent no others: changed after capture? See --no-icrc")
    );
}

#[test]
fn truncated_compounds_are_not_counted_as_sequence() {
    let capture = samples_of("nfs4.1-basic");
    let counted = |capture: &Capture, name: &str| -> u64 {
        let (report, _) = of_capture(capture);
        let operations = report.operations();
        operations
            .iter()
            .filter(|(key, _)| key.label.to_string().starts_with(name))
            .map(|(_, stats)| stats.count)
            .sum()
    };
    let full = counted(&capture, "SEQUENCE");
    assert_eq!(counted(&capture, "cut after"), 0);
    let mut cut_after_sequence = 0;
    for snap_length in (160..300).step_by(10) {
        let cut = mutate::cut(&capture, snap_length);
        assert!(counted(&cut, "SEQUENCE") <= full, "{snap_length}");
        cut_after_sequence += counted(&cut, "cut after SEQUENCE");
    }
    assert!(cut_after_sequence > 0);
}

#[test]
fn several_files() {
    let mut ending = ending();
    ending.files[0].cut = Some(Cut { offset: 2_345_000, needed: 1090, available: 678 });
    ending.files.push(FileEnding { name: "-".into(), ..FileEnding::default() });
    let trouble = Some(rdmascope_capture_agent::Error::Read {
        name: "c.pcap".into(),
        offset: 77,
        error: std::io::Error::other("no such block"),
    });
    ending.files.push(FileEnding { name: "c.pcap".into(), trouble, ..FileEnding::default() });
    let mut report = Report::default();
    report.handle(&Event::Connection(&samples::connection()));
    let report = text(&report, &ending);
    for part in [
        "Capture of 3 files\n",
        "  files         mount.pcap: cut short at byte 2345000: 1,090 bytes needed, 678 available; analyzed up to there\n",
        "                standard input: complete\n",
        "                c.pcap: unreadable from here: c.pcap: byte 77: cannot be read further: no such block\n",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert!(!report.contains("Nothing"));
}

/// The loopback device shows each packet twice.
#[test]
fn copies_have_a_reason() {
    let mut ending = ending();
    ending.totals.copies = 25;
    assert!(
        text(&Report::default(), &ending).contains("25 packets captured twice (two capture points, a mirror")
    );
    let mut loopback = Interface::new(1, 0, LinkType::ETHERNET);
    loopback.name = Some("lo".to_owned());
    ending.files[0].interfaces = vec![loopback];
    let report = text(&Report::default(), &ending);
    assert!(report.contains("25 packets captured twice (the loopback device lo shows"), "{report}");
}

#[test]
fn dropped_packets_are_reported() {
    let mut ending = ending();
    let mut report = Report::default();
    report.handle(&Event::Connection(&samples::connection()));
    assert!(!text(&report, &ending).contains("dropped while capturing"));
    let mut named = Interface::new(1, 0, LinkType::ETHERNET);
    named.name = Some("ens1f0\u{1b}".to_owned());
    named.statistics.dropped_by_interface = Some(1200);
    named.statistics.dropped_by_system = Some(34);
    let mut other = Interface::new(1, 1, LinkType::ETHERNET);
    other.dropped_before_packets = 1;
    let clean = Interface::new(1, 2, LinkType::ETHERNET);
    ending.files[0].interfaces = vec![named, other, clean];
    let shown = text(&report, &ending);
    for part in [
        "lost          1,234 packets dropped while capturing at ens1f0\\u{1b}, according to the capture; \
         they may explain findings\n",
        "lost          1 packet dropped while capturing at interface 1, according to the capture; they may \
         explain findings\n",
        "       1,235  packets dropped while capturing, as recorded in the capture\n",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert_eq!(shown.matches("\n  lost ").count(), 2);
    ending.files.push(FileEnding { name: "other.pcap".into(), ..FileEnding::default() });
    assert!(text(&report, &ending).contains("  lost          mount.pcap: 1,234 packets dropped while"));
}

#[test]
fn an_empty_capture() {
    let report = text(&Report::default(), &Ending { port: 4791, ..Ending::default() });
    assert!(report.contains("none; RoCEv2 is expected at UDP port 4791 (--port)"), "{report}");
    assert!(report.contains("no RoCE packets"));
}

#[test]
fn iwarp_is_reported_if_no_roce_is_present() {
    let mut ending = Ending { port: 4791, ..Ending::default() };
    ending.totals.traffic.add(rdmascope_dissector::protocol::Traffic::Iwarp, 3);
    let text = Report::default().nothing_wrong(&ending, &[]);
    let expected = "Nothing visible: no RoCE packets; 3 packets are iWARP (TCP port 20049 or an MPA start frame: handshakes, and connections that were not followed).";
    assert_eq!(text.as_deref(), Some(expected));
    ending.totals.cut_records = 3;
    let text = Report::default().nothing_wrong(&ending, &[]).expect("nothing is wrong");
    assert!(text.contains("the snap length cut packets: start frames and FPDUs need 20 bytes"), "{text}");
    let nothing = Ending { port: 4791, ..Ending::default() };
    assert!(Report::default().nothing_wrong(&nothing, &[]).is_some_and(|text| !text.contains("iWARP")));
}
