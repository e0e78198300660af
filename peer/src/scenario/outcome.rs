//! The outcome of a scenario.

use super::Scenario;
use super::reaction::{How, Observed};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The verdict on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// A reaction that the requirement allows.
    Conforms,
    /// A reaction that the requirement forbids, or a target that no longer answers.
    Violates,
    /// A reaction that the scenario neither allows nor forbids.
    Tolerated,
    /// A lost connection, which the scenario neither allows nor forbids.
    LostConnection,
    /// No reaction, which the scenario neither allows nor forbids; or an unreachable target.
    NoAnswer,
    /// A condition of the scenario does not hold.
    NotApplicable,
}

impl Verdict {
    /// All verdicts, in the order of summaries.
    pub const ALL: [Verdict; 6] = [
        Verdict::Conforms,
        Verdict::Violates,
        Verdict::Tolerated,
        Verdict::LostConnection,
        Verdict::NoAnswer,
        Verdict::NotApplicable,
    ];

    /// Returns its name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Conforms => "conforms",
            Verdict::Violates => "violates",
            Verdict::Tolerated => "tolerated",
            Verdict::LostConnection => "lost-connection",
            Verdict::NoAnswer => "no-answer",
            Verdict::NotApplicable => "not-applicable",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::LostConnection => "lost connection",
            Verdict::NoAnswer => "no answer",
            Verdict::NotApplicable => "not applicable",
            other => other.name(),
        })
    }
}

/// Whether the target answers NULL after the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alive {
    /// On the connection of the scenario.
    OnThis,
    /// On a new one.
    OnNew,
    /// On neither.
    Gone,
    /// Not asked, because the scenario did not reach its end.
    NotAsked,
}

impl Alive {
    /// Returns its name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Alive::OnThis => "on-this-connection",
            Alive::OnNew => "on-a-new-connection",
            Alive::Gone => "gone",
            Alive::NotAsked => "not-asked",
        }
    }
}

impl fmt::Display for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Alive::OnThis => "alive",
            Alive::OnNew => "alive on a new connection",
            Alive::Gone => "gone",
            Alive::NotAsked => "not asked",
        })
    }
}

/// The outcome of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict differs from the reactions, or why the scenario does not apply; may be
    /// empty.
    pub reason: String,
    /// The messages and packets sent, step by step.
    pub sent: Vec<String>,
    /// The observed reactions, in order.
    pub observed: Vec<Observed>,
    /// Whether the target was alive afterwards.
    pub alive: Alive,
}

/// Returns the verdict, and a reason if the reactions alone do not explain it.
pub(super) fn judge(scenario: &Scenario, observed: &[Observed], alive: Alive) -> (Verdict, &'static str) {
    if alive == Alive::Gone {
        return (Verdict::Violates, "it no longer answers NULL, even on a new connection");
    }
    if observed.iter().any(|one| scenario.wrong.iter().any(|pattern| pattern.matches(one))) {
        return (Verdict::Violates, "");
    }
    let allowed = |one: &&Observed| scenario.allowed.iter().any(|pattern| pattern.matches(one));
    match observed.iter().find(|one| !allowed(one)) {
        None if scenario.survives && alive != Alive::OnThis => (
            Verdict::LostConnection,
            "the reaction is allowed, but NULL gets no answer on the connection afterwards",
        ),
        None => (Verdict::Conforms, ""),
        Some(Observed::Silence) => (Verdict::NoAnswer, ""),
        Some(Observed::Closed(How::Unanswered, _)) => (Verdict::NoAnswer, ""),
        Some(Observed::Closed(..)) => (Verdict::LostConnection, ""),
        Some(_) => (Verdict::Tolerated, ""),
    }
}
