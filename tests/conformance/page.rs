//! docs/conformance.md is printed from the table of rules, and from what triggers each.

use crate::triggers;
use core::fmt::Write as _;
use rdmascope_conformance::{Rule, SUBJECTS, Subject};

/// What stands in front of the rules.
const INTRODUCTION: &str = "\
# The rules of `rdmascope check`

`rdmascope check FILE…` judges sessions by the requirements of the specifications. This page lists all rules: what each one requires, its
source, how it is decided, and the test that triggers it. Below the rules of each subject stand the requirements that no capture can
show to be broken, with the reason. The page is printed from the table that the command uses. `rdmascope check --rules` prints the rules, and
`rdmascope check --explain RULE` one of them.

## How to read findings

    violation  credit-grant-zero  1 time
      A Responder does not grant zero credits. RFC 8166, section 3.3.1; RFC 8167,
      section 4.1.
        #1 -> 0x0e396a62  frame 14  server 10.77.0.1: a reply that grants no credits (seen: 0, allowed: 1 or more)

This finding is on connection 1, about the transaction that the client called (`->`; `<-` marks calls by the server) with that XID. Frame 14 is
the evidence, and the server broke the rule. Behind the message stand the value seen and the value allowed, where the message does not name
them. The client is the end that opened the connection. Where the capture began later and does not show which end did, only the address is given.

**Levels.** A *violation* breaks what a specification says MUST be, or what the transport cannot work without. A *warning* breaks what
it says SHOULD be, or is likely to be a mistake. *Advice* is about what is allowed but costs performance. `--level` leaves out the lower levels.

**Inconclusive.** A capture may lack packets that were on the wire: it began later, the capturing host dropped some, or a snap length cut them.
A missing packet breaks no rule. A rule that depends on a packet not having been sent waits until it is certain that the capture holds all that
the end sent. Where that stays open, the finding is inconclusive: the capture may lack the packets that would explain it. Inconclusive findings
are counted apart, listed by `--inconclusive`, and never change the exit status.

**Exit status.** 1 where a violation stands or the policy is not kept to, 0 where neither is so, 2 for wrong usage and for files that are no capture. `--allow RULE` (or the name of
a subject) leaves findings out of the exit status. They are shown all the same, marked as allowed. A [policy](policy.md) beside the captures does the same for some servers, clients,
connections or versions, with a reason and a last day; it also says how long operations may take and what a capture must hold.

## For programs

`--format jsonl` writes a line for each finding as soon as it is certain, and a summary at the end: [json.md](json.md) describes the fields. `--format csv` and `tsv` write the findings as a [table](tables.md).

`--format sarif` writes a log of SARIF 2.1.0, as CI systems read it. The rules are the tool's rules. A finding is a `result` of level `error`
(violation), `warning` or `note` (advice). With `--inconclusive`, inconclusive findings are results of kind `review` and level `none`. An
allowed finding has a `suppression`. SARIF is made for source text, and some of its readers show no result without a line: the number of
the first frame is the `startLine`, and those of the other frames are `relatedLocations`. Where frames are numbered over several files,
the first file stands for all; with `--each` every file has a run, whose `automationDetails` name it. The `properties` of a result are its line of JSON Lines, and those of the run hold the `check` line.
The reason of a policy is the `justification` of the suppression, and entries of the policy that fail are notifications of the run.

`--format junit` writes JUnit XML: a test suite for each capture (with `--each` for each file), in it a test case for each rule that was asked, whose class is the subject of the rule. It fails where violations stand that are
not allowed, with the findings and their frames as its text, and is skipped where all findings are inconclusive. Warnings, advice and what is allowed are the output of a case that passes, so a report fails where the exit status does. The entries
of the policy are test cases of the class `policy`. A capture without connections and a file that cannot be read on are errors, of the class `capture`.
The report is valid by the schema of Jenkins' xUnit plugin (`junit-10.xsd`). It is not by that of Ant's tasks (`JUnit.xsd` of Windy Road), which wants the host, the date and the duration of each run,
so that two reports of one capture would differ, and has no place for the output of a test case.
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

/// What is said of a rule that is known to be broken names the option that allows it.
#[test]
fn what_is_known_of_a_rule_says_how_to_allow_it() {
    let known: Vec<_> =
        rdmascope_conformance::rules().filter_map(|rule| Some((rule.id, rule.known()?))).collect();
    assert_eq!(known.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["invalidation-sender-flag"]);
    assert!(known.iter().all(|(id, words)| words.contains(&format!("--allow {id} "))), "{known:?}");
}
