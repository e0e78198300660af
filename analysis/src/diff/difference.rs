//! What a comparison comes to, as data: text and JSON are both written from it.

use crate::names::{Label, Protocol};
use crate::phases::Phases;
use crate::report::Latency;
use crate::units::Bytes;
use core::cmp::Ordering;
use core::fmt;
use rdmascope_dissector::ulb;

/// One thing that was compared.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Where it belongs.
    pub area: Area,
    /// What was compared, for programs.
    pub name: &'static str,
    /// The same for people, without the operation.
    pub what: String,
    /// The operation that it is about.
    pub operation: Option<Pair>,
    /// What one side has and what the other has.
    pub sides: [Measure; 2],
    /// What the comparison came to.
    pub verdict: Verdict,
    /// How much it matters within its area, from 0 to 1.
    pub magnitude: f64,
    /// The chance that what is no difference looks so different, where there was a test.
    pub chance: Option<f64>,
}

/// What differences are sorted by: what explains the others, or is broken, comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Transactions that did not end well.
    Transactions,
    /// What was negotiated, and which protocols were spoken.
    Connections,
    /// Retransmissions, NAKs and the like.
    Transport,
    /// Rules that were broken.
    Conformance,
    /// How long operations took.
    Latency,
    /// Replies that report an error.
    Errors,
    /// How messages were conveyed.
    Conveyance,
    /// What was called and how often, and what it moved.
    Operations,
    /// What the captures themselves lack.
    Capture,
}

impl Area {
    /// All of them, in the order in which they are shown.
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

    /// Its word for programs.
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

/// What the comparison of two things came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They differ.
    Differs,
    /// They look different, and there are too few values to tell it from chance.
    TooFew,
    /// They look different, and no more than chance makes them.
    Chance,
    /// They are equal, or nearly so.
    Equal,
    /// One of the captures does not tell.
    Unknown,
}

impl Verdict {
    /// Its word for programs.
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

/// What one side has.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// So many, of so many that could be.
    Count(u64, u64),
    /// A number.
    Number(f64),
    /// How many bytes on average.
    Bytes(f64),
    /// Different values with how often each was there.
    Values(Vec<(String, u64)>),
    /// The least, the greatest, the last; nothing where there was none.
    Extremes(Option<[u32; 3]>),
    /// How long so many took.
    Latencies(Latencies),
}

/// How long the transactions of one operation took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// How many there are that both call and reply are captured of.
    pub count: u64,
    /// How they are distributed.
    pub latency: Latency,
    /// How long each phase was on average.
    pub phases: Phases,
    /// Payload bytes of a transaction on average.
    pub bytes: u64,
}

impl Difference {
    /// Whether it is shown where only differences are asked for.
    pub fn is_shown(&self) -> bool {
        matches!(self.verdict, Verdict::Differs | Verdict::TooFew)
    }

    /// What there is more of in the second capture, as a factor; `None` where one has none, or nothing that can be divided.
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

    /// The latencies of both sides, where these are what was compared.
    pub fn latencies(&self) -> Option<[Latencies; 2]> {
        match self.sides {
            [Measure::Latencies(a), Measure::Latencies(b)] => Some([a, b]),
            _ => None,
        }
    }

    /// How soon a person should look at it, from 0 to 100.
    pub fn weight(&self) -> f64 {
        let area = (Area::ALL.len() - self.area as usize) as f64;
        // Within an area, what is certain comes first.
        let (least, span) = match self.verdict {
            Verdict::Differs => (6.0, 4.0),
            Verdict::TooFew => (4.0, 2.0),
            Verdict::Chance => (2.0, 2.0),
            Verdict::Equal | Verdict::Unknown => (0.0, 2.0),
        };
        10.0 * area + least + span * self.magnitude.clamp(0.0, 1.0)
    }

    /// The weightiest first, in an order that depends on nothing else than what is compared.
    pub fn by_weight(a: &Difference, b: &Difference) -> Ordering {
        let place = |difference: &Difference| difference.operation.map(|pair| pair.order());
        b.weight()
            .total_cmp(&a.weight())
            .then_with(|| place(a).cmp(&place(b)))
            .then_with(|| a.name.cmp(b.name))
            .then_with(|| a.what.cmp(&b.what))
    }

    /// The name of a difference in the middle of the latencies.
    pub const LATENCY: &'static str = "latency";
    /// The name of a difference in their longest tenth alone.
    pub const TAIL: &'static str = "latency-tail";
}

/// An operation of one side and its counterpart on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// As which protocol on either side. The comparison pairs `NFSv4.1` with `NFSv4.2`.
    pub protocols: [Option<Protocol>; 2],
    /// Whether it runs backward.
    pub backward: bool,
    /// The principal operation.
    pub label: Label,
    /// How much its transactions moved; `None` where all sizes are meant.
    pub size: Option<SizeClass>,
}

impl Pair {
    fn order(self) -> (bool, [Option<Protocol>; 2], bool, Label, Option<SizeClass>) {
        (self.protocols == [None, None], self.protocols, self.backward, self.label, self.size)
    }
}

/// About how many payload bytes a transaction moved. How long it takes depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The most bytes of each class but the last: a page, and sizes that clients and servers limit READ and WRITE to.
    const MOST: [u64; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
    /// How many there are.
    pub const COUNT: usize = SizeClass::MOST.len() + 1;

    /// The class of so many bytes; the first holds also what moved none.
    pub fn of(bytes: u64) -> SizeClass {
        SizeClass(SizeClass::MOST.partition_point(|most| *most < bytes) as u8)
    }

    /// All of them, from the smallest.
    pub fn all() -> impl Iterator<Item = SizeClass> {
        (0..SizeClass::COUNT as u8).map(SizeClass)
    }

    /// Its place among all.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// What is in it has more bytes than this; `None` where it may have none.
    pub fn above(self) -> Option<u64> {
        self.index().checked_sub(1).map(|index| SizeClass::MOST[index])
    }

    /// What is in it has no more bytes than this; `None` where there is no limit.
    pub fn most(self) -> Option<u64> {
        SizeClass::MOST.get(self.index()).copied()
    }
}

/// `<=64 KiB`: more than the class before it, and no more than that.
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
