//! Optional contents of an open transaction: its steps and bytes.

use super::memory::Target;
use super::open::{Open, chunk_range};
use super::{Slot, Transactions, find};
use crate::connection::FlowKey;
use crate::event::{Event, Eviction, Report};
use crate::exchange::{Content, Exchange, Keep, Step, StepKind};
use crate::interval::Intervals;
use crate::rdma::{End, Placement, Position, ReadRequest, Send};
use crate::role::StepOf;
use crate::roomy::Roomy;
use crate::transaction::{Part, Placed};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A step that is new or has changed, for the attribution of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotedStep {
    /// Identifies the step.
    pub of: StepOf,
    /// The end that sent it.
    pub from: End,
    /// Whether it is the response to an RDMA Read request. Its positions are then those of the
    /// other end.
    pub is_response: bool,
    /// Whether it is an RDMA Read request.
    pub is_read_request: bool,
    /// Its first position.
    pub position: Position,
    /// Its extent in positions.
    pub extent: u32,
    /// Its first packet in the capture.
    pub frame: u64,
    /// Whether it is new.
    pub is_new: bool,
}

/// The optional contents of an open transaction.
#[derive(Clone, Debug)]
pub(super) struct Transcript {
    keep: Keep,
    steps: Roomy<Vec<Step>>,
    steps_left_out: u64,
    /// Steps that are new or have changed since they were last taken, and whether they are new.
    changed: Vec<(u32, bool)>,
    /// The Sends of call and reply.
    sends: [Option<Vec<u8>>; 2],
    /// The chunks, with space for all of their segments. The key has whether the reply advertised
    /// them.
    chunks: BTreeMap<(bool, Part), Gathered>,
    /// Bytes of Sends and chunks.
    bytes: usize,
    /// Bytes of memory used by the lists.
    lists: usize,
}

/// The captured bytes of a chunk.
#[derive(Clone, Debug, Default)]
struct Gathered {
    bytes: Vec<u8>,
    captured: Intervals,
}

/// The budget does not allow more bytes of this part.
struct Full(Part);

impl Transactions {
    /// Keeps a Send of a transaction.
    #[inline]
    pub(super) fn keep_send(&mut self, slot: Slot, kind: StepKind, send: &Send<'_>, report: &mut Report<'_>) {
        if self.keep != Keep::default() {
            self.keep_more(slot, report, |transcript, _, budget| transcript.take_send(kind, send, budget));
        }
    }

    /// Keeps an RDMA READ request for the memory of a transaction.
    #[cold]
    pub(super) fn keep_read(&mut self, target: Target, request: &ReadRequest) {
        self.keep_more(target.slot, &mut |_| {}, |transcript, open, _| {
            let placed = &open.segments[target.segment as usize];
            let ReadRequest { seen, position, extent, memory, .. } = *request;
            let offset = placed.base + memory.address.wrapping_sub(placed.segment.offset);
            transcript.note(Step {
                kind: StepKind::ReadRequest,
                // A chunk advertised by the call is in the caller's memory, and the other end reads
                // it.
                from_caller: placed.of_reply,
                first: seen,
                last: seen,
                position,
                extent: extent.unwrap_or(1),
                of_reply: is_of_reply(placed.of_reply, placed.part),
                part: placed.part,
                offset,
                length: memory.length.into(),
            });
            Ok(())
        });
    }

    /// Keeps bytes written to or read from the memory of a transaction.
    #[cold]
    pub(super) fn keep_placement(
        &mut self,
        target: Target,
        placement: &Placement<'_>,
        reading: bool,
        report: &mut Report<'_>,
    ) {
        let (kept, growth) = (self.kept, self.growth);
        self.keep_more(target.slot, report, |transcript, open, budget| {
            let placed = &open.segments[target.segment as usize];
            transcript.take_placement(placed, placement, reading, budget.min(growth))
        });
        self.growth -= self.kept - kept;
    }

    /// Changes the contents of a transaction and updates the memory counters.
    #[cold]
    fn keep_more(
        &mut self,
        slot: Slot,
        report: &mut Report<'_>,
        more: impl FnOnce(&mut Transcript, &Open, usize) -> Result<(), Full>,
    ) {
        let budget = Exchange::MOST_CONTENTS.saturating_sub(self.kept);
        let Transactions { slots, noted, attributes, .. } = self;
        let Some(open) = find(slots, slot) else { return };
        let Some(mut transcript) = open.transcript.take() else { return };
        let (bytes, lists) = (transcript.bytes, transcript.lists);
        let outcome = more(&mut transcript, open, budget);
        let (bytes, lists) = (transcript.bytes - bytes, transcript.lists - lists);
        for (index, is_new) in transcript.changed.drain(..) {
            let step = &transcript.steps[index as usize];
            if *attributes {
                noted.push(NotedStep {
                    of: StepOf { begun: open.transaction.begun, step: index },
                    from: if step.from_caller { open.caller } else { open.caller.other() },
                    is_response: step.kind == StepKind::ReadResponse,
                    is_read_request: step.kind == StepKind::ReadRequest,
                    position: step.position,
                    extent: step.extent,
                    frame: step.first.frame,
                    is_new,
                });
            }
        }
        open.transcript = Some(transcript);
        open.scattered += lists;
        open.weight += lists;
        let xid = open.transaction.xid;
        self.weight += lists;
        self.kept += bytes;
        if let Err(Full(part)) = outcome {
            report(Event::Eviction(Eviction::Gathered { xid, part }));
        }
    }
}

impl Transcript {
    /// Creates the contents for `keep`; `None` if it requests nothing.
    #[inline]
    pub(super) fn new(keep: Keep) -> Option<Box<Transcript>> {
        (keep != Keep::default()).then(|| {
            Box::new(Transcript {
                keep,
                steps: Roomy::default(),
                steps_left_out: 0,
                changed: Vec::new(),
                sends: [None, None],
                chunks: BTreeMap::new(),
                bytes: 0,
                lists: 0,
            })
        })
    }

    fn take_send(&mut self, kind: StepKind, send: &Send<'_>, budget: usize) -> Result<(), Full> {
        // If packets were reordered, the first of the Send need not come first in the capture.
        let in_order = send.first.frame <= send.seen.frame;
        let (first, last) = if in_order { (send.first, send.seen) } else { (send.seen, send.first) };
        let of_reply = kind != StepKind::Call;
        self.note(Step {
            kind,
            from_caller: kind != StepKind::Reply,
            first,
            last,
            position: send.position,
            extent: send.extent,
            of_reply,
            part: Part::Send,
            offset: 0,
            length: send.length.unwrap_or(send.bytes.len() as u32).into(),
        });
        if !self.keep.contents || kind == StepKind::Done {
            return Ok(());
        }
        if send.bytes.len() > budget {
            return Err(Full(Part::Send));
        }
        self.bytes += send.bytes.len();
        self.sends[usize::from(of_reply)] = Some(send.bytes.to_vec());
        Ok(())
    }

    fn take_placement(
        &mut self,
        placed: &Placed,
        placement: &Placement<'_>,
        reading: bool,
        budget: usize,
    ) -> Result<(), Full> {
        let start = placement.address.wrapping_sub(placed.segment.offset);
        let start = placed.base.saturating_add(start);
        self.note_placement(placed, placement, reading, start);
        if !self.keep.contents {
            return Ok(());
        }
        let room = (placed.base + u64::from(placed.segment.length)).saturating_sub(start);
        let bytes =
            &placement.bytes[..placement.bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let end = start + bytes.len() as u64;
        if end > Exchange::LONGEST_CONTENT {
            return Err(Full(placed.part));
        }
        let (start, end) = (start as usize, end as usize);
        let lists = &mut self.lists;
        let gathered = self.chunks.entry((placed.of_reply, placed.part)).or_insert_with(|| {
            *lists += size_of::<((bool, Part), Gathered)>();
            Gathered::default()
        });
        let grow = end.saturating_sub(gathered.bytes.len());
        if grow > budget {
            return Err(Full(placed.part));
        }
        let list = gathered.captured.memory();
        if gathered.captured.insert(start as u64, end as u64) > 0 {
            self.bytes += grow;
            gathered.bytes.resize(gathered.bytes.len() + grow, 0);
            gathered.bytes[start..end].copy_from_slice(bytes);
        }
        *lists += gathered.captured.memory() - list;
        Ok(())
    }

    /// Adds a placement to its RDMA operation, or notes a new operation.
    fn note_placement(&mut self, placed: &Placed, placement: &Placement<'_>, reading: bool, start: u64) {
        let Placement { seen, position, first, request, memory, address, length, .. } = *placement;
        let kind = if reading { StepKind::ReadResponse } else { StepKind::Write };
        // If the numbers count bytes, its extent is its length.
        let own = if first.counts_bytes() { length.max(1) } else { 1 };
        let covered = first.distance(position).unsigned_abs() + own;
        let known = if reading && !first.counts_bytes() { position } else { first };
        if let Some(index) = self.step(kind, known) {
            let step = &mut self.steps[index];
            let before = (step.extent, step.first);
            step.extent = step.extent.max(step.position.distance(position).unsigned_abs() + own);
            step.first = if seen.frame < step.first.frame { seen } else { step.first };
            step.last = if seen.frame > step.last.frame { seen } else { step.last };
            if (step.extent, step.first) != before {
                self.changed.push((index as u32, false));
            }
            return;
        }
        let moved = address.wrapping_sub(memory.address);
        // Every packet but the last is as long as the path MTU.
        let is_last = moved.saturating_add(length.into()) >= memory.length.into();
        let extent = if is_last || first.counts_bytes() {
            covered
        } else {
            memory.length.div_ceil(length.max(1)).max(covered)
        };
        if reading
            && !first.counts_bytes()
            && let Some(index) = request.and_then(|request| self.step(StepKind::ReadRequest, request))
        {
            // Without a path MTU, the extent of the request was unknown until now.
            let request = &mut self.steps[index];
            if extent > request.extent {
                request.extent = extent;
                self.changed.push((index as u32, false));
            }
        }
        self.note(Step {
            kind,
            // A chunk advertised by the call is in the caller's memory. The caller responds to RDMA
            // Reads of it, and the other end writes to it.
            from_caller: reading != placed.of_reply,
            first: seen,
            last: seen,
            position: first,
            extent,
            of_reply: is_of_reply(placed.of_reply, placed.part),
            part: placed.part,
            offset: start.saturating_sub(moved),
            length: memory.length.into(),
        });
    }

    /// Adds a step, unless it repeats a known RDMA Read request.
    fn note(&mut self, step: Step) {
        if !self.keep.steps {
            return;
        }
        if step.kind == StepKind::ReadRequest && self.step(step.kind, step.position).is_some() {
            return;
        }
        if self.steps.len() >= Exchange::MOST_STEPS {
            self.steps_left_out += 1;
            return;
        }
        let capacity = self.steps.capacity();
        self.changed.push((self.steps.len() as u32, true));
        self.steps.push(step);
        self.lists += (self.steps.capacity() - capacity) * size_of::<Step>();
    }

    /// Makes the call the reply.
    #[cold]
    pub(super) fn turn(&mut self) {
        for step in self.steps.iter_mut() {
            step.from_caller = !step.from_caller;
            step.of_reply = true;
            if step.kind == StepKind::Call {
                step.kind = StepKind::Reply;
            }
        }
        self.sends.swap(0, 1);
        let chunks = core::mem::take(&mut self.chunks);
        self.chunks = chunks.into_iter().map(|((_, part), gathered)| ((true, part), gathered)).collect();
    }

    /// Takes over the contents of a call.
    #[cold]
    pub(super) fn take_call(&mut self, other: &mut Transcript) {
        other.steps.iter().for_each(|step| self.note(*step));
        self.steps_left_out += other.steps_left_out;
        self.sends[0] = other.sends[0].take();
        self.chunks.append(&mut other.chunks);
        self.bytes += other.bytes;
    }

    /// The index of the step of this kind that covers this position.
    fn step(&self, kind: StepKind, position: Position) -> Option<usize> {
        /// Number of steps searched. A connection may have 255 RDMA READs outstanding, each with a
        /// request and a response.
        const RECENT: usize = 512;
        let is_meant = |step: &Step| step.kind == kind && step.covers(position);
        let found = self.steps.iter().rev().take(RECENT).position(is_meant)?;
        Some(self.steps.len() - 1 - found)
    }

    /// Number of bytes kept of Sends and chunks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Converts the contents of a transaction that has ended.
    pub(super) fn into_exchange(self, open: &Open, flows: [Option<FlowKey>; 2]) -> Exchange {
        let Transcript { mut steps, steps_left_out, sends, chunks, .. } = self;
        let uses = uses(open);
        let pieces = |by_reply: bool, part: Part| {
            let range = chunk_range(&open.segments, part, by_reply);
            (&open.segments[range.clone()], &uses[range])
        };
        for step in steps.iter_mut().filter(|step| step.part != Part::Send) {
            // Write chunks and the Reply chunk belong to the reply, but the call advertises them.
            let by_reply = step.of_reply && matches!(step.part, Part::ReadChunk(_));
            let (segments, uses) = pieces(by_reply, step.part);
            let index = segments.partition_point(|placed| placed.base <= step.offset).saturating_sub(1);
            if let (Some(placed), Some(usage)) = (segments.get(index), uses.get(index)) {
                step.offset = step.offset - placed.base + usage.base;
            }
        }
        let [call, reply] = sends;
        let mut contents: Vec<Content> = [call, reply]
            .into_iter()
            .enumerate()
            .filter_map(|(index, bytes)| Some(Content::complete(index == 1, Part::Send, bytes?)))
            .collect();
        contents.extend(chunks.into_iter().filter_map(|((by_reply, part), gathered)| {
            let (segments, uses) = pieces(by_reply, part);
            let (bytes, captured) = gathered.close_up(segments, uses);
            (!bytes.is_empty()).then(|| Content {
                of_reply: is_of_reply(by_reply, part),
                part,
                bytes,
                captured,
            })
        }));
        contents.sort_by_key(|content| (content.of_reply, content.part));
        Exchange { steps: steps.into_inner(), steps_left_out, contents, flows }
    }
}

impl Gathered {
    /// Closes the gaps between segments, because segments may be used in part (RFC 8166, section
    /// 3.4.6).
    fn close_up(self, segments: &[Placed], uses: &[Usage]) -> (Vec<u8>, Intervals) {
        let Gathered { mut bytes, captured } = self;
        let mut moved = Intervals::default();
        let mut ranges = captured.ranges().peekable();
        for (placed, usage) in segments.iter().zip(uses) {
            let (from, to, end) = (placed.base, placed.base + usage.used, usage.base);
            let available = to.min(bytes.len() as u64);
            if from < available && from != end {
                bytes.copy_within(from as usize..available as usize, end as usize);
            }
            while let Some(&(start, stop)) = ranges.peek()
                && start < to
            {
                let (first, last) = (start.max(from), stop.min(to));
                if first < last {
                    moved.insert(first - from + end, last - from + end);
                }
                if stop > to {
                    break;
                }
                ranges.next();
            }
        }
        bytes.truncate(moved.end() as usize);
        (bytes, moved)
    }
}

/// The used part of a segment.
struct Usage {
    /// Number of bytes used, from its start.
    used: u64,
    /// Number of bytes used of the preceding segments of its chunk.
    base: u64,
}

/// The used part of each segment: by the lengths in the reply, if it returns the chunk.
fn uses(open: &Open) -> Vec<Usage> {
    let reply = open.transaction.reply.as_ref();
    let (mut chunk, mut index, mut base) = (None, 0, 0);
    let uses = open.segments.iter().map(|placed| {
        let length = placed.segment.length;
        if chunk.replace((placed.of_reply, placed.part)) == Some((placed.of_reply, placed.part)) {
            index += 1;
        } else {
            (index, base) = (0, 0);
        }
        let returned = match placed.part {
            Part::WriteChunk(chunk) => reply.and_then(|reply| reply.write_chunks.get(usize::from(chunk))),
            Part::ReplyChunk => reply.and_then(|reply| reply.reply_chunk.as_ref()),
            Part::Send | Part::ReadChunk(_) => None,
        };
        let used = match (placed.part, returned) {
            (Part::Send | Part::ReadChunk(_), _) => length.into(),
            (_, Some(chunk)) => {
                chunk.segments.get(index).map_or(0, |segment| segment.length.min(length)).into()
            }
            (_, None) => placed.moved.end(),
        };
        let usage = Usage { used, base };
        base += used;
        usage
    });
    uses.collect()
}

/// Whether a chunk belongs to the reply message. `by_reply` means that the reply advertised it.
fn is_of_reply(by_reply: bool, part: Part) -> bool {
    by_reply || !matches!(part, Part::ReadChunk(_))
}

#[cfg(test)]
mod tests;
