//! The RDMA traffic of a capture by intervals of equal length, whatever protocol it carries, and
//! within them by half-flow: the packets to one queue pair.

use crate::ending::Ending;
use crate::intervals::{ByInterval, TooMany};
use rdmascope_dissector::connection::{ConnectionId, FlowKey};
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::frame::{Address, Other};
use rdmascope_dissector::protocol::Traffic;
use rdmascope_dissector::record::Time;
use rdmascope_wire::Qpn;
use rdmascope_wire::bth::Opcode;
use std::collections::BTreeMap;

/// The packets to one queue pair, and with one DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The receiver's queue pair; its TCP port for iWARP.
    pub queue_pair: u32,
    /// The DSCP of the IP header (RFC 2474); `None` for RoCEv1, InfiniBand and iWARP.
    pub dscp: Option<u8>,
}

/// Counts of packets. Copies count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Bytes after the transport headers.
    pub bytes: u64,
    /// Bytes of the packets on the wire.
    pub wire_bytes: u64,
    /// Packets with ECN "congestion experienced", FECN or BECN.
    pub congestion_marks: u64,
    /// Congestion notification packets. They also count as packets.
    pub notifications: u64,
}

impl Sent {
    fn add(&mut self, other: Sent) {
        self.packets += other.packets;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.wire_bytes = self.wire_bytes.saturating_add(other.wire_bytes);
        self.congestion_marks += other.congestion_marks;
        self.notifications += other.notifications;
    }
}

/// The counts of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All RDMA packets.
    pub sent: Sent,
    /// Pause frames of PFC.
    pub priority_pauses: u64,
    /// Other pause frames of Ethernet.
    pub pauses: u64,
}

/// The RDMA traffic of a capture by intervals. The first interval starts with the first packet.
#[derive(Debug)]
pub struct Flows {
    /// The length of an interval in nanoseconds; not 0.
    length: u64,
    totals: BTreeMap<u64, Counts>,
    rows: BTreeMap<(u64, Flow), (Option<ConnectionId>, Sent)>,
}

/// A row with its figures.
#[derive(Clone, Copy, Debug)]
pub struct FlowFigures {
    /// The start of the interval.
    pub start: Time,
    /// The length of the interval in nanoseconds, at least 1. The last interval ends with the
    /// capture.
    pub length: u64,
    /// The packets that were counted; `None` for all RDMA packets.
    pub flow: Option<Flow>,
    /// Their connection, if it has a number.
    pub connection: Option<ConnectionId>,
    /// The counts. Pause frames belong to no flow.
    pub counts: Counts,
}

impl FlowFigures {
    /// Payload bytes per second.
    pub fn rate(&self) -> f64 {
        self.counts.sent.bytes as f64 * 1e9 / self.length as f64
    }
}

impl Flows {
    /// Creates the collector. `length` is the length of an interval in nanoseconds, and not 0.
    pub fn new(length: u64) -> Flows {
        Flows { length: length.max(1), totals: BTreeMap::new(), rows: BTreeMap::new() }
    }

    /// Takes the next packet of a capture that starts at `start`.
    pub fn take(&mut self, packet: &Packet<'_>, start: Time) -> Result<(), TooMany> {
        let number = packet.record.time.since(start) / self.length;
        if let Err(Other::Traffic(traffic @ (Traffic::PriorityPause | Traffic::Pause))) = packet.frame {
            let counts = self.totals.entry(number).or_default();
            counts.priority_pauses += u64::from(traffic == Traffic::PriorityPause);
            counts.pauses += u64::from(traffic == Traffic::Pause);
        }
        let Some((flow, sent)) = Flow::of(packet).filter(|_| packet.copy_of.is_none()) else { return Ok(()) };
        self.totals.entry(number).or_default().sent.add(sent);
        let (connection, sum) = self.rows.entry((number, flow)).or_default();
        *connection = packet.connection.or(*connection);
        sum.add(sent);
        let rows = self.rows.len() + self.totals.len();
        if rows > ByInterval::MOST_ROWS { Err(TooMany) } else { Ok(()) }
    }

    /// The rows of whole intervals, in order of time. Intervals without RDMA have a row too.
    pub fn totals(&self, ending: &Ending) -> Result<Vec<FlowFigures>, TooMany> {
        let Some((start, end)) = ending.totals.span else { return Ok(Vec::new()) };
        let last = end.since(start) / self.length;
        if last >= ByInterval::MOST_ROWS as u64 {
            return Err(TooMany);
        }
        let counts = |number| self.totals.get(&number).copied().unwrap_or_default();
        Ok((0..=last).map(|number| self.figures((start, end), number, None, None, counts(number))).collect())
    }

    /// The rows of half-flows, in order of time.
    pub fn flows(&self, ending: &Ending) -> impl Iterator<Item = FlowFigures> {
        let span = ending.totals.span.unwrap_or_default();
        self.rows.iter().map(move |((number, flow), (connection, sent))| {
            self.figures(span, *number, Some(*flow), *connection, Counts { sent: *sent, ..Counts::default() })
        })
    }

    fn figures(
        &self,
        (start, end): (Time, Time),
        number: u64,
        flow: Option<Flow>,
        connection: Option<ConnectionId>,
        counts: Counts,
    ) -> FlowFigures {
        let begin = start.plus(number.saturating_mul(self.length));
        FlowFigures {
            start: begin,
            length: self.length.min(end.since(begin)).max(1),
            flow,
            connection,
            counts,
        }
    }
}

impl Flow {
    /// The half-flow of an RDMA packet and its counts; `None` for other traffic.
    fn of(packet: &Packet<'_>) -> Option<(Flow, Sent)> {
        let wire_bytes = u64::from(packet.record.wire_length());
        let sent = Sent { packets: 1, wire_bytes, ..Sent::default() };
        if let Some(segment) = packet.segment().filter(|_| packet.of_connection) {
            let [_, queue_pair] = segment.ports.map(u32::from);
            let (source, destination) = (segment.source, segment.destination);
            let flow = Flow { source, destination, queue_pair, dscp: None };
            return Some((flow, Sent { bytes: u64::from(segment.payload_length), ..sent }));
        }
        let (Ok(frame), FlowKey { source, destination, destination_qp: Qpn(queue_pair) }) =
            (&packet.frame, packet.flow()?)
        else {
            return None;
        };
        let headers = packet.readable_headers()?;
        let is_marked = headers.bth.fecn || headers.bth.becn || frame.ecn() == 3;
        let is_notification = headers.bth.opcode == Opcode::CNP;
        let sent = Sent {
            bytes: if is_notification { 0 } else { u64::from(headers.payload_length) },
            congestion_marks: u64::from(is_marked && !is_notification),
            notifications: u64::from(is_notification),
            ..sent
        };
        Some((Flow { source, destination, queue_pair, dscp: frame.dscp() }, sent))
    }
}
