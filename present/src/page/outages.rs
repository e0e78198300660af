//! Losses of service, which come first in the list of problems, and the suggested next command.

use crate::text::Style;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::report::Loss;
use rdmascope_analysis::units::Duration;
use std::io::{self, Write};

/// The most rows. Each row covers all events of one kind and end.
const MOST: usize = 8;

/// Writes the losses of service by kind of event, each with its total duration and the frame of the
/// longest one.
pub(super) fn write_losses(losses: &[Loss], style: Style, out: &mut dyn Write) -> io::Result<()> {
    if losses.is_empty() {
        return Ok(());
    }
    writeln!(out, "  Service")?;
    for loss in losses.iter().take(MOST) {
        write!(out, "  {}  {loss}", style.red(format_args!("{:>10}", Duration(loss.length))))?;
        match loss.longest.frames[0] {
            Some(frame) => writeln!(out, "; frame {frame}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// Suggests the next command: all events if service was lost, otherwise the frame of the first
/// problem.
pub(super) fn write_next(
    ending: &Ending,
    has_losses: bool,
    frame: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let file = ending.plain_name().unwrap_or("FILE");
    match (has_losses, frame) {
        (true, _) => writeln!(out, "Next: rdmascope events {file}"),
        (false, Some(frame)) => writeln!(out, "Next: rdmascope show {file} --frame {frame}"),
        (false, None) => Ok(()),
    }
}
