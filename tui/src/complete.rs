//! Completion of filter lines: names of filters and columns, and their values in the capture.

use crate::filter::NAMES;
use crate::keys::Action;
use crate::known::Known;
use crate::rows::Row;

/// A choice while a line is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The text of the choice. A completion replaces the last word of the line by it.
    pub word: String,
    /// A description.
    pub help: String,
    /// The action, in a list of actions.
    pub action: Option<Action>,
}

impl Choice {
    /// A choice that is no action.
    pub(crate) fn new(word: impl Into<String>, help: impl Into<String>) -> Choice {
        Choice { word: word.into(), help: help.into(), action: None }
    }
}

/// Names of filters, each with the column that has its values, or with its values.
const OF_FILTERS: [(&str, &str); 8] = [
    ("operation", "operations"),
    ("status", "status_name"),
    ("outcome", "outcome"),
    ("connection", "connection"),
    ("file", "file"),
    ("client", "client"),
    ("server", "server"),
    ("user", "uid"),
];

/// The columns that aliases in expressions refer to.
const OF_COLUMNS: [(&str, &str); 4] =
    [("op", "operations"), ("operation", "operations"), ("status", "status_name"), ("other_file", "file")];

const DIRECTIONS: [&str; 2] = ["forward", "backward"];
const COMPARISONS: [&str; 4] = ["==", "!=", "~", "!~"];

/// The completions of the last word of a filter of transactions.
pub(crate) fn transactions(line: &str, known: &Known) -> Vec<Choice> {
    let (before, word) = line.rsplit_once(' ').unwrap_or(("", line));
    let mut earlier = before.split_whitespace().rev();
    if let (Some(sign), Some(name)) = (earlier.next(), earlier.next())
        && COMPARISONS.contains(&sign)
    {
        let column = OF_COLUMNS.iter().find(|(short, _)| *short == name).map_or(name, |(_, column)| column);
        return values(column, word.trim_start_matches('\''), known, |value| quoted(column, value));
    }
    if let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) {
        if name == "direction" {
            let matching = DIRECTIONS.into_iter().filter(|one| one.starts_with(value) && *one != value);
            return matching.map(|one| Choice::new(format!("direction={one}"), "")).collect();
        }
        let column = OF_FILTERS.iter().find(|(filter, _)| *filter == name).map_or("", |(_, column)| column);
        return values(column, value, known, |value| format!("{name}={value}"));
    }
    names(line, word)
}

fn names(line: &str, word: &str) -> Vec<Choice> {
    let is_expression = COMPARISONS.iter().any(|sign| line.contains(sign)) || line.contains("&&");
    let filters = NAMES.iter().filter(|(name, _)| !is_expression && name.starts_with(word) && *name != word);
    let filters = filters.map(|(name, help)| Choice::new(*name, *help));
    let columns =
        Row::FIELDS.into_iter().filter(|name| !word.is_empty() && name.starts_with(word) && *name != word);
    let columns = columns.map(|name| Choice::new(name, "a column: == != < > ~ in"));
    filters.chain(columns).collect()
}

/// The values of a column that begin with `part`, the most frequent first. Values with spaces
/// cannot be written in a filter line.
fn values(column: &str, part: &str, known: &Known, write: impl Fn(&str) -> String) -> Vec<Choice> {
    let begins = |value: &str| value.get(..part.len()).is_some_and(|front| front.eq_ignore_ascii_case(part));
    let counts = known.of(column).iter();
    let mut found: Vec<_> = counts
        .filter(|(value, _)| begins(value) && *value != part && !value.contains(char::is_whitespace))
        .collect();
    found.sort_by_key(|(_, count)| core::cmp::Reverse(**count));
    found.into_iter().map(|(value, _)| Choice::new(write(value), "")).collect()
}

/// A value as an expression writes it.
fn quoted(column: &str, value: &str) -> String {
    if matches!(column, "file" | "client" | "server") { format!("'{value}'") } else { value.to_owned() }
}

/// Words in the names of opcodes.
const OPCODES: [&str; 8] =
    ["acknowledge", "atomic", "cnp", "invalidate", "read", "response", "send", "write"];

/// The completions of the last word of a filter of packets.
pub(crate) fn packets(line: &str, known: &Known) -> Vec<Choice> {
    let word = line.rsplit(' ').next().unwrap_or_default();
    if let Some(value) = word.strip_prefix("connection=") {
        return values("connection", value, known, |value| format!("connection={value}"));
    }
    let part = word.strip_prefix("opcode=").unwrap_or("-");
    let opcodes = OPCODES.iter().filter(|one| one.starts_with(part) && **one != part);
    let opcodes = opcodes.map(|one| Choice::new(format!("opcode={one}"), ""));
    let begins = |name: &&(&str, &str)| name.0.starts_with(word) && name.0 != word;
    let names = crate::packets::NAMES.iter().filter(begins).map(|(name, help)| Choice::new(*name, *help));
    opcodes.chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowMaker;
    use rdmascope_dissector::record::Time;
    use rdmascope_tests::{samples, session};

    fn words(line: &str) -> Vec<String> {
        let mut maker = RowMaker::default();
        let mut known = Known::default();
        for transaction in session::run(&samples::capture("nfs3-lossy")).transactions {
            known.take(&maker.row(&transaction, Time(0), 1));
        }
        transactions(line, &known).into_iter().map(|one| one.word).collect()
    }

    #[test]
    fn names_and_values_are_completed() {
        assert_eq!(words("").len(), NAMES.len());
        assert_eq!(words("operation=READ lat")[0], "latency-above=");
        assert_eq!(words("operation=re"), ["operation=READ"]);
        assert_eq!(words("found"), [""; 0]);
        assert_eq!(words("connection="), ["connection=1"]);
        assert_eq!(words("file=")[0], "file=l");
        assert!(
            words("status=nfs3err").contains(&"status=NFS3ERR_NOENT".to_owned()),
            "{:?}",
            words("status=nfs3err")
        );
        assert_eq!(words("op == wr"), ["WRITE"]);
        assert_eq!(words("op == READ && lat"), ["latency_ns"]);
        assert_eq!(words("direction=b"), ["direction=backward"]);
    }
}
