//! The report of `analyze` as JSON.

use super::write_line;
use crate::columns::{
    CALLS, CAPTURE, CONNECTION, ERROR, EVENT, OPERATION_FIGURES, OPERATION_SPLIT, PLACE, PROBLEM, REPLIES,
    WAY,
};
use rdmascope_analysis::capture_points::EndToEnd;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::report::Report;
use std::io::{self, Write};

/// Writes the lines of a report: the capture, its connections, operations, calls, replies, errors,
/// problems and events.
pub fn write_report(report: &Report, ending: &Ending, out: &mut dyn Write) -> io::Result<()> {
    write_line(out, &CAPTURE.of(ending))?;
    for connection in report.connections().0 {
        write_line(out, &CONNECTION.of(connection))?;
    }
    for (key, stats) in report.operations() {
        write_line(out, &OPERATION_FIGURES.of((key, stats)))?;
    }
    write_line(out, &CALLS.of(report))?;
    write_line(out, &REPLIES.of(report.replies()))?;
    for (key, error) in report.all_errors() {
        write_line(out, &ERROR.of((&key, error)))?;
    }
    for problem in report.problems(ending) {
        write_line(out, &PROBLEM.of(&problem))?;
    }
    for event in report.events(ending) {
        write_line(out, &EVENT.of(&event))?;
    }
    Ok(())
}

/// Writes the comparison of several capture points: the points, the paths between them, and the
/// times of operations.
pub fn write_places(end_to_end: &EndToEnd, out: &mut dyn Write) -> io::Result<()> {
    let EndToEnd { tally, splits } = end_to_end;
    for place in tally.places().places.iter().enumerate() {
        write_line(out, &PLACE.of(place))?;
    }
    for way in tally.ways() {
        write_line(out, &WAY.of(way))?;
    }
    for (key, sum) in splits.by_time() {
        write_line(out, &OPERATION_SPLIT.of((&key, &sum)))?;
    }
    Ok(())
}
