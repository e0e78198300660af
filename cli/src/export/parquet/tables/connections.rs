//! `connections`: a row for each connection.

use crate::export::parquet::Table;
use crate::export::parquet::column::Leaf::{Boolean, Text, Time, U8, U16, U32, U64};
use crate::export::parquet::column::{Column, one};
use rdmascope_dissector::connection::{Connection, Evidence, Origin, PrivateData, State};
use rdmascope_present::words;

pub(in super::super) struct Connections;

/// The columns of one end.
macro_rules! end_columns {
    ($end:ident, [$($count:ident),* $(,)?]) => {
        &[
            one(concat!(stringify!($end), "_address"), Text(|row, out| out.show(Some(row.$end.address)))),
            one(concat!(stringify!($end), "_qpn"), U32(|row, out| out.put(row.$end.qpn.map(|qpn| qpn.0)))),
            $(one(
                concat!(stringify!($end), "_", stringify!($count)),
                U64(|row, out| out.put(row.$end.sent.$count)),
            ),)*
        ]
    };
    ($end:ident) => {
        end_columns!($end, [
            packets, bytes, sends, read_requests, written_bytes, read_response_bytes, acknowledgements,
            sequence_naks, fatal_naks, rnr_naks, repeated_packets, reordered_packets, missing_packets,
            unmatched_responses, unmatched_placements, other_sends, bad_icrc, congestion_marks,
        ])
    };
}

impl Table for Connections {
    type Row<'a> = Connection;
    const NAME: &'static str = "connections";
    const COLUMNS: &'static [&'static [Column<Connections>]] = &[
        &[
            one("connection", U32(|row, out| out.put(row.id.0))),
            one("origin", Text(|row, out| out.put(words::origin(row.origin)))),
            one(
                "evidence_acknowledged_psn",
                Boolean(|row, out| out.put(evidence(row).map(|evidence| evidence.acknowledged_psn))),
            ),
            one("evidence_xid", Boolean(|row, out| out.put(evidence(row).map(|evidence| evidence.xid)))),
            one("evidence_rkey", Boolean(|row, out| out.put(evidence(row).map(|evidence| evidence.rkey)))),
            one("roles_known", Boolean(|row, out| out.put(row.roles_known))),
            one("state", Text(|row, out| out.put(words::state(row.state)))),
            one("reject_reason", U16(|row, out| out.put(reject_reason(row)))),
            one("port", U16(|row, out| out.put(row.port))),
            one("path_mtu", U16(|row, out| out.put(row.path_mtu))),
            one("call_inline_threshold", U32(|row, out| out.put(row.call_inline_threshold))),
            one("reply_inline_threshold", U32(|row, out| out.put(row.reply_inline_threshold))),
            one("remote_invalidation", Boolean(|row, out| out.put(row.remote_invalidation))),
            one("first", Time(|row, out| out.put(row.first))),
            one("last", Time(|row, out| out.put(row.last))),
            one("transactions_forward", U64(|row, out| out.put(row.transactions[0]))),
            one("transactions_backward", U64(|row, out| out.put(row.transactions[1]))),
        ],
        end_columns!(requester),
        private_data_columns!("requester_private_data", requester_private_data),
        end_columns!(responder),
        private_data_columns!("responder_private_data", responder_private_data),
    ];
}

fn evidence(connection: &Connection) -> Option<Evidence> {
    match connection.origin {
        Origin::Cm => None,
        Origin::Inferred(evidence) => Some(evidence),
    }
}

fn reject_reason(connection: &Connection) -> Option<u16> {
    match connection.state {
        State::Rejected(reason) => Some(reason),
        State::Requested | State::Open | State::Closed => None,
    }
}

fn requester_private_data(connection: &Connection) -> Option<PrivateData> {
    connection.requester.private_data
}

fn responder_private_data(connection: &Connection) -> Option<PrivateData> {
    connection.responder.private_data
}
