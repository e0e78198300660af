//! The engine, with reports through one type of callback.

use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Record;

/// A callback. The engine is compiled once for each type of callback, and takes long with the
/// instrumentation of a fuzzer, so all targets use this one.
type Report<'a> = &'a mut dyn FnMut(Event<'_>);

/// Takes the next record.
pub(crate) fn handle(engine: &mut Engine, record: &Record<'_>, mut report: Report<'_>) {
    engine.handle(record, &mut report);
}

/// Ends the capture.
pub(crate) fn finish(engine: &mut Engine, mut report: Report<'_>) {
    engine.finish(&mut report);
}
