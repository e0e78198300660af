//! The sockets of one local address.

use super::{Error, Kind};
use crate::frame;
use crate::packet::Datagram;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use rdmascope_wire::compose::ROCE_V2_PORT;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recvfrom, sendto,
    socket_with, sockopt,
};

/// Size of the receive buffer, several windows of packets. The kernel may allow less.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The sockets of one local address.
pub(super) struct Socket {
    pub(super) local: IpAddr,
    kind: Kind,
    /// Bound to port 4791. With raw sockets nothing is read from it; it keeps the kernel from
    /// answering with ICMP port unreachable.
    udp: OwnedFd,
    /// The raw sockets for sending and receiving.
    raw: Option<(OwnedFd, OwnedFd)>,
    /// The Identification of the next packet of a raw socket.
    identification: u16,
}

impl Socket {
    pub(super) fn open(kind: Kind, local: IpAddr) -> Result<Socket, Error> {
        let failed = |doing: &'static str| move |errno: Errno| Error::from_errno(errno, doing, local);
        let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let open = |kind: SocketType, protocol: Protocol| {
            socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol))
        };
        let udp = open(SocketType::DGRAM, ipproto::UDP).map_err(failed("a UDP socket"))?;
        // Without fragmentation, an IPv4 packet of an unconnected socket has Identification 0 and
        // DF, so its ICRC can be computed before it is sent.
        let discovery = match local {
            IpAddr::V4(_) => sockopt::set_ip_mtu_discover(&udp, sockopt::Ipv4PathMtuDiscovery::DO),
            IpAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&udp, sockopt::Ipv6PathMtuDiscovery::DO),
        };
        discovery.map_err(failed("path MTU discovery"))?;
        rustix::net::bind(&udp, &SocketAddr::new(local, ROCE_V2_PORT)).map_err(failed("UDP port 4791"))?;
        let raw = match kind {
            Kind::Udp => None,
            Kind::Raw => {
                let operation = "a raw socket";
                let receive = open(SocketType::RAW, ipproto::UDP).map_err(failed(operation))?;
                rustix::net::bind(&receive, &SocketAddr::new(local, 0)).map_err(failed(operation))?;
                // Before bind it received packets to any address.
                while recvfrom(&receive, &mut [0; 1][..], RecvFlags::DONTWAIT).is_ok() {}
                // IPPROTO_RAW: sent packets include the IP header. Such a socket receives nothing.
                let send = open(SocketType::RAW, ipproto::RAW).map_err(failed(operation))?;
                // Data that is never read must not use memory.
                let _ = sockopt::set_socket_recv_buffer_size(&udp, 1);
                Some((send, receive))
            }
        };
        let socket = Socket { local, kind, udp, raw, identification: 0 };
        // Only the administrator can exceed the usual limit; otherwise use the allowed size.
        let receive = socket.as_fd();
        if sockopt::set_socket_recv_buffer_size_force(receive, RECEIVE_BUFFER).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(receive, RECEIVE_BUFFER);
        }
        Ok(socket)
    }

    /// Sends a datagram; `packet` receives its bytes. Returns false if the kernel had no room,
    /// which loses the datagram as a network would.
    pub(super) fn send(&mut self, datagram: &Datagram, packet: &mut Vec<u8>) -> Result<bool, Error> {
        let to = datagram.destination;
        // The kernel replaces Identification 0 in a raw packet, which would invalidate the ICRC.
        self.identification = self.identification.wrapping_add(1).max(1);
        let (source_port, identification) = match self.kind {
            Kind::Raw => (datagram.source_port, self.identification),
            Kind::Udp => (ROCE_V2_PORT, 0),
        };
        let too_long = || Error::TooLong { length: datagram.transport.len() };
        frame::enclose_as(datagram, source_port, identification, packet).map_err(|_| too_long())?;
        loop {
            let sent = match &self.raw {
                Some((send, _)) => sendto(send, packet, SendFlags::empty(), &SocketAddr::new(to, 0)),
                None => {
                    let payload = packet.get(frame::headers(to)..).unwrap_or_default();
                    sendto(&self.udp, payload, SendFlags::empty(), &SocketAddr::new(to, ROCE_V2_PORT))
                }
            };
            return match sent {
                Ok(_) => Ok(true),
                Err(Errno::INTR) => continue,
                Err(Errno::NOBUFS | Errno::AGAIN) => Ok(false),
                Err(Errno::MSGSIZE) => Err(too_long()),
                Err(errno) => Err(Error::from_errno(errno, "sending", to)),
            };
        }
    }

    /// Receives a datagram; `packet` receives its bytes from the IP header on, as far as they are
    /// known. Returns `None` if nothing is there, and `Some(None)` for a packet that is not RoCE.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
        packet: &mut Vec<u8>,
    ) -> Result<Option<Option<Datagram>>, Error> {
        let (length, source) = match recvfrom(self.as_fd(), &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((length, _, source)) => (length, source),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            // The effect of an ICMP message about an earlier packet.
            Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => return Ok(Some(None)),
            Err(errno) => return Err(Error::from_errno(errno, "receiving", self.local)),
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        let Some(source) = source.and_then(|source| SocketAddr::try_from(source).ok()) else {
            return Ok(Some(None));
        };
        Ok(Some(match (self.kind, self.local) {
            (Kind::Udp, local) => frame::from_udp(source.ip(), source.port(), local, bytes, packet),
            (Kind::Raw, IpAddr::V6(_)) => frame::from_raw_ipv6(source.ip(), self.local, bytes, packet).ok(),
            (Kind::Raw, IpAddr::V4(_)) => {
                packet.clear();
                packet.extend_from_slice(bytes);
                frame::open(bytes).ok().filter(|datagram| datagram.destination == self.local)
            }
        }))
    }
}

/// The receiving socket.
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_ref().map_or(&self.udp, |(_, receive)| receive).as_fd()
    }
}
