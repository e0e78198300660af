//! Output lines as text or JSON, printed as soon as something happens.

mod columns;
mod export;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use columns::LISTS;
pub(super) use export::{Entry, Export, File, Job, Path, digest};

use crate::output::Format;
use core::fmt;
use rdmascope_analysis::units::{Bytes, Counted, Duration, Plain};
use rdmascope_peer::cm::Closed;
use rdmascope_peer::driver::{Counts, Kind};
use rdmascope_peer::nfs3;
use rdmascope_peer::rpcrdma::{Freed, Mechanism};
use rdmascope_present::json::write_line;
use rdmascope_present::text::Style;
use rdmascope_wire::cm::{Reply, reject_reason_name};
use rdmascope_wire::private_data::{self, Negotiated};
use rdmascope_wire::rpc::{self, program};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Qpn, Stop, Xid};
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
    Connection(Box<Connection>),
    Call(Call),
    Chunk(Chunk),
    Export(Export),
    Entry(Entry),
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
    pub(super) state: State,
    pub(super) remote: IpAddr,
    /// From the REQ; on the passive side, from the REP.
    pub(super) elapsed_ns: Option<u64>,
    pub(super) reject_reason: Option<u16>,
    pub(super) reject_name: Option<&'static str>,
    pub(super) rep: Option<Rep>,
    pub(super) private_data: Option<PrivateData>,
    pub(super) call_inline_threshold: Option<u32>,
    pub(super) reply_inline_threshold: Option<u32>,
    pub(super) remote_invalidation: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Connected,
    Rejected,
    NoAnswer,
    Closed,
    ClosedByRemote,
    ClosedUnanswered,
    GivenUp,
    GaveWay,
}

impl Connection {
    /// A connection with no other details.
    pub(super) fn new(state: State, remote: IpAddr) -> Connection {
        Connection {
            state,
            remote,
            elapsed_ns: None,
            reject_reason: None,
            reject_name: None,
            rep: None,
            private_data: None,
            call_inline_threshold: None,
            reply_inline_threshold: None,
            remote_invalidation: None,
        }
    }

    /// A connection that has ended.
    pub(super) fn closed(why: &Closed, remote: IpAddr) -> Connection {
        let state = match why {
            Closed::Remote => State::ClosedByRemote,
            Closed::Local => State::Closed,
            Closed::LocalUnanswered => State::ClosedUnanswered,
            Closed::Rejected { .. } => State::Rejected,
            Closed::LocalReject => State::GivenUp,
            Closed::NoAnswer => State::NoAnswer,
            Closed::GaveWay => State::GaveWay,
        };
        let mut line = Connection::new(state, remote);
        if let Closed::Rejected { reason, private_data } = why {
            line.reject_reason = Some(*reason);
            line.reject_name = reject_reason_name(*reason);
            line.private_data = PrivateData::find(private_data);
        }
        line
    }

    pub(super) fn agreed(&mut self, negotiated: &Negotiated) {
        self.call_inline_threshold = Some(negotiated.call_inline_threshold);
        self.reply_inline_threshold = Some(negotiated.reply_inline_threshold);
        self.remote_invalidation = Some(negotiated.remote_invalidation);
    }
}

/// The fields of the target's REP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rep {
    pub(super) qpn: Qpn,
    pub(super) starting_psn: u32,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) target_ack_delay_ns: u64,
    pub(super) end_to_end_flow_control: bool,
}

impl Rep {
    pub(super) fn of(reply: &Reply<'_>) -> Rep {
        let delay = rdmascope_wire::cm::timeout(reply.target_ack_delay);
        Rep {
            qpn: reply.local_qpn,
            starting_psn: reply.starting_psn.value(),
            responder_resources: reply.responder_resources,
            initiator_depth: reply.initiator_depth,
            rnr_retry_count: reply.rnr_retry_count,
            target_ack_delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            end_to_end_flow_control: reply.end_to_end_flow_control,
        }
    }
}

/// The RFC 8797 private data of the remote side.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrivateData {
    version: u8,
    remote_invalidation: bool,
    send_size: u32,
    receive_size: u32,
}

impl PrivateData {
    pub(super) fn find(bytes: &[u8]) -> Option<PrivateData> {
        let fields = private_data::find(bytes)?.fields.ok()?;
        Some(PrivateData {
            version: fields.version,
            remote_invalidation: fields.remote_invalidation,
            send_size: fields.send_bytes(),
            receive_size: fields.receive_bytes(),
        })
    }
}

/// A call and its result.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) remote: IpAddr,
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) xid: Xid,
    pub(super) program: Option<u32>,
    pub(super) version: Option<u32>,
    pub(super) procedure: Option<u32>,
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
            program: None,
            version: None,
            procedure: None,
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
        self.program = Some(call.program);
        self.version = Some(call.version);
        self.procedure = Some(call.procedure);
        Ok(())
    }

    /// Adds the fields of its reply. Returns whether the RPC succeeded.
    pub(super) fn replied(&mut self, message: &[u8]) -> Result<bool, Stop> {
        let mut reader = Reader::new(message, Layer::Rpc);
        let reply = rpc::Reply::parse(&mut reader)?;
        let is_success = reply.status == rpc::Status::Success;
        self.rpc_status = Some(reply.status.to_string());
        let is_nfs3 = (self.program, self.version) == (Some(program::NFS), Some(nfs3::VERSION));
        if is_success && is_nfs3 && self.procedure != Some(0) {
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
    /// Packet counts; unknown for a device.
    pub(super) sent: Option<u64>,
    pub(super) icrc_good: Option<u64>,
    pub(super) icrc_bad: Option<u64>,
    pub(super) icrc_unverified: Option<u64>,
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

impl End {
    pub(super) fn new(calls: u64, answered: u64, counts: Option<Counts>, faults: Option<Faults>) -> End {
        End {
            calls,
            answered,
            sent: counts.map(|counts| counts.sent),
            icrc_good: counts.map(|counts| counts.good),
            icrc_bad: counts.map(|counts| counts.bad),
            icrc_unverified: counts.map(|counts| counts.unverified),
            faults,
        }
    }
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
                let End { calls, answered, sent, icrc_good, icrc_bad, icrc_unverified, faults } = end;
                write!(f, "{}, {answered} answered", Counted(*calls, "call"))?;
                let (Some(sent), Some(icrc_good), Some(icrc_bad), Some(icrc_unverified)) =
                    (sent, icrc_good, icrc_bad, icrc_unverified)
                else {
                    return Ok(());
                };
                write!(
                    f,
                    "; {} sent; ICRCs received: {icrc_good} good, {}, \
                     {icrc_unverified} unverified",
                    Counted(*sent, "packet"),
                    style.red_if(*icrc_bad > 0, format_args!("{icrc_bad} bad")),
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
    match line.state {
        State::Connected => f.write_str("connected")?,
        State::Rejected => {
            let reason = line.reject_reason.unwrap_or_default();
            let name = line.reject_name.unwrap_or("unknown reason");
            write!(f, "{}, reason {reason} ({name})", style.red("rejected the connection"))?;
        }
        State::NoAnswer => write!(f, "{}", style.red("did not answer"))?,
        State::Closed => f.write_str("connection closed")?,
        State::ClosedByRemote => f.write_str("closed the connection")?,
        State::ClosedUnanswered => write!(f, "{}", style.red("did not answer the DREQ"))?,
        State::GivenUp => write!(f, "{}", style.red("connection given up"))?,
        State::GaveWay => f.write_str("connection ended: it made room for another client")?,
    }
    if let Some(elapsed) = line.elapsed_ns {
        write!(f, " after {}", Duration(elapsed))?;
    }
    if let Some(rep) = &line.rep {
        write!(
            f,
            "\n  REP           queue pair 0x{:06x}, starting PSN {}, responder resources {}, initiator depth {}, RNR retry count {}, target \
             ACK delay {}{}",
            rep.qpn.0,
            rep.starting_psn,
            rep.responder_resources,
            rep.initiator_depth,
            rep.rnr_retry_count,
            Duration(rep.target_ack_delay_ns),
            if rep.end_to_end_flow_control { ", end-to-end flow control" } else { "" },
        )?;
    }
    if line.state == State::Connected {
        match &line.private_data {
            Some(data) => write!(
                f,
                "\n  private data  version {}, sends {} bytes, receives {} bytes, {} remote invalidation",
                data.version,
                data.send_size,
                data.receive_size,
                if data.remote_invalidation { "supports" } else { "does not support" },
            )?,
            None => f.write_str("\n  private data  no RFC 8797 data: inline thresholds are 1024 bytes")?,
        }
    }
    if let (Some(call), Some(reply)) = (line.call_inline_threshold, line.reply_inline_threshold) {
        write!(f, "\n  agreed        inline thresholds {call} bytes for calls, {reply} bytes for replies")?;
    }
    Ok(())
}

fn show_call(call: &Call, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} call {} ", call.remote, call.number)?;
    match (call.program, call.version, call.procedure) {
        (Some(program), Some(version), Some(procedure)) => {
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
        _ => f.write_str("with an unreadable RPC header: ")?,
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
