//! `place`, `way` and `operation_split`: comparisons of captures from several capture points.

use super::shared::direction;
use crate::column::Read::{Fraction, Frames, Nanoseconds, Object, Shown, Text, Texts, U32, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend, word};
use crate::page::capture_points::clock_description;
use rdmascope_analysis::capture_points::{Doubt, Located, Place, Split, Sum, Way};
use rdmascope_analysis::report::Key;

impl Subject for Place {
    type Of<'a> = (usize, &'a Place);
}

/// A capture point.
pub static PLACE: Columns<Place> = {
    type C = Column<Place>;
    Columns {
        name: "place",
        role: Role::Line,
        columns: &[
            C::new(
                "place",
                U32(|(index, _)| Some(index as u32 + 1)),
                "The number of the capture point, from 1.",
            ),
            C::new("name", Text(|(_, place), see| see(&place.name)), "The name of its first file."),
            C::new(
                "near",
                Texts(|(_, place), see| place.near.iter().for_each(|host| see(&host.to_string()))),
                "The addresses of hosts whose packets pass this capture point before the others.",
            ),
            C::new(
                "clock",
                Word(&[word("ahead"), word("behind")], |(_, place)| {
                    let offset = place.tie.as_ref()?.parts.first()?.line.offset;
                    Some(if offset < 0 { "ahead" } else { "behind" })
                }),
                "Whether the clock is ahead of or behind that of the first capture point, at the first \
                 packet in both captures. It is absent for the first capture point.",
            )
            .optional(),
            C::new(
                "clock_ns",
                Nanoseconds(|(_, place)| Some(place.tie.as_ref()?.parts.first()?.line.offset.unsigned_abs())),
                "The difference of the clocks.",
            )
            .optional(),
            C::new(
                "drift",
                Fraction(|(_, place)| Some(-place.tie.as_ref()?.parts.first()?.line.rate * 1e6)),
                "Microseconds per second that the clock gains; negative if it loses.",
            )
            .optional(),
            C::new(
                "parts",
                U32(|(_, place)| Some(place.tie.as_ref()?.parts.len() as u32)),
                "The number of time ranges with a separate clock fit: more than one if no constant rate \
                 fits, because a clock was set or slewed, or because time stamps are inaccurate.",
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
                "The error of the clock. `within`: at most `doubt_ns`, whatever the packets' transit times. \
                 `one-way`: unknown, because packets went in one direction only; the fastest packet is \
                 assumed to take no time. `contradicted`: the packets' times contradict each other by \
                 `doubt_ns`.",
            )
            .optional(),
            C::new(
                "doubt_ns",
                Nanoseconds(|(_, place)| match place.tie.as_ref()?.doubt()? {
                    Doubt::Within(most) | Doubt::Contradicted(most) => Some(most),
                    Doubt::OneWay => None,
                }),
                "The error in nanoseconds.",
            )
            .optional(),
            C::new(
                "clock_said",
                Shown(|(_, place), see| lend(clock_description(place), |text| see(&text))),
                "The clock and its error in words. The wording may change.",
            )
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
            C::new("packets", U64(|located| Some(located.count)), "The number of packets."),
            C::new(
                "frames",
                Frames(|located, see| located.frames.iter().for_each(|frame| see(*frame))),
                "The first packets, at most 16, in the capture that has them.",
            ),
        ],
    }
};

impl Subject for Way {
    type Of<'a> = &'a Way;
}

/// The path of packets from one capture point to the next.
pub static WAY: Columns<Way> = {
    type C = Column<Way>;
    type O<U> = Within<Way, U>;
    Columns {
        name: "way",
        role: Role::Line,
        columns: &[
            C::new("source", Shown(|way, see| see(&way.route.source)), "The sender of the packets."),
            C::new(
                "destination",
                Shown(|way, see| see(&way.route.destination)),
                "The receiver of the packets.",
            ),
            C::new("from", U32(|way| Some(way.from as u32 + 1)), "The capture point that they pass first."),
            C::new("to", U32(|way| Some(way.to as u32 + 1)), "The capture point that they pass next."),
            C::new("packets", U64(|way| Some(way.packets)), "Packets captured at both points."),
            C::new(
                "min_ns",
                Nanoseconds(|way| Some(way.times()?[0])),
                "The minimum transit time, by the aligned clocks.",
            )
            .optional(),
            C::new("median_ns", Nanoseconds(|way| Some(way.times()?[1])), "The median.").optional(),
            C::new("p99_ns", Nanoseconds(|way| Some(way.times()?[2])), "The 99th percentile.").optional(),
            C::new("max_ns", Nanoseconds(|way| Some(way.times()?[3])), "The maximum.").optional(),
            C::new(
                "lost",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.lost) }),
                "Packets captured at the first point but never at the next.",
            ),
            C::new(
                "damaged",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.damaged) }),
                "Packets captured only at the next point, with a bad ICRC. The original packets count as \
                 lost.",
            ),
            C::new(
                "doubled",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.doubled) }),
                "Packets captured twice at the next point.",
            ),
            C::new(
                "behind",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.reordered) }),
                "Packets that arrived after a packet that was sent later.",
            ),
            C::new(
                "unseen",
                Object(&O { columns: &LOCATED, lend: |way, see| see(&way.unseen) }),
                "Packets captured at the next point but not at the first: its capture lacks them.",
            ),
            C::new(
                "undecided",
                U64(|way| Some(way.undecided)),
                "Packets captured at one point outside the time range of the other capture, so that loss \
                 cannot be decided.",
            ),
        ],
    }
};

impl Subject for Split {
    type Of<'a> = Split;
}

/// The time of a transaction at each end and on the network.
pub static SPLIT: Columns<Split> = {
    type C = Column<Split>;
    Columns {
        name: "split",
        role: Role::Shared,
        columns: &[
            C::new(
                "client_ns",
                Nanoseconds(|split| Some(split.client)),
                "At the calling end: from the arrival of each RDMA Read request to the departure of the \
                 last of its responses.",
            ),
            C::new(
                "there_ns",
                Nanoseconds(|split| Some(split.to_responder)),
                "In transit to the answering end: the call, and responses to RDMA Reads.",
            ),
            C::new("server_ns", Nanoseconds(|split| Some(split.server)), "At the answering end."),
            C::new(
                "sending_ns",
                Nanoseconds(|split| Some(split.sending)),
                "From the arrival of the call to the departure of the reply: RDMA Writes, the packets of \
                 the reply, and the time in which data of the answering end was in flight or data of the \
                 calling end had to be sent again.",
            ),
            C::new(
                "back_ns",
                Nanoseconds(|split| Some(split.to_caller)),
                "In transit to the calling end: RDMA Read requests, and the reply.",
            ),
        ],
    }
};

/// A marker for the splits of the transactions of one operation.
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
            C::protocol(|(key, _), see| lend(key.protocol, |protocol| see(&protocol))),
            C::direction(|(key, _)| Some(direction(key.backward))),
            C::operation(|(key, _), see| see(&key.label)),
            C::new("count", U64(|(_, sum)| Some(sum.count)), "Transactions captured at both ends."),
            C::new(
                "unknown",
                U64(|(_, sum)| Some(sum.unknown)),
                "Transactions whose call or reply is missing from the capture of one end.",
            ),
            C::new(
                "total",
                Object(&O { columns: &SPLIT, lend: |(_, sum), see| see(sum.split) }),
                "The sum over these transactions.",
            ),
        ],
    }
};
