//! The subjects: their rules, gates and per-connection state. A new subject gets a folder or file
//! of its own, and a row in each of these lists.

use super::check::{Case, Checked, Findings, Reads, View};
use super::header::fault::Fault;
use super::known::{Known, Memory};
use super::reconnection::{HostNetworks, Reconnections};
use super::rpc::UnansweredCalls;
use super::rule::{Rule, Unseen};
use super::sessions::table::SessionTable;
use super::state::table::StateTable;
use super::{
    advice, body, chunks, credits, establishment, gss, header, inline, invalidation, iwarp, memory, retries,
    reverse, rpc, sessions, state, statuses, transport, unmatched,
};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};

/// Rules that widely used implementations are known to break.
const KNOWN: &[(&str, &str)] = &[invalidation::KNOWN];

impl Rule {
    /// One sentence about implementations that are known to break this rule: which ones, the
    /// effect, and the option that allows it. It is shown with the findings. `None` for nearly all
    /// rules.
    pub fn known(&self) -> Option<&'static str> {
        KNOWN.iter().find(|(id, _)| *id == self.id).map(|(_, known)| *known)
    }
}

/// Builds the [`Subject`] of a module.
macro_rules! subject {
    ($name:literal, $($module:ident)::+, $gate:expr, $memory:expr) => {
        Subject {
            name: $name,
            rules: &Checked::rules::<{ $($module)::+::RULES.len() }>($($module)::+::RULES),
            unseen: $($module)::+::UNSEEN,
            gate: $gate,
            checks: &Table { rules: $($module)::+::RULES, memory: $memory },
        }
    };
}

/// All rules, subject by subject.
pub const SUBJECTS: &[Subject] = &[
    subject!("Credits", credits, &CREDITS, |all| &all.credits),
    subject!("Inline thresholds", inline, &INLINE, |_| ()),
    subject!("Headers", header, &HEADER, |all| (&all.rpc, &all.memory)),
    subject!("Read chunks", chunks::read, &CHUNKS, |_| ()),
    subject!("Write chunks", chunks::write, &CHUNKS, |_| ()),
    subject!("Reply chunks and Long Messages", chunks::reply, &CHUNKS, |all| &all.unoffered),
    subject!("Memory of a call", chunks::memory, &CHUNKS, |_| ()),
    subject!("Upper-Layer Binding", chunks::binding, &CHUNKS, |all| &all.binding),
    subject!("Memory", memory, &MEMORY, |all| &all.memory),
    subject!("Remote invalidation", invalidation, &INVALIDATION, |all| (&all.invalidation, &all.memory)),
    subject!("Reverse direction", reverse, &REVERSE, |all| &all.reverse),
    subject!("Sessions", sessions, &SESSIONS, |all| (&all.sessions, &all.memory, &all.reverse)),
    subject!("State", state, &STATE, |all| &all.state),
    subject!("Statuses", statuses, &STATUSES, |_| ()),
    subject!("RPC", rpc, &RPC, |all| (&all.rpc, &all.memory)),
    subject!("GSS sequence numbers", gss, &GSS, |all| &all.gss),
    subject!("Calls that come again", retries, &RETRIES, |all| (&all.retries, &all.rpc)),
    subject!("Arguments and results", body, &BODY, |all| &all.sessions),
    subject!("Connection establishment", establishment, &Gate::OPEN, |all| (
        &all.establishment,
        &all.transport
    )),
    subject!("Reliable transport", transport, &Gate::OPEN, |all| (&all.transport, &all.credits)),
    subject!("iWARP", iwarp, &Gate::SILENT, |all| (&all.transport, &all.credits)),
    subject!("Performance", advice, &Gate::OPEN, |all| &all.advice),
];

static CREDITS: Gate =
    Gate { sent: |sent, known, all| credits::may_break(sent, known, &all.credits), ..Gate::OPEN };
static INLINE: Gate = Gate { sent: |sent, _, _| inline::may_break(sent), ..Gate::OPEN };
static HEADER: Gate = Gate {
    sent: |sent, _, _| header::may_break(sent),
    transaction: |transaction, _| header::may_break_in_transaction(transaction),
};
static CHUNKS: Gate = Gate {
    sent: |_, _, all| all.binding.expects_retries(),
    transaction: |transaction, _| chunks::may_break(transaction),
};
static MEMORY: Gate = Gate { transaction: |transaction, _| memory::may_break(transaction), ..Gate::OPEN };
static INVALIDATION: Gate = Gate {
    sent: |sent, _, _| invalidation::may_break(sent),
    transaction: |transaction, _| invalidation::may_break_in_transaction(transaction),
};
static REVERSE: Gate = Gate { transaction: |transaction, _| reverse::may_break(transaction), ..Gate::OPEN };
static SESSIONS: Gate =
    Gate { transaction: |transaction, all| sessions::may_break(transaction, &all.sessions), ..Gate::OPEN };
static STATE: Gate = Gate { transaction: |_, all| !all.state.faults.is_empty(), ..Gate::SILENT };
static STATUSES: Gate =
    Gate { transaction: |transaction, _| statuses::may_break(transaction), ..Gate::SILENT };
static RPC: Gate = Gate {
    sent: |sent, _, all| rpc::may_break(sent, &all.rpc),
    transaction: |transaction, _| rpc::may_break_in_transaction(transaction),
};
static GSS: Gate =
    Gate { transaction: |transaction, all| gss::may_break(transaction, &all.gss), ..Gate::OPEN };
static RETRIES: Gate = Gate {
    transaction: |transaction, all| retries::may_break(transaction, &all.retries, &all.rpc),
    ..Gate::OPEN
};
static BODY: Gate = Gate { transaction: |transaction, _| body::may_break(transaction), ..Gate::OPEN };

/// The rules about one topic.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The topic.
    pub name: &'static str,
    /// The rules.
    pub rules: &'static [Rule],
    /// Requirements on the same topic that a capture cannot show.
    pub unseen: &'static [Unseen],
    /// Decides whether the rules about Sends and transactions have to run.
    pub(crate) gate: &'static Gate,
    /// The functions that decide the rules, in the order of `rules`.
    pub(crate) checks: &'static dyn Checks,
}

/// Decides whether the rules of a subject have to run on a Send or a transaction.
///
/// Most traffic is ordinary, and one cheap check shows that it breaks no rule of the subject. A
/// gate is that check. Subjects can share a gate, which is then evaluated once for all of them.
/// [`Judge::exhaustive`](super::Judge::exhaustive) ignores all gates and must report the same
/// findings.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Whether a rule of the subject may report this Send.
    pub(crate) sent: OpensToSent,
    /// Whether a rule of the subject may report this transaction.
    pub(crate) transaction: OpensToTransaction,
}

/// Decides whether rules about Sends run on this one.
pub(crate) type OpensToSent = fn(&Sent<'_>, &Known, &Memories) -> bool;
/// Decides whether rules about transactions run on this one.
pub(crate) type OpensToTransaction = fn(&Transaction, &Memories) -> bool;

impl Gate {
    /// Runs the rules on everything.
    pub(crate) const OPEN: Gate = Gate { sent: |_, _, _| true, transaction: |_, _| true };
    /// For a subject without rules about Sends and transactions.
    const SILENT: Gate = Gate { sent: |_, _, _| false, transaction: |_, _| false };
}

/// The functions that decide the rules of a subject, independent of the state that they read.
pub(crate) trait Checks: Sync {
    /// Runs the rule with this index.
    fn run(
        &self,
        index: usize,
        case: Case<'_>,
        known: &Known,
        memories: &Memories,
        findings: &mut Findings<'_>,
    );
}

/// The rules of a subject, and the accessor of the state that they read.
struct Table<S: Reads> {
    rules: &'static [Checked<S>],
    memory: for<'a> fn(&'a Memories) -> S::Memory<'a>,
}

impl<S: Reads> Checks for Table<S> {
    fn run(
        &self,
        index: usize,
        case: Case<'_>,
        known: &Known,
        memories: &Memories,
        findings: &mut Findings<'_>,
    ) {
        let view = View { known, unmatched: &memories.unmatched, memory: (self.memory)(memories) };
        self.rules[index].check.run(case, &view, findings);
    }
}

macro_rules! memories {
    ($($name:ident: $memory:ty,)*) => {
        /// The per-connection state of all subjects.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Memories {
            $(pub(crate) $name: $memory,)*
        }

        impl Memories {
            /// Calls `note` with the state of each subject. Inlined, so that no call goes through a
            /// table.
            #[inline(always)]
            pub(crate) fn each(&mut self, mut note: impl FnMut(&mut dyn Memory)) {
                $(note(&mut self.$name);)*
            }

            /// Heap bytes that the lists of all subjects take up.
            pub(crate) fn footprint(&self) -> usize {
                0 $(+ self.$name.footprint())*
            }
        }
    };
}

memories! {
    credits: credits::Credits,
    unmatched: unmatched::UnmatchedMessages,
    binding: chunks::binding::BindingMemory,
    unoffered: chunks::unoffered::Unoffered,
    memory: memory::AdvertisedMemory,
    invalidation: invalidation::InvalidationUse,
    reverse: reverse::Backchannel,
    sessions: sessions::SessionUse,
    state: state::StateUse,
    rpc: rpc::EarlierCalls,
    gss: gss::GssUse,
    retries: retries::Retry,
    establishment: establishment::CmExchange,
    transport: transport::TransportEvents,
    advice: advice::Costs,
}

impl Memories {
    /// Records a finished transaction, after the rules ran on it.
    pub(crate) fn note_transaction(&mut self, transaction: &Transaction, known: &Known) {
        // The receiver discards a message that is too short, so the call waits for no answer.
        let is_call = || {
            transaction
                .call
                .as_ref()
                .is_none_or(|call| header::fault::fault_of(call, transaction.xid) != Some(Fault::Short))
        };
        // A connection that is open when the capture ends has not broken.
        let is_over = known.ending.is_none() || known.is_closed();
        if transaction.outcome == Outcome::NoReply && is_over && transaction.reply.is_none() && is_call() {
            let view: View<'_, rpc::Read> =
                View { known, unmatched: &self.unmatched, memory: (&self.rpc, &self.memory) };
            let lacks_reply = view.lacks_answer(transaction);
            self.each(|memory| memory.unanswered(transaction, lacks_reply));
        }
        self.each(|memory| memory.transaction(transaction, known));
    }

    /// The credits of forward and of backward transactions.
    pub(crate) fn credits(&self, known: &Known) -> [credits::CreditState; 2] {
        [Direction::Forward, Direction::Backward].map(|direction| self.credits[known.caller(direction)].now())
    }
}

/// State that outlives a connection, bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasting {
    /// The networks of the connections to each address.
    pub(crate) networks: HostNetworks,
    /// The settings that the same two ends negotiated before.
    pub(crate) reconnections: Reconnections,
    /// Calls without a reply on connections that were closed.
    pub(crate) unanswered: UnansweredCalls,
    /// Sessions and their slots.
    pub(crate) sessions: SessionTable,
    /// Operations that continue after their replies.
    pub(crate) offloads: sessions::offloads::Offloads,
    /// Stateids, and destroyed sessions.
    pub(crate) states: StateTable,
    /// RPCSEC_GSS contexts.
    pub(crate) contexts: gss::Contexts,
    /// Calls answered with ERR_CHUNK.
    pub(crate) refused: retries::RefusedCalls,
}

impl Lasting {
    /// Heap bytes that these lists take up.
    pub(crate) fn footprint(&self) -> usize {
        self.networks.footprint()
            + self.reconnections.footprint()
            + self.unanswered.footprint()
            + self.sessions.footprint()
            + self.offloads.footprint()
            + self.states.footprint()
            + self.contexts.footprint()
            + self.refused.footprint()
    }

    /// Updates the state after a CM message or MPA start frame, before the rules run.
    pub(crate) fn update_connection(
        &mut self,
        connection: &Connection,
        known: &mut Known,
        memories: &mut Memories,
    ) {
        known.network = self.networks.note(connection);
        memories.rpc.recall(connection, known.network, &self.unanswered);
        let exchange = &mut memories.establishment;
        exchange.before =
            exchange.agreed().and_then(|agreed| self.reconnections.note(connection, known.network, agreed));
    }

    /// Updates the state with a finished transaction, before the rules run on it. Faults of its
    /// slot, sequence number or stateids are left in the state of its connection.
    #[inline]
    pub(crate) fn update_transaction(
        &mut self,
        transaction: &Transaction,
        known: &Known,
        memories: &mut Memories,
    ) {
        let facts = &transaction.details.session;
        if facts.sequence.is_some() || facts.created.is_some() {
            memories.sessions.faults = self.sessions.note(transaction, known, &memories.sessions);
        }
        if facts.offload.is_some() || transaction.direction == Direction::Backward {
            self.offloads.note(transaction);
        }
        if facts.sequence.is_some() || !transaction.details.states.is_empty() {
            memories.state.faults = self.states.note(transaction, known);
        }
        if let Some(gss) = transaction.gss {
            memories.gss = self.contexts.note(gss, transaction, known);
        }
        if transaction.error.is_some() {
            memories.retries = self.refused.note(transaction, known);
        }
    }

    /// Hands over the offloaded operations of a connection that ends, before the rules run on it. If
    /// it is not the last one, a call on another one may still be incomplete.
    pub(crate) fn hand_over_offloads(&mut self, is_last: bool, known: &Known, memories: &mut Memories) {
        memories.sessions.offloads = self.offloads.take(known.connection);
        memories.sessions.lacks_call = self.offloads.lacks_call || !is_last;
    }
}
