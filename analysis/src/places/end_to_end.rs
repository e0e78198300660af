//! What captures at several places tell of a session: the ways of its packets, and where the time of its operations passed.

use super::split::Splits;
use super::tally::Tally;
use rdmascope_dissector::event::Event;

/// Gathers it. Wants what a [`Tally`] wants.
#[derive(Debug)]
pub struct EndToEnd {
    /// Where packets were seen.
    pub tally: Tally,
    /// Where the time of operations passed.
    pub splits: Splits,
}

impl EndToEnd {
    /// Nothing yet, of the places of a tally.
    pub fn new(tally: Tally) -> EndToEnd {
        EndToEnd { tally, splits: Splits::default() }
    }

    /// Takes the next event.
    pub fn handle(&mut self, event: &Event<'_>) {
        self.tally.handle(event);
        self.take_splits();
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.tally.finish();
        self.take_splits();
    }

    fn take_splits(&mut self) {
        while let Some((transaction, split)) = self.tally.ready() {
            self.splits.count(&transaction, split);
        }
    }
}
