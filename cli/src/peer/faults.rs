//! Random network faults that this end injects: lost, duplicated and delayed packets.

use super::lines;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use rdmascope_peer::endpoint::Endpoint;
use rdmascope_peer::interceptor::{Effect, Forward, Interceptor, Matches, Rule, Rules};
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::time::Instant;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Delay of a packet: long enough to be overtaken, and shorter than any timeout.
const LATE: Duration = Duration::from_millis(2);

#[derive(Args, Debug)]
pub(super) struct FaultArguments {
    /// Percentage of packets to lose, in both directions
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = per_mille, hide_default_value = true)]
    loss: u32,
    /// Percentage of packets to send and receive twice
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = per_mille, hide_default_value = true)]
    duplication: u32,
    /// Percentage of packets to delay by 2 ms, so that others overtake them
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = per_mille, hide_default_value = true)]
    reordering: u32,
    /// Seed of the random choice of packets [default: a new one for each run]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Parses a percentage with at most one decimal, into thousandths.
fn per_mille(text: &str) -> Result<u32> {
    let number: f64 = text.trim_end_matches('%').parse().context("expected a percentage such as 1 or 0.5")?;
    let per_mille = number * 10.0;
    if !(0.0..=1000.0).contains(&per_mille) || per_mille.fract() != 0.0 {
        bail!("expected 0 to 100 with at most one decimal");
    }
    Ok(per_mille as u32)
}

/// The faults of one end: loss, duplication, reordering.
#[derive(Clone)]
pub(super) struct Faults(Arc<Mutex<Rules>>);

impl FaultArguments {
    /// Returns whether any fault is requested.
    pub(super) const fn is_requested(&self) -> bool {
        self.loss > 0 || self.duplication > 0 || self.reordering > 0
    }

    /// Injects the faults into an endpoint from now on. Returns `None` if none is requested.
    pub(super) fn begin(&self, endpoint: &mut Endpoint) -> Option<Faults> {
        let effects = [
            (self.loss, Effect::Drop),
            (self.duplication, Effect::Duplicate(LATE)),
            (self.reordering, Effect::Delay(LATE)),
        ];
        if !self.is_requested() {
            return None;
        }
        let rules = effects.map(|(per_mille, effect)| {
            Rule::new(Matches { per_mille: Some(per_mille), ..Matches::default() }, effect)
        });
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(4));
        let faults = Faults(Arc::new(Mutex::new(Rules::new(rules.into(), seed))));
        endpoint.intercept(Some(Box::new(faults.clone())));
        Some(faults)
    }
}

impl Faults {
    /// Returns the number of packets that each fault affected.
    pub(super) fn counts(&self) -> lines::Faults {
        let rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = |index: usize| rules.rules().get(index).map_or(0, Rule::taken);
        lines::Faults { lost: taken(0), repeated: taken(1), delayed: taken(2) }
    }
}

impl Interceptor for Faults {
    fn transmit(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).transmit(now, datagram, forward);
    }

    fn receive(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).receive(now, datagram, forward);
    }
}

#[cfg(test)]
mod tests {
    use super::per_mille;

    #[test]
    fn percentages_are_parsed() {
        for (text, expected) in [("1", Some(10)), ("0.5%", Some(5)), ("100", Some(1000)), ("0", Some(0))] {
            assert_eq!(per_mille(text).ok(), expected);
        }
        for text in ["", "x", "-1", "101", "0.05", "NaN", "inf"] {
            assert!(per_mille(text).is_err(), "{text}");
        }
    }
}
