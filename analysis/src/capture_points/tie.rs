//! Ties the clock of one place to that of another, by packets that both captured.
//!
//! No packet arrives before it was sent. So each packet that both places captured bounds the offset
//! between their clocks from one side:
//!
//! ```text
//! reference   sent at r ------.                    .----> received at r
//! other                        '--> received at t   sent at t ---'
//!             offset >= r - t                       offset <= r - t
//! ```
//!
//! Two clocks with constant rates differ by a straight line over time, which lies between all
//! bounds. The middle of the widest strip is taken; it is exact if the fastest packets of both
//! directions took equal times. All lines within the bounds give the greatest error, for any
//! transit times. If there is no such line, a clock was set or slewed, or time stamps are late. If the
//! bounds contradict each other by more than late time stamps explain, the time is halved until a line
//! fits each part, or there are many parts.

use rdmascope_capture_agent::{Clock, Line};
use rdmascope_dissector::record::Time;

/// The bound of one packet on the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The time of the packet at the other place, by that place's clock.
    pub(super) at: i64,
    /// The reference's time of the packet minus the other place's, in nanoseconds.
    pub(super) offset: i64,
    /// Whether this is a lower bound, because the packet went from the reference to the other
    /// place. Otherwise it is an upper bound.
    pub(super) is_least: bool,
}

/// The relation between the clock of a place and that of the reference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tie {
    /// The parts in order of time: one if the clocks have constant rates, none if nothing ties
    /// them.
    pub parts: Vec<Part>,
}

/// The relation of the clocks for a part of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The line to add to times of the place.
    pub line: Line,
    /// The last packet of the part, by the clock of the place.
    pub until: Time,
    /// Packets from the reference to the place, and packets in the opposite direction.
    pub packets: [u64; 2],
    /// The uncertainty of the line.
    pub doubt: Doubt,
}

/// The uncertainty of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The error is at most this, in nanoseconds.
    Within(u64),
    /// Packets went one way only. The error is the unknown transit time of the fastest packet.
    OneWay,
    /// No line fits all packets. With this line some transit times are negative, by at most this
    /// many nanoseconds.
    Contradicted(u64),
}

/// The greatest difference between the rates of two clocks: 500 ppm, the most by which NTP slews a
/// clock.
const FASTEST: f64 = 500e-6;
/// The number of intervals of time. The tightest bounds of each are used.
const INTERVALS: usize = 256;
/// The bounds that are kept for each interval and side.
const KEPT: usize = 4;
/// One in this many intervals may contain a bound that does not fit, from a packet that was sent
/// twice with the same bytes.
const TOLERATED: usize = 16;
/// The greatest contradiction in nanoseconds that counts as late time stamps. Recordings by both ends of
/// `peer` on one host contradict each other by 0.2 to 1 ms, except for single packets.
const INACCURACY: u64 = 1_000_000;
/// A part with fewer than twice this many packets is not halved further.
const FEWEST: usize = 64;
/// The most parts. Each step of a clock adds one part for each halving of the packets around it.
const MOST_PARTS: usize = 64;

impl Tie {
    /// Ties the clocks.
    pub(super) fn new(mut bounds: Vec<Bound>) -> Tie {
        bounds.sort_unstable_by_key(|bound| bound.at);
        let mut parts = Vec::new();
        if !bounds.is_empty() {
            parts.push(Fitted::new(&bounds));
        }
        while let Some(halved) = halved(&parts) {
            parts = halved;
        }
        Tie { parts: parts.iter().map(|fitted| fitted.part).collect() }
    }

    /// The clock that converts times of the place.
    pub fn clock(&self) -> Clock {
        Clock::new(self.parts.iter().map(|part| part.line).collect())
    }

    /// The greatest uncertainty of all parts.
    pub fn doubt(&self) -> Option<Doubt> {
        let rank = |doubt: &Doubt| match *doubt {
            Doubt::Within(width) => (0, width),
            Doubt::OneWay => (1, 0),
            Doubt::Contradicted(by) => (2, by),
        };
        self.parts.iter().map(|part| part.doubt).max_by_key(rank)
    }
}

/// A part with its bounds.
#[derive(Clone, Copy)]
struct Fitted<'a> {
    bounds: &'a [Bound],
    part: Part,
}

impl Fitted<'_> {
    fn new(bounds: &[Bound]) -> Fitted<'_> {
        Fitted { bounds, part: Strip::new(bounds).fit() }
    }

    /// Whether lines may fit its halves.
    fn is_divisible(&self) -> bool {
        matches!(self.part.doubt, Doubt::Contradicted(by) if by > INACCURACY)
            && self.bounds.len() >= 2 * FEWEST
    }
}

/// The same parts with halves in place of those that no line fits, as long as there are fewer than
/// [`MOST_PARTS`]; `None` if none is halved.
fn halved<'a>(parts: &[Fitted<'a>]) -> Option<Vec<Fitted<'a>>> {
    let mut spare = MOST_PARTS.saturating_sub(parts.len());
    let mut all = Vec::new();
    for fitted in parts {
        if spare == 0 || !fitted.is_divisible() {
            all.push(*fitted);
            continue;
        }
        spare -= 1;
        let (front, back) = fitted.bounds.split_at(fitted.bounds.len() / 2);
        all.extend([front, back].map(Fitted::new));
    }
    (all.len() > parts.len()).then_some(all)
}

/// The bounds that a line must satisfy.
struct Strip {
    /// The origin of times and offsets, which keeps both small.
    origin: (i64, i64),
    until: i64,
    packets: [u64; 2],
    /// The tightest lower bounds and upper bounds of each interval, tightest last.
    intervals: Vec<[Vec<Point>; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: f64,
    offset: f64,
}

impl Point {
    /// The value at the origin of a line through this point with this slope.
    fn intercept(self, rate: f64) -> f64 {
        self.offset - rate * self.at
    }
}

impl Strip {
    /// Creates a strip from bounds in order of time.
    fn new(bounds: &[Bound]) -> Strip {
        let (first, last) = (bounds[0], bounds[bounds.len() - 1]);
        let origin = (first.at, first.offset);
        let span = last.at.abs_diff(first.at).max(1);
        let mut strip = Strip {
            origin,
            until: last.at,
            packets: [0; 2],
            intervals: vec![<[Vec<Point>; 2]>::default(); INTERVALS],
        };
        for bound in bounds {
            let index = u128::from(bound.at.abs_diff(first.at)) * (INTERVALS as u128 - 1) / u128::from(span);
            let side = usize::from(!bound.is_least);
            strip.packets[side] += 1;
            let kept = &mut strip.intervals[index as usize][side];
            let point = Point {
                at: bound.at.abs_diff(origin.0) as f64,
                offset: (i128::from(bound.offset) - i128::from(origin.1)) as f64,
            };
            let place = kept.partition_point(|other| match bound.is_least {
                true => other.offset < point.offset,
                false => other.offset > point.offset,
            });
            kept.insert(place, point);
            if kept.len() > KEPT {
                kept.remove(0);
            }
        }
        strip
    }

    /// The tightest bound of each interval on one side.
    fn points(&self, side: usize) -> impl Iterator<Item = Point> {
        self.intervals.iter().filter_map(move |sides| sides[side].last().copied())
    }

    /// The range of values at the origin for lines with this slope: the least by the lower bounds,
    /// and the greatest by the upper bounds.
    fn room(&self, rate: f64) -> (f64, f64) {
        let intercepts = |side| self.points(side).map(move |point| point.intercept(rate));
        (intercepts(0).fold(f64::NEG_INFINITY, f64::max), intercepts(1).fold(f64::INFINITY, f64::min))
    }

    fn width(&self, rate: f64) -> f64 {
        let (least, most) = self.room(rate);
        most - least
    }

    fn fit(&mut self) -> Part {
        if self.packets.contains(&0) {
            return self.one_way();
        }
        let mut tolerated = self.intervals.iter().filter(|sides| !sides[0].is_empty()).count() / TOLERATED;
        loop {
            let rate = peak(-FASTEST, FASTEST, |rate| self.width(rate));
            let (least, most) = self.room(rate);
            if most >= least {
                let middle = f64::midpoint(least, most);
                return self.part(middle, rate, Doubt::Within(self.doubt(middle, rate)));
            }
            if tolerated == 0 || !self.drop_one(rate) {
                let by = (least - most) as u64;
                return self.part(f64::midpoint(least, most), rate, Doubt::Contradicted(by));
            }
            tolerated -= 1;
        }
    }

    /// Drops the bound whose removal widens the strip most, unless it is the last one of its side.
    /// Returns false if it is.
    fn drop_one(&mut self, rate: f64) -> bool {
        let (least, most) = self.room(rate);
        let binding = [least, most].map(|at| move |point: &Point| point.intercept(rate) == at);
        let mut best: Option<(f64, usize, usize)> = None;
        for (side, is_binding) in binding.iter().enumerate() {
            let found = self.intervals.iter().position(|sides| sides[side].last().is_some_and(is_binding));
            let Some(index) = found else { continue };
            let point = self.intervals[index][side].pop().expect("it has a last one");
            let width = peak_value(-FASTEST, FASTEST, |rate| self.width(rate));
            let is_last = self.points(side).next().is_none();
            self.intervals[index][side].push(point);
            if !is_last && best.is_none_or(|(widest, ..)| width > widest) {
                best = Some((width, index, side));
            }
        }
        let Some((_, index, side)) = best else { return false };
        self.intervals[index][side].pop();
        true
    }

    /// The greatest difference, at any time, between this line and others within the bounds.
    fn doubt(&self, middle: f64, rate: f64) -> u64 {
        let edge = |mut outside: f64| {
            let mut inside = rate;
            for _ in 0..60 {
                let between = f64::midpoint(inside, outside);
                if self.width(between) >= 0.0 { inside = between } else { outside = between }
            }
            inside
        };
        let (slowest, fastest) = (edge(-FASTEST), edge(FASTEST));
        let mut widest = 0f64;
        let end = self.until.abs_diff(self.origin.0) as f64;
        // The error grows with the distance from tight bounds, so the maximum is at an end or at a
        // bound.
        let times = [0.0, end]
            .into_iter()
            .chain([0, 1].into_iter().flat_map(|side| self.points(side).map(|it| it.at)));
        for at in times {
            let line = middle + rate * at;
            let most = peak_value(slowest, fastest, |rate| self.room(rate).1 + rate * at);
            let least = -peak_value(slowest, fastest, |rate| -(self.room(rate).0 + rate * at));
            widest = widest.max(most - line).max(line - least);
        }
        widest.ceil() as u64
    }

    /// The line for packets of one direction only. It assumes a transit time of zero for the
    /// fastest packet and equal rates.
    fn one_way(&self) -> Part {
        let (least, most) = self.room(0.0);
        self.part(if least.is_finite() { least } else { most }, 0.0, Doubt::OneWay)
    }

    fn part(&self, intercept: f64, rate: f64, doubt: Doubt) -> Part {
        let offset = self.origin.1.saturating_add(intercept.round() as i64);
        let line = Line { from: Time(self.origin.0), offset, rate };
        Part { line, until: Time(self.until), packets: self.packets, doubt }
    }
}

/// The position of the maximum of a function that rises and then falls.
fn peak(mut from: f64, mut to: f64, value: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..80 {
        let third = (to - from) / 3.0;
        let (left, right) = (from + third, to - third);
        if value(left) < value(right) { from = left } else { to = right }
    }
    f64::midpoint(from, to)
}

fn peak_value(from: f64, to: f64, value: impl Fn(f64) -> f64) -> f64 {
    value(peak(from, to, &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    /// The bounds from packets between two capture points over some seconds, for a clock with this
    /// offset and rate. `ways` are the least transit times in both directions, in nanoseconds. A
    /// packet takes up to a hundred times longer.
    fn bounds(offset: i64, rate: f64, ways: [i64; 2], seconds: i64, seed: u64) -> Vec<Bound> {
        let mut random = seed | 1;
        let mut next = move |below: i64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below.max(1) as u64) as i64
        };
        let mut all = Vec::new();
        for index in 0..2_000 {
            let at = index * seconds * SECOND / 2_000 + next(100_000);
            let truth = offset + (rate * at as f64) as i64;
            let is_least = index % 2 == 0;
            // One packet in sixteen is fast.
            let queued = if next(16) == 0 { 0 } else { next(100 * ways[0]) };
            let way = ways[usize::from(!is_least)] + queued;
            all.push(Bound { at, offset: if is_least { truth - way } else { truth + way }, is_least });
        }
        all
    }

    #[track_caller]
    fn check(tie: &Tie, offset: i64, rate: f64, seconds: i64) {
        let Some(Doubt::Within(doubt)) = tie.doubt() else { panic!("{tie:?}") };
        for at in (0..=8).map(|eighth| eighth * seconds * SECOND / 8) {
            let truth = at + offset + (rate * at as f64) as i64;
            let actual = tie.clock().convert(Time(at)).0;
            assert!(actual.abs_diff(truth) <= doubt + 2, "at {at}: {} off, {doubt} stated", actual - truth);
        }
    }

    #[test]
    fn fastest_packets_of_both_directions_bound_the_offset() {
        let tie = Tie::new(bounds(-3_600 * SECOND, 40e-6, [20_000, 20_000], 100, 7));
        check(&tie, -3_600 * SECOND, 40e-6, 100);
        let [part] = tie.parts[..] else { panic!("{tie:?}") };
        assert!((part.line.rate - 40e-6).abs() < 1e-8, "{part:?}");
        let Doubt::Within(doubt) = part.doubt else { panic!("{part:?}") };
        // Half a round trip, and little more.
        assert!((20_000..30_000).contains(&doubt), "{doubt}");
        assert_eq!(part.packets, [1_000, 1_000]);
    }

    #[test]
    fn mismatched_packets_are_tolerated() {
        let mut all = bounds(SECOND, 0.0, [20_000, 20_000], 10, 3);
        all[500].offset = SECOND + 40_000_000;
        all[501].offset = SECOND - 40_000_000;
        check(&Tie::new(all), SECOND, 0.0, 10);
    }

    #[test]
    fn clock_steps_split_the_tie_into_parts() {
        let mut all = bounds(0, 0.0, [20_000, 20_000], 20, 5);
        all.iter_mut().filter(|bound| bound.at > 10 * SECOND).for_each(|bound| bound.offset += 3 * SECOND);
        let tie = Tie::new(all);
        assert!(tie.parts.len() > 1);
        let shift = |at: i64| tie.clock().convert(Time(at)).0 - at;
        assert!(shift(SECOND).abs() < 100_000, "{}", shift(SECOND));
        assert!((shift(19 * SECOND) - 3 * SECOND).abs() < 100_000, "{}", shift(19 * SECOND));
    }

    /// The offset of each packet is random, so no line fits any part.
    #[test]
    fn clocks_that_disagree_at_random_have_few_parts() {
        let mut all = Vec::new();
        for (index, bound) in
            bounds(0, 0.0, [20_000, 20_000], 10, 7).into_iter().cycle().take(20_000).enumerate()
        {
            let at = index as i64 * 1_000_000;
            let offset = bound.offset + (index as i64 * 7919 % 97) * 100_000;
            all.push(Bound { at, offset, ..bound });
        }
        let tie = Tie::new(all);
        assert_eq!(tie.parts.len(), MOST_PARTS);
        assert!(matches!(tie.doubt(), Some(Doubt::Contradicted(_))));
        assert!(tie.parts.is_sorted_by_key(|part| part.until));
        assert_eq!(tie.parts.iter().map(|part| part.packets[0] + part.packets[1]).sum::<u64>(), 20_000);
    }

    /// Programs stamp their own packets late: some by more than a millisecond.
    #[test]
    fn late_time_stamps_are_no_steps_of_the_clock() {
        let mut all = bounds(500, 0.0, [2_000, 2_000], 1, 11);
        for (index, bound) in all.iter_mut().enumerate() {
            let late = if index % 200 == 7 { 3_000_000 } else { 100_000 * i64::from(index % 6 == 0) };
            bound.offset += if bound.is_least { late } else { -late };
        }
        let tie = Tie::new(all);
        assert_eq!(tie.parts.len(), 1, "{tie:?}");
        assert!(matches!(tie.doubt(), Some(Doubt::Contradicted(1..=INACCURACY))), "{tie:?}");
        let shift = tie.clock().convert(Time(0)).0;
        assert!((shift - 500).abs() < 200_000, "{shift}");
    }

    /// The few bounds of one side do not fit those of the other.
    #[test]
    fn the_last_bound_of_a_side_counts() {
        let mut all = bounds(0, 0.0, [20_000, 20_000], 10, 13);
        all.retain(|bound| bound.is_least);
        all.push(Bound { at: 5 * SECOND, offset: -SECOND, is_least: false });
        let tie = Tie::new(all);
        assert!(matches!(tie.doubt(), Some(Doubt::Contradicted(_))), "{tie:?}");
        assert!(tie.clock().convert(Time(0)).0.abs() < 2 * SECOND, "{tie:?}");
    }

    #[test]
    fn one_direction_gives_a_one_way_bound() {
        let mut all = bounds(500, 0.0, [20_000, 20_000], 1, 9);
        all.retain(|bound| bound.is_least);
        let tie = Tie::new(all);
        assert_eq!(tie.doubt(), Some(Doubt::OneWay));
        assert_eq!(tie.clock().convert(Time(0)), Time(500 - 20_000));
        assert_eq!(Tie::new(Vec::new()).doubt(), None);
    }

    /// The times in a capture can have any values.
    #[test]
    fn extreme_bounds_do_not_overflow() {
        let bound = |at, offset, is_least| Bound { at, offset, is_least };
        let tie = Tie::new(vec![bound(i64::MIN, i64::MAX, true), bound(i64::MAX, i64::MIN, false)]);
        tie.clock().convert(Time(i64::MAX));
        assert_eq!(tie.parts.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// For any transit times in either direction, the error is within the stated bound.
        #[test]
        fn the_error_is_within_the_stated_bound(
            offset in -86_400 * SECOND..86_400 * SECOND,
            parts_in_a_million in -400i32..400,
            forward in 1_000i64..5_000_000,
            backward in 1_000i64..5_000_000,
            seconds in 1i64..600,
            seed in any::<u64>(),
        ) {
            let rate = f64::from(parts_in_a_million) * 1e-6;
            check(&Tie::new(bounds(offset, rate, [forward, backward], seconds, seed)), offset, rate, seconds);
        }
    }
}
