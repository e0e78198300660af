//! iWARP: MPA, DDP and RDMAP below RPC-over-RDMA (RFC 5044, RFC 5041, RFC 5040).
//!
//! What TCP loses and sends again is no fault of an end, and what is missing in the capture is none either: the dissector reports a fault of an
//! FPDU only where it knows where that begins.

use super::check::{Check, Checked, Findings, View};
use super::finding::{Finding, Value};
use super::rule::{Document, Level, Source, Unseen};
use super::transport::{Read, about, damaged, is_fatal};
use alloc::format;
use alloc::string::{String, ToString};
use rdmascope_dissector::observation::{Faulty, Refused};
use rdmascope_dissector::rdma::{Fault, StartFault};

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
        sentence: "An MPA start frame has zero in its reserved bits, at most 512 bytes of private data, and in a Request no R.",
        explanation: "Bit S is reserved in revision 1. Receivers do not check reserved bits, so nothing breaks. The soft-iWARP of Linux \
            sets bit 0x08 of a Request where it is told to use large segments.",
        check: Check::Faulty(start_frame),
    },
    Checked {
        id: "iwarp-read-resources",
        level: Level::Violation,
        sources: &[DEPTHS],
        sentence: "The ORD in an MPA Reply is at most the IRD in the Request.",
        explanation: "Nothing is said where one of them is 0x3fff: the ends agree elsewhere then. Nor of a Reply that rejects: it says what \
            would be needed. read-depth counts the RDMA Reads.",
        check: Check::Faulty(depth),
    },
    Checked {
        id: "iwarp-first-message",
        level: Level::Violation,
        sources: &[FIRST],
        sentence: "The end that sent the Reply sends no FPDU before it has received one.",
        explanation: "What its first segment with FPDUs acknowledges says what it had received, in whatever order the capture shows the \
            ends. Where the capture lacks that segment, nothing is said.",
        check: Check::Faulty(early),
    },
    Checked {
        id: "iwarp-markers",
        level: Level::Violation,
        sources: &[MARKERS, FRAMES],
        sentence: "Markers are in the stream to an end if its start frame asks for them, and only then.",
        explanation: "The first bytes behind the start frame show it: a marker begins with zeros, and an FPDU with its length. Both start \
            frames have to be in the capture.",
        check: Check::Faulty(markers),
    },
    Checked {
        id: "iwarp-crc",
        level: Level::Violation,
        sources: &[CRC],
        sentence: "Where an end asked for CRCs, the CRC of an FPDU matches its bytes.",
        explanation: "Whether CRCs are in use is told by the start frames, or by the first FPDU that is seen. A packet with a wrong TCP \
            checksum is not looked at: its receiver drops it. The receiver of a wrong CRC ends the connection.",
        check: Check::Faulty(crc),
    },
    Checked {
        id: "iwarp-checksum",
        level: Level::Warning,
        sources: &[CHECKSUM],
        sentence: "The checksum of TCP matches the segment.",
        explanation: "Segments with another checksum are counted for each end and reported when the connection ends. A receiver drops such \
            segments. What a host leaves to its network adapter is none. Until a segment of the capture has a matching checksum, or one \
            that was left so, checksums are taken as not computed.",
        check: Check::Connection(damaged),
    },
    Checked {
        id: "iwarp-segment",
        level: Level::Violation,
        sources: &[SEGMENTS, OPCODES],
        sentence: "An FPDU carries a DDP segment with an opcode, a tag and a queue that belong together.",
        explanation: "The versions are 1 (of RDMAP also 0), reserved bits are zero, RDMA Writes and Read Responses are tagged, Sends go \
            to queue 0, RDMA Read Requests to queue 1, a Terminate to queue 2. An STag to invalidate stands only in a Send with Invalidate.",
        check: Check::Faulty(segment),
    },
    Checked {
        id: "iwarp-message-number",
        level: Level::Violation,
        sources: &[NUMBERS],
        sentence: "Each message to a queue has the next message sequence number.",
        explanation: "The first is 1. Numbers are compared within what the capture shows without a gap. Behind a wrong number the next message may \
            go on from it, or from the one before it. Nothing is said of a segment of iwarp-segment, nor of the message behind it.",
        check: Check::Faulty(message_number),
    },
    Checked {
        id: "iwarp-message-offset",
        level: Level::Warning,
        sources: &[ORDER],
        sentence: "A segment of a message belongs right behind the segment before it.",
        explanation: "Message offsets begin with 0 and go on where the segment before ended; so do the tagged offsets of one message. A sender \
            should keep to that order, and a receiver places segments in any. Compared is what the capture shows without a gap. Behind a \
            wrong offset the next segment may go on from it, or from the one before it.",
        check: Check::Faulty(message_offset),
    },
    Checked {
        id: "iwarp-after-terminate",
        level: Level::Violation,
        sources: &[TERMINATE],
        sentence: "An end sends nothing behind a Terminate.",
        explanation: "The first segment behind it is reported.",
        check: Check::Faulty(terminated),
    },
    Checked {
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
    let finding = about(faulty, &format!("message {found} where {expected} is the next"));
    findings.add(finding.values(Value::Count(found.into()), Value::Count(expected.into())));
}

fn message_offset(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::MessageOffset { found, expected } = faulty.fault else { return };
    let finding = about(faulty, &format!("offset {found} where the segment before ends at {expected}"));
    findings.add(finding.values(Value::Count(found), Value::Count(expected)));
}

fn terminated(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Terminated {
        findings.add(about(faulty, "its sender has sent a Terminate before"));
    }
}

fn start_frame(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::StartFrame(fault) = faulty.fault else { return };
    let what = match fault {
        StartFault::Rejected => "a Request with R set".to_string(),
        StartFault::Reserved(bits) => format!("reserved bits are set: {bits:#04x}"),
        StartFault::PrivateData(bytes) => format!("{bytes} bytes of private data"),
    };
    let finding = Finding::new(format!("{}: {what}", faulty.piece.name)).by(faulty.from);
    findings.add(finding.frames([faulty.seen.frame]).observed(Value::Words(what)));
}

fn depth(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Depth { outbound, inbound } = faulty.fault else { return };
    let message = format!("MPA Reply: ORD {outbound}, and the Request has IRD {inbound}");
    let finding = Finding::new(message).by(faulty.from).frames([faulty.seen.frame]);
    findings.add(finding.values(Value::Count(outbound.into()), Value::Count(inbound.into())));
}

fn early(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Early {
        findings.add(about(faulty, "FPDUs, and the other end has sent none yet"));
    }
}

fn markers(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Markers { found } = faulty.fault else { return };
    let what =
        if found { "markers that nobody asked for" } else { "no markers, which the other end asked for" };
    findings.add(about(faulty, what));
}

fn terminate(refused: &Refused, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(failure) = is_fatal(refused.refusal).filter(|_| refused.position.counts_bytes()) else { return };
    let reason: String = failure.to_string();
    findings.add(
        Finding::new(format!("Terminate: {reason}"))
            .by(refused.from.other())
            .frames([refused.seen.frame])
            .observed(Value::Words(reason)),
    );
}
