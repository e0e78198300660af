//! `rdmascope state`: NFSv4 state with its lifetime.

use crate::filters::{RequestedScope, StateArguments};
use crate::input::{Audience, Input, read};
use crate::output::{Failure, Out, Status, notify, report_ending};
use crate::paths;
use crate::table::{FieldName, Format, Rows, Table, condition};
use clap::Args;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::Paths;
use rdmascope_analysis::state::{Lifetime, StateFilter, States, Summary};
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::STATE;
use rdmascope_present::fold::Folding;
use rdmascope_present::text::{Left, Style};
use std::io::{self, Write as _};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope state mount.pcap
  rdmascope state mount.pcap --open
  rdmascope state mount.pcap --kind delegation --recalled
  rdmascope state mount.pcap --end lost,revoked,abandoned
  rdmascope state mount.pcap --kind open --sort uses --reverse --top 10
  rdmascope state mount.pcap --format jsonl | jq 'select(.end == \"open\") | .file'";

/// The arguments of `state`.
#[derive(Args, Debug)]
#[command(
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&STATE))),
    mut_arg("condition", condition(&STATE, "kind == open && reads > 0")),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&STATE))),
)]
pub(crate) struct StateCommand {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    table: Table,
    #[command(flatten)]
    filter: StateArguments,
}

pub(crate) fn run(command: &StateCommand, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let rows = command.table.rows(&STATE, style)?;
    let is_text = command.table.format() == Format::Text;
    let filter = command.filter.filter();
    let mut listing = Listing {
        states: States::default(),
        paths: match command.table.has("file") {
            true => paths::follow(&command.input),
            false => Paths::new(),
        },
        scope: RequestedScope::new(&filter.connections, filter.span),
        lines: Lines {
            rows,
            filter,
            start: Time::default(),
            // The summary comes before the rows and is known only at the end.
            kept: is_text.then(Vec::new),
            left_out: 0,
            out,
        },
    };
    let ending = read(&command.input, &mut listing)?;
    let Listing { mut states, paths, scope, mut lines } = listing;
    let mut written = Ok(());
    states.finish(&mut |lifetime| lines.take(lifetime, &paths, &mut written));
    written?;
    let summary = states.summary();
    let Lines { mut rows, start, kept, left_out, out, .. } = lines;
    if is_text {
        write_summary(summary, style, out)?;
    }
    if !is_text || !summary.is_empty() {
        rows.head(out)?;
        kept.unwrap_or_default().iter().try_for_each(|lifetime| rows.row(lifetime, start, out))?;
        rows.end(out)?;
    }
    let status = report_ending(&ending, out)?;
    out.flush()?;
    if left_out > 0 {
        let more = Counted(left_out, "further line");
        notify(format_args!(
            "warning: {more} omitted: use --format csv, tsv or jsonl for all lines, or a filter"
        ));
    }
    if summary.encrypted > 0 {
        let calls = Counted(summary.encrypted, "NFSv4 call");
        notify(format_args!("warning: {calls} encrypted with krb5p: their state is unknown"));
    }
    if summary.unread > 0 {
        let calls = Counted(summary.unread, "NFSv4 call");
        notify(format_args!(
            "warning: {calls} without a reply or unreadable: their effect on state is unknown"
        ));
    }
    scope.check(&ending)?;
    Ok(status)
}

/// Writes the summary, one line per count that is not zero, and an empty line.
fn write_summary(summary: &Summary, style: Style, out: &mut Out) -> io::Result<()> {
    let lines = summary.lines();
    let mut out = Folding::new(out, style);
    if lines.is_empty() {
        return writeln!(out, "no NFSv4 state");
    }
    let width = lines.iter().map(|(about, _)| about.len()).max().unwrap_or(0) + 2;
    for (about, counts) in &lines {
        writeln!(out, "{}{counts}", style.bold(Left(about, width)))?;
    }
    writeln!(out)
}

/// Collects the lifetimes of a capture.
struct Listing<'a> {
    states: States,
    paths: Paths,
    scope: RequestedScope,
    lines: Lines<'a>,
}

/// Writes or keeps the lines.
struct Lines<'a> {
    rows: Rows<Lifetime>,
    filter: StateFilter,
    start: Time,
    /// Lines kept until the summary is written; `None` if lines are written at once.
    kept: Option<Vec<Lifetime>>,
    /// Number of lines beyond [`Lines::MOST_KEPT`].
    left_out: u64,
    out: &'a mut Out,
}

impl Lines<'_> {
    /// Maximum number of kept lines.
    const MOST_KEPT: usize = 1 << 17;

    /// Writes or keeps one lifetime, unless an earlier write failed.
    fn take(&mut self, lifetime: &Lifetime, paths: &Paths, written: &mut io::Result<()>) {
        if written.is_err() || !self.filter.matches(lifetime, self.start) {
            return;
        }
        let mut lifetime = lifetime.clone();
        lifetime.take_path(paths);
        match &mut self.kept {
            None => *written = self.rows.row(&lifetime, self.start, self.out),
            Some(kept) if kept.len() < Lines::MOST_KEPT => kept.push(lifetime),
            Some(_) => self.left_out += 1,
        }
    }
}

impl Audience for Listing<'_> {
    fn lists(&self) -> bool {
        true
    }

    fn needs(&self) -> Config {
        self.states.needs()
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        let Listing { states, paths, scope, lines } = self;
        lines.start = start;
        scope.handle(&event);
        if let Event::Transaction(transaction) = event {
            paths.take(transaction);
        }
        let mut written = Ok(());
        states.handle(&event, &mut |lifetime| lines.take(lifetime, paths, &mut written));
        written
    }

    fn wait(&mut self) -> io::Result<()> {
        self.lines.out.flush()
    }
}
