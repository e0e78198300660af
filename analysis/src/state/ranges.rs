//! The byte ranges that a lock-owner has locked in a file, bounded.

/// Byte ranges, in order, that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// First byte, and last byte.
    ranges: Vec<(u64, u64)>,
    /// There were more than [`Ranges::MOST`]: which are left is not known.
    is_lost: bool,
}

impl Ranges {
    /// Ranges that are kept.
    pub const MOST: usize = 64;

    /// First and last byte of an offset and a length, where the highest length stands for all that follows (RFC 8881, section 18.10.3).
    fn bounds(offset: u64, length: u64) -> Option<(u64, u64)> {
        match length {
            0 => None,
            u64::MAX => Some((offset, u64::MAX)),
            length => Some((offset, offset.saturating_add(length - 1))),
        }
    }

    /// Adds one.
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

    /// Takes one away.
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

    /// Whether it is known that nothing is locked.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.is_lost
    }

    /// First byte and last byte of each, in order.
    pub fn list(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}
