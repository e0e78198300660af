//! gzip and zstd, decoded on a thread of their own.

use crate::compress::Compression;
use crate::piece;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Bytes that the decoder hands over at once.
const PIECE: usize = 256 << 10;
/// Pieces that may wait to be taken: what the decoder may be ahead.
const AHEAD: usize = 4;

/// What `compressed` decodes to.
pub(crate) struct Decoded {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// Pieces that were taken, to be filled again.
    taken: Sender<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    read: Arc<AtomicU64>,
}

impl Decoded {
    /// Starts the thread. It ends when `compressed` does, or with the first piece that nobody is there to take.
    pub(crate) fn new(compression: Compression, compressed: Box<dyn Read + Send>) -> io::Result<Decoded> {
        let (give, pieces) = sync_channel(AHEAD);
        let (taken, empty) = channel();
        let read = Arc::new(AtomicU64::new(0));
        let counted =
            BufReader::with_capacity(PIECE, Counted { reader: compressed, read: Arc::clone(&read) });
        thread::Builder::new().name("decompress".into()).spawn(move || match compression {
            Compression::Gzip => decode(MultiGzDecoder::new(counted), &give, &empty),
            Compression::Zstd => match zstd::stream::read::Decoder::with_buffer(counted) {
                Ok(decoder) => decode(decoder, &give, &empty),
                // The receiver may be gone; then nobody needs the rest.
                Err(error) => drop(give.send(Err(error))),
            },
        })?;
        Ok(Decoded { pieces, taken, piece: Vec::new(), at: 0, read })
    }

    /// A count of the compressed bytes that were read so far.
    pub(crate) fn compressed_bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }
}

/// Sends what `decoder` gives, in the end an empty piece or the error.
fn decode(mut decoder: impl Read, give: &SyncSender<io::Result<Vec<u8>>>, empty: &Receiver<Vec<u8>>) {
    loop {
        let piece = empty.try_recv().unwrap_or_default();
        let (read, is_last) = piece::fill(&mut decoder, piece, PIECE);
        if give.send(read).is_err() || is_last {
            return;
        }
    }
}

impl Read for Decoded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            let next =
                self.pieces.recv().map_err(|_| io::Error::other("the decompressing thread is gone"))?;
            // The thread may have ended, with nothing left to fill.
            let _ = self.taken.send(std::mem::replace(&mut self.piece, next?));
            self.at = 0;
        }
        let rest = &self.piece[self.at..];
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

/// A reader that tells how far it was read.
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
