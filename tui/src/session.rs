//! What is known of the capture by now: rows, findings, events. The analysis hands it over in batches.

use crate::chart::Series;
use crate::rows::{Row, Rows, Subjects};
use foldhash::fast::FixedState;
use rdmascope_analysis::events::SessionEvent;
use rdmascope_analysis::paths::{Learned, Unnamed};
use rdmascope_analysis::policy::Allowance;
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::Direction;
use rdmascope_wire::Xid;
use std::collections::HashMap;

/// A finding, when it was found, and why it is allowed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record that brought it to light; at the end of the capture, the last one.
    pub record: u64,
    /// The finding.
    pub finding: Finding,
    /// Why it is allowed, if it is.
    pub allowance: Option<Allowance>,
}

/// All that is known of the capture by now.
#[derive(Debug, Default)]
pub struct Session {
    /// What it is called.
    pub title: String,
    /// When it starts.
    pub start: Time,
    /// Transactions that have ended, in that order.
    pub rows: Rows,
    /// Transactions beyond [`Session::MOST_ROWS`].
    pub further_rows: u64,
    /// Findings, in the order in which they were found.
    pub findings: Vec<Found>,
    /// How many of them are allowed.
    pub allowed: u64,
    /// Findings beyond those.
    pub further_findings: u64,
    /// Events, in the order of time.
    pub events: Vec<SessionEvent>,
    /// What was counted.
    pub totals: Totals,
    /// Packets that were dropped before they could be captured.
    pub dropped: u64,
    /// Request packets that were sent again, on all connections.
    pub resent: Option<Series>,
    /// The report of `analyze` as text, as far as it goes.
    pub report: Vec<u8>,
    /// How far the analysis has come.
    pub progress: Progress,
    /// Findings of transactions that have not ended yet, by what they say of them.
    open: HashMap<(ConnectionId, Xid), Vec<usize>, FixedState>,
    /// Rows with paths that begin below something that has no name yet: each row twice at most.
    unnamed: HashMap<Unnamed, Vec<u32>, FixedState>,
}

/// How far the analysis has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes of so many were read; nobody knows how many there are, where the second is 0.
    Reading(u64, u64),
    /// It goes on for as long as somebody wants.
    Live,
    /// All was read.
    Ended,
    /// It cannot be read, or not on.
    Failed(String),
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::Reading(0, 0)
    }
}

/// What has become known since the last one.
#[derive(Debug, Default)]
pub struct Batch {
    /// When the capture starts, where it has begun.
    pub start: Option<Time>,
    /// Transactions that ended.
    pub rows: Vec<Row>,
    /// Transactions that ended and have no row.
    pub further_rows: u64,
    /// What became known of that which paths of rows begin below, these and earlier ones.
    pub learned: Vec<Learned>,
    /// What was found.
    pub findings: Vec<Found>,
    /// What was found and is not listed.
    pub further_findings: u64,
    /// All events by now, where they were asked for again.
    pub events: Option<Vec<SessionEvent>>,
    /// What was counted by now.
    pub totals: Totals,
    /// Packets dropped by now.
    pub dropped: u64,
    /// Request packets that were sent again by now, where they were counted again.
    pub resent: Option<Series>,
    /// The report by now, where it was written again.
    pub report: Option<Vec<u8>>,
    /// How far the analysis has come.
    pub progress: Progress,
    /// The state after its last record.
    pub now: Option<Box<Snapshot>>,
}

/// The session at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The last record that it rests on; 0 is before the first.
    pub record: u64,
    /// The latest time of all records so far.
    pub time: Option<Time>,
    /// Connections that have not ended.
    pub connections: Vec<ConnectionNow>,
    /// Transactions under way.
    pub open: Vec<OpenCall>,
    /// Transactions that have ended: the number of the last one.
    pub ended: u64,
    /// Findings so far.
    pub found: u64,
}

/// A connection at a moment.
#[derive(Clone, Debug)]
pub struct ConnectionNow {
    /// The connection.
    pub connection: Connection,
    /// Calls in flight and the credits granted, as far as they are known.
    pub credits: Option<(u64, Option<u32>)>,
}

/// A transaction under way.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// Its connection.
    pub connection: ConnectionId,
    /// Which end called.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// With which packet it began.
    pub since: Seen,
}

impl Session {
    /// Transactions that are listed.
    pub const MOST_ROWS: usize = 1 << 20;

    /// One of which nothing is known but what it is called.
    pub fn new(title: String) -> Session {
        Session { title, ..Session::default() }
    }

    /// Takes in what has become known. Returns which rows got other paths, in no order.
    pub fn take(&mut self, batch: Batch) -> Vec<u32> {
        if let Some(start) = batch.start {
            self.start = start;
        }
        for mut row in batch.rows {
            if let Some(findings) = self.open.remove(&(row.connection, row.xid)) {
                for index in findings {
                    let found = &self.findings[index];
                    if row.is_found(&found.finding) {
                        row.take(found.finding.verdict);
                    }
                }
            }
            self.wait(row.unnamed(), self.rows.len() as u32);
            self.rows.push(row);
        }
        let (mut renamed, mut subjects) = (Vec::new(), Subjects::default());
        for learned in batch.learned {
            for index in self.unnamed.remove(&learned.of).unwrap_or_default() {
                if let Some(row) = self.rows.get_mut(index as usize) {
                    let others = row.unnamed().map(|unnamed| unnamed.filter(|it| *it != learned.of));
                    row.learn(&learned, &mut subjects);
                    // What it waits for besides has it already.
                    let now = row.unnamed().map(|unnamed| unnamed.filter(|it| !others.contains(&Some(*it))));
                    self.wait(now, index);
                    renamed.push(index);
                }
            }
        }
        for found in batch.findings {
            match &found.allowance {
                None => self.mark(&found.finding),
                Some(_) => self.allowed += 1,
            }
            self.findings.push(found);
        }
        self.further_rows += batch.further_rows;
        self.further_findings += batch.further_findings;
        self.totals = batch.totals;
        self.dropped = batch.dropped;
        self.progress = batch.progress;
        self.events = batch.events.unwrap_or_else(|| core::mem::take(&mut self.events));
        self.resent = batch.resent.or_else(|| self.resent.take());
        self.report = batch.report.unwrap_or_else(|| core::mem::take(&mut self.report));
        renamed
    }

    /// The row at this place waits for names.
    fn wait(&mut self, [one, other]: [Option<Unnamed>; 2], index: u32) {
        for unnamed in one.into_iter().chain(other.filter(|other| Some(*other) != one)) {
            self.unnamed.entry(unnamed).or_default().push(index);
        }
    }

    /// Marks the row that a finding is about. Where there is none yet, it waits for it.
    fn mark(&mut self, finding: &Finding) {
        /// Rows that are looked at for one that a finding names by its XID.
        const LATELY: usize = 4096;
        if let Some(number) = finding.transaction {
            if let Some(row) = self.place(number).and_then(|index| self.rows.get_mut(index)) {
                row.take(finding.verdict);
            }
            return;
        }
        let lately = self.rows.iter().rev().take(LATELY);
        let behind = lately.map(|row| row.is_found(finding)).position(|is_found| is_found);
        let place = behind.map(|behind| self.rows.len() - 1 - behind);
        let row = place.and_then(|place| self.rows.get_mut(place));
        match (row, finding.connection, finding.xid) {
            (Some(row), ..) => row.take(finding.verdict),
            (None, Some(connection), Some(xid)) => {
                self.open.entry((connection, xid)).or_default().push(self.findings.len());
            }
            _ => {}
        }
    }

    /// Where the row of the transaction of this number stands.
    pub fn place(&self, number: u64) -> Option<usize> {
        self.rows.place(number)
    }

    /// The last record that was taken in.
    pub fn records(&self) -> u64 {
        self.totals.records
    }

    /// When it starts and its latest time.
    pub fn span(&self) -> (Time, Time) {
        self.totals.span.unwrap_or((self.start, self.start))
    }
}
