//! Ladder diagrams: the exchange of a transaction between Requester and Responder, to scale in
//! time.

use super::Drawing;
use super::plot::{Units, drawing};
use crate::export::beginning;
use core::fmt::{self, Display};
use core::iter;
use maud::{Markup, html};
use rdmascope_analysis::charts::Reason;
use rdmascope_analysis::findings::{ByFrame, sign};
use rdmascope_analysis::names::{self, FailureName, Label, PartName, Protocol};
use rdmascope_analysis::report::Key;
use rdmascope_analysis::units::{Bytes, Counted, Duration};
use rdmascope_conformance::{Level, Rule, Verdict};
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Part, Transaction};
use rdmascope_present::axis::Axis;
use rdmascope_present::ladder::{Ladder, Piece, Rung, RungKind};
use rdmascope_present::tables::transactions::Ending;
use rdmascope_present::text::Maybe;

/// Horizontal positions of the sides and of the texts.
const REQUESTER: f64 = 64.0;
const RESPONDER: f64 = 192.0;
const TEXTS: f64 = 218.0;
const WIDTH: f64 = 640.0;
/// Vertical position of the start of time.
const TOP: f64 = 30.0;
/// Minimum height of the time range; `LOW` for a ladder with only a few packets.
const HEIGHT: f64 = 190.0;
const LOW: f64 = 90.0;
/// Vertical distance between texts.
const LINE: f64 = 15.0;
/// Maximum number of arrows per ladder, at the start and at the end.
const MOST_ARROWS: [usize; 2] = [300, 100];
/// Maximum number of texts per ladder, at the start and at the end.
const MOST_TEXTS: [usize; 2] = [24, 12];

/// A transaction drawn among the broken ones.
pub(super) fn broken(
    transaction: &Transaction,
    reason: Reason,
    ladder: &Ladder,
    drawing: &Drawing<'_>,
) -> Markup {
    html! {
        figure class="ladder" id={ "transaction-" (transaction.number) } {
            figcaption { (caption(transaction, Some(reason), &drawing.remarks(transaction))) }
            (draw(transaction, ladder, &drawing.findings))
            @if let Some(fields) = drawing.fields(transaction) { (fields) }
        }
    }
}

/// A transaction drawn among the slowest. A broken one has a link to its drawing instead.
pub(super) fn slow(
    transaction: &Transaction,
    is_broken: bool,
    ladder: &Ladder,
    drawing: &Drawing<'_>,
) -> Markup {
    let id = (!is_broken).then(|| format!("transaction-{}", transaction.number));
    html! {
        figure class="ladder" id=[id] {
            figcaption { (caption(transaction, None, &drawing.remarks(transaction))) }
            @if is_broken {
                p { a href={ "#transaction-" (transaction.number) } { "Drawn among the broken transactions" } }
            } @else {
                (draw(transaction, ladder, &drawing.findings))
                @if let Some(fields) = drawing.fields(transaction) { (fields) }
            }
        }
    }
}

/// The reason why a transaction is drawn.
struct ReasonText<'a>(Reason, &'a Transaction);

impl fmt::Display for ReasonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::NoReply => f.write_str("no reply"),
            Reason::Failed(failure) => FailureName(failure, Key::of(self.1).protocol).fmt(f),
            Reason::Malformed => f.write_str("malformed"),
            Reason::Retransmitted => f.write_str("packets sent again"),
            Reason::MissingBytes => f.write_str("bytes not moved, or missing from the capture"),
        }
    }
}

/// The caption of a transaction.
fn caption(transaction: &Transaction, reason: Option<Reason>, remarks: &str) -> Markup {
    // A COMPOUND has any number of operations.
    const LONGEST_REMARKS: usize = 600;
    let messages = transaction.messages();
    html! {
        "#" (transaction.number) " " (Maybe(Protocol::of(transaction))) " " (Label::of(transaction))
        @if let Some(latency) = transaction.latency() { ", " (Duration(latency)) }
        @if let Some(reason) = reason { ", " span class="bad" { (ReasonText(reason, transaction)) } }
        span class="note" {
            "connection " (transaction.connection.0) ", " (names::direction(transaction.direction))
            ", XID " (transaction.xid)
            @for (message, before) in messages.zip([", frames ", " to "]) { (before) (message.first.frame) }
            ", status " (Ending(transaction))
        }
        span class="note" { (beginning(remarks, LONGEST_REMARKS)) }
    }
}

/// The packets of a ladder as arrows between the sides, with their texts.
fn draw(transaction: &Transaction, ladder: &Ladder, findings: &ByFrame<'_>) -> Markup {
    let rungs = &ladder.rungs;
    if rungs.is_empty() {
        return html! { p { "The capture has none of its packets." } };
    }
    let marks: Vec<Marks> = ladder.marks().iter().map(|frames| findings.rules(frames)).collect();
    let length = ladder.end().since(ladder.start);
    let texts = Ends::of(rungs.len(), MOST_TEXTS);
    let arrow_texts: Vec<ArrowText<'_>> =
        texts.indices().map(|index| ArrowText::of(transaction, &rungs[index], &marks[index])).collect();
    let least = if rungs.len() <= 4 { LOW } else { HEIGHT };
    let height = least.max(LINE * arrow_texts.iter().map(ArrowText::lines).sum::<usize>() as f64);
    let axis = Axis::of_time(length as f64);
    let y = |time: Time| TOP + axis.place(time.since(ladder.start) as f64) * height;
    let arrows = Ends::of(rungs.len(), MOST_ARROWS);
    let wanted = arrow_texts.iter().flat_map(|text| iter::repeat_n(y(text.rung.first.time), text.lines()));
    let lines = spread(wanted, TOP, TOP + height);
    let first_lines = arrow_texts.iter().scan(0, |line, text| {
        let place = lines[*line];
        *line += text.lines();
        Some(place)
    });
    let bottom = TOP + height;
    let content = html! {
        g class="axis" {
            @for (x, name) in [(REQUESTER, "Requester"), (RESPONDER, "Responder")] {
                text class="side" x=(Units(x)) y="12" text-anchor="middle" { (name) }
                line class="life" x1=(Units(x)) x2=(Units(x)) y1="18" y2=(Units(bottom + 10.0)) {}
            }
            @for mark in &axis.marks {
                @let y = TOP + axis.place(mark.value) * height;
                line x1=(Units(REQUESTER - 14.0)) x2=(Units(REQUESTER)) y1=(Units(y)) y2=(Units(y)) {}
                text x=(Units(REQUESTER - 18.0)) y=(Units(y + 4.0)) text-anchor="end" { (mark.label) }
            }
        }
        @for index in arrows.indices() {
            (arrow(transaction, &rungs[index], &marks[index], ladder.start, &y))
        }
        @for (text, place) in arrow_texts.iter().zip(first_lines) {
            @let rung = text.rung;
            path class="lead" d={ "M" (Units(RESPONDER + 3.0)) " " (Units(y(rung.first.time))) "L" (Units(TEXTS - 4.0)) " " (Units(place)) } {}
            text class=(Look::of(rung).text) x=(Units(TEXTS)) y=(Units(place + 4.0)) {
                tspan class="time" { "+" (Duration(rung.first.time.since(ladder.start))) }
                " " (if rung.from_requester { "\u{2192}" } else { "\u{2190}" }) " "
                (text.words)
                @for (rule, verdict) in text.marks_of_line(0) { (mark(rule, *verdict)) }
                @for line in 1..text.lines() {
                    tspan x=(Units(TEXTS)) dy=(Units(LINE)) {
                        @for (rule, verdict) in text.marks_of_line(line) { (mark(rule, *verdict)) }
                    }
                }
            }
        }
        @if texts.left_out() > 0 {
            text class="what" x=(Units(TEXTS)) y=(Units(bottom + 22.0)) { (texts.left_out()) " in between have no text" }
        }
    };
    let left_out = arrows.left_out() as u64 + ladder.left_out;
    let foot = if texts.left_out() > 0 { 28.0 } else { 12.0 };
    html! {
        (drawing((WIDTH, bottom + foot), &format!("The exchange of transaction {}", transaction.number), content))
        @if left_out > 0 { p class="note" { (Counted(left_out, "further step")) " not drawn" } }
        (evidence(ladder, findings))
    }
}

/// The rules of findings, with their verdicts.
type Marks = Vec<(&'static Rule, Verdict)>;

/// The text next to an arrow: the packets and the rules of their findings, on one or more lines.
struct ArrowText<'a> {
    rung: &'a Rung,
    words: String,
    marks: &'a [(&'static Rule, Verdict)],
    /// The index after the last mark of each line.
    ends: Vec<usize>,
}

impl<'a> ArrowText<'a> {
    fn of(
        transaction: &'a Transaction,
        rung: &'a Rung,
        marks: &'a [(&'static Rule, Verdict)],
    ) -> ArrowText<'a> {
        // Room in small letters between TEXTS and WIDTH, in the widest common browser font. Time
        // and arrow precede the words.
        const ROOM: usize = 57;
        const TIME: usize = 10;
        let width =
            |text: &str| text.chars().count() + text.chars().filter(char::is_ascii_uppercase).count() / 4;
        let words = Words(transaction, rung).to_string();
        let mut ends = vec![0];
        let mut taken = TIME + width(&words);
        for (index, (rule, _)) in marks.iter().enumerate() {
            let mark = 3 + width(rule.id);
            taken += mark;
            if taken > ROOM {
                ends.push(index);
                taken = mark;
            }
            *ends.last_mut().expect("there is the first line") = index + 1;
        }
        ArrowText { rung, words, marks, ends }
    }

    fn lines(&self) -> usize {
        self.ends.len()
    }

    fn marks_of_line(&self, line: usize) -> &[(&'static Rule, Verdict)] {
        let from = if line == 0 { 0 } else { self.ends[line - 1] };
        &self.marks[from..self.ends[line]]
    }
}

/// A rule after a text.
fn mark(rule: &Rule, verdict: Verdict) -> Markup {
    html! { " " tspan class=(class(rule, verdict)) { (sign(verdict)) " " (rule.id) } }
}

/// The findings that packets of a ladder are evidence of, including packets without an arrow or
/// text.
fn evidence(ladder: &Ladder, findings: &ByFrame<'_>) -> Markup {
    const MOST_FRAMES: usize = 12;
    let mut frames: Vec<u64> = ladder.marked().collect();
    frames.sort_unstable();
    frames.dedup();
    let of = |rule: &Rule, verdict| {
        let names = |frame: &&u64| {
            let mut findings = findings.of(**frame).iter();
            findings.any(|finding| {
                finding.rule.is_some_and(|own| own.id == rule.id) && finding.verdict == verdict
            })
        };
        let shown: Vec<String> = frames.iter().filter(names).map(u64::to_string).collect();
        match shown.len() {
            ..=MOST_FRAMES => shown.join(", "),
            _ => format!("{}, \u{2026}", shown[..MOST_FRAMES].join(", ")),
        }
    };
    html! {
        @for (rule, verdict) in findings.rules(&frames) {
            p class="note" {
                span class=(class(rule, verdict)) { (sign(verdict)) " " (rule.id) }
                ", frames " (of(rule, verdict)) ": " a href="#findings" { "findings" }
            }
        }
    }
}

/// The CSS class of a finding.
pub(super) fn class(rule: &Rule, verdict: Verdict) -> &'static str {
    match (verdict, rule.level) {
        (Verdict::Certain, Level::Violation) => "bad",
        (Verdict::Certain, Level::Warning) => "doubt",
        (Verdict::Certain, Level::Advice) | (Verdict::Inconclusive, _) => "note",
    }
}

/// Packets of one sender: a line at the time of the first, and a band up to the time of the last.
fn arrow(
    transaction: &Transaction,
    rung: &Rung,
    marks: &[(&'static Rule, Verdict)],
    start: Time,
    y: &impl Fn(Time) -> f64,
) -> Markup {
    let (from, to) = if rung.from_requester { (REQUESTER, RESPONDER) } else { (RESPONDER, REQUESTER) };
    let (first, last) = (y(rung.first.time), y(rung.last.time));
    let look = Look::of(rung);
    // The arrow head points at the receiving side.
    let back = if to > from { -7.0 } else { 7.0 };
    html! {
        g class=(look.line) {
            title {
                (Words(transaction, rung)) "\n"
                "frames " (rung.first.frame) " to " (rung.last.frame) ", " (rung.position_name()) " " (rung.position)
                @if rung.extent > 1 { " to " (rung.last_position()) }
                "\n+" (Duration(rung.first.time.since(start))) " to +" (Duration(rung.last.time.since(start)))
                @for (rule, verdict) in marks { "\n" (sign(*verdict)) " " (rule.id) }
            }
            @if last - first >= 0.5 {
                rect class="band" x=(Units(REQUESTER)) width=(Units(RESPONDER - REQUESTER)) y=(Units(first)) height=(Units(last - first)) {}
            }
            path class="shaft" d={ "M" (Units(from)) " " (Units(first)) "H" (Units(to)) } {}
            path class="head" d={ "M" (Units(to)) " " (Units(first)) "l" (Units(back)) " -3.5v7z" } {}
        }
    }
}

/// The CSS classes of an arrow and its text.
struct Look {
    line: &'static str,
    text: &'static str,
}

impl Look {
    fn of(rung: &Rung) -> Look {
        let line = match rung.kind {
            RungKind::Step(StepKind::Call | StepKind::Reply | StepKind::Done) => "send",
            RungKind::Step(StepKind::ReadRequest | StepKind::ReadResponse) => "read",
            RungKind::Step(StepKind::Write) => "write",
            RungKind::Again(_) => "again",
            RungKind::Acknowledgement => "ack",
            RungKind::Nak(_) | RungKind::RnrNak(_) => "nak",
        };
        let text = match rung.kind {
            RungKind::Again(_) | RungKind::Nak(_) | RungKind::RnrNak(_) => "bad",
            RungKind::Acknowledgement => "what",
            RungKind::Step(_) => "",
        };
        Look { line, text }
    }
}

/// The packets and the data that they moved.
struct Words<'a>(&'a Transaction, &'a Rung);

impl Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(transaction, rung) = *self;
        write!(f, "{}", rung.title(transaction))?;
        // A READ request is one packet, but occupies the PSNs of its responses.
        let is_read_request = matches!(
            rung.kind,
            RungKind::Step(StepKind::ReadRequest) | RungKind::Again(StepKind::ReadRequest)
        );
        // TCP positions count bytes, not packets.
        if rung.extent > 1 && !is_read_request && !rung.position.counts_bytes() {
            write!(f, " \u{d7}{}", rung.extent)?;
        }
        if let Some(Piece { part, length, .. }) = rung.piece {
            write!(f, ", {}", Bytes(length))?;
            if part != Part::Send {
                write!(f, " of {}", PartName(part))?;
            }
        }
        Ok(())
    }
}

/// The first and the last items of a list that has no room for all.
#[derive(Clone, Copy, Debug)]
struct Ends {
    count: usize,
    first: usize,
    last: usize,
}

impl Ends {
    fn of(count: usize, [first, last]: [usize; 2]) -> Ends {
        match count <= first + last {
            true => Ends { count, first: count, last: 0 },
            false => Ends { count, first, last },
        }
    }

    fn shown(self) -> usize {
        self.first + self.last
    }

    fn left_out(self) -> usize {
        self.count - self.shown()
    }

    fn indices(self) -> impl Iterator<Item = usize> {
        (0..self.first).chain(self.count - self.last..self.count)
    }
}

/// Positions for texts, each as close as possible to its wanted position without overlap.
fn spread(wanted: impl Iterator<Item = f64>, top: f64, bottom: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::new();
    for place in wanted {
        let free = places.last().map_or(top, |last| last + LINE);
        places.push(place.max(free));
    }
    // Texts beyond the bottom push the earlier ones up.
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LINE;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_overlap() {
        for wanted in [&[30.0, 30.0, 31.0, 200.0, 220.0, 220.0, 220.0][..], &[220.0; 12], &[30.0; 12]] {
            let positions = spread(wanted.iter().copied(), TOP, TOP + HEIGHT);
            assert!(positions.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 1e-9), "{positions:?}");
            assert!(positions.iter().all(|y| (TOP..=TOP + HEIGHT).contains(y)), "{positions:?}");
        }
    }

    #[test]
    fn long_lists_show_first_and_last_rows() {
        let ends = Ends::of(10, [3, 2]);
        assert_eq!(ends.indices().collect::<Vec<_>>(), [0, 1, 2, 8, 9]);
        assert_eq!((ends.shown(), ends.left_out()), (5, 5));
        assert_eq!(Ends::of(5, [3, 2]).indices().count(), 5);
    }
}
