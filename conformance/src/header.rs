//! Headers (RFC 8166, sections 4.2, 4.5 and 4.6; reliable-reply draft, section 4.1).

mod checks;
pub(crate) mod fault;

use super::check::{Check, Checked};
use super::rpc::Read;
use super::rule::{Document, Level, Source, Unseen};
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::transaction::{Message, Outcome, Transaction};
use rdmascope_wire::rpcrdma::{Procedure, VERSION};

const fn rfc8166(section: &'static str) -> Source {
    Source { document: Document::Rfc8166, section }
}

const fn rfc8167(section: &'static str) -> Source {
    Source { document: Document::Rfc8167, section }
}

const fn draft(section: &'static str) -> Source {
    Source { document: Document::ReliableReply, section }
}

pub(crate) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "header-version",
        level: Level::Violation,
        sources: &[rfc8166("4.2.2"), rfc8167("5.1")],
        sentence: "rdma_vers is 1.",
        explanation: "No other version of the protocol has been published. The rule covers every \
            message except an RDMA_ERROR, which copies the version that it refuses, and a reply \
            (see header-reply-version).",
        check: Check::Sent(checks::version),
    },
    Checked {
        id: "header-reply-version",
        level: Level::Violation,
        sources: &[rfc8166("4.2.2"), rfc8167("5.2")],
        sentence: "The rdma_vers of a reply is that of its call.",
        explanation: "The rule covers every reply whose call was captured. header-error-version \
            covers RDMA_ERROR.",
        check: Check::Transaction(checks::reply_version),
    },
    Checked {
        id: "header-xid",
        level: Level::Violation,
        sources: &[rfc8166("4.2.1"), rfc8167("5.1"), rfc8167("5.2")],
        sentence: "rdma_xid is the XID of the RPC message.",
        explanation: "The rule covers calls and replies whose Payload stream is inline or in a \
            chunk, if its first bytes were captured. For a stream in a chunk, the finding is \
            inconclusive if the capture lacks packets, because the memory may still hold an \
            earlier message.",
        check: Check::Transaction(checks::xid),
    },
    Checked {
        id: "header-too-short",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.1.2")],
        sentence: "A message is at least as long as the smallest header of its kind.",
        explanation: "The smallest header has 28 bytes, an RDMA_ERROR with ERR_CHUNK 20, an \
            RDMA_DONE 16. The rule uses the length on the wire, not the number of captured bytes. \
            If the captured bytes end before rdma_proc, 16 bytes are enough.",
        check: Check::Sent(checks::too_short),
    },
    Checked {
        id: "header-short-answered",
        level: Level::Violation,
        sources: &[rfc8166("4.5")],
        sentence: "A message of less than 28 bytes is discarded without an answer.",
        explanation: "The XID of such a message cannot be trusted. The rule is broken if a reply \
            or an RDMA_ERROR has the XID of such a message.",
        check: Check::Transaction(checks::short_answered),
    },
    Checked {
        id: "header-unreadable",
        level: Level::Violation,
        sources: &[rfc8166("4.1.2"), rfc8166("4.3"), rfc8166("4.7")],
        sentence: "A header can be parsed to its end by the XDR definition.",
        explanation: "The rule is broken if the word in front of a list entry is neither 0 nor 1, \
            or if the message ends before its lists or its error do. If the capture truncated the \
            message, only the captured bytes are judged. header-msgp covers RDMA_MSGP.",
        check: Check::Sent(checks::unreadable),
    },
    Checked {
        id: "header-procedure",
        level: Level::Violation,
        sources: &[rfc8166("4.2.4"), rfc8166("4.1.2")],
        sentence: "rdma_proc is one of the procedures of version 1.",
        explanation: "The values are 0 to 4. header-version covers messages of other versions.",
        check: Check::Sent(checks::procedure),
    },
    Checked {
        id: "header-msgp",
        level: Level::Violation,
        sources: &[rfc8166("4.6.1")],
        sentence: "No end sends RDMA_MSGP.",
        explanation: "RDMA_MSGP was never fully specified and is obsolete.",
        check: Check::Sent(checks::padded),
    },
    Checked {
        id: "header-msgp-not-refused",
        level: Level::Warning,
        sources: &[rfc8166("4.6.1")],
        sentence: "A Responder answers an RDMA_MSGP with ERR_CHUNK.",
        explanation: "The rule is broken by any other answer. header-error-unfounded covers an \
            answer with ERR_VERS.",
        check: Check::Transaction(checks::padded_accepted),
    },
    Checked {
        id: "header-done",
        level: Level::Violation,
        sources: &[rfc8166("4.6.2"), draft("4.1.3")],
        sentence: "A Requester sends RDMA_DONE only for a reply that it pulls from a Read chunk \
            of the Responder.",
        explanation: "RFC 8166 has no use for RDMA_DONE. In the reliable-reply draft, the \
            Requester sends it once, after it has pulled such a chunk. The rule is decided when \
            the connection ends. The finding is inconclusive if the capture may lack the reply.",
        check: Check::Connection(checks::done),
    },
    Checked {
        id: "header-done-missing",
        level: Level::Violation,
        sources: &[draft("4.1.2"), draft("4.1.3")],
        sentence: "A Requester sends RDMA_DONE once it has pulled a reply from a Read chunk of \
            the Responder.",
        explanation: "The draft sets no time limit, so the rule is decided when the connection is \
            closed. Nothing is reported if the capture shows no RDMA Read of the chunk. The \
            finding is certain if the Requester sent something after it had pulled the whole \
            chunk, and the capture has everything that it sent until then.",
        check: Check::Connection(checks::done_missing),
    },
    Checked {
        id: "header-error-by-requester",
        level: Level::Violation,
        sources: &[rfc8166("4.2.4"), rfc8166("4.5")],
        sentence: "A Requester sends no RDMA_ERROR, not even in response to a faulty reply.",
        explanation: "The rule is broken if an end sends an RDMA_ERROR that answers no call of \
            its peer and has the XID of one of its own calls: an outstanding one, or one of the \
            last 16 that were answered. The finding is inconclusive if the capture may lack a \
            call of the peer.",
        check: Check::Connection(checks::error_by_requester),
    },
    Checked {
        id: "header-error-unmatched",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.6.2")],
        sentence: "An RDMA_ERROR has the XID of the call that it answers.",
        explanation: "The rule is broken if no call with this XID is outstanding. An example is \
            an RDMA_ERROR that answers an RDMA_DONE, which a receiver has to discard. The rule is \
            decided when the connection ends. The finding is inconclusive if the capture may lack \
            the call.",
        check: Check::Connection(checks::error_unmatched),
    },
    Checked {
        id: "header-error-version",
        level: Level::Violation,
        sources: &[rfc8166("4.5")],
        sentence: "The rdma_vers of an RDMA_ERROR is that of the call that it answers.",
        explanation: "The rule covers every RDMA_ERROR whose call was captured.",
        check: Check::Transaction(checks::error_version),
    },
    Checked {
        id: "header-error-code",
        level: Level::Violation,
        sources: &[rfc8166("4.1.2"), rfc8166("4.5")],
        sentence: "rdma_err is ERR_VERS or ERR_CHUNK.",
        explanation: "The rule covers every RDMA_ERROR.",
        check: Check::Sent(checks::error_code),
    },
    Checked {
        id: "header-error-kind",
        level: Level::Violation,
        sources: &[rfc8166("4.5.1")],
        sentence: "A Responder answers a version that it does not support with ERR_VERS.",
        explanation: "The rule is broken if a call of a version other than 1 is answered with \
            ERR_CHUNK.",
        check: Check::Transaction(checks::error_kind),
    },
    Checked {
        id: "header-error-unfounded",
        level: Level::Violation,
        sources: &[rfc8166("4.5.1"), rfc8166("4.5.2")],
        sentence: "A Responder does not answer a call of version 1 with ERR_VERS.",
        explanation: "Version 1 is the only published version. Any other fault in the header is \
            answered with ERR_CHUNK.",
        check: Check::Transaction(checks::error_unfounded),
    },
    Checked {
        id: "header-error-range",
        level: Level::Violation,
        sources: &[rfc8166("4.5.1")],
        sentence: "ERR_VERS names the lowest and the highest version that the Responder supports.",
        explanation: "The rule is broken if the lowest version is above the highest, if the \
            refused version lies between them, or if version 1 lies outside them although the \
            Responder has replied in version 1 before.",
        check: Check::Transaction(checks::error_range),
    },
    Checked {
        id: "header-error-chunk",
        level: Level::Warning,
        sources: &[rfc8166("4.5.2"), rfc8166("4.5.3"), rfc8166("6.2")],
        sentence: "A Responder answers a call whose header is correct with an RPC reply.",
        explanation: "ERR_CHUNK means that the Responder cannot use the header or the chunks of \
            the call. The rule is broken if both are correct. If the reply could exceed the room \
            for it, reply-chunk-too-small covers the case. If no reply could exceed it, the \
            Responder is at fault. If the length is unknown, the finding names no end. Not \
            covered are calls with chunks in the reverse direction, which a Responder need not \
            support, calls with more complex chunk lists than every server accepts, and calls \
            retransmitted after a connection was lost: section 4.5.3 recommends ERR_CHUNK if \
            the reply caused the loss.",
        check: Check::Transaction(checks::error_chunk),
    },
    Checked {
        id: "header-trailing-bytes",
        level: Level::Warning,
        sources: &[rfc8166("4.2.4"), rfc8166("4.1.2")],
        sentence: "Nothing follows the header of an RDMA_ERROR or an RDMA_DONE.",
        explanation: "Neither has a Payload stream. Bytes that only pad the message to 28 bytes, \
            the smallest length that every receiver accepts, are allowed.",
        check: Check::Sent(checks::trailing),
    },
    Checked {
        id: "header-fault-accepted",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.5.2")],
        sentence: "A Responder answers a call whose header is faulty with RDMA_ERROR.",
        explanation: "The rule is broken if an RPC reply answers a call with an unknown \
            rdma_proc, with chunk lists that cannot be parsed, or with an RDMA_NOMSG that has no \
            chunk for its Payload stream. A Responder may overlook an rdma_xid that differs from \
            the XID of the RPC call (section 4.2.1). A reply to a call of another version shows \
            that the Responder supports that version.",
        check: Check::Transaction(checks::fault_accepted),
    },
    Checked {
        id: "header-fault-unanswered",
        level: Level::Violation,
        sources: &[rfc8166("4.5"), rfc8166("4.5.1"), rfc8166("4.5.2")],
        sentence: "A Responder answers a call whose header is faulty.",
        explanation: "The rule is broken if the connection is closed without an answer although a \
            later call was answered. The faults are those of header-fault-accepted, and a version \
            other than 1. The finding is inconclusive if the capture may lack the answer.",
        check: Check::Transaction(checks::fault_unanswered),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: rfc8166("4.2.4"),
        requirement: "A Responder silently discards an RDMA_ERROR.",
        reason: "A receiver that discards a message sends nothing. An answer would be a message \
            that answers no call.",
    },
    Unseen {
        source: rfc8166("4.5"),
        requirement: "A Requester silently discards a reply with a faulty header.",
        reason: "A receiver that discards a message sends nothing. header-error-by-requester \
            covers a Requester that answers.",
    },
    Unseen {
        source: rfc8166("4.5"),
        requirement: "An RDMA_ERROR that cannot be decoded is silently discarded.",
        reason: "A receiver that discards a message sends nothing. header-error-by-requester \
            covers a Requester that answers.",
    },
    Unseen {
        source: rfc8166("4.5"),
        requirement: "An RDMA_ERROR completes the transaction with its XID.",
        reason: "The status that a Requester reports to its upper layer is not on the wire.",
    },
    Unseen {
        source: rfc8166("4.5.3"),
        requirement: "If a connection was lost because a reply could not be sent, the Responder \
            answers the retransmitted call with ERR_CHUNK.",
        reason: "Only the Responder knows whether the reply caused the loss.",
    },
    Unseen {
        source: rfc8166("4.5.4"),
        requirement: "A Requester that cannot invalidate memory after a reply closes the connection.",
        reason: "A failed invalidation on the Requester's host is not on the wire.",
    },
    Unseen {
        source: rfc8166("4.6.1"),
        requirement: "A Requester silently discards an RDMA_MSGP.",
        reason: "A receiver that discards a message sends nothing. header-error-by-requester \
            covers a Requester that answers.",
    },
    Unseen {
        source: rfc8166("4.6.2"),
        requirement: "A receiver silently discards an RDMA_DONE.",
        reason: "A receiver that discards a message sends nothing. header-error-unmatched covers \
            an answer.",
    },
    Unseen {
        source: draft("4.1.1"),
        requirement: "If a reply is larger than the room that the Requester provides, the \
            Responder provides a Read chunk or answers with an error.",
        reason: "The size of a reply that was not sent is not on the wire. header-error-chunk \
            covers an error in its place.",
    },
    Unseen {
        source: draft("4.1.3"),
        requirement: "A Requester that does not support Read chunks of the Responder still sends RDMA_DONE, and terminates the transaction.",
        reason: "The wire does not show whether a Requester will still pull a chunk.",
    },
    Unseen {
        source: draft("4.1.3"),
        requirement: "A Requester sends RDMA_DONE for a reply in a Read chunk of the Responder \
            even if it does not know the XID.",
        reason: "The set of XIDs that a Requester remembers is not on the wire.",
    },
    Unseen {
        source: draft("4.1.3"),
        requirement: "A Responder silently discards an RDMA_DONE that matches none of its Read \
            chunks.",
        reason: "A receiver that discards a message sends nothing. header-error-unmatched covers \
            an answer.",
    },
    Unseen {
        source: draft("6"),
        requirement: "A Responder uses Read chunks of its own only if both peers support them.",
        reason: "Version 1 has no field that announces the support.",
    },
    Unseen {
        source: rfc8166("6.1"),
        requirement: "A Requester terminates the transaction if a reply reduces an item that is \
            not DDP-eligible, or omits one that is.",
        reason: "The status that a Requester reports to its upper layer is not on the wire.",
    },
];

/// True unless the Send is an RDMA_MSG or RDMA_NOMSG of version 1 whose header was read to its end.
pub(crate) fn may_break(sent: &Sent<'_>) -> bool {
    let Some(header) = sent.header else { return true };
    let is_message = matches!(header.procedure, Procedure::Msg | Procedure::Nomsg);
    !is_message || header.version != VERSION || header.stop.is_some()
}

/// True unless the transaction has a call and a reply, both of version 1 and with the XID of their
/// RPC messages.
pub(crate) fn may_break_in_transaction(transaction: &Transaction) -> bool {
    let is_plain = |message: &Message| {
        message.version == VERSION
            && message.rpc_xid == Some(transaction.xid)
            && matches!(message.procedure, Procedure::Msg | Procedure::Nomsg)
    };
    transaction.outcome != Outcome::Completed
        || !transaction.call.as_ref().is_some_and(is_plain)
        || !transaction.reply.as_ref().is_some_and(is_plain)
}
