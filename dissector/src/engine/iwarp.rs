//! TCP segments: which of them are of iWARP connections, and how these begin and end.

use super::{EndRef, Stage};
use crate::connection::State;
use crate::event::Event;
use crate::frame::{Address, Checksum, Segment};
use crate::iwarp::is_fpdu;
use crate::rdma::End;
use crate::transaction::Seen;
use rdmascope_wire::mpa::StartFrame;

/// What one end of a TCP connection sends: source, its port, destination, its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TcpFlow(Address, u16, Address, u16);

impl TcpFlow {
    pub(super) fn new(addresses: [Address; 2], ports: [u16; 2]) -> TcpFlow {
        TcpFlow(addresses[0], ports[0], addresses[1], ports[1])
    }

    /// What a segment is of.
    pub(super) fn of(segment: &Segment<'_>) -> TcpFlow {
        TcpFlow::new([segment.source, segment.destination], segment.ports)
    }

    /// What the other end sends.
    pub(super) fn reversed(self) -> TcpFlow {
        TcpFlow(self.2, self.3, self.0, self.1)
    }
}

impl<F: FnMut(Event<'_>)> Stage<'_, F> {
    /// Hands a segment to the iWARP connection that it belongs to; returns the end that sent it, and
    /// the verdict on its checksum. `None` where it is of no such connection.
    /// `any_sound`: checksums say something, because one was right.
    pub(super) fn handle_segment(
        &mut self,
        segment: &Segment<'_>,
        seen: Seen,
        any_sound: bool,
    ) -> Option<(EndRef, Checksum)> {
        let flow = TcpFlow::of(segment);
        let place = match self.sessions.find_tcp(&flow) {
            // The ports are used again.
            Some(place) if segment.syn && segment.acknowledgement.is_none() => {
                self.sessions.session(place.session).state = State::Closed;
                self.sessions.end(place.session, self.transactions, self.report);
                return None;
            }
            Some(place) => place,
            None => self.begin_iwarp(flow, segment, seen)?,
        };
        let checksum = segment.checksum();
        // A receiver drops what has a wrong one.
        if checksum == Checksum::Bad && any_sound {
            let session = self.sessions.session(place.session);
            session.count_bad_icrc(place.end, seen, self.transactions, self.report);
            return Some((place, checksum));
        }
        let session = self.sessions.session(place.session);
        session.note_dropped(self.transactions, self.report);
        let was_over = session.is_finished();
        session.handle_segment(place.end, seen, segment, self.transactions, self.report);
        if session.is_finished() && !was_over {
            self.sessions.close(place.session, self.transactions, self.report);
        }
        self.settle(place.session);
        Some((place, checksum))
    }

    /// Begins a connection with a start frame; or, where the capture begins in the middle of one, with an FPDU.
    fn begin_iwarp(&mut self, flow: TcpFlow, segment: &Segment<'_>, seen: Seen) -> Option<EndRef> {
        let begins = StartFrame::is_begun_by(segment.payload)
            || is_fpdu(segment.payload, segment.payload_length)
                && segment.traffic().is_none_or(|it| it.is_iwarp());
        if !begins {
            return None;
        }
        let addresses = [segment.source, segment.destination];
        let session = self.sessions.add(addresses, seen.time, self.transactions, self.report);
        self.sessions.session(session).use_tcp(segment.ports);
        let place = EndRef { session, end: End::First };
        self.sessions.claim_tcp(flow, place);
        Some(place)
    }
}
