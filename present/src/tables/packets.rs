//! Packets, one line each.

use crate::names;
use crate::text::{Bytes, Left, Seconds, Style};
use core::fmt::{self, Write as _};
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{IcrcVerdict, Other};
use rdmascope_dissector::record::Time;
use rdmascope_wire::bth::Acknowledgement;
use rdmascope_wire::rpcrdma::Header;
use std::io::{self, Write};

/// The line of headings.
pub fn write_heading(style: Style, out: &mut impl Write) -> io::Result<()> {
    let line = format!(
        "{:>7} {:>11} {:15}    {:15} {:28} {:8} {:>8} {}",
        "frame", "seconds", "source", "destination", "opcode", "QP", "PSN", "carries"
    );
    writeln!(out, "{}", style.bold(line))
}

/// The line of `packet`, in a capture that starts at `start`.
pub fn write_row(packet: &Packet<'_>, start: Time, style: Style, out: &mut impl Write) -> io::Result<()> {
    let seconds = Seconds(packet.record.time.0.saturating_sub(start.0));
    write!(out, "{:>7} {seconds:>11} ", packet.record.number)?;
    let frame = match packet.frame {
        Ok(frame) => frame,
        Err(other) => {
            let bytes = packet.record.original_length;
            return match other {
                Other::NotInfiniBand => writeln!(out, "no transport packet, {bytes} bytes"),
                Other::UnknownLinkType => {
                    writeln!(out, "link type {} is not understood", packet.record.link.0)
                }
                Other::Fragment => writeln!(out, "{}", style.yellow("fragment of an IP packet")),
                Other::Stop(stop) => writeln!(out, "{}", style.yellow(stop)),
            };
        }
    };
    write!(out, "{} -> {} ", Left(frame.source, 15), Left(frame.destination, 15))?;
    match &packet.headers {
        Some(Ok(headers)) => {
            let bth = &headers.bth;
            write!(out, "{} {} {:>8}", Left(bth.opcode, 28), bth.destination_qp, bth.psn.value())?;
            write!(out, "{}", Carried(headers))?;
        }
        Some(Err(stop)) => write!(out, "{}", style.yellow(stop))?,
        None => {}
    }
    if frame.icrc == IcrcVerdict::Bad {
        write!(out, " {}", style.red("bad ICRC"))?;
    }
    writeln!(out)
}

/// Extension headers and payload, each with a space in front.
struct Carried<'a>(&'a Headers<'a>);

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
