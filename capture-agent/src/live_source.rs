//! What every source of packets as they pass has in common, whatever it takes them from.

use crate::source::Source;
use rdmascope_dissector::record::Time;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of packets as they pass.
pub trait LiveSource: Source {
    /// The names of what it captures from, in the order in which records number them.
    fn names(&self) -> &[String];

    /// Packets so far. Errors: who counts was asked and did not answer.
    fn counts(&mut self) -> io::Result<Counts>;

    /// What has become of each interface, in the order of [`LiveSource::names`]; none where it is not looked at.
    fn states(&self) -> &[State] {
        &[]
    }

    /// How often a state of [`LiveSource::states`] has changed: cheap to ask after each packet.
    fn changes(&self) -> u32 {
        0
    }

    /// Packets with a time stamp of an adapter.
    fn stamped(&self) -> u64 {
        0
    }

    /// Why it is not known how many packets were dropped; `None`: they are counted.
    fn uncounted(&self) -> Option<String> {
        None
    }

    /// What it knows of packets that it lacks and cannot count, as sentences; empty where nothing hints at any.
    fn lacks(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// How many packets there were, from the beginning on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that passed the filter, those that were dropped included; `None`: nobody counts them.
    pub accepted: Option<u64>,
    /// Packets that were dropped on their way here; `None`: nobody counts them, so there may be some.
    pub dropped: Option<u64>,
    /// Packets that were handed out.
    pub delivered: u64,
}

/// What has become of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is up.
    Up,
    /// It is down.
    Down,
    /// There is none of this name any more.
    Gone,
}

/// The name of this host, and its system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Kernel, release and architecture.
    pub system: String,
}

impl Host {
    /// This host.
    pub fn this() -> Host {
        let uname = rustix::system::uname();
        let [kernel, release, machine, name] =
            [uname.sysname(), uname.release(), uname.machine(), uname.nodename()]
                .map(|word| word.to_string_lossy());
        Host { name: name.to_string(), system: format!("{kernel} {release} {machine}") }
    }
}

/// The time of this host, as the kernel stamps packets.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
