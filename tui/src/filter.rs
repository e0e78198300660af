//! The filter line: the filters of the command line, without their dashes, and words to find in a
//! row.
//!
//! A line may also be an expression, as for `--where`:
//! `op == READ && latency > 5ms && file ~ '*.dat'`.
//!
//! `operation=READ latency-above=5ms status=error connection=2 xid=0x1a2b3c4d`
//! `outcome=no-reply direction=backward` is a line of filters. A row has to match all different
//! filters; if a filter is given more than once, one of its values has to match, as on the command
//! line.

use crate::rows::Row;
use rdmascope_analysis::filter::{
    AddressPattern, StatusFilter, TransactionFilter, UserPattern, operation_names, parse_number, status_names,
};
use rdmascope_analysis::names;
use rdmascope_analysis::paths::FilePattern;
use rdmascope_analysis::time::{Moment, ParseError, Zone, parse_duration};
use rdmascope_analysis::units::quoted;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_present::columns::TRANSACTION;
use rdmascope_present::did_you_mean::known;
use rdmascope_present::expression::{self, Expression};
use rdmascope_wire::Xid;

/// A filter of rows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    wanted: TransactionFilter,
    found: bool,
    words: Vec<String>,
    /// The condition that a row has to meet.
    condition: Option<Expression>,
    /// All rows match.
    is_empty: bool,
    /// The zone of times of day.
    zone: Zone,
}

/// The names of filters, and a description of their values.
pub const NAMES: [(&str, &str); 14] = [
    ("operation=", "an operation: READ, WRITE, LOOKUP"),
    ("latency-above=", "a time: 5ms, 300us"),
    ("status=", "error, a status: NOENT, NFS4ERR_STALE, or its number"),
    ("outcome=", "completed, no-reply, no-call, transport-error, cut-off"),
    ("connection=", "the number of a connection"),
    ("file=", "a name, the end of a path, or a pattern: a/*.dat"),
    ("client=", "the address of an NFS client: 10.0.0.*"),
    ("server=", "the address of an NFS server"),
    ("user=", "a uid, a machine, or both: 1000@node7"),
    ("xid=", "an XID: decimal, or hexadecimal after 0x"),
    ("direction=", "forward or backward"),
    ("since=", "a time: 1.5 (seconds), 09:41, 09:41:06.5, a date"),
    ("until=", "as for since"),
    ("found", "transactions with a finding"),
];

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

const OUTCOMES: [Outcome; 5] =
    [Outcome::Completed, Outcome::NoReply, Outcome::NoCall, Outcome::TransportError, Outcome::CutOff];

impl Filter {
    /// Creates a filter that matches all rows.
    pub fn all() -> Filter {
        Filter { is_empty: true, ..Filter::default() }
    }

    /// Parses a filter line; times of day without an offset are in `zone`. The error names the word
    /// that is not valid, and the reason. For a name it suggests the most similar ones.
    pub fn parse(line: &str, zone: Zone) -> Result<Filter, String> {
        let mut filter = Filter { is_empty: line.trim().is_empty(), zone, ..Filter::default() };
        if is_expression(line) {
            filter.condition = Some(condition(line)?);
            return Ok(filter);
        }
        for word in line.split_whitespace() {
            let name = word.trim_start_matches("--");
            match name.split_once('=') {
                Some((name, value)) => filter.take(name, value).map_err(|why| format!("{word}: {why}"))?,
                None if word == "found" => filter.found = true,
                None => filter.words.push(word.to_lowercase()),
            }
        }
        Ok(filter)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let names = NAMES.iter().filter_map(|(name, _)| name.strip_suffix('='));
        known("filter", name, names)?;
        self.set(name, value).map_err(|ParseError(why)| why.to_owned())?;
        match name {
            "operation" => known("operation", value, operation_names()),
            "status" if !value.starts_with(|first: char| first.is_ascii_digit()) => {
                known("status", value, status_names())
            }
            "outcome" => known("outcome", value, OUTCOMES.map(names::outcome)),
            "direction" => known("direction", value, DIRECTIONS.map(names::direction)),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ParseError> {
        let wanted = &mut self.wanted;
        match name {
            "connection" => wanted.connections.push(ConnectionId(parse_number(value)?)),
            "xid" => wanted.xids.push(Xid(parse_number(value)?)),
            "operation" => wanted.operations.push(value.to_owned()),
            "status" => wanted.statuses.push(StatusFilter::parse(value)?),
            "outcome" => {
                wanted
                    .outcomes
                    .extend(OUTCOMES.into_iter().find(|outcome| names::outcome(*outcome) == value));
            }
            "direction" => {
                let is_named = |direction: &Direction| names::direction(*direction) == value;
                wanted.direction = DIRECTIONS.into_iter().find(is_named);
            }
            "latency-above" => wanted.latency_above = Some(parse_duration(value)?),
            "file" => wanted.files.push(FilePattern::parse(value)?),
            "client" => wanted.clients.push(AddressPattern::parse(value)?),
            "server" => wanted.servers.push(AddressPattern::parse(value)?),
            "user" => wanted.users.push(UserPattern::parse(value)?),
            "since" => wanted.span.since = Some(Moment::parse_in(value, self.zone)?),
            "until" => wanted.span.until = Some(Moment::parse_in(value, self.zone)?),
            _ => {}
        }
        Ok(())
    }

    /// The highest number of a connection that it names.
    pub(crate) fn highest_connection(&self) -> Option<u32> {
        self.wanted.connections.iter().map(|id| id.0).max()
    }

    /// The options of the command line that select the same transactions; `None` if it has words to
    /// find, which the command line does not have.
    pub fn options(&self, line: &str) -> Option<String> {
        if self.condition.is_some() {
            return Some(format!(" --where {}", quoted(line)));
        }
        let has_words = self.found || !self.words.is_empty();
        let option = |word: &str| format!(" {}", quoted(&format!("--{}", word.trim_start_matches("--"))));
        (!has_words).then(|| line.split_whitespace().map(option).collect())
    }

    /// Whether `row` matches, in a capture that starts at `start`.
    pub fn matches(&self, row: &Row, start: Time) -> bool {
        self.wanted.matches(row, start)
            && (!self.found || row.mark.is_some())
            && self.words.iter().all(|word| row.contains(word))
            && self.condition.as_ref().is_none_or(|condition| {
                condition.holds(start, |see| {
                    for (place, name) in condition.names().iter().enumerate() {
                        row.value(name, &mut |value| see(place, value));
                    }
                })
            })
    }

    /// Whether all rows match.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }
}

/// Whether a line is an expression.
pub(crate) fn is_expression(line: &str) -> bool {
    // Signs that occur neither in filters nor in words.
    const SIGNS: [&str; 7] = ["==", "!=", "<", ">", "~", "&&", "||"];
    SIGNS.iter().any(|sign| line.contains(sign))
}

/// Parses an expression about rows, which have some of the columns of a transaction. The error is
/// one line.
fn condition(line: &str) -> Result<Expression, String> {
    let condition = expression::parse(line, &TRANSACTION).map_err(|mistake| mistake.in_a_line())?;
    match condition.names().iter().find(|name| !Row::FIELDS.contains(&name.as_str())) {
        Some(name) => Err(format!("{name}: not a column of this list, which has {}", Row::FIELDS.join(", "))),
        None => Ok(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowMaker;
    use rdmascope_tests::values;

    #[test]
    fn lines_are_parsed_and_matched() {
        let row = RowMaker::default().row(&values::read(7, 10), Time(0), 10);
        let matches = |line: &str| Filter::parse(line, Zone::Utc).unwrap().matches(&row, Time(0));
        assert!(
            matches("")
                && matches("operation=READ")
                && matches("--operation=read")
                && matches("outcome=completed")
        );
        assert!(!matches("operation=WRITE") && !matches("status=error") && !matches("outcome=no-reply"));
        assert!(matches("operation=WRITE operation=READ") && !matches("operation=WRITE"));
        assert!(!matches("until=0") && matches("since=0") && !matches("status=NOENT") && matches("status=0"));
        assert!(!matches("operation=READ direction=backward"));
        let latency = row.latency.unwrap();
        assert!(!matches(&format!("latency-above={latency}ns")));
        assert!(matches(&format!("latency-above={}ns", latency - 1)));
        assert!(!matches("found") && matches("READ") && !matches("nosuchword"));
    }

    #[test]
    fn expressions_are_parsed_and_matched() {
        let row = RowMaker::default().row(&values::read(7, 10), Time(0), 10);
        let matches = |line: &str| Filter::parse(line, Zone::Utc).unwrap().matches(&row, Time(0));
        for line in [
            "op == READ && latency > 9us && bytes >= 64KiB",
            "status == OK && outcome == completed && !failed && direction == forward",
            "client == 192.0.2.1 && server ~ '192.0.2.*' && connection == 1 && number == 1",
            "xid > 0 && operation == READ && file != '/a' && uid != 0 && machine !~ 'x' && status_name == ok",
        ] {
            assert!(matches(line), "{line}");
        }
        for line in ["op == WRITE", "latency > 10us", "file ~ '*'", "other_file ~ '*'", "bytes < 64KiB"] {
            assert!(!matches(line), "{line}");
        }
        for (line, part) in [
            ("op == RAED", "RAED: did you mean READ? (at 7)"),
            ("call.frame == 5", "call.frame: not a column of this list, which has number, "),
        ] {
            let error = Filter::parse(line, Zone::Utc).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{line}: {error}");
        }
    }

    #[test]
    fn errors_name_the_invalid_word() {
        for (line, part) in [
            ("latency-above=5", "latency-above=5: "),
            ("outcome=no-replay", "did you mean no-reply?"),
            ("colour=red", "unknown filter"),
            ("operaton=READ", "did you mean operation?"),
            ("operation=OPNE", "did you mean OPEN"),
            ("status=NOENTT", "did you mean NOENT"),
            ("direction=up", "unknown direction"),
            ("since=soon", "09:30"),
            ("xid=zz", "32-bit number"),
        ] {
            let error = Filter::parse(line, Zone::Utc).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn options_reproduce_the_filter() {
        let of = |line| Filter::parse(line, Zone::Utc).unwrap().options(line);
        assert_eq!(of("operation=READ file=a/*.dat").as_deref(), Some(" --operation=READ '--file=a/*.dat'"));
        assert_eq!(of("latency > 5ms").as_deref(), Some(" --where 'latency > 5ms'"));
        assert_eq!(of("found"), None);
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
