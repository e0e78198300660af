//! Several files in one command are one capture.

mod binary;

use binary::{Pcap, Temporary, folder, lines, refused, run, sample, text, time, with_input};
use serde_json::{Value, json};
use std::process::Output;

const COMMANDS: [&str; 4] = ["analyze", "connections", "transactions", "packets"];

/// Asserts that a command has the same output for other files, except for file names.
fn same(command: &str, original: &Output, parts: &Output) {
    let cleaned = |output: &Output| {
        let mut lines = lines(output);
        lines
            .iter_mut()
            .filter(|line| line["type"] == "capture")
            .for_each(|line| line["files"] = Value::Null);
        lines
    };
    let (original, parts) = (cleaned(original), cleaned(parts));
    assert!(!original.is_empty());
    for (index, (original, part)) in original.iter().zip(&parts).enumerate() {
        assert_eq!(original, part, "{command}: line {index}");
    }
    assert_eq!(original.len(), parts.len(), "{command}");
}

#[test]
fn rotated_files_equal_the_original_capture() {
    let name = "nfs3-basic.pcap";
    let pcap = Pcap::read(name);
    let third = pcap.records.len() / 3;
    // Time advances between the parts, so the order of the files does not matter.
    let parts = [&pcap.records[..third], &pcap.records[third..2 * third], &pcap.records[2 * third..]];
    assert!(parts.windows(2).all(|two| time(two[0].last().unwrap()) < time(&two[1][0])));
    let files = ["0", "1", "2"].map(|part| {
        let records = parts[part.parse::<usize>().unwrap()];
        Temporary::new(&format!("rotated-{part}.pcap"), &pcap.with(records))
    });
    for command in COMMANDS {
        let original = run(&[command, &sample(name), "--format", "jsonl"]);
        for [a, b, c] in [[0, 1, 2], [2, 0, 1]] {
            let files = [a, b, c].map(|index| files[index].path());
            let parts = run(&[&[command, "--format", "jsonl"], &files[..]].concat());
            assert_eq!(text(&parts.stderr), "", "they are one capture");
            same(command, &original, &parts);
        }
    }
}

/// A ring may have more files than the soft limit of open files, which is 1,024 on most systems.
#[cfg(unix)]
#[test]
fn more_files_than_the_soft_limit_are_read() {
    let name = "nfs3-basic.pcap";
    let pcap = Pcap::read(name);
    let files: Vec<Temporary> = pcap
        .records
        .chunks(pcap.records.len().div_ceil(100))
        .enumerate()
        .map(|(index, records)| Temporary::new(&format!("ring-{index:03}.pcap"), &pcap.with(records)))
        .collect();
    let limited = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -Sn 64; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_rdmascope"),
            "transactions",
            "--format",
            "jsonl",
        ])
        .args(files.iter().map(Temporary::path))
        .output()
        .expect("sh is there");
    same("transactions", &run(&["transactions", &sample(name), "--format", "jsonl"]), &limited);
    // The report names the truncated files.
    let mut cut = std::fs::read(files[50].path()).expect("it is there");
    cut.pop();
    std::fs::write(files[50].path(), cut).expect("it can be written");
    let paths: Vec<&str> = files.iter().map(Temporary::path).collect();
    let report = run(&[&["analyze"], &paths[..]].concat());
    let ends: Vec<&str> = text(&report.stdout)
        .lines()
        .filter(|line| line.contains(" others: ") || line.contains(".pcap: "))
        .collect();
    let others = format!("{} others: complete", files.len() - 1);
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(
        ends[0].contains(&format!("{}: cut short at byte ", files[50].path())) && ends[1].ends_with(&others),
        "{ends:?}"
    );
}

#[test]
fn files_of_different_formats_are_interleaved() {
    let name = "nfs4.1-backchannel-recall.pcap";
    let pcap = Pcap::read(name);
    let mut parts = [Vec::new(), Vec::new()];
    let (mut at, mut latest) = (0, (0, 0));
    for record in &pcap.records {
        // A record with the same time as the previous one stays in the same file.
        if time(record) > latest {
            latest = time(record);
            at = 1 - at;
        }
        parts[at].push(record);
    }
    assert!(parts.iter().all(|part| part.len() > pcap.records.len() / 4));
    let plain = Temporary::new("interleaved.pcap", &pcap.with(parts[0].iter().copied()));
    // The other one is big-endian and has nanoseconds.
    let mut other = Vec::new();
    let word = |bytes: &[u8], factor: u32| {
        let word = u32::from_le_bytes(bytes.try_into().unwrap());
        (word * factor).to_be_bytes()
    };
    other.extend_from_slice(&[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4]);
    pcap.header[8..].chunks(4).for_each(|bytes| other.extend_from_slice(&word(bytes, 1)));
    for record in &parts[1] {
        for (index, bytes) in record[..16].chunks(4).enumerate() {
            other.extend_from_slice(&word(bytes, if index == 1 { 1000 } else { 1 }));
        }
        other.extend_from_slice(&record[16..]);
    }
    for command in COMMANDS {
        let original = run(&[command, &sample(name), "--format", "jsonl"]);
        let parts = with_input(&[command, plain.path(), "-", "--format", "jsonl"], &other);
        same(command, &original, &parts);
    }
}

/// A capture of packets at these seconds, distinguished by these lengths; all are the same RoCE
/// packet, truncated to [`KEPT`] bytes by a snap length.
fn capture(packets: &[(u32, u32)]) -> Vec<u8> {
    let mut pcap = Pcap::read("nfs3-basic.pcap");
    let roce = pcap
        .records
        .iter()
        .find(|record| record.len() >= 16 + KEPT && record[16 + 36..][..2] == [0x12, 0xb7]);
    let bytes = &roce.expect("UDP port 4791")[16..][..KEPT];
    let mut records = Vec::new();
    for (seconds, length) in packets {
        let header = [*seconds, 0, KEPT as u32, *length].map(u32::to_le_bytes).concat();
        records.push([&header[..], bytes].concat());
    }
    pcap.records = records;
    pcap.with(&pcap.records)
}

const KEPT: usize = 60;

/// The lengths of the packets in output order.
fn order(files: &[&str]) -> Vec<u64> {
    let listed = lines(&run(&[&["packets", "--format", "jsonl"], files].concat()));
    let frames: Vec<u64> = listed.iter().map(|line| line["frame"].as_u64().unwrap()).collect();
    assert_eq!(frames, (1..=listed.len() as u64).collect::<Vec<_>>());
    listed.iter().map(|line| line["length"].as_u64().unwrap()).collect()
}

#[test]
fn equal_times_keep_argument_and_file_order() {
    let one = Temporary::new("order-1.pcap", &capture(&[(10, 160), (20, 161), (15, 162), (30, 163)]));
    let two =
        Temporary::new("order-2.pcap", &capture(&[(10, 170), (12, 171), (20, 172), (20, 173), (40, 174)]));
    let none = Temporary::new("order-3.pcap", &capture(&[]));
    let (one, two, none) = (one.path(), two.path(), none.path());
    assert_eq!(order(&[one, two]), [160, 170, 171, 161, 162, 172, 173, 163, 174]);
    assert_eq!(order(&[two, none, one]), [170, 160, 171, 172, 173, 161, 162, 163, 174]);
}

#[test]
fn invalid_file_is_refused_before_analysis() {
    let good = sample("nfs3-basic.pcap");
    let damaged = Temporary::new("damaged-at-once.pcap", &[&capture(&[])[..], &[0xff; 64]].concat());
    for command in COMMANDS {
        refused(&run(&[command, &good, "README.md"]), &["README.md", "byte 0"]);
        refused(&run(&[command, "no-such-file.pcap", &good]), &["no-such-file.pcap", "No such file"]);
        refused(&run(&[command, &good, damaged.path()]), &["damaged-at-once.pcap", "byte 32"]);
        refused(&with_input(&[command, &good, "-"], b""), &["standard input"]);
    }
}

#[test]
fn file_given_twice_is_refused() {
    let file = sample("nfs3-basic.pcap");
    let other = sample("nfs3-lossy.pcap");
    refused(&run(&["analyze", &file, &other, &file]), &["nfs3-basic.pcap", "twice"]);
    refused(&run(&["packets", "samples/nfs3-basic.pcap", "samples/../samples/nfs3-basic.pcap"]), &["twice"]);
    refused(&with_input(&["analyze", "-", "-"], b""), &["standard input", "twice"]);
}

#[test]
fn files_continue_after_one_ends_early() {
    let records = |length: u32| (1..=5).map(|second| (second * 10, length)).collect::<Vec<_>>();
    let complete = Temporary::new("early-complete.pcap", &capture(&records(160)));
    let bytes = capture(&records(170));
    let cut = Temporary::new("early-cut.pcap", &bytes[..24 + 2 * (16 + KEPT) + 30]);
    let bytes = [&capture(&records(180)[..3])[..], &[0xff; 64]].concat();
    let damaged = Temporary::new("early-damaged.pcap", &bytes);
    let files = [cut.path(), complete.path(), damaged.path()];

    let report = run(&[&["analyze", "--format", "jsonl"], &files[..]].concat());
    assert_eq!(report.status.code(), Some(2));
    let first = text(&report.stdout).lines().next().expect("there is a report");
    let capture: Value = serde_json::from_str(first).expect("it is JSON");
    assert_eq!(capture["records"], 2 + 5 + 3);
    let reported = capture["files"].as_array().expect("an array");
    let cut_short = json!({"offset": 24 + 2 * (16 + KEPT), "needed": 16 + KEPT, "available": 30});
    assert_eq!(reported[0], json!({"name": files[0], "cut_short": cut_short, "trouble": null}));
    assert_eq!(reported[1], json!({"name": files[1], "cut_short": null, "trouble": null}));
    assert_eq!((&reported[2]["name"], &reported[2]["cut_short"]), (&json!(files[2]), &Value::Null));
    assert!(reported[2]["trouble"].as_str().expect("a string").contains("byte 260"), "{}", reported[2]);
    let warnings: Vec<&str> = text(&report.stderr).lines().collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("early-cut.pcap is cut short"), "{warnings:?}");
    assert!(warnings[1].contains("early-damaged.pcap") && warnings[1].contains("byte 260"), "{warnings:?}");

    let report = run(&[&["analyze"], &files[..]].concat());
    for part in
        ["Capture of 3 files", "early-cut.pcap: cut short at byte 176", "early-complete.pcap: complete"]
    {
        assert!(text(&report.stdout).contains(part), "{part}: {}", text(&report.stdout));
    }
    let listed = run(&[&["packets", "--format", "jsonl"], &files[..]].concat());
    assert_eq!(text(&listed.stdout).lines().count(), 10);
    assert_eq!(listed.status.code(), Some(2));
}

/// A folder with these samples, named in this order, and files that are not captures.
fn folder_of(samples: &[&str]) -> tempfile::TempDir {
    let folder = folder();
    for (index, name) in samples.iter().enumerate() {
        // Files of a ring have no capture extension.
        std::fs::copy(sample(name), folder.path().join(format!("ring.pcap{index}"))).expect("a copy");
    }
    std::fs::write(folder.path().join("README"), "no capture").expect("it can be written");
    std::fs::write(folder.path().join(".hidden.pcap"), "no capture").expect("it can be written");
    std::fs::create_dir(folder.path().join("folder.pcap")).expect("it can be made");
    folder
}

#[test]
fn unrelated_files_cause_a_warning() {
    let files = ["nfs3-basic.pcap", "nfs4.1-basic.pcap"].map(sample);
    let [one, other] = [&*files[0], &*files[1]];
    for command in COMMANDS {
        let output = run(&[command, one, other]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        let warnings: Vec<&str> = text(&output.stderr).lines().collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in [one, other, "share no connection", "--each"] {
            assert!(warnings[0].contains(part), "{part}: {warnings:?}");
        }
    }
    let report = run(&["analyze", one, other]);
    assert!(text(&report.stdout).contains("share no connection: --each"), "{}", text(&report.stdout));
    let capture = &lines(&run(&["analyze", one, other, "--format", "jsonl"]))[0];
    assert_eq!(capture["apart"], format!("{one} and {other} share no connection"));
    assert_eq!(text(&run(&["analyze", one]).stderr), "");
}

#[test]
fn each_option_reports_files_separately() {
    let files = ["nfs3-basic.pcap", "nfs4.1-basic.pcap"].map(sample);
    let [one, other] = [&*files[0], &*files[1]];
    for command in ["analyze", "check"] {
        let [first, second] =
            [one, other].map(|file| text(&run(&[command, file]).stdout).replace("\nCapture ", "Capture "));
        let both = run(&[command, one, other, "--each"]);
        assert_eq!(text(&both.stderr), "");
        let title = |file: &str| if command == "check" { format!("Capture {file}\n") } else { String::new() };
        let expected = format!("{}{first}\n{}{second}", title(one), title(other));
        assert_eq!(text(&both.stdout), expected, "{command}");
        // Their JSON Lines are concatenated.
        let [first, second] = [one, other].map(|file| run(&[command, file, "--format", "jsonl"]).stdout);
        let both = run(&[command, "--each", one, other, "--format", "jsonl"]);
        assert_eq!(both.stdout, [first, second].concat(), "{command}");
    }
    let log = run(&["check", "--each", one, other, "--format", "sarif"]).stdout;
    let log: Value = serde_json::from_slice(&log).expect("it is JSON");
    let alone = run(&["check", other, "--format", "sarif"]).stdout;
    let alone: Value = serde_json::from_slice(&alone).expect("it is JSON");
    assert_eq!(log["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(log["runs"][1]["results"], alone["runs"][0]["results"]);
    for (run, file) in log["runs"].as_array().expect("an array").iter().zip([one, other]) {
        assert!(run["automationDetails"]["id"].as_str().is_some_and(|id| id.contains(file)), "{run}");
    }
}

/// The exit status is the highest of all files, and an error in one does not affect the others.
#[test]
fn exit_status_covers_each_file() {
    let (clean, broken) = (sample("connect-rejected.pcap"), sample("nfs3-basic.pcap"));
    let status =
        |files: &[&str]| run(&[&["check", "--each", "--level", "violation"], files].concat()).status.code();
    assert_eq!(status(&[&clean]), Some(0));
    assert_eq!(status(&[&broken, &clean]), Some(1));
    assert_eq!(status(&[&clean, "README.md", &broken]), Some(2));
    let report = run(&["analyze", "--each", "README.md", &broken]);
    assert_eq!(report.status.code(), Some(2));
    assert!(text(&report.stderr).contains("README.md"));
    assert!(text(&report.stdout).contains("nfs3-basic.pcap"));
    for format in ["text", "jsonl"] {
        refused(&run(&["check", "--each", "README.md", "--format", format]), &["README.md"]);
    }
}

#[test]
fn folder_is_replaced_by_its_captures() {
    let folder = folder_of(&["nfs4.1-basic.pcap", "nfs3-basic.pcap"]);
    let path = folder.path().to_str().expect("the path is UTF-8");
    let files = [0, 1].map(|index| format!("{path}/ring.pcap{index}"));
    for command in COMMANDS {
        let [of_folder, of_files] =
            [run(&[command, path]), run(&[command, &files[0], &files[1]])].map(|output| output.stdout);
        assert_eq!(text(&of_folder), text(&of_files), "{command}");
    }
    let report = run(&["analyze", "--each", path]);
    let titles: Vec<&str> =
        text(&report.stdout).lines().filter_map(|line| line.strip_prefix("Capture ")).collect();
    assert_eq!(titles, files);
    // The two captures of a comparison may be folders.
    let same = run(&["diff", path, path]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(text(&same.stdout).contains("ring.pcap0 and 1 other file"), "{}", text(&same.stdout));
    let nothing = binary::folder();
    let nothing = nothing.path().to_str().expect("the path is UTF-8");
    for command in COMMANDS.into_iter().chain(["check"]) {
        refused(&run(&[command, nothing]), &[nothing, "contains no captures"]);
        refused(&run(&[command, &files[0], nothing]), &[nothing, "contains no captures"]);
    }
    refused(&run(&["diff", path, nothing]), &[nothing, "contains no captures"]);
}
