//! RPC on TCP beside an end of NFS/RDMA, with blocking sockets: a server on threads that answers MOUNT and the port mapper, and a
//! client that asks another host for the root handle of an export.

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

/// Connections at a time. Who comes then is closed at once.
pub const MOST_CONNECTIONS: usize = 64;
/// A connection on which nothing comes for so long is closed.
pub const IDLE: Duration = Duration::from_secs(60);
/// How often a thread looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// Answers calls to [`Services`] on TCP until it is dropped.
#[derive(Debug)]
pub struct Server {
    over: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves whoever connects to `listener`. Nobody is accepted once the server is dropped, which takes up to a tenth of a second. The
    /// thread of a connection ends within a further tenth of a second, or once the remote side has taken its replies: it is waited for with each of
    /// them for [`IDLE`] at most.
    pub fn start(listener: TcpListener, services: Services) -> io::Result<Server> {
        let address = listener.local_addr()?;
        // `accept` cannot be told to wait for a time only.
        listener.set_nonblocking(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let (told, services) = (Arc::clone(&over), Arc::new(services));
        let accepting = thread::Builder::new().name("rpc-tcp".into());
        let thread = accepting.spawn(move || accept(&listener, &services, &told))?;
        Ok(Server { over, address, thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been told of.
            let _ = thread.join();
        }
    }
}

/// Counts a connection as long as it lives.
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
            // Nobody is there, or there is no file descriptor left.
            thread::sleep(LOOK);
            continue;
        };
        let before = open.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&open));
        if before >= MOST_CONNECTIONS {
            continue;
        }
        let (services, over) = (Arc::clone(services), Arc::clone(over));
        // Without a thread the stream is dropped, and so closed.
        let _ = thread::Builder::new().name("rpc-tcp".into()).spawn(move || {
            let _place = place;
            // How a connection ends is nothing to the next one.
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

/// Why there is no root handle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other host could not be asked.
    #[error("{doing} of {to} on TCP: {reason}")]
    Io {
        /// What was asked: the port mapper or MOUNT.
        doing: &'static str,
        /// Who.
        to: SocketAddr,
        /// Why not.
        reason: io::Error,
    },
    /// It answered, but without what was asked for.
    #[error("{doing} of {to} on TCP: {reason}")]
    Mount {
        /// What was asked: the port mapper or MOUNT.
        doing: &'static str,
        /// Who.
        to: SocketAddr,
        /// What it said.
        reason: MountError,
    },
    /// Its port mapper knows no MOUNT version 3 on TCP.
    #[error("{to} has no MOUNT version 3 on TCP: name its port, or the root handle")]
    NoMount {
        /// Who.
        to: IpAddr,
    },
}

/// Asks MOUNT of a host for the root handle of an export. Without the port of MOUNT its port mapper is asked first. Each answer may
/// take `patience`. Linux answers such a call only to those who have a port below 1024, unless the export says `insecure`; such a
/// port is taken where that is permitted.
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
            let reply = ask(to, &call, patience).map_err(|reason| Error::Io { doing, to, reason })?;
            mount::port(xid, &reply).map_err(|reason| Error::Mount { doing, to, reason })?
        }
    };
    if port == 0 {
        return Err(Error::NoMount { to });
    }
    let (doing, to) = ("MOUNT", SocketAddr::new(to, port));
    let (xid, call): (Xid, Vec<u8>) = caller.mount(path);
    let reply = ask(to, &call, patience).map_err(|reason| Error::Io { doing, to, reason })?;
    mount::mounted(xid, &reply).map_err(|reason| Error::Mount { doing, to, reason })
}

/// One call and its reply.
fn ask(to: SocketAddr, call: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
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
        // Somebody who sends a byte now and then does not keep us.
        if std::time::Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Connects from a port below 1024 where that is permitted.
fn connect(to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    use rustix::io::Errno;
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketType};
    let (family, any) = match to {
        SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED)),
    };
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    // Linux bounds the time to connect with it too.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    // Those below 665 are more often a service's.
    for port in (665..1024).rev() {
        match rustix::net::bind(&socket, &SocketAddr::new(any, port)) {
            Err(Errno::ADDRINUSE) => {}
            // Bound; or not permitted, and any port will do.
            _ => break,
        }
    }
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}
