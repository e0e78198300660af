//! The engine's events for a scripted world, and checks of them.

use rdmascope_dissector::connection::{Connection, KnownConnection};
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transaction::{Missing, Part, Transaction};
use rdmascope_testkit::world::{Frame, World};
use rdmascope_wire::Xid;

/// The events of the engine for a capture.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) evictions: Vec<Eviction>,
    pub(crate) totals: Totals,
}

/// Runs the capture of a world through the engine.
pub(crate) trait Run {
    fn frames(&self) -> &[Frame];

    /// Runs the whole capture.
    fn run(&self) -> Report {
        run(self.frames())
    }

    /// Runs the capture with all steps and contents kept.
    fn run_with_details(&self) -> Report {
        run_with(self.frames(), usize::MAX, EVERYTHING)
    }

    /// Runs the capture without these frames.
    fn run_without(&self, frames: impl IntoIterator<Item = usize>) -> Report {
        let lost: Vec<usize> = frames.into_iter().collect();
        let kept = self.frames().iter().enumerate().filter(|(index, _)| !lost.contains(index));
        run(&kept.map(|(_, frame)| frame.clone()).collect::<Vec<_>>())
    }

    /// Runs the capture with the packets of one end only.
    fn run_only(&self, from: usize) -> Report {
        run(&self.frames().iter().filter(|frame| frame.from == from).cloned().collect::<Vec<_>>())
    }
}

impl Run for World {
    fn frames(&self) -> &[Frame] {
        &self.frames
    }
}

/// The record of a frame in a capture.
pub(crate) fn record(frame: &Frame, number: u64) -> Record<'_> {
    Record {
        number,
        time: Time(frame.time),
        link: LinkType::ETHERNET,
        original_length: frame.data.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data: &frame.data,
    }
}

pub(crate) fn run(frames: &[Frame]) -> Report {
    run_cut(frames, usize::MAX)
}

/// Runs a capture with a snap length. Checks that keeping details does not change other results.
pub(crate) fn run_cut(frames: &[Frame], snap: usize) -> Report {
    let report = run_with(frames, snap, Keep::default());
    let mut kept = run_with(frames, snap, EVERYTHING);
    for transaction in &mut kept.transactions {
        assert!(transaction.exchange.take().is_some());
    }
    assert_eq!(format!("{:?}", report.transactions), format!("{:?}", kept.transactions));
    assert_eq!(format!("{:?}", report.connections), format!("{:?}", kept.connections));
    report
}

const EVERYTHING: Keep = Keep { steps: true, contents: true };

/// Runs a capture with a snap length, keeping the requested details.
pub(crate) fn run_with(frames: &[Frame], snap: usize, keep: Keep) -> Report {
    run_engine(Engine::new(Config { keep, ..Config::default() }), frames, &|_| snap)
}

/// Runs a capture for which a host's kernel reported these connections.
pub(crate) fn run_knowing(frames: &[Frame], known: &[KnownConnection]) -> Report {
    let mut engine = Engine::new(Config::default());
    known.iter().for_each(|known| engine.know(*known));
    run_engine(engine, frames, &|_| usize::MAX)
}

/// Runs a capture in which one frame is cut to this length.
pub(crate) fn run_cutting(frames: &[Frame], cut: usize, length: usize) -> Report {
    let snap = |index| if index == cut { length } else { usize::MAX };
    run_engine(Engine::new(Config::default()), frames, &snap)
}

fn run_engine(mut engine: Engine, frames: &[Frame], snap: &dyn Fn(usize) -> usize) -> Report {
    let (mut transactions, mut connections, mut evictions) = (Vec::new(), Vec::new(), Vec::new());
    let mut report = |event: Event<'_>| match event {
        Event::Transaction(transaction) => transactions.push(transaction.clone()),
        Event::Connection(connection) => connections.push(connection.clone()),
        Event::Eviction(eviction) => evictions.push(eviction),
        event => panic!("unexpected event {event:?}"),
    };
    for (index, frame) in frames.iter().enumerate() {
        let data = &frame.data[..frame.data.len().min(snap(index))];
        let record = Record { data, ..record(frame, index as u64 + 1) };
        engine.handle(&record, &mut report);
    }
    engine.finish(&mut report);
    let totals = *engine.totals();
    Report { transactions, connections, evictions, totals }
}

impl Report {
    /// The only transaction.
    #[track_caller]
    pub(crate) fn one(&self) -> &Transaction {
        assert_eq!(self.transactions.len(), 1, "{:#?}", self.transactions);
        &self.transactions[0]
    }

    /// The only transaction with this XID.
    #[track_caller]
    pub(crate) fn xid(&self, xid: u32) -> &Transaction {
        let mut found = self.transactions.iter().filter(|transaction| transaction.xid == Xid(xid));
        let first = found.next().expect("a transaction has this XID");
        assert!(found.next().is_none(), "only one transaction has this XID");
        first
    }
}

/// The names of the operations.
pub(crate) fn names(transaction: &Transaction) -> Vec<&'static str> {
    transaction.details.operations.iter().map(|operation| operation.name()).collect()
}

/// Checks that neither message of a transaction has missing bytes.
#[track_caller]
pub(crate) fn assert_complete(transaction: &Transaction) {
    for message in transaction.messages() {
        assert_eq!(message.missing, []);
        assert_eq!(message.stop, None);
    }
    assert_eq!(transaction.stop, None);
    assert!(!transaction.capture_gap);
}

pub(crate) fn missing(part: Part, start: u64, end: u64) -> Missing {
    Missing { part, start, end: Some(end) }
}
