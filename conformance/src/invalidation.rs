//! Remote invalidation (RFC 8797, sections 3.2 and 4.1).

use super::check::{Check, Checked, Findings, View};
use super::chunks;
use super::finding::{Basis, Finding, Value};
use super::judged::{by_sender, on_answer, xid_of};
use super::known::{Known, Memory, is_close};
use super::memory::AdvertisedMemory;
use super::rule::{Document, Level, Source, Unseen};
use alloc::format;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::Kind;
use rdmascope_dissector::observation::{Revoked, Sent};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Message, Part, Transaction};
use rdmascope_wire::private_data;
use rdmascope_wire::rpcrdma::{Procedure, VERSION};
use rdmascope_wire::{Rkey, Xid};

const R: Source = Source { document: Document::Rfc8797, section: "4.1" };
const DEFAULT: Source = Source { document: Document::Rfc8797, section: "5.1" };
const SUPPORT: Source = Source { document: Document::Rfc8797, section: "3.2" };
const DONE: Source = Source { document: Document::ReliableReply, section: "4.1.4" };

/// Implementations known to break invalidation-sender-flag: which ones, the effect, and the option
/// that allows it.
pub(crate) const KNOWN: (&str, &str) = (
    "invalidation-sender-flag",
    "Linux servers do this, and it harms no client that set R: --allow invalidation-sender-flag \
        leaves it out of the exit status.",
);

pub(crate) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "invalidation-receiver-flag",
        level: Level::Violation,
        sources: &[R, DEFAULT, DONE],
        sentence: "No end uses Send with Invalidate towards a peer that left the R flag clear.",
        explanation: "An end that sends no valid private data leaves the R flag clear. Each end \
            is reported once, when the connection ends, with the number of such Sends and the \
            first of them. The finding is inconclusive if the capture lacks the CM message or MPA \
            start frame of the receiver. If the capture contains one direction only, and neither \
            end's message, this finding also covers invalidation-sender-flag.",
        check: Check::Connection(receiver_flag),
    },
    Checked {
        id: "invalidation-sender-flag",
        level: Level::Violation,
        sources: &[R, DEFAULT, DONE],
        sentence: "An end that left the R flag clear does not use Send with Invalidate.",
        explanation: "Both ends have to set the R flag, not only the one whose memory is \
            invalidated. Linux servers up to the newest leave it clear and use Send with \
            Invalidate towards clients that set it. A receiver that set it takes no harm, so this \
            rule is separate from invalidation-receiver-flag, and can be left out of the exit \
            status with --allow invalidation-sender-flag. Each end is reported once, when the \
            connection ends, with the number of such Sends and the first of them. The finding is \
            inconclusive if the capture lacks the CM message or MPA start frame of the sender.",
        check: Check::Connection(sender_flag),
    },
    Checked {
        id: "invalidation-call",
        level: Level::Violation,
        sources: &[R],
        sentence: "A Requester does not send an RPC call with Invalidate.",
        explanation: "Remote invalidation is allowed in replies, for handles that belong to their \
            XID. Before a call is answered, the Responder has advertised none. A Long Call is \
            inconclusive: if the capture lacks the call, a reply in a Read chunk of the Responder \
            looks the same.",
        check: Check::Sent(call),
    },
    Checked {
        id: "invalidation-handle",
        level: Level::Violation,
        sources: &[R, DONE],
        sentence: "A Send with Invalidate names a handle that the message it answers advertised.",
        explanation: "A reply or an RDMA_ERROR may invalidate a handle of its call's chunks. An \
            RDMA_DONE may invalidate a handle of the Responder's Read chunk. The rule is broken \
            by any other handle, such as one that another call advertised. The finding is \
            reported once it is certain that the Requester did not retransmit the call with other \
            chunks. If it did, nothing is reported, because the reply may belong to the first of \
            the two.",
        check: Check::Transaction(handle),
    },
    Checked {
        id: "invalidation-shared",
        level: Level::Violation,
        sources: &[R],
        sentence: "A Send with Invalidate names a handle that no other open transaction advertised.",
        explanation: "The handle has to belong only to the XID of the Send. The finding is \
            inconclusive if the other call was sent so shortly before that the capture may show \
            the two in the wrong order, or if packets of the sender are missing, because the \
            reply to the other call may be among them.",
        check: Check::Revoked(shared),
    },
    Checked {
        id: "invalidation-done",
        level: Level::Warning,
        sources: &[DONE],
        sentence: "If both ends set the R flag, RDMA_DONE is a Send with Invalidate.",
        explanation: "The rule covers only an RDMA_DONE that ends a transaction with a Read chunk \
            of the Responder.",
        check: Check::Transaction(plain_done),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: SUPPORT,
        requirement: "A Responder knows that its own RDMA stack supports remote invalidation before it uses it.",
        reason: "An end's knowledge of its own stack is not on the wire. invalidation-sender-flag \
            judges the flag that it announces in the CM exchange.",
    },
    Unseen {
        source: SUPPORT,
        requirement: "A Requester that sets R exposes no handle that must not be invalidated remotely.",
        reason: "A handle does not show whether it may be invalidated.",
    },
    Unseen {
        source: SUPPORT,
        requirement: "A receiver invalidates the handle of a Send with Invalidate, and reports it with the Receive.",
        reason: "This happens inside the receiver. memory-after-invalidation reports a later \
            operation on the memory.",
    },
];

/// The state that its rules read.
pub(crate) type Read = (InvalidationUse, AdvertisedMemory);

/// The use of remote invalidation by each end.
#[derive(Clone, Debug, Default)]
pub(crate) struct InvalidationUse {
    used: [Option<Used>; 2],
}

/// The Sends with Invalidate of an end, except calls.
#[derive(Clone, Copy, Debug)]
struct Used {
    sends: u64,
    /// Of the first Send: the handle, the end that called the transaction, rdma_xid and its
    /// packets.
    rkey: Rkey,
    caller: End,
    xid: Option<Xid>,
    frames: [u64; 2],
}

impl Memory for InvalidationUse {
    fn sent(&mut self, sent: &Sent<'_>, _: &Known) {
        let Some(rkey) = sent.send.invalidated else { return };
        let caller = match sent.kind {
            Kind::Reply | Kind::Error if sent.is_explicit => sent.from.other(),
            Kind::Done if sent.is_explicit => sent.from,
            _ => return,
        };
        let frames = [sent.send.first.frame, sent.send.seen.frame];
        let first = Used { sends: 0, rkey, caller, xid: xid_of(sent), frames };
        self.used[sent.from].get_or_insert(first).sends += 1;
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

impl Known {
    /// Whether an end set R, according to the CM messages or MPA start frames seen so far; `None`
    /// if the capture lacks its message.
    fn set_r(&self, end: End) -> Option<bool> {
        let connection = self.established.as_deref()?;
        let endpoint = if end == self.requester { &connection.requester } else { &connection.responder };
        match endpoint.private_data {
            Some(data) => Some(data.version == private_data::VERSION && data.remote_invalidation),
            None => connection.remote_invalidation.map(|_| false),
        }
    }

    /// Whether the capture contains nothing that the receiver of an end's Sends sent, and neither
    /// end's flag is known.
    fn hides_both_flags(&self, from: End) -> bool {
        !self.has_packets_from(from.other()) && End::BOTH.into_iter().all(|end| self.set_r(end).is_none())
    }
}

/// True for a Send with Invalidate that is not a reply.
pub(crate) fn may_break(sent: &Sent<'_>) -> bool {
    sent.send.invalidated.is_some() && sent.kind != Kind::Reply
}

/// True if RDMA_DONE ended the transaction, if its call or reply is missing, or if the reply
/// invalidates a handle that its call does not list.
pub(crate) fn may_break_in_transaction(transaction: &Transaction) -> bool {
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return true };
    transaction.done.is_some() || reply.invalidated.is_some_and(|rkey| !lists(call, rkey))
}

fn receiver_flag(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let mut judge = |from: End| flag((from, from.other()), "receiver", view, findings);
    End::BOTH.into_iter().for_each(&mut judge);
}

fn sender_flag(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    // If the capture contains only one direction and neither flag is known,
    // invalidation-receiver-flag alone reports that.
    let ends = End::BOTH.into_iter().filter(|from| !view.hides_both_flags(*from));
    ends.for_each(|from| flag((from, from), "sender", view, findings));
}

fn flag((from, end): (End, End), role: &str, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(Used { sends, rkey, caller, xid, frames }) = view.memory.0.used[from] else {
        return;
    };
    let set = view.set_r(end);
    if set == Some(true) {
        return;
    }
    let (subject, end_name) = match sends {
        1 => (format!("a Send with Invalidate of handle {rkey}"), format!("its {role}")),
        sends => {
            (format!("{sends} Sends with Invalidate, the first of handle {rkey}"), format!("their {role}"))
        }
    };
    let message = match set {
        Some(_) => format!("{subject}, and {end_name} left R clear"),
        None if view.hides_both_flags(from) => {
            format!(
                "{subject}; the capture contains nothing from their receiver and does not show \
                    whether either end set R"
            )
        }
        None => format!("{subject}, and it is unknown whether {end_name} set R"),
    };
    findings.add(
        Finding::new(message)
            .by(from)
            .about(Some(view.direction(caller)), xid)
            .frames(frames)
            .observed(Value::Count(sends))
            .unless(set.is_none()),
    );
}

fn call(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(rkey) = sent.send.invalidated.filter(|_| sent.kind == Kind::Call && sent.is_explicit) else {
        return;
    };
    let is_long = sent.header.is_none_or(|header| header.procedure != Procedure::Msg);
    findings.add(
        by_sender(sent, view, format!("a call that invalidates handle {rkey}"))
            .values(Value::Name("Send with Invalidate"), Value::Name("Send"))
            .unless(is_long),
    );
}

fn handle(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(reply) = &transaction.reply else { return };
    if reply.invalidated.is_none() && transaction.done.is_none() {
        return;
    }
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    let Some(call) = &transaction.call else { return };
    // The lists of a header of another version are unknown. header-version reports that.
    let is_known = call.version == VERSION;
    if let Some(rkey) = reply.invalidated.filter(|rkey| is_known && !lists(call, *rkey)) {
        let lacks = view.memory.1.may_lack(view, caller, transaction)
            || call.stop.is_some()
            || call.missing.iter().any(|missing| missing.part == Part::Send);
        let message = format!("a reply that invalidates handle {rkey}, which its call did not advertise");
        findings.add(
            on_answer(transaction, view, message)
                .observed(Value::Hexadecimal(rkey.0.into()))
                .rests_on(Basis::Pairing(caller))
                .unless(lacks),
        );
    }
    let done = done(transaction, view);
    let provided = || reply.read_chunks.iter().flat_map(|chunk| &chunk.segments);
    if let Some((frame, Some(rkey))) = done
        && provided().all(|segment| segment.handle != rkey)
    {
        findings.add(
            Finding::new(format!("RDMA_DONE invalidates handle {rkey}, which the reply did not provide"))
                .by(caller)
                .of(transaction)
                .message(reply)
                .frames([frame])
                .observed(Value::Hexadecimal(rkey.0.into()))
                .rests_on(Basis::Silence(answerer))
                .unless(reply.stop.is_some() || view.losses(answerer) > 0),
        );
    }
}

/// The RDMA_DONE that just ended a transaction: its packet, and the handle that it invalidates.
fn done(transaction: &Transaction, view: &View<'_, Read>) -> Option<(u64, Option<Rkey>)> {
    let frame = transaction.done?.frame;
    let last = view.memory.1.last(view.caller(transaction.direction))?;
    (last.seen.frame == frame).then_some((frame, last.invalidated))
}

/// Whether a message advertises memory under this handle.
fn lists(message: &Message, rkey: Rkey) -> bool {
    chunks::segments(message).any(|(segment, _)| segment.handle == rkey)
}

fn shared(revoked: &Revoked, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    // invalidation-handle covers a handle that its own call did not advertise.
    if !view.memory.1.ended_with(revoked.seen.frame, revoked.rkey) {
        return;
    }
    let Revoked { from, rkey, xid, .. } = *revoked;
    let other = revoked.advertiser.xid;
    findings.add(
        Finding::new(format!(
            "a Send with Invalidate of handle {rkey}, which the open call {other} also advertised"
        ))
        .by(from)
        .about(Some(view.direction(revoked.advertiser.caller)), xid)
        .frames([revoked.seen.frame, revoked.since.frame])
        .observed(Value::Hexadecimal(rkey.0.into()))
        .unless(
            is_close(revoked.since, revoked.seen) || view.losses(from) > 0 || view.losses(from.other()) > 0,
        ),
    );
}

fn plain_done(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if transaction.done.is_none() {
        return;
    }
    let both = End::BOTH.into_iter().all(|end| view.set_r(end) == Some(true));
    let (Some((frame, None)), true) = (done(transaction, view), both) else { return };
    findings.add(
        Finding::new("RDMA_DONE in a plain Send, although both ends support remote invalidation")
            .by(view.caller(transaction.direction))
            .of(transaction)
            .frames([frame])
            .values(Value::Name("Send"), Value::Name("Send with Invalidate")),
    );
}
