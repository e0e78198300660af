//! The tables, a file for each: docs/parquet.md in code. Names and words are those of docs/json.md.

/// The columns of the [`Stop`](rdmascope_wire::Stop) that `$find` finds in a row.
macro_rules! stop_columns {
    ($prefix:literal, $find:path) => {
        &[
            one(concat!($prefix, "_layer"), Text(|row, out| out.show($find(row).map(|stop| stop.layer)))),
            one(
                concat!($prefix, "_offset"),
                U64(|row, out| out.put($find(row).map(|stop| stop.offset as u64))),
            ),
            one(
                concat!($prefix, "_needed"),
                U64(|row, out| out.put($find(row).map(|stop| stop.needed as u64))),
            ),
            one(
                concat!($prefix, "_available"),
                U64(|row, out| out.put($find(row).map(|stop| stop.available as u64))),
            ),
            one(
                concat!($prefix, "_cause"),
                Text(|row, out| out.put($find(row).map(|stop| words::cause(stop.cause)))),
            ),
        ]
    };
}

/// The columns of the [`PrivateData`](rdmascope_dissector::connection::PrivateData) that `$find` finds in a row.
macro_rules! private_data_columns {
    ($prefix:literal, $find:path) => {
        &[
            one(concat!($prefix, "_offset"), U8(|row, out| out.put($find(row).map(|data| data.offset)))),
            one(concat!($prefix, "_version"), U8(|row, out| out.put($find(row).map(|data| data.version)))),
            one(concat!($prefix, "_reserved"), U8(|row, out| out.put($find(row).map(|data| data.reserved)))),
            one(
                concat!($prefix, "_remote_invalidation"),
                Boolean(|row, out| out.put($find(row).map(|data| data.remote_invalidation))),
            ),
            one(
                concat!($prefix, "_send_size"),
                U32(|row, out| out.put($find(row).map(|data| data.send_size))),
            ),
            one(
                concat!($prefix, "_receive_size"),
                U32(|row, out| out.put($find(row).map(|data| data.receive_size))),
            ),
        ]
    };
}

mod connections;
mod findings;
mod messages;
mod operations;
mod packets;
mod transactions;

pub(super) use connections::Connections;
pub(super) use findings::Findings;
pub(super) use messages::{MessageRow, Messages};
pub(super) use operations::{OperationRow, Operations};
pub(super) use packets::Packets;
pub(super) use transactions::Transactions;
