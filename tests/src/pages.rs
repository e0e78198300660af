//! Pages of docs/ whose tables are printed from lists of columns: each stands between a mark with the name of the list and one for its end.

use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- columns of ";
const END: &str = "<!-- end -->";

fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)
}

/// The text of a page.
pub fn text(page: &str) -> String {
    std::fs::read_to_string(path(page)).expect("the page is there")
}

/// Whether pages are being written instead of compared.
pub fn is_blessing() -> bool {
    std::env::var_os("RDMASCOPE_BLESS").is_some()
}

/// The names of the lists whose tables a page has.
pub fn lists(text: &str) -> Vec<&str> {
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

/// Compares a page with what `table` prints for each list that it names, or writes it where `RDMASCOPE_BLESS` is set.
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
        "docs/{page} is not what the lists of columns say; CONTRIBUTING.md says how it is written anew. {differing:#?}"
    );
}
