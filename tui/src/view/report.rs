//! The report of `analyze`, and the comparison with another capture, as in `diff`.

use super::{Pane, Selection, Target, Texts};
use crate::session::Progress;
use crate::show::Show;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Text;

pub(super) struct Report;

impl Pane for Report {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let words = match &state.other {
            None => "Report".to_owned(),
            Some(other) if other.is_shown => format!("Compared with {}   h: report, a: all", other.name),
            Some(other) => format!("Report   l: comparison with {}", other.name),
        };
        super::title(state, frame, area, &words, !state.in_detail);
        super::scrolled(state, frame, area, text(state), state.cursor().top);
    }

    fn count(&self, state: &State) -> usize {
        text(state).lines.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        Texts::lines(&text(state).lines)
    }

    fn selection(&self, state: &State) -> Selection {
        let files = &state.files;
        let command = match state.other.as_ref().filter(|other| other.is_shown) {
            Some(other) if other.has_all => format!("rdmascope diff {files} {} --all", other.name),
            Some(other) => format!("rdmascope diff {files} {}", other.name),
            None => format!("rdmascope analyze {files}"),
        };
        let show = if state.session.events.is_empty() { Show::Transactions } else { Show::Events };
        Selection { command, target: Some(Target::View(show)), ..Selection::default() }
    }
}

/// The comparison if it is selected, else the report.
fn text(state: &State) -> Text<'static> {
    let Some(other) = state.other.as_ref().filter(|other| other.is_shown) else { return report(state) };
    match &other.compared {
        None => Text::raw(format!("\n  Both captures are being read: this one, and {}.\n", other.name)),
        Some(Err(error)) => Text::raw(format!("\n  {error}\n")),
        Some(Ok(compared)) => {
            let screen = super::screen(state, state.size.0);
            super::text(&compared.text(other.has_all, screen.style))
        }
    }
}

/// The report. Until it is written, an overview of the keys.
fn report(state: &State) -> Text<'static> {
    let (width, report) = &state.session.report;
    if *width > 0 {
        return super::text(report);
    }
    let mut text = String::from("\n");
    match &state.session.progress {
        Progress::Live => text.push_str("  Live capture: the report is written at its end. Until then:\n"),
        Progress::Failed(error) => text.push_str(&format!("  {error}\n")),
        Progress::Reading(..) => text.push_str("  The capture is being read. Meanwhile:\n"),
        Progress::Ended => text.push_str("  The report is being written. Meanwhile:\n"),
        Progress::Nothing => text.push_str("  No capture is open.\n"),
    }
    text.push_str(
        "
    1  shows the state at a glance
    3  lists the transactions: s sorts by latency, & filters, Enter shows the packet exchange of
       one and where its time went
    2  lists the connections at the shown moment; 6 lists events
    7  lists violations of the specifications, with the evidence
    8  draws charts of latency and throughput
    Space plays the session, , and . step packet by packet, t goes to a time

    ?  shows all keys, w explains a word, q quits
",
    );
    Text::raw(text)
}
