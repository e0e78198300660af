//! JUnit XML for CI systems, as written by `check` and `peer`.

use crate::output::Out;
use rdmascope_analysis::units::Plain;
use std::io::{self, Write as _};

/// The end of a report.
pub(crate) const END: &str = "</testsuites>";

/// A test case.
pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// The lines of the standard output.
    pub(crate) output: Vec<String>,
}

/// The outcome of a test case.
pub(crate) enum Outcome {
    Passed,
    /// The reason.
    Skipped(String),
    Failure(Fault),
    Error(Fault),
}

/// A failure or an error.
pub(crate) struct Fault {
    pub(crate) class: Option<String>,
    pub(crate) message: String,
    pub(crate) lines: Vec<String>,
}

/// The layout of a test case.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// One line.
    Line,
    /// A line for each element.
    Lines,
}

/// Writes the beginning of a report.
pub(crate) fn begin(name: &str, out: &mut Out) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"{name}\">")
}

/// Writes a test suite.
pub(crate) fn suite(name: &str, cases: &[Case], layout: Layout, out: &mut Out) -> io::Result<()> {
    let count = |is_so: fn(&Outcome) -> bool| cases.iter().filter(|case| is_so(&case.outcome)).count();
    writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
        escaped(name),
        cases.len(),
        count(|outcome| matches!(outcome, Outcome::Failure(_))),
        count(|outcome| matches!(outcome, Outcome::Error(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    )?;
    cases.iter().try_for_each(|case| case.write(layout, out))?;
    writeln!(out, "  </testsuite>")
}

impl Case {
    fn write(&self, layout: Layout, out: &mut Out) -> io::Result<()> {
        let Case { class, name, outcome, output } = self;
        write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escaped(class), escaped(name))?;
        let output = (!output.is_empty()).then(|| format!("<system-out>{}</system-out>", joined(output)));
        let elements: Vec<String> = outcome.element().into_iter().chain(output).collect();
        match layout {
            Layout::Line if elements.is_empty() => writeln!(out, "/>"),
            Layout::Line => writeln!(out, ">{}</testcase>", elements.concat()),
            Layout::Lines => writeln!(out, ">\n      {}\n    </testcase>", elements.join("\n      ")),
        }
    }
}

impl Outcome {
    fn element(&self) -> Option<String> {
        match self {
            Outcome::Passed => None,
            Outcome::Skipped(why) => Some(format!("<skipped message=\"{}\"/>", escaped(why))),
            Outcome::Failure(fault) => Some(fault.element("failure")),
            Outcome::Error(fault) => Some(fault.element("error")),
        }
    }
}

impl Fault {
    fn element(&self, tag: &str) -> String {
        let class =
            self.class.as_ref().map_or(String::new(), |class| format!(" type=\"{}\"", escaped(class)));
        let message = escaped(&self.message);
        format!("<{tag}{class} message=\"{message}\">{}</{tag}>", joined(&self.lines))
    }
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n")
}

/// Text in an attribute or an element. Control characters are not allowed in XML and are escaped,
/// and so are the two other characters that XML excludes (XML 1.0, section 2.2).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in Plain(text).to_string().chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}
