//! `rdmascope export pcapng`: the same packets, with comments. `tests/pcapng_tshark` reads them
//! with tshark.

mod binary;
mod planted;

use binary::{Pcap, Temporary, json_lines, lines, refused, root, run, sample, text, with_input};
use std::collections::BTreeMap;
use std::path::Path;

/// The comments of all packets, parsed by hand: little-endian blocks; type 6 is a packet; option 1
/// is a comment.
fn comments(file: &[u8]) -> Vec<String> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let (mut comments, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let end = at + word(at + 4);
        if word(at) == 6 {
            let option = at + 28 + word(at + 20).next_multiple_of(4);
            let comment = match option < end - 4 && half(option) == 1 {
                true => &file[option + 4..option + 4 + half(option + 2)],
                false => &[],
            };
            comments.push(text(comment).to_owned());
        }
        at = end;
    }
    comments
}

fn exported(file: &str) -> Vec<u8> {
    let output = run(&["export", "pcapng", file, "--output", "-"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    output.stdout
}

#[test]
fn packets_are_unchanged() {
    for name in ["nfs3-lossy.pcap", "nfs4.1-backchannel-recall.pcap", "connect-rejected.pcap"] {
        let file = Temporary::new(&format!("same-{name}ng"), b"");
        let output = run(&["export", "pcapng", &sample(name), "--output", file.path()]);
        assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), "", ""));
        let written = std::fs::read(file.path()).expect("it is there");
        assert_eq!(written, exported(&sample(name)), "{name}: the same on standard output");
        let bytes = std::fs::read(sample(name)).expect("the sample is there");
        let piped = with_input(&["export", "pcapng", "-", "--output", "-"], &bytes);
        assert_eq!(written, piped.stdout, "{name}: the same from standard input");
        for command in ["packets", "transactions", "connections"] {
            let original = lines(&run(&[command, &sample(name), "--format", "jsonl"]));
            assert_eq!(
                lines(&run(&[command, file.path(), "--format", "jsonl"])),
                original,
                "{name}: {command}"
            );
        }
    }
}

#[test]
fn file_name_selects_the_compression() {
    let capture = sample("nfs3-lossy.pcap");
    let original = lines(&run(&["packets", &capture, "--format", "jsonl"]));
    for (name, magic) in [("c.pcapng.gz", &[0x1f, 0x8b][..]), ("c.pcapng.zst", &[0x28, 0xb5, 0x2f, 0xfd])] {
        let file = Temporary::new(name, b"");
        let output = run(&["export", "pcapng", &capture, "--output", file.path()]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        assert!(std::fs::read(file.path()).expect("it is there").starts_with(magic), "{name}");
        assert_eq!(lines(&run(&["packets", file.path(), "--format", "jsonl"])), original, "{name}");
        let output = run(&["export", "rpc", &capture, "--output", file.path()]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        assert!(std::fs::read(file.path()).expect("it is there").starts_with(magic), "{name}");
    }
}

/// Each call in the client's tracepoints is there, with its reply.
#[test]
fn call_and_reply_comments_name_each_other() {
    let comments = comments(&exported(&sample("nfs3-basic.pcap")));
    let number = |text: &str| -> usize { text.split(&[',', ';'][..]).next().unwrap().parse().unwrap() };
    let mut calls = 0;
    for (index, comment) in comments.iter().enumerate() {
        let Some((_, reply)) = comment.split_once("; reply in frame ") else { continue };
        let answer = &comments[number(reply) - 1];
        let (_, call) = answer.split_once(" after the call in frame ").expect("it is the reply");
        assert_eq!(number(call), index + 1);
        calls += 1;
    }
    assert_eq!(calls, 265);
}

/// Offsets and counts of READs and WRITEs agree with `transactions`, which finds them by another
/// walk over the arguments. Comments are short and have one line.
#[test]
fn call_comments_have_the_arguments() {
    let mut found = 0;
    for name in ["nfs3-basic.pcap", "nfs4.2-basic.pcap"] {
        let comments = comments(&exported(&sample(name)));
        for transaction in lines(&run(&["transactions", &sample(name), "--format", "jsonl"])) {
            let frame = transaction["call"]["frame"].as_u64().expect("the sample has all calls") as usize;
            let operation = transaction["operation_details"].as_array().into_iter().flatten();
            let operation = operation.into_iter().find(|one| one["name"] == transaction["name"]);
            let Some(offset) = operation.and_then(|operation| operation["offset"].as_u64()) else { continue };
            let expected = format!(", offset {offset}, ");
            assert!(comments[frame - 1].contains(&expected), "{}: {expected}", comments[frame - 1]);
            found += 1;
        }
        for comment in &comments {
            assert!(!comment.contains(char::is_control), "{comment}");
            assert!(comment.len() < 2048, "{comment}");
        }
    }
    assert!(found > 40, "{found}");
}

/// Every byte of the chunk in xprtrdma_chunk_read of nfs3-basic.client.trace for this XID moves
/// once.
#[test]
fn each_byte_of_a_read_chunk_moves_once() {
    let mut ranges = BTreeMap::new();
    for comment in comments(&exported(&sample("nfs3-basic.pcap"))) {
        if !comment.contains("XID 0x1b396a62, NFSv3 WRITE") {
            continue;
        }
        if let Some((_, range)) = comment.split_once("RDMA Read response with Read chunk 0, bytes ") {
            let (start, last) = range.split_once('-').expect("a range");
            let (start, last): (u64, u64) = (start.parse().unwrap(), last.parse().unwrap());
            assert_eq!(ranges.insert(start, last + 1), None, "{comment}");
        }
    }
    let mut end = 0;
    for (start, next) in ranges {
        assert_eq!(start, end);
        end = next;
    }
    assert_eq!(end, 262_144);
}

/// The frames with NAKs in tshark's output.
#[test]
fn nak_comments_have_the_reason() {
    let table = std::fs::read_to_string(root().join("tests/expectations/nfs3-lossy.frames.tsv")).unwrap();
    let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let heading = rows.next().expect("a heading");
    let column = |name: &str| heading.iter().position(|cell| *cell == name).expect("a column");
    let (frame, syndrome) = (column("frame.number"), column("infiniband.aeth.syndrome"));
    let expected: Vec<_> =
        rows.filter(|row| row[syndrome] == "96").map(|row| row[frame].to_owned()).collect();
    assert!(!expected.is_empty());
    let comments = comments(&exported(&sample("nfs3-lossy.pcap")));
    let found = (1..).zip(&comments).filter(|(_, text)| text.contains("NAK because of PSN sequence error"));
    assert_eq!(found.map(|(frame, _): (u32, _)| frame.to_string()).collect::<Vec<_>>(), expected);
}

#[test]
fn comments_report_missing_and_damaged_packets() {
    // Remove a middle packet of an RDMA Write of a READ, and damage the ICRC of another.
    let mut pcap = Pcap::read("nfs3-basic.pcap");
    let before = comments(&exported(&sample("nfs3-basic.pcap")));
    let writes =
        (0..before.len()).filter(|index| before[*index].contains("; RDMA Write into Write chunk 0, bytes"));
    let writes: Vec<_> = writes.collect();
    let (dropped, damaged) = (writes[2], writes[5]);
    let last = pcap.records[damaged].len() - 1;
    pcap.records[damaged][last] ^= 1;
    let records = pcap.records.iter().enumerate().filter(|(index, _)| *index != dropped);
    let file = Temporary::new("wrong.pcap", &pcap.with(records.map(|(_, record)| record)));
    let after = comments(&exported(file.path()));
    // Findings come last in a comment.
    let levels = ["; violation, ", "; warning, ", "; advice, "];
    let facts = levels.iter().fold(&*after[damaged - 1], |text, level| text.split(level).next().unwrap());
    assert_eq!(facts, "connection 1; from the responder; bad ICRC: its receiver drops it");
    let lacks: Vec<_> = after.iter().filter(|comment| comment.contains("missing: ")).collect();
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    for index in [dropped, damaged] {
        let (_, range) = before[index].split_once(", bytes ").expect("a range");
        assert!(lacks[0].contains(&format!("; missing: bytes {range} of Write chunk 0")), "{}", lacks[0]);
    }
    assert!(!before.iter().any(|comment| comment.contains("missing: ") || comment.contains("ICRC")));
}

#[test]
fn comments_name_findings() {
    let planted = planted::no_credits("nfs3-basic", 0x1b39_6a62);
    let file = Temporary::new("no-credits.pcap", &planted.bytes);
    let after = comments(&exported(file.path()));
    let part = "; violation, credit-grant-zero: a reply that grants no credits";
    let frames: Vec<u64> =
        (1..).zip(&after).filter(|(_, comment)| comment.contains(part)).map(|(frame, _)| frame).collect();
    assert_eq!(frames, [planted.frame]);
    let before = comments(&exported(&sample("nfs3-basic.pcap")));
    assert!(!before.iter().any(|comment| comment.contains(planted::RULE)));
    // The rest of the comment is unchanged, except for the new finding.
    let index = planted.frame as usize - 1;
    let (front, _) = after[index].split_once("; violation, ").expect("it was just found");
    assert!(before[index].starts_with(front), "{} and {}", before[index], after[index]);
}

#[test]
fn comment_names_few_findings_and_counts_the_rest() {
    let planted = planted::one_credit("nfs3-basic");
    let file = Temporary::new("one-credit.pcap", &planted.bytes);
    let frame = planted.frame.to_string();
    let findings = lines(&run(&["show", file.path(), "--frame", &frame, "--format", "jsonl"])).len() - 1;
    assert!(findings > 100, "every later call exceeds this grant: {findings}");
    let comment = &comments(&exported(file.path()))[planted.frame as usize - 1];
    assert!(comment.ends_with(&format!("; evidence of {} further findings", findings - 8)), "{comment}");
    let named =
        ["violation", "warning", "advice"].map(|level| comment.matches(&format!("; {level}, ")).count());
    assert_eq!(named.iter().sum::<usize>(), 8, "{comment}");
    // Text output also limits their number.
    let shown = run(&["show", file.path(), "--frame", &frame]);
    assert!(text(&shown.stdout).contains(&format!("  and {} further findings: ", findings - 100)));
}

#[test]
fn connect_reply_has_the_negotiated_thresholds() {
    let comments = comments(&exported(&sample("nfs4.1-basic.pcap")));
    // xprtrdma_inline_thresh: 4096/4096.
    let negotiated = "negotiated: Sends of 4096 bytes towards the responder and 4096 towards the requester";
    let found: Vec<_> = comments.iter().filter(|comment| comment.contains(negotiated)).collect();
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("from the responder; ConnectReply"), "{}", found[0]);
}

#[test]
fn failed_export_leaves_no_file() {
    let file = sample("nfs3-basic.pcap");
    refused(&run(&["export", "pcapng", &file, "--output", &file]), &["is an input file"]);
    let manifest = root().join("Cargo.toml");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-never.pcapng", std::process::id()));
    let output = output.to_str().unwrap();
    refused(&run(&["export", "pcapng", manifest.to_str().unwrap(), "--output", output]), &["byte 0"]);
    assert!(!Path::new(output).exists());
    refused(&run(&["export", "pcapng", manifest.to_str().unwrap(), "--output", "-"]), &["byte 0"]);
    refused(&run(&["export", "pcapng", &file, "--output", "/nowhere/x.pcapng"]), &["cannot be written"]);
}

#[cfg(unix)]
#[test]
fn inputs_readable_only_once_are_refused() {
    let bytes = std::fs::read(sample("nfs3-basic.pcap")).expect("the sample is there");
    for command in [
        &["export", "pcapng", "/dev/stdin", "--output", "-"][..],
        &["export", "html", "/dev/stdin", "--output", "-"],
        &["show", "/dev/stdin", "--transaction", "1"],
        &["extract", "/dev/stdin", "--frame", "68"],
    ] {
        refused(&with_input(command, &bytes), &["/dev/stdin", "standard input"]);
    }
}

/// `--cut-bulk` does not change the output about transactions, connections, events and findings.
#[test]
fn cut_bulk_does_not_change_results() {
    for name in
        ["nfs3-basic", "nfs3-lossy", "nfs4.1-backchannel-recall", "nfs4.2-mtu4096-large-io", "iwarp-nfs3"]
    {
        let original = sample(&format!("{name}.pcap"));
        let file = Temporary::new(&format!("small-{name}.pcapng"), b"");
        let arguments = ["export", "pcapng", &original, "--cut-bulk", "--no-comments", "--output"];
        let output = run(&[&arguments[..], &[file.path()]].concat());
        assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), "", ""));
        let written = std::fs::read(file.path()).expect("it is there");
        let comment = written.windows(10).any(|bytes| bytes == b"--cut-bulk");
        assert!(comment, "{name}: a comment names the option");
        assert!(comments(&written).iter().all(String::is_empty), "{name}");
        for command in ["transactions", "connections", "events", "check"] {
            let [expected, found] =
                [&*original, file.path()].map(|path| run(&[command, path, "--format", "jsonl"]));
            assert_eq!(found.status.code(), expected.status.code(), "{name}: {command}");
            let [found, expected] = [found, expected].map(|output| {
                let mut lines = json_lines(text(&output.stdout));
                // The files have different names and sizes.
                lines.iter_mut().filter_map(|line| line.as_object_mut()).for_each(|line| {
                    line.remove("files");
                });
                lines
            });
            assert_eq!(found, expected, "{name}: {command}");
        }
        // A pipe works, too: the capture is read once.
        let bytes = std::fs::read(&original).expect("the sample is there");
        let arguments = ["export", "pcapng", "/dev/stdin", "--cut-bulk", "--no-comments", "--output", "-"];
        assert_eq!(with_input(&arguments, &bytes).stdout, written, "{name}");
        // With comments, the same data is omitted.
        let output = run(&["export", "pcapng", &original, "--cut-bulk", "--output", "-"]);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(comments(&output.stdout), comments(&exported(&original)), "{name}");
        // The recall moves messages only, and the section has an additional comment.
        let is_smaller = output.stdout.len() < exported(&original).len();
        assert!(is_smaller || name == "nfs4.1-backchannel-recall", "{name}");
    }
}

#[test]
fn omitted_bulk_is_reported() {
    let file = Temporary::new("small.pcapng", b"");
    let original = sample("nfs3-basic.pcap");
    run(&["export", "pcapng", &original, "--cut-bulk", "--no-comments", "--output", file.path()]);
    let report = run(&["analyze", file.path()]);
    let shown = text(&report.stdout);
    // 256 KiB read and 256 KiB written in packets of 1,024 bytes, and the link that READLINK returns.
    assert!(shown.contains("513 of them without RDMA payload"), "{shown}");
    assert!(!shown.contains("snap length"), "{shown}");
    let folder = Temporary::new("small-files", b"");
    std::fs::remove_file(folder.path()).expect("it was just made");
    let extracted = run(&["extract", file.path(), "--files", folder.path()]);
    assert!(text(&extracted.stderr).contains("--cut-bulk"), "{}", text(&extracted.stderr));
    std::fs::remove_dir_all(folder.path()).expect("files were written");
}

/// Notes on packets and on transactions become comments, before the comment that the command writes.
#[test]
fn notes_become_comments() {
    let notes = Temporary::new(
        "notes",
        b"# by hand\nframe 54: its ACK\ntransaction 13: slow: 106 ms\nframe 53: here\n",
    );
    let sample = sample("nfs3-lossy.pcap");
    for options in [&[][..], &["--no-comments"]] {
        let mut arguments = vec!["export", "pcapng", &sample, "--output", "-", "--notes", notes.path()];
        arguments.extend(options);
        let output = run(&arguments);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        let comments = comments(&output.stdout);
        assert_eq!((&*comments[52], &*comments[53]), ("slow: 106 ms; here", "its ACK"));
        assert_ne!(comments[54], "its ACK");
        // From a pipe, too.
        arguments[2] = "-";
        let bytes = std::fs::read(&sample).expect("the sample is there");
        assert_eq!(with_input(&arguments, &bytes).stdout, output.stdout);
    }
    for (lines, expected) in [
        (&b"frame 54"[..], "line 1: expected `frame N: TEXT`"),
        (b"transaction 99: x", "no packet of transaction 99"),
    ] {
        let notes = Temporary::new("no-notes", lines);
        let output = run(&["export", "pcapng", &sample, "--output", "-", "--notes", notes.path()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    let late = Temporary::new("late-notes", b"frame 9999: x");
    let output = run(&["export", "pcapng", &sample, "--output", "-", "--notes", late.path()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("notes on 1 packet that the output does not have"));
}
