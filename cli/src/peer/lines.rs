//! Output lines as text or JSON, printed as soon as something happens.

mod columns;
mod export;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use columns::LISTS;
pub(super) use export::{Export, File, Job, digest};

use crate::output::Format;
use core::fmt;
use rdmascope_analysis::units::{Bytes, Counted, Duration, Plain};
use rdmascope_peer::cm::Closed;
use rdmascope_peer::driver::{Counts, Kind};
use rdmascope_peer::nfs3;
use rdmascope_peer::rpcrdma::{Freed, Mechanism};
use rdmascope_present::json::write_line;
use rdmascope_present::text::Style;
use rdmascope_wire::cm::{self, Reply, reject_reason_name};
use rdmascope_wire::private_data::{self, Negotiated, PrivateData};
use rdmascope_wire::rpc::{self, program};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop, Xid};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// Writes a line and flushes it, so that a reader gets it at once.
pub(super) fn print(line: &Line, format: Format, style: Style, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Text => writeln!(out, "{}", Shown(line, style))?,
        Format::Jsonl => write_line(out, line)?,
    }
    out.flush()
}

/// An output line. `columns` and `export` define the columns of each kind.
#[derive(Debug)]
pub(super) enum Line {
    Sockets(Sockets),
    Connection(Connection),
    Call(Call),
    Chunk(Chunk),
    Export(Export),
    Entry(nfs3::Entry),
    Job(Job),
    File(File),
    End(End),
}

/// The sockets are open.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) sockets: &'static str,
    /// The device that replaces the sockets.
    pub(super) device: Option<String>,
    /// Whether raw sockets were requested and not permitted.
    pub(super) raw_refused: bool,
    pub(super) local: Vec<IpAddr>,
    pub(super) target: Option<SocketAddr>,
    pub(super) port: u16,
    /// For `serve`: the calls that are answered.
    pub(super) serves: Option<String>,
}

/// A connection was established, rejected or closed.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) remote: IpAddr,
    /// Why it ended; `None`: it was established.
    pub(super) closed: Option<Closed>,
    /// From the REQ; on the passive side, from the REP.
    pub(super) elapsed_ns: Option<u64>,
    /// The target's REP.
    pub(super) rep: Option<Reply<'static>>,
    /// The RFC 8797 private data of the remote side.
    pub(super) private_data: Option<PrivateData>,
    pub(super) negotiated: Option<Negotiated>,
}

impl Connection {
    /// An established connection; `private_data` is that of the remote side.
    pub(super) fn established(remote: IpAddr, private_data: &[u8]) -> Connection {
        let private_data = private_data::find(private_data).and_then(|found| found.fields.ok());
        Connection { remote, closed: None, elapsed_ns: None, rep: None, private_data, negotiated: None }
    }

    /// A connection that has ended.
    pub(super) fn closed(why: Closed, remote: IpAddr) -> Connection {
        let line = match &why {
            Closed::Rejected { private_data, .. } => Connection::established(remote, private_data),
            _ => Connection::established(remote, &[]),
        };
        Connection { closed: Some(why), ..line }
    }

    /// The reason of the REJ.
    fn reject_reason(&self) -> Option<u16> {
        match self.closed {
            Some(Closed::Rejected { reason, .. }) => Some(reason),
            _ => None,
        }
    }
}

/// Returns the longest time that the sender of a REP takes to acknowledge.
fn target_ack_delay(rep: &Reply<'_>) -> u64 {
    u64::try_from(cm::timeout(rep.target_ack_delay).as_nanos()).unwrap_or(u64::MAX)
}

/// A call and its result.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) remote: IpAddr,
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) xid: Xid,
    /// Program, version and procedure.
    pub(super) called: Option<(u32, u32, u32)>,
    /// `rpc_status` and `error` are as in docs/json.md.
    pub(super) rpc_status: Option<String>,
    pub(super) nfs_status: Option<String>,
    pub(super) error: Option<String>,
    pub(super) latency_ns: Option<u64>,
    pub(super) credits: Option<u32>,
    /// How the reply was conveyed.
    pub(super) mechanism: Option<Mechanism>,
}

/// A Read chunk of `serve` was freed.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) remote: IpAddr,
    pub(super) xid: Xid,
    pub(super) bytes: u64,
    pub(super) offered_ns: u64,
    pub(super) freed: Freed,
}

impl Call {
    /// A call with no other details.
    pub(super) fn new(remote: IpAddr, number: u64, xid: Xid) -> Call {
        Call {
            remote,
            number,
            xid,
            called: None,
            rpc_status: None,
            nfs_status: None,
            error: None,
            latency_ns: None,
            credits: None,
            mechanism: None,
        }
    }

    /// Adds the fields of a call.
    pub(super) fn called(&mut self, message: &[u8]) -> Result<(), Stop> {
        let call = rpc::Call::parse(&mut Reader::new(message, Layer::Rpc))?;
        self.called = Some((call.program, call.version, call.procedure));
        Ok(())
    }

    /// Adds the fields of its reply. Returns whether the RPC succeeded.
    pub(super) fn replied(&mut self, message: &[u8]) -> Result<bool, Stop> {
        let mut reader = Reader::new(message, Layer::Rpc);
        let reply = rpc::Reply::parse(&mut reader)?;
        let is_success = reply.status == rpc::Status::Success;
        self.rpc_status = Some(reply.status.to_string());
        let has_status = matches!(self.called, Some((program::NFS, nfs3::VERSION, 1..)));
        if is_success && has_status {
            // nfsstat3 is the first word of all results.
            let number = reader.u32()?;
            let status = nfs3::Status::from_number(number);
            self.nfs_status = Some(status.map_or_else(|| number.to_string(), |status| status.to_string()));
        }
        Ok(is_success)
    }
}

/// The command ends.
#[derive(Debug)]
pub(super) struct End {
    pub(super) calls: u64,
    pub(super) answered: u64,
    /// `None` for a device.
    pub(super) counts: Option<Counts>,
    /// Present if faults were requested.
    pub(super) faults: Option<Faults>,
}

/// Counts of injected faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) lost: u32,
    pub(super) repeated: u32,
    pub(super) delayed: u32,
}

/// Returns the name of the kind.
pub(super) fn sockets_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Raw => "raw",
        Kind::Udp => "udp",
    }
}

struct Shown<'a>(&'a Line, Style);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(line, style) = self;
        match line {
            Line::Sockets(sockets) => show_sockets(sockets, *style, f),
            Line::Connection(connection) => show_connection(connection, *style, f),
            Line::Call(call) => show_call(call, *style, f),
            Line::Chunk(chunk) => show_chunk(chunk, *style, f),
            Line::Export(line) => export::show_export(line, f),
            Line::Entry(line) => export::show_entry(line, f),
            Line::Job(line) => export::show_job(line, *style, f),
            Line::File(line) => export::show_file(line, f),
            Line::End(end) => {
                let End { calls, answered, counts, faults } = end;
                write!(f, "{}, {answered} answered", Counted(*calls, "call"))?;
                let Some(counts) = counts else { return Ok(()) };
                let Counts { sent, good, bad, unverified, .. } = counts;
                write!(
                    f,
                    "; {} sent; ICRCs received: {good} good, {}, {unverified} unverified",
                    Counted(*sent, "packet"),
                    style.red_if(*bad > 0, format_args!("{bad} bad")),
                )?;
                match faults {
                    Some(Faults { lost, repeated, delayed }) => {
                        write!(f, "; injected faults: {lost} lost, {repeated} duplicated, {delayed} delayed")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

fn show_sockets(line: &Sockets, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match line.target {
        Some(target) => write!(f, "{} from ", style.bold(target))?,
        None => write!(f, "listening on port {} at ", line.port)?,
    }
    for (index, local) in line.local.iter().enumerate() {
        write!(f, "{}{local}", if index == 0 { "" } else { ", " })?;
    }
    if let Some(device) = &line.device {
        return write!(f, ", device {}, by verbs", Plain(device));
    }
    match (line.sockets, line.raw_refused) {
        ("raw", _) => f.write_str(", raw sockets")?,
        (_, true) => f.write_str(", UDP sockets (raw ones are not permitted)")?,
        (_, false) => f.write_str(", UDP sockets")?,
    }
    if line.sockets != "raw" {
        let seen = |v6: bool| line.local.iter().any(|local| local.is_ipv6() == v6);
        if seen(false) {
            f.write_str("\n  IPv4: ICRC verification is uncertain if the sender sets an Identification")?;
        }
        if seen(true) {
            f.write_str(
                "\n  IPv6: UDP sockets do not receive packets without a UDP checksum, such as those of RoCE devices",
            )?;
        }
    }
    match &line.serves {
        Some(serves) => write!(f, "\n  {serves}; press Ctrl-C to stop"),
        None => Ok(()),
    }
}

fn show_connection(line: &Connection, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} ", line.remote)?;
    match &line.closed {
        None => f.write_str("connected")?,
        Some(Closed::Rejected { reason, .. }) => {
            let name = reject_reason_name(*reason).unwrap_or("unknown reason");
            write!(f, "{}, reason {reason} ({name})", style.red("rejected the connection"))?;
        }
        Some(Closed::NoAnswer) => write!(f, "{}", style.red("did not answer"))?,
        Some(Closed::Local) => f.write_str("connection closed")?,
        Some(Closed::Remote) => f.write_str("closed the connection")?,
        Some(Closed::LocalUnanswered) => write!(f, "{}", style.red("did not answer the DREQ"))?,
        Some(Closed::LocalReject) => write!(f, "{}", style.red("connection given up"))?,
        Some(Closed::GaveWay) => f.write_str("connection ended: it made room for another client")?,
    }
    if let Some(elapsed) = line.elapsed_ns {
        write!(f, " after {}", Duration(elapsed))?;
    }
    if let Some(rep) = &line.rep {
        write!(
            f,
            "\n  REP           queue pair 0x{:06x}, starting PSN {}, responder resources {}, initiator depth {}, RNR retry count {}, target \
             ACK delay {}{}",
            rep.local_qpn.0,
            rep.starting_psn,
            rep.responder_resources,
            rep.initiator_depth,
            rep.rnr_retry_count,
            Duration(target_ack_delay(rep)),
            if rep.end_to_end_flow_control { ", end-to-end flow control" } else { "" },
        )?;
    }
    if line.closed.is_none() {
        match &line.private_data {
            Some(data) => write!(
                f,
                "\n  private data  version {}, sends {} bytes, receives {} bytes, {} remote invalidation",
                data.version,
                data.send_bytes(),
                data.receive_bytes(),
                if data.remote_invalidation { "supports" } else { "does not support" },
            )?,
            None => f.write_str("\n  private data  no RFC 8797 data: inline thresholds are 1024 bytes")?,
        }
    }
    if let Some(Negotiated { call_inline_threshold, reply_inline_threshold, .. }) = line.negotiated {
        write!(
            f,
            "\n  agreed        inline thresholds {call_inline_threshold} bytes for calls, \
             {reply_inline_threshold} bytes for replies"
        )?;
    }
    Ok(())
}

fn show_call(call: &Call, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} call {} ", call.remote, call.number)?;
    match call.called {
        Some((program, version, procedure)) => {
            match program {
                program::NFS => write!(f, "NFSv{version}")?,
                _ => write!(f, "program {program} version {version}")?,
            }
            let nfs3 = (program, version) == (program::NFS, nfs3::VERSION);
            match (nfs3::Procedure::from_number(procedure), procedure) {
                (Some(known), _) if nfs3 => write!(f, " {known}: ")?,
                (_, 0) => f.write_str(" NULL: ")?,
                _ => write!(f, " procedure {procedure}: ")?,
            }
        }
        None => f.write_str("with an unreadable RPC header: ")?,
    }
    match (&call.nfs_status, &call.rpc_status, &call.error) {
        (Some(status), ..) => write!(f, "{}", Plain(status))?,
        (_, Some(status), _) => write!(f, "{}", style.red_if(status != "SUCCESS", Plain(status)))?,
        (_, _, Some(error)) => write!(f, "{}", style.red(Plain(error)))?,
        _ => write!(f, "{}", style.red("not answered"))?,
    }
    if let Some(latency) = call.latency_ns {
        write!(f, " in {}", Duration(latency))?;
    }
    if let Some(credits) = call.credits {
        write!(f, ", {credits} credits")?;
    }
    match call.mechanism {
        Some(Mechanism::ReplyChunk) => f.write_str(", in the Reply chunk"),
        Some(Mechanism::ReadChunk) => f.write_str(", in a Read chunk of the server"),
        Some(Mechanism::Send) | None => Ok(()),
    }
}

fn show_chunk(chunk: &Chunk, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Chunk { remote, xid, bytes, offered_ns, freed } = chunk;
    write!(
        f,
        "{remote} Read chunk of XID {xid}, {}: {} after {}",
        Bytes(*bytes),
        style.red_if(!freed.is_regular(), format_args!("freed, {freed}")),
        Duration(*offered_ns)
    )
}
