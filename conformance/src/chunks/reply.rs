//! Long Messages and the Reply chunk (RFC 8166, sections 3.5, 4.2.4 and 4.3.3; RFC 8267, section
//! 3).

use super::super::check::{Check, Checked, Findings, View};
use super::super::finding::{Finding, Value, plural};
use super::super::judged::{by_answerer, by_caller, paired};
use super::super::rule::{Document, Level, Source, Unseen};
use super::lists::{both, call, listed, reply};
use super::unoffered::Unoffered;
use super::{binding, memory, read, room, unoffered, write};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use rdmascope_dissector::transaction::{Chunk, Direction, Message, Transaction};
use rdmascope_wire::rpcrdma::{self, Procedure, Segment};

const PROCEDURE: Source = Source { document: Document::Rfc8166, section: "4.2.4" };
const LONG: Source = Source { document: Document::Rfc8166, section: "3.5.3" };
const ROUNDUP: Source = Source { document: Document::Rfc8166, section: "3.4.4.4" };
const REPLY: Source = Source { document: Document::Rfc8166, section: "4.3.3" };
const OPERATIONAL: Source = Source { document: Document::Rfc8166, section: "4.5.3" };
const ESTIMATION: Source = Source { document: Document::Rfc8267, section: "3" };
const RETRY: Source = Source { document: Document::Rfc8267, section: "3.1" };
const PROVIDED: Source = Source { document: Document::ReliableReply, section: "4.1" };

pub(crate) const RULES: &[Checked<Unoffered>] = &[
    Checked {
        id: "long-message-chunk",
        level: Level::Violation,
        sources: &[PROCEDURE, LONG, PROVIDED],
        sentence: "An RDMA_NOMSG has a chunk that holds its Payload stream.",
        explanation: "In a call, that is the Position Zero Read chunk. In a reply, it is the \
            Reply chunk, or the Position Zero Read chunk of the reliable-reply draft. A chunk of \
            zero bytes cannot hold a Payload stream.",
        check: Check::Transaction(long_without_chunk),
    },
    Checked {
        id: "long-message-inline",
        level: Level::Violation,
        sources: &[PROCEDURE, LONG],
        sentence: "Nothing follows the chunk lists of an RDMA_NOMSG.",
        explanation: "The Payload stream is in a chunk, so the Send ends with its header.",
        check: Check::Transaction(long_with_payload),
    },
    Checked {
        id: "long-message-padding",
        level: Level::Violation,
        sources: &[LONG],
        sentence: "A chunk that holds a Payload stream includes all of its roundup padding.",
        explanation: "The length of an XDR stream is a multiple of four bytes. So is the length \
            of the Position Zero Read chunk of a call, and of the data that a reply returns in \
            the Reply chunk.",
        check: Check::Transaction(long_alignment),
    },
    Checked {
        id: "reduced-payload-padding",
        level: Level::Violation,
        sources: &[ROUNDUP],
        sentence: "A sender removes the roundup padding of a reduced item from the Payload stream together with the item.",
        explanation: "Every remaining item begins at a multiple of four bytes, so the length of \
            the Payload stream of an RDMA_MSG with reduced items is a multiple of four bytes. \
            Nothing is reported if the capture does not show the length of the Send.",
        check: Check::Transaction(reduced_alignment),
    },
    Checked {
        id: "reply-chunk-returned",
        level: Level::Violation,
        sources: &[REPLY],
        sentence: "A reply to a call with a Reply chunk returns that chunk.",
        explanation: "The chunk is returned even if the reply does not use it, with segments of \
            length zero. The rule is decided like write-chunk-count.",
        check: Check::Transaction(not_returned),
    },
    Checked {
        id: "reply-chunk-not-offered",
        level: Level::Violation,
        sources: &[REPLY],
        sentence: "A reply returns a Reply chunk only if the call offered one.",
        explanation: "The rule is decided like write-chunk-count.",
        check: Check::Transaction(not_offered),
    },
    Checked {
        id: "reply-chunk-unused",
        level: Level::Violation,
        sources: &[REPLY, PROCEDURE],
        sentence: "A reply that is an RDMA_MSG returns its Reply chunk with segments of length zero.",
        explanation: "The lengths give the number of bytes in the chunk, but an RDMA_MSG has its \
            Payload stream in the Send.",
        check: Check::Transaction(used_with_msg),
    },
    Checked {
        id: "reply-chunk-empty",
        level: Level::Warning,
        sources: &[REPLY],
        sentence: "A Requester that needs no Reply chunk leaves it out.",
        explanation: "A Reply chunk of zero bytes cannot hold a reply.",
        check: Check::Transaction(offered_empty),
    },
    Checked {
        id: "reply-chunk-needed",
        level: Level::Warning,
        sources: &[REPLY, ESTIMATION],
        sentence: "A call whose reply can exceed the inline threshold offers a Reply chunk, or \
            Write chunks for the long items.",
        explanation: "The rule covers READ without Write chunks, READDIR and READDIRPLUS, if they \
            ask for more bytes than the threshold towards the Requester. RFC 8166 requires room \
            for the largest possible reply (MUST). That depends on what the Requester knows, for \
            example that the object is shorter, and RFC 8267 lets it rely on that. A capture does \
            not show such knowledge, so the finding is a warning. The rule is decided when the \
            connection ends. Nothing is reported on a call without a reply, on a connection on \
            which a reply was sent in a Read chunk of the Responder, as the reliable-reply draft \
            allows, or if the capture lacks the negotiation.",
        check: Check::Connection(unoffered::needed),
    },
    Checked {
        id: "reply-chunk-too-small",
        level: Level::Warning,
        sources: &[RETRY, REPLY, OPERATIONAL],
        sentence: "A Requester provides enough room for the largest reply that its call can have.",
        explanation: "A Responder answers with ERR_CHUNK if its reply fits neither inline nor \
            into the Reply chunk. It also does so for chunk lists that it cannot parse. The rule \
            is broken if the header and the chunk lists of the call are correct, and a result of \
            it has no length limit, or one that exceeds both the inline threshold and the Reply \
            chunk. If every possible reply would fit, header-error-chunk reports the Responder. \
            Calls in the reverse direction are not covered.",
        check: Check::Transaction(refused),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: REPLY,
        requirement: "A Requester provides a Reply chunk whenever the maximum size of the reply is larger than the inline threshold.",
        reason: "For most procedures the maximum depends on the client's knowledge of the object \
            and on its own limits. reply-chunk-needed and reply-chunk-too-small judge the cases \
            that are visible on the wire.",
    },
    Unseen {
        source: LONG,
        requirement: "A Payload stream that is too large to be sent inline is first reduced if it \
            has DDP-eligible items, and then conveyed by RDMA Read or Write if it is still too \
            large.",
        reason: "The order in which a sender decides is not on the wire. Other rules judge the \
            reduced items and the lengths of its Sends.",
    },
    Unseen {
        source: RETRY,
        requirement: "A client does not retry a request with a short Reply chunk forever, and \
            only for operations whose reply size it cannot know.",
        reason: "A request with a new XID does not identify the request that it repeats.",
    },
];

/// The length of the chunk that holds the Payload stream of an RDMA_NOMSG; 0 if there is none.
#[inline]
fn stream_of(message: &Message, is_reply: bool) -> u64 {
    let zero = message.read_chunks.iter().find(|chunk| chunk.position == 0);
    let segments = match (zero, &message.reply_chunk) {
        (Some(chunk), _) => &chunk.segments,
        (None, Some(chunk)) if is_reply => &chunk.segments,
        (None, _) => return 0,
    };
    Segment::total(segments)
}

/// Whether this is an RDMA_NOMSG without a Payload stream.
#[inline]
fn lacks_stream(message: &Message, is_reply: bool) -> bool {
    message.procedure == Procedure::Nomsg && stream_of(message, is_reply) == 0
}

/// Whether a reply conveys its Payload stream correctly: inline, or in a chunk with the length of
/// an XDR stream.
pub(in super::super) fn holds_stream(reply: &Message) -> bool {
    let bytes = stream_of(reply, true);
    reply.procedure == Procedure::Msg || bytes > 0 && bytes.is_multiple_of(4)
}

fn long_without_chunk(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    if let Some(call) = call(transaction).filter(|call| lacks_stream(call, false)) {
        let listed =
            if call.read_chunks.is_empty() { "no Read chunk" } else { "no Position Zero Read chunk" };
        let message = format!(
            "a call by RDMA_NOMSG with {listed} that holds \
                any bytes"
        );
        findings.add(
            by_caller(transaction, view, message)
                .values(Value::Bytes(0), Value::Words("the Payload stream".to_owned())),
        );
    }
    // read-chunk-in-reply reports a Read chunk at another Position than zero.
    let has_other = |reply: &Message| reply.read_chunks.iter().any(|chunk| chunk.position != 0);
    if let Some(reply) = reply(transaction).filter(|reply| lacks_stream(reply, true) && !has_other(reply)) {
        let listed = if reply.reply_chunk.is_some() { "an empty Reply chunk" } else { "no Reply chunk" };
        findings.add(
            by_answerer(transaction, view, format!("a reply by RDMA_NOMSG with {listed}"))
                .values(Value::Bytes(0), Value::Words("the Payload stream".to_owned())),
        );
    }
}

/// Call and reply, each with whether it is the reply.
#[inline]
fn messages(transaction: &Transaction) -> impl Iterator<Item = (&Message, bool)> {
    let messages = [(&transaction.call, false), (&transaction.reply, true)];
    messages.into_iter().filter_map(|(message, is_reply)| Some((listed(message.as_ref())?, is_reply)))
}

fn by_sender(
    transaction: &Transaction,
    view: &View<'_, Unoffered>,
    is_reply: bool,
    message: String,
) -> Finding {
    let by = if is_reply { by_answerer } else { by_caller };
    by(transaction, view, message)
}

fn long_with_payload(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    for (message, is_reply) in messages(transaction) {
        let trailing = message.send_length.saturating_sub(message.header_length);
        if message.procedure == Procedure::Nomsg && trailing > 0 {
            let words = format!("an RDMA_NOMSG with {trailing} bytes after its chunk lists");
            findings.add(
                by_sender(transaction, view, is_reply, words)
                    .values(Value::Bytes(trailing.into()), Value::Bytes(0)),
            );
        }
    }
}

fn long_alignment(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    for (message, is_reply) in messages(transaction) {
        if message.procedure != Procedure::Nomsg {
            continue;
        }
        let bytes = stream_of(message, is_reply);
        if !bytes.is_multiple_of(4) {
            let words = format!("a Payload stream of {bytes} bytes in a chunk");
            findings.add(
                by_sender(transaction, view, is_reply, words)
                    .values(Value::Bytes(bytes), Value::Words("a multiple of 4".to_owned())),
            );
        }
    }
}

fn reduced_alignment(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    for (message, is_reply) in messages(transaction) {
        let bytes = message.send_length.saturating_sub(message.header_length);
        if bytes % 4 == 0 || message.procedure != Procedure::Msg || message.message_length.is_none() {
            continue;
        }
        let is_reduced = if is_reply {
            message.write_chunks.iter().any(|chunk| Segment::total(&chunk.segments) > 0)
        } else {
            message.read_chunks.iter().any(|chunk| chunk.position != 0)
        };
        if is_reduced {
            let words = format!("a reduced Payload stream of {bytes} bytes");
            findings.add(
                by_sender(transaction, view, is_reply, words)
                    .values(Value::Bytes(bytes.into()), Value::Words("a multiple of 4".to_owned())),
            );
        }
    }
}

fn segments_of(chunk: &Chunk) -> Value {
    let (bytes, segments) = (Segment::total(&chunk.segments), chunk.segments.len());
    Value::Words(format!("{bytes} bytes in {segments} segment{}", plural(segments)))
}

fn not_returned(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    // long-message-chunk reports a Long Reply without its chunk.
    if let (Some(offered), None) = (&call.reply_chunk, &reply.reply_chunk)
        && !lacks_stream(reply, true)
    {
        let bytes = Segment::total(&offered.segments);
        let message = format!(
            "a reply by {} without the Reply chunk of {bytes} bytes that was offered",
            reply.procedure
        );
        findings.add(paired(transaction, view, message).values(Value::Name("none"), segments_of(offered)));
    }
}

fn not_offered(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    let Some((call, reply)) = both(transaction) else { return };
    if let (None, Some(returned)) = (&call.reply_chunk, &reply.reply_chunk) {
        let bytes = Segment::total(&returned.segments);
        let message = format!("a reply with a Reply chunk of {bytes} bytes to a call without one");
        findings.add(paired(transaction, view, message).values(segments_of(returned), Value::Name("none")));
    }
}

fn used_with_msg(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    let Some(reply) = reply(transaction).filter(|reply| reply.procedure == Procedure::Msg) else { return };
    let Some(chunk) = &reply.reply_chunk else { return };
    let bytes = Segment::total(&chunk.segments);
    if bytes > 0 {
        let message = format!("a reply by RDMA_MSG with {bytes} bytes in its Reply chunk");
        findings.add(by_answerer(transaction, view, message).values(Value::Bytes(bytes), Value::Bytes(0)));
    }
}

fn offered_empty(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    let Some(call) = call(transaction) else { return };
    if let Some(chunk) = &call.reply_chunk
        && Segment::total(&chunk.segments) == 0
    {
        let count = chunk.segments.len();
        let message = format!("a Reply chunk of {count} segment{} and no bytes", plural(count));
        findings.add(by_caller(transaction, view, message).observed(segments_of(chunk)));
    }
}

/// Whether the chunk lists of a call are correct and its arguments were read.
pub(in super::super) fn is_in_order(transaction: &Transaction, call: &Message) -> bool {
    listed(Some(call)).is_some()
        && read::has_one_stream(call)
        && read::has_sound_positions(call)
        && !lacks_stream(call, false)
        && call.unread.is_none()
        && call.rpc_xid == Some(transaction.xid)
        && !memory::overlaps(call)
        && !binding::is_reduced_wrongly(transaction, call)
        && read::has_own_lengths(transaction, call)
        && !write::lists_only_empty(call)
}

fn refused(transaction: &Transaction, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    if transaction.error != Some(rpcrdma::Error::Chunk) || transaction.direction == Direction::Backward {
        return;
    }
    let Some(call) = call(transaction) else { return };
    let is_correct = is_in_order(transaction, call) && room::has_to_take(transaction, call);
    if !is_correct || room::can_overrun(transaction, call, view) != Some(true) {
        return;
    }
    let room = call.reply_chunk.as_ref().map(|chunk| Segment::total(&chunk.segments));
    let message = match room {
        Some(room) => format!("ERR_CHUNK to a call with a Reply chunk of {room} bytes"),
        None => "ERR_CHUNK to a call without a Reply chunk".to_owned(),
    };
    let finding = paired(transaction, view, message).by(view.caller(transaction.direction));
    findings.add(finding.observed(Value::Bytes(room.unwrap_or(0))));
}
