use super::*;
use crate::columns::{CHECK, CONNECTION, FINDING, FindingRow, PACKET, RULE, TRANSACTION};
use crate::tables::tests::with_packets;
use rdmascope_analysis::ending::{Cut, Ending, FileEnding};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::report::Report;
use rdmascope_analysis::tally::Tally;
use rdmascope_capture_agent::Interface;
use rdmascope_conformance::{Finding, Level, Value as Measure, Verdict};
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::LinkType;
use rdmascope_dissector::transaction::{Outcome, Security};
use rdmascope_dissector::ulb::Nfs4;
use rdmascope_tests::values as samples;
use rdmascope_wire::rpc;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Checks that the output is one line and parses.
fn written(line: &dyn Json) -> Value {
    let mut out = Vec::new();
    write_line(&mut out, line).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.find('\n'), Some(text.len() - 1));
    samples::show(&text);
    serde_json::from_str(&text).unwrap()
}

fn object_keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_transaction() {
    let line = written(&TRANSACTION.of((&samples::full()).into()));
    for (pointer, expected) in [
        ("/type", json!("transaction")),
        ("/connection", json!(1)),
        ("/direction", json!("forward")),
        ("/xid", json!("0x1a2b3c07")),
        ("/program", json!(100_003)),
        ("/version", json!(4)),
        ("/minor_version", json!(1)),
        ("/procedure", json!(1)),
        ("/name", json!("COMPOUND")),
        ("/operations", json!(["SEQUENCE", "PUTFH", "WRITE", "GETATTR"])),
        ("/status", json!(0)),
        ("/outcome", json!("completed")),
        ("/latency_ns", json!(2_500_000)),
        (
            "/phases",
            json!({
                "call_ns": 10_000, "ack_ns": 50_000, "server_before_ns": 50_000, "sending_before_ns": 20_000,
                "idle_before_ns": 30_000, "reads_ns": 1_000_000, "server_ns": 1_250_000, "sending_ns": 220_000,
                "idle_ns": 1_030_000, "server_after_ns": 1_200_000, "sending_after_ns": 200_000,
                "idle_after_ns": 1_000_000, "writes_ns": 100_000, "reply_ns": 100_000
            }),
        ),
        ("/acknowledged/frame", json!(8)),
        ("/security", json!("sys")),
        ("/rpc_status", json!("SUCCESS")),
        ("/error", json!("ERR_VERS 1 to 1")),
        ("/call/frame", json!(7)),
        ("/call/time", json!("2025-11-21T09:30:00.070000000Z")),
        ("/call/first_time", json!("2025-11-21T09:30:00.069990000Z")),
        ("/call/procedure", json!("RDMA_MSG")),
        ("/call/credits", json!(128)),
        ("/call/header_length", json!(28)),
        ("/call/message_length", json!(172)),
        (
            "/call/read_chunks",
            json!([{"position": 168, "segments": [
                {"handle": "0x000000ab", "length": 4096, "offset": "0x0000000000001000"},
                {"handle": "0x000000ac", "length": 4096, "offset": "0xfffffffffffff000"},
            ]}]),
        ),
        (
            "/call/write_chunks",
            json!([{"segments": [{"handle": "0x000000ad", "length": 100, "offset": "0x0000000000000000"}]}]),
        ),
        (
            "/call/reply_chunk",
            json!({"segments": [{"handle": "0x000000ae", "length": 2048, "offset": "0x0000000000000008"}]}),
        ),
        (
            "/call/missing",
            json!([
                {"part": "read-chunk", "index": 0, "start": 1024, "end": 2048},
                {"part": "send", "index": null, "start": 0, "end": null},
            ]),
        ),
        ("/reply/read_chunks", json!([])),
        ("/reply/reply_chunk", Value::Null),
        ("/reply/invalidated", json!("0x000000ab")),
        ("/operation_details/1/file_handle", json!("deadbeef")),
        ("/operation_details/2/file_name", json!("caf\u{e9}")),
        ("/operation_details/2/other_name", json!("\u{fffd}\n")),
        ("/operation_details/2/other_name_hex", json!("ff0a")),
        ("/operation_details/2/argument_item/place", json!("read-chunk")),
        ("/operation_details/0/status_name", json!("NFS4_OK")),
    ] {
        assert_eq!(line.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert_eq!(line.pointer("/operation_details/2/file_name_hex"), None);
}

#[test]
fn a_transaction_with_unknown_values() {
    let mut lost = samples::read(3, 10);
    lost.procedure = None;
    lost.call = None;
    lost.outcome = Outcome::NoCall;
    lost.security = Some(Security::Other(9));
    lost.rpc_status = Some(rpc::Status::AuthError(13));
    lost.details.clear();
    let line = written(&TRANSACTION.of((&lost).into()));
    for key in ["program", "version", "minor_version", "procedure", "name", "call", "latency_ns", "phases"] {
        assert_eq!(line.get(key), Some(&Value::Null), "{key}");
    }
    assert_eq!(line["outcome"], "no-call");
    assert_eq!(line["security"], "flavor-9");
    assert_eq!(line["rpc_status"], "AUTH_ERROR 13 (RPCSEC_GSS_CREDPROBLEM)");
    assert_eq!(line["operations"], json!([]));
    // The fields of a transaction are the same for known and unknown values.
    assert_eq!(object_keys(&line), object_keys(&written(&TRANSACTION.of((&samples::full()).into()))));
}

#[test]
fn connections() {
    let line = written(&CONNECTION.of(&samples::connection()));
    for (pointer, expected) in [
        ("/type", json!("connection")),
        ("/connection", json!(1)),
        ("/origin", json!("cm")),
        ("/state", json!("closed")),
        ("/reject_reason", Value::Null),
        ("/requester/address", json!("10.77.0.1")),
        ("/requester/qpn", json!("0x000011")),
        (
            "/requester/private_data",
            json!({"offset": 0, "version": 1, "reserved": 0, "remote_invalidation": true,
                "send_size": 4096, "receive_size": 4096}),
        ),
        ("/responder/counts/written_bytes", json!(786_432)),
        ("/call_inline_threshold", json!(4096)),
        ("/reply_inline_threshold", json!(4096)),
        ("/remote_invalidation", json!(false)),
        ("/transactions", json!({"forward": 208, "backward": 4})),
        ("/last", json!("2025-11-21T09:30:12.345678000Z")),
    ] {
        assert_eq!(line.pointer(pointer), Some(&expected), "{pointer}");
    }
    let line = written(&CONNECTION.of(&samples::inferred()));
    assert_eq!(line["origin"], "inferred");
    assert_eq!(line["evidence"], json!({"acknowledged_psn": true, "xid": true, "rkey": false}));
    assert_eq!(line["requester"]["qpn"], Value::Null);
    let mut rejected = samples::connection();
    rejected.state = State::Rejected(8);
    assert_eq!(written(&CONNECTION.of(&rejected))["reject_reason"], 8);
    assert_eq!(written(&CONNECTION.of(&rejected)).get("foreign"), None);
    let foreign = Connection { is_foreign: true, ..samples::connection() };
    assert_eq!(written(&CONNECTION.of(&foreign))["foreign"], true);
}

#[test]
fn packets() {
    let mut lines = Vec::new();
    with_packets(|packet| lines.push(written(&PACKET.of(packet))));
    for (line, pointer, expected) in [
        (0, "/type", json!("packet")),
        (0, "/opcode", json!("RC SEND Only")),
        (0, "/qpn", json!("0x000012")),
        (0, "/psn", json!(1_234_567)),
        (0, "/rpcrdma/xid", json!("0x1a2b3c4d")),
        (
            0,
            "/rpcrdma/read_segments/1",
            json!({"position": 168, "handle": "0x000000ab", "length": 4096, "offset": "0x0000000000002000"}),
        ),
        (1, "/reth/length", json!(4096)),
        (2, "/icrc", json!("bad")),
        (3, "/aeth", json!({"kind": "nak", "syndrome": 96, "msn": 7})),
        (4, "/rpcrdma/stop/cause", json!("truncated-packet")),
        (5, "/stop/offset", json!(12)),
        (6, "/other", json!("not-infiniband")),
        (7, "/stop/layer", json!("BTH")),
    ] {
        assert_eq!(lines[line].pointer(pointer), Some(&expected), "{line} {pointer}");
    }
    assert_eq!(lines[6].get("opcode"), None);
}

#[test]
fn findings() {
    let line = written(&FINDING.of(FindingRow::new(&samples::finding(), false)));
    for (pointer, expected) in [
        ("/type", json!("finding")),
        ("/rule", json!("credit-limit")),
        ("/level", json!("violation")),
        ("/verdict", json!("stands")),
        ("/allowed_rule", json!(false)),
        ("/connection", json!(1)),
        ("/by", json!("requester")),
        ("/direction", json!("forward")),
        ("/xid", json!("0x1a2b3c07")),
        ("/transaction", json!(1)),
        ("/frames", json!([7, 9])),
        ("/message", json!("129 requests in flight where 128 were granted")),
        ("/sources/0", json!({"document": "RFC 8166", "section": "3.3.1"})),
        ("/observed", json!({"value": 129, "unit": "count"})),
        ("/allowed", json!({"value": 128, "unit": "count"})),
    ] {
        assert_eq!(line.pointer(pointer), Some(&expected), "{pointer}");
    }
    let bare = Finding { verdict: Verdict::Inconclusive, ..Finding::new("something") };
    let bare = written(&FINDING.of(FindingRow::new(&bare.about(None, None), true)));
    assert_eq!(object_keys(&bare), object_keys(&line));
    for key in ["connection", "by", "direction", "xid", "transaction", "observed", "allowed"] {
        assert_eq!(bare[key], Value::Null, "{key}");
    }
    assert_eq!((&bare["verdict"], &bare["allowed_rule"]), (&json!("inconclusive"), &json!(true)));
}

#[test]
fn values_of_findings() {
    for (value, expected) in [
        (Measure::Count(3), json!({"value": 3, "unit": "count"})),
        (Measure::Bytes(1028), json!({"value": 1028, "unit": "bytes"})),
        (Measure::Nanoseconds(5), json!({"value": 5, "unit": "nanoseconds"})),
        (Measure::Hexadecimal(0xab), json!({"value": "0x000000ab", "unit": "hexadecimal"})),
        (Measure::Name("RDMA_MSG"), json!({"value": "RDMA_MSG", "unit": "text"})),
        (Measure::Words("1 or more".to_owned()), json!({"value": "1 or more", "unit": "text"})),
    ] {
        let finding = samples::finding().observed(value);
        assert_eq!(written(&FINDING.of(FindingRow::new(&finding, false)))["observed"], expected);
    }
}

/// The lines of a rule and of a check.
fn judged() -> [Value; 2] {
    let finding = samples::finding();
    let mut tally = Tally::new(|_| false, Level::Advice);
    assert!(tally.count(&finding, None).is_some());
    let ending = Ending { files: vec![FileEnding::default()], ..Ending::default() };
    let rule = finding.rule.expect("it is of a rule");
    [written(&RULE.of(("Credits", rule))), written(&CHECK.of((&tally, &ending)))]
}

#[test]
fn rules_and_checks() {
    let [rule, check] = judged();
    for (line, pointer, expected) in [
        (&rule, "/type", json!("rule")),
        (&rule, "/rule", json!("credit-limit")),
        (&rule, "/subject", json!("Credits")),
        (&rule, "/level", json!("violation")),
        (&rule, "/sources/0/document", json!("RFC 8166")),
        (&check, "/type", json!("check")),
        (&check, "/broken", json!(true)),
        (&check, "/violations", json!({"stands": 1, "allowed": 0, "inconclusive": 0})),
        (&check, "/advice", json!({"stands": 0, "allowed": 0, "inconclusive": 0})),
        (
            &check,
            "/rules",
            json!([{"rule": "credit-limit", "level": "violation", "allowed_rule": false, "stands": 1,
                "inconclusive": 0}]),
        ),
        (&check, "/files/0/trouble", Value::Null),
    ] {
        assert_eq!(line.pointer(pointer), Some(&expected), "{pointer}");
    }
}

fn report() -> Vec<Value> {
    let mut report = Report::default();
    let mut connection = samples::connection();
    connection.requester.sent.sequence_naks = 2;
    report.handle(&Event::Connection(&connection));
    report.handle(&Event::Transaction(&samples::full()));
    let mut failed = samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 2, 1, 10);
    report.handle(&Event::Transaction(&failed));
    failed.outcome = Outcome::NoReply;
    failed.reply = None;
    report.handle(&Event::Transaction(&failed));
    let cut = Some(Cut { offset: 24, needed: 16, available: 3 });
    let trouble = Some(rdmascope_capture_agent::Error::Read {
        name: "b.pcap".into(),
        offset: 77,
        error: std::io::Error::other("no such block"),
    });
    let mut interface = Interface::new(1, 0, LinkType::ETHERNET);
    interface.name = Some("ens1f0".to_owned());
    interface.filter = Some("udp port 4791".to_owned());
    interface.statistics.received = Some(1000);
    interface.statistics.dropped_by_interface = Some(7);
    interface.dropped_before_packets = 5;
    let files = vec![
        FileEnding { name: "a.pcap".into(), cut, interfaces: vec![interface], ..FileEnding::default() },
        FileEnding { name: "b.pcap".into(), trouble, ..FileEnding::default() },
    ];
    let mut ending = Ending { files, ..Ending::default() };
    ending.totals.span = Some((samples::START, samples::after(5)));
    let mut out = Vec::new();
    write_report(&report, &ending, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    samples::show(&text);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_report() {
    let lines = report();
    let of_type = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    assert_eq!(lines[0]["type"], "capture");
    let files = json!([
        {"name": "a.pcap", "cut_short": {"offset": 24, "needed": 16, "available": 3}, "trouble": null, "interfaces": [
            {"section": 1, "number": 0, "name": "ens1f0", "description": null, "filter": "udp port 4791", "link_type": 1,
                "start": null, "end": null, "received": 1000, "accepted": null, "delivered": null,
                "dropped_by_interface": 7, "dropped_by_system": null, "dropped_before_packets": 5, "dropped": 7},
        ]},
        {"name": "b.pcap", "cut_short": null, "trouble": "b.pcap: byte 77: cannot be read further: no such block"},
    ]);
    assert_eq!(lines[0]["files"], files);
    assert_eq!(of_type("connection").len(), 1);
    let operations = of_type("operation");
    let write = operations.iter().find(|line| line["operation"] == "WRITE").unwrap();
    assert_eq!(write["protocol"], "NFSv4.1");
    assert_eq!(write["latency"]["median_ns"], 2_500_000);
    assert_eq!(write["shares"]["reads"], 0.3984);
    let errors = of_type("error");
    let lookup = errors.iter().find(|line| line["operation"] == "LOOKUP").unwrap();
    assert_eq!((&lookup["status_name"], &lookup["count"]), (&json!("NFS4ERR_NOENT"), &json!(2)));
    let problems = of_type("problem");
    assert!(problems.iter().any(|line| line["problem"] == "sequence-nak" && line["count"] == 2));
    assert!(problems.iter().any(|line| line["problem"] == "no-reply" && line["first_frame"] == 1));
}

/// A reader may close the pipe, which must be distinguishable from a full disk.
#[test]
fn a_broken_pipe_keeps_its_error_kind() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = write_line(&mut Broken, &TRANSACTION.of((&samples::full()).into())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
