//! What differs between two captures of the same workload: gathered in bounded memory, compared, and written for people and for
//! programs.

mod compare;
mod conveyance;
mod difference;
mod histogram;
mod pairing;
mod side;
mod statistics;
mod text;

pub use compare::Comparison;
pub use difference::{Area, Difference, Latencies, Measure, Pair, SizeClass, Verdict};
pub use side::Side;
pub use text::Text;

/// From where on something is a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// By what factor median latencies, or 90th percentiles, have to be apart; 1 or more.
    pub latency_ratio: f64,
    /// By what factor counts, or their shares, averages and credits have to be apart; 1 or more.
    pub count_ratio: f64,
    /// How probable it may be that chance alone makes what is shown as a difference; between 0 and 1.
    pub significance: f64,
}

impl Thresholds {
    /// Those that hold where nobody asks for others.
    pub const DEFAULT: Thresholds = Thresholds { latency_ratio: 1.1, count_ratio: 1.1, significance: 0.01 };
}

#[cfg(test)]
mod tests;
