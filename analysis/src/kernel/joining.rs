//! Joins a trace with a capture by XID and direction. If an XID occurs more than once, it uses the
//! RPC client or completion queue of calls already joined, and the order in time.

use super::calls::{Call, KernelTrace};
use super::clock::{Bound, Clock};
use super::difference::{About, Difference, compare};
use super::point::{Point, Role, Times};
use super::steps::{Step, Steps};
use super::wire::{Shown, Wire, Wires};
use crate::observer::Observer;
use foldhash::fast::FixedState;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use std::collections::{BTreeMap, HashMap, HashSet};

type Map<K, V> = HashMap<K, V, FixedState>;

/// The transactions of a capture, to which traces can be joined.
#[derive(Debug, Default)]
pub struct Joining {
    wires: Wires,
}

/// The numbers of joined calls and transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Calls of the trace that were joined to a transaction of the capture.
    pub joined: u64,
    /// Calls that may be any of several transactions with their XID.
    pub ambiguous: u64,
    /// Calls that the capture lacks although they were made during the capture, on an RPC client or
    /// completion queue with joined calls.
    pub only_in_trace: u64,
    /// Calls before the capture began, after it ended, or of connections that it does not contain.
    pub outside: u64,
    /// Transactions that the trace lacks although they took place during the trace, on connections
    /// with joined calls.
    pub only_in_capture: u64,
    /// Joined calls whose chunk lists were not compared, because the trace lacks some of their
    /// segments.
    pub without_segments: u64,
}

/// A difference between kernel and wire, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The XID.
    pub xid: u32,
    /// The connection, if the capture contains the transaction.
    pub connection: Option<u32>,
    /// The packet that it concerns.
    pub frame: Option<u64>,
    /// The line of the trace.
    pub line: Option<u64>,
    /// The host's end of the transaction, if the trace contains it.
    pub role: Option<Role>,
    /// Its subject, and both values.
    pub difference: Difference,
}

/// The results from a trace, with a capture or alone.
#[derive(Debug)]
pub struct TraceResults {
    /// The trace.
    pub trace: KernelTrace,
    /// Whether it was joined with a capture.
    pub has_capture: bool,
    /// The offsets between its clock and that of the capture.
    pub clock: Clock,
    /// The numbers of joined calls and transactions.
    pub joined: Joined,
    /// The host's time by steps.
    pub steps: Vec<Step>,
    /// Steps with an end before their start.
    pub backward_steps: u64,
    /// Differences between kernel and wire, at most [`TraceResults::MOST_DISAGREEMENTS`].
    pub disagreements: Vec<Disagreement>,
    /// The number of differences by subject.
    pub counts: BTreeMap<About, u64>,
    /// Transactions of the capture that were not joined, because there are too many.
    pub beyond: u64,
    operations: Vec<String>,
}

impl Joining {
    /// Joins a trace. `span` is the span of the capture. `is_of_capture` means that the trace and
    /// the capture come from one host, so both have its time of day.
    pub fn join(&self, trace: KernelTrace, span: Option<(Time, Time)>, is_of_capture: bool) -> TraceResults {
        let wires = &self.wires;
        let Pairs { pairs, ambiguous, joined_groups } = pair(&trace.calls, &wires.all);
        let moments =
            pairs.iter().map(|(call, wire)| (*call, *wire, times(&trace.calls[*call], &wires.all[*wire])));
        let moments: Vec<(usize, usize, Role, Times)> =
            moments.map(|(call, wire, (role, times))| (call, wire, role, times)).collect();
        let resolutions = (trace.resolution.max(1), capture_resolution(&wires.all));
        let marks = trace.marks.iter().filter(|_| is_of_capture).map(|(at, before, after)| Bound {
            at: *at,
            least: before.saturating_sub(*at).saturating_sub(resolutions.0),
            most: after.saturating_sub(*at),
        });
        let of_moments = moments.iter().filter_map(|(_, _, role, times)| bound(*role, times, resolutions));
        let clock = Clock::tie(of_moments.chain(marks).collect());
        let mut steps = Steps::default();
        for (call, wire, role, times) in &moments {
            let window = began(&trace.calls[*call]).and_then(|at| clock.window(at));
            let wire = &wires.all[*wire];
            let has_reads = wire.call.as_ref().is_some_and(|call| !call.reads.is_empty());
            steps.count(wire.operation, *role, times, has_reads, window);
        }
        let mut results = TraceResults {
            has_capture: true,
            joined: Joined {
                joined: pairs.len() as u64,
                ambiguous: ambiguous.len() as u64,
                ..Joined::default()
            },
            backward_steps: steps.backward_steps,
            steps: steps.into_list(),
            clock,
            disagreements: Vec::new(),
            counts: BTreeMap::new(),
            beyond: wires.beyond,
            operations: wires.names(),
            trace,
        };
        for (call, wire) in &pairs {
            results.compare(*call, &wires.all[*wire]);
        }
        let scope = Scope { span, joined_groups: &joined_groups };
        results.only_in_trace(&pairs, &ambiguous, &scope);
        results.only_in_capture(&pairs, &ambiguous, wires, &scope);
        results.disagreements.sort_by_key(|one| (one.difference.about, one.line, one.frame));
        results
    }
}

impl Observer for Joining {
    fn needs(&self) -> Config {
        Config::default()
    }

    fn handle(&mut self, event: &Event<'_>) {
        if let Event::Transaction(transaction) = event {
            self.wires.add(transaction);
        }
    }
}

/// The span of the capture, and the groups with joined calls.
struct Scope<'a> {
    span: Option<(Time, Time)>,
    joined_groups: &'a Groups,
}

/// The connections of RPC clients or completion queues: role, group, connection.
type Groups = HashSet<(Role, i64, u32), FixedState>;

struct Pairs {
    /// Indexes of calls and of their transactions.
    pairs: Vec<(usize, usize)>,
    ambiguous: HashSet<usize, FixedState>,
    joined_groups: Groups,
}

/// Joins calls and transactions.
fn pair(calls: &[Call], wires: &[Wire]) -> Pairs {
    let mut groups = Groups::default();
    let mut by_xid: Map<(u32, bool), Vec<usize>> = Map::default();
    for (index, wire) in wires.iter().enumerate() {
        by_xid.entry((wire.xid, wire.backward)).or_default().push(index);
    }
    /// Calls, and the transactions that they may be, in their order.
    type Same = (Vec<usize>, Vec<usize>);
    // By XID, direction and role.
    let mut same: BTreeMap<(u32, bool, Role), Same> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        for backward in [false, true] {
            let fits = if call.backward { backward } else { !backward || call.role == Role::Answerer };
            let Some(transactions) = by_xid.get(&(call.xid, backward)).filter(|_| fits) else { continue };
            let entry = same.entry((call.xid, backward, call.role));
            entry.or_insert_with(|| (Vec::new(), transactions.clone())).0.push(index);
        }
    }
    let mut pairs = Vec::new();
    let mut taken: HashSet<usize, FixedState> = HashSet::default();
    let mut left = Vec::new();
    for ((_, backward, role), (known, mut transactions)) in same {
        if known.len() != 1 || transactions.len() != 1 {
            left.push((backward, role, known, transactions));
            continue;
        }
        let (call, wire) = (known[0], transactions.remove(0));
        // A received call cannot also be the answer to a callback. The forward transaction takes
        // precedence.
        if taken.insert(call) {
            if let Some(group) = calls[call].group {
                groups.insert((role, group, wires[wire].connection));
            }
            pairs.push((call, wire));
        }
    }
    let mut ambiguous: HashSet<usize, FixedState> = HashSet::default();
    for (_, role, mut known, mut transactions) in left {
        known.retain(|call| !taken.contains(call) && !ambiguous.contains(call));
        if known.len() != transactions.len() {
            let fits = |wire: &usize| {
                let connection = wires[*wire].connection;
                known.iter().any(|call| {
                    calls[*call].group.is_some_and(|group| groups.contains(&(role, group, connection)))
                })
            };
            transactions.retain(fits);
        }
        if known.len() != transactions.len() {
            ambiguous.extend(known);
            continue;
        }
        known.sort_by_key(|call| calls[*call].line);
        transactions.sort_by_key(|wire| wires[*wire].began());
        for (call, wire) in known.into_iter().zip(transactions) {
            taken.insert(call);
            pairs.push((call, wire));
        }
    }
    pairs.sort_unstable();
    Pairs { pairs, ambiguous, joined_groups: groups }
}

/// The times of a call and of its transaction, and the host's role. A server receives the answer to
/// a callback in the same way as a call.
fn times(call: &Call, wire: &Wire) -> (Role, Times) {
    let mut times = call.times;
    let mut role = call.role;
    if wire.backward && !call.backward {
        role = Role::Caller;
        times = Times::default();
        for (from, to) in [(Point::CallReceived, Point::ReplyReceived), (Point::Decoded, Point::ReplyMatched)]
        {
            if let Some(time) = call.time(from) {
                times.set(to, time);
            }
        }
    }
    let [call, reply] = [&wire.call, &wire.reply].map(|message| message.as_ref().map(|one| one.span));
    let ends = match role {
        Role::Caller => [
            call.map(|(first, _)| (Point::CallSent, first)),
            reply.map(|(_, last)| (Point::ReplyArrived, last)),
        ],
        Role::Answerer => [
            call.map(|(_, last)| (Point::CallArrived, last)),
            reply.map(|(first, _)| (Point::ReplySent, first)),
        ],
    };
    for (point, time) in ends.into_iter().flatten() {
        times.set(point, time.0);
    }
    (role, times)
}

/// The bounds of a transaction on the offset. Times are truncated to the resolution, so a lower
/// bound is reduced by the trace's resolution, and an upper bound is increased by the capture's.
fn bound(role: Role, times: &Times, (trace, capture): (i64, i64)) -> Option<Bound> {
    // The last point of the trace before a packet was sent, and the first one after a packet
    // arrived.
    let (before_sent, sent, arrived, after_arrived): (&[Point], _, _, &[Point]) = match role {
        Role::Caller => (
            &[Point::CallPosted, Point::Marshalled],
            Point::CallSent,
            Point::ReplyArrived,
            &[Point::ReplyReceived, Point::ReplyMatched],
        ),
        Role::Answerer => (
            &[Point::ReplyPosted, Point::Encoded, Point::Processed, Point::ReadsDone, Point::Decoded],
            Point::ReplySent,
            Point::CallArrived,
            &[Point::CallReceived, Point::Decoded],
        ),
    };
    let first_of = |points: &[Point]| points.iter().find_map(|point| times.get(*point));
    let (before, after) = (first_of(before_sent), first_of(after_arrived));
    let most =
        before.zip(times.get(sent)).map(|(trace, wire)| wire.saturating_sub(trace).saturating_add(capture));
    let least = after.zip(times.get(arrived)).map(|(at, wire)| wire.saturating_sub(at).saturating_sub(trace));
    if most.is_none() && least.is_none() {
        return None;
    }
    Some(Bound { at: before.or(after)?, least: least.unwrap_or(i64::MIN), most: most.unwrap_or(i64::MAX) })
}

/// The resolution of the capture's times in nanoseconds: 1000 if all times are whole microseconds.
fn capture_resolution(wires: &[Wire]) -> i64 {
    let messages = wires.iter().flat_map(|wire| [&wire.call, &wire.reply]).flatten();
    let is_coarse = messages
        .take(4096)
        .all(|Shown { span: (first, last), .. }| first.0 % 1000 == 0 && last.0 % 1000 == 0);
    if is_coarse { 1000 } else { 1 }
}

/// The time of a call's first point in the trace.
fn began(call: &Call) -> Option<i64> {
    call.role.points().iter().filter(|point| !point.is_packet()).find_map(|point| call.time(*point))
}

impl TraceResults {
    /// The most differences that are kept.
    pub const MOST_DISAGREEMENTS: usize = 256;

    /// The steps by operation. Within each role, operations are in descending order of total time.
    pub fn by_operation(&self) -> Vec<&[Step]> {
        let mut of_operation: Vec<&[Step]> = self
            .steps
            .chunk_by(|one, other| (one.role, one.operation) == (other.role, other.operation))
            .collect();
        of_operation.sort_by_key(|steps| (steps[0].role, core::cmp::Reverse(Step::total_of(steps))));
        of_operation
    }

    /// Analyzes a trace without a capture.
    pub fn alone(trace: KernelTrace) -> TraceResults {
        let mut steps = Steps::default();
        let unknown = trace.names.len() as u32;
        for call in &trace.calls {
            let has_reads = call.chunks.as_ref().is_some_and(|chunks| !chunks.reads.is_empty());
            steps.count(call.name.map_or(unknown, u32::from), call.role, &call.times, has_reads, None);
        }
        let mut operations = trace.names.clone();
        operations.push("RPC".to_owned());
        TraceResults {
            has_capture: false,
            clock: Clock::default(),
            joined: Joined::default(),
            backward_steps: steps.backward_steps,
            steps: steps.into_list(),
            disagreements: Vec::new(),
            counts: BTreeMap::new(),
            beyond: 0,
            operations,
            trace,
        }
    }

    /// The name of a step's operation.
    pub fn operation(&self, step: &Step) -> &str {
        self.operations.get(step.operation as usize).map_or("RPC", String::as_str)
    }

    /// The share of a step in the time of its operation.
    pub fn share(&self, step: &Step) -> f64 {
        let same =
            self.steps.iter().filter(|other| (other.role, other.operation) == (step.role, step.operation));
        let total = same.fold(0u64, |sum, other| sum.saturating_add(other.total()));
        (step.total() as f64 * 10_000.0 / total.max(1) as f64).round() / 10_000.0
    }

    fn disagree(&mut self, disagreement: Disagreement) {
        *self.counts.entry(disagreement.difference.about).or_default() += 1;
        if self.disagreements.len() < TraceResults::MOST_DISAGREEMENTS {
            self.disagreements.push(disagreement);
        }
    }

    fn compare(&mut self, call: usize, wire: &Wire) {
        let compared = compare(&self.trace.calls[call], wire, self.trace.lost.any());
        self.joined.without_segments += u64::from(compared.lacks_segments);
        for difference in compared.differences {
            let Call { xid, line, role, .. } = self.trace.calls[call];
            let message = if difference.of_reply { &wire.reply } else { &wire.call };
            self.disagree(Disagreement {
                xid,
                connection: Some(wire.connection),
                frame: message.as_ref().map(|one| one.frame),
                line: Some(line),
                role: Some(role),
                difference,
            });
        }
    }

    /// Converts a time of the trace to the capture's clock, with its uncertainty.
    fn on_wire(&self, at: i64) -> Option<(i64, u64)> {
        let window = self.clock.window(at)?;
        Some((at.checked_add(window.offset)?, window.uncertainty.unwrap_or(0)))
    }

    /// Adds the calls that the capture lacks.
    fn only_in_trace(
        &mut self,
        pairs: &[(usize, usize)],
        ambiguous: &HashSet<usize, FixedState>,
        scope: &Scope<'_>,
    ) {
        let groups: HashSet<(Role, i64), FixedState> =
            scope.joined_groups.iter().map(|(role, group, _)| (*role, *group)).collect();
        let mut pairs = pairs.iter().map(|(call, _)| *call).peekable();
        for index in 0..self.trace.calls.len() {
            if pairs.next_if_eq(&index).is_some() || ambiguous.contains(&index) {
                continue;
            }
            let call = &self.trace.calls[index];
            let is_of_capture = match call.group {
                Some(group) => groups.contains(&(call.role, group)),
                None => self.joined.joined > 0,
            };
            let at = began(call).and_then(|at| self.on_wire(at));
            let is_within = at.zip(scope.span).is_some_and(|((at, wrong), (first, last))| {
                at.saturating_sub_unsigned(wrong) >= first.0 && at.saturating_add_unsigned(wrong) <= last.0
            });
            if !is_of_capture || !is_within {
                self.joined.outside += 1;
                continue;
            }
            let disagreement = Disagreement {
                xid: call.xid,
                connection: None,
                frame: None,
                line: Some(call.line),
                role: Some(call.role),
                difference: Difference {
                    about: About::OnlyInTrace,
                    kernel: "a call".into(),
                    wire: "none".into(),
                    of_reply: false,
                },
            };
            self.joined.only_in_trace += 1;
            self.disagree(disagreement);
        }
    }

    /// Adds the transactions that the trace lacks, on connections with joined calls. They are no
    /// disagreements if the trace lost events.
    fn only_in_capture(
        &mut self,
        pairs: &[(usize, usize)],
        ambiguous: &HashSet<usize, FixedState>,
        wires: &Wires,
        scope: &Scope<'_>,
    ) {
        let unclear: HashSet<u32, FixedState> =
            ambiguous.iter().map(|call| self.trace.calls[*call].xid).collect();
        let Some((first, last)) = self.trace.span else { return };
        let (Some((first, after)), Some((last, before))) = (self.on_wire(first), self.on_wire(last)) else {
            return;
        };
        let (first, last) = (first.saturating_add_unsigned(after), last.saturating_sub_unsigned(before));
        let joined: HashSet<usize, FixedState> = pairs.iter().map(|(_, wire)| *wire).collect();
        let connections: HashSet<u32, FixedState> =
            scope.joined_groups.iter().map(|(.., connection)| *connection).collect();
        let backward: HashSet<u32, FixedState> = pairs
            .iter()
            .filter(|(_, wire)| wires.all[*wire].backward)
            .map(|(_, wire)| wires.all[*wire].connection)
            .collect();
        for (index, wire) in wires.all.iter().enumerate() {
            let traced = if wire.backward { &backward } else { &connections };
            let is_within = wire.call.as_ref().is_some_and(|call| (first..=last).contains(&call.span.0.0));
            if joined.contains(&index)
                || unclear.contains(&wire.xid)
                || !is_within
                || !traced.contains(&wire.connection)
            {
                continue;
            }
            self.joined.only_in_capture += 1;
            if self.trace.lost.any() {
                continue;
            }
            self.disagree(Disagreement {
                xid: wire.xid,
                connection: Some(wire.connection),
                frame: wire.call.as_ref().map(|call| call.frame),
                line: None,
                role: None,
                difference: Difference {
                    about: About::OnlyInCapture,
                    kernel: "none".into(),
                    wire: "a call".into(),
                    of_reply: false,
                },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pair;
    use crate::kernel::calls::KernelTrace;
    use crate::kernel::wire::Wire;
    use rdmascope_capture_agent::trace::Trace;

    /// A message that a server decodes is a call, or the answer to a callback. A call that may be
    /// any of several forward transactions is not also joined as an answer.
    #[test]
    fn ambiguous_calls_are_not_joined_as_callback_answers() {
        let line = |cid| {
            format!(
                "nfsd-1 [000] ..... 1.00000{cid}: svcrdma_decode_rqst: cq.id=1 cid={cid} xid=0x00000007 vers=1 credits=1 proc=RDMA_MSG hdrlen=28\n"
            )
        };
        let text = line(1) + &line(2);
        let mut trace = Trace::new("trace".into(), text.as_bytes()).unwrap();
        let calls = KernelTrace::read(&mut trace).unwrap().calls;
        assert_eq!(calls.len(), 2);
        let wire = |backward| Wire {
            connection: 1,
            backward,
            xid: 7,
            operation: 0,
            has_error: false,
            call: None,
            reply: None,
        };
        let joined = pair(&calls, &[false, false, false, true, true].map(wire));
        assert_eq!((joined.pairs, joined.ambiguous.len()), (Vec::new(), 2));
        // Control: no forward transaction has the XID.
        let joined = pair(&calls, &[true, true].map(wire));
        assert_eq!((joined.pairs, joined.ambiguous.len()), (vec![(0, 0), (1, 1)], 0));
    }
}
