//! Words used in place of a noun or a plain verb stay rare in comments and documents
//! (CONTRIBUTING.md, Style).

use super::{root, sources};
use std::collections::BTreeMap;

/// Words, and how often they may occur in 1,000 words of a folder.
const BOUNDS: [(&[&str], usize); 3] = [
    (&["what"], 2),
    (&["behind", "tell", "tells", "told", "stand", "stands", "stood"], 1),
    (&["nobody", "whoever", "whatever"], 1),
];

/// The count of each word.
type Words = BTreeMap<String, usize>;

/// The lines of a document outside code blocks.
fn document(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    })
}

/// The comments of a source.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix("//"))
}

fn add(words: &mut Words, line: &str) {
    for word in line.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty()) {
        *words.entry(word.to_lowercase()).or_default() += 1;
    }
}

/// The words of each folder.
fn folders() -> BTreeMap<String, Words> {
    let mut found: BTreeMap<String, Words> = BTreeMap::new();
    for (place, text) in sources() {
        let folder = place.split(['/', '\\']).next().unwrap_or_default().to_owned();
        let words = found.entry(folder).or_default();
        comments(&text).for_each(|line| add(words, line));
    }
    for folder in [root(), root().join("docs"), root().join("docs/design")] {
        let entries = std::fs::read_dir(&folder).expect("the folder can be read");
        for path in entries.map(|entry| entry.expect("it can be read").path()) {
            if path.extension().is_some_and(|end| end == "md") {
                let text = std::fs::read_to_string(&path).expect("documents are UTF-8");
                let words = found.entry("documents".to_owned()).or_default();
                document(&text).for_each(|line| add(words, line));
            }
        }
    }
    found
}

#[test]
fn prose_is_plain() {
    let found = folders();
    assert!(found.len() > 10, "only {:?}", found.keys());
    for (folder, words) in found {
        let all: usize = words.values().sum();
        for (group, bound) in BOUNDS {
            let count: usize = group.iter().filter_map(|word| words.get(*word)).sum();
            assert!(1000 * count <= bound * all, "{folder}: {count} of {group:?} in {all} words");
        }
    }
}
