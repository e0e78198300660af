//! Captures of the same connections at several places, joined: at the client and at the server, say.
//!
//! A packet has the same bytes wherever it passes ([`Identity`](rdmascope_dissector::frame::Identity)). A [`Sample`] of each place finds packets that
//! several show; from these the clocks are tied ([`Tie`]), and it is known which end of each connection a place is nearer to. What the places show is then one capture on
//! one clock, in which each packet counts once. Where it was seen and when, a [`Tally`] takes down: how long packets took between the places, which of them never came, and
//! what of the time of each transaction passed on the way ([`Split`]).

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

/// The most places that are joined.
pub const MOST_PLACES: usize = 4;

/// Places whose clocks are tied to that of the first.
#[derive(Clone, Debug)]
pub struct Places {
    /// In the order in which they were given.
    pub places: Vec<Place>,
    /// In which order a packet passes the places on its way.
    order: HashMap<Route, Vec<usize>, FixedState>,
    /// The longest that a packet was seen to take from one place to another, in nanoseconds.
    longest: u64,
}

/// A place where a capture was made.
#[derive(Clone, Debug)]
pub struct Place {
    /// What it is called: the name of its first file.
    pub name: String,
    /// How its clock is told by that of the first place; `None` for that one.
    pub tie: Option<Tie>,
    /// Hosts that it is nearer to than any other place.
    pub near: Vec<Address>,
}

/// Why places cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjoinable {
    /// There are more than [`MOST_PLACES`].
    #[error("{0} places: at most {MOST_PLACES} can be joined")]
    TooMany(usize),
    /// Two places show no packet in common.
    #[error(
        "{0} and {1} show no packet in common: captures of one connection at the same time are joined, of whole packets or with the same snap length"
    )]
    NothingInCommon(String, String),
}

impl Places {
    /// Ties places, of each of which there is a name and a sample.
    pub fn tie(samples: Vec<(String, Sample)>) -> Result<Places, Unjoinable> {
        if samples.len() > MOST_PLACES {
            return Err(Unjoinable::TooMany(samples.len()));
        }
        let mut places = Vec::with_capacity(samples.len());
        // For each route, how far behind the first place each place stands on it.
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
        let mut joined = Places { places, order: order.collect(), longest };
        joined.find_neighbours();
        Ok(joined)
    }

    /// How long after one place another may show a packet, in nanoseconds: somewhat longer than any was seen to take.
    pub fn apart(&self) -> u64 {
        const MOST: u64 = 10_000_000_000;
        (2 * self.longest).saturating_add(2_000_000).min(MOST)
    }

    /// In which order a packet passes places on its way; nothing where no packet of that way was seen at two places.
    pub fn order(&self, route: &Route) -> &[usize] {
        self.order.get(route).map_or(&[], Vec::as_slice)
    }

    /// Which hosts each place is nearest to: what they send passes it first.
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

/// Ties the clock of a place by packets that it and the reference show.
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
    // Of one direction only. Which one it is, does not show; what is said of the tie leaves it open.
    let one_way = |pair: &Pair| Bound {
        at: pair.at[1].0,
        offset: pair.at[0].0.saturating_sub(pair.at[1].0),
        is_least: true,
    };
    Tie::new(pairs.iter().map(one_way).collect())
}

/// Which routes lead away from the reference: what goes there is shown by the other place later than what comes from there, in
/// most intervals of the time. Routes without packets in the other direction are left out.
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

/// For each route, how many nanoseconds behind the reference the other place shows packets; and the most that one took, either way.
fn distances(pairs: &[Pair], clock: &Clock) -> (HashMap<Route, i64, FixedState>, u64) {
    let mut all: HashMap<Route, Vec<i64>, FixedState> = HashMap::default();
    let mut longest = 0;
    for pair in pairs {
        let behind = clock.tell(pair.at[1]).0.saturating_sub(pair.at[0].0);
        longest = longest.max(behind.unsigned_abs());
        all.entry(pair.route).or_default().push(behind);
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
