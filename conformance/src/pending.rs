//! Findings that wait until the Sends of an end are certain.

use super::finding::{Basis, Finding, Verdict};
use super::known::Known;
use super::rule::Rule;
use super::unmatched::UnmatchedMessages;
use alloc::vec::Vec;
use rdmascope_dissector::observation::HalfFlow;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::Direction;

/// Findings on one connection that have not been reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingFindings {
    /// By end: findings whose basis is that the end sent nothing else. They wait until that is
    /// certain.
    pub(crate) waiting: [Vec<Finding>; 2],
    /// By end without any Send so far: findings beyond the limit. The first of each rule, and their
    /// count.
    pub(crate) further: [Vec<(Finding, u64)>; 2],
    /// By end: whether one of its Sends was seen.
    pub(crate) has_sent: [bool; 2],
    pub(crate) ready: Vec<Finding>,
}

impl PendingFindings {
    /// Heap bytes that the lists take up.
    pub(crate) fn footprint(&self) -> usize {
        let further = self.further.iter().flatten().map(|(finding, _)| finding);
        let findings = self.waiting.iter().flatten().chain(further).chain(&self.ready);
        findings.map(Finding::footprint).sum()
    }

    /// The most findings on one end that wait for certainty.
    pub(crate) const MOST_PENDING: usize = 256;

    /// Takes a finding of a rule.
    pub(crate) fn take(
        &mut self,
        rule: &'static Rule,
        finding: Finding,
        known: &Known,
        unmatched: &UnmatchedMessages,
    ) {
        let mut finding = Finding {
            rule: Some(rule),
            connection: Some(known.connection),
            caller: finding.direction.map(|direction| known.caller(direction)),
            ..finding
        };
        if matches!(finding.basis, Basis::Unanswered(..)) && unmatched.shows_replies_early {
            finding.basis = Basis::Lacking;
        }
        match finding.basis {
            Basis::Packets => self.ready.push(finding),
            Basis::Pairing(caller) if finding.xid.is_some_and(|xid| unmatched.is_reused(caller, xid)) => {}
            // A packet that the capture shows late may be among those that wait.
            Basis::Silence(end) | Basis::Pairing(end) | Basis::Unanswered(end, ..)
                if !self.is_unsure(end, known) =>
            {
                self.waiting[end].push(finding);
            }
            // No Send of this end was seen. If the capture lacks its whole half-flow, all of these
            // have the same cause.
            Basis::Silence(end) | Basis::Unanswered(end, ..)
                if !self.has_sent[end] && self.waiting[end].len() == PendingFindings::MOST_PENDING =>
            {
                let of_rule = |kept: &&mut (Finding, u64)| kept.0.rule.map(|rule| rule.id) == Some(rule.id);
                match self.further[end].iter_mut().find(of_rule) {
                    Some((_, count)) => *count += 1,
                    None => self.further[end].push((finding, 1)),
                }
            }
            Basis::Silence(_) | Basis::Unanswered(..) | Basis::Pairing(_) | Basis::Lacking => {
                finding.verdict = Verdict::Inconclusive;
                self.ready.push(finding);
            }
        }
    }

    /// Whether the Sends of this end up to now can never become certain.
    fn is_unsure(&self, end: End, known: &Known) -> bool {
        let HalfFlow { waits, unsure, .. } = known.half_flows[end];
        waits || unsure > 0 || self.waiting[end].len() == PendingFindings::MOST_PENDING
    }

    #[cold]
    pub(crate) fn settle(&mut self, end: End, is_doubtful: impl Fn(&Finding) -> bool) {
        self.settle_further(end);
        let PendingFindings { waiting, ready, .. } = self;
        let settled = waiting[end].drain(..).map(|finding| match is_doubtful(&finding) {
            false => finding,
            true => Finding { verdict: Verdict::Inconclusive, ..finding },
        });
        ready.extend(settled);
    }

    /// Reports the findings beyond the limit, as inconclusive.
    #[cold]
    pub(crate) fn settle_further(&mut self, end: End) {
        let PendingFindings { further, ready, .. } = self;
        ready.extend(further[end].drain(..).map(|(mut finding, count)| {
            if count > 1 {
                finding.message.push_str(&alloc::format!("; {} more like it", count - 1));
            }
            Finding { verdict: Verdict::Inconclusive, ..finding }
        }));
    }

    #[inline(never)]
    pub(crate) fn deliver(&mut self, known: &Known, report: &mut dyn FnMut(&Finding)) {
        // The end that opened the connection may have become known after the rule ran.
        let requester = known.roles_known.then_some(known.requester);
        for finding in self.ready.drain(..) {
            let is_requester = |end: End| requester.map(|requester| requester == end);
            let direction = finding.caller.and_then(is_requester).map(|forward| match forward {
                true => Direction::Forward,
                false => Direction::Backward,
            });
            let by_requester = finding.by.and_then(is_requester);
            report(&Finding { direction, by_requester, ..finding });
        }
    }
}
