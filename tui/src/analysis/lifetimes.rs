//! NFSv4 state at a moment.

use rdmascope_analysis::paths::Paths;
use rdmascope_analysis::state::{Beginning, Lifetime, States};
use rdmascope_dissector::event::Event;
use std::collections::VecDeque;

/// The lifetimes of NFSv4 state in the capture so far.
#[derive(Default)]
pub(super) struct Lifetimes {
    states: States,
    ended: VecDeque<Lifetime>,
}

impl Lifetimes {
    /// The most ended lifetimes that are kept: the latest ones.
    const MOST: usize = 1 << 14;
    /// The most lifetimes of a moment that are listed.
    const LISTED: usize = 4096;

    /// Takes an event.
    pub(super) fn handle(&mut self, event: &Event<'_>) {
        let Lifetimes { states, ended } = self;
        states.handle(event, &mut |lifetime| keep(ended, lifetime));
    }

    /// Ends the capture.
    pub(super) fn finish(&mut self) {
        let Lifetimes { states, ended } = self;
        states.finish(&mut |lifetime| keep(ended, lifetime));
    }

    /// The lifetimes that include the moment after this record, in the order of their numbers, and
    /// the number of those that are not listed.
    pub(super) fn at(&self, record: u64, paths: &Paths) -> (Vec<Lifetime>, u64) {
        let all = self.ended.iter().chain(self.states.ended()).chain(self.states.open());
        let mut current: Vec<&Lifetime> = all.filter(|lifetime| is_current(lifetime, record)).collect();
        current.sort_by_key(|lifetime| lifetime.number);
        current.dedup_by_key(|lifetime| lifetime.number);
        let further = current.len().saturating_sub(Lifetimes::LISTED) as u64;
        let listed = current.into_iter().take(Lifetimes::LISTED).cloned().map(|mut lifetime| {
            lifetime.take_path(paths);
            lifetime
        });
        (listed.collect(), further)
    }
}

/// Whether the state exists after this record. State from before the capture exists from the start
/// of the capture.
fn is_current(lifetime: &Lifetime, record: u64) -> bool {
    let has_begun = lifetime.beginning == Beginning::Before || lifetime.first.frame <= record;
    has_begun && lifetime.ended.is_none_or(|at| at.frame > record)
}

fn keep(ended: &mut VecDeque<Lifetime>, lifetime: &Lifetime) {
    if ended.len() == Lifetimes::MOST {
        ended.pop_front();
    }
    ended.push_back(lifetime.clone());
}
