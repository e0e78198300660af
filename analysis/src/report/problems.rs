//! The problems of a capture as data for text and JSON.

use super::Ending;
use crate::names::{Failure, Label, Protocol};
use crate::replies::Mechanism;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::{
    Connection, ConnectionId, Contexts, Counts, Endpoint, FirstFrames, HostPairs, State,
};
use rdmascope_dissector::event::Eviction;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::{Message, Outcome, Security, Transaction};
use rdmascope_wire::nfs::nfsstat4;
use rdmascope_wire::rpcrdma::{self, Segment};
use rdmascope_wire::{Cause, Stop};
use std::collections::HashMap;

/// The problems of a capture.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Replies that report an error.
    pub errors: Errors,
    /// Incomplete transactions of ended connections for which the capture shows both ends.
    ended: Lacking,
    /// Incomplete transactions of each open connection.
    open: HashMap<ConnectionId, Lacking, FixedState>,
    /// Incomplete transactions of connections for which the capture shows only one end, which
    /// answered the other.
    one_end: Lacking,
    /// Incomplete transactions of connections for which the capture shows only one end, and
    /// possibly everything that was sent. The key is the host that is not seen to send, and its
    /// peer with the contexts of its packets.
    one_direction: HashMap<Silent, Lacking, FixedState>,
    /// Pairs of hosts with captured packets.
    captured: HostPairs,
    transport_error: Tally,
    /// Replies that convey no RPC message.
    empty_replies: Tally,
    /// Replies whose results are encrypted.
    sealed: Tally,
    /// Packets with a bad ICRC, of ends that sent no other packets.
    spoiled: Tally,
    /// Packets with a bad ICRC, of other ends.
    bad_icrc: Tally,
    /// Segments with a wrong TCP checksum, of iWARP ends that sent no other segments.
    damaged_end: Tally,
    /// Segments with a wrong TCP checksum, of other iWARP ends.
    damaged: Tally,
    unreadable_headers: Tally,
    unreadable_bodies: Tally,
    /// Messages that the capture, not the sender, cut off.
    cut_messages: Tally,
    rejected: Tally,
    unanswered: Tally,
    sent: Counts,
    first_frames: FirstFrames,
    /// Placements without a transaction, on connections for which the capture shows both ends.
    unmatched_placements: u64,
    /// RDMA Read responses without a request, on the same connections.
    unmatched_responses: u64,
    evictions: [u64; 4],
}

/// A host that is not seen to send, its peer, and the contexts of the peer's packets.
type Silent = (Address, Address, Contexts);

/// Incomplete transactions. Their missing parts may be absent because the capture shows only one
/// end of the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Lacking {
    no_reply: Tally,
    /// Calls whose reply may be among packets that are missing from the capture.
    hidden_reply: Tally,
    no_call: Tally,
    cut_off: Tally,
    missing_bytes: Tally,
}

impl Lacking {
    fn absorb(&mut self, more: &Lacking) {
        self.no_reply.absorb(more.no_reply);
        self.hidden_reply.absorb(more.hidden_reply);
        self.no_call.absorb(more.no_call);
        self.cut_off.absorb(more.cut_off);
        self.missing_bytes.absorb(more.missing_bytes);
    }
}

/// A count, and the first packet counted.
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

/// The area of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// RPC transactions.
    Transactions,
    /// Connections and their packets.
    Transport,
    /// Limits of the capture, not faults of the hosts.
    Capture,
}

impl Group {
    /// All groups, in the order of the report.
    pub const ALL: [Group; 3] = [Group::Transactions, Group::Transport, Group::Capture];

    /// The heading above the group's problems.
    pub const fn heading(self) -> &'static str {
        match self {
            Group::Transactions => "Transactions",
            Group::Transport => "Transport",
            Group::Capture => "The capture (not a fault of the hosts)",
        }
    }
}

/// A kind of problem that the capture has.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The area of the problem.
    pub group: Group,
    /// Its name in machine-readable output.
    pub name: &'static str,
    /// The number of occurrences.
    pub count: u64,
    /// The counted things in both numbers: `repl{y|ies}`, `packet{s}`.
    description: &'static str,
    /// The first packet with the problem.
    pub first_frame: Option<u64>,
}

impl Problem {
    /// The counted things, described for people.
    pub fn description(&self) -> String {
        in_number(self.description, self.count == 1)
    }

    /// The counted things in the plural.
    pub(crate) fn plural(&self) -> String {
        in_number(self.description, false)
    }
}

/// A text with the forms of one number: `{s}` has none in the singular, `{one|many}` has two.
pub(super) fn in_number(text: &str, is_one: bool) -> String {
    let mut pieces = text.split(['{', '}']);
    let mut result = pieces.next().unwrap_or_default().to_owned();
    while let Some(forms) = pieces.next() {
        let (one, many) = forms.split_once('|').unwrap_or(("", forms));
        result.push_str(if is_one { one } else { many });
        result.push_str(pieces.next().unwrap_or_default());
    }
    result
}

impl Problems {
    /// The most pairs of hosts that are kept.
    const MOST_HOSTS: usize = 4096;

    /// Adds a transaction.
    pub fn transaction(&mut self, transaction: &Transaction) {
        let call = transaction.call.as_ref().map(|message| message.seen.frame);
        let reply = transaction.reply.as_ref().map(|message| message.seen.frame);
        self.errors.count(transaction);
        if is_sealed(transaction) {
            self.sealed.add(reply);
        }
        if transaction.reply.as_ref().is_some_and(is_empty) {
            self.empty_replies.add(reply);
        }
        match transaction.outcome {
            Outcome::Completed => {}
            Outcome::NoReply | Outcome::CutOff if transaction.capture_gap => {
                self.of(transaction).hidden_reply.add(call);
            }
            Outcome::NoReply => self.of(transaction).no_reply.add(call),
            Outcome::NoCall => self.of(transaction).no_call.add(reply),
            Outcome::TransportError => self.transport_error.add(reply.or(call)),
            Outcome::CutOff => self.of(transaction).cut_off.add(call),
        }
        let mut lacking = None;
        for message in transaction.messages() {
            if !message.missing.is_empty() {
                lacking = lacking.or(Some(message.seen.frame));
            }
            if let Some(stop) = message.stop {
                self.stopped(stop, Some(message.seen.frame), |problems| &mut problems.unreadable_headers);
            }
        }
        if lacking.is_some() && !transaction.memory_unseen {
            self.of(transaction).missing_bytes.add(lacking);
        }
        if let Some(stop) = transaction.stop.filter(|_| !is_unpulled(transaction)) {
            self.stopped(stop, call.or(reply), |problems| &mut problems.unreadable_bodies);
        }
    }

    /// The incomplete transactions of the connection of `transaction`.
    fn of(&mut self, transaction: &Transaction) -> &mut Lacking {
        self.open.entry(transaction.connection).or_default()
    }

    /// Counts a message that could not be decoded completely: in `tally`, unless the capture cut it
    /// off.
    fn stopped(&mut self, stop: Stop, frame: Option<u64>, tally: impl Fn(&mut Problems) -> &mut Tally) {
        match stop.cause {
            Cause::TruncatedCapture => self.cut_messages.add(frame),
            Cause::TruncatedPacket | Cause::Malformed => tally(self).add(frame),
        }
    }

    /// Adds a connection that ended.
    pub fn connection(&mut self, connection: &Connection) {
        let ends = [&connection.requester, &connection.responder];
        let first = |frame: fn(&FirstFrames) -> Option<u64>| {
            ends.iter().filter_map(|end| frame(&end.first_frames)).min()
        };
        match connection.state {
            State::Rejected(_) | State::Refused => self.rejected.add(first(|end| end.reject)),
            State::Requested => {
                // Without one, the capture may lack the answer.
                let request = first(|end| end.cm_message);
                request.into_iter().for_each(|frame| self.unanswered.add(Some(frame)));
            }
            State::Open | State::Closed => {}
        }
        for end in ends {
            add(&mut self.sent, &end.sent);
            let damaged = Tally { count: end.sent.bad_icrc, first_frame: end.first_frames.bad_icrc };
            match (connection.is_iwarp, is_spoiled(end)) {
                (false, false) => self.bad_icrc.absorb(damaged),
                (false, true) => self.spoiled.absorb(damaged),
                (true, false) => self.damaged.absorb(damaged),
                (true, true) => self.damaged_end.absorb(damaged),
            }
            note_first(&mut self.first_frames, &end.first_frames);
        }
        let lacking = self.open.remove(&connection.id).unwrap_or_default();
        let [requester, responder] = ends;
        let mut absent = None;
        for (end, other) in [(requester, responder), (responder, requester)] {
            if end.is_absent(other) {
                absent = Some(((end.address, other.address, other.contexts), other.sent.has_answered()));
            } else {
                self.captured.note(end.address, other.address, &end.contexts);
            }
        }
        if ends.into_iter().any(is_spoiled) {
            // The connection lacks only the packets that this end sent.
        } else if let Some((_, true)) = absent {
            self.one_end.absorb(&lacking);
        } else if let Some((silent, _)) = absent.filter(|_| self.one_direction.len() < Problems::MOST_HOSTS) {
            self.one_direction.entry(silent).or_default().absorb(&lacking);
        } else {
            self.ended.absorb(&lacking);
            let sent = ends.map(|end| &end.sent);
            self.unmatched_placements += sent.iter().map(|sent| sent.unmatched_placements).sum::<u64>();
            self.unmatched_responses += sent.iter().map(|sent| sent.unmatched_responses).sum::<u64>();
        }
    }

    /// Counts an eviction.
    pub fn eviction(&mut self, eviction: &Eviction) {
        let index = match eviction {
            Eviction::Connection(_) => 0,
            Eviction::Transaction { .. } => 1,
            Eviction::HeldPackets { .. } => 2,
            Eviction::Gathered { .. } => 3,
            // Other kinds are counted in `Totals::evictions` only.
            _ => return,
        };
        self.evictions[index] += 1;
    }

    /// The problems that occurred, by group.
    #[rustfmt::skip] // One problem per line.
    pub fn list(&self, ending: &Ending) -> Vec<Problem> {
        use Group::{Capture, Transactions, Transport};
        let (sent, first, totals) = (&self.sent, &self.first_frames, &ending.totals);
        let tally = |count| Tally { count, first_frame: None };
        let seen = |count, first_frame| Tally { count, first_frame };
        let mut lacking = self.ended;
        self.open.values().for_each(|more| lacking.absorb(more));
        let mut one_end = self.one_end;
        for ((host, peer, contexts), more) in &self.one_direction {
            // A host that is seen to send on another connection is not hidden from the capture.
            let of = if self.captured.holds(*host, *peer, contexts) { &mut lacking } else { &mut one_end };
            of.absorb(more);
        }
        let mut one_way_calls = one_end.no_reply;
        one_way_calls.absorb(one_end.cut_off);
        one_way_calls.absorb(one_end.hidden_reply);
        let one_way_replies = one_end.no_call;
        let (mut bad_icrc, mut spoiled) = (self.bad_icrc, self.spoiled);
        // CM packets with a bad ICRC belong to no connection. An end computes all ICRCs or none.
        let further = totals.icrc[1].saturating_sub(bad_icrc.count + spoiled.count);
        let of = if spoiled.count > 0 && bad_icrc.count == 0 { &mut spoiled } else { &mut bad_icrc };
        of.count += further;
        // The engine drops packets with a bad ICRC only after it has seen one with a good ICRC.
        let (bad_icrc_group, bad_icrc_words) = match totals.icrc[0] {
            0 => (Capture, "packet{s} with a bad ICRC, and none with a good one: ICRCs assumed not computed"),
            _ => (Transport, "packet{s} with a bad ICRC, ignored"),
        };
        // A message may also end early because packets are missing.
        let cut_words = match totals.cut_records {
            0 => "message{s} whose end is missing from the capture",
            _ => "message{s} whose end is missing from the capture: the snap length cut packets",
        };
        // Without missing packets, only damaged data may contain a reply.
        let (hidden_group, hidden_words) = match (sent.missing_packets, self.damaged.count) {
            (0, 1..) => (Transactions, "call{s} without a reply, which may be in data with a wrong checksum or CRC"),
            _ => (Capture, "call{s} without a reply, which may be among the packets missing from the capture"),
        };
        let [connections, transactions, held, gathered] = self.evictions.map(tally);
        [
            (Transactions, "no-reply", lacking.no_reply, "call{s} without a reply when the connection ended or the capture had gone on for long"),
            (Transactions, "transport-error", self.transport_error, "call{s} answered with RDMA_ERROR"),
            (Transactions, "empty-reply", self.empty_replies, "repl{y|ies} that {conveys|convey} no RPC message"),
            (Transactions, "no-call", lacking.no_call, "repl{y|ies} to {a call|calls} not captured"),
            (Transactions, "cut-off", lacking.cut_off, "call{s} still outstanding when the capture ended"),
            (Transactions, "missing-bytes", lacking.missing_bytes, "transaction{s} with bytes that were not moved, or are missing from the capture"),
            (Transactions, "unreadable-header", self.unreadable_headers, "message{s} whose header could not be decoded completely"),
            (Transactions, "unreadable-body", self.unreadable_bodies, "transaction{s} whose arguments or results could not be decoded completely"),
            (Transport, "rejected-connection", self.rejected, "connection{s} rejected"),
            (Transport, "unanswered-connection", self.unanswered, "connection request{s} without an answer"),
            (Transport, "fatal-nak", seen(sent.fatal_naks, first.fatal_nak), "NAK{s} or Terminate{s} that {ends|end} a connection"),
            (Transport, "sequence-nak", seen(sent.sequence_naks, first.sequence_nak), "PSN sequence error NAK{s}: packets were lost or reordered in the network"),
            (Transport, "rnr-nak", seen(sent.rnr_naks, first.rnr_nak), "RNR NAK{s}: receiver not ready (no Receive posted, or memory paged out)"),
            (Transport, "retransmission", seen(sent.repeated_packets, first.repeated_packet), "packet{s} sent again"),
            (Transport, "reordered-packet", seen(sent.reordered_packets, first.reordered_packet), "packet{s} received out of order: reordered, or lost before the capture point and sent again"),
            (bad_icrc_group, "bad-icrc", bad_icrc, bad_icrc_words),
            (Transport, "bad-checksum", self.damaged, "TCP segment{s} with a wrong checksum or CRC, ignored"),
            // The snap length may have cut off the chunks that advertise the memory.
            (if totals.cut_records > 0 { Capture } else { Transport }, "unmatched-placement", tally(self.unmatched_placements), "{RDMA Read or Write|RDMA Reads and Writes} of memory that no open transaction advertised"),
            // The capture lacks the requests.
            (if sent.missing_packets > 0 { Capture } else { Transport }, "unmatched-response", tally(self.unmatched_responses), "RDMA Read response{s} without a captured request"),
            (Transport, "congestion-mark", tally(sent.congestion_marks), "packet{s} with a congestion mark"),
            (Transport, "congestion-notification", tally(totals.congestion_notifications), "congestion notification packet{s}"),
            (Capture, "spoiled-end", spoiled, "packet{s} with a bad ICRC, from an end that sent no others: ICRC computed after capture? See --no-icrc"),
            (Capture, "damaged-end", self.damaged_end, "TCP segment{s} with a wrong checksum, from an end that sent no others: changed after capture? See --no-icrc"),
            (hidden_group, "hidden-reply", lacking.hidden_reply, hidden_words),
            (Capture, "one-direction", one_way_calls, "call{s} captured in one direction only; {its reply is|their replies are} not in the capture"),
            (Capture, "one-direction-replies", one_way_replies, "repl{y|ies} captured in one direction only; {its call is|their calls are} not in the capture"),
            (Capture, "sealed-reply", self.sealed, "encrypted repl{y|ies} (krb5p): status unknown"),
            (Capture, "cut-message", self.cut_messages, cut_words),
            (Capture, "missing-packet", tally(sent.missing_packets), "packet{s} missing from the capture, or lost before the capture point"),
            (Capture, "clock-step", seen(totals.clock_steps, totals.first_clock_step), "time{s} that the clock of the capture stepped back: times across a step are unknown"),
            (Capture, "no-time-stamp", tally(if totals.untimed_records > 1 { totals.untimed_records } else { 0 }), "packet{s} without a time stamp: times and latencies are unknown"),
            (Capture, "dropped-packet", tally(ending.dropped()), "packet{s} dropped while capturing, as recorded in the capture"),
            (Capture, "fragment", tally(totals.fragments), "IP fragment{s}, not decoded"),
            (Capture, "unreadable-packet", tally(totals.stops), "packet{s} shorter than {its|their} headers"),
            (Capture, "unknown-link", tally(totals.unknown_link), "packet{s} of an unsupported link type"),
            (Capture, "evicted-connection", connections, "connection{s} evicted because too many were open at once"),
            (Capture, "evicted-transaction", transactions, "transaction{s} evicted because too many were outstanding at once"),
            (Capture, "evicted-packets", held, "time{s} that packets after a gap were dropped for lack of room"),
            (Capture, "evicted-bytes", gathered, "long message{s} not reassembled completely"),
        ]
        .into_iter()
        .filter(|(_, _, tally, _)| tally.count > 0)
        .map(|(group, name, Tally { count, first_frame }, description)| Problem { group, name, count, description, first_frame })
        .collect()
    }
}

/// Whether a transaction has a reply with encrypted results, so that no status can be read.
pub(crate) fn is_sealed(transaction: &Transaction) -> bool {
    transaction.security == Some(Security::GssPrivacy)
        && transaction.reply.is_some()
        && Failure::of(transaction).is_none()
        && transaction.status.is_none()
}

/// Whether its reply is in a Read chunk of the responder that the requester did not read
/// completely.
fn is_unpulled(transaction: &Transaction) -> bool {
    let lacks = transaction.reply.as_ref().is_some_and(|reply| !reply.missing.is_empty());
    Mechanism::of(transaction) == Some(Mechanism::ReadChunk) && lacks && !transaction.capture_gap
}

/// Whether a reply is an RDMA_NOMSG without a chunk that holds its Payload stream (RFC 8166, section
/// 3.5.3; reliable-reply draft, section 4.1).
fn is_empty(reply: &Message) -> bool {
    let pulled = reply.read_chunks.iter().find(|chunk| chunk.position == 0);
    let segments = pulled.map(|chunk| &chunk.segments);
    let segments = segments.or(reply.reply_chunk.as_ref().map(|chunk| &chunk.segments));
    reply.procedure == rpcrdma::Procedure::Nomsg
        && reply.stop.is_none()
        && segments.is_none_or(|segments| Segment::total(segments) == 0)
}

/// Whether all packets of an end have a bad ICRC, so that the engine ignored them.
pub(crate) fn is_spoiled(end: &Endpoint) -> bool {
    end.sent.bad_icrc > 0 && end.first_frames.sound.is_none()
}

/// Adds the counts that the report uses.
fn add(sum: &mut Counts, more: &Counts) {
    sum.sequence_naks += more.sequence_naks;
    sum.fatal_naks += more.fatal_naks;
    sum.rnr_naks += more.rnr_naks;
    sum.repeated_packets += more.repeated_packets;
    sum.reordered_packets += more.reordered_packets;
    sum.missing_packets += more.missing_packets;
    sum.congestion_marks += more.congestion_marks;
}

/// Keeps the first packet of each kind that the report uses.
fn note_first(first: &mut FirstFrames, more: &FirstFrames) {
    let note =
        |known: &mut Option<u64>, frame: Option<u64>| *known = known.iter().copied().chain(frame).min();
    note(&mut first.sequence_nak, more.sequence_nak);
    note(&mut first.fatal_nak, more.fatal_nak);
    note(&mut first.rnr_nak, more.rnr_nak);
    note(&mut first.repeated_packet, more.repeated_packet);
    note(&mut first.reordered_packet, more.reordered_packet);
}

/// A failed operation and its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorKey {
    /// The protocol, if the call is known.
    pub protocol: Option<Protocol>,
    /// The operation that failed.
    pub label: Label,
    /// The failure.
    pub failure: Failure,
}

/// The operations and statuses by which normal work finds something out: that a name is free, that a
/// client is known already, that the server lacks an optional operation.
const ORDINARY: &[(&str, &[u32])] = &[
    ("LOOKUP", &[2]),
    ("LOOKUPP", &[2]),
    ("OPEN", &[2]),
    ("ACCESS", &[2]),
    ("GETXATTR", &[10095]),
    ("REMOVEXATTR", &[10095]),
    ("GETACL", &[10004]),
    ("COPY", &[10004]),
    ("CLONE", &[10004]),
    ("READ_PLUS", &[10004]),
    ("LAYOUTGET", &[10059, 10062]),
    ("SECINFO_NO_NAME", &[10004, 10016]),
    ("EXCHANGE_ID", &[2, 10017]),
    ("CREATE_SESSION", &[10022]),
    ("DESTROY_CLIENTID", &[10074]),
    ("RECLAIM_COMPLETE", &[10054]),
];

impl ErrorKey {
    /// Returns the failure of a transaction, if it failed.
    pub fn of(transaction: &Transaction) -> Option<ErrorKey> {
        let failure = Failure::of(transaction)?;
        // A COMPOUND ends with the failed operation, which is not always the principal operation.
        let operations = &transaction.details.operations;
        let failed = operations.iter().rfind(|operation| operation.status.is_some_and(|status| status != 0));
        let label = match (failure, failed) {
            (Failure::Status(_), Some(operation)) => Label::of_operation(operation),
            _ => Label::of(transaction),
        };
        Some(ErrorKey { protocol: Protocol::of(transaction), label, failure })
    }

    /// Whether normal work brings such replies, so that they are no problem.
    pub fn is_ordinary(&self) -> bool {
        let (Label::Named(name), Failure::Status(status)) = (self.label, self.failure) else { return false };
        ORDINARY.iter().any(|(known, statuses)| *known == name && statuses.contains(&status))
    }

    /// Whether a lock was denied because another owner holds it.
    pub(super) fn is_denied_lock(&self) -> bool {
        (self.label, self.failure) == (Label::Named("LOCK"), Failure::Status(nfsstat4::DENIED))
    }

    /// Whether NFSv4 clients handle it without the application: they set up client ID and session again,
    /// or the operation only tidies up.
    pub(super) fn is_handled(&self) -> bool {
        let is_tidying = matches!(self.label, Label::Named(name) if TIDYING.contains(&name));
        is_tidying || matches!(self.failure, Failure::Status(status) if HANDLED.contains(&status))
    }
}

/// Operations by which NFSv4 clients give up state.
const TIDYING: [&str; 4] = ["DESTROY_CLIENTID", "DESTROY_SESSION", "FREE_STATEID", "TEST_STATEID"];

/// Statuses after which NFSv4 clients set up state again.
const HANDLED: [u32; 8] = [
    nfsstat4::BADSESSION,
    nfsstat4::CONN_NOT_BOUND_TO_SESSION,
    nfsstat4::DEADSESSION,
    nfsstat4::OLD_STATEID,
    nfsstat4::RETRY_UNCACHED_REP,
    nfsstat4::SEQ_MISORDERED,
    nfsstat4::STALE_CLIENTID,
    nfsstat4::STALE_STATEID,
];

/// The occurrences of an error.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCount {
    /// The number of occurrences.
    pub count: u64,
    /// The first reply with the error.
    pub first_frame: Option<u64>,
}

/// The failures of one operation, of which there are few.
type Failures = Vec<(Failure, ErrorCount)>;

/// Errors by operation and failure.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    known: HashMap<(Option<Protocol>, Label), Failures, FixedState>,
    kinds: usize,
    /// Errors of kinds beyond the bound.
    pub further: u64,
}

impl Errors {
    /// The most kinds that are kept. Statuses come from the wire, so the table needs a bound.
    const MOST: usize = 512;

    fn count(&mut self, transaction: &Transaction) {
        let Some(ErrorKey { protocol, label, failure }) = ErrorKey::of(transaction) else { return };
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

    /// All kinds, most frequent first.
    pub(crate) fn by_count(&self) -> Vec<(ErrorKey, ErrorCount)> {
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
