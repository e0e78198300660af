//! TCP segments: their iWARP connections, and how these begin and end.

use super::newcomers::{self, Held};
use super::{EndRef, Stage};
use crate::frame::{Address, Checksum, Segment};
use crate::iwarp::begins_with_fpdu;
use crate::rdma::End;
use crate::record::{Seen, Time};
use rdmascope_wire::mpa::StartFrame;

/// One direction of a TCP connection: source, its port, destination, its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TcpFlow(pub(super) Address, pub(super) u16, pub(super) Address, pub(super) u16);

impl TcpFlow {
    pub(super) fn new(addresses: [Address; 2], ports: [u16; 2]) -> TcpFlow {
        TcpFlow(addresses[0], ports[0], addresses[1], ports[1])
    }

    /// The flow of a segment.
    pub(crate) fn of(segment: &Segment<'_>) -> TcpFlow {
        TcpFlow::new([segment.source, segment.destination], segment.ports)
    }

    /// The opposite direction.
    pub(super) fn reversed(self) -> TcpFlow {
        TcpFlow(self.2, self.3, self.0, self.1)
    }
}

impl Stage<'_> {
    /// Handles a segment of an iWARP connection. Returns the end that sent it (`None` if the record
    /// is [held](super::newcomers)) and the verdict on its checksum, or `None` if it belongs to no
    /// iWARP connection. `any_sound`: a correct checksum has been seen, so wrong ones are
    /// meaningful.
    pub(super) fn handle_segment(
        &mut self,
        segment: &Segment<'_>,
        seen: Seen,
        any_sound: bool,
    ) -> Option<(Option<EndRef>, Checksum)> {
        let flow = TcpFlow::of(segment);
        self.context = segment.context;
        let found = self.sessions.find_segment(&flow, segment);
        let found = found.or_else(|| {
            let is_released = self.release(|| newcomers::tcp(flow));
            if is_released { self.sessions.find_segment(&flow, segment) } else { None }
        });
        let place = match found {
            Some(place) if !begins(segment) && self.sessions.session(place.session).handshake().is_some() => {
                self.continue_handshake(place, flow, segment, seen);
                return None;
            }
            Some(place) if segment.is_request() => {
                // The ports are reused, unless it is a copy.
                if !self.sessions.session(place.session).was_opened_by(place.end, segment) {
                    self.end_iwarp(place);
                    self.handshake(flow, segment, seen);
                }
                return None;
            }
            Some(place) if self.sessions.session(place.session).begins_new_connection(place.end, segment) => {
                self.end_iwarp(place);
                self.begin_iwarp(flow, segment, seen)?
            }
            Some(place) => place,
            None if !begins(segment) => {
                self.handshake(flow, segment, seen);
                return None;
            }
            None if self.holds_newcomers() => {
                self.hold(|record, dropped| Held::segment(record, dropped, flow, any_sound));
                return Some((None, self.checksum(segment)));
            }
            None => self.begin_iwarp(flow, segment, seen)?,
        };
        let checksum = self.checksum(segment);
        // A receiver drops a segment with a wrong checksum.
        if checksum == Checksum::Bad && any_sound {
            let session = self.sessions.session(place.session);
            let damaged = (seen, segment.payload_length > 0);
            session.count_bad_icrc(place.end, damaged, self.transactions, self.report);
            return Some((Some(place), checksum));
        }
        let session = self.sessions.session(place.session);
        session.note_dropped(self.transactions, self.report);
        let was_over = session.is_finished();
        session.handle_segment(place.end, seen, segment, checksum, self.transactions, self.report);
        if session.is_finished() && !was_over {
            self.sessions.close(place.session, self.transactions, self.report);
        }
        self.settle(place.session);
        Some((Some(place), checksum))
    }

    fn checksum(&self, segment: &Segment<'_>) -> Checksum {
        if self.config.frame.verify_icrc { segment.checksum() } else { Checksum::Unverifiable }
    }

    pub(super) fn end_iwarp(&mut self, place: EndRef) {
        self.sessions.session(place.session).close_over_tcp();
        self.sessions.end(place.session, self.transactions, self.report);
    }

    /// Begins a connection with a start frame, or with an FPDU if the capture begins in the middle.
    fn begin_iwarp(&mut self, flow: TcpFlow, segment: &Segment<'_>, seen: Seen) -> Option<EndRef> {
        if !begins(segment) {
            return None;
        }
        if segment.payload.starts_with(&StartFrame::REQUEST) {
            self.sessions.handshakes.listens(segment.destination, segment.ports[1]);
        }
        Some(self.add_iwarp(flow, segment.context, seen.time))
    }

    /// Adds a connection whose first end sends this flow.
    pub(super) fn add_iwarp(&mut self, flow: TcpFlow, context: u32, now: Time) -> EndRef {
        for flow in [flow, flow.reversed()] {
            self.sessions.handshakes.remove(flow, context);
        }
        let TcpFlow(source, port, destination, other_port) = flow;
        let session = self.sessions.add([source, destination], now, self.transactions, self.report);
        self.sessions.session(session).use_tcp(
            [port, other_port],
            self.config.frame.verify_icrc,
            self.config.report_framed,
        );
        let place = EndRef { session, end: End::First };
        self.sessions.note_context(place, context);
        self.sessions.claim_tcp(flow, place);
        place
    }
}

/// Whether an iWARP connection, or the captured part of it, begins with this segment.
fn begins(segment: &Segment<'_>) -> bool {
    StartFrame::is_begun_by(segment.payload)
        || begins_with_fpdu(segment.payload, segment.payload_length)
            && segment.traffic().is_none_or(|it| it.is_iwarp())
}
