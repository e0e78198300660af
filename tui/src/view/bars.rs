//! The lines around a view: the title, the views, the moment, the keys.

use super::{VIEWS, View, dim, fitted, red, yellow};
use crate::clock::wall;
use crate::keys::{Action, KEYS};
use crate::session::Progress;
use crate::show::Show;
use crate::state::{Purpose, SPEEDS, State};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use rdmascope_analysis::report::Harm;
use rdmascope_analysis::units::{Counted, Number, Seconds};
use rdmascope_dissector::record::Time;

/// Draws the title, the totals and the progress.
pub(super) fn title(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let session = &state.session;
    let mut spans =
        vec![Span::styled(" rdmascope ", Style::new().bold()), Span::raw(format!(" {}  ", session.title))];
    if session.progress == Progress::Nothing {
        return frame.render_widget(Paragraph::new(Line::from(spans)), area);
    }
    // The statements about harm are those of the overview and of every report.
    let mut harm = session.overview.harm().map(|statement| statement.harm);
    if let Some(worst) = harm.next() {
        let style = if worst < Harm::Loss { red(state) } else { yellow(state) };
        spans.push(Span::styled(format!("{}  ", Counted(1 + harm.count() as u64, "problem")), style));
    }
    // The overview has these counts too, if there is no room here.
    let counts = format!(
        "{}, {}  ",
        Counted(session.totals.connections.max(state.moment.connections.len() as u64), "connection"),
        Counted(session.rows.len() as u64 + session.further_rows, "transaction"),
    );
    /// Columns of the drops and of the progress.
    const PROGRESS: usize = 14;
    let taken: usize = spans.iter().map(Span::width).sum();
    if taken + counts.len() + PROGRESS <= usize::from(area.width) {
        spans.push(Span::raw(counts));
    }
    // Drops are shown if there are any, and always in a live capture, where they can occur.
    if session.dropped > 0 {
        spans.push(Span::styled(format!("{} dropped  ", Number(session.dropped)), red(state)));
    } else if state.is_live() {
        spans.push(Span::raw("0 dropped  "));
    }
    match &session.progress {
        Progress::Reading(_, 0) => spans.push(Span::styled("reading", dim())),
        Progress::Reading(read, size) => {
            let percent = (u128::from(*read) * 100 / u128::from(*size)).min(100);
            spans.push(Span::styled(format!("reading {percent} %"), dim()));
        }
        Progress::Live => spans.push(Span::styled("live", Style::new().bold())),
        Progress::Ended | Progress::Nothing => {}
        // The overview has the error.
        Progress::Failed(_) => spans.push(Span::styled("not read to its end", red(state))),
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The names of the views, each with its key and its first column. On a narrow screen they are
/// short, and if not all of them fit, they begin with a later one, so that the current one is shown.
fn names(state: &State) -> Vec<(Show, String, u16)> {
    let width = usize::from(state.size.0);
    let all = |narrow: usize, end: &str| -> Vec<(Show, String)> {
        VIEWS
            .iter()
            .map(|view| (view.show, format!(" {} {}{end}", key_of(view), view.names[narrow])))
            .collect()
    };
    let length = |names: &[(Show, String)]| names.iter().map(|(_, name)| name.len()).sum::<usize>();
    let candidates = [all(0, " "), all(1, " "), all(1, "")];
    let fitting = candidates.iter().find(|names| length(names) <= width);
    let names = fitting.unwrap_or(&candidates[2]);
    let current = names.iter().position(|(show, _)| *show == state.show).unwrap_or(0);
    let first = (0..=current).find(|first| length(&names[*first..=current]) <= width).unwrap_or(current);
    let mut end = 0;
    let placed = |(show, name): &(Show, String)| {
        let begin = end;
        end += name.len() as u16;
        (*show, name.clone(), begin)
    };
    names[first..].iter().map(placed).collect()
}

/// The key that shows a view.
fn key_of(view: &View) -> &'static str {
    let binding = KEYS.iter().find(|binding| binding.action == Action::View(view.show));
    binding.map_or("", |binding| binding.keys[0])
}

/// Draws the names of the views.
pub(super) fn tabs(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let names = names(state);
    let is_cut = [names.first().map(|(show, ..)| *show) != Some(VIEWS[0].show), {
        let end = names.last().map_or(0, |(_, name, x)| usize::from(*x) + name.len());
        end > usize::from(area.width)
    }];
    let spans = names.into_iter().map(|(show, name, _)| {
        let style = if show == state.show { Style::new().reversed() } else { Style::new() };
        Span::styled(name, style)
    });
    frame.render_widget(Paragraph::new(Line::from_iter(spans)), area);
    // Signs for the names that are left out at the beginning and at the end.
    for (is_cut, x, sign) in [(is_cut[0], area.left(), "<"), (is_cut[1], area.right().saturating_sub(1), ">")]
    {
        if is_cut && area.width > 0 && area.height > 0 {
            frame.buffer_mut()[(x, area.y)].set_symbol(sign);
        }
    }
}

/// The view whose name is in this column.
pub(crate) fn tab_at(state: &State, column: u16) -> Option<Show> {
    let names = names(state);
    let (show, name, x) = names.into_iter().rev().find(|(_, _, x)| *x <= column)?;
    (column < x + name.len() as u16).then_some(show)
}

/// Columns of the moment line to the left of its scale.
const LEFT: u16 = 44;
/// Columns to the right of the scale.
const RIGHT: u16 = 2;

fn scale(area: Rect) -> Option<Rect> {
    let width = area.width.checked_sub(LEFT + RIGHT).filter(|width| *width >= 10)?;
    Some(Rect { x: area.x + LEFT, width, ..area })
}

/// The time at a column of the scale.
pub(crate) fn time_at(state: &State, column: u16) -> Option<Time> {
    let scale = scale(state.areas().moment)?;
    let place = column.checked_sub(scale.x).filter(|place| *place < scale.width)?;
    let (start, end) = state.session.span();
    let by = u128::from(end.since(start)) * u128::from(place) / u128::from(scale.width.max(2) - 1);
    Some(start.plus(by as u64))
}

/// Draws the shown moment, on a scale with losses of service.
pub(super) fn moment(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let (start, end) = state.session.span();
    let time = state.clock.min(end).max(start);
    let unicode = state.look.unicode;
    let sign = match (state.plays, state.follows, unicode) {
        (true, _, true) => "▶",
        (true, _, false) => ">",
        (false, true, true) => "●",
        (false, true, false) => "*",
        (false, false, true) => "‖",
        (false, false, false) => "=",
    };
    let seconds = Seconds(time.0.saturating_sub(start.0)).to_string();
    let wall = match state.times.has_wall() && state.session.records() > 0 {
        true => format!("{} ", wall(time, state.times.zone(), 3)),
        false => String::new(),
    };
    let left = format!(" {sign} {wall}{seconds} s  #{}  x{}", state.moment.record, SPEEDS[state.speed].1);
    let mut spans = vec![Span::styled(fitted(state, &left, usize::from(LEFT), false), Style::new())];
    if let Some(scale) = scale(area) {
        let width = usize::from(scale.width);
        let length = end.since(start).max(1);
        let column = |time: Time| {
            (u128::from(time.since(start)) * (width as u128 - 1) / u128::from(length)).min(width as u128 - 1)
                as usize
        };
        let mut cells = vec![(if unicode { '─' } else { '-' }, dim()); width];
        for cell in cells.iter_mut().take(column(time)) {
            *cell = (if unicode { '━' } else { '=' }, Style::new());
        }
        for event in state.session.events.iter().filter(|event| event.kind.is_loss()) {
            let until = column(event.time.plus(event.duration.unwrap_or(0)));
            for cell in &mut cells[column(event.time)..=until] {
                *cell = ('!', red(state));
            }
        }
        cells[column(time)] = (if unicode { '█' } else { '#' }, Style::new().bold());
        spans.extend(cells.into_iter().map(|(cell, style)| Span::styled(cell.to_string(), style)));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// Draws a prompt, a notice, or the most useful keys.
pub(super) fn hints(state: &State, frame: &mut Frame<'_>, area: Rect) {
    if let Some(prompt) = &state.prompt {
        let (name, help) = match prompt.purpose {
            Purpose::Filter => ("filter: ", "  (operation= latency-above= status= found ...; Tab completes)"),
            Purpose::PacketFilter => {
                ("filter: ", "  (opcode= connection= qp= psn= ..., or an expression; Tab completes)")
            }
            Purpose::Search => ("search: ", "  (n and N go on)"),
            Purpose::Jump => ("time: ", "  (5.0, 09:41:06.5, a date, +3s, or #frame)"),
            Purpose::Palette => ("action: ", ""),
            Purpose::Glossary => ("word: ", ""),
            Purpose::Save => ("save packets as: ", "  (a new file)"),
            Purpose::Note(_) => ("note: ", "  (Enter marks; an empty note on a mark removes it)"),
            Purpose::Notes => ("save the notes as: ", ""),
            Purpose::Export => ("write the page as: ", "  (a new file; HTML)"),
        };
        let mut spans = vec![Span::styled(name, Style::new().bold()), Span::raw(&*prompt.text)];
        let x = (name.len() + unicode_width::UnicodeWidthStr::width(&*prompt.text)) as u16;
        match &state.notice {
            Some(error) => spans.push(Span::styled(format!("   {error}"), red(state))),
            None => spans.push(Span::styled(help, dim())),
        }
        frame.render_widget(Paragraph::new(Line::from(spans)), area);
        frame
            .set_cursor_position(Position { x: (area.x + x).min(area.right().saturating_sub(1)), y: area.y });
        return;
    }
    if let Some(notice) = &state.notice {
        frame.render_widget(Paragraph::new(format!(" {notice}")), area);
        return;
    }
    let mut spans = Vec::new();
    let last = |hint: &str| matches!(hint, "help" | "quit");
    // Help and quit are always shown; of the others, those that fit.
    let mut room = usize::from(area.width).saturating_sub(16);
    for binding in KEYS.iter().filter(|binding| !binding.hint.is_empty()) {
        let wanted = match binding.hint {
            "back" => !state.back.is_empty() || !state.filter.is_empty(),
            "open" => match state.show {
                Show::Bytes | Show::Charts => false,
                Show::Inject => !state.inject.entries.is_empty(),
                _ => true,
            },
            "sort" => state.show == Show::Transactions,
            "filter" => matches!(state.show, Show::Transactions | Show::Packets),
            _ => true,
        };
        let hint = if binding.hint == "open" { word_of_open(state) } else { binding.hint };
        let width = binding.keys[0].len() + hint.len() + 3;
        if wanted && (last(binding.hint) || width <= room) {
            room = room.saturating_sub(if last(binding.hint) { 0 } else { width });
            spans.push(Span::styled(format!(" {}", binding.keys[0]), Style::new().bold()));
            spans.push(Span::raw(format!(" {hint} ")));
        }
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// A word for the action of Enter.
fn word_of_open(state: &State) -> &'static str {
    if state.show != Show::Inject {
        return "open";
    }
    let at = state.cursor().at;
    match state.inject.entries.get(at) {
        _ if state.inject.is_running(at) => "stop",
        Some(entry) if entry.is_session => "send",
        _ => "run",
    }
}
