//! The comparison for programs: docs/json.md in types.

use super::compare::Comparison;
use super::difference::{Area, Difference, Latencies, Measure};
use super::side::Side;
use crate::json::Shown;
use crate::names::{Label, Protocol};
use crate::phases::Phases;
use serde::{Serialize, Serializer};

/// `"type":"comparison"`.
#[derive(Serialize)]
pub struct ComparisonLine<'a> {
    r#type: &'static str,
    a: SideView<'a>,
    b: SideView<'a>,
    same_work: bool,
    differences: usize,
}

#[derive(Serialize)]
struct SideView<'a> {
    name: &'a str,
    records: u64,
    length_ns: u64,
    connections: u64,
    transactions: u64,
    snapped: u64,
}

impl<'a> ComparisonLine<'a> {
    /// The line that comes first.
    pub fn new([a, b]: [&'a Side; 2], comparison: &Comparison) -> ComparisonLine<'a> {
        ComparisonLine {
            r#type: "comparison",
            a: SideView::from(a),
            b: SideView::from(b),
            same_work: comparison.same_work,
            differences: comparison.count(),
        }
    }
}

impl<'a> From<&'a Side> for SideView<'a> {
    fn from(side: &'a Side) -> SideView<'a> {
        SideView {
            name: side.ending.files.first().map_or("", |file| &file.name),
            records: side.ending.totals.records,
            length_ns: side.length(),
            connections: side.connections.count,
            transactions: side.transactions(),
            snapped: side.ending.totals.cut_records,
        }
    }
}

/// `"type":"difference"`.
#[derive(Serialize)]
pub struct DifferenceLine<'a> {
    r#type: &'static str,
    area: &'static str,
    name: &'static str,
    verdict: &'static str,
    weight: f64,
    operation: Option<Shown<Label>>,
    direction: Option<&'static str>,
    protocol_a: Option<Shown<Protocol>>,
    protocol_b: Option<Shown<Protocol>>,
    what: &'a str,
    a: MeasureView<'a>,
    b: MeasureView<'a>,
    ratio: Option<f64>,
    chance: Option<f64>,
}

impl<'a> DifferenceLine<'a> {
    /// The line of one difference.
    pub fn new(difference: &'a Difference) -> DifferenceLine<'a> {
        let rounded = |value: f64| (value * 10_000.0).round() / 10_000.0;
        let operation = difference.operation;
        let [protocol_a, protocol_b] = operation.map_or([None, None], |pair| pair.protocols);
        let [a, b] = difference.sides.each_ref().map(MeasureView);
        DifferenceLine {
            r#type: "difference",
            area: difference.area.name(),
            name: difference.name,
            verdict: difference.verdict.name(),
            weight: rounded(difference.weight()),
            operation: operation.map(|pair| Shown(pair.label)),
            // What failed is counted whichever way it ran.
            direction: operation
                .filter(|_| difference.area != Area::Errors)
                .map(|pair| if pair.backward { "backward" } else { "forward" }),
            protocol_a: protocol_a.map(Shown),
            protocol_b: protocol_b.map(Shown),
            what: &difference.what,
            a,
            b,
            ratio: difference.ratio().map(rounded),
            chance: difference.chance,
        }
    }
}

/// What one side has. Its form depends on what is compared.
struct MeasureView<'a>(&'a Measure);

impl Serialize for MeasureView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Measure::Count(count, of) => CountView { count: *count, of: *of }.serialize(serializer),
            Measure::Number(number) | Measure::Bytes(number) => serializer.serialize_f64(*number),
            Measure::Values(values) => {
                serializer.collect_seq(values.iter().map(|(value, count)| ValueView { value, count: *count }))
            }
            Measure::Extremes(extremes) => {
                extremes.map(|[min, max, last]| ExtremesView { min, max, last }).serialize(serializer)
            }
            Measure::Latencies(latencies) => LatencyView::from(latencies).serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct CountView {
    count: u64,
    of: u64,
}

#[derive(Serialize)]
struct ValueView<'a> {
    value: &'a str,
    count: u64,
}

#[derive(Serialize)]
struct ExtremesView {
    min: u32,
    max: u32,
    last: u32,
}

#[derive(Serialize)]
struct LatencyView {
    count: u64,
    min_ns: u64,
    median_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    mean_phases: PhasesView,
    mean_bytes: u64,
}

/// The same names as in the phases of a transaction.
#[derive(Serialize)]
struct PhasesView {
    call_ns: u64,
    reads_ns: u64,
    server_ns: u64,
    writes_ns: u64,
    reply_ns: u64,
}

impl From<&Latencies> for LatencyView {
    fn from(Latencies { count, latency, phases, bytes }: &Latencies) -> LatencyView {
        let Phases([call_ns, reads_ns, server_ns, writes_ns, reply_ns]) = *phases;
        LatencyView {
            count: *count,
            min_ns: latency.minimum,
            median_ns: latency.median,
            p90_ns: latency.p90,
            p99_ns: latency.p99,
            max_ns: latency.maximum,
            mean_phases: PhasesView { call_ns, reads_ns, server_ns, writes_ns, reply_ns },
            mean_bytes: *bytes,
        }
    }
}
