//! What captures at several places tell together: `place`, `way` and `operation_split`.

use super::transaction::DIRECTIONS;
use crate::column::Read::{Fraction, Frames, Nanoseconds, Object, Shown, Text, Texts, U32, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend, word};
use crate::page::places::clock_said;
use rdmascope_analysis::places::{Doubt, Located, Place, Split, Sum, Way};
use rdmascope_analysis::report::Key;

impl Subject for Place {
    type Of<'a> = (usize, &'a Place);
}

/// A place where one of several captures was made.
pub static PLACE: Columns<Place> = {
    type C = Column<Place>;
    Columns {
        name: "place",
        role: Role::Line,
        columns: &[
            C::new("place", U32(|(index, _)| Some(index as u32 + 1)), "The number of the place, from 1."),
            C::new("name", Text(|(_, place), see| see(&place.name)), "Its first file."),
            C::new(
                "near",
                Texts(|(_, place), see| place.near.iter().for_each(|host| see(&host.to_string()))),
                "The addresses of hosts whose packets pass it before they pass the other places.",
            ),
            C::new(
                "clock",
                Word(&[word("ahead"), word("behind")], |(_, place)| {
                    let offset = place.tie.as_ref()?.parts.first()?.line.offset;
                    Some(if offset < 0 { "ahead" } else { "behind" })
                }),
                "Whether its clock is ahead of that of the first place, or behind it, when it shows the first packet that both do. It is left out of the first place.",
            )
            .optional(),
            C::new(
                "clock_ns",
                Nanoseconds(|(_, place)| Some(place.tie.as_ref()?.parts.first()?.line.offset.unsigned_abs())),
                "By how much.",
            )
            .optional(),
            C::new(
                "drift",
                Fraction(|(_, place)| Some(-place.tie.as_ref()?.parts.first()?.line.rate * 1e6)),
                "Microseconds that its clock gains in a second; negative where it loses.",
            )
            .optional(),
            C::new(
                "parts",
                U32(|(_, place)| Some(place.tie.as_ref()?.parts.len() as u32)),
                "For how many parts of the time its clock is told by lines of their own: more than one where a clock was set or slewed.",
            )
            .optional(),
            C::new(
                "doubt",
                Word(&[word("within"), word("one-way"), word("contradicted")], |(_, place)| {
                    Some(match place.tie.as_ref()?.doubt()? {
                        Doubt::Within(_) => "within",
                        Doubt::OneWay => "one-way",
                        Doubt::Contradicted(_) => "contradicted",
                    })
                }),
                "How far the clock may be wrong: `within` `doubt_ns`, whatever packets take; not known, because packets went `one-way`, and the fastest is taken to need no time; or the times of packets are `contradicted` by `doubt_ns`.",
            )
            .optional(),
            C::new(
                "doubt_ns",
                Nanoseconds(|(_, place)| match place.tie.as_ref()?.doubt()? {
                    Doubt::Within(most) | Doubt::Contradicted(most) => Some(most),
                    Doubt::OneWay => None,
                }),
                "Nanoseconds of it.",
            )
            .optional(),
            C::new("clock_said", Shown(|(_, place), see| lend(clock_said(place), |said| see(&said))), "The same in words, which may change.")
                .optional(),
        ],
    }
};

impl Subject for Located {
    type Of<'a> = &'a Located;
}

static LOCATED: Columns<Located> = {
    type C = Column<Located>;
    Columns {
        name: "located",
        role: Role::Inner,
        columns: &[
            C::new("packets", U64(|located| Some(located.count)), "How many."),
            C::new(
                "frames",
                Frames(|located, see| located.frames.iter().for_each(|frame| see(*frame))),
                "The first ones, at most 16, where they were seen.",
            ),
        ],
    }
};

impl Subject for Way {
    type Of<'a> = &'a Way;
}

/// The way of packets from one place to another.
pub static WAY: Columns<Way> = {
    type C = Column<Way>;
    type O<U> = Within<Way, U>;
    Columns {
        name: "way",
        role: Role::Line,
        columns: &[
            C::new("source", Shown(|way, see| see(&way.route.source)), "Who sends the packets."),
            C::new("destination", Shown(|way, see| see(&way.route.destination)), "Who receives them."),
            C::new("from", U32(|way| Some(way.from as u32 + 1)), "The place that they pass first."),
            C::new("to", U32(|way| Some(way.to as u32 + 1)), "The place that they pass next."),
            C::new("packets", U64(|way| Some(way.packets)), "Packets that both places show."),
            C::new(
                "min_ns",
                Nanoseconds(|way| Some(way.times()?[0])),
                "The least that one took, by the tied clocks.",
            )
            .optional(),
            C::new("median_ns", Nanoseconds(|way| Some(way.times()?[1])), "The median.").optional(),
            C::new("p99_ns", Nanoseconds(|way| Some(way.times()?[2])), "What 99 of 100 did not exceed.")
                .optional(),
            C::new("max_ns", Nanoseconds(|way| Some(way.times()?[3])), "The most.").optional(),
            C::new(
                "lost",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.lost) }),
                "Packets that the first place shows, and the next never does.",
            ),
            C::new(
                "damaged",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.damaged) }),
                "Packets that only the next place shows, with a wrong ICRC: what they were is among the lost ones.",
            ),
            C::new(
                "doubled",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.doubled) }),
                "Packets that the next place shows twice.",
            ),
            C::new(
                "behind",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.reordered) }),
                "Packets that came behind one that was sent after them.",
            ),
            C::new(
                "unseen",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.unseen) }),
                "Packets that the next place shows, and the first does not: its capture lacks them.",
            ),
            C::new(
                "undecided",
                U64(|way| Some(way.undecided)),
                "Packets that one place shows outside of the time of which the other shows any: whether they were lost is not known.",
            ),
        ],
    }
};

impl Subject for Split {
    type Of<'a> = Split;
}

/// Where the time of a transaction passed.
pub static SPLIT: Columns<Split> = {
    type C = Column<Split>;
    Columns {
        name: "split",
        role: Role::Shared,
        columns: &[
            C::new(
                "client_ns",
                Nanoseconds(|split| Some(split.client)),
                "At the end that called: from each RDMA Read request that came to the last of its responses that left.",
            ),
            C::new(
                "there_ns",
                Nanoseconds(|split| Some(split.there)),
                "On the way to the other end: the call, and responses to RDMA Reads.",
            ),
            C::new(
                "server_ns",
                Nanoseconds(|split| Some(split.server)),
                "At the end that answered, RDMA Writes included.",
            ),
            C::new(
                "back_ns",
                Nanoseconds(|split| Some(split.back)),
                "On the way back: RDMA Read requests, and the reply.",
            ),
        ],
    }
};

/// The splits of the transactions of one operation.
pub struct OperationSplit;

impl Subject for OperationSplit {
    type Of<'a> = (&'a Key, &'a Sum);
}

/// The splits of the transactions of one operation.
pub static OPERATION_SPLIT: Columns<OperationSplit> = {
    type C = Column<OperationSplit>;
    type O<U> = Within<OperationSplit, U>;
    Columns {
        name: "operation_split",
        role: Role::Line,
        columns: &[
            C::new(
                "protocol",
                Shown(|(key, _), see| lend(key.protocol, |protocol| see(&protocol))),
                "The program and its version as one name: `NFSv3`, `NFSv4.1`. It is null where the call is not known.",
            )
            .or_null(),
            C::new(
                "direction",
                Word(DIRECTIONS, |(key, _)| Some(if key.backward { "backward" } else { "forward" })),
                "Which end calls.",
            ),
            C::new("operation", Shown(|(key, _), see| see(&key.label)), "The principal operation, or the procedure."),
            C::new("count", U64(|(_, sum)| Some(sum.count)), "Transactions that both ends show."),
            C::new("unknown", U64(|(_, sum)| Some(sum.unknown)), "Transactions of which an end lacks the call or the reply."),
            C::new(
                "total",
                Object(&O { columns: &SPLIT, lend: |(_, sum), see| see(sum.split) }),
                "The time of all of them.",
            ),
        ],
    }
};
