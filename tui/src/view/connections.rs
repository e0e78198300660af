//! Connections at the moment that is shown.

use super::{Pane, Selection, Target, Texts, dim, fitted, screen};
use crate::analysis::PacketSet;
use crate::session::ConnectionNow;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::units::{Counted, Number};
use rdmascope_present::fold::Folding;
use rdmascope_present::page::report::write_connection;
use rdmascope_present::text::{Maybe, Named};
use rdmascope_present::words;
use std::io::Write as _;

/// The least and the most columns of the names of the ends.
const ENDS: [usize; 2] = [15, 39];
/// Columns of everything else.
const OTHERS: usize = 49;

pub(super) struct Connections;

impl Pane for Connections {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let words = format!("{} at this moment", Counted(self.count(state) as u64, "connection"));
        super::title(state, frame, area, &words, !state.in_detail);
        let connections = &state.moment.connections;
        // A narrow list has no room for them.
        let times = (area.width >= 100).then(|| state.time_column(area.width));
        let of_times = times.map_or(0, |times| times.width() + 1);
        let ends = (usize::from(area.width).saturating_sub(OTHERS + of_times) / 2).clamp(ENDS[0], ENDS[1]);
        let headings = format!(
            "{:>5} {}{:ends$}    {:ends$} {:9} {:>9} {:>9} {:>7}",
            "#",
            times.map_or(String::new(), |times| times.heading() + " "),
            "requester",
            "responder",
            "state",
            "packets",
            "in flight",
            "granted"
        );
        let line = |index: usize| {
            let now = &connections[index];
            let it = &now.connection;
            let before = index.checked_sub(1).map(|before| connections[before].connection.first);
            let granted = now.credits.and_then(|(_, granted)| granted);
            let packets = it.requester.sent.packets + it.responder.sent.packets;
            Line::from(vec![
                Span::raw(format!(
                    "{:>5} {}",
                    it.id.0,
                    times.map_or(String::new(), |times| times.cell(Some(it.first), before) + " ")
                )),
                Span::raw(fitted(state, &Named(&it.requester).to_string(), ends, false)),
                Span::styled(if it.roles_known { " -> " } else { " -- " }, dim()),
                Span::raw(fitted(state, &Named(&it.responder).to_string(), ends, false)),
                Span::raw(format!(
                    " {:9} {:>9} {:>9} {:>7}",
                    words::state(it.state),
                    Number(packets).to_string(),
                    calls_in_flight(state, now),
                    Maybe(granted),
                )),
            ])
        };
        let why = "No connection is open at this moment. , and . step packet by packet, t goes to a time, f to the end.";
        super::list(state, frame, area, Some(headings), (connections.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.moment.connections.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let connections = &state.moment.connections;
        Texts::of(connections.len(), |index| {
            let it = &connections[index].connection;
            format!(
                "{} {} {} {}",
                it.id.0,
                Named(&it.requester),
                Named(&it.responder),
                words::state(it.state)
            )
        })
    }

    fn detail(&self, state: &State, width: u16) -> (String, Text<'static>) {
        let title = "Connection details".to_owned();
        let at = state.cursor().at;
        let Some(now) = state.moment.connections.get(at) else { return (title, Text::default()) };
        let mut written = Vec::new();
        let style = screen(state, width).style;
        let mut folding = Folding::new(&mut written, style);
        // Writing to memory cannot fail.
        let _ = write_connection(&now.connection, None, style, &mut folding).and_then(|()| folding.flush());
        drop(folding);
        let mut text = super::text(&written);
        let open = state.moment.open.iter().filter(|open| open.connection == now.connection.id);
        for (index, call) in open.enumerate() {
            if index == 0 {
                text.lines.push(Line::raw("  Calls in flight"));
            }
            let age = state.clock.since(call.since.time);
            text.lines.push(Line::raw(format!(
                "    XID {}, {}, since frame {}: {}",
                call.xid,
                rdmascope_analysis::names::direction(call.direction),
                call.since.frame,
                rdmascope_analysis::units::Duration(age)
            )));
        }
        (title, text)
    }

    fn selection(&self, state: &State) -> Selection {
        let id = state.moment.connections.get(state.cursor().at).map(|now| now.connection.id);
        Selection {
            command: format!("rdmascope connections {}", state.files),
            value: id.map(|id| id.0.to_string()),
            packets: id.map_or(PacketSet::All, PacketSet::Connection),
            target: id.map(|id| Target::Filtered(format!("connection={}", id.0))),
            ..Selection::default()
        }
    }
}

fn calls_in_flight(state: &State, now: &ConnectionNow) -> u64 {
    state.moment.open.iter().filter(|open| open.connection == now.connection.id).count() as u64
}
