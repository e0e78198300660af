//! The session that is sent to a live server: for each call, the recorded and the live result.

use super::{paragraph, room};
use crate::inject::{Difference, Entry, SentCall, SentLine};
use crate::state::State;
use crate::view::{dim, fitted, red, scroll_mark, scrolled, yellow};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rdmascope_analysis::units::Duration;

/// Columns of the number of a transaction, of the call or the differing field, and of the verdict.
const NUMBER: usize = 8;
const NAME: usize = 22;
const VERDICT: usize = 13;

/// The title: the progress, or the result.
pub(super) fn title(state: &State) -> String {
    let inject = &state.inject;
    let place = inject.entries.iter().position(|one| one.is_session).unwrap_or(0);
    if inject.is_running(place) {
        return format!("Session: {}", inject.progress());
    }
    match inject.ran.get(place) {
        Some(Some(Ok(_))) => {
            let more = if inject.differing().next().is_some() { "   n, N: differences" } else { "" };
            format!("Session: {}{more}", inject.outcome())
        }
        _ => "Session: recorded and live".to_owned(),
    }
}

/// The line of a result of the session, by its index.
pub(crate) fn line_of_sent(state: &State, index: usize) -> usize {
    let Some(entry) = state.inject.entries.iter().find(|entry| entry.is_session) else { return index };
    let width = state.areas().detail.map_or(80, |area| area.width);
    around(state, width, entry).0.len() + index
}

/// Whether a result is lit: the selected call, and the differences below it.
fn is_lit(state: &State, index: usize) -> bool {
    let Some(lit) = state.inject.lit.filter(|lit| *lit <= index) else { return false };
    let below = state.inject.sent.get(lit + 1..=index).unwrap_or_default();
    below.iter().all(|line| !matches!(line, SentLine::Call(_)))
}

/// Draws the visible lines.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, area: Rect, entry: &Entry) {
    let (before, after) = around(state, area.width, entry);
    let sent = &state.inject.sent;
    let seen = usize::from(area.height.saturating_sub(1));
    let top = state.detail().top;
    let line = |at: usize| match at.checked_sub(before.len()) {
        None => before[at].clone(),
        Some(at) if at < sent.len() && is_lit(state, at) => {
            one(state, &sent[at], area.width).patch_style(Style::new().reversed())
        }
        Some(at) if at < sent.len() => one(state, &sent[at], area.width),
        Some(at) => after[at - sent.len()].clone(),
    };
    let count = before.len() + sent.len() + after.len();
    let lines: Vec<Line<'static>> = (top..count.min(top + seen)).map(line).collect();
    scrolled(state, frame, area, lines.into(), 0);
    scroll_mark(state, frame.buffer_mut(), area, (top.min(count), count.saturating_sub(top + seen)));
}

/// All lines.
pub(super) fn all(state: &State, width: u16, entry: &Entry) -> Vec<Line<'static>> {
    let (before, after) = around(state, width, entry);
    let sent = state.inject.sent.iter().map(|line| one(state, line, width));
    before.into_iter().chain(sent).chain(after).collect()
}

/// The number of all lines.
pub(super) fn count(state: &State, width: u16, entry: &Entry) -> usize {
    let (before, after) = around(state, width, entry);
    before.len() + state.inject.sent.len() + after.len()
}

/// The lines before and after the calls.
fn around(state: &State, width: u16, entry: &Entry) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let inject = &state.inject;
    let place = inject.entries.iter().position(|one| one.is_session).unwrap_or(0);
    let room = room(width);
    let is_running = inject.is_running(place);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    if !is_running {
        let words = inject.words(&inject.plan);
        let text = format!(
            "Enter sends: {words}. On a call: i starts from there, or from the first call; e \
                selects the next fault for it, or none."
        );
        before.extend(paragraph(&text, room));
    }
    let ran = inject.ran.get(place).and_then(Option::as_ref);
    if is_running || ran.is_some() {
        let words = inject.words(&inject.sent_as);
        let text = match is_running {
            true => format!("Sending: {words}. Enter stops it."),
            false => format!("Sent: {words}."),
        };
        before.extend(paragraph(&text, room));
    }
    if !inject.sent.is_empty() {
        let value = value_width(width);
        let headings =
            format!("{:>NUMBER$} {:NAME$} {:VERDICT$} {:value$} now", "call", "", "replies", "recorded");
        let headings = fitted(state, &headings, usize::from(width), false);
        before.push(Line::styled(headings, Style::new().bold()));
        after.push(Line::default());
    }
    match ran {
        Some(Ok(ran)) => after.extend(paragraph(&ran.text, room)),
        Some(Err(error)) => after.extend(paragraph(error, room)),
        None if is_running => {}
        None => after.extend(paragraph(&entry.explanation, room)),
    }
    (before, after)
}

/// Columns of a recorded and of a live value.
fn value_width(width: u16) -> usize {
    usize::from(width).saturating_sub(NUMBER + NAME + VERDICT + 4) / 2
}

fn one(state: &State, line: &SentLine, width: u16) -> Line<'static> {
    let value = value_width(width);
    let number = |number: &str| fitted(state, number, NUMBER, true);
    match line {
        SentLine::Call(call) => {
            let style = if call.is_difference { red(state) } else { Style::new() };
            let transaction = call.transaction.map(|number| number.to_string()).unwrap_or_default();
            let live = call.latency.map(|latency| Duration(latency).to_string()).unwrap_or_default();
            Line::from(vec![
                Span::raw(format!("{} {} ", number(&transaction), fitted(state, &call.name, NAME, false))),
                Span::styled(fitted(state, call.verdict, VERDICT, false), style),
                Span::raw(format!(" {} {live}", fitted(state, &recorded(state, call), value, false))),
            ])
        }
        SentLine::Difference(Difference { field, recorded, live, is_allowed }) => {
            let (word, style) = match is_allowed {
                true => ("may differ", dim()),
                false => ("", yellow(state).bold()),
            };
            Line::from(vec![
                Span::raw(format!("{} {} ", number(""), fitted(state, field, NAME, false))),
                Span::styled(fitted(state, word, VERDICT, false), dim()),
                Span::styled(format!(" {} ", fitted(state, recorded, value, false)), style),
                Span::styled(fitted(state, live, value, false), style),
            ])
        }
        SentLine::Note(note) => {
            let note = fitted(state, note, usize::from(width).saturating_sub(NUMBER + 3), false);
            Line::styled(format!("{}   {note}", number("")), dim())
        }
    }
}

/// The recorded latency of a call.
fn recorded(state: &State, call: &SentCall) -> String {
    let row = call.transaction.and_then(|number| state.session.place(number));
    let row = row.and_then(|place| state.session.rows.get(place));
    row.and_then(|row| row.latency).map(|latency| Duration(latency).to_string()).unwrap_or_default()
}
