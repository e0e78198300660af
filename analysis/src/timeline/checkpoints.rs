//! Snapshots within a budget.

use super::State;

/// The first state, and others that stand equally far apart.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    /// In the order of their records, the first one at the start.
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

    /// Keeps a snapshot of the state, if one is to stand here.
    #[inline]
    pub(super) fn offer(&mut self, state: &State) {
        if state.record.is_multiple_of(self.spacing) {
            self.keep(state);
        }
    }

    #[cold]
    fn keep(&mut self, state: &State) {
        let bytes = state.footprint();
        while self.bytes + bytes > self.budget {
            if self.kept.len() == 1 {
                // Not even one fits. Later ones may, but only where fewer connections are open.
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

    /// Gives up every second one.
    fn thin_out(&mut self) {
        self.spacing = self.spacing.saturating_mul(2);
        let spacing = self.spacing;
        self.kept.retain(|checkpoint| checkpoint.state.record.is_multiple_of(spacing));
        self.bytes = self.kept.iter().map(|checkpoint| checkpoint.bytes).sum();
    }

    /// The last state that does not lie behind a record.
    pub(super) fn before(&self, record: u64) -> &State {
        self.last_with(|state| state.record <= record)
    }

    /// The last state for which this holds. It holds for the first, and for none behind one for which it does not; else the first.
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
