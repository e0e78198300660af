//! The results of the analysis so far: rows, findings, events. They arrive in batches.

use crate::chart::Series;
use crate::known::Known;
use crate::overview::Overview;
use crate::rows::{Row, Rows, Subjects};
use foldhash::fast::FixedState;
use rdmascope_analysis::events::SessionEvent;
use rdmascope_analysis::paths::{Learned, Unnamed};
use rdmascope_analysis::policy::Allowance;
use rdmascope_analysis::state::Lifetime;
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::record::{Seen, Time};
use rdmascope_dissector::transaction::Direction;
use rdmascope_wire::Xid;
use std::collections::HashMap;

/// A finding, with the record at which it was found and the reason that allows it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record at which it was found; at the end of the capture, the last one.
    pub record: u64,
    /// The time of that record.
    pub time: Option<Time>,
    /// The finding.
    pub finding: Finding,
    /// The reason that allows it, if it is allowed.
    pub allowance: Option<Allowance>,
}

/// The results of the analysis so far.
#[derive(Debug, Default)]
pub struct Session {
    /// The name that is shown.
    pub title: String,
    /// The start time.
    pub start: Time,
    /// Transactions that have ended, in that order.
    pub rows: Rows,
    /// Transactions beyond [`Session::MOST_ROWS`].
    pub further_rows: u64,
    /// Findings, in the order in which they were found.
    pub findings: Vec<Found>,
    /// The number of allowed findings among them.
    pub allowed: u64,
    /// Findings beyond those that are listed.
    pub further_findings: u64,
    /// Events, in chronological order.
    pub events: Vec<SessionEvent>,
    /// The totals.
    pub totals: Totals,
    /// Packets that were dropped before they could be captured.
    pub dropped: u64,
    /// Retransmitted request packets, on all connections.
    pub resent: Option<Series>,
    /// The state of the session at a glance.
    pub overview: Box<Overview>,
    /// The report of `analyze` can be written.
    pub has_report: bool,
    /// The report as text, and the width that it was written for; 0 if it was not written.
    pub report: (u16, Vec<u8>),
    /// The progress of the analysis.
    pub progress: Progress,
    /// The names in the transactions.
    pub known: Known,
    /// Findings about transactions that have not ended yet, by connection and XID.
    open: HashMap<(ConnectionId, Xid), Vec<usize>, FixedState>,
    /// Rows with paths that start from an unnamed directory: each row at most twice.
    unnamed: HashMap<Unnamed, Vec<u32>, FixedState>,
}

/// The progress of the analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The number of bytes read, and their total; the total is 0 if unknown.
    Reading(u64, u64),
    /// A live capture, which continues until the user ends it.
    Live,
    /// Everything was read.
    Ended,
    /// No capture is open.
    Nothing,
    /// The capture cannot be read, or not to its end.
    Failed(String),
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::Reading(0, 0)
    }
}

/// The results since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// The start time of the capture, once it has begun.
    pub start: Option<Time>,
    /// Transactions that ended.
    pub rows: Vec<Row>,
    /// Transactions that ended and have no row.
    pub further_rows: u64,
    /// Names that became known for directories from which paths of rows start, including earlier
    /// rows.
    pub learned: Vec<Learned>,
    /// New findings.
    pub findings: Vec<Found>,
    /// New findings that are not listed.
    pub further_findings: u64,
    /// All events so far, if they were listed again.
    pub events: Option<Vec<SessionEvent>>,
    /// The totals so far.
    pub totals: Totals,
    /// Packets dropped so far.
    pub dropped: u64,
    /// Retransmitted request packets so far, if they were counted again.
    pub resent: Option<Series>,
    /// The overview so far, if it was made again.
    pub overview: Option<Box<Overview>>,
    /// The report of `analyze` can be written.
    pub has_report: bool,
    /// The progress of the analysis.
    pub progress: Progress,
    /// The state after its last record.
    pub now: Option<Box<Snapshot>>,
}

/// The session at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The last record taken into account; 0 is before the first.
    pub record: u64,
    /// The latest time of all records so far.
    pub time: Option<Time>,
    /// Connections that have not ended.
    pub connections: Vec<ConnectionNow>,
    /// Open transactions.
    pub open: Vec<OpenCall>,
    /// The number of the last transaction that has ended.
    pub ended: u64,
    /// Findings so far.
    pub found: u64,
    /// NFSv4 state.
    pub state: Vec<Lifetime>,
    /// NFSv4 state that is not listed.
    pub further_state: u64,
}

/// A connection at a moment.
#[derive(Clone, Debug)]
pub struct ConnectionNow {
    /// The connection.
    pub connection: Connection,
    /// Calls in flight and the credits granted, as far as they are known.
    pub credits: Option<(u64, Option<u32>)>,
}

/// An open transaction.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// Its connection.
    pub connection: ConnectionId,
    /// The end that called.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// The packet with which it began.
    pub since: Seen,
}

impl Session {
    /// The most transactions that are listed.
    pub const MOST_ROWS: usize = 1 << 20;

    /// Creates a session that has only a name.
    pub fn new(title: String) -> Session {
        Session { title, ..Session::default() }
    }

    /// Adds new results. Returns the rows whose paths changed, in no particular order.
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
            self.known.take(&row);
            self.rows.push(row);
        }
        let (mut renamed, mut subjects) = (Vec::new(), Subjects::default());
        for learned in batch.learned {
            for index in self.unnamed.remove(&learned.of).unwrap_or_default() {
                if let Some(row) = self.rows.get_mut(index as usize) {
                    let others = row.unnamed().map(|unnamed| unnamed.filter(|it| *it != learned.of));
                    row.learn(&learned, &mut subjects);
                    // It is already registered for the other directories that it waits for.
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
        self.overview = batch.overview.unwrap_or_else(|| core::mem::take(&mut self.overview));
        self.has_report |= batch.has_report;
        renamed
    }

    /// Registers the row at this index for the names that its paths lack.
    fn wait(&mut self, [one, other]: [Option<Unnamed>; 2], index: u32) {
        for unnamed in one.into_iter().chain(other.filter(|other| Some(*other) != one)) {
            self.unnamed.entry(unnamed).or_default().push(index);
        }
    }

    /// Marks the row that a finding is about. If there is none yet, the finding waits for it.
    fn mark(&mut self, finding: &Finding) {
        /// Rows that are searched for one that a finding names by its XID.
        const LATELY: usize = 4096;
        if let Some(number) = finding.transaction {
            if let Some(row) = self.place(number).and_then(|index| self.rows.get_mut(index)) {
                row.take(finding.verdict);
            }
            return;
        }
        let lately = self.rows.iter().rev().take(LATELY);
        let from_end = lately.map(|row| row.is_found(finding)).position(|is_found| is_found);
        let place = from_end.map(|from_end| self.rows.len() - 1 - from_end);
        let row = place.and_then(|place| self.rows.get_mut(place));
        match (row, finding.connection, finding.xid) {
            (Some(row), ..) => row.take(finding.verdict),
            (None, Some(connection), Some(xid)) => {
                self.open.entry((connection, xid)).or_default().push(self.findings.len());
            }
            _ => {}
        }
    }

    /// The index of the row with this transaction number.
    pub fn place(&self, number: u64) -> Option<usize> {
        self.rows.place(number)
    }

    /// The number of records taken so far.
    pub fn records(&self) -> u64 {
        self.totals.records
    }

    /// The start time and the latest time.
    pub fn span(&self) -> (Time, Time) {
        self.totals.span.unwrap_or((self.start, self.start))
    }
}
