//! The time during which data of an end was in flight.

use crate::record::Time;

/// The time during which data of one end was in flight, in nanoseconds, as sums that only grow. A
/// time between two moments is the difference of two sums.
///
/// Data is in flight from the packet that carries it to the acknowledgement, and while more packets
/// of its message are to come. An RDMA Read request is in flight until the last response. These
/// packets pass the capture point before they arrive at the end. So the time until its next packet
/// counts too, but no more than the shortest round trip between the capture point and the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    /// The sum without the current period.
    ended: u64,
    /// The start of the current period.
    since: Option<Time>,
    /// Its last packet arrived damaged, so its data must be sent again.
    is_damaged: bool,
    /// The end of the period before it.
    idle: Option<Time>,
    /// The shortest round trip to the end so far, in nanoseconds; 0 if unknown.
    round_trip: u64,
    /// The part of the sum that passed between the period before and the current one.
    between: u64,
    /// The time between data and its retransmission.
    resent: u64,
    /// The last retransmission.
    last_resent: Option<Time>,
    /// The number of repeated or reordered packets of this end.
    disturbed: u64,
}

impl Flight {
    /// Whether data is in flight.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.since.is_some()
    }

    /// The time during which data was in flight, up to `now`.
    #[inline]
    pub(crate) fn until(&self, now: Time) -> u64 {
        let more = self.since.map_or_else(|| self.returning(now), |since| now.since(since));
        self.ended.saturating_add(more)
    }

    /// The part of the time since the last period in which a packet of the end cannot have arrived.
    #[inline]
    fn returning(&self, now: Time) -> u64 {
        self.idle.map_or(0, |idle| now.since(idle).min(self.round_trip))
    }

    /// The shortest round trip to the end so far, in nanoseconds; 0 if unknown.
    #[inline]
    pub(crate) fn round_trip(&self) -> u64 {
        self.round_trip
    }

    /// Notes the time from a packet to the ACK of the end.
    #[inline]
    pub(crate) fn note_round_trip(&mut self, time: u64) {
        self.round_trip = if self.round_trip == 0 { time } else { self.round_trip.min(time) };
    }

    /// Notes the time from a call to the reply of the end, which contains a round trip.
    #[inline]
    pub(crate) fn note_latency(&mut self, time: u64) {
        if time > 0 {
            self.round_trip = self.round_trip.min(time);
        }
    }

    /// The part of it that passed before retransmissions: the receiver may have lacked the data.
    #[inline]
    pub(crate) fn resent(&self) -> u64 {
        self.resent
    }

    /// Begins a period.
    #[cold]
    pub(crate) fn begin(&mut self, now: Time) {
        if self.since.is_none() {
            self.between = self.returning(now);
            self.ended = self.ended.saturating_add(self.between);
            self.since = Some(now);
        }
    }

    /// Notes a damaged packet. The period lasts until its data is sent again.
    #[cold]
    pub(crate) fn damage(&mut self, now: Time) {
        self.begin(now);
        self.is_damaged = true;
    }

    /// Notes an intact packet.
    #[inline]
    pub(crate) fn send(&mut self) {
        self.is_damaged = false;
    }

    /// Ends the current period, unless damaged data must be sent again.
    #[cold]
    pub(crate) fn end(&mut self, now: Time) {
        if self.is_damaged {
            return;
        }
        if let Some(since) = self.since.take() {
            self.ended = self.ended.saturating_add(now.since(since));
            self.idle = Some(now);
        }
    }

    /// Begins the current period with the end of the one before it: packets in between are missing
    /// from the capture.
    #[cold]
    pub(crate) fn lack(&mut self) {
        if let (Some(since), Some(idle)) = (&mut self.since, self.idle) {
            *since = idle.min(*since);
            self.ended -= core::mem::take(&mut self.between);
        }
    }

    /// Notes the number of repeated or reordered packets. Returns whether it has changed.
    #[inline]
    pub(crate) fn disturb(&mut self, disturbed: u64) -> bool {
        core::mem::replace(&mut self.disturbed, disturbed) != disturbed
    }

    /// Counts the time until a retransmission at `now`. `acknowledged` is the time of the last
    /// acknowledgement. Between periods, the sender was still waiting for one.
    #[cold]
    pub(crate) fn resend(&mut self, acknowledged: Option<Time>, now: Time) {
        let starts = [self.since.or(self.idle), acknowledged, self.last_resent];
        let start = starts.into_iter().flatten().max().unwrap_or(now);
        self.resent = self.resent.saturating_add(now.since(start));
        self.last_resent = Some(now);
        if self.since.is_none()
            && let Some(idle) = self.idle.replace(now)
        {
            self.ended = self.ended.saturating_add(now.since(idle));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_add_up() {
        let mut flight = Flight::default();
        assert_eq!(flight.until(Time(5)), 0);
        flight.begin(Time(10));
        flight.begin(Time(12));
        assert!(flight.is_busy());
        assert_eq!(flight.until(Time(15)), 5);
        flight.end(Time(20));
        assert_eq!((flight.is_busy(), flight.until(Time(25))), (false, 10));
        flight.begin(Time(30));
        // A time stamp that steps back.
        assert_eq!(flight.until(Time(29)), 10);
        flight.end(Time(31));
        assert_eq!((flight.until(Time(40)), flight.resent()), (11, 0));
    }

    #[test]
    fn damaged_data_is_in_flight_until_retransmitted() {
        let mut flight = Flight::default();
        flight.damage(Time(10));
        flight.end(Time(12));
        assert_eq!(flight.until(Time(15)), 5);
        flight.send();
        flight.end(Time(20));
        assert_eq!(flight.until(Time(25)), 10);
    }

    #[test]
    fn missing_packets_extend_time_in_flight() {
        let mut flight = Flight::default();
        flight.begin(Time(10));
        flight.end(Time(20));
        flight.begin(Time(30));
        flight.lack();
        assert_eq!(flight.until(Time(35)), 25);
    }

    #[test]
    fn a_round_trip_extends_time_in_flight() {
        let mut flight = Flight::default();
        flight.note_latency(3);
        assert_eq!(flight.round_trip(), 0, "no ACK");
        [6, 5, 9].into_iter().for_each(|time| flight.note_round_trip(time));
        assert_eq!(flight.round_trip(), 5);
        [7, 4, 0].into_iter().for_each(|time| flight.note_latency(time));
        flight.begin(Time(10));
        flight.end(Time(20));
        assert_eq!([21, 24, 30].map(|now| flight.until(Time(now))), [11, 14, 14]);
        flight.begin(Time(30));
        assert_eq!(flight.until(Time(35)), 19);
        flight.end(Time(36));
        flight.begin(Time(38));
        assert_eq!(flight.until(Time(40)), 24);
        // The capture lacks packets between the two periods.
        flight.lack();
        assert_eq!(flight.until(Time(40)), 24);
    }

    #[test]
    fn retransmission_counts_time_since_last_progress() {
        let mut flight = Flight::default();
        flight.begin(Time(10));
        assert!(flight.disturb(1) && !flight.disturb(1));
        flight.resend(None, Time(14));
        flight.resend(None, Time(15));
        assert_eq!((flight.resent(), flight.until(Time(20))), (5, 10));
        // An acknowledgement between both is progress.
        flight.resend(Some(Time(18)), Time(20));
        assert_eq!(flight.resent(), 7);
        // The acknowledgement was lost after the capture point, so the sender still waited.
        flight.end(Time(22));
        flight.resend(Some(Time(22)), Time(30));
        assert_eq!((flight.resent(), flight.until(Time(40))), (15, 20));
    }
}
