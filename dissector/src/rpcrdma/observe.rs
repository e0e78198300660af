//! Observations of messages, for the judge.

use super::memory::{Access, Found};
use super::open::Open;
use super::{Kind, Peers, Slot, Transactions};
use crate::connection::Route;
use crate::event::{Event, Report};
use crate::observation::{
    Advertiser, Mismatch, Observation, Observe, Observed, Outstanding, Revoked, Sent, Shared, Unmatched,
};
use crate::rdma::{End, MemoryRange, Position, Send};
use crate::transaction::{Seen, Transaction};
use alloc::vec::Vec;
use rdmascope_wire::rpcrdma::{Header, Procedure};
use rdmascope_wire::{Rkey, Xid, rpc};

impl Peers {
    /// Whether the request in this frame is a recent RDMA operation. If its memory was advertised:
    /// the packet that completed the advertising message, and whether that may be a reply.
    pub(crate) fn operation_in(&self, frame: u64) -> Option<Option<(Seen, bool)>> {
        self.operations.iter().rev().find(|(request, _)| *request == frame).map(|(_, by)| *by)
    }

    /// Reports an observation on this connection.
    pub(crate) fn observe(&self, observed: Observed<'_>, report: &mut Report<'_>) {
        let Peers { session, half_flows, .. } = self;
        let requester = self.forward_caller();
        let (connection, place, roles_known) = (self.connection(), *session, self.requester.is_some());
        let observation =
            Observation { connection, place, requester, roles_known, half_flows, kind: observed };
        report(Event::Observation(&observation));
    }
}

impl Transactions {
    /// Reports a Send of end `from`: its kind, its header, and the RPC message after the header.
    pub(super) fn observe_send(
        &self,
        send: &Send<'_>,
        (kind, header, payload): (Kind, Option<&Header<'_>>, Option<&[u8]>),
        from: End,
        peers: &Peers,
        report: &mut Report<'_>,
    ) {
        if header.is_none() && peers.speaks_rpc != Some(true) {
            return;
        }
        let xid = header.map(|header| header.xid);
        let waiting = xid.and_then(|xid| match kind {
            Kind::Call => peers.sides[from].call(xid),
            Kind::Reply | Kind::Error => {
                peers.sides[from.other()].call(xid).filter(|slot| !self.is_received_before(send, *slot))
            }
            Kind::Done => peers.sides[from].pulls.get(&xid).copied(),
            Kind::Other => None,
        });
        let is_explicit = match (kind, header) {
            (_, None) | (Kind::Other, _) => false,
            (Kind::Done, _) => true,
            (Kind::Error, _) => waiting.is_some(),
            (_, Some(header)) => match header.procedure {
                Procedure::Nomsg if kind == Kind::Call => !header.reads.is_empty() && header.stop.is_none(),
                Procedure::Nomsg => waiting.is_some(),
                _ => payload.is_some_and(|payload| rpc::peek(payload).is_ok()),
            },
        };
        let open = waiting.and_then(|slot| self.slots.get(slot.index as usize));
        let sent = Sent {
            from,
            kind,
            is_explicit,
            send,
            header,
            outstanding: open.is_some(),
            of_own_call: matches!(kind, Kind::Error | Kind::Done)
                && xid.is_some_and(|xid| peers.sides[from].awaits(xid)),
            missing_at_call: open.map(|open| open.missing_before + open.unseen_before),
            missing_packets: peers.missing_packets + peers.unseen,
            call: open.and_then(|open| open.transaction.call.as_ref()).map(|call| [call.first, call.seen]),
            earlier: open
                .filter(|_| kind == Kind::Call && self.observe == Observe::All)
                .map(|open| open.identity),
            paired: peers.paired,
        };
        peers.observe(Observed::Sent(&sent), report);
    }

    /// Reports the calls without a reply.
    ///
    /// `routes` has the route of each end's packets, and `complete` the frame up to which the
    /// capture has all of them.
    #[cold]
    pub(crate) fn observe_outstanding(
        &self,
        routes: [Route; 2],
        complete: [Option<u64>; 2],
        peers: &Peers,
        report: &mut Report<'_>,
    ) {
        let mut calls: Vec<(End, &Open)> = Vec::new();
        for (caller, side) in End::BOTH.into_iter().zip(&peers.sides) {
            let open = side.calls.values().filter_map(|slot| self.slots.get(slot.index as usize));
            calls.extend(open.map(|open| (caller, open)));
        }
        calls.sort_by_key(|(_, open)| open.transaction.begun);
        for (caller, open) in calls {
            let Some(call) = &open.transaction.call else { continue };
            let is_complete = complete[caller.other()] >= Some(call.seen.frame);
            let lacks = open.lacks_packets(peers) || !is_complete;
            let (xid, identity) = (open.transaction.xid, open.identity);
            let (route, seen) = (routes[caller], call.seen);
            let outstanding = Outstanding { caller, route, xid, identity, seen, lacks };
            peers.observe(Observed::Outstanding(outstanding), report);
        }
    }

    /// Reports an RDMA operation of end `from` on memory that no open transaction advertised for
    /// it, and notes any other, because its receiver may refuse it.
    ///
    /// `reading` distinguishes READ from WRITE.
    pub(crate) fn observe_operation(
        &self,
        from: End,
        (seen, position, reading, memory): (Seen, Position, bool, MemoryRange),
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) {
        /// Operations that are kept. A connection may have up to 255 RDMA Reads outstanding.
        const MOST: usize = 256;
        // An operation of no bytes accesses no memory, and its address need not be valid (IBTA
        // volume 1, section 9.7.4.1.5).
        if memory.length == 0 || peers.speaks_rpc != Some(true) {
            return;
        }
        let access = Access { memory, address: memory.address, seen, position: Some(position) };
        let allowed = self.allowed_memory(from.other(), reading, &access, peers);
        if let Err((address, mismatch)) = allowed
            && !peers.sides[from.other()].memory.is_uncertain(&access)
        {
            peers.observe(
                Observed::Unmatched(Unmatched { from, seen, position, reading, memory, address, mismatch }),
                report,
            );
        }
        if peers.operations.len() == MOST {
            peers.operations.pop_front();
        }
        peers.operations.push_back((seen.frame, allowed.ok().flatten()));
    }

    /// For an operation on memory that end `owner` advertised for it: the packet that completed the
    /// advertising message, and whether that message may be a reply. Otherwise an error with the first
    /// byte outside that memory, and the reason. `seen` is a packet of the operation or of its refusal.
    pub(crate) fn allowed_memory(
        &self,
        owner: End,
        reading: bool,
        access: &Access,
        peers: &Peers,
    ) -> Result<Option<(Seen, bool)>, (u64, Mismatch)> {
        match self.mismatch(owner, reading, access, peers) {
            Some(mismatch) => Err(mismatch),
            None => Ok(self.advertised(owner, access, peers)),
        }
    }

    /// The packet that completed the message by which end `owner` advertised the memory of an
    /// operation, and whether that message may be a reply. A Long Call of the forward answerer counts
    /// as one until it is read.
    fn advertised(&self, owner: End, access: &Access, peers: &Peers) -> Option<(Seen, bool)> {
        let Found { target, .. } = self.target(peers, owner, access)?;
        let open = self.slots.get(target.slot.index as usize)?;
        let of_reply = open.segments.get(target.segment as usize)?.of_reply;
        let Transaction { call, reply, .. } = &open.transaction;
        let message = if of_reply { reply } else { call };
        let may_be_reply = of_reply || !open.call_read && open.caller != peers.forward_caller();
        message.as_ref().map(|message| (message.seen, may_be_reply))
    }

    /// The first byte of an operation on memory of end `owner` that was not advertised for it, and
    /// the reason.
    #[inline]
    fn mismatch(&self, owner: End, reading: bool, access: &Access, peers: &Peers) -> Option<(u64, Mismatch)> {
        let Access { memory, address: start, seen, .. } = *access;
        let Some(Found { target, .. }) = self.target(peers, owner, access) else {
            return Some((start, Mismatch::Unadvertised));
        };
        let open = self.slots.get(target.slot.index as usize)?;
        let advertiser = Advertiser { caller: open.caller, xid: open.transaction.xid };
        let is_revoked =
            |(slot, revoked): &&(Slot, Revoked)| *slot == target.slot && revoked.rkey == memory.rkey;
        if let Some((_, revoked)) = peers.revoked.iter().find(is_revoked) {
            return Some((start, Mismatch::Invalidated(*revoked)));
        }
        let segment = open.segments.get(target.segment as usize)?.segment;
        let inside = u64::from(segment.length) - start.wrapping_sub(segment.offset);
        let (end, found) = if !open.is_for(target.segment as usize, reading) {
            (u128::from(start), Mismatch::OtherWay(advertiser))
        } else if u64::from(memory.length) <= inside {
            return None;
        } else {
            let end = u128::from(start) + u128::from(inside);
            (self.end_of_memory(owner, reading, access, end, peers)?, Mismatch::PastEnd(advertiser))
        };
        // The same memory may have been advertised before, in a call that the capture lacks.
        let advertised = self.advertised(owner, access, peers);
        match advertised.is_some_and(|(message, _)| message.frame > seen.frame) {
            true => Some((start, Mismatch::Unadvertised)),
            false => Some((end as u64, found)),
        }
    }

    /// The address at which the advertised memory ends, if the operation extends beyond it.
    /// Segments may be adjacent. No memory is at 2^64.
    #[cold]
    fn end_of_memory(
        &self,
        owner: End,
        reading: bool,
        access: &Access,
        mut address: u128,
        peers: &Peers,
    ) -> Option<u128> {
        /// The most adjacent segments examined. Beyond them the operation counts as correct.
        const MOST: usize = 256;
        let end = u128::from(access.memory.address) + u128::from(access.memory.length);
        for _ in 0..MOST {
            if address >= end {
                return None;
            }
            let of_owner = &peers.sides[owner].memory;
            let found = u64::try_from(address).ok().and_then(|at| of_owner.find(&access.at(at)));
            let next = found.and_then(|Found { target, .. }| {
                let open = self.slots.get(target.slot.index as usize)?;
                open.is_for(target.segment as usize, reading).then_some(())?;
                let segment = open.segments.get(target.segment as usize)?.segment;
                Some(u128::from(segment.offset) + u128::from(segment.length))
            });
            let Some(next) = next else { return Some(address) };
            address = next;
        }
        None
    }

    /// Reports a Send with Invalidate of end `from` that invalidates memory of another transaction.
    pub(super) fn observe_revoked(
        &self,
        rkey: Rkey,
        (seen, xid): (Seen, Xid),
        from: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) {
        /// Limit for one connection.
        const MOST: usize = 64;
        let mut last = None;
        let mut found = Vec::new();
        for slot in peers.sides[from.other()].memory.holders(rkey).take(MOST) {
            let Some(open) = self.slots.get(slot.index as usize).filter(|_| last != Some(slot)) else {
                continue;
            };
            last = Some(slot);
            let advertiser = Advertiser { caller: open.caller, xid: open.transaction.xid };
            if advertiser.xid != xid {
                let message = open.transaction.call.as_ref().or(open.transaction.reply.as_ref());
                let since = message.map_or(seen, |message| message.seen);
                found.push((slot, Revoked { from, seen, xid, rkey, advertiser, since }));
            }
        }
        for (_, revoked) in &found {
            peers.observe(Observed::Revoked(*revoked), report);
        }
        peers.revoked.extend(found);
        let many = peers.revoked.len().saturating_sub(MOST);
        peers.revoked.drain(..many);
    }

    /// Reports that a call of end `owner` will advertise memory that is already advertised.
    pub(super) fn observe_shared(&self, slot: Slot, owner: End, peers: &Peers, report: &mut Report<'_>) {
        let later = &self.slots[slot.index as usize];
        let memory = &peers.sides[owner].memory;
        let found = later.segments.iter().find_map(|placed| memory.overlapping(&placed.segment, slot));
        if let Some(earlier) = found.and_then(|found| self.slots.get(found.index as usize)) {
            let xids = [earlier.transaction.xid, later.transaction.xid];
            peers.observe(Observed::Shared(Shared { owner, xids }), report);
        }
    }
}
