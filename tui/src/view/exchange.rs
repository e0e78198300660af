//! The exchange of a transaction: its ladder to scale in time, and its phases.

use super::{Pane, Selection, Target, Texts, screen};
use crate::analysis::{Exchanged, PacketSet};
use crate::state::State;
use core::ops::Range;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use rdmascope_analysis::events::SessionEvent;
use rdmascope_conformance::Finding;
use rdmascope_present::screen::transaction::TransactionPage;
use rdmascope_present::screen::{self as written, ladder};

pub(super) struct Exchange;

impl Pane for Exchange {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        super::title(state, frame, area, &words(state), !state.in_detail);
        if state.exchange.is_none() {
            return super::nothing(
                frame,
                area,
                "No transaction is selected: 3 lists them, Enter \
                opens one.",
            );
        }
        let chosen = state.cursor().at;
        let style = Style::new().reversed();
        let text: Text<'_> = lines(state, area.width)
            .into_iter()
            .map(|(rung, line)| if rung == Some(chosen) { line.patch_style(style) } else { line })
            .collect();
        super::scrolled(state, frame, area, text, state.cursor().top);
    }

    fn count(&self, state: &State) -> usize {
        lines(state, state.areas().main.width).len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        Texts::lines(lines(state, state.areas().main.width).iter().map(|(_, line)| line))
    }

    fn selection(&self, state: &State) -> Selection {
        let exchange = state.exchange.as_ref();
        let rung = exchange.and_then(|exchange| exchange.ladder.rungs.get(state.cursor().at));
        Selection {
            command: command(state, exchange.map(|exchange| exchange.transaction.number)),
            value: exchange.map(|exchange| exchange.transaction.xid.to_string()),
            record: rung.map(|rung| rung.last.frame),
            packets: packets(state),
            target: rung.map(|rung| Target::Frame(rung.first.frame)),
        }
    }
}

/// A line, and the rung that it belongs to.
pub(super) type OfRung = (Option<usize>, Line<'static>);

/// The title.
pub(super) fn words(state: &State) -> String {
    let number = state.exchange.as_ref().map(|exchange| exchange.transaction.number);
    match (number, state.chosen) {
        (Some(number), chosen) if chosen.is_none_or(|chosen| chosen == number) => {
            format!("Exchange of transaction {number}")
        }
        (_, Some(chosen)) => format!("Exchange of transaction {chosen}: loading"),
        (None, None) | (Some(_), None) => "Exchange".to_owned(),
    }
}

/// The command that shows a transaction, or the one that lists all if there is none.
pub(super) fn command(state: &State, number: Option<u64>) -> String {
    match number {
        Some(number) => format!("rdmascope show {} --transaction {number}", state.files),
        None => format!("rdmascope transactions {}", state.files),
    }
}

/// The packets of the selected transaction.
pub(super) fn packets(state: &State) -> PacketSet {
    let row = state.chosen.and_then(|number| state.session.place(number));
    let row = row.and_then(|place| state.session.rows.get(place));
    row.map_or(PacketSet::All, |row| PacketSet::Between(row.connection, row.first, row.last))
}

/// The lines of the view at this width.
pub(super) fn lines(state: &State, width: u16) -> Vec<OfRung> {
    let Some(exchange) = &state.exchange else { return Vec::new() };
    let screen = screen(state, width);
    let Exchanged { transaction, connection, ladder: rungs, findings, events, .. } = &**exchange;
    let by_frame = findings.by_frame();
    let mut lines: Vec<OfRung> = Vec::new();
    let mut put = |rung: Option<usize>, text: Text<'static>| {
        lines.extend(text.lines.into_iter().map(|line| (rung, line)));
    };
    let concerned: Vec<&Finding> = findings.kept().collect();
    let events: Vec<&SessionEvent> = events.iter().collect();
    let page = TransactionPage {
        transaction: transaction.into(),
        connection: connection.as_ref(),
        start: state.session.start,
        findings: Vec::new(),
        by_frame: &by_frame,
        events: Vec::new(),
    };
    // The title and the phases come first. Writing to memory cannot fail.
    let mut head = Vec::new();
    let _ = page.write_head(screen, &mut head);
    let end_of_title = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
    let (title, rest) = head.split_at(end_of_title);
    put(None, super::text(title));
    let mut before = Vec::new();
    let _ = ladder::phases(transaction, screen, &mut before);
    let _ = written::findings::section(&concerned, screen, &mut before);
    let _ = written::events::section(&events, state.session.start, screen, &mut before);
    put(None, super::text(&before));
    put(None, Text::raw("\n"));
    for piece in ladder::pieces(rungs, transaction, &by_frame, screen) {
        put(piece.rung, super::text(&piece.text));
    }
    put(None, Text::raw("\n"));
    put(None, super::text(rest));
    lines
}

/// The lines of a rung.
pub(crate) fn lines_of_rung(state: &State, rung: usize) -> Option<Range<usize>> {
    let lines = lines(state, state.areas().main.width);
    let first = lines.iter().position(|(of, _)| *of == Some(rung))?;
    let count = lines[first..].iter().take_while(|(of, _)| *of == Some(rung)).count();
    Some(first..first + count)
}

/// The rung that a line belongs to.
pub(crate) fn rung_at(state: &State, line: usize) -> Option<usize> {
    lines(state, state.areas().main.width).get(line)?.0
}
