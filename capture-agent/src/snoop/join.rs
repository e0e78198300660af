//! Joins the parts of a message, and the buffers of a Send.

use super::pages::Layout;
use super::probes::{ARRAY, MOST, PARTS, Point, SGES};
use std::collections::HashMap;
use std::sync::Arc;

/// A message that the transport has sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Nanoseconds of the trace clock.
    pub(super) time: u64,
    /// Whether this host sent it.
    pub(super) is_sent: bool,
    /// The kernel's address of the queue pair.
    pub(super) queue_pair: u64,
    /// The number of the queue pair.
    pub(super) number: u32,
    /// The index of its device.
    pub(super) device: u32,
    /// The handle that the Send invalidates.
    pub(super) invalidated: Option<u32>,
    /// The length of the message.
    pub(super) length: u32,
    /// Its first bytes.
    pub(super) bytes: Vec<u8>,
}

/// The first part of a message.
#[derive(Debug)]
struct Hit {
    point: Point,
    cpu: usize,
    time: u64,
    key: u64,
    data: Vec<u8>,
}

/// Another part of a message.
#[derive(Debug)]
struct Later {
    part: usize,
    of: Hit,
}

/// The RPC message that the server has mapped for a Send.
#[derive(Debug)]
struct Mapped {
    head: u64,
    tail: u64,
    tail_length: u64,
    bytes: Vec<u8>,
    tail_bytes: Vec<u8>,
}

/// Assembles messages.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    layouts: HashMap<u16, (Point, usize, Arc<Layout>)>,
    hits: Vec<Hit>,
    later: Vec<Later>,
    /// By the key of their Send.
    mapped: HashMap<u64, Mapped>,
}

/// Parts of a message are closer together than this, in nanoseconds. Their functions run without a
/// break, but a hypervisor may stop the processor between them. A buffer may hold the next message
/// soon after, so a part that is further away belongs to another one. Without it the message is cut.
const CLOSE: u64 = 50_000_000;
/// Maximum number of mapped messages that wait for their Send.
const MOST_MAPPED: usize = 4096;

impl Joiner {
    /// Adds the layout of an event.
    pub(super) fn add_layout(&mut self, id: u16, point: Point, part: usize, layout: Layout) {
        self.layouts.insert(id, (point, part, Arc::new(layout)));
    }

    /// Takes an event of a processor.
    pub(super) fn take(&mut self, cpu: usize, time: u64, data: &[u8]) {
        let Some(id) = data.first_chunk().map(|id| u16::from_ne_bytes(*id)) else { return };
        let Some((point, part, layout)) = self.layouts.get(&id) else { return };
        let key = layout.number("key", data);
        let hit = Hit { point: *point, cpu, time, key, data: data.to_vec() };
        match *part {
            0 => self.hits.push(hit),
            part => self.later.push(Later { part, of: hit }),
        }
    }

    /// Returns the messages before a time, in order. All their events must have been taken.
    pub(super) fn settle(&mut self, before: u64) -> Vec<Message> {
        self.hits.sort_by_key(|hit| hit.time);
        let settled = self.hits.partition_point(|hit| hit.time < before);
        let hits: Vec<Hit> = self.hits.drain(..settled).collect();
        let messages = hits.iter().filter_map(|hit| self.message(hit)).collect();
        self.later.retain(|later| later.of.time.saturating_add(CLOSE) >= before);
        messages
    }

    fn message(&mut self, hit: &Hit) -> Option<Message> {
        let layout = self.layout(hit.point, 0)?;
        let number = |name| layout.number(name, &hit.data);
        let word = |name| number(name) as u32;
        let own = self.first_piece(hit, number(hit.point.length()) as usize);
        let complete = |length: u32| (length, cut(&own, length as usize).to_vec());
        let (length, bytes) = match hit.point {
            Point::ServerMap => {
                if self.mapped.len() >= MOST_MAPPED {
                    self.mapped.clear();
                }
                let tail_bytes = layout.bytes("t0", &hit.data).to_vec();
                let [head, tail, tail_length] = ["head", "tail", "tail_length"].map(number);
                self.mapped.insert(hit.key, Mapped { head, tail, tail_length, bytes: own, tail_bytes });
                return None;
            }
            Point::ServerReceive if word("status") != 0 => return None,
            Point::ServerReceive | Point::ClientReceive => complete(word("length")),
            Point::ClientSend => {
                let header = [layout.bytes("h0", &hit.data), layout.bytes("h1", &hit.data)].concat();
                let [head, tail, tail_length] = ["head", "tail", "tail_length"].map(number);
                let tail_bytes = layout.bytes("t0", &hit.data).to_vec();
                let mapped = Mapped { head, tail, tail_length, bytes: own, tail_bytes };
                gathered(&sges(&layout, &hit.data), &header, Some(&mapped))
            }
            Point::ServerSend => {
                let mapped = self.mapped.remove(&hit.key);
                gathered(&sges(&layout, &hit.data), &own, mapped.as_ref())
            }
        };
        const SEND_WITH_INVALIDATE: u32 = 9;
        const WITH_INVALIDATE: u32 = 4;
        let is_sent = matches!(hit.point, Point::ClientSend | Point::ServerSend);
        let invalidates = match is_sent {
            true => word("opcode") == SEND_WITH_INVALIDATE,
            false => word("flags") & WITH_INVALIDATE != 0,
        };
        Some(Message {
            time: hit.time,
            is_sent,
            queue_pair: number("qp"),
            number: word("number"),
            device: word("device"),
            invalidated: invalidates.then(|| word("rkey")),
            length,
            bytes,
        })
    }

    fn layout(&self, point: Point, part: usize) -> Option<Arc<Layout>> {
        let mut layouts = self.layouts.values();
        layouts.find(|(of, at, _)| (*of, *at) == (point, part)).map(|(.., layout)| layout.clone())
    }

    /// The bytes of the piece that continues in other parts, up to the first missing part.
    fn first_piece(&mut self, hit: &Hit, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length.min(MOST));
        for part in (0..PARTS.len() - 1).take_while(|part| *part == 0 || length > PARTS[*part]) {
            let later;
            let data = match part {
                0 => &hit.data,
                part => match self.take_later(hit, part) {
                    Some(found) => {
                        later = found;
                        &later
                    }
                    None => break,
                },
            };
            let Some(layout) = self.layout(hit.point, part) else { break };
            for array in PARTS[part] / ARRAY..PARTS[part + 1] / ARRAY {
                bytes.extend_from_slice(layout.bytes(&format!("b{array}"), data));
            }
        }
        bytes
    }

    /// Removes the part of a message that is nearest in time.
    fn take_later(&mut self, hit: &Hit, part: usize) -> Option<Vec<u8>> {
        let is_part = |later: &Later| {
            let Hit { point, cpu, key, time, .. } = later.of;
            later.part == part
                && (point, cpu, key) == (hit.point, hit.cpu, hit.key)
                && time.abs_diff(hit.time) < CLOSE
        };
        let candidates = self.later.iter().enumerate().filter(|(_, later)| is_part(later));
        let (at, _) = candidates.min_by_key(|(_, later)| later.of.time.abs_diff(hit.time))?;
        Some(self.later.swap_remove(at).of.data)
    }
}

/// The address and the length of each SGE of a Send.
fn sges(layout: &Layout, data: &[u8]) -> Vec<(u64, u32)> {
    let number = (layout.number("sges", data) as usize).min(SGES);
    let sge = |bytes: &[u8; 16]| {
        let [address, length] =
            [0, 8].map(|at| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)));
        (address, if cfg!(target_endian = "little") { length as u32 } else { (length >> 32) as u32 })
    };
    layout.bytes("sge", data).as_chunks().0.iter().take(number).map(sge).collect()
}

/// The length of a Send, and its bytes up to the first that was not fetched.
///
/// The first SGE is the header. The second one is the head of the RPC message. The last of several
/// is the end of the tail; without the pad of an item in a chunk, it begins later than the tail. Those
/// between them are pages, which are not fetched. An SGE has a bus address, which has the offset
/// within the page in common with the address of the buffer.
fn gathered(sges: &[(u64, u32)], header: &[u8], mapped: Option<&Mapped>) -> (u32, Vec<u8>) {
    let length = sges.iter().fold(0, |sum: u32, (_, length)| sum.saturating_add(*length));
    let mut bytes = Vec::new();
    for (index, (address, length)) in sges.iter().enumerate() {
        let size = *length as usize;
        let is_at = |buffer: u64| (address ^ buffer) & 0xfff == 0;
        let piece = match (index, mapped) {
            (0, _) => header,
            (1, Some(mapped)) if is_at(mapped.head) => &mapped.bytes,
            (2.., Some(mapped)) if index + 1 == sges.len() => {
                let skipped = mapped.tail_length.wrapping_sub((*length).into());
                match usize::try_from(skipped).ok().and_then(|skipped| mapped.tail_bytes.get(skipped..)) {
                    Some(tail) if is_at(mapped.tail.wrapping_add(skipped)) => tail,
                    _ => break,
                }
            }
            _ => break,
        };
        bytes.extend_from_slice(cut(piece, size));
        if piece.len() < size {
            break;
        }
    }
    (length, bytes)
}

fn cut(bytes: &[u8], length: usize) -> &[u8] {
    &bytes[..bytes.len().min(length)]
}

#[cfg(test)]
mod tests;
