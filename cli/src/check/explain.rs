//! The rules themselves.

use super::Format;
use core::fmt::Display;
use rdmascope_conformance::{Level, Rule, SUBJECTS, Source, rules};
use rdmascope_present::columns::RULE;
use rdmascope_present::json;
use rdmascope_present::screen::{Screen, wrapped};
use rdmascope_present::text::{Left, Style};
use std::io::{self, Write};

/// Writes all of one rule.
pub(super) fn one(
    rule: &'static Rule,
    format: Format,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    if format == Format::Jsonl {
        let subject = SUBJECTS.iter().find(|subject| subject.rules.iter().any(|one| one.id == rule.id));
        return json::write_line(out, &RULE.of((subject.map_or("", |subject| subject.name), rule)));
    }
    writeln!(out, "{}  {}", screen.style.bold(rule.id), painted(screen.style, rule.level, rule.level))?;
    let sources = listed(rule.sources);
    for paragraph in [sources.as_str(), "", rule.sentence, "", rule.explanation] {
        for line in wrapped(paragraph, screen.width) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes a table of all rules, subject by subject.
pub(super) fn all(format: Format, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    if format == Format::Jsonl {
        let all = SUBJECTS.iter().flat_map(|subject| subject.rules.iter().map(|rule| (subject.name, rule)));
        return all.into_iter().try_for_each(|(name, rule)| json::write_line(out, &RULE.of((name, rule))));
    }
    let longest = rules().map(|rule| rule.id.len()).max().unwrap_or_default();
    let indent = 2 + longest + 2 + LEVEL + 2;
    // What a narrow terminal has left for the sentence gets a line of its own.
    let (indent, below) = if screen.width < indent + LEAST { (2 * INDENT, true) } else { (indent, false) };
    let subjects = SUBJECTS.iter().filter(|subject| !subject.rules.is_empty());
    for (index, subject) in subjects.enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let allow = format!("(--allow {})", slug(subject.name));
        let fits = subject.name.len() + 1 + allow.len() <= screen.width;
        let between = if fits { " " } else { "\n" };
        writeln!(out, "{gap}{}", screen.style.bold(format_args!("{}{between}{allow}", subject.name)))?;
        for rule in subject.rules {
            let level = painted(screen.style, rule.level, Left(rule.level, LEVEL));
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

/// Columns of the longest level.
pub(super) const LEVEL: usize = "violation".len();
/// What stands below something else is indented so far.
pub(super) const INDENT: usize = 2;
/// Columns that a sentence wants.
const LEAST: usize = 40;

/// In the colour of the level.
pub(super) fn painted(style: Style, level: Level, value: impl Display) -> String {
    match level {
        Level::Violation => style.red(value).to_string(),
        Level::Warning => style.yellow(value).to_string(),
        Level::Advice => value.to_string(),
    }
}

/// `RFC 8166, sections 3.3.2 and 3.3.3; RFC 8797, section 4.2`.
pub(super) fn listed(sources: &[Source]) -> String {
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

/// The name of a subject on a command line: `inline-thresholds`.
pub(super) fn slug(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

/// The rules whose ids are like this, the most similar first.
pub(super) fn near(id: &str) -> Vec<&'static str> {
    const MOST: usize = 3;
    /// From here on a person sees the likeness.
    const LIKE: f64 = 0.6;
    let wanted = slug(id.trim());
    let likeness = |rule: &'static Rule| match rule.id.contains(wanted.as_str()) {
        true => 1.0,
        false => strsim::normalized_damerau_levenshtein(&wanted, rule.id),
    };
    let mut found: Vec<(f64, &'static str)> = rules()
        .filter(|_| !wanted.is_empty())
        .map(|rule| (likeness(rule), rule.id))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(MOST).map(|(_, id)| id).collect()
}
