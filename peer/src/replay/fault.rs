//! A fault that is put into one call of a replay.

use crate::rpcrdma::Edit;
use alloc::boxed::Box;
use rdmascope_wire::rpcrdma::Procedure;

/// What is wrong in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// rdma_vers is 9 (RFC 8166, section 4.5.1).
    Version,
    /// rdma_proc is 9, which the specification does not know.
    Procedure,
    /// The last four bytes of the Payload stream are missing.
    Short,
}

/// A number that neither versions nor procedures of RPC-over-RDMA have.
const NONE: u32 = 9;

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 3] = [Fault::Version, Fault::Procedure, Fault::Short];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Version => "version",
            Fault::Procedure => "procedure",
            Fault::Short => "short",
        }
    }

    /// What puts it into a call.
    pub(super) fn edit(self) -> Edit {
        Box::new(move |header, payload| match self {
            Fault::Version => header.version = NONE,
            Fault::Procedure => header.procedure = Procedure::Unknown(NONE),
            Fault::Short => payload.truncate(payload.len().saturating_sub(4)),
        })
    }
}
