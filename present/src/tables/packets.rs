//! Properties of packets, in words.

use crate::text::Style;
use core::fmt::{self, Write as _};
use rdmascope_analysis::names;
use rdmascope_analysis::units::Bytes;
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{self, IcrcVerdict, Other};
use rdmascope_dissector::iwarp::{self, CrcVerdict, Fpdu, Part};
use rdmascope_dissector::protocol::Traffic;
use rdmascope_wire::bth::Acknowledgement;
use rdmascope_wire::ddp::Header;
use rdmascope_wire::rdmap::{Opcode, Terminate};
use rdmascope_wire::rpcrdma;

/// Why a record has neither a transport packet nor a TCP segment.
pub struct NoPacket<'a>(&'a Packet<'a>, Style);

impl<'a> NoPacket<'a> {
    /// Returns `Some` if `packet` has neither.
    pub fn of(packet: &'a Packet<'a>, style: Style) -> Option<NoPacket<'a>> {
        (packet.frame.is_err() && packet.segment().is_none()).then_some(NoPacket(packet, style))
    }
}

impl fmt::Display for NoPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoPacket(packet, style) = self;
        let length = packet.record.wire_length();
        match packet.frame {
            Ok(_) | Err(Other::Tcp(_)) => Ok(()),
            Err(Other::Traffic(traffic)) => write!(f, "{traffic}, {length} bytes"),
            Err(Other::UnknownLinkType) => write!(f, "link type {} is not supported", packet.record.link.0),
            Err(Other::Fragment) => write!(f, "{}", style.yellow("fragment of an IP packet")),
            Err(Other::Stop(stop)) => write!(f, "{}", style.yellow(stop)),
        }
    }
}

/// The contents of a packet: those of its headers, or of its TCP segment, with a leading space.
pub struct Carries<'a>(&'a Packet<'a>, Style);

impl<'a> Carries<'a> {
    /// Returns `Some` if `packet` has readable headers or is a TCP segment.
    pub fn of(packet: &'a Packet<'a>, style: Style) -> Option<Carries<'a>> {
        (packet.readable_headers().is_some() || packet.segment().is_some()).then_some(Carries(packet, style))
    }
}

impl fmt::Display for Carries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Carries(packet, style) = *self;
        if let Some(headers) = packet.readable_headers() {
            return Carried(headers).fmt(f);
        }
        let Some(segment) = packet.segment() else { return Ok(()) };
        let parts = packet.parts();
        f.write_char(' ')?;
        if !parts.is_empty() {
            write!(f, "{}; ", Parts(parts, packet, segment.payload, style))?;
        }
        Segment(segment).fmt(f)
    }
}

/// The opcode of a packet; for a TCP segment of iWARP, each RDMAP opcode of its FPDUs once.
pub struct Opcodes<'a>(&'a Packet<'a>);

impl<'a> Opcodes<'a> {
    /// Returns `Some` if `packet` has an opcode.
    pub fn of(packet: &'a Packet<'a>) -> Option<Opcodes<'a>> {
        let is_some = packet.readable_headers().is_some() || packet.opcodes().next().is_some();
        is_some.then_some(Opcodes(packet))
    }
}

impl fmt::Display for Opcodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(headers) = self.0.readable_headers() {
            return headers.bth.opcode.fmt(f);
        }
        let mut names: Vec<&str> = Vec::new();
        for opcode in self.0.opcodes() {
            if !names.contains(&opcode.name()) {
                names.push(opcode.name());
            }
        }
        f.pad(&names.join(", "))
    }
}

/// A TCP segment: flags, ports, sequence number and payload length.
struct Segment<'a>(&'a frame::Segment<'a>);

impl fmt::Display for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame::Segment { ports: [from, to], sequence, payload_length, syn, fin, rst, .. } = *self.0;
        let name = self.0.traffic().and_then(Traffic::name).unwrap_or("TCP");
        write!(f, "{name} {from} -> {to}, sequence {sequence}, {payload_length} bytes")?;
        for (is_set, flag) in [(syn, "SYN"), (fin, "FIN"), (rst, "RST")] {
            if is_set {
                write!(f, ", {flag}")?;
            }
        }
        Ok(())
    }
}

/// The contents of an iWARP TCP segment's payload. Empty if nothing was recognized.
pub struct SegmentContents<'a>(pub &'a Packet<'a>);

impl fmt::Display for SegmentContents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Err(Other::Tcp(segment)) = self.0.frame else { return Ok(()) };
        Parts(self.0.parts(), self.0, segment.payload, Style::default()).fmt(f)
    }
}

/// The contents of a segment's payload, separated by commas. Consecutive FPDUs of one message are
/// shown as one.
struct Parts<'a>(&'a [Part], &'a Packet<'a>, &'a [u8], Style);

impl fmt::Display for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts(parts, packet, payload, style) = *self;
        let mut separator = "";
        let mut rest = parts.iter().filter(|part| !matches!(part, Part::Marker(_))).peekable();
        while let Some(part) = rest.next() {
            f.write_str(core::mem::replace(&mut separator, ", "))?;
            let first = match part {
                Part::Start(_, frame) => {
                    let kind = if frame.is_request() { "Request" } else { "Reply" };
                    write!(f, "MPA {kind}, revision {}", frame.revision)?;
                    if frame.rejected {
                        write!(f, ", {}", style.red("rejected"))?;
                    }
                    continue;
                }
                Part::Indication(_, crc) => {
                    f.write_str("ready to receive, 0 bytes")?;
                    if *crc == CrcVerdict::Bad {
                        write!(f, " {}", style.red("bad CRC"))?;
                    }
                    continue;
                }
                Part::Begun(_) => {
                    f.write_str("an FPDU begins")?;
                    continue;
                }
                Part::Marker(_) => continue,
                Part::Fpdu(fpdu) => fpdu,
            };
            let (mut count, mut bytes, mut is_bad) =
                (1, first.data.len(), first.crc == Some(CrcVerdict::Bad));
            while let Some(Part::Fpdu(next)) =
                rest.next_if(|part| matches!(part, Part::Fpdu(next) if is_of_one(first, next)))
            {
                (count, bytes) = (count + 1, bytes + next.data.len());
                is_bad |= next.crc == Some(CrcVerdict::Bad);
            }
            let name = first.header.control().opcode.name();
            write!(f, "{name} {bytes} bytes")?;
            if count > 1 {
                write!(f, " in {count} FPDUs")?;
            }
            match first.header {
                Header::Tagged(header) => {
                    let offset = header.offset.wrapping_add(u64::from(first.data_offset));
                    write!(f, " of {} at 0x{offset:016x}", header.stag)?;
                }
                Header::Untagged(header) => {
                    write!(f, " msn {}", header.message_number)?;
                    if header.message_offset > 0 || first.data_offset > 0 {
                        f.write_str(" continued")?;
                    } else if let Some(header) = rpcrdma_header(packet, first, payload) {
                        write!(f, " {}", Summary(&header))?;
                    } else if header.control.opcode == Opcode::Terminate
                        && let Ok(terminate) = Terminate::parse(data(first, payload))
                    {
                        write!(f, ": {}", iwarp::failure(terminate))?;
                    }
                }
            }
            if is_bad {
                write!(f, " {}", style.red("bad CRC"))?;
            }
        }
        Ok(())
    }
}

/// Whether an FPDU continues the message of another one.
fn is_of_one(first: &Fpdu, next: &Fpdu) -> bool {
    match (&first.header, &next.header) {
        (Header::Tagged(first), Header::Tagged(next)) => {
            (first.control.opcode, first.stag) == (next.control.opcode, next.stag)
        }
        (Header::Untagged(first), Header::Untagged(next)) => {
            (first.queue, first.message_number) == (next.queue, next.message_number)
        }
        _ => false,
    }
}

/// The data of an FPDU that are in this segment.
fn data<'a>(fpdu: &Fpdu, payload: &'a [u8]) -> &'a [u8] {
    payload.get(fpdu.data.start..fpdu.data.end.min(payload.len())).unwrap_or_default()
}

/// The RPC-over-RDMA header at the start of the first Send of an iWARP segment, if one begins there.
pub fn header_in_segment<'a>(packet: &'a Packet<'_>) -> Option<rpcrdma::Header<'a>> {
    let segment = packet.segment()?;
    let header = |part: &Part| match part {
        Part::Fpdu(fpdu) => rpcrdma_header(packet, fpdu, segment.payload),
        _ => None,
    };
    packet.parts().iter().find_map(header)
}

/// The RPC-over-RDMA header at the start of a Send, as far as the segment contains it.
fn rpcrdma_header<'a>(packet: &Packet<'_>, fpdu: &Fpdu, payload: &'a [u8]) -> Option<rpcrdma::Header<'a>> {
    let Header::Untagged(header) = fpdu.header else { return None };
    let is_front = header.message_offset == 0 && fpdu.data_offset == 0 && header.control.opcode.is_send();
    rpcrdma::Header::parse(data(fpdu, payload)).ok().filter(|_| is_front && packet.speaks_rpc)
}

/// A bad ICRC, with a leading space.
pub struct BadIcrc(Style);

impl BadIcrc {
    /// Returns `Some` if the ICRC of `packet` is bad.
    pub fn of(packet: &Packet<'_>, style: Style) -> Option<BadIcrc> {
        packet.frame.is_ok_and(|frame| frame.icrc == IcrcVerdict::Bad).then_some(BadIcrc(style))
    }
}

impl fmt::Display for BadIcrc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.0.red("bad ICRC"))
    }
}

/// The original of a copied packet, with a leading space.
pub struct Copy(u64, Style);

impl Copy {
    /// Returns `Some` if `packet` is a copy.
    pub fn of(packet: &Packet<'_>, style: Style) -> Option<Copy> {
        packet.copy_of.map(|first| Copy(first.frame, style))
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.1.yellow(format_args!("copy of frame {}", self.0)))
    }
}

/// Extension headers and payload, each with a leading space.
pub struct Carried<'a>(pub &'a Headers<'a>);

impl fmt::Display for Carried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = self.0;
        let extensions = &headers.extensions;
        if let Some(reth) = extensions.reth {
            write!(f, " {} of {} at 0x{:016x}", reth.dma_length, reth.rkey, reth.virtual_address)?;
        }
        if let Some(aeth) = extensions.aeth {
            match aeth.syndrome.kind() {
                Acknowledgement::Ack { .. } => f.write_str(" ACK")?,
                Acknowledgement::RnrNak { timer } => write!(f, " RNR NAK, timer {timer}")?,
                Acknowledgement::Nak(code) => write!(f, " NAK, {code}")?,
                Acknowledgement::Reserved(detail) => write!(f, " reserved syndrome {detail}")?,
            }
        }
        if let Some(rkey) = extensions.ieth {
            write!(f, " invalidates {rkey}")?;
        }
        match &headers.content {
            Content::Cm(message) => {
                write!(f, " {}", message.name())?;
                names::cm_fields(message, f)
            }
            Content::RpcRdma(header) => write!(f, " {}", Summary(header)),
            Content::Other if headers.payload_length > 0 => write!(f, " {} bytes", headers.payload_length),
            Content::Other => Ok(()),
        }
    }
}

/// A summary of an RPC-over-RDMA header.
struct Summary<'a>(&'a rpcrdma::Header<'a>);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.0;
        write!(f, "{} xid {} credits {}", header.procedure, header.xid, header.credits)?;
        if header.version != rdmascope_wire::rpcrdma::VERSION {
            write!(f, " version {}", header.version)?;
        }
        // Consecutive Read segments with the same Position are one chunk.
        let mut reads = header.reads.peekable();
        while let Some(first) = reads.next() {
            let mut length = u64::from(first.target.length);
            while let Some(next) = reads.next_if(|next| next.position == first.position) {
                length += u64::from(next.target.length);
            }
            write!(f, " read {}@{}", Bytes(length), first.position)?;
        }
        for chunk in header.writes {
            write!(f, " write {}", Bytes(chunk.length()))?;
        }
        if let Some(chunk) = header.reply {
            write!(f, " reply chunk {}", Bytes(chunk.length()))?;
        }
        if let Some(error) = header.error {
            write!(f, " {error}")?;
        }
        if let Some(stop) = header.stop {
            f.write_char(' ')?;
            write!(f, "({stop})")?;
        }
        Ok(())
    }
}
