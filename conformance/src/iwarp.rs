//! iWARP: MPA, DDP and RDMAP below RPC-over-RDMA (RFC 5044, RFC 5041, RFC 5040).
//!
//! Segments that TCP loses and retransmits are no fault of an end, nor are segments that the
//! capture lacks: the dissector reports a fault of an FPDU only if it knows where the FPDU begins.

use super::check::{Check, Checked, Findings, View};
use super::finding::{Finding, Value};
use super::rule::{Document, Level, Source, Unseen};
use super::transport::{Read, about, damaged, is_fatal};
use alloc::format;
use alloc::string::{String, ToString};
use rdmascope_dissector::observation::{Faulty, Refused};
use rdmascope_dissector::rdma::{Fault, StartFault};
use rdmascope_dissector::record::Seen;

const CRC: Source = Source { document: Document::Rfc5044, section: "4.4" };
const CHECKSUM: Source = Source { document: Document::Rfc9293, section: "3.1" };
const SEGMENTS: Source = Source { document: Document::Rfc5041, section: "4" };
const OPCODES: Source = Source { document: Document::Rfc5040, section: "4.1" };
const NUMBERS: Source = Source { document: Document::Rfc5041, section: "4.3" };
const ORDER: Source = Source { document: Document::Rfc5041, section: "5.3" };
const TERMINATE: Source = Source { document: Document::Rfc5040, section: "5.4" };
const MARKERS: Source = Source { document: Document::Rfc5044, section: "4.3" };
const FRAMES: Source = Source { document: Document::Rfc5044, section: "7.1.1" };
const FIRST: Source = Source { document: Document::Rfc5044, section: "7.1.2" };
const ENHANCED: Source = Source { document: Document::Rfc6581, section: "6" };
const DEPTHS: Source = Source { document: Document::Rfc6581, section: "9.1" };

pub(super) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "iwarp-start-frame",
        level: Level::Violation,
        sources: &[FRAMES, ENHANCED],
        sentence: "An MPA start frame has zero in its reserved bits and at most 512 bytes of \
            private data, and a Request does not set R.",
        explanation: "Bit S is reserved in revision 1. Receivers do not check reserved bits, so \
            nothing breaks. Linux soft-iWARP sets bit 0x08 of a Request if it is configured to \
            use large segments.",
        check: Check::Faulty(start_frame),
    },
    Checked {
        id: "iwarp-read-resources",
        level: Level::Violation,
        sources: &[DEPTHS],
        sentence: "The ORD in an MPA Reply is at most the IRD in the Request.",
        explanation: "Nothing is reported if one of them is 0x3fff, because the ends then \
            negotiate by other means. A Reply that rejects the connection is not covered: it \
            contains the value that would be needed. read-depth counts the RDMA Reads.",
        check: Check::Faulty(depth),
    },
    Checked {
        id: "iwarp-first-message",
        level: Level::Violation,
        sources: &[FIRST],
        sentence: "The end that sent the Reply sends no FPDU before it has received one.",
        explanation: "The acknowledgement number of its first segment with FPDUs shows what it \
            had received, in whatever order the capture shows the ends. Nothing is reported if \
            the capture lacks that segment.",
        check: Check::Faulty(early),
    },
    Checked {
        id: "iwarp-markers",
        level: Level::Violation,
        sources: &[MARKERS, FRAMES],
        sentence: "The stream to an end has markers if and only if its start frame asks for them.",
        explanation: "The first bytes after the start frame show it: a marker begins with zeros, \
            an FPDU with its length. Both start frames have to be in the capture.",
        check: Check::Faulty(markers),
    },
    Checked {
        id: "iwarp-crc",
        level: Level::Violation,
        sources: &[CRC],
        sentence: "If an end asked for CRCs, the CRC of an FPDU matches its bytes.",
        explanation: "The start frames, or else the first FPDU seen, show whether CRCs are in \
            use. A packet with a bad TCP checksum is not covered, because its receiver drops it. \
            The receiver of a wrong CRC ends the connection. An end that sends zeros instead of \
            CRCs is reported once.",
        check: Check::Faulty(crc),
    },
    Checked {
        id: "iwarp-checksum",
        level: Level::Warning,
        sources: &[CHECKSUM],
        sentence: "The TCP checksum matches the segment.",
        explanation: "Segments with another checksum are counted for each end and reported when \
            the connection ends. A receiver drops such segments. A checksum that a host leaves to \
            its network adapter is not counted. Until a segment of the capture has a matching \
            checksum, or one left to the adapter, checksums are treated as not computed.",
        check: Check::Connection(damaged),
    },
    Checked {
        id: "iwarp-segment",
        level: Level::Violation,
        sources: &[SEGMENTS, OPCODES],
        sentence: "An FPDU carries a DDP segment with an opcode, a tag and a queue that belong \
            together.",
        explanation: "The versions are 1 (for RDMAP also 0), reserved bits are zero, RDMA Writes \
            and Read Responses are tagged, Sends use queue 0, RDMA Read Requests queue 1 and a \
            Terminate queue 2. Only a Send with Invalidate contains an STag to invalidate.",
        check: Check::Faulty(segment),
    },
    Checked {
        id: "iwarp-message-number",
        level: Level::Violation,
        sources: &[NUMBERS],
        sentence: "Each message to a queue has the next message sequence number.",
        explanation: "The first number is 1. Numbers are compared where the capture has no gap. \
            After a wrong number, the next message may continue from it, or from the one before \
            it. Nothing is reported on a segment that breaks iwarp-segment, nor on the message \
            after it.",
        check: Check::Faulty(message_number),
    },
    Checked {
        id: "iwarp-message-offset",
        level: Level::Warning,
        sources: &[ORDER],
        sentence: "A segment of a message directly continues the previous segment.",
        explanation: "Message offsets begin at 0 and continue where the previous segment ended; \
            so do the tagged offsets of one message. A sender should keep to that order, but a \
            receiver places segments in any. Offsets are compared where the capture has no gap. \
            After a wrong offset, the next segment may continue from it, or from the one before \
            it.",
        check: Check::Faulty(message_offset),
    },
    Checked {
        id: "iwarp-after-terminate",
        level: Level::Violation,
        sources: &[TERMINATE],
        sentence: "An end sends nothing after a Terminate.",
        explanation: "The first segment after it is reported.",
        check: Check::Faulty(terminated),
    },
    Checked {
        id: "iwarp-terminate",
        level: Level::Warning,
        sources: &[TERMINATE],
        sentence: "A Terminate gives the reason why an end ends the connection.",
        explanation: "The reason is that of RFC 5040, section 4.8, RFC 5041, section 7.2, or RFC \
            5044, section 8. An end is at fault if it refuses an operation on memory that it \
            advertised for that operation. Linux soft-iWARP swaps the layer and the type of the \
            error; if that gives another reason, the finding lists both.",
        check: Check::Refused(terminate),
    },
];

pub(super) const UNSEEN: &[Unseen] = &[Unseen {
    source: SEGMENTS,
    requirement: "An STag names memory of its receiver that allows the operation.",
    reason: "Registrations are not on the wire. memory-advertised compares operations with the \
        memory that RPC-over-RDMA advertised.",
}];

fn crc(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Crc {
        findings.add(about(faulty, "a wrong CRC"));
    }
}

fn segment(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Segment {
        findings.add(about(faulty, "a segment that DDP and RDMAP do not allow"));
    }
}

fn message_number(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::MessageNumber { found, expected } = faulty.fault else { return };
    let finding = about(faulty, &format!("message {found}, but {expected} is next"));
    findings.add(finding.values(Value::Count(found.into()), Value::Count(expected.into())));
}

fn message_offset(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::MessageOffset { found, expected } = faulty.fault else { return };
    let finding = about(
        faulty,
        &format!(
            "offset {found}, but the previous segment ends at \
        {expected}"
        ),
    );
    findings.add(finding.values(Value::Count(found), Value::Count(expected)));
}

fn terminated(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Terminated {
        findings.add(about(faulty, "its sender has already sent a Terminate"));
    }
}

fn start_frame(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::StartFrame(fault) = faulty.fault else { return };
    let problem = match fault {
        StartFault::Rejected => "a Request with R set".to_string(),
        StartFault::Reserved(bits) => format!("reserved bits are set: {bits:#04x}"),
        StartFault::PrivateData(bytes) => format!("{bytes} bytes of private data"),
    };
    let finding = Finding::new(format!("{}: {problem}", faulty.piece.name)).by(faulty.from);
    findings.add(finding.frames([faulty.seen.frame]).observed(Value::Words(problem)));
}

fn depth(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Depth { outbound, inbound } = faulty.fault else { return };
    let message = format!("MPA Reply: ORD {outbound}, but the Request has IRD {inbound}");
    let finding = Finding::new(message).by(faulty.from).frames([faulty.seen.frame]);
    findings.add(finding.values(Value::Count(outbound.into()), Value::Count(inbound.into())));
}

fn early(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Early {
        findings.add(about(faulty, "FPDUs, but the other end has not sent any yet"));
    }
}

fn markers(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Markers { found } = faulty.fault else { return };
    let message = if found {
        "markers that the other end did not ask for"
    } else {
        "no markers, although the other end \
            asked for them"
    };
    findings.add(about(faulty, message));
}

fn terminate(refused: &Refused, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(failure) = is_fatal(refused.refusal).filter(|_| refused.position.counts_bytes()) else { return };
    let reason: String = failure.to_string();
    // The other rules find the message that it refuses, if that is wrong.
    let finding = match refused.advertised {
        Some((Seen { frame, .. }, false)) => {
            let message = format!("Terminate: {reason}, on memory that it advertised in frame {frame}");
            Finding::new(message).by(refused.from).frames([frame, refused.seen.frame])
        }
        _ => Finding::new(format!("Terminate: {reason}")).frames([refused.seen.frame]),
    };
    findings.add(finding.observed(Value::Words(reason)));
}
