//! Events, in the order of time.

use super::{fitted, red};
use crate::layout::Areas;
use crate::state::State;
use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Counted, Duration, Plain, Seconds};
use rdmascope_present::screen::wrapped;

/// Draws the list, and the one that is chosen in full.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let events = &state.session.events;
    super::title(
        state,
        frame,
        areas.main,
        &Counted(events.len() as u64, "event").to_string(),
        !state.in_detail,
    );
    let headings = format!("{:>12} {:>5}  {:19} what happened", "seconds", "conn", "event");
    let width = usize::from(areas.main.width).saturating_sub(40);
    let line = |index: usize| {
        let event = &events[index];
        let since = Seconds(event.time.0.saturating_sub(state.session.start.0));
        let style = if event.kind.is_loss() { red(state) } else { Style::new() };
        Line::from(vec![
            Span::raw(format!("{:>12} {:>5}  ", since.to_string(), event.connection.0)),
            Span::styled(format!("{:19} ", event.kind.word()), style),
            Span::raw(fitted(state, &event.text, width, false)),
        ])
    };
    super::list(frame, areas.main, Some(headings), (state.cursor(), events.len()), !state.in_detail, line);
    if events.is_empty() {
        super::nothing(frame, areas.main, "Nothing happened to a connection by now.");
    }
    if let Some(area) = areas.detail {
        super::title(state, frame, area, "The event", state.in_detail);
        super::scrolled(frame, area, detail(state, area.width), state.detail().top);
    }
}

/// The event that is chosen.
pub(super) fn detail(state: &State, width: u16) -> Text<'static> {
    let Some(event) = state.session.events.get(state.cursor().at) else { return Text::default() };
    let room = usize::from(width).saturating_sub(4).max(20);
    let text = Plain(&event.text).to_string();
    let mut lines: Vec<String> = wrapped(&text, room).into_iter().map(|line| format!("  {line}")).collect();
    lines.push(String::new());
    lines.push(format!("  at {}", Rfc3339::from(event.time)));
    if let Some(duration) = event.duration {
        lines.push(format!("  for {}", Duration(duration)));
    }
    if event.count > 1 {
        lines.push(format!("  {} of it", event.count));
    }
    match event.frames {
        [Some(first), Some(last)] if first != last => {
            lines.push(format!(
                "  frames {first} to {last}: Enter shows the first one, m goes to that moment"
            ));
        }
        [Some(first), _] => lines.push(format!("  frame {first}: Enter shows it, m goes to that moment")),
        _ => {}
    }
    Text::raw(lines.join("\n"))
}
