//! Many rows, which threads can share.

use super::Row;
use core::ops::Index;
use std::sync::Arc;

/// Rows in pieces. A clone shares the pieces and copies only a pointer for each. Changing a shared
/// piece copies that piece.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// All but the last one have [`PIECE`] rows.
    pieces: Vec<Arc<Vec<Row>>>,
}

/// Rows of a piece.
const PIECE: usize = 1 << 12;

impl Rows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends a row.
    pub fn push(&mut self, row: Row) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => Arc::make_mut(last).push(row),
            _ => self.pieces.push(Arc::new(vec![row])),
        }
    }

    /// The row at this index.
    pub fn get(&self, index: usize) -> Option<&Row> {
        self.pieces.get(index / PIECE)?.get(index % PIECE)
    }

    /// The row at this index, for changes.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Row> {
        Arc::make_mut(self.pieces.get_mut(index / PIECE)?).get_mut(index % PIECE)
    }

    /// All rows.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> + Clone {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// The rows from this index on, each with its index.
    pub(crate) fn iter_from(&self, first: usize) -> impl Iterator<Item = (usize, &Row)> {
        let pieces = self.pieces.get(first / PIECE..).unwrap_or_default();
        let rows = pieces.iter().flat_map(|piece| piece.iter()).skip(first % PIECE);
        (first..).zip(rows)
    }

    /// The index of the transaction with this number; numbers are in ascending order.
    pub fn place(&self, number: u64) -> Option<usize> {
        let piece = self.pieces.partition_point(|piece| piece[0].number <= number).checked_sub(1)?;
        let place = self.pieces[piece].binary_search_by_key(&number, |row| row.number).ok()?;
        Some(piece * PIECE + place)
    }
}

impl Index<usize> for Rows {
    type Output = Row;

    fn index(&self, index: usize) -> &Row {
        &self.pieces[index / PIECE][index % PIECE]
    }
}

impl Extend<Row> for Rows {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

impl FromIterator<Row> for Rows {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Rows {
        let mut all = Rows::default();
        all.extend(rows);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowMaker;
    use rdmascope_conformance::Verdict;
    use rdmascope_dissector::record::Time;
    use rdmascope_tests::values;

    /// Rows of every third transaction.
    fn rows(count: usize) -> Rows {
        let row = RowMaker::default().row(&values::read(7, 10), Time(0), 10);
        (0..count).map(|place| Row { number: place as u64 * 3 + 1, ..row.clone() }).collect()
    }

    #[test]
    fn rows_are_found_by_index_and_number() {
        for count in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let rows = rows(count);
            assert_eq!((rows.len(), rows.is_empty()), (count, count == 0));
            assert_eq!(rows.iter().count(), count);
            assert!(
                rows.iter()
                    .rev()
                    .map(|row| row.number)
                    .eq((0..count as u64).rev().map(|place| place * 3 + 1))
            );
            for place in [0, 1, PIECE - 1, PIECE, PIECE + 1, count.saturating_sub(1), count] {
                let number = (place < count).then_some(place as u64 * 3 + 1);
                assert_eq!(rows.get(place).map(|row| row.number), number);
                assert_eq!(number.and_then(|number| rows.place(number)), number.map(|_| place));
                let rest: Vec<(usize, u64)> =
                    rows.iter_from(place).map(|(at, row)| (at, row.number)).collect();
                let expected: Vec<(usize, u64)> = (place..count).map(|at| (at, at as u64 * 3 + 1)).collect();
                assert_eq!(rest, expected);
            }
            assert_eq!(rows.place(0), None);
            assert_eq!(rows.place(2), None);
        }
    }

    /// A clone does not see later changes.
    #[test]
    fn clones_do_not_change() {
        let mut rows = rows(PIECE + 2);
        let before = rows.clone();
        rows.get_mut(PIECE).expect("the row exists").take(Verdict::Certain);
        rows.push(before[0].clone());
        assert_eq!((before[PIECE].mark, before.len()), (None, PIECE + 2));
        assert_eq!((rows[PIECE].mark, rows.len()), (Some(Verdict::Certain), PIECE + 3));
        assert_eq!(rows.get_mut(PIECE + 3).map(|row| row.number), None);
    }
}
