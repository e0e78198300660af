//! Finds the role of each packet of a connection: the transaction and the step that it belongs to,
//! in a single pass.
//!
//! A Send or an RDMA operation becomes a step of a transaction when the transport has delivered it
//! and RPC-over-RDMA has found the transaction. Its packets may come earlier: the first packets of
//! a Send precede its last, and packets after a gap wait. So packets wait here too, in capture
//! order, until the transport has delivered everything before their positions.

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

/// The steps of a connection that are open or ended recently, and the packets that wait for theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attribution {
    /// By sender: its requests, and its responses, which carry PSNs of the other end.
    lanes: [[Lane; 2]; 2],
    waiting: VecDeque<Waiting>,
    /// The steps that the last packet acknowledged.
    acknowledged: Vec<StepOf>,
    /// Bytes of memory in use, as of the last count.
    pub(crate) counted: usize,
}

/// A packet whose role is not yet reported.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    from: End,
    seen: Seen,
    kind: WaitingKind,
}

#[derive(Clone, Copy, Debug)]
enum WaitingKind {
    /// A packet of a reliable connection.
    Packet { operation: Operation, psn: Psn, extension: Extension },
    /// A TCP segment: the position of its payload, the length of its payload, and the last byte of
    /// the other end that it acknowledges.
    Segment { position: Position, length: u32, acknowledged: Option<Position> },
}

impl Waiting {
    /// The positions that must be delivered before the role of this packet is known, each with the
    /// end that numbers them.
    fn awaited(&self) -> [Option<(End, Position)>; 2] {
        match self.kind {
            WaitingKind::Packet { operation, psn, .. } => {
                let numbering = if operation.is_response() { self.from.other() } else { self.from };
                [Some((numbering, psn.into())), None]
            }
            WaitingKind::Segment { position, length, acknowledged } => {
                let last = length.checked_sub(1).map(|last| (self.from, position.plus(last)));
                [last, acknowledged.map(|position| (self.from.other(), position))]
            }
        }
    }
}

/// The memory limits of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Steps of one end.
    pub(crate) steps: usize,
    /// Waiting packets.
    pub(crate) packets: usize,
}

impl Room {
    /// Limits while all connections together use little memory.
    pub(crate) const AMPLE: Room = Room { steps: 4096, packets: 1024 };
    /// Limits while they use much memory.
    pub(crate) const SCARCE: Room = Room { steps: 32, packets: 32 };
}

impl Attribution {
    /// Adds a packet of end `from` to the waiting packets.
    pub(crate) fn take(&mut self, from: End, packet: &Packet<'_>) {
        let Packet { seen, operation, psn, extension, .. } = *packet;
        self.waiting.push_back(Waiting {
            from,
            seen,
            kind: WaitingKind::Packet { operation, psn, extension },
        });
    }

    /// Adds a TCP segment of end `from` to the waiting packets: the position and length of its
    /// payload, and the last byte that it acknowledges.
    pub(crate) fn take_segment(
        &mut self,
        from: End,
        seen: Seen,
        (position, length): (Position, u32),
        acknowledged: Option<Position>,
    ) {
        self.waiting.push_back(Waiting {
            from,
            seen,
            kind: WaitingKind::Segment { position, length, acknowledged },
        });
    }

    /// Adds a step that has become known, or updates one that grew.
    pub(crate) fn note(&mut self, step: &NotedStep, room: Room) {
        self.lanes[step.from][usize::from(step.is_response)].note(step, room.steps);
    }

    /// Reports, in capture order, the packets whose role is final. `is_settled` returns whether
    /// everything captured up to a packet and sent up to a position was delivered. `frame` is the
    /// current record.
    pub(crate) fn report(
        &mut self,
        frame: u64,
        room: Room,
        is_settled: impl Fn(Seen, End, Position) -> bool,
        report: &mut dyn FnMut(&Attributed<'_>),
    ) {
        while let Some(packet) = self.waiting.front() {
            let mut awaited = packet.awaited().into_iter().flatten();
            if self.waiting.len() <= room.packets
                && !awaited.all(|(end, position)| is_settled(packet.seen, end, position))
            {
                return;
            }
            let Some(packet) = self.waiting.pop_front() else { return };
            match packet.kind {
                WaitingKind::Packet { operation, psn, extension } => {
                    self.report_packet(&packet, (operation, psn, extension), frame, report);
                }
                WaitingKind::Segment { position, length, acknowledged } => {
                    self.report_segment(&packet, (position, length), acknowledged, frame, report);
                }
            }
        }
    }

    fn report_segment(
        &mut self,
        packet: &Waiting,
        (position, length): (Position, u32),
        acknowledged: Option<Position>,
        frame: u64,
        report: &mut dyn FnMut(&Attributed<'_>),
    ) {
        let Waiting { from, seen, .. } = *packet;
        self.acknowledged.clear();
        let mut answer = None;
        if let Some(last) = acknowledged {
            for lane in &mut self.lanes[from.other()] {
                lane.acknowledge(last, seen.frame, &mut self.acknowledged);
            }
            let requests = &self.lanes[from.other()][0];
            answer = requests.at_or_before(last, seen.frame).map(Role::Acknowledgement);
        }
        let mut attributed = Attributed {
            seen,
            late: seen.frame != frame,
            only_acknowledges: length == 0,
            position,
            reth: None,
            aeth: None,
            role: None,
            acknowledged: &self.acknowledged,
        };
        for lane in &mut self.lanes[from] {
            lane.take_all(position, length, seen.frame, &mut |position, role| {
                report(&Attributed { position, role: Some(role), ..attributed });
                // Only the first of several reports lists the acknowledged steps.
                attributed.acknowledged = &[];
                attributed.role = Some(role);
            });
        }
        if attributed.role.is_none() && (answer.is_some() && length == 0 || !self.acknowledged.is_empty()) {
            report(&Attributed { role: answer.filter(|_| length == 0), ..attributed });
        }
    }

    fn report_packet(
        &mut self,
        packet: &Waiting,
        (operation, psn, extension): (Operation, Psn, Extension),
        frame: u64,
        report: &mut dyn FnMut(&Attributed<'_>),
    ) {
        let Waiting { from, seen, .. } = *packet;
        let position = Position::from(psn);
        let is_response = operation.is_response();
        let mut role = match operation {
            Operation::Acknowledge => None,
            _ => self.lanes[from][usize::from(is_response)].take(position, seen.frame),
        };
        self.acknowledged.clear();
        if is_response {
            let requests = &mut self.lanes[from.other()][0];
            let (answer, received) = match rc::response(extension.aeth()) {
                Response::Acknowledged => {
                    (requests.at_or_before(position, seen.frame).map(Role::Acknowledgement), psn)
                }
                // The packet that a NAK names did not arrive; the packets before it did.
                _ => (requests.covering(position, seen.frame).map(Role::Refusal), psn.minus(1)),
            };
            role = role.or(answer);
            requests.acknowledge(received.into(), seen.frame, &mut self.acknowledged);
        }
        if role.is_some() || !self.acknowledged.is_empty() {
            report(&Attributed {
                seen,
                late: seen.frame != frame,
                only_acknowledges: operation == Operation::Acknowledge,
                position,
                reth: extension.reth(),
                aeth: extension.aeth(),
                role,
                acknowledged: &self.acknowledged,
            });
        }
    }

    /// Takes over the state of end `from` of another connection as the state of `end`.
    pub(crate) fn join(&mut self, end: End, mut other: Attribution, from: End) {
        self.lanes[end] = core::mem::take(&mut other.lanes[from]);
        let same_end =
            |packet: &mut Waiting| packet.from = if packet.from == from { end } else { end.other() };
        other.waiting.iter_mut().for_each(same_end);
        self.waiting.append(&mut other.waiting);
        self.counted += other.counted;
        self.waiting.make_contiguous().sort_by_key(|packet| packet.seen.frame);
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(crate) fn footprint(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.bytes).sum::<usize>()
            + self.waiting.len() * size_of::<Waiting>()
    }
}

/// The latest requests or responses of one end, as steps in the order of their positions.
#[derive(Clone, Debug, Default)]
struct Lane {
    entries: VecDeque<Entry>,
    /// The step noted last: its unwrapped position and its position.
    last: Option<(i64, Position)>,
    /// All entries before this index were acknowledged.
    acknowledged: usize,
    /// Bytes of memory that the entries use.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Its first position, unwrapped.
    at: i64,
    extent: u32,
    /// Its first packet in the capture.
    frame: u64,
    is_read_request: bool,
    is_acknowledged: bool,
    of: StepOf,
    /// The packets seen, by index from the first.
    seen: Intervals,
}

impl Entry {
    fn end(&self) -> i64 {
        self.at + i64::from(self.extent)
    }
}

impl Lane {
    /// Maximum number of steps examined for one position. Normally only one step covers a position.
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
            // A larger distance may mean that the queue pair was reused.
            Some((at, ahead)) if ahead.abs() <= step.position.window() => at + i64::from(ahead),
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
                is_read_request: step.is_read_request,
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

    /// The unwrapped value of a position.
    fn place(&self, position: Position) -> Option<i64> {
        let (at, last) = self.last?;
        Some(at + i64::from(last.distance(position)))
    }

    /// Finds the step that covers a position. If several do, finds the one that began last before
    /// this frame.
    fn find(&self, position: i64, frame: u64) -> Option<usize> {
        let end = self.entries.partition_point(|entry| entry.at <= position);
        let range = end.saturating_sub(Lane::MOST)..end;
        let covering = range.filter(|index| self.entries[*index].end() > position);
        covering.max_by_key(|index| {
            let from = self.entries[*index].frame;
            (from <= frame, if from <= frame { from } else { u64::MAX - from })
        })
    }

    fn take(&mut self, position: Position, frame: u64) -> Option<Role> {
        let position = self.place(position)?;
        let index = self.find(position, frame)?;
        let entry = &mut self.entries[index];
        let offset = (position - entry.at) as u64;
        let memory = entry.seen.memory();
        // An RDMA Read request is one packet, but its extent also covers the PSNs of its responses.
        let new = entry.seen.insert(offset, offset + 1) > 0 && (!entry.is_read_request || offset == 0);
        self.bytes += entry.seen.memory() - memory;
        Some(if new { Role::Part(entry.of) } else { Role::Repetition(entry.of) })
    }

    /// Enters `count` positions and reports the role of the range in each step that it overlaps,
    /// with the first position of the overlap.
    fn take_all(&mut self, first: Position, count: u32, frame: u64, found: &mut dyn FnMut(Position, Role)) {
        let Some(place) = self.place(first) else { return };
        let end = place + i64::from(count);
        // Steps overlap only where bytes were retransmitted.
        let from = self.entries.partition_point(|entry| entry.end() <= place);
        let memory = &mut self.bytes;
        for entry in self.entries.iter_mut().skip(from).take_while(|entry| entry.at < end) {
            let (begins, ends) = (place.max(entry.at), end.min(entry.end()));
            if entry.frame > frame || begins >= ends {
                continue;
            }
            let before = entry.seen.memory();
            let offset = (begins - entry.at) as u64;
            let new = entry.seen.insert(offset, (ends - entry.at) as u64) > 0;
            *memory += entry.seen.memory() - before;
            let role = if new { Role::Part(entry.of) } else { Role::Repetition(entry.of) };
            found(first.plus((begins - place) as u32), role);
        }
    }

    fn covering(&self, position: Position, frame: u64) -> Option<StepOf> {
        let index = self.find(self.place(position)?, frame)?;
        Some(self.entries[index].of)
    }

    fn at_or_before(&self, last: Position, frame: u64) -> Option<StepOf> {
        let position = self.place(last)?;
        let index = self.find(position, frame).or_else(|| {
            let before = self.entries.partition_point(|entry| entry.at <= position).checked_sub(1)?;
            let near = position - self.entries[before].at <= i64::from(last.window());
            near.then_some(before)
        })?;
        Some(self.entries[index].of)
    }

    /// Marks everything up to a position as received, and lists the steps that this completes.
    fn acknowledge(&mut self, last: Position, frame: u64, steps: &mut Vec<StepOf>) {
        let Some(position) = self.place(last) else { return };
        while let Some(entry) = self.entries.get_mut(self.acknowledged) {
            if !entry.is_acknowledged {
                // A packet cannot acknowledge a step that is sent later, nor a whole step by
                // acknowledging its front.
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

#[cfg(test)]
mod tests;
