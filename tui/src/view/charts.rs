//! Charts: latency, bytes moved, calls in flight and retransmissions over time, and a latency
//! histogram.

use super::plot::{self, AXIS, Plot, time_axis};
use super::{Pane, Selection, Target, Texts, dim, fitted};
use crate::chart::{Figures, Of};
use crate::show::Show;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number};
use rdmascope_dissector::record::Time;
use rdmascope_present::axis::Axis;

/// Columns of the list of operations.
const LIST: u16 = 28;

/// Lines from which on there is room for high bars.
const HIGH: u16 = 36;

/// Columns of the charts in a view of this width.
pub(crate) fn columns(width: u16) -> usize {
    plot::columns(width.saturating_sub(LIST)).max(1)
}

pub(super) struct Charts;

impl Pane for Charts {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let words = match state.figures.as_ref().map(|figures| &figures.of) {
            None => "Charts".to_owned(),
            Some(Of::All) => "Charts: all operations   j and k select one".to_owned(),
            Some(one) => format!("Charts: {one}   j and k select another"),
        };
        super::title(state, frame, area, &words, !state.in_detail);
        let Some(figures) = &state.figures else {
            return super::nothing(frame, area, "Computing the charts.");
        };
        let names = &figures.names;
        let at = state.cursor().top.min(names.len().saturating_sub(1));
        let body = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
        if state.session.rows.is_empty() {
            return super::nothing(frame, area, "No transaction has ended yet.");
        }
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(LIST)]).areas(body);
        let [upper, lower] =
            Layout::vertical([Constraint::Percentage(65), Constraint::Percentage(35)]).areas(left);
        let bars = Constraint::Length(if area.height < HIGH { 2 } else { 4 });
        let axis = Constraint::Length(AXIS);
        let [scatter, moved, flight, again, axis] =
            Layout::vertical([Constraint::Fill(1), bars, bars, bars, axis]).areas(upper);
        let span = figures.wanted.map_or(state.session.span(), |wanted| wanted.span);
        over_time(state, frame, scatter, figures, span);
        throughput(state, frame, moved, figures, span);
        credits(state, frame, flight, figures);
        resent(state, frame, again, figures.moved.len());
        let times = Axis::of_time(span.1.since(span.0).max(1) as f64);
        time_axis(&times, axis, frame.buffer_mut(), state.look.unicode);
        histogram(state, frame, lower, figures);
        let first = at.saturating_sub(usize::from(right.height) / 2);
        let lines = names.iter().enumerate().skip(first);
        let lines = lines.take(usize::from(right.height)).map(|(index, (of, count))| {
            let style = if index == at { Style::new().reversed() } else { Style::new() };
            Line::from(Span::styled(
                format!(" {} {:>8}", fitted(state, &of.to_string(), 16, false), Number(*count).to_string()),
                style,
            ))
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), right);
        let hidden = (first, names.len().saturating_sub(first + usize::from(right.height)));
        super::scroll_mark(state, frame.buffer_mut(), area, hidden);
    }

    fn count(&self, state: &State) -> usize {
        state.figures.as_ref().map_or(1, |figures| figures.names.len())
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let names = state.figures.as_ref().map_or(&[][..], |figures| &figures.names);
        Texts::of(names.len(), |index| names[index].0.to_string())
    }

    fn selection(&self, state: &State) -> Selection {
        let command = format!("rdmascope analyze {}", state.files);
        Selection { command, target: Some(Target::View(Show::Transactions)), ..Selection::default() }
    }
}

fn over_time(
    state: &State,
    frame: &mut Frame<'_>,
    area: Rect,
    Figures { latencies: points, .. }: &Figures,
    (start, end): (Time, Time),
) {
    let least = points.iter().map(|(_, y)| *y).fold(f64::MAX, f64::min).floor();
    let most = points.iter().map(|(_, y)| *y).fold(0.0, f64::max).floor() + 1.0;
    let seconds = (end.since(start).max(1) as f64) / 1e9;
    let points = points.iter().map(|(x, y)| (x / seconds, 10f64.powf(*y)));
    let plot = Plot {
        heading: Line::styled("latency by the time of the call", dim()),
        axis: Axis::of_latencies(10f64.powf(least.min(most)), 10f64.powf(most)),
        curves: Vec::new(),
        points: points.collect(),
        moment: state.moment.time.map(|time| time.since(start) as f64 / 1e9 / seconds),
        shaded: &[],
        unicode: state.look.unicode,
    };
    plot.draw(area, frame.buffer_mut());
}

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '-', '=', '#', '#'];

fn throughput(
    state: &State,
    frame: &mut Frame<'_>,
    area: Rect,
    Figures { moved: sums, .. }: &Figures,
    (start, end): (Time, Time),
) {
    let columns = sums.len().max(1);
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let span = end.since(start).max(1) as f64 / columns as f64 / 1e9;
    let rate = Bytes((most as f64 / span) as u64);
    let words = format!("bytes moved, at most {rate}/s");
    bars(state, frame, area, &words, &format!("{rate}/s"), sums, &[]);
}

/// Calls in flight. Columns in which all granted credits are used up are marked.
fn credits(state: &State, frame: &mut Frame<'_>, area: Rect, Figures { flight, .. }: &Figures) {
    let most = flight.most.iter().copied().max().unwrap_or(0);
    let granted = match flight.granted {
        None => String::new(),
        Some((least, most)) if least == most => format!(", {} granted", Counted(most.into(), "credit")),
        Some((least, most)) => format!(", {least} to {} granted", Counted(most.into(), "credit")),
    };
    let used = if flight.is_used_up.contains(&true) { "; all in use where marked" } else { "" };
    let words = format!("calls in flight, at most {}{granted}{used}", Number(most));
    bars(state, frame, area, &words, &Number(most).to_string(), &flight.most, &flight.is_used_up);
}

/// Retransmissions.
fn resent(state: &State, frame: &mut Frame<'_>, area: Rect, columns: usize) {
    let resent = state.session.resent.as_ref();
    let counts = resent.map(|series| series.columns(state.session.span(), columns)).unwrap_or_default();
    let words = match counts.iter().sum() {
        0 => "no retransmissions".to_owned(),
        all => format!("{} sent again, on all connections", Counted(all, "request packet")),
    };
    let most = counts.iter().copied().max().unwrap_or(0);
    bars(state, frame, area, &words, &Number(most).to_string(), &counts, &[]);
}

/// Draws a heading, and below it a bar for each column, with the highest value on the axis. Marked
/// columns have a sign.
fn bars(
    state: &State,
    frame: &mut Frame<'_>,
    area: Rect,
    words: &str,
    highest: &str,
    values: &[u64],
    marked: &[bool],
) {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let glyphs = if state.look.unicode { &BLOCKS } else { &ASCII };
    let height = usize::from(area.height.saturating_sub(1));
    let heading = fitted(state, words, usize::from(area.width), false);
    let mut lines = vec![Line::styled(heading, dim())];
    let upright = if state.look.unicode { "│" } else { "|" };
    let room = usize::from(plot::LEFT) - 1;
    for line in (0..height).rev() {
        let label = if line + 1 == height { highest } else { "" };
        let axis = format!("{}{upright}", fitted(state, label, room, true));
        let glyph = |(column, value): (usize, &u64)| {
            // Any value above zero is visible.
            let eighths = (u128::from(*value) * (height as u128 * 8)).div_ceil(u128::from(most)) as usize;
            let is_marked = line == 0 && marked.get(column) == Some(&true);
            if is_marked { '!' } else { glyphs[eighths.saturating_sub(line * 8).min(8)] }
        };
        let bars = values.iter().enumerate().map(glyph).collect::<String>();
        lines.push(Line::from(vec![Span::styled(axis, dim()), Span::raw(bars)]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn histogram(state: &State, frame: &mut Frame<'_>, area: Rect, Figures { histogram: counts, .. }: &Figures) {
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let room = usize::from(area.width).saturating_sub(32).max(8);
    let bar = if state.look.unicode { "█" } else { "#" };
    let mut lines = vec![Line::default()];
    for (from, count) in counts {
        let length = (u128::from(*count) * room as u128 / u128::from(most)) as usize;
        let length = if *count > 0 { length.max(1) } else { 0 };
        lines.push(Line::raw(format!(
            "  from {:>8} {:>9} {}",
            Duration(*from).to_string(),
            Number(*count).to_string(),
            bar.repeat(length)
        )));
    }
    // If not all rows fit, the slow ones are more useful than the fast ones.
    let seen = usize::from(area.height);
    let left_out = lines.len().saturating_sub(seen).min(counts.len());
    lines.drain(1..=left_out);
    let hidden: u64 = counts.iter().take(left_out).map(|(_, count)| count).sum();
    let words = match counts.get(left_out) {
        Some((from, _)) if hidden > 0 => {
            let all = counts.iter().map(|(_, count)| count).sum();
            format!("hidden: {} of {} under {}", Number(hidden), Counted(all, "call"), Duration(*from))
        }
        _ => "latency histogram (each row doubles)".to_owned(),
    };
    lines[0] = Line::from(Span::styled(words, dim()));
    frame.render_widget(Paragraph::new(lines), area);
}
