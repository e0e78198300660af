//! Client IDs and sessions, to which other state belongs.

use super::follow::{Context, OperationOutcome, States};
use super::index::Group;
use super::table::{Key, Sink};
use super::{At, Beginning, End, Identity, Kind, Raised};
use crate::paths;
use core::hash::BuildHasher as _;
use foldhash::fast::FixedState;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_dissector::ulb::{Callback, FactKind, Nfs4, Operation, OperationKind, SessionId, StateFact};
use rdmascope_wire::nfs::nfsstat4::{BADSESSION, DEADSESSION, EXPIRED, STALE_CLIENTID};

/// The flag SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED.
const ALL_REVOKED: u32 = 8;

impl States {
    /// Processes EXCHANGE_ID and other operations with a client ID.
    pub(super) fn client_operation(
        &mut self,
        kind: Nfs4,
        facts: &[StateFact],
        outcome: OperationOutcome,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) {
        let (mut named, mut given, mut owner, mut server) = (None, None, None, None);
        let mut restart = None;
        for fact in facts {
            match fact.kind {
                FactKind::ArgumentClient(client) => named = Some(client),
                FactKind::ResultClient { client, .. } => given = Some(client),
                FactKind::Owner { owner: hash, verifier } => (owner, restart) = (Some(hash), Some(verifier)),
                FactKind::Server(hash) => server = Some(hash),
                _ => {}
            }
        }
        let at = context.shown;
        match (kind, outcome) {
            (Nfs4::ExchangeId | Nfs4::Setclientid, OperationOutcome::Succeeded) => {
                let Some(client) = given else { return };
                // SETCLIENTID does not name the server.
                let owner = owner.zip(server.or_else(|| hash_of_server(context)));
                let number = self.client(client, owner, true, context, sink);
                self.seen_client(number, client, context);
                if let Some(verifier) = restart {
                    self.note_verifier(number, verifier);
                }
                if let Some(owner) = owner {
                    self.unconfirmed(owner, number, at, sink);
                }
            }
            (Nfs4::SetclientidConfirm | Nfs4::Renew, OperationOutcome::Succeeded) => {
                let Some(client) = named else { return };
                let number = self.client(client, None, false, context, sink);
                self.seen_client(number, client, context);
                if kind == Nfs4::SetclientidConfirm {
                    self.confirmed(number, client, context, sink);
                }
            }
            (Nfs4::CreateSession, OperationOutcome::Succeeded) => {
                let (Some(client), Some((session, fore))) =
                    (named, context.transaction.details.session.created)
                else {
                    return;
                };
                let number = self.client(client, None, false, context, sink);
                self.seen_client(number, client, context);
                self.confirmed(number, client, context, sink);
                self.set_scope(session, number);
                // The connection serves the session (RFC 8881, section 18.36.3).
                self.use_line(context.transaction.connection, number);
                if self.table.live(&(number, Identity::Session(session))).is_none() {
                    let mut new = self.lifetime(Kind::Session, Identity::Session(session), number, context);
                    new.beginning = Beginning::Captured;
                    (new.client, new.slots) = (Some(client), Some(fore.most_requests));
                    self.table.add(new, sink);
                }
            }
            (Nfs4::DestroyClientid, OperationOutcome::Succeeded) => {
                let Some(client) = named else { return };
                if !self.clients.contains_key(&client) {
                    // It existed before the capture, and no other operation has named it.
                    let number = self.client(client, None, false, context, sink);
                    self.seen_client(number, client, context);
                }
                for number in self.clients.remove(&client).unwrap_or_default() {
                    self.end_client(number, client, (End::Destroyed, End::Abandoned), at, sink);
                }
            }
            (Nfs4::DestroyClientid, OperationOutcome::Unknown) => {
                let Some(client) = named else { return };
                for number in self.clients.get(&client).cloned().unwrap_or_default() {
                    self.doubt(&(number, Identity::Client(client)), context.call);
                }
            }
            (_, OperationOutcome::Failed(status)) => {
                if let Some(client) = named {
                    self.client_refused(client, status, at, sink);
                }
            }
            _ => {}
        }
    }

    /// Ends a client ID that the server refused with a status that says so.
    pub(super) fn client_refused(&mut self, client: u64, status: u32, at: At, sink: Sink<'_>) {
        let end = match status {
            EXPIRED => End::Revoked,
            STALE_CLIENTID => End::Lost,
            _ => return,
        };
        for number in self.clients.remove(&client).unwrap_or_default() {
            self.end_client(number, client, (end, end), at, sink);
        }
    }

    /// Processes DESTROY_SESSION and BIND_CONN_TO_SESSION.
    pub(super) fn session_operation(
        &mut self,
        kind: Nfs4,
        facts: &[StateFact],
        outcome: OperationOutcome,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) {
        let session = facts.iter().find_map(|fact| match fact.kind {
            FactKind::Session(session) => Some(session),
            _ => None,
        });
        let Some(session) = session else { return };
        let scope = match (self.sessions.get(&session), outcome) {
            (Some(scope), _) => *scope,
            (None, OperationOutcome::Succeeded) => self.unseen_session(session, context, sink),
            (None, _) => return,
        };
        let key = (scope, Identity::Session(session));
        match (kind, outcome) {
            (Nfs4::DestroySession, OperationOutcome::Succeeded) => {
                _ = self.end(key, End::Destroyed, context.shown, sink)
            }
            (Nfs4::DestroySession, OperationOutcome::Unknown) => self.doubt(&key, context.call),
            (_, OperationOutcome::Failed(BADSESSION | DEADSESSION)) => {
                _ = self.end(key, End::Lost, context.shown, sink)
            }
            (_, OperationOutcome::Succeeded) => {
                if let Some(mut lifetime) = self.table.live(&key) {
                    lifetime.see(context);
                }
                self.use_line(context.transaction.connection, scope);
            }
            _ => {}
        }
    }

    /// Processes SEQUENCE or CB_SEQUENCE. Returns the scope of the session.
    pub(super) fn sequence(
        &mut self,
        session: SessionId,
        slot: u32,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) -> Option<u64> {
        let Transaction { details, direction, .. } = context.transaction;
        let is_sequence = |operation: &&Operation| {
            matches!(
                operation.kind,
                OperationKind::Nfs4(Nfs4::Sequence) | OperationKind::Callback(Callback::Sequence)
            )
        };
        let status = details.operations.iter().find(is_sequence).and_then(|operation| operation.status);
        let scope = self.sessions.get(&session).copied();
        let scope = match status {
            Some(0) => scope.unwrap_or_else(|| self.unseen_session(session, context, sink)),
            _ => scope?,
        };
        let key = (scope, Identity::Session(session));
        match status {
            Some(0) => {}
            Some(BADSESSION | DEADSESSION) => {
                self.end(key, End::Lost, context.shown, sink);
                return Some(scope);
            }
            _ => return Some(scope),
        }
        if self.table.settled(&key).is_some_and(|old| old.end == End::Lost) {
            self.table.revive(&key);
        }
        let (mut is_revoked, mut flags) = (false, None);
        if let Some(mut lifetime) = self.table.live(&key) {
            lifetime.see(context);
            if *direction == Direction::Forward {
                lifetime.uses += 1;
                lifetime.highest_slot = lifetime.highest_slot.max(Some(slot));
                if let Some(results) = details.session.sequenced {
                    let slots = results.highest.saturating_add(1);
                    lifetime.slots = lifetime.slots.max(Some(slots));
                    is_revoked = results.flags & ALL_REVOKED != 0
                        && lifetime.flags_now & ALL_REVOKED == 0
                        && lifetime.uses > 1;
                    lifetime.flags |= results.flags;
                    flags = Some((core::mem::replace(&mut lifetime.flags_now, results.flags), results.flags));
                }
            }
        }
        if let Some((before, now)) = flags.filter(|(before, now)| before | now != 0) {
            self.flagged(key, before, now, context);
        }
        if let Some(mut client) =
            self.table.numbered(scope, scope).filter(|lifetime| lifetime.kind == Kind::Client)
        {
            client.see(context);
        }
        if is_revoked {
            self.all_revoked(scope, context, sink);
        }
        Some(scope)
    }

    /// Compares the flags of a reply with those of the reply before it.
    fn flagged(&mut self, session: Key, before: u32, now: u32, context: &Context<'_>) {
        let at = context.shown;
        for raised in
            self.raised.iter_mut().filter(|raised| raised.session == session && raised.gone.is_none())
        {
            match raised.flags & now {
                0 => raised.gone = Some(at),
                _ => (raised.last, raised.replies) = (at, raised.replies + 1),
            }
        }
        let flags = now & !before;
        if flags == 0 {
            return;
        }
        if self.raised.len() >= States::MOST_RAISED {
            self.raised.remove(0);
        }
        let connection = context.transaction.connection;
        self.raised.push(Raised { session, connection, flags, first: at, last: at, replies: 1, gone: None });
    }

    /// Ends all state of a client that began before the server revoked it.
    fn all_revoked(&mut self, scope: u64, context: &Context<'_>, sink: Sink<'_>) {
        let is_state = |kind: Kind| !matches!(kind, Kind::Client | Kind::Session);
        let revoked = self.table.keys_of_scope(scope, |lifetime| {
            is_state(lifetime.kind) && lifetime.first.time < context.call.time
        });
        self.end_all(&revoked, End::Revoked, context.shown, sink);
    }

    /// Begins a session whose CREATE_SESSION was not captured. Its client ID is unknown, so the
    /// session has a scope of its own.
    fn unseen_session(&mut self, session: SessionId, context: &Context<'_>, sink: Sink<'_>) -> u64 {
        let number = self.table.next_number();
        self.set_scope(session, number);
        let new = self.lifetime(Kind::Session, Identity::Session(session), number, context);
        self.table.add(new, sink);
        number
    }

    /// Stores the scope of a session.
    fn set_scope(&mut self, session: SessionId, scope: u64) {
        if self.sessions.len() >= States::MOST_NAMES {
            let table = &mut self.table;
            self.sessions
                .retain(|session, scope| table.live(&(*scope, Identity::Session(*session))).is_some());
        }
        self.sessions.insert(session, scope);
    }

    /// The number of a client ID's lifetime, which begins here if it is unknown.
    fn client(
        &mut self,
        client: u64,
        owner: Option<(u64, u64)>,
        is_begun: bool,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) -> u64 {
        let alike = self.clients.get(&client).cloned().unwrap_or_default();
        let connection = context.transaction.connection;
        let mut found = None;
        for number in alike.into_iter().rev() {
            let Some(mut lifetime) = self.table.live(&(number, Identity::Client(client))) else { continue };
            // Another server may use the same client ID.
            let is_other = owner.zip(lifetime.owner).is_some_and(|(one, other)| one.1 != other.1);
            if is_other {
                continue;
            }
            lifetime.owner = lifetime.owner.or(owner);
            if lifetime.connection == connection || lifetime.last_connection == connection {
                return number;
            }
            found.get_or_insert(number);
        }
        if let Some(number) = found {
            return number;
        }
        let number = self.table.next_number();
        let mut new = self.lifetime(Kind::Client, Identity::Client(client), number, context);
        (new.client, new.owner) = (Some(client), owner);
        if is_begun {
            new.beginning = Beginning::Captured;
        }
        self.table.add(new, sink);
        if self.clients.len() >= States::MOST_NAMES {
            let table = &mut self.table;
            self.clients.retain(|client, numbers| {
                numbers.iter().any(|number| table.live(&(*number, Identity::Client(*client))).is_some())
            });
        }
        let alike = self.clients.entry(client).or_default();
        if alike.len() >= States::MOST_ALIKE {
            alike.remove(0);
        }
        alike.push(number);
        number
    }

    fn seen_client(&mut self, number: u64, client: u64, context: &Context<'_>) {
        if let Some(mut lifetime) = self.table.live(&(number, Identity::Client(client))) {
            lifetime.see(context);
        }
    }

    /// Notes a client ID that EXCHANGE_ID returned. An earlier one of the same client at that
    /// server is replaced if it never had a session (RFC 8881, section 18.35.4).
    fn unconfirmed(&mut self, owner: (u64, u64), number: u64, at: At, sink: Sink<'_>) {
        if self.owners.get(&owner) == Some(&number) {
            return;
        }
        if self.unconfirmed.len() >= States::MOST_NAMES {
            self.unconfirmed.clear();
        }
        let Some(before) = self.unconfirmed.insert(owner, number).filter(|before| *before != number) else {
            return;
        };
        if let Some(old) = self.table.numbered(before, before).and_then(|old| old.client) {
            self.end((before, Identity::Client(old)), End::Replaced, at, sink);
        }
    }

    /// Notes the verifier with which a client ID was requested.
    fn note_verifier(&mut self, number: u64, verifier: u64) {
        if self.verifiers.len() >= States::MOST_NAMES {
            self.verifiers.clear();
        }
        self.verifiers.insert(number, verifier);
    }

    /// Whether a client restarted between the requests for two client IDs.
    fn has_restarted(&self, before: u64, after: u64) -> bool {
        let verifiers = self.verifiers.get(&before).zip(self.verifiers.get(&after));
        verifiers.is_some_and(|(before, after)| before != after)
    }

    /// How the state of a client ends when `after` replaces its client ID `before`: the client
    /// restarted, another host uses the same client owner, or the server lost it.
    fn replacement(&mut self, before: u64, after: u64, context: &Context<'_>) -> (End, End) {
        if !self.has_restarted(before, after) {
            return (End::Lost, End::Lost);
        }
        let host = self.table.numbered(before, before).and_then(|old| old.client_address);
        let is_other = host.zip(paths::client(context.transaction)).is_some_and(|(old, new)| old != new);
        (End::Replaced, if is_other { End::TakenOver } else { End::Restarted })
    }

    /// Notes that CREATE_SESSION or SETCLIENTID_CONFIRM confirms a client ID. It replaces that of the same
    /// client at that server, with its state (RFC 8881, section 18.35.4; RFC 7530, section 16.34.5).
    fn confirmed(&mut self, number: u64, client: u64, context: &Context<'_>, sink: Sink<'_>) {
        let lifetime = self.table.live(&(number, Identity::Client(client)));
        let Some(owner) = lifetime.and_then(|lifetime| lifetime.owner) else { return };
        self.unconfirmed.remove(&owner);
        if self.owners.len() >= States::MOST_NAMES {
            self.owners.clear();
        }
        let Some(before) = self.owners.insert(owner, number).filter(|before| *before != number) else {
            return;
        };
        let old = self.table.numbered(before, before).map(|old| old.client.unwrap_or(0));
        if let Some(old) = old {
            let ends = self.replacement(before, number, context);
            self.end_client(before, old, ends, context.shown, sink);
        }
    }

    /// Ends a client ID and the state that belongs to it.
    fn end_client(&mut self, number: u64, client: u64, (end, rest): (End, End), at: At, sink: Sink<'_>) {
        if !self.end((number, Identity::Client(client)), end, at, sink) {
            return;
        }
        self.table.doubt_locks(number);
        let left = self.table.keys_of_scope(number, |_| true);
        self.end_all(&left, rest, at, sink);
        // In minor version 0, stateids do not name their client.
        let left = self.table.keys_of(0, Group::Client(client)..=Group::Client(client));
        self.end_all(&left, rest, at, sink);
    }
}

/// A hash of the server's address.
fn hash_of_server(context: &Context<'_>) -> Option<u64> {
    paths::server(context.transaction).map(|server| FixedState::default().hash_one(server))
}
