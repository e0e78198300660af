//! `rdmascope check` with a policy: allowed findings and their expiry, latency limits,
//! requirements; and JUnit.

mod binary;

use binary::{command, folder, json_lines, refused, run, sample, text, with_input};
use rdmascope_tests::mutate;
use rdmascope_tests::pcap;
use serde_json::{Value, json};
use std::fs;
use std::process::Output;
use tempfile::TempDir;

/// The one violation of these two samples.
const RULE: &str = "invalidation-sender-flag";
const V3: &str = "nfs3-basic.pcap";
const V41: &str = "nfs4.1-basic.pcap";

/// A folder with these samples and this policy.
struct Folder(TempDir);

impl Folder {
    fn new(samples: &[&str], policy: &str) -> Folder {
        let folder = folder();
        for name in samples {
            fs::copy(sample(name), folder.path().join(name)).expect("it can be copied");
        }
        let folder = Folder(folder);
        folder.write("rdmascope.toml", policy);
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("it can be written");
    }

    /// Runs `check` there.
    fn check(&self, arguments: &[&str]) -> Output {
        let arguments = [&["check"], arguments].concat();
        command(&arguments).current_dir(self.0.path()).output().expect("it runs")
    }

    /// The entries of the policy as JSON, with the exit status and the last line.
    fn entries(&self, arguments: &[&str]) -> (Option<i32>, Vec<Value>, Value) {
        let output = self.check(&[arguments, &["--format", "jsonl"]].concat());
        let mut lines = json_lines(text(&output.stdout));
        let check = lines.pop().expect("there is a line");
        assert_eq!(check["type"], "check");
        lines.retain(|line| line["type"] == "policy");
        (output.status.code(), lines, check)
    }

    /// The exit status, and the outcome of the only entry.
    fn outcome(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let (status, entries, _) = self.entries(arguments);
        assert_eq!(entries.len(), 1, "{entries:?}");
        (status, entries[0]["outcome"].as_str().expect("text").to_owned())
    }
}

fn allow(more: &str) -> String {
    format!("[[allow]]\nrule = \"{RULE}\"\nreason = \"ticket 4711\"\n{more}\n")
}

fn outcome(policy: &str, arguments: &[&str]) -> (Option<i32>, String) {
    Folder::new(&[V3, V41], policy).outcome(arguments)
}

fn met(status: i32, outcome: &str) -> (Option<i32>, String) {
    (Some(status), outcome.to_owned())
}

#[test]
fn allowed_finding_is_shown_with_the_reason() {
    let folder = Folder::new(&[V3], &allow(""));
    let without = folder.check(&[V3, "--no-policy"]);
    assert_eq!(without.status.code(), Some(1));
    assert!(!text(&without.stdout).contains("Policy"));
    let output = folder.check(&[V3]);
    let page = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{page}");
    for part in [
        "violation  invalidation-sender-flag  1 time, allowed\n",
        "; allowed: ticket 4711\n",
        "1 violation (1 allowed)",
        "\nPolicy rdmascope.toml (1 entry): met.\n",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let lines = json_lines(text(&folder.check(&[V3, "--format", "jsonl"]).stdout));
    let finding = lines.iter().find(|line| line["rule"] == RULE).expect("it is shown");
    assert_eq!((&finding["allowed_rule"], &finding["reason"]), (&json!(true), &json!("ticket 4711")));
    let check = lines.last().expect("there are lines");
    assert_eq!((&check["policy"], &check["policy_failures"]), (&json!("rdmascope.toml"), &json!(0)));
    assert_eq!((&check["broken"], &check["violations"]["allowed"]), (&json!(false), &json!(1)));
    let log = folder.check(&[V3, "--format", "sarif"]).stdout;
    let log: Value = serde_json::from_slice(&log).expect("it is JSON");
    let results = log["runs"][0]["results"].as_array().expect("a list");
    let result = results.iter().find(|result| result["ruleId"] == RULE).expect("it is shown");
    assert_eq!(result["suppressions"], json!([{"kind": "external", "justification": "ticket 4711"}]));
    // A subject includes its rules.
    let of_subject = allow("").replace(RULE, "remote-invalidation");
    assert_eq!(outcome(&of_subject, &[V3]), met(0, "met"));
}

#[test]
fn entry_applies_in_its_scope_only() {
    // The client of the samples is 10.77.0.2, the server 10.77.0.1.
    for (scope, in_v3, in_v41) in [
        ("client = \"10.77.0.2\"", true, true),
        ("client = \"10.77.0.1\"", false, false),
        ("server = [\"192.0.2.1\", \"10.77.*\"]", true, true),
        ("server = \"10.77.0.2\"", false, false),
        ("connection = [1, 7]", true, true),
        ("connection = 2", false, false),
        ("version = 3", true, false),
        ("version = 4.1", false, true),
        ("version = \"4\"", false, true),
        ("version = [4.0, 4.2]", false, false),
        ("version = 3\nserver = \"192.0.2.1\"", false, false),
    ] {
        let folder = Folder::new(&[V3, V41], &allow(scope));
        for (file, is_in) in [(V3, in_v3), (V41, in_v41)] {
            let expected = if is_in { met(0, "met") } else { met(1, "unused") };
            assert_eq!(folder.outcome(&[file]), expected, "{scope}: {file}");
        }
    }
    // Standard input is read twice, too.
    let folder = Folder::new(&[], &allow("version = 3"));
    let policy = folder.0.path().join("rdmascope.toml");
    let bytes = fs::read(sample(V3)).expect("it is there");
    let piped = with_input(&["check", "-", "--policy", policy.to_str().expect("UTF-8")], &bytes);
    assert_eq!((piped.status.code(), text(&piped.stderr)), (Some(0), ""));
}

#[test]
fn expired_entry_fails_and_allows_nothing() {
    let expiring = allow("expires = 2026-12-31");
    assert_eq!(outcome(&expiring, &[V3, "--today", "2026-12-31"]), met(0, "met"));
    assert_eq!(outcome(&expiring, &[V3, "--today", "2027-01-01"]), met(1, "expired"));
    let folder = Folder::new(&[V3], &expiring);
    let output = folder.check(&[V3, "--today", "2027-01-01"]);
    let page = text(&output.stdout);
    let row = "  rdmascope.toml:1: allow invalidation-sender-flag: expired after 2026-12-31 (ticket 4711)\n";
    assert!(page.contains(row) && !page.contains(", allowed\n"), "{page}");
    // Also if the rule is not violated, and by the clock of the machine.
    let other = "[[allow]]\nrule = \"credit-limit\"\nreason = \"r\"\nexpires = 2020-01-01\n";
    assert_eq!(outcome(other, &[V3, "--allow", RULE]), met(1, "expired"));
    // A table contains findings only.
    let table = folder.check(&[V3, "--today", "2027-01-01", "--format", "csv"]);
    assert_eq!(text(&table.stderr), format!("rdmascope: {}", row.trim_start()));
    let wrong = folder.check(&[V3, "--today", "tomorrow"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("expected a date such as 2026-12-31"));
}

#[test]
fn unused_entry_is_reported() {
    let folder = Folder::new(&[V3, V41], &allow("version = 3"));
    let warning = "rdmascope: warning: rdmascope.toml:1: unused: allow invalidation-sender-flag (version 3) matches no finding\n";
    assert_eq!(text(&folder.check(&[V41]).stderr), warning);
    // An entry that applies to one of several captures is used. If its rule is not checked, its use
    // is unknown.
    let both = folder.check(&["--each", V3, V41]);
    assert_eq!((both.status.code(), text(&both.stderr)), (Some(1), ""));
    let advice = Folder::new(&[V3], "[[allow]]\nrule = \"advice-reply-chunk\"\nreason = \"r\"\n");
    assert_eq!(text(&advice.check(&[V3, "--level", "violation"]).stderr), "");
}

#[test]
fn latency_limits_match_the_report() {
    let report = json_lines(text(&run(&["analyze", &sample(V3), "--format", "jsonl"]).stdout));
    let is_write = |line: &&Value| line["type"] == "operation" && line["operation"] == "WRITE";
    let write = report.iter().find(is_write).expect("the report has it");
    let latency = |name: &str| write["latency"][name].as_u64().expect("a number");
    // The report has no line for p90, which is between these two.
    for (name, most, least) in [
        ("median", latency("median_ns"), latency("median_ns")),
        ("p90", latency("p99_ns"), latency("median_ns")),
        ("p99", latency("p99_ns"), latency("p99_ns")),
        ("max", latency("max_ns"), latency("max_ns")),
    ] {
        for (most, expected) in [(most, met(0, "met")), (least - 1, met(1, "failed"))] {
            let policy = format!("[[latency]]\noperation = \"write\"\n{name} = \"{most}ns\"\n");
            assert_eq!(outcome(&policy, &[V3, "--allow", RULE]), expected, "{policy}");
        }
    }
    let policy = "[[latency]]\noperation = \"WRITE\"\nmax = \"1ns\"\nversion = 4\n";
    assert_eq!(outcome(policy, &[V3, "--allow", RULE]), met(0, "unused"));
    assert_eq!(outcome(policy, &[V41, "--allow", RULE]), met(1, "failed"));
    let policy = policy.replace("version = 4", "client = \"10.77.0.1\"");
    assert_eq!(outcome(&policy, &[V41, "--allow", RULE]), met(0, "unused"));
    let folder = Folder::new(&[V3], &policy.replace("10.77.0.1", "10.77.0.2"));
    let (_, entries, check) = folder.entries(&[V3]);
    assert_eq!(entries[0]["observed"], json!({"value": latency("max_ns"), "unit": "nanoseconds"}));
    assert_eq!(entries[0]["allowed"], json!({"value": 1, "unit": "nanoseconds"}));
    assert_eq!((&check["policy_failures"], &check["broken"]), (&json!(1), &json!(true)));
}

#[test]
fn requirements_are_checked() {
    // mountstats and the client's tracepoints of nfs3-basic: one connection, 265 calls.
    for (required, expected) in [
        ("connections = 1", met(0, "met")),
        ("connections = 2", met(1, "failed")),
        ("transactions = 265", met(0, "met")),
        ("transactions = 266", met(1, "failed")),
        ("operations = [\"WRITE\"]", met(0, "met")),
        ("operations = \"OPEN\"", met(1, "failed")),
        ("rules = \"credit-limit\"", met(0, "met")),
        ("rules = [\"connection-establishment\"]", met(0, "met")),
        ("conclusive = 1.0", met(0, "met")),
    ] {
        let policy = format!("[require]\n{required}\n");
        assert_eq!(outcome(&policy, &[V3, "--allow", RULE]), expected, "{required}");
    }
    // In a COMPOUND every operation counts.
    assert_eq!(outcome("[require]\noperations = [\"SEQUENCE\"]", &[V41, "--allow", RULE]), met(0, "met"));
    // Without the CM exchange it is unknown whether the first call is too long: one verdict is
    // inconclusive.
    let folder = Folder::new(
        &[],
        "[require]\nconclusive = 1.0\nrules = [\"inline-threshold\", \"connection-establishment\", \"credit-limit\"]\n",
    );
    fs::write(folder.0.path().join("long.pcap"), pcap::write(&mutate::long_call()))
        .expect("it can be written");
    let (_, entries, check) = folder.entries(&["long.pcap"]);
    let open = check["rules"].as_array().expect("a list").iter();
    let open = open.filter(|rule| rule["stands"] == 0 && rule["inconclusive"] != 0).count() as u64;
    assert_eq!((open > 0, &entries[0]["outcome"]), (true, &json!("failed")), "{entries:?}");
    let asked = check["rules_asked"].as_u64().expect("a number");
    let words = format!("{} of {asked} rules", asked - open);
    assert!(entries[0]["message"].as_str().is_some_and(|message| message.contains(&words)), "{entries:?}");
    // A rule without a verdict, rules that had nothing to check, and one that had.
    let outcomes = ["failed", "failed", "met"].map(|outcome| json!(outcome));
    assert_eq!(
        entries[1..].iter().map(|entry| entry["outcome"].clone()).collect::<Vec<_>>(),
        outcomes,
        "{entries:?}"
    );
}

#[test]
fn policy_in_the_capture_folder_applies() {
    let (one, other) = (Folder::new(&[V3], &allow("")), Folder::new(&[V41], ""));
    let [first, second] = [&one, &other].map(|folder| folder.0.path().to_str().expect("UTF-8"));
    let [first_file, second_file] = [first, second].map(|folder| format!("{folder}/rdmascope.toml"));
    let policies = |arguments: &[&str]| {
        let output = run(&[&["check", "--format", "jsonl"], arguments].concat());
        let lines = json_lines(text(&output.stdout));
        let of = lines.iter().filter(|line| line["type"] == "check").map(|line| line["policy"].clone());
        (output.status.code(), of.collect::<Vec<_>>())
    };
    // The policy of a folder, of each folder, and of the first folder.
    assert_eq!(policies(&[first]), (Some(0), vec![json!(first_file)]));
    assert_eq!(policies(&["--each", first, second]), (Some(1), vec![json!(first_file), json!(second_file)]));
    assert_eq!(policies(&[second, first]), (Some(1), vec![json!(second_file)]));
    assert_eq!(policies(&["--each", first, second, "--policy", &first_file]).0, Some(0));
    assert_eq!(policies(&[first, "--no-policy"]), (Some(1), vec![Value::Null]));
    // A folder with that name is not a policy.
    fs::remove_file(&first_file).expect("it can be removed");
    fs::create_dir(&first_file).expect("it can be made");
    assert_eq!(policies(&[first]), (Some(1), vec![Value::Null]));
    let both = run(&["check", first, "--no-policy", "--policy", &second_file]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn invalid_policy_is_refused() {
    let folder = Folder::new(&[V3], "\n[[allow]]\nrul = \"credit-limit\"\n");
    for format in ["text", "jsonl", "csv", "sarif", "junit"] {
        refused(
            &folder.check(&[V3, "--format", format]),
            &["rdmascope.toml:3: ", "\"rul\"", "did you mean rule?"],
        );
    }
    refused(&folder.check(&[V3, "--policy", "none.toml"]), &["none.toml", "cannot be read"]);
    fs::write(folder.0.path().join("rdmascope.toml"), b"# one\n\xff").expect("it can be written");
    refused(&folder.check(&[V3]), &["rdmascope.toml:2: ", "UTF-8"]);
    folder.write("rdmascope.toml", &"#".repeat((1 << 20) + 1));
    refused(&folder.check(&[V3]), &["rdmascope.toml", "policy longer than 1048576 bytes"]);
}

/// An element of XML, from a strict parser of this small subset.
#[derive(Debug)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(one, _)| one == name);
        &found.unwrap_or_else(|| panic!("{name} is missing: {self:?}")).1
    }

    fn number(&self, name: &str) -> usize {
        self.attribute(name).parse().expect("a number")
    }
}

fn unescaped(text: &str) -> String {
    assert!(!text.contains('<'), "{text}");
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').expect("an entity ends");
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            _ => panic!("no entity: {name}"),
        });
        out += rest;
    }
    out
}

/// Parses an element with its contents; returns the rest of the text.
fn element(text: &str) -> (Element, &str) {
    let text = text.trim_start().strip_prefix('<').expect("an element begins");
    let end = text.find('>').expect("a tag ends");
    let (tag, mut rest) = (&text[..end], &text[end + 1..]);
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let (name, mut left) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut element =
        Element { name: name.to_owned(), attributes: Vec::new(), children: Vec::new(), text: String::new() };
    while !left.is_empty() {
        let (key, value) = left.split_once("=\"").expect("an attribute has a value");
        let (value, after) = value.split_once('"').expect("a value ends");
        assert!(element.attributes.iter().all(|(one, _)| one != key), "{key} twice");
        element.attributes.push((key.to_owned(), unescaped(value)));
        left = after.trim_start();
    }
    if is_empty {
        return (element, rest);
    }
    loop {
        let at = rest.find('<').expect("an element ends");
        element.text += &unescaped(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(&format!("</{name}>")) {
            return (element, after);
        }
        let (child, after) = self::element(rest);
        element.children.push(child);
        rest = after;
    }
}

/// The test suites of a report that conforms to the schema of Jenkins and similar tools: elements,
/// their order, attributes, and counts.
fn suites(report: &str) -> Vec<Element> {
    assert!(report.chars().all(|c| c == '\n' || !c.is_control()), "{report}");
    let body = report.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
    let (root, after) = element(body);
    assert_eq!((root.name.as_str(), after), ("testsuites", "\n"));
    for suite in &root.children {
        assert_eq!(suite.name, "testsuite");
        assert!(!suite.attribute("name").is_empty() && suite.text.trim().is_empty());
        assert_eq!(suite.number("tests"), suite.children.len());
        for (kind, attribute) in [("failure", "failures"), ("error", "errors"), ("skipped", "skipped")] {
            let cases = suite.children.iter().filter(|case| case.children.iter().any(|one| one.name == kind));
            assert_eq!(suite.number(attribute), cases.count(), "{kind}");
        }
        for case in &suite.children {
            assert_eq!(case.name, "testcase");
            assert!(!case.attribute("classname").is_empty() && !case.attribute("name").is_empty());
            let names: Vec<&str> = case.children.iter().map(|child| &*child.name).collect();
            let known: [&[&str]; 6] =
                [&[], &["failure"], &["error"], &["skipped"], &["system-out"], &["skipped", "system-out"]];
            assert!(known.contains(&&*names), "{case:?}");
            for child in case.children.iter().filter(|child| child.name != "system-out") {
                assert!(!child.attribute("message").is_empty() && child.children.is_empty());
            }
        }
    }
    root.children
}

fn case<'a>(suite: &'a Element, class: &str, name: &str) -> &'a Element {
    let is_it = |case: &&Element| case.attribute("classname") == class && case.attribute("name") == name;
    suite.children.iter().find(is_it).unwrap_or_else(|| panic!("{class} {name}"))
}

#[test]
fn junit_report_conforms_to_the_schema() {
    let policy = "[[allow]]\nrule = \"credit-limit\"\nreason = \"<&\\\"' \\u001b\"\nexpires = 2020-01-01\n[require]\nconnections = 1\n";
    let folder = Folder::new(&[V3, V41], policy);
    fs::copy(sample(V3), folder.0.path().join("a<b>&\"c\".pcap")).expect("it can be copied");
    let output = folder.check(&["--each", V3, "a<b>&\"c\".pcap", V41, "--format", "junit"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    let suites = suites(text(&output.stdout));
    let names: Vec<_> = suites.iter().map(|suite| suite.attribute("name")).collect();
    assert_eq!(names, [V3, "a<b>&\"c\".pcap", V41]);
    let rules = json_lines(text(&run(&["check", "--rules", "--format", "jsonl"]).stdout));
    for suite in &suites {
        // One case per rule, one for the capture, one for its events, and two for the policy.
        assert_eq!(suite.children.len(), rules.len() + 4);
        for rule in &rules {
            let [id, subject] = ["rule", "subject"].map(|key| rule[key].as_str().expect("text"));
            let case = case(suite, &subject.to_ascii_lowercase().replace(' ', "-"), id);
            let fails = case.children.iter().any(|child| child.name == "failure");
            assert_eq!(fails, id == RULE, "{id}");
        }
        let failure = &case(suite, "remote-invalidation", RULE).children[0];
        assert!(failure.text.contains("frame") && failure.text.contains("server 10.77.0.1"), "{failure:?}");
        let expired = &case(suite, "policy", "allow credit-limit").children[0];
        assert!(expired.text.ends_with("expired after 2020-01-01 (<&\"' \\u{1b})"), "{expired:?}");
        assert_eq!(case(suite, "policy", "require connections").children[0].name, "system-out");
    }
    // It fails if the exit status does.
    let outage = sample("iwarp-reconnect.pcap");
    let lost = folder.check(&[&outage, "--no-policy", "--allow", RULE, "--format", "junit"]);
    assert_eq!(lost.status.code(), Some(1), "{}", text(&lost.stderr));
    let failures = text(&lost.stdout).matches("<failure ").count();
    assert_eq!(failures, 1, "{}", text(&lost.stdout));
    assert!(text(&lost.stdout).contains("message=\"3.3 s without service on 1 connection"));

    // Allowed findings fail nothing, and are shown.
    let allowed = folder.check(&[V3, "--no-policy", "--allow", RULE, "--format", "junit"]);
    assert_eq!(allowed.status.code(), Some(0));
    let suites = self::suites(text(&allowed.stdout));
    assert_eq!(suites[0].number("failures"), 0);
    let shown = &case(&suites[0], "remote-invalidation", RULE).children[0];
    assert!(shown.name == "system-out" && shown.text.contains("; allowed\n"), "{shown:?}");
    // Exit status 2 is an error.
    let bytes = fs::read(sample(V3)).expect("it is there");
    let empty = with_input(&["check", "-", "--format", "junit"], &bytes[..24]);
    assert_eq!(empty.status.code(), Some(2));
    let suites = self::suites(text(&empty.stdout));
    assert_eq!((suites[0].number("errors"), suites[0].attribute("name")), (1, "standard input"));
    let mut damaged = bytes;
    let half = damaged.len() / 2;
    damaged[half..half + 4096].fill(0xff);
    let damaged = with_input(&["check", "-", "--format", "junit"], &damaged);
    assert_eq!(damaged.status.code(), Some(2));
    assert_eq!(self::suites(text(&damaged.stdout))[0].number("errors"), 1);
    refused(&run(&["check", "README.md", "--format", "junit"]), &["README.md"]);
    refused(&run(&["check", "--rules", "--format", "junit"]), &["junit"]);
}

/// A WRITE without a reply has waited longer than the policy allows; 240 GETATTRs have their replies.
#[test]
fn call_without_reply_exceeds_the_latency_limit() {
    let folder = Folder::new(&[], "[[latency]]\noperation = \"WRITE\"\nmax = \"1s\"\n");
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cases/c25-one-stuck.pcap");
    fs::copy(capture, folder.0.path().join("stuck.pcap")).expect("it can be copied");
    assert_eq!(folder.outcome(&["stuck.pcap"]), (Some(1), "failed".to_owned()));
    let output = folder.check(&["stuck.pcap"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("at least 119s in 1 transaction, 1 without a reply (allowed: 1s)"), "{shown}");
    // Without the limit, nothing is violated.
    folder.write("rdmascope.toml", "");
    assert_eq!(folder.check(&["stuck.pcap"]).status.code(), Some(0));
}

/// A time without service comes first in the output, and sets exit status 1 of `check`.
#[test]
fn outage_comes_first_and_is_status_1() {
    let case = |name: &str| format!("{}/../tests/cases/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    for (name, first) in [
        ("c02-reconnect", "  210 s without service on 4 connections, from 0.005 until the capture ends"),
        ("c28-first", "  60 s without service on 1 connection, from 0.004 until the capture ends"),
    ] {
        let output = command(&["check", &case(name)]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(text(&output.stdout).starts_with(first), "{}", text(&output.stdout));
        let output = command(&["analyze", &case(name)]).output().expect("it runs");
        let shown = text(&output.stdout);
        assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with(first)), "{shown}");
        assert!(shown.contains("\nProblems\n") && shown.contains("\nNext: rdmascope events"), "{shown}");
    }
}
