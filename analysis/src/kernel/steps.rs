//! The time of a host by operation and by steps between the known points.

use super::clock::Window;
use super::point::{Point, Role, Times};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The steps of one operation between the same two points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation, as an index into the caller's list.
    pub(super) operation: u32,
    /// The host's end of the calls.
    pub role: Role,
    /// The point at the start.
    pub from: Point,
    /// The point at the end, which is the next known point.
    pub to: Point,
    /// Whether some of the calls have Read chunks.
    has_reads: bool,
    /// The lengths in nanoseconds, in ascending order.
    times: Vec<u64>,
}

impl Step {
    /// The total time of several steps, in nanoseconds.
    pub fn total_of(steps: &[Step]) -> u64 {
        steps.iter().fold(0, |sum, step| sum.saturating_add(step.total()))
    }

    /// The number of steps.
    pub fn count(&self) -> u64 {
        self.times.len() as u64
    }

    /// A percentile of the lengths, in nanoseconds.
    pub fn percentile(&self, percent: usize) -> u64 {
        let rank = (self.times.len() * percent).div_ceil(100).max(1);
        self.times.get(rank - 1).copied().unwrap_or(0)
    }

    /// The shortest length, in nanoseconds.
    pub fn minimum(&self) -> u64 {
        self.times.first().copied().unwrap_or(0)
    }

    /// The longest length, in nanoseconds.
    pub fn maximum(&self) -> u64 {
        self.times.last().copied().unwrap_or(0)
    }

    /// The total time, in nanoseconds.
    pub fn total(&self) -> u64 {
        self.times.iter().fold(0, |sum, time| sum.saturating_add(*time))
    }

    /// Whether one of its points comes from a packet and the other from the trace, so that its
    /// length depends on the offset of the clocks.
    pub fn crosses_clocks(&self) -> bool {
        self.from.is_packet() != self.to.is_packet()
    }

    /// The activities in it: `dispatch, handler, marshal`.
    pub fn holds(&self) -> String {
        let points = self.role.points().iter();
        let inside = points.filter(|point| (self.from..self.to).contains(point));
        let happens = inside.filter(|point| self.has_reads || **point != Point::Decoded);
        let words: Vec<&str> = happens.map(|point| point.until_next()).collect();
        words.join(", ")
    }
}

/// The operation, the role of the host, and the two points.
type Key = (u32, Role, Point, Point);

/// Whether there were RDMA Reads, and the lengths of the steps.
type Counted = (bool, Vec<u64>);

/// Steps being counted.
#[derive(Debug, Default)]
pub struct Steps {
    by_key: HashMap<Key, Counted, FixedState>,
    /// Steps with an end before their start by more than the uncertainty of the offset. They are
    /// left out.
    pub(super) backward_steps: u64,
}

impl Steps {
    /// Counts the steps of a call. Without an offset, the times of packets are not used.
    pub(super) fn count(
        &mut self,
        operation: u32,
        role: Role,
        times: &Times,
        has_reads: bool,
        window: Option<&Window>,
    ) {
        let known = role.points().iter().filter_map(|point| {
            let time = times.get(*point)?;
            match (point.is_packet(), window) {
                (true, Some(window)) => Some((*point, time.checked_sub(window.offset)?)),
                (true, None) => None,
                (false, _) => Some((*point, time)),
            }
        });
        let mut before: Option<(Point, i64)> = None;
        for (point, time) in known {
            if let Some((from, start)) = before {
                let allowed = match (from.is_packet() != point.is_packet(), window) {
                    (true, Some(window)) => {
                        window.uncertainty.map_or(i64::MAX, |by| i64::try_from(by).unwrap_or(i64::MAX))
                    }
                    _ => 0,
                };
                let length = time.saturating_sub(start);
                if length < 0 && length.saturating_neg() > allowed.saturating_add(1_000) {
                    self.backward_steps += 1;
                } else {
                    let step = self.by_key.entry((operation, role, from, point)).or_default();
                    step.0 |= has_reads;
                    step.1.push(u64::try_from(length).unwrap_or(0));
                }
            }
            before = Some((point, time));
        }
    }

    /// All steps, by role, operation, and the order of the points.
    pub(super) fn into_list(self) -> Vec<Step> {
        let mut list: Vec<Step> = self
            .by_key
            .into_iter()
            .map(|((operation, role, from, to), (has_reads, mut times))| {
                times.sort_unstable();
                Step { operation, role, from, to, has_reads, times }
            })
            .collect();
        list.sort_by_key(|step| (step.role, step.operation, step.from, step.to));
        list
    }
}
