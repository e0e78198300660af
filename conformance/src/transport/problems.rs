//! Counts of NAKs, retransmissions, and packets with a bad ICRC.

use super::Read;
use crate::check::{Findings, View};
use crate::credits;
use crate::finding::{Finding, Value};
use crate::known::Known;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::{Kind, Observed, Refused, Repeated, Sent};
use rdmascope_dissector::rdma::{End, Failure, Position, Refusal};
use rdmascope_dissector::transaction::Seen;

/// Delivery problems of the packets that one end sent or received.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryProblems {
    /// Its packets with a bad ICRC, or its segments with a bad TCP checksum.
    spoiled: Tally,
    /// RNR NAKs that it sent.
    not_ready: Tally,
    /// NAKs for a PSN sequence error that it sent.
    sequence: Tally,
    /// The request that it retransmits.
    pub(super) again: Option<Retransmission>,
    /// The last request that it answered with an RNR NAK, unless a later message shows that the
    /// request arrived.
    pub(super) unready: Option<Unready>,
    /// The PSN that it expected when it sent its last NAK for a PSN sequence error.
    expected: Option<Position>,
    /// Its last acknowledged position when the connection was closed, if it was.
    at_close: Option<Option<Position>>,
}

/// A request that was answered with an RNR NAK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unready {
    pub(super) psn: Position,
    /// Its first transmission, or the NAK if that is not known.
    frame: u64,
}

/// A count, with the frames of the first occurrences and of the last.
#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    frames: Vec<u64>,
    last: u64,
}

/// A request that is retransmitted repeatedly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retransmission {
    pub(super) psn: Position,
    pub(super) times: u32,
    /// The first transmission, if it is still known.
    original: Option<u64>,
    first: Seen,
    last: Seen,
}

impl Tally {
    /// Frames that are kept besides the last.
    const MOST_FRAMES: usize = Finding::MOST_FRAMES - 1;

    fn note(&mut self, frame: u64) {
        self.count += 1;
        self.last = frame;
        if self.frames.len() < Tally::MOST_FRAMES {
            self.frames.push(frame);
        }
    }

    /// Reports a nonzero count for end `by`, in the words `one` or `several`.
    fn report(&self, by: Option<End>, one: &str, several: &str, findings: &mut Findings<'_>) {
        if self.count > 0 {
            let finding = Finding::new(match self.count {
                1 => format!("{one} in frame {}", self.last),
                count => format!("{count} {several}, the first in frame {}", self.frames[0]),
            });
            let frames = self.frames.iter().copied().chain([self.last]);
            let finding = Finding { by, ..finding };
            findings.add(finding.frames(frames).observed(Value::Count(self.count)));
        }
    }
}

impl Retransmission {
    /// The number of retransmissions that shows that no acknowledgement arrived.
    pub(super) const CERTAIN: u32 = 3;
}

impl DeliveryProblems {
    /// Heap bytes that its lists take up.
    pub(super) fn footprint(&self) -> usize {
        let tallies = [&self.spoiled, &self.not_ready, &self.sequence];
        tallies.map(|tally| size_of_val(&tally.frames[..])).iter().sum()
    }

    fn note_repeated(&mut self, repeated: &Repeated, acknowledged: Option<Position>) {
        let Repeated { seen, first, position: psn, .. } = *repeated;
        let is_over =
            |again: &Retransmission| acknowledged.is_some_and(|until| again.psn.distance(until) >= 0);
        match &mut self.again {
            Some(again) if again.psn == psn => {
                again.times += 1;
                again.last = seen;
            }
            // It continues after the PSN that it went back to.
            Some(again) if !is_over(again) && again.psn.distance(psn) > 0 => {}
            again => {
                let original = first.map(|first| first.frame);
                *again = Some(Retransmission { psn, times: 1, original, first: seen, last: seen });
            }
        }
    }
}

/// Records an observation other than a Send.
pub(super) fn observe(problems: &mut [DeliveryProblems; 2], observed: &Observed<'_>, known: &Known) {
    match observed {
        Observed::Spoiled(spoiled) => problems[spoiled.from].spoiled.note(spoiled.seen.frame),
        Observed::Refused(Refused { from, seen, position: psn, refusal, request, .. }) => match refusal {
            Refusal::ReceiverNotReady(_) => {
                problems[*from].not_ready.note(seen.frame);
                let frame = request.unwrap_or(*seen).frame;
                problems[*from].unready = Some(Unready { psn: *psn, frame });
            }
            Refusal::OutOfSequence => {
                problems[*from].sequence.note(seen.frame);
                problems[*from].expected = Some(*psn);
            }
            Refusal::Failed(_) => {}
        },
        Observed::Repeated(repeated) => {
            let acknowledged = known.half_flows[repeated.from].acknowledged.map(|(psn, _)| psn);
            problems[repeated.from].note_repeated(repeated, acknowledged);
        }
        Observed::Closes(_) => {
            for (problems, half_flow) in problems.iter_mut().zip(&known.half_flows) {
                problems.at_close.get_or_insert(half_flow.acknowledged.map(|(psn, _)| psn));
            }
        }
        _ => {}
    }
}

/// Records a Send. A receiver takes Sends in order, so an answer to a call shows that this call and
/// all earlier ones arrived.
#[inline]
pub(super) fn note_sent(problems: &mut [DeliveryProblems; 2], sent: &Sent<'_>) {
    let unready = &mut problems[sent.from].unready;
    if unready.is_some() && matches!(sent.kind, Kind::Reply | Kind::Error) {
        *unready = unready.filter(|unready| sent.call.is_none_or(|[_, last]| last.frame < unready.frame));
    }
}

impl View<'_, Read> {
    /// Whether this end's packet with this PSN was acknowledged.
    pub(super) fn is_acknowledged(&self, from: End, psn: Position) -> bool {
        self.half_flows[from].acknowledged.is_some_and(|(until, _)| psn.distance(until) >= 0)
    }

    /// The request that this end retransmitted more than once without an acknowledgement, before the
    /// connection was closed. A single retransmission at the end of a capture is not reported.
    pub(super) fn unacknowledged_request(&self, from: End) -> Option<&Retransmission> {
        let DeliveryProblems { again, at_close, .. } = &self.memory.0.problems[from];
        let acknowledged = at_close.unwrap_or_else(|| self.half_flows[from].acknowledged.map(|(psn, _)| psn));
        let is_over =
            |again: &&Retransmission| acknowledged.is_some_and(|until| again.psn.distance(until) >= 0);
        again.as_ref().filter(|again| again.times > 1 && !is_over(again))
    }
}

/// The failure in a NAK that ends the connection.
pub(crate) fn is_fatal(refusal: Refusal) -> Option<Failure> {
    match refusal {
        Refusal::ReceiverNotReady(_) | Refusal::OutOfSequence => None,
        Refusal::Failed(failure) => Some(failure),
    }
}

pub(super) fn fatal(refused: &Refused, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(failure) = is_fatal(refused.refusal).filter(|_| !refused.position.counts_bytes()) else {
        return;
    };
    let request = refused.request.map(|request| request.frame);
    let subject = match request {
        Some(frame) => format!("the request of frame {frame}"),
        None => "a request that is too old or not in the capture".to_owned(),
    };
    // An access error is the responder's own if it advertised that memory. Memory with a reply may be
    // freed after a time (reliable-reply draft, section 4.1.3). An operational error may be its own,
    // or that of a Send too long for a Receive. An invalid request to advertised memory may exceed a
    // limit that is not on the wire. The others mean that an RDMA operation was wrong, if the capture
    // has all messages of the responder, which advertise its memory.
    let is_invalid = failure == Failure::InvalidRequest;
    let advertised = refused.advertised.filter(|_| !is_invalid);
    let is_wrong = refused.is_operation && !(is_invalid && refused.advertised.is_some());
    let (from, psn) = (refused.from, refused.position);
    let (by, message) = match (advertised, failure) {
        (Some((Seen { frame, .. }, false)), _) => (
            Some(from),
            format!(
                "it refused {subject}, on memory that it advertised in frame {frame}: NAK, {failure}, at PSN {psn}"
            ),
        ),
        (Some((Seen { frame, .. }, true)), _) => (
            None,
            format!(
                "{subject} was refused, on memory that the reply of frame {frame} offers: NAK, {failure}, \
                 at PSN {psn}: the offer may have been over"
            ),
        ),
        (None, Failure::RemoteOperation) => (
            None,
            format!(
                "{subject} was refused: NAK, {failure}, at PSN {psn}: a fault of the receiver, or a Send \
                 too long for its Receive"
            ),
        ),
        // If no packet of this end was acknowledged, the capture lacks the message that advertises the
        // memory.
        (None, _)
            if is_wrong && view.is_fully_captured(from) && view.half_flows[from].acknowledged.is_some() =>
        {
            (Some(from.other()), format!("the other end refused {subject}: NAK, {failure}, at PSN {psn}"))
        }
        (None, _) => (None, format!("{subject} was refused: NAK, {failure}, at PSN {psn}")),
    };
    let frames =
        request.into_iter().chain(advertised.map(|(seen, _)| seen.frame)).chain([refused.seen.frame]);
    let finding = Finding { by, ..Finding::new(message) };
    findings.add(finding.frames(frames).observed(Value::Words(failure.to_string())));
}

pub(super) fn spoiled(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if !connection.is_iwarp {
        report_spoiled(["a packet with a bad ICRC", "packets with a bad ICRC"], view, findings);
    }
}

/// The same for TCP.
pub(crate) fn damaged(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if connection.is_iwarp {
        let words = ["a segment with a bad TCP checksum", "segments with a bad TCP checksum"];
        report_spoiled(words, view, findings);
    }
}

fn report_spoiled([one, several]: [&'static str; 2], view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for (end, problems) in End::BOTH.into_iter().zip(&view.memory.0.problems) {
        problems.spoiled.report(Some(end), one, several, findings);
    }
}

pub(super) fn not_ready(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for (end, problems) in End::BOTH.into_iter().zip(&view.memory.0.problems) {
        let by = credits::at_fault(view.memory.1, end);
        problems.not_ready.report(by, "an RNR NAK", "RNR NAKs", findings);
    }
}

pub(super) fn sequence(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for (end, problems) in End::BOTH.into_iter().zip(&view.memory.0.problems) {
        problems.sequence.report(
            Some(end),
            "a NAK for a PSN sequence error",
            "NAKs for a PSN sequence error",
            findings,
        );
    }
}

pub(super) fn unacknowledged(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for from in End::BOTH {
        let Some(again) = view.unacknowledged_request(from) else { continue };
        let Retransmission { psn, times, original, first, last } = *again;
        let took = last.time.since(first.time) / 1_000_000;
        let expected = view.memory.0.problems[from.other()].expected;
        let expected = expected.filter(|expected| expected.distance(psn) > 0);
        let waits = expected.map(|expected| format!(", while the other end waits for PSN {expected}"));
        let sender = if from == view.requester { "the Requester" } else { "the Responder" };
        let message = format!(
            "{} {psn} of {sender} was retransmitted {times} times within {took} ms and {}{}",
            psn.unit(),
            match view.is_acknowledged(from, psn) {
                true => "not acknowledged before the connection was closed",
                false => "never acknowledged",
            },
            waits.unwrap_or_default()
        );
        // The packets, or the acknowledgements, may also be lost on the way.
        findings.add(
            Finding::new(message)
                .frames(original.into_iter().chain([first.frame, last.frame]))
                .observed(Value::Count(times.into()))
                .unless(times < Retransmission::CERTAIN || !view.has_packets_from(from.other())),
        );
    }
}
