//! An NFS/RDMA endpoint as a library: RoCEv2, connection management, a reliable connection, and
//! RPC-over-RDMA version 1 on top.
//!
//! Only `driver`, `tcp` and `verbs` do I/O or read a clock. In all other modules the caller passes
//! datagrams and the time, and takes datagrams and events. The result depends only on these and on
//! the seed.
//!
//! [`Pair`](pair::Pair) has an example of two endpoints.
//!
//! Contract: no input from the network causes a panic or unbounded allocation. Malformed input is
//! reported as an [`Event`](endpoint::Event) with the error and its place.
#![cfg_attr(not(feature = "verbs"), forbid(unsafe_code))]
#![deny(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;
#[cfg(all(feature = "std", target_os = "linux"))]
extern crate std;

pub mod cm;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod driver;
pub mod endpoint;
pub mod frame;
pub mod interceptor;
pub mod memory;
pub mod nfs3;
pub mod packet;
pub mod pair;
pub mod peer;
pub mod provider;
pub mod random;
pub mod rc;
pub mod replay;
pub mod rpcrdma;
#[cfg(feature = "scenario")]
pub mod scenario;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod tcp;
pub mod time;
#[cfg(all(feature = "verbs", target_os = "linux"))]
pub mod verbs;
