//! Tables of the list commands: CSV, TSV, selected fields, order and clocks, each compared with the
//! JSON Lines of the same command.

mod binary;

use binary::{command, lines, refused, root, run, sample, text};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::process::Output;

const SAMPLES: [&str; 2] = ["nfs4.1-basic.pcap", "nfs3-lossy.pcap"];

/// The output of a command on a sample.
fn output_of(name: &str, sample_name: &str, options: &str) -> Output {
    let capture = sample(sample_name);
    let arguments: Vec<&str> = [name, &capture].into_iter().chain(options.split_whitespace()).collect();
    run(&arguments)
}

fn printed(name: &str, sample_name: &str, options: &str) -> String {
    let output = output_of(name, sample_name, options);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{name} {options}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// The JSON Lines of a command, without the lines of another type at the end.
fn objects(name: &str, sample_name: &str, kind: &str) -> Vec<Value> {
    let lines = printed(name, sample_name, "--format jsonl");
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    lines.filter(|line: &Value| line["type"] == kind).collect()
}

/// The records of CSV according to RFC 4180.
fn csv(text: &str) -> Vec<Vec<String>> {
    let mut records = vec![vec![String::new()]];
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let record = records.last_mut().expect("there is one");
        let field = record.last_mut().expect("there is one");
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted ^= true,
            ',' if !is_quoted => record.push(String::new()),
            '\n' if !is_quoted => records.push(vec![String::new()]),
            _ => field.push(character),
        }
    }
    assert_eq!(records.pop(), Some(vec![String::new()]), "the last line ends too");
    records
}

fn tsv(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split('\t').map(ToOwned::to_owned).collect()).collect()
}

/// The value at a dotted path; for several objects, a list.
fn at(value: &Value, path: &[&str]) -> Value {
    match (value, path) {
        (value, []) => value.clone(),
        (Value::Array(items), path) => items.iter().map(|item| at(item, path)).collect(),
        (value, [first, rest @ ..]) => value.get(first).map_or(Value::Null, |value| at(value, rest)),
    }
}

/// The content of a cell for a value.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(";"),
        value => value.to_string(),
    }
}

fn cell_at(object: &Value, name: &str) -> String {
    cell(&at(object, &name.split('.').collect::<Vec<_>>()))
}

/// The names of the scalars and the lists of scalars in an object.
fn leaves(object: &Map<String, Value>, prefix: &str, found: &mut Vec<String>) {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => leaves(inner, &format!("{name}."), found),
            Value::Array(items) if items.iter().any(Value::is_object) => {}
            _ => found.push(name),
        }
    }
}

const LISTING: [(&str, &str); 6] = [
    ("transactions", "transaction"),
    ("packets", "packet"),
    ("connections", "connection"),
    ("events", "event"),
    ("state", "state"),
    ("check", "finding"),
];

#[test]
fn csv_and_tsv_match_json_lines() {
    for sample in SAMPLES {
        for (name, kind) in LISTING {
            let objects = objects(name, sample, kind);
            let tables =
                [csv(&printed(name, sample, "--format csv")), tsv(&printed(name, sample, "--format tsv"))];
            assert_eq!(tables[0], tables[1], "{name} {sample}");
            let (heading, rows) = tables[0].split_first().expect("there is a heading");
            assert_eq!(rows.len(), objects.len(), "{name} {sample}");
            for (row, object) in rows.iter().zip(&objects) {
                let expected: Vec<String> = heading.iter().map(|name| cell_at(object, name)).collect();
                assert_eq!(*row, expected, "{name} {sample}");
                let mut named = Vec::new();
                leaves(object.as_object().expect("a line is an object"), "", &mut named);
                for leaf in named.iter().filter(|leaf| *leaf != "type" && !cell_at(object, leaf).is_empty()) {
                    assert!(heading.contains(leaf), "{name} {sample} has no {leaf}");
                }
            }
        }
        assert!(!objects("transactions", sample, "transaction").is_empty());
    }
}

#[test]
fn fields_are_selected_by_name() {
    let objects = objects("transactions", SAMPLES[0], "transaction");
    let fields = "xid,call.read_chunks.segments.length,latency,operations,call.frame";
    let heading = fields.replace("latency", "latency_ns");
    let heading: Vec<&str> = heading.split(',').collect();
    let expected: Vec<Vec<String>> =
        objects.iter().map(|object| heading.iter().map(|name| cell_at(object, name)).collect()).collect();
    // Segments in chunks are one list.
    let flattened = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> { rows.into_iter().skip(1).collect() };
    assert!(expected.iter().any(|row| !row[1].is_empty()), "the sample has Read chunks");
    assert_eq!(
        flattened(csv(&printed("transactions", SAMPLES[0], &format!("--format csv --fields {fields}")))),
        expected
    );
    let table = tsv(&printed("transactions", SAMPLES[0], &format!("--format tsv --fields {fields}")));
    assert_eq!(table[0], heading);
    assert_eq!(flattened(table), expected);

    let text = printed("transactions", SAMPLES[0], "--fields number,call.frame,xid,name");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["number", "call.frame", "xid", "name"]);
    assert_eq!(words.len() - 1, objects.len());
    for (words, object) in words[1..].iter().zip(&objects) {
        let expected = ["number", "call.frame", "xid", "name"].map(|name| cell_at(object, name));
        assert_eq!(*words, expected);
    }
}

/// Packets of iWARP have the opcodes of their FPDUs, the header of their first Send and their
/// contents in words, and filters find them.
#[test]
fn iwarp_packets_have_contents() {
    let name = "iwarp-reconnect.pcap";
    let packets = objects("packets", name, "packet");
    let opcodes = |packet: &Value| -> Vec<String> {
        let fpdus = packet["tcp"]["fpdus"].as_array().into_iter().flatten();
        let mut names: Vec<String> = fpdus.map(|fpdu| cell(&fpdu["opcode"])).collect();
        names.dedup();
        names
    };
    for packet in &packets {
        assert_eq!(packet["opcode"].as_str().unwrap_or_default(), opcodes(packet).join(", "), "{packet}");
    }
    let has_send = |packet: &&Value| opcodes(packet).iter().any(|name| name.starts_with("Send"));
    let sends: Vec<&Value> = packets.iter().filter(has_send).collect();
    let begins = |packet: &&&Value| {
        let fpdus = packet["tcp"]["fpdus"].as_array().into_iter().flatten();
        fpdus
            .into_iter()
            .any(|fpdu| fpdu["begins"] == true && fpdu["message_offset"] == 0 && fpdu["queue"] == 0)
    };
    let beginning = sends.iter().filter(begins).count();
    assert!(beginning > 100);
    let rows = |options: &str| tsv(&printed("packets", name, &format!("--format tsv {options}"))).len() - 1;
    assert_eq!(rows("--opcode send"), sends.len());
    assert_eq!(rows("--where rpcrdma.xid>0"), beginning);
    assert_eq!(rows("--where carries~Send*xid*"), beginning);
    let first = &tsv(&printed("packets", name, "--fields opcode,rpcrdma.procedure,carries --format tsv"))[1];
    let contents = "Send 184 bytes msn 15 RDMA_MSG xid 0x4602fc13 credits 128; iWARP 39396 -> 20049, \
                    sequence 3535376417, 208 bytes";
    assert_eq!(*first, ["Send", "RDMA_MSG", contents]);
}

#[test]
fn json_lines_have_the_selected_fields() {
    for sample in SAMPLES {
        let all = objects("transactions", sample, "transaction");
        let options = "--format jsonl --fields number,latency,call.read_chunks,reply.frame,operations";
        let picked = printed("transactions", sample, options);
        let picked: Vec<Value> = picked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let within = |object: &Value, message: &str, field: &str| match &object[message] {
            Value::Null => Value::Null,
            message => json!({ field: message[field] }),
        };
        let expected: Vec<Value> = all
            .iter()
            .map(|object| {
                json!({
                    "number": object["number"],
                    "latency_ns": object["latency_ns"],
                    "call": within(object, "call", "read_chunks"),
                    "reply": within(object, "reply", "frame"),
                    "operations": object["operations"],
                })
            })
            .collect();
        assert_eq!(picked, expected, "{sample}");
    }
    // Columns that JSON Lines lack but Parquet has are available; they name a call.
    let named = printed("transactions", SAMPLES[0], "--format jsonl --fields operation,protocol --top 1");
    assert_eq!(named, "{\"protocol\":\"NFSv4\",\"operation\":\"NULL\"}\n");
    // Lines with selected fields are not followed by a summary of findings.
    let findings = printed("check", SAMPLES[0], "--format jsonl --fields rule");
    assert_eq!(findings.lines().count(), objects("check", SAMPLES[0], "finding").len());
}

#[test]
fn lines_are_sorted_by_a_field() {
    let objects = objects("transactions", SAMPLES[1], "transaction");
    let mut known: Vec<_> = objects.iter().filter(|object| !object["latency_ns"].is_null()).collect();
    let unknown = objects.iter().filter(|object| object["latency_ns"].is_null());
    // A stable sort: calls with equal latency keep their order.
    known.sort_by_key(|object| core::cmp::Reverse(object["latency_ns"].as_u64().unwrap()));
    let expected: Vec<String> =
        known.into_iter().chain(unknown).map(|object| cell(&object["number"])).collect();
    let numbers = |options: &str| {
        let table =
            csv(&printed("transactions", SAMPLES[1], &format!("--format csv --fields number {options}")));
        table.into_iter().skip(1).flatten().collect::<Vec<_>>()
    };
    assert_eq!(numbers("--sort latency --reverse"), expected);
    assert_eq!(numbers("--sort latency_ns --reverse --top 5"), expected[..5]);
    let first = objects.iter().take(3).map(|object| cell(&object["number"])).collect::<Vec<_>>();
    assert_eq!(numbers("--top 3"), first);
    // The text line is that of the same transaction, below a heading.
    let unsorted = printed("transactions", SAMPLES[1], "");
    let sorted = printed("transactions", SAMPLES[1], "--sort latency --reverse --top 1");
    let line = unsorted.lines().find(|line| line.split_whitespace().next() == Some(&expected[0])).unwrap();
    assert_eq!(sorted.lines().collect::<Vec<_>>(), [unsorted.lines().next().unwrap(), line]);
}

/// The WRITE waited for 119 s until the capture ended. All other calls have replies within 1 ms.
#[test]
fn call_without_reply_is_sorted_by_its_wait() {
    let case = root().join("tests/cases/c25-one-stuck.pcap");
    let case = case.to_str().expect("the path is UTF-8");
    for field in ["latency", "latency_ns", "waited_ns"] {
        let options = ["--sort", field, "--reverse", "--top", "1", "--format", "csv", "--fields", "xid"];
        let output = run(&[&["transactions", case], &options[..]].concat());
        assert_eq!(text(&output.stdout), "xid\n0x00000700\n", "{field}");
    }
}

#[test]
fn times_use_the_selected_clock() {
    let packets = objects("packets", SAMPLES[0], "packet");
    let nanoseconds =
        |object: &Value| object["time"].as_str().unwrap().parse::<Timestamp>().unwrap().as_nanosecond();
    let times = |options: &str| {
        let capture = sample(SAMPLES[0]);
        let words = ["packets", &capture, "--format", "csv", "--fields", "time"];
        let words: Vec<&str> = words.into_iter().chain(options.split_whitespace()).collect();
        let output = command(&words).env("TZ", "IST-5:30").output().expect("the binary runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        csv(text(&output.stdout)).into_iter().skip(1).flatten().collect::<Vec<String>>()
    };
    let seconds =
        |nanoseconds: i128| format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let all: Vec<i128> = packets.iter().map(nanoseconds).collect();
    let absolute: Vec<String> = packets.iter().map(|packet| cell(&packet["time"])).collect();
    assert_eq!(times(""), absolute);
    assert_eq!(times("--time absolute"), absolute);
    let start = all[0];
    assert_eq!(times("--time relative"), all.iter().map(|time| seconds(time - start)).collect::<Vec<_>>());
    let before = [&all[..1], &all[..]].concat();
    let delta: Vec<String> = all.iter().zip(&before).map(|(time, before)| seconds(time - before)).collect();
    assert_eq!(times("--time delta"), delta);
    let local = times("--time local");
    assert!(local.iter().all(|time| time.ends_with("+05:30")), "{}", local[0]);
    let read: Vec<i128> =
        local.iter().map(|time| time.parse::<Timestamp>().unwrap().as_nanosecond()).collect();
    assert_eq!(read, all);

    let text = printed("packets", SAMPLES[0], "--time absolute");
    for (line, time) in text.lines().skip(1).zip(&absolute) {
        assert_eq!(line.split_whitespace().nth(1), Some(time.as_str()));
    }
}

#[test]
fn invalid_options_are_refused() {
    for (options, complaint) in [
        ("transactions --fields numbr", "a transaction has no field with this name: did you mean number"),
        ("transactions --fields call.frame,cal.frame", "did you mean call.frame"),
        ("packets --sort opcde", "did you mean opcode"),
        ("transactions --sort operations", "cannot be a sort key"),
        ("connections --sort requester", "cannot be a sort key"),
        ("events --reverse", "--sort"),
        ("events --top 0", "0"),
        ("packets --time yesterday", "absolute, relative, local, delta"),
        ("transactions --format xls", "csv"),
        ("check --format csv --time delta", "--time"),
    ] {
        let (name, options) = options.split_once(' ').expect("a command has options");
        let output = output_of(name, SAMPLES[0], options);
        assert_eq!(output.status.code(), Some(2), "{name} {options}");
        assert_eq!(text(&output.stdout), "", "{name} {options}");
        assert!(text(&output.stderr).contains(complaint), "{name} {options}: {}", text(&output.stderr));
    }
    refused(&output_of("packets", SAMPLES[0], "--format jsonl --time delta"), &["--time", "absolute"]);
    refused(&output_of("check", SAMPLES[0], "--fields rule"), &["--fields", "--format csv"]);
    refused(&output_of("check", SAMPLES[0], "--format sarif --top 1"), &["--top"]);
    refused(&output_of("check", SAMPLES[0], "--format csv --each"), &["--each", "jsonl"]);
    refused(&run(&["check", "--rules", "--format", "csv"]), &["tables list findings"]);
}

#[test]
fn completions_include_field_names() {
    let script = run(&["completions", "fish"]);
    let script = text(&script.stdout);
    let completed = |name: &str, option: &str| {
        let of = format!("using_subcommand {name}\" -l {option} ");
        let entry = script.split("\ncomplete ").find(|entry| entry.contains(&of));
        entry.unwrap_or_else(|| panic!("{of}")).to_owned()
    };
    let (fields, keys) = (completed("transactions", "fields"), completed("transactions", "sort"));
    assert!(fields.contains("\ncall.read_chunks\\t") && fields.contains("\nlatency_ns\\t"), "{fields}");
    assert!(!keys.contains("\ncall.read_chunks\\t") && keys.contains("\nlatency_ns\\t"), "{keys}");
    assert!(completed("packets", "fields").contains("\nopcode\\t"));
}

#[test]
fn empty_table_has_a_heading_and_failed_input_has_none() {
    let empty = printed("transactions", SAMPLES[0], "--format csv --fields number --sort number --xid 0x1");
    assert_eq!(empty, "number\n");
    let empty = output_of("transactions", SAMPLES[0], "--format jsonl --xid 0x1");
    assert_eq!(lines(&empty), Vec::<Value>::new());
    refused(&run(&["transactions", "Cargo.toml", "--format", "csv"]), &["Cargo.toml"]);
}

/// `--where` selects the lines whose JSON fields match.
#[test]
fn expressions_select_lines() {
    let number = |line: &Value, name: &str| line.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    type Holds<'a> = &'a dyn Fn(&Value) -> bool;
    let has = |line: &Value, name: &str| {
        line["operations"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let cases: [(&str, &str, &str, Holds<'_>); 6] = [
        ("transactions", "transaction", "op == GETATTR && latency > 1ms", &|line| {
            has(line, "GETATTR") && number(line, "/latency_ns") > 1_000_000
        }),
        ("transactions", "transaction", "status == NOENT || bytes >= 4KiB", &|line| {
            number(line, "/status") == 2 || number(line, "/bytes") >= 4096
        }),
        ("transactions", "transaction", "file ~ 'big' && !failed", &|line| {
            line["file"].as_str().is_some_and(|file| file.ends_with("/big")) && number(line, "/status") == 0
        }),
        ("packets", "packet", "psn in (1, 2, 3) || opcode == 'RC RDMA READ request'", &|line| {
            (1..4).contains(&number(line, "/psn")) && line["psn"].is_u64()
                || line["opcode"] == "RC RDMA READ request"
        }),
        ("connections", "connection", "requester.qpn > 0", &|_| true),
        ("events", "event", "event != connected", &|line| line["event"] != "connected"),
    ];
    for (name, kind, expression, holds) in cases {
        let capture = sample("nfs4.1-basic.pcap");
        let output = run(&[name, &capture, "--where", expression, "--format", "jsonl"]);
        assert!(output.status.success(), "{name} {expression}: {}", text(&output.stderr));
        let chosen: Vec<Value> = lines(&output).into_iter().filter(|line| line["type"] == kind).collect();
        let all = objects(name, "nfs4.1-basic.pcap", kind);
        let expected: Vec<Value> = all.iter().filter(|line| holds(line)).cloned().collect();
        assert_eq!(chosen, expected, "{name} {expression}");
        assert!(name != "transactions" || !chosen.is_empty() && chosen.len() < all.len(), "{expression}");
    }
}

/// Each command accepts the expression in its help.
#[test]
fn expressions_in_the_help_are_valid() {
    for command in ["transactions", "packets", "state", "events", "connections", "check", "analyze"] {
        let help = run(&[command, "-h"]);
        let help = text(&help.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, rest) = help.split_once("--where <EXPRESSION>").expect("it has the option");
        let example = rest.split('`').nth(1).expect("it has an example");
        let format = if command == "check" { &["--format", "csv"][..] } else { &[] };
        let output = run(&[&[command, &sample("nfs3-lossy.pcap"), "--where", example], format].concat());
        let stderr = text(&output.stderr);
        assert!(
            ["", "rdmascope: no transaction matches the filter\n"].contains(&stderr),
            "{command} {example}: {stderr}"
        );
    }
}

#[test]
fn expression_errors_show_their_position() {
    for command in ["transactions", "packets", "connections", "events"] {
        let output = run(&[command, &sample("nfs3-lossy.pcap"), "--where", "conection == 1"]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert_eq!(text(&output.stdout), "");
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("lines have no field conection: did you mean connection")
                && stderr.contains("\n  conection == 1\n  ^\n"),
            "{command}: {stderr}"
        );
    }
    let output = run(&["check", &sample("nfs3-lossy.pcap"), "--where", "rule == x"]);
    assert_eq!(output.status.code(), Some(2));
}
