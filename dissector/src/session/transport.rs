//! The transport of a connection, whichever it is.

use crate::connection::{Counts, FirstFrames};
use crate::iwarp::IwarpConnection;
use crate::rc::{Packet, ReliableConnection};
use crate::rdma::{Deliver, End, Fault, Position};
use crate::record::{Seen, Time};
use alloc::boxed::Box;
use rdmascope_wire::bth::Bth;
use rdmascope_wire::psn::Psn;

/// What a transport knows of a connection. What is said of each is said in [`rdma`](crate::rdma).
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "no pointer to follow for each packet of RoCE")]
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

/// What both have.
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

/// The same, of those that hand something up.
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
        /// Whether what an end sent waits behind a gap.
        fn waits(&self, end: End) -> bool;
        /// How often it was not known what an end sends next.
        fn unsure(&self, end: End) -> u32;
        /// The last of what an end sent that was acknowledged, and the first packet that did so.
        fn acknowledged(&self, end: End) -> Option<(Position, Seen)>;
        /// How many packets of an end came again, or filled a gap before others seen earlier.
        fn disturbed(&self, end: End) -> u64;
        /// How many packets of an end were acknowledged and have not come by: behind all that did.
        fn missing_at_the_end(&self, end: End) -> Option<i32>;
        /// Up to which frame nothing that an end sent is missing.
        fn complete(&self, end: End) -> Option<u64>;
        /// Adds to `counts` what was counted of an end here.
        fn count(&self, end: End, counts: Counts) -> Counts;
        /// Adds to `first_frames` what was seen first of an end here.
        fn first_frames(&self, end: End, first_frames: FirstFrames) -> FirstFrames;
        /// Bytes of memory that are held back.
        fn buffered(&self) -> usize;
        /// Bytes of memory that a clone takes up beside itself.
        fn footprint(&self) -> usize;
        /// When `handle_time` has something to do.
        fn deadline(&self) -> Option<Time>;
        /// Whether all was handed up that an end sent before a position, and with it.
        fn is_settled(&self, end: End, position: Position) -> bool;
    }

    both_deliver! {
        /// Ends the waits that time alone ends by `now`.
        fn handle_time(&mut self, now: Time) -> ();
        /// Gives up what is missing of an end although it was received. False where nothing is.
        fn give_up_received(&mut self, end: End) -> bool;
        /// Gives up what is held back, because all connections together hold back too much.
        fn give_up_buffered(&mut self) -> ();
        /// Hands up all that is held back: nothing comes any more.
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

    /// The same, to be changed.
    pub(crate) fn iwarp_mut(&mut self) -> Option<&mut IwarpConnection> {
        if let TransportState::Iwarp(iwarp) = self { Some(iwarp) } else { None }
    }

    /// Takes a packet of a reliable connection; `judged`: faults of responses are reported.
    #[inline]
    pub(crate) fn handle(&mut self, from: End, packet: &Packet<'_>, judged: bool, deliver: &mut Deliver<'_>) {
        if let Some(rc) = self.rc_mut() {
            rc.judge(judged);
            rc.handle(from, packet, deliver);
        }
    }

    /// Sets the PSN that the requests of an end begin at, and the path MTU in bytes, as the CM exchange says.
    pub(crate) fn begin(&mut self, end: End, first: Psn, path_mtu: Option<u32>) {
        self.rc_mut().into_iter().for_each(|rc| rc.begin(end, first, path_mtu));
    }

    /// Sets how many RDMA READs an end may have outstanding.
    pub(crate) fn limit_reads(&mut self, end: End, resources: u8) {
        self.rc_mut().into_iter().for_each(|rc| rc.limit_reads(end, resources));
    }

    /// Sets the path MTU in bytes that a REQ names.
    pub(crate) fn agree_on_path_mtu(&mut self, path_mtu: Option<u32>) {
        self.rc_mut().into_iter().for_each(|rc| rc.agree_on_path_mtu(path_mtu));
    }

    /// The path MTU in bytes that the requests of an end go by, as far as it is known.
    pub(crate) fn path_mtu(&self, end: End) -> Option<u32> {
        self.rc()?.path_mtu(end)
    }

    /// Reports with repetitions and refusals of both ends the packet seen first.
    pub(crate) fn watch(&mut self) {
        self.rc_mut().into_iter().for_each(ReliableConnection::watch);
    }

    /// Forgets what was sent lately, because the connection is closed.
    pub(crate) fn forget_recent_requests(&mut self) {
        self.rc_mut().into_iter().for_each(ReliableConnection::forget_recent_requests);
    }

    /// What is wrong with a packet of an end by itself.
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

    /// Whether a response of the other end fits what this end was seen to send last.
    pub(crate) fn fits(&self, end: End, response: &Packet<'_>, is_new: bool) -> bool {
        self.rc().is_some_and(|rc| rc.fits(end, response, is_new))
    }

    /// Takes over what end `from` of another connection sends as what `end` does.
    pub(crate) fn take(&mut self, end: End, other: &mut TransportState, from: End) {
        if let (Some(rc), Some(other)) = (self.rc_mut(), other.rc_mut()) {
            rc.take(end, other, from);
        }
    }

    /// The PSN of the last Send of an end that waits behind a gap, of those whose first packet `is_it` likes.
    pub(crate) fn find_held_send(&self, end: End, is_it: impl Fn(&[u8]) -> bool) -> Option<Psn> {
        self.rc()?.find_held_send(end, is_it)
    }

    /// Gives up what is missing of an end before a packet that waits behind it.
    pub(crate) fn give_up_before(&mut self, end: End, psn: Psn, deliver: &mut Deliver<'_>) {
        self.rc_mut().into_iter().for_each(|rc| rc.give_up_before(end, psn, deliver));
    }
}
