//! The judge: keeps the state of each connection and runs the rules.

use super::check::{Case, Findings};
use super::credits::CreditState;
use super::finding::{Finding, Verdict};
use super::judged::is_doubtful;
use super::known::Known;
use super::pending::PendingFindings;
use super::rule::{About, Rule};
use super::subjects::{Gate, Lasting, Memories, OpensToSent, OpensToTransaction, SUBJECTS, Subject};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use hashbrown::HashMap;
use rdmascope_dissector::BuildHasher;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::observation::{Ending, Missing, Observation, Observe, Observed, Sent};
use rdmascope_dissector::rdma::End;

/// Takes the events of an engine that [observes](rdmascope_dissector::engine::Config::observe), and
/// reports broken rules.
#[derive(Clone, Debug)]
pub struct Judge {
    selected: SelectedRules,
    connections: ConnectionTable,
    lasting: Lasting,
    /// Whether the order of packets in different files of the capture is unknown. Then no finding is
    /// certain.
    clocks_differ: bool,
}

/// The rules by the kind of case that they apply to.
#[derive(Clone, Debug, Default)]
struct SelectedRules {
    sent: Vec<Gated<OpensToSent>>,
    transaction: Vec<Gated<OpensToTransaction>>,
    /// By [`About`].
    others: [Vec<SelectedRule>; About::Revoked as usize + 1],
}

/// The rules that share a gate.
#[derive(Clone, Debug)]
struct Gated<G> {
    gate: &'static Gate,
    opens: G,
    rules: Vec<SelectedRule>,
}

/// A rule: its subject, and its index there.
#[derive(Clone, Copy)]
struct SelectedRule {
    subject: &'static Subject,
    index: usize,
}

/// Adds a rule to those that share its gate.
fn add<G>(groups: &mut Vec<Gated<G>>, gate: &'static Gate, opens: G, rule: SelectedRule) {
    match groups.iter_mut().find(|group| core::ptr::eq(group.gate, gate)) {
        Some(group) => group.rules.push(rule),
        None => groups.push(Gated { gate, opens, rules: vec![rule] }),
    }
}

impl SelectedRule {
    fn rule(self) -> &'static Rule {
        &self.subject.rules[self.index]
    }
}

impl fmt::Debug for SelectedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule().id)
    }
}

impl SelectedRules {
    /// Heap bytes that the lists take up.
    fn footprint(&self) -> usize {
        let sent = self.sent.iter().map(|gated| size_of_val(gated) + size_of_val(&gated.rules[..]));
        let transaction = self.transaction.iter();
        let transaction = transaction.map(|gated| size_of_val(gated) + size_of_val(&gated.rules[..]));
        let others = self.others.iter().map(|rules| size_of_val(&rules[..]));
        sent.chain(transaction).chain(others).sum()
    }
}

/// The connections that have not ended, each at the index where the engine keeps it.
#[derive(Clone, Debug, Default)]
struct ConnectionTable {
    connections: Vec<Option<Box<JudgedConnection>>>,
    places: HashMap<ConnectionId, u32, BuildHasher>,
    /// The last one looked up: the events of one packet belong to one connection.
    last: u32,
}

impl ConnectionTable {
    #[inline]
    fn find_or_add(&mut self, id: ConnectionId, place: u32) -> &mut JudgedConnection {
        self.last = place;
        let is_present = self.connections.get(place as usize).is_some_and(|judged| is(judged, id));
        if !is_present {
            self.add(id, place);
        }
        self.connections[place as usize].as_deref_mut().expect("it is there, or was added")
    }

    #[cold]
    fn add(&mut self, id: ConnectionId, place: u32) {
        if self.connections.len() <= place as usize {
            self.connections.resize_with(place as usize + 1, || None);
        }
        if let Some(former) = self.connections[place as usize].replace(Box::new(JudgedConnection::new(id))) {
            self.places.remove(&former.known.connection);
        }
        self.places.insert(id, place);
    }

    #[inline]
    fn find(&mut self, id: ConnectionId) -> Option<&mut JudgedConnection> {
        let is_last = self.connections.get(self.last as usize).is_some_and(|judged| is(judged, id));
        let place = if is_last { self.last } else { *self.places.get(&id)? };
        self.connections[place as usize].as_deref_mut()
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Box<JudgedConnection>> {
        let place = self.places.remove(&id)?;
        self.connections[place as usize].take()
    }
}

#[inline]
fn is(judged: &Option<Box<JudgedConnection>>, id: ConnectionId) -> bool {
    judged.as_ref().is_some_and(|judged| judged.known.connection == id)
}

/// A connection, and the findings on it.
#[derive(Clone, Debug)]
struct JudgedConnection {
    known: Known,
    memories: Memories,
    pending: PendingFindings,
}

impl Default for Judge {
    /// Creates a judge that runs all rules.
    fn default() -> Judge {
        Judge::new(|_| true)
    }
}

impl Judge {
    /// Creates a judge that runs the rules for which `select` returns true.
    pub fn new(select: impl Fn(&Rule) -> bool) -> Judge {
        Judge::with_gates(select, |subject| subject.gate)
    }

    /// Creates a judge that runs all rules on everything and ignores their gates. It is slower and
    /// must report the same findings. Tests compare the two to show that the gates are right.
    pub fn exhaustive() -> Judge {
        Judge::with_gates(|_| true, |_| &Gate::OPEN)
    }

    fn with_gates(select: impl Fn(&Rule) -> bool, gate: impl Fn(&Subject) -> &'static Gate) -> Judge {
        let mut selected = SelectedRules::default();
        for subject in SUBJECTS {
            let gate = gate(subject);
            let rules = (0..subject.rules.len()).map(|index| SelectedRule { subject, index });
            for rule in rules.filter(|rule| select(rule.rule())) {
                match rule.rule().about {
                    About::Sent => add(&mut selected.sent, gate, gate.sent, rule),
                    About::Transaction => add(&mut selected.transaction, gate, gate.transaction, rule),
                    about => selected.others[about as usize].push(rule),
                }
            }
        }
        let connections = ConnectionTable::default();
        Judge { selected, connections, lasting: Lasting::default(), clocks_differ: false }
    }

    /// The engine configuration that a judge requires.
    pub fn needs() -> Config {
        Config { observe: Observe::All, ..Config::default() }
    }

    /// Takes the next event of the engine.
    pub fn handle(&mut self, event: &Event<'_>, report: &mut dyn FnMut(&Finding)) {
        self.clocks_differ |= matches!(event, Event::ClocksDiffer(_));
        if !self.clocks_differ {
            return self.take(event, report);
        }
        self.take(event, &mut |finding| {
            report(&Finding { verdict: Verdict::Inconclusive, ..finding.clone() });
        });
    }

    fn take(&mut self, event: &Event<'_>, report: &mut dyn FnMut(&Finding)) {
        match event {
            Event::Observation(observation) => self.observe(observation, report),
            Event::Transaction(transaction) => {
                let Judge { selected, connections, lasting, .. } = self;
                let Some(judged) = connections.find(transaction.connection) else { return };
                lasting.update_transaction(transaction, &judged.known, &mut judged.memories);
                for Gated { opens, rules, .. } in &selected.transaction {
                    if opens(transaction, &judged.memories) {
                        judged.run(rules, Case::Transaction(transaction));
                    }
                }
                judged.memories.note_transaction(transaction, &judged.known);
                lasting.unanswered.note_transaction(transaction, &judged.known);
                judged.deliver(report);
            }
            Event::Connection(connection) => {
                let Some(mut judged) = self.connections.remove(connection.id) else { return };
                let is_last = self.connections.is_empty();
                self.lasting.hand_over_offloads(is_last, &judged.known, &mut judged.memories);
                judged.run_kind(&self.selected, About::Connection, Case::Connection(connection));
                judged.close(report);
            }
            Event::Eviction(Eviction::Transaction { connection, direction, .. }) => {
                if let Some(judged) = self.connections.find(*connection) {
                    let caller = judged.known.caller(*direction);
                    judged.memories.each(|memory| memory.evicted(caller));
                }
            }
            _ => {}
        }
    }

    /// The credits of an open connection, as far as known so far: of forward and of backward
    /// transactions.
    pub fn credits(&self, connection: ConnectionId) -> Option<[CreditState; 2]> {
        let place = *self.connections.places.get(&connection)?;
        let judged = self.connections.connections.get(place as usize)?.as_ref()?;
        Some(judged.memories.credits(&judged.known))
    }

    /// Bytes of memory that a clone of the judge takes up, computed from the sizes of its tables.
    /// The overhead of an allocator is not included.
    pub fn footprint(&self) -> usize {
        let judged = self.connections.connections.iter().flatten().map(|one| {
            let established = one.known.established.as_ref().map_or(0, |_| size_of::<Connection>());
            size_of::<JudgedConnection>() + established + one.memories.footprint() + one.pending.footprint()
        });
        size_of::<Judge>()
            + self.selected.footprint()
            + self.lasting.footprint()
            + self.connections.connections.len() * size_of::<Option<Box<JudgedConnection>>>()
            + self.connections.places.allocation_size()
            + judged.sum::<usize>()
    }

    fn observe(&mut self, observation: &Observation<'_>, report: &mut dyn FnMut(&Finding)) {
        let Judge { selected, connections, lasting, .. } = self;
        let id = observation.connection;
        if let Observed::Joined(Some(known_as)) = &observation.kind
            && let Some(mut gone) = connections.remove(*known_as)
        {
            gone.close(report);
        }
        let judged = connections.find_or_add(id, observation.place);
        judged.known.note(observation);
        if let Observed::Sent(sent) = &observation.kind {
            judged.pending.has_sent[sent.from] = true;
            judged.known.note_order(sent);
            judged.settle_before(sent);
            for Gated { opens, rules, .. } in &selected.sent {
                if opens(sent, &judged.known, &judged.memories) {
                    judged.run(rules, Case::Sent(sent));
                }
            }
            judged.known.paired = sent.paired;
            judged.memories.each(|memory| memory.sent(sent, &judged.known));
        } else {
            judged.observe(&observation.kind, selected, lasting);
        }
        judged.deliver(report);
    }
}

impl JudgedConnection {
    fn new(connection: ConnectionId) -> JudgedConnection {
        JudgedConnection {
            known: Known::new(connection),
            memories: Memories::default(),
            pending: PendingFindings::default(),
        }
    }

    fn run(&mut self, rules: &[SelectedRule], case: Case<'_>) {
        let JudgedConnection { known, memories, pending } = self;
        let is_doubtful = match case {
            Case::Transaction(transaction) => {
                is_doubtful(transaction) || memories.memory.shares_message(transaction, known)
            }
            _ => false,
        };
        for selected in rules {
            let (rule, unmatched) = (selected.rule(), &memories.unmatched);
            let mut findings = Findings { rule, pending, known, unmatched, is_doubtful };
            selected.subject.checks.run(selected.index, case, known, memories, &mut findings);
        }
    }

    fn run_kind(&mut self, selected: &SelectedRules, about: About, case: Case<'_>) {
        self.run(&selected.others[about as usize], case);
    }

    /// Takes an observation other than a Send.
    #[inline(never)]
    fn observe(&mut self, observed: &Observed<'_>, selected: &SelectedRules, lasting: &mut Lasting) {
        match observed {
            Observed::Managed(managed) => self.run_kind(selected, About::Managed, Case::Managed(managed)),
            Observed::Announced(announced) => {
                self.run_kind(selected, About::Announced, Case::Announced(announced));
            }
            Observed::Faulty(faulty) => {
                self.run_kind(selected, About::Faulty, Case::Faulty(faulty));
                // The missing message is not a fault of the other end, nor a second fault of its
                // sender.
                if faulty.hides_a_message() {
                    self.doubt(faulty.from);
                    self.known.note_missing(&Missing { from: faulty.from, packets: 1, acknowledged: None });
                }
            }
            Observed::Refused(refused) => self.run_kind(selected, About::Refused, Case::Refused(refused)),
            Observed::Revoked(revoked) => self.run_kind(selected, About::Revoked, Case::Revoked(revoked)),
            Observed::Unmatched(unmatched) => {
                self.run_kind(selected, About::Unmatched, Case::Unmatched(unmatched))
            }
            Observed::Established(connection) => {
                self.known.note_established(connection);
                lasting.update_connection(connection, &mut self.known, &mut self.memories);
                self.run_kind(selected, About::Established, Case::Established(connection));
            }
            Observed::Joined(_) => {
                End::BOTH.into_iter().for_each(|end| self.settle_as_inconclusive(end));
                self.memories.each(|memory| memory.joined());
                self.known.note_joined();
            }
            Observed::Missing(missing) => {
                self.doubt(missing.from);
                self.known.note_missing(missing);
            }
            Observed::Ending(ending) => {
                self.settle_at_the_end(ending);
                self.known.ending = Some(*ending);
            }
            Observed::Outstanding(outstanding) => {
                lasting.unanswered.note(outstanding, &self.known, &self.memories.unmatched);
            }
            _ => {}
        }
        self.known.note_observed(observed);
        self.memories.each(|memory| memory.observed(observed, &self.known));
    }

    /// Decides the findings that wait for the sender of a message: its Sends before this one are
    /// certain now, or never will be.
    #[inline]
    fn settle_before(&mut self, sent: &Sent<'_>) {
        let JudgedConnection { known, pending, .. } = self;
        let from = sent.from;
        if !pending.waiting[from].is_empty() {
            let half_flows = &known.half_flows;
            // If the capture shows messages late, this one may precede the evidence.
            let is_unsure = half_flows[from].unsure > 0 || known.is_shown_late[from];
            let caller = &half_flows[from.other()];
            pending.settle(from, |finding| is_unsure || finding.basis.may_follow(sent, caller));
        }
    }

    /// Makes the findings that wait for this end inconclusive.
    fn settle_as_inconclusive(&mut self, end: End) {
        if !self.pending.waiting[end].is_empty() {
            self.pending.settle(end, |_| true);
        }
    }

    /// Makes the findings that wait for this end inconclusive, because packets of it are missing.
    /// If no Send of this end was seen yet, they wait for the end of the connection, which shows
    /// whether the capture lacks the whole half-flow.
    #[cold]
    fn doubt(&mut self, end: End) {
        if self.pending.has_sent[end] {
            return self.settle_as_inconclusive(end);
        }
        self.pending.waiting[end].iter_mut().for_each(|finding| finding.verdict = Verdict::Inconclusive);
    }

    fn settle_at_the_end(&mut self, ending: &Ending) {
        let JudgedConnection { known, pending, .. } = self;
        for end in End::BOTH {
            // If the capture contains nothing that an end sent, its silence is no evidence. That is
            // a property of the capture, and not a finding for each case.
            if !ending.captured[end] && !pending.has_sent[end] {
                pending.waiting[end].clear();
                pending.further[end].clear();
            }
            pending.settle_further(end);
            for finding in pending.waiting[end].drain(..) {
                let is_unsure = known.half_flows[end].unsure > 0;
                let complete = !is_unsure && ending.complete[end] >= finding.frames.last().copied();
                let verdict = if complete { finding.verdict } else { Verdict::Inconclusive };
                pending.ready.push(Finding { verdict, ..finding });
            }
        }
    }

    #[inline]
    fn deliver(&mut self, report: &mut dyn FnMut(&Finding)) {
        if !self.pending.ready.is_empty() {
            self.pending.deliver(&self.known, report);
        }
    }

    fn close(&mut self, report: &mut dyn FnMut(&Finding)) {
        End::BOTH.into_iter().for_each(|end| self.settle_as_inconclusive(end));
        self.deliver(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::observation::{Advertiser, Mismatch, Unmatched};
    use rdmascope_dissector::rdma::{MemoryRange, Position};
    use rdmascope_dissector::record::Time;
    use rdmascope_dissector::transaction::{Direction, Seen};
    use rdmascope_wire::psn::Psn;
    use rdmascope_wire::{Rkey, Xid};

    /// The first end reads beyond the memory that the second one advertised.
    const UNMATCHED: Unmatched = Unmatched {
        from: End::First,
        seen: Seen { frame: 7, time: Time(0) },
        position: Position::new(Psn::new(1)),
        reading: true,
        memory: MemoryRange { address: 0x1000, rkey: Rkey(9), length: 64 },
        address: 0x1020,
        mismatch: Mismatch::PastEnd(Advertiser { caller: End::Second, xid: Xid(3) }),
    };

    fn found(judge: &mut Judge, known_requester: Option<End>, observed: Observed<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        let observation = Observation {
            connection: ConnectionId(1),
            place: 0,
            requester: known_requester.unwrap_or_default(),
            roles_known: known_requester.is_some(),
            half_flows: &Default::default(),
            kind: observed,
        };
        judge.handle(&Event::Observation(&observation), &mut |finding| found.push(finding.clone()));
        found
    }

    /// A judge that has seen a Send of the second end.
    fn judge_of_both_ends() -> Judge {
        let mut judge = Judge::default();
        judge.connections.find_or_add(ConnectionId(1), 0).pending.has_sent[End::Second] = true;
        judge
    }

    #[test]
    fn pending_findings_use_roles_learned_later() {
        for (requester, direction, by_requester) in [
            (Some(End::Second), Some(Direction::Forward), Some(false)),
            (Some(End::First), Some(Direction::Backward), Some(true)),
            (None, None, None),
        ] {
            let mut judge = judge_of_both_ends();
            // The basis is that end 1 advertised nothing else, which is not certain yet.
            assert!(found(&mut judge, None, Observed::Unmatched(UNMATCHED)).is_empty());
            let missing = Observed::Missing(Missing { from: End::Second, packets: 1, acknowledged: None });
            let [finding] = &found(&mut judge, requester, missing)[..] else { panic!("one finding") };
            assert_eq!(finding.rule.map(|rule| rule.id), Some("memory-segment-end"));
            assert_eq!(finding.verdict, Verdict::Inconclusive);
            assert_eq!((finding.direction, finding.by_requester), (direction, by_requester));
        }
    }

    /// Tests compare this judge with the gated one, so the two must differ.
    #[test]
    fn exhaustive_judge_runs_all_rules_ungated() {
        let [gated, exhaustive] = [Judge::default(), Judge::exhaustive()];
        let rules = |judge: &Judge| -> [usize; 2] {
            let SelectedRules { sent, transaction, .. } = &judge.selected;
            [
                sent.iter().map(|one| one.rules.len()).sum(),
                transaction.iter().map(|one| one.rules.len()).sum(),
            ]
        };
        assert_eq!(rules(&gated), rules(&exhaustive));
        let gates = |judge: &Judge| [judge.selected.sent.len(), judge.selected.transaction.len()];
        assert_eq!(gates(&exhaustive), [1, 1], "one open gate");
        assert!(gates(&gated).iter().all(|gates| *gates > 1), "gates of the subjects");
    }

    #[test]
    fn pending_findings_are_bounded() {
        let mut judge = judge_of_both_ends();
        let at_once: usize =
            (0..300).map(|_| found(&mut judge, None, Observed::Unmatched(UNMATCHED)).len()).sum();
        assert_eq!(at_once, 300 - PendingFindings::MOST_PENDING);
        let missing = Observed::Missing(Missing { from: End::Second, packets: 1, acknowledged: None });
        assert_eq!(found(&mut judge, None, missing).len(), PendingFindings::MOST_PENDING);
    }

    #[test]
    fn findings_on_an_unseen_end_wait_until_the_connection_ends() {
        let mut judge = Judge::default();
        let at_once: usize =
            (0..300).map(|_| found(&mut judge, None, Observed::Unmatched(UNMATCHED)).len()).sum();
        let missing = Observed::Missing(Missing { from: End::Second, packets: 1, acknowledged: None });
        assert_eq!((at_once, found(&mut judge, None, missing).len()), (0, 0));
        let mut other = judge.clone();
        let ending = |captured| Observed::Ending(Ending { complete: [None; 2], captured, is_closed: true });
        let findings = found(&mut judge, None, ending([true; 2]));
        assert_eq!(findings.len(), PendingFindings::MOST_PENDING + 1);
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Inconclusive));
        assert!(
            findings.iter().any(|finding| finding.message.ends_with("; 43 more like it")),
            "{findings:?}"
        );
        assert!(found(&mut other, None, ending([true, false])).is_empty(), "the end stayed unseen");
    }

    #[test]
    fn findings_beyond_the_pending_limit_are_counted() {
        for (beyond, more) in [(1, None), (2, Some("; 1 more like it"))] {
            let mut judge = Judge::default();
            (0..PendingFindings::MOST_PENDING + beyond).for_each(|_| {
                assert!(found(&mut judge, None, Observed::Unmatched(UNMATCHED)).is_empty());
            });
            let ending =
                Observed::Ending(Ending { complete: [None; 2], captured: [true; 2], is_closed: true });
            let findings = found(&mut judge, None, ending);
            assert_eq!(findings.len(), PendingFindings::MOST_PENDING + 1);
            let suffix = findings
                .iter()
                .find_map(|finding| finding.message.find("; ").map(|at| &finding.message[at..]));
            assert_eq!(suffix, more);
        }
    }
}
