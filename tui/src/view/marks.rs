//! Marks on packets and transactions, with their notes.

use super::{Pane, Selection, Target, Texts, fitted};
use crate::analysis::PacketSet;
use crate::marks::Mark;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rdmascope_analysis::units::{Counted, quoted};
use rdmascope_present::notes::Subject;

pub(super) struct Marks;

impl Pane for Marks {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let marks = &state.marks;
        let mut words = Counted(marks.list.len() as u64, "mark").to_string();
        match &marks.file {
            _ if marks.is_changed => words += ", not saved: W saves them",
            Some(file) => words += &format!(", in {}", file.display()),
            None => {}
        }
        super::title(state, frame, area, &words, !state.in_detail);
        let times = state.time_column(area.width);
        let headings = format!(" {:24} {} note", "on", times.heading());
        let room = usize::from(area.width).saturating_sub(28 + times.width());
        let line = |index: usize| {
            let mark = &marks.list[index];
            let before = index.checked_sub(1).and_then(|before| marks.list[before].time);
            let on = fitted(state, &on(mark), 24, false);
            let note = fitted(state, &mark.note.text, room, false);
            Line::raw(format!(" {on} {} {note}", times.cell(mark.time, before)))
        };
        let why = "No marks: m marks the selected packet or transaction and asks for a note on it.";
        super::list(state, frame, area, Some(headings), (marks.list.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.marks.list.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let list = &state.marks.list;
        Texts::of(list.len(), |index| format!("{} {}", on(&list[index]), list[index].note.text))
    }

    fn selection(&self, state: &State) -> Selection {
        let mark = state.marks.list.get(state.cursor().at);
        let notes = state.marks.file.as_ref().map(|file| quoted(&file.display().to_string()));
        let notes = notes.unwrap_or_else(|| "FILE.notes".to_owned());
        Selection {
            command: format!("rdmascope export pcapng {} --notes {notes} --output noted.pcapng", state.files),
            value: mark.map(|mark| mark.note.text.clone()),
            record: mark.and_then(|mark| mark.frame),
            packets: PacketSet::All,
            target: mark.map(|mark| match mark.note.on {
                Subject::Frame(number) => Target::Frame(number),
                Subject::Transaction(number) => Target::Transaction(number),
            }),
        }
    }
}

fn on(mark: &Mark) -> String {
    match (mark.note.on, mark.frame) {
        (Subject::Frame(number), _) => format!("frame {number}"),
        (Subject::Transaction(number), Some(frame)) => format!("transaction {number} (#{frame})"),
        (Subject::Transaction(number), None) => format!("transaction {number}"),
    }
}
