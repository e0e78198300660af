//! The text output of `diff`.

use super::histogram;
use crate::fold::Folding;
use crate::text::{Left, Style};
use core::fmt::{self, Display};
use rdmascope_analysis::diff::{Area, Comparison, Difference, Latencies, Measure, Side, Verdict};
use rdmascope_analysis::ending::{CutShort, FileEnding};
use rdmascope_analysis::report::Latency;
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number, Plain};
use rdmascope_dissector::phases::Phases;
use std::io::{self, Write};

/// The comparison as text. Lines fit the terminal; without one, they have at most 100 columns
/// except for long names.
pub struct Text<'a> {
    /// A and B.
    pub sides: [&'a Side; 2],
    /// The result of the comparison.
    pub comparison: &'a Comparison,
    /// The differences to write.
    pub shown: &'a [&'a Difference],
    /// The colours and the width of the output.
    pub style: Style,
}

const LETTERS: [&str; 2] = ["A", "B"];

/// Width of the description column, if there is room. A longer description gets a line of its own.
const WIDTH: usize = 52;
/// Width of the columns after the description.
const VALUES: usize = 2 + 1 + COLUMN + 1 + COLUMN + 1 + 8;
/// Width of the column of probabilities.
const CHANCE: usize = 11;
/// Width of the latency columns and their result, after the name of the operation.
const LATENCIES: usize = 1 + 2 + 7 + 5 * 9 + 2 + 14;
/// Width of the operation name in the latency table.
const NAME: usize = 26;
/// Width of the column of A, and of B.
const COLUMN: usize = 16;

impl Text<'_> {
    /// Writes the comparison, with latency histograms for at most `histograms` operations.
    pub fn write(&self, histograms: usize, out: &mut dyn Write) -> io::Result<()> {
        let out = &mut Folding::new(out, self.style);
        self.write_all(histograms, out)?;
        out.flush()
    }

    /// Writes the certain differences, the most important first and at most `most`, one line each:
    /// both values, the factor, and the probability of such a difference by chance.
    pub fn write_most(&self, most: usize, out: &mut dyn Write) -> io::Result<()> {
        let certain = self.shown.iter().filter(|difference| difference.verdict == Verdict::Differs);
        let certain: Vec<_> = certain.take(most).collect();
        if certain.is_empty() {
            return Ok(());
        }
        let out = &mut Folding::new(out, self.style);
        let width =
            self.style.width().map_or(WIDTH, |width| width.saturating_sub(VALUES + CHANCE).min(WIDTH));
        let title = self.style.bold(Left("What differs most", width + 2));
        writeln!(out, "{title}{}{:>CHANCE$}", padded("A", "B", "B/A"), "by chance")?;
        for difference in certain {
            let [a, b] = difference.sides.each_ref().map(|measure| Shown(measure).to_string());
            write_description(&description(difference), width, out)?;
            let change = Change(difference).to_string();
            writeln!(out, "{}{:>CHANCE$}", padded(&a, &b, &change), Chance(difference).to_string())?;
        }
        writeln!(out)?;
        out.flush()
    }

    /// The width of the description column.
    fn width(&self) -> usize {
        self.style.width().map_or(WIDTH, |width| width.saturating_sub(VALUES).min(WIDTH))
    }

    fn write_all(&self, histograms: usize, out: &mut dyn Write) -> io::Result<()> {
        self.write_captures(out)?;
        if self.shown.is_empty() {
            let nothing = match self.sides.map(Side::transactions) {
                [0, 0] => "Nothing to compare: neither capture has an RPC transaction.",
                _ => "No difference. --all shows everything that was compared.",
            };
            return writeln!(out, "\n{nothing}");
        }
        let summary = match self.comparison.count() as u64 {
            0 => "No certain difference; some operations have too few transactions to compare".to_owned(),
            count => format!("{} by area, most important first in each", Counted(count, "difference")),
        };
        writeln!(out, "\n{}", self.style.bold(summary))?;
        for area in Area::ALL {
            let mut rows = self.shown.iter().copied().filter(|difference| difference.area == area).peekable();
            if rows.peek().is_none() {
                continue;
            }
            if area == Area::Latency {
                self.write_latencies(rows, out)?;
                continue;
            }
            let title = self.style.bold(Left(title(area), self.width() + 2));
            writeln!(out, "\n{title}{}", columns("A", "B", "B/A"))?;
            rows.try_for_each(|difference| self.write_row(difference, out))?;
        }
        self.write_histograms(histograms, out)
    }

    /// Writes the names and the totals of both captures.
    fn write_captures(&self, out: &mut dyn Write) -> io::Result<()> {
        for (letter, side) in LETTERS.into_iter().zip(self.sides) {
            let name = side.ending.files.first().map_or_else(Default::default, FileEnding::title);
            let others = match side.ending.files.len() as u64 {
                0 | 1 => String::new(),
                files => format!(" and {}", Counted(files - 1, "other file")),
            };
            writeln!(out, "{}  {}{others}", self.style.bold(letter), Plain(name))?;
            let transactions = side.transactions();
            write!(out, "   {} in {}", Counted(transactions, "transaction"), Duration(side.length()))?;
            let seconds = side.length() as f64 / 1e9;
            if transactions > 0 && seconds > 0.0 && side.ending.chosen.is_none() {
                write!(out, " ({} a second)", Significant(transactions as f64 / seconds))?;
            }
            let totals = &side.ending.totals;
            let packets = match (totals.packets, totals.segments) {
                (0, segments @ 1..) => Counted(segments, "TCP segment"),
                (packets, segments) => Counted(packets + segments, "packet"),
            };
            writeln!(out, ", {packets}, {}", Counted(side.connections(), "connection"))?;
            if let Some(chosen) = &side.ending.chosen {
                writeln!(out, "   chosen: {chosen}")?;
            }
            for file in &side.ending.files {
                if let Some(cut) = file.cut {
                    let cut = format!("{}: compared up to there", CutShort(file, cut));
                    writeln!(out, "   {}", self.style.yellow(cut))?;
                }
                if let Some(trouble) = &file.trouble {
                    let trouble = Plain(format_args!("compared up to a read error: {trouble:#}")).to_string();
                    writeln!(out, "   {}", self.style.red(trouble))?;
                }
            }
        }
        if !self.comparison.same_work {
            let text = "The captures have different numbers of transactions: counts are compared as shares.";
            writeln!(out, "{}", self.style.yellow(text))?;
        }
        Ok(())
    }

    fn write_row(&self, difference: &Difference, out: &mut dyn Write) -> io::Result<()> {
        let [a, b] = difference.sides.each_ref().map(|measure| Shown(measure).to_string());
        let change = match difference.verdict {
            Verdict::Differs => Change(difference).to_string(),
            Verdict::TooFew => "too few".to_owned(),
            Verdict::Chance => "chance".to_owned(),
            Verdict::Equal => "=".to_owned(),
            Verdict::Unknown => "unknown".to_owned(),
        };
        let is_bad = matches!(
            difference.area,
            Area::Transactions | Area::Conformance | Area::Transport | Area::Errors
        );
        let is_worse = is_bad && difference.verdict == Verdict::Differs && is_more_in_b(difference);
        let description = description(difference);
        if [&a, &b].into_iter().any(|value| value.chars().count() > COLUMN) {
            let b = self.style.red_if(is_worse, &b);
            return writeln!(out, "  {description}\n    A {a}\n    B {b}  {change}");
        }
        write_description(&description, self.width(), out)?;
        writeln!(out, "{}", self.style.red_if(is_worse, columns(&a, &b, &change)))
    }

    fn write_latencies<'b>(
        &self,
        rows: impl Iterator<Item = &'b Difference>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let name = if self.is_narrow() { 2 } else { NAME };
        write!(out, "\n{}", self.style.bold(Left(title(Area::Latency), name + 4)))?;
        write!(out, " {:>7}", "n")?;
        for heading in ["min", "median", "p90", "p99", "max"] {
            write!(out, " {heading:>8}")?;
        }
        writeln!(out, "  B/A")?;
        // In a short capture, most operations have too few transactions. They must not hide the
        // others.
        let (too_few, certain): (Vec<_>, Vec<_>) =
            rows.partition(|difference| difference.verdict == Verdict::TooFew);
        let (tabled, listed) = too_few.split_at(too_few.len().min(Text::MOST_TOO_FEW));
        certain.iter().chain(tabled).try_for_each(|difference| self.write_latency(difference, out))?;
        if listed.is_empty() {
            return Ok(());
        }
        let entries = listed.iter().filter_map(|difference| {
            let (pair, [a, b]) = (difference.operation?, difference.latencies()?);
            Some(format!("{pair} {} ({}, {})", Change(difference), Number(a.count), Number(b.count)))
        });
        write_list("  too few to compare: ", entries, self.style, out)
    }

    /// Operations with too few transactions that get a full row. The rest are listed with their
    /// ratio only.
    const MOST_TOO_FEW: usize = 3;

    fn write_latency(&self, difference: &Difference, out: &mut dyn Write) -> io::Result<()> {
        let Some(sides) = difference.latencies() else { return Ok(()) };
        let is_narrow = self.is_narrow();
        for (letter, Latencies { count, latency, .. }) in LETTERS.into_iter().zip(sides) {
            let name = difference.operation.filter(|_| letter == "A").map(|pair| pair.to_string());
            match name {
                Some(name) if is_narrow => write!(out, "  {name}\n    ")?,
                _ if is_narrow => write!(out, "    ")?,
                name => write!(out, "  {}", Left(name.unwrap_or_default(), NAME))?,
            }
            write!(out, " {letter} {:>7}", Number(count))?;
            let Latency { minimum, median, p90, p99, maximum, .. } = latency;
            for value in [minimum, median, p90, p99, maximum] {
                write!(out, " {:>8}", Duration(value))?;
            }
            if letter == "B" {
                let is_slower = difference.ratio().is_some_and(|ratio| ratio > 1.0);
                let is_worse = is_slower && difference.verdict == Verdict::Differs;
                write!(out, "  {}", self.style.red_if(is_worse, LatencyChange(difference).to_string()))?;
            }
            writeln!(out)?;
        }
        if difference.is_shown() {
            write_list("    mean ", where_the_time_went(sides), self.style, out)?;
        }
        Ok(())
    }

    /// Whether the latencies do not fit on one line with the name of their operation.
    fn is_narrow(&self) -> bool {
        self.style.width().is_some_and(|width| width < 2 + NAME + LATENCIES)
    }

    fn write_histograms(&self, most: usize, out: &mut dyn Write) -> io::Result<()> {
        let latencies = self
            .shown
            .iter()
            .filter(|difference| difference.area == Area::Latency && difference.verdict == Verdict::Differs);
        let mut pairs = latencies.filter_map(|difference| difference.operation).take(most).peekable();
        if pairs.peek().is_some() {
            let title = "Distribution of latencies, % of the transactions of each capture";
            writeln!(out, "\n{}", self.style.bold(title))?;
        }
        for (index, pair) in pairs.enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            if let [Some(a), Some(b)] = [0, 1].map(|index| self.sides[index].latencies(index, pair)) {
                histogram::write(&pair.to_string(), [a, b], self.style, out)?;
            }
        }
        Ok(())
    }
}

const fn title(area: Area) -> &'static str {
    match area {
        Area::Transactions => "Transactions",
        Area::Connections => "Connections",
        Area::Transport => "Transport",
        Area::Conformance => "Findings",
        Area::Latency => "Latency",
        Area::Errors => "Errors in replies",
        Area::Conveyance => "Conveyance",
        Area::Operations => "Operations",
        Area::Capture => "Captures",
    }
}

fn description(difference: &Difference) -> String {
    match difference.operation {
        Some(pair) => format!("{pair}: {}", difference.description),
        None => difference.description.clone(),
    }
}

/// Writes a description up to the next column, or on a line of its own if it is longer.
fn write_description(description: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    match description.chars().count() <= width {
        true => write!(out, "  {description:width$}"),
        false => write!(out, "  {description}\n  {:width$}", ""),
    }
}

/// Whether the share is larger in B.
fn is_more_in_b(difference: &Difference) -> bool {
    let share = |measure: &Measure| match measure {
        Measure::Count(count, of) => *count as f64 / (*of).max(1) as f64,
        _ => 0.0,
    };
    let [a, b] = difference.sides.each_ref().map(share);
    b > a
}

/// Both values and the result, in columns.
fn columns(a: &str, b: &str, change: &str) -> String {
    padded(a, b, change).trim_end().to_owned()
}

/// The same with spaces up to the last column.
fn padded(a: &str, b: &str, change: &str) -> String {
    format!(" {a:>COLUMN$} {b:>COLUMN$} {change:>8}")
}

/// The probability of a difference by chance. Counts are compared directly, without a test.
struct Chance<'a>(&'a Difference);

impl Display for Chance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.chance, &self.0.sides[0]) {
            (None, Measure::Count(..)) => f.write_str("not tested"),
            (None, _) => f.write_str("certain"),
            (Some(chance), _) if chance < 0.001 => f.write_str("p<0.001"),
            (Some(chance), _) => write!(f, "p={chance:.3}"),
        }
    }
}

/// The value of one side.
struct Shown<'a>(&'a Measure);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Measure::Count(0, _) => f.write_str("-"),
            Measure::Count(count, of) if count == of => write!(f, "{} (all)", Number(*count)),
            Measure::Count(count, of) => {
                write!(f, "{} ({}%)", Number(*count), Significant(*count as f64 * 100.0 / *of as f64))
            }
            Measure::Number(number) if number.fract() == 0.0 => Number(*number as u64).fmt(f),
            Measure::Number(number) => write!(f, "{number:.2}"),
            Measure::Bytes(bytes) => Bytes(*bytes as u64).fmt(f),
            Measure::Values(values) => {
                for (index, (value, count)) in values.iter().enumerate() {
                    let separator = if index > 0 { ", " } else { "" };
                    write!(f, "{separator}{value}")?;
                    if values.len() > 1 {
                        write!(f, " ({})", Number(*count))?;
                    }
                }
                if values.is_empty() { f.write_str("?") } else { Ok(()) }
            }
            Measure::Extremes(None) => f.write_str("?"),
            Measure::Extremes(Some([least, greatest, last])) if least == greatest && greatest == last => {
                write!(f, "{last}")
            }
            Measure::Extremes(Some([least, greatest, last])) => write!(f, "{least}-{greatest}, last {last}"),
            Measure::Latencies(of) => Duration(of.latency.median).fmt(f),
        }
    }
}

/// The factor from A to B.
struct Change<'a>(&'a Difference);

impl Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.sides.each_ref(), self.0.ratio()) {
            ([Measure::Count(0, _), _], _) => f.write_str("only B"),
            ([_, Measure::Count(0, _)], _) => f.write_str("only A"),
            // The totals differ, so the shares were compared.
            ([Measure::Count(a, of_a), Measure::Count(b, of_b)], _) => {
                write!(f, "x{}", Significant((*b as f64 / *of_b as f64) / (*a as f64 / *of_a as f64)))
            }
            (_, Some(ratio)) => write!(f, "x{}", Significant(ratio)),
            (_, None) => Ok(()),
        }
    }
}

/// The result of a latency comparison.
struct LatencyChange<'a>(&'a Difference);

impl Display for LatencyChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LatencyChange(difference) = self;
        if let Some(ratio) = difference.ratio() {
            write!(f, "x{}", Significant(ratio))?;
        }
        match difference.verdict {
            Verdict::TooFew => f.write_str(" too few"),
            Verdict::Chance => f.write_str(" chance"),
            Verdict::Differs if difference.name == Difference::TAIL => f.write_str(" of p90"),
            Verdict::Differs | Verdict::Equal | Verdict::Unknown => Ok(()),
        }
    }
}

/// The mean of each phase that takes time, as in `server 1.24ms -> 11.0ms`, and the mean payload if
/// it differs.
fn where_the_time_went([a, b]: [Latencies; 2]) -> impl Iterator<Item = String> {
    let phases = Phases::NAMES.into_iter().zip(a.phases.times).zip(b.phases.times);
    let phases = phases.filter(|((_, a), b)| a.max(b) > &0);
    let bytes = (a.bytes != b.bytes).then(|| format!("{} -> {}", Bytes(a.bytes), Bytes(b.bytes)));
    phases.map(|((name, a), b)| format!("{name} {} -> {}", Duration(a), Duration(b))).chain(bytes)
}

/// Writes the entries, breaking the line where needed.
fn write_list(
    title: &str,
    entries: impl Iterator<Item = String>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    // Each entry includes the comma and the space after it.
    let longest = style.width().map_or(99, |width| width.min(100) - 1);
    let mut line = title.to_owned();
    let mut entries = entries.peekable();
    while let Some(entry) = entries.next() {
        if line.chars().count() + entry.chars().count() > longest && line.trim_end().ends_with(',') {
            writeln!(out, "{}", line.trim_end())?;
            line = "    ".to_owned();
        }
        line += &entry;
        if entries.peek().is_some() {
            line += ", ";
        }
    }
    writeln!(out, "{line}")
}

/// A positive number with about three significant digits.
struct Significant(f64);

impl Display for Significant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value >= 99.95 => write!(f, "{value:.0}"),
            value if value >= 9.995 => write!(f, "{value:.1}"),
            value => write!(f, "{value:.2}"),
        }
    }
}

#[cfg(test)]
mod tests;
