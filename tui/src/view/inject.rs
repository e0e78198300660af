//! Scenarios for a live peer: the list, and the result and packets of the selected one.

mod session;

pub(crate) use session::line_of_sent;

use super::pane::plain;
use super::{Pane, Selection, Target, Texts, dim, fitted, red};
use crate::inject::{Arrow, Entry, Inject, Plan, Ran};
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rdmascope_analysis::units::{Duration, Plain, quoted};
use rdmascope_present::screen::wrapped;

/// Columns of a name and of a verdict.
const NAME: usize = 30;
const VERDICT: usize = 16;

pub(super) struct Injection;

impl Pane for Injection {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let inject = &state.inject;
        let Inject { target, entries, ran, queue, .. } = inject;
        if entries.is_empty() {
            super::title(state, frame, area, "Injection", true);
            let why = "No target is named. `rdmascope tui --to ADDRESS` sends scenarios to a live \
                server: messages that the specifications forbid or leave open.";
            return super::nothing(frame, area, why);
        }
        let words = format!("Injection into {target}: {}", inject.counts());
        super::title(state, frame, area, &words, !state.in_detail);
        let headings = format!(" {:VERDICT$} {:NAME$} {:16} description", "verdict", "scenario", "section");
        let width = usize::from(area.width).saturating_sub(NAME + VERDICT + 20);
        let line = |index: usize| {
            let entry = &entries[index];
            let (verdict, style) = match &ran[index] {
                _ if inject.is_running(index) && inject.is_stopping => ("stopping", dim()),
                _ if inject.is_running(index) => ("runs", Style::new().bold()),
                _ if queue.contains(&index) => ("waits", dim()),
                Some(Ok(ran)) if ran.is_violation => (&*ran.verdict, red(state)),
                Some(Ok(ran)) => (&*ran.verdict, Style::new()),
                Some(Err(_)) => ("could not run", red(state)),
                None if entry.is_destructive => ("(destructive)", dim()),
                None => ("", Style::new()),
            };
            Line::from(vec![
                Span::styled(format!(" {} ", fitted(state, verdict, VERDICT, false)), style),
                Span::raw(fitted(state, &entry.name, NAME, false)),
                Span::raw(format!(" {} ", fitted(state, &entry.section, 16, false))),
                Span::raw(fitted(state, &entry.title, width, false)),
            ])
        };
        super::list(state, frame, area, Some(headings), (entries.len(), ""), line);
    }

    fn count(&self, state: &State) -> usize {
        state.inject.entries.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let entries = &state.inject.entries;
        Texts::of(entries.len(), |index| format!("{} {}", entries[index].name, entries[index].title))
    }

    fn detail_texts(&self, state: &State, width: u16) -> Vec<String> {
        match chosen(state) {
            Some(entry) if entry.is_session => session::all(state, width, entry).iter().map(plain).collect(),
            Some(entry) => detail(state, width, entry).iter().map(plain).collect(),
            None => Vec::new(),
        }
    }

    fn detail_count(&self, state: &State, width: u16) -> usize {
        match chosen(state) {
            Some(entry) if entry.is_session => session::count(state, width, entry),
            Some(entry) => detail(state, width, entry).len(),
            None => 0,
        }
    }

    fn render_detail(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let Some(entry) = chosen(state) else { return };
        if entry.is_session {
            super::title(state, frame, area, &session::title(state), state.in_detail);
            return session::render(state, frame, area, entry);
        }
        let words = "Scenario: result, packets and description";
        super::title(state, frame, area, words, state.in_detail);
        super::scrolled(state, frame, area, detail(state, area.width, entry).into(), state.detail().top);
    }

    fn selection(&self, state: &State) -> Selection {
        let Inject { target, plan: Plan { starting_at, fault }, .. } = &state.inject;
        let entry = chosen(state);
        let command = match entry {
            Some(entry) if entry.is_session => {
                let start = starting_at.map_or(String::new(), |number| format!(" --starting-at {number}"));
                let fault = fault.map_or(String::new(), |(name, at)| format!(" --fault {name}@{at}"));
                let files = &state.files;
                let further = format!("{}{}", state.inject.arguments, state.inject.session_arguments);
                format!(
                    "rdmascope peer replay {files} --to {target} --leave-out --all{start}{fault}{further}"
                )
            }
            Some(entry) => {
                let allow = if entry.is_destructive { " --allow-destructive" } else { "" };
                let further = &state.inject.arguments;
                format!("rdmascope peer inject --to {target}{further}{allow} {}", quoted(&entry.name))
            }
            None => "rdmascope peer inject --list".to_owned(),
        };
        let value = entry.map(|entry| entry.name.clone());
        Selection { command, value, target: Some(Target::Scenario), ..Selection::default() }
    }
}

fn chosen(state: &State) -> Option<&Entry> {
    state.inject.entries.get(state.cursor().at)
}

/// The result of a scenario, its packets, and its description.
fn detail(state: &State, width: u16, entry: &Entry) -> Vec<Line<'static>> {
    let at = state.cursor().at;
    let room = room(width);
    let draw = |arrows: &[Arrow]| -> Vec<Line<'static>> {
        arrows.iter().map(|arrow| drawn(state, arrow, room)).chain([Line::default()]).collect()
    };
    let mut lines = Vec::new();
    match &state.inject.ran[at] {
        _ if state.inject.is_running(at) => {
            lines.extend(paragraph("Running; Enter stops it.", room));
            lines.extend(draw(&state.inject.crossed));
        }
        Some(Ok(Ran { text, arrows, .. })) => {
            lines.extend(paragraph(text, room));
            lines.extend(draw(arrows));
        }
        Some(Err(error)) => lines.extend(paragraph(error, room)),
        None => lines.extend(paragraph("Enter runs it; a runs all non-destructive scenarios.", room)),
    }
    lines.extend(paragraph(&entry.explanation, room));
    lines
}

/// Columns of text in a pane of this width.
fn room(width: u16) -> usize {
    usize::from(width).saturating_sub(4).max(20)
}

/// Text, wrapped and indented, and an empty line. The second and later lines of a long line have a
/// larger indentation.
fn paragraph(text: &str, room: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let plain = Plain(line).to_string();
        let indent = plain.len() - plain.trim_start().len();
        let is_long = plain.chars().count() > room;
        let parts = wrapped(&plain, if is_long { room.saturating_sub(indent + 4).max(8) } else { room });
        let indented = |(index, part): (usize, &str)| {
            if index == 0 { format!("  {part}") } else { format!("  {:indent$}    {part}", "") }
        };
        lines.extend(parts.into_iter().enumerate().map(indented).map(Line::raw));
    }
    lines.push(Line::default());
    lines
}

/// Draws a packet as an arrow, with this side at the left and the target at the right.
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
