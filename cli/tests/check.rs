//! `rdmascope check`: clean sessions, and sessions that violate one rule.
//!
//! The expected exit status must not change when rules are added, so all rules are allowed except
//! the one under test.

mod binary;

use binary::{Temporary, command, json_lines, lines, refused, run, sample, text, with_input};
use rdmascope_tests::mutate::{self, SERVER};
use rdmascope_tests::pcap::{self, Capture};
use rdmascope_tests::samples;
use serde_json::{Value, json};
use std::process::Output;

const ZERO: &str = "credit-grant-zero";

/// All rules except this one.
fn allow_all_but(wanted: &str) -> String {
    let rules = lines(&run(&["check", "--rules", "--format", "jsonl"]));
    let ids = rules.iter().map(|rule| rule["rule"].as_str().expect("a rule has an id"));
    let (this, others): (Vec<&str>, Vec<&str>) = ids.partition(|id| *id == wanted);
    assert_eq!(this, [wanted]);
    others.join(",")
}

/// The JSON lines, for any exit status.
fn found(output: &Output) -> Vec<Value> {
    assert_eq!(text(&output.stderr), "");
    json_lines(text(&output.stdout))
}

/// NFSv3 where these Sends of the server grant no credits.
fn zero_credits(wanted: impl Fn(usize) -> bool) -> Capture {
    let mut capture = samples::capture("nfs3-basic");
    let mut count = 0;
    mutate::each(&mut capture, |packet| {
        if packet.source() == SERVER && packet.starts_message() {
            if wanted(count) {
                let start = packet.payload().start;
                packet.set_u32(start + 8, 0);
                packet.seal();
            }
            count += 1;
        }
    });
    capture
}

fn file(name: &str, capture: &Capture) -> Temporary {
    Temporary::new(name, &pcap::write(capture))
}

/// The capture without packets.
fn none_of(mut capture: Capture) -> Capture {
    capture.packets.clear();
    capture
}

#[test]
fn one_violation_is_reported() {
    let third = file("third.pcap", &zero_credits(|count| count == 2));
    let allowed = allow_all_but(ZERO);
    let output = run(&["check", third.path(), "--allow", &allowed]);
    let page = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""), "{page}");
    // The third reply: frame 14 in tshark, of XID 0x0e396a62.
    let row = "    #1 -> 0x0e396a62  frame 14  server 10.77.0.1: a reply that grants no credits (seen: 0, allowed: 1 or more)\n";
    for part in
        ["violation  credit-grant-zero  1 time\n", row, "  rdmascope check --explain credit-grant-zero\n"]
    {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    assert!(!page.contains('\u{1b}'));
    let coloured = command(&["check", third.path()]).env("CLICOLOR_FORCE", "1").output().expect("it runs");
    assert!(text(&coloured.stdout).contains("\u{1b}[31mviolation\u{1b}[0m"));

    // The suggested next command works.
    let next = page.lines().find_map(|line| line.strip_prefix("Next: rdmascope ")).expect("there is one");
    let shown = run(&next.split(' ').collect::<Vec<_>>());
    assert_eq!(shown.status.code(), Some(0), "{next}: {}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("0x0e396a62"));

    // The same from standard input, and with every rule allowed.
    let piped =
        with_input(&["check", "-", "--allow", &allowed], &pcap::write(&zero_credits(|count| count == 2)));
    assert_eq!(piped.status.code(), Some(1));
    assert!(
        text(&piped.stdout).contains(row) && text(&piped.stdout).contains("Next: rdmascope show FILE --")
    );
    let output = run(&["check", third.path(), "--allow", &allowed, "--allow", ZERO]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(text(&output.stdout).contains("violation  credit-grant-zero  1 time, allowed\n"));
    // All rules of a subject.
    let output = run(&["check", third.path(), "--allow", &allowed, "--allow", "credits"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn clean_session_is_status_0() {
    for name in ["nfs3-basic.pcap", "nfs4.1-backchannel-recall.pcap"] {
        let allowed = allow_all_but(ZERO);
        let output = run(&["check", &sample(name), "--allow", &allowed]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        assert!(!text(&output.stdout).contains(ZERO), "{}", text(&output.stdout));
    }
    let rejected = run(&["check", &sample("connect-rejected.pcap")]);
    assert_eq!(rejected.status.code(), Some(0), "{}", text(&rejected.stdout));
}

#[test]
fn findings_as_json_lines() {
    let third = file("third-lines.pcap", &zero_credits(|count| count == 2));
    let output = run(&["check", third.path(), "--format", "jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    let all = found(&output);
    let (check, findings) = all.split_last().expect("there are lines");
    let finding = findings.iter().find(|line| line["rule"] == ZERO).expect("it is found");
    for (pointer, expected) in [
        ("/type", json!("finding")),
        ("/level", json!("violation")),
        ("/verdict", json!("stands")),
        ("/allowed_rule", json!(false)),
        ("/connection", json!(1)),
        ("/by", json!("responder")),
        ("/direction", json!("forward")),
        ("/xid", json!("0x0e396a62")),
        ("/frames", json!([14])),
        ("/sources/0", json!({"document": "RFC 8166", "section": "3.3.1"})),
        ("/observed", json!({"value": 0, "unit": "count"})),
        ("/allowed", json!({"value": "1 or more", "unit": "text"})),
    ] {
        assert_eq!(finding.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert_eq!((&check["type"], &check["broken"]), (&json!("check"), &json!(true)));
    // mountstats and the client's tracepoints: one connection, 265 calls.
    assert_eq!((&check["connections"], &check["transactions"]), (&json!(1), &json!(265)));
    let zero = check["rules"].as_array().expect("a list").iter().find(|rule| rule["rule"] == ZERO);
    let zero = zero.expect("it is counted");
    assert_eq!((&zero["stands"], &zero["inconclusive"]), (&json!(1), &json!(0)));
    // Every finding is counted once.
    for (level, word) in [("violations", "violation"), ("warnings", "warning"), ("advice", "advice")] {
        for verdict in ["stands", "inconclusive"] {
            let listed = findings.iter().filter(|line| line["level"] == word && line["verdict"] == verdict);
            assert_eq!(check[level][verdict], listed.count(), "{level} {verdict}");
        }
    }

    let allowed = [allow_all_but(ZERO), ZERO.to_owned()].join(",");
    let output = run(&["check", third.path(), "--format", "jsonl", "--allow", &allowed]);
    let all = lines(&output);
    let check = all.last().expect("there are lines");
    assert_eq!(check["broken"], false);
    assert_eq!(check["violations"]["stands"], check["violations"]["allowed"]);
    assert!(all.iter().filter(|line| line["type"] == "finding").all(|line| line["allowed_rule"] == true));
}

#[test]
fn connection_and_level_filters_select_findings() {
    let third = file("third-filters.pcap", &zero_credits(|count| count == 2));
    let of = |arguments: &[&str]| {
        let output = run(&[&["check", third.path(), "--format", "jsonl"], arguments].concat());
        (output.status.code(), found(&output))
    };
    let (status, here) = of(&["--connection", "1"]);
    assert_eq!(status, Some(1));
    assert!(here.iter().any(|line| line["rule"] == ZERO));
    // A filter with an unknown connection is an error.
    let elsewhere = run(&["check", third.path(), "--format", "jsonl", "--connection", "1,9"]);
    assert_eq!(elsewhere.status.code(), Some(2));
    assert!(text(&elsewhere.stderr).contains("no connection 9: the highest number is 1"));
    let (_, all) = of(&[]);
    assert!(all.iter().any(|line| line["rule"] == "credit-grant-lowered"));
    let (status, weighty) = of(&["--level", "violation"]);
    assert_eq!(status, Some(1));
    let findings = weighty.iter().filter(|line| line["type"] == "finding");
    assert!(findings.clone().count() > 0 && findings.clone().all(|line| line["level"] == "violation"));
    assert!(
        weighty.last().expect("lines")["rules_asked"].as_u64()
            < all.last().expect("lines")["rules_asked"].as_u64()
    );
}

#[test]
fn most_option_limits_the_listed_findings() {
    let all = file("all.pcap", &zero_credits(|_| true));
    // The client's tracepoints have 265 calls, each with its reply.
    let rows = |page: &str| {
        let group = page.lines().skip_while(|line| !line.contains("credit-grant-zero"));
        group.skip(1).take_while(|line| !line.is_empty()).filter(|line| line.starts_with("    #")).count()
    };
    let page = |arguments: &[&str]| {
        let output = run(&[&["check", all.path()], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
        text(&output.stdout).to_owned()
    };
    let short = page(&[]);
    // All findings of one end of one connection.
    assert_eq!(rows(&short), 1, "{short}");
    assert!(short.contains("violation  credit-grant-zero  265 times\n"), "{short}");
    assert!(short.contains("; 265 times, --most 0 shows each\n") && !short.contains(" more: "), "{short}");
    assert_eq!(rows(&page(&["--most", "3"])), 3);
    assert_eq!(rows(&page(&["--most", "0"])), 265);
    let counted = |arguments: &[&str]| {
        let lines = found(&run(&[&["check", all.path(), "--format", "jsonl"], arguments].concat()));
        lines.iter().filter(|line| line["type"] == "finding" && line["rule"] == ZERO).count()
    };
    assert_eq!([counted(&[]), counted(&["--most", "3"]), counted(&["--most", "0"])], [265, 3, 265]);
}

#[test]
fn finding_without_the_cm_exchange_is_inconclusive() {
    let capture = file("long-call.pcap", &mutate::long_call());
    let allowed = allow_all_but("inline-threshold");
    let page = |arguments: &[&str]| {
        let output = run(&[&["check", capture.path(), "--allow", &allowed], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        text(&output.stdout).to_owned()
    };
    let short = page(&[]).replace('\n', " ");
    assert!(short.contains("1 of inline-threshold"), "{short}");
    assert!(short.contains("1 connection was open before the capture began"), "{short}");
    assert!(!short.contains("violation  inline-threshold"), "{short}");
    let long = page(&["--inconclusive"]);
    assert!(long.contains("violation  inline-threshold  1 time, inconclusive\n"), "{long}");
    assert!(long.contains("a Send of 1028 bytes"), "{long}");
    // Output for programs always has it, output for CI systems on request.
    let lines = lines(&run(&["check", capture.path(), "--allow", &allowed, "--format", "jsonl"]));
    let finding = lines.iter().find(|line| line["rule"] == "inline-threshold").expect("it is there");
    assert_eq!(finding["verdict"], "inconclusive");
    let result = |arguments: &[&str]| {
        let log = sarif(&[&[capture.path(), "--allow", &allowed], arguments].concat(), Some(0));
        results(&log).iter().find(|result| result["ruleId"] == "inline-threshold").cloned()
    };
    assert_eq!(result(&[]), None);
    let review = result(&["--inconclusive"]).expect("it is there");
    assert_eq!((&review["kind"], &review["level"]), (&json!("review"), &json!("none")));
}

/// The log, after checking the exit status.
fn sarif(arguments: &[&str], status: Option<i32>) -> Value {
    let output = run(&[&["check", "--format", "sarif"], arguments].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (status, ""));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn results(log: &Value) -> &[Value] {
    log["runs"][0]["results"].as_array().expect("a list")
}

/// With `--each`, the reports for CI systems have the files that cannot be read.
#[test]
fn unreadable_files_have_a_place_in_reports() {
    let paths = [&sample("nfs3-lossy.pcap"), "README.md", "nothing.pcap"];
    let output = run(&[&["check", "--format", "junit", "--each"], &paths[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    let report = text(&output.stdout);
    assert_eq!(report.matches("<testsuite name=").count(), 3, "{report}");
    for name in &paths[1..] {
        let suite = format!("name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\"");
        assert!(report.contains(&suite), "{suite}: {report}");
    }
    let output = run(&[&["check", "--format", "sarif", "--each"], &paths[..]].concat());
    let log: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let runs = log["runs"].as_array().expect("there are runs");
    assert_eq!(runs.len(), 3);
    for (run, name) in runs[1..].iter().zip(&paths[1..]) {
        assert_eq!(run["automationDetails"]["id"], format!("{name}/"));
        let invocation = &run["invocations"][0];
        assert_eq!((&invocation["executionSuccessful"], &invocation["exitCode"]), (&false.into(), &2.into()));
        let notice = &invocation["toolExecutionNotifications"][0];
        assert_eq!(notice["level"], "error");
        assert!(notice["message"]["text"].as_str().is_some_and(|text| text.contains(name)), "{notice}");
    }
}

/// SARIF has the reason why a log without failing results has exit status 1.
#[test]
fn outages_are_notifications_of_a_run() {
    let log = sarif(&[&sample("iwarp-reconnect.pcap"), "--allow", "invalidation-sender-flag"], Some(1));
    let notices = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    let text = notices[0]["message"]["text"].as_str().unwrap_or_else(|| panic!("{notices}"));
    assert!(text.starts_with("3.3 s without service on 1 connection"), "{text}");
}

/// The requirements of SARIF 2.1.0 and of GitHub's code scanning.
#[cfg(unix)]
#[test]
fn sarif_encodes_names_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = binary::folder();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"not \xff.pcap"));
    std::fs::copy(sample("nfs3-lossy.pcap"), &path).expect("any name will do");
    let output = command(&["check", "--format", "sarif"]).arg(&path).output().expect("the binary runs");
    let log: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let uri = log["runs"][0]["artifacts"][0]["location"]["uri"].as_str().expect("it is a text");
    assert!(uri.ends_with("/not%20%FF.pcap"), "{uri}");
}

#[test]
fn findings_as_sarif() {
    let all = file("sarif all.pcap", &zero_credits(|_| true));
    let log = sarif(&[all.path(), "--allow", "credit-limit"], Some(1));
    assert_eq!((&log["version"], log["runs"].as_array().map(Vec::len)), (&json!("2.1.0"), Some(1)));
    let driver = &log["runs"][0]["tool"]["driver"];
    assert_eq!(driver["name"], "rdmascope");
    let rules = driver["rules"].as_array().expect("a list");
    let listed = lines(&run(&["check", "--rules", "--format", "jsonl"]));
    assert_eq!(rules.len(), listed.len());
    for (rule, listed) in rules.iter().zip(&listed) {
        assert_eq!(rule["id"], listed["rule"]);
        assert_eq!(rule["shortDescription"]["text"], listed["sentence"]);
        assert_eq!(rule["fullDescription"]["text"], listed["explanation"]);
        let level = match listed["level"].as_str() {
            Some("violation") => "error",
            Some("advice") => "note",
            _ => "warning",
        };
        assert_eq!(rule["defaultConfiguration"]["level"], level);
    }
    let mut fingerprints = std::collections::HashSet::new();
    for result in results(&log) {
        let index = result["ruleIndex"].as_u64().expect("a number") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert_eq!(
            (&result["kind"], &result["level"]),
            (&json!("fail"), &rules[index]["defaultConfiguration"]["level"])
        );
        let frames = result["properties"]["frames"].as_array().expect("a list");
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["region"]["startLine"], frames[0]);
        let uri = location["artifactLocation"]["uri"].as_str().expect("text");
        assert!(uri.starts_with("file:///") && uri.ends_with("-sarif%20all.pcap"), "{uri}");
        let related = result["relatedLocations"].as_array().map_or(0, Vec::len);
        assert_eq!(related + 1, frames.len());
        let fingerprint = result["partialFingerprints"]["primaryLocationLineHash"].as_str().expect("text");
        assert!(fingerprints.insert(fingerprint.to_owned()), "{result}");
        let is_allowed = result["ruleId"] == "credit-limit";
        assert_eq!(result["suppressions"].is_array(), is_allowed);
        assert_eq!(result["properties"]["allowed_rule"], is_allowed);
    }
    let zero: Vec<&Value> = results(&log).iter().filter(|result| result["ruleId"] == ZERO).collect();
    assert_eq!(zero.len(), 265);
    let third =
        "a reply that grants no credits (connection 1, forward, XID 0x0e396a62, by the responder, frame 14)";
    assert!(zero.iter().any(|result| result["message"]["text"] == third), "{}", zero[2]);
    let invocation = &log["runs"][0]["invocations"][0];
    assert_eq!((&invocation["executionSuccessful"], &invocation["exitCode"]), (&json!(true), &json!(1)));
    // The same capture gives the same log.
    assert_eq!(log, sarif(&[all.path(), "--allow", "credit-limit"], Some(1)));
    // Without findings the list exists and is empty.
    let header = Temporary::new("none-sarif.pcap", &pcap::write(&none_of(samples::capture("nfs3-basic"))));
    let none = sarif(&[header.path(), "--allow-empty"], Some(0));
    assert_eq!(results(&none).len(), 0);
}

#[test]
fn truncated_and_damaged_captures_are_reported() {
    let bytes = pcap::write(&zero_credits(|count| count == 2));
    let cut = Temporary::new("cut-check.pcap", &bytes[..bytes.len() / 2]);
    let allowed = allow_all_but(ZERO);
    let output = run(&["check", cut.path(), "--allow", &allowed]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    // The file name determines the line breaks.
    let words: Vec<&str> = text(&output.stdout).split_whitespace().collect();
    assert!(words.join(" ").contains("cut short at byte"), "{words:?}");
    let output = run(&["check", cut.path(), "--format", "sarif"]);
    assert!(text(&output.stderr).contains("cut short at byte"));
    let log: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let notices = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    assert_eq!(notices[0]["level"], "warning");
    // Data after the damage is not read, which is a failure regardless of findings.
    let mut damaged = bytes;
    let record = damaged.len() / 2;
    damaged[record..record + 4096].fill(0xff);
    let damaged = Temporary::new("damaged-check.pcap", &damaged);
    for format in ["text", "jsonl", "sarif"] {
        let output = run(&["check", damaged.path(), "--format", format]);
        assert_eq!(output.status.code(), Some(2), "{format}");
        assert!(!output.stdout.is_empty() && text(&output.stderr).lines().count() == 1, "{format}");
    }
}

#[test]
fn rules_are_listed_and_explained() {
    let rules = lines(&run(&["check", "--rules", "--format", "jsonl"]));
    let table = run(&["check", "--rules"]);
    assert_eq!((table.status.code(), text(&table.stderr)), (Some(0), ""));
    for rule in &rules {
        let id = rule["rule"].as_str().expect("text");
        assert!(text(&table.stdout).contains(id), "{id}");
        assert_eq!(lines(&run(&["check", "--explain", id, "--format", "jsonl"])), std::slice::from_ref(rule));
    }
    let explained = run(&["check", "--explain", "inline-threshold"]);
    assert_eq!((explained.status.code(), text(&explained.stderr)), (Some(0), ""));
    let page = text(&explained.stdout);
    assert!(page.starts_with("inline-threshold  violation\nRFC 8166, sections 3.3.2 and 3.3.3"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn wrong_usage_is_refused() {
    let file = sample("nfs3-basic.pcap");
    refused(&run(&["check", "--explain", "credit-limt"]), &["\"credit-limt\"", "did you mean credit-limit?"]);
    refused(&run(&["check", &file, "--allow", "credit-limit,zzz"]), &["\"zzz\"", "--rules"]);
    refused(&run(&["check", "--rules", "--format", "sarif"]), &["--format sarif"]);
    for format in ["text", "jsonl", "sarif"] {
        refused(&run(&["check", "no-such-file.pcap", "--format", format]), &["no-such-file.pcap"]);
        refused(&run(&["check", "README.md", "--format", format]), &["README.md", "byte 0"]);
    }
    for arguments in
        [&[][..], &["--rules", &file], &["--explain", "credit-limit", &file], &[&file, "--level", "all"]]
    {
        let output = run(&[&["check"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}
