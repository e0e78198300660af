//! A kernel trace as JSON.

use super::write_line;
use crate::columns::{KERNEL, KERNEL_DISAGREEMENT, KERNEL_STEP, KERNEL_TRANSACTION};
use rdmascope_analysis::kernel::TraceResults;
use std::io::{self, Write};

/// Writes the lines of a trace: totals, steps, and disagreements with the capture; without a
/// capture, its transactions.
pub fn write_witness(witness: &TraceResults, out: &mut dyn Write) -> io::Result<()> {
    write_line(out, &KERNEL.of(witness))?;
    for step in &witness.steps {
        write_line(out, &KERNEL_STEP.of((witness, step)))?;
    }
    for disagreement in &witness.disagreements {
        write_line(out, &KERNEL_DISAGREEMENT.of((witness, disagreement)))?;
    }
    if !witness.has_capture {
        for call in &witness.trace.calls {
            write_line(out, &KERNEL_TRANSACTION.of((&witness.trace, call)))?;
        }
    }
    Ok(())
}
