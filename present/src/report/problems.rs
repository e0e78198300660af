//! What went wrong, as data: text and JSON are both printed from it.

use super::Ending;
use crate::names::{Failure, Label, Protocol};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{Connection, Counts, State};
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_wire::{Cause, Stop};
use std::collections::HashMap;

/// All that went wrong in a capture.
#[derive(Debug, Default)]
pub struct Problems {
    /// Replies that report an error.
    pub errors: Errors,
    no_reply: Tally,
    no_call: Tally,
    transport_error: Tally,
    cut_off: Tally,
    missing_bytes: Tally,
    unreadable_headers: Tally,
    unreadable_bodies: Tally,
    /// Messages that the capture, not the sender, cut off.
    cut_messages: Tally,
    rejected: u64,
    unanswered: u64,
    sent: Counts,
    evictions: [u64; 4],
}

/// How many, and where the first is.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: u64,
    first_frame: Option<u64>,
}

impl Tally {
    fn add(&mut self, frame: Option<u64>) {
        self.count += 1;
        self.first_frame = self.first_frame.or(frame);
    }
}

/// Where a problem lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// RPC transactions.
    Transactions,
    /// Connections and their packets.
    Transport,
    /// What the capture does not show: no fault of those who were captured.
    Capture,
}

impl Group {
    /// All of them, in the order of the report.
    pub const ALL: [Group; 3] = [Group::Transactions, Group::Transport, Group::Capture];

    /// What the group is called above its problems.
    pub const fn heading(self) -> &'static str {
        match self {
            Group::Transactions => "Transactions",
            Group::Transport => "Transport",
            Group::Capture => "The capture itself (no fault of those who were captured)",
        }
    }
}

/// One kind of problem that is there.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Where it lies.
    pub group: Group,
    /// Its name for programs.
    pub name: &'static str,
    /// How often.
    pub count: u64,
    /// What is counted, for people.
    pub what: &'static str,
    /// A packet to look at first.
    pub first_frame: Option<u64>,
}

impl Problems {
    /// Takes in a transaction.
    pub fn transaction(&mut self, transaction: &Transaction) {
        let call = transaction.call.as_ref().map(|message| message.seen.frame);
        let reply = transaction.reply.as_ref().map(|message| message.seen.frame);
        self.errors.count(transaction);
        match transaction.outcome {
            Outcome::Completed => {}
            Outcome::NoReply => self.no_reply.add(call),
            Outcome::NoCall => self.no_call.add(reply),
            Outcome::TransportError => self.transport_error.add(reply.or(call)),
            Outcome::CutOff => self.cut_off.add(call),
        }
        let mut lacking = None;
        for message in [&transaction.call, &transaction.reply].into_iter().flatten() {
            if !message.missing.is_empty() {
                lacking = lacking.or(Some(message.seen.frame));
            }
            if let Some(stop) = message.stop {
                self.stopped(stop, Some(message.seen.frame), |problems| &mut problems.unreadable_headers);
            }
        }
        if lacking.is_some() {
            self.missing_bytes.add(lacking);
        }
        if let Some(stop) = transaction.stop {
            self.stopped(stop, call.or(reply), |problems| &mut problems.unreadable_bodies);
        }
    }

    /// Takes in where a message could not be read on: the fault of `tally`, unless the capture cut it off.
    fn stopped(&mut self, stop: Stop, frame: Option<u64>, tally: impl Fn(&mut Problems) -> &mut Tally) {
        match stop.cause {
            Cause::TruncatedCapture => self.cut_messages.add(frame),
            Cause::TruncatedPacket | Cause::Malformed => tally(self).add(frame),
        }
    }

    /// Takes in a connection.
    pub fn connection(&mut self, connection: &Connection) {
        match connection.state {
            State::Rejected(_) => self.rejected += 1,
            State::Requested => self.unanswered += 1,
            State::Open | State::Closed => {}
        }
        for end in [&connection.requester, &connection.responder] {
            add(&mut self.sent, &end.sent);
        }
    }

    /// Takes in an eviction.
    pub fn eviction(&mut self, eviction: &Eviction) {
        let index = match eviction {
            Eviction::Connection(_) => 0,
            Eviction::Transaction { .. } => 1,
            Eviction::HeldPackets { .. } => 2,
            Eviction::Gathered { .. } => 3,
            // Of another kind: counted in `Totals::evictions` only.
            _ => return,
        };
        self.evictions[index] += 1;
    }

    /// The problems that there are, group by group.
    #[rustfmt::skip] // One problem, one line.
    pub fn list(&self, ending: &Ending) -> Vec<Problem> {
        use Group::{Capture, Transactions, Transport};
        let (sent, totals) = (&self.sent, &ending.totals);
        let tally = |count| Tally { count, first_frame: None };
        let [connections, transactions, held, gathered] = self.evictions.map(tally);
        [
            (Transactions, "no-reply", self.no_reply, "calls without a reply when the connection ended or the XID was used again"),
            (Transactions, "transport-error", self.transport_error, "calls answered with RDMA_ERROR"),
            (Transactions, "no-call", self.no_call, "replies to calls that were not captured"),
            (Transactions, "cut-off", self.cut_off, "calls still outstanding when the capture ended"),
            (Transactions, "missing-bytes", self.missing_bytes, "transactions of which the capture lacks bytes"),
            (Transactions, "unreadable-header", self.unreadable_headers, "messages whose header could not be read to its end"),
            (Transactions, "unreadable-body", self.unreadable_bodies, "transactions whose arguments or results could not be read to the end"),
            (Transport, "rejected-connection", tally(self.rejected), "connections rejected"),
            (Transport, "unanswered-connection", tally(self.unanswered), "connection requests without an answer"),
            (Transport, "fatal-nak", tally(sent.fatal_naks), "NAKs that end a connection"),
            (Transport, "sequence-nak", tally(sent.sequence_naks), "NAKs for a PSN out of sequence: packets were lost on the way"),
            (Transport, "rnr-nak", tally(sent.rnr_naks), "RNR NAKs: no Receive was posted for a Send"),
            (Transport, "retransmission", tally(sent.repeated_packets), "packets sent again"),
            (Transport, "reordered-packet", tally(sent.reordered_packets), "packets ahead of one that came later: reordered, or lost before the capture and sent again"),
            (Transport, "bad-icrc", tally(totals.icrc[1]), "packets with a bad ICRC, left out of everything else"),
            // A snap length may have cut off the chunks that advertise the memory.
            (if totals.cut_records > 0 { Capture } else { Transport }, "unmatched-placement", tally(sent.unmatched_placements), "RDMA Reads and Writes of memory that no open transaction advertised"),
            (Transport, "unmatched-response", tally(sent.unmatched_responses), "RDMA Read responses to no Read that was seen"),
            (Transport, "congestion-mark", tally(sent.congestion_marks), "packets marked as having met congestion"),
            (Transport, "congestion-notification", tally(totals.congestion_notifications), "congestion notification packets"),
            (Capture, "cut-message", self.cut_messages, "messages that the snap length cut off before their end"),
            (Capture, "missing-packet", tally(sent.missing_packets), "packets that were sent and are not in the capture"),
            (Capture, "dropped-packet", tally(ending.dropped()), "packets that were dropped while capturing, as the capture says itself"),
            (Capture, "fragment", tally(totals.fragments), "fragments of IP packets, not looked into"),
            (Capture, "unreadable-packet", tally(totals.stops), "packets that end before their headers do"),
            (Capture, "unknown-link", tally(totals.unknown_link), "packets of a link type that is not understood"),
            (Capture, "evicted-connection", connections, "connections given up because too many were open at once"),
            (Capture, "evicted-transaction", transactions, "transactions given up because too many were outstanding at once"),
            (Capture, "evicted-packets", held, "times that packets behind a gap were given up"),
            (Capture, "evicted-bytes", gathered, "long messages not gathered whole"),
        ]
        .into_iter()
        .filter(|(_, _, tally, _)| tally.count > 0)
        .map(|(group, name, Tally { count, first_frame }, what)| Problem { group, name, count, what, first_frame })
        .collect()
    }
}

/// Adds what is reported of `more`.
fn add(sum: &mut Counts, more: &Counts) {
    sum.sequence_naks += more.sequence_naks;
    sum.fatal_naks += more.fatal_naks;
    sum.rnr_naks += more.rnr_naks;
    sum.repeated_packets += more.repeated_packets;
    sum.reordered_packets += more.reordered_packets;
    sum.missing_packets += more.missing_packets;
    sum.unmatched_responses += more.unmatched_responses;
    sum.unmatched_placements += more.unmatched_placements;
    sum.congestion_marks += more.congestion_marks;
}

/// What failed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorKey {
    /// The protocol, where the call is known.
    pub protocol: Option<Protocol>,
    /// The operation that failed.
    pub label: Label,
    /// How.
    pub failure: Failure,
}

/// How often it failed so.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCount {
    /// How often.
    pub count: u64,
    /// The reply to look at first.
    pub first_frame: Option<u64>,
}

/// The few ways in which one operation failed.
type Failures = Vec<(Failure, ErrorCount)>;

/// Errors by what failed and how.
#[derive(Debug, Default)]
pub struct Errors {
    known: HashMap<(Option<Protocol>, Label), Failures, FixedState>,
    kinds: usize,
    /// Errors of further kinds than are kept apart.
    pub further: u64,
}

impl Errors {
    /// Statuses come from the wire, so there is a bound to how many are kept apart.
    const MOST: usize = 512;

    fn count(&mut self, transaction: &Transaction) {
        let Some(failure) = Failure::of(transaction) else { return };
        // A COMPOUND ends with the operation that fails, which need not be the one that it is about.
        let operations = &transaction.details.operations;
        let failed = operations.iter().rfind(|operation| operation.status.is_some_and(|status| status != 0));
        let label = match (failure, failed) {
            (Failure::Status(_), Some(operation)) => Label::of_operation(operation),
            _ => Label::of(transaction),
        };
        let protocol = Protocol::of(transaction);
        let reply = transaction.reply.as_ref().map(|message| message.seen.frame);
        if let Some(kinds) = self.known.get_mut(&(protocol, label))
            && let Some((_, error)) = kinds.iter_mut().find(|(known, _)| *known == failure)
        {
            error.count += 1;
        } else if self.kinds < Errors::MOST {
            self.kinds += 1;
            let error = ErrorCount { count: 1, first_frame: reply };
            self.known.entry((protocol, label)).or_default().push((failure, error));
        } else {
            self.further += 1;
        }
    }

    /// All of them, the most frequent first.
    pub fn by_count(&self) -> Vec<(ErrorKey, ErrorCount)> {
        let mut all: Vec<_> = self
            .known
            .iter()
            .flat_map(|((protocol, label), kinds)| {
                kinds.iter().map(|(failure, error)| {
                    (ErrorKey { protocol: *protocol, label: *label, failure: *failure }, *error)
                })
            })
            .collect();
        all.sort_by_key(|(key, error)| {
            (core::cmp::Reverse(error.count), key.protocol, key.label, error.first_frame)
        });
        all
    }
}
