use super::*;
use serde_json::{Value, json};

fn lines(values: &[Value]) -> Lines {
    let capture = json!({"type": "capture", "records": 3});
    let text: String = [&[capture], values].concat().iter().map(|value| format!("{value}\n")).collect();
    Lines::parse(text.as_bytes()).unwrap_or_else(|broken| panic!("{broken}"))
}

fn connection(number: u64, requester: &str, first: &str) -> Value {
    json!({"type": "connection", "connection": number, "first": first, "state": "open",
        "requester": {"address": requester, "qpn": "0x000011"}, "responder": {"address": "10.0.0.9", "qpn": "0x000012"}})
}

fn transaction(number: u64, connection: u64, xid: &str, time: &str) -> Value {
    json!({"type": "transaction", "number": number, "connection": connection, "direction": "forward", "xid": xid,
        "call": {"frame": 10 * number, "time": time}, "operations": ["READ"]})
}

/// A short form of each difference.
fn summaries(comparison: &Comparison) -> Vec<String> {
    let subject = |line: &Line| {
        ["type", "connection", "xid"]
            .iter()
            .filter_map(|field| line.get(*field))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let summary = |difference: &Difference| {
        let subject = subject(&difference.of);
        match &difference.change {
            Change::Missing => format!("missing {subject}"),
            Change::New => format!("new {subject}"),
            Change::Moved { expected, found } => format!("{subject} moved {expected} to {found}"),
            Change::Changed { field, expected, found } => format!("{subject} {field} {expected} to {found}"),
            Change::LostField { field, expected, lines } => {
                format!("{subject} lost {field} {expected} in {lines}")
            }
            Change::NewField { field, found, lines } => format!("{subject} new {field} {found} in {lines}"),
        }
    };
    assert_eq!(comparison.count, comparison.differences.len() as u64);
    comparison.differences.iter().map(summary).collect()
}

fn differences(expected: &[Value], found: &[Value]) -> Vec<String> {
    summaries(&compare(&lines(expected), &lines(found), usize::MAX))
}

#[test]
fn an_added_first_connection_is_one_difference() {
    let expected = [
        connection(1, "10.0.0.1", "t1"),
        connection(2, "10.0.0.2", "t2"),
        transaction(1, 1, "0x1", "t3"),
        transaction(2, 2, "0x1", "t3"),
    ];
    let found = [
        connection(1, "10.0.0.7", "t0"),
        connection(2, "10.0.0.1", "t1"),
        connection(3, "10.0.0.2", "t2"),
        transaction(1, 1, "0x1", "t3"),
        transaction(2, 2, "0x1", "t3"),
        transaction(3, 3, "0x1", "t3"),
    ];
    let frames = ["transaction 1 0x1 call.frame 10 to 20", "transaction 2 0x1 call.frame 20 to 30"];
    assert_eq!(
        differences(&expected, &found),
        [&["new connection 1", "new transaction 1 0x1"][..], &frames].concat()
    );
}

#[test]
fn transactions_are_matched_across_connections() {
    let expected =
        [connection(1, "10.0.0.1", "t1"), connection(2, "10.0.0.2", "t2"), transaction(1, 1, "0x1", "t3")];
    let mut found = expected.clone();
    found[2]["connection"] = json!(2);
    assert_eq!(differences(&expected, &found), ["transaction 1 0x1 connection 1 to 2"]);
    // A connection with different ends is still identified by its start time.
    found[1]["requester"]["qpn"] = Value::Null;
    found[2]["connection"] = json!(1);
    assert_eq!(differences(&expected, &found), [r#"connection 2 requester.qpn "0x000011" to null"#]);
    // The end that opened it does not matter.
    let mut turned = expected.clone();
    let (one, other) = (turned[0]["requester"].take(), turned[0]["responder"].take());
    (turned[0]["requester"], turned[0]["responder"]) = (other, one);
    turned[0]["first"] = json!("t9");
    assert_eq!(differences(&expected, &turned).len(), 1 + 2 + 2);
}

#[test]
fn reused_xids_are_distinguished_by_time() {
    let expected = [
        connection(1, "10.0.0.1", "t1"),
        transaction(1, 1, "0x1", "t3"),
        transaction(2, 1, "0x1", "t4"),
        transaction(3, 1, "0x1", "t5"),
    ];
    let found: Vec<Value> = [&expected[..1], &expected[2..]].concat();
    assert_eq!(differences(&expected, &found), ["missing transaction 1 0x1"]);
    // Without a matching time, it is paired by its index.
    let mut found = expected.clone();
    found[2]["call"]["time"] = json!("t9");
    assert_eq!(differences(&expected, &found), [r#"transaction 1 0x1 call.time "t4" to "t9""#]);
}

#[test]
fn new_fields_are_reported_once_per_line_type() {
    let expected =
        [connection(1, "10.0.0.1", "t1"), transaction(1, 1, "0x1", "t3"), transaction(2, 1, "0x2", "t4")];
    let mut found = expected.clone();
    for (index, transaction) in found[1..].iter_mut().enumerate() {
        transaction["call"]["colour"] = json!(index);
    }
    assert_eq!(differences(&expected, &found), ["transaction 1 0x1 new call.colour 0 in 2"]);
    assert_eq!(differences(&found, &expected), ["transaction 1 0x1 lost call.colour 0 in 2"]);
    let mut fewer = found.clone();
    fewer[2]["call"].as_object_mut().unwrap().remove("colour");
    assert_eq!(differences(&fewer, &found), ["transaction 1 0x2 new call.colour 1 in 1"]);
}

#[test]
fn an_added_list_entry_is_one_difference() {
    let with = |operations: Value| {
        let mut transaction = transaction(1, 1, "0x1", "t3");
        transaction["operations"] = operations;
        [connection(1, "10.0.0.1", "t1"), transaction]
    };
    let expected = with(json!(["SEQUENCE", "PUTFH", "GETATTR"]));
    let found = with(json!(["SEQUENCE", "PUTFH", "READ", "GETATTR"]));
    assert_eq!(differences(&expected, &found), [r#"transaction 1 0x1 new operations[2] "READ" in 1"#]);
    assert_eq!(differences(&found, &expected), [r#"transaction 1 0x1 lost operations[2] "READ" in 1"#]);
    let found = with(json!(["SEQUENCE", "PUTFH", "READ"]));
    assert_eq!(differences(&expected, &found), [r#"transaction 1 0x1 operations[2] "GETATTR" to "READ""#]);
}

#[test]
fn a_changed_order_reports_only_the_moved_lines() {
    let expected: Vec<Value> = [connection(1, "10.0.0.1", "t1")]
        .into_iter()
        .chain((1..=5).map(|number| transaction(number, 1, &format!("0x{number}"), "t3")))
        .collect();
    let mut found = expected.clone();
    let first = found.remove(1);
    found.push(first);
    assert_eq!(differences(&expected, &found), ["transaction 1 0x1 moved 1 to 5"]);
}

#[test]
fn lines_of_unknown_types_are_compared() {
    let remark = |text: &str| json!({"type": "remark", "text": text});
    let expected = [remark("one"), remark("two"), remark("two")];
    assert_eq!(differences(&expected, &[remark("two"), remark("two"), remark("one")]), [""; 0]);
    assert_eq!(
        differences(&expected, &[remark("two"), remark("three")]),
        ["missing remark", "missing remark", "new remark"]
    );
}

fn finding(rule: &str, connection: u64, xid: &str, transaction: Option<u64>, frames: &[u64]) -> Value {
    json!({"type": "finding", "rule": rule, "verdict": "stands", "connection": connection, "direction": "forward",
        "xid": xid, "transaction": transaction, "frames": frames})
}

#[test]
fn an_added_or_missing_finding_is_one_difference() {
    let expected = [
        connection(1, "10.0.0.1", "t1"),
        transaction(1, 1, "0x1", "t3"),
        transaction(2, 1, "0x2", "t4"),
        finding("limit", 1, "0x1", Some(1), &[10]),
        finding("limit", 1, "0x2", Some(2), &[20]),
        finding("limit", 1, "0x2", Some(2), &[21, 22]),
        finding("zero", 1, "0x2", None, &[20]),
    ];
    // Findings with the same rule, connection and XID are distinguished by their frames.
    for gone in 3..7 {
        let mut fewer = expected.to_vec();
        let xid = fewer.remove(gone)["xid"].as_str().unwrap().to_owned();
        assert_eq!(differences(&expected, &fewer), [format!("missing finding 1 {xid}")]);
        assert_eq!(differences(&fewer, &expected), [format!("new finding 1 {xid}")]);
    }
    // Their order is not significant.
    let mut turned = expected.to_vec();
    turned[3..].reverse();
    assert_eq!(differences(&expected, &turned), [""; 0]);
    // A finding of another rule is a different one.
    let mut other = expected.to_vec();
    other[3]["rule"] = json!("zero");
    assert_eq!(differences(&expected, &other), ["missing finding 1 0x1", "new finding 1 0x1"]);
}

#[test]
fn findings_are_matched_despite_renumbering() {
    let expected = [
        connection(1, "10.0.0.1", "t1"),
        transaction(1, 1, "0x1", "t3"),
        finding("limit", 1, "0x1", Some(1), &[10]),
        finding("limit", 1, "0x1", None, &[11]),
    ];
    let found = [
        connection(1, "10.0.0.7", "t0"),
        connection(2, "10.0.0.1", "t1"),
        transaction(1, 1, "0x9", "t2"),
        json!({"type": "transaction", "number": 2, "connection": 2, "direction": "forward", "xid": "0x1",
            "call": {"frame": 10, "time": "t3"}, "operations": ["READ"]}),
        finding("limit", 2, "0x1", Some(2), &[10]),
        finding("limit", 2, "0x1", None, &[11]),
    ];
    assert_eq!(differences(&expected, &found), ["new connection 1", "new transaction 1 0x9"]);
    // A finding of another transaction with that XID differs.
    let mut other = found.to_vec();
    other[4]["transaction"] = json!(1);
    assert_eq!(differences(&expected, &other)[2..], ["finding 1 0x1 transaction 1 to 1"]);
}

#[test]
fn a_changed_finding_is_reported_field_by_field() {
    let expected = [connection(1, "10.0.0.1", "t1"), finding("limit", 1, "0x1", None, &[10, 12])];
    let mut found = expected.clone();
    found[1]["frames"] = json!([11, 13]);
    assert_eq!(
        differences(&expected, &found),
        ["finding 1 0x1 frames[0] 10 to 11", "finding 1 0x1 frames[1] 12 to 13"]
    );
    let mut found = expected.clone();
    found[1]["verdict"] = json!("inconclusive");
    assert_eq!(differences(&expected, &found), [r#"finding 1 0x1 verdict "stands" to "inconclusive""#]);
    // The transaction of the finding is no longer known.
    let mut found = expected.clone();
    (found[1]["xid"], found[1]["direction"]) = (Value::Null, Value::Null);
    assert_eq!(
        differences(&expected, &found),
        [r#"finding 1 0x1 direction "forward" to null"#, r#"finding 1 0x1 xid "0x1" to null"#]
    );
}

#[test]
fn the_number_of_differences_is_limited() {
    let expected: Vec<Value> =
        (1..=9).map(|number| transaction(number, 1, &format!("0x{number}"), "t3")).collect();
    let comparison = compare(&lines(&expected), &lines(&[]), 4);
    assert_eq!((comparison.differences.len(), comparison.count), (4, 9));
}

#[test]
fn broken_expectations_report_their_line() {
    let capture = r#"{"type":"capture"}"#;
    for (text, line, part) in [
        (String::new(), 1, "empty"),
        (format!("{capture}\n\n"), 2, "empty"),
        (format!("{capture}\n<<<<<<< HEAD\n"), 2, "not a JSON object"),
        (format!("{capture}\n[1]\n"), 2, "not a JSON object"),
        (format!("{capture}\n{{\"type\":\"transac"), 2, "column"),
        (format!("{capture}\n{{}}\n"), 2, "\"type\""),
        (format!("{capture}\n{capture}\n"), 2, "second"),
        (format!("{capture}\n{{\"type\":\"connection\",\"connection\":\"1\"}}\n"), 2, "\"connection\""),
        (
            format!("{capture}\n{{\"type\":\"transaction\",\"number\":1,\"connection\":1}}\n"),
            2,
            "\"direction\"",
        ),
        (format!("{capture}\n{{\"type\":\"finding\",\"rule\":null}}\n"), 2, "\"rule\""),
        (format!("{}\n", connection(1, "a", "b")), 1, "capture"),
        (format!("{capture}\n{}", "[".repeat(1 << 20)), 2, "not a JSON object"),
    ] {
        let broken = Lines::parse(text.as_bytes()).expect_err(&text[..text.len().min(100)]);
        assert_eq!(broken.line, line, "{broken}");
        assert!(broken.cause.contains(part), "{broken}");
    }
    assert_eq!(Lines::parse(b"{\"type\":\"\xff\"}\n").expect_err("no UTF-8").line, 1);
}
