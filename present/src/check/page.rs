//! The findings as text, rule by rule, most severe first.

use super::kept::{Kept, Shown};
use super::rules::{INDENT, listed};
use crate::fold::{Folding, folded};
use crate::page;
use crate::screen::findings::in_colour_of;
use crate::screen::{Screen, wrapped};
use crate::text::Left;
use core::fmt::{self, Display, Write as _};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::tally::{LevelCount, RuleCount, Tally};
use rdmascope_analysis::units::{Counted, Duration, Number, Plain};
use rdmascope_conformance::{Finding, Level, Value, Verdict};
use rdmascope_dissector::transaction::Direction;
use std::io::{self, Write};

/// The findings as text.
pub struct Page<'a> {
    /// The options of the user.
    pub selection: Selection,
    /// The counts of all findings.
    pub tally: &'a Tally,
    /// The findings to show.
    pub kept: &'a Kept,
    /// The totals of the capture.
    pub ending: &'a Ending,
    /// The width and the colours of the output.
    pub screen: Screen,
}

/// The options that select the findings to show.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Whether inconclusive findings are listed.
    pub inconclusive: bool,
    /// Whether all kept findings of a rule are listed.
    pub all: bool,
    /// The lowest level of the rules that are checked.
    pub level: Level,
}

impl Page<'_> {
    /// Writes the findings, the summary, the limits of the capture, and the suggested next command.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.tally.leading.is_empty() {
            let style = self.screen.style;
            page::report::write_leading(&self.tally.leading, style, &mut Folding::new(&mut *out, style))?;
            writeln!(out)?;
        }
        for (level, verdict) in LEVELS.into_iter().flat_map(|level| VERDICTS.map(|verdict| (level, verdict)))
        {
            if verdict == Verdict::Inconclusive && !self.selection.inconclusive {
                continue;
            }
            for (place, rule) in self.rules(level) {
                self.write_rule(place, rule, verdict, out)?;
            }
        }
        self.write_summary(out)?;
        if let Some(policy) = &self.tally.policy {
            page::policy::write(policy, self.screen, out)?;
        }
        self.write_blind_spots(out)?;
        self.write_next_step(out)
    }

    /// The rules of a level, each with its index.
    fn rules(&self, level: Level) -> impl Iterator<Item = (usize, &RuleCount)> {
        self.tally.rules.iter().enumerate().filter(move |(_, count)| count.rule.level == level)
    }

    fn write_rule(
        &self,
        place: usize,
        counted: &RuleCount,
        verdict: Verdict,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let RuleCount { rule, is_allowed, conclusive, allowed, inconclusive } = counted;
        let (count, doubt) = match verdict {
            Verdict::Certain => (*conclusive, ""),
            Verdict::Inconclusive => (*inconclusive, ", inconclusive"),
        };
        if count == 0 {
            return Ok(());
        }
        let style = self.screen.style;
        let level = match verdict {
            Verdict::Certain if conclusive > allowed => {
                in_colour_of(rule.level, rule.level, style).to_string()
            }
            _ => rule.level.to_string(),
        };
        let known = rule.known().filter(|_| verdict == Verdict::Certain && conclusive > allowed);
        let allowed = match verdict {
            Verdict::Certain if 0 < *allowed && allowed < conclusive => {
                format!(", {} allowed", Number(*allowed))
            }
            Verdict::Certain if allowed == conclusive => ", allowed".to_owned(),
            Verdict::Inconclusive if *is_allowed => ", allowed".to_owned(),
            _ => String::new(),
        };
        writeln!(out, "{level}  {}  {}{doubt}{allowed}", style.bold(rule.id), Counted(count, "time"))?;
        let text = format!("{} {}.", rule.sentence, listed(rule.sources));
        for paragraph in [Some(text), known.map(ToOwned::to_owned)].into_iter().flatten() {
            for line in wrapped(&paragraph, self.screen.width - INDENT) {
                writeln!(out, "  {line}")?;
            }
        }
        let findings = self.kept.of(place, verdict);
        let rows: Vec<[String; 3]> =
            findings.iter().map(|shown| row(self.kept, shown, &Times(shown.times))).collect();
        let [about, frames] =
            [0, 1].map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for [first, second, rest] in &rows {
            let line = format!("    {}  {}  {rest}", Left(first, about), Left(second, frames));
            match style.width() {
                // If the last column would be narrow, its continuation lines begin below the
                // frames.
                Some(width) => {
                    let begin = 4 + about + 2 + frames + 2;
                    let begin = if begin > width / 2 { 4 + about + 2 } else { begin };
                    writeln!(out, "{}", folded(&line, width, Some(begin)))?;
                }
                None => writeln!(out, "{line}")?,
            }
        }
        let more = count - findings.iter().map(|shown| shown.times).sum::<u64>();
        match more {
            0 => {}
            _ if self.selection.all => {
                writeln!(out, "    and {} more: --format jsonl has all", Number(more))?;
            }
            _ => writeln!(out, "    and {} more: --most 0 shows them", Number(more))?,
        }
        writeln!(out)
    }

    fn write_summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let Page { tally, ending, screen, .. } = self;
        let counts = LEVELS.map(|level| (level, tally.level(level)));
        let conclusive: u64 = counts.iter().map(|(_, count)| count.conclusive).sum();
        let judged = format!(
            "{} and {} judged by {}",
            Counted(tally.connections, "connection"),
            Counted(tally.transactions, "transaction"),
            Counted(tally.rules.len() as u64, "rule")
        );
        if let (0, Some(reason)) = (conclusive, ending.nothing_decoded()) {
            return self.write_paragraph(&format!("Nothing to judge: {reason}."), out);
        }
        if let (0, Some(why)) = (conclusive, tally.nothing_judged(ending)) {
            return writeln!(out, "Nothing to judge: {why}.");
        }
        let heading = match conclusive {
            0 => {
                let doubt = counts.iter().any(|(_, count)| count.inconclusive > 0);
                if doubt { "Nothing found for certain" } else { "Nothing found" }.to_owned()
            }
            _ => {
                let least = self.selection.level;
                let checked = counts.iter().filter(|(level, _)| *level <= least);
                let totals: Vec<String> = checked.map(|(level, count)| total(*level, count)).collect();
                totals.join(", ")
            }
        };
        self.write_summary_line(&format!("{}: {judged}.", screen.style.bold(heading)), out)?;
        let doubtful: Vec<String> = LEVELS
            .into_iter()
            .flat_map(|level| self.rules(level))
            .filter(|(_, count)| count.inconclusive > 0)
            .map(|(_, count)| format!("{} of {}", Number(count.inconclusive), count.rule.id))
            .collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let remedy = if self.selection.inconclusive { "" } else { " (--inconclusive lists them)" };
        self.write_paragraph(&format!("Inconclusive: {}{remedy}.", doubtful.join(", ")), out)
    }

    /// Writes the parts of the capture that could not be judged, or not conclusively.
    fn write_blind_spots(&self, out: &mut dyn Write) -> io::Result<()> {
        let Tally { inferred, snooped, one_sided, spoiled, sealed, missing_packets, .. } = *self.tally;
        let totals = &self.ending.totals;
        let mut spots = Vec::new();
        if inferred > snooped {
            spots.push(format!(
                "{} open before the capture began: negotiated parameters and calls in progress are unknown",
                were(inferred - snooped, "connection")
            ));
        }
        if snooped > 0 {
            spots.push(format!(
                "{} snooped at the kernel's transport: negotiated parameters, data in chunks, acknowledgements and retransmissions are unknown",
                were(snooped, "connection")
            ));
        }
        if one_sided > 0 {
            spots.push(format!("{} captured in one direction only", were(one_sided, "connection")));
        }
        if spoiled > 0 {
            spots.push(format!(
                "on {}, all packets of one end have a bad ICRC and were ignored (--no-icrc)",
                Counted(spoiled, "connection")
            ));
        }
        if sealed > 0 {
            spots.push(format!(
                "{} encrypted (krb5p): their operations, statuses and session slots are not judged",
                were(sealed, "call")
            ));
        }
        if missing_packets > 0 {
            let are = if missing_packets == 1 { "is" } else { "are" };
            spots.push(format!("{} {are} missing from the capture", Counted(missing_packets, "packet")));
        }
        let dropped = self.ending.dropped();
        if dropped > 0 {
            spots.push(format!(
                "{} dropped while capturing, according to the capture",
                were(dropped, "packet")
            ));
        }
        if totals.clocks_differ.is_some() {
            spots.push("the clocks of the capture points differ, and --with aligns their files".to_owned());
        }
        if totals.cut_records > 0 {
            spots.push(format!("{} truncated by a snap length", were(totals.cut_records, "packet")));
        }
        if totals.evictions > 0 {
            let evictions = Number(totals.evictions);
            spots.push(format!("connections, calls and gaps evicted because tables were full: {evictions}"));
        }
        spots.extend(self.ending.incomplete_files());
        if spots.is_empty() {
            return Ok(());
        }
        self.write_paragraph(&format!("Limits of the capture: {}.", Plain(spots.join("; "))), out)
    }

    /// Writes the summary. Without a terminal it is one line, because programs search for it.
    fn write_summary_line(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        match self.screen.style.width() {
            Some(width) => writeln!(out, "{}", folded(text, width, Some(0))),
            None => writeln!(out, "{text}"),
        }
    }

    fn write_paragraph(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        wrapped(text, self.screen.width).into_iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Suggests a command about the first finding.
    fn write_next_step(&self, out: &mut dyn Write) -> io::Result<()> {
        let shown =
            LEVELS.into_iter().flat_map(|level| self.rules(level)).filter(|(_, count)| count.conclusive > 0);
        // Findings that are not allowed take precedence.
        let Some((place, count)) = shown.min_by_key(|(_, count)| count.allowed == count.conclusive) else {
            return Ok(());
        };
        let kept = self.kept.of(place, Verdict::Certain);
        let first = kept.iter().min_by_key(|shown| shown.is_allowed);
        let subject = first.and_then(|shown| place_of(shown.finding));
        if let Some(subject) = subject {
            let file = self.ending.input();
            writeln!(out, "Next: rdmascope show {file} {subject}")?;
        }
        writeln!(out, "      rdmascope check --explain {}", count.rule.id)
    }
}

const LEVELS: [Level; 3] = [Level::Violation, Level::Warning, Level::Advice];
const VERDICTS: [Verdict; 2] = [Verdict::Certain, Verdict::Inconclusive];

/// The count of a level: `3 violations (2 allowed)`.
fn total(level: Level, count: &LevelCount) -> String {
    let LevelCount { conclusive, allowed, .. } = *count;
    let allowed = if allowed > 0 { format!(" ({} allowed)", Number(allowed)) } else { String::new() };
    match level {
        Level::Violation => format!("{}{allowed}", Counted(conclusive, "violation")),
        Level::Warning => format!("{}{allowed}", Counted(conclusive, "warning")),
        Level::Advice => format!("{} of advice{allowed}", Counted(conclusive, "case")),
    }
}

/// A count with its verb: `1 connection was`, `2 connections were`.
fn were(count: u64, noun: &'static str) -> String {
    format!("{} {}", Counted(count, noun), if count == 1 { "was" } else { "were" })
}

/// The options of `rdmascope show` that select the subject of a finding.
fn place_of(finding: &Finding) -> Option<String> {
    match (finding.transaction, finding.xid, finding.connection) {
        (Some(number), ..) => Some(format!("--transaction {number}")),
        (None, Some(xid), Some(connection)) => Some(format!("--xid {xid} --connection {}", connection.0)),
        _ => finding.frames.first().map(|frame| format!("--frame {frame}")),
    }
}

/// A list of frames: `frames 12, 15, 20 and 13 more`.
struct Frames<'a>(&'a [u64]);

impl Display for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let frames = self.0;
        let title = match frames.len() {
            0 => return Ok(()),
            1 => "frame",
            _ => "frames",
        };
        f.write_str(title)?;
        for (index, frame) in frames.iter().take(SHOWN).enumerate() {
            write!(f, "{} {frame}", if index > 0 { "," } else { "" })?;
        }
        match frames.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The number of findings that a row represents, if more than one.
struct Times(u64);

impl Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ..=1 => Ok(()),
            times => write!(f, "; {} times, --most 0 shows each", Number(times)),
        }
    }
}

/// The cells of a finding: connection and XID; frames; the message with its count.
fn row(kept: &Kept, shown: &Shown<'_>, times: &dyn Display) -> [String; 3] {
    let Shown { finding, reason, .. } = *shown;
    let mut about = String::new();
    if let Some(connection) = finding.connection {
        let _ = write!(about, "#{}", connection.0);
    }
    about += match finding.direction {
        Some(Direction::Forward) => " ->",
        Some(Direction::Backward) => " <-",
        None => "",
    };
    if let Some(xid) = finding.xid {
        let _ = write!(about, " {xid}");
    }
    let end = kept.end_of(finding).map(|end| format!("{end}: ")).unwrap_or_default();
    [
        about,
        Frames(&finding.frames).to_string(),
        format!("{end}{}{}{times}{}", Plain(&finding.message), Values(finding), Because(reason)),
    ]
}

/// A finding as one line: `#1 -> 0x0e396a62, frame 14: server 10.77.0.1: a reply that grants no
/// credits`.
pub struct Line<'a> {
    /// The ends of the finding's connection.
    pub kept: &'a Kept,
    /// The finding.
    pub shown: Shown<'a>,
    /// Whether the finding is conclusive.
    pub verdict: Verdict,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { kept, shown, verdict } = self;
        let times = match shown.times {
            ..=1 => String::new(),
            times => format!("; {} times", Number(times)),
        };
        let [about, frames, message] = row(kept, shown, &times);
        let places: Vec<&str> = [&*about, &*frames].into_iter().filter(|place| !place.is_empty()).collect();
        let doubt = if *verdict == Verdict::Inconclusive { "inconclusive: " } else { "" };
        let allowed = if shown.is_allowed && shown.reason.is_none() { "; allowed" } else { "" };
        write!(f, "{}: {doubt}{message}{allowed}", places.join(", "))
    }
}

/// The reason for which a policy allows a finding.
struct Because<'a>(Option<&'a str>);

impl Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(reason) => write!(f, "; allowed: {}", Plain(reason)),
            None => Ok(()),
        }
    }
}

/// The values of a finding that its message does not contain.
struct Values<'a>(&'a Finding);

impl Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Values(Finding { message, observed, allowed, .. }) = self;
        let unmentioned = |value: &'_ Option<Value>| {
            let value = value.as_ref()?;
            (!mentions(message, value)).then(|| shown(value))
        };
        match (unmentioned(observed), unmentioned(allowed)) {
            (None, None) => Ok(()),
            (Some(observed), None) => write!(f, " (seen: {observed})"),
            (None, Some(allowed)) => write!(f, " (allowed: {allowed})"),
            (Some(observed), Some(allowed)) => write!(f, " (seen: {observed}, allowed: {allowed})"),
        }
    }
}

/// A value as text.
fn shown(value: &Value) -> String {
    match value {
        Value::Nanoseconds(time) => Duration(*time).to_string(),
        Value::Words(words) => Plain(words).to_string(),
        _ => value.to_string(),
    }
}

/// Whether a message contains the value as a separate word.
fn mentions(message: &str, value: &Value) -> bool {
    let text = match value {
        Value::Count(number) | Value::Bytes(number) => number.to_string(),
        _ => shown(value),
    };
    let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    message.match_indices(&text).any(|(at, found)| {
        !is_part(message[..at].chars().next_back()) && !is_part(message[at + found.len()..].chars().next())
    })
}
