//! The findings of a capture: counted, bounded, and by packet.

use crate::observer::Observer;
use crate::units::{Counted, Number};
use foldhash::fast::FixedState;
use rdmascope_conformance::{Finding, Judge, Level, Rule, Verdict};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::transaction::Transaction;
use std::collections::{BTreeMap, HashMap};

/// The findings of a capture whose engine [observes](rdmascope_dissector::engine::Config::observe).
/// All are counted. For each rule and verdict, a bounded number of findings is kept: those with the
/// earliest first packets.
#[derive(Debug)]
pub struct Findings {
    judge: Judge,
    groups: BTreeMap<Weight, Group>,
    /// The most findings of one rule and verdict that are kept.
    most: usize,
}

/// The findings of one rule and one verdict.
#[derive(Debug)]
pub struct Group {
    /// The rule that they break.
    pub rule: &'static Rule,
    /// Their verdict.
    pub verdict: Verdict,
    /// The number of findings.
    pub count: u64,
    /// The kept findings.
    pub kept: Kept,
}

/// Findings in the order of their first packets.
#[derive(Debug, Default)]
pub struct Kept(BTreeMap<(u64, u64), Finding>);

impl Kept {
    /// The findings.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.values()
    }

    /// The number of findings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the finding with this number, and keeps at most `most`.
    fn add(&mut self, finding: &Finding, number: u64, most: usize) {
        let place = (finding.frames.first().copied().unwrap_or(u64::MAX), number);
        let is_earlier = || self.0.last_key_value().is_some_and(|(last, _)| place < *last);
        if self.len() < most || is_earlier() {
            self.0.insert(place, finding.clone());
            if self.len() > most {
                self.0.pop_last();
            }
        }
    }
}

/// The order in which findings are shown: conclusive findings first, then violations before
/// warnings before advice. Findings of one level are in the order of
/// [`rdmascope_conformance::rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    inconclusive: bool,
    level: Level,
    place: usize,
}

impl Weight {
    /// The weight of a finding of this rule with this verdict.
    pub fn of(rule: &'static Rule, verdict: Verdict) -> Weight {
        let place =
            rdmascope_conformance::rules().position(|other| other.id == rule.id).unwrap_or(usize::MAX);
        Weight { inconclusive: verdict == Verdict::Inconclusive, level: rule.level, place }
    }
}

impl Default for Findings {
    /// Counts findings and keeps none.
    fn default() -> Findings {
        Findings::new(0)
    }
}

impl Group {
    /// Whether these are conclusive violations.
    pub fn is_violation(&self) -> bool {
        self.verdict == Verdict::Certain && self.rule.level == Level::Violation
    }

    /// The number of findings that were not kept.
    pub fn left_out(&self) -> u64 {
        self.count - self.kept.len() as u64
    }
}

impl Findings {
    /// The bound for a command that shows every finding. It limits the memory that a hostile
    /// capture can take.
    pub const ALL: usize = 1 << 16;

    /// Creates an empty collection that keeps at most `most` findings of each rule and verdict.
    pub fn new(most: usize) -> Findings {
        Findings { judge: Judge::default(), groups: BTreeMap::new(), most }
    }

    /// Takes the next event of the engine, and the wanted ones of the findings that it causes.
    #[inline]
    pub fn handle_some(&mut self, event: &Event<'_>, is_wanted: impl Fn(&Finding) -> bool) {
        let Findings { judge, groups, most } = self;
        judge.handle(event, &mut |finding| {
            if is_wanted(finding) {
                add(groups, *most, finding);
            }
        });
    }

    /// Takes a finding that another judge reported.
    pub fn take(&mut self, finding: &Finding) {
        add(&mut self.groups, self.most, finding);
    }

    /// The findings by rule and verdict, in the order of [`Weight`].
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// The number of findings of a rule with this verdict.
    pub fn count(&self, rule: &'static Rule, verdict: Verdict) -> u64 {
        self.groups.get(&Weight::of(rule, verdict)).map_or(0, |group| group.count)
    }

    /// The kept findings, in the order of [`Weight`].
    pub fn kept(&self) -> impl Iterator<Item = &Finding> {
        self.groups().flat_map(|group| group.kept.iter())
    }

    /// The number of findings that were not kept.
    fn left_out(&self) -> u64 {
        self.groups().map(Group::left_out).sum()
    }

    /// A warning with the number of findings that were not kept; `None` if all were.
    pub fn warning_of_left_out(&self) -> Option<String> {
        let left_out = self.left_out();
        let (counted, most) = (Counted(left_out, "finding"), Number(self.most as u64));
        (left_out > 0)
            .then(|| format!("warning: {counted} left out: only the first {most} of each rule are listed"))
    }

    /// The kept findings, by the packets that are their evidence.
    pub fn by_frame(&self) -> ByFrame<'_> {
        let mut frames: HashMap<u64, Vec<&Finding>, FixedState> = HashMap::default();
        for finding in self.kept() {
            finding.frames.iter().for_each(|frame| frames.entry(*frame).or_default().push(finding));
        }
        ByFrame(frames)
    }
}

impl Observer for Findings {
    fn needs(&self) -> Config {
        Judge::needs()
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_>) {
        self.handle_some(event, |_| true);
    }
}

fn add(groups: &mut BTreeMap<Weight, Group>, most: usize, finding: &Finding) {
    // The judge sets the rule of every finding that it reports.
    let Some(rule) = finding.rule else { return };
    let verdict = finding.verdict;
    let group = groups.entry(Weight::of(rule, verdict)).or_insert_with(|| Group {
        rule,
        verdict,
        count: 0,
        kept: Kept::default(),
    });
    group.count += 1;
    // The judge reports a finding once it is certain, so a later report may have an earlier first
    // packet.
    group.kept.add(finding, group.count, most);
}

/// Findings by the packets that are their evidence.
#[derive(Debug, Default)]
pub struct ByFrame<'a>(HashMap<u64, Vec<&'a Finding>, FixedState>);

impl<'a> ByFrame<'a> {
    /// The findings that this packet is evidence of, in the order of [`Weight`].
    pub fn of(&self, frame: u64) -> &[&'a Finding] {
        self.0.get(&frame).map_or(&[], Vec::as_slice)
    }

    /// Whether this packet is evidence of any finding.
    pub fn names(&self, frame: u64) -> bool {
        self.0.contains_key(&frame)
    }

    /// The rules and verdicts of the findings for which any of these packets is evidence, each
    /// once, in the order of [`Weight`].
    pub fn rules(&self, frames: &[u64]) -> Vec<(&'static Rule, Verdict)> {
        let findings = frames.iter().flat_map(|frame| self.of(*frame));
        let weighed: BTreeMap<Weight, _> = findings
            .filter_map(|finding| {
                let rule = finding.rule?;
                Some((Weight::of(rule, finding.verdict), (rule, finding.verdict)))
            })
            .collect();
        weighed.into_values().collect()
    }
}

/// Whether a finding is about a transaction. A finding that was made before the transaction ended
/// has no transaction number; it is matched by connection, direction, XID and frames.
pub fn is_about(finding: &Finding, transaction: &Transaction) -> bool {
    if let Some(number) = finding.transaction {
        return number == transaction.number;
    }
    let names = finding.connection == Some(transaction.connection)
        && finding.direction.is_none_or(|direction| direction == transaction.direction)
        && finding.xid == Some(transaction.xid);
    // XIDs are reused, so a frame of the finding must lie within the transaction.
    let messages = transaction.messages();
    let first = messages.clone().map(|message| message.first.frame).min();
    let last =
        messages.map(|message| message.seen.frame).chain(transaction.done.map(|done| done.frame)).max();
    let (Some(first), Some(last)) = (first, last) else { return false };
    names && finding.frames.iter().any(|frame| (first..=last).contains(frame))
}

/// The mark at a packet that is evidence of a finding: `!`, or `?` if the finding is inconclusive.
pub const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Certain => "!",
        Verdict::Inconclusive => "?",
    }
}

/// The text after the level of a finding: empty if the finding is conclusive.
pub const fn inconclusive(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Certain => "",
        Verdict::Inconclusive => ", inconclusive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_conformance::rule;
    use rdmascope_dissector::transaction::Direction;
    use rdmascope_tests::values as samples;
    use rdmascope_wire::Xid;

    fn finding(id: &str, verdict: Verdict, frames: impl IntoIterator<Item = u64>) -> Finding {
        Finding { rule: rule(id), verdict, ..Finding::new(id) }.frames(frames)
    }

    /// The order of levels is that of the enumerations in docs/json.md; the order of rules is that
    /// of the library's table.
    #[test]
    fn worst_findings_come_first_and_all_are_counted() {
        let mut findings = Findings::new(2);
        for (id, verdict, frame) in [
            ("credit-grant-lowered", Verdict::Certain, 1),
            ("credit-limit", Verdict::Inconclusive, 2),
            ("credit-request-zero", Verdict::Certain, 3),
            ("inline-threshold", Verdict::Certain, 4),
            ("credit-limit", Verdict::Certain, 6),
            ("credit-limit", Verdict::Certain, 7),
            ("credit-limit", Verdict::Certain, 5),
        ] {
            findings.take(&finding(id, verdict, [frame]));
        }
        let kept: Vec<_> = findings.kept().map(|finding| (&*finding.message, finding.frames[0])).collect();
        assert_eq!(
            kept,
            [
                ("credit-limit", 5),
                ("credit-limit", 6),
                ("inline-threshold", 4),
                ("credit-request-zero", 3),
                ("credit-grant-lowered", 1),
                ("credit-limit", 2)
            ]
        );
        let counts: Vec<_> = findings.groups().map(|group| (group.rule.id, group.count)).collect();
        assert_eq!(counts[0], ("credit-limit", 3));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert_eq!(findings.left_out(), 1);
    }

    /// Findings with one first packet stay in the order of their reports.
    #[test]
    fn the_earliest_findings_are_kept() {
        let mut reported: Vec<(u64, u64)> = (100..300).map(|number| (number * 7919 % 31, number)).collect();
        let mut findings = Findings::new(50);
        for (first, number) in &reported {
            findings.take(&finding("credit-limit", Verdict::Certain, [*first, *number]));
        }
        reported.sort();
        let kept: Vec<_> = findings.kept().map(|finding| (finding.frames[0], finding.frames[1])).collect();
        assert_eq!(kept, reported[..50]);
        assert_eq!(findings.left_out(), 150);
    }

    #[test]
    fn findings_by_frame() {
        let mut findings = Findings::new(Findings::ALL);
        findings.take(&finding("credit-request-zero", Verdict::Certain, [3]));
        findings.take(&finding("credit-limit", Verdict::Certain, [3, 8]));
        findings.take(&finding("credit-limit", Verdict::Certain, [8]));
        findings.take(&finding("credit-limit", Verdict::Inconclusive, [9]));
        let by_frame = findings.by_frame();
        let of = |frame| by_frame.of(frame).iter().map(|finding| &*finding.message).collect::<Vec<_>>();
        assert_eq!(of(3), ["credit-limit", "credit-request-zero"]);
        assert_eq!(of(8), ["credit-limit"; 2]);
        assert!(of(4).is_empty() && !by_frame.names(4) && by_frame.names(9));
        let rules = |frames| {
            by_frame.rules(frames).iter().map(|(rule, verdict)| (rule.id, *verdict)).collect::<Vec<_>>()
        };
        assert_eq!(rules(&[8, 1]), [("credit-limit", Verdict::Certain)]);
        assert_eq!(
            rules(&[9, 3]),
            [
                ("credit-limit", Verdict::Certain),
                ("credit-request-zero", Verdict::Certain),
                ("credit-limit", Verdict::Inconclusive)
            ]
        );
    }

    #[test]
    fn a_finding_is_about_one_transaction_of_its_xid() {
        // The call is in frame 7, the reply in frame 9.
        let transaction = samples::read(7, 10);
        let connection = Some(transaction.connection);
        let named = |frames: &[u64]| {
            let finding = Finding { connection, ..Finding::new("") };
            finding.about(Some(Direction::Forward), transaction.xid).frames(frames.iter().copied())
        };
        assert!(is_about(&named(&[2, 7]), &transaction) && is_about(&named(&[9]), &transaction));
        // The XID was used before, and will be again.
        assert!(!is_about(&named(&[6]), &transaction) && !is_about(&named(&[10]), &transaction));
        let direction = Some(Direction::Backward);
        assert!(!is_about(&Finding { direction, ..named(&[7]) }, &transaction));
        assert!(!is_about(&Finding { connection: None, ..named(&[7]) }, &transaction));
        assert!(!is_about(&Finding { xid: Some(Xid(1)), ..named(&[7]) }, &transaction));
        let number = |number| Finding { transaction: Some(number), ..named(&[]) };
        assert!(is_about(&number(transaction.number), &transaction));
        assert!(!is_about(&number(transaction.number + 1), &transaction));
    }
}
