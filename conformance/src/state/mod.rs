//! State of NFS version 4.1 and later: stateids, sessions and client IDs behind their end, and reclaiming (RFC 8881, sections 8.2, 18.37, 18.50
//! and 18.51).
//!
//! A capture may lack any operation, and with it a whole connection of a session. So a rule here rests on what two replies of the server say, and
//! on nothing that lies between them: an old sequence number of a stateid stays old whatever happened meanwhile, and a server that lets a client complete its
//! reclaims was not told so before. State is followed over all connections, in [`table::StateTable`]; what is wrong with a transaction is left with its
//! connection for the rules.

mod files;
mod grants;
mod moment;
pub(crate) mod table;

use super::check::{Check, Checked, Findings, View};
use super::finding::Finding;
use super::known::{Known, Memory};
use super::rule::{Document, Level, Source, Unseen};
use alloc::vec::Vec;
use rdmascope_dissector::transaction::Transaction;

const STRUCTURE: Source = Source { document: Document::Rfc8881, section: "8.2.2" };
const LIFETIME: Source = Source { document: Document::Rfc8881, section: "8.2.4" };
const DELEGATIONS: Source = Source { document: Document::Rfc8881, section: "10.4" };
const CLOSE: Source = Source { document: Document::Rfc8881, section: "18.2" };
const DELEGRETURN: Source = Source { document: Document::Rfc8881, section: "18.6" };
const FREE_STATEID: Source = Source { document: Document::Rfc8881, section: "18.38" };
const DESTROY_SESSION: Source = Source { document: Document::Rfc8881, section: "18.37" };
const DESTROY_CLIENTID: Source = Source { document: Document::Rfc8881, section: "18.50" };
const RECLAIM_COMPLETE: Source = Source { document: Document::Rfc8881, section: "18.51" };

pub(crate) const RULES: &[Checked<StateUse>] = &[
    Checked {
        id: "state-ended-stateid",
        level: Level::Violation,
        sources: &[LIFETIME, CLOSE, DELEGRETURN, FREE_STATEID],
        sentence: "A server refuses a stateid that was closed, returned or freed.",
        explanation: "The server accepted CLOSE, DELEGRETURN or FREE_STATEID, and later an operation that names the same stateid: the same client \
            sent it behind the reply, on the same slot, or further behind than captures reorder packets. A server may give out a stateid \
            again for the same purpose, but its sequence number goes on then. So the finding stands where the operation names a number that was there before the end. With \
            number 0, which stands for the latest one, the capture may lack where it was given out again, and the finding is inconclusive. \
            TEST_STATEID and FREE_STATEID are not looked at. Nothing is found in a stateid whose end the capture does not show.",
        check: Check::Transaction(|_, view, findings| report(Kind::Ended, view, findings)),
    },
    Checked {
        id: "state-stateid-sequence",
        level: Level::Violation,
        sources: &[STRUCTURE, LIFETIME],
        sentence: "The sequence number of a stateid never goes back.",
        explanation: "It counts the changes of what the stateid stands for, and goes on where a server gives out a stateid again. The rule looks at \
            the stateids that OPEN, OPEN_DOWNGRADE, LOCK, LOCKU, LAYOUTGET, LAYOUTRETURN and the operations that give delegations return. The number is lower than the one that the same operation named, or than \
            one in a reply in front of which the request was not sent: on the same slot, or further behind than captures reorder packets. Behind 4294967295 comes \
            1. The same number twice is no finding.",
        check: Check::Transaction(|_, view, findings| report(Kind::Back, view, findings)),
    },
    Checked {
        id: "state-stateid-old",
        level: Level::Violation,
        sources: &[STRUCTURE],
        sentence: "A server refuses an old sequence number of a stateid.",
        explanation: "It answers with NFS4ERR_OLD_STATEID. The number is lower than one in a reply behind which the request was sent: on the same slot, or further behind than captures \
            reorder packets. Number 0 stands for the latest one, and operations on layouts may name an old one; neither is looked at. Nor are TEST_STATEID and FREE_STATEID. It is reported \
            once for a number.",
        check: Check::Transaction(|_, view, findings| report(Kind::Old, view, findings)),
    },
    Checked {
        id: "state-stateid-file",
        level: Level::Warning,
        sources: &[STRUCTURE, LIFETIME],
        sentence: "A server accepts a stateid with the file that it stands for only.",
        explanation: "The same twelve bytes are never used again for another file of the client. The rule looks at operations of one session that succeed behind PUTFH: READ, WRITE, CLOSE, OPEN_DOWNGRADE, LOCK, LOCKU, DELEGRETURN, \
            LAYOUTGET, LAYOUTCOMMIT and LAYOUTRETURN. It is a warning, because a server may have two file handles for one file (section 4.2.1), which a capture does not show.",
        check: Check::Transaction(|_, view, findings| report(Kind::File, view, findings)),
    },
    Checked {
        id: "state-lock-conflict",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc8881, section: "9.1" },
            Source { document: Document::Rfc8881, section: "18.10" },
        ],
        sentence: "A server grants no lock that conflicts with one of another lock-owner.",
        explanation: "The finding stands where the capture shows three replies: one lock-owner is granted a lock, then another one that overlaps and is not only for reading is granted to another lock-owner of the same file handle, and then \
            the server accepts the stateid of the first lock with the sequence number that came with it. LOCK and LOCKU increment that number (section 8.2.1), and what was revoked is refused: so the first lock was held all the time. Each request \
            came behind the reply before it, on the same slot or further behind than captures reorder packets. Lock-owners are told apart by their bytes alone, so two clients with the same bytes are taken for one.",
        check: Check::Transaction(|_, view, findings| report(Kind::LockConflict, view, findings)),
    },
    Checked {
        id: "state-delegation-conflict",
        level: Level::Violation,
        sources: &[DELEGATIONS, Source { document: Document::Rfc8881, section: "18.16" }],
        sentence: "A server gives no delegation that conflicts with what another client has, and opens no file before such a delegation is back.",
        explanation: "The finding stands where the capture shows three replies: OPEN gives a client a delegation, or the file open; then OPEN gives another client the same file open or a delegation of it, where one of the two is a delegation, and one \
            of the two is for writing; and then the server accepts the first stateid with the sequence number that came with it, so that it was neither given back nor revoked. DELEGRETURN is no such evidence, because servers may accept it of a delegation \
            that they revoked. Each request came behind the reply before it, on the same slot or further behind than captures reorder packets. Clients are told apart by their client IDs, so the capture has to show CREATE_SESSION of both; the file is known \
            by the handle that GETFH returns behind OPEN. Delegations of WANT_DELEGATION, and OPENs that reclaim, are not looked at.",
        check: Check::Transaction(|_, view, findings| report(Kind::DelegationConflict, view, findings)),
    },
    Checked {
        id: "state-session-destroyed",
        level: Level::Violation,
        sources: &[DESTROY_SESSION, DESTROY_CLIENTID],
        sentence: "A server refuses a session that was destroyed, and destroys no client ID that has one.",
        explanation: "The server accepted DESTROY_SESSION for the session, or DESTROY_CLIENTID for its client ID, and later SEQUENCE on it, with the \
            sequence ID that comes next on its slot. So this is the session from before, and none that the capture does not show the creation of. Requests that came closer behind than captures \
            reorder packets are not looked at. It is reported once for a session.",
        check: Check::Transaction(|_, view, findings| report(Kind::Destroyed, view, findings)),
    },
    Checked {
        id: "state-reclaim-complete",
        level: Level::Violation,
        sources: &[RECLAIM_COMPLETE],
        sentence: "A client with a new client ID sends RECLAIM_COMPLETE before it opens a file that it does not reclaim.",
        explanation: "The finding stands where an OPEN with CLAIM_NULL or CLAIM_FH succeeded, and a RECLAIM_COMPLETE of the same session that was sent behind its reply succeeded too: \
            the server would have refused a second one with NFS4ERR_COMPLETE_ALREADY. RECLAIM_COMPLETE of one file system (rca_one_fs) does not count. Where the session was created and destroyed and no RECLAIM_COMPLETE was seen, \
            it may have gone over a connection that was not captured, and the finding is inconclusive. Where the capture lacks a packet of the client, nothing is found then.",
        check: Check::Transaction(|_, view, findings| report(Kind::Late, view, findings)),
    },
    Checked {
        id: "state-reclaim-repeated",
        level: Level::Violation,
        sources: &[RECLAIM_COMPLETE],
        sentence: "A server accepts one RECLAIM_COMPLETE for a client ID.",
        explanation: "The second one is answered with NFS4ERR_COMPLETE_ALREADY. The rule is broken by two that succeeded in one session. A request that was sent again on its slot is the same one, and \
            RECLAIM_COMPLETE of one file system (rca_one_fs) does not count.",
        check: Check::Transaction(|_, view, findings| report(Kind::Repeated, view, findings)),
    },
    Checked {
        id: "state-recall-revoked",
        level: Level::Warning,
        sources: &[
            DELEGATIONS,
            Source { document: Document::Rfc8881, section: "15.1.5" },
            Source { document: Document::Rfc8881, section: "20.2" },
        ],
        sentence: "A client returns a delegation or layout that was recalled before the server revokes it.",
        explanation: "NFS4ERR_DELEG_REVOKED says that it did not. It is reported once for a stateid. The finding stands where the capture shows that the client accepted the recall. Else the recall may \
            not have come to it, and the finding is inconclusive. How long a client has is up to the server, so this is a warning.",
        check: Check::Transaction(|_, view, findings| report(Kind::Revoked, view, findings)),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: LIFETIME,
    requirement: "A client names no stateid behind its end.",
    reason: "When the reply with which it ended came to the client is not seen where a packet was lost behind the place of the capture. The server's answer is judged.",
}];

/// What is wrong with the transaction that ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateUse {
    pub(crate) faults: Vec<Fault>,
}

/// What is wrong with the use of state.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) finding: Finding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ended,
    Back,
    Old,
    File,
    LockConflict,
    DelegationConflict,
    Destroyed,
    Late,
    Repeated,
    Revoked,
}

impl Memory for StateUse {
    fn footprint(&self) -> usize {
        self.faults.iter().map(|fault| fault.finding.footprint() + size_of::<Kind>()).sum()
    }

    fn transaction(&mut self, _: &Transaction, _: &Known) {
        self.faults.clear();
    }

    fn joined(&mut self) {
        self.faults.clear();
    }
}

fn report(kind: Kind, view: &View<'_, StateUse>, findings: &mut Findings<'_>) {
    for fault in view.memory.faults.iter().filter(|fault| fault.kind == kind) {
        findings.add(fault.finding.clone());
    }
}
