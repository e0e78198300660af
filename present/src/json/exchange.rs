//! Complete transactions as JSON: their exchange, headers and messages.

use super::write_line;
use crate::columns::{EXCHANGE, ExchangeRow, FINDING, FindingRow};
use crate::ladder::Ladder;
use rdmascope_analysis::findings::ByFrame;
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_conformance::Finding;
use std::io::{self, Write};

/// Writes a transaction with its `ladder`, fields and messages, and then the `findings` about it.
/// `by_frame` contains all findings of the capture. Without `full`, the middle of long stretches is
/// omitted.
pub fn write_exchange(
    transaction: TransactionRow<'_>,
    ladder: &Ladder,
    findings: &[&Finding],
    by_frame: &ByFrame<'_>,
    full: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    ExchangeRow::lend(transaction, ladder, by_frame, full, |row| write_line(out, &EXCHANGE.of(row)))?;
    findings.iter().try_for_each(|finding| write_line(out, &FINDING.of(FindingRow::new(finding, false))))
}
