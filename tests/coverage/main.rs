//! The requirements of the specifications, sentence by sentence, with the rule of `rdmascope check`
//! and the scenario of `rdmascope peer` for each.
//!
//! `*.toml` next to this file is the data. docs/coverage.md is printed from it. The texts of the
//! specifications are not in this repository: RDMASCOPE_SPEC names the folders with them.

mod page;
mod table;
mod text;

use rdmascope_conformance::{Document, SUBJECTS, rule, rules};
use rdmascope_peer::scenario::{Scenario, Side, builtin, builtin_of};
use std::collections::BTreeMap;
use std::path::PathBuf;
use table::{Neither, Sentence, Specification};

/// All scenarios, of both sides.
fn scenarios() -> Vec<Scenario> {
    [builtin(), builtin_of(Side::Responder)].concat()
}

/// The text of a specification, where RDMASCOPE_SPEC has it.
fn text_of(specification: &Specification) -> Option<String> {
    let folders = std::env::var_os("RDMASCOPE_SPEC")?;
    let places: Vec<PathBuf> =
        std::env::split_paths(&folders).map(|folder| folder.join(specification.file)).collect();
    places.iter().find_map(|place| std::fs::read_to_string(place).ok())
}

/// Section, ordinal and keywords.
type Place = (String, usize, String);

fn places_of(sentences: &[Sentence]) -> Vec<Place> {
    let place = |it: &Sentence| (it.section.clone(), it.ordinal, it.keywords.clone());
    sentences.iter().map(place).collect()
}

#[test]
fn table_matches_the_specification_texts() {
    let (compared, missing): (Vec<_>, Vec<_>) =
        table::all().into_iter().map(|it| (text_of(&it), it)).partition(|(text, _)| text.is_some());
    assert!(
        std::env::var_os("RDMASCOPE_SPEC").is_none() || !compared.is_empty(),
        "RDMASCOPE_SPEC has no text of a specification"
    );
    for (_, specification) in missing {
        eprintln!("{} is not in RDMASCOPE_SPEC: its text was not compared", specification.file);
    }
    for (text, specification) in compared {
        let found = text::requirements(&text.unwrap_or_default());
        let expected: Vec<Place> =
            found.iter().map(|it| (it.section.clone(), it.ordinal, it.keywords.join(", "))).collect();
        assert_eq!(places_of(&specification.sentences), expected, "{}", specification.file);
    }
}

#[test]
fn section_counts_match_the_sentences() {
    for Specification { file, sections, sentences, .. } in table::all() {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for sentence in sentences {
            let count = counts.entry(sentence.section.clone()).or_default();
            *count += 1;
            assert_eq!(sentence.ordinal, *count, "{file}, section {}", sentence.section);
        }
        assert_eq!(counts, sections, "{file}");
    }
}

#[test]
fn rules_and_scenarios_exist() {
    let scenarios = scenarios();
    for Specification { file, sentences, without_keyword, .. } in table::all() {
        let named = sentences.iter().map(|it| (&it.rules, [&it.provokes[..], &it.injects].concat()));
        let named = named.chain(without_keyword.iter().map(|it| (&it.rules, it.scenarios.clone())));
        for (rules, named) in named {
            for id in rules {
                assert!(rule(id).is_some(), "{file} names the rule {id}");
            }
            for name in named {
                assert!(scenarios.iter().any(|it| it.name == name), "{file} names the scenario {name}");
            }
        }
    }
}

#[test]
fn uncovered_sentences_have_a_reason() {
    for Specification { file, sentences, .. } in table::all() {
        for sentence in sentences {
            let place = format!("{file}, section {}, sentence {}", sentence.section, sentence.ordinal);
            assert_eq!(sentence.is_covered(), sentence.neither.is_none(), "{place}");
            assert!(sentence.neither.is_none() || sentence.note.is_some(), "{place} has no note");
            let is_permitted = sentence.neither == Some(Neither::Permission);
            assert!(!is_permitted || sentence.is_permission(), "{place} is no permission");
            assert!(
                !sentence.is_permission() || sentence.injects.is_empty(),
                "a permission cannot be broken: {place}"
            );
            let is_open = sentence.neither == Some(Neither::NotYet);
            assert!(!is_open || sentence.wanted.is_some(), "{place} lacks a wish");
        }
    }
}

/// docs/conformance.md lists the requirements that no capture shows.
#[test]
fn invisible_requirements_are_listed_with_the_rules() {
    let unseen = || SUBJECTS.iter().flat_map(|subject| subject.unseen).map(|unseen| unseen.source);
    for Specification { file, document, sentences, .. } in table::all() {
        let listed = sentences.iter().filter(|it| it.neither.is_some_and(Neither::is_listed_with_rules));
        for Sentence { section, .. } in listed {
            let is_listed = unseen().any(|source| source.document == document && source.section == section);
            assert!(
                is_listed,
                "{file}, section {section} is not among the requirements that are not visible"
            );
        }
    }
}

/// Sections of a document that a rule cites, in which the table does not name it.
fn unnamed(specification: &Specification) -> Vec<(&'static str, &'static str)> {
    let cited = rules().flat_map(|rule| rule.sources.iter().map(|source| (rule.id, source)));
    let cited = cited.filter(|(_, source)| source.document == specification.document);
    let names = |section: &str, id: &str| {
        let mut sentences = specification.sentences.iter().filter(|it| it.section == section);
        let mut without_keyword = specification.without_keyword.iter().filter(|it| it.section == section);
        sentences.any(|it| it.rules.iter().any(|rule| rule == id))
            || without_keyword.any(|it| it.rules.iter().any(|rule| rule == id))
    };
    cited.map(|(id, source)| (id, source.section)).filter(|(id, section)| !names(section, id)).collect()
}

#[test]
fn each_rule_is_named_in_the_sections_that_it_cites() {
    for specification in table::all() {
        assert_eq!(unnamed(&specification), [], "{}", specification.file);
    }
}

#[test]
fn each_scenario_is_named() {
    for Specification { file, document, sentences, without_keyword, .. } in table::all() {
        let own = scenarios().into_iter().filter(|it| document_of(it) == Some(document));
        let is_named = |name: &String| {
            sentences.iter().any(|it| it.provokes.contains(name) || it.injects.contains(name))
                || without_keyword.iter().any(|it| it.scenarios.contains(name))
        };
        let missing: Vec<String> = own.map(|it| it.name).filter(|name| !is_named(name)).collect();
        assert_eq!(missing, [""; 0], "{file}");
    }
}

/// The specification that a scenario cites, if the table has it.
fn document_of(scenario: &Scenario) -> Option<Document> {
    let section = scenario.section();
    let (name, _) = section.split_once('/')?;
    table::all().iter().find(|it| it.scenario_name == name).map(|it| it.document)
}
