//! A pipe that can be interrupted.

use crate::piece;
use std::io::{self, Cursor, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Size of a read in bytes: the capacity of a Linux pipe.
const PIECE: usize = 64 << 10;
/// Maximum number of pieces to read ahead.
const AHEAD: usize = 4;
/// After an interrupt the writer may be ending too. Its output is read until it is silent for this
/// long.
const SILENCE: Duration = Duration::from_millis(500);
/// Maximum time to read after an interrupt.
const LONGEST: Duration = Duration::from_secs(2);

/// Ends the reading of pipes: standard input, FIFOs and devices. Clones are connected to the same
/// pipes.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Mutex<Vec<Input>>>);

/// A pipe that may be read.
#[derive(Debug)]
struct Input {
    messages: Sender<Message>,
    /// When its end was read.
    ended: Arc<OnceLock<Instant>>,
}

impl Input {
    /// Ends it. Returns whether it was read, or ended so shortly before `now` that its writer may have
    /// ended by the same signal.
    fn end(&self, now: Instant) -> bool {
        let has_just_ended =
            || self.ended.get().is_some_and(|ended| now.saturating_duration_since(*ended) < SILENCE);
        // Sending fails if the pipe is not read any more.
        self.messages.send(Message::End).is_ok() || has_just_ended()
    }
}

/// A message to the reader of a pipe.
#[derive(Debug)]
enum Message {
    /// Bytes read; empty at the end.
    Read(io::Result<Vec<u8>>),
    End,
}

impl Interrupt {
    /// Ends each pipe that is still being read as if its writer had closed it, after a short time
    /// in which output of the writer is still read. Returns true if a pipe was not ended before, or
    /// if its writer closed it just before.
    pub fn end_inputs(&self) -> bool {
        self.end_inputs_at(Instant::now())
    }

    fn end_inputs_at(&self, now: Instant) -> bool {
        let mut pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.drain(..).filter(|pipe| pipe.end(now)).count() > 0
    }
}

/// Reads on a separate thread, so that the caller can stop waiting.
pub(crate) struct Pipe {
    messages: Option<Receiver<Message>>,
    /// When it ended.
    ended: Arc<OnceLock<Instant>>,
    /// Pieces to recycle.
    taken: Sender<Vec<u8>>,
    piece: Cursor<Vec<u8>>,
    /// Deadline for the end, after an interrupt.
    end: Option<Instant>,
}

impl Pipe {
    /// Starts the thread. It ends with its input, or when the receiver is dropped.
    pub(crate) fn new(mut reader: impl Read + Send + 'static, interrupt: &Interrupt) -> io::Result<Pipe> {
        let (sender, messages) = channel();
        let (taken, empty) = channel::<Vec<u8>>();
        let ended = Arc::default();
        let input = Input { messages: sender.clone(), ended: Arc::clone(&ended) };
        interrupt.0.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        for _ in 0..AHEAD {
            let _ = taken.send(Vec::new());
        }
        thread::Builder::new().name("pipe".into()).spawn(move || {
            while let Ok(piece) = empty.recv() {
                let (read, is_last) = piece::fill(&mut reader, piece, PIECE);
                if sender.send(Message::Read(read)).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Pipe { messages: Some(messages), ended, taken, piece: Cursor::default(), end: None })
    }

    /// Returns the next piece, which is empty at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        while let Some(messages) = &self.messages {
            let message = match self.end.map(|end| end.checked_duration_since(Instant::now())) {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(Some(left)) => messages.recv_timeout(left.min(SILENCE)),
                Some(None) => Err(RecvTimeoutError::Timeout),
            };
            match message {
                Ok(Message::Read(Ok(piece))) if !piece.is_empty() => return Ok(piece),
                Ok(Message::Read(Err(error))) => {
                    self.close();
                    return Err(error);
                }
                Ok(Message::End) => self.end = Some(Instant::now() + LONGEST),
                Ok(Message::Read(Ok(_))) | Err(_) => self.close(),
            }
        }
        Ok(Vec::new())
    }

    fn close(&mut self) {
        // The end is noted first, so that an interrupt sees it or reaches the pipe.
        self.ended.get_or_init(Instant::now);
        self.messages = None;
    }
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.piece.position() == self.piece.get_ref().len() as u64 {
            let next = self.next()?;
            let read = std::mem::replace(&mut self.piece, Cursor::new(next));
            // The thread may have ended and need no piece to fill.
            let _ = self.taken.send(read.into_inner());
        }
        self.piece.read(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_returns_the_bytes_of_its_reader() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut pipe = Pipe::new(io::Cursor::new(bytes.clone()), &Interrupt::default()).unwrap();
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).unwrap();
        assert!(all == bytes);
    }

    /// Bytes written before the interrupt are read. Then the pipe ends, whether its writer is
    /// silent or never stops.
    #[test]
    fn interrupt_ends_open_pipes() {
        let interrupt = Interrupt::default();
        let (reader, mut writer) = io::pipe().unwrap();
        let mut silent = Pipe::new(reader, &interrupt).unwrap();
        let mut endless = Pipe::new(io::repeat(7), &interrupt).unwrap();
        io::Write::write_all(&mut writer, b"before").unwrap();
        let mut all = vec![0; 6];
        silent.read_exact(&mut all).unwrap();
        assert!(interrupt.end_inputs());
        assert!(!interrupt.end_inputs(), "all were ended");
        io::Write::write_all(&mut writer, b" and in hand").unwrap();
        silent.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"before and in hand");
        io::copy(&mut endless, &mut io::sink()).unwrap();
        drop(writer);
    }

    /// Ctrl-C in a pipeline ends the writer too, perhaps first.
    #[test]
    fn interrupt_ignores_pipes_that_ended_long_before() {
        for (milliseconds, is_recent) in [(0, true), (499, true), (500, false), (60_000, false)] {
            let interrupt = Interrupt::default();
            let mut pipe = Pipe::new(io::empty(), &interrupt).unwrap();
            assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
            let ended = *pipe.ended.get().expect("it has ended");
            let now = ended + Duration::from_millis(milliseconds);
            assert_eq!(interrupt.end_inputs_at(now), is_recent, "{milliseconds} ms");
            assert!(!interrupt.end_inputs_at(now), "the second time");
        }
    }
}
