use super::*;
use crate::observer::Observer;
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{Nfs4, Operation, Procedure};
use rdmascope_tests::values as samples;

const THRESHOLDS: Thresholds = Thresholds { latency_ratio: 1.1, count_ratio: 1.1, significance: 0.01 };

fn side(transactions: &[Transaction], connections: &[Connection]) -> Side {
    let mut side = Side::default();
    let transactions = transactions.iter().map(Event::Transaction);
    for event in transactions.chain(connections.iter().map(Event::Connection)) {
        side.handle(&event);
    }
    side
}

fn compare(a: &Side, b: &Side) -> Vec<Difference> {
    Comparison::of([a, b], &THRESHOLDS).differences
}

/// The only comparison with this name.
fn only<'a>(differences: &'a [Difference], name: &str) -> &'a Difference {
    let found: Vec<_> = differences.iter().filter(|difference| difference.name == name).collect();
    let [difference] = found.as_slice() else { panic!("{name}: {found:?} of {differences:#?}") };
    difference
}

fn differing(differences: &[Difference]) -> Vec<&'static str> {
    let differing = differences.iter().filter(|difference| difference.verdict == Verdict::Differs);
    differing.map(|difference| difference.name).collect()
}

fn reads(latencies: impl IntoIterator<Item = i64>) -> Vec<Transaction> {
    (1..).zip(latencies).map(|(frame, latency)| samples::read(frame, latency)).collect()
}

/// Memory is bounded for any numbers in a capture.
#[test]
fn memory_is_bounded() {
    const EITHER: [Nfs4; 2] = [Nfs4::Sequence, Nfs4::Putfh];
    let mut side = Side::default();
    for number in 0..5000_u32 {
        let mut transaction = samples::transaction(Procedure { program: number, version: 1, number }, 1, 1);
        transaction.security = Some(rdmascope_dissector::transaction::Security::Other(number));
        side.handle(&Event::Transaction(&transaction));
        let mut compound = samples::compound(&[Nfs4::Write], 0, 1, 1);
        let kinds = (0..12).map(|bit| EITHER[usize::from(number >> bit & 1 == 1)]);
        compound.details.operations.extend(kinds.map(|kind| Operation::new(kind.into())));
        side.handle(&Event::Transaction(&compound));
        let mut connection = samples::connection();
        connection.path_mtu = Some(number as u16);
        side.handle(&Event::Connection(&connection));
    }
    assert!(side.operations.iter().count() <= 257);
    assert_eq!(side.transactions(), 10_000);
    assert!(side.operations.iter().all(|(_, counted)| counted.compounds.0.len() <= 32));
    assert!(side.security.0.len() <= 16);
    assert!(side.connections.parameters.iter().all(|values| values.0.len() <= 16));
    compare(&side, &side);
}

/// An inconclusive finding of one side is no difference: its capture may lack packets.
#[test]
fn inconclusive_findings_are_no_difference() {
    let with = |verdict| {
        let mut side = side(&reads(100..150), &[samples::connection()]);
        side.findings.take(&Finding { verdict, ..samples::finding() });
        side
    };
    let stands = with(rdmascope_conformance::Verdict::Certain);
    let inconclusive = with(rdmascope_conformance::Verdict::Inconclusive);
    let differences = compare(&stands, &inconclusive);
    assert_eq!(only(&differences, "credit-limit").verdict, Verdict::Unknown);
    assert!(differing(&differences).is_empty());
    let neither = compare(&inconclusive, &inconclusive);
    assert!(neither.iter().all(|difference| difference.area != Area::Conformance));
    let clean = side(&reads(100..150), &[samples::connection()]);
    assert_eq!(differing(&compare(&stands, &clean)), ["credit-limit"]);
    assert_eq!(differing(&compare(&stands, &stands)), [""; 0]);
}
