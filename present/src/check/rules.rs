//! The rules as text.

use crate::screen::findings::in_colour_of;
use crate::screen::{Screen, wrapped};
use crate::text::Left;
use rdmascope_conformance::{Rule, SUBJECTS, Source, rules};
use std::io::{self, Write};

/// Writes a rule with its sources and its explanation.
pub fn write_rule(rule: &Rule, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}  {}", screen.style.bold(rule.id), in_colour_of(rule.level, rule.level, screen.style))?;
    let sources = listed(rule.sources);
    for paragraph in [sources.as_str(), "", rule.sentence, "", rule.explanation] {
        for line in wrapped(paragraph, screen.width) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes a table of all rules, grouped by subject.
pub fn write_rules(screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let longest = rules().map(|rule| rule.id.len()).max().unwrap_or_default();
    let indent = 2 + longest + 2 + LEVEL + 2;
    // On a narrow terminal, the sentence gets lines of its own.
    let (indent, below) = if screen.width < indent + LEAST { (2 * INDENT, true) } else { (indent, false) };
    let subjects = SUBJECTS.iter().filter(|subject| !subject.rules.is_empty());
    for (index, subject) in subjects.enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let allow = format!("(--allow {})", slug(subject.name));
        let fits = subject.name.len() + 1 + allow.len() <= screen.width;
        let between = if fits { " " } else { "\n" };
        writeln!(out, "{gap}{}", screen.style.bold(format_args!("{}{between}{allow}", subject.name)))?;
        for rule in subject.rules {
            let level = in_colour_of(rule.level, Left(rule.level, LEVEL), screen.style);
            write!(out, "  {}  {level}", Left(rule.id, longest))?;
            let text = format!("{} {}.", rule.sentence, listed(rule.sources));
            for (index, line) in wrapped(&text, screen.width.saturating_sub(indent)).into_iter().enumerate() {
                match index == 0 && !below {
                    true => write!(out, "  {line}")?,
                    false => write!(out, "\n{:indent$}{line}", "")?,
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Width of the longest level.
const LEVEL: usize = "violation".len();
/// Indentation of subordinate lines.
pub(super) const INDENT: usize = 2;
/// The least width of a sentence next to the rule's name.
const LEAST: usize = 40;

/// Lists sources: `RFC 8166, sections 3.3.2 and 3.3.3; RFC 8797, section 4.2`.
pub fn listed(sources: &[Source]) -> String {
    let documents = sources.chunk_by(|a, b| a.document == b.document).map(|of_one| {
        let mut sections: Vec<&str> = of_one.iter().map(|source| source.section).collect();
        let last = sections.pop().unwrap_or_default();
        match sections.as_slice() {
            [] => of_one.first().map_or_else(String::new, ToString::to_string),
            others => format!("{}, sections {} and {last}", of_one[0].document, others.join(", ")),
        }
    });
    documents.collect::<Vec<_>>().join("; ")
}

/// The name of a subject on the command line: `inline-thresholds`.
pub fn slug(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}
