//! The screen, drawn from the state alone. `VIEWS` lists the views; each implements [`Pane`] in
//! its own file.

mod bars;
mod bytes;
pub(crate) mod charts;
mod connections;
mod events;
mod exchange;
mod findings;
mod inject;
mod lit;
mod marks;
mod over;
mod overview;
mod packets;
mod pane;
mod plot;
mod report;
mod states;
mod transactions;

pub(crate) use bars::{tab_at, time_at};
pub(crate) use bytes::field_of_chosen;
pub use bytes::{Chosen, parts};
pub(crate) use exchange::{lines_of_rung, rung_at};
pub(crate) use inject::line_of_sent;
pub use over::choices;
pub(crate) use over::help_end;
pub(crate) use overview::{adjacent_tile, entry_at};
pub use pane::{Pane, Selection, Target, Texts};

pub use crate::complete::Choice;
use crate::layout::{Areas, Form, areas};
use crate::show::Show;
use crate::state::State;
use crate::theme;
use ansi_to_tui::IntoText;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Clear, Paragraph, Wrap};
use rdmascope_analysis::units::{Number, Plain};
use rdmascope_conformance::{Level, Verdict};
use rdmascope_present::screen::Screen;
use rdmascope_present::text;

/// A row of the list of views.
pub struct View {
    /// The view.
    pub show: Show,
    /// The names on a wide and on a narrow screen.
    pub names: [&'static str; 2],
    /// The division of the screen.
    pub form: Form,
    /// The implementation.
    pub pane: &'static dyn Pane,
}

const fn view(show: Show, names: [&'static str; 2], form: Form, pane: &'static dyn Pane) -> View {
    View { show, names, form, pane }
}

/// The views in the order of their numbers.
pub(crate) static VIEWS: [View; Show::COUNT] = [
    view(Show::Overview, ["Overview", "Over"], Form::List(u16::MAX), &overview::Glance),
    view(Show::Connections, ["Connections", "Conn"], Form::List(14), &connections::Connections),
    view(Show::Transactions, ["Transactions", "Trans"], Form::List(30), &transactions::Transactions),
    view(Show::Exchange, ["Exchange", "Exch"], Form::Text, &exchange::Exchange),
    view(Show::Bytes, ["Bytes", "Bytes"], Form::Tree, &bytes::Bytes),
    view(Show::Events, ["Events", "Events"], Form::List(14), &events::Events),
    view(Show::Findings, ["Findings", "Find"], Form::List(14), &findings::Findings),
    view(Show::Charts, ["Charts", "Chart"], Form::Text, &charts::Charts),
    view(Show::Inject, ["Inject", "Inject"], Form::List(14), &inject::Injection),
    view(Show::Report, ["Report", "Report"], Form::Text, &report::Report),
    view(Show::Packets, ["Packets", "Pkts"], Form::List(14), &packets::Packets),
    view(Show::State, ["State", "State"], Form::List(14), &states::States),
    view(Show::Marks, ["Marks", "Marks"], Form::List(u16::MAX), &marks::Marks),
];

impl State {
    /// The row of the view on the screen.
    pub fn view(&self) -> &'static View {
        &VIEWS[self.show as usize]
    }

    /// The view on the screen.
    pub fn pane(&self) -> &'static dyn Pane {
        self.view().pane
    }

    /// The areas of the screen.
    pub fn areas(&self) -> Areas {
        areas(self.size, self.view().form, self.split)
    }

    /// Whether the cursor chooses lines of the view.
    pub fn is_list(&self) -> bool {
        self.view().form != Form::Text
    }

    /// The number of lines of the other pane.
    pub(crate) fn detail_count(&self) -> usize {
        self.areas().detail.map_or(0, |area| self.pane().detail_count(self, area.width))
    }
}

/// Draws the screen.
pub fn render(state: &State, frame: &mut Frame<'_>) {
    let areas = state.areas();
    bars::title(state, frame, areas.title);
    bars::tabs(state, frame, areas.tabs);
    state.pane().render(state, frame, areas.main);
    if let Some(area) = areas.detail {
        state.pane().render_detail(state, frame, area);
    }
    lit::render(state, frame, areas.main);
    if let Some(area) = areas.detail {
        lit::render(state, frame, area);
    }
    bars::moment(state, frame, areas.moment);
    bars::hints(state, frame, areas.hints);
    over::render(state, frame);
    theme::paint(state.look, frame.buffer_mut());
}

/// The term that the user is likely to want explained.
pub fn term(state: &State) -> Option<String> {
    let chosen = field_of_chosen(state)?;
    let known = rdmascope_present::glossary::find(&chosen.name)?;
    Some(known.term.to_owned())
}

/// The target of written text, with this width.
pub(crate) fn screen(state: &State, width: u16) -> Screen {
    let width = usize::from(width).max(40);
    let style = text::Style::new(state.look.colour).with_width(Some(width));
    Screen { width, unicode: state.look.unicode, style }
}

/// Converts text with colour escape sequences to spans.
pub(crate) fn text(written: &[u8]) -> Text<'static> {
    written.into_text().unwrap_or_else(|_| Text::raw(String::from_utf8_lossy(written).into_owned()))
}

/// A dash that the terminal can show.
pub(crate) fn dash(state: &State) -> &'static str {
    if state.look.unicode { "─" } else { "-" }
}

/// Draws the title line of a pane.
pub(crate) fn title(state: &State, frame: &mut Frame<'_>, area: Rect, words: &str, is_active: bool) {
    let style = if is_active { Style::new().bold() } else { Style::new() };
    let dash = dash(state);
    let rest = usize::from(area.width).saturating_sub(words.chars().count() + 4);
    let line = format!("{dash} {words} {}", dash.repeat(rest + 1));
    let area = Rect { height: 1.min(area.height), ..area };
    frame.render_widget(Paragraph::new(Span::styled(line, style)), area);
}

/// Draws a list below its title: the headings and the visible lines, one of them selected. An empty
/// list has a line with the reason.
pub(crate) fn list<'a>(
    state: &State,
    frame: &mut Frame<'_>,
    area: Rect,
    headings: Option<String>,
    (count, why): (usize, &str),
    line: impl Fn(usize) -> Line<'a>,
) {
    let cursor = state.cursor();
    let mut y = area.y + 1;
    let end = area.y + area.height;
    if let Some(headings) = headings
        && y < end
    {
        frame.render_widget(Paragraph::new(Span::styled(headings, dim())), Rect { y, height: 1, ..area });
        y += 1;
    }
    let seen = usize::from(end.saturating_sub(y));
    for index in (cursor.top..count).take(seen) {
        let mut line = line(index);
        if index == cursor.at {
            let chosen = if state.in_detail { Modifier::UNDERLINED } else { Modifier::REVERSED };
            let missing = usize::from(area.width).saturating_sub(line.width());
            line.spans.push(Span::raw(" ".repeat(missing)));
            line = line.style(Style::new().add_modifier(chosen));
        }
        frame.render_widget(Paragraph::new(line), Rect { y, height: 1, ..area });
        y += 1;
    }
    let hidden = (cursor.top.min(count), count.saturating_sub(cursor.top + seen));
    scroll_mark(state, frame.buffer_mut(), area, hidden);
    if count == 0 {
        nothing(frame, area, why);
    }
}

/// Marks the number of hidden entries or lines above and below, at the right end of the first line
/// of `area`.
pub(crate) fn scroll_mark(state: &State, buffer: &mut Buffer, area: Rect, hidden: (usize, usize)) {
    let mark = scroll_words(state, hidden);
    let width = mark.chars().count() as u16;
    let area = area.intersection(buffer.area);
    if area.height > 0 && width < area.width {
        buffer.set_string(area.right() - width, area.y, mark, Style::new().bold());
    }
}

/// The numbers of hidden entries or lines above and below; empty if there are none.
pub(crate) fn scroll_words(state: &State, hidden: (usize, usize)) -> String {
    let [up, down] = if state.look.unicode { ["▲", "▼"] } else { ["^", "v"] };
    let number = |count: usize| Number(count as u64);
    match hidden {
        (0, 0) => String::new(),
        (above, 0) => format!(" {up}{} ", number(above)),
        (0, below) => format!(" {down}{} ", number(below)),
        (above, below) => format!(" {up}{} {down}{} ", number(above), number(below)),
    }
}

/// Draws a text below its title, starting with line `top`.
pub(crate) fn scrolled(state: &State, frame: &mut Frame<'_>, area: Rect, text: Text<'_>, top: usize) {
    let seen = usize::from(area.height.saturating_sub(1));
    let hidden = (top.min(text.lines.len()), text.lines.len().saturating_sub(top + seen));
    scroll_mark(state, frame.buffer_mut(), area, hidden);
    let below = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
    let seen: Vec<Line<'_>> = text.lines.into_iter().skip(top).take(usize::from(below.height)).collect();
    frame.render_widget(Paragraph::new(seen), below);
}

/// Clears and returns a box in the middle of the screen.
pub(crate) fn middle(frame: &mut Frame<'_>, width: u16, height: u16) -> Rect {
    let area = frame.area();
    let (width, height) = (width.min(area.width), height.min(area.height));
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let place = Rect { x, y, width, height };
    frame.render_widget(Clear, place);
    place
}

/// The colour of a finding; none if colours are off. A sign is shown in any case.
pub(crate) fn colour_of(state: &State, level: Level, verdict: Verdict) -> Style {
    match (state.look.colour, verdict, level) {
        (true, Verdict::Certain, Level::Violation) => Style::new().fg(Color::Red),
        (true, Verdict::Certain, Level::Warning) => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}

/// The style of failures.
pub(crate) fn red(state: &State) -> Style {
    if state.look.colour { Style::new().fg(Color::Red) } else { Style::new().bold() }
}

/// The style of entries that deserve attention.
pub(crate) fn yellow(state: &State) -> Style {
    if state.look.colour { Style::new().fg(Color::Yellow) } else { Style::new() }
}

/// The style of entries that are less important, or that have not begun.
pub(crate) fn dim() -> Style {
    Style::new().dim()
}

/// `text` in exactly `width` columns; longer text ends with an ellipsis.
pub(crate) fn fitted(state: &State, text: &str, width: usize, right: bool) -> String {
    let plain = Plain(text).to_string();
    let length = unicode_width::UnicodeWidthStr::width(&*plain);
    if length <= width {
        let space = " ".repeat(width - length);
        return if right { space + &plain } else { plain + &space };
    }
    let end = if state.look.unicode { "…" } else { "~" };
    let mut cut = String::new();
    let mut taken = 0;
    for character in plain.chars() {
        let columns = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if taken + columns + 1 > width {
            break;
        }
        taken += columns;
        cut.push(character);
    }
    if width > 0 {
        cut.push_str(end);
        taken += 1;
    }
    cut + &" ".repeat(width.saturating_sub(taken))
}

/// Shows that a pane is empty, and the reason.
pub(crate) fn nothing(frame: &mut Frame<'_>, area: Rect, why: &str) {
    let below = Rect { y: area.y + 2.min(area.height), height: area.height.saturating_sub(2), ..area };
    frame.render_widget(Paragraph::new(format!("  {why}")).wrap(Wrap { trim: false }), below);
}
