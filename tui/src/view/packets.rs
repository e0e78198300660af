//! Packets as a table, and the fields of the selected one.

use super::{Pane, Selection, Target, Texts, dim, fitted, red, yellow};
use crate::analysis::PacketSet;
use crate::packets::{PacketRow, PacketTable, PacketTest, Packets as List};
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::units::{Number, quoted};
use rdmascope_present::column::Tint;
use rdmascope_present::fields::Field;
use rdmascope_present::notes::Subject;

pub(super) struct Packets;

impl Pane for Packets {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        super::title(state, frame, area, &words(state), !state.in_detail);
        let times = state.time_column(area.width);
        let columns = columns(usize::from(area.width), times.width());
        let headings: Vec<String> =
            columns.iter().map(|column| fitted(state, column.name, column.width, column.right)).collect();
        let headings = format!("  {:>8} {} {:>6} {}", "frame", times.heading(), "call", headings.join(" "));
        let line = |index: usize| match state.packets.row(index) {
            Some(row) => {
                let before = index.checked_sub(1).and_then(|before| state.packets.row(before));
                line(state, row, &times.cell(Some(row.time), before.map(|row| row.time)), &columns)
            }
            None => missing(state, index),
        };
        let why = match state.packets.scanned < state.session.records() && !state.packets.line.is_empty() {
            true => "Looking for packets that pass the filter.",
            false if state.packets.line.is_empty() => "No packet yet.",
            false => "No packet matches the filter: Esc clears it.",
        };
        super::list(state, frame, area, Some(headings), (self.count(state), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.packets.count(state.session.records())
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let text = |row: &PacketRow| row.cells().collect::<Vec<_>>().join(" ");
        Texts::of(self.count(state), move |index| state.packets.row(index).map(text).unwrap_or_default())
    }

    fn detail(&self, state: &State, _width: u16) -> (String, Text<'static>) {
        let row = state.packets.row(state.cursor().at);
        let Some(row) = row else { return ("Packet".to_owned(), Text::default()) };
        let of = row.transaction.map_or(String::new(), |number| format!(", of transaction {number}"));
        let title = format!("Frame {}{of}", row.number);
        let frame = state.frame.as_ref().filter(|frame| frame.number == row.number);
        let mut lines = Vec::new();
        if let Some(frame) = frame {
            flatten(&frame.fields, 0, &mut lines);
        }
        (title, lines.into_iter().map(Line::raw).collect())
    }

    fn selection(&self, state: &State) -> Selection {
        let number = state.packets.number(state.cursor().at);
        let row = state.packets.row(state.cursor().at);
        Selection {
            command: command(state),
            value: number.map(|number| number.to_string()),
            record: number,
            packets: number.map_or(PacketSet::All, |number| PacketSet::Frames(vec![number])),
            target: row.map(|row| Target::Frame(row.number)),
        }
    }
}

fn words(state: &State) -> String {
    let packets = &state.packets;
    let mut words = format!("Packets: {}", Number(packets.count(state.session.records()) as u64));
    if !packets.line.is_empty() {
        let records = state.session.records();
        words += &format!(" of {}, filter: {}", Number(records), packets.line);
        if packets.is_full() {
            words += &format!(" (the first {} are listed)", Number(List::MOST as u64));
        } else if packets.scanned < records {
            words += &format!(" (searched to #{})", packets.scanned);
        }
    }
    words
}

/// A record that is not loaded, or no longer kept.
fn missing(state: &State, index: usize) -> Line<'static> {
    let number = index as u64 + 1;
    let page = &state.packets.page;
    let is_gone = (page.first..=page.last).contains(&number);
    let why = if is_gone { "no longer kept" } else { "" };
    Line::styled(format!("  {number:>8} {why}"), dim())
}

/// The command that lists the same packets. The command line has no words to find, so the packets
/// that they select are named by their numbers.
fn command(state: &State) -> String {
    /// More numbers are no help.
    const MOST: usize = 200;
    let line = &state.packets.line;
    let options = PacketTest::parse(line, state.times.zone()).ok().and_then(|test| test.options(line));
    let options = options.unwrap_or_else(|| {
        let numbers: Vec<String> =
            state.packets.matched.iter().take(MOST).map(|row| row.number.to_string()).collect();
        format!(" --where {}", quoted(&format!("frame in ({})", numbers.join(", "))))
    });
    format!("rdmascope packets {}{options}", state.files)
}

/// A column of cells.
struct Column {
    name: &'static str,
    cell: usize,
    width: usize,
    right: bool,
}

/// The columns that fit next to the number, the times and the transaction.
fn columns(width: usize, times: usize) -> Vec<Column> {
    let narrow = width < 100;
    // The longest address has 39 characters, the longest opcode 33.
    let (address, opcode) = match width {
        ..100 => (15, 20),
        100..200 => (15, 24),
        _ => (39, 33),
    };
    let cells: Vec<&'static str> = PacketTable::default().headings().collect();
    let of = |name: &'static str, width, right| {
        let cell = cells.iter().position(|heading| heading.trim() == name)?;
        Some(Column { name, cell, width, right })
    };
    let all = [
        of("source", address, false),
        of("destination", address, false).filter(|_| !narrow),
        of("opcode", opcode, false),
        of("QP", 8, true).filter(|_| width >= 140),
        of("PSN", 8, true).filter(|_| width >= 140),
        of("carries", 0, false),
    ];
    let mut columns: Vec<Column> = all.into_iter().flatten().collect();
    let taken = 19 + times + columns.iter().map(|column| column.width + 1).sum::<usize>();
    if let Some(last) = columns.last_mut() {
        last.width = width.saturating_sub(taken).max(8);
    }
    columns
}

fn line(state: &State, row: &PacketRow, times: &str, columns: &[Column]) -> Line<'static> {
    let is_chosen = row.transaction.is_some() && row.transaction == state.chosen;
    let style = match row.tint {
        Tint::Red => red(state),
        Tint::Yellow => yellow(state),
        _ if row.number > state.moment.record => dim(),
        _ if is_chosen => Style::new().bold(),
        _ => Style::new(),
    };
    // The packets of the chosen transaction have a bar at the left.
    let bar = match (is_chosen, state.look.unicode) {
        (true, true) => "▌",
        (true, false) => "|",
        (false, _) => " ",
    };
    let is_marked = state.marks.of(Subject::Frame(row.number)).is_some();
    let sign = if is_marked { "*" } else { " " };
    let call = row.transaction.map(|number| number.to_string()).unwrap_or_default();
    let cells: Vec<&str> = row.cells().collect();
    let cell = |column: &Column| {
        let cell = cells.get(column.cell).copied().unwrap_or_default();
        // Nearly all opcodes are of reliable connections.
        let cell = if column.width < 24 { cell.strip_prefix("RC ").unwrap_or(cell) } else { cell };
        fitted(state, cell, column.width, column.right)
    };
    let cells: Vec<String> = columns.iter().map(cell).collect();
    Line::from(vec![
        Span::raw(bar),
        Span::styled(sign, yellow(state)),
        Span::styled(format!("{:>8} {times} {call:>6} {}", row.number, cells.join(" ")), style),
    ])
}

/// Headers below the transport, of which the pane has only the names.
const BELOW: [&str; 4] = ["Ethernet", "VLAN", "IPv", "UDP"];

/// The fields as indented lines.
fn flatten(fields: &[Field], depth: usize, lines: &mut Vec<String>) {
    for field in fields {
        let shown = field.shown();
        let separator = if shown.is_empty() { "" } else { ": " };
        lines.push(format!("  {}{}{separator}{shown}", "  ".repeat(depth), field.name));
        // Enter shows the fields of these, too.
        if depth == 0 && BELOW.iter().any(|name| field.name.starts_with(name)) {
            continue;
        }
        flatten(&field.children, depth + 1, lines);
    }
}
