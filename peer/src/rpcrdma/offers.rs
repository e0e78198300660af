//! The Responder's Read chunks by XID (reliable-reply draft, sections 4.1 and 5.4.3). They hold
//! replies that the Requester has not read yet.

use super::{Event, Session};
use crate::endpoint::{ConnectionId, Endpoint};
use crate::memory::Access;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::rpcrdma::{ReadSegment, Segment};
use rdmascope_wire::{Rkey, Xid};

/// The limits of Read chunks without RDMA_DONE. Beyond a limit the oldest chunk is freed, and a
/// later RDMA Read of it ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferLimits {
    /// The longest time for one chunk.
    pub time: Duration,
    /// Most bytes in all chunks of a connection.
    pub bytes: u64,
}

impl Default for OfferLimits {
    /// 10 seconds, 64 MiB.
    fn default() -> OfferLimits {
        OfferLimits { time: Duration::from_secs(10), bytes: 64 << 20 }
    }
}

/// Why a Read chunk of the Responder was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Freed {
    /// RDMA_DONE arrived.
    #[error("RDMA_DONE")]
    Done,
    /// RDMA_DONE arrived, and its Send invalidated the first handle.
    #[error("RDMA_DONE with invalidation")]
    Invalidated,
    /// [`OfferLimits::time`] elapsed.
    #[error("no RDMA_DONE in time")]
    Time,
    /// A newer chunk would exceed [`OfferLimits::bytes`].
    #[error("no room for more chunks")]
    Room,
    /// A newer reply has the same XID.
    #[error("the XID was reused")]
    Reused,
    /// The connection ended.
    #[error("the connection ended")]
    Lost,
}

impl Freed {
    /// Returns its name in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Freed::Done => "done",
            Freed::Invalidated => "invalidated",
            Freed::Time => "time",
            Freed::Room => "room",
            Freed::Reused => "reused",
            Freed::Lost => "lost",
        }
    }

    /// Returns whether RDMA_DONE freed it.
    pub const fn is_regular(self) -> bool {
        matches!(self, Freed::Done | Freed::Invalidated)
    }
}

/// An offered Read chunk.
#[derive(Clone, Debug)]
struct Offer {
    xid: Xid,
    handles: Vec<Rkey>,
    bytes: u64,
    since: Instant,
}

/// All offered Read chunks, by age and by XID.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    numbered: BTreeMap<u64, Offer>,
    by_xid: BTreeMap<Xid, u64>,
    offered: u64,
    bytes: u64,
}

impl Offers {
    pub(super) fn len(&self) -> usize {
        self.numbered.len()
    }

    fn add(&mut self, offer: Offer) {
        self.offered += 1;
        self.bytes += offer.bytes;
        self.by_xid.insert(offer.xid, self.offered);
        self.numbered.insert(self.offered, offer);
    }

    fn remove(&mut self, number: u64) -> Option<Offer> {
        let offer = self.numbered.remove(&number)?;
        self.by_xid.remove(&offer.xid);
        self.bytes -= offer.bytes;
        Some(offer)
    }

    fn oldest(&self) -> Option<(u64, &Offer)> {
        self.numbered.first_key_value().map(|(number, offer)| (*number, offer))
    }
}

impl Session {
    /// Returns the number of offered Read chunks and their bytes.
    pub fn offered(&self) -> (usize, u64) {
        (self.offers.len(), self.offers.bytes)
    }

    /// Registers a Payload stream as a Position Zero Read chunk. Returns `None` if its Read list is
    /// longer than `room`, or memory cannot be registered.
    pub(super) fn offer(
        &mut self,
        endpoint: &mut Endpoint,
        xid: Xid,
        stream: &[u8],
        room: usize,
    ) -> Option<Vec<ReadSegment>> {
        let limits = self.config.reliable_reply?;
        let (bytes, most) = (stream.len() as u64, self.config.segment.max(1) as usize);
        if bytes > limits.bytes || stream.len().div_ceil(most) * (8 + Segment::LENGTH) > room {
            return None;
        }
        if let Some(number) = self.offers.by_xid.get(&xid).copied() {
            self.free(endpoint, number, Freed::Reused);
        }
        while self.offers.bytes + bytes > limits.bytes
            && let Some((number, _)) = self.offers.oldest()
        {
            self.free(endpoint, number, Freed::Room);
        }
        let mut reads = Vec::new();
        for part in stream.chunks(most) {
            let Ok((handle, offset)) = endpoint.register(self.connection, part.to_vec(), Access::READ) else {
                release(endpoint, self.connection, &handles_of(&reads));
                return None;
            };
            let target = Segment { handle, length: part.len() as u32, offset };
            reads.push(ReadSegment { position: 0, target });
        }
        self.offers.add(Offer { xid, handles: handles_of(&reads), bytes, since: endpoint.now() });
        // RDMA_DONE consumes a Receive that the credits do not count.
        self.post_receives(endpoint);
        Some(reads)
    }

    /// Handles an RDMA_DONE. Without a Read chunk it is silently dropped (section 4.1.3).
    pub(super) fn done(&mut self, endpoint: &mut Endpoint, xid: Xid, invalidated: Option<Rkey>) {
        let Some(number) = self.offers.by_xid.get(&xid).copied() else { return };
        let is_its = |rkey| self.offers.numbered[&number].handles.contains(&rkey);
        let why = if invalidated.is_some_and(is_its) { Freed::Invalidated } else { Freed::Done };
        self.free(endpoint, number, why);
    }

    /// Ends the registration of an offered chunk.
    fn free(&mut self, endpoint: &mut Endpoint, number: u64, why: Freed) {
        let Some(offer) = self.offers.remove(number) else { return };
        release(endpoint, self.connection, &offer.handles);
        let offered_for = endpoint.now().since(offer.since);
        self.emit(Event::Freed { xid: offer.xid, bytes: offer.bytes, offered_for, why });
    }

    /// Ends the registration of all offered chunks.
    pub(super) fn free_all(&mut self, endpoint: &mut Endpoint) {
        while let Some((number, _)) = self.offers.oldest() {
            self.free(endpoint, number, Freed::Lost);
        }
    }

    /// Returns the next time at which [`handle_time`](Session::handle_time) has work.
    pub fn next_deadline(&self) -> Option<Instant> {
        let limits = self.config.reliable_reply?;
        self.offers.oldest().map(|(_, offer)| offer.since.plus(limits.time))
    }

    /// Frees the chunks whose time has elapsed.
    pub fn handle_time(&mut self, endpoint: &mut Endpoint, now: Instant) {
        while self.next_deadline().is_some_and(|deadline| deadline <= now)
            && let Some((number, _)) = self.offers.oldest()
        {
            self.free(endpoint, number, Freed::Time);
        }
    }
}

fn handles_of(reads: &[ReadSegment]) -> Vec<Rkey> {
    reads.iter().map(|read| read.target.handle).collect()
}

fn release(endpoint: &mut Endpoint, connection: ConnectionId, handles: &[Rkey]) {
    for handle in handles {
        endpoint.invalidate(connection, *handle);
    }
}
