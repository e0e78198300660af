//! What captures at several places tell of a session: the ways of its packets, and where the time of its operations passed.

use super::split::Splits;
use super::tally::Tally;
use crate::observer::Observer;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;

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

impl Observer for EndToEnd {
    fn needs(&self) -> Config {
        Config { keep: Keep { steps: true, contents: false }, ..self.tally.needs() }
    }

    fn handle(&mut self, event: &Event<'_>) {
        self.tally.handle(event);
        self.take_splits();
    }
}
