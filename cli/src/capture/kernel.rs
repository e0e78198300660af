//! Kernel data recorded with a capture: the connected queue pairs and the tracepoints.

use super::files::Current;
use crate::output::notify;
use anyhow::{Context as _, Result};
use rdmascope_capture_agent::NoteKind;
use rdmascope_capture_agent::inventory::{self, Connected, InventoryError};
use rdmascope_capture_agent::live::tracefs::Tracepoints;
use std::time::{Duration, Instant};

/// The connections of this host, as text for the file.
pub(super) fn inventory(quiet: bool) -> String {
    inventory::to_text(&connected(quiet))
}

/// The connections of this host. If they cannot be read, the capture continues and half-flows are
/// paired by inference.
pub(crate) fn connected(quiet: bool) -> Vec<Connected> {
    match inventory::read() {
        Ok(found) => found,
        Err(error) => {
            // A host without RDMA, such as one that only receives mirrored packets, lacks nothing.
            if !(quiet && matches!(error, InventoryError::NoRdma)) {
                notify(format_args!("cannot list connected queue pairs: {error}"));
            }
            Vec::new()
        }
    }
}

/// The tracepoints being recorded.
pub(super) struct Tracing {
    tracepoints: Tracepoints,
    /// When the trace was last read.
    taken: Instant,
    /// When the last clock marker was written.
    marked: Option<Instant>,
}

/// The intervals at which the trace is read and clock markers are written.
const TAKING: Duration = Duration::from_millis(200);
const MARKING: Duration = Duration::from_secs(5);

impl Tracing {
    pub(super) fn new() -> Result<Tracing> {
        let tracepoints = Tracepoints::open().context("--kernel")?;
        Ok(Tracing { tracepoints, taken: Instant::now(), marked: None })
    }
}

/// Writes the new trace lines if an interval has passed, or `always`.
pub(super) fn record(tracing: &mut Option<Tracing>, file: &mut Current, always: bool) -> Result<()> {
    let Some(Tracing { tracepoints, taken, marked }) = tracing else { return Ok(()) };
    if !always && taken.elapsed() < TAKING {
        return Ok(());
    }
    *taken = Instant::now();
    if always || marked.is_none_or(|marked| marked.elapsed() >= MARKING) {
        tracepoints.mark().context("--kernel: trace_marker")?;
        *marked = Some(Instant::now());
    }
    let lines = tracepoints.take().context("--kernel: trace_pipe")?;
    file.note(NoteKind::Trace, &lines)
}
