//! `peer serve` as a process next to the one under test.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use crate::binary::{interruptible, root, start, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicU8, Ordering};

/// An address of 127.0.0.0/8 that no other test uses, in this process or another.
pub fn address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{high}.{}", NEXT.fetch_add(1, Ordering::Relaxed), low.clamp(1, 254))
}

/// A running server.
pub struct Server {
    pub child: Child,
    /// `None` once taken.
    pub stdout: Option<BufReader<ChildStdout>>,
    /// The output read so far.
    pub first: String,
}

impl Server {
    /// Starts a server with these arguments and waits until it listens. Returns `None`, and reports
    /// that, if the port is taken.
    pub fn start(arguments: &[&str]) -> Option<Server> {
        let arguments = [&["peer", "serve", "--format", "jsonl"], arguments].concat();
        let mut child = start(&mut interruptible(&arguments));
        let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut first = String::new();
        stdout.read_line(&mut first).expect("it can be read");
        if first.is_empty() {
            let output = child.wait_with_output().expect("it ends");
            let complaint = text(&output.stderr);
            assert!(complaint.contains("is in use"), "{complaint}");
            eprintln!("SKIPPED: {complaint}");
            return None;
        }
        Some(Server { child, stdout: Some(stdout), first })
    }

    /// Ends it like Ctrl-C. Returns its lines.
    pub fn stop(self) -> Vec<Value> {
        self.stop_by("-INT")
    }

    /// Ends it with this signal. Returns its lines.
    pub fn stop_by(mut self, signal: &str) -> Vec<Value> {
        let signal = std::process::Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(signal.expect("kill is there").success());
        let mut rest = std::mem::take(&mut self.first);
        self.stdout.take().expect("it was not taken").read_to_string(&mut rest).expect("it can be read");
        let mut complaint = String::new();
        self.child
            .stderr
            .take()
            .expect("it was piped")
            .read_to_string(&mut complaint)
            .expect("it can be read");
        assert_eq!((self.child.wait().expect("it ends").code(), &*complaint), (Some(0), ""));
        parsed(&rest)
    }
}

impl Drop for Server {
    /// Runs when a test fails before its end.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of `peer`, with the fields listed in docs/peer.md.
pub fn parsed(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The lines of this type.
pub fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// Asserts that docs/peer.md lists every field in the lines.
pub fn described(lines: &[Value]) {
    let document = std::fs::read_to_string(root().join("docs/peer.md")).expect("it is there");
    fn names(value: &Value, before: &str, found: &mut BTreeSet<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let name = format!("{before}{name}");
            names(value, &format!("{name}."), found);
            found.insert(name);
        }
    }
    let mut found = BTreeSet::new();
    lines.iter().for_each(|line| names(line, "", &mut found));
    assert!(found.len() > 10);
    for name in found {
        assert!(document.contains(&format!("`{name}`")), "docs/peer.md lacks {name}");
    }
}
