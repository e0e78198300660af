use super::*;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::ulb::{Operation, OperationKind, Procedure};
use rdmascope_tests::values as samples;

#[test]
fn shares_are_fractions_of_the_total_time() {
    let mut operations = Operations::default();
    operations.count(&samples::full());
    let all = operations.by_time();
    let [(key, stats)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(key.label.to_string(), "WRITE");
    assert_eq!(stats.bytes, 8192 + 4);
    // 10 us call, then 2500 us of latency: 50 us to the ACK, 20 us sending and 30 us server, 1000 us
    // Reads, 200 us sending and 1000 us server, 100 us Writes, 100 us reply.
    let expected = [10.0, 50.0, 20.0, 30.0, 1000.0, 200.0, 1000.0, 100.0, 100.0];
    let expected = expected.map(|phase: f64| phase / 2510.0);
    for (share, expected) in stats.shares().unwrap().into_iter().zip(expected) {
        assert!((share - expected).abs() < 1e-9, "{share} {expected}");
    }
}

/// Only a capture at the server shows that the time after RDMA Reads is the server's.
#[test]
fn time_after_rdma_reads_may_be_that_of_the_network() {
    let after_reads = |round_trip: u64| {
        let mut report = Report::default();
        report.handle(&Event::Transaction(&samples::full()));
        let mut connection = samples::connection();
        let trips = connection.requester.round_trips.as_mut().unwrap();
        (trips.minimum, trips.median) = (round_trip, round_trip);
        report.handle(&Event::Connection(&connection));
        report.share_after_reads()
    };
    assert_eq!(after_reads(1_000), 0.0);
    assert!((after_reads(90_000) - 1000.0 / 2510.0).abs() < 1e-9);
    assert!((after_reads(12_000) - 1000.0 / 2510.0).abs() < 1e-9);
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
fn the_lowest_connection_numbers_are_shown() {
    let mut report = Report::default();
    for id in (2..=200).rev().chain([1]) {
        let connection = Connection { id: ConnectionId(id), ..samples::connection() };
        report.handle(&Event::Connection(&connection));
    }
    let shown: Vec<u32> = report.connections.iter().map(|connection| connection.id.0).collect();
    assert_eq!(shown, (1..=64).collect::<Vec<_>>());
    assert_eq!(report.further_connections, 200 - 64);
}

#[test]
fn texts_agree_in_number_with_their_count() {
    let text = "repl{y|ies} to {a call|calls} of packet{s}";
    assert_eq!(problems::in_number(text, true), "reply to a call of packet");
    assert_eq!(problems::in_number(text, false), "replies to calls of packets");
    assert_eq!(problems::in_number("RDMA", true), "RDMA");
}
