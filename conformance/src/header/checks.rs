//! Checks of the header rules.

use super::super::check::{self, Findings};
use super::super::chunks;
use super::super::finding::{Finding, Value};
use super::super::judged::{about, by_sender, on_answer};
use super::super::rpc::Read;
use super::fault::{Fault, fault_of};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::observation::Kind;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Transaction};
use rdmascope_wire::Cause;
use rdmascope_wire::rpcrdma::{Error, Header, MINIMUM_LENGTH, Procedure, VERSION};

type View<'a> = check::View<'a, Read>;

/// Bytes of an RDMA_ERROR with ERR_CHUNK.
const SHORTEST_ERROR: u32 = 20;

pub(super) fn version(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(header) = sent.header.filter(|header| header.version != VERSION) else { return };
    let judged = matches!(sent.kind, Kind::Call | Kind::Done | Kind::Other);
    if judged {
        let finding = by_sender(sent, view, format!("a message of version {}", header.version));
        findings.add(finding.values(Value::Count(header.version.into()), Value::Count(VERSION.into())));
    }
}

pub(super) fn too_short(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(length) = sent.send.length.filter(|_| sent.send.missing.is_none()) else { return };
    let least = match sent.header.map(|header| header.procedure) {
        Some(Procedure::Done) => Header::FIXED_LENGTH as u32,
        Some(Procedure::Error) => SHORTEST_ERROR,
        // The captured bytes end before rdma_proc.
        None if sent.send.bytes.len() < length as usize => Header::FIXED_LENGTH as u32,
        _ => MINIMUM_LENGTH as u32,
    };
    if length < least {
        let finding = by_sender(sent, view, format!("a message of {length} bytes"));
        findings.add(finding.values(Value::Bytes(length.into()), Value::Bytes(least.into())));
    }
}

pub(super) fn unreadable(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((header, stop)) = sent.header.and_then(|header| Some((header, header.stop?))) else { return };
    let is_complete = sent.send.length == Some(sent.send.bytes.len() as u32);
    let least = if header.procedure == Procedure::Error { SHORTEST_ERROR as usize } else { MINIMUM_LENGTH };
    let is_judged_elsewhere = matches!(header.procedure, Procedure::Unknown(_) | Procedure::Msgp)
        || (is_complete && sent.send.bytes.len() < least);
    if is_judged_elsewhere {
        return;
    }
    let message = match stop.cause {
        Cause::Malformed => {
            format!("the header has a word at byte {} that its XDR definition does not allow", stop.offset)
        }
        _ if is_complete => {
            format!("the message ends before its header, which lacks the bytes from {} on", stop.offset)
        }
        _ => return,
    };
    findings.add(by_sender(sent, view, message));
}

pub(super) fn procedure(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(header) = sent.header.filter(|header| header.version == VERSION) else { return };
    if let Procedure::Unknown(number) = header.procedure {
        let finding = by_sender(sent, view, format!("a message with rdma_proc {number}"));
        findings.add(finding.values(Value::Count(number.into()), Value::Words("0 to 4".to_owned())));
    }
}

pub(super) fn padded(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let is_padded = |header: &&Header<'_>| header.version == VERSION && header.procedure == Procedure::Msgp;
    if sent.header.is_some_and(|header| is_padded(&header)) {
        findings.add(by_sender(sent, view, "an RDMA_MSGP").observed(Value::Name("RDMA_MSGP")));
    }
}

pub(super) fn error_code(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    if let Some(Error::Unknown(number)) = sent.header.and_then(|header| header.error) {
        let finding = by_sender(sent, view, format!("an RDMA_ERROR with rdma_err {number}"));
        findings.add(finding.values(Value::Count(number.into()), Value::Words("1 or 2".to_owned())));
    }
}

pub(super) fn trailing(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(header), Some(length)) = (sent.header, sent.send.length) else { return };
    let most = header.length.max(MINIMUM_LENGTH) as u64;
    let ends = matches!(sent.kind, Kind::Error | Kind::Done) && header.stop.is_none();
    if ends && u64::from(length) > most {
        let finding = by_sender(sent, view, format!("an {} of {length} bytes", header.procedure));
        findings.add(finding.values(Value::Bytes(length.into()), Value::Bytes(header.length as u64)));
    }
}

pub(super) fn xid(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let caller = view.caller(transaction.direction);
    for (message, by, kind) in
        [(&transaction.call, caller, "call"), (&transaction.reply, caller.other(), "reply")]
    {
        let Some((message, found)) = message.as_ref().and_then(|message| Some((message, message.rpc_xid?)))
        else {
            continue;
        };
        if found != transaction.xid {
            let words =
                format!("a {kind} with rdma_xid {} conveys an RPC message with XID {found}", transaction.xid);
            let (found, allowed) = (u64::from(found.0), u64::from(transaction.xid.0));
            // A chunk may hold the remains of an earlier call whose end the capture lacks.
            let is_old = message.procedure == Procedure::Nomsg
                && (view.joined || End::BOTH.into_iter().any(|end| view.losses(end) > 0));
            let finding = Finding::new(words).by(by).of(transaction).message(message).unless(is_old);
            findings.add(finding.values(Value::Hexadecimal(found), Value::Hexadecimal(allowed)));
        }
    }
}

/// The call and the reply of a transaction that has both.
fn both(transaction: &Transaction) -> Option<(&Message, &Message)> {
    transaction.call.as_ref().zip(transaction.reply.as_ref())
}

pub(super) fn reply_version(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction).filter(|_| transaction.error.is_none()) else { return };
    let is_reply = reply.procedure != Procedure::Error;
    if is_reply && call.version != reply.version {
        let message = format!("a reply of version {} to a call of version {}", reply.version, call.version);
        let finding = on_answer(transaction, view, message);
        findings.add(finding.values(Value::Count(reply.version.into()), Value::Count(call.version.into())));
    }
}

/// The call of a transaction, and the fault in its header.
fn faulty(transaction: &Transaction) -> Option<(&Message, Fault)> {
    let call = transaction.call.as_ref()?;
    Some((call, fault_of(call, transaction.xid)?))
}

pub(super) fn short_answered(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    if let (Some((call, Fault::Short)), Some(_)) = (faulty(transaction), &transaction.reply) {
        let message = format!("a message of {} bytes was answered", call.send_length);
        let finding = on_answer(transaction, view, message);
        findings
            .add(finding.values(Value::Bytes(call.send_length.into()), Value::Bytes(MINIMUM_LENGTH as u64)));
    }
}

pub(super) fn padded_accepted(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let refused = matches!(transaction.error, Some(Error::Chunk | Error::Version { .. }));
    if let (Some((_, Fault::Padded)), Some(_), false) = (faulty(transaction), &transaction.reply, refused) {
        findings.add(on_answer(transaction, view, "an RDMA_MSGP was answered as if it were a call"));
    }
}

pub(super) fn error_version(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((call, error)) = errored(transaction) else { return };
    if call.version != error.version {
        let message =
            format!("an RDMA_ERROR of version {} to a call of version {}", error.version, call.version);
        let finding = on_answer(transaction, view, message);
        findings.add(finding.values(Value::Count(error.version.into()), Value::Count(call.version.into())));
    }
}

/// The call and the RDMA_ERROR of a transaction that has both.
fn errored(transaction: &Transaction) -> Option<(&Message, &Message)> {
    both(transaction).filter(|(_, reply)| reply.procedure == Procedure::Error)
}

pub(super) fn error_kind(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some((call, _)), Some(Error::Chunk)) = (errored(transaction), transaction.error) else { return };
    if faulty(transaction).is_some_and(|(_, fault)| fault == Fault::Version) {
        let message = format!("ERR_CHUNK in answer to a call of version {}", call.version);
        let finding = on_answer(transaction, view, message);
        findings.add(finding.values(Value::Name("ERR_CHUNK"), Value::Name("ERR_VERS")));
    }
}

pub(super) fn error_unfounded(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some((call, _)), Some(error @ Error::Version { .. })) = (errored(transaction), transaction.error)
    else {
        return;
    };
    if call.version == VERSION {
        let finding = on_answer(transaction, view, format!("{error} in answer to a call of version 1"));
        findings.add(finding.observed(Value::Words(error.to_string())));
    }
}

pub(super) fn error_range(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some((call, _)), Some(Error::Version { low, high })) = (errored(transaction), transaction.error)
    else {
        return;
    };
    let answerer = view.answerer(transaction.direction);
    let supported = low..=high;
    let (seen, covers_call) =
        (u64::from(call.version), supported.contains(&call.version) && call.version != VERSION);
    let message = if low > high {
        format!("ERR_VERS with {low} as the lowest and {high} as the highest version")
    } else if covers_call {
        format!("ERR_VERS {low} to {high} in answer to a call of version {seen}")
    } else if view.unmatched.speaks_version_1[answerer] && !supported.contains(&VERSION) {
        format!("ERR_VERS {low} to {high} of a Responder that replies in version 1")
    } else {
        return;
    };
    let finding = on_answer(transaction, view, message);
    findings.add(finding.observed(Value::Words(format!("{low} to {high}"))));
}

pub(super) fn error_chunk(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some((call, _)), Some(Error::Chunk)) = (errored(transaction), transaction.error) else { return };
    // A Responder may know that the reply to the first transmission broke the connection.
    let is_retransmission = view.memory.0.first_of(transaction).is_some();
    if is_retransmission
        || !chunks::is_in_order(transaction, call)
        || !chunks::room::has_to_take(transaction, call)
    {
        return;
    }
    let finding = about(transaction, "ERR_CHUNK in answer to a call whose header is correct");
    match chunks::room::can_overrun(transaction, call, view) {
        // Its Requester may not have left enough room: see reply-chunk-too-small.
        Some(true) if transaction.direction == Direction::Forward => {}
        Some(false) => findings.add(finding.by(view.answerer(transaction.direction))),
        _ => findings.add(finding),
    }
}

pub(super) fn fault_accepted(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some((_, reply)) = both(transaction).filter(|(_, reply)| reply.procedure != Procedure::Error) else {
        return;
    };
    let fault = match faulty(transaction) {
        Some((_, Fault::Procedure)) => "an unknown rdma_proc",
        Some((_, Fault::Lists)) => "chunk lists that cannot be parsed",
        Some((_, Fault::Nowhere)) => "a Payload stream in no chunk",
        _ => return,
    };
    let message = format!("{} in answer to a call with {fault}", reply.procedure);
    findings.add(on_answer(transaction, view, message));
}

pub(super) fn fault_unanswered(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Outcome::NoReply, true, Some((_, fault))) =
        (transaction.outcome, view.is_closed(), faulty(transaction))
    else {
        return;
    };
    let must = matches!(fault, Fault::Version | Fault::Procedure | Fault::Lists | Fault::Nowhere);
    if must && view.memory.0.passed_over(transaction) {
        let message = "no answer to a call whose header is faulty, but one to a later call";
        findings.add(on_answer(transaction, view, message).unless(view.lacks_answer(transaction)));
    }
}

pub(super) fn done(connection: &Connection, view: &View<'_>, findings: &mut Findings<'_>) {
    for message in view.unmatched.messages().iter().filter(|message| message.kind == Kind::Done) {
        findings.add(message.finding(connection, view, "an RDMA_DONE where no reply waits to be pulled"));
    }
}

pub(super) fn done_missing(connection: &Connection, view: &View<'_>, findings: &mut Findings<'_>) {
    if connection.state == State::Closed {
        let last = |end| view.memory.1.last(end).map(|last| last.seen);
        view.unmatched.without_done(view, last).for_each(|finding| findings.add(finding));
    }
}

pub(super) fn error_by_requester(connection: &Connection, view: &View<'_>, findings: &mut Findings<'_>) {
    for message in view.unmatched.messages() {
        if message.kind == Kind::Error && message.is_of_own_call {
            let words = "an RDMA_ERROR with the XID of a call made by its own sender";
            findings.add(message.finding(connection, view, words));
        }
    }
}

pub(super) fn error_unmatched(connection: &Connection, view: &View<'_>, findings: &mut Findings<'_>) {
    for message in view.unmatched.messages() {
        if message.kind == Kind::Error && !message.is_of_own_call {
            findings.add(message.finding(connection, view, "an RDMA_ERROR in answer to no call"));
        }
    }
}
