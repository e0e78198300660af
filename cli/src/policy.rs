//! The policy file: allowed findings, latency limits and requirements (docs/policy.md).

mod file;
mod held;
#[cfg(test)]
mod tests;

pub(crate) use held::Held;

use crate::input::Input;
use crate::output::notify;
use crate::rules::{Allowed, RULE_NAME};
use anyhow::{Context as _, Result, ensure};
use clap::{Arg, Args};
use core::cell::{Cell, RefCell};
use rdmascope_analysis::policy::{Allow, Allowances, EntryOutcome, Policed, Scope};
use rdmascope_analysis::time::{ParseError, Rfc3339};
use rdmascope_dissector::record::Time;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;
use toml::value::{Date, Datetime};

/// The name of the policy in the folder of a capture.
const NAME: &str = "rdmascope.toml";
/// Maximum size of a policy, in bytes.
const LONGEST: u64 = 1 << 20;

/// The options that select the policy.
#[derive(Args, Debug)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArguments {
    /// Policy to check the capture against [default: rdmascope.toml in the folder of the first
    /// capture, if it exists]
    ///
    /// A policy is a TOML file. It lists allowed findings with their scope, reason and expiry date;
    /// limits on latencies; and required contents of the capture. docs/policy.md describes it. With
    /// --each, every capture has the policy of its own folder. Standard input has no default
    /// policy.
    #[arg(long, value_name = "FILE", conflicts_with = "no_policy")]
    policy: Option<PathBuf>,
    /// Use no policy, even if the folder of the capture has one
    #[arg(long)]
    no_policy: bool,
    /// Date used for the expiry of policy entries, such as 2026-12-31 [default: today in UTC]
    #[arg(long, value_name = "DATE", value_parser = date)]
    today: Option<Date>,
}

impl PolicyArguments {
    /// Adapts the help texts to commands that apply `[[allow]]` entries only.
    fn of_sessions(argument: Arg) -> Arg {
        match argument.get_id().as_str() {
            "policy" => argument
                .help("Policy whose [[allow]] entries apply [default: rdmascope.toml in the folder of the first capture, if it exists]")
                .long_help(
                    "Policy whose [[allow]] entries apply [default: rdmascope.toml in the folder of the first capture, if it exists]\n\n\
                     A policy is a TOML file, which docs/policy.md describes. Interfaces and standard \
                     input have no default policy.",
                ),
            "no_policy" => argument.help("Use no policy, even if the folder of the capture has one"),
            _ => argument,
        }
    }

    /// The path of the policy, if there is one.
    fn place(&self, input: &Input) -> Option<PathBuf> {
        if self.no_policy || self.policy.is_some() {
            return self.policy.clone();
        }
        let found = default_path(input.files.first()?)?;
        // An unreadable policy is an error; it does not count as missing.
        match found.metadata() {
            Ok(metadata) => metadata.is_file().then_some(found),
            Err(error) => (error.kind() == std::io::ErrorKind::PermissionDenied).then_some(found),
        }
    }
}

/// The options that allow findings in live sessions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Policy", mut_args(PolicyArguments::of_sessions))]
pub(crate) struct AllowArguments {
    /// Allow findings of this rule, or of all rules of this subject; they count as allowed
    ///
    /// To allow several rules, use --allow A,B or --allow A --allow B. `rdmascope check --rules`
    /// lists rules and subjects.
    #[arg(long, value_name = "RULE", value_parser = RULE_NAME, value_delimiter = ',', hide_possible_values = true)]
    allow: Vec<String>,
    #[command(flatten)]
    policy: PolicyArguments,
}

impl AllowArguments {
    /// Reads the policy of `input` and joins its `[[allow]]` entries with `--allow`. The other
    /// entries need a whole capture and are ignored.
    pub(crate) fn allowances(&self, input: &Input) -> Result<Allowances> {
        let rules = Allowed::of(&self.allow)?.ids();
        let Some(path) = self.policy.place(input) else { return Ok(Allowances::new(rules, Vec::new())) };
        let policy = read(&path, self.policy.today.unwrap_or_else(today))?;
        let Policy { file, allows, latencies, requirements } = policy;
        for allow in &allows {
            if let Some(last) = &allow.expired {
                notify(format_args!(
                    "warning: {file}:{}: allow {} expired after {last}",
                    allow.line,
                    allow.title()
                ));
            }
        }
        if !(input.quiet || latencies.is_empty() && requirements.is_empty()) {
            notify(format_args!(
                "{file}: [[latency]] and [require] apply to whole captures only; use rdmascope check"
            ));
        }
        Ok(Allowances::new(rules, allows))
    }
}

/// The entries of a policy file.
#[derive(Debug, Default)]
struct Policy {
    /// The name of the file.
    file: String,
    allows: Vec<Allow>,
    latencies: Vec<Latency>,
    requirements: Vec<Requirement>,
}

/// A `[[latency]]` entry.
#[derive(Debug)]
struct Latency {
    operation: &'static str,
    scope: Scope,
    limits: Vec<Limit>,
}

/// A limit, in nanoseconds.
#[derive(Debug)]
struct Limit {
    line: usize,
    of: Measure,
    most: u64,
}

/// The statistic that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Median,
    P90,
    P99,
    Max,
}

impl Measure {
    const ALL: [(&'static str, Measure); 4] =
        [("median", Measure::Median), ("p90", Measure::P90), ("p99", Measure::P99), ("max", Measure::Max)];

    fn name(self) -> &'static str {
        let found = Measure::ALL.iter().find(|(_, measure)| *measure == self);
        found.map_or("", |(name, _)| name)
    }
}

/// A requirement on the contents of the capture.
#[derive(Debug)]
struct Requirement {
    line: usize,
    kind: Required,
}

#[derive(Debug)]
enum Required {
    /// At least this number of connections.
    Connections(u64),
    /// At least this number of transactions.
    Transactions(u64),
    /// A transaction with this operation.
    Operation(&'static str),
    /// Rules with a conclusive verdict on contents of the capture: the name as given, and their
    /// ids.
    Rules(String, Vec<&'static str>),
    /// Minimum share of rules with a conclusive verdict.
    Conclusive(f64),
}

/// A policy, and the use of its entries.
#[derive(Debug)]
pub(crate) struct Loaded {
    policy: Policy,
    /// Whether a capture was checked against it.
    is_used: Cell<bool>,
    /// For each entry in order: whether it has applied to no capture so far.
    unused: RefCell<Vec<bool>>,
}

impl Loaded {
    /// Adds the outcome of one capture.
    fn note(&self, policed: &Policed) {
        let unused = policed.entries.iter().map(|entry| entry.outcome == EntryOutcome::Unused);
        let mut before = self.unused.borrow_mut();
        match self.is_used.replace(true) {
            true => before.iter_mut().zip(unused).for_each(|(before, now)| *before &= now),
            false => *before = unused.collect(),
        }
    }
}

/// The policies of the captures.
pub(crate) struct Policies<'a> {
    arguments: &'a PolicyArguments,
    today: Date,
    /// By path.
    loaded: RefCell<BTreeMap<PathBuf, Rc<Loaded>>>,
}

impl<'a> Policies<'a> {
    pub(crate) fn new(arguments: &'a PolicyArguments) -> Policies<'a> {
        let today = arguments.today.unwrap_or_else(today);
        Policies { arguments, today, loaded: RefCell::default() }
    }

    /// The policy of a capture, if it has one.
    pub(crate) fn of(&self, input: &Input) -> Result<Option<Rc<Loaded>>> {
        let Some(path) = self.arguments.place(input) else { return Ok(None) };
        if let Some(loaded) = self.loaded.borrow().get(&path) {
            return Ok(Some(Rc::clone(loaded)));
        }
        let policy = read(&path, self.today)?;
        let loaded = Loaded { policy, is_used: Cell::new(false), unused: RefCell::default() };
        let loaded = Rc::new(loaded);
        self.loaded.borrow_mut().insert(path, Rc::clone(&loaded));
        Ok(Some(loaded))
    }

    /// Warns about entries that applied to no capture.
    pub(crate) fn report_unused(&self, is_checked: impl Fn(&str) -> bool) {
        for loaded in self.loaded.borrow().values() {
            let Loaded { policy, unused, .. } = &**loaded;
            let unused = unused.borrow();
            let entries = policy.allows.iter().map(|allow| {
                let words = format!("allow {} matches no finding", allow.title());
                (allow.line, words, allow.rules.iter().any(|rule| is_checked(rule)))
            });
            let limits = policy.latencies.iter().flat_map(|latency| {
                latency.limits.iter().map(|limit| {
                    let words = format!("latency of {}: no such transaction", latency.title());
                    (limit.line, words, true)
                })
            });
            for ((line, words, is_checked), unused) in entries.chain(limits).zip(unused.iter()) {
                if is_checked && *unused {
                    notify(format_args!("warning: {}:{line}: unused: {words}", policy.file));
                }
            }
        }
    }
}

impl Latency {
    fn title(&self) -> String {
        format!("{}{}", self.operation, self.scope)
    }
}

/// The path of the policy in a capture's folder. `None` for standard input.
fn default_path(capture: &Path) -> Option<PathBuf> {
    let capture = Some(capture).filter(|capture| *capture != Path::new("-"))?;
    Some(capture.parent()?.join(NAME))
}

impl PolicyArguments {
    /// The policies that these captures may have.
    pub(crate) fn places(&self, captures: &[PathBuf]) -> Vec<PathBuf> {
        let defaults = captures.iter().filter_map(|capture| default_path(capture));
        self.policy.iter().cloned().chain(defaults).collect()
    }
}

/// Reads a policy. Errors have the file name, and the line if known.
fn read(path: &Path, today: Date) -> Result<Policy> {
    let file = path.display().to_string();
    let cannot = || format!("{file}: the policy cannot be read");
    let mut bytes = Vec::new();
    let opened = File::open(path).with_context(cannot)?;
    opened.take(LONGEST + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(bytes.len() as u64 <= LONGEST, "{file}: policy longer than {LONGEST} bytes");
    let text = str::from_utf8(&bytes).map_err(|error| {
        let before = bytes.iter().take(error.valid_up_to());
        file::PolicyError {
            file: file.clone(),
            line: 1 + before.filter(|byte| **byte == b'\n').count(),
            message: "invalid UTF-8".to_owned(),
        }
    })?;
    Ok(file::parse(&file, text, today)?)
}

/// Parses a date: `2026-12-31`.
fn date(text: &str) -> Result<Date, ParseError> {
    const WANTED: ParseError = ParseError("expected a date such as 2026-12-31");
    match text.parse() {
        Ok(Datetime { date: Some(date), time: None, offset: None }) => Ok(date),
        _ => Err(WANTED),
    }
}

/// Today's date in UTC.
fn today() -> Date {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
    let text = Rfc3339::from(now);
    date(&text.as_str()[..10]).expect("a time begins with its date")
}
