use super::*;
use crate::ending::{Cut, FileEnding};
use crate::text::Style;
use rdmascope_capture_agent::Interface;
use rdmascope_dissector::connection::{ConnectionId, State};
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::record::LinkType;
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_dissector::ulb::{Callback, Nfs4, Operation, OperationKind, Procedure};
use rdmascope_tests::values::{self as samples, START, after};

fn text(report: &Report, ending: &Ending) -> String {
    let mut out = Vec::new();
    report.write_text(ending, Style::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    samples::show(&text);
    text
}

fn ending() -> Ending {
    let files = vec![FileEnding { name: "mount.pcap".into(), ..FileEnding::default() }];
    let mut ending = Ending { port: 4791, files, ..Ending::default() };
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
    assert!(report.contains("Nothing: every call has its reply"), "{report}");
    assert!(report.contains("whole: the file ends where a packet ends"));
    assert!(!report.contains("\x1b["));
    assert!(report.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn much_wrong() {
    let mut report = quiet();
    let mut lossy = samples::inferred();
    lossy.responder.sent.sequence_naks = 3;
    lossy.requester.sent.repeated_packets = 17;
    lossy.requester.sent.missing_packets = 2;
    report.handle(&Event::Connection(&lossy));
    let mut rejected = samples::connection();
    rejected.id = ConnectionId(3);
    rejected.state = State::Rejected(8);
    report.handle(&Event::Connection(&rejected));

    for frame in 200..240 {
        let names = [Nfs4::Sequence, Nfs4::Putfh, Nfs4::Lookup, Nfs4::Getfh];
        let mut lookup = samples::compound(&names, 0, frame, 90 + frame as i64 % 11);
        if frame % 4 == 0 {
            lookup.details.operations.truncate(3);
            lookup.details.operations[2].status = Some(2);
            lookup.status = Some(2);
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
    let report = text(&report, &ending);
    for part in [
        "cut short at byte 2345000: 1,090 bytes needed, 678 there; analyzed up to here",
        "3 bad",
        "3 connections",
        "NFSv4.1, backward",
        "NFS4ERR_NOENT (2)",
        "first in frame 202",
        "        17  packets sent again",
        "         2  packets that were sent and are not in the capture",
        "rejected, reason 8",
        "its traffic: acknowledged PSNs and XIDs agree",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert!(!report.contains("Nothing"));
    assert!(report.lines().all(|line| line.chars().count() <= 120));
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
        "  files         mount.pcap: cut short at byte 2345000: 1,090 bytes needed, 678 there; analyzed up to here\n",
        "                standard input: whole: the file ends where a packet ends\n",
        "                c.pcap: unreadable from here on: c.pcap: byte 77: cannot be read further: no such block\n",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert!(!report.contains("Nothing"));
}

#[test]
fn the_capture_says_what_it_lost() {
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
    let whole = Interface::new(1, 2, LinkType::ETHERNET);
    ending.files[0].interfaces = vec![named, other, whole];
    let shown = text(&report, &ending);
    for part in [
        "  lost          1,234 packets dropped while capturing at ens1f0\\u{1b}, as the capture says; findings may rest on them\n",
        "  lost          1 packet dropped while capturing at interface 1, as the capture says; findings may rest on them\n",
        "       1,235  packets that were dropped while capturing, as the capture says itself\n",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert_eq!(shown.matches("\n  lost ").count(), 2);
    ending.files.push(FileEnding { name: "other.pcap".into(), ..FileEnding::default() });
    assert!(text(&report, &ending).contains("  lost          mount.pcap: 1,234 packets dropped while"));
}

#[test]
fn nothing_at_all() {
    let report = text(&Report::default(), &Ending { port: 4791, ..Ending::default() });
    assert!(report.contains("none; RoCEv2 was looked for at UDP port 4791 (--port)"), "{report}");
    assert!(report.contains("there is no RoCE packet"));
}

#[test]
fn shares_are_of_the_whole_time() {
    let mut operations = Operations::default();
    operations.count(&samples::full());
    let all = operations.by_time();
    let [(key, stats)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(key.label.to_string(), "WRITE");
    assert_eq!(stats.bytes, 8192 + 4);
    // 10 us call, then 2500 us of latency: 1000 us Reads, 100 us Writes, 100 us reply.
    let expected = [10.0, 1000.0, 1300.0, 100.0, 100.0].map(|phase: f64| phase / 2510.0);
    for (share, expected) in stats.shares().unwrap().into_iter().zip(expected) {
        assert!((share - expected).abs() < 1e-9, "{share} {expected}");
    }
}

#[test]
fn latencies() {
    let mut operations = Operations::default();
    for frame in 1..=1000 {
        operations.count(&samples::read(frame, frame as i64));
    }
    let all = operations.by_time();
    let latency = all[0].1.latency().unwrap();
    assert_eq!((latency.minimum, latency.maximum), (1000, 1_000_000));
    assert!(latency.median.abs_diff(500_000) < 500, "{latency:?}");
    assert!(latency.p99.abs_diff(990_000) < 1000, "{latency:?}");
}

#[test]
fn the_number_of_operations_is_bounded() {
    let mut report = Report::default();
    for number in 0..10_000 {
        let procedure = Procedure { program: number, version: 1, number };
        let mut transaction = samples::transaction(procedure, 1, 1);
        transaction.status = Some(number + 1);
        transaction.details.operations = vec![Operation::new(OperationKind::Unknown(number))];
        report.handle(&Event::Transaction(&transaction));
        report.handle(&Event::Connection(&samples::connection()));
    }
    let operations = report.operations.by_time();
    assert!(operations.len() <= 257);
    assert_eq!(operations.iter().map(|(_, stats)| stats.count).sum::<u64>(), 10_000);
    let errors = report.problems.errors.by_count();
    let kept: u64 = errors.iter().map(|(_, error)| error.count).sum();
    assert_eq!(kept + report.problems.errors.further, 10_000);
    assert_eq!(report.connections.len() as u64 + report.further_connections, 10_000);
}

#[test]
fn the_first_connections_are_shown_whichever_ends_first() {
    let mut report = Report::default();
    for id in (2..=200).rev().chain([1]) {
        let connection = Connection { id: ConnectionId(id), ..samples::connection() };
        report.handle(&Event::Connection(&connection));
    }
    let shown: Vec<u32> = report.connections.iter().map(|connection| connection.id.0).collect();
    assert_eq!(shown, (1..=64).collect::<Vec<_>>());
    assert_eq!(report.further_connections, 200 - 64);
}
