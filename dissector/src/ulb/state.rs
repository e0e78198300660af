//! Facts about state that outlives its COMPOUND: client IDs, sessions, stateids and their
//! permissions.
//!
//! The facts of a transaction are in one list, in the order of their operations, and for each
//! operation those of the arguments before those of the results. Each has the index of its
//! operation, which has the status. A consumer must check both: a failed operation does not change
//! the state that it names.
//!
//! A `stateid4` is a sequence number and twelve bytes. The twelve bytes are the identity; the
//! number increases with each change (RFC 8881, section 8.2.2; RFC 7530, section 9.1.4.2).

use super::walk::Walk;
use super::{Outcome, SessionId, StateId};
use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use rdmascope_wire::Stop;

/// A fact about state, from one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFact {
    /// The index of the operation in [`super::Details::operations`].
    pub operation: u16,
    /// The fact.
    pub kind: FactKind,
}

impl StateFact {
    /// Maximum number of facts of one transaction. Further facts are parsed but not stored.
    pub const MOST: usize = 1024;
}

/// The kinds of facts about state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// The stateid in the arguments. COPY and CLONE have that of the source first.
    ArgumentStateId(StateId),
    /// The stateid in the results.
    ResultStateId(StateId),
    /// The client ID in the arguments.
    ArgumentClient(u64),
    /// The identity of the client, in the arguments of EXCHANGE_ID and SETCLIENTID.
    Owner {
        /// A hash of co_ownerid, or of the id of an nfs_client_id4.
        owner: u64,
        /// The verifier. It changes when the client restarts.
        verifier: u64,
    },
    /// The client ID in the results of EXCHANGE_ID and SETCLIENTID.
    ResultClient {
        /// The client ID.
        client: u64,
        /// eir_flags; 0 for SETCLIENTID.
        flags: u32,
    },
    /// The identity of the server, in the results of EXCHANGE_ID: a hash of so_major_id and the
    /// server scope (RFC 8881, section 2.10.4).
    Server(u64),
    /// The session ID in the arguments of DESTROY_SESSION and BIND_CONN_TO_SESSION.
    Session(SessionId),
    /// The share modes in the arguments of OPEN and OPEN_DOWNGRADE.
    Share {
        /// share_access; in minor version 1 its upper bits have further requests.
        access: u32,
        /// share_deny.
        deny: u32,
    },
    /// Further arguments of OPEN.
    Open {
        /// The client ID of the open_owner4, which only minor version 0 uses.
        client: u64,
        /// The open_claim_type4.
        claim: u32,
    },
    /// A delegation, in the results of OPEN, WANT_DELEGATION and GET_DIR_DELEGATION, and in the
    /// arguments of CB_PUSH_DELEG.
    Delegation {
        /// Its stateid.
        id: StateId,
        /// Whether it is a write delegation.
        writes: bool,
    },
    /// Arguments of LOCK. The operation has the range.
    Lock {
        /// nfs_lock_type4.
        kind: u32,
        /// A hash of the owner in the lock_owner4, if the lock-owner is new. Then the stateid in
        /// the arguments is that of an OPEN.
        owner: Option<u64>,
        /// Whether it reclaims a lock that the server lost.
        reclaims: bool,
    },
    /// A status other than success, in the results of TEST_STATEID.
    Tested {
        /// The index of the stateid in the arguments.
        index: u32,
        /// Its status.
        status: u32,
    },
    /// Arguments of LAYOUTGET, LAYOUTRETURN and CB_LAYOUTRECALL.
    Layout {
        /// layoutiomode4.
        mode: u32,
        /// The layouts that LAYOUTRETURN and CB_LAYOUTRECALL apply to: layoutreturn_type4 or
        /// layoutrecall_type4; 1 for one file.
        extent: u32,
    },
    /// Results of LAYOUTRETURN: the client has no layout of the file left.
    NoLayoutLeft,
    /// The stateid of an operation that continues after its reply, in the results of COPY and
    /// WRITE_SAME, and in the write_response4 of CB_OFFLOAD.
    OffloadStateId(StateId),
    /// Arguments of CB_OFFLOAD: coa_status.
    OffloadStatus(u32),
    /// Arguments of RECLAIM_COMPLETE: rca_one_fs.
    ReclaimComplete {
        /// Whether it applies to one file system only.
        one_fs: bool,
    },
}

/// The facts of a transaction, for one operation to add to.
pub(super) struct Facts<'w> {
    list: &'w mut Vec<StateFact>,
    /// The index of the operation; `None` if it is not stored.
    operation: Option<u16>,
}

impl<'w> Facts<'w> {
    #[inline]
    pub(super) fn new(list: &'w mut Vec<StateFact>, operation: Option<usize>) -> Facts<'w> {
        Facts { list, operation: operation.and_then(|place| u16::try_from(place).ok()) }
    }

    /// Adds a fact.
    #[inline]
    pub(super) fn add(&mut self, kind: FactKind) {
        if let Some(operation) = self.operation
            && self.list.len() < StateFact::MOST
        {
            self.list.push(StateFact { operation, kind });
        }
    }
}

impl Walk<'_, '_> {
    /// Walks a stateid of the arguments.
    #[inline]
    pub(super) fn argument_stateid(&mut self) -> Outcome {
        let id = self.sixteen()?;
        self.facts.add(FactKind::ArgumentStateId(id));
        Ok(())
    }

    /// Walks a stateid of the results.
    #[inline]
    pub(super) fn result_stateid(&mut self) -> Outcome {
        let id = self.sixteen()?;
        self.facts.add(FactKind::ResultStateId(id));
        Ok(())
    }

    /// Walks a client ID of the arguments.
    pub(super) fn client(&mut self) -> Outcome {
        let client = self.payload.u64()?;
        self.facts.add(FactKind::ArgumentClient(client));
        Ok(())
    }

    /// Walks a session ID of the arguments.
    pub(super) fn session_id(&mut self) -> Outcome {
        let session = self.sixteen()?;
        self.facts.add(FactKind::Session(session));
        Ok(())
    }

    /// Walks a `client_owner4` or an `nfs_client_id4`.
    pub(super) fn client_owner(&mut self) -> Outcome {
        let verifier = self.payload.u64()?;
        let owner = hash(&[self.payload.opaque()?]);
        self.facts.add(FactKind::Owner { owner, verifier });
        Ok(())
    }

    /// Walks a `state_owner4` and returns its client ID.
    pub(super) fn state_owner(&mut self) -> Result<u64, Stop> {
        let client = self.payload.u64()?;
        self.payload.opaque()?;
        Ok(client)
    }

    /// Walks a `lock_owner4` and returns a hash of its owner.
    pub(super) fn lock_owner(&mut self) -> Result<u64, Stop> {
        self.payload.u64()?;
        Ok(hash(&[self.payload.opaque()?]))
    }

    /// Walks share_access and share_deny.
    pub(super) fn shares(&mut self) -> Outcome {
        let (access, deny) = (self.u32()?, self.u32()?);
        self.facts.add(FactKind::Share { access, deny });
        Ok(())
    }

    /// Walks so_major_id of a `server_owner4`, and the server scope.
    pub(super) fn server(&mut self) -> Outcome {
        let (major, scope) = (self.payload.opaque()?, self.payload.opaque()?);
        self.facts.add(FactKind::Server(hash(&[major, scope])));
        Ok(())
    }

    /// Walks a counted array of stateids.
    pub(super) fn argument_stateids(&mut self) -> Outcome {
        // An array that does not fit is not parsed at all.
        let mut within = *self.payload;
        let count = self.payload.array(16)?;
        within.u32()?;
        for _ in 0..count.min(StateFact::MOST as u32) {
            let id = *within.fixed(16)?.first_chunk().expect("fixed() returns this many bytes");
            self.facts.add(FactKind::ArgumentStateId(id));
        }
        Ok(())
    }

    /// Walks the statuses of TEST_STATEID.
    pub(super) fn tested(&mut self) -> Outcome {
        let mut within = *self.payload;
        let count = self.payload.array(4)?;
        within.u32()?;
        for index in 0..count.min(StateFact::MOST as u32) {
            let status = within.u32()?;
            if status != 0 {
                self.facts.add(FactKind::Tested { index, status });
            }
        }
        Ok(())
    }
}

/// The flags of sr_status_flags by bit, without SEQ4_STATUS_ (RFC 8881, section 18.46.3).
pub const STATUS_FLAGS: [&str; 13] = [
    "CB_PATH_DOWN",
    "CB_GSS_CONTEXTS_EXPIRING",
    "CB_GSS_CONTEXTS_EXPIRED",
    "EXPIRED_ALL_STATE_REVOKED",
    "EXPIRED_SOME_STATE_REVOKED",
    "ADMIN_STATE_REVOKED",
    "RECALLABLE_STATE_REVOKED",
    "LEASE_MOVED",
    "RESTART_RECLAIM_NEEDED",
    "CB_PATH_DOWN_SESSION",
    "BACKCHANNEL_FAULT",
    "DEVID_CHANGED",
    "DEVID_DELETED",
];

/// A hash of several texts. It depends on the boundaries between them.
fn hash(texts: &[&[u8]]) -> u64 {
    foldhash::quality::FixedState::default().hash_one(texts)
}

#[cfg(test)]
mod tests;
