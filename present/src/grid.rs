//! A table with groups of columns. On a narrow terminal, the groups are placed one below the other,
//! each with the names of its rows.

use crate::text::{Left, Style};
use std::io::{self, Write};

/// Columns under a common heading.
#[derive(Debug)]
pub struct Group {
    /// The heading; may be empty.
    pub heading: &'static str,
    /// Spaces before the group.
    pub gap: usize,
    /// The heading of each column, and its preferred width.
    pub columns: Vec<(&'static str, usize)>,
}

impl Group {
    /// A group of four columns for times, each of this preferred width.
    pub(crate) fn of_times(heading: &'static str, width: usize) -> Group {
        let columns = ["min", "median", "p99", "max"].map(|name| (name, width));
        Group { heading, gap: 1, columns: columns.to_vec() }
    }
}

/// A line of the table.
#[derive(Debug)]
pub enum Row {
    /// A title above the following rows.
    Title(String),
    /// The name of the row, and its cells. The flag marks cells in red, for failures.
    Cells(String, Vec<(String, bool)>),
}

/// A table.
#[derive(Debug)]
pub struct Grid {
    /// The heading of the row names.
    pub title: &'static str,
    /// The preferred width of row names, including indentation.
    pub names: usize,
    /// The groups of columns.
    pub groups: Vec<Group>,
    /// The lines.
    pub rows: Vec<Row>,
}

/// A column in the output.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// The index of its cells.
    cell: usize,
    heading: &'static str,
    /// Spaces before the column.
    gap: usize,
    width: usize,
    /// The heading of its group, at the first column of the group on a line.
    group: &'static str,
}

/// Indentation of titles and of row names.
const TITLE: usize = 2;
const NAME: usize = 4;

impl Grid {
    /// Writes the table.
    pub fn write(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let wide: Vec<Shown> = self.shown(|_, wide| wide).concat();
        match style.width() {
            Some(width) if self.names + total(&wide) > width => {
                let names = self.names_width();
                let blocks = self.blocks(width.saturating_sub(names));
                blocks.iter().try_for_each(|block| self.write_block(block, names, style, out))
            }
            _ => self.write_block(&wide, self.names, style, out),
        }
    }

    /// The columns of each group. `width` returns a column's width from its index and its preferred
    /// width.
    fn shown(&self, width: impl Fn(usize, usize) -> usize) -> Vec<Vec<Shown>> {
        let mut cell = 0;
        let groups = self.groups.iter().map(|group| {
            let columns = group.columns.iter().enumerate().map(|(index, (heading, wide))| {
                let width = width(cell, *wide).max(heading.len());
                cell += 1;
                match index {
                    0 => Shown { cell: cell - 1, heading, gap: group.gap, width, group: group.heading },
                    _ => Shown { cell: cell - 1, heading, gap: 1, width, group: "" },
                }
            });
            columns.collect()
        });
        groups.collect()
    }

    /// Arranges the columns in blocks of at most `room` columns. A group that does not fit after
    /// the others starts a new block, and is split if it is still too wide.
    fn blocks(&self, room: usize) -> Vec<Vec<Shown>> {
        let mut blocks = vec![Vec::new()];
        for (group, columns) in self.groups.iter().zip(self.shown(|cell, _| self.cell_width(cell))) {
            let fits = |block: &[Shown], more: &[Shown]| total(&[block, more].concat()) <= room;
            let last = blocks.last_mut().expect("there is one from the start");
            if fits(last, &columns) {
                last.extend(columns);
                continue;
            }
            if !last.is_empty() {
                blocks.push(Vec::new());
            }
            for mut column in columns {
                let last = blocks.last_mut().expect("there is one from the start");
                if last.is_empty() || fits(last, &[column]) {
                    last.push(column);
                } else {
                    column.group = group.heading;
                    blocks.push(vec![column]);
                }
            }
        }
        blocks
    }

    /// The width of a column's longest cell.
    fn cell_width(&self, cell: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(_, cells) => cells.get(cell),
            Row::Title(_) => None,
        });
        cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
    }

    /// The width of the longest row name, including indentation.
    fn names_width(&self) -> usize {
        let names = self.rows.iter().map(|row| match row {
            Row::Cells(name, _) => NAME + name.chars().count(),
            Row::Title(_) => 0,
        });
        names.max().unwrap_or(0).max(self.title.len())
    }

    fn write_block(
        &self,
        columns: &[Shown],
        names: usize,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write!(out, "\n{}", style.bold(self.title))?;
        let (mut at, mut column) = (self.title.len(), names);
        for shown in columns {
            if !shown.group.is_empty() {
                let begin = column + shown.gap + shown.width - shown.heading.len();
                write!(out, "{:1$}{2}", "", begin.saturating_sub(at).max(1), style.bold(shown.group))?;
                at = begin.max(at + 1) + shown.group.len();
            }
            column += shown.gap + shown.width;
        }
        write!(out, "\n{:names$}", "")?;
        for Shown { heading, gap, width, .. } in columns {
            write!(out, "{:gap$}{heading:>width$}", "")?;
        }
        writeln!(out)?;
        for row in &self.rows {
            match row {
                Row::Title(title) => writeln!(out, "{:TITLE$}{}", "", style.bold(title))?,
                Row::Cells(name, cells) => {
                    write!(out, "{:NAME$}{}", "", Left(name, names.saturating_sub(NAME)))?;
                    for Shown { cell, gap, width, .. } in columns {
                        let (text, is_red) = cells.get(*cell).map_or(("", false), |(text, red)| (text, *red));
                        write!(out, "{:gap$}{}", "", style.red_if(is_red, format_args!("{text:>width$}")))?;
                    }
                    writeln!(out)?;
                }
            }
        }
        Ok(())
    }
}

/// The total width of columns side by side, including the headings of their groups.
fn total(columns: &[Shown]) -> usize {
    let (mut column, mut end) = (0, 0);
    for shown in columns {
        column += shown.gap + shown.width;
        end = end.max(column - shown.heading.len() + shown.group.len());
    }
    column.max(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::columns;

    fn grid() -> Grid {
        let cells = |values: [&str; 7]| values.map(|value| (value.to_owned(), false)).to_vec();
        let group =
            |heading, columns: &[(&'static str, usize)]| Group { heading, gap: 1, columns: columns.to_vec() };
        Grid {
            title: "Operations",
            names: 24,
            groups: vec![
                group("", &[("count", 7), ("errors", 6)]),
                group("latency", &[("min", 8), ("max", 8)]),
                group("share of the time, %", &[("reads", 6), ("server", 6), ("reply", 6)]),
            ],
            rows: vec![
                Row::Title("NFSv3".to_owned()),
                Row::Cells("READ".to_owned(), cells(["12", "0", "508us", "1.35ms", "-", "100.0", "-"])),
                Row::Cells("RECLAIM_COMPLETE".to_owned(), cells(["1,234", "-", "-", "-", "-", "-", "-"])),
            ],
        }
    }

    fn text(width: Option<usize>) -> String {
        let mut out = Vec::new();
        grid().write(Style::default().with_width(width), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn groups_are_side_by_side_if_they_fit() {
        let wide = text(None);
        assert_eq!(wide, text(Some(79)));
        assert_ne!(wide, text(Some(78)));
        assert_eq!(wide.lines().count(), 6);
        assert!(
            wide.contains("    READ                      12      0    508us   1.35ms      -  100.0      -\n"),
            "{wide}"
        );
    }

    #[test]
    fn narrow_screens_stack_groups_with_every_value() {
        for width in 42..72 {
            let text = text(Some(width));
            assert!(text.lines().all(|line| columns(line) <= width), "{width}: {text}");
            for value in
                ["12", "1,234", "508us", "1.35ms", "100.0", "errors", "latency", "share of the time, %"]
            {
                assert!(text.contains(value), "{width}: {text}");
            }
        }
        let narrow = text(Some(50));
        assert_eq!(narrow.matches("Operations").count(), 2, "{narrow}");
        assert_eq!(narrow.matches("    READ").count(), 2, "{narrow}");
    }
}
