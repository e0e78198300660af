//! Checks of the reverse-direction rules.

use super::super::check::{self, Findings};
use super::super::chunks::read_bytes;
use super::super::finding::{Basis, Finding, Value};
use super::super::judged::{about_reply, by_caller};
use super::{Backchannel, Callbacks, is_callback};
use alloc::borrow::ToOwned;
use alloc::format;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Message, Transaction};
use rdmascope_dissector::ulb::{Callback, ChannelAttributes, OperationKind};
use rdmascope_wire::rpcrdma::Procedure;

type View<'a> = check::View<'a, Backchannel>;

/// The operation that a CB_COMPOUND of minor versions 1 and 2 begins with.
const CB_SEQUENCE: OperationKind = OperationKind::Callback(Callback::Sequence);

/// The call, if it is one in the reverse direction.
fn backward(transaction: &Transaction) -> Option<&Message> {
    transaction.call.as_ref().filter(|_| transaction.direction == Direction::Backward)
}

/// The call, if it is a CB_COMPOUND in the reverse direction.
fn callback(transaction: &Transaction) -> Option<&Message> {
    let compound = transaction.procedure.is_some_and(|procedure| procedure.is_compound());
    backward(transaction).filter(|_| compound && is_callback(transaction))
}

pub(super) fn before_offer(_: &Connection, view: &View<'_>, findings: &mut Findings<'_>) {
    let (backchannel, client) = (view.memory, view.requester);
    let Callbacks { count, calls, .. } = &backchannel.early;
    // If the client's calls are encrypted, so is its offer.
    if *count == 0 || !view.holds_start() || backchannel.sealed {
        return;
    }
    // An answered callback preceded everything that the client sent later. For the others, the
    // capture has to show that the client sent nothing else.
    let is_complete =
        calls.iter().any(|(call, answered)| *answered || backchannel.complete[client] >= Some(call.frame));
    let condition = match (backchannel.offer, backchannel.client_version) {
        (Some(_), _) => "before the client offered it for them".to_owned(),
        (None, Some((4, Some(minor)))) => {
            format!("that a client of NFS version 4.{minor} never offered for them")
        }
        (None, Some((version, _))) => {
            format!("that a client of NFS version {version} never offered for them")
        }
        (None, None) => "that the client never offered for them".to_owned(),
    };
    let callbacks = match (*count, backchannel.early_nfs) {
        (1, false) => "1 callback".to_owned(),
        (_, false) => format!("{count} callbacks"),
        (1, true) => "1 call in the reverse direction".to_owned(),
        (_, true) => format!("{count} calls in the reverse direction"),
    };
    let lacks = view.lost[client] > 0 || backchannel.unread || !is_complete;
    findings.add(
        backchannel
            .early
            .finding(format!("{callbacks} over a connection {condition}"))
            .by(client.other())
            .frames(backchannel.offer.map(|offer| offer.frame))
            .values(Value::Count(*count), Value::Count(0))
            .unless(lacks),
    );
}

pub(super) fn after_refusal(_: &Connection, view: &View<'_>, findings: &mut Findings<'_>) {
    let backchannel = view.memory;
    let count = backchannel.refused.count;
    if count == 0 || backchannel.taken || backchannel.unanswered > 0 || !view.holds_start() {
        return;
    }
    let callbacks = if count == 1 { "1 callback".to_owned() } else { format!("{count} callbacks") };
    findings.add(
        backchannel
            .refused
            .finding(format!(
                "{callbacks} over a connection that the server did not accept for the backchannel"
            ))
            .by(view.requester.other())
            .frames(backchannel.declined)
            .unless(view.lost != [0, 0] || backchannel.unread),
    );
}

pub(super) fn not_offered(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(facts) = transaction.details.backchannel else { return };
    if (facts.offered, facts.taken) != (Some(false), Some(true)) {
        return;
    }
    let message = "the server accepted a connection for the backchannel that the client did \
            not offer";
    findings.add(about_reply(transaction, view, message));
}

pub(super) fn attributes(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(facts) = transaction.details.backchannel else { return };
    let (Some(requested), Some(granted)) = (facts.requested, facts.granted) else { return };
    let of =
        |name: &'static str, field: fn(&ChannelAttributes) -> u32| (name, field(&requested), field(&granted));
    let kept = [of("ca_maxoperations", |it| it.most_operations), of("ca_maxrequests", |it| it.most_requests)];
    let limited = [
        of("ca_maxrequestsize", |it| it.largest_request),
        of("ca_maxresponsesize", |it| it.largest_response),
    ];
    let changed = kept.into_iter().filter(|(_, requested, granted)| requested != granted);
    let raised = limited.into_iter().filter(|(_, requested, granted)| requested < granted);
    for (name, requested, granted) in changed.chain(raised) {
        let message = format!("{name} of the backchannel went from {requested} to {granted}");
        findings.add(
            about_reply(transaction, view, message)
                .values(Value::Count(granted.into()), Value::Count(requested.into())),
        );
    }
}

pub(super) fn operations(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(_), Some(limits)) = (callback(transaction), view.memory.limits(view)) else { return };
    let Some(count) = transaction.details.called.filter(|called| *called > limits.most_operations) else {
        return;
    };
    let message = format!(
        "a CB_COMPOUND of {count} operations where the backchannel allows {}",
        limits.most_operations
    );
    findings.add(
        by_caller(transaction, view, message)
            .values(Value::Count(count.into()), Value::Count(limits.most_operations.into()))
            .rests_on(Basis::Silence(view.requester)),
    );
}

pub(super) fn size(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(call), Some(limits)) = (callback(transaction), view.memory.limits(view)) else {
        return;
    };
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    let messages = [
        (Some(call), limits.largest_request, caller, "call", "ca_maxrequestsize"),
        (transaction.reply.as_ref(), limits.largest_response, answerer, "reply", "ca_maxresponsesize"),
    ];
    for (message, most, end, kind, limit) in messages {
        let length = message.and_then(|message| message.message_length).unwrap_or(0);
        if length <= u64::from(most) {
            continue;
        }
        findings.add(
            Finding::new(format!("a {kind} of {length} bytes on a backchannel whose {limit} is {most}"))
                .by(end)
                .of(transaction)
                .frames(message.into_iter().flat_map(|message| [message.first.frame, message.seen.frame]))
                .values(Value::Bytes(length), Value::Bytes(most.into()))
                .rests_on(Basis::Silence(view.requester)),
        );
    }
}

pub(super) fn program(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let backchannel = view.memory;
    let (Some(_), Some(procedure)) = (backward(transaction), transaction.procedure) else { return };
    let [first, ..] = backchannel.programs[..] else { return };
    let is_known = backchannel.programs.contains(&procedure.program);
    if is_known || !is_callback(transaction) || !backchannel.knows_sessions(view) {
        return;
    }
    let message = format!("a callback of program {} where the client named {first}", procedure.program);
    findings.add(
        by_caller(transaction, view, message)
            .values(Value::Hexadecimal(procedure.program.into()), Value::Hexadecimal(first.into()))
            .rests_on(Basis::Silence(view.requester)),
    );
}

pub(super) fn sequence(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let details = &transaction.details;
    let (Some(_), Some(minor), Some(first)) =
        (callback(transaction), details.minor_version, details.operations.first())
    else {
        return;
    };
    // Callbacks of minor version 0 are forward calls on a connection of their own. If its setup was not
    // captured, the direction is a guess.
    if first.kind == CB_SEQUENCE || minor == 0 && !view.holds_start() {
        return;
    }
    let message = format!("a CB_COMPOUND of minor version {minor} that begins with {}", first.name());
    findings.add(
        by_caller(transaction, view, message)
            .values(Value::Name(first.name()), Value::Name(CB_SEQUENCE.name())),
    );
}

pub(super) fn version(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(call), Some(_)) = (backward(transaction), &transaction.reply) else { return };
    let Some((forward, frame)) = view.memory.version.filter(|(forward, _)| *forward != call.version) else {
        return;
    };
    let message = format!(
        "a reverse-direction call of version {} where forward calls have version \
            {forward}",
        call.version
    );
    findings.add(
        by_caller(transaction, view, message)
            .frames([frame])
            .values(Value::Count(call.version.into()), Value::Count(forward.into())),
    );
}

pub(super) fn long_message(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    // A refused call was not read, so its program is unknown.
    let may_be = transaction.procedure.is_none() || is_callback(transaction);
    let has_read_chunk = backward(transaction).is_some_and(|call| !call.read_chunks.is_empty());
    if !may_be || !has_read_chunk {
        return;
    }
    let backchannel = view.memory;
    let thresholds = End::BOTH.map(|end| view.inline_threshold(end));
    let ([Some(one), Some(other)], Some(_)) = (thresholds, backchannel.limits(view)) else { return };
    let (threshold, requested) = (one.min(other), backchannel.largest_requested);
    if requested > threshold {
        return;
    }
    let message = format!(
        "a callback with a Read chunk where ca_maxrequestsize is {requested} and the inline threshold {threshold}"
    );
    findings.add(
        by_caller(transaction, view, message)
            .values(Value::Bytes(requested.into()), Value::Bytes(threshold.into()))
            .rests_on(Basis::Silence(view.requester)),
    );
}

pub(super) fn chunks_unread(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(call), Some(reply)) = (backward(transaction), &transaction.reply) else { return };
    let bytes = read_bytes(call);
    if bytes == 0 || transaction.timing.reads.is_some() || reply.procedure == Procedure::Error {
        return;
    }
    let client = view.answerer(transaction.direction);
    let message = format!(
        "a reverse-direction call was answered although its {bytes} bytes of Read chunks were not read"
    );
    findings.add(
        about_reply(transaction, view, message)
            .values(Value::Name("RDMA_MSG"), Value::Name("ERR_CHUNK"))
            .rests_on(Basis::Silence(client))
            .unless(!view.is_fully_captured(client) || call.stop.is_some()),
    );
}

pub(super) fn chunks_refused(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(refused), Some(call)) = (view.memory.err_chunk, backward(transaction)) else { return };
    if call.read_chunks.is_empty() || call.seen.frame < refused {
        return;
    }
    let message = "a reverse-direction call with chunks to a client that answered an earlier one with \
                ERR_CHUNK";
    findings.add(by_caller(transaction, view, message).frames([refused]));
}
