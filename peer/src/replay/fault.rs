//! Faults that can be injected into one call of a replay.

use crate::rpcrdma::Edit;
use alloc::boxed::Box;
use rdmascope_wire::rpcrdma::Procedure;

/// A fault in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// rdma_vers is 9 (RFC 8166, section 4.5.1).
    Version,
    /// rdma_proc is 9, a procedure that no specification defines.
    Procedure,
    /// The last four bytes of the Payload stream are missing.
    Short,
}

/// A number that is neither a version nor a procedure of RPC-over-RDMA.
const NONE: u32 = 9;

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 3] = [Fault::Version, Fault::Procedure, Fault::Short];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Version => "version",
            Fault::Procedure => "procedure",
            Fault::Short => "short",
        }
    }

    /// The edit that injects it into a call.
    pub(super) fn edit(self) -> Edit {
        Box::new(move |header, payload| match self {
            Fault::Version => header.version = NONE,
            Fault::Procedure => header.procedure = Procedure::Unknown(NONE),
            Fault::Short => payload.truncate(payload.len().saturating_sub(4)),
        })
    }
}
