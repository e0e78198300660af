//! The lists of columns hold together, and what they read of all samples is what they say.

use rdmascope_conformance::{Judge, Level};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_present::column::parquet::table;
use rdmascope_present::column::{Fields, Kind, List, Output, Presence, Role, Value};
use rdmascope_present::columns::{
    CAPTURE, CHECK, CONNECTION, ERROR, FINDING, FindingRow, LISTS, MESSAGE, MessageRow, OPERATION_FIGURES,
    PACKET, PROBLEM, TABLES, TRANSACTION,
};
use rdmascope_present::ending::{Ending, FileEnding};
use rdmascope_present::report::Report;
use rdmascope_present::tally::Tally;
use rdmascope_tests::{samples, session};
use std::collections::BTreeSet;

/// Visits a list and the lists within it, each with the names that lead to it.
fn walk(list: &'static dyn List, path: &str, visit: &mut dyn FnMut(&'static dyn List, &str)) {
    visit(list, path);
    for (info, kind) in list.columns() {
        if let Kind::Object(inner) | Kind::Objects(inner) = kind {
            walk(inner, &format!("{path}.{}", info.name), visit);
        }
    }
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

/// The columns of which a value was seen, by path.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    /// Compares the values of an object with what its list says of them.
    fn object(&mut self, list: &dyn List, object: &dyn Fields, path: &str) {
        let columns = list.columns();
        let mut expected = columns.iter();
        assert_eq!(object.line(), (list.role() == Role::Line).then_some(list.name()), "{path}");
        object.each(Output::Any, &mut |info, value| {
            let (stated, kind) = expected.next().expect("no more values than columns");
            assert_eq!(info.name, stated.name, "{path}");
            let path = format!("{path}.{}", info.name);
            if matches!(value, Value::Missing) {
                assert!(
                    info.presence != Presence::Always || !info.in_json,
                    "{path} is always there, and it is not"
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
            | (Kind::Bytes, Value::Bytes(_))
            | (Kind::Any(_), _) => {}
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
                let Value::Object(object) = item else { panic!("{path} holds something else than objects") };
                self.object(list, object, path);
            }),
            _ => panic!("{path} is of another type than it says"),
        }
    }
}

/// What is left of a path behind an object on it.
fn is_path(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

#[test]
fn values_of_all_samples() {
    let mut seen = Seen::default();
    for sample in samples::MOUNTS.into_iter().chain([samples::REJECTED]) {
        let capture = samples::capture(sample);
        let mut engine = Engine::new(Config { report_packets: true, observe: true, ..Config::default() });
        let mut judge = Judge::default();
        let mut report = Report::default();
        let mut tally = Tally::new(|_| false, Level::Advice);
        let mut handle = |event: Event<'_>| {
            judge.handle(&event, &mut |finding| {
                seen.object(&FINDING, &FINDING.of(FindingRow::new(finding, false)), "finding");
                tally.count(finding);
            });
            report.handle(&event);
            match event {
                Event::Packet(packet) => seen.object(&PACKET, &PACKET.of(packet), "packet"),
                Event::Connection(connection) => {
                    seen.object(&CONNECTION, &CONNECTION.of(connection), "connection");
                }
                Event::Transaction(transaction) => {
                    seen.object(&TRANSACTION, &TRANSACTION.of(transaction), "transaction");
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
        let ending = Ending { totals: *engine.totals(), files, port: 4791 };
        seen.object(&CAPTURE, &CAPTURE.of(&ending), "capture");
        seen.object(&CHECK, &CHECK.of((&tally, &ending)), "check");
        for (key, stats) in report.operations() {
            seen.object(&OPERATION_FIGURES, &OPERATION_FIGURES.of((key, stats)), "operation");
        }
        for (key, error) in report.all_errors() {
            seen.object(&ERROR, &ERROR.of((&key, error)), "error");
        }
        for problem in report.problems(&ending) {
            seen.object(&PROBLEM, &PROBLEM.of(&problem), "problem");
        }
    }
    // The other way round: nearly every column has a value in some sample. The others are of what these sessions do not show.
    const RARE: &[&str] = &[
        "capture.files.cut_short",
        "capture.files.interfaces",
        "capture.files.trouble",
        "check.files.cut_short",
        "check.files.interfaces",
        "check.files.trouble",
        "connection.evidence",
        "packet.immediate",
        "packet.other",
        "packet.rpcrdma.error",
        "packet.rpcrdma.stop",
        "packet.stop",
        "problem.first_frame",
        "transaction.call.invalidated",
        "transaction.call.missing",
        "transaction.call.stop",
        "transaction.done",
        "transaction.error",
        "transaction.operation_details.file_name_hex",
        "transaction.operation_details.other_name_hex",
        "transaction.reply.missing",
        "transaction.reply.read_chunks",
        "transaction.reply.read_segments",
        "transaction.reply.stop",
        "transaction.stop",
    ];
    let lists: [&'static dyn List; 9] = [
        &TRANSACTION,
        &CONNECTION,
        &PACKET,
        &FINDING,
        &CAPTURE,
        &CHECK,
        &OPERATION_FIGURES,
        &ERROR,
        &PROBLEM,
    ];
    let mut never = BTreeSet::new();
    for list in lists {
        walk(list, list.name(), &mut |list, path| {
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
