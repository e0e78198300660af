//! The columns of each kind of line, and of the objects in them: what docs/json.md and docs/parquet.md print.

mod capture;
mod check;
mod connection;
mod finding;
mod message;
mod operation;
mod packet;
mod report;
mod shared;
mod transaction;

pub use capture::{CAPTURE, FILE, INTERFACE};
pub use check::{CHECK, Judged};
pub use connection::{CONNECTION, END};
pub use finding::{FINDING, FindingRow, RULE, VALUE};
pub use message::{MESSAGE, MessageRow};
pub use operation::{OPERATION, OperationRow};
pub use packet::PACKET;
pub use report::{ERROR, OPERATION_FIGURES, PROBLEM};
pub use shared::{PRIVATE_DATA, SEGMENT, STOP};
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
    &ERROR,
    &PROBLEM,
    &FINDING,
    &VALUE,
    &CHECK,
    &RULE,
];

/// The tables of Parquet: what their folders are called, and what their rows are made of.
pub static TABLES: [(&str, &dyn List); 6] = [
    ("transactions", &TRANSACTION),
    ("operations", &OPERATION),
    ("messages", &MESSAGE),
    ("packets", &PACKET),
    ("connections", &CONNECTION),
    ("findings", &FINDING),
];
