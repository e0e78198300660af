//! Losses reported by a pcapng file, from its bytes to text and JSON output.

mod binary;

use binary::{json_lines, text, with_input};
use rdmascope_tests::{pcap, samples};
use serde_json::{Value, json};

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 12) as u32;
    assert!(length.is_multiple_of(4));
    [&kind.to_be_bytes()[..], &length.to_be_bytes(), body, &length.to_be_bytes()].concat()
}

/// A big-endian section with the packets of a sample; seven packets were lost before its fifth one,
/// and three more at unknown positions.
fn capture() -> Vec<u8> {
    let mut bytes = block(0x0a0d_0d0a, b"\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
    // LINKTYPE_ETHERNET; if_name, if_tsresol 9.
    bytes.extend(block(1, b"\0\x01\0\0\0\0\0\0\0\x02\0\x06ens1f0\0\0\0\x09\0\x01\x09\0\0\0\0\0\0\0"));
    for packet in &samples::capture("nfs3-basic").packets {
        let mut body = vec![0; 4];
        body.extend(packet.time.to_be_bytes());
        body.extend((packet.data.len() as u32).to_be_bytes());
        body.extend(packet.original_length.to_be_bytes());
        body.extend(&packet.data);
        body.resize(body.len().next_multiple_of(4), 0);
        if packet.number == 5 {
            // epb_dropcount.
            body.extend(b"\0\x04\0\x08\0\0\0\0\0\0\0\x07\0\0\0\0");
        }
        bytes.extend(block(6, &body));
    }
    // isb_ifrecv 1733, isb_osdrop 10.
    let options = b"\0\x04\0\x08\0\0\0\0\0\0\x06\xc5\0\x07\0\x08\0\0\0\0\0\0\0\x0a\0\0\0\0";
    bytes.extend(block(5, &[&[0; 12][..], options].concat()));
    bytes
}

fn run(arguments: &[&str], input: &[u8]) -> String {
    text(&with_input(arguments, input).stdout).to_owned()
}

fn lines(arguments: &[&str], input: &[u8]) -> Vec<Value> {
    json_lines(&run(arguments, input))
}

#[test]
fn text_output_reports_losses() {
    let capture = capture();
    let report = run(&["analyze", "-"], &capture);
    let row = "  lost          10 packets dropped while capturing at ens1f0, according to the capture; they may explain findings\n";
    assert!(report.contains(row), "{report}");
    assert!(report.contains("        10  packets dropped while capturing, as recorded in the capture\n"));
    let judged = run(&["check", "-"], &capture);
    let judged = judged.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(judged.contains("10 packets were dropped while capturing, according to the capture"), "{judged}");
}

#[test]
fn json_output_reports_losses() {
    let lines_of_capture = lines(&["analyze", "-", "--format", "jsonl"], &capture());
    let interfaces = &lines_of_capture[0]["files"][0]["interfaces"];
    assert_eq!(interfaces.as_array().map(Vec::len), Some(1));
    for (field, value) in [
        ("section", json!(1)),
        ("number", json!(0)),
        ("name", json!("ens1f0")),
        ("received", json!(1733)),
        ("dropped_by_interface", Value::Null),
        ("dropped_by_system", json!(10)),
        ("dropped_before_packets", json!(7)),
        ("dropped", json!(10)),
    ] {
        assert_eq!(interfaces[0][field], value, "{field}");
    }
    let problem =
        lines_of_capture.iter().find(|line| line["problem"] == "dropped-packet").expect("a problem");
    assert_eq!((&problem["count"], &problem["group"]), (&json!(10), &json!("capture")));
    // Everything else equals the results for the same packets in a file without reported losses.
    let mut plain =
        lines(&["analyze", "-", "--format", "jsonl"], &pcap::write(&samples::capture("nfs3-basic")));
    let mut with_losses = lines_of_capture;
    with_losses.retain(|line| line["problem"] != "dropped-packet");
    for line in [&mut plain[0], &mut with_losses[0]] {
        line.as_object_mut().expect("an object").remove("files");
    }
    assert_eq!(with_losses, plain);
}
