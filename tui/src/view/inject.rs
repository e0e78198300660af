//! Scenarios for a live peer: the list, and what came of the one that is chosen, with the packets that crossed.

mod session;

use super::{dim, fitted, red};
use crate::inject::{Arrow, Inject, Offer, Ran};
use crate::layout::Areas;
use crate::state::State;
use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::units::{Duration, Plain};
use rdmascope_present::screen::wrapped;

/// Columns of a name and of a verdict.
const NAME: usize = 30;
const VERDICT: usize = 16;

/// Draws them.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let inject = &state.inject;
    let Inject { target, offers, ran, queue, .. } = inject;
    if offers.is_empty() {
        super::title(state, frame, areas.main, "Injection", true);
        let why = "No target is named. `rdmascope tui --to ADDRESS` sends scenarios to a live server: what the specifications forbid or leave open.";
        return super::nothing(frame, areas.main, why);
    }
    let words = format!("Injection into {target}: {}", inject.counts());
    super::title(state, frame, areas.main, &words, !state.in_detail);
    let headings = format!(" {:VERDICT$} {:NAME$} {:16} what is done", "verdict", "scenario", "section");
    let width = usize::from(areas.main.width).saturating_sub(NAME + VERDICT + 20);
    let line = |index: usize| {
        let offer = &offers[index];
        let (verdict, style) = match &ran[index] {
            _ if inject.is_running(index) && inject.is_stopping => ("is being ended", dim()),
            _ if inject.is_running(index) => ("runs", Style::new().add_modifier(Modifier::BOLD)),
            _ if queue.contains(&index) => ("waits", dim()),
            Some(Ok(ran)) if ran.is_violation => (&*ran.verdict, red(state)),
            Some(Ok(ran)) => (&*ran.verdict, Style::new()),
            Some(Err(_)) => ("could not run", red(state)),
            None if offer.is_destructive => ("(destructive)", dim()),
            None => ("", Style::new()),
        };
        Line::from(vec![
            Span::styled(format!(" {} ", fitted(state, verdict, VERDICT, false)), style),
            Span::raw(fitted(state, &offer.name, NAME, false)),
            Span::raw(format!(" {} ", fitted(state, &offer.section, 16, false))),
            Span::raw(fitted(state, &offer.title, width, false)),
        ])
    };
    super::list(frame, areas.main, Some(headings), (state.cursor(), offers.len()), !state.in_detail, line);
    let Some(area) = areas.detail else { return };
    let chosen = offers.get(state.cursor().at);
    let words = match chosen {
        Some(Offer { is_session: true, .. }) => "The session: recorded, and now",
        _ => "The scenario, what came of it, and the packets that crossed",
    };
    super::title(state, frame, area, words, state.in_detail);
    match chosen {
        Some(offer) if offer.is_session => session::render(state, frame, area, offer),
        _ => super::scrolled(frame, area, detail(state, area.width), state.detail().top),
    }
}

/// Lines of what is said of the one that is chosen.
pub(super) fn detail_count(state: &State, width: u16) -> usize {
    match state.inject.offers.get(state.cursor().at) {
        Some(offer) if offer.is_session => session::count(state, width, offer),
        _ => detail(state, width).lines.len(),
    }
}

/// What came of the scenario that is chosen, its packets, and what it is.
fn detail(state: &State, width: u16) -> Text<'static> {
    let at = state.cursor().at;
    let Some(offer) = state.inject.offers.get(at) else { return Text::default() };
    let room = room(width);
    let draw = |arrows: &[Arrow]| -> Vec<Line<'static>> {
        arrows.iter().map(|arrow| drawn(state, arrow, room)).chain([Line::default()]).collect()
    };
    let mut lines = Vec::new();
    match &state.inject.ran[at] {
        _ if state.inject.is_running(at) => {
            lines.extend(paragraph("It runs; Enter ends it.", room));
            lines.extend(draw(&state.inject.crossed));
        }
        Some(Ok(Ran { told, arrows, .. })) => {
            lines.extend(paragraph(told, room));
            lines.extend(draw(arrows));
        }
        Some(Err(error)) => lines.extend(paragraph(error, room)),
        None => lines.extend(paragraph("Enter runs it, a runs all that are not destructive.", room)),
    }
    lines.extend(paragraph(&offer.explanation, room));
    Text::from(lines)
}

/// Columns that text has in a pane so wide.
fn room(width: u16) -> usize {
    usize::from(width).saturating_sub(4).max(20)
}

/// Text, wrapped and indented, and an empty line.
fn paragraph(text: &str, room: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let plain = Plain(line).to_string();
        let indent = plain.len() - plain.trim_start().len();
        let parts = wrapped(&plain, room);
        let indented = |(index, part): (usize, &str)| {
            if index == 0 { format!("  {part}") } else { format!("  {:indent$}    {part}", "") }
        };
        lines.extend(parts.into_iter().enumerate().map(indented).map(Line::raw));
    }
    lines.push(Line::default());
    lines
}

/// A packet as an arrow: this side at the left, the target at the right.
fn drawn(state: &State, arrow: &Arrow, room: usize) -> Line<'static> {
    let (to_right, to_left, dash) = if state.look.unicode { ("▶", "◀", "─") } else { (">", "<", "-") };
    let text = fitted(state, &arrow.text, room.saturating_sub(20), false);
    let text = text.trim_end();
    let rest = dash.repeat(room.saturating_sub(18 + text.chars().count()).max(2));
    let time = Duration(arrow.since).to_string();
    let line = match arrow.out {
        true => format!("  {time:>9}  {text} {rest}{to_right}"),
        false => format!("  {time:>9}  {to_left}{rest} {text}"),
    };
    Line::raw(line)
}
