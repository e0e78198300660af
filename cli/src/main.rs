//! `rdmascope`: reads captures of NFS over RDMA.
#![forbid(unsafe_code)]

mod args;
mod check;
mod commands;
mod completions;
mod diff;
mod export;
mod extract;
mod filters;
mod man;
mod progress;
mod regress;
mod show;
mod source;
mod terminal;

use clap::Parser as _;
use commands::Status;
use std::io::ErrorKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = args::Arguments::parse();
    match commands::run(&mut arguments.command) {
        Ok(status) => ExitCode::from(status as u8),
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            commands::tell(format_args!("standard output: {error}"));
            ExitCode::from(Status::Failed as u8)
        }
    }
}
