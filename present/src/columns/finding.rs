//! `finding`: a broken rule, or one that may be broken; and `rule`.

use super::shared::{DIRECTIONS, ENDS};
use crate::column::Read::{Any, Boolean, Frames, Object, Objects, Shown, Text, U64, Word, Xid};
use crate::column::{Column, Columns, Role, Subject, Value, Within, Words, explained, lend, word};
use crate::words;
use rdmascope_analysis::names;
use rdmascope_conformance::{Finding, Rule, Source, Value as Measure};

/// A finding, and whether it is allowed.
#[derive(Clone, Copy)]
pub struct FindingRow<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// Whether the user allows the rule to be broken.
    pub allowed_rule: bool,
    /// Why a policy allows the finding.
    pub reason: Option<&'a str>,
}

impl<'a> FindingRow<'a> {
    /// Creates a row. `allowed_rule`: whether the user allows the rule to be broken.
    pub fn new(finding: &'a Finding, allowed_rule: bool) -> FindingRow<'a> {
        FindingRow { finding, allowed_rule, reason: None }
    }

    /// Adds the reason for which a policy allows the finding.
    pub fn because(self, reason: Option<&'a str>) -> FindingRow<'a> {
        FindingRow { reason, ..self }
    }
}

impl Subject for FindingRow<'static> {
    type Of<'a> = FindingRow<'a>;
}

static VERDICTS: Words = &[
    explained("stands", "the capture proves it"),
    explained("inconclusive", "missing packets could disprove it"),
];

/// A broken rule, or one that may be broken.
pub static FINDING: Columns<FindingRow<'static>> = {
    type C = Column<FindingRow<'static>>;
    type O<U> = Within<FindingRow<'static>, U>;
    Columns {
        name: "finding",
        role: Role::Line,
        columns: &[
            C::new("rule", Word(&[], |row| row.finding.rule.map(|rule| rule.id)), "The id of the rule: `credit-limit`.")
                .or_null(),
            C::level(|row| row.finding.rule.map(|rule| words::level(rule.level))).or_null(),
            C::new(
                "verdict",
                Word(VERDICTS, |row| Some(words::verdict(row.finding.verdict))),
                "Whether the finding is conclusive.",
            ),
            C::new("allowed_rule", Boolean(|row| Some(row.allowed_rule)), "Whether the finding is allowed: `--allow` names the rule, or an entry of the policy allows it.")
                .json_only(),
            C::new("reason", Text(|row, see| lend(row.reason, see)), "The reason for which the policy allows the finding.")
                .optional()
                .json_only(),
            C::connection(|row| row.finding.connection.map(|connection| connection.0)).or_null(),
            C::new(
                "by",
                Word(ENDS, |row| row.finding.by_requester.map(words::end)),
                "The end that broke the rule. It is null if both did or if the capture does not show it.",
            )
            .or_null(),
            C::new(
                "direction",
                Word(DIRECTIONS, |row| row.finding.direction.map(names::direction)),
                "The direction of the transaction that the finding concerns.",
            )
            .or_null(),
            C::new(
                "xid",
                Xid(|row| row.finding.xid.map(|xid| xid.0)),
                "The XID of the transaction or message that the finding concerns.",
            )
            .or_null(),
            C::new(
                "transaction",
                U64(|row| row.finding.transaction),
                "The number of the transaction, if it had ended when the finding became certain. Otherwise \
                 `connection`, `direction`, `xid` and `frames` identify the transaction.",
            )
            .or_null()
            .parquet("number"),
            C::new(
                "frames",
                Frames(|row, see| row.finding.frames.iter().copied().for_each(see)),
                "The packets that are the evidence, in capture order, at most 16.",
            ),
            C::new(
                "message",
                Text(|row, see| see(&row.finding.message)),
                "A description of the observation, in words for people. The wording may change.",
            ),
            C::new(
                "sources",
                Objects(&O {
                    columns: &SOURCE,
                    lend: |row, see| {
                        row.finding.rule.into_iter().flat_map(|rule| rule.sources).for_each(see);
                    },
                }),
                "The sections that contain the rule.",
            ),
            C::new(
                "observed",
                Object(&O { columns: &VALUE, lend: |row, see| lend(row.finding.observed.as_ref(), see) }),
                "The observed value.",
            )
            .or_null(),
            C::new(
                "allowed",
                Object(&O { columns: &VALUE, lend: |row, see| lend(row.finding.allowed.as_ref(), see) }),
                "The value that the rule allows.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Source {
    type Of<'a> = &'a Source;
}

static SOURCE: Columns<Source> = {
    type C = Column<Source>;
    Columns {
        name: "source",
        role: Role::Inner,
        columns: &[
            C::new("document", Shown(|source, see| see(&source.document)), "The document: `RFC 8166`."),
            C::new("section", Word(&[], |source| Some(source.section)), "The section: `3.3.1`."),
        ],
    }
};

impl Subject for Measure {
    type Of<'a> = &'a Measure;
}

/// An observed value, or one that a rule allows.
pub static VALUE: Columns<Measure> = {
    type C = Column<Measure>;
    Columns {
        name: "value",
        role: Role::Shared,
        columns: &[
            C::new(
                "value",
                Any("number or string", &[], |measure, see| match measure {
                    Measure::Count(number) | Measure::Bytes(number) | Measure::Nanoseconds(number) => {
                        see(Value::Number(*number));
                    }
                    // JSON and text have the same form: 0x and at least 8 digits.
                    Measure::Hexadecimal(_) => see(Value::Shown(measure)),
                    Measure::Name(name) => see(Value::Text(name)),
                    Measure::Words(words) => see(Value::Text(words)),
                }),
                "The value: a string for `hexadecimal` and `text`, otherwise a number. A hexadecimal number \
                 is `0x` and at least 8 digits.",
            )
            .json_only(),
            C::new(
                "value",
                U64(|measure| match measure {
                    Measure::Count(number)
                    | Measure::Bytes(number)
                    | Measure::Nanoseconds(number)
                    | Measure::Hexadecimal(number) => Some(*number),
                    Measure::Name(_) | Measure::Words(_) => None,
                }),
                "The value, if it is a number.",
            )
            .parquet_only(),
            C::new(
                "text",
                Text(|measure, see| match measure {
                    Measure::Name(name) => see(name),
                    Measure::Words(words) => see(words),
                    Measure::Count(_)
                    | Measure::Bytes(_)
                    | Measure::Nanoseconds(_)
                    | Measure::Hexadecimal(_) => {}
                }),
                "The value, if it is text.",
            )
            .parquet_only(),
            C::new(
                "unit",
                Word(
                    &[
                        explained("count", "a number of things"),
                        word("bytes"),
                        word("nanoseconds"),
                        word("hexadecimal"),
                        explained("text", "a name from a specification, or words"),
                    ],
                    |measure| {
                        Some(match measure {
                            Measure::Count(_) => "count",
                            Measure::Bytes(_) => "bytes",
                            Measure::Nanoseconds(_) => "nanoseconds",
                            Measure::Hexadecimal(_) => "hexadecimal",
                            Measure::Name(_) | Measure::Words(_) => "text",
                        })
                    },
                ),
                "The unit of the value.",
            ),
        ],
    }
};

/// A marker for a rule and its subject.
pub struct RuleRow;

impl Subject for RuleRow {
    type Of<'a> = (&'static str, &'static Rule);
}

/// A rule.
pub static RULE: Columns<RuleRow> = {
    type C = Column<RuleRow>;
    type O<U> = Within<RuleRow, U>;
    Columns {
        name: "rule",
        role: Role::Line,
        columns: &[
            C::new("rule", Word(&[], |(_, rule)| Some(rule.id)), "The id of the rule."),
            C::new("subject", Word(&[], |(subject, _)| Some(subject)), "The subject of the rule."),
            C::level(|(_, rule)| Some(words::level(rule.level))),
            C::new(
                "sources",
                Objects(&O { columns: &SOURCE, lend: |(_, rule), see| rule.sources.iter().for_each(see) }),
                "The sections that contain the rule.",
            ),
            C::new(
                "sentence",
                Word(&[], |(_, rule)| Some(rule.sentence)),
                "The requirement, in one sentence.",
            ),
            C::new(
                "explanation",
                Word(&[], |(_, rule)| Some(rule.explanation)),
                "The evidence that the rule needs, and when its findings are inconclusive.",
            ),
        ],
    }
};
