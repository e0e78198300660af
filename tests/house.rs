//! What holds for the whole house: invariants of ARCHITECTURE.md that a reader of the sources can check.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust source of the project.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["wire", "dissector", "conformance", "capture-agent", "present", "cli", "tests", "fuzz"]
            .map(|folder| root().join(folder))
            .to_vec();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.map(|entry| entry.expect("the folder can be read").path()) {
            let name = entry.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if entry.is_dir() && name != "target" {
                folders.push(entry);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&entry).expect("sources are UTF-8");
                let place = entry.strip_prefix(root()).expect("it is below the root").display().to_string();
                found.push((place, text));
            }
        }
    }
    found.sort();
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
}

// Invariant 10.
#[test]
fn unsafe_stands_in_one_file() {
    const ALLOWED: &str = "capture-agent/src/unsafe_io.rs";
    // Not to find the word here.
    let word = ["un", "safe"].concat();
    let uses = [" {", " fn", " impl", " extern", " trait"].map(|after| format!("{word}{after}"));
    let mut seen_in_allowed = false;
    for (place, text) in sources() {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
        let found = code.clone().any(|line| uses.iter().any(|one| line.contains(one)));
        seen_in_allowed |= found && place == ALLOWED;
        assert!(!found || place == ALLOWED, "{place} uses {word}");
        let is_crate_root = place.ends_with("src/lib.rs") || place.ends_with("src/main.rs");
        if is_crate_root {
            let forbidden =
                ["forbid", "deny"].iter().any(|level| text.contains(&format!("#![{level}({word}_code)]")));
            assert!(forbidden, "{place} does not forbid it");
        }
    }
    assert!(seen_in_allowed, "{ALLOWED} has moved: this test looks for the wrong file");
}

// "Only present and cli serialize", and neither dissector nor judge reads a file or a clock.
#[test]
fn each_line_in_its_room() {
    for (place, text) in sources() {
        let room = place.split(['/', '\\']).next().expect("a path has parts");
        let library = matches!(room, "wire" | "dissector" | "conformance") && place.contains("/src/");
        for word in ["std::fs", "std::time", "std::net::", "std::env", "std::thread"] {
            assert!(!(library && text.contains(word)), "{place} uses {word}");
        }
        if room != "present" && room != "cli" && room != "tests" {
            assert!(!text.contains("serde::"), "{place} serializes");
        }
    }
}

#[test]
fn no_stubs() {
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    for (place, text) in sources() {
        for word in &words {
            assert!(!text.contains(word), "{place} has {word}…)");
        }
        assert!(!text.contains(&["#[ig", "nore"].concat()), "{place} has a test that is not run");
    }
}
