//! `comparison` and `difference`: what `diff` finds between two captures.

use super::transaction::DIRECTIONS;
use crate::column::Read::{Any, Boolean, Fraction, Nanoseconds, Object, Shown, Text, U32, U64, Word};
use crate::column::{
    Column, Columns, Lent, Lists, Role, Subject, Value, Within, Words, explained, lend, word,
};
use rdmascope_analysis::diff::{Area, Comparison, Difference, Latencies, Measure, Pair, Side};

/// Two captures, and what their comparison came to.
#[derive(Clone, Copy)]
pub struct ComparisonRow<'a> {
    /// A and B.
    pub sides: [&'a Side; 2],
    /// What differs.
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
                "Whether both hold as many transactions, within `--count-ratio`. Where they do not, counts are compared as shares.",
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
                "The name of the file as it was given; the first one of a folder. `-` is standard input.",
            ),
            C::new("records", U64(|side| Some(side.ending.totals.records)), "Packets in the file."),
            C::new(
                "length_ns",
                Nanoseconds(|side| Some(side.length())),
                "The time from the first packet to the last.",
            ),
            C::new("connections", U64(|side| Some(side.connections())), "Connections that were seen."),
            C::new("transactions", U64(|side| Some(side.transactions())), "Transactions."),
            C::new(
                "snapped",
                U64(|side| Some(side.ending.totals.cut_records)),
                "Packets that a snap length cut.",
            ),
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
    explained("too-few", "it looks different, and so few values cannot tell it from chance"),
    explained("chance", "with `--all`: it looks different, and chance makes as much"),
    explained("equal", "with `--all`: equal, or within the threshold"),
    explained("unknown", "with `--all`: one capture does not hold it"),
];

/// What the objects of a measure may be.
static MEASURES: Lists = &[&COUNT, &OCCURRENCE, &EXTREMES, &LATENCIES];

/// What is compared of two captures.
pub static DIFFERENCE: Columns<Difference> = {
    type C = Column<Difference>;
    const TYPES: &str = "object, objects, number";
    Columns {
        name: "difference",
        role: Role::Line,
        columns: &[
            C::new("area", Word(AREAS, |it| Some(it.area.name())), "What it belongs to."),
            C::new("name", Word(&[], |it| Some(it.name)), "What was compared. The areas and their names stand below."),
            C::new("verdict", Word(VERDICTS, |it| Some(it.verdict.name())), "What the comparison came to."),
            C::new(
                "weight",
                Fraction(|it| Some(rounded(it.weight()))),
                "A number from 0 to 100. The higher it is, the sooner a person should look.",
            ),
            C::new(
                "operation",
                Shown(|it, see| lend(it.operation, |pair| see(&pair.label))),
                "The operation that it is about; of `error` the one that failed.",
            )
            .or_null(),
            C::new(
                "direction",
                // What failed is counted whichever way it ran.
                Word(DIRECTIONS, |it| {
                    let pair = it.operation.filter(|_| it.area != Area::Errors)?;
                    Some(if pair.backward { "backward" } else { "forward" })
                }),
                "The direction of that operation. It is null for `error`, which counts both.",
            )
            .or_null(),
            C::new(
                "protocol_a",
                Shown(|it, see| lend(protocol(it.operation, 0), |protocol| see(&protocol))),
                "As which protocol the first capture has the operation: `NFSv4.1`.",
            )
            .or_null(),
            C::new(
                "protocol_b",
                Shown(|it, see| lend(protocol(it.operation, 1), |protocol| see(&protocol))),
                "The same of the second capture.",
            )
            .or_null(),
            C::new(
                "above_bytes",
                U64(|it| it.operation?.size?.above()),
                "Of the area `latency`, where transactions of the operation moved different amounts: those are compared that moved more than this. It is \
                 null where also those are that moved none.",
            )
            .or_null(),
            C::new(
                "most_bytes",
                U64(|it| it.operation?.size?.most()),
                "The same: those that moved no more than this. It is null where there is no limit.",
            )
            .or_null(),
            C::new(
                "what",
                Text(|it, see| see(&it.what)),
                "What was compared, in words for people. They may change. Of `error` it is the error, of `compound` its operations.",
            ),
            C::new("a", Any(TYPES, MEASURES, |it, see| measure(&it.sides[0], see)), "What the first capture has.").or_null(),
            C::new("b", Any(TYPES, MEASURES, |it, see| measure(&it.sides[1], see)), "What the second capture has.")
                .or_null(),
            C::new(
                "ratio",
                Fraction(|it| it.ratio().map(rounded)),
                "`b` divided by `a`: of counts (not of shares), of averages, of median latencies. It is null where one is 0, or where nothing \
                 can be divided.",
            )
            .or_null(),
            C::new(
                "chance",
                Fraction(|it| it.chance),
                "The probability that what is no difference looks so different. It is null where there was no test.",
            )
            .or_null(),
        ],
    }
};

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn protocol(operation: Option<Pair>, side: usize) -> Option<rdmascope_analysis::names::Protocol> {
    operation?.protocols[side]
}

/// Lends what one side has. Its form depends on what is compared.
fn measure(measure: &Measure, see: &mut dyn FnMut(Value<'_>)) {
    match measure {
        Measure::Count(count, of) => see(Value::Object(&COUNT.of((*count, *of)))),
        Measure::Number(number) | Measure::Bytes(number) => see(Value::Fraction(*number)),
        Measure::Values(values) => see(Value::List(&Lent(|item: &mut dyn FnMut(Value<'_>)| {
            values.iter().for_each(|(value, count)| item(Value::Object(&OCCURRENCE.of((value, *count)))));
        }))),
        Measure::Extremes(extremes) => lend(*extremes, |extremes| see(Value::Object(&EXTREMES.of(extremes)))),
        Measure::Latencies(latencies) => see(Value::Object(&LATENCIES.of(latencies))),
    }
}

/// So many of so many.
pub struct Count;

impl Subject for Count {
    type Of<'a> = (u64, u64);
}

/// So many of so many.
pub static COUNT: Columns<Count> = {
    type C = Column<Count>;
    Columns {
        name: "count",
        role: Role::Shared,
        columns: &[
            C::new("count", U64(|(count, _)| Some(count)), "How many."),
            C::new("of", U64(|(_, of)| Some(of)), "Of how many."),
        ],
    }
};

/// A value, and how often it is there.
pub struct Occurrence;

impl Subject for Occurrence {
    type Of<'a> = (&'a str, u64);
}

/// A value, and how often it is there.
pub static OCCURRENCE: Columns<Occurrence> = {
    type C = Column<Occurrence>;
    Columns {
        name: "occurrence",
        role: Role::Shared,
        columns: &[
            C::new("value", Text(|(value, _), see| see(value)), "The value."),
            C::new("count", U64(|(_, count)| Some(count)), "Transactions or connections that have it."),
        ],
    }
};

/// The least, the greatest and the last of several values.
pub struct Extremes;

impl Subject for Extremes {
    type Of<'a> = [u32; 3];
}

/// The least, the greatest and the last of several values.
pub static EXTREMES: Columns<Extremes> = {
    type C = Column<Extremes>;
    Columns {
        name: "extremes",
        role: Role::Shared,
        columns: &[
            C::new("min", U32(|[min, ..]| Some(min)), "The least."),
            C::new("max", U32(|[_, max, _]| Some(max)), "The greatest."),
            C::new("last", U32(|[.., last]| Some(last)), "The last."),
        ],
    }
};

impl Subject for Latencies {
    type Of<'a> = &'a Latencies;
}

/// How long the transactions of one operation took.
pub static LATENCIES: Columns<Latencies> = {
    type C = Column<Latencies>;
    type O<U> = Within<Latencies, U>;
    Columns {
        name: "latencies",
        role: Role::Shared,
        columns: &[
            C::new(
                "count",
                U64(|it| Some(it.count)),
                "Transactions of which both call and reply are captured.",
            ),
            C::new("min_ns", Nanoseconds(|it| Some(it.latency.minimum)), "The shortest."),
            C::new(
                "median_ns",
                Nanoseconds(|it| Some(it.latency.median)),
                "The median, to three significant digits.",
            ),
            C::new("p90_ns", Nanoseconds(|it| Some(it.latency.p90)), "The 90th percentile, likewise."),
            C::new("p99_ns", Nanoseconds(|it| Some(it.latency.p99)), "The 99th percentile, likewise."),
            C::new("max_ns", Nanoseconds(|it| Some(it.latency.maximum)), "The longest."),
            C::new(
                "mean_phases",
                Object(&O { columns: &super::transaction::PHASES, lend: |it, see| see(it.phases) }),
                "The average of each phase.",
            ),
            C::new("mean_bytes", U64(|it| Some(it.bytes)), "The average payload of a transaction."),
        ],
    }
};
