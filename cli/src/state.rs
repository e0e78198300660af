//! `rdmascope state`: what NFSv4 keeps between calls, from when it began to how it ended.

use crate::filters::{Asked, StateArguments};
use crate::input::{Audience, Input, read};
use crate::output::{Out, Status, complain, tell, tell_of_ending};
use crate::paths;
use crate::table::{FieldName, Format, Rows, Table, expression_about};
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
    mut_arg("condition", |condition| condition.value_parser(expression_about(&STATE))),
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

/// Runs the command.
pub(crate) fn run(command: &StateCommand, style: Style, out: &mut Out) -> io::Result<Status> {
    let rows = match command.table.rows(&STATE, style) {
        Ok(rows) => rows,
        Err(error) => return complain(&error, out),
    };
    let is_text = command.table.format() == Format::Text;
    let mut listing = Listing {
        states: States::default(),
        paths: match command.table.has("file") {
            true => paths::follow(&command.input),
            false => Paths::new(),
        },
        asked: command.filter.asked(),
        lines: Lines {
            rows,
            filter: command.filter.filter(),
            start: Time::default(),
            // What stands above the rows is known at the end.
            kept: is_text.then(Vec::new),
            left_out: 0,
            out,
        },
    };
    let ending = match read(&command.input, &mut listing)? {
        Ok(ending) => ending,
        Err(error) => return complain(&error, out),
    };
    let Listing { mut states, paths, asked, mut lines } = listing;
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
    let status = tell_of_ending(&ending, out)?;
    out.flush()?;
    if left_out > 0 {
        let more = Counted(left_out, "further line");
        tell(format_args!(
            "warning: {more} left out: --format csv, tsv and jsonl have all, and filters choose"
        ));
    }
    if summary.encrypted > 0 {
        let calls = Counted(summary.encrypted, "NFSv4 call");
        tell(format_args!("warning: {calls} with krb5p: what they say of state is encrypted"));
    }
    if summary.unread > 0 {
        let calls = Counted(summary.unread, "NFSv4 call");
        tell(format_args!(
            "warning: {calls} without a reply, or not to be read: what they began or ended is not known"
        ));
    }
    match asked.check(&ending) {
        Ok(()) => Ok(status),
        Err(error) => complain(&error, out),
    }
}

/// The summary: a line for each thing that is so, and an empty one behind.
fn write_summary(summary: &Summary, style: Style, out: &mut Out) -> io::Result<()> {
    let lines = summary.lines();
    let mut out = Folding::new(out, style);
    if lines.is_empty() {
        return writeln!(out, "no state of NFSv4");
    }
    let width = lines.iter().map(|(about, _)| about.len()).max().unwrap_or(0) + 2;
    for (about, counts) in &lines {
        writeln!(out, "{}{counts}", style.bold(Left(about, width)))?;
    }
    writeln!(out)
}

/// A capture on its way to lines.
struct Listing<'a> {
    states: States,
    paths: Paths,
    asked: Asked,
    lines: Lines<'a>,
}

/// Lines on their way to the output.
struct Lines<'a> {
    rows: Rows<Lifetime>,
    filter: StateFilter,
    start: Time,
    /// Those that wait for the summary above them.
    kept: Option<Vec<Lifetime>>,
    /// Those beyond [`Lines::MOST_KEPT`].
    left_out: u64,
    out: &'a mut Out,
}

impl Lines<'_> {
    /// Lines that wait.
    const MOST_KEPT: usize = 1 << 17;

    /// Takes one, unless one before it could not be written.
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
    const LISTS: bool = true;

    fn needs(&self) -> Config {
        self.states.needs()
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        let Listing { states, paths, asked, lines } = self;
        lines.start = start;
        asked.handle(&event);
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
