//! Applies a policy to one capture.

use super::{Latency, Loaded, Measure, Required, Requirement};
use crate::input::{Input, observe};
use crate::output::Failure;
use rdmascope_analysis::filter::Filtered as _;
use rdmascope_analysis::names::{Label, procedure_name};
use rdmascope_analysis::paths::{self, TransactionRow};
use rdmascope_analysis::policy::{Allow, EntryKind, EntryOutcome, Hosts, Policed, PolicyEntry, Version};
use rdmascope_analysis::report::{Count as _, Stats};
use rdmascope_analysis::tally::Tally;
use rdmascope_analysis::units::{Counted, Duration, Number};
use rdmascope_conformance::{Finding, Value};
use rdmascope_dissector::transaction::Transaction;
use std::sync::Arc;

/// The outcome of a policy's entries so far.
pub(crate) struct Held<'a> {
    loaded: &'a Loaded,
    /// The hosts at the ends of connections, if an entry needs them.
    hosts: Hosts,
    /// Number of findings that match each `allow` entry.
    fits: Vec<u64>,
    /// The latencies of each `latency` entry.
    measured: Vec<Stats>,
    /// Whether each requirement for an operation is met.
    seen: Vec<bool>,
}

impl<'a> Held<'a> {
    /// Starts without results. If an entry applies to certain hosts only, this reads the capture
    /// once for the hosts.
    pub(crate) fn new(loaded: &'a Loaded, input: &Input) -> Result<Held<'a>, Failure> {
        let policy = &loaded.policy;
        // A finding may precede the packets that show the hosts.
        let mut hosts = Hosts::default();
        if Held::reads_twice(loaded) {
            observe(input, &mut hosts)?;
        }
        Ok(Held {
            loaded,
            hosts,
            fits: vec![0; policy.allows.len()],
            measured: policy.latencies.iter().map(|_| Stats::default()).collect(),
            seen: vec![false; policy.requirements.len()],
        })
    }

    /// Whether the capture is read twice.
    pub(crate) fn reads_twice(loaded: &Loaded) -> bool {
        loaded.policy.allows.iter().any(|allow| allow.scope.is_of_hosts())
    }

    /// The reason why a finding is allowed, if it is. The first matching entry counts.
    pub(crate) fn reason(&mut self, finding: &Finding) -> Option<&'a Arc<str>> {
        let Held { loaded, hosts, fits, .. } = self;
        let host = finding.connection.and_then(|id| hosts.find(id));
        let index = loaded.policy.allows.iter().position(|allow| allow.allows(finding, host))?;
        fits[index] += 1;
        Some(&loaded.policy.allows[index].reason)
    }

    /// Takes a transaction that ended.
    pub(crate) fn transaction(&mut self, transaction: &Transaction) {
        let Held { loaded, measured, seen, .. } = self;
        let version = Version::of(transaction);
        for (latency, stats) in loaded.policy.latencies.iter().zip(measured) {
            let Latency { operation, scope, .. } = latency;
            if Label::of(transaction) == Label::Named(operation)
                && scope.has_connection(Some(transaction.connection.0))
                && scope.has_hosts(paths::client(transaction), paths::server(transaction))
                && scope.has_version(version.as_slice())
            {
                stats.count(transaction);
            }
        }
        let row = TransactionRow::from(transaction);
        for (requirement, seen) in loaded.policy.requirements.iter().zip(seen) {
            if let Required::Operation(name) = requirement.kind
                && !*seen
            {
                let procedure = transaction.procedure.and_then(procedure_name);
                *seen = procedure == Some(name) || row.has_operation(name);
            }
        }
    }

    /// The outcome at the end of a capture.
    pub(crate) fn end(self, tally: &Tally) -> Policed {
        let Held { loaded, fits, measured, seen, .. } = self;
        let policy = &loaded.policy;
        let allows = policy.allows.iter().zip(fits).map(|(allow, fits)| allowed(allow, fits));
        let latencies = policy.latencies.iter().zip(&measured).flat_map(|(latency, stats)| {
            latency.limits.iter().map(move |limit| {
                let Latency { operation, scope, .. } = latency;
                let subject = format!("{} of {operation}{scope}", limit.of.name());
                limited(limit.line, subject, limit.of, limit.most, stats)
            })
        });
        let required = policy.requirements.iter().zip(seen).map(|(one, seen)| required(one, seen, tally));
        let policed =
            Policed { file: policy.file.clone(), entries: allows.chain(latencies).chain(required).collect() };
        loaded.note(&policed);
        policed
    }
}

fn allowed(allow: &Allow, fits: u64) -> PolicyEntry {
    let reason = &allow.reason;
    let (outcome, message) = match (&allow.expired, fits) {
        (Some(last), _) => (EntryOutcome::Expired, format!("expired after {last} ({reason})")),
        (None, 0) => (EntryOutcome::Unused, format!("matches no finding ({reason})")),
        (None, fits) => (EntryOutcome::Met, format!("matches {} ({reason})", Counted(fits, "finding"))),
    };
    PolicyEntry {
        line: allow.line,
        kind: EntryKind::Allow,
        subject: allow.title(),
        outcome,
        message,
        observed: None,
        allowed: None,
    }
}

fn limited(line: usize, subject: String, of: Measure, most: u64, stats: &Stats) -> PolicyEntry {
    let observed = stats.latency().map(|latency| match of {
        Measure::Median => latency.median,
        Measure::P90 => latency.p90,
        Measure::P99 => latency.p99,
        Measure::Max => latency.maximum,
    });
    let allowed = Duration(most);
    let (outcome, message) = match observed {
        None => (EntryOutcome::Unused, format!("no such transaction (allowed: {allowed})")),
        Some(observed) => {
            let outcome = if observed > most { EntryOutcome::Failed } else { EntryOutcome::Met };
            let of = Counted(stats.latencies().map_or(0, |latencies| latencies.len()), "transaction");
            let least = match stats.latency() {
                Some(latency) if observed >= latency.bound => "at least ",
                _ => "",
            };
            let unanswered = match stats.unanswered {
                0 => String::new(),
                count => format!(", {} without a reply", Number(count)),
            };
            (outcome, format!("{least}{} in {of}{unanswered} (allowed: {allowed})", Duration(observed)))
        }
    };
    PolicyEntry {
        line,
        kind: EntryKind::Latency,
        subject,
        outcome,
        message,
        observed: observed.map(Value::Nanoseconds),
        allowed: Some(Value::Nanoseconds(most)),
    }
}

fn required(requirement: &Requirement, seen: bool, tally: &Tally) -> PolicyEntry {
    let count = |subject: &str, found: u64, least: u64| {
        let message = format!("{} found ({} or more required)", Number(found), Number(least));
        (subject.to_owned(), found >= least, message, Value::Count(found), Value::Count(least))
    };
    let (subject, is_met, message, observed, allowed) = match &requirement.kind {
        &Required::Connections(least) => count("connections", tally.connections, least),
        &Required::Transactions(least) => count("transactions", tally.transactions, least),
        Required::Operation(name) => {
            let message = if seen { "found" } else { "not found" };
            let [observed, allowed] = [u64::from(seen), 1].map(Value::Count);
            (format!("operation {name}"), seen, message.to_owned(), observed, allowed)
        }
        Required::Rules(name, rules) => {
            let met = rules.iter().filter(|id| tally.has_judged(id)).count();
            let message = match rules.len() {
                1 if met == 1 => "has a conclusive verdict".to_owned(),
                1 => "has no conclusive verdict, or nothing to judge".to_owned(),
                all => format!("{met} of {all} rules have a conclusive verdict"),
            };
            let [observed, allowed] = [met, rules.len()].map(|count| Value::Count(count as u64));
            (format!("rules {name}"), met == rules.len(), message, observed, allowed)
        }
        &Required::Conclusive(least) => {
            let (conclusive, total) = tally.conclusive();
            let share = if total > 0 { conclusive as f64 / total as f64 } else { 0.0 };
            let message = format!("{share:.3}, {conclusive} of {total} rules ({least} or more required)");
            let [observed, allowed] = [format!("{share:.3}"), least.to_string()].map(Value::Words);
            ("conclusive verdicts".to_owned(), share >= least, message, observed, allowed)
        }
    };
    PolicyEntry {
        line: requirement.line,
        kind: EntryKind::Require,
        subject,
        outcome: if is_met { EntryOutcome::Met } else { EntryOutcome::Failed },
        message,
        observed: Some(observed),
        allowed: Some(allowed),
    }
}
