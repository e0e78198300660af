//! The order of rows.

use super::Rows;
use core::cmp::Ordering;
use rdmascope_analysis::names::Label;
use std::collections::BTreeMap;

/// The criteria by which rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The order in which they ended.
    #[default]
    Number,
    /// The longest wait first; rows for which it is unknown last.
    Latency,
    /// The most bytes moved first.
    Moved,
    /// By operation, then by number.
    Operation,
}

impl Sort {
    /// All criteria, in the order in which a key cycles through them.
    pub const ALL: [Sort; 4] = [Sort::Number, Sort::Latency, Sort::Moved, Sort::Operation];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Sort::Number => "number",
            Sort::Latency => "latency",
            Sort::Moved => "bytes moved",
            Sort::Operation => "operation",
        }
    }

    /// Sorts ascending indices into `rows`. Equal rows keep their order.
    pub fn sort(self, rows: &Rows, order: &mut [u32]) {
        let row = |index: &u32| &rows[*index as usize];
        match self {
            Sort::Number => order.sort_unstable(),
            Sort::Latency => order.sort_by_cached_key(|index| core::cmp::Reverse(row(index).waited)),
            Sort::Moved => order.sort_by_cached_key(|index| core::cmp::Reverse(row(index).bytes)),
            Sort::Operation => {
                // There are few labels and many rows.
                let mut labels: BTreeMap<Label, usize> = BTreeMap::new();
                for index in order.iter() {
                    labels.insert(row(index).label, 0);
                }
                let mut names: Vec<Label> = labels.keys().copied().collect();
                names.sort_by_key(Label::to_string);
                labels.extend(names.into_iter().enumerate().map(|(place, label)| (label, place)));
                order.sort_by_cached_key(|index| labels[&row(index).label]);
            }
        }
    }

    /// Inserts further indices into a sorted order, which is `reversed` or not. Returns the new
    /// position of the entry at `at`.
    pub fn insert(
        self,
        rows: &Rows,
        order: &mut Vec<u32>,
        mut new: Vec<u32>,
        reversed: bool,
        at: usize,
    ) -> usize {
        self.sort(rows, &mut new);
        if reversed {
            new.reverse();
        }
        let old = core::mem::take(order);
        order.reserve(old.len() + new.len());
        let (mut taken, mut at_now) = (0, at);
        for index in new {
            let is_before = |other: &u32| match self.compare(rows, *other, index) {
                Ordering::Greater => reversed,
                Ordering::Less => !reversed,
                Ordering::Equal => false,
            };
            let place = taken + old[taken..].partition_point(is_before);
            order.extend_from_slice(&old[taken..place]);
            order.push(index);
            at_now += usize::from(place <= at);
            taken = place;
        }
        order.extend_from_slice(&old[taken..]);
        at_now
    }

    fn compare(self, rows: &Rows, a: u32, b: u32) -> Ordering {
        let (one, other) = (&rows[a as usize], &rows[b as usize]);
        let by_key = match self {
            Sort::Number => Ordering::Equal,
            Sort::Latency => other.waited.cmp(&one.waited),
            Sort::Moved => other.bytes.cmp(&one.bytes),
            Sort::Operation if one.label == other.label => Ordering::Equal,
            Sort::Operation => one.label.to_string().cmp(&other.label.to_string()),
        };
        by_key.then(a.cmp(&b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, RowMaker};
    use rdmascope_dissector::record::Time;
    use rdmascope_tests::values;

    /// Rows inserted in parts are sorted as if inserted at once, and the selected row stays
    /// selected.
    #[test]
    fn later_rows_are_inserted_in_order() {
        let row = RowMaker::default().row(&values::read(7, 10), Time(0), 10);
        let labels = [Label::Named("READ"), Label::Operation(9), Label::Unknown, Label::Named("ACCESS")];
        let row = |place: u64| Row {
            number: place + 1,
            waited: (place % 7 != 3).then_some(place * 37 % 11),
            bytes: place * 13 % 5,
            label: labels[place as usize % 4],
            ..row.clone()
        };
        let rows: Rows = (0..200).map(row).collect();
        for sort in Sort::ALL {
            for reversed in [false, true] {
                let mut all: Vec<u32> = (0..200).filter(|index| index % 3 != 0).collect();
                sort.sort(&rows, &mut all);
                if reversed {
                    all.reverse();
                }
                let mut order = Vec::new();
                let (mut from, mut chosen, mut at) = (0, None, 0);
                for to in [1, 2, 50, 51, 120, 200] {
                    let new = (from..to).filter(|index| index % 3 != 0).collect();
                    at = sort.insert(&rows, &mut order, new, reversed, at);
                    if let Some(chosen) = chosen {
                        assert_eq!(order[at], chosen, "{sort:?} {reversed}");
                    }
                    from = to;
                    at = order.len() / 2;
                    chosen = order.get(at).copied();
                }
                assert_eq!(order, all, "{sort:?} {reversed}");
            }
        }
    }
}
