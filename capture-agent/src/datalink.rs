//! Live capture by `pnet_datalink`: on Unix systems other than Linux, and on Linux with the cargo
//! feature `pnet`.
//!
//! What it cannot do, measured of pnet_datalink 0.35 and read in its sources:
//! - It tells nothing of packets that were dropped, and no time stamps: those here are of when a packet was read.
//! - A packet that is longer than its buffer is cut, and nothing says so. So the buffer is larger than any packet (`BUFFER`).
//! - On Linux it makes a socket that receives of all interfaces until it is bound. It takes one that does not, and this makes it.
//! - On Linux the kernel takes the outer VLAN tag out, and pnet does not ask for it: the tag is lost.
//! - Outside Linux it cannot be told to leave out promiscuous mode, nor asked for it: it does not change it.
//! - It names no link type. So only interfaces with a MAC address are captured, and no loopback interface outside Linux, where pnet makes up the
//!   Ethernet header.

use crate::capture::Error;
use crate::filter::{Sieve, Wanted};
use crate::live_source::{Counts, LiveSource, State, now};
use crate::source::{Next, Source};
use core::fmt;
use core::time::Duration;
use pnet_datalink::{Channel, Config, DataLinkReceiver, NetworkInterface};
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is captured, and how.
#[derive(Clone, Debug)]
pub struct DatalinkConfig {
    /// The name of the interface.
    pub interface: String,
    /// What is kept of what passes; its interfaces are not looked at.
    pub wanted: Wanted,
    /// Bytes that are kept of a packet at most.
    pub snap_length: u32,
    /// Bytes of packets that the system keeps for this process, as far as it lets itself be told. On Linux alone.
    pub buffer: usize,
    /// The interface receives what is not for it. On Linux alone.
    pub promiscuous: bool,
}

/// Why an interface cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatalinkError {
    /// There is none of this name.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// It carries no Ethernet frames, or nobody can tell.
    #[error("{0} has no MAC address: what it carries is not known, and pnet_datalink does not tell")]
    NotEthernet(String),
    /// The right to capture is missing.
    #[error("to capture by pnet_datalink takes {}", right())]
    NotPermitted,
    /// The system refuses.
    #[error("{name} cannot be captured by pnet_datalink: {error}")]
    System {
        /// Its name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
}

fn right() -> &'static str {
    if cfg!(target_os = "linux") { "the capability CAP_NET_RAW" } else { "the right to read /dev/bpf" }
}

/// Bytes that are read at once. On BPF systems that is what the kernel gathers, and more than the 512 KiB that macOS and FreeBSD allow would be
/// refused. On Linux it is one packet.
const BUFFER: usize = 512 << 10;
/// How long it is waited for a packet. pnet has no way to ask whether there is one, so it is said only then that there is none.
const WAIT: Duration = Duration::from_millis(10);

/// Packets of an interface, as they pass.
pub struct Datalink {
    receiver: Box<dyn DataLinkReceiver>,
    names: [String; 1],
    states: [State; 1],
    changes: u32,
    sieve: Sieve,
    /// The packet that was handed out last.
    packet: Vec<u8>,
    delivered: u64,
    /// Bytes of all packets on the wire.
    bytes: u64,
    end: Arc<AtomicBool>,
    /// When that was seen to be set: what is read later is no part of the capture, or a busy interface would never come to an end.
    ended: Option<Time>,
}

impl fmt::Debug for Datalink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datalink").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Datalink {
    /// Begins to capture. `end` ends it, once it is set.
    pub fn open(config: &DatalinkConfig, end: Arc<AtomicBool>) -> Result<Datalink, DatalinkError> {
        let name = &config.interface;
        let interface = pnet_datalink::interfaces().into_iter().find(|one| one.name == *name);
        let interface = interface.ok_or_else(|| DatalinkError::NoInterface(name.clone()))?;
        if interface.mac.is_none() || interface.is_loopback() && !cfg!(target_os = "linux") {
            return Err(DatalinkError::NotEthernet(name.clone()));
        }
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => DatalinkError::NotPermitted,
            _ => DatalinkError::System { name: name.clone(), error },
        };
        let receiver = receiver(&interface, config).map_err(failed)?;
        Ok(Datalink {
            receiver,
            names: [name.clone()],
            states: [State::Up],
            changes: 0,
            sieve: Sieve::new(&config.wanted, config.snap_length),
            packet: Vec::new(),
            delivered: 0,
            bytes: 0,
            end,
            ended: None,
        })
    }

    fn becomes(&mut self, state: State) {
        self.changes += u32::from(self.states[0] != state);
        self.states[0] = state;
    }
}

fn receiver(interface: &NetworkInterface, config: &DatalinkConfig) -> io::Result<Box<dyn DataLinkReceiver>> {
    let pnet = Config {
        read_buffer_size: BUFFER,
        read_timeout: Some(WAIT),
        promiscuous: config.promiscuous,
        socket_fd: socket(config.buffer)?,
        ..Config::default()
    };
    match pnet_datalink::channel(interface, pnet)? {
        Channel::Ethernet(_, receiver) => Ok(receiver),
        _ => Err(ErrorKind::Unsupported.into()),
    }
}

/// A socket that receives nothing until pnet binds it, with room for so many bytes. pnet closes it, also where it fails.
#[cfg(target_os = "linux")]
fn socket(buffer: usize) -> io::Result<Option<i32>> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
    use std::os::fd::IntoRawFd as _;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // The second takes CAP_NET_ADMIN. Without it there is as much room as the system gives everybody.
    sockopt::set_socket_recv_buffer_size(&socket, buffer)?;
    let _as_much_as_there_is = sockopt::set_socket_recv_buffer_size_force(&socket, buffer);
    Ok(Some(socket.into_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn socket(_: usize) -> io::Result<Option<i32>> {
    Ok(None)
}

impl Source for Datalink {
    fn next(&mut self) -> Result<Next<'_>, Error> {
        loop {
            if self.ended.is_none() && self.end.load(Ordering::Relaxed) {
                self.ended = Some(now());
            }
            let read = match self.receiver.next() {
                Ok(read) => read,
                Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                    return Ok(if self.ended.is_some() { Next::End } else { Next::Idle(Some(now())) });
                }
                // So pnet says that the socket has an error to tell, and this is that error: the interface is down. It does not fetch the error until a
                // packet comes, and until then it does not wait either.
                Err(error) if matches!(error.kind(), ErrorKind::Other | ErrorKind::NetworkDown) => {
                    self.becomes(State::Down);
                    std::thread::sleep(WAIT);
                    return Ok(if self.ended.is_some() { Next::End } else { Next::Idle(Some(now())) });
                }
                Err(error) => return Err(Error::Live { name: self.names[0].clone(), error }),
            };
            let time = now();
            if self.ended.is_some_and(|ended| time.0 > ended.0 + LAST) {
                return Ok(Next::End);
            }
            let Some(kept) = self.sieve.keep(read) else { continue };
            let length = u32::try_from(read.len()).unwrap_or(u32::MAX);
            // A copy, because the compiler does not see that nothing else is read before a packet that is returned is given back.
            self.packet.clear();
            self.packet.extend_from_slice(kept);
            self.becomes(State::Up);
            self.delivered += 1;
            self.bytes += u64::from(length);
            return Ok(Next::Record(Record {
                number: self.delivered,
                time,
                link: LinkType::ETHERNET,
                original_length: length,
                dropped: 0,
                tap: Tap { file: 0, interface: 0 },
                data: &self.packet,
            }));
        }
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

/// So many nanoseconds after it was to end, it ends whatever comes: what the system keeps has no time stamp that would say which came before.
const LAST: i64 = 200_000_000;

impl LiveSource for Datalink {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn counts(&mut self) -> io::Result<Counts> {
        Ok(Counts { accepted: None, dropped: None, delivered: self.delivered })
    }

    fn states(&self) -> &[State] {
        &self.states
    }

    fn changes(&self) -> u32 {
        self.changes
    }

    fn uncounted(&self) -> Option<String> {
        Some("pnet_datalink does not tell them".to_owned())
    }
}

/// The interfaces of this host, by index, with their addresses.
pub fn datalink_interfaces() -> Vec<(String, Vec<std::net::IpAddr>)> {
    let mut found = pnet_datalink::interfaces();
    found.sort_by_key(|interface| interface.index);
    let addresses = |one: &NetworkInterface| one.ips.iter().map(|network| network.ip()).collect();
    found.iter().map(|one| (one.name.clone(), addresses(one))).collect()
}
