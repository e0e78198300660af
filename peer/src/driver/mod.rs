//! An end on sockets of Linux: what hands it datagrams and the time.
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
//!
//! | | raw sockets | a UDP socket |
//! |---|---|---|
//! | wants | CAP_NET_RAW | nothing |
//! | sends | any source port, its own Identification | source port 4791, Identification 0 with DF |
//! | ICRC of what comes, IPv4 | verified | verified where the sender has Identification 0 and DF; else [`Icrc::Unverified`], or bad where it is right for no Identification |
//! | ICRC of what comes, IPv6 | verified | verified; but Linux drops what has no UDP checksum, and RoCE devices send none |

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

/// Addresses that [`Reach::WhoeverSent`] remembers. Who is not remembered gets no answer.
pub const MOST_HEARD: usize = 4096;
/// Datagrams that are sent, or taken, before the other direction has its turn.
const TURN: usize = 64;
/// The longest packet.
const BUFFER: usize = 65_536;

/// Which sockets a driver has. The [module](self) compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Raw sockets.
    Raw,
    /// A UDP socket that is not connected.
    Udp,
}

/// To whom a driver sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To these addresses.
    Only(Vec<IpAddr>),
    /// To those from which a datagram came with an ICRC that was not wrong, [`MOST_HEARD`] at most.
    WhoeverSent,
}

/// What is wrong with the sockets. Each says what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no route.
    #[error("no route to {to}: `ip route get {to}` says more")]
    NoRoute {
        /// To whom.
        to: IpAddr,
    },
    /// Somebody else has the port.
    #[error(
        "UDP port 4791 of {local} is taken: by the kernel's rxe (`rdma link` lists it, `rdma link delete` removes it), or by another program \
         (`ss -ulpn sport = 4791` names it)"
    )]
    PortTaken {
        /// The address.
        local: IpAddr,
    },
    /// The host does not have the address.
    #[error("{local} is no address of this host: `ip address` lists them")]
    NotLocal {
        /// The address.
        local: IpAddr,
    },
    /// An IPv6 address of one link, which says nothing without its interface: GIDs and datagrams have no room for that.
    #[error(
        "{address} is an address of one link, and its interface cannot be named: name a global or a unique local one (`ip -6 address` lists them)"
    )]
    LinkLocal {
        /// The address.
        address: IpAddr,
    },
    /// An address of nobody, or of many.
    #[error(
        "{address} is not the address of one host: name one that is (`ip address` lists those of this host)"
    )]
    NotOneHost {
        /// The address.
        address: IpAddr,
    },
    /// Raw sockets are for those who have the capability.
    #[error(
        "{doing} is not permitted ({address}): run as root, or `setcap cap_net_raw+ep` the program, or use the UDP socket; where that is not \
         permitted either, a firewall forbids it"
    )]
    NotPermitted {
        /// What was tried.
        doing: &'static str,
        /// With which address.
        address: IpAddr,
    },
    /// A packet is longer than the route allows.
    #[error(
        "a transport packet of {length} bytes is longer than the route's MTU allows: choose a smaller path MTU"
    )]
    TooLong {
        /// Bytes from the BTH on.
        length: usize,
    },
    /// Anything else.
    #[error("{doing} failed ({address}): {reason}")]
    Other {
        /// What was tried.
        doing: &'static str,
        /// With which address.
        address: IpAddr,
        /// Why.
        reason: std::io::Error,
    },
}

impl Error {
    /// Packets can be sent to this address, and from it.
    fn look_at(address: IpAddr) -> Result<(), Error> {
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

/// The local address from which packets to `to` are sent.
pub fn route(to: IpAddr) -> Result<IpAddr, Error> {
    Error::look_at(to)?;
    let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let look = || -> std::io::Result<IpAddr> {
        // Nothing is sent: connecting a UDP socket looks the route up.
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect((to, ROCE_V2_PORT))?;
        Ok(socket.local_addr()?.ip())
    };
    look().map_err(|source| match Errno::from_io_error(&source) {
        // Of IPv6 this host has no address, or nothing at all.
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT) => Error::NoRoute { to },
        Some(errno) => Error::from_errno(errno, "looking for a route", to),
        None => Error::Other { doing: "looking for a route", address: to, reason: source },
    })
}

/// A packet that went out or came in.
#[derive(Clone, Copy, Debug)]
pub struct Crossed<'a> {
    /// When: nanoseconds since 1970-01-01T00:00:00Z.
    pub time: u64,
    /// Whether it came in.
    pub incoming: bool,
    /// The packet from its IP header to the ICRC. Where the socket does not show the header, it is made up in what the ICRC does not
    /// cover, and in the rest is the one that the ICRC is right for.
    pub packet: &'a [u8],
    /// What the driver found out about its ICRC; of what went out, how it was made.
    pub icrc: Icrc,
}

/// Who is told of every packet.
pub type Recorder = Box<dyn FnMut(&Crossed<'_>) + Send>;

/// What a driver has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the kernel had no room for.
    pub lost: u64,
    /// Datagrams that the kernel did not send for another reason: with [`Reach::WhoeverSent`] one remote side that cannot be reached any more is
    /// nothing to the others.
    pub refused: u64,
    /// Datagrams that were not sent, because nobody allowed their destination or their source is none of the driver's addresses.
    pub withheld: u64,
    /// Datagrams received whose ICRC was right.
    pub good: u64,
    /// Those whose ICRC was wrong.
    pub bad: u64,
    /// Those of which that is not known for certain.
    pub unverified: u64,
    /// What came and was none of RoCEv2.
    pub foreign: u64,
    /// Times that the driver waited.
    pub waits: u64,
}

/// Why [`Driver::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// `done` said so.
    Done,
    /// The time was over.
    Deadline,
    /// A [`Waker`] was used.
    Woken,
}

/// Makes [`Driver::run`] return, from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<UnixStream>);

impl Waker {
    /// One, and what can be read once it was used.
    pub(crate) fn pair() -> std::io::Result<(UnixStream, Waker)> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        Ok((woken, Waker(Arc::new(waker))))
    }

    /// Whether it was used since this was asked last.
    pub(crate) fn was_used(mut woken: &UnixStream) -> bool {
        let (mut wakes, mut used) = ([0; 16], false);
        while matches!(woken.read(&mut wakes), Ok(1..)) {
            used = true;
        }
        used
    }

    /// Does so, now or when it is called next.
    pub fn wake(&self) {
        // Where there is no room, it has been done and not been seen yet.
        let _ = (&*self.0).write(&[1]);
    }
}

/// See the [module](self).
pub struct Driver {
    sockets: Vec<Socket>,
    reach: Reach,
    heard: BTreeSet<IpAddr>,
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
    /// Binds port 4791 of each of these addresses.
    pub fn open(kind: Kind, locals: &[IpAddr], reach: Reach) -> Result<Driver, Error> {
        let named = if let Reach::Only(remotes) = &reach { remotes.iter() } else { [].iter() };
        named.chain(locals).try_for_each(|address| Error::look_at(*address))?;
        let sockets = locals.iter().map(|local| Socket::open(kind, *local)).collect::<Result<_, _>>()?;
        let pair = Waker::pair();
        let address = locals.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (woken, waker) =
            pair.map_err(|reason| Error::Other { doing: "a pair of sockets", address, reason })?;
        let epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Driver {
            sockets,
            reach,
            heard: BTreeSet::new(),
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

    /// Hands every packet that is sent or received from now on to `recorder`.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    /// The time since the driver was opened.
    pub fn now(&self) -> Instant {
        Instant::default().plus(self.started.elapsed())
    }

    /// What makes [`run`](Driver::run) return.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// What it has done so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Allows another address, where only certain ones are.
    pub fn allow(&mut self, address: IpAddr) {
        if let Reach::Only(allowed) = &mut self.reach {
            allowed.push(address);
        }
    }

    /// Runs `end` until `done`, which is asked after every turn, or until the time is over. What there was to send before has been sent
    /// then. Between turns it sleeps until a datagram comes, the end's deadline or `until`. What the kernel does not send is an error where
    /// only certain addresses are sent to, and counted with [`Reach::WhoeverSent`].
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
            // What `done` gave it to do.
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

    /// Sends what there is, up to a turn. Whether there may be more.
    fn transmit<E: End>(&mut self, end: &mut E) -> Result<bool, Error> {
        for _ in 0..TURN {
            let Some(datagram) = end.poll_transmit(self.now()) else { return Ok(false) };
            let allowed = match &self.reach {
                Reach::Only(allowed) => allowed.contains(&datagram.destination),
                Reach::WhoeverSent => self.heard.contains(&datagram.destination),
            };
            let socket = self.sockets.iter_mut().find(|socket| socket.local == datagram.source);
            let Some(socket) = socket.filter(|_| allowed) else {
                self.counts.withheld += 1;
                continue;
            };
            match socket.send(&datagram, &mut self.packet) {
                Ok(true) => {
                    self.counts.sent += 1;
                    self.tell(false, datagram.icrc);
                }
                Ok(false) => self.counts.lost += 1,
                Err(_) if self.reach == Reach::WhoeverSent => self.counts.refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes what has come, up to a turn from each socket.
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
                let heard = self.reach == Reach::WhoeverSent && datagram.icrc != Icrc::Bad;
                if heard && self.heard.len() < MOST_HEARD {
                    self.heard.insert(datagram.source);
                }
                self.tell(true, datagram.icrc);
                end.handle(self.now(), &datagram);
            }
        }
        Ok(())
    }

    fn tell(&mut self, incoming: bool, icrc: Icrc) {
        let time = self.epoch.saturating_add(self.now().0);
        if let Some(recorder) = &mut self.recorder {
            recorder(&Crossed { time, incoming, packet: &self.packet, icrc });
        }
    }

    /// Sleeps until something has come, or until the deadline. Whether a waker was used.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        let wait = deadline.map(|deadline| deadline.since(self.now()));
        // A time that the kernel cannot say is as good as none.
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

    /// Sends what it has.
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
    fn a_remote_side_that_cannot_be_reached_ends_a_client_and_no_server() {
        let [.., high, low] = std::process::id().to_be_bytes();
        let local = Ipv4Addr::new(127, 99, high, low.clamp(1, 254)).into();
        // From an address of this host alone there is no way to another one.
        let unreachable: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        let datagram = |destination| Datagram {
            source: local,
            destination,
            source_port: 0xc000,
            transport: vec![0; 16],
            icrc: Icrc::Good,
        };
        let mut driver = match Driver::open(Kind::Udp, &[local], Reach::WhoeverSent) {
            Ok(driver) => driver,
            Err(error @ (Error::NotPermitted { .. } | Error::PortTaken { .. } | Error::NotLocal { .. })) => {
                return std::eprintln!("SKIPPED: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        driver.heard.extend([local, unreachable]);
        let sends = || Sends(vec![datagram(local), datagram(unreachable)]);
        assert_eq!(driver.run(&mut sends(), None, |sends, _| sends.0.is_empty()).unwrap(), Ended::Done);
        assert_eq!((driver.counts().sent, driver.counts().refused, driver.counts().withheld), (1, 1, 0));
        driver.reach = Reach::Only(vec![local, unreachable]);
        assert!(driver.run(&mut sends(), None, |sends, _| sends.0.is_empty()).is_err());
    }
}
