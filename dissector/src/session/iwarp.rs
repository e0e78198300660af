//! Sessions over TCP: segments and start frames.

use super::{Session, TransportState, hand_up};
use crate::connection::{FlowKey, Origin, Start, State};
use crate::event::{Event, InStream, Report};
use crate::frame::{Checksum, Segment};
use crate::iwarp::{Contents, IwarpConnection, Started};
use crate::observation::{self, Announced, Closes, Closing, HandshakeStep, Meaning, Observed};
use crate::rdma::{End, Position};
use crate::record::Seen;
use crate::rpcrdma::Transactions;
use alloc::boxed::Box;
use rdmascope_wire::Qpn;
use rdmascope_wire::mpa::StartFrame;
use rdmascope_wire::rpcrdma::NFS_PORT;

/// The TCP handshake of a connection that began with a SYN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    /// The frame of the SYN.
    frame: u64,
    /// Its sequence number.
    sequence: u32,
    /// The last segment.
    step: HandshakeStep,
}

impl Session {
    /// Makes this a connection over TCP between these ports. `verify`: whether an FPDU with a wrong
    /// CRC is discarded; `gathers`: whether [`Event::Framed`] is reported.
    pub(crate) fn use_tcp(&mut self, ports: [u16; 2], verify: bool, gathers: bool) {
        self.transport = TransportState::Iwarp(Box::new(IwarpConnection::new(verify, gathers)));
        self.tcp_ports = Some(ports);
        self.peers.paired = true;
        self.peers.flows = End::BOTH.map(|end| {
            let [source, destination] = [end, end.other()].map(|end| self.ends[end].address);
            Some(FlowKey { source, destination, destination_qp: Qpn(ports[end.other()].into()) })
        });
        // The end with the well-known port accepted the connection.
        let listener = End::BOTH.into_iter().find(|end| ports[*end] == NFS_PORT);
        if let Some(listener) = listener.filter(|end| ports[end.other()] != NFS_PORT) {
            self.peers.requester = Some(listener.other());
            self.peers.speaks_rpc = Some(true);
            self.port = Some(NFS_PORT);
        }
    }

    /// Notes the SYN of end `client`, with which the connection begins.
    pub(crate) fn begin_with_syn(&mut self, client: End, seen: Seen, sequence: u32) {
        self.handshake = Some(Handshake { frame: seen.frame, sequence, step: HandshakeStep::Syn });
        self.state = State::Requested;
        self.origin = Origin::Cm;
        self.peers.requester = Some(client);
        self.port = self.tcp_ports.map(|ports| ports[client.other()]);
    }

    /// The sequence number of the SYN, and the last step of the handshake, if the connection began with
    /// a SYN and has no data yet.
    pub(crate) fn handshake(&self) -> Option<(u32, HandshakeStep)> {
        let handshake = self.handshake.filter(|_| self.ends.iter().all(|end| end.counts.packets == 0))?;
        Some((handshake.sequence, handshake.step))
    }

    /// Handles a segment of the TCP handshake.
    pub(crate) fn take_handshake(
        &mut self,
        from: End,
        seen: Seen,
        step: HandshakeStep,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        self.span.1 = self.span.1.max(seen.time);
        self.recent = true;
        let Some(handshake) = &mut self.handshake else { return };
        handshake.step = step;
        // A single SYN may have an answer that the capture lacks.
        let has_failed = step != HandshakeStep::Ack && seen.frame != handshake.frame;
        let client = if step == HandshakeStep::Reset { from.other() } else { from };
        self.ends[client].first_frames.cm_message = has_failed.then_some(handshake.frame);
        if step == HandshakeStep::Reset {
            self.state = State::Refused;
            self.ends[from].first_frames.reject = Some(seen.frame);
        }
        transactions.number(&mut self.peers);
        if transactions.observes() {
            self.peers.observe(Observed::Handshake(observation::Handshake { from, seen, step }), report);
        }
    }

    /// The FPDUs of a segment of end `side` that was not handled yet.
    pub(crate) fn contents(&self, side: End, seen: Seen, segment: &Segment<'_>) -> Option<Contents> {
        Some(self.transport.iwarp()?.contents(side, seen, segment))
    }

    /// Whether a segment of end `side` begins a new connection between the same ports, without a
    /// SYN in the capture.
    pub(crate) fn begins_new_connection(&self, side: End, segment: &Segment<'_>) -> bool {
        StartFrame::is_begun_by(segment.payload)
            && self.transport.iwarp().is_some_and(|iwarp| iwarp.begins_new_connection(side, segment))
    }

    /// Whether a SYN of end `side` is the one that opened this connection.
    pub(crate) fn was_opened_by(&self, side: End, syn: &Segment<'_>) -> bool {
        self.transport.iwarp().is_some_and(|iwarp| iwarp.was_opened_by(side, syn))
    }

    /// Whether a segment that another context shows continues the stream of end `side`.
    pub(crate) fn continues_stream(&self, side: End, segment: &Segment<'_>) -> bool {
        self.transport.iwarp().is_some_and(|iwarp| iwarp.continues(side, segment))
    }

    /// Handles a segment of end `side`, with the verdict on its checksum.
    pub(crate) fn handle_segment(
        &mut self,
        side: End,
        seen: Seen,
        segment: &Segment<'_>,
        checksum: Checksum,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        self.span.1 = self.span.1.max(seen.time);
        self.recent = true;
        self.note_half_flows(transactions);
        let counts = &mut self.ends[side].counts;
        counts.packets += 1;
        counts.bytes += u64::from(segment.payload_length);
        if checksum != Checksum::Bad {
            self.ends[side].first_frames.sound.get_or_insert(seen.frame);
        }
        if transactions.attributes() {
            let sequence = segment.sequence.wrapping_add(segment.syn.into());
            let acknowledged =
                segment.acknowledgement.map(|next| Position::of_sequence(next.wrapping_sub(1)));
            let payload = (Position::of_sequence(sequence), segment.payload_length);
            self.attribution.get_or_insert_default().take_segment(side, seen, payload, acknowledged);
        }
        let Session { peers, transport, ends, .. } = self;
        let Some(iwarp) = transport.iwarp_mut() else { return };
        let is_unseen = |number: u32| iwarp.acknowledges_unseen(side.other(), number);
        peers.unseen += u64::from(segment.acknowledgement.is_some_and(is_unseen));
        let had_started = iwarp.started(side).is_some();
        let had_ended = iwarp.has_ended(side);
        iwarp.handle(side, seen, segment, &mut |from, delivery| {
            hand_up(from, &delivery, ends, peers, transactions, report);
        });
        let ends = iwarp.has_ended(side) && !had_ended;
        if !had_started {
            self.note_start(side, seen, segment.acknowledgement, transactions, report);
        }
        self.note_used();
        if ends {
            transactions.number(&mut self.peers);
        }
        if ends && transactions.observes() {
            self.observe_end(side, seen, segment, report);
        }
        if segment.payload_length > 0 {
            self.note_sent(side, seen.time);
        }
        self.note_received(side.other(), seen.time);
        // Each segment acknowledges data of the other end, and may complete Sends that were
        // acknowledged before.
        let is_ack = || segment.payload_length == 0;
        self.note_acknowledged_of(side.other(), seen, is_ack, transactions);
        self.note_acknowledged_of(side, seen, || false, transactions);
        if self.ends.iter().any(|end| !end.early.is_empty()) {
            self.settle_early(Some(seen), transactions, report);
        }
        if transactions.attributes() {
            let frame = if transactions.is_late { 0 } else { seen.frame };
            self.attribute(frame, transactions, report);
        }
        self.report_framed(report);
    }

    /// Reports the FIN or RST of an end, and before it a FIN of the other end that it acknowledges but
    /// that the capture did not show.
    fn observe_end(&mut self, side: End, seen: Seen, segment: &Segment<'_>, report: &mut Report<'_>) {
        let how = if segment.rst { Closing::Reset } else { Closing::Fin };
        let end = Position::of_sequence(segment.sequence).plus(segment.payload_length);
        let expected = segment.acknowledgement.map(Position::of_sequence);
        let has_closed = self.transport.iwarp().is_some_and(|iwarp| iwarp.lacks_fin(side.other()));
        if let Some(number) = segment.acknowledgement.filter(|_| has_closed) {
            let numbers = Some((Position::of_sequence(number.wrapping_sub(1)), None));
            let closes = Closes { from: side.other(), seen, how: Closing::Fin, numbers };
            self.peers.observe(Observed::Closes(closes), report);
        }
        let closes = Closes { from: side, seen, how, numbers: Some((end, expected)) };
        self.peers.observe(Observed::Closes(closes), report);
    }

    /// Reports the pieces of the streams, if requested. Pieces seen before the connection has a
    /// number wait for it.
    pub(super) fn report_framed(&mut self, report: &mut Report<'_>) {
        let (Some(connection), Some(ports)) = (self.peers.number(), self.tcp_ports) else { return };
        let Some(iwarp) = self.transport.iwarp_mut() else { return };
        for (from, framed) in iwarp.take_framed() {
            let [source, destination] = [from, from.other()].map(|end| self.ends[end].address);
            report(Event::Framed(&InStream {
                connection,
                source,
                destination,
                ports: [from, from.other()].map(|end| ports[end]),
                speaks_rpc: self.peers.speaks_rpc == Some(true),
                framed: &framed,
            }));
        }
    }

    /// Handles the start frame of an end, if there is one. `expects` is the acknowledgement number
    /// of its segment.
    fn note_start(
        &mut self,
        side: End,
        seen: Seen,
        expects: Option<u32>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        let Some(started) = self.transport.iwarp().and_then(|iwarp| iwarp.started(side)) else { return };
        let (frame, is_cut) = (started.frame, started.data.len() < started.frame.private_data_length.into());
        let (_, data) = frame.private_data(&started.data);
        self.ends[side].note_private_data(data, is_cut);
        self.origin = Origin::Cm;
        let requester = if frame.is_request() { side } else { side.other() };
        // The port suggested the accepting end and the protocol. A start frame that contradicts it
        // refutes both.
        if self.peers.requester == Some(requester.other()) {
            self.peers.speaks_rpc = None;
        }
        self.peers.requester = Some(requester);
        self.port = self.tcp_ports.map(|ports| ports[requester.other()]);
        let speaks = self.port == Some(NFS_PORT) || self.ends[side].private_data.is_some();
        self.peers.speaks_rpc = self.peers.speaks_rpc.or(speaks.then_some(true));
        self.state = match (frame.is_request(), frame.rejected) {
            (true, _) => State::Requested,
            (false, false) => State::Open,
            (false, true) => {
                self.ends[side].first_frames.reject.get_or_insert(seen.frame);
                State::Refused
            }
        };
        self.ends[side].first_frames.cm_message.get_or_insert(seen.frame);
        transactions.number(&mut self.peers);
        if transactions.observes() {
            let started = self.transport.iwarp().and_then(|iwarp| iwarp.started(side));
            if let Some(announced) = started.map(|started| announced(side, started, expects)) {
                self.peers.observe(Observed::Announced(&announced), report);
            }
        }
        if transactions.is_judged() {
            let connection = self.summary();
            self.peers.observe(Observed::Established(&connection), report);
        }
    }

    /// The start frame that an end sent.
    pub(super) fn start(&self, side: End) -> Option<Start> {
        let started = self.transport.iwarp()?.started(side)?;
        let (depths, _) = started.frame.private_data(&started.data);
        Some(Start { frame_number: started.seen.frame, frame: started.frame, depths })
    }

    /// Notes that the connection is over. A rejected or unanswered connection keeps that state.
    pub(crate) fn close_over_tcp(&mut self) {
        self.over = true;
        if self.state == State::Open {
            self.state = State::Closed;
        }
    }

    /// Opens a requested connection that has Sends. No data is sent before the MPA reply (RFC 5044,
    /// section 7.1), so the capture lacks the reply.
    pub(super) fn note_used(&mut self) {
        let is_used = || self.ends.iter().any(|end| end.counts.sends > 0);
        if self.state == State::Requested && self.tcp_ports.is_some() && is_used() {
            self.state = if self.over { State::Closed } else { State::Open };
        }
    }

    /// Whether both ends closed their streams, as far as the capture shows.
    pub(crate) fn is_finished(&self) -> bool {
        self.transport.iwarp().is_some_and(IwarpConnection::is_finished)
    }
}

/// The observation of a start frame.
fn announced(from: End, started: &Started, expects: Option<u32>) -> Announced<'_> {
    let Started { seen, frame, data, .. } = started;
    let (name, meaning) = match (frame.is_request(), frame.rejected) {
        (true, _) => ("MPA Request", Meaning::Asks),
        (false, false) => ("MPA Reply", Meaning::Accepts),
        (false, true) => ("MPA Reply", Meaning::Rejects(None)),
    };
    let (_, private_data) = frame.private_data(data);
    let is_cut = data.len() < frame.private_data_length.into();
    let expects = expects.map(Position::of_sequence);
    let position = Some(Position::of_sequence(started.begins()));
    Announced { from, seen: *seen, name, meaning, private_data, is_cut, position, expects }
}
