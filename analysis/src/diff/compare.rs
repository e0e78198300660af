//! The comparison of two captures.

use super::Thresholds;
use super::conveyance::{ChunkKind, Way};
use super::difference::{Area, Difference, Latencies, Measure, Pair, SizeClass, Verdict};
use super::pairing::Pairing;
use super::side::{CREDITS, Counted, Extremes, PARAMETERS, Side, Values};
use super::statistics;
use crate::names::{Failure, FailureName, Label, Protocol, SecurityName, short_status, status_name};
use crate::report::{Group, Latency, Problem, Stats};
use rdmascope_conformance::Level;
use std::collections::BTreeSet;

/// The result of comparing two captures.
#[derive(Debug)]
pub struct Comparison {
    /// Everything that was compared, by descending weight.
    pub differences: Vec<Difference>,
    /// Whether both captures contain about the same amount of work, so that counts are comparable.
    pub same_work: bool,
}

impl Comparison {
    /// Compares two captures.
    pub fn of(sides: [&Side; 2], thresholds: &Thresholds) -> Comparison {
        let transactions = sides.map(Side::transactions);
        let [a, b] = transactions;
        let mut comparing = Comparing { thresholds, transactions, differences: Vec::new() };
        let subject = Subject::new(Area::Operations, "transactions", "transactions in all");
        comparing.averages(subject, [a as f64, b as f64], Measure::Number);
        let pairing = Pairing::of(sides);
        let operations = pairing.operations(sides);
        comparing.problems(sides);
        comparing.connections(sides);
        comparing.findings(sides);
        comparing.latencies(&operations);
        comparing.errors(sides, &pairing);
        for (pair, [a, b]) in &operations {
            comparing.operation(*pair, [*a, *b]);
        }
        let mut differences = comparing.differences;
        differences.sort_by(Difference::by_weight);
        let same_work = thresholds.are_close(a as f64, b as f64);
        Comparison { differences, same_work }
    }

    /// The number of differences.
    pub fn count(&self) -> usize {
        self.differences.iter().filter(|difference| difference.verdict == Verdict::Differs).count()
    }
}

impl Thresholds {
    /// Whether two counts or averages are so close that they do not count as a difference.
    fn are_close(&self, a: f64, b: f64) -> bool {
        a == b || a.min(b) > 0.0 && a.max(b) / a.min(b) < self.count_ratio
    }

    /// Compares two counts, each with its total.
    ///
    /// Something that only one side has is a difference. If the totals are close, the counts are
    /// compared. Otherwise the shares are compared, and they differ only if chance does not explain
    /// the distance.
    fn compare_counts(&self, a: (u64, u64), b: (u64, u64)) -> (Verdict, Option<f64>) {
        let (of_a, of_b) = (a.1 as f64, b.1 as f64);
        if a.0 == b.0 && (a.1 == b.1 || a.0 == 0) {
            (Verdict::Equal, None)
        } else if a.0.min(b.0) == 0 {
            (Verdict::Differs, None)
        } else if self.are_close(of_a, of_b) {
            (if self.are_close(a.0 as f64, b.0 as f64) { Verdict::Equal } else { Verdict::Differs }, None)
        } else if self.are_close(share(a), share(b)) {
            (Verdict::Equal, None)
        } else {
            self.judge_shares(a, b)
        }
    }

    /// Whether chance explains the distance between two shares.
    fn judge_shares(&self, a: (u64, u64), b: (u64, u64)) -> (Verdict, Option<f64>) {
        let chance = statistics::shares(a.0, a.1, b.0, b.1);
        (if chance < self.significance { Verdict::Differs } else { Verdict::Chance }, Some(chance))
    }
}

/// A comparison in progress.
struct Comparing<'a> {
    thresholds: &'a Thresholds,
    /// The number of transactions on either side.
    transactions: [u64; 2],
    differences: Vec<Difference>,
}

impl Comparing<'_> {
    /// Compares counts, unless both are zero.
    fn counts(&mut self, subject: Subject, a: (u64, u64), b: (u64, u64)) {
        if a.0 == 0 && b.0 == 0 {
            return;
        }
        let (verdict, chance) = self.thresholds.compare_counts(a, b);
        self.add_counts(subject, [a, b], verdict, chance);
    }

    fn add_counts(
        &mut self,
        subject: Subject,
        sides: [(u64, u64); 2],
        verdict: Verdict,
        chance: Option<f64>,
    ) {
        let shares = sides.map(share);
        let sides = sides.map(|(count, of)| Measure::Count(count, of));
        self.add(subject, sides, verdict, distance(shares), chance);
    }

    fn add(
        &mut self,
        subject: Subject,
        sides: [Measure; 2],
        verdict: Verdict,
        distance: f64,
        chance: Option<f64>,
    ) {
        let Subject { area, name, description, operation, importance } = subject;
        let magnitude = importance * distance;
        self.differences.push(Difference {
            area,
            name,
            description,
            operation,
            sides,
            verdict,
            magnitude,
            chance,
        });
    }

    /// Compares the problems, as `analyze` counts them.
    fn problems(&mut self, sides: [&Side; 2]) {
        let lists = sides.map(|side| side.problems.list(&side.ending));
        let [a, b] = &lists;
        let missing = |list: &[Problem], other: &&Problem| list.iter().all(|own| own.name != other.name);
        let all = a.iter().chain(b.iter().filter(|problem| missing(a, problem)));
        for problem in all.copied().collect::<Vec<_>>() {
            let area = match problem.group {
                Group::Transactions => Area::Transactions,
                Group::Transport => Area::Transport,
                Group::Capture => Area::Capture,
            };
            let of = |index: usize| {
                let (side, list): (&Side, &Vec<Problem>) = (sides[index], &lists[index]);
                let count = list.iter().find(|own| own.name == problem.name).map_or(0, |own| own.count);
                let all = match problem.group {
                    Group::Transactions => self.transactions[index],
                    Group::Transport | Group::Capture => side.ending.totals.records,
                };
                // A problem that is counted once for each message can exceed the number of
                // transactions.
                (count, all.max(count))
            };
            let (a, b) = (of(0), of(1));
            // Losses are subject to chance even if the amount of work is the same.
            let (verdict, chance) = match self.thresholds.compare_counts(a, b) {
                (Verdict::Differs, None) if a.0.min(b.0) > 0 => self.thresholds.judge_shares(a, b),
                decided => decided,
            };
            let description = problem.plural();
            let description = description.split([':', ';']).next().unwrap_or(&description);
            let subject = Subject {
                importance: share(a).max(share(b)),
                ..Subject::new(area, problem.name, description)
            };
            self.add_counts(subject, [a, b], verdict, chance);
        }
    }

    /// Compares the conclusive findings by rule. If one side has conclusive findings and the other
    /// only inconclusive ones, the result is unknown.
    fn findings(&mut self, sides: [&Side; 2]) {
        for rule in rdmascope_conformance::rules() {
            let of = |index: usize| {
                let count = sides[index].findings.count(rule, rdmascope_conformance::Verdict::Certain);
                // Findings can concern a message or the connection, so they can exceed the number
                // of transactions.
                (count, self.transactions[index].max(count))
            };
            let (a, b) = (of(0), of(1));
            if a.0 == 0 && b.0 == 0 {
                continue;
            }
            let may_have = |index: usize| {
                sides[index].findings.count(rule, rdmascope_conformance::Verdict::Inconclusive) > 0
            };
            let (verdict, chance) = match self.thresholds.compare_counts(a, b) {
                _ if a.0 == 0 && may_have(0) || b.0 == 0 && may_have(1) => (Verdict::Unknown, None),
                // The count is subject to chance even if the amount of work is the same.
                (Verdict::Differs, None) if a.0.min(b.0) > 0 => self.thresholds.judge_shares(a, b),
                decided => decided,
            };
            let importance = match rule.level {
                Level::Violation => 1.0,
                Level::Warning => 0.6,
                Level::Advice => 0.2,
            };
            let description = format!("{} ({})", rule.id, rule.level);
            let subject = Subject { importance, ..Subject::new(Area::Conformance, rule.id, &description) };
            self.add_counts(subject, [a, b], verdict, chance);
        }
    }

    /// Compares negotiated parameters, security flavors, protocols and credits.
    fn connections(&mut self, sides: [&Side; 2]) {
        let subject = Subject::new(Area::Connections, "connections", "connections");
        self.averages(subject, sides.map(|side| side.connections.count as f64), Measure::Number);
        for (index, (name, description)) in PARAMETERS.into_iter().enumerate() {
            // The parameters are in order of importance.
            let importance = 0.9 - index as f64 / 20.0;
            let subject = Subject { importance, ..Subject::new(Area::Connections, name, description) };
            self.values(subject, sides.map(|side| texts(&side.connections.parameters[index], String::clone)));
        }
        let security = |side: &Side| texts(&side.security, |security| SecurityName(*security).to_string());
        let subject = Subject::new(Area::Connections, "security", "security flavors");
        self.values(subject, sides.map(security));
        let subject = Subject::new(Area::Connections, "protocols", "protocols");
        self.values(subject, sides.map(protocols));
        for (index, (name, description)) in CREDITS.into_iter().enumerate() {
            let [a, b] = sides.map(|side| side.credits[index]);
            let verdict = match (a.count, b.count) {
                (0, 0) => continue,
                (0, _) | (_, 0) => Verdict::Unknown,
                _ if self.are_close(a, b) => Verdict::Equal,
                _ => Verdict::Differs,
            };
            let measure = |extremes: Extremes| {
                let Extremes { count, least, greatest, last } = extremes;
                Measure::Extremes((count > 0).then_some([least, greatest, last]))
            };
            let subject = Subject { importance: 0.3, ..Subject::new(Area::Connections, name, description) };
            self.add(subject, [a, b].map(measure), verdict, 1.0, None);
        }
    }

    fn are_close(&self, a: Extremes, b: Extremes) -> bool {
        let close = |a: u32, b: u32| self.thresholds.are_close(a.into(), b.into());
        close(a.least, b.least) && close(a.greatest, b.greatest)
    }

    /// Compares the sets of values, regardless of how often each occurs.
    fn values(&mut self, subject: Subject, values: [Vec<(String, u64)>; 2]) {
        let [a, b] =
            values.each_ref().map(|values| values.iter().map(|(value, _)| value).collect::<BTreeSet<_>>());
        let verdict = match () {
            () if a.is_empty() && b.is_empty() => return,
            () if a.is_empty() || b.is_empty() => Verdict::Unknown,
            () if a == b => Verdict::Equal,
            () => Verdict::Differs,
        };
        self.add(subject, values.map(Measure::Values), verdict, 1.0, None);
    }

    /// Compares the latencies of operations on both sides.
    fn latencies(&mut self, operations: &[(Pair, [Option<&Counted>; 2])]) {
        struct Tested {
            pair: Pair,
            sides: [Latencies; 2],
            /// The difference of the medians, times the number of transactions of the smaller side.
            difference: f64,
            is_testable: bool,
        }
        let mut tested = Vec::new();
        let mut chances = Vec::new();
        for (pair, [a, b]) in operations.iter().flat_map(by_size) {
            let (Some(of_a), Some(of_b)) = (a.latency(), b.latency()) else { continue };
            let (Some(in_a), Some(in_b)) = (a.latencies(), b.latencies()) else { continue };
            let (count_a, count_b) = (in_a.len(), in_b.len());
            let least = statistics::least_mann_whitney(count_a, count_b);
            let is_testable = least < self.thresholds.significance;
            if is_testable {
                chances.extend([statistics::mann_whitney(in_a, in_b), statistics::tail(in_a, in_b)]);
            }
            let difference = of_a.median.abs_diff(of_b.median) as f64 * count_a.min(count_b) as f64;
            let side = |count, latency, stats: &Stats| Latencies {
                count,
                latency,
                phases: stats.mean_phases().unwrap_or_default(),
                bytes: stats.bytes / stats.count.max(1),
            };
            let sides = [side(count_a, of_a, a), side(count_b, of_b, b)];
            tested.push(Tested { pair, sides, difference, is_testable });
        }
        statistics::correct(&mut chances);
        let mut chances = chances.chunks_exact(2);
        let total: f64 = tested.iter().map(|tested| tested.difference).sum();
        for Tested { pair, sides, difference, is_testable } in tested {
            let chances = if is_testable { chances.next().map(|pair| [pair[0], pair[1]]) } else { None };
            let (name, verdict, chance) = self.judge_latency(sides.map(|side| side.latency), chances);
            let sides = sides.map(Measure::Latencies);
            let subject = Subject { operation: Some(pair), ..Subject::new(Area::Latency, name, "latency") };
            self.add(subject, sides, verdict, difference / total.max(1.0), chance);
        }
    }

    /// Judges two latencies by the chances of their difference in the middle and in the tail.
    fn judge_latency(
        &self,
        [a, b]: [Latency; 2],
        chances: Option<[f64; 2]>,
    ) -> (&'static str, Verdict, Option<f64>) {
        let apart = |a: u64, b: u64| {
            let (a, b) = (a.max(1) as f64, b.max(1) as f64);
            a.max(b) / a.min(b) >= self.thresholds.latency_ratio
        };
        let (middle_apart, tail_apart) = (apart(a.median, b.median), apart(a.p90, b.p90));
        let Some([middle, tail]) = chances else {
            let verdict = if middle_apart { Verdict::TooFew } else { Verdict::Equal };
            return (Difference::LATENCY, verdict, None);
        };
        let significance = self.thresholds.significance;
        if middle_apart && middle < significance {
            (Difference::LATENCY, Verdict::Differs, Some(middle))
        } else if tail_apart && tail < significance {
            (Difference::TAIL, Verdict::Differs, Some(tail))
        } else {
            let verdict = if middle_apart { Verdict::Chance } else { Verdict::Equal };
            (Difference::LATENCY, verdict, Some(middle))
        }
    }

    /// Compares replies that report the same error for the same operation.
    fn errors(&mut self, sides: [&Side; 2], pairing: &Pairing) {
        let mut errors: Vec<(Pair, Failure, [u64; 2])> = Vec::new();
        for (index, side) in sides.into_iter().enumerate() {
            for (key, error) in side.problems.errors.by_count() {
                let protocols = pairing.protocols(index, key.protocol);
                let pair = Pair { protocols, backward: false, label: key.label, size: None };
                let known = errors.iter_mut().find(|(of, failure, _)| *of == pair && *failure == key.failure);
                match known {
                    Some((_, _, counts)) => counts[index] += error.count,
                    None => {
                        let mut counts = [0; 2];
                        counts[index] = error.count;
                        errors.push((pair, key.failure, counts));
                    }
                }
            }
        }
        let [of_a, of_b] = self.transactions;
        let [further_a, further_b] = sides.map(|side| side.problems.errors.further);
        let subject = Subject::new(Area::Errors, "error", "errors of further kinds");
        self.counts(subject, (further_a, of_a), (further_b, of_b));
        for (pair, failure, [a, b]) in errors {
            let description = failure_name(failure, pair.protocols);
            let importance = share((a, of_a)).max(share((b, of_b)));
            let subject = Subject {
                operation: Some(pair),
                importance,
                ..Subject::new(Area::Errors, "error", &description)
            };
            self.counts(subject, (a, of_a), (b, of_b));
        }
    }

    /// Compares the count and bytes of one operation; if both sides have it, also its conveyance.
    fn operation(&mut self, pair: Pair, sides: [Option<&Counted>; 2]) {
        let [of_a, of_b] = self.transactions;
        let [a, b] = sides.map(|side| side.map_or(0, |counted| counted.stats.count));
        let importance = share((a, of_a)).max(share((b, of_b)));
        let subject = |area, name, description: &str| Subject {
            operation: Some(pair),
            importance,
            ..Subject::new(area, name, description)
        };
        self.counts(subject(Area::Operations, "count", "transactions"), (a, of_a), (b, of_b));
        let [Some(a), Some(b)] = sides else { return };
        let bytes = [a, b].map(|counted| counted.stats.bytes as f64 / counted.stats.count.max(1) as f64);
        self.averages(subject(Area::Operations, "bytes", "bytes per transaction"), bytes, Measure::Bytes);
        for (way, name, title) in Way::ALL {
            let way_subject = subject(Area::Conveyance, name, title);
            self.counts(way_subject, a.conveyance.way(way), b.conveyance.way(way));
        }
        for kind in ChunkKind::ALL {
            let (name, title) = kind.segments();
            if let (Some(a), Some(b)) = (a.conveyance.segments(kind), b.conveyance.segments(kind)) {
                self.averages(subject(Area::Conveyance, name, title), [a, b], Measure::Number);
            }
        }
        let only_b =
            b.compounds.0.iter().filter(|(names, _)| a.compounds.0.iter().all(|(own, _)| own != names));
        for (names, _) in a.compounds.0.iter().chain(only_b) {
            if let (Some(in_a), Some(in_b)) = (a.compounds.find(names), b.compounds.find(names)) {
                let compound = subject(Area::Operations, "compound", &names.join(" "));
                self.counts(compound, (in_a, a.stats.count), (in_b, b.stats.count));
            }
        }
    }

    fn averages(&mut self, subject: Subject, averages: [f64; 2], measure: impl Fn(f64) -> Measure) {
        let [a, b] = averages;
        if averages == [0.0, 0.0] {
            return;
        }
        let verdict = if self.thresholds.are_close(a, b) { Verdict::Equal } else { Verdict::Differs };
        self.add(subject, averages.map(measure), verdict, distance(averages), None);
    }
}

/// The subject of a comparison.
struct Subject {
    area: Area,
    name: &'static str,
    description: String,
    operation: Option<Pair>,
    /// The importance within its area if it differs completely, from 0 to 1.
    importance: f64,
}

impl Subject {
    fn new(area: Area, name: &'static str, description: &str) -> Subject {
        Subject { area, name, description: description.to_owned(), operation: None, importance: 1.0 }
    }
}

/// The share of a count in its total.
fn share((count, of): (u64, u64)) -> f64 {
    count as f64 / of.max(1) as f64
}

/// The relative distance of two numbers, from 0 to 1.
fn distance([a, b]: [f64; 2]) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() / a.max(b) }
}

/// Values as text, most frequent first.
fn texts<T: PartialEq>(values: &Values<T>, text: impl Fn(&T) -> String) -> Vec<(String, u64)> {
    let mut texts: Vec<_> = values.0.iter().map(|(value, count)| (text(value), *count)).collect();
    texts.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
    texts
}

/// The protocols of one side. Backward ones are left out, because they follow from the forward
/// ones.
fn protocols(side: &Side) -> Vec<(String, u64)> {
    let mut counts: Vec<(Protocol, u64)> = Vec::new();
    for (key, counted) in
        side.operations.iter().filter(|(key, _)| !key.backward && key.label != Label::Named("NULL"))
    {
        let Some(protocol) = key.protocol else { continue };
        match counts.iter_mut().find(|(known, _)| *known == protocol) {
            Some((_, count)) => *count += counted.stats.count,
            None => counts.push((protocol, counted.stats.count)),
        }
    }
    counts.sort_by_key(|(protocol, _)| *protocol);
    counts.into_iter().map(|(protocol, count)| (protocol.to_string(), count)).collect()
}

/// The name of an error. If its names on the two sides differ, this is their common part.
fn failure_name(failure: Failure, protocols: [Option<Protocol>; 2]) -> String {
    let name = |protocol: Option<Protocol>| FailureName(failure, protocol).to_string();
    let [a, b] = protocols.map(name);
    match (failure, protocols) {
        (Failure::Status(status), [Some(protocol), Some(_)]) if a != b => {
            match status_name(protocol.program, protocol.version, status) {
                Some(name) => format!("{} ({status})", short_status(name)),
                None => b,
            }
        }
        (_, [None, _]) => b,
        _ => a,
    }
}

/// The statistics of an operation on both sides, by size class if its transactions differ in size.
/// READs of 4 KiB and of 1 MiB are compared only if the sides have no size class in common. Then
/// all transactions are compared, and the mean bytes next to the latencies show why these may
/// differ.
fn by_size<'a>((pair, sides): &(Pair, [Option<&'a Counted>; 2])) -> Vec<(Pair, [&'a Stats; 2])> {
    let [Some(a), Some(b)] = *sides else { return Vec::new() };
    let stats = |size: SizeClass| [a, b].map(|counted| counted.of_size(size));
    let sizes: Vec<SizeClass> =
        SizeClass::all().filter(|size| stats(*size).iter().any(Option::is_some)).collect();
    if sizes.len() < 2 {
        return vec![(*pair, [&a.stats, &b.stats])];
    }
    let both = sizes.into_iter().filter_map(|size| match stats(size) {
        [Some(a), Some(b)] => Some((Pair { size: Some(size), ..*pair }, [a, b])),
        _ => None,
    });
    let both: Vec<_> = both.collect();
    if both.is_empty() { vec![(*pair, [&a.stats, &b.stats])] } else { both }
}
