//! Creates events from the gathered facts.

use super::facts::{Burst, Call, Closed, Run, Summary};
use super::history::History;
use super::known::{Known, Reached, end_name, event, event_of_run, link, number_networks};
use super::{Kind, SILENCE, SessionEvent, failing, outages};
use crate::names::{Label, Rejection};
use crate::units::{Bytes, Counted, Duration};
use rdmascope_dissector::connection::{ConnectionId, State};
use rdmascope_dissector::rdma::{End, Failure, Operation, Refusal};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Direction;
use std::borrow::Cow;

/// The least number of transmissions after which the sender of a request may have given up.
const RETRIES: u64 = 3;

/// The events of these connections up to `reached`.
pub(super) fn events<'a>(
    histories: impl Iterator<Item = (ConnectionId, &'a History, Summary, Vec<Call>)>,
    reached: Reached,
) -> Vec<SessionEvent> {
    let end = reached.time;
    let mut known: Vec<Known<'_>> = histories
        .map(|(id, history, summary, waiting)| Known {
            id,
            history: Cow::Borrowed(history),
            summary,
            network: 0,
            waiting,
            before: None,
            after: None,
        })
        .collect();
    known.sort_by_key(|known| (known.history.steps_before, known.summary.first, known.id));
    number_networks(&mut known);
    let requests = link(&mut known);
    let mut found = Vec::new();
    for (index, one) in known.iter().enumerate() {
        let (id, history, before) = (one.id, &*one.history, one.before);
        let mut report = |event: SessionEvent| found.push(SessionEvent { connection: id, ..event });
        let request_times = requests.get(&one.ends()).map_or(&[][..], Vec::as_slice);
        established(one, before.map(|at| known[at].id), (request_times, end), &mut report);
        refused(history, &mut report);
        disconnected(one, one.after.map(|after| &known[after]), &mut report);
        retried(one, end, &mut report);
        passed(history, reached, &mut report);
        disconnect_unanswered(one, &mut report);
        if let Some(before) = before {
            replayed(&known[last_used(&known, before)], one, &mut report);
            if let Some((run, text)) = history.recovery.summary() {
                report(event_of_run(run, true, Kind::Recovery, text));
            }
        }
        exhausted(history, end, &mut report);
        debug_assert!(before.is_none_or(|before| before < index), "a connection follows an earlier one");
    }
    failed_again(&known, &mut |event| found.push(event));
    outages::report(&known, &requests, reached, &mut |event| found.push(event));
    found.sort_by_key(order);
    found
}

/// A connection, or the last one before it that was used.
fn last_used(known: &[Known<'_>], mut at: usize) -> usize {
    while let Some(before) = known[at].before.filter(|_| known[at].history.first_used.is_none()) {
        at = before;
    }
    at
}

/// The sort key of events.
pub(super) fn order(event: &SessionEvent) -> (Time, ConnectionId, Kind) {
    (event.time, event.connection, event.kind)
}

/// Reports calls that failed in the same way on a connection and on later ones of its chain.
fn failed_again(known: &[Known<'_>], report: &mut dyn FnMut(SessionEvent)) {
    // A connection always follows an earlier one, so its root is known already.
    let mut roots: Vec<usize> = Vec::with_capacity(known.len());
    for (index, one) in known.iter().enumerate() {
        roots.push(one.before.map_or(index, |before| roots[before]));
    }
    let connections = known.iter().zip(&roots).map(|(one, root)| failing::Through {
        id: one.id,
        root: known[*root].id,
        failing: &one.history.failing,
        end: ended(&one.history),
        is_lossy: one.history.lost_packets_at_end(),
    });
    for story in failing::stories(connections) {
        let [first, .., last] = story.connections.as_slice() else { continue };
        report(SessionEvent {
            connection: *first,
            other: Some(*last),
            through: story.connections.clone(),
            by_requester: story.by_requester,
            duration: Some(story.length()),
            count: story.calls,
            frames: [Some(story.first_call.frame), Some(story.last.frame)],
            ..event(story.first_call.time, Kind::CallFailsAgain, story.text())
        });
    }
}

/// The packets that ended a connection: a NAK, and the message that closed it. The NAK is its cause.
fn ended(history: &History) -> Option<failing::End> {
    let fatal = history.fatal();
    let nak = fatal.map(|(_, by_requester, failure)| {
        format!("{}'s {} ({failure})", end_name(by_requester), refusal_name(failure))
    });
    let then = history.disconnected.map(|closed| match closed.by_requester {
        Some(by_requester) => format!("{}'s {}", end_name(by_requester), closed.how.name()),
        None => closed.how.name().to_owned(),
    });
    let last = history.disconnected.map(|closed| closed.seen).or(fatal.map(|(seen, ..)| seen))?;
    let how: Vec<String> = nak.into_iter().chain(then).collect();
    let by_requester = match fatal {
        Some((_, by_requester, _)) => Some(by_requester),
        None => history.disconnected.and_then(|closed| closed.by_requester),
    };
    Some(failing::End { seen: last, how: how.join(", then "), by_requester })
}

/// Reports calls that waited although later ones were answered, and callbacks that waited: the
/// longest of each operation.
fn passed(history: &History, reached: Reached, report: &mut dyn FnMut(SessionEvent)) {
    let mut known: Vec<(Call, u64)> = Vec::new();
    for call in &history.passed {
        let key = |call: &Call| (call.protocol, call.label, call.direction, call.reply.is_some());
        match known.iter_mut().find(|(other, _)| key(other) == key(call)) {
            Some((longest, count)) => {
                *count += 1;
                if call.waited() > longest.waited() {
                    *longest = *call;
                }
            }
            None => known.push((*call, 1)),
        }
    }
    for (call, count) in known {
        let name = match (call.direction, call.label) {
            (Direction::Backward, Label::Unknown) => "an unknown callback".to_owned(),
            (Direction::Backward, _) => format!("callback {}", failing::called(call.protocol, call.label)),
            (Direction::Forward, _) => failing::called(call.protocol, call.label),
        };
        let waited = Duration(call.waited());
        let until = match call.until {
            Some(time) if time >= reached.time && history.disconnected.is_none() => "until the capture ended",
            _ => "until its connection ended",
        };
        let how = match (call.reply, call.is_unread) {
            (Some(_), _) => format!("waited {waited} for its reply"),
            (None, false) => format!("had no reply for {waited}, {until}"),
            (None, true) => {
                format!(
                    "had no reply for {waited}, {until}: the server did not begin with it and never read its Read chunk"
                )
            }
        };
        let while_others =
            if call.direction == Direction::Forward { "; later calls were answered" } else { "" };
        let most = if count > 1 { format!(" (the longest of {count})") } else { String::new() };
        report(SessionEvent {
            duration: Some(call.waited()),
            count,
            frames: [Some(call.seen.frame), call.reply.map(|reply| reply.frame)],
            ..event(
                call.seen.time,
                Kind::CallWaited,
                format!("{name} (XID 0x{:08x}) {how}{while_others}{most}", call.xid.0),
            )
        });
    }
}

/// Reports DREQs that were sent again and never answered.
fn disconnect_unanswered(one: &Known<'_>, report: &mut dyn FnMut(SessionEvent)) {
    let history = &one.history;
    let Some((from, run)) = history.disconnect_requests else { return };
    if history.is_disconnect_answered || run.count < 2 || !history.captured_hosts[from.other()] {
        return;
    }
    let by_requester = from == history.requester;
    let text = format!(
        "{} sent its DREQ {} times in {}, never answered",
        end_name(by_requester),
        run.count,
        Duration(run.length())
    );
    report(event_of_run(run, by_requester, Kind::DisconnectUnanswered, text));
}

/// Reports times in which all credits were in use. The last may last until the connection or the
/// capture ends.
fn exhausted(history: &History, end: Time, report: &mut dyn FnMut(SessionEvent)) {
    for spell in history.credits.exhausted() {
        let times = Counted(spell.run.count, "time");
        let in_use = in_use(spell.granted);
        let text = format!("{in_use} {times}, {} in total", Duration(spell.length));
        let event = event_of_run(spell.run, spell.granted > 1, Kind::CreditsExhausted, text);
        report(SessionEvent { duration: Some(spell.length), ..event });
    }
    let Some((since, granted)) = history.credits.exhausted_since() else { return };
    let end = history.disconnected.map_or(end, |closed| closed.seen.time);
    let length = end.since(since.time);
    if length >= SILENCE {
        let text = format!("{} for {}, never freed", in_use(granted), Duration(length));
        report(SessionEvent {
            by_requester: Some(granted > 1),
            duration: Some(length),
            frames: [Some(since.frame), None],
            ..event(since.time, Kind::CreditsExhausted, text)
        });
    }
}

/// A description of calls that use all credits.
fn in_use(granted: u32) -> String {
    match granted {
        0 | 1 => format!("server grants {}, one call at a time:", Counted(u64::from(granted), "credit")),
        _ => format!("all {granted} credits in use"),
    }
}

/// Reports how the connection was made or why it was not, and how it ended.
fn established(
    one: &Known<'_>,
    before: Option<ConnectionId>,
    (request_times, end): (&[(Time, usize)], Time),
    report: &mut dyn FnMut(SessionEvent),
) {
    let Known { history, summary, .. } = one;
    let begun = history.setup.requests.map(|run| run.first);
    if let Some((seen, by_requester, message)) = history.setup.rejected {
        report(SessionEvent {
            by_requester: Some(by_requester),
            duration: begun.map(|begun| seen.time.since(begun.time)),
            frames: [begun.map(|begun| begun.frame), Some(seen.frame)],
            ..event(
                seen.time,
                Kind::Rejected,
                format!(
                    "{} rejected the connection, {}",
                    end_name(by_requester),
                    Rejection(message, summary.port)
                ),
            )
        });
    }
    if let Some(run) = history.setup.requests.filter(|_| history.is_settled()) {
        let is_alone = summary.state == State::Requested && history.setup.reply.is_none();
        let kind = match is_alone {
            true if one.has_unanswered_requests(request_times, end) => Some(Kind::RequestUnanswered),
            false if run.count > 1 => Some(Kind::RequestRepeated),
            _ => None,
        };
        if let Some(kind) = kind {
            let times = match run.count {
                1 => "once".to_owned(),
                count => format!("{count} times in {}", Duration(run.length())),
            };
            let is_answered_before = history.setup.reply.is_some_and(|reply| reply.frame < run.last.frame);
            let then = match () {
                () if is_alone => "never answered",
                // The answers, or the client's packets that follow them, were lost.
                () if is_answered_before => "answered before the last one",
                () => "then answered",
            };
            let text = format!("client sent its {} {times}, {then}", one.request_name());
            report(event_of_run(run, true, kind, text));
        }
    }
    let made = history.setup.ready.or(history.setup.reply);
    if one.was_established()
        && history.is_settled()
        && let Some(first) = begun.or(made)
    {
        let duration = begun.zip(made).map(|(begun, made)| made.time.since(begun.time));
        let again = before.map_or(String::new(), |id| format!(" again after connection {}", id.0));
        let how_long = duration.map_or(String::new(), |duration| format!(", in {}", Duration(duration)));
        report(SessionEvent {
            other: before,
            by_requester: begun.map(|_| true),
            duration,
            frames: [Some(first.frame), Some(made.unwrap_or(first).frame)],
            ..event(first.time, Kind::Connected, format!("connected{again}{how_long}"))
        });
    }
}

/// Reports that a connection was closed. `next` is the connection that followed it.
fn disconnected(one: &Known<'_>, next: Option<&Known<'_>>, report: &mut dyn FnMut(SessionEvent)) {
    let Known { history, summary, .. } = one;
    // A capture of one direction lacks the replies. Others may be missing.
    let is_captured = one.summary.captured_ends == [true; 2];
    let left = match history.unanswered.iter().filter(|call| call.is_complete).count() as u64 {
        waiting @ 1.. if is_captured => format!("; {} had no reply", Counted(waiting, "call")),
        _ => String::new(),
    };
    match history.disconnected {
        // The end that rejects a connection over TCP also closes it.
        Some(_) if history.setup.rejected.is_some() => {}
        Some(Closed { seen, by_requester, how, .. }) => {
            let next = next.filter(|next| next.replaces(one, seen.time)).map(|next| next.id);
            let who = by_requester.map_or("one end", end_name);
            let silence = next.and_then(|_| silence(history, seen.time));
            let silence =
                silence.map_or(String::new(), |length| format!(" after {} without calls", Duration(length)));
            let again = next
                .map_or(String::new(), |id| format!("; the client asked for connection {} at once", id.0));
            report(SessionEvent {
                other: next,
                by_requester,
                frames: [Some(seen.frame), Some(seen.frame)],
                ..event(
                    seen.time,
                    Kind::Disconnected,
                    format!("{who} closed the connection ({}){silence}{left}{again}", how.name()),
                )
            });
        }
        None if summary.state == State::Closed => {
            let how = match summary.is_iwarp {
                true => "its TCP ports were reused by another connection; the capture has no FIN",
                false => "its queue pair was reused by another connection; the capture has no DREQ",
            };
            report(event(summary.last, Kind::Disconnected, format!("{how}{left}")));
        }
        None => {}
    }
}

/// The time without calls before a connection was closed, if it is long and all calls had replies.
fn silence(history: &History, closed: Time) -> Option<u64> {
    let (call, reply) = (history.last_used?.0, history.last_reply?);
    let length = closed.since(call.time.max(reply.time));
    (history.unanswered.is_empty() && length >= SILENCE).then_some(length)
}

/// The message by which an end reports a failure.
const fn refusal_name(failure: Failure) -> &'static str {
    if let Failure::Terminated { .. } = failure { "Terminate" } else { "NAK" }
}

/// Reports NAKs and RNR NAKs.
fn refused(history: &History, report: &mut dyn FnMut(SessionEvent)) {
    for Burst { from, refusal, run } in &history.bursts {
        let by_requester = *from == history.requester;
        let sender = end_name(by_requester);
        let (kind, description) = match refusal {
            Refusal::ReceiverNotReady(_) => {
                let count = Counted(run.count, "RNR NAK");
                let why = "not ready (no Receive posted, or memory paged out)";
                (Kind::RnrNak, format!("{count}: {sender} {why}"))
            }
            Refusal::OutOfSequence => {
                (Kind::Nak, format!("{} from the {sender}: PSN sequence error", Counted(run.count, "NAK")))
            }
            Refusal::Failed(failure) => {
                let count = Counted(run.count, refusal_name(*failure));
                (Kind::Nak, format!("{count} from the {sender}: {failure}"))
            }
        };
        let how_long = if run.count > 1 { format!(", in {}", Duration(run.length())) } else { String::new() };
        report(event_of_run(*run, by_requester, kind, format!("{description}{how_long}")));
    }
}

/// Reports requests that were sent until their sender gave up.
fn retried(one: &Known<'_>, end: Time, report: &mut dyn FnMut(SessionEvent)) {
    let Known { history, .. } = one;
    for from in End::BOTH {
        let Some(retry) = history.retries[from] else { continue };
        let run = retry.run;
        let is_over = history.disconnected.is_some_and(|closed| closed.seen.time >= run.last.time);
        let is_known = history.captured_hosts[from.other()] && !history.lacks(from.other(), run.first.time);
        if run.count < RETRIES || !is_known || !(is_over || end.since(run.last.time) >= SILENCE) {
            continue;
        }
        let by_requester = from == history.requester;
        let request = match retry.piece.operation {
            Operation::ReadRequest => format!("RDMA Read of {}", Bytes(u64::from(retry.read_length))),
            Operation::Write => "RDMA Write".to_owned(),
            Operation::Send => "Send".to_owned(),
            _ => retry.piece.name.to_owned(),
        };
        let then = if is_over { "DREQ" } else { "silence" };
        let text = format!(
            "{}'s {request} sent {} times in {}, never answered; then {then}",
            end_name(by_requester),
            run.count,
            Duration(run.length())
        );
        report(event_of_run(run, by_requester, Kind::RetriesExhausted, text));
    }
}

/// Reports calls that were sent again on the next connection.
fn replayed(before: &Known<'_>, one: &Known<'_>, report: &mut dyn FnMut(SessionEvent)) {
    let mut calls: Vec<_> = one.repeats(before).map(|call| call.seen).collect();
    calls.sort_unstable_by_key(|seen| (seen.time, seen.frame));
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return };
    let count = calls.len() as u64;
    let text =
        format!("{} that had no reply on connection {} sent again", Counted(count, "call"), before.id.0);
    let run = Run { first: *first, last: *last, count };
    report(SessionEvent { other: Some(before.id), ..event_of_run(run, true, Kind::CallsReplayed, text) });
}
