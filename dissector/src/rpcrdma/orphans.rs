//! Replies whose calls were not seen, in a half-flow that is not paired yet: the calls may be in the other one.

use super::{Peers, Transactions};
use crate::event::Event;
use crate::rdma::{End, Position, Send};
use crate::transaction::Seen;
use alloc::vec::Vec;
use rdmascope_wire::Rkey;

/// A Send that is kept back.
#[derive(Clone, Debug)]
pub(super) struct Orphan {
    first: Seen,
    seen: Seen,
    position: Position,
    extent: u32,
    bytes: Vec<u8>,
    length: Option<u32>,
    missing: Option<(u32, Option<u32>)>,
    invalidated: Option<Rkey>,
}

/// Replies that one end keeps back.
const MOST: usize = 64;
/// Their bytes, over all connections.
const MOST_BYTES: usize = 8 << 20;

impl Transactions {
    /// Keeps back a reply of end `from` until it is known which connection this is.
    pub(super) fn keep_orphan(
        &mut self,
        send: &Send<'_>,
        from: End,
        peers: &mut Peers,
        report: &mut impl FnMut(Event<'_>),
    ) {
        self.orphaned += send.bytes.len();
        let orphans = &mut peers.sides[from].orphans;
        orphans.push_back(Orphan {
            first: send.first,
            seen: send.seen,
            position: send.position,
            extent: send.extent,
            bytes: send.bytes.to_vec(),
            length: send.length,
            missing: send.missing,
            invalidated: send.invalidated,
        });
        while peers.sides[from].orphans.len() > MOST || self.orphaned > MOST_BYTES {
            if !self.release_orphan(from, peers, report) {
                break;
            }
        }
    }

    /// Takes the replies that were kept back as what they are now: replies to calls of the other half-flow, or replies without
    /// a call.
    pub fn release_orphans(&mut self, peers: &mut Peers, report: &mut impl FnMut(Event<'_>)) {
        for side in End::BOTH {
            while self.release_orphan(side, peers, report) {}
        }
    }

    fn release_orphan(&mut self, side: End, peers: &mut Peers, report: &mut impl FnMut(Event<'_>)) -> bool {
        let Some(orphan) = peers.sides[side].orphans.pop_front() else { return false };
        self.orphaned -= orphan.bytes.len();
        let send = Send {
            first: orphan.first,
            seen: orphan.seen,
            position: orphan.position,
            extent: orphan.extent,
            bytes: &orphan.bytes,
            length: orphan.length,
            missing: orphan.missing,
            invalidated: orphan.invalidated,
        };
        self.take_reply(&send, side, peers, report);
        true
    }
}
