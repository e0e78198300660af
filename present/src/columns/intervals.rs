//! `course`: the transactions of one interval of a capture, or one group of them.

use super::report::LATENCY;
use super::shared::{DIRECTIONS, PAYLOAD_BYTES, direction};
use crate::column::Read::{Fraction, Nanoseconds, Object, Shown, Time, U32, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend};
use rdmascope_analysis::intervals::Figures;

impl Subject for Figures {
    type Of<'a> = &'a Figures;
}

/// The figures of one interval.
pub static INTERVALS: Columns<Figures> = {
    type C = Column<Figures>;
    type O<U> = Within<Figures, U>;
    Columns {
        name: "course",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|row| Some(row.start)), "When the interval began."),
            C::new(
                "duration_ns",
                Nanoseconds(|row| Some(row.length)),
                "The length of the interval. The last interval ends with the capture.",
            ),
            C::new(
                "connection",
                U32(|row| Some(row.group.connection?.0)),
                "The number of the connection, with `--by connection`.",
            )
            .optional(),
            C::new(
                "client",
                Shown(|row, see| lend(row.group.client, |address| see(&address))),
                "The address of the NFS client, with `--by client`, if known.",
            )
            .optional(),
            C::new(
                "server",
                Shown(|row, see| lend(row.group.server, |address| see(&address))),
                "The address of the NFS server, with `--by server`, if known.",
            )
            .optional(),
            C::new(
                "protocol",
                Shown(|row, see| {
                    lend(row.group.operation.and_then(|key| key.protocol), |protocol| see(&protocol));
                }),
                "The program and its version as one name, with `--by operation`, if the call was captured.",
            )
            .optional(),
            C::new(
                "direction",
                Word(DIRECTIONS, |row| row.group.operation.map(|key| direction(key.backward))),
                "Which end calls, with `--by operation`.",
            )
            .optional(),
            C::new(
                "operation",
                Shown(|row, see| lend(row.group.operation, |key| see(&key.label))),
                "The principal operation, or the procedure, with `--by operation`.",
            )
            .optional(),
            C::new(
                "count",
                U64(|row| Some(row.count)),
                "Transactions whose reply is in the interval; without a reply, those whose call is in the \
                 interval.",
            ),
            C::new("errors", U64(|row| Some(row.errors)), "Transactions that failed."),
            C::new("bytes", U64(|row| Some(row.bytes)), PAYLOAD_BYTES),
            C::new(
                "calls_per_second",
                Fraction(|row| Some(rounded(row.rate(row.count)))),
                "Transactions per second, to three decimals.",
            ),
            C::new(
                "bytes_per_second",
                Fraction(|row| Some(rounded(row.rate(row.bytes)))),
                "Bytes per second, to three decimals.",
            ),
            C::new(
                "latency",
                Object(&O {
                    columns: &LATENCY,
                    lend: |row, see| lend(row.latency, |latency| see((latency, row.total_latency))),
                }),
                "The latencies. With more than 1,024 transactions, the median and the percentile have three \
                 significant digits.",
            )
            .or_null(),
        ],
    }
};

/// Rounds to three decimals.
fn rounded(rate: f64) -> f64 {
    (rate * 1000.0).round() / 1000.0
}
