//! Waits that end by time, without another packet.

use super::Engine;
use crate::event::Report;
use crate::record::Time;

impl Engine {
    /// Ends the waits that are over by `now`, as the next packet of the connection would:
    ///
    /// - Gaps: packets that the receiver is seen to have, and that have not turned up within 2 ms since that was seen; other packets that
    ///   have not come within 4 s. Where the capture holds only one direction of a connection, only packets end a gap.
    /// - Answers to what was not seen asked, after 2 ms. On a half-flow that is not paired they wait until it is.
    /// - Connections that a CM message closed, after 10 s of silence.
    ///
    /// Without this call, a packet that comes after the wait still fills its gap if it is the next packet of its connection. After this
    /// call it counts as late. All records up to `now` must have been handed over before. A live source calls this; a reader of files need
    /// not. The cost is proportional to the number of connections.
    pub fn handle_time(&mut self, now: Time, report: &mut Report<'_>) {
        self.between_records(report, |stage| {
            for index in stage.sessions.due(now) {
                stage.sessions.session(index).handle_time(now, stage.transactions, stage.report);
                stage.settle(index);
            }
            stage.sessions.retire(now, stage.transactions, stage.report);
        });
    }

    /// When [`Engine::handle_time`] next has something to do, as far as is known by now; `None` where only a record brings something.
    pub fn next_deadline(&self) -> Option<Time> {
        self.sessions.deadline()
    }
}
