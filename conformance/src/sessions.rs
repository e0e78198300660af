//! Sessions of NFS version 4.1 and later: slots, callbacks, status flags, and operations that
//! continue after their replies (RFC 8881, section 2.10; RFC 7862, sections 15.2 and 16.1).
//!
//! A session outlives a connection and may use several, so [`table::SessionTable`] follows slots
//! across all connections, and leaves the faults of a request with its connection for the rules.
//! The requests on a slot are known only if the capture contains everything that the caller sent in
//! between. Even then, some may have used a connection that was not captured: skipped sequence IDs
//! that are not used later are no evidence.

pub(crate) mod offloads;
pub(crate) mod table;

use super::check::{Check, Checked, Findings, View};
use super::finding::{Finding, Value, plural};
use super::judged::{about_reply, by_caller, paired};
use super::known::{Known, Memory};
use super::memory::AdvertisedMemory;
use super::reverse::Backchannel;
use super::rule::{Document, Level, Source, Unseen};
use alloc::format;
use alloc::vec::Vec;
use offloads::Offload;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use rdmascope_dissector::ulb::{Nfs4, Operation, OperationKind, STATUS_FLAGS, Sequence};

const SLOTS: Source = Source { document: Document::Rfc8881, section: "2.10.6.1" };
const SEQUENCE: Source = Source { document: Document::Rfc8881, section: "18.46" };
const CREATE: Source = Source { document: Document::Rfc8881, section: "18.36" };
const CB_SEQUENCE: Source = Source { document: Document::Rfc8881, section: "20.9" };

pub(crate) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "session-slot",
        level: Level::Violation,
        sources: &[SLOTS, SEQUENCE, CB_SEQUENCE],
        sentence: "A request uses a slot that exists in the slot table of its channel.",
        explanation: "The slots of the fore channel are those below ca_maxrequests of \
            csr_fore_chan_attrs, and those of the backchannel those below ca_maxrequests of \
            csr_back_chan_attrs. A replier that names a higher slot in the result of SEQUENCE or \
            CB_SEQUENCE accepts that slot too, on any connection of the session. The finding is \
            therefore certain only if the reply is NFS4ERR_BADSLOT, and inconclusive otherwise.",
        check: Check::Transaction(|_, view, findings| report(Kind::Slot, view, findings)),
    },
    Checked {
        id: "session-sequence",
        level: Level::Violation,
        sources: &[SLOTS, SEQUENCE, CB_SEQUENCE],
        sentence: "A request has a sequence ID one above that of the previous request on its \
            slot, or repeats that request.",
        explanation: "The first request on a slot has sequence ID 1. A request that SEQUENCE \
            refused does not count, except if a different request with the same sequence ID gets \
            NFS4ERR_SEQ_FALSE_RETRY. If no reply was seen, the next request may have the same \
            sequence ID or the next. A different request with the same sequence ID breaks the \
            rule; requests are compared by XID, and by operations with their \
            file handles, names, offsets and lengths. A sequence ID that goes back \
            breaks it, and so does one that skips some, if the next request on the slot goes back \
            or the reply is NFS4ERR_SEQ_MISORDERED. Otherwise the requests in between may have \
            used a connection that was not captured, and the finding is inconclusive, reported \
            once for each slot. Nothing is reported if the capture lacks a packet of the caller \
            between the two requests, or if a call between them could not be read. Of slots whose \
            IDs are equal modulo 512, only the one used last is followed.",
        check: Check::Transaction(|_, view, findings| report(Kind::Order, view, findings)),
    },
    Checked {
        id: "session-sequence-first",
        level: Level::Violation,
        sources: &[SEQUENCE, Source { document: Document::Rfc8881, section: "2.10.2" }],
        sentence: "A COMPOUND of minor version 1 or 2 begins with SEQUENCE, unless its only operation needs no session.",
        explanation: "EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, DESTROY_SESSION and \
            DESTROY_CLIENTID need no session. Nothing is reported if the first operation is \
            unknown, or if the COMPOUND has none.",
        check: Check::Transaction(sequence_first),
    },
    Checked {
        id: "session-slot-busy",
        level: Level::Violation,
        sources: &[SLOTS],
        sentence: "A requester has one outstanding request at a time on a slot.",
        explanation: "The rule is broken by a request that was sent before the first packet of \
            the reply to the previous request on its slot. The finding is certain if the replies \
            have another order than the requests, or if request and reply are too far apart for \
            the capture to have reordered them. Otherwise it is inconclusive.",
        check: Check::Transaction(|_, view, findings| report(Kind::Busy, view, findings)),
    },
    Checked {
        id: "session-result",
        level: Level::Warning,
        sources: &[SEQUENCE, CB_SEQUENCE],
        sentence: "The result of SEQUENCE or CB_SEQUENCE names the session, the slot and the \
            sequence ID of its arguments.",
        explanation: "The specifications do not require this, but the fields have no other use, \
            and the Linux client treats a result with other values as an error. The rule depends \
            on the reply belonging to its call. It covers requests whose slot and sequence ID \
            break no rule.",
        check: Check::Transaction(|_, view, findings| report(Kind::Result, view, findings)),
    },
    Checked {
        id: "session-create-sequence",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "The result of CREATE_SESSION has the sequence number of its arguments.",
        explanation: "csr_sequence is compared with csa_sequence. The rule applies if both the \
            call and the result were captured and the COMPOUND has no other CREATE_SESSION.",
        check: Check::Transaction(create_sequence),
    },
    Checked {
        id: "session-status-flags",
        level: Level::Advice,
        sources: &[SEQUENCE],
        sentence: "A server sets sr_status_flags of SEQUENCE to ask a client for recovery.",
        explanation: "Each flag is reported once for a connection, when it ends, with the number \
            of replies that have it. It breaks no rule. Flags about the backchannel ask the \
            client to bind a connection to it or to renew its RPCSEC_GSS contexts; flags about \
            state ask it to recover locks, delegations or layouts.",
        check: Check::Connection(flags),
    },
    Checked {
        id: "session-callback-unanswered",
        level: Level::Warning,
        sources: &[SLOTS, CB_SEQUENCE, Source { document: Document::Rfc8881, section: "2.9.2" }],
        sentence: "A client answers a callback before the connection is closed.",
        explanation: "A server that gets no answer may consider the callback path down and revoke \
            the state that it recalled. A callback of a session has a CB_SEQUENCE. The rule applies if the connection was closed, as for \
            rpc-call-unanswered, which reports callbacks without a session. The finding is certain if the \
            client sent something later and the capture contains everything that it sent up to \
            then.",
        check: Check::Transaction(callback_unanswered),
    },
    Checked {
        id: "session-offload-unreported",
        level: Level::Warning,
        sources: &[
            Source { document: Document::Rfc7862, section: "15.2" },
            Source { document: Document::Rfc7862, section: "16.1" },
        ],
        sentence: "A server reports the result of an asynchronous COPY or WRITE_SAME in CB_OFFLOAD.",
        explanation: "An operation is asynchronous if its result has a wr_callback_id. It ends \
            with a CB_OFFLOAD, an OFFLOAD_CANCEL, or an OFFLOAD_STATUS with osr_complete that \
            names this stateid. The rule is decided when the connection is closed. The finding is \
            certain if the connection was accepted for the backchannel, a session was destroyed \
            on it later, and the capture contains everything that both ends sent, with every \
            call to its end. Otherwise the capture may lack the end of the operation, and the \
            finding is inconclusive. A report over any connection of the capture counts. The \
            capture does not show whether another connection was bound to the backchannel, so the \
            rule is a warning.",
        check: Check::Connection(offloads::unreported),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: SLOTS,
    requirement: "A replier keeps the reply of each slot until the next request on it.",
    reason: "The replies that a replier keeps are visible only if a request is retransmitted.",
}];

/// The state that its rules read.
pub(crate) type Read = (SessionUse, AdvertisedMemory, Backchannel);

/// The use of sessions on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionUse {
    /// By caller: the number of calls that may have used an unknown slot.
    unread: [u64; 2],
    /// The faults of the transaction that ends.
    pub(crate) faults: Vec<Fault>,
    /// Flags of SEQUENCE results, in the order of their first appearance.
    flags: Vec<Flag>,
    /// The last reply to a DESTROY_SESSION.
    destroyed: Option<u64>,
    /// At the end of the connection: operations that continued after their replies and whose
    /// completion was reported on no connection.
    pub(crate) offloads: Vec<Offload>,
    /// At the end of the connection: whether a call on any connection was not read.
    pub(crate) lacks_call: bool,
}

/// A fault in the use of a slot.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) finding: Finding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Slot,
    Order,
    Busy,
    Result,
}

/// A flag of sr_status_flags.
#[derive(Clone, Copy, Debug)]
struct Flag {
    bit: u32,
    replies: u64,
    /// The first and the last reply.
    frames: [u64; 2],
}

impl Memory for SessionUse {
    fn footprint(&self) -> usize {
        let faults: usize =
            self.faults.iter().map(|fault| fault.finding.footprint() + size_of::<Kind>()).sum();
        faults + size_of_val(&self.flags[..]) + size_of_val(&self.offloads[..])
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        self.faults.clear();
        self.unread[known.caller(transaction.direction)] += u64::from(is_unread(transaction));
        let facts = &transaction.details.session;
        if let (Some(sequenced), Some(reply)) = (facts.sequenced, &transaction.reply) {
            self.note_flags(sequenced.flags, reply.seen.frame);
        }
        self.destroyed = offloads::destruction(transaction).or(self.destroyed);
    }

    fn evicted(&mut self, caller: End) {
        self.unread[caller] += 1;
    }

    fn joined(&mut self) {
        // No earlier request may seem to precede later ones, because the loss counts restart too.
        *self = SessionUse { unread: self.unread.map(|unread| unread + (1 << 32)), ..SessionUse::default() };
    }
}

impl SessionUse {
    /// Whether the sequence ID of the transaction that ends is wrong.
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind == Kind::Order)
    }

    fn note_flags(&mut self, flags: u32, frame: u64) {
        for bit in (0..32).filter(|bit| flags & (1 << bit) != 0) {
            match self.flags.iter_mut().find(|flag| flag.bit == bit) {
                Some(flag) => (flag.replies, flag.frames[1]) = (flag.replies + 1, frame),
                None => self.flags.push(Flag { bit, replies: 1, frames: [frame; 2] }),
            }
        }
    }
}

/// Whether it may be a request on an unknown slot.
fn is_unread(transaction: &Transaction) -> bool {
    let Some(procedure) = transaction.procedure else { return true };
    let details = &transaction.details;
    procedure.is_compound()
        && details.session.sequence.is_none()
        && (details.minor_version.is_none()
            || transaction.call.as_ref().is_none_or(|call| call.unread.is_some()))
}

/// True if a slot or the number of a CREATE_SESSION is faulty, and for a callback without a reply.
pub(crate) fn may_break(transaction: &Transaction, sessions: &SessionUse) -> bool {
    !sessions.faults.is_empty()
        || disagreement(transaction).is_some()
        || lacks_sequence(transaction).is_some()
        || (transaction.direction == Direction::Backward && transaction.outcome == Outcome::NoReply)
}

fn report(kind: Kind, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for fault in view.memory.0.faults.iter().filter(|fault| fault.kind == kind) {
        findings.add(fault.finding.clone());
    }
}

/// The finding on a result of SEQUENCE or CB_SEQUENCE that differs from its arguments, which are
/// correct.
fn other_result(transaction: &Transaction, known: &Known, requested: Sequence, given: Sequence) -> Fault {
    let number = |name, given: u32, requested: u32| {
        let words = format!("a result for {name} {given} to a request with {name} {requested}");
        paired(transaction, known, words).values(Value::Count(given.into()), Value::Count(requested.into()))
    };
    let finding = match () {
        () if requested.session != given.session => {
            paired(transaction, known, "a result for another session than that of the request")
        }
        () if requested.slot != given.slot => number("slot", given.slot, requested.slot),
        () => number("sequence ID", given.number, requested.number),
    };
    Fault { kind: Kind::Result, finding }
}

/// The first operation of a COMPOUND that lacks its SEQUENCE.
fn lacks_sequence(transaction: &Transaction) -> Option<&Operation> {
    let details = &transaction.details;
    let first = details.operations.first().filter(|_| details.called > Some(0))?;
    let OperationKind::Nfs4(kind) = first.kind else { return None };
    let needs_no_sequence = matches!(
        kind,
        Nfs4::ExchangeId
            | Nfs4::CreateSession
            | Nfs4::BindConnToSession
            | Nfs4::DestroySession
            | Nfs4::DestroyClientid
    );
    let is_alone = details.called == Some(1);
    let has_session = matches!(details.minor_version, Some(1 | 2));
    (has_session && kind != Nfs4::Sequence && !(needs_no_sequence && is_alone)).then_some(first)
}

fn sequence_first(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (Some(first), Some(_)) = (lacks_sequence(transaction), &transaction.call) else { return };
    let count = transaction.details.called.unwrap_or_default();
    let words = format!(
        "a COMPOUND of {count} operation{} that begins with {}",
        plural(count as usize),
        first.name()
    );
    findings
        .add(by_caller(transaction, view, words).values(Value::Name(first.name()), Value::Name("SEQUENCE")));
}

/// csr_sequence and csa_sequence of a CREATE_SESSION, if they differ.
fn disagreement(transaction: &Transaction) -> Option<[u32; 2]> {
    let facts = &transaction.details.session;
    let numbers = [facts.created_sequence?, facts.create_sequence?];
    (numbers[0] != numbers[1]).then_some(numbers)
}

fn create_sequence(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some([given, requested]) = disagreement(transaction) else { return };
    let operations = transaction.details.operations.iter();
    if operations.filter(|operation| operation.kind == OperationKind::Nfs4(Nfs4::CreateSession)).count() == 1
    {
        let message = format!("CREATE_SESSION with sequence number {requested} was answered with {given}");
        findings.add(
            about_reply(transaction, view, message)
                .values(Value::Count(given.into()), Value::Count(requested.into())),
        );
    }
}

/// Whether a transaction is an NFS callback on the backchannel of a session (RFC 8881, section
/// 20.9). CB_NULL and the callbacks of minor version 0 belong to no session.
pub(crate) fn is_callback(transaction: &Transaction) -> bool {
    transaction.direction == Direction::Backward
        && transaction.procedure.is_some_and(|procedure| procedure.is_callback())
        && transaction.details.session.sequence.is_some()
}

fn callback_unanswered(transaction: &Transaction, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (Outcome::NoReply, true, Some(call), true) =
        (transaction.outcome, view.is_closed(), &transaction.call, is_callback(transaction))
    else {
        return;
    };
    let client = view.answerer(transaction.direction);
    // If nothing of the client was captured, rpc-call-unanswered reports that.
    if !view.has_packets_from(client) {
        return;
    }
    let later = view.memory.1.last(client).map(|last| last.seen.frame);
    let is_known = later.is_some_and(|later| later > call.seen.frame && view.is_complete(client, later))
        && !view.memory.1.may_lack(view, client, transaction)
        && !view.unmatched.shows_replies_early
        && !view.unmatched.may_be_answered(client.other(), transaction.xid);
    let finding = Finding::new("the connection was closed while a callback was outstanding");
    findings.add(finding.by(client).of(transaction).message(call).unless(!is_known));
}

fn flags(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    for Flag { bit, replies, frames } in &view.memory.0.flags {
        let name = match STATUS_FLAGS.get(*bit as usize) {
            Some(name) => format!("SEQ4_STATUS_{name}"),
            None => format!("the unknown flag 0x{:08x}", 1u32 << bit),
        };
        let message = match replies {
            1 => format!("a SEQUENCE result has {name}"),
            replies => format!("{replies} SEQUENCE results have {name}"),
        };
        let finding = Finding::new(message).by(view.requester.other()).frames(*frames);
        findings.add(finding.observed(Value::Count(*replies)));
    }
}
