//! Compares the RDMA transfer of a live reply with that of the recorded one.
//!
//! A difference counts if two Responders that conform to RFC 8166 and RFC 8797 cannot differ that
//! way, given the same chunks and the same inline threshold. Credits are not compared.

use super::compare::{MOST_DIFFERENCES, Message};
use super::fields::{Fields, Place};
use crate::rpcrdma::{Conveyance, Invalidated, Returned, Shape};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use rdmascope_wire::rpcrdma::Error;

/// A difference between the recorded and the live transfer of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conveyed {
    /// The part of the transfer that differs.
    pub aspect: Aspect,
    /// The recorded form.
    pub recorded: String,
    /// The live form.
    pub live: String,
    /// Whether it counts as a difference. If not, the specification leaves the choice to the
    /// Responder.
    pub counts: bool,
    /// The section of the specification that decides this.
    pub section: &'static str,
}

/// A part of the transfer of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// rdma_proc: the Payload stream is inline or in the Reply chunk, or an RDMA_ERROR came
    /// instead.
    Procedure,
    /// A DDP-eligible item of the results, with its operation as in
    /// [`Difference`](super::Difference): moved in a Write chunk, or left in the Payload stream.
    Item(Option<(usize, &'static str)>, &'static str),
    /// The returned Write chunk of this index.
    WriteChunk(usize),
    /// The returned Reply chunk.
    ReplyChunk,
    /// The handle that the Send invalidates.
    Invalidation,
}

impl fmt::Display for Aspect {
    /// Numbers Write chunks from 1.
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

/// Two transfers, and the circumstances that limited the Responders' choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms<'a> {
    /// The chunks that both calls offer.
    pub(super) offered: &'a Shape,
    /// The recorded one and the live one.
    pub(super) conveyances: [&'a Conveyance; 2],
    /// The inline thresholds of the replies, in bytes; `None` if unknown.
    pub(super) thresholds: [Option<u32>; 2],
    /// Whether both ends have set the R flag on the live connection.
    pub(super) agreed: bool,
}

/// An RDMA_ERROR where the other side has a reply or another error.
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
    /// The differences, at most [`MOST_DIFFERENCES`]. `messages` and `fields` have the recorded
    /// reply first, then the live one.
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
        // The limit must not drop those that count.
        found.sort_by_key(|difference| !difference.counts);
        found.truncate(MOST_DIFFERENCES);
        found
    }

    /// Compares rdma_proc.
    ///
    /// RFC 8166, section 3.5.3: a reply longer than the inline threshold MUST use the Reply chunk.
    /// Section 4.3.3: a shorter one MAY be inline although the call offers a Reply chunk.
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

    /// Compares a returned Write chunk.
    ///
    /// Section 3.4.6: each Write chunk MUST be returned with the same number of segments, and they
    /// are filled in order. Section 3.4.6.2: it holds the item without padding. If the item itself
    /// differs, that is a difference of the item, not of the chunk.
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

    /// Compares the returned Reply chunk.
    ///
    /// Section 4.3.3: a Reply chunk MUST be returned with the number of bytes in it, used or not.
    /// If only the live call has one, because the inline threshold is lower now, there is nothing
    /// to compare.
    fn reply_chunk(&self) -> Option<Conveyed> {
        let offered = self.offered.reply.as_deref()?;
        let [recorded, live] = self.conveyances;
        let is_same_form = recorded.mechanism == live.mechanism;
        let [one, other] =
            [recorded, live].map(|conveyance| conveyance.reply.as_ref().unwrap_or(&Returned::Absent));
        let is_other = match (one.lengths(), other.lengths()) {
            (None, None) => false,
            // The amount of data in it follows from rdma_proc.
            (Some(one), Some(other)) if !is_same_form => one.len() != other.len(),
            (Some(one), Some(other)) if !recorded.is_inline() => filled_otherwise(offered, one, other),
            (one, other) => one != other,
        };
        let [recorded, live] = [one, other].map(ToString::to_string);
        let (aspect, section) = (Aspect::ReplyChunk, "rfc8166/4.3.3");
        is_other.then_some(Conveyed { aspect, recorded, live, counts: true, section })
    }

    /// Compares the invalidated handle.
    ///
    /// RFC 8797, section 4.1: a Responder may invalidate any handle of the call, or none. It must
    /// not invalidate another handle, nor any unless both ends set the R flag. The latter counts
    /// only if the recorded Responder invalidated none.
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

/// Whether a chunk is filled differently: it has another number of segments, the same bytes are in
/// other segments, or only one side fills the segments in order.
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

/// The length of the item in a Write chunk, from its count in the Payload stream; 0 if the chunk
/// has no item. `None` if the reply was not understood.
fn item_length(fields: &Fields, index: usize) -> Option<u64> {
    let mut found = fields.list.iter().filter_map(|field| match field.place {
        Place::Item(chunk, length) if chunk == index => Some(length),
        _ => None,
    });
    let length = found.next().unwrap_or(0);
    (fields.understood && length != usize::MAX).then_some(length as u64)
}

/// Finds items that are in a Write chunk on one side only, or in another one.
///
/// RFC 8166, section 4.3.2: if a Write chunk is available, an item MUST use it. Section 4.3.2.1: it
/// uses the next one that holds no item.
fn items(fields: [&Fields; 2]) -> Vec<Conveyed> {
    let [one, other] = fields;
    let mut found = Vec::new();
    for (from, to, is_live) in [(one, other, false), (other, one, true)] {
        for field in &from.list {
            let Place::Item(chunk, 1..usize::MAX) = field.place else { continue };
            let is_it = |it: &&super::fields::Field| (it.operation, it.name) == (field.operation, field.name);
            let Some(partner) = to.list.iter().find(is_it) else { continue };
            let place = match &partner.place {
                Place::Stream(range) if !range.is_empty() => "the Payload stream".to_string(),
                // The first pass has found items that are in chunks on both sides.
                Place::Item(other, 1..) if *other != chunk && !is_live => {
                    format!("Write chunk {}", other + 1)
                }
                _ => continue,
            };
            let here = format!("in Write chunk {}", chunk + 1);
            let other = format!("in {place}");
            let (recorded, live) = if is_live { (other, here) } else { (here, other) };
            let aspect = Aspect::Item(field.operation, field.name);
            found.push(Conveyed { aspect, recorded, live, counts: true, section: "rfc8166/4.3.2" });
        }
    }
    found
}

#[cfg(test)]
mod tests;
