//! `finding`: a place where a rule is broken, or may be; and `rule`.

use super::transaction::DIRECTIONS;
use crate::column::Read::{Any, Boolean, Frames, Object, Objects, Shown, Text, U32, U64, Word, Xid};
use crate::column::{Column, Columns, Role, Subject, Value, Within, Words, explained, lend, word};
use crate::words;
use rdmascope_analysis::names;
use rdmascope_conformance::{Finding, Rule, Source, Value as Measure};

/// A finding, and whether a person said that its rule may be broken.
#[derive(Clone, Copy)]
pub struct FindingRow<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// Whether the rule is allowed to be broken.
    pub allowed_rule: bool,
    /// Why a policy allows it.
    pub reason: Option<&'a str>,
}

impl<'a> FindingRow<'a> {
    /// `allowed_rule`: whether a person said that the rule may be broken.
    pub fn new(finding: &'a Finding, allowed_rule: bool) -> FindingRow<'a> {
        FindingRow { finding, allowed_rule, reason: None }
    }

    /// Adds why a policy allows it.
    pub fn because(self, reason: Option<&'a str>) -> FindingRow<'a> {
        FindingRow { reason, ..self }
    }
}

impl Subject for FindingRow<'static> {
    type Of<'a> = FindingRow<'a>;
}

/// How much rules weigh.
pub(super) static LEVELS: Words = &[word("violation"), word("warning"), word("advice")];

static VERDICTS: Words = &[
    explained("stands", "the capture shows it"),
    explained("inconclusive", "the capture lacks packets that could show otherwise"),
];

/// A place where a rule is broken, or may be.
pub static FINDING: Columns<FindingRow<'static>> = {
    type C = Column<FindingRow<'static>>;
    type O<U> = Within<FindingRow<'static>, U>;
    Columns {
        name: "finding",
        role: Role::Line,
        columns: &[
            C::new("rule", Word(&[], |row| row.finding.rule.map(|rule| rule.id)), "The id of the rule: `credit-limit`.")
                .or_null(),
            C::new(
                "level",
                Word(LEVELS, |row| row.finding.rule.map(|rule| words::level(rule.level))),
                "How much the rule weighs.",
            )
            .or_null(),
            C::new(
                "verdict",
                Word(VERDICTS, |row| Some(words::verdict(row.finding.verdict))),
                "Whether the finding is certain.",
            ),
            C::new("allowed_rule", Boolean(|row| Some(row.allowed_rule)), "Whether it is allowed: `--allow` names the rule, or an entry of the policy allows it.")
                .json_only(),
            C::new("reason", Text(|row, see| lend(row.reason, see)), "Why the policy allows it, where it does.")
                .optional()
                .json_only(),
            C::new(
                "connection",
                U32(|row| row.finding.connection.map(|connection| connection.0)),
                "The number of the connection.",
            )
            .or_null(),
            C::new(
                "by",
                Word(
                    &[
                        explained("requester", "the end that opened the connection"),
                        explained("responder", "the other end"),
                    ],
                    |row| row.finding.by_requester.map(words::end),
                ),
                "The end that broke the rule. It is null where both did, or where it cannot be told.",
            )
            .or_null(),
            C::new(
                "direction",
                Word(DIRECTIONS, |row| row.finding.direction.map(names::direction)),
                "The direction of the transaction that the finding is about.",
            )
            .or_null(),
            C::new(
                "xid",
                Xid(|row| row.finding.xid.map(|xid| xid.0)),
                "The XID of what the finding is about.",
            )
            .or_null(),
            C::new(
                "transaction",
                U64(|row| row.finding.transaction),
                "The number of the transaction, where it had ended when the finding became certain. Else `connection`, `direction`, \
                 `xid` and `frames` tell which transaction it was.",
            )
            .or_null()
            .parquet("number"),
            C::new(
                "frames",
                Frames(|row, see| row.finding.frames.iter().copied().for_each(see)),
                "The packets that are the evidence, in the order of the capture, at most 16.",
            ),
            C::new(
                "message",
                Text(|row, see| see(&row.finding.message)),
                "What was seen, in words for people. They may change.",
            ),
            C::new(
                "sources",
                Objects(&O {
                    columns: &SOURCE,
                    lend: |row, see| {
                        row.finding.rule.into_iter().flat_map(|rule| rule.sources).for_each(see);
                    },
                }),
                "Where the rule stands.",
            ),
            C::new(
                "observed",
                Object(&O { columns: &VALUE, lend: |row, see| lend(row.finding.observed.as_ref(), see) }),
                "The value seen.",
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

/// A value that was seen, or that a rule allows.
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
                    // The form is the same for people: 0x and at least 8 digits.
                    Measure::Hexadecimal(_) => see(Value::Shown(measure)),
                    Measure::Name(name) => see(Value::Text(name)),
                    Measure::Words(words) => see(Value::Text(words)),
                }),
                "A number; of `hexadecimal` and `text` a string. A hexadecimal number is `0x` and at least 8 digits.",
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
                "The value, where it is a number.",
            )
            .parquet_only(),
            C::new(
                "text",
                Text(|measure, see| match measure {
                    Measure::Name(name) => see(name),
                    Measure::Words(words) => see(words),
                    Measure::Count(_) | Measure::Bytes(_) | Measure::Nanoseconds(_) | Measure::Hexadecimal(_) => {}
                }),
                "The value, where it is a text.",
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
                        explained("text", "a name out of a specification, or words"),
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
                "What the value counts.",
            ),
        ],
    }
};

/// A rule, and what it is about.
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
            C::new("subject", Word(&[], |(subject, _)| Some(subject)), "What the rule is about."),
            C::new(
                "level",
                Word(LEVELS, |(_, rule)| Some(words::level(rule.level))),
                "How much the rule weighs.",
            ),
            C::new(
                "sources",
                Objects(&O { columns: &SOURCE, lend: |(_, rule), see| rule.sources.iter().for_each(see) }),
                "Where the rule stands.",
            ),
            C::new(
                "sentence",
                Word(&[], |(_, rule)| Some(rule.sentence)),
                "What the rule asks, in one sentence.",
            ),
            C::new(
                "explanation",
                Word(&[], |(_, rule)| Some(rule.explanation)),
                "What counts as evidence, and when the answer is inconclusive.",
            ),
        ],
    }
};
