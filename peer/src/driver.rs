//! Runs an end on Linux sockets: passes datagrams and the time to it.
//!
//! ```no_run
//! use core::time::Duration;
//! use rdmascope_peer::driver::{Driver, Ended, Kind, Reach, route};
//! use rdmascope_peer::endpoint::{Config, Connect, Endpoint, Event};
//!
//! let to = "192.0.2.2".parse().unwrap();
//! let local = route(to)?;
//! let mut driver = Driver::open(Kind::Udp, &[local], Reach::Only(vec![to]))?;
//! let mut endpoint = Endpoint::new(Config::default(), 1);
//! endpoint.connect(Connect::new(local, to, 20049)).unwrap();
//! let until = driver.now().plus(Duration::from_secs(5));
//! let ended = driver.run(&mut endpoint, Some(until), |endpoint, _| {
//!     matches!(endpoint.poll_event(), Some(Event::Connected { .. }))
//! })?;
//! assert_eq!(ended, Ended::Done);
//! # Ok::<(), rdmascope_peer::driver::Error>(())
//! ```

mod socket;

use crate::packet::Icrc;
use crate::pair::End;
use crate::time::{Instant, earlier};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use rdmascope_wire::compose::ROCE_V2_PORT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket::Socket;
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;

/// Most addresses that [`Reach::Senders`] remembers. Other senders get no answer.
pub const MOST_SENDERS: usize = 4096;
/// Most datagrams to send or receive before the other direction has its turn.
const TURN: usize = 64;
/// The longest packet.
const BUFFER: usize = 65_536;

/// The kind of sockets.
///
/// | | raw sockets | UDP socket |
/// |---|---|---|
/// | privilege | CAP_NET_RAW | none |
/// | source port | any | 4791 |
/// | Identification | its own | 0, with DF |
/// | ICRC over IPv4 | verified | verified if possible |
/// | ICRC over IPv6 | verified | verified |
///
/// Over IPv4 a UDP socket verifies the ICRC if the sender has Identification 0 and DF. Otherwise
/// the result is [`Icrc::Unverified`], or bad if the ICRC is correct for no Identification. Over
/// IPv6 Linux drops packets without a UDP checksum, and RoCE devices send none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Raw sockets.
    Raw,
    /// An unconnected UDP socket.
    Udp,
}

/// The destinations of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// These addresses only.
    Only(Vec<IpAddr>),
    /// Addresses from which a datagram without a bad ICRC arrived, at most [`MOST_SENDERS`].
    Senders,
}

/// An error of the sockets, with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no route.
    #[error("no route to {to}: `ip route get {to}` shows details")]
    NoRoute {
        /// The destination.
        to: IpAddr,
    },
    /// The port is in use.
    #[error(
        "UDP port 4791 of {local} is in use: by the kernel's rxe (`rdma link` lists it, `rdma link delete` removes it), or by another program \
         (`ss -ulpn sport = 4791` shows it)"
    )]
    PortTaken {
        /// The address.
        local: IpAddr,
    },
    /// The host does not have this address.
    #[error("{local} is not an address of this host: `ip address` lists them")]
    NotLocal {
        /// The address.
        local: IpAddr,
    },
    /// A link-local IPv6 address. It needs an interface, for which GIDs and datagrams have no
    /// field.
    #[error(
        "{address} is a link-local address, which needs an interface: use a global or unique local address (`ip -6 address` lists them)"
    )]
    LinkLocal {
        /// The address.
        address: IpAddr,
    },
    /// Not a unicast address of one host.
    #[error(
        "{address} is not the address of one host: use a unicast address (`ip address` lists those of this host)"
    )]
    NotOneHost {
        /// The address.
        address: IpAddr,
    },
    /// Raw sockets require a capability.
    #[error(
        "no permission for {doing} ({address}): run as root, or `setcap cap_net_raw+ep` the program, or use the UDP socket; if that is not \
         permitted either, a firewall blocks it"
    )]
    NotPermitted {
        /// The attempted operation.
        doing: &'static str,
        /// The address.
        address: IpAddr,
    },
    /// The packet exceeds the MTU of the route.
    #[error("a transport packet of {length} bytes exceeds the MTU of the route: choose a smaller path MTU")]
    TooLong {
        /// Bytes from the BTH on.
        length: usize,
    },
    /// Any other error.
    #[error("{doing} failed ({address}): {reason}")]
    Other {
        /// The attempted operation.
        doing: &'static str,
        /// The address.
        address: IpAddr,
        /// The reason.
        reason: std::io::Error,
    },
}

impl Error {
    /// Checks that packets can be sent to and from this address.
    fn check_address(address: IpAddr) -> Result<(), Error> {
        let (of_one_link, broadcast) = match address {
            IpAddr::V4(address) => (false, address.is_broadcast()),
            IpAddr::V6(address) => (address.is_unicast_link_local(), false),
        };
        if of_one_link {
            return Err(Error::LinkLocal { address });
        }
        if broadcast || address.is_unspecified() || address.is_multicast() {
            return Err(Error::NotOneHost { address });
        }
        Ok(())
    }

    fn from_errno(errno: Errno, doing: &'static str, address: IpAddr) -> Error {
        match errno {
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN => Error::NoRoute { to: address },
            Errno::ADDRINUSE => Error::PortTaken { local: address },
            Errno::ADDRNOTAVAIL => Error::NotLocal { local: address },
            Errno::PERM | Errno::ACCESS => Error::NotPermitted { doing, address },
            _ => Error::Other { doing, address, reason: errno.into() },
        }
    }
}

/// Returns the local address for packets to `to`.
pub fn route(to: IpAddr) -> Result<IpAddr, Error> {
    Error::check_address(to)?;
    let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let look = || -> std::io::Result<IpAddr> {
        // Connecting a UDP socket looks up the route and sends nothing.
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect((to, ROCE_V2_PORT))?;
        Ok(socket.local_addr()?.ip())
    };
    look().map_err(|source| match Errno::from_io_error(&source) {
        // The host has no IPv6 address, or no IPv6 at all.
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT) => Error::NoRoute { to },
        Some(errno) => Error::from_errno(errno, "looking for a route", to),
        None => Error::Other { doing: "looking for a route", address: to, reason: source },
    })
}

/// A packet that was sent or received.
#[derive(Clone, Copy, Debug)]
pub struct Crossed<'a> {
    /// The time in nanoseconds since 1970-01-01T00:00:00Z.
    pub time: u64,
    /// Whether it was received.
    pub incoming: bool,
    /// The packet from its IP header to the ICRC. If the socket hides the header, the fields that
    /// the ICRC covers are those for which it is correct, and the other fields are arbitrary.
    pub packet: &'a [u8],
    /// The result of the ICRC check, or the kind of ICRC that was sent.
    pub icrc: Icrc,
}

/// A callback for every packet.
pub type Recorder = Box<dyn FnMut(&Crossed<'_>) + Send>;

/// Counters of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the kernel had no room for.
    pub lost: u64,
    /// Datagrams that the kernel did not send for another reason. With [`Reach::Senders`] an
    /// unreachable remote side does not affect the others.
    pub refused: u64,
    /// Datagrams that were not sent because of their destination, or because their source is not a
    /// local address of the driver.
    pub withheld: u64,
    /// Datagrams received with a correct ICRC.
    pub good: u64,
    /// Datagrams received with a bad ICRC.
    pub bad: u64,
    /// Datagrams received whose ICRC could not be verified with certainty.
    pub unverified: u64,
    /// Packets received that are not RoCEv2.
    pub foreign: u64,
    /// Number of waits.
    pub waits: u64,
}

/// Why [`Driver::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// `done` returned true.
    Done,
    /// The time limit passed.
    Deadline,
    /// A [`Waker`] was used.
    Woken,
}

/// Makes [`Driver::run`] return, from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<UnixStream>);

impl Waker {
    /// Returns a waker and the stream that becomes readable when it is used.
    pub(crate) fn pair() -> std::io::Result<(UnixStream, Waker)> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        Ok((woken, Waker(Arc::new(waker))))
    }

    /// Returns whether it was used since the last call.
    pub(crate) fn was_used(mut woken: &UnixStream) -> bool {
        let (mut wakes, mut used) = ([0; 16], false);
        while matches!(woken.read(&mut wakes), Ok(1..)) {
            used = true;
        }
        used
    }

    /// Wakes the driver, now or in its next run.
    pub fn wake(&self) {
        // If the stream is full, an earlier wake is still pending.
        let _ = (&*self.0).write(&[1]);
    }
}

/// A driver. See the [module](self).
pub struct Driver {
    sockets: Vec<Socket>,
    reach: Reach,
    senders: BTreeSet<IpAddr>,
    recorder: Option<Recorder>,
    counts: Counts,
    started: std::time::Instant,
    /// `started` in nanoseconds since 1970.
    epoch: u64,
    woken: UnixStream,
    waker: Waker,
    buffer: Vec<u8>,
    packet: Vec<u8>,
}

impl Driver {
    /// Binds port 4791 of each address.
    pub fn open(kind: Kind, locals: &[IpAddr], reach: Reach) -> Result<Driver, Error> {
        let named = if let Reach::Only(remotes) = &reach { remotes.iter() } else { [].iter() };
        named.chain(locals).try_for_each(|address| Error::check_address(*address))?;
        let sockets = locals.iter().map(|local| Socket::open(kind, *local)).collect::<Result<_, _>>()?;
        let pair = Waker::pair();
        let address = locals.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (woken, waker) =
            pair.map_err(|reason| Error::Other { doing: "a pair of sockets", address, reason })?;
        let epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Driver {
            sockets,
            reach,
            senders: BTreeSet::new(),
            recorder: None,
            counts: Counts::default(),
            started: std::time::Instant::now(),
            epoch: u64::try_from(epoch.as_nanos()).unwrap_or(u64::MAX),
            woken,
            waker,
            buffer: std::vec![0; BUFFER],
            packet: Vec::new(),
        })
    }

    /// Passes every packet sent or received from now on to `recorder`.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    /// Returns the time since the driver was opened.
    pub fn now(&self) -> Instant {
        Instant::default().plus(self.started.elapsed())
    }

    /// Returns the waker of [`run`](Driver::run).
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the counters.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Allows another destination, if destinations are restricted.
    pub fn allow(&mut self, address: IpAddr) {
        if let Reach::Only(allowed) = &mut self.reach {
            allowed.push(address);
        }
    }

    /// Runs `end` until `done`, which is called after every turn, or until the time limit.
    ///
    /// Everything that `end` had to send before is sent then. Between turns it sleeps until a
    /// datagram arrives, the end's deadline or `until`. A datagram that the kernel does not send is
    /// an error if destinations are restricted, and counted with [`Reach::Senders`].
    pub fn run<E: End>(
        &mut self,
        end: &mut E,
        until: Option<Instant>,
        mut done: impl FnMut(&mut E, Instant) -> bool,
    ) -> Result<Ended, Error> {
        loop {
            let now = self.now();
            if end.next_deadline().is_some_and(|deadline| deadline <= now) {
                end.handle_time(now);
            }
            let mut more = self.transmit(end)?;
            let now = self.now();
            if done(end, now) {
                while self.transmit(end)? {}
                return Ok(Ended::Done);
            }
            // Sends what `done` queued.
            more |= self.transmit(end)?;
            if until.is_some_and(|until| until <= now) {
                return Ok(Ended::Deadline);
            }
            let deadline = if more { Some(now) } else { earlier(end.next_deadline(), until) };
            if self.wait(deadline)? {
                return Ok(Ended::Woken);
            }
            self.receive(end)?;
        }
    }

    /// Sends at most one turn of datagrams. Returns whether there may be more.
    fn transmit<E: End>(&mut self, end: &mut E) -> Result<bool, Error> {
        for _ in 0..TURN {
            let Some(datagram) = end.poll_transmit(self.now()) else { return Ok(false) };
            let allowed = match &self.reach {
                Reach::Only(allowed) => allowed.contains(&datagram.destination),
                Reach::Senders => self.senders.contains(&datagram.destination),
            };
            let socket = self.sockets.iter_mut().find(|socket| socket.local == datagram.source);
            let Some(socket) = socket.filter(|_| allowed) else {
                self.counts.withheld += 1;
                continue;
            };
            match socket.send(&datagram, &mut self.packet) {
                Ok(true) => {
                    self.counts.sent += 1;
                    self.emit(false, datagram.icrc);
                }
                Ok(false) => self.counts.lost += 1,
                Err(_) if self.reach == Reach::Senders => self.counts.refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Receives at most one turn of datagrams from each socket.
    fn receive<E: End>(&mut self, end: &mut E) -> Result<(), Error> {
        for index in 0..self.sockets.len() {
            for _ in 0..TURN {
                let socket = &self.sockets[index];
                let Some(received) = socket.receive(&mut self.buffer, &mut self.packet)? else { break };
                let Some(datagram) = received else {
                    self.counts.foreign += 1;
                    continue;
                };
                match datagram.icrc {
                    Icrc::Good => self.counts.good += 1,
                    Icrc::Bad => self.counts.bad += 1,
                    Icrc::Unverified => self.counts.unverified += 1,
                }
                let may_answer = self.reach == Reach::Senders && datagram.icrc != Icrc::Bad;
                if may_answer && self.senders.len() < MOST_SENDERS {
                    self.senders.insert(datagram.source);
                }
                self.emit(true, datagram.icrc);
                end.handle(self.now(), &datagram);
            }
        }
        Ok(())
    }

    fn emit(&mut self, incoming: bool, icrc: Icrc) {
        let time = self.epoch.saturating_add(self.now().0);
        if let Some(recorder) = &mut self.recorder {
            recorder(&Crossed { time, incoming, packet: &self.packet, icrc });
        }
    }

    /// Sleeps until a socket is readable or until the deadline. Returns whether a waker was used.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        let wait = deadline.map(|deadline| deadline.since(self.now()));
        // Without a representable time, wait without limit.
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        self.counts.waits += 1;
        let readers = self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN));
        let mut readers: Vec<PollFd<'_>> = readers.chain([PollFd::new(&self.woken, PollFlags::IN)]).collect();
        match poll(&mut readers, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                let address =
                    self.sockets.first().map_or(Ipv4Addr::UNSPECIFIED.into(), |socket| socket.local);
                return Err(Error::from_errno(errno, "waiting", address));
            }
        }
        Ok(Waker::was_used(&self.woken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Datagram;
    use alloc::vec;

    /// Sends the given datagrams.
    struct Sends(Vec<Datagram>);

    impl End for Sends {
        fn handle(&mut self, _: Instant, _: &Datagram) {}
        fn handle_time(&mut self, _: Instant) {}
        fn next_deadline(&self) -> Option<Instant> {
            None
        }
        fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
            self.0.pop()
        }
    }

    #[test]
    fn unreachable_remote_is_an_error_for_a_client_only() {
        let [.., high, low] = std::process::id().to_be_bytes();
        let local = Ipv4Addr::new(127, 99, high, low.clamp(1, 254)).into();
        // This host address alone has no route to another host.
        let unreachable: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        let datagram = |destination| Datagram {
            source: local,
            destination,
            source_port: 0xc000,
            transport: vec![0; 16],
            icrc: Icrc::Good,
        };
        let mut driver = match Driver::open(Kind::Udp, &[local], Reach::Senders) {
            Ok(driver) => driver,
            Err(error @ (Error::NotPermitted { .. } | Error::PortTaken { .. } | Error::NotLocal { .. })) => {
                return std::eprintln!("SKIPPED: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        driver.senders.extend([local, unreachable]);
        let sends = || Sends(vec![datagram(local), datagram(unreachable)]);
        assert_eq!(driver.run(&mut sends(), None, |sends, _| sends.0.is_empty()).unwrap(), Ended::Done);
        assert_eq!((driver.counts().sent, driver.counts().refused, driver.counts().withheld), (1, 1, 0));
        driver.reach = Reach::Only(vec![local, unreachable]);
        assert!(driver.run(&mut sends(), None, |sends, _| sends.0.is_empty()).is_err());
    }
}
