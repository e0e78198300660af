//! The byte ranges that a lock-owner has locked in a file, bounded.

/// Byte ranges, in order, that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The first and the last byte of each range.
    ranges: Vec<(u64, u64)>,
    /// Whether there were more than [`Ranges::MOST`], so that the locked ranges are not fully
    /// known.
    is_lost: bool,
}

impl Ranges {
    /// The most ranges that are kept.
    pub const MOST: usize = 64;

    /// The first and the last byte of a range. The greatest length means up to the end of the file
    /// (RFC 8881, section 18.10.3).
    fn bounds(offset: u64, length: u64) -> Option<(u64, u64)> {
        match length {
            0 => None,
            u64::MAX => Some((offset, u64::MAX)),
            length => Some((offset, offset.saturating_add(length - 1))),
        }
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, offset: u64, length: u64) {
        let Some((mut first, mut last)) = Ranges::bounds(offset, length) else { return };
        self.ranges.retain(|range| {
            let touches = range.0 <= last.saturating_add(1) && first <= range.1.saturating_add(1);
            if touches {
                (first, last) = (first.min(range.0), last.max(range.1));
            }
            !touches
        });
        let at = self.ranges.partition_point(|range| *range < (first, last));
        if self.ranges.len() < Ranges::MOST {
            self.ranges.insert(at, (first, last));
        } else {
            self.is_lost = true;
        }
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, offset: u64, length: u64) {
        let Some((first, last)) = Ranges::bounds(offset, length) else { return };
        if (first, last) == (0, u64::MAX) {
            *self = Ranges::default();
            return;
        }
        let mut left = Vec::with_capacity(self.ranges.len() + 1);
        for range in self.ranges.drain(..) {
            if range.0 < first {
                left.push((range.0, range.1.min(first - 1)));
            }
            if range.1 > last {
                left.push((range.0.max(last + 1), range.1));
            }
        }
        self.is_lost |= left.len() > Ranges::MOST;
        left.truncate(Ranges::MOST);
        self.ranges = left;
    }

    /// Whether it is certain that nothing is locked.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.is_lost
    }

    /// The first and the last byte of each range, in order.
    pub fn list(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}
