//! Sessions and their slots, across all connections (RFC 8881, section 2.10.6.1).

use super::{Fault, Kind, SessionUse, other_result};
use crate::bounded;
use crate::finding::{Basis, Finding, Value};
use crate::judged::by_caller;
use crate::known::{Known, is_close};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Outcome, Seen, Transaction};
use rdmascope_dissector::ulb::{
    Callback, Details, Nfs4, Operation, OperationKind, Sequence, SessionId, Text,
};
use rdmascope_wire::Xid;
use rdmascope_wire::nfs::nfsstat4;

/// The sessions created or used last, of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionTable {
    /// Oldest first.
    sessions: VecDeque<Session>,
}

/// A session.
#[derive(Clone, Debug)]
struct Session {
    id: SessionId,
    /// The state of the callers of both directions at its creation; `None` if the capture lacks
    /// that.
    created: Option<[History; 2]>,
    /// By direction.
    channels: [Channel; 2],
}

/// The fore channel or the backchannel.
#[derive(Clone, Debug, Default)]
struct Channel {
    /// The highest slot that the replier ever named, with the frame.
    highest: Option<(u32, u64)>,
    /// The lowest of the highest slots that it named: it may have discarded slots above that.
    lowest: Option<u32>,
    /// Slots at their remainders: of those with the same remainder, the one used last.
    slots: Vec<Option<Slot>>,
}

/// The latest request on a slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u32,
    last: Use,
    /// Whether the next sequence ID has been used is unknown.
    unsure: bool,
    /// The last request skipped sequence IDs. The next one shows whether they were used.
    jump: Option<Jump>,
    /// Sequence IDs were skipped before, so requests also use another connection.
    elsewhere: bool,
}

/// A request on a slot.
#[derive(Clone, Copy, Debug)]
struct Use {
    number: u32,
    call: Seen,
    reply: Option<Seen>,
    xid: Xid,
    /// [`Transaction::number`].
    transaction: u64,
    /// [`Transaction::begun`].
    begun: u64,
    /// A hash of its operations and their arguments.
    operations: u64,
    history: History,
}

/// A request that skipped sequence IDs.
#[derive(Clone, Copy, Debug)]
struct Jump {
    /// The sequence ID before it.
    before: u32,
    /// The packet of the request with that sequence ID.
    frame: Option<u64>,
}

/// The gaps in an end's calls up to a request. Between two requests with equal histories, no
/// request is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct History {
    connection: ConnectionId,
    /// Packets that the capture lacks plus calls that could not be read.
    lacks: Option<u64>,
}

impl SessionTable {
    /// Sessions that are kept.
    const MOST: usize = 64;
    /// Slots of a channel that are kept.
    const MOST_SLOTS: u32 = 512;

    /// Heap bytes that its lists take up.
    pub(crate) fn footprint(&self) -> usize {
        let channels = self.sessions.iter().flat_map(|session| &session.channels);
        let slots: usize = channels.map(|channel| size_of_val(&channel.slots[..])).sum();
        self.sessions.len() * size_of::<Session>() + slots
    }

    fn find(&mut self, id: SessionId) -> &mut Session {
        let known = self.sessions.iter().rposition(|session| session.id == id);
        let at = known.unwrap_or_else(|| {
            let session = Session { id, created: None, channels: Default::default() };
            bounded::push(&mut self.sessions, SessionTable::MOST, session);
            self.sessions.len() - 1
        });
        &mut self.sessions[at]
    }

    /// Records a finished transaction, and returns the faults in the use of its slot.
    pub(crate) fn note(&mut self, transaction: &Transaction, known: &Known, used: &SessionUse) -> Vec<Fault> {
        let facts = &transaction.details.session;
        if let (Some((id, fore)), Some(reply)) = (facts.created, &transaction.reply) {
            self.sessions.retain(|session| session.id != id);
            let session = self.find(id);
            session.created = Some(
                [Direction::Forward, Direction::Backward]
                    .map(|direction| History::of(transaction, known.caller(direction), known, used)),
            );
            let back = transaction.details.backchannel.and_then(|facts| facts.granted);
            for (channel, granted) in session.channels.iter_mut().zip([Some(fore), back]) {
                if let Some(granted) = granted {
                    channel.note_highest(granted.most_requests.saturating_sub(1), reply.seen.frame);
                }
            }
        }
        match (facts.sequence, &transaction.call) {
            (Some(sequence), Some(_)) => self.find(sequence.session).note(transaction, sequence, known, used),
            _ => Vec::new(),
        }
    }
}

impl History {
    fn of(transaction: &Transaction, caller: End, known: &Known, used: &SessionUse) -> History {
        let lacks = known.losses(caller).saturating_add(used.unread[caller]);
        // A reply that the capture shows late was sent before, perhaps before a request that seems
        // to precede it.
        let is_late = known.is_shown_late[caller.other()];
        let is_known = !transaction.lossy && !is_late && transaction.outcome != Outcome::NoCall;
        History { connection: known.connection, lacks: is_known.then_some(lacks) }
    }

    /// Whether nothing is missing between two requests.
    fn is_contiguous_with(&self, other: &History) -> bool {
        self == other && self.lacks.is_some()
    }
}

impl Channel {
    fn note_highest(&mut self, slot: u32, frame: u64) {
        if self.highest.is_none_or(|(highest, _)| highest < slot) {
            self.highest = Some((slot, frame));
        }
        self.lowest = Some(self.lowest.map_or(slot, |lowest| lowest.min(slot)));
    }
}

impl Session {
    fn note(
        &mut self,
        transaction: &Transaction,
        sequence: Sequence,
        known: &Known,
        used: &SessionUse,
    ) -> Vec<Fault> {
        let mut faults = Vec::new();
        let Some(call) = &transaction.call else { return faults };
        let answer = transaction.details.operations.iter().find(is_sequence);
        let status = answer.and_then(|operation| operation.status);
        let caller = known.caller(transaction.direction);
        let channel = &mut self.channels[transaction.direction as usize];

        if let Some((highest, frame)) = channel.highest.filter(|(highest, _)| sequence.slot > *highest) {
            // The replier may have raised the limit on another connection of the session.
            let message = format!("slot {} of a session with slots 0 to {highest}", sequence.slot);
            let finding = by_caller(transaction, known, message)
                .frames([frame])
                .values(Value::Count(sequence.slot.into()), Value::Count(highest.into()))
                .unless(status != Some(nfsstat4::BADSLOT));
            faults.push(Fault { kind: Kind::Slot, finding });
        } else {
            let history = History::of(transaction, caller, known, used);
            let request = Use {
                number: sequence.number,
                call: call.first,
                reply: transaction.reply.as_ref().map(|reply| reply.first),
                xid: transaction.xid,
                transaction: transaction.number,
                begun: transaction.begun,
                operations: hash_of(&transaction.details),
                history,
            };
            let at = (sequence.slot % SessionTable::MOST_SLOTS) as usize;
            if channel.slots.len() <= at {
                channel.slots.resize(at + 1, None);
            }
            let current = channel.slots[at];
            let last = current.filter(|slot| slot.id == sequence.slot);
            let is_next = |slot: &Slot| matches!(sequence.number.wrapping_sub(slot.last.number), 0 | 1);
            let given = transaction.details.session.sequenced.map(|sequenced| sequenced.of);
            if let Some(given) = given.filter(|given| *given != sequence && last.as_ref().is_none_or(is_next))
            {
                faults.push(other_result(transaction, known, sequence, given));
            }
            // If a replier discards slots and adds them again, their sequence IDs restart.
            let regrown = channel.lowest.is_some_and(|lowest| sequence.slot > lowest);
            // A slot that was replaced by another one may have been used.
            let is_unused = !regrown && current.is_none();
            let created =
                self.created.filter(|_| is_unused).map(|created| created[transaction.direction as usize]);
            let first = created.map(|history| Slot {
                id: sequence.slot,
                last: Use {
                    number: 0,
                    begun: 0,
                    call: Seen { frame: 0, ..call.first },
                    reply: None,
                    history,
                    ..request
                },
                unsure: false,
                jump: None,
                elsewhere: false,
            });
            if let Some(busy) = last.as_ref().and_then(|slot| overlap(&slot.last, &request)) {
                let (early, late, certain) = busy;
                let words =
                    format!("a request on slot {} while another one is outstanding on it", sequence.slot);
                let ends = [early.reply, late.reply].into_iter().flatten();
                let frames = ends.chain([early.call, late.call]).map(|seen| seen.frame);
                let mut finding = Finding::new(words).by(caller).frames(frames).unless(!certain);
                finding = finding
                    .about(Some(transaction.direction), late.xid)
                    .values(Value::Count(2), Value::Count(1));
                finding.transaction = Some(late.transaction);
                faults.push(Fault { kind: Kind::Busy, finding });
            }
            let restarted = regrown && sequence.number == 1;
            match last.filter(|_| !restarted).or(first) {
                Some(slot) if slot.last.precedes(&request) => {
                    let next = slot.next(&request, status, transaction, known, &mut faults);
                    channel.slots[at] = Some(next);
                }
                // Sent before a request that ended earlier.
                Some(_) => {}
                None => {
                    let id = sequence.slot;
                    channel.slots[at] =
                        Some(Slot { id, last: request, unsure: true, jump: None, elsewhere: false });
                }
            }
        }
        if let (Some(facts), Some(reply)) = (transaction.details.session.sequenced, &transaction.reply) {
            channel.note_highest(facts.highest, reply.seen.frame);
            channel.note_highest(facts.target, reply.seen.frame);
        }
        faults
    }
}

impl Use {
    /// Whether it was sent before another request. The requests of a connection begin in the order in
    /// which they were sent, which may not be that of the capture.
    fn precedes(&self, other: &Use) -> bool {
        if self.history.connection == other.history.connection {
            self.begun < other.begun
        } else {
            self.call.frame < other.call.frame
        }
    }
}

/// Two requests that were outstanding on one slot at the same time: the earlier one, the later one,
/// and whether reordering by the capture is ruled out. The order of one end's packets is certain.
fn overlap<'a>(one: &'a Use, other: &'a Use) -> Option<(&'a Use, &'a Use, bool)> {
    if one.history.connection != other.history.connection {
        return None;
    }
    let (early, late) = if one.precedes(other) { (one, other) } else { (other, one) };
    let (answered, call) = (early.reply?, late.call);
    if call.frame >= answered.frame {
        return None;
    }
    let out_of_order = late.reply.is_some_and(|reply| reply.frame < answered.frame);
    let is_known = early.history.is_contiguous_with(&late.history);
    Some((early, late, is_known && (out_of_order || !is_close(call, answered))))
}

impl Slot {
    /// The state of the slot after a request that was sent after the last one.
    fn next(
        mut self,
        request: &Use,
        status: Option<u32>,
        transaction: &Transaction,
        known: &Known,
        faults: &mut Vec<Fault>,
    ) -> Slot {
        let Slot { id: slot, last, unsure, jump, .. } = self;
        let is_known = last.history.is_contiguous_with(&request.history);
        let step = request.number.wrapping_sub(last.number) as i32;
        let busy = faults.iter().any(|fault| fault.kind == Kind::Busy);
        let mut report = |request: &Use, before: u32, frames: [Option<u64>; 2], basis: Basis| {
            let message = match request.number == before {
                true => format!("another request with sequence ID {before} on slot {slot}"),
                false => format!("sequence ID {} on slot {slot} after {before}", request.number),
            };
            let reply = request.reply.map(|reply| reply.frame);
            let finding = Finding::new(message)
                .by(known.caller(transaction.direction))
                .about(Some(transaction.direction), request.xid)
                .frames(frames.into_iter().flatten().chain([request.call.frame]).chain(reply))
                .values(Value::Count(request.number.into()), Value::Count(before.wrapping_add(1).into()))
                .rests_on(basis);
            let finding = Finding { transaction: Some(request.transaction), ..finding };
            faults.push(Fault { kind: Kind::Order, finding });
        };
        let frame = |seen: &Use| (seen.call.frame > 0).then_some(seen.call.frame);
        if let Some(jump) = jump.filter(|_| is_known) {
            // The requests in between may have used a connection that was not captured, or have no
            // reply yet. Only a lower sequence ID shows that they were not sent, unless the last
            // request may have been refused.
            let goes_back = step < 0;
            let basis = if goes_back && !unsure { Basis::Packets } else { Basis::Lacking };
            report(&last, jump.before, [jump.frame, goes_back.then_some(request.call.frame)], basis);
            if goes_back {
                return Slot { last: *request, unsure: true, jump: None, ..self };
            }
            self.elsewhere = true;
        }
        self.jump = None;
        let in_order = step == 1 || (unsure && matches!(step, 0..=2)) || !is_known;
        let is_same =
            request.xid == last.xid || request.operations == last.operations || transaction.stop.is_some();
        match status {
            // The replier did not accept it, so the slot is unchanged.
            Some(nfsstat4::SEQ_MISORDERED) if !in_order && step != 0 && !busy => {
                report(request, last.number, [frame(&last), None], Basis::Packets);
                return self;
            }
            Some(nfsstat4::SEQ_FALSE_RETRY) if !in_order && step == 0 && !is_same => {
                report(request, last.number, [frame(&last), None], Basis::Packets);
                return self;
            }
            Some(status) if status != 0 => return self,
            _ => {}
        }
        let unsure = status.is_none();
        if in_order || busy || (self.elsewhere && step > 1) {
            return Slot { last: *request, unsure: unsure || busy, ..self };
        }
        match step {
            0 => {
                if !is_same {
                    report(request, last.number, [frame(&last), None], Basis::Packets);
                }
                Slot { last: Use { reply: request.reply, ..last }, ..self }
            }
            1.. => Slot {
                last: *request,
                unsure,
                jump: Some(Jump { before: last.number, frame: frame(&last) }),
                ..self
            },
            _ => {
                // A client whose requests are refused may try lower sequence IDs.
                let basis = if self.unsure { Basis::Lacking } else { Basis::Packets };
                report(request, last.number, [frame(&last), None], basis);
                Slot { last: Use { history: request.history, ..last }, unsure: true, ..self }
            }
        }
    }
}

fn is_sequence(operation: &&Operation) -> bool {
    matches!(
        operation.kind,
        OperationKind::Nfs4(Nfs4::Sequence) | OperationKind::Callback(Callback::Sequence)
    )
}

/// A hash of operations and those of their arguments that are stored. The data of a WRITE counts
/// with its length.
fn hash_of(details: &Details) -> u64 {
    let mix = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x100_0000_01b3) ^ (hash >> 32);
    let text = |hash: u64, text: Option<Text>| {
        let bytes = text.map_or(&[][..], |text| details.bytes(text));
        bytes.iter().fold(mix(hash, bytes.len() as u64), |hash, byte| mix(hash, u64::from(*byte)))
    };
    details.operations.iter().fold(0, |hash, operation| {
        // The text of a link may be that of the result.
        let other_name = operation.other_name.filter(|_| operation.result_item.is_none());
        let texts = [operation.file_handle, operation.other_file_handle, operation.file_name, other_name];
        let hash = texts.into_iter().fold(mix(hash, operation.code().into()), text);
        let numbers = [operation.offset, operation.count, operation.size];
        numbers.into_iter().fold(hash, |hash, number| mix(hash, number.map_or(u64::MAX, |number| number)))
    })
}
