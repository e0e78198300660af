//! Output is written atomically, and only regular files are replaced.
#![cfg(unix)]

mod binary;

use binary::{Pcap, command, folder, interruptible, run, sample, text, with_input};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("the path is UTF-8").to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    entries.map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned()).collect()
}

/// Every command that writes a file.
fn writers(output: &str) -> [Vec<String>; 3] {
    let file = &*sample("nfs3-basic.pcap");
    let extract = ["extract", file, "--transaction", LARGE, "--part", "payload", "--output", output];
    [
        ["export", "html", file, "--output", output].map(str::to_owned).to_vec(),
        ["export", "pcapng", file, "--output", output].map(str::to_owned).to_vec(),
        extract.map(str::to_owned).to_vec(),
    ]
}

/// A WRITE of more than 10,000 bytes.
const LARGE: &str = "16";

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Regression test: root replaced a link to something other than a regular file.
#[test]
fn special_file_is_written_in_place() {
    let folder = folder();
    let link = path(&folder, "link");
    symlink("/proc/self/fd/1", &link).expect("a link can be made");
    for output in [&link, "/dev/stdout"] {
        for arguments in writers(output) {
            let found = run(&words(&arguments));
            assert!(found.status.success(), "{}", text(&found.stderr));
            assert!(found.stdout.len() > 10_000, "{arguments:?}");
        }
    }
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(names(folder.path()), ["link"]);
}

/// A file that the shell has opened is written in place, not replaced.
#[test]
fn standard_output_is_not_replaced() {
    let folder = folder();
    let file = fs::File::create(folder.path().join("file")).expect("it can be made");
    let inode = file.metadata().expect("it is open").ino();
    let [arguments, ..] = writers("/dev/stdout");
    let status = command(&words(&arguments)).stdout(file).status().expect("the binary runs");
    assert!(status.success());
    let now = fs::metadata(folder.path().join("file")).expect("it is there");
    assert_eq!(now.ino(), inode);
    assert!(now.len() > 10_000);
}

#[test]
fn dangling_link_is_not_replaced() {
    let folder = folder();
    let link = path(&folder, "link");
    symlink("nowhere", &link).expect("a link can be made");
    for arguments in writers(&link) {
        let found = run(&words(&arguments));
        assert_eq!(found.status.code(), Some(2));
        assert!(text(&found.stderr).contains("link: cannot be written: it is a link to a missing file"));
    }
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(names(folder.path()), ["link"]);
}

#[test]
fn replaced_file_keeps_its_mode_and_link() {
    let folder = folder();
    let (file, link) = (path(&folder, "file"), path(&folder, "link"));
    symlink("file", &link).expect("a link can be made");
    for arguments in writers(&link) {
        fs::write(&file, "before").expect("it can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("it is ours");
        assert!(run(&words(&arguments)).status.success());
        let now = fs::metadata(&file).expect("it is there");
        assert_eq!(now.mode() & 0o7777, 0o640);
        assert!(now.len() > 10_000);
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    }
}

/// A command that waits for its input after reading some of it.
fn waiting(arguments: &[&str]) -> std::process::Child {
    let mut child = interruptible(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("env(1) is there");
    // More than a pipe holds: when all is written, some of it was read.
    let pcap = Pcap::read("nfs3-basic.pcap");
    let input = child.stdin.as_mut().expect("it was piped");
    input.write_all(&pcap.with(&pcap.records)).expect("the command reads it");
    child
}

fn signal(child: &std::process::Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(status.expect("kill(1) is there").success());
}

fn until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_met() {
        assert!(start.elapsed() < Duration::from_secs(60), "{condition}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn signal_leaves_no_files() {
    for arguments in [
        &["export", "parquet", "-", "--capture", "x", "--output", "new/tables"][..],
        &["export", "html", "-", "--output", "page.html"],
        &["export", "pcapng", "-", "--output", "page.pcapng"],
    ] {
        let folder = folder();
        let output = arguments.last().expect("there are some");
        let output = path(&folder, output);
        let full_arguments = [&arguments[..arguments.len() - 1], &[&output]].concat();
        let mut child = waiting(&full_arguments);
        if arguments[1] == "parquet" {
            until("the tables are begun", || folder.path().join("new/tables").is_dir());
        }
        signal(&child, "TERM");
        let status = child.wait().expect("it ends");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{arguments:?}");
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{arguments:?}");
    }
}

/// The files in a folder and its subfolders, with their contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for name in names(&next) {
            let path = next.join(name);
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("it is there");
                found.insert(path.strip_prefix(folder).expect("it is below").to_owned(), bytes);
            }
        }
    }
    found
}

/// Files get their names only when they are written. The process is stopped once it has started to
/// write them, so that it cannot end before the signal arrives. Under load the signal is handled so
/// late that all files have their names, or the process has ended.
#[test]
fn signal_during_extract_leaves_no_files() {
    let file = sample("nfs4.2-mtu4096-large-io.pcap");
    // The control: without a signal.
    let undisturbed = folder();
    let files = path(&undisturbed, "new/files");
    assert!(run(&["extract", &file, "--files", &files]).status.success());
    let expected = contents(undisturbed.path());
    assert!(expected.len() > 1);
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        let hit = (0..20).any(|_| {
            let folder = folder();
            let files = folder.path().join("new/files");
            let arguments = ["extract", &file, "--files", files.to_str().expect("the path is UTF-8")];
            let mut child = interruptible(&arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("env(1) is there");
            let writes =
                || files.is_dir() && names(&files).iter().any(|name| name.starts_with(".rdmascope-"));
            until("files are begun", || writes() || child.try_wait().is_ok_and(|status| status.is_some()));
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return false;
            }
            signal(&child, "STOP");
            let is_writing = writes() && names(&files).len() == 1;
            signal(&child, name);
            signal(&child, "CONT");
            let status = child.wait().expect("it ends");
            if is_writing && (status.success() || !names(folder.path()).is_empty()) {
                assert!(contents(folder.path()) == expected, "{name}: {:?}", contents(folder.path()).keys());
                return false;
            }
            if is_writing {
                assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(number), "{name}");
            }
            is_writing
        });
        assert!(hit, "{name}: it was never writing");
    }
}

/// As in tcpdump and tshark, the first Ctrl-C ends the input, and the results so far are shown.
#[test]
fn ctrl_c_ends_piped_input() {
    let pcap = Pcap::read("nfs3-basic.pcap");
    let uninterrupted = |arguments: &[&str]| with_input(arguments, &pcap.with(&pcap.records)).stdout;
    for arguments in [
        &["check", "-", "--allow", "invalidation-sender-flag", "--format", "jsonl"][..],
        &["transactions", "-"],
        &["export", "pcapng", "-", "--output", "-"],
    ] {
        let mut child = waiting(arguments);
        // The pipe stays open.
        let input = child.stdin.take().expect("it was piped");
        let mut output = child.stdout.take().expect("it was piped");
        let reader = std::thread::spawn(move || {
            let mut printed = Vec::new();
            output.read_to_end(&mut printed).map(|_| printed)
        });
        signal(&child, "INT");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{arguments:?}");
        let printed = reader.join().expect("it does not panic").expect("it can be read");
        assert!(printed == uninterrupted(arguments), "{arguments:?}");
        drop(input);
    }
}

#[test]
fn second_ctrl_c_or_ctrl_c_without_pipe_ends_the_command() {
    let mut child = waiting(&["analyze", "-"]);
    signal(&child, "INT");
    signal(&child, "INT");
    let status = child.wait().expect("it ends");
    // Two signals that arrive before the first is handled count as one.
    let signal_number = std::os::unix::process::ExitStatusExt::signal(&status);
    assert!(signal_number == Some(2) || status.code() == Some(0), "{status}");

    // The process is still running, because its output is not read.
    let file = sample("nfs4.2-mtu4096-large-io.pcap");
    let mut child =
        interruptible(&["packets", &file]).stdout(Stdio::piped()).spawn().expect("env(1) is there");
    let mut output = child.stdout.take().expect("it was piped");
    output.read_exact(&mut [0]).expect("there is output");
    signal(&child, "INT");
    let status = child.wait().expect("it ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
}

/// Runs the binary with a limit on the size of files.
fn limited(arguments: &[&str], kilobytes: u32) -> std::process::Output {
    let script = format!("trap '' XFSZ; ulimit -f {kilobytes}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_rdmascope")]).args(arguments);
    shell.stdin(Stdio::null()).output().expect("bash is there")
}

#[test]
fn full_disk_leaves_no_files() {
    for (arguments, output) in [
        (&["export", "html"][..], "page.html"),
        (&["export", "pcapng"], "page.pcapng"),
        (&["export", "parquet"], "new/tables"),
        (&["extract", "--transaction", LARGE, "--part", "payload"], "payload"),
        (&["extract"], "new/files"),
    ] {
        let folder = folder();
        let file = sample("nfs3-basic.pcap");
        let option = match arguments {
            ["extract"] => "--files",
            _ => "--output",
        };
        let output = path(&folder, output);
        let full_arguments = [arguments, &[&file, option, &output]].concat();
        let found = limited(&full_arguments, 8);
        assert_eq!(found.status.code(), Some(2), "{arguments:?}: {}", text(&found.stderr));
        assert!(text(&found.stderr).contains("File too large"), "{arguments:?}: {}", text(&found.stderr));
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{arguments:?}");
    }
}

/// An expectation that cannot be written completely stays unchanged.
#[test]
fn full_disk_keeps_the_old_expectation() {
    let folder = folder();
    fs::copy(sample("nfs3-basic.pcap"), folder.path().join("a.pcap")).expect("there is room");
    let (file, before) = (path(&folder, "a.expected.jsonl"), "{\"type\":\"finding\"}\n");
    let arguments = ["regress", &path(&folder, ""), "--bless"];
    fs::write(&file, before).expect("there is room");
    let found = limited(&arguments, 8);
    assert_eq!(found.status.code(), Some(2), "{}", text(&found.stderr));
    let printed = format!("{}{}", text(&found.stdout), text(&found.stderr));
    assert!(printed.contains("a.expected.jsonl: cannot be written: File too large"), "{printed}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), before);
    let mut left = names(folder.path());
    left.sort();
    assert_eq!(left, ["a.expected.jsonl", "a.pcap"]);
    // The control: with enough room it is written.
    assert_eq!(limited(&arguments, 4096).status.code(), Some(0));
    assert!(fs::metadata(&file).expect("it is there").len() > 8 << 10);
}

#[test]
fn invalid_capture_makes_no_folder() {
    let folder = folder();
    let found = run(&["export", "parquet", "README.md", "--output", &path(&folder, "new/tables")]);
    assert_eq!(found.status.code(), Some(2));
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn temporary_folder_is_named_in_the_error() {
    let input = fs::File::open(sample("nfs3-basic.pcap")).expect("it is there");
    let mut export = command(&["export", "html", "-", "--output", "-"]);
    let found = export.env("TMPDIR", "/nowhere/at/all").stdin(input).output().expect("the binary runs");
    assert_eq!(found.status.code(), Some(2));
    let complaint = text(&found.stderr);
    assert!(complaint.contains("temporary file in /nowhere/at/all: No such file"), "{complaint}");
    assert!(complaint.contains("TMPDIR selects another folder"), "{complaint}");
}

#[test]
fn unwritable_output_is_an_error() {
    if !Path::new("/dev/full").exists() {
        eprintln!("SKIPPED: there is no /dev/full");
        return;
    }
    for arguments in [&["--help"][..], &["help", "analyze"], &["--version"], &["man"], &["check", "--rules"]]
    {
        let full = fs::File::options().write(true).open("/dev/full").expect("anybody may");
        let found = command(arguments).stdout(full).stderr(Stdio::piped()).output().expect("the binary runs");
        assert_eq!(found.status.code(), Some(2), "{arguments:?}");
        assert!(text(&found.stderr).contains("standard output: "), "{arguments:?}");
    }
}
