//! The figures of a capture by interval.

use crate::output::Out;
use crate::table::{Format, Rows, Shape};
use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use rdmascope_analysis::course::{By, Course, Figures, TooMany};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::time::parse_duration;
use rdmascope_analysis::units::Duration;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::Clock;
use rdmascope_present::columns::COURSE;
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// The options for intervals.
#[derive(Args, Debug)]
#[command(next_help_heading = "Intervals")]
pub(super) struct CourseArguments {
    /// Also show the figures of each interval of this length, such as 1s or 100ms
    ///
    /// Intervals start with the first packet. A transaction counts in the interval of its reply.
    /// With --format csv and tsv, only the intervals are written.
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<u64>,
    /// Split the intervals by connection, client, server or operation, or by several of these
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',', requires = "interval")]
    by: Vec<Which>,
}

/// The keys that rows can be split by.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// One row per connection
    Connection,
    /// One row per address of an NFS client
    Client,
    /// One row per address of an NFS server
    Server,
    /// One row per operation
    Operation,
}

fn parse_interval(text: &str) -> Result<u64> {
    let interval = parse_duration(text)?;
    ensure!(interval > 0, "the interval must be longer than 0");
    Ok(interval)
}

impl CourseArguments {
    /// Whether --interval is given.
    pub(super) fn is_asked_for(&self) -> bool {
        self.interval.is_some()
    }

    /// The collector of interval figures, if --interval is given.
    pub(super) fn gathering(&self) -> Option<Gathering> {
        let by = |which| self.by.contains(&which);
        let by = By {
            connection: by(Which::Connection),
            client: by(Which::Client),
            server: by(Which::Server),
            operation: by(Which::Operation),
        };
        self.interval.map(|length| Gathering { length, by, course: Course::new(length, by), taken: Ok(()) })
    }
}

/// Collects the figures of each interval.
pub(super) struct Gathering {
    length: u64,
    by: By,
    course: Course,
    taken: Result<(), TooMany>,
}

impl Gathering {
    /// Takes the next event of a capture that starts at `start`.
    pub(super) fn event(&mut self, event: &Event<'_>, start: Time) {
        if let (Event::Transaction(transaction), Ok(())) = (event, self.taken) {
            self.taken = self.course.take(transaction, start);
        }
    }

    /// Writes the rows. The outer error is an output error.
    pub(super) fn write(
        self,
        ending: &Ending,
        format: Format,
        style: Style,
        out: &mut Out,
    ) -> io::Result<Result<()>> {
        let rows = match self.taken.and_then(|()| self.course.rows(ending)) {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(anyhow!("--interval {}: {error}", Duration(self.length)))),
        };
        let fields = if format == Format::Text { self.fields() } else { Vec::new() };
        let clock = if format == Format::Text { Clock::Relative } else { Clock::Absolute };
        let mut lines: Rows<Figures> =
            match Rows::new(format, &Shape::of_fields(&fields), clock, &COURSE, style) {
                Ok(lines) => lines,
                Err(error) => return Ok(Err(error)),
            };
        if format == Format::Text {
            writeln!(out, "\n{}", style.bold(format_args!("Intervals of {}", Duration(self.length))))?;
        }
        let start = ending.totals.span.map(|(first, _)| first).unwrap_or_default();
        lines.head(out)?;
        rows.iter().try_for_each(|row| lines.row(row, start, out))?;
        lines.end(out)?;
        Ok(Ok(()))
    }

    /// The columns of text output.
    fn fields(&self) -> Vec<&'static str> {
        let By { connection, client, server, operation } = self.by;
        let told_apart = [
            (connection, &["connection"][..]),
            (client, &["client"]),
            (server, &["server"]),
            (operation, &["protocol", "operation"]),
        ];
        let told_apart =
            told_apart.into_iter().filter(|(is_asked, _)| *is_asked).flat_map(|(_, names)| names);
        let figures = [
            "count",
            "errors",
            "bytes",
            "latency.min_ns",
            "latency.median_ns",
            "latency.p99_ns",
            "latency.max_ns",
        ];
        core::iter::once("time").chain(told_apart.copied()).chain(figures).collect()
    }
}
