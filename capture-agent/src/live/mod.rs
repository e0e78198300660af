//! Live capture from network interfaces, on Linux.
//!
//! [`Live`] is a [`Source`]: packets come from a ring that the kernel fills (`ring`), chosen by a program that the kernel runs (`filter`). Several
//! interfaces share a ring, so that their packets come in the order in which the kernel saw them. What the kernel drops is counted.

mod interfaces;
#[allow(unsafe_code)]
mod libpcap;
#[allow(unsafe_code)]
mod ring;
mod rings;
pub mod tracefs;

pub use crate::filter;
pub use crate::live_source::{Host, State, now};
pub use interfaces::{NetworkInterface, expand, iwarp_only, network_interfaces};
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

/// What is captured, and how.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// The names of the interfaces; at least one, at most [`Wanted::MOST_INTERFACES`].
    pub interfaces: Vec<String>,
    /// What passes the filter.
    pub wanted: Wanted,
    /// Bytes that are captured of a packet at most.
    pub snap_length: u32,
    /// Bytes of the ring, or of all rings together.
    pub buffer: usize,
    /// Threads that read packets, each from a ring of its own; at least 1, at most [`LiveConfig::MOST_THREADS`]. One reads them where the kernel put them. Of several, what
    /// each reads is copied and put in the order of its times, as far as every ring shows its packets within 40 ms; that takes 8 MiB for each besides the rings.
    /// Times of adapters are no times of one clock, so they go with one thread only.
    pub threads: usize,
    /// The interfaces receive what is not for them.
    pub promiscuous: bool,
    /// What this host sends is left out: where two interfaces show each packet, or one shows it twice.
    pub incoming_only: bool,
    /// What packets have to pass besides, in the syntax of libpcap.
    pub filter: Option<String>,
    /// Time stamps are those of the network adapters. A packet that one does not stamp, such as one that this host sends, has the kernel's time.
    pub hardware_time: bool,
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
    /// See [`LiveConfig::threads`].
    pub const MOST_THREADS: usize = 16;
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
    /// The filter is not understood.
    #[error("{0}")]
    Filter(#[from] FilterError),
    /// The adapter does not stamp packets.
    #[error("{name} does not stamp all packets that it receives: {error}")]
    NoHardwareTime {
        /// Its name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// More threads than there may be, or more than one where time stamps are those of adapters.
    #[error("{0} threads cannot capture: from 1 to {most} can, and 1 where adapters stamp packets", most = LiveConfig::MOST_THREADS)]
    Threads(usize),
    /// The packets of several threads are not shared out by this kernel.
    #[error("this kernel does not share packets among threads as is wanted here (PACKET_FANOUT): {0}")]
    NotShared(io::Error),
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
    rings: Rings,
    /// By the number of an interface in the capture: its index in the system.
    indexes: Vec<u32>,
    names: Vec<String>,
    states: Vec<State>,
    /// How often a state was another than before.
    changes: u32,
    /// When the states were last looked at.
    looked: Instant,
    /// What an interface that comes back is captured with.
    config: LiveConfig,
    /// The program of [`LiveConfig::filter`].
    besides: Vec<Instruction>,
    /// Packets with a time stamp of an adapter.
    stamped: u64,
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
    end: Arc<AtomicBool>,
    /// When that was seen to be set. A packet that came later is no part of the capture, or a busy interface would never come to an end.
    ended: Option<(Time, Instant)>,
}

/// The kernel is asked how many packets it dropped this often, where packets do not stop to come.
const COUNTING: Duration = Duration::from_millis(50);
/// The states of the interfaces are looked at this often.
const LOOKING: Duration = Duration::from_millis(250);
/// So long after it was to end, a source ends whatever the packets' own times say.
const LAST: Duration = Duration::from_millis(200);
/// Packets after which it is seen whether it is time.
const STRIDE: u64 = 256;

impl Live {
    /// Begins to capture. `end` ends it, once it is set: what the ring holds by then is handed out.
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
        let besides = config.filter.as_deref().map(libpcap::compile).transpose()?.unwrap_or_default();
        if config.hardware_time {
            for name in names {
                ring::stamp_in_hardware(name).map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => LiveError::System(io::Error::new(
                        error.kind(),
                        "to switch on time stamps of an adapter takes the capability CAP_NET_ADMIN",
                    )),
                    _ => LiveError::NoHardwareTime { name: name.clone(), error },
                })?;
            }
        }
        let rings = opened(config, &indexes, &program(config, &indexes, &besides))?;
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
            besides,
            stamped: 0,
            counts: LiveCounts::default(),
            bytes: 0,
            untold: 0,
            asked: now,
            is_idle: false,
            end,
            ended: None,
        };
        live.look()?;
        Ok(live)
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

    /// Whether none of the interfaces is up.
    pub fn is_down(&self) -> bool {
        !self.states.contains(&State::Up)
    }

    /// What has become of each interface, in the order of [`Live::names`].
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// How often a state of [`Live::states`] has changed: cheap to ask after each packet.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Packets with a time stamp of an adapter ([`LiveConfig::hardware_time`]).
    pub fn stamped(&self) -> u64 {
        self.stamped
    }

    /// Looks at the interfaces. One that came back is another one for the kernel, and is captured again.
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
            let program = program(&self.config, &self.indexes, &self.besides);
            self.rings.sockets().iter().try_for_each(|socket| socket.chosen_by(&program))?;
            // Those that share packets are bound to all interfaces, and cannot be bound anew.
            if let Rings::One(ring) = &self.rings {
                ring.rebind(bound_to(&self.config, &self.indexes))?;
            }
        }
        Ok(())
    }

    /// One of the sockets, for what is asked of any.
    fn socket(&self) -> &ring::Socket {
        &self.rings.sockets()[0]
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Live { name: self.names.join(", "), error }
    }

    fn count(&mut self) -> io::Result<()> {
        for socket in self.rings.sockets() {
            let (accepted, dropped) = socket.counts()?;
            self.counts.accepted += u64::from(accepted);
            self.counts.dropped += u64::from(dropped);
            self.untold += u64::from(dropped);
        }
        self.asked = Instant::now();
        Ok(())
    }
}

/// Opens the rings. What several share comes into none before they do, or each would have it.
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

/// The interface that a ring is bound to: 0, all, where there are several of either.
fn bound_to(config: &LiveConfig, indexes: &[u32]) -> u32 {
    match indexes {
        [index] if config.threads == 1 => *index,
        _ => 0,
    }
}

/// What the kernel chooses with.
fn program(config: &LiveConfig, indexes: &[u32], besides: &[Instruction]) -> Vec<Instruction> {
    let interfaces = if bound_to(config, indexes) == 0 { indexes.to_vec() } else { Vec::new() };
    let wanted = Wanted { interfaces, ..config.wanted.clone() };
    let program = filter::program(&wanted, config.snap_length);
    if besides.is_empty() { program } else { filter::both(program, besides, config.snap_length) }
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
        // To ask the clock costs as much as a packet.
        if (was_idle || self.counts.delivered.is_multiple_of(STRIDE)) && self.asked.elapsed() > COUNTING {
            self.count().map_err(|error| self.failed(error))?;
            if self.looked.elapsed() > LOOKING {
                self.look().map_err(|error| self.failed(error))?;
            }
        }
        if self.ended.is_none() && self.end.load(Ordering::Relaxed) {
            self.ended = Some((now(), Instant::now()));
        }
        let Live { rings, counts, untold, indexes, bytes, ended, stamped, .. } = self;
        let mut reached = None;
        let Some(packet) = rings.next(&mut reached) else {
            // What several rings hold by the end comes with the word of the last of them.
            let is_owed = |(end, at): (Time, Instant)| {
                reached.is_some_and(|reached| reached <= end) && at.elapsed() < LAST
            };
            if ended.is_some_and(|ended| !is_owed(ended)) {
                return Ok(Next::End);
            }
            self.is_idle = true;
            let until = reached.unwrap_or_else(|| rings::behind(now()));
            // A thread that has just begun has said nothing yet.
            return Ok(Next::Idle((until.0 > i64::MIN).then_some(until)));
        };
        // The clock of an adapter may tell another time than the system's.
        let is_later = |(time, at): (Time, Instant)| match packet.hardware_time {
            true => at.elapsed() > LAST,
            false => packet.time > time.0,
        };
        if ended.is_some_and(is_later) {
            return Ok(Next::End);
        }
        counts.delivered += 1;
        *bytes += u64::from(packet.length);
        *stamped += u64::from(packet.hardware_time);
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

impl LiveSource for Live {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn counts(&mut self) -> io::Result<Counts> {
        let LiveCounts { accepted, dropped, delivered } = Live::counts(self)?;
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
