//! Scenarios for a live peer: the list, and what came of the one that is chosen, with the packets that crossed.

use super::{dim, fitted, red};
use crate::inject::{Arrow, Inject, Ran};
use crate::layout::Areas;
use crate::state::State;
use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use rdmascope_present::screen::wrapped;
use rdmascope_present::text::{Duration, Plain};

/// Columns of a name and of a verdict.
const NAME: usize = 30;
const VERDICT: usize = 16;

/// Draws them.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let Inject { target, offers, ran, running, queue, .. } = &state.inject;
    if offers.is_empty() {
        super::title(state, frame, areas.main, "Injection", true);
        let why = "No target is named. `rdmascope tui --to ADDRESS` sends scenarios to a live server: what the specifications forbid or leave open.";
        return super::nothing(frame, areas.main, why);
    }
    let done = ran.iter().flatten().count();
    let bad = ran.iter().flatten().filter(|one| one.as_ref().is_ok_and(|ran| ran.is_violation)).count();
    let mut words = format!("Injection into {target}: {done} of {} run, {bad} violations", offers.len());
    if !queue.is_empty() {
        words += &format!(", {} to come", queue.len());
    }
    super::title(state, frame, areas.main, &words, !state.in_detail);
    let headings = format!(" {:VERDICT$} {:NAME$} {:16} what is done", "verdict", "scenario", "section");
    let width = usize::from(areas.main.width).saturating_sub(NAME + VERDICT + 20);
    let line = |index: usize| {
        let offer = &offers[index];
        let (verdict, style) = match &ran[index] {
            _ if *running == Some(index) => ("runs", Style::new().add_modifier(Modifier::BOLD)),
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
    if let Some(area) = areas.detail {
        super::title(
            state,
            frame,
            area,
            "The scenario, what came of it, and the packets that crossed",
            state.in_detail,
        );
        super::scrolled(frame, area, detail(state, area.width), state.detail().top);
    }
}

/// What came of the one that is chosen, its packets, and what it is.
pub(super) fn detail(state: &State, width: u16) -> Text<'static> {
    let at = state.cursor().at;
    let Some(offer) = state.inject.offers.get(at) else { return Text::default() };
    let room = usize::from(width).saturating_sub(4).max(20);
    let mut lines = Vec::new();
    let mut put = |text: &str| {
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
    };
    match &state.inject.ran[at] {
        Some(Ok(Ran { told, arrows, .. })) => {
            put(told);
            let drawn: Vec<Line<'static>> = arrows.iter().map(|arrow| drawn(state, arrow, room)).collect();
            lines.extend(drawn);
            lines.push(Line::default());
            let mut explained: Vec<Line<'static>> =
                offer.explanation.lines().map(|line| Line::raw(format!("  {line}"))).collect();
            lines.append(&mut explained);
        }
        Some(Err(error)) => {
            put(error);
            put(&offer.explanation);
        }
        None => {
            put("Enter runs it, a runs all that are not destructive.");
            put(&offer.explanation);
        }
    }
    Text::from(lines)
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
