//! `rdmascope check`: checks sessions against the specifications.
//!
//! The submodules write the findings as text (`text`), for programs (`lines`), and for CI systems
//! (`sarif`, `junit`). `crate::policy` has the checks beyond the rules.

mod junit;
mod lines;
mod sarif;
mod text;

use crate::filters::TransactionArguments;
use crate::input::{Audience, Each, Input, read};
use crate::level::MinimumLevel;
use crate::output::{Failure, Out, Status, complain_of_troubles, report_failure};
use crate::policy::{Held, Policies, PolicyArguments};
use crate::rules::{Allowed, RULE_NAME, find};
use crate::slice::{self, Records, Slice};
use crate::table::{self, FieldName, Shape, condition};
use crate::terminal;
use anyhow::{anyhow, ensure};
use clap::{Arg, Args, ValueEnum};
use junit::{Junit, Report};
use lines::Lines;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::report::{Report as Figures, Statement};
use rdmascope_analysis::tally::{Place, Tally};
use rdmascope_conformance::{Finding, Judge, Rule, SUBJECTS};
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::{Observation, Observed};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::record::Time;
use rdmascope_present::check::{Kept, write_rule, write_rules};
use rdmascope_present::columns::{FINDING, RULE};
use rdmascope_present::json::write_line;
use rdmascope_present::text::Style;
use sarif::{Log, Sarif};
use std::io::{self, Write as _};
use std::path::PathBuf;
use text::Text;

/// The arguments of `check`.
#[derive(Args, Debug)]
#[command(
    mut_arg("files", |files| files.required(false).required_unless_present_any(["explain", "rules"])),
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&FINDING))),
    mut_arg("condition", condition(&FINDING, "level == violation && rule ~ 'credit-*'")),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&FINDING))),
    mut_args(name_formats),
)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    each: Each,
    /// Output format: text, JSON Lines for programs, a table of findings, or SARIF or JUnit for CI
    /// systems
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    shape: Shape,
    /// Ignore findings of this rule, or of all rules of this subject, in the exit status
    ///
    /// These findings are still shown, marked as allowed, and counted separately. To allow several
    /// rules, use --allow A,B or --allow A --allow B. `rdmascope check --rules` lists the subjects,
    /// such as `credits` or `inline-thresholds`.
    #[arg(long, value_name = "RULE", value_parser = RULE_NAME, value_delimiter = ',', hide_possible_values = true)]
    allow: Vec<String>,
    /// Minimum level of the rules to check
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = MinimumLevel::Advice)]
    level: MinimumLevel,
    /// Also list inconclusive findings, which packets missing from the capture could explain
    ///
    /// By default they are only counted. JSON Lines and tables always include them.
    #[arg(long)]
    inconclusive: bool,
    /// Maximum number of findings shown per rule [default: all as JSON Lines, table and SARIF]
    ///
    /// By default, text combines the findings of a rule by one end of a connection in one line with
    /// their number, and shows at most 10 lines per rule. 0 shows all findings; text shows at most
    /// 10,000 per rule, because they are sorted. All findings are counted.
    #[arg(long, value_name = "N")]
    most: Option<usize>,
    /// Accept a capture without connections, or without RPC-over-RDMA
    ///
    /// By default this is a failure, because nothing was checked.
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    policy: PolicyArguments,
    #[command(flatten)]
    filter: TransactionArguments,
    /// Explain a rule: its requirement, its section, and how it is decided
    #[arg(long, value_name = "RULE", value_parser = RULE_NAME, hide_possible_values = true, conflicts_with_all = ["files", "rules"], help_heading = "Rules")]
    explain: Option<String>,
    /// List all rules
    #[arg(long, conflicts_with = "files", help_heading = "Rules")]
    rules: bool,
}

/// Names the formats in the heading of the options of tables, since text has other lines.
fn name_formats(option: Arg) -> Arg {
    match option.get_help_heading() {
        Some("Table") => option.help_heading("Table, with --format csv, tsv or jsonl"),
        _ => option,
    }
}

/// The output format.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Text, the most severe findings first
    Text,
    /// One JSON object per line; docs/json.md describes them
    Jsonl,
    /// Findings as comma-separated values with a header line; docs/tables.md describes them
    Csv,
    /// Findings as tab-separated values with a header line
    Tsv,
    /// SARIF 2.1.0, one JSON object; docs/conformance.md describes it
    Sarif,
    /// JUnit XML, one test suite per capture; docs/conformance.md describes it
    Junit,
}

impl Check {
    /// The policy files that may be read.
    pub(crate) fn policies(&self) -> Vec<PathBuf> {
        self.policy.places(&self.input.files)
    }
}

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope check mount.pcap
  rdmascope check mount.pcap --level violation --allow inline-threshold
  rdmascope check --each captures/
  rdmascope check mount.pcap --format sarif > mount.sarif
  rdmascope check --each captures/ --format junit > check.xml
  rdmascope check mount.pcap --policy ci.toml
  rdmascope check mount.pcap --format csv --fields rule,frames,message > findings.csv
  tcpdump -i eth0 -U -w - udp port 4791 | rdmascope check - --format jsonl | jq .message
  rdmascope check --explain credit-limit

Exit status:
  0  No violation except allowed ones (--allow), and the policy is met.
  1  A violation, an unmet policy, or time without service on a connection that was made.
  2  Wrong usage, no capture, or nothing to judge (--allow-empty).";

/// Checks the capture, or shows rules.
pub(crate) fn run(command: &Check, style: Style, out: &mut Out) -> Result<Status, Failure> {
    let screen = terminal::screen(style);
    if command.rules || command.explain.is_some() {
        let shown = match &command.explain {
            _ if command.format == Format::Sarif => Err(anyhow!("--format sarif needs a capture")),
            _ if command.format == Format::Junit => Err(anyhow!("--format junit needs a capture")),
            _ if command.table().is_some_and(|format| format != table::Format::Jsonl)
                || command.shape.is_requested() =>
            {
                Err(anyhow!("tables list findings, so they need a capture"))
            }
            Some(id) => find(id).map(|rule| match command.format {
                Format::Text => write_rule(rule, screen, out),
                _ => write_lines(|one| one.id == rule.id, out),
            }),
            None => Ok(match command.format {
                Format::Text => write_rules(screen, out),
                _ => write_lines(|_| true, out),
            }),
        };
        shown??;
        return Ok(Status::Done);
    }
    command.has_table()?;
    let allowed = Allowed::of(&command.allow)?;
    let tally = || Tally::new(|rule| allowed.has(rule), command.level.level());
    let Check { input, each, .. } = command;
    let policies = Policies::new(&command.policy);
    let status = match command.format {
        Format::Text => each.run(input, |input, index| {
            judge(command, &policies, input, tally(), Text::new(command, index, screen, out))
        }),
        Format::Jsonl | Format::Csv | Format::Tsv => {
            each.run(input, |input, _| judge(command, &policies, input, tally(), Lines::new(command, out)))
        }
        Format::Sarif => {
            let mut log = Log::new(out);
            let status = each.run(input, |input, index| {
                judge(
                    command,
                    &policies,
                    input,
                    tally(),
                    Sarif::new(command, input, index.is_some(), &mut log),
                )
            })?;
            log.end()?;
            Ok(status)
        }
        Format::Junit => {
            let mut report = Report::new(out);
            let status = each.run(input, |input, _| {
                judge(command, &policies, input, tally(), Junit::new(command, &mut report))
            })?;
            report.end()?;
            Ok(status)
        }
    }?;
    out.flush()?;
    let level = command.level.level();
    policies.report_unused(|id| rdmascope_conformance::rule(id).is_some_and(|rule| rule.level <= level));
    Ok(status)
}

/// Writes one line per wanted rule.
fn write_lines(is_wanted: impl Fn(&Rule) -> bool, out: &mut Out) -> io::Result<()> {
    let all = SUBJECTS.iter().flat_map(|subject| subject.rules.iter().map(|rule| (subject.name, rule)));
    all.filter(|(_, rule)| is_wanted(rule)).try_for_each(|row| write_line(out, &RULE.of(row)))
}

/// Judges the capture `input` and passes the findings to `taker`. Reports why, if it cannot be
/// judged.
fn judge<T: Taker>(
    command: &Check,
    policies: &Policies<'_>,
    input: &Input,
    tally: Tally,
    mut taker: T,
) -> io::Result<Status> {
    let followed = follow(command, policies, input, tally, &mut taker);
    if let Err(Failure::Command(why)) = &followed
        && command.each.is_each()
    {
        taker.unread(input, &format!("{why:#}"))?;
    }
    let judged = followed.and_then(|(tally, ending)| conclude(command, &tally, &ending, &mut taker));
    report_failure(judged, taker.out())
}

/// Passes the findings of the capture `input` to `taker`, and counts them.
fn follow<T: Taker>(
    command: &Check,
    policies: &Policies<'_>,
    input: &Input,
    tally: Tally,
    taker: &mut T,
) -> Result<(Tally, Ending), Failure> {
    let loaded = policies.of(input)?;
    let twice = loaded.as_deref().is_some_and(Held::reads_twice).then(|| input.twice()).transpose()?;
    let input = twice.as_ref().unwrap_or(input);
    let policy = loaded.as_deref().map(|loaded| Held::new(loaded, input)).transpose()?;
    let level = command.level.level();
    let judge = Judge::new(|rule| rule.level <= level);
    let (slice, captured) = slice::of(input, None, &command.filter, Records::Known)?;
    let mut checking =
        Checking { judge, figures: Figures::default(), tally, policy, taker, slice: &slice, ending: None };
    let mut ending = read(captured.input(), &mut checking)?;
    let Checking { mut tally, figures, policy, .. } = checking;
    ending.chosen = slice.chosen();
    let verdict = figures.verdict(&ending, 0);
    tally.leading = Statement::leading(&verdict).to_vec();
    tally.has_outages = verdict.iter().any(|statement| statement.is_outage);
    tally.policy = policy.map(|policy| policy.end(&tally));
    Ok((tally, ending))
}

/// Ends the output for a capture.
fn conclude<T: Taker>(
    command: &Check,
    tally: &Tally,
    ending: &Ending,
    taker: &mut T,
) -> Result<Status, Failure> {
    taker.end(tally, ending)?;
    if complain_of_troubles(ending, taker.out())? == Status::Failed {
        return Ok(Status::Failed);
    }
    if let Some(why) = tally.nothing_judged(ending).filter(|_| !tally.fails() && !command.allow_empty) {
        let why = match ending.nothing_decoded() {
            Some(nothing) if nothing.iwarp > 0 => nothing.to_string(),
            _ => why.to_owned(),
        };
        return Err(Failure::Command(anyhow!("nothing to judge: {why}; --allow-empty accepts this")));
    }
    Ok(if tally.fails() { Status::Differs } else { Status::Done })
}

/// A writer of findings in one output format.
trait Taker {
    /// Whether findings are written as they arrive.
    const LISTS: bool;

    /// The next finding.
    fn finding(&mut self, finding: &Finding, place: Place<'_>) -> io::Result<()>;

    /// Called when a connection ended. `requester` is the end that rules treat as its requester, if
    /// known.
    fn connection(&mut self, _connection: &Connection, _requester: Option<End>) {}

    /// Called after the last finding.
    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()>;

    /// Called instead of [`Taker::end`] for one of several captures that cannot be read.
    fn unread(&mut self, _input: &Input, _why: &str) -> io::Result<()> {
        Ok(())
    }

    /// The output.
    fn out(&mut self) -> &mut Out;
}

/// Feeds events to the judge and findings to the writer.
struct Checking<'a, T> {
    judge: Judge,
    /// The figures of `analyze`, for the statements that lead the output.
    figures: Figures,
    tally: Tally,
    policy: Option<Held<'a>>,
    taker: &'a mut T,
    /// The part of the capture whose findings are wanted.
    slice: &'a Slice,
    /// The connection that is ending, with the end that rules treat as its requester.
    ending: Option<(ConnectionId, End)>,
}

impl<T: Taker> Audience for Checking<'_, T> {
    fn lists(&self) -> bool {
        T::LISTS
    }

    fn needs(&self) -> Config {
        Judge::needs().and(self.figures.needs())
    }

    #[inline]
    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        let Checking { judge, figures, tally, policy, taker, slice, ending } = self;
        if slice.concerns(&event) {
            figures.follow(&event);
        }
        if slice.has(&event) {
            figures.count_problems(&event);
        }
        let mut written = Ok(());
        judge.handle(&event, &mut |finding| {
            if written.is_ok()
                && slice.has_finding(finding)
                && let reason = policy.as_mut().and_then(|policy| policy.reason(finding))
                && let Some(place) = tally.count(finding, reason)
            {
                written = taker.finding(finding, place);
            }
        });
        match event {
            Event::Observation(Observation { kind: Observed::Ending(_), connection, requester, .. }) => {
                *ending = Some((*connection, *requester));
            }
            Event::Observation(_) | Event::Attributed(_) => {}
            Event::Transaction(transaction) if slice.has(&event) => {
                tally.transaction(transaction);
                if let Some(policy) = policy {
                    policy.transaction(transaction);
                }
            }
            Event::Connection(connection) if slice.has(&event) => {
                tally.connection(connection);
                let ended = ending.filter(|(id, _)| *id == connection.id);
                taker.connection(connection, ended.map(|(_, requester)| requester));
            }
            _ => {}
        }
        written
    }

    fn wait(&mut self) -> io::Result<()> {
        if T::LISTS { self.taker.out().flush() } else { Ok(()) }
    }
}

impl Check {
    /// The table format, if the output has one line per finding.
    fn table(&self) -> Option<table::Format> {
        match self.format {
            Format::Jsonl => Some(table::Format::Jsonl),
            Format::Csv => Some(table::Format::Csv),
            Format::Tsv => Some(table::Format::Tsv),
            Format::Text | Format::Sarif | Format::Junit => None,
        }
    }

    /// Fails if options for tables are given for another format.
    fn has_table(&self) -> anyhow::Result<()> {
        ensure!(
            self.table().is_some() || !self.shape.is_requested(),
            "--fields, --where, --sort and --top need --format csv, tsv or jsonl"
        );
        self.shape.condition(&FINDING)?;
        ensure!(
            !(self.each.is_each() && matches!(self.format, Format::Csv | Format::Tsv)),
            "--each needs --format jsonl: tables have no column for the file"
        );
        Ok(())
    }

    /// An empty collection of the findings to show at the end.
    fn kept(&self) -> Kept {
        /// Default number of lines per rule.
        const SHOWN: usize = 10;
        match self.most {
            None => Kept::folding(SHOWN),
            Some(0) => Kept::new(usize::MAX),
            Some(most) => Kept::new(most),
        }
    }

    /// Maximum number of findings per rule in output for programs.
    fn most(&self) -> u64 {
        self.most.filter(|most| *most > 0).map_or(u64::MAX, |most| most as u64)
    }
}
