use super::Parquet;
use super::writer::{TableWriter, schema};
use clap::{Args as _, FromArgMatches as _};
use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use rdmascope_conformance::{Finding, Value as Measure};
use rdmascope_dissector::record::Time;
use rdmascope_present::column::List;
use rdmascope_present::column::parquet::table;
use rdmascope_present::columns::{
    FINDING, FindingRow, MESSAGE, MessageRow, OPERATION, OperationRow, PACKET, TABLES, TRANSACTION,
};
use rdmascope_tests::values as samples;
use std::fs::File;

/// A type as written in docs/parquet.md.
fn type_name(column: &Type) -> String {
    if column.is_primitive() {
        return match (column.get_physical_type(), column.get_basic_info().logical_type_ref()) {
            (Physical::BOOLEAN, None) => "BOOLEAN".to_owned(),
            (Physical::BYTE_ARRAY, Some(LogicalType::String)) => "STRING".to_owned(),
            (Physical::INT32 | Physical::INT64, Some(LogicalType::Integer(integer)))
                if !integer.is_signed =>
            {
                format!("UINT{}", integer.bit_width)
            }
            (Physical::INT64, Some(LogicalType::Timestamp(time)))
                if time.is_adjusted_to_u_t_c && time.unit == TimeUnit::MICROS =>
            {
                "TIMESTAMP".to_owned()
            }
            (Physical::INT64, None) => "INT64".to_owned(),
            other => panic!("{}: {other:?}", column.name()),
        };
    }
    if column.get_basic_info().logical_type_ref() == Some(&LogicalType::List) {
        return format!("LIST<{}>", type_name(&column.get_fields()[0].get_fields()[0]));
    }
    let fields = column.get_fields().iter();
    let fields: Vec<_> = fields.map(|field| format!("{} {}", field.name(), type_name(field))).collect();
    format!("STRUCT<{}>", fields.join(", "))
}

/// The schema matches the column lists that docs/parquet.md is generated from.
#[test]
fn schemas_match_the_column_types() {
    for (name, list) in TABLES {
        let schema = schema(name, list).unwrap();
        let found: Vec<_> =
            schema.get_fields().iter().map(|column| (column.name(), type_name(column))).collect();
        let columns = table(list);
        let expected: Vec<_> =
            columns.iter().map(|column| (column.name.as_str(), column.shape.to_string())).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// A written file.
fn written(list: &dyn List, write: impl FnOnce(&mut TableWriter)) -> SerializedFileReader<File> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let mut writer = TableWriter::create(File::create_new(&path).unwrap(), "table", list).unwrap();
    write(&mut writer);
    writer.finish().unwrap();
    SerializedFileReader::new(File::open(&path).unwrap()).unwrap()
}

/// The rows of a file as shown by the reader of the crate.
fn rows(file: &SerializedFileReader<File>) -> Vec<String> {
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

/// Number of rows in each row group.
fn groups(file: &SerializedFileReader<File>) -> Vec<i64> {
    file.metadata().row_groups().iter().map(|group| group.num_rows()).collect()
}

fn assert_has(row: &str, parts: &[&str]) {
    for part in parts {
        assert!(row.contains(part), "{part} is not in {row}");
    }
}

#[test]
fn list_columns_hold_lists_of_all_lengths() {
    let full = samples::full();
    let read = samples::read(3, 10);
    let (call, reply) = (full.call.as_ref().unwrap(), full.reply.as_ref().unwrap());
    let file = written(&MESSAGE, |writer| {
        writer.row(&MESSAGE.of(MessageRow { transaction: &full, message: reply, is_reply: true })).unwrap();
        writer.row(&MESSAGE.of(MessageRow { transaction: &full, message: call, is_reply: false })).unwrap();
        let offers = read.call.as_ref().unwrap();
        writer.row(&MESSAGE.of(MessageRow { transaction: &read, message: offers, is_reply: false })).unwrap();
    });
    let rows = rows(&file);
    assert_eq!(rows.len(), 3);
    assert_has(
        &rows[0],
        &["read_segments: [], ", "write_segments: [], ", "reply_segments: [], ", "missing: [], "],
    );
    assert_has(
        &rows[1],
        &[
            "read_chunk_count: 1, read_chunk_bytes: 8192",
            "read_segments: [{position: 168, handle: 171, length: 4096, offset: 4096}, \
             {position: 168, handle: 172, length: 4096, offset: 18446744073709547520}]",
            "write_segments: [{chunk: 0, handle: 173, length: 100, offset: 0}]",
            "reply_segments: [{handle: 174, length: 2048, offset: 8}]",
            "missing: [{part: \"read-chunk\", index: 0, start: 1024, end: 2048}, \
             {part: \"send\", index: null, start: 0, end: null}]",
        ],
    );
    assert_has(&rows[2], &["read_segments: [], ", "write_segments: [{chunk: 0, handle: 4660, length: 65536"]);
}

#[test]
fn non_utf8_names_have_hex_columns() {
    let full = samples::full();
    let file = written(&OPERATION, |writer| {
        for (index, operation) in full.details.operations.iter().enumerate() {
            writer
                .row(&OPERATION.of(OperationRow { transaction: &full, paths: None, index, operation }))
                .unwrap();
        }
    });
    let rows = rows(&file);
    assert_has(&rows[1], &["file_handle: \"deadbeef\"", "file_name: null, file_name_hex: null"]);
    assert_has(
        &rows[2],
        &[
            "file_name: \"caf\u{e9}\", file_name_hex: null",
            "other_name: \"\u{fffd}\n\", other_name_hex: \"ff0a\"",
            "argument_item_place: \"read-chunk\", argument_item_index: 0",
        ],
    );
}

/// Numbers of all kinds are in one column, with their unit in another; words are in a third.
#[test]
fn finding_values_have_number_text_and_unit_columns() {
    let file = written(&FINDING, |writer| {
        writer.row(&FINDING.of(FindingRow::new(&samples::finding(), false))).unwrap();
        let finding =
            samples::finding().values(Measure::Hexadecimal(0xab), Measure::Words("1 or more".to_owned()));
        writer.row(&FINDING.of(FindingRow::new(&finding, false))).unwrap();
        let finding = samples::finding().values(Measure::Name("RDMA_MSG"), Measure::Nanoseconds(5));
        writer.row(&FINDING.of(FindingRow::new(&finding, false))).unwrap();
        writer.row(&FINDING.of(FindingRow::new(&Finding::new("bare"), false))).unwrap();
    });
    let rows = rows(&file);
    assert_has(
        &rows[0],
        &[
            "rule: \"credit-limit\", level: \"violation\", verdict: \"stands\", connection: 1, by: \"requester\"",
            "xid: 439041031, number: 1, frames: [7, 9], message: \"129 requests in flight where 128 were granted\"",
            "sources: [{document: \"RFC 8166\", section: \"3.3.1\"}",
            "observed_value: 129, observed_text: null, observed_unit: \"count\"",
            "allowed_value: 128, allowed_text: null, allowed_unit: \"count\"",
        ],
    );
    assert_has(
        &rows[1],
        &[
            "observed_value: 171, observed_text: null, observed_unit: \"hexadecimal\"",
            "allowed_value: null, allowed_text: \"1 or more\", allowed_unit: \"text\"",
        ],
    );
    assert_has(
        &rows[2],
        &[
            "observed_text: \"RDMA_MSG\", observed_unit: \"text\", allowed_value: 5, allowed_text: null, allowed_unit: \"nanoseconds\"",
        ],
    );
    assert_has(
        &rows[3],
        &["xid: null, number: null, frames: [], message: \"bare\", sources: [], observed_value: null"],
    );
}

/// Times are rounded down to microseconds, which all readers support; a second column has
/// nanoseconds.
#[test]
fn times_have_microsecond_and_nanosecond_columns() {
    let mut full = samples::full();
    let times = [1_700_000_000_123_456_789, -1];
    let file = written(&TRANSACTION, |writer| {
        for time in times {
            full.call.as_mut().unwrap().seen.time = Time(time);
            writer.row(&TRANSACTION.of((&full).into())).unwrap();
        }
        full.call = None;
        writer.row(&TRANSACTION.of((&full).into())).unwrap();
    });
    let call_times = file.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let column = |wanted| row.get_column_iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
        (column("call_time"), column("call_time_ns"))
    });
    assert_eq!(
        call_times.collect::<Vec<_>>(),
        [
            (Field::TimestampMicros(1_700_000_000_123_456), Field::Long(times[0])),
            (Field::TimestampMicros(-1), Field::Long(times[1])),
            (Field::Null, Field::Null),
        ]
    );
}

/// A row group is written when it reaches a number of rows or bytes.
#[test]
fn row_groups_are_bounded() {
    let full = samples::full();
    let operation = OPERATION.of(OperationRow {
        transaction: &full,
        paths: None,
        index: 0,
        operation: &full.details.operations[0],
    });
    let file = written(&OPERATION, |writer| {
        (0..65_537).for_each(|_| writer.row(&operation).unwrap());
    });
    assert_eq!(groups(&file), [65_536, 1]);

    let mut many = samples::transaction(samples::read(1, 1).procedure.unwrap(), 1, 1);
    let segments = vec![samples::segment(1, 2, 3); 100_000];
    many.call.as_mut().unwrap().write_chunks.push(rdmascope_dissector::transaction::Chunk { segments });
    let message = many.call.as_ref().unwrap();
    let file = written(&MESSAGE, |writer| {
        (0..40).for_each(|_| {
            writer.row(&MESSAGE.of(MessageRow { transaction: &many, message, is_reply: false })).unwrap()
        });
    });
    // Each segment takes 20 bytes of numbers and 16 of levels: 3.6 MB a row, so four rows do not
    // fill 16 MiB.
    assert_eq!(groups(&file), [5; 8]);
}

#[test]
fn empty_table_has_no_row_groups() {
    let file = written(&PACKET, |_| {});
    assert_eq!(groups(&file), [0; 0]);
    assert_eq!(rows(&file), [""; 0]);
}

/// The names of captures for a command line.
fn names(arguments: &[&str]) -> Result<Vec<String>, String> {
    let command = Parquet::augment_args(clap::Command::new("parquet"));
    let words = ["parquet", "--output", "tables"].iter().chain(arguments);
    let parquet = Parquet::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap();
    let jobs = super::captures::jobs(&parquet).map_err(|error| error.to_string())?;
    Ok(jobs.into_iter().map(|job| job.name).collect())
}

#[test]
fn capture_names_come_from_file_names() {
    assert_eq!(names(&["a/mount.pcap"]).unwrap(), ["mount.pcap"]);
    assert_eq!(names(&["a/mount.pcap", "--capture", "a b"]).unwrap(), ["a b"]);
    // A single file of a ring.
    assert_eq!(names(&["a/mount.pcap1"]).unwrap(), ["mount.pcap1"]);
    assert_eq!(
        names(&["a/mount.pcap1", "a/mount.pcap0", "a/other.pcap"]).unwrap(),
        ["mount.pcap", "other.pcap"]
    );
    for nameless in [&["-"][..], &["a", "-"]] {
        assert!(names(nameless).unwrap_err().contains("--capture"));
    }
    assert!(
        names(&["a/mount.pcap", "b/mount.pcap"]).unwrap_err().contains("two captures are called mount.pcap")
    );
}

/// Readers need the version to interpret the columns.
#[test]
fn file_metadata_has_the_schema_version() {
    let file = written(&PACKET, |_| {});
    let entries = file.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(
        entries.iter().any(|entry| entry.key == "rdmascope.schema" && entry.value.as_deref() == Some("1"))
    );
}
