//! TCP handshakes of iWARP clients that servers do not answer, or refuse.
//!
//! The engine follows an iWARP connection from its first data on. A connection also begins here with
//! a SYN that the client repeats, or that a RST answers: without it, a client that asks in vain would
//! leave no trace. Later attempts of such a client begin with their SYN too, so the capture shows that
//! one was answered even if it lacks the data.

use super::Stage;
use super::ends::EndRef;
use super::iwarp::TcpFlow;
use crate::frame::{Address, Segment};
use crate::observation::HandshakeStep;
use crate::rdma::End;
use crate::record::Seen;
use alloc::collections::VecDeque;
use rdmascope_wire::rpcrdma::NFS_PORT;

/// The handshakes that have no answer yet. Lists are bounded; the oldest entry is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Handshakes {
    syns: VecDeque<Syn>,
    /// Ports that are known to accept iWARP connections, besides [`NFS_PORT`].
    listeners: VecDeque<(Address, u16)>,
    /// The clients that asked in vain, and what they asked for.
    failed: VecDeque<Attempt>,
}

/// A client, the address and the port of the server, and the context.
type Attempt = (Address, Address, u16, u32);

/// A SYN without an answer.
#[derive(Clone, Copy, Debug)]
struct Syn {
    flow: TcpFlow,
    context: u32,
    sequence: u32,
    seen: Seen,
}

/// The shortest time in nanoseconds until a client tries again. TCP repeats a SYN after 1 s (RFC 6298,
/// section 2); a repetition that comes much earlier is a copy.
const RETRY: u64 = 900_000_000;

impl Handshakes {
    /// Maximum number of entries of a list.
    const MOST: usize = 64;

    /// Notes that a port accepts iWARP connections.
    pub(super) fn listens(&mut self, address: Address, port: u16) {
        if !self.is_listener(address, port) {
            push(&mut self.listeners, (address, port));
        }
    }

    fn is_listener(&self, address: Address, port: u16) -> bool {
        port == NFS_PORT || self.listeners.contains(&(address, port))
    }

    fn find(&self, is_it: impl Fn(&Syn) -> bool) -> Option<Syn> {
        self.syns.iter().find(|syn| is_it(syn)).copied()
    }

    /// Forgets the SYN of a flow.
    pub(super) fn remove(&mut self, flow: TcpFlow, context: u32) {
        self.syns.retain(|syn| !syn.is_of(flow, context));
    }

    /// Bytes of memory on the heap that a clone uses.
    pub(super) fn footprint(&self) -> usize {
        self.syns.len() * size_of::<Syn>()
            + self.listeners.len() * size_of::<(Address, u16)>()
            + self.failed.len() * size_of::<Attempt>()
    }
}

fn push<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() == Handshakes::MOST {
        list.pop_front();
    }
    list.push_back(entry);
}

impl Syn {
    fn is_of(&self, flow: TcpFlow, context: u32) -> bool {
        self.flow == flow && self.context == context
    }

    fn attempt(&self) -> Attempt {
        let TcpFlow(client, _, server, port) = self.flow;
        (client, server, port, self.context)
    }

    /// Whether a SYN follows so soon that this one may still be answered.
    fn is_just_before(&self, later: &Syn) -> bool {
        later.seen.time.since(self.seen.time) < RETRY
    }
}

/// Whether a segment of a server refuses the SYN with this sequence number: a RST that acknowledges it
/// (RFC 9293, section 3.5.2).
fn refuses(segment: &Segment<'_>, sequence: u32) -> bool {
    segment.rst && segment.acknowledgement == Some(sequence.wrapping_add(1))
}

/// Whether a segment of a client shows that the server has answered its SYN.
fn confirms(segment: &Segment<'_>) -> bool {
    !segment.rst && segment.acknowledgement.is_some()
}

impl Stage<'_> {
    /// Handles a segment of a TCP connection that the engine does not follow.
    #[inline]
    pub(super) fn handshake(&mut self, flow: TcpFlow, segment: &Segment<'_>, seen: Seen) {
        if segment.is_request() {
            self.request(flow, segment, seen);
        } else if !self.sessions.handshakes.syns.is_empty() {
            self.answer(flow, segment, seen);
        }
    }

    /// Handles a SYN.
    fn request(&mut self, flow: TcpFlow, segment: &Segment<'_>, seen: Seen) {
        let handshakes = &mut self.sessions.handshakes;
        if !handshakes.is_listener(segment.destination, segment.ports[1]) {
            return;
        }
        let Segment { context, sequence, .. } = *segment;
        let syn = Syn { flow, context, sequence, seen };
        let is_same = |earlier: &Syn| earlier.is_of(flow, context) && earlier.sequence == sequence;
        match handshakes.find(is_same) {
            Some(earlier) if earlier.is_just_before(&syn) => {}
            Some(earlier) => {
                handshakes.remove(flow, context);
                let client = self.fail(&earlier);
                self.take_handshake(client, seen, HandshakeStep::Syn);
            }
            None => {
                handshakes.remove(flow, context);
                let is_earlier = |it: &Syn| it.attempt() == syn.attempt() && !it.is_just_before(&syn);
                let earlier = handshakes.find(is_earlier);
                push(&mut handshakes.syns, syn);
                if let Some(earlier) = earlier {
                    self.sessions.handshakes.remove(earlier.flow, earlier.context);
                    self.fail(&earlier);
                }
            }
        }
    }

    /// Handles a segment that may refuse a SYN, or with which the client confirms the answer.
    fn answer(&mut self, flow: TcpFlow, segment: &Segment<'_>, seen: Seen) {
        let handshakes = &mut self.sessions.handshakes;
        let is_refused = |syn: &Syn| syn.flow == flow.reversed() && refuses(segment, syn.sequence);
        if let Some(syn) = handshakes.find(is_refused) {
            handshakes.remove(syn.flow, syn.context);
            let client = self.fail(&syn);
            self.take_handshake(client.other(), seen, HandshakeStep::Reset);
        } else if let Some(syn) = handshakes.find(|syn| syn.is_of(flow, segment.context) && confirms(segment))
        {
            handshakes.remove(syn.flow, syn.context);
            if handshakes.failed.contains(&syn.attempt()) {
                let client = self.open(&syn);
                self.take_handshake(client, seen, HandshakeStep::Ack);
            }
        }
    }

    /// Adds the connection that a SYN asks for in vain. Returns the client's end.
    fn fail(&mut self, syn: &Syn) -> EndRef {
        let failed = &mut self.sessions.handshakes.failed;
        if !failed.contains(&syn.attempt()) {
            push(failed, syn.attempt());
        }
        self.open(syn)
    }

    /// Adds the connection that a SYN asks for. Returns the client's end.
    fn open(&mut self, syn: &Syn) -> EndRef {
        let client = self.add_iwarp(syn.flow, syn.context, syn.seen.time);
        self.sessions.session(client.session).begin_with_syn(client.end, syn.seen, syn.sequence);
        self.take_handshake(client, syn.seen, HandshakeStep::Syn);
        client
    }

    /// Handles a segment without data of a connection that began with a SYN.
    pub(super) fn continue_handshake(
        &mut self,
        place: EndRef,
        flow: TcpFlow,
        segment: &Segment<'_>,
        seen: Seen,
    ) {
        let Some((sequence, step)) = self.sessions.session(place.session).handshake() else { return };
        let is_client = place.end == End::First;
        if is_client && segment.is_request() && segment.sequence != sequence {
            self.end_iwarp(place);
            self.request(flow, segment, seen);
        } else if is_client && segment.is_request() {
            self.take_handshake(place, seen, HandshakeStep::Syn);
        } else if is_client && step == HandshakeStep::Syn && confirms(segment) {
            self.take_handshake(place, seen, HandshakeStep::Ack);
        } else if !is_client && refuses(segment, sequence) {
            self.take_handshake(place, seen, HandshakeStep::Reset);
        }
    }

    /// Reports a segment of a handshake. A RST ends the connection.
    fn take_handshake(&mut self, from: EndRef, seen: Seen, step: HandshakeStep) {
        let session = self.sessions.session(from.session);
        session.take_handshake(from.end, seen, step, self.transactions, self.report);
        if step == HandshakeStep::Reset {
            self.sessions.end(from.session, self.transactions, self.report);
        }
    }
}
