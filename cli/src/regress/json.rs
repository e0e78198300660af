//! The lines for programs: docs/json.md in types.

use super::compare::{Change, Difference};
use super::perform::{Outcome, Verdict};
use super::show::{Subject, trouble};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// `"type":"deviation"`.
#[derive(Serialize)]
pub(super) struct DeviationLine<'a> {
    r#type: &'static str,
    capture: &'a str,
    change: &'static str,
    of: Option<&'a str>,
    connection: Option<u64>,
    direction: Option<&'a str>,
    xid: Option<&'a str>,
    operations: Option<&'a Value>,
    rule: Option<&'a str>,
    frame: Option<u64>,
    field: Option<&'a str>,
    expected: Option<Cow<'a, Value>>,
    found: Option<Cow<'a, Value>>,
    lines: u64,
}

impl<'a> DeviationLine<'a> {
    pub(super) fn new(capture: &'a str, difference: &'a Difference) -> DeviationLine<'a> {
        let Difference { of, change } = difference;
        let whole = || Some(Cow::Owned(Value::Object((**of).clone())));
        let value = |value: &'a Value| Some(Cow::Borrowed(value));
        let place = |place: &usize| Some(Cow::Owned(Value::from(*place)));
        let (change, field, expected, found, lines) = match change {
            Change::Missing => ("missing", None, whole(), None, 1),
            Change::New => ("new", None, None, whole(), 1),
            Change::Moved { expected, found } => ("moved", None, place(expected), place(found), 1),
            Change::Changed { field, expected, found } => {
                ("changed", Some(field), value(expected), value(found), 1)
            }
            Change::LostField { field, expected, lines } => {
                ("lost-field", Some(field), value(expected), None, *lines)
            }
            Change::NewField { field, found, lines } => {
                ("new-field", Some(field), None, value(found), *lines)
            }
        };
        let text = |field: &str| of.get(field).and_then(Value::as_str);
        DeviationLine {
            r#type: "deviation",
            capture,
            change,
            of: text("type"),
            connection: of.get("connection").and_then(Value::as_u64),
            direction: text("direction"),
            xid: text("xid"),
            operations: of.get("operations"),
            rule: text("rule"),
            frame: Subject(of).frame(),
            field: field.map(String::as_str),
            expected,
            found,
            lines,
        }
    }
}

/// `"type":"verdict"`.
#[derive(Serialize)]
pub(super) struct VerdictLine<'a> {
    r#type: &'static str,
    capture: &'a str,
    verdict: &'static str,
    listed: Option<bool>,
    differences: Option<u64>,
    added: Option<u64>,
    removed: Option<u64>,
    trouble: Option<String>,
}

impl<'a> VerdictLine<'a> {
    pub(super) fn new(capture: &'a str, outcome: &Outcome) -> VerdictLine<'a> {
        let (verdict, differences, blessed) = match &outcome.verdict {
            Verdict::Same => ("same", Some(0), None),
            Verdict::Different { count, .. } => ("different", Some(*count), None),
            Verdict::NoExpectation => ("no-expectation", None, None),
            Verdict::Blessed(blessed) => ("blessed", None, Some(*blessed)),
            Verdict::NoCapture => ("no-capture", None, None),
            Verdict::Absent => ("absent", None, None),
            Verdict::OtherFile(_) => ("other-file", None, None),
            Verdict::Unreadable(_) => ("unreadable", None, None),
            Verdict::BrokenExpectation(_) => ("broken-expectation", None, None),
        };
        VerdictLine {
            r#type: "verdict",
            capture,
            verdict,
            listed: outcome.listed,
            differences,
            added: blessed.map(|blessed| blessed.added),
            removed: blessed.map(|blessed| blessed.removed),
            trouble: trouble(outcome),
        }
    }
}
