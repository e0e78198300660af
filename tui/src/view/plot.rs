//! Charts over time, drawn with braille patterns or with ASCII characters: curves between a vertical
//! axis and a time axis, and the times without service.

use super::dim;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use rdmascope_present::axis::Axis;

/// Columns of the vertical axis: its labels and its line.
pub(super) const LEFT: u16 = 11;
/// Lines of the time axis: its line and its labels.
pub(super) const AXIS: u16 = 2;

/// The characters of a drawing.
#[derive(Clone, Copy, Debug)]
struct Signs {
    upright: &'static str,
    marked: &'static str,
    along: &'static str,
    mark: &'static str,
    corner: &'static str,
    shade: &'static str,
}

const UNICODE: Signs =
    Signs { upright: "│", marked: "┤", along: "─", mark: "┴", corner: "└", shade: "░" };
const ASCII: Signs = Signs { upright: "|", marked: "+", along: "-", mark: "+", corner: "+", shade: ":" };

/// A curve.
pub(super) struct Curve {
    /// The value in each [dot column](Plot::dots), in the unit of the axis.
    pub(super) values: Vec<Option<f64>>,
    /// The colour.
    pub(super) colour: Color,
    /// Only every other dot is drawn, so that it differs from the other curve without colours.
    pub(super) is_dotted: bool,
    /// The character of its points in ASCII.
    pub(super) sign: char,
}

/// A chart.
pub(super) struct Plot<'a> {
    /// The heading: the quantity, and the names of the curves.
    pub(super) heading: Line<'static>,
    /// The vertical axis.
    pub(super) axis: Axis,
    /// The curves; a later one covers an earlier one.
    pub(super) curves: Vec<Curve>,
    /// Single points: the place on the time axis from 0 to 1, and the value.
    pub(super) points: Vec<(f64, f64)>,
    /// The place of the shown moment on the time axis, from 0 to 1.
    pub(super) moment: Option<f64>,
    /// The columns without service.
    pub(super) shaded: &'a [bool],
    /// Braille patterns can be shown.
    pub(super) unicode: bool,
}

/// Columns of a chart in an area of this width.
pub(super) fn columns(width: u16) -> usize {
    usize::from(width.saturating_sub(LEFT))
}

/// Dots in a column: two of a braille pattern.
pub(super) const fn dots(unicode: bool) -> usize {
    if unicode { 2 } else { 1 }
}

impl Plot<'_> {
    /// Draws the heading on the first line of `area`, and the chart below it.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.height < 2 || area.width <= LEFT {
            return;
        }
        buffer.set_line(area.x, area.y, &self.heading, area.width);
        let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
        self.left_axis(body, buffer);
        let inner = Rect { x: body.x + LEFT, width: body.width - LEFT, ..body };
        self.shade(inner, buffer);
        self.upright(inner, buffer);
        self.curves.iter().for_each(|curve| self.curve(curve, inner, buffer));
        let count = usize::from(inner.width) * dots(self.unicode);
        let style = Style::new().fg(Color::Cyan);
        for (place, value) in &self.points {
            let at = (place.clamp(0.0, 1.0) * (count - 1) as f64).round() as usize;
            self.put('*', (at, self.dot(*value, inner.height)), inner, buffer, style);
        }
    }

    /// Draws a line at the shown moment.
    fn upright(&self, inner: Rect, buffer: &mut Buffer) {
        let Some(place) = self.moment else { return };
        let x = inner.x + (place.clamp(0.0, 1.0) * f64::from(inner.width - 1)).round() as u16;
        (inner.y..inner.bottom()).for_each(|y| buffer.set_string(x, y, self.signs().upright, dim()));
    }

    fn signs(&self) -> Signs {
        if self.unicode { UNICODE } else { ASCII }
    }

    /// Vertical dots in a line.
    fn rows(&self) -> usize {
        if self.unicode { 4 } else { 1 }
    }

    /// The dot, counted from the top of `lines` lines, of a value.
    fn dot(&self, value: f64, lines: u16) -> usize {
        let most = usize::from(lines) * self.rows() - 1;
        ((1.0 - self.axis.place(value)) * most as f64).round() as usize
    }

    fn left_axis(&self, body: Rect, buffer: &mut Buffer) {
        let signs = self.signs();
        let x = body.x + LEFT - 1;
        (body.y..body.bottom()).for_each(|y| buffer.set_string(x, y, signs.upright, dim()));
        // The highest label counts most; the others get lines that are still free.
        let mut free = vec![true; usize::from(body.height)];
        for mark in self.axis.marks.iter().rev() {
            let line = self.dot(mark.value, body.height) / self.rows();
            if !core::mem::take(&mut free[line]) {
                continue;
            }
            let y = body.y + line as u16;
            let width = usize::from(LEFT) - 1;
            buffer.set_string(body.x, y, format!("{:>width$}", mark.label), dim());
            buffer.set_string(x, y, signs.marked, dim());
        }
    }

    fn shade(&self, inner: Rect, buffer: &mut Buffer) {
        let style = Style::new().fg(Color::Red);
        for (x, _) in (inner.x..inner.right()).zip(self.shaded).filter(|(_, shaded)| **shaded) {
            (inner.y..inner.bottom()).for_each(|y| buffer.set_string(x, y, self.signs().shade, style));
        }
    }

    fn curve(&self, curve: &Curve, inner: Rect, buffer: &mut Buffer) {
        let across = dots(self.unicode);
        let mut last: Option<usize> = None;
        for (at, value) in curve.values.iter().enumerate().take(usize::from(inner.width) * across) {
            let here = value.map(|value| self.dot(value, inner.height));
            if let Some(here) = here {
                // From the end of the column before to this value, without a gap.
                let from = match last {
                    Some(last) if last < here => last + 1,
                    Some(last) if last > here => last - 1,
                    _ => here,
                };
                let style = Style::new().fg(curve.colour);
                for dot in from.min(here)..=from.max(here) {
                    if !curve.is_dotted || (at + dot).is_multiple_of(2) || !self.unicode {
                        self.put(curve.sign, (at, dot), inner, buffer, style);
                    }
                }
            }
            last = here;
        }
    }

    fn put(&self, sign: char, (at, dot): (usize, usize), inner: Rect, buffer: &mut Buffer, style: Style) {
        /// The bits of a braille pattern by line and column (Unicode, block Braille Patterns).
        const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        const BRAILLE: u32 = 0x2800;
        let x = inner.x + (at / dots(self.unicode)) as u16;
        let y = inner.y + (dot / self.rows()) as u16;
        let Some(cell) = buffer.cell_mut((x, y)) else { return };
        let sign = match self.unicode {
            false => sign,
            true => {
                let before = cell.symbol().chars().next().map_or(0, u32::from);
                let before = if (BRAILLE..BRAILLE + 0x100).contains(&before) { before } else { BRAILLE };
                char::from_u32(before | BITS[dot % 4][at % 2]).unwrap_or('*')
            }
        };
        cell.set_char(sign).set_style(style);
    }
}

/// Draws the time axis of the charts above it.
pub(super) fn time_axis(axis: &Axis, area: Rect, buffer: &mut Buffer, unicode: bool) {
    let area = area.intersection(buffer.area);
    if area.height == 0 || area.width <= LEFT {
        return;
    }
    let signs = if unicode { UNICODE } else { ASCII };
    let left = area.x + LEFT;
    let most = f64::from(area.width - LEFT - 1);
    buffer.set_string(left - 1, area.y, signs.corner, dim());
    (left..area.right()).for_each(|x| buffer.set_string(x, area.y, signs.along, dim()));
    let mut end = area.x;
    for mark in &axis.marks {
        let x = left + (axis.place(mark.value) * most).round() as u16;
        buffer.set_string(x, area.y, signs.mark, dim());
        let length = mark.label.chars().count() as u16;
        let begin = x.saturating_sub(length / 2).min(area.right().saturating_sub(length));
        if area.height > 1 && begin >= end && begin + length <= area.right() {
            buffer.set_string(begin, area.y + 1, &mark.label, dim());
            end = begin + length + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(unicode: bool, size: (u16, u16), values: &[Option<f64>], shaded: &[bool]) -> Vec<String> {
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buffer = Buffer::empty(area);
        let curve = Curve { values: values.to_vec(), colour: Color::Cyan, is_dotted: false, sign: '*' };
        let plot = Plot {
            heading: Line::raw("calls"),
            axis: Axis::of_counts(4.0),
            curves: vec![curve],
            points: Vec::new(),
            moment: None,
            shaded,
            unicode,
        };
        let chart = Rect { height: size.1.saturating_sub(AXIS), ..area };
        plot.draw(chart, &mut buffer);
        let axis = Axis::of_time(4e9);
        time_axis(&axis, Rect { y: chart.height, height: AXIS.min(size.1), ..area }, &mut buffer, unicode);
        let lines = buffer.content.chunks(usize::from(size.0).max(1));
        lines
            .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn curves_have_axes_with_units_and_shaded_times() {
        let values = [Some(0.0), Some(4.0), None, None, Some(2.0)];
        let shaded = [false, false, true, true, false];
        let lines = drawn(false, (16, 8), &values, &shaded);
        let expected = [
            "calls",
            "         4+ *::",
            "         3+ *::",
            "         2+ *::*",
            "         1+ *::",
            "         0+* ::",
        ];
        assert_eq!(lines[..6], expected);
        assert!(lines[6].starts_with("          ++") && lines[7].contains('0'), "{lines:#?}");
    }

    #[test]
    fn braille_patterns_have_two_columns_and_four_lines() {
        let lines = drawn(true, (13, 4), &[Some(4.0), Some(0.0), Some(4.0)], &[]);
        assert_eq!(lines[1].chars().skip(usize::from(LEFT)).collect::<String>(), "⢱⠇");
    }

    #[test]
    fn any_size_can_be_drawn() {
        for width in 0..20 {
            for height in 0..8 {
                drawn(height % 2 == 0, (width, height), &[Some(1.0); 60], &[true; 30]);
            }
        }
    }
}
