//! Live results as text.

use super::{Judged, Taker};
use crate::output::Out;
use foldhash::fast::FixedState;
use rdmascope_analysis::live::{Captured, Happening, Interval, OfConnection};
use rdmascope_analysis::report::Statement;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Counted, Plain};
use rdmascope_conformance::{Level, Rule, Verdict};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Setting, TextTable};
use rdmascope_present::columns::{INTERVAL_ROW, IntervalRow, connection_name};
use rdmascope_present::screen::wrapped;
use rdmascope_present::text::{Named, Style};
use rdmascope_present::words;
use std::collections::{HashMap, HashSet};
use std::io::{self, IsTerminal as _, Write as _};

/// Writes one line per interval, event and finding.
pub(super) struct Text {
    table: TextTable<IntervalRow<'static>>,
    style: Style,
    by_connection: bool,
    by_operation: bool,
    /// Number of lines since the heading; `None` before the first heading.
    lines: Option<u64>,
    /// Whether the heading is repeated, as on a terminal.
    repeats: bool,
    /// Number of repeated findings in this interval, which are not written.
    again: HashMap<Same, u64, FixedState>,
    /// Connections already reported as seen in one direction only.
    one_direction: HashSet<ConnectionId, FixedState>,
}

/// A rule violated on a connection by an end.
type Same = (&'static str, Option<ConnectionId>, Option<bool>);

/// Number of lines after which the heading is repeated.
const PAGE: u64 = 22;
/// Maximum number of rules, connections and ends that are tracked. Findings beyond it are written
/// each time.
const MOST: usize = 4096;

impl Text {
    pub(super) fn new(style: Style, by_connection: bool, by_operation: bool) -> Text {
        Text {
            table: TextTable::new(&INTERVAL_ROW),
            style,
            by_connection,
            by_operation,
            lines: None,
            repeats: io::stdout().is_terminal(),
            again: HashMap::default(),
            one_direction: HashSet::default(),
        }
    }

    fn row(&mut self, row: IntervalRow<'_>, out: &mut Out) -> io::Result<()> {
        if self.lines.is_none_or(|lines| self.repeats && lines >= PAGE) {
            self.table.write_heading(self.style, out)?;
            self.lines = Some(0);
        }
        self.lines = self.lines.map(|lines| lines + 1);
        self.table.write_row(row, Setting { start: row.interval.start, style: self.style }, out)
    }

    /// Writes one line for the connections that are newly seen in one direction only.
    fn report_one_direction(&mut self, interval: &Interval, out: &mut Out) -> io::Result<()> {
        let id = |one: &OfConnection| one.connection.id;
        let found = interval.connections.iter().filter_map(|one| Some((one, one.only_sender()?)));
        let mut new = found.filter(|(one, _)| !self.one_direction.contains(&id(one)));
        let Some((first, by_requester)) = new.next() else { return Ok(()) };
        let connection = &first.connection;
        let sender = if by_requester { &connection.requester } else { &connection.responder };
        let more = new.count();
        let and_more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        let text = format!(
            "connection {}{and_more}: only packets from {} are captured: calls, latencies and outstanding calls are unknown",
            connection.id.0,
            Named(sender)
        );
        let seen = interval.connections.iter().filter(|one| one.one_direction && !one.has_ended);
        self.one_direction = seen.map(id).collect();
        self.line(interval.start, &text, true, out)
    }

    /// Writes a line between the rows, about something at `time`. A long one continues below.
    fn line(&mut self, time: Time, text: &str, is_bad: bool, out: &mut Out) -> io::Result<()> {
        let time = Rfc3339::from(time);
        let mut head = &time.as_str()[11..19];
        let width = self.style.width().map_or(usize::MAX, |width| width - head.len() - 1);
        for line in wrapped(&Plain(text).to_string(), width) {
            self.lines = self.lines.map(|lines| lines + 1);
            writeln!(out, "{head:8} {}", self.style.red_if(is_bad, line))?;
            head = "";
        }
        Ok(())
    }
}

impl Taker for Text {
    fn interval(&mut self, interval: &Interval, out: &mut Out) -> io::Result<()> {
        let mut again: Vec<_> = self.again.iter_mut().filter(|(_, count)| **count > 0).collect();
        again.sort_unstable_by_key(|(same, _)| **same);
        let again: Vec<_> = again.into_iter().map(|(same, count)| (*same, core::mem::take(count))).collect();
        for ((rule, connection, _), count) in again {
            let on = connection.map_or(String::new(), |id| format!(" on connection {}", id.0));
            let text = format!("{rule}{on}: {} more", Counted(count, "finding"));
            self.line(interval.start, &text, false, out)?;
        }
        if interval.evicted > 0 {
            let connections = Counted(interval.evicted, "connection");
            self.line(interval.start, &format!("{connections} evicted to limit memory use"), false, out)?;
        }
        self.report_one_direction(interval, out)?;
        self.row(IntervalRow::all(interval), out)?;
        if self.by_connection {
            for one in interval.connections.iter().filter(|one| !one.is_over()) {
                let name = connection_name(one);
                self.row(IntervalRow::connection(interval, one, &name), out)?;
            }
        }
        if self.by_operation {
            for (key, figures) in interval.operations.in_order() {
                let name = key.to_string();
                self.row(IntervalRow::operation(interval, figures, &name), out)?;
            }
        }
        Ok(())
    }

    fn happening(&mut self, happening: &Happening, out: &mut Out) -> io::Result<()> {
        let Happening { event, is_again } = happening;
        let suffix = if *is_again { ", now over" } else { "" };
        let text = format!("connection {}: {}{suffix}", event.connection.0, event.text);
        self.line(event.time, &text, event.kind.is_loss(), out)
    }

    fn finding(&mut self, judged: &Judged<'_>, now: Time, out: &mut Out) -> io::Result<()> {
        let Judged { finding, allowance: None } = judged else { return Ok(()) };
        let (Verdict::Certain, Some(rule)) = (finding.verdict, finding.rule) else { return Ok(()) };
        let Rule { id, level, .. } = rule;
        let same = (*id, finding.connection, finding.by_requester);
        if let Some(count) = self.again.get_mut(&same) {
            *count += 1;
            return Ok(());
        }
        if self.again.len() < MOST {
            self.again.insert(same, 0);
        }
        let by = finding.by_requester.map_or(String::new(), |by| format!(", {}", words::end(by)));
        let on = finding.connection.map_or(String::new(), |id| format!(" on connection {}{by}", id.0));
        let text = format!("{} {id}{on}: {}", words::level(*level), finding.message);
        self.line(now, &text, *level == Level::Violation, out)
    }

    fn end(&mut self, leading: &[Statement], now: Time, out: &mut Out) -> io::Result<()> {
        leading.iter().try_for_each(|statement| self.line(now, &statement.text, true, out))
    }

    fn captured(&mut self, captured: &Captured, out: &mut Out) -> io::Result<()> {
        self.line(captured.time, &captured.to_string(), captured.trouble.is_some(), out)
    }
}
