//! The common trait of live sources.

use crate::source::Source;
use rdmascope_dissector::record::Time;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source that captures live packets.
pub trait LiveSource: Source {
    /// Returns the names of the interfaces or devices, in the order in which records number them.
    fn names(&self) -> &[String];

    /// Returns the packet counts so far. Fails if the kernel or device does not report them.
    fn counts(&mut self) -> io::Result<Counts>;

    /// Returns the state of each interface, in the order of [`LiveSource::names`]. Empty if states
    /// are not monitored.
    fn states(&self) -> &[State] {
        &[]
    }

    /// Returns the number of changes in [`LiveSource::states`]. Cheap enough to call after each
    /// packet.
    fn changes(&self) -> u32 {
        0
    }

    /// Returns the number of packets with a hardware timestamp.
    fn stamped(&self) -> u64 {
        0
    }

    /// Returns the reason why drops are not counted; `None` if they are.
    fn uncounted(&self) -> Option<String> {
        None
    }

    /// Returns sentences about missing packets that are not counted. Empty if nothing indicates
    /// any.
    fn lacks(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Packet counts since the start of the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets accepted by the filter, including those dropped afterwards; `None` if not counted.
    pub accepted: Option<u64>,
    /// Packets dropped before they reached the source; `None` if not counted, so drops are
    /// possible.
    pub dropped: Option<u64>,
    /// Packets delivered to the caller.
    pub delivered: u64,
}

/// The state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is up.
    Up,
    /// It is down.
    Down,
    /// No interface of this name exists any more.
    Gone,
}

/// The name and the system of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel, release and architecture.
    pub system: String,
}

impl Host {
    /// Describes this host.
    pub fn this() -> Host {
        let uname = rustix::system::uname();
        let [kernel, release, machine, name] =
            [uname.sysname(), uname.release(), uname.machine(), uname.nodename()]
                .map(|word| word.to_string_lossy());
        Host { name: name.to_string(), system: format!("{kernel} {release} {machine}") }
    }
}

/// Returns the current time by the clock that the kernel uses for packets.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
