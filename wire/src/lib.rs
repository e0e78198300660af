//! Parsers and builders for the headers of NFS over RDMA, one file per header.
//!
//! A parser accepts any bytes and returns fields or a located [`Stop`]. It never panics and never
//! allocates by a length read from the wire. Values that break a rule are kept as they were on the
//! wire: the dissector has to report them, and the peer has to be able to send them. See
//! [`bth::Bth`] for an example.
//!
//! A builder drops bits that do not fit a field. A builder that panics on opaque data that is too
//! long documents that. [`compose::Frame`] builds whole frames and never panics.
//!
//! The crate needs only `core` and `alloc`. The feature `std`, on by default, detects at run time
//! processor instructions that speed up the ICRC and the CRC32C.
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
// Exported by path, so that the modules above this line can use the macro.
pub(crate) use newtype;

newtype! {
    /// A queue pair number: 24 bits, in a `u32` (IBTA volume 1, section 9.2.5).
    Qpn, u32, 6
}
newtype! {
    /// An R_Key, the remote key of a memory region, as in a RETH or IETH (IBTA volume 1, section
    /// 9.3.3).
    Rkey, u32, 8
}
newtype! {
    /// The transaction ID of an RPC (RFC 5531, section 9), repeated in `rdma_xid` (RFC 8166,
    /// section 4.2.1).
    Xid, u32, 8
}
