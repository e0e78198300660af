//! The binary, run as by a user.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

mod fields;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn sample(name: &str) -> String {
    root().join("samples").join(name).to_str().expect("the path is UTF-8").to_owned()
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdmascope"));
    command.args(arguments).current_dir(root());
    // Settings of the developer's shell for colour and width must not affect the tests.
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

/// The command with default handling of SIGINT and SIGHUP. The tests may run with these ignored, as
/// in the background of a shell.
pub fn interruptible(arguments: &[&str]) -> Command {
    let plain = command(arguments);
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "--default-signal=HUP"]).arg(plain.get_program());
    command.args(plain.get_args()).current_dir(plain.get_current_dir().expect("it has one"));
    plain.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
}

/// Starts a command whose output the test reads.
pub fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

pub fn run(arguments: &[&str]) -> Output {
    command(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

pub fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = start(command(arguments).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The command may stop reading its input.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    output
}

/// The output of a command whose reader closes the pipe at once.
pub fn abandoned(arguments: &[&str]) -> Output {
    let mut child = start(&mut command(arguments));
    drop(child.stdout.take());
    child.wait_with_output().expect("the binary ends")
}

/// Copies the samples to a new folder, because a command may write next to them.
pub fn copy_samples(to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(root().join("samples")).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().expect("it has a name")))
                .expect("it can be copied");
        }
    }
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// The lines of a command that succeeded.
pub fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    json_lines(text(&output.stdout))
}

/// JSON lines, each checked against its list of columns.
pub fn json_lines(text: &str) -> Vec<Value> {
    let parsed = text.lines().map(|line| {
        let line = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        fields::check(&line);
        line
    });
    parsed.collect()
}

/// Asserts one clear line on standard error, exit status 2, and nothing on standard output.
pub fn refused(output: &Output, parts: &[&str]) {
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let complaint = text(&output.stderr);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for part in parts {
        assert!(complaint.contains(part), "{part:?} is not in: {complaint}");
    }
}

/// A temporary folder, removed after the test.
pub fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the folder for temporary files can be written to")
}

/// A temporary file, removed after the test.
pub struct Temporary(PathBuf);

impl Temporary {
    pub fn new(name: &str, bytes: &[u8]) -> Temporary {
        let name = format!("{}-{name}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
        Temporary(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("the path is UTF-8")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A pcap file as written by tcpdump on the machines of the samples: little-endian, microseconds.
pub struct Pcap {
    pub header: Vec<u8>,
    /// Each with its header of 16 bytes: seconds, microseconds, captured length, length.
    pub records: Vec<Vec<u8>>,
}

impl Pcap {
    pub fn read(name: &str) -> Pcap {
        Pcap::of(&std::fs::read(sample(name)).expect("the sample is there"))
    }

    pub fn of(bytes: &[u8]) -> Pcap {
        let (header, mut rest) = bytes.split_at(24);
        assert_eq!(header[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        let mut records = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes"));
            let (record, after) = rest.split_at(16 + length as usize);
            records.push(record.to_vec());
            rest = after;
        }
        Pcap { header: header.to_vec(), records }
    }

    /// A file with some of the records.
    pub fn with<'a>(&self, records: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
        let mut bytes = self.header.clone();
        records.into_iter().for_each(|record| bytes.extend_from_slice(record));
        bytes
    }
}

/// The two words of a record's time.
pub fn time(record: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}
