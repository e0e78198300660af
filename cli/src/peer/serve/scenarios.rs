//! `peer serve --scenario`: runs scenarios against clients one after the other, and reports
//! verdicts.

use crate::output::Out;
use crate::peer::inject;
use crate::peer::report::{Crossing, Drawing, Format, Ladder, Ran, Report};
use anyhow::{Result, bail};
use clap::Args;
use rdmascope_analysis::time::parse_duration;
use rdmascope_peer::endpoint::ConnectionId;
use rdmascope_peer::peer::{Event, Peer};
use rdmascope_peer::rpcrdma::{Called, Reply, Sent, SessionError};
use rdmascope_peer::scenario::{Scenario, Serving, Side};
use rdmascope_peer::time::Instant;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct ScenarioArguments {
    /// Run these scenarios of the responder's side against clients, one after the other: names,
    /// files that end in .toml, or `all`
    ///
    /// All other calls get correct replies. Each scenario gets a verdict on the reaction of the
    /// client. `rdmascope peer inject --list` lists the scenarios of both sides, and --explain
    /// describes one.
    #[arg(long, value_name = "SCENARIO", num_args = 1.., conflicts_with = "from")]
    scenario: Vec<String>,
    /// Also run scenarios that may crash or exhaust the client
    #[arg(long, requires = "scenario")]
    allow_destructive: bool,
    /// Longest wait for the next call of the client after each scenario
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration, requires = "scenario")]
    patience: u64,
    /// End when every scenario has its verdict and no client is connected, or --patience after the
    /// last verdict; otherwise only Ctrl-C ends the command
    #[arg(long, requires = "scenario")]
    until_judged: bool,
}

impl ScenarioArguments {
    /// Reads the scenarios. Returns `None` without `--scenario`.
    pub(super) fn begin(&self, format: Format) -> Result<Option<Scenarios>> {
        if self.scenario.is_empty() {
            if format.line_format().is_none() {
                bail!("--format junit and --format html need --scenario");
            }
            return Ok(None);
        }
        let mut waiting = VecDeque::new();
        for name in &self.scenario {
            waiting.extend(
                inject::named(name, Some(Side::Responder))?.into_iter().map(|(scenario, _)| scenario),
            );
        }
        let scenarios = waiting.len();
        let mut report = Report::new(Side::Responder, format, waiting.iter().cloned().collect());
        report.begin_column(None);
        let patience = Duration::from_nanos(self.patience);
        let (allow_destructive, until_judged) = (self.allow_destructive, self.until_judged);
        Ok(Some(Scenarios {
            waiting,
            now: None,
            report,
            drawing: (format == Format::Html).then(Drawing::new),
            scenarios,
            patience,
            allow_destructive,
            until_judged,
            until: None,
        }))
    }
}

/// The pending scenarios, the running one, and the report of the finished ones.
pub(super) struct Scenarios {
    waiting: VecDeque<Scenario>,
    now: Option<Serving>,
    report: Report,
    /// The packets of the running scenario, for the HTML page.
    drawing: Option<Drawing>,
    scenarios: usize,
    patience: Duration,
    allow_destructive: bool,
    until_judged: bool,
    /// The latest end of the server, once all scenarios have verdicts.
    until: Option<Instant>,
}

impl Scenarios {
    /// Returns the number of scenarios.
    pub(super) const fn count(&self) -> usize {
        self.scenarios
    }

    /// Returns the name of the running scenario.
    pub(super) fn name(&self) -> Option<&str> {
        self.now.as_ref().map(|serving| serving.scenario().name.as_str())
    }

    /// Returns the next time at which to call `advance`.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.now.as_ref().and_then(Serving::next_deadline).or(self.until)
    }

    /// Takes the packets that crossed, before the events that they caused.
    pub(super) fn see(&mut self, crossings: &[Crossing]) {
        if let Some(drawing) = &mut self.drawing {
            crossings.iter().for_each(|crossing| drawing.take(crossing));
        }
    }

    pub(super) fn handle(&mut self, peer: &Peer, event: &Event) {
        if let Some(serving) = &mut self.now {
            serving.handle(peer, event);
        }
    }

    /// Answers a call. Returns `Ok(None)` if the scenario acted instead.
    pub(super) fn answer(
        &mut self,
        peer: &mut Peer,
        now: Instant,
        connection: ConnectionId,
        called: &Called,
        reply: Reply,
    ) -> Result<Option<Sent>, SessionError> {
        match &mut self.now {
            Some(serving) => serving.answer(peer, now, connection, called, reply),
            None => peer.reply(connection, called.xid, reply).map(Some),
        }
    }

    /// Advances the scenarios and prints finished ones. Returns whether the server should end.
    pub(super) fn advance(
        &mut self,
        peer: &mut Peer,
        now: Instant,
        has_clients: bool,
        out: &mut Out,
    ) -> io::Result<bool> {
        loop {
            if let Some(serving) = &mut self.now {
                serving.advance(peer, now);
                if !serving.is_over() {
                    break;
                }
                self.end(out)?;
            }
            let Some(scenario) = self.waiting.pop_front() else { break };
            if scenario.destructive && !self.allow_destructive {
                let withheld = Ran { target: None, scenario, outcome: None };
                self.report.print_run(withheld, None, out)?;
            } else {
                self.now = Serving::new(scenario, self.patience);
            }
        }
        self.draw();
        if !self.until_judged || self.now.is_some() || !self.waiting.is_empty() {
            return Ok(false);
        }
        let until = *self.until.get_or_insert(now.plus(self.patience));
        Ok(!has_clients || until <= now)
    }

    /// Reports the running scenario, which is over.
    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.draw();
        let ladder: Option<Ladder> = self.drawing.as_mut().map(Drawing::finish);
        let Some(serving) = self.now.take() else { return Ok(()) };
        let Some(outcome) = serving.outcome() else { return Ok(()) };
        let target = serving.client().map(|client| client.to_string());
        let ran = Ran { target, scenario: serving.scenario().clone(), outcome: Some(outcome) };
        self.report.print_run(ran, ladder, out)
    }

    /// Starts the drawing once the client is known.
    fn draw(&mut self) {
        let client = self.now.as_ref().and_then(Serving::client);
        if let Some((drawing, client)) = self.drawing.as_mut().zip(client) {
            drawing.begin(client);
        }
    }

    /// Ends the remaining scenarios and reports all. Returns whether there was a violation.
    pub(super) fn finish(mut self, out: &mut Out) -> io::Result<bool> {
        while self.now.is_some() || !self.waiting.is_empty() {
            if let Some(serving) = &mut self.now {
                serving.interrupt();
                self.end(out)?;
            }
            self.now = self.waiting.pop_front().and_then(|scenario| Serving::new(scenario, self.patience));
        }
        self.report.finish(self.scenarios, out)
    }
}
