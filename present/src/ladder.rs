//! The exchange of a transaction between Requester and Responder, in the form of the diagrams of
//! RFC 8166. This module creates the rungs; other modules draw them as text or SVG.

use core::fmt::{self, Display};
use rdmascope_analysis::capture_points::Passes;
use rdmascope_dissector::exchange::{Exchange, Step, StepKind};
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::role::{Attributed, Role, StepOf};
use rdmascope_dissector::transaction::{Part, Seen, Transaction};
use rdmascope_wire::bth::{Acknowledgement, NakCode, rnr_timer};

/// The rungs of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Ladder {
    /// The capture time of the first packet. The times of rungs are relative to it.
    pub start: Time,
    /// The rungs, in the order of their first packets.
    pub rungs: Vec<Rung>,
    /// Steps and packets beyond [`Ladder::MOST_RUNGS`].
    pub left_out: u64,
    /// The capture points that the packets passed, if captures from several points are joined.
    pub passes: Passes,
    /// Packets of the transaction to mark.
    marked: Vec<Marked>,
}

/// A packet of the ladder's transaction.
#[derive(Clone, Copy, Debug)]
struct Marked {
    frame: u64,
    position: Position,
    from_requester: bool,
}

/// Consecutive packets of one operation from one sender: an arrow from one side to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// The kind of rung.
    pub kind: RungKind,
    /// Whether the Requester sent it; otherwise the Responder did. The Requester is the caller, in
    /// either direction.
    pub from_requester: bool,
    /// The first packet in the capture.
    pub first: Seen,
    /// The last packet in the capture.
    pub last: Seen,
    /// The first position. RDMA Read responses and acknowledgements have positions of the end that
    /// sent the request.
    pub position: Position,
    /// The number of positions.
    pub extent: u32,
    /// The bytes moved; for an RDMA Read request, the bytes requested.
    pub piece: Option<Piece>,
}

/// The kind of a [`Rung`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RungKind {
    /// A Send or RDMA operation of the transaction.
    Step(StepKind),
    /// Retransmitted packets of such a step.
    Again(StepKind),
    /// An acknowledgement.
    Acknowledgement,
    /// A NAK.
    Nak(NakCode),
    /// An RNR NAK with its encoded timer.
    RnrNak(u8),
}

/// A byte range of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Whether the part belongs to the reply; otherwise it belongs to the call.
    pub of_reply: bool,
    /// The part.
    pub part: Part,
    /// The offset of the first byte in the part.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
}

impl Ladder {
    /// The most rungs of a ladder.
    pub const MOST_RUNGS: usize = 8192;

    /// Creates the ladder from the steps of a transaction. It is empty if the engine was not
    /// configured to keep steps.
    pub fn of(transaction: &Transaction) -> Ladder {
        let steps = transaction.exchange.as_ref().map_or(&[][..], |kept| &kept.steps);
        let sent = transaction.messages().map(|message| message.first);
        let first = sent.chain(steps.iter().map(|step| step.first)).min_by_key(|seen| seen.frame);
        let mut ladder = Ladder {
            start: first.map_or(Time::default(), |seen| seen.time),
            rungs: Vec::new(),
            left_out: transaction.exchange.as_ref().map_or(0, |kept| kept.steps_left_out),
            passes: Passes::default(),
            marked: Vec::new(),
        };
        steps.iter().for_each(|step| ladder.add(Rung::from(step)));
        ladder
    }

    /// Adds a packet that acknowledges, refuses or retransmits a step of `transaction`.
    pub fn see(&mut self, transaction: &Transaction, attributed: &Attributed<'_>) {
        let Some(kept) = &transaction.exchange else { return };
        let own = |of: StepOf| step_of(transaction, kept, of);
        let Attributed { seen, position, .. } = *attributed;
        let answer = |step: &Step, kind: RungKind| Rung {
            kind,
            from_requester: !step.from_caller,
            first: seen,
            last: seen,
            position,
            extent: 1,
            piece: None,
        };
        let acknowledges = attributed.only_acknowledges;
        match attributed.role {
            Some(Role::Repetition(of)) => {
                if let Some(step) = own(of) {
                    self.repeat(Rung::again(step, attributed));
                }
            }
            // The first transmission was lost before the capture point: the receiver sent a NAK for
            // this PSN.
            Some(Role::Part(of)) => {
                if let Some(step) = own(of)
                    && self.was_refused(step, position)
                {
                    self.repeat(Rung::again(step, attributed));
                }
            }
            Some(Role::Refusal(of)) if own(of).is_some() => {
                let syndrome = attributed.aeth.map(|aeth| aeth.syndrome.kind());
                let kind = match syndrome {
                    Some(Acknowledgement::Nak(code)) => RungKind::Nak(code),
                    Some(Acknowledgement::RnrNak { timer }) => RungKind::RnrNak(timer),
                    _ => return,
                };
                own(of).into_iter().for_each(|step| self.add(answer(step, kind)));
            }
            Some(Role::Acknowledgement(of)) if own(of).is_some() => {
                own(of).into_iter().for_each(|step| self.add(answer(step, RungKind::Acknowledgement)));
            }
            // An acknowledgement of a later step also acknowledges the steps before it.
            _ if acknowledges => {
                if let Some(step) = attributed.acknowledged.iter().copied().find_map(own) {
                    self.add(answer(step, RungKind::Acknowledgement));
                }
            }
            _ => {}
        }
    }

    /// Marks a packet, if it belongs to `transaction`.
    pub fn mark(&mut self, transaction: &Transaction, attributed: &Attributed<'_>) {
        let Some(kept) = &transaction.exchange else { return };
        let own = |of: StepOf| step_of(transaction, kept, of);
        let from_requester = match attributed.role {
            Some(Role::Part(of) | Role::Repetition(of)) => own(of).map(|step| step.from_caller),
            Some(Role::Refusal(of) | Role::Acknowledgement(of)) => own(of).map(|step| !step.from_caller),
            _ => None,
        };
        let acknowledges = || attributed.acknowledged.iter().copied().find_map(own);
        let from_requester = from_requester.or_else(|| acknowledges().map(|step| !step.from_caller));
        if let Some(from_requester) = from_requester
            && self.marked.len() < Ladder::MOST_RUNGS
        {
            let (frame, position) = (attributed.seen.frame, attributed.position);
            self.marked.push(Marked { frame, position, from_requester });
        }
    }

    /// The marked packets.
    pub fn marked(&self) -> impl Iterator<Item = u64> {
        self.marked.iter().map(|packet| packet.frame)
    }

    /// The marked packets of each rung.
    pub fn marks(&self) -> Vec<Vec<u64>> {
        let mut marks = vec![Vec::new(); self.rungs.len()];
        for packet in &self.marked {
            let holding = self.rungs.iter().enumerate().filter(|(_, rung)| rung.holds(packet));
            // The frames of a retransmission can lie within those of a long operation. The rung
            // with the fewest frames is the right one.
            let narrowest = holding.min_by_key(|(_, rung)| rung.last.frame - rung.first.frame);
            if let Some((index, _)) = narrowest {
                marks[index].push(packet.frame);
            }
        }
        marks
    }

    /// Whether one of the last rungs is a NAK or RNR NAK for this position of `step`.
    fn was_refused(&self, step: &Step, position: Position) -> bool {
        const LATELY: usize = 256;
        self.rungs.iter().rev().take(LATELY).any(|rung| {
            matches!(rung.kind, RungKind::Nak(_) | RungKind::RnrNak(_))
                && (rung.position, rung.from_requester) == (position, !step.from_caller)
        })
    }

    /// Adds a retransmission. It extends the last rung of its kind if its PSN follows that rung's.
    fn repeat(&mut self, rung: Rung) {
        let before = self.rungs.iter_mut().rfind(|other| matches!(other.kind, RungKind::Again(_)));
        match before {
            Some(other)
                if (other.kind, other.from_requester) == (rung.kind, rung.from_requester)
                    && other.kind != RungKind::Again(StepKind::ReadRequest)
                    && other.position.plus(other.extent) == rung.position =>
            {
                other.last = rung.last;
                other.extent += rung.extent;
            }
            _ => self.add(rung),
        }
    }

    /// Inserts a rung, ordered by first frame.
    fn add(&mut self, rung: Rung) {
        if self.rungs.len() >= Ladder::MOST_RUNGS {
            self.left_out += 1;
            return;
        }
        let at = self.rungs.partition_point(|other| other.first.frame <= rung.first.frame);
        self.rungs.insert(at, rung);
    }

    /// The capture time of the last packet of all rungs.
    pub fn end(&self) -> Time {
        self.rungs.iter().map(|rung| rung.last.time).max().unwrap_or(self.start)
    }
}

/// The step that `of` refers to, or `None` if it belongs to another transaction.
fn step_of<'a>(transaction: &Transaction, kept: &'a Exchange, of: StepOf) -> Option<&'a Step> {
    if of.begun == transaction.begun { kept.steps.get(of.step as usize) } else { None }
}

impl From<&Step> for Rung {
    fn from(step: &Step) -> Rung {
        Rung {
            kind: RungKind::Step(step.kind),
            from_requester: step.from_caller,
            first: step.first,
            last: step.last,
            position: step.position,
            extent: step.extent,
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
    /// A retransmitted packet of a step.
    fn again(step: &Step, attributed: &Attributed<'_>) -> Rung {
        let Attributed { seen, position, reth, .. } = *attributed;
        let mut again =
            Rung { first: seen, last: seen, position, extent: 1, piece: None, ..Rung::from(step) };
        again.kind = RungKind::Again(step.kind);
        if let (StepKind::ReadRequest, Some(reth)) = (step.kind, reth) {
            // A retransmitted RDMA Read request asks for the rest of the data, up to its end.
            let passed = u32::try_from(step.position.distance(position)).unwrap_or(0);
            let length = u64::from(reth.dma_length);
            let offset = (step.offset + step.length).saturating_sub(length);
            again.extent = step.extent.saturating_sub(passed).max(1);
            again.piece = Some(Piece { of_reply: step.of_reply, part: step.part, offset, length });
        }
        again
    }

    /// Whether a packet can belong to the rung: same sender, within its frames and its PSNs.
    fn holds(&self, packet: &Marked) -> bool {
        self.from_requester == packet.from_requester
            && (self.first.frame..=self.last.frame).contains(&packet.frame)
            && u32::try_from(self.position.distance(packet.position))
                .is_ok_and(|ahead| ahead < self.extent.max(1))
    }

    /// The name of the positions: PSN, or sequence number over TCP.
    pub fn position_name(&self) -> &'static str {
        if self.position.counts_bytes() { "sequence" } else { "PSN" }
    }

    /// The last position.
    pub fn last_position(&self) -> Position {
        self.position.plus(self.extent.saturating_sub(1))
    }

    /// The operation in the terms of the specifications.
    pub fn title<'a>(&self, transaction: &'a Transaction) -> impl Display + use<'a> {
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
        let (message, name) = match kind {
            StepKind::Call => (&self.transaction.call, "call"),
            StepKind::Reply => (&self.transaction.reply, "reply"),
            StepKind::ReadRequest => return f.write_str("RDMA Read request"),
            StepKind::ReadResponse => return f.write_str("RDMA Read response"),
            StepKind::Write => return f.write_str("RDMA Write"),
            StepKind::Done => return f.write_str("Send, RDMA_DONE"),
        };
        match message {
            Some(message) => write!(f, "Send, {} {name}", message.procedure),
            None => write!(f, "Send, {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_wire::psn::Psn;

    fn rung(kind: RungKind, from_requester: bool, frames: (u64, u64), psn: u32, extent: u32) -> Rung {
        let seen = |frame| Seen { frame, time: Time::default() };
        Rung {
            kind,
            from_requester,
            first: seen(frames.0),
            last: seen(frames.1),
            position: Psn::new(psn).into(),
            extent,
            piece: None,
        }
    }

    #[test]
    fn packets_mark_their_rung() {
        let mut ladder = Ladder::default();
        ladder.add(rung(RungKind::Step(StepKind::Write), false, (10, 20), 0xff_fffc, 10));
        // Two of its packets were retransmitted meanwhile, and the other side uses the same PSNs.
        ladder.add(rung(RungKind::Again(StepKind::Write), false, (15, 16), 0xff_fffe, 2));
        ladder.add(rung(RungKind::Step(StepKind::Call), true, (12, 17), 0xff_fffc, 10));
        let mut mark = |frame, psn, from_requester| {
            ladder.marked.push(Marked { frame, position: Psn::new(psn).into(), from_requester });
        };
        mark(13, 0xff_ffff, false);
        mark(15, 0xff_fffe, false);
        mark(17, 1, true);
        mark(19, 5, false);
        // These belong to no rung: one is after the last PSN, one after the last frame.
        mark(20, 6, false);
        mark(21, 5, false);
        // In the order of first packets: the Write, the call, the retransmission.
        assert_eq!(ladder.marks(), [vec![13, 19], vec![17], vec![15]]);
    }
}
