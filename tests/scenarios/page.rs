//! Checks that docs/scenarios.md contains every scenario and every word of the file format, and
//! that docs/verdicts.md contains every scenario with the verdicts of the lab.

use rdmascope_peer::scenario::{Scenario, Side, builtin, builtin_of, parse};
use std::path::{Path, PathBuf};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenarios.md");
const MARK: &str = "cargo test -p rdmascope-tests --test scenarios page -->\n";

/// The tables of both sides.
fn tables() -> String {
    let clients = "\n### Of the responder's side\n\n`rdmascope peer serve --scenario` runs them.\n";
    [&table(&builtin()), clients, &table(&builtin_of(Side::Responder))].concat()
}

fn table(scenarios: &[Scenario]) -> String {
    let mut out = String::from("\n| scenario | what it does | section | |\n|---|---|---|---|\n");
    for scenario in scenarios {
        let requirement = &scenario.requirement;
        let destructive = if scenario.destructive { ", destructive" } else { "" };
        out += &format!(
            "| [`{name}`](../peer/scenarios/{name}.toml) | {}. | {} | {}{destructive} |\n",
            scenario.title,
            scenario.section(),
            requirement.level,
            name = scenario.name,
        );
    }
    out
}

#[test]
fn page_has_the_scenarios() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let (front, rest) = page.split_once(MARK).expect("the page has its marker");
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        std::fs::write(PATH, format!("{front}{MARK}{}", tables())).unwrap();
    } else {
        assert!(rest == tables(), "docs/scenarios.md differs from the scenarios: bless it");
    }
}

/// The keys and words in an error message of the parser, which lists all valid ones.
fn expected(replaced: &str, by: &str) -> Vec<String> {
    let good = include_str!("../../peer/scenarios/version-9.toml");
    assert!(good.contains(replaced), "{replaced}");
    let error = parse("x", &good.replacen(replaced, by, 1)).unwrap_err().to_string();
    let names = error.split_once("expected").unwrap_or_else(|| panic!("{error}")).1;
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn page_has_every_word() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let step = "send.vers = 9";
    let allowed = "{ error = { code = \"vers\", has-version-1 = true, same-version = true } }";
    let mut words = expected("survives = true", "zzz = 1");
    words.extend(expected("level = \"must\"", "zzz = 1"));
    words.extend(expected("level = \"must\"", "level = \"zzz\""));
    words.extend(expected("survives = true", "needs = [\"zzz\"]"));
    for by in [
        "zzz = 1",
        "connect.zzz = 1",
        "connect.private-data.zzz = 1",
        "register.zzz = 1",
        "register = { name = \"a\", length = 1, access = \"zzz\" }",
        "register = { name = \"a\", length = 1, access = \"read\", fill = \"zzz\" }",
        "send.zzz = 1",
        "send.payload = \"zzz\"",
        "send.payload.read.zzz = 1",
        "send.payload.write.zzz = 1",
        "send.reads = [{ zzz = 1 }]",
        "send.reply = [{ zzz = 1 }]",
        "send.patch = [{ zzz = 1 }]",
        "send.error.zzz = 1",
        "send-raw.zzz = 1",
        "write.zzz = 1",
        "read.zzz = 1",
        "session.zzz = 1",
        "rules = [{ zzz = 1 }]",
        "rules = [{ direction = \"zzz\" }]",
        "rules = [{ direction = \"in\", effect = \"zzz\" }]",
        "expect.zzz = 1",
        "observe.zzz = 1",
        "observe = { within = 1, until = \"zzz\" }",
    ] {
        words.extend(expected(step, by));
    }
    let steps = [
        "call.zzz = 1",
        "call.chunk = \"zzz\"",
        "reply.zzz = 1",
        "reply.xid = \"zzz\"",
        "reply.invalidate = \"zzz\"",
        "reply.writes.zzz = 1",
        "write-beyond.zzz = 1",
    ];
    steps.iter().for_each(|by| words.extend(expected(step, by)));
    words.extend(expected("survives = true", "side = \"zzz\""));
    for by in [
        "\"zzz\"",
        "{ callback = { zzz = 1 } }",
        "{ reply = { zzz = 1 } }",
        "{ reply = { status = \"zzz\" } }",
        "{ reply = { writes = \"zzz\" } }",
        "{ error = { zzz = 1 } }",
        "{ call = { zzz = 1 } }",
        "{ nak = \"zzz\" }",
        "{ closed = { zzz = 1 } }",
        "{ closed = { how = \"zzz\" } }",
        "{ rejected = { zzz = 1 } }",
        "{ connected = { zzz = 1 } }",
    ] {
        words.extend(expected(allowed, by));
    }
    assert!(words.len() > 100, "{words:?}");
    // On the page a word is alone, in a table in braces, or in quotation marks.
    let spans: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let has_word = |word: &str| {
        let is = |part: &str| part.trim_matches('"') == word;
        spans.iter().any(|span| span.split([' ', '{', '}', '=', ',', '\n']).any(is))
    };
    let missing: Vec<&String> = words.iter().filter(|word| !has_word(word)).collect();
    assert!(missing.is_empty(), "docs/scenarios.md lacks {missing:?}");
}

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lab/verdicts");
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lab/client-verdicts");
const VERDICTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/verdicts.md");

/// The beginning of a column's title, and the recorded verdicts. A line per scenario: section,
/// scenario, level, verdict.
type Noted = (String, Vec<Vec<String>>);

/// The verdicts in a folder of the lab: Linux first, the oldest series first.
fn noted(folder: &str) -> Vec<Noted> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_cached_key(|path| {
        let (name, series) = name_and_series(path);
        (name != "linux", series.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>())
    });
    let lines = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    let title = |path: &PathBuf| match name_and_series(path) {
        ("linux", series) => format!("Linux {series}."),
        (name, series) => format!("nfs-{name} {series}"),
    };
    files.iter().map(|path| (title(path), lines(path))).collect()
}

fn name_and_series(path: &Path) -> (&str, &str) {
    path.file_stem().unwrap().to_str().unwrap().split_once('-').expect("NAME-SERIES.tsv")
}

#[test]
fn page_has_the_verdicts_of_the_lab() {
    let page = std::fs::read_to_string(VERDICTS).unwrap();
    let (servers, clients) = page.split_once("\n## Linux as client\n").expect("clients come after servers");
    let (_, servers) = servers.split_once("\n## Servers\n").expect("it has servers");
    has_verdicts(servers, &noted(SERVERS), &builtin());
    has_verdicts(clients, &noted(CLIENTS), &builtin_of(Side::Responder));
}

fn has_verdicts(page: &str, noted: &[Noted], scenarios: &[Scenario]) {
    assert!(!noted.is_empty());
    let mut table = page.lines().filter(|line| line.starts_with('|'));
    let titles: Vec<&str> = table.next().unwrap().trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(titles[..3], ["section", "level", "scenario"]);
    assert_eq!(titles.len(), 3 + noted.len());
    for ((column, lines), title) in noted.iter().zip(&titles[3..]) {
        assert!(title.starts_with(column), "{title} does not begin with {column}");
        assert_eq!(lines.len(), scenarios.len(), "the verdicts of {column} have other scenarios");
        for (line, scenario) in lines.iter().zip(scenarios) {
            let expected =
                [scenario.section(), scenario.name.clone(), scenario.requirement.level.to_string()];
            assert_eq!(line[..3], expected, "{column}");
        }
    }
    let escaped = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
    let rows: Vec<&str> = table.skip(1).collect();
    let mut expected = Vec::new();
    for (at, scenario) in scenarios.iter().enumerate() {
        let (section, level) = (scenario.section(), scenario.requirement.level);
        let mut row = format!("| {section} | {level} | `{}`: {} |", scenario.name, escaped(&scenario.title));
        let verdicts: Vec<&str> = noted.iter().map(|(_, lines)| lines[at][3].as_str()).collect();
        for verdict in &verdicts {
            let verdict = verdict.replace('-', " ");
            row += &if verdict == "violates" { format!(" **{verdict}** |") } else { format!(" {verdict} |") };
        }
        expected.push(row);
        let is_explained = verdicts.iter().any(|verdict| !["conforms", "withheld"].contains(verdict));
        let head = format!("**`{}`** ({section}, {level}). {}\n", scenario.name, scenario.requirement.text);
        assert_eq!(page.contains(&head), is_explained, "{head}");
    }
    assert_eq!(rows.len(), expected.len());
    rows.iter().zip(&expected).for_each(|(row, expected)| assert_eq!(row, expected));
}
