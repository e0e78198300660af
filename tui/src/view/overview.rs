//! The overview: verdict, figures, problems, charts, operations, and the busiest files and hosts.
//!
//! Verdict and tiles are at the top. Below them is a page of sections, in two columns on a wide
//! screen; it scrolls with the selection.

mod charts;
mod entries;

use super::{Pane, Selection, Texts, dim, fitted};
use crate::overview::{Busy, FoundCounts, Operation, Overview};
use crate::rows::Row;
use crate::session::Progress;
use crate::state::State;
use entries::{Entry, entries};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use rdmascope_analysis::report::{Harm, Statement};
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number, Plain};
use rdmascope_dissector::phases::Phases;
use rdmascope_present::screen::wrapped;

pub(super) struct Glance;

impl Pane for Glance {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        draw(state, area, frame.buffer_mut());
    }

    fn count(&self, state: &State) -> usize {
        entries(state).len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let entries = entries(state);
        Texts::of(entries.len(), move |index| {
            let selection = entries[index].selection(state);
            selection.value.unwrap_or(selection.command)
        })
    }

    fn selection(&self, state: &State) -> Selection {
        match entries(state).get(state.cursor().at) {
            Some(entry) => entry.selection(state),
            None => {
                Selection { command: format!("rdmascope analyze {}", state.files), ..Selection::default() }
            }
        }
    }
}

/// The entry at a place of the screen.
pub(crate) fn entry_at(state: &State, column: u16, row: u16) -> Option<usize> {
    let area = state.areas().main;
    let mut buffer = Buffer::empty(area);
    let places = draw(state, area, &mut buffer);
    places.into_iter().find(|(place, _)| place.contains((column, row).into())).map(|(_, entry)| entry)
}

/// The entry next to the selected one in the row of tiles: the next one, or the previous one. From
/// any other entry, the first tile.
pub(crate) fn adjacent_tile(state: &State, on: bool) -> Option<usize> {
    let entries = entries(state);
    let first = entries.iter().position(|entry| matches!(entry, Entry::Tile(_)))?;
    let at = state.cursor().at;
    let to = match (at.checked_sub(first), on) {
        (None, _) => 0,
        (Some(tile), true) => tile + 1,
        (Some(tile), false) => tile.saturating_sub(1),
    };
    Some((first + to).min(entries.len() - 1))
}

/// The places of entries on the screen.
type Places = Vec<(Rect, usize)>;

/// Columns from which on the page has two columns.
const WIDE: u16 = 130;
/// Lines of the screen from which on there is room for more than the most important.
const HIGH: u16 = 32;

/// Draws the view.
fn draw(state: &State, area: Rect, buffer: &mut Buffer) -> Places {
    let mut places = Vec::new();
    let area = area.intersection(buffer.area);
    let mut top = area;
    let chosen = state.cursor().at;
    let verdict = verdict(state, area.width);
    let mut put = |line: &Line<'static>, entry: Option<usize>, top: &mut Rect, buffer: &mut Buffer| {
        if top.height == 0 {
            return;
        }
        let place = Rect { height: 1, ..*top };
        buffer.set_line(place.x, place.y, line, place.width);
        if let Some(entry) = entry {
            places.push((place, entry));
            if entry == chosen {
                select(place, buffer);
            }
        }
        *top = Rect { y: top.y + 1, height: top.height - 1, ..*top };
    };
    for (entry, line) in &verdict {
        put(line, *entry, &mut top, buffer);
    }
    if area.height >= HIGH {
        put(&Line::default(), None, &mut top, buffer);
    }
    places.extend(tiles(state, Rect { height: top.height.min(2), ..top }, buffer));
    let taken = (2 + u16::from(area.height >= HIGH)).min(top.height);
    let body = Rect { y: top.y + taken, height: top.height - taken, ..top };
    if area.width >= WIDE {
        let left = (u32::from(body.width) * 45 / 100).max(80.min(u32::from(body.width) / 2)) as u16;
        let page = page(state, left, None);
        places.extend(page.draw(state, Rect { width: left, ..body }, buffer));
        let right = Rect { x: body.x + left + 1, width: body.width - left - 1, ..body };
        charts::draw(state, right, buffer, 3);
    } else {
        let page = page(state, body.width, Some(body.height));
        places.extend(page.draw(state, body, buffer));
    }
    places
}

/// Marks the selected entry. The parts of a bar keep their colours.
fn select(place: Rect, buffer: &mut Buffer) {
    for position in place.intersection(buffer.area).positions() {
        let cell = &mut buffer[position];
        if !cell.modifier.contains(Modifier::REVERSED) {
            cell.modifier.insert(Modifier::REVERSED);
            cell.fg = Color::Reset;
        }
    }
}

/// The lines of the verdict: the statements that lead a report, up to three lines.
fn verdict(state: &State, width: u16) -> Vec<(Option<usize>, Line<'static>)> {
    const MOST: usize = 3;
    let mut lines = Vec::new();
    let shown = entries::leading(state, width);
    for (entry, statement) in state.session.overview.statements.iter().take(shown).enumerate() {
        let style = style_of(statement.harm).bold();
        lines.extend(
            paragraph(&sentence(statement), width, style).into_iter().map(|line| (Some(entry), line)),
        );
    }
    if lines.is_empty() {
        let style = Style::new().bold();
        lines.extend(paragraph(&nothing(state), width, style).into_iter().map(|line| (None, line)));
    }
    // Violations may have done no harm.
    let nothing = state.session.overview.nothing.as_ref().filter(|_| shown > 0);
    if let Some(rest) = nothing.and_then(|nothing| nothing.strip_prefix("Nothing")) {
        let words = format!("Otherwise nothing{rest}");
        lines.extend(paragraph(&words, width, Style::new()).into_iter().map(|line| (None, line)));
    }
    lines.truncate(MOST);
    lines
}

/// The statement with its frame, as `analyze` prints it.
fn sentence(statement: &Statement) -> String {
    match statement.frame {
        Some(frame) => format!("{}; frame {frame}", statement.text),
        None => statement.text.clone(),
    }
}

/// A text in lines, the second and later ones indented.
fn paragraph(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let room = usize::from(width).saturating_sub(3).max(20);
    let plain = Plain(text).to_string();
    let lines = wrapped(&plain, room).into_iter().enumerate();
    lines
        .map(|(index, line)| Line::styled(format!("{}{line}", if index == 0 { " " } else { "   " }), style))
        .collect()
}

/// The verdict on a capture without harm.
fn nothing(state: &State) -> String {
    let session = &state.session;
    let overview = &session.overview;
    let notes = overview.statements.len() as u64;
    match (&overview.nothing, &session.progress) {
        (_, Progress::Nothing) => "No capture is open.".to_owned(),
        (_, Progress::Failed(error)) if session.records() == 0 => error.clone(),
        (Some(nothing), _) => nothing.clone(),
        (None, Progress::Ended | Progress::Failed(_)) if notes > 0 => {
            format!("Nothing wrong found; {} below.", Counted(notes, "note"))
        }
        (None, _) if session.records() == 0 => "No packets so far.".to_owned(),
        (None, _) => "Nothing wrong so far.".to_owned(),
    }
}

/// The ends of files that were not read completely, or the error that ended another source.
fn limits(state: &State) -> Option<String> {
    let incomplete = &state.session.overview.incomplete;
    match &state.session.progress {
        _ if !incomplete.is_empty() => Some(incomplete.join("; ")),
        Progress::Failed(error) if state.session.records() > 0 => Some(error.clone()),
        _ => None,
    }
}

/// The colour of a statement, as in the report of `analyze`.
fn style_of(harm: Harm) -> Style {
    match harm {
        Harm::ServiceLost | Harm::Waits | Harm::Errors | Harm::Corruption => Style::new().fg(Color::Red),
        Harm::Loss | Harm::Breach => Style::new().fg(Color::Yellow),
        Harm::Note => Style::new(),
    }
}

/// A tile: its name, its value, and whether that is bad.
struct Tile {
    name: &'static str,
    value: String,
    is_bad: bool,
    /// Columns on a screen with 80.
    width: u16,
}

/// The tiles, in the order of [`entries::TILES`].
fn tile_list(state: &State) -> [Tile; 6] {
    let tiles = &state.session.overview.tiles;
    let (all, up) = (Number(tiles.connections), Number(tiles.up));
    let connections = match (tiles.connections, tiles.lost) {
        (0, 0) => "0".to_owned(),
        (_, 0) => format!("{all} ({up} up)"),
        (_, lost) => format!("{all} ({up} up, {} lost)", Number(lost)),
    };
    let number =
        |name, value, width| Tile { name, value: Number(value).to_string(), is_bad: value > 0, width };
    [
        Tile { name: "connections", value: connections, is_bad: tiles.lost > 0, width: 18 },
        Tile { is_bad: false, ..number("calls", tiles.calls, 10) },
        number("errors", tiles.errors, 9),
        number("sent again", tiles.resent, 12),
        number("dropped", tiles.dropped, 9),
        Tile {
            name: "findings",
            value: findings(tiles.found),
            is_bad: tiles.found.violations > 0,
            width: 22,
        },
    ]
}

/// Findings by level. If there are several levels, their names are short.
fn findings(found: FoundCounts) -> String {
    let FoundCounts { violations, warnings, advice, inconclusive } = found;
    let counts = [
        (violations, "violation", "viol."),
        (warnings, "warning", "warn."),
        (advice, "advice", "adv."),
        (inconclusive, "inconclusive", "inconcl."),
    ];
    let shown: Vec<_> = counts.into_iter().filter(|(count, ..)| *count > 0).collect();
    match shown.as_slice() {
        [] => "0".to_owned(),
        [(count, name @ ("violation" | "warning"), _)] => Counted(*count, name).to_string(),
        [(count, name, _)] => format!("{} {name}", Number(*count)),
        several => {
            let short = several.iter().map(|(count, _, short)| format!("{} {short}", Number(*count)));
            short.collect::<Vec<_>>().join(" ")
        }
    }
}

fn tiles(state: &State, area: Rect, buffer: &mut Buffer) -> Places {
    let mut places = Vec::new();
    let chosen = state.cursor().at;
    let first = entries(state).len() - entries::TILES;
    let mut x = area.x;
    for (index, tile) in tile_list(state).into_iter().enumerate() {
        let width = (u32::from(tile.width) * u32::from(area.width.clamp(80, 140)) / 80) as u16;
        let place = Rect { x, width, ..area }.intersection(area);
        if place.is_empty() {
            break;
        }
        let name = Line::styled(format!(" {}", tile.name), dim());
        buffer.set_line(place.x, place.y, &name, place.width);
        let style = Style::new().bold();
        let style = if tile.is_bad { style.fg(Color::Red) } else { style };
        let value = fitted(state, &tile.value, usize::from(place.width).saturating_sub(2), false);
        if place.height > 1 {
            buffer.set_line(
                place.x,
                place.y + 1,
                &Line::styled(format!(" {}", value.trim_end()), style),
                place.width,
            );
        }
        if first + index == chosen {
            let inner = Rect { width: place.width.saturating_sub(1), ..place };
            select(inner, buffer);
        }
        places.push((place, first + index));
        x = x.saturating_add(width);
    }
    places
}

/// A page that scrolls: lines, each with its entry if it has one, and charts between them.
#[derive(Default)]
struct Page {
    lines: Vec<(Option<usize>, Line<'static>)>,
    /// The first line, the number of lines, and the number of charts.
    charts: Option<(usize, u16, usize)>,
}

impl Page {
    fn title(&mut self, state: &State, words: &str, width: u16) {
        let dash = super::dash(state);
        let rest = usize::from(width).saturating_sub(words.chars().count() + 3);
        let style = Style::new().bold();
        self.lines.push((None, Line::styled(format!("{dash} {words} {}", dash.repeat(rest)), style)));
    }

    /// Draws the part with the selected entry.
    fn draw(&self, state: &State, area: Rect, buffer: &mut Buffer) -> Places {
        let mut places = Vec::new();
        let seen = usize::from(area.height);
        let chosen = state.cursor().at;
        let last = self.lines.iter().rposition(|(entry, _)| *entry == Some(chosen));
        let most = self.lines.len().saturating_sub(seen);
        // One more line shows that the page continues.
        let top = last.map_or(0, |line| (line + 2).saturating_sub(seen)).min(most);
        if let Some((first, height, count)) = self.charts {
            let mut full = Buffer::empty(Rect { x: 0, y: 0, width: area.width, height });
            charts::draw(state, full.area, &mut full, count);
            for y in 0..height {
                let Some(line) = (first + usize::from(y)).checked_sub(top).filter(|line| *line < seen) else {
                    continue;
                };
                for x in 0..area.width {
                    buffer[(area.x + x, area.y + line as u16)] = full[(x, y)].clone();
                }
            }
        }
        for (index, (entry, line)) in self.lines.iter().skip(top).take(seen).enumerate() {
            let place = Rect { y: area.y + index as u16, height: 1, ..area };
            buffer.set_line(place.x, place.y, line, place.width);
            if let Some(entry) = entry {
                places.push((place, *entry));
                if *entry == chosen {
                    select(place, buffer);
                }
            }
        }
        super::scroll_mark(state, buffer, area, (top, most - top));
        places
    }
}

/// The page for a column of this width. With `height`, it has the charts too, and on a low screen
/// only the most important sections come before them.
fn page(state: &State, width: u16, height: Option<u16>) -> Page {
    let mut page = Page::default();
    let all = entries(state);
    let is_low = height.is_some_and(|height| height < HIGH);
    problems(state, &all, width, &mut page);
    if let Some(limits) = limits(state) {
        let lines =
            paragraph(&format!("Limits of the capture: {limits}."), width, Style::new().fg(Color::Yellow));
        page.lines.extend(lines.into_iter().map(|line| (None, line)));
    }
    let operations: Vec<(usize, &Operation)> = all
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| match entry {
            Entry::Operation(index) => Some((at, state.session.overview.operations.get(*index)?)),
            _ => None,
        })
        .collect();
    let (first, rest) = operations.split_at(if is_low { operations.len().min(3) } else { operations.len() });
    operation_lines(state, first, width, true, &mut page);
    if let Some(height) = height {
        let free = usize::from(height).saturating_sub(page.lines.len());
        let (lines, count) = if free >= 18 { (free.min(26), 3) } else { (free.clamp(7, 9), 1) };
        page.charts = Some((page.lines.len(), lines as u16, count));
        page.lines.extend(vec![(None, Line::default()); lines]);
    }
    operation_lines(state, rest, width, false, &mut page);
    busiest(state, &all, width, &mut page);
    page
}

/// The problems that the verdict does not name.
fn problems(state: &State, all: &[Entry], width: u16, page: &mut Page) {
    let leading = entries::leading(state, state.size.0);
    let statements = &state.session.overview.statements;
    if statements.len() > leading {
        let harm = state.session.overview.harm().count().saturating_sub(leading);
        let notes = statements.len() - leading - harm;
        let words = match (harm, notes) {
            (harm, 0) => format!("{}, worst first", Counted(harm as u64, "further problem")),
            (0, notes) => Counted(notes as u64, "note").to_string(),
            (harm, notes) => {
                let harm = Counted(harm as u64, "further problem");
                format!("{harm}, worst first, and {}", Counted(notes as u64, "note"))
            }
        };
        page.title(state, &words, width);
    }
    for (at, entry) in all.iter().enumerate().skip(leading) {
        let Entry::Problem(index) = entry else { break };
        let Some(statement) = statements.get(*index) else { break };
        let lines = paragraph(&sentence(statement), width, style_of(statement.harm));
        page.lines.extend(lines.into_iter().map(|line| (Some(at), line)));
    }
}

/// Columns of an operation's figures, after its name.
const FIGURES: usize = 4 * 8;

/// Columns of a name in a page of this width.
fn name_width(width: u16) -> usize {
    (20 + usize::from(width).saturating_sub(68) / 3).min(30)
}

fn operation_lines(
    state: &State,
    operations: &[(usize, &Operation)],
    width: u16,
    is_first: bool,
    page: &mut Page,
) {
    if operations.is_empty() {
        return;
    }
    let name = name_width(width);
    let bar = usize::from(width).saturating_sub(name + FIGURES + 3);
    if is_first {
        page.title(state, "Slowest operations, by their total time", width);
        let heading = format!(
            " {} {:>7} {:>7} {:>7} {:>7}  where it went",
            fitted(state, "operation", name, false),
            "calls",
            "median",
            "p99",
            "total"
        );
        page.lines.push((None, Line::styled(heading, dim())));
    }
    for (at, operation) in operations {
        let figure = |value: Option<u64>| value.map_or("-".to_owned(), |value| Duration(value).to_string());
        let latency = operation.latency;
        let mut spans = vec![Span::raw(format!(
            " {} {:>7} {:>7} {:>7} {:>7}  ",
            fitted(state, &operation.name, name, false),
            Number(operation.count).to_string(),
            figure(latency.map(|latency| latency.median)),
            figure(latency.map(|latency| latency.p99)),
            figure(Some(operation.total)),
        ))];
        if let Some(shares) = operation.shares {
            spans.extend(stacked(state, shares, bar));
        }
        page.lines.push((Some(*at), Line::from(spans)));
    }
}

/// The colours of [`Phases::GROUPS`].
const OF_PHASES: [Color; Phases::GROUPS.len()] =
    [Color::DarkGray, Color::Cyan, Color::Yellow, Color::Magenta, Color::Blue, Color::Green];

/// A bar of shares. Each part contains the name of its phase, as far as that fits.
fn stacked(state: &State, shares: [f64; Phases::GROUPS.len()], width: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let (mut sum, mut from) = (0.0, 0);
    for (index, share) in shares.into_iter().enumerate() {
        sum += share;
        let to = ((sum * width as f64).round() as usize).min(width);
        let columns = to.saturating_sub(from);
        from = to;
        if columns == 0 {
            continue;
        }
        // Without colours, a bar ends each part.
        let fill = if state.look.colour { " " } else { "=" };
        let name: String = Phases::GROUPS[index].chars().take(columns).collect();
        let mut part = format!("{name}{}", fill.repeat(columns - name.len()));
        if !state.look.colour && columns > 1 {
            part.pop();
            part.push('|');
        }
        let style =
            if state.look.colour { Style::new().fg(OF_PHASES[index]).reversed() } else { Style::new() };
        spans.push(Span::styled(part, style));
    }
    spans
}

fn busiest(state: &State, all: &[Entry], width: u16, page: &mut Page) {
    let overview: &Overview = &state.session.overview;
    for (kind, words) in ["Busiest files", "Busiest clients", "Busiest servers"].into_iter().enumerate() {
        if overview.busiest[kind].is_empty() {
            continue;
        }
        page.title(state, words, width);
        for (at, entry) in all.iter().enumerate() {
            let Entry::Busy(of, index) = entry else { continue };
            let Some(busy) = overview.busiest[*of].get(*index).filter(|_| *of == kind) else { continue };
            page.lines.push((Some(at), busy_line(state, busy, width)));
        }
    }
}

fn busy_line(state: &State, busy: &Busy, width: u16) -> Line<'static> {
    let name = String::from_utf8_lossy(&busy.name);
    let calls = Counted(busy.calls, "call").to_string();
    let room = usize::from(width).saturating_sub(28).max(8);
    let name = fitted(state, &name, room, false);
    Line::raw(format!(" {name} {calls:>14} {:>9}", Bytes(busy.bytes).to_string()))
}

/// The filter that matches the transactions of a row's file.
pub(super) fn of_file(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path).replace('\\', "\\\\").replace('\'', "\\'");
    debug_assert!(Row::FIELDS.contains(&"file"));
    format!("file == '{path}'")
}
