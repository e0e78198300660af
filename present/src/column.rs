//! Columns as data: what a line of each kind holds, stated once.
//!
//! A [`Column`] is a row: the name, how the value is read from the subject of the line, whether it can be unknown, what it means, and
//! where it appears. From these rows come the objects of JSON Lines (`json`), the tables in text (`text`), the schema and the
//! values of Parquet, the columns that a person picks by name (`flat`, `picked`, `cells`), and the tables of docs/json.md and docs/parquet.md. The lists themselves stand in [`crate::columns`].
//!
//! Reading allocates nothing but the path of a file, which is put together: a [`Value`] borrows from the subject, and what has to be computed first, or consists of other
//! columns, is lent to a closure.

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
pub(crate) use value::Lent;
pub use value::{Fields, Items, Lossy, Value};

use core::fmt;
use rdmascope_dissector::record::Time;

/// What lines of one kind are about. Implemented by the type itself, or by a marker where the type has a lifetime or belongs to nobody.
pub trait Subject: 'static {
    /// The subject as its columns take it: a reference, or a small value.
    type Of<'a>: Copy;
}

/// A list of columns: a kind of line, or an object within one.
pub struct Columns<S: Subject> {
    /// What the documentation calls it. Of a line, also the value of its field `type`.
    pub name: &'static str,
    /// Where it stands.
    pub role: Role,
    /// In the order in which they are written.
    pub columns: &'static [Column<S>],
}

/// What a list of columns describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A line: it begins with `type`.
    Line,
    /// An object that several lines or columns have, documented in a table of its own.
    Shared,
    /// An object of one column, documented with that column.
    Inner,
}

/// A column.
pub struct Column<S: Subject> {
    /// All of it that does not depend on the subject.
    pub info: Info,
    /// Its type, and how it is read.
    pub read: Read<S>,
    /// How it appears in the table in text, where it is there.
    pub text: Option<text::Text<S>>,
}

/// The name and the meaning of a column, and where it appears.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// In JSON; in Parquet with the names of the objects that it is in before it, joined by `_`.
    pub name: &'static str,
    /// What it says, in one or two sentences.
    pub meaning: &'static str,
    /// Whether there is always a value.
    pub presence: Presence,
    /// Whether it is a field in JSON.
    pub in_json: bool,
    /// Whether, and how, it is a column in Parquet.
    pub in_parquet: Option<InParquet>,
}

/// What columns are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Fields in JSON.
    Json,
    /// Columns of tables in Parquet.
    Parquet,
    /// Whatever there is.
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

/// How a column appears in Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InParquet {
    /// Its name there. The columns of an object with an empty name stand without a prefix.
    pub name: &'static str,
    /// Whether it stands behind the columns of its list that are not last.
    pub is_last: bool,
}

/// Whether there is always a value in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There is.
    Always,
    /// Where there is none, the field is `null`.
    OrNull,
    /// Where there is none, or a list is empty, the field is left out.
    Optional,
}

/// A word that a column may have as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// What it stands for; empty where the word says it.
    pub meaning: &'static str,
}

/// The words that a column may have as its value.
pub type Words = &'static [Word];

/// A word, and what it stands for.
pub const fn explained(word: &'static str, meaning: &'static str) -> Word {
    Word { word, meaning }
}

/// A word that needs no explanation.
pub const fn word(word: &'static str) -> Word {
    Word { word, meaning: "" }
}

/// A function that reads a value, if there is one.
pub type Reader<S, V> = fn(<S as Subject>::Of<'_>) -> Option<V>;

/// A function that lends a text, or each of several, to a closure.
pub type LendText<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(&str));

/// A function that lends what `Display` writes to a closure.
pub type LendShown<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(&dyn fmt::Display));

/// A function that lends bytes to a closure.
pub type LendBytes<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(&[u8]));

/// A function that lends a value of any type to a closure.
pub type LendValue<S> = for<'a, 'b> fn(<S as Subject>::Of<'a>, &'b mut dyn FnMut(Value<'_>));

/// A function that lends the subject of an object, or of each of several, to a closure.
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
    /// One of these words. An empty list: a name that a specification defines.
    Word(Words, Reader<S, &'static str>),
    /// A text that the subject holds.
    Text(LendText<S>),
    /// What `Display` writes.
    Shown(LendShown<S>),
    /// A text in which bytes that are not UTF-8 are replaced.
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
    /// A value whose type depends on the subject. The text says which types; an object has the columns of one of the lists.
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
    /// One of these words, or a name that a specification defines.
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
    /// What the text says; an object has the columns of one of the lists.
    Any(&'static str, Lists),
}

/// Several lists of columns.
pub type Lists = &'static [&'static dyn List];

/// A list of columns, whatever it is about.
pub trait List: Sync {
    /// What the documentation calls it.
    fn name(&self) -> &'static str;
    /// Where it stands.
    fn role(&self) -> Role;
    /// Its columns, in order.
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

/// The object, or the objects, that a column of a subject holds.
pub trait Inner<S: Subject>: Sync {
    /// Lends each to `see`.
    fn each(&self, subject: S::Of<'_>, see: &mut dyn FnMut(&dyn Fields));
    /// Their columns.
    fn list(&self) -> &'static dyn List;
}

/// Objects: the columns of each `U` that `lend` finds in an `S`.
pub struct Within<S: Subject, U: Subject> {
    /// Their columns.
    pub columns: &'static Columns<U>,
    /// Lends one after the other; of a column that holds one object, that one or none.
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

/// Lends a value, if there is one.
pub fn lend<T>(value: Option<T>, mut see: impl FnMut(T)) {
    if let Some(value) = value {
        see(value);
    }
}

/// What a line holds: the columns of a subject.
pub struct Line<'a, S: Subject> {
    columns: &'static Columns<S>,
    subject: S::Of<'a>,
}

impl<S: Subject> Columns<S> {
    /// These columns of `subject`.
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
    /// A column that always has a value: of JSON, and of Parquet where its list is a table there or within one.
    pub const fn new(name: &'static str, read: Read<S>, meaning: &'static str) -> Column<S> {
        let in_parquet = Some(InParquet { name, is_last: false });
        let info = Info { name, meaning, presence: Presence::Always, in_json: true, in_parquet };
        Column { info, read, text: None }
    }

    /// Without a value it is null.
    pub const fn or_null(mut self) -> Column<S> {
        self.info.presence = Presence::OrNull;
        self
    }

    /// Without a value it is left out.
    pub const fn optional(mut self) -> Column<S> {
        self.info.presence = Presence::Optional;
        self
    }

    /// It is no column of Parquet.
    pub const fn json_only(mut self) -> Column<S> {
        self.info.in_parquet = None;
        self
    }

    /// It is no field in JSON.
    pub const fn parquet_only(mut self) -> Column<S> {
        self.info.in_json = false;
        self
    }

    /// It has another name in Parquet. The columns of an object without a name stand without a prefix.
    pub const fn parquet(mut self, name: &'static str) -> Column<S> {
        self.info.in_parquet = Some(InParquet { name, is_last: false });
        self
    }

    /// In Parquet it stands behind the other columns of its list.
    pub const fn last(mut self) -> Column<S> {
        if let Some(in_parquet) = &mut self.info.in_parquet {
            in_parquet.is_last = true;
        }
        self
    }

    /// It stands only in the table in text.
    pub const fn text_only(mut self) -> Column<S> {
        self.info.in_json = false;
        self.info.in_parquet = None;
        self
    }

    /// Lends the value of `subject`, or [`Value::Missing`], to `see`, with what the column is.
    #[inline]
    pub fn see(&'static self, subject: S::Of<'_>, see: &mut dyn FnMut(&'static Info, Value<'_>)) {
        let info = &self.info;
        fn of<T>(value: Option<T>, make: impl FnOnce(T) -> Value<'static>) -> Value<'static> {
            value.map_or(Value::Missing, make)
        }
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
                return see(
                    info,
                    Value::List(&Lent(|item: &mut dyn FnMut(Value<'_>)| {
                        lend(subject, &mut |text| item(Value::Text(text)));
                    })),
                );
            }
            Read::Frames(lend) => {
                return see(
                    info,
                    Value::List(&Lent(|item: &mut dyn FnMut(Value<'_>)| {
                        lend(subject, &mut |frame| item(Value::Number(frame)));
                    })),
                );
            }
            Read::Objects(inner) => {
                return see(
                    info,
                    Value::List(&Lent(|item: &mut dyn FnMut(Value<'_>)| {
                        inner.each(subject, &mut |fields| item(Value::Object(fields)));
                    })),
                );
            }
            lent => return lent.lend(subject, &mut |value| see(info, value)),
        };
        see(info, value);
    }
}

impl<S: Subject> Read<S> {
    /// Lends what has to be computed first, or consists of other columns, to `see`.
    fn lend(&self, subject: S::Of<'_>, see: &mut dyn FnMut(Value<'_>)) {
        let mut is_there = false;
        let mut there = |value: Value<'_>| {
            is_there = true;
            see(value);
        };
        match self {
            Read::Text(lend) => lend(subject, &mut |text| there(Value::Text(text))),
            Read::Shown(lend) => lend(subject, &mut |shown| there(Value::Shown(shown))),
            Read::Lossy(lend) => lend(subject, &mut |bytes| there(Value::Lossy(bytes))),
            Read::Bytes(lend) => lend(subject, &mut |bytes| there(Value::Bytes(bytes))),
            Read::Any(_, _, lend) => lend(subject, &mut there),
            Read::Object(inner) => inner.each(subject, &mut |fields| there(Value::Object(fields))),
            _ => {}
        }
        if !is_there {
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
