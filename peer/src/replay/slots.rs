//! The slots of NFSv4 sessions (RFC 8881, section 2.10.6).
//!
//! If a target grants fewer slots than the recorded server did, each call is moved to a slot that
//! the target grants. A call that is not sent leaves no gap in the sequence IDs of its slot.

use super::fields::{Field, Fields, Place};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The most slots of a session that are used, even if the target grants more.
const MOST_SLOTS: u32 = 1024;
/// The most sessions whose slots are tracked. Calls of further sessions are sent as recorded.
const MOST_SESSIONS: usize = 64;

type SessionId = [u8; 16];

/// A sequence ID and its slot ID.
pub(super) type Turn = (u32, u32);

/// The SEQUENCE or CB_SEQUENCE at the start of a call, or of a reply in which it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) session: SessionId,
    pub(super) turn: Turn,
    highest: u32,
    /// The offset of the sequence ID in the message. Slot ID and highest slot ID follow it.
    at: usize,
}

impl Sequence {
    /// Finds it among the fields of a message.
    pub(super) fn of(fields: &Fields, message: &[u8]) -> Option<Sequence> {
        let is_of = |field: &&Field| matches!(field.operation, Some((0, "SEQUENCE" | "CB_SEQUENCE")));
        let mut own = fields.list.iter().filter(is_of).skip_while(|field| field.name != "session ID");
        let session = own.next()?.bytes(message, &[]);
        let [sequence, slot, highest] = [own.next()?, own.next()?, own.next()?];
        let Place::Stream(range) = &sequence.place else { return None };
        let number = |field: &Field| Some(u32::from_be_bytes(field.bytes(message, &[]).try_into().ok()?));
        Some(Sequence {
            session: session.try_into().ok()?,
            turn: (number(sequence)?, number(slot)?),
            highest: number(highest)?,
            at: range.start,
        })
    }

    /// Overwrites the sequence ID in its message, and the numbers that follow it.
    pub(super) fn put(&self, numbers: &[u32], message: &mut [u8]) {
        let words = message.get_mut(self.at..).unwrap_or_default().chunks_exact_mut(4);
        for (word, number) in words.zip(numbers) {
            word.copy_from_slice(&number.to_be_bytes());
        }
    }
}

/// The target's slot that a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    session: SessionId,
    /// Sequence ID and slot ID of the recorded call, and of the call that is sent.
    pub(super) recorded: Turn,
    pub(super) live: Turn,
    /// The highest slot ID in the call.
    pub(super) highest: u32,
}

/// The slots of the target's sessions, by recorded session ID.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Clone, Debug, Default)]
struct Session {
    /// The number of slots that the target grants.
    granted: u32,
    slots: Vec<Slot>,
    /// By recorded slot ID.
    last: BTreeMap<u32, Last>,
}

/// A slot of the target.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The last sequence ID.
    sequence: u32,
    /// Whether its call is outstanding.
    is_taken: bool,
}

/// The last call on a recorded slot.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    sequence: u32,
    /// `None` if the call was not sent.
    live: Option<Turn>,
}

/// The result of [`Slots::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A slot is reserved for the call.
    Slot(Taken),
    /// No slot is free.
    None,
    /// The target has no such session; the call is sent as recorded.
    NoSession,
}

impl Slots {
    /// Notes a session of the target with `granted` slots.
    pub(super) fn created(&mut self, session: &[u8], granted: u32) {
        let Ok(session) = SessionId::try_from(session) else { return };
        if self.sessions.len() < MOST_SESSIONS || self.sessions.contains_key(&session) {
            self.sessions.insert(session, Session { granted, ..Session::default() });
        }
    }

    /// Reserves a slot for a call: the recorded one if it is granted and free, else the first free
    /// one.
    pub(super) fn take(&mut self, call: &Sequence) -> Room {
        let Some(session) = self.sessions.get_mut(&call.session) else { return Room::NoSession };
        let Some(live) = session.turn(call.turn) else { return Room::None };
        let (sequence, slot) = call.turn;
        session.slots[live.1 as usize] = Slot { sequence: live.0, is_taken: true };
        session.last.insert(slot, Last { sequence, live: Some(live) });
        let highest = call.highest.min(session.granted.saturating_sub(1)).max(live.1);
        Room::Slot(Taken { session: call.session, recorded: call.turn, live, highest })
    }

    /// Reserves a free slot for a call that the recording lacks.
    pub(super) fn take_more(&mut self, call: &Sequence) -> Option<Taken> {
        let session = self.sessions.get_mut(&call.session)?;
        let id = session.free(0)?;
        let slot = &mut session.slots[id as usize];
        *slot = Slot { sequence: slot.sequence.wrapping_add(1), is_taken: true };
        let live = (slot.sequence, id);
        Some(Taken { session: call.session, recorded: (0, u32::MAX), live, highest: id })
    }

    /// Notes that a call is not sent.
    pub(super) fn pass(&mut self, call: &Sequence) {
        if let Some(session) = self.sessions.get_mut(&call.session) {
            let (sequence, slot) = call.turn;
            session.last.insert(slot, Last { sequence, live: None });
        }
    }

    /// Releases the slot of a call that has ended.
    ///
    /// `accepted` has whether SEQUENCE succeeded in the recording, and whether it succeeded now; a
    /// slot keeps its sequence ID if it failed. `reply` is the live SEQUENCE.
    pub(super) fn end(&mut self, taken: &Taken, accepted: [bool; 2], reply: Option<&Sequence>) {
        let Some(session) = self.sessions.get_mut(&taken.session) else { return };
        let [was_accepted, is_accepted] = accepted;
        if let Some(slot) = session.slots.get_mut(taken.live.1 as usize) {
            slot.is_taken = false;
            if !is_accepted && slot.sequence == taken.live.0 {
                slot.sequence = slot.sequence.wrapping_sub(1);
            }
        }
        if let Some(last) = session.last.get_mut(&taken.recorded.1)
            && !was_accepted
            && last.sequence == taken.recorded.0
        {
            last.sequence = last.sequence.wrapping_sub(1);
        }
        if let Some(reply) = reply {
            session.granted = reply.highest.saturating_add(1);
        }
    }
}

impl Session {
    fn turn(&mut self, (sequence, slot): Turn) -> Option<Turn> {
        let last = self.last.get(&slot).copied().unwrap_or_default();
        let step = sequence.wrapping_sub(last.sequence);
        match last.live {
            // A retransmission by the client.
            Some(live) if step == 0 => Some(live),
            _ => {
                let slot = self.free(slot)?;
                Some((self.slots[slot as usize].sequence.wrapping_add(step.max(1)), slot))
            }
        }
    }

    fn free(&mut self, preferred: u32) -> Option<u32> {
        let granted = self.granted.min(MOST_SLOTS);
        if self.slots.len() < granted as usize {
            self.slots.resize(granted as usize, Slot::default());
        }
        let is_free = |slot: &u32| *slot < granted && !self.slots[*slot as usize].is_taken;
        core::iter::once(preferred).chain(0..granted).find(is_free)
    }
}

/// The number of slots that the reply to CREATE_SESSION grants to the fore channel.
pub(super) fn granted(fields: &Fields, stream: &[u8]) -> Option<u32> {
    let is_it = |field: &&Field| {
        field.name == "ca_maxrequests" && field.operation.is_some_and(|(_, name)| name == "CREATE_SESSION")
    };
    let bytes = fields.list.iter().find(is_it)?.bytes(stream, &[]);
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = [7; 16];

    fn call(sequence: u32, slot: u32) -> Sequence {
        Sequence { session: SESSION, turn: (sequence, slot), highest: slot, at: 0 }
    }

    fn slots(granted: u32) -> Slots {
        let mut slots = Slots::default();
        slots.created(&SESSION, granted);
        slots
    }

    fn taken(slots: &mut Slots, sequence: u32, slot: u32) -> Taken {
        match slots.take(&call(sequence, slot)) {
            Room::Slot(taken) => taken,
            room => panic!("{room:?}"),
        }
    }

    #[test]
    fn calls_use_their_recorded_slot_if_it_is_granted() {
        let mut slots = slots(2);
        let first = taken(&mut slots, 1, 1);
        assert_eq!((first.live, first.highest), ((1, 1), 1));
        let second = taken(&mut slots, 1, 5);
        assert_eq!((second.live, second.highest), ((1, 0), 1));
        assert_eq!(slots.take(&call(1, 0)), Room::None);
        slots.end(&first, [true; 2], None);
        // Each slot of the target has its own sequence IDs.
        assert_eq!(taken(&mut slots, 1, 0).live, (2, 1));
        assert_eq!(slots.take(&Sequence { session: [8; 16], ..call(1, 0) }), Room::NoSession);
        // The target raises its grant later.
        slots.end(&second, [true; 2], Some(&Sequence { highest: 5, ..call(1, 0) }));
        assert_eq!(taken(&mut slots, 2, 5).live, (1, 5));
    }

    #[test]
    fn sequence_ids_have_no_gaps_and_failed_calls_reuse_theirs() {
        let mut slots = slots(4);
        let mut turn = |sequence, accepted| {
            let taken = taken(&mut slots, sequence, 3);
            slots.end(&taken, accepted, None);
            taken.live.0
        };
        assert_eq!([turn(1, [true; 2]), turn(2, [true; 2]), turn(2, [true; 2])], [1, 2, 2]);
        // A slot keeps its sequence ID if SEQUENCE failed: on both sides, only live, only in the
        // recording.
        assert_eq!([turn(3, [false; 2]), turn(3, [true; 2])], [3, 3]);
        assert_eq!([turn(4, [true, false]), turn(5, [true; 2])], [4, 4]);
        assert_eq!([turn(6, [false, true]), turn(6, [true; 2])], [5, 6]);
        slots.pass(&call(7, 3));
        slots.pass(&call(8, 3));
        assert_eq!(taken(&mut slots, 9, 3).live, (7, 3));
    }
}
