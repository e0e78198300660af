//! Assignment of RDMA operations to transactions.
//!
//! The memory belongs to the transaction that advertised it. If the capture lacks its call, it
//! belongs to the transaction whose reply returns the memory.

use super::memory::{Access, Found, Target};
use super::open::{self, saturate};
use super::{Peers, Slot, Transactions};
use crate::event::{Event, Eviction, Report};
use crate::rdma::{End, MemoryRange, Placement, ReadRequest};
use crate::transaction::{Message, Part};
use rdmascope_wire::rpcrdma::Segment;

/// Bytes by which a placement may enlarge messages and contents: twice the longest placement, because
/// both may have it. Bytes missing before it use memory too, so otherwise a few bytes at the end of
/// each chunk of a hostile capture would take much time.
const GROWTH: usize = 128 << 10;
/// Most bytes that earlier placements leave for later ones.
pub(super) const MOST_GROWTH: usize = 64 << 20;

/// Most segments that one RDMA Read request reads. The header of a call of 4096 bytes has fewer.
const MOST_SEGMENTS: usize = 256;

impl Transactions {
    /// Notes an RDMA Read request for memory of end `owner`.
    pub(crate) fn handle_read(&mut self, request: &ReadRequest, owner: End, peers: &Peers) {
        let MemoryRange { mut address, mut length, .. } = request.memory;
        let access = Access::requested(request);
        // It may continue in the next segment under the same handle.
        for nth in 0..MOST_SEGMENTS {
            let found = self.target(peers, owner, &access.at(address));
            let Some(Found { mut target, .. }) = found else { return };
            let Some(open) = self.find(target.slot) else { return };
            target.segment = open.read_target(target.segment, address, |placed| &placed.requested);
            if !open.is_for(target.segment as usize, true) {
                return;
            }
            let inside = open.inside(target.segment as usize, address).min(length);
            let scattered = open.scattered;
            let requested = if request.repeated { 0 } else { inside };
            let waited = peers.waited(open.caller.other(), request.seen.time);
            open.note_read(target.segment as usize, (request.seen, waited), address, requested);
            let more = open.scattered - scattered;
            open.weight += more;
            let is_kept = open.transcript.is_some();
            self.weight += more;
            if nth == 0 && is_kept {
                self.keep_read(target, request);
            }
            address = address.wrapping_add(u64::from(inside));
            length -= inside;
            if inside == 0 || length == 0 {
                return;
            }
        }
    }

    /// Places bytes in memory of end `owner`, or takes them from it (`reading`). Returns false if
    /// no open transaction advertised that memory for this operation.
    #[inline]
    pub(crate) fn place(
        &mut self,
        placement: &Placement<'_>,
        reading: bool,
        owner: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) -> bool {
        let Some(found) = self.target(peers, owner, &Access::of(placement, reading)) else {
            return false;
        };
        let mut target = found.target;
        peers.sides[owner].last = Some(found);
        let Some(open) = self.slots.get(target.slot.index as usize) else { return false };
        if reading && !placement.repeated {
            target.segment = open.read_target(target.segment, placement.address, |placed| &placed.moved);
        }
        let inside = open.inside(target.segment as usize, placement.address);
        if inside < placement.length {
            return self.place_across(placement, inside, reading, owner, peers, report);
        }
        let waited = peers.waited(open.caller.other(), placement.seen.time);
        let is_placed = self.place_in(target, placement, reading, waited, report);
        if reading && self.is_pulled_reply(target.slot) {
            self.correct(target.slot, peers, report);
        }
        is_placed
    }

    /// Places bytes in a segment that contains their whole range, or takes them from it.
    #[inline]
    fn place_in(
        &mut self,
        target: Target,
        placement: &Placement<'_>,
        reading: bool,
        waited: u64,
        report: &mut Report<'_>,
    ) -> bool {
        let Some(open) = self.slots.get_mut(target.slot.index as usize) else { return false };
        self.growth = (self.growth + GROWTH).min(MOST_GROWTH);
        let budget = open::BUDGET.saturating_sub(self.gathered).min(self.growth);
        let scattered = open.scattered;
        let placed = open.place(target.segment as usize, placement, reading, waited, budget);
        let more = open.scattered - scattered;
        open.weight += more;
        self.weight += more;
        let is_kept = open.transcript.is_some();
        match placed {
            Ok(open::Moved::Bulk) => self.note_bulk(placement),
            Ok(open::Moved::Message(grown)) => {
                self.gathered += grown;
                self.growth -= grown;
            }
            Err(open::Refusal::OtherWay) => return false,
            Err(open::Refusal::Budget(part)) => {
                let xid = open.transaction.xid;
                report(Event::Eviction(Eviction::Gathered { xid, part }));
            }
        }
        if is_kept {
            self.keep_placement(target, placement, reading, report);
        }
        true
    }

    /// Places bytes in consecutive segments, `inside` of them in the first one.
    ///
    /// Returns false if the first segment does not accept them. Bytes after the last segment are
    /// dropped.
    #[cold]
    fn place_across(
        &mut self,
        placement: &Placement<'_>,
        mut inside: u32,
        reading: bool,
        owner: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) -> bool {
        let mut rest = *placement;
        let mut is_first = true;
        loop {
            let (part, after) = rest.split_at(inside);
            if !self.place(&part, reading, owner, peers, report) {
                return !is_first;
            }
            is_first = false;
            rest = after;
            let next = self.target(peers, owner, &Access::of(&rest, reading));
            let Some(Found { target, .. }) = next else { return true };
            let Some(open) = self.slots.get(target.slot.index as usize) else { return true };
            inside = open.inside(target.segment as usize, rest.address).min(rest.length);
            if inside == 0 {
                return true;
            }
        }
    }

    /// Notes that the bytes of a placement are bulk data, which is not parsed.
    #[inline]
    pub(crate) fn note_bulk(&mut self, placement: &Placement<'_>) {
        let (frame, bytes) = &mut self.bulk;
        if *frame == placement.seen.frame {
            *bytes = bytes.saturating_add(placement.length);
        } else {
            (*frame, *bytes) = (placement.seen.frame, placement.length);
        }
    }

    /// Number of bulk bytes that this frame moved. Only the last such frame is remembered.
    #[inline]
    pub(crate) fn bulk_of(&self, frame: u64) -> u32 {
        if self.bulk.0 == frame { self.bulk.1 } else { 0 }
    }

    /// Keeps an RDMA Write to memory of end `owner` that was not advertised, because a reply may
    /// return that memory.
    #[cold]
    pub(crate) fn keep_unclaimed(&mut self, placement: &Placement<'_>, owner: End, peers: &Peers) {
        if peers.speaks_rpc == Some(true) {
            self.unclaimed.keep(peers.connection(), owner, placement);
        }
    }

    /// Returns and resets the number of kept RDMA Writes that a transaction has claimed.
    pub(crate) fn take_claimed(&mut self) -> u64 {
        core::mem::take(&mut self.claimed)
    }

    /// The segment of end `owner` that contains the byte of an operation.
    #[inline]
    pub(super) fn target(&self, peers: &Peers, owner: End, access: &Access) -> Option<Found> {
        let Access { memory, address, seen, .. } = *access;
        if let Some(last) = &peers.sides[owner].last
            && last.frames.contains(&seen.frame)
            && let Target { slot, segment } = last.target
            && let Some(open) = self.slots.get(slot.index as usize)
            && open.is_open
            && open.generation == slot.generation
            && open.session == peers.session
            && open.holds(segment as usize, owner, memory.rkey, address)
        {
            return Some(last.clone());
        }
        let found = peers.sides[owner].memory.find(access)?;
        let precedes = found.frames.start == 0;
        (!precedes || !self.begins_after(found.target.slot, seen)).then_some(found)
    }

    /// Matches earlier RDMA Writes to the chunks that a reply returns, if the capture lacks its
    /// call.
    ///
    /// If some of them are missing and may have been dropped, none are matched.
    #[cold]
    pub(super) fn claim(
        &mut self,
        slot: Slot,
        reply: &Message,
        caller: End,
        peers: &Peers,
        report: &mut Report<'_>,
    ) {
        let written = reply.write_chunks.iter().chain(&reply.reply_chunk).flat_map(|chunk| &chunk.segments);
        let is_wanted = |placement: &Placement<'_>| {
            let holds = |segment: &Segment| {
                let offset = placement.address.wrapping_sub(segment.offset);
                segment.handle == placement.memory.rkey && offset < u64::from(segment.length)
            };
            written.clone().any(holds)
        };
        let unclaimed = core::mem::take(&mut self.unclaimed);
        let found = unclaimed.of(peers.connection(), caller, is_wanted);
        let (mut writes, mut bytes, mut last) = (0, 0, None);
        for placement in found {
            // The packets of an end are kept in the order of its RDMA Writes.
            writes += u64::from(last.replace(placement.first) != Some(placement.first));
            bytes += u64::from(placement.length);
        }
        let returned: u64 = written.clone().map(|segment| u64::from(segment.length)).sum();
        if writes > 0 && (bytes >= returned || !unclaimed.forgot) {
            let open = &mut self.slots[slot.index as usize];
            for (index, chunk) in reply.write_chunks.iter().enumerate() {
                open.advertise(Part::WriteChunk(saturate(index)), false, &chunk.segments, false);
            }
            if let Some(chunk) = &reply.reply_chunk {
                open.advertise(Part::ReplyChunk, false, &chunk.segments, true);
            }
            for placement in unclaimed.of(peers.connection(), caller, is_wanted) {
                self.place_by_reply(slot, &placement, caller, report);
            }
            self.claimed += writes;
            self.reweigh(slot);
        }
        self.unclaimed = unclaimed;
        self.unclaimed.remove(peers.connection(), caller, is_wanted);
    }

    /// Places bytes in the segments of a transaction without a lookup, because their memory may be
    /// advertised again by now.
    fn place_by_reply(&mut self, slot: Slot, placement: &Placement<'_>, owner: End, report: &mut Report<'_>) {
        let mut rest = *placement;
        while rest.length > 0 {
            let Some(open) = self.slots.get(slot.index as usize) else { return };
            let holds = |segment: &usize| open.holds(*segment, owner, rest.memory.rkey, rest.address);
            let Some(segment) = (0..open.segments.len()).find(holds) else { return };
            let inside = open.inside(segment, rest.address).min(rest.length);
            let (part, after) = rest.split_at(inside);
            self.place_in(Target { slot, segment: segment as u32 }, &part, false, 0, report);
            rest = after;
        }
    }
}
