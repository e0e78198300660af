//! Replacement of the TCP streams of iWARP connections.
//!
//! TCP may split, repeat and reorder the bytes of a stream, so the stream is replaced as a whole.
//! The first pass stores the start frames and FPDUs of each stream; the second builds each segment
//! from those it overlaps. FPDUs are rebuilt completely, so that their CRCs are correct wherever
//! segments begin. Bytes of unknown meaning become zeros.

use super::values::Values;
use super::{Shown, cm, header, known_by};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{ConnectionId, FlowKey};
use rdmascope_dissector::event::InStream;
use rdmascope_dissector::exchange::{Step, StepKind};
use rdmascope_dissector::frame::{Address, Segment};
use rdmascope_dissector::iwarp::{CrcVerdict, FramedFpdu, FramedKind};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::ddp::{Header, Untagged};
use rdmascope_wire::mpa::{self, CRC_LENGTH, Crc, MARKER_INTERVAL, MARKER_LENGTH, ReadDepths, StartFrame};
use rdmascope_wire::rdmap::{Opcode, ReadRequest, Terminate};
use std::collections::{BTreeMap, HashMap};

/// The streams of all connections.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    /// The streams between the same ports, in the order in which they began.
    between: HashMap<Flow, Vec<usize>, FixedState>,
    /// The streams of each connection.
    of: HashMap<ConnectionId, Vec<(Flow, usize)>, FixedState>,
    /// Transactions whose steps are not yet located in a stream.
    noted: Vec<Noted>,
}

/// Source, destination, and their ports.
type Flow = (Address, Address, [u16; 2]);

/// A transaction.
#[derive(Debug)]
struct Noted {
    connection: ConnectionId,
    /// The flow of the caller, and that of the other end.
    flows: [Option<FlowKey>; 2],
    /// The transaction's number in the order of beginning.
    begun: u64,
}

/// The stream of one end of a connection.
#[derive(Debug)]
struct Stream {
    connection: ConnectionId,
    /// The pieces, in stream order.
    pieces: Vec<Piece>,
    /// The steps, by their start.
    steps: BTreeMap<u64, Placed>,
    /// The piece that was built last.
    made: Option<(usize, Vec<u8>)>,
}

/// A piece of a stream.
#[derive(Debug)]
struct Piece {
    /// The position of the first byte, including a marker before it: the sequence number, extended
    /// to 64 bits so that it does not wrap.
    at: u64,
    /// The packet with the first byte.
    frame: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The replacement.
    Bytes(Box<[u8]>),
    /// An FPDU whose front is already replaced.
    Fpdu(Box<FramedFpdu>),
}

/// A step in a stream.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// The position after the last byte.
    end: u64,
    /// The number of its transaction in the order of beginning, and its index in the transaction.
    of: (u64, usize),
    /// The tagged offset of its first byte.
    offset: u64,
}

impl Streams {
    /// Adds a piece of a stream, after the previous ones.
    pub(super) fn add(&mut self, values: &mut Values, piece: &InStream<'_>) {
        let InStream { connection, source, destination, ports, framed, .. } = *piece;
        let flow = (source, destination, ports);
        let between = self.between.entry(flow).or_default();
        let known = between.last().copied().filter(|last| self.streams[*last].connection == connection);
        let index = known.unwrap_or_else(|| {
            between.push(self.streams.len());
            self.of.entry(connection).or_default().push((flow, self.streams.len()));
            self.streams.push(Stream { connection, pieces: Vec::new(), steps: BTreeMap::new(), made: None });
            self.streams.len() - 1
        });
        let stream = &mut self.streams[index];
        let kind = match &framed.kind {
            FramedKind::Start(frame, data) => Kind::Bytes(start(*frame, data).into()),
            FramedKind::Indication(bytes) => Kind::Bytes((*bytes).into()),
            FramedKind::Malformed(fields) => Kind::Bytes((*fields).into()),
            FramedKind::Fpdu(fpdu) => {
                let front = front(values, fpdu, piece.speaks_rpc);
                let FramedFpdu { header, length, marker, crc, .. } = *fpdu;
                Kind::Fpdu(Box::new(FramedFpdu { header, length, front, marker, crc }))
            }
        };
        let ahead = if let Kind::Fpdu(fpdu) = &kind { marker_before(fpdu, framed.sequence) } else { 0 };
        let sequence = framed.sequence.wrapping_sub(ahead);
        let at = match stream.pieces.last() {
            Some(last) => last.at.wrapping_add_signed(distance(last.at, sequence)),
            None => FIRST_ROUND + u64::from(sequence),
        };
        if stream.pieces.last().is_none_or(|last| last.at < at) {
            stream.pieces.push(Piece { at, frame: framed.first.frame, kind });
        }
    }

    /// Adds a transaction.
    pub(super) fn note(&mut self, transaction: &Transaction) {
        if let Some(kept) = &transaction.exchange
            && kept.steps.first().is_some_and(|step| step.position.counts_bytes())
        {
            let (connection, begun) = (transaction.connection, transaction.begun);
            self.noted.push(Noted { connection, flows: kept.flows, begun });
        }
    }

    /// Locates the steps of all transactions, after all pieces have been added.
    pub(super) fn settle(&mut self, transactions: &HashMap<u64, Shown, FixedState>) {
        for Noted { connection, flows, begun } in core::mem::take(&mut self.noted) {
            let Some(Shown { steps, .. }) = transactions.get(&begun) else { continue };
            let of_end = flows.map(|flow| self.find(connection, flow?));
            let of = |step: &Step| of_end[usize::from(!step.from_caller)];
            for (index, step) in steps.iter().enumerate() {
                let Some(stream) = of(step) else { continue };
                let at = self.streams[stream].place(step.position.number(), step.first.frame);
                // The request determines where a response is placed; the start of the response may
                // be missing from the capture.
                let is_request = |request: &&Step| {
                    request.kind == StepKind::ReadRequest
                        && (request.part, request.offset) == (step.part, step.offset)
                };
                let is_response = step.kind == StepKind::ReadResponse;
                let request = steps.iter().find(|request| is_response && is_request(request));
                let sink = request.and_then(|request| {
                    self.streams[of(request)?].sink(request.position.number(), request.first.frame)
                });
                let stream = &mut self.streams[stream];
                let offset = sink.or_else(|| stream.tagged_offset(at)).unwrap_or_default();
                let end = at + u64::from(step.extent);
                stream.steps.entry(at).or_insert(Placed { end, of: (begun, index), offset });
            }
        }
    }

    /// The stream of a connection with this source, destination and destination port.
    fn find(&self, connection: ConnectionId, flow: FlowKey) -> Option<usize> {
        let is_meant = |(source, destination, ports): Flow| {
            (source, destination) == (flow.source, flow.destination)
                && u32::from(ports[1]) == flow.destination_qp.0
        };
        self.of.get(&connection)?.iter().find(|(flow, _)| is_meant(*flow)).map(|(_, index)| *index)
    }

    /// Whether any stream has the ports of a segment.
    pub(super) fn has(&self, segment: &Segment<'_>) -> bool {
        self.between.contains_key(&flow_of(segment))
    }

    /// Fills `payload`, which is all zeros, with the replacement of a segment's payload.
    pub(super) fn replace(
        &mut self,
        values: &Values,
        transactions: &HashMap<u64, Shown, FixedState>,
        (segment, frame): (&Segment<'_>, u64),
        payload: &mut [u8],
    ) {
        let Some(between) = self.between.get(&flow_of(segment)) else { return };
        // If ports were reused: the latest connection that had begun, or otherwise the first one.
        let has_begun = |index: &&usize| self.streams[**index].pieces[0].frame <= frame;
        let Some(index) = between.iter().rev().find(has_begun).or(between.first()) else { return };
        let stream = &mut self.streams[*index];
        let begin = stream.place(segment.sequence.wrapping_add(segment.syn.into()), frame);
        stream.copy(values, transactions, begin, payload);
    }
}

fn flow_of(segment: &Segment<'_>) -> Flow {
    (segment.source, segment.destination, segment.ports)
}

/// The offset of sequence numbers, so that positions before the first known one are not negative.
const FIRST_ROUND: u64 = 1 << 32;

/// The distance from a position to the nearest one with this sequence number.
fn distance(at: u64, sequence: u32) -> i64 {
    (sequence.wrapping_sub(at as u32) as i32).into()
}

impl Stream {
    /// The position with this sequence number that is nearest to the packet `frame`.
    fn place(&self, sequence: u32, frame: u64) -> u64 {
        let index = self.pieces.partition_point(|piece| piece.frame < frame).min(self.pieces.len() - 1);
        let near = self.pieces[index].at;
        near.wrapping_add_signed(distance(near, sequence))
    }

    /// The FPDU that begins at this position, or after a marker there.
    fn fpdu_at(&self, at: u64) -> Option<&FramedFpdu> {
        let index = self.pieces.partition_point(|piece| piece.at <= at).checked_sub(1)?;
        match &self.pieces[index] {
            Piece { at: begins, kind: Kind::Fpdu(fpdu), .. } if at - begins <= MARKER_LENGTH as u64 => {
                Some(fpdu)
            }
            _ => None,
        }
    }

    /// The tagged offset of the FPDU at this position.
    fn tagged_offset(&self, at: u64) -> Option<u64> {
        if let Header::Tagged(header) = self.fpdu_at(at)?.header { Some(header.offset) } else { None }
    }

    /// The sink offset of the RDMA Read Request in the FPDU with this sequence number.
    fn sink(&self, sequence: u32, frame: u64) -> Option<u64> {
        let fpdu = self.fpdu_at(self.place(sequence, frame))?;
        ReadRequest::parse(&fpdu.front).ok().map(|request| request.sink_offset)
    }

    /// Copies the bytes of the stream from `begin` on into `bytes`.
    fn copy(
        &mut self,
        values: &Values,
        transactions: &HashMap<u64, Shown, FixedState>,
        begin: u64,
        bytes: &mut [u8],
    ) {
        let end = begin + bytes.len() as u64;
        let first = self.pieces.partition_point(|piece| piece.at <= begin).saturating_sub(1);
        for index in first..self.pieces.len() {
            let at = self.pieces[index].at;
            if at >= end {
                return;
            }
            if self.made.as_ref().is_none_or(|(made, _)| *made != index) {
                let made = match &self.pieces[index].kind {
                    Kind::Bytes(bytes) => bytes.to_vec(),
                    Kind::Fpdu(fpdu) => self.make(values, transactions, at, fpdu),
                };
                self.made = Some((index, made));
            }
            let Some((_, made)) = &self.made else { return };
            let (from, until) = (at.max(begin), end.min(at + made.len() as u64));
            if from < until {
                let made = &made[(from - at) as usize..(until - at) as usize];
                bytes[(from - begin) as usize..(until - begin) as usize].copy_from_slice(made);
            }
        }
    }

    /// Builds the replacement of an FPDU (RFC 5044, section 4.1), with the markers before it and in
    /// it.
    fn make(
        &self,
        values: &Values,
        transactions: &HashMap<u64, Shown, FixedState>,
        at: u64,
        fpdu: &FramedFpdu,
    ) -> Vec<u8> {
        let ulpdu_length = fpdu.header.length() as u16 + fpdu.length as u16;
        let mut plain = ulpdu_length.to_be_bytes().to_vec();
        match fpdu.header {
            Header::Tagged(header) => plain.extend(header.to_bytes()),
            Header::Untagged(header) => plain.extend(header.to_bytes()),
        }
        let begins = plain.len();
        plain.resize(mpa::fpdu_length(ulpdu_length) - CRC_LENGTH, 0);
        self.put_data(transactions, at, fpdu, &mut plain[begins..begins + fpdu.length as usize]);
        plain.extend([0; CRC_LENGTH]);
        let mut made = match fpdu.marker {
            Some(marker) => marked(&plain, at as u32, marker),
            None => plain,
        };
        let covered = made.len() - CRC_LENGTH;
        let (verdict, difference) = fpdu.crc.unwrap_or((CrcVerdict::Unverifiable, 0));
        if verdict != CrcVerdict::Unused {
            let mut crc = Crc::default();
            crc.update(&made[..covered]);
            let field = u32::from_le_bytes(crc.finish()) ^ values.difference(difference);
            made[covered..].copy_from_slice(&field.to_le_bytes());
        }
        made
    }

    /// Fills `data`, which is all zeros, with the permitted data of the FPDU at this position.
    fn put_data(
        &self,
        transactions: &HashMap<u64, Shown, FixedState>,
        at: u64,
        fpdu: &FramedFpdu,
        data: &mut [u8],
    ) {
        let placed = self.steps.range(..=at + MARKER_LENGTH as u64).next_back();
        let placed = placed.map(|(_, placed)| placed).filter(|placed| at < placed.end);
        let step = placed.and_then(|placed| {
            let shown = transactions.get(&placed.of.0)?;
            Some((placed, shown, shown.steps.get(placed.of.1)?))
        });
        let opcode = fpdu.header.control().opcode;
        match (fpdu.header, step) {
            (Header::Untagged(header), Some((_, shown, step)))
                if opcode.is_send() && matches!(step.kind, StepKind::Call | StepKind::Reply) =>
            {
                shown.copy(step, header.message_offset.into(), data);
            }
            (Header::Untagged(_), _) => {
                let length = fpdu.front.len().min(data.len());
                data[..length].copy_from_slice(&fpdu.front[..length]);
            }
            (Header::Tagged(header), Some((placed, shown, step)))
                if matches!(step.kind, StepKind::Write | StepKind::ReadResponse) =>
            {
                shown.copy(step, header.offset.wrapping_sub(placed.offset), data);
            }
            (Header::Tagged(_), _) => {}
        }
    }
}

/// Inserts the markers before and in an FPDU. `at` is the sequence number of its first byte,
/// `marker` that of a marker.
fn marked(plain: &[u8], at: u32, marker: u32) -> Vec<u8> {
    let mut marked = Vec::with_capacity(plain.len() + 2 * MARKER_LENGTH);
    let mut begins = None;
    for byte in plain {
        let place = at.wrapping_add(marked.len() as u32);
        if place.wrapping_sub(marker).is_multiple_of(MARKER_INTERVAL) {
            // A marker holds the distance to the start of its FPDU (RFC 5044, section 4.3).
            let back = begins.map_or(0, |begins| marked.len() - begins);
            marked.extend((back as u32).to_be_bytes());
        }
        begins.get_or_insert(marked.len());
        marked.push(*byte);
    }
    marked
}

/// The length of a marker directly before an FPDU, which the CRC of the FPDU covers.
fn marker_before(fpdu: &FramedFpdu, sequence: u32) -> u32 {
    const LENGTH: u32 = MARKER_LENGTH as u32;
    let is_directly_before =
        |marker: u32| sequence.wrapping_sub(LENGTH).wrapping_sub(marker).is_multiple_of(MARKER_INTERVAL);
    if fpdu.marker.is_some_and(is_directly_before) { LENGTH } else { 0 }
}

/// The replacement of a start frame. Of its private data, IRD, ORD and RPC-over-RDMA private data
/// (RFC 8797) stay.
fn start(frame: StartFrame, data: &[u8]) -> Vec<u8> {
    let mut replaced = vec![0; data.len()];
    let (depths, consumer) = frame.private_data(data);
    let begins = depths.map_or(0, |_| ReadDepths::LENGTH);
    replaced[..begins].copy_from_slice(&data[..begins]);
    cm::copy_private_data(consumer, &mut replaced[begins..]);
    [&frame.to_bytes()[..], &replaced].concat()
}

/// The replacement of the first bytes of an untagged FPDU, for FPDUs without a transaction.
fn front(values: &mut Values, fpdu: &FramedFpdu, speaks_rpc: bool) -> Vec<u8> {
    let original = &fpdu.front[..];
    let mut replaced = vec![0; original.len()];
    let Header::Untagged(Untagged { control, message_offset: 0, .. }) = fpdu.header else {
        return Vec::new();
    };
    let kept = match control.opcode {
        opcode if opcode.is_send() && speaks_rpc => {
            header(values, original, &mut replaced);
            0
        }
        opcode if opcode.is_send() => {
            known_by(original, fpdu.length, &mut replaced);
            0
        }
        Opcode::ReadRequest => ReadRequest::LENGTH,
        Opcode::Terminate => terminate(original),
        _ => 0,
    };
    let kept = kept.min(original.len());
    replaced[..kept].copy_from_slice(&original[..kept]);
    replaced
}

/// The number of bytes of a Terminate that stay: its error, and the DDP header of the terminated
/// segment.
fn terminate(bytes: &[u8]) -> usize {
    let Ok(terminate) = Terminate::parse(bytes) else { return 0 };
    let (length, header) = terminate.terminated(&bytes[Terminate::LENGTH..]);
    let header = Header::parse(header).map_or(0, |header| header.length());
    Terminate::LENGTH + length.map_or(0, |_| mpa::LENGTH_FIELD) + header
}
