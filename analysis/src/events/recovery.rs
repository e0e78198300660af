//! NFSv4 calls that set up client ID, session and state again.

use super::facts::Run;
use crate::names::{Failure, FailureName, Protocol};
use crate::units::Counted;
use rdmascope_dissector::record::Seen;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{FactKind, Nfs4, OperationKind, StateFact};
use rdmascope_wire::nfs::open_claim_type4;

/// The calls that set up client ID and session.
const CALLS: [(Nfs4, &str); 6] = [
    (Nfs4::ExchangeId, "EXCHANGE_ID"),
    (Nfs4::CreateSession, "CREATE_SESSION"),
    (Nfs4::BindConnToSession, "BIND_CONN_TO_SESSION"),
    (Nfs4::ReclaimComplete, "RECLAIM_COMPLETE"),
    (Nfs4::Setclientid, "SETCLIENTID"),
    (Nfs4::SetclientidConfirm, "SETCLIENTID_CONFIRM"),
];

/// The recovery on one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    calls: [u64; CALLS.len()],
    /// OPENs and LOCKs that reclaimed state.
    reclaimed: u64,
    /// Those that the server refused, and the first reason.
    refused: u64,
    reason: Option<(Failure, Option<Protocol>)>,
    run: Option<Run>,
}

impl Recovery {
    /// Takes a transaction with this call and reply.
    pub(super) fn add(&mut self, transaction: &Transaction, call: Seen, reply: Option<Seen>) {
        let details = &transaction.details;
        let mut counts = 0;
        for operation in &details.operations {
            let OperationKind::Nfs4(kind) = operation.kind else { continue };
            if let Some(index) = CALLS.iter().position(|(known, _)| *known == kind) {
                self.calls[index] += 1;
                counts += 1;
            }
        }
        for fact in details.states.iter().filter(|fact| reclaims(fact)) {
            let operation = details.operations.get(usize::from(fact.operation));
            let status = operation.and_then(|operation| operation.status);
            counts += u64::from(status.is_some_and(|status| self.reclaimed(status, transaction)));
        }
        if counts > 0 {
            Run::add(&mut self.run, call);
            if let (Some(run), Some(reply)) = (&mut self.run, reply) {
                run.last = reply;
            }
        }
    }

    /// Counts a reclaim with this status, unless the client has to ask again.
    fn reclaimed(&mut self, status: u32, transaction: &Transaction) -> bool {
        let (failure, protocol) = (Failure::Status(status), Protocol::of(transaction));
        if failure.is_delay(protocol) {
            return false;
        }
        self.reclaimed += u64::from(status == 0);
        if status != 0 {
            self.refused += 1;
            self.reason.get_or_insert((failure, protocol));
        }
        true
    }

    /// The calls from the first one to the last reply, and their description.
    pub(super) fn summary(&self) -> Option<(Run, String)> {
        let named = CALLS.iter().zip(self.calls).filter(|(_, count)| *count > 0);
        let mut parts: Vec<String> = named.map(|((_, name), count)| format!("{count} {name}")).collect();
        if self.reclaimed > 0 {
            parts.push(format!("{} granted", Counted(self.reclaimed, "reclaim")));
        }
        if let Some((failure, protocol)) = self.reason {
            let refused = Counted(self.refused, "reclaim");
            parts.push(format!("{refused} refused with {}", FailureName(failure, protocol)));
        }
        let count = self.calls.iter().sum::<u64>() + self.reclaimed + self.refused;
        Some((Run { count, ..self.run? }, format!("recovery: {}", parts.join(", "))))
    }
}

/// Whether an operation reclaims state that the server lost.
fn reclaims(fact: &StateFact) -> bool {
    matches!(
        fact.kind,
        FactKind::Open { claim: open_claim_type4::PREVIOUS, .. } | FactKind::Lock { reclaims: true, .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::Capture;

    /// The client asks again after NFS4ERR_GRACE. An OPEN by name reclaims nothing.
    #[test]
    fn reclaims_are_granted_or_refused() {
        let open = "22 'file';18 1 1 0 h7 'owner' 0 1 0";
        let mut capture = Capture::new(1);
        capture.mounted().on(open, "22 0;18 10013").on(open, "22 0;18 0 1 0 0 5 0 h0 h0 4 0 0");
        capture.on("22 'file';12 2 1 h0 h9 1 1 1 0 0 5 1 h7 'owner'", "22 0;12 10034");
        capture.on(open, "22 0;18 10033");
        capture.on("22 'folder';18 1 1 0 h7 'owner' 0 0 'name'", "22 0;18 10033");
        let mut recovery = Recovery::default();
        for transaction in &capture.transactions {
            let [call, reply] = [&transaction.call, &transaction.reply];
            let seen = call.as_ref().expect("it has a call").seen;
            recovery.add(transaction, seen, reply.as_ref().map(|reply| reply.seen));
        }
        let (run, text) = recovery.summary().expect("there was a recovery");
        assert_eq!(
            text,
            "recovery: 1 EXCHANGE_ID, 1 CREATE_SESSION, 1 reclaim granted, 2 reclaims refused with \
             NFS4ERR_RECLAIM_BAD (10034)"
        );
        // The last reclaim is the sixth transaction.
        assert_eq!((run.count, run.last.frame), (5, 62));
        assert!(Recovery::default().summary().is_none());
    }
}
