//! `rdma_interval`: the RDMA packets of one interval of a capture, or of one half-flow in it.

use crate::column::Read::{Fraction, Nanoseconds, Shown, Time, U8, U32, U64};
use crate::column::{Column, Columns, Role, Subject, lend};
use rdmascope_analysis::flows::FlowFigures;

impl Subject for FlowFigures {
    type Of<'a> = &'a FlowFigures;
}

/// The RDMA packets of one interval.
pub static RDMA_INTERVAL: Columns<FlowFigures> = {
    type C = Column<FlowFigures>;
    Columns {
        name: "rdma_interval",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|row| Some(row.start)), "When the interval began."),
            C::new(
                "duration_ns",
                Nanoseconds(|row| Some(row.length)),
                "The length of the interval. The last interval ends with the capture.",
            ),
            C::new(
                "source",
                Shown(|row, see| lend(row.flow, |flow| see(&flow.source))),
                "The address of the sender, in lines of one queue pair.",
            )
            .optional(),
            C::new(
                "destination",
                Shown(|row, see| lend(row.flow, |flow| see(&flow.destination))),
                "The address of the receiver, in lines of one queue pair.",
            )
            .optional(),
            C::new(
                "queue_pair",
                U32(|row| Some(row.flow?.queue_pair)),
                "The number of the receiver's queue pair; the TCP port for iWARP.",
            )
            .optional(),
            C::new(
                "dscp",
                U8(|row| row.flow?.dscp),
                "The DSCP of the IP header, in lines of one queue pair, for RoCEv2.",
            )
            .optional(),
            C::new(
                "connection",
                U32(|row| Some(row.connection?.0)),
                "The number of the connection, in lines of one queue pair, if known.",
            )
            .optional(),
            C::new(
                "packets",
                U64(|row| Some(row.counts.sent.packets)),
                "RDMA packets of any protocol, with CM messages. Copies count once.",
            ),
            C::new(
                "bytes",
                U64(|row| Some(row.counts.sent.bytes)),
                "Bytes after the transport headers; after the TCP header for iWARP.",
            ),
            C::new(
                "bytes_per_second",
                Fraction(|row| Some((row.rate() * 1000.0).round() / 1000.0)),
                "These bytes per second, to three decimals.",
            ),
            C::new(
                "wire_bytes",
                U64(|row| Some(row.counts.sent.wire_bytes)),
                "Bytes of the packets on the wire, with all headers.",
            ),
            C::new(
                "congestion_marks",
                U64(|row| Some(row.counts.sent.congestion_marks)),
                "Packets with ECN \"congestion experienced\", FECN or BECN. CNPs do not count.",
            ),
            C::new(
                "notifications",
                U64(|row| Some(row.counts.sent.notifications)),
                "Congestion notification packets (CNPs).",
            ),
            C::new(
                "priority_pauses",
                U64(|row| row.flow.is_none().then_some(row.counts.priority_pauses)),
                "Pause frames of priority-based flow control (PFC), in lines of whole intervals.",
            )
            .optional(),
            C::new(
                "pauses",
                U64(|row| row.flow.is_none().then_some(row.counts.pauses)),
                "Other pause frames of Ethernet, in lines of whole intervals.",
            )
            .optional(),
        ],
    }
};
