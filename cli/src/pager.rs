//! A pager for output to a terminal, as in git: `RDMASCOPE_PAGER`, `PAGER`, or `less`, which exits
//! if everything fits on the screen.
//!
//! It starts when the first line is written, so that earlier errors need none. By then the command
//! may be confined and unable to start programs. Therefore a shell is started earlier; it waits for
//! the first line and becomes the pager.

use core::mem;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Standard output, possibly through a pager.
pub(crate) struct Sink {
    stdout: StdoutLock<'static>,
    pager: Pager,
}

enum Pager {
    /// No pager is wanted, or none could be started.
    None,
    /// A shell that becomes the pager when there is output.
    Waiting(Child),
    /// The pager is running.
    Running(Child),
}

/// Lines for standard error, held back while a pager has the terminal; `None` without a pager.
static HELD: Mutex<Option<String>> = Mutex::new(None);

/// Whether a pager has the terminal and receives the keys.
pub(crate) fn is_running() -> bool {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Holds back a line for standard error until the pager has ended. Returns whether there is one.
pub(crate) fn hold(line: &str) -> bool {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_mut().is_some_and(|held| {
        held.push_str(line);
        true
    })
}

impl Sink {
    /// Opens standard output. With `is_paged`, a terminal gets a pager if it supports one.
    pub(crate) fn new(is_paged: bool) -> Sink {
        let stdout = io::stdout().lock();
        let is_screen = || {
            stdout.is_terminal()
                && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
        };
        let wanted = if is_paged && is_screen() { wanted() } else { None };
        let waiting = wanted.and_then(|mut shell| shell.stdin(Stdio::piped()).spawn().ok());
        Sink { stdout, pager: waiting.map_or(Pager::None, Pager::Waiting) }
    }

    /// Starts the pager, if one is wanted.
    fn start(&mut self) {
        self.pager = match mem::replace(&mut self.pager, Pager::None) {
            Pager::Waiting(mut child) => match child.stdin.as_mut().map(|stdin| stdin.write_all(GO)) {
                Some(Ok(())) => {
                    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(String::new());
                    Pager::Running(child)
                }
                _ => Pager::None,
            },
            other => other,
        };
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.pager {
            Pager::Running(Child { stdin: Some(stdin), .. }) => stdin,
            _ => &mut self.stdout,
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.start();
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

impl Drop for Sink {
    /// Waits until the pager is closed. A shell still waiting for output ends without any.
    fn drop(&mut self) {
        let (Pager::Running(child) | Pager::Waiting(child)) = &mut self.pager else { return };
        drop(child.stdin.take());
        // The exit status of the pager does not matter.
        let _ = child.wait();
        if let Some(held) = HELD.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = io::stderr().write_all(held.as_bytes());
        }
    }
}

/// The line that the shell waits for. The shell reads no byte after it, because its standard input
/// is a pipe (POSIX, `read`).
const GO: &[u8] = b"go\n";
/// The script of the shell. Its argument is the pager that the environment names; without one it is
/// `less`, if that is installed. `cat` replaces a pager that the shell cannot start (statuses 126
/// and 127 of POSIX, 2.8.2).
const NAMED: &str = r#"read -r go && { eval "$1"; case $? in 126 | 127) exec cat ;; esac; }"#;
const LESS: &str = "read -r go && { command -v less >/dev/null && exec less; exec cat; }";

/// A shell that becomes the pager named in the environment. An empty name or `cat` means no pager.
fn wanted() -> Option<Command> {
    let mut command = Command::new("sh");
    match named(|name| std::env::var_os(name)) {
        None => command.args(["-c", LESS]),
        Some(name) if name.is_empty() || name == "cat" => return None,
        Some(name) => command.args(["-c", NAMED, "sh"]).arg(name),
    };
    // Exit if all fits on the screen, keep colours, leave the text on the screen.
    for (variable, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(variable).is_none() {
            command.env(variable, value);
        }
    }
    Some(command)
}

fn named(variable: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
    variable("RDMASCOPE_PAGER").or_else(|| variable("PAGER"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdmascope_pager_overrides_pager() {
        let both = |name: &str| Some(OsString::from(name));
        assert_eq!(named(both), Some("RDMASCOPE_PAGER".into()));
        assert_eq!(named(|name| (name == "PAGER").then(|| "most".into())), Some("most".into()));
        assert_eq!(named(|_| None), None);
    }

    #[test]
    fn output_is_not_held_without_a_pager() {
        assert!(!is_running() && !hold("a line\n"));
    }
}
