//! Bytes to fields and fields to bytes, one file per header.
//!
//! The contract of every parser here: any bytes at all give fields or a located [`Stop`]; nothing panics, nothing
//! allocates by a length that the wire names. Values that break a rule are kept as they were on the wire, because the
//! dissector has to see them and the peer has to be able to send them. Whoever builds a header may panic on a value that
//! does not fit its field; each builder says so.
#![forbid(unsafe_code)]

pub mod bth;
pub mod cm;
pub mod compose;
pub mod grh;
pub mod icrc;
pub mod layout;
pub mod lrh;
pub mod mad;
pub mod private_data;
pub mod psn;
pub mod rdma_cm_ip;
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
