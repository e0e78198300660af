//! Events, in chronological order.

use super::{Pane, Selection, Target, Texts, fitted, red};
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Counted, Duration, Plain};
use rdmascope_present::screen::wrapped;

pub(super) struct Events;

impl Pane for Events {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let words = Counted(self.count(state) as u64, "event").to_string();
        super::title(state, frame, area, &words, !state.in_detail);
        let events = &state.session.events;
        let times = state.time_column(area.width);
        let headings = format!(" {} {:>5}  {:19} description", times.heading(), "conn", "event");
        let width = usize::from(area.width).saturating_sub(times.width() + 29);
        let line = |index: usize| {
            let event = &events[index];
            let before = index.checked_sub(1).map(|before| events[before].time);
            let time = times.cell(Some(event.time), before);
            let style = if event.kind.is_loss() { red(state) } else { Style::new() };
            Line::from(vec![
                Span::raw(format!(" {time} {:>5}  ", event.connection.0)),
                Span::styled(format!("{:19} ", event.kind.word()), style),
                Span::raw(fitted(state, &event.text, width, false)),
            ])
        };
        let why = "No events so far.";
        super::list(state, frame, area, Some(headings), (events.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.session.events.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let events = &state.session.events;
        Texts::of(events.len(), |index| format!("{} {}", events[index].kind.word(), events[index].text))
    }

    fn detail(&self, state: &State, width: u16) -> (String, Text<'static>) {
        let title = "The event".to_owned();
        let at = state.cursor().at;
        let Some(event) = state.session.events.get(at) else { return (title, Text::default()) };
        let room = usize::from(width).saturating_sub(4).max(20);
        let text = Plain(&event.text).to_string();
        let mut lines: Vec<String> =
            wrapped(&text, room).into_iter().map(|line| format!("  {line}")).collect();
        lines.push(String::new());
        lines.push(format!("  at {}", Rfc3339::from(event.time)));
        if let Some(duration) = event.duration {
            lines.push(format!("  for {}", Duration(duration)));
        }
        if event.count > 1 {
            lines.push(format!("  {} times", event.count));
        }
        match event.frames {
            [Some(first), Some(last)] if first != last => {
                lines.push(format!(
                    "  frames {first} to {last}: Enter shows the first one, M goes to that moment"
                ));
            }
            [Some(first), _] => lines.push(format!("  frame {first}: Enter shows it, M goes to that moment")),
            _ => {}
        }
        (title, Text::raw(lines.join("\n")))
    }

    fn selection(&self, state: &State) -> Selection {
        let event = state.session.events.get(state.cursor().at);
        let record = event.and_then(|event| event.frames[0]);
        Selection {
            command: format!("rdmascope events {}", state.files),
            value: event.map(|event| event.text.clone()),
            record,
            target: Some(record.map_or(Target::Unseen, Target::Frame)),
            ..Selection::default()
        }
    }
}
