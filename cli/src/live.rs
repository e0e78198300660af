//! `rdmascope live`: analyzes a session while it runs.
//!
//! This module feeds the records of interfaces, a pipe or files to the engine and the judge, and
//! divides time into intervals. The results go to people (`text`), programs (`lines`) and
//! Prometheus (`metrics`). `trigger` decides when to write a capture, `recorder` keeps the packets
//! for it, and `window` writes them.

mod lines;
mod metrics;
mod recorder;
mod text;
mod trigger;
mod window;

use crate::capture_points::With;
use crate::confine::Paths;
use crate::input::Input;
use crate::interrupt;
use crate::level::MinimumLevel;
use crate::mirror::Mirror;
use crate::mode::NewFiles;
use crate::output::{self, Failure, Format, Out, Output, Status, notify, report_ending};
use crate::policy::AllowArguments;
#[cfg(feature = "verbs")]
use crate::sniffer::{self, Device};
use anyhow::{Result, ensure};
use clap::{ArgGroup, Args, ValueEnum};
use core::ops::ControlFlow;
use lines::Lines;
use metrics::Metrics;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::events::Open;
use rdmascope_analysis::live::{Captured, Happening, Happenings, Interval, Meter};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::policy::{Allowance, Allowances};
use rdmascope_analysis::report::Statement;
use rdmascope_analysis::time::parse_duration;
use rdmascope_analysis::units::Counted;
use rdmascope_capture_agent::{Files, LiveSource, Note, Sink, for_each};
use rdmascope_conformance::{Finding, Judge};
use rdmascope_dissector::engine::{self, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::text::Style;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use text::Text;
use trigger::Triggers;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope live -i eth0
  rdmascope live -i eth0 --by operation --interval 5s
  rdmascope live -i eth0 --metrics 9464
  rdmascope live -i eth0 --trigger 'service-lost,latency>1s' --trigger-folder /var/tmp
  rdmascope live -i eth0 --trigger violation --allow invalidation-sender-flag
  ssh server rdmascope capture -i eth0 -w - | rdmascope live -
  rdmascope live mount.pcap --format jsonl | jq 'select(.type == \"interval\")'";

/// The options that name what to watch; the command needs one.
#[cfg(not(feature = "verbs"))]
const SOURCES: [&str; 3] = ["interfaces", "files", "snoop"];
#[cfg(feature = "verbs")]
const SOURCES: [&str; 4] = ["interfaces", "files", "snoop", "verbs"];

/// The arguments of `live`.
#[derive(Args, Debug)]
#[command(mut_arg("files", |files| files.required(false).conflicts_with("interfaces")))]
#[command(group = ArgGroup::new("source").required(true).multiple(true).args(SOURCES))]
#[command(mut_args(Mirror::of_interfaces))]
#[command(mut_args(With::never))]
#[cfg_attr(
    feature = "verbs",
    command(mut_arg("verbs", |verbs| verbs.conflicts_with("files")))
)]
pub(crate) struct LiveArguments {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Interface to capture from, or `any` for all that are up; several interfaces are analyzed as
    /// one capture
    #[arg(short, long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    #[cfg(feature = "verbs")]
    #[command(flatten)]
    device: Device,
    /// Watch the messages of this host's NFS/RDMA client and server instead, from the kernel: see
    /// `capture --snoop`
    #[arg(long, conflicts_with_all = ["interfaces", "files"])]
    #[cfg_attr(feature = "verbs", arg(conflicts_with = "verbs"))]
    snoop: bool,
    /// Length of the intervals
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: u64,
    /// Also show each interval by connection, by operation, or by both
    ///
    /// JSON Lines always have both.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    by: Vec<By>,
    #[command(flatten)]
    output: Output,
    /// Minimum level of the rules to check
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = MinimumLevel::Warning)]
    level: MinimumLevel,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<u64>,
    /// Address to serve Prometheus metrics on: a port of the loopback address, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Memory for the state of connections, in MiB
    ///
    /// Beyond it, connections are evicted and counted, starting with the oldest of those with few
    /// packets.
    #[arg(long, value_name = "SIZE", default_value_t = 256, value_parser = clap::value_parser!(u64).range(64..=65_536))]
    memory: u64,
    #[command(flatten)]
    allowed: AllowArguments,
    #[command(flatten)]
    trigger: trigger::Arguments,
    #[command(flatten)]
    pub(crate) new_files: NewFiles,
    #[command(flatten, next_help_heading = "Interfaces")]
    mirror: Mirror,
}

/// The keys that an interval can be split by.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// One row per connection
    Connection,
    /// One row per operation
    Operation,
}

/// Maximum number of intervals of interfaces shown at once after a delay of this process.
const MOST_LATE: usize = 1000;

/// Number of records between two checks of memory. A check visits every connection.
const LOOK: u64 = 1 << 16;

/// The minimum interval in nanoseconds: shorter ones take longer to write than to fill.
const SHORTEST: u64 = 10_000_000;

fn parse_interval(text: &str) -> Result<u64, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    match interval {
        SHORTEST..=86_400_000_000_000 => Ok(interval),
        _ => Err("expected 10ms to 1 day".into()),
    }
}

/// Parses a port of the loopback address, or an address with a port.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "expected a port such as 9464, or an address with a port such as [::1]:9464".into())
}

/// Runs the command.
pub(crate) fn run(command: &LiveArguments, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let level = command.level.level();
    let by = |by| command.by.contains(&by);
    let taker: Box<dyn Taker> = match command.output.format {
        Format::Text => Box::new(Text::new(style, by(By::Connection), by(By::Operation))),
        Format::Jsonl => Box::new(Lines),
    };
    let names = command.names();
    let allowances = command.allowed.allowances(&command.input)?;
    let link = if command.snoop { LinkType::RAW } else { LinkType::ETHERNET };
    let triggers = Triggers::new(&command.trigger, &names, link)?;
    let frame = command.input.frame();
    let mut watching = Watching {
        engine: Engine::new(engine::Config { frame, ..Judge::needs() }),
        judge: Judge::new(move |rule| rule.level <= level),
        length: command.interval as i64,
        // For files, empty intervals in a long gap are skipped. For interfaces they are shown even
        // if this process is late, except for most of those that passed while it was stopped.
        most_shown: if names.is_empty() { 1 } else { MOST_LATE },
        counts_drops: true,
        meter: None,
        happenings: Happenings::default(),
        allowances,
        found: Vec::new(),
        duration: command.duration.map(|duration| i64::try_from(duration).unwrap_or(i64::MAX)),
        started: None,
        end: Time(i64::MAX),
        due: Time(i64::MIN),
        now: Time(i64::MIN),
        memory: usize::try_from(command.memory << 20).unwrap_or(usize::MAX),
        until_look: LOOK,
        triggers,
        metrics: None,
        taker,
        written: Ok(()),
        out,
    };
    let watched = if names.is_empty() {
        of_files(command, &frame, &mut watching)
    } else {
        of_interfaces(command, &frame, &mut watching)
    };
    watching.written?;
    Ok(watched?)
}

/// Watches files or a pipe, whose time stamps are the clock.
fn of_files(command: &LiveArguments, frame: &frame::Config, watching: &mut Watching<'_>) -> Result<Status> {
    let listener = command.metrics.map(Metrics::bind).transpose()?;
    let mut paths = Paths::default();
    paths.read(&command.input.files);
    if let Some(triggers) = &watching.triggers {
        paths.write(triggers.folder());
    }
    paths.confine_and_listen();
    let mut files = Files::open(&command.input.files, None, &interrupt::INPUTS)?;
    watching.metrics = listener.map(Metrics::serve).transpose()?;
    files.for_each(frame, &mut (), watching)?;
    watching.finish();
    let ending = Ending {
        totals: *watching.engine.totals(),
        files: files.endings(),
        port: command.input.ports.port,
        ..Default::default()
    };
    Ok(report_ending(&ending, watching.out)?)
}

/// Opens the source that the arguments name. From then on, Ctrl-C ends it.
#[cfg(target_os = "linux")]
fn open(command: &LiveArguments) -> Result<Box<dyn LiveSource>> {
    use rdmascope_capture_agent::live::Live;
    let LiveArguments { interfaces, mirror, input, .. } = command;
    let config = mirror.config(interfaces, input.ports);
    #[cfg(feature = "verbs")]
    if let Some(device) = &command.device.verbs {
        return sniffer::open(device, mirror, &config.wanted, config.snap_length);
    }
    if command.snoop {
        return Ok(Box::new(crate::snoop::open(mirror, config.snap_length, interrupt::end_once())?));
    }
    let live = Live::open(&config, interrupt::end_once()).map_err(crate::capture::explained)?;
    Ok(Box::new(live))
}

/// Watches interfaces or a device. Everything that needs privileges is opened first; untrusted
/// packets are read without any.
#[cfg(target_os = "linux")]
fn of_interfaces(
    command: &LiveArguments,
    frame: &frame::Config,
    watching: &mut Watching<'_>,
) -> Result<Status> {
    use crate::capture::dropped;
    use crate::confine::confined_except;
    use crate::mirror::warn_of_drops;
    use rdmascope_capture_agent::confine::Reach;
    use rdmascope_capture_agent::live::tracefs;
    use rdmascope_capture_agent::{NoteKind, inventory};

    let mut live = open(command)?;
    let uncounted = live.uncounted();
    watching.counts_drops = uncounted.is_none();
    ensure!(
        watching.counts_drops || !watching.triggers.as_ref().is_some_and(Triggers::wait_for_drops),
        "--trigger drop has no effect here: {}",
        uncounted.unwrap_or_default()
    );
    // A snooped connection is described before its first message.
    let connected = if command.snoop { Vec::new() } else { crate::capture::connected(command.input.quiet) };
    watching.note(&Note { kind: NoteKind::Inventory, bytes: inventory::to_text(&connected).into_bytes() });
    command.mirror.become_user()?;
    let listener = command.metrics.map(Metrics::bind).transpose()?;
    let folder = watching.triggers.as_ref().map(Triggers::folder);
    let instances = tracefs::instances().filter(|_| command.snoop);
    confined_except(folder.map_or(Reach::Nothing, Reach::Below), instances.as_deref(), command.input.quiet)?;
    output::queue(watching.out)?;
    watching.metrics = listener.map(Metrics::serve).transpose()?;
    if !command.input.quiet {
        notify(format_args!("watching {}; press Ctrl-C to stop", live.names().join(", ")));
    }
    for_each(&mut *live, frame, &mut (), watching)?;
    watching.finish();
    let counts = live.counts()?;
    if let Some(dropped) = counts.dropped {
        warn_of_drops(dropped, "use a larger --buffer");
    }
    for lack in live.lacks() {
        notify(format_args!("warning: {lack}"));
    }
    if !command.input.quiet {
        let dropped = dropped(counts.dropped, live.uncounted());
        notify(format_args!("{} seen, {dropped}", Counted(counts.delivered, "packet")));
    }
    Ok(Status::Done)
}

#[cfg(not(target_os = "linux"))]
fn of_interfaces(_: &LiveArguments, _: &frame::Config, _: &mut Watching<'_>) -> Result<Status> {
    anyhow::bail!("watching interfaces needs Linux; use a capture file, or - for a pipe")
}

/// A consumer of the results.
trait Taker {
    /// Called at the end of an interval.
    fn interval(&mut self, interval: &Interval, out: &mut Out) -> io::Result<()>;
    /// Called for an event of a connection.
    fn happening(&mut self, happening: &Happening, out: &mut Out) -> io::Result<()>;
    /// Called for a finding at `now`.
    fn finding(&mut self, finding: &Judged<'_>, now: Time, out: &mut Out) -> io::Result<()>;
    /// Called at the end, with the statements about harm.
    fn end(&mut self, _leading: &[Statement], _now: Time, _out: &mut Out) -> io::Result<()> {
        Ok(())
    }
    /// Called when a capture was written or could not be written.
    fn captured(&mut self, captured: &Captured, out: &mut Out) -> io::Result<()>;
}

/// A finding, and the reason why it is allowed, if any.
struct Judged<'a> {
    finding: &'a Finding,
    allowance: Option<Allowance>,
}

/// Feeds records to the engine, the judge and the consumers.
struct Watching<'a> {
    engine: Engine,
    judge: Judge,
    /// Length of intervals, in nanoseconds.
    length: i64,
    /// Maximum number of ended intervals shown at once. All but the first are empty; further ones
    /// are skipped.
    most_shown: usize,
    /// Whether the source counts dropped packets.
    counts_drops: bool,
    /// `Some` from the first record or time on.
    meter: Option<Meter>,
    happenings: Happenings,
    allowances: Allowances,
    /// Findings of the current record.
    found: Vec<Finding>,
    duration: Option<i64>,
    /// The time of the first record.
    started: Option<Time>,
    /// The time to end.
    end: Time,
    /// The end of the interval or of the analysis. Before the first record, any time is late.
    due: Time,
    /// The latest time.
    now: Time,
    /// Memory for the state of connections, in bytes.
    memory: usize,
    /// Number of records until the next check of memory.
    until_look: u64,
    triggers: Option<Triggers>,
    metrics: Option<Metrics>,
    taker: Box<dyn Taker>,
    /// The first output error.
    written: io::Result<()>,
    out: &'a mut Out,
}

impl LiveArguments {
    /// The names of the live sources; empty if the input is captures.
    fn names(&self) -> Vec<String> {
        if self.snoop {
            return vec!["rpcrdma".to_owned()];
        }
        #[cfg(feature = "verbs")]
        if let Some(device) = &self.device.verbs {
            return vec![device.clone()];
        }
        crate::mirror::named(&self.interfaces)
    }
}

impl Watching<'_> {
    /// Advances the time to `now` and shows the intervals that ended.
    #[inline]
    fn reach(&mut self, now: Time) -> ControlFlow<()> {
        self.now = self.now.max(now);
        if now < self.due { ControlFlow::Continue(()) } else { self.close(now) }
    }

    /// Shows the intervals that ended at `now`. The first call starts the first interval.
    #[cold]
    fn close(&mut self, now: Time) -> ControlFlow<()> {
        if self.meter.is_none() {
            self.started = Some(now);
            self.end = Time(self.duration.map_or(i64::MAX, |duration| now.0.saturating_add(duration)));
            let meter = Meter::new(now);
            self.meter = Some(if self.counts_drops { meter } else { meter.without_drops() });
            self.due = self.after(now);
        }
        let mut shown = 0;
        while self.due <= now {
            // The last interval ends with the analysis.
            if self.due >= self.end {
                return ControlFlow::Break(());
            }
            if shown < self.most_shown {
                self.tick(self.due, false);
                if self.written.is_err() {
                    return ControlFlow::Break(());
                }
                shown += 1;
            } else if let Some(meter) = &mut self.meter {
                let start = now.0.saturating_sub(now.0.rem_euclid(self.length));
                self.due = Time(start).clamp(self.due, self.end);
                meter.skip(self.due);
            }
            self.due = self.after(self.due);
        }
        ControlFlow::Continue(())
    }

    /// The end of the interval that contains `time`.
    fn after(&self, time: Time) -> Time {
        let start = time.0.saturating_sub(time.0.rem_euclid(self.length));
        Time(start.saturating_add(self.length)).min(self.end)
    }

    /// Shows the interval that ends at `end`.
    fn tick(&mut self, end: Time, is_last: bool) {
        let Watching { engine, judge, meter, happenings, metrics, taker, triggers, written, out, .. } = self;
        let Some(meter) = meter else { return };
        let open = Open::new(engine.connections(), engine.open_transactions());
        for happening in happenings.take(&open, end, is_last) {
            if let Some(metrics) = metrics {
                metrics.happening(&happening);
            }
            if let Some(triggers) = triggers {
                triggers.happening(&happening);
            }
            keep_first(written, || taker.happening(&happening, out));
        }
        let interval = meter.take(end, engine, judge);
        if let Some(metrics) = metrics {
            metrics.interval(&interval, out.get_ref().dropped_lines());
            metrics.missed(triggers.as_ref().map_or(0, Triggers::missed));
        }
        keep_first(written, || taker.interval(&interval, out));
        keep_first(written, || out.flush());
    }

    /// Passes `event` to all consumers.
    fn event(&mut self, handle: impl FnOnce(&mut Engine, &mut dyn FnMut(Event<'_>))) {
        let Watching { engine, judge, meter, happenings, allowances, found, triggers, .. } = self;
        let Some(meter) = meter else { return };
        handle(engine, &mut |event| {
            meter.event(&event);
            happenings.handle(&event);
            allowances.take(&event);
            match (&mut *triggers, &event) {
                (Some(triggers), Event::Transaction(transaction)) => triggers.transaction(transaction),
                (Some(triggers), Event::ClockStep(_)) => triggers.clock_stepped(),
                _ => {}
            }
            judge.handle(&event, &mut |finding| found.push(finding.clone()));
        });
        if !found.is_empty() {
            self.judged();
        }
    }

    /// Reports the findings of a record. At this point the engine can be asked for the ends of
    /// their connections.
    fn judged(&mut self) {
        let Watching {
            engine, meter, allowances, found, metrics, taker, triggers, now, written, out, ..
        } = self;
        for finding in found.drain(..) {
            let allowance = allowances.find(&finding, |id| engine.connection(id));
            let judged = Judged { finding: &finding, allowance };
            let is_allowed = judged.allowance.is_some();
            if let Some(meter) = meter {
                meter.finding(&finding, is_allowed);
            }
            if let Some(metrics) = metrics {
                metrics.finding(&finding, is_allowed);
            }
            if let Some(triggers) = triggers
                && !is_allowed
            {
                triggers.finding(&finding, *now);
            }
            keep_first(written, || taker.finding(&judged, *now, out));
        }
    }

    /// Evicts connections while their state exceeds the memory limit.
    #[cold]
    fn look_at_memory(&mut self) {
        self.until_look = LOOK;
        while self.footprint() > self.memory {
            let mut has_evicted = false;
            self.event(|engine, report| has_evicted = engine.give_up_some(&mut |event| report(event)));
            if !has_evicted {
                return;
            }
        }
    }

    fn footprint(&self) -> usize {
        let meter = self.meter.as_ref().map_or(0, Meter::footprint);
        self.engine.footprint() + self.judge.footprint() + meter
    }

    /// Writes the capture that is due, if any.
    fn write_capture(&mut self, is_over: bool) {
        let Watching { triggers, now, metrics, taker, written, out, .. } = self;
        let Some(captured) = triggers.as_mut().and_then(|triggers| triggers.write(*now, is_over)) else {
            return;
        };
        if let Some(metrics) = metrics {
            metrics.captured(&captured);
        }
        keep_first(written, || taker.captured(&captured, out));
        keep_first(written, || out.flush());
    }

    /// Ends the analysis: shows final results and the last, shortened interval.
    fn finish(&mut self) {
        self.event(|engine, report| engine.finish(&mut |event| report(event)));
        if self.meter.is_some() {
            self.tick(Time(self.now.0.saturating_add(1)).min(self.end), true);
        }
        self.write_capture(true);
        let Watching { engine, happenings, taker, now, started, written, out, .. } = self;
        let open = Open::new(engine.connections(), engine.open_transactions());
        let leading = happenings.leading(&open, started.unwrap_or(*now), *now);
        keep_first(written, || taker.end(&leading, *now, out));
        keep_first(&mut self.written, || output::close(self.out));
    }
}

/// Writes unless an earlier write failed.
fn keep_first(written: &mut io::Result<()>, write: impl FnOnce() -> io::Result<()>) {
    if written.is_ok() {
        *written = write();
    }
}

impl Sink for Watching<'_> {
    #[inline]
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        self.reach(record.time)?;
        if let Some(meter) = &mut self.meter {
            meter.record(record);
        }
        if let Some(triggers) = &mut self.triggers {
            triggers.record(record);
        }
        self.event(|engine, report| {
            engine.handle_dissected(record, dissected, &mut |event| report(event));
        });
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look_at_memory();
        }
        if self.triggers.as_ref().is_some_and(|triggers| triggers.is_due(record.time)) {
            self.write_capture(false);
        }
        if self.written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn note(&mut self, note: &Note) {
        note.pass_to(&mut self.engine);
        if let Some(triggers) = &mut self.triggers {
            triggers.note(note);
        }
    }

    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()> {
        if let Some(now) = until {
            self.event(|engine, report| engine.handle_time(now, &mut |event| report(event)));
            self.reach(now)?;
            self.write_capture(false);
        }
        keep_first(&mut self.written, || self.out.flush());
        if self.written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_intervals_are_parsed() {
        assert_eq!(parse_address("9464").map(|address| address.to_string()), Ok("127.0.0.1:9464".into()));
        assert_eq!(parse_address("[::1]:1").map(|address| address.to_string()), Ok("[::1]:1".into()));
        assert!(parse_address("localhost:1").is_err() && parse_address("70000").is_err());
        assert_eq!(parse_interval("10ms"), Ok(SHORTEST));
        assert!(parse_interval("9ms").is_err() && parse_interval("2").is_err());
    }
}
