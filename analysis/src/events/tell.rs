//! Makes events of the gathered facts.

use super::course::{Burst, Call, Closed, Course, RECOVERY, Summary};
use super::known::{Known, Reached, end_name, event, link};
use super::{Kind, SILENCE, SessionEvent, failing, outages};
use crate::names::Rejection;
use crate::units::{Bytes, Counted, Duration};
use rdmascope_dissector::connection::{ConnectionId, State};
use rdmascope_dissector::rdma::{End, Failure, Operation, Refusal};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Direction;

/// The least number of transmissions after which the sender of a request may have given up.
const RETRIES: u64 = 3;

/// The events of these connections, in a capture that has come to `reached`.
pub(super) fn events<'a>(
    courses: impl Iterator<Item = (ConnectionId, &'a Course, Summary, Vec<Call>)>,
    reached: Reached,
) -> Vec<SessionEvent> {
    let end = reached.time;
    let mut known: Vec<Known<'_>> = courses
        .map(|(id, course, summary, waiting)| Known {
            id,
            course,
            summary,
            waiting,
            before: None,
            after: None,
        })
        .collect();
    known.sort_by_key(|known| (known.course.steps_before, known.summary.first, known.id));
    let requests = link(&mut known);
    let mut found = Vec::new();
    for (index, one) in known.iter().enumerate() {
        let (id, course, before) = (one.id, one.course, one.before);
        let mut tell = |event: SessionEvent| found.push(SessionEvent { connection: id, ..event });
        let asked = requests.get(&one.ends()).map_or(&[][..], Vec::as_slice);
        established(one, before.map(|at| known[at].id), (asked, end), &mut tell);
        refused(course, &mut tell);
        retried(one, end, &mut tell);
        passed(course, reached, &mut tell);
        left(one, &mut tell);
        if let Some(before) = before {
            replayed(&known[before], one, &mut tell);
            recovered(course, &mut tell);
        }
        exhausted(course, end, &mut tell);
        debug_assert!(before.is_none_or(|before| before < index), "a connection follows an earlier one");
    }
    failed_again(&known, &mut |event| found.push(event));
    outages::tell(&known, &requests, reached, &mut |event| found.push(event));
    found.sort_by_key(order);
    found
}

/// The sort key of events.
pub(super) fn order(event: &SessionEvent) -> (Time, ConnectionId, Kind) {
    (event.time, event.connection, event.kind)
}

/// Reports calls that failed in the same way on a connection and on later ones of its chain.
fn failed_again(known: &[Known<'_>], tell: &mut dyn FnMut(SessionEvent)) {
    // A connection always follows an earlier one, so its root is known already.
    let mut roots: Vec<usize> = Vec::with_capacity(known.len());
    for (index, one) in known.iter().enumerate() {
        roots.push(one.before.map_or(index, |before| roots[before]));
    }
    let connections = known.iter().zip(&roots).map(|(one, root)| failing::Through {
        id: one.id,
        root: known[*root].id,
        failing: &one.course.failing,
        end: ended(one.course),
    });
    for story in failing::stories(connections) {
        let [first, .., last] = story.connections.as_slice() else { continue };
        tell(SessionEvent {
            connection: *first,
            other: Some(*last),
            through: story.connections.clone(),
            by_requester: Some(true),
            duration: Some(story.length()),
            count: story.calls,
            frames: [Some(story.first_call.frame), Some(story.last.frame)],
            ..event(story.first_call.time, Kind::CallFailsAgain, story.text())
        });
    }
}

/// The packets that ended a connection: a NAK, and the message that closed it.
fn ended(course: &Course) -> Option<failing::End> {
    let fatal = course.fatal();
    let nak = fatal.map(|(_, by_requester, failure)| format!("{}'s NAK ({failure})", end_name(by_requester)));
    let then = course.disconnected.map(|closed| match closed.by_requester {
        Some(by_requester) => format!("{}'s {}", end_name(by_requester), closed.how.name()),
        None => closed.how.name().to_owned(),
    });
    let last = course.disconnected.map(|closed| closed.seen).or(fatal.map(|(seen, ..)| seen))?;
    let how: Vec<String> = nak.into_iter().chain(then).collect();
    Some(failing::End { seen: last, how: how.join(", then ") })
}

/// Reports calls that waited although later ones were answered, and callbacks that waited: the
/// longest of each operation.
fn passed(course: &Course, reached: Reached, tell: &mut dyn FnMut(SessionEvent)) {
    let mut known: Vec<(Call, u64)> = Vec::new();
    for call in &course.passed {
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
        let whose = if call.direction == Direction::Backward { "callback " } else { "" };
        let name = failing::called(call.protocol, call.label);
        let waited = Duration(call.waited());
        let until = match call.until {
            Some(time) if time >= reached.time && course.disconnected.is_none() => "until the capture ended",
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
        tell(SessionEvent {
            duration: Some(call.waited()),
            count,
            frames: [Some(call.seen.frame), call.reply.map(|reply| reply.frame)],
            ..event(
                call.seen.time,
                Kind::CallWaited,
                format!("{whose}{name} (XID 0x{:08x}) {how}{while_others}{most}", call.xid.0),
            )
        });
    }
}

/// Reports DREQs that were sent again and never answered.
fn left(one: &Known<'_>, tell: &mut dyn FnMut(SessionEvent)) {
    let course = one.course;
    let Some((from, run)) = course.leaving else { return };
    if course.is_left || run.count < 2 || !course.heard[from.other()] {
        return;
    }
    let by_requester = from == course.requester;
    let text = format!(
        "{} sent its DREQ {} times in {}, never answered",
        end_name(by_requester),
        run.count,
        Duration(run.length())
    );
    tell(SessionEvent {
        by_requester: Some(by_requester),
        duration: Some(run.length()),
        count: run.count,
        frames: [Some(run.first.frame), Some(run.last.frame)],
        ..event(run.first.time, Kind::DisconnectUnanswered, text)
    });
}

/// Reports times in which all credits were in use. The last may last until the connection or the
/// capture ends.
fn exhausted(course: &Course, end: Time, tell: &mut dyn FnMut(SessionEvent)) {
    for spell in &course.exhausted {
        let times = Counted(spell.run.count, "time");
        let text =
            format!("all {} credits in use {times}, {} in total", spell.granted, Duration(spell.length));
        tell(SessionEvent {
            by_requester: Some(true),
            duration: Some(spell.length),
            count: spell.run.count,
            frames: [Some(spell.run.first.frame), Some(spell.run.last.frame)],
            ..event(spell.run.first.time, Kind::CreditsExhausted, text)
        });
    }
    let Some((since, granted)) = course.exhausted_since() else { return };
    let end = course.disconnected.map_or(end, |closed| closed.seen.time);
    let length = end.since(since.time);
    if length >= SILENCE {
        let text = format!("all {granted} credits in use for {}, never freed", Duration(length));
        tell(SessionEvent {
            by_requester: Some(true),
            duration: Some(length),
            frames: [Some(since.frame), None],
            ..event(since.time, Kind::CreditsExhausted, text)
        });
    }
}

/// Reports how the connection was made or why it was not, and how it ended.
fn established(
    one: &Known<'_>,
    before: Option<ConnectionId>,
    (asked, end): (&[Time], Time),
    tell: &mut dyn FnMut(SessionEvent),
) {
    let Known { course, summary, .. } = one;
    let begun = course.requests.map(|run| run.first);
    if let Some((seen, by_requester, reason, data)) = course.rejected {
        tell(SessionEvent {
            by_requester: Some(by_requester),
            duration: begun.map(|begun| seen.time.since(begun.time)),
            frames: [begun.map(|begun| begun.frame), Some(seen.frame)],
            ..event(
                seen.time,
                Kind::Rejected,
                format!(
                    "{} rejected the connection, {}",
                    end_name(by_requester),
                    Rejection(reason, data, summary.port)
                ),
            )
        });
    }
    if let Some(run) = course.requests {
        let frames = [Some(run.first.frame), Some(run.last.frame)];
        let is_alone = summary.state == State::Requested && course.reply.is_none();
        let kind = match is_alone {
            true if one.asked_in_vain(asked, end) => Some(Kind::RequestUnanswered),
            false if run.count > 1 => Some(Kind::RequestRepeated),
            _ => None,
        };
        if let Some(kind) = kind {
            let times = match run.count {
                1 => "once".to_owned(),
                count => format!("{count} times in {}", Duration(run.length())),
            };
            let then = if is_alone { "never answered" } else { "then answered" };
            let request = if summary.is_iwarp { "MPA Request" } else { "REQ" };
            tell(SessionEvent {
                by_requester: Some(true),
                duration: Some(run.length()),
                count: run.count,
                frames,
                ..event(run.first.time, kind, format!("client sent its {request} {times}, {then}"))
            });
        }
    }
    let made = course.ready.or(course.reply);
    if one.stood()
        && let Some(first) = begun.or(made)
    {
        let duration = begun.zip(made).map(|(begun, made)| made.time.since(begun.time));
        let again = before.map_or(String::new(), |id| format!(" again after connection {}", id.0));
        let how_long = duration.map_or(String::new(), |duration| format!(", in {}", Duration(duration)));
        tell(SessionEvent {
            other: before,
            by_requester: begun.map(|_| true),
            duration,
            frames: [Some(first.frame), Some(made.unwrap_or(first).frame)],
            ..event(first.time, Kind::Connected, format!("connected{again}{how_long}"))
        });
    }
    // A capture of one direction lacks the replies.
    let is_heard = one.summary.heard == [true; 2];
    let left = match course.unanswered.len() as u64 {
        waiting @ 1.. if is_heard => format!("; {} had no reply", Counted(waiting, "call")),
        _ => String::new(),
    };
    match course.disconnected {
        // The end that rejects a connection over TCP also closes it.
        Some(_) if course.rejected.is_some() => {}
        Some(Closed { seen, by_requester, how, .. }) => tell(SessionEvent {
            by_requester,
            frames: [Some(seen.frame), Some(seen.frame)],
            ..event(
                seen.time,
                Kind::Disconnected,
                format!(
                    "{} closed the connection ({}){left}",
                    by_requester.map_or("one end", end_name),
                    how.name()
                ),
            )
        }),
        None if summary.state == State::Closed => {
            let how = match summary.is_iwarp {
                true => "its TCP ports were reused by another connection; the capture has no FIN",
                false => "its queue pair was reused by another connection; the capture has no DREQ",
            };
            tell(event(summary.last, Kind::Disconnected, format!("{how}{left}")));
        }
        None => {}
    }
}

/// Reports NAKs and RNR NAKs.
fn refused(course: &Course, tell: &mut dyn FnMut(SessionEvent)) {
    for Burst { from, refusal, run } in &course.bursts {
        let by_requester = *from == course.requester;
        let who = end_name(by_requester);
        let (kind, what) = match refusal {
            Refusal::ReceiverNotReady(_) => {
                (Kind::RnrNak, format!("{}: {who} had no Receive posted", Counted(run.count, "RNR NAK")))
            }
            Refusal::OutOfSequence => {
                (Kind::Nak, format!("{} from the {who}: PSN sequence error", Counted(run.count, "NAK")))
            }
            Refusal::Failed(failure @ Failure::Terminated { .. }) => {
                (Kind::Nak, format!("{} from the {who}: {failure}", Counted(run.count, "Terminate")))
            }
            Refusal::Failed(failure) => {
                (Kind::Nak, format!("{} from the {who}: {failure}", Counted(run.count, "NAK")))
            }
        };
        let how_long = if run.count > 1 { format!(", in {}", Duration(run.length())) } else { String::new() };
        tell(SessionEvent {
            by_requester: Some(by_requester),
            duration: Some(run.length()),
            count: run.count,
            frames: [Some(run.first.frame), Some(run.last.frame)],
            ..event(run.first.time, kind, format!("{what}{how_long}"))
        });
    }
}

/// Reports requests that were sent until their sender gave up.
fn retried(one: &Known<'_>, end: Time, tell: &mut dyn FnMut(SessionEvent)) {
    let Known { course, .. } = one;
    for from in End::BOTH {
        let Some(retry) = course.retries[from] else { continue };
        let run = retry.run;
        let is_over = course.disconnected.is_some_and(|closed| closed.seen.time >= run.last.time);
        let is_known = course.heard[from.other()] && !course.lacks(from.other(), run.first.time);
        if run.count < RETRIES || !is_known || !(is_over || end.since(run.last.time) >= SILENCE) {
            continue;
        }
        let by_requester = from == course.requester;
        let what = match retry.piece.operation {
            Operation::ReadRequest => format!("RDMA Read of {}", Bytes(u64::from(retry.asked))),
            Operation::Write => "RDMA Write".to_owned(),
            Operation::Send => "Send".to_owned(),
            _ => retry.piece.name.to_owned(),
        };
        let then = if is_over { "DREQ" } else { "silence" };
        tell(SessionEvent {
            by_requester: Some(by_requester),
            duration: Some(run.length()),
            count: run.count,
            frames: [Some(run.first.frame), Some(run.last.frame)],
            ..event(
                run.first.time,
                Kind::RetriesExhausted,
                format!(
                    "{}'s {what} sent {} times in {}, never answered; then {then}",
                    end_name(by_requester),
                    run.count,
                    Duration(run.length())
                ),
            )
        });
    }
}

/// Reports calls that were sent again on the next connection.
fn replayed(before: &Known<'_>, one: &Known<'_>, tell: &mut dyn FnMut(SessionEvent)) {
    // The capture may lack the replies to others.
    let left = || before.course.unanswered.iter().filter(|call| call.until.is_some());
    let mut calls: Vec<_> = one
        .course
        .calls
        .iter()
        .filter(|call| left().any(|other| other.xid == call.xid))
        .map(|call| call.seen)
        .collect();
    calls.sort_unstable_by_key(|seen| (seen.time, seen.frame));
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return };
    let count = calls.len() as u64;
    let text =
        format!("{} that had no reply on connection {} sent again", Counted(count, "call"), before.id.0);
    tell(SessionEvent {
        other: Some(before.id),
        by_requester: Some(true),
        duration: Some(last.time.since(first.time)),
        count,
        frames: [Some(first.frame), Some(last.frame)],
        ..event(first.time, Kind::CallsReplayed, text)
    });
}

/// Reports calls that set up client ID, session and state again.
fn recovered(course: &Course, tell: &mut dyn FnMut(SessionEvent)) {
    let Some(run) = course.recovering else { return };
    let named = RECOVERY.iter().zip(course.recovery).filter(|(_, count)| *count > 0);
    let named: Vec<String> = named.map(|((_, name), count)| format!("{count} {name}")).collect();
    tell(SessionEvent {
        by_requester: Some(true),
        duration: Some(run.length()),
        count: course.recovery.iter().sum(),
        frames: [Some(run.first.frame), Some(run.last.frame)],
        ..event(run.first.time, Kind::Recovery, format!("recovery: {}", named.join(", ")))
    });
}
