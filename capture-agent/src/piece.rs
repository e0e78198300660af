//! Reads pieces of input on a thread.

use std::io::{self, ErrorKind, Read};

/// Fills a piece with the result of one read, at most `most` bytes; it is empty at the end. Also
/// returns true for the last piece: the end, or an error.
pub(crate) fn fill(reader: &mut impl Read, mut piece: Vec<u8>, most: usize) -> (io::Result<Vec<u8>>, bool) {
    piece.resize(most, 0);
    let read = loop {
        match reader.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    let is_last = !matches!(read, Ok(1..));
    let filled = read.map(|length| {
        piece.truncate(length);
        piece
    });
    (filled, is_last)
}
