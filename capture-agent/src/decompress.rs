//! Decompresses gzip and zstd on a separate thread.

use crate::compress::Compression;
use crate::piece;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Size in bytes of the pieces that the decoder delivers.
const PIECE: usize = 256 << 10;
/// Maximum number of pieces that the decoder is ahead.
const AHEAD: usize = 4;

/// The decompressed data of a reader.
pub(crate) struct Decoded {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// Pieces to recycle.
    taken: Sender<Vec<u8>>,
    piece: Cursor<Vec<u8>>,
    read: Arc<AtomicU64>,
}

impl Decoded {
    /// Starts the thread. It ends with its input, or when the receiver is dropped.
    pub(crate) fn new(compression: Compression, compressed: Box<dyn Read + Send>) -> io::Result<Decoded> {
        let (sender, pieces) = sync_channel(AHEAD);
        let (taken, empty) = channel();
        let read = Arc::new(AtomicU64::new(0));
        let counted =
            BufReader::with_capacity(PIECE, Counted { reader: compressed, read: Arc::clone(&read) });
        thread::Builder::new().name("decompress".into()).spawn(move || match compression {
            Compression::Gzip => decode(MultiGzDecoder::new(counted), &sender, &empty),
            Compression::Zstd => match zstd::stream::read::Decoder::with_buffer(counted) {
                Ok(decoder) => decode(decoder, &sender, &empty),
                // If the receiver is gone, the error is not needed.
                Err(error) => drop(sender.send(Err(error))),
            },
        })?;
        Ok(Decoded { pieces, taken, piece: Cursor::default(), read })
    }

    /// Returns the counter of compressed bytes read.
    pub(crate) fn compressed_bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }
}

/// Sends the output of `decoder`; the last piece is empty or an error.
fn decode(mut decoder: impl Read, sender: &SyncSender<io::Result<Vec<u8>>>, empty: &Receiver<Vec<u8>>) {
    loop {
        let piece = empty.try_recv().unwrap_or_default();
        let (read, is_last) = piece::fill(&mut decoder, piece, PIECE);
        if sender.send(read).is_err() || is_last {
            return;
        }
    }
}

impl Read for Decoded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.piece.position() == self.piece.get_ref().len() as u64 {
            let next =
                self.pieces.recv().map_err(|_| io::Error::other("the decompression thread has ended"))?;
            let read = std::mem::replace(&mut self.piece, Cursor::new(next?));
            // The thread may have ended and need no piece to fill.
            let _ = self.taken.send(read.into_inner());
        }
        self.piece.read(out)
    }
}

/// A reader that counts the bytes read.
struct Counted {
    reader: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(out)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
