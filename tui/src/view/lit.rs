//! Lights the places with the searched text.

use super::yellow;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

/// Lights the places in an area that is drawn already.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, area: Rect) {
    if state.search.is_empty() {
        return;
    }
    let style = yellow(state).add_modifier(Modifier::UNDERLINED | Modifier::BOLD);
    let buffer = frame.buffer_mut();
    let area = area.intersection(buffer.area);
    // The first line is the title.
    for y in area.top().saturating_add(1)..area.bottom() {
        // The text, and the column of each of its bytes.
        let (mut text, mut columns) = (String::new(), Vec::new());
        for x in area.left()..area.right() {
            let symbol = buffer[(x, y)].symbol().to_lowercase();
            columns.resize(columns.len() + symbol.len(), x);
            text.push_str(&symbol);
        }
        for (at, found) in text.match_indices(&state.search) {
            for x in columns[at]..=columns[at + found.len() - 1] {
                buffer[(x, y)].set_style(style);
            }
        }
    }
}
