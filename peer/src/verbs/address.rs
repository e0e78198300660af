//! Socket addresses for the C libraries.

use core::net::SocketAddr;

/// A socket address, with its family first.
pub(super) enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        match address {
            SocketAddr::V4(address) => Address::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Address::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }
}

impl Address {
    /// Returns a pointer for the libraries. It is valid while `self` is not moved.
    pub(super) fn pointer(&mut self) -> *mut libc::sockaddr {
        match self {
            Address::V4(address) => core::ptr::from_mut(address).cast(),
            Address::V6(address) => core::ptr::from_mut(address).cast(),
        }
    }
}
