//! Bytes to fields and fields to bytes, one file per header.
//!
//! The contract of every parser here: any bytes at all give fields or a located [`Stop`]; nothing panics, nothing
//! allocates by a length that the wire names. Values that break a rule are kept as they were on the wire, because the
//! dissector has to see them and the peer has to be able to send them. A builder drops the bits that do not fit a field; one
//! that panics on opaque data that is too long says so. The composer of frames never panics.
//!
//! The fields of a packet, from the BTH on:
//!
//! ```
//! use rdmascope_wire::bth::{Bth, Extensions};
//!
//! // RC SEND Only with Invalidate to queue pair 0x16.
//! let packet = [0x17, 0, 0xff, 0xff, 0, 0, 0, 0x16, 0x80, 0, 0, 0x2a, 0xca, 0xfe, 0, 1];
//! let bth = Bth::parse(&packet)?;
//! let (extensions, length) = Extensions::parse(bth.opcode, &packet[Bth::LENGTH..])?;
//! assert_eq!(bth.opcode.to_string(), "RC SEND Only with Invalidate");
//! assert_eq!((bth.destination_qp.0, bth.psn.value()), (0x16, 42));
//! assert_eq!(extensions.ieth.map(|rkey| rkey.0), Some(0xcafe_0001));
//! assert_eq!(Bth::LENGTH + length, packet.len());
//! # Ok::<(), rdmascope_wire::Stop>(())
//! ```
//!
//! And the other way round, a whole frame, with its ICRC:
//!
//! ```
//! use core::net::Ipv4Addr;
//! use rdmascope_wire::bth::{Bth, Extensions, Opcode};
//! use rdmascope_wire::compose::{Carrier, Ethernet, Frame, Ipv4, Udp};
//! use rdmascope_wire::{Qpn, psn::Psn};
//!
//! let ip = Ipv4::new(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
//! let frame = Frame {
//!     ethernet: Some(Ethernet::default()),
//!     carrier: Carrier::Ipv4(ip, Udp::from_port(50_000)),
//!     bth: Bth {
//!         opcode: Opcode::RC_SEND_ONLY,
//!         partition_key: 0xffff,
//!         destination_qp: Qpn(0x16),
//!         psn: Psn::new(42),
//!         ..Bth::default()
//!     },
//!     extensions: Extensions::default(),
//!     payload: b"five.",
//! };
//! let mut buffer = [0; 128];
//! let length = frame.compose(&mut buffer)?;
//! // Ethernet, IPv4, UDP, BTH, payload with three bytes of padding, ICRC.
//! assert_eq!(length, 14 + 20 + 8 + 12 + 8 + 4);
//! # Ok::<(), rdmascope_wire::compose::Error>(())
//! ```
//!
//! The crate needs `core` and `alloc` only. Its feature `std`, on by default, has the ICRC computed by instructions that not
//! every processor of an architecture has.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod bth;
pub mod cm;
pub mod compose;
pub mod ddp;
pub mod erf;
pub mod grh;
pub mod icrc;
pub mod layout;
pub mod lrh;
pub mod mad;
pub mod mpa;
pub mod nfs;
pub mod private_data;
pub mod psn;
pub mod rdma_cm_ip;
pub mod rdmap;
pub mod rpc;
pub mod rpcrdma;
mod stop;
mod table;
pub mod xdr;

pub use stop::{Cause, Layer, Stop};

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $width:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!("0x{:0", $width, "x}"), self.0)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "(0x{:0", $width, "x})"), self.0)
            }
        }
    };
}
// By its path, so that the headers above can give their own identifiers a type.
pub(crate) use newtype;

newtype! {
    /// A queue pair number: 24 bits, in a `u32` (IBTA volume 1, section 9.2.5).
    Qpn, u32, 6
}
newtype! {
    /// An R_Key, the remote key of a memory region, as a RETH or IETH carries it (IBTA volume 1, section 9.3.3).
    Rkey, u32, 8
}
newtype! {
    /// The transaction ID of an RPC (RFC 5531, section 9), which `rdma_xid` repeats (RFC 8166, section 4.2.1).
    Xid, u32, 8
}
