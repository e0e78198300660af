//! The reliable connection below RPC-over-RDMA (IBTA volume 1, chapter 9).
//!
//! Effects of the network are no fault of an end: lost packets, and the NAKs and retransmissions
//! that follow. They are counted ([`problems`]), and listed in order if the connection broke
//! ([`event_log`]). A packet that breaks a rule by itself, or compared with its neighbours, is a
//! fault of its sender ([`faults`]).

mod event_log;
mod faults;
mod problems;

pub(super) use faults::about;
pub(super) use problems::{damaged, is_fatal};

use super::check::{Check, Checked};
use super::credits::Credits;
use super::known::{Known, Memory};
use super::rule::{Document, Level, Source, Unseen};
use event_log::EventLog;
use problems::DeliveryProblems;
use rdmascope_dissector::observation::{Observed, Sent};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::Transaction;

const PACKETS: Source = Source { document: Document::Ibta, section: "9.2" };
const RETH: Source = Source { document: Document::Ibta, section: "9.3.3" };
const AETH: Source = Source { document: Document::Ibta, section: "9.7.5.2" };
const WRITE: Source = Source { document: Document::Ibta, section: "9.4.3" };
const READ: Source = Source { document: Document::Ibta, section: "9.4.4" };
const RELIABLE: Source = Source { document: Document::Ibta, section: "9.7" };
const SEQUENCE: Source = Source { document: Document::Ibta, section: "9.7.2" };
const ICRC: Source = Source { document: Document::Ibta, section: "7.8.1" };
const OPERATIONS: Source = Source { document: Document::Rfc8166, section: "2.3.2" };
const RECEIVERS: Source = Source { document: Document::Rfc8166, section: "3.3" };
const LAST: Source = Source { document: Document::Rfc5041, section: "4.1" };
const RESPONSES: Source = Source { document: Document::Rfc5040, section: "4.5" };

pub(super) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "packet-length",
        level: Level::Violation,
        sources: &[RELIABLE],
        sentence: "All packets of a message are as long as the path MTU, except the last one, \
            which may be shorter.",
        explanation: "First and Middle packets carry exactly one path MTU of payload. A Last \
            packet carries 1 byte up to one path MTU, an Only packet 0 bytes up to one path MTU. \
            RDMA READ requests and acknowledgements carry no payload. The path MTU is that of the \
            REQ. If the capture lacks the REQ, the path MTU is derived from other packets and the \
            finding is inconclusive, unless the length cannot be any path MTU. If an end \
            seems to use another path MTU, only those of its packets are reported that are longer \
            than the ones reported before.",
        check: Check::Faulty(faults::length),
    },
    Checked {
        id: "packet-padding",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "The pad count is the number of bytes that fill the payload up to a multiple of \
            four.",
        explanation: "The rule looks at each packet separately.",
        check: Check::Faulty(faults::padding),
    },
    Checked {
        id: "packet-version",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "The transport header version is zero.",
        explanation: "The rule looks at each packet separately.",
        check: Check::Faulty(faults::version),
    },
    Checked {
        id: "packet-opcode",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "The opcode of a packet is one that reliable connections define.",
        explanation: "The rule covers packets with the ICRC of their bytes, on connections with \
            RPC-over-RDMA. A receiver drops a packet with a reserved opcode. Opcodes of other \
            transports are not covered. operation-foreign covers FLUSH and ATOMIC WRITE.",
        check: Check::Faulty(faults::opcode),
    },
    Checked {
        id: "packet-partition-key",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "Packets carry the partition key of their connection.",
        explanation: "The key is that of the REQ. The bit that distinguishes full members from limited members may differ.",
        check: Check::Faulty(faults::partition_key),
    },
    Checked {
        id: "packet-order",
        level: Level::Violation,
        sources: &[PACKETS, RELIABLE, LAST],
        sentence: "A message is a First packet, Middle packets and a Last packet of one operation, or an Only packet, and ends before \
            the next one begins.",
        explanation: "The rule looks at packets whose PSNs follow each other without a gap in the \
            capture. For iWARP, it looks at the segments of a stream without a gap: the last \
            segment of an untagged message has L set before the next message to its queue begins, \
            and that of an RDMA Write before the next untagged message begins.",
        check: Check::Faulty(faults::order),
    },
    Checked {
        id: "write-length",
        level: Level::Violation,
        sources: &[RETH, WRITE],
        sentence: "The payload of an RDMA WRITE has the length given in its RETH.",
        explanation: "The rule applies if the capture contains all packets of the message.",
        check: Check::Faulty(faults::written),
    },
    Checked {
        id: "operation-foreign",
        level: Level::Violation,
        sources: &[OPERATIONS],
        sentence: "RPC-over-RDMA uses SENDs, RDMA WRITEs and RDMA READs, no RDMA WRITE with Immediate data and no atomic operations.",
        explanation: "The rule looks at the opcode of each packet of a connection with \
            RPC-over-RDMA. RFC 8166 names the operations that it uses, and states that an RDMA \
            Write signals no completion on the remote peer. An RDMA WRITE with Immediate data \
            signals one, and consumes a Receive that no credit covers. Receivers advertise no \
            memory for atomic operations. operation-immediate covers SENDs.",
        check: Check::Faulty(faults::foreign),
    },
    Checked {
        id: "operation-immediate",
        level: Level::Warning,
        sources: &[OPERATIONS],
        sentence: "A SEND of RPC-over-RDMA carries no Immediate data.",
        explanation: "RPC-over-RDMA has no use for Immediate data. No specification forbids it.",
        check: Check::Faulty(faults::immediate),
    },
    Checked {
        id: "dma-length",
        level: Level::Violation,
        sources: &[RETH],
        sentence: "The DMA length of an RDMA operation is no more than 2147483648 bytes.",
        explanation: "The rule looks at each RETH separately.",
        check: Check::Faulty(faults::dma_length),
    },
    Checked {
        id: "dma-nothing",
        level: Level::Advice,
        sources: &[RETH],
        sentence: "An RDMA operation with a DMA length of zero can be left out.",
        explanation: "A RETH with a DMA length of zero is allowed, but costs a packet or a round \
            trip without any effect.",
        check: Check::Faulty(faults::nothing),
    },
    Checked {
        id: "read-response",
        level: Level::Violation,
        sources: &[READ, RESPONSES],
        sentence: "The responses to an RDMA READ carry the requested bytes in order, each in a packet of the right opcode and length.",
        explanation: "Given the path MTU, the PSN of a response determines the bytes that it \
            carries. Nothing is reported if the request was repeated. The finding is inconclusive \
            if the path MTU is not from a REQ, or if a packet of the requesting end is missing. A \
            Response Only or Last with fewer bytes than are left is inconclusive, because it may \
            answer a repeated request for a part of the data that the capture lacks. \
            packet-length covers an end whose packets have another length than the path MTU. \
            For iWARP, the bytes up to the segment with L are compared with those that the \
            request asks for.",
        check: Check::Faulty(faults::response),
    },
    Checked {
        id: "read-response-unasked",
        level: Level::Violation,
        sources: &[READ, RESPONSES],
        sentence: "An RDMA READ response answers an RDMA READ.",
        explanation: "The rule applies if the capture shows the other end's packet with the PSN \
            of the response. It is broken if that packet is not an RDMA READ. For iWARP, it is \
            broken if no outstanding request names the STag and offset of the response as its \
            sink.",
        check: Check::Faulty(faults::unrequested),
    },
    Checked {
        id: "read-depth",
        level: Level::Violation,
        sources: &[
            READ,
            Source { document: Document::Ibta, section: "12.7" },
            Source { document: Document::Rfc6581, section: "9.1" },
        ],
        sentence: "An end has no more RDMA READs outstanding than the other end serves at once.",
        explanation: "The limit is the Responder Resources of the other end's REQ or REP; for \
            iWARP, the IRD of its MPA start frame, if it has one. A request counts once it has \
            waited for its response for 2 ms, longer than a capture may reorder packets. Each end \
            is reported once.",
        check: Check::Faulty(faults::reads),
    },
    Checked {
        id: "acknowledgement-syndrome",
        level: Level::Violation,
        sources: &[AETH],
        sentence: "A response has a syndrome that is defined for it.",
        explanation: "Undefined are reserved codes, the NAK code of reliable datagrams, and NAKs \
            in RDMA READ responses.",
        check: Check::Faulty(faults::syndrome),
    },
    Checked {
        id: "acknowledgement-unsent",
        level: Level::Violation,
        sources: &[SEQUENCE, AETH],
        sentence: "A response has the PSN of a request.",
        explanation: "A PSN that differs by more than 65536 from the PSNs of the other end cannot \
            belong to a request that the capture lacks. The finding is certain once that end \
            continues without a gap. A closer PSN may belong to a packet that was not captured.",
        check: Check::Faulty(faults::unsent),
    },
    Checked {
        id: "acknowledgement-missing",
        level: Level::Warning,
        sources: &[RELIABLE],
        sentence: "A retransmitted request is eventually acknowledged.",
        explanation: "The finding is reported when the connection ends, if one end retransmitted \
            the same PSN at least three times and the other end did not acknowledge it before the \
            connection was closed. After two retransmissions, the capture may lack the \
            acknowledgements, and the finding is inconclusive. It names no end, because the \
            network may have lost the request or the acknowledgements.",
        check: Check::Connection(problems::unacknowledged),
    },
    Checked {
        id: "refusal-fatal",
        level: Level::Warning,
        sources: &[AETH],
        sentence: "A NAK for anything other than a gap or a missing Receive ends the connection.",
        explanation: "Such NAKs are invalid request, remote access error and remote operational \
            error. The PSN identifies the request, if it is recent enough. The refusing end is at \
            fault if it advertised the memory in an open transaction. The end that sent the request \
            is at fault if it is an RDMA operation on other memory, and the capture has all packets \
            of the refusing end. No end is named otherwise: the refusing end may be at fault, a \
            Send may be too long for its Receive, and memory with a reply may be freed after a \
            time. An operational error names the refusing end or none.",
        check: Check::Refused(problems::fatal),
    },
    Checked {
        id: "refusal-not-ready",
        level: Level::Warning,
        sources: &[RECEIVERS, AETH],
        sentence: "A receiver has a Receive posted for each message, which is the purpose of \
            credits.",
        explanation: "RNR NAKs are counted for each end and reported when the connection ends. \
            Either the receiver granted credits without buffers for them, which credit-receive \
            decides, or the sender exceeded its grant. The finding names the receiver if one \
            of the refused calls was within the credits, the sender if none was, and no end if the \
            capture does not tell.",
        check: Check::Connection(problems::not_ready),
    },
    Checked {
        id: "refusal-sequence",
        level: Level::Advice,
        sources: &[AETH],
        sentence: "A NAK for a PSN sequence error means that packets were lost or reordered on the \
            way, and makes the sender retransmit them.",
        explanation: "Such NAKs are counted for each end and reported when the connection ends. \
            Neither end is at fault when a network loses or reorders packets.",
        check: Check::Connection(problems::sequence),
    },
    Checked {
        id: "packet-icrc",
        level: Level::Warning,
        sources: &[ICRC],
        sentence: "The ICRC of a packet matches its bytes.",
        explanation: "Packets with another ICRC are counted for each end and reported when the \
            connection ends. A receiver drops such packets. Until a packet of the capture has a \
            matching ICRC, ICRCs are treated as not computed.",
        check: Check::Connection(problems::spoiled),
    },
    Checked {
        id: "connection-broken",
        level: Level::Warning,
        sources: &[RECEIVERS, Source { document: Document::Ibta, section: "9.9" }],
        sentence: "A connection does not end while requests or calls are outstanding.",
        explanation: "The finding is reported if a connection or the capture ends after a fatal \
            NAK, after a request that was retransmitted without success or had no Receive posted \
            until the end, or while calls were outstanding. An acknowledgement shows that a \
            Receive was posted in the end, and so does an answer to this or a later call. The \
            finding lists the preceding events in order.",
        check: Check::Connection(event_log::broken),
    },
];

pub(super) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: SEQUENCE,
        requirement: "A requester does not skip PSNs.",
        reason: "A packet that was lost before the capture point looks the same. \
            connection-broken names the PSN that the receiver waited for.",
    },
    Unseen {
        source: RELIABLE,
        requirement: "A responder acknowledges every request that asks for it.",
        reason: "One acknowledgement may cover many requests, and any may be lost. \
            acknowledgement-missing reports requests that are never acknowledged.",
    },
    Unseen {
        source: RELIABLE,
        requirement: "A responder executes a retransmitted request only once.",
        reason: "The effects of a request on a responder's memory and receive queues are not on \
            the wire.",
    },
    Unseen {
        source: PACKETS,
        requirement: "The migration state of a packet is that of its queue pair.",
        reason: "The states of queue pairs are not on the wire, and Ethernet has no alternate \
            path.",
    },
];

/// The state that its rules read.
pub(crate) type Read = (TransportEvents, Credits);

/// Transport events of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransportEvents {
    /// By end.
    pub(crate) problems: [DeliveryProblems; 2],
    pub(crate) events: EventLog,
    /// By end: the longest of its packets that broke packet-length.
    wrong_lengths: [Option<u32>; 2],
}

impl Memory for TransportEvents {
    fn footprint(&self) -> usize {
        self.events.footprint() + self.problems.iter().map(DeliveryProblems::footprint).sum::<usize>()
    }

    #[inline]
    fn sent(&mut self, sent: &Sent<'_>, _: &Known) {
        problems::note_sent(&mut self.problems, sent);
    }

    fn observed(&mut self, observed: &Observed<'_>, known: &Known) {
        if let Observed::Faulty(faulty) = observed
            && let Some(length) = faults::wrong_length(faulty)
        {
            let longest = &mut self.wrong_lengths[faulty.from];
            *longest = (*longest).max(Some(length));
        }
        problems::observe(&mut self.problems, observed, known);
        let again = |end: End| self.problems[end].again.map(|again| again.psn);
        self.events.observe(observed, again);
    }

    fn transaction(&mut self, transaction: &Transaction, _: &Known) {
        self.events.note_transaction(transaction);
    }

    fn unanswered(&mut self, call: &Transaction, lacks_reply: bool) {
        self.events.note_unanswered(call, lacks_reply);
    }

    /// Packets are judged one by one, independent of their connection.
    fn joined(&mut self) {}
}
