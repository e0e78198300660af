//! `rdmascope completions`: completion scripts for shells.

use crate::output::{Out, Status};
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::{self, Write as _};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope completions bash > ~/.local/share/bash-completion/completions/rdmascope
  rdmascope completions zsh > ~/.zfunc/_rdmascope
  rdmascope completions fish > ~/.config/fish/completions/rdmascope.fish

For zsh, add fpath+=~/.zfunc to ~/.zshrc, before compinit.";

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the completion script of `command_line`.
pub(crate) fn run(command: &Completions, mut command_line: Command, out: &mut Out) -> io::Result<Status> {
    // The generator panics on write errors, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut command_line, "rdmascope", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if command.shell == Shell::Zsh {
        // With two colons, _arguments completes no options after a file, and options usually follow
        // the file here.
        script = script.replace("\n'*::", "\n'*:");
    }
    out.write_all(script.as_bytes())?;
    Ok(Status::Done)
}
