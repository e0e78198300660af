//! `check`: the scope of a check, and the number of findings of each rule.

use super::capture::FILE;
use crate::column::Read::{Boolean, Object, Objects, Text, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend};
use crate::words;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::policy::Policed;
use rdmascope_analysis::tally::{LevelCount, RuleCount, Tally};
use rdmascope_conformance::Level;

/// A marker for the findings of the judge in a capture, with the totals of the capture.
pub struct Judged;

impl Subject for Judged {
    type Of<'a> = (&'a Tally, &'a Ending);
}

/// The scope of a check, and the number of findings of each rule.
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
                "Whether any rule of the level `violation` has a conclusive finding that is not allowed.",
            ),
            C::new(
                "outage",
                Boolean(|(tally, _)| Some(tally.has_outages)),
                "Whether there was time without service on a connection that was made.",
            ),
            C::new(
                "policy",
                Text(|(tally, _), see| lend(tally.policy.as_ref(), |policy| see(&policy.file))),
                "The file of the policy, if one is used.",
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
                            .filter(|count| count.conclusive + count.inconclusive > 0)
                            .for_each(see);
                    },
                }),
                "The rules that have findings.",
            ),
            C::new(
                "rules_asked",
                U64(|(tally, _)| Some(tally.rules.len() as u64)),
                "Rules that were checked: all, or those that `--level` selects.",
            ),
            C::new(
                "connections",
                U64(|(tally, _)| Some(tally.connections)),
                "Connections that were checked.",
            ),
            C::new(
                "connections_inferred",
                U64(|(tally, _)| Some(tally.inferred)),
                "Connections that were open before the capture began. Their negotiated parameters are \
                 unknown.",
            ),
            C::new(
                "connections_one_sided",
                U64(|(tally, _)| Some(tally.one_sided)),
                "Connections that were captured in one direction only.",
            ),
            C::new(
                "transactions",
                U64(|(tally, _)| Some(tally.transactions)),
                "Transactions that were checked.",
            ),
            C::new(
                "transactions_encrypted",
                U64(|(tally, _)| Some(tally.sealed)),
                "Checked transactions with encrypted arguments and results (krb5p). Their operations, \
                 statuses and session slots are not checked.",
            ),
            C::missing_packets(|(tally, _)| Some(tally.missing_packets)),
            C::snapped(|(_, ending)| Some(ending.totals.cut_records)),
            C::evictions(|(_, ending)| Some(ending.totals.evictions)),
            C::new(
                "files",
                Objects(&O { columns: &FILE, lend: |(_, ending), see| ending.files.iter().for_each(see) }),
                "The files of the capture, in the order given.",
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
            C::new("stands", U64(|count| Some(count.conclusive)), "Conclusive findings."),
            C::new("allowed", U64(|count| Some(count.allowed)), "Conclusive findings that are allowed."),
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
            C::level(|count| Some(words::level(count.rule.level))),
            C::new(
                "allowed_rule",
                Boolean(|count| Some(count.is_allowed)),
                "Whether `--allow` names the rule.",
            ),
            C::new("stands", U64(|count| Some(count.conclusive)), "Conclusive findings."),
            C::new("inconclusive", U64(|count| Some(count.inconclusive)), "Findings that are inconclusive."),
        ],
    }
};
