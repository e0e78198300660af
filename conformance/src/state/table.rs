//! Stateids and sessions, across all connections.

use super::files::{current_file, file_of, opened_file};
use super::grants::{Grants, Range, Share};
use super::moment::{Key, Moment, is_later};
use super::{Fault, Kind};
use crate::bounded;
use crate::finding::{Finding, Value};
use crate::known::Known;
use crate::reconnection::Place;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_dissector::ulb::{
    Callback, FactKind, Nfs4, Operation, OperationKind, Sequence, SessionId, StateFact, StateId,
};
use rdmascope_wire::nfs::{nfsstat4, open_claim_type4};
use rdmascope_wire::rpc;

/// Claims of opens that neither reclaim state nor depend on reclaimed state.
const NEW_CLAIMS: [u32; 2] = [open_claim_type4::NULL, open_claim_type4::FH];

/// The sessions and stateids used last, of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateTable {
    /// Oldest first.
    sessions: VecDeque<Session>,
    stateids: bounded::Map<Key, Stateid>,
    /// [`Session::scope`] of the last session.
    scopes: u64,
    locks: Grants<Range>,
    /// Opens and delegations of clients with a known client ID.
    shares: Grants<Share>,
}

/// A session.
#[derive(Clone, Debug)]
struct Session {
    id: SessionId,
    /// Two servers may assign the same ID.
    place: Place,
    /// A unique number.
    scope: u64,
    /// The client ID, and the number of missing packets of the client at the session's creation;
    /// `None` if the capture lacks the creation.
    created: Option<(u64, u64)>,
    /// By slot: the highest sequence ID that succeeded.
    slots: Vec<u32>,
    /// The first successful OPEN that reclaimed nothing, before a RECLAIM_COMPLETE was seen.
    opened: Option<Moment>,
    /// RECLAIM_COMPLETE succeeded.
    completed: Option<Moment>,
    /// The operation that destroyed it.
    destroyed: Option<(&'static str, Moment)>,
}

/// The known state of a stateid.
#[derive(Clone, Copy, Debug, Default)]
struct Stateid {
    /// Its highest sequence number, and the reply that contains it; the number is 0 if none is
    /// known.
    sequence: u32,
    seen: Option<Moment>,
    /// The operation that ended it.
    ended: Option<(&'static str, Moment)>,
    /// A hash of the file handle that it was last used with, and the packets.
    file: Option<(u64, [u64; 2])>,
    /// The packets of a recall that the client accepted.
    recalled: Option<[u64; 2]>,
    /// Its revocation has been reported.
    is_reported: bool,
}

/// The values that all operations of a transaction share.
struct Context<'a> {
    transaction: &'a Transaction,
    known: &'a Known,
    now: Moment,
    /// The faults found so far.
    faults: Vec<Fault>,
}

/// An operation in a session, and its facts.
#[derive(Clone, Copy)]
struct Step<'a> {
    /// [`Session::scope`].
    scope: u64,
    kind: Nfs4,
    operation: &'a Operation,
    facts: &'a [StateFact],
}

impl Context<'_> {
    fn report(&mut self, kind: Kind, finding: Finding) {
        self.faults.push(Fault { kind, finding });
    }

    fn found(&self, message: impl Into<String>, by_client: bool) -> Finding {
        let end = match by_client {
            true => self.known.caller(Direction::Forward),
            false => self.known.answerer(Direction::Forward),
        };
        Finding::new(message).by(end).of(self.transaction).frames(self.now.frames())
    }
}

impl StateTable {
    /// Sessions that are kept.
    const MOST: usize = 64;
    /// Slots of a session that are followed, starting with slot 0.
    const MOST_SLOTS: u32 = 256;
    /// Stateids that are kept.
    const MOST_STATEIDS: usize = 4096;

    /// Heap bytes that its lists take up.
    pub(crate) fn footprint(&self) -> usize {
        let slots: usize = self.sessions.iter().map(|session| size_of_val(&session.slots[..])).sum();
        self.sessions.len() * size_of::<Session>()
            + slots
            + self.stateids.footprint()
            + self.locks.footprint()
            + self.shares.footprint()
    }

    /// Records a finished transaction, and returns the faults in its use of state.
    pub(crate) fn note(&mut self, transaction: &Transaction, known: &Known) -> Vec<Fault> {
        let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return Vec::new() };
        let is_newer = transaction.details.minor_version.is_some_and(|version| version > 0);
        if !is_newer || transaction.rpc_status != Some(rpc::Status::Success) {
            return Vec::new();
        }
        let now = Moment::of(call, reply, None);
        let mut context = Context { transaction, known, now, faults: Vec::new() };
        self.answered(&mut context);
        context.faults
    }

    /// Processes a COMPOUND or CB_COMPOUND that was answered.
    fn answered(&mut self, context: &mut Context<'_>) {
        let Context { transaction: Transaction { details, direction, .. }, known, .. } = *context;
        let mut scope = None;
        if let Some(sequence) = details.session.sequence {
            let status = details.operations.first().and_then(|operation| operation.status);
            let at = match (status, self.find(sequence.session, known), direction) {
                (Some(0), Some(at), _) => at,
                (Some(0), None, Direction::Forward) => self.add(sequence.session, None, known),
                _ => return,
            };
            if *direction == Direction::Backward {
                return self.recalled(self.sessions[at].scope, context);
            }
            // A retransmitted request is answered with the first reply.
            if !self.sessions[at].take(sequence, context) {
                return;
            }
            scope = Some(self.sessions[at].scope);
        }
        if !details.states.is_empty() && *direction == Direction::Forward {
            self.compound(scope, context);
        }
    }

    fn find(&self, id: SessionId, known: &Known) -> Option<usize> {
        let place = known.place(Direction::Forward);
        self.sessions.iter().rposition(|session| (session.id, session.place) == (id, place))
    }

    fn add(&mut self, id: SessionId, created: Option<(u64, u64)>, known: &Known) -> usize {
        self.scopes += 1;
        let session = Session {
            id,
            place: known.place(Direction::Forward),
            scope: self.scopes,
            created,
            slots: Vec::new(),
            opened: None,
            completed: None,
            destroyed: None,
        };
        bounded::push(&mut self.sessions, StateTable::MOST, session);
        self.sessions.len() - 1
    }

    fn scoped(&mut self, scope: u64) -> Option<&mut Session> {
        self.sessions.iter_mut().rev().find(|session| session.scope == scope)
    }

    /// Finds or adds the state of a stateid.
    fn stateid(&mut self, key: Key) -> &mut Stateid {
        self.stateids.or_default(StateTable::MOST_STATEIDS, key)
    }

    /// Records the recall of a delegation or a layout that the client accepted. If its reply took long,
    /// the call may have arrived when the server had given up.
    fn recalled(&mut self, scope: u64, context: &Context<'_>) {
        const PROMPT: u64 = 1_000_000_000;
        if context.transaction.latency().is_none_or(|latency| latency > PROMPT) {
            return;
        }
        let details = &context.transaction.details;
        for fact in &details.states {
            let operation = details.operations.get(usize::from(fact.operation));
            if let (FactKind::ArgumentStateId(id), Some(operation)) = (fact.kind, operation)
                && matches!(
                    operation.kind,
                    OperationKind::Callback(Callback::Recall | Callback::Layoutrecall)
                )
                && operation.status == Some(0)
                && let Some((other, _)) = parts(&id)
            {
                self.stateid((scope, other)).recalled = Some(context.now.frames());
            }
        }
    }

    /// Processes the operations of a COMPOUND.
    fn compound(&mut self, scope: Option<u64>, context: &mut Context<'_>) {
        let details = &context.transaction.details;
        for facts in details.states.chunk_by(|one, other| one.operation == other.operation) {
            let Some(operation) = details.operations.get(usize::from(facts[0].operation)) else { break };
            let (OperationKind::Nfs4(kind), Some(status)) = (operation.kind, operation.status) else {
                continue;
            };
            let step = scope.map(|scope| Step { scope, kind, operation, facts });
            match (kind, status, step) {
                (Nfs4::CreateSession | Nfs4::DestroySession | Nfs4::DestroyClientid, 0, _) => {
                    self.session_operation(kind, facts, context);
                }
                (_, 0, Some(step)) => {
                    self.reclaims(step, context);
                    self.stateids_of(step, context);
                }
                (_, nfsstat4::DELEG_REVOKED, Some(step)) => self.revoked(step, context),
                _ => {}
            }
        }
    }

    /// Processes CREATE_SESSION, DESTROY_SESSION and DESTROY_CLIENTID.
    fn session_operation(&mut self, kind: Nfs4, facts: &[StateFact], context: &mut Context<'_>) {
        let Context { known, now, .. } = *context;
        let client = facts.iter().find_map(|fact| match fact.kind {
            FactKind::ArgumentClient(client) => Some(client),
            _ => None,
        });
        let lacks = known.losses(known.caller(Direction::Forward));
        match kind {
            Nfs4::CreateSession => {
                let created = context.transaction.details.session.created;
                let (Some((id, _)), Some(client)) = (created, client) else { return };
                let place = known.place(Direction::Forward);
                self.sessions.retain(|session| (session.id, session.place) != (id, place));
                self.add(id, Some((client, lacks)), known);
            }
            Nfs4::DestroySession => {
                let named = facts.iter().find_map(|fact| match fact.kind {
                    FactKind::Session(id) => self.find(id, known),
                    _ => None,
                });
                let Some(session) = named.map(|at| &mut self.sessions[at]) else { return };
                session.destroyed = Some(("DESTROY_SESSION", now));
                if let (Some(opened), None, Some((_, lacked))) =
                    (&session.opened, session.completed, session.created)
                    && lacked == lacks
                {
                    let words = "files were opened in a session for which no RECLAIM_COMPLETE was seen";
                    let finding = context.found(words, true).frames(opened.frames()).unless(true);
                    context.report(Kind::Late, finding);
                }
            }
            _ => {
                let place = known.place(Direction::Forward);
                let is_of = |session: &&mut Session| {
                    session.place == place && session.created.is_some_and(|(of, _)| Some(of) == client)
                };
                for session in self.sessions.iter_mut().filter(is_of) {
                    session.destroyed.get_or_insert(("DESTROY_CLIENTID", now));
                }
            }
        }
    }

    /// Processes a successful OPEN or RECLAIM_COMPLETE.
    fn reclaims(&mut self, step: Step<'_>, context: &mut Context<'_>) {
        if !matches!(step.kind, Nfs4::Open | Nfs4::ReclaimComplete) {
            return;
        }
        let Some(session) = self.scoped(step.scope) else { return };
        for fact in step.facts {
            match fact.kind {
                FactKind::Open { claim, .. }
                    if step.kind == Nfs4::Open
                        && NEW_CLAIMS.contains(&claim)
                        && session.completed.is_none() =>
                {
                    session.opened.get_or_insert(context.now);
                }
                FactKind::ReclaimComplete { one_fs: false } => {
                    if let Some(first) = session.completed {
                        let words = "RECLAIM_COMPLETE succeeds a second time in one session";
                        let finding = context.found(words, false).frames(first.frames());
                        context.report(Kind::Repeated, finding);
                    } else if let Some(opened) =
                        session.opened.filter(|opened| opened.is_before(&context.now))
                    {
                        let words = "a file was opened before the first RECLAIM_COMPLETE";
                        let finding = context.found(words, true).frames(opened.frames());
                        context.report(Kind::Late, finding);
                    }
                    session.completed = Some(context.now);
                }
                _ => {}
            }
        }
    }

    /// Processes the stateids that a successful operation names and returns.
    fn stateids_of(&mut self, step: Step<'_>, context: &mut Context<'_>) {
        let Step { scope, kind, operation, facts } = step;
        let ends = match kind {
            Nfs4::Close | Nfs4::Delegreturn | Nfs4::FreeStateid => Some(operation.name()),
            // It has a status for each stateid.
            Nfs4::TestStateid => return,
            _ => None,
        };
        let is_judged = kind != Nfs4::FreeStateid;
        let file = file_of(kind, facts[0].operation, context.transaction);
        let mut named = None;
        let mut given = None;
        for fact in facts {
            let (id, is_returned) = match fact.kind {
                FactKind::ArgumentStateId(id) => (id, false),
                FactKind::Delegation { id, .. } => (id, true),
                FactKind::ResultStateId(id) if has_sequence(kind) => (id, true),
                _ => continue,
            };
            let Some((other, number)) = parts(&id) else { continue };
            let key = (scope, other);
            self.one_file(key, file, operation, context);
            if is_returned {
                given = Some((key, number));
                let before = named.filter(|(named, _)| *named == other).map(|(_, number)| number);
                self.given((key, number), before, operation, context);
                continue;
            }
            named = Some((other, number));
            self.confirmed((key, number), step, context);
            let Some(known) = self.stateids.get_mut(&key) else {
                if let Some(name) = ends {
                    let ended = Some((name, context.now));
                    *self.stateid(key) = Stateid { sequence: number, ended, ..Stateid::default() };
                }
                continue;
            };
            if let Some((name, at)) = known.ended.filter(|(_, at)| is_judged && at.is_before(&context.now)) {
                let is_old = number > 0 && known.sequence > 0 && !is_later(number, known.sequence);
                if number == 0 || is_old {
                    let words = format!("{} succeeds with a stateid that {name} ended", operation.name());
                    let finding = context.found(words, false).frames(at.frames());
                    context.report(Kind::Ended, finding.observed(Value::Name("NFS4_OK")).unless(!is_old));
                }
                // Each end is reported once. A newer number was assigned after it.
                known.ended = None;
            } else if let Some(seen) = known.seen.filter(|seen| seen.is_before(&context.now))
                && number > 0
                && is_later(known.sequence, number)
                && is_judged
                && !is_of_layouts(kind)
            {
                let before = known.sequence;
                let words = format!("{} succeeds with an old sequence number of a stateid", operation.name());
                let allowed = Value::Words(format!("0, or {before} or more"));
                let finding = context.found(words, false).frames(seen.frames());
                context.report(Kind::Old, finding.values(Value::Count(number.into()), allowed));
                // Reported once.
                known.seen = None;
            }
            if number > 0 && (known.sequence == 0 || is_later(number, known.sequence)) {
                (known.sequence, known.seen) = (number, None);
            }
            // A number assigned while this operation was outstanding may be later than the end.
            let is_newer = match number {
                0 => known.seen.is_some_and(|seen| !seen.is_before(&context.now)),
                number => is_later(known.sequence, number),
            };
            if let Some(name) = ends.filter(|_| !is_newer) {
                known.ended = Some((name, context.now));
            }
        }
        match (kind, given) {
            (Nfs4::Lock, Some(stateid)) => self.locked(stateid, step, context),
            (Nfs4::Locku, Some((key, _))) => self.locks.given_back(key),
            (Nfs4::Open, _) => self.opened(step, context),
            _ => {}
        }
    }

    /// Records that the server accepted a stateid, and reports the conflicts of its grant.
    fn confirmed(&mut self, (key, number): (Key, u32), step: Step<'_>, context: &mut Context<'_>) {
        let now = context.now;
        let mut found = |kind, conflict, moments: [Moment; 2], refusal| {
            let name = step.operation.name();
            let words = format!("{name} with sequence number {number} shows that {conflict}");
            let finding = context.found(words, false).frames(moments.iter().flat_map(Moment::frames));
            context.report(kind, finding.values(Value::Name("NFS4_OK"), Value::Name(refusal)));
        };
        if let Some((_, moments)) = self.locks.confirmed(key, number, &now) {
            let conflict = "a lock was held while another lock-owner was granted a conflicting one";
            found(Kind::LockConflict, conflict, moments, "NFS4ERR_DENIED");
        }
        // Some servers accept the return of a delegation that they revoked.
        if step.kind != Nfs4::Delegreturn
            && let Some((share, moments)) = self.shares.confirmed(key, number, &now)
        {
            let conflict = match share.is_delegation {
                true => {
                    "a client had a delegation while another client opened the file in conflict \
                        with it"
                }
                false => {
                    "a client had the file open while another client was granted a conflicting \
                        delegation"
                }
            };
            found(Kind::DelegationConflict, conflict, moments, "NFS4ERR_DELAY");
        }
    }

    /// Records a successful OPEN.
    fn opened(&mut self, Step { scope, facts, .. }: Step<'_>, context: &Context<'_>) {
        let created = self.scoped(scope).and_then(|session| session.created);
        let (Some((client, _)), Some(file)) = (created, opened_file(facts[0].operation, context.transaction))
        else {
            return;
        };
        let (mut access, mut is_new) = (0, false);
        for fact in facts {
            match fact.kind {
                FactKind::Share { access: requested, .. } => access = requested,
                FactKind::Open { claim, .. } => is_new = NEW_CLAIMS.contains(&claim),
                _ => {}
            }
        }
        if !is_new {
            return;
        }
        let at = (context.known.place(Direction::Forward), file);
        for fact in facts {
            let (id, share) = match fact.kind {
                // OPEN4_SHARE_ACCESS_WRITE.
                FactKind::ResultStateId(id) => (id, Share { is_delegation: false, writes: access & 2 != 0 }),
                FactKind::Delegation { id, writes } => (id, Share { is_delegation: true, writes }),
                _ => continue,
            };
            if let Some((other, number)) = parts(&id) {
                self.shares.granted(((scope, other), number), Some(client), share, at, context.now);
            }
        }
    }

    /// Records a successful LOCK.
    fn locked(&mut self, stateid: (Key, u32), step: Step<'_>, context: &Context<'_>) {
        let Step { operation, facts, .. } = step;
        let locks = facts.iter().find_map(|fact| match fact.kind {
            FactKind::Lock { kind, owner, .. } => Some((kind, owner)),
            _ => None,
        });
        if let (Some((kind, owner)), Some(file)) =
            (locks, current_file(facts[0].operation, context.transaction))
            && let (Some(offset), Some(length)) =
                (operation.offset, operation.count.filter(|count| *count > 0))
        {
            let at = (context.known.place(Direction::Forward), file);
            self.locks.granted(stateid, owner, Range::new(offset, length, kind), at, context.now);
        }
    }

    /// Records the file that a stateid is used with, if known.
    fn one_file(&mut self, key: Key, file: Option<u64>, operation: &Operation, context: &mut Context<'_>) {
        let Some(file) = file else { return };
        let frames = context.now.frames();
        let known = self.stateid(key);
        let (first, seen) = *known.file.get_or_insert((file, frames));
        if first != file {
            // A stateid used alternately with two files is reported each time.
            known.file = Some((file, frames));
            let words = format!("{} succeeds with the stateid of another file", operation.name());
            context.report(Kind::File, context.found(words, false).frames(seen));
        }
    }

    /// Records a stateid that an operation returns. `before` is the number of the same stateid in
    /// its arguments.
    fn given(
        &mut self,
        (key, number): (Key, u32),
        before: Option<u32>,
        operation: &Operation,
        context: &mut Context<'_>,
    ) {
        let now = context.now;
        let known = self.stateid(key);
        let earlier = known.seen.filter(|seen| seen.is_before(&now)).map(|seen| (known.sequence, Some(seen)));
        let named = before.filter(|before| *before > 0).map(|before| (before, None));
        let higher = named.into_iter().chain(earlier).find(|(before, _)| is_later(*before, number));
        if let Some((before, seen)) = higher.filter(|_| number > 0) {
            let words = format!(
                "{} returns a stateid with sequence number {number} after {before}",
                operation.name()
            );
            let finding =
                context.found(words, false).frames(seen.into_iter().flat_map(|seen: Moment| seen.frames()));
            let allowed = Value::Words(format!("{before} or more"));
            context.report(Kind::Back, finding.values(Value::Count(number.into()), allowed));
        }
        if known.sequence == 0 || !is_later(known.sequence, number) || higher.is_some() {
            (known.sequence, known.seen) = (number, Some(now));
        }
        known.ended = None;
    }

    /// Records an operation that was refused because the state of its stateid was revoked.
    fn revoked(&mut self, Step { scope, operation, facts, .. }: Step<'_>, context: &mut Context<'_>) {
        let mut names = facts.iter().filter_map(|fact| match fact.kind {
            FactKind::ArgumentStateId(id) => parts(&id),
            _ => None,
        });
        let (Some((other, _)), None) = (names.next(), names.next()) else { return };
        let known = self.stateid((scope, other));
        if core::mem::replace(&mut known.is_reported, true) {
            return;
        }
        let recalled = known.recalled;
        let words = match recalled {
            Some(_) => {
                format!(
                    "{} fails because a recalled delegation or layout was revoked before it \
                    was returned",
                    operation.name()
                )
            }
            None => format!("{} fails because a delegation or layout was revoked", operation.name()),
        };
        let finding = context.found(words, true).frames(recalled.into_iter().flatten());
        let finding = finding.observed(Value::Name("NFS4ERR_DELEG_REVOKED")).unless(recalled.is_none());
        context.report(Kind::Revoked, finding);
    }
}

impl Session {
    /// Takes a request that SEQUENCE accepted. Returns false if it is not the first transmission on
    /// its slot, or if that is unknown.
    fn take(&mut self, sequence: Sequence, context: &mut Context<'_>) -> bool {
        let Sequence { slot, number, .. } = sequence;
        if slot >= StateTable::MOST_SLOTS {
            return false;
        }
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, 0);
        }
        let last = self.slots[at];
        if last > 0 && !is_later(number, last) {
            // Lower numbers after the end are those of a new session with the same ID.
            self.destroyed = self.destroyed.filter(|(_, at)| !at.is_before(&context.now));
            return false;
        }
        context.now.slot = Some((self.scope, slot, number));
        if let Some((name, at)) = self.destroyed
            && at.is_before(&context.now)
            && last > 0
            && number == last.wrapping_add(1)
        {
            let words = format!("SEQUENCE succeeds in a session that {name} ended");
            let finding = context.found(words, false).frames(at.frames());
            context.report(Kind::Destroyed, finding.observed(Value::Name("NFS4_OK")));
            self.destroyed = None;
        }
        self.slots[at] = number;
        true
    }
}

/// Whether the sequence number of the stateid that an operation returns is judged. The stateid that
/// CLOSE returns identifies no state.
fn has_sequence(kind: Nfs4) -> bool {
    matches!(
        kind,
        Nfs4::Open | Nfs4::OpenDowngrade | Nfs4::Lock | Nfs4::Locku | Nfs4::Layoutget | Nfs4::Layoutreturn
    )
}

/// Whether an operation names a layout stateid, which may have any number that the client has
/// reached (RFC 8881, section 12.5.3).
fn is_of_layouts(kind: Nfs4) -> bool {
    matches!(
        kind,
        Nfs4::Layoutget | Nfs4::Layoutcommit | Nfs4::Layoutreturn | Nfs4::Layouterror | Nfs4::Layoutstats
    )
}

/// The twelve bytes of a stateid that do not change, and its sequence number; `None` for special
/// stateids, including the current one (RFC 8881, section 8.2.3).
fn parts(id: &StateId) -> Option<([u8; 12], u32)> {
    let (number, other) = id.split_first_chunk::<4>()?;
    let other: [u8; 12] = *other.first_chunk()?;
    (other != [0; 12] && other != [0xff; 12]).then_some((other, u32::from_be_bytes(*number)))
}
