//! Joins captures of the same connections at several places, for example at the client and at the
//! server.
//!
//! A packet has the same bytes at every place ([`Identity`](rdmascope_dissector::frame::Identity)).
//! A [`Sample`] of each place finds packets that several places captured. They tie the clocks
//! ([`Tie`]), and show which end of each connection a place is nearer to. The captures then become
//! one capture on one clock, in which each packet counts once. A [`Tally`] notes the places and
//! times of each packet: the transit times between places, the lost packets, and the time that each
//! transaction spent in the network ([`Split`]).

mod arrivals;
mod end_to_end;
mod passes;
mod sample;
mod split;
mod tally;
mod tie;

pub use end_to_end::EndToEnd;
pub use passes::{Pass, Passes};
pub use sample::Sample;
pub use split::{Split, Splits, Sum};
pub use tally::{Located, Tally, Way};
pub use tie::{Doubt, Part, Tie};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rdmascope_capture_agent::Clock;
use rdmascope_dissector::connection::Route;
use rdmascope_dissector::frame::Address;
use sample::Pair;
use tie::Bound;

/// The most places that can be joined.
pub const MOST_CAPTURE_POINTS: usize = 4;

/// Capture points with their clocks tied to that of the first place.
#[derive(Clone, Debug)]
pub struct CapturePoints {
    /// The places in the order in which they were given.
    pub places: Vec<Place>,
    /// The order in which packets of a route pass the places.
    order: HashMap<Route, Vec<usize>, FixedState>,
    /// The longest observed transit time between two places, in nanoseconds.
    longest: u64,
}

/// A place where a capture was made.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name, which is that of its first file.
    pub name: String,
    /// The tie of its clock to that of the first place; `None` for the first place.
    pub tie: Option<Tie>,
    /// Hosts that are nearer to it than to any other place.
    pub near: Vec<Address>,
}

/// The reason why places cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjoinable {
    /// There are more than [`MOST_CAPTURE_POINTS`].
    #[error("{0} places: at most {MOST_CAPTURE_POINTS} can be joined")]
    TooMany(usize),
    /// Two places have no packet in common.
    #[error(
        "{0} and {1} have no packet in common: capture the same connection at the same time, with whole packets or the same snap length"
    )]
    NothingInCommon(String, String),
}

impl CapturePoints {
    /// Ties places, each with a name and a sample.
    pub fn tie(samples: Vec<(String, Sample)>) -> Result<CapturePoints, Unjoinable> {
        if samples.len() > MOST_CAPTURE_POINTS {
            return Err(Unjoinable::TooMany(samples.len()));
        }
        let mut places = Vec::with_capacity(samples.len());
        // For each route, the delay of each place after the first place.
        let mut positions: HashMap<Route, Vec<(i64, usize)>, FixedState> = HashMap::default();
        let mut longest = 0;
        for (index, (name, sample)) in samples.iter().enumerate() {
            let mut tie = None;
            if index > 0 {
                let (reference, first) = &samples[0];
                let pairs = first.pairs(sample);
                if pairs.is_empty() {
                    return Err(Unjoinable::NothingInCommon(reference.clone(), name.clone()));
                }
                let tied = tie_pair(&pairs);
                let (on_routes, farthest) = distances(&pairs, &tied.clock());
                for (route, distance) in on_routes {
                    positions.entry(route).or_default().push((distance, index));
                }
                longest = longest.max(farthest);
                tie = Some(tied);
            }
            places.push(Place { name: name.clone(), tie, near: Vec::new() });
        }
        let order = positions.into_iter().map(|(route, mut others)| {
            others.push((0, 0));
            others.sort_unstable();
            (route, others.into_iter().map(|(_, place)| place).collect())
        });
        let mut joined = CapturePoints { places, order: order.collect(), longest };
        joined.find_neighbours();
        Ok(joined)
    }

    /// The longest time after one place at which another may show a packet, in nanoseconds. It
    /// exceeds the observed transit times.
    pub fn apart(&self) -> u64 {
        const MOST: u64 = 10_000_000_000;
        (2 * self.longest).saturating_add(2_000_000).min(MOST)
    }

    /// The order in which packets of a route pass the places; empty if no packet of it was captured
    /// at two places.
    pub fn order(&self, route: &Route) -> &[usize] {
        self.order.get(route).map_or(&[], Vec::as_slice)
    }

    /// Finds the hosts nearest to each place: their packets pass it first.
    fn find_neighbours(&mut self) {
        for (route, order) in &self.order {
            if let Some(first) = order.first()
                && order.len() > 1
                && !self.places[*first].near.contains(&route.source)
            {
                self.places[*first].near.push(route.source);
            }
        }
        self.places.iter_mut().for_each(|place| place.near.sort_unstable());
    }
}

/// Ties the clock of a place by packets that it and the reference captured.
fn tie_pair(pairs: &[Pair]) -> Tie {
    let away = directions(pairs);
    let bound = |pair: &Pair| {
        let offset = pair.at[0].0.saturating_sub(pair.at[1].0);
        Some(Bound { at: pair.at[1].0, offset, is_least: *away.get(&pair.route)? })
    };
    let bounds: Vec<Bound> = pairs.iter().filter_map(bound).collect();
    if !bounds.is_empty() {
        return Tie::new(bounds);
    }
    // All packets go in one direction. It is unknown which; the doubt of the tie covers both cases.
    let one_way = |pair: &Pair| Bound {
        at: pair.at[1].0,
        offset: pair.at[0].0.saturating_sub(pair.at[1].0),
        is_least: true,
    };
    Tie::new(pairs.iter().map(one_way).collect())
}

/// Finds the routes that lead away from the reference. The delay at the other place is longer for
/// packets of these routes than for those of the opposite route, in most intervals. Routes without
/// packets in the opposite direction are left out.
fn directions(pairs: &[Pair]) -> HashMap<Route, bool, FixedState> {
    const INTERVALS: u64 = 32;
    let first = pairs.iter().map(|pair| pair.at[1]).min().unwrap_or_default();
    let span = pairs.iter().map(|pair| pair.at[1].since(first)).max().unwrap_or_default().max(1);
    let mut offsets: HashMap<(Route, u64), Vec<i64>, FixedState> = HashMap::default();
    for pair in pairs {
        let interval = u128::from(pair.at[1].since(first)) * u128::from(INTERVALS - 1) / u128::from(span);
        let offset = pair.at[0].0.saturating_sub(pair.at[1].0);
        offsets.entry((pair.route, interval as u64)).or_default().push(offset);
    }
    let medians: HashMap<_, _, FixedState> =
        offsets.into_iter().map(|(key, mut all)| (key, median(&mut all))).collect();
    let mut votes: HashMap<Route, i64, FixedState> = HashMap::default();
    for ((route, interval), offset) in &medians {
        if let Some(back) = medians.get(&(opposite(*route), *interval)) {
            *votes.entry(*route).or_default() += (back - offset).signum();
        }
    }
    votes.into_iter().filter(|(_, votes)| *votes != 0).map(|(route, votes)| (route, votes > 0)).collect()
}

/// For each route, the median delay of packets at the other place, in nanoseconds; and the longest
/// transit time in either direction.
fn distances(pairs: &[Pair], clock: &Clock) -> (HashMap<Route, i64, FixedState>, u64) {
    let mut all: HashMap<Route, Vec<i64>, FixedState> = HashMap::default();
    let mut longest = 0;
    for pair in pairs {
        let delay = clock.convert(pair.at[1]).0.saturating_sub(pair.at[0].0);
        longest = longest.max(delay.unsigned_abs());
        all.entry(pair.route).or_default().push(delay);
    }
    (all.into_iter().map(|(route, mut all)| (route, median(&mut all))).collect(), longest)
}

fn median(all: &mut [i64]) -> i64 {
    let middle = all.len() / 2;
    *all.select_nth_unstable(middle).1
}

fn opposite(route: Route) -> Route {
    Route { source: route.destination, destination: route.source }
}

#[cfg(test)]
mod tests;
