//! The binary as used by people: output, exit statuses, standard error.

mod binary;

use binary::{
    Pcap, Temporary, abandoned, command, folder, lines, refused, root, run, sample, text, with_input,
};
use rdmascope_tests::{pcap, samples};
use serde_json::Value;

#[test]
fn transaction_has_all_documented_fields() {
    let file = sample("nfs3-basic.pcap");
    let transactions = lines(&run(&["transactions", &file, "--format", "jsonl"]));
    // The client's tracepoints have the same number of calls.
    assert_eq!(transactions.len(), 265);
    let documented = [
        "connection",
        "direction",
        "xid",
        "program",
        "version",
        "procedure",
        "name",
        "operations",
        "status",
        "outcome",
        "call",
        "reply",
        "latency_ns",
    ];
    let of_a_message = [
        "frame",
        "time",
        "procedure",
        "credits",
        "header_length",
        "message_length",
        "read_chunks",
        "write_chunks",
        "reply_chunk",
        "missing",
    ];
    for transaction in &transactions {
        for key in documented {
            assert!(transaction.get(key).is_some(), "{key}: {transaction}");
        }
        for message in ["call", "reply"] {
            for key in of_a_message {
                assert!(transaction[message].get(key).is_some(), "{message}.{key}: {transaction}");
            }
        }
    }
    // xprtrdma_marshal and xprtrdma_chunk_read of this XID in nfs3-basic.client.trace.
    let write = transactions.iter().find(|one| one["xid"] == "0x1b396a62").expect("it is there");
    assert_eq!(write["name"], "WRITE");
    assert_eq!(write["call"]["header_length"], 76);
    assert_eq!(write["call"]["message_length"], 108 + 262_144);
    let chunk = serde_json::json!([{"position": 108, "segments": [
        {"handle": "0x00000c43", "length": 131_072, "offset": "0x1b396a6204694000"},
        {"handle": "0x00000bc4", "length": 131_072, "offset": "0x1b396a62046b4000"},
    ]}]);
    assert_eq!(write["call"]["read_chunks"], chunk);
    assert_eq!(write["call"]["reply_chunk"], Value::Null);
}

#[test]
fn connection_has_its_negotiated_parameters() {
    let connections = lines(&run(&["connections", &sample("nfs4.1-basic.pcap"), "--format", "jsonl"]));
    assert_eq!(connections.len(), 1);
    let connection = &connections[0];
    assert_eq!(connection["origin"], "cm");
    // xprtrdma_inline_thresh: 4096/4096.
    assert_eq!(connection["call_inline_threshold"], 4096);
    assert_eq!(connection["reply_inline_threshold"], 4096);
    assert_eq!(connection["remote_invalidation"], false);
    assert_eq!(connection["requester"]["address"], "10.77.0.2");
    assert_eq!(connection["responder"]["address"], "10.77.0.1");
    assert_eq!(connection["requester"]["private_data"]["remote_invalidation"], true);
}

#[test]
fn filters_select_transactions() {
    let file = sample("nfs3-basic.pcap");
    let count = |arguments: &[&str]| {
        let all = [&["transactions", &file, "--format", "jsonl"], arguments].concat();
        lines(&run(&all)).len()
    };
    assert_eq!(count(&["--xid", "0x1b396a62"]), 1);
    // mountstats: 42 WRITEs before the removal of the files, which has none.
    assert_eq!(count(&["--operation", "write"]), 42);
    assert_eq!(count(&["--operation", "write", "--operation", "create"]), 84);
    // mountstats: 44 LOOKUPs failed, and nothing else did; those of the removal succeed.
    assert_eq!(count(&["--status", "error"]), 44);
    assert_eq!(count(&["--latency-above", "10s"]), 0);
}

#[test]
fn standard_input_is_read_like_a_file() {
    let bytes = std::fs::read(sample("nfs4.1-backchannel-recall.pcap")).expect("the sample is there");
    let file = sample("nfs4.1-backchannel-recall.pcap");
    let from_file = run(&["transactions", &file, "--format", "jsonl"]);
    let from_input = with_input(&["transactions", "-", "--format", "jsonl"], &bytes);
    assert_eq!(text(&from_file.stdout), text(&from_input.stdout));
    assert!(!from_file.stdout.is_empty());
}

#[test]
fn invalid_input_is_a_one_line_error() {
    let readme = root().join("README.md");
    refused(&run(&["analyze", readme.to_str().expect("UTF-8")]), &["README.md", "byte 0", "expected"]);
    refused(&run(&["analyze", "no-such-file.pcap"]), &["no-such-file.pcap", "No such file"]);
    refused(&with_input(&["analyze", "-"], b""), &["standard input"]);
}

#[test]
fn bad_usage_is_refused() {
    for arguments in [&["analyze"][..], &["transactions", "x", "--latency-above", "5parsecs"], &["dissect"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
        assert_eq!(text(&output.stdout), "");
    }
    for arguments in [&["--help"][..], &["--version"], &["analyze", "--help"], &["packets", "--help"]] {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn truncated_capture_is_analyzed_up_to_the_cut() {
    let bytes = std::fs::read(sample("nfs3-basic.pcap")).expect("the sample is there");
    // A quarter of the file: the WRITE of 256 KiB is in progress.
    let cut = &bytes[..bytes.len() / 4];
    let output = with_input(&["analyze", "-"], cut);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("cut short"), "{}", text(&output.stdout));
    let output = with_input(&["transactions", "-", "--format", "jsonl"], cut);
    assert!(text(&output.stderr).contains("cut short"), "{}", text(&output.stderr));
    let transactions = lines(&output);
    assert!(transactions.len() > 10);
    assert_eq!(
        transactions.iter().filter(|one| one["outcome"] == "completed").count(),
        transactions.len() - 1
    );
    assert_eq!(transactions.last().expect("there are some")["outcome"], "cut-off");
}

#[test]
fn closed_output_pipe_is_no_error() {
    let output = abandoned(&["packets", &sample("nfs3-basic.pcap"), &sample("nfs3-lossy.pcap")]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn no_progress_without_a_terminal() {
    for arguments in [&["analyze"][..], &["analyze", "--quiet"], &["transactions", "-q"]] {
        let output = run(&[arguments, &[&sample("nfs3-basic.pcap")]].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn no_colour_without_a_terminal() {
    for command in ["analyze", "connections", "transactions", "packets"] {
        let output = run(&[command, &sample("nfs3-lossy.pcap")]);
        assert!(!output.stdout.contains(&0x1b), "{command}");
    }
}

#[test]
fn readme_output_matches_the_commands() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    let blocks: Vec<&str> = readme.split("    $ rdmascope ").skip(1).collect();
    assert!(blocks.len() > 2);
    for block in blocks {
        let (command, rest) = block.split_once('\n').expect("something is printed");
        let shown: Vec<&str> = rest
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .map(str::trim)
            .filter(|line| !line.is_empty() && *line != "…")
            .collect();
        assert!(shown.len() > 3, "{command}");
        let output = run(&command.split(' ').collect::<Vec<_>>());
        for line in shown {
            let printed = text(&output.stdout).lines().any(|printed| printed.trim() == line);
            assert!(printed, "{command} does not print: {line}");
        }
    }
}

#[test]
fn readme_cargo_commands_are_in_the_gate() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    let gate = std::fs::read_to_string(root().join(".ci/run")).expect("it is there");
    let commands: Vec<&str> =
        readme.lines().filter(|line| line.starts_with("    cargo ")).map(str::trim).take(2).collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        assert!(gate.lines().any(|line| line.trim() == command), "the gate does not run: {command}");
    }
}

#[test]
fn wrong_numbers_are_explained() {
    let file = sample("nfs3-basic.pcap");
    for value in ["x", "", "1.5"] {
        let output = run(&["packets", &file, "--top", value]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
        let complaint = text(&output.stderr);
        assert!(complaint.contains("'--top <N>': expected a number, in decimal digits"), "{complaint}");
    }
    let output = run(&["packets", &file, "--top", "-1"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("unexpected argument '-1'") && !complaint.contains("tip"), "{complaint}");
}

#[test]
fn cut_of_a_compressed_capture_is_an_offset_after_decompression() {
    let file = Temporary::new("whole.pcapng.gz", b"");
    let output = run(&["export", "pcapng", &sample("nfs3-basic.pcap"), "--output", file.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut bytes = std::fs::read(file.path()).expect("it is there");
    bytes.truncate(bytes.len() / 2);
    let cut = Temporary::new("cut.pcapng.gz", &bytes);
    let [report, list] = ["analyze", "packets"].map(|command| run(&[command, cut.path()]));
    assert_eq!((report.status.code(), list.status.code()), (Some(0), Some(0)));
    for shown in [text(&report.stdout), text(&list.stderr)] {
        assert!(shown.contains("cut short at byte ") && shown.contains(" after decompression: "), "{shown}");
    }
}

#[test]
fn capture_cut_within_its_file_header_is_refused() {
    let bytes = std::fs::read(sample("nfs3-basic.pcap")).expect("the sample is there");
    let decompressed = "(decompressed): cut short at byte 0, within the file header";
    for (name, part, complaint) in [
        ("header.pcap", &bytes[..12], "cut short at byte 12, within the file header"),
        ("header.pcap.zst", b"\x28\xb5\x2f\xfd\0\x58", decompressed),
        ("header.pcap.gz", b"\x1f\x8b\x08\0\0", decompressed),
        ("magic.pcap", &bytes[..3], "found d4 c3 b2 and no more: the file is cut short"),
    ] {
        let file = Temporary::new(name, part);
        for command in ["analyze", "check", "packets"] {
            refused(&run(&[command, file.path()]), &[complaint]);
        }
    }
}

/// The little-endian pcap file `bytes` as if captured with a snap length.
fn cut_packets(bytes: &[u8], snap_length: usize) -> Vec<u8> {
    let (header, mut rest) = bytes.split_at(24);
    let mut out = header.to_vec();
    while let Some((record, after)) = rest.split_first_chunk::<16>() {
        let captured = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        let (data, next) = after.split_at(captured);
        let kept = &data[..captured.min(snap_length)];
        out.extend_from_slice(&record[..8]);
        out.extend_from_slice(&(kept.len() as u32).to_le_bytes());
        out.extend_from_slice(&record[12..]);
        out.extend_from_slice(kept);
        rest = next;
    }
    out
}

#[test]
fn truncated_packets_are_no_protocol_problems() {
    let bytes = std::fs::read(sample("nfs3-basic.pcap")).expect("the sample is there");
    for snap_length in [160, 128, 96] {
        let cut = cut_packets(&bytes, snap_length);
        let transactions = lines(&with_input(&["transactions", "-", "--format", "jsonl"], &cut));
        // Every call of the client's tracepoints is present with its lengths, even if its bytes are
        // missing.
        assert_eq!(transactions.len(), 265, "{snap_length}");
        let write = transactions.iter().find(|one| one["xid"] == "0x1b396a62").expect("it is there");
        assert_eq!(write["outcome"], "completed");
        if snap_length == 160 {
            assert_eq!(write["call"]["message_length"], 108 + 262_144);
            assert!(transactions.iter().all(|one| one["name"].is_string()));
        }
        let report = with_input(&["analyze", "-"], &cut);
        let (_, wrong) = text(&report.stdout).split_once("\nProblems\n").expect("the report has it");
        assert!(
            wrong.contains("messages whose end is missing from the capture: the snap length cut packets"),
            "{wrong}"
        );
        for group in ["\n  Transactions\n", "\n  Transport\n"] {
            assert!(!wrong.contains(group), "{snap_length}: {wrong}");
        }
    }
}

#[test]
fn cm_message_fields_match_tshark() {
    let packets = lines(&run(&["packets", &sample("connect-rejected.pcap"), "--format", "jsonl"]));
    // Frames 1 and 2 as read by tshark: tests/expectations/connect-rejected.cm.tsv.
    let (request, reject) = (&packets[0]["cm"], &packets[1]["cm"]);
    assert_eq!(request["name"], "ConnectRequest");
    assert_eq!(request["port"], 20050);
    assert_eq!(request["private_data"]["send_size"], 4096);
    assert_eq!(reject["name"], "ConnectReject");
    assert_eq!(reject["reject_reason"], 8);
    assert_eq!(reject["remote_communication_id"], request["local_communication_id"]);
    let line = text(&run(&["packets", &sample("connect-rejected.pcap")]).stdout).to_owned();
    assert!(line.contains("ConnectReject local 0x00000000 remote 0x"), "{line}");
}

/// An unknown name is an error; a known name without matches is not.
#[test]
fn unknown_names_are_errors_and_empty_results_are_not() {
    let file = sample("nfs3-basic.pcap");
    for (arguments, parts) in [
        (&["transactions", "--operation", "wriet"][..], &["unknown operation name", "WRITE"][..]),
        (&["transactions", "--operation", "read,wriet"], &["'wriet'", "WRITE"]),
        (&["transactions", "--status", "NOENTT"], &["unknown status name", "NOENT"]),
        (&["transactions", "--status", "nonsense"], &["unknown status name"]),
        (&["packets", "--opcode", "sned"], &["no opcode has this"]),
        (&["packets", "--connection", "7"], &["no connection 7: the highest number is 1"]),
        (&["transactions", "--connection", "1,7"], &["no connection 7: the highest number is 1"]),
        (&["connections", "--connection", "7"], &["no connection 7: the highest number is 1"]),
        (&["check", "--connection", "7"], &["no connection 7: the highest number is 1"]),
        (
            &["connections", "--since", "5", "--until", "5"],
            &["the span is empty: --until must be after --since"],
        ),
        (&["transactions", "--since", "1000000"], &["the capture has no packets in that span: it covers 20"]),
        (
            &["packets", "--until", "2001-01-01T00:00:00Z"],
            &["the capture has no packets in that span: it covers 20"],
        ),
    ] {
        let found = run(&[arguments, &[&file]].concat());
        let complaint = text(&found.stderr);
        assert_eq!(found.status.code(), Some(2), "{arguments:?}: {complaint}");
        parts.iter().for_each(|part| assert!(complaint.contains(part), "{arguments:?}: {complaint}"));
    }
    // Known names and spans without matches.
    for arguments in [
        &["transactions", "--operation", "read_plus,cb_recall"][..],
        &["transactions", "--status", "jukebox,10008"],
        &["transactions", "--since", "0.001", "--until", "0.0010001"],
    ] {
        let found = run(&[arguments, &[&file, "--format", "jsonl"]].concat());
        assert_eq!((found.status.code(), text(&found.stdout)), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn comma_separated_lists_select_all_values() {
    let file = sample("nfs4.1-basic.pcap");
    let count = |arguments: &[&str]| lines(&run(&[arguments, &[&file, "--format", "jsonl"]].concat())).len();
    for (command, option, one, other) in [
        ("transactions", "--operation", "READ", "WRITE"),
        ("transactions", "--outcome", "completed", "no-reply"),
        ("packets", "--psn", "1-8000000", "8000001-16777215"),
        ("packets", "--opcode", "SEND", "ACK"),
    ] {
        let [first, second] = [one, other].map(|value| count(&[command, option, value]));
        let list = format!("{one},{other}");
        let both = count(&[command, option, &list]);
        assert_eq!(both, count(&[command, option, one, option, other]), "{option}");
        assert!(both >= first.max(second) && both > 0, "{option}");
    }
}

#[test]
fn completions_include_operations_statuses_and_rules() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        let script = text(&script.stdout);
        for word in ["CB_RECALL", "NFS4ERR_DELAY", "credit-limit"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    // The help does not list them.
    assert!(!text(&run(&["transactions", "--help"]).stdout).contains("CB_RECALL"));
}

/// File names are as untrusted as names in a capture.
#[test]
fn file_names_are_escaped() {
    let pcap = Pcap::read("nfs3-basic.pcap");
    let name = "a\u{1b}[31m\u{9b}2J\u{202e}b.pcap";
    let file = Temporary::new(name, &pcap.with(&pcap.records[..100]));
    let cut = Temporary::new(&format!("cut{name}"), &pcap.with(&pcap.records[..100])[..5000]);
    for arguments in [
        &["analyze"][..],
        &["analyze", "--format", "jsonl"],
        &["check"],
        &["check", "--format", "sarif"],
        &["diff", file.path()],
        &["packets"],
    ] {
        let found = run(&[arguments, &[cut.path()]].concat());
        for output in [text(&found.stdout), text(&found.stderr)] {
            let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!output.contains(hidden), "{arguments:?}: {output:?}");
        }
        let both = format!("{}{}", text(&found.stdout), text(&found.stderr));
        assert!(both.to_lowercase().contains("202e"), "{arguments:?}: {both}");
    }
}

#[test]
fn capture_with_nothing_to_check_is_an_error() {
    let pcap = Pcap::read("nfs3-basic.pcap");
    let none = Temporary::new("none.pcap", &pcap.with(&[]));
    let found = run(&["check", none.path()]);
    assert_eq!(found.status.code(), Some(2));
    assert!(text(&found.stderr).contains("nothing to judge: the capture has no connections"));
    assert_eq!(run(&["check", none.path(), "--allow-empty"]).status.code(), Some(0));
    // Connections with another protocol do not count either: without the CM exchange, and with
    // another version in each Send, nothing identifies RPC-over-RDMA.
    let mut other = samples::capture("nfs3-basic");
    other.packets.retain(pcap::Packet::is_rc);
    other.packets.iter_mut().filter(|packet| packet.starts_message()).for_each(|packet| {
        let version = packet.payload().start + 4;
        packet.set_u32(version, 7);
        packet.seal();
    });
    let other = Temporary::new("other.pcap", &pcap::write(&other));
    let found = run(&["check", other.path()]);
    assert_eq!(found.status.code(), Some(2), "{}", text(&found.stdout));
    assert!(text(&found.stdout).starts_with("Nothing to judge: no connection carries RPC-over-RDMA."));
    assert!(
        text(&found.stderr).contains("nothing to judge: no connection carries RPC-over-RDMA; --allow-empty")
    );
    assert_eq!(run(&["check", other.path(), "--allow-empty"]).status.code(), Some(0));
    // A snap length may leave nothing of the messages.
    let mut cut = samples::capture("nfs3-basic");
    cut.packets.retain(pcap::Packet::is_rc);
    cut.packets.iter_mut().for_each(|packet| packet.data.truncate(60));
    let cut = Temporary::new("cut.pcap", &pcap::write(&cut));
    let found = run(&["check", cut.path()]);
    assert_eq!(found.status.code(), Some(2), "{}", text(&found.stdout));
    assert!(text(&found.stderr).contains("nothing to judge: no message of RPC-over-RDMA could be read"));
    let page = run(&["export", "html", other.path(), "--output", "-"]);
    assert!(
        text(&page.stdout)
            .contains("something other than RPC-over-RDMA: none of 530 Sends is an RPC-over-RDMA message")
    );
    let report = run(&["analyze", other.path()]);
    assert!(
        text(&report.stdout).contains(
            "carries something other than RPC-over-RDMA: none of 530 Sends is an RPC-over-RDMA message"
        ),
        "{}",
        text(&report.stdout)
    );
}

/// If no iWARP connection can be followed, every command reports that in the same words. Exit
/// statuses are those of a capture without RoCE.
#[test]
fn unfollowed_iwarp_is_reported_by_every_command() {
    let pcap = Pcap::read("nfs3-basic.pcap");
    // The middle of an FPDU at the port of NFS over RDMA, and an RDMA Write that claims to be
    // untagged.
    let frames = [segment(20_049, &[0xab; 64]), segment(20_049, &[0, 20, 0x41, 0x40, 0, 0, 0, 0])];
    let iwarp = Temporary::new("iwarp.pcap", &pcap.with(&frames));
    let none = Temporary::new("no-iwarp.pcap", &pcap.with(&[]));
    let expected = "no RoCE packets; 2 packets are iWARP (TCP port 20049 or an MPA start frame: handshakes, and connections that were not followed)";
    let folder = folder();
    let to = |name: &str| folder.path().join(name).into_os_string().into_string().expect("a plain name");
    for (arguments, status) in [
        (&["analyze"][..], 0),
        (&["check"], 2),
        (&["check", "--allow-empty"], 0),
        (&["connections"], 0),
        (&["transactions"], 0),
        (&["packets"], 0),
        (&["events"], 0),
        (&["state"], 0),
        (&["live"], 0),
        (&["diff", iwarp.path()], 0),
        (&["extract", "--files", &to("files")], 0),
        (&["export", "html", "--output", "-"], 0),
    ] {
        let found = run(&[arguments, &[iwarp.path()]].concat());
        assert_eq!(found.status.code(), Some(status), "{arguments:?}");
        let words = |output: &[u8]| text(output).split_whitespace().collect::<Vec<_>>().join(" ");
        let output = format!("{} {}", words(&found.stdout), words(&found.stderr));
        assert!(output.contains(expected), "{arguments:?}: {output}");
        assert!(!output.contains("no violation of the specifications was found"), "{arguments:?}");
        // Without iWARP packets, iWARP is not mentioned. The folder must be new.
        let _ = std::fs::remove_dir_all(to("files"));
        let empty = run(&[arguments, &[none.path()]].concat());
        assert_eq!(empty.status.code(), Some(status), "{arguments:?}");
        assert!(!text(&empty.stdout).contains("iWARP") || arguments[0] == "diff", "{arguments:?}");
    }
}

/// A record of pcap: a TCP segment in IPv4 and Ethernet, from port 50,000.
fn segment(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend(50_000u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0; 8]);
    frame.extend([0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    let length = (frame.len() as u32).to_le_bytes();
    let time = 1_700_000_000u32.to_le_bytes();
    [&time[..], &[0; 4], &length, &length, &frame].concat()
}

/// Times of day and dates are in the zone of TZ; `+` counts from --since.
#[test]
fn times_of_day_are_in_the_local_zone() {
    let sample = sample("nfs3-lossy.pcap");
    let listed = |zone: &str, options: &[&str]| {
        let arguments =
            [&["transactions", &sample, "--format", "tsv", "--fields", "number"], options].concat();
        let output = command(&arguments).env("TZ", zone).output().expect("it runs");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{options:?}");
        text(&output.stdout).lines().skip(1).collect::<Vec<_>>().join(" ")
    };
    // The capture begins at 09:37:31.274 UTC; the call of transaction 13 is at 09:37:32.057.
    for (zone, options, expected) in [
        ("UTC", &["--since", "09:37:32", "--until", "+0.1s"][..], "13"),
        ("UTC", &["--since", "09:37:32.0", "--until", "09:37:32.1"], "13"),
        ("UTC-1", &["--since", "10:37:32", "--until", "+100ms"], "13"),
        ("UTC-1", &["--since", "2026-11-21 10:37:32", "--until", "2026-11-21T09:37:32.1Z"], "13"),
        ("UTC", &["--since", "0.75", "--until", "+50ms"], "13"),
        ("UTC", &["--until", "09:37:31.285"], "1"),
        ("UTC", &["--where", "time > '09:37:32' && time < '2026-11-21 09:37:32.1'"], "13"),
    ] {
        assert_eq!(listed(zone, options), expected, "{zone} {options:?}");
    }
}
