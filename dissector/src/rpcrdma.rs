//! RPC-over-RDMA messages, their chunks, and their transactions (RFC 8166, RFC 8167).
//!
//! A call advertises memory, RDMA operations access it, and the reply ends the transaction. So
//! memory belongs to the transaction that advertised it. A placement is looked up by R_Key and
//! address among the open transactions of the end that owns the memory, and a later call may reuse
//! the R_Key.

mod corrected;
mod identity;
mod memory;
mod message;
mod observe;
mod open;
mod peers;
mod placing;
mod read;
mod reordering;
#[cfg(test)]
mod tests;
mod transcript;
mod unclaimed;

pub(crate) use crate::observation::{CallIdentity, Kind};
use alloc::boxed::Box;
use alloc::vec::Vec;
pub(crate) use memory::{Access, Memory};
pub(crate) use peers::Peers;
pub(crate) use reordering::{is_request_for, reused_xid};
pub(crate) use transcript::NotedStep;

use crate::event::{Event, Eviction, Report};
use crate::exchange::{Keep, StepKind};
use crate::observation::{Observe, Observed};
use crate::rdma::{End, Send};
use crate::record::{REORDERING, Seen, Time};
use crate::transaction::{Direction, OpenTransaction, Outcome, Transaction};
use alloc::collections::VecDeque;
use core::num::NonZeroU32;
use open::Open;
use rdmascope_wire::rpcrdma::{Header, Procedure, VERSION};
use rdmascope_wire::{Xid, rpc};
use transcript::Transcript;
use unclaimed::Unclaimed;

/// The hasher of tables whose keys come from the wire. Its seed is fixed, so that the same capture
/// gives the same events.
pub type BuildHasher = foldhash::quality::FixedState;

/// Identifies an open transaction. The generation distinguishes it from earlier ones at the same
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    index: u32,
    generation: u32,
}

/// The open transactions of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    slots: Vec<Open>,
    free: Vec<u32>,
    /// Open transactions, oldest first. Some have ended since.
    order: VecDeque<Slot>,
    /// The optional contents kept of each transaction.
    keep: Keep,
    /// The observations to report.
    observe: Observe,
    /// Report the roles of packets in transactions.
    attributes: bool,
    /// Steps of one connection, until they are [taken](Transactions::take_noted).
    noted: Vec<NotedStep>,
    /// The last frame that moved bulk data, and its number of bulk bytes.
    bulk: (u64, u32),
    /// Packets of all connections that the capture reports as dropped so far.
    pub dropped: u64,
    /// The time of the current record.
    pub now: Time,
    /// How often times could not be compared with those of the records before.
    pub clock_steps: u64,
    /// The current record was held, and others have arrived since.
    pub is_late: bool,
    /// Bytes of memory that all connections use to track steps and packets.
    pub attributed: usize,
    open: usize,
    /// Bytes of memory used by the lists of open transactions.
    weight: usize,
    /// Bytes gathered for open transactions.
    gathered: usize,
    /// Bytes kept of open transactions because contents were requested.
    kept: usize,
    /// Bytes by which the gathered and kept bytes may grow with the next placement.
    growth: usize,
    /// RDMA Writes to memory that no call in the capture advertised.
    unclaimed: Unclaimed,
    /// Number of them that replies claimed since the last [`Transactions::take_claimed`].
    claimed: u64,
    begun: u64,
    reported: u64,
    /// Number of connections that have a number.
    numbered: u32,
    /// Some reply was in a Read chunk (reliable-reply draft).
    provides_replies: bool,
}

/// Most open transactions, over all connections.
const MOST_OPEN: usize = 16_384;
/// Most bytes of memory used by the lists of open transactions, over all connections.
const MOST_WEIGHT: usize = 18 << 20;
/// Most slots that keep the memory of their lists for later transactions. If there are more, none
/// does.
const MOST_KEEPING: usize = 128;

impl Transactions {
    /// Creates an empty table.
    ///
    /// `keep` has the contents to keep, and `observe` the observations to report. `attributes`
    /// reports the roles of packets in transactions.
    pub(crate) fn new(keep: Keep, observe: Observe, attributes: bool) -> Transactions {
        let mut new = Transactions { observe, growth: placing::MOST_GROWTH, ..Transactions::default() };
        new.look_closely(keep, attributes);
        new
    }

    /// Sets the contents kept of later transactions, and whether the roles of packets are reported.
    pub(crate) fn look_closely(&mut self, keep: Keep, attributes: bool) {
        self.keep = Keep { steps: keep.steps || attributes, ..keep };
        self.attributes = attributes;
    }

    /// Whether the roles of packets in transactions are reported.
    #[inline]
    pub(crate) fn attributes(&self) -> bool {
        self.attributes
    }

    /// Removes and returns the steps that are new or have changed since the last call.
    pub(crate) fn take_noted(&mut self) -> impl Iterator<Item = NotedStep> {
        self.noted.drain(..)
    }

    /// Gives a connection its number, if it has none, because an event mentions it.
    #[inline]
    pub(crate) fn number(&mut self, peers: &mut Peers) {
        if peers.number.is_none() {
            self.numbered = self.numbered.saturating_add(1);
            peers.number = NonZeroU32::new(self.numbered);
        }
    }

    /// Number of connections that have a number.
    pub(crate) fn numbered(&self) -> u32 {
        self.numbered
    }

    /// Whether any observations are reported.
    #[inline]
    pub(crate) fn observes(&self) -> bool {
        self.observe != Observe::Nothing
    }

    /// Whether the observations that only rules need are reported too.
    #[inline]
    pub(crate) fn is_judged(&self) -> bool {
        self.observe == Observe::All
    }

    /// The session and the slot of the oldest transaction, if too many are open.
    pub(crate) fn overdue(&mut self) -> Option<(u32, Slot)> {
        if self.open <= MOST_OPEN && self.weight <= MOST_WEIGHT {
            return None;
        }
        while let Some(slot) = self.order.pop_front() {
            if let Some(open) = self.find(slot) {
                return Some((open.session, slot));
            }
        }
        None
    }

    /// Notes packets that are found missing. Calls after the packet that `acknowledged` them are
    /// complete without them.
    pub(crate) fn lack(&mut self, packets: u64, acknowledged: Option<Seen>, peers: &mut Peers) {
        peers.missing_packets += packets;
        let sent_by = acknowledged.map(|seen| seen.time.max(peers.missing_since).min(self.now));
        peers.missing_since = sent_by.unwrap_or(self.now);
        let Some(acknowledged) = acknowledged else { return };
        for slot in peers.sides.iter().flat_map(|side| side.calls.values()) {
            let open = self.find(*slot);
            let later = open.filter(|open| open.is_called_after(acknowledged));
            later.into_iter().for_each(|open| open.missing_before += packets);
        }
    }

    /// Gives up a transaction returned by [`Transactions::overdue`].
    pub(crate) fn evict(&mut self, slot: Slot, peers: &mut Peers, report: &mut Report<'_>) {
        let Some(open) = self.find(slot) else { return };
        let direction = peers.direction(open.caller);
        let (connection, xid) = (peers.connection(), open.transaction.xid);
        report(Event::Eviction(Eviction::Transaction { connection, direction, xid }));
        let outcome = outcome_of(&open.transaction, Outcome::NoReply);
        self.end(slot, (outcome, None), peers, report);
    }

    /// Processes a Send of end `from`, after the connection was asked to
    /// [recognize](Peers::recognize) it.
    ///
    /// Returns the kind of the Send, and the transaction that it starts.
    pub(crate) fn handle_send(
        &mut self,
        send: &Send<'_>,
        from: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) -> (Kind, Option<Slot>) {
        let Ok(header) = Header::parse(send.bytes) else {
            // The capture lacks the header, and the Send may be a reply.
            let is_cut = send.length != Some(send.bytes.len() as u32);
            if is_cut && peers.speaks_rpc == Some(true) {
                peers.unseen += 1;
                // A call that is delivered later was held.
                peers.missing_since = peers.missing_since.max(send.seen.time);
            }
            if self.observe != Observe::Nothing {
                self.observe_send(send, (Kind::Other, None, None), from, peers, report);
            }
            return (Kind::Other, None);
        };
        let payload = payload_of(&header, send.bytes);
        if peers.speaks_rpc != Some(true) {
            return (Kind::Other, None);
        }
        let kind = self.kind(&header, payload, from, peers);
        if self.observe != Observe::Nothing {
            self.observe_send(send, (kind, Some(&header), payload), from, peers, report);
        }
        let mut call = None;
        match kind {
            Kind::Call => call = Some(self.handle_call(send, &header, payload, from, peers, report)),
            Kind::Reply | Kind::Error => self.handle_reply(send, &header, payload, from, peers, report),
            Kind::Done => {
                let Some(slot) = peers.sides[from].pulls.remove(&header.xid) else {
                    return (Kind::Done, None);
                };
                self.keep_send(slot, StepKind::Done, send, report);
                if let Some(open) = self.find(slot) {
                    open.transaction.done = Some(send.seen);
                    let outcome = outcome_of(&open.transaction, Outcome::Completed);
                    self.end(slot, (outcome, None), peers, report);
                }
            }
            Kind::Other => {}
        }
        if let Some(rkey) = send.invalidated.filter(|_| self.observe == Observe::All) {
            self.observe_revoked(rkey, (send.seen, header.xid), from, peers, report);
        }
        (kind, call)
    }

    /// Notes the packet that acknowledges the Send of a call, if its transaction is still open.
    pub(crate) fn note_acknowledged(&mut self, call: Slot, seen: Seen, peers: &Peers) {
        if let Some(open) = self.find(call)
            && open.transaction.timing.acknowledged.is_none()
            && open.moved_in != Some(seen.frame)
        {
            open.transaction.timing.acknowledged = Some(seen);
            if !open.transaction.timing.moved() {
                open.waited = peers.waited(open.caller.other(), seen.time);
            }
        }
    }

    /// The kind of a Send. If the Send alone does not show it, an XID that the other end waits for
    /// makes it a reply, except if it offers memory of its own for results.
    fn kind(&self, header: &Header<'_>, payload: Option<&[u8]>, from: End, peers: &Peers) -> Kind {
        let awaited = || match peers.sides[from.other()].call(header.xid) {
            Some(call) if !self.offers_more(header, call) => Kind::Reply,
            _ => Kind::Call,
        };
        certain_kind(header, payload).unwrap_or_else(awaited)
    }

    /// Whether a Write list or Reply chunk names memory that this call did not offer. A reply returns
    /// the chunks of its call (RFC 8166, sections 3.4.6 and 4.3.3).
    fn offers_more(&self, header: &Header<'_>, call: Slot) -> bool {
        let open = &self.slots[call.index as usize];
        let is_offered = |handle| open.segments.iter().any(|placed| placed.segment.handle == handle);
        let chunks = header.writes.chain(header.reply);
        chunks.flat_map(|chunk| chunk.segments()).any(|segment| !is_offered(segment.handle))
    }

    /// Whether RDMA Reads of this call's memory are not answered.
    #[inline]
    pub(crate) fn is_being_read(&self, call: Slot) -> bool {
        self.slots.get(call.index as usize).is_some_and(|open| open.is_being_read())
    }

    /// Ends all open transactions of a connection, because it or the capture is over at `until`.
    /// `captured` is [`Ending::captured`](crate::observation::Ending::captured). `hidden` has for each
    /// end the packet that acknowledged packets after the last captured one.
    pub(crate) fn end_all(
        &mut self,
        (is_closed, until, captured, hidden): (bool, Time, [bool; 2], [Option<Seen>; 2]),
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) {
        let mut slots: Vec<Slot> = peers
            .sides
            .iter()
            .flat_map(|side| side.calls.values().chain(side.pulls.values()))
            .copied()
            .collect();
        slots.sort_by_key(|slot| self.slots[slot.index as usize].transaction.begun);
        for slot in slots {
            let slowest = peers.slowest.max(Transaction::PATIENCE);
            let clock_steps = self.clock_steps;
            let Some(open) = self.find(slot) else { continue };
            let until = Some(until).filter(|_| captured[open.caller.other()]);
            let called = open.transaction.call.as_ref().map(|call| call.seen);
            open.is_answer_hidden = hidden[open.caller.other()]
                .zip(called)
                .is_some_and(|(seen, called)| seen.frame > called.frame);
            let is_overdue = !open.may_have_reply(peers)
                && open.clock_steps == clock_steps
                && until.zip(called).is_some_and(|(until, called)| until.since(called.time) > slowest);
            let without_reply = if is_closed || is_overdue { Outcome::NoReply } else { Outcome::CutOff };
            let outcome = outcome_of(&open.transaction, without_reply);
            self.end(slot, (outcome, until), peers, report);
        }
    }

    /// The open transactions, in the order in which they started. `peers` returns the ends of the
    /// connection at an index of the engine.
    pub(crate) fn all_open<'a>(
        &'a self,
        peers: impl Fn(u32) -> Option<&'a Peers>,
    ) -> impl Iterator<Item = OpenTransaction<'a>> {
        self.order.iter().filter_map(move |slot| {
            let open = self.slots.get(slot.index as usize)?;
            let is_open = open.is_open && open.generation == slot.generation;
            if is_open { open.so_far(peers(open.session)?) } else { None }
        })
    }

    /// Bytes of heap memory that a clone needs.
    pub(crate) fn footprint(&self) -> usize {
        let transcript = if self.keep == Keep::default() { 0 } else { self.open * size_of::<Transcript>() };
        self.slots.len() * size_of::<Open>()
            + self.free.len() * size_of::<u32>()
            + self.order.len() * size_of::<Slot>()
            + transcript
            + self.weight
            + self.gathered
            + self.kept
            + self.unclaimed.footprint()
    }

    /// Number of open transactions.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Links the open transactions of `peers` to its connection, after two half-flows became one.
    pub(crate) fn adopt(&mut self, peers: &Peers) {
        for (index, side) in End::BOTH.into_iter().zip(&peers.sides) {
            for slot in side.calls.values().chain(side.pulls.values()) {
                if let Some(open) = self.slots.get_mut(slot.index as usize) {
                    open.session = peers.session;
                    open.caller = index;
                }
            }
        }
    }

    /// Updates the memory used by the lists of a transaction.
    fn reweigh(&mut self, slot: Slot) {
        let open = &mut self.slots[slot.index as usize];
        let before = core::mem::replace(&mut open.weight, 0);
        open.weight = open.weigh() + open.scattered;
        self.weight = self.weight - before + open.weight;
    }

    /// Whether the caller of a transaction acknowledged a Send before it sent the call.
    fn is_received_before(&self, send: &Send<'_>, slot: Slot) -> bool {
        self.slots.get(slot.index as usize).is_some_and(|open| open.is_called_after_send(send))
    }

    /// Whether a transaction begins so long after a packet that the packet does not belong to it.
    fn begins_after(&self, slot: Slot, seen: Seen) -> bool {
        let Some(open) = self.slots.get(slot.index as usize) else { return false };
        let first = open.transaction.messages().map(|message| message.first).min_by_key(|first| first.time);
        // If the clock steps back during a call, its reply has a later record and an earlier time.
        first.is_some_and(|first| first.frame > seen.frame && first.time.since(seen.time) > REORDERING.0)
    }

    fn find(&mut self, slot: Slot) -> Option<&mut Open> {
        find(&mut self.slots, slot)
    }

    fn begin(&mut self, xid: Xid, caller: End, peers: &mut Peers) -> Slot {
        peers.caller.get_or_insert(caller);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Open::default());
            self.slots.len() as u32 - 1
        });
        let open = &mut self.slots[index as usize];
        self.begun += 1;
        open.begin(xid, caller, self.begun, self.keep, peers);
        open.clock_steps = self.clock_steps;
        let slot = Slot { index, generation: open.generation };
        self.open += 1;
        // Ended transactions are removed from the order before they are the greater part of it.
        if self.order.len() >= 2 * MOST_OPEN {
            let slots = &self.slots;
            self.order.retain(|slot| {
                let open = &slots[slot.index as usize];
                open.is_open && open.generation == slot.generation
            });
        }
        self.order.push_back(slot);
        slot
    }

    /// Ends a transaction: removes it from all tables, reports it, and keeps its memory for the
    /// next one. `until` is the time up to which the capture shows the answers of the other end.
    fn end(
        &mut self,
        slot: Slot,
        (outcome, until): (Outcome, Option<Time>),
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) {
        let Some(open) = self.slots.get_mut(slot.index as usize) else { return };
        if !open.is_open || open.generation != slot.generation {
            return;
        }
        open.is_open = false;
        let xid = open.transaction.xid;
        let caller = &mut peers.sides[open.caller];
        for table in [&mut caller.calls, &mut caller.pulls] {
            if table.get(&xid) == Some(&slot) {
                table.remove(&xid);
            }
        }
        for (_, owner, seen, segment) in open.advertised() {
            peers.sides[owner].memory.withdraw(segment, seen.frame, slot);
        }
        self.weight -= core::mem::take(&mut open.weight);
        self.open -= 1;
        self.free.push(slot.index);

        let gap = open.lacks_packets(peers);
        open.transaction.clock_stepped =
            open.clock_steps != self.clock_steps || open.transaction.is_answered_earlier();
        let may_have_reply = open.may_have_reply(peers);
        open.conclude(outcome, (gap, may_have_reply, peers.is_snooped), until);
        peers.slowest = peers.slowest.max(open.transaction.latency().unwrap_or(0));
        open.transaction.lossy = self.observe != Observe::Nothing && gap;
        let roles_known = peers.requester.is_some();
        message::infer_requester(open, open.caller, peers);
        if self.observe != Observe::Nothing && !roles_known && peers.requester.is_some() {
            peers.observe(Observed::RolesKnown, report);
        }
        if let Some(transcript) = open.transcript.take() {
            self.kept -= transcript.bytes();
            let flows = [peers.flows[open.caller], peers.flows[open.caller.other()]];
            open.transaction.exchange = Some(Box::new(transcript.into_exchange(open, flows)));
        }
        let direction = peers.direction(open.caller);
        self.reported += 1;
        peers.reported[usize::from(direction == Direction::Backward)] += 1;
        let transaction: &mut Transaction = &mut open.transaction;
        transaction.number = self.reported;
        transaction.connection = peers.connection();
        transaction.direction = direction;
        transaction.route = peers.route(open.caller);
        report(Event::Transaction(transaction));
        let many = self.slots.len() > MOST_KEEPING;
        self.gathered -= self.slots[slot.index as usize].release(many);
    }
}

/// Finds an open transaction. Returns `None` if it has ended.
fn find(slots: &mut [Open], slot: Slot) -> Option<&mut Open> {
    let open = slots.get_mut(slot.index as usize);
    open.filter(|open| open.is_open && open.generation == slot.generation)
}

/// The outcome of an open transaction; `without_reply` if no reply was seen.
fn outcome_of(transaction: &Transaction, without_reply: Outcome) -> Outcome {
    match (&transaction.call, &transaction.reply) {
        (_, None) => without_reply,
        (None, Some(_)) => Outcome::NoCall,
        (Some(_), Some(_)) => Outcome::Completed,
    }
}

/// The bytes after the header: the Payload stream of an RDMA_MSG. `None` if it is in a chunk, or if
/// the end of the header is unknown.
fn payload_of<'a>(header: &Header<'_>, message: &'a [u8]) -> Option<&'a [u8]> {
    match header.procedure {
        Procedure::Msg | Procedure::Msgp if header.stop.is_none() && header.version == VERSION => {
            Some(&message[header.length..])
        }
        _ => None,
    }
}

/// Whether a Send on an unknown connection looks like RPC-over-RDMA version 1.
fn plausible(header: &Header<'_>, payload: Option<&[u8]>) -> bool {
    header.version == VERSION
        && header.stop.is_none()
        && match header.procedure {
            Procedure::Msg => matches!(payload.map(rpc::peek), Some(Ok((xid, _))) if xid == header.xid),
            Procedure::Nomsg => !header.reads.is_empty() || header.reply.is_some(),
            Procedure::Error => header.error.is_some(),
            _ => false,
        }
}

/// The kind of a Send, if the Send alone shows it, as RPC messages do.
fn certain_kind(header: &Header<'_>, payload: Option<&[u8]>) -> Option<Kind> {
    match header.procedure {
        Procedure::Error => Some(Kind::Error),
        Procedure::Done if header.version == VERSION => Some(Kind::Done),
        _ if header.version != VERSION => None,
        Procedure::Msg | Procedure::Msgp => match rpc::peek(payload?) {
            Ok((_, rpc::Kind::Call)) => Some(Kind::Call),
            Ok((_, rpc::Kind::Reply)) => Some(Kind::Reply),
            Err(_) => None,
        },
        // A Long Call is in a Position Zero Read chunk. A Long Reply is in the Reply chunk or, by
        // the reliable-reply draft, also in a Position Zero Read chunk.
        Procedure::Nomsg if header.reads.is_empty() && header.reply.is_some() => Some(Kind::Reply),
        _ => None,
    }
}

/// The XID of the Send at the start of `message`, if it could be a reply.
pub(crate) fn reply_xid(message: &[u8]) -> Option<Xid> {
    let header = Header::parse(message).ok()?;
    let payload = payload_of(&header, message);
    let is_call = matches!(payload.map(rpc::peek), Some(Ok((_, rpc::Kind::Call))));
    (header.version == VERSION
        && !is_call
        && !matches!(header.procedure, Procedure::Unknown(_) | Procedure::Done))
    .then_some(header.xid)
}
