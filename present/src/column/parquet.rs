//! Columns of Parquet tables: flattened, each prefixed with the names of its enclosing objects.

use super::docs::meaning_of;
use super::{Kind, List, Output};
use core::fmt;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// The names of the enclosing objects and its own, joined by `_`.
    pub name: String,
    /// The type.
    pub shape: Shape,
    /// The meaning.
    pub meaning: String,
}

/// The type of a column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value, or null.
    One(Stored),
    /// A list of values.
    List(Stored),
    /// A list of records with these fields.
    Records(Vec<(&'static str, Stored)>),
}

/// The type of a value in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// True or false.
    Boolean,
    /// An unsigned number of 8 bits.
    U8,
    /// An unsigned number of 16 bits.
    U16,
    /// An unsigned number of 32 bits.
    U32,
    /// An unsigned number of 64 bits.
    U64,
    /// A signed number of 64 bits.
    I64,
    /// An instant, rounded down to microseconds, because some readers reject nanoseconds or cannot
    /// calculate with them.
    Time,
    /// UTF-8.
    Text,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::One(stored) => stored.fmt(f),
            Shape::List(stored) => write!(f, "LIST<{stored}>"),
            Shape::Records(fields) => {
                f.write_str("LIST<STRUCT<")?;
                for (index, (name, stored)) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{name} {stored}")?;
                }
                f.write_str(">>")
            }
        }
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stored::Boolean => "BOOLEAN",
            Stored::U8 => "UINT8",
            Stored::U16 => "UINT16",
            Stored::U32 => "UINT32",
            Stored::U64 => "UINT64",
            Stored::I64 => "INT64",
            Stored::Time => "TIMESTAMP",
            Stored::Text => "STRING",
        })
    }
}

/// The columns of the table of a list, in table order: columns marked as last follow the others of
/// their list.
pub fn table(list: &dyn List) -> Vec<TableColumn> {
    let mut columns = Vec::new();
    collect(list, "", "", &mut columns);
    columns
}

fn collect(list: &dyn List, prefix: &str, meaning: &str, columns: &mut Vec<TableColumn>) {
    let mut meaning = meaning;
    let mut of = |is_last: bool| {
        for (info, kind) in list.columns() {
            let Some(in_parquet) = info.in_parquet.filter(|column| column.is_last == is_last) else {
                continue;
            };
            let separator = if prefix.is_empty() || in_parquet.name.is_empty() { "" } else { "_" };
            let name = format!("{prefix}{separator}{}", in_parquet.name);
            // The meaning of an object is prepended to its first column.
            let object = core::mem::take(&mut meaning);
            let space = if object.is_empty() { "" } else { " " };
            let meaning = format!("{object}{space}{}", meaning_of(info, kind));
            match kind {
                Kind::Object(inner) => collect(inner, &name, &meaning, columns),
                kind => {
                    let (shape, fields) = shape(kind);
                    let exact = matches!(kind, Kind::Time).then(|| exact(&name));
                    columns.push(TableColumn { name, shape, meaning: meaning + &fields });
                    columns.extend(exact);
                }
            }
        }
    };
    of(false);
    of(true);
}

/// The additional column of an instant `name` with its full nanoseconds.
fn exact(name: &str) -> TableColumn {
    let meaning = format!("`{name}` in nanoseconds since 1970, UTC.");
    TableColumn { name: format!("{name}_ns"), shape: Shape::One(Stored::I64), meaning }
}

/// The type of a column, and the meaning of its records' fields.
fn shape(kind: Kind) -> (Shape, String) {
    match kind {
        Kind::Texts => (Shape::List(Stored::Text), String::new()),
        Kind::Frames => (Shape::List(Stored::U64), String::new()),
        Kind::Objects(inner) => {
            let columns = inner.columns();
            let fields = columns.iter().filter(|(info, _)| info.is_in(Output::Parquet));
            let meanings =
                fields.clone().map(|(info, kind)| format!(" `{}`: {}", info.name, meaning_of(info, *kind)));
            (
                Shape::Records(fields.clone().map(|(info, kind)| (info.name, stored(*kind))).collect()),
                meanings.collect(),
            )
        }
        kind => (Shape::One(stored(kind)), String::new()),
    }
}

/// The stored type of a kind. Kinds that consist of other kinds, and kinds without a type of their
/// own, are not stored.
pub fn stored(kind: Kind) -> Stored {
    match kind {
        Kind::Boolean => Stored::Boolean,
        Kind::U8 => Stored::U8,
        Kind::U16 => Stored::U16,
        Kind::U32 | Kind::Xid | Kind::Key | Kind::Qpn => Stored::U32,
        Kind::U64 | Kind::Frame | Kind::Nanoseconds | Kind::Offset => Stored::U64,
        Kind::Time => Stored::Time,
        Kind::Word(_) | Kind::Text | Kind::Bytes => Stored::Text,
        Kind::Fraction | Kind::Texts | Kind::Frames | Kind::Object(_) | Kind::Objects(_) | Kind::Any(..) => {
            unreachable!(
                "a column of a table holds one value, a list of values, or a list of records of values"
            )
        }
    }
}
