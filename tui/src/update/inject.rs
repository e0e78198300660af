//! Scenarios and the session for a live peer: starting them, their plan, and their results.

use super::{Effect, visit};
use crate::inject::{Inject, Ran, SentLine, Update};
use crate::show::{Show, Step};
use crate::state::State;
use crate::view;

/// Runs the selected scenario. A destructive one asks for confirmation first. A running one is
/// stopped.
pub(super) fn run(state: &mut State, effects: &mut Vec<Effect>) {
    let at = state.cursor().at;
    let Some(entry) = state.inject.entries.get(at) else { return };
    if let Some(order) = state.inject.running.as_ref().filter(|order| order.index == at) {
        effects.push(Effect::Stop(order.number));
        state.inject.is_stopping = true;
        return;
    }
    if entry.is_destructive && state.inject.confirm != Some(at) {
        state.inject.confirm = Some(at);
        let warning = match entry.is_session {
            true => "its calls may change files on the server: Enter once more sends them",
            false => "it may crash or exhaust the server, or create a file: Enter once more runs it",
        };
        state.notice = Some(warning.to_owned());
        return;
    }
    state.inject.confirm = None;
    if !state.inject.queue.contains(&at) {
        state.inject.queue.push(at);
    }
}

/// Queues all scenarios that are not destructive and have not run. If some are waiting, cancels
/// them instead.
pub(super) fn run_all(state: &mut State) {
    let inject = &mut state.inject;
    if !inject.queue.is_empty() {
        return inject.queue.clear();
    }
    let wanted = |index: &usize| {
        !inject.entries[*index].is_destructive && inject.ran[*index].is_none() && !inject.is_running(*index)
    };
    inject.queue = (0..inject.entries.len()).filter(wanted).collect();
}

/// Plans to send the session from the selected transaction on. If that is planned already, plans to
/// send all of it.
pub(super) fn from_chosen(state: &mut State) {
    plan(state, |inject, chosen| {
        let plan = &mut inject.plan;
        plan.starting_at = if plan.starting_at == Some(chosen) { None } else { Some(chosen) };
    });
}

/// Plans a fault in the call of the selected transaction: the first one, the next one, or none.
pub(super) fn fault(state: &mut State) {
    plan(state, Inject::next_fault);
}

/// Changes the plan for the session, and shows it.
fn plan(state: &mut State, change: impl FnOnce(&mut Inject, u64)) {
    let Some(place) = state.inject.entries.iter().position(|entry| entry.is_session) else {
        let why = "`rdmascope tui FILE --to ADDRESS` sends the session of a file to a live server";
        state.notice = Some(why.to_owned());
        return;
    };
    let Some(chosen) = state.chosen else {
        state.notice = Some("no transaction is selected: 3 lists them".to_owned());
        return;
    };
    change(&mut state.inject, chosen);
    state.inject.confirm = None;
    visit(state, Show::Inject);
    state.cursors[Show::Inject as usize].at = place;
    state.details[Show::Inject as usize] = Default::default();
}

/// Takes an intermediate result. If the end of the results was visible, it stays visible.
pub(super) fn update(state: &mut State, update: Update) {
    let show = Show::Inject as usize;
    let is_seen = state.show == Show::Inject
        && state.inject.running.as_ref().is_some_and(|order| order.index == state.cursors[show].at);
    let lines = state.areas().detail_lines();
    let is_at_end = is_seen && state.details[show].top + lines >= state.detail_count();
    state.inject.take(update);
    if is_at_end {
        let count = state.detail_count();
        state.details[show].scroll(Step::Last, count, lines);
    }
}

/// Whether the session is selected in the list.
pub(super) fn is_session(state: &State) -> bool {
    let at = state.cursors[Show::Inject as usize].at;
    state.show == Show::Inject && state.inject.entries.get(at).is_some_and(|entry| entry.is_session)
}

/// Goes to the next call whose reply differs, or to the previous one, and lights it.
pub(super) fn next_difference(state: &mut State, on: bool) {
    let lit = state.inject.lit;
    let differing = |index: &usize| match (lit, on) {
        (None, _) => true,
        (Some(lit), true) => *index > lit,
        (Some(lit), false) => *index < lit,
    };
    let found = match on {
        true => state.inject.differing().find(differing).or_else(|| state.inject.differing().next()),
        false => state.inject.differing().rfind(differing).or_else(|| state.inject.differing().next_back()),
    };
    let Some(index) = found else {
        state.notice = Some("no reply differs".to_owned());
        return;
    };
    state.inject.lit = Some(index);
    let lines = state.areas().detail_lines();
    let (line, count) = (view::line_of_sent(state, index), state.detail_count());
    let top = line.saturating_sub(2).min(count.saturating_sub(lines));
    state.details[Show::Inject as usize].top = top;
}

/// The transaction of the lit difference, if the keys move in its pane.
pub(super) fn lit_transaction(state: &State) -> Option<u64> {
    if !state.in_detail || !is_session(state) || state.inject.running.is_some() {
        return None;
    }
    match state.inject.sent.get(state.inject.lit?)? {
        SentLine::Call(call) => call.transaction,
        _ => None,
    }
}

/// Takes the final result. Of a session, the first difference is shown.
pub(super) fn ran(state: &mut State, index: usize, ran: Result<Ran, String>) {
    state.inject.running = None;
    let is_sent = state.inject.entries.get(index).is_some_and(|entry| entry.is_session) && ran.is_ok();
    if let Some(place) = state.inject.ran.get_mut(index) {
        *place = Some(ran);
    }
    if is_sent {
        if is_session(state) && state.inject.differing().next().is_some() {
            next_difference(state, true);
        }
        let more = if state.inject.differing().nth(1).is_some() { "; n goes to the next" } else { "" };
        state.notice = Some(format!("{}{more}", state.inject.outcome()));
    }
}
