//! XDR, the external data representation (RFC 4506): big-endian words, items padded to four bytes.

use crate::{Layer, Stop};
use alloc::vec::Vec;

/// Returns the length of an item of `length` bytes with its roundup padding (RFC 4506, section 3).
#[inline]
pub const fn padded(length: u32) -> u64 {
    (length as u64 + 3) & !3
}

/// Rounds a sum of lengths up to a multiple of four. A sum of more than 32 bits is no XDR length
/// and is returned unchanged.
#[inline]
pub fn round_up(length: u64) -> u64 {
    u32::try_from(length).map_or(length, padded)
}

/// A cursor over an XDR stream. A read that fails leaves the cursor where it was.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Length of the whole stream in bytes.
    length: usize,
    layer: Layer,
}

impl<'a> Reader<'a> {
    /// Creates a cursor at the start of `bytes`. A [`Stop`] names `layer`.
    #[inline]
    pub fn new(bytes: &'a [u8], layer: Layer) -> Reader<'a> {
        Reader { rest: bytes, length: bytes.len(), layer }
    }

    /// Returns the number of bytes before the cursor.
    #[inline]
    pub fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Returns the bytes after the cursor.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the layer that a [`Stop`] names.
    #[inline]
    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// Reads an unsigned 32-bit integer (section 4.2).
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Stop> {
        let (word, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(4))?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*word))
    }

    /// Reads an unsigned 64-bit hyper integer (section 4.5).
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Stop> {
        let (word, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(8))?;
        self.rest = rest;
        Ok(u64::from_be_bytes(*word))
    }

    /// Reads a boolean (section 4.4). Values other than 0 and 1 are malformed.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Stop> {
        let before = *self;
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => {
                *self = before;
                Err(Stop::malformed(self.layer, self.position()))
            }
        }
    }

    /// Reads fixed-length opaque data (section 4.9) and its padding.
    #[inline]
    pub fn fixed(&mut self, length: u32) -> Result<&'a [u8], Stop> {
        let padded = usize::try_from(padded(length)).unwrap_or(usize::MAX);
        let (data, rest) = self.rest.split_at_checked(padded).ok_or_else(|| self.short(padded))?;
        self.rest = rest;
        Ok(&data[..length as usize])
    }

    /// Reads variable-length opaque data or a string (sections 4.10 and 4.11): count, bytes,
    /// padding.
    #[inline]
    pub fn opaque(&mut self) -> Result<&'a [u8], Stop> {
        let before = *self;
        let length = self.u32()?;
        self.fixed(length).inspect_err(|_| *self = before)
    }

    /// Skips `length` bytes and their padding.
    #[inline]
    pub fn skip(&mut self, length: u32) -> Result<(), Stop> {
        self.fixed(length).map(|_| ())
    }

    #[cold]
    fn short(&self, needed: usize) -> Stop {
        Stop::short(self.layer, self.position(), needed, self.length)
    }
}

/// Appends a 32-bit word.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a 64-bit hyper.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends variable-length opaque data: count, bytes, padding.
///
/// # Panics
/// Panics if the length of `data` does not fit 32 bits.
pub fn put_opaque(out: &mut Vec<u8>, data: &[u8]) {
    put_u32(out, u32::try_from(data.len()).expect("an XDR item is shorter than 4 GiB"));
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use proptest::prelude::*;

    #[test]
    fn opaque_item_is_read_with_its_padding() {
        // RFC 4506, section 4.10: count 5, "hello", three zeros; then the word 7.
        let bytes = [0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 0, 0, 0, 7];
        let mut reader = Reader::new(&bytes, Layer::Rpc);
        assert_eq!(reader.opaque(), Ok(&b"hello"[..]));
        assert_eq!(reader.position(), 12);
        assert_eq!(reader.u32(), Ok(7));
        assert_eq!(reader.u32(), Err(Stop::short(Layer::Rpc, 16, 4, 16)));
    }

    #[test]
    fn opaque_count_beyond_the_end_keeps_the_position() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        let mut reader = Reader::new(&bytes, Layer::UpperLayer);
        let stop = reader.opaque().unwrap_err();
        assert_eq!((stop.offset, stop.needed, stop.available), (4, 0x1_0000_0000, 4));
        assert_eq!(stop.cause, Cause::TruncatedPacket);
        assert_eq!(reader.position(), 0);
    }

    #[test]
    fn boolean_other_than_zero_or_one_is_malformed() {
        let mut reader = Reader::new(&[0, 0, 0, 2], Layer::Rpc);
        assert_eq!(reader.bool(), Err(Stop::malformed(Layer::Rpc, 0)));
    }

    proptest! {
        #[test]
        fn values_round_trip(data in proptest::collection::vec(any::<u8>(), 0..40), word: u32, hyper: u64) {
            let mut out = Vec::new();
            put_opaque(&mut out, &data);
            put_u32(&mut out, word);
            put_u64(&mut out, hyper);
            let mut reader = Reader::new(&out, Layer::Rpc);
            prop_assert_eq!(reader.opaque().unwrap(), &data[..]);
            prop_assert_eq!(reader.u32().unwrap(), word);
            prop_assert_eq!(reader.u64().unwrap(), hyper);
            prop_assert!(reader.rest().is_empty());
        }
    }
}
