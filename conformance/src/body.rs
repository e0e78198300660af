//! Arguments and results: the part of a call or a reply after its RPC header.

use super::check::{Check, Checked, Findings, View};
use super::chunks::{self, bodies, read, write};
use super::finding::{Finding, Value};
use super::header;
use super::judged::{by_caller, paired};
use super::rule::{Document, Level, Source, Unseen};
use super::sessions::SessionUse;
use alloc::format;
use rdmascope_dissector::transaction::{Chunk, Message, Part, Transaction};
use rdmascope_dissector::ulb::{Operation, OperationKind, Place};
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use rdmascope_wire::{Cause, Layer, Stop, rpc};

const MESSAGE: Source = Source { document: Document::Rfc5531, section: "9" };
const XDR: Source = Source { document: Document::Rfc4506, section: "3" };
const COMPOUND: Source = Source { document: Document::Rfc7530, section: "16.2" };
const COMPOUND_4_1: Source = Source { document: Document::Rfc8881, section: "16.2" };
const UNPARSED: Source = Source { document: Document::Rfc8166, section: "4.5.2" };
const COMPLEXITY: Source = Source { document: Document::Rfc8267, section: "6.4.2" };

pub(crate) const RULES: &[Checked<SessionUse>] = &[
    Checked {
        id: "rpc-arguments",
        level: Level::Violation,
        sources: &[MESSAGE, XDR, UNPARSED],
        sentence: "The arguments of a call can be read by the XDR definition of its procedure, \
            and nothing follows them.",
        explanation: "The rule is broken if the message ends before the arguments do, if a word \
            has a value that its definition does not allow, if a count differs from the data after \
            it, or if bytes follow the arguments. A value that is not allowed is no fault if the reply reports success, \
            because the Responder evidently knows it. Not covered are programs that rdmascope \
            does not know, operations without a definition, arguments that RPCSEC_GSS protects, \
            and calls that the capture truncated. Faults of headers and of Read chunks are \
            covered by other rules.",
        check: Check::Transaction(arguments),
    },
    Checked {
        id: "rpc-results",
        level: Level::Violation,
        sources: &[MESSAGE, XDR],
        sentence: "The results of a reply can be read by the XDR definition of its procedure, and nothing follows them.",
        explanation: "The rule is decided like rpc-arguments. A reply whose RPC status is not \
            success has no results. In the results of a COMPOUND, the first operation that fails \
            is the last one (RFC 7530, section 16.2). The rule depends on the reply belonging to \
            its call, as write-chunk-count does. If the data of a result is missing from its \
            Write chunk, write-chunk-length or write-chunk-order reports it.",
        check: Check::Transaction(results),
    },
    Checked {
        id: "compound-results",
        level: Level::Violation,
        sources: &[COMPOUND, COMPOUND_4_1],
        sentence: "The reply to a COMPOUND has one result for each operation up to the first that failed, and the status of the last one.",
        explanation: "A reply with NFS4_OK has as many results as the call has operations. Each \
            result is that of the operation at its place, or OP_ILLEGAL. The \
            rule applies if all arguments and results were read. It depends on the reply \
            belonging to its call, as write-chunk-count does. If session-sequence reports the \
            request, the reply may be the one that the Responder kept for another request, and \
            results of other operations are no finding.",
        check: Check::Transaction(compound_results),
    },
    Checked {
        id: "compound-tag",
        level: Level::Warning,
        sources: &[COMPOUND, COMPOUND_4_1],
        sentence: "The reply to a COMPOUND has the tag of its call.",
        explanation: "The specifications say SHOULD. The rule depends on the reply belonging to \
            its call, as write-chunk-count does.",
        check: Check::Transaction(compound_tag),
    },
    Checked {
        id: "result-count",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc1813, section: "3.3.6" },
            Source { document: Document::Rfc1813, section: "3.3.7" },
            Source { document: Document::Rfc1813, section: "3.3.16" },
            Source { document: Document::Rfc1813, section: "3.3.17" },
            Source { document: Document::Rfc8881, section: "18.22" },
            Source { document: Document::Rfc8881, section: "18.23" },
            Source { document: Document::Rfc8881, section: "18.32" },
        ],
        sentence: "A READ or READDIR returns no more bytes than were asked for, and a WRITE counts no more than were sent.",
        explanation: "The counts of the result are compared with those of the arguments. For \
            READDIR and READDIRPLUS, the entries with the mark of the end are compared with count \
            or maxcount. The limit includes the attributes and the verifier before them, but \
            servers differ there. The rule depends on the reply belonging to its call, as write-chunk-count does.",
        check: Check::Transaction(result_count),
    },
    Checked {
        id: "result-stable",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc1813, section: "3.3.7" },
            Source { document: Document::Rfc8881, section: "18.32" },
        ],
        sentence: "A WRITE commits its data at least as far as was asked for.",
        explanation: "UNSTABLE is less than DATA_SYNC, and that is less than FILE_SYNC. The rule \
            depends on the reply belonging to its call, as write-chunk-count does.",
        check: Check::Transaction(result_stable),
    },
    Checked {
        id: "rpc-garbage-arguments",
        level: Level::Warning,
        sources: &[UNPARSED, COMPLEXITY, MESSAGE],
        sentence: "A Responder does not answer a call with GARBAGE_ARGS if the arguments can be \
            read.",
        explanation: "The rule is broken if the arguments were read to their end with nothing \
            after them, and the chunks are correct. rpc-results covers a reply with trailing \
            bytes. Not covered are calls of NFS version 4 with chunk lists that a server need not \
            process (binding-complexity), and calls with chunks in the reverse direction. The \
            rule is a warning, because a Responder may use the status for faults of its own.",
        check: Check::Transaction(garbage),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: UNPARSED,
    requirement: "A Responder whose upper layer cannot parse the arguments of a call answers with GARBAGE_ARGS.",
    reason: "The arguments that an implementation cannot parse are not on the wire. rpc-arguments \
        reports faulty calls.",
}];

/// True unless arguments and results were read to their end, with nothing after them.
pub(crate) fn may_break(transaction: &Transaction) -> bool {
    let is_odd = |message: &Message| message.unread.is_some() || message.unused > 0;
    let is_wrong =
        |it: &Operation| exceeds(it).is_some() || exceeds_entries(it).is_some() || stable(it).is_some();
    transaction.messages().any(is_odd)
        || transaction.rpc_status == Some(rpc::Status::GarbageArguments)
        || transaction.details.returns_tag == Some(false)
        || transaction.details.other_result.is_some()
        || wrong_results(transaction).is_some()
        || transaction.details.operations.iter().any(is_wrong)
}

/// The wrong number of results of a COMPOUND, or the wrong status.
enum WrongResults {
    Count { found: u32, called: u32 },
    Status { found: u32, last: u32 },
}

fn wrong_results(transaction: &Transaction) -> Option<WrongResults> {
    let details = &transaction.details;
    let (found, called, status) = (details.answered?, details.called?, details.status?);
    if found > called || status == 0 && found < called {
        return Some(WrongResults::Count { found, called });
    }
    let last = details.operations.get((found as usize).checked_sub(1)?)?.status?;
    (last != status).then_some(WrongResults::Status { found: status, last })
}

/// The count of a result, and the lower one of its arguments.
fn exceeds(operation: &Operation) -> Option<(u64, u64)> {
    let is_counted = operation.kind.is_read() || operation.stable[1].is_some();
    let (found, most) = (operation.result_count?, operation.count?);
    (is_counted && operation.status == Some(0) && found > most).then_some((found, most))
}

/// The bytes of directory entries in a result, and the lower limit of its arguments.
fn exceeds_entries(operation: &Operation) -> Option<(u64, u64)> {
    let (found, most) = (u64::from(operation.entry_bytes?), operation.count?);
    (operation.status == Some(0) && found > most).then_some((found, most))
}

/// The stable_how of a result, and the higher one of its arguments.
fn stable(operation: &Operation) -> Option<(u8, u8)> {
    let [Some(requested), Some(found)] = operation.stable else { return None };
    (operation.status == Some(0) && found < requested).then_some((found, requested))
}

/// The fault of a body.
enum Fault {
    /// It ends early.
    Short(Stop),
    /// A word has a value that is not allowed.
    Value(Stop),
    /// This number of bytes follows it.
    Trailing(u32),
}

/// The least number of bytes after a body that are not the roundup padding of a reduced item or of
/// a stream in a chunk. reduced-payload-padding and long-message-padding cover those.
const SOME: u32 = 4;
/// The newest minor version of NFS version 4 that rdmascope supports.
const MINOR: u32 = 2;

/// The bytes after a body that no other rule covers.
fn trailing_bytes(message: &Message, is_reply: bool) -> Option<u32> {
    let moves = |chunk: &Chunk| is_reply && Segment::total(&chunk.segments) > 0;
    let is_plain = message.procedure == Procedure::Msg
        && message.read_chunks.is_empty()
        && !message.write_chunks.iter().any(moves);
    Some(message.unused).filter(|unused| *unused >= SOME || *unused > 0 && is_plain)
}

fn fault_of(message: &Message, transaction: &Transaction, is_reply: bool) -> Option<Fault> {
    let is_cut = message.stop.is_some() || message.missing.iter().any(|missing| missing.part == Part::Send);
    let is_new = transaction.details.minor_version.is_some_and(|version| version > MINOR);
    let has_unknown = transaction.details.operations.iter().any(|operation| {
        matches!(operation.kind, OperationKind::Unknown(_) | OperationKind::UnknownProcedure(_))
    });
    if is_cut || is_new || has_unknown || bodies::is_sealed(transaction) {
        return None;
    }
    match message.unread {
        Some(stop) if !matches!(stop.layer, Layer::UpperLayer | Layer::Rpc) => None,
        Some(stop) if stop.cause == Cause::TruncatedPacket => Some(Fault::Short(stop)),
        Some(stop) if stop.cause == Cause::Malformed && stop.layer == Layer::UpperLayer => {
            Some(Fault::Value(stop))
        }
        Some(_) => None,
        None => trailing_bytes(message, is_reply).map(Fault::Trailing),
    }
}

/// Describes a fault as a finding with its values.
fn describe(fault: &Fault, subject: &str, finding: impl FnOnce(alloc::string::String) -> Finding) -> Finding {
    match fault {
        Fault::Short(stop) => finding(format!(
            "{subject} end early: at byte {} of the RPC message {} bytes are missing",
            stop.offset,
            stop.needed.saturating_sub(stop.available)
        ))
        .values(Value::Bytes(stop.available as u64), Value::Bytes(stop.needed as u64)),
        Fault::Value(stop) => finding(format!(
            "{subject} have a word at byte {} of the RPC message that is not allowed",
            stop.offset
        )),
        Fault::Trailing(bytes) => finding(format!("{bytes} bytes after {subject}"))
            .values(Value::Bytes(u64::from(*bytes)), Value::Bytes(0)),
    }
}

fn arguments(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    let Some(call) = transaction.call.as_ref() else { return };
    let Some(fault) = fault_of(call, transaction, false) else { return };
    let succeeded = transaction.status == Some(0);
    let is_accepted = matches!(fault, Fault::Value(_)) && succeeded;
    if is_accepted
        || view.unmatched.is_reused(view.caller(transaction.direction), transaction.xid)
        || header::fault::fault_of(call, transaction.xid).is_some()
        || !has_own_reads(transaction, call)
    {
        return;
    }
    let finding = |words| by_caller(transaction, view, words);
    findings.add(describe(&fault, "the arguments", finding));
}

/// Whether each Read chunk of a call is an argument, or holds the Payload stream.
fn has_own_reads(transaction: &Transaction, call: &Message) -> bool {
    read::has_sound_positions(call)
        && !read::has_two_streams(call)
        && call.read_chunks.iter().enumerate().filter(|(_, chunk)| chunk.position != 0).all(
            |(index, chunk)| {
                transaction.details.operations.iter().filter_map(|operation| operation.argument_item).any(
                    |item| {
                        let bytes = Segment::total(&chunk.segments);
                        matches!(item.place, Place::ReadChunk(own) if usize::from(own) == index)
                            && bytes >= item.length.into()
                    },
                )
            },
        )
}

fn results(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return };
    let Some(fault) = fault_of(reply, transaction, true) else { return };
    // Without the credential of the call, it is unknown whether RPCSEC_GSS protects the results.
    let is_known = transaction.security.is_some();
    let is_conveyed = write::holds_results(transaction, call, reply) && chunks::reply::holds_stream(reply);
    if !is_known || !is_conveyed {
        return;
    }
    let finding = |words| paired(transaction, view, words);
    let subject = match transaction.rpc_status {
        Some(status) if status.has_no_results() => "a reply that has no results",
        _ => "the results",
    };
    findings.add(describe(&fault, subject, finding));
}

/// Whether arguments and results of a transaction were read.
fn is_read(transaction: &Transaction) -> bool {
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return false };
    bodies::is_called(transaction, call) && bodies::is_read(transaction, reply)
}

fn compound_results(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    other_result(transaction, view, findings);
    let Some(wrong) = wrong_results(transaction).filter(|_| is_read(transaction)) else { return };
    let (words, found, allowed) = match wrong {
        WrongResults::Count { found, called } => {
            (format!("{found} results to {called} operations"), found, called)
        }
        WrongResults::Status { found, last } => {
            (format!("status {found}, but the last result has {last}"), found, last)
        }
    };
    findings.add(
        paired(transaction, view, words).values(Value::Count(found.into()), Value::Count(allowed.into())),
    );
}

/// Reports a result that belongs to another operation than the one at its place.
fn other_result(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    let details = &transaction.details;
    let Some((index, found)) = details.other_result.filter(|_| is_read(transaction)) else { return };
    let called = details.operations[index as usize].kind;
    if !view.memory.is_out_of_order() {
        let words = format!(
            "result {0} is for {1}, and operation {0} is {2}",
            index + 1,
            found.name(),
            called.name()
        );
        let values = (Value::Name(found.name()), Value::Name(called.name()));
        findings.add(paired(transaction, view, words).values(values.0, values.1));
    }
}

fn compound_tag(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    if transaction.details.returns_tag == Some(false) && is_read(transaction) {
        findings.add(paired(transaction, view, "a reply with another tag than its call"));
    }
}

fn result_count(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    // read-chunk-length and read-chunk-padding cover a Read chunk with more bytes than its item.
    let moved = transaction.call.as_ref().map_or(0, chunks::read_bytes);
    let is_own =
        |operation: &&Operation| is_read(transaction) && (moved == 0 || operation.result_count > Some(moved));
    let operations = transaction.details.operations.iter().filter(is_own);
    for (operation, (found, most)) in operations.filter_map(|it| Some((it, exceeds(it)?))) {
        let words = format!("{} of {most} bytes was answered with a count of {found}", operation.name());
        findings.add(paired(transaction, view, words).values(Value::Bytes(found), Value::Bytes(most)));
    }
    let listings = transaction.details.operations.iter().filter(|_| is_read(transaction));
    for (operation, (found, most)) in listings.filter_map(|it| Some((it, exceeds_entries(it)?))) {
        let words =
            format!("{} of {most} bytes was answered with {found} bytes of entries", operation.name());
        findings.add(paired(transaction, view, words).values(Value::Bytes(found), Value::Bytes(most)));
    }
}

fn result_stable(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    const NAMES: [&str; 3] = ["UNSTABLE", "DATA_SYNC", "FILE_SYNC"];
    let operations = transaction.details.operations.iter().filter(|_| is_read(transaction));
    for (found, requested) in operations.filter_map(stable) {
        let [found, requested] = [found, requested].map(|value| NAMES[usize::from(value)]);
        let words = format!("a WRITE that asked for {requested} was committed as {found}");
        findings.add(paired(transaction, view, words).values(Value::Name(found), Value::Name(requested)));
    }
}

fn garbage(transaction: &Transaction, view: &View<'_, SessionUse>, findings: &mut Findings<'_>) {
    let (Some(call), Some(rpc::Status::GarbageArguments)) = (&transaction.call, transaction.rpc_status)
    else {
        return;
    };
    let is_correct = bodies::is_called(transaction, call)
        && trailing_bytes(call, false).is_none()
        && transaction.reply.as_ref().is_none_or(|reply| trailing_bytes(reply, true).is_none())
        && header::fault::fault_of(call, transaction.xid).is_none()
        && chunks::is_in_order(transaction, call)
        && has_own_reads(transaction, call)
        && chunks::room::has_to_take(transaction, call);
    if is_correct {
        let words = "GARBAGE_ARGS in answer to a call whose arguments can be read";
        findings.add(
            paired(transaction, view, words).values(Value::Name("GARBAGE_ARGS"), Value::Name("SUCCESS")),
        );
    }
}
