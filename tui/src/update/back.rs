//! The places that were shown before.

use super::{Effect, choose, send_request, set_filter};
use crate::analysis::Request;
use crate::show::Show;
use crate::state::{BytesOf, Place, State};

/// The most places to go back to.
const MOST: usize = 64;

/// Notes the place that is shown, to go back to it.
pub(super) fn note(state: &mut State) {
    let place = Place {
        show: state.show,
        cursor: state.cursor(),
        chosen: state.chosen,
        bytes_of: state.bytes_of,
        frame: state.frame.as_ref().map(|frame| frame.number),
        filter: state.filter_line.clone(),
        packets: state.packets.line.clone(),
    };
    if state.back.last() == Some(&place) {
        return;
    }
    if state.back.len() == MOST {
        state.back.remove(0);
    }
    state.back.push(place);
}

/// Goes back one step: out of the other pane, to the place before, or to the list without a filter.
pub(super) fn back(state: &mut State, effects: &mut Vec<Effect>) {
    if state.in_detail {
        state.in_detail = false;
    } else if state.inject.confirm.take().is_some() {
        state.notice = Some("nothing is sent".to_owned());
    } else if state.packets.search.take().is_some() {
        state.notice = Some("the search ended".to_owned());
    } else if let Some(place) = state.back.pop() {
        restore(state, place, effects);
    } else if state.show == Show::Packets && !state.packets.line.is_empty() {
        state.packets.set(String::new());
    } else if state.show == Show::Transactions && !state.filter.is_empty() {
        set_filter(state, String::new());
    }
}

fn restore(state: &mut State, place: Place, effects: &mut Vec<Effect>) {
    state.show = place.show;
    if state.filter_line != place.filter {
        set_filter(state, place.filter);
    }
    if state.packets.line != place.packets {
        state.packets.set(place.packets);
    }
    if let Some(number) = place.chosen.filter(|number| state.chosen != Some(*number)) {
        choose(state, number);
    }
    state.bytes_of = place.bytes_of;
    if let Some(frame) = place.frame.filter(|_| place.bytes_of == BytesOf::Frame)
        && state.frame.as_ref().is_none_or(|shown| shown.number != frame)
    {
        send_request(state, Request::Frame(frame), effects);
    }
    // Lists keep their cursors.
    if matches!(place.show, Show::Exchange | Show::Bytes) {
        state.cursors[place.show as usize] = place.cursor;
    }
}
