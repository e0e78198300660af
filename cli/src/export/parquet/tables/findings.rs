//! `findings`: a row for each place where a rule is broken, or may be.

use crate::export::parquet::Table;
use crate::export::parquet::column::Leaf::{Text, U32, U64};
use crate::export::parquet::column::{Column, list, one, records};
use rdmascope_conformance::{Finding, Source, Value};
use rdmascope_present::names;
use rdmascope_present::words;

pub(in super::super) struct Findings;

impl Table for Findings {
    type Row<'a> = Finding;
    const NAME: &'static str = "findings";
    const COLUMNS: &'static [&'static [Column<Findings>]] = &[&[
        one("rule", Text(|row, out| out.put(row.rule.map(|rule| rule.id)))),
        one("level", Text(|row, out| out.put(row.rule.map(|rule| words::level(rule.level))))),
        one("verdict", Text(|row, out| out.put(words::verdict(row.verdict)))),
        one("connection", U32(|row, out| out.put(row.connection.map(|connection| connection.0)))),
        one("by", Text(|row, out| out.put(row.by_requester.map(words::end)))),
        one("direction", Text(|row, out| out.put(row.direction.map(names::direction)))),
        one("xid", U32(|row, out| out.put(row.xid.map(|xid| xid.0)))),
        one("number", U64(|row, out| out.put(row.transaction))),
        list("frames", U64(|row, out| row.frames.iter().for_each(|frame| out.put(*frame)))),
        one("message", Text(|row, out| out.show(Some(&row.message)))),
        records(
            "sources",
            &[
                (
                    "document",
                    Text(|row, out| sources(row).for_each(|source| out.show(Some(source.document)))),
                ),
                ("section", Text(|row, out| sources(row).for_each(|source| out.put(source.section)))),
            ],
        ),
        one("observed_value", U64(|row, out| out.put(row.observed.as_ref().and_then(number)))),
        one("observed_text", Text(|row, out| out.show(row.observed.as_ref().and_then(text)))),
        one("observed_unit", Text(|row, out| out.put(row.observed.as_ref().map(unit)))),
        one("allowed_value", U64(|row, out| out.put(row.allowed.as_ref().and_then(number)))),
        one("allowed_text", Text(|row, out| out.show(row.allowed.as_ref().and_then(text)))),
        one("allowed_unit", Text(|row, out| out.put(row.allowed.as_ref().map(unit)))),
    ]];
}

fn sources(finding: &Finding) -> impl Iterator<Item = &'static Source> {
    finding.rule.into_iter().flat_map(|rule| rule.sources)
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Count(number)
        | Value::Bytes(number)
        | Value::Nanoseconds(number)
        | Value::Hexadecimal(number) => Some(*number),
        Value::Name(_) | Value::Words(_) => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Name(name) => Some(name),
        Value::Words(words) => Some(words),
        Value::Count(_) | Value::Bytes(_) | Value::Nanoseconds(_) | Value::Hexadecimal(_) => None,
    }
}

/// What a value counts, as docs/json.md has it.
fn unit(value: &Value) -> &'static str {
    match value {
        Value::Count(_) => "count",
        Value::Bytes(_) => "bytes",
        Value::Nanoseconds(_) => "nanoseconds",
        Value::Hexadecimal(_) => "hexadecimal",
        Value::Name(_) | Value::Words(_) => "text",
    }
}
