//! Charts: latency over time, bytes moved over time, and the latencies of an operation.

use super::{dim, fitted};
use crate::chart;
use crate::rows::Row;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};
use rdmascope_present::names::Label;
use rdmascope_present::text::{Bytes, Duration, Number};

/// What can be chosen: all operations, or one.
pub(super) fn names(state: &State) -> Vec<(Option<Label>, u64)> {
    let operations = chart::operations(&state.session.rows);
    let all = operations.iter().map(|(_, count)| count).sum();
    core::iter::once((None, all))
        .chain(operations.into_iter().map(|(label, count)| (Some(label), count)))
        .collect()
}

/// Columns of the list of operations.
const LIST: u16 = 28;

/// Draws them.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let names = names(state);
    let at = state.cursor().top.min(names.len().saturating_sub(1));
    let chosen = names.get(at).and_then(|(label, _)| *label);
    let words = match chosen {
        Some(label) => format!("Charts: {label}   j and k choose an operation"),
        None => "Charts: all operations   j and k choose one".to_owned(),
    };
    super::title(state, frame, area, &words, true);
    let body = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
    let rows: Vec<&Row> =
        state.session.rows.iter().filter(|row| chosen.is_none_or(|label| row.label == label)).collect();
    if rows.is_empty() {
        return super::nothing(frame, area, "No transaction has ended yet.");
    }
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(LIST)]).areas(body);
    let [upper, lower] =
        Layout::vertical([Constraint::Percentage(60), Constraint::Percentage(40)]).areas(left);
    let [scatter, moved] = Layout::vertical([Constraint::Fill(1), Constraint::Length(4)]).areas(upper);
    over_time(state, frame, scatter, &rows);
    throughput(state, frame, moved, &rows);
    histogram(state, frame, lower, &rows);
    let lines = names.iter().enumerate().skip(at.saturating_sub(usize::from(right.height) / 2));
    let lines = lines.take(usize::from(right.height)).map(|(index, (label, count))| {
        let name = label.map_or("all operations".to_owned(), |label| label.to_string());
        let style = if index == at { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Line::from(Span::styled(
            format!(" {} {:>8}", fitted(state, &name, 16, false), Number(*count).to_string()),
            style,
        ))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), right);
}

fn over_time(state: &State, frame: &mut Frame<'_>, area: Rect, rows: &[&Row]) {
    let (start, end) = state.session.span();
    let grid = (usize::from(area.width) * 2, 8);
    let points = chart::latencies(rows.iter().copied(), (start, end), grid);
    let least = points.iter().map(|(_, y)| *y).fold(f64::MAX, f64::min).floor();
    let most = points.iter().map(|(_, y)| *y).fold(0.0, f64::max).floor() + 1.0;
    let seconds = (end.since(start).max(1) as f64) / 1e9;
    let label = |power: f64| Duration(10f64.powf(power) as u64).to_string();
    let steps = (most - least).max(1.0) as u32;
    let labels: Vec<String> = (0..=steps).map(|step| label(least + f64::from(step))).collect();
    let colour = if state.look.colour { Style::new().fg(Color::Cyan) } else { Style::new() };
    // The moment that is shown, as a line.
    let now = state.moment.time.map_or(0.0, |time| time.since(start) as f64 / 1e9);
    let line = [(now, least), (now, most)];
    let marker = if state.look.unicode { Marker::Braille } else { Marker::Dot };
    let sets = vec![
        Dataset::default().marker(marker).graph_type(GraphType::Line).style(dim()).data(&line),
        Dataset::default().marker(marker).graph_type(GraphType::Scatter).style(colour).data(&points),
    ];
    let chart = Chart::new(sets)
        .x_axis(Axis::default().bounds([0.0, seconds]).labels(["0".to_owned(), format!("{seconds:.3} s")]))
        .y_axis(Axis::default().title("latency").bounds([least, most]).labels(labels));
    if state.look.unicode {
        frame.render_widget(chart, area);
    } else {
        frame.render_widget(ascii(area, &points, [0.0, seconds], [least, most]), area);
    }
}

/// The same where the terminal shows ASCII only.
fn ascii(
    area: Rect,
    points: &[(f64, f64)],
    [left, right]: [f64; 2],
    [low, high]: [f64; 2],
) -> Paragraph<'static> {
    let (width, height) = (usize::from(area.width).max(1), usize::from(area.height).max(1));
    let mut cells = vec![vec![b' '; width]; height];
    let place = |value: f64, from: f64, to: f64, count: usize| {
        (((value - from) / (to - from).max(f64::MIN_POSITIVE)) * (count - 1) as f64)
            .round()
            .clamp(0.0, (count - 1) as f64) as usize
    };
    for (x, y) in points {
        cells[height - 1 - place(*y, low, high, height)][place(*x, left, right, width)] = b'*';
    }
    let lines = cells.into_iter().map(|line| Line::raw(String::from_utf8_lossy(&line).into_owned()));
    Paragraph::new(lines.collect::<Vec<_>>())
}

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '-', '=', '#', '#'];

fn throughput(state: &State, frame: &mut Frame<'_>, area: Rect, rows: &[&Row]) {
    let (start, end) = state.session.span();
    let columns = usize::from(area.width).max(1);
    let sums = chart::moved(rows.iter().copied(), (start, end), columns);
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let span = end.since(start).max(1) as f64 / columns as f64 / 1e9;
    let rate = Bytes((most as f64 / span) as u64);
    let glyphs = if state.look.unicode { &BLOCKS } else { &ASCII };
    let height = usize::from(area.height.saturating_sub(1));
    let mut lines = vec![Line::from(Span::styled(format!("bytes moved, at most {rate} a second"), dim()))];
    for line in (0..height).rev() {
        let shown: String = sums
            .iter()
            .map(|sum| {
                let eighths = (u128::from(*sum) * (height as u128 * 8) / u128::from(most)) as usize;
                glyphs[eighths.saturating_sub(line * 8).min(8)]
            })
            .collect();
        lines.push(Line::raw(shown));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn histogram(state: &State, frame: &mut Frame<'_>, area: Rect, rows: &[&Row]) {
    let counts = chart::histogram(rows.iter().copied());
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let room = usize::from(area.width).saturating_sub(32).max(8);
    let bar = if state.look.unicode { "█" } else { "#" };
    let mut lines = vec![Line::from(Span::styled("latencies, each line to twice its time", dim()))];
    for (from, count) in &counts {
        let length = (u128::from(*count) * room as u128 / u128::from(most)) as usize;
        let length = if *count > 0 { length.max(1) } else { 0 };
        lines.push(Line::raw(format!(
            "  from {:>8} {:>9} {}",
            Duration(*from).to_string(),
            Number(*count).to_string(),
            bar.repeat(length)
        )));
    }
    // Where not all fit, the slow ones are of more use than the fast ones.
    let seen = usize::from(area.height);
    if lines.len() > seen {
        let left_out = lines.len() - seen;
        lines.drain(1..=left_out.min(lines.len() - 1));
    }
    frame.render_widget(Paragraph::new(lines), area);
}
