//! Follows state over transactions.

use super::table::{Key, Sink, Table};
use super::{At, End, Lifetime, Raised, Summary};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::observation::{Observation, Observe, Observed};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Message, Security, Transaction};
use rdmascope_dissector::ulb::{Nfs4, Operation, OperationKind, SessionId, StateId, Text};
use rdmascope_wire::rpc;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Follows state over the transactions of a capture, in the order in which they end. The engine
/// should [observe](rdmascope_dissector::engine::Config::observe) to report missing packets.
///
/// Client IDs, session IDs and stateids are distinguished by their bytes. If two servers in one
/// capture use the same bytes, they count as one, except for client IDs of minor version 1 and
/// later.
#[derive(Clone, Debug, Default)]
pub struct States {
    pub(super) table: Table,
    /// The scope of each session.
    pub(super) sessions: HashMap<SessionId, u64, FixedState>,
    /// The lifetimes of each client ID, latest last.
    pub(super) clients: HashMap<u64, Vec<u64>, FixedState>,
    /// The confirmed lifetime of each client owner at each server.
    pub(super) owners: HashMap<(u64, u64), u64, FixedState>,
    /// The lifetime of each client owner at each server without a session yet.
    pub(super) unconfirmed: HashMap<(u64, u64), u64, FixedState>,
    /// The verifier of the client owner in each lifetime.
    pub(super) verifiers: HashMap<u64, u64, FixedState>,
    pub(super) lines: HashMap<ConnectionId, Line, FixedState>,
    gaps: Gaps,
    pub(super) raised: Vec<Raised>,
    /// Callbacks about state that no reply has shown yet.
    pub(super) early: VecDeque<(Key, Early)>,
    /// The time that the capture has reached.
    latest: Time,
}

/// The facts kept about a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// The scope of its latest use.
    pub(super) scope: Option<u64>,
    /// Whether it carried encrypted calls.
    pub(super) is_sealed: bool,
    /// The time at which something was last found missing.
    blind: Option<Time>,
}

impl Line {
    /// The scope, and the time at which something was last found missing.
    fn gap(&self) -> Option<(u64, Time)> {
        self.scope.zip(self.blind)
    }

    /// Adds the facts of the same connection under another number.
    fn join(&mut self, other: Line) {
        self.scope = self.scope.or(other.scope);
        self.is_sealed |= other.is_sealed;
        self.blind = self.blind.max(other.blind);
    }
}

/// A callback that was captured before the reply that created its state (RFC 8881, section
/// 2.10.6.3).
#[derive(Clone, Copy, Debug)]
pub(super) enum Early {
    Recalled(At),
    Ended(End, At),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed with this status.
    Failed(u32),
    /// An earlier operation failed.
    NotExecuted,
    /// Its status is not in the capture.
    Unknown,
}

/// The common facts of a transaction's operations.
pub(super) struct Context<'a> {
    pub(super) transaction: &'a Transaction,
    /// The scope of the stateids; `None` if unknown.
    pub(super) scope: Option<u64>,
    pub(super) minor_version: u32,
    pub(super) call: At,
    /// The reply; the call if there is no reply.
    pub(super) shown: At,
}

/// The values that operations of a COMPOUND pass on (RFC 8881, section 16.2.3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Current {
    pub(super) handle: Option<Text>,
    pub(super) stateid: Option<StateId>,
}

/// The times at which something was last found missing on connections, by their scopes.
#[derive(Clone, Debug, Default)]
struct Gaps(BTreeSet<(u64, Time, ConnectionId)>);

impl Gaps {
    /// Replaces the scope and the time of a connection.
    fn change(&mut self, connection: ConnectionId, before: Option<(u64, Time)>, after: Option<(u64, Time)>) {
        if before != after {
            before.map(|(scope, time)| self.0.remove(&(scope, time, connection)));
            after.map(|(scope, time)| self.0.insert((scope, time, connection)));
        }
    }

    /// Whether something that is missing may have ended a lifetime after its last appearance.
    fn is_blind(&self, lifetime: &Lifetime) -> bool {
        let Lifetime { scope, last, .. } = lifetime;
        let since = (*scope, last.time, ConnectionId(0));
        self.0.range(since..=(*scope, Time(i64::MAX), ConnectionId(u32::MAX))).next().is_some()
    }

    /// Whether nothing that is missing may have ended a lifetime.
    fn is_sure(&self, lifetime: &Lifetime) -> bool {
        lifetime.unsure.is_none() && !self.is_blind(lifetime)
    }
}

impl States {
    /// Missing packets are reported later than they were sent. Ends of state that precede the report
    /// by at most this time are in doubt, in nanoseconds.
    const IN_DOUBT: i64 = 1_000_000_000;
    /// The most callbacks kept until their state appears.
    pub(super) const MOST_EARLY: usize = 64;
    /// The most flags that are kept.
    pub const MOST_RAISED: usize = 1024;
    /// The most lifetimes of one client ID that are distinguished.
    pub(super) const MOST_ALIKE: usize = 8;
    /// When there are more names than this, those of ended lifetimes are dropped.
    pub(super) const MOST_NAMES: usize = 2 * Table::MOST_LIVE;

    /// The engine configuration that is required.
    pub fn needs(&self) -> Config {
        Config { observe: Observe::Events, ..Config::default() }
    }

    /// Takes an event of the engine. Ended lifetimes go to `sink` after a delay, because a message
    /// that concerns them may be captured late.
    pub fn handle(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(&Lifetime)) {
        match event {
            Event::Transaction(transaction) => self.transaction(transaction, sink),
            Event::Observation(observation) => self.observation(observation),
            Event::Eviction(
                Eviction::Transaction { connection, .. }
                | Eviction::HeldPackets { connection }
                | Eviction::Connection(connection),
            ) => self.blind(*connection),
            Event::Connection(connection)
                if self.lines.get(&connection.id).is_some_and(|line| line.blind.is_none()) =>
            {
                self.lines.remove(&connection.id);
            }
            _ => {}
        }
    }

    /// The latest flags that servers raised, at most [`States::MOST_RAISED`].
    pub fn raised(&self) -> &[Raised] {
        &self.raised
    }

    /// Whether no session has a flag set.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.raised.iter().all(|raised| raised.gone.is_some())
    }

    /// Ended lifetimes that were not reported yet.
    pub fn ended(&self) -> impl Iterator<Item = &Lifetime> {
        self.table.ended()
    }

    /// Lifetimes that are known to be live. Those that a call without a reply or a missing packet
    /// may have ended are left out.
    pub fn open(&self) -> impl Iterator<Item = &Lifetime> {
        self.table.open().filter(|lifetime| self.gaps.is_sure(lifetime))
    }

    /// Ends lifetimes that were open until now, as far as the capture shows. Those that a missing
    /// packet may have ended earlier have an unknown end.
    pub(super) fn end_all(&mut self, keys: &[Key], end: End, at: At, sink: Sink<'_>) {
        for key in keys {
            let is_sure = self.table.live(key).is_none_or(|lifetime| self.gaps.is_sure(&lifetime));
            self.end(*key, if is_sure { end } else { End::Unknown }, at, sink);
        }
    }

    /// Forgets flags that were cleared before this time.
    pub fn forget(&mut self, before: Time) {
        self.raised.retain(|raised| raised.gone.is_none_or(|at| at.time >= before));
    }

    /// The scopes of connections on which something was found missing.
    #[cfg(test)]
    pub(super) fn blind_scopes(&self) -> BTreeSet<u64> {
        let gap = |(id, line): (&ConnectionId, &Line)| line.gap().map(|(scope, time)| (scope, time, *id));
        assert_eq!(self.gaps.0, self.lines.iter().filter_map(gap).collect());
        self.gaps.0.iter().map(|(scope, ..)| *scope).collect()
    }

    /// Ends the capture. Reports all remaining lifetimes: ended ones in the order of their ends,
    /// then live ones in the order of their beginnings.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&Lifetime)) {
        let Self { table, gaps, .. } = self;
        let look = |lifetime: &mut Lifetime| {
            if let Some(at) = lifetime.unsure {
                (lifetime.end, lifetime.ended) = (End::Unknown, Some(at));
            }
            lifetime.capture_gap = lifetime.end == End::Open && gaps.is_blind(lifetime);
        };
        table.finish(look, sink);
    }

    /// The counts of the reported lifetimes.
    pub fn summary(&self) -> &Summary {
        &self.table.summary
    }

    fn observation(&mut self, observation: &Observation<'_>) {
        match observation.kind {
            Observed::Sent(sent) => self.latest = self.latest.max(sent.send.seen.time),
            Observed::Missing(_) => self.blind(observation.connection),
            Observed::Joined(Some(other)) => {
                if let Some(line) = self.lines.remove(&other) {
                    self.gaps.change(other, line.gap(), None);
                    self.change_line(observation.connection, |joined| joined.join(line));
                }
            }
            _ => {}
        }
    }

    pub(super) fn line(&mut self, connection: ConnectionId) -> &mut Line {
        if self.lines.len() >= Table::MOST_LIVE {
            // Keeps only connections that have carried state.
            self.lines.retain(|_, line| line.scope.is_some());
        }
        self.lines.entry(connection).or_default()
    }

    /// Changes the facts of a connection.
    fn change_line(&mut self, connection: ConnectionId, change: impl FnOnce(&mut Line)) {
        let line = self.line(connection);
        let before = line.gap();
        change(line);
        let after = line.gap();
        self.gaps.change(connection, before, after);
    }

    /// Stores the scope of the latest use of a connection.
    pub(super) fn use_line(&mut self, connection: ConnectionId, scope: u64) {
        self.change_line(connection, |line| line.scope = Some(scope));
    }

    /// Notes that something is missing on this connection.
    pub(super) fn blind(&mut self, connection: ConnectionId) {
        self.blind_since(connection, Time(self.latest.0.saturating_sub(States::IN_DOUBT)));
    }

    /// Notes that something is missing on this connection, from this time on. It may have ended
    /// state of the same client that seemed to last until its client ID ended.
    fn blind_since(&mut self, connection: ConnectionId, since: Time) {
        let latest = self.latest;
        self.change_line(connection, |line| line.blind = Some(latest));
        if let Some(scope) = self.line(connection).scope {
            self.table.doubt_ended(scope, since);
        }
    }

    fn transaction(&mut self, transaction: &Transaction, sink: Sink<'_>) {
        if let Some(time) = transaction.messages().map(|message| message.seen.time).max() {
            self.latest = self.latest.max(time);
        }
        let (Some(procedure), Some(call)) = (transaction.procedure, &transaction.call) else {
            // A reply without a call, or a call that cannot be decoded.
            if self.line(transaction.connection).scope.is_some() {
                self.table.summary.unread += 1;
                let first = transaction.messages().map(|message| message.seen.time).min();
                self.blind_since(transaction.connection, first.unwrap_or(self.latest));
            }
            return;
        };
        if !procedure.is_compound() {
            return;
        }
        if transaction.security == Some(Security::GssPrivacy) {
            self.table.summary.encrypted += 1;
            self.blind(transaction.connection);
            return self.seal(transaction.connection, true);
        }
        let is_read = |message: &Message| message.unread.is_none() && message.stop.is_none();
        let is_reply_decoded = transaction.reply.as_ref().is_some_and(is_read)
            && transaction.rpc_status == Some(rpc::Status::Success)
            && transaction.stop.is_none();
        if transaction.rpc_status.is_some_and(|status| status != rpc::Status::Success) {
            return;
        }
        let details = &transaction.details;
        if !is_read(call) || (!is_reply_decoded && !details.states.is_empty()) {
            self.table.summary.unread += 1;
            if !is_read(call) {
                self.blind(transaction.connection);
            }
        }
        let at = |message: &Message| {
            let (time, frame) = (message.seen.time, message.seen.frame);
            At { time, frame, transaction: transaction.number }
        };
        let call = at(call);
        let shown = transaction.reply.as_ref().map_or(call, at);
        let minor_version = details.minor_version.unwrap_or(0);
        let mut context = Context { transaction, scope: None, minor_version, call, shown };
        context.scope = match (details.session.sequence, details.minor_version) {
            (Some(sequence), _) => self.sequence(sequence.session, sequence.slot, &context, sink),
            (None, Some(0)) => Some(0),
            (None, _) => None,
        };
        if let Some(scope) = context.scope {
            self.use_line(transaction.connection, scope);
            self.seal(transaction.connection, false);
        }
        self.compound(&context, is_reply_decoded, sink);
    }

    /// Notes whether calls on a connection are encrypted, for the connection and its client.
    fn seal(&mut self, connection: ConnectionId, is_sealed: bool) {
        let line = self.line(connection);
        line.is_sealed |= is_sealed;
        if let (true, Some(scope)) = (line.is_sealed, line.scope)
            && let Some(mut client) = self.table.numbered(scope, scope)
        {
            client.is_sealed = true;
        }
    }

    /// Processes the operations of a COMPOUND or a CB_COMPOUND.
    fn compound(&mut self, context: &Context<'_>, is_reply_decoded: bool, sink: Sink<'_>) {
        let details = &context.transaction.details;
        if details.states.is_empty() {
            return;
        }
        let mut rest = &details.states[..];
        let (mut current, mut saved) = (Current::default(), Current::default());
        // Lifetimes of files whose handles are not known yet.
        let mut nameless: Vec<(u64, u64)> = Vec::new();
        for (index, operation) in details.operations.iter().enumerate() {
            let count = rest.iter().take_while(|fact| usize::from(fact.operation) == index).count();
            let (facts, remaining) = rest.split_at(count);
            rest = remaining;
            let outcome = match operation.status {
                Some(0) => OperationOutcome::Succeeded,
                Some(status) => OperationOutcome::Failed(status),
                None if is_reply_decoded => OperationOutcome::NotExecuted,
                None => OperationOutcome::Unknown,
            };
            match operation.kind {
                OperationKind::Nfs4(Nfs4::Putfh) => {
                    current = Current { handle: operation.file_handle, stateid: None };
                    nameless.clear();
                }
                OperationKind::Nfs4(Nfs4::Savefh) => saved = current,
                OperationKind::Nfs4(Nfs4::Restorefh) => {
                    current = saved;
                    nameless.clear();
                }
                OperationKind::Nfs4(Nfs4::Getfh) => {
                    current.handle = operation.result_file_handle;
                    if let Some(handle) = current.handle {
                        for (scope, number) in nameless.drain(..) {
                            if let Some(mut lifetime) = self.table.numbered(scope, number) {
                                lifetime.file_handle = details.bytes(handle).to_vec();
                            }
                        }
                    }
                }
                OperationKind::Nfs4(
                    Nfs4::Putpubfh
                    | Nfs4::Putrootfh
                    | Nfs4::Lookup
                    | Nfs4::Lookupp
                    | Nfs4::Create
                    | Nfs4::Openattr,
                ) => {
                    current = Current::default();
                    nameless.clear();
                }
                // An OPEN with a name changes the current file handle from the directory to the
                // file.
                OperationKind::Nfs4(Nfs4::Open) if operation.file_name.is_some() => current.handle = None,
                _ => {}
            }
            if facts.is_empty() || outcome == OperationOutcome::NotExecuted {
                continue;
            }
            let begins = self.table.next_number();
            match operation.kind {
                OperationKind::Nfs4(kind) => {
                    self.operation(kind, operation, facts, outcome, &mut current, context, sink);
                }
                OperationKind::Callback(kind) => {
                    self.callback(kind, operation, facts, outcome, context, sink)
                }
                _ => {}
            }
            if let Some(scope) = context.scope
                && current.handle.is_none()
            {
                nameless.extend((begins..self.table.next_number()).map(|number| (scope, number)));
            }
        }
    }
}

/// The facts at the beginning of a lifetime.
pub(super) struct Begin<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) operation: &'a Operation,
    /// The current file handle.
    pub(super) handle: Option<Text>,
    pub(super) scope: u64,
}
