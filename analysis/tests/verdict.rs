//! The statements that lead a report, the waits of calls without a reply, and faults of the capture's clock.

use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::events::{Cause, Kind, SessionEvent};
use rdmascope_analysis::filter::TransactionFilter;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_analysis::report::{Harm, Reach, Report, Statement, of_events};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_tests::mutate;
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{samples, session};

const CLIENT: core::net::Ipv4Addr = core::net::Ipv4Addr::new(10, 9, 0, 2);
const SERVER: core::net::Ipv4Addr = core::net::Ipv4Addr::new(10, 9, 0, 1);
const SECOND: i64 = 1_000_000_000;

fn report(capture: &Capture) -> (Report, Ending, Vec<Transaction>) {
    let mut report = Report::default();
    let mut transactions = Vec::new();
    let mut engine = Engine::new(report.needs());
    let mut take = |event: Event<'_>| {
        report.handle(&event);
        if let Event::Transaction(transaction) = event {
            transactions.push(transaction.clone());
        }
    };
    session::records(capture).for_each(|record| engine.handle(&record, &mut take));
    engine.finish(&mut take);
    let ending = Ending { totals: *engine.totals(), ..Ending::default() };
    (report, ending, transactions)
}

fn leading(capture: &Capture) -> Vec<String> {
    let (report, ending, _) = report(capture);
    let verdict = report.verdict(&ending, 0);
    Statement::leading(&verdict).iter().map(|statement| statement.text.clone()).collect()
}

/// Whether a client lost its service.
fn has_outages(report: &Report, ending: &Ending) -> bool {
    report.verdict(ending, 0).iter().any(|statement| statement.is_outage)
}

/// The same session at the same time on another connection.
fn beside(capture: &Capture, qp: u32) -> Capture {
    let mut other = capture.clone();
    mutate::change_communication_ids(&mut other, qp << 16);
    mutate::renumber_qp(&mut other, CLIENT, qp);
    mutate::renumber_qp(&mut other, SERVER, qp + 1);
    other.packets.iter_mut().for_each(|packet| packet.time += i64::from(qp) * 10_000);
    other
}

#[test]
fn the_longest_outage_leads() {
    let (figures, ending, _) = report(&samples::case("c02-reconnect"));
    assert!(has_outages(&figures, &ending));
    let texts = leading(&samples::case("c02-reconnect"));
    assert_eq!(
        texts[0],
        "210 s without service on 4 connections, from 0.005 until the capture ends; 8 calls had no reply"
    );
    assert!(texts[1].starts_with("NFSv3 GETATTR under way each time 3 connections ended"), "{texts:?}");
    assert_eq!(texts.len(), 2);
    let texts = leading(&samples::case("c04"));
    assert_eq!(
        texts[0],
        "20.1 s without service on 25 connections, from 0.005 until the capture ends; the server closed them"
    );
    // Rejections are part of the outage.
    for case in ["cm-nfs-distinct", "cm-nfs-sameqp"] {
        let outage = "51 s without service on 6 connections, from 0.000 until the capture ends; the server rejected them";
        assert_eq!(leading(&samples::case(case)), [outage], "{case}");
        let (report, ending, _) = report(&samples::case(case));
        assert!(!has_outages(&report, &ending), "no connection was made");
    }
    let texts = leading(&samples::case("cm-nfs-prev-same-then"));
    assert_eq!(texts, ["61.2 s without service on 1 connection, from 0.005; the server closed it"]);
    assert_eq!(
        leading(&samples::case("c28-first")),
        ["60 s without service on 1 connection, from 0.004 until the capture ends; 1 call had no reply"]
    );
    assert_eq!(leading(&samples::case("c25-one-stuck")).len(), 1);
}

#[test]
fn simultaneous_outages_are_one_statement() {
    let one = samples::case("c02-late");
    let four =
        [0x31, 0x33, 0x35].into_iter().fold(one.clone(), |all, qp| mutate::merge(&all, &beside(&one, qp)));
    let texts = leading(&four);
    assert_eq!(texts, ["61 s without service on 4 connections, from 0.005; 32 calls waited"]);
    // One after the other, they are two.
    let mut later = beside(&one, 0x31);
    later.packets.iter_mut().for_each(|packet| packet.time += 100 * SECOND);
    let texts = leading(&mutate::merge(&one, &later));
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("from 100.0"), "{texts:?}");
}

/// The samples look up names that do not exist before they create them.
#[test]
fn errors_of_normal_operation_are_no_problems() {
    for sample in ["nfs3-basic", "nfs4.1-basic", "nfs4.2-basic", "iwarp-nfs3"] {
        let (report, ending, _) = report(&samples::capture(sample));
        assert!(!report.all_errors().is_empty(), "{sample}");
        assert!(report.errors().0.is_empty(), "{sample}: {:?}", report.errors());
        let errors: Vec<Statement> = report
            .verdict(&ending, 0)
            .into_iter()
            .filter(|statement| statement.harm == Harm::Errors)
            .collect();
        assert_eq!(errors, [], "{sample}");
    }
}

#[test]
fn unanswered_calls_have_a_waiting_time() {
    let capture = samples::case("c25-one-stuck");
    let (report, _, transactions) = report(&capture);
    let filter = TransactionFilter { latency_above: Some(1_000_000_000), ..TransactionFilter::default() };
    let slow: Vec<_> = transactions
        .iter()
        .filter(|transaction| filter.matches(&TransactionRow::from(*transaction), Time::default()))
        .collect();
    let [write] = slow.as_slice() else { panic!("{slow:#?}") };
    assert_eq!((write.outcome, write.latency()), (Outcome::NoReply, None));
    assert!(write.waited() >= Some(119_000_000_000), "{:?}", write.waited());
    let operations = report.operations();
    let (_, writes) =
        operations.iter().find(|(key, _)| key.label.to_string() == "WRITE").expect("it is listed");
    let latency = writes.latency().expect("it has waited");
    assert_eq!((writes.unanswered, latency.bound), (1, write.waited().expect("it has waited")));
    assert_eq!(latency.maximum, latency.bound);
    // The operation with the longest wait is the first.
    assert_eq!(operations[0].0.label.to_string(), "WRITE");
    // A young call is cut off.
    let start = capture.packets[0].time;
    let young = mutate::keep(&capture, |packet| packet.time - start < SECOND / 2);
    let outcomes = |capture: &Capture| {
        self::report(capture)
            .2
            .iter()
            .map(|one| one.outcome)
            .filter(|one| *one != Outcome::Completed)
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&young), [Outcome::CutOff]);
    // If packets are missing from the capture, the time is unknown.
    let lacking = mutate::keep(&capture, |packet| packet.number != 200);
    let (_, _, transactions) = self::report(&lacking);
    assert!(transactions.iter().all(|one| one.unanswered_until.is_none()));
}

#[test]
fn times_across_a_clock_step_are_unknown() {
    let capture = samples::case("clk-back37s-small");
    let (report, ending, transactions) = report(&capture);
    assert_eq!((ending.totals.clock_steps, ending.totals.first_clock_step), (1, Some(61)));
    let step = report
        .problems(&ending)
        .into_iter()
        .find(|problem| problem.name == "clock-step")
        .expect("the step is reported");
    assert_eq!((step.count, step.first_frame), (1, Some(61)));
    for one in &transactions {
        let frames =
            [&one.call, &one.reply].map(|message| message.as_ref().map(|message| message.seen.frame));
        if let [Some(call), Some(reply)] = frames {
            assert_eq!(one.latency().is_none(), call < 61 && reply >= 61, "{frames:?}");
            assert!(one.latency().is_none_or(|latency| latency < 36_000_000_000));
        }
    }
    assert!(!has_outages(&report, &ending), "{:#?}", report.events(&ending));
}

/// A step that records of several queues can have, too.
#[test]
fn calls_across_a_small_clock_step_are_answered() {
    let capture = samples::capture("nfs3-basic");
    let (_, _, whole) = report(&capture);
    for call in whole.iter().filter_map(|one| one.call.as_ref()).step_by(7) {
        for back in [3, 20, 240] {
            let mut stepped = capture.clone();
            let late = stepped.packets.iter_mut().filter(|packet| packet.number > call.seen.frame);
            late.for_each(|packet| packet.time -= back * SECOND / 1000);
            let (report, ending, transactions) = report(&stepped);
            let outcomes = |all: &[Transaction]| all.iter().map(|one| one.outcome).collect::<Vec<_>>();
            assert_eq!(
                outcomes(&transactions),
                outcomes(&whole),
                "{back} ms after frame {}",
                call.seen.frame
            );
            assert!(!has_outages(&report, &ending), "{:#?}", report.events(&ending));
        }
    }
}

#[test]
fn packets_without_time_stamps_have_no_latency() {
    let mut capture = samples::capture("nfs3-basic");
    capture.packets.iter_mut().for_each(|packet| packet.time = 0);
    let (report, ending, transactions) = report(&capture);
    assert!(transactions.iter().any(|one| one.reply.is_some()));
    assert!(transactions.iter().all(|one| one.latency().is_none() && one.waited().is_none()));
    assert!(report.operations().iter().all(|(_, stats)| stats.latency().is_none()));
    assert!(report.problems(&ending).iter().any(|problem| problem.name == "no-time-stamp"));
}

fn names(capture: &Capture) -> Vec<&'static str> {
    let (report, ending, _) = report(capture);
    report.problems(&ending).iter().map(|problem| problem.name).collect()
}

/// The client acknowledges replies that the capture lacks.
#[test]
fn replies_that_may_be_missing_are_no_waits() {
    let capture = samples::capture("nfs3-basic");
    let lacking = mutate::keep(&capture, |packet| packet.number > 60 || packet.source() != mutate::SERVER);
    let names = names(&lacking);
    assert!(names.contains(&"hidden-reply") && !names.contains(&"no-reply"), "{names:?}");
}

/// Not even the CM packets of the end have a good ICRC.
#[test]
fn an_end_without_icrcs_is_one_problem() {
    let mut capture = samples::capture("nfs3-basic");
    for packet in
        capture.packets.iter_mut().filter(|packet| packet.is_roce() && packet.source() == mutate::SERVER)
    {
        let icrc = packet.data.len() - 4;
        packet.data[icrc..].fill(0);
    }
    let names = names(&capture);
    assert!(names.contains(&"spoiled-end") && !names.contains(&"bad-icrc"), "{names:?}");
}

/// Outages of a connection that follow each other are one time without service. Calls that waited in
/// both count once.
#[test]
fn calls_of_adjacent_outages_count_once() {
    let outage = |connection: u32, from: i64, count: u64| SessionEvent {
        time: Time(from * SECOND),
        kind: Kind::ServiceLost,
        connection: ConnectionId(connection),
        other: None,
        through: Vec::new(),
        by_requester: None,
        cause: Some(Cause::NoReply),
        duration: Some(5 * SECOND.unsigned_abs()),
        count,
        frames: [Some(1), Some(2)],
        does_harm: true,
        text: String::new(),
    };
    let (report, ending, _) = report(&samples::capture("nfs3-basic"));
    let events = [outage(1, 10, 12), outage(1, 15, 11), outage(2, 15, 3)];
    let verdict = report.verdict_now(&ending, &events, &[], 0);
    let text = &verdict[0].text;
    assert!(text.ends_with("15 calls waited"), "{text}");
}

/// Few retransmissions in a long capture do not lead the report.
#[test]
fn rare_retransmissions_do_not_lead() {
    let mut capture = samples::capture("nfs4.2-mtu4096-large-io");
    let before = leading(&capture);
    let again = mutate::repeat(&capture, |packet| packet.number == 200);
    let late = again.packets.into_iter().find(|packet| packet.number == 201);
    let mut late = late.expect("it was repeated");
    late.time += 5_000_000;
    let at = capture.packets.partition_point(|packet| packet.time <= late.time);
    capture.packets.insert(at, late);
    capture.renumber();
    let harm = |capture: &Capture| {
        let (report, ending, _) = report(capture);
        let verdict = report.verdict(&ending, 0);
        let resent = verdict.into_iter().find(|statement| statement.text.ends_with("sent again"));
        resent.map(|statement| statement.harm)
    };
    assert!(capture.packets.len() > 1_000);
    assert_eq!((harm(&capture), leading(&capture)), (Some(Harm::Note), before));
    capture.packets.truncate(600);
    assert_eq!(harm(&capture), Some(Harm::Loss));
}

/// Credits that were in use for a tenth of the capture are noted.
#[test]
fn credits_in_use_for_long_are_noted() {
    let event = SessionEvent {
        time: Time(SECOND),
        kind: Kind::CreditsExhausted,
        connection: ConnectionId(1),
        other: None,
        through: Vec::new(),
        by_requester: Some(true),
        cause: None,
        duration: Some(2 * SECOND as u64),
        count: 9,
        frames: [Some(7), Some(8)],
        does_harm: true,
        text: "all 4 credits in use 9 times, 2s in total".to_owned(),
    };
    for (length, expected) in [(20, vec![Harm::Note]), (21, vec![])] {
        let reach = Reach { span: Some((Time(0), Time(length * SECOND))), is_live: false };
        let found = of_events(core::slice::from_ref(&event), reach);
        assert_eq!(found.iter().map(|statement| statement.harm).collect::<Vec<_>>(), expected, "{length}");
    }
}
