//! The ladder as text: Requester on the left, Responder on the right, time downwards and to scale.

use super::{Screen, findings, wrapped};
use crate::fold::{Folding, folded};
use crate::ladder::{Ladder, Rung, RungKind};
use core::fmt::{self, Display};
use rdmascope_analysis::capture_points::Pass;
use rdmascope_analysis::findings::ByFrame;
use rdmascope_analysis::names::PartName;
use rdmascope_analysis::replies::Pull;
use rdmascope_analysis::units::{Bytes, Counted, Duration};
use rdmascope_conformance::{Rule, Verdict};
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use std::io::{self, Write};

/// The number of blank lines in a ladder without compressed gaps.
const LINES: u64 = 24;
/// The most blank lines for one gap.
const MOST_FOR_A_GAP: u64 = 5;
/// Width of the time and gap columns.
const LEFT: usize = 20;
/// Least width of the column of frames and PSNs.
const RIGHT: usize = 24;

/// The characters of lines and arrows.
struct Strokes {
    rail: char,
    line: char,
    to_left: char,
    to_right: char,
    left_out: char,
    bar: char,
}

const UNICODE: Strokes =
    Strokes { rail: '│', line: '─', to_left: '◀', to_right: '▶', left_out: '⋮', bar: '█' };
const ASCII: Strokes = Strokes { rail: '|', line: '-', to_left: '<', to_right: '>', left_out: ':', bar: '#' };

/// Draws the ladder, with marks at packets that are evidence of `findings`.
pub fn ladder(
    ladder: &Ladder,
    transaction: &Transaction,
    findings: &ByFrame<'_>,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    pieces(ladder, transaction, findings, screen).iter().try_for_each(|piece| out.write_all(&piece.text))
}

/// Consecutive lines of one element of a ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the rung that they draw. `None` for the heading, gaps and the legend.
    pub rung: Option<usize>,
    /// The lines, each with its line end.
    pub text: Vec<u8>,
}

/// Draws the ladder as pieces, from top to bottom.
pub fn pieces(
    ladder: &Ladder,
    transaction: &Transaction,
    findings: &ByFrame<'_>,
    screen: Screen,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    draw(ladder, transaction, findings, screen, &mut pieces).expect("memory takes all");
    pieces
}

/// Adds a piece with the output of `write`, unless it is empty.
fn piece(
    pieces: &mut Vec<Piece>,
    rung: Option<usize>,
    write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let mut text = Vec::new();
    write(&mut text)?;
    if !text.is_empty() {
        pieces.push(Piece { rung, text });
    }
    Ok(())
}

fn draw(
    ladder: &Ladder,
    transaction: &Transaction,
    findings: &ByFrame<'_>,
    screen: Screen,
    to: &mut Vec<Piece>,
) -> io::Result<()> {
    // Sequence numbers of TCP are longer than PSNs.
    let right = ladder.rungs.iter().map(|rung| 1 + frames(rung).len().max(psns(rung).len()));
    let right = right.max().unwrap_or(0).max(RIGHT);
    let drawing = Drawing {
        strokes: if screen.unicode { &UNICODE } else { &ASCII },
        middle: screen.width.saturating_sub(LEFT + right + 2).max(16),
        unit: (ladder.end().since(ladder.start) / LINES).max(1),
        screen,
    };
    let style = screen.style;
    let title =
        format!("{:>8} {:>9}  Requester{:>width$}", "time", "gap", "Responder", width = drawing.middle - 7);
    piece(to, None, |out| writeln!(out, "{}", style.bold(title)))?;
    let mut before = ladder.start;
    let mut compressed = false;
    let mut marked = Vec::new();
    for (index, (rung, frames)) in ladder.rungs.iter().zip(ladder.marks()).enumerate() {
        let gap = rung.first.time.since(before);
        piece(to, None, |out| {
            compressed |= drawing.gap(gap, out)?;
            Ok(())
        })?;
        let since = rung.first.time.since(ladder.start);
        let marks = findings.rules(&frames);
        let passes = (ladder.passes.of(rung.last.frame), ladder.start);
        piece(to, Some(index), |out| drawing.rung(rung, (since, gap), transaction, passes, &marks, out))?;
        marked.extend(marks.into_iter().map(|(_, verdict)| verdict));
        before = rung.first.time;
    }
    piece(to, None, |out| {
        let unit = Duration(drawing.unit);
        write!(out, "{:LEFT$}one blank line is {unit}", "")?;
        if compressed {
            write!(out, "; {} marks longer gaps", drawing.strokes.left_out)?;
        }
        writeln!(out)?;
        for verdict in [Verdict::Certain, Verdict::Inconclusive] {
            if marked.contains(&verdict) {
                writeln!(out, "{:LEFT$}{}", "", findings::legend(verdict))?;
            }
        }
        if ladder.left_out > 0 {
            writeln!(out, "{:LEFT$}{} left out", "", Counted(ladder.left_out, "rung"))?;
        }
        Ok(())
    })
}

struct Drawing {
    strokes: &'static Strokes,
    /// Columns between the rails.
    middle: usize,
    /// Nanoseconds per blank line.
    unit: u64,
    screen: Screen,
}

impl Drawing {
    /// Draws a gap as blank lines. Returns whether it was compressed.
    fn gap(&self, gap: u64, out: &mut dyn Write) -> io::Result<bool> {
        let lines = gap / self.unit;
        let compressed = lines > MOST_FOR_A_GAP;
        if compressed {
            self.blank("", out)?;
            self.blank(&format!("{} {}", self.strokes.left_out, Duration(gap)), out)?;
            self.blank("", out)?;
        } else {
            (0..lines).try_for_each(|_| self.blank("", out))?;
        }
        Ok(compressed)
    }

    fn blank(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let rail = self.strokes.rail;
        writeln!(out, "{:LEFT$}{rail}{text:^1$}{rail}", "", self.middle)
    }

    fn rung(
        &self,
        rung: &Rung,
        (since, gap): (u64, u64),
        transaction: &Transaction,
        (passes, start): (&[Pass], Time),
        marks: &[(&'static Rule, Verdict)],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Drawing { strokes, middle, screen, .. } = self;
        let text = text(rung, transaction);
        let width = middle.saturating_sub(2).max(8);
        let lines = folded(&text, width, Some(0));
        let gap = if since == 0 { String::new() } else { format!("+{}", Duration(gap)) };
        let mut left = format!("{:>8} {gap:>9}  ", Duration(since).to_string());
        let mut right = frames(rung);
        for line in lines.lines() {
            let text = match rung.kind {
                RungKind::Nak(_) | RungKind::RnrNak(_) => screen.style.red(line),
                RungKind::Again(_) => screen.style.yellow(line),
                RungKind::Step(_) | RungKind::Acknowledgement => screen.style.plain(line),
            };
            self.beside(rung, (&left, &right), (&text, line.chars().count()), out)?;
            left.clear();
            right.clear();
        }
        for pass in passes {
            let at = format!(
                "last packet at {} {:>9}",
                pass.place + 1,
                Duration(pass.at.since(start)).to_string()
            );
            self.beside(rung, ("", ""), (&at, at.chars().count()), out)?;
        }
        for (rule, verdict) in marks {
            let mark = findings::mark(rule, *verdict);
            for line in wrapped(&mark, width) {
                let text = findings::painted(rule, *verdict, line, screen.style);
                self.beside(rung, ("", ""), (&text, line.chars().count()), out)?;
            }
        }
        let rail = strokes.rail;
        let line: String = core::iter::repeat_n(strokes.line, middle - 1).collect();
        match rung.from_requester {
            true => write!(out, "{:LEFT$}{rail}{line}{}{rail}", "", strokes.to_right)?,
            false => write!(out, "{:LEFT$}{rail}{}{line}{rail}", "", strokes.to_left)?,
        }
        writeln!(out, " {}", psns(rung))
    }

    /// Draws a text between the rails, next to that of the rung's sender, and with a text on either
    /// side. `length` is the number of characters of `text`.
    fn beside(
        &self,
        rung: &Rung,
        (left, right): (&str, &str),
        (text, length): (&dyn Display, usize),
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rail = self.strokes.rail;
        let padding = self.middle.saturating_sub(length + 2);
        let (before, after) = if rung.from_requester { (0, padding) } else { (padding, 0) };
        let space = if right.is_empty() { "" } else { " " };
        writeln!(out, "{left:LEFT$}{rail} {:before$}{text}{:after$} {rail}{space}{right}", "", "")
    }
}

/// The label of a rung: its operation and the data that it moved.
fn text(rung: &Rung, transaction: &Transaction) -> String {
    let mut text = rung.title(transaction).to_string();
    if let (RungKind::Step(kind) | RungKind::Again(kind), Some(piece)) = (rung.kind, rung.piece) {
        text.push_str(&format!(", {}", Bytes(piece.length)));
        if !matches!(kind, StepKind::Call | StepKind::Reply | StepKind::Done) {
            text.push_str(&format!(" of {} at {}", PartName(piece.part), piece.offset));
        }
    }
    let is_read_request =
        matches!(rung.kind, RungKind::Step(StepKind::ReadRequest) | RungKind::Again(StepKind::ReadRequest));
    if rung.extent > 1 && !is_read_request {
        // Positions of TCP count bytes, not packets.
        if !rung.position.counts_bytes() {
            text.push_str(&format!(", {}", Counted(rung.extent.into(), "packet")));
        }
        let lasted = rung.last.time.since(rung.first.time);
        if lasted > 0 {
            text.push_str(&format!(" in {}", Duration(lasted)));
        }
    }
    text
}

fn frames(rung: &Rung) -> String {
    let (first, last) = (rung.first.frame, rung.last.frame);
    if first == last { format!("frame {first}") } else { format!("frames {first}-{last}") }
}

fn psns(rung: &Rung) -> String {
    let name = rung.position_name();
    match rung.extent {
        0 | 1 => format!("{name} {}", rung.position),
        _ => format!("{name} {}-{}", rung.position, rung.last_position()),
    }
}

/// Writes the time of each phase.
pub fn phases(transaction: &Transaction, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let mut folding = Folding::new(&mut *out, screen.style);
    write_phases(transaction, screen, &mut folding)?;
    folding.flush()
}

/// Writes the time of each phase without folding long lines.
fn write_phases(transaction: &Transaction, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let (Some(phases), Some(latency)) = (Phases::of(transaction), transaction.latency()) else {
        return Ok(());
    };
    let bar = if screen.unicode { UNICODE.bar } else { ASCII.bar };
    let title = format!("Latency by phase: {} from call to reply", Duration(latency));
    super::heading(&title, screen, out)?;
    for (index, (name, time)) in Phases::NAMES.into_iter().zip(phases.times).enumerate() {
        // The first phase, the packets of the call's Send, precedes the latency.
        if index == 0 {
            writeln!(
                out,
                "  {name:14}{:>8}  not in the latency: the packets of the call's Send",
                Duration(time).to_string()
            )?;
            continue;
        }
        if index == 1 && !phases.acknowledged {
            writeln!(
                out,
                "  {name:14}{:>8}  not in the capture: included in \"sending\" and \"server before\"",
                "-"
            )?;
            continue;
        }
        let share = Share { time, latency };
        let length = usize::try_from(share.of(40)).unwrap_or(40).min(40);
        let bar: String = core::iter::repeat_n(bar, length).collect();
        let note = match index {
            1 if phases.estimated => "  estimated: the shortest round trip of the connection",
            _ => "",
        };
        let line = format!("  {name:14}{:>8}  {share}  {bar}{note}", Duration(time).to_string());
        writeln!(out, "{}", line.trim_end())?;
    }
    write_pull(transaction, out)
}

/// Writes the times of the pull and of RDMA_DONE, which follow the latency.
fn write_pull(transaction: &Transaction, out: &mut dyn Write) -> io::Result<()> {
    let Some(Pull { pulled, done }) = Pull::of(transaction) else { return Ok(()) };
    let mut row = |name: &str, time: u64, text: &str| {
        writeln!(out, "  {name:14}{:>8}  {text}", Duration(time).to_string())
    };
    row("pull", pulled, "after the latency: RDMA Reads of the reply")?;
    done.map_or(Ok(()), |done| row("done", done, "from the last of them to RDMA_DONE"))
}

struct Share {
    time: u64,
    latency: u64,
}

impl Share {
    fn of(&self, total: u128) -> u128 {
        u128::from(self.time) * total / u128::from(self.latency.max(1))
    }
}

impl Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>3} %", self.of(100))
    }
}
