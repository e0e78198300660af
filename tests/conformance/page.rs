//! Generates docs/conformance.md from the table of rules and their triggers.

use crate::triggers;
use core::fmt::Write as _;
use rdmascope_conformance::{Rule, SUBJECTS, Subject};

/// The introduction of the page.
const INTRODUCTION: &str = "\
# The rules of `rdmascope check`

`rdmascope check FILE…` judges sessions by the requirements of the specifications. This page lists
all rules: the requirement, its source, how it is decided, and the test that triggers it. Each
subject ends with the requirements that no capture can show to be broken, with the reason. The page
is generated from the table that the command uses. `rdmascope check --rules` prints the rules, and
`rdmascope check --explain RULE` one of them. [coverage.md](coverage.md) lists the sentences of RFC
8166, RFC 8167, RFC 8267, RFC 8797 and the reliable-reply draft, each with its rules.

## How to read findings

    violation  credit-grant-zero  1 time
      A Responder does not grant zero credits. RFC 8166, section 3.3.1; RFC 8167,
      section 4.1.
        #1 -> 0x0e396a62  frame 14  server 10.77.0.1: a reply that grants no credits (seen: 0, allowed: 1 or more)

This finding is on connection 1, about the transaction with that XID, which the client called (`->`;
`<-` marks calls by the server). Frame 14 is the evidence, and the server broke the rule. The seen
and the allowed value follow the message unless it names them. The client is the end that opened the
connection. If the capture began later and does not show which end did, only the address is given.

**Levels.** A *violation* breaks a MUST of a specification, or a condition without which the
transport cannot work. A *warning* breaks a SHOULD, or is probably a mistake. *Advice* is about
things that are allowed but cost performance. `--level` leaves out the lower levels.

**Inconclusive.** A capture may lack packets that were on the wire: it began later, the capturing
host dropped some, or a snap length cut them. A missing packet breaks no rule. A rule that depends
on the absence of a packet is decided only when the capture certainly has all packets of that end.
If that stays open, the finding is inconclusive: the capture may lack the packets that would explain
it. The same applies to a transaction whose call or reply was cut before msg_type, unless the reply
returns a chunk of the call, and to a reply in a Read chunk whose msg_type was not seen: the message
may belong to a transaction of the other direction with the same XID. Inconclusive findings are
counted separately, `--inconclusive` lists them, and they never change the exit status.

**Exit status.** 1 if a violation is conclusive, the policy is broken, or a client lost its service for
a second or longer (the event `service-lost` of a connection that was made); 0 if not; 2 for wrong
usage and for files that are no capture. `--allow RULE` (or the name of a subject) excludes findings
from the exit status; they are still shown, marked as allowed. A [policy](policy.md) next to the
captures does the same for some servers, clients, connections or versions, with a reason and a last
day. It also limits the duration of operations and sets requirements on the capture.

## For programs

`--format jsonl` writes a line for each finding as soon as it is certain, and a summary at the end:
[json.md](json.md) describes the fields. `--format csv` and `tsv` write the findings as a
[table](tables.md).

`--format sarif` writes a SARIF 2.1.0 log for CI systems. The rules are the tool's rules. A finding
is a `result` of level `error` (violation), `warning` or `note` (advice). With `--inconclusive`,
inconclusive findings are results of kind `review` and level `none`. An allowed finding has a
`suppression`. SARIF is made for source text, and some of its readers show no result without a line:
the `startLine` is the number of the first frame, and those of the other frames are
`relatedLocations`. If frames are numbered over several files, all locations name the first file;
with `--each` every file has a run, whose `automationDetails` name it. The `properties` of a result
are its line of JSON Lines, and those of the run have the `check` line. The reason in a policy is
the `justification` of the suppression. The notifications of the run have the policy entries that
fail, the outages that lead the output, and, with `--each`, why a file cannot be read.

`--format junit` writes JUnit XML: a test suite for each capture (with `--each` for each file), with
a test case for each rule that was selected; its class is the subject of the rule. A test case fails
if it has conclusive violations that are not allowed; its text has the findings and their frames. It
is skipped if all findings are inconclusive. Warnings, advice and allowed findings are the output of
a passing case, so a report fails exactly if the exit status does. Time without service on a
connection that was made fails the case `service` of the class `events`. The entries of the policy
are test cases of the class `policy`. A capture without connections and a file with a read error are
errors, of the class `capture`; with `--each`, so is a file that cannot be opened. The report is
valid by the schema of Jenkins' xUnit plugin (`junit-10.xsd`). It is not valid by that of Ant's tasks
(`JUnit.xsd` of Windy Road): that schema requires the host, the date and the duration of each run, so
that two reports of one capture would differ, and it has no place for the output of a test case.
";

#[test]
fn page_matches_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/conformance.md");
    let page = page();
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        std::fs::write(path, page).expect("the page can be written");
        return;
    }
    let written = std::fs::read_to_string(path).expect("docs/conformance.md exists");
    let differing = page.lines().zip(written.lines()).find(|(expected, found)| expected != found);
    assert!(
        page == written,
        "docs/conformance.md differs from the table of rules; CONTRIBUTING.md describes how to regenerate \
         it. {differing:#?}"
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
    let _ = write!(page, "\n### Not visible in a capture\n\n");
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

/// The text on a rule that Linux is known to break names the option that allows it.
#[test]
fn known_violations_name_the_allow_option() {
    let known: Vec<_> =
        rdmascope_conformance::rules().filter_map(|rule| Some((rule.id, rule.known()?))).collect();
    assert_eq!(known.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["invalidation-sender-flag"]);
    assert!(known.iter().all(|(id, words)| words.contains(&format!("--allow {id} "))), "{known:?}");
}
