//! Replaces recorded names in calls (file handles, stateids, session IDs) by the target's.

use super::compare::hexadecimal;
use super::fields::{Coding, Fields, Kind, Place};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::xdr::put_opaque;

/// The most recorded names that are mapped to names of the target. Further names are sent as
/// recorded.
pub const MOST_MAPPED: usize = 1 << 18;

/// The map from recorded names to the target's.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    names: BTreeMap<(Kind, Vec<u8>), Vec<u8>>,
}

/// A call with the target's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Substituted {
    /// The complete call.
    pub(super) message: Vec<u8>,
    /// The ranges of its DDP-eligible items.
    pub(super) items: Vec<Range<usize>>,
    /// Names that no reply had introduced, sent as recorded: the field, and its bytes.
    pub(super) unknown: Vec<(&'static str, String)>,
    /// Stateids that no reply had introduced, in the same form. A server refuses them, so its reply
    /// would not test the operation.
    pub(super) stateids: Vec<(&'static str, String)>,
}

impl Names {
    /// Maps a recorded name to the target's. A later mapping replaces an earlier one.
    pub(super) fn learn(&mut self, kind: Kind, recorded: &[u8], live: &[u8]) {
        if is_special(recorded) {
            return;
        }
        let room = self.names.len() < MOST_MAPPED;
        let key = (kind, recorded.to_vec());
        match self.names.get_mut(&key) {
            Some(known) if known != live => *known = live.to_vec(),
            None if room => {
                self.names.insert(key, live.to_vec());
            }
            _ => {}
        }
    }

    /// The target's name for a recorded one.
    pub(super) fn live(&self, kind: Kind, recorded: &[u8]) -> Option<&[u8]> {
        self.names.get(&(kind, recorded.to_vec())).map(Vec::as_slice)
    }

    /// Replaces the recorded names in a message by the target's.
    pub(super) fn substitute(&self, message: &[u8], items: &[Range<usize>], fields: &Fields) -> Substituted {
        let mut out = Substituted {
            message: Vec::new(),
            items: items.to_vec(),
            unknown: Vec::new(),
            stateids: Vec::new(),
        };
        let mut from = 0;
        for field in fields.list.iter().filter(|field| field.kind.is_mapped()) {
            let Place::Stream(range) = &field.place else { continue };
            let recorded = &message[range.clone()];
            let Some(live) = self.names.get(&(field.kind, recorded.to_vec())) else {
                match field.kind {
                    _ if is_special(recorded) => {}
                    // A client counts this number up by itself.
                    Kind::Sequence => {}
                    Kind::Stateid => out.stateids.push((field.name, hexadecimal(recorded))),
                    _ => out.unknown.push((field.name, hexadecimal(recorded))),
                }
                continue;
            };
            if live == recorded {
                continue;
            }
            let is_counted = field.coding == Coding::Counted;
            let (start, end) = match is_counted {
                true => (range.start - 4, range.end.next_multiple_of(4).min(message.len())),
                false => (range.start, range.end),
            };
            out.message.extend_from_slice(&message[from..start]);
            let before = out.message.len();
            match is_counted {
                true => put_opaque(&mut out.message, live),
                false => out.message.extend_from_slice(live),
            }
            let grown = out.message.len() - before;
            for (item, old) in out.items.iter_mut().zip(items).filter(|(_, old)| old.start >= end) {
                // No overflow: both are offsets in messages that exist.
                let shift = |at: usize| at + grown - (end - start);
                (item.start, item.end) = (shift(item.start), shift(item.end));
                debug_assert_eq!(item.len(), old.len());
            }
            from = end;
        }
        out.message.extend_from_slice(&message[from..]);
        out
    }
}

/// Special stateids, and empty or unset names: no Responder chooses these (RFC 8881, section
/// 8.2.3).
fn is_special(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff)
}
