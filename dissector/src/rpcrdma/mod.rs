//! RPC-over-RDMA messages, their chunks, and the transactions that they make up (RFC 8166, RFC 8167).
//!
//! A call advertises memory; RDMA operations then name that memory; the reply ends the transaction. So memory belongs to
//! the transaction that advertised it: a placement is looked up by R_Key and address among the open transactions of
//! the end whose memory it is, and an R_Key that is used again by a later call is safe.

mod early;
mod identity;
mod keeping;
mod memory;
mod message;
mod observe;
mod open;
mod placing;
mod read;
#[cfg(test)]
mod tests;
mod unclaimed;

pub(crate) use crate::observation::{CallIdentity, Kind};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
pub(crate) use early::asks_for;
pub(crate) use keeping::NotedStep;
pub(crate) use memory::Memory;

use crate::connection::{ConnectionId, FlowKey, Route};
use crate::event::{Event, Eviction, Report};
use crate::exchange::{Keep, StepKind};
use crate::observation::{HalfFlow, Observe, Observed, Revoked};
use crate::protocol::Protocol;
use crate::rdma::{End, Send};
use crate::record::Seen;
use crate::transaction::{Direction, OpenTransaction, Outcome, Transaction};
use alloc::collections::VecDeque;
use core::num::NonZeroU32;
use hashbrown::HashMap;
use keeping::Keeping;
use memory::Target;
use open::Open;
use rdmascope_wire::rpcrdma::{Header, Procedure, VERSION};
use rdmascope_wire::{Xid, rpc};
use unclaimed::Unclaimed;

/// The hasher of tables whose keys come from the wire: fixed, so that the same capture gives the same events.
pub type BuildHasher = foldhash::quality::FixedState;

/// Names an open transaction; the generation tells it from an earlier one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    index: u32,
    generation: u32,
}

/// What one end of a connection has going on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Its calls that wait for a reply.
    calls: HashMap<Xid, Slot, BuildHasher>,
    /// Its calls whose reply is a Read chunk of the other end, until it says RDMA_DONE.
    pulls: HashMap<Xid, Slot, BuildHasher>,
    /// The memory that it advertised.
    memory: Memory,
    /// Where the last placement in it went: the packets of one message go to one segment.
    last: Option<Target>,
}

impl Side {
    /// Its call with this XID, where that waits for a reply.
    #[inline]
    pub(crate) fn call(&self, xid: Xid) -> Option<Slot> {
        self.calls.get(&xid).copied()
    }

    /// Whether a call with this XID waits for a reply.
    #[inline]
    pub(crate) fn awaits(&self, xid: Xid) -> bool {
        self.call(xid).is_some()
    }

    /// Takes over what was noted of the same end before two half-flows became one connection.
    pub(crate) fn absorb(&mut self, other: Side) {
        for (xid, slot) in other.calls {
            self.calls.entry(xid).or_insert(slot);
        }
        for (xid, slot) in other.pulls {
            self.pulls.entry(xid).or_insert(slot);
        }
        self.memory.absorb(other.memory);
        self.last = None;
    }

    /// Bytes of memory that a clone takes up beside itself.
    fn footprint(&self) -> usize {
        self.calls.allocation_size() + self.pulls.allocation_size() + self.memory.footprint()
    }

    /// The memory that it advertised in transactions still open.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// The two ends of a connection as RPC-over-RDMA sees them.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    /// The ends.
    pub sides: [Side; 2],
    /// The key of what each end sends, once known.
    pub flows: [Option<FlowKey>; 2],
    /// The IP address that the REQ gives each end.
    pub ips: [Option<IpAddr>; 2],
    /// The connection's number, once something was told of it: see [`Transactions::number`].
    number: Option<NonZeroU32>,
    /// Where the engine keeps it.
    pub session: u32,
    /// Which end opened the connection, where that is known or inferred.
    pub requester: Option<End>,
    /// Which end was first seen to call, or to be answered: it stands as the requester where nothing says more.
    pub caller: Option<End>,
    /// Whether Sends are RPC-over-RDMA messages; `None` until something says so.
    pub speaks_rpc: Option<bool>,
    /// A Send was no RPC-over-RDMA message, while nothing had said that Sends are.
    pub saw_other: bool,
    /// What else the connection carries, once known.
    pub protocol: Option<Protocol>,
    /// Whether both half-flows are known.
    pub paired: bool,
    /// Packets that the capture lacks, of both ends.
    pub missing_packets: u64,
    /// How far the capture shows what each end sends; kept up to date only for those who observe.
    pub half_flows: [HalfFlow; 2],
    /// Open transactions whose memory a Send with Invalidate of another transaction invalidated. Kept only where somebody judges.
    revoked: VecDeque<(Slot, Revoked)>,
    /// Transactions reported: forward, backward.
    pub reported: [u64; 2],
}

impl Peers {
    /// Two ends that have said nothing yet.
    pub(crate) fn new(session: u32) -> Peers {
        Peers {
            sides: Default::default(),
            flows: [None; 2],
            ips: [None; 2],
            number: None,
            session,
            requester: None,
            caller: None,
            speaks_rpc: None,
            saw_other: false,
            protocol: None,
            paired: false,
            missing_packets: 0,
            half_flows: Default::default(),
            revoked: VecDeque::new(),
            reported: [0; 2],
        }
    }

    /// The number of the connection, if it has one by now.
    #[inline]
    pub(crate) fn number(&self) -> Option<ConnectionId> {
        self.number.map(|number| ConnectionId(number.get()))
    }

    /// The number of the connection, of which something is told.
    #[inline]
    pub(crate) fn connection(&self) -> ConnectionId {
        self.number().expect("what is told of a connection gives it its number")
    }

    /// The end that opened the connection, or the one that stands as it.
    pub(crate) fn forward_caller(&self) -> End {
        self.requester.or(self.caller).unwrap_or_default()
    }

    /// Bytes of memory that a clone takes up beside itself.
    pub(crate) fn footprint(&self) -> usize {
        let revoked = self.revoked.len() * size_of::<(Slot, Revoked)>();
        self.sides.iter().map(Side::footprint).sum::<usize>() + revoked
    }

    /// From one end to the other, as far as any packet shows it. Packets may have LIDs or GIDs, where people know the hosts by their IP addresses.
    fn route(&self, from: End) -> Option<Route> {
        let route = |flow: &FlowKey| Route { source: flow.source, destination: flow.destination };
        let back = |flow: &FlowKey| Route { source: flow.destination, destination: flow.source };
        let seen =
            self.flows[from].as_ref().map(route).or_else(|| self.flows[from.other()].as_ref().map(back))?;
        Some(seen.with_ips(self.ips[from], self.ips[from.other()]))
    }

    fn direction(&self, caller: End) -> Direction {
        if caller == self.forward_caller() { Direction::Forward } else { Direction::Backward }
    }
}

/// The open transactions of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    slots: Vec<Open>,
    free: Vec<u32>,
    /// Open transactions, oldest first; some have ended since.
    order: VecDeque<Slot>,
    /// What is kept of each beyond its plain data.
    keep: Keep,
    /// What is reported of what is seen on the way.
    observe: Observe,
    /// What packets are to transactions is reported.
    attributes: bool,
    /// Steps of one connection that somebody has yet to [take](Transactions::take_noted).
    noted: Vec<NotedStep>,
    /// The last frame that moved bytes on which nothing depends, and how many.
    bulk: (u64, u32),
    /// Packets that the capture says it lost so far, of whatever connection.
    pub dropped: u64,
    /// The current record was held: others came since.
    pub is_late: bool,
    /// Bytes of memory in which all connections remember steps and packets, as they count them.
    pub attributed: usize,
    open: usize,
    /// Bytes of memory that the lists of open transactions take up.
    weight: usize,
    /// Bytes gathered for open transactions.
    gathered: usize,
    /// Bytes kept of open transactions because somebody asks for them.
    kept: usize,
    /// What was written to memory that nobody was seen to advertise.
    unclaimed: Unclaimed,
    /// Packets of that which replies have claimed since somebody [asked](Transactions::take_claimed).
    claimed: u64,
    begun: u64,
    reported: u64,
    /// Connections that have a number.
    numbered: u32,
}

/// Transactions open at once, over all connections.
const MOST_OPEN: usize = 16_384;
/// Bytes of memory that open transactions list chunks, operations and names in, over all connections.
const MOST_WEIGHT: usize = 16 << 20;
/// Slots that keep their lists' memory for the next transaction; where there are more, none does.
const MOST_KEEPING: usize = 128;

impl Transactions {
    /// No transactions; `keep`: what is kept of those that come, `observe`: what is reported of what is seen on the way, `attributes`:
    /// whether what packets are to transactions is.
    pub(crate) fn new(keep: Keep, observe: Observe, attributes: bool) -> Transactions {
        let mut new = Transactions { observe, ..Transactions::default() };
        new.look_closely(keep, attributes);
        new
    }

    /// What is kept of those that begin from now on, and whether what packets are to transactions is reported.
    pub(crate) fn look_closely(&mut self, keep: Keep, attributes: bool) {
        self.keep = Keep { steps: keep.steps || attributes, ..keep };
        self.attributes = attributes;
    }

    /// Whether what packets are to transactions is reported.
    #[inline]
    pub(crate) fn attributes(&self) -> bool {
        self.attributes
    }

    /// The steps that have become known, or of which more is, since this was last asked.
    pub(crate) fn take_noted(&mut self) -> impl Iterator<Item = NotedStep> {
        self.noted.drain(..)
    }

    /// Gives a connection its number, if it has none: something is told of it.
    #[inline]
    pub(crate) fn number(&mut self, peers: &mut Peers) {
        if peers.number.is_none() {
            self.numbered = self.numbered.saturating_add(1);
            peers.number = NonZeroU32::new(self.numbered);
        }
    }

    /// How many connections got a number.
    pub(crate) fn numbered(&self) -> u32 {
        self.numbered
    }

    /// Whether what is seen on the way is reported.
    #[inline]
    pub(crate) fn observes(&self) -> bool {
        self.observe != Observe::Nothing
    }

    /// Whether that on which only rules rest is reported too.
    #[inline]
    pub(crate) fn is_judged(&self) -> bool {
        self.observe == Observe::All
    }

    /// The session and the connection of the transaction to give up, where too many are open.
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

    /// Gives up a transaction that [`Transactions::overdue`] named.
    pub(crate) fn evict(&mut self, slot: Slot, peers: &mut Peers, report: &mut Report<'_>) {
        let Some(open) = self.find(slot) else { return };
        let direction = peers.direction(open.caller);
        let (connection, xid) = (peers.connection(), open.transaction.xid);
        report(Event::Eviction(Eviction::Transaction { connection, direction, xid }));
        let outcome = outcome_of(&open.transaction, Outcome::NoReply);
        self.end(slot, outcome, peers, report);
    }

    /// Takes a Send of end `from`, whose connection was asked to [recognize](Peers::recognize) it. Returns what it is, and the transaction
    /// that it begins.
    pub(crate) fn handle_send(
        &mut self,
        send: &Send<'_>,
        from: End,
        peers: &mut Peers,
        report: &mut Report<'_>,
    ) -> (Kind, Option<Slot>) {
        let Ok(header) = Header::parse(send.bytes) else {
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
                    self.end(slot, outcome, peers, report);
                }
            }
            Kind::Other => {}
        }
        if let Some(rkey) = send.invalidated.filter(|_| self.observe == Observe::All) {
            self.observe_revoked(rkey, (send.seen, header.xid), from, peers, report);
        }
        (kind, call)
    }

    /// Notes that a packet acknowledges the Send of a call, unless its transaction has ended.
    pub(crate) fn note_acknowledged(&mut self, call: Slot, seen: Seen) {
        if let Some(open) = self.find(call) {
            open.transaction.timing.acknowledged.get_or_insert(seen);
        }
    }

    /// What a Send is. Where it does not say so itself, an XID that the other end waits for means a reply.
    fn kind(&self, header: &Header<'_>, payload: Option<&[u8]>, from: End, peers: &Peers) -> Kind {
        let awaited = || if peers.sides[from.other()].awaits(header.xid) { Kind::Reply } else { Kind::Call };
        certain_kind(header, payload).unwrap_or_else(awaited)
    }

    /// Whether the responder has asked for memory of this call and not got all of it yet.
    #[inline]
    pub(crate) fn is_being_read(&self, call: Slot) -> bool {
        self.slots.get(call.index as usize).is_some_and(|open| open.is_being_read())
    }

    /// Ends what end `side` of a connection has open, because the connection or the capture is over.
    pub(crate) fn end_all(&mut self, outcome: Outcome, peers: &mut Peers, report: &mut Report<'_>) {
        let mut slots: Vec<Slot> = peers
            .sides
            .iter()
            .flat_map(|side| side.calls.values().chain(side.pulls.values()))
            .copied()
            .collect();
        slots.sort_by_key(|slot| self.slots[slot.index as usize].transaction.begun);
        for slot in slots {
            let Some(open) = self.find(slot) else { continue };
            let outcome = outcome_of(&open.transaction, outcome);
            self.end(slot, outcome, peers, report);
        }
    }

    /// Those that are open, in the order in which they began; `peers`: the ends of the connection that is kept at a place.
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

    /// Bytes of memory that a clone takes up beside itself.
    pub(crate) fn footprint(&self) -> usize {
        let keeping = if self.keep == Keep::default() { 0 } else { self.open * size_of::<Keeping>() };
        self.slots.len() * size_of::<Open>()
            + self.free.len() * size_of::<u32>()
            + self.order.len() * size_of::<Slot>()
            + keeping
            + self.weight
            + self.gathered
            + self.kept
            + self.unclaimed.footprint()
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Tells the open transactions of `peers` that they belong to it: after two half-flows became one connection.
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

    /// Counts anew what the lists of a transaction take up.
    fn reweigh(&mut self, slot: Slot) {
        let open = &mut self.slots[slot.index as usize];
        let before = core::mem::replace(&mut open.weight, 0);
        open.weight = open.weigh() + open.scattered;
        self.weight = self.weight - before + open.weight;
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
        let slot = Slot { index, generation: open.generation };
        self.open += 1;
        // Ended ones stay in the order until they come up; it is swept before they are the greater part of it.
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

    /// Ends a transaction: takes it out of every table, reports it, and keeps its memory for the next one.
    fn end(&mut self, slot: Slot, outcome: Outcome, peers: &mut Peers, report: &mut Report<'_>) {
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
        for placed in &open.segments {
            let owner = if placed.of_reply { open.caller.other() } else { open.caller };
            peers.sides[owner].memory.withdraw(&placed.segment, slot);
        }
        self.weight -= core::mem::take(&mut open.weight);
        self.open -= 1;
        self.free.push(slot.index);

        let gap = peers.missing_packets > open.missing_before;
        open.conclude(outcome, gap);
        open.transaction.lossy = self.observe != Observe::Nothing && gap;
        let roles_known = peers.requester.is_some();
        message::infer_requester(open, open.caller, peers);
        if self.observe != Observe::Nothing && !roles_known && peers.requester.is_some() {
            peers.observe(Observed::RolesKnown, report);
        }
        if let Some(keeping) = open.keeping.take() {
            self.kept -= keeping.bytes();
            let flows = [peers.flows[open.caller], peers.flows[open.caller.other()]];
            open.transaction.exchange = Some(Box::new(keeping.into_exchange(open, flows)));
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

/// The open transaction that is meant, where it has not ended.
fn find(slots: &mut [Open], slot: Slot) -> Option<&mut Open> {
    let open = slots.get_mut(slot.index as usize);
    open.filter(|open| open.is_open && open.generation == slot.generation)
}

/// How a transaction ends that is open still; `without_reply`: what it is where no reply was seen.
fn outcome_of(transaction: &Transaction, without_reply: Outcome) -> Outcome {
    match (&transaction.call, &transaction.reply) {
        (_, None) => without_reply,
        (None, Some(_)) => Outcome::NoCall,
        (Some(_), Some(_)) => Outcome::Completed,
    }
}

/// The bytes behind the header: the Payload stream of an RDMA_MSG. `None` where it is in a chunk, or where it is not known where the
/// header ends.
fn payload_of<'a>(header: &Header<'_>, message: &'a [u8]) -> Option<&'a [u8]> {
    match header.procedure {
        Procedure::Msg | Procedure::Msgp if header.stop.is_none() && header.version == VERSION => {
            Some(&message[header.length..])
        }
        _ => None,
    }
}

/// Whether a Send on a connection that nothing is known of looks like RPC-over-RDMA version 1.
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

/// What a Send says itself that it is: RPC messages do. `None` where none can be read here.
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
        // A Long Call is in a Position Zero Read chunk; a Long Reply is in the Reply chunk, or, after the reliable-reply
        // draft, in a Position Zero Read chunk too.
        Procedure::Nomsg if header.reads.is_empty() && header.reply.is_some() => Some(Kind::Reply),
        _ => None,
    }
}

/// Whether the Send at the front of `message` could be the reply to a call with its XID.
pub(crate) fn reply_xid(message: &[u8]) -> Option<Xid> {
    let header = Header::parse(message).ok()?;
    let payload = payload_of(&header, message);
    let is_call = matches!(payload.map(rpc::peek), Some(Ok((_, rpc::Kind::Call))));
    (header.version == VERSION
        && !is_call
        && !matches!(header.procedure, Procedure::Unknown(_) | Procedure::Done))
    .then_some(header.xid)
}
