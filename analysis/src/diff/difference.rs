//! The results of a comparison as data for text and JSON.

use crate::names::{Label, Protocol};
use crate::report::Latency;
use crate::units::Bytes;
use core::cmp::Ordering;
use core::fmt;
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::ulb;

/// One compared value.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its area.
    pub area: Area,
    /// Its name in machine-readable output.
    pub name: &'static str,
    /// Its description for people, without the operation.
    pub description: String,
    /// The operation that it concerns.
    pub operation: Option<Pair>,
    /// The values of both sides.
    pub sides: [Measure; 2],
    /// The verdict of the comparison.
    pub verdict: Verdict,
    /// Its importance within its area, from 0 to 1.
    pub magnitude: f64,
    /// The probability of such a difference by chance, if there was a test.
    pub chance: Option<f64>,
}

/// The areas of differences. Areas that explain others, or that contain faults, come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Transactions that failed or are incomplete.
    Transactions,
    /// Negotiated parameters and protocols.
    Connections,
    /// Retransmissions, NAKs and similar.
    Transport,
    /// Rules that were broken.
    Conformance,
    /// Latencies of operations.
    Latency,
    /// Replies that report an error.
    Errors,
    /// The conveyance of messages.
    Conveyance,
    /// Operations, their counts and bytes.
    Operations,
    /// Gaps and limits of the captures themselves.
    Capture,
}

impl Area {
    /// All areas, in the order of the output.
    pub const ALL: [Area; 9] = [
        Area::Transactions,
        Area::Connections,
        Area::Transport,
        Area::Conformance,
        Area::Latency,
        Area::Errors,
        Area::Conveyance,
        Area::Operations,
        Area::Capture,
    ];

    /// Its name in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Area::Transactions => "transactions",
            Area::Connections => "connections",
            Area::Transport => "transport",
            Area::Conformance => "conformance",
            Area::Latency => "latency",
            Area::Errors => "errors",
            Area::Conveyance => "conveyance",
            Area::Operations => "operations",
            Area::Capture => "capture",
        }
    }
}

/// The verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The values differ.
    Differs,
    /// The values look different, but there are too few of them for a test.
    TooFew,
    /// The values look different, but chance explains the difference.
    Chance,
    /// The values are equal, or nearly so.
    Equal,
    /// The value is unknown for one of the captures.
    Unknown,
}

impl Verdict {
    /// Its name in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Differs => "differs",
            Verdict::TooFew => "too-few",
            Verdict::Chance => "chance",
            Verdict::Equal => "equal",
            Verdict::Unknown => "unknown",
        }
    }
}

/// The value of one side.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// A count, and its total.
    Count(u64, u64),
    /// A number.
    Number(f64),
    /// The mean number of bytes.
    Bytes(f64),
    /// The distinct values, each with its number of occurrences.
    Values(Vec<(String, u64)>),
    /// The least, the greatest and the last value; `None` if there was none.
    Extremes(Option<[u32; 3]>),
    /// Latencies.
    Latencies(Latencies),
}

/// The latencies of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// The number of transactions with both call and reply in the capture.
    pub count: u64,
    /// Their distribution.
    pub latency: Latency,
    /// The mean length of each phase.
    pub phases: Phases,
    /// The mean payload bytes of a transaction.
    pub bytes: u64,
}

impl Difference {
    /// Whether it is shown if only differences are requested.
    pub fn is_shown(&self) -> bool {
        matches!(self.verdict, Verdict::Differs | Verdict::TooFew)
    }

    /// The factor from the first capture to the second; `None` if either value is zero or is not a
    /// number.
    pub fn ratio(&self) -> Option<f64> {
        let number = |measure: &Measure| match measure {
            Measure::Count(count, _) => Some(*count as f64),
            Measure::Number(number) | Measure::Bytes(number) => Some(*number),
            Measure::Latencies(of) if self.name == Difference::TAIL => Some(of.latency.p90 as f64),
            Measure::Latencies(of) => Some(of.latency.median as f64),
            Measure::Values(_) | Measure::Extremes(_) => None,
        };
        let [a, b] = &self.sides;
        let ratio = number(b)? / number(a)?;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// The latencies of both sides, if they were compared.
    pub fn latencies(&self) -> Option<[Latencies; 2]> {
        match self.sides {
            [Measure::Latencies(a), Measure::Latencies(b)] => Some([a, b]),
            _ => None,
        }
    }

    /// The order of importance to a reader, from 0 to 100.
    pub fn weight(&self) -> f64 {
        let area = (Area::ALL.len() - self.area as usize) as f64;
        // Within an area, certain differences come first.
        let (least, span) = match self.verdict {
            Verdict::Differs => (6.0, 4.0),
            Verdict::TooFew => (4.0, 2.0),
            Verdict::Chance => (2.0, 2.0),
            Verdict::Equal | Verdict::Unknown => (0.0, 2.0),
        };
        10.0 * area + least + span * self.magnitude.clamp(0.0, 1.0)
    }

    /// Orders by descending weight, then by the compared values only.
    pub(crate) fn by_weight(a: &Difference, b: &Difference) -> Ordering {
        let place = |difference: &Difference| difference.operation.map(|pair| pair.order());
        b.weight()
            .total_cmp(&a.weight())
            .then_with(|| place(a).cmp(&place(b)))
            .then_with(|| a.name.cmp(b.name))
            .then_with(|| a.description.cmp(&b.description))
    }

    /// The name of a difference in the median latency.
    pub const LATENCY: &'static str = "latency";
    /// The name of a difference only in the slowest tenth of the latencies.
    pub const TAIL: &'static str = "latency-tail";
}

/// An operation of one side and its counterpart on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The protocol on each side. `NFSv4.1` can be paired with `NFSv4.2`.
    pub protocols: [Option<Protocol>; 2],
    /// Whether it runs backward.
    pub backward: bool,
    /// The principal operation.
    pub label: Label,
    /// The size class of its transactions; `None` for all sizes.
    pub size: Option<SizeClass>,
}

impl Pair {
    fn order(self) -> (bool, [Option<Protocol>; 2], bool, Label, Option<SizeClass>) {
        (self.protocols == [None, None], self.protocols, self.backward, self.label, self.size)
    }
}

/// A class of payload sizes. The latency of a transaction depends on its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The greatest size of each class but the last: a page, and usual limits of clients and
    /// servers for READ and WRITE.
    const MOST: [u64; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
    /// The number of classes.
    pub const COUNT: usize = SizeClass::MOST.len() + 1;

    /// The class of this number of bytes. The first class includes 0.
    pub fn of(bytes: u64) -> SizeClass {
        SizeClass(SizeClass::MOST.partition_point(|most| *most < bytes) as u8)
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = SizeClass> {
        (0..SizeClass::COUNT as u8).map(SizeClass)
    }

    /// Its index in the list of all classes.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The exclusive lower bound of its sizes, in bytes; `None` for the first class.
    pub fn above(self) -> Option<u64> {
        self.index().checked_sub(1).map(|index| SizeClass::MOST[index])
    }

    /// The inclusive upper bound of its sizes, in bytes; `None` for the last class.
    pub fn most(self) -> Option<u64> {
        SizeClass::MOST.get(self.index()).copied()
    }
}

/// The text `<=64 KiB`: sizes up to this one that are above the class before it.
impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.above(), self.most()) {
            (_, Some(most)) => write!(f, "<={}", Bytes(most)),
            (Some(above), None) => write!(f, ">{}", Bytes(above)),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocols {
            [Some(a), Some(b)] if a != b => match ulb::program_name(a.program) {
                Some(program) => write!(f, "{program} ")?,
                None => write!(f, "{a}/{b} ")?,
            },
            [Some(protocol), _] | [None, Some(protocol)] => write!(f, "{protocol} ")?,
            [None, None] => {}
        }
        write!(f, "{}{}", self.label, if self.backward { ", backward" } else { "" })?;
        self.size.map_or(Ok(()), |size| write!(f, " {size}"))
    }
}
