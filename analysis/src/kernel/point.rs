//! The moments in the life of a transaction that tracepoints and packets tell, in the order in which they come.

/// Which end of a transaction the traced host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It sends the call.
    Caller,
    /// It answers.
    Answerer,
}

impl Role {
    /// The calls of which the host is this end, in words for people.
    pub const fn title(self) -> &'static str {
        match self {
            Role::Caller => "calls of this host",
            Role::Answerer => "calls to this host",
        }
    }

    /// In JSON and text.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Caller => "caller",
            Role::Answerer => "answerer",
        }
    }

    /// The points of such a host in their order, those of packets among them.
    pub const fn points(self) -> &'static [Point] {
        match self {
            Role::Caller => &[
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

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// `xprt_reserve`.
    Reserved,
    /// `xprtrdma_marshal`.
    Marshalled,
    /// `xprtrdma_post_send`.
    CallPosted,
    /// The call's first packet.
    CallSent,
    /// The reply's last packet.
    ReplyArrived,
    /// `xprtrdma_wc_receive`.
    ReplyReceived,
    /// `xprtrdma_reply`.
    ReplyMatched,
    /// The call's last packet.
    CallArrived,
    /// `svcrdma_wc_recv`.
    CallReceived,
    /// `svcrdma_decode_rqst`, of a callback `xprtrdma_cb_call`.
    Decoded,
    /// `svcrdma_read_finished`.
    ReadsDone,
    /// `svc_process`.
    Processed,
    /// `svcrdma_encode_wseg`.
    Encoded,
    /// `svcrdma_post_send`, of a callback `xprtrdma_cb_reply`.
    ReplyPosted,
    /// The reply's first packet.
    ReplySent,
}

impl Point {
    /// How many there are.
    pub(super) const COUNT: usize = 15;

    /// In JSON.
    pub const fn word(self) -> &'static str {
        match self {
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

    /// Whether the time is that of a packet, by the clock of the capture.
    pub const fn is_packet(self) -> bool {
        matches!(self, Point::CallSent | Point::ReplyArrived | Point::CallArrived | Point::ReplySent)
    }

    /// What happens between this one and the next of its role; empty of the last one.
    pub const fn until_next(self) -> &'static str {
        match self {
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

    /// All of them, in the order of their numbers.
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = Point> {
        [Role::Caller, Role::Answerer].into_iter().flat_map(|role| role.points().iter().copied())
    }
}

/// When each point was, in the clock that its kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times([i64; Point::COUNT]);

impl Times {
    /// No trace or capture has this time.
    const NEVER: i64 = i64::MIN;

    pub(super) fn get(&self, point: Point) -> Option<i64> {
        Some(self.0[point as usize]).filter(|time| *time != Times::NEVER)
    }

    pub(super) fn set(&mut self, point: Point, time: i64) {
        self.0[point as usize] = time;
    }

    /// Sets the first time that is told of this point.
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
    fn numbers_are_those_of_the_table() {
        let numbers: Vec<usize> = Point::all().map(|point| point as usize).collect();
        assert_eq!(numbers, (0..Point::COUNT).collect::<Vec<_>>());
    }
}
