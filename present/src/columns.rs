//! The columns of each kind of line and of the objects in them, as listed in docs/json.md and
//! docs/parquet.md.

mod capture;
mod capture_points;
mod captured;
mod check;
mod comparison;
mod connection;
mod event;
mod exchange;
mod exported;
mod extract;
mod finding;
mod flow;
mod frame;
mod interval;
mod intervals;
mod kernel;
mod message;
mod operation;
mod packet;
mod policy;
mod regression;
mod report;
mod segment;
mod shared;
mod state;
mod transaction;

pub use capture::{CAPTURE, FILE, INTERFACE};
pub use capture_points::{OPERATION_SPLIT, PLACE, SPLIT, WAY};
pub use captured::CAPTURED;
pub use check::{CHECK, Judged};
pub use comparison::{COMPARISON, COUNT, ComparisonRow, DIFFERENCE, EXTREMES, LATENCIES, OCCURRENCE, SIDE};
pub use connection::{CONNECTION, END};
pub use event::EVENT;
pub use exchange::{EXCHANGE, ExchangeRow, RUNG, UNREDUCED_MESSAGE, UnreducedMessage};
pub use exported::{EXPORTED, Exported};
pub use extract::{EXTRACTED, EXTRACTION};
pub use finding::{FINDING, FindingRow, RULE, VALUE};
pub use flow::RDMA_INTERVAL;
pub use frame::{FIELD, FRAME, FrameRow};
pub use interval::{
    FIGURES, INTERVAL, INTERVAL_CONNECTION, INTERVAL_OPERATION, INTERVAL_ROW, IntervalRow, TRANSPORT,
    connection_name,
};
pub use intervals::INTERVALS;
pub use kernel::{KERNEL, KERNEL_DISAGREEMENT, KERNEL_STEP, KERNEL_TRANSACTION};
pub use message::{MESSAGE, MessageRow};
pub use operation::{OPERATION, OperationRow};
pub use packet::PACKET;
pub use policy::{POLICY, PolicyRow};
pub use regression::{DEVIATION, DeviationRow, VERDICT, VerdictRow};
pub use report::{CALLS, ERROR, OPERATION_FIGURES, PROBLEM, REPLIES};
pub use shared::{PRIVATE_DATA, SEGMENT, STOP};
pub use state::STATE;
pub use transaction::TRANSACTION;

use crate::column::List;

/// All lists with a table of their own in docs/json.md.
pub static LISTS: &[&dyn List] = &[
    &TRANSACTION,
    &MESSAGE,
    &OPERATION,
    &SEGMENT,
    &STOP,
    &CONNECTION,
    &END,
    &PRIVATE_DATA,
    &PACKET,
    &CAPTURE,
    &FILE,
    &INTERFACE,
    &OPERATION_FIGURES,
    &CALLS,
    &REPLIES,
    &ERROR,
    &PROBLEM,
    &PLACE,
    &WAY,
    &OPERATION_SPLIT,
    &SPLIT,
    &INTERVALS,
    &RDMA_INTERVAL,
    &EVENT,
    &STATE,
    &KERNEL,
    &KERNEL_STEP,
    &KERNEL_DISAGREEMENT,
    &KERNEL_TRANSACTION,
    &FRAME,
    &FIELD,
    &EXCHANGE,
    &RUNG,
    &UNREDUCED_MESSAGE,
    &EXTRACTED,
    &EXTRACTION,
    &FINDING,
    &VALUE,
    &CHECK,
    &POLICY,
    &RULE,
    &COMPARISON,
    &SIDE,
    &DIFFERENCE,
    &COUNT,
    &OCCURRENCE,
    &EXTREMES,
    &LATENCIES,
    &DEVIATION,
    &VERDICT,
    &INTERVAL,
    &INTERVAL_CONNECTION,
    &INTERVAL_OPERATION,
    &FIGURES,
    &TRANSPORT,
    &CAPTURED,
];

/// The Parquet tables: the folder name of each, and the list that defines its rows.
pub static TABLES: [(&str, &dyn List); 8] = [
    ("transactions", &TRANSACTION),
    ("operations", &OPERATION),
    ("messages", &MESSAGE),
    ("packets", &PACKET),
    ("connections", &CONNECTION),
    ("findings", &FINDING),
    ("events", &EVENT),
    ("captures", &EXPORTED),
];
