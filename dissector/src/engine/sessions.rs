//! The table of connections, and the pairing of half-flows.

use super::ends::{EndRef, Ends};
use super::handshakes::Handshakes;
use super::iwarp::TcpFlow;
use crate::connection::{ConnectionId, Contexts, Evidence, FlowKey, HostPairs, Origin, State};
use crate::event::{Event, Eviction, Report};
use crate::frame::Address;
use crate::observation::Observed;
use crate::rc::Packet;
use crate::rdma::End;
use crate::record::Time;
use crate::rpcrdma::{BuildHasher, Transactions};
use crate::session::{Hint, Session};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rdmascope_wire::cm::CommunicationId;
use rdmascope_wire::psn::Psn;

/// The table of connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    free: Vec<u32>,
    pub(super) flows: Ends<FlowKey>,
    /// Flows of iWARP connections.
    pub(super) tcp: Ends<TcpFlow>,
    /// Recent flows, by the low bits of their queue pairs. Most packets belong to one of them.
    recent: Recent,
    /// Connections with only one known half-flow, by its source and destination.
    unpaired: HashMap<(Address, Address), Vec<u32>, BuildHasher>,
    /// Ends by the communication IDs of CM messages.
    pub(super) exchanges: Ends<(Address, CommunicationId)>,
    /// Connections that a CM message closed and that time wait has not ended, with the time of
    /// their last packet; the first closed first.
    closed: VecDeque<(ConnectionId, u32, Time)>,
    /// Places and [orders](Session::order) of connections with few packets, the oldest first. Some
    /// have ended since, or have more packets now.
    slight: VecDeque<(u32, u32)>,
    /// Where the search for a connection to evict continues.
    hand: usize,
    seen: u32,
    /// Connections with a number of their own that became the other half of an earlier one.
    joined: u32,
    /// The pairs of hosts with packets.
    host_pairs: HostPairs,
    /// Bytes held back by all connections.
    buffered: usize,
    /// TCP handshakes without an answer.
    pub(super) handshakes: Handshakes,
}

/// A cache of flows, found without hashing. It is emptied whenever a flow changes its place.
#[derive(Clone, Debug)]
struct Recent([Option<(FlowKey, EndRef)>; Recent::MOST]);

impl Recent {
    const MOST: usize = 64;

    #[inline]
    fn index(key: &FlowKey) -> usize {
        key.destination_qp.0 as usize % Recent::MOST
    }
}

impl Default for Recent {
    fn default() -> Recent {
        Recent([None; Recent::MOST])
    }
}

/// Maximum number of connections.
const MOST: usize = 8192;
/// From this number of connections on, the first records of flows are [held](super::newcomers).
const CROWD: usize = 512;
/// Nanoseconds of silence after which a closed connection ends. By then its packets have arrived or
/// are lost: CM itself keeps a queue pair unused for as long as packets may be in flight (IBTA
/// volume 1, section 12.9, state TimeWait).
const TIME_WAIT: u64 = 10_000_000_000;
/// Maximum bytes held back by all connections: packets after gaps, incomplete Sends, unanswered
/// READs.
const MOST_BUFFERED: usize = 16 << 20;
/// Maximum number of packets of a half-flow without a connection number, if it is the only one
/// between its hosts.
const FEW: u64 = 64;
/// The same if it may be paired with another: the responses to an RDMA READ of 1 MiB at a path MTU
/// of 1024 bytes.
const MANY: u64 = 1024;
/// Maximum number of connections between two addresses that are examined to pair a half-flow.
const MOST_CANDIDATES: usize = 64;

impl Sessions {
    /// The number of connections so far. `numbered` is the number of connection numbers assigned.
    pub(super) fn count(&self, numbered: u32) -> u64 {
        u64::from(numbered - self.joined)
    }

    #[inline]
    pub(super) fn find(&mut self, key: &FlowKey, context: u32) -> Option<EndRef> {
        match &self.recent.0[Recent::index(key)] {
            Some((recent, place)) if recent == key => Some(*place),
            _ => self.find_in_all(key, context),
        }
    }

    #[inline(never)]
    fn find_in_all(&mut self, key: &FlowKey, context: u32) -> Option<EndRef> {
        self.note_hosts(key.source, key.destination, context);
        let place = self.flows.get(key)?;
        self.recent.0[Recent::index(key)] = Some((*key, place));
        Some(place)
    }

    /// Assigns a flow to an end, and its opposite direction to the other end.
    pub(super) fn claim_tcp(&mut self, flow: TcpFlow, place: EndRef) {
        self.tcp.insert(flow, place);
        self.tcp.insert(flow.reversed(), place.other());
    }

    /// Notes that a host sent a packet to another in this context.
    pub(super) fn note_hosts(&mut self, source: Address, destination: Address, context: u32) {
        self.host_pairs.note(source, destination, &Contexts::from(context));
    }

    #[inline]
    pub(super) fn session(&mut self, index: u32) -> &mut Session {
        self.slots[index as usize].as_mut().expect("the tables refer only to places with a session")
    }

    /// The connection at this place.
    pub(super) fn get(&self, index: u32) -> Option<&Session> {
        self.slots.get(index as usize)?.as_deref()
    }

    /// All connections, in the order of their places.
    pub(super) fn all(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        let unpaired = self.unpaired.values().map(|sessions| sessions.len() * size_of::<u32>());
        self.slots.len() * size_of::<Option<Box<Session>>>()
            + self.all().map(Session::footprint).sum::<usize>()
            + self.free.len() * size_of::<u32>()
            + self.flows.footprint()
            + self.tcp.footprint()
            + self.unpaired.allocation_size()
            + unpaired.sum::<usize>()
            + self.exchanges.footprint()
            + self.host_pairs.footprint()
            + self.handshakes.footprint()
            + self.closed.len() * size_of::<(ConnectionId, u32, Time)>()
            + self.slight.len() * size_of::<(u32, u32)>()
    }

    /// Whether the table has `crowd` connections, so that a new one needs two records.
    pub(super) fn is_crowded(&self, crowd: Option<u32>) -> bool {
        self.len() >= crowd.map_or(CROWD, |crowd| crowd as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Ends the connections that are over by `now`, and makes room for one more.
    pub(super) fn make_room(&mut self, now: Time, transactions: &mut Transactions, report: &mut Report<'_>) {
        self.retire(now, transactions, report);
        if self.len() >= MOST {
            self.evict_one(transactions, report);
        }
    }

    /// Adds a connection between two addresses. Makes room for it first, unless its record was
    /// held: then the caller has done so.
    pub(super) fn add(
        &mut self,
        addresses: [Address; 2],
        now: Time,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) -> u32 {
        if !transactions.is_late {
            self.make_room(now, transactions, report);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.seen = self.seen.saturating_add(1);
        let mut session = Session::new(self.seen, index, addresses, now, transactions.dropped);
        if transactions.observes() {
            session.watch();
        }
        self.slots[index as usize] = Some(Box::new(session));
        self.note_slight(index);
        index
    }

    /// Notes that a new connection has few packets.
    fn note_slight(&mut self, index: u32) {
        if self.slight.len() >= 2 * MOST {
            let Sessions { slots, slight, .. } = self;
            slight.retain(|(index, order)| find(slots, *index, *order).is_some());
        }
        self.slight.push_back((index, self.seen));
    }

    /// Whether a connection is the latest one and has at most one packet.
    pub(super) fn is_new(&self, index: u32) -> bool {
        let packets = |session: &Session| End::BOTH.map(|end| session.packets(end)).iter().sum::<u64>();
        self.get(index).is_some_and(|session| session.order() == self.seen && packets(session) <= 1)
    }

    /// Whether a packet of an unknown flow answers an unpaired half-flow.
    pub(super) fn is_answer(&self, key: &FlowKey, packet: &Packet<'_>) -> bool {
        let Some(candidates) = self.unpaired.get(&(key.destination, key.source)) else { return false };
        candidates.iter().rev().take(MOST_CANDIDATES).any(|candidate| {
            self.get(*candidate).is_some_and(|session| {
                session.evidence(session.known_side(), packet, packet.seen.time).is_some()
            })
        })
    }

    /// Notes that a CM message closes a connection. The connection ends after a silence of
    /// [`TIME_WAIT`].
    pub(super) fn close(&mut self, index: u32, transactions: &mut Transactions, report: &mut Report<'_>) {
        let session = self.session(index);
        let was_closed = session.state == State::Closed;
        session.close(transactions, report);
        let entry = (session.peers.connection(), index, session.span.1);
        if was_closed {
            return;
        }
        // A connection that is dropped from this queue stays until it is evicted from the table.
        if self.closed.len() == MOST {
            self.closed.pop_front();
        }
        self.closed.push_back(entry);
    }

    /// The connections with a wait that expires by `now`.
    pub(super) fn due(&self, now: Time) -> Vec<u32> {
        let is_due = |session: &Session| session.deadline().is_some_and(|deadline| deadline <= now);
        (0..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| slot.as_deref().filter(|s| is_due(s)).map(|_| index))
            .collect()
    }

    /// The next time at which a wait or a closed connection ends.
    pub(super) fn deadline(&self) -> Option<Time> {
        let closed = self.closed.front().map(|(_, _, last)| last.plus(TIME_WAIT));
        self.all().filter_map(Session::deadline).chain(closed).min()
    }

    /// Ends closed connections that were silent for long enough.
    pub(super) fn retire(&mut self, now: Time, transactions: &mut Transactions, report: &mut Report<'_>) {
        while let Some(&(id, index, last)) = self.closed.front()
            && now.since(last) >= TIME_WAIT
        {
            self.closed.pop_front();
            let session =
                self.slots[index as usize].as_ref().filter(|session| session.peers.number() == Some(id));
            match session.map(|session| session.span.1) {
                Some(spoke) if spoke > last => self.closed.push_back((id, index, spoke)),
                Some(_) => self.end(index, transactions, report),
                // It has already ended.
                None => {}
            }
        }
    }

    /// Assigns packets with this key to an end. A connection that they belonged to before is over.
    pub(super) fn claim(
        &mut self,
        key: FlowKey,
        place: EndRef,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        let is_earlier = |other: &EndRef| other.session != place.session && !self.are_apart(*other, place);
        let earlier = self.flows.all(&key).find(is_earlier);
        if let Some(earlier) = earlier {
            self.session(earlier.session).replaced();
            self.end(earlier.session, transactions, report);
        }
        // A repeated REP may name another queue pair than the first.
        if let Some(former) =
            self.session(place.session).peers.flows[place.end].filter(|former| *former != key)
        {
            self.flows.remove(&former, place.session);
        }
        self.forget_unpaired(place.session);
        self.flows.insert(key, place);
        self.recent = Recent::default();
        let session = self.session(place.session);
        session.peers.flows[place.end] = Some(key);
        session.ends[place.end.other()].qpn = Some(key.destination_qp);
        session.peers.paired = session.peers.flows.iter().all(Option::is_some);
        if !session.peers.paired {
            self.unpaired.entry((key.source, key.destination)).or_default().push(place.session);
        }
    }

    /// Registers the communication ID of an end.
    pub(super) fn name(&mut self, address: Address, id: CommunicationId, place: EndRef) {
        self.forget_name(place);
        let is_earlier = |other: &EndRef| other.session != place.session && !self.are_apart(*other, place);
        let earlier = self.exchanges.all(&(address, id)).find(is_earlier);
        if let Some(earlier) = earlier {
            self.exchanges.remove(&(address, id), earlier.session);
        }
        self.exchanges.insert((address, id), place);
        let end = &mut self.session(place.session).ends[place.end];
        end.communication_id = Some((address, id));
    }

    /// Unregisters the communication ID of an end. An end without an ID must not have an entry in
    /// the table.
    fn forget_name(&mut self, place: EndRef) {
        let name = self.session(place.session).ends[place.end].communication_id.take();
        if let Some(name) = name {
            self.exchanges.remove(&name, place.session);
        }
    }

    /// Adopts a kernel's report for the connection of the first half-flow. Until
    /// [`Sessions::confirm_hint`], the second half-flow may turn out to be another. Returns false if
    /// the second one belongs to another connection already.
    pub(super) fn adopt_hint(
        &mut self,
        index: u32,
        hint: Hint,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) -> bool {
        let second = hint.other().flow();
        if self.flows.get(&second).is_some() {
            return false;
        }
        self.claim(second, EndRef { session: index, end: End::Second }, transactions, report);
        let session = self.session(index);
        session.adopt_hint(hint);
        let first = hint.flow();
        self.unpaired.entry((first.source, first.destination)).or_default().push(index);
        true
    }

    /// Confirms the kernel's report, once the second half-flow has fitted it.
    pub(super) fn confirm_hint(&mut self, index: u32) {
        self.forget_unpaired(index);
        self.session(index).hint = None;
    }

    /// Withdraws the kernel's report of a connection: only its first half-flow stays known.
    pub(super) fn withdraw_hint(&mut self, index: u32) {
        self.forget_unpaired(index);
        let session = self.session(index);
        let [first, second] = session.withdraw_hint();
        if let Some(second) = second {
            self.flows.remove(&second, index);
        }
        if let Some(first) = first {
            self.unpaired.entry((first.source, first.destination)).or_default().push(index);
        }
        self.recent = Recent::default();
    }

    /// Finds the connection that the packet of an unpaired half-flow belongs to, and pairs the two.
    /// Also returns whether that contradicts a kernel's report.
    pub(super) fn pair(
        &mut self,
        place: EndRef,
        key: &FlowKey,
        packet: &Packet<'_>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) -> Option<(EndRef, bool)> {
        // With several networks, the same one comes first.
        let near = || self.flows.has_others().then(|| self.find_other_half(place, key, packet, true));
        let found = near().flatten().or_else(|| self.find_other_half(place, key, packet, false));
        let (found, evidence) = found?;
        let contradicts = self.session(found).hint.is_some();
        if contradicts {
            self.withdraw_hint(found);
        }
        Some((self.join(found, place.session, evidence, transactions, report), contradicts))
    }

    /// Finds the only half-flow that this packet of another one fits. `near`: among those in a
    /// context of the packet's half-flow.
    fn find_other_half(
        &self,
        place: EndRef,
        key: &FlowKey,
        packet: &Packet<'_>,
        near: bool,
    ) -> Option<(u32, Evidence)> {
        let candidates = self.unpaired.get(&(key.destination, key.source))?;
        let since = self.get(place.session)?.span.0;
        let contexts = self.contexts(place);
        let mut fitting = candidates
            .iter()
            .rev()
            .take(MOST_CANDIDATES)
            .filter(|candidate| **candidate != place.session)
            .filter_map(|candidate| {
                let session = self.get(*candidate)?;
                if near && contexts.is_apart(&session.ends[session.known_side()].contexts) {
                    return None;
                }
                Some((*candidate, session.evidence(session.known_side(), packet, since)?))
            });
        let found = fitting.next()?;
        // A match with more than one connection is no evidence: two connections between the same
        // hosts may have similar PSNs or XIDs.
        if fitting.next().is_some() { None } else { Some(found) }
    }

    /// Gives a half-flow without events other than packets its number after many packets, or after
    /// few if no half-flow of the other direction waits to be paired.
    #[cold]
    pub(super) fn number_at_last(&mut self, place: EndRef, key: &FlowKey, transactions: &mut Transactions) {
        let is_alone = !self.unpaired.contains_key(&(key.destination, key.source));
        let session = self.session(place.session);
        if session.packets(place.end) > if is_alone { FEW } else { MANY } {
            transactions.number(&mut session.peers);
        }
    }

    /// Joins a connection and the half-flow of its end `active` that a REP announces, if the capture
    /// shows the first packets of the half-flow before the REP. Returns the new place of that end.
    pub(super) fn join_announced(
        &mut self,
        (key, active): (&FlowKey, EndRef),
        (first, now): (Psn, Time),
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) -> Option<EndRef> {
        let is_announced = |other: &EndRef| {
            let session = self.get(other.session).filter(|_| other.session != active.session);
            session.is_some_and(|session| session.is_announced(first, now)) && !self.are_apart(*other, active)
        };
        // Without its REQ, no flow of the connection is known.
        let flows = self.get(active.session)?.peers.flows;
        let [own, other] = [active.end, active.end.other()].map(|end| flows[end]);
        let early = self.flows.all(key).find(is_announced).filter(|_| own.is_none() && other.is_some())?;
        Some(self.join(active.session, early.session, Evidence::default(), transactions, report))
    }

    /// Merges two connections into the one that was seen first. Returns the new place of the
    /// half-flow of `second`.
    fn join(
        &mut self,
        first: u32,
        second: u32,
        evidence: Evidence,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) -> EndRef {
        // A connection with CM messages has more parameters than one without.
        let rank = |session: &Session| (session.origin != Origin::Cm, session.rank());
        let (stays, goes) = if rank(self.session(first)) <= rank(self.session(second)) {
            (first, second)
        } else {
            (second, first)
        };
        self.forget_unpaired(stays);
        self.forget_unpaired(goes);
        let gone = self.take(goes);
        self.joined += u32::from(gone.peers.number().is_some());
        let stays_side = self.session(stays).known_side().other();
        let moved = EndRef { session: stays, end: stays_side };
        if let Some(key) = gone.peers.flows[gone.known_side()] {
            self.flows.insert(key, moved);
        }
        self.recent = Recent::default();
        let session = self.session(stays);
        let known_as = gone.peers.number();
        session.join(*gone, evidence);
        transactions.number(&mut session.peers);
        if transactions.observes() {
            session.peers.observe(Observed::Joined(known_as), report);
        }
        for side in End::BOTH {
            if let Some(name) = self.session(stays).ends[side].communication_id {
                let place = EndRef { session: stays, end: side };
                let is_apart = |other: EndRef| other.session != stays && self.are_apart(other, place);
                let is_new = self.exchanges.all(&name).all(is_apart);
                if is_new {
                    self.exchanges.insert(name, place);
                }
            }
        }
        let session = self.session(stays);
        transactions.adopt(&session.peers);
        if second == goes { moved } else { EndRef { session: stays, end: stays_side.other() } }
    }

    /// Ends every connection, in the order of their numbers. Connections without a number receive
    /// one in the order in which they were first seen.
    pub(super) fn end_all(
        &mut self,
        over: Option<Time>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        let mut sessions: Vec<Box<Session>> = self.slots.drain(..).flatten().collect();
        sessions.sort_by_key(|session| session.rank());
        let host_pairs = core::mem::take(&mut self.host_pairs);
        *self = Sessions { seen: self.seen, joined: self.joined, ..Sessions::default() };
        for session in sessions {
            let captured = session.captured_ends(&host_pairs);
            session.end(captured, over, transactions, report);
        }
    }

    /// Ends a connection.
    pub(super) fn end(&mut self, index: u32, transactions: &mut Transactions, report: &mut Report<'_>) {
        self.forget_unpaired(index);
        let session = self.take(index);
        let captured = session.captured_ends(&self.host_pairs);
        session.end(captured, None, transactions, report);
    }

    /// Removes a connection and all references to it from the tables.
    fn take(&mut self, index: u32) -> Box<Session> {
        let session =
            self.slots[index as usize].take().expect("the tables refer only to places with a session");
        self.free.push(index);
        for key in session.peers.flows.into_iter().flatten() {
            self.flows.remove(&key, index);
        }
        if let Some(ports) = session.tcp_ports {
            let flow = TcpFlow::new([0, 1].map(|end: usize| session.ends[end].address), ports);
            for flow in [flow, flow.reversed()] {
                self.tcp.remove(&flow, index);
            }
        }
        for end in &session.ends {
            if let Some(name) = end.communication_id {
                self.exchanges.remove(&name, index);
            }
        }
        self.recent = Recent::default();
        self.buffered -= session.buffered;
        session
    }

    /// Updates the count of bytes that a connection holds back, and releases them if all
    /// connections together hold too much.
    #[inline]
    pub(super) fn settle(&mut self, index: u32, transactions: &mut Transactions, report: &mut Report<'_>) {
        let session = self.slots[index as usize].as_mut().expect("the connection has just handled a packet");
        let (before, now) = (session.buffered, session.count_buffered());
        self.buffered = self.buffered - before + now;
        if now > before && self.buffered > MOST_BUFFERED {
            session.release_buffered(transactions, report);
            self.buffered = self.buffered - now + session.count_buffered();
        }
    }

    fn forget_unpaired(&mut self, index: u32) {
        let Some(session) = self.slots[index as usize].as_ref() else { return };
        for key in session.peers.flows.into_iter().flatten() {
            let pair = (key.source, key.destination);
            if let Some(sessions) = self.unpaired.get_mut(&pair) {
                // Evicted connections are mostly among the oldest, at the front.
                while let Some(at) = sessions.iter().position(|session| *session == index) {
                    sessions.remove(at);
                }
                if sessions.is_empty() {
                    self.unpaired.remove(&pair);
                }
            }
        }
    }

    /// Evicts one connection: one with few packets if possible.
    pub(super) fn evict_one(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        let index = self.find_slight().unwrap_or_else(|| self.find_silent());
        self.evict(index, transactions, report);
    }

    /// Evicts a connection.
    pub(super) fn evict(&mut self, index: u32, transactions: &mut Transactions, report: &mut Report<'_>) {
        let session = self.session(index);
        transactions.number(&mut session.peers);
        report(Event::Eviction(Eviction::Connection(session.peers.connection())));
        self.end(index, transactions, report);
    }

    /// Finds the oldest connection with few packets that was silent since the last search.
    fn find_slight(&mut self) -> Option<u32> {
        while let Some((index, order)) = self.slight.pop_front() {
            match find(&mut self.slots, index, order) {
                Some(session) if session.recent && session.has_few_packets() => {
                    session.recent = false;
                    self.slight.push_back((index, order));
                }
                Some(session) if session.has_few_packets() => return Some(index),
                _ => {}
            }
        }
        None
    }

    /// Finds a connection that was silent since the last search.
    fn find_silent(&mut self) -> u32 {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            match &mut self.slots[self.hand] {
                Some(session) if session.recent => session.recent = false,
                Some(_) => return self.hand as u32,
                None => {}
            }
        }
    }
}

/// The connection at a place, if its order is this one.
fn find(slots: &mut [Option<Box<Session>>], index: u32, order: u32) -> Option<&mut Session> {
    slots.get_mut(index as usize)?.as_deref_mut().filter(|session| session.order() == order)
}

#[cfg(test)]
mod tests;
