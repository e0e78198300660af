//! Folders of captures as regression tests, run as by a user.

mod binary;
mod planted;

use binary::{folder, json_lines, lines, refused, root, run, text};
use rdmascope_tests::{pcap, samples};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;

/// A small session with calls in both directions, and the number of lines of its expectation: the
/// capture, its connection, the 36 calls in the client's tracepoints, the 2 calls of the server,
/// and the known violation of the server: it invalidates remotely without having announced it
/// (tests/conformance/samples.rs).
const SMALL: &str = "nfs4.1-backchannel-recall";
const SMALL_LINES: usize = 2 + 36 + 2 + 1;

/// A temporary folder, removed after the test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(folder())
    }

    /// Contains the small capture and its expectation.
    fn of_small() -> Folder {
        let folder = Folder::new();
        for extension in ["pcap", "expected.jsonl"] {
            let name = format!("{SMALL}.{extension}");
            folder.write(&name, &std::fs::read(samples::folder().join(&name)).expect("the sample is there"));
        }
        folder
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("the path is UTF-8")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .expect("the folder can be made");
        std::fs::write(path, bytes).expect("the file can be written");
    }

    fn expectation(&self) -> Vec<String> {
        let path = self.file(&format!("{SMALL}.expected.jsonl"));
        let text = std::fs::read_to_string(path).expect("the expectation is there");
        text.lines().map(str::to_owned).collect()
    }

    fn expect(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.write(&format!("{SMALL}.expected.jsonl"), text.as_bytes());
    }

    fn regress(&self, arguments: &[&str]) -> Output {
        run(&[&["regress", self.path()], arguments].concat())
    }

    /// The differences printed between the line of the capture and the summary.
    fn differences(&self) -> Vec<String> {
        let output = self.regress(&[]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""), "{}", text(&output.stdout));
        let printed: Vec<&str> = text(&output.stdout).lines().collect();
        assert!(printed[0].starts_with(&format!("{}/{SMALL}.pcap: ", self.path())), "{printed:?}");
        assert_eq!(
            printed.last(),
            Some(&"1 capture: 0 same, 1 different, 0 without expectation, 0 unreadable")
        );
        printed[1..printed.len() - 1].iter().map(|line| line.trim_start().to_owned()).collect()
    }
}

fn summary(output: &Output) -> &str {
    text(&output.stdout).lines().last().unwrap_or_default()
}

/// The line of an expectation with this XID: its index and its fields.
fn with_xid(lines: &[String], xid: &str) -> (usize, Value) {
    let index =
        lines.iter().position(|line| line.contains(&format!("\"xid\":\"{xid}\""))).expect("it is there");
    (index, serde_json::from_str(&lines[index]).expect("it is JSON"))
}

#[test]
fn samples_match_their_expectations() {
    let output = run(&["regress", "samples"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{}", text(&output.stdout));
    assert_eq!(
        text(&output.stdout),
        "18 captures: 18 same, 0 different, 0 without expectation, 0 unreadable\n"
    );
}

#[test]
fn expectations_match_other_commands() {
    for sample in samples::ALL {
        let file = format!("samples/{sample}.pcap");
        let printed = ["connections", "transactions"]
            .map(|command| text(&run(&[command, &file, "--format", "jsonl"]).stdout).to_owned());
        let expected = samples::text(sample, "expected.jsonl");
        let (capture, rest) = expected.split_once('\n').expect("it has lines");
        let checked = run(&["check", &file, "--format", "jsonl"]);
        let is_finding = |line: &&str| line.starts_with("{\"type\":\"finding\"");
        let findings = text(&checked.stdout).split_inclusive('\n').filter(is_finding);
        assert!(
            rest == printed.into_iter().chain(findings.map(str::to_owned)).collect::<String>(),
            "{sample}"
        );
        let report = run(&["analyze", &file, "--format", "jsonl"]);
        let first = text(&report.stdout).lines().next().expect("there is a report");
        assert_eq!(capture, first.replace(&file, sample));
    }
}

#[test]
fn blessed_capture_matches_afterwards() {
    let folder = Folder::of_small();
    let expected = folder.expectation();
    assert_eq!(expected.len(), SMALL_LINES);
    let name = format!("{SMALL}.expected.jsonl");
    std::fs::remove_file(folder.file(&name)).expect("it is there");

    let output = folder.regress(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(summary(&output), "1 capture: 0 same, 0 different, 1 without expectation, 0 unreadable");
    let output = folder.regress(&["--bless"]);
    assert_eq!(output.status.code(), Some(0));
    let written = format!(": expectation written: {SMALL_LINES} lines added, 0 removed\n");
    assert!(text(&output.stdout).contains(&written));
    assert_eq!(folder.expectation(), expected);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |name: &str| folder.file(name).metadata().expect("it is there").permissions().mode();
        assert_eq!(
            mode(&name),
            mode(&format!("{SMALL}.pcap")),
            "the expectation has the permissions of the capture"
        );
    }
    // Blessing again writes nothing.
    let written =
        folder.file(&name).metadata().and_then(|metadata| metadata.modified()).expect("it has a time");
    let output = folder.regress(&["--bless"]);
    assert_eq!(summary(&output), "1 capture: 1 same, 0 blessed, 0 unreadable");
    assert_eq!(folder.file(&name).metadata().and_then(|metadata| metadata.modified()).ok(), Some(written));
    // In another folder, with a name without a format extension.
    let elsewhere = Folder::new();
    for (from, to) in
        [(format!("{SMALL}.pcap"), format!("deep/er/{SMALL}")), (name.clone(), format!("deep/er/{name}"))]
    {
        elsewhere.write(&to, &std::fs::read(folder.file(&from)).expect("it is there"));
    }
    assert_eq!(elsewhere.regress(&[]).status.code(), Some(0));
}

#[test]
fn changed_field_is_the_only_difference() {
    let folder = Folder::of_small();
    let (_, call) = with_xid(&folder.expectation(), "0x1d4d5b14");
    let frame = call["call"]["frame"].as_u64().expect("a number");
    let mut capture = samples::capture(SMALL);
    let packet = &mut capture.packets[frame as usize - 1];
    // rdma_credit is the third word of the header (RFC 8166, section 4.1); the client requests 128
    // credits (server.trace).
    let credits = packet.payload().start + 8;
    assert_eq!(packet.u32(credits), 128);
    packet.set_u32(credits, 127);
    packet.seal();
    folder.write(&format!("{SMALL}.pcap"), &pcap::write(&capture));
    assert_eq!(
        folder.differences(),
        [
            format!("transaction 0x1d4d5b14 {}, connection 1 forward, frame {frame}", operations(&call)),
            "call.credits: expected 128, found 127".to_owned(),
        ]
    );
    // The same as JSON Lines.
    let output = folder.regress(&["--format", "jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<Value> = json_lines(text(&output.stdout));
    let path = format!("{}/{SMALL}.pcap", folder.path());
    assert_eq!(
        lines[0],
        json!({"type": "deviation", "capture": path, "change": "changed", "of": "transaction",
        "connection": 1, "direction": "forward", "xid": "0x1d4d5b14", "operations": call["operations"], "rule": null, "frame": frame,
        "field": "call.credits", "expected": 128, "found": 127, "lines": 1})
    );
    assert_eq!(
        lines[1],
        json!({"type": "verdict", "capture": path, "verdict": "different", "listed": null,
        "differences": 1, "added": null, "removed": null, "trouble": null})
    );
    assert_eq!(lines.len(), 2);
}

fn operations(transaction: &Value) -> String {
    let names = transaction["operations"].as_array().expect("an array").iter();
    names.map(|name| name.as_str().expect("a string")).collect::<Vec<_>>().join(" ")
}

#[test]
fn new_or_missing_transaction_is_one_difference() {
    let folder = Folder::of_small();
    let mut lines = folder.expectation();
    let (index, gone) = with_xid(&lines, "0x1d4d5b14");
    lines.remove(index);
    folder.expect(&lines);
    let described = |transaction: &Value| {
        format!(
            "transaction {} {}, connection 1 forward, frame {}",
            transaction["xid"].as_str().expect("a string"),
            operations(transaction),
            transaction["call"]["frame"]
        )
    };
    assert_eq!(folder.differences(), [format!("new: {}", described(&gone))]);
    let mut another = gone.clone();
    another["xid"] = json!("0xdeadbeef");
    lines.insert(index, gone.to_string());
    lines.insert(2, another.to_string());
    folder.expect(&lines);
    assert_eq!(folder.differences(), [format!("missing: {}", described(&another))]);
}

/// The WRITE over the backchannel's connection, answered without credits.
#[test]
fn new_and_missing_findings_are_reported() {
    let folder = Folder::of_small();
    let clean = folder.expectation();
    let planted = planted::no_credits(SMALL, 0x1d4d_5b14);
    let original = std::fs::read(folder.file(&format!("{SMALL}.pcap"))).expect("it is there");
    folder.write(&format!("{SMALL}.pcap"), &planted.bytes);
    let finding = format!(
        "finding {} (violation, stands), XID 0x1d4d5b14, connection 1 forward, frame {}: a reply that grants no credits",
        planted::RULE,
        planted.frame
    );
    let differences = folder.differences();
    assert!(differences.contains(&"reply.credits: expected 64, found 0".to_owned()), "{differences:?}");
    assert!(differences.contains(&format!("new: {finding}")), "{differences:?}");
    let judged_before = clean.iter().any(|line| line.contains("\"type\":\"finding\""));
    let remedy = differences.iter().any(|line| line.starts_with("the expectation has no findings: "));
    assert_ne!(remedy, judged_before, "{differences:?}");
    let deviations = text(&folder.regress(&["--format", "jsonl"]).stdout).to_owned();
    let deviation = deviations
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"))
        .find(|line| line["rule"] == planted::RULE)
        .expect("JSON Lines have it too");
    assert_eq!((&deviation["change"], &deviation["of"]), (&json!("new"), &json!("finding")));
    assert_eq!((&deviation["frame"], &deviation["xid"]), (&json!(planted.frame), &json!("0x1d4d5b14")));

    // After blessing, the finding is expected, in the form of other commands.
    assert_eq!(folder.regress(&["--bless"]).status.code(), Some(0));
    assert_eq!(folder.regress(&[]).status.code(), Some(0));
    let blessed = folder.expectation();
    let path = folder.file(&format!("{SMALL}.pcap"));
    let shown = run(&[
        "show",
        path.to_str().expect("UTF-8"),
        "--frame",
        &planted.frame.to_string(),
        "--format",
        "jsonl",
    ]);
    let line = text(&shown.stdout).lines().find(|line| line.contains(planted::RULE)).expect("it is shown");
    assert_eq!(blessed.iter().filter(|expected| *expected == line).count(), 1, "{line}");
    let checked = run(&["check", path.to_str().expect("UTF-8"), "--format", "jsonl"]);
    let is_finding = |line: &&str| line.starts_with("{\"type\":\"finding\"");
    let checked: Vec<&str> = text(&checked.stdout).lines().filter(is_finding).collect();
    let expected: Vec<&str> = blessed.iter().map(String::as_str).filter(is_finding).collect();
    assert!(!checked.is_empty());
    assert_eq!(expected, checked);

    // The session without the fault.
    folder.write(&format!("{SMALL}.pcap"), &original);
    let differences = folder.differences();
    assert!(differences.contains(&format!("missing: {finding}")), "{differences:?}");
    assert!(!differences.iter().any(|line| line.starts_with("no findings")), "{differences:?}");
    assert_eq!(folder.regress(&["--bless"]).status.code(), Some(0));
    assert_eq!(folder.expectation(), clean);
}

#[test]
fn missing_packets_change_the_capture_summary() {
    // Remove the last packets: the disconnect, and DESTROY_CLIENTID before it.
    let folder = Folder::of_small();
    let mut capture = samples::capture(SMALL);
    let last = capture.packets.len() - 6;
    capture.packets.truncate(last);
    folder.write(&format!("{SMALL}.pcap"), &pcap::write(&capture));
    let differences = folder.differences();
    assert_eq!(differences[0], "the capture");
    let total = samples::capture(SMALL).packets.len();
    assert!(differences.contains(&format!("records: expected {total}, found {last}")), "{differences:?}");
    assert!(
        differences.contains(&"state: expected \"closed\", found \"open\"".to_owned()),
        "{differences:?}"
    );
}

#[test]
fn differences_are_limited_and_counted() {
    let folder = Folder::of_small();
    let edited = |line: &String| match line.contains("\"direction\":\"forward\"") {
        true => line.replacen("\"credits\":128", "\"credits\":127", 1),
        false => line.clone(),
    };
    folder.expect(&folder.expectation().iter().map(edited).collect::<Vec<_>>());
    let calls = 36; // client.trace
    for (limit, shown) in [(None, 20), (Some("3"), 3), (Some("0"), 0), (Some("100"), calls)] {
        let arguments = limit.map_or(vec![], |limit| vec!["--limit", limit]);
        let output = folder.regress(&arguments);
        let printed = text(&output.stdout);
        assert!(printed.contains(&format!(": {calls} differences\n")), "{printed}");
        let listed =
            printed.lines().filter(|line| line.contains("call.credits: expected 127, found 128")).count();
        assert_eq!(listed, shown, "{printed}");
        assert_eq!(printed.contains("not shown: --limit"), shown < calls);
    }
    let output = folder.regress(&["--format", "jsonl"]);
    assert_eq!(text(&output.stdout).lines().count(), calls + 1);
}

#[test]
fn broken_expectation_is_reported_with_its_line() {
    let folder = Folder::of_small();
    let mut lines = folder.expectation();
    lines[3].truncate(40);
    folder.expect(&lines);
    let output = folder.regress(&[]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = text(&output.stderr);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains(&format!("{SMALL}.expected.jsonl: line 4: not a JSON object")), "{complaint}");
    assert!(summary(&output).ends_with("1 with a broken expectation"), "{}", summary(&output));
    // Blessing repairs it.
    assert_eq!(folder.regress(&["--bless"]).status.code(), Some(0));
    assert_eq!(folder.regress(&[]).status.code(), Some(0));
}

#[test]
fn unreadable_captures_are_not_blessed() {
    let folder = Folder::of_small();
    let expected = folder.expectation();
    let mut bytes = std::fs::read(folder.file(&format!("{SMALL}.pcap"))).expect("it is there");
    // A record that claims more bytes than a packet can have.
    bytes.extend_from_slice(&[0xff; 64]);
    folder.write(&format!("{SMALL}.pcap"), &bytes);
    folder.write("text.pcap", b"This is no capture.");
    folder.write("empty.pcapng", b"");
    let output = folder.regress(&["--bless"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(summary(&output), "3 captures: 0 same, 0 blessed, 3 unreadable");
    assert_eq!(text(&output.stderr).lines().count(), 3, "{}", text(&output.stderr));
    assert_eq!(folder.expectation(), expected);
    assert!(!folder.file("text.expected.jsonl").exists());
    assert!(!folder.file("empty.expected.jsonl").exists());
}

#[test]
fn bless_without_write_access_changes_nothing() {
    // A folder has the name of the expectation. Users other than root cannot write into a read-only
    // folder.
    let folder = Folder::of_small();
    let expectation = folder.file(&format!("{SMALL}.expected.jsonl"));
    std::fs::remove_file(&expectation).expect("it is there");
    std::fs::create_dir(&expectation).expect("it can be made");
    let output = folder.regress(&["--bless"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&format!("{SMALL}.expected.jsonl: ")), "{}", text(&output.stderr));
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it can be read").collect();
    assert_eq!(left.len(), 2, "no temporary file is left: {left:?}");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::of_small();
        let stale = [folder.expectation(), vec!["{\"type\":\"finding\"}".to_owned()]].concat();
        folder.expect(&stale);
        let set = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode));
        set(0o555).expect("its owner may");
        let may_write = std::fs::File::create(folder.file("probe")).is_ok();
        let output = folder.regress(&["--bless"]);
        set(0o755).expect("its owner may");
        if !may_write {
            assert_eq!(output.status.code(), Some(2));
            assert!(text(&output.stderr).contains("cannot be written: Permission denied"));
            assert_eq!(folder.expectation(), stale);
        }
    }
}

#[test]
fn folder_without_captures_is_refused() {
    let folder = Folder::new();
    refused(&folder.regress(&[]), &["no captures there (pcap, pcapng or ERF, also compressed)"]);
    folder.write("notes.txt", b"There will be captures here.");
    refused(&folder.regress(&["--bless"]), &["no capture"]);
    refused(&run(&["regress", "samples", "--name", "nfs5"]), &["no capture", "\"nfs5\""]);
    refused(&run(&["regress", "no-such-folder"]), &["no-such-folder", "cannot be read"]);
    refused(&run(&["regress", "samples/nfs3-basic.pcap"]), &["not a folder", "--name"]);
    refused(&run(&["regress", "samples", "samples"]), &["two of the given folders"]);
}

#[test]
fn expectation_without_capture_is_a_difference() {
    let folder = Folder::of_small();
    folder.write("gone.expected.jsonl", b"{\"type\":\"capture\"}\n");
    let output = folder.regress(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("gone.expected.jsonl: expectation without a capture\n"));
    assert!(summary(&output).ends_with("; 1 expectation without a capture"), "{}", summary(&output));
    // A name filter that excludes it.
    assert_eq!(folder.regress(&["--name", SMALL]).status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn control_characters_in_names_are_escaped() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::of_small();
    let bytes = std::fs::read(folder.file(&format!("{SMALL}.pcap"))).expect("it is there");
    for name in [&b"\x1b[31m\nred\xc2\x9b.pcap"[..], b"not UTF-8 \xff.pcap"] {
        std::fs::write(folder.0.path().join(std::ffi::OsStr::from_bytes(name)), &bytes)
            .expect("any name will do");
    }
    std::fs::write(folder.file("\x1b[2Jbroken.pcap"), b"no capture").expect("any name will do");
    let output = folder.regress(&["-v"]);
    assert_eq!(output.status.code(), Some(2));
    for printed in [text(&output.stdout), text(&output.stderr)] {
        assert!(printed.chars().all(|character| character == '\n' || !character.is_control()), "{printed:?}");
    }
    assert!(text(&output.stdout).contains("\\u{1b}[31m\\u{a}red\\u{9b}.pcap: no expectation"));
    assert_eq!(folder.regress(&["--bless"]).status.code(), Some(2));
    assert_eq!(
        summary(&folder.regress(&[])),
        "4 captures: 3 same, 0 different, 0 without expectation, 1 unreadable"
    );
}

#[test]
fn control_characters_in_expectations_are_escaped() {
    let folder = Folder::of_small();
    let mut lines = folder.expectation();
    lines[4] = lines[4].replace("\"security\":\"sys\"", "\"security\":\"\u{9b}2J\",\"\u{9b}3J\":1");
    folder.expect(&lines);
    let differences = folder.differences();
    assert!(
        differences.contains(&"security: expected \"\\u{9b}2J\", found \"sys\"".to_owned()),
        "{differences:?}"
    );
    assert!(differences.contains(&"\\u{9b}3J: expected 1, found nothing".to_owned()), "{differences:?}");
}

/// A manifest of the small sample, with this digest of its capture.
fn manifest(digest: &str) -> String {
    format!(
        "[[sample]]\nname = \"{SMALL}\"\norigin = \"the lab\"\n[sample.sha256]\n\"pcap\" = \"{digest}\"\n"
    )
}

/// From samples/MANIFEST.
const DIGEST: &str = "0ca38fe2604105e052f034f39fc09f085effab2d993236941cdc382ee9d09d89";

#[test]
fn manifest_is_verified_first() {
    let folder = Folder::of_small();
    folder.write("MANIFEST", manifest(DIGEST).as_bytes());
    assert_eq!(folder.regress(&[]).status.code(), Some(0));
    let verdict = &lines(&folder.regress(&["--format", "jsonl"]))[0];
    assert_eq!((&verdict["verdict"], &verdict["listed"]), (&json!("same"), &json!(true)));

    // An unlisted file is reported and compared.
    let bytes = std::fs::read(folder.file(&format!("{SMALL}.pcap"))).expect("it is there");
    folder.write("6.12/another.pcap", &bytes);
    assert_eq!(folder.regress(&["--bless"]).status.code(), Some(0));
    let output = folder.regress(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("6.12/another.pcap: not listed in MANIFEST\n"));

    // A changed file is neither compared nor blessed.
    let before = folder.expectation();
    folder.write(&format!("{SMALL}.pcap"), &bytes[..bytes.len() / 2]);
    for arguments in [&[][..], &["--bless"]] {
        let output = folder.regress(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(&format!("{SMALL}.pcap: does not match MANIFEST")));
        assert!(text(&output.stderr).contains(DIGEST));
        assert_eq!(folder.expectation(), before);
    }
    // A missing file.
    std::fs::remove_file(folder.file(&format!("{SMALL}.pcap"))).expect("it is there");
    let output = folder.regress(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&format!("{SMALL}.pcap: listed in the MANIFEST, but absent")));
    assert!(summary(&output).contains("1 listed but absent"), "{}", summary(&output));
}

#[test]
fn broken_manifest_is_reported_with_its_line() {
    let folder = Folder::of_small();
    let absolute = manifest(DIGEST).replace(SMALL, "/etc/passwd");
    let outside = manifest(DIGEST).replace(SMALL, "../outside");
    for (manifest, parts) in [
        (manifest(&DIGEST[1..]), &["line 5", "64 hexadecimal"][..]),
        (manifest(&DIGEST.replace('0', "g")), &["line 5", "64 hexadecimal"]),
        ("[[sample]]\nname = \"x\"\n".into(), &["line 1", "sha256"]),
        ("[[sample]\n".into(), &["line 1"]),
        ("[origin]\nlab = \"none\"\n".into(), &["no [[sample]]"]),
        (absolute, &["line 2", "leave the folder"]),
        (outside, &["line 2", "leave the folder"]),
    ] {
        folder.write("MANIFEST", manifest.as_bytes());
        refused(&folder.regress(&[]), &[&["MANIFEST"], parts].concat());
    }
}

#[test]
fn json_lines_and_guide_example_match_the_output() {
    let folder = Folder::of_small();
    let mut lines = folder.expectation();
    lines.remove(7);
    folder.expect(&lines);
    folder.write("broken.pcap", b"");
    let output = folder.regress(&["--format", "jsonl"]);
    let types: BTreeSet<_> = json_lines(text(&output.stdout))
        .iter()
        .map(|line| line["type"].as_str().expect("a line has a type").to_owned())
        .collect();
    assert_eq!(types.into_iter().collect::<Vec<_>>(), ["deviation", "verdict"]);

    // The example of docs/regress.md, with its edit made by hand.
    let guide = std::fs::read_to_string(root().join("docs/regress.md")).expect("it is there");
    let (_, example) = guide.split_once("$ rdmascope regress /tmp/samples\n").expect("the example is there");
    let shown: Vec<&str> = example.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let folder = Folder::new();
    for entry in std::fs::read_dir(samples::folder()).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("samples have plain names");
        let mut bytes = std::fs::read(&path).expect("it can be read");
        if name == "nfs3-basic.expected.jsonl" {
            let text = String::from_utf8(bytes).expect("it is UTF-8");
            let edited = text.lines().map(|line| match line.contains("\"xid\":\"0x1b396a62\"") {
                true => format!("{}\n", line.replacen("\"credits\":128", "\"credits\":127", 1)),
                false => format!("{line}\n"),
            });
            bytes = edited.collect::<String>().into_bytes();
        }
        folder.write(name, &bytes);
    }
    let output = folder.regress(&[]);
    let printed = text(&output.stdout).replace(folder.path(), "/tmp/samples");
    assert_eq!(printed.lines().collect::<Vec<_>>(), shown);
}
