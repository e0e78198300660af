//! The engine, which connects the stages.

mod clock;
mod cm;
mod contexts;
mod copies;
mod ends;
mod handshakes;
mod iwarp;
mod known;
mod newcomers;
mod sessions;
mod state;
mod steps;

use crate::connection::{FlowKey, KnownConnection};
use crate::event::{Event, Packet, Report};
use crate::exchange::Keep;
use crate::frame::{self, Carrier, Checksum, Frame, IcrcVerdict, Other, Segment};
use crate::iwarp::Contents;
use crate::observation::Observe;
use crate::protocol::{Traffic, TrafficCounts};
use crate::rc;
use crate::rdma::End;
use crate::record::{Record, Time};
use crate::rpcrdma::Transactions;
use crate::transaction::Seen;
use crate::transport::{Dissected, Transport};
pub(crate) use copies::{Copies, Sighting};
use ends::EndRef;
pub(crate) use iwarp::TcpFlow;
use known::KnownConnections;
use newcomers::Newcomers;
use rdmascope_wire::bth::{Bth, Opcode, Transport as Service};
use sessions::Sessions;
use steps::{Clock, Step};

/// The configuration of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// The dissection of frames.
    pub frame: frame::Config,
    /// Whether every record is reported as [`Event::Packet`].
    pub report_packets: bool,
    /// The details to keep of each transaction.
    pub keep: Keep,
    /// The level of observations to report as [`Event::Observation`].
    pub observe: Observe,
    /// Whether to report the role of each packet as [`Event::Attributed`]. This also keeps
    /// [`Keep::steps`].
    pub attribute: bool,
    /// Whether to report the pieces of iWARP streams as [`Event::Framed`].
    pub report_framed: bool,
    /// The maximum time in nanoseconds between two [taps](crate::record::Tap) of the same packet,
    /// if capture points are joined that are this far apart. `None`: 2 ms, as within a host or a
    /// switch.
    pub capture_points_apart: Option<u64>,
    /// The number of connections from which on a new connection needs two records: the first one is
    /// held until the second one concerns it. `None`: 512.
    pub crowd: Option<u32>,
}

impl Config {
    /// This configuration, extended by the reports and contents that `other` requests.
    pub fn and(self, other: Config) -> Config {
        Config {
            report_packets: self.report_packets || other.report_packets,
            keep: Keep {
                steps: self.keep.steps || other.keep.steps,
                contents: self.keep.contents || other.keep.contents,
            },
            observe: self.observe.max(other.observe),
            attribute: self.attribute || other.attribute,
            report_framed: self.report_framed || other.report_framed,
            ..self
        }
    }
}

/// Counts of the engine over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records handled.
    pub records: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// The earliest and the latest time stamp.
    pub span: Option<(Time, Time)>,
    /// Records with an InfiniBand transport packet.
    pub packets: u64,
    /// Native InfiniBand packets, which `packets` includes; the others are RoCE.
    pub native_packets: u64,
    /// Records with a TCP segment of an iWARP connection.
    pub segments: u64,
    /// Segments whose checksum is correct or left to an adapter. If there are any, wrong checksums
    /// are meaningful.
    pub sound_segments: u64,
    /// Packets and segments that are copies. They are not processed further, so they do not count
    /// for messages, transactions or connections.
    pub copies: u64,
    /// The record that shows that the clocks of files which were captured at the same time differ: by
    /// then, most copies in another file came more than 2 ms late.
    pub clocks_differ: Option<u64>,
    /// Records with other traffic.
    pub others: u64,
    /// Records with other traffic, by its kind.
    pub traffic: TrafficCounts,
    /// Records with an unsupported link type.
    pub unknown_link: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Records that end before their transport headers do.
    pub stops: u64,
    /// Records cut by a snap length.
    pub cut_records: u64,
    /// RDMA Writes and RDMA Read responses that are complete except for their payload, which was
    /// omitted: see [`crate::bulk`].
    pub records_without_payload: u64,
    /// ICRCs: correct, wrong, unverifiable.
    pub icrc: [u64; 3],
    /// Congestion notification packets.
    pub congestion_notifications: u64,
    /// Packets of transports other than RC, except CM messages.
    pub other_transports: u64,
    /// CM messages.
    pub cm_messages: u64,
    /// Connections that have a [number](crate::connection::ConnectionId).
    pub connections: u64,
    /// Transactions reported, by outcome in the order of [`crate::transaction::Outcome`].
    pub transactions: [u64; 5],
    /// Entries evicted from full tables.
    pub evictions: u64,
    /// Records without a time stamp: their time is the beginning of 1970.
    pub untimed_records: u64,
    /// Times that the clock stepped back.
    pub clock_steps: u64,
    /// The first record after such a step.
    pub first_clock_step: Option<u64>,
    /// Connections reported with [`Engine::know`].
    pub known_connections: u64,
    /// Reported connections that packets contradicted, and that were therefore ignored.
    pub contradicted_connections: u64,
    /// The first packet that contradicted a report.
    pub first_contradiction: Option<u64>,
}

/// The use of a record's payload. Events are the same without a payload that is not needed, unless
/// [contents](Keep::contents) are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// None. All of it moves between memories as plain data, or belongs to a protocol other than
    /// RPC-over-RDMA: its length is enough.
    Nothing,
    /// It is part of a message, or its use is unknown so far; or the record has no payload.
    Something,
    /// The record is a copy of this earlier record, so the need is the same.
    OfCopy(u64),
}

/// Turns records into events.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    config: Config,
    totals: Totals,
    clock: Clock,
    copies: Copies,
    known: KnownConnections,
    sessions: Sessions,
    newcomers: Newcomers,
    transactions: Transactions,
}

impl Engine {
    /// Creates an engine without state.
    pub fn new(config: Config) -> Engine {
        Engine {
            config,
            transactions: Transactions::new(config.keep, config.observe, config.attribute),
            copies: Copies::new(config.capture_points_apart),
            ..Engine::default()
        }
    }

    /// Adds a connection that a host's kernel reported before the next record.
    pub fn know(&mut self, connection: KnownConnection) {
        self.known.add(connection);
        self.totals.known_connections = self.known.hint;
    }

    /// Handles the next record of the capture and reports the events that it causes.
    pub fn handle(&mut self, record: &Record<'_>, report: &mut Report<'_>) {
        let dissected = Dissected::new(record, &self.config.frame);
        self.handle_dissected(record, &dissected, report);
    }

    /// Handles a record that was already dissected with the configuration of this engine. Returns
    /// the use of its payload.
    pub fn handle_dissected(
        &mut self,
        record: &Record<'_>,
        dissected: &Dissected<'_>,
        report: &mut Report<'_>,
    ) -> Need {
        let Dissected { frame, transport } = dissected;
        let Engine { config, totals, clock, copies, known, sessions, newcomers, transactions } = self;
        totals.count_record(record, dissected);
        transactions.now = record.time;
        totals.untimed_records += u64::from(record.time == Time(0));
        if let Some(step) = clock.take(record.time) {
            transactions.clock_steps += 1;
            if step == Step::Back {
                totals.clock_steps += 1;
                totals.first_clock_step.get_or_insert(record.number);
                report(Event::ClockStep(Seen { frame: record.number, time: record.time }));
            }
        }
        let segment = if let Err(Other::Tcp(segment)) = frame { Some(segment) } else { None };
        transactions.dropped += u64::from(record.dropped);
        let seen = Seen { frame: record.number, time: record.time };
        let followed = segment
            .and_then(|segment| Some((segment, sessions.find_tcp(&TcpFlow::of(segment), segment.context)?)));
        // A held segment is followed too, but has no connection yet.
        let is_followed = followed.is_some()
            || segment.is_some_and(|segment| newcomers.has_segment_of(TcpFlow::of(segment)));
        let contents = followed
            .filter(|_| config.report_packets)
            .and_then(|(segment, place)| sessions.session(place.session).contents(place.end, seen, segment));
        let copy_of = match (frame, transport) {
            (Ok(frame), Some(Ok(transport))) => {
                copies.note(Sighting::new(frame, &transport.bth, seen, record.tap()))
            }
            _ => segment
                .filter(|_| is_followed)
                .and_then(|segment| copies.note(Sighting::of_segment(segment, seen, record.tap()))),
        };
        totals.copies += u64::from(copy_of.is_some());
        if copies.show_different_clocks() && totals.clocks_differ.is_none() {
            totals.clocks_differ = Some(record.number);
            report(Event::ClocksDiffer(seen));
        }
        let mut place = None;
        if let (Ok(frame), Some(Ok(transport)), Some(first)) = (frame, transport, copy_of) {
            place = sessions.find_copied(&flow(frame, transport), first, frame.context);
        } else if let (Ok(frame), Some(Ok(transport))) = (frame, transport) {
            let message = transport.cm_message();
            totals.count_packet(transport, message.is_some());
            // A receiver drops packets with a bad ICRC. If no packet has a good one, the capture
            // was made before ICRCs were computed, and they are meaningless.
            let dropped = frame.icrc == IcrcVerdict::Bad && totals.icrc[0] > 0;
            let mut counting = |event: Event<'_>| {
                totals.count(&event);
                report(event);
            };
            let record = Some(record);
            let mut stage = Stage {
                config,
                record,
                context: 0,
                known,
                sessions,
                newcomers,
                transactions,
                report: &mut counting,
            };
            place = match message {
                Some(_) if dropped => None,
                Some(message) => cm::handle(&mut stage, frame, (&message, transport.payload), seen),
                None => stage.handle(frame, transport, seen, dropped),
            };
            totals.connections = sessions.count(transactions.numbered());
            totals.contradicted_connections = known.contradicted;
            totals.first_contradiction = known.first_contradiction;
        }
        if let (Some(segment), Some(first)) = (segment, copy_of) {
            place = sessions.find_copied_segment(&TcpFlow::of(segment), first, segment.context);
            totals.segments += 1;
        } else if let Some(segment) = segment {
            // As with ICRCs: if no checksum is correct or left to an adapter, they are meaningless.
            let any_sound = totals.sound_segments > 0;
            let mut counting = |event: Event<'_>| {
                totals.count(&event);
                report(event);
            };
            let mut stage = Stage {
                config,
                record: Some(record),
                context: 0,
                known,
                sessions,
                newcomers,
                transactions,
                report: &mut counting,
            };
            let found = stage.handle_segment(segment, seen, any_sound);
            place = found.and_then(|(place, _)| place);
            totals.count_segment(segment, found.map(|(_, checksum)| checksum));
            if found.is_some() && !is_followed {
                // It is the first segment of its connection.
                copies.note(Sighting::of_segment(segment, seen, record.tap()));
            }
            totals.connections = sessions.count(transactions.numbered());
        }
        if let Some(segment) = segment.filter(|_| record.data.len() < record.original_length as usize) {
            // The first copy has already shown which bytes moved.
            let lacks_data = segment.lacks_data(copy_of.is_none().then(|| transactions.bulk_of(seen.frame)));
            totals.records_without_payload += u64::from(lacks_data);
            totals.cut_records += u64::from(!lacks_data);
        }
        let is_snooped = place.is_some_and(|place| sessions.session(place.session).peers.is_snooped);
        // The ICRC of a composed frame has no meaning.
        if let (Ok(frame), false) = (frame, is_snooped) {
            totals.count_icrc(frame.icrc);
        }
        if let Some(place) = place {
            sessions.session(place.session).files.add(record.tap.file);
        }
        if config.report_packets {
            let session = place.map(|place| &sessions.session(place.session).peers);
            let speaks_rpc = session.is_some_and(|peers| peers.speaks_rpc == Some(true));
            let headers =
                transport.map(|transport| transport.and_then(|transport| transport.headers(speaks_rpc)));
            let of_connection = session.is_some() || newcomers.holds(record.number);
            let connection = session.and_then(|peers| peers.number());
            let (record, frame) = (*record, *frame);
            // The first segment of a connection has no earlier state.
            let first = Contents::default();
            let contents =
                contents.as_ref().or_else(|| (of_connection && segment.is_some()).then_some(&first));
            report(Event::Packet(&Packet {
                record,
                frame,
                headers,
                of_connection,
                connection,
                copy_of: copy_of.map(|first| first.seen),
                speaks_rpc,
                contents,
            }));
        }
        let payload = transport.and_then(Result::ok).map_or(0, |transport| transport.payload_length);
        match copy_of {
            Some(first) => Need::OfCopy(first.seen.frame),
            None if payload > 0 && self.transactions.bulk_of(seen.frame) == payload => Need::Nothing,
            None => Need::Something,
        }
    }

    /// Whether a segment belongs to a known iWARP connection.
    pub(crate) fn follows(&self, segment: &Segment<'_>) -> bool {
        self.sessions.find_tcp(&TcpFlow::of(segment), segment.context).is_some()
    }

    /// The FPDUs in a segment of a known iWARP connection that was not handled yet.
    pub(crate) fn contents(&self, record: &Record<'_>, segment: &Segment<'_>) -> Option<Contents> {
        let place = self.sessions.find_tcp(&TcpFlow::of(segment), segment.context)?;
        let seen = Seen { frame: record.number, time: record.time };
        self.sessions.get(place.session)?.contents(place.end, seen, segment)
    }

    /// The number of bytes that the last record moved and whose contents are not needed.
    pub(crate) fn bulk_of(&self, frame: u64) -> u32 {
        self.transactions.bulk_of(frame)
    }

    /// Ends the capture: reports open transactions and connections.
    pub fn finish(&mut self, report: &mut Report<'_>) {
        let over = self.clock.latest();
        self.between_records(report, |stage| {
            while let Some(held) = stage.newcomers.take_oldest() {
                stage.end_held(&held, false);
            }
            stage.sessions.end_all(over, stage.transactions, stage.report);
        });
        debug_assert_eq!(self.transactions.open(), 0, "an open transaction belongs to a connection");
    }

    /// Evicts an eighth of the held records, or else an eighth of the connections: first the oldest
    /// of those with few packets. Each is reported as [`Eviction::Connection`]. Returns whether
    /// there were any. It serves callers that bound [`Engine::footprint`].
    ///
    /// [`Eviction::Connection`]: crate::event::Eviction::Connection
    pub fn give_up_some(&mut self, report: &mut Report<'_>) -> bool {
        self.between_records(report, |stage| stage.evict_some())
    }

    /// Does work that no record causes, and counts its events.
    fn between_records<R>(&mut self, report: &mut Report<'_>, work: impl FnOnce(&mut Stage<'_>) -> R) -> R {
        let Engine { config, totals, known, sessions, newcomers, transactions, .. } = self;
        let report = &mut |event: Event<'_>| {
            totals.count(&event);
            report(event);
        };
        let result = work(&mut Stage {
            config,
            record: None,
            context: 0,
            known,
            sessions,
            newcomers,
            transactions,
            report,
        });
        totals.connections = sessions.count(transactions.numbered());
        result
    }

    /// The counts so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

/// The half-flow of a packet.
#[inline]
fn flow(frame: &Frame<'_>, transport: &Transport<'_>) -> FlowKey {
    let Frame { source, destination, .. } = *frame;
    FlowKey { source, destination, destination_qp: transport.bth.destination_qp }
}

/// The context in which a packet is handled.
struct Stage<'a> {
    config: &'a Config,
    /// The current record.
    record: Option<&'a Record<'a>>,
    /// The [context](Frame::context) of the packet that is handled.
    context: u32,
    known: &'a mut KnownConnections,
    sessions: &'a mut Sessions,
    newcomers: &'a mut Newcomers,
    transactions: &'a mut Transactions,
    report: &'a mut Report<'a>,
}

impl Stage<'_> {
    /// Handles a packet other than a CM message and returns the end that sent it.
    #[inline]
    fn handle(
        &mut self,
        frame: &Frame<'_>,
        transport: &Transport<'_>,
        seen: Seen,
        dropped: bool,
    ) -> Option<EndRef> {
        let Bth { opcode, psn, .. } = transport.bth;
        let key = flow(frame, transport);
        let (Service::ReliableConnection, Some(operation)) = (opcode.transport(), opcode.operation()) else {
            self.note_opcode(frame, transport, &key, seen);
            return None;
        };
        let packet = rc::Packet {
            seen,
            operation,
            psn,
            extension: rc::Extension::parse(opcode, transport.extensions),
            payload: transport.payload,
            payload_length: transport.payload_length,
        };
        self.context = frame.context;
        let found = match self.sessions.find(&key, frame.context) {
            Some(place) if self.sessions.begins_in(place, frame.context) => Some(place),
            _ => self.sessions.find_in(&key, frame.context, &packet),
        };
        let mut place = match found {
            Some(place) => place,
            None if dropped => return None,
            None => self.admit(key, &packet)?,
        };
        let mut session = self.sessions.session(place.session);
        if session.hint.is_some() && place.end == End::Second && !dropped {
            place = self.confirm(place, key, &packet);
            session = self.sessions.session(place.session);
        }
        if transport.bth.fecn || transport.bth.becn || frame.ecn() == 3 {
            session.count_congestion(place.end);
        }
        if dropped {
            let damaged = (seen, !operation.is_response());
            session.count_bad_icrc(place.end, damaged, self.transactions, self.report);
            return Some(place);
        }
        if frame.icrc != IcrcVerdict::Bad {
            session.ends[place.end].first_frames.sound.get_or_insert(seen.frame);
        }
        if !session.peers.paired {
            place = self.pair(place, key, &packet);
        }
        let session = self.sessions.session(place.session);
        session.note_dropped(self.transactions, self.report);
        if self.transactions.is_judged() || session.peers.number().is_none() {
            session.inspect(place.end, &transport.bth, &packet, self.transactions, self.report);
        }
        session.handle(place.end, &packet, self.transactions, self.report);
        if session.peers.number().is_none() {
            self.sessions.number_at_last(place, &key, self.transactions);
        }
        self.settle(place.session);
        Some(place)
    }
}

impl Stage<'_> {
    /// Reports a packet of a reliable connection whose opcode no operation of RPC-over-RDMA has. Its
    /// ICRC must show that it is a packet.
    #[cold]
    fn note_opcode(&mut self, frame: &Frame<'_>, transport: &Transport<'_>, key: &FlowKey, seen: Seen) {
        let Bth { opcode, psn, .. } = transport.bth;
        if opcode.transport() == Service::ReliableConnection
            && frame.icrc == IcrcVerdict::Good
            && self.transactions.is_judged()
            && let Some(place) = self.sessions.find_flow(key, frame.context)
        {
            self.sessions.session(place.session).note_opcode(place.end, opcode, psn, seen, self.report);
        }
    }

    /// Pairs the half-flow with the one that its packet answers. Returns its new place.
    fn pair(&mut self, place: EndRef, key: FlowKey, packet: &rc::Packet<'_>) -> EndRef {
        let place = if self.release_answered(&key, packet) {
            let found = self.sessions.find_in(&key, self.context, packet);
            found.unwrap_or_else(|| self.begin(key, packet))
        } else {
            place
        };
        let paired = self.sessions.pair(place, &key, packet, self.transactions, self.report);
        let Some((joined, contradicts)) = paired else { return place };
        if contradicts {
            self.known.contradict(packet.seen.frame);
        }
        joined
    }

    /// Begins a connection with the first packet of a half-flow. If the kernel reported the
    /// connection, the other half-flow is known too.
    #[cold]
    fn begin(&mut self, key: FlowKey, packet: &rc::Packet<'_>) -> EndRef {
        let (addresses, now) = ([key.source, key.destination], packet.seen.time);
        let session = self.sessions.add(addresses, now, self.transactions, self.report);
        let place = EndRef { session, end: End::First };
        self.sessions.note_context(place, self.context);
        self.sessions.claim(key, place, self.transactions, self.report);
        if let Some(hint) = self.known.take(&key) {
            if hint.fits(packet) && self.sessions.adopt_hint(session, hint, self.transactions, self.report) {
                self.release(|| newcomers::flow(&hint.other().flow()));
            } else {
                self.known.contradict(packet.seen.frame);
            }
        }
        place
    }

    /// Handles the first packet of the second half-flow of a reported connection. If it does not
    /// fit the report, it begins a half-flow of its own.
    #[cold]
    fn confirm(&mut self, place: EndRef, key: FlowKey, packet: &rc::Packet<'_>) -> EndRef {
        let hint = self.sessions.session(place.session).hint.map(|hint| hint.other());
        if hint.is_some_and(|hint| hint.fits(packet)) {
            self.sessions.confirm_hint(place.session);
            return place;
        }
        self.known.contradict(packet.seen.frame);
        self.sessions.withdraw_hint(place.session);
        self.begin(key, packet)
    }

    /// Enforces the bounds after a connection has changed.
    #[inline]
    fn settle(&mut self, session: u32) {
        self.sessions.settle(session, self.transactions, self.report);
        while let Some((index, slot)) = self.transactions.overdue() {
            self.transactions.evict(slot, &mut self.sessions.session(index).peers, self.report);
        }
    }
}

impl Totals {
    fn count_record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) {
        self.records += 1;
        self.bytes += u64::from(record.wire_length());
        let (first, last) = self.span.unwrap_or((record.time, record.time));
        self.span = Some((first.min(record.time), last.max(record.time)));
        if record.data.len() < record.original_length as usize
            && !matches!(dissected.frame, Err(Other::Tcp(_)))
        {
            let lacks_payload = dissected.transport.is_some_and(|it| it.is_ok_and(|it| it.lacks_payload()));
            self.records_without_payload += u64::from(lacks_payload);
            self.cut_records += u64::from(!lacks_payload);
        }
        match &dissected.frame {
            Ok(frame) => {
                self.packets += 1;
                self.native_packets += u64::from(frame.carrier == Carrier::InfiniBand);
            }
            Err(Other::Traffic(traffic)) => self.count_other(*traffic),
            // Counted in `count_segment`, once its connection is known.
            Err(Other::Tcp(_)) => {}
            Err(Other::UnknownLinkType) => self.unknown_link += 1,
            Err(Other::Fragment) => self.fragments += 1,
            Err(Other::Stop(_)) => self.stops += 1,
        }
    }

    fn count_icrc(&mut self, verdict: IcrcVerdict) {
        self.icrc[match verdict {
            IcrcVerdict::Good => 0,
            IcrcVerdict::Bad => 1,
            IcrcVerdict::Unverifiable => 2,
        }] += 1;
    }

    /// Counts a TCP segment: of an iWARP connection, with the verdict on its checksum, or of other
    /// traffic.
    fn count_segment(&mut self, segment: &Segment<'_>, checksum: Option<Checksum>) {
        if let Some(checksum) = checksum {
            self.segments += 1;
            self.sound_segments += u64::from(checksum.is_sound());
            return;
        }
        self.count_other(Traffic::of_tcp(segment.ports, segment.payload));
    }

    fn count_other(&mut self, traffic: Traffic) {
        self.others += 1;
        self.traffic.add(traffic, 1);
    }

    fn count_packet(&mut self, transport: &Transport<'_>, is_cm_message: bool) {
        match transport.bth.opcode.transport() {
            Service::ReliableConnection => {}
            _ if is_cm_message => self.cm_messages += 1,
            _ if transport.bth.opcode == Opcode::CNP => self.congestion_notifications += 1,
            _ => self.other_transports += 1,
        }
    }

    fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => self.transactions[transaction.outcome as usize] += 1,
            Event::Eviction(_) => self.evictions += 1,
            Event::Packet(_)
            | Event::ClockStep(_)
            | Event::ClocksDiffer(_)
            | Event::Connection(_)
            | Event::Observation(_)
            | Event::Attributed(_)
            | Event::Framed(_) => {}
        }
    }
}
