//! A buffered reader that exposes the bytes read and not yet consumed.

use core::ops::Range;
use std::io::{self, Cursor, ErrorKind, Read};

/// Initial size of the buffer in bytes.
const FIRST_CAPACITY: usize = 256 << 10;

/// A reader and the bytes read from it and not yet consumed.
pub(crate) struct Stream {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    over: Option<Over>,
}

/// How a reader ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// At its regular end.
    Complete,
    /// A decoder found that its input was cut short.
    Cut,
}

impl Stream {
    pub(crate) fn new(reader: Box<dyn Read + Send>) -> Stream {
        Stream { reader, buffer: Vec::new(), start: 0, end: 0, over: None }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Drops the first `length` of [`Stream::bytes`]. They remain in the buffer until the next
    /// [`Stream::fill`].
    #[inline]
    pub(crate) fn consume(&mut self, length: usize) {
        self.start += length;
        debug_assert!(self.start <= self.end);
    }

    /// Returns the last `length` consumed bytes.
    #[inline]
    pub(crate) fn consumed(&self, length: usize) -> &[u8] {
        &self.buffer[self.start - length..self.start]
    }

    /// Reads until `needed` bytes are available, and no more than the last read returns. The buffer
    /// grows with the bytes that arrive, not with `needed`.
    pub(crate) fn fill(&mut self, needed: usize) -> io::Result<Result<(), Over>> {
        while self.end - self.start < needed {
            if let Some(over) = self.over {
                return Ok(Err(over));
            }
            if self.end == self.buffer.len() {
                self.make_room();
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = Some(Over::Complete),
                Ok(length) => self.end += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.over = Some(Over::Cut),
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(()))
    }

    fn make_room(&mut self) {
        if self.start >= self.buffer.len() / 2 && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else {
            let capacity = (self.buffer.len() * 2).max(FIRST_CAPACITY);
            self.buffer.resize(capacity, 0);
        }
    }

    /// Takes the buffer, with the range of [`Stream::bytes`] in it. `spare` replaces it.
    pub(crate) fn take(&mut self, spare: Vec<u8>) -> (Vec<u8>, Range<usize>) {
        let range = core::mem::take(&mut self.start)..core::mem::take(&mut self.end);
        (core::mem::replace(&mut self.buffer, spare), range)
    }

    /// Returns the unconsumed end of a buffer that was [taken](Stream::take).
    pub(crate) fn put_back(&mut self, rest: &[u8]) {
        if self.buffer.len() < rest.len() {
            self.buffer.resize(rest.len().next_power_of_two().max(FIRST_CAPACITY), 0);
        }
        self.buffer[..rest.len()].copy_from_slice(rest);
        (self.start, self.end) = (0, rest.len());
    }

    /// Returns a reader that begins with the unconsumed bytes.
    pub(crate) fn into_reader(mut self) -> Box<dyn Read + Send> {
        self.buffer.truncate(self.end);
        self.buffer.drain(..self.start);
        Box::new(Cursor::new(self.buffer).chain(self.reader))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes per read, and is interrupted before each.
    struct Dripping(Vec<u8>, bool);

    impl Read for Dripping {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            let length = self.0.len().min(3).min(out.len());
            out[..length].copy_from_slice(&self.0[..length]);
            self.0.drain(..length);
            Ok(length)
        }
    }

    #[test]
    fn fill_continues_after_interruptions() {
        let mut stream = Stream::new(Box::new(Dripping((0..10).collect(), false)));
        assert!(stream.fill(5).unwrap().is_ok());
        assert_eq!(stream.bytes(), [0, 1, 2, 3, 4, 5]);
        stream.consume(4);
        assert_eq!(stream.consumed(2), [2, 3]);
        assert!(stream.fill(6).unwrap().is_ok());
        assert!(stream.fill(7).unwrap().is_err());
        assert_eq!(stream.bytes(), [4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn buffer_grows_with_the_received_data() {
        let mut stream = Stream::new(Box::new(io::repeat(7).take(1 << 20)));
        assert!(stream.fill(usize::MAX).unwrap().is_err());
        assert_eq!(stream.bytes().len(), 1 << 20);
        assert!(stream.buffer.len() <= 4 << 20);
        let mut stream = Stream::new(Box::new(io::repeat(7)));
        for _ in 0..1000 {
            assert!(stream.fill(9000).unwrap().is_ok());
            stream.consume(9000);
        }
        assert_eq!(stream.buffer.len(), FIRST_CAPACITY);
    }

    #[test]
    fn reader_starts_with_the_buffered_bytes() {
        let mut stream = Stream::new(Box::new(Dripping((0..10).collect(), false)));
        assert!(stream.fill(4).unwrap().is_ok());
        let mut all = Vec::new();
        stream.into_reader().read_to_end(&mut all).unwrap();
        assert_eq!(all, (0..10).collect::<Vec<u8>>());
    }
}
