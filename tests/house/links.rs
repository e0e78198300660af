//! Links between the documents, which are checked without a network.

use super::registry::repository;
use super::{read, root};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every Markdown document of the project.
pub(crate) fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            let is_hidden = name.starts_with('.') && name != ".github";
            if path.is_dir() && name != "target" && !is_hidden {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 12, "only {} documents found", found.len());
    found
}

/// The lines of a document that are not in a fenced block.
fn lines(document: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    document.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of a document's links and pictures, and of its link definitions.
pub(crate) fn of(document: &str) -> Vec<String> {
    let text = lines(document).collect::<Vec<_>>().join("\n");
    // Outside of code spans.
    let text: String = text.split('`').step_by(2).collect();
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let definitions = text.lines().filter(|line| line.starts_with('['));
    let definitions = definitions.filter_map(|line| line.split_once("]: ").map(|(_, target)| target));
    inline.chain(definitions).map(|target| target.trim().to_owned()).collect()
}

/// The anchor of a heading on GitHub and in mdBook.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}

/// The anchors of a document. Headings with the same text are numbered.
fn anchors(document: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = lines(document).filter(|line| line.starts_with('#'));
    let names = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
    names
        .map(|name| {
            let earlier = seen.entry(name.clone()).or_default();
            *earlier += 1;
            if *earlier == 1 { name } else { format!("{name}-{}", *earlier - 1) }
        })
        .collect()
}

/// The file of this tree that a link of a document leads to. `None` is a link to another site.
fn file(place: &Path, link: &str) -> Option<PathBuf> {
    let repository = repository();
    for kind in ["blob", "tree"] {
        if let Some(path) = link.strip_prefix(&format!("{repository}/{kind}/main/")) {
            return Some(root().join(path));
        }
    }
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    Some(if link.is_empty() { place.to_owned() } else { place.parent().expect("a file").join(link) })
}

/// Whether a link leads to this tree. A link to something that does not exist is an error.
fn check(place: &Path, link: &str) -> Result<bool, String> {
    let (target, part) = link.split_once('#').map_or((link, None), |(file, part)| (file, Some(part)));
    let Some(file) = file(place, target) else { return Ok(false) };
    if !file.exists() {
        return Err(format!("{}: {link} does not exist", place.display()));
    }
    let Some(part) = part else { return Ok(true) };
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let found = anchors(&text).iter().any(|one| one == part);
    found.then_some(true).ok_or_else(|| format!("{}: {link} has no such heading", place.display()))
}

#[test]
fn links_resolve() {
    let (mut links, mut wrong) = (0, Vec::new());
    for place in documents() {
        let text = std::fs::read_to_string(&place).expect("documents are UTF-8");
        for link in of(&text) {
            match check(&place, &link) {
                Ok(is_ours) => links += usize::from(is_ours),
                Err(error) => wrong.push(error),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(links > 200, "only {links} links");
}

/// The site of book.toml has the pages that docs/SUMMARY.md lists.
#[test]
fn summary_lists_each_page_once() {
    let docs = root().join("docs");
    let links = of(&read("docs/SUMMARY.md"));
    let listed: Vec<PathBuf> = links.iter().map(|link| docs.join(link)).collect();
    let mut pages = documents();
    pages.retain(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md"));
    let missing: Vec<_> = pages.iter().filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
}

#[test]
fn document_links_are_found() {
    let document = "[a](b.md) `[c](d)` ![e](f.svg)\n    [g](h.md#i)\n```\n[j](k)\n```\n[l]: m.md\n";
    assert_eq!(of(document), ["b.md", "f.svg", "h.md#i", "m.md"]);
    assert_eq!(anchor("Position Zero Read chunk"), "position-zero-read-chunk");
    assert_eq!(anchor("R_Key"), "r_key");
    assert_eq!(anchors("# A b\n## C\n```\n# no\n```\n## C\n"), ["a-b", "c", "c-1"]);
}

#[test]
fn broken_links_are_errors() {
    let place = root().join("docs/peer.md");
    assert_eq!(check(&place, "https://example.com/no"), Ok(false));
    assert_eq!(check(&place, &format!("{}/blob/main/docs/json.md", repository())), Ok(true));
    for link in ["no.md", "json.md#no", "#no", &format!("{}/blob/main/no.md", repository())] {
        check(&place, link).expect_err(link);
    }
}
