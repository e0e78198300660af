use super::file::{PolicyError, parse};
use super::*;
use proptest::prelude::*;
use rdmascope_analysis::policy::Version;
use rdmascope_dissector::frame::Address;

fn read(text: &str) -> Policy {
    parse("p.toml", text, date("2026-12-31").unwrap()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn wrong(text: &str) -> (usize, String) {
    let PolicyError { file, line, message } =
        parse("p.toml", text, date("2026-12-31").unwrap()).expect_err(text);
    assert_eq!(file, "p.toml");
    (line, message)
}

#[test]
fn every_entry_has_its_line_number() {
    let policy = read(
        "# one\n[[allow]]\nrule = \"credits\"\nreason = \"r\"\n\n[[allow]]\nreason = \"s\"\nrule = [\"credit-limit\", \"inline-threshold\"]\n\
         expires = 2026-12-31\n[[latency]]\noperation = \"read\"\nmax = \"1s\"\np99 = \"5ms\"\n[require]\noperations = [\"READ\",\n  \"WRITE\"]\n\
         connections = 1\nconclusive = 1\n",
    );
    assert_eq!(policy.allows.iter().map(|allow| allow.line).collect::<Vec<_>>(), [2, 6]);
    let credits = rdmascope_conformance::SUBJECTS[0].rules.iter().map(|rule| rule.id);
    assert_eq!(policy.allows[0].rules, credits.collect::<Vec<_>>());
    assert_eq!(policy.allows[1].rules, ["credit-limit", "inline-threshold"]);
    assert_eq!(policy.allows[1].expired, None, "this is its last day");
    let latency = &policy.latencies[0];
    let limits: Vec<_> = latency.limits.iter().map(|limit| (limit.line, limit.of, limit.most)).collect();
    assert_eq!(latency.operation, "READ");
    assert_eq!(limits, [(12, Measure::Max, 1_000_000_000), (13, Measure::P99, 5_000_000)]);
    let lines: Vec<_> = policy.requirements.iter().map(|requirement| requirement.line).collect();
    assert_eq!(lines, [15, 16, 17, 18]);
    assert!(matches!(policy.requirements[3].kind, Required::Conclusive(1.0)));
}

#[test]
fn documented_entry_count_matches_the_example() {
    let page = include_str!("../../../docs/policy.md");
    let example =
        page.split("```").nth(1).and_then(|block| block.strip_prefix("toml\n")).expect("an example");
    let Policy { allows, latencies, requirements, .. } = read(example);
    let limits: usize = latencies.iter().map(|latency| latency.limits.len()).sum();
    let entries = allows.len() + limits + requirements.len();
    assert!(page.contains(&format!("({entries} entries)")), "{entries}");
}

#[test]
fn errors_have_line_numbers() {
    let allow = "[[allow]]\nrule = \"credit-limit\"\nreason = \"r\"\n";
    for (text, line, part) in [
        ("[[alow]]\n", 1, "did you mean allow?"),
        ("[[allow]]\nrul = \"credit-limit\"\n", 2, "\"rul\": did you mean rule?"),
        ("[[allow]]\nzzzzzz = 1\n", 2, "expected one of rule, reason, expires, server"),
        ("\n[[allow]]\nreason = \"r\"\n", 2, "rule is missing"),
        ("\n[[allow]]\nrule = \"credit-limit\"\n", 2, "reason is missing"),
        ("[[allow]]\nrule = \"credit-limt\"\nreason = \"r\"", 2, "did you mean credit-limit?"),
        ("[[allow]]\nrule = [\"credit-limit\",\n\n\"zzz\"]\nreason = \"r\"", 4, "\"zzz\""),
        ("[[allow]]\nrule = []\nreason = \"r\"", 2, "the list is empty"),
        ("[[allow]]\nrule = \"credits\"\nreason = \" \"", 3, "expected a reason"),
        ("[[allow]]\nrule = 7\nreason = \"r\"", 2, "a quoted string"),
        (&format!("{allow}expires = \"2026-12-31\""), 4, "an unquoted date"),
        (&format!("{allow}expires = 2026-12-31T10:00:00Z"), 4, "an unquoted date"),
        (&format!("{allow}expires = 2026-02-30"), 4, ""),
        (&format!("{allow}server = \"filer.example\""), 4, "expected an address"),
        (&format!("{allow}connection = 0"), 4, "from 1"),
        (&format!("{allow}connection = -1"), 4, "a whole number"),
        (&format!("{allow}version = 5"), 4, "an NFS version"),
        (&format!("{allow}version = [3, 4.7]"), 4, "an NFS version"),
        ("[allow]\nrule = 1", 1, "[[allow]]"),
        ("allow = [1]", 1, "[[allow]]"),
        ("[[require]]\nconnections = 1", 1, "[require]"),
        ("[require]\nrules = [\"credits\",\n\"credit-limt\"]", 3, "did you mean credit-limit?"),
        ("[require]\nconnections = \"1\"", 2, "a whole number"),
        ("[require]\nconections = 1", 2, "did you mean connections?"),
        ("[require]\nconclusive = 1.5", 2, "from 0 to 1"),
        ("[require]\nconclusive = nan", 2, "from 0 to 1"),
        ("[require]\noperations = [\"READ\", \"RAED\"]", 2, "did you mean READ"),
        ("\n[[latency]]\nmax = \"1s\"", 2, "operation is missing"),
        ("\n[[latency]]\noperation = \"READ\"", 2, "a limit is missing"),
        ("[[latency]]\noperation = \"READ\"\nmax = \"5\"", 3, "a number with a unit"),
        ("[[latency]]\noperation = \"READ\"\nmax = 5", 3, "a quoted string"),
        ("\n\nrule = = 1", 3, ""),
        ("[require]\nconnections = 1\nconnections = 2", 3, "duplicate key"),
    ] {
        let (found, error) = wrong(text);
        assert!(found == line && error.contains(part) && !error.contains('\n'), "{text}\n{found}: {error}");
    }
}

#[test]
fn scope_matches_versions() {
    // TOML writes 4.0 as a float, whose fraction must be preserved.
    let policy = read("[[allow]]\nrule = \"credits\"\nreason = \"r\"\nversion = [4.0, 3, \"4.2\"]\n");
    let scope = &policy.allows[0].scope;
    assert_eq!(scope.to_string(), " (version 4.0, 3, 4.2)");
    let versions = |all: &[&str]| all.iter().filter_map(|text| Version::parse(text)).collect::<Vec<_>>();
    assert!(!scope.has_version(&versions(&["4.1"])) && scope.has_version(&versions(&["4.1", "3"])));
}

#[test]
fn scope_matches_hosts_and_connections() {
    let policy = read(
        "[[allow]]\nrule = \"credits\"\nreason = \"r\"\nserver = [\"10.0.0.1\", \"fd00::*\"]\nclient = \"10.0.0.*\"\nconnection = [1, 3]\n",
    );
    let scope = &policy.allows[0].scope;
    let address = |text: &str| Some(Address::V4(text.parse().unwrap()));
    assert!(scope.has_hosts(address("10.0.0.7"), address("10.0.0.1")));
    assert!(!scope.has_hosts(address("10.0.0.1"), address("10.0.0.7")));
    assert!(!scope.has_hosts(None, address("10.0.0.1")));
    assert!(scope.has_connection(Some(3)) && !scope.has_connection(Some(2)) && !scope.has_connection(None));
}

#[test]
fn dates_are_parsed_and_compared() {
    assert!(date("2026-12-31").is_ok());
    for text in ["", "2026-13-01", "12:00:00", "2026-12-31T00:00:00Z", "tomorrow"] {
        assert!(date(text).is_err(), "{text}");
    }
    // Dates compare by day, and by year before month.
    assert!(date("2027-01-01").unwrap() > date("2026-12-31").unwrap());
    assert!(today() > date("2024-01-01").unwrap());
}

/// Fragments of policies, combined in any order.
const PARTS: [&str; 24] = [
    "[[allow]]",
    "[[latency]]",
    "[require]",
    "[allow]",
    "rule = ",
    "reason = ",
    "expires = ",
    "server = ",
    "version = ",
    "operation = ",
    "p99 = ",
    "max = ",
    "connections = ",
    "conclusive = ",
    "operations = ",
    "\"credits\"",
    "\"READ\"",
    "\"5ms\"",
    "2026-12-31",
    "4.1",
    "[",
    "]",
    "\n",
    ",",
];

fn is_policy_or_located(text: &str) {
    if let Err(error) = parse("p.toml", text, date("2026-12-31").unwrap()) {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        assert!((1..=lines).contains(&error.line), "{error}");
        assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_parses_or_has_a_line_number(text in ".{0,200}") {
        is_policy_or_located(&text);
    }

    #[test]
    fn any_fragments_parse_or_have_a_line_number(parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..24)) {
        is_policy_or_located(&parts.concat());
        is_policy_or_located(&parts.join("\n"));
    }

    #[test]
    fn edited_example_parses_or_has_a_line_number(at in 0usize..1200, with in "[\\x00-\\x7f]{0,3}") {
        let mut text = example().to_owned();
        let at = at.min(text.len());
        if text.is_char_boundary(at) {
            text.insert_str(at, &with);
            is_policy_or_located(&text);
            text.truncate(at);
            is_policy_or_located(&text);
        }
    }
}

const DOCUMENT: &str = include_str!("../../../docs/policy.md");

/// The example in the document.
fn example() -> &'static str {
    let example = DOCUMENT.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    example.expect("the document has an example")
}

#[test]
fn documented_example_is_a_policy() {
    let policy = read(example());
    assert_eq!((policy.allows.len(), policy.latencies.len(), policy.requirements.len()), (2, 2, 7));
    // The document also describes every key.
    for key in
        ["rule", "server", "client", "connection", "version", "reason", "expires", "operation", "operations"]
            .into_iter()
            .chain(Measure::ALL.map(|(name, _)| name))
            .chain(["connections", "transactions", "rules", "conclusive"])
    {
        assert!(DOCUMENT.contains(&format!("`{key}`")), "{key}");
    }
}
