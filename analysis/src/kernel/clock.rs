//! Ties the clock of a trace to that of a capture.
//!
//! The clock of a trace is unknown (tracefs: `trace_clock`) and usually starts with the host. But a
//! call is marshalled before its first packet passes, and its reply is matched after its last
//! packet passed. So each transaction bounds the offset from both sides:
//!
//! ```text
//! trace      marshal ----------------------------------> reply matched
//! capture             first packet ...... last packet
//!            |<-- offset <= first packet - marshal
//!                      offset >= last packet - reply matched -->|
//! ```
//!
//! The offset lies in the intersection of the intervals of all transactions, and its width gives
//! the uncertainty. Clocks drift and are stepped. If no offset fits all transactions, the time is
//! halved until one fits each part.

/// The bounds of one transaction on the offset, which is the capture's time minus the trace's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The time of the transaction, by the trace's clock.
    pub(super) at: i64,
    /// The lower bound; `i64::MIN` if there is none.
    pub(super) least: i64,
    /// The upper bound; `i64::MAX` if there is none.
    pub(super) most: i64,
}

/// The offset for a part of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The time of its first transaction by the trace's clock, in nanoseconds.
    pub from: i64,
    /// The time of its last transaction by the trace's clock, in nanoseconds.
    pub until: i64,
    /// Nanoseconds to add to a time of the trace.
    pub offset: i64,
    /// The greatest error of the offset in either direction, in nanoseconds. `None` if the offset
    /// is bounded from one side only; it is then equal to that bound.
    pub uncertainty: Option<u64>,
    /// Transactions that agree with it.
    pub agreeing: u32,
    /// Transactions that disagree with it.
    pub disagreeing: u32,
}

/// The offsets between the clock of a trace and that of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The windows in order of time; none if nothing ties the clocks.
    pub windows: Vec<Window>,
    /// Transactions in parts that have no consistent offset.
    pub untied: u32,
}

/// One in this many transactions may disagree with the offset, because it was joined wrongly or
/// because the capture shows only a retransmission.
const TOLERATED: usize = 16;
/// A part with fewer than twice this many transactions is not halved further.
const FEWEST: usize = 4;

impl Clock {
    /// Ties the clocks.
    pub(super) fn tie(mut bounds: Vec<Bound>) -> Clock {
        bounds.sort_unstable_by_key(|bound| bound.at);
        let mut clock = Clock::default();
        clock.tie_part(&bounds);
        clock
    }

    fn tie_part(&mut self, bounds: &[Bound]) {
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return };
        let (least, most, agreeing) = meeting(bounds);
        if bounds.len() - agreeing <= bounds.len() / TOLERATED {
            let offset = match (least, most) {
                (i64::MIN, i64::MAX) => return,
                (i64::MIN, most) => most,
                (least, i64::MAX) => least,
                (least, most) => i64::midpoint(least, most),
            };
            let is_bounded = least != i64::MIN && most != i64::MAX;
            return self.windows.push(Window {
                from: first.at,
                until: last.at,
                offset,
                uncertainty: is_bounded.then(|| (most.abs_diff(least)).div_ceil(2)),
                agreeing: agreeing as u32,
                disagreeing: (bounds.len() - agreeing) as u32,
            });
        }
        if bounds.len() < 2 * FEWEST {
            self.untied += bounds.len() as u32;
            return;
        }
        let (front, back) = bounds.split_at(bounds.len() / 2);
        self.tie_part(front);
        self.tie_part(back);
    }

    /// The window nearest to a time of the trace.
    pub fn window(&self, at: i64) -> Option<&Window> {
        let next = self.windows.partition_point(|window| window.until < at);
        let after = self.windows.get(next);
        let before = next.checked_sub(1).and_then(|index| self.windows.get(index));
        match (before, after) {
            (Some(before), Some(after)) => {
                let (since, until) = (at.abs_diff(before.until), after.from.saturating_sub(at));
                Some(if i64::try_from(since).unwrap_or(i64::MAX) < until { before } else { after })
            }
            (one, other) => one.or(other),
        }
    }

    /// The greatest error of the offsets; `None` if an offset is bounded from one side only, or
    /// there is none.
    pub fn uncertainty(&self) -> Option<u64> {
        let widest = self.windows.iter().map(|window| window.uncertainty.unwrap_or(u64::MAX)).max();
        widest.filter(|width| *width != u64::MAX)
    }
}

/// The intersection of the most intervals: its bounds, and the number of intervals.
fn meeting(bounds: &[Bound]) -> (i64, i64, usize) {
    // Intervals include their ends, so starts sort before ends at the same value.
    let mut edges: Vec<(i64, bool)> = Vec::with_capacity(2 * bounds.len());
    for bound in bounds.iter().filter(|bound| bound.least <= bound.most) {
        edges.push((bound.least, false));
        edges.push((bound.most, true));
    }
    edges.sort_unstable();
    let (mut open, mut best) = (0usize, (i64::MIN, i64::MAX, 0usize));
    let mut edges = edges.into_iter().peekable();
    while let Some((at, is_end)) = edges.next() {
        if is_end {
            open -= 1;
            continue;
        }
        open += 1;
        if open > best.2 {
            // More intervals may start before the next one ends.
            if let Some((until, true)) = edges.peek() {
                best = (at, *until, open);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::{Bound, Clock};

    fn bound(at: i64, least: i64, most: i64) -> Bound {
        Bound { at, least, most }
    }

    #[test]
    fn the_offset_is_where_all_bounds_overlap() {
        let clock = Clock::tie(vec![bound(1, 100, 200), bound(2, 150, 300), bound(3, 90, 170)]);
        let [window] = clock.windows[..] else { panic!("{clock:?}") };
        assert_eq!((window.offset, window.uncertainty, window.agreeing), (160, Some(10), 3));
        assert_eq!(clock.window(1_000).unwrap().offset, 160);
    }

    #[test]
    fn one_outlier_among_many_is_tolerated() {
        let mut bounds: Vec<_> = (0..40).map(|at| bound(at, 100 - at, 200 + at)).collect();
        bounds.push(bound(20, 5_000, 5_100));
        let clock = Clock::tie(bounds);
        let [window] = clock.windows[..] else { panic!("{clock:?}") };
        assert_eq!((window.offset, window.agreeing, window.disagreeing), (150, 40, 1));
    }

    #[test]
    fn a_drifting_clock_has_several_windows() {
        // 1 unit of drift for each unit of time, intervals 64 wide.
        let clock = Clock::tie((0..1000).map(|at| bound(at, at, at + 64)).collect());
        assert!(clock.windows.len() > 8, "{}", clock.windows.len());
        assert_eq!(clock.untied, 0);
        for at in 0..1000 {
            let window = clock.window(at).unwrap();
            let wrong = window.offset.abs_diff(at + 32);
            assert!(wrong <= window.uncertainty.unwrap() + 64, "at {at}: {window:?}");
        }
    }

    #[test]
    fn one_sided_bounds_have_no_uncertainty() {
        let clock = Clock::tie(vec![bound(1, i64::MIN, 200), bound(2, i64::MIN, 180)]);
        assert_eq!((clock.windows[0].offset, clock.windows[0].uncertainty), (180, None));
        assert_eq!(clock.uncertainty(), None);
    }

    /// A trace is text from an untrusted source, so its times can have any value.
    #[test]
    fn extreme_bounds_do_not_overflow() {
        let clock = Clock::tie(vec![bound(1, i64::MIN + 1, i64::MAX - 1)]);
        assert_eq!((clock.windows[0].offset, clock.windows[0].uncertainty), (0, Some(i64::MAX as u64)));
    }

    #[test]
    fn contradictory_bounds_tie_nothing() {
        let clock = Clock::tie(vec![bound(1, 100, 110), bound(2, 500, 510)]);
        assert_eq!((clock.windows.len(), clock.untied), (0, 2));
        assert_eq!(Clock::tie(Vec::new()), Clock::default());
    }
}
