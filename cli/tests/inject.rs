//! `peer inject`: lists and explains scenarios, and runs them against `peer serve` over the
//! loopback interface.
#![cfg(target_os = "linux")]

mod binary;
mod live;

use binary::{folder, run, text};
use live::{Server, address};

#[test]
fn list_and_explain_need_no_target() {
    let output = run(&["peer", "inject", "--list", "--section", "rfc8166/4.5.1"]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 6, "{}", text(&output.stdout));
    let output = run(&["peer", "inject", "--explain", "version-9"]);
    let shown = text(&output.stdout);
    for part in ["MUST rfc8166/4.5.1", "allowed:", "ERR_VERS", "send.vers = 9", "header-version"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn explain_shows_the_steps_of_a_user_file() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    // The name is that of a built-in scenario, but the steps differ.
    let scenario = "name = \"version-9\"\ntitle = \"Mine\"\nallowed = [\"silence\"]\n\
                    requirement = { document = \"rfc8166\", section = \"4.5.1\", level = \"must\", text = \"A [[steps]] in a text\" }\n\
                    [[steps]]\nconnect = {}\n[[steps]] # a comment with \u{9b}31m\nsend = { vers = 7 }\n[[steps]]\nobserve = { within = 100 }\n\n";
    std::fs::write(&file, scenario).expect("it can be written");
    let output = run(&["peer", "inject", "--explain", file.to_str().expect("it is UTF-8")]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let steps = "\n\n[[steps]]\nconnect = {}\n[[steps]] # a comment with \\u{9b}31m\nsend = { vers = 7 }\n[[steps]]\nobserve = { within = 100 }\n";
    assert!(shown.ends_with(steps), "{shown}");
}

#[test]
fn wrong_usage_is_status_2() {
    let no_target = run(&["peer", "inject", "version-9"]);
    assert_eq!(no_target.status.code(), Some(2));
    let unknown = run(&["peer", "inject", "--explain", "versoin-9"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean version-9?"), "{}", text(&unknown.stderr));
    for (arguments, why) in [
        (&["--to", "127.0.0.2", "--from", "::1"][..], "differ in IP version"),
        (&["--to", "127.0.0.1"], "set another local address with --from"),
    ] {
        let refused = run(&[&["peer", "inject", "version-9"], arguments].concat());
        let complaint = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(why), "{complaint}");
    }
}

#[test]
fn conforming_server_is_status_0() {
    let (at, client) = (address(), address());
    let Some(server) = Server::start(&["--bind", &at, "--socket", "udp"]) else { return };
    let target = ["--to", &at, "--from", &client, "--socket", "udp", "--null-only"];
    let scenarios = ["null", "version-9", "credits-ignored", "reply-too-large-no-chunk"];
    let inject =
        |format: &str| run(&[&["peer", "inject", "--format", format][..], &target, &scenarios].concat());
    let (lines, junit) = (inject("jsonl"), inject("junit"));
    let again = ["--to", &at];
    let html = run(&[&["peer", "inject", "--format", "html"][..], &target, &again, &scenarios].concat());
    drop(server);
    assert!(lines.status.success(), "{}", text(&lines.stderr));
    let lines: Vec<serde_json::Value> =
        text(&lines.stdout).lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let verdicts: Vec<Option<&str>> = lines[..4].iter().map(|line| line["verdict"].as_str()).collect();
    assert_eq!(verdicts, [Some("conforms"), Some("conforms"), None, Some("not-applicable")]);
    assert_eq!(lines[1]["alive"], "on-this-connection");
    assert_eq!(lines[4]["counts"]["withheld"], 1);
    assert_eq!(lines[0]["target"], format!("{at}:20049"));
    // One column per --to, and one run per cell, by column and row.
    let html = text(&html.stdout);
    let named = format!("<th>{at}:20049</th>");
    assert_eq!(html.matches(&named).count(), 2, "{html}");
    for run in ["run-1-1", "run-2-1", "run-1-2", "run-2-3"] {
        assert!(
            html.contains(&format!("href=\"#{run}\"")) && html.contains(&format!("id=\"{run}\"")),
            "{run}"
        );
    }
    assert!(
        html.contains("RDMA_ERROR")
            && html.contains("ConnectRequest")
            && html.contains("No packets crossed.")
    );
    let junit = text(&junit.stdout);
    assert!(
        junit.contains("<testsuite name=\"rfc8166\" tests=\"4\" failures=\"0\" errors=\"0\" skipped=\"2\">"),
        "{junit}"
    );
}

/// The first scenario finds no server. The command of `--restart` starts one.
#[test]
fn unreachable_server_is_restarted() {
    let (server, client) = (address(), address());
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let binary = env!("CARGO_BIN_EXE_rdmascope");
    let start = format!(
        "'{binary}' peer serve --format jsonl --bind {server} --socket udp >'{0}' 2>&1 & echo $! >'{1}'
         until grep -q peer_sockets '{0}'; do kill -0 $! || exit 1; sleep 0.1; done",
        at("output"),
        at("pid")
    );
    let target =
        ["peer", "inject", "--to", &server, "--from", &client, "--socket", "udp", "--format", "jsonl"];
    let scenarios = ["version-9", "null", "credits-ignored"];
    let inject = |timeout: &str, more: &[&str]| {
        let output = run(&[&target[..], &scenarios, &["--timeout", timeout], more].concat());
        let lines = text(&output.stdout).lines();
        let lines = lines.map(|line| serde_json::from_str(line).expect("a line is JSON"));
        (lines.collect::<Vec<serde_json::Value>>(), text(&output.stderr).to_owned())
    };
    let verdicts = |lines: &[serde_json::Value]| -> Vec<String> {
        lines.iter().map(|line| line["verdict"].as_str().unwrap_or("none").to_owned()).collect()
    };
    let (lines, stderr) = inject("300ms", &[]);
    assert_eq!(verdicts(&lines[..3]), ["no-answer", "not-applicable", "none"]);
    assert!(stderr.ends_with("answers nothing, so no scenario ran to its end\n"), "{stderr}");
    assert_eq!(lines[1]["reason"], "the server was gone before: no answer to NULL since version-9");
    let (lines, stderr) = inject("300ms", &["--restart", "exit 3"]);
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(stderr.contains("--restart: the command ended with exit status: 3"), "{stderr}");
    // The server of the last run answers in time on a loaded machine too.
    let (lines, stderr) = inject("3s", &["--restart", &start]);
    let process = std::fs::read_to_string(at("pid")).expect("the command ran");
    let process = process.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(process.expect("it is a number"), rustix::process::Signal::KILL).ok();
    if std::fs::read_to_string(at("output")).is_ok_and(|output| output.contains("is in use")) {
        return eprintln!("SKIPPED: {stderr}");
    }
    assert_eq!(verdicts(&lines[..3]), ["no-answer", "conforms", "none"], "{stderr}");
}
