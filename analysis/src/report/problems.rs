//! What went wrong, as data: text and JSON are both printed from it.

use super::Ending;
use crate::names::{Failure, Label, Protocol};
use crate::replies::Mechanism;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{Connection, ConnectionId, Counts, Endpoint, FirstFrames, State};
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::{Outcome, Security, Transaction};
use rdmascope_wire::{Cause, Stop};
use std::collections::{HashMap, HashSet};

/// All that went wrong in a capture.
#[derive(Debug, Default)]
pub struct Problems {
    /// Replies that report an error.
    pub errors: Errors,
    /// Of connections that have ended, both ends of which the capture shows.
    ended: Lacking,
    /// Of each connection that has not ended.
    open: HashMap<ConnectionId, Lacking, FixedState>,
    /// Of connections of which the capture shows one end only, and that it answered the other.
    one_end: Lacking,
    /// Of connections of which the capture shows one end only, and perhaps all that was sent: by the host that is not seen to send, and the one that it would send to.
    one_direction: HashMap<(Address, Address), Lacking, FixedState>,
    /// Which hosts the capture shows to send to which.
    heard: HashSet<(Address, Address), FixedState>,
    transport_error: Tally,
    /// Replies whose results are encrypted.
    sealed: Tally,
    /// Packets with a bad ICRC, of ends that sent no other.
    spoiled: Tally,
    /// All segments of an end of an iWARP connection that had a wrong TCP checksum.
    damaged_end: Tally,
    /// Segments of other ends of iWARP connections with a wrong TCP checksum.
    damaged: Tally,
    unreadable_headers: Tally,
    unreadable_bodies: Tally,
    /// Messages that the capture, not the sender, cut off.
    cut_messages: Tally,
    rejected: Tally,
    unanswered: Tally,
    sent: Counts,
    first_frames: FirstFrames,
    /// Of connections both ends of which the capture shows.
    unmatched_placements: u64,
    /// Likewise.
    unmatched_responses: u64,
    evictions: [u64; 4],
}

/// What transactions lack, where it may be because the capture shows only one end of their connection.
#[derive(Clone, Copy, Debug, Default)]
struct Lacking {
    no_reply: Tally,
    no_call: Tally,
    cut_off: Tally,
    missing_bytes: Tally,
}

impl Lacking {
    fn absorb(&mut self, more: &Lacking) {
        self.no_reply.absorb(more.no_reply);
        self.no_call.absorb(more.no_call);
        self.cut_off.absorb(more.cut_off);
        self.missing_bytes.absorb(more.missing_bytes);
    }
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

    fn absorb(&mut self, more: Tally) {
        self.count += more.count;
        self.first_frame = self.first_frame.into_iter().chain(more.first_frame).min();
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
    /// Pairs of hosts that are kept apart.
    const MOST_HOSTS: usize = 4096;

    /// Takes in a transaction.
    pub fn transaction(&mut self, transaction: &Transaction) {
        let call = transaction.call.as_ref().map(|message| message.seen.frame);
        let reply = transaction.reply.as_ref().map(|message| message.seen.frame);
        self.errors.count(transaction);
        if is_sealed(transaction) {
            self.sealed.add(reply);
        }
        match transaction.outcome {
            Outcome::Completed => {}
            Outcome::NoReply => self.of(transaction).no_reply.add(call),
            Outcome::NoCall => self.of(transaction).no_call.add(reply),
            Outcome::TransportError => self.transport_error.add(reply.or(call)),
            Outcome::CutOff => self.of(transaction).cut_off.add(call),
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
            self.of(transaction).missing_bytes.add(lacking);
        }
        if let Some(stop) = transaction.stop.filter(|_| !is_unpulled(transaction)) {
            self.stopped(stop, call.or(reply), |problems| &mut problems.unreadable_bodies);
        }
    }

    /// What the transactions of the same connection lack.
    fn of(&mut self, transaction: &Transaction) -> &mut Lacking {
        self.open.entry(transaction.connection).or_default()
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
        let ends = [&connection.requester, &connection.responder];
        let first = |frame: fn(&FirstFrames) -> Option<u64>| {
            ends.iter().filter_map(|end| frame(&end.first_frames)).min()
        };
        match connection.state {
            State::Rejected(_) | State::Refused => self.rejected.add(first(|end| end.reject)),
            State::Requested => self.unanswered.add(first(|end| end.cm_message)),
            State::Open | State::Closed => {}
        }
        for end in ends {
            add(&mut self.sent, &end.sent);
            let damaged = Tally { count: end.sent.bad_icrc, first_frame: end.first_frames.bad_icrc };
            match (connection.is_iwarp, is_spoiled(end)) {
                (false, false) => {}
                (false, true) => self.spoiled.absorb(damaged),
                (true, false) => self.damaged.absorb(damaged),
                (true, true) => self.damaged_end.absorb(damaged),
            }
            // Counted there.
            let bad_icrc = damaged.first_frame.filter(|_| !connection.is_iwarp);
            note_first(&mut self.first_frames, &FirstFrames { bad_icrc, ..end.first_frames });
        }
        let lacking = self.open.remove(&connection.id).unwrap_or_default();
        let [requester, responder] = ends;
        let mut absent = None;
        for (end, other) in [(requester, responder), (responder, requester)] {
            let hosts = (end.address, other.address);
            if end.is_absent(other) {
                absent = Some((hosts, other.sent.has_answered()));
            } else if self.heard.len() < Problems::MOST_HOSTS {
                self.heard.insert(hosts);
            }
        }
        if ends.into_iter().any(is_spoiled) {
            // What it sent is all that its connection lacks.
        } else if let Some((_, true)) = absent {
            self.one_end.absorb(&lacking);
        } else if let Some((hosts, _)) = absent.filter(|_| self.one_direction.len() < Problems::MOST_HOSTS) {
            self.one_direction.entry(hosts).or_default().absorb(&lacking);
        } else {
            self.ended.absorb(&lacking);
            let sent = ends.map(|end| &end.sent);
            self.unmatched_placements += sent.iter().map(|sent| sent.unmatched_placements).sum::<u64>();
            self.unmatched_responses += sent.iter().map(|sent| sent.unmatched_responses).sum::<u64>();
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
        let (sent, first, totals) = (&self.sent, &self.first_frames, &ending.totals);
        let tally = |count| Tally { count, first_frame: None };
        let seen = |count, first_frame| Tally { count, first_frame };
        let mut lacking = self.ended;
        self.open.values().for_each(|more| lacking.absorb(more));
        let mut one_end = self.one_end;
        for (hosts, more) in &self.one_direction {
            // If it is seen to send on another connection, the capture does show that direction.
            let of = if self.heard.contains(hosts) { &mut lacking } else { &mut one_end };
            of.absorb(more);
        }
        let mut one_way_calls = one_end.no_reply;
        one_way_calls.absorb(one_end.cut_off);
        let one_way_replies = one_end.no_call;
        let bad_icrc = seen(totals.icrc[1] - self.spoiled.count.min(totals.icrc[1]), first.bad_icrc);
        // The engine drops packets with a bad ICRC only once it has seen one with a good ICRC.
        let (bad_icrc_group, bad_icrc_words) = match totals.icrc[0] {
            0 => (Capture, "packets with a bad ICRC, and none with a good one: taken as not computed"),
            _ => (Transport, "packets with a bad ICRC, left out of everything else"),
        };
        // A message may also end too early because packets are missing.
        let cut_words = match totals.cut_records {
            0 => "messages whose end is not in the capture",
            _ => "messages whose end is not in the capture: a snap length cut packets",
        };
        let [connections, transactions, held, gathered] = self.evictions.map(tally);
        [
            (Transactions, "no-reply", lacking.no_reply, "calls without a reply when the connection ended or the XID was used again"),
            (Transactions, "transport-error", self.transport_error, "calls answered with RDMA_ERROR"),
            (Transactions, "no-call", lacking.no_call, "replies to calls that were not captured"),
            (Transactions, "cut-off", lacking.cut_off, "calls still outstanding when the capture ended"),
            (Transactions, "missing-bytes", lacking.missing_bytes, "transactions with bytes that did not move, or that the capture lacks"),
            (Transactions, "unreadable-header", self.unreadable_headers, "messages whose header could not be read to its end"),
            (Transactions, "unreadable-body", self.unreadable_bodies, "transactions whose arguments or results could not be read to the end"),
            (Transport, "rejected-connection", self.rejected, "connections rejected"),
            (Transport, "unanswered-connection", self.unanswered, "connection requests without an answer"),
            (Transport, "fatal-nak", seen(sent.fatal_naks, first.fatal_nak), "NAKs or Terminates that end a connection"),
            (Transport, "sequence-nak", seen(sent.sequence_naks, first.sequence_nak), "NAKs for a PSN out of sequence: packets were lost on the way"),
            (Transport, "rnr-nak", seen(sent.rnr_naks, first.rnr_nak), "RNR NAKs: no Receive was posted for a Send"),
            (Transport, "retransmission", seen(sent.repeated_packets, first.repeated_packet), "packets sent again"),
            (Transport, "reordered-packet", seen(sent.reordered_packets, first.reordered_packet), "packets that came behind later ones: reordered, or lost before the capture and sent again"),
            (bad_icrc_group, "bad-icrc", bad_icrc, bad_icrc_words),
            (Transport, "bad-checksum", self.damaged, "TCP segments with a wrong checksum, left out of everything else"),
            // A snap length may have cut off the chunks that advertise the memory.
            (if totals.cut_records > 0 { Capture } else { Transport }, "unmatched-placement", tally(self.unmatched_placements), "RDMA Reads and Writes of memory that no open transaction advertised"),
            (Transport, "unmatched-response", tally(self.unmatched_responses), "RDMA Read responses to no Read that was seen"),
            (Transport, "congestion-mark", tally(sent.congestion_marks), "packets marked as having met congestion"),
            (Transport, "congestion-notification", tally(totals.congestion_notifications), "congestion notification packets"),
            (Capture, "spoiled-end", self.spoiled, "packets with a bad ICRC, all that one end sent: computed after the capture? See --no-icrc"),
            (Capture, "damaged-end", self.damaged_end, "TCP segments with a wrong checksum, all that one end sent: changed after the capture? See --no-icrc"),
            (Capture, "one-direction", one_way_calls, "calls: the capture shows only what their sender sent; replies are not in it"),
            (Capture, "one-direction-replies", one_way_replies, "replies: the capture shows only what their sender sent; calls are not in it"),
            (Capture, "sealed-reply", self.sealed, "replies that are encrypted (krb5p): their status is not known"),
            (Capture, "cut-message", self.cut_messages, cut_words),
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

/// Whether the reply of a transaction is there, and its results are encrypted: no status can be read.
pub(crate) fn is_sealed(transaction: &Transaction) -> bool {
    transaction.security == Some(Security::GssPrivacy)
        && transaction.reply.is_some()
        && Failure::of(transaction).is_none()
        && transaction.status.is_none()
}

/// Whether its reply is in a Read chunk of the responder that the requester did not read whole.
fn is_unpulled(transaction: &Transaction) -> bool {
    let lacks = transaction.reply.as_ref().is_some_and(|reply| !reply.missing.is_empty());
    Mechanism::of(transaction) == Some(Mechanism::ReadChunk) && lacks && !transaction.capture_gap
}

/// Whether all that an end sent has a bad ICRC, so that it was left out.
pub(crate) fn is_spoiled(end: &Endpoint) -> bool {
    end.sent.bad_icrc > 0 && end.first_frames.sound.is_none()
}

/// Adds what is reported of `more`.
fn add(sum: &mut Counts, more: &Counts) {
    sum.sequence_naks += more.sequence_naks;
    sum.fatal_naks += more.fatal_naks;
    sum.rnr_naks += more.rnr_naks;
    sum.repeated_packets += more.repeated_packets;
    sum.reordered_packets += more.reordered_packets;
    sum.missing_packets += more.missing_packets;
    sum.congestion_marks += more.congestion_marks;
}

/// Keeps the first of each kind of packet that is reported.
fn note_first(first: &mut FirstFrames, more: &FirstFrames) {
    let note =
        |known: &mut Option<u64>, frame: Option<u64>| *known = known.iter().copied().chain(frame).min();
    note(&mut first.sequence_nak, more.sequence_nak);
    note(&mut first.fatal_nak, more.fatal_nak);
    note(&mut first.rnr_nak, more.rnr_nak);
    note(&mut first.repeated_packet, more.repeated_packet);
    note(&mut first.reordered_packet, more.reordered_packet);
    note(&mut first.bad_icrc, more.bad_icrc);
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
