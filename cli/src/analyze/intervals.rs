//! The figures of a capture by interval.

use crate::output::{Failure, Out};
use crate::table::{Format, Rows, Shape};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::flows::{FlowFigures, Flows};
use rdmascope_analysis::intervals::{By, ByInterval, Figures, TooMany};
use rdmascope_analysis::time::parse_duration;
use rdmascope_analysis::units::Duration;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::Clock;
use rdmascope_present::columns::{INTERVALS, RDMA_INTERVAL};
use rdmascope_present::text::Style;
use std::io::Write as _;

/// The options for intervals.
#[derive(Args, Debug)]
#[command(next_help_heading = "Intervals")]
pub(super) struct IntervalArguments {
    /// Also show the figures of each interval of this length, such as 1s or 100ms
    ///
    /// Intervals start with the first packet. A transaction counts in the interval of its reply.
    /// RDMA packets of any protocol, congestion and pause frames follow. With --format csv and tsv,
    /// only the intervals are written.
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
    /// One row per sender, queue pair and DSCP, with RDMA packets of any protocol
    QueuePair,
}

fn parse_interval(text: &str) -> Result<u64> {
    let interval = parse_duration(text)?;
    ensure!(interval > 0, "the interval must be longer than 0");
    Ok(interval)
}

impl IntervalArguments {
    /// Whether --interval is given.
    pub(super) fn is_requested(&self) -> bool {
        self.interval.is_some()
    }

    /// The collector of interval figures, if --interval is given. `is_unfiltered`: the capture is
    /// not filtered.
    pub(super) fn gathering(&self, is_unfiltered: bool) -> Result<Option<Gathering>> {
        let by = |which| self.by.contains(&which);
        let by = By {
            connection: by(Which::Connection),
            client: by(Which::Client),
            server: by(Which::Server),
            operation: by(Which::Operation),
        };
        let by_queue_pair = self.by.contains(&Which::QueuePair);
        ensure!(
            is_unfiltered || !by_queue_pair,
            "--by queue-pair counts packets; remove the filters of transactions"
        );
        ensure!(
            !by_queue_pair || by == By::default(),
            "--by queue-pair counts packets of any protocol; it cannot be combined with other values"
        );
        Ok(self.interval.map(|length| Gathering {
            length,
            by,
            by_queue_pair,
            intervals: ByInterval::new(length, by),
            flows: is_unfiltered.then(|| Flows::new(length)),
            has_transactions: false,
            taken: Ok(()),
        }))
    }
}

/// Collects the figures of each interval.
pub(super) struct Gathering {
    length: u64,
    by: By,
    by_queue_pair: bool,
    intervals: ByInterval,
    /// The packets, unless the capture is filtered.
    flows: Option<Flows>,
    has_transactions: bool,
    taken: Result<(), TooMany>,
}

impl Gathering {
    /// Takes the next event of a capture that starts at `start`.
    pub(super) fn event(&mut self, event: &Event<'_>, start: Time) {
        if self.taken.is_err() {
            return;
        }
        match (event, &mut self.flows) {
            (Event::Transaction(transaction), _) => {
                self.has_transactions = true;
                self.taken = self.intervals.take(transaction, start);
            }
            (Event::Packet(packet), Some(flows)) => self.taken = flows.take(packet, start),
            _ => {}
        }
    }

    /// The engine configuration that it requires.
    pub(super) fn needs(&self) -> Config {
        Config { report_packets: self.flows.is_some(), ..Config::default() }
    }

    /// Writes the rows.
    pub(super) fn write(
        self,
        ending: &Ending,
        format: Format,
        style: Style,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let totals = |flows: Option<&Flows>| flows.map_or(Ok(Vec::new()), |flows| flows.totals(ending));
        let tables =
            self.taken.and_then(|()| Ok((self.intervals.rows(ending)?, totals(self.flows.as_ref())?)));
        let (rows, totals) = tables.with_context(|| format!("--interval {}", Duration(self.length)))?;
        let is_table = matches!(format, Format::Csv | Format::Tsv);
        if !self.by_queue_pair {
            self.write_transactions(&rows, ending, format, style, out)?;
        }
        if is_table && !self.by_queue_pair {
            return Ok(());
        }
        if !is_table && !totals.is_empty() {
            self.write_packets("RDMA", &totals, ending, format, style, out)?;
        }
        let Some(flows) = self.flows.as_ref().filter(|_| self.by_queue_pair || !self.has_transactions) else {
            return Ok(());
        };
        let flows: Vec<FlowFigures> = flows.flows(ending).collect();
        match is_table || !flows.is_empty() {
            true => self.write_packets("Queue pairs", &flows, ending, format, style, out),
            false => Ok(()),
        }
    }

    /// Writes the RDMA packets of intervals, or of half-flows within them.
    fn write_packets(
        &self,
        name: &str,
        rows: &[FlowFigures],
        ending: &Ending,
        format: Format,
        style: Style,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let clock = if format == Format::Text { Clock::Relative } else { Clock::Absolute };
        let flow = ["source", "destination", "queue_pair", "dscp"];
        let of_flow = flow.into_iter().filter(|_| rows.iter().any(|row| row.flow.is_some()));
        let figures = ["packets", "bytes", "bytes_per_second", "congestion_marks", "notifications"];
        let pauses = ["priority_pauses"].into_iter().filter(|_| rows.iter().any(|row| row.flow.is_none()));
        let fields: Vec<_> = core::iter::once("time").chain(of_flow).chain(figures).chain(pauses).collect();
        let fields = if format == Format::Text { fields } else { Vec::new() };
        let mut lines: Rows<FlowFigures> =
            Rows::new(format, &Shape::of_fields(&fields), clock, &RDMA_INTERVAL, style)?;
        if format == Format::Text {
            let heading = format!("{name} in intervals of {}", Duration(self.length));
            writeln!(out, "\n{}", style.bold(heading))?;
        }
        let start = ending.totals.span.map(|(first, _)| first).unwrap_or_default();
        lines.head(out)?;
        rows.iter().try_for_each(|row| lines.row(row, start, out))?;
        Ok(lines.end(out)?)
    }

    fn write_transactions(
        &self,
        rows: &[Figures],
        ending: &Ending,
        format: Format,
        style: Style,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let fields = if format == Format::Text { self.fields() } else { Vec::new() };
        let clock = if format == Format::Text { Clock::Relative } else { Clock::Absolute };
        let mut lines: Rows<Figures> =
            Rows::new(format, &Shape::of_fields(&fields), clock, &INTERVALS, style)?;
        if format == Format::Text {
            writeln!(out, "\n{}", style.bold(format_args!("Intervals of {}", Duration(self.length))))?;
        }
        let start = ending.totals.span.map(|(first, _)| first).unwrap_or_default();
        lines.head(out)?;
        rows.iter().try_for_each(|row| lines.row(row, start, out))?;
        Ok(lines.end(out)?)
    }

    /// The columns of text output.
    fn fields(&self) -> Vec<&'static str> {
        let By { connection, client, server, operation } = self.by;
        let keys = [
            (connection, &["connection"][..]),
            (client, &["client"]),
            (server, &["server"]),
            (operation, &["protocol", "operation"]),
        ];
        let keys = keys.into_iter().filter(|(is_selected, _)| *is_selected).flat_map(|(_, names)| names);
        let figures = [
            "count",
            "errors",
            "bytes",
            "latency.min_ns",
            "latency.median_ns",
            "latency.p99_ns",
            "latency.max_ns",
        ];
        core::iter::once("time").chain(keys.copied()).chain(figures).collect()
    }
}
