//! The judge: keeps the memories of each connection, and asks the rules.

use super::credits::CreditState;
use super::finding::{Basis, Finding, Verdict};
use super::rule::{Check, Findings, Gate, On, OnAnnounced, OnManaged, OnSent, OpensTo, OpensToSent, Rule};
use super::subjects::{Lasting, SUBJECTS, Subject};
use super::view::View;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rdmascope_dissector::BuildHasher;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::observation::{
    Ending, Faulty, HalfFlow, Missing, Observation, Observe, Observed, Refused, Revoked, Stray,
};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Transaction};

/// Takes the events of an engine that [observes](rdmascope_dissector::engine::Config::observe), and reports what breaks a rule.
#[derive(Clone, Debug)]
pub struct Judge {
    asked: Asked,
    connections: ConnectionTable,
    lasting: Lasting,
}

/// The rules by what they look at.
#[derive(Clone, Debug, Default)]
struct Asked {
    sent: Vec<Gated<OpensToSent, OnSent>>,
    transaction: Vec<Gated<OpensTo<Transaction>, On<Transaction>>>,
    established: Vec<(&'static Rule, On<Connection>)>,
    connection: Vec<(&'static Rule, On<Connection>)>,
    managed: Vec<(&'static Rule, OnManaged)>,
    announced: Vec<(&'static Rule, OnAnnounced)>,
    faulty: Vec<(&'static Rule, On<Faulty>)>,
    refused: Vec<(&'static Rule, On<Refused>)>,
    stray: Vec<(&'static Rule, On<Stray>)>,
    revoked: Vec<(&'static Rule, On<Revoked>)>,
}

/// The rules behind one gate.
#[derive(Clone, Debug)]
struct Gated<G, C> {
    gate: &'static Gate,
    opens: G,
    rules: Vec<(&'static Rule, C)>,
}

/// Adds a rule to those behind its gate.
fn add<G, C>(groups: &mut Vec<Gated<G, C>>, gate: &'static Gate, opens: G, rule: (&'static Rule, C)) {
    match groups.iter_mut().find(|group| core::ptr::eq(group.gate, gate)) {
        Some(group) => group.rules.push(rule),
        None => groups.push(Gated { gate, opens, rules: vec![rule] }),
    }
}

impl Asked {
    /// Bytes of memory that the lists take up.
    fn footprint(&self) -> usize {
        let sent = self.sent.iter().map(|gated| size_of_val(gated) + size_of_val(&gated.rules[..]));
        let transaction = self.transaction.iter();
        let transaction = transaction.map(|gated| size_of_val(gated) + size_of_val(&gated.rules[..]));
        sent.chain(transaction).sum::<usize>()
            + size_of_val(&self.established[..])
            + size_of_val(&self.connection[..])
            + size_of_val(&self.managed[..])
            + size_of_val(&self.announced[..])
            + size_of_val(&self.faulty[..])
            + size_of_val(&self.refused[..])
            + size_of_val(&self.stray[..])
            + size_of_val(&self.revoked[..])
    }
}

/// The connections that have not ended, each at the place where the engine keeps it.
#[derive(Clone, Debug, Default)]
struct ConnectionTable {
    connections: Vec<Option<Box<JudgedConnection>>>,
    places: HashMap<ConnectionId, u32, BuildHasher>,
    /// The one that was asked for last: events of one packet are of one connection.
    last: u32,
}

impl ConnectionTable {
    #[inline]
    fn find_or_add(&mut self, id: ConnectionId, place: u32) -> &mut JudgedConnection {
        self.last = place;
        let is_there = self.connections.get(place as usize).is_some_and(|judged| is(judged, id));
        if !is_there {
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
            self.places.remove(&former.view.connection);
        }
        self.places.insert(id, place);
    }

    #[inline]
    fn find(&mut self, id: ConnectionId) -> Option<&mut JudgedConnection> {
        let is_last = self.connections.get(self.last as usize).is_some_and(|judged| is(judged, id));
        let place = if is_last { self.last } else { *self.places.get(&id)? };
        self.connections[place as usize].as_deref_mut()
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Box<JudgedConnection>> {
        let place = self.places.remove(&id)?;
        self.connections[place as usize].take()
    }
}

#[inline]
fn is(judged: &Option<Box<JudgedConnection>>, id: ConnectionId) -> bool {
    judged.as_ref().is_some_and(|judged| judged.view.connection == id)
}

/// A connection, and the findings on it.
#[derive(Clone, Debug)]
struct JudgedConnection {
    view: View,
    pending: PendingFindings,
}

/// Findings on one connection that have not been reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingFindings {
    /// By end: findings that depend on the end not having sent anything else. They wait until that is certain.
    waiting: [Vec<Finding>; 2],
    /// By end of which no Send was seen: what found no room to wait, the first of each rule, and how many there were.
    further: [Vec<(Finding, u64)>; 2],
    /// By end: whether a Send of it was seen.
    heard: [bool; 2],
    ready: Vec<Finding>,
}

impl Default for Judge {
    /// One that asks all rules.
    fn default() -> Judge {
        Judge::new(|_| true)
    }
}

impl Judge {
    /// One that asks those rules for which `asks` holds.
    pub fn new(asks: impl Fn(&Rule) -> bool) -> Judge {
        Judge::with_gates(asks, |subject| subject.gate)
    }

    /// One that asks all rules of everything and ignores their gates. It is slower and must find the same. Tests compare the two to show
    /// that the gates are right.
    pub fn exhaustive() -> Judge {
        Judge::with_gates(|_| true, |_| &Gate::OPEN)
    }

    fn with_gates(asks: impl Fn(&Rule) -> bool, gate: impl Fn(&Subject) -> &'static Gate) -> Judge {
        let mut asked = Asked::default();
        for subject in SUBJECTS {
            let gate = gate(subject);
            for rule in subject.rules.iter().filter(|rule| asks(rule)) {
                match rule.check {
                    Check::Sent(check) => add(&mut asked.sent, gate, gate.sent, (rule, check)),
                    Check::Transaction(check) => {
                        add(&mut asked.transaction, gate, gate.transaction, (rule, check));
                    }
                    Check::Established(check) => asked.established.push((rule, check)),
                    Check::Connection(check) => asked.connection.push((rule, check)),
                    Check::Managed(check) => asked.managed.push((rule, check)),
                    Check::Announced(check) => asked.announced.push((rule, check)),
                    Check::Faulty(check) => asked.faulty.push((rule, check)),
                    Check::Refused(check) => asked.refused.push((rule, check)),
                    Check::Stray(check) => asked.stray.push((rule, check)),
                    Check::Revoked(check) => asked.revoked.push((rule, check)),
                }
            }
        }
        Judge { asked, connections: ConnectionTable::default(), lasting: Lasting::default() }
    }

    /// What an engine has to report to a judge.
    pub fn needs() -> Config {
        Config { observe: Observe::All, ..Config::default() }
    }

    /// Takes the next event of the engine.
    pub fn handle(&mut self, event: &Event<'_>, report: &mut dyn FnMut(&Finding)) {
        match event {
            Event::Observation(observation) => self.observe(observation, report),
            Event::Transaction(transaction) => {
                let Judge { asked, connections, lasting } = self;
                let Some(judged) = connections.find(transaction.connection) else { return };
                lasting.look_at(transaction, &mut judged.view);
                for Gated { opens, rules, .. } in &asked.transaction {
                    if opens(transaction, &judged.view) {
                        judged.ask(rules, transaction);
                    }
                }
                judged.view.note_transaction(transaction);
                lasting.note_transaction(transaction, &judged.view);
                judged.deliver(report);
            }
            Event::Connection(connection) => {
                let Some(mut judged) = self.connections.remove(connection.id) else { return };
                self.lasting.look_at_the_end(&mut judged.view);
                judged.ask(&self.asked.connection, connection);
                judged.close(report);
            }
            Event::Eviction(Eviction::Transaction { connection, direction, .. }) => {
                if let Some(judged) = self.connections.find(*connection) {
                    judged.view.note_eviction(*direction);
                }
            }
            _ => {}
        }
    }

    /// The credits of a connection that has not ended, as far as they are known by now: of forward and of backward transactions.
    pub fn credits(&self, connection: ConnectionId) -> Option<[CreditState; 2]> {
        let place = *self.connections.places.get(&connection)?;
        let view = &self.connections.connections.get(place as usize)?.as_ref()?.view;
        Some(
            [Direction::Forward, Direction::Backward]
                .map(|direction| view.memories.credits[view.caller(direction)].now()),
        )
    }

    /// Bytes of memory that a clone of the judge takes up, counted from how much its tables hold. What an allocator adds is not in it.
    pub fn footprint(&self) -> usize {
        let judged = self.connections.connections.iter().flatten().map(|one| {
            let established = one.view.established.as_ref().map_or(0, |_| size_of::<Connection>());
            size_of::<JudgedConnection>()
                + established
                + one.view.memories.footprint()
                + one.pending.footprint()
        });
        size_of::<Judge>()
            + self.asked.footprint()
            + self.lasting.reconnections.footprint()
            + self.lasting.unanswered.footprint()
            + self.lasting.sessions.footprint()
            + self.lasting.offloads.footprint()
            + self.lasting.states.footprint()
            + self.lasting.contexts.footprint()
            + self.lasting.refused.footprint()
            + self.connections.connections.len() * size_of::<Option<Box<JudgedConnection>>>()
            + self.connections.places.allocation_size()
            + judged.sum::<usize>()
    }

    fn observe(&mut self, observation: &Observation<'_>, report: &mut dyn FnMut(&Finding)) {
        let Judge { asked, connections, lasting } = self;
        let id = observation.connection;
        if let Observed::Joined(Some(known_as)) = &observation.what
            && let Some(mut gone) = connections.remove(*known_as)
        {
            gone.close(report);
        }
        let judged = connections.find_or_add(id, observation.place);
        judged.view.note(observation);
        if let Observed::Sent(sent) = &observation.what {
            judged.pending.heard[sent.from] = true;
            judged.settle(sent.from, Verdict::Stands);
            for Gated { opens, rules, .. } in &asked.sent {
                if opens(sent, &judged.view) {
                    judged.ask(rules, sent);
                }
            }
            judged.view.note_sent(sent);
        } else {
            judged.observe(&observation.what, asked, lasting);
        }
        judged.deliver(report);
    }
}

impl JudgedConnection {
    fn new(connection: ConnectionId) -> JudgedConnection {
        JudgedConnection { view: View::new(connection), pending: PendingFindings::default() }
    }

    #[inline]
    fn ask<T>(&mut self, rules: &[(&'static Rule, On<T>)], what: &T) {
        let JudgedConnection { view, pending } = self;
        for (rule, check) in rules {
            check(what, view, &mut Findings { rule, pending, view });
        }
    }

    /// Takes what is no Send.
    #[inline(never)]
    fn observe(&mut self, what: &Observed<'_>, asked: &Asked, lasting: &mut Lasting) {
        match what {
            Observed::Managed(managed) => self.ask(&asked.managed, managed),
            Observed::Announced(announced) => self.ask(&asked.announced, announced),
            Observed::Faulty(faulty) => {
                self.ask(&asked.faulty, faulty);
                // That the message is not there is no fault of the other end, and no second one of its sender.
                if faulty.hides_a_message() {
                    self.doubt(faulty.from);
                    self.view.note_missing(&Missing { from: faulty.from, packets: 1 });
                }
            }
            Observed::Refused(refused) => self.ask(&asked.refused, refused),
            Observed::Revoked(revoked) => self.ask(&asked.revoked, revoked),
            Observed::Stray(stray) => self.ask(&asked.stray, stray),
            Observed::Established(connection) => {
                self.view.note_established(connection, lasting);
                self.ask(&asked.established, connection);
            }
            Observed::Joined(_) => {
                End::BOTH.into_iter().for_each(|end| self.settle(end, Verdict::Inconclusive));
                self.view.note_joined();
            }
            Observed::Missing(missing) => {
                self.doubt(missing.from);
                self.view.note_missing(missing);
            }
            Observed::Ending(ending) => {
                self.settle_at_the_end(ending);
                self.view.note_ending(ending);
            }
            Observed::Outstanding(outstanding) => lasting.note_outstanding(outstanding, &self.view),
            _ => {}
        }
        self.view.note_observed(what);
    }

    /// Decides the findings that wait for this end: now it is certain what it sent up to here, or that this will never be certain.
    #[inline]
    fn settle(&mut self, end: End, verdict: Verdict) {
        if !self.pending.waiting[end].is_empty() {
            let is_unsure = self.view.half_flows[end].unsure > 0;
            self.pending.settle(end, if is_unsure { Verdict::Inconclusive } else { verdict });
        }
    }

    /// Packets of this end are missing: what waits for it is not certain. Where nothing that it sent was seen yet, the end of the connection tells
    /// whether the capture lacks all of it.
    #[cold]
    fn doubt(&mut self, end: End) {
        if self.pending.heard[end] {
            return self.settle(end, Verdict::Inconclusive);
        }
        self.pending.waiting[end].iter_mut().for_each(|finding| finding.verdict = Verdict::Inconclusive);
    }

    fn settle_at_the_end(&mut self, ending: &Ending) {
        let JudgedConnection { view, pending } = self;
        for end in End::BOTH {
            // Where the capture holds nothing that an end sent, its silence is no evidence, and no finding each time: that is a property of
            // the capture.
            if !ending.heard[end] && !pending.heard[end] {
                pending.waiting[end].clear();
                pending.further[end].clear();
            }
            pending.settle_further(end);
            for finding in pending.waiting[end].drain(..) {
                let is_unsure = view.half_flows[end].unsure > 0;
                let complete = !is_unsure && ending.complete[end] >= finding.frames.last().copied();
                let verdict = if complete { finding.verdict } else { Verdict::Inconclusive };
                pending.ready.push(Finding { verdict, ..finding });
            }
        }
    }

    #[inline]
    fn deliver(&mut self, report: &mut dyn FnMut(&Finding)) {
        if !self.pending.ready.is_empty() {
            self.pending.deliver(&self.view, report);
        }
    }

    fn close(&mut self, report: &mut dyn FnMut(&Finding)) {
        End::BOTH.into_iter().for_each(|end| self.settle(end, Verdict::Inconclusive));
        self.deliver(report);
    }
}

impl PendingFindings {
    /// Bytes of memory that the lists take up.
    fn footprint(&self) -> usize {
        let further = self.further.iter().flatten().map(|(finding, _)| finding);
        let findings = self.waiting.iter().flatten().chain(further).chain(&self.ready);
        findings.map(Finding::footprint).sum()
    }

    /// Findings of one end that wait for certainty.
    const MOST_PENDING: usize = 256;

    /// Takes what a rule found.
    pub(crate) fn take(&mut self, rule: &'static Rule, finding: Finding, view: &View) {
        let mut finding = Finding {
            rule: Some(rule),
            connection: Some(view.connection),
            caller: finding.direction.map(|direction| view.caller(direction)),
            ..finding
        };
        match finding.basis {
            Basis::Packets => self.ready.push(finding),
            Basis::Pairing(caller) if finding.xid.is_some_and(|xid| view.is_reused(caller, xid)) => {}
            // A packet that the capture shows late could have been among those that wait.
            Basis::Silence(end) | Basis::Pairing(end) if !self.is_unsure(end, view) => {
                self.waiting[end].push(finding);
            }
            // The end was never seen to send. If the capture lacks all of it, each of these says the same.
            Basis::Silence(end)
                if !self.heard[end] && self.waiting[end].len() == PendingFindings::MOST_PENDING =>
            {
                let of_rule = |kept: &&mut (Finding, u64)| kept.0.rule.map(|rule| rule.id) == Some(rule.id);
                match self.further[end].iter_mut().find(of_rule) {
                    Some((_, count)) => *count += 1,
                    None => self.further[end].push((finding, 1)),
                }
            }
            Basis::Silence(_) | Basis::Pairing(_) | Basis::Lacking => {
                finding.verdict = Verdict::Inconclusive;
                self.ready.push(finding);
            }
        }
    }

    /// Whether nothing that comes can make it certain what this end sent up to now.
    fn is_unsure(&self, end: End, view: &View) -> bool {
        let HalfFlow { waits, unsure, .. } = view.half_flows[end];
        waits || unsure > 0 || self.waiting[end].len() == PendingFindings::MOST_PENDING
    }

    #[cold]
    fn settle(&mut self, end: End, verdict: Verdict) {
        self.settle_further(end);
        let PendingFindings { waiting, ready, .. } = self;
        let settled = waiting[end].drain(..).map(|finding| match verdict {
            Verdict::Stands => finding,
            Verdict::Inconclusive => Finding { verdict, ..finding },
        });
        ready.extend(settled);
    }

    /// What found no room to wait was never certain.
    #[cold]
    fn settle_further(&mut self, end: End) {
        let PendingFindings { further, ready, .. } = self;
        ready.extend(further[end].drain(..).map(|(mut finding, count)| {
            if count > 1 {
                finding.message.push_str(&alloc::format!("; {} more like it", count - 1));
            }
            Finding { verdict: Verdict::Inconclusive, ..finding }
        }));
    }

    #[inline(never)]
    fn deliver(&mut self, view: &View, report: &mut dyn FnMut(&Finding)) {
        // Who opened the connection may have turned out since the rule was asked.
        let requester = view.roles_known.then_some(view.requester);
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

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::observation::{Advertiser, Astray};
    use rdmascope_dissector::rdma::{MemoryRange, Position};
    use rdmascope_dissector::record::Time;
    use rdmascope_dissector::transaction::Seen;
    use rdmascope_wire::psn::Psn;
    use rdmascope_wire::{Rkey, Xid};

    /// The first end reads beyond the memory that the second one advertised.
    const STRAY: Stray = Stray {
        from: End::First,
        seen: Seen { frame: 7, time: Time(0) },
        position: Position::new(Psn::new(1)),
        reading: true,
        memory: MemoryRange { address: 0x1000, rkey: Rkey(9), length: 64 },
        address: 0x1020,
        astray: Astray::PastEnd(Advertiser { caller: End::Second, xid: Xid(3) }),
    };

    fn found(judge: &mut Judge, known_requester: Option<End>, what: Observed<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        let observation = Observation {
            connection: ConnectionId(1),
            place: 0,
            requester: known_requester.unwrap_or_default(),
            roles_known: known_requester.is_some(),
            half_flows: &Default::default(),
            what,
        };
        judge.handle(&Event::Observation(&observation), &mut |finding| found.push(finding.clone()));
        found
    }

    /// A judge that has seen the second end send.
    fn judge_of_both_ends() -> Judge {
        let mut judge = Judge::default();
        judge.connections.find_or_add(ConnectionId(1), 0).pending.heard[End::Second] = true;
        judge
    }

    #[test]
    fn who_opened_the_connection_may_turn_out_before_the_verdict() {
        for (requester, direction, by_requester) in [
            (Some(End::Second), Some(Direction::Forward), Some(false)),
            (Some(End::First), Some(Direction::Backward), Some(true)),
            (None, None, None),
        ] {
            let mut judge = judge_of_both_ends();
            // It rests on end 1 not having advertised more, which nobody knows yet.
            assert!(found(&mut judge, None, Observed::Stray(STRAY)).is_empty());
            let missing = Observed::Missing(Missing { from: End::Second, packets: 1 });
            let [finding] = &found(&mut judge, requester, missing)[..] else { panic!("one finding") };
            assert_eq!(finding.rule.map(|rule| rule.id), Some("memory-segment-end"));
            assert_eq!(finding.verdict, Verdict::Inconclusive);
            assert_eq!((finding.direction, finding.by_requester), (direction, by_requester));
        }
    }

    /// Tests compare it with the judge that has gates: it must not be the same one.
    #[test]
    fn an_exhaustive_judge_asks_all_rules_behind_no_gate() {
        let [gated, exhaustive] = [Judge::default(), Judge::exhaustive()];
        let rules = |judge: &Judge| -> [usize; 2] {
            let Asked { sent, transaction, .. } = &judge.asked;
            [
                sent.iter().map(|one| one.rules.len()).sum(),
                transaction.iter().map(|one| one.rules.len()).sum(),
            ]
        };
        assert_eq!(rules(&gated), rules(&exhaustive));
        let gates = |judge: &Judge| [judge.asked.sent.len(), judge.asked.transaction.len()];
        assert_eq!(gates(&exhaustive), [1, 1], "one that is open");
        assert!(gates(&gated).iter().all(|gates| *gates > 1), "those of the subjects");
    }

    #[test]
    fn findings_that_wait_are_bounded() {
        let mut judge = judge_of_both_ends();
        let at_once: usize = (0..300).map(|_| found(&mut judge, None, Observed::Stray(STRAY)).len()).sum();
        assert_eq!(at_once, 300 - PendingFindings::MOST_PENDING);
        let missing = Observed::Missing(Missing { from: End::Second, packets: 1 });
        assert_eq!(found(&mut judge, None, missing).len(), PendingFindings::MOST_PENDING);
    }

    #[test]
    fn what_rests_on_an_end_that_nothing_was_seen_of_waits_for_the_end_of_the_connection() {
        let mut judge = Judge::default();
        let at_once: usize = (0..300).map(|_| found(&mut judge, None, Observed::Stray(STRAY)).len()).sum();
        let missing = Observed::Missing(Missing { from: End::Second, packets: 1 });
        assert_eq!((at_once, found(&mut judge, None, missing).len()), (0, 0));
        let mut unheard = judge.clone();
        let ending = |heard| Observed::Ending(Ending { complete: [None; 2], heard });
        let told = found(&mut judge, None, ending([true; 2]));
        assert_eq!(told.len(), PendingFindings::MOST_PENDING + 1);
        assert!(told.iter().all(|finding| finding.verdict == Verdict::Inconclusive));
        assert!(told.iter().any(|finding| finding.message.ends_with("; 43 more like it")), "{told:?}");
        assert!(found(&mut unheard, None, ending([true, false])).is_empty(), "a property of the capture");
    }

    #[test]
    fn what_found_no_room_to_wait_says_how_many_more_there_were() {
        for (beyond, more) in [(1, None), (2, Some("; 1 more like it"))] {
            let mut judge = Judge::default();
            (0..PendingFindings::MOST_PENDING + beyond).for_each(|_| {
                assert!(found(&mut judge, None, Observed::Stray(STRAY)).is_empty());
            });
            let ending = Observed::Ending(Ending { complete: [None; 2], heard: [true; 2] });
            let told = found(&mut judge, None, ending);
            assert_eq!(told.len(), PendingFindings::MOST_PENDING + 1);
            let said =
                told.iter().find_map(|finding| finding.message.find("; ").map(|at| &finding.message[at..]));
            assert_eq!(said, more);
        }
    }
}
