//! `deviation` and `verdict`: the results of `regress`.

use crate::column::Read::{Any, Boolean, Frame, Text, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Value, explained, lend, word};
use crate::regress::{self, Change, Difference, Outcome, Verdict};
use serde_json::Value as Json;

/// A marker for a difference, with the path of its capture.
pub struct DeviationRow;

impl Subject for DeviationRow {
    type Of<'a> = (&'a str, &'a Difference);
}

/// A difference between the expectation of a capture and its analysis.
pub static DEVIATION: Columns<DeviationRow> = {
    type C = Column<DeviationRow>;
    Columns {
        name: "deviation",
        role: Role::Line,
        columns: &[
            C::new("capture", Text(|(capture, _), see| see(capture)), "The path of the capture."),
            C::new(
                "change",
                Word(
                    &[
                        explained("missing", "the line is expected but absent"),
                        explained("new", "the line is not expected"),
                        explained("moved", "the line has a different index among the lines of its type"),
                        explained("changed", "a field has a different value"),
                        explained("lost-field", "a field, or an entry of a list, is absent"),
                        explained("new-field", "a field, or an entry of a list, is not expected"),
                    ],
                    |(_, it)| {
                        Some(match it.change {
                            Change::Missing => "missing",
                            Change::New => "new",
                            Change::Moved { .. } => "moved",
                            Change::Changed { .. } => "changed",
                            Change::LostField { .. } => "lost-field",
                            Change::NewField { .. } => "new-field",
                        })
                    },
                ),
                "The kind of difference.",
            ),
            C::new(
                "of",
                Text(|(_, it), see| text(it, "type", see)),
                "The `type` of the line: `capture`, `connection`, `transaction`, `finding`, or any other type in an expectation.",
            )
            .or_null(),
            C::new(
                "connection",
                U64(|(_, it)| it.of.get("connection")?.as_u64()),
                "The number of the connection. This and the next four fields come from the expected line, or from the new one.",
            )
            .or_null(),
            C::new("direction", Text(|(_, it), see| text(it, "direction", see)), "The direction of the transaction.").or_null(),
            C::new("xid", Text(|(_, it), see| text(it, "xid", see)), "The XID of the transaction.").or_null(),
            C::new(
                "operations",
                Any("strings", &[], |(_, it), see| lend(it.of.get("operations"), |json| see(Value::Json(json)))),
                "The operations of the transaction.",
            )
            .or_null(),
            C::new("rule", Text(|(_, it), see| text(it, "rule", see)), "The rule of a finding.").or_null(),
            C::new(
                "frame",
                Frame(|(_, it)| regress::Subject(&it.of).frame()),
                "The frame of the call, or of the reply if there is no call; for a finding, its first frame.",
            )
            .or_null(),
            C::new(
                "field",
                Text(|(_, it), see| match &it.change {
                    Change::Changed { field, .. }
                    | Change::LostField { field, .. }
                    | Change::NewField { field, .. } => see(field),
                    Change::Missing | Change::New | Change::Moved { .. } => {}
                }),
                "The field: `call.read_chunks[0].segments[1].length`. If several lines have a field that the other side lacks, its entries have no numbers: `operation_details[].name`.",
            )
            .or_null(),
            C::new(
                "expected",
                Any("any", &[], |(_, it), see| match &it.change {
                    Change::Missing => see(Value::Json(&Json::Object((*it.of).clone()))),
                    Change::Moved { expected, .. } => see(Value::Number(*expected as u64)),
                    Change::Changed { expected, .. } | Change::LostField { expected, .. } => {
                        see(Value::Json(expected));
                    }
                    Change::New | Change::NewField { .. } => {}
                }),
                "The expected value. For `missing`, the whole line; for `moved`, the index from 1.",
            )
            .or_null(),
            C::new(
                "found",
                Any("any", &[], |(_, it), see| match &it.change {
                    Change::New => see(Value::Json(&Json::Object((*it.of).clone()))),
                    Change::Moved { found, .. } => see(Value::Number(*found as u64)),
                    Change::Changed { found, .. } | Change::NewField { found, .. } => see(Value::Json(found)),
                    Change::Missing | Change::LostField { .. } => {}
                }),
                "The value found. For `new`, the whole line; for `moved`, the index from 1.",
            )
            .or_null(),
            C::new(
                "lines",
                U64(|(_, it)| {
                    Some(match it.change {
                        Change::LostField { lines, .. } | Change::NewField { lines, .. } => lines,
                        Change::Missing | Change::New | Change::Moved { .. } | Change::Changed { .. } => 1,
                    })
                }),
                "The number of lines with a field that the other side lacks; the values are from the first. Otherwise 1.",
            ),
        ],
    }
};

/// Lends a field of the line to `see`, if it is a text.
fn text(difference: &Difference, field: &str, see: &mut dyn FnMut(&str)) {
    lend(difference.of.get(field).and_then(Json::as_str), see);
}

/// A marker for the outcome of a file, with its path.
pub struct VerdictRow;

impl Subject for VerdictRow {
    type Of<'a> = (&'a str, &'a Outcome);
}

/// The outcome of a file.
pub static VERDICT: Columns<VerdictRow> = {
    type C = Column<VerdictRow>;
    Columns {
        name: "verdict",
        role: Role::Line,
        columns: &[
            C::new("capture", Text(|(capture, _), see| see(capture)), "The path of the file."),
            C::new(
                "verdict",
                Word(
                    &[
                        word("same"),
                        word("different"),
                        explained("no-expectation", "the capture has no expectation"),
                        explained("blessed", "the expectation was written"),
                        explained("no-capture", "the expectation has no capture"),
                        explained("absent", "listed in the MANIFEST but absent"),
                        explained("other-file", "not the file that the MANIFEST lists"),
                        word("unreadable"),
                        explained(
                            "broken-expectation",
                            "the expectation is invalid, or cannot be read or written",
                        ),
                    ],
                    |(_, it)| {
                        Some(match it.verdict {
                            Verdict::Same => "same",
                            Verdict::Different { .. } => "different",
                            Verdict::NoExpectation => "no-expectation",
                            Verdict::Blessed(_) => "blessed",
                            Verdict::NoCapture => "no-capture",
                            Verdict::Absent => "absent",
                            Verdict::OtherFile(_) => "other-file",
                            Verdict::Unreadable(_) => "unreadable",
                            Verdict::BrokenExpectation(_) => "broken-expectation",
                        })
                    },
                ),
                "The verdict.",
            ),
            C::new(
                "listed",
                Boolean(|(_, it)| it.listed),
                "Whether a MANIFEST lists the file. It is null if there is no MANIFEST.",
            )
            .or_null(),
            C::new(
                "differences",
                U64(|(_, it)| match it.verdict {
                    Verdict::Same => Some(0),
                    Verdict::Different { count, .. } => Some(count),
                    _ => None,
                }),
                "The number of differences, including those beyond `--limit`. It is null if nothing was compared.",
            )
            .or_null(),
            C::new(
                "added",
                U64(|(_, it)| Some(it.blessed()?.added)),
                "Lines added to a written expectation.",
            )
            .or_null(),
            C::new(
                "removed",
                U64(|(_, it)| Some(it.blessed()?.removed)),
                "Lines removed from a written expectation.",
            )
            .or_null(),
            C::new(
                "trouble",
                Text(|(_, it), see| lend(it.trouble(), |trouble| see(&trouble))),
                "The error.",
            )
            .or_null(),
        ],
    }
};
