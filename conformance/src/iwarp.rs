//! iWARP: MPA, DDP and RDMAP below RPC-over-RDMA (RFC 5044, RFC 5041, RFC 5040).
//!
//! What TCP loses and sends again is no fault of an end, and what is missing in the capture is none either: the dissector reports a fault of an
//! FPDU only where it knows where that begins.

use super::finding::{Finding, Value};
use super::rule::{Check, Document, Findings, Level, Rule, Source, Unseen};
use super::transport::{damaged, is_fatal};
use super::view::View;
use alloc::format;
use alloc::string::{String, ToString};
use rdmascope_dissector::observation::{Faulty, Refused};
use rdmascope_dissector::rdma::Fault;

const CRC: Source = Source { document: Document::Rfc5044, section: "4.4" };
const CHECKSUM: Source = Source { document: Document::Rfc9293, section: "3.1" };
const SEGMENTS: Source = Source { document: Document::Rfc5041, section: "4" };
const OPCODES: Source = Source { document: Document::Rfc5040, section: "4.1" };
const NUMBERS: Source = Source { document: Document::Rfc5041, section: "4.3" };
const TERMINATE: Source = Source { document: Document::Rfc5040, section: "5.4" };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "iwarp-crc",
        level: Level::Violation,
        sources: &[CRC],
        sentence: "Where an end asked for CRCs, the CRC of an FPDU matches its bytes.",
        explanation: "Whether CRCs are in use is told by the start frames, or by the first FPDU that is seen. A packet with a wrong TCP \
            checksum is not looked at: its receiver drops it. The receiver of a wrong CRC ends the connection.",
        check: Check::Faulty(crc),
    },
    Rule {
        id: "iwarp-checksum",
        level: Level::Warning,
        sources: &[CHECKSUM],
        sentence: "The checksum of TCP matches the segment.",
        explanation: "Segments with another checksum are counted for each end and reported when the connection ends. A receiver drops such \
            segments. What a host leaves to its network adapter is none, and until a segment of the capture has a matching checksum, \
            checksums are taken as not computed.",
        check: Check::Connection(damaged),
    },
    Rule {
        id: "iwarp-segment",
        level: Level::Violation,
        sources: &[SEGMENTS, OPCODES],
        sentence: "An FPDU carries a DDP segment with an opcode, a tag and a queue that belong together.",
        explanation: "The versions are 1 (of RDMAP also 0), reserved bits are zero, RDMA Writes and Read Responses are tagged, Sends go \
            to queue 0, RDMA Read Requests to queue 1, a Terminate to queue 2. An STag to invalidate stands only in a Send with Invalidate.",
        check: Check::Faulty(segment),
    },
    Rule {
        id: "iwarp-message-number",
        level: Level::Violation,
        sources: &[NUMBERS],
        sentence: "Each message to a queue has the next message sequence number.",
        explanation: "The first is 1. Numbers are compared within what the capture shows without a gap.",
        check: Check::Faulty(message_number),
    },
    Rule {
        id: "iwarp-terminate",
        level: Level::Warning,
        sources: &[TERMINATE],
        sentence: "A Terminate says why an end ends the connection.",
        explanation: "The reason is that of RFC 5040, section 4.8, RFC 5041, section 7.2, or RFC 5044, section 8. The soft-iWARP of Linux \
            writes layer and type of the error in exchanged places; where that gives another reason, both are said.",
        check: Check::Refused(terminate),
    },
];

pub(super) const UNSEEN: &[Unseen] = &[Unseen {
    source: SEGMENTS,
    requirement: "An STag names memory of its receiver that may be touched so.",
    reason: "Registrations are not on the wire. memory-advertised compares with what RPC-over-RDMA advertised.",
}];

/// What is found about a message of an end.
fn about(faulty: &Faulty, message: &str) -> Finding {
    let at = faulty.position;
    Finding::new(format!("{} at sequence number {at}: {message}", faulty.piece.name))
        .by(faulty.from)
        .frames([faulty.seen.frame])
}

fn crc(faulty: &Faulty, _: &View, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Crc {
        findings.add(about(faulty, "a wrong CRC"));
    }
}

fn segment(faulty: &Faulty, _: &View, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Segment {
        findings.add(about(faulty, "a segment that DDP and RDMAP do not allow"));
    }
}

fn message_number(faulty: &Faulty, _: &View, findings: &mut Findings<'_>) {
    let Fault::MessageNumber { found, expected } = faulty.fault else { return };
    let finding = about(faulty, &format!("message {found} where {expected} is the next"));
    findings.add(finding.values(Value::Count(found.into()), Value::Count(expected.into())));
}

fn terminate(refused: &Refused, _: &View, findings: &mut Findings<'_>) {
    let Some(failure) = is_fatal(refused.refusal).filter(|_| refused.position.counts_bytes()) else { return };
    let reason: String = failure.to_string();
    findings.add(
        Finding::new(format!("Terminate: {reason}"))
            .by(refused.from.other())
            .frames([refused.seen.frame])
            .observed(Value::Words(reason)),
    );
}
