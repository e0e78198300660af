//! Pages of docs/ with tables that are generated from column lists. Each table is between a marker
//! with the name of its list and an end marker.

use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- columns of ";
const END: &str = "<!-- end -->";

fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)
}

/// The text of a page.
pub fn text(page: &str) -> String {
    std::fs::read_to_string(path(page)).expect("the page exists")
}

/// Whether pages are written instead of compared.
pub fn is_blessing() -> bool {
    std::env::var_os("RDMASCOPE_BLESS").is_some()
}

/// The names of the lists whose tables a page contains.
pub fn lists(text: &str) -> Vec<&str> {
    let begins = text.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(" -->"));
    begins.collect()
}

/// The page with the generated table of each list that it names.
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

/// Compares a page with the tables that `table` generates for its lists, or rewrites it if
/// `RDMASCOPE_BLESS` is set.
pub fn compare(page: &str, table: impl Fn(&str) -> String) {
    let found = text(page);
    let expected = printed(&found, table);
    if is_blessing() {
        std::fs::write(path(page), expected).expect("the page can be written");
        return;
    }
    let differing = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        expected == found,
        "docs/{page} differs from the column lists; CONTRIBUTING.md describes how to regenerate \
         it. {differing:#?}"
    );
}
