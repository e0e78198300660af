//! Transactions as a table, and the exchange of the selected one.

use super::exchange::{command, lines, packets, words};
use super::{Pane, Selection, Target, Texts, dim, fitted, red, yellow};
use crate::rows::{Row, RowMaker, Sort};
use crate::session::Progress;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::units::{Number, quoted};
use rdmascope_conformance::Verdict;
use rdmascope_present::column::{Align, Tint};
use rdmascope_present::notes::Subject;

pub(super) struct Transactions;

impl Pane for Transactions {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let session = &state.session;
        let mut words = format!("Transactions: {}", Number(state.order.len() as u64));
        if !state.filter.is_empty() {
            words += &format!(" of {}, filter: {}", Number(session.rows.len() as u64), state.filter_line);
        }
        if state.sort != Sort::Number || state.reversed {
            let reversed = if state.reversed { ", reversed" } else { "" };
            words += &format!(", by {}{reversed}", state.sort.name());
        }
        if session.further_rows > 0 {
            words += &format!(" (and {} more, not listed)", Number(session.further_rows));
        }
        super::title(state, frame, area, &words, !state.in_detail);
        let times = state.time_column(area.width);
        let columns = columns(usize::from(area.width), times.width());
        let heading = |column: &Column| match column.heading {
            SECONDS => times.heading(),
            heading => fitted(state, heading, column.width, column.right),
        };
        let headings: Vec<String> = columns.iter().map(heading).collect();
        let headings = format!("  {}", headings.join(" "));
        let row = |index: usize| &session.rows[state.order[index] as usize];
        let line = |index: usize| {
            let before = index.checked_sub(1).map(|before| row(before).time);
            line(state, row(index), &times.cell(Some(row(index).time), before), &columns)
        };
        let why = match (session.rows.is_empty(), session.progress == Progress::Ended) {
            (false, _) => "No transaction matches the filter: Esc clears it.",
            (true, true) => "The capture contains no transactions.",
            (true, false) => "No transaction has ended yet.",
        };
        super::list(state, frame, area, Some(headings), (state.order.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.order.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let cells = |row: &Row| row.cells().collect::<Vec<_>>().join(" ");
        Texts::of(state.order.len(), move |index| cells(&state.session.rows[state.order[index] as usize]))
    }

    fn detail(&self, state: &State, width: u16) -> (String, Text<'static>) {
        (words(state), lines(state, width).into_iter().map(|(_, line)| line).collect())
    }

    fn selection(&self, state: &State) -> Selection {
        let row = state.row();
        Selection {
            command: listing(state).unwrap_or_else(|| command(state, row.map(|row| row.number))),
            value: row.map(|row| row.xid.to_string()),
            record: row.map(|row| row.ended),
            packets: packets(state),
            target: row.map(|row| Target::Transaction(row.number)),
        }
    }
}

/// The command that lists the same transactions, if a filter is set. The command line has no words
/// to find, so the transactions that they select are named by their numbers.
fn listing(state: &State) -> Option<String> {
    /// More numbers are no help.
    const MOST: usize = 200;
    if state.filter.is_empty() {
        return None;
    }
    let options = state.filter.options(&state.filter_line).unwrap_or_else(|| {
        let number = |index: &u32| state.session.rows[*index as usize].number.to_string();
        let numbers: Vec<String> = state.order.iter().take(MOST).map(number).collect();
        format!(" --where {}", quoted(&format!("number in ({})", numbers.join(", "))))
    });
    let sort = match state.sort {
        Sort::Number => "",
        Sort::Latency => " --sort waited --reverse",
        Sort::Moved => " --sort bytes --reverse",
        Sort::Operation => " --sort operation",
    };
    let sort = match (state.reversed, sort.strip_suffix(" --reverse")) {
        (true, Some(forward)) => forward.to_owned(),
        (true, None) if !sort.is_empty() => format!("{sort} --reverse"),
        (true, None) => " --sort number --reverse".to_owned(),
        (false, _) => sort.to_owned(),
    };
    Some(format!("rdmascope transactions {}{options}{sort}", state.files))
}

/// The heading of the column that the columns of times replace.
const SECONDS: &str = "seconds";

/// A column: its cell in a row, its heading, its alignment, and its width.
struct Column {
    cell: usize,
    heading: &'static str,
    right: bool,
    width: usize,
}

/// Headings that are omitted on a narrow screen, in this order.
const LEFT_OUT: [&str; 4] = ["call", "reply", "protocol", "XID"];

/// The columns that fit, with this width for times.
fn columns(width: usize, times: usize) -> Vec<Column> {
    let maker = RowMaker::default();
    let narrow = width < 100;
    let mut columns: Vec<Column> = maker
        .headings()
        .enumerate()
        .map(|(cell, (heading, align))| {
            let (right, width) = match align {
                Align::Left(width) => (false, width),
                Align::Right(width) => (true, width),
            };
            // Most names of operations and of statuses are short.
            let width = match heading {
                SECONDS => times,
                "operation" if narrow => 12,
                "operation" => 16,
                "status" if narrow => 10,
                _ => width,
            };
            Column { cell, heading, right, width }
        })
        .collect();
    for heading in LEFT_OUT {
        let wanted: usize = columns.iter().map(|column| column.width + 1).sum();
        if wanted + 24 > width {
            columns.retain(|column| column.heading != heading);
        }
    }
    let taken: usize = columns.iter().map(|column| column.width + 1).sum();
    if let Some(last) = columns.last_mut() {
        last.width = width.saturating_sub(taken + 3).max(last.width);
    }
    columns
}

fn line(state: &State, row: &Row, times: &str, columns: &[Column]) -> Line<'static> {
    let cells: Vec<&str> = row.cells().collect();
    let is_marked = state.marks.of(Subject::Transaction(row.number)).is_some();
    let (sign, of_sign) = match row.mark {
        None if is_marked => ("*", yellow(state)),
        Some(Verdict::Certain) => ("!", red(state)),
        Some(Verdict::Inconclusive) => ("?", yellow(state)),
        None => (" ", Style::new()),
    };
    // At the shown moment it has ended, is open, or has not begun.
    let moment = state.moment.record;
    let (base, now) = match (row.ended <= moment, row.first <= moment) {
        (true, _) => (Style::new(), " "),
        (false, true) => (Style::new().bold(), if state.look.unicode { "◌" } else { "~" }),
        (false, false) => (dim(), " "),
    };
    let mut spans = vec![Span::styled(sign, of_sign), Span::styled(now, base)];
    for (index, column) in columns.iter().enumerate() {
        let style = match (column.heading, row.tint()) {
            ("status", Tint::Red) => red(state),
            ("status", Tint::Yellow) => yellow(state),
            _ => base,
        };
        let cell = match column.heading {
            SECONDS => times,
            _ => cells.get(column.cell).copied().unwrap_or_default(),
        };
        let space = if index == 0 { "" } else { " " };
        spans
            .push(Span::styled(format!("{space}{}", fitted(state, cell, column.width, column.right)), style));
    }
    Line::from(spans)
}
