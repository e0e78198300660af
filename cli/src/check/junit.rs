//! JUnit XML for CI systems: one test suite per capture, with a test case per rule and per policy
//! entry.

use super::{Check, Taker};
use crate::input::Input;
use crate::junit::{Case, END, Fault, Layout, Outcome, begin, suite};
use crate::output::{Out, warn_of_cuts};
use rdmascope_analysis::ending::{Ending, FileEnd};
use rdmascope_analysis::policy::{EntryOutcome, PolicyEntry};
use rdmascope_analysis::tally::{Place, RuleCount, Tally};
use rdmascope_analysis::units::{Counted, Number};
use rdmascope_conformance::{Finding, Level, SUBJECTS, Verdict};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::rdma::End;
use rdmascope_present::check::{Kept, Line, listed, slug};
use std::io::{self, Write as _};

/// A JUnit report.
pub(super) struct Report<'a> {
    out: &'a mut Out,
    /// Number of test suites written.
    suites: u64,
}

impl<'a> Report<'a> {
    /// Creates a report. Without a test suite it writes nothing.
    pub(super) fn new(out: &'a mut Out) -> Report<'a> {
        Report { out, suites: 0 }
    }

    fn suite(&mut self, name: &str, cases: &[Case]) -> io::Result<()> {
        if self.suites == 0 {
            begin("rdmascope check", self.out)?;
        }
        self.suites += 1;
        suite(name, cases, Layout::Line, self.out)
    }

    /// Writes the end of the report.
    pub(super) fn end(self) -> io::Result<()> {
        if self.suites > 0 { writeln!(self.out, "{END}") } else { Ok(()) }
    }
}

/// Keeps the findings to show, and writes a test suite at the end.
pub(super) struct Junit<'a, 'b> {
    command: &'a Check,
    kept: Kept,
    report: &'a mut Report<'b>,
}

impl<'a, 'b> Junit<'a, 'b> {
    pub(super) fn new(command: &'a Check, report: &'a mut Report<'b>) -> Junit<'a, 'b> {
        Junit { command, kept: command.kept(), report }
    }
}

impl Taker for Junit<'_, '_> {
    const LISTS: bool = false;

    fn finding(&mut self, finding: &Finding, place: Place<'_>) -> io::Result<()> {
        self.kept.add(finding, place);
        Ok(())
    }

    fn connection(&mut self, connection: &Connection, requester: Option<End>) {
        self.kept.connection(connection, requester);
    }

    fn end(&mut self, tally: &Tally, ending: &Ending) -> io::Result<()> {
        let Junit { command, kept, report } = self;
        let mut cases = input_cases(command, tally, ending);
        cases.push(service_case(tally));
        for (place, count) in tally.rules.iter().enumerate() {
            cases.push(of_rule(place, count, kept));
        }
        if let Some(policy) = &tally.policy {
            cases.extend(policy.entries.iter().map(|entry| of_entry(&policy.file, entry)));
        }
        let name = match ending.files.as_slice() {
            [file] => file.title().to_string(),
            files => {
                let titles: Vec<String> = files.iter().map(|file| file.title().to_string()).collect();
                titles.join(" ")
            }
        };
        report.suite(&name, &cases)?;
        warn_of_cuts(ending, report.out)
    }

    fn unread(&mut self, input: &Input, why: &str) -> io::Result<()> {
        let names: Vec<String> = input.files.iter().map(|path| path.display().to_string()).collect();
        self.report.suite(&names.join(" "), &[capture_case("capture", Some(why.to_owned()))])
    }

    fn out(&mut self) -> &mut Out {
        self.report.out
    }
}

/// The test cases for an input that is empty or could not be read completely. These give exit
/// status 2, and are errors in JUnit.
fn input_cases(command: &Check, tally: &Tally, ending: &Ending) -> Vec<Case> {
    let nothing = match tally {
        _ if command.allow_empty => None,
        tally => tally.nothing_judged(ending),
    };
    let nothing = nothing.map(|why| format!("nothing to judge: {why}"));
    let mut cases = vec![capture_case("connections", nothing)];
    let unreadable = ending.files.iter().filter(|file| file.trouble.is_some());
    cases.extend(unreadable.map(|file| capture_case(&file.title(), Some(FileEnd(file).to_string()))));
    cases
}

/// A test case of the capture, with an error if there is one.
fn capture_case(name: &str, error: Option<String>) -> Case {
    let fault = |message| Fault { class: Some("capture".to_owned()), message, lines: Vec::new() };
    let outcome = error.map(fault).map_or(Outcome::Passed, Outcome::Error);
    Case { class: "capture".to_owned(), name: name.to_owned(), outcome, output: Vec::new() }
}

/// The test case that fails if there was time without service.
fn service_case(tally: &Tally) -> Case {
    let outcome = Outcome::Passed;
    let case = Case { class: "events".to_owned(), name: "service".to_owned(), outcome, output: Vec::new() };
    match tally.leading.iter().find(|statement| statement.is_outage) {
        Some(outage) => failed(case, outage.text.clone()),
        None if tally.has_outages => failed(case, "time without service".to_owned()),
        None => case,
    }
}

/// The test case of a rule. It fails if findings of the rule affect the exit status.
fn of_rule(place: usize, count: &RuleCount, kept: &Kept) -> Case {
    let RuleCount { rule, conclusive, allowed, inconclusive, .. } = *count;
    let mut lines = Vec::new();
    for verdict in [Verdict::Certain, Verdict::Inconclusive] {
        for shown in kept.of(place, verdict) {
            lines.push(Line { kept, shown, verdict }.to_string());
        }
    }
    if !lines.is_empty() {
        lines.push(format!("{} {}.", rule.sentence, listed(rule.sources)));
    }
    let subject = SUBJECTS.iter().find(|subject| subject.rules.iter().any(|one| one.id == rule.id));
    let subject = subject.map_or("", |subject| subject.name);
    let case =
        Case { class: slug(subject), name: rule.id.to_owned(), outcome: Outcome::Passed, output: lines };
    if rule.level == Level::Violation && conclusive > allowed {
        let all = if allowed > 0 { format!(", {} of them allowed", Number(allowed)) } else { String::new() };
        failed(case, format!("{} {}{all}", rule.sentence, Counted(conclusive, "finding")))
    } else if conclusive == 0 && inconclusive > 0 {
        let why = format!("inconclusive: {}", Counted(inconclusive, "finding"));
        Case { outcome: Outcome::Skipped(why), ..case }
    } else {
        case
    }
}

fn of_entry(file: &str, entry: &PolicyEntry) -> Case {
    let came = format!("{file}:{}: {}", entry.line, entry.message);
    let case = Case {
        class: "policy".to_owned(),
        name: format!("{} {}", entry.kind.word(), entry.subject),
        outcome: Outcome::Passed,
        output: vec![came.clone()],
    };
    match entry.outcome {
        EntryOutcome::Failed | EntryOutcome::Expired => failed(case, came),
        EntryOutcome::Unused => Case { outcome: Outcome::Skipped(came), ..case },
        EntryOutcome::Met => case,
    }
}

/// The case as a failure, with its output as the failure text.
fn failed(case: Case, message: String) -> Case {
    let fault = Fault { class: Some(case.class.clone()), message, lines: case.output };
    Case { outcome: Outcome::Failure(fault), output: Vec::new(), ..case }
}
