//! The state of a session at any record or time, forward and backward.
//!
//! A [`Timeline`] takes the records once and keeps snapshots of the engine and the judge on the
//! way, the checkpoints. To show another moment, it continues from the nearest earlier state with
//! the records in between ([`Records`]). The same records give the same state, so the result does
//! not depend on earlier seeks.
//!
//! Memory is bounded. When the checkpoints exceed their [budget](Config::budget), every second one
//! is dropped, and the spacing doubles. Their sizes are estimated from the tables of engine and
//! judge ([`Engine::footprint`], [`Judge::footprint`]). A timeline also has the latest state, the
//! shown state and the [listed](Config::findings) findings.

mod checkpoints;
mod state;
#[cfg(test)]
mod tests;

use checkpoints::Checkpoints;
use rdmascope_capture_agent::{Archive, Note};
use rdmascope_conformance::{Finding, Judge};
use rdmascope_dissector::connection::{Connection, ConnectionId, KnownConnection};
use rdmascope_dissector::engine::{self, Engine, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::{OpenTransaction, Transaction};
use rdmascope_dissector::transport::Dissected;
use state::{Input, Inputs, State, next};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The configuration of a timeline.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The configuration of the engine. The timeline enables observations in any case.
    pub engine: engine::Config,
    /// Records between two checkpoints while the budget is not used up, at least 1.
    pub spacing: u64,
    /// The most bytes of memory for checkpoints.
    pub budget: usize,
    /// The most findings that are listed. Further ones are counted, and [`Timeline::replay`]
    /// reports them.
    pub findings: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { engine: engine::Config::default(), spacing: 2048, budget: 64 << 20, findings: 16_384 }
    }
}

/// The records of a timeline's capture, for random access.
pub trait Records {
    /// The records from this number on, in order; the first record has number 1. Empty if that
    /// record is unavailable.
    fn walk(&self, number: u64) -> Box<dyn Iterator<Item = Record<'_>> + '_>;
}

impl Records for Archive {
    fn walk(&self, number: u64) -> Box<dyn Iterator<Item = Record<'_>> + '_> {
        Box::new(Archive::walk(self, number))
    }
}

/// A moment to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the record with this number and everything that time alone ended before the next
    /// record. 0 is the moment before the first record.
    Record(u64),
    /// Before the first record that is later than this time.
    Time(Time),
}

/// The reason why a moment cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The timeline has not reached the record.
    #[error("record {wanted} is not available yet: {taken} records were taken")]
    Ahead {
        /// The requested record.
        wanted: u64,
        /// Records taken so far.
        taken: u64,
    },
    /// A record on the way is no longer available.
    #[error("record {0} is no longer available")]
    Gone(u64),
}

/// A finding with its record.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record at which it was found; for findings at the end of the capture, the last record.
    pub record: u64,
    /// The finding.
    pub finding: Finding,
}

/// An item of a replay.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// An event of the engine.
    Event(&'a Event<'a>),
    /// A finding of the judge.
    Finding(&'a Finding),
}

/// A capture with random access to the state of its session.
///
/// ```
/// use rdmascope_capture_agent::Archive;
/// use rdmascope_conformance::Judge;
/// use rdmascope_analysis::timeline::{Config, Moment, Timeline};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../samples/nfs3-basic.pcap");
/// let records = Archive::open(&[path.into()], None)?;
/// let mut timeline = Timeline::new(Config::default(), Judge::default());
/// for record in records.walk(1) {
///     records.notes(record.number).for_each(|note| timeline.take_note(&note));
///     timeline.take(&record);
/// }
/// let now = timeline.seek(&records, Moment::Record(records.records() / 2))?;
/// for open in now.open_transactions() {
///     println!("{} is open since record {}", open.xid, open.since.frame);
/// }
/// # assert!(now.ended() > 0 && now.connections().count() == 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    config: Config,
    checkpoints: Checkpoints,
    /// The state after the last record taken.
    latest: State,
    /// The shown state.
    shown: State,
    findings: Vec<Found>,
    /// Findings at the end of the capture.
    at_the_end: Vec<Found>,
    has_ended: bool,
    /// The latest time of all records up to each multiple of [`STRIDE`].
    times: Vec<Time>,
    inputs: Inputs,
    /// The distinct lists of connections in `inputs`.
    known: Vec<Arc<[KnownConnection]>>,
    /// The most memory of a state, in bytes. Beyond it, connections are evicted.
    memory: usize,
}

/// The most entries of [`Inputs`]. Later ones are not given to the engine, so an end by time waits
/// for the next record.
const MOST_INPUTS: usize = 1 << 18;

/// The most connections in `known`. Rotated files repeat the same list, which is kept once.
const MOST_CONNECTIONS: usize = 1 << 18;

/// Records between two checks of memory.
const LOOK: u64 = 1 << 15;

/// Records between two entries of [`Timeline::times`].
const STRIDE: u64 = 1024;

impl Timeline {
    /// Creates an empty timeline whose findings come from `judge`.
    pub fn new(config: Config, judge: Judge) -> Timeline {
        let engine = engine::Config { report_packets: false, ..config.engine.and(Judge::needs()) };
        let start = State::new(Engine::new(engine), judge);
        Timeline {
            config,
            checkpoints: Checkpoints::new(start.clone(), config.spacing, config.budget),
            latest: start.clone(),
            shown: start,
            findings: Vec::new(),
            at_the_end: Vec::new(),
            has_ended: false,
            times: Vec::new(),
            inputs: Vec::new(),
            known: Vec::new(),
            memory: usize::MAX,
        }
    }

    /// Sets a bound on the memory of the latest state. Beyond it, connections are evicted
    /// ([`Engine::give_up_some`]).
    pub fn bound_memory(&mut self, bytes: usize) {
        self.memory = bytes;
    }

    /// Takes the next record.
    pub fn take(&mut self, record: &Record<'_>) {
        let dissected = Dissected::new(record, &self.config.engine.frame);
        self.take_reporting(record, &dissected, &mut |_| {});
    }

    /// Takes the next record, which was already dissected with the configuration of this timeline's
    /// engine, and reports events and findings to `report`.
    pub fn take_reporting(
        &mut self,
        record: &Record<'_>,
        dissected: &Dissected<'_>,
        report: &mut dyn FnMut(Happening<'_>),
    ) {
        let Timeline { config, latest, findings, .. } = self;
        let number = latest.record + 1;
        latest.handle_dissected(record, dissected, &mut listing(findings, config.findings, number, report));
        if number.is_multiple_of(STRIDE) {
            self.times.extend(self.latest.time);
        }
        if number.is_multiple_of(LOOK) {
            self.look_at_memory(report);
        }
        self.checkpoints.keep_if_due(&self.latest);
    }

    /// Takes the time up to which a live source has delivered all records. Everything that [ends by
    /// time](Engine::handle_time) ends now; every replay repeats this after the same record.
    /// [`Engine::next_deadline`] of the latest state is the next time at which something ends.
    /// Reports events and findings to `report`.
    pub fn handle_time(&mut self, now: Time, report: &mut dyn FnMut(Happening<'_>)) {
        let is_due = self.latest.engine.next_deadline().is_some_and(|deadline| deadline <= now);
        if is_due && self.inputs.len() < MOST_INPUTS {
            self.apply(Input::Time(now), report);
        }
    }

    /// Evicts connections while the latest state exceeds its memory bound.
    fn look_at_memory(&mut self, report: &mut dyn FnMut(Happening<'_>)) {
        while self.latest.footprint() > self.memory && self.inputs.len() < MOST_INPUTS {
            let before = self.latest.engine.totals().evictions;
            self.apply(Input::Evict, report);
            if self.latest.engine.totals().evictions == before {
                return;
            }
        }
    }

    /// Gives the engine an input other than a record, now and in every replay.
    fn apply(&mut self, input: Input, report: &mut dyn FnMut(Happening<'_>)) {
        let Timeline { config, latest, findings, inputs, .. } = self;
        let record = latest.record;
        latest.apply(&input, &mut listing(findings, config.findings, record, report));
        inputs.push((record, input));
    }

    /// Takes a note before the record that follows it in the capture. Its connections are known
    /// from then on, also in every replay.
    pub fn take_note(&mut self, note: &Note) {
        let connections = note.connections();
        if connections.is_empty() || self.inputs.len() == MOST_INPUTS {
            return;
        }
        let same = self.known.iter().find(|list| list[..] == connections[..]).cloned();
        let list = match same {
            Some(list) => list,
            None => {
                let kept: usize = self.known.iter().map(|list| list.len()).sum();
                if kept + connections.len() > MOST_CONNECTIONS {
                    return;
                }
                let list = Arc::<[KnownConnection]>::from(connections);
                self.known.push(Arc::clone(&list));
                list
            }
        };
        let input = Input::Connections(list);
        self.latest.apply(&input, &mut |_| {});
        self.inputs.push((self.latest.record, input));
    }

    /// Ends the capture, and lists the findings of its end. The shown states keep open transactions
    /// and connections open.
    pub fn finish(&mut self) {
        self.finish_reporting(&mut |_| {});
    }

    /// Ends the capture, and reports events and findings to `report`. Returns the engine's counters
    /// at the end.
    pub fn finish_reporting(&mut self, report: &mut dyn FnMut(Happening<'_>)) -> Totals {
        let Timeline { config, latest, at_the_end, findings, .. } = self;
        let (room, record) = (config.findings.saturating_sub(findings.len()), latest.record);
        at_the_end.clear();
        let mut last = latest.clone();
        last.finish(&mut listing(at_the_end, room, record, report));
        self.has_ended = true;
        *last.engine.totals()
    }

    /// Records taken so far.
    pub fn taken(&self) -> u64 {
        self.latest.record
    }

    /// The state after the last record.
    pub fn latest(&self) -> Now<'_> {
        self.now(&self.latest)
    }

    /// The shown state: the start, until a [seek](Timeline::seek).
    pub fn shown(&self) -> Now<'_> {
        self.now(&self.shown)
    }

    /// Findings that the judge made only because the capture ended.
    pub fn findings_at_the_end(&self) -> &[Found] {
        &self.at_the_end
    }

    /// Shows another moment. After an error, the shown moment is somewhere on the way.
    pub fn seek(&mut self, records: &dyn Records, moment: Moment) -> Result<Now<'_>, Error> {
        let target = self.number(records, moment)?;
        self.check(target)?;
        let Timeline { checkpoints, latest, shown, inputs, .. } = self;
        let nearest = [&*latest, checkpoints.before(target)]
            .into_iter()
            .filter(|state| state.record <= target)
            .max_by_key(|state| state.record)
            .expect("the start is before everything");
        if shown.record > target || shown.record < nearest.record {
            shown.clone_from(nearest);
        }
        shown.advance(records, inputs, |state| !state.has_reached(target, inputs), &mut |_| {})?;
        Ok(self.now(&self.shown))
    }

    /// Reports the events and findings of these records, with packets if `packets` is set. The
    /// shown moment does not change.
    pub fn replay(
        &self,
        records: &dyn Records,
        range: RangeInclusive<u64>,
        packets: bool,
        report: &mut dyn FnMut(Happening<'_>),
    ) -> Result<(), Error> {
        self.replay_with(records, range, |engine| engine.report_packets(packets), false, report)
    }

    /// Reports the events and findings of these records, with the steps and contents of
    /// transactions that begin there and the role of each packet. If the last record is included,
    /// the end of the capture is too.
    pub fn replay_closely(
        &self,
        records: &dyn Records,
        range: RangeInclusive<u64>,
        report: &mut dyn FnMut(Happening<'_>),
    ) -> Result<(), Error> {
        let finish = self.has_ended && *range.end() == self.taken();
        let closely = |engine: &mut Engine| engine.look_closely(Keep { steps: true, contents: true }, true);
        self.replay_with(records, range, closely, finish, report)
    }

    /// Reports the packets of these records, and the role of each in a transaction that begins
    /// there.
    pub fn replay_attributed(
        &self,
        records: &dyn Records,
        range: RangeInclusive<u64>,
        report: &mut dyn FnMut(Happening<'_>),
    ) -> Result<(), Error> {
        let closely = |engine: &mut Engine| engine.look_closely(Keep::default(), true);
        self.replay_with(records, range, closely, false, report)
    }

    fn replay_with(
        &self,
        records: &dyn Records,
        range: RangeInclusive<u64>,
        set: impl FnOnce(&mut Engine),
        finish: bool,
        report: &mut dyn FnMut(Happening<'_>),
    ) -> Result<(), Error> {
        let (first, last) = (*range.start(), *range.end());
        self.check(last)?;
        let (before, inputs) = (first.max(1) - 1, &self.inputs);
        let mut state = self.state_before(before, |state| state.record);
        state.advance(records, inputs, |state| !state.has_reached(before, inputs), &mut |_| {})?;
        set(&mut state.engine);
        state.advance(records, inputs, |state| !state.has_reached(last, inputs), report)?;
        if finish {
            state.finish(report);
        }
        Ok(())
    }

    /// An ended transaction by its number; `None` if no transaction with this number has ended.
    pub fn transaction(&self, records: &dyn Records, number: u64) -> Result<Option<Transaction>, Error> {
        let Some(before) = number.checked_sub(1) else { return Ok(None) };
        let mut found = None;
        let mut state = self.state_before(before, State::ended);
        let mut look = |happening: Happening<'_>| {
            if let Happening::Event(Event::Transaction(transaction)) = happening
                && transaction.number == number
            {
                found = Some((*transaction).clone());
            }
        };
        if number <= self.latest.ended() {
            state.advance(records, &self.inputs, |state| state.ended() < number, &mut look)?;
        } else if self.has_ended {
            self.latest.clone().finish(&mut look);
        }
        Ok(found)
    }

    /// The number of the last record of a moment.
    pub fn number(&self, records: &dyn Records, moment: Moment) -> Result<u64, Error> {
        let time = match moment {
            Moment::Record(number) => return Ok(number),
            Moment::Time(time) => time,
        };
        let mut number = self.times.partition_point(|latest| *latest <= time) as u64 * STRIDE;
        let mut walk = records.walk(number + 1);
        while number < self.taken() {
            let next = next(&mut walk, number + 1)?;
            if next.time > time {
                break;
            }
            number += 1;
        }
        Ok(number)
    }

    /// Bytes of memory of the checkpoints, as [`Config::budget`] counts them.
    pub fn checkpoint_bytes(&self) -> usize {
        self.checkpoints.bytes()
    }

    /// The number of checkpoints.
    pub fn checkpoints(&self) -> usize {
        self.checkpoints.len()
    }

    /// Records between two checkpoints at present.
    pub fn spacing(&self) -> u64 {
        self.checkpoints.spacing()
    }

    fn check(&self, wanted: u64) -> Result<(), Error> {
        let taken = self.taken();
        if wanted > taken { Err(Error::Ahead { wanted, taken }) } else { Ok(()) }
    }

    /// A copy of the latest state whose `measure` is at most `most`. The measure must not decrease
    /// from record to record.
    fn state_before(&self, most: u64, measure: impl Fn(&State) -> u64) -> State {
        let fitting = [&self.latest, &self.shown, self.checkpoints.last_with(|state| measure(state) <= most)]
            .into_iter()
            .filter(|state| measure(state) <= most);
        fitting.max_by_key(|state| state.record).expect("the start is before everything").clone()
    }

    fn now<'a>(&'a self, state: &'a State) -> Now<'a> {
        let listed = self.findings.partition_point(|found| found.record <= state.record);
        Now { state, findings: &self.findings[..listed] }
    }
}

/// A report that also adds the findings at a record to `list`, which has room for `most`.
fn listing<'a>(
    list: &'a mut Vec<Found>,
    most: usize,
    record: u64,
    report: &'a mut dyn FnMut(Happening<'_>),
) -> impl FnMut(Happening<'_>) + 'a {
    move |happening| {
        report(happening);
        if let Happening::Finding(finding) = happening
            && list.len() < most
        {
            list.push(Found { record, finding: finding.clone() });
        }
    }
}

/// The state of the session at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    state: &'a State,
    findings: &'a [Found],
}

impl<'a> Now<'a> {
    /// The number of the last record taken; 0 at the start.
    pub fn record(&self) -> u64 {
        self.state.record
    }

    /// The latest time of all records so far.
    pub fn time(&self) -> Option<Time> {
        self.state.time
    }

    /// The engine's counters so far.
    pub fn totals(&self) -> &'a Totals {
        self.state.engine.totals()
    }

    /// The connections that have not ended, in the order of their numbers.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + use<'a> {
        self.state.engine.connections()
    }

    /// A connection that has not ended.
    pub fn connection(&self, id: ConnectionId) -> Option<Connection> {
        self.state.engine.connection(id)
    }

    /// The transactions that have begun and not ended, in the order in which they began.
    pub fn open_transactions(&self) -> impl Iterator<Item = OpenTransaction<'a>> + use<'a> {
        self.state.engine.open_transactions()
    }

    /// The number of ended transactions, which is the number of the last one for
    /// [`Timeline::transaction`].
    pub fn ended(&self) -> u64 {
        self.state.ended()
    }

    /// The [listed](Config::findings) findings so far, earliest first.
    pub fn findings(&self) -> &'a [Found] {
        self.findings
    }

    /// The number of findings so far.
    pub fn found(&self) -> u64 {
        self.state.findings
    }

    /// The engine.
    pub fn engine(&self) -> &'a Engine {
        &self.state.engine
    }

    /// The judge.
    pub fn judge(&self) -> &'a Judge {
        &self.state.judge
    }
}
