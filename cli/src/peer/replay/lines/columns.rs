//! The columns of a replay's lines. They define the JSON and the tables in docs/peer.md.

use super::{Difference, Replayed, Summary, Unknown};
use rdmascope_present::column::Read::{Boolean, Nanoseconds, Objects, Text, U32, U64, Word, Xid};
use rdmascope_present::column::{Column, Columns, Role, Subject, Within, Words, explained, lend, word};

/// The lists with a table in docs/peer.md.
#[cfg(test)]
pub(in crate::peer) static LISTS: [&dyn rdmascope_present::column::List; 2] = [&REPLAYED, &REPLAY_END];

const DIRECTIONS: Words = &[word("forward"), word("backward")];

const VERDICTS: Words = &[
    word("agrees"),
    word("differs"),
    explained("unanswered", "no reply, as in the capture"),
    word("not-compared"),
    word("not-sent"),
    explained("skipped", "not sent, because it has a stateid that the target never returned"),
];

impl Subject for Replayed {
    type Of<'a> = &'a Replayed;
}

/// A repeated call or a connection.
pub(in crate::peer::replay) static REPLAYED: Columns<Replayed> = {
    type C = Column<Replayed>;
    type O<U> = Within<Replayed, U>;
    Columns {
        name: "peer_replayed",
        role: Role::Line,
        columns: &[
            C::new("connection", U32(|line| Some(line.connection)), "The connection of the capture."),
            C::new(
                "transaction",
                U64(|line| line.transaction),
                "The transaction of the capture; null for a connection, and for a call of the target that is not in the capture.",
            )
            .or_null(),
            C::new(
                "direction",
                Word(DIRECTIONS, |line| line.direction),
                "The direction of the call. It is null for a connection.",
            )
            .or_null(),
            C::new("xid", Xid(|line| line.xid.map(|xid| xid.0)), "The XID in the capture.").or_null(),
            C::new("name", Text(|line, see| lend(line.name.as_deref(), see)), "Program and operation.").or_null(),
            C::new("verdict", Word(VERDICTS, |line| Some(line.verdict)), "The result of the comparison."),
            C::new("own", U64(|line| Some(line.own as u64)), "Number of differences in fields that may differ."),
            C::new(
                "understood",
                Boolean(|line| Some(line.understood)),
                "Whether both replies were decoded completely.",
            ),
            C::new(
                "differences",
                Objects(&O { columns: &DIFFERENCE, lend: |line, see| line.differences.iter().for_each(see) }),
                "The first eight of each kind.",
            ),
            C::new(
                "may_differ",
                Objects(&O { columns: &DIFFERENCE, lend: |line, see| line.may_differ.iter().for_each(see) }),
                "Allowed differences: in grants, and in the conveyance of the reply.",
            ),
            C::new(
                "reason",
                Text(|line, see| lend(line.reason.as_deref(), see)),
                "Why it was not compared, not sent or skipped, or the event in place of the reply.",
            )
            .or_null(),
            C::new(
                "unknown",
                Objects(&O { columns: &UNKNOWN, lend: |line, see| line.unknown.iter().for_each(see) }),
                "Names in the call that no reply supplied.",
            ),
            C::new(
                "latency_ns",
                Nanoseconds(|line| line.latency_ns),
                "Time from the call to its reply, measured in this process.",
            )
            .or_null(),
        ],
    }
};

const KINDS: Words = &[
    explained("content", "contents of the reply"),
    explained(
        "granted",
        "grants and choices of the server: slots, limits, delegations, attributes that it supports",
    ),
    explained("conveyance", "the chunk used, its length, or the invalidated handle"),
];

impl Subject for Difference {
    type Of<'a> = &'a Difference;
}

static DIFFERENCE: Columns<Difference> = {
    type C = Column<Difference>;
    Columns {
        name: "differences",
        role: Role::Inner,
        columns: &[
            C::new("kind", Word(KINDS, |found| Some(found.kind)), "The kind of difference."),
            C::new(
                "operation",
                Text(|found, see| lend(found.operation.as_deref(), see)),
                "The operation of a COMPOUND.",
            )
            .or_null(),
            C::new("field", Text(|found, see| see(&found.field)), "The field that differs."),
            C::new("recorded", Text(|found, see| see(&found.recorded)), "The value in the recorded reply."),
            C::new("live", Text(|found, see| see(&found.live)), "The value in the new reply."),
            C::new(
                "section",
                Text(|found, see| lend(found.section, see)),
                "The section about the conveyance, such as `rfc8166/3.4.6`. It is null for other kinds.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Unknown {
    type Of<'a> = &'a Unknown;
}

static UNKNOWN: Columns<Unknown> = {
    type C = Column<Unknown>;
    Columns {
        name: "unknown",
        role: Role::Inner,
        columns: &[
            C::new("field", Text(|name, see| see(name.field)), "The kind of name."),
            C::new("bytes", Text(|name, see| see(&name.bytes)), "Its bytes in hexadecimal digits."),
        ],
    }
};

impl Subject for Summary {
    type Of<'a> = &'a Summary;
}

/// The summary of all calls.
pub(in crate::peer::replay) static REPLAY_END: Columns<Summary> = {
    type C = Column<Summary>;
    Columns {
        name: "peer_replay_end",
        role: Role::Line,
        columns: &[
            C::new("calls", U64(|line| Some(line.calls)), "Calls in both directions."),
            C::new("agree", U64(|line| Some(line.agree)), "Calls with the verdict `agrees`."),
            C::new("differ", U64(|line| Some(line.differ)), "Calls with the verdict `differs`."),
            C::new("unanswered", U64(|line| Some(line.unanswered)), "Calls with the verdict `unanswered`."),
            C::new(
                "not_compared",
                U64(|line| Some(line.not_compared)),
                "Calls with the verdict `not-compared`.",
            ),
            C::new("not_sent", U64(|line| Some(line.not_sent)), "Calls with the verdict `not-sent`."),
            C::new("skipped", U64(|line| Some(line.skipped)), "Calls with the verdict `skipped`."),
            C::new(
                "not_understood",
                U64(|line| Some(line.not_understood)),
                "Replies that were not decoded completely.",
            ),
            C::new(
                "own",
                U64(|line| Some(line.own as u64)),
                "Number of differences in fields that may differ.",
            ),
            C::new(
                "granted_differ",
                U64(|line| Some(line.granted_differ)),
                "Calls whose reply has other grants than recorded.",
            ),
            C::new(
                "conveyance_differ",
                U64(|line| Some(line.conveyance_differ)),
                "Calls whose reply is conveyed differently where it must be equal. `differ` includes them.",
            ),
            C::new(
                "conveyance_may_differ",
                U64(|line| Some(line.conveyance_may_differ)),
                "Calls whose reply is conveyed differently where the responder may choose.",
            ),
            C::new(
                "connections_differ",
                U64(|line| Some(line.connections_differ)),
                "Connections that were rejected or accepted unlike in the capture.",
            ),
            C::new(
                "sent",
                U64(|line| Some(line.counts.sent)),
                "Packets sent. This and the next three are as in `peer_end`.",
            ),
            C::new("icrc_good", U64(|line| Some(line.counts.good)), "Packets received with a correct ICRC."),
            C::new("icrc_bad", U64(|line| Some(line.counts.bad)), "Packets received with a bad ICRC."),
            C::new(
                "icrc_unverified",
                U64(|line| Some(line.counts.unverified)),
                "Packets received whose ICRC could not be verified with certainty.",
            ),
        ],
    }
};
