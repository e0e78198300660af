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
mod subjects;
mod transport;
mod unmatched;
mod view;

pub use credits::CreditState;
pub use finding::{Basis, Finding, Value, Verdict};
pub use judge::Judge;
pub use rule::{
    Check, Document, Findings, Gate, Level, On, OnManaged, OnSent, OpensTo, OpensToSent, Rule, Source, Unseen,
};
pub use subjects::{SUBJECTS, Subject};
pub use view::{Known, View};

/// All rules, in the order of their subjects.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SUBJECTS.iter().flat_map(|subject| subject.rules)
}

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}
