//! The RPC-over-RDMA version 1 header (RFC 8166, section 4).
//!
//! ```text
//! rdma_xid, rdma_vers, rdma_credit, rdma_proc         four fixed words (section 4.2)
//! RDMA_MSG, RDMA_NOMSG: Read list, Write list, Reply chunk (section 4.3), in the notation of
//! section 4.7:
//!     1 PHLOO 1 PHLOO 0        Read list of two read segments
//!     1 2 HLOO HLOO 0          Write list of one chunk of two segments
//!     1 1 HLOO                 Reply chunk of one segment
//! RDMA_MSGP: rdma_align, rdma_thresh, then the same three
//! RDMA_ERROR: rdma_err, for ERR_VERS also the lowest and highest version
//! RDMA_DONE: nothing
//! ```

use crate::xdr::{Reader, put_u32, put_u64};
use crate::{Layer, Rkey, Stop, Xid};
use alloc::vec::Vec;

/// The version of this header (section 4.2.2).
pub const VERSION: u32 = 1;

/// The port of NFS over RDMA (RFC 8267, section 9).
pub const NFS_PORT: u16 = 20_049;

/// Nothing in a shorter header can be trusted, not even its XID (section 4.5).
pub const MINIMUM_LENGTH: usize = 28;

/// The message type, `rdma_proc` (section 4.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// 0: chunk lists and the Payload stream follow.
    Msg,
    /// 1: chunk lists follow; the Payload stream is in one of the chunks.
    Nomsg,
    /// 2: obsolete (section 4.6.1).
    Msgp,
    /// 3: obsolete (section 4.6.2), used by the reliable-reply draft as pull completion
    /// notification.
    Done,
    /// 4: an error in place of a reply.
    Error,
    /// An unassigned number.
    Unknown(u32),
}

impl Procedure {
    /// Returns the number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Procedure::Msg => 0,
            Procedure::Nomsg => 1,
            Procedure::Msgp => 2,
            Procedure::Done => 3,
            Procedure::Error => 4,
            Procedure::Unknown(number) => number,
        }
    }
}

impl From<u32> for Procedure {
    #[inline]
    fn from(number: u32) -> Procedure {
        match number {
            0 => Procedure::Msg,
            1 => Procedure::Nomsg,
            2 => Procedure::Msgp,
            3 => Procedure::Done,
            4 => Procedure::Error,
            other => Procedure::Unknown(other),
        }
    }
}

impl core::fmt::Display for Procedure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Procedure::Msg => "RDMA_MSG",
            Procedure::Nomsg => "RDMA_NOMSG",
            Procedure::Msgp => "RDMA_MSGP",
            Procedure::Done => "RDMA_DONE",
            Procedure::Error => "RDMA_ERROR",
            Procedure::Unknown(number) => return write!(f, "rdma_proc {number}"),
        })
    }
}

/// A plain segment: a contiguous region of registered memory (section 3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The R_Key of the registered memory.
    pub handle: Rkey,
    /// Length in bytes; 0: an empty segment.
    pub length: u32,
    /// Virtual address or offset of the first byte.
    pub offset: u64,
}

impl Segment {
    /// Length of an encoded segment in bytes: HLOO.
    pub const LENGTH: usize = 16;

    /// Returns the length in bytes of a chunk of these segments, the sum of their lengths (RFC
    /// 8166, section 3.4.4).
    #[inline]
    pub fn total(segments: &[Segment]) -> u64 {
        segments.iter().map(|segment| u64::from(segment.length)).sum()
    }

    fn from_words(b: &[u8; Segment::LENGTH]) -> Segment {
        Segment {
            handle: Rkey(u32::from_be_bytes([b[0], b[1], b[2], b[3]])),
            length: u32::from_be_bytes([b[4], b[5], b[6], b[7]]),
            offset: u64::from_be_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
        }
    }

    fn build(&self, out: &mut Vec<u8>) {
        put_u32(out, self.handle.0);
        put_u32(out, self.length);
        put_u64(out, self.offset);
    }
}

/// A read segment: a plain segment and the Position of its Read chunk (section 3.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSegment {
    /// Byte offset in the unreduced Payload stream; 0: the chunk contains the Payload stream
    /// itself.
    pub position: u32,
    /// The memory to read from.
    pub target: Segment,
}

/// The error of an RDMA_ERROR (section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// ERR_VERS, 1: the version is not supported. Versions `low` to `high`, inclusive, are.
    Version {
        /// Lowest supported version.
        low: u32,
        /// Highest supported version.
        high: u32,
    },
    /// ERR_CHUNK, 2: the header could not be parsed, or the chunks could not be used.
    Chunk,
    /// An unassigned number.
    Unknown(u32),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Version { low, high } => write!(f, "ERR_VERS {low} to {high}"),
            Error::Chunk => f.write_str("ERR_CHUNK"),
            Error::Unknown(number) => write!(f, "rdma_err {number}"),
        }
    }
}

/// A header, as far as it could be parsed. Lists are views of the message; nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// rdma_xid.
    pub xid: Xid,
    /// rdma_vers.
    pub version: u32,
    /// rdma_credit: credits requested in a call, granted in a reply.
    pub credits: u32,
    /// rdma_proc.
    pub procedure: Procedure,
    /// rdma_align and rdma_thresh of an RDMA_MSGP.
    pub padding: Option<(u32, u32)>,
    /// The Read list.
    pub reads: ReadList<'a>,
    /// The Write list.
    pub writes: WriteList<'a>,
    /// The Reply chunk.
    pub reply: Option<Chunk<'a>>,
    /// The error of an RDMA_ERROR.
    pub error: Option<Error>,
    /// Number of header bytes that were parsed. Without a [`stop`](Header::stop) this is the length
    /// of the header, and the offset of an RDMA_MSG's Payload stream.
    pub length: usize,
    /// The reason why the header could not be parsed to its end.
    pub stop: Option<Stop>,
}

impl<'a> Header<'a> {
    /// Length of the four fixed fields in bytes.
    pub const FIXED_LENGTH: usize = 16;

    /// Parses the header at the start of `message`. Returns an error if the four fixed fields are
    /// incomplete.
    ///
    /// In a header of another version than [`VERSION`], only the fixed fields and the error of an
    /// RDMA_ERROR are parsed: the positions of other fields may change between versions (section
    /// 7).
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Header<'a>, Stop> {
        let mut reader = Reader::new(message, Layer::RpcRdma);
        let mut header = Header {
            xid: Xid(reader.u32()?),
            version: reader.u32()?,
            credits: reader.u32()?,
            procedure: Procedure::from(reader.u32()?),
            padding: None,
            reads: ReadList(&[]),
            writes: WriteList(&[]),
            reply: None,
            error: None,
            length: Header::FIXED_LENGTH,
            stop: None,
        };
        if let Err(stop) = header.body(message, &mut reader) {
            header.stop = Some(stop);
        }
        header.length = reader.position();
        Ok(header)
    }

    fn body(&mut self, message: &'a [u8], reader: &mut Reader<'a>) -> Result<(), Stop> {
        match self.procedure {
            Procedure::Error => {
                self.error = Some(match reader.u32()? {
                    1 => Error::Version { low: reader.u32()?, high: reader.u32()? },
                    2 => Error::Chunk,
                    other => Error::Unknown(other),
                });
                return Ok(());
            }
            _ if self.version != VERSION => return Ok(()),
            Procedure::Msg | Procedure::Nomsg => {}
            Procedure::Msgp => self.padding = Some((reader.u32()?, reader.u32()?)),
            Procedure::Done => return Ok(()),
            Procedure::Unknown(_) => return Err(Stop::malformed(Layer::RpcRdma, 12)),
        }

        // Fast path for messages without chunks: three empty lists.
        if reader.rest().starts_with(&[0; 12]) {
            return reader.skip(12);
        }
        let start = reader.position();
        let mut end = start;
        let reads = loop {
            match reader.bool() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(stop) => break Err(stop),
            }
            if let Err(stop) = reader.skip(4 + Segment::LENGTH as u32) {
                break Err(stop);
            }
            end = reader.position();
        };
        self.reads = ReadList(&message[start..end]);
        reads?;

        let start = reader.position();
        let mut end = start;
        let writes = loop {
            match reader.bool() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(stop) => break Err(stop),
            }
            if let Err(stop) = Chunk::parse(reader) {
                break Err(stop);
            }
            end = reader.position();
        };
        self.writes = WriteList(&message[start..end]);
        writes?;

        if reader.bool()? {
            self.reply = Some(Chunk::parse(reader)?);
        }
        Ok(())
    }
}

/// The Read list: read segments in the order of the header.
#[derive(Clone, Copy, Debug)]
pub struct ReadList<'a>(&'a [u8]);

impl ReadList<'_> {
    /// Returns true if the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Iterator for ReadList<'_> {
    type Item = ReadSegment;

    #[inline]
    fn next(&mut self) -> Option<ReadSegment> {
        let (entry, rest) = self.0.split_first_chunk::<24>()?;
        self.0 = rest;
        let (words, target) = entry.split_first_chunk::<8>()?;
        Some(ReadSegment {
            position: u32::from_be_bytes([words[4], words[5], words[6], words[7]]),
            target: Segment::from_words(target.first_chunk()?),
        })
    }
}

/// The Write list: Write chunks in the order of the header.
#[derive(Clone, Copy, Debug)]
pub struct WriteList<'a>(&'a [u8]);

impl WriteList<'_> {
    /// Returns true if the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for WriteList<'a> {
    type Item = Chunk<'a>;

    #[inline]
    fn next(&mut self) -> Option<Chunk<'a>> {
        // The view contains whole entries only: the word 1, the count of segments, the segments.
        let (_, chunk) = self.0.split_first_chunk::<4>()?;
        let mut reader = Reader::new(chunk, Layer::RpcRdma);
        let chunk = Chunk::parse(&mut reader).ok()?;
        self.0 = reader.rest();
        Some(chunk)
    }
}

/// A Write chunk or the Reply chunk: plain segments in the order of the header (section 3.4.6).
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a>(&'a [u8]);

impl<'a> Chunk<'a> {
    #[inline]
    fn parse(reader: &mut Reader<'a>) -> Result<Chunk<'a>, Stop> {
        let mut ahead = *reader;
        let count = ahead.u32()?;
        // A count that exceeds the available bytes is an error; nothing is allocated by it.
        let length = u64::from(count) * Segment::LENGTH as u64;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let segments = ahead.fixed(length)?;
        *reader = ahead;
        Ok(Chunk(segments))
    }

    /// Returns the number of segments.
    #[inline]
    pub fn segment_count(&self) -> usize {
        self.0.len() / Segment::LENGTH
    }

    /// Returns the segments, in order.
    #[inline]
    pub fn segments(&self) -> impl ExactSizeIterator<Item = Segment> + use<'a> {
        self.0.as_chunks::<{ Segment::LENGTH }>().0.iter().map(Segment::from_words)
    }

    /// Returns the length of the chunk in bytes, the sum of its segments' lengths (section 3.4.4).
    #[inline]
    pub fn length(&self) -> u64 {
        self.segments().map(|segment| u64::from(segment.length)).sum()
    }
}

/// A header to build. Any content is possible, valid or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Builder {
    /// rdma_xid.
    pub xid: Xid,
    /// rdma_vers.
    pub version: u32,
    /// rdma_credit.
    pub credits: u32,
    /// rdma_proc.
    pub procedure: Procedure,
    /// rdma_align and rdma_thresh, for RDMA_MSGP.
    pub padding: Option<(u32, u32)>,
    /// The Read list.
    pub reads: Vec<ReadSegment>,
    /// The Write list.
    pub writes: Vec<Vec<Segment>>,
    /// The Reply chunk.
    pub reply: Option<Vec<Segment>>,
    /// The error, for RDMA_ERROR.
    pub error: Option<Error>,
}

impl Builder {
    /// Creates a version 1 header without chunks.
    pub fn new(xid: Xid, credits: u32, procedure: Procedure) -> Builder {
        Builder {
            xid,
            version: VERSION,
            credits,
            procedure,
            padding: None,
            reads: Vec::new(),
            writes: Vec::new(),
            reply: None,
            error: None,
        }
    }

    /// Appends the header. Chunk lists are written for procedures that have them and for unknown
    /// ones.
    ///
    /// # Panics
    /// Panics if the number of segments of a chunk does not fit 32 bits.
    pub fn build(&self, out: &mut Vec<u8>) {
        put_u32(out, self.xid.0);
        put_u32(out, self.version);
        put_u32(out, self.credits);
        put_u32(out, self.procedure.number());
        match self.procedure {
            Procedure::Done => {}
            Procedure::Error => match self.error {
                Some(Error::Version { low, high }) => {
                    [1, low, high].iter().for_each(|word| put_u32(out, *word));
                }
                Some(Error::Chunk) => put_u32(out, 2),
                Some(Error::Unknown(number)) => put_u32(out, number),
                None => {}
            },
            _ => {
                if let Some((align, threshold)) = self.padding {
                    put_u32(out, align);
                    put_u32(out, threshold);
                }
                self.chunk_lists(out);
            }
        }
    }

    fn chunk_lists(&self, out: &mut Vec<u8>) {
        for read in &self.reads {
            put_u32(out, 1);
            put_u32(out, read.position);
            read.target.build(out);
        }
        put_u32(out, 0);
        for chunk in &self.writes {
            put_u32(out, 1);
            put_chunk(out, chunk);
        }
        put_u32(out, 0);
        match &self.reply {
            Some(chunk) => {
                put_u32(out, 1);
                put_chunk(out, chunk);
            }
            None => put_u32(out, 0),
        }
    }
}

fn put_chunk(out: &mut Vec<u8>, segments: &[Segment]) {
    put_u32(out, u32::try_from(segments.len()).expect("segments are counted in 32 bits"));
    segments.iter().for_each(|segment| segment.build(out));
}

#[cfg(test)]
mod tests;
