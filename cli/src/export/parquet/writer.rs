//! A table on its way to a file, one row group after the other.

use super::cells::{self, Waiting};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use rdmascope_present::column::{Fields, List, parquet as flat};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Rows of a row group, unless their bytes are too many before.
const ROWS: usize = 1 << 16;
/// Bytes of values that wait to be written, from which on a row group is full.
const BYTES: usize = 16 << 20;

/// The version of the schema of all tables. It grows where a column goes, or gets another name, type or meaning, and where the layout of folders changes; not where
/// a column or a table is added.
pub(super) const SCHEMA: u32 = 1;
/// What it is called in the metadata of each file.
pub(super) const SCHEMA_KEY: &str = "rdmascope.schema";

/// Takes rows and writes a file. Memory does not grow with their number, but for the few bytes about each row group that
/// stand at the end of the file.
pub(super) struct TableWriter {
    file: SerializedFileWriter<File>,
    waiting: Waiting,
    rows: usize,
    bytes: usize,
    /// Rows in row groups that were written.
    written: u64,
}

impl TableWriter {
    /// Begins the file, which is empty: the table `name` of the columns of `list`.
    pub(super) fn create(file: File, name: &str, list: &dyn List) -> io::Result<TableWriter> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("rdmascope version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![KeyValue::new(SCHEMA_KEY.to_owned(), SCHEMA.to_string())]));
        let schema = schema(name, list).map_err(plain)?;
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties.build()));
        Ok(TableWriter {
            file: file.map_err(plain)?,
            waiting: Waiting::of(list),
            rows: 0,
            bytes: 0,
            written: 0,
        })
    }

    /// Takes a row.
    pub(super) fn row(&mut self, row: &dyn Fields) -> io::Result<()> {
        self.bytes += self.waiting.take(row);
        self.rows += 1;
        if self.rows == ROWS || self.bytes >= BYTES { self.write_row_group().map_err(plain) } else { Ok(()) }
    }

    /// How many rows it took.
    pub(super) fn rows(&self) -> u64 {
        self.written + self.rows as u64
    }

    /// Ends the file: all of it is on the disk then.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_row_group().map_err(plain)?;
        }
        self.file.into_inner().map_err(plain)?.sync_all()
    }

    fn write_row_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for cells in self.waiting.cells() {
            let mut column = group.next_column()?.expect("the schema was made of the same columns");
            cells.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.written += self.rows as u64;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

/// The schema of a table's files.
pub(super) fn schema(name: &str, list: &dyn List) -> Result<TypePtr> {
    let columns = flat::table(list).iter().map(cells::schema).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(columns).build()?))
}

/// The error below, which is one of the file.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => io::Error::other(error),
        error => io::Error::other(error),
    }
}
