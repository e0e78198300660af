//! The beginnings, uses and ends of lifetimes.

use super::follow::{Begin, Context, Early, States};
use super::index::{Group, Live};
use super::table::{Key, Sink};
use super::{At, Beginning, End, Identity, Kind, Lifetime, Ranges};
use crate::paths;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::ulb::{Nfs4, StateId};

impl States {
    /// A new lifetime that first appears in the messages of `context`.
    pub(super) fn lifetime(
        &mut self,
        kind: Kind,
        id: Identity,
        scope: u64,
        context: &Context<'_>,
    ) -> Lifetime {
        let connection = context.transaction.connection;
        Lifetime {
            number: self.table.next_number(),
            kind,
            id,
            minor_version: context.minor_version,
            scope,
            client: None,
            client_address: paths::client(context.transaction),
            server_address: paths::server(context.transaction),
            open: None,
            connection,
            last_connection: connection,
            file_handle: Vec::new(),
            file_name: Vec::new(),
            path: Vec::new(),
            access: None,
            deny: None,
            ranges: Ranges::default(),
            beginning: self.beginning(scope, connection),
            is_sealed: false,
            reclaimed: false,
            first: context.shown,
            last: context.shown,
            ended: None,
            end: End::Open,
            recalled: None,
            uses: 0,
            reads: 0,
            writes: 0,
            highest_slot: None,
            slots: None,
            flags: 0,
            flags_now: 0,
            unsure: None,
            owner: None,
            capture_gap: false,
        }
    }

    /// The beginning of state that is used but was not seen to begin.
    fn beginning(&mut self, scope: u64, connection: ConnectionId) -> Beginning {
        let is_sealed = self.line(connection).is_sealed;
        let client = self.table.numbered(scope, scope);
        let is_new = client.as_ref().is_some_and(|client| client.is_begun());
        match (is_sealed || client.is_some_and(|client| client.is_sealed), is_new) {
            (true, true) => Beginning::Encrypted,
            (true, false) => Beginning::Unclear,
            (false, _) => Beginning::Before,
        }
    }

    /// Begins the lifetime of a stateid in a reply or a callback, unless it is live already.
    pub(super) fn begin(
        &mut self,
        id: &StateId,
        kind: Kind,
        begin: &Begin<'_>,
        sink: Sink<'_>,
    ) -> Option<Live<'_>> {
        let Begin { context, operation, handle, scope } = *begin;
        let identity = Identity::of_stateid(id)?;
        let key = (scope, identity);
        if self.table.live(&key).is_some() {
            let mut lifetime = self.table.live(&key)?;
            lifetime.see(context);
            if lifetime.kind == Kind::Stateid {
                lifetime.kind = kind;
            }
            return Some(lifetime);
        }
        let mut new = self.lifetime(kind, identity, scope, context);
        new.beginning = Beginning::Captured;
        let details = &context.transaction.details;
        if let Some(handle) = handle {
            new.file_handle = details.bytes(handle).to_vec();
        }
        if let (Some(name), Kind::Open | Kind::Delegation) = (operation.file_name, kind) {
            new.file_name = details.bytes(name).to_vec();
        }
        new.client = self.table.numbered(scope, scope).and_then(|client| client.client);
        let early = self.early.iter().position(|(early, _)| *early == key);
        let early = early.and_then(|at| self.early.remove(at)).map(|(_, early)| early);
        if let Some(Early::Recalled(at)) = early {
            new.recalled = Some(at);
        }
        self.table.add(new, sink);
        if let Some(Early::Ended(end, at)) = early {
            self.end(key, end, at, sink);
            return None;
        }
        self.table.live(&key)
    }

    /// Notes a use of a stateid by an operation that was not refused.
    pub(super) fn used(
        &mut self,
        key: Key,
        by: Nfs4,
        kind: Kind,
        counts: bool,
        begin: &Begin<'_>,
        sink: Sink<'_>,
    ) {
        let Begin { context, handle, .. } = *begin;
        let details = &context.transaction.details;
        if let Some(old) = self.table.settled(&key) {
            // State that ended in order may have been used before its end. State that the server
            // had refused still existed.
            if !matches!(old.end, End::Lost | End::Revoked) || context.call.time < old.last.time {
                return;
            }
            // A client acknowledges with FREE_STATEID that its state was revoked (RFC 8881, section
            // 18.38).
            if old.end == End::Revoked && by == Nfs4::FreeStateid {
                return;
            }
            self.table.revive(&key);
        } else if self.table.live(&key).is_none() {
            let mut new = self.lifetime(kind, key.1, key.0, context);
            new.client = self.table.numbered(key.0, key.0).and_then(|client| client.client);
            self.table.add(new, sink);
        }
        let Some(mut lifetime) = self.table.live(&key) else { return };
        if lifetime.kind == Kind::Stateid {
            lifetime.kind = kind;
        }
        if let (Some(handle), true) = (handle, lifetime.file_handle.is_empty() && !is_of_another_file(by)) {
            lifetime.file_handle = details.bytes(handle).to_vec();
        }
        lifetime.see(context);
        lifetime.uses += u64::from(counts);
        lifetime.reads += u64::from(matches!(by, Nfs4::Read | Nfs4::ReadPlus));
        lifetime.writes += u64::from(by == Nfs4::Write);
    }

    /// Ends a live lifetime, and with an open its locks.
    pub(super) fn end(&mut self, key: Key, end: End, at: At, sink: Sink<'_>) -> bool {
        if matches!(key.1, Identity::Session(_)) {
            let raised = self.raised.iter_mut().filter(|raised| raised.session == key);
            raised.for_each(|raised| _ = raised.gone.get_or_insert(at));
        }
        if let Some(open) = self.table.live(&key).map(|lifetime| lifetime.number) {
            for lock in self.table.keys_of(key.0, Group::LocksOf(open)..=Group::LocksOf(open)) {
                self.table.end(&lock, end, at, sink);
            }
        }
        self.table.end(&key, end, at, sink)
    }

    /// Notes a call that may have ended a lifetime, because its reply is not readable.
    pub(super) fn doubt(&mut self, key: &Key, at: At) {
        if let Some(mut lifetime) = self.table.live(key)
            && lifetime.last.time <= at.time
        {
            lifetime.unsure.get_or_insert(at);
        }
    }

    /// Notes that a callback recalled it.
    pub(super) fn recalled(&mut self, key: Key, at: At) {
        if let Some(mut lifetime) = self.table.live(&key) {
            lifetime.recalled.get_or_insert(at);
        } else if let Some(lifetime) = self.table.settled(&key) {
            if lifetime.ended.is_none_or(|ended| at.time <= ended.time) {
                lifetime.recalled.get_or_insert(at);
            }
        } else {
            self.early(key, Early::Recalled(at));
        }
    }

    pub(super) fn early(&mut self, key: Key, early: Early) {
        if self.early.len() >= States::MOST_EARLY {
            self.early.pop_front();
        }
        self.early.push_back((key, early));
    }
}

impl Lifetime {
    /// Notes a transaction that shows it to be live.
    pub(super) fn see(&mut self, context: &Context<'_>) {
        if context.shown.time >= self.last.time {
            (self.last, self.last_connection) = (context.shown, context.transaction.connection);
        }
        if self.unsure.is_some_and(|unsure| unsure.time < context.call.time) {
            self.unsure = None;
        }
    }
}

/// Whether the current file handle differs from that of the named stateids: it is the directory's,
/// or that of one of two files.
fn is_of_another_file(kind: Nfs4) -> bool {
    matches!(
        kind,
        Nfs4::Open
            | Nfs4::Copy
            | Nfs4::Clone
            | Nfs4::TestStateid
            | Nfs4::FreeStateid
            | Nfs4::OffloadCancel
            | Nfs4::OffloadStatus
    )
}
