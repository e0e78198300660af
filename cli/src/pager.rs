//! A pager between the output and a terminal, as git has it: `RDMASCOPE_PAGER`, `PAGER`, or `less`, which ends by itself where everything fits on the screen.
//!
//! It begins when the first line is written: errors before that need none. By then the command may
//! be confined and can start no program. So a shell is started before, which waits for the first
//! line and becomes the pager.

use core::mem;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Standard output, behind a pager where there is one.
pub(crate) struct Sink {
    stdout: StdoutLock<'static>,
    pager: Pager,
}

enum Pager {
    /// None is wanted, or none could be started.
    None,
    /// A shell that becomes the pager once there is output.
    Waiting(Child),
    /// It reads, and shows.
    Running(Child),
}

/// What was said beside the output while a pager had the terminal. `None`: it has not.
static HELD: Mutex<Option<String>> = Mutex::new(None);

/// Whether a pager has the terminal, and with it the keys.
pub(crate) fn is_running() -> bool {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Keeps a line for standard error until the pager has ended. Returns whether there is one.
pub(crate) fn hold(line: &str) -> bool {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_mut().is_some_and(|held| {
        held.push_str(line);
        true
    })
}

impl Sink {
    /// Standard output; `is_paged`: behind a pager, if it is a terminal on which one can be.
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

    /// Lets the pager begin, if one is wanted.
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
    /// Waits until the reader has seen enough. A shell that waits for output ends without it.
    fn drop(&mut self) {
        let (Pager::Running(child) | Pager::Waiting(child)) = &mut self.pager else { return };
        drop(child.stdin.take());
        // What it returns is its own affair.
        let _ = child.wait();
        if let Some(held) = HELD.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = io::stderr().write_all(held.as_bytes());
        }
    }
}

/// The line that the shell waits for. It reads no byte after it, because its standard input is a
/// pipe (POSIX, `read`).
const GO: &[u8] = b"go\n";
/// The script of the shell. Its argument is the pager that the environment names; without one it is
/// `less`, if that is installed.
const NAMED: &str = r#"read -r go && eval "$1""#;
const LESS: &str = "read -r go && { command -v less >/dev/null && exec less; exec cat; }";

/// A shell that becomes the pager that the environment names; an empty name, or `cat`, is none.
fn wanted() -> Option<Command> {
    let mut command = Command::new("sh");
    match named(|name| std::env::var_os(name)) {
        None => command.args(["-c", LESS]),
        Some(name) if name.is_empty() || name == "cat" => return None,
        Some(name) => command.args(["-c", NAMED, "sh"]).arg(name),
    };
    // Ends where all fits on the screen, keeps colours, leaves what it showed.
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
    fn its_own_variable_comes_first() {
        let both = |name: &str| Some(OsString::from(name));
        assert_eq!(named(both), Some("RDMASCOPE_PAGER".into()));
        assert_eq!(named(|name| (name == "PAGER").then(|| "most".into())), Some("most".into()));
        assert_eq!(named(|_| None), None);
    }

    #[test]
    fn nothing_is_held_where_no_pager_runs() {
        assert!(!is_running() && !hold("a line\n"));
    }
}
