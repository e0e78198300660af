//! One file that wires the stages.

use crate::event::Event;
use crate::frame;
use crate::record::{Record, Time};

/// How the engine works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// How frames are told apart.
    pub frame: frame::Config,
    /// Whether every record is reported as [`Event::Packet`].
    pub report_packets: bool,
}

/// What the engine counted over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records handed over.
    pub records: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// The time stamp of the first record and the latest of all.
    pub span: Option<(Time, Time)>,
    /// Records that hold an InfiniBand transport packet.
    pub packets: u64,
    /// Records that hold something else.
    pub others: u64,
    /// Records of a link type that is not understood.
    pub unknown_link: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Records that end before the transport headers do.
    pub stops: u64,
    /// Records that a snap length cut.
    pub cut_records: u64,
    /// ICRCs: right, wrong, not verifiable.
    pub icrc: [u64; 3],
    /// Congestion notification packets.
    pub congestion_notifications: u64,
    /// Packets of other transports than RC, CM aside.
    pub other_transports: u64,
    /// CM messages.
    pub cm_messages: u64,
    /// Connections seen.
    pub connections: u64,
    /// Transactions reported, by outcome in the order of [`crate::transaction::Outcome`].
    pub transactions: [u64; 5],
    /// Entries given up because a table was full.
    pub evictions: u64,
}

/// Records in, events out.
#[derive(Debug, Default)]
pub struct Engine {
    totals: Totals,
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(_config: Config) -> Engine {
        Engine::default()
    }

    /// Takes the next record of the capture.
    pub fn handle(&mut self, _record: &Record<'_>, _report: &mut impl FnMut(Event<'_>)) {}

    /// Ends the capture: reports what is still open.
    pub fn finish(&mut self, _report: &mut impl FnMut(Event<'_>)) {}

    /// What was counted so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
