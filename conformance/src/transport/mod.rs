//! The reliable connection below (IBTA volume 1, chapter 9).
//!
//! What a network does to packets is no fault of an end: packets that were lost, and the NAKs and repetitions that answer them. They are
//! counted, and told in order where the connection came to a bad end ([`story`]). A packet that breaks a rule by itself or beside those around it
//! is a fault of its sender ([`faults`]).

mod faults;
mod story;
mod trouble;

pub(super) use story::Story;
pub(super) use trouble::Trouble;

use super::rule::{Check, Document, Level, Rule, Source, Unseen};

const PACKETS: Source = Source { document: Document::Ibta, section: "9.2" };
const RETH: Source = Source { document: Document::Ibta, section: "9.3.3" };
const AETH: Source = Source { document: Document::Ibta, section: "9.7.5.2" };
const WRITE: Source = Source { document: Document::Ibta, section: "9.4.3" };
const READ: Source = Source { document: Document::Ibta, section: "9.4.4" };
const RELIABLE: Source = Source { document: Document::Ibta, section: "9.7" };
const SEQUENCE: Source = Source { document: Document::Ibta, section: "9.7.2" };
const ICRC: Source = Source { document: Document::Ibta, section: "7.8.1" };
const RECEIVERS: Source = Source { document: Document::Rfc8166, section: "3.3" };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "packet-length",
        level: Level::Violation,
        sources: &[RELIABLE],
        sentence: "The packets of a message are as long as the path MTU, the last one at most.",
        explanation: "First and Middle packets carry exactly one path MTU, a Last one at least one byte and an Only one none or more up to the path \
            MTU; RDMA READ requests and acknowledgements carry nothing. The path MTU is that of the REQ. Where the capture does not hold it, what \
            other packets carried stands for it and the answer is inconclusive, unless the length is none that a path MTU can be.",
        check: Check::Faulty(faults::length),
    },
    Rule {
        id: "packet-padding",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "The pad count is what fills the payload up to a multiple of four bytes.",
        explanation: "Each packet is looked at by itself.",
        check: Check::Faulty(faults::padding),
    },
    Rule {
        id: "packet-version",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "The transport header version is zero.",
        explanation: "Each packet is looked at by itself.",
        check: Check::Faulty(faults::version),
    },
    Rule {
        id: "packet-partition-key",
        level: Level::Violation,
        sources: &[PACKETS],
        sentence: "Packets carry the partition key of their connection.",
        explanation: "The key is that of the REQ; the bit that tells full members from limited ones may differ.",
        check: Check::Faulty(faults::partition_key),
    },
    Rule {
        id: "packet-order",
        level: Level::Violation,
        sources: &[PACKETS, RELIABLE],
        sentence: "A message is a First packet, Middle ones and a Last one of the same operation, or an Only packet, and ends before the next begins.",
        explanation: "Decided by packets whose PSNs follow each other without a gap in the capture.",
        check: Check::Faulty(faults::order),
    },
    Rule {
        id: "write-length",
        level: Level::Violation,
        sources: &[RETH, WRITE],
        sentence: "An RDMA WRITE brings as many bytes as its RETH says.",
        explanation: "Decided where the capture holds all packets of the message.",
        check: Check::Faulty(faults::written),
    },
    Rule {
        id: "dma-length",
        level: Level::Violation,
        sources: &[RETH],
        sentence: "An RDMA operation is about no more than 2147483648 bytes.",
        explanation: "Every RETH is looked at by itself.",
        check: Check::Faulty(faults::dma_length),
    },
    Rule {
        id: "dma-nothing",
        level: Level::Advice,
        sources: &[RETH],
        sentence: "An RDMA operation that moves no bytes could be left out.",
        explanation: "A RETH with a DMA length of zero is allowed, and costs a round trip or a packet for nothing.",
        check: Check::Faulty(faults::nothing),
    },
    Rule {
        id: "read-response",
        level: Level::Violation,
        sources: &[READ],
        sentence: "The responses to an RDMA READ bring the bytes that were asked for, in order, each in the packet that its place calls for.",
        explanation: "The PSN of a response says which bytes it brings, given the path MTU. Nothing is said where the request was repeated; \
            the answer is inconclusive where the path MTU is not from a REQ, or where a packet of the end that asked is missing.",
        check: Check::Faulty(faults::response),
    },
    Rule {
        id: "read-response-unasked",
        level: Level::Violation,
        sources: &[READ],
        sentence: "An RDMA READ response answers an RDMA READ.",
        explanation: "Decided where the capture shows what the other end sent with the PSN of the response, and that is no RDMA READ.",
        check: Check::Faulty(faults::unasked),
    },
    Rule {
        id: "read-depth",
        level: Level::Violation,
        sources: &[READ, Source { document: Document::Ibta, section: "12.7" }],
        sentence: "An end has no more RDMA READs outstanding than the other end has Responder Resources for.",
        explanation: "The Responder Resources of the other end's REQ or REP are the limit. A request counts once it waited for its response for longer than \
            captures shift packets, 2 ms. Reported once for each end.",
        check: Check::Faulty(faults::reads),
    },
    Rule {
        id: "acknowledgement-syndrome",
        level: Level::Violation,
        sources: &[AETH],
        sentence: "A response carries a syndrome that is defined for it.",
        explanation: "Reserved codes, the NAK code of reliable datagrams, and NAKs in RDMA READ responses are none.",
        check: Check::Faulty(faults::syndrome),
    },
    Rule {
        id: "acknowledgement-unsent",
        level: Level::Violation,
        sources: &[SEQUENCE, AETH],
        sentence: "A response carries the PSN of a request.",
        explanation: "A PSN that is more than 65536 off from those that the other end sends cannot be one that the capture lacks; the finding stands once \
            that end goes on without a gap. What is nearer may be a packet that was not captured.",
        check: Check::Faulty(faults::unsent),
    },
    Rule {
        id: "acknowledgement-missing",
        level: Level::Warning,
        sources: &[RELIABLE],
        sentence: "What is sent again is acknowledged in the end.",
        explanation: "Reported when the connection ends, where one end sent the same PSN again at least three times and the other never acknowledged it; \
            after two repetitions the acknowledgements may be what the capture lacks, and the answer is inconclusive.",
        check: Check::Connection(trouble::unacknowledged),
    },
    Rule {
        id: "refusal-fatal",
        level: Level::Warning,
        sources: &[AETH],
        sentence: "A NAK other than for a gap or a missing Receive ends the connection.",
        explanation: "Invalid request, remote access error and remote operational error; the request that it is about is found by its PSN, where it is not too \
            long ago.",
        check: Check::Refused(trouble::fatal),
    },
    Rule {
        id: "refusal-not-ready",
        level: Level::Warning,
        sources: &[RECEIVERS, AETH],
        sentence: "A receiver has a Receive ready for each message: that is what credits are for.",
        explanation: "RNR NAKs, counted for each end and reported when the connection ends. Either the receiver granted credits that it had no buffers for, or \
            the sender did not heed them.",
        check: Check::Connection(trouble::not_ready),
    },
    Rule {
        id: "refusal-sequence",
        level: Level::Advice,
        sources: &[AETH],
        sentence: "A NAK for a PSN sequence error says that packets were lost on the way, and has them sent again.",
        explanation: "Counted for each end and reported when the connection ends. A network that loses packets is no fault of either end.",
        check: Check::Connection(trouble::sequence),
    },
    Rule {
        id: "packet-icrc",
        level: Level::Warning,
        sources: &[ICRC],
        sentence: "Packets arrive with the ICRC that their bytes have.",
        explanation: "Counted for each end and reported when the connection ends. A receiver drops such packets. Where no packet of the capture has had a good ICRC \
            yet they are taken as not computed.",
        check: Check::Connection(trouble::spoiled),
    },
    Rule {
        id: "connection-broken",
        level: Level::Warning,
        sources: &[RECEIVERS, Source { document: Document::Ibta, section: "9.9" }],
        sentence: "A connection ends when nothing is under way on it.",
        explanation: "Reported when a connection ends, or the capture does, after a NAK that is fatal, after a request that was sent again in vain or that no Receive was \
            ready for to the end, or while calls were outstanding; it tells in order what led there.",
        check: Check::Connection(story::broken),
    },
];

pub(super) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: SEQUENCE,
        requirement: "A requester does not skip PSNs.",
        reason: "A packet that was lost before it came to where the capture was made looks the same; the story of a connection that broke names the PSN that was waited for.",
    },
    Unseen {
        source: RELIABLE,
        requirement: "A responder acknowledges every request that asks for it.",
        reason: "One acknowledgement may stand for many requests and any may be lost; what is never acknowledged at all shows in acknowledgement-missing.",
    },
    Unseen {
        source: RELIABLE,
        requirement: "A responder executes a request that is repeated only once.",
        reason: "What is done to memory and receive queues is not on the wire.",
    },
    Unseen {
        source: PACKETS,
        requirement: "The migration state of a packet is that of its queue pair.",
        reason: "The states of queue pairs are not on the wire, and there is no alternate path on Ethernet.",
    },
];
