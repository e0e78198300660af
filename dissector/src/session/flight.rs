//! When data of each end was in flight.

use super::Session;
use crate::rc::Packet;
use crate::rdma::End;
use crate::record::Time;

impl Session {
    /// Notes whether data is in flight after a packet of end `side`.
    #[inline]
    pub(super) fn note_flight(&mut self, side: End, packet: &Packet<'_>) {
        if packet.operation.is_response() {
            self.note_received(side.other(), packet.seen.time);
        } else {
            self.note_sent(side, packet.seen.time);
        }
    }

    /// Notes whether data of an end is in flight that has just sent some.
    #[inline]
    pub(super) fn note_sent(&mut self, sender: End, now: Time) {
        let flight = &mut self.peers.flights[sender];
        flight.send();
        if flight.disturb(self.transport.disturbed(sender)) {
            flight.resend(self.transport.acknowledged(sender).map(|(_, seen)| seen.time), now);
        }
        if !flight.is_busy() && self.transport.is_in_flight(sender) {
            flight.begin(now);
        }
    }

    /// Notes whether data of an end is still in flight, after a packet of the other end.
    #[inline]
    pub(super) fn note_received(&mut self, sender: End, now: Time) {
        let flight = &mut self.peers.flights[sender];
        if flight.is_busy() && !self.transport.is_in_flight(sender) {
            flight.end(now);
        }
    }
}
