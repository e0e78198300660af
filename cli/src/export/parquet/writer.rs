//! Writes a table to a file, one row group after the other.

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

/// Maximum number of rows per row group, unless [`BYTES`] is reached earlier.
const ROWS: usize = 1 << 16;
/// Size of waiting values, in bytes, at which a row group is written.
const BYTES: usize = 16 << 20;

/// The version of the schema of all tables. It is incremented when a column is removed or gets
/// another name, type or meaning, and when the layout of folders changes, but not when a column or
/// a table is added.
pub(super) const SCHEMA: u32 = 1;
/// The key of the version in the metadata of each file.
pub(super) const SCHEMA_KEY: &str = "rdmascope.schema";

/// Writes rows to a file. Memory use does not grow with their number, except for a few bytes per
/// row group, which the footer of the file needs.
pub(super) struct TableWriter {
    file: SerializedFileWriter<File>,
    waiting: Waiting,
    rows: usize,
    bytes: usize,
    /// Number of rows in written row groups.
    written: u64,
}

impl TableWriter {
    /// Starts an empty file: the table `name` with the columns of `list`.
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

    /// Number of rows taken.
    pub(super) fn rows(&self) -> u64 {
        self.written + self.rows as u64
    }

    /// Finishes the file and syncs it to disk.
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

/// Converts the error to an I/O error.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => io::Error::other(error),
        error => io::Error::other(error),
    }
}
