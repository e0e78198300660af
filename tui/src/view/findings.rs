//! Findings, with the requirement of the rule and the evidence.

use super::{Pane, Selection, Target, Texts, colour_of, fitted, screen};
use crate::session::Found;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::findings::sign;
use rdmascope_analysis::policy::Allowance;
use rdmascope_analysis::units::Number;
use rdmascope_conformance::Finding;
use rdmascope_present::screen::{findings, wrapped};

/// Columns of a rule's name, in a list of this width.
const fn rule_width(width: u16) -> usize {
    if width < 100 { 24 } else { 30 }
}

pub(super) struct Findings;

impl Pane for Findings {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let mut words = format!("Findings: {}", Number(self.count(state) as u64));
        if state.session.further_findings > 0 {
            let further = Number(state.session.further_findings);
            words += &format!(" (and {further} more, not listed)");
        }
        if state.session.allowed > 0 {
            words += &format!(", {} of them allowed", Number(state.session.allowed));
        }
        super::title(state, frame, area, &words, !state.in_detail);
        let found = &state.session.findings;
        let (times, of_rule) = (state.time_column(area.width), rule_width(area.width));
        let headings =
            format!("  {} {:>8} {:>5} {:of_rule$} message", times.heading(), "frame", "conn", "rule");
        let width = usize::from(area.width).saturating_sub(19 + times.width() + of_rule);
        let line = |index: usize| {
            let one = &found[index];
            let finding = &one.finding;
            let time = times.cell(one.time, index.checked_sub(1).and_then(|before| found[before].time));
            let (id, style) = match finding.rule {
                Some(rule) if one.allowance.is_some() => (rule.id, super::dim()),
                Some(rule) => (rule.id, colour_of(state, rule.level, finding.verdict)),
                None => ("", Style::new()),
            };
            let connection = finding.connection.map_or(String::from("-"), |id| id.0.to_string());
            let frame = finding.frames.last().copied().unwrap_or(one.record);
            Line::from(vec![
                Span::styled(format!("{} ", sign(finding.verdict)), style),
                Span::raw(format!("{time} {frame:>8} {connection:>5} ")),
                Span::styled(fitted(state, id, of_rule, false), style),
                Span::raw(format!(" {}", fitted(state, &message(one), width, false))),
            ])
        };
        let why = "No rule is broken so far. Violations and warnings are checked.";
        super::list(state, frame, area, Some(headings), (found.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.session.findings.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let found = &state.session.findings;
        let rule = |index: usize| found[index].finding.rule.map_or("", |rule| rule.id);
        Texts::of(found.len(), move |index| format!("{} {}", rule(index), message(&found[index])))
    }

    fn detail(&self, state: &State, width: u16) -> (String, Text<'static>) {
        let title = "The finding and its rule".to_owned();
        let at = state.cursor().at;
        let Some(found) = state.session.findings.get(at) else { return (title, Text::default()) };
        let mut written = Vec::new();
        // Writing to memory cannot fail.
        let _ = findings::section(&[&found.finding], screen(state, width), &mut written);
        let mut text = super::text(&written);
        // Without the heading of the section.
        text.lines.drain(..2.min(text.lines.len()));
        if let Some(rule) = found.finding.rule {
            let room = usize::from(width).saturating_sub(4).max(20);
            for paragraph in [rule.sentence, rule.explanation] {
                text.lines.push(Line::default());
                text.lines
                    .extend(wrapped(paragraph, room).into_iter().map(|line| Line::raw(format!("  {line}"))));
            }
        }
        (title, text)
    }

    fn selection(&self, state: &State) -> Selection {
        let found = state.session.findings.get(state.cursor().at);
        let rule = found.and_then(|found| found.finding.rule);
        let rule =
            rule.map_or(String::new(), |rule| format!(" --format jsonl --where 'rule == {}'", rule.id));
        Selection {
            command: format!("rdmascope check {}{rule}", state.files),
            value: found.map(|found| found.finding.message.clone()),
            record: found.map(|found| found.record),
            target: found.map(|found| target(state, &found.finding)),
            ..Selection::default()
        }
    }
}

/// The transaction of a finding, or else its first frame.
fn target(state: &State, finding: &Finding) -> Target {
    let row = || state.session.rows.iter().find(|row| row.is_found(finding)).map(|row| row.number);
    match (finding.transaction.or_else(row), finding.frames.first()) {
        (Some(number), _) => Target::Transaction(number),
        (None, Some(frame)) => Target::Frame(*frame),
        (None, None) => Target::Unseen,
    }
}

/// The message of a finding, after the reason that allows it.
fn message(found: &Found) -> String {
    let message = &found.finding.message;
    match &found.allowance {
        None => message.clone(),
        Some(Allowance { reason: None }) => format!("allowed: {message}"),
        Some(Allowance { reason: Some(reason) }) => format!("allowed ({reason}): {message}"),
    }
}
