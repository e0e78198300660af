//! Commands that read untrusted captures confine themselves (docs/command-line.md).
//! capture-agent/tests/confine.rs tests the restrictions from inside; this tests that every command
//! is confined while it reads, and can still access its files.
#![cfg(target_os = "linux")]

mod binary;

use binary::{Temporary, command, folder, refused, root, run, sample, text};
use std::fs;
use std::io::{PipeWriter, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Whether this kernel has both landlock and seccomp. Prints a message if not.
fn can_confine() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let has_seccomp = status.contains("Seccomp:");
    let probe = run(&["analyze", &sample("connect-rejected.pcap"), "--format", "jsonl"]);
    assert!(probe.status.success(), "{}", text(&probe.stderr));
    if !has_seccomp {
        println!("SKIPPED: this kernel has no seccomp");
    }
    has_seccomp
}

/// The mode of seccomp and no_new_privs of each thread of a process.
fn threads(process: &Child) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).into_iter().flatten().flatten();
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    status.map(|status| (field(&status, "Seccomp:"), field(&status, "NoNewPrivs:"))).collect()
}

/// Waits until the process has a thread named `signals`: it is confined before that thread starts,
/// and has not read any input yet.
fn wait_until_confined(process: &mut Child) -> Vec<(String, String)> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).into_iter().flatten().flatten();
        let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        if names.any(|name| name == "signals\n") {
            return threads(process);
        }
        assert!(process.try_wait().expect("it is ours").is_none(), "it has ended");
        assert!(Instant::now() < until, "it does not start to read");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Commands that read standard input.
const READERS: &[&[&str]] = &[
    &["analyze", "-"],
    &["connections", "-"],
    &["transactions", "-"],
    &["packets", "-"],
    &["events", "-"],
    &["state", "-"],
    &["show", "-", "--frame", "12"],
    &["check", "-"],
    &["diff", "samples/nfs3-basic.pcap", "-"],
    &["extract", "-", "--transaction", "7", "--output", "-"],
    &["extract", "-", "--files", "OUT/files"],
    &["export", "pcapng", "-", "--output", "OUT/copy.pcapng"],
    &["export", "rpc", "-", "--output", "OUT/rpc.pcapng"],
    &["export", "html", "-", "--output", "OUT/page.html"],
    #[cfg(feature = "parquet")]
    &["export", "parquet", "-", "--capture", "today", "--output", "OUT/tables"],
    &["live", "-"],
];

fn reader(arguments: &[&str], out: &Path) -> Command {
    let out = out.to_str().expect("it is UTF-8");
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace("OUT", out)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn every_command_is_confined_while_reading() {
    if !can_confine() {
        return;
    }
    let capture = fs::read(sample("nfs3-basic.pcap")).expect("it is there");
    for arguments in READERS {
        let folder = folder();
        let mut process = reader(arguments, folder.path()).spawn().expect("the binary runs");
        for (seccomp, no_new_privileges) in wait_until_confined(&mut process) {
            assert_eq!((&*seccomp, &*no_new_privileges), ("2", "1"), "{arguments:?}");
        }
        let mut input = process.stdin.take().expect("it was piped");
        let capture = capture.clone();
        let writer = std::thread::spawn(move || input.write_all(&capture));
        let output = process.wait_with_output().expect("it ends");
        writer.join().expect("it ends").expect("all is read");
        // `diff` finds no difference, `check` one known violation of Linux.
        assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("denied"), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// A full pipe whose reader does not read.
fn full_pipe() -> (std::io::PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("there are descriptors");
    // The default capacity of a pipe (pipe(7)).
    writer.write_all(&[b'\n'; 65_536]).expect("a pipe holds 64 KiB");
    (reader, writer)
}

// The name does not show that it is a capture, so it is decompressed to find out, on a thread,
// before the command is confined.
#[test]
fn confinement_waits_for_finished_threads() {
    if !can_confine() {
        return;
    }
    let folder = folder();
    fs::copy(sample("nfs3-basic.pcap"), folder.path().join("one")).expect("it can be copied");
    let compressed = Command::new("gzip").arg("-9").arg(folder.path().join("one")).status();
    if !compressed.is_ok_and(|status| status.success()) {
        println!("SKIPPED: gzip is not installed");
        return;
    }
    assert_confined(&["packets", folder.path().to_str().expect("it is UTF-8")]);
}

/// Asserts that all threads of a command with much output are confined.
fn assert_confined(arguments: &[&str]) {
    let (reader, writer) = full_pipe();
    let mut process = command(arguments).stdout(writer).spawn().expect("the binary runs");
    for (seccomp, no_new_privileges) in wait_until_confined(&mut process) {
        assert_eq!((&*seccomp, &*no_new_privileges), ("2", "1"));
    }
    drop(reader);
    process.wait().expect("it ends");
}

#[test]
fn regress_is_confined() {
    if !can_confine() {
        return;
    }
    assert_confined(&["regress", "samples", "--verbose"]);
}

#[test]
fn no_sandbox_leaves_the_process_unconfined() {
    let folder = folder();
    for position in [&["--no-sandbox", "analyze", "-"], &["analyze", "-", "--no-sandbox"]] {
        let mut process = reader(position, folder.path()).spawn().expect("the binary runs");
        let own = fs::read_to_string("/proc/self/status").expect("it is there");
        for (seccomp, no_new_privileges) in wait_until_confined(&mut process) {
            assert!(own.contains(&format!("Seccomp:\t{seccomp}\n")), "{seccomp}");
            assert!(own.contains(&format!("NoNewPrivs:\t{no_new_privileges}\n")), "{no_new_privileges}");
        }
        process.kill().and_then(|()| process.wait()).expect("it is ours");
    }
}

/// Runs in a folder, and asserts success.
fn succeeds(folder: &Path, arguments: &[&str]) {
    let output =
        command(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
}

// Links in a folder of the command line may lead to files outside. These can be read, too.
#[test]
fn links_to_captures_are_followed() {
    let (folder, elsewhere) = (folder(), folder());
    let at = |name: &str| elsewhere.path().join(name);
    fs::copy(sample("nfs3-basic.pcap"), at("one")).expect("it can be copied");
    fs::copy(sample("nfs3-basic.pcap"), at("two")).expect("it can be copied");
    fs::copy(sample("nfs3-basic.expected.jsonl"), at("expected")).expect("it can be copied");
    fs::write(at("policy"), "").expect("it can be written");
    fs::write(at("key"), [7; 32]).expect("it can be written");
    let captures = folder.path().join("captures/inner");
    fs::create_dir_all(&captures).expect("it can be made");
    for (name, to) in [
        ("nfs3-basic.pcap", "one"),
        ("nfs3-basic.expected.jsonl", "expected"),
        ("rdmascope.toml", "policy"),
        ("key", "key"),
    ] {
        symlink(at(to), captures.join(name)).expect("it can be made");
    }
    symlink(&captures, folder.path().join("link")).expect("it can be made");
    // The same packets at another capture point.
    fs::create_dir(folder.path().join("point")).expect("it can be made");
    symlink(at("two"), folder.path().join("point/two.pcap")).expect("it can be made");
    let one = "captures/inner/nfs3-basic.pcap";
    for arguments in [
        &["analyze", one] as &[&str],
        &["analyze", "captures/inner"],
        &["analyze", "link"],
        &["analyze", "link/nfs3-basic.pcap", "--with", "point"],
        &["check", one, "--allow", "invalidation-sender-flag"],
        &["check", one, "--policy", "link/rdmascope.toml", "--allow", "invalidation-sender-flag"],
        &["regress", "captures"],
        &["diff", "link", one],
        &["export", "pcapng", one, "--anonymize", "--key", "link/key", "--output", "new/../copy.pcapng"],
        #[cfg(feature = "parquet")]
        &["export", "parquet", "captures/inner", "--output", "new/tables"],
        &["extract", one, "--files", "new/deep/files"],
    ] {
        if arguments.contains(&"new/../copy.pcapng") {
            fs::create_dir(folder.path().join("new")).expect("it can be made");
        }
        succeeds(folder.path(), arguments);
    }
}

#[test]
fn special_files_and_links_can_be_outputs() {
    let folder = folder();
    let capture = sample("nfs3-basic.pcap");
    fs::write(folder.path().join("target"), "").expect("it can be written");
    symlink("target", folder.path().join("link")).expect("it can be made");
    for output in ["/dev/null", "/dev/stdout", "/dev/fd/1", "link", "page.html", "page.html"] {
        succeeds(folder.path(), &["export", "html", &capture, "--output", output]);
    }
    assert!(folder.path().join("link").is_symlink());
    let written = fs::read_to_string(folder.path().join("target")).expect("it is there");
    assert!(written.contains("<html"));
    // A redirected standard output, by its name.
    let redirected = fs::File::create(folder.path().join("redirected")).expect("it can be made");
    let status = command(&["export", "html", &capture, "--output", "/dev/stdout"])
        .stdout(redirected)
        .status()
        .expect("the binary runs");
    assert!(status.success());
    assert_eq!(fs::read_to_string(folder.path().join("redirected")).expect("it is there"), written);
}

// The error is not caused by the sandbox.
#[test]
fn sandbox_does_not_change_missing_file_errors() {
    refused(&run(&["analyze", "no-such.pcap"]), &["no-such.pcap", "No such file"]);
    refused(
        &run(&["export", "html", "samples/nfs3-basic.pcap", "--output", "no/such/page"]),
        &["No such file"],
    );
    let output =
        command(&["show", "-", "--frame", "1"]).env("TMPDIR", "/no/such").stdin(Stdio::null()).output();
    refused(&output.expect("the binary runs"), &["temporary file in /no/such", "No such file"]);
}

/// Root reads a capture that belongs to another user and has mode 0600.
#[test]
fn root_reads_captures_of_other_users() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let folder = folder();
    if folder.path().metadata().expect("it is there").uid() != 0 {
        println!("SKIPPED: only root reads the files of others");
        return;
    }
    let capture = folder.path().join("one.pcap");
    fs::copy(root().join("samples/nfs3-basic.pcap"), &capture).expect("it can be copied");
    fs::set_permissions(&capture, fs::Permissions::from_mode(0o600)).expect("it is ours");
    for path in [&capture, &folder.path().to_owned()] {
        chown(path, Some(65_534), Some(65_534)).expect("root may");
    }
    succeeds(folder.path(), &["analyze", "one.pcap"]);
    succeeds(folder.path(), &["export", "html", "one.pcap", "--output", "page.html"]);
}

/// A TZif file (RFC 9636, section 3) of version 1 with a single local time type: UTC+1.
fn one_hour_east() -> Vec<u8> {
    let mut bytes = [b"TZif".as_slice(), &[0; 16]].concat();
    for count in [0_u32, 0, 0, 0, 1, 4] {
        bytes.extend(count.to_be_bytes());
    }
    bytes.extend(3600_i32.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(b"CET\0");
    bytes
}

#[test]
fn local_time_zone_is_loaded_before_confinement() {
    let zone = Temporary::new("zone", &one_hour_east());
    let listed = |arguments: &[&str], zone: &str| {
        let capture = sample("nfs3-basic.pcap");
        let first = ["packets", &capture, "--fields", "time", "--format", "csv"];
        let output = command(&[&first, arguments].concat()).env("TZ", zone).output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (utc, _) = listed(&["--top", "1"], "UTC");
    let utc = utc.lines().nth(1).expect("there are packets").to_owned();
    let (local, _) = listed(&["--top", "1", "--time", "local"], zone.path());
    let local = local.lines().nth(1).expect("there are packets").to_owned();
    assert!(local.ends_with("+01:00") && local[..13] != utc[..13], "{local} {utc}");
    // A time of day is in the same zone, with and without an expression.
    let second = &local[11..19];
    for arguments in [&["--since", second][..], &["--where", &format!("time >= {second}")]] {
        assert_eq!(listed(arguments, zone.path()), listed(&[], "UTC"), "{arguments:?}");
    }
    let (shown, warning) = listed(&["--top", "1", "--time", "local"], "No/Such");
    assert!(shown.ends_with("+00:00\n"), "{shown}");
    assert_eq!(warning, "rdmascope: warning: TZ=No/Such: no such time zone; local times are UTC\n");
    assert_eq!(listed(&[], "No/Such").1, "");
}
