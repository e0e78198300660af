//! `rdmascope export parquet`: the tables, row by row, compared with the JSON Lines of the same
//! capture.
#![cfg(feature = "parquet")]

mod binary;
mod planted;

use binary::{Temporary, folder, lines, refused, root, run, sample, text, with_input};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rdmascope_tests::{mutate, pcap, samples};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

const TABLES: [&str; 8] =
    ["transactions", "operations", "messages", "packets", "connections", "findings", "events", "captures"];

/// A temporary folder, removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the path is UTF-8")
    }

    fn part(&self, table: &str, capture: &str) -> PathBuf {
        self.0.join(table).join(format!("capture={capture}")).join("part-0.parquet")
    }

    fn rows(&self, table: &str, capture: &str) -> Vec<Row> {
        rows(&self.part(table, capture))
    }

    /// The names of its folders and files.
    fn entries(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The values of a row, without nulls.
type Row = BTreeMap<String, Value>;

fn rows(path: &Path) -> Vec<Row> {
    let reader =
        SerializedFileReader::new(File::open(path).expect("the table is there")).expect("it is complete");
    let rows = reader.get_row_iter(None).expect("it has rows");
    rows.map(|row| {
        let row = row.expect("it can be read");
        let columns = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        one_column_for_each_instant(columns.filter(|(_, value)| !value.is_null()).collect())
    })
    .collect()
}

/// Times are in microseconds, and in nanoseconds in a column with `_ns`. Keeps the nanoseconds
/// under the name without the suffix.
fn one_column_for_each_instant(mut row: Row) -> Row {
    let instants =
        row.keys().filter(|name| name.ends_with("_ns") && row.contains_key(&name[..name.len() - 3]));
    for exact in instants.cloned().collect::<Vec<_>>() {
        let nanoseconds = row.remove(&exact).expect("it was just found");
        let rounded = row.insert(exact[..exact.len() - 3].to_owned(), nanoseconds.clone());
        let microseconds = nanoseconds.as_i64().expect("a number").div_euclid(1000);
        assert_eq!(rounded, Some(json!({ "microseconds": microseconds })), "{exact}");
    }
    row
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => json!(value),
        Field::UByte(value) => json!(value),
        Field::UShort(value) => json!(value),
        Field::UInt(value) => json!(value),
        Field::ULong(value) => json!(value),
        Field::Long(value) => json!(value),
        Field::TimestampMicros(value) => json!({ "microseconds": value }),
        Field::Str(value) => json!(value),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::Group(row) => {
            let fields = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
            Value::Object(fields.collect())
        }
        other => panic!("no column has such a value: {other:?}"),
    }
}

/// The fields of a line in the form of a row: fields of objects are prefixed with the object's
/// name, and nulls are removed.
fn flat(line: &Map<String, Value>) -> Row {
    fn walk(prefix: &str, object: &Map<String, Value>, row: &mut Row) {
        for (key, value) in object {
            let name = match (prefix, key.as_str()) {
                ("", key) => key.to_owned(),
                // The one object whose name no column has.
                (prefix, "counts") => prefix.to_owned(),
                (prefix, key) => format!("{prefix}_{key}"),
            };
            match value {
                Value::Null => {}
                Value::Object(object) => walk(&name, object, row),
                value => {
                    row.insert(name, value.clone());
                }
            }
        }
    }
    let mut row = Row::new();
    walk("", line, &mut row);
    row.remove("type");
    row
}

/// `expected` with numbers wherever the row has numbers: JSON has some numbers, and times, as
/// strings.
fn as_stored(expected: &Value, found: &Value) -> Value {
    match (expected, found) {
        (Value::String(text), Value::Number(_)) => match text.strip_prefix("0x") {
            Some(digits) => json!(u64::from_str_radix(digits, 16).expect("hexadecimal digits")),
            None => json!(nanoseconds(text)),
        },
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            expected.iter().zip(found).map(|(expected, found)| as_stored(expected, found)).collect()
        }
        (Value::Object(expected), Value::Object(found)) => {
            let field = |(key, value): (&String, &Value)| {
                (key.clone(), as_stored(value, found.get(key).unwrap_or(&Value::Null)))
            };
            Value::Object(expected.iter().map(field).collect())
        }
        _ => expected.clone(),
    }
}

fn nanoseconds(time: &str) -> i64 {
    let time: jiff::Timestamp = time.parse().expect("a time");
    i64::try_from(time.as_nanosecond()).expect("64 bits")
}

/// Asserts that the rows have exactly the expected values.
#[track_caller]
fn same(context: &str, expected: &[Row], found: &[Row]) {
    assert_eq!(expected.len(), found.len(), "{context}: rows");
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        let null = Value::Null;
        let stored = expected
            .iter()
            .map(|(name, value)| (name.clone(), as_stored(value, found.get(name).unwrap_or(&null))));
        assert_eq!(&stored.collect::<Row>(), found, "{context}: row {index}");
    }
}

fn jsonl(command: &str, sample_name: &str) -> Vec<Map<String, Value>> {
    let lines = lines(&run(&[command, &sample(sample_name), "--format", "jsonl"]));
    lines
        .into_iter()
        .map(|line| match line {
            Value::Object(map) => map,
            other => panic!("no object: {other}"),
        })
        .collect()
}

fn transaction(mut line: Map<String, Value>) -> Row {
    line.remove("operation_details");
    for message in ["call", "reply"] {
        if let Some(Value::Object(message)) = line.get_mut(message) {
            message.retain(|key, _| key == "frame" || key == "time");
        }
    }
    flat(&line)
}

fn of_transaction(line: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    keys.iter().map(|key| ((*key).to_owned(), line[*key].clone())).collect()
}

fn operations(line: &Map<String, Value>) -> Vec<Row> {
    let details = line["operation_details"].as_array().expect("a list");
    let row = |(index, details): (usize, &Value)| {
        let mut row = of_transaction(line, &["number", "connection", "xid"]);
        row.insert("index".to_owned(), json!(index));
        row.extend(details.as_object().expect("an object").clone());
        flat(&row)
    };
    details.iter().enumerate().map(row).collect()
}

/// The segments of chunks, each with the properties that `more` gives for its chunk.
fn segments<'a>(
    chunks: impl Iterator<Item = &'a Value>,
    more: impl Fn(usize, &Value) -> Option<(&'static str, Value)>,
) -> Vec<Value> {
    let mut all = Vec::new();
    for (index, chunk) in chunks.enumerate() {
        for segment in chunk["segments"].as_array().expect("a list") {
            let mut segment = segment.clone();
            if let Some((name, value)) = more(index, chunk) {
                segment[name] = value;
            }
            all.push(segment);
        }
    }
    all
}

fn total(segments: &[Value]) -> u64 {
    segments.iter().map(|segment| segment["length"].as_u64().expect("a number")).sum()
}

fn messages(line: &Map<String, Value>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, is_reply) in [("call", false), ("reply", true)] {
        let Value::Object(message) = &line[name] else { continue };
        let mut row = of_transaction(line, &["number", "connection", "direction", "xid"]);
        row.extend(message.clone());
        let chunks = |row: &mut Map<String, Value>, name| row.remove(name).expect("it is there");
        let reads = chunks(&mut row, "read_chunks");
        let writes = chunks(&mut row, "write_chunks");
        let reply = chunks(&mut row, "reply_chunk");
        let (reads, writes) = (reads.as_array().expect("a list"), writes.as_array().expect("a list"));
        let read_segments = segments(reads.iter(), |_, chunk| Some(("position", chunk["position"].clone())));
        let write_segments = segments(writes.iter(), |index, _| Some(("chunk", json!(index))));
        let reply_segments = segments([&reply].into_iter().filter(|chunk| chunk.is_object()), |_, _| None);
        for (name, value) in [
            ("is_reply", json!(is_reply)),
            ("read_chunk_count", json!(reads.len())),
            ("read_chunk_bytes", json!(total(&read_segments))),
            ("write_chunk_count", json!(writes.len())),
            ("write_chunk_bytes", json!(total(&write_segments))),
            ("has_reply_chunk", json!(reply.is_object())),
            ("reply_chunk_bytes", json!(total(&reply_segments))),
            ("read_segments", json!(read_segments)),
            ("write_segments", json!(write_segments)),
            ("reply_segments", json!(reply_segments)),
        ] {
            row.insert(name.to_owned(), value);
        }
        rows.push(flat(&row));
    }
    rows
}

/// The findings in the expectation of a capture after blessing.
fn findings(capture: &[u8]) -> Vec<Row> {
    let folder = folder();
    std::fs::write(folder.path().join("x.pcap"), capture).expect("it can be written");
    let blessed = run(&["regress", "--bless", folder.path().to_str().expect("the path is UTF-8")]);
    assert!(blessed.status.success(), "{}", text(&blessed.stderr));
    let lines = std::fs::read_to_string(folder.path().join("x.expected.jsonl")).expect("it was just written");
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    lines.filter(|line: &Map<String, Value>| line["type"] == "finding").map(finding).collect()
}

fn finding(mut line: Map<String, Value>) -> Row {
    line.remove("allowed_rule");
    let transaction = line.remove("transaction").expect("a number or null");
    line.insert("number".to_owned(), transaction);
    for name in ["observed", "allowed"] {
        let value = line[name].as_object_mut().filter(|value| value["unit"] == "text");
        if let Some(value) = value {
            let text = value.remove("value").expect("it has one");
            value.insert("text".to_owned(), text);
        }
    }
    flat(&line)
}

#[test]
fn finding_rows_match_json_lines() {
    let folder = Folder::new("findings");
    let planted = planted::never_any_credits("nfs3-basic").bytes;
    let output =
        with_input(&["export", "parquet", "-", "--capture", "zero", "--output", folder.path()], &planted);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = folder.rows("findings", "zero");
    // Every reply violates the rule: 265 calls in client.trace.
    assert_eq!(rows.iter().filter(|row| row["rule"] == json!(planted::RULE)).count(), 265);
    same("planted", &findings(&planted), &rows);
    for name in samples::ALL {
        let capture = &format!("{name}.pcap");
        run(&["export", "parquet", &sample(capture), "--output", folder.path()]);
        let bytes = std::fs::read(sample(capture)).expect("the sample is there");
        same(capture, &findings(&bytes), &folder.rows("findings", capture));
    }
}

fn packet(mut line: Map<String, Value>) -> Row {
    if let Some(Value::Object(header)) = line.get_mut("rpcrdma") {
        for list in ["read_segments", "write_chunks", "reply_chunk"] {
            header.remove(list);
        }
    }
    flat(&line)
}

#[test]
fn rows_match_json_lines() {
    let folder = Folder::new("rows");
    for name in samples::ALL {
        let capture = &format!("{name}.pcap");
        let output = run(&["export", "parquet", &sample(capture), "--output", folder.path()]);
        assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), "", ""));

        let lines = jsonl("transactions", capture);
        let rows = folder.rows("transactions", capture);
        let expected: Vec<_> = lines.iter().cloned().map(transaction).collect();
        same(capture, &expected, &rows);
        let expected: Vec<_> = lines.iter().flat_map(operations).collect();
        same(capture, &expected, &folder.rows("operations", capture));
        let expected: Vec<_> = lines.iter().flat_map(messages).collect();
        same(capture, &expected, &folder.rows("messages", capture));
        let expected: Vec<_> = jsonl("packets", capture).into_iter().map(packet).collect();
        same(capture, &expected, &folder.rows("packets", capture));
        let expected: Vec<_> = jsonl("connections", capture).iter().map(flat).collect();
        same(capture, &expected, &folder.rows("connections", capture));
        let expected: Vec<_> = jsonl("events", capture).iter().map(flat).collect();
        assert!(!expected.is_empty());
        same(capture, &expected, &folder.rows("events", capture));
    }
    let mut entries = folder.entries();
    entries.sort();
    let mut tables = TABLES;
    tables.sort_unstable();
    assert_eq!(entries, tables, "no other files are left");
}

/// The sandbox allows reading the captures of other capture points.
#[test]
fn other_capture_points_are_read() {
    let other = Temporary::new(
        "parquet-with.pcap",
        &std::fs::read(sample("nfs4.1-basic.pcap")).expect("the sample is there"),
    );
    let folder = Folder::new("with");
    let output = run(&[
        "export",
        "parquet",
        &sample("nfs4.1-basic.pcap"),
        "--with",
        other.path(),
        "--output",
        folder.path(),
    ]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

/// Two sessions without their connects: connections are numbered in packet order.
#[test]
fn midstream_connections_have_the_same_numbers() {
    let folder = Folder::new("middle");
    let session = samples::capture("nfs3-lossy");
    let capture = pcap::write(&mutate::from(&mutate::side_by_side(&session, 1_000_000), 700));
    let output =
        with_input(&["export", "parquet", "-", "--capture", "middle", "--output", folder.path()], &capture);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    for table in ["transactions", "packets", "connections", "events"] {
        let lines = lines(&with_input(&[table, "-", "--format", "jsonl"], &capture));
        let of_line = |line: &Value| line["connection"].as_u64();
        let of_row = |row: &Row| row.get("connection").and_then(Value::as_u64);
        let expected: Vec<_> = lines.iter().map(of_line).collect();
        let found: Vec<_> = folder.rows(table, "middle").iter().map(of_row).collect();
        assert_eq!(found, expected, "{table}");
        let known: BTreeSet<_> = found.into_iter().flatten().collect();
        assert_eq!(known, BTreeSet::from([1, 2]), "{table}");
    }
}

#[test]
fn labels_match_the_report() {
    let folder = Folder::new("labels");
    for capture in ["nfs3-lossy.pcap", "nfs4.1-backchannel-recall.pcap"] {
        run(&["export", "parquet", &sample(capture), "--output", folder.path()]);
        let mut found: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for row in folder.rows("transactions", capture) {
            let key = ["protocol", "direction", "operation"].map(|name| row.get(name).cloned());
            let (count, failed) =
                found.entry(key.map(|value| value.unwrap_or_default().to_string())).or_default();
            *count += 1;
            *failed += u64::from(row["failed"] == json!(true));
        }
        let lines = jsonl("analyze", capture);
        let operations = lines.iter().filter(|line| line["type"] == "operation");
        let expected: BTreeMap<_, _> = operations
            .map(|line| {
                let key = ["protocol", "direction", "operation"].map(|name| line[name].to_string());
                let number = |name: &str| line[name].as_u64().expect("a number");
                (key, (number("count"), number("errors")))
            })
            .collect();
        assert_eq!(found, expected, "{capture}");
    }
}

/// An independent source: xprtrdma_marshal and xprtrdma_chunk_read of this XID in
/// nfs3-basic.client.trace.
#[test]
fn write_matches_the_kernel_trace() {
    let folder = Folder::new("trace");
    run(&["export", "parquet", &sample("nfs3-basic.pcap"), "--output", folder.path()]);
    let messages = folder.rows("messages", "nfs3-basic.pcap");
    let mut of_xid = messages.iter().filter(|row| row["xid"] == json!(0x1b39_6a62));
    let call = of_xid.next().expect("it is there");
    assert_eq!(call["header_length"], 76);
    assert_eq!(call["message_length"], 108 + 262_144);
    assert_eq!(
        call["read_segments"],
        json!([
            {"position": 108, "handle": 0xc43, "length": 131_072, "offset": 0x1b39_6a62_0469_4000_u64},
            {"position": 108, "handle": 0xbc4, "length": 131_072, "offset": 0x1b39_6a62_046b_4000_u64},
        ])
    );
}

#[test]
fn export_replaces_the_same_capture() {
    let folder = Folder::new("replaces");
    let export = |file: &str, capture: &str| {
        let output =
            run(&["export", "parquet", &sample(file), "--output", folder.path(), "--capture", capture]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    };
    export("nfs3-basic.pcap", "a b");
    export("nfs3-basic.pcap", "other");
    // The number of calls in the client's tracepoints.
    assert_eq!(folder.rows("transactions", "a%20b").len(), 265);
    export("connect-rejected.pcap", "a b");
    assert_eq!(folder.rows("transactions", "a%20b").len(), 0);
    // tshark: two ConnectRequests with separate communication IDs.
    assert_eq!(folder.rows("connections", "a%20b").len(), 2);
    assert_eq!(folder.rows("transactions", "other").len(), 265);
}

#[test]
fn standard_output_is_refused() {
    let output = run(&["export", "parquet", &sample("nfs3-basic.pcap"), "--output", "-"]);
    refused(&output, &["Parquet is written to a folder; use --output DIR"]);
}

#[test]
fn standard_input_needs_a_capture_name() {
    let folder = Folder::new("stdin");
    let bytes = std::fs::read(sample("nfs4.1-backchannel-recall.pcap")).expect("the sample is there");
    refused(&with_input(&["export", "parquet", "-", "--output", folder.path()], &bytes), &["--capture"]);
    let output =
        with_input(&["export", "parquet", "-", "--output", folder.path(), "--capture", "../up"], &bytes);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let named = Folder::new("named");
    run(&["export", "parquet", &sample("nfs4.1-backchannel-recall.pcap"), "--output", named.path()]);
    for table in TABLES {
        let mut expected = named.rows(table, "nfs4.1-backchannel-recall.pcap");
        if table == "captures" {
            // Standard input has no length.
            expected[0].remove("size");
            expected[0].insert("files".to_owned(), json!(["-"]));
        }
        same(table, &expected, &folder.rows(table, "..%2Fup"));
    }
}

#[test]
fn failed_export_leaves_no_partition() {
    let folder = Folder::new("fails");
    let manifest = root().join("Cargo.toml");
    let output = run(&["export", "parquet", manifest.to_str().unwrap(), "--output", folder.path()]);
    refused(&output, &["Cargo.toml", "byte 0"]);
    assert_eq!(folder.entries(), [""; 0]);
    let output =
        run(&["export", "parquet", &sample("nfs3-basic.pcap"), "--output", manifest.to_str().unwrap()]);
    refused(&output, &["Cargo.toml: cannot be written to"]);
}
