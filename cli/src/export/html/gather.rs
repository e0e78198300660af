//! The results of the first reading of a capture. Memory use does not grow with the length of the
//! capture.

use crate::input::Audience;
use crate::kernel_trace::GatheredTraces;
use crate::slice::Slice;
use rdmascope_analysis::capture_points::EndToEnd;
use rdmascope_analysis::charts::Charts;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::findings::Findings;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::Paths;
use rdmascope_analysis::report::Report;
use rdmascope_capture_agent::Note;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use std::io;

/// The data of the report, except the ladders.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The part of the capture to report on.
    slice: Slice,
    /// The figures of `analyze`.
    pub(super) report: Report,
    /// The data of charts and ladders.
    pub(super) charts: Charts,
    /// The findings.
    pub(super) findings: Findings,
    /// The paths of files.
    pub(super) paths: Paths,
    /// The kernel traces.
    pub(super) traces: GatheredTraces,
    /// The end-to-end figures, if several capture points are joined.
    pub(super) end_to_end: Option<EndToEnd>,
}

impl Gathered {
    /// Maximum number of findings per rule whose evidence is marked.
    const MOST_FINDINGS: usize = 1024;

    /// Creates an empty collection for a part, with `ladders` transactions of each kind to choose.
    pub(super) fn new(ladders: usize, slice: Slice) -> Gathered {
        Gathered {
            slice,
            report: Report::default(),
            charts: Charts::new(ladders),
            findings: Findings::new(Gathered::MOST_FINDINGS),
            paths: Paths::new(),
            traces: GatheredTraces::default(),
            end_to_end: None,
        }
    }

    /// Ends the intervals of all charts.
    pub(super) fn finish(&mut self, ending: &Ending) {
        let end = ending.totals.span.map_or(0, |(first, last)| last.since(first));
        self.charts.finish(end);
        if let Some(end_to_end) = &mut self.end_to_end {
            end_to_end.finish();
        }
    }
}

impl Audience for Gathered {
    fn needs(&self) -> Config {
        let Gathered { findings, report, end_to_end, traces, charts, .. } = self;
        let needs = (findings.needs()).and(report.needs()).and(end_to_end.needs()).and(traces.needs());
        needs.and(charts.needs())
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        let Gathered { slice, findings, report, paths, end_to_end, .. } = self;
        findings.handle_some(&event, |finding| slice.has_finding(finding));
        if slice.concerns(&event) {
            report.follow(&event);
        }
        if let Event::Transaction(transaction) = event {
            paths.take(transaction);
        }
        let is_chosen = slice.has(&event);
        if let Some(end_to_end) = end_to_end
            && (is_chosen || matches!(event, Event::Packet(_)))
        {
            end_to_end.handle(&event);
        }
        if !is_chosen {
            return Ok(());
        }
        self.charts.handle(&event, start);
        self.report.count(&event);
        self.traces.handle(&event);
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        self.traces.note(note);
    }
}
