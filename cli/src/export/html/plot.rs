//! Building blocks of charts: the frame between the axes, and legends.

use core::fmt::{self, Display};
use maud::{Markup, html};
use rdmascope_present::axis::Axis;

/// A coordinate or length in a drawing, rounded to a tenth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units(pub(super) f64);

impl Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() as i64;
        match tenths % 10 {
            0 => write!(f, "{}", tenths / 10),
            _ => write!(f, "{:.1}", tenths as f64 / 10.0),
        }
    }
}

/// The position and size of a chart within a drawing: the rectangle between its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    /// The frame of charts that are next to each other.
    pub(super) const HALF: Frame = Frame { left: 96.0, top: 8.0, width: 454.0, height: 168.0 };
    /// The size of a drawing around [`Frame::HALF`].
    pub(super) const HALF_SIZE: (f64, f64) = (564.0, 216.0);

    /// The width needed to the left of a frame for names of this length, in the widest common font.
    pub(super) fn room_for(characters: usize) -> f64 {
        const CHARACTER: f64 = 7.6;
        16.0 + CHARACTER * characters as f64
    }

    pub(super) fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.place(value) * self.width
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom() - axis.place(value) * self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The axis along the bottom, with its label.
    pub(super) fn bottom_axis(&self, axis: &Axis, label: &str) -> Markup {
        html! {
            g class="axis" {
                line x1=(Units(self.left)) x2=(Units(self.right())) y1=(Units(self.bottom())) y2=(Units(self.bottom())) {}
                @for mark in &axis.marks {
                    @let x = Units(self.x(axis, mark.value));
                    line x1=(x) x2=(x) y1=(Units(self.bottom())) y2=(Units(self.bottom() + 4.0)) {}
                    text x=(x) y=(Units(self.bottom() + 16.0)) text-anchor="middle" { (mark.label) }
                }
                text class="what" x=(Units(self.right())) y=(Units(self.bottom() + 32.0)) text-anchor="end" { (label) }
            }
        }
    }

    /// The axis along the left side, with grid lines.
    pub(super) fn left_axis(&self, axis: &Axis) -> Markup {
        html! {
            g class="axis" {
                @for mark in &axis.marks {
                    @let y = self.y(axis, mark.value);
                    line class="grid" x1=(Units(self.left)) x2=(Units(self.right())) y1=(Units(y)) y2=(Units(y)) {}
                    text x=(Units(self.left - 6.0)) y=(Units(y + 4.0)) text-anchor="end" { (mark.label) }
                }
            }
        }
    }
}

/// A rectangle with a tooltip. `across` is its left and right side, `down` its top and bottom.
pub(super) fn block(class: &str, across: (f64, f64), down: (f64, f64), title: Markup) -> Markup {
    let ((left, right), (top, bottom)) = (across, down);
    let (width, height) = (Units(right - left), Units(bottom - top));
    html! {
        rect class=(class) x=(Units(left)) width=(width) y=(Units(top)) height=(height) { title { (title) } }
    }
}

/// A drawing with a label for screen readers. It scrolls if it is too wide.
pub(super) fn drawing((width, height): (f64, f64), label: &str, content: Markup) -> Markup {
    let (width, height) = (Units(width), Units(height));
    html! {
        div class="scroll" {
            svg role="img" aria-label=(label) viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) {
                (content)
            }
        }
    }
}

/// The look of a chart element: the CSS class gives its colour.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sample<'a> {
    /// An area.
    Area(&'a str),
    /// A horizontal line.
    Across(&'a str),
    /// A vertical line.
    Upward(&'a str),
}

/// The legend of a chart.
pub(super) fn legend<'a>(entries: impl IntoIterator<Item = (Sample<'a>, String)>) -> Markup {
    html! {
        p class="legend" {
            @for (sample, name) in entries {
                span {
                    svg class="swatch" width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" {
                        @match sample {
                            Sample::Area(class) => rect class=(class) width="12" height="12" {},
                            Sample::Across(class) => path class=(class) d="M0 6H12" {},
                            Sample::Upward(class) => path class=(class) d="M6 0V12" {},
                        }
                    }
                    (name)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_have_at_most_one_decimal() {
        for (value, text) in [(0.0, "0"), (12.04, "12"), (12.06, "12.1"), (-3.25, "-3.3"), (100.0, "100")] {
            assert_eq!(Units(value).to_string(), text);
        }
    }
}
