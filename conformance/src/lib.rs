//! Judges sessions against the specifications.
//!
//! A [`Rule`] is one requirement: where it stands, how much it weighs, what it asks in our words, and the code that decides it.
//! The rules of one subject stand in one file, beside what has to be remembered of a connection to decide them. The [`Judge`] takes the
//! engine's events, keeps that memory, asks the rules, and reports [`Finding`]s.
//!
//! A capture that lacks packets is no misbehaviour. A rule says what its finding rests on ([`Basis`]); where that is something which an
//! end did *not* send, the judge waits until it is certain that the capture holds all that this end sent so far.
#![forbid(unsafe_code)]

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

pub use finding::{Basis, Finding, Value, Verdict};
pub use judge::Judge;
pub use rule::{Check, Document, Findings, Level, On, OnManaged, OnSent, Rule, Source, Unseen};
pub use view::View;

/// All rules, subject by subject.
pub const SUBJECTS: &[Subject] = &[
    Subject { name: "Credits", rules: credits::RULES, unseen: credits::UNSEEN },
    Subject { name: "Inline thresholds", rules: inline::RULES, unseen: inline::UNSEEN },
    Subject { name: "Headers", rules: header::RULES, unseen: header::UNSEEN },
    Subject { name: "Read chunks", rules: chunks::read::RULES, unseen: chunks::read::UNSEEN },
    Subject { name: "Write chunks", rules: chunks::write::RULES, unseen: chunks::write::UNSEEN },
    Subject {
        name: "Reply chunks and Long Messages",
        rules: chunks::reply::RULES,
        unseen: chunks::reply::UNSEEN,
    },
    Subject { name: "Memory of a call", rules: chunks::memory::RULES, unseen: chunks::memory::UNSEEN },
    Subject { name: "Upper-Layer Binding", rules: chunks::binding::RULES, unseen: chunks::binding::UNSEEN },
    Subject { name: "Memory", rules: memory::RULES, unseen: memory::UNSEEN },
    Subject { name: "Remote invalidation", rules: invalidation::RULES, unseen: invalidation::UNSEEN },
    Subject { name: "Reverse direction", rules: reverse::RULES, unseen: reverse::UNSEEN },
    Subject { name: "RPC", rules: rpc::RULES, unseen: rpc::UNSEEN },
    Subject { name: "Connection establishment", rules: establishment::RULES, unseen: establishment::UNSEEN },
    Subject { name: "Reliable transport", rules: transport::RULES, unseen: transport::UNSEEN },
    Subject { name: "Performance", rules: advice::RULES, unseen: advice::UNSEEN },
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
}

/// All rules, in the order of their subjects.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SUBJECTS.iter().flat_map(|subject| subject.rules)
}

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}
