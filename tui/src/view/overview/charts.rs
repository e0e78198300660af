//! The charts of the overview, on one time axis.

use super::super::plot::{AXIS, Curve, Plot, columns, dots, time_axis};
use super::super::{dash, dim};
use crate::overview::{Over, OverTime};
use crate::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use rdmascope_analysis::events::Kind;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::Number;
use rdmascope_dissector::record::Time;
use rdmascope_present::axis::Axis;

/// Draws the first `count` charts: latency, throughput, calls in flight.
pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer, count: usize) {
    let over_time = &state.session.overview.over_time;
    let Some((start, end)) = over_time.span else { return };
    let columns = columns(area.width);
    if columns == 0 || area.height < 4 {
        return;
    }
    let shaded = shaded(state, (start, end), columns);
    let begin = Rfc3339::from(start).to_string();
    // Milliseconds are exact enough.
    let begin = begin.get(..23).map_or(begin.clone(), |short| format!("{short}Z"));
    let words = match shaded.contains(&true) {
        true if state.look.unicode => format!("Since {begin}   ░ no service"),
        true => format!("Since {begin}   : no service"),
        false => format!("Since {begin}"),
    };
    let dash = dash(state);
    let rest = usize::from(area.width).saturating_sub(words.chars().count() + 3);
    let title = Line::styled(format!("{dash} {words} {}", dash.repeat(rest)), Style::new().bold());
    buffer.set_line(area.x, area.y, &title, area.width);
    let length = end.since(start).max(1);
    let drawing = Drawing { over_time, length, columns, shaded: &shaded, unicode: state.look.unicode };
    let plots = [drawing.latency(), drawing.throughput(), drawing.flight()];
    let body = area.height - 1 - AXIS;
    let (each, mut more) = (body / count as u16, body % count as u16);
    let mut y = area.y + 1;
    for plot in plots.iter().take(count) {
        let height = each + u16::from(more > 0);
        more = more.saturating_sub(1);
        plot.draw(Rect { y, height, ..area }, buffer);
        y += height;
    }
    let axis = Axis::of_time(length as f64);
    time_axis(&axis, Rect { y, height: AXIS, ..area }, buffer, state.look.unicode);
}

/// The columns of time without service.
fn shaded(state: &State, (start, end): (Time, Time), columns: usize) -> Vec<bool> {
    let mut shaded = vec![false; columns];
    let length = u128::from(end.since(start)).max(1);
    let column =
        |time: Time| ((u128::from(time.since(start)) * columns as u128 / length) as usize).min(columns - 1);
    for event in state.session.events.iter().filter(|event| event.kind == Kind::ServiceLost) {
        let to = column(event.time.plus(event.duration.unwrap_or(0)));
        shaded[column(event.time)..=to].fill(true);
    }
    shaded
}

/// The data of the charts.
struct Drawing<'a> {
    over_time: &'a OverTime,
    /// The length of the time axis in nanoseconds.
    length: u64,
    columns: usize,
    shaded: &'a [bool],
    unicode: bool,
}

impl Drawing<'_> {
    /// A value for each dot column: `join` of the values of its intervals.
    fn sampled<T>(&self, over: &Over<T>, join: impl Fn(&[T]) -> Option<f64>) -> Vec<Option<f64>> {
        let count = self.columns * dots(self.unicode);
        let width = u128::from(over.width.max(1));
        let place = |dot: usize| (u128::from(self.length) * dot as u128 / count as u128 / width) as usize;
        let sample = |dot: usize| {
            let first = place(dot);
            let last = place(dot + 1).max(first + 1).min(over.values.len());
            join(over.values.get(first..last)?)
        };
        (0..count).map(sample).collect()
    }

    fn plot(&self, words: &str, names: &[&'static str], axis: Axis, curves: Vec<Curve>) -> Plot<'_> {
        let mut heading = vec![Span::styled(words.to_owned(), dim())];
        for (curve, name) in curves.iter().zip(names) {
            let sample = match (self.unicode, curve.is_dotted) {
                (true, true) => "  ⠡⠡".to_owned(),
                (true, false) => "  ⠤⠤".to_owned(),
                (false, _) => format!("  {0}{0}", curve.sign),
            };
            heading.push(Span::styled(sample, Style::new().fg(curve.colour)));
            heading.push(Span::styled(format!(" {name}"), dim()));
        }
        Plot {
            heading: Line::from(heading),
            axis,
            curves,
            points: Vec::new(),
            moment: None,
            shaded: self.shaded,
            unicode: self.unicode,
        }
    }

    fn latency(&self) -> Plot<'_> {
        let of = |index: usize| {
            let most = |values: &[Option<[f64; 2]>]| {
                values.iter().flatten().map(|both| both[index]).reduce(f64::max)
            };
            self.sampled(&self.over_time.latencies, most)
        };
        let (median, p99) = (of(0), of(1));
        let low = median.iter().flatten().copied().reduce(f64::min).unwrap_or(1e6);
        let high = p99.iter().flatten().copied().reduce(f64::max).unwrap_or(1e6);
        let decade = |value: f64| 10f64.powf(value.log10().floor());
        let (low, high) = (decade(low), decade(high) * 10.0);
        let curves = vec![
            Curve { values: p99, colour: Color::Magenta, is_dotted: true, sign: '^' },
            Curve { values: median, colour: Color::Cyan, is_dotted: false, sign: '*' },
        ];
        self.plot("latency", &["p99", "median"], Axis::of_latencies(low, high), curves)
    }

    fn throughput(&self) -> Plot<'_> {
        let width = self.over_time.moved.width.max(1);
        let rate = |index: usize| {
            // The last interval ends with the capture.
            let last = self.over_time.moved.values.len().saturating_sub(1);
            let rest = self.length.saturating_sub(last as u64 * width).clamp(1, width);
            let values = self.over_time.moved.values.iter().enumerate();
            let rates = values.map(|(at, moved)| {
                let length = if at == last { rest.max(width / 4) } else { width };
                moved[index] as f64 * 1e9 / length as f64
            });
            let rates = Over { width, values: rates.collect() };
            self.sampled(&rates, |rates| Some(rates.iter().sum::<f64>() / rates.len().max(1) as f64))
        };
        let (written, read) = (rate(0), rate(1));
        let high = written.iter().chain(&read).flatten().copied().fold(0.0, f64::max);
        let curves = vec![
            Curve { values: written, colour: Color::Yellow, is_dotted: true, sign: 'w' },
            Curve { values: read, colour: Color::Blue, is_dotted: false, sign: 'r' },
        ];
        self.plot("throughput", &["written", "read"], Axis::of_bytes(high), curves)
    }

    fn flight(&self) -> Plot<'_> {
        let flight = &self.over_time.flight;
        let most =
            |values: &[(u64, Option<u32>)]| values.iter().map(|(most, _)| *most as f64).reduce(f64::max);
        let grant = |values: &[(u64, Option<u32>)]| {
            values.iter().filter_map(|(_, grant)| *grant).max().map(f64::from)
        };
        let (most, grant) = (self.sampled(flight, most), self.sampled(flight, grant));
        /// A grant this many times as high as the calls in flight would press them to the ground.
        const HIGH: f64 = 4.0;
        let highest = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
        let (high, granted) = (highest(&most), highest(&grant));
        let most = Curve { values: most, colour: Color::Green, is_dotted: false, sign: '*' };
        if granted > high.max(1.0) * HIGH {
            let words = format!("calls in flight on one connection, {} granted", Number(granted as u64));
            return self.plot(&words, &["in flight"], Axis::of_counts(high), vec![most]);
        }
        let grant = Curve { values: grant, colour: Color::DarkGray, is_dotted: true, sign: '-' };
        let axis = Axis::of_counts(high.max(granted));
        self.plot("calls in flight on one connection", &["granted", "in flight"], axis, vec![grant, most])
    }
}
