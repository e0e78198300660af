//! What each packet of a connection is to which step of which transaction, in the one pass.
//!
//! A Send or an RDMA operation becomes a step of a transaction when the transport has handed it up and RPC-over-RDMA has found the
//! transaction. That may be later than its packets: the first packets of a Send come before its last, and what follows a gap waits. So packets
//! wait here too, in the order of the capture, until what is before their positions was handed up.

use crate::interval::Intervals;
use crate::rc::{self, Extension, Packet, Response};
use crate::rdma::{End, Position};
use crate::record::Seen;
use crate::role::{Attributed, Role, StepOf};
use crate::rpcrdma::NotedStep;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_wire::bth::Operation;
use rdmascope_wire::psn::Psn;

/// The steps of a connection that ended lately or have not ended, and the packets that wait until theirs are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attribution {
    /// By the end that sent them: its requests, and its responses, which carry PSNs of the other end's numbering.
    lanes: [[Lane; 2]; 2],
    waiting: VecDeque<Waiting>,
    /// What the last packet acknowledged.
    acknowledged: Vec<StepOf>,
    /// Bytes of memory that it takes up, as last counted.
    pub(crate) counted: usize,
}

/// A packet that was not told of yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    from: End,
    seen: Seen,
    operation: Operation,
    psn: Psn,
    extension: Extension,
}

/// How much is remembered of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Steps that one end sent.
    pub(crate) steps: usize,
    /// Packets that wait.
    pub(crate) packets: usize,
}

impl Room {
    /// As long as all connections together remember little.
    pub(crate) const AMPLE: Room = Room { steps: 4096, packets: 1024 };
    /// Where they remember much.
    pub(crate) const SCARCE: Room = Room { steps: 32, packets: 32 };
}

impl Attribution {
    /// Takes a packet of end `from`, which waits.
    pub(crate) fn take(&mut self, from: End, packet: &Packet<'_>) {
        let Packet { seen, operation, psn, extension, .. } = *packet;
        self.waiting.push_back(Waiting { from, seen, operation, psn, extension });
    }

    /// Takes a step that has become known, or that grew.
    pub(crate) fn note(&mut self, step: &NotedStep, room: Room) {
        self.lanes[step.from][usize::from(step.is_response)].note(step, room.steps);
    }

    /// Tells of the packets of which it is clear by now what they are, in the order of the capture. `is_settled` says whether all that came up
    /// to a packet and was sent before a PSN, and with it, was handed up; `frame` is the record that is being handled.
    pub(crate) fn tell(
        &mut self,
        frame: u64,
        room: Room,
        is_settled: impl Fn(Seen, End, Psn) -> bool,
        tell: &mut impl FnMut(&Attributed<'_>),
    ) {
        while let Some(packet) = self.waiting.front() {
            let numbering = if packet.operation.is_response() { packet.from.other() } else { packet.from };
            if self.waiting.len() <= room.packets && !is_settled(packet.seen, numbering, packet.psn) {
                return;
            }
            let Some(packet) = self.waiting.pop_front() else { return };
            self.tell_of(&packet, frame, tell);
        }
    }

    fn tell_of(&mut self, packet: &Waiting, frame: u64, tell: &mut impl FnMut(&Attributed<'_>)) {
        let Waiting { from, seen, operation, psn, extension } = *packet;
        let is_response = operation.is_response();
        let mut role = match operation {
            Operation::Acknowledge => None,
            _ => self.lanes[from][usize::from(is_response)].take(psn, seen.frame),
        };
        self.acknowledged.clear();
        if is_response {
            let requests = &mut self.lanes[from.other()][0];
            let (answer, received) = match rc::response(extension.aeth()) {
                Response::Acknowledged => {
                    (requests.at_or_before(psn, seen.frame).map(Role::Acknowledgement), psn)
                }
                // What it names did not arrive; what was before it did.
                _ => (requests.covering(psn, seen.frame).map(Role::Refusal), psn.minus(1)),
            };
            role = role.or(answer);
            requests.acknowledge(received, seen.frame, &mut self.acknowledged);
        }
        if role.is_some() || !self.acknowledged.is_empty() {
            tell(&Attributed {
                seen,
                late: seen.frame != frame,
                operation,
                position: psn.into(),
                reth: extension.reth(),
                aeth: extension.aeth(),
                role,
                acknowledged: &self.acknowledged,
            });
        }
    }

    /// Takes over what end `from` of another connection sent as what `end` does.
    pub(crate) fn join(&mut self, end: End, mut other: Attribution, from: End) {
        self.lanes[end] = core::mem::take(&mut other.lanes[from]);
        let same_end =
            |packet: &mut Waiting| packet.from = if packet.from == from { end } else { end.other() };
        other.waiting.iter_mut().for_each(same_end);
        self.waiting.append(&mut other.waiting);
        self.counted += other.counted;
        self.waiting.make_contiguous().sort_by_key(|packet| packet.seen.frame);
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(crate) fn footprint(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.bytes).sum::<usize>()
            + self.waiting.len() * size_of::<Waiting>()
    }
}

/// What one end sent last: its requests, or its responses. Steps in the order of their positions.
#[derive(Clone, Debug, Default)]
struct Lane {
    entries: VecDeque<Entry>,
    /// The step noted last: where it stands, and its position.
    last: Option<(i64, Position)>,
    /// All entries before this one were acknowledged.
    acknowledged: usize,
    /// Bytes of memory that the entries take up.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Its first position, counted on where positions wrap.
    at: i64,
    extent: u32,
    /// Its first packet in the capture.
    frame: u64,
    asks: bool,
    is_acknowledged: bool,
    of: StepOf,
    /// Which of its packets have come by, counted from the first.
    seen: Intervals,
}

impl Entry {
    fn end(&self) -> i64 {
        self.at + i64::from(self.extent)
    }
}

impl Lane {
    /// A step that is further off than this from the one before it begins another life of the queue pair, or may as well.
    const WINDOW: i32 = 1 << 16;
    /// Steps looked at that cover the same position: there is one, unless a capture is made to confuse.
    const MOST: usize = 8;

    fn note(&mut self, step: &NotedStep, most: usize) {
        let of = step.of;
        if !step.is_new {
            if let Some(entry) = self.entries.iter_mut().rev().find(|entry| entry.of == of) {
                (entry.extent, entry.frame) = (step.extent, step.frame);
            }
            return;
        }
        let ahead = self.last.map(|(at, position)| (at, position.distance(step.position)));
        let at = match ahead {
            Some((at, ahead)) if ahead.abs() <= Lane::WINDOW => at + i64::from(ahead),
            _ => {
                *self = Lane::default();
                0
            }
        };
        self.last = Some((at, step.position));
        let index = self.entries.partition_point(|entry| entry.at <= at);
        self.acknowledged = self.acknowledged.min(index);
        self.bytes += size_of::<Entry>();
        self.entries.insert(
            index,
            Entry {
                at,
                extent: step.extent,
                frame: step.frame,
                asks: step.asks,
                is_acknowledged: false,
                of,
                seen: Intervals::default(),
            },
        );
        while self.entries.len() > most {
            let gone = self.entries.pop_front();
            self.bytes -= size_of::<Entry>() + gone.map_or(0, |gone| gone.seen.memory());
            self.acknowledged = self.acknowledged.saturating_sub(1);
        }
    }

    /// Where a PSN stands.
    fn position(&self, psn: Psn) -> Option<i64> {
        let (at, position) = self.last?;
        Some(at + i64::from(position.distance(psn.into())))
    }

    /// The step that covers a position; where several do, the one that began last before this frame.
    fn find(&self, position: i64, frame: u64) -> Option<usize> {
        let end = self.entries.partition_point(|entry| entry.at <= position);
        let range = end.saturating_sub(Lane::MOST)..end;
        let covering = range.filter(|index| self.entries[*index].end() > position);
        covering.max_by_key(|index| {
            let from = self.entries[*index].frame;
            (from <= frame, if from <= frame { from } else { u64::MAX - from })
        })
    }

    fn take(&mut self, psn: Psn, frame: u64) -> Option<Role> {
        let position = self.position(psn)?;
        let index = self.find(position, frame)?;
        let entry = &mut self.entries[index];
        let offset = (position - entry.at) as u64;
        let memory = entry.seen.memory();
        // An RDMA READ request takes up the positions of its responses, and is one packet.
        let new = entry.seen.insert(offset, offset + 1) > 0 && (!entry.asks || offset == 0);
        self.bytes += entry.seen.memory() - memory;
        Some(if new { Role::Part(entry.of) } else { Role::Repetition(entry.of) })
    }

    fn covering(&self, psn: Psn, frame: u64) -> Option<StepOf> {
        let index = self.find(self.position(psn)?, frame)?;
        Some(self.entries[index].of)
    }

    fn at_or_before(&self, psn: Psn, frame: u64) -> Option<StepOf> {
        let position = self.position(psn)?;
        let index = self.find(position, frame).or_else(|| {
            let before = self.entries.partition_point(|entry| entry.at <= position).checked_sub(1)?;
            let near = position - self.entries[before].at <= i64::from(Lane::WINDOW);
            near.then_some(before)
        })?;
        Some(self.entries[index].of)
    }

    /// Notes that all up to a PSN was received, and lists the steps of which that was not known before.
    fn acknowledge(&mut self, psn: Psn, frame: u64, steps: &mut Vec<StepOf>) {
        let Some(position) = self.position(psn) else { return };
        while let Some(entry) = self.entries.get_mut(self.acknowledged) {
            if !entry.is_acknowledged {
                // What is not sent yet is not acknowledged, and who acknowledges the front of a step does not do so for its end.
                if entry.end() > position + 1 || entry.frame > frame {
                    return;
                }
                entry.is_acknowledged = true;
                steps.push(entry.of);
            }
            self.acknowledged += 1;
        }
    }
}
