//! The shown moment: going to another one, stepping, and playing.

use super::{Effect, choose, packets, send_request};
use crate::analysis::Request;
use crate::rows::Row;
use crate::show::Show;
use crate::state::{SPEEDS, State};
use rdmascope_analysis::timeline::Moment;

/// Goes to a moment.
pub(super) fn seek(state: &mut State, moment: Moment, effects: &mut Vec<Effect>) {
    state.follows = false;
    let moment = match moment {
        Moment::Time(time) => {
            let (start, end) = state.session.span();
            state.clock = time.min(end).max(start);
            Moment::Time(state.clock)
        }
        Moment::Record(number) => {
            if state.show == Show::Packets {
                packets::select(state, number);
            }
            moment
        }
    };
    send_request(state, Request::Seek(moment), effects);
}

pub(super) fn tick(state: &mut State, nanoseconds: u64, effects: &mut Vec<Effect>) {
    if !state.plays || state.pending[0].is_some() {
        return;
    }
    let (start, end) = state.session.span();
    let (speed, _) = SPEEDS[state.speed];
    let by = match speed {
        // The whole capture in about ten seconds, whatever its length.
        u64::MAX => end.since(start) / 600 + 1,
        speed => (u128::from(speed) * u128::from(nanoseconds) / 1_000_000_000) as u64,
    };
    state.clock = state.clock.max(start).plus(by);
    if state.clock >= end {
        state.clock = end;
        state.plays = false;
    }
    let clock = state.clock;
    seek(state, Moment::Time(clock), effects);
}

/// Starts or stops playing.
pub(super) fn play(state: &mut State, effects: &mut Vec<Effect>) {
    state.plays = !state.plays;
    if !state.plays {
        return;
    }
    let (start, end) = state.session.span();
    // From the end, it plays from the beginning.
    if state.follows || state.moment.time.is_none() || state.clock >= end {
        state.clock = start;
        seek(state, Moment::Record(0), effects);
    }
}

/// Changes the speed of playing.
pub(super) fn change_speed(state: &mut State, faster: bool) {
    let most = SPEEDS.len() - 1;
    state.speed = if faster { (state.speed + 1).min(most) } else { state.speed.saturating_sub(1) };
    state.notice = Some(format!("speed {}", SPEEDS[state.speed].1));
}

/// Goes to the latest moment, and follows it.
pub(super) fn follow(state: &mut State, effects: &mut Vec<Effect>) {
    state.plays = false;
    let records = state.session.records();
    seek(state, Moment::Record(records), effects);
    state.follows = true;
}

/// Goes to the next record, or to the previous one.
pub(super) fn step_record(state: &mut State, on: bool, effects: &mut Vec<Effect>) {
    let record = state.heading();
    let to = if on { record.saturating_add(1) } else { record.saturating_sub(1) };
    seek(state, Moment::Record(to.min(state.session.records())), effects);
}

/// Goes to the nearest end of a transaction.
pub(super) fn step_transaction(state: &mut State, on: bool, effects: &mut Vec<Effect>) {
    let ends = state.session.rows.iter().map(|row| row.ended);
    step(state, nearest(ends, state.heading(), on), "transaction", effects);
}

/// Goes to the nearest finding or event.
pub(super) fn step_found(state: &mut State, on: bool, effects: &mut Vec<Effect>) {
    let events = state.session.events.iter().filter_map(|event| event.frames[0]);
    let findings = state.session.findings.iter().filter(|found| found.allowance.is_none());
    let findings = findings.map(|found| found.record);
    let to = nearest(events.chain(findings), state.heading(), on);
    step(state, to, "finding or event", effects);
}

/// Goes to the end of the nearest slow call, and selects the call.
pub(super) fn step_slow(state: &mut State, on: bool, effects: &mut Vec<Effect>) {
    let found = nearest_slow(state, on);
    if let Some((_, number)) = found {
        choose(state, number);
    }
    step(state, found.map(|(ended, _)| ended), "slow call", effects);
}

/// The record at which the nearest slow call ended, and the number of that call.
fn nearest_slow(state: &State, on: bool) -> Option<(u64, u64)> {
    let slow = state.slow()?;
    let is_slow = |row: &&Row| row.latency.is_some_and(|latency| latency >= slow);
    let rows = state.session.rows.iter().filter(is_slow);
    let ended = nearest(rows.clone().map(|row| row.ended), state.heading(), on)?;
    rows.clone().find(|row| row.ended == ended).map(|row| (ended, row.number))
}

/// The nearest of these records after `from`, or before it.
fn nearest(records: impl Iterator<Item = u64>, from: u64, on: bool) -> Option<u64> {
    if on {
        records.filter(|record| *record > from).min()
    } else {
        records.filter(|record| *record < from).max()
    }
}

fn step(state: &mut State, to: Option<u64>, noun: &str, effects: &mut Vec<Effect>) {
    match to {
        Some(record) => seek(state, Moment::Record(record), effects),
        None => state.notice = Some(format!("no further {noun} in this direction")),
    }
}
