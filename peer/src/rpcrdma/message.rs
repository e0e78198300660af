//! Reduction of messages and its reversal (RFC 8166, section 3.4).

use alloc::vec::Vec;
use core::ops::Range;

/// Why a message cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// An item overlaps another, or is past the end of the message.
    #[error("an item does not fit at position {0}")]
    Position(u32),
}

/// Removes the `items` and their XDR padding from a message. Returns `None` if an item is outside
/// the message, does not begin at a multiple of four, or overlaps the previous one.
pub fn reduce(message: &[u8], items: &[Range<usize>]) -> Option<Vec<u8>> {
    let mut reduced = Vec::with_capacity(message.len());
    let mut from = 0;
    for item in items {
        if item.start < from || item.end < item.start || item.start % 4 != 0 {
            return None;
        }
        message.get(item.clone())?;
        reduced.extend_from_slice(message.get(from..item.start)?);
        from = item.end.next_multiple_of(4).min(message.len());
    }
    reduced.extend_from_slice(message.get(from..)?);
    Some(reduced)
}

/// Reverses a reduction: inserts each item with its padding at its position in the original
/// message. Returns the message and the ranges of the items.
pub fn restore(
    reduced: &[u8],
    items: &[(u32, Vec<u8>)],
) -> Result<(Vec<u8>, Vec<Range<usize>>), RestoreError> {
    let mut message =
        Vec::with_capacity(reduced.len() + items.iter().map(|(_, item)| item.len() + 3).sum::<usize>());
    let (mut rest, mut places) = (reduced, Vec::with_capacity(items.len()));
    for (position, item) in items {
        let before = (*position as usize).checked_sub(message.len());
        let split = before.and_then(|before| rest.split_at_checked(before));
        let (before, after) = split.ok_or(RestoreError::Position(*position))?;
        message.extend_from_slice(before);
        places.push(message.len()..message.len() + item.len());
        message.extend_from_slice(item);
        message.resize(message.len().next_multiple_of(4), 0);
        rest = after;
    }
    message.extend_from_slice(rest);
    Ok((message, places))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;

    #[test]
    fn reduction_and_restoration_round_trip() {
        let message = b"headAAAAA\0\0\0middBBBBtail";
        let reduced = reduce(message, &[4..9, 16..19]).unwrap();
        assert_eq!(reduced, b"headmiddtail");
        let restored = restore(&reduced, &[(4, b"AAAAA".to_vec()), (16, b"BBB".to_vec())]).unwrap();
        // The nonzero padding of the second item is not conveyed.
        assert_eq!(restored, (b"headAAAAA\0\0\0middBBB\0tail".to_vec(), vec![4..9, 16..19]));
    }

    #[test]
    fn invalid_ranges_and_positions_are_refused() {
        assert_eq!(reduce(b"12345678", &[2..4]), None);
        assert_eq!(reduce(b"12345678", &[4..9]), None);
        assert_eq!(reduce(b"12345678", &[4..6, 4..8]), None);
        assert_eq!(reduce(b"12345678", &[8..8]), Some(b"12345678".to_vec()));
        assert_eq!(restore(b"1234", &[(5, vec![1])]), Err(RestoreError::Position(5)));
        assert_eq!(restore(b"1234", &[(4, vec![1]), (4, vec![1])]), Err(RestoreError::Position(4)));
        assert_eq!(restore(b"1234", &[(4, vec![1])]), Ok((b"1234\x01\0\0\0".to_vec(), vec![4..5])));
    }
}
