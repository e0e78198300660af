//! The cells of a row as one text, because there are many rows.

use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Setting, Subject, TextTable, Tint};
use rdmascope_present::text::Style;

/// Separates the cells. Data from the wire cannot contain it, because it is escaped there.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// The cells of a subject in a capture that starts at `start`, and the last colour among them.
pub(crate) fn joined<S: Subject>(table: &TextTable<S>, subject: S::Of<'_>, start: Time) -> (Box<str>, Tint) {
    let (mut cells, mut tint) = (String::new(), Tint::Plain);
    let setting = Setting { start, style: Style::default() };
    for (index, (cell, of_cell)) in table.cells(subject, setting).enumerate() {
        if index > 0 {
            cells.push(SEPARATOR);
        }
        cells.push_str(cell.trim());
        if of_cell != Tint::Plain {
            tint = of_cell;
        }
    }
    (cells.into(), tint)
}
