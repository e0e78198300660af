//! What is drawn: one function for each view, all of them of the state alone.

mod bars;
mod bytes;
pub(crate) mod charts;
mod connections;
mod events;
mod exchange;
mod findings;
mod inject;
mod over;
mod report;
mod transactions;

pub use bars::{tab_at, time_at};
pub use bytes::{Chosen, field_of_chosen, frames_of_field, parts};
pub use exchange::{lines_of_rung, rung_at};
pub use over::{Choice, choices};

use crate::analysis::What;
use crate::inject::Plan;
use crate::show::Show;
use crate::state::{BytesOf, Cursor, State};
use ansi_to_tui::IntoText;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Clear, Paragraph};
use rdmascope_analysis::units::Plain;
use rdmascope_conformance::{Level, Verdict};
use rdmascope_present::screen::Screen;
use rdmascope_present::text;

/// Draws the screen.
pub fn render(state: &State, frame: &mut Frame<'_>) {
    let areas = state.areas();
    bars::title(state, frame, areas.title);
    bars::tabs(state, frame, areas.tabs);
    match state.show {
        Show::Report => report::render(state, frame, areas.main),
        Show::Connections => connections::render(state, frame, &areas),
        Show::Transactions => transactions::render(state, frame, &areas),
        Show::Exchange => exchange::render(state, frame, areas.main),
        Show::Bytes => bytes::render(state, frame, &areas),
        Show::Events => events::render(state, frame, &areas),
        Show::Findings => findings::render(state, frame, &areas),
        Show::Charts => charts::render(state, frame, areas.main),
        Show::Inject => inject::render(state, frame, &areas),
    }
    bars::moment(state, frame, areas.moment);
    bars::hints(state, frame, areas.hints);
    over::render(state, frame);
}

/// Whether something is chosen in the view, line by line.
pub const fn is_list(show: Show) -> bool {
    matches!(
        show,
        Show::Connections | Show::Transactions | Show::Bytes | Show::Events | Show::Findings | Show::Inject
    )
}

/// How much is in the list of the view, or how many lines its text has.
pub fn count(state: &State) -> usize {
    match state.show {
        Show::Report => report::text(state).lines.len(),
        Show::Connections => state.moment.connections.len(),
        Show::Transactions => state.order.len(),
        Show::Exchange => exchange::lines(state, state.areas().main.width).len(),
        Show::Bytes => bytes::fields(state).len(),
        Show::Events => state.session.events.len(),
        Show::Findings => state.session.findings.len(),
        Show::Charts => state.figures.as_ref().map_or(1, |figures| figures.names.len()),
        Show::Inject => state.inject.offers.len(),
    }
}

/// How many lines the other pane has.
pub fn detail_count(state: &State) -> usize {
    let Some(area) = state.areas().detail else { return 0 };
    match state.show {
        Show::Connections => connections::detail(state, area.width).lines.len(),
        Show::Transactions => exchange::lines(state, area.width).len(),
        Show::Bytes => bytes::rows(state).len(),
        Show::Events => events::detail(state, area.width).lines.len(),
        Show::Findings => findings::detail(state, area.width).lines.len(),
        Show::Inject => inject::detail_count(state, area.width),
        Show::Report | Show::Exchange | Show::Charts => 0,
    }
}

/// The record at which what is chosen was, or came to light.
pub fn record_of_chosen(state: &State) -> Option<u64> {
    let at = state.cursor().at;
    match state.show {
        Show::Transactions => state.row().map(|row| row.ended),
        Show::Exchange => Some(state.exchange.as_ref()?.ladder.rungs.get(at)?.last.frame),
        Show::Bytes => Some(state.frame.as_ref().filter(|_| state.bytes_of == BytesOf::Frame)?.number),
        Show::Events => state.session.events.get(at)?.frames[0],
        Show::Findings => Some(state.session.findings.get(at)?.record),
        Show::Report | Show::Connections | Show::Charts | Show::Inject => None,
    }
}

/// The command that shows the same.
pub fn command(state: &State) -> String {
    let files = &state.files;
    let at = state.cursor().at;
    match state.show {
        Show::Report => match state.beside.as_ref().filter(|beside| beside.is_shown) {
            Some(beside) if beside.has_all => format!("rdmascope diff {files} {} --all", beside.name),
            Some(beside) => format!("rdmascope diff {files} {}", beside.name),
            None => format!("rdmascope analyze {files}"),
        },
        Show::Connections => format!("rdmascope connections {files}"),
        Show::Transactions => match state.row() {
            Some(row) => format!("rdmascope show {files} --transaction {}", row.number),
            None => format!("rdmascope transactions {files}"),
        },
        Show::Exchange => match &state.exchange {
            Some(exchange) => format!("rdmascope show {files} --transaction {}", exchange.transaction.number),
            None => format!("rdmascope transactions {files}"),
        },
        Show::Bytes => match (&state.frame, &state.exchange, state.bytes_of) {
            (Some(frame), _, BytesOf::Frame) => format!("rdmascope show {files} --frame {}", frame.number),
            (_, Some(exchange), _) => {
                format!("rdmascope show {files} --transaction {} --full", exchange.transaction.number)
            }
            _ => format!("rdmascope packets {files}"),
        },
        Show::Events => format!("rdmascope events {files}"),
        Show::Findings => match state.session.findings.get(at).and_then(|found| found.finding.rule) {
            Some(rule) => format!("rdmascope check {files} --rule {}", rule.id),
            None => format!("rdmascope check {files}"),
        },
        Show::Charts => format!("rdmascope analyze {files}"),
        Show::Inject => {
            let target = &state.inject.target;
            match state.inject.offers.get(at) {
                Some(offer) if offer.is_session => {
                    let Plan { starting_at, fault } = &state.inject.plan;
                    let starting_at = starting_at.map(|number| format!(" --starting-at {number}"));
                    let fault = fault.map(|(name, number)| format!(" --fault {name}@{number}"));
                    let (starting_at, fault) = (starting_at.unwrap_or_default(), fault.unwrap_or_default());
                    format!(
                        "rdmascope peer replay {files} --to {target} --leave-out --all{starting_at}{fault}"
                    )
                }
                Some(offer) => format!("rdmascope peer inject --to {target} {}", offer.name),
                None => format!("rdmascope peer inject --to {target} --list"),
            }
        }
    }
}

/// The packets that belong to what is chosen.
pub fn to_save(state: &State) -> What {
    match state.show {
        Show::Connections => match state.moment.connections.get(state.cursor().at) {
            Some(now) => What::Connection(now.connection.id),
            None => What::All,
        },
        Show::Transactions | Show::Exchange | Show::Bytes => {
            let row = state.chosen.and_then(|number| state.session.place(number));
            let row = row.and_then(|place| state.session.rows.get(place));
            row.map_or(What::All, |row| What::Between(row.connection, row.first, row.last))
        }
        _ => What::All,
    }
}

/// The value that is chosen.
pub fn value(state: &State) -> Option<String> {
    match state.show {
        Show::Transactions => state.row().map(|row| row.xid.to_string()),
        Show::Exchange => state.exchange.as_ref().map(|one| one.transaction.xid.to_string()),
        Show::Bytes => field_of_chosen(state).map(|chosen| chosen.value),
        Show::Events => state.session.events.get(state.cursor().at).map(|event| event.text.clone()),
        Show::Findings => {
            state.session.findings.get(state.cursor().at).map(|found| found.finding.message.clone())
        }
        Show::Connections => {
            let now = state.moment.connections.get(state.cursor().at)?;
            Some(now.connection.id.0.to_string())
        }
        Show::Inject => state.inject.offers.get(state.cursor().at).map(|offer| offer.name.clone()),
        Show::Report | Show::Charts => None,
    }
}

/// The word for which a person is likely to want an explanation.
pub fn term(state: &State) -> Option<String> {
    let chosen = field_of_chosen(state)?;
    let known = rdmascope_present::glossary::find(&chosen.name)?;
    Some(known.term.to_owned())
}

/// What text is written for, so wide.
pub(crate) fn screen(state: &State, width: u16) -> Screen {
    let width = usize::from(width).max(40);
    let style = text::Style::new(state.look.colour).with_width(Some(width));
    Screen { width, unicode: state.look.unicode, style }
}

/// Text with escape sequences of colours, as spans.
pub(crate) fn text(written: &[u8]) -> Text<'static> {
    written.into_text().unwrap_or_else(|_| Text::raw(String::from_utf8_lossy(written).into_owned()))
}

/// Its dashes, where the terminal shows them.
pub(crate) fn dash(state: &State) -> &'static str {
    if state.look.unicode { "─" } else { "-" }
}

/// The line above a pane.
pub(crate) fn title(state: &State, frame: &mut Frame<'_>, area: Rect, words: &str, is_active: bool) {
    let style = if is_active { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    let dash = dash(state);
    let rest = usize::from(area.width).saturating_sub(words.chars().count() + 4);
    let line = format!("{dash} {words} {}", dash.repeat(rest + 1));
    frame.render_widget(
        Paragraph::new(Span::styled(line, style)),
        Rect { height: 1.min(area.height), ..area },
    );
}

/// A list: a title, the headings, and the lines that are seen, of which one is chosen.
pub(crate) fn list<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    headings: Option<String>,
    (cursor, count): (Cursor, usize),
    is_active: bool,
    line: impl Fn(usize) -> Line<'a>,
) {
    let mut y = area.y + 1;
    let end = area.y + area.height;
    if let Some(headings) = headings
        && y < end
    {
        let style = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Paragraph::new(Span::styled(headings, style)), Rect { y, height: 1, ..area });
        y += 1;
    }
    for index in (cursor.top..count).take(usize::from(end.saturating_sub(y))) {
        let mut line = line(index);
        if index == cursor.at {
            let chosen = if is_active { Modifier::REVERSED } else { Modifier::UNDERLINED };
            let missing = usize::from(area.width).saturating_sub(line.width());
            line.spans.push(Span::raw(" ".repeat(missing)));
            line = line.style(Style::new().add_modifier(chosen));
        }
        frame.render_widget(Paragraph::new(line), Rect { y, height: 1, ..area });
        y += 1;
    }
}

/// A text below its title, from a line on.
pub(crate) fn scrolled(frame: &mut Frame<'_>, area: Rect, text: Text<'_>, top: usize) {
    let below = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
    let seen: Vec<Line<'_>> = text.lines.into_iter().skip(top).take(usize::from(below.height)).collect();
    frame.render_widget(Paragraph::new(seen), below);
}

/// A box in the middle, over what is there.
pub(crate) fn middle(frame: &mut Frame<'_>, width: u16, height: u16) -> Rect {
    let area = frame.area();
    let (width, height) = (width.min(area.width), height.min(area.height));
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let place = Rect { x, y, width, height };
    frame.render_widget(Clear, place);
    place
}

/// The colour of a finding: none where there are no colours; a sign stands beside it.
pub(crate) fn colour_of(state: &State, level: Level, verdict: Verdict) -> Style {
    match (state.look.colour, verdict, level) {
        (true, Verdict::Stands, Level::Violation) => Style::new().fg(Color::Red),
        (true, Verdict::Stands, Level::Warning) => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}

/// What failed.
pub(crate) fn red(state: &State) -> Style {
    if state.look.colour { Style::new().fg(Color::Red) } else { Style::new().add_modifier(Modifier::BOLD) }
}

/// What deserves a look.
pub(crate) fn yellow(state: &State) -> Style {
    if state.look.colour { Style::new().fg(Color::Yellow) } else { Style::new() }
}

/// What is less important, or not yet.
pub(crate) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// `text` in exactly `width` columns; what is longer ends with an ellipsis.
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

/// Says that there is nothing, and why.
pub(crate) fn nothing(frame: &mut Frame<'_>, area: Rect, why: &str) {
    let below = Rect { y: area.y + 2.min(area.height), height: area.height.saturating_sub(2), ..area };
    frame.render_widget(
        Paragraph::new(format!("  {why}")).wrap(ratatui::widgets::Wrap { trim: false }),
        below,
    );
}
