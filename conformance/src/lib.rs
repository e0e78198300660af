//! Judges sessions against the specifications.
//!
//! A [`Rule`] is one requirement: where it stands, how much it weighs, what it asks in our words, and the code that decides it.
//! The rules of one subject stand in one file, beside what has to be remembered of a connection to decide them. The [`Judge`] takes the
//! engine's events, keeps that memory, asks the rules, and reports [`Finding`]s.
//!
//! A capture that lacks packets is no misbehaviour. A rule says what its finding rests on ([`Basis`]); where that is something which an
//! end did *not* send, the judge waits until it is certain that the capture holds all that this end sent so far.
//!
//! The crate needs `core` and `alloc` only.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod advice;
mod chunks;
mod credits;
mod establishment;
mod finding;
mod header;
mod inline;
mod invalidation;
mod judge;
mod judged;
mod memory;
mod reconnection;
mod reverse;
mod rpc;
mod rule;
mod transport;
mod unmatched;
mod view;

pub use credits::CreditState;
pub use finding::{Basis, Finding, Value, Verdict};
pub use judge::Judge;
pub use rule::{
    Check, Document, Findings, Gate, Level, On, OnManaged, OnSent, OpensTo, OpensToSent, Rule, Source, Unseen,
};
pub use view::View;

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
    Subject { name: "RPC", rules: rpc::RULES, unseen: rpc::UNSEEN, gate: &rpc::GATE },
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

/// All rules, in the order of their subjects.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SUBJECTS.iter().flat_map(|subject| subject.rules)
}

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}
