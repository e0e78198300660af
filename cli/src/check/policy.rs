//! What a person asks of captures beside the rules, in a file beside them: docs/policy.md describes it.

mod file;
mod held;
#[cfg(test)]
mod tests;

pub(super) use held::Held;

use super::Check;
use crate::input::Input;
use crate::output::tell;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use core::cell::{Cell, RefCell};
use core::fmt;
use rdmascope_conformance::Rule;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_present::filter::AddressPattern;
use rdmascope_present::names::Protocol;
use rdmascope_present::policy::{EntryOutcome, Policed};
use rdmascope_present::time::{ParseError, Rfc3339};
use rdmascope_wire::rpc::program;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;
use toml::value::{Date, Datetime};

/// The name of a policy that is found without being named.
const NAME: &str = "rdmascope.toml";
/// Bytes of a policy at most.
const LONGEST: u64 = 1 << 20;

/// Which policy a capture is held against.
#[derive(Args, Debug)]
#[command(next_help_heading = "Policy")]
pub(super) struct PolicyArguments {
    /// Hold the capture against this policy [default: rdmascope.toml in the folder of the first capture, if there is one]
    ///
    /// A policy is a TOML file. It says which findings are allowed, where, why and until when; how long operations may take; and what
    /// must be in the capture. docs/policy.md describes it. With --each, every capture has the policy of its own folder. For standard
    /// input no policy is looked for.
    #[arg(long, value_name = "FILE", conflicts_with = "no_policy")]
    policy: Option<PathBuf>,
    /// Hold the capture against no policy, even if there is one beside it
    #[arg(long)]
    no_policy: bool,
    /// Take this as the date of today when entries of the policy expire, as 2026-12-31 [default: that of this machine, in UTC]
    #[arg(long, value_name = "DATE", value_parser = date)]
    today: Option<Date>,
}

/// What is asked of captures.
#[derive(Debug, Default)]
struct Policy {
    /// The name of the file.
    file: String,
    allows: Vec<Allow>,
    latencies: Vec<Latency>,
    requirements: Vec<Requirement>,
}

/// Rules that may be broken.
#[derive(Debug)]
struct Allow {
    line: usize,
    /// Their ids, and the names of subjects, as they were given.
    names: Vec<String>,
    /// The ids of all of them.
    rules: Vec<&'static str>,
    scope: Scope,
    reason: Arc<str>,
    /// The last day on which it counts.
    expires: Option<Date>,
}

/// How long an operation may take.
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

/// What is measured of latencies.
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

/// What must be in the capture.
#[derive(Debug)]
struct Requirement {
    line: usize,
    what: Required,
}

#[derive(Debug)]
enum Required {
    /// So many connections.
    Connections(u64),
    /// So many transactions.
    Transactions(u64),
    /// A transaction with this operation.
    Operation(&'static str),
    /// Rules with a conclusive verdict on something that the capture shows: the name as it was given, and their ids.
    Rules(String, Vec<&'static str>),
    /// Of the rules, such a share with a conclusive verdict.
    Conclusive(f64),
}

/// Where an entry counts. What is empty says nothing; of a list one value has to match.
#[derive(Debug, Default)]
struct Scope {
    servers: Vec<AddressPattern>,
    clients: Vec<AddressPattern>,
    connections: Vec<u32>,
    versions: Vec<Version>,
    /// As it stands in messages.
    words: String,
}

impl Scope {
    /// Whether it asks for more than the number of a connection.
    fn is_of_hosts(&self) -> bool {
        !(self.servers.is_empty() && self.clients.is_empty() && self.versions.is_empty())
    }

    fn has_connection(&self, connection: Option<u32>) -> bool {
        self.connections.is_empty() || connection.is_some_and(|number| self.connections.contains(&number))
    }

    fn has_hosts(&self, client: Option<Address>, server: Option<Address>) -> bool {
        let fits = |patterns: &[AddressPattern], address: Option<Address>| {
            patterns.is_empty()
                || address.is_some_and(|address| patterns.iter().any(|pattern| pattern.matches(address)))
        };
        fits(&self.clients, client) && fits(&self.servers, server)
    }

    fn has_version(&self, versions: &[Version]) -> bool {
        self.versions.is_empty()
            || self.versions.iter().any(|wanted| versions.iter().any(|version| wanted.has(*version)))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.words.is_empty() { Ok(()) } else { write!(f, " ({})", self.words) }
    }
}

/// A version of NFS; of version 4 without a minor version, any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    major: u32,
    minor: Option<u32>,
}

impl Version {
    /// That of a transaction, where it is one of NFS.
    fn of(protocol: Protocol) -> Option<Version> {
        let Protocol { program, version, minor } = protocol;
        match program {
            program::NFS => Some(Version { major: version, minor }),
            // The callback program is version 1 whatever the version of NFS.
            program::CALLBACK => Some(Version { major: 4, minor }),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Version> {
        match text {
            "2" | "3" | "4" => Some(Version { major: text.parse().ok()?, minor: None }),
            "4.0" | "4.1" | "4.2" => Some(Version { major: 4, minor: text[2..].parse().ok() }),
            _ => None,
        }
    }

    fn has(self, other: Version) -> bool {
        self.major == other.major && self.minor.is_none_or(|minor| other.minor == Some(minor))
    }
}

/// A policy, and what of it was of use in any capture.
#[derive(Debug)]
pub(super) struct Loaded {
    policy: Policy,
    today: Date,
    /// Whether a capture was held against it.
    is_used: Cell<bool>,
    /// Its entries in their order: whether they were about nothing in every capture.
    unused: RefCell<Vec<bool>>,
}

impl Loaded {
    /// Takes in what came of it in a capture.
    pub(super) fn note(&self, policed: &Policed) {
        let unused = policed.entries.iter().map(|entry| entry.outcome == EntryOutcome::Unused);
        let mut before = self.unused.borrow_mut();
        match self.is_used.replace(true) {
            true => before.iter_mut().zip(unused).for_each(|(before, now)| *before &= now),
            false => *before = unused.collect(),
        }
    }
}

/// The policies of the captures.
pub(super) struct Policies<'a> {
    arguments: &'a PolicyArguments,
    today: Date,
    /// By their files.
    loaded: RefCell<BTreeMap<PathBuf, Rc<Loaded>>>,
}

impl<'a> Policies<'a> {
    pub(super) fn new(command: &'a Check) -> Policies<'a> {
        let arguments = &command.policy;
        let today = arguments.today.unwrap_or_else(today);
        Policies { arguments, today, loaded: RefCell::default() }
    }

    /// The policy of a capture, where it has one.
    pub(super) fn of(&self, input: &Input) -> Result<Option<Rc<Loaded>>> {
        let Some(path) = self.place(input) else { return Ok(None) };
        if let Some(loaded) = self.loaded.borrow().get(&path) {
            return Ok(Some(Rc::clone(loaded)));
        }
        let policy = read(&path)?;
        let loaded =
            Loaded { policy, today: self.today, is_used: Cell::new(false), unused: RefCell::default() };
        let loaded = Rc::new(loaded);
        self.loaded.borrow_mut().insert(path, Rc::clone(&loaded));
        Ok(Some(loaded))
    }

    fn place(&self, input: &Input) -> Option<PathBuf> {
        let PolicyArguments { policy, no_policy, .. } = self.arguments;
        if *no_policy || policy.is_some() {
            return policy.clone();
        }
        let found = beside(input.files.first()?)?;
        // What is there and cannot be read is told of, and not passed over.
        match found.metadata() {
            Ok(metadata) => metadata.is_file().then_some(found),
            Err(error) => (error.kind() == std::io::ErrorKind::PermissionDenied).then_some(found),
        }
    }

    /// Tells of entries that were about nothing in all captures, on standard error.
    pub(super) fn tell_of_unused(&self, is_asked: impl Fn(&str) -> bool) {
        for loaded in self.loaded.borrow().values() {
            let Loaded { policy, unused, .. } = &**loaded;
            let unused = unused.borrow();
            let entries = policy.allows.iter().map(|allow| {
                let words = format!("allow {} fits no finding", allow.title());
                (allow.line, words, allow.rules.iter().any(|rule| is_asked(rule)))
            });
            let limits = policy.latencies.iter().flat_map(|latency| {
                latency.limits.iter().map(|limit| {
                    let words = format!("latency of {}: there is no such transaction", latency.title());
                    (limit.line, words, true)
                })
            });
            for ((line, words, is_asked), unused) in entries.chain(limits).zip(unused.iter()) {
                if is_asked && *unused {
                    tell(format_args!("warning: {}:{line}: unused: {words}", policy.file));
                }
            }
        }
    }
}

impl Allow {
    fn allows(&self, rule: &Rule) -> bool {
        self.rules.contains(&rule.id)
    }

    fn title(&self) -> String {
        format!("{}{}", self.names.join(", "), self.scope)
    }
}

impl Latency {
    fn title(&self) -> String {
        format!("{}{}", self.operation, self.scope)
    }
}

/// The place of the policy of a capture's folder. Standard input has none.
fn beside(capture: &Path) -> Option<PathBuf> {
    let capture = Some(capture).filter(|capture| *capture != Path::new("-"))?;
    Some(capture.parent()?.join(NAME))
}

impl PolicyArguments {
    /// The policies that these captures may have.
    pub(super) fn places(&self, captures: &[PathBuf]) -> Vec<PathBuf> {
        let beside = captures.iter().filter_map(|capture| beside(capture));
        self.policy.iter().cloned().chain(beside).collect()
    }
}

/// Reads a policy. Errors name the file, and the line where there is one.
fn read(path: &Path) -> Result<Policy> {
    let file = path.display().to_string();
    let cannot = || format!("{file}: the policy cannot be read");
    let mut bytes = Vec::new();
    let opened = File::open(path).with_context(cannot)?;
    opened.take(LONGEST + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(bytes.len() as u64 <= LONGEST, "{file}: a policy has at most {LONGEST} bytes");
    let text = str::from_utf8(&bytes).map_err(|error| {
        let before = bytes.iter().take(error.valid_up_to());
        file::PolicyError {
            file: file.clone(),
            line: 1 + before.filter(|byte| **byte == b'\n').count(),
            what: "this is no UTF-8".to_owned(),
        }
    })?;
    Ok(file::parse(&file, text)?)
}

/// A date: `2026-12-31`.
fn date(text: &str) -> Result<Date, ParseError> {
    const WANTED: ParseError = ParseError("a date is expected, as 2026-12-31");
    match text.parse() {
        Ok(Datetime { date: Some(date), time: None, offset: None }) => Ok(date),
        _ => Err(WANTED),
    }
}

/// The date by the clock of this machine, in UTC.
fn today() -> Date {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
    let text = Rfc3339::from(now);
    date(&text.as_str()[..10]).expect("a time begins with its date")
}
