//! `connection`: a connection, its two ends and their counts.

use super::shared::PRIVATE_DATA;
use crate::column::Align::{Left, Right};
use crate::column::Read::{Boolean, Nanoseconds, Object, Qpn, Shown, Time, U8, U16, U32, U64, Word};
use crate::column::{Cell, Column, Columns, Role, Subject, Tint, Within, Words, explained, lend, word};
use crate::text::Named;
use crate::words;
use rdmascope_analysis::units::{Bytes, Number};
use rdmascope_dissector::connection::{
    Connection, Counts, Endpoint, Evidence, Origin, RoundTrips, Start, State,
};
use rdmascope_wire::cm::reject_reason_name;

impl Subject for Connection {
    type Of<'a> = &'a Connection;
}

static CAPTURE_POINTS: Words = &[
    explained("requester", "at or near the requester"),
    explained("between", "about equally far from both ends"),
    explained("responder", "at or near the responder"),
];

static ORIGINS: Words = &[
    explained("cm", "the CM exchange was captured"),
    explained(
        "kernel",
        "the CM exchange was not captured, but the kernel of a host reported the connection during the \
         capture (`rdmascope capture`)",
    ),
    explained(
        "snoop",
        "the messages come from the NFS/RDMA transport of a host's kernel, without packets \
         (`rdmascope capture --snoop`)",
    ),
    explained("inferred", "the two directions were paired by their contents"),
];

/// A connection.
pub static CONNECTION: Columns<Connection> = {
    type C = Column<Connection>;
    type O<U> = Within<Connection, U>;
    Columns {
        name: "connection",
        role: Role::Line,
        columns: &[
            C::new(
                "connection",
                U32(|it| Some(it.id.0)),
                "The number of the connection, from 1 in the order in which connections are first reported.",
            )
            .text(0, "#", Right(4)),
            C::new("origin", Word(ORIGINS, |it| Some(words::origin(it.origin))), "How the connection was found.")
                .text(6, "origin", Left(8)),
            C::new(
                "evidence",
                Object(&O { columns: &EVIDENCE, lend: |it, see| lend(evidence(it), see) }),
                "The evidence that paired the two directions of an inferred connection.",
            )
            .or_null(),
            C::new(
                "roles_known",
                Boolean(|it| Some(it.roles_known)),
                "Whether the capture shows which end opened the connection.",
            )
            .cell(
                3,
                "",
                Left(2),
                Cell::Shown(|it, _, see| see(if it.roles_known { &"->" } else { &"--" })),
            ),
            C::new(
                "state",
                Word(
                    &[word("requested"), word("open"), word("rejected"), word("closed")],
                    |it| Some(words::state(it.state)),
                ),
                "The last state of the connection.",
            )
            .text(7, "state", Left(9))
            .tint(|it| if matches!(it.state, State::Rejected(_) | State::Refused) { Tint::Red } else { Tint::Plain }),
            C::new(
                "reject_reason",
                U16(|it| match it.state {
                    State::Rejected(reason) => Some(reason),
                    State::Requested | State::Open | State::Refused | State::Closed => None,
                }),
                "The reason code in the REJ (IBTA volume 1, section 12.6.7.2).",
            )
            .or_null(),
            C::new(
                "reject_reason_name",
                Word(&[], |it| match it.state {
                    State::Rejected(reason) => reject_reason_name(reason),
                    State::Requested | State::Open | State::Refused | State::Closed => None,
                }),
                "The name of the reason.",
            )
            .or_null(),
            C::new(
                "requester",
                Object(&O { columns: &END, lend: |it, see| see(&it.requester) }),
                "The end that opened the connection.",
            )
            .last(),
            C::new(
                "responder",
                Object(&O { columns: &END, lend: |it, see| see(&it.responder) }),
                "The end that accepted the connection.",
            )
            .last(),
            C::new("requester address", Shown(|it, see| see(&Named(&it.requester))), "The address of the requester.")
                .text_only()
                .text(1, "requester", Left(15)),
            C::new("requester QP", Qpn(|it| it.requester.qpn.map(|qpn| qpn.0)), "The QP of the requester.")
                .text_only()
                .text(2, "QP", Left(8)),
            C::new("responder address", Shown(|it, see| see(&Named(&it.responder))), "The address of the responder.")
                .text_only()
                .text(4, "responder", Left(15)),
            C::new("responder QP", Qpn(|it| it.responder.qpn.map(|qpn| qpn.0)), "The QP of the responder.")
                .text_only()
                .text(5, "QP", Left(8)),
            C::new(
                "transport",
                Word(&[word("iwarp")], |it| it.is_iwarp.then_some("iwarp")),
                "`iwarp` if the connection runs over TCP. It is absent for InfiniBand and RoCE.",
            )
            .optional(),
            C::new(
                "crc",
                Boolean(|it| it.has_crc),
                "For iWARP, whether FPDUs have CRCs (RFC 5044, section 7.1.1), if the capture shows it.",
            )
            .optional(),
            C::new(
                "protocol",
                Shown(|it, see| it.protocol.iter().for_each(|protocol| see(&protocol.name()))),
                "The protocol of the connection, if it is not RPC-over-RDMA: `SMB Direct`, `NVMe-oF`, \
                 `iSER`, `SMC-R`, `IPoIB-CM` or `perftest`.",
            )
            .optional(),
            C::new(
                "foreign",
                Boolean(|it| it.is_foreign.then_some(true)),
                "True if the connection carries something other than RPC-over-RDMA, as far as the capture \
                 shows: the protocol in `protocol`, or only Sends that are not RPC-over-RDMA messages. It \
                 is absent for other connections.",
            )
            .optional(),
            C::new(
                "operations",
                Object(&O { columns: &OPERATIONS, lend: |it, see| it.protocol.iter().for_each(|_| see(it)) }),
                "The operations of both ends of a connection with a `protocol`.",
            )
            .optional(),
            C::new("port", U16(|it| it.port), "The port in the REQ, or the TCP port of the end that accepted the connection. 20049 is NFS/RDMA.").or_null(),
            C::new("path_mtu", U16(|it| it.path_mtu), "The path MTU in bytes.")
                .or_null()
                .text(8, "MTU", Right(4)),
            C::new(
                "call_inline_threshold",
                U32(|it| it.call_inline_threshold),
                "The largest Send to the responder, in bytes. It is null if the CM exchange was not \
                 captured or its private data were truncated.",
            )
            .or_null()
            .text(9, "call", Right(5)),
            C::new(
                "reply_inline_threshold",
                U32(|it| it.reply_inline_threshold),
                "The largest Send to the requester, in bytes. It is null in the same cases.",
            )
            .or_null()
            .text(10, "reply", Right(5)),
            C::new(
                "remote_invalidation",
                Boolean(|it| it.remote_invalidation),
                "Whether both ends support remote invalidation. It is null if the CM exchange was not \
                 captured.",
            )
            .or_null()
            .text(11, "inv", Right(3)),
            C::new(
                "capture_point",
                Word(CAPTURE_POINTS, |it| it.capture_point().map(words::capture_point)),
                "The capture point of the connection, estimated from the `round_trips` of both ends: the \
                 ACKs of the near end arrive sooner. It is null if ACKs are few, if more than one packet in \
                 a hundred was retransmitted, or if the ACK times are inconclusive.",
            )
            .or_null(),
            C::new("first", Time(|it| Some(it.first)), "The time of the first packet."),
            C::new("last", Time(|it| Some(it.last)), "The time of the last packet."),
            C::new(
                "transactions",
                Object(&O { columns: &TRANSACTIONS, lend: |it, see| see(it.transactions) }),
                "The number of transactions on the connection.",
            ),
            C::new("forward transactions", U64(|it| Some(it.transactions[0])), "Transactions.")
                .text_only()
                .cell(12, "forward", Right(8), Cell::Shown(|it, _, see| see(&Number(it.transactions[0])))),
            C::new("backward transactions", U64(|it| Some(it.transactions[1])), "Transactions.")
                .text_only()
                .cell(13, "backward", Right(8), Cell::Shown(|it, _, see| see(&Number(it.transactions[1])))),
            C::new("payload", U64(|it| Some(payload(it))), "The payload bytes of both ends.").text_only().cell(
                14,
                "bytes",
                Right(9),
                // The last column has room for the protocol name, which few connections have.
                Cell::Shown(|it, _, see| match it.protocol {
                    Some(protocol) => see(&format_args!("{:>9}  {}", Bytes(payload(it)), protocol.name())),
                    None => see(&Bytes(payload(it))),
                }),
            ),
        ],
    }
};

fn payload(connection: &Connection) -> u64 {
    connection.requester.sent.bytes + connection.responder.sent.bytes
}

fn evidence(connection: &Connection) -> Option<Evidence> {
    match connection.origin {
        Origin::Cm | Origin::Kernel | Origin::Snoop => None,
        Origin::Inferred(evidence) => Some(evidence),
    }
}

/// A marker for the operations of both ends of a connection.
struct Operations;

impl Subject for Operations {
    type Of<'a> = &'a Connection;
}

static OPERATIONS: Columns<Operations> = {
    type C = Column<Operations>;
    Columns {
        name: "operations",
        role: Role::Inner,
        columns: &[
            C::new("sends", U64(|it| Some(sum(it, |sent| sent.sends))), "Completed Sends."),
            C::new("writes", U64(|it| Some(sum(it, |sent| sent.writes))), "RDMA Writes."),
            C::new("reads", U64(|it| Some(sum(it, |sent| sent.read_requests))), "RDMA Reads."),
        ],
    }
};

fn sum(connection: &Connection, of: fn(&Counts) -> u64) -> u64 {
    of(&connection.requester.sent) + of(&connection.responder.sent)
}

impl Subject for Evidence {
    type Of<'a> = Evidence;
}

static EVIDENCE: Columns<Evidence> = {
    type C = Column<Evidence>;
    Columns {
        name: "evidence",
        role: Role::Inner,
        columns: &[
            C::new(
                "acknowledged_psn",
                Boolean(|it| Some(it.acknowledged_psn)),
                "Whether responses of one end carried PSNs of requests of the other end.",
            ),
            C::new(
                "xid",
                Boolean(|it| Some(it.xid)),
                "Whether replies of one end carried XIDs of calls of the other end.",
            ),
            C::new(
                "rkey",
                Boolean(|it| Some(it.rkey)),
                "Whether RDMA operations of one end used memory that the other end had advertised.",
            ),
        ],
    }
};

/// A marker for the number of transactions in each direction.
struct Transactions;

impl Subject for Transactions {
    type Of<'a> = [u64; 2];
}

static TRANSACTIONS: Columns<Transactions> = {
    type C = Column<Transactions>;
    Columns {
        name: "transactions",
        role: Role::Inner,
        columns: &[
            C::new("forward", U64(|[forward, _]| Some(forward)), "Transactions called by the requester."),
            C::new("backward", U64(|[_, backward]| Some(backward)), "Transactions called by the responder."),
        ],
    }
};

impl Subject for Endpoint {
    type Of<'a> = &'a Endpoint;
}

/// One end of a connection.
pub static END: Columns<Endpoint> = {
    type C = Column<Endpoint>;
    type O<U> = Within<Endpoint, U>;
    Columns {
        name: "end",
        role: Role::Shared,
        columns: &[
            C::new("address", Shown(|end, see| see(&end.address)), "The address of the end."),
            C::new(
                "ip",
                Shown(|end, see| end.ip.iter().for_each(|ip| see(ip))),
                "The IP address of the end in the REQ, if `address` is a LID or a different GID.",
            )
            .optional(),
            C::new("qpn", Qpn(|end| end.qpn.map(|qpn| qpn.0)), "The queue pair of the end.").or_null(),
            C::new("tcp_port", U16(|end| end.tcp_port), "For iWARP, the TCP port of the end.").optional(),
            C::new(
                "start",
                Object(&O { columns: &START, lend: |end, see| lend(end.start, see) }),
                "For iWARP, the MPA start frame of the end (RFC 5044, section 7.1.1; RFC 6581).",
            )
            .optional(),
            C::new(
                "round_trips",
                Object(&O { columns: &ROUND_TRIPS, lend: |end, see| lend(end.round_trips, see) }),
                "The times from the end's Sends to their ACKs. It is null if the capture has no Send with \
                 an ACK of its own.",
            )
            .or_null(),
            C::new(
                "private_data",
                Object(&O { columns: &PRIVATE_DATA, lend: |end, see| lend(end.private_data, see) }),
                "The private data of the end (RFC 8797).",
            )
            .or_null()
            .last(),
            C::new(
                "counts",
                Object(&O { columns: &COUNTS, lend: |end, see| see(&end.sent) }),
                "Counts of packets, bytes and operations that the end sent.",
            )
            .parquet(""),
        ],
    }
};

impl Subject for Start {
    type Of<'a> = Start;
}

/// The MPA start frame of an end.
static START: Columns<Start> = {
    type C = Column<Start>;
    Columns {
        name: "start",
        role: Role::Inner,
        columns: &[
            C::new(
                "frame",
                U64(|it| Some(it.frame_number)),
                "The packet with the first byte of the start frame.",
            ),
            C::new("revision", U8(|it| Some(it.frame.revision)), "Rev: 1, or 2 with RFC 6581."),
            C::new("crc", Boolean(|it| Some(it.frame.crc)), "C: the end requests CRCs."),
            C::new(
                "markers",
                Boolean(|it| Some(it.frame.markers)),
                "M: the end requests markers in the FPDUs that it receives.",
            ),
            C::new("rejected", Boolean(|it| Some(it.frame.rejected)), "R: the end rejects the connection."),
            C::new(
                "inbound_reads",
                U16(|it| it.depths.map(|depths| depths.inbound)),
                "IRD: the RDMA Reads that the end serves at once (RFC 6581, section 9).",
            )
            .or_null(),
            C::new(
                "outbound_reads",
                U16(|it| it.depths.map(|depths| depths.outbound)),
                "ORD: the RDMA Reads that the end may have outstanding.",
            )
            .or_null(),
        ],
    }
};

impl Subject for RoundTrips {
    type Of<'a> = RoundTrips;
}

/// The times from Sends to their ACKs.
static ROUND_TRIPS: Columns<RoundTrips> = {
    type C = Column<RoundTrips>;
    Columns {
        name: "round_trips",
        role: Role::Inner,
        columns: &[
            C::new(
                "count",
                U64(|it| Some(it.count)),
                "Sends with an ACK of their own, except during retransmission.",
            ),
            C::new(
                "min_ns",
                Nanoseconds(|it| Some(it.minimum)),
                "The shortest time from the last packet of a Send to its ACK: from the capture point to the \
                 other end's queue pair and back.",
            ),
            C::new("median_ns", Nanoseconds(|it| Some(it.median)), "The median, to within 1 part in 16."),
        ],
    }
};

impl Subject for Counts {
    type Of<'a> = &'a Counts;
}

/// The counts of one end of a connection.
static COUNTS: Columns<Counts> = {
    type C = Column<Counts>;
    Columns {
        name: "counts",
        role: Role::Inner,
        columns: &[
            C::new("packets", U64(|sent| Some(sent.packets)), "Packets."),
            C::new("bytes", U64(|sent| Some(sent.bytes)), "Payload bytes after the transport headers."),
            C::new("sends", U64(|sent| Some(sent.sends)), "Completed Sends."),
            C::new(
                "read_requests",
                U64(|sent| Some(sent.read_requests)),
                "RDMA Read requests, without retransmissions.",
            ),
            C::new("written_bytes", U64(|sent| Some(sent.written_bytes)), "Payload bytes of RDMA Writes."),
            C::new(
                "read_response_bytes",
                U64(|sent| Some(sent.read_response_bytes)),
                "Payload bytes of RDMA Read responses.",
            ),
            C::new("acknowledgements", U64(|sent| Some(sent.acknowledgements)), "ACKs."),
            C::new("sequence_naks", U64(|sent| Some(sent.sequence_naks)), "NAKs for a PSN sequence error."),
            C::new("fatal_naks", U64(|sent| Some(sent.fatal_naks)), "NAKs that end the connection."),
            C::new("rnr_naks", U64(|sent| Some(sent.rnr_naks)), "RNR NAKs."),
            C::new(
                "repeated_packets",
                U64(|sent| Some(sent.repeated_packets)),
                "Request packets with a PSN seen before, and repeated RDMA Read responses.",
            ),
            C::new(
                "reordered_packets",
                U64(|sent| Some(sent.reordered_packets)),
                "Request packets that filled a gap before packets seen earlier: out of order in the \
                 capture, or lost before the capture point and retransmitted.",
            ),
            C::missing_packets(|sent| Some(sent.missing_packets)),
            C::new(
                "unmatched_responses",
                U64(|sent| Some(sent.unmatched_responses)),
                "Response packets that belong to no RDMA Read in the capture.",
            ),
            C::new(
                "unmatched_placements",
                U64(|sent| Some(sent.unmatched_placements)),
                "RDMA operations on memory that no open transaction advertised.",
            ),
            C::new(
                "other_sends",
                U64(|sent| Some(sent.other_sends)),
                "Sends that are not RPC-over-RDMA messages.",
            ),
            C::new(
                "bad_icrc",
                U64(|sent| Some(sent.bad_icrc)),
                "Packets with a bad ICRC, or iWARP segments with a bad TCP checksum, which no other field \
                 counts; FPDUs with a bad CRC.",
            ),
            C::new(
                "congestion_marks",
                U64(|sent| Some(sent.congestion_marks)),
                "Packets with FECN, BECN, or ECN \"congestion experienced\".",
            ),
        ],
    }
};
