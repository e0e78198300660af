//! The two ends of a connection.

use core::ops::{Index, IndexMut};

/// One of the two ends of a connection.
///
/// An end keeps its name for as long as the connection keeps its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The end that was seen first.
    #[default]
    First,
    /// The other end.
    Second,
}

impl End {
    /// Both ends, in the order in which an array of two is indexed by them.
    pub const BOTH: [End; 2] = [End::First, End::Second];

    /// Returns the other end of the same connection.
    #[inline]
    pub const fn other(self) -> End {
        match self {
            End::First => End::Second,
            End::Second => End::First,
        }
    }

    /// The value of this end, and that of the other end.
    #[inline]
    pub(crate) fn split<T>(self, both: &mut [T; 2]) -> (&mut T, &mut T) {
        let [first, second] = both;
        match self {
            End::First => (first, second),
            End::Second => (second, first),
        }
    }
}

impl<T> Index<End> for [T; 2] {
    type Output = T;

    #[inline]
    fn index(&self, end: End) -> &T {
        &self[end as usize]
    }
}

impl<T> IndexMut<End> for [T; 2] {
    #[inline]
    fn index_mut(&mut self, end: End) -> &mut T {
        &mut self[end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_indexed_by_end() {
        let mut values = ["first", "second"];
        assert_eq!(End::BOTH.map(|end| values[end]), ["first", "second"]);
        values[End::First.other()] = "changed";
        assert_eq!(values[End::Second], "changed");
        assert_eq!(End::Second.other().other(), End::Second);
    }
}
