//! RPC on TCP alongside NFS/RDMA, with blocking sockets: a threaded server for MOUNT and the port
//! mapper, and a client that obtains the root handle of an export.

use crate::nfs3::mount::{self, MOST_MESSAGE, MountError, PORTMAPPER_PORT, Records, Services, marked};
use crate::nfs3::{Caller, Handle};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use rdmascope_wire::Xid;
use rdmascope_wire::rpc::program;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// Most simultaneous connections. Further ones are closed immediately.
pub const MOST_CONNECTIONS: usize = 64;
/// A connection without input for this time is closed.
pub const IDLE: Duration = Duration::from_secs(60);
/// Interval between two checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Answers calls to [`Services`] on TCP until it is dropped.
#[derive(Debug)]
pub struct Server {
    over: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves all clients of `listener`. After the drop, which takes up to 0.1 s, no client is
    /// accepted. The thread of a connection ends within another 0.1 s, or once the remote side has
    /// taken its replies, which is limited to [`IDLE`] per reply.
    pub fn start(listener: TcpListener, services: Services) -> io::Result<Server> {
        let address = listener.local_addr()?;
        // `accept` has no timeout.
        listener.set_nonblocking(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let (stopped, services) = (Arc::clone(&over), Arc::new(services));
        let accepting = thread::Builder::new().name("rpc-tcp".into());
        let thread = accepting.spawn(move || accept(&listener, &services, &stopped))?;
        Ok(Server { over, address, thread: Some(thread) })
    }

    /// Returns the listening address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic was already reported.
            let _ = thread.join();
        }
    }
}

/// Counts a connection while it lives.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, services: &Arc<Services>, over: &Arc<AtomicBool>) {
    let open = Arc::new(AtomicUsize::new(0));
    while !over.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // No client is waiting, or no file descriptor is left.
            thread::sleep(LOOK);
            continue;
        };
        let before = open.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&open));
        if before >= MOST_CONNECTIONS {
            continue;
        }
        let (services, over) = (Arc::clone(services), Arc::clone(over));
        // Without a thread the stream is dropped, which closes it.
        let _ = thread::Builder::new().name("rpc-tcp".into()).spawn(move || {
            let _place = place;
            // The end of a connection does not affect the others.
            let _ = serve(stream, &services, &over);
        });
    }
}

fn serve(mut stream: TcpStream, services: &Services, over: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(IDLE))?;
    let (mut records, mut buffer, mut idle) = (Records::default(), [0; MOST_MESSAGE], Duration::ZERO);
    while !over.load(Ordering::Relaxed) && idle < IDLE {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                idle = Duration::ZERO;
                records.push(&buffer[..length]);
                while let Some(call) = records.message().map_err(io::Error::other)? {
                    if let Some(reply) = services.call(&call) {
                        stream.write_all(&marked(&reply))?;
                    }
                }
            }
            Err(error) if is_timeout(&error) => idle += LOOK,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Why no root handle was obtained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call to the other host failed.
    #[error("{doing} of {to} on TCP: {reason}")]
    Io {
        /// The service: the port mapper or MOUNT.
        doing: &'static str,
        /// The host and port.
        to: SocketAddr,
        /// The reason.
        reason: io::Error,
    },
    /// The host answered with an error or an unusable reply.
    #[error("{doing} of {to} on TCP: {reason}")]
    Mount {
        /// The service: the port mapper or MOUNT.
        doing: &'static str,
        /// The host and port.
        to: SocketAddr,
        /// The error.
        reason: MountError,
    },
    /// The port mapper has no MOUNT version 3 on TCP.
    #[error("{to} has no MOUNT version 3 on TCP: the port or the root handle is needed")]
    NoMount {
        /// The host.
        to: IpAddr,
    },
}

/// Asks MOUNT of a host for the root handle of an export. Without a port of MOUNT it asks the port
/// mapper first. Each answer may take `patience`.
///
/// Linux answers only clients with a port below 1024, unless the export has the option `insecure`.
/// Such a port is used if permitted.
pub fn root(
    to: IpAddr,
    mount_port: Option<u16>,
    path: &[u8],
    (caller, patience): (&mut Caller, Duration),
) -> Result<Handle, Error> {
    let port = match mount_port {
        Some(port) => port,
        None => {
            let (doing, to) = ("the port mapper", SocketAddr::new(to, PORTMAPPER_PORT));
            let (xid, call) = caller.port(program::MOUNT, 3);
            let reply = send_call(to, &call, patience).map_err(|reason| Error::Io { doing, to, reason })?;
            mount::port(xid, &reply).map_err(|reason| Error::Mount { doing, to, reason })?
        }
    };
    if port == 0 {
        return Err(Error::NoMount { to });
    }
    let (doing, to) = ("MOUNT", SocketAddr::new(to, port));
    let (xid, call): (Xid, Vec<u8>) = caller.mount(path);
    let reply = send_call(to, &call, patience).map_err(|reason| Error::Io { doing, to, reason })?;
    mount::mounted(xid, &reply).map_err(|reason| Error::Mount { doing, to, reason })
}

/// Sends one call and waits for its reply.
fn send_call(to: SocketAddr, call: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    let mut stream = connect(to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(&marked(call))?;
    let until = std::time::Instant::now() + patience;
    let (mut records, mut buffer) = (Records::default(), [0; MOST_MESSAGE]);
    loop {
        let length = match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) if is_timeout(&error) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        };
        records.push(&buffer[..length]);
        if let Some(reply) = records.message().map_err(io::Error::other)? {
            return Ok(reply);
        }
        // A slow sender of single bytes must not extend the wait.
        if std::time::Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Connects from a port below 1024 if permitted.
fn connect(to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    use rustix::io::Errno;
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketType};
    let (family, any) = match to {
        SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED)),
    };
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    // On Linux it also limits the time to connect.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    // Ports below 665 are more often used by services.
    for port in (665..1024).rev() {
        match rustix::net::bind(&socket, &SocketAddr::new(any, port)) {
            Err(Errno::ADDRINUSE) => {}
            // Bound, or not permitted, in which case any port is used.
            _ => break,
        }
    }
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}
