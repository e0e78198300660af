//! Advertised memory, and the RDMA operations on it (RFC 8166, sections 3.4, 4.4 and 8).
//!
//! The engine looks up every RDMA operation in the memory that open transactions advertise, and
//! reports operations outside of it. Not all of these are faults: a call that the capture lacks may
//! have advertised the memory. Recently advertised memory is therefore kept, together with the
//! message that ended its transaction. An operation that the capture shows late, after a Send that
//! followed it, is no fault.
//!
//! Bytes that are written but not returned are no fault (RFC 8166, section 4.3.2.2).

mod advertised;
mod checks;

use super::check::{Check, Checked};
use super::chunks;
use super::rule::{Document, Level, Source, Unseen};
pub(crate) use advertised::AdvertisedMemory;
use rdmascope_dissector::transaction::Transaction;

const SEGMENTS: Source = Source { document: Document::Rfc8166, section: "3.4.3" };
const READS: Source = Source { document: Document::Rfc8166, section: "3.4.5" };
const READ_TO_THE_END: Source = Source { document: Document::Rfc8166, section: "3.4.5.1" };
const WRITES: Source = Source { document: Document::Rfc8166, section: "3.4.6" };
const CHUNKED: Source = Source { document: Document::Rfc8166, section: "3.5.2" };
const UNUSED: Source = Source { document: Document::Rfc8166, section: "4.3.2.2" };
const REPLY_CHUNK: Source = Source { document: Document::Rfc8166, section: "4.3.3" };
const LONGEVITY: Source = Source { document: Document::Rfc8166, section: "4.4.1" };
const OPERATIONS: Source = Source { document: Document::Rfc8166, section: "4.5.3" };
const ERRORS: Source = Source { document: Document::Rfc8166, section: "4.5.4" };
const DOMAINS: Source = Source { document: Document::Rfc8166, section: "8.1.1" };
const PROTECTION: Source = Source { document: Document::Rfc8166, section: "8.1.3" };
const INVALIDATION: Source = Source { document: Document::Rfc8797, section: "3.2" };
const PULL: Source = Source { document: Document::ReliableReply, section: "4.1.2" };
const PULLED: Source = Source { document: Document::ReliableReply, section: "4.1.3" };

pub(crate) const RULES: &[Checked<AdvertisedMemory>] = &[
    Checked {
        id: "memory-advertised",
        level: Level::Violation,
        sources: &[SEGMENTS, OPERATIONS, DOMAINS],
        sentence: "RDMA Reads and RDMA Writes name memory that the peer advertised on this \
            connection in an open transaction.",
        explanation: "The rule looks at the start of an operation: its R_Key and address belong \
            to a segment. The finding is certain if the capture contains the connection from its \
            CM exchange on and lacks no packet of the end that owns the memory, because a missing \
            call may have advertised it. memory-after-reply and memory-after-done cover memory \
            that was advertised before.",
        check: Check::Unmatched(checks::unadvertised),
    },
    Checked {
        id: "memory-segment-end",
        level: Level::Violation,
        sources: &[SEGMENTS, OPERATIONS],
        sentence: "An RDMA Read or RDMA Write does not pass the end of the segment that it begins in.",
        explanation: "The address and DMA length in the RETH are compared with the advertised \
            segment. An operation may continue in another segment that follows directly under the \
            same handle and has the same use. The finding is inconclusive if packets of the \
            sender are missing, because the reply that ended the transaction may be among them, \
            or if a header that lists memory could not be read.",
        check: Check::Unmatched(checks::past_end),
    },
    Checked {
        id: "memory-direction",
        level: Level::Violation,
        sources: &[READS, WRITES],
        sentence: "Read chunks are moved by RDMA Read, and Write chunks and Reply chunks by RDMA \
            Write.",
        explanation: "The rule looks at the segment in which an operation begins. The finding is \
            inconclusive if packets of the sender are missing, because the reply that ended the \
            transaction may be among them, if a header that lists memory could not be read, or if \
            two open calls advertise the same memory.",
        check: Check::Unmatched(checks::other_way),
    },
    Checked {
        id: "memory-after-reply",
        level: Level::Violation,
        sources: &[READ_TO_THE_END, CHUNKED, PROTECTION],
        sentence: "A Responder does not access the memory of a call after it sent the reply.",
        explanation: "The PSN decides the order: the PSN of the operation follows those of the \
            reply, whatever the order in the capture. RDMA_ERROR counts as a reply here. The \
            finding is reported once it is certain that the Requester did not advertise the \
            memory again in between. The judge keeps the last 512 segments of answered calls.",
        check: Check::Unmatched(checks::after_reply),
    },
    Checked {
        id: "memory-after-done",
        level: Level::Violation,
        sources: &[PULL, PULLED],
        sentence: "A Requester does not read a Read chunk of the Responder after it sent RDMA_DONE.",
        explanation: "The rule is decided like memory-after-reply, with RDMA_DONE in place of the reply.",
        check: Check::Unmatched(checks::after_done),
    },
    Checked {
        id: "memory-after-invalidation",
        level: Level::Violation,
        sources: &[INVALIDATION],
        sentence: "An end does not access memory after it invalidated the handle.",
        explanation: "A reply ends the use of all memory that its call advertised, whether \
            invalidated or not. This rule is about the memory of another open transaction whose \
            handle a Send with Invalidate named. The finding is inconclusive if that transaction \
            advertised the memory so shortly before that the capture may show the two in the \
            wrong order.",
        check: Check::Unmatched(checks::after_invalidation),
    },
    Checked {
        id: "memory-written",
        level: Level::Violation,
        sources: &[WRITES, CHUNKED, REPLY_CHUNK],
        sentence: "A Responder writes all bytes that its reply returns in chunks before it sends the reply.",
        explanation: "The lengths in the reply are compared with the bytes that RDMA Writes put \
            into each segment, up to the PSN of the reply. The finding is inconclusive if packets \
            of the Responder are missing since the call, if one of its operations just before \
            named memory that was not advertised, or if two open calls advertise the same memory. \
            Nothing is reported if an operation between call and reply named memory that was not \
            advertised, which memory-advertised reports, or if a segment of iWARP was at a wrong \
            offset (iwarp-message-offset). returned-chunk-length covers lengths greater than the \
            call allows.",
        check: Check::Transaction(checks::unwritten),
    },
    Checked {
        id: "memory-read",
        level: Level::Warning,
        sources: &[READ_TO_THE_END, CHUNKED],
        sentence: "A Responder that reports success has read the Read chunks of the call.",
        explanation: "The specifications do not require this, and a reply from a duplicate \
            request cache needs no arguments. The bytes that RDMA Read requests asked for, each \
            counted once, are compared with the length of the Read chunks. If the result of a \
            WRITE counts fewer bytes than were sent, the rest of them need not be read. Up to \
            three bytes of each chunk may be roundup padding that need not be read. The rule covers only calls \
            whose status is success, because a call may fail before its arguments are needed. It \
            does not look at READ responses, so missing ones do not matter. Nothing is reported \
            if a request between call and reply named memory that was not advertised, which \
            memory-advertised reports.",
        check: Check::Transaction(checks::unread),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: LONGEVITY,
        requirement: "A Requester ends the Responder's access to memory before its upper layer uses the data.",
        reason: "A local invalidation is not on the wire.",
    },
    Unseen {
        source: LONGEVITY,
        requirement: "A Requester does not access memory while its Responder may.",
        reason: "Local access to memory is not on the wire.",
    },
    Unseen {
        source: WRITES,
        requirement: "Memory that is written twice is written with the same bytes.",
        reason: "The specifications do not require this: a Responder may write bytes that it does \
            not return, and the last bytes written count. Payload is not kept for comparison.",
    },
    Unseen {
        source: UNUSED,
        requirement: "A Requester does not assume that the memory of an unused Write chunk is unmodified.",
        reason: "A Requester's assumptions about its own memory are not on the wire.",
    },
    Unseen {
        source: ERRORS,
        requirement: "A Requester that cannot invalidate memory closes the connection before the transaction is complete.",
        reason: "A local invalidation that fails is not on the wire.",
    },
    Unseen {
        source: ERRORS,
        requirement: "A Responder that can send neither a reply nor an error closes the connection.",
        reason: "The abilities of a Responder are not on the wire. A call without a reply has \
            other causes too.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "8.1" },
        requirement: "The transport makes no memory vulnerable, and its RDMA provider conforms to RFC 5042.",
        reason: "The protection of memory by an adapter is visible only under attack.",
    },
    Unseen {
        source: DOMAINS,
        requirement: "A Protection Domain limits each memory region to one connection.",
        reason: "Protection Domains are not on the wire. memory-advertised reports an operation \
            that names memory of another connection.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "8.1.2" },
        requirement: "Handles are unpredictable, and memory that stays registered is not advertised.",
        reason: "Registrations are not on the wire, and a capture does not show whether a handle could be predicted.",
    },
    Unseen {
        source: PROTECTION,
        requirement: "Memory is registered only shortly before its use, and invalidated as soon \
            as the operation is complete or given up.",
        reason: "Neither is on the wire, except for an invalidation by a Send.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "2.3.2" },
        requirement: "Registered memory is named by a steering tag of up to 32 bits and an address of up to 64 bits.",
        reason: "The fields have no room for more.",
    },
    Unseen {
        source: PULL,
        requirement: "A Requester pulls the reply from a responder-provided Read chunk.",
        reason: "A Requester may also give up the reply. It sends RDMA_DONE in either case.",
    },
    Unseen {
        source: PULL,
        requirement: "A Requester sends RDMA_DONE as soon as it has pulled a reply.",
        reason: "There is no time limit. header-done-missing reports connections that were closed \
            without an RDMA_DONE.",
    },
    Unseen {
        source: PULLED,
        requirement: "A Responder that receives no RDMA_DONE can invalidate its Read chunk after \
            a while.",
        reason: "A local invalidation is not on the wire.",
    },
    Unseen {
        source: Source { document: Document::ReliableReply, section: "5.1.4" },
        requirement: "A Responder has registered its Read chunk before it sends the RDMA_NOMSG that names it.",
        reason: "Registrations are not on the wire. A READ that arrives too early is refused, \
            which has other causes too.",
    },
];

/// True if the call or the reply lists chunks.
pub(crate) fn may_break(transaction: &Transaction) -> bool {
    transaction.messages().any(chunks::lists_chunks)
}
