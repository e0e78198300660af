//! Differences between an expectation and the analysis of a capture.
//!
//! Lines are paired by their subject, never by their index, so that one additional transaction is
//! one difference.

use super::lines::{Line, Lines, Object};
use super::pairs::{Moved, Pairs, Side};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The result of a comparison.
#[derive(Debug)]
pub struct Comparison {
    /// The differences, up to the limit.
    pub differences: Vec<Difference>,
    /// The total number of differences.
    pub count: u64,
}

/// One difference.
#[derive(Debug)]
pub struct Difference {
    /// The line that differs: the expected line, or a new one.
    pub of: Line,
    /// The change of the line.
    pub change: Change,
}

/// A change of a line.
#[derive(Debug)]
pub enum Change {
    /// The line is expected but absent.
    Missing,
    /// The line is not expected.
    New,
    /// The line has a different index among the lines of its type, from 1.
    Moved {
        /// Its index among the expected lines.
        expected: usize,
        /// Its index among the lines found.
        found: usize,
    },
    /// A field has a different value.
    Changed {
        /// The field: `call.read_chunks[0].position`.
        field: String,
        /// The expected value.
        expected: Value,
        /// The value found.
        found: Value,
    },
    /// A field is absent.
    LostField {
        /// The field. If several lines lack it, its entries have no numbers:
        /// `call.read_chunks[].position`.
        field: String,
        /// The value in the first line.
        expected: Value,
        /// The number of lines that lack it.
        lines: u64,
    },
    /// A field is not expected.
    NewField {
        /// The field, as in [`Change::LostField`].
        field: String,
        /// The value in the first line.
        found: Value,
        /// The number of lines that have it.
        lines: u64,
    },
}

/// Compares the lines. At most `limit` differences are kept.
pub fn compare(expected: &Lines, found: &Lines, limit: usize) -> Comparison {
    let mut comparer = Comparer { limit, differences: Vec::new(), count: 0 };
    let mut captures = Pairs::new(&expected.capture, &found.capture);
    captures.pair(|_, _| Some(()));
    comparer.compare(&captures, false, &|_, expected, found| expected == found);

    // Numbers count the lines before: one additional line would change all later numbers. So they
    // are compared as an order.
    let connections = pair_connections(&expected.connections, &found.connections);
    comparer
        .compare(&connections, true, &|field, expected, found| field == "connection" || expected == found);

    let numbers: HashMap<u64, u64> =
        connections.both().map(|(expected, found)| (connection(found), connection(expected))).collect();
    // A connection that is not expected gets an unused number.
    let renumbered = |number: u64| numbers.get(&number).copied().unwrap_or(u64::MAX - number);
    let transactions = pair_transactions(&expected.transactions, &found.transactions, renumbered);
    comparer.compare(&transactions, true, &|field, expected, found| match field {
        "number" => true,
        "connection" => found.as_u64().map(renumbered) == expected.as_u64(),
        _ => expected == found,
    });

    let of = |line: &Line| line.get("number").and_then(Value::as_u64).unwrap_or_default();
    let numbers: HashMap<u64, u64> =
        transactions.both().map(|(expected, found)| (of(found), of(expected))).collect();
    let findings = pair_findings(&expected.findings, &found.findings, renumbered);
    // The order of findings depends on when they become certain, not on the session, so it is not
    // compared.
    comparer.compare(&findings, false, &|field, expected, found| match field {
        "connection" => found.as_u64().map(renumbered) == expected.as_u64(),
        "transaction" => {
            let renumbered = |number| numbers.get(&number).copied().unwrap_or(u64::MAX - number);
            found.as_u64().map(renumbered) == expected.as_u64()
        }
        _ => expected == found,
    });

    let mut others = Pairs::new(&expected.others, &found.others);
    others.pair(|_, line| serde_json::to_string(&**line).ok());
    comparer.compare(&others, false, &|_, expected, found| expected == found);
    Comparison { differences: comparer.differences, count: comparer.count }
}

/// Pairs connections with the same ends, then those that begin at the same time, then those with
/// the same number.
fn pair_connections<'a>(expected: &'a [Line], found: &'a [Line]) -> Pairs<'a> {
    let mut pairs = Pairs::new(expected, found);
    pairs.pair(|_, line| {
        let end = |name: &str| {
            let end = line.get(name)?;
            Some((end.get("address")?.as_str()?, end.get("qpn")?.as_str()))
        };
        let mut ends = [end("requester")?, end("responder")?];
        // The end that opened the connection does not matter.
        ends.sort_unstable();
        Some(ends)
    });
    pairs.pair(|_, line| line.get("first")?.as_str());
    pairs.pair(|_, line| Some(connection(line)));
    pairs
}

/// Pairs transactions with the same connection, direction, XID and time; then those with the same
/// XID and time; then those with the same connection, direction and XID, in order.
fn pair_transactions<'a>(
    expected: &'a [Line],
    found: &'a [Line],
    renumbered: impl Fn(u64) -> u64,
) -> Pairs<'a> {
    let whose = |side, line| match side {
        Side::Expected => connection(line),
        Side::Found => renumbered(connection(line)),
    };
    let direction = |line: &'a Line| line.get("direction").and_then(Value::as_str);
    let xid = |line: &'a Line| line.get("xid").and_then(Value::as_str);
    let mut pairs = Pairs::new(expected, found);
    pairs.pair(|side, line| Some((whose(side, line), direction(line)?, xid(line)?, time(line)?)));
    pairs.pair(|_, line| Some((xid(line)?, time(line)?)));
    pairs.pair(|side, line| Some((whose(side, line), direction(line)?, xid(line)?)));
    pairs
}

/// Pairs findings of one rule with the same connection, direction, XID and frames; then those with
/// the same connection, direction and XID, in order; then those with the same frames.
fn pair_findings<'a>(expected: &'a [Line], found: &'a [Line], renumbered: impl Fn(u64) -> u64) -> Pairs<'a> {
    let whose = |side, line: &'a Line| {
        let number = line.get("connection").and_then(Value::as_u64);
        match side {
            Side::Expected => number,
            Side::Found => number.map(&renumbered),
        }
    };
    let text = |line: &'a Line, field: &str| line.get(field).and_then(Value::as_str);
    let about = |side, line: &'a Line| {
        (text(line, "rule"), whose(side, line), text(line, "direction"), text(line, "xid"))
    };
    let frames = |line: &'a Line| line.get("frames").map(ToString::to_string);
    let mut pairs = Pairs::new(expected, found);
    pairs.pair(|side, line| Some((about(side, line), frames(line)?)));
    pairs.pair(|side, line| Some(about(side, line)));
    pairs.pair(|_, line| Some((text(line, "rule"), frames(line)?)));
    pairs
}

/// The time of a transaction's first captured message.
fn time(line: &Line) -> Option<&str> {
    let messages = ["call", "reply"].into_iter().filter_map(|message| line.get(message));
    messages.filter_map(|message| message.get("time")?.as_str()).next()
}

/// The number of a line's connection. Lines of connections and transactions have one: parsing
/// checks it.
fn connection(line: &Line) -> u64 {
    line.get("connection").and_then(Value::as_u64).unwrap_or_default()
}

/// Whether a field with its expected value and the value found is considered equal.
type Same<'a> = &'a dyn Fn(&str, &Value, &Value) -> bool;

struct Comparer {
    limit: usize,
    differences: Vec<Difference>,
    count: u64,
}

impl Comparer {
    /// Compares the lines of one type. `ordered`: whether their order is significant.
    fn compare(&mut self, pairs: &Pairs<'_>, ordered: bool, same: Same<'_>) {
        for line in pairs.missing() {
            self.note(line, || Change::Missing);
        }
        for line in pairs.new_ones() {
            self.note(line, || Change::New);
        }
        let mut fields = Fields {
            known: [Known::of(pairs.expected), Known::of(pairs.found)],
            line: 0,
            everywhere: BTreeMap::new(),
            single: Vec::new(),
        };
        for (index, (expected, found)) in pairs.both().enumerate() {
            fields.line = index;
            fields.objects(&mut String::new(), expected, found, same);
        }
        let lines: Vec<&Line> = pairs.both().map(|(expected, _)| expected).collect();
        for ((field, side), kept) in fields.everywhere {
            self.note(lines[kept.first], || Change::one_sided(side, field, kept.value, kept.lines));
        }
        if ordered {
            for Moved { line, expected, found } in pairs.moved() {
                self.note(line, || Change::Moved { expected, found });
            }
        }
        for (line, change) in fields.single {
            self.note(lines[line], || change);
        }
    }

    fn note(&mut self, of: &Line, change: impl FnOnce() -> Change) {
        self.count += 1;
        if self.differences.len() < self.limit {
            self.differences.push(Difference { of: of.clone(), change: change() });
        }
    }
}

impl Change {
    /// A field that only one side has.
    fn one_sided(side: Side, field: String, value: Value, lines: u64) -> Change {
        match side {
            Side::Expected => Change::LostField { field, expected: value, lines },
            Side::Found => Change::NewField { field, found: value, lines },
        }
    }
}

/// Collects the fields that differ in paired lines.
struct Fields {
    /// All field names on each side.
    known: [Known; 2],
    /// The index of the current pair of lines.
    line: usize,
    /// Fields whose name exists on one side only, for example because another version adds them to
    /// every line.
    everywhere: BTreeMap<(String, Side), Everywhere>,
    /// All other changes, by line.
    single: Vec<(usize, Change)>,
}

/// A field that exists on one side only.
struct Everywhere {
    /// The first pair of lines with it.
    first: usize,
    /// Its value in that pair.
    value: Value,
    /// The latest pair so far.
    last: usize,
    /// The number of pairs.
    lines: u64,
}

impl Fields {
    fn values(&mut self, path: &mut String, expected: &Value, found: &Value) {
        match (expected, found) {
            (Value::Object(expected), Value::Object(found)) => {
                self.objects(path, expected, found, &|_, expected, found| expected == found);
            }
            (Value::Array(expected), Value::Array(found)) => self.arrays(path, expected, found),
            _ => {
                let (expected, found) = (expected.clone(), found.clone());
                self.single.push((self.line, Change::Changed { field: path.clone(), expected, found }));
            }
        }
    }

    fn objects(&mut self, path: &mut String, expected: &Object, found: &Object, same: Same<'_>) {
        for (key, expected) in expected {
            within(path, key, |path| match found.get(key) {
                Some(found) if same(key, expected, found) => {}
                Some(found) => self.values(path, expected, found),
                None => self.field_of_one(Side::Expected, path, expected),
            });
        }
        for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(*key)) {
            within(path, key, |path| self.field_of_one(Side::Found, path, value));
        }
    }

    /// Skips equal entries at both ends, and compares the remaining entries by index.
    fn arrays(&mut self, path: &mut String, expected: &[Value], found: &[Value]) {
        let first = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
        let (expected, found) = (&expected[first..], &found[first..]);
        let last =
            expected.iter().rev().zip(found.iter().rev()).take_while(|(one, other)| one == other).count();
        let (expected, found) = (&expected[..expected.len() - last], &found[..found.len() - last]);
        for index in 0..expected.len().max(found.len()) {
            let length = path.len();
            path.push_str(&format!("[{}]", first + index));
            match (expected.get(index), found.get(index)) {
                (Some(expected), Some(found)) if expected != found => self.values(path, expected, found),
                (Some(expected), None) => self.entry_of_one(Side::Expected, path, expected),
                (None, Some(found)) => self.entry_of_one(Side::Found, path, found),
                _ => {}
            }
            path.truncate(length);
        }
    }

    fn field_of_one(&mut self, side: Side, path: &str, value: &Value) {
        let name = without_indices(path);
        let [expected, found] = &self.known;
        let other = if side == Side::Expected { found } else { expected };
        if other.0.contains(&name) {
            return self.entry_of_one(side, path, value);
        }
        let line = self.line;
        let kept = self.everywhere.entry((name, side)).or_insert_with(|| Everywhere {
            first: line,
            value: value.clone(),
            last: line,
            lines: 1,
        });
        // The field may occur several times in one line.
        kept.lines += u64::from(kept.last != line);
        kept.last = line;
    }

    fn entry_of_one(&mut self, side: Side, path: &str, value: &Value) {
        self.single.push((self.line, Change::one_sided(side, path.to_owned(), value.clone(), 1)));
    }
}

/// The field names of lines, including nested ones: `call.read_chunks[].position`.
#[derive(Debug, Default)]
struct Known(HashSet<String>);

impl Known {
    fn of(lines: &[Line]) -> Known {
        let mut known = Known::default();
        lines.iter().for_each(|line| known.object(&mut String::new(), line));
        known
    }

    fn object(&mut self, path: &mut String, fields: &Object) {
        for (key, value) in fields {
            within(path, key, |path| {
                if !self.0.contains(path.as_str()) {
                    self.0.insert(path.clone());
                }
                self.value(path, value);
            });
        }
    }

    fn value(&mut self, path: &mut String, value: &Value) {
        match value {
            Value::Object(fields) => self.object(path, fields),
            Value::Array(entries) => {
                path.push_str("[]");
                entries.iter().for_each(|entry| self.value(path, entry));
                path.truncate(path.len() - "[]".len());
            }
            _ => {}
        }
    }
}

/// Calls `act` with `path` extended by `key`.
fn within(path: &mut String, key: &str, act: impl FnOnce(&mut String)) {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
    act(path);
    path.truncate(length);
}

/// Removes the indices: `call.read_chunks[0].position` becomes `call.read_chunks[].position`.
fn without_indices(path: &str) -> String {
    path.split('[')
        .map(|part| part.trim_start_matches(|digit: char| digit.is_ascii_digit()))
        .collect::<Vec<_>>()
        .join("[")
}
