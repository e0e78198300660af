//! Input from the kernel: traces as text, answers of rdma netlink, inventories.

use crate::capture_engine::records;
use crate::driver;
use rdmascope_analysis::kernel::{Joined, Joining, KernelTrace, TraceResults};
use rdmascope_analysis::observer::Observer;
use rdmascope_capture_agent::inventory::netlink::{cm_ids, devices, queue_pairs};
use rdmascope_capture_agent::inventory::{connected, from_text, to_text};
use rdmascope_capture_agent::trace::{LineContent, Trace, read};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::json;
use rdmascope_present::page;
use rdmascope_present::text::Style;
use std::sync::LazyLock;

/// Reads any bytes as a trace, at once and line by line, and compares the events. Then assembles
/// calls from it, and joins them to real sessions.
pub fn trace(data: &[u8]) {
    events(data);
    for session in &*SESSIONS {
        let [one, other] = [false, true].map(|is_of_capture| {
            let read = read_calls(data)?;
            let calls = read.calls.len() as u64;
            let results = session.joining.join(read, session.span, is_of_capture);
            let Joined { joined, ambiguous, only_in_trace, outside, only_in_capture, without_segments } =
                results.joined;
            assert_eq!(joined + ambiguous + only_in_trace + outside, calls, "each call is one of these");
            assert!(without_segments <= joined);
            // A trace may contain both ends of a transaction.
            assert!(joined <= 2 * session.transactions && only_in_capture <= session.transactions);
            Some((joined, ambiguous, shown(&results)))
        });
        let again = read_calls(data).map(|read| session.joining.join(read, session.span, true));
        assert_eq!(other.as_ref().map(|(.., shown)| shown), again.as_ref().map(shown).as_ref());
        let which = |found: &Option<(u64, u64, String)>| found.as_ref().map(|(one, other, _)| (*one, *other));
        assert_eq!(which(&one), which(&other), "clocks do not change which calls are joined");
    }
    if let Some(read) = read_calls(data) {
        shown(&TraceResults::alone(read));
    }
}

/// A session that traces are joined to.
struct Session {
    joining: Joining,
    transactions: u64,
    span: Option<(Time, Time)>,
}

/// One session with a callback, and the beginning of the one whose traces are in the corpus.
static SESSIONS: LazyLock<[Session; 2]> = LazyLock::new(|| {
    let recall: &[u8] = include_bytes!("../../../samples/nfs4.1-backchannel-recall.pcap");
    let basic: &[u8] = include_bytes!("../../../samples/nfs3-basic.pcap");
    [recall, basic].map(|file| {
        let mut session = Session { joining: Joining::default(), transactions: 0, span: None };
        let mut engine = Engine::new(Config::default());
        let mut handle = |event: Event<'_>| {
            session.transactions += u64::from(matches!(event, Event::Transaction(_)));
            session.joining.handle(&event);
        };
        records(file).take(200).for_each(|record| driver::handle(&mut engine, &record, &mut handle));
        driver::finish(&mut engine, &mut handle);
        session.span = engine.totals().span;
        session
    })
});

fn read_calls(data: &[u8]) -> Option<KernelTrace> {
    KernelTrace::read(&mut Trace::new("fuzzed".into(), data).ok()?).ok()
}

/// The text and the JSON written for a trace.
fn shown(results: &TraceResults) -> String {
    for step in &results.steps {
        let times = [step.minimum(), step.percentile(50), step.percentile(99), step.maximum(), step.total()];
        assert!(step.count() > 0 && times.is_sorted(), "{times:?}");
        assert!((0.0..=1.0).contains(&results.share(step)));
    }
    let counted: u64 = results.counts.values().sum();
    let kept = counted.min(TraceResults::MOST_DISAGREEMENTS as u64);
    assert_eq!(results.disagreements.len() as u64, kept);
    let mut shown = Vec::new();
    let written = page::kernel::Text(results).write(Style::default(), &mut shown);
    let written = written.and_then(|()| json::write_witness(results, &mut shown));
    assert!(written.is_ok(), "writing to memory cannot fail");
    String::from_utf8(shown).expect("both are text")
}

/// Reads the events at once, and line by line.
fn events(data: &[u8]) {
    let Ok(mut trace) = Trace::new("fuzzed".into(), data) else { return };
    let mut at_once = Vec::new();
    let mut note = |number: u64, line: &rdmascope_capture_agent::trace::Line<'_>| {
        assert!(line.time >= 0 && line.resolution >= 1);
        at_once.push((number, line.time, format!("{:?}", line.event)));
    };
    while let Ok(true) = trace.next(&mut note) {}
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(data.split_inclusive(|byte| *byte == b'\n')) {
        // Longer lines are truncated.
        if line.len() >= 16 << 10 {
            return;
        }
        if let Ok(LineContent::Event(line)) = read(line) {
            lines.push((number, line.time, format!("{:?}", line.event)));
        }
    }
    assert_eq!(at_once, lines);
}

/// Reads any bytes as answers of rdma netlink, and as the text of an inventory. The inventory is
/// the same after it was written and read again.
pub fn inventory(data: &[u8]) {
    let (mut found, mut pairs, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    devices(data, &mut found);
    queue_pairs(data, &mut pairs);
    cm_ids(data, &mut ids);
    // Each has at least a header.
    assert!(found.len().max(pairs.len()).max(ids.len()) <= data.len() / 4);
    let all = connected("rxe0", &pairs, &ids);
    for one in &all {
        let _ = one.known();
    }
    let Ok(text) = core::str::from_utf8(data) else { return };
    let parsed = from_text(text);
    assert_eq!(from_text(&to_text(&parsed)), parsed);
}
