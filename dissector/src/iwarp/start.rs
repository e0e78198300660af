//! Start frames of both ends, and the rules that follow from them (RFC 5044, section 7.1; RFC
//! 6581).

use super::START;
use crate::rdma::{Delivery, Fault, Position, StartFault};
use crate::record::Seen;
use alloc::vec::Vec;
use rdmascope_wire::mpa::{ReadDepths, StartFrame};

/// The start frame of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    /// The packet with its first byte.
    pub(crate) seen: Seen,
    /// Its fields.
    pub(crate) frame: StartFrame,
    /// Captured bytes of its private data.
    pub(crate) data: Vec<u8>,
    /// Sequence number after it, where the FPDUs begin.
    pub(super) end: u32,
}

/// The checks already made on the start of an end, so that each fault is reported once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judged {
    markers: bool,
    depth: bool,
    first: bool,
}

impl Started {
    /// Its IRD and ORD, if it has them.
    pub(super) fn depths(&self) -> Option<ReadDepths> {
        self.frame.private_data(&self.data).0
    }

    /// Whether this Request and a Reply agree that the initiator may begin with a ready-to-receive
    /// indication by a Send without data (RFC 6581, section 9).
    pub(super) fn agrees_on_send(&self, reply: &Started) -> bool {
        self.may_agree_on_send(true) && reply.may_agree_on_send(false)
    }

    /// Whether this start frame of an initiator (`true`) or of the other end permits
    /// [an agreement](Started::agrees_on_send).
    pub(super) fn may_agree_on_send(&self, initiates: bool) -> bool {
        self.frame.is_request() == initiates
            && !self.frame.rejected
            && self.depths().is_some_and(|depths| depths.peer_to_peer && depths.by_send)
    }

    /// Sequence number of its first byte.
    pub(crate) fn begins(&self) -> u32 {
        self.end.wrapping_sub(StartFrame::LENGTH as u32 + u32::from(self.frame.private_data_length))
    }

    /// Finds the fault of the start frame alone.
    pub(super) fn fault(&self) -> Option<Fault> {
        let StartFrame { rejected, enhanced, reserved, revision, private_data_length, .. } = self.frame;
        // Before revision 2, S is a reserved bit (RFC 6581, section 6).
        let reserved = reserved | u8::from(enhanced && revision < 2) << 4;
        let fault = if rejected && self.frame.is_request() {
            StartFault::Rejected
        } else if private_data_length > StartFrame::MOST_PRIVATE_DATA {
            StartFault::PrivateData(private_data_length)
        } else if reserved != 0 {
            StartFault::Reserved(reserved)
        } else {
            return None;
        };
        Some(Fault::StartFrame(fault))
    }

    /// Finds the fault of a Reply to this Request. A Reply that rejects names the depths that it
    /// would need (RFC 6581, section 9.1).
    fn reply_fault(&self, request: &Started) -> Option<Fault> {
        if self.frame.rejected {
            return None;
        }
        let (outbound, inbound) = (self.depths()?.outbound, request.depths()?.inbound);
        let is_agreed = [outbound, inbound].iter().all(|it| *it != ReadDepths::NOT_NEGOTIATED);
        (is_agreed && outbound > inbound).then_some(Fault::Depth { outbound, inbound })
    }

    /// Returns the delivery that reports a fault.
    pub(super) fn faulty(&self, fault: Fault) -> Delivery<'static> {
        let position = Position::of_sequence(self.end);
        Delivery::Faulty { seen: self.seen, piece: START, position, fault }
    }
}

impl Judged {
    /// Finds a fault at the start of end `own`, once both start frames are known.
    ///
    /// `shown` is the packet with the first bytes after its start frame, and whether they are a
    /// marker.
    pub(super) fn find(
        &mut self,
        own: &Started,
        other: &Started,
        shown: Option<(Seen, bool)>,
    ) -> Option<Delivery<'static>> {
        if !core::mem::replace(&mut self.depth, true)
            && !own.frame.is_request()
            && let Some(fault) = own.reply_fault(other)
        {
            return Some(own.faulty(fault));
        }
        let (seen, found) = shown?;
        if core::mem::replace(&mut self.markers, true) || other.frame.markers == found {
            return None;
        }
        let (position, fault) = (Position::of_sequence(own.end), Fault::Markers { found });
        Some(Delivery::Faulty { seen, piece: super::SEGMENT, position, fault })
    }

    /// Whether [`Judged::find`] has nothing left to check.
    pub(super) fn is_over(&self) -> bool {
        self.markers
    }

    /// Whether a segment has the first FPDU of the MPA responder and precedes any FPDU of the
    /// initiator, because it acknowledges nothing after the Request.
    pub(super) fn is_early(
        &mut self,
        own: &Started,
        other: &Started,
        sequence: u32,
        acknowledged: Option<u32>,
    ) -> bool {
        if own.frame.is_request() || sequence != own.end || core::mem::replace(&mut self.first, true) {
            return false;
        }
        acknowledged.is_some_and(|next| next.wrapping_sub(other.end) as i32 <= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Time;

    fn started(key: [u8; 16], data: &[u8]) -> Started {
        let frame = StartFrame {
            key,
            enhanced: true,
            revision: 2,
            private_data_length: data.len() as u16,
            ..StartFrame::default()
        };
        Started { seen: Seen { frame: 7, time: Time(0) }, frame, data: data.to_vec(), end: 1000 }
    }

    /// A Request with this IRD, and a Reply with this ORD.
    fn both(inbound: u8, outbound: u8) -> [Started; 2] {
        [started(StartFrame::REQUEST, &[0, inbound, 0, 0]), started(StartFrame::REPLY, &[0, 0, 0, outbound])]
    }

    #[test]
    fn invalid_start_frames_are_faults() {
        let [request, _] = both(1, 1);
        assert_eq!(request.fault(), None);
        let with = |change: fn(&mut StartFrame)| {
            let mut started = request.clone();
            change(&mut started.frame);
            started.fault()
        };
        let fault = |fault| Some(Fault::StartFrame(fault));
        assert_eq!(with(|it| it.rejected = true), fault(StartFault::Rejected));
        assert_eq!(with(|it| it.reserved = 8), fault(StartFault::Reserved(8)));
        assert_eq!(with(|it| it.revision = 1), fault(StartFault::Reserved(0x10)));
        assert_eq!(with(|it| (it.revision, it.reserved) = (1, 8)), fault(StartFault::Reserved(0x18)));
        assert_eq!(with(|it| (it.revision, it.enhanced) = (1, false)), None);
        assert_eq!(with(|it| it.private_data_length = 512), None);
        assert_eq!(with(|it| it.private_data_length = 513), fault(StartFault::PrivateData(513)));
        // A Reply may reject.
        assert_eq!(with(|it| (it.key, it.rejected) = (StartFrame::REPLY, true)), None);
    }

    /// The frame has 20 bytes and the private data.
    #[test]
    fn frame_start_is_computed_from_its_end() {
        let [request, _] = both(1, 1);
        assert_eq!(request.begins(), 976);
        assert_eq!(Started { end: 5, ..started(StartFrame::REPLY, &[]) }.begins(), 0xffff_fff1);
    }

    /// Each fault of an end is reported once: too many READs, and markers that contradict the
    /// request for them.
    #[test]
    fn each_fault_is_reported_once() {
        let seen = Seen { frame: 9, time: Time(1) };
        for (wanted, found) in [(true, true), (true, false), (false, true), (false, false)] {
            let [mut request, reply] = both(4, 5);
            request.frame.markers = wanted;
            let mut judged = Judged::default();
            let mut fault = |shown| match judged.find(&reply, &request, shown) {
                Some(Delivery::Faulty { seen, position, fault, .. }) => {
                    Some((seen.frame, position.number(), fault))
                }
                other => other.map(|other| panic!("{other:?}")),
            };
            assert_eq!(fault(None), Some((7, 1000, Fault::Depth { outbound: 5, inbound: 4 })));
            assert_eq!(fault(None), None);
            let expected = (wanted != found).then_some((9, 1000, Fault::Markers { found }));
            assert_eq!(fault(Some((seen, found))), expected, "{wanted} {found}");
            assert_eq!(fault(Some((seen, found))), None);
        }
        // The checks end once the markers were examined. A Request is not checked as a Reply.
        let [request, reply] = both(4, 5);
        let mut judged = Judged::default();
        assert!(judged.find(&request, &reply, None).is_none() && !judged.is_over());
        assert!(judged.find(&request, &reply, Some((seen, false))).is_none() && judged.is_over());
    }

    #[test]
    fn ord_above_ird_is_a_depth_fault() {
        let find = |inbound, outbound| {
            let [request, reply] = both(inbound, outbound);
            let found = Judged::default().find(&reply, &request, None);
            found.map(|found| matches!(found, Delivery::Faulty { fault: Fault::Depth { .. }, .. }))
        };
        assert_eq!((find(4, 4), find(4, 5), find(0, 1)), (None, Some(true), Some(true)));
        let [mut request, reply] = both(0, 5);
        request.data = [0x3f, 0xff, 0, 0].to_vec();
        assert!(Judged::default().find(&reply, &request, None).is_none(), "not negotiated here");
        let [request, mut reply] = both(4, 5);
        reply.frame.rejected = true;
        assert!(
            Judged::default().find(&reply, &request, None).is_none(),
            "it names the depth that it would need"
        );
    }

    #[test]
    fn responder_fpdu_before_initiator_fpdu_is_early() {
        let [request, reply] = both(1, 1);
        let early = |sequence, next| Judged::default().is_early(&reply, &request, sequence, next);
        assert!(early(1000, Some(1000)) && early(1000, Some(980)));
        assert!(!early(1000, Some(1001)) && !early(1000, None) && !early(1040, Some(1000)));
        assert!(!Judged::default().is_early(&request, &reply, 1000, Some(1000)));
        // Only the first segment with FPDUs is checked.
        let mut judged = Judged::default();
        assert!(!judged.is_early(&reply, &request, 1040, Some(1000)));
        assert!(judged.is_early(&reply, &request, 1000, Some(1000)));
        assert!(!judged.is_early(&reply, &request, 1000, Some(1000)));
    }
}
