//! How a reply was conveyed: inline or in chunks, the lengths of their segments, and the
//! invalidation.

use alloc::vec::Vec;
use core::fmt;
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma::{MINIMUM_LENGTH, Procedure, Segment};

/// How a reply was conveyed according to its header (RFC 8166, sections 3.4.6, 3.5 and 4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conveyance {
    /// The place of the Payload stream.
    pub mechanism: Mechanism,
    /// Each Write chunk of the call, in order.
    pub writes: Vec<Returned>,
    /// The Reply chunk of the call; `None`: neither call nor reply have one.
    pub reply: Option<Returned>,
    /// The memory that the SEND invalidated.
    pub invalidated: Option<Invalidated>,
}

/// How the Payload stream of a reply is conveyed (RFC 8166, section 3.5; reliable-reply draft,
/// section 5.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// Inline, by RDMA_MSG.
    #[default]
    Send,
    /// In the Reply chunk of the call, by RDMA_NOMSG.
    ReplyChunk,
    /// In a Position Zero Read chunk of the Responder, by RDMA_NOMSG.
    ReadChunk,
}

impl Mechanism {
    /// Returns the mechanism of a reply with this rdma_proc, with or without a Read list.
    pub const fn of(procedure: Procedure, has_reads: bool) -> Mechanism {
        match (procedure, has_reads) {
            (Procedure::Nomsg, false) => Mechanism::ReplyChunk,
            (Procedure::Nomsg, true) => Mechanism::ReadChunk,
            _ => Mechanism::Send,
        }
    }

    /// Returns its name: `send`, `reply-chunk` or `read-chunk`.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Send => "send",
            Mechanism::ReplyChunk => "reply-chunk",
            Mechanism::ReadChunk => "read-chunk",
        }
    }
}

/// A chunk of a call, as returned in the header of its reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Returned {
    /// The chunk is missing.
    Absent,
    /// The number of bytes in each segment, in order.
    Segments(Vec<u32>),
}

/// The memory that a SEND invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalidated {
    /// A segment of the call's Read list. Chunk and segment are counted from 0.
    Read(usize, usize),
    /// A segment of a Write chunk. Both are counted from 0.
    Write(usize, usize),
    /// A segment of the Reply chunk, counted from 0.
    Reply(usize),
    /// Memory that the call does not provide.
    Foreign,
}

impl Invalidated {
    /// Returns the memory of a call with the handle `rkey`: the first matching segment in the order
    /// of the call's header. Each chunk is a list of handles.
    pub fn find(
        rkey: Rkey,
        reads: &[Vec<Rkey>],
        writes: &[Vec<Rkey>],
        reply: Option<&[Rkey]>,
    ) -> Invalidated {
        let within = |chunks: &[Vec<Rkey>]| {
            let place = |chunk: &Vec<Rkey>| chunk.iter().position(|handle| *handle == rkey);
            chunks.iter().enumerate().find_map(|(index, chunk)| Some((index, place(chunk)?)))
        };
        let in_reply = || reply.and_then(|chunk| chunk.iter().position(|handle| *handle == rkey));
        let read = within(reads).map(|(chunk, segment)| Invalidated::Read(chunk, segment));
        let write = || within(writes).map(|(chunk, segment)| Invalidated::Write(chunk, segment));
        read.or_else(write).or_else(|| in_reply().map(Invalidated::Reply)).unwrap_or(Invalidated::Foreign)
    }
}

/// Returns the handles of a chunk.
pub fn handles(chunk: &[Segment]) -> Vec<Rkey> {
    chunk.iter().map(|segment| segment.handle).collect()
}

impl Conveyance {
    /// Returns whether the Payload stream was inline.
    pub const fn is_inline(&self) -> bool {
        matches!(self.mechanism, Mechanism::Send)
    }

    /// Creates a conveyance from the number of chunks in a call and the segment lengths in its
    /// reply.
    pub fn of_chunks(
        (offered_writes, offered_reply): (usize, bool),
        writes: impl IntoIterator<Item = Vec<u32>>,
        reply: Option<Vec<u32>>,
    ) -> Conveyance {
        let mut writes: Vec<Returned> = writes.into_iter().map(Returned::Segments).collect();
        if writes.len() < offered_writes {
            writes.resize(offered_writes, Returned::Absent);
        }
        let absent = offered_reply.then_some(Returned::Absent);
        Conveyance { writes, reply: reply.map(Returned::Segments).or(absent), ..Conveyance::default() }
    }

    /// Returns the header length of such a reply in bytes.
    pub fn header_length(&self) -> usize {
        let segments = |chunk: &Returned| chunk.lengths().map(|lengths| 4 + Segment::LENGTH * lengths.len());
        let writes: usize = self.writes.iter().filter_map(segments).map(|length| 4 + length).sum();
        MINIMUM_LENGTH + writes + self.reply.as_ref().and_then(segments).unwrap_or(0)
    }
}

impl Returned {
    /// Returns the number of bytes in each segment; `None` if the chunk is missing.
    pub fn lengths(&self) -> Option<&[u32]> {
        match self {
            Returned::Absent => None,
            Returned::Segments(lengths) => Some(lengths),
        }
    }
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Returned::Absent => f.write_str("not returned"),
            Returned::Segments(lengths) if lengths.is_empty() => f.write_str("no segments"),
            Returned::Segments(lengths) => {
                for (index, length) in lengths.iter().enumerate() {
                    let plus = if index > 0 { " + " } else { "" };
                    write!(f, "{plus}{length}")?;
                }
                f.write_str(" bytes")
            }
        }
    }
}

impl fmt::Display for Invalidated {
    /// Numbers are counted from 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalidated::Read(chunk, segment) => {
                write!(f, "segment {} of Read chunk {}", segment + 1, chunk + 1)
            }
            Invalidated::Write(chunk, segment) => {
                write!(f, "segment {} of Write chunk {}", segment + 1, chunk + 1)
            }
            Invalidated::Reply(segment) => write!(f, "segment {} of the Reply chunk", segment + 1),
            Invalidated::Foreign => f.write_str("a handle that is not in the call"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use alloc::vec;
    use rdmascope_wire::Xid;
    use rdmascope_wire::rpcrdma::Builder;

    #[test]
    fn header_length_equals_the_length_of_a_built_header() {
        let segment = |length| Segment { handle: Rkey(1), length, offset: 0 };
        let mut header = Builder::new(Xid(1), 1, Procedure::Msg);
        header.writes = vec![vec![segment(5), segment(0)], vec![]];
        header.reply = Some(vec![segment(0)]);
        let mut built = Vec::new();
        header.build(&mut built);
        let conveyance = Conveyance::of_chunks((3, true), [vec![5, 0], vec![]], Some(vec![0]));
        assert_eq!(conveyance.header_length(), built.len());
        assert_eq!(conveyance.writes[2], Returned::Absent);
        let none = Conveyance::of_chunks((0, true), [], None);
        assert_eq!((none.header_length(), none.reply), (MINIMUM_LENGTH, Some(Returned::Absent)));
    }

    #[test]
    fn handles_are_named_by_chunk_and_segment() {
        let [a, b, c, d] = [1, 2, 3, 4].map(Rkey);
        let (reads, writes, reply) = ([vec![a]], [vec![], vec![b, c]], [c, d]);
        let named = |rkey| Invalidated::find(rkey, &reads, &writes, Some(&reply)).to_string();
        assert_eq!(named(a), "segment 1 of Read chunk 1");
        assert_eq!(named(c), "segment 2 of Write chunk 2");
        assert_eq!(named(d), "segment 2 of the Reply chunk");
        assert_eq!(named(Rkey(5)), "a handle that is not in the call");
    }
}
