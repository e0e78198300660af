//! RDMA_DONE, which allows the Responder to free its Read chunk (reliable-reply draft, sections
//! 4.1.3, 4.1.4 and 5.2.3).
//!
//! RDMA_DONE has no answer, so no grant returns its credit. It uses a credit until its Send is
//! acknowledged: by then the remote side has consumed the Receive and posts another. An RDMA_DONE
//! without a credit waits, ahead of all calls. So a session with only long replies proceeds even
//! with a single credit.

use super::Session;
use crate::endpoint::Endpoint;
use crate::rc::WorkId;
use alloc::collections::{BTreeSet, VecDeque};
use rdmascope_wire::rpcrdma::{Builder, Header, Procedure, VERSION};
use rdmascope_wire::{Rkey, Xid};

/// Most RDMA_DONEs that wait for a credit. Further ones are dropped: the limits of the Responder
/// free its chunks.
pub(super) const MOST_NOTICES: usize = 1024;

/// The RDMA_DONEs that wait for a credit, and those that are not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Notices {
    waiting: VecDeque<(Xid, Option<Rkey>)>,
    sent: BTreeSet<WorkId>,
}

impl Session {
    /// Returns whether the message is an RDMA_DONE that this side expects.
    pub(super) fn takes_done(&self, header: &Header<'_>) -> bool {
        self.config.reliable_reply.is_some()
            && header.procedure == Procedure::Done
            && header.version == VERSION
    }

    /// Returns the number of credits in use: calls without a reply, and RDMA_DONEs without
    /// acknowledgement.
    pub(super) fn in_use(&self) -> usize {
        self.transactions.len() + self.notices.sent.len()
    }

    /// Sends RDMA_DONE once a credit is available.
    pub(super) fn notify(&mut self, endpoint: &mut Endpoint, xid: Xid, handle: Option<Rkey>) {
        if self.notices.waiting.len() < MOST_NOTICES {
            let handle = handle.filter(|_| self.negotiated.remote_invalidation);
            self.notices.waiting.push_back((xid, handle));
        }
        self.start_calls(endpoint);
    }

    /// Sends waiting RDMA_DONEs within the limit of credits.
    pub(super) fn send_done(&mut self, endpoint: &mut Endpoint, limit: usize) {
        while self.in_use() < limit
            && let Some((xid, handle)) = self.notices.waiting.pop_front()
        {
            let header = Builder::new(xid, self.config.credits, Procedure::Done);
            // If it cannot be sent, the connection is closed.
            if let Ok(work) = self.post_message(endpoint, &header, &[], handle) {
                self.notices.sent.insert(work);
            }
        }
    }

    /// Handles the acknowledgement of a Send.
    pub(super) fn notified(&mut self, endpoint: &mut Endpoint, work: WorkId) {
        if self.notices.sent.remove(&work) {
            self.start_calls(endpoint);
        }
    }
}
