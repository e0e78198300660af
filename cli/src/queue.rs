//! Output that never waits for its reader: a bounded queue and a writer thread.
//!
//! If the queue is full, whole lines are dropped and counted.

use core::time::Duration;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

/// Maximum number of bytes in a queue. The lines of an interval with thousands of connections fit.
const LIMIT: usize = 16 << 20;

/// Maximum time that closing waits for the reader.
const GRACE: Duration = Duration::from_secs(3);

/// Output through a queue.
pub(crate) struct Queue {
    /// `None` if the queue is closed.
    chunks: Option<Sender<Vec<u8>>>,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    counts: Arc<Counts>,
    limit: usize,
    /// Receives the result of the thread.
    ended: Receiver<io::Result<()>>,
    on_loss: OnLoss,
}

/// Called with the number of lines dropped so far.
type OnLoss = fn(u64);

#[derive(Default)]
struct Counts {
    /// Bytes in the queue.
    bytes: AtomicUsize,
    /// Lines in the queue.
    lines: AtomicU64,
    /// Dropped lines.
    dropped: AtomicU64,
}

impl Queue {
    /// Starts the thread that writes to `to`. Losses are reported when the queue becomes empty, and
    /// at the end.
    pub(crate) fn start(name: &str, to: impl Write + Send + 'static, on_loss: OnLoss) -> io::Result<Queue> {
        Queue::with_limit(LIMIT, name, to, on_loss)
    }

    fn with_limit(
        limit: usize,
        name: &str,
        mut to: impl Write + Send + 'static,
        on_loss: OnLoss,
    ) -> io::Result<Queue> {
        let (chunks, written) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        std::thread::Builder::new().name(name.into()).spawn(move || {
            let _without_receiver = end.send(write(&written, &mut to, &shared, on_loss));
        })?;
        Ok(Queue { chunks: Some(chunks), line: Vec::new(), counts, limit, ended, on_loss })
    }

    /// Number of lines dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Puts whole lines into the queue.
    fn enqueue(&mut self, chunk: Vec<u8>) {
        let Some(chunks) = &self.chunks else { return };
        let (bytes, lines) = (chunk.len(), lines(&chunk));
        if self.counts.bytes.load(Ordering::Relaxed) + bytes > self.limit {
            self.counts.dropped.fetch_add(lines, Ordering::Relaxed);
            return;
        }
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counts.lines.fetch_add(lines, Ordering::Relaxed);
        // If the thread has ended, `ended` has the reason.
        let _ = chunks.send(chunk);
    }

    /// Waits until everything is written, at most [`GRACE`]. The rest counts as dropped.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let rest = mem::take(&mut self.line);
        self.enqueue(rest);
        if self.chunks.take().is_none() {
            return Ok(());
        }
        match self.ended.recv_timeout(GRACE) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Disconnected) => Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                (self.on_loss)(self.dropped() + self.counts.lines.load(Ordering::Relaxed));
                Ok(())
            }
        }
    }
}

impl Write for Queue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let (complete, rest) =
            bytes.split_at(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        if !complete.is_empty() {
            let mut chunk = mem::take(&mut self.line);
            chunk.extend_from_slice(complete);
            self.enqueue(chunk);
        }
        self.line.extend_from_slice(rest);
        Ok(bytes.len())
    }

    /// Does not wait. Fails if an earlier write has failed.
    fn flush(&mut self) -> io::Result<()> {
        self.ended.try_recv().unwrap_or(Ok(()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _unreported = self.close();
    }
}

/// Writes until the queue is closed.
fn write(
    chunks: &Receiver<Vec<u8>>,
    to: &mut impl Write,
    counts: &Counts,
    on_loss: OnLoss,
) -> io::Result<()> {
    let mut reported = 0;
    let mut report = || {
        let dropped = counts.dropped.load(Ordering::Relaxed);
        if mem::replace(&mut reported, dropped) < dropped {
            on_loss(dropped);
        }
    };
    for chunk in chunks {
        to.write_all(&chunk)?;
        to.flush()?;
        counts.lines.fetch_sub(lines(&chunk), Ordering::Relaxed);
        if counts.bytes.fetch_sub(chunk.len(), Ordering::Relaxed) == chunk.len() {
            report();
        }
    }
    report();
    Ok(())
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};

    /// A reader that can stop.
    #[derive(Clone, Default)]
    struct Reader(Arc<(Mutex<Read>, Condvar)>);

    #[derive(Default)]
    struct Read {
        text: String,
        is_stopped: bool,
    }

    impl Reader {
        fn stopped(is_stopped: bool) -> Reader {
            let reader = Reader::default();
            reader.stop(is_stopped);
            reader
        }

        fn stop(&self, is_stopped: bool) {
            self.0.0.lock().unwrap().is_stopped = is_stopped;
            self.0.1.notify_all();
        }

        fn text(&self) -> String {
            self.0.0.lock().unwrap().text.clone()
        }
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (read, changed) = &*self.0;
            let mut read = changed.wait_while(read.lock().unwrap(), |read| read.is_stopped).unwrap();
            read.text.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn active_reader_receives_all_output() {
        let reader = Reader::default();
        let mut queue = Queue::start("test", reader.clone(), |_| panic!("nothing is dropped")).unwrap();
        let lines: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        // The pieces are not lines.
        lines.as_bytes().chunks(7).for_each(|piece| queue.write_all(piece).unwrap());
        queue.write_all(b"the end").unwrap();
        queue.close().unwrap();
        assert_eq!((reader.text(), queue.dropped()), (lines + "the end", 0));
    }

    #[test]
    fn complete_lines_are_dropped_while_the_reader_is_stopped() {
        static REPORTED: AtomicU64 = AtomicU64::new(0);
        let reader = Reader::stopped(true);
        let on_loss = |lines| REPORTED.store(lines, Ordering::Relaxed);
        let mut queue = Queue::with_limit(20, "test", reader.clone(), on_loss).unwrap();
        for line in ["first\n", "second\n", "thi", "rd\n", "fourth\nfifth\n", "six", "th\n"] {
            queue.write_all(line.as_bytes()).unwrap();
        }
        // 19 of at most 20 bytes are waiting.
        assert_eq!(queue.dropped(), 3);
        reader.stop(false);
        queue.close().unwrap();
        assert_eq!(reader.text(), "first\nsecond\nthird\n");
        assert_eq!(REPORTED.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn close_does_not_wait_for_a_stopped_reader() {
        static REPORTED: AtomicU64 = AtomicU64::new(0);
        let reader = Reader::stopped(true);
        let on_loss = |lines| REPORTED.store(lines, Ordering::Relaxed);
        let mut queue = Queue::start("test", reader.clone(), on_loss).unwrap();
        queue.write_all(b"first\nsecond\nthird").unwrap();
        queue.close().unwrap();
        assert_eq!((reader.text(), REPORTED.load(Ordering::Relaxed)), (String::new(), 2));
        reader.stop(false);
    }

    /// For example, the error of a closed pipe.
    #[test]
    fn write_error_is_returned_by_close() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut queue = Queue::start("test", Closed, |_| ()).unwrap();
        queue.write_all(b"line\n").unwrap();
        assert_eq!(queue.close().map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    }
}
