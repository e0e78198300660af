//! Scenarios against responders in memory. A correct responder conforms, and one with a single
//! fault gets the expected verdict. `rdmascope check` finds the fault that the scenario injected,
//! and nothing else.

mod callbacks;
mod page;
mod responder;
mod serving;
mod session;

use rdmascope_conformance::{Finding, Level};
use rdmascope_peer::endpoint::{Config, Endpoint};
use rdmascope_peer::packet::Datagram;
use rdmascope_peer::pair::{End, Pair};
use rdmascope_peer::rpcrdma::OfferLimits;
use rdmascope_peer::scenario::{
    Alive, BUILTIN, Injector, Need, Outcome, Runner, Scenario, Side, Target, Verdict, builtin, builtin_of,
    parse,
};
use rdmascope_peer::time::Instant;
use rdmascope_tests::judged;
use rdmascope_tests::pcap::{Capture, Packet, RAW};
use responder::{Responder, Wrong};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// An end whose outgoing datagrams are captured.
struct Tapped {
    end: Box<dyn End>,
    tap: Rc<RefCell<Vec<Packet>>>,
    outcome: Rc<RefCell<Option<Outcome>>>,
}

/// An injector that stores its outcome when it is over.
struct OutcomeRecorder(Injector, Rc<RefCell<Option<Outcome>>>);

impl OutcomeRecorder {
    fn record(&self) {
        if self.0.runner.is_over() {
            *self.1.borrow_mut() = self.0.runner.outcome();
        }
    }
}

impl End for OutcomeRecorder {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.0.handle(now, datagram);
        self.record();
    }

    fn handle_time(&mut self, now: Instant) {
        self.0.handle_time(now);
        self.record();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let datagram = self.0.poll_transmit(now);
        self.record();
        datagram
    }
}

impl End for Tapped {
    fn handle(&mut self, now: Instant, datagram: &Datagram) {
        self.end.handle(now, datagram);
    }

    fn handle_time(&mut self, now: Instant) {
        self.end.handle_time(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.end.next_deadline()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let datagram = self.end.poll_transmit(now)?;
        let mut tap = self.tap.borrow_mut();
        let number = tap.len() as u64 + 1;
        tap.push(Packet::of_peer(number, now, &datagram));
        Some(datagram)
    }
}

/// Runs a scenario against a responder, which offers Read chunks if the scenario expects one.
fn run(scenario: &Scenario, wrong: Wrong) -> (Outcome, Capture) {
    let responder =
        if scenario.expects_read_chunk() { Responder::reliable(wrong) } else { Responder::new(wrong) };
    run_against(scenario, Box::new(responder))
}

fn run_against(scenario: &Scenario, target: Box<dyn End>) -> (Outcome, Capture) {
    let tap = Rc::new(RefCell::new(Vec::new()));
    let outcome = Rc::new(RefCell::new(None));
    let local: IpAddr = "192.0.2.1".parse().unwrap();
    let remote: IpAddr = "192.0.2.2".parse().unwrap();
    let mut config = Config { guid: 1, ..Config::default() };
    config.cm.response_timeout = 16;
    config.cm.most_retries = 3;
    config.queue.timeout = Some(Duration::from_millis(10));
    let runner = Runner::new(scenario.clone(), Target::new(local, remote));
    let injector = Injector { endpoint: Endpoint::new(config, 5), runner };
    let tapped = |end: Box<dyn End>| Tapped { end, tap: tap.clone(), outcome: outcome.clone() };
    let mut pair = Pair::new(tapped(Box::new(OutcomeRecorder(injector, outcome.clone()))), tapped(target), 9);
    assert_eq!((pair.address_a, pair.address_b), (local, remote));
    let mut steps = 0;
    while pair.a.outcome.borrow().is_none() {
        assert!(pair.step(), "{}: no deadline is pending, but the scenario is not over", scenario.name);
        steps += 1;
        assert!(steps < 1_000_000, "{} does not end", scenario.name);
    }
    // Packets in flight belong to the capture: the DREP ends the connection.
    pair.run();
    let packets = core::mem::take(&mut *tap.borrow_mut());
    let outcome = outcome.borrow_mut().take().expect("it is over");
    (outcome, Capture { link: RAW, packets })
}

fn named(name: &str) -> Scenario {
    builtin()
        .into_iter()
        .find(|scenario| scenario.name == name)
        .unwrap_or_else(|| panic!("no scenario {name}"))
}

#[test]
fn correct_responder_conforms() {
    let mut wrong = Vec::new();
    for scenario in builtin() {
        let (outcome, _) = run(&scenario, Wrong::Nothing);
        if outcome.verdict != Verdict::Conforms || outcome.alive == Alive::Gone {
            wrong.push(format!("{}: {outcome:#?}", scenario.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn responder_of_the_peer_conforms() {
    let mut wrong = Vec::new();
    for scenario in builtin() {
        let (outcome, _) = run_against(&scenario, Box::new(session::Session::new()));
        // It sets R and offers no Read chunks.
        let lacks = scenario.needs.contains(&Need::NoRemoteInvalidation) || scenario.expects_read_chunk();
        let expected = if lacks { Verdict::NotApplicable } else { Verdict::Conforms };
        if outcome.verdict != expected || outcome.alive == Alive::Gone {
            wrong.push(format!("{}: {outcome:#?}", scenario.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Both respect their limits. The peer's are so low here that a second long reply frees the first
/// one.
#[test]
fn responders_with_reliable_reply_conform() {
    let limits = OfferLimits { bytes: 40_000, ..OfferLimits::default() };
    let mut wrong = Vec::new();
    for scenario in builtin() {
        let own: Box<dyn End> = Box::new(session::Session::reliable(limits));
        for target in [own, Box::new(Responder::reliable(Wrong::Nothing))] {
            let (outcome, _) = run_against(&scenario, target);
            let is_other = outcome.verdict == Verdict::NotApplicable
                && scenario.needs.contains(&Need::NoRemoteInvalidation);
            if outcome.verdict != Verdict::Conforms && !is_other || outcome.alive == Alive::Gone {
                wrong.push(format!("{}: {outcome:#?}", scenario.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without Read chunks, these scenarios do not apply.
#[test]
fn read_chunk_scenarios_need_a_responder_with_read_chunks() {
    let of_draft: Vec<Scenario> = builtin().into_iter().filter(Scenario::expects_read_chunk).collect();
    assert_eq!(of_draft.len(), 10);
    for scenario in of_draft {
        let (outcome, _) = run_against(&scenario, Box::new(Responder::new(Wrong::Nothing)));
        let why = match scenario.needs.contains(&Need::RemoteInvalidation) {
            true => "the target does not set R in its private data",
            false => "expected reply in a Read chunk, which did not arrive",
        };
        assert_eq!((outcome.verdict, &*outcome.reason), (Verdict::NotApplicable, why), "{}", scenario.name);
    }
}

fn rules(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().map(|finding| judged::rule(finding).id).collect()
}

#[test]
fn check_reports_exactly_the_injected_fault() {
    let mut wrong = Vec::new();
    for scenario in builtin() {
        let (_, capture) = run(&scenario, Wrong::Nothing);
        let findings = judged::findings(&capture);
        let expected: BTreeSet<&str> = scenario.check.iter().map(String::as_str).collect();
        if rules(&findings) != expected {
            let lines: Vec<String> = findings.iter().map(judged::line).collect();
            wrong.push(format!("{} {expected:?}:\n    {}", scenario.name, lines.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A finding that names a correct responder: it rejects a service that it does not have.
const NAMED: (&str, &str) = ("service-unknown", "connection-rejected");

/// In every scenario, no other finding accuses a correct responder.
#[test]
fn correct_responder_is_not_accused() {
    let mut wrong = Vec::new();
    for scenario in builtin() {
        let (_, capture) = run(&scenario, Wrong::Nothing);
        let mut findings = judged::findings(&capture);
        findings.retain(|finding| {
            let rule = judged::rule(finding);
            let is_fault = rule.level != Level::Advice && (scenario.name.as_str(), rule.id) != NAMED;
            is_fault && finding.by_requester == Some(false)
        });
        let lines: Vec<String> = findings.iter().map(judged::line).collect();
        if !lines.is_empty() {
            wrong.push(format!("{}:\n    {}", scenario.name, lines.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The calls that find out whether a silent responder is alive break no rule.
#[test]
fn calls_after_a_scenario_break_no_rule() {
    let mut wrong = Vec::new();
    for scenario in builtin() {
        let (_, capture) = run(&scenario, Wrong::Silent);
        let mut findings = judged::findings(&capture);
        findings.retain(|finding| finding.by_requester == Some(true));
        findings.retain(|finding| !scenario.check.iter().any(|id| id == judged::rule(finding).id));
        let lines: Vec<String> = findings.iter().map(judged::line).collect();
        if !lines.is_empty() {
            wrong.push(format!("{}:\n    {}", scenario.name, lines.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Responders with one fault, and the verdict on each.
const WRONG: &[(&str, Wrong, Verdict)] = &[
    ("version-9", Wrong::ChunkForVersion, Verdict::Violates),
    ("version-9", Wrong::VersionRange, Verdict::Violates),
    ("version-9", Wrong::ErrorVersion, Verdict::Violates),
    ("version-9", Wrong::Silent, Verdict::Violates),
    ("version-9", Wrong::Closes, Verdict::LostConnection),
    ("version-9", Wrong::Crashes, Verdict::Violates),
    ("version-9", Wrong::Succeeds, Verdict::Violates),
    ("version-9-unknown-body", Wrong::ChunkForVersion, Verdict::Violates),
    ("version-0", Wrong::Nothing, Verdict::Conforms),
    ("version-0", Wrong::ChunkForVersion, Verdict::Violates),
    ("version-2", Wrong::ChunkForVersion, Verdict::Violates),
    ("version-max", Wrong::ChunkForVersion, Verdict::Violates),
    ("procedure-5", Wrong::Silent, Verdict::Violates),
    ("procedure-max", Wrong::Silent, Verdict::Violates),
    ("procedure-5", Wrong::Succeeds, Verdict::Violates),
    ("procedure-5", Wrong::Closes, Verdict::LostConnection),
    ("nomsg-without-chunks", Wrong::Silent, Verdict::Violates),
    ("xid-mismatch", Wrong::Silent, Verdict::Violates),
    ("xid-mismatch", Wrong::Succeeds, Verdict::Conforms),
    ("read-list-discriminator", Wrong::Crashes, Verdict::Violates),
    ("read-list-discriminator", Wrong::Silent, Verdict::Violates),
    ("write-list-discriminator", Wrong::Silent, Verdict::Violates),
    ("reply-chunk-discriminator", Wrong::Silent, Verdict::Violates),
    ("msgp", Wrong::Silent, Verdict::NoAnswer),
    ("msgp", Wrong::Succeeds, Verdict::Tolerated),
    ("header-4-bytes", Wrong::AnswersDiscards, Verdict::Violates),
    ("header-16-bytes", Wrong::AnswersDiscards, Verdict::Violates),
    ("header-27-bytes", Wrong::AnswersDiscards, Verdict::Violates),
    ("error-vers-from-requester", Wrong::AnswersDiscards, Verdict::Violates),
    ("error-chunk-from-requester", Wrong::AnswersDiscards, Verdict::Violates),
    ("error-undecodable", Wrong::AnswersDiscards, Verdict::Violates),
    ("done-unsolicited", Wrong::AnswersDiscards, Verdict::Violates),
    ("done-after-reply", Wrong::AnswersDiscards, Verdict::Violates),
    ("reply-unknown-xid", Wrong::AnswersDiscards, Verdict::Violates),
    ("null", Wrong::NoCredit, Verdict::Violates),
    ("credits-zero", Wrong::EchoesCredits, Verdict::Violates),
    ("credits-huge", Wrong::EchoesCredits, Verdict::Tolerated),
    ("reply-chunk-returned", Wrong::KeepsChunks, Verdict::Violates),
    ("reply-chunk-without-segments", Wrong::KeepsChunks, Verdict::Violates),
    ("reply-chunk-empty-segments", Wrong::KeepsChunks, Verdict::Violates),
    ("write-chunk-unused", Wrong::KeepsChunks, Verdict::Violates),
    ("write-chunk-unused", Wrong::ReturnsChunksFull, Verdict::Violates),
    ("write-chunk-without-segments", Wrong::KeepsChunks, Verdict::Violates),
    ("invalidate-r-clear", Wrong::Invalidates, Verdict::Violates),
    ("invalidate-own-r-clear", Wrong::Invalidates, Verdict::Violates),
    ("reply-threshold-client", Wrong::LongInline, Verdict::Violates),
    ("reply-threshold-default", Wrong::LongInline, Verdict::Violates),
    ("private-data-version", Wrong::LongInline, Verdict::Violates),
    ("reply-too-large-no-chunk", Wrong::LongInline, Verdict::Violates),
    ("reply-too-large-no-chunk", Wrong::Silent, Verdict::NoAnswer),
    ("reply-chunk-too-small", Wrong::LongInline, Verdict::Violates),
    ("reply-chunk-too-small", Wrong::Closes, Verdict::LostConnection),
    ("short-call", Wrong::Silent, Verdict::NoAnswer),
    ("short-call", Wrong::Closes, Verdict::Conforms),
    ("short-call", Wrong::Succeeds, Verdict::Violates),
    ("private-data-own", Wrong::Reserved, Verdict::Violates),
    ("private-data-offset", Wrong::RefusesPrivateData, Verdict::NotApplicable),
    ("callback", Wrong::CallbackXid, Verdict::Violates),
    ("callback", Wrong::CallbackVersion, Verdict::Violates),
    ("callback-without-backchannel", Wrong::CallsWithoutBackchannel, Verdict::Violates),
    ("callback-connection-lost", Wrong::RepeatsCallback, Verdict::Tolerated),
    ("callback-reply-other-xid", Wrong::AnswersDiscards, Verdict::Tolerated),
    ("callback-reply-error-chunk", Wrong::Closes, Verdict::Conforms),
    ("callback-reply-twice", Wrong::AnswersDiscards, Verdict::Tolerated),
    ("send-duplicated", Wrong::Twice, Verdict::Violates),
    ("acknowledgement-lost", Wrong::Twice, Verdict::Violates),
    ("done-missing", Wrong::KeepsOffers, Verdict::Tolerated),
    ("done-missing", Wrong::Crashes, Verdict::Violates),
    ("done-missing-often", Wrong::OffersOnce, Verdict::Violates),
    ("done-twice", Wrong::AnswersDiscards, Verdict::Violates),
    ("done-twice", Wrong::AnswersDone, Verdict::Violates),
    ("done-other-connection", Wrong::FreesForAny, Verdict::Violates),
    ("done-other-connection", Wrong::AnswersDone, Verdict::Conforms),
    ("done-before-read", Wrong::AnswersDone, Verdict::Violates),
    ("done-before-read", Wrong::KeepsOffers, Verdict::Tolerated),
    ("read-after-done", Wrong::AnswersDone, Verdict::Violates),
    ("read-after-done", Wrong::KeepsOffers, Verdict::Tolerated),
    ("done-invalidate-r-clear", Wrong::AnswersDone, Verdict::Violates),
    ("done-invalidate-other", Wrong::AnswersDone, Verdict::Violates),
    ("done-invalidate-unknown", Wrong::Crashes, Verdict::Violates),
    ("read-past-chunk", Wrong::ExposesMore, Verdict::Violates),
    ("read-position-unaligned", Wrong::Silent, Verdict::NoAnswer),
    ("read-position-unaligned", Wrong::Succeeds, Verdict::Tolerated),
];

#[test]
fn faulty_responders_get_the_expected_verdict() {
    let mut wrong = Vec::new();
    for (name, responder, verdict) in WRONG {
        let (outcome, _) = run(&named(name), *responder);
        if outcome.verdict != *verdict {
            wrong.push(format!("{name} {responder:?}: {outcome:#?}"));
        }
        let crashed = *responder == Wrong::Crashes;
        assert_eq!(outcome.alive == Alive::Gone, crashed, "{name} {responder:?}: {outcome:#?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a scenario. Returns its outcome, and whether its file is left on the target.
fn file_left(scenario: &Scenario, wrong: Wrong) -> (Outcome, bool) {
    let responder = Responder::new(wrong);
    let file = responder.file();
    let (outcome, _) = run_against(scenario, Box::new(responder));
    (outcome, file.get())
}

#[test]
fn recall_scenarios_remove_their_file() {
    let recalls = builtin().into_iter().filter(|scenario| scenario.name.starts_with("callback"));
    for scenario in recalls {
        let (outcome, left) = file_left(&scenario, Wrong::Nothing);
        assert!(!left && outcome.reason.is_empty(), "{}: {outcome:#?}", scenario.name);
    }
    // The same if the scenario is aborted.
    for (wrong, why) in [
        (Wrong::NeverCallsBack, "expected a backward call, which did not arrive"),
        (Wrong::GrantsNone, "no read delegation was granted"),
    ] {
        let (outcome, left) = file_left(&named("callback-unanswered"), wrong);
        assert_eq!((outcome.verdict, &outcome.reason[..], left), (Verdict::NotApplicable, why, false));
    }
    // Without a backchannel, no delegation may be granted.
    let (outcome, left) = file_left(&named("callback-without-backchannel"), Wrong::GrantsNone);
    assert_eq!((outcome.verdict, left), (Verdict::Conforms, false), "{outcome:#?}");
}

#[test]
fn leftover_file_is_reported() {
    let (outcome, left) = file_left(&named("callback"), Wrong::KeepsFile);
    assert!(left && outcome.verdict == Verdict::Conforms, "{outcome:#?}");
    assert_eq!(outcome.reason, "the file rdmascope-5ce00000 may be left in the root of the export");
    // The connection is lost before the expected callback.
    let good = include_str!("../../peer/scenarios/callback-unanswered.toml");
    let lost = good.replacen("[[steps]]\nexpect", "[[steps]]\nabandon = {}\n\n[[steps]]\nexpect", 1);
    assert_ne!(lost, good);
    let (outcome, left) = file_left(&parse("x.toml", &lost).unwrap(), Wrong::Nothing);
    assert!(left && outcome.verdict == Verdict::NotApplicable, "{outcome:#?}");
    assert!(
        outcome
            .reason
            .ends_with("did not arrive; the file rdmascope-5ce00000 may be left in the root of the export")
    );
}

#[test]
fn not_applicable_outcome_has_a_reason() {
    let mut scenario = named("invalidate-r-clear");
    scenario.needs.push(Need::RemoteInvalidation);
    let (outcome, _) = run(&scenario, Wrong::Nothing);
    assert_eq!(outcome.verdict, Verdict::NotApplicable);
    assert_eq!(outcome.reason, "the target does not set R in its private data");
    assert_eq!((outcome.observed.len(), outcome.alive), (0, Alive::NotAsked));
}

#[test]
fn reply_instead_of_silence_is_not_applicable() {
    let good = include_str!("../../peer/scenarios/disconnect-mid-transfer.toml");
    let rules = good.find("[[steps]]\nrules").expect("the scenario has rules");
    let rest = good[rules..].find("[[steps]]\nsend").expect("a call follows the rules");
    // Without loss the reply arrives in time.
    let scenario = parse("x.toml", &[&good[..rules], &good[rules + rest..]].concat()).unwrap();
    let (outcome, _) = run(&scenario, Wrong::Nothing);
    assert_eq!(outcome.verdict, Verdict::NotApplicable);
    assert_eq!(outcome.reason, "expected silence, but got reply SUCCESS, credits 32");
    assert_eq!((outcome.observed.len(), outcome.alive), (0, Alive::NotAsked));
}

/// A message without rdma_vers has no version that an answer could repeat.
#[test]
fn version_of_an_answer_is_compared_with_the_call() {
    let reaction = |name: &str, responder| run(&named(name), responder).0.observed[0].to_string();
    assert_eq!(reaction("header-4-bytes", Wrong::AnswersDiscards), "RDMA_ERROR ERR_CHUNK, credits 32");
    let patched = include_str!("../../peer/scenarios/version-9.toml")
        .replace("send.vers = 9", "send.patch = [{ at = 4, bytes = \"00000009\" }]");
    let (outcome, _) = run(&parse("x.toml", &patched).unwrap(), Wrong::Nothing);
    assert_eq!(outcome.verdict, Verdict::Conforms, "{outcome:#?}");
}

#[test]
fn two_runs_are_identical() {
    let scenario = named("loss-one-in-twenty");
    assert_eq!(run(&scenario, Wrong::Nothing), run(&scenario, Wrong::Nothing));
}

/// peer/scenarios/ contains exactly the built-in scenarios, each in a file of its name.
#[test]
fn scenario_files_match_the_builtin_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../peer/scenarios");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let scenarios: BTreeSet<String> =
        BUILTIN.iter().map(|(file, text)| format!("{}.toml", parse(file, text).unwrap().name)).collect();
    assert_eq!(files, scenarios);
    let sides = [Side::Requester, Side::Responder].map(|side| builtin_of(side).len());
    assert_eq!(sides.iter().sum::<usize>(), files.len());
}

#[test]
fn parse_errors_include_the_line() {
    let good = include_str!("../../peer/scenarios/version-9.toml");
    assert!(parse("good.toml", good).is_ok());
    let error = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        parse("x.toml", &good.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let line = |needle: &str| good.lines().position(|line| line.contains(needle)).unwrap() + 1;
    let cases = [
        ("send.vers = 9", "send.version = 9", "unknown field `version`"),
        ("send.vers = 9", "send.vers = -1", "invalid value"),
        ("send.vers = 9", "send.payload = { hex = \"0x\" }", "not hex digits"),
        ("send.vers = 9", "send.into = \"nowhere\"", "memory nowhere is used before it is registered"),
        ("send.vers = 9", "send.times = 5000", "at most 4096 times"),
    ];
    for (from, to, message) in cases {
        let error = error(from, to);
        assert!(error.starts_with(&format!("x.toml:{}: ", line(from))) && error.contains(message), "{error}");
    }
    let cases = [
        ("observe = { within = 2000 }", "wait = 1", "exactly one step must observe"),
        ("name = \"version-9\"", "name = \"Version 9\"", "a name consists of lower case letters"),
        ("document = \"rfc8166\"", "document = \"rfc8166/4\"", "a document consists of lower case letters"),
        ("document = \"rfc8166\"", "document = \"\"", "a document consists of lower case letters"),
        ("section = \"4.5.1\"", "section = \"4.5.\"", "letters and digits, separated by dots"),
        ("section = \"4.5.1\"", "section = \"4.5 \\u009b31m\"", "letters and digits, separated by dots"),
        ("level = \"must\"", "level = \"may\"", "a MAY requirement has no wrong reactions"),
        (
            "    \"silence\",",
            "    { error = { code = \"vers\", has-version-1 = true, same-version = true } },",
            "both allowed and wrong",
        ),
        ("    \"silence\",", "    \"silent\",", "unknown variant"),
    ];
    for (from, to, message) in cases {
        let error = error(from, to);
        assert!(error.starts_with("x.toml:") && error.contains(message), "{error}");
    }
}

#[test]
fn rules_of_check_exist() {
    let known: BTreeSet<&str> = rdmascope_conformance::rules().map(|rule| rule.id).collect();
    for scenario in builtin() {
        for rule in &scenario.check {
            assert!(known.contains(rule.as_str()), "{}: {rule}", scenario.name);
        }
    }
}
