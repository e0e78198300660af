//! Which transaction each packet belongs to, for those who go through a capture a second time.
//!
//! The first pass gathers the steps of all transactions. The second one asks for every packet. Memory is linear in steps, and a
//! look-up takes logarithmic time whatever the capture holds.

use crate::connection::FlowKey;
use crate::event::{Content, Packet};
use crate::exchange::{Step, StepKind};
use crate::frame::IcrcVerdict;
use crate::interval::Intervals;
use crate::rc::{self, Response};
use crate::rdma::Position;
use crate::rpcrdma::BuildHasher;
use crate::transaction::Transaction;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rdmascope_wire::bth::{Operation, Transport};
use rdmascope_wire::psn::Psn;

/// A step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepOf {
    /// [`Transaction::number`].
    pub transaction: u64,
    /// Index in [`crate::exchange::Exchange::steps`].
    pub step: u32,
}

/// What a packet is to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A packet of the step, for the first time.
    Part(StepOf),
    /// The same once more: sent again, or captured twice. So is an RDMA READ request for what is left of an earlier one.
    Repetition(StepOf),
    /// An acknowledgement whose PSN lies in the step, or behind it and in none.
    Acknowledgement(StepOf),
    /// A NAK, or RNR NAK, of the step that its PSN lies in.
    Refusal(StepOf),
    /// A CM message.
    ConnectionManagement,
    /// Nothing: of no transaction, not understood, or with an ICRC for which its receiver drops it.
    Nothing,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributed<'a> {
    /// What it is.
    pub role: Role,
    /// The steps that it is the first packet to acknowledge to their ends, in the order of their PSNs. Responses to RDMA READs
    /// acknowledge too, and a refusal does what was before it.
    pub acknowledged: &'a [StepOf],
}

/// The steps of the first pass.
#[derive(Debug, Default)]
pub struct Steps {
    /// By who sent them.
    lanes: HashMap<Lane, Vec<Entry>, BuildHasher>,
    /// For each half-flow the one that answers it, from some frame on.
    answered: HashMap<FlowKey, Vec<(u64, FlowKey)>, BuildHasher>,
}

/// Requests of a half-flow, or its responses: these carry PSNs of the other end's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lane {
    flow: FlowKey,
    responses: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Its first PSN, counted on where PSNs wrap.
    at: i64,
    position: Position,
    packets: u32,
    /// Its first packet in the capture.
    frame: u64,
    asks: bool,
    of: StepOf,
    /// Which of its packets have come by, counted from the first.
    seen: Intervals,
}

impl Steps {
    /// Adds the steps of a transaction that the engine kept them of.
    pub fn add(&mut self, transaction: &Transaction) {
        let Some(kept) = &transaction.exchange else { return };
        for (index, step) in kept.steps.iter().enumerate() {
            let Some(flow) = kept.flows[usize::from(!step.from_caller)] else { continue };
            let lane = Lane { flow, responses: step.kind == StepKind::ReadResponse };
            let of = StepOf { transaction: transaction.number, step: index as u32 };
            self.lanes.entry(lane).or_default().push(Entry::new(step, of));
        }
        if let ([Some(caller), Some(other)], Some(step)) = (kept.flows, kept.steps.first()) {
            for (from, to) in [(caller, other), (other, caller)] {
                let answered = self.answered.entry(from).or_default();
                if answered.last().is_none_or(|(_, known)| *known != to) {
                    answered.push((step.first.frame, to));
                }
            }
        }
    }

    /// All were added.
    pub fn finish(self) -> Attribution {
        let lanes = self.lanes.into_iter().map(|(lane, entries)| (lane, Timeline::new(entries)));
        let mut answered = self.answered;
        answered.values_mut().for_each(|flows| flows.sort_by_key(|(frame, _)| *frame));
        Attribution { lanes: lanes.collect(), answered, good: false }
    }
}

impl Entry {
    fn new(step: &Step, of: StepOf) -> Entry {
        Entry {
            at: 0,
            position: step.position,
            packets: step.extent,
            frame: step.first.frame,
            asks: step.kind == StepKind::ReadRequest,
            of,
            seen: Intervals::default(),
        }
    }

    fn end(&self) -> i64 {
        self.at + i64::from(self.packets)
    }
}

/// Says of the packets of a second pass, in the order of the capture, what they are.
#[derive(Debug)]
pub struct Attribution {
    lanes: HashMap<Lane, Timeline, BuildHasher>,
    answered: HashMap<FlowKey, Vec<(u64, FlowKey)>, BuildHasher>,
    /// A good ICRC was seen: bad ones are taken as such, as the engine does.
    good: bool,
}

impl Attribution {
    /// What the next packet is.
    pub fn next(&mut self, packet: &Packet<'_>) -> Attributed<'_> {
        let nothing = Attributed { role: Role::Nothing, acknowledged: &[] };
        let (Ok(frame), Some(Ok(headers)), Some(flow)) = (&packet.frame, &packet.headers, packet.flow())
        else {
            return nothing;
        };
        self.good |= frame.icrc == IcrcVerdict::Good;
        if frame.icrc == IcrcVerdict::Bad && self.good {
            return nothing;
        }
        if let Content::Cm(_) = headers.content {
            return Attributed { role: Role::ConnectionManagement, ..nothing };
        }
        let (Transport::ReliableConnection, Some(operation)) =
            (headers.bth.opcode.transport(), headers.bth.opcode.operation())
        else {
            return nothing;
        };
        let (number, psn) = (packet.record.number, headers.bth.psn);
        let role = if operation == Operation::Acknowledge {
            Role::Nothing
        } else {
            let lane = Lane { flow, responses: operation.is_response() };
            self.lanes.get_mut(&lane).map_or(Role::Nothing, |timeline| timeline.take(psn, number))
        };
        if !operation.is_response() {
            return Attributed { role, ..nothing };
        }
        let Some(asker) = self.asker(flow, number) else { return Attributed { role, ..nothing } };
        let lane = Lane { flow: asker, responses: false };
        let Some(timeline) = self.lanes.get_mut(&lane) else { return Attributed { role, ..nothing } };
        let (answer, acknowledged) = match rc::response(headers.extensions.aeth) {
            Response::Acknowledged => (timeline.at_or_before(psn, number).map(Role::Acknowledgement), psn),
            // What it names did not arrive; what was before it did.
            _ => (timeline.covering(psn, number).map(Role::Refusal), psn.minus(1)),
        };
        let role = if role == Role::Nothing { answer.unwrap_or(role) } else { role };
        Attributed { role, acknowledged: timeline.acknowledge(acknowledged, number) }
    }

    /// The half-flow whose requests one answers.
    fn asker(&self, flow: FlowKey, frame: u64) -> Option<FlowKey> {
        let flows = self.answered.get(&flow)?;
        let index = flows.partition_point(|(from, _)| *from <= frame).saturating_sub(1);
        flows.get(index).map(|(_, asker)| *asker)
    }
}

/// Steps in the order of their PSNs.
#[derive(Debug)]
struct Timeline {
    entries: Vec<Entry>,
    /// What each is, in the same order.
    steps: Vec<StepOf>,
    /// From which frame on which PSN stands where: near enough to each other that PSNs do not wrap in between.
    marks: Vec<(u64, i64, Position)>,
    /// How many were acknowledged.
    acknowledged: usize,
}

impl Timeline {
    /// A step that is further off than this from the one before it begins another life of the queue pair, or may as well.
    const WINDOW: i32 = 1 << 16;
    /// How many PSNs a mark is good for.
    const STRIDE: i64 = 1 << 20;
    /// Steps looked at that cover the same PSN: there is one, unless a capture is made to confuse.
    const MOST: usize = 8;

    fn new(mut entries: Vec<Entry>) -> Timeline {
        entries.sort_by_key(|entry| entry.frame);
        let mut marks: Vec<(u64, i64, Position)> = Vec::new();
        let (mut last, mut highest) = (None, 0);
        for entry in &mut entries {
            let step = last.map(|(at, position): (i64, Position)| (at, position.distance(entry.position)));
            let (at, begins) = match step {
                Some((at, ahead)) if ahead.abs() <= Timeline::WINDOW => (at + i64::from(ahead), false),
                _ => (highest + i64::from(Psn::MODULUS), true),
            };
            if begins || marks.last().is_some_and(|mark| at - mark.1 > Timeline::STRIDE) {
                marks.push((entry.frame, at, entry.position));
            }
            entry.at = at;
            last = Some((at, entry.position));
            highest = highest.max(entry.end());
        }
        entries.sort_by_key(|entry| entry.at);
        let steps = entries.iter().map(|entry| entry.of).collect();
        Timeline { entries, steps, marks, acknowledged: 0 }
    }

    /// Where a PSN stands that came by at this frame.
    fn position(&self, psn: Psn, frame: u64) -> Option<i64> {
        let index = self.marks.partition_point(|mark| mark.0 <= frame).saturating_sub(1);
        let (_, at, marked) = self.marks.get(index)?;
        Some(at + i64::from(marked.distance(psn.into())))
    }

    /// The step that covers a position; where several do, the one that began last before this frame.
    fn find(&self, position: i64, frame: u64) -> Option<usize> {
        let end = self.entries.partition_point(|entry| entry.at <= position);
        let range = end.saturating_sub(Timeline::MOST)..end;
        let covering = range.filter(|index| self.entries[*index].end() > position);
        covering.max_by_key(|index| {
            let from = self.entries[*index].frame;
            (from <= frame, if from <= frame { from } else { u64::MAX - from })
        })
    }

    fn take(&mut self, psn: Psn, frame: u64) -> Role {
        let Some(position) = self.position(psn, frame) else { return Role::Nothing };
        let Some(index) = self.find(position, frame) else { return Role::Nothing };
        let entry = &mut self.entries[index];
        let offset = (position - entry.at) as u64;
        // An RDMA READ request takes up the PSNs of its responses, and is one packet.
        let new = entry.seen.insert(offset, offset + 1) > 0 && (!entry.asks || offset == 0);
        if new { Role::Part(entry.of) } else { Role::Repetition(entry.of) }
    }

    fn covering(&self, psn: Psn, frame: u64) -> Option<StepOf> {
        let index = self.find(self.position(psn, frame)?, frame)?;
        Some(self.entries[index].of)
    }

    fn at_or_before(&self, psn: Psn, frame: u64) -> Option<StepOf> {
        let position = self.position(psn, frame)?;
        let index = self.find(position, frame).or_else(|| {
            let before = self.entries.partition_point(|entry| entry.at <= position).checked_sub(1)?;
            let near = position - self.entries[before].at <= i64::from(Timeline::WINDOW);
            near.then_some(before)
        })?;
        Some(self.entries[index].of)
    }

    /// Notes that all up to a PSN was received; returns the steps of which that was not known before.
    fn acknowledge(&mut self, psn: Psn, frame: u64) -> &[StepOf] {
        let Some(position) = self.position(psn, frame) else { return &[] };
        let from = self.acknowledged;
        // What is not sent yet is not acknowledged, and who acknowledges the front of a step does not do so for its end.
        let waiting = self.entries[from..].iter();
        let count = waiting.take_while(|entry| entry.end() <= position + 1 && entry.frame <= frame).count();
        self.acknowledged += count;
        &self.steps[from..from + count]
    }
}
