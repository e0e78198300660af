//! FPDUs in the stream of one end (RFC 5044).
//!
//! The stream has a start frame and then FPDUs. Each FPDU has a length, which determines where the
//! next one begins, also across a gap that lies within one FPDU. If the capture starts in
//! mid-connection, or a gap is longer than the rest of its FPDU, the next start is searched for: it
//! is inferred from the headers, length and CRC of a candidate.
//!
//! An FPDU may span many segments, and a segment may have many FPDUs. The data is passed on piece
//! by piece, without a copy.

use super::Run;
use super::search::{find, find_marker};
use crate::record::Seen;
use alloc::vec::Vec;
use rdmascope_wire::ddp::{Control, Header, Untagged};
use rdmascope_wire::mpa::{
    CRC_LENGTH, Crc, LENGTH_FIELD, MARKER_INTERVAL, MARKER_LENGTH, StartFrame, fpdu_length, padding,
};

/// Framing state of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Framing {
    state: State,
    /// Whether FPDUs have CRCs.
    pub(super) crc: CrcUse,
    /// Wrong CRCs are ignored.
    pub(super) overlooks_crc: bool,
    markers: Option<Markers>,
    /// Whether the first bytes after the start frame are a marker, and the packet that has them.
    pub(super) shown: Option<(Seen, bool)>,
    /// Sequence number of the first FPDU, until its first bytes arrive.
    first: Option<u32>,
    /// The first FPDU may be a ready-to-receive indication without data (RFC 6581, section 9).
    expects_indication: bool,
    /// The start frames show whether there is a ready-to-receive indication. Otherwise the first Send
    /// may be one, because the capture lacks a start frame or has it late.
    knows_indication: bool,
    /// It is known whether the stream has markers.
    knows_markers: bool,
    /// Sequence number of the first of the consecutive FPDUs without a marker, while it is unknown
    /// whether the stream has markers.
    plain_since: Option<u32>,
    /// Number of FPDUs whose start was inferred.
    pub(super) inferred: u32,
}

/// Whether this is the header of the first Send of an end.
fn begins_sends(header: &Header) -> bool {
    matches!(header, Header::Untagged(Untagged { queue: 0, message_number: 1, .. }))
}

#[derive(Clone, Debug, Default)]
enum State {
    /// No bytes of the stream were seen.
    #[default]
    Untouched,
    /// Within a start frame.
    Starting { first: Seen, bytes: Vec<u8> },
    /// The start of the next FPDU is unknown.
    Searching,
    /// Within an FPDU, or before its first byte.
    Fpdu(Fpdu),
    /// Within the CRC of an FPDU without a ULPDU.
    Indication(Fpdu),
}

/// Whether FPDUs have CRCs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CrcUse {
    /// The start frames were not captured, and no FPDU has shown it.
    #[default]
    Unknown,
    /// They have CRCs.
    On,
    /// The CRC field is present and not used.
    Off,
}

/// The markers of a stream.
#[derive(Clone, Copy, Debug)]
struct Markers {
    /// Sequence number of the next marker.
    next: u32,
    /// Remaining bytes of the current marker.
    left: u32,
}

/// The current FPDU.
#[derive(Clone, Copy, Debug)]
struct Fpdu {
    /// The packet with its first byte, and the sequence number of that byte.
    first: Option<(Seen, u32)>,
    /// Its length field and headers, as far as they have arrived.
    head: [u8; Fpdu::HEAD],
    /// Bytes that have arrived, without markers.
    done: u32,
    /// Its length field and its header, once complete.
    parsed: Option<(u16, Header)>,
    crc: Crc,
    /// The bytes of its CRC field, as far as they have arrived.
    field: [u8; CRC_LENGTH],
    /// All bytes that the CRC covers so far were captured and checksummed.
    complete: bool,
    /// Its start follows from the previous FPDU, which had no fault, or from the start frame.
    certain: bool,
    /// It may be a ready-to-receive indication.
    may_indicate: bool,
}

impl Fpdu {
    /// Length of the length field and the longest header in bytes.
    const HEAD: usize = LENGTH_FIELD + Untagged::LENGTH;
    /// Length of an FPDU without a ULPDU in bytes.
    const EMPTY: usize = fpdu_length(0);

    fn new(certain: bool) -> Fpdu {
        Fpdu {
            first: None,
            head: [0; Fpdu::HEAD],
            done: 0,
            parsed: None,
            crc: Crc::default(),
            field: [0; CRC_LENGTH],
            complete: true,
            certain,
            may_indicate: false,
        }
    }
}

impl Fpdu {
    /// Adds bytes to the CRC, unless CRCs are not used.
    fn cover(&mut self, run: &Run<'_>, crc: CrcUse) {
        self.complete &= run.bytes.len() == run.length as usize && crc != CrcUse::Off;
        if self.complete {
            self.crc.update(run.bytes);
        }
    }
}

/// The start and the header of an FPDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The packet with its first byte.
    pub(super) first: Seen,
    /// Sequence number of its first byte.
    pub(super) sequence: u32,
    /// Header of its DDP segment.
    pub(super) header: Header,
    /// Length of the data after that header in bytes.
    pub(super) length: u32,
    /// Its start follows from the previous FPDU or the start frame.
    pub(super) is_certain: bool,
    /// Sequence number of a marker, if the stream has markers.
    pub(super) marker: Option<u32>,
    /// It may be a ready-to-receive indication.
    pub(super) may_indicate: bool,
}

/// A part of the data of an FPDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// The FPDU.
    pub(super) of: Origin,
    /// The packet.
    pub(super) seen: Seen,
    /// Sequence number of its first byte.
    pub(super) sequence: u32,
    /// Offset of its first byte in the data of the FPDU.
    pub(super) offset: u32,
    /// Captured bytes.
    pub(super) bytes: &'a [u8],
    /// Length on the wire in bytes.
    pub(super) length: u32,
    /// It is missing from the capture.
    pub(super) is_missing: bool,
    /// The end of the FPDU, if this is its last piece.
    pub(super) end: Option<End>,
}

/// The end of an FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Sequence number after it.
    pub(super) sequence: u32,
    pub(super) crc: CrcVerdict,
    /// Bits in which the CRC differs from the computed one; 0 if none was computed.
    pub(super) difference: u32,
}

/// The verdict on the CRC of an FPDU (RFC 5044, section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrcVerdict {
    /// The CRC is correct.
    Good,
    /// The CRC is wrong. A receiver drops the FPDU and ends the connection.
    Bad,
    /// CRCs are not used, so the field has no meaning.
    Unused,
    /// The capture lacks bytes that the CRC covers, the use of CRCs or markers is unknown, or wrong
    /// CRCs are ignored.
    Unverifiable,
}

/// A unit found in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit<'a> {
    /// A start frame, with the captured bytes of its private data and the sequence number after it.
    Start(Seen, StartFrame, &'a [u8], u32),
    /// A part of an FPDU.
    Piece(Piece<'a>),
    /// An FPDU without a ULPDU, which is a ready-to-receive indication: the packet with its first
    /// byte, the sequence number of that byte, its bytes, and its end.
    Indication(Seen, u32, [u8; Fpdu::EMPTY], End),
    /// The rest of the current unit cannot be found.
    Lost,
    /// The header of an FPDU is in a captured segment, but the capture lacks those bytes. The units
    /// up to the end of that segment cannot be found.
    Cut,
    /// An FPDU with an invalid length or header: the packet, the sequence number of its first byte,
    /// its length field and its control fields.
    Malformed(Seen, u32, [u8; LENGTH_FIELD + Control::LENGTH]),
}

impl Framing {
    /// Bytes of heap memory used.
    pub(super) fn footprint(&self) -> usize {
        if let State::Starting { bytes, .. } = &self.state { bytes.capacity() } else { 0 }
    }

    /// Sequence number of the start of the current FPDU.
    pub(super) fn begun(&self) -> Option<u32> {
        if let State::Fpdu(fpdu) = &self.state { fpdu.first.map(|(_, sequence)| sequence) } else { None }
    }

    /// Returns a framing that searches for FPDUs and keeps the properties of the whole stream.
    pub(super) fn searching(&self) -> Framing {
        let Framing { crc, overlooks_crc, knows_indication, knows_markers, .. } = *self;
        let state = State::Searching;
        Framing { state, crc, overlooks_crc, knows_indication, knows_markers, ..Framing::default() }
    }

    /// The start of the current FPDU, and its header if it is complete.
    pub(super) fn unfinished(&self) -> Option<(u32, Option<Origin>)> {
        let State::Fpdu(fpdu) = &self.state else { return None };
        let begin = fpdu.first?;
        let of = fpdu.parsed.map(|parsed| Origin::new(fpdu, begin, parsed, self.markers));
        Some((begin.1, of))
    }

    /// The markers in `length` bytes from `from` on: the sequence number of each, and its number of
    /// bytes in that range.
    pub(super) fn markers(&self, from: u32, length: u32) -> impl Iterator<Item = (u32, u32)> {
        let begun = self.markers.map_or(0, |markers| markers.left).min(length);
        let first = self.markers.map_or(length, |markers| markers.next.wrapping_sub(from));
        let begun = (begun > 0).then_some((from, begun));
        let later = (first..length).step_by(MARKER_INTERVAL as usize);
        let marker = move |at: u32| (from.wrapping_add(at), (length - at).min(MARKER_LENGTH as u32));
        begun.into_iter().chain(later.map(marker))
    }

    /// Applies the other end's request for markers from a sequence number on, or for none. Markers
    /// seen in the stream take precedence.
    pub(super) fn insert_markers(&mut self, from: Option<u32>) {
        if self.shown.is_none() {
            self.markers = from.map(|next| Markers { next, left: 0 });
            self.knows_markers = true;
        }
    }

    /// Notes that the first FPDU may be a ready-to-receive indication, unless it has already
    /// arrived.
    pub(super) fn expect_indication(&mut self) {
        self.expects_indication = self.first.is_some();
    }

    /// Notes that the start frames show whether there is a ready-to-receive indication.
    pub(super) fn know_indication(&mut self) {
        self.knows_indication = true;
    }

    /// Examines the first bytes after the start frame: either a marker or a length. The length is 0
    /// only in a ready-to-receive indication.
    fn look_for_markers(&mut self, run: &Run<'_>) {
        if self.first.take() == Some(run.sequence)
            && let Some(begun) = run.bytes.first_chunk::<LENGTH_FIELD>()
        {
            let may_be_empty = self.expects_indication && self.markers.is_none();
            let are_present =
                *begun == [0; LENGTH_FIELD] && (!may_be_empty || find_marker(run.bytes) == Some(0));
            self.shown = Some((run.seen, are_present));
            self.knows_markers = true;
            self.markers = are_present.then_some(Markers { next: run.sequence, left: 0 });
        }
    }

    /// Whether the next bytes start an FPDU or are unknown.
    fn is_between_fpdus(&self) -> bool {
        matches!(self.state, State::Untouched | State::Searching | State::Fpdu(Fpdu { first: None, .. }))
    }

    /// Processes the next bytes of the stream.
    pub(super) fn take(&mut self, mut run: Run<'_>, found: &mut dyn FnMut(Unit<'_>)) {
        while run.length > 0 {
            if self.first.is_some() {
                self.look_for_markers(&run);
            }
            if !self.knows_markers
                && self.is_between_fpdus()
                && let Some(marker) = find_marker(run.bytes)
            {
                self.knows_markers = true;
                self.markers = Some(Markers { next: run.sequence.wrapping_add(marker), left: 0 });
                if marker > 0 && matches!(self.state, State::Untouched | State::Searching) {
                    self.infer(true);
                }
            }
            let Some(markers) = &mut self.markers else {
                run = self.take_plain(run, found);
                continue;
            };
            if markers.left > 0 {
                let marker = run.limit(markers.left);
                markers.left -= marker.length;
                if let State::Fpdu(fpdu) = &mut self.state {
                    fpdu.cover(&marker, self.crc);
                }
                run = run.skip(marker.length);
                continue;
            }
            let ahead = markers.next.wrapping_sub(run.sequence);
            if ahead == 0 {
                *markers =
                    Markers { next: markers.next.wrapping_add(MARKER_INTERVAL), left: MARKER_LENGTH as u32 };
                if matches!(self.state, State::Untouched | State::Searching)
                    && run.bytes.first_chunk() == Some(&[0; MARKER_LENGTH])
                {
                    // A marker whose pointer is 0 precedes an FPDU (RFC 5044, section 4.3).
                    self.infer(true);
                }
                continue;
            }
            let before = run.limit(ahead);
            run = run.skip(before.length);
            self.take_plain(before, found);
        }
    }

    /// Notes that the next bytes are inferred to start an FPDU.
    fn infer(&mut self, certain: bool) {
        self.inferred = self.inferred.saturating_add(1);
        self.state = State::Fpdu(Fpdu::new(certain));
    }

    /// Processes bytes without markers. Returns the bytes after a start frame, which may contain
    /// markers, and those of the next FPDU while it is unknown whether the stream has markers.
    fn take_plain<'a>(&mut self, mut run: Run<'a>, found: &mut dyn FnMut(Unit<'_>)) -> Run<'a> {
        while run.length > 0 {
            match &mut self.state {
                State::Untouched => {
                    let key = &run.bytes[..run.bytes.len().min(16)];
                    self.state = if is_begun(key) {
                        State::Starting { first: run.seen, bytes: Vec::new() }
                    } else {
                        State::Searching
                    };
                }
                State::Starting { first, bytes } => {
                    let first = *first;
                    let needed = match bytes.first_chunk() {
                        Some(header) => {
                            StartFrame::LENGTH
                                + usize::from(StartFrame::from_bytes(header).private_data_length)
                        }
                        None => StartFrame::LENGTH,
                    };
                    let piece = run.limit((needed - bytes.len()) as u32);
                    bytes.extend_from_slice(piece.bytes);
                    run = run.skip(piece.length);
                    if !is_begun(&bytes[..bytes.len().min(StartFrame::REQUEST.len())]) {
                        // It does not continue like the key of a start frame.
                        self.state = State::Searching;
                        continue;
                    }
                    let is_cut = piece.bytes.len() < piece.length as usize;
                    let is_complete = bytes.len() == needed && needed > StartFrame::LENGTH
                        || bytes.first_chunk().is_some_and(|header| {
                            bytes.len() == StartFrame::LENGTH
                                && StartFrame::from_bytes(header).private_data_length == 0
                        });
                    if !is_cut && !is_complete {
                        continue;
                    }
                    let bytes = core::mem::take(bytes);
                    self.state = State::Searching;
                    // The end of the frame is known even if its private data was truncated.
                    let Some((header, data)) = bytes.split_first_chunk() else { continue };
                    let frame = StartFrame::from_bytes(header);
                    if frame.private_data_length <= StartFrame::MOST_PRIVATE_DATA {
                        self.state = State::Fpdu(Fpdu::new(true));
                        self.first = Some(run.sequence);
                    }
                    found(Unit::Start(first, frame, data, run.sequence));
                    return run;
                }
                State::Searching => {
                    let crc = if self.overlooks_crc { CrcUse::Off } else { self.crc };
                    let Some(at) = find(&run, crc) else { return run.skip(run.length) };
                    run = run.skip(at);
                    self.infer(false);
                    self.plain_since = Some(run.sequence);
                }
                State::Fpdu(_) => run = self.take_fpdu(run, found),
                State::Indication(_) => run = self.take_indication(run, found),
            }
            if !self.knows_markers && matches!(self.state, State::Fpdu(Fpdu { first: None, .. })) {
                return run;
            }
        }
        run
    }

    /// Processes the next bytes of an FPDU. Returns the rest.
    fn take_fpdu<'a>(&mut self, run: Run<'a>, found: &mut dyn FnMut(Unit<'_>)) -> Run<'a> {
        let State::Fpdu(fpdu) = &mut self.state else { return run };
        let begin = *fpdu.first.get_or_insert((run.seen, run.sequence));
        let Some((ulpdu_length, header)) = fpdu.parsed else {
            let sequence = begin.1;
            let done = fpdu.done as usize;
            // The control fields determine the length of the header.
            let needed = match Control::parse(&fpdu.head[LENGTH_FIELD..done.max(LENGTH_FIELD)]) {
                Ok(control) => LENGTH_FIELD + control.header_length(),
                Err(_) => LENGTH_FIELD + Control::LENGTH,
            };
            let piece = run.limit((needed - done) as u32);
            if piece.bytes.len() < piece.length as usize {
                self.state = State::Searching;
                found(Unit::Cut);
                return run.skip(run.length);
            }
            fpdu.head[done..done + piece.bytes.len()].copy_from_slice(piece.bytes);
            fpdu.cover(&piece, self.crc);
            fpdu.done += piece.length;
            let length = u16::from_be_bytes([fpdu.head[0], fpdu.head[1]]);
            if fpdu.done as usize == LENGTH_FIELD + padding(0) && length == 0 && self.expects_indication {
                self.expects_indication = false;
                self.state = State::Indication(*fpdu);
                return run.skip(piece.length);
            }
            if fpdu.done as usize == needed && needed > LENGTH_FIELD + Control::LENGTH {
                let header = Header::parse(&fpdu.head[LENGTH_FIELD..needed]);
                fpdu.may_indicate = core::mem::take(&mut self.expects_indication)
                    || !self.knows_indication && header.as_ref().is_ok_and(begins_sends);
                let header = header.ok().filter(|header| usize::from(length) >= header.length());
                // Until it is known that the stream has no markers, a marker may be in the place of
                // the next FPDU.
                let certain = fpdu.certain && self.knows_markers;
                fpdu.parsed = header.filter(|header| certain || header.is_regular()).map(|it| (length, it));
                let ahead = self.plain_since.map(|since| sequence.wrapping_sub(since));
                self.knows_markers |= fpdu.parsed.is_some() && ahead >= Some(MARKER_INTERVAL);
                if fpdu.parsed.is_none() {
                    let fields = core::array::from_fn(|at| fpdu.head[at]);
                    self.state = State::Searching;
                    found(if certain { Unit::Malformed(run.seen, sequence, fields) } else { Unit::Lost });
                }
            }
            return run.skip(piece.length);
        };
        let of = Origin::new(fpdu, begin, (ulpdu_length, header), self.markers);
        let (data_begins, data_ends) = (of.data_begins(), of.data_ends());
        let crc_begins = data_ends + padding(ulpdu_length) as u32;
        let all = crc_begins + CRC_LENGTH as u32;
        // The data of the FPDU in this run.
        let data = run.limit(data_ends.saturating_sub(fpdu.done));
        let offset = fpdu.done.min(data_ends) - data_begins;
        fpdu.cover(&data, self.crc);
        fpdu.done += data.length;
        let mut rest = run.skip(data.length);
        let mut end = None;
        if fpdu.done >= data_ends {
            let pad = rest.limit(crc_begins.saturating_sub(fpdu.done));
            fpdu.cover(&pad, self.crc);
            fpdu.done += pad.length;
            rest = rest.skip(pad.length);
            if fpdu.done >= crc_begins {
                let field = rest.limit(all - fpdu.done);
                let at = (fpdu.done - crc_begins) as usize;
                fpdu.field[at..at + field.bytes.len()].copy_from_slice(field.bytes);
                fpdu.complete &= field.bytes.len() == field.length as usize;
                fpdu.done += field.length;
                rest = rest.skip(field.length);
            }
            if fpdu.done == all {
                let Fpdu { complete, crc, field, .. } = *fpdu;
                let computed = complete.then(|| crc.finish());
                let of_field = |bytes: [u8; CRC_LENGTH]| u32::from_le_bytes(bytes);
                let difference = computed.map_or(0, |computed| of_field(computed) ^ of_field(field));
                let crc = self.judge_crc(computed, field);
                end = Some(End { sequence: rest.sequence, crc, difference });
                // After a damaged or irregular FPDU, the length may be wrong too.
                let is_sound = crc != CrcVerdict::Bad && header.is_regular();
                self.state = State::Fpdu(Fpdu::new(is_sound));
            }
        }
        if data.length > 0 || end.is_some() {
            let Run { seen, sequence, bytes, length } = data;
            found(Unit::Piece(Piece { of, seen, sequence, offset, bytes, length, is_missing: false, end }));
        }
        rest
    }

    /// Processes the CRC of an FPDU without a ULPDU. Returns the rest.
    fn take_indication<'a>(&mut self, run: Run<'a>, found: &mut dyn FnMut(Unit<'_>)) -> Run<'a> {
        let State::Indication(fpdu) = &mut self.state else { return run };
        let (seen, sequence) = *fpdu.first.get_or_insert((run.seen, run.sequence));
        let field = run.limit(Fpdu::EMPTY as u32 - fpdu.done);
        let at = fpdu.done as usize - (Fpdu::EMPTY - CRC_LENGTH);
        fpdu.field[at..at + field.bytes.len()].copy_from_slice(field.bytes);
        fpdu.complete &= field.bytes.len() == field.length as usize;
        fpdu.done += field.length;
        let rest = run.skip(field.length);
        if fpdu.done as usize == Fpdu::EMPTY {
            let Fpdu { complete, crc, field, head, .. } = *fpdu;
            let computed = complete.then(|| crc.finish());
            let crc = self.judge_crc(computed, field);
            let difference = computed.map_or(0, |it| u32::from_be_bytes(it) ^ u32::from_be_bytes(field));
            let mut bytes = [0; Fpdu::EMPTY];
            let (before, after) = bytes.split_at_mut(Fpdu::EMPTY - CRC_LENGTH);
            before.copy_from_slice(&head[..Fpdu::EMPTY - CRC_LENGTH]);
            after.copy_from_slice(&field);
            self.state = State::Fpdu(Fpdu::new(crc != CrcVerdict::Bad));
            let end = End { sequence: rest.sequence, crc, difference };
            found(Unit::Indication(seen, sequence, bytes, end));
        }
        rest
    }

    /// Judges a CRC. If the use of CRCs is unknown, the first FPDU decides it.
    ///
    /// `computed` is `None` if bytes are missing or CRCs are not used.
    fn judge_crc(&mut self, computed: Option<[u8; CRC_LENGTH]>, found: [u8; CRC_LENGTH]) -> CrcVerdict {
        match (self.crc, computed) {
            (CrcUse::Off, _) => CrcVerdict::Unused,
            (_, None) => CrcVerdict::Unverifiable,
            (_, Some(computed)) if computed == found => {
                self.crc = CrcUse::On;
                CrcVerdict::Good
            }
            (CrcUse::On, _) if self.overlooks_crc || !self.knows_markers => CrcVerdict::Unverifiable,
            (CrcUse::On, _) => {
                // An end that sends no CRC is reported once.
                self.crc = if found == [0; CRC_LENGTH] { CrcUse::Off } else { CrcUse::On };
                CrcVerdict::Bad
            }
            (CrcUse::Unknown, _) if found == [0; CRC_LENGTH] => {
                self.crc = CrcUse::Off;
                CrcVerdict::Unused
            }
            (CrcUse::Unknown, _) => CrcVerdict::Unverifiable,
        }
    }

    /// Skips bytes that the capture lacks, from this sequence number on.
    pub(super) fn skip(&mut self, from: u32, count: u32, found: &mut dyn FnMut(Unit<'_>)) {
        let bytes = self.markers.as_mut().map_or(count, |markers| markers.skip(from, count));
        let State::Fpdu(fpdu) = &mut self.state else {
            if matches!(self.state, State::Starting { .. } | State::Indication(_)) {
                self.state = State::Searching;
            }
            return;
        };
        // The next FPDU is not the first one if that is in the gap.
        self.expects_indication &= fpdu.first.is_some();
        let known = fpdu.parsed.zip(fpdu.first).filter(|((length, _), _)| {
            // The gap lies within the FPDU.
            fpdu_length(*length) as u32 - fpdu.done >= bytes
        });
        let Some(((ulpdu_length, header), begin)) = known else {
            self.state = State::Searching;
            return found(Unit::Lost);
        };
        let of = Origin::new(fpdu, begin, (ulpdu_length, header), self.markers);
        let offset = fpdu.done.min(of.data_ends()) - of.data_begins();
        let length = (fpdu.done + bytes).min(of.data_ends()) - of.data_begins() - offset;
        fpdu.done += bytes;
        fpdu.complete = false;
        let is_over = fpdu.done as usize == fpdu_length(ulpdu_length);
        if is_over {
            self.state = State::Fpdu(Fpdu::new(true));
        }
        let crc = if self.crc == CrcUse::Off { CrcVerdict::Unused } else { CrcVerdict::Unverifiable };
        let end = is_over.then_some(End { sequence: from.wrapping_add(count), crc, difference: 0 });
        let (seen, sequence) = (begin.0, from);
        found(Unit::Piece(Piece { of, seen, sequence, offset, bytes: &[], length, is_missing: true, end }));
    }
}

impl Origin {
    /// Creates the origin of an FPDU from its first byte, length field and header.
    fn new(
        fpdu: &Fpdu,
        (first, sequence): (Seen, u32),
        (ulpdu_length, header): (u16, Header),
        markers: Option<Markers>,
    ) -> Origin {
        let length = u32::from(ulpdu_length) - header.length() as u32;
        let marker = markers.map(|markers| markers.next);
        let Fpdu { certain, may_indicate, .. } = *fpdu;
        Origin { first, sequence, header, length, is_certain: certain, marker, may_indicate }
    }

    /// Offset of the data in the FPDU.
    pub(super) fn data_begins(&self) -> u32 {
        (LENGTH_FIELD + self.header.length()) as u32
    }

    /// Offset of the padding in the FPDU.
    fn data_ends(&self) -> u32 {
        self.data_begins() + self.length
    }
}

impl Markers {
    /// Skips `count` bytes of the stream. Returns the number of those that are not in markers.
    fn skip(&mut self, from: u32, count: u32) -> u32 {
        let begun = self.left.min(count);
        self.left -= begun;
        let ahead = self.next.wrapping_sub(from);
        let Some(rest) = count.checked_sub(ahead).filter(|rest| *rest > 0) else {
            return count - begun;
        };
        let last = (rest - 1) / MARKER_INTERVAL;
        let of_last = (rest - last * MARKER_INTERVAL).min(MARKER_LENGTH as u32);
        self.left = MARKER_LENGTH as u32 - of_last;
        self.next = self.next.wrapping_add((last + 1).wrapping_mul(MARKER_INTERVAL));
        count - begun - last * MARKER_LENGTH as u32 - of_last
    }
}

/// Whether bytes may start a start frame: they are a prefix of a key.
fn is_begun(bytes: &[u8]) -> bool {
    !bytes.is_empty() && [StartFrame::REQUEST, StartFrame::REPLY].iter().any(|key| key.starts_with(bytes))
}

#[cfg(test)]
pub(super) mod tests;
