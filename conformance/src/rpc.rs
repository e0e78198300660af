//! RPC messages and their XIDs (RFC 5531; RFC 8166, section 2.2.2; RFC 8167, section 2.4).
//!
//! RPC recovers from a lost connection by retransmitting unanswered calls on the next one, with the
//! same XID. A bounded list of such calls is kept across connections.

mod calls;

use super::check::{Check, Checked, Findings, View};
use super::finding::{Basis, Finding, Value};
use super::header::fault::fault_of;
use super::judged::{about_reply, by_sender};
use super::memory::AdvertisedMemory;
use super::rule::{Document, Level, Source, Unseen};
use super::sessions;
use alloc::borrow::ToOwned;
use alloc::format;
use calls::UnansweredCall;
pub(crate) use calls::{EarlierCalls, UnansweredCalls};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::{CallIdentity, Kind, Sent};
use rdmascope_dissector::transaction::{AuthFault, Message, Outcome, Part, Transaction};
use rdmascope_wire::rpcrdma::VERSION;
use rdmascope_wire::{Cause, Layer, rpc};

const MESSAGE: Source = Source { document: Document::Rfc5531, section: "9" };
const TRANSACTION: Source = Source { document: Document::Rfc8166, section: "2.2.2" };
const XID: Source = Source { document: Document::Rfc8167, section: "2.4" };
const RETRANSMISSION: Source = Source { document: Document::Rfc8167, section: "5.4" };
const NFS_TRANSPORT: Source = Source { document: Document::Rfc8881, section: "2.9.2" };

pub(crate) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "rpc-xid-reused",
        level: Level::Violation,
        sources: &[XID, TRANSACTION, Source { document: Document::Rfc8167, section: "5.1" }, MESSAGE],
        sentence: "A call does not have the XID of another call that is outstanding in its \
            direction.",
        explanation: "Two calls are different if their program, version or procedure differ. They \
            are also different if their inline arguments differ, provided that both have Read \
            chunks at the same Positions or both have none, and that RPCSEC_GSS does not change \
            the arguments with each transmission. Two calls are the same if their Sends are, byte \
            for byte. Each direction has its own XIDs. The finding is reported once it is certain \
            that no reply to the first call is missing. A Send whose header was cut may be that \
            reply.",
        check: Check::Sent(xid_reused),
    },
    Checked {
        id: "rpc-call-repeated",
        level: Level::Warning,
        sources: &[
            Source { document: Document::Rfc5531, section: "5" },
            Source { document: Document::Rfc8166, section: "4.5.5" },
        ],
        sentence: "A Requester does not retransmit a call on the connection on which it is \
            outstanding.",
        explanation: "A reliable connection loses nothing, so the call is still being processed. \
            A retransmission uses another credit and may make the server execute the call twice. \
            rpc-xid-reused defines when two calls are the same. rpc-nfs4-call-repeated covers NFS \
            version 4.",
        check: Check::Sent(call_repeated),
    },
    Checked {
        id: "rpc-nfs4-call-repeated",
        level: Level::Violation,
        sources: &[NFS_TRANSPORT, Source { document: Document::Rfc7530, section: "3.1.1" }],
        sentence: "A Requester retransmits an NFS version 4 request only after the connection \
            that it was sent on is lost.",
        explanation: "The rule is decided like rpc-call-repeated, for COMPOUND and CB_COMPOUND. \
            NFS version 4 requires this.",
        check: Check::Sent(nfs4_call_repeated),
    },
    Checked {
        id: "rpc-reply-without-call",
        level: Level::Violation,
        sources: &[TRANSACTION, XID, MESSAGE],
        sentence: "A reply has the XID of a call that is outstanding on its connection.",
        explanation: "The rule is decided when the connection ends, for replies whose inline \
            Payload stream shows that they are replies. A call that was sent twice may have two \
            replies. A call that the capture shows later than its reply counts as its call. The \
            finding is inconclusive if the capture does not contain the connection from its \
            beginning, lacks packets of the caller, or does not show whether another message with \
            the XID was a call or a reply. header-xid covers replies that have another rdma_xid, or \
            whose call has.",
        check: Check::Connection(reply_without_call),
    },
    Checked {
        id: "rpc-reply-elsewhere",
        level: Level::Violation,
        sources: &[NFS_TRANSPORT, TRANSACTION],
        sentence: "A Responder sends a reply on the connection that delivered the call.",
        explanation: "The rule is broken by a reply without a call on its connection, if its XID \
            is that of a call that was outstanding when an earlier connection between the same \
            two hosts was closed, and that was not retransmitted before. The rule is decided like \
            rpc-reply-without-call.",
        check: Check::Connection(reply_elsewhere),
    },
    Checked {
        id: "rpc-call-unanswered",
        level: Level::Warning,
        sources: &[Source { document: Document::Rfc8166, section: "4.5.4" }, NFS_TRANSPORT],
        sentence: "A call is answered before its connection is closed.",
        explanation: "A Responder that cannot reply closes the connection, and a Requester may \
            close it at any time, so the loss alone breaks no rule. The finding names the lost \
            call. The rule applies if the capture contains a CM message that closes the \
            connection, or a new connection that takes over its queue pair. The finding is \
            inconclusive if the capture may lack the reply: if it lacks packets of the Responder, \
            or if no answer shows that the Responder passed this call over. Such an answer comes \
            after the last RDMA operation for this call, and its own call was sent after this one \
            had waited longer than any answered call. If the capture contains nothing that the \
            other end sent, that is reported once for the connection, and not for each call; if \
            all packets of the other end have a bad ICRC, packet-icrc reports that. \
            header-fault-unanswered covers calls with a faulty header, header-xid replies with \
            another rdma_xid, and session-callback-unanswered callbacks of a session.",
        check: Check::Transaction(call_unanswered),
    },
    Checked {
        id: "rpc-replay",
        level: Level::Advice,
        sources: &[RETRANSMISSION, MESSAGE],
        sentence: "A Requester retransmits a call on the next connection if it was outstanding \
            when the previous one was closed.",
        explanation: "RPC recovers this way, and the XID has to stay the same. A Responder that \
            does not remember the first call executes it a second time. Connections are compared \
            between the same two addresses.",
        check: Check::Sent(replay),
    },
    Checked {
        id: "rpc-replay-differs",
        level: Level::Warning,
        sources: &[XID, MESSAGE],
        sentence: "A call on a new connection does not have the XID of a different call that was \
            outstanding when the previous connection was closed.",
        explanation: "A server with a duplicate request cache may take it for the earlier call. \
            rpc-xid-reused defines when two calls are different. A Requester may have given up \
            the earlier call, and two Requesters on one host may choose the same XID, so the rule \
            is a warning. The finding is inconclusive if the capture may lack the reply to the \
            earlier call.",
        check: Check::Sent(replay_differs),
    },
    Checked {
        id: "rpc-message-type",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc8166, section: "3.2" },
            Source { document: Document::Rfc8167, section: "5.1" },
            Source { document: Document::Rfc8167, section: "5.2" },
            MESSAGE,
        ],
        sentence: "The Payload stream of an RDMA_MSG begins with the XID and the msg_type of an RPC message, CALL or REPLY.",
        explanation: "The rule covers every RDMA_MSG whose chunk lists can be read. A message \
            that is too short for both fields counts only if it was captured completely.",
        check: Check::Sent(message_type),
    },
    Checked {
        id: "rpc-version",
        level: Level::Violation,
        sources: &[MESSAGE],
        sentence: "A call has version 2 of the RPC protocol.",
        explanation: "The rule checks rpcvers of every inline call.",
        check: Check::Sent(rpc_version),
    },
    Checked {
        id: "rpc-credential",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc5531, section: "8.2" },
            Source { document: Document::Rfc5531, section: "A" },
        ],
        sentence: "A credential or verifier has at most 400 bytes, and AUTH_SYS names at most 16 groups.",
        explanation: "The rule covers every call and reply whose RPC header can be read. A \
            machine name in AUTH_SYS has at most 255 bytes.",
        check: Check::Transaction(credential),
    },
    Checked {
        id: "rpc-reply-status",
        level: Level::Violation,
        sources: &[MESSAGE],
        sentence: "A reply has a reply_stat, accept_stat, reject_stat and auth_stat that RPC defines.",
        explanation: "The rule covers every reply whose RPC header can be read.",
        check: Check::Transaction(reply_status),
    },
    Checked {
        id: "rpc-version-range",
        level: Level::Violation,
        sources: &[MESSAGE],
        sentence: "A reply that refuses a version names the lowest and the highest supported version.",
        explanation: "In PROG_MISMATCH and RPC_MISMATCH the lowest version is not above the highest. A server may refuse a version \
            between them, because it need not support all of them.",
        check: Check::Transaction(version_range),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: Source { document: Document::Rfc8166, section: "4.5.4" },
        requirement: "A Responder that cannot send a reply closes the connection.",
        reason: "The reason for a missing reply is not on the wire. rpc-call-unanswered reports \
            the calls without a reply.",
    },
    Unseen {
        source: NFS_TRANSPORT,
        requirement: "A replier does not silently drop a request.",
        reason: "The time to answer is not limited. rpc-call-unanswered reports the calls without \
            a reply.",
    },
    Unseen {
        source: XID,
        requirement: "A Requester matches a reply with its call by the XID.",
        reason: "A Requester's use of a reply is not on the wire.",
    },
];

/// The state that its rules read.
pub(crate) type Read = (EarlierCalls, AdvertisedMemory);

/// True unless the Send is a reply, or a call of RPC version 2 with an XID that is not outstanding.
/// True for every Send while calls of an earlier connection may be retransmitted.
pub(crate) fn may_break(sent: &Sent<'_>, calls: &EarlierCalls) -> bool {
    !sent.is_explicit
        || sent.earlier.is_some()
        || calls.expects_replays()
        || rpc_version_of(sent).is_some_and(|version| version != rpc::VERSION)
}

/// True unless the reply reports success and no credential or verifier is at fault.
pub(crate) fn may_break_in_transaction(transaction: &Transaction) -> bool {
    let has_fault = |message: &Option<Message>| message.as_ref().is_some_and(|it| it.auth_fault.is_some());
    transaction.rpc_status != Some(rpc::Status::Success)
        || has_fault(&transaction.call)
        || has_fault(&transaction.reply)
}

/// For a call whose XID is outstanding: whether it is the same call; `Some(None)` if unknown.
fn again(sent: &Sent<'_>) -> Option<Option<bool>> {
    let earlier = sent.earlier.filter(|_| sent.kind == Kind::Call)?;
    Some(CallIdentity::of(sent.header?, sent.send).is_same(&earlier))
}

/// A finding about a call with the XID of an outstanding one.
fn second(sent: &Sent<'_>, view: &View<'_, Read>, message: &str) -> Finding {
    let is_known = sent.missing_at_call == Some(sent.missing_packets) && !view.unmatched.shows_replies_early;
    let basis = if is_known { Basis::Silence(sent.from.other()) } else { Basis::Lacking };
    let finding = by_sender(sent, view, message);
    finding.frames(sent.call.into_iter().flatten().map(|seen| seen.frame)).rests_on(basis)
}

fn xid_reused(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if again(sent) == Some(Some(false)) {
        findings.add(second(sent, view, "a call has the XID of another call that is outstanding"));
    }
}

fn call_repeated(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    match again(sent) {
        Some(Some(true)) if !is_compound(sent) => {
            findings.add(second(sent, view, "a call is sent again while it is outstanding"));
        }
        Some(None) if !is_compound(sent) => {
            let finding =
                second(sent, view, "a call has the XID of one that is outstanding, perhaps its own");
            findings.add(finding.unless(true));
        }
        _ => {}
    }
}

fn nfs4_call_repeated(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    // It does not matter whether it is the same COMPOUND or another one with its XID: neither is
    // allowed.
    if matches!(again(sent), Some(Some(true) | None)) && is_compound(sent) {
        findings.add(second(sent, view, "an NFSv4 request is sent again while it is outstanding"));
    }
}

/// Whether a call is an NFSv4 COMPOUND or a CB_COMPOUND.
fn is_compound(sent: &Sent<'_>) -> bool {
    let procedure = sent.header.and_then(|header| CallIdentity::of(header, sent.send).procedure);
    procedure.is_some_and(|procedure| procedure.is_compound())
}

fn reply_without_call(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for message in view.unmatched.messages().iter().filter(|message| message.kind == Kind::Reply) {
        let left = view.memory.0.left(view.direction(message.from.other()), message.xid);
        let caller = message.from.other();
        // If the capture contains nothing from the caller, that is a property of the capture, not
        // of each reply.
        if left.is_none()
            && !view.unmatched.is_misnamed(caller, message.xid)
            && view.holds_start()
            && view.has_packets_from(message.from.other())
        {
            findings.add(message.finding(connection, view, "a reply without a call"));
        }
    }
}

fn reply_elsewhere(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for message in view.unmatched.messages().iter().filter(|message| message.kind == Kind::Reply) {
        if let Some(call) = view.memory.0.left(view.direction(message.from.other()), message.xid) {
            let words =
                format!("a reply to a call of connection {}, which was closed before", call.connection.0);
            findings.add(message.finding(connection, view, words).frames([call.seen.frame]));
        }
    }
}

fn call_unanswered(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (Outcome::NoReply, true, Some(call)) = (transaction.outcome, view.is_closed(), &transaction.call)
    else {
        return;
    };
    let answerer = view.answerer(transaction.direction);
    if !view.has_packets_from(answerer) {
        // That is a property of the capture, not of each call.
        if !view.memory.0.lacks_answerer && !view.memory.0.is_spoiled[answerer] {
            let message = "the capture contains nothing that the other end sent, so it is unknown \
                whether its calls were answered";
            findings.add(Finding::new(message).of(transaction).message(call).unless(true));
        }
    } else if fault_of(call, transaction.xid).is_none()
        && !view.unmatched.is_misnamed(view.caller(transaction.direction), transaction.xid)
        && !sessions::is_callback(transaction)
    {
        let message = "the connection was closed while a call was outstanding";
        let finding = Finding::new(message).of(transaction).message(call);
        // A call with an unknown end may have been seen late, after its reply.
        let is_open = call.missing.iter().any(|missing| missing.part == Part::Send && missing.end.is_none());
        findings.add(finding.unless(is_open || view.lacks_answer(transaction)));
    }
}

impl View<'_, Read> {
    /// Whether the capture may lack the answer to a call that has none, or the call itself. It does
    /// not if the answerer sent more after the call and that was acknowledged.
    pub(crate) fn lacks_answer(&self, transaction: &Transaction) -> bool {
        let Some(call) = &transaction.call else { return true };
        let answerer = self.answerer(transaction.direction);
        self.memory.1.may_lack(self, answerer, transaction)
            || self.unmatched.shows_replies_early
            || self.unmatched.may_be_answered(answerer.other(), transaction.xid)
            || !self.memory.0.passed_over(transaction)
            || !self.is_complete(answerer, call.seen.frame)
    }
}

/// The unanswered call on an earlier connection with the XID of this one, and whether it is the
/// same.
fn replayed<'a>(sent: &Sent<'_>, view: &'a View<'_, Read>) -> Option<(&'a UnansweredCall, Option<bool>)> {
    let header = sent.header.filter(|_| sent.kind == Kind::Call && view.memory.0.expects_replays())?;
    let left = view.memory.0.left(view.direction(sent.from), header.xid)?;
    Some((left, CallIdentity::of(header, sent.send).is_same(&left.identity)))
}

fn replay(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some((left, same @ (Some(true) | None))) = replayed(sent, view) else { return };
    let waited = sent.send.first.time.since(left.seen.time);
    let message =
        format!("a call of connection {} is sent again {} ms later", left.connection.0, waited / 1_000_000);
    // The same call is retransmitted even if the capture lacks a reply; a different call may reuse
    // its XID once it was answered.
    let finding =
        by_sender(sent, view, message).frames([left.seen.frame]).observed(Value::Nanoseconds(waited));
    findings.add(finding.unless(left.lacks && same.is_none()));
}

fn replay_differs(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some((left, Some(false))) = replayed(sent, view) else { return };
    let message = format!(
        "a call has the XID of another call that connection {} left without a reply",
        left.connection.0
    );
    let finding = by_sender(sent, view, message).frames([left.seen.frame]);
    findings.add(finding.unless(left.lacks));
}

/// The Payload stream of an RDMA_MSG.
fn payload<'a>(sent: &Sent<'a>) -> Option<&'a [u8]> {
    let header = sent.header?;
    let is_message = header.version == VERSION && header.stop.is_none() && header.procedure.number() == 0;
    sent.send.bytes.get(header.length..).filter(|_| is_message)
}

fn message_type(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(payload) = payload(sent) else { return };
    let Err(stop) = rpc::peek(payload) else { return };
    let finding = match (stop.cause, payload.get(4..8)) {
        (Cause::Malformed, Some(&[a, b, c, d])) => {
            let found = u32::from_be_bytes([a, b, c, d]);
            let finding = by_sender(sent, view, format!("an RPC message of msg_type {found}"));
            finding.values(Value::Count(found.into()), Value::Words("0 or 1".to_owned()))
        }
        _ if sent.send.length == Some(sent.send.bytes.len() as u32) => {
            by_sender(sent, view, format!("an RPC message of {} bytes", payload.len()))
                .values(Value::Bytes(payload.len() as u64), Value::Words("24 bytes or more".to_owned()))
        }
        _ => return,
    };
    findings.add(finding);
}

/// rpcvers of an inline call.
pub(crate) fn rpc_version_of(sent: &Sent<'_>) -> Option<u32> {
    if sent.kind != Kind::Call || !sent.is_explicit {
        return None;
    }
    let word = payload(sent)?.get(8..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

fn rpc_version(sent: &Sent<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if let Some(found) = rpc_version_of(sent).filter(|version| *version != rpc::VERSION) {
        let finding = by_sender(sent, view, format!("a call of version {found} of RPC"));
        findings.add(finding.values(Value::Count(found.into()), Value::Count(rpc::VERSION.into())));
    }
}

fn credential(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let direction = transaction.direction;
    let (caller, answerer) = (view.caller(direction), view.answerer(direction));
    for (by, message) in [(caller, &transaction.call), (answerer, &transaction.reply)] {
        let Some((message, fault)) = message.as_ref().and_then(|it| Some((it, it.auth_fault?))) else {
            continue;
        };
        let (words, found, allowed) = match fault {
            AuthFault::LongCredential(bytes) => (format!("a credential of {bytes} bytes"), bytes, 400),
            AuthFault::LongVerifier(bytes) => (format!("a verifier of {bytes} bytes"), bytes, 400),
            AuthFault::Groups(count) => (format!("an AUTH_SYS credential with {count} groups"), count, 16),
            AuthFault::MachineName(bytes) => {
                (format!("an AUTH_SYS credential with a machine name of {bytes} bytes"), bytes, 255)
            }
        };
        let value = match fault {
            AuthFault::Groups(_) => |count: u32| Value::Count(count.into()),
            _ => |bytes: u32| Value::Bytes(bytes.into()),
        };
        let finding = Finding::new(words).by(by).of(transaction).message(message);
        findings.add(finding.values(value(found), value(allowed)));
    }
}

fn reply_status(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (message, found) = match transaction.rpc_status {
        Some(rpc::Status::UnknownAccepted(found)) => (format!("a reply with accept_stat {found}"), found),
        Some(rpc::Status::UnknownDenied(found)) => (format!("a reply with reject_stat {found}"), found),
        Some(rpc::Status::AuthError(found)) if found > LAST_AUTH_STAT => {
            (format!("a reply with auth_stat {found}"), found)
        }
        None if is_unreadable(transaction) => {
            let message = "a reply whose reply_stat is neither 0 nor 1";
            findings.add(about_reply(transaction, view, message));
            return;
        }
        _ => return,
    };
    findings.add(about_reply(transaction, view, message).observed(Value::Count(found.into())));
}

/// The last defined auth_stat: RPCSEC_GSS_CTXPROBLEM (RFC 5531, section 9).
const LAST_AUTH_STAT: u32 = 14;

/// Whether the RPC header of the reply has an undefined reply_stat: its msg_type could be read, but
/// not the rest.
fn is_unreadable(transaction: &Transaction) -> bool {
    let stop =
        transaction.stop.is_some_and(|stop| stop.layer == Layer::Rpc && stop.cause == Cause::Malformed);
    // If the call could be read, its security flavor is known.
    let of_reply = transaction.security.is_some();
    stop && of_reply && transaction.reply.as_ref().is_some_and(|reply| reply.rpc_xid.is_some())
}

fn version_range(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(status @ (rpc::Status::ProgramMismatch { low, high } | rpc::Status::RpcMismatch { low, high })) =
        transaction.rpc_status
    else {
        return;
    };
    if low > high {
        let finding = about_reply(transaction, view, format!("a reply with {status}"));
        findings.add(finding.observed(Value::Words(format!("{low} to {high}"))));
    }
}
