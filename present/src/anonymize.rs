//! Anonymized captures: addresses, names and uids are replaced under a key, data are removed, and
//! the findings stay the same.
//!
//! Bytes that are not understood are not written. A payload starts as zeros and receives only bytes
//! of known meaning: numbers unchanged, uids and names replaced. This takes two passes. The first
//! splits the messages of each transaction into values (`message`) and stores the permitted bytes
//! of its Sends and chunks; the second looks up which of these bytes each packet carries. Headers
//! are changed in place (`headers`), as are CM messages (`cm`); checksums and ICRCs are recomputed.
//! Values are replaced by a keyed permutation (`key`, `values`): equal values stay equal, and
//! different values stay different.
//!
//! Memory use grows with the number of transactions, the bytes of their Sends, and the bytes of
//! chunks that contain names, but not with data.

mod cm;
mod headers;
mod key;
mod message;
mod streams;
mod values;

pub use key::Key;

use core::ops::Range;
use foldhash::fast::FixedState;
use headers::Place;
use message::Runs;
use rdmascope_analysis::carriers;
use rdmascope_dissector::engine;
use rdmascope_dissector::event::{Content, Event, Packet};
use rdmascope_dissector::exchange::{Keep, Step, StepKind};
use rdmascope_dissector::frame::{self, Frame, Header, IcrcVerdict, Other, Segment};
use rdmascope_dissector::protocol::Protocol;
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::role::{Attributed, Role};
use rdmascope_dissector::transaction::Part;
use rdmascope_wire::bth::{Bth, Extensions, Opcode, Operation, PacketPosition};
use rdmascope_wire::{Qpn, icrc, rpcrdma};
use std::collections::{BTreeMap, HashMap, VecDeque};
use streams::Streams;
use values::Values;

/// Replaces everything in a capture that identifies its owner.
///
/// It [learns](Anonymizer::learn) from all events of one engine, and then
/// [handles](Anonymizer::handle) all events of a second one.
#[derive(Debug)]
pub struct Anonymizer {
    frame: frame::Config,
    values: Values,
    /// The permitted bytes of transactions, by their number in the order of beginning.
    transactions: HashMap<u64, Shown, FixedState>,
    /// The contents of packets that were identified only after later packets.
    late: HashMap<u64, Carried, FixedState>,
    /// The contents of the current packet.
    current: Option<Carried>,
    recent: Recent,
    record: Vec<u8>,
    headers: Vec<Place>,
    streams: Streams,
}

/// The permitted bytes of a transaction.
#[derive(Debug)]
struct Shown {
    steps: Box<[Step]>,
    parts: BTreeMap<(bool, Part), Runs>,
}

/// The contents of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// A piece of a step: the number of its transaction in the order of beginning, the index of the
    /// step, and the packet's position.
    Piece(u64, u32, Position),
    /// The start of an RPC-over-RDMA message without a transaction.
    Header,
    Unknown,
}

impl Anonymizer {
    /// Creates an anonymizer that has learned nothing. `frame` selects its packets; ICRCs
    /// are verified.
    pub fn new(key: Key, frame: frame::Config) -> Anonymizer {
        Anonymizer {
            frame: frame::Config { verify_icrc: true, ..frame },
            values: Values::new(key),
            transactions: HashMap::default(),
            late: HashMap::default(),
            current: None,
            recent: Recent::default(),
            record: Vec::new(),
            headers: Vec::new(),
            streams: Streams::default(),
        }
    }

    /// The configuration of the first pass's engine.
    pub fn first_pass() -> engine::Config {
        let keep = Keep { steps: true, contents: true };
        engine::Config { keep, attribute: true, report_framed: true, ..engine::Config::default() }
    }

    /// The configuration of the second pass's engine.
    pub fn second_pass() -> engine::Config {
        engine::Config { attribute: true, report_packets: true, ..engine::Config::default() }
    }

    /// Learns from an event of the first pass.
    pub fn learn(&mut self, event: &Event<'_>) {
        match event {
            Event::Transaction(transaction) => {
                let Some(kept) = &transaction.exchange else { return };
                let parts = message::parts(&mut self.values, transaction);
                let shown = Shown { steps: kept.steps.as_slice().into(), parts };
                self.transactions.insert(transaction.begun, shown);
                self.streams.note(transaction);
            }
            Event::Framed(piece) => self.streams.add(&mut self.values, piece),
            Event::Attributed(attributed) if attributed.late => {
                if let Some(carried) = Carried::of(attributed) {
                    self.late.insert(attributed.seen.frame, carried);
                }
            }
            _ => {}
        }
    }

    /// Handles an event of the second pass. Returns the record to write for a packet, which is as
    /// long as the original.
    pub fn handle(&mut self, event: &Event<'_>) -> Option<Record<'_>> {
        match event {
            Event::Attributed(attributed) if !attributed.late => {
                self.current = Carried::of(attributed);
                None
            }
            Event::Packet(packet) => {
                let carried = self.carried(packet);
                self.recent.add(packet.record.number, carried);
                self.replace(&packet.record, carried);
                Some(Record { data: &self.record, ..packet.record })
            }
            _ => None,
        }
    }

    fn carried(&mut self, packet: &Packet<'_>) -> Carried {
        let known = self.current.take().or_else(|| self.late.get(&packet.record.number).copied());
        // A copy must equal its original.
        let known = known.or_else(|| self.recent.of(packet.copy_of?.frame));
        let is_header = |packet: &Packet<'_>| {
            let is_sound = packet.frame.is_ok_and(|frame| frame.icrc != IcrcVerdict::Bad);
            is_sound && packet.readable_headers().is_some_and(|it| matches!(it.content, Content::RpcRdma(_)))
        };
        known.unwrap_or(if is_header(packet) { Carried::Header } else { Carried::Unknown })
    }

    /// Creates the record to write.
    fn replace(&mut self, record: &Record<'_>, carried: Carried) {
        self.headers.clear();
        let mut found = |header, range| self.headers.push((header, range));
        let dissected = frame::dissect_reporting(record, &self.frame, &mut found);
        let headers = core::mem::take(&mut self.headers);
        let mut data = core::mem::take(&mut self.record);
        data.clear();
        data.extend_from_slice(record.data);
        for (header, range) in &headers {
            headers::replace(&mut self.values, *header, &mut data[range.clone()]);
        }
        match &dissected {
            Ok(frame) => {
                self.replace_transport(frame, carried, &headers, &mut data);
                self.replace_icrc(frame, record.data, &headers, &mut data);
            }
            Err(Other::Tcp(segment)) if self.streams.has(segment) => {
                self.replace_segment((segment, record.number), record.data, &headers, &mut data);
            }
            Err(_) => headers::clear_others(&headers, &mut data),
        }
        headers::sum(&headers, &mut data);
        (self.record, self.headers) = (data, headers);
    }

    /// Replaces a transport packet. Its headers stay, and any trailing bytes are cleared.
    fn replace_transport(&mut self, frame: &Frame<'_>, carried: Carried, headers: &[Place], data: &mut [u8]) {
        let Some((_, place)) = headers.iter().find(|(header, _)| *header == Header::Transport) else {
            return data.fill(0);
        };
        let end = headers.last().map_or(place.end, |(_, range)| range.end.max(place.end));
        data[end..].fill(0);
        let Ok(bth) = Bth::parse(frame.transport) else { return data[place.clone()].fill(0) };
        let length = Bth::LENGTH + Extensions::length(bth.opcode);
        let transport = &mut data[place.clone()];
        if transport.len() < length {
            return transport[Bth::LENGTH..].fill(0);
        }
        let (extensions, payload) = transport.split_at_mut(length);
        let operation = bth.opcode.operation();
        // Atomic operations carry values of memory in their headers.
        let values = match operation {
            Some(Operation::AtomicAcknowledge) => 8,
            Some(Operation::CompareSwap | Operation::FetchAdd) => 16,
            _ => 0,
        };
        extensions[length - values..].fill(0);
        let on_wire = frame.transport_length.checked_sub(length as u32 + u32::from(bth.pad_count));
        let available = on_wire.map_or(0, |on_wire| payload.len().min(on_wire as usize));
        let (payload, padding) = payload.split_at_mut(available);
        padding.fill(0);
        if bth.opcode == Opcode::UD_SEND_ONLY && bth.destination_qp == Qpn(1) {
            return cm::replace(&mut self.values, payload);
        }
        let original = &frame.transport[length..length + available];
        payload.fill(0);
        let (Some(operation), Some(on_wire)) = (operation, on_wire) else { return };
        match carried {
            Carried::Piece(begun, step, position) => {
                self.piece(begun, step, position, operation, on_wire, original, payload);
            }
            Carried::Header => header(&mut self.values, original, payload),
            Carried::Unknown if operation.is_send() => known_by(original, on_wire, payload),
            Carried::Unknown => {}
        }
    }

    /// Copies the permitted bytes of a step into a packet. `on_wire` is the length of its payload
    /// on the wire.
    #[allow(clippy::too_many_arguments)]
    fn piece(
        &mut self,
        begun: u64,
        step: u32,
        position: Position,
        operation: Operation,
        on_wire: u32,
        original: &[u8],
        payload: &mut [u8],
    ) {
        let Some(shown) = self.transactions.get(&begun) else { return };
        let Some(step) = shown.steps.get(step as usize) else { return };
        if step.kind == StepKind::Done {
            return header(&mut self.values, original, payload);
        }
        let Ok(index) = u64::try_from(step.position.distance(position)) else { return };
        // All packets of a message except the last carry a full path MTU.
        let size = match operation.position() {
            PacketPosition::First | PacketPosition::Middle => Some(on_wire.into()),
            PacketPosition::Last | PacketPosition::Only => carriers::payload(step.length, step.extent),
        };
        let offset = match (index, size) {
            (0, _) => 0,
            (_, Some(size)) => index * size,
            (_, None) => return,
        };
        shown.copy(step, offset, payload);
    }

    /// Replaces the payload of a segment between the ports of an iWARP connection. A correct
    /// checksum stays correct, an incomplete one incomplete, and a wrong one wrong.
    fn replace_segment(
        &mut self,
        (segment, frame): (&Segment<'_>, u64),
        original: &[u8],
        headers: &[Place],
        data: &mut [u8],
    ) {
        let begins = segment.payload_offset - segment.header_length();
        let ends = segment.payload_offset.min(data.len());
        headers::clear_options(&mut data[begins..ends]);
        let payload = &mut data[ends..];
        payload.fill(0);
        self.streams.settle(&self.transactions);
        let payload = &mut payload[..segment.payload.len()];
        self.streams.replace(&self.values, &self.transactions, (segment, frame), payload);
        let length = segment.header_length() + segment.payload_length as usize;
        let of = |data: &[u8]| headers::TcpChecksum::new(headers, data, begins, length);
        let found = u16::from_be_bytes([original[begins + 16], original[begins + 17]]);
        let new = of(data).zip(of(original)).map_or(0, |(new, old)| {
            new.equivalent(&old, found, |difference| self.values.difference(difference))
        });
        data[begins + 16..begins + 18].copy_from_slice(&new.to_be_bytes());
    }

    /// Replaces the ICRC. A correct ICRC stays correct and a wrong one wrong. An unverifiable ICRC
    /// is also changed, because it would reveal information about the covered bytes.
    fn replace_icrc(&self, frame: &Frame<'_>, original: &[u8], headers: &[Place], data: &mut [u8]) {
        let Some((_, place)) = headers.iter().find(|(header, _)| *header == Header::Icrc) else { return };
        let Some(found) = original[place.clone()].first_chunk::<{ icrc::LENGTH }>() else {
            return data[place.clone()].fill(0);
        };
        let found = u32::from_le_bytes(*found);
        let icrcs = headers::icrc(headers, original).zip(headers::icrc(headers, data));
        let new = match icrcs.filter(|_| frame.icrc != IcrcVerdict::Unverifiable) {
            Some((expected, new)) => new ^ self.values.difference(found ^ expected),
            None => self.values.difference(found),
        };
        data[place.clone()].copy_from_slice(&new.to_le_bytes());
    }
}

impl Shown {
    /// Copies the permitted bytes of a step, from `offset` on, into `payload`, which is all zeros.
    fn copy(&self, step: &Step, offset: u64, payload: &mut [u8]) {
        if let Some(runs) = self.parts.get(&(step.of_reply, step.part)) {
            runs.copy(step.offset.saturating_add(offset), payload);
        }
    }
}

impl Carried {
    fn of(attributed: &Attributed<'_>) -> Option<Carried> {
        match attributed.role? {
            Role::Part(of) | Role::Repetition(of) => {
                Some(Carried::Piece(of.begun, of.step, attributed.position))
            }
            _ => None,
        }
    }
}

/// Copies the RPC-over-RDMA and RPC headers of a Send without a transaction.
fn header(values: &mut Values, original: &[u8], payload: &mut [u8]) {
    let Ok(header) = rpcrdma::Header::parse(original) else { return };
    if !message::begins_message(original) {
        return;
    }
    let length = header.length.min(original.len());
    let mut runs = Runs::default();
    if matches!(header.procedure, rpcrdma::Procedure::Msg | rpcrdma::Procedure::Msgp) {
        message::rpc(values, &original[length..], &mut runs);
    }
    let (header, message) = payload.split_at_mut(length);
    header.copy_from_slice(&original[..length]);
    runs.copy(0, message);
}

/// Keeps the bytes that identify another protocol in the first Send of a connection. They are the
/// same for all connections.
fn known_by(original: &[u8], on_wire: u32, payload: &mut [u8]) {
    const PLACES: [Range<usize>; 2] = [0..12, 28..29];
    if Protocol::of_first_send(original, on_wire).is_some() {
        for place in PLACES {
            if let Some(from) = original.get(place.clone()) {
                payload[place].copy_from_slice(from);
            }
        }
    }
}

/// The contents of recent packets.
#[derive(Debug, Default)]
struct Recent(VecDeque<(u64, Carried)>);

impl Recent {
    /// The most packets kept: more than the engine searches for the original of a copy.
    const MOST: usize = 1 << 12;

    fn add(&mut self, frame: u64, carried: Carried) {
        if self.0.len() == Recent::MOST {
            self.0.pop_front();
        }
        self.0.push_back((frame, carried));
    }

    fn of(&self, frame: u64) -> Option<Carried> {
        let index = self.0.binary_search_by_key(&frame, |(frame, _)| *frame).ok()?;
        Some(self.0[index].1)
    }
}

#[cfg(test)]
mod tests;
