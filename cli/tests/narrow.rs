//! Narrow terminals: lines fit the width, and no value is broken or omitted.

mod binary;

use binary::{command, run, sample, text};
use std::process::Stdio;

const WIDTHS: [usize; 5] = [60, 72, 80, 100, 132];

const SAMPLES: [&str; 4] = ["nfs3-lossy", "connect-rejected", "nfs4.2-basic", "nfs4.1-backchannel-recall"];

/// The output at this width, set with `COLUMNS` in place of a terminal.
fn printed(arguments: &[&str], width: usize) -> String {
    let mut command = command(arguments);
    command.env("COLUMNS", width.to_string()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    text(&command.output().expect("the binary runs").stdout).to_owned()
}

/// Lines for copying are not wrapped.
fn is_command(line: &str) -> bool {
    line.starts_with("Next: ") || line.starts_with("      rdmascope ")
}

fn assert_fits(arguments: &[&str], width: usize, shown: &str) {
    for line in shown.lines().filter(|line| !is_command(line)) {
        let columns = line.chars().count();
        // A single word is not broken: a name in a capture may be longer than the width.
        let is_word = line.split_whitespace().count() == 1;
        assert!(columns <= width || is_word, "{arguments:?}, {columns} of {width} columns: {line}");
    }
}

/// The words of all lines.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn lists_and_findings_keep_all_words() {
    for name in SAMPLES {
        let path = sample(&format!("{name}.pcap"));
        for list in ["events", "connections", "transactions", "packets", "state"] {
            let arguments = [list, &path];
            let unlimited = run(&arguments);
            for width in WIDTHS {
                let shown = printed(&arguments, width);
                assert_fits(&arguments, width, &shown);
                assert_eq!(words(&shown), words(text(&unlimited.stdout)), "{arguments:?} at {width}");
            }
        }
        let arguments = ["check", &path, "--most", "0"];
        let unlimited = run(&arguments);
        for width in WIDTHS {
            let shown = printed(&arguments, width);
            assert_fits(&arguments, width, &shown);
            assert_eq!(words(&shown), words(text(&unlimited.stdout)), "{arguments:?} at {width}");
        }
    }
}

#[test]
fn report_fits_the_width() {
    for name in SAMPLES {
        let path = sample(&format!("{name}.pcap"));
        let arguments = ["analyze", &path];
        let unlimited = run(&arguments);
        for width in WIDTHS {
            let shown = printed(&arguments, width);
            assert_fits(&arguments, width, &shown);
            // Columns of the table of operations are wrapped; the other lines keep all their words.
            let rest = |text: &str| -> Vec<String> {
                let (before, after) = text.split_once("\nOperations").unwrap_or((text, ""));
                let after = after.split_once("\nProblems").map_or(after, |(_, after)| after);
                words(before).into_iter().chain(words(after)).map(str::to_owned).collect()
            };
            assert_eq!(rest(&shown), rest(text(&unlimited.stdout)), "{name} at {width}");
            let mut seen: Vec<&str> = words(&shown);
            seen.sort_unstable();
            for word in words(text(&unlimited.stdout)) {
                assert!(seen.binary_search(&word).is_ok(), "{name} at {width} lacks {word}: {shown}");
            }
            for broken in ["\nKiB", " KiB\n  of", "QP\n"] {
                assert!(!shown.contains(broken), "{shown}");
            }
        }
    }
}

#[test]
fn show_and_diff_fit_the_width() {
    let [a, b] = ["nfs4.2-basic", "nfs4.2-mtu4096-large-io"].map(|name| sample(&format!("{name}.pcap")));
    let iwarp = sample("iwarp-reconnect.pcap");
    for width in [80, 100, 132] {
        for arguments in [
            ["show", &a, "--transaction", "70"].as_slice(),
            &["show", &a, "--transaction", "22"],
            &["show", &iwarp, "--transaction", "1"],
            &["show", &a, "--frame", "1"],
            &["show", &a, "--frame", "94"],
            &["diff", "--all", &a, &b],
        ] {
            let shown = printed(arguments, width);
            assert_fits(arguments, width, &shown);
            assert!(shown.lines().count() > 10, "{arguments:?}");
        }
    }
}

/// The bars of a histogram are shorter on a narrow terminal, so that each row stays one line.
#[test]
fn histograms_fit_the_width() {
    let [a, b] = ["nfs4.2-basic", "nfs4.2-mtu4096-large-io"].map(|name| sample(&format!("{name}.pcap")));
    let arguments = ["diff", "--all", &a, &b];
    let bars = |shown: &str| shown.lines().filter(|line| line.contains("# ")).count();
    let all = bars(text(&run(&arguments).stdout));
    assert!(all > 0);
    for width in WIDTHS {
        let shown = printed(&arguments, width);
        assert_fits(&arguments, width, &shown);
        let (_, histograms) = shown.split_once("Distribution of latencies").expect("there are some");
        let is_row = |line: &&str| line.contains("# ");
        assert_eq!(bars(&shown), all, "{shown}");
        assert!(
            histograms.lines().filter(is_row).all(|line| line.trim_start().starts_with(char::is_numeric))
        );
    }
}

/// Without a terminal the width is unlimited, because programs expect unwrapped lines.
#[test]
fn lines_are_unlimited_without_a_terminal() {
    let path = sample("nfs3-lossy.pcap");
    for columns in ["", "0", "x"] {
        let mut command = command(&["analyze", &path]);
        let shown = command.env("COLUMNS", columns).output().expect("the binary runs");
        assert_eq!(text(&shown.stdout), text(&run(&["analyze", &path]).stdout));
        assert!(text(&shown.stdout).lines().any(|line| line.chars().count() > 100));
    }
}
