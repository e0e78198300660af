//! docs/conformance.md is printed from the table of rules, and from what triggers each.

use crate::triggers;
use core::fmt::Write as _;
use rdmascope_conformance::{Rule, SUBJECTS, Subject};

/// What stands in front of the rules.
const INTRODUCTION: &str = "\
# The rules of `rdmascope check`

`rdmascope check FILE…` judges sessions by requirements of the specifications. This page lists all of them: what each asks, where it stands,
how it is decided, and which test shows that it works. Below the rules of a subject stand the requirements on it that no capture can show,
and why. The page is printed from the table that the command itself uses; `rdmascope check --rules` prints the rules,
`rdmascope check --explain RULE` one of them.

## How to read findings

    violation  credit-grant-zero  1 time
      A Responder does not grant zero credits. RFC 8166, section 3.3.1; RFC 8167,
      section 4.1.
        #1 -> 0x0e396a62  frame 14  server 10.77.0.1: a reply that grants no credits (seen: 0, allowed: 1 or more)

A finding is on connection 1, about the transaction that the client called (`->`; `<-` are calls by the server) with that XID. Frame 14 is the
evidence. The server did it; and behind the message stand the value seen and the value allowed, where the message does not name them.
Who opened a connection is its client here. Where that was before the capture began and cannot be told, only the address is given.

**Levels.** A *violation* breaks what a specification says MUST be, or what the transport cannot work without. A *warning* breaks what
it says SHOULD be, or is likely to be a mistake. *Advice* is about what is allowed, and costs performance. `--level` leaves out the lower ones.

**Inconclusive.** A capture may lack packets that were on the wire: it began later, the capturing host dropped some, a snap length cut them. What is
missing is no misbehaviour. So a rule that rests on something which is not in the capture waits until it is certain that it was not on the
wire either, and where that stays open the finding is inconclusive: counted apart, listed by `--inconclusive`, and never a reason for
the exit status.

**Exit status.** 1 where a violation stands, 0 where none does, 2 for wrong usage and what is no capture. `--allow RULE` (or the name of a
subject) leaves findings out of the exit status. They are shown all the same, marked as allowed.

## For programs

`--format jsonl` writes a line for each finding as soon as it is certain, and at the end what was judged: [json.md](json.md) has the fields.

`--format sarif` writes a log of SARIF 2.1.0, as CI systems take it. The rules are the tool's rules; a finding is a `result` of level `error`
(violation), `warning` or `note` (advice). With `--inconclusive` there are results of kind `review` and level `none` for what is inconclusive. What
is allowed has a `suppression`. SARIF is made for source text, and some of its readers show no result that has no line: the number of
the first frame stands as `startLine`, those of the other frames are `relatedLocations`. Of several files, over which frames are numbered,
the first stands for all. `properties` of a result are the line of JSON Lines; those of the run hold the `check` line.
";

#[test]
fn the_page_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/conformance.md");
    let page = page();
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        std::fs::write(path, page).expect("the page can be written");
        return;
    }
    let written = std::fs::read_to_string(path).expect("docs/conformance.md is there");
    let differing = page.lines().zip(written.lines()).find(|(expected, found)| expected != found);
    assert!(
        page == written,
        "docs/conformance.md is not what the table of rules says; CONTRIBUTING.md says how it is written anew. {differing:#?}"
    );
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for subject in SUBJECTS.iter().filter(|subject| !(subject.rules.is_empty() && subject.unseen.is_empty()))
    {
        write_subject(subject, &mut page);
    }
    page
}

fn write_subject(subject: &Subject, page: &mut String) {
    let _ = write!(page, "\n## {}\n", subject.name);
    for rule in subject.rules {
        write_rule(rule, page);
    }
    if subject.unseen.is_empty() {
        return;
    }
    let _ = write!(page, "\n### What a capture cannot show of this\n\n");
    page.push_str("| source | requirement | why |\n|---|---|---|\n");
    for unseen in subject.unseen {
        let cells = [unseen.source.to_string(), unseen.requirement.to_owned(), unseen.reason.to_owned()];
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
}

fn write_rule(rule: &Rule, page: &mut String) {
    let sources: Vec<String> = rule.sources.iter().map(ToString::to_string).collect();
    let tests: Vec<&str> =
        triggers().filter(|trigger| trigger.rule == rule.id).map(|trigger| trigger.alteration).collect();
    let _ = write!(
        page,
        "\n### `{}`\n\n*{}*, {}\n\n**{}** {}\n\nTested by a session in which {}.\n",
        rule.id,
        rule.level,
        sources.join("; "),
        rule.sentence,
        rule.explanation,
        tests.join("; by one in which "),
    );
}
