//! Credits (RFC 8166, section 3.3.1; RFC 8167, section 4.1).
//!
//! Each direction has its own credits. The count of calls in flight is a lower bound: a call counts
//! only while the capture shows no reply to it and lacks no packet that could be the reply. A
//! lowered grant applies only once the Requester has acknowledged the reply that carries it. A
//! count above the grant is therefore a violation, even if the capture is incomplete.

mod receives;

use super::bounded;
use super::check::{Check, Checked, Findings, View};
use super::finding::{Basis, Finding, Value};
use super::judged::by_sender;
use super::known::{Known, Memory};
use super::rule::{Document, Level, Source, Unseen};
use super::unmatched::{kind_is_guess, may_be_reply};
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::Kind;
use rdmascope_dissector::observation::{HalfFlow, Observed, Sent};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Seen};
pub(crate) use receives::at_fault;
use receives::{Calls, Receives};

const CREDITS: Source = Source { document: Document::Rfc8166, section: "3.3.1" };
const REVERSE: Source = Source { document: Document::Rfc8167, section: "4.1" };
const FIRST: Source = Source { document: Document::Rfc8166, section: "3.3.3" };

pub(crate) const RULES: &[Checked<Credits>] = &[
    Checked {
        id: "credit-limit",
        level: Level::Violation,
        sources: &[CREDITS, REVERSE],
        sentence: "A Requester has no more requests in flight than the Responder granted.",
        explanation: "A request is in flight from its call to its reply. Each direction is \
            counted separately. The limit is the grant in the last reply; a lowered grant applies \
            from 2 ms after the Requester acknowledged the reply that carries it, and a grant of \
            0 counts as 1. An acknowledgement is from the adapter, and its software may take the \
            reply later, so the finding is inconclusive if only a grant that was acknowledged less \
            than 1 s ago is exceeded. Calls sent \
            before the capture began are not counted, nor are calls whose replies may be among \
            packets that the capture lacks. The finding is reported once the capture is known to \
            contain every reply that the Responder sent before the call. It is inconclusive if the \
            Responder sent a message within 2 ms after the call without acknowledging the call \
            first, because the capture may have reordered them.",
        check: Check::Sent(limit),
    },
    Checked {
        id: "credit-first-reply",
        level: Level::Violation,
        sources: &[FIRST, REVERSE],
        sentence: "A Requester has at most one request in flight until the first reply grants \
            credits.",
        explanation: "Each direction is counted separately. The rule applies only if the capture \
            contains the connection from its CM exchange on. Captured order is judged as for \
            credit-limit.",
        check: Check::Sent(first_reply),
    },
    Checked {
        id: "credit-grant-zero",
        level: Level::Violation,
        sources: &[CREDITS, REVERSE],
        sentence: "A Responder does not grant zero credits.",
        explanation: "The rule covers every reply and every RDMA_ERROR whose direction is known.",
        check: Check::Sent(grant_of_zero),
    },
    Checked {
        id: "credit-request-zero",
        level: Level::Warning,
        sources: &[CREDITS],
        sentence: "A Requester asks for at least one credit.",
        explanation: "A Requester may have as many requests in flight as the lower of its own \
            request and the grant. A request for zero credits allows none, not even the call that \
            carries it.",
        check: Check::Sent(request_for_zero),
    },
    Checked {
        id: "credit-beyond-request",
        level: Level::Warning,
        sources: &[CREDITS],
        sentence: "A Requester has no more requests in flight than the credits that it requested.",
        explanation: "The limit is the lower of the credits requested and the credits granted. \
            Requests in flight are counted, and captured order is judged, as for credit-limit. The \
            credits requested are the rdma_credit value of the call itself.",
        check: Check::Sent(beyond_request),
    },
    Checked {
        id: "credit-grant-lowered",
        level: Level::Advice,
        sources: &[CREDITS],
        sentence: "A Responder that lowers its grant lowers the number of requests that its Requester can have in flight.",
        explanation: "Lowering the grant is allowed at any time. The finding names the reply that \
            lowered it, and the grant before and after.",
        check: Check::Sent(lowered),
    },
    Checked {
        id: "credit-starvation",
        level: Level::Advice,
        sources: &[CREDITS],
        sentence: "A Requester that has used all its credits cannot send until a reply arrives.",
        explanation: "The rule adds up the time during which the requests in flight used up the \
            grant. It reports the total once for each direction, when the connection ends, if it \
            is at least one hundredth of the connection's lifetime.",
        check: Check::Connection(starved),
    },
    Checked {
        id: "credit-receive",
        level: Level::Warning,
        sources: &[CREDITS],
        sentence: "A receiver has a Receive posted for each call within the credits that it \
            granted, and for each reply to its own calls.",
        explanation: "An RNR NAK means that no Receive was posted. The rule compares the calls in \
            flight when the refused call was sent with the grant at that time, which is 1 before \
            the first reply. If more calls were in flight, the Requester is at fault: \
            credit-limit and credit-first-reply report it, and refusal-not-ready then names the \
            Requester. Each end is reported once, when the connection ends, with its first such \
            NAK. An adapter may also send an RNR NAK while it pages in a buffer, so the rule is a \
            warning. The finding is inconclusive if the capture does not contain everything that \
            both ends sent before.",
        check: Check::Connection(receives::missing),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: CREDITS,
        requirement: "A Responder prepares more Receive buffers before it sends the reply that grants the credits for them.",
        reason: "Receive buffers are not on the wire. A missing one causes an RNR NAK, which has \
            other causes too.",
    },
    Unseen {
        source: CREDITS,
        requirement: "A Requester keeps enough Receive buffers for the replies that it expects.",
        reason: "Receive buffers are not on the wire. A missing one causes an RNR NAK, which has \
            other causes too.",
    },
    Unseen {
        source: Source { document: Document::Rfc8167, section: "4.3.1" },
        requirement: "A client posts Receive buffers for the reverse-direction credits that it \
            grants, in addition to one for each reply that it expects.",
        reason: "Receive buffers are not on the wire. A missing one causes an RNR NAK, which has \
            other causes too.",
    },
    Unseen {
        source: Source { document: Document::Rfc8167, section: "4.3.2" },
        requirement: "A server posts Receive buffers for the credits that it grants, in addition to one for each reply to its own calls.",
        reason: "Receive buffers are not on the wire. A missing one causes an RNR NAK, which has \
            other causes too.",
    },
    Unseen {
        source: REVERSE,
        requirement: "A receiver ignores the credit value of a message whose direction it cannot \
            determine.",
        reason: "The effect of a received value is visible only in later messages. The judge \
            itself counts credits as required.",
    },
];

/// The credits of each end as a Requester.
pub(crate) type Credits = [RequesterCredits; 2];

/// The credits of the requests that one end sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequesterCredits {
    /// Calls that are certainly in flight.
    in_flight: u64,
    /// Packets that the capture lacked when counting began.
    since: u64,
    /// [`HalfFlow::unsure`] of the half-flow of replies when counting began.
    unsure: u32,
    /// The credits that the last call requested.
    requested: Option<u32>,
    /// Grants that differ from the one before, latest last.
    grants: VecDeque<Grant>,
    /// The frame of the latest reply.
    last_reply: Option<u64>,
    /// A message may have been a reply, although the capture lacks its call.
    may_be_answered: bool,
    /// When the calls in flight reached the grant; `None` while credits are left.
    full: Option<Time>,
    /// Nanoseconds during which all credits were in use.
    starved: u64,
    /// The frame of the call that first used up the credits.
    first_starved: Option<u64>,
    /// The last Sends of this end in either direction, and those for which its peer had no Receive.
    receives: Receives,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
struct Grant {
    credits: u32,
    /// The last PSN of the reply that carries it.
    psn: Position,
    seen: Seen,
    /// When the capture shows that the caller had acknowledged that reply.
    received: Option<Time>,
}

impl Grant {
    /// When the capture shows that the caller had acknowledged the reply. `other` is the half-flow of
    /// replies.
    fn received_by(&self, other: &HalfFlow) -> Option<Time> {
        let covering = || other.acknowledged.filter(|(psn, _)| self.psn.distance(*psn) >= 0);
        self.received.or_else(|| covering().map(|(_, seen)| seen.time.max(self.seen.time)))
    }

    /// The calls that it allows. With a grant of 0 the Requester could never call again, so it may
    /// send one (credit-grant-zero reports the Responder).
    fn allows(&self) -> u32 {
        self.credits.max(1)
    }
}

/// The credits of one direction, as far as a capture shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditState {
    /// Calls without a reply that are certainly in flight.
    pub in_flight: u64,
    /// The credits that the last call requested.
    pub requested: Option<u32>,
    /// The credits that the last reply granted.
    pub granted: Option<u32>,
}

impl RequesterCredits {
    pub(crate) fn now(&self) -> CreditState {
        let granted = self.grants.back().map(|grant| grant.credits);
        CreditState { in_flight: self.in_flight, requested: self.requested, granted }
    }

    /// Grants that are kept.
    const MOST: usize = 32;
    /// Nanoseconds that a sender usually takes to apply a grant after its adapter has acknowledged it.
    const APPLY_DELAY: u64 = 2_000_000;
    /// Nanoseconds after which the software of a sender has taken a reply that its adapter has
    /// acknowledged. It runs, because it sends a call.
    const TAKEN: u64 = 1_000_000_000;

    /// The largest grant that the caller may still apply when it sends at `now`, if it applies a grant
    /// this `delay` after its acknowledgement; `None` if unknown. `other` is the half-flow of replies.
    fn granted(&self, (now, delay): (Time, u64), from_start: bool, other: &HalfFlow) -> Option<u32> {
        let is_applied =
            |grant: &Grant| grant.received_by(other).is_some_and(|received| now.since(received) > delay);
        let newest = self.grants.iter().rev();
        let has_all = from_start
            && self.since == 0
            && !self.may_be_answered
            && self.grants.len() < RequesterCredits::MOST;
        let until = match newest.clone().position(is_applied) {
            Some(at) => at + 1,
            None if has_all => self.grants.len(),
            // The sender may apply an earlier grant that the capture lacks.
            None => return None,
        };
        newest.take(until).map(Grant::allows).max()
    }

    /// Whether a reply was seen, or may have been.
    fn has_reply(&self) -> bool {
        self.last_reply.is_some() || self.may_be_answered
    }

    /// The calls in flight, the one just sent included, and the grants that limit them.
    fn calls(&self, now: Time, from_start: bool, other: &HalfFlow) -> Calls {
        let Some(latest) = self.grants.back() else {
            let is_first = from_start && !self.has_reply();
            let (least, most) = if is_first { (1, 1) } else { (0, u32::MAX) };
            return Calls { in_flight: self.in_flight, least, most };
        };
        // Most calls are far within the latest grant and need no closer look.
        let allowed = latest.allows();
        let is_within = self.in_flight <= u64::from(allowed);
        let granted = || self.granted((now, RequesterCredits::TAKEN), from_start, other);
        let most = if is_within { allowed } else { granted().unwrap_or(u32::MAX) };
        Calls { in_flight: self.in_flight, least: allowed, most }
    }

    /// Records which grants the caller has received. `other` is the half-flow of replies.
    #[inline]
    fn note_received(&mut self, other: &HalfFlow) {
        // An acknowledgement covers every earlier reply too.
        if self.grants.back().is_none_or(|latest| latest.received.is_some()) {
            return;
        }
        for grant in &mut self.grants {
            grant.received = grant.received_by(other);
        }
    }

    /// The frames of the reply that set the current grant, and of the latest reply.
    fn granting_frames(&self) -> impl Iterator<Item = u64> {
        self.grants.back().map(|grant| grant.seen.frame).into_iter().chain(self.last_reply)
    }

    /// Forgets the calls in flight, because it is no longer known which of them still are.
    pub(crate) fn forget_calls(&mut self) {
        self.in_flight = 0;
        self.full = None;
    }

    fn note_call(&mut self, sent: &Sent<'_>, credits: u32, other: &HalfFlow) {
        self.requested = Some(credits);
        self.begin(sent, other);
        self.in_flight += u64::from(counts(sent));
        let granted = self.grants.back().map(|grant| u64::from(grant.allows()));
        if granted.is_some_and(|granted| self.in_flight >= granted) && self.full.is_none() {
            self.full = Some(sent.send.seen.time);
            self.first_starved.get_or_insert(sent.send.seen.frame);
        }
    }

    /// Records that a call was answered.
    fn note_end(&mut self, sent: &Sent<'_>, other: &HalfFlow) {
        self.begin(sent, other);
        if sent.missing_at_call == Some(self.since) {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        if let Some(since) = self.full.take() {
            self.starved = self.starved.saturating_add(sent.send.seen.time.since(since));
        }
        self.last_reply = Some(sent.send.seen.frame);
    }

    fn note_reply(&mut self, sent: &Sent<'_>, credits: u32, other: &HalfFlow) {
        self.note_end(sent, other);
        if self.grants.back().is_none_or(|grant| grant.credits != credits) {
            let grant = Grant { credits, psn: sent.send.last(), seen: sent.send.seen, received: None };
            bounded::push(&mut self.grants, RequesterCredits::MOST, grant);
        }
    }

    /// Restarts the count if packets are missing that could be replies or could carry a higher
    /// grant.
    #[inline]
    fn begin(&mut self, sent: &Sent<'_>, other: &HalfFlow) {
        if !self.is_count_valid(sent, other) {
            self.in_flight = 0;
            self.full = None;
            self.grants.clear();
            (self.since, self.unsure) = (sent.missing_packets, other.unsure);
        }
        self.note_received(other);
    }

    /// Whether the count is still valid. `other` is the half-flow of replies.
    #[inline]
    fn is_count_valid(&self, sent: &Sent<'_>, other: &HalfFlow) -> bool {
        sent.missing_packets == self.since && other.unsure == self.unsure
    }

    /// The calls in flight, including a call that is sent now.
    fn with(&self, sent: &Sent<'_>, other: &HalfFlow) -> u64 {
        let before = if self.is_count_valid(sent, other) { self.in_flight } else { 0 };
        before + u64::from(counts(sent))
    }
}

/// Whether a call adds to the calls in flight. A call whose XID is outstanding is a retransmission,
/// or its reply cannot be distinguished from that of the other call. A Send with missing bytes is
/// not certainly a call, because a receiver discards a message that is too short (RFC 8166, section
/// 4.5).
fn counts(sent: &Sent<'_>) -> bool {
    !sent.outstanding && sent.send.missing.is_none()
}

/// True unless the Send is a call within the credits requested and granted, or a reply with the
/// same grant as the one before.
pub(crate) fn may_break(sent: &Sent<'_>, known: &Known, credits: &Credits) -> bool {
    let Some(header) = sent.header else { return false };
    let caller = if sent.kind == Kind::Call { sent.from } else { sent.from.other() };
    let credits = &credits[caller];
    let Some(grant) = credits.grants.back() else { return true };
    match sent.kind {
        Kind::Call => {
            let most = header.credits.min(grant.allows());
            most == 0 || credits.with(sent, &known.half_flows[caller.other()]) > u64::from(most)
        }
        _ => header.credits != grant.credits || header.credits == 0,
    }
}

impl Memory for Credits {
    fn footprint(&self) -> usize {
        self.iter().map(|one| one.grants.len() * size_of::<Grant>()).sum()
    }

    fn sent(&mut self, sent: &Sent<'_>, known: &Known) {
        let Some(header) = sent.header.filter(|_| sent.paired) else { return };
        let from = sent.from;
        let is_guess = kind_is_guess(sent);
        if !sent.is_explicit || is_guess {
            let credits = &mut self[from.other()];
            credits.may_be_answered = true;
            // Only its XID shows its kind: enough to end the call, not to change the grant.
            if sent.outstanding && matches!(sent.kind, Kind::Reply | Kind::Error) {
                credits.note_end(sent, &known.half_flows[from]);
            }
            if sent.is_explicit {
                credits.grants.clear();
            }
            return;
        }
        match sent.kind {
            Kind::Call => {
                self[from.other()].may_be_answered |= may_be_reply(sent, known);
                let credits = &mut self[from];
                credits.note_call(sent, header.credits, &known.half_flows[from.other()]);
                let other = &known.half_flows[from.other()];
                let calls = credits.calls(sent.send.first.time, known.holds_start(), other);
                credits.receives.note(sent, Some(calls));
            }
            Kind::Reply | Kind::Error => {
                self[from.other()].note_reply(sent, header.credits, &known.half_flows[from]);
                if sent.outstanding {
                    self[from].receives.note(sent, None);
                }
            }
            Kind::Done | Kind::Other => {}
        }
    }

    fn observed(&mut self, observed: &Observed<'_>, known: &Known) {
        match observed {
            Observed::Refused(refused) => receives::note_refused(self, refused, known),
            Observed::Corrected(corrected) => {
                self.iter_mut().for_each(RequesterCredits::forget_calls);
                self[corrected.from.other()].may_be_answered = true;
            }
            _ => {}
        }
    }

    fn evicted(&mut self, caller: End) {
        self[caller].forget_calls();
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

/// A number of requests, in words.
fn requests(count: u64) -> String {
    if count == 1 { "1 request".to_owned() } else { format!("{count} requests") }
}

/// A number of credits with its verb, in words.
fn were(credits: u64) -> String {
    match credits {
        0 => "none was".to_owned(),
        1 => "1 was".to_owned(),
        credits => format!("{credits} were"),
    }
}

/// rdma_credit of a call: the credits requested.
fn request(sent: &Sent<'_>) -> Option<u32> {
    sent.header.filter(|_| sent.is_explicit && sent.kind == Kind::Call).map(|header| header.credits)
}

/// rdma_credit of a reply or an RDMA_ERROR: the credits granted.
fn grant(sent: &Sent<'_>) -> Option<u32> {
    let answers = matches!(sent.kind, Kind::Reply | Kind::Error);
    let is_shown = sent.is_explicit && !kind_is_guess(sent);
    sent.header.filter(|_| is_shown && answers).map(|header| header.credits)
}

/// The basis of a finding on the calls in flight when this one was sent.
fn unanswered(call: &Sent<'_>) -> Basis {
    Basis::Unanswered(call.from.other(), call.send.last(), call.send.seen.time)
}

fn limit(sent: &Sent<'_>, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    if request(sent).is_none() || !sent.paired {
        return;
    }
    let (credits, other) = (&view.memory[sent.from], sent.from.other());
    let in_flight = credits.with(sent, &view.half_flows[other]);
    // Most calls are far from the limit and need no closer look at which grant applies.
    if credits.grants.back().is_none_or(|grant| in_flight <= u64::from(grant.allows())) {
        return;
    }
    let granted = |delay: u64| {
        let moment = (sent.send.first.time, delay);
        credits.granted(moment, view.holds_start(), &view.half_flows[other]).map_or(u64::MAX, u64::from)
    };
    let is_taken = in_flight > granted(RequesterCredits::TAKEN);
    let granted = granted(RequesterCredits::APPLY_DELAY);
    if in_flight <= granted {
        return;
    }
    findings.add(
        by_sender(sent, view, format!("{} in flight where {} granted", requests(in_flight), were(granted)))
            .frames(credits.granting_frames())
            .values(Value::Count(in_flight), Value::Count(granted))
            .rests_on(if is_taken { unanswered(sent) } else { Basis::Lacking }),
    );
}

fn first_reply(sent: &Sent<'_>, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    let (credits, other) = (&view.memory[sent.from], sent.from.other());
    if request(sent).is_none() || credits.has_reply() || !view.holds_start() {
        return;
    }
    let in_flight = credits.with(sent, &view.half_flows[other]);
    if in_flight <= 1 {
        return;
    }
    let basis = if view.lost[other] == 0 { unanswered(sent) } else { Basis::Lacking };
    findings.add(
        by_sender(sent, view, format!("{} in flight before the first reply", requests(in_flight)))
            .values(Value::Count(in_flight), Value::Count(1))
            .rests_on(basis),
    );
}

fn grant_of_zero(sent: &Sent<'_>, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    if grant(sent) == Some(0) {
        let finding = by_sender(sent, view, "a reply that grants no credits");
        findings.add(finding.values(Value::Count(0), Value::Words("1 or more".to_owned())));
    }
}

fn request_for_zero(sent: &Sent<'_>, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    if request(sent) == Some(0) {
        let finding = by_sender(sent, view, "a call that asks for no credits");
        findings.add(finding.values(Value::Count(0), Value::Words("1 or more".to_owned())));
    }
}

fn beyond_request(sent: &Sent<'_>, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    let Some(requested) = request(sent).filter(|requested| *requested > 0 && sent.paired) else { return };
    let in_flight = view.memory[sent.from].with(sent, &view.half_flows[sent.from.other()]);
    if in_flight > u64::from(requested) {
        findings.add(
            by_sender(
                sent,
                view,
                format!("{} in flight where {} requested", requests(in_flight), were(requested.into())),
            )
            .values(Value::Count(in_flight), Value::Count(requested.into()))
            .rests_on(unanswered(sent)),
        );
    }
}

fn lowered(sent: &Sent<'_>, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    let Some(granted) = grant(sent) else { return };
    let Some(before) = view.memory[sent.from.other()].grants.back().filter(|grant| grant.credits > granted)
    else {
        return;
    };
    let message = format!("the grant went from {} to {granted}", before.credits);
    findings.add(
        by_sender(sent, view, message)
            .frames([before.seen.frame])
            .values(Value::Count(granted.into()), Value::Count(before.credits.into())),
    );
}

fn starved(connection: &Connection, view: &View<'_, Credits>, findings: &mut Findings<'_>) {
    let life = connection.last.since(connection.first);
    for (caller, credits) in End::BOTH.into_iter().zip(view.memory) {
        if credits.starved == 0 || credits.starved < life / 100 {
            continue;
        }
        let direction = view.direction(caller);
        let message = format!(
            "all credits of the {} direction were in use for {} of {} ms",
            if direction == Direction::Forward { "forward" } else { "reverse" },
            credits.starved / 1_000_000,
            life / 1_000_000
        );
        let finding = Finding { direction: Some(direction), ..Finding::new(message) };
        findings.add(
            finding
                .by(caller.other())
                .frames(credits.first_starved)
                .observed(Value::Nanoseconds(credits.starved)),
        );
    }
}
