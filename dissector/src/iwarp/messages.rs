//! Reassembly of RDMAP messages from the DDP segments of one end (RFC 5041, RFC 5040).
//!
//! An end sends the segments of a message one after another and flags the last one. Untagged
//! messages are reassembled. Tagged messages are passed on piece by piece, with the address in
//! their headers.

use super::framing::{CrcVerdict, Origin, Piece};
use super::piece;
use crate::rdma::{Delivery, Fault, MemoryRange, Operation, Part, Placement, Position, Send};
use crate::record::Seen;
use crate::roomy::Roomy;
use alloc::vec::Vec;
use rdmascope_wire::Rkey;
use rdmascope_wire::ddp::{Header, Tagged, Untagged};
use rdmascope_wire::rdmap::{Opcode, ReadRequest, Terminate};

/// The messages of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    open: Option<Open>,
    /// The bytes of the open untagged message, from its start to the first gap.
    bytes: Roomy<Vec<u8>>,
    tagged: Option<OpenTagged>,
    /// For each queue, the number of its next message, if known.
    numbers: [Option<Next>; 4],
    /// A Terminate has been received, and no message after it yet.
    terminated: bool,
}

/// The number of the next message of a queue.
#[derive(Clone, Copy, Debug)]
struct Next {
    number: u32,
    /// After a message with a wrong number: the next number if only that one number was wrong.
    or: Option<u32>,
}

impl Next {
    fn is(&self, number: u32) -> bool {
        self.number == number || self.or == Some(number)
    }

    /// Returns the number after this one.
    fn after(number: u32) -> Next {
        Next { number: number.wrapping_add(1), or: None }
    }
}

/// An untagged message that has started and not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    first: Seen,
    sequence: u32,
    number: u32,
    queue: u32,
    opcode: Opcode,
    /// Bytes on the wire so far.
    length: u32,
    /// Byte range that the capture lacks.
    missing: Option<(u32, u32)>,
    /// No more bytes can be appended, because some are missing or truncated.
    closed: bool,
}

/// A tagged message that has started and not ended.
#[derive(Clone, Copy, Debug)]
struct OpenTagged {
    opcode: Opcode,
    stag: Rkey,
    /// Sequence number of its first FPDU.
    sequence: u32,
    /// The offset of its first byte, and the next offset.
    begins: u64,
    next: u64,
    /// After a segment with a wrong offset: the state of the message if only that offset was wrong.
    or: Option<Interrupted>,
}

/// The state of an interrupted tagged message.
#[derive(Clone, Copy, Debug)]
struct Interrupted {
    sequence: u32,
    begins: u64,
    next: u64,
}

/// An event from the messages of an end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message<'a> {
    /// A delivery that needs no further processing.
    Delivery(Delivery<'a>),
    /// An RDMA Read Request, with its position and its length in the stream.
    ReadRequest(Seen, Position, u32, ReadRequest),
    /// A piece of a Read Response in the sink's memory, and whether it is the last piece.
    ReadResponse(Placement<'a>, bool),
    /// A Terminate, its last packet, and the terminated RDMA operation with its memory.
    Terminate(Seen, Terminate, Option<(Operation, MemoryRange)>),
}

/// The RDMA operation terminated by this message, and its memory, if the message has its headers (RFC
/// 5040, section 4.8).
fn terminated_operation(terminate: Terminate, bytes: &[u8]) -> Option<(Operation, MemoryRange)> {
    let (length, headers) = terminate.terminated(bytes.get(Terminate::LENGTH..)?);
    match Header::parse(headers).ok()? {
        Header::Tagged(header) if header.control.opcode == Opcode::Write => {
            // Some ends include the header. Linux soft-iWARP does not.
            let length = length.unwrap_or(0).into();
            Some((Operation::Write, MemoryRange { rkey: header.stag, address: header.offset, length }))
        }
        Header::Untagged(header) if header.control.opcode == Opcode::ReadRequest => {
            let request = ReadRequest::parse(headers.get(Untagged::LENGTH..)?).ok()?;
            let ReadRequest { source_stag: rkey, source_offset: address, size: length, .. } = request;
            Some((Operation::ReadRequest, MemoryRange { rkey, address, length }))
        }
        _ => None,
    }
}

impl Messages {
    /// The most bytes kept of one untagged message. Inline thresholds are at most 256 KiB (RFC
    /// 8797, section 4.2).
    const LONGEST: usize = 512 << 10;

    /// Whether a message has started and not ended.
    pub(super) fn is_midway(&self) -> bool {
        self.open.is_some() || self.tagged.is_some()
    }

    /// Bytes of memory used by the open message.
    pub(super) fn buffered(&self) -> usize {
        self.bytes.capacity()
    }

    /// Drops the bytes of the open message and frees their memory.
    pub(super) fn forget(&mut self) {
        self.bytes = Roomy::default();
        if let Some(open) = &mut self.open {
            open.closed = true;
        }
    }

    /// Sequence number of the start of the open untagged message.
    pub(super) fn open(&self) -> Option<u32> {
        Some(self.open?.sequence)
    }

    /// Expects the first message of each queue next (RFC 5041, section 4.3).
    pub(super) fn begin_numbers(&mut self) {
        self.numbers = [Some(Next { number: 1, or: None }); 4];
    }

    /// Gives up the open messages, because their ends cannot be found.
    pub(super) fn lose(&mut self, found: &mut dyn FnMut(Message<'_>)) {
        self.close(found);
        self.tagged = None;
        // The number of lost messages is unknown.
        self.numbers = [None; 4];
    }

    /// Delivers the open Send although its end was not captured.
    pub(super) fn close(&mut self, found: &mut dyn FnMut(Message<'_>)) {
        let Some(open) = self.open.take().filter(|open| open.opcode.is_send()) else { return };
        found(Message::Delivery(Delivery::Send(Send {
            first: open.first,
            seen: open.first,
            position: Position::of_sequence(open.sequence),
            extent: open.length.max(1),
            bytes: &self.bytes,
            length: None,
            missing: Some((open.missing.map_or(open.length, |range| range.0), None)),
            invalidated: None,
        })));
    }

    /// Processes a piece of a DDP segment.
    pub(super) fn take(&mut self, piece: &Piece<'_>, found: &mut dyn FnMut(Message<'_>)) {
        let header = piece.of.header;
        if piece.offset == 0 && !header.is_regular() {
            fault(piece, Fault::Segment, found);
            // Its queue and message number are unknown.
            self.numbers = [None; 4];
        }
        // Reported once.
        if self.terminated && core::mem::take(&mut self.terminated) {
            fault(piece, Fault::Terminated, found);
        }
        if piece.end.is_some_and(|end| end.crc == CrcVerdict::Bad) {
            fault(piece, Fault::Crc, found);
            // A receiver drops the FPDU and ends the connection (RFC 5044, section 8). Its message
            // number is as doubtful as its data.
            self.open = None;
            self.tagged = None;
            self.numbers = [None; 4];
            return found(Message::Delivery(Delivery::Damaged { seen: piece.seen }));
        }
        match header {
            Header::Untagged(header) => self.take_untagged(&header, piece, found),
            Header::Tagged(header) => self.take_tagged(&header, piece, found),
        }
    }

    fn take_untagged(&mut self, header: &Untagged, piece: &Piece<'_>, found: &mut dyn FnMut(Message<'_>)) {
        let Piece { of, offset, bytes, length, .. } = *piece;
        if header.message_offset == 0 && offset == 0 {
            self.expect_an_end(header, piece, found);
            self.close(found);
            self.begin(header, &of, found, piece);
        }
        let is_of = |open: &Open| (open.queue, open.number) == (header.queue, header.message_number);
        let Some(mut open) = self.open.filter(is_of) else {
            // It is the next message of its queue, but not its first segment.
            let next = self.numbers.get_mut(header.queue as usize);
            let next = next.filter(|next| next.is_some_and(|next| next.is(header.message_number)));
            if let Some(next) = next.filter(|_| offset == 0) {
                *next = Some(Next::after(header.message_number));
                let fault_of = Fault::MessageOffset { found: header.message_offset.into(), expected: 0 };
                fault(piece, fault_of, found);
            }
            if length > 0 {
                found(Message::Delivery(Delivery::Unplaced { bytes: length }));
            }
            return;
        };
        let at = header.message_offset.wrapping_add(offset);
        if at != open.length && offset == 0 && open.missing.is_none() {
            let found_at = header.message_offset.into();
            fault(piece, Fault::MessageOffset { found: found_at, expected: open.length.into() }, found);
        }
        if at != open.length || piece.is_missing {
            let until = at.saturating_add(if piece.is_missing { length } else { 0 });
            let from = open.missing.map_or(open.length.min(at), |range| range.0);
            open.missing = Some((from, until));
            open.closed = true;
            open.length = at;
            // A segment with a lower offset contradicts the bytes gathered from there on.
            self.bytes.truncate(at as usize);
        }
        let ends = piece.end.filter(|_| header.control.last);
        let is_single_piece = ends.is_some() && open.length == 0 && open.missing.is_none();
        if !is_single_piece && !open.closed {
            open.closed = self.bytes.len() + bytes.len() > Messages::LONGEST || bytes.len() < length as usize;
            if self.bytes.len() + bytes.len() <= Messages::LONGEST {
                self.bytes.extend_from_slice(bytes);
            }
        }
        open.length = open.length.saturating_add(length);
        self.open = Some(open);
        let Some(end) = ends else { return };
        self.open = None;
        let bytes = if is_single_piece { bytes } else { &self.bytes[..] };
        let position = Position::of_sequence(open.sequence);
        let extent = end.sequence.wrapping_sub(open.sequence);
        match header.control.opcode {
            // It reports that the initiator is ready, and no layer above RDMAP sees it.
            opcode if opcode.is_send() && of.may_indicate && open.length == 0 => {}
            opcode if opcode.is_send() => found(Message::Delivery(Delivery::Send(Send {
                first: open.first,
                seen: piece.seen,
                position,
                extent,
                bytes,
                length: Some(open.length),
                // A segment with a lower offset leaves no gap.
                missing: open.missing.filter(|(from, to)| from < to).map(|(from, to)| (from, Some(to))),
                invalidated: opcode.invalidates().then_some(header.invalidate_stag),
            }))),
            Opcode::ReadRequest => {
                match ReadRequest::parse(bytes) {
                    Ok(request) => found(Message::ReadRequest(piece.seen, position, extent, request)),
                    // The capture lacks its sink or the memory that it reads.
                    Err(_) if bytes.len() < open.length as usize => {
                        found(Message::Delivery(Delivery::Missing { packets: 1, last: None }));
                    }
                    Err(_) => {}
                }
            }
            Opcode::Terminate => {
                self.terminated = true;
                if let Ok(terminate) = Terminate::parse(bytes) {
                    let operation = terminated_operation(terminate, bytes);
                    found(Message::Terminate(piece.seen, terminate, operation));
                }
            }
            // The end that asked for the atomic operation is at fault.
            Opcode::AtomicResponse => {}
            // Other opcodes are irregular segments, which were reported already.
            _ if Header::Untagged(*header).is_regular() => fault(piece, Fault::Foreign, found),
            _ => {}
        }
    }

    /// Reports that a message of a queue starts before the previous one of the queue, or an RDMA
    /// Write, has ended.
    fn expect_an_end(&mut self, header: &Untagged, piece: &Piece<'_>, found: &mut dyn FnMut(Message<'_>)) {
        let is_open = self.open.is_some_and(|open| open.queue == header.queue);
        let is_written = self.tagged.is_some_and(|open| open.opcode == Opcode::Write);
        if is_open || is_written {
            fault(piece, Fault::Order, found);
        }
        if is_open && let Some(next) = self.numbers.get_mut(header.queue as usize) {
            *next = None;
        }
        self.tagged = self.tagged.filter(|_| !is_written);
    }

    fn begin(
        &mut self,
        header: &Untagged,
        of: &Origin,
        found: &mut dyn FnMut(Message<'_>),
        piece: &Piece<'_>,
    ) {
        let number = header.message_number;
        if let Some(next) = self.numbers.get_mut(header.queue as usize) {
            let expected = next.replace(Next::after(number)).filter(|expected| !expected.is(number));
            if let (Some(Next { number: expected, .. }), Some(next)) = (expected, next) {
                next.or = Some(expected.wrapping_add(1));
                fault(piece, Fault::MessageNumber { found: number, expected }, found);
            }
        }
        self.bytes.clear();
        self.open = Some(Open {
            first: of.first,
            sequence: of.sequence,
            number,
            queue: header.queue,
            opcode: header.control.opcode,
            length: 0,
            missing: None,
            closed: false,
        });
    }

    fn take_tagged(&mut self, header: &Tagged, piece: &Piece<'_>, found: &mut dyn FnMut(Message<'_>)) {
        let Piece { of, seen, offset, bytes, length, .. } = *piece;
        let opcode = header.control.opcode;
        if offset == 0 && piece.of.length > 0 || self.tagged.is_none() {
            let length = u64::from(of.length);
            let next = header.offset.wrapping_add(length);
            let begun = OpenTagged {
                opcode,
                stag: header.stag,
                sequence: of.sequence,
                begins: header.offset,
                next,
                or: None,
            };
            let is_same = |open: &OpenTagged| (open.opcode, open.stag) == (opcode, header.stag);
            let continues = |open: &Interrupted| open.next == header.offset;
            self.tagged = Some(match self.tagged {
                Some(open) if is_same(&open) && open.next == header.offset => {
                    OpenTagged { next, or: None, ..open }
                }
                Some(open) if is_same(&open) => match open.or.filter(continues) {
                    Some(Interrupted { sequence, begins, .. }) => OpenTagged { sequence, begins, ..begun },
                    None => {
                        let expected = open.next;
                        fault(piece, Fault::MessageOffset { found: header.offset, expected }, found);
                        let OpenTagged { sequence, begins, .. } = open;
                        let next = expected.wrapping_add(length);
                        OpenTagged { or: Some(Interrupted { sequence, begins, next }), ..begun }
                    }
                },
                _ => begun,
            });
        }
        let Some(open) = self.tagged else { return };
        let ends = piece.end.is_some() && header.control.last;
        if ends {
            self.tagged = None;
        }
        if piece.is_missing {
            return;
        }
        let first = Position::of_sequence(open.sequence);
        let is_first = offset == 0 && open.begins == header.offset;
        let data = of.sequence.wrapping_add(of.data_begins()).wrapping_add(offset);
        let placement = Placement {
            seen,
            position: if is_first { first } else { Position::of_sequence(data) },
            first,
            request: None,
            memory: MemoryRange {
                rkey: header.stag,
                address: open.begins,
                length: u32::try_from(open.next.wrapping_sub(open.begins)).unwrap_or(u32::MAX),
            },
            address: header.offset.wrapping_add(offset.into()),
            bytes,
            length,
            repeated: false,
        };
        match opcode {
            Opcode::Write if length > 0 => found(Message::Delivery(Delivery::Write(placement))),
            Opcode::ReadResponse if length > 0 || ends => found(Message::ReadResponse(placement, ends)),
            _ => {}
        }
    }
}

fn fault(of: &Piece<'_>, fault: Fault, found: &mut dyn FnMut(Message<'_>)) {
    let control = of.of.header.control();
    let part = match (fault, control.last) {
        // A premature message is reported at its start.
        (Fault::Order, true) => Part::Only,
        (Fault::Order, false) => Part::First,
        (_, true) => Part::Last,
        (_, false) => Part::Middle,
    };
    found(Message::Delivery(Delivery::Faulty {
        seen: of.seen,
        piece: piece(control.opcode, part),
        position: Position::of_sequence(of.of.sequence),
        fault,
    }));
}

#[cfg(test)]
mod tests;
