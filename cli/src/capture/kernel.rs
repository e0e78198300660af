//! What the kernel of this host tells beside its packets: which queue pairs are connected, and its tracepoints.

use super::files::Current;
use crate::output::tell;
use anyhow::{Context as _, Result};
use rdmascope_capture_agent::NoteKind;
use rdmascope_capture_agent::inventory::{self, Connected, InventoryError};
use rdmascope_capture_agent::live::tracefs::Tracepoints;
use std::time::{Duration, Instant};

/// The connections of this host, as text for the file.
pub(super) fn inventory(quiet: bool) -> String {
    inventory::to_text(&connected(quiet))
}

/// The connections of this host. Without them a capture goes on; half-flows are joined by inference then.
pub(crate) fn connected(quiet: bool) -> Vec<Connected> {
    match inventory::read() {
        Ok(found) => found,
        Err(error) => {
            // Where there is no RDMA at all, as on a host that only mirrors, nothing is missing.
            if !(quiet && matches!(error, InventoryError::NoRdma)) {
                tell(format_args!("connected queue pairs are not known: {error}"));
            }
            Vec::new()
        }
    }
}

/// The tracepoints that are recorded.
pub(super) struct Tracing {
    tracepoints: Tracepoints,
    /// When what was traced was last taken.
    taken: Instant,
    /// When the clocks were last tied.
    marked: Option<Instant>,
}

/// How often what was traced is taken, and how often the clocks are tied.
const TAKING: Duration = Duration::from_millis(200);
const MARKING: Duration = Duration::from_secs(5);

impl Tracing {
    pub(super) fn new() -> Result<Tracing> {
        let tracepoints = Tracepoints::open().context("--kernel")?;
        Ok(Tracing { tracepoints, taken: Instant::now(), marked: None })
    }
}

/// Writes what was traced, where it is time for that or `always`.
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
