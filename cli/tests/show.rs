//! `rdmascope show`, as used by people and programs.

mod binary;
mod planted;

use binary::{Temporary, lines, refused, root, run, sample, text, with_input};
use rdmascope_tests::mutate::{self, opcode};
use rdmascope_tests::{pcap, samples};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The only line for a transaction or frame.
fn shown(file: &str, selection: &[&str]) -> Value {
    shown_with_findings(file, selection).0
}

/// As [`shown`], with the findings after it.
fn shown_with_findings(file: &str, selection: &[&str]) -> (Value, Vec<Value>) {
    let arguments = [&["show", file, "--format", "jsonl"], selection].concat();
    let mut lines = lines(&run(&arguments));
    let shown = lines.remove(0);
    assert!(lines.iter().all(|line| line["type"] == "finding" || line["type"] == "event"), "{lines:?}");
    lines.retain(|line| line["type"] == "finding");
    (shown, lines)
}

/// A frame in tshark's list: tests/expectations/NAME.frames.tsv.
#[derive(Debug)]
struct Listed {
    number: u64,
    source: String,
    opcode: u64,
    psn: u64,
    dma_length: u64,
    syndrome: Option<u64>,
}

fn listed(name: &str) -> Vec<Listed> {
    let path = root().join("tests/expectations").join(format!("{name}.frames.tsv"));
    let content = std::fs::read_to_string(path).expect("the expectation is there");
    let mut rows = content.lines();
    let names: Vec<&str> = rows.next().expect("names").split('\t').collect();
    let parse = |row: &str| {
        let columns: BTreeMap<&str, &str> = names.iter().copied().zip(row.split('\t')).collect();
        let number = |name: &str| columns[name].parse().unwrap_or(0);
        Listed {
            number: number("frame.number"),
            source: columns["ip.src"].to_owned(),
            opcode: number("infiniband.bth.opcode"),
            psn: number("infiniband.bth.psn"),
            dma_length: number("infiniband.reth.dmalen"),
            syndrome: columns["infiniband.aeth.syndrome"].parse().ok(),
        }
    };
    rows.map(parse).collect()
}

/// The kinds of rung for the opcode of its first packet (IBTA volume 1, table 38).
fn kinds(frame: &Listed) -> &'static [&'static str] {
    match (frame.opcode, frame.syndrome.unwrap_or(0) >> 5 & 3) {
        (0..=5 | 0x16 | 0x17, _) => &["call", "reply", "done"],
        (6..=0x0b, _) => &["write"],
        (0x0c, _) => &["read-request"],
        (0x0d..=0x10, _) => &["read-response"],
        (0x11, 0) => &["acknowledgement"],
        (0x11, 1) => &["rnr-nak"],
        (0x11, 3) => &["nak"],
        _ => panic!("{frame:?}"),
    }
}

/// Compares the rungs of a ladder with tshark's list of the frames in its span. `alone` means that
/// no other transaction is in progress, so that every frame of the span must be in a rung.
fn compare(name: &str, number: u64, client_calls: bool, alone: bool) -> Vec<Value> {
    let line = shown(&sample(&format!("{name}.pcap")), &["--transaction", &number.to_string()]);
    let frames = listed(name);
    let of = |frame: u64| frames.iter().find(|listed| listed.number == frame).expect("tshark lists it");
    let rungs = line["rungs"].as_array().expect("a list").clone();
    let field = |rung: &Value, key: &str| rung[key].as_u64().unwrap_or_else(|| panic!("{key}: {rung}"));
    let requester = if client_calls { "10.77.0.2" } else { "10.77.0.1" };
    let mut covered: HashSet<u64> = HashSet::new();
    let mut again = 0;
    for rung in &rungs {
        let (first, last) = (of(field(rung, "frame")), of(field(rung, "last_frame")));
        let sender =
            if rung["from"] == "requester" { requester == first.source } else { requester != first.source };
        assert!(sender && last.source == first.source, "{rung} is no {first:?}");
        let kind = rung["kind"].as_str().expect("a word");
        assert!(kinds(first).contains(&kind) && kinds(last).contains(&kind), "{rung} is no {first:?}");
        let (psn, last_psn) = (field(rung, "psn"), field(rung, "last_psn"));
        let within = |frame: &Listed| (psn..=last_psn).contains(&frame.psn);
        assert!(within(first) && within(last), "{rung} is no {first:?}");
        if kind == "read-request" {
            assert_eq!((first.psn, first.dma_length), (psn, field(rung, "length")), "{rung}");
        }
        let packets: Vec<u64> = frames
            .iter()
            .filter(|frame| (first.number..=last.number).contains(&frame.number))
            .filter(|frame| frame.source == first.source && kinds(frame).contains(&kind) && within(frame))
            .map(|frame| frame.number)
            .collect();
        if rung["again"] == true {
            again += if kind == "read-request" { 1 } else { packets.len() };
        } else if kind != "read-request" && kind != "acknowledgement" {
            // No packet of the samples is missing, so all PSNs are present.
            let distinct: BTreeSet<u64> = packets.iter().map(|number| of(*number).psn).collect();
            assert_eq!(distinct.len() as u64, last_psn - psn + 1, "{rung}");
        }
        covered.extend(packets);
    }
    let span =
        field(&rungs[0], "frame")..=rungs.iter().map(|rung| field(rung, "last_frame")).max().unwrap_or(0);
    let in_span: Vec<&Listed> = frames.iter().filter(|frame| span.contains(&frame.number)).collect();
    if alone {
        for frame in &in_span {
            assert!(covered.contains(&frame.number), "in no rung: {frame:?}");
        }
        // A packet is a retransmission if it requests, or carries, PSNs that occurred before.
        let mut seen: HashSet<(&str, bool, u64)> = HashSet::new();
        let mut repeated = 0;
        for frame in in_span.iter().filter(|frame| frame.opcode != 0x11) {
            let response = (0x0d..=0x10).contains(&frame.opcode);
            let packets = if frame.opcode == 0x0c { frame.dma_length.div_ceil(1024) } else { 1 };
            let psns: Vec<_> =
                (0..packets).map(|index| (&*frame.source, response, frame.psn + index)).collect();
            repeated += usize::from(seen.contains(&psns[0]));
            seen.extend(psns);
        }
        assert_eq!(again, repeated);
    }
    let times: Vec<u64> = rungs.iter().map(|rung| field(rung, "since_ns")).collect();
    assert!(times.is_sorted(), "{times:?}");
    rungs
}

fn count(rungs: &[Value], kind: &str) -> usize {
    rungs.iter().filter(|rung| rung["kind"] == kind && rung["again"] == false).count()
}

#[test]
fn ladder_of_write_with_read_chunk() {
    let rungs = compare("nfs4.2-basic", 22, true, true);
    assert_eq!((rungs[0]["kind"].as_str(), rungs[0]["from"].as_str()), (Some("call"), Some("requester")));
    assert_eq!(count(&rungs, "read-request"), count(&rungs, "read-response"));
    let asked: u64 = rungs
        .iter()
        .filter(|rung| rung["kind"] == "read-request")
        .map(|rung| rung["length"].as_u64().expect("a number"))
        .sum();
    assert_eq!(asked, 262_144);
    assert_eq!(count(&rungs, "reply"), 1);
}

#[test]
fn ladder_of_read_with_write_chunk() {
    let rungs = compare("nfs4.2-basic", 166, true, true);
    assert!(count(&rungs, "write") > 0 && count(&rungs, "read-request") == 0);
    let moved: u64 = rungs
        .iter()
        .filter(|rung| rung["kind"] == "write")
        .map(|rung| rung["length"].as_u64().expect("a number"))
        .sum();
    assert_eq!(moved, 65_536);
}

#[test]
fn ladder_of_long_reply() {
    let rungs = compare("nfs3-lossy", 10, true, true);
    let write = rungs.iter().find(|rung| rung["kind"] == "write").expect("the reply is in the Reply chunk");
    assert_eq!((write["part"].as_str(), write["from"].as_str()), (Some("reply-chunk"), Some("responder")));
}

#[test]
fn ladder_of_write_with_packet_loss() {
    let rungs = compare("nfs3-lossy", 13, true, true);
    assert!(rungs.iter().filter(|rung| rung["again"] == true).count() > 100);
}

/// The one NAK of the sample, where tshark lists the only syndrome 0x60.
#[test]
fn ladder_of_read_with_nak() {
    let rungs = compare("nfs3-lossy", 19, true, false);
    let nak = rungs.iter().find(|rung| rung["kind"] == "nak").expect("there is one");
    assert_eq!((nak["nak"].as_str(), nak["from"].as_str()), (Some("PSN sequence error"), Some("requester")));
    assert!(rungs.iter().any(|rung| rung["again"] == true && rung["psn"] == nak["psn"]));
    let listed: Vec<Listed> =
        listed("nfs3-lossy").into_iter().filter(|frame| frame.syndrome == Some(0x60)).collect();
    assert_eq!(listed.len(), 1);
    assert_eq!((nak["frame"].as_u64(), nak["psn"].as_u64()), (Some(listed[0].number), Some(listed[0].psn)));
}

#[test]
fn ladder_of_backward_call() {
    let rungs = compare("nfs4.1-backchannel-recall", 28, false, false);
    assert_eq!(rungs[0]["from"], "requester");
    assert_eq!((count(&rungs, "call"), count(&rungs, "reply")), (1, 1));
}

/// The message before reduction of the WRITE, assembled from its parts, contains the Read chunk at
/// its Position (xprtrdma_chunk_read in nfs3-basic.client.trace: 108).
#[test]
fn message_before_reduction_is_assembled() {
    let line = shown(&sample("nfs3-basic.pcap"), &["--xid", "0x1b396a62", "--full"]);
    assert_eq!(line["type"], "exchange");
    let message = &line["call_message"];
    assert_eq!(message["length"], 108 + 262_144);
    let stretches = message["stretches"].as_array().expect("a list");
    let parts: Vec<_> = stretches.iter().map(|stretch| stretch["part"].as_str().expect("a word")).collect();
    assert_eq!(parts, ["send", "read-chunk"]);
    assert_eq!((&stretches[1]["start"], &stretches[1]["position"]), (&108.into(), &108.into()));
    assert_eq!(stretches[1]["bytes"].as_str().map(str::len), Some(2 * 262_144));
    let short = shown(&sample("nfs3-basic.pcap"), &["--xid", "0x1b396a62"]);
    let stretch = &short["call_message"]["stretches"][1];
    assert_eq!(stretch["left_out"], 262_144 - 160);
    let output = run(&["show", &sample("nfs3-basic.pcap"), "--xid", "0x1b396a62"]);
    assert!(text(&output.stdout).contains("Read chunk 0 at Position 108"));
    assert!(text(&output.stdout).contains("261,984 bytes left out"));
}

#[test]
fn missing_and_ambiguous_selections_are_refused() {
    let file = sample("nfs3-basic.pcap");
    refused(&run(&["show", &file, "--xid", "0xdead"]), &["0x0000dead", "rdmascope transactions"]);
    refused(&run(&["show", &file, "--transaction", "9999"]), &["9999"]);
    refused(&run(&["show", &file, "--frame", "0"]), &["no frame 0", "1,723"]);
    let none = Temporary::new("no-packets.pcap", &binary::Pcap::read("nfs3-basic.pcap").with([]));
    refused(&run(&["show", none.path(), "--frame", "1"]), &["no frame 1: the capture has no packets"]);
    // The same session twice, so each XID occurs twice.
    let pcap = binary::Pcap::read("nfs3-basic.pcap");
    let twice: Vec<&Vec<u8>> = pcap.records.iter().chain(&pcap.records).collect();
    let bytes = pcap.with(twice);
    refused(
        &with_input(&["show", "-", "--xid", "0x1b396a62"], &bytes),
        &["2 transactions have the XID 0x1b396a62", "16 (WRITE on connection 1", "--transaction"],
    );
    assert!(with_input(&["show", "-", "--xid", "0x1b396a62", "--connection", "2"], &bytes).status.success());
    assert!(with_input(&["show", "-", "--transaction", "16"], &bytes).status.success());
}

#[test]
fn frame_names_its_transaction() {
    let file = sample("nfs3-basic.pcap");
    // Frame 68 is the call of the WRITE, frame 75 a READ response for it.
    for frame in ["68", "75"] {
        assert_eq!(shown(&file, &["--frame", frame])["transaction"], 16, "{frame}");
        let output = run(&["show", &file, "--frame", frame]);
        assert!(text(&output.stdout).contains("--transaction 16"), "{frame}");
    }
}

/// Properties of every text line, at the minimum width and without colours.
#[test]
fn text_is_ascii_within_80_columns_in_the_c_locale() {
    for (name, number) in [("nfs3-lossy", "13"), ("nfs4.1-backchannel-recall", "28"), ("nfs3-lossy", "10")] {
        let output = binary::command(&["show", &sample(&format!("{name}.pcap")), "--transaction", number])
            .env("LC_ALL", "C")
            .output()
            .expect("the binary runs");
        let shown = text(&output.stdout);
        assert!(shown.is_ascii() && !shown.contains('\x1b'));
        assert!(shown.contains("Requester") && shown.contains("Latency by phase"));
        let long: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:?}");
        assert!(shown.lines().all(|line| !line.ends_with(' ')));
    }
}

/// The WRITE of nfs3-basic, whose reply is changed to grant no credits.
const XID: u32 = 0x1b39_6a62;

/// The rungs that are evidence of a rule.
fn evidence<'a>(exchange: &'a Value, rule: &str) -> Vec<&'a Value> {
    let of = |rung: &&Value| rung["evidence_of"].as_array().expect("a list").contains(&rule.into());
    exchange["rungs"].as_array().expect("a list").iter().filter(of).collect()
}

#[test]
fn transaction_findings_are_marked_on_its_ladder() {
    let planted = planted::no_credits("nfs3-basic", XID);
    let file = Temporary::new("show-transaction.pcap", &planted.bytes);
    let selection = ["--xid", "0x1b396a62"];
    let (exchange, findings) = shown_with_findings(file.path(), &selection);
    let found: Vec<_> = findings.iter().filter(|finding| finding["rule"] == planted::RULE).collect();
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((&finding["level"], &finding["verdict"]), (&"violation".into(), &"stands".into()));
    assert_eq!((&finding["frames"], &finding["xid"]), (&[planted.frame].into(), &"0x1b396a62".into()));
    let rungs = evidence(&exchange, planted::RULE);
    let [rung] = rungs.as_slice() else { panic!("{rungs:?}") };
    assert_eq!((&rung["kind"], &rung["frame"]), (&"reply".into(), &planted.frame.into()));

    let output = binary::command(&["show", file.path(), selection[0], selection[1]])
        .env("LC_ALL", "C")
        .output()
        .expect("it runs");
    let printed = text(&output.stdout);
    let (before, section) = printed.split_once("\nFindings\n").expect("there is a section");
    assert!(!before.contains("Exchange"), "findings come first");
    assert!(section.contains(&format!("  ! violation  {}\n", planted::RULE)), "{section}");
    assert!(section.contains("RFC 8166, section 3.3.1"));
    let rows: Vec<&str> = section.lines().collect();
    let mark = format!("! {} |", planted::RULE);
    let at = rows.iter().position(|row| row.ends_with(&mark)).expect("the rung is marked");
    let reply = rows[..at].iter().rfind(|row| row.contains("frame")).expect("it has a frame");
    assert!(reply.ends_with(&format!("frame {}", planted.frame)), "{reply}");
    assert!(section.contains("! evidence of a finding\n"));
    assert!(rows.iter().all(|row| row.chars().count() <= 80 && !row.ends_with(' ') && row.is_ascii()));

    // The original session.
    let (exchange, findings) = shown_with_findings(&sample("nfs3-basic.pcap"), &selection);
    assert!(findings.iter().all(|finding| finding["rule"] != planted::RULE), "{findings:?}");
    assert!(evidence(&exchange, planted::RULE).is_empty());
}

#[test]
fn frame_has_the_findings_that_name_it() {
    let planted = planted::no_credits("nfs3-basic", XID);
    let file = Temporary::new("show-frame.pcap", &planted.bytes);
    // The next packet is the ACK of the reply.
    for (frame, named) in [(planted.frame, 1), (planted.frame + 1, 0)] {
        let frame = frame.to_string();
        let (_, findings) = shown_with_findings(file.path(), &["--frame", &frame]);
        assert_eq!(findings.iter().filter(|finding| finding["rule"] == planted::RULE).count(), named);
        let output = run(&["show", file.path(), "--frame", &frame]);
        let count = text(&output.stdout).matches(planted::RULE).count();
        assert_eq!(count, named, "{}", text(&output.stdout));
    }
}

/// Without the CM exchange the inline threshold is unknown, so a Send larger than the default of
/// 1024 bytes may be too long (RFC 8166, section 3.3.3).
#[test]
fn inconclusive_findings_are_marked() {
    let mut capture = mutate::without_cm(&samples::capture("nfs4.2-mtu4096-large-io"));
    let is_reply = |packet: &pcap::Packet| {
        packet.source() == mutate::SERVER && packet.starts_message() && packet.opcode() == opcode::SEND_ONLY
    };
    let packets = (1u64..).zip(&mut capture.packets);
    let (frame, reply) = packets.filter(|(_, packet)| is_reply(packet)).nth(3).expect("there are replies");
    let payload = reply.data[reply.payload()].iter().copied();
    let longer: Vec<u8> = payload.chain(core::iter::repeat(0)).take(1028).collect();
    reply.set_after_bth(&longer);
    let file = Temporary::new("show-inconclusive.pcap", &pcap::write(&capture));
    let number = shown(file.path(), &["--frame", &frame.to_string()])["transaction"].to_string();
    let (exchange, findings) = shown_with_findings(file.path(), &["--transaction", &number]);
    let found: Vec<_> = findings.iter().filter(|finding| finding["rule"] == "inline-threshold").collect();
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(finding["verdict"], "inconclusive");
    assert_eq!(finding["frames"], Value::from(vec![frame]));
    let rungs = evidence(&exchange, "inline-threshold");
    assert_eq!(rungs.iter().map(|rung| &rung["kind"]).collect::<Vec<_>>(), ["reply"]);
    let output = run(&["show", file.path(), "--transaction", &number]);
    let printed = text(&output.stdout);
    assert!(printed.contains("  ? violation, inconclusive  inline-threshold\n"), "{printed}");
    assert!(printed.contains("? inline-threshold "), "{printed}");
    assert!(printed.contains("? evidence of a finding that is inconclusive\n"), "{printed}");
}

#[test]
fn missing_connection_is_named() {
    let file = sample("nfs3-basic.pcap");
    let found = run(&["show", &file, "--xid", "0x0e396a62", "--connection", "9"]);
    refused(&found, &["no connection 9: the highest number is 1"]);
}

/// The events after the frame or transaction.
fn events(file: &str, selection: [&str; 2]) -> (Vec<Value>, String) {
    let arguments = ["show", file, selection[0], selection[1]];
    let mut found = lines(&run(&[&arguments[..], &["--format", "jsonl"]].concat()));
    found.retain(|line| line["type"] == "event");
    (found, text(&run(&arguments).stdout).to_owned())
}

#[test]
fn frame_has_its_events() {
    let file = sample("connect-rejected.pcap");
    for frame in ["2", "4"] {
        let (found, printed) = events(&file, ["--frame", frame]);
        let [event] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(event["event"], "rejected");
        let (_, section) = printed.split_once("\nEvents\n").expect("there is a section");
        assert!(section.starts_with("  rejected  "), "{section}");
        assert!(
            section.contains("\n      server rejected the connection, reason 8: invalid service ID\n"),
            "{section}"
        );
    }
    // A packet in the middle of a session.
    let (found, printed) = events(&sample("nfs3-basic.pcap"), ["--frame", "68"]);
    assert!(found.is_empty() && !printed.contains("\nEvents\n"), "{printed}");
}

#[test]
fn call_without_reply_has_connection_events() {
    let mut capture = samples::capture("nfs3-basic");
    capture.packets.retain(|packet| packet.source() != mutate::SERVER || packet.xid() != Some(XID));
    let file = Temporary::new("show-no-reply.pcap", &pcap::write(&capture));
    let (found, printed) = events(file.path(), ["--xid", "0x1b396a62"]);
    assert!(printed.contains("no-reply"), "{printed}");
    let kinds: Vec<_> = found.iter().map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds, [Some("disconnected")]);
    let (_, section) = printed.split_once("\nEvents\n").expect("there is a section");
    // The capture lacks the reply.
    assert!(section.contains("\n      client closed the connection (DREQ)\n"), "{section}");
    // The original session: the call had its reply before.
    let (found, printed) = events(&sample("nfs3-basic.pcap"), ["--xid", "0x1b396a62"]);
    assert!(found.is_empty() && !printed.contains("\nEvents\n"), "{printed}");
}

/// A reply in a Read chunk of the responder: its mechanism, and the times that come after it.
#[test]
fn pulled_reply_has_its_times() {
    let output = run(&["show", "samples/reliable-reply.pcap", "--transaction", "2"]);
    let shown = text(&output.stdout);
    for line in [
        "  conveyed     in a Read chunk of the responder\n",
        "  pull             357us  after the latency: RDMA Reads of the reply\n",
        "  done              48us  from the last of them to RDMA_DONE\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let output = run(&["show", "samples/reliable-reply.pcap", "--transaction", "4"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("  conveyed     in the Reply chunk\n") && !shown.contains("  pull "), "{shown}");
}
