//! Selected fields as aligned columns, wrapped on narrow terminals.

use rdmascope_analysis::units::Plain;
use rdmascope_present::column::{Cells, Flat, Subject};
use rdmascope_present::fold::columns;
use rdmascope_present::text::Style;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Indentation of continuation lines, as in other tables.
const BELOW: usize = 8;

/// Writes such lines.
pub(super) struct Aligned {
    /// For each column, its minimum width and whether it is right-aligned.
    columns: Vec<(usize, bool)>,
    style: Style,
    line: String,
    cell: String,
}

impl Aligned {
    /// Creates a writer for these cells.
    pub(super) fn new<S: Subject>(cells: &Cells<S>, style: Style) -> Aligned {
        let width = |column: &Flat| {
            let (width, is_right) = cells.width(column);
            (width.max(heading(column).len()), is_right)
        };
        let columns = cells.columns().iter().map(width).collect();
        Aligned { columns, style, line: String::new(), cell: String::new() }
    }

    /// Writes the names of the columns.
    pub(super) fn write_heading(&mut self, columns: &[Flat], out: &mut impl Write) -> io::Result<()> {
        self.lay_out(columns.iter().map(heading));
        self.line.lines().try_for_each(|line| writeln!(out, "{}", self.style.bold(line.trim_end())))
    }

    /// Writes a line of these cells.
    pub(super) fn write<'a>(
        &mut self,
        cells: impl Iterator<Item = &'a str>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.lay_out(cells);
        self.line.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end_matches(' ')))
    }

    fn lay_out<'a>(&mut self, cells: impl Iterator<Item = &'a str>) {
        let Aligned { columns: widths, style, line, cell } = self;
        let limit = style.width().unwrap_or(usize::MAX);
        let mut place = 0;
        line.clear();
        for (index, (text, (least, is_right))) in cells.zip(widths).enumerate() {
            cell.clear();
            // Writing to a string does not fail.
            let _ = write!(cell, "{}", Plain(text));
            let taken = columns(cell);
            let width = taken.max(*least);
            if index > 0 && place + 1 + width > limit {
                let _ = write!(line, "\n{:BELOW$}", "");
                place = BELOW;
            } else if index > 0 {
                line.push(' ');
                place += 1;
            }
            let padding = width - taken;
            let _ = match is_right {
                true => write!(line, "{:padding$}{cell}", ""),
                false => write!(line, "{cell}{:padding$}", ""),
            };
            place += width;
        }
    }
}

/// The heading of a column. Each value includes its unit.
fn heading(column: &Flat) -> &str {
    column.name.strip_suffix("_ns").unwrap_or(&column.name)
}
