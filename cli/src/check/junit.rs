//! JUnit XML for CI systems: a test suite for each capture, a test case for each rule and for each entry of the policy.

use super::text::SHOWN;
use super::{Check, NO_CONNECTION, NO_RPCRDMA, Taker};
use crate::output::{Out, warn_of_cuts};
use crate::xml::escaped;
use rdmascope_analysis::ending::{Ending, FileEnd};
use rdmascope_analysis::policy::EntryOutcome;
use rdmascope_analysis::tally::{Place, RuleCount, Tally};
use rdmascope_analysis::units::{Counted, Number};
use rdmascope_conformance::{Finding, Level, SUBJECTS, Verdict};
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::rdma::End;
use rdmascope_present::check::{Kept, Line, listed, slug};
use std::io::{self, Write as _};

/// A report: a test suite for each capture.
pub(super) struct Report<'a> {
    out: &'a mut Out,
    /// Test suites that were written.
    suites: u64,
}

impl<'a> Report<'a> {
    /// An empty one: what has no test suite gets nothing.
    pub(super) fn new(out: &'a mut Out) -> Report<'a> {
        Report { out, suites: 0 }
    }

    /// Ends the report.
    pub(super) fn end(self) -> io::Result<()> {
        if self.suites > 0 { writeln!(self.out, "</testsuites>") } else { Ok(()) }
    }
}

/// Keeps what is shown, and writes a test suite when all was found.
pub(super) struct Junit<'a, 'b> {
    command: &'a Check,
    kept: Kept,
    report: &'a mut Report<'b>,
}

impl<'a, 'b> Junit<'a, 'b> {
    pub(super) fn new(command: &'a Check, report: &'a mut Report<'b>) -> Junit<'a, 'b> {
        let kept = match command.most {
            None => Kept::folding(SHOWN),
            Some(0) => Kept::new(usize::MAX),
            Some(most) => Kept::new(most),
        };
        Junit { command, kept, report }
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
        let mut cases = whole(command, tally, ending);
        for (place, count) in tally.rules.iter().enumerate() {
            cases.push(of_rule(place, count, kept));
        }
        if let Some(policy) = &tally.policy {
            cases.extend(policy.entries.iter().map(|entry| {
                let came = format!("{}:{}: {}", policy.file, entry.line, entry.message);
                let result = match entry.outcome {
                    EntryOutcome::Failed | EntryOutcome::Expired => Outcome::Failure(came.clone()),
                    EntryOutcome::Unused => Outcome::Skipped(came.clone()),
                    EntryOutcome::Met => Outcome::Passed,
                };
                Case {
                    class: "policy".to_owned(),
                    name: format!("{} {}", entry.kind.word(), entry.subject),
                    result,
                    lines: vec![came],
                }
            }));
        }
        let name = match ending.files.as_slice() {
            [file] => file.title().to_string(),
            files => {
                let titles: Vec<String> = files.iter().map(|file| file.title().to_string()).collect();
                titles.join(" ")
            }
        };
        let count = |is_so: fn(&Outcome) -> bool| cases.iter().filter(|case| is_so(&case.result)).count();
        let Report { out, suites } = &mut **report;
        if *suites == 0 {
            writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
            writeln!(out, "<testsuites name=\"rdmascope check\">")?;
        }
        *suites += 1;
        writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            escaped(&name),
            cases.len(),
            count(|result| matches!(result, Outcome::Failure(_))),
            count(|result| matches!(result, Outcome::Error(_))),
            count(|result| matches!(result, Outcome::Skipped(_))),
        )?;
        cases.iter().try_for_each(|case| case.write(out))?;
        writeln!(out, "  </testsuite>")?;
        warn_of_cuts(ending, out)
    }

    fn out(&mut self) -> &mut Out {
        self.report.out
    }
}

/// A test case.
struct Case {
    class: String,
    name: String,
    result: Outcome,
    /// What there is to say of it.
    lines: Vec<String>,
}

/// How a test case ended, and why.
enum Outcome {
    Passed,
    Skipped(String),
    Failure(String),
    Error(String),
}

impl Case {
    fn write(&self, out: &mut Out) -> io::Result<()> {
        let Case { class, name, result, lines } = self;
        write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escaped(class), escaped(name))?;
        let text = lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n");
        match result {
            Outcome::Passed if text.is_empty() => writeln!(out, "/>"),
            Outcome::Passed => writeln!(out, "><system-out>{text}</system-out></testcase>"),
            Outcome::Skipped(why) if text.is_empty() => {
                writeln!(out, "><skipped message=\"{}\"/></testcase>", escaped(why))
            }
            Outcome::Skipped(why) => {
                let why = escaped(why);
                writeln!(out, "><skipped message=\"{why}\"/><system-out>{text}</system-out></testcase>")
            }
            Outcome::Failure(what) => {
                let what = escaped(what);
                writeln!(
                    out,
                    "><failure type=\"{}\" message=\"{what}\">{text}</failure></testcase>",
                    escaped(class)
                )
            }
            Outcome::Error(what) => {
                let what = escaped(what);
                writeln!(out, "><error type=\"capture\" message=\"{what}\">{text}</error></testcase>")
            }
        }
    }
}

/// Whether there was something to judge, and all of it was read: what has exit status 2 is an error here.
fn whole(command: &Check, tally: &Tally, ending: &Ending) -> Vec<Case> {
    let case = |name: &str, error: Option<String>| Case {
        class: "capture".to_owned(),
        name: name.to_owned(),
        result: error.map_or(Outcome::Passed, Outcome::Error),
        lines: Vec::new(),
    };
    let nothing = match tally {
        _ if command.allow_empty => None,
        Tally { connections: 0, .. } => Some(NO_CONNECTION),
        tally => tally.is_foreign().then_some(NO_RPCRDMA),
    };
    let mut cases = vec![case("connections", nothing.map(str::to_owned))];
    let unreadable = ending.files.iter().filter(|file| file.trouble.is_some());
    cases.extend(unreadable.map(|file| case(&file.title(), Some(FileEnd(file).to_string()))));
    cases
}

/// A rule fails where it counts in the exit status.
fn of_rule(place: usize, count: &RuleCount, kept: &Kept) -> Case {
    let RuleCount { rule, stands, allowed, inconclusive, .. } = *count;
    let mut lines = Vec::new();
    for verdict in [Verdict::Stands, Verdict::Inconclusive] {
        for shown in kept.of(place, verdict) {
            lines.push(Line { kept, shown, verdict }.to_string());
        }
    }
    if !lines.is_empty() {
        lines.push(format!("{} {}.", rule.sentence, listed(rule.sources)));
    }
    let result = if rule.level == Level::Violation && stands > allowed {
        let all = if allowed > 0 { format!(", {} of them allowed", Number(allowed)) } else { String::new() };
        Outcome::Failure(format!("{} {}{all}", rule.sentence, Counted(stands, "finding")))
    } else if stands == 0 && inconclusive > 0 {
        Outcome::Skipped(format!("inconclusive: {}", Counted(inconclusive, "finding")))
    } else {
        Outcome::Passed
    };
    let subject = SUBJECTS.iter().find(|subject| subject.rules.iter().any(|one| one.id == rule.id));
    let subject = subject.map_or("", |subject| subject.name);
    Case { class: slug(subject), name: rule.id.to_owned(), result, lines }
}
