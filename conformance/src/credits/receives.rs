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
    /// The capture contains everything that both ends sent up to that point.
    is_whole: bool,
}

impl Receives {
    /// Sends that are kept.
    const MOST: usize = 32;

    #[inline]
    pub(super) fn note(&mut self, sent: &Sent<'_>, calls: Option<Calls>) {
        self.sends[self.next] =
            Some(Flight { position: sent.send.position, extent: sent.send.extent, calls });
        self.next = (self.next + 1) % Receives::MOST;
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
        receives.unclear += 1;
        return;
    };
    let calls = flight.calls;
    if calls.is_none_or(|calls| calls.in_flight <= u64::from(calls.least)) {
        let frames = [refused.request.map(|request| request.frame), Some(refused.seen.frame)];
        let is_whole = known.is_whole(sender) && known.is_whole(refused.from);
        receives.within.0 += 1;
        receives.within.1.get_or_insert(Unready { calls, frames, is_whole });
    } else if calls.is_some_and(|calls| calls.in_flight > u64::from(calls.most)) {
        receives.above += 1;
    } else {
        receives.unclear += 1;
    }
}

/// Whether every Send that `receiver` refused for lack of a Receive exceeded the credits.
pub(crate) fn was_overrun(credits: &Credits, receiver: End) -> bool {
    let receives = &credits[receiver.other()].receives;
    receives.above > 0 && receives.within.0 == 0 && receives.unclear == 0
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
        findings.add(finding.by(receiver).frames(first.frames.into_iter().flatten()).unless(!first.is_whole));
    }
}
