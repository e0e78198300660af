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
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A packet of a reliable connection.
    Packet { operation: Operation, psn: Psn, extension: Extension },
    /// A TCP segment: where its payload begins, how many bytes it has, and the last byte of the other end that it acknowledges.
    Segment { position: Position, length: u32, acknowledged: Option<Position> },
}

impl Waiting {
    /// Whose numbers it has to wait for, and up to which: all that was sent there, and with it, has to be handed up.
    fn awaited(&self) -> [Option<(End, Position)>; 2] {
        match self.what {
            What::Packet { operation, psn, .. } => {
                let numbering = if operation.is_response() { self.from.other() } else { self.from };
                [Some((numbering, psn.into())), None]
            }
            What::Segment { position, length, acknowledged } => {
                let last = length.checked_sub(1).map(|last| (self.from, position.plus(last)));
                [last, acknowledged.map(|position| (self.from.other(), position))]
            }
        }
    }
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
        self.waiting.push_back(Waiting { from, seen, what: What::Packet { operation, psn, extension } });
    }

    /// Takes a TCP segment of end `from`, which waits: where its payload begins, its length, and the last byte that it acknowledges.
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
            what: What::Segment { position, length, acknowledged },
        });
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
        is_settled: impl Fn(Seen, End, Position) -> bool,
        tell: &mut dyn FnMut(&Attributed<'_>),
    ) {
        while let Some(packet) = self.waiting.front() {
            let mut awaited = packet.awaited().into_iter().flatten();
            if self.waiting.len() <= room.packets
                && !awaited.all(|(end, position)| is_settled(packet.seen, end, position))
            {
                return;
            }
            let Some(packet) = self.waiting.pop_front() else { return };
            match packet.what {
                What::Packet { operation, psn, extension } => {
                    self.tell_of_packet(&packet, (operation, psn, extension), frame, tell);
                }
                What::Segment { position, length, acknowledged } => {
                    self.tell_of_segment(&packet, (position, length), acknowledged, frame, tell);
                }
            }
        }
    }

    fn tell_of_segment(
        &mut self,
        packet: &Waiting,
        (position, length): (Position, u32),
        acknowledged: Option<Position>,
        frame: u64,
        tell: &mut dyn FnMut(&Attributed<'_>),
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
                tell(&Attributed { position, role: Some(role), ..attributed });
                // The first of several has told what it acknowledges.
                attributed.acknowledged = &[];
                attributed.role = Some(role);
            });
        }
        if attributed.role.is_none() && (answer.is_some() && length == 0 || !self.acknowledged.is_empty()) {
            tell(&Attributed { role: answer.filter(|_| length == 0), ..attributed });
        }
    }

    fn tell_of_packet(
        &mut self,
        packet: &Waiting,
        (operation, psn, extension): (Operation, Psn, Extension),
        frame: u64,
        tell: &mut dyn FnMut(&Attributed<'_>),
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
                // What it names did not arrive; what was before it did.
                _ => (requests.covering(position, seen.frame).map(Role::Refusal), psn.minus(1)),
            };
            role = role.or(answer);
            requests.acknowledge(received.into(), seen.frame, &mut self.acknowledged);
        }
        if role.is_some() || !self.acknowledged.is_empty() {
            tell(&Attributed {
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
            // What is further off begins another life of the queue pair, or may as well.
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

    /// Where a position stands.
    fn place(&self, position: Position) -> Option<i64> {
        let (at, last) = self.last?;
        Some(at + i64::from(last.distance(position)))
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

    fn take(&mut self, position: Position, frame: u64) -> Option<Role> {
        let position = self.place(position)?;
        let index = self.find(position, frame)?;
        let entry = &mut self.entries[index];
        let offset = (position - entry.at) as u64;
        let memory = entry.seen.memory();
        // An RDMA READ request takes up the positions of its responses, and is one packet.
        let new = entry.seen.insert(offset, offset + 1) > 0 && (!entry.asks || offset == 0);
        self.bytes += entry.seen.memory() - memory;
        Some(if new { Role::Part(entry.of) } else { Role::Repetition(entry.of) })
    }

    /// Takes so many positions, and says what they are to each step that they are of: from which on.
    fn take_all(&mut self, first: Position, count: u32, frame: u64, found: &mut dyn FnMut(Position, Role)) {
        let Some(place) = self.place(first) else { return };
        let end = place + i64::from(count);
        // Steps do not overlap but where bytes were sent anew.
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

    /// Notes that all up to a position was received, and lists the steps of which that was not known before.
    fn acknowledge(&mut self, last: Position, frame: u64, steps: &mut Vec<StepOf>) {
        let Some(position) = self.place(last) else { return };
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

#[cfg(test)]
mod tests;
