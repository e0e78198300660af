//! The names that occur in a session, for the completion of filters.

use crate::rows::Row;
use rdmascope_present::column::Value;
use std::collections::BTreeMap;

/// Names, each with a measure of how often it occurs.
pub type Counts = BTreeMap<String, u64>;

/// The names in the transactions so far.
#[derive(Debug, Default)]
pub struct Known {
    lists: [Counts; Known::FIELDS.len()],
    seen: u64,
}

impl Known {
    /// The columns whose values are known.
    pub const FIELDS: [&str; 8] =
        ["operations", "status_name", "connection", "file", "client", "server", "uid", "outcome"];

    /// The most names of one column.
    const MOST: usize = 4096;

    /// After this number of transactions, one of [`Known::SHARE`] is taken.
    const ALL: u64 = 1 << 14;
    const SHARE: u64 = 16;

    /// Takes a transaction.
    pub fn take(&mut self, row: &Row) {
        self.seen += 1;
        if self.seen > Known::ALL && !self.seen.is_multiple_of(Known::SHARE) {
            return;
        }
        for (field, counts) in Known::FIELDS.into_iter().zip(&mut self.lists) {
            let mut add = |text: &str| {
                if let Some(count) = counts.get_mut(text) {
                    *count += 1;
                } else if counts.len() < Known::MOST {
                    counts.insert(text.to_owned(), 1);
                }
            };
            row.value(field, &mut |value| match value {
                Value::Text(text) => add(text),
                Value::Number(number) => add(&number.to_string()),
                Value::Shown(shown) => add(&shown.to_string()),
                Value::Lossy(bytes) => add(&String::from_utf8_lossy(bytes)),
                _ => {}
            });
            // NFSv3 and its relatives have procedures, not operations.
            if field == "operations" && row.operations.is_empty() {
                add(&row.label.to_string());
            }
        }
    }

    /// The values of a column; empty if they are not known.
    pub fn of(&self, field: &str) -> &Counts {
        static NONE: Counts = Counts::new();
        let place = Known::FIELDS.iter().position(|known| *known == field);
        place.map_or(&NONE, |place| &self.lists[place])
    }
}
