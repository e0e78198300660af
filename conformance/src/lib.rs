//! Judges sessions of NFS over RDMA against the specifications: events of the dissector in,
//! findings out.
//!
//! A [`Rule`] is one requirement: its source, its level, and one sentence in our words. The rules
//! of a subject share one file or folder, together with the functions that decide them, their gate,
//! and the per-connection state that they read. [`SUBJECTS`] lists all subjects. The [`Judge`]
//! takes the engine's events, keeps this state, runs the rules and reports [`Finding`]s.
//!
//! A packet that the capture lacks breaks no rule. Each finding names its [`Basis`]. If the basis
//! is that an end did *not* send something, the judge waits until the capture is known to hold
//! everything that this end sent. Otherwise the finding is [inconclusive](Verdict::Inconclusive).
//!
//! The crate needs only `core` and `alloc`.
//!
//! # Example
//!
//! ```
//! use rdmascope_capture_agent::Capture;
//! use rdmascope_conformance::{Finding, Judge};
//! use rdmascope_dissector::engine::{Config, Engine};
//! use rdmascope_dissector::observation::Observe;
//!
//! let mut capture = Capture::open("../samples/nfs4.1-backchannel-recall.pcap".as_ref())?;
//! let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
//! let mut judge = Judge::default();
//! let mut lines = Vec::new();
//! let mut report = |finding: &Finding| {
//!     let rule = finding.rule.map_or("", |rule| rule.id);
//!     lines.push(format!("{rule} in frame {}: {}", finding.frames[0], finding.message));
//! };
//! while let Some(record) = capture.next()? {
//!     engine.handle(&record, &mut |event| judge.handle(&event, &mut report));
//! }
//! engine.finish(&mut |event| judge.handle(&event, &mut report));
//! assert_eq!(
//!     lines,
//!     ["invalidation-sender-flag in frame 11: 12 Sends with Invalidate, the first of handle 0x00003240, and their sender left R clear"]
//! );
//! # Ok::<(), rdmascope_capture_agent::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod advice;
mod body;
mod bounded;
mod check;
mod chunks;
mod credits;
mod establishment;
mod finding;
mod gss;
mod header;
mod inline;
mod invalidation;
mod iwarp;
mod judge;
mod judged;
mod known;
mod memory;
mod pending;
mod reconnection;
mod retries;
mod reverse;
mod rpc;
mod rule;
mod sessions;
mod state;
mod statuses;
mod subjects;
mod transport;
mod unmatched;

pub use advice::inline_length;
pub use credits::CreditState;
pub use finding::{Basis, Finding, Value, Verdict};
pub use judge::Judge;
pub use rule::{About, Document, Level, Rule, Source, Unseen};
pub use subjects::{SUBJECTS, Subject};

/// All rules, in the order of their subjects.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SUBJECTS.iter().flat_map(|subject| subject.rules)
}

/// Finds a rule by its id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}
