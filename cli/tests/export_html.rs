//! `rdmascope export html`, run as by a user.

mod binary;
mod planted;

use binary::{Pcap, Temporary, abandoned, refused, run, sample, text, with_input};

/// An unused path in the folder for temporary files.
fn unused_path(name: &str) -> Temporary {
    let file = Temporary::new(name, b"");
    std::fs::remove_file(file.path()).expect("it was just written");
    file
}

#[test]
fn file_and_standard_input_give_the_same_page() {
    let capture = sample("nfs4.1-backchannel-recall.pcap");
    let report = unused_path("report.html");
    let output = run(&["export", "html", &capture, "--output", report.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    let page = std::fs::read_to_string(report.path()).expect("the report is there");
    assert!(page.starts_with("<!DOCTYPE html>"));

    let bytes = std::fs::read(&capture).expect("the sample is there");
    let piped = with_input(&["export", "html", "-", "--output", "-"], &bytes);
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    assert_eq!(text(&piped.stdout), page.replace(&capture, "standard input"));
}

/// A filter reads standard input once more than the export does.
#[test]
fn filters_apply_to_standard_input() {
    let capture = sample("nfs3-basic.pcap");
    let bytes = std::fs::read(&capture).expect("the sample is there");
    let export = |form: &str, file: &str| {
        let arguments = ["export", form, file, "--operation", "READ", "--output", "-"];
        let output = with_input(&arguments, if file == "-" { &bytes } else { b"" });
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{form} {file}");
        output.stdout
    };
    let (page, piped) = (export("html", &capture), export("html", "-"));
    assert!(text(&piped) == text(&page).replace(&capture, "standard input"), "the pages are the same");
    assert!(!export("pcapng", "-").is_empty());
}

/// A later connection between the same queue pairs, with the same PSNs and XIDs, is a separate
/// connection.
#[test]
fn repeated_session_is_drawn_like_a_single_one() {
    let pcap = Pcap::read("nfs3-lossy.pcap");
    let later = pcap.records.iter().map(|record| {
        let seconds = binary::time(record).0 + 100;
        [&seconds.to_le_bytes(), &record[4..]].concat()
    });
    let both: Vec<_> = pcap.records.iter().cloned().chain(later).collect();
    let twice = Temporary::new("twice.pcap", &pcap.with(&both));
    let page_of = |capture: &str| {
        let output = run(&["export", "html", capture, "--output", "-"]);
        text(&output.stdout).to_owned()
    };
    let (once, twice) = (page_of(&sample("nfs3-lossy.pcap")), page_of(twice.path()));
    // Transaction 9 is a LOOKUP of a name that does not exist, which is no problem.
    assert!(once.contains("2 broken transactions") && twice.contains("4 broken transactions"));
    assert!(once.contains("<dt>broken transactions</dt><dd class=\"bad\"><data value=\"2\">2</data></dd>"));
    for number in [13, 19] {
        let drawn = |page: &str| {
            let at = page.find(&format!("id=\"transaction-{number}\"")).expect("it is drawn");
            page[at..at + page[at..].find("</figure>").expect("it ends")].to_owned()
        };
        assert_eq!(drawn(&once), drawn(&twice));
    }
}

#[test]
fn ladders_option_limits_the_ladders() {
    for (limit, expected) in [("0", 0), ("3", 3), ("100", 38)] {
        let capture = sample("nfs4.1-backchannel-recall.pcap");
        let output = run(&["export", "html", &capture, "--output", "-", "--ladders", limit]);
        assert_eq!(text(&output.stdout).matches("<figure class=\"ladder\"").count(), expected);
    }
}

/// The WRITE is the slowest transaction of the session, so its ladder is in the page.
#[test]
fn finding_links_to_its_marked_ladder() {
    let planted = planted::no_credits("nfs3-basic", 0x1b39_6a62);
    let capture = Temporary::new("no-credits.pcap", &planted.bytes);
    let output = run(&["export", "html", capture.path(), "--output", "-"]);
    let page = text(&output.stdout);
    let between = |from: &str, to: &str| {
        let at = page.find(from).unwrap_or_else(|| panic!("{from} is in the page"));
        &page[at..at + page[at..].find(to).expect("it ends")]
    };
    let row = between("<tr data-rule=\"credit-grant-zero\">", "</tr>");
    for part in [
        "<td class=\"bad\">violation</td>",
        "RFC 8166, section 3.3.1",
        "a reply that grants no credits",
        "XID 0x1b396a62, forward",
        &format!("<td>{}</td>", planted.frame),
        "<a href=\"#transaction-16\">drawn</a>",
    ] {
        assert!(row.contains(part), "{part}: {row}");
    }
    let figure = between("id=\"transaction-16\"", "</figure>");
    let mark = "<tspan class=\"bad\">! credit-grant-zero</tspan>";
    assert_eq!(figure.matches(mark).count(), 1, "{figure}");
    let (before, _) = figure.split_once(mark).expect("it is there");
    let text_of_rung = &before[before.rfind("<text").expect("it is in a text")..];
    assert!(text_of_rung.contains("Send, RDMA_MSG reply"), "{text_of_rung}");
    assert!(figure.contains(&format!(", frames {}: <a href=\"#findings\">", planted.frame)), "{figure}");

    let clean = run(&["export", "html", &sample("nfs3-basic.pcap"), "--output", "-"]);
    assert!(!text(&clean.stdout).contains("credit-grant-zero"));
}

#[test]
fn input_file_is_not_overwritten() {
    let capture = Temporary::new("read.pcap", &std::fs::read(sample("connect-rejected.pcap")).unwrap());
    let before = std::fs::read(capture.path()).unwrap();
    refused(
        &run(&["export", "html", capture.path(), "--output", capture.path()]),
        &["read.pcap", "is an input file; use another name for --output"],
    );
    assert_eq!(std::fs::read(capture.path()).unwrap(), before);
}

/// CM messages are no payload of a connection.
#[test]
fn refused_connection_moves_nothing() {
    let page = run(&["export", "html", &sample("connect-rejected.pcap"), "--output", "-"]);
    let page = text(&page.stdout);
    assert!(!page.contains("Payload on the wire") && page.contains("<h2>Over time</h2><p>None.</p>"));
}

#[test]
fn invalid_capture_leaves_no_page() {
    let other = Temporary::new("other", b"This is not a capture.");
    let report = unused_path("none.html");
    refused(&run(&["export", "html", other.path(), "--output", report.path()]), &["other"]);
    assert!(!std::path::Path::new(report.path()).exists());
    refused(
        &run(&["export", "html", &sample("nfs3-lossy.pcap"), "--output", "/nowhere/at/all.html"]),
        &["/nowhere/at/all.html"],
    );
}

#[test]
fn truncated_capture_is_reported_up_to_the_cut() {
    let pcap = Pcap::read("nfs3-lossy.pcap");
    let mut bytes = pcap.with(&pcap.records[..500]);
    bytes.truncate(bytes.len() - 7);
    let capture = Temporary::new("cut.pcap", &bytes);
    let output = run(&["export", "html", capture.path(), "--output", "-"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("cut short"));
    assert!(text(&output.stdout).contains("cut short at byte"));
}

#[test]
fn broken_pipe_is_no_error() {
    let output = abandoned(&["export", "html", &sample("nfs3-basic.pcap"), "--output", "-"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
}
