//! Search in the current view.

use super::{Effect, packets};
use crate::packets::contains;
use crate::show::{Show, Step};
use crate::state::State;
use crate::view;

/// Starts a search for `text`. An empty text ends it.
pub(super) fn begin(state: &mut State, text: &str, effects: &mut Vec<Effect>) {
    state.search = text.to_lowercase();
    state.hit = None;
    if !state.search.is_empty() {
        continue_search(state, true, effects);
    }
}

/// Goes to the next match, or to the previous one. After the end, the search continues at the
/// beginning.
pub(super) fn continue_search(state: &mut State, on: bool, effects: &mut Vec<Effect>) {
    if state.search.is_empty() && super::inject::is_session(state) {
        return super::inject::next_difference(state, on);
    }
    if state.search.is_empty() {
        state.notice = Some("no search: / starts one".to_owned());
        return;
    }
    if state.show == Show::Packets && state.packets.line.is_empty() && !state.in_detail {
        return packets::find(state, on, effects);
    }
    let (texts, from) = match state.in_detail {
        true => (detail(state), place(state, state.detail().top, state.areas().detail_lines())),
        false => (state.pane().texts(state), main_place(state)),
    };
    let found = find(&texts, &state.search, from, on);
    drop(texts);
    let Some((index, is_around)) = found else {
        state.notice = Some(format!("{}: not found in this view", state.search));
        return;
    };
    if is_around {
        let end = if on { "beginning" } else { "end" };
        state.notice = Some(format!("{}: continued at the {end}", state.search));
    }
    state.hit = Some((state.show, state.in_detail, index));
    show(state, index);
}

/// The lines of the other pane.
fn detail(state: &State) -> view::Texts<'_> {
    let width = state.areas().detail.map_or(80, |area| area.width);
    let lines = state.pane().detail_texts(state, width);
    view::Texts { count: lines.len(), text: Box::new(move |index| lines[index].clone()) }
}

/// The place in the list or the text from which the search continues.
fn main_place(state: &State) -> Option<usize> {
    match state.is_list() {
        true => Some(state.cursor().at),
        false => place(state, state.cursor().top, state.areas().lines()),
    }
}

/// The place in a text: the line that was found last if it is visible, or else before the first
/// visible one.
fn place(state: &State, top: usize, seen: usize) -> Option<usize> {
    let here = |hit: &(Show, bool, usize)| (hit.0, hit.1) == (state.show, state.in_detail);
    let hit = state.hit.filter(here).map(|(_, _, index)| index);
    hit.filter(|index| (top..top + seen).contains(index)).or(top.checked_sub(1))
}

/// The nearest index after `from`, or before it, whose text contains `wanted`, and whether the search
/// passed the end.
fn find(texts: &view::Texts<'_>, wanted: &str, from: Option<usize>, on: bool) -> Option<(usize, bool)> {
    let count = texts.count;
    let contains = |index: &usize| contains(&(texts.text)(*index), wanted);
    let next = from.map_or(0, |from| from + 1).min(count);
    let found = |index, is_around| Some((index, is_around));
    match on {
        true => (next..count).find(contains).map_or_else(
            || (0..next).find(contains).and_then(|index| found(index, true)),
            |index| found(index, false),
        ),
        false => {
            let from = from.unwrap_or(0).min(count);
            let before = (0..from).rev().find(contains);
            before.map_or_else(
                || (from..count).rev().find(contains).and_then(|index| found(index, true)),
                |index| found(index, false),
            )
        }
    }
}

/// Makes a line visible, and selects it in a list.
fn show(state: &mut State, index: usize) {
    let areas = state.areas();
    let place = state.show as usize;
    if state.in_detail {
        let lines = areas.detail_lines();
        let count = state.detail_count();
        bring(&mut state.details[place].top, index, count, lines);
    } else if state.is_list() {
        let count = state.pane().count(state);
        state.cursors[place].at = index;
        state.cursors[place].settle(count, areas.lines());
        state.details[place] = Default::default();
    } else {
        let count = state.pane().count(state);
        bring(&mut state.cursors[place].top, index, count, areas.lines());
        if let (Show::Exchange, Some(rung)) = (state.show, view::rung_at(state, index)) {
            state.cursors[place].at = rung;
        }
    }
}

/// Scrolls so that a line is visible.
fn bring(top: &mut usize, index: usize, count: usize, seen: usize) {
    if !(*top..*top + seen).contains(&index) {
        *top = Step::Up(seen / 3).from(index, seen).min(count.saturating_sub(seen));
    }
}
