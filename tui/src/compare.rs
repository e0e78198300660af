//! The comparison of the shown capture with another one, as `rdmascope diff` prints it.

use core::ops::ControlFlow;
use rdmascope_analysis::diff::{Comparison, Side, Thresholds};
use rdmascope_analysis::ending::{self, Ending};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::one_capture::OneCapture;
use rdmascope_capture_agent::{Error, Files, Interrupt, Note, Sink};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::page::diff::Text;
use rdmascope_present::text::Style;
use std::path::PathBuf;

/// The other capture of a comparison, on the screen.
#[derive(Debug)]
pub struct OtherCapture {
    /// The name that is shown.
    pub name: String,
    /// The comparison, or the reason why it failed; `None` while both captures are read.
    pub compared: Option<Result<Compared, String>>,
    /// Shown in place of the report.
    pub is_shown: bool,
    /// Equal values are shown too.
    pub has_all: bool,
}

impl OtherCapture {
    /// Creates a comparison that is still to be read.
    pub fn new(name: String) -> OtherCapture {
        OtherCapture { name, compared: None, is_shown: false, has_all: false }
    }
}

/// Two captures, compared.
#[derive(Debug)]
pub struct Compared {
    sides: Box<[Side; 2]>,
    comparison: Comparison,
}

impl Compared {
    /// Latency distributions that are drawn.
    const HISTOGRAMS: usize = 3;

    /// Reads two captures to their ends. `frame` configures the decoding of frames.
    pub fn read(captures: [&[PathBuf]; 2], frame: frame::Config) -> Result<Compared, Error> {
        let [a, b] = captures;
        let sides = Box::new([side(a, frame)?, side(b, frame)?]);
        let [a, b] = &*sides;
        let comparison = Comparison::of([a, b], &Thresholds::DEFAULT);
        Ok(Compared { sides, comparison })
    }

    /// Differences that are listed before all others.
    const MOST: usize = 5;

    /// The most important differences and then all, as text; with `has_all` also the equal values.
    pub fn text(&self, has_all: bool, style: Style) -> Vec<u8> {
        let [a, b] = &*self.sides;
        let differences = self.comparison.differences.iter();
        let shown: Vec<_> = differences.filter(|difference| has_all || difference.is_shown()).collect();
        let mut text = Vec::new();
        let page = Text { sides: [a, b], comparison: &self.comparison, shown: &shown, style };
        // Writing to memory cannot fail.
        let _ = page.write_most(Compared::MOST, &mut text);
        let _ = page.write(Compared::HISTOGRAMS, &mut text);
        text
    }
}

fn side(paths: &[PathBuf], frame: frame::Config) -> Result<Side, Error> {
    let side = Side::default();
    let engine = Engine::new(Config { frame, ..side.needs() });
    let mut reading = Reading { engine, side, one_capture: OneCapture::default() };
    let mut files = Files::open(paths, None, &Interrupt::default())?;
    files.for_each(&frame, &mut (), &mut reading)?;
    let Reading { mut engine, mut side, mut one_capture } = reading;
    engine.finish(&mut |event: Event<'_>| {
        one_capture.handle(&event);
        side.handle(&event);
    });
    let input = ending::arguments(paths);
    let (totals, files) = (*engine.totals(), files.endings());
    side.ending = Ending { totals, files, port: frame.port, one_capture, input, ..Ending::default() };
    Ok(side)
}

/// A capture being read through an engine.
struct Reading {
    engine: Engine,
    side: Side,
    one_capture: OneCapture,
}

impl Sink for Reading {
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        let Reading { engine, side, one_capture } = self;
        engine.handle_dissected(record, dissected, &mut |event| {
            one_capture.handle(&event);
            side.handle(&event);
        });
        ControlFlow::Continue(())
    }

    fn note(&mut self, note: &Note) {
        note.pass_to(&mut self.engine);
    }

    /// Files need no timer.
    fn idle(&mut self, _: Option<Time>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
