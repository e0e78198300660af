//! The glossary has every abbreviation in user-visible text.

mod binary;

use binary::{root, run, text};
use rdmascope_dissector::ulb::{Callback, Nfs2, Nfs3, Nfs4, OperationKind};
use rdmascope_present::glossary;
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Abbreviations and capitalized words known to readers of NFS documents and captures, or explained
/// in place.
const KNOWN: &str = "
    ARCHITECTURE CLICOLOR CLICOLOR_FORCE COLUMNS COMMAND CONTRIBUTING COUNT DIR DIRECTION EXPRESSION FACTOR FILE FIRST FORMAT FRAME GB LAST LEVEL
    MANIFEST MB NAME NO_COLOR OPTIONS OUTCOME PART PAGER PATTERN PORT PROBABILITY RDMASCOPE_PAGER RULE SHELL SIZE STATUS TERM TEXT TIME TMPDIR USER
    API ASCII CI CPU CRC CSV ERF ERSPAN GRE HTML IBTA ID III IP JSON MAC MIT NFSACL PDF RFC SARIF SLL SLL2 SQL SVG TCP TOML TUI UDP URL UTC UTF VLAN VM
    VXLAN GENEVE MPLS SMB SMC MOUNT
    FIFO SIGINT SIGTERM SCENARIO SECTION XML
    CAP_NET_ADMIN CLOCK DATE FIELD FILTER SIGKILL TSV TZ
    ADDR ADDRESS AUTH_ERROR CAP_NET_RAW CONDITION FOLDER HEX KIND MD5 NUMBER OPERATION PATH PERCENT PROC_UNAVAIL
    PROGRAM PROG_MISMATCH PROG_UNAVAIL RPC_MISMATCH SUCCESS SYSTEM_ERR TRACE WHAT WHEN
    WORD REASON QA UI
    CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER OCTAL SIGHUP
    A17 AUTH_SYS ERR_CHUNK ERR_VERS MUST NFS NFS4ERR_ NFS4ERR_DELAY OK SHOULD
";

/// Words of two capitals and more.
fn capitals(text: &str) -> BTreeSet<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character: char| !is_part(character))
        .filter(|word| word.len() > 1 && word.starts_with(|first: char| first.is_ascii_uppercase()))
        .filter(|word| !word.contains(|character: char| character.is_ascii_lowercase()))
        .collect()
}

/// Markdown without its code.
fn prose(document: &str) -> String {
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in document.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence && !line.starts_with("    ") {
            lines.push(line);
        }
    }
    lines.join("\n").split('`').step_by(2).collect()
}

/// The help of rdmascope and of all commands and subcommands.
fn help_texts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let arguments: Vec<&str> = ["help"].into_iter().chain(command.iter().map(String::as_str)).collect();
        let output = run(&arguments);
        let help = text(&output.stdout).to_owned();
        assert!(output.status.success() && !help.is_empty(), "help {command:?}");
        let listed = help.split_once("Commands:\n").map_or("", |(_, listed)| listed);
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().expect("a command has a name");
            if name != "help" {
                commands.push([command.clone(), vec![name.to_owned()]].concat());
            }
        }
        found.push((format!("help {}", command.join(" ")), help));
    }
    assert!(found.iter().any(|(source, _)| source == "help export html") && found.len() > 14);
    found
}

#[test]
fn every_abbreviation_is_in_the_glossary() {
    let mut explained: BTreeSet<&str> = KNOWN.split_whitespace().collect();
    glossary::entries().for_each(|entry| explained.extend(capitals(entry.term)));
    let operations = Nfs2::ALL.iter().map(|one| OperationKind::from(*one));
    let operations = operations.chain(Nfs3::ALL.iter().map(|one| (*one).into()));
    let operations = operations.chain(Nfs4::ALL.iter().map(|one| (*one).into()));
    explained
        .extend(operations.chain(Callback::ALL.iter().map(|one| (*one).into())).map(OperationKind::name));

    let mut texts: Vec<(String, String)> =
        ["README.md", "docs/tour.md", "docs/command-line.md", "docs/regress.md", "docs/glossary.md"]
            .map(|name| (name.to_owned(), prose(&read(&root().join(name)))))
            .to_vec();
    texts.extend(help_texts());
    let unexplained = |text| capitals(text).into_iter().filter(|word| !explained.contains(word));
    let found: Vec<_> =
        texts.iter().flat_map(|(source, text)| unexplained(text).map(move |word| (source, word))).collect();
    assert_eq!(found, [], "neither in docs/glossary.md nor known");
}

#[test]
fn capitals_and_prose_are_extracted() {
    assert_eq!(
        capitals("The BTH of RFC 8166 and RDMA_MSG, a Send, x86"),
        BTreeSet::from(["BTH", "RDMA_MSG", "RFC"])
    );
    assert_eq!(prose("one `TWO` three\n    FOUR\n```\nFIVE\n```\nsix"), "one  three\nsix");
}
