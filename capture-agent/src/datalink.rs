//! Live capture with `pnet_datalink`: on Unix systems other than Linux, and on Linux with the cargo
//! feature `pnet`.
//!
//! Limits of pnet_datalink 0.35, from measurements and its source:
//! - It reports neither dropped packets nor timestamps. The timestamps here are read times.
//! - It silently truncates packets that are longer than its buffer, so `BUFFER` exceeds any packet.
//! - On Linux its socket receives from all interfaces until it is bound. So this module passes it a
//!   socket that receives nothing before that.
//! - On Linux the kernel removes the outer VLAN tag, and pnet does not request it: the tag is lost.
//! - Outside Linux promiscuous mode cannot be set, and stays as it is.
//! - It reports no link type. So only interfaces with a MAC address are captured, and outside Linux
//!   no loopback interface, for which pnet makes up the Ethernet header.

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

/// Options of a capture.
#[derive(Clone, Debug)]
pub struct DatalinkConfig {
    /// The name of the interface.
    pub interface: String,
    /// Selects the packets to keep. Its interfaces are ignored.
    pub wanted: Wanted,
    /// Maximum number of bytes to keep of a packet.
    pub snap_length: u32,
    /// Size in bytes of the socket's receive buffer, as far as the system permits. Linux only.
    pub buffer: usize,
    /// Enables promiscuous mode. Linux only.
    pub promiscuous: bool,
}

/// The reason why an interface cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatalinkError {
    /// No interface has this name.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// The interface does not carry Ethernet frames, or its link type is unknown.
    #[error("{0} has no MAC address, so its link type is unknown: pnet_datalink does not report it")]
    NotEthernet(String),
    /// The process lacks the permission to capture.
    #[error("capturing with pnet_datalink requires {}", right())]
    NotPermitted,
    /// The system refused.
    #[error("{name} cannot be captured by pnet_datalink: {error}")]
    System {
        /// Name of the interface.
        name: String,
        /// The system's error.
        error: io::Error,
    },
}

fn right() -> &'static str {
    if cfg!(target_os = "linux") { "the capability CAP_NET_RAW" } else { "read access to /dev/bpf" }
}

/// Size of a read in bytes. On BPF systems it is the size of the kernel's buffer; macOS and FreeBSD
/// refuse more than 512 KiB. On Linux a read returns one packet.
const BUFFER: usize = 512 << 10;
/// Maximum time to wait for a packet. pnet cannot poll, so the source reports that it is idle only
/// after this time.
const WAIT: Duration = Duration::from_millis(10);

/// A live capture from one interface.
pub struct Datalink {
    receiver: Box<dyn DataLinkReceiver>,
    names: [String; 1],
    states: [State; 1],
    changes: u32,
    sieve: Sieve,
    /// The packet that was returned last.
    packet: Vec<u8>,
    delivered: u64,
    /// Total size of all packets on the wire, in bytes.
    bytes: u64,
    end: Arc<AtomicBool>,
    /// The time when `end` was seen to be set. Packets read much later are not part of the capture;
    /// otherwise it would never end on a busy interface.
    ended: Option<Time>,
}

impl fmt::Debug for Datalink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datalink").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Datalink {
    /// Starts a capture. Setting `end` ends it.
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

/// Creates a socket with a receive buffer of `buffer` bytes that receives nothing until pnet binds
/// it. pnet closes it, even if it fails.
#[cfg(target_os = "linux")]
fn socket(buffer: usize) -> io::Result<Option<i32>> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
    use std::os::fd::IntoRawFd as _;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // The forced size requires CAP_NET_ADMIN. Without it the system's limit applies.
    sockopt::set_socket_recv_buffer_size(&socket, buffer)?;
    let _best_effort = sockopt::set_socket_recv_buffer_size_force(&socket, buffer);
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
                // pnet reports a pending socket error in this way: the interface is down. It
                // fetches the error only when a packet arrives, and until then it does not wait, so
                // wait here.
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
            // Copied, because the borrow checker does not see that nothing else is read while the
            // returned packet is in use.
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
}

/// The capture ends at the latest this number of nanoseconds after `end` was set. Buffered packets
/// have no timestamps that would separate them from later ones.
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
        Some("pnet_datalink does not report them".to_owned())
    }
}

/// Returns the interfaces of this host with their addresses, ordered by index.
pub fn datalink_interfaces() -> Vec<(String, Vec<std::net::IpAddr>)> {
    let mut found = pnet_datalink::interfaces();
    found.sort_by_key(|interface| interface.index);
    let addresses = |one: &NetworkInterface| one.ips.iter().map(|network| network.ip()).collect();
    found.iter().map(|one| (one.name.clone(), addresses(one))).collect()
}
