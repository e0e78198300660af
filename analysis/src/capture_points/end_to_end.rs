//! The results of captures at several places: transit times of packets, and operations' time by
//! place.

use super::split::Splits;
use super::tally::Tally;
use crate::observer::Observer;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;

/// Gathers results from several places. It needs the same events as a [`Tally`].
#[derive(Debug)]
pub struct EndToEnd {
    /// The places of packets.
    pub tally: Tally,
    /// The time of operations by place.
    pub splits: Splits,
}

impl EndToEnd {
    /// Creates it for the places of a tally.
    pub fn new(tally: Tally) -> EndToEnd {
        EndToEnd { tally, splits: Splits::default() }
    }

    /// Ends the capture.
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
