//! The streams of iWARP connections: what stands in the place of each of their bytes.
//!
//! What an end sends lies in segments however TCP cuts it, comes again, and comes ahead. So it is replaced as a stream. The first pass notes of which start frames
//! and FPDUs a stream consists, the second makes a segment of those whose bytes it has. An FPDU is made whole, so that its CRC is right wherever segments begin. Bytes of
//! which it was not found out what they are become zeros.

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
    /// Those of each connection.
    of: HashMap<ConnectionId, Vec<(Flow, usize)>, FixedState>,
    /// Transactions of whose steps it is not known yet where in a stream they stand.
    noted: Vec<Noted>,
}

/// Source, destination, and their ports.
type Flow = (Address, Address, [u16; 2]);

/// A transaction.
#[derive(Debug)]
struct Noted {
    connection: ConnectionId,
    /// What the caller sends, and what the other end does.
    flows: [Option<FlowKey>; 2],
    /// When it began.
    begun: u64,
}

/// What one end of a connection sends.
#[derive(Debug)]
struct Stream {
    connection: ConnectionId,
    /// In the order of the stream.
    pieces: Vec<Piece>,
    /// By where they begin.
    steps: BTreeMap<u64, Placed>,
    /// The piece that was made last.
    made: Option<(usize, Vec<u8>)>,
}

/// A piece of a stream.
#[derive(Debug)]
struct Piece {
    /// Where its first byte stands, that of a marker in front of it included: a sequence number that goes on where those of TCP wrap.
    at: u64,
    /// The packet that has its first byte.
    frame: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// What stands in its place.
    Bytes(Box<[u8]>),
    /// An FPDU, whose front holds what stands in the place of that.
    Fpdu(Box<FramedFpdu>),
}

/// A step in a stream.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// The first byte behind it.
    end: u64,
    /// When its transaction began, and its index.
    of: (u64, usize),
    /// The tagged offset of its first byte.
    offset: u64,
}

impl Streams {
    /// Takes a piece of a stream, behind those before it.
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

    /// Takes a transaction.
    pub(super) fn note(&mut self, transaction: &Transaction) {
        if let Some(kept) = &transaction.exchange
            && kept.steps.first().is_some_and(|step| step.position.counts_bytes())
        {
            let (connection, begun) = (transaction.connection, transaction.begun);
            self.noted.push(Noted { connection, flows: kept.flows, begun });
        }
    }

    /// Finds the places of the steps of all transactions, once all pieces have come.
    pub(super) fn settle(&mut self, transactions: &HashMap<u64, Shown, FixedState>) {
        for Noted { connection, flows, begun } in core::mem::take(&mut self.noted) {
            let Some(Shown { steps, .. }) = transactions.get(&begun) else { continue };
            let of_end = flows.map(|flow| self.find(connection, flow?));
            let of = |step: &Step| of_end[usize::from(!step.from_caller)];
            for (index, step) in steps.iter().enumerate() {
                let Some(stream) = of(step) else { continue };
                let at = self.streams[stream].place(step.position.number(), step.first.frame);
                // A response goes where its request says, and the capture may lack its beginning.
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

    /// The stream of a connection that has this source, destination, and port of the destination.
    fn find(&self, connection: ConnectionId, flow: FlowKey) -> Option<usize> {
        let is_meant = |(source, destination, ports): Flow| {
            (source, destination) == (flow.source, flow.destination)
                && u32::from(ports[1]) == flow.destination_qp.0
        };
        self.of.get(&connection)?.iter().find(|(flow, _)| is_meant(*flow)).map(|(_, index)| *index)
    }

    /// Whether some stream is of the ports of a segment.
    pub(super) fn has(&self, segment: &Segment<'_>) -> bool {
        self.between.contains_key(&flow_of(segment))
    }

    /// Puts into `payload`, which is zeros, what stands in the place of the payload of a segment.
    pub(super) fn replace(
        &mut self,
        values: &Values,
        transactions: &HashMap<u64, Shown, FixedState>,
        (segment, frame): (&Segment<'_>, u64),
        payload: &mut [u8],
    ) {
        let Some(between) = self.between.get(&flow_of(segment)) else { return };
        // Where ports were used again: the last connection that had begun, or the first.
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

/// Where sequence numbers begin: what comes before the first one known is not negative.
const FIRST_ROUND: u64 = 1 << 32;

/// From a place to that with this sequence number which is nearest.
fn distance(at: u64, sequence: u32) -> i64 {
    (sequence.wrapping_sub(at as u32) as i32).into()
}

impl Stream {
    /// The place with this sequence number, of several that which a packet names.
    fn place(&self, sequence: u32, frame: u64) -> u64 {
        let index = self.pieces.partition_point(|piece| piece.frame < frame).min(self.pieces.len() - 1);
        let near = self.pieces[index].at;
        near.wrapping_add_signed(distance(near, sequence))
    }

    /// The FPDU that begins at this place, or behind a marker there.
    fn fpdu_at(&self, at: u64) -> Option<&FramedFpdu> {
        let index = self.pieces.partition_point(|piece| piece.at <= at).checked_sub(1)?;
        match &self.pieces[index] {
            Piece { at: begins, kind: Kind::Fpdu(fpdu), .. } if at - begins <= MARKER_LENGTH as u64 => {
                Some(fpdu)
            }
            _ => None,
        }
    }

    /// The tagged offset that the FPDU at this place begins at.
    fn tagged_offset(&self, at: u64) -> Option<u64> {
        if let Header::Tagged(header) = self.fpdu_at(at)?.header { Some(header.offset) } else { None }
    }

    /// Where the response to the RDMA Read Request that the FPDU with this sequence number holds goes.
    fn sink(&self, sequence: u32, frame: u64) -> Option<u64> {
        let fpdu = self.fpdu_at(self.place(sequence, frame))?;
        ReadRequest::parse(&fpdu.front).ok().map(|request| request.sink_offset)
    }

    /// Puts into `bytes` what there is from `begin` on.
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

    /// What stands in the place of an FPDU (RFC 5044, section 4.1), with the markers in front of it and in it.
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

    /// Puts into `data`, which is zeros, what may be shown of the data of an FPDU at this place.
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

/// An FPDU with the markers in front of it and in it; `at`: the sequence number of its first byte, `marker`: that of a marker.
fn marked(plain: &[u8], at: u32, marker: u32) -> Vec<u8> {
    let mut marked = Vec::with_capacity(plain.len() + 2 * MARKER_LENGTH);
    let mut begins = None;
    for byte in plain {
        let place = at.wrapping_add(marked.len() as u32);
        if place.wrapping_sub(marker).is_multiple_of(MARKER_INTERVAL) {
            // How many bytes the FPDU began before it (RFC 5044, section 4.3).
            let back = begins.map_or(0, |begins| marked.len() - begins);
            marked.extend((back as u32).to_be_bytes());
        }
        begins.get_or_insert(marked.len());
        marked.push(*byte);
    }
    marked
}

/// How many bytes of a marker stand in front of an FPDU: its CRC covers them.
fn marker_before(fpdu: &FramedFpdu, sequence: u32) -> u32 {
    const LENGTH: u32 = MARKER_LENGTH as u32;
    let is_there =
        |marker: u32| sequence.wrapping_sub(LENGTH).wrapping_sub(marker).is_multiple_of(MARKER_INTERVAL);
    if fpdu.marker.is_some_and(is_there) { LENGTH } else { 0 }
}

/// What stands in the place of a start frame: of its private data IRD and ORD, and what RPC-over-RDMA says there (RFC 8797).
fn start(frame: StartFrame, data: &[u8]) -> Vec<u8> {
    let mut replaced = vec![0; data.len()];
    let (depths, consumer) = frame.private_data(data);
    let begins = depths.map_or(0, |_| ReadDepths::LENGTH);
    replaced[..begins].copy_from_slice(&data[..begins]);
    cm::said_by_consumer(consumer, &mut replaced[begins..]);
    [&frame.to_bytes()[..], &replaced].concat()
}

/// What stands in the place of the first bytes of an untagged FPDU, where it is of no transaction.
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

/// How many bytes of a Terminate stay: what it says, and the DDP header of the segment that it is about.
fn terminate(bytes: &[u8]) -> usize {
    let Ok(terminate) = Terminate::parse(bytes) else { return 0 };
    let (length, header) = terminate.terminated(&bytes[Terminate::LENGTH..]);
    let header = Header::parse(header).map_or(0, |header| header.length());
    Terminate::LENGTH + length.map_or(0, |_| mpa::LENGTH_FIELD) + header
}
