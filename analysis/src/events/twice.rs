//! Requests that had no reply, were sent again, and failed as they do if they were carried out before:
//! the object to remove is gone, or the one to create exists.

use super::delayed::request;
use super::failing::called;
use super::known::event;
use super::{Kind, SessionEvent};
use crate::names::{Failure, FailureName, Label, Protocol};
use crate::units::Duration;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_dissector::ulb::{Nfs3, Nfs4, Operation, OperationKind};
use rdmascope_wire::nfs::nfsstat4::{EXIST, NOENT};
use std::collections::HashMap;

/// The longest time after which a client sends a request again, in nanoseconds.
const LATEST: u64 = 300_000_000_000;
/// The most requests that are kept.
const MOST: usize = 1024;

/// Requests that change a directory, by their arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct Twice(HashMap<u64, Request, FixedState>);

/// The outcomes of equal requests.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    /// The first one without a reply.
    unanswered: Option<(Seen, ConnectionId)>,
    /// The latest that succeeded.
    succeeded: Option<Time>,
    /// The first that failed as if it had been carried out.
    failed: Option<Failed>,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    call: Seen,
    reply: Seen,
    connection: ConnectionId,
    protocol: Option<Protocol>,
    name: &'static str,
    status: u32,
    /// The latest success before it.
    succeeded: Option<Time>,
}

impl Twice {
    #[inline]
    pub(super) fn handle(&mut self, transaction: &Transaction) {
        let call = transaction.call.as_ref().filter(|call| call.unread.is_none());
        let Some(call) = call.filter(|_| transaction.direction == Direction::Forward) else { return };
        if let Some((name, status)) = changes(transaction) {
            self.take(transaction, call.seen, (name, status));
        }
    }

    #[cold]
    fn take(&mut self, transaction: &Transaction, call: Seen, (name, status): (&'static str, Option<u32>)) {
        if self.0.len() >= MOST {
            self.0.retain(|_, request| request.unanswered.is_some() || request.failed.is_some());
            if self.0.len() >= MOST {
                return;
            }
        }
        let reply = transaction.reply.as_ref().map(|reply| reply.seen);
        let shows = |status| status == 0 || is_evidence(name, status);
        if reply.is_some() && !status.is_some_and(shows) {
            return;
        }
        let request = self.0.entry(request(transaction)).or_default();
        match (reply, status) {
            (None, _) => _ = request.unanswered.get_or_insert((call, transaction.connection)),
            (Some(reply), Some(0)) => request.succeeded = request.succeeded.max(Some(reply.time)),
            (Some(reply), Some(status)) => {
                let (connection, protocol) = (transaction.connection, Protocol::of(transaction));
                let succeeded = request.succeeded;
                let failed = Failed { call, reply, connection, protocol, name, status, succeeded };
                request.failed.get_or_insert(failed);
            }
            _ => {}
        }
    }

    /// Forgets all requests: the clock stepped back.
    pub(super) fn clock_stepped(&mut self) {
        self.0.clear();
    }

    /// Forgets everything that ended before this time.
    pub(super) fn forget(&mut self, before: Time) {
        self.0.retain(|_, request| {
            let first = request.unanswered.map(|(seen, _)| seen.time.plus(LATEST));
            first.max(request.failed.map(|failed| failed.reply.time)).is_some_and(|last| last >= before)
        });
    }

    pub(super) fn report(&self, events: &mut Vec<SessionEvent>) {
        events.extend(self.0.values().filter_map(Request::event));
    }
}

impl Request {
    /// The event, if a request failed after an equal one without a reply, and none succeeded in between.
    fn event(&self) -> Option<SessionEvent> {
        let ((first, connection), failed) = self.unanswered.zip(self.failed)?;
        let is_later = first.frame < failed.call.frame && failed.call.time.since(first.time) <= LATEST;
        let is_last = failed.succeeded.is_none_or(|succeeded| succeeded < first.time);
        (is_later && is_last).then(|| failed.event(first, connection))
    }
}

impl Failed {
    fn event(&self, first: Seen, connection: ConnectionId) -> SessionEvent {
        let length = self.reply.time.since(first.time);
        let text = format!(
            "{} failed with {}: the same request had no reply {} before, and may have been carried out then",
            called(self.protocol, Label::Named(self.name)),
            FailureName(Failure::Status(self.status), self.protocol),
            Duration(length),
        );
        SessionEvent {
            connection: self.connection,
            other: Some(connection).filter(|other| *other != self.connection),
            duration: Some(length),
            frames: [Some(first.frame), Some(self.reply.frame)],
            ..event(first.time, Kind::CarriedOutTwice, text)
        }
    }
}

/// The operation of a request that changes a directory, and its status.
fn changes(transaction: &Transaction) -> Option<(&'static str, Option<u32>)> {
    let changes = |operation: &&Operation| {
        matches!(
            operation.kind,
            OperationKind::Nfs4(Nfs4::Create | Nfs4::Link | Nfs4::Remove | Nfs4::Rename)
                | OperationKind::Nfs3(
                    Nfs3::Create
                        | Nfs3::Link
                        | Nfs3::Mkdir
                        | Nfs3::Mknod
                        | Nfs3::Remove
                        | Nfs3::Rename
                        | Nfs3::Rmdir
                        | Nfs3::Symlink
                )
        )
    };
    let changing = transaction.details.operations.iter().find(changes)?;
    Some((changing.name(), changing.status))
}

/// Whether an operation fails with this status if it was carried out before. The statuses are the same
/// in all versions of NFS.
fn is_evidence(name: &str, status: u32) -> bool {
    status == if ["REMOVE", "RENAME", "RMDIR"].contains(&name) { NOENT } else { EXIST }
}
