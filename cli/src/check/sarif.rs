//! Findings for CI systems as SARIF 2.1.0 (OASIS, errata 01), limited to results and to what GitHub
//! code scanning reads.
//!
//! SARIF describes source text. Here the capture is the artifact, and the frame number takes the
//! place of the line number: code scanning shows no result without one.

use super::{Check, Taker};
use crate::input::Input;
use crate::output::{Out, Status, warn_of_cuts};
use rdmascope_analysis::ending::{Ending, FileEnd};
use rdmascope_analysis::names;
use rdmascope_analysis::tally::{Place, Tally};
use rdmascope_present::check::{listed, slug};
use rdmascope_present::column::Line;
use rdmascope_present::columns::{CHECK, FINDING, FindingRow, Judged};
use rdmascope_present::json::{Shown, write_value};

use core::fmt::{self, Display, Write as _};
use rdmascope_conformance::{Finding, Level, Rule, SUBJECTS, Source, Subject, Verdict};
use rdmascope_present::words;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::path::Path;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A SARIF log with one run per capture.
pub(super) struct Log<'a> {
    out: &'a mut Out,
    /// Number of runs started.
    runs: u64,
}

impl<'a> Log<'a> {
    /// Creates a log. Without a run it writes nothing.
    pub(super) fn new(out: &'a mut Out) -> Log<'a> {
        Log { out, runs: 0 }
    }

    /// Writes the end of the log.
    pub(super) fn end(self) -> io::Result<()> {
        if self.runs > 0 { self.out.write_all(b"]}\n") } else { Ok(()) }
    }
}

/// Writes a run. Results are written as they arrive, so memory use does not grow with their number.
pub(super) struct Sarif<'a, 'b> {
    log: &'a mut Log<'b>,
    /// Whether each of several captures has its own run.
    is_one_of_several: bool,
    /// The minimum level of rules.
    level: Level,
    inconclusive: bool,
    /// Maximum number of results per rule.
    most: u64,
    /// The capture files. If frames are numbered over several files, the first is the location of
    /// all results.
    artifacts: Vec<String>,
    /// Number of results written; `None` before the run is started.
    results: Option<u64>,
}

impl<'a, 'b> Sarif<'a, 'b> {
    /// Creates a run on `input`, which may be one of several captures.
    pub(super) fn new(
        command: &Check,
        input: &Input,
        is_one_of_several: bool,
        log: &'a mut Log<'b>,
    ) -> Sarif<'a, 'b> {
        Sarif {
            log,
            is_one_of_several,
            level: command.level.level(),
            inconclusive: command.inconclusive,
            most: command.most(),
            artifacts: input.files.iter().map(|path| uri(path.as_path())).collect(),
            results: None,
        }
    }

    /// Starts the run once, so that an input that is no capture gets none.
    fn begin(&mut self) -> io::Result<()> {
        if self.results.is_some() {
            return Ok(());
        }
        self.results = Some(0);
        let rules_of = |subject: &'static Subject| subject.rules.iter().map(move |rule| (subject, rule));
        let rules = SUBJECTS.iter().flat_map(rules_of).filter(|(_, rule)| rule.level <= self.level);
        let driver = Driver {
            name: "rdmascope",
            version: env!("CARGO_PKG_VERSION"),
            semantic_version: env!("CARGO_PKG_VERSION"),
            rules: rules.map(|(subject, rule)| Descriptor::new(subject, rule)).collect(),
        };
        let Log { out, runs } = &mut *self.log;
        match runs {
            0 => write!(out, "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[")?,
            _ => out.write_all(b",\n")?,
        }
        *runs += 1;
        write!(out, "{{\"tool\":")?;
        write_value(out, &Tool { driver })?;
        if let (true, Some(category)) = (self.is_one_of_several, self.artifacts.first()) {
            write!(out, ",\"automationDetails\":")?;
            // The part before the slash is the category, by which code scanning distinguishes runs.
            write_value(out, &AutomationDetails { id: Shown(format_args!("{category}/")) })?;
        }
        write!(out, ",\"results\":[")
    }

    /// Writes the part of a run that follows its results.
    fn rest<'c>(
        &'c mut self,
        status: Status,
        notices: Vec<Notice>,
        properties: Option<RunProperties<'c>>,
    ) -> io::Result<()> {
        let artifact = |uri| Artifact { location: ArtifactLocation::of(uri) };
        let rest = Rest {
            artifacts: self.artifacts.iter().map(|uri| artifact(uri)).collect(),
            invocations: [Invocation {
                execution_successful: status != Status::Failed,
                exit_code: status as u8,
                tool_execution_notifications: notices,
            }],
            column_kind: "utf16CodeUnits",
            properties,
        };
        let mut text = Vec::new();
        write_value(&mut text, &rest)?;
        self.log.out.write_all(b"\n],")?;
        self.log.out.write_all(text.strip_prefix(b"{").unwrap_or(&text))
    }
}

impl Taker for Sarif<'_, '_> {
    const LISTS: bool = true;

    fn finding(&mut self, finding: &Finding, place: Place<'_>) -> io::Result<()> {
        let is_wanted = finding.verdict == Verdict::Certain || self.inconclusive;
        let Some(rule) = finding.rule.filter(|_| is_wanted && place.count <= self.most) else {
            return Ok(());
        };
        self.begin()?;
        let results = self.results.get_or_insert_default();
        let separator = if *results > 0 { ",\n" } else { "\n" };
        *results += 1;
        let artifact = self.artifacts.first().map_or("", String::as_str);
        self.log.out.write_all(separator.as_bytes())?;
        write_value(self.log.out, &Outcome::new(finding, rule, place, artifact))?;
        Ok(())
    }

    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()> {
        self.begin()?;
        let notices = ending.files.iter().filter(|file| file.cut.is_some() || file.trouble.is_some());
        let mut notices: Vec<Notice> = notices
            .map(|file| Notice {
                level: if file.trouble.is_some() { "error" } else { "warning" },
                message: Text { text: Shown(format!("{}: {}", file.title(), FileEnd(file))) },
            })
            .collect();
        let policy =
            tally.policy.iter().flat_map(|policy| policy.entries.iter().map(move |entry| (policy, entry)));
        let failing = policy.filter(|(_, entry)| entry.fails());
        notices.extend(failing.map(|(policy, entry)| Notice::error(policy.named(entry).to_string())));
        let outages = tally.leading.iter().filter(|statement| statement.is_outage);
        notices.extend(outages.map(|outage| Notice::error(outage.text.clone())));
        let is_read = ending.files.iter().all(|file| file.trouble.is_none());
        let status = match (is_read, tally.fails()) {
            (false, _) => Status::Failed,
            (true, true) => Status::Differs,
            (true, false) => Status::Done,
        };
        self.rest(status, notices, Some(RunProperties { check: CHECK.of((tally, ending)) }))?;
        warn_of_cuts(ending, self.log.out)
    }

    fn unread(&mut self, _: &Input, why: &str) -> io::Result<()> {
        self.begin()?;
        self.rest(Status::Failed, vec![Notice::error(why.to_owned())], None)
    }

    fn out(&mut self) -> &mut Out {
        self.log.out
    }
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(bound = "T: Display")]
struct AutomationDetails<T> {
    id: Shown<T>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: &'static str,
    semantic_version: &'static str,
    rules: Vec<Descriptor>,
}

/// A rule: SARIF's reportingDescriptor.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    id: &'static str,
    short_description: Text<&'static str>,
    full_description: Text<&'static str>,
    help: Text<Help>,
    default_configuration: Configuration,
    properties: RuleProperties,
}

#[derive(Serialize)]
#[serde(bound = "T: Display")]
struct Text<T> {
    text: Shown<T>,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct RuleProperties {
    tags: [String; 1],
    sources: Vec<Shown<Source>>,
}

impl Descriptor {
    fn new(subject: &Subject, rule: &'static Rule) -> Descriptor {
        Descriptor {
            id: rule.id,
            short_description: Text { text: Shown(rule.sentence) },
            full_description: Text { text: Shown(rule.explanation) },
            help: Text { text: Shown(Help(rule)) },
            default_configuration: Configuration { level: level(rule.level) },
            properties: RuleProperties {
                tags: [slug(subject.name)],
                sources: rule.sources.iter().map(|source| Shown(*source)).collect(),
            },
        }
    }
}

/// The help text of a rule.
struct Help(&'static Rule);

impl Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Help(rule) = self;
        write!(f, "{} {} {}.", rule.sentence, rule.explanation, listed(rule.sources))
    }
}

/// A finding: SARIF's result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    rule_id: &'static str,
    rule_index: usize,
    kind: &'static str,
    level: &'static str,
    message: Text<Sentence<'a>>,
    locations: [Location<'a>; 1],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Related<'a>>,
    partial_fingerprints: Fingerprints,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Suppression<'a>>,
    properties: Line<'a, FindingRow<'static>>,
}

impl<'a> Outcome<'a> {
    fn new(finding: &'a Finding, rule: &'static Rule, place: Place<'a>, artifact: &'a str) -> Outcome<'a> {
        // A finding that is not certain has no level (SARIF, section 3.27.10).
        let (kind, level) = match finding.verdict {
            Verdict::Certain => ("fail", level(rule.level)),
            Verdict::Inconclusive => ("review", "none"),
        };
        let (first, others) = match finding.frames.split_first() {
            Some((first, others)) => (*first, others),
            None => (1, &[][..]),
        };
        let related = |(index, frame): (usize, &u64)| Related {
            id: index + 1,
            physical_location: PhysicalLocation::of(artifact, *frame),
            message: Text { text: Shown(format!("frame {frame}")) },
        };
        let reason = place.reason.map(|reason| &**reason);
        let suppression =
            Suppression { kind: "external", justification: reason.unwrap_or("named by --allow") };
        Outcome {
            rule_id: rule.id,
            rule_index: place.rule,
            kind,
            level,
            message: Text { text: Shown(Sentence(finding)) },
            locations: [Location {
                physical_location: PhysicalLocation::of(artifact, first),
                logical_locations: [LogicalLocation { fully_qualified_name: Shown(Subjects(finding)) }],
            }],
            related_locations: others.iter().enumerate().map(related).collect(),
            partial_fingerprints: Fingerprints { primary_location_line_hash: fingerprint(finding, rule) },
            suppressions: place.is_allowed.then_some(suppression).into_iter().collect(),
            properties: FINDING.of(FindingRow::new(finding, place.is_allowed).because(reason)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    physical_location: PhysicalLocation<'a>,
    logical_locations: [LogicalLocation<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation<'a> {
    fully_qualified_name: Shown<Subjects<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Related<'a> {
    id: usize,
    physical_location: PhysicalLocation<'a>,
    message: Text<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation<'a> {
    artifact_location: ArtifactLocation<'a>,
    region: Region,
}

impl PhysicalLocation<'_> {
    fn of(uri: &str, frame: u64) -> PhysicalLocation<'_> {
        PhysicalLocation {
            artifact_location: ArtifactLocation::of(uri),
            region: Region { start_line: frame.max(1) },
        }
    }
}

#[derive(Serialize)]
struct ArtifactLocation<'a> {
    uri: &'a str,
}

impl ArtifactLocation<'_> {
    fn of(uri: &str) -> ArtifactLocation<'_> {
        ArtifactLocation { uri }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    /// The frame number.
    start_line: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fingerprints {
    /// The property that code scanning reads.
    primary_location_line_hash: String,
}

#[derive(Serialize)]
struct Suppression<'a> {
    kind: &'static str,
    justification: &'a str,
}

/// The properties of a run after its results.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rest<'a> {
    artifacts: Vec<Artifact<'a>>,
    invocations: [Invocation; 1],
    column_kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<RunProperties<'a>>,
}

#[derive(Serialize)]
struct Artifact<'a> {
    location: ArtifactLocation<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
    exit_code: u8,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_execution_notifications: Vec<Notice>,
}

#[derive(Serialize)]
struct Notice {
    level: &'static str,
    message: Text<String>,
}

impl Notice {
    fn error(text: String) -> Notice {
        Notice { level: "error", message: Text { text: Shown(text) } }
    }
}

#[derive(Serialize)]
struct RunProperties<'a> {
    check: Line<'a, Judged>,
}

/// The SARIF level.
const fn level(level: Level) -> &'static str {
    match level {
        Level::Violation => "error",
        Level::Warning => "warning",
        Level::Advice => "note",
    }
}

/// The message of a result: the observation, the end and the connection. Lists of alerts show
/// nothing else.
struct Sentence<'a>(&'a Finding);

impl Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sentence(finding) = self;
        write!(f, "{} ({}", finding.message, Subjects(finding))?;
        if let Some(by_requester) = finding.by_requester {
            write!(f, ", by the {}", words::end(by_requester))?;
        }
        for (index, frame) in finding.frames.iter().enumerate() {
            let title = match (index, finding.frames.len()) {
                (0, 1) => ", frame",
                (0, _) => ", frames",
                _ => ",",
            };
            write!(f, "{title} {frame}")?;
        }
        f.write_char(')')
    }
}

/// The subject of a finding: `connection 1, forward 0x1a2b3c4d`.
struct Subjects<'a>(&'a Finding);

impl Display for Subjects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subjects(finding) = self;
        match finding.connection {
            Some(connection) => write!(f, "connection {}", connection.0)?,
            None => f.write_str("no connection")?,
        }
        if let Some(direction) = finding.direction {
            write!(f, ", {}", names::direction(direction))?;
        }
        match finding.xid {
            Some(xid) => write!(f, ", XID {xid}"),
            None => Ok(()),
        }
    }
}

/// Identifies a finding within a capture and across runs.
fn fingerprint(finding: &Finding, rule: &Rule) -> String {
    let mut digest = Sha256::new();
    digest.update(rule.id);
    digest.update(Sentence(finding).to_string());
    // Code scanning expects the number of earlier results with the same hash.
    hex::encode(&digest.finalize()[..8]) + ":1"
}

/// A path as a URI. A relative path stays relative, since code scanning resolves it against the
/// root of a repository. A byte that is not UTF-8 is encoded as it is.
fn uri(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard-input".to_owned();
    }
    let mut uri = String::from(if path.has_root() { "file://" } else { "" });
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into())
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}
