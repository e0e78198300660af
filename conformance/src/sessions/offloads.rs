//! Operations that continue after their replies.

use super::Read;
use crate::bounded;
use crate::check::{Findings, View};
use crate::finding::Finding;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rdmascope_dissector::connection::{Connection, ConnectionId, State};
use rdmascope_dissector::transaction::{Direction, Message, Seen, Transaction};
use rdmascope_dissector::ulb::{Nfs4, OperationKind, StateId};
use rdmascope_wire::Xid;

/// Operations whose completion has not been reported, of all connections, because the report may
/// use another connection of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offloads {
    /// Oldest first.
    open: VecDeque<Offload>,
    /// The last stateids that CB_OFFLOAD named. It may precede the reply that it is about (RFC
    /// 8881, section 2.10.6.3).
    ended: [Option<StateId>; 32],
    next: usize,
    /// Whether a call was not read to its end. It may have been a CB_OFFLOAD, OFFLOAD_STATUS or
    /// OFFLOAD_CANCEL.
    pub(crate) lacks_call: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Offload {
    id: StateId,
    connection: ConnectionId,
    name: &'static str,
    xid: Xid,
    transaction: u64,
    call: Seen,
    reply: Seen,
}

impl Offloads {
    /// Operations that are kept.
    const MOST: usize = 64;

    /// Heap bytes that its lists take up.
    pub(crate) fn footprint(&self) -> usize {
        self.open.len() * size_of::<Offload>()
    }

    /// Records a finished transaction.
    pub(crate) fn note(&mut self, transaction: &Transaction) {
        let details = &transaction.details;
        let is_read = |call: &Message| call.unread.is_none() && call.stop.is_none();
        self.lacks_call |= !transaction.call.as_ref().is_some_and(is_read);
        let Some(id) = details.session.offload else { return };
        let begun = [Nfs4::Copy, Nfs4::WriteSame].into_iter().find(|operation| did(transaction, *operation));
        if let (Direction::Forward, Some(begun), Some(call), Some(reply)) =
            (transaction.direction, begun, &transaction.call, &transaction.reply)
        {
            if !self.ended.contains(&Some(id)) {
                let (name, xid) = (OperationKind::Nfs4(begun).name(), transaction.xid);
                let (connection, transaction) = (transaction.connection, transaction.number);
                let (call, reply) = (call.seen, reply.seen);
                let offload = Offload { id, connection, name, xid, transaction, call, reply };
                bounded::push(&mut self.open, Offloads::MOST, offload);
            }
            return;
        }
        let is_over = transaction.direction == Direction::Backward
            || did(transaction, Nfs4::OffloadCancel)
            || details.session.offload_ended;
        if is_over {
            self.open.retain(|offload| offload.id != id);
            self.ended[self.next] = Some(id);
            self.next = (self.next + 1) % self.ended.len();
        }
    }

    /// Removes and returns the operations that began on a connection that ends.
    pub(crate) fn take(&mut self, connection: ConnectionId) -> Vec<Offload> {
        let is_own = |offload: &Offload| offload.connection == connection;
        let taken = self.open.iter().copied().filter(is_own).collect();
        self.open.retain(|offload| !is_own(offload));
        taken
    }
}

/// Whether a transaction has this operation with status NFS4_OK.
fn did(transaction: &Transaction, wanted: Nfs4) -> bool {
    let kind = OperationKind::Nfs4(wanted);
    let mut operations = transaction.details.operations.iter();
    operations.any(|operation| operation.kind == kind && operation.status == Some(0))
}

/// The frame of the reply, if the transaction destroys a session.
pub(super) fn destruction(transaction: &Transaction) -> Option<u64> {
    let is_destruction = transaction.details.operations.len() <= 2 && did(transaction, Nfs4::DestroySession);
    let reply = transaction.reply.as_ref().filter(|_| is_destruction && transaction.call.is_some())?;
    (transaction.direction == Direction::Forward).then_some(reply.seen.frame)
}

pub(super) fn unreported(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    if connection.state != State::Closed {
        return;
    }
    let used = view.memory.0;
    let server = view.requester.other();
    for offload in &used.offloads {
        let is_certain = view.memory.2.is_accepted()
            && !view.joined
            && !used.lacks_call
            && view.is_fully_captured(view.requester)
            && used.destroyed.is_some_and(|destroyed| {
                destroyed > offload.reply.frame && view.is_complete(server, destroyed)
            });
        let message = alloc::format!("no CB_OFFLOAD was sent for an asynchronous {}", offload.name);
        let finding = Finding::new(message)
            .by(server)
            .about(Some(Direction::Forward), offload.xid)
            .frames([offload.call.frame, offload.reply.frame]);
        findings.add(Finding { transaction: Some(offload.transaction), ..finding }.unless(!is_certain));
    }
}
