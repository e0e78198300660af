//! Packets, in words.

use crate::names;
use crate::text::{Bytes, Style};
use core::fmt::{self, Write as _};
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{self, IcrcVerdict, Other};
use rdmascope_dissector::record::Record;
use rdmascope_wire::bth::Acknowledgement;
use rdmascope_wire::rpcrdma::Header;

/// Why a record holds no transport packet.
pub struct NoPacket<'a>(pub Other<'a>, pub Record<'a>, pub Style);

impl fmt::Display for NoPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoPacket(other, record, style) = self;
        match other {
            Other::NotInfiniBand => write!(f, "no transport packet, {} bytes", record.original_length),
            Other::Tcp(segment) => write!(f, "{}", Segment(segment)),
            Other::Traffic(traffic) => write!(f, "{}, {} bytes", traffic.name(), record.original_length),
            Other::UnknownLinkType => write!(f, "link type {} is not understood", record.link.0),
            Other::Fragment => write!(f, "{}", style.yellow("fragment of an IP packet")),
            Other::Stop(stop) => write!(f, "{}", style.yellow(stop)),
        }
    }
}

/// A TCP segment: what it is, its ports, and where its payload stands in the stream.
struct Segment<'a>(&'a frame::Segment<'a>);

impl fmt::Display for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame::Segment { ports: [from, to], sequence, payload_length, syn, fin, rst, .. } = *self.0;
        let name = self.0.traffic().map_or("TCP", |traffic| traffic.name());
        write!(f, "{name} {from} -> {to}, sequence {sequence}, {payload_length} bytes")?;
        for (is_set, flag) in [(syn, "SYN"), (fin, "FIN"), (rst, "RST")] {
            if is_set {
                write!(f, ", {flag}")?;
            }
        }
        Ok(())
    }
}

/// A bad ICRC, with a space in front.
pub struct BadIcrc(Style);

impl BadIcrc {
    /// Where `packet` has one.
    pub fn of(packet: &Packet<'_>, style: Style) -> Option<BadIcrc> {
        packet.frame.is_ok_and(|frame| frame.icrc == IcrcVerdict::Bad).then_some(BadIcrc(style))
    }
}

impl fmt::Display for BadIcrc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.0.red("bad ICRC"))
    }
}

/// The packet that another one is a copy of, with a space in front.
pub struct Copy(u64, Style);

impl Copy {
    /// Where `packet` is one.
    pub fn of(packet: &Packet<'_>, style: Style) -> Option<Copy> {
        packet.copy_of.map(|first| Copy(first.frame, style))
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.1.yellow(format_args!("copy of frame {}", self.0)))
    }
}

/// Extension headers and payload, each with a space in front.
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

/// An RPC-over-RDMA header.
struct Summary<'a>(&'a Header<'a>);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.0;
        write!(f, "{} xid {} credits {}", header.procedure, header.xid, header.credits)?;
        if header.version != rdmascope_wire::rpcrdma::VERSION {
            write!(f, " version {}", header.version)?;
        }
        // Read segments of one Position are one chunk; in the order of the list, as they stand together.
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
