//! A ring of receive buffers, whatever fills them.

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

/// Buffers that packets come into, one packet each, in the order in which they were handed over.
pub(super) trait Device {
    /// How many there are; their numbers begin at 0.
    fn buffers(&self) -> u32;

    /// The bytes of each.
    fn size(&self) -> u32;

    /// Hands these over, to be filled. None of them is with the device.
    fn post(&mut self, buffers: &[u32]) -> io::Result<()>;

    /// Appends some of those that were filled, and does not have them any more; nothing: there is none.
    fn poll(&mut self, filled: &mut Vec<Filled>) -> io::Result<()>;

    /// Waits until one may be filled, for so long at most.
    fn wait(&mut self, time: Duration) -> io::Result<()>;

    /// The first bytes of a buffer that the device does not have.
    fn bytes(&self, buffer: u32, length: u32) -> &[u8];

    /// Packets for which queue pairs of the device had no buffer, this one or others, since some time; `None`: it does not count them.
    fn shortages(&mut self) -> Option<u64>;
}

/// A buffer that the device gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub buffer: u32,
    pub outcome: Outcome,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It holds a packet of so many bytes.
    Packet(u32),
    /// A packet found no room in it.
    TooLong,
    /// The device failed, with this status of a work completion.
    Failed(u32),
}

/// What a ring is made with.
#[derive(Debug)]
pub(super) struct Options {
    /// Of the device, as a person named it.
    pub name: String,
    /// Chooses packets.
    pub sieve: Sieve,
    pub interval: Duration,
    pub end: Arc<AtomicBool>,
}

/// Packets of a device, as they pass.
pub(super) struct Ring<D> {
    device: D,
    names: [String; 1],
    sieve: Sieve,
    interval: Duration,
    /// Buffers that were filled, in order, with the time at which that was seen.
    filled: VecDeque<(Filled, Time)>,
    /// Those that were just polled.
    polled: Vec<Filled>,
    /// Buffers that were read, and go back.
    free: Vec<u32>,
    /// The one whose packet was handed out last.
    lent: Option<u32>,
    /// Buffers that the device has, as far as it is known.
    posted: u32,
    /// So often it was seen to have none.
    exhausted: u64,
    too_long: u64,
    /// What the device counted in the beginning.
    shortages: Option<u64>,
    delivered: u64,
    /// Bytes of all packets on the wire.
    bytes: u64,
    /// It was said that there is nothing, so that the next question may wait.
    is_idle: bool,
    end: Arc<AtomicBool>,
    /// Once that was seen to be set: the buffers that are still read.
    left: Option<usize>,
}

/// So many buffers go back together, or fewer where nothing else is to be done.
const BATCH: usize = 64;

/// What comes next; a packet by the number of its buffer, its bytes, and those of them that are kept.
enum Taken {
    Packet { buffer: u32, length: u32, kept: usize, time: Time },
    Idle(Time),
    End,
}

impl<D: Device> Ring<D> {
    /// Hands all buffers over.
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
            lent: None,
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

    /// What fills the buffers.
    pub(super) fn device(&mut self) -> &mut D {
        &mut self.device
    }

    fn take(&mut self) -> io::Result<Taken> {
        self.free.extend(self.lent.take());
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
                // All that was filled has been read, so no buffer is missing longer than this.
                self.give_back()?;
                if core::mem::take(&mut self.is_idle) {
                    self.device.wait(self.interval)?;
                }
                let asked = now();
                self.drain()?;
                if self.filled.is_empty() {
                    self.is_idle = true;
                    return Ok(Taken::Idle(asked));
                }
                continue;
            };
            self.left = self.left.map(|left| left - 1);
            let Filled { buffer, outcome } = filled;
            match outcome {
                Outcome::Packet(length) => {
                    if let Some(kept) = self.sieve.keep(self.device.bytes(buffer, length)) {
                        let kept = kept.len();
                        self.lent = Some(buffer);
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

    /// Takes note of what was filled. It ends, because nothing is handed over meanwhile.
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

    /// Gives back the buffers that were read. A device that has filled all others by then had none for a while. Looking before they go back is the
    /// only way to know: afterwards it has some again.
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

    fn size(&self) -> Option<u64> {
        None
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
        Some(format!("{} does not tell for how many packets it had no receive buffer", self.names[0]))
    }

    fn lacks(&mut self) -> Vec<String> {
        let mut lacks = Vec::new();
        if self.exhausted > 0 {
            let times = if self.exhausted == 1 { "once".into() } else { format!("{} times", self.exhausted) };
            lacks.push(format!(
                "{} had no receive buffer left, {times}: packets may be missing there",
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
                "{} counted {counted} packets for which a queue pair had no receive buffer, this one or another (out_of_buffer)",
                self.names[0]
            ));
        }
        lacks
    }
}
