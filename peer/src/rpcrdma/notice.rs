//! RDMA_DONE: the Responder may free its Read chunk (reliable-reply draft, sections 4.1.3, 4.1.4 and
//! 5.2.3).
//!
//! RDMA_DONE has no answer, so no grant returns its credit. A credit is in use from the post of its
//! Send until the Send is acknowledged: by then the remote side has taken the Receive and posts
//! another one. One that finds no credit waits, in front of all calls. So a session of long replies
//! alone goes on even where one credit is granted.

use super::Session;
use crate::endpoint::Endpoint;
use crate::rc::WorkId;
use alloc::collections::{BTreeSet, VecDeque};
use rdmascope_wire::rpcrdma::{Builder, Header, Procedure, VERSION};
use rdmascope_wire::{Rkey, Xid};

/// RDMA_DONE that wait for a credit. More are not sent: the limits of the Responder free its chunks.
pub(super) const MOST_NOTICES: usize = 1024;

/// Those that wait for a credit, and those that are not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Notices {
    waiting: VecDeque<(Xid, Option<Rkey>)>,
    sent: BTreeSet<WorkId>,
}

impl Session {
    /// Whether an RDMA_DONE is expected at all.
    pub(super) fn takes_done(&self, header: &Header<'_>) -> bool {
        self.config.reliable_reply.is_some()
            && header.procedure == Procedure::Done
            && header.version == VERSION
    }

    /// Credits in use: calls without reply, and RDMA_DONE without acknowledgement.
    pub(super) fn in_use(&self) -> usize {
        self.transactions.len() + self.notices.sent.len()
    }

    /// Sends RDMA_DONE once there is a credit for it.
    pub(super) fn notify(&mut self, endpoint: &mut Endpoint, xid: Xid, handle: Option<Rkey>) {
        let may = self.negotiated.remote_invalidation && self.config.send_with_invalidate;
        if self.notices.waiting.len() < MOST_NOTICES {
            self.notices.waiting.push_back((xid, handle.filter(|_| may)));
        }
        self.start_calls(endpoint);
    }

    /// Sends those that wait, within the limit of credits.
    pub(super) fn send_done(&mut self, endpoint: &mut Endpoint, limit: usize) {
        while self.in_use() < limit
            && let Some((xid, handle)) = self.notices.waiting.pop_front()
        {
            let header = Builder::new(xid, self.config.credits, Procedure::Done);
            // Where it cannot be sent the connection is gone.
            if let Ok(work) = self.post_message(endpoint, &header, &[], handle) {
                self.notices.sent.insert(work);
            }
        }
    }

    /// A Send is acknowledged.
    pub(super) fn notified(&mut self, endpoint: &mut Endpoint, work: WorkId) {
        if self.notices.sent.remove(&work) {
            self.start_calls(endpoint);
        }
    }
}
