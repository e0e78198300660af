//! Pairing of expected lines with lines found.

use super::lines::Line;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Expected lines and lines found, with their pairing.
pub(super) struct Pairs<'a> {
    pub(super) expected: &'a [Line],
    pub(super) found: &'a [Line],
    /// For each expected line, the index of its counterpart.
    of_expected: Vec<Option<usize>>,
    /// For each line found, the index of its counterpart.
    of_found: Vec<Option<usize>>,
}

/// The side of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Expected,
    Found,
}

impl<'a> Pairs<'a> {
    /// Creates the pairing, with no pairs yet.
    pub(super) fn new(expected: &'a [Line], found: &'a [Line]) -> Pairs<'a> {
        let (of_expected, of_found) = (vec![None; expected.len()], vec![None; found.len()]);
        Pairs { expected, found, of_expected, of_found }
    }

    /// Pairs the remaining lines that have the same key, in order: the first with the first.
    pub(super) fn pair<K: Hash + Eq>(&mut self, key: impl Fn(Side, &'a Line) -> Option<K>) {
        let mut waiting: HashMap<K, VecDeque<usize>> = HashMap::new();
        for (index, line) in self.expected.iter().enumerate() {
            if self.of_expected[index].is_none()
                && let Some(key) = key(Side::Expected, line)
            {
                waiting.entry(key).or_default().push_back(index);
            }
        }
        for (found, line) in self.found.iter().enumerate() {
            if self.of_found[found].is_none()
                && let Some(key) = key(Side::Found, line)
                && let Some(expected) = waiting.get_mut(&key).and_then(VecDeque::pop_front)
            {
                self.of_found[found] = Some(expected);
                self.of_expected[expected] = Some(found);
            }
        }
    }

    /// The pairs, in the order of the expected lines.
    pub(super) fn both(&self) -> impl Iterator<Item = (&'a Line, &'a Line)> {
        let found = |(line, of): (&'a Line, &Option<usize>)| of.map(|index| (line, &self.found[index]));
        self.expected.iter().zip(&self.of_expected).filter_map(found)
    }

    /// Expected lines without a counterpart.
    pub(super) fn missing(&self) -> impl Iterator<Item = &'a Line> {
        let alone = |(line, of): (&'a Line, &Option<usize>)| of.is_none().then_some(line);
        self.expected.iter().zip(&self.of_expected).filter_map(alone)
    }

    /// Lines found without a counterpart.
    pub(super) fn new_ones(&self) -> impl Iterator<Item = &'a Line> {
        let alone = |(line, of): (&'a Line, &Option<usize>)| of.is_none().then_some(line);
        self.found.iter().zip(&self.of_found).filter_map(alone)
    }

    /// The smallest set of pairs whose removal leaves the same order on both sides, which are those
    /// that moved. Indices count from 1.
    pub(super) fn moved(&self) -> Vec<Moved<'a>> {
        let pairs: Vec<(usize, usize)> =
            self.of_expected.iter().enumerate().filter_map(|(index, of)| Some((index, (*of)?))).collect();
        let order: Vec<usize> = pairs.iter().map(|(_, found)| *found).collect();
        let stays = longest_rising(&order);
        let gone = pairs.iter().zip(stays).filter(|(_, stays)| !stays);
        gone.map(|((expected, found), _)| Moved {
            line: &self.expected[*expected],
            expected: expected + 1,
            found: found + 1,
        })
        .collect()
    }
}

/// A line with a different index.
pub(super) struct Moved<'a> {
    /// The expected line.
    pub(super) line: &'a Line,
    pub(super) expected: usize,
    pub(super) found: usize,
}

/// Which of `values`, all different, belong to a longest increasing subsequence.
fn longest_rising(values: &[usize]) -> Vec<bool> {
    // For each length, the index of the lowest end of an increasing subsequence of that length.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let length = ends.partition_point(|end| values[*end] < *value);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut stays = vec![false; values.len()];
    let mut at = ends.last().copied();
    while let Some(index) = at {
        stays[index] = true;
        at = before[index];
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(keys: &[&str]) -> Vec<Line> {
        keys.iter().map(|key| json!({ "key": key }).as_object().unwrap().clone().into()).collect()
    }

    #[test]
    fn equal_keys_are_paired_in_order() {
        let (expected, found) = (lines(&["a", "b", "a", "c"]), lines(&["x", "a", "b", "a", "a"]));
        let mut pairs = Pairs::new(&expected, &found);
        pairs.pair(|_, line| line["key"].as_str());
        assert_eq!(pairs.of_expected, [Some(1), Some(2), Some(3), None]);
        assert_eq!(pairs.missing().collect::<Vec<_>>(), [&expected[3]]);
        assert_eq!(pairs.new_ones().collect::<Vec<_>>(), [&found[0], &found[4]]);
        assert!(pairs.moved().is_empty());
    }

    #[test]
    fn the_fewest_lines_are_moved() {
        for (order, moved) in [
            (&["a", "b", "c", "d"][..], &[][..]),
            (&["b", "c", "d", "a"], &[("a", 1, 4)]),
            (&["d", "a", "b", "c"], &[("d", 4, 1)]),
            (&["a", "new", "d", "b", "c"], &[("d", 4, 3)]),
            (&["c", "d", "b", "a"], &[("a", 1, 4), ("b", 2, 3)]),
        ] {
            let (expected, found) = (lines(&["a", "b", "c", "d"]), lines(order));
            let mut pairs = Pairs::new(&expected, &found);
            pairs.pair(|_, line| line["key"].as_str());
            let actual: Vec<_> = pairs
                .moved()
                .iter()
                .map(|it| (it.line["key"].as_str().unwrap(), it.expected, it.found))
                .collect();
            assert_eq!(actual, moved, "{order:?}");
        }
    }
}
