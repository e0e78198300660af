//! What comes first of what went wrong, and what a person looks at next.

use crate::text::Style;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::report::Loss;
use rdmascope_analysis::units::Duration;
use std::io::{self, Write};

/// Events that are told, of which each stands for all of its kind and end.
const MOST: usize = 8;

/// Writes in which events service was lost: how long that took together, what happened, and how often.
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

/// Writes what a person does next: all events where service was lost; else the first packet that something is told of.
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
