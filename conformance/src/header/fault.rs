//! Faults in the header of a call.

use rdmascope_dissector::transaction::Message;
use rdmascope_wire::rpcrdma::{MINIMUM_LENGTH, Procedure, VERSION};
use rdmascope_wire::{Cause, Xid};

/// A fault in the header of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Less than 28 bytes.
    Short,
    /// rdma_vers is not 1.
    Version,
    /// An unknown rdma_proc.
    Procedure,
    /// RDMA_MSGP.
    Padded,
    /// The lists cannot be parsed.
    Lists,
    /// RDMA_NOMSG without a chunk that holds the Payload stream.
    Nowhere,
    /// rdma_xid is not the XID of the RPC message.
    Xid,
}

/// Finds the fault in the header of a call, as far as the capture shows it.
pub(crate) fn fault_of(call: &Message, xid: Xid) -> Option<Fault> {
    let is_stopped = call.stop.is_some_and(|stop| stop.cause != Cause::TruncatedCapture);
    let has_position_zero = call.read_chunks.iter().any(|chunk| chunk.position == 0);
    if (call.send_length as usize) < MINIMUM_LENGTH && call.missing.is_empty() {
        Some(Fault::Short)
    } else if call.version != VERSION {
        Some(Fault::Version)
    } else if let Procedure::Unknown(_) = call.procedure {
        Some(Fault::Procedure)
    } else if call.procedure == Procedure::Msgp {
        Some(Fault::Padded)
    } else if is_stopped {
        Some(Fault::Lists)
    } else if call.procedure == Procedure::Nomsg && call.stop.is_none() && !has_position_zero {
        Some(Fault::Nowhere)
    } else if call.rpc_xid.is_some_and(|found| found != xid) {
        Some(Fault::Xid)
    } else {
        None
    }
}
