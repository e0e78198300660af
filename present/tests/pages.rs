//! The tables of docs/json.md, docs/parquet.md and docs/tables.md match the lists of columns.

use rdmascope_present::column::Role;
use rdmascope_present::column::docs::{further_table, json_table, parquet_table};
use rdmascope_present::columns::{LISTS, TABLES};
use rdmascope_tests::pages::{compare, is_blessing, lists, text};

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

#[test]
fn tables() {
    compare("tables.md", |name| {
        let list = LISTS.iter().find(|list| list.name() == name);
        further_table(*list.unwrap_or_else(|| panic!("no list of columns is called {name}")))
    });
}

/// Conversely, each list is on the page exactly once.
#[test]
fn every_list_is_documented() {
    // The pages are being written at the same time.
    if is_blessing() {
        return;
    }
    let json = text("json.md");
    let mut expected: Vec<_> = LISTS.iter().map(|list| list.name()).collect();
    let mut found = lists(&json);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "docs/json.md");
    for list in LISTS {
        assert_ne!(list.role(), Role::Inner, "{} has a table of its own", list.name());
    }
    let parquet = text("parquet.md");
    assert_eq!(lists(&parquet), TABLES.map(|(_, list)| list.name()), "docs/parquet.md");
    for (name, list) in TABLES {
        let section = parquet.split(&format!("\n## `{name}`")).nth(1).expect("each table has a heading");
        let section = section.split("\n## ").next().expect("a split has a first part");
        assert_eq!(lists(section), [list.name()], "{name}");
    }
}
