//! Filter expressions, which select lines by the values of their columns.
//!
//! An example is `op == READ && (latency > 5ms || status != OK) && file ~ "*.dat"`. Names are those
//! of columns, as in tables (docs/tables.md). A comparison with a column of several values, such as
//! `operations`, holds if it holds for any of them. An absent value satisfies no comparison, so
//! that the negated comparisons `!=` and `!~` hold for it.

mod parser;
#[cfg(test)]
mod tests;
mod token;

pub use parser::parse;

use crate::column::{Columns, Picked, Subject, Value};
use crate::text::HexBytes;
use glob::Pattern;
use rdmascope_analysis::paths::FilePattern;
use rdmascope_analysis::time::Moment;
use rdmascope_dissector::record::Time;

/// An error in an expression, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}^", " ".repeat(text[..*at].chars().count()))]
pub struct Mistake {
    /// The expression.
    text: String,
    /// The byte offset of the error.
    at: usize,
    /// The description of the error.
    message: String,
}

impl Mistake {
    /// The error and its character position, on a single line.
    pub fn in_a_line(&self) -> String {
        format!("{} (at {})", self.message, self.text[..self.at].chars().count() + 1)
    }
}

/// A parsed filter expression.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The names of the columns used, without duplicates.
    names: Vec<String>,
    tests: Vec<Test>,
    tree: Tree,
}

/// A comparison of one column.
#[derive(Clone, Debug)]
struct Test {
    /// The index of the column's name.
    place: usize,
    wanted: Wanted,
}

/// The condition on a value.
#[derive(Clone, Debug)]
enum Wanted {
    Number(Order, i128),
    Fraction(Order, f64),
    Time(Order, Moment),
    Boolean(bool),
    /// A word from a specification, ignoring case.
    Word(String),
    /// The name of a status, with or without its prefix.
    Status(String),
    Text(String),
    Like(Pattern),
    File(FilePattern),
}

/// A comparison operator. The opposite of `Equal` is expressed by [`Tree::Not`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// The logical structure of the comparisons.
#[derive(Clone, Debug)]
enum Tree {
    /// The test with this index.
    Test(usize),
    Not(Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
}

impl Expression {
    /// The names of the columns used, in the order that [`Expression::holds`] expects.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Evaluates the expression in a capture that starts at `start`. `each` lends the values of the
    /// columns, each with the index of its name.
    pub fn holds(&self, start: Time, each: impl FnOnce(&mut dyn FnMut(usize, Value<'_>))) -> bool {
        let mut met = vec![false; self.tests.len()];
        each(&mut |place, value| {
            for (test, met) in self.tests.iter().zip(&mut met) {
                *met |= test.place == place && test.wanted.is_met(value, start);
            }
        });
        self.tree.holds(&met)
    }
}

impl Tree {
    fn holds(&self, met: &[bool]) -> bool {
        match self {
            Tree::Test(number) => met[*number],
            Tree::Not(tree) => !tree.holds(met),
            Tree::All(trees) => trees.iter().all(|tree| tree.holds(met)),
            Tree::Any(trees) => trees.iter().any(|tree| tree.holds(met)),
        }
    }
}

impl Order {
    fn holds<T: PartialOrd>(self, value: T, other: T) -> bool {
        match self {
            Order::Equal => value == other,
            Order::Less => value < other,
            Order::AtMost => value <= other,
            Order::Greater => value > other,
            Order::AtLeast => value >= other,
        }
    }
}

impl Wanted {
    fn is_met(&self, value: Value<'_>, start: Time) -> bool {
        match (self, value) {
            (
                Wanted::Number(order, wanted),
                Value::Number(number) | Value::Nanoseconds(number) | Value::Offset(number),
            ) => order.holds(i128::from(number), *wanted),
            (Wanted::Number(order, wanted), Value::Key(number) | Value::Qpn(number)) => {
                order.holds(i128::from(number), *wanted)
            }
            (Wanted::Fraction(order, wanted), Value::Fraction(number)) => order.holds(number, *wanted),
            (Wanted::Time(order, wanted), Value::Time(time)) => order.holds(time, wanted.in_capture(start)),
            (Wanted::Boolean(wanted), Value::Boolean(value)) => value == *wanted,
            (Wanted::File(pattern), Value::Lossy(bytes)) => pattern.matches(bytes),
            (_, Value::Text(text)) => self.is_met_by(text),
            (_, Value::Lossy(bytes)) => self.is_met_by(&String::from_utf8_lossy(bytes)),
            (_, Value::Shown(shown)) => self.is_met_by(&shown.to_string()),
            (_, Value::Bytes(bytes)) => self.is_met_by(&HexBytes(bytes).to_string()),
            (_, Value::Json(serde_json::Value::String(text))) => self.is_met_by(text),
            _ => false,
        }
    }

    fn is_met_by(&self, text: &str) -> bool {
        match self {
            Wanted::Word(wanted) => text.eq_ignore_ascii_case(wanted),
            Wanted::Status(wanted) => {
                let short = rdmascope_analysis::names::short_status(text);
                text.eq_ignore_ascii_case(wanted) || short.eq_ignore_ascii_case(wanted)
            }
            Wanted::Text(wanted) => text == wanted,
            Wanted::Like(pattern) => pattern.matches(text),
            Wanted::File(pattern) => pattern.matches(text.as_bytes()),
            Wanted::Number(..) | Wanted::Fraction(..) | Wanted::Time(..) | Wanted::Boolean(_) => false,
        }
    }
}

/// An expression about the lines of one list of columns.
pub struct Where<S: Subject> {
    expression: Expression,
    picked: Picked<S>,
}

impl<S: Subject> Where<S> {
    /// Parses an expression about lines of `columns`.
    pub fn parse(text: &str, columns: &'static Columns<S>) -> Result<Where<S>, Mistake> {
        let expression = parse(text, columns)?;
        let picked = Picked::cells(columns, expression.names());
        Ok(Where { expression, picked })
    }

    /// Whether it uses a column whose name ends with `end`.
    pub fn uses_column(&self, end: &str) -> bool {
        self.expression.names().iter().any(|name| name.ends_with(end))
    }

    /// Whether the line matches, in a capture that starts at `start`.
    pub fn matches(&self, subject: S::Of<'_>, start: Time) -> bool {
        self.expression.holds(start, |see| self.picked.each(subject, see))
    }
}
