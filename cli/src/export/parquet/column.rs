//! Columns: how they are called and typed, where their values come from, and the values that wait to be written.

use super::Table;
use bytes::Bytes;
use core::fmt::{Display, Write as _};
use core::mem;
use parquet::basic::{LogicalType, Repetition, TimeUnit};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::{Type, TypePtr};
use rdmascope_dissector::record::Time;
use std::sync::Arc;

/// A column of a table.
pub(super) struct Column<T: Table> {
    /// As docs/parquet.md calls it.
    pub(super) name: &'static str,
    shape: Shape<T>,
}

enum Shape<T: Table> {
    /// A value, or null.
    One(Leaf<T>),
    /// A list of values.
    List(Leaf<T>),
    /// A list of records with these fields.
    Records(&'static [(&'static str, Leaf<T>)]),
}

/// Puts what a row has for a column of type `V` into its cells: one value or null, or as many as a list has.
type Fill<T, V> = fn(&<T as Table>::Row<'_>, &mut Cells<V>);

/// What each value of a column is, and where it comes from.
pub(super) enum Leaf<T: Table> {
    Boolean(Fill<T, bool>),
    U8(Fill<T, u8>),
    U16(Fill<T, u16>),
    U32(Fill<T, u32>),
    U64(Fill<T, u64>),
    Time(Fill<T, Time>),
    Text(Fill<T, Text>),
}

/// A column of one value, or null, in each row.
pub(super) const fn one<T: Table>(name: &'static str, leaf: Leaf<T>) -> Column<T> {
    Column { name, shape: Shape::One(leaf) }
}

/// A column of a list in each row.
pub(super) const fn list<T: Table>(name: &'static str, leaf: Leaf<T>) -> Column<T> {
    Column { name, shape: Shape::List(leaf) }
}

/// A column of a list of records in each row. All fields put the same number of values.
pub(super) const fn records<T: Table>(
    name: &'static str,
    fields: &'static [(&'static str, Leaf<T>)],
) -> Column<T> {
    Column { name, shape: Shape::Records(fields) }
}

impl<T: Table> Column<T> {
    /// The column in the schema of a file. Lists have the three levels that the format asks of them; they are never null, but
    /// empty.
    pub(super) fn schema(&self) -> Result<TypePtr> {
        let element = match &self.shape {
            Shape::One(leaf) => return leaf.schema(self.name),
            Shape::List(leaf) => leaf.schema("element")?,
            Shape::Records(fields) => {
                let fields =
                    fields.iter().map(|(name, leaf)| leaf.schema(name)).collect::<Result<Vec<_>>>()?;
                group("element", Repetition::REQUIRED, None, fields)?
            }
        };
        let list = group("list", Repetition::REPEATED, None, vec![element])?;
        group(self.name, Repetition::REQUIRED, Some(LogicalType::List), vec![list])
    }

    /// The leaves of the column, in the order of the schema.
    pub(super) fn leaves(&self) -> Vec<Box<dyn Waiting<T>>> {
        match &self.shape {
            Shape::One(leaf) => vec![leaf.waiting(false)],
            Shape::List(leaf) => vec![leaf.waiting(true)],
            Shape::Records(fields) => fields.iter().map(|(_, leaf)| leaf.waiting(true)).collect(),
        }
    }
}

fn group(
    name: &str,
    repetition: Repetition,
    logical: Option<LogicalType>,
    fields: Vec<TypePtr>,
) -> Result<TypePtr> {
    let group = Type::group_type_builder(name).with_repetition(repetition);
    Ok(Arc::new(group.with_logical_type(logical).with_fields(fields).build()?))
}

impl<T: Table> Leaf<T> {
    fn schema(&self, name: &str) -> Result<TypePtr> {
        match self {
            Leaf::Boolean(_) => schema::<bool>(name),
            Leaf::U8(_) => schema::<u8>(name),
            Leaf::U16(_) => schema::<u16>(name),
            Leaf::U32(_) => schema::<u32>(name),
            Leaf::U64(_) => schema::<u64>(name),
            Leaf::Time(_) => schema::<Time>(name),
            Leaf::Text(_) => schema::<Text>(name),
        }
    }

    fn waiting(&self, list: bool) -> Box<dyn Waiting<T>> {
        match *self {
            Leaf::Boolean(fill) => waiting(fill, list),
            Leaf::U8(fill) => waiting(fill, list),
            Leaf::U16(fill) => waiting(fill, list),
            Leaf::U32(fill) => waiting(fill, list),
            Leaf::U64(fill) => waiting(fill, list),
            Leaf::Time(fill) => waiting(fill, list),
            Leaf::Text(fill) => waiting(fill, list),
        }
    }
}

fn schema<V: Value>(name: &str) -> Result<TypePtr> {
    let primitive = Type::primitive_type_builder(name, V::Parquet::get_physical_type());
    let optional = primitive.with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(optional.with_logical_type(V::logical()).build()?))
}

fn waiting<T: Table, V: Value>(fill: Fill<T, V>, list: bool) -> Box<dyn Waiting<T>> {
    Box::new(Filled { fill, cells: Cells::new(list) })
}

/// Values of a leaf that wait for their row group to be written.
pub(super) trait Waiting<T: Table> {
    /// Takes what `row` has; returns how many bytes that are.
    fn take(&mut self, row: &T::Row<'_>) -> usize;

    /// Writes all of it.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<()>;
}

/// The cells of a leaf and what fills them.
struct Filled<T: Table, V: Value> {
    fill: Fill<T, V>,
    cells: Cells<V>,
}

impl<T: Table, V: Value> Waiting<T> for Filled<T, V> {
    fn take(&mut self, row: &T::Row<'_>) -> usize {
        let Filled { fill, cells } = self;
        let before = cells.bytes();
        cells.in_row = 0;
        fill(row, cells);
        if cells.list && cells.in_row == 0 {
            cells.put_level(0);
        }
        debug_assert!(cells.list || cells.in_row == 1, "a column that is no list has one value in each row");
        cells.bytes() - before
    }

    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let cells = &mut self.cells;
        let repetition = cells.list.then_some(cells.repetition.as_slice());
        let values = V::values(&mut cells.values);
        writer.typed::<V::Parquet>().write_batch(&values, Some(&cells.definition), repetition)?;
        cells.definition.clear();
        cells.repetition.clear();
        Ok(())
    }
}

/// The values of a leaf with what Parquet calls levels: which of the optional and repeated parts of their path are there.
pub(super) struct Cells<V: Value> {
    values: V::Store,
    /// 0: an empty list. One less than that of a value: null.
    definition: Vec<i16>,
    /// 0: the first of its row, 1: a further one.
    repetition: Vec<i16>,
    list: bool,
    in_row: usize,
}

impl<V: Value> Cells<V> {
    fn new(list: bool) -> Cells<V> {
        let values = V::Store::default();
        Cells { values, definition: Vec::new(), repetition: Vec::new(), list, in_row: 0 }
    }

    fn bytes(&self) -> usize {
        V::bytes(&self.values) + size_of::<i16>() * (self.definition.len() + self.repetition.len())
    }

    fn put_level(&mut self, definition: i16) {
        self.definition.push(definition);
        if self.list {
            self.repetition.push((self.in_row > 0).into());
        }
        self.in_row += 1;
    }

    fn put_levels(&mut self, is_there: bool) {
        self.put_level(i16::from(self.list) + i16::from(is_there));
    }
}

impl<V: Number> Cells<V> {
    /// The next value, or null.
    pub(super) fn put(&mut self, value: impl Into<Option<V>>) {
        let value = value.into();
        self.put_levels(value.is_some());
        self.values.extend(value.map(V::stored));
    }
}

impl Cells<Text> {
    /// The next text, or null.
    pub(super) fn put(&mut self, text: impl Into<Option<&'static str>>) {
        self.show(text.into());
    }

    /// The next text, or null: what `Display` writes.
    pub(super) fn show(&mut self, text: Option<impl Display>) {
        self.put_levels(text.is_some());
        if let Some(text) = text {
            write!(self.values.text, "{text}").expect("a string takes all");
            self.values.ends.push(self.values.text.len());
        }
    }
}

/// A type that columns have.
pub(super) trait Value: 'static {
    /// How Parquet stores it.
    type Parquet: DataType;
    /// Values that wait.
    type Store: Default;

    /// What the stored values mean.
    fn logical() -> Option<LogicalType>;

    /// How many bytes wait.
    fn bytes(store: &Self::Store) -> usize;

    /// The values, to be written; the store is empty then.
    fn values(store: &mut Self::Store) -> Vec<<Self::Parquet as DataType>::T>;
}

/// A type whose values are stored one by one.
pub(super) trait Number: Value<Store = Vec<<<Self as Value>::Parquet as DataType>::T>> {
    fn stored(self) -> <Self::Parquet as DataType>::T;
}

/// Unsigned numbers are stored in the bits of signed ones.
macro_rules! number {
    ($type:ty, $parquet:ty, $logical:expr, |$value:ident| $stored:expr) => {
        impl Value for $type {
            type Parquet = $parquet;
            type Store = Vec<<$parquet as DataType>::T>;

            fn logical() -> Option<LogicalType> {
                $logical
            }

            fn bytes(store: &Self::Store) -> usize {
                size_of_val(store.as_slice())
            }

            fn values(store: &mut Self::Store) -> Vec<<$parquet as DataType>::T> {
                mem::take(store)
            }
        }

        impl Number for $type {
            fn stored(self) -> <$parquet as DataType>::T {
                let $value = self;
                $stored
            }
        }
    };
}

number!(bool, BoolType, None, |value| value);
number!(u8, Int32Type, Some(LogicalType::integer(8, false)), |value| value.into());
number!(u16, Int32Type, Some(LogicalType::integer(16, false)), |value| value.into());
number!(u32, Int32Type, Some(LogicalType::integer(32, false)), |value| value.cast_signed());
number!(u64, Int64Type, Some(LogicalType::integer(64, false)), |value| value.cast_signed());
number!(Time, Int64Type, Some(LogicalType::timestamp(true, TimeUnit::NANOS)), |value| value.0);

/// UTF-8.
pub(super) struct Text;

/// Texts one behind the other: nothing is allocated for each.
#[derive(Default)]
pub(super) struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Value for Text {
    type Parquet = ByteArrayType;
    type Store = Texts;

    fn logical() -> Option<LogicalType> {
        Some(LogicalType::String)
    }

    fn bytes(store: &Texts) -> usize {
        store.text.len() + size_of_val(store.ends.as_slice())
    }

    fn values(store: &mut Texts) -> Vec<ByteArray> {
        let text = Bytes::from(mem::take(&mut store.text));
        let mut start = 0;
        let value = |end| ByteArray::from(text.slice(mem::replace(&mut start, end)..end));
        mem::take(&mut store.ends).into_iter().map(value).collect()
    }
}
