//! The terms of glossary.md. The file is in this crate so that its package contains it;
//! docs/glossary.md is a symbolic link to it.

const DOCUMENT: &str = include_str!("glossary.md");

/// A term with its explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term: `PSN`, `Inline threshold`.
    pub term: &'static str,
    /// The explanation: one or more paragraphs of Markdown, separated by empty lines.
    pub text: &'static str,
}

/// All entries, in alphabetical order.
pub fn entries() -> impl Iterator<Item = Entry> {
    let sections = DOCUMENT.split("\n## ").skip(1);
    sections.map(|section| {
        let (term, text) = section.split_once('\n').unwrap_or((section, ""));
        Entry { term, text: text.trim() }
    })
}

/// Finds the entry of a term, ignoring case.
pub fn find(term: &str) -> Option<Entry> {
    entries().find(|entry| entry.term.eq_ignore_ascii_case(term))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_paragraphs() {
        let entries: Vec<_> = entries().collect();
        assert!(entries.len() > 60, "only {} terms", entries.len());
        let key = |term: &str| term.to_lowercase().replace('_', " ");
        for pair in entries.windows(2) {
            assert!(key(pair[0].term) < key(pair[1].term), "{} comes before {}", pair[0].term, pair[1].term);
        }
        for Entry { term, text } in entries {
            assert_eq!(term.trim(), term);
            assert!(text.ends_with(['.', ')']), "{term}: {text}");
            for paragraph in text.split("\n\n") {
                let begins = paragraph.chars().next();
                assert!(begins.is_some_and(|first| !"#-*|>` \n".contains(first)), "{term}: {paragraph}");
            }
        }
    }

    #[test]
    fn references_name_existing_entries() {
        let mut references = 0;
        for Entry { term, text } in entries() {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for reference in line.split("See ").skip(1) {
                let terms = reference.split('.').next().unwrap_or_default();
                for named in terms.split(" and ") {
                    assert!(find(named).is_some(), "{term} refers to {named}");
                    references += 1;
                }
            }
        }
        assert!(references > 5, "only {references} references");
    }

    #[test]
    fn an_entry_is_found_by_its_term() {
        let psn = find("psn").unwrap();
        assert_eq!(psn.term, "PSN");
        assert!(psn.text.starts_with("Packet sequence number"));
        assert_eq!(find("inline threshold").map(|entry| entry.term), Some("Inline threshold"));
        assert_eq!(find("no such term"), None);
    }
}
