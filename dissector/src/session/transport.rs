//! The transport of a connection: RC or iWARP.

use crate::connection::{Counts, FirstFrames};
use crate::iwarp::IwarpConnection;
use crate::rc::{Packet, ReliableConnection};
use crate::rdma::{Deliver, End, Fault, Position};
use crate::record::{Seen, Time};
use alloc::boxed::Box;
use rdmascope_wire::bth::Bth;
use rdmascope_wire::psn::Psn;

/// The transport state of a connection. [`rdma`](crate::rdma) defines the deliveries.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "avoids an indirection for each RoCE packet")]
pub(crate) enum TransportState {
    /// A reliable connection of InfiniBand or RoCE.
    Rc(ReliableConnection),
    /// TCP.
    Iwarp(Box<IwarpConnection>),
}

impl Default for TransportState {
    fn default() -> TransportState {
        TransportState::Rc(ReliableConnection::default())
    }
}

/// Methods that both transports have.
macro_rules! both {
    ($($(#[$attribute:meta])* fn $name:ident(&self $(, $argument:ident: $ty:ty)*) -> $result:ty;)*) => {$(
        $(#[$attribute])*
        #[inline]
        pub(crate) fn $name(&self $(, $argument: $ty)*) -> $result {
            match self {
                TransportState::Rc(rc) => rc.$name($($argument),*),
                TransportState::Iwarp(iwarp) => iwarp.$name($($argument),*),
            }
        }
    )*};
}

/// Methods of both transports that deliver.
macro_rules! both_deliver {
    ($($(#[$attribute:meta])* fn $name:ident(&mut self $(, $argument:ident: $ty:ty)*) -> $result:ty;)*) => {$(
        $(#[$attribute])*
        pub(crate) fn $name(
            &mut self,
            $($argument: $ty,)*
            deliver: &mut Deliver<'_>,
        ) -> $result {
            match self {
                TransportState::Rc(rc) => rc.$name($($argument,)* deliver),
                TransportState::Iwarp(iwarp) => iwarp.$name($($argument,)* deliver),
            }
        }
    )*};
}

impl TransportState {
    both! {
        /// Whether packets of an end wait for a gap to be filled.
        fn waits(&self, end: End) -> bool;
        /// Whether packets of an end wait for a gap to be filled that the other end acknowledged.
        fn has_acknowledged_gap(&self, end: End) -> bool;
        /// How often the next position of an end was unknown.
        fn unsure(&self, end: End) -> u32;
        /// The last acknowledged position of an end, and the packet that acknowledged it first.
        fn acknowledged(&self, end: End) -> Option<(Position, Seen)>;
        /// Whether data of an end is in flight.
        fn is_in_flight(&self, end: End) -> bool;
        /// The number of packets of an end that were repeated or reordered.
        fn disturbed(&self, end: End) -> u64;
        /// The number of acknowledged packets of an end after the last one seen.
        fn missing_at_the_end(&self, end: End) -> Option<i32>;
        /// The frame up to which no packet of an end is missing.
        fn complete(&self, end: End) -> Option<u64>;
        /// Adds the transport's counts of an end to `counts`.
        fn count(&self, end: End, counts: Counts) -> Counts;
        /// Adds the first packets of an end that the transport notes to `first_frames`.
        fn first_frames(&self, end: End, first_frames: FirstFrames) -> FirstFrames;
        /// Bytes of memory held back.
        fn buffered(&self) -> usize;
        /// Bytes of memory on the heap that a clone uses.
        fn footprint(&self) -> usize;
        /// The next time at which `handle_time` has an effect.
        fn deadline(&self) -> Option<Time>;
        /// Whether everything that an end sent up to a position, inclusive, was delivered.
        fn is_settled(&self, end: End, position: Position) -> bool;
    }

    both_deliver! {
        /// Ends the waits that expire by `now`.
        fn handle_time(&mut self, now: Time) -> ();
        /// Skips the gaps of an end whose packets were acknowledged. Returns false if there are
        /// none.
        fn skip_acknowledged_gaps(&mut self, end: End) -> bool;
        /// Releases all held packets, because all connections together hold too much.
        fn release_buffered(&mut self) -> ();
        /// Delivers all held packets at the end of the connection.
        fn finish(&mut self) -> ();
    }

    fn rc(&self) -> Option<&ReliableConnection> {
        if let TransportState::Rc(rc) = self { Some(rc) } else { None }
    }

    #[inline]
    fn rc_mut(&mut self) -> Option<&mut ReliableConnection> {
        if let TransportState::Rc(rc) = self { Some(rc) } else { None }
    }

    /// The state of an iWARP connection.
    pub(crate) fn iwarp(&self) -> Option<&IwarpConnection> {
        if let TransportState::Iwarp(iwarp) = self { Some(iwarp) } else { None }
    }

    /// The mutable state of an iWARP connection.
    pub(crate) fn iwarp_mut(&mut self) -> Option<&mut IwarpConnection> {
        if let TransportState::Iwarp(iwarp) = self { Some(iwarp) } else { None }
    }

    /// Handles a packet of a reliable connection. `judged`: faults of responses are reported.
    #[inline]
    pub(crate) fn handle(&mut self, from: End, packet: &Packet<'_>, judged: bool, deliver: &mut Deliver<'_>) {
        if let Some(rc) = self.rc_mut() {
            rc.judge(judged);
            rc.handle(from, packet, deliver);
        }
    }

    /// Whether no request of an end was seen or announced.
    #[inline]
    pub(crate) fn is_unseen(&self, end: End) -> bool {
        self.rc().is_some_and(|rc| rc.is_unseen(end))
    }

    /// Whether the first request seen of an end has the PSN `first`, or follows it closely.
    pub(crate) fn begins_at(&self, end: End, first: Psn) -> bool {
        self.rc().is_some_and(|rc| rc.begins_at(end, first))
    }

    /// Sets the first PSN of the requests of an end and the path MTU in bytes, from the CM
    /// exchange.
    pub(crate) fn begin(&mut self, end: End, first: Psn, path_mtu: Option<u32>) {
        self.rc_mut().into_iter().for_each(|rc| rc.begin(end, first, path_mtu));
    }

    /// Sets the number of RDMA READs that an end may have outstanding.
    pub(crate) fn limit_reads(&mut self, end: End, resources: u8) {
        self.rc_mut().into_iter().for_each(|rc| rc.limit_reads(end, resources));
    }

    /// Sets the path MTU in bytes from a REQ.
    pub(crate) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.rc_mut().into_iter().for_each(|rc| rc.agree_on_path_mtu(path_mtu));
    }

    /// The path MTU in bytes that the requests of an end show, as far as it is known.
    pub(crate) fn path_mtu(&self, end: End) -> Option<u32> {
        self.rc()?.path_mtu(end)
    }

    /// From now on, reports of repetitions and NAKs name the packet that was seen first.
    pub(crate) fn watch(&mut self) {
        self.rc_mut().into_iter().for_each(ReliableConnection::watch);
    }

    /// Discards the recent requests, because the connection is closed.
    pub(crate) fn forget_recent_requests(&mut self) {
        self.rc_mut().into_iter().for_each(ReliableConnection::forget_recent_requests);
    }

    /// Checks a packet of an end by itself for faults.
    #[inline]
    pub(crate) fn inspect(
        &self,
        from: End,
        bth: &Bth,
        packet: &Packet<'_>,
        partition_key: Option<u16>,
    ) -> Option<Fault> {
        self.rc()?.inspect(from, bth, packet, partition_key)
    }

    /// Whether a response of the other end matches the recent requests of this end.
    pub(crate) fn fits(&self, end: End, response: &Packet<'_>, is_new: bool) -> bool {
        self.rc().is_some_and(|rc| rc.fits(end, response, is_new))
    }

    /// Whether a packet continues the packets of an end. `is_young`: or precedes them a little.
    pub(crate) fn continues(&self, end: End, packet: &Packet<'_>, is_young: bool) -> bool {
        self.rc().is_some_and(|rc| rc.continues(end, packet, is_young))
    }

    /// Takes over the state of end `from` of another connection as the state of `end`.
    pub(crate) fn take(&mut self, end: End, other: &mut TransportState, from: End) {
        if let (Some(rc), Some(other)) = (self.rc_mut(), other.rc_mut()) {
            rc.take(end, other, from);
        }
    }

    /// The PSN of the last Send of an end that waits after a gap and whose first packet satisfies
    /// `is_it`.
    pub(crate) fn find_held_send(&self, end: End, is_it: impl Fn(&[u8]) -> bool) -> Option<Psn> {
        self.rc()?.find_held_send(end, is_it)
    }

    /// Skips the gaps of an end before a waiting packet.
    pub(crate) fn skip_gaps_before(&mut self, end: End, psn: Psn, deliver: &mut Deliver<'_>) {
        self.rc_mut().into_iter().for_each(|rc| rc.skip_gaps_before(end, psn, deliver));
    }
}
