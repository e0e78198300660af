//! Connections with equal addresses and numbers in different networks: which of them a packet
//! belongs to.
//!
//! VLANs and virtual networks may have equal addresses, and some senders number queue pairs from
//! the same value on. So an end has the [contexts](crate::frame::Frame::context) of its packets. A
//! packet in another context belongs to the end if it is a copy, if no packet of the end was seen
//! yet, or if it continues the end's packets or answers the other end. Otherwise it belongs to
//! another network.

use super::copies::First;
use super::ends::{EndRef, Speaker};
use super::iwarp::TcpFlow;
use super::sessions::Sessions;
use crate::connection::{Contexts, FlowKey};
use crate::frame::{Address, Segment};
use crate::rc::Packet;
use rdmascope_wire::cm::CommunicationId;

impl Sessions {
    /// The contexts of an end.
    pub(super) fn contexts(&self, place: EndRef) -> Contexts {
        self.get(place.session).map(|session| session.ends[place.end].contexts).unwrap_or_default()
    }

    /// Whether an end began to send in this context.
    #[inline]
    pub(super) fn begins_in(&mut self, place: EndRef, context: u32) -> bool {
        self.session(place.session).ends[place.end].contexts.begins_with(context)
    }

    /// Notes that an end sends in this context.
    pub(super) fn note_context(&mut self, place: EndRef, context: u32) {
        self.session(place.session).ends[place.end].contexts.note(context);
    }

    /// Whether two connections are in different networks. The ends have the same role.
    pub(super) fn are_apart(&self, one: EndRef, other: EndRef) -> bool {
        let both = [(one, other), (one.other(), other.other())];
        both.into_iter().any(|(one, other)| self.contexts(one).is_apart(&self.contexts(other)))
    }

    /// Finds the end that sends this packet, and notes its context.
    #[cold]
    pub(super) fn find_in(&mut self, key: &FlowKey, context: u32, packet: &Packet<'_>) -> Option<EndRef> {
        self.note_hosts(key.source, key.destination, context);
        let continues = |place: EndRef| {
            self.get(place.session).is_some_and(|session| session.continues(place.end, packet))
        };
        let place = self.choose(self.flows.all(key), context, continues)?;
        self.note_context(place, context);
        Some(place)
    }

    /// The same for a segment.
    pub(super) fn find_segment(&mut self, flow: &TcpFlow, segment: &Segment<'_>) -> Option<EndRef> {
        let continues = |place: EndRef| {
            self.get(place.session).is_some_and(|session| session.continues_stream(place.end, segment))
        };
        let place = if segment.syn {
            // It belongs to no connection yet, or ends one; or it answers the SYN of one.
            let answers = |place: EndRef| {
                !segment.is_request()
                    && self.contexts(place.other()).has(segment.context)
                    && self.get(place.session).is_some_and(|session| session.handshake().is_some())
            };
            let is_it = |place: &EndRef| self.contexts(*place).has(segment.context) || answers(*place);
            self.tcp.all(flow).find(is_it)?
        } else {
            self.choose(self.tcp.all(flow), segment.context, continues)?
        };
        self.note_context(place, segment.context);
        Some(place)
    }

    fn choose(
        &self,
        ends: impl Iterator<Item = EndRef> + Clone,
        context: u32,
        continues: impl Fn(EndRef) -> bool,
    ) -> Option<EndRef> {
        let find = |is_it: &dyn Fn(EndRef) -> bool| ends.clone().find(|place| is_it(*place));
        let is_new = |place: EndRef| self.contexts(place).is_empty();
        find(&|place| self.contexts(place).has(context))
            .or_else(|| find(&|place| is_new(place) && self.contexts(place.other()).has(context)))
            .or_else(|| find(&is_new))
            .or_else(|| find(&continues))
    }

    /// The end that sends this flow in this context, or else in any.
    pub(super) fn find_flow(&self, key: &FlowKey, context: u32) -> Option<EndRef> {
        self.in_context(self.flows.all(key), context)
    }

    /// The end that sends this TCP flow in this context, or else in any.
    #[inline]
    pub(super) fn find_tcp(&self, flow: &TcpFlow, context: u32) -> Option<EndRef> {
        let first = self.tcp.get(flow)?;
        if !self.tcp.has_others() { Some(first) } else { self.in_context(self.tcp.all(flow), context) }
    }

    fn in_context(&self, ends: impl Iterator<Item = EndRef> + Clone, context: u32) -> Option<EndRef> {
        ends.clone().find(|place| self.contexts(*place).has(context)).or_else(|| ends.clone().next())
    }

    /// The end that sent a copy, by the first sighting. From now on it also sends in the context of
    /// the copy.
    pub(super) fn find_copied(&mut self, key: &FlowKey, first: First, context: u32) -> Option<EndRef> {
        let place = self.find_flow(key, first.context)?;
        let is_known = self.flows.all(key).any(|end| self.contexts(end).has(context));
        self.join_context(is_known, place, context);
        Some(place)
    }

    /// The same for a segment.
    pub(super) fn find_copied_segment(
        &mut self,
        flow: &TcpFlow,
        first: First,
        context: u32,
    ) -> Option<EndRef> {
        let place = self.find_tcp(flow, first.context)?;
        let is_known = self.tcp.all(flow).any(|end| self.contexts(end).has(context));
        self.join_context(is_known, place, context);
        Some(place)
    }

    fn join_context(&mut self, is_known: bool, place: EndRef, context: u32) {
        if !is_known {
            self.note_context(place, context);
        }
    }

    /// The end with this communication ID, which a message in this context names. A message other
    /// than a REQ may have come by another way.
    pub(super) fn find_exchange(
        &self,
        address: Address,
        id: CommunicationId,
        speaker: Speaker,
        context: u32,
    ) -> Option<EndRef> {
        let ends = self.exchanges.all(&(address, id));
        let speaks = |place: EndRef| match speaker {
            Speaker::Named => place,
            Speaker::Other => place.other(),
        };
        ends.clone()
            .find(|place| self.contexts(speaks(*place)).has(context))
            .or_else(|| ends.clone().find(|place| self.contexts(speaks(*place)).is_empty()))
    }

    /// The same, or else the end with this ID in any context.
    pub(super) fn find_exchange_anywhere(
        &self,
        address: Address,
        id: CommunicationId,
        speaker: Speaker,
        context: u32,
    ) -> Option<EndRef> {
        self.find_exchange(address, id, speaker, context).or_else(|| self.exchanges.get(&(address, id)))
    }
}
