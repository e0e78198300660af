//! Live capture from network interfaces, on Linux.
//!
//! [`Live`] is a [`Source`]: packets come from a ring that the kernel fills (`ring`), chosen by a program that the kernel runs (`filter`). Several
//! interfaces share a ring, so that their packets come in the order in which the kernel saw them. What the kernel drops is counted.

pub mod filter;
mod interfaces;
#[allow(unsafe_code)]
mod ring;

pub use interfaces::{NetworkInterface, network_interfaces};

use crate::capture::Error;
use crate::source::{Next, Source};
use core::time::Duration;
use filter::Wanted;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use ring::{Ring, Waited};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What is captured, and how.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// The names of the interfaces; at least one, at most [`Wanted::MOST_INTERFACES`].
    pub interfaces: Vec<String>,
    /// What passes the filter.
    pub wanted: Wanted,
    /// Bytes that are captured of a packet at most.
    pub snap_length: u32,
    /// Bytes of the ring.
    pub buffer: usize,
    /// The interfaces receive what is not for them.
    pub promiscuous: bool,
    /// What this host sends is left out: where two interfaces show each packet, or one shows it twice.
    pub incoming_only: bool,
    /// How often the source says that there is nothing, and asks whether it is to end.
    pub interval: Duration,
}

impl Default for LiveConfig {
    fn default() -> LiveConfig {
        LiveConfig {
            interfaces: Vec::new(),
            wanted: Wanted::default(),
            snap_length: 262_144,
            buffer: 64 << 20,
            promiscuous: false,
            incoming_only: false,
            interval: Duration::from_millis(100),
        }
    }
}

/// Why an interface cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No interface was named, or too many.
    #[error("{0} interfaces were named; from 1 to {most} can be captured at once", most = Wanted::MOST_INTERFACES)]
    Count(usize),
    /// There is none of this name.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// It carries no Ethernet frames.
    #[error("{name} carries no Ethernet frames (ARPHRD {kind})")]
    NotEthernet {
        /// Its name.
        name: String,
        /// Its type in the numbers of ARP, as Linux gives it.
        kind: u32,
    },
    /// CAP_NET_RAW is missing.
    #[error("to capture takes the capability CAP_NET_RAW")]
    NotPermitted,
    /// What the system said.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// How many packets there were, from the beginning on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Packets that passed the filter.
    pub accepted: u64,
    /// Those of them that found no room in the ring.
    pub dropped: u64,
    /// Packets that were handed out.
    pub delivered: u64,
}

/// Packets of interfaces, as they pass.
#[derive(Debug)]
pub struct Live {
    ring: Ring,
    /// By the number of an interface in the capture: its index in the system.
    indexes: Vec<u32>,
    names: Vec<String>,
    interval: Duration,
    counts: LiveCounts,
    /// Bytes of all packets on the wire.
    bytes: u64,
    /// Drops that no record has told of.
    untold: u64,
    /// When the kernel was last asked for its counts.
    asked: Instant,
    /// It was said that there is nothing, so that the next question may wait.
    is_idle: bool,
    /// The interfaces are down.
    is_down: bool,
    end: Arc<AtomicBool>,
    /// When that was seen to be set. A packet that came later is no part of the capture, or a busy interface would never come to an end.
    ended: Option<Time>,
}

/// The kernel is asked how many packets it dropped this often, where packets do not stop to come.
const COUNTING: Duration = Duration::from_millis(50);
/// Packets after which it is seen whether it is time.
const STRIDE: u64 = 256;

impl Live {
    /// Begins to capture. `end` ends it, once it is set: what the ring holds by then is handed out.
    pub fn open(config: &LiveConfig, end: Arc<AtomicBool>) -> Result<Live, LiveError> {
        const ETHERNET: u32 = 1;
        const LOOPBACK: u32 = 772;
        let names = &config.interfaces;
        if names.is_empty() || names.len() > Wanted::MOST_INTERFACES {
            return Err(LiveError::Count(names.len()));
        }
        let mut indexes = Vec::new();
        for name in names {
            let (index, kind) =
                interfaces::index_and_kind(name).ok_or_else(|| LiveError::NoInterface(name.clone()))?;
            // The loopback interface has Ethernet headers too.
            if kind != ETHERNET && kind != LOOPBACK {
                return Err(LiveError::NotEthernet { name: name.clone(), kind });
            }
            indexes.push(index);
        }
        let several = indexes.len() > 1;
        let wanted = Wanted {
            interfaces: if several { indexes.clone() } else { Vec::new() },
            ..config.wanted.clone()
        };
        let ring = Ring::open(&ring::Options {
            interface: if several { 0 } else { indexes[0] },
            filter: &filter::program(&wanted, config.snap_length),
            size: config.buffer,
            incoming_only: config.incoming_only,
            promiscuous: if config.promiscuous { &indexes } else { &[] },
        })
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => LiveError::NotPermitted,
            _ => LiveError::System(error),
        })?;
        Ok(Live {
            ring,
            names: names.clone(),
            indexes,
            interval: config.interval,
            counts: LiveCounts::default(),
            bytes: 0,
            untold: 0,
            asked: Instant::now(),
            is_idle: false,
            is_down: false,
            end,
            ended: None,
        })
    }

    /// The names of the interfaces, in the order in which records number them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Packets so far. Errors: the kernel was asked and did not answer.
    pub fn counts(&mut self) -> io::Result<LiveCounts> {
        self.count()?;
        Ok(self.counts)
    }

    /// Whether the interfaces are down, as far as the kernel has said so.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Live { name: self.names.join(", "), error }
    }

    fn count(&mut self) -> io::Result<()> {
        let (accepted, dropped) = self.ring.counts()?;
        self.counts.accepted += u64::from(accepted);
        self.counts.dropped += u64::from(dropped);
        self.untold += u64::from(dropped);
        self.asked = Instant::now();
        Ok(())
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

impl Source for Live {
    fn next(&mut self) -> Result<Next<'_>, Error> {
        let was_idle = core::mem::take(&mut self.is_idle);
        if was_idle {
            match self.ring.wait(self.interval).map_err(|error| self.failed(error))? {
                Waited::Down => self.is_down = true,
                Waited::Ready => self.is_down = false,
                Waited::TimedOut => {}
            }
        }
        // To ask the clock costs as much as a packet.
        if (was_idle || self.counts.delivered.is_multiple_of(STRIDE)) && self.asked.elapsed() > COUNTING {
            self.count().map_err(|error| self.failed(error))?;
        }
        if self.ended.is_none() && self.end.load(Ordering::Relaxed) {
            self.ended = Some(now());
        }
        let Live { ring, counts, untold, indexes, bytes, ended, .. } = self;
        let Some(packet) = ring.next() else {
            if ended.is_some() {
                return Ok(Next::End);
            }
            self.is_idle = true;
            // What is in the ring by now is at most so old.
            return Ok(Next::Idle(Some(Time(now().0 - 2 * ring::RETIRE.as_nanos() as i64))));
        };
        if ended.is_some_and(|ended| packet.time > ended.0) {
            return Ok(Next::End);
        }
        counts.delivered += 1;
        *bytes += u64::from(packet.length);
        let interface = indexes.iter().position(|index| *index == packet.interface).unwrap_or(0);
        Ok(Next::Record(Record {
            number: counts.delivered,
            time: Time(packet.time),
            link: LinkType::ETHERNET,
            original_length: packet.length,
            dropped: u32::try_from(core::mem::take(untold)).unwrap_or(u32::MAX),
            tap: Tap { file: 0, interface: interface as u32 },
            data: packet.data,
        }))
    }

    fn position(&self) -> u64 {
        self.bytes
    }

    fn dropped(&self) -> u64 {
        self.counts.dropped
    }

    fn size(&self) -> Option<u64> {
        None
    }
}
