//! The columns of the lines of a replay: JSON, and the tables in docs/peer.md, come from them.

use super::{Difference, Replayed, Summary, Unknown};
use rdmascope_present::column::Read::{Boolean, Nanoseconds, Objects, Text, U32, U64, Word, Xid};
use rdmascope_present::column::{Column, Columns, Role, Subject, Within, Words, explained, lend, word};

/// Those with a table in docs/peer.md.
#[cfg(test)]
pub(in crate::peer) static LISTS: [&dyn rdmascope_present::column::List; 2] = [&REPLAYED, &REPLAY_END];

const DIRECTIONS: Words = &[word("forward"), word("backward")];

const VERDICTS: Words = &[
    word("agrees"),
    word("differs"),
    explained("unanswered", "there is no reply, as in the capture"),
    word("not-compared"),
    word("not-sent"),
    explained("skipped", "not sent, for it names a stateid that the target never gave"),
];

impl Subject for Replayed {
    type Of<'a> = &'a Replayed;
}

/// A call that was made again, or a connection.
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
                "The transaction of the capture; null for a connection, and for a call of the target that the capture does not have.",
            )
            .or_null(),
            C::new(
                "direction",
                Word(DIRECTIONS, |line| line.direction),
                "It is null for a connection. The direction of the call.",
            )
            .or_null(),
            C::new("xid", Xid(|line| line.xid.map(|xid| xid.0)), "The XID in the capture.").or_null(),
            C::new("name", Text(|line, see| lend(line.name.as_deref(), see)), "Program and operation.").or_null(),
            C::new("verdict", Word(VERDICTS, |line| Some(line.verdict)), "What the comparison came to."),
            C::new("own", U64(|line| Some(line.own as u64)), "Fields that differ and may."),
            C::new(
                "understood",
                Boolean(|line| Some(line.understood)),
                "Whether all of both replies was understood.",
            ),
            C::new(
                "differences",
                Objects(&O { columns: &DIFFERENCE, lend: |line, see| line.differences.iter().for_each(see) }),
                "The first eight of each kind.",
            ),
            C::new(
                "may_differ",
                Objects(&O { columns: &DIFFERENCE, lend: |line, see| line.may_differ.iter().for_each(see) }),
                "Differences that a responder may choose: of grants, and of how the reply is conveyed.",
            ),
            C::new(
                "reason",
                Text(|line, see| lend(line.reason.as_deref(), see)),
                "Why it was not compared, not sent or skipped, or the event that came instead of the reply.",
            )
            .or_null(),
            C::new(
                "unknown",
                Objects(&O { columns: &UNKNOWN, lend: |line, see| line.unknown.iter().for_each(see) }),
                "Names in the call that no reply brought.",
            ),
            C::new(
                "latency_ns",
                Nanoseconds(|line| line.latency_ns),
                "From the call to its reply, in this process.",
            )
            .or_null(),
        ],
    }
};

const KINDS: Words = &[
    explained("content", "what the reply says"),
    explained(
        "granted",
        "grants and choices of the server: slots, limits, delegations, attributes that it supports",
    ),
    explained("conveyance", "by which chunk, how much of it, or with which handle invalidated it comes"),
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
            C::new("kind", Word(KINDS, |found| Some(found.kind)), "What differs."),
            C::new(
                "operation",
                Text(|found, see| lend(found.operation.as_deref(), see)),
                "The operation of a COMPOUND.",
            )
            .or_null(),
            C::new("field", Text(|found, see| see(&found.field)), "The field."),
            C::new("recorded", Text(|found, see| see(&found.recorded)), "What the recorded reply has."),
            C::new("live", Text(|found, see| see(&found.live)), "What the reply has now."),
            C::new(
                "section",
                Text(|found, see| lend(found.section, see)),
                "It is null but for conveyance. The section about how it is conveyed, such as `rfc8166/3.4.6`.",
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
            C::new("field", Text(|name, see| see(name.field)), "What it is."),
            C::new("bytes", Text(|name, see| see(&name.bytes)), "Its bytes, as hexadecimal digits."),
        ],
    }
};

impl Subject for Summary {
    type Of<'a> = &'a Summary;
}

/// All calls.
pub(in crate::peer::replay) static REPLAY_END: Columns<Summary> = {
    type C = Column<Summary>;
    Columns {
        name: "peer_replay_end",
        role: Role::Line,
        columns: &[
            C::new("calls", U64(|line| Some(line.calls)), "Calls of both directions."),
            C::new("agree", U64(|line| Some(line.agree)), "Those whose verdict is `agrees`."),
            C::new("differ", U64(|line| Some(line.differ)), "Those whose verdict is `differs`."),
            C::new("unanswered", U64(|line| Some(line.unanswered)), "Those whose verdict is `unanswered`."),
            C::new(
                "not_compared",
                U64(|line| Some(line.not_compared)),
                "Those whose verdict is `not-compared`.",
            ),
            C::new("not_sent", U64(|line| Some(line.not_sent)), "Those whose verdict is `not-sent`."),
            C::new("skipped", U64(|line| Some(line.skipped)), "Those whose verdict is `skipped`."),
            C::new(
                "not_understood",
                U64(|line| Some(line.not_understood)),
                "Replies that were not understood to their end.",
            ),
            C::new("own", U64(|line| Some(line.own as u64)), "Fields that differ and may."),
            C::new(
                "granted_differ",
                U64(|line| Some(line.granted_differ)),
                "Calls whose reply grants something else than recorded.",
            ),
            C::new(
                "conveyance_differ",
                U64(|line| Some(line.conveyance_differ)),
                "Calls whose reply is conveyed otherwise than recorded, where it must be equal. They are among `differ`.",
            ),
            C::new(
                "conveyance_may_differ",
                U64(|line| Some(line.conveyance_may_differ)),
                "Calls whose reply is conveyed otherwise where that is the responder's choice.",
            ),
            C::new(
                "connections_differ",
                U64(|line| Some(line.connections_differ)),
                "Connections that were refused, or made, other than in the capture.",
            ),
            C::new(
                "sent",
                U64(|line| Some(line.sent)),
                "Packets sent. This and the next three are as in `peer_end`.",
            ),
            C::new("icrc_good", U64(|line| Some(line.icrc_good)), "Packets received whose ICRC is right."),
            C::new("icrc_bad", U64(|line| Some(line.icrc_bad)), "Those whose ICRC is wrong."),
            C::new(
                "icrc_unverified",
                U64(|line| Some(line.icrc_unverified)),
                "Those whose ICRC could not be verified for certain.",
            ),
        ],
    }
};
