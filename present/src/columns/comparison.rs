//! `comparison` and `difference`: the results of `diff`.

use super::shared::{DIRECTIONS, direction, rounded};
use crate::column::Read::{Any, Boolean, Fraction, Nanoseconds, Object, Shown, Text, U32, U64, Word};
use crate::column::{Column, Columns, Lists, Role, Subject, Value, Within, Words, explained, lend, word};
use rdmascope_analysis::diff::{Area, Comparison, Difference, Latencies, Measure, Pair, Side};

/// Two captures and the result of their comparison.
#[derive(Clone, Copy)]
pub struct ComparisonRow<'a> {
    /// A and B.
    pub sides: [&'a Side; 2],
    /// The differences.
    pub comparison: &'a Comparison,
}

impl Subject for ComparisonRow<'static> {
    type Of<'a> = ComparisonRow<'a>;
}

/// Two captures that are compared.
pub static COMPARISON: Columns<ComparisonRow<'static>> = {
    type C = Column<ComparisonRow<'static>>;
    type O<U> = Within<ComparisonRow<'static>, U>;
    Columns {
        name: "comparison",
        role: Role::Line,
        columns: &[
            C::new(
                "a",
                Object(&O { columns: &SIDE, lend: |row, see| see(row.sides[0]) }),
                "The first capture.",
            ),
            C::new(
                "b",
                Object(&O { columns: &SIDE, lend: |row, see| see(row.sides[1]) }),
                "The second capture.",
            ),
            C::new(
                "same_work",
                Boolean(|row| Some(row.comparison.same_work)),
                "Whether both captures have the same number of transactions, within `--count-ratio`. If \
                 not, counts are compared as shares.",
            ),
            C::new(
                "differences",
                U64(|row| Some(row.comparison.count() as u64)),
                "Lines whose `verdict` is `differs`.",
            ),
        ],
    }
};

impl Subject for Side {
    type Of<'a> = &'a Side;
}

/// A capture that is compared.
pub static SIDE: Columns<Side> = {
    type C = Column<Side>;
    Columns {
        name: "side",
        role: Role::Shared,
        columns: &[
            C::new(
                "name",
                Text(|side, see| see(side.ending.files.first().map_or("", |file| &file.name))),
                "The name of the file as given, or of the first file of a folder. `-` is standard input.",
            ),
            C::new("records", U64(|side| Some(side.ending.totals.records)), "Packets in the file."),
            C::new(
                "length_ns",
                Nanoseconds(|side| Some(side.length())),
                "The time from the first packet to the last.",
            ),
            C::new("connections", U64(|side| Some(side.connections())), "Connections in the capture."),
            C::new("transactions", U64(|side| Some(side.transactions())), "Transactions."),
            C::snapped(|side| Some(side.ending.totals.cut_records)),
        ],
    }
};

impl Subject for Difference {
    type Of<'a> = &'a Difference;
}

static AREAS: Words = &[
    word(Area::Transactions.name()),
    word(Area::Connections.name()),
    word(Area::Transport.name()),
    word(Area::Conformance.name()),
    word(Area::Latency.name()),
    word(Area::Errors.name()),
    word(Area::Conveyance.name()),
    word(Area::Operations.name()),
    word(Area::Capture.name()),
];

static VERDICTS: Words = &[
    explained("differs", "the captures differ"),
    explained("too-few", "the values look different, but are too few to rule out chance"),
    explained("chance", "with `--all`: the values look different, but chance explains it"),
    explained("equal", "with `--all`: equal, or within the threshold"),
    explained("unknown", "with `--all`: one capture lacks the value"),
];

/// The objects that a measure may have as its value.
static MEASURES: Lists = &[&COUNT, &OCCURRENCE, &EXTREMES, &LATENCIES];

/// A property compared in two captures.
pub static DIFFERENCE: Columns<Difference> = {
    type C = Column<Difference>;
    const TYPES: &str = "object, objects, number";
    Columns {
        name: "difference",
        role: Role::Line,
        columns: &[
            C::new("area", Word(AREAS, |it| Some(it.area.name())), "The area of the property."),
            C::new(
                "name",
                Word(&[], |it| Some(it.name)),
                "The property that was compared. The areas and their properties are listed below.",
            ),
            C::new("verdict", Word(VERDICTS, |it| Some(it.verdict.name())), "The result of the comparison."),
            C::new(
                "weight",
                Fraction(|it| Some(rounded(it.weight()))),
                "The importance of the difference, from 0 to 100. Look at high values first.",
            ),
            C::new(
                "operation",
                Shown(|it, see| lend(it.operation, |pair| see(&pair.label))),
                "The operation that the property belongs to; for `error`, the operation that failed.",
            )
            .or_null(),
            C::new(
                "direction",
                // Failures are counted over both directions.
                Word(DIRECTIONS, |it| {
                    let pair = it.operation.filter(|_| it.area != Area::Errors)?;
                    Some(direction(pair.backward))
                }),
                "The direction of that operation. It is null for `error`, which counts both.",
            )
            .or_null(),
            C::new(
                "protocol_a",
                Shown(|it, see| lend(protocol(it.operation, 0), |protocol| see(&protocol))),
                "The protocol of the operation in the first capture: `NFSv4.1`.",
            )
            .or_null(),
            C::new(
                "protocol_b",
                Shown(|it, see| lend(protocol(it.operation, 1), |protocol| see(&protocol))),
                "The protocol of the operation in the second capture.",
            )
            .or_null(),
            C::new(
                "above_bytes",
                U64(|it| it.operation?.size?.above()),
                "For the area `latency`, if transactions of the operation moved different amounts: only \
                 transactions that moved more bytes than this are compared. Null also includes those that \
                 moved none.",
            )
            .or_null(),
            C::new(
                "most_bytes",
                U64(|it| it.operation?.size?.most()),
                "The corresponding upper limit: only transactions that moved at most this many bytes are \
                 compared. It is null if there is no limit.",
            )
            .or_null(),
            C::new(
                "what",
                Text(|it, see| see(&it.description)),
                "A description of the property, in words for people. The wording may change. For `error` it \
                 is the error, for `compound` the operations.",
            ),
            C::new(
                "a",
                Any(TYPES, MEASURES, |it, see| measure(&it.sides[0], see)),
                "The value in the first capture.",
            )
            .or_null(),
            C::new(
                "b",
                Any(TYPES, MEASURES, |it, see| measure(&it.sides[1], see)),
                "The value in the second capture.",
            )
            .or_null(),
            C::new(
                "ratio",
                Fraction(|it| it.ratio().map(rounded)),
                "`b` divided by `a`: counts (not shares), averages or median latencies. It is null if one \
                 of them is 0 or if the values cannot be divided.",
            )
            .or_null(),
            C::new(
                "chance",
                Fraction(|it| it.chance),
                "The probability that chance alone causes a difference of this size. It is null if no test \
                 applies.",
            )
            .or_null(),
        ],
    }
};

fn protocol(operation: Option<Pair>, side: usize) -> Option<rdmascope_analysis::names::Protocol> {
    operation?.protocols[side]
}

/// Lends the measure of one side to `see`. Its type depends on the property.
fn measure(measure: &Measure, see: &mut dyn FnMut(Value<'_>)) {
    match measure {
        Measure::Count(count, of) => see(Value::Object(&COUNT.of((*count, *of)))),
        Measure::Number(number) | Measure::Bytes(number) => see(Value::Fraction(*number)),
        Measure::Values(values) => see(Value::List(&|item: &mut dyn FnMut(Value<'_>)| {
            values.iter().for_each(|(value, count)| item(Value::Object(&OCCURRENCE.of((value, *count)))));
        })),
        Measure::Extremes(extremes) => lend(*extremes, |extremes| see(Value::Object(&EXTREMES.of(extremes)))),
        Measure::Latencies(latencies) => see(Value::Object(&LATENCIES.of(latencies))),
    }
}

/// A marker for a count and its total.
pub struct Count;

impl Subject for Count {
    type Of<'a> = (u64, u64);
}

/// A count and its total.
pub static COUNT: Columns<Count> = {
    type C = Column<Count>;
    Columns {
        name: "count",
        role: Role::Shared,
        columns: &[
            C::new("count", U64(|(count, _)| Some(count)), "The count."),
            C::new("of", U64(|(_, of)| Some(of)), "The total."),
        ],
    }
};

/// A marker for a value and its number of occurrences.
pub struct Occurrence;

impl Subject for Occurrence {
    type Of<'a> = (&'a str, u64);
}

/// A value and its number of occurrences.
pub static OCCURRENCE: Columns<Occurrence> = {
    type C = Column<Occurrence>;
    Columns {
        name: "occurrence",
        role: Role::Shared,
        columns: &[
            C::new("value", Text(|(value, _), see| see(value)), "The value."),
            C::new(
                "count",
                U64(|(_, count)| Some(count)),
                "The number of transactions or connections with this value.",
            ),
        ],
    }
};

/// A marker for the minimum, the maximum and the last of several values.
pub struct Extremes;

impl Subject for Extremes {
    type Of<'a> = [u32; 3];
}

/// The minimum, the maximum and the last of several values.
pub static EXTREMES: Columns<Extremes> = {
    type C = Column<Extremes>;
    Columns {
        name: "extremes",
        role: Role::Shared,
        columns: &[
            C::new("min", U32(|[min, ..]| Some(min)), "The minimum."),
            C::new("max", U32(|[_, max, _]| Some(max)), "The maximum."),
            C::new("last", U32(|[.., last]| Some(last)), "The last value."),
        ],
    }
};

impl Subject for Latencies {
    type Of<'a> = &'a Latencies;
}

/// The latencies of one operation.
pub static LATENCIES: Columns<Latencies> = {
    type C = Column<Latencies>;
    type O<U> = Within<Latencies, U>;
    Columns {
        name: "latencies",
        role: Role::Shared,
        columns: &[
            C::new("count", U64(|it| Some(it.count)), "Transactions whose call and reply were captured."),
            C::new("min_ns", Nanoseconds(|it| Some(it.latency.minimum)), "The minimum."),
            C::new(
                "median_ns",
                Nanoseconds(|it| Some(it.latency.median)),
                "The median, to three significant digits.",
            ),
            C::new(
                "p90_ns",
                Nanoseconds(|it| Some(it.latency.p90)),
                "The 90th percentile, to three significant digits.",
            ),
            C::new(
                "p99_ns",
                Nanoseconds(|it| Some(it.latency.p99)),
                "The 99th percentile, to three significant digits.",
            ),
            C::new("max_ns", Nanoseconds(|it| Some(it.latency.maximum)), "The maximum."),
            C::new(
                "mean_phases",
                Object(&O { columns: &super::transaction::PHASES, lend: |it, see| see(it.phases) }),
                "The mean of each phase.",
            ),
            C::new("mean_bytes", U64(|it| Some(it.bytes)), "The mean payload of a transaction."),
        ],
    }
};
