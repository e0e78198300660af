//! Composes a RoCEv2 frame for each message.
//!
//! Addresses and queue pair numbers are those of the connection. The rest is synthetic: PSNs count
//! the messages of each end from 0, and each message is one packet, whatever the path MTU. Over
//! iWARP, an end has no number for the other one, and gets [`UNNUMBERED`] and its own.

use super::join::Message;
use crate::inventory::{Connected, Inventory, to_text};
use core::net::IpAddr;
use rdmascope_dissector::record::Time;
use rdmascope_wire::bth::{Bth, Extensions, Opcode};
use rdmascope_wire::compose::{Carrier, Frame, Ipv4, Ipv6, Udp};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, Rkey};
use std::collections::{HashMap, VecDeque};

/// Added to the number of a queue pair whose counterpart has none.
const UNNUMBERED: u32 = 0x80_0000;
const SEND_ONLY_WITH_INVALIDATE: Opcode = Opcode(0x17);
const DEFAULT_PARTITION: u16 = 0xffff;
/// The longest message for a frame, in bytes.
const LONGEST: u32 = 65_000;
/// Bytes of the ICRC, which ends a frame.
const ICRC: usize = 4;
/// Maximum number of connections to remember.
const MOST: usize = 65_536;

/// A frame, or a note.
#[derive(Debug, Default)]
pub(super) struct Composed {
    /// The text of an inventory note. Then there is no frame.
    pub(super) note: Option<String>,
    pub(super) time: Time,
    pub(super) bytes: Vec<u8>,
    /// Length of the frame before truncation.
    pub(super) length: u32,
    /// Events lost before it.
    pub(super) dropped: u64,
}

/// A connection, and the next PSN of each end: the local one first.
#[derive(Debug)]
struct Known {
    connection: Connected,
    psns: [Psn; 2],
}

/// The kernel did not list the connection at this time of the trace clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct NotFound(u64);

/// Time until the kernel is queried again for a connection that was not found, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// Composes frames.
#[derive(Debug)]
pub(super) struct Frames {
    inventory: Inventory,
    /// Maximum number of bytes of a message to keep.
    bytes: usize,
    /// By the kernel's address of the queue pair, and its number.
    known: HashMap<(u64, u32), Result<Known, NotFound>>,
    unplaced: u64,
}

impl Frames {
    pub(super) fn new(inventory: Inventory, bytes: usize) -> Frames {
        Frames { inventory, bytes, known: HashMap::new(), unplaced: 0 }
    }

    /// Number of messages without a frame.
    pub(super) fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Returns the frame of a message. Before the first one of a connection, appends a note about it.
    pub(super) fn compose(
        &mut self,
        message: &Message,
        time: Time,
        notes: &mut VecDeque<Composed>,
    ) -> Option<Composed> {
        let key = (message.queue_pair, message.number);
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let is_due = match self.known.get(&key) {
            Some(Ok(_)) => false,
            Some(Err(NotFound(tried))) => message.time.saturating_sub(*tried) >= PATIENCE,
            None => true,
        };
        if is_due {
            let known = self.find(message).ok_or(NotFound(message.time));
            if let Ok(Known { connection, .. }) = &known {
                let note = to_text(core::slice::from_ref(connection));
                notes.push_back(Composed { note: Some(note), ..Composed::default() });
            }
            self.known.insert(key, known);
        }
        let frame = match self.known.get_mut(&key) {
            Some(Ok(known)) => known.frame(message, time, self.bytes),
            _ => None,
        };
        self.unplaced += u64::from(frame.is_none());
        frame
    }

    /// Queries the kernel for the connection of a queue pair.
    fn find(&self, message: &Message) -> Option<Known> {
        let devices = self.inventory.devices().ok()?;
        let device = devices.iter().find(|device| device.index == message.device)?;
        let found = self.inventory.of_device(device).ok()?;
        let mut found = found.into_iter().find(|one| one.local_qp == message.number)?;
        if found.remote_qp == 0 {
            found.remote_qp = UNNUMBERED | found.local_qp;
        }
        let connection = Connected { send_psn: None, receive_psn: None, is_snooped: true, ..found };
        let psns = psns_after(self.known.values().flatten(), &connection);
        Some(Known { connection, psns })
    }
}

/// The next PSNs of a connection. Its queue pairs may have the numbers of closed ones, and their PSNs
/// then continue, because the same PSNs would be those of repeated packets.
fn psns_after<'a>(known: impl Iterator<Item = &'a Known>, connection: &Connected) -> [Psn; 2] {
    let is_same = |known: &&Known| {
        let Connected { local_qp, remote_qp, source, destination, .. } = &known.connection;
        (*local_qp, *remote_qp) == (connection.local_qp, connection.remote_qp)
            && [source.ip(), destination.ip()] == [connection.source.ip(), connection.destination.ip()]
    };
    let before = known.filter(is_same).map(|known| known.psns);
    before.max_by_key(|psns| psns[0].value()).unwrap_or([Psn::new(0); 2])
}

impl Known {
    /// `None` if the addresses are of two families, or the message is too long for a frame.
    fn frame(&mut self, message: &Message, time: Time, most: usize) -> Option<Composed> {
        if message.length > LONGEST {
            return None;
        }
        let Connected { source, destination, local_qp, remote_qp, .. } = &self.connection;
        let (local, remote) = (source.ip().to_canonical(), destination.ip().to_canonical());
        let (from, to, number, psn) = match message.is_sent {
            true => (local, remote, *remote_qp, &mut self.psns[0]),
            false => (remote, local, *local_qp, &mut self.psns[1]),
        };
        let carrier = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Carrier::Ipv4(Ipv4::new(from, to), Udp::default()),
            (IpAddr::V6(from), IpAddr::V6(to)) => Carrier::Ipv6(Ipv6::new(from, to), Udp::default()),
            _ => return None,
        };
        let mut payload = message.bytes.clone();
        payload.resize(message.length as usize, 0);
        let frame = Frame {
            ethernet: None,
            carrier,
            bth: Bth {
                opcode: match message.invalidated {
                    Some(_) => SEND_ONLY_WITH_INVALIDATE,
                    None => Opcode::RC_SEND_ONLY,
                },
                partition_key: DEFAULT_PARTITION,
                destination_qp: Qpn(number),
                psn: *psn,
                ..Bth::default()
            },
            extensions: Extensions { ieth: message.invalidated.map(Rkey), ..Extensions::default() },
            payload: &payload,
        };
        let mut bytes = frame.to_vec().ok()?;
        *psn = psn.plus(1);
        let length = bytes.len();
        let padding = payload.len().wrapping_neg() & 3;
        let kept = message.bytes.len().min(most);
        if kept < payload.len() {
            // Bytes that were not fetched are missing, as if a snap length had cut the packet.
            bytes.truncate(length - ICRC - padding - (payload.len() - kept));
        }
        Some(Composed { time, bytes, length: length as u32, ..Composed::default() })
    }
}

#[cfg(test)]
mod tests;
