//! The text sections about captures from several capture points.

use crate::grid::{Grid, Group, Row};
use crate::text::{Maybe, Style};
use core::fmt::{self, Display};
use rdmascope_analysis::capture_points::{Doubt, EndToEnd, Located, Place, Split, Splits, Tie, Way};
use rdmascope_analysis::units::{Counted, Duration, Number, Plain};
use std::io::{self, Write};

/// The sections about several capture points.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a EndToEnd);

impl Text<'_> {
    /// Writes the capture points, the paths of packets between them, and the end-to-end times of
    /// operations.
    pub fn write(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{}", style.bold("Capture points"))?;
        for (index, place) in self.0.tally.places().places.iter().enumerate() {
            write!(out, "  {}  {}", index + 1, Plain(&place.name))?;
            for (nth, host) in place.near.iter().take(4).enumerate() {
                write!(out, "{}{host}", if nth == 0 { ", nearest to " } else { ", " })?;
            }
            writeln!(out)?;
            if let Some(tie) = &place.tie {
                writeln!(out, "     {}", ClockDescription(tie))?;
            }
        }
        self.write_ways(style, out)?;
        write_splits(&self.0.splits, style, out)
    }

    fn write_ways(self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let ways: Vec<&Way> = self.0.tally.ways().collect();
        if ways.is_empty() {
            return Ok(());
        }
        let groups = vec![
            Group { heading: "", gap: 1, columns: vec![("packets", 9)] },
            Group::of_times("transit time", 8),
            Group {
                heading: "of packets",
                gap: 1,
                columns: vec![("lost", 6), ("damaged", 7), ("doubled", 7), ("behind", 6)],
            },
        ];
        let cells = |way: &Way| {
            let times = way.times();
            let time = |index: usize| Maybe(times.map(|times| Duration(times[index]))).to_string();
            let count = |located: &Located| (Number(located.count).to_string(), located.count > 0);
            let mut cells = vec![(Number(way.packets).to_string(), false)];
            cells.extend((0..4).map(|index| (time(index), false)));
            cells.extend([&way.lost, &way.damaged, &way.doubled, &way.reordered].map(count));
            cells
        };
        let row = |way: &&Way| Row::Cells(way_name(way), cells(way));
        Grid {
            title: "Paths between capture points",
            names: 38,
            groups,
            rows: ways.iter().map(row).collect(),
        }
        .write(style, out)?;
        for way in ways {
            for remark in remarks(way) {
                writeln!(out, "  {}: {remark}", way_name(way))?;
            }
        }
        Ok(())
    }
}

/// Writes the end-to-end times of operations.
fn write_splits(splits: &Splits, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let all = splits.by_time();
    if all.is_empty() {
        return Ok(());
    }
    let groups = vec![
        Group { heading: "", gap: 1, columns: vec![("count", 7), ("unknown", 7), ("mean", 8)] },
        Group {
            heading: "share of the time, %",
            gap: 2,
            columns: Split::NAMES.map(|name| (name, 9)).to_vec(),
        },
    ];
    let rows = all.iter().map(|(key, sum)| {
        let mean = Maybe(sum.mean().map(Duration));
        let mut cells =
            vec![Number(sum.count).to_string(), Number(sum.unknown).to_string(), mean.to_string()];
        cells.extend(sum.shares());
        Row::Cells(key.to_string(), cells.into_iter().map(|cell| (cell, false)).collect())
    });
    Grid { title: "End-to-end time", names: 30, groups, rows: rows.collect() }.write(style, out)
}

/// The name of a path: `10.77.0.2 -> 10.77.0.1, 1 to 2`.
pub fn way_name(way: &Way) -> String {
    let Way { route, from, to, .. } = way;
    format!("{} -> {}, {} to {}", route.source, route.destination, from + 1, to + 1)
}

/// Describes the packets that are missing at one of the capture points.
pub fn remarks(way: &Way) -> Vec<String> {
    let located = [
        (&way.lost, format!("captured at {}, never at {}", way.from + 1, way.to + 1)),
        (&way.damaged, format!("damaged on arrival at {}", way.to + 1)),
        (
            &way.unseen,
            format!("captured at {} only: missing from the capture at {}", way.to + 1, way.from + 1),
        ),
    ];
    let mut remarks: Vec<String> = located
        .into_iter()
        .filter(|(located, _)| located.count > 0)
        .map(|(located, description)| {
            format!("{} {description}; {}", Counted(located.count, "packet"), FrameList(located))
        })
        .collect();
    if way.undecided > 0 {
        let packets = Counted(way.undecided, "packet");
        remarks.push(format!("{packets} outside the time range of one of the captures: loss unknown"));
    }
    remarks
}

/// A list of frames: `frames 12, 15 and 3 others`.
struct FrameList<'a>(&'a Located);

impl Display for FrameList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 6;
        let Located { count, frames } = self.0;
        f.write_str(if *count == 1 { "frame " } else { "frames " })?;
        for (index, frame) in frames.iter().take(NAMED).enumerate() {
            write!(f, "{}{frame}", if index == 0 { "" } else { ", " })?;
        }
        match count.saturating_sub(NAMED as u64) {
            0 => Ok(()),
            others => write!(f, " and {}", Counted(others, "other")),
        }
    }
}

/// The clock of a capture point, relative to the first one.
struct ClockDescription<'a>(&'a Tie);

impl Display for ClockDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(part) = self.0.parts.first() else { return f.write_str("its clock is unknown") };
        let added = part.line.offset;
        let relation = if added < 0 { "ahead of" } else { "behind" };
        write!(f, "its clock is {} {relation} that of 1", Duration(added.unsigned_abs()))?;
        let gain = -part.line.rate * 1e6;
        if gain.abs() >= 0.05 {
            write!(f, ", and {} {:.1} us a second", if gain > 0.0 { "gains" } else { "loses" }, gain.abs())?;
        }
        let doubt = self.0.doubt();
        if self.0.parts.len() > 1 {
            let is_explained = !matches!(doubt, Some(Doubt::Contradicted(_)));
            let why = if is_explained { "it was set or slewed" } else { "no constant rate fits" };
            write!(f, "; {why}: {} time ranges are fitted separately", self.0.parts.len())?;
        }
        match doubt {
            Some(Doubt::Within(most)) => write!(
                f,
                "; estimated to within {}, assuming that the fastest packets take equally long in both \
                 directions",
                Duration(most)
            ),
            Some(Doubt::OneWay) => write!(
                f,
                "; estimated from one direction only, assuming that the fastest packet takes no time"
            ),
            Some(Doubt::Contradicted(by)) => write!(
                f,
                "; estimated, but the times of the two captures contradict each other by up to {}",
                Duration(by)
            ),
            None => Ok(()),
        }
    }
}

/// The clock of a capture point in words. `None` for the first capture point.
pub fn clock_description(place: &Place) -> Option<String> {
    Some(ClockDescription(place.tie.as_ref()?).to_string())
}
