//! Boxes over a view: the keys, a list of choices, a word that is explained.

use super::dim;
use crate::complete::{self, Choice};
use crate::keys::{Group, KEYS};
use crate::state::{Over, Prompt, Purpose, State};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use rdmascope_present::glossary;
use rdmascope_present::screen::wrapped;

/// The most choices that are seen at once.
const MOST: usize = 12;

/// The choices for the text typed so far.
pub fn choices(state: &State, prompt: &Prompt) -> Vec<Choice> {
    let text = prompt.text.to_lowercase();
    match prompt.purpose {
        Purpose::Search
        | Purpose::Jump
        | Purpose::Save
        | Purpose::Export
        | Purpose::Note(_)
        | Purpose::Notes => Vec::new(),
        Purpose::Filter => complete::transactions(&prompt.text, &state.session.known),
        Purpose::PacketFilter => complete::packets(&prompt.text, &state.session.known),
        Purpose::Palette => KEYS
            .iter()
            .filter(|binding| {
                let words = binding.help.to_lowercase();
                text.split_whitespace().all(|part| words.contains(part))
            })
            .map(|binding| Choice {
                action: Some(binding.action),
                ..Choice::new(binding.keys[0], binding.help)
            })
            .collect(),
        Purpose::Glossary => {
            let mut found: Vec<_> =
                glossary::entries().filter(|entry| entry.term.to_lowercase().contains(&text)).collect();
            // Terms that begin with the text come before those that contain it.
            found.sort_by_key(|entry| !entry.term.to_lowercase().starts_with(&text));
            let first = |text: &str| text.split(". ").next().unwrap_or_default().replace('\n', " ");
            found.into_iter().map(|entry| Choice::new(entry.term, first(entry.text))).collect()
        }
    }
}

/// Draws the boxes over the view.
pub(super) fn render(state: &State, frame: &mut Frame<'_>) {
    match state.over {
        Some(Over::Help(top)) => help(state, frame, top),
        Some(Over::Captures(at)) => captures(state, frame, at),
        None => {}
    }
    if let Some(entry) = state.term.and_then(glossary::find) {
        let width: u16 = 76;
        let text = entry.text.replace("\n\n", "\u{1f}").replace('\n', " ").replace('\u{1f}', "\n\n");
        let room = usize::from(width.min(frame.area().width)).saturating_sub(2).max(8);
        let lines: Vec<Line<'_>> = text.lines().flat_map(|line| wrapped(line, room)).map(Line::raw).collect();
        let place = super::middle(frame, width, lines.len() as u16 + 2);
        let hidden = (0, lines.len().saturating_sub(usize::from(place.height.saturating_sub(2))));
        frame.render_widget(Paragraph::new(lines).block(boxed_part(state, entry.term, hidden)), place);
    }
    if let Some(prompt) = &state.prompt {
        below(state, prompt, frame);
    }
}

/// A box whose lower border marks the hidden lines.
fn boxed_part<'a>(state: &State, title: &'a str, hidden: (usize, usize)) -> Block<'a> {
    boxed(state, title).title_bottom(Line::raw(super::scroll_words(state, hidden)).right_aligned())
}

fn boxed<'a>(state: &State, title: &'a str) -> Block<'a> {
    let title = Span::styled(format!(" {title} "), Style::new().bold());
    let border = if state.look.unicode {
        ratatui::symbols::border::PLAIN
    } else {
        ratatui::symbols::border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        }
    };
    Block::bordered().border_set(border).title(title)
}

/// Draws the choices, above the line that is typed.
fn below(state: &State, prompt: &Prompt, frame: &mut Frame<'_>) {
    let choices = choices(state, prompt);
    if choices.is_empty() {
        return;
    }
    let area = frame.area();
    let seen = MOST.min(usize::from(area.height.saturating_sub(3))).min(choices.len());
    let first = prompt.at.saturating_sub(seen.saturating_sub(1)).min(choices.len() - seen);
    let height = (seen as u16 + 2).min(area.height.saturating_sub(1));
    let place =
        Rect { x: area.x, y: area.bottom().saturating_sub(height + 1), width: area.width.min(90), height };
    frame.render_widget(ratatui::widgets::Clear, place);
    let width = choices.iter().map(|choice| choice.word.len()).max().unwrap_or(0);
    let lines = choices.iter().enumerate().skip(first).take(seen).map(|(index, choice)| {
        let style = if index == prompt.at { Style::new().reversed() } else { Style::new() };
        Line::from(vec![
            Span::styled(format!("{:width$}", choice.word), style.bold()),
            Span::styled(format!("  {}", choice.help), style),
        ])
    });
    let title = match prompt.purpose {
        Purpose::Palette => "Actions: Enter runs one",
        Purpose::Filter | Purpose::PacketFilter => "Filters: Tab completes, Up shows earlier ones",
        Purpose::Glossary => "Words: Enter explains one",
        Purpose::Search
        | Purpose::Jump
        | Purpose::Save
        | Purpose::Export
        | Purpose::Note(_)
        | Purpose::Notes => "",
    };
    let hidden = (first, choices.len() - first - seen);
    frame.render_widget(
        Paragraph::new(lines.collect::<Vec<_>>()).block(boxed_part(state, title, hidden)),
        place,
    );
}

/// Draws the list of captures to open.
fn captures(state: &State, frame: &mut Frame<'_>, at: usize) {
    let height = (state.captures.len() as u16 + 2).min(frame.area().height.saturating_sub(4));
    let place = super::middle(frame, 76, height);
    let seen = usize::from(height.saturating_sub(2)).max(1);
    let first = at.saturating_sub(seen - 1);
    let lines = state.captures.iter().enumerate().skip(first).take(seen).map(|(index, name)| {
        let style = if index == at { Style::new().reversed() } else { Style::new() };
        Line::from(Span::styled(super::fitted(state, name, 74, false), style))
    });
    let hidden = (first, state.captures.len().saturating_sub(first + seen));
    let block = boxed_part(state, "Captures and interfaces: Enter opens one, q quits", hidden);
    let text = Paragraph::new(lines.collect::<Vec<_>>()).block(block);
    frame.render_widget(text, place);
}

/// The number of lines by which the help scrolls at most, on a screen of this height.
pub(crate) fn help_end(height: u16) -> usize {
    help_lines().len().saturating_sub(usize::from(height.saturating_sub(4)))
}

fn help_lines() -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for group in Group::ALL {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(Span::styled(group.title(), Style::new().bold())));
        for binding in KEYS.iter().filter(|binding| binding.group == group) {
            lines.push(Line::from(vec![
                Span::raw(format!("  {:18}", binding.keys.join(", "))),
                Span::raw(binding.help),
            ]));
        }
    }
    lines.push(Line::default());
    lines.push(Line::from(Span::styled(
        "The mouse selects, opens and scrolls, drags the split, and sets the moment.",
        dim(),
    )));
    lines
}

fn help(state: &State, frame: &mut Frame<'_>, top: usize) {
    let lines = help_lines();
    let height = (lines.len() as u16 + 2).min(frame.area().height.saturating_sub(2));
    let place = super::middle(frame, 92, height);
    let room = usize::from(height.saturating_sub(2));
    let top = top.min(help_end(frame.area().height));
    let hidden = (top, lines.len().saturating_sub(top + room));
    let seen: Vec<Line<'_>> = lines.into_iter().skip(top).collect();
    frame.render_widget(Paragraph::new(seen).block(boxed_part(state, "Keys", hidden)), place);
}
