//! The points in the life of a transaction that tracepoints and packets show, in their order.

/// The traced host's end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The host sends the call.
    Caller,
    /// The host answers.
    Answerer,
}

impl Role {
    /// The heading for calls with this role.
    pub const fn title(self) -> &'static str {
        match self {
            Role::Caller => "calls by this host",
            Role::Answerer => "calls to this host",
        }
    }

    /// Its name in JSON and text.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Caller => "caller",
            Role::Answerer => "answerer",
        }
    }

    /// The points of a host with this role in their order, including those of packets.
    pub const fn points(self) -> &'static [Point] {
        match self {
            Role::Caller => &[
                Point::Begun,
                Point::Reserved,
                Point::Marshalled,
                Point::CallPosted,
                Point::CallSent,
                Point::ReplyArrived,
                Point::ReplyReceived,
                Point::ReplyMatched,
            ],
            Role::Answerer => &[
                Point::CallArrived,
                Point::CallReceived,
                Point::Decoded,
                Point::ReadsDone,
                Point::Processed,
                Point::Encoded,
                Point::ReplyPosted,
                Point::ReplySent,
            ],
        }
    }
}

/// A point in the life of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// The start of the RPC task, by the event `rpc_stats_latency` at its end.
    Begun,
    /// The event `xprt_reserve`.
    Reserved,
    /// The event `xprtrdma_marshal`.
    Marshalled,
    /// The event `xprtrdma_post_send`.
    CallPosted,
    /// The call's first packet.
    CallSent,
    /// The reply's last packet.
    ReplyArrived,
    /// The event `xprtrdma_wc_receive`.
    ReplyReceived,
    /// The event `xprtrdma_reply`.
    ReplyMatched,
    /// The call's last packet.
    CallArrived,
    /// The event `svcrdma_wc_recv`.
    CallReceived,
    /// The event `svcrdma_decode_rqst`, or `xprtrdma_cb_call` for a callback.
    Decoded,
    /// The event `svcrdma_read_finished`.
    ReadsDone,
    /// The event `svc_process`.
    Processed,
    /// The event `svcrdma_encode_wseg`.
    Encoded,
    /// The event `svcrdma_post_send`, or `xprtrdma_cb_reply` for a callback.
    ReplyPosted,
    /// The reply's first packet.
    ReplySent,
}

impl Point {
    /// The number of points.
    pub(super) const COUNT: usize = 16;

    /// Its name in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Point::Begun => "begun",
            Point::Reserved => "reserved",
            Point::Marshalled => "marshalled",
            Point::CallPosted => "call-posted",
            Point::CallSent => "call-sent",
            Point::ReplyArrived => "reply-arrived",
            Point::ReplyReceived => "reply-received",
            Point::ReplyMatched => "reply-matched",
            Point::CallArrived => "call-arrived",
            Point::CallReceived => "call-received",
            Point::Decoded => "decoded",
            Point::ReadsDone => "reads-done",
            Point::Processed => "processed",
            Point::Encoded => "encoded",
            Point::ReplyPosted => "reply-posted",
            Point::ReplySent => "reply-sent",
        }
    }

    /// Whether the time comes from a packet, and thus from the clock of the capture.
    pub const fn is_packet(self) -> bool {
        matches!(self, Point::CallSent | Point::ReplyArrived | Point::CallArrived | Point::ReplySent)
    }

    /// The activity between this point and the next of its role; empty for the last point.
    pub(crate) const fn until_next(self) -> &'static str {
        match self {
            Point::Begun => "slot",
            Point::Reserved => "queue",
            Point::Marshalled => "post",
            Point::CallPosted | Point::ReplyPosted => "kernel to NIC",
            Point::CallSent => "network and server",
            Point::ReplyArrived | Point::CallArrived => "NIC to kernel",
            Point::ReplyReceived => "match",
            Point::CallReceived => "queue",
            Point::Decoded => "RDMA Reads",
            Point::ReadsDone => "dispatch",
            Point::Processed => "handler",
            Point::Encoded => "marshal",
            Point::ReplyMatched | Point::ReplySent => "",
        }
    }

    /// All points, in the order of their numbers.
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = Point> {
        [Role::Caller, Role::Answerer].into_iter().flat_map(|role| role.points().iter().copied())
    }
}

/// The time of each point, in the clock of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times([i64; Point::COUNT]);

impl Times {
    /// A time that no trace or capture has.
    const NEVER: i64 = i64::MIN;

    pub(super) fn get(&self, point: Point) -> Option<i64> {
        Some(self.0[point as usize]).filter(|time| *time != Times::NEVER)
    }

    pub(super) fn set(&mut self, point: Point, time: i64) {
        self.0[point as usize] = time;
    }

    /// Sets the time of a point, unless it is set already.
    pub(super) fn set_first(&mut self, point: Point, time: i64) {
        if self.get(point).is_none() {
            self.set(point, time);
        }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times([Times::NEVER; Point::COUNT])
    }
}

#[cfg(test)]
mod tests {
    use super::Point;

    #[test]
    fn point_numbers_match_the_table() {
        let numbers: Vec<usize> = Point::all().map(|point| point as usize).collect();
        assert_eq!(numbers, (0..Point::COUNT).collect::<Vec<_>>());
    }
}
