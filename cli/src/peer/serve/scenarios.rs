//! `peer serve --scenario`: what it does to clients on purpose, one scenario after the other, and the verdicts.

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
    /// Do this to a client: scenarios of the responder's side, one after the other: names, files that end in .toml, or `all`
    ///
    /// Every call is answered rightly, but for the one that a scenario is about. What the client does about that is told with a verdict. `rdmascope
    /// peer inject --list` lists the scenarios of both sides, and --explain says all of one.
    #[arg(long, value_name = "SCENARIO", num_args = 1.., conflicts_with = "from")]
    scenario: Vec<String>,
    /// Run scenarios too that may crash or exhaust the client
    #[arg(long, requires = "scenario")]
    allow_destructive: bool,
    /// How long the next call of the client is waited for after each scenario
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration, requires = "scenario")]
    patience: u64,
    /// End when every scenario has its verdict and no client is connected, or --patience later, and not with Ctrl-C only
    #[arg(long, requires = "scenario")]
    until_judged: bool,
}

impl ScenarioArguments {
    /// The scenarios; `None`: there are none.
    pub(super) fn begin(&self, format: Format) -> Result<Option<Scenarios>> {
        if self.scenario.is_empty() {
            if format.on_the_way().is_none() {
                bail!("--format junit and html are reports of --scenario");
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

/// Scenarios that wait, the one that runs, and the report of those that are over.
pub(super) struct Scenarios {
    waiting: VecDeque<Scenario>,
    now: Option<Serving>,
    report: Report,
    /// What crosses while one runs, where that is shown.
    drawing: Option<Drawing>,
    scenarios: usize,
    patience: Duration,
    allow_destructive: bool,
    until_judged: bool,
    /// All have their verdicts: when the server ends at the latest.
    until: Option<Instant>,
}

impl Scenarios {
    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.scenarios
    }

    /// The name of the one that runs.
    pub(super) fn name(&self) -> Option<&str> {
        self.now.as_ref().map(|serving| serving.scenario().name.as_str())
    }

    /// When it wants to be told the time.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.now.as_ref().and_then(Serving::next_deadline).or(self.until)
    }

    /// What has crossed, before what came of it is told.
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

    /// Answers a call. `Ok(None)`: the scenario did what it does.
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

    /// Goes on, and prints what is over. Whether the server is to end, which has clients or not.
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
                self.report.tell(Ran::unjudged(&scenario, None), None, out)?;
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

    /// The scenario that runs is over.
    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.draw();
        let ladder: Option<Ladder> = self.drawing.as_mut().map(Drawing::finish);
        let Some(serving) = self.now.take() else { return Ok(()) };
        let Some(outcome) = serving.outcome() else { return Ok(()) };
        let client = serving.client().map(|client| client.to_string());
        self.report.tell(Ran::judged(serving.scenario(), client, &outcome), ladder, out)
    }

    /// Draws what crosses between this side and the client, as soon as that is known.
    fn draw(&mut self) {
        let client = self.now.as_ref().and_then(Serving::client);
        if let Some((drawing, client)) = self.drawing.as_mut().zip(client) {
            drawing.begin(client);
        }
    }

    /// Ends what is not over, and tells all of them. Whether there was a violation.
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
