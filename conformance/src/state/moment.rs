//! Requests that a server answered, and their order.

use crate::known::is_close;
use rdmascope_dissector::transaction::{Message, Seen};

/// A stateid of a session's client: the scope of the session, and the twelve bytes that do not
/// change.
pub(super) type Key = (u64, [u8; 12]);

/// A request that the server answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The first packet of the call.
    call: Seen,
    /// The packet that completed the reply.
    reply: Seen,
    /// The scope of the session, slot and sequence ID.
    pub(super) slot: Option<(u64, u32, u32)>,
}

impl Moment {
    pub(super) fn of(call: &Message, reply: &Message, slot: Option<(u64, u32, u32)>) -> Moment {
        Moment { call: call.first, reply: reply.seen, slot }
    }

    pub(super) fn frames(&self) -> [u64; 2] {
        [self.call.frame, self.reply.frame]
    }

    /// Whether the server had answered this request before it received `later`: both used one slot,
    /// or they are too far apart for the capture to have reordered them.
    pub(super) fn is_before(&self, later: &Moment) -> bool {
        if self.reply.frame >= later.call.frame {
            return false;
        }
        let is_same_slot = match (self.slot, later.slot) {
            (Some((scope, slot, number)), Some((later_scope, later_slot, later_number))) => {
                (scope, slot) == (later_scope, later_slot) && is_later(later_number, number)
            }
            _ => false,
        };
        is_same_slot || !is_close(self.reply, later.call)
    }
}

/// Whether a wrapping number is later than another one.
pub(super) fn is_later(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}
