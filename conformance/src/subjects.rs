//! The lists of subjects: their rules, and what they remember. A new subject stands in a folder or file of its own, and in these lists.

use super::reconnection::Reconnections;
use super::rpc::UnansweredCalls;
use super::rule::{Gate, Rule, Unseen};
use super::sessions::table::SessionTable;
use super::state::table::StateTable;
use super::view::{Memory, View};
use super::{
    advice, body, chunks, credits, establishment, gss, header, inline, invalidation, iwarp, memory, retries,
    reverse, rpc, sessions, state, statuses, transport, unmatched,
};
use rdmascope_dissector::observation::Outstanding;
use rdmascope_dissector::transaction::Transaction;

/// Rules that implementations in wide use are known to break.
const KNOWN: &[(&str, &str)] = &[invalidation::KNOWN];

impl Rule {
    /// Who is known to break it, what that does, and the option that allows it, in one sentence: to be shown beside what it finds. `None` for
    /// nearly all rules.
    pub fn known(&self) -> Option<&'static str> {
        KNOWN.iter().find(|(id, _)| *id == self.id).map(|(_, known)| *known)
    }
}

/// Of a subject without rules about Sends and transactions.
const SILENT: Gate = Gate { sent: |_, _| false, transaction: |_, _| false };

/// All rules, subject by subject.
pub const SUBJECTS: &[Subject] = &[
    Subject { name: "Credits", rules: credits::RULES, unseen: credits::UNSEEN, gate: &credits::GATE },
    Subject { name: "Inline thresholds", rules: inline::RULES, unseen: inline::UNSEEN, gate: &inline::GATE },
    Subject { name: "Headers", rules: header::RULES, unseen: header::UNSEEN, gate: &header::GATE },
    Subject {
        name: "Read chunks",
        rules: chunks::read::RULES,
        unseen: chunks::read::UNSEEN,
        gate: &chunks::GATE,
    },
    Subject {
        name: "Write chunks",
        rules: chunks::write::RULES,
        unseen: chunks::write::UNSEEN,
        gate: &chunks::GATE,
    },
    Subject {
        name: "Reply chunks and Long Messages",
        rules: chunks::reply::RULES,
        unseen: chunks::reply::UNSEEN,
        gate: &chunks::GATE,
    },
    Subject {
        name: "Memory of a call",
        rules: chunks::memory::RULES,
        unseen: chunks::memory::UNSEEN,
        gate: &chunks::GATE,
    },
    Subject {
        name: "Upper-Layer Binding",
        rules: chunks::binding::RULES,
        unseen: chunks::binding::UNSEEN,
        gate: &chunks::GATE,
    },
    Subject { name: "Memory", rules: memory::RULES, unseen: memory::UNSEEN, gate: &memory::GATE },
    Subject {
        name: "Remote invalidation",
        rules: invalidation::RULES,
        unseen: invalidation::UNSEEN,
        gate: &invalidation::GATE,
    },
    Subject {
        name: "Reverse direction",
        rules: reverse::RULES,
        unseen: reverse::UNSEEN,
        gate: &reverse::GATE,
    },
    Subject { name: "Sessions", rules: sessions::RULES, unseen: sessions::UNSEEN, gate: &sessions::GATE },
    Subject { name: "State", rules: state::RULES, unseen: state::UNSEEN, gate: &state::GATE },
    Subject { name: "Statuses", rules: statuses::RULES, unseen: statuses::UNSEEN, gate: &statuses::GATE },
    Subject { name: "RPC", rules: rpc::RULES, unseen: rpc::UNSEEN, gate: &rpc::GATE },
    Subject { name: "GSS sequence numbers", rules: gss::RULES, unseen: gss::UNSEEN, gate: &gss::GATE },
    Subject {
        name: "Calls that come again",
        rules: retries::RULES,
        unseen: retries::UNSEEN,
        gate: &retries::GATE,
    },
    Subject { name: "Arguments and results", rules: body::RULES, unseen: body::UNSEEN, gate: &body::GATE },
    Subject {
        name: "Connection establishment",
        rules: establishment::RULES,
        unseen: establishment::UNSEEN,
        gate: &Gate::OPEN,
    },
    Subject {
        name: "Reliable transport",
        rules: transport::RULES,
        unseen: transport::UNSEEN,
        gate: &Gate::OPEN,
    },
    Subject { name: "iWARP", rules: iwarp::RULES, unseen: iwarp::UNSEEN, gate: &SILENT },
    Subject { name: "Performance", rules: advice::RULES, unseen: advice::UNSEEN, gate: &Gate::OPEN },
];

/// The rules about one thing.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// What they are about.
    pub name: &'static str,
    /// The rules.
    pub rules: &'static [Rule],
    /// Requirements on the same thing that a capture cannot show.
    pub unseen: &'static [Unseen],
    /// When the rules about Sends and transactions have to be asked.
    pub gate: &'static Gate,
}

/// What the subjects remember of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memories {
    pub(crate) credits: credits::Credits,
    pub(crate) unmatched: unmatched::UnmatchedMessages,
    pub(crate) binding: chunks::binding::BindingMemory,
    pub(crate) unoffered: chunks::unoffered::Unoffered,
    pub(crate) memory: memory::AdvertisedMemory,
    pub(crate) invalidation: invalidation::InvalidationUse,
    pub(crate) reverse: reverse::Backchannel,
    pub(crate) sessions: sessions::SessionUse,
    pub(crate) state: state::StateUse,
    pub(crate) rpc: rpc::EarlierCalls,
    pub(crate) gss: gss::GssUse,
    pub(crate) retries: retries::Retry,
    pub(crate) establishment: establishment::CmExchange,
    pub(crate) transport: transport::TransportEvents,
    pub(crate) advice: advice::Costs,
}

impl Memories {
    /// Tells each of them something. Inlined, so that no call goes through a table.
    #[inline(always)]
    pub(crate) fn each(&mut self, mut tell: impl FnMut(&mut dyn Memory)) {
        tell(&mut self.credits);
        tell(&mut self.unmatched);
        tell(&mut self.binding);
        tell(&mut self.unoffered);
        tell(&mut self.memory);
        tell(&mut self.invalidation);
        tell(&mut self.reverse);
        tell(&mut self.sessions);
        tell(&mut self.state);
        tell(&mut self.rpc);
        tell(&mut self.gss);
        tell(&mut self.retries);
        tell(&mut self.establishment);
        tell(&mut self.transport);
        tell(&mut self.advice);
    }

    /// Bytes of memory that the lists of all of them take up.
    pub(crate) fn footprint(&self) -> usize {
        let all: [&dyn Memory; 15] = [
            &self.credits,
            &self.unmatched,
            &self.binding,
            &self.unoffered,
            &self.memory,
            &self.invalidation,
            &self.reverse,
            &self.sessions,
            &self.state,
            &self.rpc,
            &self.gss,
            &self.retries,
            &self.establishment,
            &self.transport,
            &self.advice,
        ];
        all.iter().map(|memory| memory.footprint()).sum()
    }
}

/// What is remembered of connections that ended, bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasting {
    /// What the same two ends agreed on before.
    pub(crate) reconnections: Reconnections,
    /// Calls without a reply on connections that were closed.
    pub(crate) unanswered: UnansweredCalls,
    /// Sessions and their slots.
    pub(crate) sessions: SessionTable,
    /// Operations that go on behind their replies.
    pub(crate) offloads: sessions::offloads::Offloads,
    /// Stateids, and sessions that were destroyed.
    pub(crate) states: StateTable,
    /// RPCSEC_GSS contexts.
    pub(crate) contexts: gss::Contexts,
    /// Calls that were answered with ERR_CHUNK.
    pub(crate) refused: retries::RefusedCalls,
}

impl Lasting {
    /// Takes a call that has no reply when its connection is closed.
    pub(crate) fn note_outstanding(&mut self, outstanding: &Outstanding, view: &View) {
        self.unanswered.note(outstanding, view);
    }

    /// Looks at a transaction that ended, before the rules are asked about it: what is wrong with its slot, its
    /// sequence number or its room is left with its connection.
    #[inline]
    pub(crate) fn look_at(&mut self, transaction: &Transaction, view: &mut View) {
        let said = &transaction.details.session;
        if said.sequence.is_some() || said.created.is_some() {
            view.memories.sessions.faults = self.sessions.note(transaction, view);
        }
        if said.offload.is_some() {
            self.offloads.note(transaction);
        }
        if said.sequence.is_some() || !transaction.details.states.is_empty() {
            view.memories.state.faults = self.states.note(transaction, view);
        }
        if let Some(gss) = transaction.gss {
            view.memories.gss = self.contexts.note(gss, transaction, view);
        }
        if transaction.error.is_some() {
            view.memories.retries = self.refused.note(transaction, view);
        }
    }

    /// Looks at a connection that ends, before the rules are asked about it.
    pub(crate) fn look_at_the_end(&mut self, view: &mut View) {
        view.memories.sessions.offloads = self.offloads.take(view.connection);
    }

    /// Takes a transaction that ended.
    #[inline]
    pub(crate) fn note_transaction(&mut self, transaction: &Transaction, view: &View) {
        self.unanswered.note_transaction(transaction, view);
    }
}
