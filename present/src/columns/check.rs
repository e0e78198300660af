//! `check`: what was judged, and how often what was found.

use super::capture::FILE;
use super::finding::LEVELS;
use crate::column::Read::{Boolean, Object, Objects, Text, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend};
use crate::words;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::policy::Policed;
use rdmascope_analysis::tally::{LevelCount, RuleCount, Tally};
use rdmascope_conformance::Level;

/// What a judge found in a capture, and how the reading of it ended.
pub struct Judged;

impl Subject for Judged {
    type Of<'a> = (&'a Tally, &'a Ending);
}

/// What was judged, and how often what was found.
pub static CHECK: Columns<Judged> = {
    type C = Column<Judged>;
    type O<U> = Within<Judged, U>;
    Columns {
        name: "check",
        role: Role::Line,
        columns: &[
            C::new(
                "broken",
                Boolean(|(tally, _)| Some(tally.is_broken())),
                "Whether a violation stands that is not allowed.",
            ),
            C::new(
                "policy",
                Text(|(tally, _), see| lend(tally.policy.as_ref(), |policy| see(&policy.file))),
                "The file of the policy, where there is one.",
            )
            .optional(),
            C::new(
                "policy_failures",
                U64(|(tally, _)| tally.policy.as_ref().map(Policed::failures)),
                "Entries of the policy that make the check fail.",
            )
            .optional(),
            C::new(
                "violations",
                Object(&O { columns: &LEVEL, lend: |(tally, _), see| see(tally.level(Level::Violation)) }),
                "Findings of rules of the level `violation`.",
            ),
            C::new(
                "warnings",
                Object(&O { columns: &LEVEL, lend: |(tally, _), see| see(tally.level(Level::Warning)) }),
                "Findings of rules of the level `warning`.",
            ),
            C::new(
                "advice",
                Object(&O { columns: &LEVEL, lend: |(tally, _), see| see(tally.level(Level::Advice)) }),
                "Findings of rules of the level `advice`.",
            ),
            C::new(
                "rules",
                Objects(&O {
                    columns: &RULE_COUNT,
                    lend: |(tally, _), see| {
                        tally
                            .rules
                            .iter()
                            .filter(|count| count.stands + count.inconclusive > 0)
                            .for_each(see);
                    },
                }),
                "The rules of which something was found.",
            ),
            C::new(
                "rules_asked",
                U64(|(tally, _)| Some(tally.rules.len() as u64)),
                "Rules that were asked: all, or those that `--level` leaves.",
            ),
            C::new("connections", U64(|(tally, _)| Some(tally.connections)), "Connections that were judged."),
            C::new(
                "connections_inferred",
                U64(|(tally, _)| Some(tally.inferred)),
                "Connections that were open before the capture began. What they negotiated is not known.",
            ),
            C::new(
                "connections_one_sided",
                U64(|(tally, _)| Some(tally.one_sided)),
                "Connections that were captured in one direction only.",
            ),
            C::new(
                "transactions",
                U64(|(tally, _)| Some(tally.transactions)),
                "Transactions that were judged.",
            ),
            C::new(
                "transactions_encrypted",
                U64(|(tally, _)| Some(tally.sealed)),
                "Those of them whose arguments and results are encrypted (krb5p): their operations, statuses and slots of sessions are not judged.",
            ),
            C::new(
                "missing_packets",
                U64(|(tally, _)| Some(tally.missing_packets)),
                "Request packets that the capture lacks.",
            ),
            C::new(
                "snapped",
                U64(|(_, ending)| Some(ending.totals.cut_records)),
                "Packets that a snap length cut.",
            ),
            C::new(
                "evictions",
                U64(|(_, ending)| Some(ending.totals.evictions)),
                "Entries that were given up because a table was full.",
            ),
            C::new(
                "files",
                Objects(&O { columns: &FILE, lend: |(_, ending), see| ending.files.iter().for_each(see) }),
                "The files of the capture, in the order in which they were given.",
            ),
        ],
    }
};

impl Subject for LevelCount {
    type Of<'a> = LevelCount;
}

static LEVEL: Columns<LevelCount> = {
    type C = Column<LevelCount>;
    Columns {
        name: "level",
        role: Role::Inner,
        columns: &[
            C::new("stands", U64(|count| Some(count.stands)), "Findings that stand."),
            C::new("allowed", U64(|count| Some(count.allowed)), "Those of them that are allowed."),
            C::new("inconclusive", U64(|count| Some(count.inconclusive)), "Findings that are inconclusive."),
        ],
    }
};

impl Subject for RuleCount {
    type Of<'a> = &'a RuleCount;
}

static RULE_COUNT: Columns<RuleCount> = {
    type C = Column<RuleCount>;
    Columns {
        name: "rules",
        role: Role::Inner,
        columns: &[
            C::new("rule", Word(&[], |count| Some(count.rule.id)), "The id of the rule."),
            C::new(
                "level",
                Word(LEVELS, |count| Some(words::level(count.rule.level))),
                "How much the rule weighs.",
            ),
            C::new(
                "allowed_rule",
                Boolean(|count| Some(count.is_allowed)),
                "Whether `--allow` names the rule.",
            ),
            C::new("stands", U64(|count| Some(count.stands)), "Findings that stand."),
            C::new("inconclusive", U64(|count| Some(count.inconclusive)), "Findings that are inconclusive."),
        ],
    }
};
