use super::*;
use crate::screen::Screen;
use crate::text::Style;
use rdmascope_analysis::ending::{Cut, Ending, FileEnding, arguments};
use rdmascope_analysis::policy::{EntryKind, EntryOutcome, Policed, PolicyEntry};
use rdmascope_analysis::tally::Tally;
use rdmascope_conformance::{Basis, Finding, Level, Value, Verdict};
use rdmascope_dissector::connection::{Connection, ConnectionId, Counts, FirstFrames, State};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::values as samples;
use rdmascope_wire::Xid;
use std::sync::Arc;

/// The default options.
const SELECTION: Selection = Selection { inconclusive: false, all: false, level: Level::Advice };

/// Findings, with everything needed to write them.
struct Found {
    selection: Selection,
    tally: Tally,
    kept: Kept,
    ending: Ending,
}

impl Found {
    /// Creates an empty result with two connections of some packets, and at most 10 findings of
    /// each rule.
    fn new() -> Found {
        Found::selection(SELECTION, 10, &[])
    }

    fn selection(selection: Selection, most: usize, allowed: &[&str]) -> Found {
        let tally = Tally::new(|rule| allowed.contains(&rule.id), selection.level);
        let files = vec![FileEnding { name: "a.pcap".into(), ..FileEnding::default() }];
        let mut ending = Ending { files, input: Some("a.pcap".into()), ..Ending::default() };
        ending.totals.packets = 100;
        let mut found = Found { selection, tally, kept: Kept::new(most), ending };
        found.tally.transactions = 239;
        found
    }

    fn add(&mut self, finding: Finding) {
        let place = self.tally.count(&finding, None).expect("it is of a rule");
        if finding.verdict == Verdict::Certain || self.selection.inconclusive {
            self.kept.add(&finding, place);
        }
    }

    fn connection(&mut self, connection: &Connection, requester: Option<End>) {
        self.tally.connection(connection);
        self.kept.connection(connection, requester);
    }

    fn text(&self) -> String {
        let Found { selection, tally, kept, ending } = self;
        let screen = Screen { width: 100, unicode: false, style: Style::default() };
        let mut out = Vec::new();
        Page { selection: *selection, tally, kept, ending, screen }.write(&mut out).expect("in-memory write");
        let text = String::from_utf8(out).expect("it is UTF-8");
        samples::show(&text);
        text
    }
}

/// A finding of this rule, at this frame.
fn finding(rule: &str, frame: u64) -> Finding {
    let rule = rdmascope_conformance::rule(rule);
    assert!(rule.is_some());
    Finding { rule, frames: vec![frame], ..samples::finding() }
}

#[test]
fn findings_are_sorted_by_severity() {
    let mut found = Found::new();
    found.add(finding("credit-grant-lowered", 1));
    found.add(finding("inline-threshold", 2));
    found.add(finding("credit-request-zero", 3));
    found.add(finding("credit-limit", 9));
    found.add(finding("credit-limit", 4));
    found.connection(&samples::connection(), Some(End::First));
    let text = found.text();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}"));
    let order = [
        "violation  credit-limit  2 times\n",
        "frame 4  ",
        "frame 9  ",
        "violation  inline-threshold  1 time\n",
        "warning  credit-request-zero",
        "advice  credit-grant-lowered",
        "\n3 violations, 1 warning, 1 case of advice: 1 connection and 239 transactions judged by ",
        "\nNext: rdmascope show a.pcap --transaction 1\n      rdmascope check --explain credit-limit\n",
    ];
    assert!(order.map(at).is_sorted(), "{text}");
    let row =
        "    #1 -> 0x1a2b3c07  frame 4  client 10.77.0.1: 129 requests in flight where 128 were granted\n";
    at(row);
    let flat = text.replace("\n  ", " ");
    let rule = "  A Requester has no more requests in flight than the Responder granted. RFC 8166, section 3.3.1; \
        RFC 8167, section 4.1.";
    assert!(flat.contains(rule.trim()) && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("Limits of the capture") && !text.contains("nconclusive"), "{text}");
}

#[test]
fn only_the_shown_findings_are_kept() {
    let mut found = Found::selection(SELECTION, 3, &[]);
    for frame in (1..=1227).rev() {
        found.add(finding("credit-limit", frame));
    }
    let text = found.text();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("    #")).collect();
    assert_eq!(rows.len(), 3, "{text}");
    // The first ones in the capture, in whatever order they were found.
    for (row, frame) in rows.iter().zip(1..) {
        assert!(row.contains(&format!("frame {frame} ")), "{text}");
    }
    assert!(text.contains("violation  credit-limit  1,227 times\n"), "{text}");
    assert!(text.contains("    and 1,224 more: --most 0 shows them\n"), "{text}");
    assert_eq!(found.tally.level(Level::Violation).conclusive, 1227);
    // The limit applies whatever the user requests.
    let mut found = Found::selection(Selection { all: true, ..SELECTION }, usize::MAX, &[]);
    let all = Kept::MOST as u64 + 5;
    (1..=all).for_each(|frame| found.add(finding("credit-limit", frame)));
    assert!(found.text().contains("    and 5 more: --format jsonl has all\n"));
}

#[test]
fn repeated_findings_of_an_end_are_one_line() {
    let mut found = Found::new();
    found.kept = Kept::folding(2);
    for frame in (1..=700).rev() {
        found.add(finding("credit-limit", frame));
    }
    found.add(Finding { by: Some(End::Second), ..finding("credit-limit", 800) });
    for connection in 2..=4 {
        found.add(Finding { connection: Some(ConnectionId(connection)), ..finding("credit-limit", 900) });
    }
    let text = found.text();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("    #")).collect();
    let [first, second] = rows[..] else { panic!("{text}") };
    // The first one in the capture, in whatever order they were found.
    assert!(first.contains("frame 1 ") && first.ends_with("; 700 times, --most 0 shows each"), "{text}");
    assert!(second.contains("frame 800 ") && !second.contains("times"), "{text}");
    assert!(text.contains("    and 3 more: --most 0 shows them\n"), "{text}");
}

#[test]
fn findings_allowed_by_a_policy_show_the_reason() {
    let mut found = Found::new();
    let reason = Arc::from("until the \u{1b}server is updated");
    let allowed = finding("credit-limit", 4);
    let place = found.tally.count(&allowed, Some(&reason)).expect("it is of a rule");
    assert!(place.is_allowed);
    found.kept.add(&allowed, place);
    found.connection(&samples::connection(), Some(End::First));
    let text = found.text();
    assert!(text.contains("violation  credit-limit  1 time, allowed\n"), "{text}");
    assert!(text.contains("; allowed: until the \\u{1b}server is updated\n"), "{text}");
    assert!(text.contains("1 violation (1 allowed)"), "{text}");
    assert!(!found.tally.is_broken() && !found.tally.fails() && !text.contains("Policy"));
    // Another finding, which nothing allows, is suggested as the next one to look at, although it
    // comes later.
    found.add(Finding { xid: Some(Xid(0x77)), transaction: None, ..finding("credit-limit", 9) });
    let text = found.text();
    assert!(text.contains("violation  credit-limit  2 times, 1 allowed\n"), "{text}");
    assert!(text.contains("Next: rdmascope show a.pcap --xid 0x00000077 "), "{text}");
    assert!(found.tally.is_broken());
}

#[test]
fn policy_failures_follow_the_summary() {
    let mut found = Found::new();
    found.connection(&samples::connection(), Some(End::First));
    let entry = |line, outcome| PolicyEntry {
        line,
        kind: EntryKind::Require,
        subject: "connections".to_owned(),
        outcome,
        message: "1 there (2 or more required)".to_owned(),
        observed: Some(Value::Count(1)),
        allowed: Some(Value::Count(2)),
    };
    let mut entries = vec![entry(3, EntryOutcome::Met), entry(4, EntryOutcome::Unused)];
    found.tally.policy = Some(Policed { file: "a/rdmascope.toml".to_owned(), entries: entries.clone() });
    let text = found.text();
    assert!(
        text.contains(".\nPolicy a/rdmascope.toml (2 entries): met.\n") && !found.tally.fails(),
        "{text}"
    );
    entries.extend([entry(9, EntryOutcome::Expired), entry(12, EntryOutcome::Failed)]);
    found.tally.policy = Some(Policed { file: "a/rdmascope.toml".to_owned(), entries });
    let text = found.text();
    let row = "  a/rdmascope.toml:12: require connections: 1 there (2 or more required)\n";
    assert!(
        text.contains("(4 entries): 2 failures.\n  a/rdmascope.toml:9: ") && text.contains(row),
        "{text}"
    );
    assert!(found.tally.fails() && !found.tally.is_broken());
}

#[test]
fn allowed_findings_are_shown_and_not_counted() {
    let mut found = Found::selection(SELECTION, 10, &["inline-threshold", "credit-limit"]);
    found.add(finding("inline-threshold", 2));
    found.add(finding("credit-limit", 4));
    assert!(!found.tally.is_broken());
    let text = found.text();
    for part in ["violation  inline-threshold  1 time, allowed\n", "\n2 violations (2 allowed), 0 warnings, "]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let mut found = Found::selection(SELECTION, 10, &["inline-threshold"]);
    found.add(finding("inline-threshold", 2));
    assert!(!found.tally.is_broken());
    found.add(finding("credit-limit", 4));
    assert!(found.tally.is_broken());
    // The suggestion is the first finding that is not allowed.
    assert!(found.text().contains("--explain credit-limit\n"));
}

#[test]
fn only_certain_violations_break_the_check() {
    let mut found = Found::new();
    found.add(finding("credit-request-zero", 1));
    found.add(finding("credit-starvation", 1));
    found.add(Finding { verdict: Verdict::Inconclusive, ..finding("credit-limit", 1) });
    assert!(!found.tally.is_broken());
}

#[test]
fn inconclusive_findings_are_counted() {
    let inconclusive = || Finding { verdict: Verdict::Inconclusive, ..finding("inline-threshold", 7) };
    let mut found = Found::new();
    found.add(inconclusive());
    found.connection(&samples::inferred(), Some(End::First));
    let text = found.text();
    assert!(
        text.starts_with("Nothing found for certain: 1 connection and 239 transactions judged by "),
        "{text}"
    );
    assert!(text.contains("Inconclusive: 1 of inline-threshold (--inconclusive lists them).\n"), "{text}");
    assert!(!text.contains("frame 7") && !text.contains("Next: "), "{text}");
    let mut found = Found::selection(Selection { inconclusive: true, ..SELECTION }, 10, &[]);
    found.add(inconclusive());
    found.add(finding("credit-limit", 9));
    let text = found.text();
    let first = text.find("violation  credit-limit  1 time\n").expect("a violation");
    let second =
        text.find("violation  inline-threshold  1 time, inconclusive\n").expect("an inconclusive one");
    assert!(first < second && text.contains("frame 7"), "{text}");
    assert!(text.contains("Inconclusive: 1 of inline-threshold.\n"), "{text}");
}

#[test]
fn limits_of_the_capture_are_reported() {
    let mut found = Found::new();
    let mut connection = samples::inferred();
    connection.requester.sent.missing_packets = 2;
    // No packet of the responder was captured.
    connection.responder.sent = Counts { missing_packets: 3, ..Counts::default() };
    connection.responder.first_frames = FirstFrames::default();
    found.connection(&connection, Some(End::First));
    found.tally.spoiled = 1;
    found.tally.sealed = 238;
    found.ending.totals.clocks_differ = Some(8);
    found.ending.totals.cut_records = 1;
    found.ending.totals.evictions = 1234;
    found.ending.files[0].cut = Some(Cut { offset: 24, needed: 16, available: 3 });
    let text = found.text().replace('\n', " ");
    for part in [
        "Nothing found: 1 connection and 239 transactions judged by ",
        " Limits of the capture: 1 connection was open before the capture began: ",
        "; 1 connection was captured in one direction only; on 1 connection, all packets of one end have a bad ICRC and were ignored (--no-icrc); 238 calls were encrypted (krb5p): \
        their operations, statuses and session slots are not judged; 5 packets are missing from the capture; ",
        "; the clocks of the capture points differ, and --with aligns their files; 1 packet was truncated by a snap length; \
         connections, calls and gaps evicted because tables were \
         full: 1,234",
        "; a.pcap: cut short at byte 24: 16 bytes needed, 3 available; analyzed up to there. ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let mut found = Found::new();
    assert_eq!(found.text(), "Nothing to judge: the capture has no connections.\n");
    found.ending.totals.packets = 0;
    assert_eq!(found.text(), "Nothing to judge: no RoCE packets.\n");
}

/// A finding may precede the packets that show which end opened the connection.
#[test]
fn the_breaking_end_is_named() {
    let who = |connection: &Connection, requester: Option<End>, by: End, by_requester: bool| {
        let mut found = Found::new();
        let by = Finding { by: Some(by), by_requester: Some(by_requester), ..finding("credit-limit", 4) };
        found.add(Finding { connection: Some(connection.id), ..by.clone() });
        found.connection(connection, requester);
        found.kept.end_of(&by_connection(by, connection))
    };
    fn by_connection(finding: Finding, connection: &Connection) -> Finding {
        Finding { connection: Some(connection.id), ..finding }
    }
    let known = samples::connection();
    assert_eq!(who(&known, Some(End::First), End::First, true).as_deref(), Some("client 10.77.0.1"));
    assert_eq!(who(&known, Some(End::First), End::Second, false).as_deref(), Some("server 10.77.0.2"));
    assert_eq!(who(&known, Some(End::Second), End::Second, true).as_deref(), Some("client 10.77.0.1"));
    // When the finding was reported, this end was assumed to be the client.
    assert_eq!(who(&known, Some(End::Second), End::First, true).as_deref(), Some("server 10.77.0.2"));
    assert_eq!(who(&known, None, End::First, false).as_deref(), Some("server"));
    let mut unknown = samples::inferred();
    unknown.state = State::Closed;
    assert_eq!(who(&unknown, Some(End::First), End::Second, false).as_deref(), Some("10.77.0.2"));
}

#[test]
fn rows_show_the_known_values() {
    let shown = |finding: Finding| {
        let mut found = Found::new();
        found.add(Finding { rule: rdmascope_conformance::rule("credit-limit"), ..finding });
        found
            .text()
            .lines()
            .find(|line| line.starts_with("    "))
            .map(str::trim)
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(shown(Finding::new("something").rests_on(Basis::Packets)), "something");
    let about = Finding { connection: Some(ConnectionId(3)), ..Finding::new("something") };
    assert_eq!(shown(about.clone().about(None, None).frames([7])), "#3  frame 7  something");
    let backward = about.about(Some(Direction::Backward), Xid(0)).frames([9, 1, 5, 7, 8, 30]);
    assert_eq!(shown(backward.clone()), "#3 <- 0x00000000  frames 1, 5, 7, 8 and 2 more  something");
    // Values follow the message unless it contains them.
    for (message, observed, allowed, expected) in [
        ("12 calls", Value::Count(12), Value::Count(1), "12 calls (allowed: 1)"),
        ("12 calls", Value::Count(2), Value::Count(1), "12 calls (seen: 2, allowed: 1)"),
        (
            "a Send of 1028 bytes",
            Value::Bytes(1028),
            Value::Bytes(1024),
            "a Send of 1028 bytes (allowed: 1024 bytes)",
        ),
        (
            "it took long",
            Value::Nanoseconds(4_560_000_000),
            Value::Name("long"),
            "it took long (seen: 4.56s)",
        ),
        ("\u{1b}[31m", Value::Words("\n".into()), Value::Count(1), "\\u{1b}[31m (seen: \\u{a}, allowed: 1)"),
    ] {
        assert_eq!(shown(Finding::new(message).values(observed, allowed)), expected);
    }
}

#[test]
fn the_next_step_is_a_show_command() {
    let next = |name: &str, finding: Finding| {
        let mut found = Found::new();
        found.ending.input = arguments(&[name]);
        found.add(Finding { rule: rdmascope_conformance::rule("credit-limit"), ..finding });
        let text = found.text();
        text.lines().find_map(|line| line.strip_prefix("Next: rdmascope show ")).map(ToOwned::to_owned)
    };
    let open = Finding { connection: Some(ConnectionId(2)), transaction: None, ..samples::finding() };
    assert_eq!(next("a.pcap", open.clone()).as_deref(), Some("a.pcap --xid 0x1a2b3c07 --connection 2"));
    assert_eq!(next("a b.pcap", open).as_deref(), Some("'a b.pcap' --xid 0x1a2b3c07 --connection 2"));
    assert_eq!(next("it's", Finding::new("something").frames([5])).as_deref(), Some("'it'\\''s' --frame 5"));
    assert_eq!(next("-a", Finding::new("something").frames([5])).as_deref(), Some("./-a --frame 5"));
    assert_eq!(next("a\nb", Finding::new("something").frames([5])).as_deref(), Some("FILE --frame 5"));
    assert_eq!(next("-", Finding::new("something").frames([5])).as_deref(), Some("FILE --frame 5"));
    assert_eq!(next("a.pcap", Finding::new("something")), None);
}

/// No subject has the name of a rule, because `--allow` accepts both.
#[test]
fn subject_names_are_not_rule_names() {
    for subject in rdmascope_conformance::SUBJECTS {
        let name = slug(subject.name);
        assert!(rdmascope_conformance::rule(&name).is_none(), "{name}");
        assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'), "{name}");
    }
}

#[test]
fn explanations_fit_the_screen() {
    for width in [60, 80, 200] {
        let screen = Screen { width, unicode: false, style: Style::default() };
        for rule in rdmascope_conformance::rules() {
            let mut out = Vec::new();
            write_rule(rule, screen, &mut out).expect("in-memory write");
            let text = String::from_utf8(out).expect("it is UTF-8");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let flat = text.replace('\n', " ");
            for part in
                [rule.id, rule.sentence, rule.explanation, &rule.level.to_string(), rule.sources[0].section]
            {
                assert!(flat.contains(part), "{part:?} is not in {flat}");
            }
        }
        let mut out = Vec::new();
        write_rules(screen, &mut out).expect("in-memory write");
        let text = String::from_utf8(out).expect("it is UTF-8");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(rdmascope_conformance::rules().all(|rule| text.contains(rule.id)), "{text}");
    }
}

#[test]
fn sources_of_one_document_are_merged() {
    let rule = rdmascope_conformance::rule("inline-threshold").expect("the rule exists");
    assert_eq!(
        listed(rule.sources),
        "RFC 8166, sections 3.3.2 and 3.3.3; RFC 8797, section 4.2; RFC 8167, section 4.2"
    );
}
