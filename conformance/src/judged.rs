//! Findings about the Sends and transactions that the engine reports, and accessors of rules on a
//! Send.

use super::finding::{Basis, Finding};
use super::known::Known;
use alloc::string::String;
use rdmascope_dissector::observation::{Kind, Sent};
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_wire::Xid;

/// A Send as rules read it.
pub(crate) trait Judged {
    /// rdma_xid; `None` if the Send is too short to have one.
    fn xid(&self) -> Option<Xid>;

    /// The direction of its transaction; `None` if unknown.
    fn direction(&self, known: &Known) -> Option<Direction>;

    /// rdma_credit of a call: the credits requested.
    fn request(&self) -> Option<u32>;

    /// rdma_credit of a reply or an RDMA_ERROR: the credits granted.
    fn grant(&self) -> Option<u32>;

    /// A finding against its sender, with its packets as evidence.
    fn finding(&self, known: &Known, message: impl Into<String>) -> Finding;
}

impl Judged for Sent<'_> {
    fn xid(&self) -> Option<Xid> {
        self.header.map(|header| header.xid)
    }

    fn direction(&self, known: &Known) -> Option<Direction> {
        match self.kind {
            Kind::Call | Kind::Done => Some(known.direction(self.from)),
            Kind::Reply | Kind::Error => Some(known.direction(self.from.other())),
            Kind::Other => None,
        }
    }

    fn request(&self) -> Option<u32> {
        self.header.filter(|_| self.is_explicit && self.kind == Kind::Call).map(|header| header.credits)
    }

    fn grant(&self) -> Option<u32> {
        let answers = matches!(self.kind, Kind::Reply | Kind::Error);
        self.header.filter(|_| self.is_explicit && answers).map(|header| header.credits)
    }

    fn finding(&self, known: &Known, message: impl Into<String>) -> Finding {
        Finding::new(message).by(self.from).about(self.direction(known), self.xid()).send(self.send)
    }
}

/// A finding about a transaction, with call and reply as evidence.
pub(crate) fn about(transaction: &Transaction, message: impl Into<String>) -> Finding {
    let messages = [&transaction.call, &transaction.reply].into_iter().flatten();
    messages.fold(Finding::new(message).of(transaction), Finding::message)
}

/// A finding against the caller, with the call as evidence.
pub(crate) fn by_caller(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    let finding = Finding::new(message).by(known.caller(transaction.direction)).of(transaction);
    transaction.call.iter().fold(finding, Finding::message)
}

/// A finding against the answerer, with the reply as evidence.
pub(crate) fn by_answerer(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    let finding = Finding::new(message).by(known.answerer(transaction.direction)).of(transaction);
    transaction.reply.iter().fold(finding, Finding::message)
}

/// A finding against the answerer, with call and reply as evidence.
pub(crate) fn on_answer(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    about(transaction, message).by(known.answerer(transaction.direction))
}

/// A finding against the answerer that depends on the reply answering its call.
pub(crate) fn paired(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    on_answer(transaction, known, message)
        .rests_on(Basis::Pairing(known.caller(transaction.direction)))
        .unless(transaction.lossy)
}

/// A finding against the answerer, with the last packets of call and reply as evidence.
pub(crate) fn about_reply(transaction: &Transaction, known: &Known, message: impl Into<String>) -> Finding {
    let messages = [&transaction.call, &transaction.reply].into_iter().flatten();
    Finding::new(message)
        .by(known.answerer(transaction.direction))
        .of(transaction)
        .frames(messages.map(|message| message.seen.frame))
}
