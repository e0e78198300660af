//! The results of scenarios and their summary: JSON lines, and the data of the other formats.

mod columns;

pub(in crate::peer) use columns::SCENARIO;

use rdmascope_peer::scenario::{Alive, Outcome, Scenario, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A scenario that was run or withheld.
#[derive(Clone, Debug)]
pub(in crate::peer) struct Ran {
    /// Address and port of the server, or address of the client; `None`: no client connected.
    pub(in crate::peer) target: Option<String>,
    pub(in crate::peer) scenario: String,
    pub(in crate::peer) title: String,
    pub(in crate::peer) section: String,
    pub(in crate::peer) level: String,
    pub(in crate::peer) requirement: String,
    /// `None`: it is destructive and was not run.
    pub(in crate::peer) verdict: Option<&'static str>,
    pub(in crate::peer) verdict_words: Option<Verdict>,
    pub(in crate::peer) reason: Option<String>,
    pub(in crate::peer) alive: Option<&'static str>,
    pub(in crate::peer) alive_words: Option<Alive>,
    pub(in crate::peer) sent: Vec<String>,
    pub(in crate::peer) observed: Vec<String>,
    pub(in crate::peer) allowed: Vec<String>,
    pub(in crate::peer) wrong: Vec<String>,
}

fn words<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl Ran {
    /// A scenario that is withheld from a server.
    pub(in crate::peer) fn withheld(scenario: &Scenario, target: SocketAddr) -> Ran {
        Ran::unjudged(scenario, Some(target.to_string()))
    }

    /// A scenario that is not run.
    pub(in crate::peer) fn unjudged(scenario: &Scenario, target: Option<String>) -> Ran {
        Ran {
            target,
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            section: scenario.section(),
            level: scenario.requirement.level.to_string(),
            requirement: scenario.requirement.text.clone(),
            verdict: None,
            verdict_words: None,
            reason: None,
            alive: None,
            alive_words: None,
            sent: Vec::new(),
            observed: Vec::new(),
            allowed: words(&scenario.allowed),
            wrong: words(&scenario.wrong),
        }
    }

    pub(in crate::peer) fn new(scenario: &Scenario, target: SocketAddr, outcome: &Outcome) -> Ran {
        Ran::judged(scenario, Some(target.to_string()), outcome)
    }

    pub(in crate::peer) fn judged(scenario: &Scenario, target: Option<String>, outcome: &Outcome) -> Ran {
        Ran {
            verdict: Some(outcome.verdict.name()),
            verdict_words: Some(outcome.verdict),
            reason: Some(outcome.reason.clone()).filter(|reason| !reason.is_empty()),
            alive: Some(outcome.alive.name()),
            alive_words: Some(outcome.alive),
            sent: outcome.sent.clone(),
            observed: words(&outcome.observed),
            ..Ran::unjudged(scenario, target)
        }
    }
}

/// How often each verdict was given.
#[derive(Debug, Default, Serialize)]
pub(in crate::peer) struct Counts {
    pub(in crate::peer) conforms: u64,
    pub(in crate::peer) violates: u64,
    pub(in crate::peer) tolerated: u64,
    pub(in crate::peer) lost_connection: u64,
    pub(in crate::peer) no_answer: u64,
    pub(in crate::peer) not_applicable: u64,
    /// Destructive, and therefore not run.
    pub(in crate::peer) withheld: u64,
}

impl Counts {
    fn add(&mut self, verdict: Option<Verdict>) {
        *match verdict {
            Some(Verdict::Conforms) => &mut self.conforms,
            Some(Verdict::Violates) => &mut self.violates,
            Some(Verdict::Tolerated) => &mut self.tolerated,
            Some(Verdict::LostConnection) => &mut self.lost_connection,
            Some(Verdict::NoAnswer) => &mut self.no_answer,
            Some(Verdict::NotApplicable) => &mut self.not_applicable,
            None => &mut self.withheld,
        } += 1;
    }
}

/// The summary of all scenarios. As a JSON line it has one field per section, which a list of columns
/// cannot describe: a test compares its fields with docs/peer.md.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "peer_injected")]
pub(in crate::peer) struct Summary {
    /// Number of requested scenarios.
    pub(in crate::peer) scenarios: usize,
    pub(in crate::peer) counts: Counts,
    pub(in crate::peer) sections: BTreeMap<String, Counts>,
}

impl Summary {
    pub(in crate::peer) fn of(ran: &[Ran], scenarios: usize) -> Summary {
        let mut summary = Summary { scenarios, counts: Counts::default(), sections: BTreeMap::new() };
        for one in ran {
            summary.counts.add(one.verdict_words);
            summary.sections.entry(one.section.clone()).or_default().add(one.verdict_words);
        }
        summary
    }

    pub(in crate::peer) const fn is_violation(&self) -> bool {
        self.counts.violates > 0
    }
}
