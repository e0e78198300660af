//! Differences between the kernel's account of a transaction and the packets.

use super::calls::{Call, Chunks};
use super::point::Role;
use super::wire::{Shown, Wire};
use core::fmt::{self, Write as _};
use rdmascope_capture_agent::trace::Segment;

/// The subject of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum About {
    /// The trace has a call that the capture lacks.
    OnlyInTrace,
    /// The capture has a transaction that the trace lacks.
    OnlyInCapture,
    /// The length of the call's RPC-over-RDMA header.
    HeaderLength,
    /// The length of the RPC call before reduction.
    CallLength,
    /// The length of the Send with the call or the reply.
    SendLength,
    /// The value of rdma_credit.
    Credits,
    /// The Read list.
    ReadList,
    /// The Write list; if the host is the answerer, with the Reply chunk.
    WriteList,
    /// The Reply chunk.
    ReplyChunk,
    /// The segments that the reply returns, with the lengths used.
    Returned,
    /// Whether the reply is an RDMA_ERROR.
    Error,
}

impl About {
    /// Its name in JSON and text.
    pub const fn word(self) -> &'static str {
        match self {
            About::OnlyInTrace => "only-in-trace",
            About::OnlyInCapture => "only-in-capture",
            About::HeaderLength => "header-length",
            About::CallLength => "call-length",
            About::SendLength => "send-length",
            About::Credits => "credits",
            About::ReadList => "read-list",
            About::WriteList => "write-list",
            About::ReplyChunk => "reply-chunk",
            About::Returned => "returned-segments",
            About::Error => "rdma-error",
        }
    }
}

/// A difference in one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its subject.
    pub about: About,
    /// The value according to the kernel.
    pub kernel: String,
    /// The value according to the packets.
    pub wire: String,
    /// Whether it concerns the reply rather than the call.
    pub of_reply: bool,
}

/// The result of a comparison.
pub(super) struct Compared {
    pub(super) differences: Vec<Difference>,
    /// Whether the chunk lists were not compared, because the trace lacks segments.
    pub(super) lacks_segments: bool,
}

/// Compares the values that both the trace and the capture contain. With `has_lost`, the trace lost
/// events, so a segment that it lacks is no difference.
pub(super) fn compare(call: &Call, wire: &Wire, has_lost: bool) -> Compared {
    let mut differences = Vec::new();
    /// Adds a difference if the values differ.
    fn differ<T: PartialEq + fmt::Display>(
        to: &mut Vec<Difference>,
        about: About,
        of_reply: bool,
        [kernel, wire]: [T; 2],
    ) {
        if kernel != wire {
            to.push(Difference { about, kernel: kernel.to_string(), wire: wire.to_string(), of_reply });
        }
    }
    let to = &mut differences;
    // The server receives the answer to a callback as a message.
    let is_callback_answer = wire.backward && !call.backward;
    let [sent, reply] =
        [&wire.call, &wire.reply].map(|message| message.as_ref().filter(|one| one.is_complete));
    let of_reply = call.role == Role::Caller || is_callback_answer;
    if let Some(message) = if of_reply { reply } else { sent } {
        if let Some(bytes) = call.received {
            differ(to, About::SendLength, of_reply, [bytes, message.send_length]);
        }
        if let Some(credits) = call.credits {
            differ(to, About::Credits, of_reply, [credits, message.credits]);
        }
    }
    if let (Some(length), Some(message)) = (call.header_length, if is_callback_answer { reply } else { sent })
    {
        differ(to, About::HeaderLength, is_callback_answer, [length, message.header_length]);
    }
    if let (Some(length), Some(on_wire)) = (call.message_length, sent.and_then(|one| one.message_length)) {
        differ(to, About::CallLength, false, [length, on_wire]);
    }
    if call.has_error && wire.reply.is_some() && !wire.has_error {
        differ(to, About::Error, true, ["RDMA_ERROR", "none"]);
    }
    if call.is_partial || is_callback_answer || call.backward {
        return Compared { differences, lacks_segments: false };
    }
    if sent.is_some_and(|message| lacks_segments(call, message)) {
        return Compared { differences, lacks_segments: true };
    }
    let none = Chunks::default();
    let traced = call.chunks.as_deref().unwrap_or(&none);
    if let Some(message) = sent.filter(|_| call.header_length.is_some()) {
        differ(to, About::ReadList, false, [Reads(&traced.reads), Reads(&message.reads)]);
        match call.role {
            Role::Caller => {
                differ(to, About::WriteList, false, [List(&traced.writes), List(&message.writes)]);
                differ(to, About::ReplyChunk, false, [List(&traced.reply), List(&message.reply_chunk)]);
            }
            Role::Answerer => {
                let on_wire = [&message.writes[..], &message.reply_chunk].concat();
                differ(to, About::WriteList, false, [List(&traced.writes), List(&on_wire)]);
            }
        }
    }
    if let Some(message) = reply.filter(|_| !traced.returned.is_empty()) {
        let on_wire = [&message.writes[..], &message.reply_chunk].concat();
        if !has_lost || traced.returned.len() >= on_wire.len() {
            differ(to, About::Returned, true, [List(&traced.returned), List(&on_wire)]);
        }
    }
    Compared { differences, lacks_segments: false }
}

/// Whether the header has segments that the trace lacks: its length, according to the kernel, is not
/// that of the traced segments in the chunks of `message`. Each kind of segment has its own event,
/// which may be disabled or missing from older kernels.
fn lacks_segments(call: &Call, message: &Shown) -> bool {
    let Some(length) = call.header_length else { return false };
    let none = Chunks::default();
    let traced = call.chunks.as_deref().unwrap_or(&none);
    let chunks = 8 * message.write_chunks + 4 * usize::from(message.has_reply_chunk);
    let segments = 24 * traced.reads.len() + 16 * (traced.writes.len() + traced.reply.len());
    EMPTY + chunks + segments != length as usize
}

/// The length of an RPC-over-RDMA header without chunks (RFC 8166, section 4.2).
const EMPTY: usize = 28;

/// Segments as the kernel writes them: `length@offset:handle`.
#[derive(PartialEq)]
struct List<'a>(&'a [Segment]);

/// Read segments as the kernel writes them, with their Positions.
#[derive(PartialEq)]
struct Reads<'a>(&'a [(u32, Segment)]);

/// The most segments that are listed.
const MOST_WRITTEN: usize = 16;

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, self.0, write_segment)
    }
}

impl fmt::Display for Reads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, self.0, |f, (position, one)| {
            write!(f, "pos={position} ")?;
            write_segment(f, one)
        })
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    list: &[T],
    one: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if list.is_empty() {
        return f.write_str("none");
    }
    for (index, item) in list.iter().take(MOST_WRITTEN).enumerate() {
        if index > 0 {
            f.write_char(' ')?;
        }
        one(f, item)?;
    }
    match list.len().checked_sub(MOST_WRITTEN) {
        Some(further) if further > 0 => write!(f, " and {further} more"),
        _ => Ok(()),
    }
}

fn write_segment(f: &mut fmt::Formatter<'_>, one: &Segment) -> fmt::Result {
    write!(f, "{}@0x{:016x}:0x{:08x}", one.length, one.offset, one.handle)
}
