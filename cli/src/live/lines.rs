//! Live results for programs.

use super::{Judged, Taker};
use crate::output::Out;
use rdmascope_analysis::live::{Captured, Happening, Interval};
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::{
    CAPTURED, EVENT, FINDING, FindingRow, INTERVAL, INTERVAL_CONNECTION, INTERVAL_OPERATION,
};
use rdmascope_present::json::write_line;
use std::io;

/// Writes one JSON line per result.
pub(super) struct Lines;

impl Taker for Lines {
    fn interval(&mut self, interval: &Interval, out: &mut Out) -> io::Result<()> {
        write_line(out, &INTERVAL.of(interval))?;
        for connection in &interval.connections {
            write_line(out, &INTERVAL_CONNECTION.of((interval, connection)))?;
        }
        for (key, figures) in interval.operations.in_order() {
            write_line(out, &INTERVAL_OPERATION.of((interval, key, figures)))?;
        }
        Ok(())
    }

    fn happening(&mut self, happening: &Happening, out: &mut Out) -> io::Result<()> {
        write_line(out, &EVENT.of(&happening.event))
    }

    fn finding(&mut self, judged: &Judged<'_>, _: Time, out: &mut Out) -> io::Result<()> {
        let allowance = judged.allowance.as_ref();
        let reason = allowance.and_then(|allowance| allowance.reason.as_deref());
        write_line(out, &FINDING.of(FindingRow::new(judged.finding, allowance.is_some()).because(reason)))
    }

    fn captured(&mut self, captured: &Captured, out: &mut Out) -> io::Result<()> {
        write_line(out, &CAPTURED.of(captured))
    }
}
