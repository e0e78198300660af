//! The state of engine and judge after a record, and its inputs.

use super::{Error, Happening, Records};
use rdmascope_conformance::Judge;
use rdmascope_dissector::connection::KnownConnection;
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::sync::Arc;

/// The session after a record.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) judge: Judge,
    /// Records so far.
    pub(super) record: u64,
    /// The latest time of these records.
    pub(super) time: Option<Time>,
    /// Findings so far.
    pub(super) findings: u64,
    /// Entries of [`Inputs`] processed so far.
    inputs: usize,
}

impl State {
    /// The state before the first record.
    pub(super) fn new(engine: Engine, judge: Judge) -> State {
        State { engine, judge, record: 0, time: None, findings: 0, inputs: 0 }
    }

    pub(super) fn handle_dissected(
        &mut self,
        record: &Record<'_>,
        dissected: &Dissected<'_>,
        report: &mut dyn FnMut(Happening<'_>),
    ) {
        let State { engine, judge, findings, .. } = self;
        engine.handle_dissected(record, dissected, &mut |event| judge_event(judge, findings, &event, report));
        self.record += 1;
        self.time = self.time.max(Some(record.time));
    }

    pub(super) fn finish(&mut self, report: &mut dyn FnMut(Happening<'_>)) {
        let State { engine, judge, findings, .. } = self;
        engine.finish(&mut |event| judge_event(judge, findings, &event, report));
    }

    /// Gives an input other than a record to the engine.
    pub(super) fn apply(&mut self, input: &Input, report: &mut dyn FnMut(Happening<'_>)) {
        let State { engine, judge, findings, .. } = self;
        match input {
            Input::Time(now) => {
                engine.handle_time(*now, &mut |event| judge_event(judge, findings, &event, report))
            }
            Input::Evict => {
                engine.give_up_some(&mut |event| judge_event(judge, findings, &event, report));
            }
            Input::Connections(connections) => connections.iter().for_each(|one| engine.know(*one)),
        }
        self.inputs += 1;
    }

    /// The next input, if it comes before the next record.
    fn next_input<'a>(&self, inputs: &'a Inputs) -> Option<&'a Input> {
        inputs.get(self.inputs).filter(|(record, _)| *record == self.record).map(|(_, input)| input)
    }

    /// Whether this is the last state before the record after `record`, or a later state.
    pub(super) fn has_reached(&self, record: u64, inputs: &Inputs) -> bool {
        self.record > record || self.record == record && self.next_input(inputs).is_none()
    }

    /// Continues while `lacks` is true.
    pub(super) fn advance(
        &mut self,
        records: &dyn Records,
        inputs: &Inputs,
        lacks: impl Fn(&State) -> bool,
        report: &mut dyn FnMut(Happening<'_>),
    ) -> Result<(), Error> {
        if !lacks(self) {
            return Ok(());
        }
        let mut walk = records.walk(self.record + 1);
        while lacks(self) {
            if let Some(input) = self.next_input(inputs) {
                self.apply(input, report);
                continue;
            }
            let record = next(&mut walk, self.record + 1)?;
            let dissected = Dissected::new(&record, &self.engine.config().frame);
            self.handle_dissected(&record, &dissected, report);
        }
        Ok(())
    }

    pub(super) fn ended(&self) -> u64 {
        self.engine.totals().transactions.iter().sum()
    }

    pub(super) fn footprint(&self) -> usize {
        self.engine.footprint() + self.judge.footprint() + size_of::<State>()
            - size_of::<Engine>()
            - size_of::<Judge>()
    }
}

/// The next record, which must have this number.
pub(super) fn next<'a>(
    walk: &mut impl Iterator<Item = Record<'a>>,
    number: u64,
) -> Result<Record<'a>, Error> {
    walk.next().filter(|record| record.number == number).ok_or(Error::Gone(number))
}

fn judge_event(
    judge: &mut Judge,
    findings: &mut u64,
    event: &Event<'_>,
    report: &mut dyn FnMut(Happening<'_>),
) {
    report(Happening::Event(event));
    judge.handle(event, &mut |finding| {
        *findings += 1;
        report(Happening::Finding(finding));
    });
}

/// Inputs of the engine other than records, in order, each after the record with this number. A
/// replay repeats them.
pub(super) type Inputs = Vec<(u64, Input)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A time that ended something without a record.
    Time(Time),
    /// A request to evict some connections.
    Evict,
    /// Connections that a kernel reported.
    Connections(Arc<[KnownConnection]>),
}
