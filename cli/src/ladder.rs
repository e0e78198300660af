//! The exchange of a transaction between Requester and Responder, as RFC 8166 draws it: which rungs there are. How they are
//! drawn is no matter of this module.

use core::fmt::{self, Display};
use rdmascope_dissector::attribution::{Attributed, Role, StepOf};
use rdmascope_dissector::event::{Headers, Packet};
use rdmascope_dissector::kept::{Step, StepKind};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Part, Seen, Transaction};
use rdmascope_wire::bth::{Acknowledgement, NakCode, Operation, rnr_timer};
use rdmascope_wire::psn::Psn;

/// The rungs of one transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    /// When its first packet was captured: what the times of rungs count from.
    pub(crate) start: Time,
    /// In the order of their first packets.
    pub(crate) rungs: Vec<Rung>,
    /// Steps and packets for which there was no room.
    pub(crate) left_out: u64,
}

/// Packets of one sender that belong together: an arrow from one side to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    pub(crate) kind: RungKind,
    /// Whether the Requester sent it, who is the caller in either direction; else the Responder did.
    pub(crate) from_requester: bool,
    /// Its first packet in the capture.
    pub(crate) first: Seen,
    /// Its last packet in the capture.
    pub(crate) last: Seen,
    /// Its first PSN. That of responses is one of the numbers of who asked.
    pub(crate) psn: Psn,
    /// PSNs from there on that it takes up.
    pub(crate) packets: u32,
    /// What it moved; of a READ request, what it asked for.
    pub(crate) piece: Option<Piece>,
}

/// What a [`Rung`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RungKind {
    /// A Send or RDMA operation of the transaction.
    Step(StepKind),
    /// Packets of such a one, sent again.
    Again(StepKind),
    /// An acknowledgement.
    Acknowledgement,
    /// A NAK.
    Nak(NakCode),
    /// An RNR NAK with its timer as encoded.
    RnrNak(u8),
}

/// A stretch of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Whether the part is of the reply's message; else of the call's.
    pub(crate) of_reply: bool,
    pub(crate) part: Part,
    /// Its first byte in the part.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u64,
}

impl Ladder {
    /// Rungs of one ladder.
    pub(crate) const MOST_RUNGS: usize = 8192;

    /// The rungs that are steps of the transaction itself; there are none where no steps were kept of it.
    pub(crate) fn of(transaction: &Transaction) -> Ladder {
        let messages = [&transaction.call, &transaction.reply];
        let steps = transaction.kept.as_ref().map_or(&[][..], |kept| &kept.steps);
        let sent = messages.into_iter().flatten().map(|message| message.first);
        let first = sent.chain(steps.iter().map(|step| step.first)).min_by_key(|seen| seen.frame);
        let mut ladder = Ladder {
            start: first.map_or(Time::default(), |seen| seen.time),
            rungs: Vec::new(),
            left_out: transaction.kept.as_ref().map_or(0, |kept| kept.steps_left_out),
        };
        steps.iter().for_each(|step| ladder.add(Rung::from(step)));
        ladder
    }

    /// Adds what a packet of a second pass is to `transaction`, as `attributed` says: an acknowledgement or a refusal, or sent
    /// again.
    pub(crate) fn see(
        &mut self,
        transaction: &Transaction,
        packet: &Packet<'_>,
        attributed: &Attributed<'_>,
    ) {
        let (Some(kept), Some(Ok(headers))) = (&transaction.kept, &packet.headers) else { return };
        let own = |of: StepOf| match of.transaction == transaction.number {
            true => kept.steps.get(of.step as usize),
            false => None,
        };
        let seen = Seen { frame: packet.record.number, time: packet.record.time };
        let answer = |step: &Step, kind: RungKind| Rung {
            kind,
            from_requester: !step.from_caller,
            first: seen,
            last: seen,
            psn: headers.bth.psn,
            packets: 1,
            piece: None,
        };
        let acknowledges = headers.bth.opcode.operation() == Some(Operation::Acknowledge);
        match attributed.role {
            Role::Repetition(of) => {
                if let Some(step) = own(of) {
                    self.repeat(Rung::again(step, headers, seen));
                }
            }
            // Lost on its way to where the capture was made: the receiver refused what came instead of it.
            Role::Part(of) => {
                if let Some(step) = own(of)
                    && self.was_refused(step, headers.bth.psn)
                {
                    self.repeat(Rung::again(step, headers, seen));
                }
            }
            Role::Refusal(of) if own(of).is_some() => {
                let syndrome = headers.extensions.aeth.map(|aeth| aeth.syndrome.kind());
                let kind = match syndrome {
                    Some(Acknowledgement::Nak(code)) => RungKind::Nak(code),
                    Some(Acknowledgement::RnrNak { timer }) => RungKind::RnrNak(timer),
                    _ => return,
                };
                own(of).into_iter().for_each(|step| self.add(answer(step, kind)));
            }
            Role::Acknowledgement(of) if own(of).is_some() => {
                own(of).into_iter().for_each(|step| self.add(answer(step, RungKind::Acknowledgement)));
            }
            // What acknowledges a later step acknowledges those before it.
            _ if acknowledges => {
                if let Some(step) = attributed.acknowledged.iter().copied().find_map(own) {
                    self.add(answer(step, RungKind::Acknowledgement));
                }
            }
            _ => {}
        }
    }

    /// Whether the receiver lately refused what came in place of a packet of `step`.
    fn was_refused(&self, step: &Step, psn: Psn) -> bool {
        const LATELY: usize = 256;
        self.rungs.iter().rev().take(LATELY).any(|rung| {
            matches!(rung.kind, RungKind::Nak(_) | RungKind::RnrNak(_))
                && (rung.psn, rung.from_requester) == (psn, !step.from_caller)
        })
    }

    /// Adds what was sent again: to the last rung, where that is of the same packets' front.
    fn repeat(&mut self, rung: Rung) {
        let before = self.rungs.iter_mut().rfind(|other| matches!(other.kind, RungKind::Again(_)));
        match before {
            Some(other)
                if (other.kind, other.from_requester) == (rung.kind, rung.from_requester)
                    && other.kind != RungKind::Again(StepKind::ReadRequest)
                    && other.psn.plus(other.packets) == rung.psn =>
            {
                other.last = rung.last;
                other.packets += rung.packets;
            }
            _ => self.add(rung),
        }
    }

    /// Adds a rung at its place.
    fn add(&mut self, rung: Rung) {
        if self.rungs.len() >= Ladder::MOST_RUNGS {
            self.left_out += 1;
            return;
        }
        let at = self.rungs.partition_point(|other| other.first.frame <= rung.first.frame);
        self.rungs.insert(at, rung);
    }

    /// When the last packet of all rungs was captured.
    pub(crate) fn end(&self) -> Time {
        self.rungs.iter().map(|rung| rung.last.time).max().unwrap_or(self.start)
    }
}

impl From<&Step> for Rung {
    fn from(step: &Step) -> Rung {
        Rung {
            kind: RungKind::Step(step.kind),
            from_requester: step.from_caller,
            first: step.first,
            last: step.last,
            psn: step.psn,
            packets: step.packets,
            piece: Some(Piece {
                of_reply: step.of_reply,
                part: step.part,
                offset: step.offset,
                length: step.length,
            }),
        }
    }
}

impl Rung {
    /// A packet of a step that was sent again.
    fn again(step: &Step, headers: &Headers<'_>, seen: Seen) -> Rung {
        let psn = headers.bth.psn;
        let mut again = Rung { first: seen, last: seen, psn, packets: 1, piece: None, ..Rung::from(step) };
        again.kind = RungKind::Again(step.kind);
        if let (StepKind::ReadRequest, Some(reth)) = (step.kind, headers.extensions.reth) {
            // It asks for what is left: up to the end, whatever was there before.
            let passed = u32::try_from(step.psn.distance(psn)).unwrap_or(0);
            let length = u64::from(reth.dma_length);
            let offset = (step.offset + step.length).saturating_sub(length);
            again.packets = step.packets.saturating_sub(passed).max(1);
            again.piece = Some(Piece { of_reply: step.of_reply, part: step.part, offset, length });
        }
        again
    }

    /// The PSN of its last packet.
    pub(crate) fn last_psn(&self) -> Psn {
        self.psn.plus(self.packets.saturating_sub(1))
    }

    /// What it is, in the words of the specifications.
    pub(crate) fn title<'a>(&self, transaction: &'a Transaction) -> impl Display + use<'a> {
        RungTitle { kind: self.kind, transaction }
    }
}

struct RungTitle<'a> {
    kind: RungKind,
    transaction: &'a Transaction,
}

impl Display for RungTitle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, again) = match self.kind {
            RungKind::Step(kind) => (kind, ""),
            RungKind::Again(kind) => (kind, "again: "),
            RungKind::Acknowledgement => return f.write_str("ACK"),
            RungKind::Nak(code) => return write!(f, "NAK, {code}"),
            RungKind::RnrNak(timer) => return write!(f, "RNR NAK, {:?}", rnr_timer(timer)),
        };
        f.write_str(again)?;
        let (message, what) = match kind {
            StepKind::Call => (&self.transaction.call, "call"),
            StepKind::Reply => (&self.transaction.reply, "reply"),
            StepKind::ReadRequest => return f.write_str("RDMA Read request"),
            StepKind::ReadResponse => return f.write_str("RDMA Read response"),
            StepKind::Write => return f.write_str("RDMA Write"),
            StepKind::Done => return f.write_str("Send, RDMA_DONE"),
        };
        match message {
            Some(message) => write!(f, "Send, {} {what}", message.procedure),
            None => write!(f, "Send, {what}"),
        }
    }
}
