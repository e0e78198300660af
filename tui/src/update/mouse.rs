//! The mouse: selects, opens, scrolls, drags the split, and sets the moment.

use super::{Effect, act, go, open, seek};
use crate::keys::{Action, KEYS};
use crate::show::{Show, Step};
use crate::state::{Over, State};
use crate::view;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use rdmascope_analysis::timeline::Moment;

/// Handles a mouse event.
pub(super) fn mouse(state: &mut State, event: MouseEvent, effects: &mut Vec<Effect>) {
    let areas = state.areas();
    let within = |area: ratatui::layout::Rect| area.contains((event.column, event.row).into());
    let in_detail = areas.detail.is_some_and(within);
    match event.kind {
        MouseEventKind::ScrollDown | MouseEventKind::ScrollUp => {
            let down = event.kind == MouseEventKind::ScrollDown;
            let step = if down { Step::Down(3) } else { Step::Up(3) };
            if let Some(Over::Help(top)) = &mut state.over {
                *top = if down { (*top + 3).min(KEYS.len()) } else { top.saturating_sub(3) };
                return;
            }
            let before = core::mem::replace(&mut state.in_detail, in_detail);
            go(state, step);
            state.in_detail = before;
        }
        MouseEventKind::Down(MouseButton::Left) => {
            if within(areas.tabs)
                && let Some(show) = view::tab_at(state, event.column)
            {
                act(state, Action::View(show), effects);
            } else if within(areas.moment) {
                if let Some(time) = view::time_at(state, event.column) {
                    seek(state, Moment::Time(time), effects);
                }
            } else if in_detail {
                state.in_detail = true;
            } else if within(areas.main) && state.show == Show::Overview {
                if let Some(at) = view::entry_at(state, event.column, event.row) {
                    choose_entry(state, at, effects);
                }
            } else if within(areas.main) && usize::from(event.row - areas.main.y) >= areas.headings {
                state.in_detail = false;
                let line = usize::from(event.row - areas.main.y) - areas.headings;
                choose_line(state, line, effects);
            }
        }
        MouseEventKind::Drag(MouseButton::Left) => {
            let body = |from: u16, length: u16, at: u16| {
                (u32::from(at.saturating_sub(from)) * 100 / u32::from(length.max(1))).clamp(20, 80) as u16
            };
            if let Some(detail) = areas.detail {
                state.split = match detail.x > areas.main.x {
                    true => body(areas.main.x, areas.main.width + detail.width, event.column),
                    false => body(areas.main.y, areas.main.height + detail.height, event.row),
                };
            }
        }
        _ => {}
    }
}

/// Handles a click on a line: selects it, or opens it if it is already selected.
fn choose_line(state: &mut State, line: usize, effects: &mut Vec<Effect>) {
    let cursor = state.cursor();
    let at = match state.show {
        Show::Exchange => view::rung_at(state, cursor.top + line),
        _ if state.is_list() => Some(cursor.top + line).filter(|at| *at < state.pane().count(state)),
        _ => None,
    };
    if let Some(at) = at {
        choose_entry(state, at, effects);
    }
}

/// Selects an entry, or opens it if it is already selected.
fn choose_entry(state: &mut State, at: usize, effects: &mut Vec<Effect>) {
    match at == state.cursor().at {
        true => open(state, effects),
        false => state.cursors[state.show as usize].at = at,
    }
}
