//! Column values that wait to be written.

use bytes::Bytes;
use core::fmt::{self, Write as _};
use core::mem;
use parquet::basic::{LogicalType, Repetition, TimeUnit};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::{Type, TypePtr};
use rdmascope_present::column::parquet::{Shape, Stored, TableColumn, stored};
use rdmascope_present::column::{Fields, Kind, List, Lossy, Output, Value};
use rdmascope_present::text::HexBytes;
use std::sync::Arc;

/// The column in the schema of a file. Lists have the three levels that the format requires; they
/// may be empty but never null.
pub(super) fn schema(column: &TableColumn) -> Result<TypePtr> {
    let element = match &column.shape {
        Shape::One(stored) => return leaf(&column.name, *stored),
        Shape::List(stored) => leaf("element", *stored)?,
        Shape::Records(fields) => {
            let fields =
                fields.iter().map(|(name, stored)| leaf(name, *stored)).collect::<Result<Vec<_>>>()?;
            group("element", Repetition::REQUIRED, None, fields)?
        }
    };
    let list = group("list", Repetition::REPEATED, None, vec![element])?;
    group(&column.name, Repetition::REQUIRED, Some(LogicalType::List), vec![list])
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

/// Unsigned numbers are stored in the bits of signed ones.
fn leaf(name: &str, stored: Stored) -> Result<TypePtr> {
    let integer = |bits| Some(LogicalType::integer(bits, false));
    let (physical, logical) = match stored {
        Stored::Boolean => (BoolType::get_physical_type(), None),
        Stored::U8 => (Int32Type::get_physical_type(), integer(8)),
        Stored::U16 => (Int32Type::get_physical_type(), integer(16)),
        Stored::U32 => (Int32Type::get_physical_type(), integer(32)),
        Stored::U64 => (Int64Type::get_physical_type(), integer(64)),
        Stored::I64 => (Int64Type::get_physical_type(), None),
        Stored::Time => {
            (Int64Type::get_physical_type(), Some(LogicalType::timestamp(true, TimeUnit::MICROS)))
        }
        Stored::Text => (ByteArrayType::get_physical_type(), Some(LogicalType::String)),
    };
    let primitive = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(primitive.with_logical_type(logical).build()?))
}

/// The waiting values of an object's columns, in the order of its list.
pub(super) struct Waiting {
    columns: Vec<Node>,
}

/// The waiting values of a column.
struct Node {
    is_last: bool,
    holds: Holds,
}

enum Holds {
    /// Values and nulls.
    One(Cells),
    /// Times in microseconds and in nanoseconds.
    Time(Cells, Cells),
    /// Lists of values.
    List(Cells),
    /// Lists of records: the cells of each field.
    Records(Vec<Cells>),
    /// The columns of an object.
    Object(Waiting),
}

impl Waiting {
    /// Creates an empty buffer for the columns of `list`.
    pub(super) fn of(list: &dyn List) -> Waiting {
        let columns = list.columns().into_iter().filter_map(|(info, kind)| {
            let is_last = info.in_parquet?.is_last;
            let holds = match kind {
                Kind::Object(inner) => Holds::Object(Waiting::of(inner)),
                Kind::Objects(inner) => {
                    let fields = inner.columns().into_iter().filter(|(info, _)| info.is_in(Output::Parquet));
                    Holds::Records(fields.map(|(_, kind)| Cells::new(stored(kind), true)).collect())
                }
                Kind::Texts => Holds::List(Cells::new(Stored::Text, true)),
                Kind::Frames => Holds::List(Cells::new(Stored::U64, true)),
                Kind::Time => Holds::Time(Cells::new(Stored::Time, false), Cells::new(Stored::I64, false)),
                kind => Holds::One(Cells::new(stored(kind), false)),
            };
            Some(Node { is_last, holds })
        });
        Waiting { columns: columns.collect() }
    }

    /// Takes the values of a row. Returns their size in bytes.
    pub(super) fn take(&mut self, row: &dyn Fields) -> usize {
        let mut columns = self.columns.iter_mut();
        let mut bytes = 0;
        row.each(Output::Parquet, &mut |_, value| {
            bytes += columns.next().expect("a row has the columns of its list").holds.take(value);
        });
        bytes
    }

    /// All cells, in the order of the schema: columns marked as last come after the others of their
    /// list.
    pub(super) fn cells(&mut self) -> Vec<&mut Cells> {
        let (last, front): (Vec<_>, Vec<_>) = self.columns.iter_mut().partition(|column| column.is_last);
        front.into_iter().chain(last).flat_map(|column| column.holds.cells()).collect()
    }
}

impl Holds {
    fn take(&mut self, value: Value<'_>) -> usize {
        match (self, value) {
            (Holds::One(cells), value) => cells.put(value),
            (Holds::Time(rounded, exact), value) => rounded.put(value) + exact.put(value),
            (Holds::List(cells), Value::List(items)) => {
                cells.begin();
                let mut bytes = 0;
                items.each(&mut |value| bytes += cells.put(value));
                bytes + cells.end()
            }
            (Holds::Records(fields), Value::List(items)) => {
                fields.iter_mut().for_each(Cells::begin);
                let mut bytes = 0;
                items.each(&mut |value| {
                    let Value::Object(record) = value else { return };
                    let mut cells = fields.iter_mut();
                    record.each(Output::Parquet, &mut |_, value| {
                        bytes += cells.next().expect("a record has the columns of its list").put(value);
                    });
                });
                bytes + fields.iter_mut().map(Cells::end).sum::<usize>()
            }
            (Holds::Object(columns), Value::Object(object)) => columns.take(object),
            // The columns of a missing object are null, and lists in it are empty.
            (Holds::Object(columns), value) => {
                columns.columns.iter_mut().map(|column| column.holds.take(value)).sum()
            }
            (Holds::List(cells), _) => {
                cells.begin();
                cells.end()
            }
            (Holds::Records(fields), _) => {
                fields.iter_mut().for_each(Cells::begin);
                fields.iter_mut().map(Cells::end).sum()
            }
        }
    }

    fn cells(&mut self) -> Vec<&mut Cells> {
        match self {
            Holds::One(cells) | Holds::List(cells) => vec![cells],
            Holds::Time(rounded, exact) => vec![rounded, exact],
            Holds::Records(fields) => fields.iter_mut().collect(),
            Holds::Object(columns) => columns.cells(),
        }
    }
}

/// The values of a leaf with Parquet's levels, which give the parts of its path that are present.
pub(super) struct Cells {
    values: Values,
    /// 0 for an empty list; one less than the level of a value for null.
    definition: Vec<i16>,
    /// 0 for the first value of its row, 1 for further ones.
    repetition: Vec<i16>,
    is_list: bool,
    in_row: usize,
}

/// Values in their Parquet types.
enum Values {
    Boolean(Vec<bool>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    /// Nanoseconds, stored as microseconds.
    Micros(Vec<i64>),
    /// The concatenated texts and the end of each, without an allocation per text.
    Text(String, Vec<usize>),
}

impl Cells {
    fn new(stored: Stored, is_list: bool) -> Cells {
        let values = match stored {
            Stored::Boolean => Values::Boolean(Vec::new()),
            Stored::U8 | Stored::U16 | Stored::U32 => Values::I32(Vec::new()),
            Stored::U64 | Stored::I64 => Values::I64(Vec::new()),
            Stored::Time => Values::Micros(Vec::new()),
            Stored::Text => Values::Text(String::new(), Vec::new()),
        };
        Cells { values, definition: Vec::new(), repetition: Vec::new(), is_list, in_row: 0 }
    }

    /// Begins a list.
    fn begin(&mut self) {
        self.in_row = 0;
    }

    /// Ends a list. Returns the size of an empty one in bytes.
    fn end(&mut self) -> usize {
        if self.in_row == 0 { self.put_level(0) } else { 0 }
    }

    fn put_level(&mut self, definition: i16) -> usize {
        self.definition.push(definition);
        if self.is_list {
            self.repetition.push((self.in_row > 0).into());
        }
        self.in_row += 1;
        size_of::<i16>() * if self.is_list { 2 } else { 1 }
    }

    /// Adds a value or null. Returns its size in bytes.
    fn put(&mut self, value: Value<'_>) -> usize {
        let is_present = !matches!(value, Value::Missing);
        let levels = self.put_level(i16::from(self.is_list) + i16::from(is_present));
        if is_present { levels + self.values.put(value) } else { levels }
    }

    /// Writes all values.
    pub(super) fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let repetition = self.is_list.then_some(self.repetition.as_slice());
        let definition = Some(self.definition.as_slice());
        match &mut self.values {
            Values::Boolean(values) => {
                writer.typed::<BoolType>().write_batch(&mem::take(values), definition, repetition)?;
            }
            Values::I32(values) => {
                writer.typed::<Int32Type>().write_batch(&mem::take(values), definition, repetition)?;
            }
            Values::I64(values) | Values::Micros(values) => {
                writer.typed::<Int64Type>().write_batch(&mem::take(values), definition, repetition)?;
            }
            Values::Text(text, ends) => {
                let text = Bytes::from(mem::take(text));
                let mut start = 0;
                let value = |end| ByteArray::from(text.slice(mem::replace(&mut start, end)..end));
                let values: Vec<_> = mem::take(ends).into_iter().map(value).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, definition, repetition)?;
            }
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }
}

impl Values {
    fn put(&mut self, value: Value<'_>) -> usize {
        match (self, value) {
            (Values::Boolean(values), Value::Boolean(value)) => {
                values.push(value);
                size_of::<bool>()
            }
            // Unsigned numbers are stored in the bits of signed ones.
            (Values::I32(values), Value::Number(number)) => {
                values.push((number as u32).cast_signed());
                size_of::<i32>()
            }
            (Values::I32(values), Value::Key(number) | Value::Qpn(number)) => {
                values.push(number.cast_signed());
                size_of::<i32>()
            }
            (
                Values::I64(values),
                Value::Number(number) | Value::Nanoseconds(number) | Value::Offset(number),
            ) => {
                values.push(number.cast_signed());
                size_of::<i64>()
            }
            (Values::I64(values), Value::Time(time)) => {
                values.push(time.0);
                size_of::<i64>()
            }
            (Values::Micros(values), Value::Time(time)) => {
                values.push(time.0.div_euclid(1000));
                size_of::<i64>()
            }
            (Values::Text(texts, ends), value) => {
                let start = texts.len();
                Words(value).write(texts).expect("a string takes all");
                ends.push(texts.len());
                texts.len() - start + size_of::<usize>()
            }
            _ => unreachable!("the value of a column is of its type"),
        }
    }
}

/// A value of a text column.
struct Words<'a>(Value<'a>);

impl Words<'_> {
    fn write(&self, out: &mut String) -> fmt::Result {
        match self.0 {
            Value::Text(text) => out.write_str(text),
            Value::Shown(shown) => write!(out, "{shown}"),
            Value::Lossy(bytes) => write!(out, "{}", Lossy(bytes)),
            Value::Bytes(bytes) => write!(out, "{}", HexBytes(bytes)),
            _ => unreachable!("the value of a column of texts is one"),
        }
    }
}
