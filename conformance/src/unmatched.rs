//! Unmatched messages: replies and errors without a call, RDMA_DONE without a chunk to
//! pull.
//!
//! Such a finding depends on the other end not having sent something. A capture may also show the
//! two half-flows shifted against each other, with the call after its reply. These messages are
//! therefore kept and judged when the connection ends.

use super::bounded;
use super::finding::Finding;
use super::judged::{is_doubtful, xid_of};
use super::known::{Known, Memory};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::{Kind, Observed, Sent};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Seen, Transaction};
use rdmascope_wire::rpcrdma::{Header, Procedure, Segment, VERSION};
use rdmascope_wire::{Xid, rpc};

/// The unmatched messages of a connection, and the XIDs needed to judge them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnmatchedMessages {
    messages: Vec<Unmatched>,
    /// By caller: XIDs of the calls answered last.
    answered: [Recent; 2],
    /// By caller: calls retransmitted while outstanding, each of which may have a reply of its own.
    repeated: [VecDeque<Xid>; 2],
    /// By caller: the same XIDs, answered or not.
    reused: [Recent; 2],
    /// By caller: XIDs of RPC messages that were sent with another rdma_xid.
    misnamed: [Recent; 2],
    /// By sender: rdma_xid of Sends whose kind [is a guess](kind_is_guess).
    guessed: [Recent; 2],
    /// By caller: XIDs of calls beside which the other end sent a message of that XID whose kind is a
    /// guess. It may be the reply.
    may_be_answered: [Recent; 2],
    /// By caller: the engine evicted a call, or these lists dropped one, so a message may answer an
    /// unknown call.
    forgotten: [bool; 2],
    /// By sender: XIDs of messages in Read chunks that count as calls, and may be replies to calls that
    /// the capture lacks or shows later.
    provided: [Recent; 2],
    /// By end: it has sent a reply of version 1.
    pub(crate) speaks_version_1: [bool; 2],
    /// The capture has shown a reply before its call, or may have: a call that seems to have no
    /// reply may have had one.
    pub(crate) shows_replies_early: bool,
    /// Replies that were pulled, without an RDMA_DONE.
    pulled: Vec<Pulled>,
}

/// A message that answers no known call or reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmatched {
    pub(crate) kind: Kind,
    /// The end that sent it.
    pub(crate) from: End,
    pub(crate) xid: Xid,
    direction: Option<Direction>,
    first: Seen,
    seen: Seen,
    /// An RDMA_ERROR with the XID of one of its sender's own calls, outstanding or just answered.
    pub(crate) is_of_own_call: bool,
    /// The capture may lack the message that it answers, or does not show it as one.
    lacks: bool,
    /// Whether it is certain that the other end had sent nothing else up to here; `None`: not known
    /// yet.
    certain: Option<bool>,
}

/// A reply that the caller pulled out of the responder's memory.
#[derive(Clone, Debug)]
struct Pulled {
    direction: Direction,
    xid: Xid,
    number: u64,
    frames: [u64; 2],
    /// The last response of the RDMA Reads.
    until: Option<Time>,
    /// The capture does not show that all of it was pulled.
    lacks: bool,
}

/// The latest XIDs.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    xids: [Option<Xid>; 16],
    next: u8,
}

impl Recent {
    #[inline]
    fn note(&mut self, xid: Xid) {
        self.xids[usize::from(self.next)] = Some(xid);
        self.next = (self.next + 1) % 16;
    }

    fn contains(&self, xid: Xid) -> bool {
        self.xids.contains(&Some(xid))
    }
}

impl UnmatchedMessages {
    /// The most unmatched messages, repeated calls and pulled replies that are kept, of each.
    const MOST: usize = 64;

    /// Records a reply that was pulled.
    fn note_pulled(&mut self, transaction: &Transaction) {
        let (Some(reply), None, Outcome::Completed) =
            (&transaction.reply, transaction.done, transaction.outcome)
        else {
            return;
        };
        let provided = reply.read_chunks.iter().find(|chunk| chunk.position == 0);
        let provided = provided.filter(|_| reply.procedure == Procedure::Nomsg);
        let length = provided.map_or(0, |chunk| Segment::total(&chunk.segments));
        let missing: u64 =
            reply.missing.iter().map(|missing| missing.end.unwrap_or(missing.start) - missing.start).sum();
        // If no byte was seen to be pulled, the caller may not support such chunks at all.
        if missing < length && self.pulled.len() < UnmatchedMessages::MOST {
            self.pulled.push(Pulled {
                direction: transaction.direction,
                xid: transaction.xid,
                number: transaction.number,
                frames: [reply.first.frame, reply.seen.frame],
                until: transaction.timing.reads.map(|(_, last)| last),
                lacks: !reply.missing.is_empty() || is_doubtful(transaction),
            });
        }
    }

    /// The unmatched messages.
    pub(crate) fn messages(&self) -> &[Unmatched] {
        &self.messages
    }
}

impl Memory for UnmatchedMessages {
    fn footprint(&self) -> usize {
        let repeated = self.repeated.iter().map(|xids| xids.len() * size_of::<Xid>());
        self.messages.len() * size_of::<Unmatched>()
            + self.pulled.len() * size_of::<Pulled>()
            + repeated.sum::<usize>()
    }

    fn sent(&mut self, sent: &Sent<'_>, known: &Known) {
        if !self.messages.is_empty() {
            self.note_late(sent, known);
        }
        let Some(header) = sent.header else { return };
        let (from, other) = (sent.from, sent.from.other());
        let may_answer = |lists: &[Recent; 2]| lists[other].contains(header.xid);
        if sent.kind == Kind::Call && (may_answer(&self.guessed) || may_answer(&self.provided)) {
            self.may_be_answered.iter_mut().for_each(|xids| xids.note(header.xid));
        }
        if kind_is_guess(sent) {
            self.guessed[from].note(header.xid);
        }
        match sent.kind {
            Kind::Call if sent.outstanding => {
                let dropped = bounded::push(&mut self.repeated[from], UnmatchedMessages::MOST, header.xid);
                self.forgotten[from] |= dropped.is_some();
                self.reused[from].note(header.xid);
            }
            Kind::Call if provides(header) => self.provided[from].note(header.xid),
            Kind::Reply if sent.outstanding => {
                self.answered[other].note(header.xid);
                self.speaks_version_1[from] |= header.version == VERSION;
            }
            Kind::Error if sent.outstanding => self.answered[other].note(header.xid),
            Kind::Reply | Kind::Error | Kind::Done if !sent.outstanding => {
                self.take_unmatched(sent, header.xid, known)
            }
            _ => {}
        }
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        self.note_pulled(transaction);
        let misnamed = &mut self.misnamed[known.caller(transaction.direction)];
        let conveyed = |message: &Option<Message>| {
            message.as_ref()?.rpc_xid.filter(|conveyed| *conveyed != transaction.xid)
        };
        if let Some(conveyed) = conveyed(&transaction.call) {
            misnamed.note(conveyed);
        }
        // The reply that it received belongs to another call, and its own reply is yet to come.
        if let Some(conveyed) = conveyed(&transaction.reply) {
            misnamed.note(conveyed);
            misnamed.note(transaction.xid);
        }
    }

    /// The call that the corrected message answers may be seen later.
    fn observed(&mut self, observed: &Observed<'_>, _: &Known) {
        if let Observed::Corrected(corrected) = observed {
            self.may_be_answered.iter_mut().for_each(|xids| xids.note(corrected.xid));
        }
    }

    fn evicted(&mut self, caller: End) {
        self.forgotten[caller] = true;
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

impl UnmatchedMessages {
    /// Drops earlier unmatched messages that this Send explains: the capture may show the call that
    /// they answer after them.
    #[cold]
    fn note_late(&mut self, sent: &Sent<'_>, known: &Known) {
        let UnmatchedMessages { messages, shows_replies_early, .. } = self;
        let from = sent.from;
        messages.retain_mut(|message| {
            let came_late =
                message.from != from && Some(message.xid) == xid_of(sent) && answers(message.kind, sent);
            if message.from != from && message.certain.is_none() {
                message.certain = Some(known.lost[from] == 0);
            }
            *shows_replies_early |= came_late;
            !came_late
        });
    }

    /// Records an unmatched message, unless it answers a call that was sent twice.
    #[cold]
    fn take_unmatched(&mut self, sent: &Sent<'_>, xid: Xid, known: &Known) {
        let (from, other) = (sent.from, sent.from.other());
        let repeated = &mut self.repeated[other];
        let again = repeated.iter().position(|known| *known == xid);
        if let Some(at) = again.filter(|_| sent.kind != Kind::Done) {
            repeated.remove(at);
            return;
        }
        // A Long Reply does not itself show that it is a reply. It is one if the call with its XID
        // was already answered.
        if sent.kind == Kind::Reply && !sent.is_explicit && !self.answered[other].contains(xid) {
            return;
        }
        // Its rdma_xid is not that of the reply in it, which header-xid reports. So rdma_xid does
        // not identify the call that it answers.
        if let Some(conveyed) = conveyed(sent).filter(|conveyed| *conveyed != xid) {
            self.misnamed[other].note(conveyed);
            return;
        }
        if self.messages.len() == UnmatchedMessages::MOST {
            self.shows_replies_early = true;
            return;
        }
        // A message of this XID that counts as a reply may have been a call, or the reverse.
        let is_doubtful = sent.kind != Kind::Done && self.guessed.iter().any(|xids| xids.contains(xid));
        let is_of_provided = sent.kind == Kind::Done && self.provided[other].contains(xid);
        // The end that accepted the connection has hardly any Long Calls.
        if is_of_provided && known.roles_known && from == known.requester {
            return;
        }
        let lacks = is_doubtful || is_of_provided || self.forgotten[other] || known.lost[other] > 0;
        let message = Unmatched {
            kind: sent.kind,
            from,
            xid,
            direction: known.direction_of(sent),
            first: sent.send.first,
            seen: sent.send.seen,
            is_of_own_call: sent.of_own_call || self.answered[from].contains(xid),
            lacks: lacks || !known.holds_start() || !sent.paired,
            certain: None,
        };
        self.messages.push(message);
    }
}

/// Whether neither the captured bytes of a Send nor the rest of its header show whether it is a call
/// or a reply. The XIDs of the two directions are independent.
pub(crate) fn kind_is_guess(sent: &Sent<'_>) -> bool {
    let Some(header) = sent.header.filter(|_| matches!(sent.kind, Kind::Call | Kind::Reply)) else {
        return false;
    };
    let is_cut = sent.send.length != Some(sent.send.bytes.len() as u32);
    match header.procedure {
        // A reply in a Read chunk, or a Long Call of the other direction.
        Procedure::Nomsg if sent.kind == Kind::Reply => !header.reads.is_empty(),
        _ => is_cut && !sent.is_explicit,
    }
}

/// The XID of the RPC message after the header of an RDMA_MSG.
fn conveyed(sent: &Sent<'_>) -> Option<Xid> {
    let header = sent.header.filter(|header| header.procedure == Procedure::Msg && header.stop.is_none())?;
    let (xid, _) = rpc::peek(sent.send.bytes.get(header.length..)?).ok()?;
    Some(xid)
}

/// Whether a message of this kind could be the answer to `sent`.
fn answers(kind: Kind, sent: &Sent<'_>) -> bool {
    match kind {
        Kind::Done => sent.kind != Kind::Done && sent.header.is_some_and(|header| provides(header)),
        _ => sent.kind == Kind::Call,
    }
}

/// Whether a Send that seems to be a Long Call may be a reply in a Read chunk, to a call that the
/// capture lacks.
pub(crate) fn may_be_reply(sent: &Sent<'_>, known: &Known) -> bool {
    known.roles_known && sent.from != known.requester && sent.header.is_some_and(|header| provides(header))
}

/// Whether this is the header of a reply in a Read chunk of the Responder, which RDMA_DONE answers.
fn provides(header: &Header<'_>) -> bool {
    header.procedure == Procedure::Nomsg && !header.reads.is_empty()
}

impl UnmatchedMessages {
    /// Whether the caller sent another call with this XID while the first was outstanding. It is
    /// then unknown which of them a reply answers.
    pub(crate) fn is_reused(&self, caller: End, xid: Xid) -> bool {
        self.reused[caller].contains(xid)
    }

    /// Whether a call or a reply with this XID had another rdma_xid. That is a finding of its own,
    /// and explains why nothing matches it.
    pub(crate) fn is_misnamed(&self, caller: End, xid: Xid) -> bool {
        self.misnamed[caller].contains(xid)
    }

    /// Whether the capture may show the reply to a call without a reply, as a message whose kind is a
    /// guess.
    pub(crate) fn may_be_answered(&self, caller: End, xid: Xid) -> bool {
        self.may_be_answered[caller].contains(xid)
    }

    /// The replies that were pulled on a connection that was closed without an RDMA_DONE. `last`
    /// returns the last Send of an end: the capture may lack what follows it.
    pub(crate) fn without_done(
        &self,
        known: &Known,
        last: impl Fn(End) -> Option<Seen>,
    ) -> impl Iterator<Item = Finding> {
        self.pulled.iter().map(move |pulled| {
            let caller = known.caller(pulled.direction);
            let later = last(caller).filter(|later| pulled.until < Some(later.time));
            let is_complete = later.is_some_and(|later| known.is_complete(caller, later.frame));
            let words = "a reply was pulled, but the connection closed without an RDMA_DONE for \
                it";
            let finding = Finding::new(words)
                .by(caller)
                .about(Some(pulled.direction), pulled.xid)
                .frames(pulled.frames)
                .unless(pulled.lacks || !is_complete);
            Finding { transaction: Some(pulled.number), ..finding }
        })
    }
}

impl Unmatched {
    /// The finding on this message when the connection ends.
    pub(crate) fn finding(
        &self,
        connection: &Connection,
        known: &Known,
        message: impl Into<String>,
    ) -> Finding {
        let other = self.from.other();
        let certain = self.certain.unwrap_or_else(|| known.is_complete(other, self.seen.frame));
        let ends = &[&connection.responder, &connection.requester];
        // A Send that could not be read may be the message that it answers. Responses to a request that
        // the capture lacks show that it lacks more.
        let sent = &ends[usize::from(other == known.requester)].sent;
        let unread = sent.other_sends > 0 || sent.unmatched_responses > 0;
        Finding::new(message)
            .by(self.from)
            .about(self.direction, self.xid)
            .frames([self.first.frame, self.seen.frame])
            .unless(self.lacks || unread || known.losses(other) > 0 || !certain)
    }
}
