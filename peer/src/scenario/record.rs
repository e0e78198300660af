//! The messages, reactions and verdict of a run, on either side.

use super::outcome::{Alive, Outcome, Verdict};
use super::reaction::Observed;
use super::step::Until;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// Most reactions that are kept and judged.
const MOST_REACTIONS: usize = 4096;

/// The record of a run.
pub(super) struct Record {
    /// Reactions that no step has taken.
    pub(super) pending: VecDeque<Observed>,
    /// Reactions to judge.
    pub(super) observed: Vec<Observed>,
    /// The messages and actions of this side.
    pub(super) sent: Vec<String>,
    pub(super) alive: Alive,
    /// The verdict and reason of a run that was stopped early.
    pub(super) stopped: Option<(Verdict, String)>,
}

impl Record {
    pub(super) fn new(stopped: Option<(Verdict, String)>) -> Record {
        Record {
            pending: VecDeque::new(),
            observed: Vec::new(),
            sent: Vec::new(),
            alive: Alive::NotAsked,
            stopped,
        }
    }

    /// Adds a message or an action of this side.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.sent.push(text.into());
    }

    /// Adds a reaction.
    pub(super) fn react(&mut self, reaction: Observed) {
        if self.pending.len() < MOST_REACTIONS {
            self.pending.push_back(reaction);
        }
    }

    /// Takes the reactions to judge. Returns whether the observation has ended; with `is_over` it
    /// does not wait for more of them.
    pub(super) fn observe(&mut self, until: Until, is_over: bool) -> bool {
        while let Some(reaction) = self.pending.pop_front() {
            let is_end = reaction.is_end() || until == Until::First;
            // Repeated calls of a busy client are recorded once.
            let is_more =
                matches!(reaction, Observed::Call { .. }) && self.observed.last() == Some(&reaction);
            if !is_more {
                self.observed.push(reaction);
            }
            if is_end || self.observed.len() >= MOST_REACTIONS {
                return true;
            }
        }
        if is_over && self.observed.is_empty() {
            self.observed.push(Observed::Silence);
        }
        is_over
    }

    /// Returns the outcome of a run that is over. `judge` returns its verdict and reason if it was
    /// not stopped.
    pub(super) fn outcome(&self, judge: impl FnOnce() -> (Verdict, String)) -> Outcome {
        let (verdict, reason) = self.stopped.clone().unwrap_or_else(judge);
        let (sent, observed) = (self.sent.clone(), self.observed.clone());
        Outcome { verdict, reason, sent, observed, alive: self.alive }
    }
}
