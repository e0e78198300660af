//! Marks on packets and transactions, and their notes.

use super::{Effect, begin_prompt};
use crate::marks::Mark;
use crate::show::Show;
use crate::state::{BytesOf, Purpose, State};
use rdmascope_present::notes::{Note, Subject};
use std::path::PathBuf;

/// The packet or the transaction that is selected.
pub(super) fn subject(state: &State) -> Option<Subject> {
    let selection = || state.pane().selection(state).record.map(Subject::Frame);
    let chosen = || state.chosen.map(Subject::Transaction);
    match state.show {
        Show::Packets => state.packets.number(state.cursor().at).map(Subject::Frame),
        Show::Bytes if state.bytes_of == BytesOf::Frame => {
            state.frame.as_ref().map(|frame| Subject::Frame(frame.number))
        }
        Show::Transactions => state.row().map(|row| Subject::Transaction(row.number)),
        Show::Exchange | Show::Bytes => chosen(),
        Show::Events | Show::Findings => selection(),
        Show::State => {
            let lifetime = state.moment.state.get(state.cursor().at);
            lifetime.map(|lifetime| Subject::Transaction(lifetime.first.transaction))
        }
        Show::Marks => state.marks.list.get(state.cursor().at).map(|mark| mark.note.on),
        _ => None,
    }
}

/// Asks for the note on the selected subject.
pub(super) fn prompt_for_note(state: &mut State) {
    match subject(state) {
        Some(on) => {
            let text = state.marks.of(on).map(|mark| mark.note.text.clone()).unwrap_or_default();
            begin_prompt(state, Purpose::Note(on), &text);
        }
        None => state.notice = Some("no packet or transaction is selected here".to_owned()),
    }
}

/// Marks a subject with a note.
pub(super) fn set(state: &mut State, on: Subject, text: &str) {
    let mark = found(state, Note { on, text: text.to_owned() });
    state.notice = Some(state.marks.set(mark).to_owned());
}

/// A mark, with the packet and the time of its subject as far as they are known.
pub(super) fn found(state: &State, note: Note) -> Mark {
    let (frame, time) = match note.on {
        Subject::Frame(number) => {
            let of_row = state.packets.row(state.packets.index(number)).filter(|row| row.number == number);
            let of_frame =
                state.frame.as_ref().filter(|frame| frame.number == number).map(|frame| frame.time);
            (Some(number), of_row.map(|row| row.time).or(of_frame))
        }
        Subject::Transaction(number) => {
            let row = state.session.place(number).and_then(|place| state.session.rows.get(place));
            (row.map(|row| row.first), row.map(|row| row.time))
        }
    };
    Mark { note, frame, time }
}

/// Completes marks whose transactions became known.
pub(super) fn complete(state: &mut State) {
    if state.marks.list.iter().all(|mark| mark.frame.is_some()) {
        return;
    }
    let list = core::mem::take(&mut state.marks.list);
    let mut list: Vec<Mark> = list
        .into_iter()
        .map(|mark| if mark.frame.is_some() { mark } else { found(state, mark.note) })
        .collect();
    list.sort_by_key(|mark| (mark.frame.unwrap_or(u64::MAX), mark.note.on));
    state.marks.list = list;
}

/// Saves the notes.
pub(super) fn save(state: &mut State, path: PathBuf, effects: &mut Vec<Effect>) {
    let may_replace = state.marks.file.as_ref() == Some(&path);
    let text = state.marks.text(&state.session.title);
    effects.push(Effect::Notes(path, text, may_replace));
}

/// Takes the result of saving.
pub(super) fn saved(state: &mut State, written: Result<PathBuf, String>) {
    state.notice = Some(match written {
        Ok(path) => {
            let words = format!("{}: notes written", path.display());
            state.marks.is_changed = false;
            state.marks.file = Some(path);
            words
        }
        Err(error) => error,
    });
}
