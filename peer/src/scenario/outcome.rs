//! What came of a scenario.

use super::Scenario;
use super::reaction::{How, Observed};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The verdict on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It did what the requirement allows.
    Conforms,
    /// It did what the requirement forbids, or does not answer any longer.
    Violates,
    /// It did something that the scenario neither allows nor forbids.
    Tolerated,
    /// The connection was lost, which the scenario neither allows nor forbids.
    LostConnection,
    /// It did nothing, which the scenario neither allows nor forbids; or it could not be reached.
    NoAnswer,
    /// What the scenario needs is not so.
    NotApplicable,
}

impl Verdict {
    /// All of them, in the order of summaries.
    pub const ALL: [Verdict; 6] = [
        Verdict::Conforms,
        Verdict::Violates,
        Verdict::Tolerated,
        Verdict::LostConnection,
        Verdict::NoAnswer,
        Verdict::NotApplicable,
    ];

    /// Its name for programs.
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
    /// It was not asked: the scenario did not come to its end.
    NotAsked,
}

impl Alive {
    /// Its name for programs.
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

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is not what the reactions say, or why the scenario does not apply; empty where there is nothing to say.
    pub reason: String,
    /// What was sent, step by step.
    pub sent: Vec<String>,
    /// What came back where the scenario observed it, in order.
    pub observed: Vec<Observed>,
    /// Whether the target was alive afterwards.
    pub alive: Alive,
}

/// The verdict on what was observed, and why, where the reactions alone do not say it.
pub(super) fn judge(scenario: &Scenario, observed: &[Observed], alive: Alive) -> (Verdict, &'static str) {
    if alive == Alive::Gone {
        return (Verdict::Violates, "it does not answer NULL any longer, on a new connection neither");
    }
    if observed.iter().any(|one| scenario.wrong.iter().any(|pattern| pattern.matches(one))) {
        return (Verdict::Violates, "");
    }
    let allowed = |one: &&Observed| scenario.allowed.iter().any(|pattern| pattern.matches(one));
    match observed.iter().find(|one| !allowed(one)) {
        None if scenario.survives && alive != Alive::OnThis => (
            Verdict::LostConnection,
            "the reaction is allowed, but the connection does not answer afterwards",
        ),
        None => (Verdict::Conforms, ""),
        Some(Observed::Silence) => (Verdict::NoAnswer, ""),
        Some(Observed::Closed(How::Unanswered, _)) => (Verdict::NoAnswer, ""),
        Some(Observed::Closed(..)) => (Verdict::LostConnection, ""),
        Some(_) => (Verdict::Tolerated, ""),
    }
}
