//! The report, as `analyze` writes it.

use crate::session::Progress;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Text;
use rdmascope_present::fold::folded;

/// The report; while it is not there yet, what this program can do.
pub(super) fn text(state: &State) -> Text<'static> {
    if !state.session.report.is_empty() {
        let width = usize::from(state.size.0).max(40);
        let report = String::from_utf8_lossy(&state.session.report);
        let folded: Vec<String> = report.lines().map(|line| folded(line, width, None)).collect();
        return super::text(folded.join("\n").as_bytes());
    }
    let mut text = String::from("\n");
    match &state.session.progress {
        Progress::Live => text.push_str("  The capture goes on: the report comes at its end. Until then:\n"),
        Progress::Failed(error) => text.push_str(&format!("  {error}\n")),
        Progress::Reading(..) | Progress::Ended => text.push_str("  The capture is being read. Meanwhile:\n"),
    }
    text.push_str(
        "
    3  lists the transactions: s sorts them by latency, / filters them, Enter shows how one was
       exchanged and where its time went
    2  shows the connections as they are at the moment; 6 what happened to them
    7  lists what breaks a rule of the specifications, with the evidence
    8  draws latencies and throughput
    Space plays the session, , and . step packet by packet, t goes to a time

    ?  shows all keys, w explains a word, q leaves
",
    );
    Text::raw(text)
}

/// Draws it.
pub(super) fn render(state: &State, frame: &mut Frame<'_>, area: Rect) {
    super::title(state, frame, area, "Report", true);
    super::scrolled(frame, area, text(state), state.cursor().top);
}
