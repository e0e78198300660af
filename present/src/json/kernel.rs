//! A kernel trace as JSON.

use super::write_line;
use crate::columns::{KERNEL, KERNEL_DISAGREEMENT, KERNEL_STEP, KERNEL_TRANSACTION};
use rdmascope_analysis::kernel::TraceResults;
use std::io::{self, Write};

/// Writes the lines of a trace: totals, steps, and disagreements with the capture; without a
/// capture, its transactions.
pub fn write_witness(results: &TraceResults, out: &mut dyn Write) -> io::Result<()> {
    write_line(out, &KERNEL.of(results))?;
    for step in &results.steps {
        write_line(out, &KERNEL_STEP.of((results, step)))?;
    }
    for disagreement in &results.disagreements {
        write_line(out, &KERNEL_DISAGREEMENT.of((results, disagreement)))?;
    }
    if !results.has_capture {
        for call in &results.trace.calls {
            write_line(out, &KERNEL_TRANSACTION.of((&results.trace, call)))?;
        }
    }
    Ok(())
}
