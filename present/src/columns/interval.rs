//! `interval`, `interval_connection` and `interval_operation`: the figures of an interval of a live
//! capture.

use super::report::LATENCY;
use super::shared::{ENDS, direction};
use crate::column::Align::{Left, Right};
use crate::column::Read::{Boolean, Fraction, Nanoseconds, Object, Shown, Text, Time, U32, U64, Word};
use crate::column::{Cell, Column, Columns, Role, Subject, Tint, Within, lend};
use crate::text::{Maybe, Named};
use crate::words;
use rdmascope_analysis::live::{Figures, Interval, OfConnection, Transport, Waiting};
use rdmascope_analysis::report::Key;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Bytes, Duration};

impl Subject for Figures {
    type Of<'a> = &'a Figures;
}

/// Transactions that ended in an interval.
pub static FIGURES: Columns<Figures> = {
    type C = Column<Figures>;
    type O<U> = Within<Figures, U>;
    Columns {
        name: "figures",
        role: Role::Shared,
        columns: &[
            C::new("count", U64(|figures| Some(figures.stats.count)), "Transactions that ended."),
            C::new("errors", U64(|figures| Some(figures.stats.errors)), "Transactions that failed."),
            C::new(
                "bytes_to_responder",
                U64(|figures| Some(figures.to_responder)),
                "Bytes of DDP-eligible items sent to the end that accepted the connection, such as the data of WRITEs; bytes moved by RDMA if there are no such items.",
            ),
            C::new(
                "bytes_to_requester",
                U64(|figures| Some(figures.to_requester)),
                "The same for the end that opened the connection, such as the data of READs.",
            ),
            C::new(
                "latency",
                Object(&O {
                    columns: &LATENCY,
                    lend: |figures, see| {
                        lend(figures.stats.latency(), |latency| see((latency, figures.stats.total_latency)));
                    },
                }),
                "The latencies. The median and the percentile have three significant digits.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Transport {
    type Of<'a> = Transport;
}

/// Packets that the ends sent.
pub static TRANSPORT: Columns<Transport> = {
    type C = Column<Transport>;
    Columns {
        name: "transport",
        role: Role::Shared,
        columns: &[
            C::new("packets", U64(|sent| Some(sent.packets)), "Packets."),
            C::new("bytes", U64(|sent| Some(sent.bytes)), "Bytes after the transport headers."),
            C::new(
                "repeated_packets",
                U64(|sent| Some(sent.resent)),
                "Retransmissions: request packets with a PSN seen before.",
            ),
            C::new("naks", U64(|sent| Some(sent.naks)), "NAKs other than RNR NAKs."),
            C::new("rnr_naks", U64(|sent| Some(sent.rnr_naks)), "RNR NAKs."),
            C::missing_packets(|sent| Some(sent.missing)),
            C::new(
                "bad_icrc",
                U64(|sent| Some(sent.bad_icrc)),
                "Packets with a bad ICRC; iWARP segments with a bad TCP checksum, and FPDUs with a bad CRC.",
            ),
            C::new(
                "congestion_marks",
                U64(|sent| Some(sent.congestion_marks)),
                "Packets with the FECN or BECN bit, or ECN \"congestion experienced\".",
            ),
        ],
    }
};

impl Subject for Waiting {
    type Of<'a> = Waiting;
}

/// Outstanding calls.
static WAITING: Columns<Waiting> = {
    type C = Column<Waiting>;
    Columns {
        name: "waiting",
        role: Role::Inner,
        columns: &[
            C::new("calls", U64(|waiting| Some(waiting.calls)), "Calls."),
            C::new(
                "oldest_ns",
                Nanoseconds(|waiting| waiting.oldest),
                "How long the oldest call has been outstanding.",
            )
            .or_null(),
        ],
    }
};

/// The meaning of the columns of outstanding calls.
const WAITS: &str = "Calls without a reply at the end of the interval. Calls whose replies may be among missing or dropped packets do not count. A closed connection has none. It is null if only one direction was captured.";

impl Subject for Interval {
    type Of<'a> = &'a Interval;
}

/// The figures of an interval.
pub static INTERVAL: Columns<Interval> = {
    type C = Column<Interval>;
    type O<U> = Within<Interval, U>;
    Columns {
        name: "interval",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|interval| Some(interval.start)), "When the interval began."),
            C::new("duration_ns", Nanoseconds(|interval| Some(interval.length)), "The length of the interval."),
            C::new(
                "packets",
                U64(|interval| Some(interval.packets)),
                "Packets captured, of any kind.",
            ),
            C::new("bytes", U64(|interval| Some(interval.bytes)), "Bytes of these packets on the wire."),
            C::new(
                "dropped_packets",
                U64(|interval| interval.dropped),
                "Packets dropped before they could be captured, as reported with a later packet. It is null for an RDMA device (verbs), which does not count drops.",
            )
            .or_null(),
            C::new(
                "connections",
                U64(|interval| Some(interval.connections.iter().filter(|one| !one.has_ended).count() as u64)),
                "Connections that exist at the end of the interval.",
            ),
            C::new(
                "transactions",
                Object(&O { columns: &FIGURES, lend: |interval, see| lend(interval.figures(), see) }),
                "All transactions that ended. It is null if only one direction of every connection was captured.",
            )
            .or_null(),
            C::new(
                "waiting",
                Object(&O { columns: &WAITING, lend: |interval, see| lend(interval.waiting(), see) }),
                WAITS,
            )
            .or_null(),
            C::new(
                "one_direction",
                U64(|interval| Some(interval.connections.iter().filter(|one| one.one_direction).count() as u64)),
                "Connections captured in one direction only. Their packets count in `transport`; their calls do not count.",
            ),
            C::new(
                "transport",
                Object(&O { columns: &TRANSPORT, lend: |interval, see| see(interval.transport) }),
                "Packets that the ends of all connections sent.",
            ),
            C::new("findings", U64(|interval| Some(interval.findings[0])), "Conclusive findings that are not allowed."),
            C::new(
                "inconclusive",
                U64(|interval| Some(interval.findings[1])),
                "Inconclusive findings: missing packets could disprove them.",
            ),
            C::new(
                "allowed",
                U64(|interval| Some(interval.findings[2])),
                "Conclusive findings that `--allow` or a policy allows.",
            ),
            C::new(
                "given_up_connections",
                U64(|interval| Some(interval.evicted)),
                "Connections that were evicted to bound memory. They count as ended.",
            ),
        ],
    }
};

/// A marker for a connection in an interval.
pub struct ConnectionInInterval;

impl Subject for ConnectionInInterval {
    type Of<'a> = (&'a Interval, &'a OfConnection);
}

/// The figures of one connection in an interval.
pub static INTERVAL_CONNECTION: Columns<ConnectionInInterval> = {
    type C = Column<ConnectionInInterval>;
    type O<U> = Within<ConnectionInInterval, U>;
    Columns {
        name: "interval_connection",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|(interval, _)| Some(interval.start)), "When the interval began."),
            C::new(
                "duration_ns",
                Nanoseconds(|(interval, _)| Some(interval.length)),
                "The length of the interval.",
            ),
            C::connection(|(_, one)| Some(one.connection.id.0)),
            C::new(
                "requester",
                Shown(|(_, one), see| see(&Named(&one.connection.requester))),
                "The address of the end that opened the connection.",
            ),
            C::new(
                "responder",
                Shown(|(_, one), see| see(&Named(&one.connection.responder))),
                "The address of the other end.",
            ),
            C::new(
                "ended",
                Boolean(|(_, one)| Some(one.has_ended)),
                "Whether the connection ended in this interval.",
            ),
            C::new(
                "transactions",
                Object(&O { columns: &FIGURES, lend: |(_, one), see| lend(one.figures(), see) }),
                "Transactions of the connection that ended. It is null if only one direction was captured.",
            )
            .or_null(),
            C::new(
                "waiting",
                Object(&O { columns: &WAITING, lend: |(_, one), see| lend(one.waiting(), see) }),
                WAITS,
            )
            .or_null(),
            C::new(
                "one_direction",
                Word(ENDS, |(_, one)| one.only_sender().map(words::end)),
                "The only end whose packets were captured. It is null if both directions were captured.",
            )
            .or_null(),
            C::new(
                "credits_in_flight",
                U64(|(_, one)| Some(one.credits?.in_flight)),
                "Forward calls in flight at the end of the interval. It is null if credits are unknown.",
            )
            .or_null(),
            C::new(
                "credits_granted",
                U32(|(_, one)| one.credits?.granted),
                "Credits that the latest reply granted. It is null if no reply was captured.",
            )
            .or_null(),
            C::new(
                "transport",
                Object(&O { columns: &TRANSPORT, lend: |(_, one), see| see(one.transport) }),
                "Packets that the ends of the connection sent.",
            ),
        ],
    }
};

/// A marker for an operation in an interval.
pub struct OperationInInterval;

impl Subject for OperationInInterval {
    type Of<'a> = (&'a Interval, &'a Key, &'a Figures);
}

/// The transactions of one operation in an interval.
pub static INTERVAL_OPERATION: Columns<OperationInInterval> = {
    type C = Column<OperationInInterval>;
    type O<U> = Within<OperationInInterval, U>;
    Columns {
        name: "interval_operation",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|(interval, ..)| Some(interval.start)), "When the interval began."),
            C::new(
                "duration_ns",
                Nanoseconds(|(interval, ..)| Some(interval.length)),
                "The length of the interval.",
            ),
            C::protocol(|(_, key, _), see| lend(key.protocol, |protocol| see(&protocol))),
            C::direction(|(_, key, _)| Some(direction(key.backward))),
            C::operation(|(_, key, _), see| see(&key.label)),
            C::new(
                "transactions",
                Object(&O { columns: &FIGURES, lend: |(.., figures), see| see(figures) }),
                "Transactions of the operation that ended.",
            ),
        ],
    }
};

/// A row of the text table: a whole interval, or a named part of it.
#[derive(Clone, Copy)]
pub struct IntervalRow<'a> {
    /// The interval.
    pub interval: &'a Interval,
    /// The name of the part; empty for the whole interval.
    pub name: &'a str,
    /// The transactions, if both directions were captured.
    pub figures: Option<&'a Figures>,
    /// The outstanding calls, if known for the part.
    pub waiting: Option<Waiting>,
    /// Packets that the ends sent, if known for the part.
    pub transport: Option<Transport>,
}

impl<'a> IntervalRow<'a> {
    /// Creates the row of the whole interval.
    pub fn all(interval: &'a Interval) -> IntervalRow<'a> {
        let (figures, waiting) = (interval.figures(), interval.waiting());
        IntervalRow { interval, name: "", figures, waiting, transport: Some(interval.transport) }
    }

    /// Creates the row of a connection with the given name.
    pub fn connection(interval: &'a Interval, one: &'a OfConnection, name: &'a str) -> IntervalRow<'a> {
        let (figures, waiting) = (one.figures(), one.waiting());
        IntervalRow { interval, name, figures, waiting, transport: Some(one.transport) }
    }

    /// Creates the row of an operation with the given name.
    pub fn operation(interval: &'a Interval, figures: &'a Figures, name: &'a str) -> IntervalRow<'a> {
        IntervalRow { interval, name, figures: Some(figures), waiting: None, transport: None }
    }

    fn latency(&self, select: fn(rdmascope_analysis::report::Latency) -> u64) -> Maybe<Duration> {
        let latency = self.figures.and_then(|figures| figures.stats.latency());
        Maybe(latency.map(|latency| Duration(select(latency))))
    }

    fn bytes(&self, select: fn(&Figures) -> u64) -> Maybe<Bytes> {
        Maybe(self.figures.map(|figures| Bytes(self.interval.rate(select(figures)) as u64)))
    }

    fn errors(&self) -> Option<u64> {
        self.figures.map(|figures| figures.stats.errors)
    }
}

impl Subject for IntervalRow<'static> {
    type Of<'a> = IntervalRow<'a>;
}

/// Returns the name of a connection in an [`IntervalRow`].
pub fn connection_name(one: &OfConnection) -> String {
    format!(
        "{}: {} to {}",
        one.connection.id.0,
        Named(&one.connection.requester),
        Named(&one.connection.responder)
    )
}

/// The columns of the text table.
pub static INTERVAL_ROW: Columns<IntervalRow<'static>> = {
    type C = Column<IntervalRow<'static>>;
    const fn cell(place: u8, heading: &'static str, width: usize, cell: Cell<IntervalRow<'static>>) -> C {
        C::new("", Fraction(|_| None), "").text_only().cell(place, heading, Right(width), cell)
    }
    Columns {
        name: "interval_row",
        role: Role::Inner,
        columns: &[
            cell(
                0,
                "time UTC",
                8,
                Cell::Shown(|row, _, see| match row.name {
                    "" => see(&&Rfc3339::from(row.interval.start).as_str()[11..19]),
                    _ => see(&""),
                }),
            ),
            cell(
                1,
                "calls/s",
                7,
                Cell::Shown(|row, _, see| {
                    let rate = |figures: &Figures| row.interval.rate(figures.stats.count).round() as u64;
                    see(&Maybe(row.figures.map(rate)));
                }),
            ),
            cell(2, "errors", 6, Cell::Shown(|row, _, see| see(&Maybe(row.errors()))))
                .tint(|row| if row.errors() > Some(0) { Tint::Red } else { Tint::Plain }),
            cell(3, "write/s", 8, Cell::Shown(|row, _, see| see(&row.bytes(|figures| figures.to_responder)))),
            cell(4, "read/s", 8, Cell::Shown(|row, _, see| see(&row.bytes(|figures| figures.to_requester)))),
            cell(5, "median", 6, Cell::Shown(|row, _, see| see(&row.latency(|latency| latency.median)))),
            cell(6, "p99", 6, Cell::Shown(|row, _, see| see(&row.latency(|latency| latency.p99)))),
            cell(
                7,
                "wait",
                4,
                Cell::Shown(|row, _, see| see(&Maybe(row.waiting.map(|waiting| waiting.calls)))),
            ),
            cell(
                8,
                "oldest",
                6,
                Cell::Shown(|row, _, see| {
                    see(&Maybe(row.waiting.and_then(|waiting| waiting.oldest).map(Duration)));
                }),
            ),
            cell(
                9,
                "resent",
                6,
                Cell::Shown(|row, _, see| see(&Maybe(row.transport.map(|sent| sent.resent)))),
            )
            .tint(|row| {
                if row.transport.is_some_and(|sent| sent.resent > 0) { Tint::Yellow } else { Tint::Plain }
            }),
            cell(
                10,
                "lost",
                5,
                Cell::Shown(|row, _, see| match row.name {
                    "" => see(&Maybe(row.interval.dropped)),
                    _ => see(&""),
                }),
            )
            .tint(|row| {
                if row.interval.dropped.is_some_and(|dropped| dropped > 0) { Tint::Red } else { Tint::Plain }
            })
            .ends(|row| row.name.is_empty()),
            C::new("", Text(|row, see| see(row.name)), "").text_only().text(11, "", Left(0)),
        ],
    }
};
