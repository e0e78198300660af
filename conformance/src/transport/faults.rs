//! Packets that break a rule by themselves, or compared with their neighbours.

use super::Read;
use crate::check::{Findings, View};
use crate::finding::{Basis, Finding, Value};
use alloc::borrow::ToOwned;
use alloc::format;
use rdmascope_dissector::LONGEST_MESSAGE;
use rdmascope_dissector::observation::Faulty;
use rdmascope_dissector::rdma::{Fault, Operation, Part};

/// A finding about a packet.
pub(crate) fn about(faulty: &Faulty, message: &str) -> Finding {
    let (at, name) = (faulty.position, faulty.piece.name);
    let preposition = if at.counts_bytes() { "at" } else { "with" };
    let finding = Finding::new(format!("{name} {preposition} {} {at}: {message}", at.unit()));
    finding.by(faulty.from).frames([faulty.seen.frame])
}

/// The length of a packet with payload that is longer than the path MTU, or that of a First or
/// Middle packet that is shorter.
pub(super) fn wrong_length(faulty: &Faulty) -> Option<u32> {
    let Fault::Length { length, path_mtu } = faulty.fault else { return None };
    let is_full = matches!(faulty.piece.part, Part::First | Part::Middle);
    let is_long = faulty.piece.operation.carries_payload() && path_mtu.is_some_and(|mtu| length > mtu);
    (is_full || is_long).then_some(length)
}

pub(super) fn length(faulty: &Faulty, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Length { length, path_mtu } = faulty.fault else { return };
    // The path MTU of the REQ is wrong, or that of this end.
    if wrong_length(faulty).is_some_and(|length| view.memory.0.wrong_lengths[faulty.from] >= Some(length)) {
        return;
    }
    let mtu = path_mtu.map_or("the path MTU".to_owned(), |mtu| format!("the path MTU of {mtu}"));
    let allowed = match faulty.piece.part {
        Part::First | Part::Middle => mtu,
        Part::Last => format!("1 byte up to {mtu}"),
        Part::Only if faulty.piece.operation.carries_payload() => format!("none up to {mtu}"),
        Part::Only => "none".to_owned(),
    };
    findings.add(
        about(faulty, &format!("{length} bytes of payload"))
            .values(Value::Bytes(length.into()), Value::Words(allowed))
            .unless(path_mtu.is_some() && faulty.piece.operation.carries_payload() && !view.holds_start()),
    );
}

pub(super) fn padding(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Padding { pad_count, expected } = faulty.fault else { return };
    let finding = about(faulty, &format!("a pad count of {pad_count}"));
    findings.add(finding.values(Value::Count(pad_count.into()), Value::Count(expected.into())));
}

pub(super) fn version(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Version(version) = faulty.fault else { return };
    let finding = about(faulty, &format!("transport header version {version}"));
    findings.add(finding.values(Value::Count(version.into()), Value::Count(0)));
}

pub(super) fn opcode(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Opcode(opcode) = faulty.fault else { return };
    let finding = about(faulty, &format!("the reserved opcode 0x{opcode:02x}"));
    findings.add(finding.observed(Value::Hexadecimal(opcode.into())));
}

pub(super) fn partition_key(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::PartitionKey { found, agreed } = faulty.fault else { return };
    let finding = about(
        faulty,
        &format!(
            "partition key 0x{found:04x}, but the REQ has \
        0x{agreed:04x}"
        ),
    );
    findings.add(finding.values(Value::Hexadecimal(found.into()), Value::Hexadecimal(agreed.into())));
}

pub(super) fn order(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault != Fault::Order {
        return;
    }
    findings.add(about(
        faulty,
        match faulty.piece.part {
            Part::First | Part::Only => "it begins a message before the last one has ended",
            Part::Middle | Part::Last => "it continues a message that has not begun",
        },
    ));
}

pub(super) fn written(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Written { bytes, announced } = faulty.fault else { return };
    let finding = about(faulty, &format!("the message carried {bytes} bytes, but its RETH has {announced}"));
    findings.add(finding.values(Value::Bytes(bytes), Value::Bytes(announced.into())));
}

pub(super) fn dma_length(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::DmaLength(length) = faulty.fault else { return };
    let finding = about(faulty, &format!("a DMA length of {length} bytes"));
    findings.add(finding.values(Value::Bytes(length.into()), Value::Bytes(LONGEST_MESSAGE.into())));
}

pub(super) fn foreign(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault != Fault::Foreign || faulty.piece.operation == Operation::Send {
        return;
    }
    let message = match faulty.piece.operation {
        Operation::Other => "an operation that RPC-over-RDMA does not use",
        _ => "Immediate data",
    };
    findings.add(about(faulty, message).observed(Value::Name(faulty.piece.name)));
}

pub(super) fn immediate(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault == Fault::Foreign && faulty.piece.operation == Operation::Send {
        findings.add(about(faulty, "Immediate data").observed(Value::Name(faulty.piece.name)));
    }
}

pub(super) fn nothing(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault != Fault::Nothing {
        return;
    }
    findings.add(about(faulty, "a DMA length of zero").observed(Value::Bytes(0)));
}

pub(super) fn response(faulty: &Faulty, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Response { left, index, length } = faulty.fault else { return };
    if view.memory.0.wrong_lengths[faulty.from].is_some() {
        return;
    }
    let message = format!("{length} bytes as response {index} to a request with {left} bytes left");
    findings.add(
        about(faulty, &message)
            .values(Value::Bytes(length.into()), Value::Bytes(left.into()))
            .unless(lacks_requests(faulty, view) || may_answer_repetition(faulty)),
    );
}

/// Whether a response may be the last one to a repeated request that the capture lacks. Such a
/// request may ask for any part of the data (IBTA volume 1, section 9.7.5), and has no PSN of its
/// own, so its absence leaves no gap.
fn may_answer_repetition(faulty: &Faulty) -> bool {
    let Fault::Response { left, index, length } = faulty.fault else { return false };
    let ends = match faulty.piece.part {
        Part::Only => true,
        Part::Last => index > 0,
        Part::First | Part::Middle => false,
    };
    ends && length <= left && !faulty.position.counts_bytes()
}

pub(super) fn unrequested(faulty: &Faulty, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault != Fault::Unasked {
        return;
    }
    let finding = about(faulty, "it answers no RDMA READ");
    // A PSN identifies the packet that was sent with it. Over TCP, a request that the capture lacks
    // is noticed only when its sender sends more.
    let is_shown = !faulty.position.counts_bytes();
    let basis = if is_shown { Basis::Packets } else { Basis::Silence(faulty.from.other()) };
    findings.add(finding.rests_on(basis).unless(lacks_requests(faulty, view)));
}

/// Whether the capture may lack the request that a response answers.
fn lacks_requests(faulty: &Faulty, view: &View<'_, Read>) -> bool {
    let reader = faulty.from.other();
    // Packets missing before waiting requests are recorded when the requests continue.
    !view.holds_start() || view.lost[reader] > 0 || view.half_flows[reader].waits
}

pub(super) fn reads(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Reads { outstanding, allowed, first, last } = faulty.fault else { return };
    let message = format!(
        "{outstanding} RDMA READs outstanding, but the other end has resources for \
            {allowed}"
    );
    findings.add(
        Finding::new(message)
            .by(faulty.from.other())
            .frames([first, last, faulty.seen.frame])
            .values(Value::Count(outstanding.into()), Value::Count(allowed.into()))
            // The capture may lack responses sent in between.
            .rests_on(Basis::Packets),
    );
}

pub(super) fn syndrome(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Fault::Syndrome(syndrome) = faulty.fault else { return };
    let finding = about(faulty, &format!("a syndrome of 0x{syndrome:02x}"));
    findings.add(finding.observed(Value::Hexadecimal(syndrome.into())));
}

pub(super) fn unsent(faulty: &Faulty, _: &View<'_, Read>, findings: &mut Findings<'_>) {
    if faulty.fault != Fault::Unsent {
        return;
    }
    let finding = about(faulty, "no request can have had that PSN");
    findings.add(finding.rests_on(Basis::Silence(faulty.from.other())));
}
