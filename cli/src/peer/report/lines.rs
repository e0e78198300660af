//! The results of scenarios and their summary: JSON lines, and the data of the other formats.

mod columns;

pub(in crate::peer) use columns::SCENARIO;

use rdmascope_peer::scenario::{Alive, Outcome, Scenario, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// A scenario that was run or withheld.
#[derive(Clone, Debug)]
pub(in crate::peer) struct Ran {
    /// Address and port of the server, or address of the client; `None`: no client connected.
    pub(in crate::peer) target: Option<String>,
    pub(in crate::peer) scenario: Scenario,
    /// `None`: it is destructive and was not run.
    pub(in crate::peer) outcome: Option<Outcome>,
}

impl Ran {
    pub(in crate::peer) fn verdict(&self) -> Option<Verdict> {
        self.outcome.as_ref().map(|outcome| outcome.verdict)
    }

    /// The verdict for people.
    pub(in crate::peer) fn verdict_text(&self) -> String {
        self.verdict().map_or_else(|| "withheld".to_owned(), |verdict| verdict.to_string())
    }

    pub(in crate::peer) fn alive(&self) -> Option<Alive> {
        self.outcome.as_ref().map(|outcome| outcome.alive)
    }

    /// Why the verdict differs from the reactions, or why the scenario does not apply.
    pub(super) fn reason(&self) -> Option<&str> {
        let reason = self.outcome.as_ref().map(|outcome| outcome.reason.as_str());
        reason.filter(|reason| !reason.is_empty())
    }

    pub(super) fn sent(&self) -> &[String] {
        self.outcome.as_ref().map_or(&[], |outcome| &outcome.sent)
    }

    pub(super) fn observed(&self) -> Vec<String> {
        texts(self.outcome.iter().flat_map(|outcome| &outcome.observed))
    }

    pub(super) fn allowed(&self) -> Vec<String> {
        texts(&self.scenario.allowed)
    }

    pub(super) fn wrong(&self) -> Vec<String> {
        texts(&self.scenario.wrong)
    }
}

fn texts<T: ToString>(list: impl IntoIterator<Item = T>) -> Vec<String> {
    list.into_iter().map(|one| one.to_string()).collect()
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
            summary.counts.add(one.verdict());
            summary.sections.entry(one.scenario.section()).or_default().add(one.verdict());
        }
        summary
    }

    pub(in crate::peer) const fn is_violation(&self) -> bool {
        self.counts.violates > 0
    }
}
