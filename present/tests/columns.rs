//! The lists of columns are consistent, and the values of all samples conform to them.

use rdmascope_analysis::diff::{Comparison, Side, Thresholds};
use rdmascope_analysis::ending::{Ending, FileEnding};
use rdmascope_analysis::extract::{Digests, Extracted, Files, Limits, Summary};
use rdmascope_analysis::findings::Findings;
use rdmascope_analysis::flows::Flows;
use rdmascope_analysis::intervals::{By, ByInterval};
use rdmascope_analysis::kernel::{Joining, KernelTrace, TraceResults};
use rdmascope_analysis::live::{Captured, Meter};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_analysis::policy::{EntryKind, EntryOutcome, Policed, PolicyEntry};
use rdmascope_analysis::report::Report;
use rdmascope_analysis::state::States;
use rdmascope_analysis::tally::Tally;
use rdmascope_capture_agent::trace::Trace;
use rdmascope_conformance::{self as conformance, Finding, Judge, Level};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::frame;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_present::column::parquet::table;
use rdmascope_present::column::{Fields, Kind, List, Output, Presence, Role, Value};
use rdmascope_present::columns::{
    CALLS, CAPTURE, CAPTURED, CHECK, COMPARISON, CONNECTION, ComparisonRow, DEVIATION, DIFFERENCE, ERROR,
    EVENT, EXCHANGE, EXTRACTED, EXTRACTION, ExchangeRow, FIELD, FINDING, FRAME, FindingRow, FrameRow,
    INTERVAL, INTERVAL_CONNECTION, INTERVAL_OPERATION, INTERVALS, KERNEL, KERNEL_DISAGREEMENT, KERNEL_STEP,
    KERNEL_TRANSACTION, LISTS, MESSAGE, MessageRow, OPERATION_FIGURES, PACKET, POLICY, PROBLEM,
    RDMA_INTERVAL, REPLIES, RULE, STATE, TABLES, TRANSACTION, VERDICT,
};
use rdmascope_present::fields::headers;
use rdmascope_present::ladder::Ladder;
use rdmascope_present::regress::{Blessed, Lines, Outcome, Verdict, compare};
use rdmascope_tests::{pcap, samples, session};
use std::collections::BTreeSet;
use std::io::Cursor;

/// The path of a list at `path`. A list that is also a line, or that may contain itself, has the
/// same path everywhere.
fn path_to(list: &dyn List, path: &str) -> String {
    let is_anywhere = list.role() == Role::Line || list.name() == FIELD.name;
    if is_anywhere { list.name().to_owned() } else { path.to_owned() }
}

/// Visits a list and the lists within it, each with its path.
fn walk(list: &'static dyn List, path: &str, visit: &mut dyn FnMut(&'static dyn List, &str)) {
    let path = &path_to(list, path);
    visit(list, path);
    for (info, kind) in list.columns() {
        let path = format!("{path}.{}", info.name);
        match kind {
            Kind::Object(inner) | Kind::Objects(inner) if inner.name() != list.name() => {
                walk(inner, &path, visit)
            }
            Kind::Any(_, lists) => {
                lists.iter().for_each(|inner| walk(*inner, &format!("{path}:{}", inner.name()), visit));
            }
            _ => {}
        }
    }
}

/// The one of several lists that has the columns of an object.
fn list_of(object: &dyn Fields, lists: &[&'static dyn List], path: &str) -> &'static dyn List {
    let mut names = Vec::new();
    object.each(Output::Any, &mut |info, _| names.push(info.name));
    let is_its =
        |list: &&'static dyn List| list.columns().iter().map(|(info, _)| info.name).eq(names.iter().copied());
    lists
        .iter()
        .copied()
        .find(is_its)
        .unwrap_or_else(|| panic!("{path} has the columns {names:?} of no list"))
}

#[test]
fn names_are_unique_and_meanings_are_sentences() {
    for list in LISTS {
        walk(*list, list.name(), &mut |list, path| {
            let columns = list.columns();
            let mut names = BTreeSet::new();
            for (info, kind) in &columns {
                let is_new = !info.in_json || names.insert(info.name);
                assert!(is_new, "{path} has two fields {}", info.name);
                assert!(info.meaning.ends_with('.'), "{path}.{}: {}", info.name, info.meaning);
                assert!(info.name != "type" || list.role() != Role::Line, "{path}: a line has its own type");
                if let Kind::Word(words) = kind {
                    let words: Vec<_> = words.iter().map(|word| word.word).collect();
                    assert_eq!(
                        words.len(),
                        words.iter().collect::<BTreeSet<_>>().len(),
                        "{path}.{}",
                        info.name
                    );
                }
            }
        });
    }
    let names: BTreeSet<_> = LISTS.iter().map(|list| list.name()).collect();
    assert_eq!(names.len(), LISTS.len(), "two lists have one name");
    for (name, list) in TABLES {
        let columns = table(list);
        let names: BTreeSet<_> = columns.iter().map(|column| &column.name).collect();
        assert_eq!(names.len(), columns.len(), "{name}");
    }
}

/// The columns that had a value, by path.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    /// Compares the values of an object with its list.
    fn object(&mut self, list: &dyn List, object: &dyn Fields, path: &str) {
        let columns = list.columns();
        let mut expected = columns.iter();
        let path = &path_to(list, path);
        assert_eq!(object.line(), (list.role() == Role::Line).then_some(list.name()), "{path}");
        object.each(Output::Any, &mut |info, value| {
            let (stated, kind) = expected.next().expect("no more values than columns");
            assert_eq!(info.name, stated.name, "{path}");
            let path = format!("{path}.{}", info.name);
            if matches!(value, Value::Missing) {
                assert!(
                    info.presence != Presence::Always || !info.in_json,
                    "{path} is always present, but it is missing"
                );
                return;
            }
            self.value(*kind, value, &path);
            let mut is_empty = false;
            if let Value::List(items) = value {
                is_empty = true;
                items.each(&mut |_| is_empty = false);
            }
            if !is_empty {
                self.0.insert(path);
            }
        });
        assert!(expected.next().is_none(), "{path} has fewer values than columns");
    }

    fn value(&mut self, kind: Kind, value: Value<'_>, path: &str) {
        let most = match kind {
            Kind::U8 => u8::MAX.into(),
            Kind::U16 => u16::MAX.into(),
            Kind::U32 => u32::MAX.into(),
            _ => u64::MAX,
        };
        match (kind, value) {
            (Kind::Boolean, Value::Boolean(_))
            | (Kind::Nanoseconds, Value::Nanoseconds(_))
            | (Kind::Fraction, Value::Fraction(_))
            | (Kind::Time, Value::Time(_))
            | (Kind::Xid | Kind::Key, Value::Key(_))
            | (Kind::Qpn, Value::Qpn(_))
            | (Kind::Offset, Value::Offset(_))
            | (Kind::Text, Value::Text(_) | Value::Shown(_) | Value::Lossy(_))
            | (Kind::Bytes, Value::Bytes(_)) => {}
            (Kind::Any(_, lists), Value::Object(object)) => {
                let list = list_of(object, lists, path);
                self.object(list, object, &format!("{path}:{}", list.name()));
            }
            (Kind::Any(_, lists), Value::List(items)) => items.each(&mut |item| {
                let Value::Object(object) = item else { return };
                let list = list_of(object, lists, path);
                self.object(list, object, &format!("{path}:{}", list.name()));
            }),
            (Kind::Any(..), _) => {}
            (Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Frame, Value::Number(number)) => {
                assert!(number <= most, "{path}: {number}");
            }
            (Kind::Word(words), Value::Text(text)) => {
                let is_one = words.is_empty() || words.iter().any(|word| word.word == text);
                assert!(is_one, "{path}: {text} is none of its words");
            }
            (Kind::Texts, Value::List(items)) => items.each(&mut |item| {
                assert!(matches!(item, Value::Text(_)), "{path}");
            }),
            (Kind::Frames, Value::List(items)) => items.each(&mut |item| {
                assert!(matches!(item, Value::Number(_)), "{path}");
            }),
            (Kind::Object(list), Value::Object(object)) => self.object(list, object, path),
            (Kind::Objects(list), Value::List(items)) => items.each(&mut |item| {
                let Value::Object(object) = item else { panic!("{path} has a value that is no object") };
                self.object(list, object, path);
            }),
            _ => panic!("{path} has another type than its column"),
        }
    }
}

/// Whether the rest of a path, after the prefix of an object, is empty or continues the path.
fn is_path(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

/// The records of a capture without every `every`th packet.
fn some(capture: &pcap::Capture, every: u64) -> impl Iterator<Item = Record<'_>> {
    session::records(capture).filter(move |record| record.number % every != 0)
}

/// The lines of `show`.
fn exchanges(seen: &mut Seen) {
    for sample in ["nfs3-lossy", "nfs4.1-backchannel-recall"] {
        let capture = samples::capture(sample);
        let keep = Keep { steps: true, contents: true };
        let mut engine = Engine::new(Config { keep, observe: Observe::All, ..Config::default() });
        let (mut findings, mut transactions) = (Findings::new(Findings::ALL), Vec::new());
        let mut handle = |event: Event<'_>| {
            findings.handle(&event);
            if let Event::Transaction(transaction) = event {
                transactions.push(transaction.clone());
            }
        };
        some(&capture, 37).for_each(|record| engine.handle(&record, &mut handle));
        engine.finish(&mut handle);
        let mut ladders: Vec<Ladder> = transactions.iter().map(Ladder::of).collect();
        let mut engine = Engine::new(Config { report_packets: true, attribute: true, ..Config::default() });
        let mut handle = |event: Event<'_>| match event {
            Event::Packet(packet) => {
                let fields = headers::frame(packet, &frame::Config::default(), None);
                let row = FrameRow { packet, transaction: Some(1), fields: &fields };
                seen.object(&FRAME, &FRAME.of(row), "frame");
            }
            Event::Attributed(attributed) => {
                for (transaction, ladder) in transactions.iter().zip(&mut ladders) {
                    ladder.see(transaction, attributed);
                    ladder.mark(transaction, attributed);
                }
            }
            _ => {}
        };
        some(&capture, 37).for_each(|record| engine.handle(&record, &mut handle));
        engine.finish(&mut handle);
        let by_frame = findings.by_frame();
        for (transaction, ladder) in transactions.iter().zip(&ladders) {
            ExchangeRow::lend(transaction.into(), ladder, &by_frame, false, |row| {
                seen.object(&EXCHANGE, &EXCHANGE.of(row), "exchange");
            });
        }
    }
}

/// The lines of `extract`.
fn extracted(seen: &mut Seen) {
    let capture = samples::capture("nfs3-basic");
    // In the complete capture, a file is truncated; in the other one, bytes are missing.
    extracted_of(session::records(&capture), seen);
    extracted_of(some(&capture, 3).skip(300), seen);
    seen.object(&EXTRACTION, &EXTRACTION.of(&Summary::default()), "extraction");
}

fn extracted_of<'a>(records: impl Iterator<Item = Record<'a>>, seen: &mut Seen) {
    let limits = Limits { file_size: 1 << 30, files: 100 };
    let mut files = Files::new(limits, Cursor::new(Vec::new()));
    let keep = Keep { steps: false, contents: true };
    let mut engine = Engine::new(Config { keep, ..Config::default() });
    let mut handle = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            files.take(transaction).expect("in-memory write");
        }
    };
    records.for_each(|record| engine.handle(&record, &mut handle));
    engine.finish(&mut handle);
    let digests = Digests { md5: "0".repeat(32), sha256: "0".repeat(64) };
    for found in &files.found {
        let (name, lacking) = (files.names.get(&found.key).map(Vec::as_slice), found.contents.lacking());
        let (path, digests) = (Some("name".to_owned()), Some(digests.clone()));
        let file = Extracted { found, name, path, digests, lacking };
        seen.object(&EXTRACTED, &EXTRACTED.of(&file), "file");
    }
}

/// The lines of `diff`.
fn compared(seen: &mut Seen) {
    let [a, b] = ["nfs3-basic", "nfs3-lossy"].map(|sample| {
        let mut side = Side::default();
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        session::records(&samples::capture(sample))
            .for_each(|record| engine.handle(&record, &mut |event| side.handle(&event)));
        engine.finish(&mut |event| side.handle(&event));
        side.ending = Ending { totals: *engine.totals(), ..Ending::default() };
        side
    });
    let thresholds = Thresholds { latency_ratio: 1.1, count_ratio: 1.1, significance: 0.01 };
    let comparison = Comparison::of([&a, &b], &thresholds);
    let row = ComparisonRow { sides: [&a, &b], comparison: &comparison };
    seen.object(&COMPARISON, &COMPARISON.of(row), "comparison");
    for difference in &comparison.differences {
        seen.object(&DIFFERENCE, &DIFFERENCE.of(difference), "difference");
    }
}

/// The lines of `analyze --interval`.
fn by_interval(seen: &mut Seen) {
    let by = By { connection: true, client: true, server: true, operation: true };
    let mut table = ByInterval::new(1_000_000_000, by);
    let mut flows = Flows::new(1_000_000_000);
    let mut engine = Engine::new(Config { report_packets: true, ..Config::default() });
    let mut start = None;
    for record in session::records(&samples::capture("nfs3-basic")) {
        let start = *start.get_or_insert(record.time);
        engine.handle(&record, &mut |event| match event {
            Event::Transaction(transaction) => {
                table.take(transaction, start).expect("there are few rows");
            }
            Event::Packet(packet) => flows.take(packet, start).expect("there are few rows"),
            _ => {}
        });
    }
    let ending = Ending { totals: *engine.totals(), ..Ending::default() };
    for row in table.rows(&ending).expect("there are few rows") {
        seen.object(&INTERVALS, &INTERVALS.of(&row), "course");
    }
    for row in flows.totals(&ending).expect("there are few rows").into_iter().chain(flows.flows(&ending)) {
        seen.object(&RDMA_INTERVAL, &RDMA_INTERVAL.of(&row), "rdma_interval");
    }
}

/// The lines of `regress`.
fn expected(seen: &mut Seen) {
    let lines = |sample| {
        Lines::parse(samples::text(sample, "expected.jsonl").as_bytes()).expect("it is as it was written")
    };
    let [a, b] = ["nfs3-basic", "nfs3-lossy"].map(lines);
    let comparison = compare(&a, &b, usize::MAX);
    for difference in &comparison.differences {
        seen.object(&DEVIATION, &DEVIATION.of(("nfs3-basic.pcap", difference)), "deviation");
    }
    for verdict in [
        Verdict::Same,
        Verdict::Different { differences: Vec::new(), count: 1, first_findings: false },
        Verdict::NoExpectation,
        Verdict::Blessed(Blessed { added: 1, removed: 2 }),
        Verdict::NoCapture,
        Verdict::Absent,
        Verdict::OtherFile("another".to_owned()),
        Verdict::Unreadable("not there".to_owned()),
        Verdict::BrokenExpectation("no JSON".to_owned()),
    ] {
        let outcome =
            Outcome { path: "nfs3-basic.pcap".into(), is_capture: true, listed: Some(true), verdict };
        seen.object(&VERDICT, &VERDICT.of(("nfs3-basic.pcap", &outcome)), "verdict");
    }
}

/// The lines of `live`, for intervals of a hundredth of a second.
fn watched(seen: &mut Seen) {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut judge = Judge::default();
    let mut meter = Meter::new(Time(0));
    for record in session::records(&samples::capture("nfs3-lossy")) {
        if record.time.since(meter.start()) >= 10_000_000 {
            let interval = meter.take(record.time, &engine, &judge);
            seen.object(&INTERVAL, &INTERVAL.of(&interval), "interval");
            for one in &interval.connections {
                let row = (&interval, one);
                seen.object(&INTERVAL_CONNECTION, &INTERVAL_CONNECTION.of(row), "interval_connection");
            }
            for (key, figures) in interval.operations.in_order() {
                let row = (&interval, key, figures);
                seen.object(&INTERVAL_OPERATION, &INTERVAL_OPERATION.of(row), "interval_operation");
            }
        }
        meter.record(&record);
        engine.handle(&record, &mut |event| {
            meter.event(&event);
            judge.handle(&event, &mut |finding| meter.finding(finding, false));
        });
    }
    for trouble in [None, Some("no room".to_owned())] {
        let (reason, file) = ("an event".to_owned(), "file".to_owned());
        let captured = Captured {
            time: Time(1),
            reason,
            further: 2,
            file,
            packets: 3,
            is_cut: true,
            trouble,
            is_last: true,
        };
        seen.object(&CAPTURED, &CAPTURED.of(&captured), "captured");
    }
}

/// The lines of `analyze --kernel`. One trace has other credits than the packets, and an invalid
/// line.
fn kernel_traces(seen: &mut Seen) {
    let mut joining = Joining::default();
    let mut engine = Engine::new(Config::default());
    let mut handle = |event: Event<'_>| joining.handle(&event);
    session::records(&samples::capture("nfs4.1-basic"))
        .for_each(|record| engine.handle(&record, &mut handle));
    engine.finish(&mut handle);
    for side in ["client.trace", "server.trace"] {
        let text =
            samples::text("nfs4.1-basic", side).replacen("credits=", "credits=1", 1) + "no line of a trace\n";
        let read = || {
            let mut trace = Trace::new(side.to_owned(), text.as_bytes()).expect("it is text");
            KernelTrace::read(&mut trace).expect("it has lines of a trace")
        };
        let span = engine.totals().span;
        for results in [joining.join(read(), span, false), TraceResults::alone(read())] {
            seen.object(&KERNEL, &KERNEL.of(&results), "kernel");
            for step in &results.steps {
                seen.object(&KERNEL_STEP, &KERNEL_STEP.of((&results, step)), "kernel_step");
            }
            for one in &results.disagreements {
                let row = (&results, one);
                seen.object(&KERNEL_DISAGREEMENT, &KERNEL_DISAGREEMENT.of(row), "kernel_disagreement");
            }
            for call in &results.trace.calls {
                let row = (&results.trace, call);
                seen.object(&KERNEL_TRANSACTION, &KERNEL_TRANSACTION.of(row), "kernel_transaction");
            }
        }
    }
}

/// The columns of a policy. The samples have none.
fn policies(seen: &mut Seen) {
    let entry = PolicyEntry {
        line: 4,
        kind: EntryKind::Latency,
        subject: "p99 of READ".to_owned(),
        outcome: EntryOutcome::Failed,
        message: "7ms in 12 transactions (allowed: 5ms)".to_owned(),
        observed: Some(conformance::Value::Nanoseconds(7_000_000)),
        allowed: Some(conformance::Value::Nanoseconds(5_000_000)),
    };
    let share = |share: &str| Some(conformance::Value::Words(share.to_owned()));
    let of_rules = PolicyEntry { observed: share("0.500"), allowed: share("0.9"), ..entry.clone() };
    let policy = Policed { file: "rdmascope.toml".to_owned(), entries: vec![entry, of_rules] };
    for entry in &policy.entries {
        seen.object(&POLICY, &POLICY.of((&policy, entry)), "policy");
    }
    let finding = Finding::new("of a rule that a policy allows");
    let row = FindingRow::new(&finding, true).because(Some("until the server is updated"));
    seen.object(&FINDING, &FINDING.of(row), "finding");
    let mut tally = Tally::new(|_| false, Level::Advice);
    tally.policy = Some(policy);
    seen.object(&CHECK, &CHECK.of((&tally, &Ending::default())), "check");
}

#[test]
fn sample_values_match_their_columns() {
    let mut seen = Seen::default();
    for sample in samples::ALL.into_iter().chain(samples::IWARP) {
        let capture = samples::capture(sample);
        let mut engine =
            Engine::new(Config { report_packets: true, observe: Observe::All, ..Config::default() });
        let mut judge = Judge::default();
        let mut report = Report::default();
        let mut states = States::default();
        let mut tally = Tally::new(|_| false, Level::Advice);
        let mut paths = Paths::new();
        let mut handle = |event: Event<'_>| {
            judge.handle(&event, &mut |finding| {
                seen.object(&FINDING, &FINDING.of(FindingRow::new(finding, false)), "finding");
                tally.count(finding, None);
            });
            report.handle(&event);
            states.handle(&event, &mut |lifetime| seen.object(&STATE, &STATE.of(lifetime), "state"));
            match event {
                Event::Packet(packet) => seen.object(&PACKET, &PACKET.of(packet), "packet"),
                Event::Connection(connection) => {
                    seen.object(&CONNECTION, &CONNECTION.of(connection), "connection");
                }
                Event::Transaction(transaction) => {
                    seen.object(
                        &TRANSACTION,
                        &TRANSACTION.of(TransactionRow::follow(transaction, &mut paths)),
                        "transaction",
                    );
                    for (message, is_reply) in [(&transaction.call, false), (&transaction.reply, true)] {
                        let Some(message) = message else { continue };
                        let row = MessageRow { transaction, message, is_reply };
                        seen.object(&MESSAGE, &MESSAGE.of(row), "message");
                    }
                }
                _ => {}
            }
        };
        session::records(&capture).for_each(|record| engine.handle(&record, &mut handle));
        engine.finish(&mut handle);
        let files = vec![FileEnding { name: sample.to_owned(), ..FileEnding::default() }];
        let ending = Ending { totals: *engine.totals(), files, port: 4791, ..Ending::default() };
        seen.object(&CAPTURE, &CAPTURE.of(&ending), "capture");
        seen.object(&CHECK, &CHECK.of((&tally, &ending)), "check");
        for (key, stats) in report.operations() {
            seen.object(&OPERATION_FIGURES, &OPERATION_FIGURES.of((key, stats)), "operation");
        }
        seen.object(&CALLS, &CALLS.of(&report), "calls");
        seen.object(&REPLIES, &REPLIES.of(report.replies()), "replies");
        for (key, error) in report.all_errors() {
            seen.object(&ERROR, &ERROR.of((&key, error)), "error");
        }
        for problem in report.problems(&ending) {
            seen.object(&PROBLEM, &PROBLEM.of(&problem), "problem");
        }
        states.finish(&mut |lifetime| seen.object(&STATE, &STATE.of(lifetime), "state"));
        for event in report.events(&ending) {
            seen.object(&EVENT, &EVENT.of(&event), "event");
        }
    }
    exchanges(&mut seen);
    extracted(&mut seen);
    compared(&mut seen);
    by_interval(&mut seen);
    expected(&mut seen);
    watched(&mut seen);
    kernel_traces(&mut seen);
    policies(&mut seen);
    // Conversely, nearly every column has a value in some sample. The exceptions concern things
    // that these sessions lack.
    const RARE: &[&str] = &[
        "capture.apart",
        "capture.chosen",
        "capture.files.cut_short",
        "capture.files.interfaces",
        "capture.files.trouble",
        "check.files.cut_short",
        "check.files.interfaces",
        "check.files.trouble",
        "capture.contradicted_connections",
        "capture.first_contradiction_frame",
        "capture.known_connections",
        "connection.foreign",
        "connection.operations",
        "connection.protocol",
        "connection.requester.ip",
        "connection.responder.ip",
        "exchange.call_message.fields",
        "exchange.reply_message.stretches.position",
        "field.stop",
        "file.name_hex",
        "file.punched",
        // No sample uses Kerberos.
        "transaction.gss_context",
        // Tracepoints that were disabled.
        "kernel_transaction.operation",
        "kernel_transaction.received_length",
        "packet.immediate",
        "packet.stop",
        "state.deny",
        // Known only if paths are tracked: cli/tests/state.rs.
        "state.file",
        "state.open_number",
        "state.ranges",
        // Captures of one direction: cli/tests/live_command.rs.
        "interval_connection.one_direction",
        // Captures at several capture points: cli/tests/capture_points.rs.
        "operation_split",
        "place",
        "way",
        "transaction.split",
        "transaction.call.invalidated",
        "transaction.call.stop",
        "transaction.operation_details.file_name_hex",
        "transaction.operation_details.other_name_hex",
        "transaction.reply.stop",
    ];
    let mut never = BTreeSet::new();
    // No sample contains the definition of a rule.
    for list in LISTS.iter().filter(|list| list.role() == Role::Line && list.name() != RULE.name) {
        walk(*list, list.name(), &mut |list, path| {
            let columns = list.columns();
            let names = columns.iter().map(|(info, _)| format!("{path}.{}", info.name));
            let is_rare = |name: &str| RARE.iter().any(|rare| name.strip_prefix(rare).is_some_and(is_path));
            never.extend(names.filter(|name| !seen.0.contains(name) && !is_rare(name)));
        });
    }
    assert!(never.is_empty(), "columns without a value in any sample: {never:?}");
    let known: Vec<_> = RARE.iter().filter(|name| seen.0.contains(**name)).collect();
    assert!(known.is_empty(), "some sample has a value of {known:?}");
}
