//! Captured packets in, connections and RPC transactions out.
//!
//! Sans-I/O: whoever uses this reads the file or the interface and hands over [`record::Record`]s with their time
//! stamps. The same records always give the same events: no stage reads a clock, a file, a random source or a global.
#![forbid(unsafe_code)]

pub mod attribution;
pub mod connection;
pub mod engine;
pub mod event;
pub mod exchange;
pub mod frame;
pub mod interval;
pub mod layout;
pub mod observation;
pub mod rc;
pub mod rdma;
pub mod record;
mod roomy;
pub mod rpcrdma;
pub mod session;
pub mod transaction;
pub mod transport;
pub mod ulb;
