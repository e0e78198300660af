//! The list of packets, in step with the transactions, the exchange and the bytes.

use super::{Effect, back, choose, send_request};
use crate::analysis::{Analysis, Request};
use crate::packets::{Finding, PacketTest};
use crate::show::Show;
use crate::state::{BytesOf, State};

/// Coming from a transaction or a frame, selects its first packet.
pub(super) fn enter(state: &mut State, before: Show) {
    let frame = state.frame.as_ref().map(|frame| frame.number);
    let number = match before {
        Show::Bytes if state.bytes_of == BytesOf::Frame => frame,
        Show::Transactions => state.row().map(|row| row.first),
        Show::Exchange | Show::Bytes => {
            let place = state.chosen.and_then(|number| state.session.place(number));
            place.and_then(|place| state.session.rows.get(place)).map(|row| row.first)
        }
        _ => None,
    };
    if let Some(number) = number {
        select(state, number);
    }
}

/// Selects the packet of a record.
pub(super) fn select(state: &mut State, number: u64) {
    let show = Show::Packets as usize;
    let (at, lines) = (state.packets.index(number), state.areas().lines());
    let cursor = &mut state.cursors[show];
    // With some of the packets before it.
    if !(cursor.top..cursor.top + lines).contains(&at) {
        cursor.top = at.saturating_sub(lines / 4);
    }
    cursor.at = at;
    state.details[show] = Default::default();
}

/// Sets a filter. The place without it can be returned to.
pub(super) fn set_filter(state: &mut State, line: &str) -> Result<(), String> {
    let test = PacketTest::parse(line, state.times.zone())?;
    super::check_connection(state, test.highest_connection())?;
    if line != state.packets.line {
        back::note(state);
        state.packets.set(line.to_owned());
        state.cursors[Show::Packets as usize] = Default::default();
    }
    Ok(())
}

/// Requests the packets that are visible, or the next ones that may pass the filter. The
/// transaction of the selected packet becomes the chosen one.
pub(super) fn look(state: &mut State, effects: &mut Vec<Effect>) {
    if state.show != Show::Packets {
        return;
    }
    if let Some(number) = state.packets.row(state.cursor().at).and_then(|row| row.transaction)
        && state.chosen != Some(number)
    {
        choose(state, number);
    }
    look_at_frame(state, effects);
    if state.packets.has_failed || state.pending[4].is_some() {
        return;
    }
    if let Some(first) = wanted(state) {
        let request = Request::Packets(state.packets.line.clone(), state.times.zone(), first);
        send_request(state, request, effects);
    }
}

/// The first record to request, if any.
fn wanted(state: &State) -> Option<u64> {
    let records = state.session.records();
    let packets = &state.packets;
    if !packets.line.is_empty() {
        return (packets.scanned < records && !packets.is_full()).then_some(packets.scanned + 1);
    }
    let top = state.cursor().top as u64 + 1;
    let bottom = (top + state.areas().lines() as u64).saturating_sub(1).min(records);
    let is_loaded = packets.page.first <= top && bottom <= packets.page.last;
    (!is_loaded && top <= bottom).then(|| top.saturating_sub(Analysis::PAGE / 4).max(1))
}

/// Requests the fields of the selected packet if they are visible.
fn look_at_frame(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(number) = state.packets.row(state.cursor().at).map(|row| row.number) else { return };
    let is_shown = state.frame.as_ref().is_some_and(|frame| frame.number == number);
    let request = Request::Frame(number);
    let is_requested =
        state.pending[2].as_ref() == Some(&request) || state.next[2].as_ref() == Some(&request);
    let has_failed = state.packets.without_fields == Some(number);
    if state.areas().detail.is_some() && !is_shown && !is_requested && !has_failed {
        send_request(state, request, effects);
    }
}

/// Starts a search in all packets.
pub(super) fn find(state: &mut State, on: bool, effects: &mut Vec<Effect>) {
    let origin = state.packets.number(state.cursor().at).unwrap_or(0);
    let text = state.search.clone();
    state.packets.search = Some(Finding { text: text.clone(), on, origin, is_around: false });
    state.notice = Some(format!("{text}: searching; Esc ends it"));
    send_request(state, Request::Find(text, origin, on), effects);
}

/// Takes the result of a part of the search, and continues if it found nothing: to the end, and
/// from the other end to its origin.
pub(super) fn found(state: &mut State, number: Option<u64>, last: u64, effects: &mut Vec<Effect>) {
    let records = state.session.records();
    let Some(mut search) = state.packets.search.take() else { return };
    let has_passed =
        |at: u64| search.is_around && if search.on { at >= search.origin } else { at <= search.origin };
    if let Some(number) = number.filter(|number| !has_passed(*number) || *number == search.origin) {
        state.notice = search.is_around.then(|| {
            format!("{}: continued at the {}", search.text, if search.on { "beginning" } else { "end" })
        });
        return select(state, number);
    }
    let is_at_end = if search.on { last >= records } else { last <= 1 };
    if has_passed(last) || is_at_end && search.is_around {
        state.notice = Some(format!("{}: not found in this view", search.text));
        return;
    }
    let from = match (is_at_end, search.on) {
        (false, _) => last,
        (true, true) => 0,
        (true, false) => records + 1,
    };
    search.is_around |= is_at_end;
    let request = Request::Find(search.text.clone(), from, search.on);
    state.packets.search = Some(search);
    send_request(state, request, effects);
}
