//! docs/coverage.md is printed from the table.

use crate::table::{self, Neither, Sentence, Specification, WithoutKeyword};
use core::fmt::Write as _;

const INTRODUCTION: &str = "\
# The specifications, sentence by sentence

This page lists every sentence of five specifications that has a requirement keyword. Beside each
sentence are the rule of [`rdmascope check`](conformance.md) that notices a breach in a capture, and
the [scenario](scenarios.md) that tries the sentence on a live peer, or the reason why there is
neither. A test prints the page from tests/coverage/*.toml and compares the data with the texts of the
specifications. The texts are not in this repository, so the sentences are in our words.

## How sentences are counted

- The keywords are those of RFC 2119 and RFC 8174 in capitals: MUST, MUST NOT, REQUIRED, SHALL, SHALL
  NOT, SHOULD, SHOULD NOT, RECOMMENDED, NOT RECOMMENDED, MAY and OPTIONAL.
- The number after the section counts the sentences of that section that have a keyword. Subsections
  count for themselves.
- A sentence ends with a period, and with its paragraph. An item of a list is a paragraph. A page break
  ends nothing.
- Not counted are the front matter, the sentence that defines the keywords, program text and the
  appendices. A sentence that quotes another document counts.

## How to read the tables

- **Rules** report a breach, at least in some cases. The note names the others.
- **Scenarios** test whether the peer follows the sentence. Those after *breach:* break the sentence
  themselves, and test how the peer reacts.
- A sentence with only MAY or OPTIONAL is a permission, which nobody can break. Its rules report where
  it is used. Its scenarios use it, or leave the choice to the peer.

If a sentence has neither rule nor scenario, its note begins with the reason:

| reason | meaning |
|---|---|
";

#[test]
fn page_matches_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/coverage.md");
    let page = page();
    if rdmascope_tests::pages::is_blessing() {
        std::fs::write(path, page).expect("the page can be written");
        return;
    }
    let written = rdmascope_tests::pages::text("coverage.md");
    let differing = page.lines().zip(written.lines()).find(|(expected, found)| expected != found);
    assert!(page == written, "docs/coverage.md differs from tests/coverage/*.toml: {differing:#?}");
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for neither in Neither::ALL {
        let _ = writeln!(page, "| {} | {} |", neither.name(), neither.meaning());
    }
    let specifications = table::all();
    for specification in &specifications {
        write_specification(specification, &mut page);
    }
    write_totals(&specifications, &mut page);
    write_wanted(&specifications, &mut page);
    page
}

fn write_specification(specification: &Specification, page: &mut String) {
    let _ = write!(page, "\n## {}\n\n", specification.title);
    page.push_str(
        "| section | keywords | requirement | rules | scenarios | note |\n|---|---|---|---|---|---|\n",
    );
    for sentence in &specification.sentences {
        let Sentence { section, ordinal, keywords, subject, rules, .. } = sentence;
        let cells = [
            &format!("{section}, {ordinal}"),
            keywords,
            subject,
            &code(rules),
            &tries(sentence),
            &note(sentence),
        ];
        let _ = writeln!(page, "| {} |", cells.map(String::as_str).join(" | "));
    }
    if specification.without_keyword.is_empty() {
        return;
    }
    page.push_str("\nThese rules and scenarios rest on sentences without a keyword:\n\n");
    page.push_str("| section | subject | rules | scenarios |\n|---|---|---|---|\n");
    for WithoutKeyword { section, subject, rules, scenarios } in &specification.without_keyword {
        let _ = writeln!(page, "| {section} | {subject} | {} | {} |", code(rules), code(scenarios));
    }
}

fn code(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn tries(sentence: &Sentence) -> String {
    let (provokes, injects) = (code(&sentence.provokes), code(&sentence.injects));
    match (provokes.is_empty(), injects.is_empty()) {
        (_, true) => provokes,
        (true, false) => format!("*breach:* {injects}"),
        (false, false) => format!("{provokes}; *breach:* {injects}"),
    }
}

fn note(sentence: &Sentence) -> String {
    let note = sentence.note.clone().unwrap_or_default();
    sentence.neither.map_or(note.clone(), |neither| format!("*{}.* {note}", neither.name()))
}

fn write_totals(specifications: &[Specification], page: &mut String) {
    page.push_str("\n## Totals\n\n");
    let reasons = Neither::ALL.map(Neither::name).join(" | ");
    let _ = writeln!(page, "| sentences of | sentences | rule | scenario | rule or scenario | {reasons} |");
    let _ = writeln!(page, "|---|{}", "--:|".repeat(4 + Neither::ALL.len()));
    let all = || specifications.iter().flat_map(|it| &it.sentences);
    for specification in specifications {
        write_total(specification.name(), &specification.sentences.iter().collect::<Vec<_>>(), page);
    }
    write_total("all", &all().collect::<Vec<_>>(), page);
    let (permissions, requirements): (Vec<_>, Vec<_>) = all().partition(|it| it.is_permission());
    write_total("all, requirements only", &requirements, page);
    write_total("all, permissions only", &permissions, page);
}

fn write_total(name: &str, sentences: &[&Sentence], page: &mut String) {
    let count = |wanted: &dyn Fn(&Sentence) -> bool| sentences.iter().filter(|it| wanted(it)).count();
    let mut counts = vec![
        sentences.len(),
        count(&|it| !it.rules.is_empty()),
        count(&Sentence::has_scenario),
        count(&Sentence::is_covered),
    ];
    counts.extend(Neither::ALL.map(|neither| count(&|it| it.neither == Some(neither))));
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    let _ = writeln!(page, "| {name} | {} |", counts.join(" | "));
}

/// Rules and scenarios that would close gaps, each with its sentences.
fn write_wanted(specifications: &[Specification], page: &mut String) {
    let mut wanted: Vec<(&str, Vec<String>)> = Vec::new();
    for specification in specifications {
        let name = specification.name();
        for Sentence { section, ordinal, wanted: own, .. } in &specification.sentences {
            let Some(own) = own.as_deref() else { continue };
            let place = format!("{name}, {section}, {ordinal}");
            match wanted.iter_mut().find(|(known, _)| *known == own) {
                Some((_, places)) => places.push(place),
                None => wanted.push((own, vec![place])),
            }
        }
    }
    page.push_str("\n## Not yet\n\nThese rules and scenarios are possible:\n\n");
    for (wish, places) in wanted {
        let _ = writeln!(page, "- {wish} ({})", places.join("; "));
    }
}
