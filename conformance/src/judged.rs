//! Findings about the Sends and transactions that the engine reports.

use super::finding::{Basis, Finding};
use super::known::Known;
use alloc::string::String;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::Xid;

/// rdma_xid of a Send; `None` if it is too short to have one.
pub(crate) fn xid_of(sent: &Sent<'_>) -> Option<Xid> {
    sent.header.map(|header| header.xid)
}

/// A finding against the sender of a Send, with its packets as evidence.
pub(crate) fn by_sender(sent: &Sent<'_>, known: &Known, message: impl Into<String>) -> Finding {
    Finding::new(message).by(sent.from).about(known.direction_of(sent), xid_of(sent)).send(sent.send)
}

/// A finding about a transaction, with call and reply as evidence.
pub(crate) fn about(transaction: &Transaction, message: impl Into<String>) -> Finding {
    transaction.messages().fold(Finding::new(message).of(transaction), Finding::message)
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
    Finding::new(message)
        .by(known.answerer(transaction.direction))
        .of(transaction)
        .frames(transaction.messages().map(|message| message.seen.frame))
}
