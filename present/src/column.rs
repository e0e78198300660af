//! Columns as data: one description of the contents of each kind of line.
//!
//! A [`Column`] has a name, a function that reads its value from the subject of the line, whether
//! it can be absent, its meaning, and where it appears. These descriptions define the objects of
//! JSON Lines (`json`), the text tables (`text`), the schema and the values of Parquet, the columns
//! that users select by name (`flat`, `picked`, `cells`), and the tables of docs/json.md and
//! docs/parquet.md. The lists are in [`crate::columns`].
//!
//! Reading allocates only for the path of a file, which is assembled: a [`Value`] borrows from the
//! subject, and computed values and nested columns are lent to a closure.

mod cells;
mod clock;
pub mod docs;
mod flat;
mod json;
pub mod parquet;
mod picked;
mod text;
mod value;

pub use cells::{Cells, Key, Reader as CellReader, SEPARATOR};
pub use clock::Clock;
pub use flat::{Flat, find, flat};
pub use picked::{Picked, PickedLine};
pub use text::{Align, Cell, LendCell, Setting, Text as TextCell, TextTable, Tint};
pub use value::{Fields, Items, Lossy, Value};

use core::fmt;
use rdmascope_dissector::record::Time;

/// The subject of one kind of line. The subject's type implements it, or a marker type if the
/// subject has a lifetime or is a foreign type.
pub trait Subject: 'static {
    /// The subject as passed to its columns: a reference, or a small value.
    type Of<'a>: Copy;
}

/// A list of columns: a kind of line, or an object within one.
pub struct Columns<S: Subject> {
    /// The name in the documentation. For a line, also the value of its field `type`.
    pub name: &'static str,
    /// Where the list is used.
    pub role: Role,
    /// The columns, in output order.
    pub columns: &'static [Column<S>],
}

/// The use of a list of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A line, which begins with `type`.
    Line,
    /// An object in several lines or columns, documented in a table of its own.
    Shared,
    /// An object in one column, documented with that column.
    Inner,
}

/// A column.
pub struct Column<S: Subject> {
    /// The properties that do not depend on the subject.
    pub info: Info,
    /// The type, and the function that reads the value.
    pub read: Read<S>,
    /// The column in the text table, if it has one.
    pub text: Option<text::Text<S>>,
}

/// The name and the meaning of a column, and where it appears.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name in JSON. In Parquet, the names of the enclosing objects precede it, joined by `_`.
    pub name: &'static str,
    /// The meaning, in one or two sentences.
    pub meaning: &'static str,
    /// Whether the value can be absent.
    pub presence: Presence,
    /// Whether it is a field in JSON.
    pub in_json: bool,
    /// How it is a column in Parquet, if it is one.
    pub in_parquet: Option<InParquet>,
    /// The column of the same list whose value orders lines that are sorted by this one. `None`: this
    /// one.
    pub sorts_by: Option<&'static str>,
}

/// An output format of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Fields in JSON.
    Json,
    /// Columns of tables in Parquet.
    Parquet,
    /// All columns.
    Any,
}

impl Info {
    /// Whether the column appears in `output`.
    #[inline]
    pub fn is_in(&self, output: Output) -> bool {
        match output {
            Output::Json => self.in_json,
            Output::Parquet => self.in_parquet.is_some(),
            Output::Any => true,
        }
    }
}

/// The properties of a column in Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InParquet {
    /// The name. The columns of an object with an empty name have no prefix.
    pub name: &'static str,
    /// Whether it follows the other columns of its list.
    pub is_last: bool,
}

/// Whether a value can be absent in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The value is always present.
    Always,
    /// An absent value is `null`.
    OrNull,
    /// A field is omitted if its value is absent or an empty list.
    Optional,
}

/// A possible value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The value.
    pub word: &'static str,
    /// The meaning; empty if the value is self-explanatory.
    pub meaning: &'static str,
}

/// The possible values of a column.
pub type Words = &'static [Word];

/// Creates a value with its meaning.
pub const fn explained(word: &'static str, meaning: &'static str) -> Word {
    Word { word, meaning }
}

/// Creates a value that needs no explanation.
pub const fn word(word: &'static str) -> Word {
    Word { word, meaning: "" }
}

/// A function that reads a value, if present.
pub type Reader<S, V> = fn(<S as Subject>::Of<'_>) -> Option<V>;

/// A function that lends a text, or each of several texts, to a closure.
pub type LendText<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(&str));

/// A function that lends a `Display` value to a closure.
pub type LendShown<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(&dyn fmt::Display));

/// A function that lends bytes to a closure.
pub type LendBytes<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(&[u8]));

/// A function that lends a value of any type to a closure.
pub type LendValue<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(Value<'_>));

/// A function that lends the subject of an object, or of each of several objects, to a closure.
pub type LendObject<S, U> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(<U as Subject>::Of<'_>));

/// The type of a column, with the function that reads it.
pub enum Read<S: Subject> {
    /// True or false.
    Boolean(Reader<S, bool>),
    /// A number of at most 8 bits.
    U8(Reader<S, u8>),
    /// A number of at most 16 bits.
    U16(Reader<S, u16>),
    /// A number of at most 32 bits.
    U32(Reader<S, u32>),
    /// A number of at most 64 bits.
    U64(Reader<S, u64>),
    /// A number with decimals.
    Fraction(Reader<S, f64>),
    /// The number of a packet in its capture.
    Frame(Reader<S, u64>),
    /// A duration in nanoseconds.
    Nanoseconds(Reader<S, u64>),
    /// An instant.
    Time(Reader<S, Time>),
    /// An XID.
    Xid(Reader<S, u32>),
    /// A memory handle, or another key of 32 bits.
    Key(Reader<S, u32>),
    /// A queue pair number.
    Qpn(Reader<S, u32>),
    /// An offset in registered memory.
    Offset(Reader<S, u64>),
    /// One of the given words. If the list is empty: a name from a specification.
    Word(Words, Reader<S, &'static str>),
    /// A text in the subject.
    Text(LendText<S>),
    /// A `Display` value.
    Shown(LendShown<S>),
    /// A text in which invalid UTF-8 is replaced.
    Lossy(LendBytes<S>),
    /// Bytes as hexadecimal digits.
    Bytes(LendBytes<S>),
    /// Several texts.
    Texts(LendText<S>),
    /// Numbers of several packets.
    Frames(for<'a, 'b> fn(S::Of<'a>, &'b mut dyn FnMut(u64))),
    /// An object.
    Object(&'static dyn Inner<S>),
    /// Several objects.
    Objects(&'static dyn Inner<S>),
    /// A value whose type depends on the subject. The text names the types; an object has the
    /// columns of one of the lists.
    Any(&'static str, Lists, LendValue<S>),
}

/// The type of a column, without the function of [`Read`].
#[derive(Clone, Copy)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A number of at most 8 bits.
    U8,
    /// A number of at most 16 bits.
    U16,
    /// A number of at most 32 bits.
    U32,
    /// A number of at most 64 bits.
    U64,
    /// A number with decimals.
    Fraction,
    /// The number of a packet.
    Frame,
    /// A duration.
    Nanoseconds,
    /// An instant.
    Time,
    /// An XID.
    Xid,
    /// A key of 32 bits.
    Key,
    /// A queue pair number.
    Qpn,
    /// An offset in registered memory.
    Offset,
    /// One of the given words, or a name from a specification.
    Word(Words),
    /// A text.
    Text,
    /// Hexadecimal digits.
    Bytes,
    /// Several texts.
    Texts,
    /// Numbers of several packets.
    Frames,
    /// An object of these columns.
    Object(&'static dyn List),
    /// Several objects of these columns.
    Objects(&'static dyn List),
    /// A value of the types in the text; an object has the columns of one of the lists.
    Any(&'static str, Lists),
}

impl Kind {
    /// The columns of an object, or of several.
    fn inner(self) -> Option<&'static dyn List> {
        match self {
            Kind::Object(list) | Kind::Objects(list) => Some(list),
            _ => None,
        }
    }
}

/// Several lists of columns.
pub type Lists = &'static [&'static dyn List];

/// A list of columns with any subject.
pub trait List: Sync {
    /// The name in the documentation.
    fn name(&self) -> &'static str;
    /// Where the list is used.
    fn role(&self) -> Role;
    /// The columns, in order.
    fn columns(&self) -> Vec<(&'static Info, Kind)>;
}

impl<S: Subject> List for Columns<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        self.role
    }

    fn columns(&self) -> Vec<(&'static Info, Kind)> {
        self.columns.iter().map(|column| (&column.info, column.read.kind())).collect()
    }
}

/// The objects in a column of a subject.
pub trait Inner<S: Subject>: Sync {
    /// Lends each object to `see`.
    fn each(&self, subject: S::Of<'_>, see: &mut dyn FnMut(&dyn Fields));
    /// The columns of the objects.
    fn list(&self) -> &'static dyn List;
}

/// The objects of type `U` in an `S`, with their columns.
pub struct Within<S: Subject, U: Subject> {
    /// The columns of the objects.
    pub columns: &'static Columns<U>,
    /// Lends each object. A column with a single object lends at most one.
    pub lend: LendObject<S, U>,
}

impl<S: Subject, U: Subject> Inner<S> for Within<S, U> {
    fn each(&self, subject: S::Of<'_>, see: &mut dyn FnMut(&dyn Fields)) {
        (self.lend)(subject, &mut |inner| see(&self.columns.of(inner)));
    }

    fn list(&self) -> &'static dyn List {
        self.columns
    }
}

/// Lends a value, if present.
pub fn lend<T>(value: Option<T>, mut see: impl FnMut(T)) {
    if let Some(value) = value {
        see(value);
    }
}

/// The columns of one subject.
pub struct Line<'a, S: Subject> {
    columns: &'static Columns<S>,
    subject: S::Of<'a>,
}

impl<S: Subject> Columns<S> {
    /// The column whose value orders lines that are sorted by the column of this name.
    pub fn sort_key<'a>(&self, name: &'a str) -> &'a str {
        let column = self.columns.iter().find(|column| column.info.name == name);
        column.and_then(|column| column.info.sorts_by).unwrap_or(name)
    }

    /// Combines these columns with a `subject`.
    pub fn of<'a>(&'static self, subject: S::Of<'a>) -> Line<'a, S> {
        Line { columns: self, subject }
    }
}

impl<S: Subject> Fields for Line<'_, S> {
    fn line(&self) -> Option<&'static str> {
        (self.columns.role == Role::Line).then_some(self.columns.name)
    }

    #[inline]
    fn each(&self, output: Output, see: &mut dyn FnMut(&'static Info, Value<'_>)) {
        for column in self.columns.columns {
            if column.info.is_in(output) {
                column.see(self.subject, see);
            }
        }
    }
}

impl<S: Subject> Column<S> {
    /// Creates a column that always has a value. It appears in JSON, and in Parquet if its list is
    /// part of a table there.
    pub const fn new(name: &'static str, read: Read<S>, meaning: &'static str) -> Column<S> {
        let in_parquet = Some(InParquet { name, is_last: false });
        let info =
            Info { name, meaning, presence: Presence::Always, in_json: true, in_parquet, sorts_by: None };
        Column { info, read, text: None }
    }

    /// Makes the value null if absent.
    pub const fn or_null(mut self) -> Column<S> {
        self.info.presence = Presence::OrNull;
        self
    }

    /// Lines sorted by this column are ordered by the value of another one.
    pub(crate) const fn sorts_by(mut self, other: &'static str) -> Column<S> {
        self.info.sorts_by = Some(other);
        self
    }

    /// Omits the field if the value is absent.
    pub const fn optional(mut self) -> Column<S> {
        self.info.presence = Presence::Optional;
        self
    }

    /// Excludes the column from Parquet.
    pub(crate) const fn json_only(mut self) -> Column<S> {
        self.info.in_parquet = None;
        self
    }

    /// Excludes the column from JSON.
    pub(crate) const fn parquet_only(mut self) -> Column<S> {
        self.info.in_json = false;
        self
    }

    /// Sets another name for Parquet. The columns of an object with an empty name have no prefix.
    pub const fn parquet(mut self, name: &'static str) -> Column<S> {
        self.info.in_parquet = Some(InParquet { name, is_last: false });
        self
    }

    /// Moves the column after the other columns of its list in Parquet.
    pub const fn last(mut self) -> Column<S> {
        if let Some(in_parquet) = &mut self.info.in_parquet {
            in_parquet.is_last = true;
        }
        self
    }

    /// Limits the column to the text table.
    pub(crate) const fn text_only(mut self) -> Column<S> {
        self.info.in_json = false;
        self.info.in_parquet = None;
        self
    }

    /// Lends the value of `subject`, or [`Value::Missing`], to `see`, with the description of the
    /// column.
    #[inline]
    pub fn see(&'static self, subject: S::Of<'_>, see: &mut dyn FnMut(&'static Info, Value<'_>)) {
        let info = &self.info;
        fn of<T>(value: Option<T>, make: impl FnOnce(T) -> Value<'static>) -> Value<'static> {
            value.map_or(Value::Missing, make)
        }
        let mut list = |items: &dyn Items| see(info, Value::List(items));
        let value = match &self.read {
            Read::Boolean(read) => of(read(subject), Value::Boolean),
            Read::U8(read) => of(read(subject), |number| Value::Number(number.into())),
            Read::U16(read) => of(read(subject), |number| Value::Number(number.into())),
            Read::U32(read) => of(read(subject), |number| Value::Number(number.into())),
            Read::U64(read) | Read::Frame(read) => of(read(subject), Value::Number),
            Read::Fraction(read) => of(read(subject), Value::Fraction),
            Read::Nanoseconds(read) => of(read(subject), Value::Nanoseconds),
            Read::Time(read) => of(read(subject), Value::Time),
            Read::Xid(read) | Read::Key(read) => of(read(subject), Value::Key),
            Read::Qpn(read) => of(read(subject), Value::Qpn),
            Read::Offset(read) => of(read(subject), Value::Offset),
            Read::Word(_, read) => of(read(subject), Value::Text),
            Read::Texts(lend) => {
                return list(&|item: &mut dyn FnMut(Value<'_>)| {
                    lend(subject, &mut |text| item(Value::Text(text)));
                });
            }
            Read::Frames(lend) => {
                return list(&|item: &mut dyn FnMut(Value<'_>)| {
                    lend(subject, &mut |frame| item(Value::Number(frame)));
                });
            }
            Read::Objects(inner) => {
                return list(&|item: &mut dyn FnMut(Value<'_>)| {
                    inner.each(subject, &mut |fields| item(Value::Object(fields)));
                });
            }
            lent => return lent.lend(subject, &mut |value| see(info, value)),
        };
        see(info, value);
    }
}

impl<S: Subject> Read<S> {
    /// Lends computed values and objects to `see`.
    fn lend(&self, subject: S::Of<'_>, see: &mut dyn FnMut(Value<'_>)) {
        let mut has_value = false;
        let mut found = |value: Value<'_>| {
            has_value = true;
            see(value);
        };
        match self {
            Read::Text(lend) => lend(subject, &mut |text| found(Value::Text(text))),
            Read::Shown(lend) => lend(subject, &mut |shown| found(Value::Shown(shown))),
            Read::Lossy(lend) => lend(subject, &mut |bytes| found(Value::Lossy(bytes))),
            Read::Bytes(lend) => lend(subject, &mut |bytes| found(Value::Bytes(bytes))),
            Read::Any(_, _, lend) => lend(subject, &mut found),
            Read::Object(inner) => inner.each(subject, &mut |fields| found(Value::Object(fields))),
            _ => {}
        }
        if !has_value {
            see(Value::Missing);
        }
    }

    /// The type without the function.
    pub fn kind(&self) -> Kind {
        match self {
            Read::Boolean(_) => Kind::Boolean,
            Read::U8(_) => Kind::U8,
            Read::U16(_) => Kind::U16,
            Read::U32(_) => Kind::U32,
            Read::U64(_) => Kind::U64,
            Read::Fraction(_) => Kind::Fraction,
            Read::Frame(_) => Kind::Frame,
            Read::Nanoseconds(_) => Kind::Nanoseconds,
            Read::Time(_) => Kind::Time,
            Read::Xid(_) => Kind::Xid,
            Read::Key(_) => Kind::Key,
            Read::Qpn(_) => Kind::Qpn,
            Read::Offset(_) => Kind::Offset,
            Read::Word(words, _) => Kind::Word(words),
            Read::Text(_) | Read::Shown(_) | Read::Lossy(_) => Kind::Text,
            Read::Bytes(_) => Kind::Bytes,
            Read::Texts(_) => Kind::Texts,
            Read::Frames(_) => Kind::Frames,
            Read::Object(inner) => Kind::Object(inner.list()),
            Read::Objects(inner) => Kind::Objects(inner.list()),
            Read::Any(types, lists, _) => Kind::Any(types, lists),
        }
    }
}

#[cfg(test)]
mod tests;
