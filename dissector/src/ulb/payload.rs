//! The Payload stream as it was sent: a reduced XDR stream, and the items in chunks.

use rdmascope_wire::xdr::{Reader, padded};
use rdmascope_wire::{Layer, Stop};

/// The place of a DDP-eligible item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the reduced stream, at this byte.
    Inline(u32),
    /// In the Read chunk with this index in the message's Read list, as in
    /// [`crate::transaction::Part`].
    ReadChunk(u16),
    /// In the Write chunk with this index.
    WriteChunk(u16),
}

/// A DDP-eligible data item (RFC 8166, section 3.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its length in bytes, from the count before it, without roundup padding.
    pub length: u32,
    /// Its first byte in the unreduced stream, from the XID on: the Position of its Read chunk.
    pub position: u32,
    /// The place of its bytes.
    pub place: Place,
}

/// The chunks with the items that reduction removed from the stream.
#[derive(Clone, Copy, Debug)]
pub enum Chunks<'a> {
    /// For a call: `(Position, length, index)` of each Read chunk except that at Position zero, in
    /// the order of Positions. The index is that in the Read list.
    Read(&'a [(u32, u64, u16)]),
    /// For a reply: the length of each Write chunk that the reply returns, in the order of the
    /// Write list.
    Write(&'a [u64]),
}

/// A cursor over a reduced Payload stream.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    reader: Reader<'a>,
    chunks: Chunks<'a>,
    /// Chunks used so far.
    used: usize,
    /// Bytes that these chunks removed from the stream, including padding.
    removed: u64,
    /// The first word with a value that its definition does not allow, although the stream can be
    /// read after it.
    disallowed: Option<Stop>,
}

impl<'a> Payload<'a> {
    /// A cursor at the start of the RPC message.
    #[inline]
    pub fn new(stream: &'a [u8], chunks: Chunks<'a>) -> Payload<'a> {
        let reader = Reader::new(stream, Layer::UpperLayer);
        Payload { reader, chunks, used: 0, removed: 0, disallowed: None }
    }

    /// The underlying cursor, for parsing an RPC header. It must not pass a reduced item.
    #[inline]
    pub fn reader(&mut self) -> &mut Reader<'a> {
        &mut self.reader
    }

    /// Bytes from the start of the unreduced message to the cursor.
    #[inline]
    pub fn position(&self) -> u64 {
        self.reader.position() as u64 + self.removed
    }

    /// An unsigned integer of 32 bits.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Stop> {
        self.reader.u32()
    }

    /// An unsigned hyper of 64 bits.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Stop> {
        self.reader.u64()
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Stop> {
        self.reader.bool()
    }

    /// Opaque data or a string that is not DDP-eligible.
    #[inline]
    pub fn opaque(&mut self) -> Result<&'a [u8], Stop> {
        self.reader.opaque()
    }

    /// Opaque data of a fixed length.
    #[inline]
    pub fn fixed(&mut self, length: u32) -> Result<&'a [u8], Stop> {
        self.reader.fixed(length)
    }

    /// Skips `length` bytes and their padding.
    #[inline]
    pub fn skip(&mut self, length: u32) -> Result<(), Stop> {
        self.reader.skip(length)
    }

    /// Skips a counted array of elements of `each` bytes, a multiple of four, and returns the
    /// count.
    #[inline]
    pub fn array(&mut self, each: u32) -> Result<u32, Stop> {
        let mut ahead = *self;
        let count = ahead.reader.u32()?;
        let available = ahead.reader.rest().len();
        let needed = u64::from(count) * u64::from(each);
        if needed > available as u64 {
            let at = ahead.reader.position();
            let needed = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(Stop::short(ahead.reader.layer(), at, needed, at + available));
        }
        ahead.reader.skip(count * each)?;
        *self = ahead;
        Ok(count)
    }

    /// The stop for the last word: a discriminant without an arm in its union.
    #[inline]
    pub(crate) fn no_such_arm(&self) -> Stop {
        Stop::malformed(self.reader.layer(), self.reader.position().saturating_sub(4))
    }

    /// Notes whether the last word may have its value. The stream can be read after it in any case.
    #[inline]
    pub fn allow(&mut self, is_allowed: bool) {
        self.allow_at(self.reader.position().saturating_sub(4), is_allowed);
    }

    /// The same for an earlier word, at a byte of the stream.
    #[inline]
    pub(crate) fn allow_at(&mut self, offset: usize, is_allowed: bool) {
        if !is_allowed {
            self.disallowed.get_or_insert(Stop::malformed(self.reader.layer(), offset));
        }
    }

    /// The first word with a value that is not allowed.
    #[inline]
    pub fn disallowed(&self) -> Option<Stop> {
        self.disallowed
    }

    /// Pulls a DDP-eligible item of variable length. Also returns its bytes if they are in the
    /// stream.
    ///
    /// In a call, an item is in the Read chunk whose Position equals that of its first byte (RFC
    /// 8166, section 4.3.1.1). In a reply it is in the next Write chunk, unless that chunk was
    /// returned empty (section 4.3.2.1). An item without bytes uses up the chunk intended for it.
    #[inline]
    pub fn pull(&mut self) -> Result<(Item, &'a [u8]), Stop> {
        let mut ahead = *self;
        let length = ahead.reader.u32()?;
        let position = u32::try_from(ahead.position())
            .map_err(|_| Stop::malformed(Layer::UpperLayer, self.reader.position()))?;
        let (place, bytes) = match ahead.reduced(position, length) {
            Some(place) => {
                ahead.used += 1;
                ahead.removed += padded(length);
                (place, &[][..])
            }
            None => {
                let at = u32::try_from(ahead.reader.position()).unwrap_or(u32::MAX);
                (Place::Inline(at), ahead.reader.fixed(length)?)
            }
        };
        *self = ahead;
        Ok((Item { length, position, place }, bytes))
    }

    /// Skips the Write chunk of a result without a DDP-eligible item: a failed READ leaves its
    /// Write chunk unused (RFC 8267, section 6.4.1). Does nothing in a call, or if the next chunk
    /// is not empty.
    #[inline]
    pub(crate) fn pass_chunk(&mut self) {
        if let Chunks::Write(lengths) = self.chunks
            && lengths.get(self.used) == Some(&0)
        {
            self.used += 1;
        }
    }

    fn reduced(&mut self, position: u32, length: u32) -> Option<Place> {
        match self.chunks {
            Chunks::Read(chunks) => {
                // No item begins at this Position, so the chunk is skipped.
                while chunks.get(self.used)?.0 < position {
                    self.used += 1;
                }
                let (next, _, index) = chunks[self.used];
                (next == position).then_some(Place::ReadChunk(index))
            }
            Chunks::Write(lengths) => {
                let returned = *lengths.get(self.used)?;
                if returned == 0 && length != 0 {
                    // An empty or unused Write chunk: the item is inline.
                    self.used += 1;
                    return None;
                }
                Some(Place::WriteChunk(self.used as u16))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn call_item_is_in_read_chunk_at_its_position() {
        // A word; the count 5 of an item whose bytes begin at 8; a word after it. The Read chunk
        // contains no padding.
        let stream = words(&[1, 5, 2]);
        let mut payload = Payload::new(&stream, Chunks::Read(&[(8, 5, 3)]));
        assert_eq!(payload.u32(), Ok(1));
        let (item, bytes) = payload.pull().unwrap();
        assert_eq!(item, Item { length: 5, position: 8, place: Place::ReadChunk(3) });
        assert!(bytes.is_empty());
        assert_eq!(payload.position(), 16, "the unreduced stream includes the item and its padding");
        assert_eq!(payload.u32(), Ok(2));
    }

    #[test]
    fn array_count_beyond_payload_is_an_error() {
        let stream = words(&[2, 1, 1, 2, 2, 0xffff_ffff, 7]);
        let mut payload = Payload::new(&stream, Chunks::Read(&[]));
        assert_eq!(payload.array(8), Ok(2));
        let stop = payload.array(16).unwrap_err();
        assert_eq!((stop.offset, stop.needed, stop.available), (24, 0xf_ffff_fff0, 4));
        assert_eq!(payload.u32(), Ok(0xffff_ffff));
        assert_eq!(payload.no_such_arm(), Stop::malformed(Layer::UpperLayer, 20));
    }

    #[test]
    fn item_without_read_chunk_is_inline() {
        let stream = words(&[4, 0xaabb_ccdd, 2]);
        let mut payload = Payload::new(&stream, Chunks::Read(&[(8, 5, 0)]));
        let (item, bytes) = payload.pull().unwrap();
        assert_eq!(item, Item { length: 4, position: 4, place: Place::Inline(4) });
        assert_eq!(bytes, [0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(payload.position(), 8);
    }

    #[test]
    fn items_use_write_chunks_in_order_and_skip_empty_ones() {
        // RFC 8267, section 6.4.3: three items, the second requested inline.
        let stream = words(&[100, 4, 0x0102_0304, 200]);
        let mut payload = Payload::new(&stream, Chunks::Write(&[100, 0, 200]));
        assert_eq!(payload.pull().unwrap().0.place, Place::WriteChunk(0));
        assert_eq!(payload.pull().unwrap().1, [1, 2, 3, 4]);
        assert_eq!(payload.pull().unwrap().0.place, Place::WriteChunk(2));
        assert_eq!(payload.position(), 16 + 300);
    }

    #[test]
    fn failed_result_leaves_its_chunk_unused() {
        let stream = words(&[8]);
        let mut payload = Payload::new(&stream, Chunks::Write(&[0, 8]));
        payload.pass_chunk();
        assert_eq!(payload.pull().unwrap().0.place, Place::WriteChunk(1));
        // Or the next item uses the chunk that the failed one left (RFC 8166, section 4.3.2.2).
        let mut payload = Payload::new(&stream, Chunks::Write(&[8]));
        payload.pass_chunk();
        assert_eq!(payload.pull().unwrap().0.place, Place::WriteChunk(0));
    }
}
