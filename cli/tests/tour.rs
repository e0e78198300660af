//! The output in docs/tour.md is that of its commands.
#![cfg(unix)]

mod binary;

use binary::{copy_samples, root, text};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A command with the output shown for it.
struct Shown<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

/// The commands of every console block, in order.
fn commands(document: &str) -> Vec<Shown<'_>> {
    let mut found: Vec<Shown<'_>> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => inside = false,
            (true, Some(command)) => found.push(Shown { command, lines: Vec::new() }),
            (true, None) => found.last_mut().expect("a block begins with a command").lines.push(line),
        }
    }
    found
}

/// A placeholder for omitted lines, or for the rest of a line.
const LEFT_OUT: &str = "…";

/// Compares the shown output with the printed output, except for omissions. Returns the shown lines
/// that are not in it.
fn compare<'a>(shown: &[&'a str], printed: &[&str]) -> Result<(), Vec<&'a str>> {
    let mut rest = printed;
    let mut anchored = true;
    let mut pieces = shown.split(|line| *line == LEFT_OUT).peekable();
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        let fits = |at: usize| {
            rest.get(at..at + piece.len())
                .is_some_and(|lines| piece.iter().zip(lines).all(|(a, b)| same(a, b)))
        };
        let at = match (anchored, last) {
            (true, true) => (rest.len() == piece.len() && fits(0)).then_some(0),
            (true, false) => fits(0).then_some(0),
            (false, true) => rest.len().checked_sub(piece.len()).filter(|at| fits(*at)),
            (false, false) => (0..=rest.len()).find(|at| fits(*at)),
        };
        let Some(at) = at else { return Err(piece.to_vec()) };
        rest = &rest[at + piece.len()..];
        anchored = false;
    }
    Ok(())
}

/// Whether a line is as shown, up to an omission.
fn same(shown: &str, printed: &str) -> bool {
    match shown.strip_suffix(LEFT_OUT) {
        Some(start) => printed.starts_with(start),
        None => printed.trim_end() == shown.trim_end(),
    }
}

/// A copy of the samples in which commands may write.
fn folder() -> TempDir {
    let folder = binary::folder();
    copy_samples(&folder.path().join("samples"));
    folder
}

#[test]
fn tour_output_matches_the_commands() {
    let document = std::fs::read_to_string(root().join("docs/tour.md")).expect("it is there");
    let binary = Path::new(env!("CARGO_BIN_EXE_rdmascope")).parent().expect("it is in a folder");
    let path = std::env::var("PATH").expect("there is a path");
    let path = format!("{}:{path}", binary.display());
    let folder = folder();
    let commands = commands(&document);
    assert!(commands.len() > 10);
    for Shown { command, lines } in commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .output()
            .expect("there is a shell");
        assert!(output.status.success(), "{command}: {}", output.status);
        assert_eq!(text(&output.stderr), "", "{command}");
        let printed = text(&output.stdout);
        if let Err(piece) = compare(&lines, &printed.lines().collect::<Vec<_>>()) {
            panic!("$ {command}\nprints\n\n{printed}\nbut not, in its place\n\n{}", piece.join("\n"));
        }
    }
}

#[test]
fn comparison_allows_marked_omissions_only() {
    let printed = ["a", "b  ", "c c", "d"];
    for right in [&["a", "b", "c c", "d"][..], &["…", "d"], &["a", "…"], &["…", "b", "c…", "…"], &["…"]]
    {
        assert_eq!(compare(right, &printed), Ok(()), "{right:?}");
    }
    for wrong in
        [&["a", "b", "c c"][..], &["b", "…"], &["a", "c c", "…"], &["…", "c c"], &["…", "d", "…", "a", "…"]]
    {
        assert!(compare(wrong, &printed).is_err(), "{wrong:?}");
    }
}
