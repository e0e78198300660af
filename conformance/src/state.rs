//! State of NFS version 4.1 and later: use of stateids, sessions and client IDs after their end,
//! and reclaiming (RFC 8881, sections 8.2, 18.37, 18.50 and 18.51).
//!
//! A capture may lack any operation, and even a whole connection of a session. The rules here
//! therefore depend only on two replies of the server, and on nothing in between: an old sequence
//! number of a stateid stays old whatever happened in the meantime, and a server that accepts
//! RECLAIM_COMPLETE has not accepted one before. [`table::StateTable`] follows state across all
//! connections, and leaves the faults of a transaction with its connection for the rules.

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
        explanation: "The rule is broken if the server accepted CLOSE, DELEGRETURN or \
            FREE_STATEID, and later an operation that names the same stateid. The client has to \
            have sent that operation after the reply: on the same slot, or so much later that the \
            capture cannot have reordered them. A server may reuse a stateid for the same \
            purpose, but its sequence number continues. The finding is therefore certain if the \
            operation names a number that existed before the end. With number 0, which means the \
            latest one, the capture may lack the reuse, and the finding is inconclusive. \
            TEST_STATEID and FREE_STATEID are not covered. Nothing is reported on a stateid whose \
            end the capture does not show.",
        check: Check::Transaction(|_, view, findings| report(Kind::Ended, view, findings)),
    },
    Checked {
        id: "state-stateid-sequence",
        level: Level::Violation,
        sources: &[STRUCTURE, LIFETIME],
        sentence: "The sequence number of a stateid never goes back.",
        explanation: "The number counts the changes of the state behind the stateid, and \
            continues if a server reuses the stateid. The rule covers the stateids returned by \
            OPEN, OPEN_DOWNGRADE, LOCK, LOCKU, LAYOUTGET, LAYOUTRETURN and the operations that \
            grant delegations. It is broken if the number is lower than the one that the same \
            operation named, or than one in an earlier reply that the request followed: on the \
            same slot, or so much later that the capture cannot have reordered them. 1 follows \
            4294967295. The same number twice is no finding.",
        check: Check::Transaction(|_, view, findings| report(Kind::Back, view, findings)),
    },
    Checked {
        id: "state-stateid-old",
        level: Level::Violation,
        sources: &[STRUCTURE],
        sentence: "A server refuses an old sequence number of a stateid.",
        explanation: "The correct answer is NFS4ERR_OLD_STATEID. The rule is broken if the number \
            is lower than one in an earlier reply that the request followed: on the same slot, or \
            so much later that the capture cannot have reordered them. Number 0 means the latest \
            one, and operations on layouts may name an old one; neither is covered, nor are \
            TEST_STATEID and FREE_STATEID. Each number is reported once.",
        check: Check::Transaction(|_, view, findings| report(Kind::Old, view, findings)),
    },
    Checked {
        id: "state-stateid-file",
        level: Level::Warning,
        sources: &[STRUCTURE, LIFETIME],
        sentence: "A server accepts a stateid only with the file that it belongs to.",
        explanation: "The same twelve bytes are never used again for another file of the client. \
            The rule covers operations of one session that succeed after PUTFH: READ, WRITE, \
            CLOSE, OPEN_DOWNGRADE, LOCK, LOCKU, DELEGRETURN, LAYOUTGET, LAYOUTCOMMIT and \
            LAYOUTRETURN. It is a warning, because a server may have two file handles for one \
            file (section 4.2.1), which a capture does not show.",
        check: Check::Transaction(|_, view, findings| report(Kind::File, view, findings)),
    },
    Checked {
        id: "state-lock-conflict",
        level: Level::Violation,
        sources: &[
            Source { document: Document::Rfc8881, section: "9.1" },
            Source { document: Document::Rfc8881, section: "18.10" },
        ],
        sentence: "A server grants no lock that conflicts with a lock of another lock-owner.",
        explanation: "The rule is broken if the capture shows three replies: one lock-owner is \
            granted a lock; then another lock-owner is granted an overlapping lock on the same \
            file handle, and at least one of the two is a write lock; and then the server accepts \
            the stateid of the first lock with the sequence number that came with it. LOCK and \
            LOCKU increment that number (section 8.2.1), and a revoked lock is refused, so the \
            first lock was held all the time. Each request followed the previous reply on the \
            same slot, or so much later that the capture cannot have reordered them. Lock-owners \
            are distinguished only by their bytes, so two clients with the same bytes count as \
            one.",
        check: Check::Transaction(|_, view, findings| report(Kind::LockConflict, view, findings)),
    },
    Checked {
        id: "state-delegation-conflict",
        level: Level::Violation,
        sources: &[DELEGATIONS, Source { document: Document::Rfc8881, section: "18.16" }],
        sentence: "A server grants no delegation that conflicts with an open or delegation of \
            another client, and opens no file before a conflicting delegation is returned.",
        explanation: "The rule is broken if the capture shows three replies: OPEN gives a client \
            a delegation or an open file; then OPEN gives another client the same file open, or a \
            delegation of it, where one of the two is a delegation and one of the two is for \
            writing; and then the server accepts the first stateid with the sequence number that \
            came with it, so it was neither returned nor revoked. DELEGRETURN is no such \
            evidence, because servers may accept it for a delegation that they revoked. Each \
            request followed the previous reply on the same slot, or so much later that the \
            capture cannot have reordered them. Clients are distinguished by their client IDs, so \
            the capture has to contain the CREATE_SESSION of both; the file is identified by the \
            handle that GETFH returns after OPEN. Delegations of WANT_DELEGATION, and OPENs that \
            reclaim, are not covered.",
        check: Check::Transaction(|_, view, findings| report(Kind::DelegationConflict, view, findings)),
    },
    Checked {
        id: "state-session-destroyed",
        level: Level::Violation,
        sources: &[DESTROY_SESSION, DESTROY_CLIENTID],
        sentence: "A server refuses a destroyed session, and destroys no client ID that has a \
            session.",
        explanation: "The rule is broken if the server accepted DESTROY_SESSION for the session, \
            or DESTROY_CLIENTID for its client ID, and later SEQUENCE on it with the next \
            sequence ID of its slot. That sequence ID shows that it is the earlier session, and \
            not a new one whose creation the capture lacks. A sequence ID that is not higher than \
            those before the end shows a new session with the same ID. Requests so soon after the reply that \
            the capture may have reordered them are not covered. Each session is reported once.",
        check: Check::Transaction(|_, view, findings| report(Kind::Destroyed, view, findings)),
    },
    Checked {
        id: "state-reclaim-complete",
        level: Level::Violation,
        sources: &[RECLAIM_COMPLETE],
        sentence: "A client with a new client ID sends RECLAIM_COMPLETE before it opens a file \
            that it does not reclaim.",
        explanation: "The finding is certain if an OPEN with CLAIM_NULL or CLAIM_FH succeeded, \
            and a RECLAIM_COMPLETE of the same session, sent after the reply to the OPEN, \
            succeeded too: the server would have refused a second one with \
            NFS4ERR_COMPLETE_ALREADY. RECLAIM_COMPLETE of one file system (rca_one_fs) does not \
            count. If the capture contains the creation and the destruction of the session but no \
            RECLAIM_COMPLETE, that may have used a connection that was not captured, and the \
            finding is inconclusive. In that case nothing is reported if the capture lacks a \
            packet of the client.",
        check: Check::Transaction(|_, view, findings| report(Kind::Late, view, findings)),
    },
    Checked {
        id: "state-reclaim-repeated",
        level: Level::Violation,
        sources: &[RECLAIM_COMPLETE],
        sentence: "A server accepts only one RECLAIM_COMPLETE for a client ID.",
        explanation: "The second one is answered with NFS4ERR_COMPLETE_ALREADY. The rule is \
            broken by two that succeeded in one session. A request that was retransmitted on its \
            slot counts once, and RECLAIM_COMPLETE of one file system (rca_one_fs) does not \
            count.",
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
        sentence: "A client returns a recalled delegation or layout before the server revokes it.",
        explanation: "NFS4ERR_DELEG_REVOKED shows that the client did not. Each stateid is \
            reported once. The finding is certain if the capture shows that the client accepted \
            the recall within a second. Otherwise the recall may not have reached it in time, and \
            the finding is inconclusive. The server decides how much time a client has, so the \
            rule is a warning.",
        check: Check::Transaction(|_, view, findings| report(Kind::Revoked, view, findings)),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: LIFETIME,
    requirement: "A client names no stateid after its end.",
    reason: "The time at which the client received the reply that ended the stateid is unknown, \
        because a packet may be lost after the capture point. The server's answer is judged \
        instead.",
}];

/// The faults of the transaction that ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateUse {
    pub(crate) faults: Vec<Fault>,
}

/// A fault in the use of state.
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
