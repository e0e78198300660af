//! The server between two scenarios: whether it answers NULL, and `--restart`.

use super::{Inject, Means, known, one};
use crate::peer::report::Ran;
use anyhow::{Context as _, Result, bail};
use rdmascope_peer::scenario::{Alive, Outcome, Scenario, Side, Verdict};
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the reply to NULL after `--restart`, and the time between two calls.
const START: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(500);

/// A server that scenarios run against.
pub(super) struct Server<'a> {
    command: &'a Inject,
    to: SocketAddr,
    /// The scenario since which no NULL was answered.
    silent_since: Option<String>,
    /// Whether it ever answered anything.
    is_known: bool,
}

impl Server<'_> {
    pub(super) fn new(command: &Inject, to: SocketAddr) -> Server<'_> {
        Server { command, to, silent_since: None, is_known: false }
    }

    /// Runs a scenario if the server responds. Each scenario ends with a NULL, so that only one
    /// whose NULL was not answered leaves a doubt.
    ///
    /// # Errors
    /// If the run was interrupted, or the server cannot be started again.
    pub(super) fn judge(&mut self, means: &mut Means, number: usize, scenario: &Scenario) -> Result<Ran> {
        if !self.command.withholds(scenario)
            && let Some(since) = self.silent_since.clone()
            && !self.is_back(means)?
        {
            return Ok(gone(scenario, self.to, &since));
        }
        let ran = one(self.command, self.to, means, number, scenario, None)?.context("interrupted")?;
        self.note(&ran);
        Ok(ran)
    }

    /// An error if scenarios ran and the server answered none of them.
    pub(super) fn is_reached(&self) -> Result<()> {
        if self.silent_since.is_some() && !self.is_known {
            bail!("{} answers nothing, so no scenario ran to its end", self.to);
        }
        Ok(())
    }

    fn note(&mut self, ran: &Ran) {
        self.is_known |= ran.outcome.as_ref().is_some_and(|outcome| {
            matches!(outcome.alive, Alive::OnThis | Alive::OnNew) || !outcome.observed.is_empty()
        });
        match ran.alive() {
            // It was withheld.
            None => {}
            Some(Alive::OnThis | Alive::OnNew) => self.silent_since = None,
            Some(Alive::Gone | Alive::NotAsked) => {
                self.silent_since.get_or_insert_with(|| ran.scenario.name.clone());
            }
        }
    }

    /// Returns whether the server answers NULL, after `--restart` if it must.
    fn is_back(&self, means: &mut Means) -> Result<bool> {
        if self.answers(means)? {
            return Ok(true);
        }
        let Some(restart) = &self.command.restart else { return Ok(false) };
        run(restart)?;
        let until = Instant::now() + START;
        while !self.answers(means)? {
            if Instant::now() >= until {
                bail!("--restart: the server does not answer NULL after {} s", START.as_secs());
            }
            std::thread::sleep(AGAIN);
        }
        Ok(true)
    }

    /// Runs the scenario of a correct NULL. Its packets belong to no report.
    fn answers(&self, means: &mut Means) -> Result<bool> {
        let null = known(Some(Side::Requester)).find(|(scenario, _)| scenario.name == "null");
        let (null, _) = null.context("there is no scenario null")?;
        let ran = one(self.command, self.to, means, 0, &null, None)?.context("interrupted")?;
        means.take_kept();
        Ok(matches!(ran.alive(), Some(Alive::OnThis | Alive::OnNew)))
    }
}

/// A scenario that the server cannot be judged by.
fn gone(scenario: &Scenario, to: SocketAddr, since: &str) -> Ran {
    let reason = format!("the server was gone before: no answer to NULL since {since}");
    let (sent, observed) = (Vec::new(), Vec::new());
    let outcome = Outcome { verdict: Verdict::NotApplicable, reason, sent, observed, alive: Alive::Gone };
    Ran { target: Some(to.to_string()), scenario: scenario.clone(), outcome: Some(outcome) }
}

/// Runs a command by the shell. Standard output is for the report, so its output goes to standard
/// error.
fn run(command: &str) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(io::stderr());
    let status = shell.status().context("--restart: sh cannot be run")?;
    if !status.success() {
        bail!("--restart: the command ended with {status}");
    }
    Ok(())
}
