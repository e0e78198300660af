//! The axes of charts: round marks, and the place of a value between them.

use rdmascope_analysis::units::{Duration, Number};

/// A mark on an axis: its position and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The value, in the unit of the axis.
    pub value: f64,
    /// The text next to it.
    pub label: String,
}

/// An axis: its range, its scale and its marks.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The marks, from low to high.
    pub marks: Vec<Mark>,
}

impl Axis {
    /// An axis for counts, from 0 to `high` or slightly beyond.
    pub fn of_counts(high: f64) -> Axis {
        Axis::linear(high.max(1.0), true, 1.0, 1.0, &|value| group(value))
    }

    /// An axis for rates per second, from 0 to `high` or slightly beyond.
    pub fn of_rates(high: f64) -> Axis {
        Axis::linear(high, true, 1.0, 0.0, &|value| format!("{}/s", group(value)))
    }

    /// An axis for bytes per second, from 0 to `high` or slightly beyond.
    pub fn of_bytes(high: f64) -> Axis {
        let units = [("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];
        let (name, unit) = units.into_iter().rfind(|(_, unit)| high >= *unit).unwrap_or(units[0]);
        Axis::linear(high, true, unit, 0.0, &|value| format!("{} {name}/s", plain(value)))
    }

    /// An axis for time, from 0 to exactly `nanoseconds`, in the unit that fits.
    pub fn of_time(nanoseconds: f64) -> Axis {
        /// Units, and the minimum number of each: tenths of a minute are hard to read.
        const UNITS: [(&str, f64, f64); 6] = [
            ("ns", 1.0, 0.0),
            ("us", 1e3, 1.0),
            ("ms", 1e6, 1.0),
            ("s", 1e9, 1.0),
            ("min", 60e9, 10.0),
            ("h", 3600e9, 5.0),
        ];
        let fits = |(_, unit, least): &(&str, f64, f64)| nanoseconds >= unit * least;
        let (name, unit, _) = UNITS.into_iter().rfind(fits).unwrap_or(UNITS[0]);
        Axis::linear(nanoseconds, false, unit, 0.0, &|value| match value {
            0.0 => "0".to_owned(),
            _ => format!("{}{name}", plain(value)),
        })
    }

    /// A logarithmic axis from `low` to `high` nanoseconds.
    pub fn of_latencies(low: f64, high: f64) -> Axis {
        let mut marks = Vec::new();
        let mut decade = 10f64.powf(low.max(1.0).log10().floor());
        // A range of few decades has room for marks in between.
        let steps: &[f64] = if high / low <= 300.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        while decade <= high {
            let inside = steps.iter().map(|step| step * decade).filter(|v| (low..=high).contains(v));
            marks.extend(inside.map(|value| Mark { value, label: Duration(value as u64).to_string() }));
            decade *= 10.0;
        }
        Axis { low, high, logarithmic: true, marks }
    }

    /// An axis from 0 to `high`, or to the next mark after it. Marks are at multiples of 1, 2 or 5
    /// times a power of ten of `unit`, at least `finest` units apart.
    fn linear(high: f64, beyond: bool, unit: f64, finest: f64, label: &dyn Fn(f64) -> String) -> Axis {
        const MOST_MARKS: f64 = 6.0;
        let in_units = if high > 0.0 { high / unit } else { 1.0 };
        let power = 10f64.powf((in_units / MOST_MARKS).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power);
        let step = step.into_iter().find(|step| in_units / step <= MOST_MARKS).unwrap_or(power).max(finest);
        let last = if beyond { (in_units / step).ceil() } else { (in_units / step).floor() };
        let marks = (0..=last as u32).map(|index| {
            let value = f64::from(index) * step;
            Mark { value: value * unit, label: label(value) }
        });
        let high = if beyond { last * step } else { in_units };
        Axis { low: 0.0, high: high * unit, logarithmic: false, marks: marks.collect() }
    }

    /// The position of a value: 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.logarithmic {
            true => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A number without trailing zeros.
fn plain(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}

/// A number; whole numbers have commas.
fn group(value: f64) -> String {
    match value.fract() {
        0.0 => Number(value as u64).to_string(),
        _ => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|mark| mark.label.as_str()).collect()
    }

    #[test]
    fn marks_are_round_and_few() {
        assert_eq!(labels(&Axis::of_counts(0.0)), ["0", "1"]);
        assert_eq!(labels(&Axis::of_counts(3.0)), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::of_counts(128.0)), ["0", "50", "100", "150"]);
        assert_eq!(
            labels(&Axis::of_rates(4200.0)),
            ["0/s", "1,000/s", "2,000/s", "3,000/s", "4,000/s", "5,000/s"]
        );
        assert_eq!(labels(&Axis::of_bytes(2.5 * 1_048_576.0))[1], "0.5 MiB/s");
        assert_eq!(labels(&Axis::of_time(2.4e9))[..2], ["0", "0.5s"]);
        assert_eq!(labels(&Axis::of_time(9e9))[1], "2s");
        assert_eq!(labels(&Axis::of_latencies(15_000.0, 9_000_000.0)), ["100us", "1ms"]);
        assert_eq!(labels(&Axis::of_latencies(150_000.0, 2_000_000.0)), ["200us", "500us", "1ms", "2ms"]);
    }

    #[test]
    fn every_value_has_a_position() {
        let axes = [
            Axis::of_counts(0.0),
            Axis::of_rates(0.0),
            Axis::of_rates(f64::MAX),
            Axis::of_bytes(1e30),
            Axis::of_time(0.0),
            Axis::of_time(1.8e19),
            Axis::of_latencies(1.0, 1e12),
            Axis::of_latencies(1000.0, 1000.0),
        ];
        for axis in &axes {
            assert!(axis.marks.len() <= 16, "{axis:?}");
            for value in [0.0, 1.0, 1e300, f64::MAX] {
                assert!((0.0..=1.0).contains(&axis.place(value)), "{axis:?} {value}");
            }
        }
    }
}
