//! Snapshots of states within a memory budget.

use super::State;

/// The first state, and further states at equal distances.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    /// The checkpoints in the order of their records. The first is the start.
    kept: Vec<Checkpoint>,
    spacing: u64,
    budget: usize,
    /// Bytes of all but the first.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Checkpoint {
    state: Box<State>,
    bytes: usize,
}

impl Checkpoints {
    pub(super) fn new(start: State, spacing: u64, budget: usize) -> Checkpoints {
        let first = Checkpoint { state: Box::new(start), bytes: 0 };
        Checkpoints { kept: vec![first], spacing: spacing.max(1), budget, bytes: 0 }
    }

    /// Keeps a snapshot of the state if one is due at its record.
    #[inline]
    pub(super) fn keep_if_due(&mut self, state: &State) {
        if state.record.is_multiple_of(self.spacing) {
            self.keep(state);
        }
    }

    #[cold]
    fn keep(&mut self, state: &State) {
        let bytes = state.footprint();
        while self.bytes + bytes > self.budget {
            if self.kept.len() == 1 {
                // Not even one snapshot fits. A later one fits only if fewer connections are open
                // then.
                self.spacing = self.spacing.saturating_mul(2);
                return;
            }
            self.thin_out();
        }
        if state.record.is_multiple_of(self.spacing) {
            self.kept.push(Checkpoint { state: Box::new(state.clone()), bytes });
            self.bytes += bytes;
        }
    }

    /// Drops every second checkpoint.
    fn thin_out(&mut self) {
        self.spacing = self.spacing.saturating_mul(2);
        let spacing = self.spacing;
        self.kept.retain(|checkpoint| checkpoint.state.record.is_multiple_of(spacing));
        self.bytes = self.kept.iter().map(|checkpoint| checkpoint.bytes).sum();
    }

    /// The last state at or before a record.
    pub(super) fn before(&self, record: u64) -> &State {
        self.last_with(|state| state.record <= record)
    }

    /// The last state for which `holds` is true, or else the first state. `holds` must be true up
    /// to some state and false after it.
    pub(super) fn last_with(&self, holds: impl Fn(&State) -> bool) -> &State {
        let count = self.kept.partition_point(|checkpoint| holds(&checkpoint.state));
        &self.kept[count.max(1) - 1].state
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn spacing(&self) -> u64 {
        self.spacing
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
