//! Inline thresholds (RFC 8166, section 3.3.2; RFC 8797).

use super::check::{Check, Checked, Findings, View};
use super::finding::Value;
use super::judged::by_sender;
use super::rule::{Document, Level, Source, Unseen};
use alloc::format;
use rdmascope_dissector::observation::Sent;
use rdmascope_wire::private_data::DEFAULT_INLINE_THRESHOLD;

pub(crate) const RULES: &[Checked] = &[Checked {
    id: "inline-threshold",
    level: Level::Violation,
    sources: &[
        Source { document: Document::Rfc8166, section: "3.3.2" },
        Source { document: Document::Rfc8166, section: "3.3.3" },
        Source { document: Document::Rfc8797, section: "4.2" },
        Source { document: Document::Rfc8167, section: "4.2" },
    ],
    sentence: "A Send is no longer than the inline threshold of its direction.",
    explanation: "The threshold is the smaller of two sizes in the private data of the CM \
        exchange or of the MPA start frames: the largest Send of the sender and the largest \
        Receive of the receiver. If one end announced no size, the threshold is 1024 bytes. If \
        the capture does not contain the exchange, a Send of more than 1024 bytes is \
        inconclusive.",
    check: Check::Sent(threshold),
}];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: Source { document: Document::Rfc8166, section: "3.3.3" },
    requirement: "Receivers support inline thresholds of at least 1024 bytes.",
    reason: "The size that a receiver supports shows only when a Send fails, and the NAK that it \
        then sends has other causes too.",
}];

/// True unless the Send fits any threshold.
pub(crate) fn may_break(sent: &Sent<'_>) -> bool {
    sent.send.length.is_none_or(|length| length > DEFAULT_INLINE_THRESHOLD)
}

fn threshold(sent: &Sent<'_>, view: &View<'_>, findings: &mut Findings<'_>) {
    let length = sent.send.length.unwrap_or(sent.send.bytes.len() as u32);
    let known = view.inline_threshold(sent.from);
    let threshold = known.unwrap_or(DEFAULT_INLINE_THRESHOLD);
    if length <= threshold {
        return;
    }
    findings.add(
        by_sender(sent, view, format!("a Send of {length} bytes where the inline threshold is {threshold}"))
            .values(Value::Bytes(length.into()), Value::Bytes(threshold.into()))
            .unless(known.is_none()),
    );
}
