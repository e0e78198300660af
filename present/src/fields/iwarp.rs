//! Fields of a TCP segment and its iWARP contents: start frames and FPDUs (RFC 5044), DDP segments
//! (RFC 5041), RDMAP messages (RFC 5040).

use super::headers::consumer_data;
use super::rpc::{self, SendBytes};
use super::{Field, Value, by_layout, with_name_in};
use core::ops::Range;
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::frame::{Checksum, Segment};
use rdmascope_dissector::iwarp::{self, CrcVerdict, Fpdu, Part};
use rdmascope_dissector::protocol::Traffic;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::Layer;
use rdmascope_wire::ddp::{Control, Header, Tagged, Untagged};
use rdmascope_wire::layout::Layout;
use rdmascope_wire::mpa::{CRC_LENGTH, LENGTH_FIELD, ReadDepths, StartFrame};
use rdmascope_wire::rdmap::{Opcode, ReadRequest, Terminate};
use rdmascope_wire::{Stop, xdr};

/// RFC 9293, section 3.1.
const TCP: Layout = Layout(&[
    ("Source Port", 16),
    ("Destination Port", 16),
    ("Sequence Number", 32),
    ("Acknowledgment Number", 32),
    ("Data Offset", 4),
    ("reserved", 4),
    ("CWR", 1),
    ("ECE", 1),
    ("URG", 1),
    ("ACK", 1),
    ("PSH", 1),
    ("RST", 1),
    ("SYN", 1),
    ("FIN", 1),
    ("Window", 16),
    ("Checksum", 16),
    ("Urgent Pointer", 16),
]);
/// RFC 5044, section 4.1.
const ULPDU_LENGTH: Layout = Layout(&[("ULPDU_Length", 16)]);
/// RFC 5044, section 4.3.
const MARKER: Layout = Layout(&[("reserved", 16), ("FPDUPTR", 16)]);

/// Adds the header and the contents of `segment`.
pub(super) fn segment(
    packet: &Packet<'_>,
    segment: &Segment<'_>,
    transaction: Option<&Transaction>,
    fields: &mut Vec<Field>,
) {
    let bytes = packet.record.data;
    fields.push(header(segment, bytes));
    let base = segment.payload_offset;
    let parts = packet.parts();
    let shown = Shown { bytes, base, parts, speaks_rpc: packet.speaks_rpc, transaction };
    let mut end = base.min(bytes.len());
    for part in parts {
        let place = shown.place(part.place());
        if end < place.start {
            fields.push(unknown("repeated, or not recognized as an FPDU", end..place.start));
        }
        end = end.max(place.end);
        fields.push(match part {
            Part::Start(_, frame) => shown.start_frame(frame, place),
            Part::Fpdu(fpdu) => shown.fpdu(fpdu, place),
            Part::Indication(whole, crc) => shown.indication(whole, *crc, place),
            Part::Begun(_) => Field::new("FPDU", "begins here; its header ends in a later segment", place),
            Part::Marker(_) => {
                let children = by_layout(MARKER, &bytes[..place.end], place.start, |_, _| None);
                Field::new("Marker", "", place).with(children)
            }
        });
    }
    let payload_end = bytes.len().min(base.saturating_add(segment.payload.len()));
    if end < payload_end {
        let description = match packet.contents {
            Some(_) => "repeated, or not recognized as an FPDU",
            None => segment.traffic().and_then(Traffic::name).unwrap_or("TCP data"),
        };
        fields.push(unknown(description, end..payload_end));
    }
    let cut = u64::from(segment.payload_length) - segment.payload.len() as u64;
    if cut > 0 {
        fields.push(Field::known("cut", format!("{cut} more bytes were on the wire")));
    }
}

/// The description of a CRC.
fn verdict_on(crc: CrcVerdict) -> &'static str {
    match crc {
        CrcVerdict::Good => "right",
        CrcVerdict::Bad => "wrong: a receiver ends the connection",
        CrcVerdict::Unused => "not used",
        CrcVerdict::Unverifiable => "not verifiable from what was captured",
    }
}

fn unknown(description: &str, place: Range<usize>) -> Field {
    Field::new("payload", format!("{} bytes: {description}", place.len()), place)
}

fn header(segment: &Segment<'_>, bytes: &[u8]) -> Field {
    let length = segment.header_length();
    let at = segment.payload_offset - length;
    let end = segment.payload_offset.min(bytes.len());
    let show = |name: &str, value: Value<'_>| match name {
        "Checksum" => {
            let verdict = match segment.checksum() {
                Checksum::Good => "right",
                Checksum::Unfinished => "left to the network adapter",
                Checksum::Bad => "wrong: a receiver drops this segment",
                Checksum::Unverifiable => "not verifiable from what was captured",
            };
            Some(format!("0x{:04x}, {verdict}", value.number?))
        }
        _ => None,
    };
    let mut children = by_layout(TCP, &bytes[..end], at, show);
    let options = at + TCP.length()..end;
    if !options.is_empty() {
        children.push(Field::new("options", format!("{} bytes", options.len()), options));
    }
    let [from, to] = segment.ports;
    Field::new("TCP", format!("{from} -> {to}"), at..end).with(children)
}

/// The segment that is shown.
struct Shown<'a> {
    /// The record.
    bytes: &'a [u8],
    /// The offset of the payload in the record.
    base: usize,
    parts: &'a [Part],
    /// Whether Sends are RPC-over-RDMA messages.
    speaks_rpc: bool,
    transaction: Option<&'a Transaction>,
}

impl Shown<'_> {
    /// Converts a range of the payload to a range of the record, limited to the captured bytes.
    fn place(&self, place: &Range<usize>) -> Range<usize> {
        let at = |offset: usize| self.base.saturating_add(offset).min(self.bytes.len());
        at(place.start)..at(place.end)
    }

    /// Whether a marker is within this range of the payload.
    fn has_marker(&self, place: &Range<usize>) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| matches!(part, Part::Marker(marker) if marker.start < place.end && place.start < marker.end))
    }

    fn start_frame(&self, frame: &StartFrame, place: Range<usize>) -> Field {
        let at = place.start;
        let bytes = &self.bytes[..place.end];
        let show = |name: &str, value: Value<'_>| match name {
            "Key" => Some(String::from_utf8_lossy(value.bytes).escape_debug().to_string()),
            _ => None,
        };
        let mut children = by_layout(StartFrame::LAYOUT, bytes, at, show);
        let mut data_start = at + StartFrame::LENGTH;
        let (depths, _) = frame.private_data(bytes.get(data_start..).unwrap_or_default());
        if depths.is_some() {
            let fields = by_layout(ReadDepths::LAYOUT, bytes, data_start, |_, _| None);
            let end = data_start + ReadDepths::LENGTH;
            children.push(Field::new("Enhanced connection setup", "RFC 6581", data_start..end).with(fields));
            data_start = end;
        }
        children.extend(consumer_data(bytes, data_start));
        let name = if frame.is_request() { "MPA Request" } else { "MPA Reply" };
        let value = if frame.rejected { "the connection is rejected" } else { "" };
        Field::new(name, value, place).with(children)
    }

    fn fpdu(&self, fpdu: &Fpdu, place: Range<usize>) -> Field {
        let mut children = self.ddp(fpdu);
        let data = self.place(&fpdu.data);
        if !fpdu.data.is_empty() {
            children.extend(self.data(fpdu, data.clone()));
        }
        let length = fpdu.place.len();
        match fpdu.crc {
            Some(verdict) => {
                let verdict = verdict_on(verdict);
                let field = length.saturating_sub(CRC_LENGTH)..length;
                let field = fpdu.place.start + field.start..fpdu.place.start + field.end;
                let padding = self.place(&(fpdu.data.end.min(field.start)..field.start));
                if fpdu.data.end > fpdu.place.start && !padding.is_empty() {
                    children.push(Field::new("padding", format!("{} bytes", padding.len()), padding));
                }
                children.push(Field::new("CRC", verdict, self.place(&field)));
            }
            None => {
                let rest = self.place(&(fpdu.data.end..fpdu.place.end));
                if !rest.is_empty() {
                    let value = format!("the first {} bytes", rest.len());
                    children.push(Field::new("padding and CRC", value, rest));
                }
                children.push(Field::known("continued", "the FPDU continues in the next segment"));
            }
        }
        let mut value = described(&fpdu.header);
        for (applies, remark) in
            [(!fpdu.begins, "begun in an earlier segment"), (fpdu.is_inferred, "position inferred")]
        {
            if applies {
                value = format!("{value}; {remark}");
            }
        }
        Field::new("FPDU", value, place).with(children)
    }

    /// An FPDU without a ULPDU that ends in this segment.
    fn indication(&self, whole: &Range<usize>, crc: CrcVerdict, place: Range<usize>) -> Field {
        let at = whole.end.saturating_sub(CRC_LENGTH).max(whole.start);
        let crc = Field::new("CRC", verdict_on(crc), self.place(&(at..whole.end)));
        Field::new("FPDU", "without a ULPDU: the initiator is ready to receive", place).with(vec![crc])
    }

    /// The length field and the header of the DDP segment. The fields have no bytes if they are in
    /// an earlier segment, or interrupted by a marker.
    fn ddp(&self, fpdu: &Fpdu) -> Vec<Field> {
        let begin = fpdu.place.start;
        let header = begin + LENGTH_FIELD..begin + LENGTH_FIELD + fpdu.header.length();
        let header_place = self.place(&header);
        let is_together =
            fpdu.begins && !self.has_marker(&(begin..header.end)) && header_place.len() == header.len();
        let (own, at);
        let bytes = if is_together {
            at = header_place.start;
            &self.bytes[..header_place.end]
        } else {
            own = match &fpdu.header {
                Header::Tagged(header) => header.to_bytes().to_vec(),
                Header::Untagged(header) => header.to_bytes().to_vec(),
            };
            at = 0;
            &own[..]
        };
        let layout = match fpdu.header {
            Header::Tagged(_) => Tagged::LAYOUT,
            Header::Untagged(_) => Untagged::LAYOUT,
        };
        // In the layout, the control fields are one field.
        let mut fields = by_layout(Control::LAYOUT, bytes, at, ddp_value);
        fields.extend(by_layout(layout, bytes, at, ddp_value).into_iter().skip(1));
        let mut children = Vec::new();
        if is_together {
            children.extend(by_layout(ULPDU_LENGTH, self.bytes, at - LENGTH_FIELD, |_, _| None));
        } else {
            fields.iter_mut().for_each(|field| (field.range, field.mask) = (None, None));
        }
        let range = is_together.then_some(header_place);
        children.push(Field { name: "DDP and RDMAP".into(), range, children: fields, ..Field::default() });
        children
    }

    /// The data of a DDP segment.
    fn data(&self, fpdu: &Fpdu, data: Range<usize>) -> Vec<Field> {
        let opcode = fpdu.header.control().opcode;
        let is_front = fpdu.data_offset == 0
            && matches!(fpdu.header, Header::Untagged(header) if header.message_offset == 0)
            && !self.has_marker(&fpdu.data);
        let bytes = &self.bytes[..data.end];
        let cut = data.len() < fpdu.data.len();
        match opcode {
            Opcode::Send
            | Opcode::SendWithInvalidate
            | Opcode::SendWithSolicitedEvent
            | Opcode::SendWithSolicitedEventAndInvalidate
                if is_front && self.speaks_rpc =>
            {
                let bytes = &bytes[data.start..];
                let continues = !fpdu.header.control().last || fpdu.data.len() < fpdu.length as usize;
                let send = SendBytes { bytes, base: data.start, cut, continues };
                let xid = xdr::Reader::new(bytes, Layer::RpcRdma).u32();
                rpc::send(send, self.transaction.filter(|transaction| Ok(transaction.xid.0) == xid))
            }
            Opcode::ReadRequest if is_front => {
                let mut fields = by_layout(ReadRequest::LAYOUT, bytes, data.start, ddp_value);
                fields.extend(stop(data.len(), ReadRequest::LENGTH, data.start));
                fields
            }
            Opcode::Terminate if is_front => self.terminate(bytes, data),
            _ => {
                let (from, to) = (fpdu.data_offset, fpdu.data_offset as usize + fpdu.data.len());
                let part = format!("{} bytes of {}", fpdu.data.len(), with_article(opcode));
                let value = match fpdu.length as usize {
                    total if total == fpdu.data.len() => part,
                    total => format!("{part}: {from} to {to} of {total} in this FPDU"),
                };
                vec![Field::new("data", value, data)]
            }
        }
    }

    fn terminate(&self, bytes: &[u8], data: Range<usize>) -> Vec<Field> {
        let mut fields = by_layout(Terminate::LAYOUT, bytes, data.start, ddp_value);
        fields.extend(stop(data.len(), Terminate::LENGTH, data.start));
        let Ok(terminate) = Terminate::parse(&bytes[data.start..]) else { return fields };
        fields.push(Field::known("reason", iwarp::failure(terminate).to_string()));
        let rest = data.start + Terminate::LENGTH..data.end;
        if !rest.is_empty() {
            let value = format!("{} bytes: length and headers of the segment at fault", rest.len());
            fields.push(Field::new("Terminated", value, rest));
        }
        fields
    }
}

/// A stop for a truncated header.
fn stop(length: usize, needed: usize, at: usize) -> Option<Field> {
    (length < needed).then(|| Field::stop(Stop::short(Layer::Rdmap, 0, needed, length), at))
}

/// Describes a segment and its message.
fn described(header: &Header) -> String {
    let control = header.control();
    let last = if control.last { ", last segment" } else { "" };
    match header {
        Header::Tagged(header) => {
            let Tagged { stag, offset, .. } = header;
            format!("{}, {stag} at 0x{offset:016x}{last}", control.opcode.name())
        }
        Header::Untagged(header) => {
            let Untagged { message_number, message_offset, .. } = header;
            let at = if *message_offset > 0 { format!(" at {message_offset}") } else { String::new() };
            format!("{}, MSN {message_number}{at}{last}", control.opcode.name())
        }
    }
}

fn with_article(opcode: Opcode) -> String {
    let article = match opcode {
        Opcode::Write | Opcode::ReadRequest | Opcode::ReadResponse => "an",
        Opcode::AtomicRequest | Opcode::AtomicResponse => "an",
        Opcode::ImmediateData | Opcode::ImmediateDataWithSolicitedEvent => return opcode.name().to_owned(),
        _ => "a",
    };
    format!("{article} {}", opcode.name())
}

fn ddp_value(name: &str, value: Value<'_>) -> Option<String> {
    let number = value.number?;
    Some(match name {
        "Opcode" => format!("{} ({number})", Opcode::from_bits(u8::try_from(number).ok()?).name()),
        "STag" | "Invalidate STag" | "Data Sink STag" | "Data Source STag" => format!("0x{number:08x}"),
        "Tagged Offset" | "Data Sink Tagged Offset" | "Data Source Tagged Offset" => {
            format!("0x{number:016x}")
        }
        "Layer" => with_name_in(number, &["RDMAP", "DDP", "MPA"]),
        "Error Code" => format!("0x{number:02x}"),
        _ => return None,
    })
}
