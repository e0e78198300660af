//! The charts.

use super::gather::Gathered;
use super::plot::{Frame, Sample, Units, block, drawing, legend};
use core::cmp::Reverse;
use core::fmt::{self, Display, Write as _};
use maud::{Markup, html};
use rdmascope_analysis::charts::Moved;
use rdmascope_analysis::charts::{Classes, Interval, Intervals, Latencies};
use rdmascope_analysis::charts::{CreditInterval, CreditsOf};
use rdmascope_analysis::report::{Key, Stats};
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number};
use rdmascope_present::axis::Axis;

/// The label of the time axis of every chart.
const TIME: &str = "time since the first packet";

/// A chart with its heading.
fn figure(heading: impl Display, legend: Markup, drawing: Markup) -> Markup {
    html! {
        figure {
            figcaption { (heading) }
            (legend)
            (drawing)
        }
    }
}

/// The latency distributions by operation.
pub(super) fn latencies(operations: &[(&Key, &Stats)]) -> Option<Markup> {
    const MOST_ROWS: usize = 16;
    const ROW: f64 = 36.0;
    let mut shown: Vec<_> = operations.iter().filter(|(_, stats)| stats.latency().is_some()).collect();
    let with_latencies = shown.len();
    let mut times: Vec<u64> = shown.iter().map(|(_, stats)| stats.total_latency).collect();
    times.sort_by_key(|time| Reverse(*time));
    let least = *times.get(MOST_ROWS.min(times.len()).checked_sub(1)?)?;
    shown.retain(|(_, stats)| stats.total_latency >= least);
    shown.truncate(MOST_ROWS);

    let rows: Vec<_> = shown
        .into_iter()
        .map(|(key, stats)| {
            let mut classes = Latencies::default();
            stats.latency_steps().for_each(|(latency, count)| classes.add(latency, count));
            (*key, *stats, classes)
        })
        .collect();
    let ranges = || rows.iter().filter_map(|(.., classes)| classes.range());
    let first = ranges().map(|(first, _)| first).min()?;
    let last = ranges().map(|(_, last)| last).max()?;
    let axis = Axis::of_latencies(Classes::start(first), Classes::start(last));
    let height = ROW * rows.len() as f64;
    // Protocols define the operation names, so their length varies.
    let longest = rows.iter().map(|(key, ..)| Name(key).to_string().chars().count()).max().unwrap_or(0);
    let left = Frame::room_for(longest).clamp(190.0, 400.0);
    let frame = Frame { left, top: 4.0, width: 980.0 - left, height };
    let content = html! {
        @for mark in &axis.marks {
            @let x = Units(frame.x(&axis, mark.value));
            line class="grid" x1=(x) x2=(x) y1=(Units(frame.top)) y2=(Units(frame.bottom())) {}
        }
        @for (index, (key, stats, classes)) in rows.iter().enumerate() {
            @let row = Frame { top: frame.top + ROW * index as f64, height: ROW, ..frame };
            (latency_row(row, &axis, key, stats, classes))
        }
        (frame.bottom_axis(&axis, "latency, from call to reply"))
    };
    let mut entries = vec![
        (Sample::Area("s0"), "transactions (each row has its own scale)".to_owned()),
        (Sample::Upward("median"), "median".to_owned()),
        (Sample::Upward("p99"), "p99: 99% took no longer".to_owned()),
    ];
    if with_latencies > rows.len() {
        let (rows, all) = (rows.len(), with_latencies);
        entries[0].1 =
            format!("the {rows} of {all} operations with the most total time (each row has its own scale)");
    }
    let drawing =
        drawing((1000.0, height + 48.0), "Latencies of each operation on a logarithmic axis", content);
    Some(html! { div class="wide" { (figure("Latency by operation", legend(entries), drawing)) } })
}

/// The latency distribution of one operation.
fn latency_row(row: Frame, axis: &Axis, key: &Key, stats: &Stats, classes: &Latencies) -> Markup {
    let highest = classes.0.iter().copied().max().unwrap_or(0).max(1);
    let base = row.bottom() - 4.0;
    let latency = stats.latency();
    html! {
        text x=(Units(row.left - 8.0)) y=(Units(row.top + 16.0)) text-anchor="end" { (Name(key)) }
        text class="what" x=(Units(row.left - 8.0)) y=(Units(row.top + 29.0)) text-anchor="end" { (Number(stats.count)) " ×" }
        line class="base" x1=(Units(row.left)) x2=(Units(row.right())) y1=(Units(base)) y2=(Units(base)) {}
        @for (class, count) in classes.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            @let (left, right) = (row.x(axis, Classes::start(class)), row.x(axis, Classes::start(class + 1)));
            // Nonzero counts stay visible.
            @let tall = (f64::from(*count) / f64::from(highest) * (row.height - 10.0)).max(1.5);
            @let right = (right - 0.5).max(left + 1.5);
            (block("s0", (left + 0.5, right), (base - tall, base), html! {
                (Name(key)) ": " (Counted((*count).into(), "transaction")) ", " (ClassName(class))
            }))
        }
        @if let Some(latency) = latency {
            @for (class, name, value) in [("median", "median", latency.median), ("p99", "p99", latency.p99)] {
                @let x = Units(row.x(axis, value as f64));
                path class=(class) d={ "M" (x) " " (Units(row.top + 3.0)) "V" (Units(base + 2.0)) } {
                    title { (Name(key)) ": " (name) " " (Duration(value)) }
                }
            }
        }
    }
}

/// The name of an operation with its protocol.
pub(super) struct Name<'a>(pub(super) &'a Key);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.0.protocol {
            write!(f, "{protocol} ")?;
        }
        self.0.label.fmt(f)
    }
}

/// One layer of a stacked chart: its name, its class, and its value in each interval.
struct Layer {
    name: String,
    class: String,
    values: Vec<u64>,
}

/// A stacked chart.
struct Stack<'a> {
    heading: &'a str,
    layers: Vec<Layer>,
    /// Length of an interval, in nanoseconds.
    width: u64,
    axis: fn(f64) -> Axis,
    /// Formats the sum of an interval.
    words: &'a dyn Fn(&Layer, u64) -> String,
    /// Failures in each interval, marked above it.
    marks: &'a [u64],
}

/// Payload on the wire over time, if there is any.
pub(super) fn throughput(gathered: &Gathered) -> Option<Markup> {
    let timeline = &gathered.charts.moved;
    timeline.intervals().iter().flatten().find(|bytes| **bytes > 0)?;
    let layers = Moved::NAMES.into_iter().enumerate().map(|(index, name)| Layer {
        name: name.to_owned(),
        class: format!("s{index}"),
        values: timeline.intervals().iter().map(|sums| sums[index]).collect(),
    });
    Some(stacked(&Stack {
        heading: "Payload on the wire",
        layers: layers.collect(),
        width: timeline.width(),
        axis: Axis::of_bytes,
        words: &|layer, bytes| format!("{} of {}", Bytes(bytes), layer.name),
        marks: &[],
    }))
}

/// Transactions over time.
pub(super) fn operations(gathered: &Gathered) -> Option<Markup> {
    const MOST_LAYERS: usize = 5;
    let mut all: Vec<_> = gathered.charts.operations.iter().collect();
    let count = |timeline: &Intervals<u64>| timeline.intervals().iter().sum::<u64>();
    all.sort_by_key(|(key, timeline)| (Reverse(count(timeline)), **key));
    let width = all.first()?.1.width();
    let length = gathered.charts.failures.intervals().len();
    let mut others = vec![0; length];
    for (_, timeline) in all.iter().skip(MOST_LAYERS) {
        others.iter_mut().zip(timeline.intervals()).for_each(|(sum, count)| sum.join(*count));
    }
    let further = all.len().saturating_sub(MOST_LAYERS);
    let mut layers: Vec<_> = all
        .into_iter()
        .take(MOST_LAYERS)
        .enumerate()
        .map(|(index, (key, timeline))| Layer {
            name: format!("{}{}", Name(key), if key.backward { ", backward" } else { "" }),
            class: format!("s{index}"),
            values: timeline.intervals().to_vec(),
        })
        .collect();
    if further > 0 {
        layers.push(Layer { name: format!("{further} others"), class: "rest".to_owned(), values: others });
    }
    Some(stacked(&Stack {
        heading: "Transactions that ended",
        layers,
        width,
        axis: Axis::of_rates,
        words: &|layer, count| format!("{} {}", Number(count), layer.name),
        marks: gathered.charts.failures.intervals(),
    }))
}

fn stacked(stack: &Stack<'_>) -> Markup {
    let length = stack.layers.iter().map(|layer| layer.values.len()).max().unwrap_or(0);
    let value = |layer: &Layer, index: usize| layer.values.get(index).copied().unwrap_or(0);
    let sum = |index: usize| -> u64 {
        stack.layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(value(layer, index)))
    };
    let seconds = stack.width as f64 / 1e9;
    let highest = (0..length).map(sum).max().unwrap_or(0);
    let up = (stack.axis)(highest as f64 / seconds);
    let along = Axis::of_time(length as f64 * stack.width as f64);
    let frame = Frame::HALF;
    let sides = |index: usize| interval_sides(frame, &along, index, stack.width);
    let mut below = vec![0u64; length];
    let paths = stack.layers.iter().map(|layer| {
        let mut path = String::new();
        for (index, below) in below.iter_mut().enumerate() {
            let value = value(layer, index);
            if value == 0 {
                continue;
            }
            let (left, right) = sides(index);
            let foot = frame.y(&up, *below as f64 / seconds);
            *below = below.saturating_add(value);
            let head = frame.y(&up, *below as f64 / seconds);
            let (left, right, head, foot) = (Units(left), Units(right), Units(head), Units(foot));
            write!(path, "M{left} {foot}V{head}H{right}V{foot}z").expect("a String takes everything");
        }
        (layer.class.as_str(), path)
    });
    let paths: Vec<_> = paths.collect();
    let content = html! {
        (frame.left_axis(&up))
        @for (class, path) in &paths { path class={ "area " (class) } d=(path) {} }
        @for (index, count) in stack.marks.iter().enumerate().filter(|(_, count)| **count > 0) {
            @let (left, right) = sides(index);
            @let middle = (left + right) / 2.0;
            path class="failed" d={ "M" (Units(middle)) " " (Units(frame.bottom() - 9.0)) "l4 8h-8z" } {
                title { (Counted(*count, "failed transaction")) }
            }
        }
        @for index in (0..length).filter(|index| sum(*index) > 0) {
            @let (left, right) = sides(index);
            (block("hit", (left, right), (frame.top, frame.bottom()), html! {
                (IntervalName(index, stack.width))
                @for layer in stack.layers.iter().filter(|layer| value(layer, index) > 0) {
                    "\n" ((stack.words)(layer, value(layer, index)))
                }
                @if let Some(failed) = stack.marks.get(index).filter(|failed| **failed > 0) {
                    "\n" (Number(*failed)) " failed"
                }
            }))
        }
        (frame.bottom_axis(&along, TIME))
    };
    let mut entries: Vec<_> =
        stack.layers.iter().map(|layer| (Sample::Area(&layer.class), layer.name.clone())).collect();
    if stack.marks.iter().any(|count| *count > 0) {
        entries.push((Sample::Area("failed"), "some failed".to_owned()));
    }
    let heading = format!("{}, in intervals of {}", stack.heading, Duration(stack.width));
    figure(&heading, legend(entries), drawing(Frame::HALF_SIZE, &heading, content))
}

/// The latencies of transactions in one direction over time.
pub(super) fn heat(timeline: &Intervals<Latencies>, heading: &str) -> Option<Markup> {
    const LEVELS: u32 = 6;
    let ranges = || timeline.intervals().iter().filter_map(Latencies::range);
    let first = ranges().map(|(first, _)| first).min()?;
    let last = ranges().map(|(_, last)| last).max()?;
    // The axis covers whole decades.
    let decade = Classes::PER_DECADE as usize;
    let up = Axis::of_latencies(
        Classes::start(first / decade * decade),
        Classes::start(last.div_ceil(decade) * decade),
    );
    let width = timeline.width();
    let along = Axis::of_time(timeline.intervals().len() as f64 * width as f64);
    let frame = Frame::HALF;
    let counts = || timeline.intervals().iter().flat_map(|interval| interval.0);
    let most = counts().max()?;
    // The largest count has the strongest colour, whatever its value.
    let level = |count: u32| match most {
        ..=LEVELS => LEVELS - most + count,
        _ => 1 + (f64::from(count).ln() / f64::from(most).ln() * f64::from(LEVELS - 1)) as u32,
    };
    let content = html! {
        (frame.left_axis(&up))
        @for (index, interval) in timeline.intervals().iter().enumerate() {
            @let (left, right) = interval_sides(frame, &along, index, width);
            @for (class, count) in interval.0.iter().enumerate().filter(|(_, count)| **count > 0) {
                @let foot = frame.y(&up, Classes::start(class));
                @let head = frame.y(&up, Classes::start(class + 1));
                // A single block stays visible.
                @let right = right.max(left + 3.0);
                (block(&format!("h{}", level(*count)), (left, right), (head, foot), html! {
                    (IntervalName(index, width)) "\n"
                    (Counted((*count).into(), "transaction")) ", " (ClassName(class))
                }))
            }
        }
        (frame.bottom_axis(&along, TIME))
    };
    let fewest = LEVELS - most.min(LEVELS) + 1;
    let steps: Vec<_> = (fewest..=LEVELS).map(|level| format!("h{level}")).collect();
    let last = steps.len() - 1;
    let entries = steps.iter().enumerate().map(|(index, class)| {
        let name = match index {
            0 => Counted(1, "transaction").to_string(),
            index if index == last => Number(most.into()).to_string(),
            _ => String::new(),
        };
        (Sample::Area(class), name)
    });
    let legend = legend(entries);
    Some(figure(heading, legend, drawing(Frame::HALF_SIZE, heading, content)))
}

/// Credits granted and outstanding calls of one direction of a connection.
pub(super) fn credits((connection, backward, credits): CreditsOf<'_>) -> Markup {
    let timeline = credits.timeline();
    let width = timeline.width();
    let intervals = timeline.intervals();
    let granted = |interval: &CreditInterval| interval.granted.map_or(0, |(_, highest)| highest.into());
    let highest = intervals.iter().map(|interval| granted(interval).max(interval.peak)).max().unwrap_or(0);
    let up = Axis::of_counts(highest as f64);
    let along = Axis::of_time(intervals.len() as f64 * width as f64);
    let frame = Frame::HALF;
    let sides = |index: usize| interval_sides(frame, &along, index, width);
    let mut bars = String::new();
    let mut line = String::new();
    let mut known = false;
    for (index, interval) in intervals.iter().enumerate() {
        let (left, right) = sides(index);
        let (left, right) = (Units(left), Units(right));
        if interval.peak > 0 {
            let (head, foot) = (Units(frame.y(&up, interval.peak as f64)), Units(frame.bottom()));
            write!(bars, "M{left} {foot}V{head}H{right}V{foot}z").expect("a String takes everything");
        }
        // A grant is valid until the next one.
        if let Some((lowest, highest)) = interval.granted {
            let (low, high) = (Units(frame.y(&up, lowest.into())), Units(frame.y(&up, highest.into())));
            let first = if known { format!("H{left}V{low}") } else { format!("M{left} {low}") };
            write!(line, "{first}V{high}").expect("a String takes everything");
            known = true;
        }
    }
    if known {
        write!(line, "H{}", Units(frame.right())).expect("a String takes everything");
    }
    let content = html! {
        (frame.left_axis(&up))
        path class="area s0" d=(bars) {}
        path class="granted" d=(line) {}
        @for (index, interval) in intervals.iter().enumerate() {
            @if interval.peak > 0 || interval.granted.is_some() {
                @let (left, right) = sides(index);
                (block("hit", (left, right), (frame.top, frame.bottom()), html! {
                    (IntervalName(index, width))
                    "\nup to " (Counted(interval.peak, "call")) " outstanding"
                    @if let Some((lowest, highest)) = interval.granted {
                        "\n" (Number(lowest.into())) @if highest > lowest { " to " (Number(highest.into())) } " granted"
                    }
                }))
            }
        }
        (frame.bottom_axis(&along, TIME))
    };
    let direction = if backward { "backward" } else { "forward" };
    let heading = format!("Credits of connection {}, {direction}", connection.0);
    let entries = [
        (Sample::Across("granted"), "credits granted".to_owned()),
        (Sample::Area("s0"), "outstanding calls (maximum)".to_owned()),
    ];
    figure(&heading, legend(entries), drawing(Frame::HALF_SIZE, &heading, content))
}

/// The left and right edge of an interval on the time axis.
fn interval_sides(frame: Frame, along: &Axis, index: usize, width: u64) -> (f64, f64) {
    let at = |index: usize| frame.x(along, index as f64 * width as f64);
    (at(index), at(index + 1))
}

/// The time range of an interval.
struct IntervalName(usize, u64);

impl Display for IntervalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IntervalName(index, width) = *self;
        let at = |index: usize| (index as u64).saturating_mul(width);
        write!(f, "{} to {}", Duration(at(index)), Duration(at(index + 1)))
    }
}

/// The latency range of a class.
struct ClassName(usize);

impl Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |class: usize| Duration(Classes::start(class) as u64);
        write!(f, "{} to {}", at(self.0), at(self.0 + 1))
    }
}
