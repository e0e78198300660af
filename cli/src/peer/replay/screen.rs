//! Replays for the terminal UI.

use super::lines::{self, Replayed, Summary};
use super::{Listener, Replay, When};
use crate::filters::TransactionArguments;
use crate::input::Input;
use crate::output::{Format, Output};
use crate::peer::lines as common;
use crate::peer::live::SocketArguments;
use crate::peer::recording::{self, Read};
use anyhow::{Result, anyhow};
use rdmascope_analysis::units::Counted;
use rdmascope_peer::replay::{Fault, Outcome};
use rdmascope_present::text::Style;
use rdmascope_tui::inject::{self, Plan, Ran, Update, Watch};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Returns the faults that a call can get.
pub(in crate::peer) fn faults() -> Vec<inject::Fault> {
    let help = |fault| match fault {
        Fault::Version => "rdma_vers is 9",
        Fault::Procedure => "rdma_proc is 9",
        Fault::Short => "the last four bytes are omitted",
    };
    Fault::ALL.map(|fault| inject::Fault { name: fault.name(), help: help(fault) }).into()
}

/// Repeats the calls of `input` on the server `to`, as fast as replies arrive, and leaves out calls
/// that cannot be repeated.
pub(in crate::peer) struct OnScreen {
    pub(in crate::peer) input: Input,
    pub(in crate::peer) to: SocketAddr,
    pub(in crate::peer) from: Option<IpAddr>,
    /// See `peer replay --mount`.
    pub(in crate::peer) mount: Option<String>,
}

impl OnScreen {
    /// Replays according to `plan` until `watch` stops it.
    pub(in crate::peer) fn run(&self, plan: &Plan, watch: &mut dyn Watch) -> Result<Ran> {
        let command = self.command(plan)?;
        let filter = &command.filter;
        let (read, ending) = recording::read(&command.input, &filter.filter(), command.memory)?;
        recording::check(&read, &ending, command.leave_out)?;
        let mut text = left_out(&read);
        watch.update(Update::Calls(calls(&read, plan)));
        let mut listener = Watched { watch };
        let summary = command.replay(read, &mut listener)??;
        let is_stopped = listener.is_stopped() == Some(true);
        lines::print_summary(&summary, Format::Text, Style::default(), &mut text)?;
        Ok(Ran {
            verdict: verdict(&summary, is_stopped).to_owned(),
            is_violation: false,
            text: String::from_utf8_lossy(&text).into_owned(),
            arrows: Vec::new(),
        })
    }

    fn command(&self, plan: &Plan) -> Result<Replay> {
        let fault = |(name, number): (&str, u64)| {
            let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            fault.map(|fault| (fault, number)).ok_or_else(|| anyhow!("no fault {name}"))
        };
        let Input { files, .. } = &self.input;
        Ok(Replay {
            input: self.input.of(files.clone()),
            to: self.to,
            from: self.from,
            timing: When::Fastest,
            timeout: 5_000_000_000,
            mount: self.mount.clone(),
            handle: Vec::new(),
            leave_out: true,
            starting_at: plan.starting_at,
            fault: plan.fault.map(fault).transpose()?,
            all: true,
            memory: 1 << 30,
            filter: TransactionArguments::default(),
            sockets: SocketArguments::default(),
            output: Output { format: Format::Text },
        })
    }
}

/// The number of calls to send.
fn calls(read: &Read, plan: &Plan) -> u64 {
    let rest = plan.starting_at.and_then(|number| read.recording.starting_at(number).ok());
    rest.map_or(read.recording.calls.len(), |rest| rest.calls.len()) as u64
}

fn left_out(read: &Read) -> Vec<u8> {
    match read.unfit_count {
        0 => Vec::new(),
        count => {
            format!("left out: {} with bytes missing from the capture\n", Counted(count, "call")).into_bytes()
        }
    }
}

fn verdict(summary: &Summary, is_stopped: bool) -> &'static str {
    match (is_stopped, summary.is_agreement()) {
        (true, _) => "ended early",
        (false, true) => "agrees",
        (false, false) => "differs",
    }
}

/// Passes a replay to the UI.
struct Watched<'a> {
    watch: &'a mut dyn Watch,
}

impl Listener for Watched<'_> {
    /// The UI shows connections by their outcomes.
    fn line(&mut self, _: common::Line) -> io::Result<()> {
        Ok(())
    }

    fn outcome(&mut self, outcome: &Outcome, replayed: Replayed) -> io::Result<()> {
        self.watch.update(Update::Call(replayed.on_screen(outcome)));
        Ok(())
    }

    fn is_stopped(&self) -> Option<bool> {
        Some(self.watch.is_stopped())
    }
}
