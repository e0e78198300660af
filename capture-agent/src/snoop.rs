//! Captures the messages of the kernel's NFS/RDMA client and server, on Linux, where no packet of the
//! adapter passes this host's network stack.
//!
//! Probes on the kernel's transport fetch each message that it sends or receives (`probes`, with
//! offsets from `btf`). A separate tracefs instance records them (`instance`, `pages`), and their
//! parts are joined (`join`). Each message becomes a frame ([`frames`](self)), with addresses and
//! queue pair numbers of the connection from rdma netlink, and synthetic PSNs. No RDMA operation and
//! no acknowledgement passes these functions.

mod btf;
mod frames;
mod instance;
mod join;
mod pages;
mod probes;

pub use probes::ProbeError;

use crate::capture::Error;
use crate::inventory::{Inventory, InventoryError};
use crate::live::tracefs::TracefsError;
use crate::live_source::{Counts, LiveSource, now};
use crate::note::{Note, NoteKind};
use crate::source::{Next, Source};
use core::time::Duration;
use frames::{Composed, Frames};
use instance::Instance;
use join::Joiner;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a capture.
#[derive(Clone, Copy, Debug)]
pub struct SnoopConfig {
    /// Maximum number of bytes to fetch of a message. More than [`Messages::MOST`] are not fetched.
    pub snap_length: u32,
    /// Size of the kernel's buffers, of all processors together, in bytes.
    pub buffer: usize,
    /// Interval at which an idle source looks for messages.
    pub interval: Duration,
}

/// The reason why messages cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnoopError {
    /// The kernel has no type information.
    #[error(
        "the kernel has no type information of rpcrdma in /sys/kernel/btf: its CONFIG_DEBUG_INFO_BTF or CONFIG_DEBUG_INFO_BTF_MODULES is off"
    )]
    NoBtf,
    /// The module is not loaded.
    #[error("the kernel's NFS/RDMA transport is not loaded: modprobe rpcrdma")]
    NoModule,
    /// The kernel has no dynamic events.
    #[error("the kernel has no dynamic events in tracefs: its CONFIG_KPROBE_EVENTS is off")]
    NoProbes,
    /// Lockdown forbids it.
    #[error("the kernel is locked down (confidentiality): it permits no probes, not even to root")]
    Lockdown,
    /// The kernel is not known.
    #[error(transparent)]
    Unknown(#[from] ProbeError),
    /// tracefs cannot be used.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The connections cannot be queried.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// Another error of the system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A capture of messages.
#[derive(Debug)]
pub struct Messages {
    names: [String; 1],
    instance: Instance,
    joiner: Joiner,
    frames: Frames,
    /// Frames and notes that are not yet delivered.
    waiting: VecDeque<Composed>,
    /// The frame or note that is being delivered.
    latest: Composed,
    /// The time of day at the start of the trace clock, in nanoseconds since 1970.
    epoch: i64,
    counts: Counts,
    /// Lost events: the time up to which they were lost, and their number.
    losses: Vec<(u64, u64)>,
    /// Lost events that are not yet part of a record.
    unreported: u64,
    /// Probes passed over so far.
    missed: u64,
    bytes: u64,
    interval: Duration,
    is_idle: bool,
    /// The last round was taken.
    is_over: bool,
    end: Arc<AtomicBool>,
}

/// The time that an event may take to become readable, and the events of a message to follow each
/// other, in nanoseconds.
const SETTLING: u64 = 5_000_000;
/// The largest error of the epoch that is kept, in nanoseconds.
const TOLERANCE: u64 = 1_000_000;

impl Messages {
    /// Maximum number of bytes that are fetched of a message.
    pub const MOST: usize = probes::MOST;

    /// Starts a capture. Setting `end` ends it.
    pub fn open(config: &SnoopConfig, end: Arc<AtomicBool>) -> Result<Messages, SnoopError> {
        let mut joiner = Joiner::default();
        let inventory = Inventory::open()?;
        let bytes = config.snap_length as usize;
        let instance = Instance::open(bytes, config.buffer, |definition, id, layout| {
            joiner.add_layout(id, definition.point, definition.part, layout);
        })?;
        Ok(Messages {
            names: ["rpcrdma".to_owned()],
            instance,
            joiner,
            frames: Frames::new(inventory, bytes),
            waiting: VecDeque::new(),
            latest: Composed::default(),
            epoch: epoch().1,
            counts: Counts { dropped: Some(0), ..Counts::default() },
            losses: Vec::new(),
            unreported: 0,
            missed: 0,
            bytes: 0,
            interval: config.interval,
            is_idle: false,
            is_over: false,
            end,
        })
    }

    /// Takes the events of the kernel, and composes the messages that are complete.
    fn round(&mut self) -> io::Result<Time> {
        let is_last = self.end.load(Ordering::Relaxed);
        let (clock, epoch) = epoch();
        if epoch.abs_diff(self.epoch) > TOLERANCE {
            self.epoch = epoch;
        }
        let joiner = &mut self.joiner;
        let losses = self.instance.take(|processor, time, data| joiner.take(processor, time, data))?;
        let missed = self.instance.missed()?;
        self.losses.extend(losses);
        self.losses.push((clock, missed.saturating_sub(core::mem::replace(&mut self.missed, missed))));
        let settled = if is_last { u64::MAX } else { clock.saturating_sub(SETTLING) };
        for message in self.joiner.settle(settled) {
            self.lose(message.time);
            let time = Time(self.epoch.saturating_add_unsigned(message.time));
            let frame = self.frames.compose(&message, time, &mut self.waiting);
            if let Some(frame) = frame {
                let dropped = core::mem::take(&mut self.unreported);
                self.waiting.push_back(Composed { dropped, ..frame });
            }
        }
        self.lose(settled);
        self.is_over = is_last;
        Ok(Time(self.epoch.saturating_add_unsigned(clock.saturating_sub(SETTLING))))
    }

    /// Counts the events that were lost before a time.
    fn lose(&mut self, before: u64) {
        let lost = self.losses.extract_if(.., |(time, _)| *time <= before);
        let lost = lost.fold(0, |sum: u64, (_, lost)| sum.saturating_add(lost));
        self.unreported = self.unreported.saturating_add(lost);
        self.counts.dropped = self.counts.dropped.map(|dropped| dropped.saturating_add(lost));
    }
}

/// Checks whether messages can be captured here, without side effects.
pub fn check() -> Result<(), SnoopError> {
    Inventory::open()?;
    instance::possible(Messages::MOST).map(drop)
}

/// The time of the trace clock, and the time of day when it began.
fn epoch() -> (u64, i64) {
    let time = clock_gettime(ClockId::Monotonic);
    let clock = time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as i64);
    (clock.unsigned_abs(), now().0.saturating_sub(clock))
}

impl Source for Messages {
    fn next(&mut self) -> Result<Next<'_>, Error> {
        if self.waiting.is_empty() && !self.is_over {
            if core::mem::take(&mut self.is_idle) && !self.end.load(Ordering::Relaxed) {
                std::thread::sleep(self.interval);
            }
            let reached = self.round();
            let reached = reached.map_err(|error| Error::Live { name: self.names[0].clone(), error })?;
            if self.waiting.is_empty() && !self.is_over {
                self.is_idle = true;
                return Ok(Next::Idle(Some(reached)));
            }
        }
        let Some(composed) = self.waiting.pop_front() else { return Ok(Next::End) };
        self.latest = composed;
        let Composed { note, time, bytes, length, dropped } = &self.latest;
        if let Some(note) = note {
            let bytes = note.clone().into_bytes();
            return Ok(Next::Note(Note { kind: NoteKind::Inventory, bytes }));
        }
        self.counts.delivered += 1;
        self.bytes += u64::from(*length);
        Ok(Next::Record(Record {
            number: self.counts.delivered,
            time: *time,
            link: LinkType::RAW,
            original_length: *length,
            dropped: u32::try_from(*dropped).unwrap_or(u32::MAX),
            tap: Tap::default(),
            data: bytes,
        }))
    }

    fn position(&self) -> u64 {
        self.bytes
    }

    fn dropped(&self) -> u64 {
        self.counts.dropped.unwrap_or(0)
    }
}

impl LiveSource for Messages {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn counts(&mut self) -> io::Result<Counts> {
        Ok(self.counts)
    }

    fn lacks(&mut self) -> Vec<String> {
        match self.frames.unplaced() {
            0 => Vec::new(),
            messages => vec![format!(
                "{messages} messages are left out: their connections had ended before the kernel was asked for the addresses, or they were too long"
            )],
        }
    }
}
