//! Headers (RFC 8166, sections 4.2, 4.5 and 4.6; reliable-reply draft, section 4.1).

mod checks;

use super::rule::{Check, Document, Gate, Level, Rule, Source, Unseen};
use super::view::View;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::transaction::{Message, Outcome, Transaction};
use rdmascope_wire::rpcrdma::{MINIMUM_LENGTH, Procedure, VERSION};
use rdmascope_wire::{Cause, Xid};

const fn rfc8166(section: &'static str) -> Source {
    Source { document: Document::Rfc8166, section }
}

const fn rfc8167(section: &'static str) -> Source {
    Source { document: Document::Rfc8167, section }
}

const fn draft(section: &'static str) -> Source {
    Source { document: Document::ReliableReply, section }
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "header-version",
        level: Level::Violation,
        sources: &[rfc8166("4.2.2"), rfc8167("5.1")],
        sentence: "rdma_vers is 1.",
        explanation: "No other version of the protocol has been published. Every message is looked at but an RDMA_ERROR, which copies the version \
            that it refuses, and a reply, for which header-reply-version stands.",
        check: Check::Sent(checks::version),
    },
    Rule {
        id: "header-reply-version",
        level: Level::Violation,
        sources: &[rfc8166("4.2.2"), rfc8167("5.2")],
        sentence: "rdma_vers of a reply is that of its call.",
        explanation: "Every reply is looked at whose call was captured; of an RDMA_ERROR, header-error-version asks the same.",
        check: Check::Transaction(checks::reply_version),
    },
    Rule {
        id: "header-xid",
        level: Level::Violation,
        sources: &[rfc8166("4.2.1"), rfc8167("5.1"), rfc8167("5.2")],
        sentence: "rdma_xid is the XID of the RPC message.",
        explanation: "Looked at in calls and replies, whether their Payload stream is inline or in a chunk, as far as its first bytes were captured. In a \
            chunk, inconclusive where the capture lacks packets: an earlier message may have been there.",
        check: Check::Transaction(checks::xid),
    },
    Rule {
        id: "header-too-short",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.1.2")],
        sentence: "A message has at least the bytes of the smallest header.",
        explanation: "That is 28 bytes for all but RDMA_ERROR with ERR_CHUNK, which has 20 and no more to say, and RDMA_DONE, which has 16. The \
            length on the wire counts, not what was captured of it.",
        check: Check::Sent(checks::too_short),
    },
    Rule {
        id: "header-short-answered",
        level: Level::Violation,
        sources: &[rfc8166("4.5")],
        sentence: "A message of less than 28 bytes is discarded without an answer.",
        explanation: "Its XID cannot be trusted. Found where a reply or an RDMA_ERROR bears the XID of such a message, sent as if it were a call.",
        check: Check::Transaction(checks::short_answered),
    },
    Rule {
        id: "header-unreadable",
        level: Level::Violation,
        sources: &[rfc8166("4.1.2"), rfc8166("4.3"), rfc8166("4.7")],
        sentence: "A header can be parsed to its end as the XDR definition says.",
        explanation: "Broken where the word in front of a list's entry is neither 0 nor 1, or the message ends before its lists or its error do. Where \
            the capture cut the message off, only what it holds counts.",
        check: Check::Sent(checks::unreadable),
    },
    Rule {
        id: "header-procedure",
        level: Level::Violation,
        sources: &[rfc8166("4.2.4"), rfc8166("4.1.2")],
        sentence: "rdma_proc is one of the procedures of version 1.",
        explanation: "These are 0 to 4. Messages of other versions are left to header-version.",
        check: Check::Sent(checks::procedure),
    },
    Rule {
        id: "header-msgp",
        level: Level::Violation,
        sources: &[rfc8166("4.6.1")],
        sentence: "Nobody sends RDMA_MSGP.",
        explanation: "It was never specified in full, and is obsolete.",
        check: Check::Sent(checks::padded),
    },
    Rule {
        id: "header-msgp-not-refused",
        level: Level::Warning,
        sources: &[rfc8166("4.6.1")],
        sentence: "A Responder answers an RDMA_MSGP with ERR_CHUNK.",
        explanation: "Found where another reply comes; an ERR_VERS is left to header-error-unfounded.",
        check: Check::Transaction(checks::padded_accepted),
    },
    Rule {
        id: "header-done",
        level: Level::Violation,
        sources: &[rfc8166("4.6.2"), draft("4.1.3")],
        sentence: "Nobody sends RDMA_DONE, unless a reply in a Read chunk of the Responder waits to be pulled.",
        explanation: "RFC 8166 has no use for it; the reliable-reply draft has it say that such a chunk was pulled, once. Decided when the connection \
            ends; inconclusive where the capture may lack the reply.",
        check: Check::Connection(checks::done),
    },
    Rule {
        id: "header-done-missing",
        level: Level::Violation,
        sources: &[draft("4.1.2"), draft("4.1.3")],
        sentence: "A Requester says RDMA_DONE once it has pulled a reply from a Read chunk of the Responder.",
        explanation: "There is no time limit, so it is found where the connection was closed without one. Inconclusive where the capture may lack \
            it, or does not show that all of the chunk was pulled.",
        check: Check::Connection(checks::done_missing),
    },
    Rule {
        id: "header-error-by-requester",
        level: Level::Violation,
        sources: &[rfc8166("4.2.4"), rfc8166("4.5")],
        sentence: "A Requester sends no RDMA_ERROR, not even in answer to a reply that is wrong.",
        explanation: "Found where an end sends an RDMA_ERROR that answers no call, and bears the XID of one of the last 16 calls of its own that were \
            answered. Inconclusive where the capture may lack a call of the other end.",
        check: Check::Connection(checks::error_by_requester),
    },
    Rule {
        id: "header-error-unmatched",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.6.2")],
        sentence: "An RDMA_ERROR has the XID of the call that it answers.",
        explanation: "Found where no call with its XID is outstanding, as with one that answers an RDMA_DONE, which is to be discarded. Decided when \
            the connection ends; inconclusive where the capture may lack the call.",
        check: Check::Connection(checks::error_unmatched),
    },
    Rule {
        id: "header-error-version",
        level: Level::Violation,
        sources: &[rfc8166("4.5")],
        sentence: "rdma_vers of an RDMA_ERROR is that of the call that it answers.",
        explanation: "Every RDMA_ERROR is looked at whose call was captured.",
        check: Check::Transaction(checks::error_version),
    },
    Rule {
        id: "header-error-code",
        level: Level::Violation,
        sources: &[rfc8166("4.1.2"), rfc8166("4.5")],
        sentence: "rdma_err is ERR_VERS or ERR_CHUNK.",
        explanation: "Every RDMA_ERROR is looked at.",
        check: Check::Sent(checks::error_code),
    },
    Rule {
        id: "header-error-kind",
        level: Level::Violation,
        sources: &[rfc8166("4.5.1")],
        sentence: "A version that a Responder does not support is answered with ERR_VERS.",
        explanation: "Found where a call of another version than 1 is answered with ERR_CHUNK.",
        check: Check::Transaction(checks::error_kind),
    },
    Rule {
        id: "header-error-unfounded",
        level: Level::Violation,
        sources: &[rfc8166("4.5.1"), rfc8166("4.5.2")],
        sentence: "A call of version 1 is not answered with ERR_VERS.",
        explanation: "Version 1 is the only one there is. Where anything else is wrong with the header, the answer is ERR_CHUNK.",
        check: Check::Transaction(checks::error_unfounded),
    },
    Rule {
        id: "header-error-range",
        level: Level::Violation,
        sources: &[rfc8166("4.5.1")],
        sentence: "ERR_VERS names the lowest and the highest version that the Responder supports.",
        explanation: "Broken where the lowest is above the highest, where the version that is refused lies between them, or where version 1 does not, \
            although the Responder has replied in it before.",
        check: Check::Transaction(checks::error_range),
    },
    Rule {
        id: "header-error-chunk",
        level: Level::Warning,
        sources: &[rfc8166("4.5.2"), rfc8166("4.5.3"), rfc8166("6.2")],
        sentence: "A call whose header is right is answered with an RPC reply.",
        explanation: "ERR_CHUNK says that the header or the chunks of the call cannot be used. Where the header is right, it mostly means that the \
            chunks for the reply are too small or not there, which is the Requester's fault, or that the Responder could not use memory. Calls \
            with chunks in the backward direction are left out: a Responder need not support them.",
        check: Check::Transaction(checks::error_chunk),
    },
    Rule {
        id: "header-trailing-bytes",
        level: Level::Warning,
        sources: &[rfc8166("4.2.4"), rfc8166("4.1.2")],
        sentence: "Nothing follows the header of an RDMA_ERROR or an RDMA_DONE.",
        explanation: "Neither has a Payload stream. Bytes that fill up the 28 below which a receiver discards a message are left out.",
        check: Check::Sent(checks::trailing),
    },
    Rule {
        id: "header-fault-accepted",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.5.2")],
        sentence: "A call whose header is wrong is answered with RDMA_ERROR.",
        explanation: "Found where an RPC reply answers a call with an unknown rdma_proc, with chunk lists that cannot be parsed, or with an \
            RDMA_NOMSG whose Payload stream is in no chunk. An rdma_xid unlike the XID of the RPC call may be overlooked (section 4.2.1); \
            that a call of another version is replied to shows that it is supported.",
        check: Check::Transaction(checks::fault_accepted),
    },
    Rule {
        id: "header-fault-unanswered",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.5.1"), rfc8166("4.5.2")],
        sentence: "A Responder does not keep silent about a call whose header is wrong.",
        explanation: "Found where the connection was closed, no answer came, and a call that was sent later was answered. The faults are those of \
            header-fault-accepted, and a version other than 1. Inconclusive where the capture may lack the answer.",
        check: Check::Transaction(checks::fault_unanswered),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: rfc8166("4.2.4"),
        requirement: "A Responder silently discards an RDMA_ERROR.",
        reason: "What a receiver does with a message shows only where it answers, and then as a message that answers no call.",
    },
    Unseen {
        source: rfc8166("4.5"),
        requirement: "A Requester silently discards a reply whose header is wrong.",
        reason: "What a receiver does with a message shows only where it answers; header-error-by-requester finds that.",
    },
    Unseen {
        source: rfc8166("4.5"),
        requirement: "An RDMA_ERROR that cannot be decoded is silently discarded.",
        reason: "What a receiver does with a message shows only where it answers; header-error-by-requester finds that.",
    },
    Unseen {
        source: rfc8166("4.5"),
        requirement: "An RDMA_ERROR completes the transaction of its XID.",
        reason: "What a Requester tells its consumer is not on the wire.",
    },
    Unseen {
        source: rfc8166("4.5.3"),
        requirement: "After a connection was lost because a reply could not be conveyed, the Responder answers the call with ERR_CHUNK when it comes again.",
        reason: "Whether the reply was the cause of the loss is known to the Responder alone.",
    },
    Unseen {
        source: rfc8166("4.5.4"),
        requirement: "A Requester that cannot invalidate memory after a reply closes the connection.",
        reason: "That an invalidation on the Requester's own host fails is not on the wire.",
    },
    Unseen {
        source: rfc8166("4.6.1"),
        requirement: "A Requester silently discards an RDMA_MSGP.",
        reason: "What a receiver does with a message shows only where it answers; header-error-by-requester finds that.",
    },
    Unseen {
        source: rfc8166("4.6.2"),
        requirement: "A receiver silently discards an RDMA_DONE.",
        reason: "What a receiver does with a message shows only where it answers; header-error-unmatched finds that.",
    },
    Unseen {
        source: draft("4.1.1"),
        requirement: "A Responder provides a Read chunk where a reply is larger than all that the Requester provides for it, or answers with an error.",
        reason: "How large a reply is that was not sent is not on the wire; that an error came in its place is found by header-error-chunk.",
    },
    Unseen {
        source: draft("4.1.2"),
        requirement: "A Requester that does not support Read chunks of the Responder says RDMA_DONE all the same and terminates the transaction.",
        reason: "Whether a Requester has yet to pull a chunk or never will is not on the wire.",
    },
    Unseen {
        source: draft("4.1.3"),
        requirement: "A Requester says RDMA_DONE for a reply in a Read chunk of the Responder whose XID it does not recognize.",
        reason: "Which XIDs a Requester remembers is not on the wire.",
    },
    Unseen {
        source: draft("4.1.3"),
        requirement: "A Responder silently drops an RDMA_DONE for which no Read chunk waits.",
        reason: "What a receiver does with a message shows only where it answers; header-error-unmatched finds that.",
    },
    Unseen {
        source: draft("6"),
        requirement: "Read chunks of the Responder are used only where both peers support them.",
        reason: "Version 1 has no way to say on the wire that they are supported.",
    },
    Unseen {
        source: rfc8166("6.1"),
        requirement: "A Requester terminates the transaction where a reply reduces what is not eligible for DDP, or leaves out what is.",
        reason: "What a Requester tells its consumer is not on the wire.",
    },
];

/// What is wrong with the header of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Less than 28 bytes.
    Short,
    /// rdma_vers is not 1.
    Version,
    /// An unknown rdma_proc.
    Procedure,
    /// RDMA_MSGP.
    Padded,
    /// The lists cannot be parsed.
    Lists,
    /// RDMA_NOMSG without a chunk that holds the Payload stream.
    Nowhere,
    /// rdma_xid is not the XID of the RPC message.
    Xid,
}

/// What is wrong with the header of a call, as far as the capture shows.
pub(crate) fn fault_of(call: &Message, xid: Xid) -> Option<Fault> {
    let is_stopped = call.stop.is_some_and(|stop| stop.cause != Cause::TruncatedCapture);
    let has_position_zero = call.read_chunks.iter().any(|chunk| chunk.position == 0);
    if (call.send_length as usize) < MINIMUM_LENGTH && call.missing.is_empty() {
        Some(Fault::Short)
    } else if call.version != VERSION {
        Some(Fault::Version)
    } else if let Procedure::Unknown(_) = call.procedure {
        Some(Fault::Procedure)
    } else if call.procedure == Procedure::Msgp {
        Some(Fault::Padded)
    } else if is_stopped {
        Some(Fault::Lists)
    } else if call.procedure == Procedure::Nomsg && call.stop.is_none() && !has_position_zero {
        Some(Fault::Nowhere)
    } else if call.rpc_xid.is_some_and(|found| found != xid) {
        Some(Fault::Xid)
    } else {
        None
    }
}

pub(crate) static GATE: Gate = Gate { sent: may_break, transaction: may_break_in_transaction };

/// Not a call or a reply of version 1 whose header was read to its end.
fn may_break(sent: &Sent<'_>, _: &View) -> bool {
    let Some(header) = sent.header else { return true };
    let is_message = match header.procedure {
        Procedure::Msg => true,
        Procedure::Nomsg => checks::holds_payload(sent, header),
        _ => false,
    };
    !is_message || header.version != VERSION || header.stop.is_some()
}

/// Not a call with a reply, both of version 1 and with the XID of their RPC messages.
fn may_break_in_transaction(transaction: &Transaction, _: &View) -> bool {
    let is_plain = |message: &Message| {
        message.version == VERSION
            && message.rpc_xid == Some(transaction.xid)
            && matches!(message.procedure, Procedure::Msg | Procedure::Nomsg)
    };
    transaction.outcome != Outcome::Completed
        || !transaction.call.as_ref().is_some_and(is_plain)
        || !transaction.reply.as_ref().is_some_and(is_plain)
}
