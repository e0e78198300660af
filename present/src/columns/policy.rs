//! `policy`: an entry of a policy, and its outcome.

use super::finding::VALUE;
use crate::column::Read::{Object, Text, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, explained, lend};
use rdmascope_analysis::policy::{Policed, PolicyEntry};

/// A marker for a policy's entry that was applied to a capture.
pub struct PolicyRow;

impl Subject for PolicyRow {
    type Of<'a> = (&'a Policed, &'a PolicyEntry);
}

/// An entry of a policy, and its outcome.
pub static POLICY: Columns<PolicyRow> = {
    type C = Column<PolicyRow>;
    type O<U> = Within<PolicyRow, U>;
    Columns {
        name: "policy",
        role: Role::Line,
        columns: &[
            C::new("file", Text(|(policy, _), see| see(&policy.file)), "The file of the policy."),
            C::new(
                "line",
                U64(|(_, entry)| Some(entry.line as u64)),
                "The line of the entry in the file, from 1.",
            ),
            C::new(
                "entry",
                Word(
                    &[
                        explained("allow", "rules that may be broken"),
                        explained("latency", "a limit on the latency of an operation"),
                        explained("require", "a property that the capture must have"),
                    ],
                    |(_, entry)| Some(entry.kind.word()),
                ),
                "The kind of entry.",
            ),
            C::new(
                "outcome",
                Word(
                    &[
                        explained("met", "the capture complies, or the entry allowed a finding"),
                        explained("failed", "the capture does not comply"),
                        explained("expired", "the last day of the entry has passed"),
                        explained("unused", "the entry matches nothing in this capture"),
                    ],
                    |(_, entry)| Some(entry.outcome.word()),
                ),
                "The outcome of the entry. The check fails on `failed` and `expired`.",
            ),
            C::new(
                "subject",
                Text(|(_, entry), see| see(&entry.subject)),
                "The subject of the entry: `p99 of READ`.",
            ),
            C::new(
                "message",
                Text(|(_, entry), see| see(&entry.message)),
                "A description of the outcome, in words for people. The wording may change.",
            ),
            C::new(
                "observed",
                Object(&O { columns: &VALUE, lend: |(_, entry), see| lend(entry.observed.as_ref(), see) }),
                "The observed value.",
            )
            .or_null(),
            C::new(
                "allowed",
                Object(&O { columns: &VALUE, lend: |(_, entry), see| lend(entry.allowed.as_ref(), see) }),
                "The value that the policy allows.",
            )
            .or_null(),
        ],
    }
};
