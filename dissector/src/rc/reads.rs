//! Outstanding RDMA READ requests.

use super::Packet;
use super::fault;
use crate::rdma::{Fault, MemoryRange, Placement, Position, ReadRequest};
use crate::record::Seen;
use crate::roomy::Roomy;
use alloc::collections::VecDeque;
use rdmascope_wire::psn::Psn;

/// The RDMA READ requests of one end, oldest first.
///
/// Only the PSN of a response shows where its data belongs: it is in the range of PSNs that the
/// request reserved (section 9.7.3). A repeated request, for all of the data or for the rest of it,
/// is kept beside the original. Both place the same bytes at the same addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    requests: Roomy<VecDeque<Request>>,
    /// Index of the last request answered. Consecutive responses mostly answer the same request.
    last: usize,
    /// Number of READs that may be outstanding; `None` if unknown or once exceeded.
    resources: Option<u8>,
    /// Some request has an unknown number of responses.
    unresolved: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    /// Position of the request and of its first response.
    first: Position,
    /// Number of responses; `None` while the path MTU is unknown.
    packets: Option<u32>,
    memory: MemoryRange,
    /// Payload length of a response that is not the last one, once seen. It is the path MTU.
    step: Option<u32>,
    /// No earlier request asked for any of this data.
    new: bool,
    /// Another request asks for some of the same data. Responses are noted for both.
    shared: bool,
    seen: Seen,
    answered: Answered,
}

/// The responses to a request that have been seen. It distinguishes late responses from repeated
/// ones.
///
/// Between the first missing response and the last missing one, a bitmap covers the nearest 64. All
/// others in that range count as missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answered {
    /// Index after the highest one seen.
    end: u32,
    /// Index of the first missing response, and the index after the last missing one.
    missing: (u32, u32),
    /// Bitmap of the responses seen, from the first missing one on.
    between: u64,
}

impl Answered {
    /// Notes a response. Returns whether it was seen before.
    #[inline]
    fn note(&mut self, index: u32) -> bool {
        if index == self.end {
            self.end = index.saturating_add(1);
            return false;
        }
        self.note_apart(index)
    }

    #[cold]
    fn note_apart(&mut self, index: u32) -> bool {
        let (first, end_of_missing) = &mut self.missing;
        if index > self.end {
            if *first == *end_of_missing {
                (*first, self.between) = (self.end, 0);
            } else {
                (*end_of_missing..self.end.min(first.saturating_add(64)))
                    .for_each(|came| self.between |= 1 << (came - *first));
            }
            *end_of_missing = index;
            self.end = index.saturating_add(1);
            return false;
        }
        if !(*first..*end_of_missing).contains(&index) {
            return true;
        }
        let bit = 1u64.checked_shl(index - *first).unwrap_or(0);
        if self.between & bit != 0 {
            return true;
        }
        self.between |= bit;
        let came = self.between.trailing_ones().min(*end_of_missing - *first);
        *first += came;
        self.between = self.between.checked_shr(came).unwrap_or(0);
        *end_of_missing -= u32::from(index + 1 == *end_of_missing && index >= *first);
        false
    }

    /// The state of the responses from `index` on, for a request for the rest.
    fn from(self, index: u32) -> Answered {
        let (first, end_of_missing) = self.missing;
        let rest = |at: u32| at.saturating_sub(index);
        let between = self.between.checked_shr(index.saturating_sub(first)).unwrap_or(0);
        Answered { end: rest(self.end), missing: (rest(first), rest(end_of_missing)), between }
    }
}

impl Reads {
    /// Number of RDMA READs remembered. A connection may have up to 255 outstanding.
    const MOST: usize = 512;

    /// Adds a request.
    pub(super) fn add(&mut self, request: &ReadRequest) {
        let ReadRequest { seen, position: first, extent: packets, memory, is_new: new, .. } = *request;
        if self.requests.len() == Reads::MOST {
            self.requests.pop_front();
            self.last = self.last.wrapping_sub(1);
        }
        // If its path MTU is unknown, a request uses no more PSNs than there are before the next
        // one.
        if let Some(last) = self.requests.back_mut().filter(|last| last.packets.is_none()) {
            last.packets = u32::try_from(last.first.distance(first)).ok().filter(|packets| *packets > 0);
        }
        let before = if new { None } else { self.find(first) };
        let answered = before.map_or_else(Answered::default, |before| {
            let Request { first: begun, answered, shared, .. } = &mut self.requests[before];
            *shared = true;
            answered.from(begun.distance(first).unsigned_abs())
        });
        self.unresolved |= packets.is_none();
        let shared = before.is_some();
        self.requests.push_back(Request { first, packets, memory, step: None, new, shared, seen, answered });
    }

    /// Sets the number of READs that the other end serves at once, from the CM exchange.
    pub(super) fn limit(&mut self, resources: u8) {
        self.resources = Some(resources);
    }

    /// Detects more outstanding READs than the other end serves at once.
    ///
    /// It is called after a response was [answered](Reads::answer) and looks at that request and
    /// those after it. It reports once.
    #[inline]
    pub(super) fn excess(&mut self, now: Seen) -> Option<Fault> {
        let allowed = self.resources?;
        if self.requests.len().saturating_sub(self.last) <= usize::from(allowed)
            || !self.requests[self.last].new
        {
            return None;
        }
        let waiting = self.requests.range(self.last..).filter(|request| request.new);
        let fault = Fault::of_reads(waiting.map(|request| request.seen), allowed.into(), now)?;
        self.resources = None;
        Some(fault)
    }

    /// Bytes of heap memory used by the requests. A clone needs the same.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.requests.capacity() * size_of::<Request>()
    }

    /// Whether a response with this PSN answers a known request.
    pub(super) fn expects(&self, psn: Psn) -> bool {
        self.find(psn.into()).is_some()
    }

    /// Finds the memory to which a response's data belongs; `None` if its request is unknown.
    #[inline]
    pub(super) fn answer<'a>(&mut self, packet: &Packet<'a>) -> Option<Placement<'a>> {
        let found = self.find(packet.psn.into())?;
        self.last = found;
        if self.unresolved && !packet.operation.ends_message() {
            self.resolve(packet.payload_length.max(1));
        }
        let request = &mut self.requests[found];
        let index = request.first.distance(packet.psn.into()) as u64;
        if !packet.operation.ends_message() {
            request.step = Some(packet.payload_length);
        }
        // Every response but the last is as long as the path MTU, so its PSN determines the offset.
        // That also holds for responses to a repeated request that was not captured. The last
        // response ends where the request ends.
        let offset = match request.step {
            _ if index == 0 => 0,
            Some(step) => index * u64::from(step),
            None => u64::from(request.memory.length.saturating_sub(packet.payload_length)),
        };
        let Request { first, memory, shared, .. } = *request;
        let repeated =
            if shared { self.note_with_each(packet.psn.into()) } else { request.answered.note(index as u32) };
        Some(Placement {
            seen: packet.seen,
            position: packet.psn.into(),
            first,
            request: Some(first),
            memory,
            address: memory.address.wrapping_add(offset),
            bytes: packet.payload,
            length: packet.payload_length,
            repeated,
        })
    }

    /// Notes a response for each request that covers it. Returns whether it was seen before.
    #[cold]
    fn note_with_each(&mut self, at: Position) -> bool {
        let mut came = false;
        for index in 0..self.requests.len() {
            if self.covers(index, at) {
                let request = &mut self.requests[index];
                came |= request.answered.note(request.first.distance(at).unsigned_abs());
            }
        }
        came
    }

    /// Finds the fault of a response that was [answered](Reads::answer) with `placement`.
    ///
    /// It finds none if the request was repeated, because the response may answer either request.
    #[inline]
    pub(super) fn fault(
        &self,
        packet: &Packet<'_>,
        placement: &Placement<'_>,
        path_mtu: u32,
    ) -> Option<Fault> {
        let index = placement.first.distance(placement.position).unsigned_abs();
        let fault = fault::of_response(packet, index, placement.memory.length, path_mtu)?;
        let mut requests = (0..self.requests.len()).filter(|index| self.covers(*index, packet.psn.into()));
        let is_certain =
            requests.next().is_some_and(|index| self.requests[index].new) && requests.next().is_none();
        is_certain.then_some(fault)
    }

    /// Sets the number of responses of each request, now that the path MTU is known.
    fn resolve(&mut self, path_mtu: u32) {
        for request in self.requests.iter_mut() {
            request.packets.get_or_insert(request.memory.length.div_ceil(path_mtu).max(1));
        }
        self.unresolved = false;
    }

    #[inline]
    fn covers(&self, index: usize, at: Position) -> bool {
        self.requests.get(index).is_some_and(|request| {
            let index = request.first.distance(at);
            // The smallest path MTU is 256 bytes.
            let most = || request.memory.length.div_ceil(256).clamp(1, 1 << 16);
            index >= 0 && (index as u32) < request.packets.unwrap_or_else(most)
        })
    }

    #[inline]
    fn find(&self, at: Position) -> Option<usize> {
        if !self.unresolved && self.covers(self.last, at) {
            return Some(self.last);
        }
        // The latest request first, so that a repeated request takes precedence over the original.
        (0..self.requests.len()).rev().find(|index| self.covers(*index, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rc::Extension;
    use crate::record::Time;
    use proptest::prelude::*;
    use rdmascope_wire::Rkey;
    use rdmascope_wire::bth::Operation;

    const SEEN: Seen = Seen { frame: 1, time: Time(0) };

    fn memory(address: u64, length: u32) -> MemoryRange {
        MemoryRange { address, rkey: Rkey(1), length }
    }

    fn request(first: u32, memory: MemoryRange, extent: Option<u32>) -> ReadRequest {
        let position = Psn::new(first).into();
        ReadRequest { seen: SEEN, position, extent, memory, repeated: false, is_new: true }
    }

    fn response(operation: Operation, psn: u32, payload_length: u32) -> Packet<'static> {
        Packet {
            seen: SEEN,
            operation,
            psn: Psn::new(psn),
            extension: Extension::None,
            payload: &[],
            payload_length,
        }
    }

    fn answer(reads: &mut Reads, operation: Operation, psn: u32, payload_length: u32) -> Option<u64> {
        reads.answer(&response(operation, psn, payload_length)).map(|placement| placement.address)
    }

    /// Whether a middle response is repeated; `None` if its request is unknown.
    fn repeated(reads: &mut Reads, psn: u32) -> Option<bool> {
        reads.answer(&response(Middle, psn, 256)).map(|placement| placement.repeated)
    }

    use Operation::{
        ReadResponseFirst as First, ReadResponseLast as Last, ReadResponseMiddle as Middle,
        ReadResponseOnly as Only,
    };

    #[test]
    fn responses_are_placed_by_psn_in_any_order() {
        let mut reads = Reads::default();
        // 600 bytes at a path MTU of 256: three responses, across the wrap. Then a request of its
        // own.
        reads.add(&request(0xff_ffff, memory(0x1000, 600), Some(3)));
        reads.add(&request(2, memory(0x9000, 10), Some(1)));
        assert_eq!(answer(&mut reads, Only, 2, 10), Some(0x9000));
        assert_eq!(answer(&mut reads, Last, 1, 88), Some(0x1200), "it ends where the request ends");
        assert_eq!(answer(&mut reads, First, 0xff_ffff, 256), Some(0x1000));
        assert_eq!(answer(&mut reads, Middle, 0, 256), Some(0x1100));
        assert_eq!(answer(&mut reads, Middle, 0, 256), Some(0x1100), "a repetition has the same address");
        assert_eq!(answer(&mut reads, Only, 3, 10), None);
    }

    #[test]
    fn next_request_bounds_a_read_of_unknown_path_mtu() {
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 512), None));
        reads.add(&request(12, memory(0x9000, 512), None));
        assert_eq!(answer(&mut reads, First, 10, 256), Some(0x1000));
        assert_eq!(answer(&mut reads, Last, 11, 256), Some(0x1100));
        assert_eq!(answer(&mut reads, First, 12, 256), Some(0x9000));
        assert_eq!(answer(&mut reads, Last, 13, 256), Some(0x9100));
        assert_eq!(answer(&mut reads, Only, 14, 256), None, "two responses carried all of it");
    }

    #[test]
    fn request_for_the_rest_is_placed_at_its_own_address() {
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 1024), Some(4)));
        assert_eq!(answer(&mut reads, First, 10, 256), Some(0x1000));
        // The second response is lost. The rest is requested again, from its PSN and address on.
        reads.add(&request(11, memory(0x1100, 768), Some(3)));
        assert_eq!(answer(&mut reads, First, 11, 256), Some(0x1100));
        assert_eq!(answer(&mut reads, Middle, 12, 256), Some(0x1200));
        assert_eq!(answer(&mut reads, Last, 13, 256), Some(0x1300));
    }

    #[test]
    fn response_matches_latest_request_without_path_mtu() {
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 600), None));
        reads.add(&request(13, memory(0x2000, 600), None));
        assert_eq!(answer(&mut reads, First, 10, 256), Some(0x1000));
        assert_eq!(answer(&mut reads, First, 13, 256), Some(0x2000));
        assert_eq!(answer(&mut reads, Last, 12, 88), Some(0x1200));
        assert_eq!(answer(&mut reads, Last, 15, 88), Some(0x2200));
        assert_eq!(answer(&mut reads, Only, 16, 1), None);
    }

    #[test]
    fn response_count_is_bounded_by_smallest_path_mtu() {
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 600), None));
        assert!(reads.expects(Psn::new(12)));
        assert!(!reads.expects(Psn::new(13)), "256, 256 and 88 bytes");
        reads.add(&request(20, memory(0x1000, 0), None));
        assert!(reads.expects(Psn::new(20)) && !reads.expects(Psn::new(21)), "one empty response");
        reads.add(&request(30, memory(0x1000, 1 << 31), None));
        assert!(reads.expects(Psn::new(30 + 0xffff)));
        // Nor more than there are PSNs before the next request.
        reads.add(&request(35, memory(0x9000, 10), Some(1)));
        assert!(reads.expects(Psn::new(34)) && reads.expects(Psn::new(35)));
        assert!(!reads.expects(Psn::new(36)));
    }

    /// The first response that is not the last of its request shows the path MTU, and with it the
    /// number of responses to every request. A last response does not.
    #[test]
    fn first_or_middle_response_shows_response_count() {
        for requests in [&[10][..], &[10, 20], &[10, 20, 30]] {
            for (operation, psn, length, packets) in
                [(First, 10, 512, 2), (Middle, 11, 512, 2), (Last, 12, 88, 3)]
            {
                let mut reads = Reads::default();
                requests.iter().for_each(|psn| reads.add(&request(*psn, memory(0x1000, 600), None)));
                assert!(answer(&mut reads, operation, psn, length).is_some());
                let last = requests[requests.len() - 1];
                let found: Vec<u32> = (last..last + 10).filter(|psn| reads.expects(Psn::new(*psn))).collect();
                assert_eq!(found, (last..last + packets).collect::<Vec<_>>(), "{requests:?} {operation:?}");
            }
        }
    }

    /// Too many outstanding READs are reported once, when the first is answered. Only READs that
    /// waited for more than two milliseconds count.
    #[test]
    fn excess_outstanding_reads_are_reported_once() {
        const WAITED: i64 = 2_000_000;
        let fault = |outstanding, last| Some(Fault::Reads { outstanding, allowed: 2, first: 1, last });
        // Of four requests in frames 1 to 4: which are new, which one is answered, and the time
        // until then.
        for (new, psn, after, expected) in [
            ([true; 4], 10, WAITED + 1, fault(4, 4)),
            ([true; 4], 10, WAITED, None),
            ([true; 4], 11, WAITED + 1, Some(Fault::Reads { outstanding: 3, allowed: 2, first: 2, last: 4 })),
            ([true; 4], 12, WAITED + 1, None),
            ([true, false, true, true], 10, WAITED + 1, fault(3, 4)),
            ([true, true, true, false], 10, WAITED + 1, fault(3, 3)),
            ([true, true, false, false], 10, WAITED + 1, None),
            // The request answered first is not the oldest.
            ([false, true, true, true], 10, WAITED + 1, None),
        ] {
            let mut reads = Reads::default();
            reads.limit(2);
            for (index, is_new) in (0u32..).zip(new) {
                let seen = Seen { frame: u64::from(index) + 1, time: Time(0) };
                reads.add(&ReadRequest { seen, is_new, ..request(10 + index, memory(0x1000, 4), Some(1)) });
            }
            answer(&mut reads, Only, psn, 4);
            let now = Seen { frame: 9, time: Time(after) };
            assert_eq!(reads.excess(now), expected, "{new:?} {psn} {after}");
            if expected.is_some() {
                assert_eq!(reads.excess(now), None, "reported once");
            }
        }
    }

    /// A response that does not fit its request is no fault if it may answer another request.
    #[test]
    fn only_unambiguous_responses_are_faults() {
        let short = |reads: &mut Reads, psn: u32| {
            let packet = response(Only, psn, 3);
            let placement = reads.answer(&packet).unwrap();
            assert_eq!(placement.address, 0x1000, "it begins where its request does");
            reads.fault(&packet, &placement, 256).is_some()
        };
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 4), Some(1)));
        reads.add(&ReadRequest { is_new: false, ..request(11, memory(0x1000, 4), Some(1)) });
        reads.add(&request(12, memory(0x1000, 4), Some(1)));
        reads.add(&ReadRequest { is_new: false, ..request(12, memory(0x1000, 4), Some(1)) });
        assert_eq!([10, 11, 12].map(|psn| short(&mut reads, psn)), [true, false, false]);
    }

    #[test]
    fn repeated_and_late_responses_are_distinguished() {
        let mut answered = Answered::default();
        let mut repeated =
            |indexes: &[u32]| indexes.iter().map(|index| answered.note(*index)).collect::<Vec<_>>();
        assert_eq!(repeated(&[0, 1, 0, 1]), [false, false, true, true]);
        // 2 and 3 are missing. Each arrives late and is then repeated.
        assert_eq!(repeated(&[4, 1, 2, 2, 3, 3, 4, 5]), [false, true, false, true, false, true, true, false]);
        // Late responses in reverse order.
        assert_eq!(repeated(&[9, 8, 8, 6, 7, 7, 6]), [false, false, true, false, false, true, true]);
        // Two separate gaps.
        assert_eq!(
            repeated(&[11, 13, 11, 10, 10, 12, 11, 12]),
            [false, false, true, false, true, false, true, true]
        );
        let mut rest = Answered { end: 14, missing: (6, 9), between: 0b10 }.from(7);
        assert_eq!(rest, Answered { end: 7, missing: (0, 2), between: 0b1 });
        assert_eq!([0, 1, 1].map(|index| rest.note(index)), [true, false, true]);
        let mut rest = Answered { end: 14, missing: (6, 8), between: 0 }.from(7);
        assert_eq!(rest, Answered { end: 7, missing: (0, 1), between: 0 });
        assert_eq!([0, 0, 6, 7].map(|index| rest.note(index)), [false, true, true, false]);
    }

    /// The last missing response is noted even if it is more than 64 after the first one: the end
    /// of the missing range moves down.
    #[test]
    fn last_missing_response_is_tracked_beyond_64() {
        let mut answered = Answered::default();
        let repeated = [0, 101, 100, 100, 99, 99, 97, 97].map(|index| answered.note(index));
        assert_eq!(repeated, [false, false, false, true, false, true, false, false], "1 to 98 are missing");
    }

    proptest! {
        #[test]
        fn responses_within_64_are_tracked_exactly(indexes in proptest::collection::vec(0u32..64, 0..100), from in 0u32..64) {
            let mut answered = Answered::default();
            let mut seen = [false; 64];
            for index in indexes {
                prop_assert_eq!(answered.note(index), core::mem::replace(&mut seen[index as usize], true), "{}", index);
            }
            let rest = answered.from(from);
            for index in from..64 {
                prop_assert_eq!({ rest }.note(index - from), seen[index as usize], "{} from {}", index, from);
            }
        }

        /// A response is never reported as repeated when it was not.
        #[test]
        fn new_responses_are_never_reported_as_repeated(
            indexes in proptest::collection::vec(0u32..1000, 0..300),
        ) {
            let mut answered = Answered::default();
            let mut seen = [false; 1000];
            for index in indexes {
                let before = core::mem::replace(&mut seen[index as usize], true);
                let repeated = answered.note(index);
                prop_assert!(before || !repeated, "{}", index);
            }
        }
    }

    #[test]
    fn responses_to_a_repeated_request_are_repeated() {
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 1024), Some(4)));
        assert_eq!([10, 11, 11].map(|psn| repeated(&mut reads, psn)), [false, false, true].map(Some));
        // A request for the rest, from the second response on.
        let again =
            ReadRequest { repeated: true, is_new: false, ..request(11, memory(0x1100, 768), Some(3)) };
        reads.add(&again);
        assert_eq!([11, 12, 10].map(|psn| repeated(&mut reads, psn)), [true, false, true].map(Some));
        // Another request starts with no responses seen.
        reads.add(&request(14, memory(0x1000, 1024), Some(4)));
        assert_eq!(repeated(&mut reads, 14), Some(false));
        // Data that was requested again and arrived once is then repeated.
        assert_eq!(
            [13, 14, 12, 13].map(|psn| repeated(&mut reads, psn)),
            [false, true, true, true].map(Some)
        );
    }

    /// The rest of a READ arrives for the first time after it was requested again, and once more
    /// after another READ.
    #[test]
    fn rest_of_a_read_is_repeated_on_second_arrival() {
        let mut reads = Reads::default();
        reads.add(&request(10, memory(0x1000, 1024), Some(4)));
        assert_eq!(repeated(&mut reads, 10), Some(false));
        reads.add(&ReadRequest { is_new: false, ..request(11, memory(0x1100, 768), Some(3)) });
        assert_eq!([11, 12, 13].map(|psn| repeated(&mut reads, psn)), [Some(false); 3]);
        reads.add(&request(14, memory(0x9000, 256), Some(1)));
        assert_eq!(
            [14, 11, 12, 13].map(|psn| repeated(&mut reads, psn)),
            [false, true, true, true].map(Some)
        );
        // All of it is requested again, and then the rest.
        reads.add(&ReadRequest { is_new: false, ..request(10, memory(0x1000, 1024), Some(4)) });
        assert_eq!([10, 11, 12, 13].map(|psn| repeated(&mut reads, psn)), [Some(true); 4]);
        reads.add(&ReadRequest { is_new: false, ..request(12, memory(0x1200, 512), Some(2)) });
        assert_eq!([12, 13, 14].map(|psn| repeated(&mut reads, psn)), [Some(true); 3]);
    }

    #[test]
    fn remembered_requests_are_bounded() {
        let mut reads = Reads::default();
        for index in 0..10_000 {
            reads.add(&request(index, memory(u64::from(index), 1), Some(1)));
        }
        assert_eq!(reads.requests.len(), Reads::MOST);
        let taken = Reads::MOST * size_of::<Request>();
        assert!((taken..4 * taken).contains(&reads.buffered()));
        assert_eq!(Reads::default().buffered(), 0);
        assert_eq!(answer(&mut reads, Only, 9_999, 1), Some(9_999));
        assert_eq!(answer(&mut reads, Only, 0, 1), None);
    }
}
