//! Marks on packets and transactions, with notes. They are saved as the file of
//! `export pcapng --notes`, and become comments of saved packets.

use rdmascope_dissector::record::Time;
use rdmascope_present::notes::{self, Note, Subject};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its subject, and the note.
    pub note: Note,
    /// The first packet of the subject, if it is known.
    pub frame: Option<u64>,
    /// The time of that packet, if it is known.
    pub time: Option<Time>,
}

/// The marks.
#[derive(Debug, Default)]
pub struct Marks {
    /// In the order of their packets.
    pub list: Vec<Mark>,
    /// The file that has notes on this capture, which may be written again.
    pub file: Option<PathBuf>,
    /// There are marks that are not saved.
    pub is_changed: bool,
}

impl Marks {
    /// The mark on a subject.
    pub fn of(&self, on: Subject) -> Option<&Mark> {
        self.list.iter().find(|mark| mark.note.on == on)
    }

    /// Marks a subject, or changes the note on it. An empty note on a marked subject removes the
    /// mark. Returns what was done, in words.
    pub fn set(&mut self, mark: Mark) -> &'static str {
        self.is_changed = true;
        let place = self.list.iter().position(|other| other.note.on == mark.note.on);
        match place {
            Some(place) if mark.note.text.is_empty() => {
                self.list.remove(place);
                "the mark is removed"
            }
            Some(place) => {
                self.list[place] = mark;
                "noted"
            }
            None if self.list.len() >= notes::MOST => "too many marks",
            None => {
                self.list.push(mark);
                self.list.sort_by_key(|mark| (mark.frame.unwrap_or(u64::MAX), mark.note.on));
                "marked"
            }
        }
    }

    /// The text of the file.
    pub fn text(&self, name: &str) -> String {
        notes::write(name, self.list.iter().map(|mark| &mark.note))
    }

    /// The comments of packets: the notes on each.
    pub fn comments(&self) -> Vec<(u64, String)> {
        let comment = |mark: &Mark| {
            let text = if mark.note.text.is_empty() { "marked" } else { &mark.note.text };
            Some((mark.frame?, text.to_owned()))
        };
        self.list.iter().filter_map(comment).collect()
    }
}

/// The path of the notes on a capture, in the capture's folder.
pub fn notes_path(capture: &Path) -> PathBuf {
    let mut name = capture.file_name().unwrap_or_default().to_owned();
    name.push(".notes");
    capture.with_file_name(name)
}

/// Reads the file, if it exists.
pub fn read(path: &Path) -> Result<Option<Vec<Note>>, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(notes::MOST_BYTES).read_to_string(&mut text).map_err(failed)?;
    notes::parse(&text).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}
