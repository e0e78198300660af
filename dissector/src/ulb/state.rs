//! What operations say about state that lives on behind their COMPOUND: client IDs, sessions, stateids, and what they allow.
//!
//! The facts of a transaction stand in one list in the order in which the walks meet them: those of the arguments, then those of the results. Each
//! names its operation, which has the status. Whoever follows state asks both: what an operation that failed names is not changed.
//!
//! A `stateid4` is a sequence number and twelve bytes. The twelve bytes are the identity; the number grows with each change (RFC 8881, section
//! 8.2.2; RFC 7530, section 9.1.4.2).

use super::walk::Walk;
use super::{Outcome, SessionId, StateId};
use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use rdmascope_wire::Stop;

/// What an operation says about state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFact {
    /// The operation's place in [`super::Details::operations`].
    pub operation: u16,
    /// What it says.
    pub said: Said,
}

impl StateFact {
    /// Facts that one transaction keeps. What a COMPOUND says beyond them is read and not kept.
    pub const MOST: usize = 1024;
}

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The stateid in the arguments. COPY and CLONE have that of the source first.
    Names(StateId),
    /// The stateid in the results.
    Gives(StateId),
    /// The client ID in the arguments.
    Client(u64),
    /// Arguments of EXCHANGE_ID and SETCLIENTID: who the client is.
    Owner {
        /// A hash of co_ownerid, or of the id of an nfs_client_id4.
        owner: u64,
        /// The verifier: another one after the client was restarted.
        verifier: u64,
    },
    /// Results of EXCHANGE_ID and SETCLIENTID: the client ID, and eir_flags; 0 of SETCLIENTID.
    GivesClient {
        /// The client ID.
        client: u64,
        /// eir_flags.
        flags: u32,
    },
    /// Results of EXCHANGE_ID: a hash of so_major_id and of the server scope, by which servers are told apart (RFC 8881, section 2.10.4).
    Server(u64),
    /// The session ID in the arguments of DESTROY_SESSION and BIND_CONN_TO_SESSION.
    Session(SessionId),
    /// Arguments of OPEN and OPEN_DOWNGRADE.
    Shares {
        /// share_access, with the wishes of minor version 1 in the upper bits.
        access: u32,
        /// share_deny.
        deny: u32,
    },
    /// Arguments of OPEN.
    Opens {
        /// The client ID of the open_owner4, which minor version 0 alone uses.
        client: u64,
        /// The open_claim_type4.
        claim: u32,
    },
    /// Results of OPEN, WANT_DELEGATION and GET_DIR_DELEGATION, arguments of CB_PUSH_DELEG: a delegation.
    Delegates {
        /// Its stateid.
        id: StateId,
        /// Whether it is for writing.
        writes: bool,
    },
    /// Arguments of LOCK. The range stands in the operation.
    Locks {
        /// nfs_lock_type4.
        kind: u32,
        /// A hash of the owner in the lock_owner4, where the lock-owner is a new one: then the stateid that is named is that of an OPEN.
        owner: Option<u64>,
    },
    /// Arguments of TEST_STATEID, in whose order the results are: a status that is not success.
    Tested {
        /// Which of the stateids.
        index: u32,
        /// Its status.
        status: u32,
    },
    /// Arguments of LAYOUTGET, LAYOUTRETURN and CB_LAYOUTRECALL.
    Layout {
        /// layoutiomode4.
        mode: u32,
        /// Of LAYOUTRETURN and CB_LAYOUTRECALL, whose layouts: layoutreturn_type4 or layoutrecall_type4; 1 is the file's.
        extent: u32,
    },
    /// Results of LAYOUTRETURN: no layout of the file is left.
    NoLayoutLeft,
    /// Results of COPY and WRITE_SAME, and arguments of CB_OFFLOAD within its write_response4: the stateid of what goes on.
    GoesOn(StateId),
    /// Arguments of CB_OFFLOAD: coa_status.
    OffloadStatus(u32),
    /// Arguments of RECLAIM_COMPLETE: rca_one_fs.
    ReclaimComplete {
        /// Of one file system only.
        one_fs: bool,
    },
}

/// The facts of a transaction, to which one operation adds.
pub(super) struct Facts<'w> {
    list: &'w mut Vec<StateFact>,
    /// The place of the operation; `None` of one that is not kept.
    operation: Option<u16>,
}

impl<'w> Facts<'w> {
    #[inline]
    pub(super) fn new(list: &'w mut Vec<StateFact>, operation: Option<usize>) -> Facts<'w> {
        Facts { list, operation: operation.and_then(|place| u16::try_from(place).ok()) }
    }

    /// Keeps one.
    #[inline]
    pub(super) fn add(&mut self, said: Said) {
        if let Some(operation) = self.operation
            && self.list.len() < StateFact::MOST
        {
            self.list.push(StateFact { operation, said });
        }
    }
}

impl Walk<'_, '_> {
    /// A stateid of the arguments.
    #[inline]
    pub(super) fn names(&mut self) -> Outcome {
        let id = self.sixteen()?;
        self.facts.add(Said::Names(id));
        Ok(())
    }

    /// A stateid of the results.
    #[inline]
    pub(super) fn gives(&mut self) -> Outcome {
        let id = self.sixteen()?;
        self.facts.add(Said::Gives(id));
        Ok(())
    }

    /// A client ID of the arguments.
    pub(super) fn client(&mut self) -> Outcome {
        let client = self.payload.u64()?;
        self.facts.add(Said::Client(client));
        Ok(())
    }

    /// A session ID of the arguments.
    pub(super) fn session_id(&mut self) -> Outcome {
        let session = self.sixteen()?;
        self.facts.add(Said::Session(session));
        Ok(())
    }

    /// A `client_owner4`, or an `nfs_client_id4`.
    pub(super) fn client_owner(&mut self) -> Outcome {
        let verifier = self.payload.u64()?;
        let owner = hash(&[self.payload.opaque()?]);
        self.facts.add(Said::Owner { owner, verifier });
        Ok(())
    }

    /// A `state_owner4`; returns its client ID.
    pub(super) fn state_owner(&mut self) -> Result<u64, Stop> {
        let client = self.payload.u64()?;
        self.payload.opaque()?;
        Ok(client)
    }

    /// A `lock_owner4`; returns a hash of its owner.
    pub(super) fn lock_owner(&mut self) -> Result<u64, Stop> {
        self.payload.u64()?;
        Ok(hash(&[self.payload.opaque()?]))
    }

    /// share_access and share_deny.
    pub(super) fn shares(&mut self) -> Outcome {
        let (access, deny) = (self.u32()?, self.u32()?);
        self.facts.add(Said::Shares { access, deny });
        Ok(())
    }

    /// so_major_id of a `server_owner4`, and the server scope behind it.
    pub(super) fn server(&mut self) -> Outcome {
        let (major, scope) = (self.payload.opaque()?, self.payload.opaque()?);
        self.facts.add(Said::Server(hash(&[major, scope])));
        Ok(())
    }

    /// A counted array of stateids.
    pub(super) fn names_each(&mut self) -> Outcome {
        // An array that does not fit is not read at all.
        let mut within = *self.payload;
        let count = self.payload.array(16)?;
        within.u32()?;
        for _ in 0..count.min(StateFact::MOST as u32) {
            let id = *within.fixed(16)?.first_chunk().expect("that many were asked for");
            self.facts.add(Said::Names(id));
        }
        Ok(())
    }

    /// The statuses of TEST_STATEID.
    pub(super) fn tested(&mut self) -> Outcome {
        let mut within = *self.payload;
        let count = self.payload.array(4)?;
        within.u32()?;
        for index in 0..count.min(StateFact::MOST as u32) {
            let status = within.u32()?;
            if status != 0 {
                self.facts.add(Said::Tested { index, status });
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

/// A hash of several texts. Where one ends and the next begins counts.
fn hash(texts: &[&[u8]]) -> u64 {
    foldhash::quality::FixedState::default().hash_one(texts)
}

#[cfg(test)]
mod tests;
