//! Sends that met no posted Receive, with the credits in use when they were sent.

use super::{Credits, requests, were};
use crate::check::{Findings, View};
use crate::finding::{Finding, Value};
use crate::known::Known;
use alloc::borrow::ToOwned;
use alloc::format;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::{Refused, Sent};
use rdmascope_dissector::rdma::{End, Position, Refusal};

/// The latest Sends of an end, and the counts of those for which its peer had no Receive.
#[derive(Clone, Debug, Default)]
pub(super) struct Receives {
    sends: [Option<Flight>; Receives::MOST],
    next: usize,
    /// The first of the latest calls that all exceeded the credits.
    exceeding: Option<Position>,
    /// Refused although they were within the credits: the count and the first.
    within: (u64, Option<Unready>),
    /// Refused because they exceeded the credits.
    pub(super) above: u64,
    /// Refused, with an unknown number of calls in flight or an unknown grant.
    unclear: u64,
}

/// A Send, and the calls in flight with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    position: Position,
    extent: u32,
    /// `None` for a reply.
    calls: Option<Calls>,
}

/// Calls in flight, including the caller's own, and the lowest and the highest grant that may
/// apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub(super) in_flight: u64,
    pub(super) least: u32,
    pub(super) most: u32,
}

/// A Send that was refused.
#[derive(Clone, Copy, Debug)]
struct Unready {
    calls: Option<Calls>,
    frames: [Option<u64>; 2],
    /// The capture contains everything that both ends sent up to this and to each further refusal.
    is_fully_captured: bool,
}

impl Receives {
    /// Sends that are kept.
    const MOST: usize = 32;

    #[inline]
    pub(super) fn note(&mut self, sent: &Sent<'_>, calls: Option<Calls>) {
        if let Some(calls) = calls {
            let is_above = calls.in_flight > u64::from(calls.most);
            self.exceeding = is_above.then(|| self.exceeding.unwrap_or(sent.send.position));
        }
        self.sends[self.next] =
            Some(Flight { position: sent.send.position, extent: sent.send.extent, calls });
        self.next = (self.next + 1) % Receives::MOST;
    }

    /// Whether a Send that is not kept is one of the latest calls that exceeded the credits.
    fn is_exceeding(&self, position: Position) -> bool {
        self.exceeding.is_some_and(|first| first.distance(position) >= 0)
    }
}

/// Records a NAK: classifies the refused Send by the credits in use when it was sent.
pub(super) fn note_refused(credits: &mut Credits, refused: &Refused, known: &Known) {
    let (Refusal::ReceiverNotReady(_), sender) = (refused.refusal, refused.from.other()) else { return };
    let receives = &mut credits[sender].receives;
    let holds = |flight: &&Flight| {
        (0..flight.extent.max(1) as i32).contains(&flight.position.distance(refused.position))
    };
    let Some(flight) = receives.sends.iter().flatten().find(holds) else {
        match receives.is_exceeding(refused.position) {
            true => receives.above += 1,
            false => receives.unclear += 1,
        }
        return;
    };
    let calls = flight.calls;
    // Missing packets may have changed the grant.
    let is_fully_captured = known.is_fully_captured(sender) && known.is_fully_captured(refused.from);
    let is_above = calls.is_some_and(|calls| calls.in_flight > u64::from(calls.most));
    if calls.is_none_or(|calls| calls.in_flight <= u64::from(calls.least)) {
        let frames = [refused.request.map(|request| request.frame), Some(refused.seen.frame)];
        receives.within.0 += 1;
        let first = receives.within.1.get_or_insert(Unready { calls, frames, is_fully_captured });
        first.is_fully_captured &= is_fully_captured;
    } else if is_above && is_fully_captured {
        receives.above += 1;
    } else {
        receives.unclear += 1;
    }
}

/// The end at fault for the Sends that `receiver` refused for lack of a Receive: their sender, if all
/// of them exceeded the credits; the receiver, if one was within the credits and the capture has all
/// packets up to there; otherwise unknown.
pub(crate) fn at_fault(credits: &Credits, receiver: End) -> Option<End> {
    let receives = &credits[receiver.other()].receives;
    match (&receives.within.1, receives.above, receives.unclear) {
        (Some(first), ..) => first.is_fully_captured.then_some(receiver),
        (None, 1.., 0) => Some(receiver.other()),
        _ => None,
    }
}

pub(super) fn missing(_: &Connection, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    for sender in End::BOTH {
        let (count, Some(first)) = view.memory[sender].receives.within else { continue };
        let times = match count {
            1 => "an RNR NAK".to_owned(),
            count => format!("{count} RNR NAKs, the first"),
        };
        let receiver = sender.other();
        let finding = match first.calls {
            Some(Calls { in_flight, least, .. }) => Finding::new(format!(
                "{times} to a call with {} in flight where {} granted",
                requests(in_flight),
                were(least.into())
            ))
            .values(Value::Count(in_flight), Value::Count(least.into())),
            None => {
                Finding::new(format!("{times} to a reply, for which its Requester has to have a Receive"))
                    .observed(Value::Count(count))
            }
        };
        findings.add(
            finding.by(receiver).frames(first.frames.into_iter().flatten()).unless(!first.is_fully_captured),
        );
    }
}
