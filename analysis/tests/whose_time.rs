//! The server's time by the wire, compared with the kernel's record of the server's work.

use rdmascope_analysis::kernel::{Joining, KernelTrace, Point, TraceResults};
use rdmascope_analysis::observer::Observer;
use rdmascope_capture_agent::trace::Trace;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_tests::{Differences, samples, session};

/// A call whose end of work the server's kernel recorded, in nanoseconds.
struct Known {
    phases: Phases,
    /// From the dispatch of the call until its chunks are encoded.
    handler: u64,
    /// From the arrival of the call until its chunks are encoded, by the clock of the capture, with
    /// the uncertainty of the clock.
    before_post: u64,
}

fn known(results: &TraceResults, transactions: &[Transaction]) -> Vec<Known> {
    let of_call = |transaction: &Transaction| {
        let phases = Phases::of(transaction)?;
        let mut calls = results.trace.calls.iter().filter(|call| call.xid == transaction.xid.0);
        let call = calls.next().filter(|_| calls.next().is_none())?;
        let (decoded, encoded) = (call.time(Point::Decoded)?, call.time(Point::Encoded)?);
        let window = results.clock.window(encoded)?;
        let arrived = transaction.call.as_ref()?.seen.time.0;
        let before_post = u64::try_from(encoded + window.offset - arrived).unwrap_or(0);
        let handler = u64::try_from(encoded - decoded).ok()?;
        Some(Known { phases, handler, before_post: before_post + window.uncertainty? })
    };
    let forward = |transaction: &&Transaction| transaction.direction == Direction::Forward;
    transactions.iter().filter(forward).filter_map(of_call).collect()
}

fn session_of(sample: &str) -> (TraceResults, Vec<Transaction>) {
    let capture = samples::capture(sample);
    let mut joining = Joining::default();
    let mut transactions = Vec::new();
    let mut engine = Engine::new(Config::default());
    let mut handle = |event: Event<'_>| {
        joining.handle(&event);
        if let Event::Transaction(transaction) = event {
            transactions.push(transaction.clone());
        }
    };
    for record in session::records(&capture) {
        engine.handle(&record, &mut handle);
    }
    engine.finish(&mut handle);
    let span = engine.totals().span;
    let text = samples::text(sample, "server.trace");
    let mut trace = Trace::new("trace".into(), text.as_bytes()).expect("it is text");
    let trace = KernelTrace::read(&mut trace).expect("it has lines of a trace");
    (joining.join(trace, span, false), transactions)
}

/// Sums of several calls.
struct Sums {
    calls: u64,
    /// The phases that may contain work of the server: until the ACK, sending, server.
    until_ack: u64,
    sending: u64,
    server: u64,
    handler: u64,
    before_post: u64,
}

impl Sums {
    fn of<'a>(known: impl Iterator<Item = &'a Known> + Clone) -> Sums {
        let sum = |of: fn(&Known) -> u64| known.clone().map(of).sum();
        Sums {
            calls: known.clone().count() as u64,
            until_ack: sum(|it| it.phases.times[1]),
            sending: sum(|it| it.phases.sending()),
            server: sum(|it| it.phases.server()),
            handler: sum(|it| it.handler),
            before_post: sum(|it| it.before_post),
        }
    }
}

/// The calls with chunks to write: the kernel encodes the chunks when the server has finished its
/// work.
///
/// If the call was acknowledged, the server's time by the wire is at most that from the arrival of
/// the call to that moment. Otherwise it also has the way to and through the network, which the
/// wire does not show. With the phases in which the server may have worked unseen, it is at least
/// the time of the handler.
#[test]
fn server_time_covers_only_the_servers_work() {
    /// Nanoseconds of a call in which packets may have been lost before the capture point.
    const LOST: u64 = 10_000_000;
    let mut differences = Differences::of("time of the server");
    let mut found = 0;
    for sample in samples::complete_sessions() {
        let (results, transactions) = session_of(sample);
        let known = known(&results, &transactions);
        for acknowledged in [true, false] {
            let some = known.iter().filter(|it| it.phases.acknowledged == acknowledged);
            let Sums { calls, until_ack, sending, server, handler, before_post } = Sums::of(some);
            let label = format!(
                "{sample}, {calls} calls{}: {} us sending, {} us server, {} us until ACK; by the trace {} us \
                 handler, {} us before the post",
                if acknowledged { "" } else { " without ACK" },
                sending / 1_000,
                server / 1_000,
                until_ack / 1_000,
                handler / 1_000,
                before_post / 1_000,
            );
            println!("{label}");
            let lost = if sample.contains("lossy") { calls * LOST } else { 0 };
            differences.check(!acknowledged || server <= before_post + lost, label.clone());
            differences.check(until_ack + sending + server >= handler, label);
            found += calls;
        }
    }
    differences.end();
    assert!(found > 300, "{found} calls");
}
