//! Kernel traces that complement a capture: traces given by option, and the one in the capture.

use crate::output::notify;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::kernel::{Joining, KernelTrace, TraceResults};
use rdmascope_analysis::observer::Observer;
use rdmascope_capture_agent::trace::{Trace, TraceError};
use rdmascope_capture_agent::{Note, NoteKind};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use std::path::{Path, PathBuf};

/// Maximum size of a trace in a capture that is kept, in bytes.
const MOST_TRACED: usize = 256 << 20;

/// Reads traces.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<KernelTrace>> {
    paths.iter().map(|path| Ok(KernelTrace::read(&mut Trace::open(path)?)?)).collect()
}

/// The data gathered for traces while a capture is read.
#[derive(Debug, Default)]
pub(crate) struct GatheredTraces {
    /// Traces given by option.
    named: Vec<KernelTrace>,
    joining: Option<Joining>,
    /// The trace in the capture.
    traced: Vec<u8>,
    /// Whether that trace is truncated.
    is_cut: bool,
}

impl GatheredTraces {
    /// Starts with the given traces.
    pub(crate) fn new(named: Vec<KernelTrace>) -> GatheredTraces {
        GatheredTraces {
            joining: (!named.is_empty()).then(Joining::default),
            named,
            ..GatheredTraces::default()
        }
    }

    /// Matches all traces to the capture, starting with the one in the capture. `path` is the first
    /// file of the capture. Read errors are reported.
    pub(crate) fn join(self, path: &Path, ending: &Ending) -> impl Iterator<Item = TraceResults> {
        let GatheredTraces { named, joining, traced, is_cut } = self;
        if is_cut {
            notify(format_args!("warning: the trace in the capture is truncated to {MOST_TRACED} bytes"));
        }
        let own = (!traced.is_empty()).then(|| {
            let name = format!("in {}", path.display());
            KernelTrace::read(&mut Trace::new(name, traced.as_slice())?)
        });
        let own = own.and_then(|own| {
            let warn = |error: TraceError| notify(format_args!("warning: {error}"));
            own.map_err(warn).ok()
        });
        let joining = joining.unwrap_or_default();
        let span = ending.totals.span;
        let all = own.map(|own| (own, true)).into_iter().chain(named.into_iter().map(|one| (one, false)));
        all.map(move |(trace, is_own)| joining.join(trace, span, is_own))
    }
}

impl Observer for GatheredTraces {
    fn needs(&self) -> Config {
        self.joining.needs()
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_>) {
        if let Some(joining) = &mut self.joining {
            joining.handle(event);
        }
    }

    /// The first part of a trace precedes the packets.
    fn note(&mut self, note: &Note) {
        if note.kind != NoteKind::Trace {
            return;
        }
        self.joining.get_or_insert_default();
        if self.traced.len() + note.bytes.len() > MOST_TRACED {
            self.is_cut = true;
        } else {
            self.traced.extend_from_slice(&note.bytes);
        }
    }
}
