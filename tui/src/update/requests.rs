//! Requests to the analysis, and to the thread that computes charts.

use super::Effect;
use crate::analysis::{Named, Request};
use crate::chart::Wanted;
use crate::rows::Row;
use crate::session::Progress;
use crate::show::Show;
use crate::state::State;
use crate::view;

/// The kind of a request. At most one request of each kind is unanswered.
pub(super) const fn kind(request: &Request) -> usize {
    match request {
        Request::Seek(_) => 0,
        Request::Exchange(_) => 1,
        Request::Frame(_) => 2,
        Request::Save(..) => 3,
        Request::Packets(..) => 4,
        Request::Find(..) => 5,
        Request::Report(_) => 6,
    }
}

/// Sends a request, or keeps it until the previous one is answered. Only the latest one is kept.
pub(super) fn send_request(state: &mut State, request: Request, effects: &mut Vec<Effect>) {
    let kind = kind(&request);
    if state.pending[kind].is_some() {
        state.next[kind] = Some(request);
    } else {
        state.pending[kind] = Some(request.clone());
        effects.push(Effect::Request(request));
    }
}

/// Requests the selected transaction if it is visible.
pub(super) fn look_at_chosen(state: &mut State, effects: &mut Vec<Effect>) {
    let is_seen = matches!(state.show, Show::Exchange | Show::Bytes)
        || state.show == Show::Transactions && state.areas().detail.is_some();
    if state.show == Show::Transactions || state.chosen.is_none() {
        state.chosen = state.row().map(|row| row.number).or(state.chosen);
    }
    let shown = state.exchange.as_ref().map(|one| one.transaction.number);
    let (true, Some(number)) = (is_seen, state.chosen) else { return };
    if shown == Some(number) {
        return;
    }
    if let Some(index) = state.session.place(number) {
        let Row { first, ended, .. } = state.session.rows[index];
        let request = Request::Exchange(Named { number, first, ended });
        if state.pending[1].as_ref() != Some(&request) && state.failed != Some(number) {
            send_request(state, request, effects);
        }
    }
}

/// Requests the data of charts if they are visible and out of date.
pub(super) fn look_at_charts(state: &mut State, effects: &mut Vec<Effect>) {
    /// Up to this number, rows take a few milliseconds. Beyond it, the data is computed again when
    /// a sixteenth of the rows is new, or when the last one has arrived.
    const FEW: usize = 1 << 15;
    if state.show != Show::Charts || state.charting.is_some() {
        return;
    }
    let rows = &state.session.rows;
    let wanted = Wanted {
        rows: rows.len(),
        span: state.session.span(),
        at: state.cursor().top,
        columns: view::charts::columns(state.size.0),
    };
    let current = state.figures.as_ref().and_then(|figures| figures.wanted);
    let is_current = |current: Wanted| {
        let is_same = (current.at, current.columns) == (wanted.at, wanted.columns);
        let is_growing = matches!(state.session.progress, Progress::Reading(..) | Progress::Live);
        let waits = is_growing && rows.len() > FEW && (rows.len() - current.rows) * 16 < rows.len();
        current == wanted || is_same && waits
    };
    if !current.is_some_and(is_current) {
        state.charting = Some(wanted);
        effects.push(Effect::Chart(wanted, rows.clone()));
    }
}

/// Requests the report for the width of the screen if it is visible.
pub(super) fn look_at_report(state: &mut State, effects: &mut Vec<Effect>) {
    let width = state.size.0.max(1);
    let request = Request::Report(width);
    let is_wanted = state.show == Show::Report && state.session.has_report && state.session.report.0 != width;
    if is_wanted && state.pending[kind(&request)].as_ref() != Some(&request) {
        send_request(state, request, effects);
    }
}
