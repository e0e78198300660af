//! `rdmascope`: analyzes captures of NFS over RDMA.
//!
//! The modules from the bottom up: `terminal`, `pager`, `queue`, `output`, `mode`, `atomic_file`,
//! `captures`, `junit`, `interrupt`, `confine` and `progress`; `input`, `filters`, `table`, `list`,
//! `level`, `rules`, `policy`, `mirror`, `bulk` and `kernel_trace`; one module per command, with its
//! arguments, examples and `run`; `args`, which lists the commands. No module uses one above it; a
//! test checks that.
#![forbid(unsafe_code)]

mod analyze;
mod args;
mod atomic_file;
mod bulk;
#[cfg(unix)]
mod capture;
mod capture_points;
mod captures;
mod check;
mod completions;
mod confine;
mod connections;
mod diff;
mod events;
mod export;
#[cfg(target_os = "linux")]
mod extcap;
mod extract;
mod filters;
mod html;
mod input;
mod interrupt;
mod junit;
mod kernel_trace;
mod level;
mod list;
mod live;
mod man;
mod mirror;
mod mode;
mod output;
mod packets;
mod pager;
mod paths;
#[cfg(target_os = "linux")]
mod peer;
mod policy;
mod ports;
mod progress;
mod queue;
mod regress;
mod rules;
mod selection;
mod show;
mod slice;
#[cfg(feature = "verbs")]
mod sniffer;
#[cfg(target_os = "linux")]
mod snoop;
mod state;
mod table;
mod terminal;
mod transactions;
mod tui;

use args::{Arguments, Command};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser as _};
use confine::Confinement;
use core::error::Error as _;
use core::num::{IntErrorKind, ParseIntError};
use input::Input;
use output::{Failure, Out, Status};
use rdmascope_analysis::time::Zone;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    #[cfg(target_os = "linux")]
    let arguments = match extcap::request(arguments.clone()) {
        None => arguments,
        Some(extcap::Request::Capture(arguments)) => arguments,
        Some(extcap::Request::Information(information)) => {
            let printed = extcap::print(information, &mut io::stdout());
            return ExitCode::from(if printed.is_ok() { Status::Done } else { Status::Failed } as u8);
        }
    };
    let ended = match Arguments::try_parse_from(arguments) {
        Ok(mut arguments) => {
            if let Some(new_files) = arguments.command.new_files() {
                new_files.apply();
            }
            if arguments.no_sandbox {
                confine::turn_off();
            }
            captures::allow_many();
            run(&mut arguments.command, arguments.no_pager)
        }
        // Help that was requested goes to standard output.
        Err(help) if !help.use_stderr() => {
            help.print().and_then(|()| io::stdout().flush()).map(|()| Status::Done)
        }
        Err(usage) => {
            complain_of_usage(usage);
            Ok(Status::Failed)
        }
    };
    let code = match ended {
        Ok(status) => ExitCode::from(status as u8),
        // The reader closed the pipe early, as `head` does. That is not an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::notify(format_args!("standard output: {error}"));
            ExitCode::from(Status::Failed as u8)
        }
    };
    output::close_messages();
    code
}

/// Reports wrong arguments, with the error of clap. A number that cannot be parsed gets the form
/// that is expected. clap suggests `-- -1` for a negative number, which no option takes.
fn complain_of_usage(mut error: clap::Error) {
    let is_number = |value: &ContextValue| {
        let ContextValue::String(value) = value else { return false };
        value.strip_prefix('-').is_some_and(|digits| digits.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    if error.get(ContextKind::InvalidArg).is_some_and(is_number) {
        error.remove(ContextKind::Suggested);
    }
    let mut message = error.render().ansi().to_string();
    if let Some(cause) = error.source().and_then(|cause| cause.downcast_ref::<ParseIntError>())
        && !matches!(cause.kind(), IntErrorKind::PosOverflow)
    {
        message = message.replace(&cause.to_string(), "expected a number, in decimal digits");
    }
    // A write error cannot be reported.
    let _ = anstream::stderr().write_all(message.as_bytes());
}

/// Runs a command. Returns an error of standard output; other errors are reported on standard
/// error.
fn run(command: &mut Command, no_pager: bool) -> io::Result<Status> {
    let mut out = output::stdout(!no_pager && command.is_paged());
    let ended = perform(command, &mut out);
    let status = output::report_failure(ended, &mut out)?;
    if let Some(zone) = Zone::not_loaded() {
        output::notify(format_args!(
            "warning: TZ={}: no such time zone; local times are UTC",
            zone.display()
        ));
    }
    out.flush()?;
    Ok(status)
}

fn perform(command: &mut Command, out: &mut Out) -> Result<Status, Failure> {
    let style = terminal::style();
    command.input().map_or(Ok(()), Input::expand)?;
    Zone::prepare();
    match command.confinement() {
        Confinement::AtOnce(paths) => paths.confine_and_listen(),
        Confinement::Later => {}
        Confinement::Never => interrupt::listen(),
    }
    Ok(match command {
        Command::Analyze(command) => analyze::run(command, style, out)?,
        Command::Connections(command) => connections::run(command, style, out)?,
        Command::Transactions(command) => transactions::run(command, style, out)?,
        Command::Packets(command) => packets::run(command, style, out)?,
        Command::Events(command) => events::run(command, style, out)?,
        Command::State(command) => state::run(command, style, out)?,
        Command::Export(command) => export::run(command, out)?,
        Command::Extract(command) => extract::run(command, style, out)?,
        Command::Show(command) => show::run(command, style, out)?,
        Command::Check(command) => check::run(command, style, out)?,
        Command::Diff(command) => diff::run(command, style, out)?,
        Command::Regress(command) => regress::run(command, style, out)?,
        #[cfg(unix)]
        Command::Capture(command) => capture::run(command, out)?,
        Command::Live(command) => live::run(command, style, out)?,
        Command::Tui(command) => tui::run(command, style)?,
        #[cfg(target_os = "linux")]
        Command::Peer(command) => peer::run(command, style, out)?,
        Command::Completions(command) => completions::run(command, Arguments::command(), out)?,
        Command::Man(command) => man::run(command, Arguments::command(), out)?,
    })
}
