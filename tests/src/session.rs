//! Runs the engine over a capture and keeps its events.

use crate::Differences;
use crate::pcap::{Capture, Packet};
use core::net::Ipv4Addr;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::{Content, Event, Eviction};
use rdmascope_dissector::frame::{Address, Carrier, IcrcVerdict, Other};
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transaction::{Direction, Seen, Transaction};
use rdmascope_peer::frame::enclose;
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::time::Instant;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::rpcrdma::{Error, Procedure, Segment};
use rdmascope_wire::{Stop, Xid};

/// The events of the engine.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Packets, if requested.
    pub packets: Vec<PacketSeen>,
    /// Transactions in the order in which they ended.
    pub transactions: Vec<Transaction>,
    /// Connections.
    pub connections: Vec<Connection>,
    /// Evictions.
    pub evictions: Vec<Eviction>,
    /// The totals.
    pub totals: Totals,
}

/// An owned [`rdmascope_dissector::event::Packet`].
#[derive(Clone, Debug)]
pub struct PacketSeen {
    /// The frame's number.
    pub number: u64,
    /// The frame around the transport packet.
    pub frame: Result<FrameSeen, Other<'static>>,
    /// The transport headers.
    pub headers: Option<Result<HeadersSeen, Stop>>,
    /// The connection.
    pub connection: Option<ConnectionId>,
    /// The earlier frame with the same packet.
    pub copy_of: Option<u64>,
}

impl PacketSeen {
    /// The headers, if they were parsed.
    pub fn headers(&self) -> Option<&HeadersSeen> {
        self.headers.as_ref()?.as_ref().ok()
    }

    /// The RPC-over-RDMA header, if any.
    pub fn rpcrdma(&self) -> Option<&RpcRdmaSeen> {
        match &self.headers()?.content {
            ContentSeen::RpcRdma(header) => Some(header),
            _ => None,
        }
    }

    /// The verdict on the ICRC.
    pub fn icrc(&self) -> Option<IcrcVerdict> {
        Some(self.frame.as_ref().ok()?.icrc)
    }
}

/// An owned part of a [`rdmascope_dissector::frame::Frame`].
#[derive(Clone, Copy, Debug)]
pub struct FrameSeen {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The headers that carry the transport packet.
    pub carrier: Carrier,
    /// The verdict on the ICRC.
    pub icrc: IcrcVerdict,
}

/// Owned [`rdmascope_dissector::event::Headers`].
#[derive(Clone, Debug)]
pub struct HeadersSeen {
    /// The base transport header.
    pub bth: Bth,
    /// Its extension headers.
    pub extensions: Extensions,
    /// Bytes of payload captured.
    pub payload_captured: usize,
    /// Bytes of payload on the wire.
    pub payload_length: u32,
    /// The content of the payload.
    pub content: ContentSeen,
}

/// An owned [`Content`].
#[derive(Clone, Debug)]
pub enum ContentSeen {
    /// A CM message of this name.
    Cm(String),
    /// An RPC-over-RDMA header.
    RpcRdma(RpcRdmaSeen),
    /// Anything else.
    Other,
}

/// An owned [`rdmascope_wire::rpcrdma::Header`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct RpcRdmaSeen {
    pub xid: Xid,
    pub version: u32,
    pub credits: u32,
    pub procedure: Procedure,
    pub reads: Vec<(u32, Segment)>,
    pub writes: Vec<Vec<Segment>>,
    pub reply: Option<Vec<Segment>>,
    pub error: Option<Error>,
    pub length: usize,
    pub stop: Option<Stop>,
}

/// The records of a capture.
pub fn records(capture: &Capture) -> impl Iterator<Item = Record<'_>> {
    capture.packets.iter().map(|packet| Record { link: LinkType(capture.link), ..record(packet) })
}

/// The record of an Ethernet frame.
pub fn record(packet: &Packet) -> Record<'_> {
    Record {
        number: packet.number,
        time: Time(packet.time),
        link: LinkType::ETHERNET,
        original_length: packet.original_length,
        dropped: 0,
        tap: Default::default(),
        data: &packet.data,
    }
}

/// Runs the engine over a capture.
pub fn run(capture: &Capture) -> Session {
    run_with(capture, Config::default())
}

/// Runs the engine over a capture and keeps the packets as well.
pub fn run_with_packets(capture: &Capture) -> Session {
    run_with(capture, Config { report_packets: true, ..Config::default() })
}

/// Runs the engine with this configuration.
pub fn run_with(capture: &Capture, config: Config) -> Session {
    let mut engine = Engine::new(config);
    let mut session = Session::default();
    for record in records(capture) {
        engine.handle(&record, &mut |event| session.keep(event));
    }
    engine.finish(&mut |event| session.keep(event));
    session.connections.sort_by_key(|connection| connection.id);
    session.totals = *engine.totals();
    session
}

impl Session {
    fn keep(&mut self, event: Event<'_>) {
        match event {
            Event::Packet(packet) => self.packets.push(PacketSeen {
                number: packet.record.number,
                frame: packet
                    .frame
                    .map(|frame| FrameSeen {
                        source: frame.source,
                        destination: frame.destination,
                        carrier: frame.carrier,
                        icrc: frame.icrc,
                    })
                    .map_err(Other::named),
                headers: packet.headers.map(|headers| {
                    headers.map(|headers| HeadersSeen {
                        bth: headers.bth,
                        extensions: headers.extensions,
                        payload_captured: headers.payload.len(),
                        payload_length: headers.payload_length,
                        content: keep_content(&headers.content),
                    })
                }),
                connection: packet.connection,
                copy_of: packet.copy_of.map(|first| first.frame),
            }),
            Event::Transaction(transaction) => self.transactions.push(transaction.clone()),
            Event::Connection(connection) => self.connections.push(connection.clone()),
            Event::Eviction(eviction) => self.evictions.push(eviction),
            _ => {}
        }
    }

    /// The transactions of one direction, in the order of their calls.
    pub fn of(&self, direction: Direction) -> Vec<&Transaction> {
        let mut chosen: Vec<&Transaction> =
            self.transactions.iter().filter(|transaction| transaction.direction == direction).collect();
        chosen.sort_by_key(|transaction| {
            let message = transaction.call.as_ref().or(transaction.reply.as_ref());
            message.map_or(0, |message| message.seen.frame)
        });
        chosen
    }

    /// The only transaction of this direction and XID. The error names the problem: none, or
    /// several.
    pub fn find(&self, direction: Direction, xid: u32) -> Result<&Transaction, String> {
        let mut all = self
            .transactions
            .iter()
            .filter(|transaction| transaction.direction == direction && transaction.xid == Xid(xid));
        match (all.next(), all.count()) {
            (Some(transaction), 0) => Ok(transaction),
            (None, _) => Err(format!("no {direction:?} transaction")),
            (Some(_), more) => Err(format!("{} {direction:?} transactions", more + 1)),
        }
    }

    /// The packet of this frame number.
    pub fn packet(&self, number: u64) -> Option<&PacketSeen> {
        let index = self.packets.binary_search_by_key(&number, |packet| packet.number).ok()?;
        self.packets.get(index)
    }
}

fn keep_content(content: &Content<'_>) -> ContentSeen {
    match content {
        Content::Cm(message) => ContentSeen::Cm(message.name().to_string()),
        Content::RpcRdma(header) => ContentSeen::RpcRdma(RpcRdmaSeen {
            xid: header.xid,
            version: header.version,
            credits: header.credits,
            procedure: header.procedure,
            reads: header.reads.map(|read| (read.position, read.target)).collect(),
            writes: header.writes.map(|chunk| chunk.segments().collect()).collect(),
            reply: header.reply.map(|chunk| chunk.segments().collect()),
            error: header.error,
            length: header.length,
            stop: header.stop,
        }),
        Content::Other => ContentSeen::Other,
    }
}

/// The names of a transaction's operations.
pub fn names(transaction: &Transaction) -> Vec<&'static str> {
    transaction.details.operations.iter().map(|operation| operation.name()).collect()
}

/// The text of a transaction without its number and that of its connection.
pub fn all_but_numbers(transaction: &Transaction) -> String {
    let transaction = Transaction { number: 0, begun: 0, connection: ConnectionId(0), ..transaction.clone() };
    format!("{transaction:#?}")
}

/// The same without round trips and busy times, which depend on packets of other transactions.
pub fn all_but_busy_times(transaction: &Transaction) -> String {
    let mut transaction = transaction.clone();
    transaction.timing.round_trip = 0;
    (transaction.timing.busy_before, transaction.timing.busy_after) = (0, 0);
    all_but_numbers(&transaction)
}

/// The same without the acknowledgement of the call: if an ACK is missing, the packet that
/// acknowledges the call is a later one or none.
pub fn all_but_acknowledgement(transaction: &Transaction) -> String {
    let mut transaction = transaction.clone();
    transaction.timing.acknowledged = None;
    all_but_busy_times(&transaction)
}

/// The same without numbers, frames and times: the parts that do not change if packets are
/// reordered or duplicated.
pub fn content(transaction: &Transaction) -> String {
    let mut transaction = transaction.clone();
    let nowhere = Seen { frame: 0, time: Time(0) };
    for message in transaction.call.iter_mut().chain(&mut transaction.reply) {
        message.seen = nowhere;
        message.first = nowhere;
    }
    transaction.timing.reads = transaction.timing.reads.map(|_| (Time(0), Time(0)));
    transaction.timing.writes = transaction.timing.writes.map(|_| (Time(0), Time(0)));
    // An ACK captured elsewhere may come after the reply.
    transaction.timing.acknowledged = None;
    transaction.done = transaction.done.map(|_| nowhere);
    all_but_busy_times(&transaction)
}

/// Compares the transactions of two sessions by direction and XID. `view` selects the parts to
/// compare. Transactions for which `left_out` holds may differ.
///
/// # Panics
/// If transactions differ, with the first differing line of each.
pub fn compare_transactions(
    label: &str,
    expected: &Session,
    actual: &Session,
    view: impl Fn(&Transaction) -> String,
    left_out: impl Fn(Direction, Xid) -> bool,
) {
    let mut differences = Differences::of(label);
    for side in [Direction::Forward, Direction::Backward] {
        let kept = |session: &Session| -> Vec<Xid> {
            let mut xids: Vec<Xid> = session
                .transactions
                .iter()
                .filter(|transaction| transaction.direction == side)
                .map(|transaction| transaction.xid)
                .filter(|xid| !left_out(side, *xid))
                .collect();
            xids.sort_unstable();
            xids
        };
        let (before, after) = (kept(expected), kept(actual));
        for xid in after.iter().filter(|xid| !before.contains(xid)) {
            differences.check(false, format!("{side:?} {xid}: is new"));
        }
        for xid in before {
            let before = expected.find(side, xid.0).map(&view);
            match (before, actual.find(side, xid.0)) {
                (Ok(before), Ok(after)) => {
                    let after = view(after);
                    let line = before.lines().zip(after.lines()).find(|(before, after)| before != after);
                    differences.check(
                        before == after,
                        format!("{side:?} {xid}: expected, got (first of the lines that differ): {line:?}"),
                    );
                }
                (before, after) => differences.check(
                    false,
                    format!(
                        "{side:?} {xid}: expected {:?}, got {:?}",
                        before.map(|_| "one"),
                        after.map(|_| "one")
                    ),
                ),
            }
        }
    }
    differences.end();
}

/// An address of the lab.
pub fn address(last: u8) -> Address {
    Address::V4(Ipv4Addr::new(10, 77, 0, last))
}

impl Packet {
    /// The IP packet of a datagram of the peer. Its clock begins at 2023-11-14T22:13:20Z.
    ///
    /// # Panics
    /// If the datagram does not fit a packet.
    pub fn of_peer(number: u64, now: Instant, datagram: &Datagram) -> Packet {
        let data = enclose(datagram).expect("the datagram fits a packet");
        let time = 1_700_000_000_000_000_000 + now.0 as i64;
        Packet { number, time, original_length: data.len() as u32, data }
    }
}
