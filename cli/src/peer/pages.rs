//! Tests that print the tables of docs/peer.md from the columns. The fields of a line without
//! columns are compared with its table.

use super::report::lines as inject;
use super::{lines, replay};
use rdmascope_peer::scenario::{
    Alive, Level, Observed, Outcome, Pattern, Requirement, Scenario, Verdict, builtin,
};
use rdmascope_present::column::docs::json_table;
use rdmascope_present::column::{Kind, List, Role};
use rdmascope_present::json::Json as _;
use rdmascope_tests::pages;
use serde_json::Value;
use std::collections::BTreeSet;

fn all() -> Vec<&'static dyn List> {
    let scenario: &'static dyn List = &inject::SCENARIO;
    lines::LISTS.into_iter().chain([scenario]).chain(replay::lines::LISTS).collect()
}

#[test]
fn tables() {
    pages::compare("peer.md", |name| {
        let list = all().into_iter().find(|list| list.name() == name);
        json_table(list.unwrap_or_else(|| panic!("no list of columns is called {name}")))
    });
}

#[test]
fn every_list_is_documented() {
    let page = pages::text("peer.md");
    let names: Vec<_> = all().iter().map(|list| list.name()).collect();
    let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
        (pages::lists(&page).into_iter().collect(), names.iter().copied().collect());
    assert_eq!((found.len(), &found), (names.len(), &expected));
}

#[test]
fn names_are_unique_and_meanings_are_sentences() {
    fn look(list: &dyn List) {
        let mut names = BTreeSet::new();
        for (info, kind) in list.columns() {
            assert!(names.insert(info.name), "{} has two fields {}", list.name(), info.name);
            assert!(info.meaning.ends_with('.'), "{}.{}", list.name(), info.name);
            assert!(info.name != "type" || list.role() != Role::Line, "{}", list.name());
            if let Kind::Object(inner) | Kind::Objects(inner) = kind {
                look(inner);
            }
        }
    }
    all().into_iter().for_each(look);
}

/// Collects the fields of an object and of nested objects. `sections` has one field per section.
fn fields(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = match path {
            "" => name.clone(),
            "sections" => "sections.*".to_owned(),
            _ => format!("{path}.{name}"),
        };
        fields(value, &path, into);
        into.insert(path);
    }
}

fn scenario() -> Scenario {
    let requirement = Requirement {
        document: "rfc8166".to_owned(),
        section: "4.5".to_owned(),
        level: Level::Must,
        text: "what it says".to_owned(),
    };
    Scenario {
        name: "version-9".to_owned(),
        title: "a title".to_owned(),
        requirement,
        allowed: vec![Pattern::Silence],
        wrong: vec![Pattern::Done],
        ..builtin().swap_remove(0)
    }
}

/// `peer_injected` has an object with one field per section, which a list of columns cannot
/// describe.
#[test]
fn peer_injected_fields_are_documented() {
    let ran = inject::Ran { target: None, scenario: scenario(), outcome: None };
    let summary = inject::Summary::of(&[ran], 1);
    let line = serde_json::to_string(&summary).unwrap();
    let counts = |withheld: u8| {
        let verdicts =
            r#""conforms":0,"violates":0,"tolerated":0,"lost_connection":0,"no_answer":0,"not_applicable":0"#;
        format!(r#"{{{verdicts},"withheld":{withheld}}}"#)
    };
    let expected = format!(
        r#"{{"type":"peer_injected","scenarios":1,"counts":{},"sections":{{"rfc8166/4.5":{}}}}}"#,
        counts(1),
        counts(1)
    );
    assert_eq!(line, expected);
    let mut found = BTreeSet::new();
    fields(&serde_json::from_str(&line).unwrap(), "", &mut found);
    let page = pages::text("peer.md");
    let table = page
        .split("\n`peer_injected`")
        .nth(1)
        .expect("it is there")
        .split("\n\n")
        .nth(1)
        .expect("with a table");
    let documented: BTreeSet<String> =
        table.lines().skip(2).filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect();
    assert_eq!(documented, found);
}

/// A line of `inject` with every field, and one of a scenario that was not run.
#[test]
fn scenario_lines() {
    let withheld = inject::Ran { target: None, scenario: scenario(), outcome: None };
    let judged = inject::Ran {
        target: Some("192.0.2.1:20049".to_owned()),
        outcome: Some(Outcome {
            verdict: Verdict::Violates,
            reason: "no answer".to_owned(),
            sent: vec!["s".to_owned()],
            observed: vec![Observed::Silence],
            alive: Alive::Gone,
        }),
        ..withheld.clone()
    };
    let rest = r#""scenario":"version-9","title":"a title","section":"rfc8166/4.5","level":"MUST","requirement":"what it says""#;
    for (ran, target, end) in [
        (
            judged,
            r#""192.0.2.1:20049""#,
            r#""verdict":"violates","reason":"no answer","alive":"gone","sent":["s"],"observed":["nothing"],"allowed":["silence"],"wrong":["RDMA_DONE"]"#,
        ),
        (
            withheld,
            "null",
            r#""verdict":null,"reason":null,"alive":null,"sent":[],"observed":[],"allowed":["silence"],"wrong":["RDMA_DONE"]"#,
        ),
    ] {
        let line = inject::SCENARIO.of(&ran).to_json();
        assert_eq!(line, format!(r#"{{"type":"peer_scenario","target":{target},{rest},{end}}}"#));
    }
}

/// The words of the columns are the names of the verdicts.
#[test]
fn column_words_are_the_verdict_names() {
    let of = |name: &str| {
        let columns = List::columns(&inject::SCENARIO);
        let (_, kind) = columns.into_iter().find(|(info, _)| info.name == name).expect("the column is there");
        let Kind::Word(words) = kind else { panic!("{name} is no word") };
        words.iter().map(|word| word.word).collect::<Vec<_>>()
    };
    assert_eq!(of("verdict"), Verdict::ALL.map(Verdict::name));
    assert_eq!(of("alive"), [Alive::OnThis, Alive::OnNew, Alive::Gone, Alive::NotAsked].map(Alive::name));
}
