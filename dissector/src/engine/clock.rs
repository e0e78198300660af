//! Waits that expire by time, without another packet.

use super::Engine;
use crate::event::Report;
use crate::record::Time;

impl Engine {
    /// Ends the waits that expire by `now`, as the next packet of the connection would:
    ///
    /// - Gaps: 2 ms after an acknowledgement of the missing packets was seen; 4 s for other
    ///   packets. If the capture has only one direction of a connection, only packets end a gap.
    /// - Answers to requests that were not seen: 2 ms. On an unpaired half-flow they wait until it
    ///   is paired.
    /// - Connections that a CM message closed: 10 s of silence.
    ///
    /// Without this call, a packet that comes after the wait still fills its gap if it is the next
    /// packet of its connection. After this call it counts as late. All records up to `now` must
    /// have been handled before. Live sources call this; readers of files need not. The cost is
    /// proportional to the number of connections.
    pub fn handle_time(&mut self, now: Time, report: &mut Report<'_>) {
        self.between_records(report, |stage| {
            for index in stage.sessions.due(now) {
                stage.sessions.session(index).handle_time(now, stage.transactions, stage.report);
                stage.settle(index);
            }
            stage.sessions.retire(now, stage.transactions, stage.report);
        });
    }

    /// The next time at which [`Engine::handle_time`] has an effect, as known now. `None` if only a
    /// record can have one.
    pub fn next_deadline(&self) -> Option<Time> {
        self.sessions.deadline()
    }
}
