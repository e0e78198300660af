//! How a connection was made, or why it was not.

use super::facts::Run;
use super::{SILENCE, TWICE};
use crate::names::Rejecting;
use rdmascope_dissector::observation::{Announced, Handshake, HandshakeStep, Meaning, Repeated};
use rdmascope_dissector::rdma::{End, Position};
use rdmascope_dissector::record::Seen;

/// The packets that requested, accepted or rejected a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// The packets that requested it.
    pub(super) requests: Option<Run>,
    /// For iWARP: the TCP sequence number of the MPA Request.
    position: Option<Position>,
    /// For iWARP: the TCP sequence number that the client expected next when it sent the request.
    pub(super) expects: Option<Position>,
    /// Whether the requester gave up because no answer came.
    pub(super) has_given_up: bool,
    /// The packet that accepted it.
    pub(super) reply: Option<Seen>,
    /// Whether that packet was repeated.
    pub(super) accepted_again: bool,
    /// The RTU.
    pub(super) ready: Option<Seen>,
    /// The packet that rejected it, whether the requester sent that packet, and the message.
    pub(super) rejected: Option<(Seen, bool, Rejecting)>,
    /// The latest segment of its TCP handshake, if an attempt of the client failed.
    pub(super) handshake: Option<Handshake>,
}

impl Setup {
    /// Whether a request is a copy of the last one.
    fn is_twice(&self, seen: Seen) -> bool {
        self.requests.is_some_and(|run| seen.time.since(run.last.time) <= TWICE)
    }

    /// The requests, and the packet that shows that the connection was made, if it was made late.
    pub(super) fn late(&self) -> Option<(Run, Seen)> {
        let (run, made) = self.requests.zip(self.ready.or(self.reply))?;
        (made.time.since(run.first.time) >= SILENCE).then_some((run, made))
    }

    /// Takes a packet that requests, accepts or rejects the connection.
    pub(super) fn announced(&mut self, announced: &Announced<'_>, requester: End) {
        let Announced { from, seen, meaning, .. } = *announced;
        match meaning {
            Meaning::Asks => {
                (self.position, self.expects) = (announced.position, announced.expects);
                self.asked(seen);
            }
            Meaning::Accepts => {
                let first = *self.reply.get_or_insert(seen);
                self.accepted_again |= seen.time.since(first.time) > TWICE;
            }
            Meaning::GivesUp => self.has_given_up = true,
            Meaning::Rejects(reason) => {
                let data = announced.private_data.first_chunk().copied().unwrap_or_default();
                let message = reason.map_or(Rejecting::MpaReply, |reason| Rejecting::Rej(reason, data));
                self.rejected.get_or_insert((seen, from == requester, message));
            }
        }
    }

    /// Takes a segment that the client sent again. It may carry the MPA Request.
    pub(super) fn repeated(&mut self, repeated: &Repeated) {
        if self.position == Some(repeated.position) {
            self.asked(repeated.seen);
        }
    }

    /// Takes a CM or MPA request. A SYN is the request already.
    fn asked(&mut self, seen: Seen) {
        if !self.is_twice(seen) && self.handshake.is_none() {
            Run::add(&mut self.requests, seen);
        }
    }

    /// Takes a segment of the TCP handshake.
    pub(super) fn handshake(&mut self, handshake: &Handshake, requester: End) {
        let Handshake { from, seen, step } = *handshake;
        self.handshake = Some(*handshake);
        match step {
            HandshakeStep::Syn if self.is_twice(seen) => {}
            HandshakeStep::Syn => Run::add(&mut self.requests, seen),
            HandshakeStep::Ack => {}
            HandshakeStep::Reset => {
                self.rejected.get_or_insert((seen, from == requester, Rejecting::Reset));
            }
        }
    }
}
