//! `rdmascope peer inject`: runs scenarios against a live server and reports the verdicts.

mod server;

use super::call::target;
use super::live::{SocketArguments, Wire, local_address};
use super::report::{Crossing, Format, Ladder, Ran, Report, text};
use crate::output::{self, Out, Status};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use rdmascope_analysis::time::parse_duration;
use rdmascope_peer::driver::{Ended, Reach};
use rdmascope_peer::endpoint::{Config, Endpoint};
use rdmascope_peer::scenario::{
    BUILTIN, Injector, Outcome, Runner, Scenario, Side, Target, builtin_of, parse,
};
use rdmascope_peer::time::earlier;
use server::Server;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The arguments of `peer inject`.
#[derive(Args, Debug)]
pub(super) struct Inject {
    /// Scenarios to run: names, files that end in .toml, or `all`
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["list", "explain", "section"])]
    scenarios: Vec<String>,
    /// Server address, and a port if it is not 20049; repeat it for several servers; packets go to
    /// these addresses only
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = target, required_unless_present_any = ["list", "explain"])]
    to: Vec<SocketAddr>,
    /// Local address [default: that of the route to the server]
    #[arg(long, value_name = "ADDR")]
    from: Option<IpAddr>,
    /// List the scenarios and send nothing
    #[arg(long)]
    list: bool,
    /// Print the requirement, steps and reactions of a scenario, and send nothing
    #[arg(long, value_name = "SCENARIO")]
    explain: Option<String>,
    /// Run only scenarios of this document or section, such as rfc8797 or rfc8166/4.5
    #[arg(long, value_name = "SECTION")]
    section: Option<String>,
    /// Also run scenarios that may crash or exhaust the server, or that create a file on it
    #[arg(long)]
    allow_destructive: bool,
    /// Skip scenarios that call NFS: the server answers only NULL
    #[arg(long)]
    null_only: bool,
    /// Longest wait for a connection, and for the reply to NULL
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    timeout: u64,
    /// Shell command that starts the server again if it no longer answers NULL; it returns while the server runs
    #[arg(long, value_name = "COMMAND")]
    restart: Option<String>,
    /// Output format: text, JSON Lines for programs, JUnit XML for CI systems, or an HTML page with a column for each server
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    pub(super) sockets: SocketArguments,
    #[cfg(feature = "verbs")]
    #[command(flatten)]
    device: super::device::DeviceArguments,
}

impl Inject {
    /// Returns whether a scenario is not run because it may crash the server.
    fn withholds(&self, scenario: &Scenario) -> bool {
        scenario.destructive && !self.allow_destructive
    }

    /// All scenarios, destructive ones included, against the server `to`. Packets are kept.
    pub(super) fn for_screen(to: SocketAddr, from: Option<IpAddr>) -> Inject {
        Inject {
            scenarios: vec!["all".into()],
            to: vec![to],
            from,
            list: false,
            explain: None,
            section: None,
            allow_destructive: true,
            null_only: false,
            timeout: 2_000_000_000,
            restart: None,
            format: Format::Html,
            sockets: SocketArguments::default(),
            #[cfg(feature = "verbs")]
            device: Default::default(),
        }
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope peer inject --list
  rdmascope peer inject --explain version-9
  rdmascope peer inject --to 192.0.2.2 version-9 msgp
  rdmascope peer inject --to 192.0.2.2 --section rfc8166/4.5 --save faults.pcapng
  rdmascope peer inject --to 192.0.2.2 all --format junit > report.xml
  rdmascope peer inject --to 192.0.2.2 all --restart 'ssh server ./restart-nfs'
  rdmascope peer inject --to 192.0.2.2 --to 192.0.2.3 all --format html > report.html
  rdmascope peer inject --to 192.0.2.2 ./mine.toml";

/// Runs the command.
pub(super) fn run(command: &Inject, out: &mut Out) -> io::Result<Status> {
    let chosen = match choose(command) {
        Ok(chosen) => chosen,
        Err(error) => return output::complain(&error, out),
    };
    if command.explain.is_some() {
        for (scenario, text) in &chosen {
            text::explain(scenario, text, out)?;
        }
        return Ok(Status::Done);
    }
    if command.list {
        for (scenario, _) in &chosen {
            text::list(scenario, out)?;
        }
        return Ok(Status::Done);
    }
    let mut means = match Means::open(command) {
        Ok(means) => means,
        Err(error) => return output::complain(&error, out),
    };
    let rows = chosen.iter().map(|(scenario, _)| scenario.clone()).collect();
    let mut report = Report::new(Side::Requester, command.format, rows);
    let mut ended = Ok(());
    'targets: for (index, to) in command.to.iter().enumerate() {
        if command.format == Format::Text && command.to.len() > 1 {
            writeln!(out, "{}{to}", if index == 0 { "" } else { "\n" })?;
        }
        report.begin_column(Some(to.to_string()));
        let mut server = Server::new(command, *to);
        for (number, (scenario, _)) in chosen.iter().enumerate() {
            let one = match server.judge(&mut means, number, scenario) {
                Ok(one) => one,
                Err(error) => {
                    ended = Err(error);
                    break 'targets;
                }
            };
            let ladder = match command.format {
                Format::Html => means.take_kept().map(|kept| Ladder::of(&kept, to.ip())),
                _ => None,
            };
            report.print_run(one, ladder, out)?;
        }
        ended = ended.and(server.is_reached());
    }
    let is_violation = report.finish(chosen.len() * command.to.len(), out)?;
    if let Err(error) = ended.and(means.finish()) {
        return output::complain(&error, out);
    }
    Ok(if is_violation { Status::Differs } else { Status::Done })
}

/// A scenario and the text of its file.
pub(super) type Chosen = (Scenario, Cow<'static, str>);

/// Returns the built-in scenarios of one side, or of both sides with the requester's first.
pub(super) fn known(side: Option<Side>) -> impl Iterator<Item = Chosen> {
    let sides = [Side::Requester, Side::Responder].into_iter();
    sides.filter(move |one| side.is_none_or(|side| side == *one)).flat_map(builtin_of).map(with_text)
}

/// Returns the scenarios of a name, a file or `all`. Refuses a scenario of the other side.
pub(super) fn named(name: &str, side: Option<Side>) -> Result<Vec<Chosen>> {
    if name == "all" {
        return Ok(known(side).collect());
    }
    let found = if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name).with_context(|| format!("{name}: cannot be read"))?;
        Some((parse(name, &text)?, text.into()))
    } else {
        known(None).find(|(scenario, _)| scenario.name == name)
    };
    match found {
        Some((scenario, _)) if side.is_some_and(|side| side != scenario.side) => match scenario.side {
            Side::Requester => {
                bail!("{name} is a scenario for a server: `rdmascope peer inject --to ADDR {name}` runs it")
            }
            Side::Responder => {
                bail!("{name} is a scenario for a client: `rdmascope peer serve --scenario {name}` runs it")
            }
        },
        Some(chosen) => Ok(vec![chosen]),
        None => {
            let near = crate::filters::similar(
                name,
                BUILTIN.iter().filter_map(|(file, _)| file.strip_suffix(".toml")),
            );
            let near = near.first().map(|near| format!(": did you mean {near}?")).unwrap_or_default();
            bail!("no scenario {name}{near}; `rdmascope peer inject --list` lists them")
        }
    }
}

/// Returns the scenarios that the arguments select.
fn choose(command: &Inject) -> Result<Vec<Chosen>> {
    // Commands that send nothing accept scenarios of both sides.
    let side = (!command.list).then_some(Side::Requester);
    let mut chosen = Vec::new();
    match &command.explain {
        Some(name) => chosen.extend(named(name, None)?),
        None if command.scenarios.is_empty() => chosen.extend(known(side)),
        None => {
            for name in &command.scenarios {
                chosen.extend(named(name, side)?);
            }
        }
    }
    if let Some(section) = &command.section {
        chosen.retain(|(scenario, _)| scenario.is_of(section));
    }
    if chosen.is_empty() {
        bail!("no scenario in section {}", command.section.as_deref().unwrap_or_default());
    }
    Ok(chosen)
}

/// Pairs a built-in scenario with its text.
fn with_text(scenario: Scenario) -> Chosen {
    let mut files = BUILTIN.iter();
    let file = files.find(|(file, _)| file.strip_suffix(".toml") == Some(&scenario.name));
    let text = file.map_or("", |(_, text)| text);
    (scenario, text.into())
}

/// Observer of a running scenario. It gets the packets kept since they were last taken, and returns
/// whether to stop the scenario.
pub(super) type Onlooker<'a> = &'a mut dyn FnMut(&[Crossing]) -> bool;

/// Interval between two calls of the observer.
const LOOK_UP: Duration = Duration::from_millis(50);

/// The sockets or the device that scenarios run on.
pub(super) enum Means {
    Sockets(Wire),
    #[cfg(feature = "verbs")]
    Device(super::device::Device),
}

impl Means {
    pub(super) fn open(command: &Inject) -> Result<Means> {
        let targets: Vec<IpAddr> = command.to.iter().map(SocketAddr::ip).collect();
        #[cfg(feature = "verbs")]
        if let Some(name) = &command.device.verbs {
            let [target] = targets[..] else { bail!("--verbs accepts a single --to") };
            return super::device::Device::open(name, command.from, target).map(Means::Device);
        }
        let mut locals = Vec::new();
        for target in &targets {
            let local = local_address(command.from, *target)?;
            if !locals.contains(&local) {
                locals.push(local);
            }
        }
        let mut wire = Wire::open(&command.sockets, locals, Reach::Only(targets))?;
        wire.save(&command.sockets)?;
        if command.format == Format::Html {
            wire.keep();
        }
        Ok(Means::Sockets(wire))
    }

    /// Returns the local address of scenarios against `to`.
    fn local(&self, command: &Inject, to: SocketAddr) -> Result<IpAddr> {
        match self {
            Means::Sockets(_) => local_address(command.from, to.ip()),
            #[cfg(feature = "verbs")]
            Means::Device(device) => Ok(device.local),
        }
    }

    /// Takes the packets kept since the last call. Returns `None` for a device, whose packets are
    /// not visible.
    pub(super) fn take_kept(&mut self) -> Option<Vec<Crossing>> {
        match self {
            Means::Sockets(wire) => Some(wire.take_kept()),
            #[cfg(feature = "verbs")]
            Means::Device(_) => None,
        }
    }

    /// Runs a scenario until it is over, for at most `most`, or until the observer stops it.
    fn run(
        &mut self,
        runner: Runner,
        seed: u64,
        most: Duration,
        mut onlooker: Option<Onlooker<'_>>,
    ) -> Result<(Ended, Option<Outcome>)> {
        match self {
            Means::Sockets(wire) => {
                let mut config = Config { guid: wire.guid(), ..Config::default() };
                // The CM waits 1.07 s for an answer and retries three times; a reachable server
                // answers earlier.
                (config.cm.response_timeout, config.cm.most_retries) = (18, 3);
                let mut injector = Injector { endpoint: Endpoint::new(config, seed), runner };
                let until = wire.driver.now().plus(most);
                loop {
                    let look_up = onlooker.is_some().then(|| wire.driver.now().plus(LOOK_UP));
                    let is_over = |injector: &mut Injector, _| injector.runner.is_over();
                    let ended = wire.driver.run(&mut injector, earlier(Some(until), look_up), is_over)?;
                    let is_stopped = onlooker.as_mut().is_some_and(|look| wire.look_at_kept(look));
                    if ended != Ended::Deadline || wire.driver.now() >= until {
                        return Ok((ended, injector.runner.outcome()));
                    }
                    if is_stopped {
                        return Ok((Ended::Woken, None));
                    }
                }
            }
            #[cfg(feature = "verbs")]
            Means::Device(device) => {
                let mut runner = runner;
                let until = device.verbs.now().plus(most);
                let ended = device.verbs.run_scenario(&mut runner, Some(until))?;
                Ok((ended, runner.outcome()))
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        match self {
            Means::Sockets(wire) => wire.finish(),
            #[cfg(feature = "verbs")]
            Means::Device(_) => Ok(()),
        }
    }
}

/// Runs a scenario. Returns `None` if it was interrupted. A device calls no observer.
pub(super) fn one(
    command: &Inject,
    to: SocketAddr,
    means: &mut Means,
    number: usize,
    scenario: &Scenario,
    onlooker: Option<Onlooker<'_>>,
) -> Result<Option<Ran>> {
    /// Longest duration of a scenario with its retransmissions, excluding the waits that
    /// `--timeout` limits.
    const MOST: Duration = Duration::from_secs(120);
    /// Waits after the last step: a NULL call, a new connection, a NULL call on that, DELEGRETURN,
    /// REMOVE, and the DREQ.
    const WAITS: u32 = 6;
    let ran = |outcome| Ran { target: Some(to.to_string()), scenario: scenario.clone(), outcome };
    if command.withholds(scenario) {
        return Ok(Some(ran(None)));
    }
    let seed = RandomState::new().hash_one(number);
    let patience = Duration::from_nanos(command.timeout);
    let most = MOST + WAITS * patience;
    let target = Target {
        port: to.port(),
        patience,
        nfs: !command.null_only,
        first_xid: seed as u32,
        ..Target::new(means.local(command, to)?, to.ip())
    };
    match means.run(Runner::new(scenario.clone(), target), seed, most, onlooker)? {
        (Ended::Woken, _) => Ok(None),
        (_, outcome @ Some(_)) => Ok(Some(ran(outcome))),
        (_, None) => bail!("{}: did not finish within {} s", scenario.name, most.as_secs()),
    }
}
