//! A ring of receive buffers, independent of the device that fills them.

use crate::capture::Error;
use crate::filter::Sieve;
use crate::live_source::{Counts, LiveSource, now};
use crate::source::{Next, Source};
use core::time::Duration;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device with receive buffers. Each buffer takes one packet, in the order in which they were
/// posted.
pub(super) trait Device {
    /// Returns the number of buffers. They are numbered from 0.
    fn buffers(&self) -> u32;

    /// Returns the size of each buffer in bytes.
    fn size(&self) -> u32;

    /// Posts buffers to the device. None of them may be posted already.
    fn post(&mut self, buffers: &[u32]) -> io::Result<()>;

    /// Appends some of the buffers that were filled. They are no longer posted. Appends nothing if
    /// there are none.
    fn poll(&mut self, filled: &mut Vec<Filled>) -> io::Result<()>;

    /// Waits until a buffer may be filled, at most `time`.
    fn wait(&mut self, time: Duration) -> io::Result<()>;

    /// Returns the first `length` bytes of a buffer that is not posted.
    fn bytes(&self, buffer: u32, length: u32) -> &[u8];

    /// Returns the number of packets for which any queue pair of the device had no buffer, counted
    /// from an arbitrary time. `None` if the device does not count them.
    fn shortages(&mut self) -> Option<u64>;
}

/// A buffer that the device returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub buffer: u32,
    pub outcome: Outcome,
}

/// The result for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The buffer contains a packet of this length.
    Packet(u32),
    /// The packet was too long for the buffer.
    TooLong,
    /// The work completion has this error status.
    Failed(u32),
}

/// Options of a ring.
#[derive(Debug)]
pub(super) struct Options {
    /// Name of the device, as given by the user.
    pub name: String,
    /// Selects the packets to keep.
    pub sieve: Sieve,
    pub interval: Duration,
    pub end: Arc<AtomicBool>,
}

/// A live capture from a device.
pub(super) struct Ring<D> {
    device: D,
    names: [String; 1],
    sieve: Sieve,
    interval: Duration,
    /// Filled buffers in order, each with the time when this was noticed.
    filled: VecDeque<(Filled, Time)>,
    /// The buffers polled last.
    polled: Vec<Filled>,
    /// Buffers that were read and can be posted again.
    free: Vec<u32>,
    /// The buffer of the packet that was delivered last.
    delivered_buffer: Option<u32>,
    /// Number of buffers that the device has, as far as known.
    posted: u32,
    /// How often the device had no buffer.
    exhausted: u64,
    too_long: u64,
    /// The counter of [`Device::shortages`] at the start.
    shortages: Option<u64>,
    delivered: u64,
    /// Total size of all packets on the wire, in bytes.
    bytes: u64,
    /// [`Next::Idle`] was returned, so the next call may wait.
    is_idle: bool,
    end: Arc<AtomicBool>,
    /// After `end` was seen to be set: number of buffers still to read.
    left: Option<usize>,
}

/// Number of buffers to post at once. Fewer are posted if nothing else is to be done.
const BATCH: usize = 64;

/// The next item. A packet is given by its buffer, its length, and the number of bytes to keep.
enum Taken {
    Packet { buffer: u32, length: u32, kept: usize, time: Time },
    Idle(Time),
    End,
}

impl<D: Device> Ring<D> {
    /// Posts all buffers.
    pub(super) fn new(mut device: D, options: Options) -> io::Result<Ring<D>> {
        let shortages = device.shortages();
        let mut ring = Ring {
            free: (0..device.buffers()).collect(),
            device,
            names: [options.name],
            sieve: options.sieve,
            interval: options.interval,
            filled: VecDeque::new(),
            polled: Vec::new(),
            delivered_buffer: None,
            posted: 0,
            exhausted: 0,
            too_long: 0,
            shortages,
            delivered: 0,
            bytes: 0,
            is_idle: false,
            end: options.end,
            left: None,
        };
        ring.post()?;
        Ok(ring)
    }

    /// Returns the device.
    pub(super) fn device(&mut self) -> &mut D {
        &mut self.device
    }

    fn take(&mut self) -> io::Result<Taken> {
        self.free.extend(self.delivered_buffer.take());
        loop {
            if self.free.len() >= BATCH {
                self.give_back()?;
            }
            if self.left.is_none() && self.end.load(Ordering::Relaxed) {
                self.drain()?;
                self.left = Some(self.filled.len());
            }
            if self.left == Some(0) {
                return Ok(Taken::End);
            }
            let Some((filled, time)) = self.filled.pop_front() else {
                // All filled buffers were read, so they need not wait any longer.
                self.give_back()?;
                if core::mem::take(&mut self.is_idle) {
                    self.device.wait(self.interval)?;
                }
                let polled = now();
                self.drain()?;
                if self.filled.is_empty() {
                    self.is_idle = true;
                    return Ok(Taken::Idle(polled));
                }
                continue;
            };
            self.left = self.left.map(|left| left - 1);
            let Filled { buffer, outcome } = filled;
            match outcome {
                Outcome::Packet(length) => {
                    if let Some(kept) = self.sieve.keep(self.device.bytes(buffer, length)) {
                        let kept = kept.len();
                        self.delivered_buffer = Some(buffer);
                        return Ok(Taken::Packet { buffer, length, kept, time });
                    }
                }
                Outcome::TooLong => self.too_long += 1,
                Outcome::Failed(status) => {
                    let text = format!("a work completion has status {status}");
                    return Err(io::Error::other(text));
                }
            }
            self.free.push(buffer);
        }
    }

    /// Collects the filled buffers. Terminates, because no buffer is posted meanwhile.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            self.device.poll(&mut self.polled)?;
            if self.polled.is_empty() {
                return Ok(());
            }
            let time = now();
            self.posted = self.posted.saturating_sub(self.polled.len() as u32);
            self.filled.extend(self.polled.drain(..).map(|filled| (filled, time)));
        }
    }

    /// Posts the buffers that were read. If the device has filled all others by then, it was out of
    /// buffers for some time. This must be checked before posting, because afterwards it has
    /// buffers again.
    fn give_back(&mut self) -> io::Result<()> {
        if self.free.is_empty() {
            return Ok(());
        }
        self.drain()?;
        self.exhausted += u64::from(self.posted == 0);
        self.post()
    }

    fn post(&mut self) -> io::Result<()> {
        self.device.post(&self.free)?;
        self.posted += self.free.len() as u32;
        self.free.clear();
        Ok(())
    }
}

impl<D: Device> Source for Ring<D> {
    fn next(&mut self) -> Result<Next<'_>, Error> {
        let taken = self.take().map_err(|error| Error::Live { name: self.names[0].clone(), error })?;
        let (buffer, length, kept, time) = match taken {
            Taken::Packet { buffer, length, kept, time } => (buffer, length, kept, time),
            Taken::Idle(until) => return Ok(Next::Idle(Some(until))),
            Taken::End => return Ok(Next::End),
        };
        self.delivered += 1;
        self.bytes += u64::from(length);
        Ok(Next::Record(Record {
            number: self.delivered,
            time,
            link: LinkType::ETHERNET,
            original_length: length,
            dropped: 0,
            tap: Tap { file: 0, interface: 0 },
            data: self.device.bytes(buffer, kept as u32),
        }))
    }

    fn position(&self) -> u64 {
        self.bytes
    }

    fn dropped(&self) -> u64 {
        0
    }
}

impl<D: Device> LiveSource for Ring<D> {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn counts(&mut self) -> io::Result<Counts> {
        Ok(Counts { accepted: None, dropped: None, delivered: self.delivered })
    }

    fn uncounted(&self) -> Option<String> {
        Some(format!("{} does not report how many packets found no receive buffer", self.names[0]))
    }

    fn lacks(&mut self) -> Vec<String> {
        let mut lacks = Vec::new();
        if self.exhausted > 0 {
            let times = if self.exhausted == 1 { "once".into() } else { format!("{} times", self.exhausted) };
            lacks.push(format!(
                "{} ran out of receive buffers {times}: packets may be missing there",
                self.names[0]
            ));
        }
        if self.too_long > 0 {
            let size = self.device.size();
            lacks.push(format!("packets longer than {size} bytes are missing: {}", self.too_long));
        }
        let counted = self.device.shortages().zip(self.shortages).map(|(now, then)| now.saturating_sub(then));
        if let Some(counted @ 1..) = counted {
            lacks.push(format!(
                "{} counted {counted} packets that found no receive buffer in this queue pair or another (out_of_buffer)",
                self.names[0]
            ));
        }
        lacks
    }
}
