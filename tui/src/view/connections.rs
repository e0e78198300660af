//! Connections at the moment that is shown.

use super::{dim, fitted, screen};
use crate::layout::Areas;
use crate::session::ConnectionNow;
use crate::state::State;
use ratatui::Frame;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::units::{Counted, Number};
use rdmascope_present::fold::Folding;
use rdmascope_present::page::report::write_connection;
use rdmascope_present::text::{Maybe, Named};
use rdmascope_present::words;
use std::io::Write as _;

/// Columns that the names of the ends have at least, and at most.
const ENDS: [usize; 2] = [15, 39];
/// Columns of all else.
const OTHERS: usize = 49;

fn under_way(state: &State, now: &ConnectionNow) -> u64 {
    state.moment.open.iter().filter(|open| open.connection == now.connection.id).count() as u64
}

/// Draws the list, and what is known of the one that is chosen.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let connections = &state.moment.connections;
    let words = format!("{} at this moment", Counted(connections.len() as u64, "connection"));
    super::title(state, frame, areas.main, &words, !state.in_detail);
    let ends = (usize::from(areas.main.width).saturating_sub(OTHERS) / 2).clamp(ENDS[0], ENDS[1]);
    let headings = format!(
        "{:>5} {:ends$}    {:ends$} {:9} {:>9} {:>9} {:>7}",
        "#", "requester", "responder", "state", "packets", "under way", "granted"
    );
    let line = |index: usize| {
        let now = &connections[index];
        let it = &now.connection;
        let granted = now.credits.and_then(|(_, granted)| granted);
        let packets = it.requester.sent.packets + it.responder.sent.packets;
        Line::from(vec![
            Span::raw(format!("{:>5} ", it.id.0)),
            Span::raw(fitted(state, &Named(&it.requester).to_string(), ends, false)),
            Span::styled(if it.roles_known { " -> " } else { " -- " }, dim()),
            Span::raw(fitted(state, &Named(&it.responder).to_string(), ends, false)),
            Span::raw(format!(
                " {:9} {:>9} {:>9} {:>7}",
                words::state(it.state),
                Number(packets).to_string(),
                under_way(state, now),
                Maybe(granted),
            )),
        ])
    };
    super::list(
        frame,
        areas.main,
        Some(headings),
        (state.cursor(), connections.len()),
        !state.in_detail,
        line,
    );
    if connections.is_empty() {
        let why = "No connection is open at this moment. , and . step packet by packet, t goes to a time, f to the end.";
        super::nothing(frame, areas.main, why);
    }
    if let Some(area) = areas.detail {
        super::title(state, frame, area, "What is known of it", state.in_detail);
        super::scrolled(frame, area, detail(state, area.width), state.detail().top);
    }
}

/// What is known of the one that is chosen, and its calls under way.
pub(super) fn detail(state: &State, width: u16) -> Text<'static> {
    let Some(now) = state.moment.connections.get(state.cursor().at) else { return Text::default() };
    let mut written = Vec::new();
    let style = screen(state, width).style;
    let mut folding = Folding::new(&mut written, style);
    // Memory takes all.
    let _ = write_connection(&now.connection, style, &mut folding).and_then(|()| folding.flush());
    drop(folding);
    let mut text = super::text(&written);
    let open = state.moment.open.iter().filter(|open| open.connection == now.connection.id);
    for (index, call) in open.enumerate() {
        if index == 0 {
            text.lines.push(Line::raw("  Calls under way"));
        }
        let age = state.moment.time.map_or(0, |time| time.since(call.since.time));
        text.lines.push(Line::raw(format!(
            "    XID {}, {}, since frame {}: {}",
            call.xid,
            rdmascope_analysis::names::direction(call.direction),
            call.since.frame,
            rdmascope_analysis::units::Duration(age)
        )));
    }
    text
}
