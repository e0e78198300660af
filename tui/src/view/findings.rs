//! Findings, with what the rule requires and the evidence.

use super::{colour_of, fitted, screen};
use crate::layout::Areas;
use crate::session::Found;
use crate::state::State;
use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::findings::sign;
use rdmascope_analysis::policy::Allowance;
use rdmascope_analysis::units::Number;
use rdmascope_present::screen::{findings, wrapped};

/// Columns of a rule's name.
const RULE: usize = 30;

/// Draws the list, and the one that is chosen with its rule.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let found = &state.session.findings;
    let mut words = format!("Findings: {}", Number(found.len() as u64));
    if state.session.further_findings > 0 {
        words +=
            &format!(" (and {} further ones that are not listed)", Number(state.session.further_findings));
    }
    if state.session.allowed > 0 {
        words += &format!(", {} of them allowed", Number(state.session.allowed));
    }
    super::title(state, frame, areas.main, &words, !state.in_detail);
    let headings = format!("  {:>8} {:>5} {:RULE$} what was seen", "frame", "conn", "rule");
    let width = usize::from(areas.main.width).saturating_sub(18 + RULE);
    let line = |index: usize| {
        let one = &found[index];
        let finding = &one.finding;
        let (id, style) = match finding.rule {
            Some(rule) if one.allowance.is_some() => (rule.id, super::dim()),
            Some(rule) => (rule.id, colour_of(state, rule.level, finding.verdict)),
            None => ("", Style::new()),
        };
        let connection = finding.connection.map_or(String::from("-"), |id| id.0.to_string());
        let frame = finding.frames.last().copied().unwrap_or(one.record);
        Line::from(vec![
            Span::styled(format!("{} ", sign(finding.verdict)), style),
            Span::raw(format!("{frame:>8} {connection:>5} ")),
            Span::styled(fitted(state, id, RULE, false), style),
            Span::raw(format!(" {}", fitted(state, &message(one), width, false))),
        ])
    };
    super::list(frame, areas.main, Some(headings), (state.cursor(), found.len()), !state.in_detail, line);
    if found.is_empty() {
        super::nothing(
            frame,
            areas.main,
            "No rule is broken, as far as was read: violations and warnings are judged.",
        );
    }
    if let Some(area) = areas.detail {
        super::title(state, frame, area, "The finding and its rule", state.in_detail);
        super::scrolled(frame, area, detail(state, area.width), state.detail().top);
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

/// The finding that is chosen, and its rule.
pub(super) fn detail(state: &State, width: u16) -> Text<'static> {
    let Some(found) = state.session.findings.get(state.cursor().at) else { return Text::default() };
    let mut written = Vec::new();
    // Memory takes all.
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
    text
}
