//! `policy`: an entry of a policy, and what came of it.

use super::finding::VALUE;
use crate::column::Read::{Object, Text, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, explained, lend};
use rdmascope_analysis::policy::{Policed, PolicyEntry};

/// An entry of a policy that was held against a capture.
pub struct PolicyRow;

impl Subject for PolicyRow {
    type Of<'a> = (&'a Policed, &'a PolicyEntry);
}

/// An entry of a policy, and what came of it.
pub static POLICY: Columns<PolicyRow> = {
    type C = Column<PolicyRow>;
    type O<U> = Within<PolicyRow, U>;
    Columns {
        name: "policy",
        role: Role::Line,
        columns: &[
            C::new("file", Text(|(policy, _), see| see(&policy.file)), "The file of the policy."),
            C::new("line", U64(|(_, entry)| Some(entry.line as u64)), "The line of the entry in it, from 1."),
            C::new(
                "entry",
                Word(
                    &[
                        explained("allow", "rules that may be broken"),
                        explained("latency", "a limit on the latency of an operation"),
                        explained("require", "what must be in the capture"),
                    ],
                    |(_, entry)| Some(entry.kind.word()),
                ),
                "What the entry is.",
            ),
            C::new(
                "outcome",
                Word(
                    &[
                        explained("met", "the capture keeps to it, or it allowed a finding"),
                        explained("failed", "the capture does not keep to it"),
                        explained("expired", "its last day is over"),
                        explained("unused", "it is about nothing in this capture"),
                    ],
                    |(_, entry)| Some(entry.outcome.word()),
                ),
                "What came of it. The check fails on `failed` and `expired`.",
            ),
            C::new(
                "subject",
                Text(|(_, entry), see| see(&entry.subject)),
                "What it is about: `p99 of READ`.",
            ),
            C::new(
                "message",
                Text(|(_, entry), see| see(&entry.message)),
                "What came of it, in words for people. They may change.",
            ),
            C::new(
                "observed",
                Object(&O { columns: &VALUE, lend: |(_, entry), see| lend(entry.observed.as_ref(), see) }),
                "The value seen.",
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
