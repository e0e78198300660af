//! The tables of docs/json.md and docs/parquet.md are printed from the lists of columns.

use rdmascope_present::column::Role;
use rdmascope_present::column::docs::{json_table, parquet_table};
use rdmascope_present::columns::{LISTS, TABLES};
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- columns of ";
const END: &str = "<!-- end -->";

fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)
}

/// The names of the lists whose tables a page has.
fn lists(text: &str) -> Vec<&str> {
    let begins = text.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(" -->"));
    begins.collect()
}

/// The page, with the table of each list that it names between its marks.
fn printed(text: &str, table: impl Fn(&str) -> String) -> String {
    let mut page = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        page += line;
        page.push('\n');
        if let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) {
            assert!(lines.by_ref().any(|line| line == END), "the table of {name} has no end");
            page += &table(name);
            page += END;
            page.push('\n');
        }
    }
    page
}

fn compare(page: &str, table: impl Fn(&str) -> String) {
    let path = path(page);
    let found = std::fs::read_to_string(&path).expect("the page is there");
    let expected = printed(&found, table);
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        std::fs::write(path, expected).expect("the page can be written");
        return;
    }
    let differing = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        expected == found,
        "docs/{page} is not what the lists of columns say; CONTRIBUTING.md says how it is written anew. {differing:#?}"
    );
}

#[test]
fn json() {
    compare("json.md", |name| {
        let list = LISTS.iter().find(|list| list.name() == name);
        json_table(*list.unwrap_or_else(|| panic!("no list of columns is called {name}")))
    });
}

#[test]
fn parquet() {
    compare("parquet.md", |name| {
        let table = TABLES.iter().find(|(_, list)| list.name() == name);
        parquet_table(table.unwrap_or_else(|| panic!("no table is made of {name}")).1)
    });
}

/// The other way round: each list stands on the page once.
#[test]
fn every_list_is_documented() {
    // The pages are being written meanwhile.
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        return;
    }
    let of = |page: &str| std::fs::read_to_string(path(page)).expect("the page is there");
    let json = of("json.md");
    let mut expected: Vec<_> = LISTS.iter().map(|list| list.name()).collect();
    let mut found = lists(&json);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "docs/json.md");
    for list in LISTS {
        assert_ne!(list.role(), Role::Inner, "{} has a table of its own", list.name());
    }
    let parquet = of("parquet.md");
    assert_eq!(lists(&parquet), TABLES.map(|(_, list)| list.name()), "docs/parquet.md");
    for (name, list) in TABLES {
        let section = parquet.split(&format!("\n## `{name}`")).nth(1).expect("each table has a heading");
        let section = section.split("\n## ").next().expect("a split has a first part");
        assert_eq!(lists(section), [list.name()], "{name}");
    }
}
