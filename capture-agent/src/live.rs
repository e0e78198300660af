//! Live capture from network interfaces on Linux.
//!
//! [`Live`] is a [`Source`]. The kernel runs a filter program (`filter`) and puts the accepted
//! packets into a ring (`ring`). Several interfaces share a ring, so that their packets stay in the
//! order in which the kernel saw them. Packets that the kernel drops are counted.

mod interfaces;
#[allow(unsafe_code)]
mod libpcap;
#[allow(unsafe_code)]
mod ring;
mod rings;
pub mod tracefs;

pub use crate::filter;
pub use crate::live_source::{Host, State, now};
pub use interfaces::{
    Fabric, NetworkInterface, RdmaDevice, expand, iwarp_only, network_interfaces, rdma_device_list,
};
pub use libpcap::FilterError;

use crate::capture::Error;
use crate::live_source::{Counts, LiveSource};
use crate::source::{Next, Source};
use core::time::Duration;
use filter::{Instruction, Wanted};
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use ring::{Ring, Waited};
use rings::Rings;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Options of a capture.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// Names of the interfaces, from 1 to [`Wanted::MOST_INTERFACES`].
    pub interfaces: Vec<String>,
    /// Selects the packets to capture.
    pub wanted: Wanted,
    /// Maximum number of bytes to capture of a packet.
    pub snap_length: u32,
    /// Total size of all rings in bytes.
    pub buffer: usize,
    /// Number of threads that read packets, each from its own ring, from 1 to
    /// [`LiveConfig::MOST_THREADS`].
    ///
    /// A single thread reads packets in place. Several threads copy them, and the packets are then
    /// sorted by time, provided that each ring delivers them within 40 ms. This takes 8 MiB for
    /// each thread in addition to the rings. Hardware timestamps require a single thread, because
    /// the clocks of adapters differ.
    pub threads: usize,
    /// Enables promiscuous mode.
    pub promiscuous: bool,
    /// Excludes packets sent by this host. Useful if two interfaces show each packet, or one shows
    /// it twice.
    pub incoming_only: bool,
    /// An additional filter in libpcap syntax.
    pub filter: Option<String>,
    /// Use the timestamps of network adapters. Packets without one, such as packets sent by this
    /// host, have the kernel's timestamp.
    pub hardware_time: bool,
    /// Interval at which an idle source returns [`Next::Idle`] and checks whether it should end.
    pub interval: Duration,
}

impl Default for LiveConfig {
    fn default() -> LiveConfig {
        LiveConfig {
            interfaces: Vec::new(),
            wanted: Wanted::default(),
            snap_length: 262_144,
            buffer: 64 << 20,
            threads: 1,
            promiscuous: false,
            incoming_only: false,
            filter: None,
            hardware_time: false,
            interval: Duration::from_millis(100),
        }
    }
}

impl LiveConfig {
    /// Maximum of [`LiveConfig::threads`].
    pub const MOST_THREADS: usize = 16;
}

/// The reason why an interface cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No interface or too many interfaces were named.
    #[error("{0} interfaces were named; from 1 to {most} can be captured at once", most = Wanted::MOST_INTERFACES)]
    Count(usize),
    /// No interface has this name.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// The interface does not carry Ethernet frames.
    #[error("{name} carries no Ethernet frames (ARPHRD {kind})")]
    NotEthernet {
        /// Name of the interface.
        name: String,
        /// Its ARPHRD_ type.
        kind: u32,
    },
    /// The process lacks CAP_NET_RAW.
    #[error("capturing requires the capability CAP_NET_RAW")]
    NotPermitted,
    /// The filter is invalid or unsupported.
    #[error("{0}")]
    Filter(#[from] FilterError),
    /// The adapter cannot timestamp packets.
    #[error("{name} does not timestamp all received packets: {error}")]
    NoHardwareTime {
        /// Name of the interface.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// The number of threads is out of range, or greater than one with hardware timestamps.
    #[error("cannot capture with {0} threads: use 1 to {most}, or 1 with hardware time stamps", most = LiveConfig::MOST_THREADS)]
    Threads(usize),
    /// The kernel cannot distribute packets over several threads.
    #[error("this kernel cannot distribute packets over threads (PACKET_FANOUT): {0}")]
    NotShared(io::Error),
    /// Another error of the system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A live capture from network interfaces.
#[derive(Debug)]
pub struct Live {
    rings: Rings,
    /// The system's index of each interface, in the order of `names`.
    indexes: Vec<u32>,
    names: Vec<String>,
    states: Vec<State>,
    /// Number of state changes.
    changes: u32,
    /// Time of the last check of the states.
    looked: Instant,
    /// Options, for interfaces that come back.
    config: LiveConfig,
    /// The program compiled from [`LiveConfig::filter`].
    extra_filter: Vec<Instruction>,
    /// Packets with a hardware timestamp.
    stamped: u64,
    interval: Duration,
    /// Packets accepted by the filter.
    accepted: u64,
    /// Accepted packets that were dropped because the ring was full.
    dropped: u64,
    delivered: u64,
    /// Total size of all packets on the wire, in bytes.
    bytes: u64,
    /// Drops that are not yet part of a record.
    unreported: u64,
    /// Time of the last query of the kernel's counts.
    queried: Instant,
    /// [`Next::Idle`] was returned, so the next call may wait.
    is_idle: bool,
    end: Arc<AtomicBool>,
    /// The time when `end` was seen to be set. Later packets are not part of the capture; otherwise
    /// it would never end on a busy interface.
    ended: Option<(Time, Instant)>,
}

/// Interval of querying the kernel's drop counts while packets arrive without pause.
const COUNTING: Duration = Duration::from_millis(50);
/// Interval of checking the states of the interfaces.
const LOOKING: Duration = Duration::from_millis(250);
/// Maximum time for a source to end, whatever the timestamps of packets.
const LAST: Duration = Duration::from_millis(200);
/// Number of packets between two looks at the clock.
const STRIDE: u64 = 256;

impl Live {
    /// Starts a capture. Setting `end` ends it, after the packets in the ring were delivered.
    pub fn open(config: &LiveConfig, end: Arc<AtomicBool>) -> Result<Live, LiveError> {
        let names = &config.interfaces;
        if names.is_empty() || names.len() > Wanted::MOST_INTERFACES {
            return Err(LiveError::Count(names.len()));
        }
        if !(1..=LiveConfig::MOST_THREADS).contains(&config.threads)
            || config.threads > 1 && config.hardware_time
        {
            return Err(LiveError::Threads(config.threads));
        }
        let mut indexes = Vec::new();
        for name in names {
            let (index, kind) =
                interfaces::index_and_kind(name).ok_or_else(|| LiveError::NoInterface(name.clone()))?;
            if !interfaces::is_ethernet(kind) {
                return Err(LiveError::NotEthernet { name: name.clone(), kind });
            }
            indexes.push(index);
        }
        let extra_filter = config.filter.as_deref().map(libpcap::compile).transpose()?.unwrap_or_default();
        if config.hardware_time {
            for name in names {
                ring::stamp_in_hardware(name).map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => LiveError::System(io::Error::new(
                        error.kind(),
                        "switching on hardware time stamps requires the capability CAP_NET_ADMIN",
                    )),
                    _ => LiveError::NoHardwareTime { name: name.clone(), error },
                })?;
            }
        }
        let rings = opened(config, &indexes, &program(config, &indexes, &extra_filter))?;
        let now = Instant::now();
        let mut live = Live {
            rings,
            names: names.clone(),
            states: vec![State::Up; indexes.len()],
            changes: 0,
            looked: now,
            indexes,
            interval: config.interval,
            config: config.clone(),
            extra_filter,
            stamped: 0,
            accepted: 0,
            dropped: 0,
            delivered: 0,
            bytes: 0,
            unreported: 0,
            queried: now,
            is_idle: false,
            end,
            ended: None,
        };
        live.look()?;
        Ok(live)
    }

    /// Checks the interfaces. An interface that came back has a new index and is captured again.
    fn look(&mut self) -> io::Result<()> {
        self.looked = Instant::now();
        let mut is_new = false;
        for number in 0..self.names.len() {
            let state = match self.socket().interface(&self.names[number]) {
                None => State::Gone,
                Some((index, is_up)) => {
                    if index != self.indexes[number] {
                        self.indexes[number] = index;
                        is_new = true;
                        if self.config.promiscuous {
                            self.socket().promiscuous(index)?;
                        }
                    }
                    if is_up { State::Up } else { State::Down }
                }
            };
            self.changes += u32::from(state != self.states[number]);
            self.states[number] = state;
        }
        if is_new {
            let program = program(&self.config, &self.indexes, &self.extra_filter);
            self.rings.sockets().iter().try_for_each(|socket| socket.chosen_by(&program))?;
            // Rings that share packets are bound to all interfaces and cannot be bound again.
            if let Rings::One(ring) = &self.rings {
                ring.rebind(bound_to(&self.config, &self.indexes))?;
            }
        }
        Ok(())
    }

    /// Returns one of the sockets, for operations that any socket supports.
    fn socket(&self) -> &ring::Socket {
        &self.rings.sockets()[0]
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Live { name: self.names.join(", "), error }
    }

    fn count(&mut self) -> io::Result<()> {
        for socket in self.rings.sockets() {
            let (accepted, dropped) = socket.counts()?;
            self.accepted += u64::from(accepted);
            self.dropped += u64::from(dropped);
            self.unreported += u64::from(dropped);
        }
        self.queried = Instant::now();
        Ok(())
    }
}

/// Opens the rings. Several rings reject all packets until they share them; otherwise each would
/// receive every packet.
fn opened(config: &LiveConfig, indexes: &[u32], program: &[Instruction]) -> Result<Rings, LiveError> {
    let are_several = config.threads > 1;
    let open = |number: usize| {
        Ring::open(&ring::Options {
            interface: bound_to(config, indexes),
            filter: if are_several { &filter::NOTHING } else { program },
            size: config.buffer / config.threads,
            incoming_only: config.incoming_only,
            promiscuous: if config.promiscuous && number == 0 { indexes } else { &[] },
            hardware_time: config.hardware_time,
        })
    };
    let rings = (0..config.threads).map(open).collect::<io::Result<Vec<Ring>>>();
    let rings = rings.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => LiveError::NotPermitted,
        _ => LiveError::System(error),
    })?;
    if are_several {
        ring::share(&rings, config.incoming_only).map_err(LiveError::NotShared)?;
        rings.iter().try_for_each(|ring| ring.chosen_by(program))?;
    }
    Ok(Rings::of(rings)?)
}

/// Returns the interface that a ring is bound to: 0, all, for several interfaces or several rings.
fn bound_to(config: &LiveConfig, indexes: &[u32]) -> u32 {
    match indexes {
        [index] if config.threads == 1 => *index,
        _ => 0,
    }
}

/// Builds the filter program for the kernel.
fn program(config: &LiveConfig, indexes: &[u32], extra_filter: &[Instruction]) -> Vec<Instruction> {
    let interfaces = if bound_to(config, indexes) == 0 { indexes.to_vec() } else { Vec::new() };
    let wanted = Wanted { interfaces, ..config.wanted.clone() };
    let program = filter::program(&wanted, config.snap_length);
    if extra_filter.is_empty() { program } else { filter::both(program, extra_filter, config.snap_length) }
}

impl Source for Live {
    fn next(&mut self) -> Result<Next<'_>, Error> {
        let was_idle = core::mem::take(&mut self.is_idle);
        if was_idle {
            let waited = self.rings.wait(self.interval).map_err(|error| self.failed(error))?;
            if waited == Waited::Down {
                self.look().map_err(|error| self.failed(error))?;
            }
        }
        // Reading the clock costs as much as a packet.
        if (was_idle || self.delivered.is_multiple_of(STRIDE)) && self.queried.elapsed() > COUNTING {
            self.count().map_err(|error| self.failed(error))?;
            if self.looked.elapsed() > LOOKING {
                self.look().map_err(|error| self.failed(error))?;
            }
        }
        if self.ended.is_none() && self.end.load(Ordering::Relaxed) {
            self.ended = Some((now(), Instant::now()));
        }
        let Live { rings, delivered, unreported, indexes, bytes, ended, stamped, .. } = self;
        let mut reached = None;
        let Some(packet) = rings.next(&mut reached) else {
            // Packets that several rings hold at the end arrive with the last ring's report.
            let is_owed = |(end, at): (Time, Instant)| {
                reached.is_some_and(|reached| reached <= end) && at.elapsed() < LAST
            };
            if ended.is_some_and(|ended| !is_owed(ended)) {
                return Ok(Next::End);
            }
            self.is_idle = true;
            let until = reached.unwrap_or_else(|| rings::delivered_until(now()));
            // A thread that has just started has not reported yet.
            return Ok(Next::Idle((until.0 > i64::MIN).then_some(until)));
        };
        // The clock of an adapter may differ from the system's.
        let is_later = |(time, at): (Time, Instant)| match packet.hardware_time {
            true => at.elapsed() > LAST,
            false => packet.time > time.0,
        };
        if ended.is_some_and(is_later) {
            return Ok(Next::End);
        }
        *delivered += 1;
        *bytes += u64::from(packet.length);
        *stamped += u64::from(packet.hardware_time);
        let interface = indexes.iter().position(|index| *index == packet.interface).unwrap_or(0);
        Ok(Next::Record(Record {
            number: *delivered,
            time: Time(packet.time),
            link: LinkType::ETHERNET,
            original_length: packet.length,
            dropped: u32::try_from(core::mem::take(unreported)).unwrap_or(u32::MAX),
            tap: Tap { file: 0, interface: interface as u32 },
            data: packet.data,
        }))
    }

    fn position(&self) -> u64 {
        self.bytes
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl LiveSource for Live {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn counts(&mut self) -> io::Result<Counts> {
        self.count()?;
        let Live { accepted, dropped, delivered, .. } = *self;
        Ok(Counts { accepted: Some(accepted), dropped: Some(dropped), delivered })
    }

    fn states(&self) -> &[State] {
        &self.states
    }

    fn changes(&self) -> u32 {
        self.changes
    }

    fn stamped(&self) -> u64 {
        self.stamped
    }
}
