//! The metadata of the crates, and the address of the repository.

use super::{CRATES, read, root};
use std::path::Path;

/// The repository in the manifest of the workspace.
pub(crate) fn repository() -> String {
    let manifest = read("Cargo.toml");
    let value = manifest.lines().find_map(|line| line.strip_prefix("repository = "));
    value.expect("the workspace has a repository").trim_matches('"').to_owned()
}

#[test]
fn crates_have_registry_metadata() {
    for member in CRATES {
        let manifest = read(&format!("{member}/Cargo.toml"));
        for line in [
            "description = ",
            "repository.workspace = true",
            "homepage.workspace = true",
            "documentation = ",
            "readme = \"README.md\"",
            "[package.metadata.docs.rs]",
        ] {
            assert!(manifest.lines().any(|one| one.starts_with(line)), "{member}/Cargo.toml lacks {line}");
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(root().join(member).join(licence).exists(), "{member} lacks {licence}");
        }
    }
}

/// A package has the files of its crate only.
#[test]
fn crate_readmes_link_only_into_their_crate() {
    for member in CRATES {
        let place = format!("{member}/README.md");
        for link in super::links::of(&read(&place)) {
            assert!(!link.starts_with(".."), "{place}: {link} leads nowhere on the registry");
        }
    }
}

/// Documents and files of the hosting site that repeat the address.
#[test]
fn repository_has_one_address() {
    let repository = repository();
    let mut places = super::links::documents();
    places.extend(CRATES.map(|member| root().join(member).join("Cargo.toml")));
    places.extend(["book.toml", ".github/ISSUE_TEMPLATE/config.yml"].map(|place| root().join(place)));
    for place in places.iter().filter(|place| place.exists()) {
        for address in addresses(place) {
            assert!(
                address.starts_with(&repository),
                "{}: {address} is not below {repository}",
                place.display()
            );
        }
    }
}

/// The addresses of a project rdmascope in a file.
fn addresses(place: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let ends = |c: char| c.is_whitespace() || "\"')>]".contains(c);
    let words = text.split(ends).filter_map(|word| word.find("https://").map(|start| &word[start..]));
    let ours = |word: &&str| word.contains("/rdmascope") && !word.starts_with("https://docs.rs/");
    words.filter(ours).map(str::to_owned).collect()
}
