//! Lists of a limited length.

use alloc::collections::VecDeque;

/// Appends an item to a list of at most `most` items. If the list is full, removes and returns the
/// oldest item.
pub(crate) fn push<T>(list: &mut VecDeque<T>, most: usize, item: T) -> Option<T> {
    let oldest = if list.len() == most { list.pop_front() } else { None };
    list.push_back(item);
    oldest
}
