//! The comment of a packet, in one line: the connection, the transaction, the packet's role in it,
//! errors, and the findings that it is evidence of. The packet that completes a call or a reply
//! also has the main fields of the message.
//!
//! Comments contain text from the capture only in fields: quoted, escaped and bounded.

use super::facts::{Facts, MessageFacts, TransactionFacts};
use core::fmt::{self, Write as _};
use foldhash::fast::FixedState;
use rdmascope_analysis::findings::{ByFrame, inconclusive};
use rdmascope_analysis::names::{self, PartName};
use rdmascope_analysis::units::{Counted, Duration, Plain};
use rdmascope_dissector::event::{Content, Packet};
use rdmascope_dissector::exchange::{Step, StepKind};
use rdmascope_dissector::frame::{Checksum, IcrcVerdict, Other};
use rdmascope_dissector::role::{Role, StepOf};
use rdmascope_dissector::transaction::{Missing, Outcome, Part};
use rdmascope_present::tables::packets::SegmentContents;
use rdmascope_wire::bth::Acknowledgement;
use rdmascope_wire::cm;
use std::collections::{HashMap, VecDeque};

/// Comments on the packets of the second pass, in the order of the capture.
#[derive(Debug)]
pub(super) struct Comments<'a> {
    facts: Facts,
    findings: &'a ByFrame<'a>,
    recent: Recent,
    /// Whether a good ICRC was seen. Until then, bad ICRCs are taken as not computed.
    good: bool,
    /// Whether a good TCP checksum was seen.
    sound: bool,
}

impl<'a> Comments<'a> {
    /// Maximum number of findings in a comment.
    const MOST_FINDINGS: usize = 8;

    pub(super) fn new(facts: Facts, findings: &'a ByFrame<'a>) -> Comments<'a> {
        Comments { facts, findings, recent: Recent::default(), good: false, sound: false }
    }

    /// Writes the comment of the next packet into `text`, which may be empty.
    pub(super) fn write(&mut self, packet: &Packet<'_>, role: Option<Role>, text: &mut String) {
        text.clear();
        // Writing to a string does not fail.
        let _ = self.describe(packet, role, &mut Parts { text });
        if let Some(Role::Part(of)) = role
            && let Some(step) = self.step(of)
        {
            self.recent.add((of, index(step, packet)), packet.record.number);
        }
    }

    fn describe(&mut self, packet: &Packet<'_>, role: Option<Role>, parts: &mut Parts<'_>) -> fmt::Result {
        let transaction = role.and_then(|role| self.facts.transaction(role.of()));
        // The first packets of a connection may precede its number, or have the number of a
        // connection that became part of another.
        let id = transaction.map(|transaction| transaction.connection).or(packet.connection);
        let connection = id.and_then(|id| Some((id, self.facts.connection(id)?)));
        if let Some((id, connection)) = connection {
            parts.add(format_args!("connection {}", id.0))?;
            if let Some(sender) = connection.sender(packet) {
                parts.add(format_args!("{sender}"))?;
            }
        }
        if let (Some(role), Some(transaction)) = (role, transaction) {
            parts.add(format_args!("transaction {}, XID {}", transaction.number, transaction.xid))?;
            if let Some(protocol) = transaction.protocol {
                write!(parts.text, ", {protocol} {}", transaction.label)?;
            }
            if let Some(step) = transaction.steps.get(role.of().step as usize) {
                self.part_taken(packet, role, step, transaction, parts)?;
            }
        }
        let headers = packet.readable_headers();
        if let Some(headers) = headers {
            match &headers.content {
                Content::Cm(message) => {
                    parts.add(format_args!("{}", message.name()))?;
                    names::cm_fields(message, parts.text)?;
                    let negotiated = connection.and_then(|(_, connection)| connection.negotiated);
                    if let (cm::Message::Reply(_), Some((call, reply, invalidation))) = (message, negotiated)
                    {
                        let not = if invalidation { "" } else { "no " };
                        parts.add(format_args!("negotiated: Sends of {call} bytes towards the responder"))?;
                        write!(parts.text, " and {reply} towards the requester, {not}remote invalidation")?;
                    }
                }
                Content::RpcRdma(header) => {
                    if let Some(stop) = header.stop {
                        parts.add(format_args!("incomplete: {stop}"))?;
                    }
                }
                Content::Other => {}
            }
            if let (None, Some(aeth)) = (role, headers.extensions.aeth) {
                match aeth.syndrome.kind() {
                    Acknowledgement::Nak(code) => parts.add(format_args!("NAK because of {code}"))?,
                    Acknowledgement::RnrNak { .. } => parts.add(format_args!("RNR NAK"))?,
                    Acknowledgement::Ack { .. } | Acknowledgement::Reserved(_) => {}
                }
            }
        }
        if packet.contents.is_some_and(|_| !packet.parts().is_empty()) {
            parts.add(format_args!("{}", SegmentContents(packet)))?;
        }
        self.troubles(packet, parts)?;
        self.findings(packet, parts)
    }

    /// The findings that the packet is evidence of.
    fn findings(&self, packet: &Packet<'_>, parts: &mut Parts<'_>) -> fmt::Result {
        let findings = self.findings.of(packet.record.number);
        for finding in findings.iter().take(Comments::MOST_FINDINGS) {
            // Findings of the judge always have a rule.
            let Some(rule) = finding.rule else { continue };
            let (level, inconclusive) = (rule.level, inconclusive(finding.verdict));
            parts.add(format_args!("{level}{inconclusive}, {}: {}", rule.id, Plain(&finding.message)))?;
        }
        match findings.len().saturating_sub(Comments::MOST_FINDINGS) as u64 {
            0 => Ok(()),
            further => parts.add(format_args!("evidence of {}", Counted(further, "further finding"))),
        }
    }

    /// The role of the packet in a step of a transaction.
    fn part_taken(
        &self,
        packet: &Packet<'_>,
        role: Role,
        step: &Step,
        transaction: &TransactionFacts,
        parts: &mut Parts<'_>,
    ) -> fmt::Result {
        let (index, of) = (index(step, packet), role.of());
        match role {
            Role::Part(_) => {
                parts.add(format_args!("{}", Moved { step, packet }))?;
                self.ending(packet, step, transaction, parts)
            }
            Role::Repetition(_) => {
                // A request for the rest of an earlier one counts as its retransmission.
                let index = if step.kind == StepKind::ReadRequest { 0 } else { index };
                parts.add(format_args!("retransmission of "))?;
                self.write_frame(step, of, index, parts.text)?;
                parts.add(format_args!("{}", Moved { step, packet }))
            }
            Role::Acknowledgement(_) => {
                parts.add(format_args!("acknowledges "))?;
                self.write_frame(step, of, index, parts.text)?;
                write!(parts.text, ", {}", Kind(step))
            }
            Role::Refusal(_) => {
                let aeth = packet.readable_headers().and_then(|headers| headers.extensions.aeth);
                match aeth.map(|aeth| aeth.syndrome.kind()) {
                    Some(Acknowledgement::Nak(code)) => {
                        parts.add(format_args!("NAK because of {code}, concerning "))?;
                    }
                    _ => parts.add(format_args!("RNR NAK, receiver not ready for "))?,
                }
                self.write_frame(step, of, index, parts.text)?;
                write!(parts.text, ", {}", Kind(step))
            }
            _ => Ok(()),
        }
    }

    /// The result of a message, if the packet completes one.
    fn ending(
        &self,
        packet: &Packet<'_>,
        step: &Step,
        transaction: &TransactionFacts,
        parts: &mut Parts<'_>,
    ) -> fmt::Result {
        let completed = |message: &Option<MessageFacts>| {
            message.as_ref().is_some_and(|message| message.frame == packet.record.number)
        };
        match step.kind {
            StepKind::Call if completed(&transaction.call) => {
                match transaction.outcome {
                    Outcome::NoReply => {
                        parts.add(format_args!(
                            "no reply before the connection ended or the XID was reused"
                        ))?;
                    }
                    Outcome::CutOff => parts.add(format_args!("no reply before the end of the capture"))?,
                    Outcome::Completed | Outcome::TransportError => {
                        if let Some(reply) = &transaction.reply {
                            parts.add(format_args!("reply in frame {}", reply.frame))?;
                        }
                    }
                    Outcome::NoCall => {}
                }
                fields(&transaction.call, parts)?;
                lack(&transaction.call, parts)
            }
            StepKind::Reply if completed(&transaction.reply) => {
                write!(parts.text, "{}", transaction.ending)?;
                match (&transaction.call, transaction.latency) {
                    (Some(call), Some(latency)) => {
                        write!(parts.text, ", {} after the call in frame {}", Duration(latency), call.frame)?;
                    }
                    _ => write!(parts.text, ", call not captured")?,
                }
                fields(&transaction.reply, parts)?;
                lack(&transaction.reply, parts)
            }
            _ => Ok(()),
        }
    }

    /// Names the frame of the packet with this index in a step.
    fn write_frame(&self, step: &Step, of: StepOf, index: u32, text: &mut String) -> fmt::Result {
        let (first, last) = (step.first.frame, step.last.frame);
        match self.recent.frame((of, index)) {
            Some(frame) => write!(text, "frame {frame}"),
            None if first == last => write!(text, "frame {first}"),
            None => write!(text, "one of frames {first} to {last}"),
        }
    }

    /// Errors of the packet itself.
    fn troubles(&mut self, packet: &Packet<'_>, parts: &mut Parts<'_>) -> fmt::Result {
        if let Ok(frame) = packet.frame {
            self.good |= frame.icrc == IcrcVerdict::Good;
            match frame.icrc {
                IcrcVerdict::Bad if self.good => {
                    parts.add(format_args!("bad ICRC: its receiver drops it"))?
                }
                IcrcVerdict::Bad => {
                    parts.add(format_args!("bad ICRC, like all before: taken as not computed"))?;
                }
                IcrcVerdict::Good | IcrcVerdict::Unverifiable => {}
            }
        }
        if let (Err(Other::Tcp(segment)), Some(_)) = (packet.frame, packet.contents) {
            let checksum = segment.checksum();
            self.sound |= checksum.is_sound();
            if checksum == Checksum::Bad && self.sound {
                parts.add(format_args!("wrong TCP checksum: its receiver drops it"))?;
            }
        }
        match packet.stop() {
            Some(stop) => parts.add(format_args!("incomplete: {stop}")),
            None => Ok(()),
        }
    }

    fn step(&self, of: StepOf) -> Option<&Step> {
        self.facts.transaction(of)?.steps.get(of.step as usize)
    }
}

/// The index of the packet's PSN within a step.
fn index(step: &Step, packet: &Packet<'_>) -> u32 {
    let psn = packet.readable_headers().map(|headers| headers.bth.psn);
    let index = psn.and_then(|psn| u32::try_from(step.position.distance(psn.into())).ok()).unwrap_or(0);
    index.min(step.extent.saturating_sub(1))
}

/// The main fields of a message.
fn fields(message: &Option<MessageFacts>, parts: &mut Parts<'_>) -> fmt::Result {
    match message {
        Some(message) if !message.fields.is_empty() => parts.add(format_args!("{}", message.fields)),
        _ => Ok(()),
    }
}

/// The bytes of a message that are missing from the capture.
fn lack(message: &Option<MessageFacts>, parts: &mut Parts<'_>) -> fmt::Result {
    let Some(message) = message else { return Ok(()) };
    for Missing { part, start, end } in &message.missing {
        let part = PartName(*part);
        match end {
            Some(end) => {
                let length = end.saturating_sub(*start);
                parts.add(format_args!("missing: {} of {part}", Bytes(*start, length)))?;
            }
            None => parts.add(format_args!("missing: {part} from byte {start} on"))?,
        }
    }
    match message.further_missing {
        0 => Ok(()),
        further => parts.add(format_args!("and {further} more ranges")),
    }
}

/// A line of parts.
struct Parts<'a> {
    text: &'a mut String,
}

impl Parts<'_> {
    fn add(&mut self, part: fmt::Arguments<'_>) -> fmt::Result {
        let separator = if self.text.is_empty() { "" } else { "; " };
        write!(self.text, "{separator}{part}")
    }
}

/// The kind of a step: `RDMA Write into Write chunk 0`.
struct Kind<'a>(&'a Step);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = PartName(self.0.part);
        // Read lists in replies are those of the reliable-reply draft.
        let whose =
            if self.0.of_reply && matches!(self.0.part, Part::ReadChunk(_)) { "the reply's " } else { "" };
        match self.0.kind {
            StepKind::Call => f.write_str("call"),
            StepKind::ReadRequest => write!(f, "RDMA Read request for {whose}{part}"),
            StepKind::ReadResponse => write!(f, "RDMA Read response with {whose}{part}"),
            StepKind::Write => write!(f, "RDMA Write into {part}"),
            StepKind::Reply => f.write_str("reply"),
            StepKind::Done => f.write_str("RDMA_DONE"),
        }
    }
}

/// The data that a packet of a step moved or requests.
struct Moved<'a, 'b> {
    step: &'a Step,
    packet: &'a Packet<'b>,
}

impl fmt::Display for Moved<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moved { step, packet } = self;
        write!(f, "{}", Kind(step))?;
        let Some(headers) = packet.readable_headers() else { return Ok(()) };
        let index = index(step, packet);
        let is_last = index + 1 >= step.extent;
        match step.kind {
            StepKind::Call | StepKind::Reply | StepKind::Done if step.extent > 1 => {
                write!(f, ", packet {} of {}", index + 1, step.extent)
            }
            StepKind::Call | StepKind::Reply | StepKind::Done => Ok(()),
            StepKind::ReadRequest => {
                // A retransmitted request may ask for the end only.
                let requested = headers.extensions.reth.map_or(step.length, |reth| reth.dma_length.into());
                let before = step.length.saturating_sub(requested);
                write!(f, ", {}", Bytes(step.offset.saturating_add(before), requested))
            }
            StepKind::ReadResponse | StepKind::Write => {
                // All packets of an operation except the last have the same length.
                let length = u64::from(headers.payload_length);
                let before = match is_last {
                    true => step.length.saturating_sub(length),
                    false => length.saturating_mul(index.into()),
                };
                write!(f, ", {}", Bytes(step.offset.saturating_add(before), length))
            }
        }
    }
}

/// A range: its first byte and its length.
struct Bytes(u64, u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bytes(_, 0) => f.write_str("no bytes"),
            Bytes(start, length) => write!(f, "bytes {start}-{}", start.saturating_add(length - 1)),
        }
    }
}

/// The latest packets of steps, so that comments on retransmissions and acknowledgements can name
/// them.
#[derive(Debug, Default)]
struct Recent {
    frames: HashMap<(StepOf, u32), u64, FixedState>,
    /// The keys, oldest first.
    order: VecDeque<(StepOf, u32)>,
}

impl Recent {
    /// Maximum number of packets.
    const MOST: usize = 1 << 16;

    fn add(&mut self, key: (StepOf, u32), frame: u64) {
        if self.order.len() == Recent::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.frames.remove(&oldest);
        }
        // The first packet with this key is the one to name.
        self.frames.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            frame
        });
    }

    fn frame(&self, key: (StepOf, u32)) -> Option<u64> {
        self.frames.get(&key).copied()
    }
}
