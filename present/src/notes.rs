//! Notes on packets and transactions, as lines of a text file: `frame 53: the WRITE begins` or
//! `transaction 13: slow`. Empty lines and lines that begin with `#` are ignored.

use core::fmt::Write as _;
use rdmascope_analysis::units::Plain;

/// The subject of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The packet in the record with this number.
    Frame(u64),
    /// The transaction with this number.
    Transaction(u64),
}

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its subject.
    pub on: Subject,
    /// Its text, one line; empty for a mark without a text.
    pub text: String,
}

/// The most notes of a file.
pub const MOST: usize = 4096;

/// The most bytes of a file.
pub const MOST_BYTES: u64 = 1 << 20;

/// Reads the lines of a file. The error names the line that is not valid.
pub fn parse(text: &str) -> Result<Vec<Note>, String> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let notes: Result<Vec<Note>, String> = lines.map(|(number, line)| note(number, line)).collect();
    let notes = notes?;
    if notes.len() > MOST { Err(format!("more than {MOST} notes")) } else { Ok(notes) }
}

fn note(number: usize, line: &str) -> Result<Note, String> {
    let expected = || format!("line {number}: expected `frame N: TEXT` or `transaction N: TEXT`");
    let (subject, text) = line.split_once(':').ok_or_else(expected)?;
    let (kind, of) = subject.trim().split_once(' ').ok_or_else(expected)?;
    let of = of.trim().parse().ok().filter(|number| *number > 0).ok_or_else(expected)?;
    let on = match kind {
        "frame" => Subject::Frame(of),
        "transaction" => Subject::Transaction(of),
        _ => return Err(expected()),
    };
    Ok(Note { on, text: text.trim().to_owned() })
}

/// The lines of a file with these notes on the capture with this name.
pub fn write<'a>(name: &str, notes: impl IntoIterator<Item = &'a Note>) -> String {
    let mut text =
        format!("# Notes on {}, for `rdmascope tui` and `rdmascope export pcapng --notes`\n", Plain(name));
    for Note { on, text: note } in notes {
        let (kind, number) = match on {
            Subject::Frame(number) => ("frame", number),
            Subject::Transaction(number) => ("transaction", number),
        };
        writeln!(text, "{kind} {number}: {}", Plain(note)).expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip() {
        let notes = vec![
            Note { on: Subject::Frame(53), text: "the WRITE: it begins".into() },
            Note { on: Subject::Transaction(13), text: String::new() },
        ];
        let text = write("a.pcap", &notes);
        assert!(
            text.starts_with("# Notes on a.pcap") && text.contains("\nframe 53: the WRITE: it begins\n"),
            "{text}"
        );
        assert_eq!(parse(&text).unwrap(), notes);
        assert_eq!(parse(" \n# frame 1: no\n").unwrap(), []);
    }

    #[test]
    fn invalid_lines_are_errors_with_their_number() {
        for wrong in ["frame 53", "frame: x", "frame 0: x", "frame x: y", "packet 1: x", "frame -1: x"] {
            assert!(
                parse(&format!("frame 1: x\n{wrong}\n")).unwrap_err().starts_with("line 2: expected"),
                "{wrong}"
            );
        }
        assert!(parse(&"frame 1: x\n".repeat(MOST + 1)).is_err());
    }
}
