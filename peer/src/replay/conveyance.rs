//! How a live reply was conveyed, beside how the recorded one was.
//!
//! A difference counts where two Responders that keep to RFC 8166 and RFC 8797 cannot differ so, given the same chunks and the same inline
//! threshold. Credits are not compared.

use super::compare::{MOST_DIFFERENCES, Message};
use super::fields::{Fields, Place};
use crate::rpcrdma::{Conveyance, Invalidated, Returned, Shape};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use rdmascope_wire::rpcrdma::Error;

/// Something that is conveyed otherwise than in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conveyed {
    /// What.
    pub aspect: Aspect,
    /// How it was in the recording.
    pub recorded: String,
    /// How it is now.
    pub live: String,
    /// Whether that is a difference. Otherwise the specification leaves it to the Responder.
    pub counts: bool,
    /// The section that says so.
    pub section: &'static str,
}

/// What of a reply is conveyed in one way or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// rdma_proc: the Payload stream comes inline or in the Reply chunk, or an RDMA_ERROR comes instead of it.
    Procedure,
    /// A DDP-eligible item of the results, and its operation as in [`Difference`](super::Difference): in a Write chunk, or left in the
    /// Payload stream.
    Item(Option<(usize, &'static str)>, &'static str),
    /// The Write chunk of this index, as it comes back.
    WriteChunk(usize),
    /// The Reply chunk, as it comes back.
    ReplyChunk,
    /// What the SEND invalidates.
    Invalidation,
}

impl fmt::Display for Aspect {
    /// Counted from 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aspect::Procedure => f.write_str("rdma_proc"),
            Aspect::Item(_, name) => f.write_str(name),
            Aspect::WriteChunk(index) => write!(f, "Write chunk {}", index + 1),
            Aspect::ReplyChunk => f.write_str("Reply chunk"),
            Aspect::Invalidation => f.write_str("invalidated handle"),
        }
    }
}

/// Two conveyances, and the choice that the Responders had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms<'a> {
    /// The chunks that both calls offer.
    pub(super) offered: &'a Shape,
    /// In the recording, and now.
    pub(super) conveyances: [&'a Conveyance; 2],
    /// The inline thresholds of the replies, in bytes; `None`: not known.
    pub(super) thresholds: [Option<u32>; 2],
    /// Whether remote invalidation is agreed on now.
    pub(super) agreed: bool,
}

/// An RDMA_ERROR instead of a reply, or the other way round, or one with another error.
pub(super) fn instead(recorded: Result<&Conveyance, Error>, live: Result<&Conveyance, Error>) -> Conveyed {
    let [recorded, live] = [recorded, live].map(|message| match message {
        Ok(conveyance) => procedure(conveyance).to_string(),
        Err(error) => format!("RDMA_ERROR, {error}"),
    });
    Conveyed { aspect: Aspect::Procedure, recorded, live, counts: true, section: "rfc8166/4.5" }
}

const fn procedure(conveyance: &Conveyance) -> &'static str {
    if conveyance.is_inline() { "RDMA_MSG" } else { "RDMA_NOMSG" }
}

impl Forms<'_> {
    /// What differs: [`MOST_DIFFERENCES`] at the most. `messages` and their `fields`: in the recording, and now.
    pub(super) fn compare(&self, messages: [Message<'_>; 2], fields: [&Fields; 2]) -> Vec<Conveyed> {
        let mut found = Vec::new();
        found.extend(self.procedure(messages));
        found.extend(items(fields));
        let [recorded, live] = self.conveyances;
        for index in 0..recorded.writes.len().max(live.writes.len()) {
            found.extend(self.write_chunk(index, fields));
        }
        found.extend(self.reply_chunk());
        found.extend(self.invalidation());
        // Those that count are told first.
        found.sort_by_key(|difference| !difference.counts);
        found.truncate(MOST_DIFFERENCES);
        found
    }

    /// RFC 8166, section 3.5.3: what is longer than the inline threshold MUST come in the Reply chunk. Section 4.3.3: what is not MAY come
    /// inline though a Reply chunk is there.
    fn procedure(&self, messages: [Message<'_>; 2]) -> Option<Conveyed> {
        let [recorded, live] = self.conveyances;
        if recorded.mechanism == live.mechanism {
            return None;
        }
        let inline = usize::from(!recorded.is_inline());
        let length = self.conveyances[inline].header_length() + messages[inline].0.len();
        let is_too_long = self.thresholds[inline].is_some_and(|threshold| length > threshold as usize);
        let [recorded, live] = self.conveyances.map(|conveyance| match conveyance.is_inline() {
            true => format!("{}, {length} bytes", procedure(conveyance)),
            false => procedure(conveyance).to_string(),
        });
        let section = if is_too_long { "rfc8166/3.5.3" } else { "rfc8166/4.3.3" };
        Some(Conveyed { aspect: Aspect::Procedure, recorded, live, counts: is_too_long, section })
    }

    /// Section 3.4.6: each Write chunk MUST come back with as many segments, is filled in their order, and holds the item without padding
    /// (3.4.6.2). A chunk that holds another item is a difference of the item.
    fn write_chunk(&self, index: usize, fields: [&Fields; 2]) -> Option<Conveyed> {
        let chunks = self.conveyances.map(|conveyance| conveyance.writes.get(index));
        let [recorded, live] = chunks.map(|chunk| chunk.unwrap_or(&Returned::Absent));
        let offered = self.offered.writes.get(index).map_or(&[][..], Vec::as_slice);
        let mut section = "rfc8166/3.4.6";
        let is_other = match (recorded.lengths(), live.lengths()) {
            (None, None) => false,
            (Some(one), Some(other)) if filled_otherwise(offered, one, other) => true,
            (Some(one), Some(other)) => {
                section = "rfc8166/3.4.6.2";
                let [was, is] = [(fields[0], one), (fields[1], other)].map(|(fields, lengths)| {
                    Some(i128::from(total(lengths)) - i128::from(item_length(fields, index)?))
                });
                was.zip(is).is_some_and(|(was, is)| was != is)
            }
            _ => true,
        };
        let aspect = Aspect::WriteChunk(index);
        let [recorded, live] = [recorded, live].map(ToString::to_string);
        is_other.then_some(Conveyed { aspect, recorded, live, counts: true, section })
    }

    /// Section 4.3.3: a Reply chunk MUST come back, with the bytes that it holds, whether it is used or not. Where the recorded call has none
    /// and this one does, because the inline threshold is lower now, there is nothing to compare.
    fn reply_chunk(&self) -> Option<Conveyed> {
        let offered = self.offered.reply.as_deref()?;
        let [recorded, live] = self.conveyances;
        let is_same_form = recorded.mechanism == live.mechanism;
        let [one, other] =
            [recorded, live].map(|conveyance| conveyance.reply.as_ref().unwrap_or(&Returned::Absent));
        let is_other = match (one.lengths(), other.lengths()) {
            (None, None) => false,
            // How much is in it follows from rdma_proc.
            (Some(one), Some(other)) if !is_same_form => one.len() != other.len(),
            (Some(one), Some(other)) if !recorded.is_inline() => filled_otherwise(offered, one, other),
            (one, other) => one != other,
        };
        let [recorded, live] = [one, other].map(ToString::to_string);
        let (aspect, section) = (Aspect::ReplyChunk, "rfc8166/4.3.3");
        is_other.then_some(Conveyed { aspect, recorded, live, counts: true, section })
    }

    /// RFC 8797, section 4.1: a Responder may invalidate any handle of the call, or none. It must not another one, and none without both R
    /// flags: that counts where the recorded one did not do so.
    fn invalidation(&self) -> Option<Conveyed> {
        let [recorded, live] = self.conveyances.map(|conveyance| conveyance.invalidated);
        let counts = match (recorded, live) {
            (_, Some(Invalidated::Foreign)) => true,
            (None, Some(_)) => !self.agreed,
            _ => false,
        };
        let name = |memory: Option<Invalidated>| memory.map_or("none".to_string(), |it| it.to_string());
        let (aspect, section) = (Aspect::Invalidation, "rfc8797/4.1");
        let is_other = recorded != live;
        let [recorded, live] = [recorded, live].map(name);
        is_other.then_some(Conveyed { aspect, recorded, live, counts, section })
    }
}

fn total(lengths: &[u32]) -> u64 {
    lengths.iter().copied().map(u64::from).sum()
}

/// Whether the bytes of a chunk are in other segments than before, or, where there are more or fewer of them, whether only one of both fills
/// the segments in their order.
fn filled_otherwise(offered: &[u32], one: &[u32], other: &[u32]) -> bool {
    let in_order = |lengths: &[u32]| {
        let mut rest = total(lengths);
        lengths.len() == offered.len()
            && offered.iter().zip(lengths).all(|(room, length)| {
                let expected = rest.min(u64::from(*room));
                rest -= expected;
                u64::from(*length) == expected
            })
    };
    one.len() != other.len() || total(one) == total(other) && one != other || in_order(one) != in_order(other)
}

/// How long the item in a Write chunk is, as the count in the Payload stream says: 0 where there is none. `None`: it is not understood.
fn item_length(fields: &Fields, index: usize) -> Option<u64> {
    let mut found = fields.list.iter().filter_map(|field| match field.place {
        Place::Item(chunk, length) if chunk == index => Some(length),
        _ => None,
    });
    let length = found.next().unwrap_or(0);
    (fields.understood && length != usize::MAX).then_some(length as u64)
}

/// RFC 8166, section 4.3.2: where there is a Write chunk, an item MUST go into it, and into the next one that holds none (4.3.2.1).
fn items(fields: [&Fields; 2]) -> Vec<Conveyed> {
    let [one, other] = fields;
    let mut found = Vec::new();
    for (from, to, is_live) in [(one, other, false), (other, one, true)] {
        for field in &from.list {
            let Place::Item(chunk, 1..usize::MAX) = field.place else { continue };
            let is_it = |it: &&super::fields::Field| (it.operation, it.name) == (field.operation, field.name);
            let Some(partner) = to.list.iter().find(is_it) else { continue };
            let there = match &partner.place {
                Place::Stream(range) if !range.is_empty() => "the Payload stream".to_string(),
                // That both are in chunks is found on the first way.
                Place::Item(other, 1..) if *other != chunk && !is_live => {
                    format!("Write chunk {}", other + 1)
                }
                _ => continue,
            };
            let here = format!("in Write chunk {}", chunk + 1);
            let there = format!("in {there}");
            let (recorded, live) = if is_live { (there, here) } else { (here, there) };
            let aspect = Aspect::Item(field.operation, field.name);
            found.push(Conveyed { aspect, recorded, live, counts: true, section: "rfc8166/4.3.2" });
        }
    }
    found
}

#[cfg(test)]
mod tests;
