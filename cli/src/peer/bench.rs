//! Scenarios of `peer inject` and sessions of `peer replay` that run from the terminal UI.

use super::inject::{Chosen, Inject, Means, known, one};
use super::replay::screen::{OnScreen, faults};
use super::report::{Crossing, Ladder, text};
use crate::input::Input;
use anyhow::{Result, anyhow};
use rdmascope_analysis::units::quoted;
use rdmascope_peer::scenario::{Side, Verdict};
use rdmascope_tui::inject::{Bench, Entry, Order, Ran, Runner, Update, Watch};
use std::net::{IpAddr, SocketAddr};

/// The explanation of the session that the UI shows before it sends anything.
const SESSION: &str = "\
Repeats the calls of the capture and compares each reply with the recorded one. Sends a call as soon as the replies that precede it in the capture have arrived. Replaces the handles, session IDs and stateids \
of the capture by those in the server's replies. Skips calls that are incomplete in the capture.

Repeats every write, creation and removal of the session, on the server given by --to.

rdmascope peer replay does the same without the UI, at the recorded times, or with other file handles: see docs/peer.md.
";

/// Returns the scenarios for the server `to`, preceded by the session of a capture if `session` is
/// one that can be read twice. For `mount` see `peer replay --mount`.
pub(crate) fn bench(
    to: SocketAddr,
    from: Option<IpAddr>,
    session: Option<Input>,
    mount: Option<String>,
) -> Result<Bench> {
    let chosen: Vec<Chosen> = known(Some(Side::Requester)).collect();
    let mut entries = Vec::new();
    if session.is_some() {
        entries.push(Entry {
            name: "session".into(),
            title: "repeats the calls of this capture and compares the replies with the recorded ones".into(),
            section: String::new(),
            explanation: SESSION.into(),
            is_destructive: true,
            is_session: true,
        });
    }
    for (scenario, text) in &chosen {
        let mut explanation = Vec::new();
        text::explain(scenario, text, &mut explanation)?;
        entries.push(Entry {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            section: scenario.section(),
            explanation: String::from_utf8_lossy(&explanation).into_owned(),
            is_destructive: scenario.destructive,
            is_session: false,
        });
    }
    let arguments = from.map_or(String::new(), |from| format!(" --from {from}"));
    let path = mount.as_deref().map(|path| format!(" --mount {}", quoted(path)));
    let session_arguments = path.unwrap_or_default();
    let open = move || -> Result<Runner, String> {
        let session = session.map(|input| OnScreen { input, to, from, mount });
        let mut running = Running { to, command: Inject::for_screen(to, from), chosen, session, means: None };
        Ok(Box::new(move |order, watch| running.run(order, watch).map_err(|error| format!("{error:#}"))))
    };
    let (target, faults) = (to.to_string(), faults());
    Ok(Bench { target, arguments, session_arguments, entries, faults, open: Box::new(open) })
}

/// Runs scenarios and sessions one after the other.
struct Running {
    to: SocketAddr,
    /// The options of the scenarios: all are allowed, because the UI asks before a destructive one,
    /// and packets are kept, as for the HTML page.
    command: Inject,
    chosen: Vec<Chosen>,
    /// The session; it precedes the scenarios in the list.
    session: Option<OnScreen>,
    /// The sockets of scenarios. A session opens its own.
    means: Option<Means>,
}

impl Running {
    fn run(&mut self, order: &Order, watch: &mut dyn Watch) -> Result<Ran> {
        let place = match &self.session {
            Some(session) if order.index == 0 => {
                self.means = None;
                return session.run(&order.plan, watch);
            }
            Some(_) => order.index - 1,
            None => order.index,
        };
        let Running { to, command, chosen, means, .. } = self;
        let to = *to;
        let (scenario, _) = chosen.get(place).ok_or_else(|| anyhow!("no such scenario"))?;
        let means = match means {
            Some(means) => means,
            none => none.insert(Means::open(command)?),
        };
        let mut shown = 0;
        let mut look = |kept: &[Crossing]| {
            if kept.len() > shown {
                shown = kept.len();
                watch.update(Update::Arrows(Ladder::of(kept, to.ip()).arrows));
            }
            watch.is_stopped()
        };
        let ran = one(command, to, means, order.index, scenario, Some(&mut look))?;
        let arrows = means.take_kept().map(|kept| Ladder::of(&kept, to.ip()).arrows).unwrap_or_default();
        let Some(ran) = ran else {
            return Ok(Ran { verdict: "ended early".into(), arrows, ..Ran::default() });
        };
        let mut text = Vec::new();
        text::ran(&ran, &mut text)?;
        Ok(Ran {
            verdict: ran.verdict_text(),
            is_violation: ran.verdict() == Some(Verdict::Violates),
            text: String::from_utf8_lossy(&text).into_owned(),
            arrows,
        })
    }
}
