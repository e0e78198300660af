//! Operations that go on behind their replies.

use crate::finding::Finding;
use crate::rule::Findings;
use crate::view::View;
use alloc::collections::VecDeque;
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::transaction::{Direction, Seen, Transaction};
use rdmascope_dissector::ulb::{Nfs4, OperationKind, StateId};
use rdmascope_wire::Xid;

/// Operations whose end has not been reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Offloads {
    open: VecDeque<Offload>,
    /// Stateids that CB_OFFLOAD named last: it may come before the reply that it is about (RFC 8881, section 2.10.6.3).
    ended: [Option<StateId>; 8],
    next: usize,
    /// The last reply to a DESTROY_SESSION.
    destroyed: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Offload {
    id: StateId,
    name: &'static str,
    xid: Xid,
    transaction: u64,
    call: Seen,
    reply: Seen,
}

impl Offloads {
    /// Operations that are remembered.
    const MOST: usize = 64;

    pub(super) fn footprint(&self) -> usize {
        self.open.len() * size_of::<Offload>()
    }

    pub(super) fn note(&mut self, transaction: &Transaction) {
        let details = &transaction.details;
        let did = |wanted: Nfs4| {
            let kind = OperationKind::Nfs4(wanted);
            details.operations.iter().any(|operation| operation.kind == kind && operation.status == Some(0))
        };
        if let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply)
            && transaction.direction == Direction::Forward
        {
            if details.operations.len() <= 2 && did(Nfs4::DestroySession) {
                self.destroyed = Some(reply.seen.frame);
            }
            let begun = [Nfs4::Copy, Nfs4::WriteSame].into_iter().find(|operation| did(*operation));
            if let (Some(begun), Some(id)) = (begun, details.session.offload) {
                if !self.ended.contains(&Some(id)) {
                    if self.open.len() == Offloads::MOST {
                        self.open.pop_front();
                    }
                    let (name, xid) = (OperationKind::Nfs4(begun).name(), transaction.xid);
                    let (transaction, call, reply) = (transaction.number, call.seen, reply.seen);
                    self.open.push_back(Offload { id, name, xid, transaction, call, reply });
                }
                return;
            }
        }
        let Some(id) = details.session.offload else { return };
        let is_over = transaction.direction == Direction::Backward
            || did(Nfs4::OffloadCancel)
            || details.session.offload_ended;
        if is_over {
            self.open.retain(|offload| offload.id != id);
            self.ended[self.next] = Some(id);
            self.next = (self.next + 1) % self.ended.len();
        }
    }
}

pub(super) fn unreported(connection: &Connection, view: &View, findings: &mut Findings<'_>) {
    if connection.state != State::Closed {
        return;
    }
    let offloads = &view.memories.sessions.offloads;
    let server = view.requester.other();
    for offload in &offloads.open {
        let is_certain = view.memories.reverse.is_accepted()
            && offloads.destroyed.is_some_and(|destroyed| {
                destroyed > offload.reply.frame && view.is_complete(server, destroyed)
            });
        let message = alloc::format!("no CB_OFFLOAD came for an asynchronous {}", offload.name);
        let finding = Finding::new(message)
            .by(server)
            .about(Some(Direction::Forward), offload.xid)
            .frames([offload.call.frame, offload.reply.frame]);
        findings.add(Finding { transaction: Some(offload.transaction), ..finding }.unless(!is_certain));
    }
}
